"""Public preconditioning (paper A, Algorithms 1 and 2), and the methods of `estimate_gaussian` in its coordinates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammainc, gammaln

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.defaults import FAILURE_PROB
from fastpubpriv.errors import InputError
from fastpubpriv.estimators.linalg import Whitening, lower_inverse, symmetric
from fastpubpriv.estimators.radii import failure_probability, gap_ratio, gap_shift
from fastpubpriv.mechanisms.sums import AffineMap
from fastpubpriv.results.base import Value, explain, frozen
from fastpubpriv.results.fields import array, column, value_class
from fastpubpriv.results.gaussians import positive_definite
from fastpubpriv.results.public_draws import chi2_quantile, chi2_upper_quantile
from fastpubpriv.results.result_tables import Facts
from fastpubpriv.sources.open import public_rows

# A diagonal entry of R below this fraction of its column's norm is rounding: the column depends on those before it.
RANK_TOLERANCE = 1e-12


@value_class
class Preconditioner(Value):
    """Bounds by public rows on the private mean and covariance, which hold with probability 1 - `failure_prob`.

    With S = factor factor^T: eig_lower S <= Sigma <= eig_upper S in the Loewner order, and the private mean has norm at
    most mean_radius in the coordinates V = factor^-1 (x - center) / sqrt(eig_upper).

    Attributes
    ----------
    center : (dim,) float64
        Mean of the public rows.
    factor : (dim, dim) float64
        Lower triangular with positive diagonal; factor @ factor.T is the public sample covariance.
    eig_lower, eig_upper : float
        Bounds on the eigenvalues of the private covariance relative to the public one.
    mean_radius : float
        Bound on the norm of the private mean in the coordinates V.
    n_pub : int
        Number of public rows.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import precondition
    >>> public = np.random.default_rng(0).normal([5.0, 700.0], [1.0, 100.0], size=(50, 2))
    >>> guarantee = precondition(public)
    >>> guarantee.center.round().tolist(), guarantee.n_pub
    ([5.0, 718.0], 50)
    """

    center: FloatArray = array("dim", label="center")
    factor: FloatArray = array("dim", "dim")
    eig_lower: float
    eig_upper: float
    mean_radius: float
    n_pub: int
    failure_prob: float
    pub_priv_gap: float

    _line_axes = ("dim",)

    def __repr__(self) -> str:
        return (
            f"Preconditioner(dim={len(self.center)}, n_pub={self.n_pub}, eig_lower={self.eig_lower:.4g}, "
            f"eig_upper={self.eig_upper:.4g}, mean_radius={self.mean_radius:.4g})"
        )

    def _fits_together(self) -> bool:
        return positive_definite((self.factor @ self.factor.T)[None])

    def _axis(self, axis: str) -> tuple[str, Sequence[Any]]:
        return "column", [f"x{j}" for j in range(len(self.center))]

    @property
    @column("standard_deviation")
    def _spread(self) -> FloatArray:
        return np.asarray(np.linalg.norm(self.factor, axis=1))

    def _facts(self, level: float) -> Facts:
        bounds = f"{self.eig_lower:.4g} to {self.eig_upper:.4g} times the public one, the mean within {self.mean_radius:.4g}"
        return [
            ("Rows", f"{self.n_pub:,} public"),
            ("Private covariance", f"{bounds}, except with probability {self.failure_prob:g}"),
            ("Spent", explain(None)),
        ]

    @property
    def scale(self) -> FloatArray:
        """The lower factor sqrt(eig_upper) * factor; its inverse maps the private covariance to at most the identity."""
        return math.sqrt(self.eig_upper) * self.factor

    def whitening(self) -> FloatArray:
        """Inverse of `scale`, lower triangular, (dim, dim)."""
        return lower_inverse(self.scale)


def least_eigenvalue(degrees: int, dim: int, failure_prob: float) -> float:
    """Return a lower bound on the least eigenvalue of a Wishart matrix of `dim` columns that fails with at most `failure_prob`.

    Edelman (1988): with a = (degrees - dim + 1) / 2, its density at x is at most L x^(a - 1) e^(-x/2),
    L = 2^(a - 1) Gamma((degrees + 1) / 2) / (Gamma(dim / 2) Gamma(2a)); the integral of that bound is solved for x. For dim + 1
    public rows this is slightly sharper than the 9 dim^2 / failure_prob^2 of Algorithm 1.
    """
    shape = (degrees - dim + 1) / 2.0
    constant = (2.0 * shape - 1.0) * math.log(2.0) + gammaln((degrees + 1) / 2.0)
    constant += gammaln(shape) - gammaln(dim / 2.0) - gammaln(2.0 * shape)

    def log_bound(log_x: float) -> float:
        half = math.exp(log_x) / 2.0
        share = float(gammainc(shape, half))
        log_share = (
            math.log(share)
            if share > 1e-280
            else shape * math.log(half) - float(gammaln(shape + 1.0))
        )
        return float(constant) + log_share

    goal = math.log(failure_prob)
    low = -700.0
    high = math.log(degrees + 1.0)
    while high - low > 1e-12:
        middle = (low + high) / 2.0
        low, high = (middle, high) if log_bound(middle) <= goal else (low, middle)
    return math.exp(low)


def precondition_bounds(
    dim: int, n_pub: int, pub_priv_gap: float, failure_prob: float
) -> tuple[float, float, float]:
    """Return the bounds of `precondition` for any n_pub rows: eig_lower, eig_upper, mean_radius."""
    degrees = n_pub - 1
    tail = math.log(3.0 / failure_prob)
    # Extreme eigenvalues of a Wishart matrix: Davidson-Szarek on either side, and Edelman's density at the lower end,
    # without which the bounds for between dim + 1 and a few times dim public rows would be very weak.
    eig_lower = degrees / (math.sqrt(degrees) + math.sqrt(dim) + math.sqrt(2.0 * tail)) ** 2
    eig_upper = degrees / least_eigenvalue(degrees, dim, failure_prob / 3.0)
    margin = math.sqrt(degrees) - math.sqrt(dim) - math.sqrt(2.0 * tail)
    if margin > 0.0:
        eig_upper = min(eig_upper, degrees / margin**2)
    mean_radius = math.sqrt((dim + 2.0 * math.sqrt(dim * tail) + 2.0 * tail) / n_pub)
    if pub_priv_gap > 0.0:
        eig_lower /= gap_ratio(pub_priv_gap) ** 2
        eig_upper *= gap_ratio(pub_priv_gap) ** 2
        mean_radius += gap_shift(pub_priv_gap)
    return eig_lower, eig_upper, mean_radius


def precondition(
    x_pub: Any, *, pub_priv_gap: float = 0.0, failure_prob: float = FAILURE_PROB
) -> Preconditioner:
    """Bounds by at least dim + 1 public rows on the private mean and covariance. No private data, no privacy cost.

    Parameters
    ----------
    x_pub : (n_pub, dim) array-like, n_pub >= dim + 1
        Public rows, finite, in general position, in data units.
    pub_priv_gap : float in [0, 1)
        Largest total-variation distance between the Gaussian of the public rows and that of the private ones.
    failure_prob : float in (0, 1), default 0.05
        Probability with which a bound of this call may fail. A failure costs accuracy, never privacy.
        The probability is over the public rows.

    Returns
    -------
    Preconditioner
        Center, factor, eigenvalue bounds and mean radius.

    Raises
    ------
    InputError
        Fewer than dim + 1 rows, non-finite entries, or rows that lie in a subspace (duplicates, collinear columns).

    Privacy
    -------
    Reads public data only.

    See Also
    --------
    estimate_gaussian : the private estimate that starts from such bounds.
    plan : the error that rows and a budget would give, before public rows exist.

    Notes
    -----
    Paper A, Algorithm 1 and Lemmas 2.5 and B.11. Departs from it: the factor comes from a QR decomposition, so the
    condition number is not squared; more than dim + 1 rows sharpen the bounds (Edelman's density, Davidson-Szarek); the
    mean radius is the exact one of the proof, not the constant printed in Algorithm 2; for a gap above zero the
    univariate facts behind Lemma B.11 are used before they are rounded up (4 / (1 - gap)^4 bounds gap_ratio^2), so that
    the bounds are continuous at gap 0.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> guarantee = precondition(rng.standard_normal((200, 3)))
    >>> bool(guarantee.eig_lower < 1.0 < guarantee.eig_upper)
    True
    """
    rows = public_rows(x_pub, min_rows=2)
    gap = validation.fraction("pub_priv_gap", pub_priv_gap)
    failure = failure_probability(failure_prob)
    n_pub, dim = rows.shape
    if n_pub < dim + 1:
        raise InputError(
            f"preconditioning {dim} columns needs at least {dim + 1} public rows, got {n_pub}: pass more of them or fewer columns"
        )
    center = rows.mean(axis=0)
    degrees = n_pub - 1
    upper = np.linalg.qr((rows - center) / math.sqrt(degrees), mode="r")
    diagonal = np.abs(np.diag(upper))
    # Relative to the column's norm, so that the units of other columns do not matter.
    if not np.all(diagonal > RANK_TOLERANCE * np.sqrt(np.einsum("ij,ij->j", upper, upper))):
        raise InputError(
            "the public rows lie in a subspace (duplicate rows or collinear columns), so they bound no covariance; "
            "pass more distinct public rows, drop collinear columns, or give covariance= yourself"
        )
    factor = (upper * np.sign(np.diag(upper))[:, None]).T

    eig_lower, eig_upper, mean_radius = precondition_bounds(dim, n_pub, gap, failure)
    return Preconditioner(
        center=frozen(center),
        factor=frozen(np.tril(factor)),
        eig_lower=eig_lower,
        eig_upper=eig_upper,
        mean_radius=mean_radius,
        n_pub=n_pub,
        failure_prob=failure,
        pub_priv_gap=gap,
    )


def trace_bounds(
    dim: int, n_pub: int, pub_priv_gap: float, failure_prob: float
) -> tuple[float, float, float]:
    """Return the lower chi-squared quantile, mean radius, and slack of the bound of `trace_frame` for any n_pub rows."""
    quantile = chi2_quantile(failure_prob / 2.0, n_pub - 1)
    own = math.sqrt(chi2_upper_quantile(failure_prob / 2.0, dim) / n_pub)
    # Both the bound and the public covariance may be gap_ratio^2 above the private one.
    slack = dim * chi2_quantile(0.5, n_pub - 1) / quantile * gap_ratio(pub_priv_gap) ** 4
    return quantile, own + gap_shift(pub_priv_gap), slack


DEFAULT_COND_MAX = 1e6
TRACE_BOUND = "public rows (trace bound)"  # source of a frame with one scale for all directions
# Above this condition number a rounding error of the largest eigenvalue exceeds the smallest by far, even after the rounds.
LARGEST_CONDITION = 1e100


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """Coordinates v of x = center + scale v with covariance at most the identity, and public bounds on mean and condition."""

    center: FloatArray
    scale: Whitening
    mean_radius: float
    condition: float
    source: str

    @property
    def base(self) -> AffineMap:
        """The map x -> v for the kernels."""
        return AffineMap(
            dim=self.scale.dim, center=self.center, matrix=self.scale.inverse, lower=True
        )

    def mean_back(self, mean: FloatArray) -> FloatArray:
        """Return a mean of v in data units."""
        return self.center + self.scale.to_data(mean)

    def covariance_back(self, covariance: FloatArray) -> FloatArray:
        """Return a covariance of v in squared data units."""
        return symmetric(self.scale.to_data(self.scale.to_data(covariance).T))


def public_frame(
    x_pub: FloatArray,
    *,
    failure_prob: float,
    pub_priv_gap: float,
    cond_max: float,
    require_precondition: bool,
) -> Frame:
    """Return the frame of the preconditioner (d + 1 public rows in general position) or the trace bound (two distinct rows)."""
    n_pub, dim = x_pub.shape
    if n_pub > dim or require_precondition:
        try:
            guarantee = precondition(x_pub, pub_priv_gap=pub_priv_gap, failure_prob=failure_prob)
        except InputError:
            if require_precondition or n_pub < 2:
                raise
        else:
            return Frame(
                guarantee.center,
                Whitening(dim, guarantee.scale),
                guarantee.mean_radius,
                guarantee.eig_upper / guarantee.eig_lower,
                "public rows (preconditioner)",
            )
    return trace_frame(
        x_pub, failure_prob=failure_prob, pub_priv_gap=pub_priv_gap, cond_max=cond_max
    )


def trace_frame(
    x_pub: FloatArray, *, failure_prob: float, pub_priv_gap: float, cond_max: float
) -> Frame:
    """Bound the largest eigenvalue by the sum of squares of distinct public rows, at least it times chi-squared(n_pub - 1)."""
    n_pub, dim = x_pub.shape
    if n_pub < 2:
        raise InputError(
            "a covariance needs at least two public rows; pass more, or use coinpress_covariance with a scale"
        )
    center = x_pub.mean(axis=0)
    spread = float(np.sum(np.square(x_pub - center)))
    if not spread > 0.0:
        raise InputError(
            "all public rows are equal, so they say nothing about scale; pass distinct public rows"
        )
    quantile, mean_radius, slack = trace_bounds(dim, n_pub, pub_priv_gap, failure_prob)
    eig_upper = spread / quantile * gap_ratio(pub_priv_gap) ** 2
    scale = Whitening(dim, np.full(dim, math.sqrt(eig_upper)))
    return Frame(frozen(center), scale, mean_radius, cond_max * slack, TRACE_BOUND)
