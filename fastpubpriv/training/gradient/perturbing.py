"""Output perturbation: the minimum of a weighted, strongly convex loss, released once with noise for its own sensitivity."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.losses import LOSSES, Loss
from fastpubpriv.mechanisms.gradients import SLOPES, WeightedMinimum
from fastpubpriv.mechanisms.group_covariances import total_of_squares
from fastpubpriv.release.account import Account
from fastpubpriv.session import Run, noise_per_radius
from fastpubpriv.sources.base import Chunk
from fastpubpriv.training.gradient.plan import gradient_lengths, public_curvature
from fastpubpriv.training.gradient.problem import GradientProblem, Units
from fastpubpriv.training.gradient.public_fit import PublicFit
from fastpubpriv.training.gradient.task import Descended, GradientTask, Prepared
from fastpubpriv.training.kept import kept_rows
from fastpubpriv.training.record import TrainingMethod

_LEFT = 0.1  # of the noise: what the fixed number of steps may leave of the way to the minimum
_STRENGTHS = tuple(2.0**-k for k in range(12))
_SHARES = (1.0, 0.5, 0.25, 0.1)
_MOST_STEPS = 1000
_LARGEST = 1e6  # of settings: no product of them over- or underflows, so that errors stay relative


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
        for field in ("l2", "row_norm"):
            given = getattr(self, field)
            if given != "auto" and not 1.0 / _LARGEST <= validation.positive(field, given) <= _LARGEST:
                raise InputError(f"{field} must lie between {1.0 / _LARGEST} and {_LARGEST}, got {given}")
        if self.priv_weight != "auto" and not 0.0 < validation.finite("priv_weight", self.priv_weight) <= 1.0:
            raise InputError(f"priv_weight must lie in (0, 1], got {self.priv_weight}")
        if self.steps != "auto":
            validation.integer("steps", self.steps, minimum=1, maximum=_MOST_STEPS)


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


def _bounded_loss(problem: GradientProblem) -> Loss:
    """A loss with known bounds, which one of the user's cannot prove; refuse others."""
    for name in SLOPES:
        if problem.loss is LOSSES[name]:
            return LOSSES[name]
    raise InputError(
        f"method={OutputPerturbation.name!r} needs a loss whose gradients are bounded: pass loss='huber', 'logistic' or "
        "'smooth_hinge'"
    )


def _short_rows(problem: GradientProblem, row_norm: float | str) -> tuple[FloatArray, float]:
    """Public rows (z, label), shortened, and the norm that they are shortened to."""
    norms = np.sqrt(np.sum(problem.x**2, axis=1))
    radius = float(norms.max() if row_norm == "auto" else row_norm)
    return np.column_stack([problem.x * np.minimum(1.0, radius / norms)[:, None], problem.y]), radius


def _settings_to_try(
    problem: GradientProblem, settings: OutputPerturbation, smoothness: float
) -> Iterator[tuple[float, float]]:
    """Each l2 and weight of the private rows that may be taken; strengths are parts of a row's `smoothness`."""
    n, m = problem.n_priv, len(problem.x)
    for strength in _STRENGTHS if settings.l2 == "auto" else (None,):
        l2 = float(settings.l2) if strength is None else strength * smoothness
        for part in _SHARES if settings.priv_weight == "auto" else (None,):
            yield l2, float(settings.priv_weight) if part is None else part * n / (n + m)


def plan_minimum(
    problem: GradientProblem, settings: OutputPerturbation, public: PublicFit, account: Any
) -> tuple[WeightedMinimum, float, float]:
    """The query with what is left open chosen by the error that public numbers predict; that error; the public fit's excess."""
    loss = _bounded_loss(problem)
    shortened, radius = _short_rows(problem, settings.row_norm)
    lengths = gradient_lengths(problem, public.weights, public)
    known = public_curvature(problem, public, lengths, SLOPES[loss.name] * radius, None)
    noise = noise_per_radius(problem.size, pure=account.pure, allowance=account.allowance)(Fraction(1)) / 2.0
    n, m = problem.n_priv, len(problem.x)
    best: WeightedMinimum | None = None
    predicted = math.inf
    for l2, share in _settings_to_try(problem, settings, loss.curvature * radius**2):
        minimum = WeightedMinimum(
            start=public.weights, public=shortened, residual=loss.residual,
            slope=SLOPES[loss.name], curvature=loss.curvature, radius=radius, priv_weight=share, l2=l2, steps=1,
        )  # fmt: skip
        std = noise * minimum.distance(n)
        left = max(math.log(minimum.reach / (_LEFT * std)), 0.0) / (minimum.step_size * l2)
        steps = min(_MOST_STEPS, 1 + math.ceil(left)) if settings.steps == "auto" else int(settings.steps)
        kept = (l2 / (known.values + l2)) ** 2 + math.exp(-2.0 * steps * minimum.step_size * l2)
        drawn = known.energy * known.values / (known.values + l2) ** 2 * (share**2 / n + (1.0 - share) ** 2 / m)
        error = float(np.sum(known.values * (kept * known.unknown + drawn + std**2))) / 2.0
        if best is None or error < predicted:
            best, predicted = replace(minimum, steps=steps), error
    assert best is not None
    best.grid(account, account.allowance, n)
    return best, predicted, known.public_error / 2.0


def _prepare(task: GradientTask, account: Account) -> Prepared:
    """The least predicted error; a public row goes through a pass before the debit, so that nothing is refused after it."""
    minimum, predicted, alone = plan_minimum(task.problem, task.settings, task.public, account)
    if task.rows is not None:
        query = minimum.query(minimum.start)
        query.add(minimum.public[:1], query.zeros())
    return Prepared(
        public=task.public,
        predicted=predicted,
        public_excess=alone,
        steps=minimum.steps,
        step_size=minimum.step_size,
        clip_norm=minimum.longest,
        priv_weight=minimum.priv_weight,
        batch_rows=task.problem.n_priv,
        ranges={
            "clip": "public rows" if task.settings.row_norm == "auto" else "argument",
            "start": "public weights",
        },
        more=minimum,
    )


def _learn(run: Run, task: GradientTask, prepared: Prepared) -> Descended:
    """Release the minimum over shortened rows."""
    minimum: WeightedMinimum = prepared.more
    units = task.problem.units
    row_map = ShortRow(units=units, radius=minimum.radius)
    rows = kept_rows(run.rows, row_map, units.width + 1, dtype=np.float64, executor=run.executor)
    cost = run.account.allowance
    released = run.on(rows).release(minimum, name="minimum", cost=cost, clip_radius=minimum.radius, l2=minimum.l2)
    weights: FloatArray = minimum.start + released.value
    return Descended(weights=weights, noise_std=released.noise_std)


OUTPUT_PERTURBATION = TrainingMethod(
    name=OutputPerturbation.name,
    settings=OutputPerturbation,
    draws=lambda task: task.problem.size,
    prepare=_prepare,
    learn=_learn,
)
