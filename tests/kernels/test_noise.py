"""The compiled samplers give the integers of their Python twins, at every instruction set, however a range is cut."""

import csv
import hashlib
from pathlib import Path

import numpy as np
import pytest
from twins import sampler

from fastpubpriv.errors import KernelError
from fastpubpriv.kernels import noise
from fastpubpriv.kernels._cbuf import check, inp, out
from fastpubpriv.kernels._cext import ffi, lib

LEVELS = range(lib.fpp_isa_detect() + 1)
LAWS = {"gaussian_floor": 0, "discrete_laplace": 1}
KEY = bytes(range(7, 39))
GOLDEN = Path(__file__).parents[1] / "golden" / "noise_streams.csv"
GOLDEN_KEY = bytes(range(100, 132))
CASES = [
    *[(law, m) for law in LAWS for m in (8, 9, 19, 27, 40)],
    ("uniform",),
    *[("below", bound) for bound in (1, 2, 1000, 2**61 + 3, 2**63 - 1)],
]


def forced(key, count, law, log2_scale, window_log2):
    draws = np.empty(count, dtype=np.int64)
    key_in = inp(np.frombuffer(key, dtype=np.uint8))
    check(lib.fpp_test_noise_i64(key_in, 0, count, law, log2_scale, window_log2, out(draws)))
    return draws


@pytest.mark.parametrize("case", CASES, ids=str)
def test_equals_twin(case):
    name, *args = case
    fast, slow = getattr(noise, name)(KEY, 2500, *args), getattr(sampler, name)(KEY, 2500, *args)
    assert fast.dtype == slow.dtype
    assert np.array_equal(fast, slow)


@pytest.mark.parametrize("seed", range(3))
def test_equals_twin_far_along_the_range(seed):
    key, begin = np.random.default_rng(seed).bytes(32), 1024 * (2**40 + seed)
    for name, *args in (("gaussian_floor", 40), ("discrete_laplace", 8), ("below", 12345)):
        fast = getattr(noise, name)(key, 1100, *args, begin=begin)
        assert np.array_equal(fast, getattr(sampler, name)(key, 1100, *args, begin=begin))


@pytest.mark.parametrize("n", [0, 1, 2, 1023, 1024, 1025, 4000])
def test_permutation_equals_twin_and_is_one(n):
    order = noise.permutation(KEY, n)
    assert np.array_equal(order, sampler.permutation(KEY, n))
    assert np.array_equal(np.sort(order), np.arange(n))


def test_golden_streams(isa):
    rows = list(csv.reader(GOLDEN.read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 25
    for name, *args, digest in rows:
        values = [int(a) for a in args]
        draws = getattr(noise, name)(GOLDEN_KEY, 5000, *values)
        little = draws.astype(draws.dtype.newbyteorder("<")).tobytes()
        assert hashlib.sha256(little).hexdigest() == digest, (name, args)


@pytest.mark.parametrize("case", [c for c in CASES if c[0] in LAWS], ids=str)
def test_same_bits_at_every_isa(case):
    name, *args = case
    results = []
    for level in LEVELS:
        lib.fpp_isa_limit(level)
        results.append(getattr(noise, name)(KEY, 200_001, *args))
    lib.fpp_isa_limit(lib.FPP_ISA_AVX512)
    assert all(np.array_equal(results[0], other) for other in results[1:])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cutting_a_range_changes_nothing(case):
    name, *args = case
    draw = getattr(noise, name)
    whole = draw(KEY, 10_000, *args)
    pieces = [draw(KEY, 1024, *args), draw(KEY, 4096, *args, begin=1024), draw(KEY, 4880, *args, begin=5120)]
    assert np.array_equal(whole, np.concatenate(pieces))
    for count in (0, 1, 7, 8, 9, 1023, 1025):
        assert np.array_equal(draw(KEY, count, *args), whole[:count])


@pytest.mark.parametrize("window_log2", [-1, -4, -12])
@pytest.mark.parametrize("log2_scale", [8, 12, 40])
@pytest.mark.parametrize("law", LAWS)
def test_slow_exact_path_gives_the_ordinary_bits(law, log2_scale, window_log2, isa):
    count = 200_000 if window_log2 != -4 else 1_000_000
    ordinary = getattr(noise, law)(KEY, count, log2_scale)
    assert np.array_equal(forced(KEY, count, LAWS[law], log2_scale, window_log2), ordinary)


def test_production_window_is_the_default_of_the_hook():
    assert np.array_equal(forced(KEY, 5000, 0, 20, 0), noise.gaussian_floor(KEY, 5000, 20))


def test_kinds_and_keys_do_not_share_streams():
    other = bytes(range(8, 40))
    streams = [noise.uniform(KEY, 1000), noise.uniform(other, 1000), noise.uniform(KEY, 1000, begin=1024)]
    streams += [noise.below(KEY, 1000, 2**53) * 2.0**-53, noise.gaussian_floor(KEY, 1000, 40) * 2.0**-40]
    assert np.abs(np.corrcoef(streams) - np.eye(5)).max() < 0.2


BAD_CALLS = [
    ("gaussian_floor", (KEY, 10, 7)),
    ("gaussian_floor", (KEY, 10, 41)),
    ("gaussian_floor", (KEY, 10, 2**32 + 8)),
    ("gaussian_floor", (KEY, -1, 8)),
    ("discrete_laplace", (KEY, 10, 7)),
    ("discrete_laplace", (KEY, 10, -(2**40))),
    ("gaussian_floor", (KEY[:31], 10, 8)),
    ("uniform", (KEY + b"x", 10)),
    ("uniform", (bytearray(KEY), 10)),
    ("below", (KEY, 10, 0)),
    ("below", (KEY, 10, 2**63)),
    ("permutation", (KEY, -1)),
]


@pytest.mark.parametrize(("name", "args"), BAD_CALLS, ids=str)
def test_bad_arguments_raise(name, args):
    with pytest.raises(KernelError):
        getattr(noise, name)(*args)


def test_begin_must_be_on_a_block():
    with pytest.raises(KernelError):
        noise.uniform(KEY, 10, begin=1)
    with pytest.raises(KernelError):
        noise.gaussian_floor(KEY, 10, 8, begin=-1024)


def test_hook_refuses_windows_narrower_than_production():
    draws, key = np.empty(8, dtype=np.int64), inp(np.frombuffer(KEY, dtype=np.uint8))
    for law, window in ((2, -4), (-1, -4), (0, -35), (0, 1)):
        assert lib.fpp_test_noise_i64(key, 0, 8, law, 8, window, out(draws)) == lib.FPP_ERR_ARGUMENT
    assert lib.fpp_gaussian_floor_i64(ffi.NULL, 0, 8, 8, out(draws)) == lib.FPP_ERR_ARGUMENT
    assert lib.fpp_gaussian_floor_i64(key, 0, 8, 8, ffi.NULL) == lib.FPP_ERR_ARGUMENT


@pytest.mark.parametrize("log2_scale", [8, 40])
def test_magnitudes_stay_inside_the_cut(log2_scale):
    assert np.abs(noise.gaussian_floor(KEY, 100_000, log2_scale)).max() <= 16 << log2_scale
    assert np.abs(noise.discrete_laplace(KEY, 100_000, log2_scale)).max() < 128 << log2_scale
