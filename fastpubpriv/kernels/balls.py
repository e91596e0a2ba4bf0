"""Counts of rows in balls, and the public searches for a ball and for a gap, exact: ties are inside."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv.errors import InputError
from fastpubpriv.kernels._blocks import LANES, box_tile, make_blocks, tile
from fastpubpriv.kernels._jit import kernel
from fastpubpriv.kernels._parallel import count_threads, run_steps
from fastpubpriv.validation import integer, positive

_OUTER = 11.0
_STEP_WORK = 2e7


@kernel(fastmath=False)
def _distances(points, centers, out):  # type: ignore[no-untyped-def]
    """out (k, m) = squared distances of points (m, dim) from centers (k, dim), added up in the order of the columns."""
    for c in range(centers.shape[0]):
        for i in range(points.shape[0]):
            total = 0.0
            for k in range(points.shape[1]):
                difference = points[i, k] - centers[c, k]
                total += difference * difference
            out[c, i] = total


def ball_counts(
    points: npt.NDArray[Any],
    centers: npt.NDArray[Any],
    radii_sq: npt.NDArray[np.float64],
    *,
    threads: int | None = None,
) -> npt.NDArray[np.int64]:
    """(k, radii) int64: rows of points (n, dim) within each squared radius of each of centers (k, dim), ties inside."""
    table = np.ascontiguousarray(points, dtype=np.float64)
    middle = np.ascontiguousarray(centers, dtype=np.float64)
    counts = np.zeros((middle.shape[0], radii_sq.size), dtype=np.int64)

    def step(number: int) -> None:
        out = np.empty((1, table.shape[0]))
        _distances(table, middle[number : number + 1], out)
        counts[number] = (out[0, :, None] <= radii_sq).sum(axis=0)

    run_steps(step, middle.shape[0], count_threads(threads, 1.0 * table.size * middle.shape[0]))
    return counts


@kernel(fastmath=False)
def _any_between(out, inner, outer):  # type: ignore[no-untyped-def]
    """True if one of out (64,) is above inner and not above outer."""
    found = 0
    for v in range(LANES):
        found |= (out[v] > inner) & (out[v] <= outer)
    return found != 0


@kernel(fastmath=False)
def _boxes_refuse(near, far, sizes, inner, outer, min_count):  # type: ignore[no-untyped-def]
    """What the bounds near, far (p,) of boxes with sizes rows say of a ball: 0 nothing, 1 it fails, 2 smaller ones fail too."""
    reached, within, between, total = 0, 0, 0, 0
    for p in range(sizes.shape[0]):
        n = sizes[p]
        total += n
        reached += n if near[p] <= inner else 0
        within += n if far[p] <= outer else 0
        between += n if (near[p] > inner) & (far[p] <= outer) else 0
    if reached < min_count:
        return 2
    return 1 if between > 0 or total - within < min_count else 0


@kernel(fastmath=False)
def _passes(panels, sizes, row, near, far, inner, outer, out):  # type: ignore[no-untyped-def]
    """Rows within inner of row (dim,), or -1 if there is one between inner and outer; panels that are clear are not read."""
    inside = 0
    for p in range(panels.shape[0]):
        if far[p] <= inner:
            inside += sizes[p]
        elif near[p] <= outer:
            tile(panels[p], row, out)
            if _any_between(out, inner, outer):
                return -1
            for v in range(LANES):
                inside += out[v] <= inner
    return inside


@kernel(fastmath=False)
def _terrific(blocks, spread, begin, end, inner, outer, min_count, best):  # type: ignore[no-untyped-def]
    """best (2,) = first (radius, row) to pass Q_pub among itself and the rows at places begin..end of the panels.

    spread (dim, 64) is a panel of rows from everywhere, inner and outer the squares of all r and 11 r, in descending order.
    """
    panels, order, lower, upper, sizes = blocks
    m = sizes.sum()
    row, out = np.empty(panels.shape[1]), np.empty(LANES)
    near, far = np.empty(sizes.shape[0]), np.empty(sizes.shape[0])
    alive = np.empty(inner.shape[0], np.bool_)
    for place in range(begin, end):
        p, lane = place // LANES, place % LANES
        j = order[p, lane]
        if j < 0:
            continue
        row[:] = panels[p, :, lane]
        last = best[0] + 1 if j < best[1] else best[0]  # radii from here on cannot win any more
        # One row between r and 11 r is enough to refuse a ball: most are met among neighbours or in a sample.
        alive[:] = True
        for panel in (spread, panels[p]):
            tile(panel, row, out)
            left = 0
            for i in range(last):
                alive[i] = alive[i] and not _any_between(out, inner[i], outer[i])
                left += alive[i]
        if left == 0:
            continue
        for q in range(lower.shape[0]):
            box_tile(lower[q], upper[q], row, near[q * LANES : (q + 1) * LANES], far[q * LANES : (q + 1) * LANES])
        for i in range(last):
            if not alive[i]:
                continue
            refused = _boxes_refuse(near, far, sizes, inner[i], outer[i], min_count)
            if refused == 2:
                break
            if refused == 1:
                continue
            inside = _passes(panels, sizes, row, near, far, inner[i], outer[i], out)
            if inside >= min_count and m - inside >= min_count:
                best[0], best[1] = i, j
                break


def first_terrific(
    points: npt.NDArray[Any], radius_max: float, n_radii: int, min_count: int, *, threads: int | None = None
) -> tuple[int, int] | None:
    """First (i, j) such that the ball of radius r = radius_max / 2**i around row j of points (m, dim) passes Q_pub, or None.

    Q_pub: at least min_count rows within r, none between r and 11 r, at least min_count beyond 11 r.
    """
    table = _public(points)
    m, dim = table.shape
    radius_max = positive("radius_max", radius_max)
    n_radii = integer("n_radii", n_radii, minimum=1)
    min_count = integer("min_count", min_count, minimum=1)
    with np.errstate(over="ignore", under="ignore"):
        radii = np.ldexp(radius_max, -np.arange(n_radii))
        inner, outer = radii * radii, (_OUTER * radii) * (_OUTER * radii)
    blocks = make_blocks(table)
    spread = np.ascontiguousarray(table[blocks.order.ravel()[np.arange(LANES) * m // LANES]].T)
    best = np.array([n_radii, -1])
    lock = threading.Lock()
    size = max(1, min(LANES, int(_STEP_WORK / (m * dim * n_radii))))

    def step(number: int) -> None:
        with lock:
            mine = best.copy()
        _terrific(blocks, spread, number * size, min(m, (number + 1) * size), inner, outer, min_count, mine)
        with lock:
            if (mine[0], mine[1]) < (best[0], best[1]):
                best[:] = mine

    run_steps(step, -(-m // size), count_threads(threads, 500.0 * m))
    return (int(best[0]), int(best[1])) if best[0] < n_radii else None


def widest_gap(
    points: npt.NDArray[Any], min_count: int, *, threads: int | None = None
) -> tuple[int, int, float, float] | None:
    """(j, p, inner_sq, outer_sq): the rank p of the sorted distances from row j of points (m, dim) with the widest gap behind.

    Maximises outer_sq / inner_sq over p = min_count .. m - min_count, where row j itself has rank 1; the lowest j, then the
    lowest p on ties. None if there is no such rank, or no gap at all.
    """
    table = _public(points)
    m = table.shape[0]
    min_count = integer("min_count", min_count, minimum=1)
    if 2 * min_count > m:
        return None
    best: list[tuple[float, int, int, float, float]] = []
    rows = max(1, int(_STEP_WORK / (m * (table.shape[1] + 20))))

    def step(number: int) -> None:
        begin, end = number * rows, min(m, (number + 1) * rows)
        out = np.empty((end - begin, m))
        _distances(table, table[begin:end], out)
        out.sort(axis=1)
        with np.errstate(all="ignore"):
            ratio = out[:, min_count : m - min_count + 1] / out[:, min_count - 1 : m - min_count]
        ratio[np.isnan(ratio)] = 0.0
        j, p = divmod(int(ratio.argmax()), ratio.shape[1])
        if ratio[j, p] > 1.0:
            rank = p + min_count
            best.append((float(ratio[j, p]), -(begin + j), -rank, float(out[j, rank - 1]), float(out[j, rank])))

    run_steps(step, -(-m // rows), count_threads(threads, 20.0 * m * m))
    if not best:
        return None
    _, j, p, inner, outer = max(best)
    return -j, -p, inner, outer


def _public(points: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Public points as a contiguous float64 matrix."""
    if points.ndim != 2 or points.shape[0] < 1:
        raise InputError(f"points must be a matrix of at least one row, got shape {points.shape}")
    if not np.isfinite(points).all():
        raise InputError("points must be finite: leave out rows with a NaN or an infinity")
    return np.ascontiguousarray(points, dtype=np.float64)
