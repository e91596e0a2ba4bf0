"""The full rung for one Gaussian, fed with released second moments: post-processing, nothing private is seen.

Ask `step` what to release, give the released second moment of the rows under `affine` to `absorb`, and the last one to `finish`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.estimators.ladder import targets
from fastpubpriv.estimators.ladder.norms import Norms, chi_beyond, early_cut
from fastpubpriv.estimators.ladder.public_base import PublicBase
from fastpubpriv.estimators.ladder.schedule import Plan, Step, clip_factor, excess_of
from fastpubpriv.estimators.ladder.shifts import shift_of, weight_of
from fastpubpriv.estimators.lifted import lift, mean_map
from fastpubpriv.estimators.matrices import divided, lower_powers, lower_root, spectrum, symmetric
from fastpubpriv.estimators.moments import LARGEST, RadialMean
from fastpubpriv.estimators.second_moments import unpacked
from fastpubpriv.mechanisms.sums import AffineMap, Released
from fastpubpriv.public_draws import chi2_quantile

# Of what is expected beyond the counts, the part that is added: a cluster of rows far out looks like the begin of a long tail.
UNSEEN_SHARE = 0.3
# The share of the rows that a last round shows: noise may take it anywhere, clipping takes less than this.
LEAST_MASS = 0.25
# Rows are far out where the narrow ball of early rounds would take so much more of each column's variance than of white rows.
FAR_EXCESS = 0.03


def lifted_place(vectors: FloatArray) -> int:
    """Which of the ascending eigenvalues with these eigenvectors (dim + 1, dim + 1) is left out as that of the lifted coordinate.

    In one column it has to be told from the other, which may be far smaller. In several the least is left out, whichever it is: a
    round for its sake alone costs all others more.
    """
    return int(np.argmax(np.square(vectors[-1]))) if len(vectors) == 2 else 0


@dataclass(frozen=True, slots=True, eq=False)
class Resolved:
    """What the second moments gave, in the coordinates v of the public base.

    `start` is the mean before its own release; `powers` are the lower
    root of the covariance and its inverse; `least` the least eigenvalue of the last round and `slack` what noise and sampling may
    have moved it by. `bias` is what clipping is taken to leave, relative to the covariance; it is in `error`.
    """

    covariance: FloatArray
    start: FloatArray
    powers: tuple[FloatArray, FloatArray]
    target: str
    strengths: tuple[float, float]
    clip_factor: float
    floored: int
    error: float
    least: float
    slack: float
    bias: float = 0.0
    pieces: RadialMean | None = None
    map: FloatArray | None = None

    @property
    def under_resolved(self) -> bool:
        """Whether noise could have made the least eigenvalue."""
        return self.least <= self.slack


def tail_of(pieces: RadialMean, power: float) -> tuple[float, float]:
    """What is added of the outer piece for rows beyond the ball, as a factor, and the squared error that this and sampling leave.

    All of what was counted there is added, and a part of what is expected beyond, as far as noise lets the outer piece be seen. The
    error is beyond that of noise and of sampling if each coordinate had the mean square `power`.
    """
    law, (expected, most) = pieces.norms.law, pieces.ratios
    length_sq = float(np.sum(np.square(pieces.outer)))
    shown = max(1.0 - pieces.dim * pieces.piece_std**2 / max(length_sq, 1.0 / LARGEST), 0.0)
    counted = 0.0 if law is None else min(law.counted(pieces.radius), expected)
    sampling = max(pieces.norms.rms**2 - power * pieces.dim, 0.0) / pieces.n
    unknown = (most - counted) / 4.0 * math.sqrt(length_sq * shown)
    return shown * (counted + UNSEEN_SHARE * (expected - counted)), sampling + unknown**2


class FullRung:
    """The rounds of one population or leaf."""

    __slots__ = ("_contraction", "_excess", "_far", "_norms", "_spectrum", "base", "left", "made", "plan")

    def __init__(self, base: PublicBase, plan: Plan) -> None:
        self.base, self.plan = base, plan
        self.left, self.made = Fraction(1), 0
        self._spectrum: FloatArray = base.strength.spectrum()
        self._excess: float | None = None
        self._norms: Norms | None = None
        self._far = False
        self._contraction: FloatArray = np.eye(plan.dim + 1)

    @property
    def affine(self) -> AffineMap:
        """The map x -> preconditioned (v, 1) of the next round."""
        return lift(self.base.affine, self._contraction)

    def step(self) -> Step:
        """The next round, from public and released numbers."""
        return self.plan.step(self._spectrum, self.left, self.made, excess=self._excess, far=self._far)

    def radius(self, share: Fraction | None) -> float:
        """Where the next round clips, if it gets this share or (None) is the last."""
        plan = self.plan
        if self._norms is not None and share is not None:

            def slack(radius: float) -> float:
                return plan.slack(plan.std(radius * radius, share))

            return early_cut(self._norms, slack=slack, least=math.sqrt(self._least_sq(self._norms))).radius
        if self.made == 0:
            return math.sqrt(plan.first_radius_sq)
        if share is None:
            return math.sqrt(plan.last_radius_sq(self.made, self.left))
        return math.sqrt(plan.early_radius_sq(share, far=self._far))

    @property
    def amplified(self) -> float:
        """How many times larger noise is beside the covariance than for rows that are white, as far as is known."""
        known, white = np.maximum(self._spectrum, 1e-6), np.ones(self.plan.dim)
        one, other = (self.plan.noise_error(each, 1.0, self.left) for each in (known, white))
        return max(one / other, 1.0)

    def see(self, norms: Norms) -> None:
        """Take notice of released norms of the rows: until the next round they say where to clip, and whether rows lie far out."""
        self._norms = norms
        self._far = self._narrow_excess(norms) > FAR_EXCESS

    def _narrow_excess(self, norms: Norms) -> float:
        """What a ball for white rows would cut off, for each column, beyond what it cuts off white rows."""
        dim = self.plan.dim
        quartile = norms.quantile_sq(0.75)
        if quartile is None:
            return 0.0
        unit = max(quartile - 1.0, 1e-9) / chi2_quantile(0.75, dim)
        white = chi2_quantile(0.9, dim)
        return (norms.beyond(math.sqrt(1.0 + unit * white), power=2) / unit - chi_beyond(dim, white)) / dim

    def _least_sq(self, norms: Norms) -> float:
        plan = self.plan
        if self.made:
            return plan.white_radius_sq
        seen = norms.quantile_sq(0.9)
        return plan.first_radius_sq if seen is None else min(seen, plan.first_radius_sq)

    def absorb(self, released: Released, radius: float, share: Fraction) -> None:
        """Precondition by what an early round released."""
        dim, n = self.plan.dim, self.plan.n
        std = released.spectral_std / n
        second = released.value / n
        factor = clip_factor(second[:dim, :dim], radius * radius, std=std, n=n)
        values, vectors = spectrum(second, overwrite=True)
        slack = self.plan.slack(std)
        values = np.where(values > slack, factor * values, values)
        roots = np.sqrt(np.maximum(values, 0.0) + slack)
        likely = np.where(values > slack, values - slack / 2.0, np.maximum(values, 0.0) / 4.0 + slack / 8.0)
        likely = np.where(values > 1.5 * slack, values, likely) / np.square(roots)
        self._spectrum = np.sort(np.minimum(np.delete(likely, lifted_place(vectors)), 1.0))
        self._excess = excess_of(factor, dim, radius * radius)
        self._contraction = divided(lower_root(vectors, roots), self._contraction)
        self.left -= share
        self.made += 1
        self._norms = None

    def finish(self, released: Released, radius: float) -> Resolved:
        """Mean and covariance of v from a last round that clips to one ball, shrunk as far as noise and targets tell."""
        dim, n = self.plan.dim, self.plan.n
        std, second = released.spectral_std / n, released.value / n
        return self._finish(second, std, clip_factor(second[:dim, :dim], radius * radius, std=std, n=n), 0.0)

    def finish_in_pieces(self, pieces: RadialMean) -> Resolved:
        """The same from a last round in two pieces, which say what clipping takes."""
        added, bias_sq = tail_of(pieces, 2.0)
        second = unpacked(pieces.mean + added * pieces.outer, self.plan.dim + 1)
        found = self._finish(second, math.hypot(1.0, added) * pieces.noise_std, 1.0, bias_sq)
        return replace(found, pieces=pieces, map=divided(self._contraction, np.eye(self.plan.dim + 1, order="F")))

    def _finish(self, second: FloatArray, std: float, factor: float, bias_sq: float) -> Resolved:
        dim, n = self.plan.dim, self.plan.n
        self.made += 1
        least = float(spectrum(second)[0][0])
        # Back to rows (v, 1) for the mean, in the last coordinates for the covariance.
        half = divided(self._contraction, np.array(second, order="F"))
        moment = divided(self._contraction, np.array(half.T, order="F"))
        mass = max(float(moment[dim, dim]), LEAST_MASS)
        first = moment[:dim, dim]
        inner = np.ascontiguousarray(self._contraction[:dim, :dim])
        moved = inner @ first
        noisy = targets.Noisy(symmetric(factor * (second[:dim, :dim] - np.outer(moved, moved) / mass)), std, n)
        best = targets.chosen(self._targets(noisy, inner, first, mass, factor, moment), noisy, self.base.strength.low)
        repaired, floored = targets.repaired(best)
        start, covariance = self._back(repaired, inner, first / mass, std)
        powers = lower_powers(covariance)
        return Resolved(
            covariance=covariance,
            # A released moment may be of any size: a start that cannot be written in whitened coordinates is no better than none.
            start=start if np.isfinite(powers[1] @ start).all() else np.zeros(dim),
            powers=powers,
            target=best.turned.name,
            strengths=(best.diagonal, best.off),
            clip_factor=factor,
            floored=floored,
            error=math.sqrt(best.reported_error_sq + bias_sq),
            least=least,
            slack=self.plan.slack(std),
            bias=math.sqrt(bias_sq),
        )

    def _targets(
        self, noisy: targets.Noisy, inner: FloatArray, first: FloatArray, mass: float, factor: float, moment: FloatArray
    ) -> dict[str, FloatArray]:
        """The public covariance, the same with one scale or with axis variances that were released, and the rounds before."""
        dim = self.plan.dim
        axes = factor * (np.diag(moment)[:dim] - np.square(first) / mass)
        scale = max(float(np.mean(axes)), 0.05)
        public = symmetric(inner @ inner.T)
        found = {
            "public": public,
            "scale": scale * public,
            "diagonal": symmetric((inner * np.maximum(axes, 0.1 * scale)) @ inner.T),
        }
        if self.made > 1:
            found[targets.PREVIOUS] = np.eye(dim) * max(float(np.trace(noisy.value)) / dim, 0.05)
        return found

    def _back(
        self, covariance: FloatArray, inner: FloatArray, mean: FloatArray, std: float
    ) -> tuple[FloatArray, FloatArray]:
        """Start of the mean step and covariance in the coordinates v, from the covariance in those of the last round."""
        dim, n = self.plan.dim, self.plan.n
        values, vectors = spectrum(covariance)
        inverse = 1.0 / np.maximum(values, np.finfo(np.float64).tiny)
        noise_sq = std * std / 2.0 * float(np.sum(inverse))
        distance_sq = float(np.square((inner @ mean) @ vectors) @ inverse)
        weight = weight_of(shift_of(distance_sq, noise_sq, self.base.strength, n), dim / n + noise_sq)
        half = divided(inner, np.array(covariance, order="F"))
        return weight * mean, symmetric(divided(inner, np.array(half.T, order="F")))


def mean_step_map(base: PublicBase, resolved: Resolved) -> AffineMap:
    """The map x -> whitened v - start of the full rung's mean release."""
    return mean_map(base.affine, resolved.start, resolved.powers[1])
