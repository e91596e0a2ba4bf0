"""Noisy sums, second moments and counts of affinely mapped, clipped private rows, and of statistics of each row.

Privacy notes: `notes/vector_sum.md`, `notes/gram.md`, `notes/shell_counts.md`, `notes/two_pieces.md`, `notes/statistic_sum.md`,
`notes/soft_gram.md`, `notes/moment_pieces.md`, `notes/complete_rows.md`;
purpose of a box: `notes/real_columns.md`.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels import rows as kernels
from fastpubpriv.kernels.tree import grouped_rows
from fastpubpriv.privacy import Event, GaussianEvent, LaplaceEvent, calibration
from fastpubpriv.privacy.spending import Spending
from fastpubpriv.release.account import Account
from fastpubpriv.release.release import release
from fastpubpriv.release.transcript import BudgetAccount
from fastpubpriv.rowwise.row_maps import AffineMap as AffineMap
from fastpubpriv.rowwise.row_maps import ColumnBox, RowMap, RowTree
from fastpubpriv.sources import Executor, Query, Rows
from fastpubpriv.sources.row_types import Chunk


def in_shape(lower: IntArray, shape: tuple[int, ...]) -> IntArray:
    """Return symmetric matrices (..., D, D), given by their lower triangles, of this shape: whole, or upper triangles, by row."""
    whole: IntArray = np.tril(lower) + np.tril(lower, -1).swapaxes(-1, -2)
    return whole if whole.ndim == len(shape) else whole[..., *np.triu_indices(whole.shape[-1])]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Released:
    """A released answer in data units, with the standard deviation of its noise per coordinate."""

    value: FloatArray
    noise_std: float
    event: Event
    # of a symmetric matrix: diagonal standard deviation of the Gaussian orthogonal ensemble with noise of the same spectral norm
    spectral_std: float = 0.0
    moment: Released | None = None  # a second moment from the same pass, with this event
    counts: FloatArray | None = None  # of shells, from the same pass
    complete: float | None = (
        None  # number of rows without a missing cell, from the same pass, with noise `complete_std`
    )
    complete_std: float = 0.0

    @property
    def facts(self) -> dict[str, Any]:
        """The noise, for the record."""
        return {"noise_std": self.noise_std}


class Recorded(Protocol):
    """A released answer that can be recorded."""

    @property
    def event(self) -> Event:
        """The event that was charged."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Released numbers for the record, in addition to those of the event."""


Price = TypeVar("Price", contravariant=True)
Answer = TypeVar("Answer", bound=Recorded, covariant=True)


def release_query(
    account: BudgetAccount,
    query: ArrayQuery,
    rows: Rows,
    executor: Executor,
    *,
    name: str,
    event: Event,
    unit: float = 1.0,
) -> FloatArray:
    """Return the noisy answer of a query in units of `unit`: charge the event, run the pass, add noise (see `release`)."""
    ask = partial(executor.run, query, rows)
    return release(account, name=name, query=ask, shape=query.shape, event=event, unit=unit)


class Measurement(abc.ABC, Generic[Price, Answer]):
    """One release from the rows: it chooses grid and event for an account and a cost, runs the query, and interprets the answer.

    A frozen dataclass of public and released values. `Price` is the type of `cost`: for noise on sums and counts a rho or an
    epsilon, according to the account; for a selection its epsilon; for occupied bins an (epsilon, delta).
    """

    __slots__ = ()

    @abc.abstractmethod
    def release(
        self, account: Any, rows: Rows, executor: Executor, *, name: str, cost: Price
    ) -> Answer:
        """Charge `cost`, run the pass and add noise."""


NoiseEvent = GaussianEvent | LaplaceEvent
# Adds the rows of a chunk to a sum as the kernel without a count does; the last array gets the number of rows that are zero in
# the sum because an entry is missing.
CountedKernel = Callable[[Any, RowMap, IntArray, IntArray], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArrayQuery(Query):
    """A pass that sums one integer array of this shape and answers with it times `scale`."""

    shape: tuple[int, ...]
    lower: tuple[
        int, ...
    ] = ()  # shape (..., D, D) of the sum, if it is of lower triangles; the answer is as by `in_shape`
    scale: int = 1
    row_cost: int = 1  # see `Query.row_cost`

    def zeros(self) -> tuple[IntArray, ...]:
        """See `Query.zeros`."""
        return (np.zeros(self.lower or self.shape, dtype=np.int64),)

    def answer(self, accumulators: Any) -> IntArray:
        """Scale counts up to the noise grid. The noise is never scaled down instead: q + floor(N) / s would reveal q."""
        total: IntArray = in_shape(accumulators[0], self.shape) if self.lower else accumulators[0]
        return total if self.scale == 1 else total * self.scale


class NoisyMeasurement(Measurement[Fraction | Spending, Released]):
    """The answer of one pass plus noise. The query and its cost depend on public values only."""

    __slots__ = ()

    @abc.abstractmethod
    def priced_query(self, spending: Spending, n: int) -> tuple[ArrayQuery, NoiseEvent, float]:
        """Return the query over n rows, the event that is charged, and the size of a grid step in the unit of the answer."""

    def interpreted(self, value: FloatArray, event: NoiseEvent, unit: float) -> Released:
        """Return the result for the noisy answer `value`, which is in data units."""
        return Released(value=value, noise_std=event.noise_std * unit, event=event)

    def release(
        self,
        account: BudgetAccount,
        rows: Rows,
        executor: Executor,
        *,
        name: str,
        cost: Fraction | Spending,
    ) -> Released:
        """Charge `cost`, run the pass and add noise."""
        query, event, unit = self.priced_query(account.spend(cost), rows.n)
        return self.interpreted(
            release_query(account, query, rows, executor, name=name, event=event, unit=unit),
            event,
            unit,
        )


def symmetrized(value: FloatArray, *, triangle: bool) -> FloatArray:
    """Return symmetric matrices (..., D, D) from noisy matrices, which are overwritten, or from upper triangles, row by row."""
    if not triangle:
        value += value.swapaxes(-1, -2)
        value /= 2.0
        return value
    dim = (math.isqrt(8 * value.shape[-1] + 1) - 1) // 2
    rows, columns = np.triu_indices(dim)
    square = np.empty((*value.shape[:-1], dim, dim))
    square[..., rows, columns] = square[..., columns, rows] = value
    return square


class SymmetricMeasurement(NoisyMeasurement):
    """Symmetric matrices (..., D, D).

    Gaussian noise is independent on full matrices, and the released ones are averaged with their transposes: diagonal noise of
    standard deviation `noise_std`, off-diagonal noise of `noise_std / sqrt(2)`. Discrete Laplace noise is on the upper triangle.
    """

    __slots__ = ()

    def interpreted(self, value: FloatArray, event: NoiseEvent, unit: float) -> Released:
        """See `NoisyMeasurement.interpreted`."""
        std = event.noise_std * unit
        value = symmetrized(value, triangle=event.triangle)
        spectral = event.spectral_factor * std
        return Released(value=value, noise_std=std, event=event, spectral_std=spectral)


def check_sum_grids(account: Account, costs: Iterable[Fraction], dim: int, n: int) -> None:
    """Raise InputError, before the debit, if one of these costs has no grid for sums of n rows of `dim` coordinates."""
    for cost in costs:
        account.spending.at(cost).grid("sum", dim, n)


def check_gram_grids(account: Account, costs: Iterable[Fraction], dim: int, n: int) -> None:
    """Raise InputError, before the debit, if one of these costs has no grid for second moments of n rows of `dim` coordinates."""
    for cost in costs:
        account.spending.at(cost).grid("moment", dim, n)


HALF = Fraction(1, 2)
_NUMBERS = 1 << 17  # entries of statistics in memory at once


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MappedQuery(ArrayQuery):
    """A pass over integer rows of `row_map`: of all rows, or of those of a node of a cluster tree."""

    kernel: Callable[[Any, RowMap, IntArray], None]  # adds the rows of a chunk to the sum
    row_map: RowMap
    only: RowTree | None = None  # with one target
    # applied before `row_map`, to blocks of rows
    statistic: Callable[[Any], FloatArray] | None = None

    def __post_init__(self) -> None:
        if self.only is not None and self.only.n_labels != 1:
            raise InputError(f"the rows of one node are asked for, got {self.only.n_labels} nodes")

    def add(self, chunk: Chunk, accumulators: Any) -> None:
        """See `Query.add`."""
        if self.statistic is not None:
            size = max(64, _NUMBERS // self.row_map.out_dim)
            for begin in range(0, len(chunk), size):  # blocks that fit into the second-level cache
                part = np.ascontiguousarray(self.statistic(chunk[begin : begin + size]))
                if len(part):
                    self.kernel(part, self.row_map, accumulators[0])
            return
        # Without splits all rows are members; those with a non-finite entry add nothing.
        if self.only is not None and self.only.above:
            grouped, begins = grouped_rows(chunk, self.only)
            chunk = grouped[: begins[1]]
        if len(chunk):
            self.kernel(chunk, self.row_map, accumulators[0])

    @property
    def in_place(self) -> bool:
        """See `Query.in_place`; members of a node are copied."""
        return self.only is None and self.statistic is None


def gram_cost(dim: int) -> int:
    """Return the work per row of a Gram matrix: a multiply-add takes about 1/32 ns."""
    return dim**2 // 32


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VectorSum(NoisyMeasurement):
    """Release the sum of the mapped rows, each clipped to norm `radius`."""

    # Replace-one sensitivity, in grid steps: 2Q in l2, isqrt(4 D Q^2) in l1,
    # whatever the `box`.
    affine: AffineMap
    radius: float
    box: ColumnBox | None = None  # applied before the map

    def priced_query(self, spending: Spending, n: int) -> tuple[MappedQuery, NoiseEvent, float]:
        """See `NoisyMeasurement.priced_query`."""
        dim = self.affine.out_dim
        grid = spending.grid("sum", dim, n)
        kernel = partial(kernels.rows_sum, box=self.box)
        query = MappedQuery(
            shape=(dim,), kernel=kernel, row_map=self.affine.on_grid(grid, self.radius)
        )
        return query, grid.event, grid.step(self.radius)

    def counted_kernel(self) -> CountedKernel:
        """Return the kernel of the sum, without a box, that counts rows with a missing cell as well."""
        if self.box is not None:
            raise InputError("no kernel counts complete rows behind a box: leave out box=")
        return kernels.rows_sum_counted

    def free_count(self, bound: int, spending: Spending) -> int:
        """Return the grid steps of a complete row that leave the sensitivity of integer rows of norm `bound` as it is."""
        return bound


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SecondMoment(SymmetricMeasurement):
    """Release the sum of y y^T over the mapped rows, each clipped to norm `radius`; symmetric (D, D)."""

    # Squared replace-one sensitivity 2 Q^4; l1 (triangle) isqrt(D (D + 3) / 2 Q^4).
    affine: AffineMap
    radius: float
    # to a node of a cluster tree; the event has the cost of entering or leaving it
    only: RowTree | None = None

    def priced_query(self, spending: Spending, n: int) -> tuple[MappedQuery, NoiseEvent, float]:
        """See `NoisyMeasurement.priced_query`."""
        dim = self.affine.out_dim
        if self.only is None:
            grid = spending.grid("moment", dim, n)
        else:
            lineage = self.only.lineage
            grid = spending.cluster_grid("moment", dim, n, clusters=1, lineage=lineage)
        query = MappedQuery(
            shape=spending.moment_shape(dim),
            lower=(dim, dim),
            row_cost=gram_cost(dim),
            kernel=kernels.rows_gram,
            row_map=self.affine.on_grid(grid, self.radius),
            only=self.only,
        )
        return query, grid.event, grid.step(self.radius) ** 2

    def counted_kernel(self) -> CountedKernel:
        """Return the kernel of all rows, not of those of a node, that counts rows with a missing cell as well."""
        if self.only is not None:
            raise InputError(
                "a row that enters a node moves its sum as much as is charged for: no count is free there"
            )
        return kernels.rows_gram_counted

    def free_count(self, bound: int, spending: Spending) -> int:
        """Return the grid steps of a complete row that leave the sensitivity of squares of rows of norm `bound` as it is."""
        return spending.free_steps(self.affine.out_dim, bound)


# Sums with the number of complete rows, which costs nothing. Privacy note: `notes/complete_rows.md`.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompleteRowsQuery(ArrayQuery):
    """The answer of a sum, flat, and then the number of rows whose entries are all finite, times `times`."""

    total: MappedQuery
    counted: CountedKernel  # adds as the kernel of `total`
    times: int

    def zeros(self) -> tuple[IntArray, ...]:
        """See `Query.zeros`."""
        return (*self.total.zeros(), np.zeros(1, dtype=np.int64))

    def add(self, chunk: Chunk, accumulators: Any) -> None:
        """See `Query.add`."""
        sums, complete = accumulators
        incomplete = np.zeros(1, dtype=np.int64)
        self.counted(chunk, self.total.row_map, sums, incomplete)
        complete += len(chunk) - incomplete

    def answer(self, accumulators: Any) -> IntArray:
        """See `Query.answer`."""
        sums, complete = accumulators
        return np.concatenate([self.total.answer((sums,)).reshape(-1), complete * self.times])

    @property
    def in_place(self) -> bool:
        """See `Query.in_place`."""
        return self.total.in_place


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WithCompleteRows(Measurement[Fraction, Released]):
    """Release a sum over all rows and, with the same grid, event and cost, the number of rows without a missing cell."""

    # An incomplete row is zero in the sum, so that a row that becomes incomplete moves the sum by half of what it may move:
    # the other half is for the count.
    total: VectorSum | SecondMoment

    def __post_init__(self) -> None:
        self.total.counted_kernel()  # raises where no count is free

    def release(
        self, account: BudgetAccount, rows: Rows, executor: Executor, *, name: str, cost: Fraction
    ) -> Released:
        """Charge `cost`, run the pass and add noise."""
        spending = account.spend(cost)
        query, event, unit = self.total.priced_query(spending, rows.n)
        times = self.total.free_count(query.row_map.quant_bound, spending)
        sums = math.prod(query.shape)
        both = CompleteRowsQuery(
            shape=(sums + 1,),
            total=query,
            counted=self.total.counted_kernel(),
            times=times,
            row_cost=query.row_cost,
        )
        joint = type(event)(event.worst, event.log2_scale, sums + 1)
        noisy = release_query(account, both, rows, executor, name=name, event=joint, unit=unit)
        answer = self.total.interpreted(noisy[:-1].reshape(query.shape), event, unit)
        complete = float(noisy[-1]) / unit / times
        return replace(answer, event=joint, complete=complete, complete_std=event.noise_std / times)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MomentPieces(SymmetricMeasurement):
    """Release the sums of y y^T of two parts of the mapped rows, inside norm `radius` and from there to sqrt(2) times it."""

    # Two second moments, (2, D, D), each with the grid of half the cost; jointly they have squared sensitivity 4 Q^4, and l1 twice
    # that of one. The outer part of y is y sqrt(min(|y|^2, 2 radius^2) - radius^2) / |y|, of norm at most `radius` as well.
    affine: AffineMap
    radius: float

    def priced_query(self, spending: Spending, n: int) -> tuple[MappedQuery, NoiseEvent, float]:
        """See `NoisyMeasurement.priced_query`."""
        dim = self.affine.out_dim
        grid = spending.part(HALF).grid("moment", dim, n)
        shape = spending.moment_shape(dim, 2)
        query = MappedQuery(
            shape=shape,
            lower=(2, dim, dim),
            row_cost=gram_cost(dim),
            kernel=kernels.rows_pieces,
            row_map=self.affine.on_grid(grid, self.radius),
        )
        event = type(grid.event)(2 * grid.event.worst, grid.log2_scale, 2 * grid.event.draws)
        return query, event, grid.step(self.radius) ** 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RadialQuery(ArrayQuery):
    """One vector from one pass, of the parts that are asked for: counts of shells, (cells,), times an integer; sums of the parts of
    rows inside the limit and from there to twice it, (2 D,); and the squares of both together, (D^2,) or an upper triangle.
    """

    row_map: RowMap
    # of squares, which are multiplied by `scale`: their grid steps for one of sums, and the largest norm there, 0 for no squares
    per_step: float = 1.0
    bound: int = 0
    pieces: bool = True  # whether there are sums
    triangle: bool = False
    edges_sq: FloatArray | None = None  # of shells, in squared grid steps
    times: int = 1  # factor of the counts
    in_place = True

    def zeros(self) -> tuple[IntArray, ...]:
        """See `Query.zeros`."""
        dim = self.row_map.out_dim
        cells = 0 if self.edges_sq is None else len(self.edges_sq) + 1
        shapes = (2, dim), (dim, dim), (cells,)
        return tuple(np.zeros(shape, dtype=np.int64) for shape in shapes)

    def add(self, chunk: Chunk, accumulators: Any) -> None:
        """See `Query.add`."""
        sums, squares, counts = accumulators
        wanted = sums if self.pieces else None, squares if self.bound else None
        kernels.rows_radial(
            chunk,
            self.row_map,
            *wanted,
            self.per_step,
            max(self.bound, 1),
            self.edges_sq,
            None if self.edges_sq is None else counts,
        )

    def answer(self, accumulators: Any) -> IntArray:
        """See `Query.answer`."""
        sums, squares, counts = accumulators
        parts = [counts * self.times, sums.reshape(-1)] if self.pieces else [counts * self.times]
        if self.bound:
            parts.append(
                in_shape(squares, (0,) if self.triangle else (0, 0)).reshape(-1) * self.scale
            )
        return np.concatenate(parts)


def in_steps(edges: FloatArray, row_map: RowMap) -> FloatArray:
    """Return the squares of ascending `edges` in grid steps."""
    with np.errstate(over="ignore", under="ignore"):
        return np.square(np.asarray(edges) * row_map.inv_step)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RadialPieces(Measurement[Fraction, Released]):
    """Release the sums of two parts of the mapped rows, (2, D): up to norm `radius` / 2 and from there to `radius`."""

    # Each sum has the grid of half the cost: the squared sensitivity is 8 Q^2 in all, l1 twice that of one. `squares` of the cost,
    # of Gaussian accounts, are for the second moment of rows clipped to `radius`, in the same steps of noise: 2 (k B^2)^2 more.
    # `counted` of the cost is for `counts` of the same rows, multiplied by S: 2 S^2 more, l1 2 S.
    affine: AffineMap
    radius: float
    squares: Fraction = Fraction(0)
    counts: ShellCounts | None = None
    counted: Fraction = Fraction(0)

    def release(
        self, account: BudgetAccount, rows: Rows, executor: Executor, *, name: str, cost: Fraction
    ) -> Released:
        """Charge `cost`, run the pass and add noise."""
        dim = self.affine.out_dim
        spending = account.spending
        of_sums = spending.at((cost - self.squares - self.counted) / 2)
        grid = of_sums.grid("sum", dim, rows.n)
        bound, times = spending.at(self.squares).square_bound(grid, dim)
        limit = float(grid.clip_steps)
        length = float(calibration.clip_steps(bound, dim)) if bound else 1.0
        unit = self.radius / 2.0 / limit
        row_map = self.affine.row_map(
            quant_bound=grid.quant_bound, inv_step=1.0 / unit, limit=limit
        )
        counted = spending.at(self.counted)
        scale = 0 if self.counts is None else counted.count_steps(grid.event)
        edges_sq = None if self.counts is None else in_steps(self.counts.edges, row_map)
        cells = 0 if edges_sq is None else len(edges_sq) + 1
        query = RadialQuery(
            shape=(cells + 2 * dim + (dim * dim if bound else 0),),
            row_cost=2 * gram_cost(dim),
            scale=times,
            bound=bound,
            per_step=length / (2.0 * limit),
            row_map=row_map,
            edges_sq=edges_sq,
            times=scale,
        )
        worst = 2 * grid.event.worst + 2 * (times * bound**2) ** 2 + counted.counts_add(scale)
        event = type(grid.event)(worst, grid.log2_scale, query.shape[0])
        noisy = release_query(account, query, rows, executor, name=name, event=event)
        counts, sums, squares = np.split(noisy, [cells, cells + 2 * dim])
        moment = None
        std = event.noise_std * unit
        if bound:
            step = (self.radius / length) ** 2 / times
            value = squares.reshape(dim, dim) * step
            noise = event.noise_std * step
            value = symmetrized(value, triangle=False)
            moment = Released(value=value, noise_std=noise, event=event, spectral_std=noise)
        return Released(
            value=sums.reshape(2, dim) * unit,
            moment=moment,
            event=event,
            noise_std=std,
            counts=None if self.counts is None else counts / scale,
        )


def _shells_and_incomplete(
    chunk: Chunk, row_map: RowMap, counts: IntArray, *, edges_sq: FloatArray, box: ColumnBox | None
) -> None:
    """`rows_shell_counts` with one more cell, of the rows that are in no shell."""
    shells = counts[:-1]
    before = int(shells.sum())
    kernels.rows_shell_counts(chunk, row_map, shells, edges_sq=edges_sq, box=box)
    counts[-1] += len(chunk) - (int(shells.sum()) - before)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShellCounts(NoisyMeasurement):
    """Release the number of rows with norm of y in [0, e_1], (e_1, e_2], ..., (e_k, inf), without rows with a non-finite entry."""

    # One joint histogram: a replaced row moves between two cells, squared l2 sensitivity 2 S^2, l1 sensitivity 2 S.
    affine: AffineMap
    edges: FloatArray
    incomplete: bool = False  # one more cell, the last, of rows with a non-finite entry
    # to a node of a cluster tree; the event has the cost of entering or leaving it
    only: RowTree | None = None
    box: ColumnBox | None = None  # applied before the map

    def priced_query(self, spending: Spending, n: int) -> tuple[MappedQuery, NoiseEvent, float]:
        """See `NoisyMeasurement.priced_query`."""
        edges = np.asarray(self.edges, dtype=np.float64)
        with np.errstate(over="ignore", under="ignore"):
            edges_sq = np.square(edges)
        ascending = edges.ndim == 1 and bool(
            np.all(edges > 0.0) and np.all(np.diff(edges_sq, prepend=0.0) > 0.0)
        )
        if not ascending or not np.all(np.isfinite(edges_sq)):
            raise InputError(
                "edges must be positive and strictly ascending, and their squares finite and distinct"
            )
        cells = len(edges_sq) + 1 + self.incomplete
        if self.only is None:
            grid = spending.grid("count", cells, n)
        else:
            lineage = self.only.lineage
            grid = spending.cluster_grid("cells", cells, n, clusters=1, lineage=lineage)
        counted = _shells_and_incomplete if self.incomplete else kernels.rows_shell_counts
        kernel = partial(counted, edges_sq=edges_sq, box=self.box)
        query = MappedQuery(
            shape=(cells,),
            scale=grid.quant_bound,
            kernel=kernel,
            row_map=self.affine.row_map(),
            only=self.only,
        )
        return query, grid.event, 1.0 / grid.quant_bound


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CountedMoment(Measurement[Fraction, Released]):
    """Release shell counts and a second moment of the same rows in one pass; `counted` of the cost is for the counts."""

    # One vector (S counts, gram): squared sensitivity 2 S^2 + 2 Q^4, l1 2 S plus that of the triangle. The grid is that of the
    # second moment, and S the largest integer at which the counts cost no more than `counted`. Both have one map of rows.
    counts: ShellCounts
    moment: SecondMoment
    counted: Fraction

    def release(
        self, account: BudgetAccount, rows: Rows, executor: Executor, *, name: str, cost: Fraction
    ) -> Released:
        """Charge `cost`, `counted` of it for the counts, run the pass and add noise."""
        left = account.spend(cost - self.counted)
        gram, event, unit = self.moment.priced_query(left, rows.n)
        counted = left.at(self.counted)
        scale = counted.count_steps(event)
        row_map = gram.row_map
        cells = len(self.counts.edges) + 1
        draws = cells + math.prod(gram.shape)
        query = RadialQuery(
            shape=(draws,),
            row_cost=gram.row_cost,
            row_map=replace(row_map, limit=row_map.limit / 2.0),
            pieces=False,
            bound=row_map.quant_bound,
            triangle=event.triangle,
            edges_sq=in_steps(self.counts.edges, row_map),
            times=scale,
        )
        worst = event.worst + counted.counts_add(scale)
        joint = type(event)(worst, event.log2_scale, draws)
        noisy = release_query(account, query, rows, executor, name=name, event=joint)
        moment = self.moment.interpreted(noisy[cells:].reshape(gram.shape) * unit, event, unit)
        return Released(
            value=noisy[:cells] / scale, moment=moment, event=joint, noise_std=moment.noise_std
        )


# Noisy sum of a vector that is computed from each row independently. Privacy note: `notes/statistic_sum.md`.


def _parts_sum(chunk: Chunk, row_map: RowMap, out: IntArray, *, part_of: IntArray) -> None:
    """`rows_sum` in which a row is zero unless the norms of its parts, each rounded up, add up to at most Q."""
    belongs = (part_of[:, None] == np.arange(part_of.max() + 1)).astype(np.float64)
    rows = np.empty((len(chunk), row_map.out_dim), dtype=np.int32)
    kernels.rows_quantise(chunk, row_map, rows)
    # Integers below 2^53, so every product and sum of doubles is exact.
    squares = (np.square(rows, dtype=np.float64) @ belongs).astype(np.int64)
    norms = np.sqrt(squares).astype(np.int64)
    norms += norms * norms < squares
    out += rows[norms.sum(axis=1) <= row_map.quant_bound].sum(axis=0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StatisticSum(NoisyMeasurement):
    """Release the sum over the rows of statistic(row), each clipped to norm `radius`; cost and sensitivity as in `VectorSum`."""

    # `statistic` maps a chunk (n, columns) to (n, dim), every output row from its own input row and public numbers alone; a row
    # with a non-finite entry counts as zero. If `part_of` (dim,) divides the coordinates into parts of equal length, the norms of a
    # row's parts must add up to at most `radius`: the l1 sensitivity is 2 isqrt(width Q^2).
    statistic: Callable[[Any], FloatArray]
    dim: int
    radius: float
    row_cost: int
    part_of: IntArray | None = None

    def priced_query(self, spending: Spending, n: int) -> tuple[MappedQuery, NoiseEvent, float]:
        """See `NoisyMeasurement.priced_query`."""
        parts = 1 if self.part_of is None else int(self.part_of.max()) + 1
        width = self.dim // parts
        grid = spending.grid("parts", width, n, parts=parts)
        given: dict[str, Any] = {
            "shape": (self.dim,),
            "statistic": self.statistic,
            "row_cost": self.row_cost,
        }
        affine = AffineMap(dim=self.dim)
        if self.part_of is None or not spending.adds_parts or parts == 1:
            query = MappedQuery(
                kernel=kernels.rows_sum, row_map=affine.on_grid(grid, self.radius), **given
            )
            return query, grid.event, grid.step(self.radius)
        unit = self.radius / (grid.quant_bound - calibration.parts_slack(parts, width) - 1)
        row_map = affine.row_map(
            quant_bound=grid.quant_bound, inv_step=1.0 / unit, limit=float(grid.clip_steps)
        )
        return (
            MappedQuery(kernel=partial(_parts_sum, part_of=self.part_of), row_map=row_map, **given),
            grid.event,
            unit,
        )


# (rows, 1 / step) -> for each block of rows, the vectors of each part in steps, (some, side), and the positions of their rows in
# the block, (some,). A row without a vector in a part is zero there.
SoftParts = Callable[[Any, float], Iterable[tuple[Sequence[FloatArray], Sequence[IntArray]]]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SoftGramQuery(ArrayQuery):
    """For each part p of the integer rows q the sum of q_p q_p^T, (parts, side, side); a row is zero unless |q|^2 <= Q^2."""

    rows_of: SoftParts
    inv_step: float
    bound: int

    def add(self, chunk: Chunk, accumulators: Any) -> None:
        """See `Query.add`."""
        # Integers in doubles: sums of squares are exact below 2^53 and exceed Q^2 beyond it, NaN fails the test, and sums of
        # fewer than 2^30 products below 2^23 are exact in any order.
        with np.errstate(all="ignore"):
            for parts, places in self.rows_of(chunk, self.inv_step):
                rounded = [np.rint(rows, out=rows) for rows in parts]
                norms = [np.einsum("ij,ij->i", rows, rows) for rows in rounded]
                within_bound = (
                    np.bincount(np.concatenate(places), np.concatenate(norms))
                    <= float(self.bound) ** 2
                )
                for out, rows, at in zip(accumulators[0], rounded, places, strict=True):
                    inside = rows if within_bound.all() else rows[within_bound[at]]
                    out += (inside.T @ inside).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SoftGrams(SymmetricMeasurement):
    """Release for each p the sum of y_p y_p^T over the rows, each mapped to a y of norm <= `radius` of `parts` equal parts."""

    # The parts of a row share one ball: squared replace-one sensitivity 2 Q^4, as of one Gram matrix. `rows_of` computes the parts
    # of each row from that row and public values alone. In l1 the triangles change by at most 2 floor((side + 1) Q^2 / 2).
    rows_of: SoftParts
    parts: int
    side: int
    radius: float
    row_cost: int

    def priced_query(self, spending: Spending, n: int) -> tuple[SoftGramQuery, NoiseEvent, float]:
        """See `NoisyMeasurement.priced_query`."""
        parts = self.parts
        side = self.side
        shape = spending.moment_shape(side, parts)
        grid = spending.grid("shared", side, n, parts=parts)
        step = grid.step(self.radius)
        query = SoftGramQuery(
            shape=shape,
            lower=(parts, side, side),
            row_cost=self.row_cost,
            rows_of=self.rows_of,
            inv_step=1.0 / step,
            bound=grid.quant_bound,
        )
        return query, grid.event, step**2


# The features of the diagonal structure: each row's coordinates and their squares. Privacy note: `notes/axis_features.md`.

BLOCK = 2048  # rows


@dataclass(frozen=True, slots=True, eq=False)
class AxisFeatures:
    """The map x -> (v, (v^2 - 1) / sqrt(2)) for v = matrix (x - center), rows (n, dim) to (n, 2 dim)."""

    # Every sum is computed term by term, in the order of the columns, so that a row has the same bits in every chunk.
    center: FloatArray
    matrix: FloatArray

    @property
    def out_dim(self) -> int:
        """Number of features of a row."""
        return 2 * len(self.center)

    def __call__(self, chunk: Any) -> FloatArray:
        """Map a chunk, in blocks that stay in the cache."""
        n = len(chunk)
        dim = len(self.center)
        out = np.empty((n, 2 * dim))
        with np.errstate(all="ignore"):
            for begin in range(0, n, BLOCK):
                self._block(
                    np.asarray(chunk[begin : begin + BLOCK], dtype=np.float64),
                    out[begin : begin + BLOCK],
                )
        return out

    def _block(self, rows: FloatArray, out: FloatArray) -> None:
        dim = len(self.center)
        gaps = np.ascontiguousarray((rows - self.center).T)
        total = self.matrix[:, :1] * gaps[0]
        product = np.empty_like(total)
        for column in range(1, dim):
            np.multiply(self.matrix[:, column : column + 1], gaps[column], out=product)
            total += product
        out[:, :dim] = total.T
        np.multiply(total, total, out=product)
        product -= 1.0
        product /= math.sqrt(2.0)
        out[:, dim:] = product.T
