"""Mean and ridged covariance of public rows, their effective degrees of freedom, and their mismatch with private releases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special
from scipy.special import multigammaln, polygamma, psi

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.estimators.linalg import divided, lower_root, rebuilt, spectrum, symmetric
from fastpubpriv.gaussians import gaussian_tuning as tuning
from fastpubpriv.mechanisms.sums import AffineMap
from fastpubpriv.results.base import frozen
from fastpubpriv.results.public_draws import chi2_quantile, f_quantile


def log_evidence(pseudo_rows: FloatArray, scatter: FloatArray, degrees: int) -> FloatArray:
    """Return the log density of public rows with eigenvalues `scatter` under an inverse-Wishart prior, for each `pseudo_rows`."""
    dim = len(scatter)
    prior = pseudo_rows + dim + 1.0
    gammas = multigammaln((prior + degrees) / 2.0, dim) - multigammaln(prior / 2.0, dim)
    logs = np.array([np.sum(np.log(each + scatter)) for each in pseudo_rows])
    return np.asarray(
        gammas + prior / 2.0 * dim * np.log(pseudo_rows) - (prior + degrees) / 2.0 * logs
    )


def pseudo_rows(scatter: FloatArray, degrees: int, *, alike: bool = False) -> tuple[float, float]:
    """Return the pseudo-rows of largest evidence, capped so that no eigenvalue is lifted far, and the least plausible number."""
    dim = len(scatter)
    grid = tuning.PRIOR_GRID
    if dim == 1:
        return float(grid[0]), float(grid[0])
    levels = log_evidence(grid, np.maximum(scatter, 0.0), degrees)
    best = int(np.argmax(levels))
    likely = float(grid[best])
    least = float(grid[np.flatnonzero(levels >= levels[best] - tuning.BELIEVABLE)[0]])
    if degrees >= dim:
        likely = min(likely, lifting(scatter, degrees, tuning.LIFT))
        least = min(least, likely)
    elif levels[-1] >= levels[best] - (tuning.NO_WORSE_ALIKE if alike else tuning.NO_WORSE):
        likely = float(grid[-1])
    return likely, least


def lifting(scatter: FloatArray, degrees: int, part: float) -> float:
    """Return the ridge that lifts the least eigenvalue by this part of the way to its expectation."""
    dim = len(scatter)
    typical = max(0.3 / dim, (math.sqrt(degrees) - math.sqrt(dim)) ** 2)
    return max(
        part * max(float(np.min(scatter)), 0.0) * (degrees / typical - 1.0),
        float(tuning.PRIOR_GRID[0]),
    )


# Maximum number of column names in a warning; the result has all of them.
MOST_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveRows:
    """Effective sample size of the public covariance, for predictions."""

    dim: int
    n_pub: int
    low: float  # pessimistic degrees of freedom of the covariance
    likely: float  # likely degrees of freedom of the covariance
    scales: float  # degrees of freedom of the standard deviations of the axes

    @property
    def guess(self) -> bool:
        """Whether the public rows are too few to show how the columns vary together: a predicted covariance error is a guess."""
        return self.dim > 1 and self.n_pub - 1 < max(self.dim, tuning.LEAST_POOLED)

    @property
    def typical(self) -> float:
        """Geometric mean of the pessimistic and the likely degrees of freedom, the latter bounded."""
        return math.sqrt(self.low * min(self.likely, self.n_pub + 999.0))

    def radius_sq(self, probability: float) -> float:
        """Return the squared radius, in units of the public covariance, of a ball that holds this share of the rows."""
        free = self.low + 2.0
        return (
            (1.0 + 1.0 / self.n_pub)
            * (self.low / free)
            * self.dim
            * f_quantile(probability, self.dim, free)
        )

    def spectrum(self) -> FloatArray:
        """Return the expected eigenvalues (dim,) of the private covariance in units of the public one."""
        if self.low > 50.0 * self.dim:
            return np.ones(self.dim)
        # The inverses of the mid-quantiles of the eigenvalues of a Wishart matrix over its degrees of freedom (Marchenko-Pastur).
        # x = 1 + ratio - 2 sqrt(ratio) cos(angle) removes the square-root singularities at the ends of the density.
        angle = np.linspace(0.0, math.pi, 4001)
        ratio = self.dim / max(self.low, 1.02 * self.dim)
        place = 1.0 + ratio - 2.0 * math.sqrt(ratio) * np.cos(angle)
        density = np.square(np.sin(angle)) / np.maximum(place, 1e-300)
        density[[0, -1]] = 0.0
        mass = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2.0)])
        return 1.0 / np.interp((np.arange(self.dim) + 0.5) / self.dim, mass / mass[-1], place)

    def stretch(self, middle_sq: float | None) -> float:
        """Return the factor to the public scale: 1 if a released median of squared norms is within FACTOR of its prediction."""
        ratio = 1.0 if middle_sq is None else middle_sq / self.radius_sq(0.5)
        return 1.0 if 1.0 / tuning.FACTOR <= ratio <= tuning.FACTOR else math.sqrt(ratio)

    def refuted_by(self, stretch: float) -> bool:
        """Whether a stretch is larger than the sampling error of the public rows explains."""
        chance = math.log(tuning.FACTOR) + tuning.BY_CHANCE * math.sqrt(
            float(polygamma(1, self.low / 2.0))
        )
        return abs(2.0 * math.log(stretch)) > chance


def plain_worth(dim: int, n_pub: int) -> EffectiveRows:
    """Return the effective rows of n_pub public rows of unknown values, without any pseudo-rows."""
    degrees = float(max(n_pub - 1, 1))
    return EffectiveRows(dim=dim, n_pub=n_pub, low=degrees, likely=degrees, scales=degrees)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PublicPrior:
    """Mean and positive definite covariance of the public rows, with coordinates v = inverse (x - center)."""

    center: FloatArray
    root: FloatArray  # root root^T is the covariance that the coordinates whiten
    inverse: FloatArray
    # root of the covariance that is reported without a private one; its ridge is smaller
    reported: FloatArray
    worth: EffectiveRows
    ridge: float  # pseudo-rows in `root`
    # columns whose public values are all equal: they borrow the scale of the others
    fallback: tuple[int, ...] = ()
    # columns of `fallback` whose scale no private count has replaced
    borrowed: tuple[int, ...] = ()

    @property
    def affine(self) -> AffineMap:
        """The map x -> v for the kernels."""
        lower = not np.any(np.triu(self.inverse, 1))
        return AffineMap(dim=len(self.center), center=self.center, matrix=self.inverse, lower=lower)

    @property
    def covariance(self) -> FloatArray:
        """The reported public covariance, in squared data units."""
        return symmetric(self.reported @ self.reported.T)

    def settled(self, mean: FloatArray) -> FloatArray:
        """Return the mean with its public value in the columns with a borrowed scale, which would have decided their noise."""
        center = np.array(mean)
        center[list(self.borrowed)] = self.center[list(self.borrowed)]
        return center

    def rotated(self) -> PublicPrior:
        """Return the prior in axes in which its root is lower triangular, which halves the time of a pass."""
        root = lower_root(np.array(self.root), np.ones(len(self.root)))
        return replace(
            self, root=frozen(root), inverse=frozen(divided(root, np.eye(len(root), order="F")))
        )

    def stretched(self, factor: float) -> PublicPrior:
        """Return the prior with all scales multiplied by a released factor, and at most LEAST_DEGREES degrees of freedom."""
        worth = self.worth
        least = {
            name: min(getattr(worth, name), tuning.LEAST_DEGREES)
            for name in ("low", "likely", "scales")
        }
        return replace(
            self.scaled(np.full(len(self.center), factor)), worth=replace(worth, **least)
        )

    def scaled(self, factors: FloatArray) -> PublicPrior:
        """Return the prior with the scales of the columns multiplied by `factors` (dim,)."""
        root, reported = (frozen(each * factors[:, None]) for each in (self.root, self.reported))
        return replace(self, root=root, reported=reported, inverse=frozen(self.inverse / factors))


def moderated(logs: FloatArray, degrees: int) -> tuple[FloatArray, float, float]:
    """Return log variances (k,) of columns shrunk to a common one as far as chance explains them, that one, and their degrees."""
    chance = float(polygamma(1, degrees / 2.0))
    centered = logs - float(psi(degrees / 2.0)) + math.log(degrees / 2.0)
    middle = float(np.mean(centered))
    if len(logs) < 2 or degrees < tuning.LEAST_POOLED:
        return logs, middle, float(degrees)
    least = degrees / (degrees + float(tuning.PRIOR_GRID[-1]))
    spread = float(np.var(centered, ddof=1))
    error = math.sqrt(2.0 / (len(logs) - 1.0))
    if spread <= chance * (1.0 + tuning.BY_CHANCE * error):
        share = least
        middle = float(special.logsumexp(logs)) - math.log(len(logs))
    else:
        spread *= 1.0 + error
        share = max(least, (spread - chance) / spread)
    return share * logs + (1.0 - share) * middle, middle, degrees / share


def constant_text(names: Sequence[str]) -> str:
    """Return the text of a warning about columns whose public values are all equal."""
    shown = ", ".join(names[:MOST_NAMED])
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"the public rows are constant in {shown}{more}: the scale of the other columns stands in; pass public rows that differ"


def column_moments(x_pub: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the largest absolute value of each column and, in units of it to avoid overflow, means, deviations and variances."""
    largest = np.max(np.abs(x_pub), axis=0)
    unit = np.where(largest > 0.0, largest, 1.0)
    inner = x_pub / unit
    center = inner.mean(axis=0)
    gaps = inner - center
    return unit, center, gaps, np.sum(np.square(gaps), axis=0) / max(1, len(x_pub) - 1)


def column_scales(x_pub: FloatArray) -> FloatArray:
    """Return the standard deviation (dim,) of each column of public rows; nan where its values are all equal."""
    unit, _, _, variances = column_moments(x_pub)
    return np.where(variances > tuning.CONSTANT**2, unit * np.sqrt(variances), np.nan)


def public_prior(x_pub: FloatArray) -> PublicPrior:
    """Return mean and ridged covariance of distinct public rows (n_pub >= 2, dim); constant columns borrow the typical scale."""
    n_pub, dim = x_pub.shape
    if n_pub < 2:
        raise InputError(
            "a covariance needs at least two public rows; pass more, or use coinpress_covariance with a scale"
        )
    degrees = n_pub - 1
    unit, center, gaps, variances = column_moments(x_pub)
    known = variances > tuning.CONSTANT**2
    if not known.any():
        raise InputError(
            "all public rows are equal, so they say nothing about scale; pass distinct public rows"
        )
    logs, typical, scales = moderated(np.log(variances[known]) + 2.0 * np.log(unit[known]), degrees)
    spreads = np.full(dim, math.exp(typical / 2.0))
    spreads[known] = np.exp(logs / 2.0)
    gaps *= np.where(known, unit / spreads, 0.0)
    scatter, vectors = spectrum(gaps.T @ gaps)
    scatter = np.maximum(scatter, 0.0)
    ridge, ridge_low = pseudo_rows(scatter, degrees, alike=scales > tuning.PRIOR_GRID[-1])
    # The root and its inverse are by principal axes of the public rows, or near the columns.
    axes = ridge <= tuning.AXES * degrees
    roots = np.sqrt((ridge + scatter) / (ridge + degrees))
    if axes:
        root = spreads[:, None] * vectors * roots
        inverse = (vectors / roots).T / spreads
    else:
        root = spreads[:, None] * rebuilt(vectors, roots)
        inverse = rebuilt(vectors, 1.0 / roots) / spreads
    less = min(ridge, lifting(scatter, degrees, tuning.LIFT_REPORTED)) if degrees >= dim else ridge
    reported = spreads[:, None] * vectors * np.sqrt((less + scatter) / (less + degrees))
    low = ridge_low + degrees
    worth = EffectiveRows(
        dim=dim, n_pub=n_pub, low=low, likely=ridge + degrees, scales=low if axes else scales
    )
    base = PublicPrior(
        center=frozen(center * unit),
        root=frozen(root),
        inverse=frozen(inverse),
        reported=frozen(reported),
        worth=worth,
        ridge=ridge,
        fallback=(silent := tuple(np.flatnonzero(~known).tolist())),
        borrowed=silent,
    )
    if known.all():
        return base
    # A constant column has the spread of the ridge alone, which is almost zero; the borrowed scale replaces it.
    return base.scaled(np.where(known, 1.0, spreads / np.linalg.norm(root, axis=1)))


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Distance of public and private mean in standard deviations, whether beyond chance, and the public mean's squared error."""

    deviations: float
    beyond_chance: bool
    mean_error_sq: float

    def weight(self, error_sq: float) -> float:
        """Return the inverse-variance weight of a private mean with this squared error (paper B, equation 3)."""
        return self.mean_error_sq / (self.mean_error_sq + error_sq) if error_sq < math.inf else 0.0


def mismatch_of(
    distance_sq: float,
    noise_sq: float,
    worth: EffectiveRows,
    n: float,
    *,
    freedom: float = math.inf,
) -> Mismatch:
    """Return the mismatch for a released squared distance with expected noise `noise_sq`, by a covariance of `freedom` degrees."""
    dim = worth.dim
    quantile = (
        chi2_quantile(tuning.CHANCE, dim)
        if math.isinf(freedom)
        else f_quantile(tuning.CHANCE, dim, freedom) * dim
    )
    chance = tuning.MARGIN * (1.0 / worth.n_pub + 1.0 / n) * quantile + 4.0 * noise_sq * math.sqrt(
        2.0 / dim
    )
    excess = max(distance_sq - noise_sq, 0.0)
    public = dim / worth.n_pub
    beyond_chance = bool(excess > chance)
    return Mismatch(
        math.sqrt(excess), beyond_chance, max(public, excess - dim / n) if beyond_chance else public
    )
