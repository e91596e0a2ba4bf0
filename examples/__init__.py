"""Programs that use the library from C, Rust, Numba and Python."""
