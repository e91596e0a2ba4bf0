"""Columns in which many rows share a value: counts, answers, constants. A density says little about them, and a status says so.

Nothing is released for it. Differences of pairs of rows are counted in dyadic bins, and a difference of zero is in none of them:
what the released counts leave unexplained, beyond what a threshold may hide, are pairs that tie. Public rows show theirs.
"""

from __future__ import annotations

import math

import numpy as np

from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.mechanisms.histograms import StableRelease
from fastpubpriv.mixtures.axis_aligned.learned import Learned

# Of a Gaussian's differences the threshold hides a few bins of its tails: their counts halve from bin to bin.
HIDDEN_BINS = 4.0
DEVIATIONS = 3.0
# Widths in steps from which a lattice is as good as a density, and how many times more ties than a lattice makes are no lattice's.
STEPS_WIDE = 2.0
MOST_UNEXPLAINED = 3.0
# The share of pairs of public rows that tie in a column of atoms, and the fewest that show it.
PUBLIC_SHARE = 0.05
LEAST_TIED = 3
# A component narrower than another one by this factor may stand for one value.
NARROW = 100.0
# A width below this share of the mean's size is the rounding of numbers.
ROUNDING = 1e-9


def tied_shares(found: StableRelease, pairs: int, components: int) -> list[float]:
    """For each column the share of its pairs that tie, from the released dyadic bins of their differences; 0 if none need to."""
    shares = []
    for histogram in found.histograms:
        hidden = HIDDEN_BINS * found.threshold * components
        hidden += DEVIATIONS * found.noise_std * math.sqrt(max(1, len(histogram.counts)))
        missing = pairs - float(np.sum(histogram.counts))
        shares.append(missing / pairs if missing > hidden else 0.0)
    return shares


def finest_differences(found: StableRelease) -> list[float]:
    """For each column an upper bound of the step between values: the end of the finest released bin; inf where there is none."""
    return [
        math.ldexp(1.0, min(int(np.min(histogram.keys)) + 1, 1023)) if len(histogram.keys) else math.inf
        for histogram in found.histograms
    ]


def public_ties(x_pub: FloatArray) -> tuple[list[float], list[float]]:
    """For each column the share of pairs of public rows that tie, 0 below what chance and rounding may do, and the least step."""
    n_pub = len(x_pub)
    shares, steps = [], []
    for column in x_pub.T:
        values, counts = np.unique(column, return_counts=True)
        tied = float(np.sum(counts * (counts - 1.0))) / 2.0
        share = tied / max(1.0, n_pub * (n_pub - 1.0) / 2.0)
        shares.append(share if tied >= LEAST_TIED and share > PUBLIC_SHARE else 0.0)
        gaps = np.diff(values)
        gaps = gaps[gaps > ROUNDING * float(np.abs(values).max())]
        steps.append(float(gaps.min()) if len(gaps) else math.inf)
    return shares, steps


def expected_ties(weights: FloatArray, means: FloatArray, stds: FloatArray, step: float) -> float:
    """Share of pairs of a mixture (k,) on the line that tie when its values are rounded to multiples of `step`."""
    spread = np.hypot(stds[:, None], stds)
    apart = np.minimum(np.abs(means[:, None] - means) / np.maximum(spread, 1e-300), 40.0)
    same = np.minimum(step * np.exp(-0.5 * apart**2) / (math.sqrt(2.0 * math.pi) * np.maximum(spread, 1e-300)), 1.0)
    return float(weights @ same @ weights)


def atoms_of(
    weights: FloatArray, means: FloatArray, stds: FloatArray, tied: list[float], steps: list[float]
) -> BoolArray:
    """Which components (k,) of a mixture (k,), (k, dim) stand for values that many rows share.

    In a column of ties those that are not much wider than the step between its values; all of them where that does not explain
    the ties. Whole minutes of a component that is many minutes wide are as good as a density.
    """
    found = np.zeros(len(weights), dtype=bool)
    for j, (share, step) in enumerate(zip(tied, steps, strict=True)):
        if share > 0.0:
            explained = expected_ties(weights, means[:, j], stds[:, j], step)
            found |= (stds[:, j] < STEPS_WIDE * step) | (share > MOST_UNEXPLAINED * explained)
    return found


def component_status(
    learned: Learned, tied: list[float], steps: list[float], *, known_std: bool = False
) -> tuple[str, ...]:
    """For each component: the learner's status, "atoms" in a column of ties, "low_count", "narrow", or "ok"."""
    weights, means, stds = learned.weights, learned.means, learned.stds
    if learned.status == "fallback":
        return (learned.status,) * len(means)
    atoms = atoms_of(weights / weights.sum(), means, stds, tied, steps)
    if learned.status == "empty" and learned.unseen is not None:
        atoms = (
            atoms | learned.unseen
        )  # no two rows differ by a scale that shows, and cells of every size show no width
    size = np.abs(means).max(axis=0)
    narrow = np.any((stds * NARROW < stds.max(axis=0)) | (stds < ROUNDING * size), axis=1)
    if learned.unseen is not None and not known_std:
        narrow = narrow | learned.unseen
    low = np.zeros(len(means), dtype=bool) if learned.low is None else learned.low
    words = []
    for place in range(len(means)):
        if atoms[place]:
            words.append("atoms")
        elif learned.status != "ok":
            words.append(learned.status)
        else:
            words.append("low_count" if low[place] else "narrow" if narrow[place] else "ok")
    return tuple(words)
