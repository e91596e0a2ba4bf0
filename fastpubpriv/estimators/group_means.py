"""Means of groups of rows: cell counts of all rows, counts of groups by cells, and one joint release of clipped moments.

The clip points of each group come from its noisy cell counts, which are shrunk towards the distribution of all rows, the more the
more similar the groups are; where its sums contradict that shape, what was clipped is estimated by its own counts alone.
Privacy note: `mechanisms/notes/group_moments.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from fastpubpriv import session, validation
from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.distributions import tuning
from fastpubpriv.distributions.budget_split import MOVED, BudgetSplit, check_grids, divide
from fastpubpriv.distributions.budget_split import draws as column_draws
from fastpubpriv.distributions.clips import TINY
from fastpubpriv.distributions.support import doubtful_sum, edges_of, fewest, key_of
from fastpubpriv.errors import InputError
from fastpubpriv.estimators.column_means import (
    HELD,
    Bounds,
    ColumnState,
    count,
    memory_of_cells,
    unplaced,
    warn_before,
)
from fastpubpriv.estimators.grouping import ALL_SHARE, GroupCodes, Grouping
from fastpubpriv.estimators.linalg import bessel
from fastpubpriv.estimators.mean_methods import COUNTS, changed_settings
from fastpubpriv.mechanisms.cells import CellCounts, RowGroups
from fastpubpriv.mechanisms.group_moments import GroupMoments, MomentsReleased
from fastpubpriv.privacy import Budget
from fastpubpriv.privacy.spending import spending_of
from fastpubpriv.results.base import frozen
from fastpubpriv.results.by_key import FEW_STDS, GroupMeans
from fastpubpriv.results.public_draws import normal_quantile
from fastpubpriv.results.reasons import Reason, first_of, with_clipped
from fastpubpriv.session import Session

CELL_SHARE = Fraction(2, 15)  # share of the counts of groups by cells in the rest
# number of cells of equal mass, and the central fraction of rows that they divide
INNER = 8
MIDDLE = 0.9
OUTER = 7  # maximum number of edges on each side of that
MOST_EDGES = INNER + 1 + 2 * OUTER
# bounds of the relative variance between groups of the rows in a cell
LEAST_SPREAD = 0.02
MOST_SPREAD = 9.0
BIAS = 0.05  # weight of the squared clipping correction in the predicted squared error
# standard deviations from the pooled prediction beyond which a group's counts are not shrunk
SURPRISE = 3.5
BOX_STDS = 3.0  # half-length of a group's box in standard deviations, for predictions


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Line:
    """Cells of one column in ascending order, common to all groups; lengths from the center in units of 2^exponent."""

    center: float
    exponent: int
    edges: FloatArray  # (cells - 1,) edges between which rows are counted
    cuts: FloatArray  # the same in data units
    low: FloatArray  # with high: range in which the values of a cell are assumed to be uniform
    high: FloatArray
    mass: FloatArray  # estimated number of all rows in each cell
    variance: FloatArray  # variance of `mass`
    # distance, below and above, of the outermost row of the modeled tails
    reach: tuple[float, float]

    def absolute(self, lengths: FloatArray) -> FloatArray:
        """Return lengths in data units, clipped to finite numbers; NaN (unknown) becomes the largest float."""
        return np.asarray(
            np.nan_to_num(np.ldexp(lengths, self.exponent), nan=np.finfo(np.float64).max)
        )

    def squared(self, squares: FloatArray) -> FloatArray:
        """Return squared lengths in data units; overflow is infinite, NaN stays NaN."""
        with np.errstate(over="ignore"):
            return np.asarray(np.ldexp(squares, 2 * self.exponent))

    def within(self, lowest: float, highest: float) -> Line:
        """Return the line with every length clipped to bounds in data units; the cells that are counted stay as they are."""
        # One box encodes rows and decodes their sums, so bounds are applied here, before any box is chosen.
        with np.errstate(over="ignore"):
            begin, end = np.ldexp(
                np.array([lowest, highest]) - self.center, -self.exponent
            ).tolist()
        below, above = self.reach
        return replace(
            self,
            edges=np.clip(self.edges, begin, end),
            low=np.clip(self.low, begin, end),
            high=np.clip(self.high, begin, end),
            reach=(-min(max(-below, begin), end), min(max(above, begin), end)),
        )

    def beyond(self, points: FloatArray, sign: float) -> tuple[FloatArray, FloatArray]:
        """Return the mean excess and its mean square of a cell's values above (sign 1) or below (-1) points: (points, cells)."""
        far, near = (
            np.maximum(sign * (each - points[:, None]), 0.0)
            for each in (self.high, self.low)[:: int(sign)]
        )
        width = np.maximum(self.high - self.low, TINY)
        return (far**2 - near**2) / (2.0 * width), (far**3 - near**3) / (3.0 * width)


def line_of(state: ColumnState) -> Line:
    """Return the cells of one column from the counts of all rows: of equal mass in the middle, dyadic further out."""
    clip = state.clip
    shares = state.shares
    column = state.column
    sizes = np.ldexp(edges_of(shares.log2_parts), -clip.exponent)
    below, above = np.zeros((4, 0)), np.zeros((4, 0))  # lower, upper, rows, variance
    inside = [0.0, 0.0]
    guessed = [(0.0, 0.0)] * 2
    reach = [0.0, 0.0]
    for place, counts, variances in (
        (0, column.below, column.below_var),
        (1, column.above, column.above_var),
    ):
        side = clip.sides[place]
        cut = clip.absolute((clip.below, clip.above)[place])
        if side is None and not cut > 0.0:
            continue
        last = key_of(cut, shares.log2_parts) if side is None else side.last
        start = max(0, last + 1 - tuning.BELOW * shares.parts)
        known = slice(start, last + 1)
        cells = np.stack(
            [
                sizes[known],
                sizes[start + 1 : last + 2],
                np.maximum(counts[known], 0.0),
                variances[known],
            ]
        )
        if place:
            above = cells
        else:
            below = np.stack([-cells[1], -cells[0], *cells[2:]])[:, ::-1]
        beyond = np.zeros(0) if side is None else side.beyond
        upper = sizes[last + 1 : last + 2 + len(beyond)]
        beyond, rows = beyond[: len(upper) - 1], float(beyond[: len(upper) - 1].sum())
        far = (
            float((beyond * (upper[:-1] + upper[1:])).sum()) / (2.0 * rows)
            if rows > 0.0
            else 1.5 * float(upper[0])
        )
        inside[place], guessed[place] = float(sizes[start]), (rows, far)
        last_row = np.count_nonzero(np.cumsum(beyond[::-1])[::-1] >= 1.0)
        reach[place] = float(upper[last_row])
    outside = below[2].sum() + above[2].sum() + guessed[0][0] + guessed[1][0]
    rest = np.array(
        [[-inside[0]], [inside[1]], [max(clip.rows - outside, 0.0)], [shares.count_std**2]]
    )
    fine = np.concatenate([below, rest, above], axis=1)
    points = np.append(fine[0], fine[1, -1])
    ranks, noise = (np.append(0.0, np.cumsum(each)) for each in fine[2:])
    part = (1.0 - MIDDLE) / 2.0 + MIDDLE * np.arange(INNER + 1) / INNER
    inner = np.interp(part * ranks[-1], ranks + 1e-9 * clip.rows * np.arange(len(ranks)), points)
    outer = [points[points < inner[0]], points[points > inner[-1]]]
    thin = [
        each[np.linspace(0, len(each) - 1, min(OUTER, len(each))).round().astype(int)]
        for each in outer
    ]
    largest = np.finfo(np.float64).max
    cuts = column.center + np.ldexp(np.concatenate([*thin, inner]), clip.exponent)
    cuts = np.unique(np.clip(cuts, -largest, largest) + 0.0)
    edges = np.ldexp(cuts - column.center, -clip.exponent)
    spread = np.diff(np.interp(edges, points, noise))
    beyond_var = shares.parts * shares.count_std**2
    return Line(
        center=column.center,
        exponent=clip.exponent,
        edges=edges,
        # A signed cell above the center includes its upper end, a cell between edges its lower end.
        cuts=np.where(cuts > column.center, np.nextafter(cuts, math.inf), cuts),
        # Rows beyond an end are assumed to be uniform about their extrapolated mean.
        low=np.append(min(edges[0], -2.0 * guessed[0][1] - edges[0]), edges),
        high=np.append(edges, max(edges[-1], 2.0 * guessed[1][1] - edges[-1])),
        mass=np.concatenate(
            [[guessed[0][0]], np.diff(np.interp(edges, points, ranks)), [guessed[1][0]]]
        ),
        variance=np.concatenate(
            [[beyond_var], np.maximum(spread, shares.count_std**2), [beyond_var]]
        ),
        reach=(reach[0], reach[1]),
    )


class Masses(NamedTuple):
    """Estimated rows of each group in each cell of a column, (groups, cells), their variance, and the counts behind them."""

    rows: FloatArray
    variance: FloatArray
    counts: FloatArray
    std: float


def masses_of(line: Line, counts: FloatArray, std: float) -> Masses:
    """Shrink counts (groups, cells) with noise `std` to the distribution of all rows by empirical Bayes (method of moments)."""
    whole = counts.sum(axis=0)
    noise = len(counts) * std**2
    weight = line.variance / (line.variance + noise)
    pooled = np.maximum(weight * whole + (1.0 - weight) * line.mass, 0.0)
    total = max(float(pooled.sum()), 1.0)
    share = pooled / total
    share_std = np.sqrt(weight * noise) / total
    # A group's size is at least its noise, so that an empty group is estimated by all rows and not by the first public one.
    rows = np.maximum(counts.sum(axis=1), std * np.sqrt(counts.shape[1]))[:, None]
    prior = rows * share
    most = rows * (share + share_std)
    base = prior + std**2 * (1.0 + len(share) * share**2)
    excess = ((counts - prior) ** 2 - base).sum(axis=0) + np.sqrt(2.0 * (base**2).sum(axis=0))
    spread = np.clip(excess / np.maximum((prior**2).sum(axis=0), TINY), LEAST_SPREAD, MOST_SPREAD)
    varies = spread * most**2 + most
    # A group that is unlike all rows, in a cell or altogether, is taken as it was counted.
    apart = (counts - prior) ** 2 / (varies + std**2)
    cells = counts.shape[1]
    unlike = (apart > SURPRISE**2) | (
        apart.sum(axis=1, keepdims=True) > cells + SURPRISE * math.sqrt(2.0 * cells)
    )
    trust = np.where(unlike, 1.0, varies / (varies + std**2))
    rows = np.maximum(prior + trust * (counts - prior), 0.0)
    return Masses(rows=rows, variance=trust * std**2, counts=counts, std=std)


ClippedSums = list[tuple[FloatArray, FloatArray]]  # below and above: (groups, edges) each


class Boxes(NamedTuple):
    """Clip points of the groups in one column, (groups,): edges at the ends, the correction for clipped rows, and its variance."""

    ends: tuple[IntArray, IntArray]
    lower: FloatArray
    upper: FloatArray
    back: FloatArray
    variance: FloatArray

    @classmethod
    def of(cls, line: Line, sides: ClippedSums, ends: tuple[IntArray, IntArray]) -> Boxes:
        """Return the boxes between two edges of each group."""
        (down, down_var), (up, up_var) = sides
        low, high = ((np.arange(len(each)), each) for each in ends)
        back = up[high] - down[low]
        variance = down_var[low] + up_var[high]
        return cls(
            ends=ends,
            lower=line.edges[ends[0]],
            upper=line.edges[ends[1]],
            back=back,
            variance=variance,
        )

    @property
    def middle(self) -> FloatArray:
        """Centers of the boxes."""
        return (self.lower + self.upper) / 2.0

    @property
    def radius(self) -> FloatArray:
        """Half-lengths of the boxes."""
        return (self.upper - self.lower) / 2.0


def clipped_sums(line: Line, masses: Masses) -> ClippedSums:
    """Return the sum of what is clipped below, and above, each edge, and its variance."""
    sides = []
    for over, square in (line.beyond(line.edges, -1.0), line.beyond(line.edges, 1.0)):
        excess = masses.rows @ over.T
        variance = masses.variance @ (over**2).T + masses.rows @ np.maximum(square - over**2, 0.0).T
        # Shrinkage as in `clips.shrunk_excess`: minus the part that noise explains.
        sides.append((np.maximum(excess - variance / np.maximum(excess, TINY), 0.0), variance))
    return sides


def boxes_of(line: Line, masses: Masses, noise: float) -> Boxes:
    """Return the box of each group that minimizes the predicted squared error of a sum with noise `noise` times the half-length."""
    points = line.edges
    sides = clipped_sums(line, masses)
    (down, down_var), (up, up_var) = sides
    radius = (points - points[:, None]) / 2.0  # lower end, upper end
    error = (
        np.where(radius >= 0.0, (radius * noise) ** 2, math.inf)
        + down_var[:, :, None]
        + up_var[:, None, :]
    )
    error += BIAS * (down[:, :, None] + up[:, None, :]) ** 2
    low, high = np.unravel_index(error.reshape(len(masses.rows), -1).argmin(axis=1), radius.shape)
    return Boxes.of(line, sides, (low, high))


def centered(
    line: Line, masses: Masses, boxes: Boxes | None
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the rows and mean of each group by its cells, and their ends from this mean; with boxes, of clipped values."""
    low, high = (np.broadcast_to(each, masses.rows.shape) for each in (line.low, line.high))
    if boxes is not None:
        low, high = (
            np.clip(each, boxes.lower[:, None], boxes.upper[:, None]) for each in (low, high)
        )
    total = np.maximum(masses.rows.sum(axis=1), 1.0)
    mean = (masses.rows * (low + high) / 2.0).sum(axis=1) / total
    return total, mean, low - mean[:, None], high - mean[:, None]


def unlike(line: Line, masses: Masses, boxes: Boxes, moments: MomentsReleased, j: int) -> BoolArray:
    """Return which groups lie further out in column j than their masses explain, (groups,)."""
    total, mean, low, high = centered(line, masses, boxes)
    n = np.maximum(moments.count[:, j], 1.0)
    radius = boxes.radius
    y = moments.total[:, j] / n
    noise = (radius / n) ** 2 * (moments.noise_std**2 + (y * moments.count_std) ** 2)
    shift = boxes.middle + radius * y - mean
    far = np.abs(shift) / np.sqrt(
        (masses.variance * (low + high) ** 2).sum(axis=1) / (2.0 * total) ** 2 + noise
    )
    if moments.squares is None:
        return np.asarray(far > SURPRISE)
    squares = (low**2 + low * high + high**2) / 3.0
    expected = (masses.rows * squares).sum(axis=1) / total
    excess = radius**2 * (moments.squares[:, j] / n + 0.5 - y**2) + shift**2 - expected
    variance = (masses.variance * (squares - expected[:, None]) ** 2).sum(
        axis=1
    ) / total**2 + radius**2 * noise
    # Rows that lie closer together than expected need no other correction.
    return np.asarray((np.maximum(far, excess / np.sqrt(variance)) > SURPRISE) & (excess > 0.0))


def spread_of(line: Line, masses: Masses, boxes: Boxes | None) -> tuple[FloatArray, FloatArray]:
    """Return the variance and fourth central moment of each group by its cells, with values as they are or clipped to its box."""
    total, _, low, high = centered(line, masses, boxes)
    square = (masses.rows * (low**2 + low * high + high**2) / 3.0).sum(axis=1) / total
    fourth = (
        masses.rows * (low**4 + low**3 * high + (low * high) ** 2 + low * high**3 + high**4) / 5.0
    ).sum(axis=1)
    return square, fourth / total


def upward(variance: FloatArray, std: FloatArray) -> FloatArray:
    """Return the amount by which the upper ends of the intervals of variances are raised beyond the normal ones for `std`."""
    # A sample without the rows that dominate a variance underestimates it and its error alike.
    width = np.where(np.isfinite(std), normal_quantile(0.975) * std, 0.0)
    relative = np.minimum(width / np.maximum(np.nan_to_num(variance), TINY), 0.95)
    return np.asarray(width * np.sqrt((1.0 - relative) ** -2.0 - 1.0))


def is_tail_heavy(
    state: ColumnState, half: FloatArray, far: FloatArray, hidden: FloatArray
) -> BoolArray:
    """Whether a group's interval of half width `half` may miss what one `far` row, or `hidden` ones, add to its mean."""
    clip = state.clip
    noticeable = tuning.HIDDEN * half
    # If hidden rows dominate the sum of all rows, a smaller effect on a group's interval already counts as a heavy tail.
    noticeable_sum = tuning.HIDDEN * normal_quantile(0.975) * clip.std * math.sqrt(clip.rows)
    if tuning.TAIL * max(clip.hidden) > noticeable_sum:
        noticeable = half / 2.0
    of_column = state.scale.outlying
    of_column |= any(side is not None and side.heavy for side in clip.sides)
    return np.asarray(of_column | (far > half) | (hidden > noticeable))


def tell(
    state: ColumnState, line: Line, masses: Masses, boxes: Boxes, moments: MomentsReleased, j: int
) -> dict[str, Any]:
    """Return the fields of the result for column j, (groups,) each, in data units, and the reasons of each group."""
    # A group whose sums contradict the shape it borrowed from all rows is taken as it was counted.
    if (contradicted := unlike(line, masses, boxes, moments, j)).any():
        mask = contradicted[:, None]
        counted = np.maximum(masses.counts, 0.0)
        variance = np.where(mask, masses.std**2, masses.variance)
        masses = masses._replace(rows=np.where(mask, counted, masses.rows), variance=variance)
        boxes = Boxes.of(line, clipped_sums(line, masses), boxes.ends)
    n = np.maximum(moments.count[:, j], 1.0)
    y = moments.total[:, j] / n
    radius = boxes.radius
    mean = boxes.middle + radius * np.clip(y, -1.0, 1.0) + boxes.back / n
    noise = (
        radius / n * moments.noise_std * np.hypot(1.0, y * moments.count_std / moments.noise_std)
    )
    (every, fourth), (inside, _) = (spread_of(line, masses, each) for each in (None, boxes))
    variance = inside
    cut = np.maximum(every - inside, 0.0)
    free = np.full(len(n), math.nan)
    free_std = np.full(len(n), math.inf)
    if moments.squares is not None:
        square = moments.squares[:, j] / n
        error = radius**2 / n * moments.noise_std * np.sqrt(1.0 + 2.0 * square**2 + 8.0 * y**2)
        trust = inside**2 / np.maximum(inside**2 + error**2, TINY)
        free = radius**2 * (square + 0.5 - y**2)
        variance = inside + trust * (free - inside)
        # The estimate for intervals of its own, without shrinkage; the correction for clipping has an error as large as itself.
        free = np.maximum(free, 0.0) + cut
        free_std = bessel(n) * np.sqrt(
            error**2 + np.maximum(fourth - free**2, free**2) / n + cut**2
        )
        free *= bessel(n)
    variance = np.maximum(variance, 0.0) + cut
    sampling = np.sqrt(variance / n)
    clipping = np.sqrt(boxes.variance) / n
    clip = state.clip
    # A group's part of the rows hidden in the tails is its share of the rows in the two outermost cells.
    ends = (masses.rows[:, each].sum(axis=1) for each in (slice(0, 2), slice(-2, None)))
    tails = [
        tuning.TAIL * most * end / max(float(end.sum()), 1.0) / n
        for most, end in zip(clip.hidden, ends, strict=True)
    ]
    half = normal_quantile(0.975) * np.sqrt(noise**2 + sampling**2 + clipping**2)
    # how far one row may be
    beyond = np.maximum(boxes.lower + line.reach[0], line.reach[1] - boxes.upper)
    far = beyond / n
    hidden = np.maximum(*tails)
    tail = hidden * (beyond + 2.0 * radius) + np.maximum(beyond, 0.0) * far
    doubt = (
        np.ldexp(doubtful_sum(state.column, state.scale, state.shares), -clip.exponent) / clip.rows
    )
    lost = unplaced(state)
    absent = moments.count[:, j] < FEW_STDS * moments.count_std
    heavy = is_tail_heavy(state, half, far, hidden) | (doubt > half)
    few = not state.scale.anchored
    words = [
        (lost is not None, lost),
        (absent, Reason.FEW_ROWS),
        (heavy, Reason.HEAVY_TAIL),
        (few, Reason.FEW_ROWS),
    ]
    reasons = first_of(words, len(n))
    constant = np.full(len(n), lost == Reason.CONSTANT)
    unknown = absent | (lost is not None)
    largest = np.finfo(np.float64).max
    placed = np.clip(line.center + np.where(constant, 0.0, line.absolute(mean)), -largest, largest)
    return {
        "mean": np.where(unknown & ~constant, np.nan, placed),
        "noise_std": line.absolute(noise),
        "sampling_std": line.absolute(sampling),
        "clipping_std": line.absolute(clipping),
        "tail_below": np.where(unknown, math.inf, line.absolute(tails[0])),
        "tail_above": np.where(unknown, math.inf, line.absolute(tails[1])),
        "variance": line.squared(np.where(unknown, math.nan, free)),
        "variance_std": line.squared(np.where(unknown, math.inf, free_std)),
        "variance_tail": line.squared(
            np.where(unknown, math.inf, np.hypot(tail, upward(free, free_std)))
        ),
        "reasons": reasons,
    }


def learn(
    run: Session,
    numbers: Session,
    public: FloatArray,
    shares: BudgetSplit,
    codes: GroupCodes,
    bounds: Bounds,
) -> dict[str, Any]:
    """Make all releases; return the fields of the result that follow from them."""
    dim = shares.dim
    columns, shares = count(numbers, public, shares, bounds=bounds, neutral=False, spare=False)
    ends = (np.full(dim, -math.inf), np.full(dim, math.inf)) if bounds is None else bounds
    limits = zip(ends[0].tolist(), ends[1].tolist(), strict=True)
    lines = [line_of(each).within(*own) for each, own in zip(columns, limits, strict=True)]
    groups = RowGroups(code=codes, number=codes.groups, own=False)
    measured = CellCounts(edges=[line.cuts for line in lines], groups=groups)
    released = run.release(measured, name="groups by cells", cost=shares.total * CELL_SHARE)
    parts = np.split(
        released.value, np.cumsum([codes.groups * len(line.low) for line in lines])[:-1]
    )
    masses = [
        masses_of(line, part.reshape(codes.groups, -1), released.noise_std)
        for line, part in zip(lines, parts, strict=True)
    ]
    cost = shares.total * (1 - CELL_SHARE)
    grid = run.account.spend(cost).group_grid(codes.groups, dim, shares.n)
    bound = grid.bound
    event = grid.event
    boxes = [
        boxes_of(line, each, event.noise_std / bound)
        for line, each in zip(lines, masses, strict=True)
    ]
    pairs = list(zip(lines, boxes, strict=True))
    lower = np.stack([line.center + line.absolute(each.lower) for line, each in pairs], axis=1)
    upper = np.stack([line.center + line.absolute(each.upper) for line, each in pairs], axis=1)
    middle = lower / 2.0 + upper / 2.0
    half = upper / 2.0 - lower / 2.0
    measured_moments = GroupMoments(codes=codes, middle=middle, half=half, row_cost=4 * (dim + 1))
    moments = run.release(measured_moments, name="moments of groups", cost=cost)
    answers = [
        tell(*each, moments, j)
        for j, each in enumerate(zip(columns, lines, masses, boxes, strict=True))
    ]
    reasons = zip(*(each.pop("reasons") for each in answers), strict=True)
    fields: dict[str, Any] = {
        name: np.stack([each[name] for each in answers], axis=1) for name in answers[0]
    }
    fields |= {
        "mean": np.clip(fields["mean"], *ends),
        "count": moments.count,
        "lowest": ends[0],
        "highest": ends[1],
    }
    return {
        **{name: frozen(each) for name, each in fields.items()},
        "count_noise_std": moments.count_std,
        "part_reasons": tuple(chain(*reasons)),
        "noise_law": run.account.spending.law,
    }


def mean_of_groups(
    x_priv: Any,
    *,
    x_pub: Any,
    budget: Budget,
    by: Any,
    groups: Any,
    clipping: Any,
    bounds: Any,
    columns: Any,
    asked: session.AccountArguments,
    **others: Any,
) -> GroupMeans:
    """Return the result of `estimate_mean` with `by=`, by counts; `others` are its other arguments, settings at their defaults."""
    if by is None or clipping not in ("auto", COUNTS.name) or changed_settings(others):
        raise InputError(
            "groups= needs by=, and both go with bounds=, columns= and the defaults of all other settings"
        )
    grouping = Grouping.of("estimate_mean", x_priv, x_pub, by=by, groups=groups, columns=columns)
    rows = grouping.rows
    public = grouping.public
    codes = grouping.codes
    dim = grouping.dim
    assert codes is not None
    cells = grouping.numbers(dim * (MOST_EDGES + 1))
    limits = validation.column_bounds(bounds, dim)
    draws = column_draws(dim) + cells + 3 * codes.groups * dim
    run = session.start("estimate_mean", rows, budget, draws=draws, **asked)
    spending = run.account.spending
    # The cells of all rows cost as much as in a mean with ALL_SHARE of the budget; the rest, for the groups, is the total.
    shares = divide(dim, rows.n, spending.part(ALL_SHARE), n_pub=fewest(public))
    shares = replace(shares, shells=Fraction(0), total=spending.allowance - shares.cells)
    check_grids(shares)
    least = shares.total * MOVED**tuning.MOST_MOVES
    spending.at(least * CELL_SHARE).grid("count", cells, rows.n, parts=dim)
    spending.at(least * (1 - CELL_SHARE)).group_grid(codes.groups, dim, rows.n)
    session.require_memory("estimate_mean", dim, max(memory_of_cells(shares), 8 * HELD * cells))
    numbers = grouping.run_on(run)
    beyond = warn_before("estimate_mean", shares, public, limits, grouping.names)
    with run.paid():
        fields = learn(run, numbers, public, shares, codes, limits)
        result = GroupMeans(
            by=grouping.by,
            groups=grouping.labels,
            **fields,
            columns=grouping.names,
            provenance={"groups": grouping.source, "clipping": "released"},
            **numbers.fields(len(public)),
        )
    result = session.warned("estimate_mean", result)
    return replace(
        result, part_reasons=with_clipped(result.part_reasons, beyond.tolist() * codes.groups)
    )


def predict_groups(
    dim: int, n_pub: int, groups: int
) -> Callable[[int, Budget], tuple[float, dict[str, float]]]:
    """Return the predictor of the error of `estimate_mean` with `by=`, in within-group deviations, for groups of equal size."""

    def predict(n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        spending = spending_of(budget, column_draws(dim) + 3 * groups * dim)
        cells = divide(dim, n_priv, spending.part(ALL_SHARE), n_pub=n_pub).cells
        left = spending.at((spending.allowance - cells) * (1 - CELL_SHARE))
        noise = left.std("groups", dim)
        n = n_priv / groups
        count_std = noise / spending.count_of_group
        error = math.sqrt(dim) * math.hypot(1.0 / math.sqrt(n), BOX_STDS * noise / n)
        return error, {
            "count_std": count_std,
            "noise_std": BOX_STDS * noise / n,
            "smallest_group": FEW_STDS * count_std,
            "without_privacy": math.sqrt(dim / n),
        }

    return predict
