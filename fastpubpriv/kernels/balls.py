"""Counts of rows in balls, and the public searches for a ball and for a gap, exact: ties are inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv.errors import InputError
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


def first_terrific(
    points: npt.NDArray[Any], radius_max: float, n_radii: int, min_count: int, *, threads: int | None = None
) -> tuple[int, int] | None:
    """First (i, j) such that the ball of radius r = radius_max / 2**i around row j of points (m, dim) passes Q_pub, or None.

    Q_pub: at least min_count rows within r, none between r and 11 r, at least min_count beyond 11 r.
    """
    table = _public(points)
    m = table.shape[0]
    radius_max = positive("radius_max", radius_max)
    n_radii = integer("n_radii", n_radii, minimum=1)
    min_count = integer("min_count", min_count, minimum=1)
    radii = np.ldexp(radius_max, -np.arange(n_radii))
    inner = ball_counts(table, table, radii * radii, threads=threads)
    outer = ball_counts(table, table, (_OUTER * radii) * (_OUTER * radii), threads=threads)
    passed = (inner >= min_count) & (outer == inner) & (m - outer >= min_count)
    hits = np.argwhere(passed.T)
    return (int(hits[0, 0]), int(hits[0, 1])) if hits.size else None


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
