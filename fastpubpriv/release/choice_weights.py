"""Integer weights and coin probabilities of private choices: e^(-rate gap) in fixed point with proven bounds, by score level.

All arithmetic is on Python integers, so every machine computes the same weights. Privacy notes: `notes/selection.md`,
`notes/hypotheses.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fastpubpriv._types import IntArray
from fastpubpriv.errors import KernelError

BITS = 512
# Weights below 2^-CUT of the largest are zero: with up to 2^20 candidates their mass is below 2^-184.
CUT = 205
MAX_CANDIDATES = 2**20
ACCURACY = 101
_COIN_ACCURACY = 131
_FIRST = 8  # the series runs at arguments up to 2^-_FIRST


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """The candidates with one score, in ascending order, and the weight that each of them has."""

    weight: int
    candidates: IntArray


def exp_bounds(x: Fraction) -> tuple[int, int]:
    """Integers with low <= 2^BITS e^-x <= high, for x >= 0."""
    halvings = math.floor(x).bit_length() + _FIRST
    scaled = x * Fraction(2**BITS, 2**halvings)
    low, high = _series(math.ceil(scaled))[0], _series(math.floor(scaled))[1]
    for _ in range(halvings):
        low = low * low >> BITS
        high = -(-high * high >> BITS)
    return low, high


def _series(y: int) -> tuple[int, int]:
    """Bounds of 2^BITS e^-(y / 2^BITS): each term of the series is rounded down and up; one unit covers the remainder."""
    term_low = term_high = low = high = 1 << BITS
    order = 0
    while term_high > 1:
        order += 1
        term_low = term_low * y // (order << BITS)
        term_high = -(-term_high * y // (order << BITS))
        low, high = (low - term_high, high - term_low) if order % 2 else (low + term_low, high + term_high)
    return low - 1, high + 1


def weight(gap: int, rate: Fraction) -> int:
    """Lower bound of 2^BITS e^(-rate gap), within a factor 1 - 2^-ACCURACY of it; zero if that is less than 2^(BITS - CUT)."""
    if gap == 0:
        return 1 << BITS
    if rate * gap > CUT:  # e^-x < 2^-x
        return 0
    low, high = exp_bounds(rate * gap)
    if low >> (BITS - CUT) == 0:
        return 0
    if (high - low) << ACCURACY > low:
        raise KernelError("the weights of a choice are not accurate enough")
    return low


def coin(gap: int, rate: Fraction) -> int:
    """Lower bound of 2^BITS e^(-rate gap), so close that heads and tails are each within a factor e^(2^-129) of their probability.

    Zero where the probability of heads is below 2^-CUT.
    """
    one = weight(gap, rate)
    if 0 < one < 1 << BITS:
        low, high = exp_bounds(rate * gap)
        if (high - low) << _COIN_ACCURACY > min(low, (1 << BITS) - high):
            raise KernelError("the coins of a choice are not accurate enough")
    return one


def levels(scores: IntArray, rate: Fraction) -> list[Level]:
    """Score levels, the best first, without those of weight zero."""
    if not 1 <= len(scores) <= MAX_CANDIDATES:
        raise KernelError(f"a choice needs 1 to {MAX_CANDIDATES} candidates")
    values, inverse = np.unique(scores, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(inverse))[:-1])
    best = int(values[-1])
    found = []
    for value, group in zip(values.tolist()[::-1], groups[::-1], strict=True):
        one = weight(best - value, rate)
        if one == 0:
            break
        found.append(Level(one, group.astype(np.int64)))
    return found


def total(found: list[Level]) -> int:
    """Sum of the weights of all candidates."""
    return sum(level.weight * len(level.candidates) for level in found)


def candidate(found: list[Level], number: int) -> int:
    """The candidate that owns this number, 0 <= number < `total`; each candidate owns as many numbers as its weight."""
    for level in found:
        own = level.weight * len(level.candidates)
        if number < own:
            return int(level.candidates[number // level.weight])
        number -= own
    raise KernelError("a choice was asked for beyond the total weight")
