"""Covariances of many small groups of rows, a private test that they agree, and their private centre (in the role of AL21).

Privacy notes: `notes/agreement.md`, `notes/center.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.mechanisms import rowwise
from fastpubpriv.mechanisms.spectral import SymmetricMatrix, congruence, logarithm
from fastpubpriv.mechanisms.sums import AffineMap, Released
from fastpubpriv.privacy import GaussianEvent, LaplaceEvent
from fastpubpriv.release.account import Account
from fastpubpriv.release.release import release
from fastpubpriv.sources import Rows

TOLERANCE = 0.5
# What rounding may add to the tolerance where two groups were found to agree (notes/center.md).
ROUNDING = 1e-3
# A group whose smallest eigenvalue is less than this share of its trace agrees with none.
CONDITION_FLOOR = 1e-8
# Nor does one whose trace is outside of these: below, products underflow and have no relative error; above, 1 + TOLERANCE
# times a covariance may be infinite.
LEAST_TRACE, LARGEST_TRACE = 1e-280, 1e308
GOOD = Fraction(4, 5)
# Fewer groups need not have a common neighbour after one of them changed.
MIN_GROUPS = 10
# Normalised weights move by at most 63 / groups, and the replaced group counts for 6 / groups more.
WEIGHT_CHANGE = 69
_TEST_LOG2_SCALE = 40
_MASK_LOG2_SCALE = 30
_PAIRS = 1 << 19
_ROUNDED_STEPS = 1 << 10


def group_covariances(rows: Rows, base: AffineMap, groups: int) -> tuple[FloatArray, BoolArray]:
    """Sample covariance (groups, dim, dim) of the rows i, i + groups, ... of the source, mapped by `base`; and which are usable.

    Each number of a group comes from scalar operations on its own rows in the order of the source, so a replaced row changes one
    group and no bit of the others, whatever the chunks. A row with a non-finite coordinate belongs to none.
    """
    dim = base.dim
    center = np.zeros(dim) if base.center is None else base.center
    matrix = base.dense
    count = np.zeros(groups)
    first = np.zeros((dim, groups))
    second = np.zeros((dim, dim, groups))
    position = 0
    with np.errstate(all="ignore"):
        for chunk in rows.chunks():
            mapped = np.zeros((dim, len(chunk)))
            for column in range(dim):
                shifted = chunk[:, column].astype(np.float64) - center[column]
                for coordinate in range(dim):
                    if matrix[coordinate, column] != 0.0:
                        mapped[coordinate] += matrix[coordinate, column] * shifted
            usable: BoolArray = np.logical_and.reduce(np.isfinite(mapped), axis=0)
            mapped[:, ~usable] = 0.0
            done = 0
            while done < len(chunk):
                slot = position % groups
                taken = min(groups - slot, len(chunk) - done)
                here, values = slice(slot, slot + taken), mapped[:, done : done + taken]
                count[here] += usable[done : done + taken]
                first[:, here] += values
                for i in range(dim):
                    second[i, :, here] += values[i] * values
                done += taken
                position += taken
        means = first / count
        spread = (second - first[:, None, :] * means[None, :, :]) / (count - 1.0)
        covariance = np.ascontiguousarray(np.moveaxis((spread + spread.transpose(1, 0, 2)) / 2.0, 2, 0))
    return covariance, usable_groups(covariance, count)


def usable_groups(covariance: FloatArray, count: FloatArray) -> BoolArray:
    """Groups with enough rows, and a covariance whose size and condition let rounding be bounded; (groups,)."""
    dim = covariance.shape[1]
    with np.errstate(all="ignore"):
        trace = rowwise.total(np.ascontiguousarray(np.diagonal(covariance, axis1=1, axis2=2).T))
        least = covariance - CONDITION_FLOOR * trace[:, None, None] * np.eye(dim)
        sized = (trace > LEAST_TRACE) & (trace < LARGEST_TRACE)
        valid: BoolArray = (count >= 2 * dim + 2) & sized & positive(least)
    return valid


def positive(matrices: FloatArray) -> BoolArray:
    """Which symmetric matrices (..., dim, dim) have positive pivots: one fixed sequence of scalar operations, NaN counts as no."""
    dim = matrices.shape[-1]
    entry = [[matrices[..., i, j].copy() for j in range(i + 1)] for i in range(dim)]
    fine = np.ones(matrices.shape[:-2], dtype=np.bool_)
    with np.errstate(all="ignore"):
        for k in range(dim):
            fine &= entry[k][k] > 0.0
            factor = [entry[i][k] / entry[k][k] for i in range(k + 1, dim)]
            for i in range(k + 1, dim):
                for j in range(k + 1, i + 1):
                    entry[i][j] -= factor[i - k - 1] * entry[j][k]
    return fine


def agreements(covariance: FloatArray, valid: BoolArray) -> IntArray:
    """For each group, how many groups (itself included) have a covariance within the factor 1 + TOLERANCE both ways; (groups,)."""
    groups = len(covariance)
    close = np.zeros(groups, dtype=np.int64)
    block = max(1, _PAIRS // groups)
    stretched = (1.0 + TOLERANCE) * covariance
    with np.errstate(all="ignore"):
        for begin in range(0, groups, block):
            mine = slice(begin, min(begin + block, groups))
            below = positive(stretched[mine, None] - covariance[None, :])
            above = positive(stretched[None, :] - covariance[mine, None])
            both = below & above & valid[mine, None] & valid[None, :]
            # A usable group agrees with itself by definition, not by the luck of rounding.
            both[np.arange(both.shape[0]), np.arange(begin, begin + both.shape[0])] = valid[mine]
            close[mine] = both.sum(axis=1)
    return close


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """Private: the covariances of the groups, and with how many each agrees."""

    covariance: FloatArray
    close: IntArray

    def __repr__(self) -> str:
        return f"Population(groups={len(self.close)})"

    def __reduce__(self) -> Any:
        raise TypeError("group covariances are private and cannot be pickled")

    def center(self) -> SymmetricMatrix:
        """Weighted mean of the covariances, exact: weight min(1, 10 max(0, share of agreements - 0.6)).

        The identity if no group has a weight: that is the case of a population that the test is all but sure to fail.
        """
        groups, dim = len(self.close), self.covariance.shape[1]
        weights = [min(groups, max(0, 10 * int(c) - 6 * groups)) for c in self.close]
        whole = sum(weights)
        if whole == 0:
            return [[Fraction(int(i == j)) for j in range(dim)] for i in range(dim)]
        chosen = [(w, y) for w, y in zip(weights, self.covariance.tolist(), strict=True) if w]
        return [
            [sum((w * Fraction(y[i][j]) for w, y in chosen), Fraction(0)) / whole for j in range(dim)]
            for i in range(dim)
        ]


def take_population(rows: Rows, base: AffineMap, groups: int) -> Population:
    """Read the rows once; the result is private."""
    covariance, valid = group_covariances(rows, base, groups)
    return Population(covariance, agreements(covariance, valid))


def pass_margin(groups: int, epsilon: Fraction, delta: Fraction) -> float:
    """By how much the share of agreeing pairs must exceed 0.8 for a pass: noise does that with probability e^-epsilon delta / 2."""
    return _margin_steps(epsilon, delta) / (_pair_scale(groups, epsilon) * groups**2)


def _pair_scale(groups: int, epsilon: Fraction) -> int:
    steps: int = math.floor(epsilon * 2**_TEST_LOG2_SCALE / (2 * groups))
    return max(1, steps)


def _margin_steps(epsilon: Fraction, delta: Fraction) -> int:
    # P(noise >= t) <= e^(-t / 2^m); the extra steps are for the conversion of the answer to a double.
    tail = math.log(2.0) + float(epsilon) - math.log(delta)
    return math.ceil(math.ldexp(tail * (1.0 + 1e-12), _TEST_LOG2_SCALE)) + _ROUNDED_STEPS


def release_agreement(
    account: Account,
    population: list[Population],
    read: Any,
    groups: int,
    *,
    name: str,
    epsilon: Fraction,
    delta: Fraction,
) -> tuple[bool, float, Released]:
    """Whether the groups agree: the number of agreeing pairs, plus discrete Laplace noise, against 0.8 and a margin.

    `read` makes the population, which is left in `population` for the centre; it is called after the charge. A replaced row
    changes at most 2 groups of the pairs.
    """
    scale = _pair_scale(groups, epsilon)
    event = LaplaceEvent(2 * groups * scale, _TEST_LOG2_SCALE, 1, delta=delta)

    def query() -> IntArray:
        population.append(read())
        return np.array([scale * int(population[0].close.sum())], dtype=np.int64)

    unit = 1.0 / (scale * groups**2)
    value = release(account, name=name, query=query, shape=(1,), event=event, unit=unit)
    share = float(value[0])
    needed = float(GOOD) + pass_margin(groups, epsilon, delta)
    return share >= needed, share, Released(value=value, noise_std=event.noise_std * unit, event=event)


def log_sensitivity(dim: int, groups: int) -> float:
    """Largest Frobenius distance between the logarithms of the centres of two neighbouring good populations."""
    tolerance = TOLERANCE + ROUNDING
    change = WEIGHT_CHANGE / groups * (2.0 * tolerance + tolerance**2)
    return math.sqrt(dim) * math.log1p(change) * (1.0 + 1e-9)


def mask_grid(dim: int, groups: int, cost: Fraction) -> tuple[GaussianEvent, float]:
    """The event of one release of a logarithm, and the grid step."""
    bound = math.isqrt(math.floor(2 * cost * 4**_MASK_LOG2_SCALE))
    # Rounding to the grid moves each of the dim^2 differences by at most one step.
    return GaussianEvent(bound * bound, _MASK_LOG2_SCALE, dim * dim), log_sensitivity(dim, groups) / (bound - 2 * dim)


def release_center(
    account: Account, population: Population, whitener: FloatArray, *, name: str, cost: Fraction
) -> Released:
    """Release log(W Y W^T) for the centre Y of a population and a public or released W; symmetric (dim, dim).

    Only after `release_agreement` has passed: the sensitivity holds between good populations.
    """
    groups, dim = len(population.close), population.covariance.shape[1]
    event, unit = mask_grid(dim, groups, cost)

    def query() -> IntArray:
        return np.array(logarithm(congruence(whitener, population.center()), unit), dtype=np.int64)

    value = release(account, name=name, query=query, shape=(dim, dim), event=event, unit=unit)
    std = event.noise_std * unit
    return Released(value=(value + value.T) / 2.0, noise_std=std, event=event, spectral_std=std)
