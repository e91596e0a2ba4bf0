"""The same seed gives the same bytes, whatever the threads, the order of the rows and the instruction set."""

import numpy as np
import pytest
from spies import seeded

from fastpubpriv import ZCDP, ApproxDP, PureDP, coinpress_mean, estimate_mean, weighted_mean
from fastpubpriv.kernels._cext import lib

N, DIM = 120_000, 9
PUBLIC = np.random.default_rng(2).standard_normal((60, DIM))
COVARIANCE = np.cov(np.random.default_rng(3).standard_normal((40, DIM)).T)
CALLS = {
    "identity, zcdp": lambda x, **o: estimate_mean(x, x_pub=PUBLIC, budget=ZCDP(0.5), **o),
    "matrix, approx": lambda x, **o: estimate_mean(
        x, x_pub=PUBLIC, covariance=COVARIANCE, budget=ApproxDP(1, 1e-9), steps=3, **o
    ),
    "public covariance, pure": lambda x, **o: estimate_mean(
        x, x_pub=PUBLIC, covariance="public", budget=PureDP(1), steps=1, **o
    ),
    "coinpress, diagonal": lambda x, **o: coinpress_mean(
        x, center=0, radius=20, variance=np.arange(1.0, DIM + 1), budget=ZCDP(1), **o
    ),
    "weighted": lambda x, **o: weighted_mean(x, x_pub=PUBLIC, norm_bound=4, center="public", budget=PureDP(1), **o),
}
pytestmark = [
    pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning"),
    pytest.mark.parametrize("call", CALLS.values(), ids=CALLS),
]


@pytest.fixture(scope="module")
def data():
    rows = np.random.default_rng(1).standard_normal((N, DIM)).astype(np.float32).astype(np.float64)
    rows[17] = np.nan
    rows[18, 3] = np.inf
    rows[19] = 3e38  # the largest a float32 can hold, about
    rows[19] = rows[19].astype(np.float32)
    return rows


def answer(call, source, *, seed=7, **options):
    result = seeded(call, source, random_state=seed, **options)
    return result.mean.tobytes() + repr(result.releases).encode()


def test_threads_change_no_byte(call, data):
    expected = answer(call, data, threads=1)
    assert answer(call, data, threads=2) == expected
    assert answer(call, data, threads=4) == expected
    assert answer(call, data) == expected
    assert answer(call, data, seed=8) != expected  # control: the bytes do depend on the noise


def test_order_of_rows(call, data):
    expected, moved = answer(call, data), data.copy()
    assert answer(call, np.random.default_rng(0).permutation(data)) == expected
    moved[5] += 1.0
    assert answer(call, moved) != expected  # control: one row does count


def test_instruction_sets_change_no_byte(call, data):
    expected = answer(call, data[:20_000], threads=1)
    try:
        for level in range(lib.FPP_ISA_AVX512 + 1):
            lib.fpp_isa_limit(level)
            assert answer(call, data[:20_000], threads=1) == expected
    finally:
        lib.fpp_isa_limit(lib.FPP_ISA_AVX512)
