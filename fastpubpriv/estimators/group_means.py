"""Means of groups of rows: cell counts of all rows, counts of groups by cells, and one joint release of clipped moments.

The clip points of each group come from its noisy cell counts, which are shrunk towards the distribution of all rows, the more the
more similar the groups are; where its sums contradict that shape, what was clipped is estimated by its own counts alone.
Privacy note: `mechanisms/notes/group_moments.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from fastpubpriv import session, validation
from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.distributions import tuning
from fastpubpriv.distributions.budget_split import MOVED, BudgetSplit, check_grids, divide
from fastpubpriv.distributions.budget_split import draws as column_draws
from fastpubpriv.distributions.columns import CountedColumns
from fastpubpriv.distributions.line import LARGEST, TINY, ClipBox, Line
from fastpubpriv.distributions.support import doubtful_sum, fewest, public_moments
from fastpubpriv.errors import InputError
from fastpubpriv.estimators.column_means import (
    HELD,
    Bounds,
    ColumnEstimates,
    count,
    ends_of,
    memory_of_cells,
    report_of,
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
from fastpubpriv.results.by_key import FEW_STDS, GroupMeans
from fastpubpriv.results.estimates import MeanResult
from fastpubpriv.results.public_draws import normal_quantile
from fastpubpriv.results.reasons import Reason, first_of
from fastpubpriv.session import Session
from fastpubpriv.sources import Rows

CELL_SHARE = Fraction(2, 15)  # share of the counts of groups by cells in the rest
# number of cells of equal mass, and the central fraction of rows that they divide
INNER = 8
MIDDLE = 0.9
OUTER = 7  # maximum number of edges on each side of that
MOST_EDGES = INNER + 1 + 2 * OUTER
# bounds of the relative variance between groups of the rows in a cell
LEAST_SPREAD = 0.02
MOST_SPREAD = 9.0
# standard deviations from the pooled prediction beyond which a group's counts are not shrunk
SURPRISE = 3.5
BOX_STDS = 3.0  # half-length of a group's box in standard deviations, for predictions


class GroupCells(NamedTuple):
    """Cells of one column that are common to all groups: the line of all rows, and the edges between which rows are counted."""

    line: Line
    cuts: FloatArray  # (cells - 1,), in data units
    reach: FloatArray  # (2,): where the outermost rows of the modeled tails lie, from the center

    def within(self, lowest: float, highest: float) -> GroupCells:
        """Return the cells with every length clipped to bounds in data units; what is counted stays as it is."""
        # One box encodes rows and decodes their sums, so bounds are applied here, before any box is chosen.
        ends = np.array([lowest, highest])
        begin, end = self.line.relative(ends).tolist()
        line = self.line.within(ends[:1], ends[1:])
        return self._replace(line=line, reach=np.clip(self.reach, begin, end))


def cells_of(columns: CountedColumns, place: int) -> GroupCells:
    """Return the cells of one column from the counts of all rows: of equal mass in the middle, dyadic further out."""
    parts = columns.shares[place].parts
    count_var = columns.shares[place].count_std ** 2
    fine = columns.line(place)
    box = columns.box
    occupied = columns.sides.occupied[place]
    tail = tuning.OUTER * parts
    inside = tail + tuning.BELOW * parts
    edges = fine.edges[0]
    rows = fine.rows[0].copy()
    variance = fine.variance[0]
    # A side without rows to be seen has none, unless the clip interval extends to it.
    middle = len(rows) // 2
    if not occupied[0] and box.lower[place] == 0.0:
        rows[:middle] = 0.0
    if not occupied[1] and box.upper[place] == 0.0:
        rows[middle + 1 :] = 0.0
    # The cell in the middle gets the cells inside of those in which edges lie, and all rows of no other cell.
    counted_cells = np.r_[tail:inside, middle, -inside:-tail]
    rows[middle] = 0.0
    counted = np.maximum(rows[counted_cells], 0.0)
    variances = variance[counted_cells]
    guessed = rows[:tail].sum(), rows[-tail:].sum()
    counted[inside - tail] = max(columns.rows[place] - counted.sum() - sum(guessed), 0.0)
    variances[inside - tail] = count_var
    points = edges[np.r_[tail : inside + 1, -inside - 1 : -tail]]
    if not occupied.any():  # public values gave the clip interval, and its unit
        fine = replace(fine, exponent=box.exponent[place : place + 1])
        points = np.array([box.lower[place], box.upper[place]])
        counted = columns.rows[place : place + 1]
        variances = np.array([count_var])
    ranks = np.append(0.0, np.cumsum(counted))
    noise = np.append(0.0, np.cumsum(variances))
    center = columns.counted[place].center
    chosen = edges_of_equal_mass(points, ranks, 1e-9 * columns.rows[place])
    cuts = center + np.ldexp(chosen, fine.exponent[0])
    cuts = np.unique(np.clip(cuts, -LARGEST, LARGEST) + 0.0)
    between = fine.relative(cuts)
    # Rows beyond an end are assumed to be uniform about their mean in the tail.
    ends = [between[0], between[-1]]
    beyond = (rows[:tail], edges[: tail + 1]), (rows[-tail:], edges[-tail - 1 :])
    for side, (masses, limits) in enumerate(beyond):
        if masses.sum() > 0.0:
            mean = float((masses * (limits[:-1] + limits[1:])).sum() / 2.0 / masses.sum())
            ends[side] = (min, max)[side](ends[side], 2.0 * mean - ends[side])
    spread = np.maximum(np.diff(np.interp(between, points, noise)), count_var)
    masses = np.diff(np.interp(between, points, ranks))
    zeros = np.zeros((1, len(between) + 1))
    line = Line(
        center=fine.center,
        exponent=fine.exponent,
        edges=np.r_[ends[0], between, ends[1]][None],
        rows=np.r_[guessed[0], masses, guessed[1]][None],
        variance=np.r_[parts * count_var, spread, parts * count_var][None],
        spread=zeros,
        hidden=zeros,
    )
    first = np.searchsorted(np.cumsum(rows[:tail]), 1.0)
    last = np.searchsorted(np.cumsum(rows[: -tail - 1 : -1]), 1.0)
    return GroupCells(
        line=line,
        # A signed cell above the center includes its upper end, a cell between edges its lower end.
        cuts=np.where(cuts > center, np.nextafter(cuts, math.inf), cuts),
        reach=np.array([edges[first], edges[-1 - last]]),
    )


def edges_of_equal_mass(points: FloatArray, ranks: FloatArray, least: float) -> FloatArray:
    """Return edges that divide the middle of the rows equally, and some of the `points` on both sides of it.

    `ranks` are the rows below the points; each cell has at least `least` rows.
    """
    steps = (1.0 - MIDDLE) / 2.0 + MIDDLE * np.arange(INNER + 1) / INNER
    rising = ranks + least * np.arange(len(ranks))
    inner = np.interp(steps * ranks[-1], rising, points)
    outer = [points[points < inner[0]], points[points > inner[-1]]]
    thin = [
        each[np.linspace(0, len(each) - 1, min(OUTER, len(each))).round().astype(int)]
        for each in outer
    ]
    return np.concatenate([*thin, inner])


def lines_of_groups(
    whole: Line, counts: FloatArray, std: float, alone: BoolArray | bool = False
) -> Line:
    """Return the line of each group: its counts (groups, cells), shrunk to the distribution of all rows by empirical Bayes.

    Groups `alone`, (groups, 1), are taken as they were counted.
    """
    total = counts.sum(axis=0)
    noise = len(counts) * std**2
    weight = whole.variance[0] / (whole.variance[0] + noise)
    pooled = np.maximum(weight * total + (1.0 - weight) * whole.rows[0], 0.0)
    most_rows = max(float(pooled.sum()), 1.0)
    share = pooled / most_rows
    share_std = np.sqrt(weight * noise) / most_rows
    # A group's size is at least its noise, so that an empty group is estimated by all rows and not by the first public one.
    size = np.maximum(counts.sum(axis=1), std * np.sqrt(counts.shape[1]))[:, None]
    prior = size * share
    most = size * (share + share_std)
    base = prior + std**2 * (1.0 + len(share) * share**2)
    excess = ((counts - prior) ** 2 - base).sum(axis=0) + np.sqrt(2.0 * (base**2).sum(axis=0))
    spread = np.clip(excess / np.maximum((prior**2).sum(axis=0), TINY), LEAST_SPREAD, MOST_SPREAD)
    varies = spread * most**2 + most
    # So is a group that is unlike all rows, in a cell or altogether.
    apart = (counts - prior) ** 2 / (varies + std**2)
    cells = counts.shape[1]
    altogether = apart.sum(axis=1, keepdims=True) > cells + SURPRISE * math.sqrt(2.0 * cells)
    unlike = alone | (apart > SURPRISE**2) | altogether
    trust = np.where(unlike, 1.0, varies / (varies + std**2))
    rows = np.maximum(prior + trust * (counts - prior), 0.0)
    zeros = np.zeros(counts.shape)
    return replace(whole, rows=rows, variance=trust * std**2, spread=zeros, hidden=zeros)


def contradicted(line: Line, box: ClipBox, moments: MomentsReleased) -> BoolArray:
    """Return which groups lie further out in a column than their lines explain, (groups,)."""
    about = line.moments(box)
    noise = (box.half * moments.noise) ** 2
    shift = box.middle + box.half * moments.mean - about.mean
    variance = (line.variance * (about.low + about.high) ** 2).sum(axis=1)
    far = np.abs(shift) / np.sqrt(variance / (2.0 * about.rows) ** 2 + noise)
    if moments.variance is None:
        return np.asarray(far > SURPRISE)
    expected = about.variance
    excess = box.half**2 * moments.variance + shift**2 - expected
    variance = (line.variance * (about.squares - expected[:, None]) ** 2).sum(axis=1)
    variance = variance / about.rows**2 + box.half**2 * noise
    # Rows that lie closer together than expected need no other correction.
    return np.asarray((np.maximum(far, excess / np.sqrt(variance)) > SURPRISE) & (excess > 0.0))


def upward(variance: FloatArray, std: FloatArray) -> FloatArray:
    """Return the amount by which the upper ends of the intervals of variances are raised beyond the normal ones for `std`."""
    # A sample without the rows that dominate a variance underestimates it and its error alike.
    width = np.where(np.isfinite(std), normal_quantile(0.975) * std, 0.0)
    relative = np.minimum(width / np.maximum(np.nan_to_num(variance), TINY), 0.95)
    return np.asarray(width * np.sqrt((1.0 - relative) ** -2.0 - 1.0))


def is_tail_heavy(
    columns: CountedColumns, place: int, half: FloatArray, far: FloatArray, hidden: FloatArray
) -> BoolArray:
    """Whether a group's interval of half width `half` may miss what one `far` row, or `hidden` ones, add to its mean."""
    noticeable = tuning.HIDDEN * half
    # If hidden rows dominate the sum of all rows, a smaller effect on a group's interval already counts as a heavy tail.
    sampling = columns.std[place] * math.sqrt(columns.rows[place])
    if columns.box.hidden[place].max() > tuning.HIDDEN * normal_quantile(0.975) * sampling:
        noticeable = half / 2.0
    of_column = columns.scales[place].outlying or columns.sides.heavy[place].any()
    return np.asarray(of_column | (far > half) | (hidden > noticeable))


class GroupVariance(NamedTuple):
    """Variance of each group, (groups,): for the interval of its mean, and for an answer of its own with its standard error."""

    of_mean: FloatArray
    variance: FloatArray
    std: FloatArray


def variance_of(line: Line, box: ClipBox, moments: MomentsReleased) -> GroupVariance:
    """Return the variance of each group in a column, from its cells and, if released, from its squares."""
    n = moments.rows
    every = line.moments()
    inside = line.moments(box).variance
    cut = np.maximum(every.variance - inside, 0.0)
    if moments.squares is None or moments.variance is None:
        unknown = np.full(len(n), math.nan)
        return GroupVariance(np.maximum(inside, 0.0) + cut, unknown, np.full(len(n), math.inf))
    noise = box.half**2 / n * moments.noise_std
    error = noise * np.sqrt(1.0 + 2.0 * (moments.squares / n) ** 2 + 8.0 * moments.mean**2)
    trust = inside**2 / np.maximum(inside**2 + error**2, TINY)
    free = box.half**2 * moments.variance
    of_mean = np.maximum(inside + trust * (free - inside), 0.0) + cut
    # The estimate for intervals of its own, without shrinkage; the correction for clipping has an error as large as itself.
    free = np.maximum(free, 0.0) + cut
    sampling = np.maximum(every.fourth - free**2, free**2) / n
    std = bessel(n) * np.sqrt(error**2 + sampling + cut**2)
    return GroupVariance(of_mean, bessel(n) * free, std)


def group_estimates(
    columns: CountedColumns,
    cells: GroupCells,
    of_cells: Counted,
    constant: bool,
    unresolved: bool,
    released: MomentsReleased,
    j: int,
) -> dict[str, Any]:
    """Return the fields of the result for column j, (groups,) each, in data units, and the reasons of each group.

    The column is `constant` or `unresolved` as `unplaced` says of the counts of all rows.
    """
    moments = released.at(np.s_[:, j])
    line = of_cells.line
    box = of_cells.box
    # A group whose sums contradict the shape it borrowed from all rows is taken as it was counted.
    if (unlike := contradicted(line, box, moments)).any():
        line = lines_of_groups(cells.line, of_cells.counts, of_cells.std, unlike[:, None])
        box = line.box(box.lower, box.upper)
    n = moments.rows
    mean = box.decode(moments.possible.total, n)
    noise = box.half * moments.possible.noise
    spread = variance_of(line, box, moments)
    sampling = np.sqrt(spread.of_mean / n)
    clipping = np.sqrt(box.variance) / n
    half = normal_quantile(0.975) * np.sqrt(noise**2 + sampling**2 + clipping**2)
    # A group's part of the rows hidden in the tails is its share of the rows in the two outermost cells.
    ends = line.rows[:, [[0, 1], [-2, -1]]].sum(axis=2)
    shares = ends / np.maximum(ends.sum(axis=0), 1.0)
    tails = columns.box.hidden[j] * shares / n[:, None]
    # how far one row may be
    beyond = np.maximum(box.lower - cells.reach[0], cells.reach[1] - box.upper)
    far = beyond / n
    hidden = tails.max(axis=1)
    tail = hidden * (beyond + 2.0 * box.half) + np.maximum(beyond, 0.0) * far
    doubt = doubtful_sum(columns.counted[j], columns.scales[j], columns.shares[j])
    doubt_of_mean = np.ldexp(doubt, -box.exponent) / columns.rows[j]
    absent = moments.count < FEW_STDS * moments.count_std
    heavy = is_tail_heavy(columns, j, half, far, hidden) | (doubt_of_mean > half)
    reasons = first_of(
        [
            (constant, Reason.CONSTANT),
            (unresolved, Reason.UNRESOLVED),
            (absent, Reason.FEW_ROWS),
            (heavy, Reason.HEAVY_TAIL),
            (not columns.scales[j].anchored, Reason.FEW_ROWS),
        ],
        len(n),
    )
    unknown = absent | constant | unresolved
    placed = box.placed(np.where(constant, 0.0, mean))
    below, above = np.where(unknown, math.inf, box.absolute(tails).T)

    def squared(squares: FloatArray, worst: float) -> FloatArray:
        return np.ldexp(np.where(unknown, worst, squares), 2 * box.exponent)

    return {
        "mean": placed if constant else np.where(unknown, np.nan, placed),
        "noise_std": box.absolute(noise),
        "sampling_std": box.absolute(sampling),
        "clipping_std": box.absolute(clipping),
        "tail_below": below,
        "tail_above": above,
        "variance": squared(spread.variance, math.nan),
        "variance_std": squared(spread.std, math.inf),
        "variance_tail": squared(np.hypot(tail, upward(spread.variance, spread.std)), math.inf),
        "reasons": reasons,
    }


class Counted(NamedTuple):
    """Groups of one column: their released counts by cells, the noise of each, and the lines and boxes that follow."""

    counts: FloatArray
    std: float
    line: Line
    box: ClipBox


class Learned(NamedTuple):
    """What the releases say: the columns by the counts of all rows, and the fields of the result."""

    columns: CountedColumns
    fields: dict[str, Any]


def learn(
    run: Session,
    numbers: Session,
    public: FloatArray,
    shares: BudgetSplit,
    codes: GroupCodes,
    bounds: Bounds,
) -> Learned:
    """Make all releases; return what follows from them."""
    dim = shares.dim
    columns, shares = count(numbers, public, shares, bounds=bounds, neutral=False, spare=False)
    ends = ends_of(bounds, dim)
    limits = np.stack(ends, axis=1).tolist()
    cells = [cells_of(columns, j).within(*limits[j]) for j in range(dim)]
    groups = RowGroups(code=codes, number=codes.groups, own=False)
    measured = CellCounts(edges=[each.cuts for each in cells], groups=groups)
    released = run.release(measured, name="groups by cells", cost=shares.total * CELL_SHARE)
    cost = shares.total * (1 - CELL_SHARE)
    grid = run.account.spend(cost).group_grid(codes.groups, dim, shares.n)
    noise = grid.noise_std
    counted = []
    for each, counts in zip(cells, measured.parted(released.value), strict=True):
        line = lines_of_groups(each.line, counts, released.noise_std)
        points = line.edges[:, 1:-1]
        box = line.clip(points, points, noise=noise, bias=tuning.BIAS)
        counted.append(Counted(counts, released.noise_std, line, box))
    boxes = [each.box for each in counted]
    lower = np.stack([box.placed(box.lower) for box in boxes], axis=1)
    upper = np.stack([box.placed(box.upper) for box in boxes], axis=1)
    middle = lower / 2.0 + upper / 2.0
    half = upper / 2.0 - lower / 2.0
    measured_moments = GroupMoments(codes=codes, middle=middle, half=half)
    moments = run.release(measured_moments, name="moments of groups", cost=cost)
    constant, unresolved = (each.tolist() for each in unplaced(columns))
    answers = [
        group_estimates(columns, *each, moments, j)
        for j, each in enumerate(zip(cells, counted, constant, unresolved, strict=True))
    ]
    reasons = zip(*(each.pop("reasons") for each in answers), strict=True)
    fields = {name: np.stack([each[name] for each in answers], axis=1) for name in answers[0]}
    known: dict[str, Any] = {
        **fields,
        "mean": np.clip(fields["mean"], *ends),
        "count": moments.count,
        "count_noise_std": moments.count_std,
        "middle": middle,
        "lowest": ends[0],
        "highest": ends[1],
        "part_reasons": tuple(chain(*reasons)),
        "noise_law": run.account.spending.law,
    }
    return Learned(columns, known)


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

    def result_of(numbers: Session, learned: Learned) -> GroupMeans:
        return GroupMeans(
            by=grouping.by,
            groups=grouping.labels,
            **learned.fields,
            columns=grouping.names,
            provenance={"groups": grouping.source, "clipping": "released"},
            **numbers.fields(len(grouping.public)),
        )

    result: GroupMeans = _released(grouping, budget, bounds, asked, result_of)
    return result


def estimates_inside(learned: Learned, public: FloatArray) -> ColumnEstimates:
    """Return the estimates of the first group; where it has none, those of the public rows, which nothing bounds."""
    group = {name: learned.fields[name][0] for name in ESTIMATES}
    below, above = (learned.fields[name][0] for name in ("tail_below", "tail_above"))
    tails = np.stack([below, above], axis=1)
    lost = np.isnan(group["mean"])
    _, public_mean, _ = public_moments(public)
    own_reasons = zip(lost, learned.fields["part_reasons"], strict=False)
    reasons = tuple((Reason.UNRESOLVED,) if is_lost else own for is_lost, own in own_reasons)
    group["mean"] = np.where(lost, public_mean, group["mean"])
    # Where nothing is known, the worst case stands in the report.
    return ColumnEstimates(**group, tails=np.where(np.isfinite(tails), tails, 0.0), reasons=reasons)


ESTIMATES = ("mean", "noise_std", "sampling_std", "clipping_std")
MOST_INSIDE = 50  # columns up to which rows inside a condition are a group of their own


def mean_inside(
    rows: Rows, public: FloatArray, *, budget: Budget, bounds: Any, asked: session.AccountArguments
) -> MeanResult:
    """Return the mean of the rows that are present, as one listed group beside all others."""
    grouping = Grouping.inside(rows, public)

    def result_of(numbers: Session, learned: Learned) -> MeanResult:
        estimates = estimates_inside(learned, public)
        limits = validation.column_bounds(bounds, rows.dim)
        report = report_of(learned.columns, estimates, limits, may_be_absent=True)
        inside = learned.fields["count"][0]
        # All undetected rows may be inside.
        share = rows.n / np.maximum(inside, 1.0)
        worst = {name: getattr(report, name) * share for name in ("worst_below", "worst_above")}
        fields = numbers.fields(len(public))
        fields["report"] = replace(report, rows_used=inside, **worst)
        fields["noise_law"] = learned.fields["noise_law"]
        fields["columns"] = rows.columns
        fields["provenance"] = {"center": "public rows", "clipping": "released"}
        return MeanResult(
            mean=estimates.mean,
            noise_std=estimates.noise_std,
            sampling_std=estimates.sampling_std,
            part_reasons=estimates.reasons,
            **fields,
        )

    result: MeanResult = _released(grouping, budget, bounds, asked, result_of)
    return result


def _released(
    grouping: Grouping,
    budget: Budget,
    bounds: Any,
    asked: session.AccountArguments,
    result_of: Callable[[Session, Learned], Any],
) -> Any:
    """Check public numbers, debit and make all releases; return the result that is made of them."""
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
    session.require_memory(
        "estimate_mean", dim, max(memory_of_cells(run, shares), 8 * HELD * cells)
    )
    numbers = grouping.run_on(run)
    beyond = warn_before("estimate_mean", shares, public, limits, grouping.names)
    with run.paid():
        result = result_of(numbers, learn(run, numbers, public, shares, codes, limits))
    return session.held_back(session.warned("estimate_mean", result), beyond)


def predict_groups(dim: int, n_pub: int, groups: int) -> session.Predictor:
    """Return the predictor of the error of `estimate_mean` with `by=`, in within-group deviations, for groups of equal size."""

    def predict(n_priv: int, budget: Budget) -> session.PredictedError:
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
