"""Sides of columns as masses of cells, counted and guessed, and what is beyond a clip (C, one thread, no GIL)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import KernelError
from fastpubpriv.kernels import _cbuf
from fastpubpriv.kernels._cext import lib

INNER, OUTER = 64, 5  # octaves that are looked at below and beyond the last cell


def masses_of_sides(
    counts: Sequence[FloatArray],
    variances: Sequence[FloatArray],
    edges: FloatArray,
    lasts: Sequence[int],
    parts: int,
    exponents: IntArray,
) -> tuple[FloatArray, list[bool], list[bool]]:
    """Edges, rows, and what is not known of them, of the cells of each side, (6, sides, 69 parts); then which are heavy or faint.

    The six: lower and upper edges in units of 2^exponent, ascending; rows of a cell, counted up to the cell `last` and guessed
    beyond it; the variance of a counted number; the deviation of a guessed one; the most that it is believed to be. Octaves of a
    heavy side fall off slowly, a faint one has few rows far away from all others. `counts` and `variances` (cells,) for each side,
    `edges` (cells + 1,); an octave has `parts` cells. A side without a last cell has -1 - 5 parts.
    """
    cells, count = len(edges) - 1, len(counts)
    block = np.empty((6, count, (INNER + OUTER) * parts))
    _cbuf.expect("edges", edges, np.float64, (cells + 1,))
    for each in (*counts, *variances):
        _cbuf.expect("counts", each, np.float64, (cells,))
    if not len(variances) == len(lasts) == len(exponents) == count:
        raise KernelError("sides need counts, variances, a last cell and an exponent each")
    kinds, known, size = np.zeros(2 * count, dtype=np.int32), _cbuf.inp(edges), block.shape[2]
    flat = block.reshape(-1)
    sides = zip(counts, variances, lasts, exponents.tolist(), strict=True)
    for place, (numbers, noise, last, exponent) in enumerate(sides):
        given = _cbuf.inp(numbers), _cbuf.inp(noise), known, cells, last, parts, exponent
        into = _cbuf.out(flat[place * size :]), _cbuf.out(kinds[2 * place :])
        _cbuf.check(lib.fpp_side_make(*given, count * size, *into))
    found: list[bool] = (kinds != 0).tolist()
    return block, found[::2], found[1::2]


def sums_beyond(block: FloatArray, parts: int, clips: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """For clips (sides, k): rows times what they exceed one by, the variance of that, and what more may be hidden: (sides, k) each.

    `block` is that of `masses_of_sides`.
    """
    given = _checked(block, parts, clips)
    found = np.empty((3, *clips.shape))
    _cbuf.check(lib.fpp_sides_exceed(*given, *(_cbuf.out(each.reshape(-1)) for each in found)))
    return found[0], found[1], found[2]


def clipped_sums(block: FloatArray, parts: int, clips: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sums of the numbers clipped to each of clips (sides, k), and of their squares: (sides, k) both."""
    given = _checked(block, parts, clips)
    found = np.empty((2, *clips.shape))
    _cbuf.check(lib.fpp_sides_clip(*given, *(_cbuf.out(each.reshape(-1)) for each in found)))
    return found[0], found[1]


def _checked(block: FloatArray, parts: int, clips: FloatArray) -> tuple[object, int, int, object, int]:
    """The arguments of C."""
    sides = block.shape[1]
    _cbuf.expect("block", block, np.float64, (6, sides, (INNER + OUTER) * parts))
    _cbuf.expect("clips", clips, np.float64, (sides, clips.shape[-1]))
    return _cbuf.inp(block.reshape(-1)), sides, parts, _cbuf.inp(clips.reshape(-1)), clips.shape[1]
