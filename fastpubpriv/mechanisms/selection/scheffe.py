"""Scores of hypotheses from Scheffe sets: which sets, what each hypothesis gives them, and how many rows are in them.

Sets and masses are functions of the public list alone; `scores` adds the rows, as whole numbers. Privacy note:
`notes/hypotheses.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy.special import ndtr

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels import hypotheses as kernels
from fastpubpriv.kernels.hypotheses import PANEL
from fastpubpriv.mechanisms.cells import CellQuery
from fastpubpriv.mechanisms.selection.candidates import Hypotheses
from fastpubpriv.sources import Executor, Rows
from fastpubpriv.threads.steps import share_out

CELLS = 512
MOST_CELL_ROWS = 2**30
_WORD = 30  # bits of a sum over cells
_REACH = np.linspace(-4.0, 4.0, 33)  # standard deviations at which cells are cut


class Evaluation(Protocol):
    """A way to score hypotheses by the rows: by public sets and masses, or by codes of densities."""

    sensitivity: ClassVar[int]  # most that a score moves when a row is replaced

    def scores(self, rows: Rows, executor: Executor) -> IntArray:
        """Whole numbers (size,), the lower the better; for sets s_i = max over sets A of i of |round(n f_i(A)) - rows in A|."""
        ...


def mixture_cdf(hypotheses: Hypotheses, points: FloatArray, chosen: slice = slice(None)) -> FloatArray:
    """Distribution functions (size, points) of the chosen hypotheses on the line."""
    weights, means, spreads = (part[chosen] for part in (hypotheses.weights, hypotheses.means, hypotheses.spreads))
    total = np.zeros((len(weights), len(points)))
    for c in range(hypotheses.n_components):
        std = np.sqrt(spreads[:, c].reshape(-1, 1))
        with np.errstate(over="ignore"):
            total += weights[:, c, None] * ndtr((points - means[:, c]) / std)
    return np.clip(total, 0.0, 1.0, out=total)


def cell_edges(hypotheses: Hypotheses, cells: int) -> FloatArray:
    """Inner edges, ascending, of at most `cells` cells: quantiles of the points mean + std t, |t| <= 4, of all components."""
    present = hypotheses.weights > 0.0
    means = hypotheses.means[present].ravel()
    std = np.sqrt(hypotheses.spreads[present].ravel())
    with np.errstate(over="ignore"):
        points = np.sort((means[:, None] + std[:, None] * _REACH).ravel())
    points = points[np.isfinite(points)]
    places = np.linspace(0, len(points) - 1, cells - 1).round().astype(np.int64)
    edges: FloatArray = np.unique(points[places])
    return edges


@dataclass(frozen=True, slots=True, eq=False)
class CellSets:
    """Hypotheses on the line over public cells: A_ij is made of the cells to which i gives more than j.

    `edges` are the inner ends of the cells, `masses` (size, cells) int32 counts what a hypothesis expects of n rows, in units of
    2^-shift rows, and adds up to n 2^shift for each.
    """

    sensitivity: ClassVar[int] = 1
    edges: FloatArray
    masses: np.ndarray[Any, np.dtype[np.int32]]
    shift: int

    @classmethod
    def prepare(cls, hypotheses: Hypotheses, n: int, *, cells: int = CELLS) -> CellSets:
        """Cut the line and work out the masses for n rows."""
        if hypotheses.dim != 1:
            raise InputError('cells are for one column; pass method="densities"')
        if n > MOST_CELL_ROWS:
            raise InputError(f"cells count up to 2^30 rows, got {n}; pass a part of the rows")
        shift = _WORD - (n - 1).bit_length()
        edges = cell_edges(hypotheses, cells)
        below = np.rint(mixture_cdf(hypotheses, edges) * math.ldexp(n, shift)).astype(np.int64)
        below = np.maximum.accumulate(below, axis=1)
        masses = np.diff(below, axis=1, prepend=0, append=n << shift)
        return cls(edges, masses.astype(np.int32), shift)

    def scores(self, rows: Rows, executor: Executor) -> IntArray:
        """See `Evaluation.scores`."""
        counts = executor.run(CellQuery.between([self.edges]), rows)
        # mass - rows: as both members of a pair lose the same in a cell, the table also says who gives it more.
        table = self.masses - (counts << self.shift).astype(np.int32)
        panels = kernels.panelled(table, 2**31 - 1)
        worst = np.zeros((len(panels), len(panels) * PANEL), dtype=np.int32)
        share_out(
            lambda panel: kernels.cell_scores(panels, self.shift, panel, worst[panel]),
            len(panels),
            threads=executor.threads,
        )
        found: IntArray = worst.max(axis=0)[: len(table)].astype(np.int64)
        return found
