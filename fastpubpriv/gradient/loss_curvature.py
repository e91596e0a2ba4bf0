"""A quadratic model of the loss near its minimum, from public rows: curvature, error of their fit, and lengths of gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.gradient import gradient_tuning as tuning
from fastpubpriv.gradient.gradient_problem import GradientProblem, ridges


@dataclass(frozen=True, slots=True, eq=False)
class LossCurvature:
    """Quadratic model of the loss near its minimum, from public rows, along the eigenvectors of its curvature."""

    values: FloatArray  # (D,), curvature; shrunk to its mean with few public rows
    unknown: (
        FloatArray  # (D,), squared error of the public fit, whose intercept has next to no ridge
    )
    far: FloatArray  # (D,), squared distance of the public fit from zero
    energy: float  # mean square of a gradient at the public fit, over the trace of the curvature
    settled: float  # the same at the best weights, whose residuals have no error of the public fit
    inside: float  # share of the gradients' length that remains after clipping
    pull: FloatArray  # (D,), factor of a preconditioner
    turn: FloatArray  # (D, D), its columns are the eigenvectors
    doubt: float  # relative error of the contraction of a step

    @property
    def public_error(self) -> float:
        """Squared error of the public fit in the metric of the curvature."""
        return float(np.sum(self.values * self.unknown))


def gradient_lengths(problem: GradientProblem, weights: FloatArray | None = None) -> FloatArray:
    """Norms of the gradients of public rows at weights, or at the public fit, (m,), with held-out residuals."""
    with np.errstate(all="ignore"):
        _, vectors = problem.gradients(problem.public.weights if weights is None else weights)
        residuals_sq = np.sum(problem.public.residuals**2, axis=1)
        lengths: FloatArray = np.sqrt(residuals_sq * np.sum(vectors**2, axis=1))
    if not np.isfinite(lengths).all():
        raise InputError(
            "the gradient of a public row is not finite at the start: scale the columns, or pass start="
        )
    return lengths


def public_curvature(
    problem: GradientProblem, lengths: FloatArray, clip: float, ridge: float | None = None
) -> LossCurvature:
    """Curvature by numerical derivatives, shrunk to its mean with few public rows; `ridge` is that of a preconditioner."""
    loss = problem.loss
    public = problem.public
    x = problem.x
    m = len(problem.x)
    assert loss is not None
    scores = x @ public.weights.T
    below = loss.residuals_of(scores - tuning.NUDGE, problem.y)
    above = loss.residuals_of(scores + tuning.NUDGE, problem.y)
    steep = (below - above) / (2 * tuning.NUDGE)
    if loss.scores:
        # A common shift of all scores leaves the loss unchanged, so that each score's curvature, p (1 - p), is used.
        p = np.abs(loss.residuals_of(scores, problem.y))
        steep = (p * (1.0 - p)).mean(axis=1)
    weight = np.maximum(np.where(np.isfinite(steep), steep, loss.curvature), 0.0)
    if not float(weight.mean()) > 0.0:
        weight = np.full(m, loss.curvature)
    eigenvalues, turn = np.linalg.eigh((x.T * weight) @ x / m)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    share = min(1.0, problem.units.width / m)
    values = np.maximum(
        (1.0 - share) * eigenvalues + share * float(eigenvalues.mean()),
        tuning.LEAST_EIGENVALUE * float(eigenvalues.max()),
    )
    clipped = np.minimum(lengths, clip)
    lengths = np.maximum(lengths, 1e-150)
    energy = float(np.mean(lengths**2)) / float(np.sum(eigenvalues))
    unknown = energy * _error_of_fit(problem, m * eigenvalues, turn, energy)
    # A held-out residual has the error of the fit besides that of the label.
    settled = max(energy - float(eigenvalues @ unknown), tuning.LEAST_SETTLED * energy)
    far = np.sum((np.atleast_2d(public.weights) @ turn) ** 2, axis=0)
    pull = np.ones(len(eigenvalues))
    if ridge is not None:
        pull = 1.0 / (eigenvalues / float(weight.mean()) + ridge / len(eigenvalues))
    inside = float(np.sum(clipped * lengths)) / float(np.sum(lengths**2))
    doubt = tuning.CONTRACTION_DOUBT
    if ridge is not None:
        # The inverse of a second moment of m rows leaves curvatures that spread by sqrt(D / m) (Marchenko and Pastur 1967).
        doubt = max(doubt, math.sqrt(problem.units.width / m))
    return LossCurvature(
        values=values,
        unknown=unknown,
        far=far,
        energy=energy,
        settled=settled,
        inside=inside,
        pull=pull,
        turn=turn,
        doubt=doubt,
    )


def _error_of_fit(
    problem: GradientProblem, information: FloatArray, turn: FloatArray, energy: float
) -> FloatArray:
    """Variances (D,) of the public fit along the eigenvectors `turn` of its information, in units of `energy`."""
    ridge = ridges(problem, problem.public.penalty, len(problem.x))
    precision = (turn.T * ridge) @ turn
    least = tuning.LEAST_EIGENVALUE * energy
    precision[np.diag_indices_from(precision)] += information + least
    return np.asarray(np.diag(np.linalg.inv(precision)))
