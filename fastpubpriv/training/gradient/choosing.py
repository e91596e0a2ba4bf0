"""The finite exponential mechanism: one of a public list of models, by its loss on private rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from scipy import special

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels.gradients import row_values
from fastpubpriv.mechanisms.selection import LossChoice, epsilon_of
from fastpubpriv.privacy import ApproxDP, Budget, PureDP
from fastpubpriv.public_draws import draw_normals, sobol_points
from fastpubpriv.release.account import Account
from fastpubpriv.session import Run
from fastpubpriv.training.gradient.plan import Curvature, gradient_lengths, public_curvature
from fastpubpriv.training.gradient.problem import GradientProblem
from fastpubpriv.training.gradient.public_fit import PublicFit
from fastpubpriv.training.gradient.task import Descended, GradientTask, Prepared, excess_part
from fastpubpriv.training.kept import kept_rows
from fastpubpriv.training.record import TrainingMethod

MOST_CANDIDATES = 10_000
_CLIP_QUANTILE = 0.99
_TRUTHS = 32  # best models that a prediction tries, at random places in what public rows leave open


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exponential:
    """Choose among models that public rows suggest, by the exponential mechanism (McSherry and Talwar 2007).

    Paper B has no algorithm of this kind: its pure rates (Theorem 42) stand on exponential mechanisms over all models.

    Attributes
    ----------
    candidates : int or (models, size) array
        How many models, spread over what the public rows leave open about the best one; or the models, in the units of the fit. For
        few columns: the candidates get sparse as their number of weights grows.
    clip : float or "auto"
        Bound on the difference between the losses of two models at a row; "auto" is the .99 quantile over public rows.
    l2, scaling
        As in `Descent`.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import PureDP, train
    >>> from fastpubpriv.training import Exponential
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(20_000, 1))
    >>> y = x @ [1.0] + rng.normal(size=20_000)
    >>> public = {"x_pub": x[:20].copy(), "y_pub": y[:20]}
    >>> result = train(x[20:], y[20:], loss="squared", budget=PureDP(epsilon=1), method=Exponential(), **public)
    >>> bool(abs(result.coefficients[0, 0] - 1.0) < 0.2)
    True
    """

    name: ClassVar[str] = "exponential"

    candidates: Any = 200
    clip: float | str = "auto"
    l2: float = 0.0
    scaling: str = "standard"

    def __post_init__(self) -> None:
        if isinstance(self.candidates, int):
            validation.integer("candidates", self.candidates, minimum=2, maximum=MOST_CANDIDATES)
        if self.clip != "auto":
            validation.positive("clip", self.clip)
        validation.nonnegative("l2", self.l2)
        validation.choice("scaling", self.scaling, ("standard", "none"))

    @property
    def public_l2(self) -> float:
        """The ridge that the public fit shares with the loss."""
        return self.l2


def spread_models(problem: GradientProblem, settings: Exponential, public: PublicFit, known: Curvature) -> FloatArray:
    """The models to choose from, the public fit first: points of a fixed sequence under the normal law of what is unknown."""
    if isinstance(settings.candidates, int):
        size = problem.size
        points = sobol_points(size, math.ceil(math.log2(settings.candidates + 1)))
        normals = special.ndtri(np.clip(points[1 : settings.candidates], 1e-6, 1.0 - 1e-6))
        moved = (normals * np.sqrt(known.unknown)) @ known.turn.T
        found: FloatArray = np.vstack([public.weights[None], public.weights + moved])
        return found
    given = np.asarray(settings.candidates)
    if given.dtype.kind not in "iuf" or given.ndim != 2 or given.shape[1:] != problem.shape or len(given) < 1:
        raise InputError(f"candidates must be a number or an array (models, {problem.size}), got shape {given.shape}")
    if len(given) > MOST_CANDIDATES or not np.isfinite(given).all():
        raise InputError(f"candidates must be at most {MOST_CANDIDATES} finite models")
    listed: FloatArray = np.array(given, dtype=np.float64)
    return listed


def clip_of(problem: GradientProblem, settings: Exponential, models: FloatArray) -> float:
    """The bound on differences of losses, from public rows."""
    if settings.clip != "auto":
        return float(settings.clip)
    assert problem.loss is not None
    values: Any = problem.loss.values
    with np.errstate(all="ignore"):
        found = values(problem.x @ models.T, problem.y[:, None])
        gaps = np.abs(found - found[:, :1])
    clip = float(np.quantile(gaps[np.isfinite(gaps)], _CLIP_QUANTILE)) if np.isfinite(gaps).any() else 0.0
    if not 0.0 < clip < math.inf:
        raise InputError("all candidates have the same loss at the public rows: pass clip=, or other candidates")
    return clip


def law_of(account: Account) -> tuple[str, Fraction]:
    """How it is chosen, and with what epsilon."""
    law = "permute_and_flip" if account.pure else "exponential"
    return law, epsilon_of(Fraction(account.allowance), law, pure=account.pure)


def predicted_excess(task: GradientTask, models: FloatArray, known: Curvature, clip: float, epsilon: float) -> float:
    """Mean excess of the choice, over best models drawn from what public rows leave open."""
    problem = task.problem
    away = (models - task.public.weights) @ known.turn
    total = 0.0
    for normals in draw_normals((_TRUTHS, len(known.unknown)), 0):  # public numbers: the same in every call
        excess = (away - normals * np.sqrt(known.unknown)) ** 2 @ known.values / 2.0
        # A score is a sum of losses, and a row moves it by up to twice the clip.
        chance = special.softmax(-epsilon * problem.n_priv * excess / (4.0 * clip))
        total += float(chance @ excess)
    return 2.0 * excess_part(problem) * total / _TRUTHS


def without_delta(budget: Budget) -> Budget:
    """What has a pure cost has no use for delta, so none is spent."""
    return PureDP(budget.epsilon) if isinstance(budget, ApproxDP) else budget


def _prepare(task: GradientTask, account: Account) -> Prepared:
    """The models to choose from, and the bound on differences of their losses."""
    problem, settings, public = task.problem, task.settings, task.public
    loss = problem.loss
    if loss is None or loss.values is None or loss.scores:
        raise InputError("method='exponential' is for a loss of one prediction that has a function of values")
    lengths = gradient_lengths(problem, public.weights, public)
    if isinstance(settings.candidates, int) and not np.any(lengths > 0.0):
        raise InputError("one model fits all public rows: pass candidates=, a list of models")
    known = public_curvature(problem, public, lengths, float(np.max(lengths)) or 1.0)
    models = spread_models(problem, settings, public, known)
    clip = clip_of(problem, settings, models)
    if np.isnan(row_values(loss.values, models @ problem.x[0], float(problem.y[0]))).all():
        raise InputError(
            "the values of the loss are no numbers at the first public row: pass a function of arrays (predictions, labels) that "
            "returns one number for each, also for the predictions of one row by several models"
        )
    predicted = None
    if isinstance(settings.candidates, int):
        # A list of the user's holds what the public rows know nothing of.
        predicted = predicted_excess(task, models, known, clip, float(law_of(account)[1]))
    return Prepared(
        public=public,
        predicted=predicted,
        public_excess=excess_part(problem) * known.public_error,
        steps=1,
        clip_norm=clip,
        batch_rows=problem.n_priv,
        ranges={"clip": "public rows" if settings.clip == "auto" else "argument"},
        more=models,
    )


def _learn(run: Run, task: GradientTask, prepared: Prepared) -> Descended:
    """Release the choice."""
    problem, models, clip = task.problem, prepared.more, prepared.clip_norm
    assert problem.loss is not None
    units = problem.units
    kept = kept_rows(run.rows, units, units.width + 1, dtype=units.dtype, executor=run.executor)
    law, epsilon = law_of(run.account)
    choice = LossChoice(weights=models, loss=problem.loss, clip=clip, law=law)
    return Descended(weights=models[run.on(kept).release(choice, name="model", cost=epsilon, clip=clip).index])


EXPONENTIAL = TrainingMethod(
    name=Exponential.name,
    settings=Exponential,
    spends=without_delta,
    draws=lambda task: 1,
    prepare=_prepare,
    learn=_learn,
)
