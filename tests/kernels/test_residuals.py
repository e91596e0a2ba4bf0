"""The sum of residuals times rows: equal to its twin in every integer, whatever the rows and the residual function do."""

import math

import numpy as np
import pytest
from test_gradients import DIMS, plain, raising, rows_of
from twins import residuals as reference

from fastpubpriv.errors import InputError, KernelError
from fastpubpriv.kernels import gradients as kernels
from fastpubpriv.losses import logistic_residual, squared_residual
from fastpubpriv.row_maps import ResidualMap


def dividing(prediction, label):
    return label / (prediction - prediction)


def map_of(rng, dim, residual, *, radius=0.8, bound=2**20):
    spread = rng.random(dim) + 0.01
    return ResidualMap(
        slope=rng.standard_normal(dim) / math.sqrt(dim),
        spread=spread / np.linalg.norm(spread),
        residual=residual,
        scale=1.7,
        clip=1.25,
        radius=radius,
        inv_step=(bound - math.isqrt(dim) - 2) / radius,
        quant_bound=bound,
    )


def summed(function, rows, residual_map):
    sums = np.zeros(residual_map.dim, dtype=np.int64)
    function(rows, residual_map, sums)
    return sums


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("residual", [squared_residual, raising], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dim", DIMS)
def test_equal_integers(dim, residual, dtype):
    rng = np.random.default_rng(dim)
    rows = rows_of(rng, 67, dim, dtype)
    fast = map_of(rng, dim, residual)
    slow = ResidualMap(**{name: getattr(fast, name) for name in fast.__slots__} | {"residual": plain(residual)})
    found = summed(kernels.residual_sum, rows, fast)
    assert found.any()
    np.testing.assert_array_equal(found, summed(reference.residual_sum, rows, slow))


def test_logistic_residuals_are_those_of_python():
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((200, 6))
    rows[:, -1] = rng.integers(0, 3, 200)  # 2 is no class
    chosen = map_of(rng, 5, logistic_residual)
    found, wanted = (summed(f, rows, chosen) for f in (kernels.residual_sum, reference.residual_sum))
    # The two exponential functions may differ in the last bit, which moves an entry of a row by at most one step.
    assert np.max(np.abs(found - wanted)) <= 4


def test_by_hand():
    chosen = ResidualMap(
        slope=[0.5, 0.0], spread=[1.0, 1.0], residual=squared_residual, scale=2.0, clip=1.0, radius=5.0, inv_step=10.0,
        quant_bound=60
    )  # fmt: skip
    # Prediction 1, residual (2 - 1) / 2; |z| = 2 is inside of the radius: 0.5 (2, 0) 10 = (10, 0).
    assert summed(kernels.residual_sum, np.array([[2.0, 0.0, 2.0]]), chosen).tolist() == [10, 0]
    # Prediction 3, residual clipped to -1; |z| = 10 shortened by a half: -(3, 4) 10.
    assert summed(kernels.residual_sum, np.array([[6.0, 8.0, -99.0]]), chosen).tolist() == [-30, -40]
    assert summed(kernels.residual_sum, np.empty((0, 3)), chosen).tolist() == [0, 0]


@pytest.mark.parametrize("size", [1, 2, 15, 16, 17])
def test_a_row_does_not_see_its_neighbours(size):
    rng = np.random.default_rng(1)
    rows = rows_of(rng, 50, 9, np.float64)
    chosen = map_of(rng, 9, squared_residual)
    pieces = [summed(kernels.residual_sum, rows[at : at + size], chosen) for at in range(0, 50, size)]
    np.testing.assert_array_equal(np.sum(pieces, axis=0), summed(kernels.residual_sum, rows, chosen))


@pytest.mark.parametrize("residual", [squared_residual, raising, dividing], ids=lambda f: f.__name__)
def test_no_row_passes_the_bound(residual):
    """Even where the float radius promises too much, so that only the integer checks are left."""
    rng = np.random.default_rng(8)
    for dim in DIMS:
        fair = map_of(rng, dim, residual, bound=1000)
        wrong = ResidualMap(
            **{name: getattr(fair, name) for name in fair.__slots__} | {"inv_step": fair.inv_step * rng.choice([1.0, 1.01, 3.0])}
        )  # fmt: skip
        for row in rows_of(rng, 40, dim, np.float64):
            q = summed(kernels.residual_sum, row[None], wrong).astype(object)
            assert sum(q * q) <= 1000**2


def test_the_check_of_the_bound_is_what_holds_it(monkeypatch):
    """A reference without the checks lets a row through that the kernel drops: the test above can fail."""
    chosen = map_of(np.random.default_rng(0), 2, squared_residual, bound=1000)
    long = ResidualMap(**{name: getattr(chosen, name) for name in chosen.__slots__} | {"inv_step": 1e5})
    row = np.array([[3.0, 4.0, 50.0]])
    assert not summed(kernels.residual_sum, row, long).any()
    loose = ResidualMap(**{name: getattr(long, name) for name in long.__slots__} | {"quant_bound": 2**25})
    assert np.linalg.norm(summed(kernels.residual_sum, row, loose).astype(float)) > 1000


def test_wrong_arguments():
    chosen = map_of(np.random.default_rng(0), 3, squared_residual)
    good = np.zeros(3, dtype=np.int64)
    for rows, sums in (
        (np.zeros((2, 3)), good),
        (np.zeros((2, 4), dtype=np.int64), good),
        (np.zeros((2, 4)), good.astype(np.int32)),
        (np.zeros((2, 4)), np.zeros(4, dtype=np.int64)),
        (np.zeros((2, 4)), np.zeros(6, dtype=np.int64)[::2]),
    ):
        with pytest.raises(KernelError):
            kernels.residual_sum(rows, chosen, sums)
    for name, value in (("scale", 0.0), ("clip", math.nan), ("radius", math.inf), ("quant_bound", 2**27)):
        with pytest.raises(InputError, match=name):
            ResidualMap(**{each: getattr(chosen, each) for each in chosen.__slots__} | {name: value})
