"""Densities of mixtures: pairs of hypotheses, and the statistic of rows under a mixture of normals (C, no GIL).

Hypotheses are stored in panels of PANEL: hypothesis j is entry j % PANEL of panel j // PANEL.

The statistic uses IEEE operations in a fixed order; the shares of the components, which need exponentials, are computed in NumPy
between two calls of the library.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import KernelError
from fastpubpriv.kernels import _cbuf
from fastpubpriv.kernels._cext import ffi, lib
from fastpubpriv.rowwise.row_maps import MixtureTable

PANEL: int = lib.FPP_PANEL
LARGEST_COUNT = 2**31 - 1
TOP_CODE: int = lib.FPP_TOP_CODE  # code of the hypothesis with the largest density at a row
CODES_PER_NAT: int = lib.FPP_CODES_PER_NAT
_ABSENT = -1e300  # log weight of an absent component


def panelled(array: npt.NDArray[Any], fill: float) -> npt.NDArray[Any]:
    """Return an array (hypotheses, ...) as (panels, ..., PANEL), the last panel padded by `fill`."""
    size = array.shape[0]
    shape = array.shape[1:]
    full = np.full((-(-size // PANEL), *shape, PANEL), fill, dtype=array.dtype)
    for begin in range(0, size, PANEL):
        part = array[begin : begin + PANEL]
        full[begin // PANEL, ..., : len(part)] = np.moveaxis(part, 0, -1)
    return full


def mixture_table(weights: FloatArray, means: FloatArray, spreads: FloatArray) -> MixtureTable:
    """Return the table of mixtures: weights (m, k), means (m, k, dim), variances (m, k, dim) or covariances (m, k, dim, dim)."""
    dim = means.shape[2]
    if spreads.ndim == 3:
        factors = 1.0 / np.sqrt(spreads)
        log_factor = np.log(factors).sum(axis=2)
    else:
        scale = np.sqrt(np.diagonal(spreads, axis1=2, axis2=3))
        correlation = spreads / (scale[..., :, None] * scale[..., None, :])
        inverse = np.linalg.inv(np.linalg.cholesky(correlation)) / scale[..., None, :]
        log_factor = np.log(np.diagonal(inverse, axis1=2, axis2=3)).sum(axis=2)
        rows, columns = np.tril_indices(dim)
        factors = inverse[..., rows, columns]
    with np.errstate(divide="ignore"):
        constants = np.log(weights) + log_factor - 0.5 * dim * math.log(2.0 * math.pi)
    constants[weights == 0.0] = _ABSENT
    return MixtureTable(
        panelled(means, 0.0),
        panelled(factors, 1.0),
        panelled(constants, _ABSENT),
        spreads.ndim == 4,
    )


def density_room(table: MixtureTable) -> npt.NDArray[np.uint8]:
    """Return scratch for `density_codes`, for one call at a time: a kilobyte for each eight hypotheses."""
    return np.empty(int(lib.fpp_density_workspace_size(_mixtures(table))), dtype=np.uint8)


def density_codes(
    points: FloatArray,
    table: MixtureTable,
    codes: npt.NDArray[np.int16],
    first: int,
    room: npt.NDArray[np.uint8],
) -> None:
    """codes (panels, capacity, PANEL), rows from `first` on, = codes of log densities of all hypotheses at points (n, dim)."""
    # `room` is scratch from `density_room`.
    panels = table.panels
    capacity = codes.shape[1]
    n = points.shape[0]
    _cbuf.expect("points", points, np.float64, (n, table.dim))
    _cbuf.expect("codes", codes, np.int16, (panels, capacity, PANEL))
    if not 0 <= first <= first + n <= capacity:
        raise KernelError("density_codes: the rows do not fit into the codes")
    if n == 0:
        return
    mixtures = _mixtures(table)
    if room.size < lib.fpp_density_workspace_size(mixtures):
        raise KernelError("density_codes: the scratch is of a shorter list")
    target = _cbuf.out(codes.reshape(-1)[first * PANEL :])
    work = ffi.from_buffer("double[]", room, require_writable=True)
    _cbuf.check(lib.fpp_density_codes_i16(mixtures, _cbuf.inp(points), n, capacity, work, target))


def _mixtures(table: MixtureTable) -> Any:
    """Return the table as a C structure, which keeps the arrays alive."""
    parts = [
        _cbuf.inp(array.reshape(-1)) for array in (table.means, table.factors, table.constants)
    ]
    return _cbuf.new(
        "fpp_mixtures *",
        (table.dim, table.constants.shape[1], table.panels, int(table.lower), *parts),
    )


def pair_counts(
    codes: npt.NDArray[np.int16], rows: int, panel: int, counts: npt.NDArray[np.int32]
) -> None:
    """counts (PANEL, (panels - panel) PANEL) += number of rows at which a hypothesis of `panel` has the larger code."""
    panels, capacity = codes.shape[:2]
    _cbuf.expect("codes", codes, np.int16, (panels, capacity, PANEL))
    _cbuf.expect("counts", counts, np.int32, (PANEL, (panels - panel) * PANEL))
    work = ffi.from_buffer(
        "int32_t[]", _cbuf.scratch(lib.FPP_PAIR_WORKSPACE, "pairs"), require_writable=True
    )
    _cbuf.check(
        lib.fpp_pair_counts_i32(
            _cbuf.inp(codes), rows, capacity, panels, panel, work, _cbuf.out(counts)
        )
    )


def cell_scores(
    table: npt.NDArray[np.int32], shift: int, panel: int, worst: npt.NDArray[np.int32]
) -> None:
    """worst (panels PANEL,) = maximum of itself and scores of pairs of `panel` with later ones; table (panels, cells, PANEL)."""
    panels, cells = table.shape[:2]
    _cbuf.expect("table", table, np.int32, (panels, cells, PANEL))
    _cbuf.expect("worst", worst, np.int32, (panels * PANEL,))
    _cbuf.check(
        lib.fpp_cell_scores_i32(_cbuf.inp(table), cells, panels, panel, shift, _cbuf.out(worst))
    )


def pair_roots(
    parts: tuple[FloatArray, FloatArray, FloatArray],
    grids: FloatArray,
    own: int,
    roots: FloatArray,
    counts: IntArray,
) -> None:
    """roots (size - own - 1, most), ascending then inf, = crossings of densities; counts: n, or -n - 1 if j leads at -inf."""
    # `parts`: log(weight / deviation), means and 1 / deviations (size, components); ascending `grids` (size, points); j > own.
    size, components = parts[0].shape
    for part in parts:
        _cbuf.expect("parts", part, np.float64, (size, components))
    _cbuf.expect("grids", grids, np.float64, (size, grids.shape[1]))
    _cbuf.expect("roots", roots, np.float64, (size - own - 1, roots.shape[1]))
    _cbuf.expect("counts", counts, np.int64, (size - own - 1,))
    if own + 1 == size:
        return
    inputs = [_cbuf.inp(part) for part in (*parts, grids)]
    most = roots.shape[1]
    _cbuf.check(
        lib.fpp_pair_roots_f64(
            *inputs,
            size,
            components,
            grids.shape[1],
            own,
            most,
            _cbuf.out(roots),
            _cbuf.out(counts),
        )
    )


class RowStatistic:
    """Statistic of rows under a mixture, by blocks of rows: call `distances`, then `moments` with the shares from these."""

    def __init__(self, means: FloatArray, stds: FloatArray) -> None:
        _cbuf.expect("stds", stds, np.float64, means.shape)
        self._components, self._dim = means.shape
        moments = _cbuf.inp(means.reshape(-1)), _cbuf.inp(stds.reshape(-1))
        self._at = _cbuf.new("fpp_normals *", (self._dim, self._components, *moments))

    def distances(
        self, chunk: npt.NDArray[Any]
    ) -> tuple[FloatArray, npt.NDArray[np.uint8], FloatArray]:
        """Return squared lengths (components, n) in standard deviations, whether rows are finite (n,), and data for `moments`."""
        n = len(chunk)
        x, stride = _cbuf.rows(chunk, self._dim)
        size = 8 * lib.fpp_statistic_tiles(self._at, n)
        tiles = _cbuf.scratch(size, "normal tiles")[:size].view(np.float64)
        length_sq = np.empty((self._components, n))
        whole = np.empty(n, dtype=np.uint8)
        outputs = _cbuf.out(tiles), _cbuf.out(length_sq.reshape(-1)), _cbuf.out(whole)
        _cbuf.check(
            lib.fpp_normal_distances(x, int(chunk.itemsize == 4), n, stride, self._at, *outputs)
        )
        return length_sq, whole, tiles

    def moments(
        self,
        distances: tuple[FloatArray, npt.NDArray[np.uint8], FloatArray],
        share: FloatArray,
        radii: tuple[float, float, float],
        out: FloatArray,
    ) -> None:
        """Fill out (n, components (1 + dim or 1 + 2 dim)) from the result of `distances` and shares (components, n)."""
        length_sq, whole, tiles = distances
        n = len(whole)
        moments = 2 if radii[2] > 0.0 else 1
        _cbuf.expect("share", share, np.float64, (self._components, n))
        _cbuf.expect("out", out, np.float64, (n, self._components * (1 + moments * self._dim)))
        given = (
            _cbuf.inp(each) for each in (tiles, length_sq.reshape(-1), share.reshape(-1), whole)
        )
        _cbuf.check(
            lib.fpp_normal_statistic_f64(
                *given, n, self._at, ffi.new("double[]", radii), _cbuf.out(out.reshape(-1))
            )
        )
