"""What the list decoders release: coarse lists for each column, and the finite nets that follow from them."""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.reading import Form, read_array
from fastpubpriv.results.base import Result, Table, tally

# Finite nets: weights on the simplex, means and standard deviations around a coarse candidate. Sizes are exact, lists are lazy.


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
    return alpha * np.arange(-most, most + 1).astype(np.float64)


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


def _sizes(n_components: int, resolution: int) -> tuple[int, int]:
    return (
        validation.integer("n_components", n_components, minimum=1),
        validation.integer("resolution", resolution, minimum=1),
    )


# What the list decoders release: coarse lists for each column, and the fine nets that follow from them.


def _arrays(value: Any) -> tuple[FloatArray, ...]:
    """A list of numbers for each column, from JSON."""
    if type(value) is not list:
        raise InputError("this JSON text cannot be read: lists and counts must be lists")
    return tuple(read_array("of a list", item, ("entries",), {}) for item in value)


def _nested(value: Any) -> tuple[tuple[FloatArray, ...], ...]:
    if type(value) is not list:
        raise InputError("this JSON text cannot be read: lists and counts must be lists")
    return tuple(_arrays(item) for item in value)


def _factor(value: Any) -> FloatArray | None:
    return None if value is None else read_array("factor", value, ("dim", "dim"), {})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class _Lists(Result):
    """What all lists share."""

    status: tuple[str, ...]  # for each column "ok", or "empty" where nothing was found (or, in mode "theory", too much)
    mode: str  # "practical" or "theory": which constants were used
    min_weight: float  # weight from which on Gaussians are looked for

    @abstractmethod
    def _parts(self) -> dict[str, list[FloatArray]]:
        """What the entries of a list are called, and the numbers of each column; the first are the entries themselves."""

    def _refuse_nonsense(self) -> None:
        parts = list(self._parts().values())
        sizes = [[len(array) for array in arrays] for arrays in parts]
        if any(size != sizes[0] for size in sizes) or not len(sizes[0]) == len(self.status) == self.dim:
            raise InputError(
                f"this JSON text is not a {type(self).__name__}: each column needs a list, counts and a status"
            )

    def _table(self) -> Table:
        parts = self._parts()
        sizes = [len(array) for array in next(iter(parts.values()))]
        labels = [name for name, size in zip(self.labels, sizes, strict=True) for _ in range(size)]
        return Table("column", labels, [(name, np.concatenate(arrays)) for name, arrays in parts.items()])

    def _details(self) -> list[tuple[str, str]]:
        looked = f"Gaussians of weight {self.min_weight:g} and more, with the constants of mode {self.mode}"
        return [("Looked for", looked), ("Status", tally(self.status))]

    def _estimate(self) -> tuple[str, Any]:
        return "entries", len(self._table().labels)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ScaleLists(_Lists):
    """Coarse scales for each column.

    Attributes
    ----------
    scales : tuple of (t,) float64
        Powers of two, ascending.
    counts : tuple of (t,) float64
        Noisy counts of pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ApproxDP
    >>> from fastpubpriv.mixtures.list_decoding import decode_variances
    >>> values = np.random.default_rng(0).normal(1e6, 3.0, size=20_000)
    >>> lists = decode_variances(values, budget=ApproxDP(epsilon=1, delta=1e-6))
    >>> all(np.log2(scale) % 1 == 0 for scale in lists.scales[0])
    True
    """

    scales: tuple[FloatArray, ...]
    counts: tuple[FloatArray, ...]

    _forms: ClassVar[Mapping[str, Form]] = {"scales": _arrays, "counts": _arrays}

    def _parts(self) -> dict[str, list[FloatArray]]:
        return {"scale": list(self.scales), "count": list(self.counts)}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MeanLists(_Lists):
    """Coarse means for each column, at one public scale.

    Attributes
    ----------
    scale : (dim,) float64
        Width of the bins.
    means : tuple of (c,) float64
        Ascending.
    counts : tuple of (c,) float64
        Noisy counts of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ApproxDP
    >>> from fastpubpriv.mixtures.list_decoding import decode_means
    >>> lists = decode_means(np.full(5_000, 1e9), std=1.0, budget=ApproxDP(epsilon=1, delta=1e-6))
    >>> bool(abs(lists.means[0] - 1e9).min() < 2.0), bool(lists.counts[0].max() > 1_000)
    (True, True)
    """

    scale: FloatArray
    means: tuple[FloatArray, ...]
    counts: tuple[FloatArray, ...]

    _forms: ClassVar[Mapping[str, Form]] = {"scale": ("dim",), "means": _arrays, "counts": _arrays}

    def _parts(self) -> dict[str, list[FloatArray]]:
        return {"mean": list(self.means), "count": list(self.counts)}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class AxisAlignedLists(_Lists):
    """Coarse (mean, scale) pairs for each column, as factors of a list that is never formed.

    Attributes
    ----------
    scales : tuple of (t,) float64
        The scales of each column.
    means, counts : tuple of tuple of (c,) float64
        For each column and scale, coarse means and their noisy counts of rows.
    factor : (dim, dim) float64 or None
        With a known covariance, its lower Cholesky factor: means are those of factor^-1 x, and every standard deviation is 1.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ApproxDP
    >>> from fastpubpriv.mixtures.list_decoding import decode_axis_aligned
    >>> rows = np.random.default_rng(0).normal([1e4, -3.0], [10.0, 0.2], size=(30_000, 2))
    >>> lists = decode_axis_aligned(rows, budget=ApproxDP(epsilon=1, delta=1e-6))
    >>> means, scales, counts = lists.coarse(0)
    >>> bool(np.any((abs(means - 1e4) < 40.0) & (scales >= 5.0) & (scales <= 40.0)))
    True
    """

    scales: tuple[FloatArray, ...]
    means: tuple[tuple[FloatArray, ...], ...]
    counts: tuple[tuple[FloatArray, ...], ...]
    factor: FloatArray | None = None

    _forms: ClassVar[Mapping[str, Form]] = {"scales": _arrays, "means": _nested, "counts": _nested, "factor": _factor}

    def _parts(self) -> dict[str, list[FloatArray]]:
        columns = [self.coarse(column) for column in range(self.dim)]
        return {name: [column[place] for column in columns] for place, name in enumerate(("mean", "scale", "count"))}

    def _refuse_nonsense(self) -> None:
        lengths = {len(self.scales), len(self.means), len(self.counts), len(self.status), self.dim}
        same = all(
            (not means or len(scales) == len(means)) and list(map(len, means)) == list(map(len, counts))
            for scales, means, counts in zip(self.scales, self.means, self.counts, strict=False)
        )
        if len(lengths) > 1 or not same or (self.factor is not None and len(self.factor) != self.dim):
            raise InputError(
                "this JSON text is not an AxisAlignedLists: its lists, counts and status do not fit together"
            )

    def coarse(self, column: int = 0) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means, scales and noisy counts (c,) of one column, pair by pair."""
        means, counts = self.means[column], self.counts[column]
        if not means:
            return np.empty(0), np.empty(0), np.empty(0)
        scales = np.repeat(self.scales[column], [len(part) for part in means])
        return np.concatenate(means), scales, np.concatenate(counts)

    def net(self, column: int, accuracy: float) -> FloatArray:
        """Fine list of one column, (size, 2): means and standard deviations.

        If a coarse pair is right, a member has mean and standard deviation within accuracy * sigma, hence total variation at most
        accuracy (for accuracy up to 2/3). With a known covariance the steps of the means are 2 accuracy, and sigma is 1.
        """
        alpha = validation.positive("accuracy", accuracy)
        means, scales, _ = self.coarse(column)
        if self.factor is not None:
            steps = 2.0 * alpha * np.arange(-math.ceil(0.5 / alpha), math.ceil(0.5 / alpha) + 1)
            fine = (means[:, None] + steps).ravel()
            return np.column_stack([fine, np.ones_like(fine)])
        parts = [gaussian_net(mean, scale, alpha) for mean, scale in zip(means.tolist(), scales.tolist(), strict=True)]
        return np.concatenate(parts) if parts else np.empty((0, 2))

    def net_size(self, column: int, accuracy: float) -> int:
        """Length of `net`, without making it."""
        alpha = validation.positive("accuracy", accuracy)
        pairs = sum(len(part) for part in self.means[column])
        return pairs * (2 * math.ceil(0.5 / alpha) + 1 if self.factor is not None else gaussian_net_size(alpha))

    def list_size(self, accuracy: float) -> int:
        """Length of the product of all columns' fine lists, exact; each column at accuracy / dim, so that products are at
        accuracy."""
        alpha = validation.positive("accuracy", accuracy)
        # Length of the product of lists, as an exact integer.
        sizes = [self.net_size(column, alpha / self.dim) for column in range(self.dim)]
        return math.prod(sizes)
