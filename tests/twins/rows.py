"""Maps of private rows to exact integers in readable NumPy: equal to `kernels.rows`, as each sum has the same order."""

import itertools
import math

import numpy as np
from scipy.linalg.blas import dsyrk

from fastpubpriv.rowwise.losses import huber_residual

_LANES = 8
# adding it rounds a double below 2**51 in size to the nearest integer, ties to even
_ROUNDER = 1.5 * 2.0**52
_RESCUE_SCALES = (2.0**-256, 2.0**-512, 2.0**-768, 2.0**-1022)


def rows_quantise(chunk, row_map, out):
    out[...] = _pieces(chunk, row_map)[0]


def rows_pieces(chunk, row_map, grams):
    inside, outer, passes = _pieces(chunk, row_map)
    grams += [np.tril(q.T @ q) for q in (inside * passes[:, None], outer)]


def rows_radial(chunk, row_map, sums, gram, per_step, bound, edges_sq=None, counts=None):
    z, factor, outer, finite, norm_sq = _cut(chunk, row_map, linear=True)
    if sums is not None:
        sums += [
            _checked(z, each, finite, row_map.quant_bound)[0].sum(axis=0)
            for each in (factor, outer)
        ]
    if gram is not None:
        q, _ = _checked(z, (factor + outer) * per_step, finite, bound)
        gram += np.tril(q.T @ q)
    if edges_sq is not None:
        counts += _counted(norm_sq, factor, finite, edges_sq)


def _counted(norm_sq, times, finite, edges_sq):
    cell = np.searchsorted(edges_sq, np.where(norm_sq < np.inf, norm_sq, np.inf), side="left")
    cell[~(norm_sq < np.inf)] = edges_sq.size
    cell[times == 0.0] = 0
    return np.bincount(cell[finite], minlength=edges_sq.size + 1)


def rows_single(chunk, row_map, out):
    out[:, : row_map.out_dim] = _pieces(chunk, row_map)[0]


def _split(chunk, row_map):
    """Rows without labels, and their factors, one by one; <slope, z> is a sum of whole numbers, and exact."""
    x = chunk.astype(np.float64)
    score = row_map.score
    times = (
        np.ones(len(x))
        if score is None
        else np.array([_factor(row, score) * score.step for row in x])
    )
    return x[:, : row_map.dim], times


def _factor(row, score):
    dim = len(score.slope)
    weights = getattr(score.residual, "numbers", (1.0, 1.0))
    predicted = float(np.dot(score.slope, row[:dim])) * score.unit
    label = float(row[dim])
    found = score.residual(predicted, label) if math.isfinite(label) else math.nan
    if score.curvature and math.isfinite(found):
        grown = math.exp(-abs(predicted))
        squared = score.residual(9.0, 0.0) == -9.0
        huber = getattr(score.residual, "make", None) is huber_residual
        chance = (1.0 if predicted >= 0.0 else grown) / (1.0 + grown)
        if huber:
            found = float(abs(label - predicted) < weights[0]) if math.isfinite(label) else math.nan
        elif squared:
            found = 1.0
        else:
            found = math.sqrt(weights[int(label == 1.0)] * (chance * (1.0 - chance)))
    if score.weighted:
        part = min(row[dim + 1], 1.0) if row[dim + 1] > 0.0 else 0.0
        found *= math.sqrt(part) if score.curvature else part
    return found if math.isfinite(found * score.step) else 0.0


def _pieces(chunk, row_map):
    """Return clipped rows, the outer parts of rows that are split at the limit, and which rows' outer parts pass the check."""
    z, factor, outer, finite, _ = _cut(chunk, row_map, linear=False)
    (inside, _), (beyond, passes) = (
        _checked(z, each, finite, row_map.quant_bound) for each in (factor, outer)
    )
    return inside, beyond, passes


def _cut(chunk, row_map, *, linear):
    """Return rows on the grid, the factors of their inner and outer parts, and which of them are finite."""
    with np.errstate(all="ignore"):
        x, times = _split(chunk, row_map)
        finite = np.isfinite(x).all(axis=1)
        z = _affine(x, row_map, 1.0) * row_map.inv_step
        norm_sq = _norm_sq(z) * times * times
        norm = np.sqrt(norm_sq)
        factor = np.where(norm > row_map.limit, row_map.limit / norm, 1.0)
        outer = np.sqrt(np.where(factor * factor < 0.5, factor * factor, 1.0 - factor * factor))
        if linear:
            outer = np.minimum(1.0, 2.0 * factor) - factor
        # A finite row whose squared norm overflows is clipped too, with the direction of the scaled row.
        for i in np.flatnonzero(finite & ~np.isfinite(norm_sq)):
            z[i], factor[i] = _rescue(x[i : i + 1], row_map)
            outer[i], times[i] = factor[i], np.sign(times[i])
        return z, factor * times, outer * times, finite, norm_sq


def _checked(z, factor, finite, bound):
    """Return rows times their factors as integers, zero for rows that fail the check, and which rows pass it."""
    with np.errstate(all="ignore"):
        q = (z * factor[:, None] + _ROUNDER) - _ROUNDER
        passes = finite & (np.abs(q) <= float(bound)).all(axis=1)  # NaN fails
    q[~passes] = 0.0
    whole = q.astype(np.int64)
    passes &= (whole * whole).sum(axis=1) <= bound**2
    whole[~passes] = 0
    return whole, passes


def rows_sum(chunk, row_map, sums, box=None):
    sums += _integers(chunk if box is None else columns_box(chunk, box), row_map).sum(axis=0)


def rows_sum_counted(chunk, row_map, sums, neutral):
    rows_sum(chunk, row_map, sums)
    neutral += np.count_nonzero(~np.isfinite(chunk).all(axis=1))


def rows_gram_counted(chunk, row_map, gram, neutral):
    rows_gram(chunk, row_map, gram)
    neutral += np.count_nonzero(~np.isfinite(chunk).all(axis=1))


def rows_gram(chunk, row_map, gram):
    q = _integers(chunk, row_map)
    gram += np.tril(q.T @ q)


def rows_gram_blas(chunk, row_map, gram):
    """Compute rows_gram by BLAS on integer-valued doubles: exact for a chunk of B rows if B Q^2 <= 2^53."""
    rows = max(1, min(2**53 // row_map.quant_bound**2, 2**21 // row_map.out_dim, 2**14))
    for begin in range(0, chunk.shape[0], rows):
        q = _integers(chunk[begin : begin + rows], row_map).astype(np.float64)
        # q.T is Fortran-ordered, so its upper triangle is the lower one of the C-ordered result.
        gram += np.tril(dsyrk(1.0, q.T, lower=0).T).astype(np.int64)


def rows_shell_counts(chunk, row_map, counts, edges_sq, box=None):
    with np.errstate(all="ignore"):
        x, times = _split(chunk if box is None else columns_box(chunk, box), row_map)
        norm_sq = _norm_sq(_affine(x, row_map, 1.0)) * times * times
    finite = np.isfinite(x).all(axis=1)
    counts += _counted(norm_sq, times, finite, edges_sq)


def _integers(chunk, row_map):
    q = np.empty((chunk.shape[0], row_map.out_dim), dtype=np.int32)
    rows_quantise(chunk, row_map, q)
    return q.astype(np.int64)


def _affine(x, row_map, scale):
    """Return scale * (offset + matrix (x - center)), summed in ascending order of the columns."""
    t = x * scale
    if row_map.center is not None:
        t = t - row_map.center * scale
    kind = row_map.kind.name
    if row_map.matrix is None:
        y = t
    elif kind == "DIAGONAL":
        y = t * row_map.matrix
    else:
        matrix = np.tril(row_map.matrix) if kind == "LOWER" else row_map.matrix
        y = np.zeros((x.shape[0], row_map.out_dim))
        for k in range(row_map.dim):
            y = y + t[:, k : k + 1] * matrix[:, k]
    if row_map.offset is not None:
        y = y + row_map.offset * scale
    return y


def _norm_sq(z):
    """Return squared norms of rows (n, k): lane l of eight sums columns l, l + 8, ... in order; lanes are added by halves."""
    width = -(-z.shape[1] // _LANES) * _LANES
    square = np.zeros((z.shape[0], width))
    square[:, : z.shape[1]] = z * z
    lane = np.zeros((z.shape[0], _LANES))
    for k in range(0, width, _LANES):
        lane = lane + square[:, k : k + _LANES]
    a = lane.T
    return np.asarray(((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7])))


def _rescue(row, row_map):
    """Return scaled steps z (1, out_dim) and clip factor of a finite row (1, dim) whose norm overflows; zeros if no scale works."""
    for scale in _RESCUE_SCALES:
        z = _affine(row, row_map, scale) * row_map.inv_step
        norm_sq = _norm_sq(z)[0]
        if np.isfinite(norm_sq) and norm_sq > 0.0:
            return z, float(row_map.limit / np.sqrt(norm_sq))
    return np.zeros((1, row_map.out_dim)), 1.0


_SIZE = np.uint64(2**63 - 1)


def cells_of_column(log2_parts):
    return 2 * (2047 << log2_parts) + 2


def columns_count(chunk, center, log2_parts, neutral, counts):
    with np.errstate(all="ignore"):
        x = chunk.astype(np.float64)
        missing = ~np.isfinite(x)
        if neutral:
            missing |= np.logical_or.reduce(missing, axis=1).reshape(-1, 1)
        bits = np.ascontiguousarray(x - center).view(np.uint64)
    size = bits & _SIZE
    side = 2047 << log2_parts
    # For zero the difference wraps around; its cell is set afterwards.
    key = ((size - np.uint64(1)) >> np.uint64(52 - log2_parts)).astype(np.int64) + np.where(
        bits > _SIZE, side, 0
    )
    cell = np.where(missing, 2 * side + 1, np.where(size == 0, 2 * side, key))
    for column in range(x.shape[1]):
        counts[column, : 2 * side + 2] += np.bincount(cell[:, column], minlength=2 * side + 2)


def columns_cells(chunk, edges, counts, code=None, groups=1, own=False):
    """Add to counts the numbers of chunk by column, group, and number of edges that are at most the number."""
    begin = 0
    columns = len(edges) // groups if own else len(edges)
    for column, group in itertools.product(range(columns), range(groups)):
        cuts = edges[column * groups + group] if own else edges[column]
        with np.errstate(all="ignore"):
            value = chunk[:, column].astype(np.float64)
        inside = np.isfinite(value) if code is None else np.isfinite(value) & (code == group)
        cell = np.searchsorted(cuts, value[inside], side="right")
        counts[begin : begin + len(cuts) + 1] += np.bincount(cell, minlength=len(cuts) + 1)
        begin += len(cuts) + 1


def column_codes(column, keys):
    return np.array(
        [
            len(keys) + 1
            if not np.isfinite(each)
            else ([*np.flatnonzero(keys == each), len(keys)])[0]
            for each in column
        ],
        dtype=np.int32,
    )


def moment_sums(groups, columns):
    return np.zeros((groups, 3, columns), dtype=np.int64)


def group_moments(chunk, code, middle, steps, squared, quant_bound, sums):
    groups, columns = middle.shape
    with np.errstate(all="ignore"):
        for group in range(groups):
            rows = chunk[:, :columns] if code is None else chunk[code == group, :columns]
            x = rows.astype(np.float64)
            end = 1.0 if squared else quant_bound
            t = np.clip((x - middle[group]) * steps[group], -end, end)
            q = np.rint((2.0 * t * t - 1.0) * quant_bound if squared else t)
            there = np.isfinite(x)
            whole = np.where(there & (np.abs(q) <= quant_bound), q, 0.0).astype(np.int64)
            square = np.where(there, whole**2 // quant_bound - quant_bound // 2, 0)
            sums[group, :, :columns] += np.stack([there, whole, square]).sum(axis=1)


def columns_join(columns):
    return np.column_stack(columns)


def columns_box(chunk, box):
    with np.errstate(all="ignore"):
        x = chunk.astype(np.float64)
        v = x - box.center
        v = np.where(v < box.lower, box.lower, v)
        v = np.where(v > box.upper, box.upper, v)
        y = np.where(np.isfinite(x), (v - box.middle) / box.width, box.absent)
    if box.neutral:
        y[~np.isfinite(x).all(axis=1)] = np.nan
    return np.asarray(y)
