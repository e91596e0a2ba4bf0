"""A start from two releases: Gram matrices of groups of rows, and sums of cosines and sines along the directions they show."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic

import numpy as np
from scipy.special import ndtr

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.kernels.mixture_rows import NormalTable, prepare, shares_at, soft_parts
from fastpubpriv.mechanisms.sums import Released, SoftGrams, StatisticSum
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.axis_aligned import column_modes, em, sketch
from fastpubpriv.mixtures.axis_aligned.column_modes import ColumnModes, Groups
from fastpubpriv.mixtures.axis_aligned.em import Mixtures
from fastpubpriv.mixtures.axis_aligned.sketch import Fitted, Projection, WaveFit, Waves
from fastpubpriv.mixtures.fit import MOST_COUNTED, public_ties
from fastpubpriv.mixtures.separated.soft_em import (
    RoundMoments,
    RowClip,
    pooled_moments,
    shrinkage,
    some_rows,
)
from fastpubpriv.privacy.spending import Spending
from fastpubpriv.session import Session

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


def projection_of(
    groups: Groups, frames: Frames, group: int, own: RoundMoments, most: int
) -> Projection | None:
    """Move a group's frame to its released moments; return a projection to at most `most` directions, or all few columns."""
    correlations = move_frame(frames, group, own)
    deviations = frames.deviations[group]
    fine = usable_columns(groups, deviations)
    correlations *= np.outer(fine, fine)
    noise = math.hypot(own.off, 1.0 / math.sqrt(own.rows))
    matrix, spread = directions(correlations, noise, most, fine, groups.modes[group])
    if not len(matrix) or not np.isfinite(matrix).all():
        return None
    center = frames.centers[group].copy()
    return Projection.of(group, center, matrix / deviations, spread)


def directions(
    correlations: FloatArray,
    noise: float,
    most: int,
    usable: BoolArray,
    modes: list[FloatArray],
) -> tuple[FloatArray, FloatArray]:
    """Return rows (l, dim) for standardized rows, along which a component has variance about one, and their covariance (l, l)."""
    dim = len(correlations)
    if dim <= tuning.FEW_COLUMNS:
        chosen = np.eye(dim)[usable]
        return chosen, chosen @ (correlations + np.eye(dim)) @ chosen.T
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
    return rows, rows @ whole @ rows.T


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


@dataclass(frozen=True, slots=True, eq=False)
class ProjectedShares:
    """Responsibilities of the components along the directions of each group, one component for a group without."""

    groups: Groups
    projections: dict[int, Projection]
    fits: list[Mixtures]  # of each group, one mixture along its directions

    @property
    def group_of(self) -> IntArray:
        """The group of each component."""
        numbers = [fit.weights.shape[1] for fit in self.fits]
        return np.repeat(np.arange(len(numbers)), numbers)

    @np.errstate(all="ignore")
    def __call__(self, chunk: Any) -> FloatArray:
        """Return the shares of rows (n, dim), (components, n), zero in other groups; each column from its row alone."""
        labels = self.groups.labels(chunk)
        out = np.zeros((len(self.group_of), len(chunk)))
        begin = 0
        for group, fit in enumerate(self.fits):
            mine = labels == group
            parts = slice(begin, begin + fit.weights.shape[1])
            begin = parts.stop
            if group not in self.projections:
                out[parts, mine] = 1.0
                continue
            rows = chunk[mine].astype(np.float64)
            coordinates = self.projections[group].coordinates(rows)
            out[parts, mine] = self._shares(coordinates, fit)
        return out

    def _shares(self, coordinates: FloatArray, fit: Mixtures) -> FloatArray:
        """Return the responsibilities (k, n) at coordinates (l, n)."""
        at = fit[0]
        squares = np.zeros((len(at.weights), coordinates.shape[1]))
        for own, means, stds in zip(coordinates, at.means.T, at.stds.T, strict=True):
            gaps = (own - means[:, None]) / stds[:, None]
            squares += np.square(gaps)
        constants = np.log(at.weights) - np.log(at.stds).sum(axis=1)
        return shares_at(squares, constants)


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


@dataclass(frozen=True, slots=True)
class WaveModel(Generic[Fitted]):
    """How mixtures along directions are fitted: `fit` of a number of components, from the covariance of the coordinates, and the
    decrease of the sum of squares, by the number of directions, from which another component is kept.
    """

    fit: Callable[[Waves, int, FloatArray], WaveFit[Fitted]]
    worth: Callable[[int], float]


AXIS_ALIGNED = WaveModel(sketch.fit_waves, sketch.worth_of_component)


def fits_of(
    projection: Projection, data: Waves, most: int, model: WaveModel[Fitted]
) -> list[WaveFit[Fitted]]:
    """Return the best fits of 1, 2, ... components, up to two after the last one that is worth its parameters."""
    worth = model.worth(len(projection.matrix))
    fits: list[WaveFit[Fitted]] = []
    best = 0
    for place in range(min(most, tuning.MOST_WAVE_COMPONENTS)):
        more = place - best
        if more > 2:
            break
        fits.append(model.fit(data, place + 1, projection.spread))
        gain = fits[best].score - fits[place].score
        if gain > worth * more:
            best = place
    return fits


def chosen_fits(
    listed: list[Projection], waves: list[Waves], more: int, model: WaveModel[Fitted]
) -> list[tuple[int, Fitted]]:
    """Return the number of components of the group of each projection, at most `more` beyond one each, and their fit."""
    worths = [model.worth(len(each.matrix)) for each in listed]
    both = zip(listed, waves, strict=True)
    fits = [fits_of(*each, more + 1, model) for each in both]
    scores = [[fit.score for fit in each] for each in fits]
    numbers = sketch.numbers_of_components(scores, worths, more + len(listed))
    chosen = zip(numbers, fits, strict=True)
    return [(number, fit[number - 1].mixture) for number, fit in chosen]


ONE = Mixtures(*np.ones((3, 1, 1)))


def find_components(
    n_components: int, run: Session, groups: Groups, frames: Frames, costs: dict[str, Spending]
) -> ProjectedShares:
    """Release Gram matrices and a sketch if groups may hold several components; return the components along directions."""
    shares = ProjectedShares(groups, {}, [ONE] * groups.size)
    more = n_components - groups.size
    if more == 0:
        return shares
    moments = release_moments(run, groups, frames, costs["grams"])
    listed = []
    for group, own in enumerate(moments):
        projection = projection_of(groups, frames, group, own, more)
        if projection is not None:
            listed.append(projection)
    if not listed:
        return shares
    waves = release_waves(run, groups, frames, listed, costs["sketch"])
    fits = chosen_fits(listed, waves, more, AXIS_ALIGNED)
    for projection, (number, mixture) in zip(listed, fits, strict=True):
        if number > 1:
            shares.projections[projection.group] = projection
            shares.fits[projection.group] = mixture
    return shares


# ---- With public rows: all rows are one group, in the frame of the public ones.


def public_group(public: FloatArray, at: Mixtures) -> Groups:
    """Return all rows as one group; `at` is a fit to the public rows, whose marginals are the modes of the columns."""
    tied, steps = public_ties(public)
    constant = np.ptp(public, axis=0) == 0.0
    columns = []
    for j, (share, step) in enumerate(zip(tied, steps, strict=True)):
        marginal = Mixtures(at.weights[None], at.means[None, :, j], at.stds[None, :, j])
        columns.append(
            ColumnModes(
                marginal,
                np.zeros(0),
                0.0,
                has_cells=not constant[j],
                tied=share,
                step=step,
                smooth=not share > 0.0,
            )
        )
    modes = [[column.modes(None, 0.0) for column in columns]]
    return Groups(columns, [], np.zeros(1, dtype=np.int64), np.ones(1), modes)


@dataclass(frozen=True, slots=True, eq=False)
class SketchStart:
    """A start by a sketch: the frames in which a first round whitens rows, and the shares of rows there."""

    frame: Mixtures
    assigned: ProjectedShares
    is_sure: bool  # whether the sketch determines the mixture, so that no other start is needed


def back_projection(covariance: FloatArray, projection: Projection) -> FloatArray:
    """Return the regression (dim, l) of columns of this covariance (dim, dim) on coordinates along directions."""
    crossed = covariance @ projection.matrix.T
    inverse = np.linalg.pinv(projection.matrix @ crossed, hermitian=True)
    regression: FloatArray = crossed @ inverse
    return regression


def frames_of(
    public: FloatArray, scale: FloatArray, share: FloatArray, centers: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return means and deviations (k, dim) of public rows by their shares (k, m), about `scale` (dim,) each.

    A component of hardly any row has its mean of `centers` (k, dim), and the deviations of rows about all means.
    """
    held = share.sum(axis=1, keepdims=True)
    means = share @ public / np.maximum(held, 1e-9)
    means = np.where(held >= tuning.FEWEST_ROWS, means, centers)
    gaps = (public - means[:, None, :]) / scale
    squares = np.einsum("km,kmd->kd", share, np.square(gaps))
    pooled = squares.sum(axis=0) / max(len(public) - len(share), 1)
    variances = (squares + tuning.FEW_ROWS * pooled) / (held + tuning.FEW_ROWS)
    variances = np.where(variances > tuning.LEAST_VARIANCE, variances, 1.0)
    return means, scale * np.sqrt(variances)


def is_determined(projection: Projection, data: Waves, fit: sketch.WaveFit[Mixtures]) -> bool:
    """Return whether a sketch determines the mixture: enough directions, a close fit, and known widths."""
    directions, dim = projection.matrix.shape
    wanted = fit.mixture.weights.shape[1] - 1
    if directions < min(wanted, dim) or fit.score > tuning.SURE_MISFIT * len(data.values):
        return False
    # Along several directions a component is correlated, though its columns are not.
    is_exact = dim <= tuning.FEW_COLUMNS or directions == 1
    if not is_exact and dim < tuning.SURE_COLUMNS * directions:
        return False
    errors = sketch.width_errors(data, fit.mixture)
    return float(errors.max()) <= tuning.SURE_WIDTHS


def public_start(
    run: Session, public: FloatArray, fits: list[Mixtures], costs: dict[str, Spending]
) -> SketchStart | None:
    """Release Gram matrix and sketch of all rows; return a start by the best fit to them, None without directions.

    `fits` are those to the public rows, from which a fit to the sketch starts too.
    """
    k = len(fits[0].weights)
    groups = public_group(public, fits[-1])
    center = public.mean(axis=0)
    deviation = public.std(axis=0)
    deviation = np.where(deviation > 0.0, deviation, np.maximum(np.abs(center), 1.0))
    frames = Frames(center[None].copy(), deviation[None].copy(), np.array([float(run.rows.n)]))
    [moments] = release_moments(run, groups, frames, costs["grams"])
    projection = projection_of(groups, frames, 0, moments, k - 1)
    if projection is None or moments.second is None:
        return None
    [data] = release_waves(run, groups, frames, [projection], costs["sketch"])
    guesses = em.joined([projection.projected(fit) for fit in fits])
    fit = sketch.fit_waves(data, k, projection.spread, guesses)
    shares = ProjectedShares(groups, {0: projection}, [fit.mixture])
    covariance = moments.second * np.outer(deviation, deviation)
    away = fit.mixture.means[0] @ back_projection(covariance, projection).T
    centers = frames.centers[0] + away
    parts = frames_of(public, frames.deviations[0], shares(public), centers)
    frame = Mixtures(fit.mixture.weights[0], *parts)
    return SketchStart(frame, shares, is_determined(projection, data, fit))
