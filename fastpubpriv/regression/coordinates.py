"""Coordinates chosen from public rows, in which fresh rows are about white too, and the map of labeled rows to them.

Labeled rows are standardized, whitened and rotated by public numbers, and rounded to whole numbers of grid steps. A row is mapped
to the same bits in any chunk: entry by entry up to the standard units, then in the C library's fixed order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.kernels.rows import rows_single
from fastpubpriv.regression import regression_tuning as tuning
from fastpubpriv.regression.inputs import UNIFORM_SPREAD, Design
from fastpubpriv.rowwise.row_maps import RowMap
from fastpubpriv.sources import Executor, Rows
from fastpubpriv.sources.arrays import ArrayRows
from fastpubpriv.sources.row_types import Chunk
from fastpubpriv.sources.views import PIECE_BYTES, each_row, read_and_changed
from fastpubpriv.threads.pool import share_stream


def directions(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues (p,), ascending, and eigenvectors (p, p) of a symmetric matrix; the largest entry of each is positive."""
    # LAPACK leaves the signs undetermined, and the noise of a coordinate would depend on them.
    values, vectors = np.linalg.eigh(matrix)
    largest = np.argmax(np.abs(vectors), axis=0)
    return values, vectors * np.where(vectors[largest, np.arange(len(values))] < 0.0, -1.0, 1.0)


def variances_of(maps: FloatArray, covariance: FloatArray) -> FloatArray:
    """Variances (q,) of linear maps (q, D) of a vector with this covariance (D, D)."""
    return np.asarray(np.einsum("ij,jk,ik->i", maps, covariance, maps))


def principal_variances(centered: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Return variances of fresh rows along the principal directions of centered rows (m, p), ascending, and these, (p, p)."""
    # Cross-validated eigenvalues (Bartz and Mueller 2014), smoothed to be ascending: shrinkage toward the identity would inflate
    # directions in which columns nearly agree. The third value is the squared share of the differences between directions that
    # held-out rows confirm; 1 for next to no rows.
    m, p = centered.shape
    few = next_to_none(m, p)
    own, along = directions(centered.T @ centered)
    folds = min(tuning.FOLDS if p <= tuning.FOLDED_COLUMNS else 2, m)
    fold = np.arange(m) % folds
    variances = np.zeros(p)
    for k in range(folds):
        part = centered[fold != k]
        others = centered[fold == k]
        if few:
            # Centered at the mean of that part, since about the mean of all rows a single held-out row lies in the span of the
            # others. Directions in which the part does not vary share one variance.
            middle = part.mean(axis=0)
            unseen = max(0, p - len(part) + 1)
            _, tried = np.linalg.eigh((part - middle).T @ (part - middle))
            held = np.mean(((others - middle) @ tried) ** 2, axis=0) * (
                len(part) / (len(part) + 1.0)
            )
            if unseen:
                held[:unseen] = held[:unseen].mean()
            variances += held / folds
            continue
        _, tried = np.linalg.eigh(part.T @ part)
        variances += np.mean((others @ tried) ** 2, axis=0) / folds
    rising = risen(variances)
    claimed = float(np.var(own / m))
    if few:
        return rising, along, 1.0
    return rising, along, min(1.0, float(np.var(rising)) / claimed) if claimed > 0.0 else 0.0


def next_to_none(m: int, p: int) -> bool:
    """Whether a linear model fits m public rows in p columns exactly, and they are too few to estimate errors and residuals."""
    return m <= p + 1 and m < tuning.NEXT_TO_NONE


def risen(values: FloatArray) -> FloatArray:
    """Return the closest nondecreasing sequence (pool adjacent violators)."""
    means: list[float] = []
    counts: list[int] = []
    for value in values.tolist():
        mean = value
        count = 1
        while means and means[-1] >= mean:
            before = means.pop()
            length = counts.pop()
            mean = (mean * count + before * length) / (count + length)
            count = count + length
        means.append(mean)
        counts.append(count)
    return np.repeat(np.array(means, dtype=np.float64), counts)


def complement(sums: FloatArray | None) -> FloatArray | None:
    """Orthonormal basis (p, p - k) of the directions across `sums` (k, p); None without sums."""
    if sums is None or not len(sums):
        return None
    return np.asarray(np.linalg.qr(sums.T, mode="complete")[0][:, len(sums) :])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Whitener:
    """x = [1, (terms - mean) root]: about uncorrelated coordinates of unit variance after an intercept.

    Sums of terms that are constant have no coordinate: a row has r + 1 of them, r <= p.
    """

    mean: FloatArray  # (p,), of the standardized public terms
    root: FloatArray  # (p, r), an inverse square root of their covariance
    ridge_of_terms: FloatArray  # (r, r), the squared norm of coefficients of the terms
    # squared share of the differences between directions of the public rows, and so of their error, that is used
    confirmed: float

    @classmethod
    def of(cls, terms: FloatArray, weights: FloatArray, sums: FloatArray | None = None) -> Whitener:
        """Return the whitener of public terms (m, p) with weights (m,); `sums` (k, p) of terms that are constant are null."""
        mean: FloatArray = np.average(terms, axis=0, weights=weights)
        centered = (terms - mean) * np.sqrt(weights)[:, None]
        basis = complement(sums)
        values, vectors, confirmed = principal_variances(
            centered if basis is None else centered @ basis
        )
        # Private rows may vary where public ones do not: they must not seem to be far out.
        flat = values < tuning.FLAT * values[-1]
        values = np.where(
            flat, values.mean(), np.maximum(values, tuning.LEAST_VARIANCE * values[-1])
        )
        root = (vectors / np.sqrt(values)) @ vectors.T
        ridge_of_terms = (vectors / values) @ vectors.T
        return cls(
            mean=mean,
            root=root if basis is None else basis @ root,
            ridge_of_terms=ridge_of_terms,
            confirmed=confirmed,
        )

    def __call__(self, terms: FloatArray) -> FloatArray:
        """Map public terms (m, p) to (m, r + 1)."""
        return np.hstack([np.ones((len(terms), 1)), (terms - self.mean) @ self.root])

    def ridge(self, intercept: float) -> FloatArray:
        """Return the precision (r + 1, r + 1), in these coordinates, of independent unit-variance coefficients of the terms."""
        matrix = np.zeros((self.root.shape[1] + 1,) * 2)
        matrix[0, 0] = intercept
        matrix[1:, 1:] = self.ridge_of_terms
        return matrix

    @property
    def to_terms(self) -> FloatArray:
        """Map (r, p) from coordinates after the intercept to centered terms."""
        return np.asarray(np.linalg.pinv(self.root))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Weighting:
    """Weights of the coordinates of a row in a sum, and their effect on a gradient, from public rows."""

    # (D,), weights of the coordinates, of unit norm where chosen by `water_filled`
    spread: FloatArray
    radius: float  # clip of the norm of weighted rows
    share: float  # share of the second moment that is left by the clip
    shares: FloatArray  # (D,), the same per coordinate
    lever: FloatArray  # (m,), factor of each public row by the clip


def some(rows: FloatArray) -> FloatArray:
    """Return up to 1,000 of the public rows, spread over all of them."""
    return rows[:: max(1, -(-len(rows) // tuning.SOME_ROWS))]


def weighting(public: FloatArray, spread: FloatArray) -> Weighting:
    """Return the weighting of public rows (m, D) by `spread` (D,)."""
    # Second moments below one are filled up evenly over the rows.
    squares = public**2
    moments = squares.mean(axis=0)
    missing = np.maximum(1.0 - moments, 0.0)
    norms = np.sqrt(squares @ spread**2 + missing @ spread**2)
    radius = float(np.quantile(norms, tuning.CLIP_QUANTILE))
    lever = np.minimum(1.0, radius / np.maximum(norms, 1e-300))
    left = lever @ squares / len(public)
    shares = (left + missing * lever.mean()) / (moments + missing)
    return Weighting(
        spread=spread,
        radius=radius,
        share=float(np.sum(lever * norms**2) / np.sum(norms**2)),
        shares=np.maximum(shares, 1e-3),
        lever=lever,
    )


def water_filled(variance: FloatArray, precision: float, floor: float) -> FloatArray:
    """Precisions (D,) with sum `precision`, a share `floor` of it even, that minimize sum(1 / (1 / variance + precision))."""
    held = 1.0 / variance
    dim = len(held)
    known = np.sort(held)
    budget = (1.0 - floor) * precision
    levels = (budget + known.cumsum()) / np.arange(1, dim + 1)
    last = int(np.max((levels > known) * np.arange(dim)))
    filled: FloatArray = np.maximum(levels[last] - held, 0.0)
    filled *= budget / max(float(np.sum(filled)), 1e-300)
    return filled + floor * precision / dim


# without `max_memory`, mapped rows are cached in memory up to this, else recomputed in each pass
KEPT_BYTES = 1 << 30


def fits(n: int, row_map: Any, executor: Executor) -> bool:
    """Whether n mapped rows, of `out_width` numbers of type `dtype`, fit into memory."""
    most = KEPT_BYTES if executor.max_memory is None else executor.max_memory
    return bool(n * row_map.out_width * np.dtype(row_map.dtype).itemsize <= most)


def mapped_rows(rows: Rows, row_map: Any, executor: Executor, *, single: bool = False) -> Rows:
    """Return the rows row_map(chunk), cached in memory if they fit, else recomputed in each pass with the same bits."""
    # Rows on a cluster stay there, unless `single` rows may be read.
    width = row_map.out_width
    view = each_row(rows, row_map, width)
    if (view.cluster is not None and not single) or not fits(rows.n, row_map, executor):
        return view
    mapped = np.empty((rows.n, width), dtype=row_map.dtype)
    size = max(1, PIECE_BYTES // (8 * max(rows.dim, width)))
    source, changed = read_and_changed(view)
    chunks = source.chunks(chunk_rows=size)

    def placed() -> Iterator[tuple[int, Chunk]]:
        """Yield each chunk with the number of rows before it."""
        begin = 0
        for chunk in chunks:
            yield begin, chunk
            begin += len(chunk)

    def keep(begin_and_chunk: tuple[int, Chunk]) -> None:
        begin, chunk = begin_and_chunk
        mapped[begin : begin + len(chunk)] = changed(chunk)

    share_stream(keep, placed(), threads=executor.threads)
    return ArrayRows(mapped, "array")


_FLOAT32_WHOLE = 2**24  # whole numbers up to this are exact in single precision
_LONGEST_LABEL = 1e30


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rotation:
    """The public map of a labeled row (dim + 1) to (D + 1): z in grid steps and the label in its unit."""

    dtype: ClassVar[type[np.floating]] = np.float32

    design: Design  # columns to standardized terms, (p,)
    row_map: RowMap  # terms to z, (D,), on a grid
    step: float  # length of a grid step of z
    label_center: float = 0.0  # with label_scale: the label becomes (label - center) / scale
    label_scale: float = 1.0
    # labels that become 0, 1 and so on; any other becomes NaN
    classes: tuple[float, ...] | None = None
    # rows have a weight after the label, which becomes min(weight, cap) / cap
    weight_cap: float | None = None
    # (k, p), see `Design.constant_sums`: a row in which one of them differs is ignored
    sums: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    # the map of plain numeric columns, with their units, or None
    _merged: RowMap | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        merged = None
        center = self.row_map.center
        matrix = self.row_map.matrix
        design = self.design
        plain = not design.role.any() and not np.isfinite(design.fill).any()
        if (
            plain
            and np.array_equal(design.source, np.arange(len(design.columns)))
            and matrix is not None
        ):
            assert center is not None
            merged = replace(
                self.row_map,
                matrix=matrix / design.scale,
                center=design.center + center * design.scale,
            )
        object.__setattr__(self, "_merged", merged)

    @property
    def weighted(self) -> bool:
        """Whether rows have weights."""
        return self.weight_cap is not None

    @property
    def out_width(self) -> int:
        """Width of an output row."""
        return self.row_map.out_dim + 1 + self.weighted

    def __call__(self, chunk: Chunk) -> Chunk:
        """Map rows (k, dim + 1) to (k, D + 1) float32, and a weight if any; an ignored row has z = 0 or no label."""
        label = chunk.shape[1] - 1 - self.weighted
        out = np.empty((len(chunk), self.out_width), dtype=self.dtype)
        cells = chunk[:, :label]
        if self._merged is None:
            cells = np.ascontiguousarray(
                self.design.standardize(cells.astype(np.float64, copy=False))
            )
            if len(self.sums):
                cells[self._is_unnamed(cells)] = np.nan
        rows_single(cells, self._merged or self.row_map, out)
        out[:, self.row_map.out_dim] = self.labels(chunk[:, label].astype(np.float64))
        if self.weight_cap is not None:
            out[:, -1] = capped(chunk[:, -1].astype(np.float64), self.weight_cap)
        return out

    def _is_unnamed(self, terms: FloatArray) -> BoolArray:
        """Whether rows of terms (k, p) have a category that no public row has, (k,)."""
        # The sum of the indicators is 1, or else 0.
        centers = np.where(self.sums > 0.0, self.design.center, 0.0).sum(axis=1)
        with np.errstate(all="ignore"):
            return np.asarray(np.any(terms @ self.sums.T + centers < 0.5, axis=1))

    def labels(self, predictions: FloatArray) -> FloatArray:
        """Convert labels to the unit of the fit."""
        return label_values(predictions, self.label_center, self.label_scale, self.classes)


def rounding_residual(step: float, coefficients: FloatArray, largest_label: float) -> float:
    """Root mean square of the residual that rounding makes: of z to a grid of `step`, and of labels to single precision."""
    # Errors are uniform over a step, with independent signs over the coordinates; a class is a whole number, without an error.
    of_label = largest_label / _FLOAT32_WHOLE
    return (step * float(np.linalg.norm(coefficients)) + of_label) / UNIFORM_SPREAD


def capped(weights: FloatArray, cap: float) -> FloatArray:
    """min(weight, cap) / cap, (k,); 0 for a weight that is missing, infinite or negative."""
    with np.errstate(all="ignore"):
        return np.where(np.isfinite(weights) & (weights > 0.0), np.minimum(weights / cap, 1.0), 0.0)


def label_values(
    predictions: FloatArray, center: float, scale: float, classes: tuple[float, ...] | None
) -> FloatArray:
    """(label - center) / scale, NaN for a label that is not finite; or the place of a class, NaN for any other label."""
    with np.errstate(all="ignore"):
        if classes is not None:
            places = np.full(len(predictions), np.nan)
            for place, known in enumerate(classes):
                places = np.where(predictions == known, float(place), places)
            return places
        # A finite label is clipped, never dropped, however large; an infinite label is a missing one.
        values: FloatArray = np.clip(
            (predictions - center) / scale, -_LONGEST_LABEL, _LONGEST_LABEL
        )
        return np.where(np.isfinite(predictions), values, np.nan)


def rotation_map(
    matrix: FloatArray, center: FloatArray, offset: FloatArray, radius: float
) -> tuple[RowMap, float]:
    """Return z = offset + matrix (terms - center), clipped to `radius`, on the finest grid of exact float32; and its step."""
    dim = len(matrix)
    bound = min(math.isqrt(2**53 // dim), _FLOAT32_WHOLE)
    limit = bound - math.isqrt(dim) // 2 - 2
    step = float(radius) / limit
    row_map = RowMap(
        dim=matrix.shape[1],
        matrix=matrix,
        center=center,
        offset=offset,
        quant_bound=bound,
        inv_step=1.0 / step,
        limit=float(limit),
    )
    return row_map, step
