"""Rows under a mixture of normals: rows whitened for each component, responsibilities, and clipped vectors of both.

The NumPy loops perform the same operations in the same order as the compiled ones (`_mixture_loops`): both give the same bits on
every machine, whatever the other rows of a chunk are. `prepare` imports the compiled loops, which pays off for many rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.kernels._mixture_numbers import (
    COSINE,
    FAR,
    FARTHEST_PHASE,
    HALF_PI,
    LEAST_EXPONENT,
    LOG2_E,
    LOG_2_HIGH,
    LOG_2_LOW,
    POWERS,
    SINE,
    TERMS,
    UNSEEN,
)

_WORTH = 1 << 29  # products from which on importing Numba pays off, half a second of NumPy
_NUMBERS = 1 << 17  # entries of whitened rows in memory at once
_loops: Any = None


@dataclass(frozen=True, slots=True, eq=False)
class NormalTable:
    """Means (k, dim), inverse lower roots of covariances (k, dim, dim), and log(weight / determinant of the root) (k,)."""

    means: FloatArray
    inverses: FloatArray
    constants: FloatArray

    @property
    def flat(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The arrays in the layout of the compiled loops: triangles row by row."""
        rows, columns = np.tril_indices(self.means.shape[1])
        packed = np.ascontiguousarray(self.inverses[:, rows, columns])
        return np.ascontiguousarray(self.means), packed, np.ascontiguousarray(self.constants)


def prepare(rows: int, table_size: int) -> None:
    """Import the compiled loops if they pay off for `rows` rows and `table_size`, the size of `inverses`."""
    global _loops
    if _loops is None and rows * table_size > _WORTH:
        _loops = import_module("fastpubpriv.kernels._mixture_loops")


def decay(values: FloatArray) -> FloatArray:
    """Return the exponentials of numbers <= 0, zero from LEAST_EXPONENT down; within two units of the last place."""
    values = np.maximum(values, LEAST_EXPONENT)
    whole = np.floor(values * LOG2_E + 0.5)
    rest = (values - whole * LOG_2_HIGH) - whole * LOG_2_LOW
    power = _polynomial(TERMS, rest)
    power *= POWERS[(-whole).astype(np.int64)]
    power[values <= LEAST_EXPONENT] = 0.0
    return power


def _polynomial(terms: tuple[float, ...], values: FloatArray) -> FloatArray:
    """Return a polynomial by Horner's rule, each product rounded, from the coefficient of the highest power on."""
    total = np.full_like(values, terms[0])
    for term in terms[1:]:
        total *= values
        total += term
    return total


def waves(phases: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return cosines and sines of numbers of magnitude up to FARTHEST_PHASE, and NaN for others, within 1e-12.

    They are made of IEEE operations alone, so that each has the same bits on every machine, whatever stands beside it.
    """
    values = np.where(np.abs(phases) <= FARTHEST_PHASE, phases, np.nan)
    whole = np.rint(values * (2.0 / math.pi))
    rest = values
    for part in HALF_PI:
        rest = rest - whole * part
    squares = rest * rest
    cosine = _polynomial(COSINE, squares)
    sine = _polynomial(SINE, squares)
    sine *= rest
    # the cosine and sine of `whole` quarters of a turn: 1, 0, -1, 0 and 0, 1, 0, -1
    quarter = whole - 4.0 * np.floor(0.25 * whole)
    across = np.abs(quarter - 2.0) - 1.0
    up = 1.0 - np.abs(quarter - 1.0)
    return cosine * across - sine * up, sine * across + cosine * up


def shares_at(squares: FloatArray, constants: FloatArray) -> FloatArray:
    """Return the responsibilities (k, n) of components at squared distances (k, n), FAR if none, with log weights `constants`."""
    share = constants[:, None] - 0.5 * np.where(squares < FAR, squares, FAR)
    share = decay(share - np.maximum.reduce(share, axis=0))
    total = np.zeros(squares.shape[1])
    for each in share:
        total += each
    share /= total
    return share


@np.errstate(all="ignore")
def whitened(
    chunk: npt.NDArray[Any], table: NormalTable
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return rows whitened by each component (k, dim, n), their squared lengths and responsibilities (k, n)."""
    # The whitened vectors of a non-finite row have a NaN or an infinity.
    k, dim = table.means.shape
    n = len(chunk)
    gaps = chunk.T.astype(np.float64) - table.means[:, :, None]
    white = np.zeros((k, dim, n))
    for j in range(dim):
        white[:, j:] += table.inverses[:, j:, j, None] * gaps[:, j, None]
    squares = np.zeros((k, n))
    for i in range(dim):
        squares += white[:, i] * white[:, i]
    return white, squares, shares_at(squares, table.constants)


@np.errstate(all="ignore")
def likeliest(
    chunk: npt.NDArray[Any], table: NormalTable, axes: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Return the likeliest component (n,) of each row; squared distance, responsibility, coordinate along its axis, (3, n)."""
    # axes (k, dim) are directions of whitened rows.
    n = len(chunk)
    k, dim = table.means.shape
    top = np.empty(n, dtype=np.int64)
    parts = np.empty((3, n))
    if _loops is not None:
        _loops.likeliest(_plain(chunk), *table.flat, np.ascontiguousarray(axes), top, parts)
        return top, parts
    size = max(64, _NUMBERS // (k * dim))
    for begin in range(0, n, size):
        part = slice(begin, begin + size)
        white, squares, share = whitened(chunk[part], table)
        best = np.argmax(share, axis=0)
        places = np.arange(share.shape[1])
        along = np.zeros(len(places))
        for column in range(dim):
            along += axes[best, column] * white[best, column, places]
        top[part], parts[:, part] = best, (squares[best, places], share[best, places], along)
    return top, parts


def soft_parts(
    chunk: npt.NDArray[Any],
    inv_step: float,
    *,
    table: NormalTable,
    labels: npt.NDArray[np.int32] | None,
    inner: float,
    lift: float,
) -> Iterator[tuple[list[FloatArray], list[IntArray]]]:
    """Yield by blocks of rows, for each component, the vectors (some, dim + 1) that do not round to zero, and their rows."""
    # A vector is the root of the responsibility, or of 1 for the component in `labels` (n,), times (whitened row clipped to squared
    # length `inner`, `lift`), in steps. The next block may reuse the memory.
    k, dim = table.means.shape
    size = max(64, _NUMBERS // (dim + 1) if _loops is not None else 2 * _NUMBERS // (k * (dim + 1)))
    scale = np.array([inner, lift, inv_step])
    if _loops is not None:
        size = min(size, len(chunk))
        flat = table.flat
        parts = np.empty((k, size, dim + 1))
        at = np.empty((k, size + 1), dtype=np.int64)
    for begin in range(0, len(chunk), size):
        rows = chunk[begin : begin + size]
        reached = np.empty(0, dtype=np.int32) if labels is None else labels[begin : begin + size]
        if _loops is None:
            yield _soft_parts(rows, table, reached, scale)
            continue
        at[:, -1] = 0
        _loops.soft_parts(_plain(rows), reached, *flat, scale, parts, at)
        yield (
            [part[: places[-1]] for part, places in zip(parts, at, strict=True)],
            [places[: places[-1]] for places in at],
        )


@np.errstate(all="ignore")
def _soft_parts(
    rows: npt.NDArray[Any], table: NormalTable, labels: npt.NDArray[np.int32], scale: FloatArray
) -> tuple[list[FloatArray], list[IntArray]]:
    inner, lift, inv_step = (float(each) for each in scale)
    white, squares, share = whitened(rows, table)
    root = (labels == np.arange(len(share))[:, None]) * 1.0 if len(labels) else np.sqrt(share)
    visible = ~(root < UNSEEN / (inv_step * max(math.sqrt(inner), lift)))
    factor = root * np.sqrt(np.where(squares > inner, inner / squares, 1.0)) * inv_step
    parts = np.empty((len(share), len(rows), white.shape[1] + 1))
    parts[:, :, :-1] = (white * factor[:, None]).swapaxes(1, 2)
    parts[:, :, -1] = lift * root * inv_step
    return [part[mine] for part, mine in zip(parts, visible, strict=True)], [
        np.flatnonzero(mine) for mine in visible
    ]


def _plain(chunk: npt.NDArray[Any]) -> FloatArray:
    return np.ascontiguousarray(chunk, dtype=np.float64)
