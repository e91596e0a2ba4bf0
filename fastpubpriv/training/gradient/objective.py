"""Objective perturbation: the minimum of a weighted, strongly convex loss to which a secret linear term was added."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.mechanisms.objectives import SLOPES, Noise, PerturbedMinimum
from fastpubpriv.privacy import ZCDP, laplace_epsilon
from fastpubpriv.release.account import Account
from fastpubpriv.run import Run
from fastpubpriv.training.gradient.choosing import without_delta
from fastpubpriv.training.gradient.perturbing import ShortRow, check_loss, short_rows
from fastpubpriv.training.gradient.plan import Curvature, gradient_lengths, public_curvature
from fastpubpriv.training.gradient.problem import GradientProblem
from fastpubpriv.training.gradient.public_fit import PublicFit
from fastpubpriv.training.gradient.task import Descended, GradientTask, Prepared
from fastpubpriv.training.kept import kept_rows
from fastpubpriv.training.record import TrainingMethod

MOST_STEPS = 1000
_STEPS = 24
_LARGEST = 1e6  # of settings: no product of them over- or underflows, so that errors stay relative
_STRENGTHS = tuple(2.0**-k for k in range(18))
_SHARES = (1.0, 0.5, 0.25, 0.1)
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
        for field in ("l2", "row_norm"):
            given = getattr(self, field)
            if given != "auto" and not 1.0 / _LARGEST <= validation.positive(field, given) <= _LARGEST:
                raise InputError(f"{field} must lie between {1.0 / _LARGEST} and {_LARGEST}, got {given}")
        if self.priv_weight != "auto" and not 0.0 < validation.finite("priv_weight", self.priv_weight) <= 1.0:
            raise InputError(f"priv_weight must lie in (0, 1], got {self.priv_weight}")
        validation.integer("steps", self.steps, minimum=1, maximum=MOST_STEPS)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PerturbedObjective:
    """The query of a run, and its error as public numbers predict it; `public_excess` is that of the public fit."""

    minimum: PerturbedMinimum
    predicted: float
    public_excess: float


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
) -> PerturbedObjective:
    """Choose what is left open by the error that public numbers predict; the refusal of the last try where none can be done."""
    loss = check_loss(problem, settings.name)
    shortened, radius = short_rows(problem, settings.row_norm)
    lengths = gradient_lengths(problem, public.weights, public)
    known = public_curvature(problem, public, lengths, SLOPES[loss.name] * radius, None)
    n, m = problem.n_priv, len(problem.x)
    best: PerturbedObjective | None = None
    refusal: InputError | None = None
    alone = float(np.sum(known.values * known.unknown)) / 2.0
    for strength in reversed(_STRENGTHS) if settings.l2 == "auto" else (None,):
        l2 = float(settings.l2) if strength is None else strength * loss.curvature * radius**2
        for part in _SHARES if settings.priv_weight == "auto" else (None,):
            share = float(settings.priv_weight) if part is None else part * n / (n + m)
            for computed in _COMPUTED:
                minimum = PerturbedMinimum(
                    start=public.weights, public=shortened, loss=loss, radius=radius, priv_weight=share, l2=l2,
                    steps=settings.steps, computed_share=computed,
                )  # fmt: skip
                try:
                    noise = minimum.noise(epsilon, n)
                except InputError as error:
                    refusal = error
                    continue
                left = predicted_excess(minimum, noise, known, n)
                if best is None or left < best.predicted:
                    best = PerturbedObjective(minimum=minimum, predicted=left, public_excess=alone)
    if best is None:
        assert refusal is not None
        raise refusal.with_traceback(None)
    return best


def _prepare(task: GradientTask, account: Account) -> Prepared:
    """The least predicted error; a public row goes through a pass, so that nothing is refused after the debit."""
    check_loss(task.problem, ObjectivePerturbation.name)  # before the public fit, which takes time
    settings, epsilon = task.settings, epsilon_of(account)
    plan = plan_objective(task.problem, settings, task.public, epsilon)
    minimum, n = plan.minimum, task.problem.n_priv
    if minimum.noise(epsilon, n).event.price(type(account.budget)) > account.allowance:
        raise BudgetError(
            "method='objective_perturbation': the budget is too small for its rounding; pass a larger budget"
        )
    if task.rows is not None:
        query = minimum.query(minimum.start, n)
        query.add(minimum.public[:1], query.zeros())
    return Prepared(
        public=task.public,
        predicted=plan.predicted,
        public_excess=plan.public_excess,
        steps=minimum.steps,
        clip_norm=minimum.longest,
        priv_weight=minimum.priv_weight,
        batch_rows=n,
        ranges={"clip": "public rows" if settings.row_norm == "auto" else "argument", "start": "public weights"},
        more=minimum,
    )


def _learn(run: Run, task: GradientTask, prepared: Prepared) -> Descended:
    """Release the minimum."""
    minimum: PerturbedMinimum = prepared.more
    units = task.problem.units
    row_map = ShortRow(units=units, radius=minimum.radius)
    rows = kept_rows(run.rows, row_map, units.width + 1, dtype=np.float64, executor=run.executor)
    released = run.on(rows).release(
        minimum, name="minimum", cost=epsilon_of(run.account), clip_radius=minimum.radius, l2=minimum.l2
    )
    weights: FloatArray = minimum.start + released.value
    return Descended(weights=weights, noise_std=released.noise_std)


OBJECTIVE_PERTURBATION = TrainingMethod(
    name=ObjectivePerturbation.name,
    settings=ObjectivePerturbation,
    spends=without_delta,
    draws=lambda task: 2 * task.problem.size,
    prepare=_prepare,
    learn=_learn,
    experimental="its privacy proof is our own (mechanisms/notes/objective_perturbation.md)",
)
