"""The loops of `geometry`, compiled by Numba: import this module when they are needed, as Numba alone takes a quarter of a second.

Arrays are C-contiguous and writable, so that each loop is compiled once, in its first call, and kept on disk beside this file or in
the user's own cache folder. Scratch comes with a call, and operators stand in place of Numba's own functions: less is compiled so.
Public rows only: how long a search takes depends on them.
"""

from __future__ import annotations

import math
from typing import Any

import numba

from fastpubpriv._types import FloatArray, IntArray

LANES = 16  # rows of a panel, added up side by side
_TINY = 1e-280  # squares at or below it may have lost bits


def compiled(function: Any, fastmath: Any = False, signature: Any = None) -> Any:
    """The function compiled, now if its types are given, else at its first call, and kept on disk if a folder can be written to."""
    options = {"signature_or_function": signature, "nogil": True, "error_model": "numpy", "fastmath": fastmath}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:
        return numba.njit(**options)(function)


def _exact(points: FloatArray, row: int, other: int) -> float:
    """The squared distance that decides: added up column by column."""
    total = 0.0
    for column in range(points.shape[1]):
        gap = points[row, column] - points[other, column]
        total += gap * gap
    return total


def _race(
    points: FloatArray, queue: IntArray, order: IntArray, begin: int, end: int, best: int, farthest: float
) -> tuple[int, float]:
    """The most isolated row so far and its squared distance, after rows queue[begin:end] of points (m, dim) as well."""
    # A row goes home once a neighbor is nearer than the largest distance to a nearest neighbor so far, or as near and the row comes
    # later. Sums in any order are within (dim + 8) 2^-52 of `_exact`, which decides in doubt. In `order` (m,), a neighbor that has
    # sent a row home moves half of the way to the front.
    m, dim = points.shape
    above = 1.0 + (dim + 8) * 2.0**-51
    for turn in range(begin, end):
        row = queue[turn]
        nearest, out = math.inf, False
        # Most rows go home in the first round; the second measures the others.
        for reach in (farthest * above, math.inf):
            close = reach if reach > _TINY else _TINY
            for at in range(m):
                other = order[at]
                square = 0.0
                for column in range(dim):
                    gap = points[row, column] - points[other, column]
                    square += gap * gap
                if square <= close and other != row:
                    out = square > _TINY and square * above < farthest
                    if not out:
                        square = _exact(points, row, other)
                        out = square < farthest or (square == farthest and row > best)
                        if square < nearest:
                            nearest = square
                            close = square * above if square > _TINY else _TINY
                    if out:
                        order[at] = order[at // 2]
                        order[at // 2] = other
                        break
            if nearest < math.inf or out:
                break
        if not out:
            best, farthest = row, nearest
    return best, farthest


def _balls(rows: Any, radii_sq: FloatArray, numbers: Any, squares: FloatArray, counts: IntArray) -> tuple[int, int]:
    """The first radius that passes around one of rows begin ... end, and the lowest such row; -1 if there is none.

    rows: points (m, dim); panels (p, dim, LANES) of them, sorted along `axis`, NaN in lanes that are left; edges (p, 2), least and
    greatest number there; places (2, m), where a row is among the sorted ones, and from which radius on no ball around it holds
    enough rows. radii_sq (2, radii): of balls and of shells, falling. squares (LANES,), counts (radii,): scratch. Panels are
    visited outwards from the row's own, until the gap along the axis passes all shells; a radius whose shell holds a row is out.
    """
    points, panels, edges, places = rows
    axis, least, begin, end, first, best = numbers
    m, dim = points.shape
    winner = -1
    for row in range(begin, end):
        some = places[1, row] if places[1, row] < best else best
        alive = first  # radii before it are out; one that is out in between has a negative count
        for i in range(first, some):
            counts[i] = 0
        below = places[0, row] // LANES
        above = below + 1
        while alive < some and (below >= 0 or above < panels.shape[0]):
            low = points[row, axis] - edges[below, 1] if below >= 0 else math.inf
            high = edges[above, 0] - points[row, axis] if above < panels.shape[0] else math.inf
            if above == panels.shape[0] or (below >= 0 and low <= high):
                number, gap, below = below, low, below - 1
            else:
                number, gap, above = above, high, above + 1
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
                best, winner = i, row
                break
    return best, winner


_exact = compiled(_exact)
race = compiled(_race, fastmath={"reassoc", "contract", "nsz"})
balls = compiled(_balls)
