"""What a caller states about labelled rows, in public: weights of public rows, ranges of columns and labels, weights of classes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InputError

TAILS = "any", "light"  # of residuals: see `Problem.exact`
MOST_CLASS_WEIGHT = 10.0  # of "public": a rare class counts at most so many times
MOST_SCALE = 1e150  # a square of it is finite
LEAST_WORTH = 2.0
MOST_RATIO = 1000.0  # of the weights of two classes
_SPREAD = math.sqrt(12.0)  # width of a range, in standard deviations of a uniform law over it


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stated:
    """The arguments of `train` and its kind that say what the columns are; None where nothing is said."""

    # with classes, y_scale, weights_pub, x_bounds, y_bounds, class_weight, weights_priv and weight_cap: as the caller
    # gave them, see `train`; texts as their places in the lists below
    categories: Any = None
    classes: Any = None
    y_scale: Any = None
    weights_pub: Any = None
    x_bounds: Any = None
    y_bounds: Any = None
    class_weight: Any = None
    weights_priv: Any = None
    weight_cap: Any = None
    tails: str = "any"  # "any" or "light", see `train`
    texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # column of text -> the list of its texts
    class_names: tuple[str, ...] = ()  # classes that are texts

    @property
    def origin(self) -> str:
        """Where the units of columns come from, for `provenance`."""
        if self.x_bounds is None:
            return "public rows"
        return "argument and public rows" if isinstance(self.x_bounds, Mapping) else "argument"

    def row_weights(self, m: int, n_priv: int) -> FloatArray | None:
        """Weights (m,) of the public rows, or None."""
        if self.weights_pub is None:
            return None
        if isinstance(self.weights_pub, str):
            raise InputError("weights_pub must be one number for each public row, got text")
        if hasattr(self.weights_pub, "__len__") and len(self.weights_pub) in {n_priv, n_priv + m} - {m}:
            raise InputError(
                f"weights_pub must have one number for each of the {m} public rows, got {len(self.weights_pub)}: those of "
                "private rows are weights_priv=, with weight_cap=, because a new row could bring any weight"
            )
        found = validation.finite_vector("weights_pub", self.weights_pub, m)
        if not np.all(found >= 0.0) or not found.any():
            raise InputError("weights_pub must not be negative, and not all zero")
        largest = float(found.max()) if self.weight_cap is None else float(self.weight_cap)
        weights: FloatArray = np.minimum(found / largest, 1.0)
        return weights

    def checked_weights(self) -> Stated:
        """The same, after the form of what says how much private rows count."""
        if self.weights_priv is None:
            if self.weight_cap is not None:
                raise InputError("weight_cap= belongs to weights_priv=, the weights of private rows: pass both or none")
            return self
        if self.weight_cap is None:
            raise InputError(
                "weights_priv= needs weight_cap=, the largest weight that counts, known without the data: a weight is a part of "
                "its row, and a new row could bring any"
            )
        if self.weights_pub is None:
            raise InputError(
                "weights_priv= needs weights_pub=, weights of the public rows in the same unit: what is learnt from public rows "
                "must be of rows that count alike"
            )
        if isinstance(self.weights_priv, str):
            raise InputError(
                "weights_priv must be one number for each private row: pass the column itself, x_priv['name']"
            )
        return replace(self, weight_cap=validation.positive("weight_cap", self.weight_cap))

    def ranges(self, names: Sequence[str]) -> tuple[FloatArray, FloatArray] | None:
        """Lowest and highest value (dim,) of each column, NaN where nothing is stated; or None."""
        given = self.x_bounds
        if given is None:
            return None
        low, high = np.full(len(names), np.nan), np.full(len(names), np.nan)
        if not isinstance(given, Mapping):
            low, high = _pair("x_bounds", given, len(names))
            return low, high
        for name, pair in given.items():
            if name not in names:
                raise InputError(f"x_bounds names a column {name!r} that there is not")
            if self.categories and name in self.categories:
                raise InputError(f"column {name!r} has categories, which have no bounds: leave it out of x_bounds")
            place = list(names).index(name)
            (low[place],), (high[place],) = _pair(f"x_bounds[{name!r}]", pair, 1)
        return low, high

    def label_unit(self, labels: FloatArray) -> tuple[float, float, float]:
        """Centre and unit of labels (m,), and the least residual that matters in that unit."""
        wanted = None if self.y_scale is None else validation.positive("y_scale", self.y_scale)
        centre, scale = float(labels.mean()), float(labels.std())
        constant = not scale > 1e-12 * abs(centre)
        if constant:
            if wanted is None:
                raise InputError("all public labels are equal: pass y_scale=, the size of a difference between labels")
            scale = wanted
        if self.y_bounds is not None:
            (low,), (high,) = _pair("y_bounds", self.y_bounds, 1)
            if labels.min() < low or labels.max() > high:
                raise InputError(
                    f"public labels go from {labels.min():g} to {labels.max():g}, beyond y_bounds: pass wider bounds"
                )
            centre, scale = low / 2.0 + high / 2.0, high / _SPREAD - low / _SPREAD
            if scale > MOST_SCALE:
                raise InputError("y_bounds are too far apart: pass labels in a larger unit")
        return centre, scale, 0.0 if wanted is None else min(1.0, wanted / scale)

    def refuse_label_unit(self) -> None:
        """A loss of classes has no range of labels."""
        if self.y_bounds is not None:
            raise InputError("y_bounds= belongs to labels that are numbers: leave it out for classes")

    def refuse_classes(self) -> None:
        """A loss of numbers has no classes."""
        if self.classes is not None:
            raise InputError("classes= belongs to a loss of classes, such as the logistic one: leave it out")
        if self.class_weight is not None:
            raise InputError("class_weight= belongs to the logistic loss: leave it out")

    def refuse_balancing(self) -> None:
        """Weights of classes that private labels would choose: of no loss and no method."""
        if isinstance(self.class_weight, str) and self.class_weight != "public":
            _refuse_balancing(self.class_weight)

    def class_weights(self, classes: tuple[float, float], labels: FloatArray, weights: FloatArray | None) -> FloatArray:
        """Weights (2,) of the two classes, the larger one 1."""
        given = self.class_weight
        if given is None:
            return np.ones(2)
        if isinstance(given, str) and given == "public":
            counted = np.ones(len(labels)) if weights is None else weights
            shares = np.array([counted[labels == each].sum() for each in classes]) / counted.sum()
            found = 1.0 / np.maximum(shares, 1.0 / MOST_CLASS_WEIGHT)
        elif isinstance(given, Mapping):
            if set(given) != set(classes):
                raise InputError(
                    f"class_weight must have a number for each of the classes {classes[0]:g} and {classes[1]:g}"
                )
            found = np.array([validation.positive(f"class_weight[{each:g}]", given[each]) for each in classes])
        else:
            _refuse_balancing(given)
        if found.max() / MOST_RATIO > found.min():
            raise InputError(f"class_weight must not differ by more than a factor of {MOST_RATIO:g}")
        return np.asarray(found / found.max(), dtype=np.float64)


def class_list(given: Any) -> list[Any]:
    """The classes that a caller lists."""
    if isinstance(given, str | Mapping) or not hasattr(given, "__iter__"):
        raise InputError(f"classes must be a list of the labels, such as [0, 1] or ['no', 'yes'], got {given!r:.80}")
    return list(given)


def _refuse_balancing(given: object) -> None:
    if isinstance(given, str) and given == "balanced":
        raise InputError(
            "class_weight='balanced' would count the private labels, which no budget pays for: pass numbers you know, such as "
            "{0: 1.0, 1: 5.0}, or 'public' for the frequencies in the public rows"
        )
    raise InputError("class_weight must map each class to a number, or be 'public' or None; resampling is not offered")


def _pair(name: str, given: object, dim: int) -> tuple[FloatArray, FloatArray]:
    """Lowest and highest values (dim,)."""
    if isinstance(given, str):
        raise InputError(
            f"{name} must be a pair (lowest, highest) of numbers that you know, got text: bounds read from private rows would tell "
            "of them"
        )
    try:
        found = validation.column_bounds(given, dim)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    if found is None:
        raise InputError(f"{name} must be a pair (lowest, highest)")
    return found


def range_units(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Centres and scales of stated ranges."""
    return low / 2.0 + high / 2.0, high / _SPREAD - low / _SPREAD


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Importance:
    """How much public rows count, as if rows of weight two stood there twice."""

    # (m,), they add up to the number of equal rows that would say as much, (sum w)^2 / sum w^2 (Kish 1965): only
    # ratios count
    weights: FloatArray
    sample: IntArray  # (k,), about so many rows, each as often as its weight says: for shares and quantiles

    @classmethod
    def of(cls, weights: FloatArray, emphasis: FloatArray | None = None) -> Importance:
        """Of weights (m,), which say what rows are like those of the private data, and further factors of the fit alone."""
        ends = np.cumsum(weights)
        fit = weights if emphasis is None else weights * emphasis
        worth = min(float(each.sum()) ** 2 / float(each @ each) for each in (weights, fit))
        if worth < LEAST_WORTH:
            raise InputError(
                f"with these weights the public rows are worth {worth:.3g} equal ones: at least {LEAST_WORTH:g} are needed"
            )
        size = round(float(ends[-1]) ** 2 / float(weights @ weights))
        places = np.searchsorted(ends, (np.arange(size) + 0.5) * (ends[-1] / size))
        return cls(
            weights=fit * (float(fit.sum()) / float(fit @ fit)),
            sample=np.minimum(places, len(weights) - 1).astype(np.int64),
        )
