"""log and exp: the same bits on every processor, equal to their twins, near the exact values."""

import os
import subprocess
import sys

import numpy as np
import pytest
from twins import elementary as twin

from fastpubpriv.kernels import elementary

ENDS = [
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    5e-324,
    2.0**-1022,
    1.0,
    -1.0,
    709.782712893384,
    710.0,
    -745.2,
]


def numbers():
    rng = np.random.default_rng(0)
    anything = rng.integers(0, 2**64, 20_000, dtype=np.uint64).view(np.float64)
    near_one = 1.0 + 1e-3 * rng.normal(size=20_000)
    return np.concatenate([anything, near_one, rng.uniform(-746.0, 710.0, 20_000), ENDS])


@pytest.mark.parametrize("name", ["log", "exp"])
def test_equals_twin(name):
    x = numbers()
    found = getattr(elementary, name)(x)
    wanted = getattr(twin, name)(x)
    known = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.isnan(found), ~known)
    np.testing.assert_array_equal(found[known].view(np.int64), wanted[known].view(np.int64))


@pytest.mark.parametrize("name", ["log", "exp"])
def test_is_within_one_unit_of_the_exact_value(name):
    x = numbers()
    x = x[np.isfinite(x) & ((x > 0.0) | (name == "exp"))]
    with np.errstate(all="ignore"):
        exact = getattr(np, name)(x.astype(np.longdouble))
        found = getattr(elementary, name)(x)
        kept = np.isfinite(found) & (found != 0.0)
        unit = np.spacing(np.abs(exact[kept].astype(np.float64)))
    # Measured: .82 of both. A long double that is a double adds the error of libm.
    most = 0.9 if np.finfo(np.longdouble).nmant > 52 else 1.9
    assert float((np.abs(found[kept] - exact[kept]) / unit).max()) < most


def test_shapes_and_strides():
    x = numbers()[:999].reshape(-1, 3)
    np.testing.assert_array_equal(elementary.log(x[::2, 1]), elementary.log(x)[::2, 1])
    assert elementary.exp(np.float64(0.0)).shape == ()


BITS = """
import hashlib, numpy as np
from fastpubpriv.kernels import elementary
x = np.random.default_rng(1).uniform(1e-3, 700.0, 400_000)
for log, exp in ((elementary.log, elementary.exp), (np.log, np.exp)):
    print(hashlib.sha256(log(x).tobytes() + exp(x).tobytes()).hexdigest())
"""


def bits(**more):
    """Hashes of log and exp of many numbers in a fresh interpreter: of the library, and of NumPy."""
    run = [sys.executable, "-W", "ignore", "-c", BITS]
    return subprocess.run(
        run, env={**os.environ, **more}, capture_output=True, text=True, check=True
    ).stdout.split()


def test_the_same_bits_without_wide_instructions_and_planted_numpy_has_others():
    features = "X86_V4 X86_V3 AVX512_SKX AVX512F AVX2 FMA3 AVX512_ICL AVX512_SPR"
    known = np._core._multiarray_umath.__cpu_features__
    dispatched = np._core._multiarray_umath.__cpu_dispatch__
    off = [name for name in features.split() if known.get(name) and name in dispatched]
    if not off:
        pytest.skip("NumPy has one set of instructions here")
    usual = bits()
    narrow = bits(NPY_DISABLE_CPU_FEATURES=" ".join(off))
    assert usual[0] == narrow[0]
    if known.get("AVX512_SKX"):
        assert usual[1] != narrow[1]  # NumPy's own, planted
