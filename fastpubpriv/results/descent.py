"""Released models that were trained by noisy gradients."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.reading import Form
from fastpubpriv.results.base import Result
from fastpubpriv.results.cells import fits, labels_of, shown_class, terms_of
from fastpubpriv.results.words import Table


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class DescentResult(Result):
    """A released linear model, without intervals: how far its coefficients are from the best ones is predicted, not measured.

    Attributes
    ----------
    coefficients : (outputs, terms) float64
        One row for each prediction: a single one, or one for each class of the softmax loss. In the units of the columns.
    intercept : (outputs,) float64
        The predictions at zero.
    public_coefficients, public_intercept
        The same from the public rows alone, which cost nothing.
    method, loss : str
        What was used.
    terms : tuple of str
        What the model is linear in: columns, indicators of missing cells, and of categories.
    weights : (size,) float64
        The weights in the units of the fit, for `start=` of a further call.
    steps, lost_steps : int
        Steps that were planned, and those that a crash has lost.
    step_size, clip_norm, priv_weight : float
        As used, in the units of the fit.
    batch_rows : int
        (Expected) private rows of a step.
    noise_std : float
        Standard deviation of the noise on the *sum* of clipped gradients, in the units of the fit.
    predicted_excess, public_excess : float
        Excess of the loss (of the mean squared error, for the squared loss) over that of the best coefficients, predicted from
        public rows, for the method and for the public fit; NaN where the loss has no public fit.
    classes : (k,) float64
        The labels of a model of classes, else empty; 0, 1, ... for texts, which stand in `design`.
    design : mapping
        How the terms are made of the columns, without "source" for columns as they are; texts as for `TrainingResult`.

    Examples
    --------
    >>> import numpy as np
    >>> import fastpubpriv as fpp
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(20_000, 2))
    >>> y = x @ [1.0, -2.0] + rng.normal(size=20_000)
    >>> method = fpp.training.SemiDP()
    >>> budget = fpp.ApproxDP(epsilon=1, delta=1e-6)
    >>> result = fpp.train(x[200:], y[200:], loss="squared", x_pub=x[:200], y_pub=y[:200], budget=budget, method=method)
    >>> bool(np.allclose(result.coefficients, [1.0, -2.0], atol=0.2)), result.loss
    (True, 'squared')
    """

    coefficients: FloatArray
    intercept: FloatArray
    public_coefficients: FloatArray
    public_intercept: FloatArray
    method: str
    loss: str
    terms: tuple[str, ...]
    weights: FloatArray
    steps: int
    lost_steps: int
    step_size: float
    clip_norm: float
    priv_weight: float
    batch_rows: int
    noise_std: float
    predicted_excess: float | None
    public_excess: float | None
    classes: FloatArray
    design: Mapping[str, Any]

    _forms: ClassVar[Mapping[str, Form]] = {
        "coefficients": ("outputs", "terms"),
        "intercept": ("outputs",),
        "public_coefficients": ("outputs", "terms"),
        "public_intercept": ("outputs",),
        "weights": ("size",),
        "classes": ("classes",),
    }

    def _refuse_nonsense(self) -> None:
        p = len(self.terms)
        fine = self.coefficients.shape[1] == p and len(self.coefficients) in (1, len(self.classes))
        fine = fine and fits(self.design, self.dim, p, self.columns, len(self.classes))
        fine = fine and ("source" in self.design or p == self.dim)
        if not fine:
            raise InputError(
                "this JSON text is not a DescentResult: its coefficients, terms and design do not fit together"
            )

    def decision_function(self, rows: Any) -> FloatArray:
        """Intercept plus coefficients times terms of rows (n, dim): (n,), or (n, outputs). NaN where a cell is missing."""
        found = terms_of(rows, self.dim, self.columns, self.design)
        with np.errstate(all="ignore"):
            scores: FloatArray = self.intercept + found @ self.coefficients.T
        return scores if len(self.coefficients) > 1 else scores[:, 0]

    def predict(self, rows: Any) -> Any:
        """The label of each of rows (n, dim), (n,): a number, a mean count, or the likeliest class. NaN where a cell is missing.

        Text in rows and classes as for `TrainingResult.predict`.
        """
        scores = self.decision_function(rows)
        with np.errstate(all="ignore"):
            if self.loss == "poisson":
                return np.exp(scores)
            if not len(self.classes):
                return scores
            place = np.argmax(scores, axis=1) if scores.ndim == 2 else (scores > 0.0).astype(np.int64)
            missing = np.isnan(scores).any(axis=1) if scores.ndim == 2 else np.isnan(scores)
            return labels_of(place, missing, self.classes, self.design)

    def predict_proba(self, rows: Any) -> FloatArray:
        """Probabilities of the classes for rows (n, dim), (n, classes), of the logistic and the softmax loss."""
        if self.loss not in ("logistic", "softmax"):
            raise InputError("predict_proba is for the logistic and the softmax loss: use predict")
        scores = self.decision_function(rows)
        both = scores if scores.ndim == 2 else np.column_stack([np.zeros(len(scores)), scores])
        grown = np.exp(both - both.max(axis=1, keepdims=True))
        found: FloatArray = grown / grown.sum(axis=1, keepdims=True)
        return found

    def _estimate(self) -> tuple[str, Any]:
        return "coefficients", self.coefficients.ravel()

    def _table(self) -> Table:
        names = ("intercept", *self.terms)
        if len(self.coefficients) == 1:
            columns = [
                ("coefficient", [*self.intercept, *self.coefficients[0]]),
                ("public only", [*self.public_intercept, *self.public_coefficients[0]]),
            ]
            return Table("term", names, columns)
        columns = [
            (f"class {shown_class(label, index, self.design)}", [start, *slopes])
            for index, (label, start, slopes) in enumerate(
                zip(self.classes, self.intercept, self.coefficients, strict=True)
            )
        ]
        return Table("term", names, columns)

    def _details(self) -> list[tuple[str, str]]:
        batch = f"{self.batch_rows:,} of {self.n_priv:,} rows" if self.batch_rows < self.n_priv else "all rows"
        made = f"{self.steps:,} step{'s' if self.steps != 1 else ''} over {batch}"
        if self.method == "exponential":  # has no steps and no gradients
            made = "one choice among models that public rows suggest"
        found = [("Method", f"{self.method}, {self.loss} loss" + (f", {made}" if self.steps else ""))]
        if self.steps and self.method != "exponential":
            weights = f"private gradient {self.priv_weight:.3g}, public gradient {1.0 - self.priv_weight:.3g}"
            found.append(("Weights", weights))
        if self.predicted_excess is not None and self.public_excess is not None:
            text = f"loss {self.predicted_excess:.3g} above the best, public rows alone {self.public_excess:.3g}"
            found.append(("Predicted", text))
        if self.lost_steps:
            found.append(("Lost", f"{self.lost_steps} steps whose values a crash has lost; they were paid for"))
        return found
