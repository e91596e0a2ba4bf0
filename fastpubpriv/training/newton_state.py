"""What is known of coefficients after some measurements of them, public rows and measurements pooled by inverse variance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fastpubpriv._types import FloatArray

_FAR = 4.0  # a squared distance so many times as large as predicted is a surprise
_SEEN = 3.0  # standard deviations from which a difference counts as seen
FEW, FEW_OF_CLASSES = 2, 5  # public rows for each coordinate, up to which no interval is honest
MANY = 10  # public rows for each coordinate, from which what they leave open of the curvature is small


class Known(Protocol):
    """What a posterior tells a state."""

    @property
    def mean(self) -> FloatArray:
        """Coefficients."""

    @property
    def variance(self) -> FloatArray:
        """Of the coefficients."""

    @property
    def unexplained(self) -> float:
        """Variance of a residual that no coefficients explain."""

    @property
    def spread(self) -> float:
        """Sum of the variances."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measured:
    """A measurement of the coefficients, its variance, where it started and the squared error predicted there."""

    value: FloatArray
    variance: FloatArray
    start: FloatArray
    error: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Slope:
    """What a step saw of the slope of the loss."""

    start: FloatArray  # (D,), the coefficients where it was measured
    # with doubt: its squared length without that of the noise, and by how much the noise may change this
    length_sq: float
    doubt: float
    back: float  # how far it points back to the public fit, beyond noise


class State:
    """What is known after some measurements: coefficients and their variances, in the coordinates of the posterior.

    Attributes
    ----------
    mean, variance : (D,) float64
        Of the coefficients, public rows and measurements together.
    drift : float
        Factor by which the public rows' variance was enlarged, 1 where they agree with the measurements.
    private_mean, private_precision, noise_precision : (D,) float64
        Of the measurements alone; and their precision without the sampling of the private rows, which all have in common.
    lever : (k,) float64
        Factors of public rows in the last step, see `Weighting`.
    """

    def __init__(self, posterior: Known) -> None:
        dim = len(posterior.mean)
        self._posterior = posterior
        self._measured: list[Measured] = []
        self.mean: FloatArray = posterior.mean.copy()
        self.variance: FloatArray = posterior.variance.copy()
        self.drift = 1.0
        self._disagreement = 0.0
        self.lever: FloatArray = np.ones(0)
        self.noise_precision: FloatArray = np.zeros(dim)
        self.private_precision: FloatArray = np.zeros(dim)
        self.private_mean: FloatArray = np.zeros(dim)
        self._began: FloatArray = np.zeros(dim)
        self._unsure: FloatArray = np.zeros((dim, 0))
        self._slopes: list[Slope] = []

    @property
    def error(self) -> float:
        """Predicted excess; the disagreement with public rows counts."""
        return float(self.variance.sum()) + self._disagreement

    @property
    def scale(self) -> float:
        """Predicted size of a residual at the present coefficients, from public numbers and `error`."""
        return math.sqrt(self._posterior.unexplained + self.error)

    def add(self, measured: FloatArray, variance: FloatArray, sampling: float | FloatArray) -> None:
        """Pool a measurement of the coefficients made at the present ones, and update everything."""
        self._measured.append(Measured(value=measured, variance=variance, start=self.mean, error=self.error))
        self._pool(None, sampling)
        self._pool(self.private_mean, sampling)
        public, dim = self._posterior, len(measured)
        apart = (self.private_mean - public.mean) ** 2
        disagreement = float(np.sum(apart / (public.variance + 1.0 / self.private_precision)))
        self.drift = disagreement / dim if disagreement > dim + 3.0 * math.sqrt(2.0 * dim) else 1.0
        trusted = 1.0 / (self.drift * public.variance)
        self.variance = 1.0 / (trusted + self.private_precision)
        self.mean = self.variance * (trusted * public.mean + self.private_precision * self.private_mean)
        # A drift along few directions is larger there than the enlarged variance says: what of it the pooled mean keeps is seen.
        kept = (self.variance * trusted) ** 2 @ (apart - 1.0 / trusted - 1.0 / self.private_precision)
        self._disagreement = max(0.0, float(kept)) if self.drift > 1.0 else 0.0

    def _pool(self, now: FloatArray | None, sampling: float | FloatArray) -> None:
        """Pool the measurements by inverse variance.

        An earlier one that started much farther from `now` than was predicted has that distance added to its variance: clipped
        residuals then did little more than to point the right way.
        """
        precision, weighted, started = (np.zeros_like(self.mean) for _ in range(3))
        for index, each in enumerate(self._measured):
            variance = each.variance
            if now is not None and index + 1 < len(self._measured):
                expected = each.error + float(np.sum(1.0 / self.private_precision))
                variance = variance + max(0.0, float(np.sum((each.start - now) ** 2)) - _FAR * expected)
            precision += 1.0 / variance
            weighted += each.value / variance
            started += each.start / variance
        self.noise_precision = precision
        self.private_precision = 1.0 / (1.0 / precision + sampling)
        self.private_mean = weighted / precision
        self._began = started / precision

    @property
    def _agreed(self) -> FloatArray:
        """The covariance of the coefficients where the curvature is as it was taken to be, (D, D)."""
        return np.diag(self.variance)

    @property
    def covariance(self) -> FloatArray:
        """Of the coefficients, (D, D)."""
        agreed = self._agreed
        moved = (agreed * self.private_precision) @ self._unsure
        return agreed + moved @ moved.T

    @property
    def noise(self) -> FloatArray:
        """The part of `covariance` that is noise for privacy, (D, D)."""
        gain = self._agreed * self.private_precision
        found: FloatArray = (gain / self.noise_precision) @ gain.T
        return found

    def widen(self, rows: FloatArray, slopes: FloatArray, m: int, n_priv: float) -> None:
        """Count in `covariance` what m public rows, of which `rows` (k, D) are some, leave open of the curvature.

        It is a mean over m rows, of which D went into the coordinates, and acts on all measurements alike: on the way from where
        they started, on average, to the best coefficients. `slopes` (k, D) is by how much a row bends a measurement, over its
        prediction of that way.
        """
        seen = m / max(m - rows.shape[1], 1) ** 2 + 1.0 / n_priv
        apart = self.private_mean - self._began
        way = np.sqrt((rows @ apart) ** 2 + rows**2 @ self.variance)
        self._unsure = (slopes * way[:, None]).T * math.sqrt(seen / len(rows))

    def note_slope(self, slope: FloatArray, noise_variance: FloatArray) -> None:
        """Keep how long the slope (D,) of the loss is at the present coefficients, and how far it points back, for `settle`."""
        way = self._posterior.mean - self.mean
        self._slopes.append(
            Slope(
                start=self.mean,
                length_sq=float(np.sum(slope**2 - noise_variance)),
                doubt=_SEEN * math.sqrt(float(noise_variance @ (2.0 * noise_variance + 4.0 * slope**2))),
                back=float(slope @ way) - _SEEN * math.sqrt(float(noise_variance @ way**2)),
            )
        )

    def settle(self, *, wary: bool) -> None:
        """Go back where the last step ran away: to the shortest slope that does not point back to the public fit.

        With few public rows, private ones may bend the loss so much more than was taken that steps end beyond its minimum, farther
        than they began. The loss is convex: where its slope does not point back, beyond noise, it is no larger than at the start.

        `wary`, with next to no public rows: also where one of the last two slopes is longer than the shortest, beyond noise. Steps
        then leap to and fro across a minimum, and the last one ends where the slope was not seen. 4 public rows in 5 columns, 2,000
        private ones, epsilon 4, one draw: an error of 54 after the last step, of 1.6 where the slope was shortest.
        """
        shortest = min(self._slopes, key=lambda each: each.length_sq)
        most = max(0.0, shortest.length_sq + shortest.doubt)
        restless = wary and any(each.length_sq - each.doubt > most for each in self._slopes[-2:])
        if self._slopes[-1].back > 0.0 or restless:
            self.mean = min((each for each in self._slopes if each.back <= 0.0), key=lambda each: each.length_sq).start
