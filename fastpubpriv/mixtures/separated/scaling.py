"""The coordinates in which a search takes distances, chosen by public rows: columns come in any unit."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.estimators.ladder.public_base import column_scales
from fastpubpriv.estimators.matrices import spectrum
from fastpubpriv.mechanisms.sums import AffineMap
from fastpubpriv.mixtures.separated.balls import rows_for_gaps, widest_gap
from fastpubpriv.mixtures.separated.kmeans import kmeans, nearest_centers

# Of more public rows every so-many-th decides the scaling; rounds of the fit whose within-group covariance is a candidate.
MOST_SCALING_ROWS, SCALING_ROUNDS, SCALING_RESTARTS = 2_000, 2, 3
# A variance within groups that is a smaller share of its column's is not told from zero: values are rounded.
LEAST_WITHIN = 1e-3
# A fit is as likely as the best within so many nats, and so many for each row. Without the first, 6 to 12 public rows of groups in
# unlike units preferred one column in 13 cases of 90; without the second, thousands whiten nearly collinear columns, which
# hides their gaps (`pytest tests/mixtures/test_cluster_tree.py`).
MARGIN, MARGIN_PER_ROW = 5.0, 0.05
# By what factor whitening must widen a gap where its fit is only as likely: of flights it does so by 1.1, and hides their groups.
WIDER = 1.2


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """A public linear map to coordinates in which distances are taken: (dim, dim), (dim,) for a diagonal, None for data units."""

    name: str
    matrix: FloatArray | None = None

    def offsets(self, differences: FloatArray) -> FloatArray:
        """Differences of rows (m, dim) in those coordinates."""
        if self.matrix is None:
            return differences
        return differences * self.matrix if self.matrix.ndim == 1 else differences @ self.matrix.T

    def directions(self, points: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
        """Mean (dim,) of public rows, and the projection (count, dim) of data units to their leading directions there."""
        center = points.mean(axis=0)
        _, found = public_directions(self.offsets(points - center), count)
        return center, self.after(found)

    def after(self, directions: FloatArray) -> FloatArray:
        """The projection (l, dim) of data units that is `directions` (l, dim) after this map."""
        return AffineMap(dim=directions.shape[1], matrix=self.matrix).times(directions)


DATA_UNITS = Scaling("data units")


def column_scaling(points: FloatArray, n_components: int, *, gap_share: float | None = None) -> Scaling:
    """The coordinates in which a fit to public rows (m, dim) makes them likeliest, whatever the units of the columns.

    The public standard deviations, unless the covariance within the groups of a fit there or the data units are clearly better. A
    search that cuts along gaps, with a share `gap_share` of the rows on either side, also takes that covariance if it widens them.
    """
    looked = points[:: -(-len(points) // MOST_SCALING_ROWS)]
    deviations = column_scales(looked)
    known = np.isfinite(deviations)
    if not known.any():
        return DATA_UNITS
    unit = np.where(known, deviations, np.exp(np.mean(np.log(deviations[known]))))
    rows = (looked - looked.mean(axis=0)) / unit
    columns = Scaling("public standard deviations", 1.0 / unit)
    if n_components == 1 or len(looked) <= n_components:
        return columns
    inner = Scaling("")
    for _ in range(SCALING_ROUNDS):
        whitener = _whitener(rows, _groups(rows, n_components, inner))
        inner = Scaling("", whitener)
    within = Scaling("public within-group covariance", whitener / unit)
    tried = [(columns, Scaling("")), (within, inner), (DATA_UNITS, Scaling("", unit))]
    costs = [_cost(rows, _groups(rows, n_components, each)) for _, each in tried]
    most = min(costs) + max(MARGIN, MARGIN_PER_ROW * len(rows))
    likely = [named for (named, _), cost in zip(tried, costs, strict=True) if cost <= most]
    if gap_share is not None and likely[:2] == [columns, within]:
        own, other = (_gap(rows, n_components, each, gap_share) for each in (Scaling(""), inner))
        return within if other > WIDER * own else columns
    return likely[0]


def _gap(rows: FloatArray, count: int, scaling: Scaling, share: float) -> float:
    """Ratio of the radii of the widest gap between rows along the principal directions of these coordinates; 1 for none."""
    center, projection = scaling.directions(rows, count)
    seen = rows_for_gaps((rows - center) @ projection.T, count)
    found = widest_gap(seen, min_count=max(2, math.ceil(share * len(seen))))
    return 1.0 if found is None else found.ratio


def _groups(rows: FloatArray, count: int, scaling: Scaling) -> IntArray:
    """The group (m,) of each public row: k-means along the principal directions of these coordinates."""
    center, projection = scaling.directions(rows, count)
    seen = (rows - center) @ projection.T
    return nearest_centers(seen, kmeans(seen, count, restarts=SCALING_RESTARTS))[0]


def _within(rows: FloatArray, groups: IntArray) -> tuple[FloatArray, FloatArray | None]:
    """Standard deviations (dim,) within groups of rows of variance one, and correlations shrunk to zero, None for too few rows."""
    counts = np.bincount(groups)
    sums = np.stack([np.bincount(groups, weights=column) for column in rows.T], axis=1)
    offsets = rows - (sums / np.maximum(counts, 1)[:, None])[groups]
    dim, degrees = rows.shape[1], max(len(rows) - int(np.count_nonzero(counts)), 1)
    spreads = np.sqrt(np.einsum("ij,ij->j", offsets, offsets) / degrees + LEAST_WITHIN)
    if degrees < dim:
        return spreads, None
    offsets /= spreads
    correlation = offsets.T @ offsets / (degrees + dim)
    np.fill_diagonal(correlation, 1.0)
    return spreads, correlation


def _whitener(rows: FloatArray, groups: IntArray) -> FloatArray:
    """The matrix, a vector where diagonal, that makes the covariance within groups the identity."""
    spreads, correlation = _within(rows, groups)
    if correlation is None:
        return 1.0 / spreads
    values, vectors = spectrum(correlation)
    whitener: FloatArray = (vectors / np.sqrt(values)) @ vectors.T / spreads
    return whitener


def _cost(rows: FloatArray, groups: IntArray) -> float:
    """Minus the log likelihood of rows in groups with one covariance, up to a constant."""
    spreads, correlation = _within(rows, groups)
    volume = float(np.sum(np.log(spreads)))
    if correlation is not None:
        volume += float(np.linalg.slogdet(correlation)[1]) / 2.0
    counts = np.bincount(groups)
    counts = counts[counts > 0]
    return len(rows) * volume - float(counts @ np.log(counts / len(rows)))


def public_directions(points: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Mean (dim,) and leading directions (count, dim) of public rows."""
    center = points.mean(axis=0)
    scale = float(np.abs(points - center).max()) or 1.0
    _, _, right = np.linalg.svd((points - center) / scale, full_matrices=False)
    return center, np.ascontiguousarray(right[: min(count, len(right))])
