"""Search for mixtures on the line that fit counts of cells.

Cells finer than the rounding of values are alternately full and empty; they are merged. Mixtures are computed from the counts, and
those of public rows if there are any, without a privacy cost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.axis_aligned import cell_fits
from fastpubpriv.mixtures.axis_aligned.cell_fits import CellHistogram, RefinedFit
from fastpubpriv.mixtures.axis_aligned.places import ColumnRange
from fastpubpriv.mixtures.gaussian_mixture import GaussianMixture, by_score


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


@dataclass(frozen=True, slots=True, eq=False)
class SmoothedCells:
    """Counts of the cells of a column, merged where they show a comb, and what is known of rounded values."""

    cells: CellHistogram
    tied: float  # share of tied pairs of rows
    step: float  # of the comb, or a bound on that between values
    smooth: bool  # whether neither pairs nor cells show rounded values


def smoothed(cells: CellHistogram, column: ColumnRange, *, known_std: bool) -> SmoothedCells:
    """Return the counts of cells of a column without a comb; with a known deviation they are left as they are."""
    comb = 0.0
    if not known_std:
        cells, comb = without_comb(cells, column.widest_comb)
    if comb == 0.0:
        return SmoothedCells(cells, column.tied, column.step, smooth=column.tied == 0.0)
    tied = max(column.tied, tied_in(cells))
    return SmoothedCells(cells, tied, comb, smooth=False)


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


def atoms_of_std(singles: GaussianMixture, std: float) -> GaussianMixture:
    """Return candidate normals of one known standard deviation, at the means of others."""
    middles = np.unique(np.rint(singles.means[:, 0] / (0.5 * std))) * 0.5 * std
    ones = np.ones((len(middles), 1))
    return GaussianMixture(ones, middles[:, None], std * ones)


def searched(
    cells: CellHistogram, components: int, *, std: float | None = None
) -> list[RefinedFit]:
    """Return the best fit to the counts, a batch of one, for each number of components; none if the linear algebra fails."""
    # A power of two as the unit keeps squares finite.
    unit = 2.0 ** math.floor(math.log2(cells.resolution))
    near = np.clip(cells.edges[1:-1] / unit, -1e100, 1e100)
    scaled = replace(cells, edges=np.concatenate([[-np.inf], near, [np.inf]]))
    heads: list[RefinedFit] = []
    try:
        with np.errstate(all="ignore"):
            singles = atoms(scaled)
            if std is not None:
                singles = atoms_of_std(singles, std / unit)
            for level in beam(scaled, singles, components):
                fit = cell_fits.refine(scaled, level, steps=40, fixed_std=std is not None)
                usable = np.isfinite(fit.score)
                if level.weights.shape[1] > 1:
                    usable &= significant(scaled, fit.mixtures)
                order = by_score(fit.score)
                best = order[usable[order]][:1]
                if len(best):
                    mixture = fit.mixtures[best].mapped(0.0, unit)
                    heads.append(RefinedFit(mixture, fit.score[best], fit.spread[best]))
    except np.linalg.LinAlgError:
        return []
    return heads


def best_fit(
    heads: list[RefinedFit], total: int, *, fixed_std: bool = False
) -> tuple[GaussianMixture, FloatArray]:
    """Return the best fit to the counts of `total` rows by a BIC-like criterion, as a batch of one, and its `RefinedFit.spread`."""
    # The penalty is log(rows) per parameter, since noise in one distant cell would otherwise give a component.
    of_component = math.log(max(total, 8)) * (2 if fixed_std else 3)

    def criterion(head: RefinedFit) -> float:
        components: int = head.mixtures.weights.shape[1]
        return float(head.score[0]) + of_component * components

    best = min(heads, key=criterion)
    return best.mixtures, best.spread[0]


def nothing() -> GaussianMixture:
    """Return an empty batch of mixtures."""
    return GaussianMixture(np.zeros((0, 1)), np.zeros((0, 1)), np.ones((0, 1)))
