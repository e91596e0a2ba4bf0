"""Public preconditioning: what a few public rows say about the private mean and covariance (paper A, Algorithm 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import gammainc, gammaln

from fastpubpriv import validation
from fastpubpriv.errors import InputError
from fastpubpriv.estimators.radii import failure_probability, gap_ratio, gap_shift
from fastpubpriv.results import frozen
from fastpubpriv.sources import public_rows

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

# Below this ratio of the diagonal entries of R the public covariance says nothing about a direction.
RANK_TOLERANCE = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Preconditioner:
    """What the public rows guarantee about the private mean and covariance, with probability 1 - `failure_prob`.

    With S = factor factor^T: eig_lower S <= Sigma <= eig_upper S in the order of matrices, and the private mean has norm at
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
    """

    center: FloatArray
    factor: FloatArray
    eig_lower: float
    eig_upper: float
    mean_radius: float
    n_pub: int
    failure_prob: float
    pub_priv_gap: float

    def __repr__(self) -> str:
        return (
            f"Preconditioner(dim={len(self.center)}, n_pub={self.n_pub}, eig_lower={self.eig_lower:.4g}, "
            f"eig_upper={self.eig_upper:.4g}, mean_radius={self.mean_radius:.4g})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain lists and numbers."""
        return {name: np.asarray(getattr(self, name)).tolist() for name in self.__dataclass_fields__}

    @property
    def scale(self) -> FloatArray:
        """The lower factor sqrt(eig_upper) * factor: its inverse brings the private covariance below the identity."""
        scaled: FloatArray = math.sqrt(self.eig_upper) * self.factor
        return scaled

    def whitening(self) -> FloatArray:
        """Inverse of `scale`, lower triangular, (dim, dim)."""
        inverse: FloatArray = solve_triangular(self.scale, np.eye(len(self.center)), lower=True)
        return np.tril(inverse)


def least_eigenvalue(degrees: int, dim: int, failure_prob: float) -> float:
    """A number that the least eigenvalue of a Wishart matrix of `dim` columns falls below with at most that probability.

    Edelman (1988): with a = (degrees - dim + 1) / 2, its density at x is at most L x^(a - 1) e^(-x/2),
    L = 2^(a - 1) Gamma((degrees + 1) / 2) / (Gamma(dim / 2) Gamma(2a)); the integral of that bound is solved for x. For dim + 1
    public rows this is the 9 dim^2 / failure_prob^2 of Algorithm 1, a little sharper.
    """
    shape = (degrees - dim + 1) / 2.0
    constant = (2.0 * shape - 1.0) * math.log(2.0) + gammaln((degrees + 1) / 2.0)
    constant += gammaln(shape) - gammaln(dim / 2.0) - gammaln(2.0 * shape)

    def log_bound(log_x: float) -> float:
        half = math.exp(log_x) / 2.0
        share = float(gammainc(shape, half))
        log_share = math.log(share) if share > 1e-280 else shape * math.log(half) - float(gammaln(shape + 1.0))
        return float(constant) + log_share

    goal = math.log(failure_prob)
    low, high = -700.0, math.log(degrees + 1.0)
    while high - low > 1e-12:
        middle = (low + high) / 2.0
        low, high = (middle, high) if log_bound(middle) <= goal else (low, middle)
    return math.exp(low)


def precondition(x_pub: Any, *, pub_priv_gap: float = 0.0, failure_prob: float = 0.05) -> Preconditioner:
    """Bound the private mean and covariance by at least dim + 1 public rows. No private data, no privacy cost.

    Parameters
    ----------
    x_pub : (n_pub, dim) array-like, n_pub >= dim + 1
        Public rows, finite, in general position, in data units.
    pub_priv_gap : float in [0, 1)
        Total-variation distance that is allowed between the Gaussian of the public rows and that of the private ones.
    failure_prob : float in (0, 1)
        Probability, over the public rows, that a bound fails. A failure costs accuracy, never privacy.

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
        raise InputError(f"preconditioning {dim} columns needs at least {dim + 1} public rows, got {n_pub}")
    center = rows.mean(axis=0)
    degrees = n_pub - 1
    upper = np.linalg.qr((rows - center) / math.sqrt(degrees), mode="r")
    diagonal = np.abs(np.diag(upper))
    if not diagonal.min() > RANK_TOLERANCE * diagonal.max():
        raise InputError(
            "the public rows lie in a subspace (duplicate rows or collinear columns), so they bound no covariance; "
            "pass more distinct public rows, drop collinear columns, or give covariance= yourself"
        )
    factor = (upper * np.sign(np.diag(upper))[:, None]).T

    tail = math.log(3.0 / failure)
    # Extreme eigenvalues of a Wishart matrix: Davidson-Szarek on either side, and Edelman's density at the lower end,
    # without which the public rows between dim + 1 and a few times dim would say next to nothing.
    eig_lower = degrees / (math.sqrt(degrees) + math.sqrt(dim) + math.sqrt(2.0 * tail)) ** 2
    eig_upper = degrees / least_eigenvalue(degrees, dim, failure / 3.0)
    margin = math.sqrt(degrees) - math.sqrt(dim) - math.sqrt(2.0 * tail)
    if margin > 0.0:
        eig_upper = min(eig_upper, degrees / margin**2)
    mean_radius = math.sqrt((dim + 2.0 * math.sqrt(dim * tail) + 2.0 * tail) / n_pub)
    if gap > 0.0:
        eig_lower /= gap_ratio(gap) ** 2
        eig_upper *= gap_ratio(gap) ** 2
        mean_radius += gap_shift(gap)
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
