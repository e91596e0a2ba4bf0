"""Losses of linear models, defined by their residuals, minus the derivative in the prediction.

The gradient of a row is -residual times the row, so a pass needs the residual only. Each loss has a plain function of numbers,
which the kernel compiles together with its loop, and a function of arrays for public rows.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import special

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError


class RowLoss(Protocol):
    """A custom loss: values and gradients row by row. A row whose gradient is not finite adds zero.

    Privacy
    -------
    `gradient` gets one private row in each call, x (1, dim) and y (1,), because the last bits of `x @ weights` for a row may depend
    on other rows in the call. Public rows come together. A private row at which it raises, or returns another shape, is ignored.
    What it prints, writes or stores between calls is outside the guarantee.

    Notes
    -----
    A call takes ten microseconds. A `gradient` that Numba has compiled, `gradient = staticmethod(numba.njit(function))`, takes a
    tenth or less; it is compiled again in each process, with IEEE arithmetic, in some seconds. A `Loss` is even faster.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import local
    >>> class Absolute:
    ...     def value(self, weights, x, y):
    ...         return np.abs(x @ weights - y)
    ...     def gradient(self, weights, x, y):
    ...         return np.sign(x @ weights - y)[:, None] * x
    >>> x = np.random.default_rng(0).uniform(-1.0, 1.0, size=(2000, 2))
    >>> result = local.train(x, x[:, 0], loss=Absolute(), epsilon=4.0, clip_norm=2.0, radius=1.0)
    >>> result.loss
    'Absolute'
    """

    def value(self, weights: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
        """Loss of each row, (k,), for weights (dim,), rows (k, dim) and labels (k,)."""

    def gradient(self, weights: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
        """Gradient in the weights of each row, (k, dim); k = 1 for private rows."""


def predictions(weights: FloatArray, x: FloatArray) -> FloatArray:
    """Return <x, weights> for each row by a sum along the row; a matrix product may sum in an order that depends on other rows."""
    return np.asarray(np.sum(np.ascontiguousarray(x) * weights, axis=1))


Arrays = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A loss of a prediction that is linear in the row, and a label.

    Attributes
    ----------
    name : str
        Name of the loss in results.
    residual : callable
        residual(prediction, label) -> float: minus the derivative in the prediction, not finite for an invalid label. For
        `scores` it is residual(scores, label, found), which fills the array `found`, one entry for each class. It must be a
        plain function of numbers that Numba can compile, or one that Numba has compiled.
    values : callable, optional
        values(predictions, labels) -> array: the loss itself, for arrays. Without it there is no public fit to start from. For
        private rows ("exponential") each call has one row, with its predictions by all models.
    residuals : callable, optional
        `residual` for arrays, for public rows; by default `residual` is called row by row.
    curvature : float
        An upper bound on the second derivative in the prediction, or a typical size if it is unbounded.
    classes : bool
        Labels are two classes, coded 0 and 1.
    scores : bool
        Labels are classes, coded 0, 1, 2 and so on, with one prediction for each class.
    counts : bool
        Labels are counts, which are not rescaled.

    Privacy
    -------
    A custom function gets one private row in each call; a row at which it raises is ignored.

    Examples
    --------
    >>> def pinball(prediction, label):
    ...     return 0.9 if label > prediction else -0.1
    >>> Loss(name="0.9 quantile", residual=pinball).residuals_of([0.0, 0.0], [1.0, -1.0]).tolist()
    [0.9, -0.1]
    """

    name: str
    residual: Callable[..., Any]
    values: Arrays | None = None
    residuals: Arrays | None = None
    curvature: float = 1.0
    classes: bool = False
    scores: bool = False
    counts: bool = False
    # a function and its arguments, for pickles
    recipe: tuple[Any, ...] = dataclasses.field(default=(), repr=False)

    def __reduce__(self) -> Any:
        """Pickle by name, or by the function that created it, so that a pass with a loss may run in another process."""
        if LOSSES.get(self.name) is self:
            return _listed, (self.name,)
        if self.recipe:
            return self.recipe[0], self.recipe[1:]
        return functools.partial(
            Loss, **{each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        ), ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not callable(self.residual):
            raise InputError("a Loss needs a name and a function residual(prediction, label)")
        if not all(isinstance(each, bool) for each in (self.classes, self.scores, self.counts)):
            raise InputError("classes, scores and counts of a Loss are True or False")
        if self.classes + self.scores + self.counts > 1:
            raise InputError(
                "the labels of a Loss are numbers, two classes (classes), several (scores), or counts"
            )
        validation.positive("curvature", self.curvature)

    @property
    def ours(self) -> bool:
        """Whether this library defines the loss: its functions act entry by entry on arrays, also on several private rows."""
        return LOSSES.get(self.name) is self or self.recipe[:1] in (
            (huber_loss,),
            (weighted_logistic,),
        )

    def residuals_of(self, scores: Any, labels: Any) -> FloatArray:
        """Residuals of many rows: (k,), or (k, outputs) for `scores`. Raise InputError, quoting no row, on failure."""
        predicted = np.asarray(scores, dtype=np.float64)
        known = np.asarray(labels, dtype=np.float64)
        try:
            with np.errstate(all="ignore"):
                if self.residuals is not None:
                    return np.asarray(self.residuals(predicted, known), dtype=np.float64)
                plain = getattr(self.residual, "py_func", self.residual)
                residuals = np.empty(predicted.shape)
                for index, (one, label) in enumerate(zip(predicted, known, strict=True)):
                    if self.scores:
                        plain(one, float(label), residuals[index])
                    else:
                        residuals[index] = plain(float(one), float(label))
            return residuals
        except Exception as error:  # from a custom function, perhaps at a private row
            kind = type(error).__name__
        wanted = (
            "(scores, label, found) that fills found in"
            if self.scores
            else "(prediction, label) that returns a number"
        )
        raise InputError(
            f"the residual of the loss {self.name!r} fails ({kind}): pass a function {wanted}"
        )

    def value(self, weights: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
        """Values as `RowLoss.value` does."""
        if self.values is None:
            raise InputError(f"the loss {self.name!r} has no function of values")
        return np.asarray(self.values(predictions(weights, x), y))

    def gradient(self, weights: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
        """Gradients as `RowLoss.gradient` does."""
        return -self.residuals_of(predictions(weights, x), y)[:, None] * x


def squared_residual(prediction: float, label: float) -> float:
    """Return the residual of (label - prediction)^2 / 2."""
    return label - prediction


def logistic_residual(prediction: float, label: float) -> float:
    """Return the residual of the log-loss of a label 0 or 1 at the log-odds `prediction`; NaN for another label."""
    if label != 0.0 and label != 1.0:
        return math.nan
    if prediction >= 0.0:
        chance = 1.0 / (1.0 + math.exp(-prediction))
    else:
        grown = math.exp(prediction)
        chance = grown / (1.0 + grown)
    return label - chance


def softmax_residual(scores: Any, label: float, out: Any) -> None:
    """Write to `out` the residuals of the log-loss of a class 0, 1, ... at one score for each class; NaN for another label."""
    largest = scores[0]
    for k in range(len(scores)):
        largest = max(largest, scores[k])
    total = 0.0
    for k in range(len(scores)):
        out[k] = math.exp(scores[k] - largest)
        total += out[k]
    known = False
    for k in range(len(scores)):
        out[k] = -out[k] / total
        if label == k:
            out[k] += 1.0
            known = True
    if not known:
        out[0] = math.nan


def smooth_hinge_residual(prediction: float, label: float) -> float:
    """Return the residual of the smoothed hinge of a label 0 or 1: margin m loses 1/2 - m, (1 - m)^2 / 2 from 0 to 1, 0 above."""
    if label != 0.0 and label != 1.0:
        return math.nan
    sign = 2.0 * label - 1.0
    return sign * min(max(1.0 - sign * prediction, 0.0), 1.0)


def poisson_residual(prediction: float, label: float) -> float:
    """Return the residual of e^prediction - label prediction, for counts; NaN for a negative label."""
    if not label >= 0.0:
        return math.nan
    return label - math.exp(min(prediction, 700.0))


@dataclass(frozen=True, slots=True)
class NumberedResidual:
    """The residual make(*numbers) as a value that can be pickled with a pass; `make` is a module-level function."""

    make: Callable[..., Callable[[float, float], float]]
    numbers: tuple[float, ...]

    @property
    def py_func(self) -> Callable[[float, float], float]:
        """The function to compile, with the numbers as constants."""
        return self.make(*self.numbers)

    def __call__(self, prediction: float, label: float) -> float:
        """Return minus the derivative of the loss in the prediction."""
        return self.py_func(prediction, label)


@functools.lru_cache(maxsize=64)
def huber_residual(threshold: float) -> Callable[[float, float], float]:
    """Return the residual function of `huber_loss`."""

    def residual(prediction: float, label: float) -> float:
        return min(max(label - prediction, -threshold), threshold)

    return residual


# Residuals within the threshold are the curvature of the loss: with a threshold of .01, a 95 % interval held the truth in three
# of four runs, and of .001 never; of .03 and more in 19 of 20.
LEAST_THRESHOLD = 0.05
LARGEST_THRESHOLD = 1e6  # no residual of the public rows is beyond


def huber_loss(threshold: float) -> Loss:
    """Half the square of a residual up to `threshold`, 0.05 to 1e6 in the unit of the fit, and linear beyond it.

    See Also
    --------
    LOSSES : the losses with a name, "huber" with threshold 1.345 or so among them.
    Loss : a custom loss.

    Examples
    --------
    >>> from fastpubpriv.training import huber_loss
    >>> huber_loss(1.5).name
    'huber'
    """
    threshold = validation.positive("the threshold of the Huber loss", threshold)
    if not LEAST_THRESHOLD <= threshold <= LARGEST_THRESHOLD:
        raise InputError(
            f"the threshold of the Huber loss is in the unit of the fit, in which labels vary by about 1, and must lie between "
            f"{LEAST_THRESHOLD:g} and {LARGEST_THRESHOLD:g}, got {threshold:g}: pass loss='squared' for no threshold"
        )

    def values(scores: Any, labels: Any) -> Any:
        size = np.abs(labels - scores)
        return np.where(size <= threshold, 0.5 * size**2, threshold * (size - 0.5 * threshold))

    return Loss(
        name="huber",
        recipe=(huber_loss, threshold),
        residual=NumberedResidual(huber_residual, (threshold,)),
        values=values,
        residuals=lambda scores, labels: np.clip(labels - scores, -threshold, threshold),
    )


def huber_threshold(loss: object) -> float | None:
    """Return the threshold of a loss from `huber_loss`, None for any other."""
    made = loss.recipe if isinstance(loss, Loss) else ()
    return float(made[1]) if made and made[0] is huber_loss else None


@functools.lru_cache(maxsize=64)
def weighted_residual(first: float, second: float) -> Callable[[float, float], float]:
    """Return the residual function of `weighted_logistic`."""

    def residual(prediction: float, label: float) -> float:
        return (second if label == 1.0 else first) * logistic_residual(prediction, label)

    return residual


@functools.lru_cache(maxsize=64)
def weighted_logistic(first: float, second: float) -> Loss:
    """Return the log-loss with weights of the two classes, each at most 1, so that residuals stay in [-1, 1]."""
    if not (0.0 < first <= 1.0 and 0.0 < second <= 1.0):
        raise InputError(
            f"weights of classes must be above 0 and at most 1, got {first} and {second}"
        )

    def weight(labels: Any) -> Any:
        return np.where(labels == 1.0, second, first)

    return Loss(
        name="logistic",
        recipe=(weighted_logistic, first, second),
        residual=NumberedResidual(weighted_residual, (first, second)),
        values=lambda scores, labels: (
            weight(labels) * (np.logaddexp(0.0, scores) - _class(labels) * scores)
        ),
        residuals=lambda scores, labels: weight(labels) * (_class(labels) - special.expit(scores)),
        curvature=0.25,
        classes=True,
    )


def _listed(name: str) -> Loss:
    return LOSSES[name]


def _class(labels: Any) -> Any:
    return np.where((labels == 0.0) | (labels == 1.0), labels, np.nan)


def _softmax_residuals(scores: Any, labels: Any) -> Any:
    known = labels[:, None] == np.arange(scores.shape[1])
    return np.where(
        known.any(axis=1, keepdims=True), known - special.softmax(scores, axis=1), np.nan
    )


def _softmax_values(scores: Any, labels: Any) -> Any:
    chosen = np.take_along_axis(scores, labels.astype(np.int64)[:, None], axis=1)[:, 0]
    return special.logsumexp(scores, axis=1) - chosen


def _hinge_values(scores: Any, labels: Any) -> Any:
    lost = np.maximum(1.0 - (2.0 * _class(labels) - 1.0) * scores, 0.0)
    return np.where(lost <= 1.0, 0.5 * lost**2, lost - 0.5)


def _hinge_residuals(scores: Any, labels: Any) -> Any:
    sign = 2.0 * _class(labels) - 1.0
    return sign * np.clip(1.0 - sign * scores, 0.0, 1.0)


LOSSES = {
    loss.name: loss
    for loss in (
        Loss(
            name="squared",
            residual=squared_residual,
            values=lambda scores, labels: 0.5 * (scores - labels) ** 2,
            residuals=lambda scores, labels: labels - scores,
        ),
        Loss(
            name="logistic",
            residual=logistic_residual,
            values=lambda scores, labels: np.logaddexp(0.0, scores) - _class(labels) * scores,
            residuals=lambda scores, labels: _class(labels) - special.expit(scores),
            curvature=0.25,
            classes=True,
        ),
        Loss(
            name="softmax",
            residual=softmax_residual,
            values=_softmax_values,
            residuals=_softmax_residuals,
            curvature=0.5,
            scores=True,
        ),
        huber_loss(1.345),
        Loss(
            name="smooth_hinge",
            residual=smooth_hinge_residual,
            values=_hinge_values,
            residuals=_hinge_residuals,
            classes=True,
        ),
        Loss(
            name="poisson",
            residual=poisson_residual,
            values=lambda scores, labels: (
                np.exp(np.minimum(scores, 700.0)) - np.where(labels >= 0, labels, np.nan) * scores
            ),
            residuals=lambda scores, labels: (
                np.where(labels >= 0, labels, np.nan) - np.exp(np.minimum(scores, 700.0))
            ),
            counts=True,
        ),
    )
}


_MOST_PASSES = 200
_LARGEST = 1e30


def minimum(
    value: Callable[[FloatArray], tuple[float, FloatArray]], start: FloatArray
) -> FloatArray:
    """Minimize value(weights) -> (loss, gradient) by L-BFGS-B; return weights of the shape of `start`. Losses may be infinite."""
    from scipy import optimize  # slow to import, and not needed for least squares

    def finite(flat: FloatArray) -> tuple[float, FloatArray]:
        total, slope = value(flat.reshape(start.shape))
        if not (np.isfinite(total) and np.isfinite(slope).all()):
            return _LARGEST, np.zeros(flat.size)
        return total, slope.ravel()

    with np.errstate(all="ignore"):
        solution = optimize.minimize(
            finite, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": _MOST_PASSES}
        )
    return np.asarray(solution.x, dtype=np.float64).reshape(start.shape)
