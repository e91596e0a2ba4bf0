"""What the theorems of list decoding and selection ask for, in numbers: list sizes and rows. Public numbers only."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction

from fastpubpriv import validation
from fastpubpriv.errors import BudgetError, InfeasibleError, InputError
from fastpubpriv.parameters import FAILURE_PROB
from fastpubpriv.privacy import ApproxDP, Budget, stable_event
from fastpubpriv.results.histogram import noise_quantile

SCALE_MASS = 0.2718  # least share of |X - X'| / sqrt(2) of one Gaussian in the best dyadic bin
MEAN_MASS = 0.3413  # the same of X in the best bin of a width between sigma and 2 sigma
DYADIC_SCALES = 2099
_ROWS_MAX = 2**62
LEAST_ACCURACY = 1e-6
MOST_FACTORS = 10**5  # of the length of the list, one for each column of each component


def _weight(min_weight: object) -> float:
    return validation.fraction("min_weight", min_weight, include_one=True) or validation.positive(
        "min_weight", min_weight
    )


def scale_list_bound(min_weight: float) -> int:
    """Scales that Algorithm 3 may return: floor(12 / w^2). (There are DYADIC_SCALES dyadic bins of doubles in all.)

    Examples
    --------
    >>> scale_list_bound(0.5)
    48
    """
    return math.floor(12 / Fraction(_weight(min_weight)) ** 2)


def mean_list_bound(min_weight: float) -> int:
    """Means that Algorithm 2 may return for one scale: floor(12 / w).

    Examples
    --------
    >>> mean_list_bound(0.5)
    24
    """
    return math.floor(12 / Fraction(_weight(min_weight)))


def histogram_error(budget: Budget, n: int, failure_prob: float, *, histograms: int = 1) -> float:
    """Bound on the error of all counts of n rows (suppressed ones too) with probability 1 - failure_prob: the threshold and the
    largest of 2 n noises, as Lemma 4.1 of the paper with constants.

    Examples
    --------
    >>> round(histogram_error(ApproxDP(epsilon=1, delta=1e-6), 10_000, 0.05), 1)
    51.7
    """
    if not isinstance(budget, ApproxDP):
        raise BudgetError("list decoding needs a delta: pass ApproxDP(epsilon=..., delta=...)")
    # The number of rows enters through the size of the integers only, and not beyond 2^35.
    event = stable_event(budget.epsilon, budget.delta, histograms=histograms, n=min(n, 2**35), draws=0)
    beta = validation.probability("failure_prob", failure_prob)
    return event.count_threshold + noise_quantile(event.law, event.count_noise_std, beta / (2 * n * histograms))


def _least_rows(needed: Callable[[int], float]) -> int:
    """The least n >= needed(n), a number that grows with n: from one row on, each step goes to what the step before asked for."""
    n, wanted = 0, 1.0
    while wanted > n:
        if not wanted <= _ROWS_MAX:
            raise InfeasibleError("no number of rows below 2^62 is enough: pass a larger budget, accuracy or weight")
        n = math.ceil(wanted)
        wanted = needed(n)
    return n


def variance_rows(min_weight: float, budget: Budget, failure_prob: float, *, dim: int = 1) -> int:
    """Rows (two for each pair) with which Algorithm 3 finds a scale in [sigma, 2 sigma) of every Gaussian of weight `min_weight`.

    Examples
    --------
    >>> variance_rows(0.5, ApproxDP(epsilon=1, delta=1e-6), 0.05)
    9916
    """
    w, beta = _weight(min_weight), validation.probability("failure_prob", failure_prob) / dim
    sampling = 72.0 * math.log(2.0 / beta) / w**2
    return 2 * _least_rows(
        lambda pairs: max(sampling, histogram_error(budget, pairs, beta / 2.0, histograms=dim) * 24.0 / w**2)
    )


def mean_rows(min_weight: float, budget: Budget, failure_prob: float, *, histograms: int = 1) -> int:
    """Rows with which Algorithm 2 finds a mean within sigma, for one known scale, of every Gaussian of weight `min_weight`.

    Examples
    --------
    >>> mean_rows(0.5, ApproxDP(epsilon=1, delta=1e-6), 0.05)
    2410
    """
    w, beta = _weight(min_weight), validation.probability("failure_prob", failure_prob)
    sampling = 24.0 * math.log(2.0 / beta) / w
    return _least_rows(
        lambda n: max(sampling, histogram_error(budget, n, beta / 2.0, histograms=histograms) * 24.0 / w)
    )


def selection_rows(log_candidates: float, accuracy: float, epsilon: float, failure_prob: float) -> int:
    """Rows with which minimum-distance selection among e^log_candidates hypotheses has slack accuracy / 2.

    Examples
    --------
    >>> selection_rows(math.log(1000), 0.1, 1.0, 0.05)
    60451
    """
    alpha, eps = validation.positive("accuracy", accuracy), validation.positive("epsilon", epsilon)
    log_beta = math.log(4.0 / validation.probability("failure_prob", failure_prob))
    sets = math.log(2.0) + 2.0 * log_candidates + log_beta  # ln(2 S / beta') with S <= M^2
    return math.ceil(max(32.0 * sets / alpha**2, 8.0 * (log_candidates + log_beta) / (alpha * eps)))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MixtureSizes:
    """What Algorithm 1 of the paper asks for."""

    n_components: int
    dim: int
    accuracy: float
    corruption_weight: float  # 1 - gamma = accuracy / (18 k), the least weight that is decoded
    scales: int  # with means_per_scale: bounds of the coarse lists of one coordinate
    means_per_scale: int
    weights: int  # points of the simplex net
    # mixtures in the paper's list: for each coordinate all means crossed with all standard deviations, to the powers
    # dim and k, times `weights`; exact
    candidates: int
    # the same with standard deviations paired with the means of their scale, and the scales that doubles can have
    candidates_paired: int
    variance_rows: int  # with mean_rows and selection_rows: rows of the two blocks of the decoder and of the selection
    mean_rows: int
    selection_rows: int

    @property
    def log10_candidates(self) -> float:
        """Decimal logarithm of the length of the paper's list."""
        return _log(self.candidates) / math.log(10.0)

    @property
    def rows(self) -> int:
        """Rows of all three blocks."""
        return self.variance_rows + self.mean_rows + self.selection_rows

    def check(self, n: int, *, max_candidates: int = 20_000) -> None:
        """InfeasibleError, with the numbers, when n rows or a list of max_candidates are too few."""
        advice = (
            "pass public rows (their list is short and needs no delta), or use the practical learner; theory mode suits one "
            "component and a large accuracy"
        )
        if self.candidates_paired > max_candidates:
            size = _log(self.candidates_paired) / math.log(10.0)
            raise InfeasibleError(
                f"the list of candidates would have 10^{size:.1f} members, and {max_candidates} can be handled "
                f"({self.n_components} components, {self.dim} columns, accuracy {self.accuracy:g}): {advice}"
            )
        if n < self.rows:
            raise InfeasibleError(f"the theorem asks for {self.rows:.3g} rows, and there are {n}: {advice}")


def _log(number: int) -> float:
    """Natural logarithm of an integer of any size."""
    shift = max(0, number.bit_length() - 900)
    return math.log(number >> shift) + shift * math.log(2.0) if number else -math.inf


def wanted_accuracy(value: object) -> float:
    """A total variation that somebody may ask for; far below the least, its square is not a number any more."""
    accuracy = validation.probability("accuracy", value)
    if accuracy < LEAST_ACCURACY:
        raise InputError(f"accuracy must be at least {LEAST_ACCURACY:g}, got {accuracy:g}; for example 0.1")
    return accuracy


def _net_sizes(accuracy: float) -> tuple[int, int]:
    """Lengths of the nets of means and of standard deviations."""
    return 2 * math.ceil(1.0 / accuracy) + 1, math.ceil(1.0 / math.log2(1.0 + accuracy))


def mixture_sizes(
    n_components: int, dim: int, accuracy: float, budget: Budget, *, failure_prob: float = FAILURE_PROB
) -> MixtureSizes:
    """List sizes and rows of Algorithm 1 (Theorem 5.1 of the paper) for total variation `accuracy`.

    The decoder runs at accuracy / 18 with 1 - gamma = accuracy / (18 k), the net of weights has steps of accuracy / (18 k), and the
    selection has slack accuracy / 2 on rows of its own, so every stage has the whole budget.

    Examples
    --------
    >>> sizes = mixture_sizes(2, 1, 0.1, ApproxDP(epsilon=1, delta=1e-6))
    >>> round(sizes.log10_candidates), sizes.scales, sizes.weights
    (44, 1555199, 361)
    """
    k = validation.integer("n_components", n_components, minimum=1)
    d = validation.integer("dim", dim, minimum=1)
    alpha = wanted_accuracy(accuracy)
    beta = validation.probability("failure_prob", failure_prob)
    w, share = alpha / (18.0 * k), beta / (2.0 * k)
    scales, means = scale_list_bound(w), mean_list_bound(w)
    if d * k > MOST_FACTORS:
        raise InfeasibleError(f"a list for {k} components in {d} columns would have a length of millions of digits")
    some = min(scales, DYADIC_SCALES)
    # Rows come first: they refuse many columns at once, and lists of so many digits take minutes.
    for_variances = variance_rows(w, budget, share, dim=d)
    for_means = mean_rows(w, budget, share, histograms=d * some)
    mean_net, std_net = _net_sizes(alpha / (18.0 * d))
    crossed, paired = scales * means * mean_net * scales * std_net, some * means * mean_net * std_net
    resolution = math.ceil(18.0 * k / alpha)
    weights = math.comb(resolution + k - 1, k - 1)
    candidates, candidates_paired = crossed ** (d * k) * weights, paired ** (d * k) * weights
    return MixtureSizes(
        n_components=k,
        dim=d,
        accuracy=alpha,
        corruption_weight=w,
        scales=scales,
        means_per_scale=means,
        weights=weights,
        candidates=candidates,
        candidates_paired=candidates_paired,
        variance_rows=for_variances,
        mean_rows=for_means,
        selection_rows=selection_rows(_log(candidates_paired), alpha, float(budget.amounts[0]), beta),
    )
