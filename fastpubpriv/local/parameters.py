"""The cap of a local randomizer: its mass on the sphere or under a normal distribution, and the cap of least error.

A randomizer draws from a cap of mass q around the row with probability p, else from its complement. For every q its privacy is
exactly epsilon = |logit p + ln((1 - q) / q)|. All functions work with logarithms, for 1 <= dim <= 16777216 and epsilon up to 500.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

EPSILON_MIN = 2.0**-20
EPSILON_MAX = 500.0
# Subtracted from logit p, times max(1, epsilon): far above the rounding errors of the formulas below, of no visible effect.
SAFETY = 1e-9
# least 1 - threshold^2: thinner caps are not computed, and a larger epsilon is not fully used
_LEAST_OPENING = 1e-12


@dataclass(frozen=True, slots=True)
class Cap:
    """A cap and the probability of drawing from it.

    Attributes
    ----------
    threshold : float
        gamma, the least cosine to the row; for a normal law c, the least value along the row.
    log_mass : float
        ln q.
    logit : float
        ln(p / (1 - p)).
    scale : float
        m, the mean of a report along the row: reports are divided by it.

    Examples
    --------
    >>> from fastpubpriv.local import PrivUnit
    >>> cap = PrivUnit(8, epsilon=4.0).cap
    >>> 0.0 < cap.threshold < 1.0, cap.epsilon <= 4.0
    (True, True)
    """

    threshold: float
    log_mass: float
    logit: float
    scale: float

    @property
    def epsilon(self) -> float:
        """The exact privacy of the cap, |logit p + ln((1 - q) / q)|."""
        return abs(self.log_ratio)

    @property
    def log_ratio(self) -> float:
        """Log ratio of the densities of a report inside and outside of the cap: `epsilon` with its sign."""
        return self.logit + log_rest(self.log_mass) - self.log_mass

    @property
    def probability(self) -> float:
        """Probability of drawing from the cap."""
        return float(special.expit(self.logit))


def log_rest(log_mass: float) -> float:
    """Return ln(1 - q) from ln q."""
    return math.log(-math.expm1(log_mass)) if log_mass > -0.5 else math.log1p(-math.exp(log_mass))


def _log_gamma_ratio(a: float) -> float:
    """ln Gamma(a + 1/2) - ln Gamma(a), a > 0."""
    if a < 20.0:
        return math.lgamma(a + 0.5) - math.lgamma(a)
    b = 1.0 / (a * a)
    # The first omitted term is below 3e-15.
    return (
        0.5 * math.log(a)
        - (1.0 / 8.0 - b * (1.0 / 192.0 - b * (1.0 / 640.0 - b * 17.0 / 14336.0))) / a
    )


@lru_cache(maxsize=256)
def log_beta(alpha: float) -> float:
    """ln B(1/2, alpha)."""
    return 0.5 * math.log(math.pi) - _log_gamma_ratio(alpha)


def log_cap_mass(dim: int, threshold: float) -> float:
    """Return ln q of the cap {t >= threshold} of the unit sphere in `dim` >= 2 dimensions, 0 <= threshold < 1."""
    if dim == 2:
        return math.log(math.acos(threshold) / math.pi)
    alpha = 0.5 * (dim - 1)
    x = 0.5 * (1.0 - threshold)
    mass = float(special.betainc(alpha, alpha, x))
    if mass > 1e-290:
        return math.log(mass)
    front = alpha * math.log1p(-threshold * threshold) - math.log(2.0 * alpha) - log_beta(alpha)
    return front + math.log(_beta_fraction(alpha, x))


def _beta_fraction(a: float, x: float) -> float:
    """Return the continued fraction of I_x(a, a) (DLMF 8.17.22) by Lentz's method; converges fast for x < 1/2."""
    tiny = 1e-300
    c = 1.0
    d = 1.0 / (1.0 - 2.0 * a * x / (a + 1.0))
    value = d
    for k in range(1, 10_000):
        for step in (
            k * (a - k) * x / ((a + 2 * k - 1.0) * (a + 2 * k)),
            -(a + k) * (2.0 * a + k) * x / ((a + 2 * k) * (a + 2 * k + 1.0)),
        ):
            d = 1.0 / (1.0 + step * d or tiny)
            c = 1.0 + step / c or tiny
            value *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return value


def coordinate_density(dim: int, value: float) -> float:
    """Return the density of one coordinate of a uniform unit vector in `dim` dimensions; 0 for one."""
    return (dim - 1) * math.exp(_log_slope(dim, value)) / (1.0 - value * value) if dim > 1 else 0.0


def _log_slope(dim: int, threshold: float) -> float:
    """Return ln of q times the mean cosine in the cap: (1 - gamma^2)^alpha / ((dim - 1) B(1/2, alpha))."""
    alpha = 0.5 * (dim - 1)
    return alpha * math.log1p(-threshold * threshold) - math.log(dim - 1.0) - log_beta(alpha)


def _log_normal_slope(threshold: float) -> float:
    """Return ln of q times the mean in the tail, which is the normal density."""
    return -0.5 * threshold * threshold - 0.5 * math.log(2.0 * math.pi)


def log_tail_mass(threshold: float) -> float:
    """ln P(N(0, 1) >= threshold)."""
    return float(special.log_ndtr(-threshold))


def _best(
    log_slope: Callable[[float], float],
    log_mass: Callable[[float], float],
    epsilon: float,
    most: float,
) -> float:
    """Return the fixed point gamma = m(gamma), which maximizes m; m(gamma) is for the best p at gamma."""
    from scipy import optimize  # slow to import, and not needed to decode and sum reports

    # ln(e^epsilon - 1).
    growth = (
        epsilon + math.log(-math.expm1(-epsilon))
        if epsilon > 30.0
        else math.log(math.expm1(epsilon))
    )

    def log_scale(threshold: float) -> float:
        return (
            log_slope(threshold) + growth - float(np.logaddexp(0.0, log_mass(threshold) + growth))
        )

    low = log_scale(0.0)
    high = math.log(most)
    if log_scale(most) >= high:
        return most
    root = optimize.brentq(
        lambda at: log_scale(math.exp(at)) - at, low, high, xtol=1e-14, rtol=1e-15
    )
    return math.exp(float(root))


def cap_of(dim: int, threshold: float, logit: float) -> Cap:
    """Return the cap of the sphere with this threshold and ln(p / (1 - p)); for `dim` = 1 the threshold is 0."""
    if dim == 1:
        return Cap(0.0, -math.log(2.0), logit, math.tanh(0.5 * logit))
    log_mass = log_cap_mass(dim, threshold)
    return Cap(threshold, log_mass, logit, _scale(_log_slope(dim, threshold), log_mass, logit))


def tail_of(threshold: float, logit: float) -> Cap:
    """Return the tail {a >= threshold} of a normal distribution as a cap with this logit."""
    log_mass = log_tail_mass(threshold)
    return Cap(threshold, log_mass, logit, _scale(_log_normal_slope(threshold), log_mass, logit))


def _scale(log_slope: float, log_mass: float, logit: float) -> float:
    """Return slope (p / q - (1 - p) / (1 - q)): the minus sign is that of Bhowmick et al. (LLHR, Algorithm 3, print a plus)."""
    inside = -math.log1p(math.exp(-logit)) if logit > -30.0 else logit
    outside = -math.log1p(math.exp(logit)) if logit < 30.0 else -logit
    one = inside - log_mass
    other = outside - log_rest(log_mass)
    return math.exp(log_slope + one) * -math.expm1(other - one)


def logit_for(epsilon: float, log_mass: float) -> float:
    """Return ln(p / (1 - p)) at which a cap of this mass is exactly epsilon-private."""
    return epsilon + log_mass - log_rest(log_mass)


@lru_cache(maxsize=1024)
def best_cap(dim: int, epsilon: float) -> Cap:
    """Return the cap of the sphere with the least error (PrivUnit): 1 / threshold^2 - 1 at radius 1."""
    # For a small dim and a huge epsilon the cap is not made thinner than 1 - threshold^2 = 1e-12, and less than epsilon is used.
    if dim == 1:
        return cap_of(1, 0.0, epsilon)
    most = math.sqrt(1.0 - _LEAST_OPENING)
    threshold = _best(
        lambda at: _log_slope(dim, at), lambda at: log_cap_mass(dim, at), epsilon, most
    )
    log_mass = log_cap_mass(dim, threshold)
    used = epsilon
    if threshold == most:
        # A p even closer to 1 gains nothing: use the least logit with an error within a factor 1 + 1e-12.
        used = min(epsilon, log_rest(log_mass) - log_mass + 40.0)
    return cap_of(dim, threshold, logit_for(used, log_mass))


@lru_cache(maxsize=1024)
def best_tail(epsilon: float) -> Cap:
    """Return the tail of a normal law with the largest mean along the row (PrivUnitG): error dim / threshold^2 at radius 1."""
    threshold = _best(_log_normal_slope, log_tail_mass, epsilon, 100.0)
    return tail_of(threshold, logit_for(epsilon, log_tail_mass(threshold)))


def bhowmick_threshold(dim: int, epsilon: float) -> float:
    """Return the largest threshold that the conditions of Bhowmick et al. allow for ln((1 - q) / q) <= epsilon, dim >= 3."""
    from scipy import optimize  # as above

    first = min(1.0, math.tanh(0.5 * epsilon) * math.sqrt(0.5 * math.pi / (dim - 1.0)))
    low = math.sqrt(2.0 / dim)
    high = 1.0 - 1e-12
    base = 0.5 * math.log(dim) + math.log(6.0)

    def needed(at: float) -> float:
        return base - 0.5 * (dim - 1.0) * math.log1p(-at * at) + math.log(at)

    if low >= high or needed(low) > epsilon:
        return first
    second = (
        high
        if needed(high) <= epsilon
        else float(optimize.brentq(lambda at: needed(at) - epsilon, low, high))
    )
    return max(first, second)
