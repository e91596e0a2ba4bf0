"""Where the values of each column lie, from private rows: edges of cells that are fine there.

Two ways with one interface. With a delta, stable histograms need no range (paper C, Algorithms 3 and 2): pairs of one block of
rows show the scales of each column, another block the places of its values, and the other rows are left for all that follows.
Within bounds of the caller, looks at cells find the places on all rows (`bounded_range`). Either way the range is released, so that
rows are then counted in ordinary public cells, finely and without a threshold: a fine thresholded histogram would lose every bin
with fewer than about thirty rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np
from scipy.special import ndtri

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.estimators.output_bounds import Box
from fastpubpriv.kernels.bins import BinRule
from fastpubpriv.mechanisms.stable_histograms import Partition, StableHistograms, StableRelease
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.axis_aligned import bounded_range
from fastpubpriv.mixtures.list_decoding.decoders import check_histograms, scale_partitions
from fastpubpriv.mixtures.list_decoding.results import SCALE_MASS
from fastpubpriv.privacy.conversions import gdp_mu
from fastpubpriv.privacy.spending import Spending
from fastpubpriv.session import Session
from fastpubpriv.sources import Rows
from fastpubpriv.sources.views import DistantPairs, interleave_rows

# ---- Cells that are fine where histograms show rows.


@dataclass(frozen=True, slots=True, eq=False)
class DyadicScale:
    """A released histogram of dyadic cells (index width, (index + 1) width]: the released cells and their noisy counts."""

    width: float
    index: IntArray
    counts: FloatArray


def nested_counts(scales: list[DyadicScale]) -> list[tuple[float, float, float]]:
    """Return disjoint cells (low, high, count) that explain nested histograms of the same rows, in ascending order."""
    # The excess of a coarse count over the fine ones inside it lies in cells too light to be released, so it is spread over the
    # rest of the coarse cell: generalized least squares on the tree, with the finer counts unchanged.
    pieces: list[tuple[float, float, float]] = []
    for scale in sorted(scales, key=lambda each: each.width):
        for index, count in zip(scale.index.tolist(), scale.counts.tolist(), strict=True):
            low = index * scale.width
            high = (index + 1) * scale.width
            inner = [cell for cell in pieces if cell[0] >= low and cell[1] <= high]
            rest = max(count - sum(cell[2] for cell in inner), 0.0)
            ends = [low, *(end for cell in sorted(inner) for end in cell[:2]), high]
            holes = [(a, b) for a, b in zip(ends[::2], ends[1::2], strict=True) if b > a]
            room = sum(b - a for a, b in holes)
            pieces += [(a, b, rest * (b - a) / room) for a, b in holes]
    return sorted(pieces)


def octaves() -> FloatArray:
    """Return dyadic edges of cells for values of unknown location, which give at least the order of magnitude."""
    powers = np.ldexp(1.0, np.arange(-40, 61))
    return np.concatenate([[-np.inf], -powers[::-1], [0.0], powers, [np.inf]])


def partition(
    scales: list[DyadicScale],
    *,
    counted: int,
    total: int,
    least: float = tuning.ROWS_PER_CELL,
    most: int = tuning.LINE_CELLS,
) -> FloatArray:
    """Return edges of at most MOST_EDGES cells that cover the line, fine where released histograms of `seen` rows show rows."""
    # Aims at `least` of `total` rows per cell, and at most about `most` cells; outside the released cells, widths double
    # outwards, so that a tail of any length is in some cell.
    # A scale with very many released cells is skipped: the cells of the next coarser one are cut by their counts instead.
    few = [scale for scale in scales if len(scale.index) <= tuning.MOST_PIECES]
    if scales and not few:
        widest = max(scales, key=lambda each: each.width)
        heaviest = np.sort(np.argsort(-widest.counts, kind="stable")[: tuning.MOST_PIECES])
        few = [DyadicScale(widest.width, widest.index[heaviest], widest.counts[heaviest])]
    pieces = nested_counts(few)
    if len(pieces) > tuning.MOST_PIECES:
        pieces = sorted(sorted(pieces, key=lambda piece: -piece[2])[: tuning.MOST_PIECES])
    mass = sum(count for _, _, count in pieces)
    if not pieces or mass <= 0.0:
        return octaves()
    wanted = max(max(least, total / most) * counted / total, mass / tuning.MOST_CUTS)
    least_cuts = 2 if len(pieces) <= 40 else 0
    edges: set[float] = set()
    narrow: dict[float, float] = {}
    for low, high, count in pieces:
        parts = 2 ** min(max(math.ceil(math.log2(max(count / wanted, 1.0))), least_cuts), 9)
        cuts = np.linspace(low, high, parts + 1)
        edges.update(cuts.tolist())
        for end in (low, high):
            narrow[end] = min(narrow.get(end, math.inf), (high - low) / parts)
    islands: list[list[float]] = []
    for low, high, _ in pieces:
        if islands and islands[-1][1] >= low:
            islands[-1][1] = max(islands[-1][1], high)
        else:
            islands.append([low, high])
    for position, (low, high) in enumerate(islands):
        left = (low - islands[position - 1][1]) / 2.0 if position else math.inf
        right = (islands[position + 1][0] - high) / 2.0 if position + 1 < len(islands) else math.inf
        for step in range(tuning.DOUBLINGS):
            reach = (2.0**step) * 2.0
            if narrow[low] * reach < left:
                edges.add(low - narrow[low] * reach)
            if narrow[high] * reach < right:
                edges.add(high + narrow[high] * reach)
    # A value at the end of a narrow piece belongs to the next cell, which must be as narrow.
    ends = sorted(edges)
    for end, following in itertools.pairwise(ends):
        if end in narrow and following - end > 4.0 * narrow[end]:
            edges.add(end + max(narrow[end], 4.0 * float(np.spacing(abs(end)))))
    finite = np.array(sorted(edges))
    return np.concatenate([[-np.inf], finite[np.isfinite(finite)], [np.inf]])


# ---- Scales of pairs.

_EXPONENTS = 500  # scales from 2^-500 to 2^500, whose squares are representable


def kept_scales(keys: IntArray, counts: FloatArray, noise_std: float, most: int) -> list[float]:
    """Return the scales 2^(key + 1) of dyadic bins with significant pairs of their own, ascending, at most `most`."""
    # Differences of a smooth density fill each finer bin half as much, so only the excess over that is evidence for a scale.
    # The heaviest half is kept, and the finest of the others: if components are far apart, differences between them
    # fill the heaviest bins, and those within them are finer.
    held = dict(zip(keys[:, 0].tolist(), counts.tolist(), strict=True))
    own = [
        key
        for key, count in held.items()
        if abs(key) <= _EXPONENTS
        and count - 0.5 * held.get(key + 1, 0.0)
        > tuning.EXCESS
        * math.sqrt(1.25 * noise_std**2 + max(count, 0.0) + 0.25 * max(held.get(key + 1, 0.0), 0.0))
    ]
    heavy = sorted(own, key=lambda key: (-held[key], key))
    half = most - most // 2
    return [2.0 ** (key + 1) for key in sorted([*heavy[:half], *sorted(heavy[half:])[: most // 2]])]


def place_partition(column: int, scale: float) -> Partition:
    """Return cells (i w, (i + 1) w] with w a few scales; w is a power of two, so cells of all scales are nested."""
    width = tuning.CELLS_PER_SCALE * scale
    return Partition((column,), (BinRule(width, width / 2.0),))


@dataclass(frozen=True, slots=True, eq=False)
class ColumnScales:
    """Scales of the pairs of a column, the share of tied pairs, 0 if not significant, and a bound on the step between values."""

    scales: list[float]
    tied: float = 0.0
    step: float = 0.0


def column_scales(
    released: StableRelease, pairs: int, most: int, components: int
) -> list[ColumnScales]:
    """Return the scales of each column, at most so many, from released dyadic bins of the differences of pairs.

    Zero is in no bin, so that pairs missing from the counts, beyond what a threshold may hide, are ties. The step is at most the
    end of the finest released bin, inf without bins.
    """
    columns = []
    for histogram in released.histograms:
        keys = histogram.keys
        counts = histogram.counts
        scales = kept_scales(keys, counts, released.noise_std, most)
        hidden = tuning.HIDDEN_BINS * released.threshold * components
        hidden += tuning.HIDDEN_STDS * released.noise_std * math.sqrt(max(1, len(counts)))
        missing = pairs - float(np.sum(counts))
        tied = missing / pairs if missing > hidden else 0.0
        step = math.ldexp(1.0, min(int(np.min(keys)) + 1, 1023)) if len(keys) else math.inf
        columns.append(ColumnScales(scales, tied, step))
    return columns


# ---- Blocks of rows for scales and places, from public numbers.

EpsilonDelta = tuple[Fraction, Fraction]


def threshold(histograms: int, cost: EpsilonDelta) -> float:
    """Return the least count that so many joint stable histograms release at an (epsilon, delta), within 15 percent.

    A count of noise alone is released with probability delta; Gaussian noise is better for several histograms (`stable_event`).
    """
    epsilon, delta = cost
    hidden = float(delta) / histograms
    noise_std = math.sqrt(2.0 * histograms) / gdp_mu(epsilon, delta)
    gaussian = -noise_std * float(ndtri(hidden))
    scale = 2.0 * histograms / float(epsilon)
    exponential = -scale * math.log(2.0 * hidden)
    return 1.0 + min(gaussian, exponential)


@dataclass(frozen=True, slots=True)
class BlockShares:
    """Shares of the rows: for pairs (0 where variances are known) and for places; and the maximum number of scales of a column."""

    pairs: float
    places: float
    scales: int

    @classmethod
    def of(cls, n: int, dim: int, k: int, cost: EpsilonDelta, *, known_std: bool) -> BlockShares:
        """Return the shares that thresholds of histograms at this (epsilon, delta) ask for."""
        scales = 1
        for more in range(2, 1 if known_std else tuning.COLUMN_SCALES + 1):
            if threshold(more * dim, cost) <= tuning.MOST_THRESHOLD * n:
                scales = more
        least, most, many = tuning.PLACE_ROWS
        of_component, few = tuning.PLACE_THRESHOLDS
        visible = threshold(dim * min(scales, k + 1), cost) / n
        if few * visible > most:
            most = many
        places = min(max(of_component * k * visible, least), most)
        if known_std:
            return cls(0.0, places, scales)
        at_least, of_pairs, most = tuning.PAIR_THRESHOLDS
        visible = threshold(dim, cost) / n
        # only pairs within a component show its scale
        wanted = max(at_least * visible, min(of_pairs * k * k * visible, most))
        fewest, most = tuning.PAIR_ROWS
        return cls(min(max(wanted, fewest), most), places, scales)

    @property
    def rest(self) -> float:
        """Share of the other rows."""
        return 1.0 - self.pairs - self.places

    @property
    def thousandths(self) -> list[int]:
        """Relative rows of the blocks: pairs (unless variances are known), places, rest."""
        shares = [self.places, self.rest]
        if self.pairs:
            shares.insert(0, self.pairs)
        return [round(1000.0 * share) for share in shares]


# ---- The two ways.


@dataclass(frozen=True, slots=True)
class CellSize:
    """How large cells are: the least rows of an average one, and about how many of them a column has at most."""

    rows: float
    cells: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnRange:
    """Edges of cells that cover a column, and what was released to find them."""

    edges: FloatArray
    located: bool = True  # whether its scales and places were released
    places: int = 0  # released cells that hold rows
    scales: list[float] = field(default_factory=list)
    tied: float = 0.0  # share of tied pairs
    step: float = math.inf  # bound on the step between values
    widest_comb: float  # largest step between values that the cells may show


@dataclass(frozen=True, slots=True, eq=False)
class HistogramRange:
    """Blocks of rows that show scales and places by stable histograms, and the rest of the rows."""

    pairs: Rows | None  # None where variances are known
    rows: Rows  # for places
    rest: Rows
    most_scales: int  # of a column
    spare_scales: list[float] = field(default_factory=list)  # of a column whose pairs show none
    looks: ClassVar[Fraction] = Fraction(0)

    @classmethod
    def of(
        cls, rows: Rows, shares: Sequence[int], most_scales: int, spare_scales: Sequence[float] = ()
    ) -> HistogramRange:
        """Return the blocks of these relative numbers of rows: pairs (unless variances are known), places, rest."""
        *before, places, rest = interleave_rows(rows, *shares)
        pairs = DistantPairs(before[0]) if before else None
        return cls(pairs, places, rest, most_scales, list(spare_scales))

    def check(self, run: Session) -> float:
        """Raise before the debit if a histogram has no noise grid or memory; return how many rows in one place would show."""
        # Checked for the maximum number of histograms: fewer need less.
        dim = self.rest.dim
        if self.pairs is not None:
            check_histograms(run, scale_partitions(dim), self.pairs.n)
        partitions = [place_partition(0, 1.0)] * (dim * self.most_scales)
        event = check_histograms(run, partitions, self.rows.n)
        lacking = (event.count_threshold + 2.0 * event.count_noise_std) / self.rows.n
        if self.pairs is not None:
            needed = threshold(dim, run.account.approx_left) / SCALE_MASS
            lacking = max(lacking, needed / self.pairs.n)
        return lacking * run.rows.n

    def on_rest(self, run: Session) -> Session:
        """Return the session of the rest, after the release of the range."""
        return run.block(self.rest)

    def release_edges(self, run: Session, components: int, size: CellSize) -> list[ColumnRange]:
        """Release scales of pairs (1 without pairs) and places of each column; return cells of this size."""
        columns = [ColumnScales([1.0])] * run.rows.dim
        if self.pairs is not None:
            on_pairs = run.block(self.pairs)
            partitions = scale_partitions(run.rows.dim)
            released = on_pairs.release(
                StableHistograms(partitions=partitions),
                name="scales",
                cost=on_pairs.account.approx_left,
            )
            columns = column_scales(released, self.pairs.n, self.most_scales, components)
        places = self.release_places(run, [each.scales or self.spare_scales for each in columns])
        return [self.cells(*both, size) for both in zip(columns, places, strict=True)]

    def release_places(self, run: Session, scales: list[list[float]]) -> list[list[DyadicScale]]:
        """Release and return for each column the cells, some scales wide, that hold rows; nothing for one without scales."""
        run = run.block(self.rows)
        places: list[list[DyadicScale]] = [[] for _ in scales]
        asked = [(column, scale) for column, listed in enumerate(scales) for scale in listed]
        if not asked:
            return places
        partitions = [place_partition(column, scale) for column, scale in asked]
        released = run.release(
            StableHistograms(partitions=partitions), name="places", cost=run.account.approx_left
        )
        for (column, scale), histogram in zip(asked, released.histograms, strict=True):
            if len(histogram.keys):
                width = tuning.CELLS_PER_SCALE * scale
                held = DyadicScale(width, histogram.keys[:, 0], histogram.counts)
                places[column].append(held)
        return places

    def cells(self, known: ColumnScales, places: list[DyadicScale], size: CellSize) -> ColumnRange:
        """Return cells of a column that are fine at its places, and of all sizes if its pairs showed no scale."""
        edges = partition(
            places, counted=self.rows.n, total=self.rest.n, least=size.rows, most=size.cells
        )
        if not known.scales:
            edges = np.union1d(edges, octaves())
        return ColumnRange(
            edges=edges,
            located=bool(known.scales and places),
            places=sum(len(place.index) for place in places),
            scales=known.scales,
            tied=known.tied,
            step=known.step,
            widest_comb=known.step,
        )


@dataclass(frozen=True, slots=True, eq=False)
class BoundedRange:
    """Bounds of the columns, within which looks at cells of all rows show places."""

    box: Box
    rest: Rows
    spending: Spending  # of which looks cost their shares

    @property
    def looks(self) -> Fraction:
        """Largest share of all looks."""
        return bounded_range.share_of_looks(self.spending)

    def check(self, run: Session) -> float:
        """Raise before the debit if a look has no noise grid; return how many rows are needed, which is none."""
        bounded_range.check(self.spending, self.rest.dim, self.rest.n)
        return 0.0

    def on_rest(self, run: Session) -> Session:
        """Return the session itself, of all rows."""
        return run

    def release_edges(self, run: Session, components: int, size: CellSize) -> list[ColumnRange]:
        """Release looks; return cells of this size."""
        wanted = max(size.rows, run.rows.n / size.cells)
        columns = bounded_range.looked_edges(
            run, self.box, components, self.spending, wanted=wanted
        )
        return [
            ColumnRange(edges=edges, widest_comb=bounded_range.widest_step(edges))
            for edges in columns
        ]
