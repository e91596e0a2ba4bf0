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
from fastpubpriv.mechanisms.losses import LossChoice
from fastpubpriv.mechanisms.selection.hypotheses import epsilon_of
from fastpubpriv.run import Run
from fastpubpriv.training.gradient.plan import Curvature
from fastpubpriv.training.gradient.problem import GradientProblem
from fastpubpriv.training.gradient.public_fit import PublicFit

MOST_CANDIDATES = 10_000
_CLIP_QUANTILE = 0.99


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exponential:
    """Choose among models that public rows suggest, by the exponential mechanism (paper B, Theorem on finite classes).

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


def spread_models(problem: GradientProblem, settings: Exponential, public: PublicFit, known: Curvature) -> FloatArray:
    """The models to choose from, the public fit first: points of a fixed sequence under the normal law of what is unknown."""
    if isinstance(settings.candidates, int):
        size = problem.size
        from scipy.stats import qmc  # slow to import, and only this method needs it

        points = qmc.Sobol(size, scramble=False).random_base2(math.ceil(math.log2(settings.candidates + 1)))
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


def choose_model(run: Run, problem: GradientProblem, models: FloatArray, clip: float) -> FloatArray:
    """Release the choice."""
    assert problem.loss is not None
    pure = run.account.pure
    law = "permute_and_flip" if pure else "exponential"
    epsilon = epsilon_of(Fraction(run.account.allowance), law, pure=pure)
    choice = LossChoice(weights=models, loss=problem.loss, clip=clip, law=law)
    found: FloatArray = models[run.release(choice, name="model", cost=epsilon, clip=clip).index]
    return found
