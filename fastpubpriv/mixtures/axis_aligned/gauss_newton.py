"""Damped Gauss-Newton steps of many fits at once: of mixtures to counts of cells, and to sums of cosines and sines.

A step solves (H + D) step = g, with the curvature H and the gradient g of half the weighted squares, and D a damped diagonal of H
(Levenberg 1944, Marquardt 1963). A step that fits worse is rejected and the damping raised, so that the score never rises.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.mixtures import mixture_tuning as tuning

# Curvature (rows, p, p) and gradient (rows, p) of the fits that a mask selects.
Equations = Callable[[BoolArray], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True, slots=True, eq=False)
class DampedFits:
    """Parameters (size, ...) of each fit, its score, and its curvature (size, p, p)."""

    parameters: FloatArray
    score: FloatArray
    curvature: FloatArray


def damped_steps(
    start: FloatArray,
    evaluate: Callable[[FloatArray], tuple[FloatArray, Equations]],
    moved: Callable[[FloatArray, FloatArray], FloatArray],
    *,
    steps: int,
    damping: float,
    ridge: float,
    settled: float | None = None,
) -> DampedFits:
    """Return the fits after so many steps, or once none gains more than `settled` and the damping of all is above one.

    `evaluate` returns scores of parameters and their equations, `moved` parameters after a step.
    """
    at = start
    score, equations = evaluate(at)
    curvature, gradient = equations(np.ones(len(at), dtype=bool))
    dampings = np.full(len(at), damping)
    for _ in range(steps):
        diagonal = np.einsum("spp->sp", curvature)
        lift = (dampings[:, None] * diagonal + ridge)[:, :, None] * np.eye(diagonal.shape[1])
        step = np.linalg.solve(curvature + lift, gradient[:, :, None])[:, :, 0]
        tried = moved(at, step)
        tried_score, equations = evaluate(tried)
        better = tried_score < score
        gain = np.where(better, score - tried_score, 0.0)
        at = np.where(better[:, None], tried, at)
        score = np.where(better, tried_score, score)
        curvature[better], gradient[better] = equations(better)
        raised = np.minimum(dampings * 10.0, tuning.MOST_DAMPING)
        dampings = np.where(better, dampings * 0.3, raised)
        if settled is not None and gain.max() <= settled and dampings.min() > 1.0:
            break
    return DampedFits(at, score, curvature)
