"""The adaptive releases for a mean of columns, and the estimate, interval and reason of each column.

Counts of cells: of all columns at first, and again about better centers, or where the sum has budget to spare.
Every decision here is a function of public and of released numbers, and what is asked again is paid out of the share of the sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from fastpubpriv import session, validation
from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.distributions import tuning
from fastpubpriv.distributions.budget_split import (
    MOVED,
    SHELLS,
    BudgetSplit,
    check_grids,
    divide,
)
from fastpubpriv.distributions.columns import CountedColumns, columns_clipped, joined
from fastpubpriv.distributions.line import LARGEST
from fastpubpriv.distributions.norms import SHELLS_AN_OCTAVE, Norms, choose_ball
from fastpubpriv.distributions.support import (
    MOST_CELLS,
    columns_of,
    doubtful_sum,
    edges_of,
    fewest,
    lower_medians,
    public_counts,
    public_moments,
    scales_of,
    undetected_at,
    undetected_rows,
    window_cells,
)
from fastpubpriv.errors import InputError, warn
from fastpubpriv.estimators.bounded_means import BoundedColumns, mean_in_bounds
from fastpubpriv.estimators.radii import expected_normal_norm
from fastpubpriv.kernels.rows import cells_apart
from fastpubpriv.mechanisms.cells import SignedCells
from fastpubpriv.mechanisms.sums import AffineMap, Released, ShellCounts, VectorSum
from fastpubpriv.results.estimates import ColumnReport, MeanResult
from fastpubpriv.results.public_draws import normal_quantile
from fastpubpriv.results.reasons import PartReasons, Reason, Reasons, first_of
from fastpubpriv.rowwise.row_maps import ColumnBox
from fastpubpriv.session import Session
from fastpubpriv.sources.views import adjacent_columns

Bounds = tuple[FloatArray, FloatArray] | None
# Arrays of one number per cell that exist at once during a second count: earlier counts, pooled counts and their variances; exact
# counts of the pass, scaled to the noise grid, and released.
HELD = 6
# Bytes of these arrays for the columns that are counted together. A source that is read in order is parsed anew for each block.
BLOCK_BYTES = 3 << 24
PARSED_BYTES = 16 * BLOCK_BYTES
# Bytes of a column that is kept while others are counted, in addition to its windows of cells.
COLUMN_BYTES = 2_500


def ends_of(bounds: Bounds, dim: int) -> tuple[FloatArray, FloatArray]:
    """Return the bounds of the columns, infinite without any."""
    if bounds is None:
        return np.full(dim, -math.inf), np.full(dim, math.inf)
    return bounds


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnCounts:
    """Released counts (dim, cells) about centers (dim,), and the noise standard deviation of a count, by column (dim,)."""

    center: FloatArray
    values: FloatArray
    std: FloatArray
    # of the values among all cells, if they are those of windows alone
    places: IntArray | None = None

    def cut(self, columns: CountedColumns, log2_parts: int) -> ColumnCounts:
        """The counts in the windows of columns; those of a column without a support serve no more, and its center is NaN."""
        begins = np.array([column.begins[::-1] for column in columns.counted])
        size = window_cells(log2_parts)
        side = self.values.shape[1] // 2 - 1
        windows = begins[:, :, None] + np.array([[0], [side]]) + np.arange(size)
        others = np.broadcast_to([2 * side, 2 * side + 1], begins.shape)
        places = np.concatenate([windows.reshape(len(begins), -1), others], axis=1)
        nowhere = [scale.outermost < 0 for scale in columns.scales]
        center = np.where(nowhere, math.nan, self.center)
        values = np.take_along_axis(self.values, places, axis=1)
        return replace(self, center=center, values=values, places=places.astype(np.int32))

    def joined(self, other: ColumnCounts) -> ColumnCounts:
        """Pool with `other` by inverse variance where cells are kept; a column whose center has moved has only those of `other`."""
        same_center = self.center == other.center
        weight = np.where(same_center, other.std**2 / (self.std**2 + other.std**2), 0.0)
        std = np.where(same_center, self.std * other.std / np.hypot(self.std, other.std), other.std)
        places = self.places
        new = other.values if places is None else np.take_along_axis(other.values, places, axis=1)
        values = self.values - new
        values *= weight[:, None]
        values += new
        if places is not None:
            # Elsewhere `other` stands alone: with the noise of pooled counts, its z-scores remain the same.
            every = other.values * (std / other.std)[:, None]
            np.put_along_axis(every, places, values, axis=1)
            values = every
        return ColumnCounts(center=other.center, values=values, std=std)


def memory_of_cells(run: Session, shares: BudgetSplit) -> int:
    """Bytes of the arrays with a number for each signed cell of a block of columns, and of what is kept of all columns."""
    together = min(shares.dim, columns_of_block(run, shares))
    block = 8 * HELD * together * cells_apart(shares.log2_parts)
    if together == shares.dim:
        return block
    # Of each side: counts released before and now, pooled counts and their variances.
    windows = 8 * 2 * 4 * window_cells(shares.log2_parts)
    return block + shares.dim * (windows + COLUMN_BYTES)


def columns_of_block(run: Session, shares: BudgetSplit) -> int:
    """Number of columns whose cells are counted together, from public numbers."""
    room = BLOCK_BYTES if run.rows.random_access else PARSED_BYTES
    return max(1, room // (8 * HELD * cells_apart(shares.log2_parts)))


def cells_in_blocks(
    run: Session,
    center: FloatArray,
    cost: Fraction,
    shares: BudgetSplit,
    *,
    neutral: bool = False,
) -> Iterator[tuple[slice, Released]]:
    """Release the cells of all columns in blocks; yield the columns of each block, and its counts.

    The blocks are of the same rows, so that their costs add up: each has the share of its columns, and the noise of all at once.
    """
    dim = shares.dim
    width = columns_of_block(run, shares)
    for first in range(0, dim, width):
        last = min(first + width, dim)
        part = slice(first, last)
        cells = SignedCells(center=center[part], log2_parts=shares.log2_parts, neutral=neutral)
        own = run
        if width < dim:
            own = run.on(adjacent_columns(run.rows, first, last, neutral=neutral))
        cost_of_block = cost * Fraction(last - first, dim)
        released = own.release(
            cells,
            name="signed dyadic cells",
            cost=cost_of_block,
            cells_per_octave=shares.parts,
        )
        yield part, released


def columns_from(
    counts: ColumnCounts, public: FloatArray, shares: BudgetSplit, ends: FloatArray
) -> CountedColumns:
    """Return the support and clip of each column within `ends` (columns, 2), estimated in batches of bounded memory.

    Of columns that are not all columns of the call, only the cells about the support are kept.
    """
    together = MOST_CELLS >> shares.log2_parts
    parts = list[CountedColumns]()
    by_noise = {std: replace(shares, count_std=std) for std in np.unique(counts.std).tolist()}
    for begin in range(0, len(ends), together):
        part = slice(begin, begin + together)
        own = [by_noise[std] for std in counts.std[part].tolist()]
        counted = columns_of(counts.values[part], public[:, part], counts.center[part], own)
        scales = scales_of(counted, own)
        if len(ends) < shares.dim:
            counted = [
                column.cut(scale, shares.log2_parts)
                for column, scale in zip(counted, scales, strict=True)
            ]
        parts.append(columns_clipped(counted, scales, own, ends[part], public[:, part]))
    columns: CountedColumns = joined(parts)
    return columns


def row_map(columns: CountedColumns, *, neutral: bool, only: BoolArray | None = None) -> ColumnBox:
    """Return the row map that clips and scales every column; a column that is left out becomes zero."""
    box = columns.box
    in_use = columns.used if only is None else columns.used & only

    def where_used(lengths: FloatArray) -> FloatArray:
        return np.where(in_use, box.absolute(lengths), 0.0)

    return ColumnBox(
        center=box.center,
        lower=where_used(box.lower),
        upper=where_used(box.upper),
        middle=where_used(box.middle),
        width=np.where(in_use, box.absolute(box.half), 1.0),
        absent=np.where(in_use, columns.absent, 0.0),
        neutral=neutral,
    )


def off_center(columns: CountedColumns, public: FloatArray) -> BoolArray:
    """Return which columns have nearly all rows in two adjacent cells (or one octave), too wide to resolve them.

    A new center costs more than it gains where the rows are not far away in deviations of the public rows.
    """
    _, _, public_std = public_moments(public)
    distance = np.abs(columns.box.absolute(columns.mean))
    is_far = columns.used & (distance > tuning.MOVE_STDS * public_std)
    for place in np.flatnonzero(is_far).tolist():
        column = columns.counted[place]
        scale = columns.scales[place]
        shares = columns.shares[place]
        clear = tuning.LIKELY * shares.count_std
        wide = min(2, shares.parts)
        ones = np.ones(wide)
        most = max(float(np.convolve(side, ones).max()) for side in column.values)
        elsewhere = columns.rows[place] - most
        alone = elsewhere < tuning.ALONE * columns.rows[place] + math.sqrt(wide) * clear
        is_far[place] = scale.anchored and column.zero <= clear and alone
    return is_far


@lru_cache(maxsize=64)  # keyed by public numbers: the split that a call begins with
def can_ask_again(shares: BudgetSplit) -> bool:
    """Return whether a noise grid exists for every further release at its least cost; otherwise there is none."""
    least = shares.total * MOVED ** (tuning.MOST_MOVES - 1)
    leftover = tuning.LEFTOVER_SHARES
    cells = min(tuning.MOVE_COUNTS, *leftover)
    total = min(tuning.MOVE_SUM, 1 - max(leftover))
    smallest = replace(shares, cells=least * cells, total=least * total)
    try:
        check_grids(smallest)
    except InputError:
        return False
    return True


def leftover_share(columns: CountedColumns, shares: BudgetSplit) -> Fraction:
    """Fraction of the sum's budget for refined counts: the noise of the sum stays far below the sampling error."""
    noise_sq = (columns.radius * shares.noise_per_clip) ** 2
    sampling_sq = columns.rows * columns.std**2
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(sampling_sq > 0.0, noise_sq / sampling_sq, math.inf)
    worst = float(ratio[columns.used].max(initial=0.0))
    needed = shares.spending.share_at(worst / tuning.NOISE_OF_SAMPLING)
    affordable = (share for share in tuning.LEFTOVER_SHARES if 1.0 - share >= needed)
    return max(affordable, default=Fraction(0))


def moved(
    run: Session, columns: CountedColumns, far: BoolArray, cost: Fraction, *, neutral: bool
) -> FloatArray:
    """Release the means of the columns that lie far from their centers, as new centers."""
    box = columns.box
    own = replace(box, middle=(box.lower + box.upper) / 2.0, half=columns.radius)
    released = VectorSum(
        affine=AffineMap(dim=len(far)),
        radius=math.sqrt(far.sum()),
        box=row_map(replace(columns, box=own), neutral=neutral, only=far),
    )
    totals = run.release(released, name="new centers", cost=cost).value
    shift = np.clip(own.middle + own.half * totals / run.rows.n, box.lower, box.upper)
    return np.where(far, box.placed(shift), box.center)


def count(
    run: Session,
    public: FloatArray,
    shares: BudgetSplit,
    *,
    bounds: Bounds,
    neutral: bool,
    spare: bool = True,
) -> tuple[CountedColumns, BudgetSplit]:
    """Release the counts, and refined ones if the sum can `spare` the budget; return the columns and the remaining split."""
    ends = np.stack(ends_of(bounds, shares.dim), axis=1)

    def ask(
        center: FloatArray, cost: Fraction, left: BudgetSplit, earlier: Sequence[ColumnCounts] = ()
    ) -> tuple[list[ColumnCounts], CountedColumns]:
        """Release the counts of all blocks at a cost that is not in what is `left`, and pool them with `earlier` ones."""
        blocks = list[ColumnCounts]()
        parts = list[CountedColumns]()
        for part, released in cells_in_blocks(run, center, cost, left, neutral=neutral):
            std = np.full(len(released.value), released.noise_std)
            counts = ColumnCounts(center=center[part], values=released.value, std=std)
            if earlier:
                counts = earlier[len(blocks)].joined(counts)
            columns = columns_from(counts, public[:, part], left, ends[part])
            if len(std) < left.dim:  # cut out of released counts, never before the noise is added
                counts = counts.cut(columns, left.log2_parts)
            blocks.append(counts)
            parts.append(columns)
        return blocks, joined(parts)

    again = can_ask_again(shares)
    center = lower_medians(public)
    counts, columns = ask(center, shares.cells, shares)
    for _ in range(tuning.MOST_MOVES if again else 0):
        far = off_center(columns, public)
        if not far.any():
            break
        total = shares.total
        center = moved(run, columns, far, total * tuning.MOVE_SUM, neutral=neutral)
        shares = replace(shares, total=total * MOVED)
        del columns  # to limit memory
        counts, columns = ask(center, total * tuning.MOVE_COUNTS, shares, counts)
    else:
        return columns, shares
    share = leftover_share(columns, shares) if spare else Fraction(0)
    if share:
        total = shares.total
        shares = replace(shares, total=total * (1 - share))
        del columns
        _, columns = ask(center, total * share, shares, counts)
    return columns, shares


class ColumnEstimates(NamedTuple):
    """Estimates of all columns in data units, (dim,) each, and the reasons of each."""

    mean: FloatArray
    noise_std: FloatArray
    sampling_std: FloatArray
    clipping_std: FloatArray
    tails: FloatArray  # (dim, 2)
    reasons: PartReasons


def estimates_of(
    columns: CountedColumns,
    totals: FloatArray,
    instead: FloatArray,
    instead_std: FloatArray,
    n_pub: IntArray,
    *,
    sum_noise: float,
    bias: float,
    neutral: bool,
) -> ColumnEstimates:
    """Estimate the columns from their noisy sums; `instead` are the public means, used where counts resolve nothing."""
    rows = columns.rows
    box = replace(
        columns.box,
        middle=np.where(columns.used, columns.box.middle, 0.0),
        half=np.where(columns.used, columns.box.half, 0.0),
    )
    if not neutral:  # the sum holds a constant for each missing row
        totals = totals - columns.missing * columns.absent
    mean = box.placed(box.decode(totals, rows))
    noise = box.absolute(box.half * sum_noise / rows)
    scale = box.absolute(columns.std)
    sampling = box.absolute(columns.std / np.sqrt(rows))
    clipping = box.absolute(np.hypot(np.sqrt(box.variance), box.half * bias) / rows)
    tails = box.absolute(box.hidden / rows[:, None])
    half = normal_quantile(0.975) * np.hypot(np.hypot(noise, sampling), clipping)
    constant, unresolved = unplaced(columns)
    doubt = np.array([doubtful_sum(*each) for each in columns.evidence]) / rows
    heavy = np.array([scale.outlying for scale in columns.scales]) | columns.sides.heavy.any(axis=1)
    hidden = may_hide_rows(columns, tails, half) | (doubt > half)
    unseen = np.array([undetected_rows(shares) for shares in columns.shares])
    hidden |= unseen > tuning.MOST_UNSEEN * columns.shares[0].n
    wide = noise > scale / np.sqrt(n_pub) / 2.0
    reasons = first_of(
        [
            (constant, Reason.CONSTANT),
            (unresolved, Reason.UNRESOLVED),
            (heavy, Reason.HEAVY_TAIL),
            (hidden, Reason.FEW_ROWS),
            (wide, Reason.WIDE),
        ],
        len(rows),
    )
    # The noise is known even without a scale from counts: the estimate is never worse than the public mean.
    by_counts = np.array([not each.too_noisy for each in columns.shares]) | (
        n_pub < tuning.FEW_PUBLIC
    )
    lost = (noise > instead_std) | (by_counts & ~holds_most_rows(columns))
    return ColumnEstimates(
        np.where(unresolved & lost, instead, mean), noise, sampling, clipping, tails, reasons
    )


def may_hide_rows(columns: CountedColumns, tails: FloatArray, half: FloatArray) -> BoolArray:
    """Return where undetected rows may move the mean beyond an interval of half-width `half`, (dim,)."""
    count_std = np.array([shares.count_std for shares in columns.shares])
    # A column of mostly one value may have undetected rows on a side without significant cells.
    mostly_one = columns.zero > tuning.MOST_ZEROS * columns.shares[0].n
    beside = np.where(columns.sides.occupied, 0.0, tails).max(axis=1)
    few_others = columns.rows - columns.zero < tuning.UNSEEN * count_std
    return np.asarray(
        (tails.max(axis=1) > tuning.HIDDEN * half)
        | (mostly_one & ((beside > tuning.BESIDE * half) | few_others))
        | ~columns.anchored
        | columns.sides.apart.any(axis=1)
    )


def unplaced(columns: CountedColumns) -> tuple[BoolArray, BoolArray]:
    """Return which columns are constant, and which the counts do not localize; a frequent value does if others are detected."""
    occupied = columns.sides.occupied.any(axis=1)
    known = np.array([not shares.too_noisy for shares in columns.shares])
    many = known & (columns.zero > tuning.MANY_ZEROS * columns.shares[0].n)
    without = np.array([scale.outermost < 0 for scale in columns.scales])
    constant = many & without
    return constant, ~constant & ~(occupied & (columns.anchored | many))


def holds_most_rows(columns: CountedColumns) -> BoolArray:
    """Return where the center and the octaves up to the support hold at least half of the rows; a false alarm holds few."""
    holds = list[bool]()
    for column, scale, shares in columns.evidence:
        # Both sides up to the outermost cell: the two sides of a column may end in different octaves.
        end = scale.outermost + 1
        begin = end - tuning.BELOW * shares.parts
        below, above = (column.cells(side, begin, end)[0].sum() for side in (0, 1))
        rows = column.zero + float(below + above)
        holds.append(rows >= shares.n / 2.0)
    return np.array(holds)


def report_of(
    columns: CountedColumns,
    estimates: ColumnEstimates,
    bounds: Bounds,
    *,
    may_be_absent: bool,
) -> ColumnReport:
    """Collect the report of all columns; rows that may be absent are in the counts of missing values."""
    box = columns.box
    dim = len(columns.rows)
    shares = columns.shares[0]
    edges = edges_of(shares.log2_parts)
    reached = np.array(
        [
            [0.0 if last is None else edges[last + 1] for last in scale.ends]
            for scale in columns.scales
        ]
    )
    unseen = np.array([undetected_rows(each) for each in columns.shares])
    unknown = np.array([not known_place(reasons) for reasons in estimates.reasons])
    worst = np.where(unknown[:, None], math.inf, np.zeros((dim, 2)))
    lowest, highest = ends_of(bounds, dim)
    if bounds is not None:
        distance = np.stack([box.center - lowest, highest - box.center], axis=1)
        ends = np.maximum(distance, 0.0).tolist()
        rows = np.array(
            [
                [undetected_at(*of_column, end) for end in pair]
                for of_column, pair in zip(columns.evidence, ends, strict=True)
            ]
        )
        cut = box.absolute(np.stack([-box.lower, box.upper], axis=1))
        worst = rows / shares.n * np.maximum(distance - cut, 0.0)
        unseen = rows.max(axis=1)
        worst[[Reason.UNRESOLVED in reasons for reasons in estimates.reasons]] = math.inf
    may = may_be_absent
    return ColumnReport(
        missing=np.full(dim, math.nan) if may else columns.missing,
        rows_used=shares.n - columns.missing if may else None,
        resolved_from=np.clip(box.center - reached[:, 0], -LARGEST, LARGEST),
        resolved_to=np.clip(box.center + reached[:, 1], -LARGEST, LARGEST),
        undetected_rows=unseen,
        clipping_std=estimates.clipping_std,
        tail_below=estimates.tails[:, 0],
        tail_above=estimates.tails[:, 1],
        worst_below=worst[:, 0],
        worst_above=worst[:, 1],
        lowest=lowest,
        highest=highest,
    )


def known_place(reasons: Reasons) -> bool:
    """Return whether a column with these reasons has a known place."""
    return Reason.CONSTANT not in reasons and Reason.UNRESOLVED not in reasons


MOST_NAMED = 10
MOST_BEYOND = 0.1  # maximum share of public values beyond a bound without a warning
ENOUGH_PUBLIC = 30  # public rows from which their own standard deviation is trusted


def warn_before(
    name: str,
    shares: BudgetSplit,
    public: FloatArray,
    bounds: Bounds,
    columns: tuple[str, ...] | None,
    n_pub: int | None = None,
) -> BoolArray:
    """Warn, from public numbers alone, if counts are too noisy, bounds wrong, or a mean noisier than that of n_pub public rows.

    Return the columns whose bounds are wrong, as in `warn_if_bounds_are_wrong`.
    """
    if shares.too_noisy:
        sought = f"where {shares.dim} columns lie"
        advice = "more private rows or fewer columns"
        if n_pub is not None:
            sought = f"any scale in {shares.dim} columns"
            advice = "more private rows, fewer columns, bounds with weighted_mean, or a covariance"
        warn(
            f"{name}: {shares.n} private rows and this budget are too few to see {sought} (noise of {shares.count_std:.3g} rows in "
            f"each count); pass a larger budget, {advice}",
        )
    elif n_pub is not None:
        predicted = expected_normal_norm(shares.dim) * shares.predicted_error()
        session.warn_if_useless(name, predicted, math.sqrt(shares.dim / n_pub))
    return warn_if_bounds_are_wrong(name, public, bounds, columns)


def warn_if_bounds_are_wrong(
    name: str, public: FloatArray, bounds: Bounds, columns: tuple[str, ...] | None
) -> BoolArray:
    """Warn if more than a few public values lie beyond the bounds; return in which columns, (dim,)."""
    if bounds is None:
        return np.zeros(public.shape[1], dtype=bool)
    beyond = ((public < bounds[0]) | (public > bounds[1])).sum(
        axis=0
    ) > MOST_BEYOND * public_counts(public)
    labels = columns or tuple(f"x{j}" for j in range(public.shape[1]))
    wrong = [label for label, outside in zip(labels, beyond, strict=True) if outside]
    if wrong:
        more = f" and {len(wrong) - MOST_NAMED} more" * (len(wrong) > MOST_NAMED)
        warn(
            f"{name}: public values lie beyond bounds= in {', '.join(wrong[:MOST_NAMED])}{more}, and private values like them "
            "would be clipped; pass wider bounds, or none",
        )
    return np.asarray(beyond)


def public_mean(run: Session, public: FloatArray) -> MeanResult:
    """Return the mean of the public rows: no private row is read and nothing is debited."""
    m, mean, std = public_moments(public)
    # The standard deviation of Student's t stands in for its wider quantiles.
    std = std / np.sqrt(m) * np.sqrt((m - 1) / (m - 3))
    return MeanResult(
        mean=mean,
        noise_std=np.zeros(run.rows.dim),
        sampling_std=std,
        noise_law="gaussian",
        columns=run.rows.columns,
        provenance={"mean": "public rows"},
        **run.fields(len(public)),
    )


def ball_of(
    run: Session, columns: CountedColumns, box: ColumnBox, shares: BudgetSplit
) -> tuple[float, float]:
    """Return the norm bound of whole rows from released counts of shells, and a bound on the bias of the sum."""
    if shares.dim == 1:
        return 1.0, 0.0
    # The largest norm is that of a corner of the box.
    top = float(np.sqrt(np.sum(columns.reach[columns.used] ** 2)))
    edges = top * 2.0 ** (-np.arange(SHELLS - 1, -1, -1) / SHELLS_AN_OCTAVE)
    shells = run.release(
        ShellCounts(affine=AffineMap(dim=shares.dim), edges=edges, box=box),
        name="shells of rows",
        cost=shares.shells,
    )
    return choose_ball(shells.value, edges, shells.noise_std, shares)


def by_root_of_width(columns: CountedColumns) -> CountedColumns:
    """Rescale columns by the root of their width, which minimizes the squared error of the whole vector in data units."""
    used = columns.used
    if not used.any():
        return columns
    box = columns.box
    logs = np.log(box.absolute(np.where(used, box.half, 1.0)))
    roots = np.exp((logs - logs[used].mean()) / 2.0)
    return replace(columns, box=replace(box, half=np.where(used, box.half / roots, box.half)))


def sum_up(
    run: Session,
    public: FloatArray,
    columns: CountedColumns,
    shares: BudgetSplit,
    *,
    bounds: Bounds,
    neutral: bool,
    whole: bool = False,
) -> MeanResult:
    """Release the clipped sum and return the mean; `whole` minimizes the error of the whole vector in data units."""
    columns = by_root_of_width(columns) if whole else columns
    totals = np.zeros(shares.dim)
    noise = 0.0
    bias = 0.0
    # Without any column in use there is no sum to release: this depends on released numbers, and nothing is refunded.
    if columns.used.any():
        box = row_map(columns, neutral=neutral)
        radius, bias = ball_of(run, columns, box, shares)
        measurement = VectorSum(affine=AffineMap(dim=shares.dim), radius=radius, box=box)
        released = run.release(
            measurement, name="clipped sum", cost=shares.total, clip_radius=radius
        )
        totals = released.value
        noise = released.noise_std
    centers = columns.box.center
    medians = lower_medians(public)
    counts, public_mean, public_std = public_moments(public)
    moved = centers != medians
    # Equal public values give no standard deviation.
    known = ~moved & ((public != medians) & ~np.isnan(public)).any(axis=0)
    estimates = estimates_of(
        columns,
        totals,
        np.where(moved, centers, public_mean),
        np.where(known, public_std / np.sqrt(counts), math.inf),
        counts,
        sum_noise=noise,
        bias=bias / math.sqrt(shares.dim),
        neutral=neutral,
    )
    return MeanResult(
        mean=estimates.mean if bounds is None else np.clip(estimates.mean, *bounds),
        noise_std=estimates.noise_std,
        sampling_std=estimates.sampling_std,
        noise_law=shares.spending.law,
        report=report_of(columns, estimates, bounds, may_be_absent=run.rows.may_be_absent),
        part_reasons=estimates.reasons,
        columns=run.rows.columns,
        provenance={"center": "released" if moved.any() else "public rows", "clipping": "released"},
        **run.fields(len(public)),
    )


def mean_of_columns(run: Session, public: FloatArray, settings: Any) -> MeanResult:
    """Return the result of the method "counts" of `estimate_mean`: check its settings, debit and release."""
    n_pub = fewest(public)
    dim = public.shape[1]
    bounds = validation.column_bounds(settings.bounds, dim)
    neutral = settings.missing == "neutral"
    whole = settings.objective == "l2"
    shares = divide(dim, run.rows.n, run.account.spending, n_pub=n_pub)
    # The public mean alone may have the smaller predicted error.
    enough = settings.public_only == "auto" and n_pub >= ENOUGH_PUBLIC
    if enough and shares.predicted_error() > 1.0 / math.sqrt(n_pub):
        return public_mean(run, public)
    within = None
    if bounds is not None and not neutral and not whole:
        within = BoundedColumns.of(public, bounds)
    if within is not None and within.suffice(shares):
        predicted = float(np.linalg.norm(within.predicted_error(shares)))
        session.warn_if_useless("estimate_mean", predicted, math.sqrt(dim / n_pub))
        beyond = warn_if_bounds_are_wrong("estimate_mean", public, bounds, run.rows.columns)
        with run.paid():
            result = mean_in_bounds(run, public, within)
    else:
        check_grids(shares)
        session.require_memory("estimate_mean", dim, memory_of_cells(run, shares))
        beyond = warn_before("estimate_mean", shares, public, bounds, run.rows.columns, n_pub)
        with run.paid():
            columns, shares = count(run, public, shares, bounds=bounds, neutral=neutral)
            result = sum_up(
                run, public, columns, shares, bounds=bounds, neutral=neutral, whole=whole
            )
    result = with_more_missing(run, public, result)
    return session.held_back(session.warned("estimate_mean", result), beyond)


def with_more_missing(run: Session, public: FloatArray, result: MeanResult) -> MeanResult:
    """Return the result with the reason "more_missing" where a file has surely more missing cells than the public rows."""
    assert result.report is not None
    more = session.more_missing(run, public, result.report.missing, result._missing_std)
    return session.with_reason_of_columns(result, Reason.MORE_MISSING, more)


def tails(norms: Norms, unit: FloatArray, n: float) -> FloatArray:
    """Bound (dim,) on the shift of the mean of n rows by rows beyond the clip radius, in whichever column they lie."""
    return np.minimum(unit * (norms.tail / n), np.finfo(np.float64).max)


def with_report(
    name: str,
    result: MeanResult,
    norms: Norms,
    *,
    center: FloatArray,
    unit: FloatArray,
    known: BoolArray,
    bias: FloatArray,
    wide: BoolArray,
    weight: float = 1.0,
    n: float,
) -> MeanResult:
    """Add to a result the report made from norms of (x - center) / unit; warn about unreliable columns as `name`.

    Arrays are (dim,), in data units. The unit is `known` if it is that of the column itself; `bias` is what clipping may have taken
    from the mean; the public rows alone do as well where `wide`; `weight` is that of the private mean, of `n` rows.
    """
    dim = result.dim
    largest = float(np.finfo(np.float64).max)
    half = normal_quantile(0.975) * np.hypot(result.standard_error, bias)
    doubtful = weight * unit * norms.doubt / n > half
    unknown = norms.reason in (Reason.CONSTANT, Reason.UNRESOLVED)
    tail = tails(norms, weight * unit, n)
    heavy = doubtful | (tail > tuning.HIDDEN * half) | (norms.reason == Reason.HEAVY_TAIL)
    reasons = [(unknown, norms.reason), (heavy, Reason.HEAVY_TAIL), (~known | wide, Reason.WIDE)]
    worst = np.full(dim, math.inf if unknown else 0.0)
    reach = np.clip(unit * norms.end, 0.0, largest)
    report = ColumnReport(
        missing=np.full(dim, math.nan),
        resolved_from=np.clip(center - reach, -largest, largest),
        resolved_to=np.clip(center + reach, -largest, largest),
        undetected_rows=np.full(dim, norms.unseen),
        clipping_std=bias,
        tail_below=tail,
        tail_above=tail,
        worst_below=worst,
        worst_above=worst,
        lowest=np.full(dim, -math.inf),
        highest=np.full(dim, math.inf),
    )
    return session.warned(name, replace(result, report=report, part_reasons=first_of(reasons, dim)))
