"""Results of the list decoders, finite nets of candidates built from them, and the sizes that the theorems require."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.defaults import FAILURE_PROB
from fastpubpriv.errors import BudgetError, InfeasibleError, InputError
from fastpubpriv.privacy import Budget
from fastpubpriv.privacy.calibrated_budget import has_delta
from fastpubpriv.privacy.calibration import stable_event
from fastpubpriv.privacy.noise_quantiles import noise_quantile
from fastpubpriv.results.base import Result
from fastpubpriv.results.fields import array, value_class
from fastpubpriv.results.result_tables import Facts, Table

# ---- List sizes and numbers of rows that the theorems of list decoding and selection require, from public numbers --------

# lower bound on the mass of |X - X'| / sqrt(2) of one Gaussian in its best dyadic bin
SCALE_MASS = 0.2718
# lower bound on the mass of X in its best bin of a width between sigma and 2 sigma
MEAN_MASS = 0.3413
DYADIC_SCALES = 2099
_ROWS_MAX = 2**62
LEAST_ACCURACY = 1e-6
# maximum number of factors of a list length, one for each column of each component
MOST_FACTORS = 10**5


def scale_list_bound(min_weight: float) -> int:
    """Return the maximum number of scales of Algorithm 3: floor(12 / w^2). (Doubles have DYADIC_SCALES dyadic bins in all.)"""
    return math.floor(12 / Fraction(min_weight) ** 2)


def mean_list_bound(min_weight: float) -> int:
    """Return the maximum number of means of Algorithm 2 for one scale: floor(12 / w)."""
    return math.floor(12 / Fraction(min_weight))


def histogram_error(budget: Budget, n: int, failure_prob: float, *, histograms: int = 1) -> float:
    """Bound the error of all counts of n rows, suppressed ones too, by the threshold plus the largest of 2 n noises (Lemma 4.1)."""
    if not has_delta(budget):
        raise BudgetError("list decoding needs a delta: pass ApproxDP(epsilon=..., delta=...)")
    # The number of rows matters only through the size of the integers, and not beyond 2^35.
    event = stable_event(
        budget.epsilon, budget.delta, histograms=histograms, n=min(n, 2**35), draws=0
    )
    return event.count_threshold + noise_quantile(
        event.law, event.count_noise_std, failure_prob / (2 * n * histograms)
    )


def _least_rows(needed: Callable[[int], float]) -> int:
    """Return the least n >= needed(n) for an increasing function, by fixed-point iteration from one row."""
    n = 0
    wanted = 1.0
    while wanted > n:
        if not wanted <= _ROWS_MAX:
            raise InfeasibleError(
                "no number of rows below 2^62 is enough: pass a larger budget, accuracy or weight"
            )
        n = math.ceil(wanted)
        wanted = needed(n)
    return n


def variance_rows(min_weight: float, budget: Budget, failure_prob: float, *, dim: int = 1) -> int:
    """Return the rows (two per pair) with which Algorithm 3 lists a scale in [sigma, 2 sigma) of every Gaussian of that weight."""
    w_sq = min_weight**2
    beta = failure_prob / dim
    sampling = 72.0 * math.log(2.0 / beta) / w_sq
    return 2 * _least_rows(
        lambda pairs: max(
            sampling, histogram_error(budget, pairs, beta / 2.0, histograms=dim) * 24.0 / w_sq
        )
    )


def mean_rows(
    min_weight: float, budget: Budget, failure_prob: float, *, histograms: int = 1
) -> int:
    """Return the rows with which Algorithm 2 lists a mean within sigma, for one known scale, of every Gaussian of `min_weight`."""
    w = min_weight
    beta = failure_prob
    sampling = 24.0 * math.log(2.0 / beta) / w
    return _least_rows(
        lambda n: max(
            sampling, histogram_error(budget, n, beta / 2.0, histograms=histograms) * 24.0 / w
        )
    )


def selection_rows(
    log_candidates: float, accuracy: float, epsilon: float, failure_prob: float
) -> int:
    """Return the rows with which minimum-distance selection among e^log_candidates hypotheses has slack accuracy / 2."""
    log_beta = math.log(4.0 / failure_prob)
    sets = math.log(2.0) + 2.0 * log_candidates + log_beta  # ln(2 S / beta') with S <= M^2
    return math.ceil(
        max(32.0 * sets / accuracy**2, 8.0 * (log_candidates + log_beta) / (accuracy * epsilon))
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MixtureSizes:
    """List sizes and numbers of rows that Algorithm 1 of the paper requires."""

    corruption_weight: float  # 1 - gamma = accuracy / (18 k), the smallest weight that is decoded
    scales: int  # with means_per_scale: bounds of the coarse lists of one coordinate
    means_per_scale: int
    weights: int  # points of the simplex net
    # exact number of mixtures in the paper's list: all means crossed with all standard deviations of a coordinate, to the powers
    # dim and k, times `weights`
    candidates: int
    # the number with standard deviations paired with the means of their scale, and only the scales of doubles
    candidates_paired: int
    # with mean_rows and selection_rows: rows of the two blocks of the decoder and of the selection
    variance_rows: int
    mean_rows: int
    selection_rows: int

    @property
    def log10_candidates(self) -> float:
        """Decimal logarithm of the length of the paper's list (`candidates`)."""
        return _log(self.candidates) / math.log(10.0)

    @property
    def rows(self) -> int:
        """Total number of rows of the three blocks."""
        return self.variance_rows + self.mean_rows + self.selection_rows


def _log(number: int) -> float:
    """Return the natural logarithm of an integer of any size."""
    shift = max(0, number.bit_length() - 900)
    return math.log(number >> shift) + shift * math.log(2.0) if number else -math.inf


def wanted_accuracy(value: object) -> float:
    """Return a validated total variation distance of at least LEAST_ACCURACY; squares of far smaller ones underflow."""
    accuracy = validation.probability("accuracy", value)
    if accuracy < LEAST_ACCURACY:
        raise InputError(
            f"accuracy must be at least {LEAST_ACCURACY:g}, got {accuracy:g}; for example 0.1"
        )
    return accuracy


def mixture_sizes(
    n_components: int,
    dim: int,
    accuracy: float,
    budget: Budget,
    *,
    failure_prob: float = FAILURE_PROB,
) -> MixtureSizes:
    """List sizes and rows of Algorithm 1 (Theorem 5.1 of the paper) for total variation `accuracy`.

    The decoder runs at accuracy / 18 with 1 - gamma = accuracy / (18 k), the net of weights has steps of accuracy / (18 k), and the
    selection has slack accuracy / 2. All stages use disjoint rows, so each has the whole budget.

    Examples
    --------
    >>> from fastpubpriv import ApproxDP
    >>> sizes = mixture_sizes(2, 1, 0.1, ApproxDP(epsilon=1, delta=1e-6))
    >>> round(sizes.log10_candidates), sizes.scales, sizes.weights
    (44, 1555199, 361)
    """
    k = validation.integer("n_components", n_components, minimum=1)
    d = validation.integer("dim", dim, minimum=1)
    alpha = wanted_accuracy(accuracy)
    beta = validation.probability("failure_prob", failure_prob)
    w = alpha / (18.0 * k)
    share = beta / (2.0 * k)
    scales = scale_list_bound(w)
    means = mean_list_bound(w)
    if d * k > MOST_FACTORS:
        raise InfeasibleError(
            f"a list for {k} components in {d} columns would have a length of millions of digits"
        )
    some = min(scales, DYADIC_SCALES)
    # Rows are computed first: they reject too many columns at once, while integers of so many digits take minutes.
    for_variances = variance_rows(w, budget, share, dim=d)
    for_means = mean_rows(w, budget, share, histograms=d * some)
    fine = alpha / (18.0 * d)
    mean_net = 2 * math.ceil(1.0 / fine) + 1
    std_net = math.ceil(1.0 / math.log2(1.0 + fine))
    crossed = scales * means * mean_net * scales * std_net
    paired = some * means * mean_net * std_net
    resolution = math.ceil(18.0 * k / alpha)
    weights = math.comb(resolution + k - 1, k - 1)
    candidates = crossed ** (d * k) * weights
    candidates_paired = paired ** (d * k) * weights
    return MixtureSizes(
        corruption_weight=w,
        scales=scales,
        means_per_scale=means,
        weights=weights,
        candidates=candidates,
        candidates_paired=candidates_paired,
        variance_rows=for_variances,
        mean_rows=for_means,
        selection_rows=selection_rows(
            _log(candidates_paired), alpha, float(budget.amounts[0]), beta
        ),
    )


# ---- Finite nets of means and standard deviations around a coarse candidate; sizes are exact, lists are lazy --------------


def mean_steps(accuracy: float) -> FloatArray:
    """Return j accuracy for |j| <= ceil(1 / accuracy): for a coarse mean within one scale, a step is within accuracy scales."""
    most = math.ceil(1.0 / accuracy)
    return accuracy * np.arange(-most, most + 1).astype(np.float64)


def std_factors(accuracy: float) -> FloatArray:
    """Return the factors (1 + accuracy)^i / 2, 1 <= i <= ceil(1 / log2(1 + accuracy)), which cover [scale / 2, scale] within a
    factor 1 + accuracy."""
    step = math.log2(1.0 + accuracy)
    return np.asarray(0.5 * np.exp2(step * np.arange(1, math.ceil(1.0 / step) + 1)))


def gaussian_net_size(accuracy: float, *, known_std: bool = False) -> int:
    """Return the size of the fine net of one coarse (mean, scale)."""
    return len(mean_steps(accuracy)) * (1 if known_std else len(std_factors(accuracy)))


def gaussian_net(
    mean: float, scale: float, accuracy: float, *, known_std: bool = False
) -> FloatArray:
    """Return the fine net of one coarse (mean, scale): (size, 2) pairs of mean and standard deviation, `scale` if it is known."""
    # If |mean - mu| <= sigma and sigma <= scale < 2 sigma, a member has |mean - mu| <= accuracy scale / 2 and a standard deviation
    # within accuracy sigma.
    means = mean + scale * mean_steps(accuracy)
    stds = scale * (np.ones(1) if known_std else std_factors(accuracy))
    return np.column_stack([np.repeat(means, len(stds)), np.tile(stds, len(means))])


def mixture_net_size(n_candidates: int, n_components: int, resolution: int) -> int:
    """Return the number of multisets of `n_components` pairs (candidate, multiple of 1/resolution) with weights that sum to 1."""
    components = n_candidates
    k = n_components
    r = resolution
    ways = [[0] * (r + 1) for _ in range(k + 1)]
    ways[0][0] = 1
    for weight in range(r + 1):
        # Multisets of j components that all have this weight.
        chosen = [
            1,
            *(math.comb(components + j - 1, j) if components else 0 for j in range(1, k + 1)),
        ]
        after = [[0] * (r + 1) for _ in range(k + 1)]
        for used in range(k + 1):
            for total in range(r + 1):
                if ways[used][total]:
                    for j in range(min(k - used, (r - total) // weight if weight else k) + 1):
                        after[used + j][total + j * weight] += ways[used][total] * chosen[j]
        ways = after
    return ways[k][r]


def mixture_net(
    n_candidates: int, n_components: int, resolution: int
) -> Iterator[tuple[IntArray, FloatArray]]:
    """Yield each mixture that `mixture_net_size` counts once: component indices (k,) and weights (k,), by decreasing weight."""
    components = n_candidates
    k = n_components
    r = resolution

    def extend(slots: list[tuple[int, int]], left: int) -> Iterator[list[tuple[int, int]]]:
        missing = k - len(slots)
        if missing == 0:
            if left == 0:
                yield slots
            return
        top, first = slots[-1] if slots else (r, 0)
        # Weights decrease, and components increase among equal weights: every multiset has one such order.
        for weight in range(min(top, left), -(-left // missing) - 1, -1):
            for component in range(first if weight == top else 0, components):
                yield from extend([*slots, (weight, component)], left - weight)

    for slots in extend([], r):
        yield (
            np.array([component for _, component in slots], dtype=np.int64),
            np.array([weight for weight, _ in slots], dtype=np.float64) / r,
        )


# ---- Results of the list decoders: coarse lists for each column, and fine nets built from them ----------------------------


@value_class
class _Lists(Result):
    """Base of all lists. A part is a column, "unresolved" if its list is empty (in mode "theory", also if it was too long)."""

    mode: str  # "practical" or "theory": the constants that were used
    min_weight: float  # minimum weight of the Gaussians to list

    _listed = ("scales", "counts")
    _gaps = "; a missing number is in no bin"

    def _parts(self) -> dict[str, list[FloatArray]]:
        """Return the fields of the entries by name, with one array per column; the first field is the entries themselves."""
        return {name.removesuffix("s"): list(getattr(self, name)) for name in self._listed}

    def _fits_together(self) -> bool:
        sizes = [[len(array) for array in arrays] for arrays in self._parts().values()]
        return (
            all(size == sizes[0] for size in sizes)
            and len(sizes[0]) == len(self.part_reasons) == self.dim
        )

    def _table(self, level: float) -> Table:
        parts = self._parts()
        sizes = [len(array) for array in next(iter(parts.values()))]
        labels = [name for name, size in zip(self.labels, sizes, strict=True) for _ in range(size)]
        columns = [(name, np.concatenate(arrays)) for name, arrays in parts.items()]
        return Table("column", labels, columns)

    def _facts(self, level: float) -> Facts:
        text = f"Gaussians of weight {self.min_weight:g} and more, with the constants of mode {self.mode}"
        return [("Looked for", text)]

    def _estimate(self) -> tuple[str, Any]:
        return "entries", sum(map(len, next(iter(self._parts().values()))))


@value_class
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


@value_class
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

    scale: FloatArray = array("dim")
    means: tuple[FloatArray, ...]
    counts: tuple[FloatArray, ...]

    _listed = ("means", "counts")


@value_class
class AxisAlignedLists(_Lists):
    """Coarse (mean, scale) pairs for each column, factors of a product list that is never formed.

    Attributes
    ----------
    scales : tuple of (t,) float64
        The scales of each column.
    means, counts : tuple of tuple of (c,) float64
        For each column and scale, coarse means and their noisy counts of rows.
    factor : (dim, dim) float64 or None
        With a known covariance, its lower Cholesky factor: means are those of factor^-1 x, and all standard deviations are 1.

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
    factor: FloatArray | None = array("dim", "dim", default=None)

    def _parts(self) -> dict[str, list[FloatArray]]:
        columns = [self.coarse(column) for column in range(self.dim)]
        return {
            name: [column[place] for column in columns]
            for place, name in enumerate(("mean", "scale", "count"))
        }

    def _fits_together(self) -> bool:
        lengths = {
            len(self.scales),
            len(self.means),
            len(self.counts),
            len(self.part_reasons),
            self.dim,
        }
        return len(lengths) == 1 and all(
            (not means or len(scales) == len(means))
            and list(map(len, means)) == list(map(len, counts))
            for scales, means, counts in zip(self.scales, self.means, self.counts, strict=True)
        )

    def coarse(self, column: int = 0) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means, scales and noisy counts (c,) of the pairs of one column."""
        means = self.means[column]
        counts = self.counts[column]
        if not means:
            return np.empty(0), np.empty(0), np.empty(0)
        scales = np.repeat(self.scales[column], [len(part) for part in means])
        return np.concatenate(means), scales, np.concatenate(counts)

    def net(self, column: int, accuracy: float) -> FloatArray:
        """Fine list of one column, (size, 2): means and standard deviations.

        If a coarse pair is right, a member has mean and standard deviation within accuracy * sigma, hence total variation at most
        accuracy (for accuracy up to 2/3). With a known covariance the steps of the means are 2 accuracy, and sigma is 1.
        """
        known = self.factor is not None
        alpha = validation.positive("accuracy", accuracy) * (2.0 if known else 1.0)
        means, scales, _ = self.coarse(column)
        pairs = zip(means.tolist(), scales.tolist(), strict=True)
        return np.concatenate(
            [np.empty((0, 2)), *(gaussian_net(*pair, alpha, known_std=known) for pair in pairs)]
        )

    def net_size(self, column: int, accuracy: float) -> int:
        """Length of `net` without forming it."""
        known = self.factor is not None
        alpha = validation.positive("accuracy", accuracy) * (2.0 if known else 1.0)
        return sum(len(part) for part in self.means[column]) * gaussian_net_size(
            alpha, known_std=known
        )

    def list_size(self, accuracy: float) -> int:
        """Exact length of the product of all columns' fine lists at accuracy / dim, so that products have `accuracy`."""
        alpha = validation.positive("accuracy", accuracy)
        return math.prod(self.net_size(column, alpha / self.dim) for column in range(self.dim))
