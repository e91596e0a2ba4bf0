"""Counts of cells: of all columns at first, and again about better centres, or where the sum has budget to spare.

Every decision here is a function of public and of released numbers, and what is asked again is paid out of the share of the sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.estimators.columns import clips
from fastpubpriv.estimators.columns.clips import Map, map_of
from fastpubpriv.estimators.columns.scales import Column, Scale, columns_of, lower_medians, scales_of
from fastpubpriv.estimators.columns.shares import MOST_MOVES, MOVE_COUNTS, MOVE_SUM, SPARED, Shares, check_grids
from fastpubpriv.mechanisms.cells import SignedCells
from fastpubpriv.mechanisms.sums import AffineMap, VectorSum
from fastpubpriv.row_maps import ColumnBox
from fastpubpriv.session import Run

Bounds = tuple[FloatArray, FloatArray] | None
ALONE = 0.05  # share of the rows that may lie elsewhere when a column is called far from its centre
ALONE_STDS = 2.0
# Squared noise of the sum over squared sampling error that a smaller share for the sum may lead to: 2.5 % of the error.
NOISE_OF_SAMPLING = 0.05
MOST_CELLS = 32  # cells of an octave of all columns that are looked at together


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seen:
    """What the counts show of one column, and how it enters the sum; `shares` has the noise of this column's counts."""

    column: Column
    scale: Scale
    map: Map
    shares: Shares


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnCounts:
    """Released counts (dim, cells) about centres (dim,), and the noise of one count of each column (dim,)."""

    center: FloatArray
    values: FloatArray
    std: FloatArray

    def joined(self, other: ColumnCounts) -> ColumnCounts:
        """Both counts of the columns whose centre is the same, by inverse variance; the other's where it has moved."""
        kept = self.center == other.center
        weight = np.where(kept, other.std**2 / (self.std**2 + other.std**2), 0.0)
        std = np.where(kept, self.std * other.std / np.hypot(self.std, other.std), other.std)
        values = self.values - other.values
        values *= weight[:, None]
        values += other.values
        return ColumnCounts(center=other.center, values=values, std=std)


def look(counts: ColumnCounts, public: FloatArray, shares: Shares, bounds: Bounds) -> list[Seen]:
    """Each column, its scale, and how it enters the sum; some columns at a time, so that what they need stays small."""
    together = max(1, MOST_CELLS >> shares.log2_parts)
    return [
        seen
        for begin in range(0, shares.dim, together)
        for seen in _look(counts, public, shares, bounds, range(begin, min(begin + together, shares.dim)))
    ]


def _look(counts: ColumnCounts, public: FloatArray, shares: Shares, bounds: Bounds, places: range) -> list[Seen]:
    """As `look`, for the columns at these places."""
    own = [replace(shares, count_std=std) for std in counts.std[places.start : places.stop].tolist()]
    part = slice(places.start, places.stop)
    columns = columns_of(counts.values[part], public[:, part], counts.center[part], own)
    scales = scales_of(columns, own)
    limits = [None if bounds is None else (float(bounds[0][j]), float(bounds[1][j])) for j in places]
    blind = [mine.blind and len(public) >= clips.FEW_PUBLIC for mine in own]
    found = clips.choose(columns, scales, own, limits)
    for k in np.flatnonzero(blind):
        found[k] = clips.from_public(columns[k], public[:, places[k]], own[k])
    return [
        Seen(column=column, scale=scale, map=map_of(clip, shares.dim), shares=mine)
        for column, scale, clip, mine in zip(columns, scales, found, own, strict=True)
    ]


def box_of(columns: Sequence[Seen], *, neutral: bool, only: BoolArray | None = None) -> ColumnBox:
    """The box and the scale of every column; one that is left out becomes zero."""
    numbers = np.zeros((6, len(columns)))
    for place, each in enumerate(columns):
        mapped, clip, unit = each.map, each.map.clip, each.map.clip.absolute
        numbers[:, place] = each.column.center, 0.0, 0.0, 0.0, 1.0, 0.0
        if mapped.used and (only is None or only[place]):
            absent = (clip.first_mean - mapped.middle) / mapped.width
            box = -unit(clip.below), unit(clip.above), unit(mapped.middle), unit(mapped.width), absent
            numbers[1:, place] = box
    names = ("center", "lower", "upper", "middle", "width", "absent")
    return ColumnBox(**dict(zip(names, numbers, strict=True)), neutral=neutral)


def lies_far(seen: Seen) -> bool:
    """Whether nearly all rows lie in two neighbouring cells of one side: cells are too wide there to show anything else.

    Where an octave is one cell, it has to be one cell.
    """
    column, shares = seen.column, seen.shares
    if not (seen.scale.anchored and seen.map.used) or column.zero > ALONE_STDS * shares.count_std:
        return False
    rows, wide = seen.map.clip.rows, min(2, shares.parts)
    most = max(
        float((counts[: len(counts) - wide + 1] + (counts[1:] if wide == 2 else 0.0)).max())
        for counts in (column.above, column.below)
    )
    return rows - most < ALONE * rows + ALONE_STDS * math.sqrt(wide) * shares.count_std


@lru_cache(maxsize=64)  # of public shares, those that a call starts with
def can_ask_again(shares: Shares) -> bool:
    """Whether every further question, at its least price, has a grid: where one has none, nothing is asked again."""
    least = shares.total * (1 - MOVE_SUM - MOVE_COUNTS) ** (MOST_MOVES - 1)
    smallest = replace(shares, cells=least * min(MOVE_COUNTS, *SPARED), total=least * min(MOVE_SUM, 1 - max(SPARED)))
    try:
        check_grids(smallest)
    except InputError:
        return False
    return True


def spared(columns: Sequence[Seen], shares: Shares) -> Fraction:
    """The share of the sum's budget that more counts may have, because the noise of the sum is far below sampling error."""
    worst = 0.0
    for each in columns:
        clip = each.map.clip
        if each.map.used:
            noise_sq, sampling_sq = (clip.radius * shares.noise_per_clip) ** 2, clip.rows * clip.std**2
            worst = max(worst, noise_sq / sampling_sq if sampling_sq > 0.0 else math.inf)
    kept = worst / NOISE_OF_SAMPLING
    if shares.pure:
        kept = math.sqrt(kept)
    return max((share for share in SPARED if 1.0 - share >= kept), default=Fraction(0))


def moved(run: Run, columns: Sequence[Seen], far: BoolArray, cost: Fraction, *, neutral: bool) -> FloatArray:
    """New centres: the released means of the columns that lie far from theirs."""
    middles = [
        replace(each, map=Map(clip=each.map.clip, middle=each.map.clip.middle, width=each.map.clip.radius))
        for each in columns
    ]
    box = box_of(middles, neutral=neutral, only=far)
    measurement = VectorSum(affine=AffineMap(dim=len(columns)), radius=math.sqrt(far.sum()), box=box)
    totals = run.release(measurement, name="new centres", cost=cost).value
    center = np.array([each.column.center for each in columns])
    for place in np.flatnonzero(far):
        mapped = middles[place].map
        shift = mapped.middle + mapped.width * float(totals[place]) / run.rows.n
        shift = min(max(shift, -mapped.clip.below), mapped.clip.above)
        center[place] += mapped.clip.absolute(shift)
    largest = np.finfo(np.float64).max
    return np.asarray(np.clip(center, -largest, largest))


def count(run: Run, public: FloatArray, shares: Shares, *, bounds: Bounds, neutral: bool) -> tuple[list[Seen], Shares]:
    """Release the counts and say what they show; what is left for the sum is in the shares that come back."""

    def ask(center: FloatArray, cost: Fraction) -> ColumnCounts:
        cells = SignedCells(center=center, log2_parts=shares.log2_parts, neutral=neutral)
        found = run.release(cells, name="signed dyadic cells", cost=cost, cells_per_octave=shares.parts)
        return ColumnCounts(center=center, values=found.value, std=np.full(shares.dim, found.noise_std))

    again = can_ask_again(shares)
    counts = ask(lower_medians(public), shares.cells)
    columns = look(counts, public, shares, bounds)
    for _ in range(MOST_MOVES if again else 0):
        far = np.array([lies_far(each) for each in columns])
        if not far.any():
            break
        center = moved(run, columns, far, shares.total * MOVE_SUM, neutral=neutral)
        counts = counts.joined(ask(center, shares.total * MOVE_COUNTS))
        shares = replace(shares, total=shares.total * (1 - MOVE_SUM - MOVE_COUNTS))
        columns = look(counts, public, shares, bounds)
    else:
        return columns, shares
    share = spared(columns, shares)
    if share:
        counts = counts.joined(ask(counts.center, shares.total * share))
        shares = replace(shares, total=shares.total * (1 - share))
        columns = look(counts, public, shares, bounds)
    return columns, shares
