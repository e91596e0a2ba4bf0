"""Search for mixtures on the line that fit counts of cells, and the private search for where cells should be fine.

Without public rows, paper C's Algorithms 3 and 2 find scales and locations with stable histograms, which need no range. The range
is released then, so other rows are counted in ordinary public cells, finely and without a threshold: a fine thresholded histogram
would lose every bin with fewer than about thirty rows. Cells finer than the rounding of values are alternately full and empty; they
are merged. Mixtures are computed from the counts, and those of public rows if there are any, without a privacy cost.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.kernels.bins import BinRule
from fastpubpriv.mechanisms.stable_histograms import Partition, StableHistograms
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.axis_aligned import axis_method, cell_fits
from fastpubpriv.mixtures.axis_aligned.cell_fits import CellHistogram, RefinedFit
from fastpubpriv.mixtures.gaussian_mixture import GaussianMixture, by_score
from fastpubpriv.mixtures.list_decoding.decoders import check_histograms, scale_partitions
from fastpubpriv.mixtures.list_decoding.results import SCALE_MASS
from fastpubpriv.privacy import ApproxDP, StableHistogramEvent
from fastpubpriv.privacy.calibration import stable_event
from fastpubpriv.session import Session
from fastpubpriv.sources import Rows


def significant(cells: CellHistogram, mixtures: GaussianMixture) -> BoolArray:
    """Return which mixtures (size,) have only components that are significant given noise and number of cells, or public rows."""
    reach = 2.0 * mixtures.stds
    first = np.searchsorted(cells.edges, mixtures.means - reach, side="right")
    spanned = np.maximum(
        np.searchsorted(cells.edges, mixtures.means + reach, side="left") - first + 1, 1
    )
    tail = tuning.FEIGNED * np.minimum(spanned / len(cells.counts), 1.0)
    # The quantile of one count with exponential tails, which tends to the normal one for sums of several counts.
    normal = -ndtri(tail)
    single = -np.log(2.0 * tail) / math.sqrt(2.0)
    least = cells.noise_std * (normal * np.sqrt(spanned) + np.maximum(single - normal, 0.0))
    is_seen = mixtures.weights * cells.total > least
    is_seen |= mixtures.weights * cells.of_public.sum() > tuning.SEEN_ROWS
    is_significant: BoolArray = np.all((mixtures.weights == 0.0) | is_seen, axis=1)
    return is_significant


def unseen(
    cells: CellHistogram, means: FloatArray, stds: FloatArray, *, widest: float = math.inf
) -> BoolArray:
    """Return which components (...,) are narrower than the cell (at most `widest` wide) of their mean and may be one value."""
    place = np.clip(np.searchsorted(cells.edges, means, side="right") - 1, 1, len(cells.edges) - 3)
    width = cells.edges[place + 1] - cells.edges[place]
    return (stds < 0.5 * width) & (width <= widest)


def unevenness(
    cells: CellHistogram, edges: FloatArray, step: float, phase: float
) -> tuple[float, float]:
    """Return the unevenness of counts in intervals of length `step` (1 if each has a single tooth), and the number of teeth."""
    middles = (edges[1:] + edges[:-1]) / 2.0
    widths = np.diff(edges)
    fine = widths <= step / 4.0
    if not fine.any():
        return 0.0, 0.0
    counts = cells.counts[1:-1][fine]
    _, place = np.unique(np.floor((middles[fine] - phase) / step), return_inverse=True)
    held = np.bincount(place, counts)
    many = np.bincount(place)
    squares = np.bincount(place, counts * counts) - many * cells.noise_std**2
    held_sq = np.maximum(held * held - many * cells.noise_std**2, 0.0)
    # Counts have Poisson variance in addition to the noise; intervals of few rows are ignored.
    enough = (held > 8.0 * cells.noise_std * np.sqrt(many)) & (many > 1)
    if not enough.any():
        return 0.0, 0.0
    even = held_sq / many
    uneven = (squares - even - held)[enough] / np.maximum((held_sq - even)[enough], 1e-300)
    share = held[enough] / held[enough].sum()
    return float(share @ np.clip(uneven, 0.0, 1.0)), 1.0 / float(share @ share)


def step_of_comb(cells: CellHistogram, bound: float) -> tuple[float, float] | None:
    """Return step and phase of a comb that the cells show, the step being `bound` or a half, a quarter and so on of it."""
    edges = cells.edges[1:-1]
    if not 0.0 < bound < math.inf or len(edges) < 4:
        return None
    heavy = int(np.argmax(cells.counts[1:-1]))
    for halvings in range(tuning.HALVED_STEPS + 1):
        step = math.ldexp(bound, -halvings)
        phase = (edges[heavy] + edges[heavy + 1]) / 2.0 - step / 2.0
        uneven, teeth = unevenness(cells, edges, step, phase)
        if uneven >= tuning.UNEVEN and teeth >= tuning.LEAST_TEETH:
            return step, float(phase)
    return None


def without_comb(cells: CellHistogram, bound: float) -> tuple[CellHistogram, float]:
    """Return the cells, merged to one tooth each if they show a comb of a step of at most `bound`; and that step, 0 without."""
    comb = step_of_comb(cells, bound)
    if comb is None:
        return cells, 0.0
    step, phase = comb
    edges = cells.edges[1:-1]
    # Keep the edge nearest to each line of the coarse grid, and all edges between cells that are already wide enough.
    lines = np.rint((edges - phase) / step)
    nearest: dict[float, int] = {}
    for index, line in enumerate(lines.tolist()):
        best = nearest.setdefault(line, index)
        if abs(edges[index] - phase - line * step) < abs(edges[best] - phase - line * step):
            nearest[line] = index
    wide = np.diff(edges) >= step
    keep = np.zeros(len(edges), dtype=bool)
    keep[list(nearest.values())] = True
    keep[0] = keep[-1] = True
    keep[1:] |= wide
    keep[:-1] |= wide
    begins = np.concatenate([[0], 1 + np.flatnonzero(keep)])
    counts = np.add.reduceat(cells.counts, begins)
    most = float(np.diff(np.append(begins, len(cells.counts))).max())
    merged = np.concatenate([[-np.inf], edges[keep], [np.inf]])
    public = None if cells.public is None else np.add.reduceat(cells.public, begins)
    noise_std = cells.noise_std * math.sqrt(most)
    return replace(cells, edges=merged, counts=counts, noise_std=noise_std, public=public), step


def tied_in(cells: CellHistogram) -> float:
    """Return the share of pairs of rows that are in the same cell, from noisy counts."""
    total = max(float(np.sum(np.maximum(cells.counts, 0.0))), 1.0)
    squares = float(np.sum(np.square(cells.counts))) - len(cells.counts) * cells.noise_std**2
    return min(max(squares / total**2, 0.0), 1.0)


# ---- Beam search for subsets of atoms whose nonnegative least squares fit explains the noisy counts best --------------

_LOOK = 40 * tuning.BEAM
_BATCH = 1 << 20  # maximum entries in an array of many small linear systems


def linear(cells: CellHistogram, mixtures: GaussianMixture) -> tuple[FloatArray, FloatArray]:
    """Return the Gram matrix of the atoms' masses (atoms, atoms) by the precisions of shares, and their products with these.

    The shares of public rows in cells count beside those of the noisy counts.
    """
    masses = cell_fits.cell_masses(mixtures, cells.edges)[0][:, 0, :]
    precision = cells.total / (cells.noise_std**2 + np.maximum(cells.counts, 0.0))
    weighted = precision * cells.counts
    precision *= cells.total
    if cells.public is not None:
        # Few rows in a cell: one more keeps empty cells from being certain.
        rows = cells.public.sum()
        public = rows / (cells.public + 1.0)
        weighted += public * cells.public
        precision += public * rows
    return (masses * precision) @ masses.T, masses @ weighted


def distinct_rows(subsets: IntArray, atoms: int) -> IntArray:
    """Return the distinct rows of sorted subsets (size, k) of so many atoms, in lexicographic order."""
    code = np.zeros(len(subsets), dtype=np.int64)
    for column in subsets.T:
        # Ranks in place of codes, which would overflow.
        _, code = np.unique(code * atoms + column, return_inverse=True)
    _, first = np.unique(code, return_index=True)
    return subsets[first]


def _explained(
    gram: FloatArray, product: FloatArray, subsets: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Fit the counts by each subset of atoms: return weights, and the decrease of squares; -inf if a weight is not positive."""
    count, size = subsets.shape
    shares = np.empty((count, size))
    gain = np.empty(count)
    step = max(1, _BATCH // (size * size))
    for first in range(0, count, step):
        part = subsets[first : first + step]
        matrix = gram[part[:, :, None], part[:, None, :]]
        ridge = 1e-9 * np.einsum("spp->sp", matrix)
        right = product[part]
        solved = np.linalg.solve(matrix + ridge[:, :, None] * np.eye(size), right[:, :, None])[
            :, :, 0
        ]
        shares[first : first + step] = solved
        gain[first : first + step] = np.where(
            np.all(solved > 0.0, axis=1), np.sum(solved * right, axis=1), -np.inf
        )
    return shares, gain


def beam(cells: CellHistogram, mixtures: GaussianMixture, components: int) -> list[GaussianMixture]:
    """Return for each number of components the mixtures of atoms with positive weights that explain the counts best."""
    gram, product = linear(cells, mixtures)
    octave = np.rint(np.log2(mixtures.stds[:, 0]))
    place = np.floor(mixtures.means[:, 0] / (2.0 * mixtures.stds[:, 0]))
    subsets = np.zeros((1, 0), dtype=np.int64)
    levels: list[GaussianMixture] = []
    for _ in range(components):
        base, atom = np.divmod(np.arange(len(subsets) * mixtures.size), mixtures.size)
        grown = np.sort(np.column_stack([subsets[base], atom]), axis=1)
        grown = distinct_rows(grown[(np.diff(grown, axis=1) > 0).all(axis=1)], mixtures.size)
        shares, gain = _explained(gram, product, grown)
        # The best subsets, without those that differ from a better one only by a neighboring atom.
        distinct_ones: dict[tuple[tuple[float, float], ...], int] = {}
        for index in np.argsort(-gain)[:_LOOK].tolist():
            key = tuple(sorted((octave[each], place[each]) for each in grown[index].tolist()))
            distinct_ones.setdefault(key, index)
        best = [
            index for index in [*distinct_ones.values()][: tuning.BEAM] if np.isfinite(gain[index])
        ]
        if not best:  # no subset has positive weights
            break
        subsets = grown[best]
        weights = np.maximum(shares[best], 1e-3)
        weights /= weights.sum(axis=1, keepdims=True)
        levels.append(
            GaussianMixture(weights, mixtures.means[subsets, 0], mixtures.stds[subsets, 0])
        )
    return levels


# maximum edges of `partition`: cuts, ends of pieces, and cells of doubling width around islands
MOST_EDGES = 2**13


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


def atoms(cells: CellHistogram) -> GaussianMixture:
    """Return candidate normals for the beam search: means at cells, half a standard deviation apart, with dyadic stds."""
    inner = cells.edges[1:-1]
    counts = cells.counts[1:-1]
    held = (counts > 0.5 * cells.noise_std) | (cells.of_public[1:-1] > 0.0)
    places = np.flatnonzero(held) if held.any() else np.arange(len(counts))
    middles = ((inner[1:] + inner[:-1]) / 2.0)[places]
    widths = np.diff(inner)[places]
    span = float(inner[-1] - inner[0])
    means: list[float] = []
    stds: list[float] = []
    for level in range(64):
        std = 0.5 * cells.resolution * 2.0**level
        if std > span or std <= 0.0:
            break
        last = -math.inf
        for middle, width in zip(middles.tolist(), widths.tolist(), strict=True):
            if width <= 4.0 * std and middle - last >= 0.5 * std:
                means.append(middle)
                stds.append(std)
                last = middle
    return GaussianMixture(
        np.ones((len(means), 1)), np.array(means)[:, None], np.array(stds)[:, None]
    )


def distinct(
    mixtures: GaussianMixture, order: IntArray, *, limit: int, tolerance: float = 0.02
) -> IntArray:
    """Return up to `limit` indices in `order` whose parameters differ from those of all earlier ones."""
    rank = np.argsort(mixtures.means, axis=1)
    chosen = list[int]()
    weights, means, stds = (
        np.take_along_axis(part, rank, axis=1)
        for part in (mixtures.weights, mixtures.means, mixtures.stds)
    )
    scale = np.maximum(stds, 1e-300)
    for index in order.tolist():
        share = weights[chosen] - weights[index]
        gap = (means[chosen] - means[index]) / scale[index]
        apart = np.abs([share, gap, np.log(scale[chosen] / scale[index])]).max(axis=(0, 2))
        if not (apart < tolerance).any():
            chosen.append(index)
        if len(chosen) == limit:
            break
    return np.array(chosen, dtype=np.int64)


def searched(
    cells: CellHistogram, components: int, *, std: float | None = None
) -> list[RefinedFit]:
    """Return the best distinct fits to the counts for each number of components; none if the linear algebra fails."""
    # A power of two as the unit keeps squares finite.
    unit = 2.0 ** math.floor(math.log2(cells.resolution))
    near = np.clip(cells.edges[1:-1] / unit, -1e100, 1e100)
    scaled = replace(cells, edges=np.concatenate([[-np.inf], near, [np.inf]]))
    std = None if std is None else std / unit
    heads: list[RefinedFit] = []
    try:
        with np.errstate(all="ignore"):
            singles = atoms(scaled)
            if std is not None:
                middles = np.unique(np.rint(singles.means[:, 0] / (0.5 * std))) * 0.5 * std
                singles = GaussianMixture(
                    np.ones((len(middles), 1)), middles[:, None], np.full((len(middles), 1), std)
                )
            for level in beam(scaled, singles, components):
                k = level.weights.shape[1]
                fit = cell_fits.refine(scaled, level, steps=40, fixed_std=std is not None)
                order = by_score(fit.score)
                usable = np.isfinite(fit.score[order])
                if k > 1:
                    usable &= significant(scaled, fit.mixtures[order])
                chosen = distinct(fit.mixtures, order[usable], limit=6)
                if len(chosen):
                    # Scores are penalized by the number of parameters.
                    score = fit.score[chosen] + 2.0 * (k * (3 if std is None else 2) - 1)
                    heads.append(
                        RefinedFit(
                            fit.mixtures[chosen].mapped(0.0, unit), score, fit.spread[chosen]
                        )
                    )
    except np.linalg.LinAlgError:
        return []
    return heads


def best_fit(
    heads: list[RefinedFit], total: int, *, fixed_std: bool = False
) -> tuple[GaussianMixture, FloatArray]:
    """Return the best fit to the counts of `total` rows by a BIC-like criterion, as a batch of one, and its `RefinedFit.spread`."""
    # The penalty is log(rows) per parameter, since noise in one distant cell would otherwise give a component.
    extra = (math.log(max(total, 8)) - 2.0) * (2 if fixed_std else 3)
    best = min(
        heads, key=lambda head: float(head.score.min()) + extra * head.mixtures.weights.shape[1]
    )
    index = int(by_score(best.score)[0])
    return best.mixtures[[index]], best.spread[index]


def nothing() -> GaussianMixture:
    """Return an empty batch of mixtures."""
    return GaussianMixture(np.zeros((0, 1)), np.zeros((0, 1)), np.ones((0, 1)))


_EXPONENTS = 500  # scales from 2^-500 to 2^500, whose squares are representable


def rows_for_distant(components: int, budget: ApproxDP) -> int:
    """Return about how many rows show the scales of equal components: a bin with SCALE_MASS of the pairs within is released."""
    event = stable_event(budget.epsilon, budget.delta, histograms=1, n=10**6, draws=10**6)
    pairs = event.count_threshold * components**2 / SCALE_MASS
    return math.ceil(2.0 * pairs * sum(tuning.LINE_SHARES) / tuning.LINE_SHARES[0])


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


def shown_scales(
    run: Session, pairs: Rows | None, most: int, components: int
) -> tuple[list[list[float]], list[float], list[float]]:
    """Release for each column the scales of pairs (1 without pairs), the share of tied pairs, and a bound on the step."""
    dim = run.rows.dim
    if pairs is None:
        return [[1.0]] * dim, [0.0] * dim, [0.0] * dim
    run = run.block(pairs)
    released = run.release(
        StableHistograms(partitions=scale_partitions(run.rows.dim)),
        name="scales",
        cost=run.account.approx_left,
    )
    scales = [
        kept_scales(each.keys, each.counts, released.noise_std, most)
        for each in released.histograms
    ]
    return scales, *axis_method.ties_of(released, run.rows.n, components)


def shown_places(run: Session, scales: list[list[float]]) -> list[list[DyadicScale]]:
    """Release and return for each column the cells, some scales wide, that hold rows; nothing for a column without scales."""
    places: list[list[DyadicScale]] = [[] for _ in scales]
    asked = [(column, scale) for column, listed in enumerate(scales) for scale in listed]
    if not asked:
        return places
    released = run.release(
        StableHistograms(partitions=[place_partition(column, scale) for column, scale in asked]),
        name="places",
        cost=run.account.approx_left,
    )
    for (column, scale), histogram in zip(asked, released.histograms, strict=True):
        if len(histogram.keys):
            places[column].append(
                DyadicScale(tuning.CELLS_PER_SCALE * scale, histogram.keys[:, 0], histogram.counts)
            )
    return places


def check_stages(run: Session, pairs: Rows | None, places: Rows, most: int) -> StableHistogramEvent:
    """Raise before the debit if histograms of scales and of `most` places have no noise grid or memory; fewer need less."""
    if pairs is not None:
        check_histograms(run, scale_partitions(pairs.dim), pairs.n)
    return check_histograms(run, [place_partition(0, 1.0)] * most, places.n)
