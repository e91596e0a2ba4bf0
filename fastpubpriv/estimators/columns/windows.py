"""Windows of neighbouring cells whose counts stand out of the noise, of several columns together, and how far they reach.

Only cells that may stand out are looked at closely: sums over deviations are worked out for them alone. A column's numbers do not
depend on the columns beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from scipy import special

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.estimators.columns.shares import Shares
from fastpubpriv.kernels.columns import EXPONENTS, kept_room

WIDTHS = (1, 2, 4, 8)
# A cell found by mistake g octaves out costs 4^g in squared error: mistakes must become rare faster than that.
DECAY = 3.0
OUTER_HALF = 1.5
PASSES = 6
# Below this no window surely holds rows. The estimate of what a window may be lets some more through: it must miss none.
ANCHOR_LEAST = 5.0
SLACK = 1.0 - 1e-9
ABOVE, BELOW, BOTH = range(3)


class Counted(Protocol):
    """Counts of one column on each side of its centre, (cells,) each, with their variances."""

    @property
    def above(self) -> FloatArray:
        """Counts above the centre."""

    @property
    def below(self) -> FloatArray:
        """Counts below it."""

    @property
    def above_var(self) -> FloatArray:
        """Their variances."""

    @property
    def below_var(self) -> FloatArray:
        """Their variances."""


@lru_cache(maxsize=32)
def thresholds(log2_parts: int, chance: float, width: int, pure: bool) -> FloatArray:
    """How many deviations a window must stand out, by its distance in cells from what is known to hold rows."""
    octaves = np.arange((EXPONENTS << log2_parts) + 1) / 2**log2_parts
    log_chance = math.log(chance) - DECAY * math.log(2.0) * octaves
    gaussian = -special.ndtri_exp(log_chance)
    if pure:  # noise of a cell is Laplace; that of several comes near a Gaussian
        laplace = -(math.log(2.0) + log_chance) / math.sqrt(2.0)
        gaussian = gaussian + (laplace - gaussian) / math.sqrt(width)
    gaussian.flags.writeable = False
    return np.asarray(gaussian)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Windows:
    """Windows of both sides that stand out at least as much as beside a reference, (k,) each, width after width.

    `column` and `below` say where; `begin` and `last` are the outermost cells; `outer` is half the width; `scores` has the
    deviations of the windows of each width in turn.
    """

    column: IntArray
    below: BoolArray
    begin: IntArray
    last: IntArray
    outer: IntArray
    scores: tuple[tuple[int, FloatArray], ...]

    def reach(self, chance: float, shares: Shares) -> IntArray:
        """(k,) how many cells from what is known a window is believed: its distance must be less."""
        # Thresholds rise with the distance, so that the number of those below a score is the first distance that is too far.
        found = [
            np.searchsorted(thresholds(shares.log2_parts, chance, width, shares.pure), score)
            for width, score in self.scores
        ]
        return np.concatenate(found)

    def stand(self, reach: IntArray, known: Sequence[set[int]], shares: Shares, *, passes: int = PASSES) -> BoolArray:
        """(k,) which windows stand out so far from the cells that are `known` of each column, and from those found beside."""
        cells = EXPONENTS << shares.log2_parts
        apart = 4 * cells  # columns are laid out one after another, so far apart that none is near another one's cells
        stood = np.zeros(len(reach), dtype=bool)
        near = np.flatnonzero(self.outer < reach)
        place, outer, far = self.column[near] * apart, self.outer[near], reach[near]
        begin, last = place + self.begin[near], place + self.last[near]
        held = [j * apart + cell for j, each in enumerate(known) for cell in each]
        references = np.array([-apart, *sorted(held), (len(known) + 1) * apart])
        for _ in range(passes):
            nearest = references.searchsorted(begin)
            # Cells between a window and the nearest reference; none where one is inside.
            right = np.maximum(references[nearest] - last, 0)
            distance = np.minimum(begin - references[nearest - 1], right)
            # Its outer half is what makes a window reach so far: from there on it counts as a mistake that costs.
            stands = np.minimum(distance + outer, cells) < far
            found = last[stands]
            if len(found) == 0:
                break
            stood[near[stands]] = True
            # References only become more: a window that stands goes on standing, and is not asked again.
            left = ~stands
            near, outer, far, begin, last = near[left], outer[left], far[left], begin[left], last[left]
            if len(near) == 0:
                break
            references = np.sort(np.concatenate([references, found]))
        return stood

    def ends(self, stood: BoolArray, columns: int) -> IntArray:
        """(columns, 2) the outermost ends above and below of the windows that stand, -1 for none."""
        found = np.full((columns, 2), -1)
        np.maximum.at(found, (self.column[stood], self.below[stood].astype(np.int64)), self.last[stood])
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sums:
    """Counts of columns and their variances: above, below, and both together, (3, columns, cells) each."""

    total: FloatArray
    variance: FloatArray
    parts: int

    @classmethod
    def of(cls, columns: Sequence[Counted], shares: Shares) -> Sums:
        """Of columns with the cells of these shares, in memory of this thread: they hold until the next ones are made.

        Everything here has been released. New pages for each call took longer than the sums themselves.
        """
        total, variance = kept_room((2, 3, len(columns), len(columns[0].above)), "sums of columns")
        for j, each in enumerate(columns):
            total[ABOVE, j], total[BELOW, j] = each.above, each.below
            variance[ABOVE, j], variance[BELOW, j] = each.above_var, each.below_var
        for sides in (total, variance):
            np.add(sides[ABOVE], sides[BELOW], out=sides[BOTH])
        return cls(total=total, variance=variance, parts=shares.parts)

    def widths(self, *, kept: bool = False) -> Iterator[tuple[int, FloatArray]]:
        """Widths up to two octaves, and sums of so many neighbours: sum k begins at cell k.

        If they are `kept` in memory of this thread, those of one width hold until those of the next but one are made.
        """
        total = self.total
        for width in WIDTHS:
            if width > 2 * self.parts:
                return
            if width > 1:
                ones, others = total[..., : -(width // 2)], total[..., width // 2 :]
                room = kept_room(ones.shape, "wide sums" if width == 4 else "sums of neighbours") if kept else None
                total = np.add(ones, others, out=room)
            yield width, total

    def standing(self, chance: float, shares: Shares) -> tuple[Windows, list[tuple[float, int]]]:
        """The windows that can stand out anywhere, and the anchor of each column.

        That is the deviations and the outer end of the window, of one side or both together, that stands out most; -inf where none
        comes near to surely holding rows.
        """
        spread = np.sqrt(self.variance.min(axis=2))
        lines = self.variance.reshape(-1, self.variance.shape[2])
        kept, anchors, half = [], [], self.total
        for width, total in self.widths(kept=True):
            least = float(thresholds(shares.log2_parts, chance, width, shares.pure)[0])
            limits = np.array([min(least, ANCHOR_LEAST)] * 2 + [ANCHOR_LEAST])
            lowest = limits[:, None] * spread * (SLACK * math.sqrt(width))
            # Three axes at once would take NumPy five times as long.
            line, begin = np.divmod(np.flatnonzero(total > lowest[:, :, None]), total.shape[2])
            side, column = np.divmod(line, total.shape[1])
            around = lines[line[:, None], begin[:, None] + np.arange(width)]
            outer_variance = around[:, 0]
            while around.shape[1] > 1:  # the order in which the counts themselves are added up
                outer_variance = around[:, -1] if around.shape[1] == 2 else outer_variance
                around = around[:, ::2] + around[:, 1::2]
            score = total[side, column, begin] / np.sqrt(around[:, 0])
            anchors.append((np.full(len(side), width), side, column, begin + width - 1, score))
            stands = (score > least) & (side != BOTH)
            if width > 1:
                stands &= half[side, column, begin + width // 2] > OUTER_HALF * np.sqrt(outer_variance)
            kept.append((width, side[stands], column[stands], begin[stands], score[stands]))
            half = total
        width_of = np.repeat([each[0] for each in kept], [len(each[3]) for each in kept])
        side, column, begin = (np.concatenate([each[k] for each in kept]) for k in (1, 2, 3))
        windows = Windows(
            column=column, below=side == BELOW, begin=begin, last=begin + width_of - 1, outer=width_of // 2,
            scores=tuple((each[0], each[4]) for each in kept),
        )  # fmt: skip
        return windows, self._anchors(*(np.concatenate([each[k] for each in anchors]) for k in range(5)))

    def _anchors(
        self, width: IntArray, side: IntArray, column: IntArray, end: IntArray, score: FloatArray
    ) -> list[tuple[float, int]]:
        """The best window of each column: of equals in one width and side the first, of the others the one that ends last."""
        found = []
        for j in range(self.total.shape[1]):
            mine = np.flatnonzero((column == j) & (score > ANCHOR_LEAST))
            if len(mine) == 0:
                found.append((-math.inf, -1))
                continue
            best = score[mine].max()
            equal = mine[score[mine] == best].tolist()
            firsts: dict[tuple[int, int], int] = {}
            for k in equal:
                firsts.setdefault((int(width[k]), int(side[k])), int(end[k]))
            found.append((float(best), max(firsts.values())))
        return found

    def anchor_between(self, j: int, low: int, high: int) -> tuple[float, int]:
        """Deviations and outer end of the window of column j that stands out most among those that begin in cells low ... high."""
        begin, best = max(0, low), (-math.inf, -1)
        total = self.total[:, j, begin : high + WIDTHS[-1]]
        near = Sums(total=total, variance=self.variance[:, j, begin : high + WIDTHS[-1]], parts=self.parts)
        variances = Sums(total=near.variance, variance=near.variance, parts=self.parts).widths()
        for (width, sums), (_, variance) in zip(near.widths(), variances, strict=True):
            score = (sums / np.sqrt(variance))[:, : high + 1 - begin]
            for row in score if score.shape[1] else ():
                place = int(row.argmax())
                best = max(best, (float(row[place]), begin + place + width - 1))
        return best
