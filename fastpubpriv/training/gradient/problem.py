"""What the gradient methods start from: the units of the fit, public rows in them, and what these say about gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.columns import LEVEL
from fastpubpriv.errors import InputError
from fastpubpriv.kernels.gradients import public_gradients
from fastpubpriv.losses import Loss, RowLoss
from fastpubpriv.sources.base import Chunk
from fastpubpriv.training.design import Design, make_design
from fastpubpriv.training.problem import FEW, with_labels
from fastpubpriv.training.rotated import label_values
from fastpubpriv.training.stated import Stated, class_list

MOST_CLASSES = 1000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Units:
    """The public map of a labelled row (dim + 1) to [z, label], entry by entry."""

    # columns to standard units, after a first coordinate of 1; None leaves them as they are, without one
    design: Design | None
    centre: float  # with scale: a label that is a number becomes (label - centre) / scale
    scale: float
    classes: tuple[float, ...] | None  # labels that become 0, 1, 2 and so on; any other becomes NaN
    width: int  # entries of z
    # (p,), mean of each term over the public rows: the levels of a column are told about theirs
    shares: FloatArray | None = None

    @property
    def dtype(self) -> type[np.floating]:
        """Standard units are clipped, so that single precision loses nothing but digits."""
        return np.float64 if self.design is None else np.float32

    def __call__(self, chunk: Chunk) -> Chunk:
        """Rows (k, dim + 1) as (k, width + 1)."""
        out = np.empty((len(chunk), self.width + 1), dtype=self.dtype)
        with np.errstate(all="ignore"):
            if self.design is None:
                out[:, :-1] = chunk[:, :-1]
            else:
                out[:, 0] = 1.0
                out[:, 1:-1] = self.design.standardise(chunk[:, :-1])
            out[:, -1] = self.labels(chunk[:, -1].astype(np.float64))
        return out

    def labels(self, found: FloatArray) -> FloatArray:
        """Labels in their unit."""
        if self.classes is None:
            return label_values(found, self.centre, self.scale, None)
        known = np.array(self.classes)
        order = np.argsort(known)
        place = np.minimum(np.searchsorted(known, found, sorter=order), len(known) - 1)
        with np.errstate(all="ignore"):
            return np.where(known[order[place]] == found, order[place].astype(np.float64), np.nan)

    def in_units(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Coefficients (outputs, terms) and intercepts (outputs,) in the units of the table, of weights (outputs, width)."""
        if self.design is None:
            return weights * self.scale, np.full(len(weights), self.centre)
        slopes = weights[:, 1:] * (self.scale / self.design.scale)
        start = weights[:, 0] * self.scale + self.centre - slopes @ self.design.centre
        if self.shares is not None:
            # Coefficients of categories could all be moved against the intercept.
            of_category = self.design.role >= LEVEL
            for column in np.unique(self.design.source[of_category]):
                places = np.flatnonzero(of_category & (self.design.source == column))
                average = slopes[:, places] @ self.shares[places] / self.shares[places].sum()
                slopes[:, places] -= average[:, None]
                start = start + average
        return slopes, start


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GradientProblem:
    """A loss, public rows in the units of the fit, and the size of the private data."""

    loss: Loss | None  # of a linear model; None where `row_loss` makes the gradients
    row_loss: RowLoss | None  # a loss of the user's
    units: Units  # of the fit
    x: FloatArray  # (m, width), with y: public rows and labels in these units
    y: FloatArray  # (m,)
    outputs: int  # predictions of a row
    n_priv: int  # private rows
    scales: str = "public rows"  # where the units of columns come from
    class_names: tuple[str, ...] = ()  # texts that the classes 0, 1, ... stand for; empty for classes that are numbers

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the weights."""
        scores = self.loss is not None and self.loss.scores
        return (self.outputs, self.units.width) if scores else (self.units.width,)

    @property
    def size(self) -> int:
        """Number of weights."""
        return self.outputs * self.units.width

    def residuals(self, weights: FloatArray, rows: slice | IntArray = slice(None)) -> FloatArray:
        """Residuals of public rows at these weights, (k,) or (k, outputs); of a loss of a linear model."""
        assert self.loss is not None
        return self.loss.residuals_of(self.x[rows] @ weights.T, self.y[rows])

    def gradients(self, weights: FloatArray, rows: slice | IntArray = slice(None)) -> tuple[FloatArray, FloatArray]:
        """Minus the gradients of public rows as (coefficients (k, outputs), vectors (k, width)), of which each is an outer product.

        For a loss of the user's, coefficients are -1 and vectors the gradients.
        """
        if self.row_loss is not None:
            found = public_gradients(self.row_loss, weights, self.x[rows], self.y[rows])
            return np.full((len(found), 1), -1.0), found
        found = self.residuals(weights, rows)
        return found.reshape(len(found), -1), self.x[rows]


def make_gradient_problem(
    loss: Loss | RowLoss,
    table: FloatArray,
    names: Sequence[str],
    n_priv: int,
    *,
    scaling: str,
    stated: Stated,
) -> tuple[GradientProblem, int]:
    """The problem of public rows (m, dim + 1), the label last, and how many of them could be used."""
    if any(each is not None for each in (stated.weights_pub, stated.weights_priv, stated.class_weight)):
        stated.refuse_balancing()
        raise InputError(
            "weights_pub=, weights_priv= and class_weight= are not for this loss or method: pass loss='squared', 'huber' or "
            "'logistic' with method='newton', or leave them out"
        )
    known = loss if isinstance(loss, Loss) else None
    table = table[with_labels(table)]
    if scaling == "standard":
        design, usable = make_design(table[:, :-1], names, stated.categories, stated.ranges(names), stated.texts)
    else:
        for name in ("categories", "x_bounds", "y_bounds"):
            if getattr(stated, name) is not None:
                raise InputError(f"{name}= belongs to scaling='standard'")
        design, usable = None, np.logical_and.reduce(np.isfinite(table[:, :-1]), axis=1)
    several = known is not None and (known.classes or known.scores)
    levels = _classes(table[usable, -1], stated.classes, two=known is not None and known.classes) if several else None
    if levels is not None:
        usable &= np.isin(table[:, -1], levels)
        stated.refuse_label_unit()
    else:
        stated.refuse_classes()
    used = table[usable]
    if known is not None and known.counts and (used[:, -1] < 0.0).any():
        raise InputError(f"loss={known.name!r} is for counts, and public labels go down to {used[:, -1].min():g}")
    if len(used) < 2:
        raise InputError(FEW)
    centre, scale = 0.0, 1.0
    if known is not None and levels is None and not known.counts and scaling == "standard":
        centre, scale, _ = stated.label_unit(used[:, -1])
    elif stated.y_bounds is not None:
        raise InputError("y_bounds= belongs to a loss of labels in units, such as the squared one: leave it out")
    width = table.shape[1] - 1 if design is None else len(design.terms) + 1
    shares = None if design is None else np.mean(design.expand(used[:, :-1]), axis=0)
    units = Units(design=design, centre=centre, scale=scale, classes=levels, width=width, shares=shares)
    rows = units(used).astype(np.float64)
    outputs = len(levels) if known is not None and known.scores and levels is not None else 1
    made = GradientProblem(
        loss=known,
        row_loss=None if known is not None else loss,
        units=units,
        x=np.ascontiguousarray(rows[:, :-1]),
        y=rows[:, -1].copy(),
        outputs=outputs,
        n_priv=n_priv,
        scales=stated.origin,
        class_names=stated.class_names,
    )
    return made, len(used)


def _classes(labels: FloatArray, classes: Any, *, two: bool) -> tuple[float, ...]:
    """The classes, in ascending order or as given."""
    found = np.unique(labels)
    if classes is not None:
        listed = class_list(classes)
        found = validation.finite_vector("classes", listed, len(listed))
        if len(np.unique(found)) < len(found):
            raise InputError("classes must be different numbers")
    fine = len(found) == 2 if two else 2 <= len(found) <= MOST_CLASSES
    if not fine:
        wanted = "two are needed" if two else f"2 to {MOST_CLASSES} are needed"
        raise InputError(f"the labels have {len(found)} classes, and {wanted}: pass classes=[...] with the numbers")
    return tuple(float(each) for each in found)
