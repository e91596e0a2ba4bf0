"""Cells of columns within bounds of the caller, fine where rows are.

Without public rows, and without a delta for histograms that have a threshold, bounds are the only range. Each look counts all rows
in the cells so far and divides those that hold many into SPLIT parts, like the nodes of an adaptive histogram. A cell is no longer
divided when it holds a small part of an average component. Looks end when no cell is divided, and a later release gets what they
leave. Privacy note: `mechanisms/notes/cell_counts.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.estimators.output_bounds import Box
from fastpubpriv.mechanisms.cells import CellCounts
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.privacy.spending import Spending
from fastpubpriv.session import Session

# Maximum edges of the last count of a column, for which an account declares noise.
MOST_EDGES = 2**13


def covers(box: Box | None) -> bool:
    """Return whether bounds are there and give every column a range, at most WIDEST_BOUNDS long."""
    if box is None:
        return False
    low, high = box
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.all(high - low < tuning.WIDEST_BOUNDS))


def seen_through(inverse: FloatArray, box: Box) -> Box:
    """Return the smallest box that holds the image of a box under a matrix (dim, dim)."""
    low, high = box
    middle = inverse @ ((low + high) / 2.0)
    half = np.abs(inverse) @ ((high - low) / 2.0)
    return middle - half, middle + half


@dataclass(frozen=True, slots=True, eq=False)
class DividedRange:
    """Cells of one column and the rows in each; ends (cells + 1,) ascend, in units of 2^-RANGE_DEPTH of the range."""

    start: float
    length: float
    ends: IntArray
    counts: FloatArray  # (cells,)

    @classmethod
    def of(cls, low: float, high: float) -> DividedRange:
        """Return FIRST_CELLS equal cells that cover a range, and a margin for values on its ends."""
        margin = tuning.RANGE_MARGIN * (high - low)
        whole = np.array([0, 1 << tuning.RANGE_DEPTH])
        at = cls(low - margin, high - low + 2.0 * margin, whole, np.zeros(1))
        return at.divided(np.array([tuning.FIRST_CELLS]))

    @property
    def edges(self) -> FloatArray:
        """Ascending finite edges; the first and the last cell of a count lie beyond them."""
        edges: FloatArray = self.start + self.length * np.ldexp(
            self.ends.astype(float), -tuning.RANGE_DEPTH
        )
        return edges

    @property
    def finest(self) -> int:
        """Width, in positions, below which the edges of neighboring cells may be the same double."""
        largest = max(abs(self.start), abs(self.start + self.length))
        width = 8.0 * float(np.spacing(largest)) / self.length
        return 1 << max(0, math.ceil(math.log2(width)) + tuning.RANGE_DEPTH)

    def divided(self, parts: IntArray) -> DividedRange:
        """Return each cell in so many equal parts, powers of two, which are no narrower than `finest`."""
        widths = np.diff(self.ends)
        parts = np.minimum(parts, np.maximum(widths // self.finest, 1))
        places = np.concatenate([np.arange(number) for number in parts])
        steps = np.repeat(widths // parts, parts)
        starts = np.repeat(self.ends[:-1], parts) + places * steps
        ends = np.append(starts, self.ends[-1])
        return replace(self, ends=ends, counts=np.repeat(self.counts / parts, parts))

    def split(self, limit: float) -> DividedRange:
        """Return the cells with those of more rows than the limit in SPLIT parts, the heaviest MOST_SPLIT of them at most."""
        heaviest = np.argsort(-self.counts, kind="stable")[: tuning.MOST_SPLIT]
        parts = np.ones(len(self.counts), dtype=np.int64)
        parts[heaviest] = np.where(self.counts[heaviest] > limit, tuning.SPLIT, 1)
        return self.divided(parts)

    def joined(self, least: float) -> DividedRange:
        """Return the cells with both halves of a larger cell joined while each holds fewer than `least` rows."""
        at = self
        while True:
            widths = np.diff(at.ends)
            light = at.counts < least
            is_left = at.ends[:-1] % (2 * widths) == 0
            is_pair = is_left[:-1] & (widths[1:] == widths[:-1])
            is_pair &= light[:-1] & light[1:]
            if not is_pair.any():
                return at
            begins = np.flatnonzero(np.append(True, ~is_pair))
            counts = np.add.reduceat(at.counts, begins)
            at = replace(at, ends=np.append(at.ends[begins], at.ends[-1]), counts=counts)

    def of_rows(self, wanted: float, noise_std: float) -> DividedRange:
        """Return cells of about `wanted` rows each, as far as counts with this noise show; at most MOST_EDGES edges."""
        excess = np.log2(np.maximum(self.counts / wanted, 1.0))
        halvings = np.minimum(np.ceil(excess), tuning.MOST_HALVINGS)
        while np.exp2(halvings).sum() >= MOST_EDGES:
            halvings = np.maximum(halvings - 1.0, 0.0)
        least = max(wanted / 2.0, tuning.JOINED_STDS * noise_std)
        return self.divided(1 << halvings.astype(np.int64)).joined(least)


def widest_step(edges: FloatArray) -> float:
    """Return the widest step between values that cells between these edges may show as a comb: its halves are tried as well."""
    narrowest = float(np.diff(edges[1:-1]).min())
    return math.ldexp(narrowest, 2 + tuning.HALVED_STEPS)


def look_cost(spending: Spending) -> Spending:
    """Return what one look may cost."""
    return spending.part(spending.by_tail(*tuning.LOOK_SHARES))


def share_of_looks(spending: Spending) -> Fraction:
    """Return the largest share that all looks may take."""
    return tuning.LOOKS * spending.by_tail(*tuning.LOOK_SHARES)


def most_cells(columns: int) -> int:
    """Return an upper bound on the cells of a look."""
    divided = tuning.LOOKS * tuning.MOST_SPLIT * tuning.SPLIT
    return columns * (tuning.FIRST_CELLS + 2 + divided)


def most_draws(columns: int) -> int:
    """Return an upper bound on the noise draws of all looks."""
    return tuning.LOOKS * most_cells(columns)


def check(spending: Spending, columns: int, n: int) -> None:
    """Raise before the debit if a look has no noise grid."""
    look_cost(spending).grid("count", most_cells(columns), n, parts=columns)


def looked_edges(
    run: Session, box: Box, components: int, spending: Spending, *, wanted: float
) -> list[FloatArray]:
    """Release looks; return edges of each column of the box, from minus to plus infinity, between about `wanted` rows each.

    Looks that are not needed are not made: the account keeps what they would have cost.
    """
    ends = np.column_stack(box).tolist()
    columns = [DividedRange.of(low, high) for low, high in ends]
    many = run.rows.n / (tuning.MOST_PER_CELL * components)
    for _ in range(tuning.LOOKS):
        measured = CellCounts(edges=[column.edges for column in columns])
        cells = sum(len(column.ends) + 1 for column in columns)
        counted = run.release(measured, name="look", cost=look_cost(spending), cells=cells)
        held = [of_column[1:-1] for (of_column,) in measured.parted(counted.value)]
        columns = [replace(at, counts=rows) for at, rows in zip(columns, held, strict=True)]
        limit = max(many, tuning.EVIDENCE * counted.noise_std)
        following = [column.split(limit) for column in columns]
        before = [len(column.ends) for column in columns]
        columns = following
        if before == [len(column.ends) for column in columns]:
            break
    edges = [column.of_rows(wanted, counted.noise_std).edges for column in columns]
    return [np.concatenate([[-np.inf], finite, [np.inf]]) for finite in edges]
