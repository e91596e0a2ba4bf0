"""Where the middle of the private rows is, released, for the case of far fewer public rows than coordinates.

A whitened row is about the mean of m public rows, so that private rows have a mean d with |d|^2 of about D / m in those
coordinates. The curvature along d is then 1 + |d|^2 in place of 1, and steps along d overshoot; with rows about their own mean it
is that of whitened rows. As long as noise keeps steps short this does no harm, so that the release is worth its price only where
|d|^2 is large and the price a small share of the budget.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.mechanisms.gradients import ResidualSum
from fastpubpriv.session import Run
from fastpubpriv.training.problem import Problem
from fastpubpriv.training.public_linear import Posterior
from fastpubpriv.training.rotated import Rotation
from fastpubpriv.training.whitening import weighting

_FEW = 5.0  # coordinates for each public row, from which the mean is released where it is cheap
_FEWER, _CHEAP = 8.0, Fraction(1, 20)  # and from which it is at any price; share of the budget that is cheap
_LEFT_SQ = 1.0  # |d|^2 that may be left
_SHARES = tuple(Fraction(k, 100) for k in range(1, 21))  # of the budget
_LARGEST = 1e30

Noise = Callable[[Fraction], float]  # share of the allowance -> noise on a sum of rows clipped to radius 1


def centre_share(posterior: Posterior, n_priv: float, noise: Noise) -> Fraction:
    """The share of the budget that the mean of the private rows is worth: none unless public rows are few."""
    m, dim = len(posterior.labels), len(posterior.mean)
    if dim < _FEW * m:
        return Fraction(0)
    unit = _unit(posterior, n_priv)
    enough = (share for share in _SHARES if dim / (m + (unit * noise(share)) ** -2) <= _LEFT_SQ)
    found = next(enough, _SHARES[-1])
    return found if found <= _CHEAP or dim >= _FEWER * m else Fraction(0)


def _unit(posterior: Posterior, n_priv: float) -> float:
    """A mean of private rows has this times the noise on a sum of rows clipped to radius 1."""
    found = weighting(posterior.typical, np.ones(len(posterior.mean)))
    return found.radius / (n_priv * float(found.lever.mean()))


def one(prediction: float, label: float) -> float:
    """The residual that makes a sum of rows of a sum of gradients."""
    return 1.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Centred:
    """A posterior and a map of rows about a released mean."""

    # with the intercept at the released mean; correlations that this brings are left out, which makes no variance
    # smaller
    posterior: Posterior
    rotation: Rotation  # of rows, about the released mean
    axis: FloatArray  # (D,), with moved: the intercept's direction; and the released mean, orthogonal to it
    moved: FloatArray  # (D,)

    def back(self, mean: FloatArray) -> FloatArray:
        """Coefficients (D,) about the public mean."""
        return mean - self.axis * float(self.moved @ mean)

    def covariance_back(self, covariance: FloatArray) -> FloatArray:
        """The covariance (D, D) of `back`."""
        half = covariance - np.outer(self.axis, self.moved @ covariance)
        found: FloatArray = half - np.outer(half @ self.moved, self.axis)
        return found


def release_centre(run: Run, problem: Problem, cost: Fraction) -> Centred:
    """Release the mean of the rotated rows of `run` and move the problem there."""
    posterior = problem.posterior
    assert isinstance(posterior, Posterior)
    m, dim, n = len(posterior.labels), len(posterior.mean), problem.counted
    weights = weighting(posterior.typical, np.ones(dim))
    released = run.release(
        ResidualSum(
            slope=np.zeros(dim),
            spread=np.ones(dim),
            residual=one,
            scale=1.0,
            clip=1.0,
            radius=weights.radius,
            row_step=problem.rotation.step,
            weighted=problem.rotation.weighted,
        ),
        name="mean of the rows",
        cost=cost,
        clip_radius=weights.radius,
    )
    unit = 1.0 / (n * float(weights.lever.mean()))
    noise_sq = (released.noise_std * unit) ** 2
    mean = posterior.turn[1:] @ np.clip(np.nan_to_num(released.value), -_LARGEST, _LARGEST) * unit
    # A public mean of unit rows is known to 1 / m; no row is longer than the radius.
    mean /= 1.0 + m * noise_sq
    mean *= min(1.0, weights.radius / max(float(np.linalg.norm(mean)), 1e-300))
    return centred(problem, mean, 1.0 / (m + 1.0 / noise_sq))


def centred(problem: Problem, mean: FloatArray, doubt: float) -> Centred:
    """The problem about `mean` (p,), in whitened coordinates, each entry of which has a variance `doubt`."""
    posterior, rotation = problem.posterior, problem.rotation
    assert isinstance(posterior, Posterior)
    axis, moved = posterior.turn[0], mean @ posterior.turn[1:]
    spread = float(moved**2 @ posterior.variance) + doubt * posterior.spread
    # Rows become root (terms - centre) + offset: the released mean is taken off in the offset, so that no matrix is inverted.
    row_map = replace(rotation.row_map, offset=posterior.turn[0] - moved)
    return Centred(
        posterior=replace(
            posterior,
            mean=posterior.mean + axis * float(moved @ posterior.mean),
            variance=posterior.variance + axis**2 * spread,
        ),
        rotation=replace(rotation, row_map=row_map),
        axis=axis,
        moved=moved,
    )
