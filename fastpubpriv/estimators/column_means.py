"""The adaptive releases for a mean of columns, and the estimate, interval and reason of each column.

Counts of cells: of all columns at first, and again about better centers, or where the sum has budget to spare.
Every decision here is a function of public and of released numbers, and what is asked again is paid out of the share of the sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from fastpubpriv import session, validation
from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.distributions import clips, tuning
from fastpubpriv.distributions.budget_split import MOVED, BudgetSplit, check_grids, divide
from fastpubpriv.distributions.clips import ColumnClip, middle_and_width
from fastpubpriv.distributions.norms import SHELLS_AN_OCTAVE, Norms, choose_ball
from fastpubpriv.distributions.support import (
    SignedCounts,
    Support,
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
)
from fastpubpriv.errors import InputError, warn
from fastpubpriv.estimators.bounded_means import BoundedColumns, mean_in_bounds
from fastpubpriv.estimators.radii import expected_normal_norm
from fastpubpriv.kernels.rows import cells_apart
from fastpubpriv.mechanisms.cells import SignedCells
from fastpubpriv.mechanisms.sums import AffineMap, ShellCounts, VectorSum
from fastpubpriv.results.base import frozen
from fastpubpriv.results.estimates import ColumnReport, MeanResult
from fastpubpriv.results.public_draws import normal_quantile
from fastpubpriv.results.reasons import Reason, first_of, with_clipped
from fastpubpriv.rowwise.row_maps import ColumnBox
from fastpubpriv.session import Session

Bounds = tuple[FloatArray, FloatArray] | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnState:
    """Counts, support and clip of one column; it enters the sum as y = (clipped - middle) / width, in the unit of its clip."""

    column: SignedCounts
    scale: Support
    clip: ColumnClip
    middle: float
    width: float
    shares: BudgetSplit  # its count_std is that of this column

    @property
    def used(self) -> bool:
        """False for a column that is left out: its clip interval is empty, or not representable by normal numbers."""
        clip = self.clip
        lengths = (self.clip.below, self.clip.above, self.width)
        return (
            clip.radius > 0.0
            and self.width > 0.0
            and clip.absolute(min(each for each in lengths if each)) > 0.0
        )

    @property
    def reach(self) -> float:
        """Maximum of |y|."""
        return max(self.clip.above - self.middle, self.middle + self.clip.below) / self.width


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnCounts:
    """Released counts (dim, cells) about centers (dim,), and the noise standard deviation of a count, by column (dim,)."""

    center: FloatArray
    values: FloatArray
    std: FloatArray

    def joined(self, other: ColumnCounts) -> ColumnCounts:
        """Pool with `other` by inverse variance; a column whose center has moved keeps the counts of `other` alone."""
        same_center = self.center == other.center
        weight = np.where(same_center, other.std**2 / (self.std**2 + other.std**2), 0.0)
        std = np.where(same_center, self.std * other.std / np.hypot(self.std, other.std), other.std)
        values = self.values - other.values
        values *= weight[:, None]
        values += other.values
        return ColumnCounts(center=other.center, values=values, std=std)


def column_states(
    counts: ColumnCounts, public: FloatArray, shares: BudgetSplit, bounds: Bounds
) -> list[ColumnState]:
    """Estimate the support and clip of each column, in batches of bounded memory."""
    together = tuning.MOST_CELLS >> shares.log2_parts
    states = list[ColumnState]()
    ends = (
        np.tile([-math.inf, math.inf], (shares.dim, 1))
        if bounds is None
        else np.stack(bounds, axis=1)
    )
    for begin in range(0, shares.dim, together):
        part = slice(begin, begin + together)
        own = [replace(shares, count_std=std) for std in counts.std[part].tolist()]
        columns = columns_of(counts.values[part], public[:, part], counts.center[part], own)
        scales = scales_of(columns, own)
        chosen = clips.choose(columns, scales, own, ends[part])
        for k, mine in enumerate(own):
            numbers = (
                public[~np.isnan(public[:, begin + k]), begin + k] if mine.too_noisy else public[:0]
            )
            if len(numbers) >= tuning.FEW_PUBLIC:
                chosen[k] = clips.from_public(columns[k], numbers, mine)
        states += [
            ColumnState(
                column=column, scale=scale, clip=clip, middle=middle, width=width, shares=mine
            )
            for column, scale, clip, mine in zip(columns, scales, chosen, own, strict=True)
            for middle, width in [middle_and_width(clip, shares.dim)]
        ]
    return states


def box_of(
    columns: Sequence[ColumnState], *, neutral: bool, only: BoolArray | None = None
) -> ColumnBox:
    """Return the row map that clips and scales every column; a column that is left out becomes zero."""
    numbers = np.zeros((6, len(columns)))
    for place, each in enumerate(columns):
        clip = each.clip
        unit = each.clip.absolute
        numbers[:, place] = each.column.center, 0.0, 0.0, 0.0, 1.0, 0.0
        if each.used and (only is None or only[place]):
            absent = (clip.first_mean - each.middle) / each.width
            box = -unit(clip.below), unit(clip.above), unit(each.middle), unit(each.width), absent
            numbers[1:, place] = box
    names = ("center", "lower", "upper", "middle", "width", "absent")
    return ColumnBox(**dict(zip(names, numbers, strict=True)), neutral=neutral)


def is_off_center(state: ColumnState) -> bool:
    """Return whether nearly all rows lie in two adjacent cells (or one octave), which are too wide to resolve the column."""
    column = state.column
    shares = state.shares
    if not (state.scale.anchored and state.used) or column.zero > tuning.LIKELY * shares.count_std:
        return False
    rows = state.clip.rows
    wide = min(2, shares.parts)
    most = max(
        float((counts[: len(counts) - wide + 1] + (counts[1:] if wide == 2 else 0.0)).max())
        for counts in (column.above, column.below)
    )
    return rows - most < tuning.ALONE * rows + tuning.LIKELY * math.sqrt(wide) * shares.count_std


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


def leftover_share(columns: Sequence[ColumnState], shares: BudgetSplit) -> Fraction:
    """Fraction of the sum's budget for refined counts: the noise of the sum stays far below the sampling error."""
    worst = 0.0
    for each in columns:
        clip = each.clip
        if each.used:
            noise_sq = (clip.radius * shares.noise_per_clip) ** 2
            sampling_sq = clip.rows * clip.std**2
            worst = max(worst, noise_sq / sampling_sq if sampling_sq > 0.0 else math.inf)
    noise = worst / tuning.NOISE_OF_SAMPLING
    needed = shares.spending.share_at(noise)
    affordable = (share for share in tuning.LEFTOVER_SHARES if 1.0 - share >= needed)
    return max(affordable, default=Fraction(0))


def moved(
    run: Session, columns: Sequence[ColumnState], far: BoolArray, cost: Fraction, *, neutral: bool
) -> FloatArray:
    """Release the means of the columns that lie far from their centers, as new centers."""
    middles = [replace(each, middle=each.clip.middle, width=each.clip.radius) for each in columns]
    box = box_of(middles, neutral=neutral, only=far)
    measurement = VectorSum(
        affine=AffineMap(dim=len(columns)), radius=math.sqrt(far.sum()), box=box
    )
    totals = run.release(measurement, name="new centers", cost=cost).value
    center = np.array([each.column.center for each in columns])
    for place in np.flatnonzero(far):
        mapped = middles[place]
        clip = middles[place].clip
        shift = mapped.middle + mapped.width * float(totals[place]) / run.rows.n
        center[place] += clip.absolute(min(max(shift, -clip.below), clip.above))
    largest = np.finfo(np.float64).max
    return np.asarray(np.clip(center, -largest, largest))


def count(
    run: Session,
    public: FloatArray,
    shares: BudgetSplit,
    *,
    bounds: Bounds,
    neutral: bool,
    spare: bool = True,
) -> tuple[list[ColumnState], BudgetSplit]:
    """Release the counts, and refined ones if the sum can `spare` the budget; return the columns and the remaining split."""

    def ask(center: FloatArray, cost: Fraction) -> ColumnCounts:
        cells = SignedCells(center=center, log2_parts=shares.log2_parts, neutral=neutral)
        released = run.release(
            cells, name="signed dyadic cells", cost=cost, cells_per_octave=shares.parts
        )
        return ColumnCounts(
            center=center, values=released.value, std=np.full(shares.dim, released.noise_std)
        )

    again = can_ask_again(shares)
    counts = ask(lower_medians(public), shares.cells)
    columns = column_states(counts, public, shares, bounds)
    for _ in range(tuning.MOST_MOVES if again else 0):
        far = np.array([is_off_center(each) for each in columns])
        if not far.any():
            break
        center = moved(run, columns, far, shares.total * tuning.MOVE_SUM, neutral=neutral)
        counts = counts.joined(ask(center, shares.total * tuning.MOVE_COUNTS))
        shares = replace(shares, total=shares.total * MOVED)
        columns = column_states(counts, public, shares, bounds)
    else:
        return columns, shares
    share = leftover_share(columns, shares) if spare else Fraction(0)
    if share:
        counts = counts.joined(ask(counts.center, shares.total * share))
        shares = replace(shares, total=shares.total * (1 - share))
        columns = column_states(counts, public, shares, bounds)
    return columns, shares


class ColumnEstimate(NamedTuple):
    """Estimate of one column, in data units."""

    mean: float
    noise_std: float
    sampling_std: float
    clipping_std: float
    tail_below: float
    tail_above: float
    reason: Reason | None


def estimate_column(
    state: ColumnState,
    total: float,
    instead: float,
    instead_std: float,
    n_pub: int,
    *,
    sum_noise: float,
    bias: float,
    neutral: bool,
    bounded: bool,
) -> ColumnEstimate:
    """Estimate one column from its noisy sum `total`; `instead` is the public mean, used where counts resolve nothing."""
    shares = state.shares
    clip = state.clip
    unit = state.clip.absolute
    n = shares.n
    stretch = shares.n / clip.rows
    middle, width = (state.middle, state.width) if state.used else (0.0, 0.0)
    estimate = middle + (width * total + clip.correction) / n
    if clip.missing:  # the sum holds a constant for each missing row
        place = middle if neutral else clip.first_mean
        estimate = place + (estimate - place) * stretch
    mean = min(max(state.column.center + unit(estimate), -clips.LARGEST), clips.LARGEST)
    sampling = unit(clip.std / math.sqrt(clip.rows))
    noise = unit(width * sum_noise / n * stretch)
    clipping = unit(math.hypot(math.sqrt(clip.variance), width * bias) / n * stretch)
    tails = [unit(tuning.TAIL * hidden / n * stretch) for hidden in clip.hidden]
    half = normal_quantile(0.975) * math.hypot(noise, sampling, clipping)
    # A column of mostly one value may have undetected rows on a side without significant cells.
    mostly_one = state.column.zero > tuning.MOST_ZEROS * n
    beside = max(
        tail if side is None else 0.0 for side, tail in zip(clip.sides, tails, strict=True)
    )
    # Undetected rows may move the mean beyond the interval.
    hidden = (
        max(tails) > tuning.HIDDEN * half
        or doubtful_sum(state.column, state.scale, shares) / n * stretch > half
        or (mostly_one and beside > tuning.BESIDE * half)
        or (not bounded and undetected_rows(shares) > tuning.MOST_UNSEEN * n)
        or (mostly_one and clip.rows - state.column.zero < tuning.UNSEEN * shares.count_std)
        or not state.scale.anchored
        or any(side.apart for side in clip.sides if side is not None)
    )
    reason = unplaced(state)
    if reason is None and (
        state.scale.outlying or any(side.heavy for side in clip.sides if side is not None)
    ):
        reason = Reason.HEAVY_TAIL
    elif reason is None and hidden:
        reason = Reason.FEW_ROWS
    elif reason is None and noise > unit(clip.std / math.sqrt(n_pub)) / 2.0:
        reason = Reason.WIDE
    # The noise is known even without a scale from counts: the estimate is never worse than the public mean.
    lost = noise > instead_std or (not state.scale.referenced and not shares.too_noisy)
    if reason == Reason.UNRESOLVED and lost:
        mean = instead
    return ColumnEstimate(mean, noise, sampling, clipping, tails[0], tails[1], reason)


def unplaced(state: ColumnState) -> Reason | None:
    """Reason of a column that the counts do not localize; a frequent value does so if other values are detected."""
    shares = state.shares
    scale = state.scale
    many = not shares.too_noisy and state.column.zero > tuning.MANY_ZEROS * shares.n
    beside = any(side is not None for side in state.clip.sides)
    if many and scale.above is None and scale.below is None:
        return Reason.CONSTANT
    return None if beside and (scale.anchored or many) else Reason.UNRESOLVED


def report_of(
    columns: list[ColumnState],
    estimates: list[ColumnEstimate],
    bounds: Bounds,
    *,
    may_be_absent: bool,
) -> ColumnReport:
    """Collect the report of all columns; rows that may be absent are in the counts of missing values."""
    edges = edges_of(columns[0].shares.log2_parts)
    dim = len(columns)
    largest = np.finfo(np.float64).max
    center = np.array([each.column.center for each in columns])
    lasts = [(each.scale.below, each.scale.above) for each in columns]
    reached = np.array(
        [[0.0 if last is None else edges[last + 1] for last in pair] for pair in lasts]
    )
    cuts = [(each.clip, (each.clip.below, each.clip.above)) for each in columns]
    cut = np.array([[clip.absolute(end) for end in ends] for clip, ends in cuts])
    unseen = np.array([undetected_rows(each.shares) for each in columns])
    unknown = np.array([each.reason in (Reason.CONSTANT, Reason.UNRESOLVED) for each in estimates])
    worst = np.where(unknown[:, None], math.inf, np.zeros((dim, 2)))
    lowest = np.full(dim, -math.inf)
    highest = np.full(dim, math.inf)
    if bounds is not None:
        lowest, highest = bounds
        distance = np.stack([center - lowest, highest - center], axis=1)
        far = zip(columns, np.maximum(distance, 0.0).tolist(), strict=True)
        rows = np.array(
            [
                [undetected_at(each.column, each.scale, each.shares, end) for end in ends]
                for each, ends in far
            ]
        )
        worst = rows / columns[0].shares.n * np.maximum(distance - cut, 0.0)
        unseen = rows.max(axis=1)
        worst[[each.reason == Reason.UNRESOLVED for each in estimates]] = math.inf
    missing = np.array([each.clip.missing for each in columns])
    return ColumnReport(
        missing=np.full(dim, math.nan) if may_be_absent else missing,
        rows_used=columns[0].shares.n - missing if may_be_absent else None,
        resolved_from=np.clip(center - reached[:, 0], -largest, largest),
        resolved_to=np.clip(center + reached[:, 1], -largest, largest),
        undetected_rows=unseen,
        clipping_std=np.array([each.clipping_std for each in estimates]),
        tail_below=np.array([each.tail_below for each in estimates]),
        tail_above=np.array([each.tail_above for each in estimates]),
        worst_below=worst[:, 0],
        worst_above=worst[:, 1],
        lowest=lowest,
        highest=highest,
    )


MOST_NAMED = 10
# Arrays of one number per cell that exist at once during a second count: earlier counts, pooled counts and their variances; exact
# counts of the pass, scaled to the noise grid, and released.
HELD = 6


def memory_of_cells(shares: BudgetSplit, held: int = HELD) -> int:
    """Bytes of `held` arrays with a number for each signed cell of each column."""
    return 8 * held * shares.dim * cells_apart(shares.log2_parts)


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
    ) > tuning.MOST_BEYOND * public_counts(public)
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
        mean=frozen(mean),
        noise_std=frozen(np.zeros(run.rows.dim)),
        sampling_std=frozen(std),
        noise_law="gaussian",
        columns=run.rows.columns,
        provenance={"mean": "public rows"},
        **run.fields(len(public)),
    )


def ball_of(
    run: Session, columns: list[ColumnState], box: ColumnBox, shares: BudgetSplit
) -> tuple[float, float]:
    """Return the norm bound of whole rows from released counts of shells, and a bound on the bias of the sum."""
    if shares.dim == 1:
        return 1.0, 0.0
    # The largest norm is that of a corner of the box.
    top = float(np.sqrt(np.sum([each.reach**2 for each in columns if each.used])))
    edges = top * 2.0 ** (-np.arange(tuning.SHELLS - 1, -1, -1) / SHELLS_AN_OCTAVE)
    shells = run.release(
        ShellCounts(affine=AffineMap(dim=shares.dim), edges=edges, box=box),
        name="shells of rows",
        cost=shares.shells,
    )
    return choose_ball(shells.value, edges, shells.noise_std, shares)


def by_root_of_width(columns: list[ColumnState]) -> list[ColumnState]:
    """Rescale columns by the root of their width, which minimizes the squared error of the whole vector in data units."""
    logs = np.array([math.log(each.clip.absolute(each.width)) for each in columns if each.used])
    if not len(logs):
        return columns
    roots = iter(
        np.exp(
            np.clip((logs - logs.mean()) / 2.0, -tuning.FARTHEST_ROOT, tuning.FARTHEST_ROOT)
        ).tolist()
    )
    return [
        replace(each, width=each.width / next(roots)) if each.used else each for each in columns
    ]


def sum_up(
    run: Session,
    public: FloatArray,
    columns: list[ColumnState],
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
    if any(each.used for each in columns):
        box = box_of(columns, neutral=neutral)
        radius, bias = ball_of(run, columns, box, shares)
        measurement = VectorSum(affine=AffineMap(dim=shares.dim), radius=radius, box=box)
        released = run.release(
            measurement, name="clipped sum", cost=shares.total, clip_radius=radius
        )
        totals = released.value
        noise = released.noise_std
    centers = np.array([each.column.center for each in columns])
    medians = lower_medians(public)
    counts, public_mean, public_std = public_moments(public)
    moved = centers != medians
    bias /= float(np.sqrt(shares.dim))
    # Equal public values give no standard deviation.
    known = ~moved & ((public != medians) & ~np.isnan(public)).any(axis=0)
    instead = (
        np.where(moved, centers, public_mean),
        np.where(known, public_std / np.sqrt(counts), math.inf),
    )
    numbers = (each.tolist() for each in (totals, *instead, counts))
    estimates = [
        estimate_column(
            *each, sum_noise=noise, bias=bias, neutral=neutral, bounded=bounds is not None
        )
        for each in zip(columns, *numbers, strict=True)
    ]
    mean = np.array([each.mean for each in estimates])
    if bounds is not None:
        mean = np.clip(mean, *bounds)
    return MeanResult(
        mean=frozen(mean),
        noise_std=frozen([each.noise_std for each in estimates]),
        sampling_std=frozen([each.sampling_std for each in estimates]),
        noise_law=shares.spending.law,
        report=report_of(columns, estimates, bounds, may_be_absent=run.rows.may_be_absent),
        part_reasons=tuple(() if each.reason is None else (each.reason,) for each in estimates),
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
    enough = settings.public_only == "auto" and n_pub >= tuning.ENOUGH_PUBLIC
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
        session.require_memory("estimate_mean", dim, memory_of_cells(shares, HELD))
        beyond = warn_before("estimate_mean", shares, public, bounds, run.rows.columns, n_pub)
        with run.paid():
            columns, shares = count(run, public, shares, bounds=bounds, neutral=neutral)
            result = sum_up(
                run, public, columns, shares, bounds=bounds, neutral=neutral, whole=whole
            )
    # The warning about bounds was given before the debit.
    result = session.warned("estimate_mean", result)
    return replace(result, part_reasons=with_clipped(result.part_reasons, beyond.tolist()))


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
        missing=frozen(np.full(dim, math.nan)),
        resolved_from=frozen(np.clip(center - reach, -largest, largest)),
        resolved_to=frozen(np.clip(center + reach, -largest, largest)),
        undetected_rows=frozen(np.full(dim, norms.unseen)),
        clipping_std=frozen(bias),
        tail_below=frozen(tail),
        tail_above=frozen(tail),
        worst_below=frozen(worst),
        worst_above=frozen(worst),
        lowest=frozen(np.full(dim, -math.inf)),
        highest=frozen(np.full(dim, math.inf)),
    )
    return session.warned(name, replace(result, report=report, part_reasons=first_of(reasons, dim)))
