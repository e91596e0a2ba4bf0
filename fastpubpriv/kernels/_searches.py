"""The loops of `geometry`, compiled by Numba: import this module only when needed, as Numba alone takes a quarter of a second.

Arrays are C-contiguous and writable, so that each loop is compiled once, in its first call, and cached on disk beside this file or
in the user's cache folder. Scratch is an argument, and operators replace Numba's own functions: both shorten the compilation.
Public rows only: the running time of a search depends on them.
"""

from __future__ import annotations

import math
from typing import Any

import numba

from fastpubpriv._types import FloatArray, IntArray

LANES = 16  # rows of a panel, processed in parallel
_TINY = 1e-280  # squares at or below it may have lost bits to underflow


def compiled(function: Any, fastmath: Any = False, signature: Any = None) -> Any:
    """Compile a function, now if a signature is given, else at its first call; cache it on disk if a folder is writable."""
    options = {
        "signature_or_function": signature,
        "nogil": True,
        "error_model": "numpy",
        "fastmath": fastmath,
    }
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:
        return numba.njit(**options)(function)


def _exact(points: FloatArray, row: int, other: int) -> float:
    """Return the reference value of a squared distance, summed column by column."""
    total = 0.0
    for column in range(points.shape[1]):
        gap = points[row, column] - points[other, column]
        total += gap * gap
    return total


def _quick(points: FloatArray, row: int, other: int) -> float:
    """Return the squared distance, summed in any order: within (dim + 8) 2^-52 of `_exact`, beyond 1e-280."""
    total = 0.0
    for column in range(points.shape[1]):
        gap = points[row, column] - points[other, column]
        total += gap * gap
    return total


def _start(points: FloatArray, leaders: int, near: FloatArray, places: IntArray) -> None:
    """Fill near (m,) and places (3, m) of `_race`: squared distances to two pivots, and rows far from both as its leaders."""
    # The first and the middle row bound the distance of all others to their nearest neighbors. A leader is the farthest of its
    # part of the rows: one of them usually eliminates most of the others.
    m = len(points)
    for row in range(m):
        near[row] = math.inf
        places[0, row] = row
        places[1, row] = -1
        places[2, row] = row
        for pivot in (0, m // 2):
            square = _quick(points, row, pivot)
            if pivot != row and square < near[row]:
                near[row] = square
    for turn in range(leaders):
        farthest = turn
        for at in range(max(turn, turn * m // leaders), (turn + 1) * m // leaders):
            if near[places[0, at]] > near[places[0, farthest]]:
                farthest = at
        row = places[0, turn]
        places[0, turn] = places[0, farthest]
        places[0, farthest] = row


def _race(
    points: FloatArray,
    near: FloatArray,
    places: IntArray,
    begin: int,
    allowed: int,
    best: int,
    farthest: float,
) -> tuple[int, float, int, int]:
    """Return the most isolated row of queue[:end], its squared distance, `end`, and the number of distances; start at `begin`."""
    # A row of points (m, dim) is eliminated once a neighbor is nearer than the largest nearest-neighbor distance so far, or equally
    # near and the row has a higher index. In doubt, `_exact` decides.
    # near (m,): squared distance to some other row. places (3, m): the queue; a neighbor to try first, -1 if unknown; the order of
    # others, in which one that has eliminated a row moves half of the way to the front. Stops after `allowed` distances.
    m, dim = points.shape
    above = 1.0 + (dim + 8) * 2.0**-51
    looks = 0
    for turn in range(begin, m):
        if looks >= allowed:
            return best, farthest, turn, looks
        row = places[0, turn]
        if near[row] > _TINY and near[row] * above < farthest:
            continue
        if places[1, row] >= 0:
            square = _exact(points, row, places[1, row])
            looks += 1
            if square < farthest or (square == farthest and row > best):
                continue
        nearest = math.inf
        out = False
        # Most rows are eliminated in the first round; the second computes the distances of the others.
        for reach in (farthest * above, math.inf):
            close = reach if reach > _TINY else _TINY
            for at in range(m):
                other = places[2, at]
                square = _quick(points, row, other)
                if square <= close and other != row:
                    out = square > _TINY and square * above < farthest
                    if not out:
                        square = _exact(points, row, other)
                        out = square < farthest or (square == farthest and row > best)
                        if square < nearest:
                            nearest = square
                            close = square * above if square > _TINY else _TINY
                    if out:
                        places[2, at] = places[2, at // 2]
                        places[2, at // 2] = other
                        break
            looks += at + 1
            if nearest < math.inf or out:
                break
        if not out:
            best = row
            farthest = nearest
    return best, farthest, m, looks


def _shells(points: FloatArray, row: int, step: float, counts: IntArray) -> None:
    """counts[s] += the rows that s steps from a row reach and s - 1 do not; all that are farther count in the last one."""
    # A distance within rounding of a whole number of steps is computed again by `_exact`.
    m, dim = points.shape
    last = counts.size - 1
    doubt = (dim + 8) * 2.0**-50
    for other in range(m):
        square = _quick(points, row, other)
        ratio = math.sqrt(square) / step
        steps = last
        if ratio * (1.0 - doubt) < last:
            steps = math.ceil(ratio * (1.0 - doubt))
            if square <= _TINY or math.ceil(ratio * (1.0 + doubt)) != steps:
                away = math.sqrt(_exact(points, row, other))
                steps = steps if square > _TINY else 0
                while steps < last and steps * step < away:
                    steps += 1
        counts[steps] += 1


def _balls(
    rows: Any, radii_sq: FloatArray, numbers: Any, squares: FloatArray, counts: IntArray
) -> tuple[int, int]:
    """Return the first radius that passes around one of rows begin ... end, and the lowest such row; -1 if there is none.

    rows: points (m, dim); panels (p, dim, LANES) of them, sorted along `axis`, NaN in unused lanes; edges (p, 2), least and
    greatest coordinate along it; places (2, m), the rank of a row among the sorted ones, and the radius from which on no ball
    around it has enough rows. radii_sq (2, radii): of balls and of shells, descending. squares (LANES,), counts (radii,): scratch.
    Panels are visited outwards from the row's own, until the gap along the axis exceeds all shells; a row in a shell excludes it.
    """
    points, panels, edges, places = rows
    axis, least, begin, end, first, best = numbers
    m, dim = points.shape
    winner = -1
    for row in range(begin, end):
        some = places[1, row] if places[1, row] < best else best
        alive = first  # radii before it are excluded; a later one that is has a negative count
        for i in range(first, some):
            counts[i] = 0
        below = places[0, row] // LANES
        above = below + 1
        while alive < some and (below >= 0 or above < panels.shape[0]):
            low = points[row, axis] - edges[below, 1] if below >= 0 else math.inf
            high = edges[above, 0] - points[row, axis] if above < panels.shape[0] else math.inf
            if above == panels.shape[0] or (below >= 0 and low <= high):
                number = below
                gap = low
                below = below - 1
            else:
                number = above
                gap = high
                above = above + 1
            if gap > 0.0 and gap * gap > radii_sq[1, alive]:
                break
            for lane in range(LANES):
                squares[lane] = 0.0
            for column in range(dim):
                value = points[row, column]
                for lane in range(LANES):
                    apart = panels[number, column, lane] - value
                    squares[lane] += apart * apart
            for lane in range(LANES):
                i = alive
                while i < some and squares[lane] <= radii_sq[1, i]:
                    counts[i] = counts[i] + 1 if squares[lane] <= radii_sq[0, i] else -m
                    i += 1
            while alive < some and counts[alive] < 0:
                alive += 1
        for i in range(alive, some):
            if counts[i] >= least and m - counts[i] >= least:
                best = i
                winner = row
                break
    return best, winner


_REORDERED = {"reassoc", "contract", "nsz"}
_exact = compiled(_exact)
_quick = compiled(_quick, fastmath=_REORDERED)
start = compiled(_start, fastmath=_REORDERED)
race = compiled(_race, fastmath=_REORDERED)
shells = compiled(_shells, fastmath=_REORDERED)
balls = compiled(_balls)
