"""The choice of a word from a book of random vectors: its best parameters, and how far its report leans to the row."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy import special

from fastpubpriv.local.parameters import Cap

MISS_BITS = 62
_NODES = 4000


@lru_cache(maxsize=4096)
def top_cosines(dim: int, words: int, chosen: int) -> float:
    """Mean sum of the `chosen` largest of `words` cosines of independent directions to a fixed one, 1 <= chosen < words."""
    if dim == 1:  # cosines of 1 and -1: with b of them 1, the largest sum up to min(b, chosen) - max(0, chosen - b)
        b = np.arange(words + 1)
        log_weight = (
            special.gammaln(words + 1) - special.gammaln(b + 1) - special.gammaln(words - b + 1) - words * math.log(2)
        )
        return float(np.sum(np.exp(log_weight) * (np.minimum(b, chosen) - np.maximum(0, chosen - b))))
    # words * E t P(fewer than `chosen` of the others are larger), over the angle: its density is smooth for every dim.
    half = min(math.pi / 2, 14.0 / math.sqrt(dim))
    nodes, weights = _gauss()
    angle = math.pi / 2 + half * nodes
    cosine, alpha = np.cos(angle), 0.5 * (dim - 1)
    log_beta = 0.5 * math.log(math.pi) + math.lgamma(alpha) - math.lgamma(alpha + 0.5)
    density = np.exp((dim - 2) * np.log(np.sin(angle)) - log_beta)
    larger = special.betainc(alpha, alpha, 0.5 * (1.0 - cosine))
    among = special.betainc(words - chosen, chosen, 1.0 - larger)
    return words * half * float(np.sum(weights * cosine * density * among))


@lru_cache(maxsize=1)
def _gauss() -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = np.polynomial.legendre.leggauss(_NODES // 10)
    # Ten panels: exact enough where the law of the largest is narrow.
    left = np.linspace(-1.0, 1.0, 11)[:-1]
    return (left[:, None] + 0.1 * (nodes + 1.0)).ravel(), np.tile(0.1 * weights, 10)


@lru_cache(maxsize=1024)
def best_chosen(dim: int, words: int, epsilon: float) -> int:
    """How many words to choose so that the error is least: the lean T(s) / (s e^epsilon + words - s) has one maximum."""
    growth = math.expm1(epsilon) if epsilon < 700.0 else math.inf
    low, high = 1, max(1, words // 2)

    def lean(chosen: int) -> float:
        return top_cosines(dim, words, chosen) / (chosen + words / growth)

    while low < high:
        middle = (low + high) // 2
        if lean(middle) < lean(middle + 1):
            low = middle + 1
        else:
            high = middle
    return low


def miss_of(words: int, chosen: int, epsilon: float) -> int:
    """The least integer T for which ((2^62 - T) / chosen) / (T / (words - chosen)) <= e^epsilon, by fractions."""
    growth = Fraction(math.exp(0.5 * epsilon) * (1.0 - 2.0**-42)) ** 2  # at most e^epsilon
    rest, whole = words - chosen, 1 << MISS_BITS
    return math.ceil(Fraction(whole * rest) / (growth * chosen + rest))


def cap_of_book(dim: int, words: int, chosen: int, miss: int) -> Cap:
    """The chosen words as a cap of mass chosen / words, with probability 1 - miss / 2^62; `threshold` is their number."""
    whole = 1 << MISS_BITS
    hit, other = (whole - miss) / whole, miss / whole
    scale = top_cosines(dim, words, chosen) * (hit / chosen - other / (words - chosen))
    return Cap(float(chosen), math.log(chosen / words), math.log((whole - miss) / miss), scale)
