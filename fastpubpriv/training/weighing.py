"""How much private rows weigh in all, released, where they have weights.

Steps divide by this sum. Public weights say what it is as long as private rows weigh about the same. Where they do not, the stated
errors are wrong, and steps of rows that weigh four times as much overshoot and end far off (four columns, 10,000 rows, rho = .05,
slopes of 1: root mean square error .19 with the public mean, .013 with the sum that costs a hundredth of the budget).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv.mechanisms.sums import AffineMap, VectorSum
from fastpubpriv.session import Run
from fastpubpriv.sources.base import Chunk
from fastpubpriv.sources.views import each_row
from fastpubpriv.training.newton_logistic import LogisticPosterior
from fastpubpriv.training.problem import Problem
from fastpubpriv.training.public_huber import FixedClip
from fastpubpriv.training.rotated import Rotation, capped

_SHARES = tuple(Fraction(k, 100) for k in (1, 2, 5))  # of the budget
_WANTED = 0.02  # relative error
_WORTH = 0.2  # with more, public weights are believed
_LEAST = 1e-3  # of all rows, or of the noise: a sum that is released may be negative

SUM_OF_WEIGHTS = "sum of weights"

Noise = Callable[[Fraction], float]  # share of the allowance -> noise on a sum of rows clipped to radius 1


def weighing_share(problem: Problem, noise: Noise) -> Fraction:
    """The share of the budget that the sum of private weights is worth; none without weights, or where noise would hide it."""
    if not problem.rotation.weighted:
        return Fraction(0)
    for share in _SHARES:
        if 0.5 * noise(share) <= _WANTED * problem.counted:
            return share
    return _SHARES[-1] if 0.5 * noise(_SHARES[-1]) <= _WORTH * problem.counted else Fraction(0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightOfRow:
    """The public map of a labelled row with a weight to that weight, in units of the cap; 0 for a row without a label."""

    rotation: Rotation

    def __call__(self, chunk: Chunk) -> Chunk:
        """Rows (k, dim + 2) as (k, 1) float64."""
        assert self.rotation.weight_cap is not None
        weights = capped(chunk[:, -1].astype(np.float64), self.rotation.weight_cap)
        labels = self.rotation.labels(chunk[:, -2].astype(np.float64))
        return np.where(np.isfinite(labels), weights, 0.0)[:, None]


def weigh(run: Run, problem: Problem, plan: Any, cost: Fraction) -> tuple[Problem, Any]:
    """Release the sum of the weights of the rows of `run`, and divide by it from now on."""
    rows = each_row(run.rows, WeightOfRow(rotation=problem.rotation), 1)
    # About their middle, weights lie within one half of zero.
    middle = AffineMap(dim=1, center=np.array([0.5]))
    released = run.on(rows).release(VectorSum(affine=middle, radius=0.5), name=SUM_OF_WEIGHTS, cost=cost)
    n = problem.n_priv
    found = float(np.nan_to_num(released.value[0])) + 0.5 * n
    least = max(_LEAST * n, min(released.noise_std, float(n)))
    share = min(max(found, least), n) / n
    # Rows that weigh r times as much have r times the mean of w^2 over that of w, but no more than 1.
    factor = min(share / problem.weight_share, 1.0 / problem.weight_spread)
    moved = replace(problem, weight_share=share)
    if isinstance(problem.posterior, LogisticPosterior):
        heavier = replace(problem.posterior, energy=problem.posterior.energy * factor)
        return replace(moved, posterior=heavier), plan
    if isinstance(plan.clip, FixedClip):
        return moved, replace(plan, clip=replace(plan.clip, counts=plan.clip.counts * factor))
    return moved, replace(plan, clip=replace(plan.clip, energy=plan.clip.energy * factor))
