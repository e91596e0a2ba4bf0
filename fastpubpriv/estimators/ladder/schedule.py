"""The plan of the full rung: how many second moments, and what share each gets, from public and released numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.estimators.radii import chi_radius
from fastpubpriv.public_draws import chi2_quantile, chi2_quantiles

# ---- How much of the rows' spread was clipped away, from a released second moment ------------------------------------

MOST = 3.0
STEPS = 4
QUANTILES = 400


def clip_factor(second: FloatArray, radius_sq: float, *, std: float, n: float) -> float:
    """The factor (at most 3) between the second moment of Gaussian rows y and `second` (dim, dim), that of (y, 1) clipped.

    Squared norms are taken as a multiple of a chi-squared variable with the trace and the variance that `second` shows, after
    noise (`std` on the diagonal) and sampling (n rows) have been taken out of it.
    """
    dim = len(second)
    trace = max(float(np.trace(second)), 0.05 * dim)
    own = std * std * dim * (dim + 1) / 2.0 + trace * trace * (dim + 1) / (dim * n)
    with np.errstate(over="ignore", invalid="ignore"):
        power = float(np.nan_to_num(np.sum(np.square(second)) - own, nan=trace * trace))
    power = min(max(power, trace * trace / dim), trace * trace)
    freedom = trace * trace / power
    levels = chi2_quantiles((np.arange(QUANTILES) + 0.5) / QUANTILES, freedom) * (power / trace)
    factor = 1.0
    for _ in range(STEPS):
        norms = factor * levels
        kept = np.minimum(norms, radius_sq * norms / (1.0 + norms))
        factor = min(MOST, float(np.mean(norms) / np.mean(kept)))
    return factor


EARLY_SHARES = (Fraction(3, 100), Fraction(8, 100), Fraction(1, 5))
MOST_ROUNDS = 9
# An early round is made only while more than this is left.
LEAST_LEFT = Fraction(3, 10)
# The smallest share that a last round may be left with, for the check of its grid.
LEAST_LAST = LEAST_LEFT - EARLY_SHARES[-1]
WORTH_A_ROUND = 0.97
# Squared relative error, for each column, that clipping to a ball of public size leaves of variances.
CLIP_BIAS_SQ = 0.01
# Where rows are seen far out: an early round that shows what is larger than this by a wide ball, and what another must be worth.
# Each further round blows up directions of few far rows, which it clips.
LEAST_SHOWN = 0.3
FAR_WORTH_A_ROUND = 0.65


@dataclass(frozen=True, slots=True)
class Noise:
    """Noise on the sum of rows of norm 1 on a fine grid, for a share of an allowance that is a rho or (`pure`) an epsilon.

    `moving`: the rows of leaves, where a pure allowance pays for a row that moves from one to another.
    """

    pure: bool
    allowance: Fraction
    moving: bool = False

    def part(self, share: Fraction) -> Noise:
        """The noise for a part of the allowance."""
        return Noise(self.pure, self.allowance * share, self.moving)

    def _cost(self, share: Fraction) -> float:
        """What a share costs, rounded once: the quotient of the products is that of the reduced fraction, and takes a tenth."""
        whole = self.allowance
        return max((whole.numerator * share.numerator) / (whole.denominator * share.denominator), 1e-300)

    def vector(self, dim: int, share: Fraction = Fraction(1)) -> float:
        """Standard deviation in each of `dim` coordinates."""
        cost = self._cost(share)
        return math.sqrt(8.0 * dim) / cost if self.pure else 2.0 / math.sqrt(2.0 * cost)

    def count(self, share: Fraction) -> float:
        """Standard deviation of the number of rows in one of several disjoint cells."""
        cost = self._cost(share)
        return math.sqrt(8.0) / cost if self.pure else 1.0 / math.sqrt(cost)

    def gram(self, side: int, share: Fraction = Fraction(1)) -> float:
        """Diagonal standard deviation of the equivalent Gaussian orthogonal ensemble on a second moment."""
        cost = self._cost(share)
        if not self.pure:
            return 1.0 / math.sqrt(cost)
        return 2.0 * (side + 1.0 if self.moving else math.sqrt(side * (side + 3.0) / 2.0)) / cost


@dataclass(frozen=True, slots=True)
class Step:
    """What to do next: an early round with this share of the covariance's allowance, or the last one (None) with all that is left.

    `error_sq` is the squared relative Frobenius error predicted for the end, `radius_sq` where this round clips.
    """

    share: Fraction | None
    error_sq: float
    radius_sq: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Rounds for `dim` columns and n rows; `first_radius_sq` is that of the first round, from the public rows."""

    dim: int
    n: float
    noise: Noise
    first_radius_sq: float

    @property
    def sampling(self) -> float:
        """How far the second moment of the rows strays from its mean, in spectral norm."""
        ratio = (self.dim + 1) / self.n
        return math.sqrt(ratio) + ratio / 2.0

    def slack(self, std: float) -> float:
        """How far noise of this diagonal standard deviation and sampling move eigenvalues."""
        return self.sampling + math.sqrt(2.0 * (self.dim + 1)) * std

    @property
    def white_radius_sq(self) -> float:
        """Where rounds after the first clip: rows that are white but for a tenth of them."""
        return 1.0 + chi2_quantile(0.9, self.dim)

    @property
    def wide_radius_sq(self) -> float:
        """Where rounds clip that can afford it: also most rows that are far out stay as they are."""
        return (1.0 + chi_radius(self.dim, 0.1)) ** 2

    def shows(self, share: Fraction) -> bool:
        """Whether noise would hide little of what an early round shows that clips wide."""
        return self.slack(self.std(self.wide_radius_sq, share)) <= LEAST_SHOWN

    def early_radius_sq(self, share: Fraction, *, far: bool = False) -> float:
        """Where an early round after the first clips: wide where rows are `far` out and noise allows it.

        A direction of few far rows that a narrow ball cuts off looks small, and would be blown up round after round.
        """
        return self.wide_radius_sq if far and self.shows(share) else self.white_radius_sq

    def std(self, radius_sq: float, share: Fraction) -> float:
        """Noise of a round on the mean second moment."""
        return radius_sq * self.noise.gram(self.dim + 1, share) / self.n

    def last_radius_sq(self, made: int, left: Fraction) -> float:
        """Where the last round clips after `made` others: wider where noise does not matter and the bias of clipping does."""
        if made == 0:
            return self.first_radius_sq
        wide = self.wide_radius_sq
        std = self.std(wide, left)
        quiet = std * std / 2.0 <= 0.25 / self.n or std * std * (self.dim + 1) / 2.0 <= 3e-4
        return wide if quiet else self.white_radius_sq

    def step(
        self, spectrum: FloatArray, left: Fraction, made: int, *, excess: float | None = None, far: bool = False
    ) -> Step:
        """The next round for rows whose covariance has these eigenvalues (dim,), with this share of the allowance left.

        `excess` is how far the rows were seen to fill the ball they are clipped to, beyond what white rows do; None before the
        first round. `far`: rows were counted far out.
        """
        with np.errstate(all="ignore"):
            return self._step(spectrum, left, made, excess, far)

    def _step(self, spectrum: FloatArray, left: Fraction, made: int, excess: float | None, far: bool) -> Step:
        worth = FAR_WORTH_A_ROUND if far else WORTH_A_ROUND
        shares = [share for share in EARLY_SHARES if self.shows(share)] if far else []
        best: Step | None = None
        for share in shares or EARLY_SHARES:
            values, rest = np.maximum(spectrum, 1e-300), left
            for early in range(MOST_ROUNDS - made):
                bias = (CLIP_BIAS_SQ * self.dim if excess is None else self.dim * excess**2) if early == 0 else 0.0
                error_sq = self._error_sq(values, self.last_radius_sq(made + early, rest), rest) + bias
                if best is None or error_sq < worth * best.error_sq:
                    first = self.first_radius_sq if made == 0 else self.early_radius_sq(share, far=far)
                    own = self.last_radius_sq(made, left) if early == 0 else first
                    best = Step(share if early else None, error_sq, own)
                if rest <= LEAST_LEFT:
                    break
                radius_sq = self.first_radius_sq if made + early == 0 else self.early_radius_sq(share, far=far)
                values = values / (values + self.slack(self.std(radius_sq, share)))
                rest -= share
        assert best is not None
        return best

    def noise_error(self, values: FloatArray, radius_sq: float, share: Fraction) -> float:
        """Relative Frobenius error that noise leaves of a covariance with these eigenvalues in the coordinates of the release."""
        with np.errstate(all="ignore"):
            return self._noise_error(values, radius_sq, share)

    def _noise_error(self, values: FloatArray, radius_sq: float, share: Fraction) -> float:
        inverse = 1.0 / values
        square: float = np.add.reduce(inverse) ** 2 + np.add.reduce(1.0 / values**2)
        return self.std(radius_sq, share) * math.sqrt(square / 2.0)

    def _error_sq(self, values: FloatArray, radius_sq: float, share: Fraction) -> float:
        """Called hundreds of times for each leaf: warnings are turned off by the caller, once."""
        noise = self._noise_error(values, radius_sq, share) ** 2
        found = self.dim * (self.dim + 1) / self.n + noise + 0.01 * np.add.reduce(np.square(1.0 - values))
        return float(found) if math.isfinite(found) else math.inf


def excess_of(factor: float, dim: int, radius_sq: float) -> float:
    """How far a clip factor is above that of white rows in the same ball."""
    white = clip_factor(np.eye(dim), radius_sq, std=0.0, n=math.inf)
    return 0.3 * max(factor - 1.03 * white, 0.0)
