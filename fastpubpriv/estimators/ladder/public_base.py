"""What the public rows say about mean and covariance, for any number of them from two on. No private data, no privacy cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special
from scipy.special import polygamma, psi

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.estimators.ladder.evidence import LIFT_REPORTED, lifting, pseudo_rows
from fastpubpriv.estimators.matrices import spectrum, symmetric
from fastpubpriv.mechanisms.sums import AffineMap
from fastpubpriv.public_draws import f_quantile
from fastpubpriv.results.base import frozen

# A column whose public values differ by no more than their own rounding says nothing about its scale.
CONSTANT = 64.0 * float(np.finfo(np.float64).eps)
MOST_PRIOR_ROWS = 1e4
# Columns whose variances spread no more than this are taken to have one.
BY_CHANCE = 3.0
# Degrees of freedom of public variances from which columns that look alike are pooled; those of fewer rows look alike in any
# units (`pytest tests/estimators/test_few_public_rows.py`).
LEAST_POOLED = 4
# Coordinates lie along the axes of the public rows up to so many rows of ridge for each degree of freedom, and near the columns
# beyond. Along axes those directions are known in which the public rows do not differ, where noise may be large beside the rows.
AXES = 3.0
# Names in a warning; the result has all of them.
MOST_NAMES = 5
# Public rows of a leave-one-out distance: fewer have no quartile.
LEAST_DISTANCES = 4
QUARTILE = 0.75
# What the covariance of public rows is worth whose scale has been refuted.
LEAST_DEGREES = 2.0
# Of the variances of a region around a component and of the component itself: about ten standard deviations apart.
REGION = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Strength:
    """How far the public covariance can be trusted, in numbers that predictions need.

    `low` and `likely` are pessimistic and likely degrees of freedom of the covariance, `scales` those of the standard deviations of
    the axes, `quartile` the upper quartile of the squared distances of public rows from the others (nan with too few). `wide` is
    how many times wider than the rows the covariance is thought to be, where it is that of a region around them.
    """

    dim: int
    n_pub: int
    low: float
    likely: float
    scales: float
    quartile: float = math.nan
    wide: float = 1.0

    @property
    def guess(self) -> bool:
        """Whether the public rows are too few to show how the columns vary together: a predicted covariance error is a guess."""
        return self.dim > 1 and self.n_pub - 1 < max(self.dim, LEAST_POOLED)

    @property
    def typical(self) -> float:
        """Degrees of freedom between the pessimistic and the likely."""
        return math.sqrt(self.low * min(self.likely, self.n_pub + 999.0))

    def radius_sq(self, probability: float) -> float:
        """A squared radius, in units of the public covariance, that holds this share of the rows."""
        dim, free = self.dim, self.low + 2.0
        quantile = f_quantile(probability, dim, free)
        found = (1.0 + 1.0 / self.n_pub) * (self.low / free) * dim * quantile
        if math.isfinite(self.quartile):
            # The public rows themselves carry heavy tails and skewness into the radius.
            found = max(found, self.quartile * min(quantile / f_quantile(QUARTILE, dim, free), 2.0))
        return found

    def spectrum(self) -> FloatArray:
        """Eigenvalues (dim,) that the private covariance is expected to have in units of the public one."""
        if self.low > 50.0 * self.dim:
            return np.ones(self.dim)
        found: FloatArray = 1.0 / (self.wide * marchenko_pastur(self.dim, self.dim / max(self.low, 1.02 * self.dim)))
        return found


def plain_strength(dim: int, n_pub: int) -> Strength:
    """What n_pub public rows of no structure of their own are worth: what can be said before they are seen."""
    degrees = float(max(n_pub - 1, 1))
    return Strength(dim=dim, n_pub=n_pub, low=degrees, likely=degrees, scales=degrees)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PublicBase:
    """Mean and covariance of the public rows, always positive definite: coordinates v = inverse (x - center).

    `root` root^T is the covariance that the coordinates whiten; `reported`, a root of the one that is reported where no private one
    takes its place, has less of a ridge. `ridge` is the number of pseudo-rows in the first. `fallback` lists the columns whose
    public values are all equal: they borrow the scale of the others; `borrowed` those of them whose scale no count has found
    since. `unseen` is the number of first axes v_1, v_2, ... in which the public rows do not differ, where they lie along few
    directions. `source` says where the numbers come from, `rough` that they are no more than the spread of the public rows around.
    """

    center: FloatArray
    root: FloatArray
    inverse: FloatArray
    reported: FloatArray
    strength: Strength
    ridge: float
    fallback: tuple[int, ...] = ()
    borrowed: tuple[int, ...] = ()
    unseen: int = 0
    source: str = "public rows"
    rough: bool = False

    @property
    def affine(self) -> AffineMap:
        """The map x -> v as the kernels take it."""
        return AffineMap(dim=len(self.center), center=self.center, matrix=self.inverse)

    @property
    def covariance(self) -> FloatArray:
        """The public covariance as it is reported, in squared data units."""
        return symmetric(self.reported @ self.reported.T)

    def settled(self, mean: FloatArray) -> FloatArray:
        """A mean with the public value wherever a borrowed scale would have decided its noise."""
        found = np.array(mean)
        found[list(self.borrowed)] = self.center[list(self.borrowed)]
        return found

    def stretched(self, factor: float) -> PublicBase:
        """The base with all scales multiplied by a released factor: of the public rows, little more than the centre is believed."""
        strength = self.strength
        least = {name: min(getattr(strength, name), LEAST_DEGREES) for name in ("low", "likely", "scales")}
        weak = replace(strength, quartile=math.nan, **least)
        return replace(self.scaled(np.full(len(self.center), factor)), strength=weak)

    def scaled(self, factors: FloatArray) -> PublicBase:
        """The base with the columns in other units: factors (dim,) on their scales."""
        root, reported = (frozen(each * factors[:, None]) for each in (self.root, self.reported))
        return replace(self, root=root, reported=reported, inverse=frozen(self.inverse / factors))


def marchenko_pastur(dim: int, ratio: float) -> FloatArray:
    """The `dim` mid-quantiles of the eigenvalues of a Wishart matrix over its degrees of freedom, ratio = dim / degrees < 1."""
    # x = 1 + ratio - 2 sqrt(ratio) cos(angle) takes the square-root ends out of the density.
    angle = np.linspace(0.0, math.pi, 4001)
    place = 1.0 + ratio - 2.0 * math.sqrt(ratio) * np.cos(angle)
    density = np.square(np.sin(angle)) / np.maximum(place, 1e-300)
    density[[0, -1]] = 0.0
    mass = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2.0)])
    found: FloatArray = np.interp((np.arange(dim) + 0.5) / dim, mass / mass[-1], place)
    return found


def moderated(logs: FloatArray, degrees: int) -> tuple[FloatArray, float, float]:
    """Log variances (k,) of columns drawn together as far as they look alike, a typical one, and their degrees of freedom then.

    The spread of log variances beyond what `degrees` degrees of freedom leave by chance is that of the columns themselves; one
    standard error more of it is allowed for. In logarithms, so that columns in very different units are left alone. A spread within
    `BY_CHANCE` standard errors of chance is taken for chance: the columns then have one variance, the average of theirs. With fewer
    than `LEAST_POOLED` degrees of freedom chance explains any spread, and columns keep their own.
    """
    chance = float(polygamma(1, degrees / 2.0))
    centred = logs - float(psi(degrees / 2.0)) + math.log(degrees / 2.0)
    middle = float(np.mean(centred))
    if len(logs) < 2 or degrees < LEAST_POOLED:
        return logs, middle, float(degrees)
    least = degrees / (degrees + MOST_PRIOR_ROWS)
    spread, error = float(np.var(centred, ddof=1)), math.sqrt(2.0 / (len(logs) - 1.0))
    if spread <= chance * (1.0 + BY_CHANCE * error):
        share, middle = least, float(special.logsumexp(logs)) - math.log(len(logs))
    else:
        spread *= 1.0 + error
        share = max(least, (spread - chance) / spread)
    return share * logs + (1.0 - share) * middle, middle, degrees / share


def constant_text(names: Sequence[str]) -> str:
    """What a warning says about columns whose public values are all equal."""
    shown = ", ".join(names[:MOST_NAMES])
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"the public rows are constant in {shown}{more}: the scale of the other columns stands in; pass public rows that differ"


def _root(spreads: FloatArray, values: FloatArray, vectors: FloatArray, *, axes: bool) -> tuple[FloatArray, FloatArray]:
    """Root of the covariance and its inverse: along the axes of the public rows, or near the columns."""
    roots = np.sqrt(values)
    if axes:
        return spreads[:, None] * vectors * roots, (vectors / roots).T / spreads
    return spreads[:, None] * symmetric((vectors * roots) @ vectors.T), symmetric(
        (vectors / roots) @ vectors.T
    ) / spreads


def _distances(gaps: FloatArray, scatter: FloatArray, vectors: FloatArray, ridge: float) -> FloatArray:
    """Squared distance of each public row from the mean and covariance of the others, without a second factorisation."""
    n_pub = len(gaps)
    degrees, grown = n_pub - 1, n_pub / (n_pub - 1)
    leverage = np.sum(np.square(gaps @ vectors) / (ridge + scatter), axis=1)
    found: FloatArray = grown**2 * leverage / np.maximum(1.0 - grown * leverage, 1e-9) * (ridge + degrees - 1.0)
    return found


def _moments(x_pub: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """The largest value of each column, and in units of it, so that nothing overflows, mean, differences from it, and variances."""
    largest = np.max(np.abs(x_pub), axis=0)
    unit = np.where(largest > 0.0, largest, 1.0)
    inner = x_pub / unit
    center = inner.mean(axis=0)
    gaps = inner - center
    return unit, center, gaps, np.sum(np.square(gaps), axis=0) / max(1, len(x_pub) - 1)


def column_scales(x_pub: FloatArray) -> FloatArray:
    """Standard deviation (dim,) of each column of public rows; nan where its values are all equal."""
    unit, _, _, variances = _moments(x_pub)
    return np.where(variances > CONSTANT**2, unit * np.sqrt(variances), np.nan)


def public_base(x_pub: FloatArray, *, around: FloatArray | None = None) -> PublicBase:
    """Mean and ridged covariance of at least two public rows (n_pub, dim), not all equal, and how far they can be trusted.

    `around` (dim,), positive or nan where unknown, are scales that columns of equal public values borrow, rather than that of the
    other columns.
    """
    n_pub, dim = x_pub.shape
    if n_pub < 2:
        raise InputError(
            "a covariance needs at least two public rows; pass more, or use coinpress_covariance with a scale"
        )
    degrees = n_pub - 1
    unit, center, gaps, variances = _moments(x_pub)
    known = variances > CONSTANT**2
    if not known.any():
        raise InputError("all public rows are equal, so they say nothing about scale; pass distinct public rows")
    logs, typical, scales = moderated(np.log(variances[known]) + 2.0 * np.log(unit[known]), degrees)
    spreads = np.full(dim, math.exp(typical / 2.0))
    lent = np.zeros(dim, dtype=bool) if around is None else np.isfinite(around)
    if around is not None:
        spreads[lent] = around[lent]
    spreads[known] = np.exp(logs / 2.0)
    gaps *= np.where(known, unit / spreads, 0.0)
    # A borrowed scale stands as it is: rows that are equal by chance are no evidence of a smaller one.
    borrowed = np.diag(np.where(lent & ~known, float(degrees), 0.0))
    scatter, vectors = spectrum(gaps.T @ gaps + borrowed)
    scatter = np.maximum(scatter, 0.0)
    ridge, ridge_low = pseudo_rows(scatter, degrees, alike=scales > MOST_PRIOR_ROWS)
    axes = ridge <= AXES * degrees
    root, inverse = _root(spreads, (ridge + scatter) / (ridge + degrees), vectors, axes=axes)
    less = min(ridge, lifting(scatter, degrees, LIFT_REPORTED)) if degrees >= dim else ridge
    reported = spreads[:, None] * vectors * np.sqrt((less + scatter) / (less + degrees))
    quartile = math.nan
    if n_pub >= LEAST_DISTANCES:
        quartile = float(np.quantile(_distances(gaps, scatter, vectors, ridge), QUARTILE))
    low = ridge_low + degrees
    strength = Strength(
        dim=dim,
        n_pub=n_pub,
        low=low,
        likely=ridge + degrees,
        scales=low if axes else scales,
        quartile=quartile,
    )
    found = PublicBase(
        center=frozen(center * unit),
        root=frozen(root),
        inverse=frozen(inverse),
        reported=frozen(reported),
        strength=strength,
        ridge=ridge,
        fallback=(silent := tuple(np.flatnonzero(~known & ~lent).tolist())),
        borrowed=silent,
        unseen=max(dim - degrees, 0) if axes else 0,
    )
    shown = known | lent
    if shown.all():
        return found
    # A column that shows no spread has only the ridge's, which is next to nothing; its scale is the borrowed one.
    return found.scaled(np.where(shown, 1.0, spreads / np.sqrt(np.einsum("ij,ij->i", root, root))))


def rough_base(center: FloatArray, around: FloatArray, *, n_pub: int) -> PublicBase:
    """The base of rows of which only a centre, the mean of n_pub public rows, and scales of the columns (dim,) are known.

    Scales are positive, or nan where unknown; those take the middle of the others, in logarithms.
    """
    dim = len(center)
    known = np.isfinite(around)
    middle = math.exp(float(np.mean(np.log(around[known])))) if known.any() else 1.0
    spreads = np.where(known, around, middle)
    strength = Strength(dim=dim, n_pub=n_pub, low=1.0, likely=1.0, scales=1.0, quartile=4.0 * dim, wide=REGION)
    return PublicBase(
        center=frozen(center),
        root=frozen(np.diag(spreads)),
        inverse=frozen(np.diag(1.0 / spreads)),
        reported=frozen(np.diag(spreads)),
        strength=strength,
        ridge=0.0,
        fallback=tuple(np.flatnonzero(~known).tolist()),
        source="public rows around",
        rough=True,
    )
