"""Bins over an unbounded domain, fixed in public."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels.bins import WORDS_MAX, BinRule
from fastpubpriv.mechanisms.histograms import LEVELS_MAX


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BinGrid:
    """Bins of one width, in both directions without end: bin i is (offset + i width, offset + (i + 1) width].

    A value so near to an end that rounding, of the order of 2^-53 of its distance from the offset or of a width, hides on which
    side it is may be in either bin.

    Parameters
    ----------
    width : float
        Positive; in data units.
    offset : float
        Lower end of bin 0, and so an end of bins at every level.
    levels : int
        With L levels, the widths width, 2 width, ..., 2^(L - 1) width, each a histogram of its own: a bin of level l is the union
        of 2^l neighbouring finest bins. They are counted once, at the finest.

    Examples
    --------
    >>> BinGrid(width=0.5, levels=3).widths
    (0.5, 1.0, 2.0)
    >>> BinGrid(width=10_000).edges(np.array([0, 1]), 0)
    (array([    0., 10000.]), array([10000., 20000.]))
    """

    width: float
    offset: float = 0.0
    levels: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", validation.positive("width", self.width))
        object.__setattr__(self, "offset", validation.finite("offset", self.offset))
        levels = validation.integer("levels", self.levels, minimum=1, maximum=LEVELS_MAX)
        object.__setattr__(self, "levels", levels)
        if not math.isfinite(self.width * 2.0 ** (levels - 1)):
            raise InputError("the widest level overflows: pass a smaller width or fewer levels")
        if not math.isfinite(self.offset + self.width / 2.0):
            raise InputError("the middle of bin 0 overflows: pass a smaller width or an offset nearer to zero")

    @property
    def widths(self) -> tuple[float, ...]:
        """The width of each level."""
        return tuple(math.ldexp(self.width, level) for level in range(self.levels))

    def rule(self) -> BinRule:
        """The finest bins, for a kernel."""
        return BinRule(self.width, self.offset + self.width / 2.0)  # a rule says where the middle of bin 0 is

    def edges(self, keys: IntArray, level: int) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends of the bins of a level."""
        first = keys.astype(np.float64) * 2.0**level
        with np.errstate(over="ignore"):
            return self.offset + first * self.width, self.offset + (first + 2.0**level) * self.width


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DyadicBins:
    """Bins between powers of two: bin i is 2^i < |x| <= 2^(i + 1), for i = -1075 ... 1023. Zero is in no bin.

    Examples
    --------
    >>> DyadicBins().edges(np.array([3]), 0)
    (array([8.]), array([16.]))
    """

    @property
    def levels(self) -> int:
        """One."""
        return 1

    def rule(self) -> BinRule:
        """The bins, for a kernel."""
        return BinRule()

    def edges(self, keys: IntArray, level: int) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends of the bins, of the absolute value."""
        with np.errstate(over="ignore", under="ignore"):
            exponents = keys.astype(np.int32)
            return np.ldexp(1.0, exponents), np.ldexp(1.0, exponents + 1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProductBins:
    """Bins of several columns together: a bin is one bin of each grid, and a row outside of any of them is in no bin.

    Parameters
    ----------
    grids : sequence of BinGrid or DyadicBins
        One for each column. All BinGrids must have the same number of levels, and the product has as many; DyadicBins has one.
    columns : sequence of int, optional
        Which columns, by number; the default is the first len(grids).

    Examples
    --------
    >>> ProductBins(grids=[BinGrid(width=1.0), BinGrid(width=2.0)]).columns
    (0, 1)
    """

    grids: Sequence[BinGrid | DyadicBins]
    columns: Sequence[int] | None = None

    def __post_init__(self) -> None:
        grids = tuple(self.grids) if isinstance(self.grids, list | tuple) else ()
        if not 1 <= len(grids) <= WORDS_MAX or not all(isinstance(grid, BinGrid | DyadicBins) for grid in grids):
            raise InputError(f"grids must be a list of 1 to {WORDS_MAX} BinGrid or DyadicBins, one for each column")
        if len({grid.levels for grid in grids}) > 1:
            raise InputError("the grids of a product must have the same number of levels")
        columns = range(len(grids)) if self.columns is None else self.columns
        if not isinstance(columns, list | tuple | range | np.ndarray):
            raise InputError(f"columns must be a list of column numbers, got {type(columns).__name__}")
        columns = tuple(validation.integer("columns", column, minimum=0) for column in columns)
        if len(columns) != len(grids) or len(set(columns)) != len(columns):
            raise InputError(f"columns must name {len(grids)} different columns, one for each grid")
        object.__setattr__(self, "grids", grids)
        object.__setattr__(self, "columns", columns)


Bins = BinGrid | DyadicBins | ProductBins
