"""Labeled inputs: public arguments that describe the columns, and the design, the terms that a model is linear in."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NoReturn

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.regression import regression_tuning as tuning
from fastpubpriv.rowwise.losses import Loss
from fastpubpriv.sources import Rows
from fastpubpriv.sources.arrays import plain_text
from fastpubpriv.sources.column_names import (
    LEVEL,
    MISSING,
    NUMBER,
    OTHER,
    term_values,
)
from fastpubpriv.sources.column_names import listed as names_in_words
from fastpubpriv.sources.labeled import WeightColumns, levels_by_column, open_labeled, weighted_rows
from fastpubpriv.sources.open import names_of_table, public_rows
from fastpubpriv.sources.row_types import order_of

TAILS = "any", "light"  # of residuals: see `TrainingProblem.exact`
MOST_CLASS_WEIGHT = 10.0  # maximum weight of a rare class with class_weight="public"
MOST_SCALE = 1e150  # maximum scale, whose square is finite
MOST_RATIO = 1000.0  # maximum ratio of the weights of two classes
_MOST_CLASSES, _MOST_NAMED = 1000, 6  # maximum number of classes; and of those in a message
UNIFORM_SPREAD = math.sqrt(
    12.0
)  # width of a range, in standard deviations of a uniform law over it


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DataSpec:
    """The arguments of `train` and similar functions that describe the columns; None if not given."""

    # each as given, see `train`; texts are replaced by their indices in the lists below
    categories: Any = None
    reference: Any = None
    classes: Any = None
    y_scale: Any = None
    weights_pub: Any = None
    x_bounds: Any = None
    y_bounds: Any = None
    class_weight: Any = None
    weights_priv: Any = None
    weight_cap: Any = None
    tails: str = "any"  # "any" or "light", see `train`
    # column of text -> the list of its texts
    texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    class_names: tuple[str, ...] = ()  # classes that are texts

    @property
    def origin(self) -> str:
        """Source of the units of columns, for `provenance`."""
        if self.x_bounds is None:
            return "public rows"
        return "argument and public rows" if isinstance(self.x_bounds, Mapping) else "argument"

    def row_weights(self, m: int, n_priv: int) -> FloatArray | None:
        """Return the weights (m,) of the public rows, at most 1, or None."""
        if self.weights_pub is None:
            return None
        if hasattr(self.weights_pub, "__len__") and len(self.weights_pub) in {
            n_priv,
            n_priv + m,
        } - {m}:
            raise InputError(
                f"weights_pub must have one number for each of the {m} public rows, got {len(self.weights_pub)}: those of "
                "private rows are weights_priv=, with weight_cap=, because a new row could bring any weight"
            )
        weights = validation.finite_vector("weights_pub", self.weights_pub, m)
        if not np.all(weights >= 0.0) or not weights.any():
            raise InputError("weights_pub must not be negative, and not all zero")
        largest = float(weights.max()) if self.weight_cap is None else float(self.weight_cap)
        return np.minimum(weights / largest, 1.0)

    def checked_weights(self) -> DataSpec:
        """Return these arguments after a check of those about private weights. Raise InputError if they are inconsistent."""
        if self.weights_priv is None:
            if self.weight_cap is not None:
                raise InputError(
                    "weight_cap= belongs to weights_priv=, the weights of private rows: pass both or none"
                )
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
        return replace(self, weight_cap=validation.positive("weight_cap", self.weight_cap))

    def ranges(self, names: Sequence[str]) -> tuple[FloatArray, FloatArray] | None:
        """Lowest and highest value (dim,) of each column, NaN if not stated; or None."""
        given = self.x_bounds
        if given is None:
            return None
        if not isinstance(given, Mapping):
            return _pair("x_bounds", given, len(names))
        low = np.full(len(names), np.nan)
        high = np.full(len(names), np.nan)
        for name, pair in given.items():
            if name not in names:
                raise InputError(f"x_bounds names a column {name!r} that there is not")
            if self.categories and name in self.categories:
                raise InputError(
                    f"column {name!r} has categories, which have no bounds: leave it out of x_bounds"
                )
            place = list(names).index(name)
            (low[place],), (high[place],) = _pair(f"x_bounds[{name!r}]", pair, 1)
        return low, high

    def label_unit(self, labels: FloatArray) -> tuple[float, float, float]:
        """Return the center and the unit of labels (m,), and the least relevant residual in that unit."""
        wanted = None if self.y_scale is None else validation.positive("y_scale", self.y_scale)
        center = float(labels.mean())
        scale = float(labels.std())
        constant = not scale > 1e-12 * abs(center)
        if constant:
            if wanted is None:
                raise InputError(
                    "all public labels are equal: pass y_scale=, the size of a difference between labels"
                )
            scale = wanted
        if self.y_bounds is not None:
            (low,), (high,) = _pair("y_bounds", self.y_bounds, 1)
            if labels.min() < low or labels.max() > high:
                raise InputError(
                    f"public labels go from {labels.min():g} to {labels.max():g}, beyond y_bounds: pass wider bounds"
                )
            center, scale = self._unit_of_bounds()
        return center, scale, 0.0 if wanted is None else min(1.0, wanted / scale)

    def stated_label_unit(self) -> tuple[float, float | None]:
        """Return the center and the unit of labels of which none is public, None if nothing says their unit."""
        center = 0.0
        scale = None
        if self.y_bounds is not None:
            center, scale = self._unit_of_bounds()
        if self.y_scale is not None:
            scale = validation.positive("y_scale", self.y_scale)
        return center, scale

    def _unit_of_bounds(self) -> tuple[float, float]:
        """Return the center and the unit of labels within `y_bounds`."""
        (low,), (high,) = _pair("y_bounds", self.y_bounds, 1)
        center, scale = range_units(low, high)
        if scale > MOST_SCALE:
            raise InputError("y_bounds are too far apart: pass labels in a larger unit")
        return center, scale

    def class_weights(
        self, classes: Sequence[float], labels: FloatArray, weights: FloatArray | None
    ) -> FloatArray:
        """Return the weights (2,) of the two classes, the larger one 1."""
        given = self.class_weight
        if given is None:
            return np.ones(2)
        if isinstance(given, str) and given == "public":
            if not len(labels):
                raise InputError(
                    "no label is public, so that class_weight='public' has no frequencies: pass numbers, such as {0: 1.0, 1: 5.0}"
                )
            counted = np.ones(len(labels)) if weights is None else weights
            shares = np.array([counted[labels == each].sum() for each in classes]) / counted.sum()
            factors = 1.0 / np.maximum(shares, 1.0 / MOST_CLASS_WEIGHT)
        elif isinstance(given, Mapping):
            if set(given) != set(classes):
                raise InputError(
                    f"class_weight must have a number for each of the classes {classes[0]:g} and {classes[1]:g}"
                )
            factors = np.array(
                [validation.positive(f"class_weight[{each:g}]", given[each]) for each in classes]
            )
        else:
            refuse_balancing(given)
        if factors.max() / MOST_RATIO > factors.min():
            raise InputError(
                f"class_weight must not differ by more than a factor of {MOST_RATIO:g}"
            )
        return np.asarray(factors / factors.max(), dtype=np.float64)


def chosen_classes(labels: FloatArray, stated: DataSpec, *, two: bool) -> tuple[float, ...]:
    """Return the classes (exactly two if `two`) in the order in which they are stated, else those of labels (m,), ascending."""
    classes = np.unique(labels)
    given = stated.classes
    if given is not None:
        if isinstance(given, str | Mapping) or not hasattr(given, "__iter__"):
            raise InputError(
                f"classes must be a list of the labels, such as [0, 1] or ['no', 'yes'], got {given!r:.80}"
            )
        listed = list(given)
        if two and len(listed) != 2:
            raise InputError(
                f"classes must be two, got {len(listed)}: pass two, or train(loss='softmax') for more"
            )
        classes = validation.finite_vector("classes", listed, len(listed))
        if len(np.unique(classes)) < len(classes):
            raise InputError(f"classes must be {'two ' if two else ''}different numbers")
    if two and len(classes) != 2:
        names = [
            repr(stated.class_names[int(each)]) if stated.class_names else f"{each:g}"
            for each in classes
        ]
        shown = f" ({', '.join(names)})" if 0 < len(names) <= _MOST_NAMED else ""
        raise InputError(
            f"the labels of the public rows have {len(classes)} classes{shown}, and two are needed: pass "
            "classes=[a, b] with the two that count, or train(loss='softmax') for more"
        )
    if not 2 <= len(classes) <= _MOST_CLASSES:
        raise InputError(
            f"the labels have {len(classes)} classes, and 2 to {_MOST_CLASSES} are needed: pass classes=[...] with the numbers"
        )
    return tuple(float(each) for each in classes)


def refuse_balancing(given: object) -> NoReturn:
    """Raise InputError for class weights that depend on private labels, or that are invalid."""
    if isinstance(given, str) and given == "balanced":
        raise InputError(
            "class_weight='balanced' would count the private labels, which no budget pays for: pass numbers you know, such as "
            "{0: 1.0, 1: 5.0}, or 'public' for the frequencies in the public rows"
        )
    raise InputError(
        "class_weight must map each class to a number, or be 'public' or None; resampling is not offered"
    )


def _pair(name: str, given: object, dim: int) -> tuple[FloatArray, FloatArray]:
    """Return lowest and highest values (dim,)."""
    if isinstance(given, str):
        raise InputError(
            f"{name} must be a pair (lowest, highest) of numbers that you know, got text: bounds read from private rows would tell "
            "of them"
        )
    try:
        bounds = validation.column_bounds(given, dim)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    if bounds is None:
        raise InputError(f"{name} must be a pair (lowest, highest)")
    return bounds


def range_units(low: Any, high: Any) -> tuple[Any, Any]:
    """Return the centers and scales of stated ranges."""
    return low / 2.0 + high / 2.0, high / UNIFORM_SPREAD - low / UNIFORM_SPREAD


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Importance:
    """Weights of public rows: a row of weight two is equivalent to two rows."""

    # (m,), or 1; their sum is the effective number of rows, (sum w)^2 / sum w^2 (Kish 1965)
    weights: Any
    # (k,), about as many rows, drawn in proportion to their weights: for shares and quantiles
    sample: Any

    @classmethod
    def of(cls, weights: FloatArray, emphasis: FloatArray | None = None) -> Importance:
        """Return it for weights (m,), by which public rows represent private ones, and further factors for the fit alone."""
        ends = np.cumsum(weights)
        fit = weights if emphasis is None else weights * emphasis
        worth = min(float(each.sum()) ** 2 / float(each @ each) for each in (weights, fit))
        if worth < tuning.LEAST_WORTH:
            raise InputError(
                f"with these weights the public rows are worth {worth:.3g} equal ones: at least {tuning.LEAST_WORTH:g} are needed"
            )
        size = round(float(ends[-1]) ** 2 / float(weights @ weights))
        places = np.searchsorted(ends, (np.arange(size) + 0.5) * (ends[-1] / size))
        return cls(
            weights=fit * (float(fit.sum()) / float(fit @ fit)),
            sample=np.minimum(places, len(weights) - 1).astype(np.int64),
        )


def open_inputs(
    name: str, x_priv: Any, y_priv: Any, given: Mapping[str, Any], *, classes: bool
) -> tuple[Rows, FloatArray, DataSpec]:
    """Open private rows and public ones, the label last (then a private weight), and what is stated; no private row is read."""
    # `given` are arguments of `train` by their names; `classes` says whether labels may be text. Indices stand for texts.
    if given["x_pub"] is None:
        raise InputError(f"{name} starts from public rows: pass x_pub= and y_pub=, or label=")
    stated = DataSpec(
        **{each.name: given[each.name] for each in fields(DataSpec) if each.name in given}
    ).checked_weights()
    stated = replace(stated, categories=levels_by_column(stated.categories))
    public = {each: given[each] for each in ("x_pub", "y_pub", "label", "columns")}
    weights = WeightColumns(
        *(
            each if isinstance(each, str) else None
            for each in (stated.weights_priv, stated.weights_pub)
        )
    )
    rows, table, texts, names = open_labeled(
        x_priv,
        y_priv,
        **public,
        categories=stated.categories,
        classes=stated.classes,
        of_classes=classes,
        weights=weights,
    )
    if stated.weights_priv is not None and weights.private is None:
        rows = weighted_rows(rows, stated.weights_priv)
    if weights.public is not None:
        if weights.public not in (names_of_table(given["x_pub"]) or ()):
            raise InputError(
                "weights_pub is a text that names no column of x_pub: pass the name of one, or a number for each public row"
            )
        column = public_rows(given["x_pub"], columns=[weights.public], argument="weights_pub")[:, 0]
        stated = replace(stated, weights_pub=column)
    elif stated.weights_pub is not None and order_of(given["x_pub"]) is not None:
        raise InputError(
            "x_pub has rows of persons: name the column of their weights by weights_pub= in place of an array"
        )
    # Texts are replaced by their indices in the lists.
    if texts:
        places = {name: list(range(len(listed))) for name, listed in texts.items()}
        stated = replace(stated, categories={**stated.categories, **places}, texts=texts)
    if names is not None:
        weight = stated.class_weight
        if isinstance(weight, Mapping):
            if set(weight) != set(names):
                listed = ", ".join(map(repr, names))
                raise InputError(
                    f"class_weight must have a number for each of the classes {listed}"
                )
            weight = {place: weight[each] for place, each in enumerate(names)}
        numbered = None if stated.classes is None else list(range(len(names)))
        stated = replace(stated, classes=numbered, class_names=names, class_weight=weight)
    return rows, table, stated


def require_units(design: Design, label_scale: float) -> None:
    """Raise InputError for a column so much smaller than the labels that the variance of its coefficient would overflow."""
    steep = np.flatnonzero(label_scale / LARGEST_COEFFICIENT > design.scale)
    if len(steep):
        raise InputError(
            f"the public values of {design.terms[steep[0]]!r} differ by about {design.scale[steep[0]]:.3g} and the labels by "
            f"about {label_scale:.3g}, and a coefficient beyond {LARGEST_COEFFICIENT:.0e} has no variance: change a unit"
        )


_FARTHEST = 1e6  # maximum absolute value of a standardized number
# The variance of a coefficient, and of a prediction at a standardized number, is finite.
LARGEST_COEFFICIENT = float(np.sqrt(np.finfo(np.float64).max)) / _FARTHEST**2
MOST_LEVELS = 1000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ListedTerms:
    """The terms of a result: those of a design, and number columns that are constant in the public rows."""

    terms: tuple[str, ...]  # their names
    source: IntArray  # (q,), with role and level: as those of a `Design`
    role: IntArray  # (q,)
    level: FloatArray  # (q,)
    varies: BoolArray  # (q,), which of them the model is linear in

    @property
    def is_constant(self) -> BoolArray:
        """Which of [intercept, terms] are constant, (q + 1,)."""
        return np.append(False, ~self.varies)

    def with_constant(self, values: FloatArray, fill: float) -> FloatArray:
        """Numbers (..., p + 1) of [intercept, varying terms], and `fill` for each other one, (..., q + 1)."""
        listed = np.full((*values.shape[:-1], len(self.varies) + 1), fill)
        listed[..., ~self.is_constant] = values
        return listed

    def matrix_with_constant(self, values: FloatArray) -> FloatArray:
        """A matrix (p + 1, p + 1) of these, with zeros for each other one, (q + 1, q + 1)."""
        return self.with_constant(self.with_constant(values, 0.0).T, 0.0).T


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Design:
    """The map of columns to terms: numbers as they are, indicators of missing cells, one indicator for each category."""

    columns: tuple[str, ...]  # names of the columns of the table
    terms: tuple[str, ...]  # names of the numbers that the model is linear in
    source: IntArray  # (p,), the column that each term comes from
    role: IntArray  # (p,), NUMBER, MISSING, LEVEL or OTHER, see `term_values`
    level: FloatArray  # (p,), the category of a term with role 2
    fill: FloatArray  # (dim,), replacement of a missing number, NaN if a row with one is ignored
    center: FloatArray  # (p,), with scale: a term is standardized to (term - center) / scale
    scale: FloatArray  # (p,)
    # (p,), public rows beyond it are downweighted, see `leverage_weights`; infinite for indicators
    reach: FloatArray
    listed: ListedTerms
    # column of text -> the texts that its categories 0, 1, ... stand for
    texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # places of the terms from whose coefficients those of their columns are differences
    reference: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def expand(self, rows: FloatArray) -> FloatArray:
        """Rows (k, dim) as terms (k, p), entry by entry; not finite for a missing cell without a replacement."""
        return term_values(
            rows, source=self.source, role=self.role, level=self.level, fill=self.fill
        )

    def standardize(self, rows: FloatArray) -> FloatArray:
        """Terms of rows (k, dim) in standard units, (k, p)."""
        with np.errstate(all="ignore"):
            terms = self.expand(rows)
            terms -= self.center
            terms /= self.scale
            np.clip(terms, -_FARTHEST, _FARTHEST, out=terms)
        return terms

    def leverage_weights(self, terms: FloatArray) -> FloatArray:
        """Weights (m,) of standardized public terms (m, p), at most 1: no row has more leverage than one within reach."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.min(self.reach / np.abs(terms), axis=1, initial=1.0) ** 2)

    def categories(self) -> Iterator[IntArray]:
        """Yield the indices of the terms of each column with categories."""
        of_category = self.role >= LEVEL
        for column in np.unique(self.source[of_category]):
            yield np.flatnonzero(of_category & (self.source == column))

    def constant_sums(self, terms: FloatArray) -> FloatArray:
        """Sums (k, p) of all levels of a column, one for each, that are constant in standardized public terms (m, p)."""
        constant = []
        for places in self.categories():
            total = np.zeros(len(self.terms))
            total[places] = self.scale[places]
            # A sum of indicators is a whole number, up to rounding to a grid.
            if np.ptp(terms @ total) < tuning.EXACT:
                constant.append(total)
        return np.array(constant).reshape(len(constant), len(self.terms))

    def about_the_mean(self, slopes: FloatArray, intercept: FloatArray, shares: FloatArray) -> None:
        """Center slopes (p, k) of categories, in place, at their mean over public rows, whose terms have means `shares` (p,)."""
        # A constant can be moved from all levels of a column to the intercepts (k,).
        for places in self.categories():
            average = shares[places] @ slopes[places] / shares[places].sum()
            slopes[places] -= average
            intercept += average

    @property
    def is_fixed(self) -> BoolArray:
        """Which of [intercept, terms] are levels that others are compared with, whose coefficients are zero, (p + 1,)."""
        return np.isin(np.arange(len(self.terms) + 1), self.reference + 1)

    def from_reference(self, slopes: FloatArray, intercept: FloatArray) -> None:
        """Make slopes (p, k) of categories differences from that of the reference of their column, if it has one, in place."""
        for place in self.reference:
            base = slopes[place].copy()
            slopes[self.source == self.source[place]] -= base
            intercept += base


def named_design(
    design: Any,  # a `Design`, or None
    terms: Any,  # the same, or its `ListedTerms`
    classes: Sequence[float] | None,
    names: Sequence[str],
    shares: Any,  # (p,), means of the terms of a design over public rows, or None
) -> dict[str, Any]:
    """Return a design with the `terms` of a result as plain values, ready for JSON, with the names of classes that are texts."""
    named: dict[str, Any] = {}
    if design is not None:
        named = {"columns": list(design.columns), "terms": list(terms.terms)}
        named |= {name: getattr(terms, name).tolist() for name in ("source", "role", "level")}
        named["fill"] = [None if np.isnan(value) else float(value) for value in design.fill]
    if design is not None and shares is not None and len(design.reference):
        named["reference"] = {}
        average = np.zeros(len(design.terms))
        for place in design.reference:
            name = design.columns[design.source[place]]
            named["reference"][name] = design.terms[place].removeprefix(f"{name}=")
            levels = design.source == design.source[place]
            average[levels] = shares[levels] / shares[levels].sum()
        if terms is not design:
            average = terms.with_constant(np.append(0.0, average), 0.0)[1:]
        named["average"] = average.tolist()
    if design is not None and design.texts:
        named["texts"] = {name: list(listed) for name, listed in design.texts.items()}
    return {**named, "classes": [names[int(each)] for each in classes or ()]} if names else named


FEW = "at least 2 public rows with a label and without missing cells are needed to start from"


def usable_rows(
    table: FloatArray,
    names: Sequence[str],
    stated: DataSpec,
    loss: Loss | None,
    *,
    standard: bool = True,
) -> tuple[Design | None, BoolArray, tuple[float, ...] | None]:
    """Return the design of public rows (m, dim + 1), which of them are usable, and the classes of a loss of classes.

    A row whose label is not known (NaN) is usable, and the design is of it too.
    """
    # Without `standard` columns keep their units, and there is no design.
    design = None
    labeled = np.isfinite(table[:, -1])
    usable: BoolArray = np.logical_and.reduce(np.isfinite(table[:, :-1]), axis=1)
    if standard:
        ranges = stated.ranges(names)
        # Cells that are missing only where the label is missing too make no term.
        counted = labeled if labeled.sum() >= tuning.FEWEST_PUBLIC else slice(None)
        design, usable = make_design(
            table[:, :-1],
            names,
            stated.categories,
            ranges,
            stated.texts,
            stated.reference,
            counted=counted,
        )
    of_classes = loss is not None and (loss.classes or loss.scores)
    levels = (
        chosen_classes(table[usable & labeled, -1], stated, two=loss.classes)
        if loss is not None and of_classes
        else None
    )
    if levels is None and stated.classes is not None:
        raise InputError(
            "classes= belongs to a loss of classes, such as the logistic one: leave it out"
        )
    if levels is None and stated.class_weight is not None:
        raise InputError("class_weight= belongs to the logistic loss: leave it out")
    if levels is not None:
        if stated.y_bounds is not None:
            raise InputError(
                "y_bounds= belongs to labels that are numbers: leave it out for classes"
            )
        usable &= ~labeled | np.isin(table[:, -1], levels)
    if usable.sum() < 2:
        raise InputError(FEW)
    return design, usable, levels


def make_design(
    table: FloatArray,
    columns: Sequence[str],
    categories: Any,  # name -> its numeric levels, or "public" for those of the public rows
    # of columns, NaN if units come from the public rows
    ranges: tuple[FloatArray, FloatArray] | None = None,
    # column of text -> the texts whose places are its levels
    texts: Mapping[str, tuple[str, ...]] | None = None,
    reference: Any = None,  # name -> the level from which the others differ
    *,
    # the rows whose missing cells make terms
    counted: Any = slice(None),
) -> tuple[Design, BoolArray]:
    """Return the design of public rows (m, dim), NaN for a missing cell, and which of the rows are usable."""
    levels = _levels(table, columns, categories)
    terms: list[tuple[str, int, int, float]] = []  # name, source, role and level of each
    fill = np.full(len(columns), np.nan)
    for j, name in enumerate(columns):
        if name in levels:
            shown = (texts or {}).get(name) or tuple(map(shown_level, levels[name]))
            for value, text in zip(levels[name], shown, strict=True):
                terms.append((f"{name}={text}", j, LEVEL, value))
            other = "(other)" if "other" in shown else "other"
            terms.append((f"{name}={other}", j, OTHER, 0.0))
            continue
        missing = np.isnan(table[:, j])
        terms.append((name, j, NUMBER, 0.0))
        if missing[counted].mean() > tuning.INDICATOR_SHARE:
            fill[j] = float(np.median(table[~missing, j])) if not missing.all() else 0.0
            terms.append((f"{name} missing", j, MISSING, 0.0))
    source, role = np.array([each[1:3] for each in terms], dtype=np.int64).T
    level = np.array([each[3] for each in terms])
    expanded = term_values(table, source=source, role=role, level=level, fill=fill)
    usable: BoolArray = np.logical_and.reduce(np.isfinite(expanded), axis=1)
    if usable.sum() < 2:
        raise InputError(
            "at least 2 public rows without missing cells are needed to choose scales from"
        )
    named = [each[0] for each in terms]
    center, scale, reach = _units(
        named, expanded[usable], role == NUMBER, ranges and [each[source] for each in ranges]
    )
    varies = scale > 0.0
    # The one level that all public rows have is listed, as a number column without spread is.
    is_listed = varies | (role == NUMBER) | ((role >= LEVEL) & expanded[usable].all(axis=0))
    names_of_listed = tuple(itertools.compress(named, is_listed))
    listed = ListedTerms(
        terms=names_of_listed,
        source=source[is_listed],
        role=role[is_listed],
        level=level[is_listed],
        varies=varies[is_listed],
    )
    references = _references(reference, columns, levels, listed)
    return Design(
        columns=tuple(columns),
        terms=tuple(itertools.compress(named, varies)),
        source=source[varies],
        role=role[varies],
        level=level[varies],
        fill=fill,
        center=center[varies],
        scale=scale[varies],
        reach=reach[varies],
        listed=listed,
        texts=texts or {},
        reference=references,
    ), usable


def shown_level(level: Any) -> str:
    """Return a level as terms show it: a text without the blanks around it, a whole number without a point; else nothing."""
    if isinstance(level, str):
        return plain_text(level)
    try:
        number = float(level)
    except (TypeError, ValueError, OverflowError):
        return ""
    return repr(number + 0.0).removesuffix(".0")


def _references(
    given: Any, columns: Sequence[str], levels: Mapping[str, Any], listed: ListedTerms
) -> IntArray:
    """Return the places, among the terms that vary, of the stated reference levels."""
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        raise InputError(
            "reference must map a column to the level that others are compared with, such as {'carrier': 'UA'}, "
            f"got {given!r:.80}"
        )
    places = []
    for name, level in given.items():
        if name not in levels:
            raise InputError(
                f"reference names a column {name!r} that has no categories: name it in categories= as well"
            )
        known = np.flatnonzero(listed.source == list(columns).index(name))
        shown = [listed.terms[place].removeprefix(f"{name}=") for place in known]
        text = shown_level(level)
        if text not in shown:
            raise InputError(
                f"reference names a level {level!r:.80} of {name!r} that no public row has: there are {names_in_words(shown)}"
            )
        place = known[shown.index(text)]
        if listed.varies[place]:
            places.append(int(listed.varies[:place].sum()))
    return np.array(places, dtype=np.int64)


def _units(
    names: Sequence[str], terms: FloatArray, numbers: BoolArray, ranges: Sequence[FloatArray] | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return center, scale and reach of terms (m, p), with ranges of `numbers`; the scale of a constant term is zero."""
    center = np.median(terms, axis=0)
    scale = 1.4826 * np.median(np.abs(terms - center), axis=0)
    std = terms.std(axis=0)
    # Without the outermost rows, one of which may be an error, unless all variation is there.
    inner = np.clip(terms, *np.quantile(terms, [0.01, 0.99], axis=0, method="nearest")).std(axis=0)
    sparse = scale < 0.2 * np.where(inner > 0.0, inner, std)
    scale[sparse] = std[sparse]
    varies = (np.ptp(terms, axis=0) > 0.0) & (scale > 0.0)
    stated = np.zeros(len(center), dtype=bool)
    if ranges is not None:
        low, high = ranges
        stated = np.isfinite(low) & numbers
        beyond = np.flatnonzero(stated & ((terms.min(axis=0) < low) | (terms.max(axis=0) > high)))
        if len(beyond):
            place = int(beyond[0])
            raise InputError(
                f"public rows of column {names[place]!r} go from {terms[:, place].min():g} to {terms[:, place].max():g}, beyond "
                "x_bounds: pass wider bounds, or leave out those rows"
            )
        middle, unit = range_units(low, high)
        if np.any(unit[stated] > MOST_SCALE) or not np.all(unit[stated] > 0.0):
            raise InputError(
                "x_bounds are too far apart or too close to compute with: change the unit of the column"
            )
        center[stated], scale[stated] = middle[stated], unit[stated]
    if not varies.any():
        raise InputError("no column varies in the public rows: there is nothing to learn from them")
    largest = np.max(np.abs(terms - center), axis=0) / np.where(varies, scale, 1.0)
    far = np.where(sparse, np.maximum(tuning.REACH, largest), tuning.REACH)
    return center, np.where(varies, scale, 0.0), np.where(numbers & ~stated, far, np.inf)


def _levels(table: FloatArray, columns: Sequence[str], categories: Any) -> dict[str, list[float]]:
    """Return the levels of each categorical column, in ascending order."""
    if categories is None:
        return {}
    levels = {}
    for name, given in categories.items():
        if name not in columns:
            raise InputError(
                f"categories names a column {name!r} that is not among the features: name one of these, or add it to columns="
            )
        if isinstance(given, str):
            cells = table[:, list(columns).index(name)]
            values = np.unique(cells[np.isfinite(cells)])
        else:
            listed = list(given)
            values = np.unique(
                validation.finite_vector(f"categories[{name!r}]", listed, len(listed))
            )
        if not 1 <= len(values) <= MOST_LEVELS:
            raise InputError(
                f"column {name!r} must have 1 to {MOST_LEVELS} categories, got {len(values)}"
            )
        levels[name] = [float(value) for value in values]
    return levels
