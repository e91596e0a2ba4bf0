"""Output perturbation: the minimum of a weighted, strongly convex loss, released once with noise for its own sensitivity."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from fastpubpriv import validation
from fastpubpriv.mechanisms.minima import SLOPES, WeightedMinimum
from fastpubpriv.release.account import Account
from fastpubpriv.run import Run, noise_per_radius
from fastpubpriv.training.gradient.minima import (
    MOST_STEPS,
    PlannedMinimum,
    check_loss,
    check_ranges,
    prepared_minimum,
    release_short_minimum,
    settings_to_try,
    short_rows,
    try_pass,
)
from fastpubpriv.training.gradient.plan import gradient_lengths, public_curvature
from fastpubpriv.training.gradient.problem import GradientProblem
from fastpubpriv.training.gradient.public_fit import PublicFit
from fastpubpriv.training.gradient.task import Descended, GradientTask, Prepared
from fastpubpriv.training.record import TrainingMethod

_LEFT = 0.1  # of the noise: what the fixed number of steps may leave of the way to the minimum
_STRENGTHS = tuple(2.0**-k for k in range(12))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OutputPerturbation:
    """Minimise a weighted sum of private and public losses about the public fit, and add noise to the minimum (paper B, Section 4).

    For the logistic, the Huber and the smooth hinge loss, whose gradients are bounded. The noise is that of one release, but it
    grows as 1 / l2: Newton steps and gradient steps are nearly always closer.

    Attributes
    ----------
    l2 : float or "auto"
        l2 |w - public fit|^2 / 2 is added to the loss, in the units of the fit; "auto" has the least predicted error.
    priv_weight : float in (0, 1] or "auto"
        Weight of the mean loss of the private rows; the public rows have the rest.
    row_norm : float or "auto"
        Rows longer than this, in the units of the fit, are shortened to it, which bends the line; "auto" is the longest
        public row.
    steps : int or "auto"
        Passes over the rows; "auto" takes as many as leave a tenth of the noise, at most 1000.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import PureDP, train
    >>> from fastpubpriv.training import OutputPerturbation
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(20_000, 1))
    >>> y = x @ [1.0] + rng.normal(size=20_000)
    >>> public = {"x_pub": x[:50].copy(), "y_pub": y[:50]}
    >>> result = train(x[50:], y[50:], loss="huber", budget=PureDP(epsilon=1), method=OutputPerturbation(), **public)
    >>> bool(abs(result.coefficients[0, 0] - 1.0) < 0.2)
    True
    """

    name: ClassVar[str] = "output_perturbation"
    scaling: ClassVar[str] = "standard"

    l2: float | str = "auto"
    priv_weight: float | str = "auto"
    row_norm: float | str = "auto"
    steps: int | str = "auto"

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.steps != "auto":
            validation.integer("steps", self.steps, minimum=1, maximum=MOST_STEPS)


def plan_minimum(
    problem: GradientProblem, settings: OutputPerturbation, public: PublicFit, account: Any
) -> tuple[PlannedMinimum[WeightedMinimum], float]:
    """Choose what is left open by the error that public numbers predict; and the excess of the public fit."""
    loss = check_loss(problem, settings.name)
    shortened, radius = short_rows(problem, settings.row_norm)
    lengths = gradient_lengths(problem, public.weights, public)
    known = public_curvature(problem, public, lengths, SLOPES[loss.name] * radius, None)
    noise = noise_per_radius(problem.size, pure=account.pure, allowance=account.allowance)(Fraction(1)) / 2.0
    n, m = problem.n_priv, len(problem.x)
    best: PlannedMinimum[WeightedMinimum] | None = None
    for l2, share in settings_to_try(problem, settings, _STRENGTHS, loss.curvature * radius**2):
        minimum = WeightedMinimum(
            start=public.weights, public=shortened, residual=loss.residual,
            slope=SLOPES[loss.name], curvature=loss.curvature, radius=radius, priv_weight=share, l2=l2, steps=1,
        )  # fmt: skip
        std = noise * minimum.distance(n)
        left = max(math.log(minimum.reach / (_LEFT * std)), 0.0) / (minimum.step_size * l2)
        steps = min(MOST_STEPS, 1 + math.ceil(left)) if settings.steps == "auto" else int(settings.steps)
        kept = (l2 / (known.values + l2)) ** 2 + math.exp(-2.0 * steps * minimum.step_size * l2)
        drawn = known.energy * known.values / (known.values + l2) ** 2 * (share**2 / n + (1.0 - share) ** 2 / m)
        error = float(np.sum(known.values * (kept * known.unknown + drawn + std**2))) / 2.0
        if best is None or error < best.predicted:
            best = PlannedMinimum(minimum=replace(minimum, steps=steps), predicted=error)
    assert best is not None
    best.minimum.grid(account, account.allowance, n)
    return best, known.public_error / 2.0


def _prepare(task: GradientTask, account: Account) -> Prepared:
    """The least predicted error."""
    plan, alone = plan_minimum(task.problem, task.settings, task.public, account)
    try_pass(task, plan.minimum, plan.minimum.query(plan.minimum.start))
    return prepared_minimum(task, plan, alone, plan.minimum.step_size)


def _learn(run: Run, task: GradientTask, prepared: Prepared) -> Descended:
    """Release the minimum."""
    minimum: WeightedMinimum = prepared.more
    return release_short_minimum(run, task, minimum, run.account.allowance)


OUTPUT_PERTURBATION = TrainingMethod(
    name=OutputPerturbation.name,
    settings=OutputPerturbation,
    draws=lambda task: task.problem.size,
    prepare=_prepare,
    learn=_learn,
)
