"""Predicted errors of the structures of the ladder, and the schedule of its counts and rounds, from public and released numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy import special

from fastpubpriv._types import FloatArray
from fastpubpriv.estimators.radii import chi_radius
from fastpubpriv.gaussians import gaussian_tuning as tuning
from fastpubpriv.gaussians.public_prior import EffectiveRows
from fastpubpriv.gaussians.rounds import Precision, noise_error
from fastpubpriv.privacy.spending import Spending
from fastpubpriv.results.public_draws import chi2_quantile

# Smallest share of a last round, for the check of its grid.
LEAST_LAST = tuning.LEAST_LEFT - tuning.EARLY_SHARES[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPlan(Precision):
    """Rounds of rows (v, 1); `first_radius_sq` is the first squared clipping radius, from the public rows."""

    first_radius_sq: float

    @property
    def dim(self) -> int:
        """Number of columns."""
        return self.side - 1

    @property
    def wide_radius_sq(self) -> float:
        """Squared clipping radius of rounds with little noise: most distant rows are within."""
        return (1.0 + chi_radius(self.dim, 0.1)) ** 2

    def ball_sq(self, variance: float = 1.0) -> float:
        """Return the squared radius that a count of norms is expected to choose for rows (z, c), with this variance of each z_j."""
        return constant_sq(self.dim) + 1.2 * max(variance, 1.0) * chi2_quantile(0.99, self.dim)

    def shows(self, share: Fraction) -> bool:
        """Whether an early round of this share has little noise even at the wide radius."""
        return self.slack(self.std(self.wide_radius_sq, share)) <= tuning.LEAST_SHOWN

    def radius_sq(self, made: int, share: Fraction) -> float:
        """Return the squared clipping radius of an early round: wide if noise is small, as clipped directions would be inflated."""
        if made == 0:
            return self.first_radius_sq
        # Otherwise to rows that are white but for a tenth of them.
        return self.wide_radius_sq if self.shows(share) else 1.0 + chi2_quantile(0.9, self.dim)

    def step(
        self, spectrum: FloatArray, left: Fraction, made: int, *, ball_sq: float | None = None
    ) -> tuple[Fraction | None, float]:
        """Return the share of the next round, None for the last with all that remains, and the predicted final squared error.

        The eigenvalues are `spectrum` (dim,); a last round that is the next clips to `ball_sq`, if that is known.
        """
        worth = tuning.WORTH_A_PASS if made else tuning.WORTH_A_ROUND
        best: tuple[Fraction | None, float] | None = None
        for share in [
            share for share in tuning.EARLY_SHARES if self.shows(share)
        ] or tuning.EARLY_SHARES:
            values = np.maximum(spectrum, 1e-300)
            rest = left
            for early in range(tuning.MOST_ROUNDS - made):
                usual = self.ball_sq(float(np.mean(values)))
                noise = (
                    self.noise_error(values, usual if early or ball_sq is None else ball_sq, rest)
                    ** 2
                )
                error_sq = (
                    self.dim * (self.dim + 1) / self.n
                    + noise
                    + 0.01 * np.add.reduce(np.square(1.0 - values))
                )
                error_sq = float(error_sq) if math.isfinite(error_sq) else math.inf
                if best is None or error_sq < worth * best[1]:
                    best = share if early else None, error_sq
                if rest <= tuning.LEAST_LEFT:
                    break
                values = values / (
                    values + self.slack(self.std(self.radius_sq(made + early, share), share))
                )
                rest -= share
        assert best is not None
        return best

    def noise_error(self, values: FloatArray, radius_sq: float, share: Fraction) -> float:
        """Return the relative Frobenius error by noise of a covariance with these eigenvalues in the coordinates of the release."""
        return noise_error(values, self.std(radius_sq, share))


def constant_sq(dim: int) -> float:
    """Return c^2 for rows (z, c) of a last round in two pieces: a larger c improves the mean and adds noise to the covariance."""
    return 1.0 + dim / 20.0


def count_share(n: float, spending: Spending) -> Fraction:
    """Return the share of an allowance for one count of n rows by their norms, 0 if noise would dominate it."""
    for share in tuning.COUNT_SHARES:
        if n / spending.std("count", share=share) >= (
            tuning.SIGNAL if share < tuning.COUNT_SHARES[-1] else tuning.LEAST_SIGNAL
        ):
            return share
    return Fraction(0)


@dataclass(frozen=True, slots=True)
class CountShares:
    """Shares of the allowance for counts of rows, from public numbers; 0 for counts that noise would dominate."""

    first: Fraction = Fraction(0)  # the first count of norms
    column: Fraction = Fraction(0)  # the count of each column whose public values are all equal
    columns: int = 0

    @property
    def vectors(self) -> Fraction:
        """Sum of all shares."""
        return self.first + self.columns * self.column

    @classmethod
    def of(cls, n: float, spending: Spending, columns: int = 0) -> CountShares:
        """Return the shares for n rows and this number of columns without a public scale."""
        first = count_share(n, spending)
        column = min(first, tuning.MOST_COLUMN_SHARE / columns) if columns else Fraction(0)
        if column and n / spending.std("count", share=column) < tuning.LEAST_SIGNAL:
            column = Fraction(0)
        return cls(first, column, columns)


def chi_beyond(dim: float, cut: float) -> float:
    """Return E max(X - cut, 0) for a chi-squared X with `dim` degrees of freedom."""
    cut = max(cut, 0.0)
    return float(dim * special.chdtrc(dim + 2, cut) - cut * special.chdtrc(dim, cut))


# ---- Structures that release one vector, and the combination of private and public mean (post-processing) -----------------


def combined(one: float, other: float) -> float:
    """Return the variance of the best combination of two independent estimates with these variances."""
    return (
        one * other / (one + other)
        if 0.0 < one < np.inf and 0.0 < other < np.inf
        else min(one, other)
    )


def axis_variances(
    released: FloatArray, std: float, n: float, worth: EffectiveRows
) -> tuple[FloatArray, float]:
    """Return variances (dim,) of the axes, shrunk to a common scale as far as noise explains, and that scale, shrunk to 1."""
    dim = worth.dim
    first = released[:dim]
    second = released[dim:]
    raw = 1.0 + np.sqrt(2.0) * second - np.square(first) + std * std
    errors_sq = 2.0 * np.square(np.maximum(raw, 0.1)) / n + 2.0 * std * std
    own = 2.0 / max(worth.scales, 1.0)
    weight = own / (own + float(np.mean(errors_sq)) / dim)
    common = max(1.0 + weight * (float(np.mean(raw)) - 1.0), 0.05)
    gaps = raw - common
    between = own if dim <= 2 else max(0.0, float(np.mean(np.square(gaps) - errors_sq)))
    variances = common + between / (between + errors_sq) * gaps
    return np.maximum(variances, 0.1 * common), common


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted relative Frobenius error of the covariance and error of the mean in standard deviations."""

    covariance: float
    mean: float

    @property
    def divergence(self) -> float:
        """Criterion that ranks the structures: about twice the Kullback-Leibler divergence of a nearby estimate from the truth."""
        return self.covariance**2 / 2.0 + self.mean**2


@dataclass(frozen=True, slots=True)
class Forecasts:
    """Predictions for all structures, and the structure that `auto` chooses."""

    structures: dict[str, Prediction]
    best: str
    own_error_sq: float  # squared error of the full structure's covariance without the public rows
    counts: CountShares = CountShares()  # counts before sums are released


def vector_radius(structure: str, worth: EffectiveRows) -> float:
    """Return the clip radius of structure "mean", or of the 2 dim features of "diagonal"."""
    dim = worth.dim
    radius_sq = worth.radius_sq(tuning.WITHIN)
    if structure == "mean":
        return math.sqrt(radius_sq)
    wide = radius_sq / chi2_quantile(tuning.WITHIN, dim)
    return math.sqrt(dim * wide + (dim + 2.0 * math.sqrt(24.0 * dim)) * wide * wide)


def full_plan(worth: EffectiveRows, n: float, spending: Spending) -> RoundPlan:
    """Return the plan of the full structure's covariance for this noise."""
    return RoundPlan(
        worth.dim + 1, n, spending, first_radius_sq=1.0 + worth.radius_sq(tuning.WITHIN)
    )


def _inflation(worth: EffectiveRows) -> float:
    """Return the squared error of axis variances: inverse Wishart matrices of few rows inflate by d / (m - d) on average."""
    dim = worth.dim
    degrees = worth.n_pub - 1
    if degrees < dim:
        return 0.0
    return (dim - 1.0) * (dim / (degrees - dim + 1.0)) ** 2


def forecast_structures(
    worth: EffectiveRows, n: float, spending: Spending, counts: CountShares = CountShares()
) -> Forecasts:
    """Predict every structure for n private rows and choose; `counts` are paid first."""
    spending = spending.part(1 - counts.vectors)
    dim = worth.dim
    spectrum = worth.spectrum()
    inverse = float(np.mean(1.0 / spectrum))
    off = dim * (dim - 1) / worth.typical
    own = 2.0 * dim / worth.scales
    public_mean = dim / worth.n_pub

    def mean_error(added: float) -> float:
        return math.sqrt(combined(public_mean, dim / n + added))

    std = vector_radius("mean", worth) * spending.std("sum", dim) / n
    structures = {
        "public": Prediction(math.sqrt(off + own), math.sqrt(public_mean)),
        "mean": Prediction(math.sqrt(off + own), mean_error(dim * std * std * inverse)),
    }
    std = vector_radius("diagonal", worth) * spending.std("sum", 2 * dim) / n
    scales = combined(
        own, 2.0 * dim / n + 2.0 * dim * (std * inverse) ** 2 + tuning.CLIP_BIAS_SQ * dim
    )
    structures["diagonal"] = Prediction(
        math.sqrt(off + scales + _inflation(worth)), mean_error(dim * std * std * inverse)
    )
    plan = full_plan(worth, n, spending)
    with np.errstate(all="ignore"):
        _, own_error_sq = plan.step(spectrum, Fraction(1), 0)
    std = plan.std(plan.ball_sq(), Fraction(1)) / math.sqrt(2.0 * constant_sq(dim))
    structures["full"] = Prediction(
        math.sqrt(combined(off + own, own_error_sq)),
        mean_error(dim * std * std * min(inverse, 1.5)),
    )
    best = min(("public", "mean"), key=lambda name: structures[name].divergence)
    # Variances alone improve little on the public covariance.
    if (
        structures["diagonal"].divergence <= tuning.GAIN * structures[best].divergence
        and structures["diagonal"].mean <= tuning.DIAGONAL_MEAN * structures["public"].mean
    ):
        best = "diagonal"
    if (
        own_error_sq <= dim / 2.0
        and structures["full"].divergence <= tuning.GAIN * structures[best].divergence
    ):
        best = "full"
    return Forecasts(structures, best, own_error_sq, counts)
