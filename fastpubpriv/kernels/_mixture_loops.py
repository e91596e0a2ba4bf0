"""The loops of `mixture_rows`, compiled by Numba when this module is imported, and cached on disk as those of `_searches` are.

They perform the operations of the NumPy code there, in the same order and without fused multiply-adds, so that both give the same
bits. Rows are processed in LANES lanes: a row has the same bits whatever the other rows are. The number of lanes is read from an
array, because LLVM unrolls short loops of a known length instead of vectorizing them.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.kernels._mixture_numbers import (
    FAR,
    LEAST_EXPONENT,
    LOG2_E,
    LOG_2_HIGH,
    LOG_2_LOW,
    POWERS,
    TERMS,
    UNSEEN,
)
from fastpubpriv.kernels._searches import compiled

LANES = 128
_A, _B, _C, _D, _E, _F, _G, _H, _I, _J, _K, _L, _M = TERMS


def _decays(values: FloatArray) -> None:
    """Replace values (lanes,) <= 0 by their exponentials; see `mixture_rows.decay`."""
    for lane in range(values.shape[0]):
        value = max(values[lane], LEAST_EXPONENT)
        whole = math.floor(value * LOG2_E + 0.5)
        rest = (value - whole * LOG_2_HIGH) - whole * LOG_2_LOW
        # Written out, because a loop over the terms inside the loop over the lanes would not be vectorized.
        power = ((((_A * rest + _B) * rest + _C) * rest + _D) * rest + _E) * rest + _F
        power = (((power * rest + _G) * rest + _H) * rest + _I) * rest + _J
        power = ((power * rest + _K) * rest + _L) * rest + _M
        values[lane] = power * POWERS[int(-whole)] if value > LEAST_EXPONENT else 0.0


def _whiten(
    mean: FloatArray, inverse: FloatArray, rows: FloatArray, white: FloatArray, squares: FloatArray
) -> None:
    """Fill white (2 dim, lanes): whitened deviations from a mean (dim,) by the packed lower triangle `inverse`, then raw ones."""
    dim, lanes = rows.shape
    for lane in range(lanes):
        squares[lane] = 0.0
    for i in range(dim):
        row = rows[i]
        gap = white[dim + i]
        for lane in range(lanes):
            gap[lane] = row[lane] - mean[i]
    at = 0
    for i in range(dim):
        out = white[i]
        for lane in range(lanes):
            out[lane] = 0.0
        whole = i + 1 - (i + 1) % 4
        for j in range(0, whole, 4):  # a quarter of the passes over `out`
            a = inverse[at + j]
            b = inverse[at + j + 1]
            c = inverse[at + j + 2]
            d = inverse[at + j + 3]
            first = white[dim + j]
            second = white[dim + j + 1]
            third = white[dim + j + 2]
            fourth = white[dim + j + 3]
            for lane in range(lanes):
                value = (out[lane] + a * first[lane]) + b * second[lane]
                out[lane] = (value + c * third[lane]) + d * fourth[lane]
        for j in range(whole, i + 1):
            entry = inverse[at + j]
            gap = white[dim + j]
            for lane in range(lanes):
                out[lane] += entry * gap[lane]
        at += i + 1
        for lane in range(lanes):
            squares[lane] += out[lane] * out[lane]


def _tile(
    x: FloatArray,
    begin: int,
    means: FloatArray,
    inverses: FloatArray,
    constants: FloatArray,
    room: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
) -> None:
    """Fill `room` with whitened rows (k, 2 dim, LANES), squares and shares (k, LANES), padded by copies of the last row."""
    rows, white, squares, share = room
    k, dim = means.shape
    lanes = rows.shape[1]
    last = x.shape[0] - 1
    for lane in range(lanes):
        row = min(begin + lane, last)
        for j in range(dim):
            rows[j, lane] = x[row, j]
    for c in range(k):
        whiten(means[c], inverses[c], rows[:dim], white[c], squares[c])
        mine = share[c]
        square = squares[c]
        for lane in range(lanes):
            mine[lane] = constants[c] - 0.5 * (square[lane] if square[lane] < FAR else FAR)
    top = rows[0]
    total = rows[1]
    for lane in range(lanes):
        top[lane] = share[0, lane]
        total[lane] = 0.0
    for c in range(1, k):
        mine = share[c]
        for lane in range(lanes):
            top[lane] = max(top[lane], mine[lane])
    for c in range(k):
        mine = share[c]
        for lane in range(lanes):
            mine[lane] -= top[lane]
        decays(mine)
        for lane in range(lanes):
            total[lane] += mine[lane]
    for c in range(k):
        mine = share[c]
        for lane in range(lanes):
            mine[lane] /= total[lane]


def _room(k: int, dim: int) -> Any:
    """Return the scratch arrays of `_tile`."""
    return (
        np.empty((max(dim, 2), LANES)),
        np.empty((k, 2 * dim, LANES)),
        np.empty((k, LANES)),
        np.empty((k, LANES)),
    )


def _soft_parts(
    x: FloatArray,
    labels: Any,
    means: FloatArray,
    inverses: FloatArray,
    constants: FloatArray,
    scale: FloatArray,
    out: FloatArray,
    places: IntArray,
) -> None:
    """See `mixture_rows.soft_parts`: fill vectors out (k, n, dim + 1) and their rows places (k, n + 1), with counts at the end."""
    # `labels` (n,) or (0,); `scale` has inner, lift and 1 / step.
    k, dim = means.shape
    inner = scale[0]
    lift = scale[1]
    inv_step = scale[2]
    unseen = UNSEEN / (inv_step * max(math.sqrt(inner), lift))
    room = scratch(k, dim)
    white = room[1]
    squares = room[2]
    share = room[3]
    for begin in range(0, x.shape[0], LANES):
        tile(x, begin, means, inverses, constants, room)
        lanes = min(LANES, x.shape[0] - begin)
        for c in range(k):
            mine = share[c]
            at = places[c, -1]
            for lane in range(mine.shape[0]):
                mine[lane] = math.sqrt(mine[lane])
            if labels.shape[0]:
                for lane in range(lanes):
                    mine[lane] = 1.0 if labels[begin + lane] == c else 0.0
            for lane in range(lanes):
                root = mine[lane]
                if root < unseen:
                    continue
                square = squares[c, lane]
                factor = root * math.sqrt(inner / square if square > inner else 1.0) * inv_step
                for i in range(dim):
                    out[c, at, i] = white[c, i, lane] * factor
                out[c, at, dim] = lift * root * inv_step
                places[c, at] = begin + lane
                at += 1
            places[c, -1] = at


def _likeliest(
    x: FloatArray,
    means: FloatArray,
    inverses: FloatArray,
    constants: FloatArray,
    axes: FloatArray,
    top: IntArray,
    out: FloatArray,
) -> None:
    """See `mixture_rows.likeliest`: fill top (n,), and out (3, n) with squares, shares and coordinates along the axes."""
    k, dim = means.shape
    room = scratch(k, dim)
    white = room[1]
    squares = room[2]
    share = room[3]
    for begin in range(0, x.shape[0], LANES):
        tile(x, begin, means, inverses, constants, room)
        for lane in range(min(LANES, x.shape[0] - begin)):
            best = 0
            for c in range(1, k):
                if share[c, lane] > share[best, lane]:
                    best = c
            along = 0.0
            for i in range(dim):
                along += axes[best, i] * white[best, i, lane]
            top[begin + lane] = best
            out[0, begin + lane] = squares[best, lane]
            out[1, begin + lane] = share[best, lane]
            out[2, begin + lane] = along


# Read-only arrays have a separate type in Numba: with explicit signatures each loop is compiled once.
_ROWS, _LIST = (numba.types.Array(numba.float64, rank, "C", readonly=True) for rank in (2, 1))
_LABELS = numba.types.Array(numba.int32, 1, "C", readonly=True)
_CUBE, _TABLE = (numba.types.Array(numba.float64, rank, "C") for rank in (3, 2))
_PLACES, _WHOLE = (numba.types.Array(numba.int64, rank, "C") for rank in (2, 1))
_AT = (_ROWS, _ROWS, _LIST)

decays = compiled(_decays)
whiten = compiled(_whiten)
scratch = compiled(_room)
tile = compiled(_tile)
soft_parts = compiled(
    _soft_parts, signature=numba.void(_ROWS, _LABELS, *_AT, _LIST, _CUBE, _PLACES)
)
likeliest = compiled(_likeliest, signature=numba.void(_ROWS, *_AT, _ROWS, _WHOLE, _TABLE))
