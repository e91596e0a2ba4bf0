"""Gradients of labeled rows as exact integers, in readable NumPy: equal to `kernels.gradients`, each sum in the same order."""

import numpy as np

from fastpubpriv.rowwise.row_maps import ResidualMap

# adding it rounds a double below 2**51 in size to the nearest integer, ties to even
_ROUNDER = 1.5 * 2.0**52


def sum_in_order(terms):
    """Return ((t_1 + t_2) + t_3) + ..."""
    found = np.float64(0.0)
    for term in terms:
        found = found + term
    return found


def sum_by_halves(terms):
    """Return eight sums of every eighth term, in order, then added by halves as in a vector register."""
    lanes = np.zeros(8)
    for begin in range(0, len(terms), 8):
        part = terms[begin : begin + 8]
        lanes[: len(part)] += part
    halves = lanes[:4] + lanes[4:]
    quarters = halves[:2] + halves[2:]
    return np.float64(quarters[0] + quarters[1])


def add_rounded(steps, quant_bound, sums):
    """Add steps, rounded to integers q, to sums, unless an entry or the norm of q exceeds quant_bound."""
    with np.errstate(all="ignore"):
        q = (steps + _ROUNDER) - _ROUNDER
    if not np.all(np.abs(q) <= quant_bound):  # NaN fails
        return
    whole = q.astype(np.int64)
    if int((whole * whole).sum()) <= quant_bound**2:
        sums += whole


def gradient_sum(chunk, gradient_map, sums, places=None):
    """Add integer gradients of labeled rows chunk (n, dim + 1), or of those at places, to sums (dim,) or (outputs, dim)."""
    m = gradient_map
    rows = (chunk if places is None else chunk[places]).astype(np.float64)
    if isinstance(m, ResidualMap):
        return _add_residuals(rows, m, sums)
    for row in rows:
        z = row[:-1]
        label = float(row[-1])
        with np.errstate(all="ignore"):
            norm = np.float64(np.sqrt(sum_by_halves(z * z)))
            if m.weights.ndim == 1:
                s = np.array(
                    [m.residual(float(sum_by_halves(m.weights * z)), label)], dtype=np.float64
                )
                bound = np.float64(m.clip_norm) / norm
                factor = np.array(min(max(s[0], -bound), bound) * m.inv_step)
            else:
                s = np.zeros(len(m.weights))
                m.residual(np.array([float(sum_by_halves(one * z)) for one in m.weights]), label, s)
                length = np.float64(np.sqrt(sum_in_order(s * s)))
                bound = np.float64(m.clip_norm) / norm
                shortened = bound / length if length > bound else 1.0
                factor = s * (shortened * m.inv_step)
            if not (np.isfinite(label) and np.all(np.isfinite(s)) and np.all(np.isfinite(factor))):
                continue
            steps = factor[..., None] * z
        add_rounded(steps, m.quant_bound, sums)


def _add_residuals(rows, m, sums):
    for row in rows:
        z = row[: m.dim]
        label = float(row[m.dim])
        weight = min(float(row[-1]), 1.0) if m.weighted and row[-1] > 0.0 else float(not m.weighted)
        with np.errstate(all="ignore"):
            weighted = m.spread * z
            norm = float(np.sqrt(sum_by_halves(weighted * weighted)))
            residual = float(m.residual(float(sum_by_halves(m.weights * z)), label)) * (
                1.0 / m.scale
            )
            shortened = m.clip_norm / norm if norm > m.clip_norm else 1.0
            factor = (
                shortened * (min(max(residual, -m.clip), m.clip) / m.clip) * m.inv_step * weight
            )
            if not (np.isfinite(residual) and np.isfinite(factor)):
                continue
            steps = factor * weighted
        add_rounded(steps, m.quant_bound, sums)
