"""The statistic of rows under a mixture of normals (C, no GIL), rounded operation by operation.

The shares of the components, which take exponentials, are computed in NumPy between two calls of the library.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import FloatArray
from fastpubpriv.kernels import _cbuf
from fastpubpriv.kernels._cext import ffi, lib


def _room(numbers: int, name: str) -> FloatArray:
    """So many numbers of this thread's memory, kept between calls."""
    return _cbuf.scratch(8 * numbers, name)[: 8 * numbers].view(np.float64)


class RowStatistic:
    """Statistic of rows under a mixture, a block of rows at a time: `distances`, then `moments` with the shares that follow."""

    def __init__(self, means: FloatArray, stds: FloatArray) -> None:
        _cbuf.expect("stds", stds, np.float64, means.shape)
        self._components, self._dim = means.shape
        moments = _cbuf.inp(means.reshape(-1)), _cbuf.inp(stds.reshape(-1))
        self._at = _cbuf.new("fpp_normals *", (self._dim, self._components, *moments))

    def distances(self, chunk: npt.NDArray[Any]) -> tuple[FloatArray, npt.NDArray[np.uint8], FloatArray]:
        """Squared lengths (components, n) of rows in standard deviations, whether each is finite (n,), and what `moments` reads."""
        n = len(chunk)
        x, stride = _cbuf.rows(chunk, self._dim)
        tiles = _room(lib.fpp_statistic_tiles(self._at, n), "normal tiles")
        length_sq, whole = np.empty((self._components, n)), np.empty(n, dtype=np.uint8)
        call = lib.fpp_normal_distances_f64 if chunk.itemsize == 8 else lib.fpp_normal_distances_f32
        found = _cbuf.out(tiles), _cbuf.out(length_sq.reshape(-1)), _cbuf.out(whole)
        _cbuf.check(call(x, n, stride, self._at, *found))
        return length_sq, whole, tiles

    def moments(
        self,
        distances: tuple[FloatArray, npt.NDArray[np.uint8], FloatArray],
        share: FloatArray,
        radii: tuple[float, float, float],
        out: FloatArray,
    ) -> None:
        """Fill out (n, components (1 + dim or 1 + 2 dim)) from what `distances` gave for these rows, and shares (components, n)."""
        length_sq, whole, tiles = distances
        n = len(whole)
        moments = 2 if radii[2] > 0.0 else 1
        _cbuf.expect("share", share, np.float64, (self._components, n))
        _cbuf.expect("out", out, np.float64, (n, self._components * (1 + moments * self._dim)))
        given = (_cbuf.inp(each) for each in (tiles, length_sq.reshape(-1), share.reshape(-1), whole))
        _cbuf.check(
            lib.fpp_normal_statistic_f64(*given, n, self._at, ffi.new("double[]", radii), _cbuf.out(out.reshape(-1)))
        )
