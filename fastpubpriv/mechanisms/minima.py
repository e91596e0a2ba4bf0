"""The minimum of a weighted, strongly convex loss over private and public rows, by a fixed number of gradient steps.

Privacy note: `notes/weighted_minimum.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.mechanisms.gradients import LinearGradientQuery
from fastpubpriv.mechanisms.sums import Measurement, Released, sum_grid
from fastpubpriv.privacy import Grid, clip_steps
from fastpubpriv.release.account import Account
from fastpubpriv.release.payer import Payer
from fastpubpriv.release.release import release
from fastpubpriv.residual_maps import GradientMap
from fastpubpriv.sources import Executor, Rows

ULP = 2.0**-53
UP = 1.0 + 2.0**-30  # more than all roundings of the bounds themselves, which are a few operations on doubles
LONGER = 1.0 + 2.0**-24  # of a row that was shortened to `radius` in single or double precision
# Of losses with bounded gradients: the bound on the derivative in the prediction.
SLOPES = {"logistic": 1.0, "huber": 1.345, "smooth_hinge": 1.0}
_EXACT = 1 << 53


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightedMinimum(Measurement[Fraction, Released]):
    """Release how far from `start` the minimum of a G(w) + (1 - a) H(w) + l2 |w - start|^2 / 2 lies.

    G and H are mean losses of private and public rows, a is `priv_weight`. Losses are of <w, z> and a label, convex, with
    |derivative| <= `slope` and second derivative at most `curvature`; rows have |z| <= `radius`, to a part of 2^-24. What is
    released is the iterate after `steps` gradient steps, with noise for its own sensitivity. `cost` is a rho, or an epsilon when
    the account is pure. Replace-one sensitivity 2Q in l2, isqrt(4 D Q^2) in l1, in grid steps.
    """

    start: FloatArray
    public: FloatArray
    residual: Callable[..., Any]
    slope: float
    curvature: float
    radius: float
    priv_weight: float
    l2: float
    steps: int

    @property
    def longest(self) -> float:
        """Bound on the norm of the gradient of a row."""
        return self.slope * self.radius * LONGER

    @property
    def step_size(self) -> float:
        """At most 2 / (largest + least curvature), so that a step brings any two points closer by the factor 1 - step_size l2."""
        return 2.0 / ((self.curvature * (self.radius * LONGER) ** 2 + 2.0 * self.l2) * UP)

    @property
    def reach(self) -> float:
        """No iterate is farther from `start`."""
        return self.longest / self.l2 * UP

    def gradient_error(self) -> float:
        """Bound on the distance of a step's gradient, as it is computed, from the exact one."""
        dim, radius = len(self.start), self.radius * LONGER
        far = float(np.sqrt(np.sum(self.start**2))) + self.reach
        rounded = math.sqrt(dim) * (0.5 + 2.0**-20) * self._row_step(dim)
        # <w, z> in any order of adding, and w itself; then the residual, whose exp is right to 2^-48 of one.
        inside = radius * (self.curvature * (dim + 4) * 2.0 * ULP * far * radius + self.slope * 2.0**-48)
        moved = 64.0 * ULP * (self.longest + self.l2 * self.reach + self.reach / self.step_size)
        return (rounded + inside + moved) * UP

    def distance(self, n: int) -> float:
        """Bound on the distance of the last iterates of two neighbours of n rows, as they are computed."""
        return 2.0 * (self.priv_weight / n * self.longest + self.gradient_error()) / self.l2 * UP

    def grid(self, account: Payer | Account, cost: Fraction, n: int) -> tuple[Grid, float]:
        """Grid and the length of its steps; refused before the debit where there is none."""
        dim = len(self.start)
        grid = sum_grid(account, cost, dim, math.ceil(n / self.priv_weight) + 1)
        room = 2 * grid.quant_bound - math.isqrt(dim) - 3
        return grid, (self.distance(n) + 2.0**-50 * self.reach) / room * UP

    def release(self, account: Payer, rows: Rows, executor: Executor, *, name: str, cost: Fraction) -> Released:
        """Charge `cost`, take the steps, each a pass, and add noise to where they end."""
        grid, unit = self.grid(account, cost, rows.n)

        def ask() -> IntArray:
            moved = self.descend(lambda query: executor.run(query, rows), rows.n) / unit
            return np.rint(np.clip(moved, -(2.0**62), 2.0**62)).astype(np.int64)

        value = release(account, name=name, query=ask, shape=self.start.shape, event=grid.event, unit=unit)
        return Released(value=value, noise_std=grid.event.noise_std * unit, event=grid.event)

    def descend(self, private_sum: Callable[[LinearGradientQuery], IntArray], n: int) -> FloatArray:
        """The last iterate less `start`: a private value."""
        dim = len(self.start)
        moved, step = np.zeros(dim), self._row_step(dim)
        for _ in range(self.steps):
            query = self.query(self.start + moved)
            known = query.zeros()
            query.add(self.public, known)
            found = private_sum(query).astype(np.float64) * (step * self.priv_weight / n)
            found += known[0].astype(np.float64) * (step * (1.0 - self.priv_weight) / len(self.public))
            # Sums are minus gradients.
            moved = moved + self.step_size * (found - self.l2 * moved)
        return moved

    def query(self, weights: FloatArray) -> LinearGradientQuery:
        """The pass of a step. Its clip is twice what a row can have: it never binds, so that gradients are those of a loss."""
        return LinearGradientQuery(
            gradient_map=GradientMap(
                weights=weights,
                residual=self.residual,
                clip_norm=2.0 * self.longest,
                inv_step=1.0 / self._row_step(len(weights)),
                quant_bound=math.isqrt(_EXACT // len(weights)),
            )
        )

    def _row_step(self, dim: int) -> float:
        return self.longest * UP / clip_steps(math.isqrt(_EXACT // dim), dim)
