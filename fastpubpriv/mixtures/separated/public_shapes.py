"""What the public rows of a mixture show alone: k-means centers, balls, superclusters, coordinates of distances, and fits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.estimators.linalg import spectrum
from fastpubpriv.estimators.radii import size
from fastpubpriv.gaussians.public_prior import column_scales
from fastpubpriv.kernels import geometry
from fastpubpriv.mechanisms.sums import AffineMap
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.results.base import MOST_IN_REPR, Value, explain
from fastpubpriv.results.fields import array, value_class
from fastpubpriv.results.public_draws import draw_uniforms
from fastpubpriv.results.result_tables import Facts, bracketed
from fastpubpriv.sources.open import public_rows

# k-means++ on public rows: deterministic, so that no privacy statement depends on its randomness.

# Seed of the public draws of starting centers, the same in every run.
SEED = 20_221


def squared_distances(points: FloatArray, center: FloatArray) -> FloatArray:
    """Squared distances of rows (m, dim) from a center, (m,)."""
    offsets = points - center
    squares: FloatArray = np.einsum("ij,ij->i", offsets, offsets)
    return squares


def nearest_centers(points: FloatArray, centers: FloatArray) -> tuple[IntArray, FloatArray]:
    """Index of the nearest center (the lowest on ties) and squared distance to it, (m,) each."""
    best = np.full(len(points), np.inf)
    labels = np.zeros(len(points), dtype=np.int64)
    for index, center in enumerate(centers):
        squares = squared_distances(points, center)
        closer = squares < best
        best[closer] = squares[closer]
        labels[closer] = index
    return labels, best


def seeds(points: FloatArray, uniform: FloatArray) -> FloatArray:
    """Starting centers by k-means++ from uniform draws (count,), one for each: all distinct, and fewer where rows are equal."""
    chosen = [min(int(uniform[0] * len(points)), len(points) - 1)]
    best = squared_distances(points, points[chosen[0]])
    for draw in uniform[1:]:
        total = np.cumsum(best)
        if not total[-1] > 0.0:
            break
        index = int(np.searchsorted(total, draw * total[-1], side="right"))
        # Rounding may select an index past the last row that differs from every center.
        index = min(index, int(np.flatnonzero(best > 0.0)[-1]))
        chosen.append(index)
        best = np.minimum(best, squared_distances(points, points[index]))
    return points[chosen]


def lloyd(points: FloatArray, centers: FloatArray) -> tuple[FloatArray, float]:
    """Lloyd's iterations until no row changes its center; returns the centers and the sum of squared distances."""
    labels, best = nearest_centers(points, centers)
    for _ in range(tuning.MOST_LLOYD):
        counts = np.bincount(labels, minlength=len(centers))
        sums = np.stack(
            [np.bincount(labels, weights=column, minlength=len(centers)) for column in points.T],
            axis=1,
        )
        filled = counts > 0
        centers = np.where(filled[:, None], sums / np.maximum(counts, 1)[:, None], centers)
        moved, best = nearest_centers(points, centers)
        if np.array_equal(moved, labels):
            break
        labels = moved
    counts = np.bincount(labels, minlength=len(centers))
    return centers[counts > 0], float(best.sum())


def kmeans(points: FloatArray, count: int, *, restarts: int = tuning.RESTARTS) -> FloatArray:
    """Centers (at most count, dim) of public rows (m, dim): the best of `restarts` runs, each center nearest to some row."""
    # Scaled to unit size, so that squares neither overflow nor underflow.
    middle = points.mean(axis=0)
    scale = float(np.abs(points - middle).max()) or 1.0
    scaled = (points - middle) / scale
    draws = draw_uniforms((restarts, count), random_state=SEED)
    sample = scaled[:: -(-len(scaled) // max(tuning.RESTART_ROWS, 2 * count))]
    centers = np.zeros((1, points.shape[1]))
    cost = np.inf
    for uniform in draws:
        means, sum_sq = lloyd(sample, seeds(sample, uniform))
        if sum_sq < cost:
            centers = means
            cost = sum_sq
    if len(sample) < len(scaled):
        centers, _ = lloyd(scaled, centers)
    moved: FloatArray = middle + scale * centers
    return moved


# Balls of public rows: the public query of paper A's Algorithms 5 and 8, and the widest gap around a row.

# Least radius of a search over the largest one: 41 radii, and one more costs next to nothing.
LEAST_SHARE = 1e-12
# Maximum rows^2 * columns for pairwise distances: about an hour if nothing can be pruned.
MOST_WORK = 2.0**45


@value_class
class Ball(Value):
    """A closed ball around a public row.

    Attributes
    ----------
    center : (dim,) float64
        The public row, in the coordinates that were searched.
    radius : float
        Radius, in the same unit.
    index : int
        Position of that row among the public rows.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import Ball
    >>> Ball(center=np.zeros(2), radius=1.0, index=0).contains([[0.5, 0.5], [2.0, 0.0]]).tolist()
    [True, False]
    """

    center: FloatArray = array("dim", label="center")
    radius: float
    index: int

    _line_axes = ("dim",)

    def __repr__(self) -> str:
        center = (
            bracketed(self.center)
            if len(self.center) <= MOST_IN_REPR
            else f"{len(self.center)} columns"
        )
        return f"Ball(center={center}, radius={self.radius:.6g}, index={self.index})"

    def _axis(self, axis: str) -> tuple[str, Sequence[Any]]:
        return "column", [f"x{j}" for j in range(len(self.center))]

    def _facts(self, level: float) -> Facts:
        return [
            ("Radius", f"{self.radius:.6g} around public row {self.index}"),
            ("Spent", explain(None)),
        ]

    def contains(self, rows: Any) -> BoolArray:
        """Whether each of rows (n, dim) lies within the radius, (n,); False for a row with a non-finite entry."""
        points = np.atleast_2d(np.asarray(rows, dtype=np.float64))
        if points.ndim != 2 or points.shape[1] != len(self.center):
            raise InputError(f"rows must have shape (n, {len(self.center)}), got {points.shape}")
        with np.errstate(all="ignore"):
            inside: BoolArray = distances(points, self.center) <= self.radius
        return inside


@dataclass(frozen=True, slots=True)
class Gap:
    """A gap in the distances from row `index`: `rank` rows, itself included, lie within `inner`, the next one at `outer`."""

    index: int
    rank: int
    inner: float
    outer: float

    @property
    def ratio(self) -> float:
        """Distance beyond the gap over the distance before it; infinite when the inner rows coincide."""
        return self.outer / self.inner if self.inner > 0.0 else math.inf


def distances(points: FloatArray, center: FloatArray) -> FloatArray:
    """Distances of rows (m, dim) from a center, (m,)."""
    away: FloatArray = np.sqrt(squared_distances(points, center))
    return away


def refuse_too_much(points: FloatArray) -> None:
    """Raise InputError if pairwise distances of the public rows take too long; the message has public numbers only."""
    if float(points.shape[0]) ** 2 * points.shape[1] > MOST_WORK:
        raise InputError(
            f"{points.shape[0]} public rows of {points.shape[1]} columns are too many for pairwise distances; "
            "pass fewer public rows (a random part of them will do)"
        )


def radii_down_to(radius_max: float, radius_min: float) -> int:
    """Number of radii radius_max / 2^i that the search tries: i from 0 to ceil(log2(radius_max / radius_min))."""
    return max(0, math.ceil(math.log2(radius_max / radius_min))) + 1


def first_terrific(
    points: FloatArray, *, min_count: int, radius_max: float, radius_min: float | None
) -> Ball | None:
    """`terrific_ball` of validated rows; `radius_min` None tries every radius at which a ball can qualify."""
    if len(points) < 2 * min_count or not radius_max > 0.0:
        return None
    least = (
        LEAST_SHARE * radius_max
        if radius_min is None
        else max(radius_min, LEAST_SHARE * radius_max)
    )
    ball = geometry.first_terrific(points, radius_max, radii_down_to(radius_max, least), min_count)
    if ball is None:
        return None
    step, index = ball
    return Ball(center=points[index], radius=2.0 * radius_max / 2.0**step, index=index)


def rows_for_gaps(points: FloatArray, pieces: int) -> FloatArray:
    """Return the subsample of public rows (m, dim) in which gaps among `pieces` clusters are searched for."""
    return points[:: -(-len(points) // (tuning.GAP_ROWS * pieces))]


def widest_gap(points: FloatArray, *, min_count: int) -> Gap | None:
    """Return the widest relative gap with at least `min_count` rows on either side, or None if there is none."""
    if len(points) < 2 * min_count:
        return None
    widest = geometry.widest_gap(points, min_count)
    if widest is None:
        return None
    index, rank, inner_sq, outer_sq = widest
    gap = Gap(index, rank, math.sqrt(inner_sq), math.sqrt(outer_sq))
    return gap if gap.outer > gap.inner else None


def terrific_ball(
    x_pub: Any, *, min_count: int, radius_max: float, radius_min: float | None = None
) -> Ball | None:
    """Ball of many public rows with a wide empty shell around it and many public rows beyond, or None.

    Radii r = radius_max / 2^i are tried from the largest, and for each of them every public row as center, in order. The
    first (r, center) wins for which at least `min_count` rows lie within r, none between r and 11 r, and at least
    `min_count` beyond 11 r.

    Parameters
    ----------
    x_pub : (n_pub, dim) array-like, path, frame or table
        Public rows, finite, in data units.
    min_count : int of at least 1
        Rows that must lie within r, and again beyond 11 r.
    radius_max : float > 0
        First radius, in data units.
    radius_min : float, optional
        The last radius is the first one at or below this value. By default every radius down to 1e-12 of the largest is tried:
        below the smallest distance from a row to its `min_count`-th nearest no ball qualifies, so nothing is missed.

    Returns
    -------
    Ball or None
        Center, and radius 2 r: half of an empty shell away from everything on either side. None if no ball qualifies.

    Raises
    ------
    InputError
        Public rows or arguments out of range, or too many rows for pairwise distances.

    Privacy
    -------
    Reads public data only.

    See Also
    --------
    supercluster : a ball around the most isolated row, for two or three components.
    learn_separated_mixture : the whole search, with private rows.

    Notes
    -----
    Paper A, Algorithms 5 and 8 (public query). Departs from it: Algorithm 6 calls the search with a least radius of
    R / sqrt(dim), at which it stops too early (separations below several hundred standard deviations are missed); here the
    search goes on while a ball can qualify. Distances within rounding of a radius may fall on either side.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> rows = np.vstack([rng.normal(size=(30, 2)), rng.normal(size=(30, 2)) + 100.0])
    >>> ball = terrific_ball(rows, min_count=10, radius_max=500.0)
    >>> int(ball.contains(rows).sum())
    30
    """
    points = public_rows(x_pub, min_rows=1)
    count = validation.integer("min_count", min_count, minimum=1)
    largest = size("radius_max", radius_max)
    least = None if radius_min is None else size("radius_min", radius_min)
    if least is not None and least > largest:
        raise InputError(f"radius_min must be at most radius_max = {largest:g}, got {least:g}")
    refuse_too_much(points)
    return first_terrific(points, min_count=count, radius_max=largest, radius_min=least)


# Superclustering of public rows (paper A, Algorithm 3): a ball whose surface passes between components.

# Step of the radius over the largest distance from a row to its nearest neighbor: the proof's constant.
STEP_FACTOR = 16.0


def find_supercluster(
    points: FloatArray, n_components: int, *, step_factor: float = STEP_FACTOR
) -> Ball:
    """Algorithm 3 on validated rows (m, dim), m at least 2."""
    index, nearest_sq = geometry.isolated_row(points)
    step = step_factor * math.sqrt(nearest_sq)
    if not step > 0.0:
        return Ball(center=points[index], radius=0.0, index=index)
    # A round that is not the last finds another row beyond the radius, so that m rounds suffice.
    rounds = min(n_components, len(points))
    within = geometry.counts_within(points, index, step, 3 * rounds).tolist()
    radius = 1  # a whole number of steps
    is_outermost_empty = False  # whether the outermost step within the radius holds no row
    for _ in range(rounds):
        if within[radius + 1] > within[radius]:
            is_outermost_empty = within[radius + 2] == within[radius + 1]
            radius += 2
        elif is_outermost_empty:
            break
        elif within[radius + 2] == within[radius]:
            radius += 1
            break
        else:
            radius += 3
    return Ball(center=points[index], radius=radius * step, index=index)


def supercluster(x_pub: Any, *, n_components: int, step_factor: float = STEP_FACTOR) -> Ball:
    """Ball around the most isolated public row that cuts no component.

    Parameters
    ----------
    x_pub : (n_pub, dim) array-like, path, frame or table
        Public rows, finite, in data units.
        At least two rows.
    n_components : int
        Number of components; the radius is at most 3 n_components + 1 steps.
    step_factor : float > 0
        A step is this many times the largest distance from a public row to its nearest neighbor. The proof needs 16; 2
        suffices in practice.

    Returns
    -------
    Ball
        Its center is the row that is farthest from its nearest neighbor (the first on ties). Radius 0 if every row has a
        duplicate.

    Raises
    ------
    InputError
        Public rows or arguments out of range, or too many rows for pairwise distances.

    Privacy
    -------
    Reads public data only.

    See Also
    --------
    terrific_ball : a ball with many rows on either side, in many columns.
    learn_separated_mixture : the whole search, with private rows.

    Notes
    -----
    Paper A, Algorithm 3. Departs from it: the number of rounds and the order of arguments, which the text gives in
    several ways, follow the proof; ties go to the lowest index.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> rows = np.vstack([rng.normal(size=(30, 2)), rng.normal(size=(30, 2)) + 1e4])
    >>> int(supercluster(rows, n_components=2).contains(rows).sum())
    30
    """
    points = public_rows(x_pub, min_rows=2)
    count = validation.integer("n_components", n_components, minimum=1)
    factor = validation.positive("step_factor", step_factor)
    refuse_too_much(points)
    return find_supercluster(points, count, step_factor=factor)


# The coordinates of distances in a search, chosen from public rows, since columns may have any unit.


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """A public linear map to the coordinates of distances: a matrix (dim, dim), (dim,) if diagonal, None for data units."""

    name: str
    matrix: FloatArray | None = None

    def offsets(self, differences: FloatArray) -> FloatArray:
        """Return differences of rows (m, dim) in these coordinates."""
        if self.matrix is None:
            return differences
        return differences * self.matrix if self.matrix.ndim == 1 else differences @ self.matrix.T

    def directions(self, points: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
        """Return the mean (dim,) of public rows and the projection (count, dim) from data units to their principal directions."""
        center = points.mean(axis=0)
        _, axes = public_directions(self.offsets(points - center), count)
        return center, self.after(axes)

    def after(self, directions: FloatArray) -> FloatArray:
        """Return the projection (l, dim) from data units that applies this map, then `directions` (l, dim)."""
        return AffineMap(dim=directions.shape[1], matrix=self.matrix).times(directions)


DATA_UNITS = Scaling("data units")


def column_scaling(
    points: FloatArray, n_components: int, *, gap_share: float | None = None
) -> Scaling:
    """Return the coordinates in which k-means groups of public rows (m, dim) have the largest likelihood, whatever the units."""
    # Public standard deviations are used unless the within-group covariance or the data units are clearly better. For a search
    # of gaps with a share `gap_share` of the rows on either side, that covariance is also used if it widens the gap.
    sample = points[:: -(-len(points) // tuning.MOST_SCALING_ROWS)]
    deviations = column_scales(sample)
    known = np.isfinite(deviations)
    if not known.any():
        return DATA_UNITS
    unit = np.where(known, deviations, np.exp(np.mean(np.log(deviations[known]))))
    rows = (sample - sample.mean(axis=0)) / unit
    columns = Scaling("public standard deviations", 1.0 / unit)
    if n_components == 1 or len(sample) <= n_components:
        return columns
    inner = Scaling("")
    for _ in range(tuning.SCALING_ROUNDS):
        spreads, correlation = _within(rows, coarse_groups(rows, n_components, inner))
        whitener = 1.0 / spreads
        if correlation is not None:
            values, vectors = spectrum(correlation)
            whitener = (vectors / np.sqrt(values)) @ vectors.T / spreads
        inner = Scaling("", whitener)
    within = Scaling("public within-group covariance", whitener / unit)
    tried = [(columns, Scaling("")), (within, inner), (DATA_UNITS, Scaling("", unit))]
    costs = [_cost(rows, coarse_groups(rows, n_components, each)) for _, each in tried]
    most = min(costs) + max(tuning.MARGIN, tuning.MARGIN_PER_ROW * len(rows))
    likely = [named for (named, _), cost in zip(tried, costs, strict=True) if cost <= most]
    if gap_share is not None and likely[:2] == [columns, within]:
        own, other = (_gap(rows, n_components, each, gap_share) for each in (Scaling(""), inner))
        return within if other > tuning.WIDER * own else columns
    return likely[0]


def _gap(rows: FloatArray, count: int, scaling: Scaling, share: float) -> float:
    """Ratio of the radii of the widest gap between rows along the principal directions of these coordinates; 1 without a gap."""
    center, projection = scaling.directions(rows, count)
    projected = rows_for_gaps((rows - center) @ projection.T, count)
    gap = widest_gap(projected, min_count=max(2, math.ceil(share * len(projected))))
    return 1.0 if gap is None else gap.ratio


def kmeans_groups(
    rows: FloatArray, count: int, scaling: Scaling, *, restarts: int = tuning.RESTARTS
) -> IntArray:
    """Return the k-means group (m,) of each public row, along the principal directions of these coordinates."""
    center, projection = scaling.directions(rows, count)
    projected = (rows - center) @ projection.T
    return nearest_centers(projected, kmeans(projected, count, restarts=restarts))[0]


coarse_groups = partial(kmeans_groups, restarts=tuning.SCALING_RESTARTS)


def _within(rows: FloatArray, groups: IntArray) -> tuple[FloatArray, FloatArray | None]:
    """Within-group standard deviations (dim,) of rows of unit variance, and shrunken correlations, None for too few rows."""
    counts = np.bincount(groups)
    sums = np.stack([np.bincount(groups, weights=column) for column in rows.T], axis=1)
    offsets = rows - (sums / np.maximum(counts, 1)[:, None])[groups]
    dim = rows.shape[1]
    degrees = max(len(rows) - int(np.count_nonzero(counts)), 1)
    spreads = np.sqrt(np.einsum("ij,ij->j", offsets, offsets) / degrees + tuning.LEAST_WITHIN)
    if degrees < dim:
        return spreads, None
    offsets /= spreads
    correlation = offsets.T @ offsets / (degrees + dim)
    np.fill_diagonal(correlation, 1.0)
    return spreads, correlation


def _cost(rows: FloatArray, groups: IntArray) -> float:
    """Negative log likelihood of rows in groups with a common covariance, up to a constant."""
    spreads, correlation = _within(rows, groups)
    volume = float(np.sum(np.log(spreads)))
    if correlation is not None:
        volume += float(np.linalg.slogdet(correlation)[1]) / 2.0
    counts = np.bincount(groups)
    counts = counts[counts > 0]
    return len(rows) * volume - float(counts @ np.log(counts / len(rows)))


def public_directions(points: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Return the mean (dim,) and the principal directions (count, dim) of public rows."""
    center = points.mean(axis=0)
    scale = float(np.abs(points - center).max()) or 1.0
    _, _, right = np.linalg.svd((points - center) / scale, full_matrices=False)
    return center, np.ascontiguousarray(right[: min(count, len(right))])
