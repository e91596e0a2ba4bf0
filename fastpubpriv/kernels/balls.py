"""Counts of rows in balls, and the public searches for a ball and for a gap, exact: ties are inside."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels import _cbuf
from fastpubpriv.kernels._blocks import LANES, Sorter, make_blocks, workspace
from fastpubpriv.kernels._cbuf import read_only
from fastpubpriv.kernels._cext import ffi, lib
from fastpubpriv.kernels._parallel import count_threads
from fastpubpriv.threads.steps import run_steps
from fastpubpriv.validation import integer, positive

_OUTER = 11.0
_STEP_WORK = 1 << 27  # numbers in a step; 5e9 or more of them are processed in a second
_SORTED_COST = 400  # from this product of centres, columns and radii on, sorting the rows saves time
_SORTED_NUMBERS = 1 << 19  # of rows that are sorted at a time


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

    def add(counter: Callable[..., int], *source: Any) -> None:
        part = np.zeros_like(counts)
        balls = _cbuf.inp(middles.reshape(-1)), len(middles), _cbuf.inp(ascending), ascending.size
        _cbuf.check(counter(*source, *balls, workspace(dim, ascending.size), _cbuf.out(part.reshape(-1))))
        with lock:
            np.add(counts, part, out=counts)

    if cost < _SORTED_COST or n < 64 * LANES:
        run(lambda a, b: add(lib.fpp_ball_counts, *_cbuf.plain_rows(rows[a:b])), n, cost)
    else:
        most = min(n, _SORTED_NUMBERS // dim)
        sorter = Sorter(rows, most, run)
        for begin in range(0, n, most):
            tiles = sorter.tiles(begin, min(n, begin + most))
            source = (*_cbuf.plain_rows(rows[begin : begin + most]), tiles.table())
            run(functools.partial(add, lib.fpp_tiles_count, *source), tiles.lower.shape[0], LANES * LANES * cost)
    return counts[:, place.reshape(-1)]


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
    cblocks, sample = blocks.table(), _cbuf.inp(spread.reshape(-1))
    radii_table = _cbuf.new("fpp_radii *", (_cbuf.inp(inner), _cbuf.inp(outer), n_radii, min_count))
    bytes_needed = lib.fpp_blocks_workspace_size(cblocks, n_radii)
    size = max(1, min(LANES, int(_STEP_WORK / (m * dim * n_radii))))

    def step(number: int) -> None:
        with lock:
            mine = best.copy()
        places = number * size, min(m, (number + 1) * size)
        work = ffi.from_buffer(_cbuf.scratch(bytes_needed, "blocks"))
        _cbuf.check(lib.fpp_blocks_terrific(cblocks, sample, *places, radii_table, work, _cbuf.out(mine)))
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
        work = workspace(table.shape[1], 0)
        x, _, *shape = _cbuf.plain_rows(table)
        _cbuf.check(lib.fpp_distances_f64(x, *shape, begin, end, work, _cbuf.out(out.reshape(-1))))
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
