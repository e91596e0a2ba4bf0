"""Finite nets: weights on the simplex, means and standard deviations around a coarse candidate. Sizes are exact, lists are lazy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InputError


def simplex_net_size(n_components: int, resolution: int) -> int:
    """How many points (t_1, ..., t_k) / resolution with whole t_i >= 0 and sum 1 there are: C(r + k - 1, k - 1).

    Examples
    --------
    >>> simplex_net_size(3, 10)
    66
    """
    k, r = _sizes(n_components, resolution)
    return math.comb(r + k - 1, k - 1)


def simplex_net(n_components: int, resolution: int, *, begin: int = 0, end: int | None = None) -> Iterator[FloatArray]:
    """The points of the simplex net, in lexical order of their numerators; any range of them without those before it.

    Examples
    --------
    >>> [(4 * point).tolist() for point in simplex_net(2, 4, begin=3)]
    [[3.0, 1.0], [4.0, 0.0]]
    """
    k, r = _sizes(n_components, resolution)
    size = math.comb(r + k - 1, k - 1)
    end = size if end is None else end
    if not 0 <= begin <= end <= size:
        raise InputError(f"points {begin} to {end} are not a range of the {size} points of this net")
    if begin == end:
        return
    parts = _composition(k, r, begin)
    for index in range(begin, end):
        yield np.array(parts, dtype=np.float64) / r
        if index + 1 < end:
            _advance(parts)


def _composition(k: int, r: int, index: int) -> list[int]:
    """The composition of r into k parts with this number."""
    parts, left = [], r
    for place in range(k - 1, 0, -1):
        value = 0
        while index >= (count := math.comb(left - value + place - 1, place - 1)):
            index -= count
            value += 1
        parts.append(value)
        left -= value
    return [*parts, left]


def _advance(parts: list[int]) -> None:
    """The next composition, in place: one unit moves left out of the tail, the rest of which goes to the end."""
    last = len(parts) - 1
    while parts[last] == 0:
        last -= 1
    rest = parts[last] - 1
    parts[last] = 0
    parts[last - 1] += 1
    parts[-1] = rest


def round_to_simplex(weights: Any, resolution: int) -> FloatArray:
    """The net point of weights (k,): floors, and a unit each to the largest remainders; no entry moves by more than 1/resolution.

    Examples
    --------
    >>> round_to_simplex([0.55, 0.3, 0.15], 10).tolist()
    [0.6, 0.3, 0.1]
    """
    given = np.asarray(weights, dtype=np.float64)
    if given.ndim != 1 or not len(given) or not (given >= 0.0).all() or not 0.0 < given.sum() < math.inf:
        raise InputError("weights must be a vector of non-negative numbers with a positive sum")
    r = validation.integer("resolution", resolution, minimum=1)
    scaled = given / given.sum() * r
    parts = np.floor(scaled)
    order = np.argsort(parts - scaled, kind="stable")
    parts[order[: round(r - float(parts.sum()))]] += 1.0
    rounded: FloatArray = parts / r
    return rounded


def mean_steps(accuracy: float) -> FloatArray:
    """Multiples j accuracy, |j| <= ceil(1 / accuracy): with a coarse mean within one scale, some step comes within accuracy
    scales."""
    alpha = validation.positive("accuracy", accuracy)
    most = math.ceil(1.0 / alpha)
    steps: FloatArray = alpha * np.arange(-most, most + 1).astype(np.float64)
    return steps


def std_factors(accuracy: float) -> FloatArray:
    """Factors (1 + accuracy)^i / 2, 1 <= i <= ceil(1 / log2(1 + accuracy)): they cover scale / 2 to scale within a factor 1 +
    accuracy."""
    alpha = validation.positive("accuracy", accuracy)
    most = math.ceil(1.0 / math.log2(1.0 + alpha))
    factors: FloatArray = 0.5 * np.exp2(math.log2(1.0 + alpha) * np.arange(1, most + 1))
    return factors


def gaussian_net_size(accuracy: float) -> int:
    """Members of the fine net of one coarse (mean, scale)."""
    return len(mean_steps(accuracy)) * len(std_factors(accuracy))


def gaussian_net(mean: float, scale: float, accuracy: float) -> FloatArray:
    """The fine net of one coarse (mean, scale): (size, 2) means and standard deviations, paired.

    If |mean - mu| <= sigma and sigma <= scale < 2 sigma, a member has |mean - mu| <= accuracy scale / 2 and a standard deviation
    within accuracy sigma.
    """
    means = mean + scale * mean_steps(accuracy)
    stds = scale * std_factors(accuracy)
    return np.column_stack([np.repeat(means, len(stds)), np.tile(stds, len(means))])


def mixture_net_size(n_candidates: int, n_components: int, resolution: int) -> int:
    """How many different mixtures there are of `n_components` slots, each one of `n_candidates` components with a weight in whole
    units of 1/resolution: multisets of (component, weight) with weights that add up to one.

    Examples
    --------
    >>> mixture_net_size(2, 2, 2)
    7
    """
    components = validation.integer("n_candidates", n_candidates, minimum=0)
    k, r = _sizes(n_components, resolution)
    ways = [[0] * (r + 1) for _ in range(k + 1)]
    ways[0][0] = 1
    for weight in range(r + 1):
        # Multisets of j components that all have this weight.
        chosen = [1, *(math.comb(components + j - 1, j) if components else 0 for j in range(1, k + 1))]
        after = [[0] * (r + 1) for _ in range(k + 1)]
        for used in range(k + 1):
            for total in range(r + 1):
                if ways[used][total]:
                    for j in range(min(k - used, (r - total) // weight if weight else k) + 1):
                        after[used + j][total + j * weight] += ways[used][total] * chosen[j]
        ways = after
    return ways[k][r]


def mixture_net(n_candidates: int, n_components: int, resolution: int) -> Iterator[tuple[IntArray, FloatArray]]:
    """The mixtures that `mixture_net_size` counts, each once: component numbers (k,) and weights (k,), by falling weight."""
    components = validation.integer("n_candidates", n_candidates, minimum=0)
    k, r = _sizes(n_components, resolution)

    def extend(slots: list[tuple[int, int]], left: int) -> Iterator[list[tuple[int, int]]]:
        missing = k - len(slots)
        if missing == 0:
            if left == 0:
                yield slots
            return
        top, first = slots[-1] if slots else (r, 0)
        # Weights fall, and components rise among equal weights: every multiset has one such order.
        for weight in range(min(top, left), -(-left // missing) - 1, -1):
            for component in range(first if weight == top else 0, components):
                yield from extend([*slots, (weight, component)], left - weight)

    for slots in extend([], r):
        yield (
            np.array([component for _, component in slots], dtype=np.int64),
            np.array([weight for weight, _ in slots], dtype=np.float64) / r,
        )


def product_size(sizes: Sequence[int]) -> int:
    """Length of the product of lists, as an exact integer."""
    return math.prod(sizes)


def _sizes(n_components: int, resolution: int) -> tuple[int, int]:
    return (
        validation.integer("n_components", n_components, minimum=1),
        validation.integer("resolution", resolution, minimum=1),
    )
