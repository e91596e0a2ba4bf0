"""Counts of rows in balls, and the public searches for a ball and for a gap, exact: ties are inside."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels._blocks import AHEAD, Sorter, box_tile, load_panel, make_blocks
from fastpubpriv.kernels._jit import kernel, read_only
from fastpubpriv.kernels._lanes import LANES, TURNED, add_columns, count, fetch, lowest, within
from fastpubpriv.kernels._parallel import count_threads
from fastpubpriv.kernels._reach import count_lanes, measure, reach
from fastpubpriv.threads.steps import run_steps
from fastpubpriv.validation import integer, positive

_OUTER = 11.0
_STEP_WORK = 1 << 27  # numbers, of which 5e9 or more are dealt with in a second
_SORTED_COST = 400  # centres times columns and radii from which sorting the rows pays
_FEW = 2  # centres for which a panel costs more than it saves
_TOGETHER = 64  # centres that meet a tile together
_NEAR_NUMBERS = 1 << 13  # of panels, in single precision, that stay in the nearest cache
_SORTED_NUMBERS = 1 << 19  # of rows that are sorted at a time


@kernel(fastmath=False)
def _distances(points, begin, end, out):  # type: ignore[no-untyped-def]
    """out (end - begin, 64 p) = squared distances of all points (m, dim) from those from begin to end, and NaN behind them."""
    m, dim = points.shape
    panel, index = np.empty((max(dim, TURNED), LANES)), np.empty(LANES, np.int64)
    for first in range(0, m, LANES):
        for v in range(LANES):
            index[v] = first + v if first + v < m else -1
        load_panel(points, index, panel)
        for c in range(begin, end):
            add_columns(panel, points[c], 0, dim, out[c - begin, first : first + LANES])


@kernel(fastmath=False)
def _count_rows(rows, centers, radii_sq, begin, end, counts):  # type: ignore[no-untyped-def]
    """counts (k, radii) += rows (n, dim) from begin to end within each squared radius of each of centers (k, dim)."""
    dim = rows.shape[1]
    panel, out = np.empty((max(dim, TURNED), LANES)), np.empty(LANES)
    index = np.empty(LANES, np.int64)
    if centers.shape[0] <= _FEW and (dim == 1 or dim == 2 or dim == 4 or dim % TURNED == 0):
        while begin + LANES <= end:
            for c in range(centers.shape[0]):
                measure(rows, begin, centers, c, out)
                for r in range(radii_sq.shape[0]):
                    counts[c, r] += count(within(out, radii_sq[r]))
            begin += LANES
    for first in range(begin, end, LANES):
        for v in range(LANES):
            if dim >= TURNED:  # shorter rows share lines, and come by themselves
                fetch(rows, first + AHEAD + v)
            index[v] = first + v if first + v < end else -1
        load_panel(rows, index, panel)
        for c in range(centers.shape[0]):
            add_columns(panel, centers[c], 0, dim, out)
            for r in range(radii_sq.shape[0]):
                counts[c, r] += count(within(out, radii_sq[r]))


@kernel(fastmath=False)
def _correct(rows, order, center, radii_sq, bounds, begin, end, single, scratch, counts):  # type: ignore[no-untyped-def]
    """counts (radii,) of rows of order (64,) within squared radii begin..end of center (dim,), for those that `single` counted.

    single (64,) are the squared distances that were compared with bounds (radii,), or NaN; scratch is a panel and distances.
    """
    panel, distances = scratch
    load_panel(rows, order, panel)
    add_columns(panel, center, 0, center.shape[0], distances)
    for r in range(begin, end):
        counts[r] += count(within(distances, radii_sq[r])) - count(within(single, bounds[r]))


@kernel(fastmath=False)
def _slack(box, middle, center, moved):  # type: ignore[no-untyped-def]
    """The least and largest squared distance of center (dim,) from box (dim, 2), and what single precision may be wrong by.

    That is in squared distances from moved (dim,) = center - middle to rows, and to boxes of rows, within `box` less middle.
    """
    near, far = 0.0, 0.0
    for k in range(center.shape[0]):
        below, above = box[k, 0] - center[k], center[k] - box[k, 1]
        gap = max(below, above, 0.0)
        across = min(below, above)
        near += gap * gap
        far += across * across
        moved[k] = center[k] - middle[k]
    # With f the largest distance in a column, row and centre lie within 3 f of the middle together, which is among the rows.
    # Their rounding and that of the difference move it by 4 parts in 2**24 of f, its square by 9, and their sum by dim more.
    return near, far, (center.shape[0] + 16) * 2.0**-24 * far


@kernel(fastmath=False)
def _count_tiles(rows, tiles, centers, radii_sq, begin, end, counts):  # type: ignore[no-untyped-def]
    """counts (k, radii) += rows in tiles begin..end within each of radii_sq, ascending, of each of centers (k, dim).

    A panel whose box has no radius between its nearest and its farthest corner counts whole. In the others single precision
    decides, and the rows (n, dim) themselves decide for lanes that are too close to a radius.
    """
    panels, middles, order, boxes, lower, upper, sizes = tiles
    k, dim = centers.shape
    radii = radii_sq.shape[0]
    scratch = np.empty((max(dim, TURNED), LANES)), np.empty(LANES)
    single, box = np.empty(LANES, np.float32), np.empty((dim, 2))
    # What is known of a group of centres, so that a few panels at a time meet all of them while they are in the nearest cache.
    moved = np.empty((_TOGETHER, dim), np.float32)
    slack, bounds = np.empty(_TOGETHER, np.float32), np.empty(radii, np.float32)
    none, full = np.empty((_TOGETHER, LANES), np.int32), np.empty((_TOGETHER, LANES), np.int32)
    open_panels = np.empty(_TOGETHER, np.uint64)
    for r in range(radii):
        bounds[r] = radii_sq[r]
    near_by = max(1, min(LANES, _NEAR_NUMBERS // (dim * LANES)))
    for q in range(begin, end):
        total, panels_used = 0, 0
        for p in range(q * LANES, (q + 1) * LANES):
            total += sizes[p]
            panels_used += sizes[p] > 0
        if panels_used == 0:
            continue
        used = ~np.uint64(0) >> np.uint64(LANES - panels_used)
        missing = panels_used * LANES - total  # in the last panel in use
        for i in range(dim):
            box[i, 0], box[i, 1] = np.inf, -np.inf
            for v in range(panels_used):
                box[i, 0] = min(box[i, 0], boxes[q, 0, i, v])
                box[i, 1] = max(box[i, 1], boxes[q, 1, i, v])
        for start in range(0, k, _TOGETHER):
            group = min(_TOGETHER, k - start)
            for g in range(group):
                c = start + g
                open_panels[g] = 0
                near, far, slack[g] = _slack(box, middles[q], centers[c], moved[g])
                first = 0
                while first < radii and radii_sq[first] < near:
                    first += 1
                last = first
                while last < radii and radii_sq[last] < far:
                    last += 1
                for r in range(last, radii):
                    counts[c, r] += total
                if first == last:
                    continue
                if 1e-30 < far < 1e37:
                    open_panels[g] = used & reach(
                        lower, upper, q, moved, slack, bounds, g, first, last, none, full, counts, c
                    )
                    if missing > 0:
                        for r in range(full[g, panels_used - 1], last):
                            counts[c, r] -= missing
                else:  # squares leave the range of single precision
                    single[:] = np.nan
                    for p in range(q * LANES, q * LANES + panels_used):
                        _correct(rows, order[p], centers[c], radii_sq, bounds, first, last, single, scratch, counts[c])
            for some in range(0, panels_used, near_by):
                these = ~np.uint64(0) >> np.uint64(LANES - near_by) << np.uint64(some)
                for g in range(group):
                    lanes = open_panels[g] & these
                    while lanes != 0:
                        v = lowest(lanes)
                        lanes &= lanes - np.uint64(1)
                        p, c, low, high = q * LANES + v, start + g, np.int64(none[g, v]), np.int64(full[g, v])
                        if count_lanes(panels, p, moved, slack, bounds, g, low, high, single, counts, c) != 0:
                            _correct(
                                rows, order[p], centers[c], radii_sq, bounds, low, high, single, scratch, counts[c]
                            )


def ball_counts(
    points: npt.NDArray[Any],
    centers: npt.NDArray[Any],
    radii_sq: FloatArray,
    *,
    threads: int | None = None,
) -> IntArray:
    """(k, radii) int64: rows of points (n, dim) within each squared radius of each of centers (k, dim), ties inside.

    A row with a NaN or an infinity is in no ball. The counts of private rows are private.
    """
    if points.ndim != 2 or points.dtype not in (np.float32, np.float64):
        raise InputError(f"points must be a float32 or float64 matrix, got {points.dtype} of shape {points.shape}")
    middles = read_only(np.asarray(centers, dtype=np.float64))
    ascending, place = np.unique(np.asarray(radii_sq, dtype=np.float64), return_inverse=True)
    if middles.ndim != 2 or middles.shape[1] != points.shape[1] or not np.isfinite(middles).all():
        raise InputError(f"centers must be finite and of shape (k, {points.shape[1]}), got shape {middles.shape}")
    if not (ascending.size and ascending[0] >= 0.0 and ascending[-1] < np.inf):
        raise InputError("radii_sq must be at least one finite number of 0 or more: squares of radii")
    rows = read_only(points)
    n, dim = rows.shape
    counts = np.zeros((middles.shape[0], ascending.size), dtype=np.int64)
    cost = middles.shape[0] * (dim + ascending.size)
    workers = count_threads(threads, 0.2 * n * cost)
    lock = threading.Lock()

    def run(work: Callable[[int, int], object], count: int, unit: int) -> None:
        size = max(1, min(int(_STEP_WORK / unit), -(-count // (4 * workers)) if workers > 1 else count))
        size = -(-size // LANES) * LANES if size > LANES else size
        run_steps(lambda i: work(i * size, min(count, (i + 1) * size)), -(-count // size), workers)

    def add(counter: Callable[..., object], *source: object) -> Callable[[int, int], None]:
        def work(begin: int, end: int) -> None:
            part = np.zeros_like(counts)
            counter(*source, middles, ascending, begin, end, part)
            with lock:
                np.add(counts, part, out=counts)

        return work

    if cost < _SORTED_COST or n < 64 * LANES:
        run(add(_count_rows, rows), n, cost)
    else:
        most = min(n, _SORTED_NUMBERS // dim)
        sorter = Sorter(rows, most, run)
        for begin in range(0, n, most):
            tiles = sorter.tiles(begin, min(n, begin + most))
            run(add(_count_tiles, rows[begin:], tiles), tiles.lower.shape[0], LANES * LANES * cost)
    return counts[:, place.reshape(-1)]


@kernel(fastmath=False)
def _any_between(out, inner, outer):  # type: ignore[no-untyped-def]
    """True if one of out (64,) is above inner and not above outer."""
    return within(out, inner) != within(out, outer)


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
            add_columns(panels[p], row, 0, row.shape[0], out)
            if _any_between(out, inner, outer):
                return -1
            inside += count(within(out, inner))
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
            add_columns(panel, row, 0, row.shape[0], out)
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
        out = np.empty((end - begin, -(-m // LANES) * LANES))
        _distances(table, begin, end, out)
        out.sort(axis=1)  # NaN comes last
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


def _public(points: npt.NDArray[Any]) -> FloatArray:
    """Public points as a contiguous float64 matrix."""
    if points.ndim != 2 or points.shape[0] < 1:
        raise InputError(f"points must be a matrix of at least one row, got shape {points.shape}")
    if not np.isfinite(points).all():
        raise InputError("points must be finite: leave out rows with a NaN or an infinity")
    return np.ascontiguousarray(points, dtype=np.float64)
