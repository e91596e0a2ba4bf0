"""The three families of local randomizers."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field
from typing import Self

from scipy import special

from fastpubpriv import validation
from fastpubpriv.errors import InputError
from fastpubpriv.local import parameters as caps
from fastpubpriv.local.parameters import Cap
from fastpubpriv.local.randomizers import Randomizer


@dataclass(frozen=True, slots=True)
class PrivUnit(Randomizer):
    """PrivUnit: a uniform point of a cap around the row, or of the rest of the sphere; the least error of all for unit vectors.

    Parameters
    ----------
    dim : int
        Columns of a row, up to 2^20.
    epsilon : float
        Privacy of one report, from 2^-20 to 500.
    norm_bound : float or "public", optional
        Rows lie in the ball of this radius, or in one as large as the longest row of `x_pub`. None: only directions count.
    x_pub : (n_pub, dim) array-like, path, frame or table, optional
        Public rows for norm_bound="public", prepared as users prepare theirs.
    form : "direct" or "selection"
        Vectors on a grid (fast, any epsilon), or seeds of 32 bytes (for epsilon up to about 6).
    threshold : float, optional
        gamma, the least cosine inside of the cap; by default the best one.

    Raises
    ------
    InputError
        An argument out of range, or an epsilon too small for so many columns.

    Privacy
    -------
    Local, one report of one row: `cost`. Not in the accounts of central calls: nobody but the user sees the row.

    Notes
    -----
    LLHR (paper B), Algorithm 3, after Bhowmick et al.; parameters after Asi, Feldman and Talwar: the best threshold is the fixed
    point gamma = m(gamma). Departs from it: LLHR print a plus in the normaliser m, which would make the mean wrong by up to a
    quarter; it is a minus.

    Examples
    --------
    >>> from fastpubpriv.local import PrivUnit
    >>> randomizer = PrivUnit(100, 4.0)
    >>> print(f"{randomizer.cap.threshold:.6f} {randomizer.mean_squared_error():.3f}")
    0.151068 42.818
    """

    _: KW_ONLY
    threshold: float | None = None

    def _cap(self, epsilon: float) -> Cap:
        if self.threshold is None:
            return caps.best_cap(self.dim, epsilon)
        gamma = validation.fraction("threshold", self.threshold)
        if self.dim == 1 and gamma != 0.0:
            raise InputError("with one column the threshold is 0")
        if not 1.0 - gamma * gamma >= 1e-12:
            raise InputError(f"threshold must be below 1 by at least 5e-13, got {gamma!r}")
        log_mass = -math.log(2.0) if self.dim == 1 else caps.log_cap_mass(self.dim, gamma)
        return caps.cap_of(self.dim, gamma, caps.logit_for(epsilon, log_mass))

    @classmethod
    def from_probability(
        cls, dim: int, probability: float, threshold: float, *, norm_bound: float | None = None, form: str = "direct"
    ) -> Self:
        """The randomizer with this probability of the cap and this threshold; its `epsilon` is what they cost.

        Parameters
        ----------
        dim : int
            Columns of a row.
        probability, threshold : float
            p, at least the mass of the cap, and gamma.
        norm_bound, form
            As for the class.

        Returns
        -------
        PrivUnit
            Its cap differs from the one asked by rounding only.
        """
        dim = validation.integer("dim", dim, minimum=1)
        p = validation.probability("probability", probability)
        gamma = validation.fraction("threshold", threshold)
        cap = caps.cap_of(dim, gamma, float(special.logit(p)))
        if not cap.scale > 0.0:
            raise InputError(f"probability must exceed the mass of the cap, {math.exp(cap.log_mass):.6g}, got {p:.6g}")
        return cls(dim, cap.epsilon, norm_bound=norm_bound, form=form, threshold=gamma)

    @classmethod
    def bhowmick(cls, dim: int, epsilon: float, *, share: float = 0.5, norm_bound: float | None = None) -> Self:
        """The parameters of Bhowmick et al., for comparison: a share of epsilon for p, and what their conditions allow for gamma.

        Parameters
        ----------
        dim : int
            Columns of a row, at least 3: their first condition is false for two.
        epsilon : float
            To be shared; the exact privacy of the result, its `epsilon`, is at most this.
        share : float
            Of p: logit p = share * epsilon.
        norm_bound
            As for the class.

        Returns
        -------
        PrivUnit
        """
        dim = validation.integer("dim", dim, minimum=3)
        epsilon, share = validation.positive("epsilon", epsilon), validation.probability("share", share)
        gamma = caps.bhowmick_threshold(dim, (1.0 - share) * epsilon)
        cap = caps.cap_of(dim, gamma, share * epsilon)
        return cls(dim, cap.epsilon, norm_bound=norm_bound, threshold=gamma)


@dataclass(frozen=True, slots=True)
class PrivUnitG(Randomizer):
    """PrivUnitG: PrivUnit with normals in place of a uniform point. Simple, a little worse; its reports have no fixed length.

    Parameters
    ----------
    dim, epsilon, norm_bound, x_pub, form
        As for `PrivUnit`.

    Privacy
    -------
    As for `PrivUnit`.

    Notes
    -----
    Asi, Feldman and Talwar; the threshold is the fixed point c = M(c), which gives the error dim / c^2. A server clips reports at a
    public length that honest ones pass with probability below 1e-30.

    Examples
    --------
    >>> from fastpubpriv.local import PrivUnitG
    >>> print(f"{PrivUnitG(100, 4.0).mean_squared_error():.3f}")
    43.532
    """

    gaussian = True

    def _cap(self, epsilon: float) -> Cap:
        return caps.best_tail(epsilon)


@dataclass(frozen=True, slots=True)
class Duchi(Randomizer):
    """Duchi, Jordan and Wainwright's randomizer of the ball: a uniform point of the half sphere on the row's side, or of the other.

    Parameters
    ----------
    dim, epsilon, x_pub, form
        As for `PrivUnit`.
    norm_bound : float or "public"
        Radius of the ball.

    Privacy
    -------
    As for `PrivUnit`: it is PrivUnit with threshold 0.

    Notes
    -----
    LLHR (paper B), section 3.1; Lemma 16 has its error. The radius of a report, which they leave open, is coth(epsilon / 2)
    sqrt(pi) Gamma((d + 1) / 2) / Gamma(d / 2). PrivUnit has a smaller error for every dim > 1 and epsilon.

    Examples
    --------
    >>> from fastpubpriv.local import Duchi
    >>> print(f"{Duchi(5, 2.0, 1.0).mean_squared_error(0.6):.3f}")
    11.900
    """

    norm_bound: float | str | None = field(default=None, kw_only=False)

    def _cap(self, epsilon: float) -> Cap:
        if self.norm_bound is None:
            raise InputError("Duchi needs norm_bound, the radius of the ball")
        return caps.cap_of(self.dim, 0.0, epsilon)
