"""Methods of one release: the exponential mechanism over a public list of models, and output perturbation."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from scipy import special

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.gradient import gradient_tuning as tuning
from fastpubpriv.gradient.gradient_problem import (
    Descended,
    GradientProblem,
    PreparedDescent,
    source_of,
)
from fastpubpriv.gradient.loss_curvature import LossCurvature, gradient_lengths, public_curvature
from fastpubpriv.kernels.gradients import row_values
from fastpubpriv.mechanisms.gradient_sums import SLOPES, WeightedMinimum
from fastpubpriv.mechanisms.selection import LossChoice
from fastpubpriv.privacy.calibrated_budget import without_delta
from fastpubpriv.regression.coordinates import mapped_rows
from fastpubpriv.regression.problem import TrainingMethod
from fastpubpriv.release.account import Account
from fastpubpriv.results.public_draws import draw_normals, sobol_points
from fastpubpriv.rowwise.losses import LOSSES
from fastpubpriv.session import Session

MOST_CANDIDATES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exponential:
    """Choice among models that public rows suggest, by the exponential mechanism (McSherry and Talwar 2007).

    Paper B has no algorithm of this kind: its pure rates (Theorem 42) rely on exponential mechanisms over all models. A finite list
    hardly improves on the public rows alone in more than a few columns: with 30, 40 and 60 its excess of the loss was .99,
    .99 and 1.09 times theirs, with 8 it was .65 times theirs (`python -m benchmarks.training_choice --one-release`).

    Attributes
    ----------
    candidates : int or (models, size) array
        Number of models, spread over the uncertainty of the public fit; or the models, in the units of the fit. Suits few columns,
        since candidates get sparse as the number of weights grows.
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
    anchored: ClassVar[bool] = False

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


def spread_models(problem: GradientProblem, known: LossCurvature) -> FloatArray:
    """Return the candidate models, the public fit first, then Sobol points of the normal law of its error."""
    settings = problem.settings
    public = problem.public
    if isinstance(settings.candidates, int):
        size = problem.size
        points = sobol_points(size, math.ceil(math.log2(settings.candidates + 1)))
        normals = special.ndtri(np.clip(points[1 : settings.candidates], 1e-6, 1.0 - 1e-6))
        moved = (normals * np.sqrt(known.unknown)) @ known.turn.T
        return np.vstack([public.weights[None], public.weights + moved])
    given = np.asarray(settings.candidates)
    if (
        given.dtype.kind not in "iuf"
        or given.ndim != 2
        or given.shape[1:] != problem.shape
        or len(given) < 1
    ):
        raise InputError(
            f"candidates must be a number or an array (models, {problem.size}), got shape {given.shape}"
        )
    if len(given) > MOST_CANDIDATES or not np.isfinite(given).all():
        raise InputError(f"candidates must be at most {MOST_CANDIDATES} finite models")
    return np.array(given, dtype=np.float64)


def law_of(account: Account) -> tuple[str, Fraction]:
    """Return the mechanism of the choice and its epsilon."""
    law = account.choice_law
    return law, account.spending.choice_epsilon(law)


def _prepare_choice(problem: GradientProblem, account: Account) -> PreparedDescent:
    """Return the plan: the candidate models and the bound on differences of their losses."""
    settings = problem.settings
    loss = problem.loss
    if loss is None or loss.values is None or loss.scores:
        raise InputError(
            "method='exponential' is for a loss of one prediction that has a function of values"
        )
    lengths = gradient_lengths(problem)
    if isinstance(settings.candidates, int) and not np.any(lengths > 0.0):
        raise InputError("one model fits all public rows: pass candidates=, a list of models")
    known = public_curvature(problem, lengths, float(np.max(lengths)) or 1.0)
    models = spread_models(problem, known)
    if settings.clip == "auto":
        values: Any = loss.values
        with np.errstate(all="ignore"):
            losses = values(problem.x @ models.T, problem.y[:, None])
            gaps = np.abs(losses - losses[:, :1])
        clip = (
            float(np.quantile(gaps[np.isfinite(gaps)], tuning.LOSS_QUANTILE))
            if np.isfinite(gaps).any()
            else 0.0
        )
        if not 0.0 < clip < math.inf:
            raise InputError(
                "all candidates have the same loss at the public rows: pass clip=, or other candidates"
            )
    else:
        clip = float(settings.clip)
    if np.isnan(row_values(loss.values, models @ problem.x[0], float(problem.y[0]))).all():
        raise InputError(
            "the values of the loss are no numbers at the first public row: pass a function of arrays (predictions, labels) that "
            "returns one number for each, also for the predictions of one row by several models"
        )
    predicted = None
    if isinstance(settings.candidates, int):
        # The mean excess over true models drawn from the uncertainty of the public fit, to which custom models may be unrelated.
        away = (models - problem.public.weights) @ known.turn
        epsilon = float(law_of(account)[1])
        total = 0.0
        # public draws, the same in every call
        for normals in draw_normals((tuning.TRUTHS, len(known.unknown)), 0):
            excess = (away - normals * np.sqrt(known.unknown)) ** 2 @ known.values / 2.0
            # A score is a sum of losses, and a row moves it by up to twice the clip.
            chance = special.softmax(-epsilon * problem.n_priv * excess / (4.0 * clip))
            total += float(chance @ excess)
        predicted = 2.0 * problem.excess_part * total / tuning.TRUTHS
    return PreparedDescent(
        predicted=predicted,
        public_excess=problem.excess_part * known.public_error,
        steps=1,
        clip_norm=clip,
        batch_rows=problem.n_priv,
        ranges={"clip": source_of(settings.clip)},
        more=models,
    )


def _choose(run: Session, problem: GradientProblem, prepared: PreparedDescent) -> Descended:
    """Release the chosen model."""
    models = prepared.more
    clip = prepared.clip_norm
    assert problem.loss is not None
    mapped = mapped_rows(run.rows, problem.units, run.executor)
    law, epsilon = law_of(run.account)
    choice = LossChoice(weights=models, loss=problem.loss, clip=clip, law=law)
    return Descended(
        weights=models[run.on(mapped).release(choice, name="model", cost=epsilon, clip=clip).index]
    )


EXPONENTIAL = TrainingMethod(
    name=Exponential.name,
    settings=Exponential,
    spends=without_delta,  # the mechanism has a cost in epsilon alone
    draws=lambda problem: 1,
    prepare=_prepare_choice,
    learn=_choose,
)


_MOST_STEPS = 1000
# maximum of a setting, so that no product over- or underflows and errors stay relative
_LARGEST = 1e6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OutputPerturbation:
    """Minimum of a weighted sum of private and public losses about the public fit, with noise added to it (paper B, Section 4).

    For the logistic, the Huber and the smooth hinge loss, whose gradients are bounded. The noise is that of one release, but it
    grows as 1 / l2: Newton steps and gradient steps are nearly always more accurate. In five settings of 8 to 60 columns its excess
    of the loss was .15 to .83 times that of the public rows alone, and that of "semi_dp" .03 to .77 times theirs
    (`python -m benchmarks.training_choice --one-release`).

    Attributes
    ----------
    l2 : float or "auto"
        l2 |w - public fit|^2 / 2 is added to the loss, in the units of the fit; "auto" minimizes the predicted error.
    priv_weight : float in (0, 1] or "auto"
        Weight of the mean loss of the private rows; the public rows have the rest.
    row_norm : float or "auto"
        Rows longer than this, in the units of the fit, are shortened to it, which biases the fit; "auto" is the longest
        public row.
    steps : int or "auto"
        Passes over the rows; "auto" takes enough for an optimization error of a tenth of the noise, at most 1000.

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
    anchored: ClassVar[bool] = True

    l2: float | str = "auto"
    priv_weight: float | str = "auto"
    row_norm: float | str = "auto"
    steps: int | str = "auto"

    def __post_init__(self) -> None:
        for field in ("l2", "row_norm"):
            given = getattr(self, field)
            if (
                given != "auto"
                and not 1.0 / _LARGEST <= validation.positive(field, given) <= _LARGEST
            ):
                raise InputError(
                    f"{field} must lie between {1.0 / _LARGEST} and {_LARGEST}, got {given}"
                )
        if (
            self.priv_weight != "auto"
            and not 0.0 < validation.finite("priv_weight", self.priv_weight) <= 1.0
        ):
            raise InputError(f"priv_weight must lie in (0, 1], got {self.priv_weight}")
        if self.steps != "auto":
            validation.integer("steps", self.steps, minimum=1, maximum=_MOST_STEPS)


def _prepare_minimum(problem: GradientProblem, account: Account) -> PreparedDescent:
    """Return the plan with the open settings of least predicted error, from public numbers."""
    settings = problem.settings
    public = problem.public
    loss = next((LOSSES[name] for name in SLOPES if problem.loss is LOSSES[name]), None)
    if loss is None:  # the bounds of a custom loss are not proved
        raise InputError(
            f"method={OutputPerturbation.name!r} needs a loss whose gradients are bounded: pass loss='huber', 'logistic' or "
            "'smooth_hinge'"
        )
    norms = np.sqrt(np.sum(problem.x**2, axis=1))
    radius = float(norms.max() if settings.row_norm == "auto" else settings.row_norm)
    shortened = np.column_stack([problem.x * np.minimum(1.0, radius / norms)[:, None], problem.y])
    known = public_curvature(problem, gradient_lengths(problem), SLOPES[loss.name] * radius)
    noise = account.spending.std("sum", problem.size) / 2.0
    n = problem.n_priv
    m = len(problem.x)
    strength = settings.l2
    weight = settings.priv_weight
    ridges = (
        [r * loss.curvature * radius**2 for r in tuning.STRENGTHS]
        if strength == "auto"
        else [float(strength)]
    )
    shares = [each * n / (n + m) for each in tuning.SHARES] if weight == "auto" else [float(weight)]
    plans: list[tuple[float, WeightedMinimum]] = []
    for l2, share in itertools.product(ridges, shares):
        minimum = WeightedMinimum(
            start=public.weights,
            public=shortened,
            residual=loss.residual,
            slope=SLOPES[loss.name],
            curvature=loss.curvature,
            radius=radius,
            priv_weight=share,
            l2=l2,
            steps=1,
        )
        std = noise * minimum.distance(n)
        left = max(math.log(minimum.reach / (tuning.LEFT * std)), 0.0) / (minimum.step_size * l2)
        steps = (
            min(_MOST_STEPS, 1 + math.ceil(left))
            if settings.steps == "auto"
            else int(settings.steps)
        )
        steep = known.values + l2
        # The ridge and the public rows pull to the same public fit: their parts of its error add up before they are squared.
        pulled_sq = ((l2 + (1.0 - share) * known.values) / steep) ** 2
        not_reached_sq = math.exp(-2.0 * steps * minimum.step_size * l2)
        drawn = known.settled * known.values / steep**2 * share**2 / n
        of_public = (pulled_sq + not_reached_sq) * known.unknown
        error = float(np.sum(known.values * (of_public + drawn + std**2))) / 2.0
        plans.append((error, replace(minimum, steps=steps)))
    predicted, minimum = min(plans, key=lambda plan: plan[0])
    minimum.grid(account.spending, n)
    # a pass over one public row finds errors of the query before the debit
    if problem.rows is not None:
        query = minimum.query(minimum.start)
        query.add(minimum.public[:1], query.zeros())
    return PreparedDescent(
        predicted=predicted,
        public_excess=known.public_error / 2.0,
        steps=minimum.steps,
        step_size=minimum.step_size,
        clip_norm=minimum.longest,
        priv_weight=minimum.priv_weight,
        batch_rows=n,
        more=minimum,
        ranges={
            "clip": source_of(settings.row_norm),
            "start": "public weights",
        },
    )


def _perturb(run: Session, problem: GradientProblem, prepared: PreparedDescent) -> Descended:
    """Release the minimum over shortened rows."""
    minimum: WeightedMinimum = prepared.more
    rows = mapped_rows(run.rows, replace(problem.units, radius=minimum.radius), run.executor)
    cost = run.account.allowance
    released = run.on(rows).release(
        minimum, name="minimum", cost=cost, clip_radius=minimum.radius, l2=minimum.l2
    )
    weights: FloatArray = minimum.start + released.value
    return Descended(weights=weights, noise_std=released.noise_std)


OUTPUT_PERTURBATION = TrainingMethod(
    name=OutputPerturbation.name,
    settings=OutputPerturbation,
    draws=lambda problem: problem.size,
    prepare=_prepare_minimum,
    learn=_perturb,
)
