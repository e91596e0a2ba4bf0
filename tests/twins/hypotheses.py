"""Pairs of hypotheses in readable NumPy: the same integers as `kernels.densities` (codes: within one)."""

import math

import numpy as np
from scipy.special import logsumexp

from fastpubpriv._types import BoolArray, FloatArray

_CODES_PER_NAT = 2048.0


def flattened(panels):
    """Return an array (panels, ..., PANEL) as (hypotheses, ...), including the padding of the last panel."""
    moved = np.moveaxis(panels, -1, 1)
    return np.ascontiguousarray(moved.reshape(moved.shape[0] * moved.shape[1], *moved.shape[2:]))


def panelled(array, fill, panel=64):
    panels = -(-len(array) // panel)
    filler = np.full((panels * panel - len(array), *array.shape[1:]), fill, dtype=array.dtype)
    full = np.concatenate([array, filler]).reshape(panels, panel, *array.shape[1:])
    return np.ascontiguousarray(np.moveaxis(full, 1, -1))


def mixture_table(weights, means, spreads):
    """Return means, factors and constants in the kernel's layout, component by component."""
    size, components, dim = means.shape
    length = dim if spreads.ndim == 3 else dim * (dim + 1) // 2
    factors = np.ones((size, components, length))
    constants = np.full((size, components), -1e300)
    for h in range(size):
        for c in range(components):
            if spreads.ndim == 3:
                factor = np.diag(1.0 / np.sqrt(spreads[h, c]))
                factors[h, c] = np.diag(factor)
            else:
                factor = np.linalg.inv(np.linalg.cholesky(spreads[h, c]))
                factors[h, c] = factor[np.tril_indices(dim)]
            if weights[h, c] > 0.0:
                log_det = float(np.log(np.diag(factor)).sum())
                constants[h, c] = (
                    math.log(weights[h, c]) + log_det - 0.5 * dim * math.log(2.0 * math.pi)
                )
    return panelled(means, 0.0), panelled(factors, 1.0), panelled(constants, -1e300)


def log_densities(points, table):
    """Return log densities (n, hypotheses) of all hypotheses of a table at points (n, dim)."""
    means, factors, constants = (
        flattened(part) for part in (table.means, table.factors, table.constants)
    )
    size, components, dim = means.shape
    joint = np.empty((components, len(points), size))
    with np.errstate(all="ignore"):  # a row beyond the range of doubles has an infinite distance
        for c in range(components):
            away = points[:, None, :] - means[None, :, c, :]
            if table.lower:
                matrix = np.zeros((size, dim, dim))
                matrix[(slice(None), *np.tril_indices(dim))] = factors[:, c]
                white = np.einsum("hij,nhj->nhi", matrix, away)
            else:
                white = away * factors[None, :, c]
            distance = (white * white).sum(axis=2)
            joint[c] = constants[None, :, c] - 0.5 * np.where(distance < 1e300, distance, 1e300)
    found: FloatArray = logsumexp(joint, axis=0)
    return found


def density_codes(points, table, codes, first):
    finite: BoolArray = np.asarray(np.isfinite(points).all(axis=1))
    logs = log_densities(np.where(finite[:, None], points, 0.0), table)
    below = logs - logs.max(axis=1, keepdims=True)
    whole = np.rint(np.maximum(below * _CODES_PER_NAT, -65535.0)) + 32767.0
    whole[~finite] = 0.0
    codes[:, first : first + len(points), :] = panelled(whole.T.astype(np.int16), 0)


def pair_counts(codes, rows, panel, counts):
    flat = flattened(codes)[:, :rows]
    width = codes.shape[2]
    for row in range(width):
        counts[row] += (flat[panel * width + row] > flat[panel * width :]).sum(
            axis=1, dtype=np.int32
        )


def draw_counts(codes, own, counts):
    """Write to counts (panels PANEL,) the rows where `own` beats each later hypothesis, and where each earlier one beats it."""
    flat = flattened(codes)
    later = np.arange(len(flat)) > own
    counts[:] = np.where(later, (flat[own] > flat).sum(axis=1), (flat > flat[own]).sum(axis=1))


def cell_scores(table, shift, panel, worst):
    flat = flattened(table).astype(np.int64)
    width = table.shape[2]
    half = (1 << shift) >> 1
    for i in range(panel * width, (panel + 1) * width):
        later = flat[i + 1 :]
        inside = flat[i] > later
        own = np.abs((np.where(inside, flat[i], 0).sum(axis=1) + half) >> shift)
        other = np.abs((np.where(inside, later, 0).sum(axis=1) + half) >> shift)
        worst[i] = max(int(worst[i]), *own.tolist(), 0)
        worst[i + 1 :] = np.maximum(worst[i + 1 :], other)


def pair_roots(parts, grids, own, roots, counts):
    """Write roots (size - own - 1, most) where densities of `own` and j > own cross, ascending then inf; counts: n or -n - 1."""
    constants, means, inverses = parts
    most = roots.shape[1]

    def log_density(h, x):
        z = (x[:, None] - means[h]) * inverses[h]
        found: FloatArray = logsumexp(constants[h] - 0.5 * z * z, axis=1)
        return found

    roots[:] = np.inf
    for j in range(own + 1, len(means)):
        x = np.sort(np.concatenate([grids[own], grids[j]]))

        def lead(at, j=j):
            return log_density(own, at) - log_density(j, at)

        ahead = lead(x) > 0.0
        change = np.flatnonzero(ahead[1:] != ahead[:-1])[:most]
        low = x[change]
        high = x[change + 1]
        for _ in range(80):
            middle = low + 0.5 * (high - low)
            same = (lead(middle) > 0.0) == ahead[change]
            low = np.where(same, middle, low)
            high = np.where(same, high, middle)
        roots[j - own - 1, : len(change)] = low + 0.5 * (high - low)
        counts[j - own - 1] = len(change) if ahead[0] else -len(change) - 1
