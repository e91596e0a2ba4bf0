// The private mean of private_sum.c, from Rust through its own foreign-function interface:
//
//     rustc private_sum.rs -L "$(pkg-config --variable=libdir fastpubpriv)" && ./private_sum
//
// Rust has no header to read, so the few declarations below repeat fpp.h; `fpp_abi_version` and `fpp_row_map_size` tell whether
// they still hold.
use std::ffi::c_void;
use std::fs::File;
use std::io::Read;
use std::mem;
use std::ptr;

const ABI_VERSION: i32 = 4;
const ROWS: usize = 100_000;
const COLUMNS: usize = 3;
const LOG2_SCALE: i32 = 22;

#[repr(C)]
struct RowMap {
    dim: i64,
    out_dim: i64,
    quant_bound: i64,
    matrix_kind: i32,
    center: *const f64,
    matrix: *const f64,
    offset: *const f64,
    inv_step: f64,
    limit: f64,
    score: *const c_void,
}

#[link(name = "fastpubpriv")]
extern "C" {
    fn fpp_abi_version() -> i32;
    fn fpp_row_map_size() -> i64;
    fn fpp_rows_workspace_size(map: *const RowMap) -> i64;
    fn fpp_rows_sum(x: *const c_void, is_f32: i32, n: i64, row_stride: i64, map: *const RowMap, workspace: *mut c_void, sums: *mut i64) -> i32;
    fn fpp_gaussian_floor_i64(key: *const u8, begin: i64, end: i64, log2_scale: i32, out: *mut i64) -> i32;
}

/// A key serves one release. It comes from the operating system, never from a seed.
fn fresh_key() -> [u8; 32] {
    let mut key = [0u8; 32];
    File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut key)).expect("reading /dev/urandom");
    key
}

fn main() {
    let rows: Vec<f64> = (0..ROWS * COLUMNS).map(|at| ((at / COLUMNS) % 100) as f64 / 100.0 + (at % COLUMNS) as f64).collect();
    let center = [0.5, 1.5, 2.5];
    let map = Box::new(RowMap {
        dim: COLUMNS as i64,
        out_dim: COLUMNS as i64,
        quant_bound: 1 << 20,
        matrix_kind: 0,
        center: center.as_ptr(),
        matrix: ptr::null(),
        offset: ptr::null(),
        inv_step: 1_048_570.0,
        limit: 1_048_570.0,
        score: ptr::null(),
    });
    let (mut sums, mut noise) = ([0i64; COLUMNS], [0i64; COLUMNS]);
    let key = fresh_key();
    // The library is a set of pure functions: it keeps none of these pointers, and writes only to the last two arguments.
    unsafe {
        assert_eq!(fpp_abi_version(), ABI_VERSION, "the library has another interface");
        assert_eq!(fpp_row_map_size(), mem::size_of::<RowMap>() as i64, "the library has another RowMap");
        let bytes = fpp_rows_workspace_size(&*map);
        assert!(bytes >= 0);
        let mut workspace = vec![0u8; bytes as usize];
        let status =
            fpp_rows_sum(rows.as_ptr().cast(), 0, ROWS as i64, COLUMNS as i64, &*map, workspace.as_mut_ptr().cast(), sums.as_mut_ptr());
        assert_eq!(status, 0);
        assert_eq!(fpp_gaussian_floor_i64(key.as_ptr(), 0, COLUMNS as i64, LOG2_SCALE, noise.as_mut_ptr()), 0);
    }
    for j in 0..COLUMNS {
        let noisy = ((sums[j] + noise[j]) as f64 + 0.5) / map.inv_step;
        println!("mean of column {j}: {:.4}", center[j] + noisy / ROWS as f64);
    }
}
