"""What released cells can show: components that stand out of the noise, widths, and the comb that rounded values make.

Cells finer than the rounding of values are full and empty in turn; they are put together. Post-processing of released counts.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.special import ndtri

from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.mixtures.axis_aligned.binned_em import Cells, Mixtures

# Share of the unevenness of a perfect comb, from which on the fine cells say nothing, and the least number of teeth.
UNEVEN = 0.5
LEAST_TEETH = 4.0
# Chance that noise makes a component somewhere among the cells.
FEIGNED = 0.01


def significant(cells: Cells, mixtures: Mixtures) -> BoolArray:
    """Which mixtures (size,) have no component that noise alone may have made in one of the many cells."""
    reach = 2.0 * mixtures.stds
    first = np.searchsorted(cells.edges, mixtures.means - reach, side="right")
    spanned = np.maximum(np.searchsorted(cells.edges, mixtures.means + reach, side="left") - first + 1, 1)
    tail = FEIGNED * np.minimum(spanned / len(cells.counts), 1.0)
    # The tail of one Laplace count, and towards that of a normal where several add up.
    normal, laplace = -ndtri(tail), -np.log(2.0 * tail) / math.sqrt(2.0)
    least = cells.noise_std * (normal * np.sqrt(spanned) + np.maximum(laplace - normal, 0.0))
    found: BoolArray = np.all((mixtures.weights == 0.0) | (mixtures.weights * cells.total > least), axis=1)
    return found


def unseen(cells: Cells, means: FloatArray, stds: FloatArray, *, widest: float = math.inf) -> BoolArray:
    """Which components (...,) are narrower than the cell that holds their mean: a density, or one value, nobody can tell.

    Only of cells at most `widest` wide.
    """
    place = np.clip(np.searchsorted(cells.edges, means, side="right") - 1, 1, len(cells.edges) - 3)
    width = cells.edges[place + 1] - cells.edges[place]
    found: BoolArray = (stds < 0.5 * width) & (width <= widest)
    return found


def unevenness(cells: Cells, edges: FloatArray, step: float, phase: float) -> tuple[float, float]:
    """How far counts within stretches of length `step` are from even, 1 for a single tooth each, and how many teeth there are."""
    middles, widths = (edges[1:] + edges[:-1]) / 2.0, np.diff(edges)
    fine = widths <= step / 4.0
    if not fine.any():
        return 0.0, 0.0
    counts = cells.counts[1:-1][fine]
    _, place = np.unique(np.floor((middles[fine] - phase) / step), return_inverse=True)
    held, many = np.bincount(place, counts), np.bincount(place)
    squares = np.bincount(place, counts * counts) - many * cells.noise_std**2
    held_sq = np.maximum(held * held - many * cells.noise_std**2, 0.0)
    # Poisson counts beside the noise; stretches of few rows say nothing.
    told = (held > 8.0 * cells.noise_std * np.sqrt(many)) & (many > 1)
    if not told.any():
        return 0.0, 0.0
    even = held_sq / many
    uneven = (squares - even - held)[told] / np.maximum((held_sq - even)[told], 1e-300)
    share = held[told] / held[told].sum()
    return float(share @ np.clip(uneven, 0.0, 1.0)), 1.0 / float(share @ share)


def without_comb(cells: Cells, step: float) -> tuple[Cells, bool]:
    """The cells put together to a width of `step`, teeth in their middle, if they show a comb of at most that step; and whether."""
    edges = cells.edges[1:-1]
    if not 0.0 < step < math.inf or len(edges) < 4:
        return cells, False
    heavy = int(np.argmax(cells.counts[1:-1]))
    phase = (edges[heavy] + edges[heavy + 1]) / 2.0 - step / 2.0
    uneven, teeth = unevenness(cells, edges, step, phase)
    if uneven < UNEVEN or teeth < LEAST_TEETH:
        return cells, False
    # The edge next to each line of the coarse grid, and all edges between cells that are wide enough already.
    lines = np.rint((edges - phase) / step)
    nearest: dict[float, int] = {}
    for index, line in enumerate(lines.tolist()):
        best = nearest.setdefault(line, index)
        if abs(edges[index] - phase - line * step) < abs(edges[best] - phase - line * step):
            nearest[line] = index
    wide = np.diff(edges) >= step
    kept = np.zeros(len(edges), dtype=bool)
    kept[list(nearest.values())] = True
    kept[0] = kept[-1] = True
    kept[1:] |= wide
    kept[:-1] |= wide
    begins = np.concatenate([[0], 1 + np.flatnonzero(kept)])
    counts = np.add.reduceat(cells.counts, begins)
    most = float(np.diff(np.append(begins, len(cells.counts))).max())
    merged = np.concatenate([[-np.inf], edges[kept], [np.inf]])
    return replace(cells, edges=merged, counts=counts, noise_std=cells.noise_std * math.sqrt(most)), True


def tied_in(cells: Cells) -> float:
    """Share of the pairs of rows in one cell, from noisy counts."""
    total = max(float(np.sum(np.maximum(cells.counts, 0.0))), 1.0)
    squares = float(np.sum(np.square(cells.counts))) - len(cells.counts) * cells.noise_std**2
    return min(max(squares / total**2, 0.0), 1.0)
