"""Covariances of many small groups of rows, a private test that they agree, and their private center (in the role of AL21).

`np.add.reduce`, `sum`, `dot` and `@` choose their order of addition, and with it the last bits, by the shape of the whole array:
the sum of a row alone may differ from its sum within a chunk. The contribution of a private row may depend on that row only, so
sums over its entries use the functions below, which take the rows as columns of an array.

Privacy notes: `notes/agreement.md`, `notes/center.md`.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.errors import KernelError
from fastpubpriv.mechanisms.sums import AffineMap, Measurement, Released
from fastpubpriv.privacy import GaussianEvent, LaplaceEvent
from fastpubpriv.release.release import release
from fastpubpriv.release.transcript import BudgetAccount
from fastpubpriv.sources import Executor, Query, Rows
from fastpubpriv.sources.row_types import Chunk, default_chunk_rows
from fastpubpriv.threads.pool import share_out


def total(entries: FloatArray) -> FloatArray:
    """Return the sum of entries (k, n) over k, (n,), in the order ((e_1 + e_2) + e_3) + ..."""
    return functools.reduce(np.add, entries)


def total_times(entries: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the sum of entries (k, n) times weights (k,) over k, (n,), in the order of `total`, from rounded products."""
    return total(entries.astype(np.float64) * weights[:, None])


# ---- Logarithms of small symmetric matrices to 60 digits, so that their rounding error is far below a grid step ------
# Doubles would be enough for a well-conditioned matrix; a proof that covers every private data set needs more digits.

SymmetricMatrix = list[list[Fraction]]

DIGITS = 60  # decimal digits
LOG_CAP = 64  # bound on the magnitude of log eigenvalues
_SWEEPS = 40  # maximum number of Jacobi sweeps


def congruence(left: FloatArray, matrix: SymmetricMatrix) -> SymmetricMatrix:
    """Return the exact product left @ matrix @ left^T."""
    rows = np.array([[Fraction(float(entry)) for entry in row] for row in left], dtype=object)
    product: SymmetricMatrix = (rows @ np.array(matrix, dtype=object) @ rows.T).tolist()
    return product


def logarithm(matrix: SymmetricMatrix, unit: float) -> list[list[int]]:
    """Return the logarithm of a positive definite matrix in whole units, its eigenvalues clipped to [-LOG_CAP, LOG_CAP]."""
    dim = len(matrix)
    with localcontext(Context(prec=DIGITS, Emin=-999999, Emax=999999)):
        values, vectors = _jacobi(
            [[Decimal(x.numerator) / Decimal(x.denominator) for x in row] for row in matrix]
        )
        cap = Decimal(LOG_CAP)
        tiny = (-2 * cap).exp()
        logs = [max(-cap, min(cap, max(value, tiny).ln())) / Decimal(unit) for value in values]
        out = [[0] * dim for _ in range(dim)]
        for i in range(dim):
            for j in range(i + 1):
                entry = sum(
                    (vectors[i, k] * vectors[j, k] * logs[k] for k in range(dim)), Decimal(0)
                )
                out[i][j] = out[j][i] = int(entry.to_integral_value())
        return out


def _jacobi(matrix: list[list[Decimal]]) -> tuple[list[Decimal], Any]:
    """Return eigenvalues and eigenvectors (columns) by cyclic Jacobi rotations, which converge quadratically."""
    a = np.array(matrix, dtype=object)
    dim = len(matrix)
    vectors = np.array(
        [[Decimal(int(i == j)) for j in range(dim)] for i in range(dim)], dtype=object
    )
    for _ in range(_SWEEPS):
        diagonal = sum((abs(a[i, i]) for i in range(dim)), Decimal(0))
        off = sum((abs(a[i, j]) for i in range(dim) for j in range(i)), Decimal(0))
        if off <= diagonal.scaleb(10 - 2 * DIGITS):
            break
        for p, q in itertools.combinations(range(dim), 2):
            if a[p, q] == 0:
                continue
            ratio = (a[q, q] - a[p, p]) / (2 * a[p, q])
            sign = Decimal(1) if ratio >= 0 else Decimal(-1)
            t = sign / (abs(ratio) + (ratio * ratio + 1).sqrt())
            c = 1 / (t * t + 1).sqrt()
            s = t * c
            for columns in (a.T, a, vectors.T):
                columns[p], columns[q] = (
                    c * columns[p] - s * columns[q],
                    s * columns[p] + c * columns[q],
                )
            a[p, q] = a[q, p] = Decimal(0)
    return list(a.diagonal()), vectors


TOLERANCE = 0.5  # two covariances agree if each is at most 1 + TOLERANCE times the other
# Bound on what rounding adds to the tolerance of two groups that agree as computed (notes/center.md).
ROUNDING = 1e-3
# A group whose smallest eigenvalue is less than this share of its trace agrees with none.
CONDITION_FLOOR = 1e-8
# Nor does one whose trace is outside these bounds: below, products underflow and their relative error has no bound; above,
# 1 + TOLERANCE times a covariance may be infinite.
LEAST_TRACE = 1e-280
LARGEST_TRACE = 1e308
GOOD = Fraction(4, 5)  # required share of agreeing pairs
# With fewer groups, two groups may have no common neighbor after one group has changed.
MIN_GROUPS = 10
# Normalized weights change by at most 63 / groups, and the replaced group contributes 6 / groups more.
WEIGHT_CHANGE = 69
_TEST_LOG2_SCALE = 40  # log2 of the noise scale of the agreement test, in grid steps
_MASK_LOG2_SCALE = 30  # log2 of the noise scale of the center, in grid steps
_PAIRS = 1 << 14  # pairs compared at once, so that their matrices stay in the cache
_ROUNDED_STEPS = 1 << 10  # grid steps for the rounding of the answer to a double


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupQuery(Query):
    """Sample covariances (groups, dim, dim) of the rows i, i + groups, ... of the source, mapped by `base`, and usable groups."""

    # Each sum uses scalar operations on a group's own rows in the order of the source, so a replaced row changes one group and no
    # bit of the others, whatever the chunks; sums over parts of the rows could not be merged into the same bits. A row with a
    # non-finite coordinate belongs to no group.
    base: AffineMap
    groups: int
    ordered = True

    def zeros(self) -> tuple[IntArray, list[FloatArray]]:
        """Return the position of the next row; count, sum and sum of products of the rows of each group."""
        dim = self.base.dim
        groups = self.groups
        return np.zeros(1, dtype=np.int64), [
            np.zeros(groups),
            np.zeros((dim, groups)),
            np.zeros((dim, dim, groups)),
        ]

    def add(self, chunk: Chunk, accumulators: Any) -> None:
        """See `Query.add`."""
        position, (count, first, second) = accumulators
        dim = self.base.dim
        matrix = self.base.dense
        center = np.zeros(dim) if self.base.center is None else self.base.center
        mapped = np.zeros((dim, len(chunk)))
        for column in range(dim):
            shifted = chunk[:, column].astype(np.float64) - center[column]
            for coordinate in range(dim):
                if matrix[coordinate, column] != 0.0:
                    mapped[coordinate] += matrix[coordinate, column] * shifted
        usable = np.asarray(np.isfinite(mapped).all(axis=0))
        mapped[:, ~usable] = 0.0
        done = 0
        while done < len(chunk):
            slot = int(position[0]) % self.groups
            taken = min(self.groups - slot, len(chunk) - done)
            here = slice(slot, slot + taken)
            values = mapped[:, done : done + taken]
            count[here] += usable[done : done + taken]
            first[:, here] += values
            for i in range(dim):
                second[i, :, here] += values[i] * values
            done += taken
            position[0] += taken

    def merge(self, total: Any, part: Any) -> None:
        """Raise KernelError: chunks are processed in order, so there is only one part."""
        raise KernelError("groups by position are summed in the order of the source, in one part")

    def answer(self, accumulators: Any) -> tuple[FloatArray, BoolArray]:
        """See `Query.answer`."""
        _, (count, first, second) = accumulators
        means = first / count
        spread = (second - first[:, None, :] * means[None, :, :]) / (count - 1.0)
        covariance = np.ascontiguousarray(
            np.moveaxis((spread + spread.transpose(1, 0, 2)) / 2.0, 2, 0)
        )
        return covariance, usable_groups(covariance, count)

    @property
    def row_cost(self) -> int:
        """See `Query.row_cost`."""
        return 2 * self.base.dim**2

    @property
    def chunk_rows(self) -> int:
        """See `Query.chunk_rows`."""
        return default_chunk_rows(self.base.dim)


def usable_groups(covariance: FloatArray, count: FloatArray) -> BoolArray:
    """Return which groups (groups,) have enough rows and a covariance whose trace and condition bound the rounding errors."""
    dim = covariance.shape[1]
    with np.errstate(all="ignore"):
        trace = total(np.ascontiguousarray(np.diagonal(covariance, axis1=1, axis2=2).T))
        least = covariance - CONDITION_FLOOR * trace[:, None, None] * np.eye(dim)
        sized = (trace > LEAST_TRACE) & (trace < LARGEST_TRACE)
        entries = [[least[:, i, j].copy() for j in range(i + 1)] for i in range(dim)]
        valid: BoolArray = (count >= 2 * dim + 2) & sized & _positive(entries)
    return valid


def _positive(entry: list[list[FloatArray]]) -> BoolArray:
    """Return which symmetric matrices, given by their lower triangles (overwritten), have positive pivots; False for NaN."""
    dim = len(entry)
    fine: BoolArray = entry[0][0] > 0.0
    for k in range(1, dim):
        for i in range(k, dim):
            factor = entry[i][k - 1] / entry[k - 1][k - 1]
            for j in range(k, i + 1):
                entry[i][j] -= factor * entry[j][k - 1]
        fine &= entry[k][k] > 0.0
    return fine


def agreements(covariance: FloatArray, valid: BoolArray, *, threads: int | None = None) -> IntArray:
    """Return for each group the number of groups, itself included, with a covariance within 1 + TOLERANCE both ways; (groups,)."""
    groups, dim = covariance.shape[:2]
    with np.errstate(all="ignore"):
        plain = np.ascontiguousarray(np.moveaxis(covariance, 0, 2))
        stretched = (1.0 + TOLERANCE) * plain
    usable = np.flatnonzero(valid)
    close = np.zeros(groups, dtype=np.int64)
    # a usable group agrees with itself by definition; rounding does not decide that
    close[usable] = 1
    step = max(1, _PAIRS // max(1, groups))
    counts = np.zeros((-(-groups // step), groups), dtype=np.int64)

    def work(part: int) -> None:
        begin = part * step
        end = min((part + 1) * step, groups)
        with np.errstate(all="ignore"):
            both = valid[begin:end, None] & valid[None, begin:]
            one = (..., slice(begin, end), None)
            others = (..., None, slice(begin, groups))
            for large, small in ((stretched[one], plain[others]), (stretched[others], plain[one])):
                both &= _positive(
                    [[large[i, j] - small[i, j] for j in range(i + 1)] for i in range(dim)]
                )
        both &= np.arange(begin, groups) > np.arange(begin, end)[:, None]
        counts[part, begin:] += both.sum(axis=0)
        counts[part, begin:end] += both.sum(axis=1)

    share_out(work, len(counts), threads=threads)
    close += counts.sum(axis=0)
    return close


def center(covariance: FloatArray, close: IntArray) -> SymmetricMatrix:
    """Return the exact mean of the covariances with weights min(1, 10 max(0, share of agreements - 0.6))."""
    # The identity if every weight is zero; such groups almost certainly fail the test of agreement.
    groups, dim = covariance.shape[:2]
    weights = [min(groups, max(0, 10 * int(c) - 6 * groups)) for c in close]
    whole = sum(weights)
    if whole == 0:
        return [[Fraction(int(i == j)) for j in range(dim)] for i in range(dim)]
    chosen = [(w, y) for w, y in zip(weights, covariance.tolist(), strict=True) if w]
    return [
        [sum((w * Fraction(y[i][j]) for w, y in chosen), Fraction(0)) / whole for j in range(dim)]
        for i in range(dim)
    ]


def pass_margin(groups: int, epsilon: Fraction, delta: Fraction) -> float:
    """Return the margin over 0.8 required of the share of agreeing pairs; noise exceeds it with chance e^-epsilon delta / 2."""
    # P(noise >= t) <= e^(-t / 2^m); the extra steps are for the conversion of the answer to a double.
    tail = math.log(2.0) + float(epsilon) - math.log(delta)
    steps = math.ceil(math.ldexp(tail * (1.0 + 1e-12), _TEST_LOG2_SCALE)) + _ROUNDED_STEPS
    return steps / (_pair_scale(groups, epsilon) * groups**2)


def _pair_scale(groups: int, epsilon: Fraction) -> int:
    steps: int = math.floor(epsilon * 2**_TEST_LOG2_SCALE / (2 * groups))
    return max(1, steps)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Agreement:
    """Result of the agreement test: whether the noisy share of agreeing pairs is large enough."""

    passed: bool
    share: float
    noise_std: float
    event: LaplaceEvent

    @property
    def facts(self) -> dict[str, Any]:
        """Noise and result, for the record."""
        return {"noise_std": self.noise_std, "share": self.share, "passed": float(self.passed)}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupAgreement(Measurement[tuple[Fraction, Fraction], Agreement]):
    """Release whether the groups agree: compare the share of agreeing pairs plus discrete Laplace noise with 0.8 and a margin."""

    # The cost is an (epsilon, delta). A replaced row changes the number of agreeing pairs by at most 2 * `groups`.
    base: AffineMap
    groups: int

    def release(
        self,
        account: BudgetAccount,
        rows: Rows,
        executor: Executor,
        *,
        name: str,
        cost: tuple[Fraction, Fraction],
    ) -> Agreement:
        """Charge, run the pass, add noise and compare."""
        epsilon, delta = cost
        groups = self.groups
        scale = _pair_scale(groups, epsilon)
        event = LaplaceEvent(2 * groups * scale, _TEST_LOG2_SCALE, 1, delta=delta)

        def query() -> IntArray:
            covariance, valid = executor.run(GroupQuery(base=self.base, groups=groups), rows)
            close = agreements(covariance, valid, threads=executor.threads)
            return np.array([scale * int(close.sum())], dtype=np.int64)

        unit = 1.0 / (scale * groups**2)
        share = float(
            release(account, name=name, query=query, shape=(1,), event=event, unit=unit)[0]
        )
        needed = float(GOOD) + pass_margin(groups, epsilon, delta)
        return Agreement(
            passed=share >= needed, share=share, noise_std=event.noise_std * unit, event=event
        )


def log_sensitivity(dim: int, groups: int) -> float:
    """Return the largest Frobenius distance between the logarithms of the centers of neighboring data sets that pass the test."""
    tolerance = TOLERANCE + ROUNDING
    change = WEIGHT_CHANGE / groups * (2.0 * tolerance + tolerance**2)
    return math.sqrt(dim) * math.log1p(change) * (1.0 + 1e-9)


def mask_grid(dim: int, groups: int, cost: Fraction) -> tuple[GaussianEvent, float]:
    """Return the event of one release of a logarithm, and the grid step."""
    bound = math.isqrt(math.floor(2 * cost * 4**_MASK_LOG2_SCALE))
    # Rounding to the grid moves each of the dim^2 differences by at most one step.
    return GaussianEvent(bound * bound, _MASK_LOG2_SCALE, dim * dim), log_sensitivity(
        dim, groups
    ) / (bound - 2 * dim)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupCenter(Measurement[Fraction, Released]):
    """Release log(W Y W^T) for the center Y of the groups' covariances and a public or released W; symmetric (dim, dim)."""

    # Allowed only after a `GroupAgreement` over the same groups has passed: the sensitivity bound assumes groups that agree.
    base: AffineMap
    groups: int
    whitener: FloatArray

    def release(
        self, account: BudgetAccount, rows: Rows, executor: Executor, *, name: str, cost: Fraction
    ) -> Released:
        """Charge `cost`, run the pass and add noise."""
        dim = self.base.dim
        event, unit = mask_grid(dim, self.groups, cost)

        def query() -> IntArray:
            covariance, valid = executor.run(GroupQuery(base=self.base, groups=self.groups), rows)
            exact = center(covariance, agreements(covariance, valid, threads=executor.threads))
            return np.array(logarithm(congruence(self.whitener, exact), unit), dtype=np.int64)

        value = release(account, name=name, query=query, shape=(dim, dim), event=event, unit=unit)
        std = event.noise_std * unit
        return Released(value=(value + value.T) / 2.0, noise_std=std, event=event, spectral_std=std)
