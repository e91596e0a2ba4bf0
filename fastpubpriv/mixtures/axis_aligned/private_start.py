"""Axis-aligned mixtures in several columns from private rows alone: range, groups, directions, sketch, and rounds from there.

The range is found on blocks of rows of their own, or within bounds (`places`). All releases on the other rows, `rest`, have
Gaussian noise: their rhos add up to at most the
allowance. Cells of its columns give groups of rows that single columns separate (`column_modes`); Gram matrices of the groups give
directions of overlapping components, and sums of cosines and sines the mixture along them (`sketch`). From there a few rounds of
private expectation-maximization go on, and a count of the fit is the last release. Privacy note: `mechanisms/notes/sketch.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.errors import warn
from fastpubpriv.kernels.mixture_rows import NormalTable, prepare, soft_parts
from fastpubpriv.mechanisms.sums import Released, SoftGrams, StatisticSum
from fastpubpriv.mixtures import em_rounds
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.axis_aligned import (
    axis_method,
    bounded_range,
    column_modes,
    sketch,
)
from fastpubpriv.mixtures.axis_aligned.axis_method import AxisMethod, LearnedMixture, Task
from fastpubpriv.mixtures.axis_aligned.bounded_range import MOST_EDGES
from fastpubpriv.mixtures.axis_aligned.column_modes import ColumnModes, Groups
from fastpubpriv.mixtures.axis_aligned.places import (
    BlockShares,
    BoundedRange,
    CellSize,
    ColumnRange,
    HistogramRange,
)
from fastpubpriv.mixtures.axis_aligned.sketch import Projection, WaveFit, WaveModel, Waves
from fastpubpriv.mixtures.em_rounds import (
    LAST,
    RoundMoments,
    RowClip,
    StartState,
    pooled_moments,
    shrinkage,
)
from fastpubpriv.mixtures.fit import (
    MOST_COUNTED,
    MeasuredFit,
    count_draws,
    count_share,
    gaussian_tv,
    measure,
)
from fastpubpriv.mixtures.gaussian_mixture import GaussianMixture
from fastpubpriv.mixtures.separated.soft_em import early_share, some_rows
from fastpubpriv.privacy import Budget
from fastpubpriv.privacy.calibrated_budget import has_delta
from fastpubpriv.privacy.spending import WHOLE, Spending, spending_of
from fastpubpriv.results.reasons import Reason
from fastpubpriv.session import Session
from fastpubpriv.sources.views import ChosenColumns, each_row

EpsilonDelta = tuple[Fraction, Fraction]

# ---- Shares of the budget, from public numbers.


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPlan:
    """Shares of the Gaussian allowance of `rest`, and the number of early rounds, from public numbers."""

    early: Fraction  # share of an early round
    rounds: int  # maximum number of early rounds; at least EARLY_ROUNDS
    count: Fraction  # share of the count of the fit
    looks: Fraction = Fraction(0)  # share of looks at cells within bounds

    @classmethod
    def of(
        cls,
        n: int,
        dim: int,
        k: int,
        spending: Spending,
        *,
        known_std: bool,
        looks: Fraction,
    ) -> StartPlan:
        """Return the plan for n rows of `rest`."""
        noise = em_rounds.whole_noise(
            dim, spending, known_std=known_std, wider=tuning.AXIS_EARLY_CLIP
        )
        relative = noise * math.sqrt(2.0 * dim) * k / n
        return cls.of_noise(relative, spending, diagonal=True, looks=looks)

    @classmethod
    def of_noise(
        cls, relative: float, spending: Spending, *, diagonal: bool, looks: Fraction
    ) -> StartPlan:
        """Return the plan for the relative noise of the covariances in one round that costs all of `spending`."""
        share = early_share(relative, spending, diagonal=diagonal)
        rounds = min(int(tuning.BEFORE_LAST / share), tuning.MOST_MORE)
        early = Fraction(share).limit_denominator(10**6)
        plan = cls(early=early, rounds=rounds, count=count_share(spending), looks=looks)
        if looks == 0:
            return plan
        # Laplace noise takes large shares: what is left is for the last round first.
        without_rounds = replace(plan, rounds=0)
        spare = without_rounds.least_last - tuning.LEAST_LAST
        affordable = max(math.floor(spare / early), 0)
        return replace(plan, rounds=min(rounds, affordable))

    @property
    def least_last(self) -> Fraction:
        """Smallest share of the last round, which gets what the stages before it leave."""
        started = sum(tuning.START_SHARES, self.count + self.looks)
        return 1 - started - self.rounds * self.early


def costs_of(spending: Spending) -> dict[str, Spending]:
    """Return what each release of the start may cost."""
    shares = tuning.START_SHARES._asdict()
    return {name: spending.part(share) for name, share in shares.items()}


def longest_sketch(components: int) -> int:
    """Return the maximum length of the statistic of a row: cosines and sines of each group."""
    return 2 * tuning.FREQUENCIES[1] * components


def most_draws(n: int, dim: int, n_components: int, *, known_std: bool) -> int:
    """Return an upper bound on the noise draws of a run."""
    width = em_rounds.statistic_dim(n_components, dim, known_std=known_std)
    rounds = (tuning.MOST_MORE + 2) * width
    histograms = (tuning.COLUMN_SCALES + 1) * n * dim
    cells = (MOST_EDGES + n_components * n_components) * dim + tuning.MOST_COMBINATIONS
    start = n_components * (dim + 1) ** 2 + longest_sketch(n_components)
    return histograms + cells + start + rounds + count_draws(n_components) + 2**16


def check(task: Task, n_rest: int, plan: StartPlan) -> None:
    """Raise before the debit if a round has no noise grid or memory; warn if rows are too few, all by public numbers."""
    rounds = [tuning.START_SHARES.first, plan.early, plan.least_last, WHOLE]
    check_round = partial(em_rounds.check_axis_rounds, known_std=task.known_std, shares=rounds)
    for parts in range(1, task.n_components + 1):
        check_round(task.run.account, n_rest, task.run.rows.dim, parts)


def check_releases(task: Task, n_rest: int, plan: StartPlan) -> None:
    """Raise before the debit if a release after that of the places, and before the rounds, has no noise grid."""
    run = task.run
    dim = run.rows.dim
    k = task.n_components
    costs = costs_of(run.account.spending)
    of_column = Fraction(1, dim)
    for name in ("cells", "matching"):
        costs[name].part(of_column).grid("count", 1, n_rest)
    costs["combinations"].grid("count", tuning.MOST_COMBINATIONS, n_rest)
    costs["sketch"].grid("sum", longest_sketch(k), n_rest)
    count = run.account.spending.part(plan.count)
    count.grid("count", count_draws(k), n_rest)
    for parts in range(1, k + 1):
        costs["grams"].grid("shared", dim + 1, n_rest, parts=parts)


# ---- Directions, and the mixture along them.


@dataclass(slots=True, eq=False)
class Frames:
    """Center and standard deviation of each group in each column, (groups, dim), and its number of rows (groups,)."""

    centers: FloatArray
    deviations: FloatArray
    rows: FloatArray

    @classmethod
    def of(cls, groups: Groups, n: int) -> Frames:
        """Return the moments of the groups' modes."""
        centers, deviations = np.moveaxis(groups.moments, 2, 0)
        return cls(centers.copy(), deviations.copy(), groups.weights * n)


# Vectors of each part and their rows, by blocks of rows: see `SoftParts`.
PartsOfRows = Iterator[tuple[list[FloatArray], list[IntArray]]]


def grouped_parts(
    chunk: Any, inv_step: float, *, groups: Groups, table: NormalTable, clip: RowClip
) -> PartsOfRows:
    """Return (clipped row, constant) of each row in the frame of its group, in steps; see `SoftParts`."""
    labels = groups.labels(chunk).astype(np.int32)
    lift = math.sqrt(clip.lift)
    clipped = partial(soft_parts, table=table, inner=clip.inner, lift=lift)
    return clipped(chunk, inv_step, labels=labels)


def release_moments(
    run: Session, groups: Groups, frames: Frames, cost: Spending
) -> list[RoundMoments]:
    """Release Gram matrices of the groups; return the moments of each in its frame."""
    dim = run.rows.dim
    clip = RowClip.of(dim, tuning.EARLY_CLIP)
    inverses = np.zeros((groups.size, dim, dim))
    inverses[:, range(dim), range(dim)] = 1.0 / frames.deviations
    table = NormalTable(frames.centers, inverses, np.zeros(groups.size))
    prepare(run.rows.n, inverses.size)
    rows_of = partial(grouped_parts, groups=groups, table=table, clip=clip)
    radius = math.sqrt(clip.total)
    work = groups.size * dim**2 // 8 + 20
    grams = SoftGrams(
        rows_of=rows_of, parts=groups.size, side=dim + 1, radius=radius, row_cost=work
    )
    radius = math.sqrt(clip.inner)
    released = run.release(grams, name="directions", cost=cost, clip_radius=radius)
    noise = released.noise_std, released.noise_std / cost.on_diagonal
    moments = partial(pooled_moments, known=None, sigma=noise, clip=clip, n=run.rows.n, m=0)
    weights = groups.weights.tolist()
    return [
        moments(gram, weight=weight) for gram, weight in zip(released.value, weights, strict=True)
    ]


def unlike_gaussian(modes: FloatArray) -> float:
    """Return the total variation between a mixture (modes, 3) on the line and the Gaussian of its moments, in fine cells."""
    if len(modes) < 2:
        return 0.0
    mean, std = column_modes.moments_of(modes)
    edges = mean + std * np.linspace(-6.0, 6.0, 385)
    shares = modes[:, 0] / modes[:, 0].sum()
    means = modes[:, 1]
    stds = modes[:, 2]
    below = ndtr((edges[:, None] - means) / stds) @ shares
    gaps = np.diff(below - ndtr((edges - mean) / std))
    return 0.5 * float(np.abs(gaps).sum())


def usable(column: ColumnModes, deviation: float) -> bool:
    """Return whether a column may have a part in directions: a known one whose values are not rounded to coarse steps."""
    return column.is_known and (column.smooth or column.step <= tuning.FINE_STEP * deviation)


def move_frame(frames: Frames, group: int, own: RoundMoments) -> FloatArray:
    """Move a group's frame to its released moments; return the correlations of the columns, with zero diagonal."""
    assert own.second is not None
    mean = shrinkage(own.first, own.mean_noise**2) * own.first
    change = np.diag(own.second) - 1.0
    variances = 1.0 + shrinkage(change, own.on**2) * change
    root = np.sqrt(np.clip(variances, *tuning.MOST_CHANGE))
    frames.rows[group] = own.rows
    frames.centers[group] += frames.deviations[group] * mean
    frames.deviations[group] *= root
    limit = tuning.MOST_SHARED
    correlations: FloatArray = np.clip(own.second / np.outer(root, root), -limit, limit)
    np.fill_diagonal(correlations, 0.0)
    return correlations


def usable_columns(groups: Groups, deviations: FloatArray) -> BoolArray:
    """Return which columns (dim,) may have a part in directions, for the standard deviations of a group."""
    both = zip(groups.columns, deviations, strict=True)
    return np.array([usable(*each) for each in both])


class GroupDirections(NamedTuple):
    """Rows (l, dim) for standardized rows of a group, along which a component has variance about one, and the covariance."""

    rows: FloatArray
    covariance: FloatArray  # (dim, dim), of standardized rows

    @property
    def spread(self) -> FloatArray:
        """Covariance (l, l) along the directions."""
        return self.rows @ self.covariance @ self.rows.T


def directions(
    correlations: FloatArray,
    noise: float,
    most: int,
    usable: BoolArray,
    modes: list[FloatArray],
) -> GroupDirections:
    """Return at most `most` directions of a group with these correlations (zero diagonal) and modes, or all of few columns."""
    dim = len(correlations)
    if dim <= tuning.FEW_COLUMNS:
        return GroupDirections(np.eye(dim)[usable], correlations + np.eye(dim))
    rank = min(sketch.visible_factors(correlations, noise), most, tuning.MOST_DIRECTIONS)
    factors = sketch.factors_of(correlations, rank)
    rows = factors.directions[:rank]
    unlike = np.array([unlike_gaussian(each) for each in modes]) * usable
    order = np.argsort(-unlike, kind="stable")[: most - rank]
    columns = order[unlike[order] > tuning.UNLIKE_GAUSSIAN]
    rows = np.vstack([rows, np.eye(dim)[columns]])
    rows = sketch.orthonormal(rows, factors.own)
    whole = factors.shared.copy()
    np.fill_diagonal(whole, 1.0)
    return GroupDirections(rows, whole)


def extended(matrix: FloatArray, covariance: FloatArray, along: GaussianMixture) -> GaussianMixture:
    """Return components along directions (l, dim) of rows with mean zero, extended to all columns by the regression on them."""
    spread = matrix @ covariance @ matrix.T
    slopes = np.linalg.solve(spread, matrix @ covariance).T
    less = spread - along.covariances[0]
    covariances = covariance - slopes @ less @ slopes.T
    return GaussianMixture(along.weights[0], along.means[0] @ slopes.T, covariances)


def extended_to_columns(group: GroupDirections, along: GaussianMixture) -> GaussianMixture:
    """Return components along the directions of a group as axis-aligned ones of its standardized rows."""
    full = extended(group.rows, group.covariance, along)
    # Noise may make variances too small, but not below that along the narrowest direction.
    narrowest = np.square(along.stds[0]).min(axis=1)
    least = np.minimum(narrowest, 1.0 - tuning.MOST_SHARED)[:, None]
    variances = np.maximum(np.einsum("kii->ki", full.scale), least)
    return GaussianMixture(full.weights, full.means, np.sqrt(variances))


@dataclass(frozen=True, slots=True, eq=False)
class SketchStatistic:
    """Cosines and sines of each row in the coordinates of its group, (n, dim); zeros in those of other groups."""

    groups: Groups
    projections: list[Projection]

    @property
    def dim(self) -> int:
        """Length of the statistic of a row."""
        return sum(each.size for each in self.projections)

    def __call__(self, chunk: Any) -> FloatArray:
        """Return the statistics of rows; NaN for a row whose phases are none or too large."""
        labels = self.groups.labels(chunk)
        out = np.zeros((len(chunk), self.dim))
        begin = 0
        with np.errstate(all="ignore"):
            for each in self.projections:
                mine = labels == each.group
                rows = chunk[mine].astype(np.float64)
                out[mine, begin : begin + each.size] = each.statistic(rows)
                begin += each.size
        return out


def release_sketch(run: Session, statistic: SketchStatistic, cost: Spending) -> Released:
    """Release the sum of the statistics, over rows spread over all."""
    run = some_rows(run, MOST_COUNTED)
    dim = statistic.dim
    longest = max(each.size for each in statistic.projections)
    radius = math.sqrt(longest / 2.0)
    sums = StatisticSum(statistic=statistic, dim=dim, radius=radius, row_cost=8 * dim)
    return run.release(sums, name="sketch", cost=cost, clip_radius=radius)


def release_waves(
    run: Session, groups: Groups, frames: Frames, listed: list[Projection], cost: Spending
) -> list[Waves]:
    """Release the sketch; return the characteristic function of the group of each projection."""
    statistic = SketchStatistic(groups, listed)
    released = release_sketch(run, statistic, cost)
    sketched = min(run.rows.n, MOST_COUNTED) / run.rows.n
    ends = np.cumsum([each.size for each in listed])
    values = np.split(released.value, ends[:-1])
    waves = []
    for projection, value in zip(listed, values, strict=True):
        rows = frames.rows[projection.group] * sketched
        std = math.hypot(released.noise_std / rows, math.sqrt(0.5 / rows))
        waves.append(Waves(projection.frequencies, value / rows, std))
    return waves


def fits_of(projection: Projection, data: Waves, most: int, *, full: bool) -> list[WaveFit]:
    """Return the best fits of 1, 2, ... components, up to two after the last one that is worth its parameters."""
    fits: list[WaveFit] = []
    best = 0
    for place in range(min(most, tuning.MOST_WAVE_COMPONENTS)):
        more = place - best
        if more > 2:
            break
        model = WaveModel(place + 1, len(projection.matrix), full)
        fits.append(model.fit(data, projection.spread))
        gain = fits[best].score - fits[place].score
        if gain > model.worth * more:
            best = place
    return fits


def find_along(
    run: Session,
    groups: Groups,
    frames: Frames,
    listed: list[Projection],
    more: int,
    cost: Spending,
    *,
    full: bool,
) -> dict[int, GaussianMixture]:
    """Release a sketch of groups with directions; return the mixture along them of each group that holds several components.

    There are at most `more` components beyond one of each group.
    """
    if not listed:
        return {}
    waves = release_waves(run, groups, frames, listed, cost)
    fits = [fits_of(*both, more + 1, full=full) for both in zip(listed, waves, strict=True)]
    worths = [WaveModel(1, len(each.matrix), full).worth for each in listed]
    scores = [[fit.score for fit in each] for each in fits]
    numbers = sketch.numbers_of_components(scores, worths, more + len(listed))
    mixtures = {}
    for projection, number, own in zip(listed, numbers, fits, strict=True):
        if number > 1:
            mixtures[projection.group] = own[number - 1].mixture
    return mixtures


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """The mixture whose responsibilities the first round takes, and the numbers of directions of groups that have any."""

    at: GaussianMixture
    directions: list[int]

    @classmethod
    def of(cls, parts: list[GaussianMixture], frames: Frames, directions: list[int]) -> Start:
        """Return the start from the mixtures of the groups."""
        of_groups = zip(frames.rows / frames.rows.sum(), parts, strict=True)
        weights = [share * part.weights for share, part in of_groups]
        means = np.concatenate([part.means for part in parts])
        scale = np.concatenate([part.scale for part in parts])
        return cls(GaussianMixture(np.concatenate(weights), means, scale), directions)


def find_components(
    task: Task, run: Session, groups: Groups, frames: Frames, costs: dict[str, Spending]
) -> Start:
    """Release Gram matrices and a sketch if groups may hold several components; return the start of the rounds."""
    more = task.n_components - groups.size
    listed: list[Projection] = []
    of_groups: dict[int, GroupDirections] = {}
    if more > 0:
        for group, own in enumerate(release_moments(run, groups, frames, costs["grams"])):
            correlations = move_frame(frames, group, own)
            deviations = frames.deviations[group]
            fine = usable_columns(groups, deviations)
            correlations *= np.outer(fine, fine)
            noise = math.hypot(own.off, 1.0 / math.sqrt(own.rows))
            along = directions(correlations, noise, more, fine, groups.modes[group])
            if not len(along.rows) or not np.isfinite(along.rows).all():
                continue
            center = frames.centers[group].copy()
            listed.append(Projection.of(group, center, along.rows / deviations, along.spread))
            of_groups[group] = along
    components = find_along(run, groups, frames, listed, more, costs["sketch"], full=False)
    nowhere = np.zeros((1, run.rows.dim))
    one = GaussianMixture(np.ones(1), nowhere, nowhere + 1.0)
    parts = []
    for group, frame in enumerate(zip(frames.centers, frames.deviations, strict=True)):
        standardized = one
        if group in components:
            standardized = extended_to_columns(of_groups[group], components[group])
        parts.append(standardized.mapped(*frame))
    return Start.of(parts, frames, [len(of_groups[group].rows) for group in components])


# ---- Rounds.


def run_rounds(task: Task, run: Session, start: GaussianMixture, plan: StartPlan) -> StartState:
    """Release a first round of the components, early rounds while they move, and one with everything that is left."""
    one_round = partial(em_rounds.advance, run, np.zeros((0, run.rows.dim)))
    if task.known_std:
        start = replace(start, scale=np.ones(start.means.shape))
    state = StartState(name="sketch", at=start, known_std=task.known_std)
    state = one_round(state, share=tuning.START_SHARES.first, name="first round")
    return rounds_from(run, state, one_round, plan)


def rounds_from(
    run: Session, state: StartState, one_round: Callable[..., StartState], plan: StartPlan
) -> StartState:
    """Release early rounds while components move, and one with everything that is left."""
    for number in range(plan.rounds):
        if number >= tuning.EARLY_ROUNDS and state.moved < tuning.SETTLED:
            break
        state = one_round(state, share=plan.early, name=f"round {number + 1}")
    # Shares of releases that were not needed are not lost: rhos add up even if shares depend on released values.
    spent = run.account.charged / run.account.allowance
    return one_round(state, share=1 - plan.count - spent, name=LAST)


def count_of_fit(run: Session, columns: list[ColumnModes], at: GaussianMixture) -> MeasuredFit:
    """Release the count of the fit, by the columns of values that are not rounded.

    Without such columns it is by all of them, and no reason follows: steps of rounded values look like a misfit.
    """
    smooth = tuple(j for j, column in enumerate(columns) if column.smooth)
    counted = smooth or tuple(range(len(columns)))
    if len(counted) < len(columns):
        chosen = ChosenColumns(counted)
        run = run.on(each_row(run.rows, chosen, len(counted)))
    nobody = np.zeros((0, len(counted)))
    fit = measure(run, at.of_columns(counted), public=nobody)
    return replace(fit, graded=bool(smooth))


# ---- A start near few public rows.


def share_near_public(n_pub: int, dim: int, components: int) -> Fraction:
    """Return the share of the budget for a start near public rows: 0 where these show the components, or columns are few."""
    is_shown = n_pub >= tuning.NEAR_ROWS * components
    if is_shown or components == 1 or dim <= tuning.FEW_COLUMNS:
        return Fraction(0)
    return tuning.START_SHARES.grams + tuning.START_SHARES.sketch


def draws_near_public(dim: int) -> int:
    """Return the number of noise draws of a start near public rows."""
    return (dim + 1) ** 2 + longest_sketch(1)


def check_near_public(spending: Spending, n: int, dim: int) -> None:
    """Raise before the debit if a release of a start near public rows has no noise grid."""
    costs = costs_of(spending)
    costs["grams"].grid("shared", dim + 1, n, parts=1)
    costs["sketch"].grid("sum", longest_sketch(1), n)


def start_near_public(task: Task, public: FloatArray) -> GaussianMixture:
    """Return the mixture along the directions that private rows show, in the frame of the public rows: one group of all rows."""
    center = public.mean(axis=0)
    deviations = public.std(axis=0)
    deviations = np.where(deviations > 0.0, deviations, np.maximum(np.abs(center), 1.0))
    columns = [one_mode(*moments) for moments in zip(center, deviations, strict=True)]
    modes = [column.modes(None, 0.0) for column in columns]
    groups = Groups(columns, [], np.zeros(1, dtype=np.int64), np.ones(1), [modes])
    frames = Frames.of(groups, task.run.rows.n)
    costs = costs_of(task.run.account.spending)
    at = find_components(task, task.run, groups, frames, costs).at
    return replace(at, scale=np.ones(at.means.shape)) if task.known_std else at


def one_mode(mean: float, std: float) -> ColumnModes:
    """Return a column of one mode."""
    fit = GaussianMixture(np.ones((1, 1)), np.array([[mean]]), np.array([[std]]))
    return ColumnModes(fit, cuts=np.zeros(0), confused=0.0)


# ---- The whole call.


def range_of(task: Task) -> HistogramRange | BoundedRange:
    """Return how the range of the columns is found."""
    run = task.run
    rows = run.rows
    if task.range_box is not None:
        return BoundedRange(task.range_box, rows, run.account.spending)
    cost = run.account.approx_left
    shares = BlockShares.of(rows.n, rows.dim, task.n_components, cost, known_std=task.known_std)
    return HistogramRange.of(rows, shares.thousandths, shares.scales)


def check_start(task: Task, search: HistogramRange | BoundedRange, plan: StartPlan) -> None:
    """Raise before the debit if a stage before the rounds has no noise grid or memory; warn if rows are too few."""
    run = task.run
    needed = search.check(run)
    check_releases(task, search.rest.n, plan)
    n = run.rows.n
    # Then not even rows of one component, or all in one cell, would reach the thresholds.
    if needed > n:
        warn(
            f"{run.account.name}: {n} rows in {run.rows.dim} columns are too few for {task.start_name} here: it takes about "
            f"{math.ceil(needed)} in one place for it to show; pass more rows, a larger budget, fewer columns, or public "
            "rows (x_pub)",
        )


def release_range(task: Task, search: HistogramRange | BoundedRange) -> list[ColumnRange]:
    """Release the range of the columns, with cells that stand out from their noise."""
    cost = costs_of(task.run.account.spending)["cells"]
    fewest = tuning.CELL_STDS * cost.std("counts", search.rest.dim)
    return search.release_edges(task.run, task.n_components, CellSize(fewest, tuning.COLUMN_CELLS))


class FoundColumns(NamedTuple):
    """The run on `rest`, what its releases may cost, and the fit of each column, with which every private start begins."""

    run: Session
    costs: dict[str, Spending]
    columns: list[ColumnModes]

    @property
    def are_empty(self) -> bool:
        """Whether no column shows any value."""
        return not any(column.fit.size for column in self.columns)

    @property
    def tied(self) -> list[float]:
        """Share of ties of each column."""
        return [column.tied for column in self.columns]

    @property
    def steps(self) -> list[float]:
        """Step between the values of each column."""
        return [column.step for column in self.columns]


def find_columns(task: Task, search: HistogramRange | BoundedRange) -> FoundColumns:
    """Release the range and the cells of the columns."""
    ranges = release_range(task, search)
    run = search.on_rest(task.run)
    costs = costs_of(run.account.spending)
    return FoundColumns(run, costs, column_modes.marginals(task, run, ranges, costs["cells"]))


def find_groups(task: Task, column_fits: FoundColumns) -> Groups:
    """Release combinations and matching modes; return the groups of rows that single columns separate."""
    costs = column_fits.costs
    of_groups = costs["combinations"], costs["matching"]
    return column_modes.find_groups(task, column_fits.run, column_fits.columns, *of_groups)


def learn(task: Task) -> LearnedMixture:
    """Run all stages."""
    account = task.run.account
    dim = task.run.rows.dim
    k = task.n_components
    known_std = task.known_std
    search = range_of(task)
    rest = search.rest
    plan = StartPlan.of(rest.n, dim, k, account.spending, known_std=known_std, looks=search.looks)
    check(task, rest.n, plan)
    check_start(task, search, plan)
    account.open()
    column_fits = find_columns(task, search)
    run = column_fits.run
    if column_fits.are_empty:
        nothing = axis_method.nothing_found(dim, {"anchors": []})
        return axis_method.measured(task, nothing, run)
    groups = find_groups(task, column_fits)
    frames = Frames.of(groups, rest.n)
    start = find_components(task, run, groups, frames, column_fits.costs)
    state = run_rounds(task, run, start.at, plan)
    facts: dict[str, Any] = {"anchors": groups.chosen, "groups": groups.size}
    facts["directions"] = start.directions
    facts["rounds"] = state.rounds
    facts["tied_share"] = column_fits.tied
    facts["step"] = column_fits.steps
    at = state.at.normalized
    learned = LearnedMixture(at=at, diagnostics=facts)
    is_whole = all(column.is_known for column in column_fits.columns)
    low = em_rounds.lost_in_noise(at.weights, dim, rest.n, 0, state.count_std)
    fit = count_of_fit(run, column_fits.columns, task.bounded(at))
    reason = None if is_whole else Reason.FALLBACK
    return replace(learned, reason=reason, low=low, fit=fit, predicted=gaussian_tv(*state.errors))


def seconds(n: int, dim: int, components: int) -> float:
    """Return the run time of a search on each column, a sketch and its fit, and rounds."""
    rounds = tuning.MOST_MORE * n * components * dim * 3.0 * axis_method.ROW_SECONDS
    search = dim * axis_method.SEARCH_SECONDS * min(components, tuning.COLUMN_MODES) / 2.0
    sketched = min(n, MOST_COUNTED) * tuning.FREQUENCIES[1] * 8.0 * axis_method.ROW_SECONDS
    return search + rounds + sketched + components


def rows_of_rest(
    n: int, dim: int, components: int, budget: Budget, spending: Spending
) -> tuple[float, Fraction]:
    """Return how many of n rows the rounds have, and the largest share of looks, for a budget with a delta or without."""
    if not has_delta(budget):
        return float(n), bounded_range.share_of_looks(spending)
    cost = budget.epsilon, budget.delta
    shares = BlockShares.of(n, dim, components, cost, known_std=False)
    return n * shares.rest, Fraction(0)


def predict(
    n: int, dim: int, components: int, n_pub: int, budget: Budget
) -> tuple[float, dict[str, float]]:
    """Return the expected l2 error of the mean of an average component, in its standard deviations, and comparisons."""
    spending = spending_of(budget, most_draws(n, dim, components, known_std=False))
    rest, looks = rows_of_rest(n, dim, components, budget, spending)
    rows = max(round(rest), 1)
    plan = StartPlan.of(rows, dim, components, spending, known_std=False, looks=looks)
    noise = em_rounds.whole_noise(dim, spending.part(plan.least_last)) / rest
    error = components * math.sqrt(dim * (1.0 / (components * rest) + noise**2))
    return error, {"rows_of_rounds": rest, "without_privacy": math.sqrt(dim * components / n)}


METHOD = AxisMethod(
    name="sketch",
    learn=learn,
    draws=most_draws,
    predict=predict,
    seconds=seconds,
    range_from_bounds=True,
    columns="several",
    least_rows=tuning.START_LEAST_ROWS,
)
