"""The sum of gradients that are clipped as a whole: equal to its twin in every integer, whatever the rows and the residual do."""

import math
from dataclasses import replace
from types import FunctionType

import numpy as np
import pytest
from helpers.errors import raises
from row_cases import same_at_every_level
from twins import gradients as reference

from fastpubpriv.errors import InputError, KernelError
from fastpubpriv.kernels import gradients as kernels
from fastpubpriv.rowwise.losses import (
    LOSSES,
    logistic_residual,
    softmax_residual,
    squared_residual,
    weighted_logistic,
)
from fastpubpriv.rowwise.row_maps import GradientMap, ResidualMap

DIMS = (1, 2, 7, 16, 33)
HOSTILE = (math.nan, math.inf, -math.inf, 1e300, -1e300, 5e-324, -0.0, 3e38)
BOUND = 2**20


def raising(prediction, label):
    """A residual function of a user that raises for some rows."""
    if prediction > 0.0:
        raise ValueError
    return label - prediction


def dividing(prediction, label):
    return label / (prediction - prediction)


def several(scores, label, found):
    """A residual with an entry for each output, without transcendental functions."""
    for k in range(len(scores)):
        found[k] = label - (k + 1.0) * scores[k]


def plain(residual):
    """What the kernel makes of a residual function: what it raises is not a number."""

    def found(prediction, label):
        try:
            return residual(prediction, label)
        except (ValueError, ZeroDivisionError):
            return math.nan

    return found


def rows_of(rng, n, dim, dtype):
    rows = rng.standard_normal((n, dim + 1)).astype(dtype)
    for place, value in enumerate(HOSTILE):
        with np.errstate(over="ignore"):
            rows[place * 5 % n, place % (dim + 1)] = value
    rows[n // 2] = 0.0
    rows[n // 3] *= 1e12
    return rows


def map_of(rng, shape, residual, *, clip=1.5, bound=BOUND):
    weights = rng.standard_normal(shape) / math.sqrt(shape[-1])
    bound = min(bound, math.isqrt(2**53 // weights.size))
    steps = bound - math.isqrt(weights.size) - 2
    return GradientMap(
        weights=weights, residual=residual, clip_norm=clip, inv_step=steps / clip, quant_bound=bound
    )


def residual_map_of(rng, dim, residual, *, radius=0.8, bound=BOUND):
    spread = rng.random(dim) + 0.01
    return ResidualMap(
        weights=rng.standard_normal(dim) / math.sqrt(dim),
        spread=spread / np.linalg.norm(spread),
        residual=residual,
        scale=1.7,
        clip=1.25,
        clip_norm=radius,
        inv_step=(bound - math.isqrt(dim) - 2) / radius,
        quant_bound=bound,
    )


def each_map(rng, dim, **options):
    """Maps for sums of gradients, and of residuals times rows, of every kind."""
    for shape, residual in (((dim,), squared_residual), ((dim,), raising), ((3, dim), several)):
        yield map_of(rng, shape, residual, **options)
    for residual in (squared_residual, raising, dividing):
        yield residual_map_of(rng, dim, residual, **options)


def summed(rows, chosen, *places, module=kernels):
    sums = np.zeros(
        getattr(chosen, "weights", getattr(chosen, "slope", None)).shape, dtype=np.int64
    )
    module.gradient_sum(rows, chosen, sums, *places)
    return sums


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("dim", DIMS)
def test_equal_integers(dim, dtype):
    rng = np.random.default_rng(dim)
    rows = rows_of(rng, 67, dim, dtype)
    for fast in each_map(rng, dim):
        slow = fast if fast.residual is several else replace(fast, residual=plain(fast.residual))
        found = summed(rows, fast)
        assert found.any() == (fast.residual is not dividing)
        np.testing.assert_array_equal(found, summed(rows, slow, module=reference))
        assert not summed(rows[:0], fast).any()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
# groups of eight rows, of four, and rows that are read a second time
@pytest.mark.parametrize("dim", [100, 250, 1030])
def test_rows_of_all_widths_on_every_instruction_set(dim, dtype):
    rng = np.random.default_rng(dim)
    rows = rows_of(rng, 21, dim, dtype)
    places = np.array([20, 3, 3, 0, 7], dtype=np.int64)
    for shape, residual in (((dim,), squared_residual), ((2, dim), several)):
        chosen = map_of(rng, shape, residual)
        slow = summed(rows, chosen, module=reference)
        assert slow.any()
        same_at_every_level(slow, summed, rows, chosen)
        wanted = summed(rows[places], chosen, module=reference)
        wide = np.concatenate([rows, rows], axis=1)[:, : dim + 1]  # rows of a table that is wider
        for table in (rows, wide, np.asfortranarray(rows)):
            same_at_every_level(wanted, summed, table, chosen, places)


# floats of the last are too wide for groups of eight rows
@pytest.mark.parametrize("dim", [15, 257, 4097])
def test_floats_that_are_read_again_in_groups_of_any_size(dim, isa):
    rng = np.random.default_rng(dim)
    rows = rows_of(rng, 19, dim, np.float32)
    rows[4, :dim] = 1e-45  # their squares are no floats
    rows[5, :dim] = 3e38
    rows[6, :dim] *= np.float32(-1e-30)
    chosen = map_of(rng, (dim,), squared_residual)
    alone = np.array([summed(row[None], chosen, module=reference) for row in rows])
    for size in (1, 2, 3, 5, 8, 9, 17, 19):
        found = summed(rows[:size], chosen)
        np.testing.assert_array_equal(found, alone[:size].sum(axis=0))
        places = rng.integers(0, 19, size)
        found = summed(rows, chosen, places)
        np.testing.assert_array_equal(found, alone[places].sum(axis=0))


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_losses_are_those_of_python(name):
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((150, 6))
    rows[:, -1] = rng.integers(0, 4, 150)  # for some losses there is no class 2 or 3
    chosen = map_of(rng, (3, 5) if LOSSES[name].scores else (5,), LOSSES[name].residual)
    for each in (chosen, residual_map_of(rng, 5, logistic_residual)):
        found = summed(rows, each, module=reference)
        wanted = summed(rows, each, module=kernels)
        # Exponential functions may differ in the last bit, which moves an entry of a row by at most one step.
        assert np.max(np.abs(found - wanted)) <= 6
    with np.errstate(all="ignore"):
        scores = rows[:, :-1] @ chosen.weights.T
        residuals = LOSSES[name].residuals_of(scores, rows[:, -1]).reshape(len(rows), -1)
        gradients = residuals[:, :, None] * rows[:, None, :-1]
        norms = np.sqrt((gradients**2).sum(axis=(1, 2)))
        clipped = (
            np.nan_to_num(gradients)
            * np.minimum(1.0, chosen.clip_norm / np.maximum(norms, 1e-300))[:, None, None]
        )
    exact = np.nan_to_num(clipped).sum(axis=0).reshape(chosen.weights.shape) * chosen.inv_step
    # The path over scalars is the naive one over per-sample gradients, but for the rounding of each of 150 rows to the grid.
    assert np.max(np.abs(summed(rows, chosen) - exact)) <= 150


@pytest.mark.parametrize(("ours", "shape"), [(logistic_residual, (5,)), (softmax_residual, (3, 5))])
def test_a_loss_in_c_has_the_bits_of_the_same_loss_as_a_callback(ours, shape):
    """On every instruction set."""
    rng = np.random.default_rng(6)
    rows = rows_of(rng, 67, 5, np.float64)
    rows[: len(rows) // 2, -1] = rng.integers(0, 3, len(rows) // 2)
    built_in = map_of(rng, shape, ours)
    called = replace(built_in, residual=FunctionType(ours.__code__, ours.__globals__))
    found = summed(rows, called)
    assert found.any()
    for chosen in (built_in, called):
        same_at_every_level(found, summed, rows, chosen)


def test_no_loss_of_ours_is_compiled(monkeypatch):
    def refuse(residual, *, outputs):
        raise AssertionError(residual)

    monkeypatch.setattr(kernels, "callback", refuse)
    for loss in [*LOSSES.values(), weighted_logistic(0.5, 1.0)]:
        chosen = map_of(np.random.default_rng(0), (3, 2) if loss.scores else (2,), loss.residual)
        summed(np.ones((3, 3)), chosen)
    planted = replace(chosen, residual=several)
    raises(AssertionError, None, summed, np.ones((3, 3)), planted)


@pytest.mark.parametrize("factor", [1.01, 3.0])
def test_no_row_passes_the_bound(factor):
    """Even where the float bound promises too much, so that only the integer checks are left; without them some would pass."""
    rng = np.random.default_rng(8)
    passed = {GradientMap: 0, ResidualMap: 0}
    for dim in DIMS:
        for fair in each_map(rng, dim, bound=1000):
            wrong = replace(fair, inv_step=fair.inv_step * factor)
            loose = replace(wrong, quant_bound=4 * fair.quant_bound)
            for row in rows_of(rng, 40, dim, np.float64):
                q = summed(row[None], wrong).astype(object).ravel()
                escaped = summed(row[None], loose).astype(object).ravel()
                assert sum(q * q) <= fair.quant_bound**2
                passed[type(fair)] += sum(escaped * escaped) > fair.quant_bound**2
    assert all(passed.values())


def test_wrong_arguments():
    good = np.zeros(3, dtype=np.int64)
    rng = np.random.default_rng(0)
    chosen = map_of(rng, (3,), squared_residual)
    other = residual_map_of(rng, 3, squared_residual)
    for rows, sums in (
        (np.zeros((2, 3)), good),
        (np.zeros((2, 4), dtype=np.int64), good),
        (np.zeros((2, 4)), good.astype(np.int32)),
        (np.zeros((2, 4)), np.zeros(4, dtype=np.int64)),
        (np.zeros((2, 4)), np.zeros(6, dtype=np.int64)[::2]),
    ):
        raises(KernelError, None, kernels.gradient_sum, rows, chosen, sums)
        raises(KernelError, None, kernels.gradient_sum, rows, other, sums)
    for places in (np.array([2]), np.array([-1]), np.array([0], dtype=np.int32)):
        raises(KernelError, None, kernels.gradient_sum, np.zeros((2, 4)), chosen, good, places)
    for name, value in (("clip_norm", math.nan), ("inv_step", math.inf), ("quant_bound", 2**27)):
        raises(InputError, name, replace, chosen, **{name: value})
    for name, value in (
        ("scale", 0.0),
        ("clip", math.nan),
        ("clip_norm", math.inf),
        ("quant_bound", 2**27),
    ):
        raises(InputError, name, replace, other, **{name: value})
