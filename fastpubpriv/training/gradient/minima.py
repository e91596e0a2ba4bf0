"""What output and objective perturbation share: their losses and rows, what they try, and the release of a minimum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, Protocol, TypeVar

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.losses import LOSSES, Loss
from fastpubpriv.mechanisms.minima import SLOPES, WeightedMinimum
from fastpubpriv.mechanisms.objectives import PerturbedMinimum
from fastpubpriv.mechanisms.rowwise import total_of_squares
from fastpubpriv.run import Run
from fastpubpriv.sources import Query
from fastpubpriv.sources.base import Chunk
from fastpubpriv.training.gradient.problem import GradientProblem, Units
from fastpubpriv.training.gradient.task import Descended, GradientTask, Prepared
from fastpubpriv.training.kept import kept_rows

MOST_STEPS = 1000
_LARGEST = 1e6  # of settings: no product of them over- or underflows, so that errors stay relative
_SHARES = (1.0, 0.5, 0.25, 0.1)

M = TypeVar("M", WeightedMinimum, PerturbedMinimum)


class MinimumSettings(Protocol):
    """The settings that both methods have."""

    @property
    def l2(self) -> float | str:
        """Strength of the ridge, or "auto"."""

    @property
    def priv_weight(self) -> float | str:
        """Weight of the private rows, or "auto"."""

    @property
    def row_norm(self) -> float | str:
        """Norm that rows are shortened to, or "auto"."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlannedMinimum(Generic[M]):
    """The query of a run, and its error as public numbers predict it."""

    minimum: M
    predicted: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShortRow:
    """The public map of a labelled row to [z, label] with |z| at most `radius`; a row that is not whole is zero, its label NaN."""

    units: Units
    radius: float

    def __call__(self, chunk: Chunk) -> Chunk:
        """Rows (k, dim + 1) as (k, width + 1) float64."""
        out = self.units(chunk).astype(np.float64)
        with np.errstate(all="ignore"):
            norm = np.sqrt(total_of_squares(np.ascontiguousarray(out[:, :-1].T)))
            out[:, :-1] *= np.where(norm > self.radius, self.radius / norm, 1.0)[:, None]
            lost = ~(np.isfinite(norm) & np.isfinite(out[:, -1]))
        out[lost], out[lost, -1] = 0.0, np.nan
        return out


def check_ranges(settings: MinimumSettings) -> None:
    """Refuse settings that no proof of rounding covers."""
    for field in ("l2", "row_norm"):
        given = getattr(settings, field)
        if given != "auto" and not 1.0 / _LARGEST <= validation.positive(field, given) <= _LARGEST:
            raise InputError(f"{field} must lie between {1.0 / _LARGEST} and {_LARGEST}, got {given}")
    if settings.priv_weight != "auto" and not 0.0 < validation.finite("priv_weight", settings.priv_weight) <= 1.0:
        raise InputError(f"priv_weight must lie in (0, 1], got {settings.priv_weight}")


def check_loss(problem: GradientProblem, method: str) -> Loss:
    """A loss with known bounds, which one of the user's cannot prove; refuse others."""
    for name in SLOPES:
        if problem.loss is LOSSES[name]:
            return LOSSES[name]
    raise InputError(
        f"method={method!r} needs a loss whose gradients are bounded: pass loss='huber', 'logistic' or 'smooth_hinge'"
    )


def short_rows(problem: GradientProblem, row_norm: float | str) -> tuple[FloatArray, float]:
    """Public rows (z, label), shortened, and the norm that they are shortened to."""
    norms = np.sqrt(np.sum(problem.x**2, axis=1))
    radius = float(norms.max() if row_norm == "auto" else row_norm)
    return np.column_stack([problem.x * np.minimum(1.0, radius / norms)[:, None], problem.y]), radius


def settings_to_try(
    problem: GradientProblem, settings: MinimumSettings, strengths: Sequence[float], smoothness: float
) -> Iterator[tuple[float, float]]:
    """Each l2 and weight of the private rows that may be taken; strengths are parts of a row's `smoothness`."""
    n, m = problem.n_priv, len(problem.x)
    for strength in strengths if settings.l2 == "auto" else (None,):
        l2 = float(settings.l2) if strength is None else strength * smoothness
        for part in _SHARES if settings.priv_weight == "auto" else (None,):
            yield l2, float(settings.priv_weight) if part is None else part * n / (n + m)


def try_pass(task: GradientTask, minimum: M, query: Query) -> None:
    """Send a public row through a pass before the debit, so that nothing is refused after it."""
    if task.rows is not None:
        query.add(minimum.public[:1], query.zeros())


def prepared_minimum(
    task: GradientTask, plan: PlannedMinimum[M], public_excess: float, step_size: float = 0.0
) -> Prepared:
    """What both methods have chosen before the debit."""
    minimum = plan.minimum
    return Prepared(
        public=task.public,
        predicted=plan.predicted,
        public_excess=public_excess,
        steps=minimum.steps,
        step_size=step_size,
        clip_norm=minimum.longest,
        priv_weight=minimum.priv_weight,
        batch_rows=task.problem.n_priv,
        ranges={
            "clip": "public rows" if task.settings.row_norm == "auto" else "argument",
            "start": "public weights",
        },
        more=minimum,
    )


def release_short_minimum(run: Run, task: GradientTask, minimum: M, cost: Fraction) -> Descended:
    """Release the minimum over shortened rows."""
    units = task.problem.units
    row_map = ShortRow(units=units, radius=minimum.radius)
    rows = kept_rows(run.rows, row_map, units.width + 1, dtype=np.float64, executor=run.executor)
    released = run.on(rows).release(minimum, name="minimum", cost=cost, clip_radius=minimum.radius, l2=minimum.l2)
    weights: FloatArray = minimum.start + released.value
    return Descended(weights=weights, noise_std=released.noise_std)
