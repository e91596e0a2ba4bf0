"""Public fits of a regression: ridge posteriors for the squared, Huber and logistic loss, and clips of residuals.

The Huber posterior is a ridge posterior of pseudo-labels: with each residual r at the minimum replaced by clip(r) / inside, where
`inside` is the share of residuals that are not clipped, their least squares fit is that minimum, and the variance about it is that
of a robust fit, mean clip(r)^2 / inside^2 (Huber 1964).

For fewer public rows than coordinates, clips of residuals are chosen by a normal law, since residuals of so few rows are mostly
errors of their own fit, and too few to estimate a small share.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy import linalg, special
from scipy.special import ndtr

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.regression import regression_tuning as tuning
from fastpubpriv.regression.coordinates import Whitener, directions, next_to_none, some
from fastpubpriv.regression.inputs import Importance

# Candidate prior strengths: a coefficient's variance over that of the noise, times p / 10. Strong signals in many columns need the
# large ones; fewer rows than columns can be fitted exactly, and the likelihood would take the largest, so these are left out.
_RATIOS = np.concatenate([np.logspace(-4.0, 2.0, 37), np.logspace(2.0, 5.0, 19)[1:]])
_LINEAR_MODEST = 37
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
EVEN = Importance(weights=1.0, sample=slice(None))  # of public rows without weights


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResidualClip:
    """A bound on residuals and its effects, estimated from public rows."""

    bound: float  # in units of the residual scale
    inside: float  # share of residuals that are not clipped: the slope of the clipped equation
    # mean square of a clipped residual, enlarged by the standard error of `inside`: the best of many bounds is overrated
    energy: float
    # squared bias of the clipped equation for skewed labels; used in the choice of a bound
    bias_sq: float
    unseen_sq: float  # the same plus the part that public rows cannot detect; used in intervals

    def at(self, size: float) -> ResidualClip:
        """Return the clip for residuals of this size, which is the same in their unit."""
        return self


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PublicLaw:
    """Common part of both posteriors: the law of the coefficients given public rows, with a nearly diagonal covariance."""

    turn: FloatArray  # (D, D), its columns are the coordinates' axes in whitened space
    mean: FloatArray  # (D,), mean of the coefficients
    variance: FloatArray  # (D,), their variances
    rows: FloatArray  # (m, D), public rows
    weights: FloatArray  # (m,), their weights
    labels: FloatArray  # (m,), their labels, in the unit of the fit
    # (m,), what made-up labels are drawn by if known ones are too few, see `unlabeled`: residuals, or shares of classes
    drawn: FloatArray | None = None

    @property
    def typical(self) -> FloatArray:
        """A subsample of the rows, each multiplied by the root of its weight, (k, D)."""
        return some(self.rows) * np.sqrt(some(self.weights))[:, None]

    @property
    def covariance(self) -> FloatArray:
        """Covariance (D, D) of the coefficients from these rows alone."""
        return np.diag(self.variance)

    @property
    def few(self) -> bool:
        """Whether there are no more public rows than coordinates, so that a linear model fits them exactly."""
        return len(self.labels) <= len(self.mean)

    @property
    def varying(self) -> FloatArray:
        """1 for each coordinate in which public rows vary, else 0, (D,): predictions of errors are traces over these.

        Fewer rows than coordinates do not vary in directions in which others do.
        """
        if self.few:
            return np.ones(len(self.mean))
        return np.where(np.mean(self.rows**2, axis=0) > tuning.FLAT, 1.0, 0.0)

    @property
    def spread(self) -> float:
        """Predicted squared error of predictions for rows that vary as public ones do."""
        return float(self.variance @ self.varying)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Posterior(PublicLaw):
    """A normal law of the coefficients, in coordinates in which its covariance is diagonal."""

    # (m,), leave-one-out residuals; leverage is the share of a row's label in its own prediction
    residuals: FloatArray
    leverage: FloatArray  # (m,)
    scale: float  # scale of a residual
    floor: float  # least variance of a label about the best prediction
    clips: tuple[Bound, ...]  # candidate bounds
    # variance of an entry of the second moment of whitened rows, which the steps take to be the identity
    curvature_error: float
    # whether the labels are all equal, so that residuals follow the stated resolution
    blank: bool = False
    # of the Huber loss, in the unit of the labels; None for the squared loss
    threshold: float | None = None
    is_linear: ClassVar[bool] = (
        True  # whether whitened rows have unit curvature, wherever the coefficients are
    )
    even: ClassVar[float] = tuning.EVEN
    energy: ClassVar[float] = 1.0

    @property
    def unexplained(self) -> float:
        """Variance of a label about the best prediction."""
        return self.floor if self.few else max(self.scale**2 - self.spread, self.floor)

    @property
    def noise_share(self) -> float:
        """Share of the residuals' variance that is left at the best prediction: a clip in units of the rest biases only that."""
        return min(1.0, self.unexplained / self.scale**2)

    def labels_at(self, fitted: FloatArray) -> FloatArray:
        """Labels (m,) of the rows; made-up ones are about predictions `fitted` (m,)."""
        return self.labels if self.drawn is None else fitted + self.drawn

    def curvature_at(self, mean: FloatArray, lever: FloatArray | float = 1.0) -> FloatArray:
        """Return the mean curvature (D,) of the loss of a row whose residual is within its bound."""
        return np.ones(len(mean))

    def bends_at(self, mean: FloatArray) -> FloatArray | float:
        """Return the curvature of each typical row over its square."""
        return 1.0

    def sizes(self, errors: FloatArray) -> FloatArray:
        """Return the sizes of residuals if predictions have these squared errors."""
        return np.asarray(np.sqrt(self.unexplained + errors))

    @property
    def part(self) -> float:
        """Excess loss per squared error of a prediction: 1, or half the curvature of the Huber loss."""
        return (
            1.0
            if self.threshold is None
            else 0.5 * self.clips[0].at(math.sqrt(self.unexplained)).inside
        )

    @property
    def row_variance(self) -> float:
        """Sampling variance of a coefficient from one row, without privacy noise."""
        if self.threshold is None:
            return self.unexplained
        clip = self.clips[0].at(math.sqrt(self.unexplained))
        return clip.energy * self.unexplained / clip.inside**2

    @property
    def excess(self) -> float:
        """Predicted excess of the loss over that of the best coefficients: whitened rows have unit moments."""
        return self.part * self.spread


def linear_posterior(
    terms: FloatArray,
    labels: FloatArray,
    weights: FloatArray,
    whitener: Whitener,
    *,
    label_resolution: float = 0.0,
    importance: Importance = EVEN,
) -> Posterior:
    """The posterior of standardized public terms (m, p) with weights (m,) and labels (m,), which have about unit variance."""
    # Rows are weighted by `importance`, and the posterior keeps the rows of its sample.
    sample = importance.sample
    near = weights[importance.sample]
    size = len(near)
    weights = weights * importance.weights
    rows = whitener(terms)
    root = np.sqrt(weights)
    noise, spread = marginal_likelihood(
        (terms - whitener.mean) * root[:, None],
        (labels - np.average(labels, weights=weights)) * root,
        size,
    )
    floor = max(1e-12 * float(np.abs(labels).max()), label_resolution)
    if noise <= 0.0 and floor <= 0.0:
        raise InputError(
            "the public labels are all zero: pass y_scale=, the size of a label that matters"
        )
    blank = noise <= 0.0
    if blank:
        # Equal labels are uninformative about coefficients and residuals: both have the size of the stated resolution.
        noise = floor**2
        spread = floor**2 / terms.shape[1]
    noise = max(noise, floor**2)
    precision = (
        (rows.T * weights) @ rows + noise / max(spread, 1e-12 * noise) * whitener.ridge(0.0)
    ) / noise
    precision[0, 0] += tuning.INTERCEPT_PRECISION
    values, turn = directions(precision)
    variance = 1.0 / np.maximum(values, 1e-12 * values[-1])
    rows = rows @ turn
    mean = variance * (rows.T @ (weights * labels)) / noise
    leverage = np.minimum(
        weights * np.einsum("ij,ij,j->i", rows, rows, variance) / noise, tuning.MOST_LEVERAGE
    )
    residuals = ((labels - rows @ mean) / (1.0 - leverage))[sample]
    rows = rows[sample]
    labels = labels[sample]
    root = np.sqrt(near)
    if blank:
        # Normal quantiles, in an order that is unrelated to that of the rows.
        residuals = floor * special.ndtri(golden_shares(len(labels)))
    fitted = rows @ mean
    usual = residuals * root
    scale = residual_scale(residuals, usual, floor)
    # Few rows estimate the remaining variance up to a factor 1 +- sqrt(2 / m); the upper end is used, as too small is worse.
    doubt = 1.0 + math.sqrt(2.0 / size) if size <= rows.shape[1] else 1.0
    return Posterior(
        turn=turn,
        mean=mean,
        variance=doubt * variance,
        rows=rows,
        weights=near,
        labels=labels,
        residuals=residuals,
        leverage=leverage[sample],
        scale=scale,
        floor=residual_floor(scale, noise, len(labels) > rows.shape[1]),
        clips=candidate_clips(usual / scale, fitted * root, scale),
        curvature_error=tuning.CURVATURE * whitener.confirmed / len(labels),
        blank=blank,
    )


def golden_shares(count: int) -> FloatArray:
    """Even shares (count,), in an order that is unrelated to that of rows."""
    return np.asarray(np.modf((np.arange(count) + 0.5) * _GOLDEN)[0])


def candidate_clips(residuals: FloatArray, fitted: FloatArray, scale: float) -> tuple[Bound, ...]:
    """Bounds to choose from, with their effects on `residuals` (m,), in units of their `scale`, of predictions `fitted` (m,)."""
    return tuple(_clip(bound, residuals, fitted, scale) for bound in tuning.CLIPS)


def robust_covariance(rows: FloatArray, residuals: FloatArray) -> FloatArray:
    """Covariance (D, D) of least squares of rows (m, D), m > D, for residuals (m,) of unequal variances (HC3)."""
    basis, values, axes = np.linalg.svd(rows, full_matrices=False)
    least = tuning.COLLINEAR * values[0]
    weak = axes[values <= least]
    basis = basis[:, values > least]
    leverage = np.minimum(np.sum(basis**2, axis=1), 1.0 - 1e-9)
    # A row that alone determines a coefficient has no residual of its own.
    plain = leverage * float(residuals @ residuals) / (len(rows) - rows.shape[1])
    errors_sq = np.maximum((residuals / (1.0 - leverage)) ** 2, plain)
    root = (axes[values > least].T / values[values > least]) @ (
        basis * np.sqrt(errors_sq)[:, None]
    ).T
    # The SVD's basis of collinear directions is arbitrary, so that no row belongs to one of them.
    return np.asarray(root @ root.T + (weak.T @ weak) * float(errors_sq.mean()) / least**2)


def residual_scale(residuals: FloatArray, usual: FloatArray, floor: float) -> float:
    """Scale of public residuals (k,) by the median absolute deviation, as long ones are clipped; `usual` (k,): weighted ones."""
    middle = 1.4826 * float(np.median(np.abs(residuals - np.median(residuals))))
    return max(middle, 0.2 * float(np.sqrt(np.mean(usual**2))), floor)


def residual_floor(scale: float, noise: float, many: bool) -> float:
    """Least variance of a label about the best prediction; of few rows, by the likelihood's noise variance."""
    return scale**2 / 4.0 if many else min(max(noise, scale**2 / 1000.0), scale**2 / 4.0)


def energy_of(clipped: FloatArray, inside: float) -> float:
    """Mean square of clipped residuals (k,), enlarged by the standard error of the share of those that are not clipped."""
    return float(np.mean(clipped**2)) * (
        1.0 + 2.0 * math.sqrt((1.0 - inside) / (inside * len(clipped)))
    )


def marginal_likelihood(
    terms: FloatArray, labels: FloatArray, size: int | None = None
) -> tuple[float, float]:
    """Variances of the noise and of a coefficient, the most likely over a grid of ratios, or means over it for very few rows."""
    # `size` is the effective number of rows, if their weights are included in them.
    m, p = terms.shape
    worth = m if size is None else size
    # The smaller of the two Gram matrices has the same eigenvalues.
    gram = terms @ terms.T if m <= p else terms.T @ terms
    values, vectors = np.linalg.eigh(gram)
    values = np.maximum(values, 0.0)
    if m <= p:
        along = vectors.T @ labels
    else:
        along = (vectors.T @ (terms.T @ labels)) / np.sqrt(np.maximum(values, 1e-300))
        along[values <= 1e-12 * values[-1]] = 0.0
    rest = max(float(labels @ labels - along @ along), 0.0)
    few = next_to_none(worth, p)
    ratios = _RATIOS[: _LINEAR_MODEST if m <= p and not few else None] * 10.0 / p
    grown = 1.0 + ratios[:, None] * values
    left = np.sum(along**2 / grown, axis=1) + rest
    if not left.min() > 0.0:
        return 0.0, 0.0
    score = -0.5 * ((worth - few) * np.log(left) + np.sum(np.log(grown), axis=1))
    if not few:
        best = int(np.argmax(score))
        noise = float(left[best]) / worth
        return noise, float(ratios[best]) * noise
    # For very few rows the most likely ratio is often the largest, and the fit seems exact: means over all ratios are used.
    share = ratios * p / (1.0 + ratios * p)
    score += np.log(share * (1.0 - share))  # density of a uniform share on a log scale
    chance = np.exp(score - score.max())
    noises = left / max(worth - 3, 1)  # the mean of the inverse gamma law, if it exists
    return float(chance @ noises / chance.sum()), float(chance @ (ratios * noises) / chance.sum())


def _clip(bound: float, residuals: FloatArray, fitted: FloatArray, scale: float) -> ResidualClip:
    """Return a bound on residuals (in units of their scale) with its effects."""
    m = len(residuals)
    inside = max(float(np.mean(np.abs(residuals) < bound)), tuning.LEAST_INSIDE)
    clipped = np.clip(residuals, -bound, bound)
    change = (clipped / inside - residuals) * scale
    bias_sq = 0.0
    total_sq = 0.0
    doubt = float(change.var()) / m
    deviation = fitted - fitted.mean()
    spread = float(deviation.std())
    for direction in (np.ones(m), deviation / spread if spread > 0.0 else np.zeros(m)):
        moved = change * direction
        mean_sq = float(moved.mean()) ** 2
        error_sq = float(moved.var()) / m
        total_sq += mean_sq
        bias_sq += max(0.0, mean_sq - error_sq) + 0.5 * min(mean_sq, error_sq)
    # The chosen bound has a small estimated bias by selection: for intervals nothing is subtracted, and its error is added.
    return ResidualClip(
        bound=bound,
        inside=inside,
        energy=energy_of(clipped, inside),
        bias_sq=bias_sq,
        unseen_sq=total_sq + doubt,
    )


_MOST_STEPS = 200  # of a public fit


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FixedClip:
    """The bound on residuals of the Huber loss, in the unit of the labels: part of the target, so that it has no bias."""

    threshold: float  # the bound
    # (k,), residuals of public rows, in units of their scale
    residuals: FloatArray
    counts: FloatArray  # (k,), their weights in a mean square
    bias_sq: float = 0.0
    unseen_sq: float = 0.0

    def at(self, size: float) -> ResidualClip:
        """Return the clip for residuals of this size."""
        bound = self.threshold / size
        inside = max(float(np.mean(np.abs(self.residuals) < bound)), tuning.LEAST_INSIDE)
        clipped = np.clip(self.residuals, -bound, bound) * np.sqrt(self.counts)
        return ResidualClip(
            bound=bound,
            inside=inside,
            energy=energy_of(clipped, inside),
            bias_sq=0.0,
            unseen_sq=0.0,
        )


Bound = ResidualClip | FixedClip  # a choice of a bound on residuals


def huber_posterior(
    terms: FloatArray,
    labels: FloatArray,
    weights: FloatArray,
    whitener: Whitener,
    *,
    threshold: float,
    label_resolution: float = 0.0,
    importance: Importance = EVEN,
) -> Posterior:
    """As `linear_posterior`, for the coefficients that minimize the Huber loss; `threshold` is in the unit of the labels."""
    sample = importance.sample
    counted = weights * importance.weights
    shortened, left = _shortened(terms, labels, counted, whitener, threshold, len(weights[sample]))
    known = linear_posterior(
        terms,
        shortened,
        weights,
        whitener,
        label_resolution=label_resolution,
        importance=importance,
    )
    residuals = known.residuals
    near = weights[sample]
    if not known.blank:
        # The leave-one-out correction is that of the shortened residual.
        residuals = left[sample] + (known.residuals - (known.labels - known.rows @ known.mean))
    usual = residuals * np.sqrt(near)
    scale = residual_scale(
        residuals, usual, max(1e-12 * float(np.abs(labels).max()), label_resolution)
    )
    clip = FixedClip(threshold=threshold, residuals=usual / scale, counts=np.ones(len(usual)))
    return replace(
        known,
        labels=labels[sample],
        residuals=residuals,
        scale=scale,
        floor=residual_floor(scale, known.floor, len(labels) > known.rows.shape[1]),
        clips=(clip,),
        threshold=threshold,
    )


def _shortened(
    terms: FloatArray,
    labels: FloatArray,
    weights: FloatArray,
    whitener: Whitener,
    threshold: float,
    size: int,
) -> tuple[FloatArray, FloatArray]:
    """Return pseudo-labels (m,) whose least squares minimize the Huber loss, and the residuals (m,) at the minimum."""
    rows = whitener(terms)
    root = np.sqrt(weights)
    shape = whitener.ridge(0.0)
    centered = (terms - whitener.mean) * root[:, None]
    gram = (rows.T * weights) @ rows
    weights_fit = np.zeros(rows.shape[1])
    weights_fit[0] = float(np.median(labels))

    def shortened(w: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        left = labels - rows @ w
        inside = max(
            float(np.average(np.abs(left) < threshold, weights=weights)), tuning.LEAST_INSIDE
        )
        return labels - left + np.clip(left, -threshold, threshold) / inside, left, inside

    for _ in range(tuning.HUBER_ROUNDS):
        moved, _, inside = shortened(weights_fit)
        noise, spread = marginal_likelihood(
            centered, (moved - np.average(moved, weights=weights)) * root, size
        )
        ridge = noise / max(spread, 1e-12 * noise, 1e-300) * shape
        ridge[0, 0] += 1e-12 * gram[0, 0]
        weights_fit = _minimum(
            rows, labels, weights / inside, (gram + ridge, ridge), threshold, weights_fit
        )
    return shortened(weights_fit)[:2]


def _minimum(
    rows: FloatArray,
    labels: FloatArray,
    weights: FloatArray,
    matrices: tuple[FloatArray, FloatArray],
    threshold: float,
    start: FloatArray,
) -> FloatArray:
    """Return the minimum of the weighted Huber loss with a ridge, by steps with the curvature at a typical residual."""
    curvature, ridge = matrices
    factor = linalg.cho_factor(
        curvature + 1e-12 * np.trace(curvature) / len(curvature) * np.eye(len(curvature))
    )

    def value(w: FloatArray) -> float:
        size = np.abs(labels - rows @ w)
        each = np.where(size <= threshold, 0.5 * size**2, threshold * (size - 0.5 * threshold))
        return float(weights @ each) + 0.5 * float(w @ ridge @ w)

    def move(w: FloatArray) -> tuple[Any, Any]:
        slope = ridge @ w - rows.T @ (weights * np.clip(labels - rows @ w, -threshold, threshold))
        return slope, linalg.cho_solve(factor, slope)

    return _descended(start, value, move, lambda best: 1e-10 * max(best, 1e-300))


def huber_minimum(rows: FloatArray, labels: FloatArray, threshold: float) -> FloatArray:
    """Coefficients (D,) of the least Huber loss of rows (m, D) and labels (m,), next to without a prior."""
    gram = rows.T @ rows
    size = np.trace(gram) / len(gram)
    tiny = 1e-9 * size * np.eye(len(gram))
    curvature = gram + tiny
    ones = np.ones(len(labels))
    middle = float(np.median(labels))
    start = np.linalg.solve(curvature, rows.T @ (middle * ones))
    return _minimum(rows, labels, ones, (curvature, tiny), threshold, start)


_STRENGTHS = np.logspace(-2.0, 3.0, 11)


# probability of the second class at log-odds
chances: Callable[[FloatArray], FloatArray] = special.expit


def _losses(scores: FloatArray, labels: FloatArray) -> FloatArray:
    """The logistic losses of scores; `np.logaddexp` takes four times as long."""
    losses: FloatArray = (
        np.log(1.0 + np.exp(-np.abs(scores))) + np.maximum(scores, 0.0) - labels * scores
    )
    return losses


def fit(
    rows: FloatArray,
    labels: FloatArray,
    weights: FloatArray,
    precision: FloatArray,
    pull: FloatArray,
    start: FloatArray | None = None,
) -> FloatArray:
    """The minimum over w of the log-loss at `rows w` + w' precision w / 2 - pull' w, by damped Newton steps."""

    def value(w: FloatArray) -> float:
        return (
            float(np.sum(weights * _losses(rows @ w, labels)))
            + 0.5 * float(w @ precision @ w)
            - float(pull @ w)
        )

    def move(w: FloatArray) -> tuple[Any, Any]:
        p = chances(rows @ w)
        slope = rows.T @ (weights * (p - labels)) + precision @ w - pull
        return slope, np.linalg.solve(
            (rows.T * (weights * p * (1.0 - p))) @ rows + precision, slope
        )

    begin, part = (np.zeros(rows.shape[1]), 1e-12) if start is None else (start, 1e-6)
    return _descended(begin, value, move, lambda best: part * max(1.0, abs(best)))


def _descended(
    start: FloatArray,
    value: Callable[[FloatArray], float],
    move: Callable[[FloatArray], tuple[Any, Any]],
    little: Callable[[float], float],
) -> FloatArray:
    """Minimize a convex function: `move` returns its gradient and a step to subtract, which is halved until it decreases it."""
    current = start
    best = value(start)
    for _ in range(_MOST_STEPS):
        slope, step = move(current)
        length = 1.0
        gain = 0.25 * float(slope @ step)
        while not (reached := value(current - length * step)) <= best - length * gain:
            length /= 2.0
            if length <= 1e-9:
                return current
        done = best - reached <= little(best)
        current = current - length * step
        best = reached
        if done:
            break
    return current


def maximum_likelihood(rows: FloatArray, labels: FloatArray, weights: FloatArray) -> FloatArray:
    """Coefficients (D,) of the logistic loss with Jeffreys' prior, which are finite for separable classes (Firth 1993)."""
    mean = np.zeros(rows.shape[1])
    tiny = 1e-9 * np.eye(rows.shape[1])
    for _ in range(tuning.FIRTH_STEPS):
        p = chances(rows @ mean)
        basis = np.linalg.svd(
            rows * np.sqrt(weights * p * (1.0 - p))[:, None], full_matrices=False
        )[0]
        # each row counts as so many more, half of them in each class
        leverage = np.sum(basis**2, axis=1)
        more = weights + leverage
        before = mean
        mean = fit(
            rows, (weights * labels + 0.5 * leverage) / more, more, tiny, np.zeros(len(mean)), mean
        )
        if np.allclose(mean, before, rtol=1e-9, atol=1e-12):  # many rows need few steps
            break
    return mean


def robust_mean(labels: FloatArray, threshold: float) -> tuple[float, float]:
    """Constant of the least Huber loss, and its variance times the number of rows."""
    column = np.ones((len(labels), 1))
    (middle,) = huber_minimum(column, labels, threshold)
    residuals = labels - middle
    clipped = np.clip(residuals, -threshold, threshold)
    within = float(np.mean(clipped == residuals))
    inside = max(within, tuning.LEAST_INSIDE)
    return float(middle), float(np.mean(clipped**2)) / inside**2


def constant_odds(known: LogisticPosterior) -> tuple[float, float]:
    """Log-odds of the public classes, and their variance times the number of rows; finite for a single class."""
    # Half a row of each class is added: Jeffreys' prior of a share.
    labels = known.labels
    second = float(known.factors @ labels) + 0.5
    first = float(known.factors @ (1.0 - labels)) + 0.5
    both = first + second
    share = second / both
    bend = both / (len(labels) + 1.0) * share * (1.0 - share)
    scores = known.factors * (labels - share)
    score = float(np.mean(scores**2))
    return math.log(second / first), max(score, bend**2) / bend**2


def ridge_precision(
    rows: FloatArray, labels: FloatArray, weights: FloatArray, whitener: Whitener
) -> FloatArray:
    """Return the prior precision of coefficients of whitened public rows (m, D), with a strength by leave-one-out log-loss.

    Without a row of residual r, bend b = w p (1 - p) and h = x' H^-1 x its log-odds are about h w r / (1 - h b) less: one Newton
    step from the fit of all rows (Rad and Maleki 2020).
    """
    shape = whitener.ridge(tuning.INTERCEPT_RIDGE)
    few = len(rows) < tuning.FEW * rows.shape[1]
    strengths = _STRENGTHS[_STRENGTHS >= tuning.MODEST_RIDGE] if few else _STRENGTHS
    losses = {}
    mean = np.zeros(len(shape))
    for strength in reversed(strengths.tolist()):
        precision = strength * shape
        mean = fit(rows, labels, weights, precision, np.zeros(len(shape)), mean)
        scores = rows @ mean
        p = chances(scores)
        bends = weights * p * (1.0 - p)
        inverse = np.linalg.inv((rows.T * bends) @ rows + precision)
        worth = np.sum((rows @ inverse) * rows, axis=1)
        leverage = np.minimum(worth * bends, tuning.MOST_LEVERAGE)
        without = scores - worth * weights * (labels - p) / (1.0 - leverage)
        losses[strength] = float(weights @ _losses(without, labels))
    best: float = min(losses, key=losses.__getitem__)
    return best * shape


def normal_clips(posterior: Posterior) -> list[tuple[Bound, Bound]]:
    """Return candidate clips, each with the one that it is judged by, as residuals may be smaller than assumed."""
    return [
        (_normal(posterior, each, 1.0), _normal(posterior, each, tuning.SMALLER_RESIDUALS))
        if isinstance(each, ResidualClip)
        else (each, each)
        for each in posterior.clips
    ]


def _normal(posterior: Posterior, clip: ResidualClip, times: float) -> ResidualClip:
    """Return a clip of normal residuals that are `times` smaller than assumed; longer tails are included as observed."""
    far = times * clip.bound
    inside = 2.0 * float(ndtr(far)) - 1.0
    density = math.exp(-0.5 * far**2) / math.sqrt(2.0 * math.pi)
    usual = posterior.residuals * np.sqrt(posterior.weights) / posterior.scale
    energy = max(
        inside - 2.0 * far * density + far**2 * (1.0 - inside),
        float(np.mean(np.clip(usual, -far, far) ** 2)),
    )
    # unequal row weights
    weight = clip.energy / energy_of(np.clip(usual, -clip.bound, clip.bound), clip.inside)
    return replace(clip, inside=inside / times, energy=weight * energy / times**2)


_NORMAL = special.ndtri((np.arange(64) + 0.5) / 64.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LogisticPosterior(PublicLaw):
    """A normal approximation of the coefficients given public rows."""

    ridge: FloatArray  # (D, D), the precision of the prior
    curvature: FloatArray  # (D,), that of the loss of one row at `mean`
    # rows, labels and weights of the public loss
    counted: tuple[FloatArray, FloatArray, FloatArray]
    factors: FloatArray  # (m,), class weights of the rows, at most 1
    # (D,), mean square of a weighted residual relative to the curvature: 1 without class weights
    energy: FloatArray
    # a residual is bounded by one
    clips: ClassVar[tuple[ResidualClip, ...]] = (
        ResidualClip(bound=1.0, inside=1.0, energy=1.0, bias_sq=0.0, unseen_sq=0.0),
    )
    is_linear: ClassVar[bool] = False
    even: ClassVar[float] = tuning.EVEN_OF_CLASSES
    noise_share: ClassVar[float] = 1.0

    def labels_at(self, fitted: FloatArray) -> FloatArray:
        """Labels (m,) of the rows; made-up ones are drawn by log-odds `fitted` (m,)."""
        if self.drawn is None:
            return self.labels
        return np.where(self.drawn < chances(fitted), 1.0, 0.0)

    @property
    def part(self) -> float:
        """Excess loss per squared error of log-odds, on average over coordinates."""
        return 0.5 * float(self.curvature.mean())

    def sizes(self, errors: FloatArray) -> FloatArray:
        """Return one for each squared error: residuals are bounded by it."""
        return np.ones_like(errors)

    def curvature_at(self, mean: FloatArray, lever: FloatArray | float = 1.0) -> FloatArray:
        """Return the mean curvature (D,) of the loss of a typical row, with factors `lever` (k,), at coefficients (D,)."""
        return mean_curvature(self.typical, mean, lever * some(self.factors), len(self.labels))

    def bends_at(self, mean: FloatArray) -> FloatArray | float:
        """Return the curvature of each typical row at coefficients (D,), over its square, (k,)."""
        p = chances(self.typical @ mean)
        return some(self.factors) * p * (1.0 - p)

    @property
    def curvature_error(self) -> float:
        """Variance of an entry of the curvature of public rows, relative to the mean curvature."""
        return tuning.CURVATURE / len(self.labels)

    @property
    def excess(self) -> float:
        """Predicted excess of the log-loss over that of the best coefficients."""
        return 0.5 * float(self.curvature @ (self.varying * self.variance))

    def information(self, mean: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The curvature of the public loss at `mean`, and the covariance of its slope, (D, D) each; equal without class weights."""
        rows, labels, weights = self.counted
        p = chances(rows @ mean)
        known = (rows.T * (weights * p * (1.0 - p))) @ rows + self.ridge
        if np.ptp(self.factors) == 0.0:
            return known, known
        return known, (rows.T * (weights * (labels - p)) ** 2) @ rows + self.ridge

    @property
    def covariance(self) -> FloatArray:
        """Covariance (D, D) of the coefficients from these rows alone."""
        if np.ptp(self.factors) == 0.0:
            return np.diag(self.variance)
        return sandwich(*self.information(self.mean))


AnyPosterior = Posterior | LogisticPosterior


def logistic_posterior(
    terms: FloatArray,
    labels: FloatArray,
    weights: FloatArray,
    whitener: Whitener,
    *,
    importance: Importance = EVEN,
    factors: FloatArray | None = None,
) -> LogisticPosterior:
    """The posterior of public standardized terms (m, p) with weights (m,), labels (m,) of 0 and 1 and `factors` (m,) of classes."""
    # Rows are weighted by `importance`, and its sample represents the private rows.
    rows = whitener(terms)
    near = weights
    sample = importance.sample
    weights = weights * importance.weights
    ridge = ridge_precision(rows, labels, weights, whitener)
    mean = fit(rows, labels, weights, ridge, np.zeros(rows.shape[1]))
    p = chances(rows @ mean)
    values, turn = directions((rows.T * (weights * p * (1.0 - p))) @ rows + ridge)
    variance = 1.0 / np.maximum(values, 1e-12 * values[-1])
    rows = rows @ turn
    mean = turn.T @ mean
    near_rows = rows[sample]
    p = p[sample]
    near_labels = labels[sample]
    energy = np.ones(rows.shape[1])
    some_factors = np.ones(len(near_rows)) if factors is None else factors[sample]
    if factors is not None:
        # Along each coordinate, and at least that of all rows.
        squares = (some_factors * (near_labels - p)) ** 2
        bends = some_factors * p * (1.0 - p)
        least = tuning.LEAST_CURVATURE_OF_CLASSES * float(some_factors.mean())
        over_all = float(squares.mean()) / max(float(bends.mean()), least)
        along = squares @ near_rows**2
        along /= np.maximum(bends @ near_rows**2, least * np.sum(near_rows**2, axis=0) + 1e-300)
        energy = np.maximum(np.maximum(along, over_all), float(some_factors.min()))
    return LogisticPosterior(
        turn=turn,
        mean=mean,
        variance=variance,
        rows=near_rows,
        labels=near_labels,
        weights=near[sample],
        ridge=turn.T @ ridge @ turn,
        counted=(rows, labels, weights),
        factors=some_factors,
        energy=energy,
        curvature=mean_curvature(near_rows, mean, some_factors, len(some_factors)),
    )


def mean_curvature(rows: FloatArray, w: FloatArray, lever: FloatArray, m: int) -> FloatArray:
    """Mean curvature of the loss of a row along each coordinate, shrunk to an average for few public rows m, (D,)."""
    # Rows used in the fit have too extreme probabilities: if they are few, the larger curvature is used.
    scores = rows @ w
    p = chances(scores)
    weights = lever * p * (1.0 - p)
    share = min(1.0, (len(w) + 1.0) / m)
    average = float(weights.mean())
    if m < tuning.FEW * len(w):
        # The spread excludes the intercept, the mean of the scores.
        middle = float(scores.mean())
        fresh = chances(middle + math.sqrt(max(float(w @ w) - middle**2, 0.0)) * _NORMAL)
        average = max(average, float(lever.mean()) * float(np.mean(fresh * (1.0 - fresh))))
    curvature = (1.0 - share) * (weights @ rows**2) / len(rows)
    return curvature + share * max(average, tuning.LEAST_CURVATURE_OF_CLASSES)


def sandwich(information: FloatArray, score: FloatArray) -> FloatArray:
    """Return the covariance (D, D) of a minimum from the curvature and the covariance of the slope."""
    inverse = np.linalg.inv(information)
    covariance = inverse if score is information else inverse @ score @ inverse
    return np.asarray((covariance + covariance.T) / 2.0, dtype=np.float64)
