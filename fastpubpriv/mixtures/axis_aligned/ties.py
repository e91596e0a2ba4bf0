"""Columns in which many rows share a value: counts, answers, constants. A density says little about them, and a status says so.

Nothing is released for it. Differences of pairs of rows are counted in dyadic bins, and a difference of zero is in none of them:
what the released counts leave unexplained, beyond what a threshold may hide, are pairs that tie. Public rows show theirs.
"""

from __future__ import annotations

import math

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.mechanisms.histograms import StableRelease

# Of a Gaussian's differences the threshold hides a few bins of its tails: their counts halve from bin to bin.
HIDDEN_BINS = 4.0
DEVIATIONS = 3.0
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


def public_ties(x_pub: FloatArray) -> list[float]:
    """Share of the pairs of public rows that tie in each column; 0 below what chance and rounding may do."""
    n_pub = len(x_pub)
    found = []
    for column in x_pub.T:
        counts = np.unique(column, return_counts=True)[1]
        tied = float(np.sum(counts * (counts - 1.0))) / 2.0
        share = tied / max(1.0, n_pub * (n_pub - 1.0) / 2.0)
        found.append(share if tied >= LEAST_TIED and share > PUBLIC_SHARE else 0.0)
    return found


def component_status(status: str, means: FloatArray, stds: FloatArray, tied: list[float]) -> tuple[str, ...]:
    """For each component of (k, dim) means and widths: the learner's status, "atoms" in a column of ties, "narrow", or "ok"."""
    if status == "fallback":
        return (status,) * len(means)
    if any(share > 0.0 for share in tied):
        return ("atoms",) * len(means)
    if status != "ok":
        return (status,) * len(means)
    size = np.abs(means).max(axis=0)
    narrow = np.any((stds * NARROW < stds.max(axis=0)) | (stds < ROUNDING * size), axis=1)
    return tuple("narrow" if each else "ok" for each in narrow)
