"""Labelled rows as [x, a residual], both shortened by the length of x: what `sufficient_statistics` adds up the squares of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.mechanisms.group_covariances import total, total_of_squares
from fastpubpriv.sources import Rows
from fastpubpriv.sources.base import Chunk
from fastpubpriv.sources.views import each_row
from fastpubpriv.training.problem import Problem
from fastpubpriv.training.public_linear import Posterior
from fastpubpriv.training.rotated import Rotation
from fastpubpriv.training.statistics import StatisticsPlan


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResidualRow:
    """The public map of a labelled row (dim + 1) to (D + 1)."""

    rotation: Rotation
    slope: FloatArray
    radius: float
    scale: float
    clip: float
    weight: float

    def __call__(self, chunk: Chunk) -> Chunk:
        """Rows (k, dim + 1) as (k, D + 1) float64; one without a label, or with a missing cell, is zero."""
        turned = self.rotation(chunk)
        dim = self.rotation.row_map.out_dim
        z = np.ascontiguousarray(turned[:, :dim].T, dtype=np.float64) * self.rotation.step
        with np.errstate(all="ignore"):
            norm = np.sqrt(total_of_squares(z))
            lever = np.where(norm > self.radius, self.radius / norm, 1.0)
            residual = (turned[:, dim].astype(np.float64) - total(z * self.slope[:, None])) / self.scale
            if self.rotation.weighted:
                lever = lever * np.sqrt(turned[:, -1].astype(np.float64))  # of the square, the weight is a factor
            out = np.empty((len(chunk), len(z) + 1))
            out[:, :-1] = (lever * z).T
            out[:, -1] = lever * self.weight * np.clip(residual, -self.clip, self.clip)
            # A row that is ignored has no first coordinate, of which a missing cell leaves zero.
            out[~np.isfinite(residual) | (norm == 0.0)] = 0.0
        return out


def residual_rows(rows: Rows, problem: Problem, plan: StatisticsPlan) -> Rows:
    """The rows under that map."""
    assert isinstance(problem.posterior, Posterior)
    made = ResidualRow(
        rotation=problem.rotation,
        slope=problem.posterior.mean,
        radius=plan.weights.radius,
        scale=problem.posterior.scale,
        clip=plan.clip.bound,
        weight=plan.residual_weight,
    )
    return each_row(rows, made, problem.dim + 1)
