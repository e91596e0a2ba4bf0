"""Normals: masses of cells of the line and the slopes of a fit to them, and the statistic of rows under a mixture (C, no GIL).

Exponentials of whole arrays are NumPy's, between two calls of the library; everything else is rounded operation by operation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import KernelError
from fastpubpriv.kernels import _cbuf
from fastpubpriv.kernels._cext import ffi, lib


def _room(numbers: int, name: str) -> FloatArray:
    """So many numbers of this thread's memory, kept between calls."""
    return _cbuf.scratch(8 * numbers, name)[: 8 * numbers].view(np.float64)


def _scores(means: FloatArray, stds: FloatArray, edges: FloatArray, exponents: FloatArray | None) -> FloatArray:
    """(edge - mean) / std and, into `exponents`, minus half its square, (size, components, edges) each."""
    means, stds = np.ascontiguousarray(means), np.ascontiguousarray(stds)
    z = np.empty((*means.shape, len(edges)))
    found = ffi.NULL if exponents is None else _cbuf.out(exponents.reshape(-1))
    given = (
        _cbuf.inp(np.ascontiguousarray(edges)),
        len(edges),
        _cbuf.inp(means.reshape(-1)),
        _cbuf.inp(stds.reshape(-1)),
    )
    _cbuf.check(lib.fpp_normal_scores_f64(*given, means.size, _cbuf.out(z.reshape(-1)), found))
    return z


def cell_masses(means: FloatArray, stds: FloatArray, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mass of each normal (size, components) between ascending edges, (size, components, cells), and the edges in stds."""
    z = _scores(means, stds, edges, None)
    inside = np.empty((*means.shape, len(edges) - 1))
    work = _room(2 * len(edges) + 16, "normal cells")
    given = _cbuf.inp(z.reshape(-1)), ffi.NULL, means.size, len(edges), _cbuf.out(work)
    _cbuf.check(lib.fpp_normal_cells_f64(*given, _cbuf.out(inside.reshape(-1)), ffi.NULL, ffi.NULL))
    return inside, z


def cell_parts(means: FloatArray, stds: FloatArray, edges: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Differences of Phi(z), phi(z) and z phi(z) from edge to edge, (size, components, cells) each."""
    exponents = np.empty((*means.shape, len(edges)))
    z = _scores(means, stds, edges, exponents)
    with np.errstate(under="ignore"):
        np.exp(exponents, out=exponents)
    inside, density, tilted = np.empty((3, *means.shape, len(edges) - 1))
    work = _room(2 * len(edges) + 16, "normal cells")
    given = _cbuf.inp(z.reshape(-1)), _cbuf.inp(exponents.reshape(-1)), means.size, len(edges), _cbuf.out(work)
    found = (_cbuf.out(each.reshape(-1)) for each in (inside, density, tilted))
    _cbuf.check(lib.fpp_normal_cells_f64(*given, *found))
    return inside, density, tilted


def cell_slopes(
    counts: FloatArray,
    weights: FloatArray,
    masses: tuple[FloatArray, FloatArray],
    total: float,
    noise_variance: float,
    rows: IntArray,
    fixed_std: bool,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Of the mixtures `rows`: slopes of expected counts and the same times the precision, (rows, p, cells), and weighted residuals.

    `masses` are their `cell_masses`. The parameters are log weights, means and log stds (these not with `fixed_std`); residuals
    are (rows, cells).
    """
    inside, z = masses
    size, components, cells = inside.shape
    _cbuf.expect("counts", counts, np.float64, (cells,))
    _cbuf.expect("weights", weights, np.float64, (size, components))
    _cbuf.expect("masses", inside, np.float64, (size, components, cells))
    _cbuf.expect("edges", z, np.float64, (size, components, cells + 1))
    _cbuf.expect("rows", rows, np.int64, (len(rows),))
    if len(rows) and not 0 <= rows.min() <= rows.max() < size:
        raise KernelError(f"rows must be numbers of {size} mixtures")
    with np.errstate(all="ignore"):
        chosen = z[rows]
        exponentials = -0.5 * chosen
        exponentials *= chosen
        np.exp(exponentials, out=exponentials)
    arrays = (_cbuf.inp(array.reshape(-1)) for array in (counts, weights, inside, z))
    fit = _cbuf.new("fpp_cell_fit *", (size, components, cells, *arrays, total, noise_variance, int(fixed_std)))
    slopes, weighted = np.empty((2, len(rows), components * (2 if fixed_std else 3), cells))
    residuals = np.empty((len(rows), cells))
    work = _room(2 * (components + 1) * (cells + 1) + 16, "normal cells")
    given = fit, _cbuf.inp(rows), _cbuf.inp(exponentials.reshape(-1)), len(rows), _cbuf.out(work)
    _cbuf.check(
        lib.fpp_normal_slopes_f64(*given, *(_cbuf.out(each.reshape(-1)) for each in (slopes, weighted, residuals)))
    )
    return slopes, weighted, residuals


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
