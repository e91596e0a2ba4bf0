"""Objective perturbation: the minimum of a weighted, strongly convex loss to which a secret linear term was added."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from fastpubpriv import validation
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.mechanisms.minima import SLOPES
from fastpubpriv.mechanisms.objectives import Noise, PerturbedMinimum
from fastpubpriv.privacy import ZCDP, laplace_epsilon
from fastpubpriv.release.account import Account
from fastpubpriv.run import Run
from fastpubpriv.training.gradient.choosing import without_delta
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
from fastpubpriv.training.gradient.plan import Curvature, gradient_lengths, public_curvature
from fastpubpriv.training.gradient.problem import GradientProblem
from fastpubpriv.training.gradient.public_fit import PublicFit
from fastpubpriv.training.gradient.task import Descended, GradientTask, Prepared
from fastpubpriv.training.record import TrainingMethod

_STEPS = 24
_STRENGTHS = tuple(2.0**-k for k in reversed(range(18)))
# Of the budget beside the determinant: for the distance of a computed minimum from the exact one.
_COMPUTED = (0.005, 0.02, 0.1, 0.3)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ObjectivePerturbation:
    """Minimise a weighted sum of private and public losses about the public fit plus a secret linear term (experimental).

    For the logistic, the Huber and the smooth hinge loss. The noise on the minimum is least where public and private rows are
    sure of it; output perturbation has the same noise in all directions. No minimum is computed exactly: noise for what is left
    is added to it, and the proof counts every rounding. The proof is ours, so `train` warns that the method is experimental.

    Attributes
    ----------
    l2 : float or "auto"
        l2 |w - public fit|^2 / 2 is added to the loss, in the units of the fit; "auto" has the least predicted error.
    priv_weight : float in (0, 1] or "auto"
        Weight of the mean loss of the private rows; the public rows have the rest.
    row_norm : float or "auto"
        Rows longer than this, in the units of the fit, are shortened to it, which bends the line; "auto" is the longest
        public row.
    steps : int
        Passes over the rows that look for the minimum. Where they do not find it, which few rows and no ordinary ones do, more
        passes follow until it is found.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import fastpubpriv as fpp
    >>> warnings.simplefilter("ignore", fpp.ExperimentalWarning)
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(20_000, 1))
    >>> y = x @ [1.0] + rng.normal(size=20_000)
    >>> public = {"x_pub": x[:50].copy(), "y_pub": y[:50]}
    >>> method = fpp.training.ObjectivePerturbation()
    >>> result = fpp.train(x[50:], y[50:], loss="huber", budget=fpp.PureDP(epsilon=1), method=method, **public)
    >>> bool(abs(result.coefficients[0, 0] - 1.0) < 0.1)
    True
    """

    name: ClassVar[str] = "objective_perturbation"
    scaling: ClassVar[str] = "standard"

    l2: float | str = "auto"
    priv_weight: float | str = "auto"
    row_norm: float | str = "auto"
    steps: int = _STEPS

    def __post_init__(self) -> None:
        check_ranges(self)
        validation.integer("steps", self.steps, minimum=1, maximum=MOST_STEPS)


def epsilon_of(account: Account) -> Fraction:
    """The pure cost that the whole allowance pays for."""
    allowance = Fraction(account.allowance)
    return allowance if account.pure else laplace_epsilon(ZCDP(allowance), 1)


def predicted_excess(minimum: PerturbedMinimum, noise: Noise, known: Curvature, n: int) -> float:
    """What the ridge keeps of the public error, what the draw of rows leaves, and both noises, in directions of the curvature."""
    m, share, l2 = len(minimum.public), minimum.priv_weight, minimum.l2
    stiff = known.values + l2
    kept = (l2 / stiff) ** 2 * known.unknown
    drawn = known.energy * known.values / stiff**2 * (share**2 / n + (1.0 - share) ** 2 / m)
    secret = (noise.event.secret_std * noise.secret_unit / stiff) ** 2
    added = (noise.event.noise_std * noise.unit) ** 2
    return float(np.sum(known.values * (kept + drawn + secret + added))) / 2.0


def plan_objective(
    problem: GradientProblem, settings: ObjectivePerturbation, public: PublicFit, epsilon: Fraction
) -> tuple[PlannedMinimum[PerturbedMinimum], float]:
    """Choose what is left open by the error that public numbers predict; and the excess of the public fit.

    Where nothing can be done, the refusal of the last try.
    """
    loss = check_loss(problem, settings.name)
    shortened, radius = short_rows(problem, settings.row_norm)
    lengths = gradient_lengths(problem, public.weights, public)
    known = public_curvature(problem, public, lengths, SLOPES[loss.name] * radius, None)
    best: PlannedMinimum[PerturbedMinimum] | None = None
    refusal: InputError | None = None
    tried = settings_to_try(problem, settings, _STRENGTHS, loss.curvature * radius**2)
    for (l2, share), computed in itertools.product(tried, _COMPUTED):
        minimum = PerturbedMinimum(
            start=public.weights, public=shortened, loss=loss, radius=radius, priv_weight=share, l2=l2,
            steps=settings.steps, computed_share=computed,
        )  # fmt: skip
        try:
            noise = minimum.noise(epsilon, problem.n_priv)
        except InputError as error:
            refusal = error
            continue
        left = predicted_excess(minimum, noise, known, problem.n_priv)
        if best is None or left < best.predicted:
            best = PlannedMinimum(minimum=minimum, predicted=left)
    if best is None:
        assert refusal is not None
        raise refusal.with_traceback(None)
    return best, known.public_error / 2.0


def _prepare(task: GradientTask, account: Account) -> Prepared:
    """The least predicted error."""
    epsilon, n = epsilon_of(account), task.problem.n_priv
    check_loss(task.problem, ObjectivePerturbation.name)  # before the public fit, which takes time
    plan, alone = plan_objective(task.problem, task.settings, task.public, epsilon)
    minimum = plan.minimum
    if minimum.noise(epsilon, n).event.price(type(account.budget)) > account.allowance:
        raise BudgetError(
            "method='objective_perturbation': the budget is too small for its rounding; pass a larger budget"
        )
    try_pass(task, minimum, minimum.query(minimum.start, n))
    return prepared_minimum(task, plan, alone)


def _learn(run: Run, task: GradientTask, prepared: Prepared) -> Descended:
    """Release the minimum."""
    minimum: PerturbedMinimum = prepared.more
    return release_short_minimum(run, task, minimum, epsilon_of(run.account))


OBJECTIVE_PERTURBATION = TrainingMethod(
    name=ObjectivePerturbation.name,
    settings=ObjectivePerturbation,
    spends=without_delta,
    draws=lambda task: 2 * task.problem.size,
    prepare=_prepare,
    learn=_learn,
    experimental="its privacy proof is our own (mechanisms/notes/objective_perturbation.md)",
)
