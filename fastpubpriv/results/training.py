"""Released linear and logistic models."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fastpubpriv import columns, validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.quantiles import normal_quantile
from fastpubpriv.reading import Form
from fastpubpriv.results.base import LEVEL, Result
from fastpubpriv.results.cells import fits, labels_of, terms_of
from fastpubpriv.results.words import Table

_REASONS = {
    "heavy_tail": (
        "Heavy tail",
        "a few rows far out decide: noisy counts do not show all of them, so intervals may miss",
    ),
    "shifted": ("Shifted", "public rows are from somewhere else than private ones: they were not pooled"),
    "few_rows": ("Few rows", "least squares rests on few rows: intervals may be too short"),
    "unresolved": ("Unresolved", "the noise hides how long the scores of rows are: intervals mean little"),
}
STATUSES = ("ok", "heavy_tail", "shifted", "few_rows", "unresolved", "few_public_rows")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TrainingResult(Result):
    """A released linear model: of a label, or of the log-odds of the second of two classes.

    Attributes
    ----------
    coefficients : (terms,) float64
        One for each of `terms`, in units of the label (or of log-odds) per unit of the column.
    intercept : float
        The prediction at zero.
    covariance, noise_covariance : (1 + terms, 1 + terms) float64
        Of [intercept, coefficients]: public and private sampling, noise for privacy, the bias of clipping; and the noise alone.
    interval_center, tail_below, tail_above : (1 + terms,) float64
        Intervals of [intercept, coefficients] are about this center: least squares, or the maximum likelihood, of the private rows,
        with public rows where they agree. Rows far out, which noise hides in part, add the tails to either side. With
        tails="light", for the Huber loss and for public rows alone the center is the estimate, and there are no tails.
    public_coefficients, public_intercept, public_covariance
        The same from the public rows alone, which cost nothing.
    public_drift : float
        How many times the variance of the public rows had to be enlarged to agree with the private ones: 1 where they agree.
    method : str
        The method that was used.
    loss : str
        "squared", "logistic" or "huber".
    terms : tuple of str
        What the model is linear in: columns, indicators of missing cells, and of categories ("month=2"). A column without spread in
        the public rows has none.
    rows_behind : (terms,) float64
        About how many public rows a least-squares coefficient would rest on: a third of them for normal columns.
    status : tuple of str
        "ok", or why an interval may not hold. "heavy_tail": a few rows far out decide, and no noisy count can show all of them.
        "shifted": public rows are from somewhere else (`public_drift` above 2, a released mean outside their range, categories
        that none of them has), and were not pooled. "few_rows": too few public rows for so many coefficients, or directions in
        which private rows hardly vary; with tails="light", and for the Huber loss, a term with few public rows behind it.
        "unresolved": the noise hides how long the scores of rows are. "few_public_rows" for all terms where there are fewer than
        two public rows for each coefficient (five, of classes): the size of residuals and how much of the way a step covers are
        then hardly known, and there are no intervals (NaN).
    predicted_excess, public_excess : float
        Excess of the mean squared error (log-loss, Huber loss) over that of the best coefficients, predicted before anything was
        spent, for the method and for the public rows alone. Where there are no more public rows than coefficients, a line goes
        through them all, and what of a residual is noise does not show: they are then guesses, some of them far too small.
    residual_std : float
        Of a new label about its prediction; zero for classes.
    label_quantiles : (k,) float64
        Quantiles at j / (k + 1), j = 1 ... k, of how far the labels of public rows lie from their predictions, in units of the
        standard deviation of these under a normal law. At most 200; none for classes, and where all public labels are equal.
    classes : (k,) float64
        The two labels of a logistic model, else empty; 0 and 1 for two texts, which stand in `design`.
    design : mapping
        How the terms are made of the columns: "texts" has the lists of columns of text, "classes" those
        of classes that are texts.

    Examples
    --------
    >>> import numpy as np
    >>> import fastpubpriv as fpp
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(20_000, 2))
    >>> y = x @ [1.0, -2.0] + rng.normal(size=20_000)
    >>> budget = fpp.ApproxDP(epsilon=1, delta=1e-6)
    >>> result = fpp.linear_regression(x[100:], y[100:], x_pub=x[:100], y_pub=y[:100], budget=budget)
    >>> result.coefficients.round().tolist(), result.predict([[1.0, 0.0]]).round().tolist()
    ([1.0, -2.0], [1.0])
    """

    coefficients: FloatArray
    intercept: float
    covariance: FloatArray
    noise_covariance: FloatArray
    interval_center: FloatArray
    tail_below: FloatArray
    tail_above: FloatArray
    public_coefficients: FloatArray
    public_intercept: float
    public_covariance: FloatArray
    public_drift: float
    method: str
    loss: str
    terms: tuple[str, ...]
    rows_behind: FloatArray
    status: tuple[str, ...]
    predicted_excess: float
    public_excess: float
    residual_std: float
    label_quantiles: FloatArray
    classes: FloatArray
    design: Mapping[str, Any]

    _forms: ClassVar[Mapping[str, Form]] = {
        "coefficients": ("terms",),
        "public_coefficients": ("terms",),
        "rows_behind": ("terms",),
        "covariance": ("all", "all"),
        "noise_covariance": ("all", "all"),
        "public_covariance": ("all", "all"),
        "interval_center": ("all",),
        "tail_below": ("all",),
        "tail_above": ("all",),
        "classes": ("classes",),
        "label_quantiles": ("label_quantiles",),
    }

    def _refuse_nonsense(self) -> None:
        p = len(self.terms)
        fine = (
            len(self.coefficients) == len(self.status) == p
            and {*self.status} <= {*STATUSES}
            and len(self.covariance) == len(self.interval_center) == p + 1
            and bool(np.all(self.tail_below >= 0.0) and np.all(self.tail_above >= 0.0))
            and len(self.classes) in (0, 2)
            and bool(np.all(np.diff(self.label_quantiles) >= 0.0))
        )
        fine = fine and "source" in self.design
        fine = fine and fits(self.design, self.dim, p, self.columns, len(self.classes))
        if not fine:
            raise InputError(
                "this JSON text is not a TrainingResult: its coefficients, terms and design do not fit together"
            )

    @property
    def _known(self) -> float:
        """1, or NaN where there are too few public rows for intervals."""
        return np.nan if "few_public_rows" in self.status else 1.0

    @property
    def _through_all(self) -> bool:
        """Whether a line goes through all public rows, so that they do not show what is noise."""
        return self.n_pub <= len(self.terms) + 1

    @property
    def standard_error(self) -> FloatArray:
        """Standard deviation of each coefficient, (terms,); NaN where `status` says "few_public_rows"."""
        found: FloatArray = np.sqrt(np.diag(self.covariance)[1:]) * self._known
        return found

    @property
    def intercept_error(self) -> float:
        """Standard deviation of the intercept, the bias of clipping included; NaN where `status` says "few_public_rows"."""
        return float(np.sqrt(self.covariance[0, 0]) * self._known)

    @property
    def privacy_share(self) -> float:
        """Share of the coefficients' variance that is noise for privacy, averaged over the coefficients."""
        return float(np.mean(np.diag(self.noise_covariance)[1:] / np.diag(self.covariance)[1:]))

    def confidence_interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends, (terms,) each, of an interval for every coefficient.

        They hold least squares, or the maximum likelihood, of the private rows: noise for privacy, the sampling of rows, what the
        clip of rows far out may hide, and the noise of the curvature. With tails="light" and for the Huber loss they count what
        public and private rows leave open and the known noise, under a normal law; labels that are skewed move the intercept
        most, which `intercept_error` counts. NaN where `status` says "few_public_rows".
        """
        lower, upper = self._ends(validation.confidence_level(level))
        return lower[1:], upper[1:]

    def _ends(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Of [intercept, coefficients]."""
        half = normal_quantile(0.5 + level / 2.0) * np.sqrt(np.diag(self.covariance)) * self._known
        known = np.append(self.intercept, self.coefficients)
        lower = np.minimum(known, self.interval_center - self.tail_below - half)
        return lower, np.maximum(known, self.interval_center + self.tail_above + half)

    def _terms_of(self, rows: Any) -> FloatArray:
        return terms_of(rows, self.dim, self.columns, self.design)

    def decision_function(self, rows: Any) -> FloatArray:
        """Intercept plus coefficients times terms of rows (n, dim), (n,): a label, or log-odds. NaN where a cell is missing."""
        with np.errstate(all="ignore"):
            found: FloatArray = self.intercept + self._terms_of(rows) @ self.coefficients
        return found

    def predict(self, rows: Any) -> Any:
        """The label of each of rows (n, dim), (n,): its mean, or the likelier class. NaN where a needed cell is missing.

        Rows of a model with columns of text are a table or a path, or an array of objects. Classes that are texts come as an array
        of objects, None where a cell is missing.
        """
        found = self.decision_function(rows)
        if self.loss != "logistic":
            return found
        return labels_of((found > 0.0).astype(np.int64), np.isnan(found), self.classes, self.design)

    def predict_proba(self, rows: Any) -> FloatArray:
        """Probabilities of the two classes for rows (n, dim), (n, 2)."""
        if self.loss != "logistic":
            raise InputError("predict_proba is for classes, and this model is of a number: use predict")
        scores = self.decision_function(rows)
        with np.errstate(over="ignore"):
            second = np.where(scores >= 0.0, 1.0 / (1.0 + np.exp(-scores)), np.exp(scores) / (1.0 + np.exp(scores)))
        return np.column_stack([1.0 - second, second])

    def prediction_interval(self, rows: Any, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends, (n,) each, of an interval for the label of a new row.

        Labels with long tails or skew are covered as the public ones show: on either side the same share of them is outside, each
        left out of its own prediction. That takes 39 public rows for .95, 199 for .99; with fewer, and beyond .99, the ends are as
        far out as a normal law says, and as the farthest of `label_quantiles`. For new rows that are like the public ones. NaN
        where `status` says "few_public_rows".
        """
        if self.loss == "logistic":
            raise InputError("prediction_interval is for labels that are numbers: use predict_proba")
        terms = self._terms_of(rows)
        with_one = np.hstack([np.ones((len(terms), 1)), terms])
        variance = np.einsum("ij,jk,ik->i", with_one, self.covariance, with_one) + self.residual_std**2
        lower, upper = self._label_ends(validation.confidence_level(level))
        middle, unit = self.predict(rows), np.sqrt(variance) * self._known
        return middle + lower * unit, middle + upper * unit

    def _label_ends(self, level: float) -> tuple[float, float]:
        """Ends of an interval of this level for a label, in units of its standard deviation about its prediction."""
        known = self.label_quantiles
        outside = math.floor((1.0 - level) / 2.0 * (len(known) + 1) + 1e-9)
        if outside >= 1:
            return float(known[outside - 1]), float(known[-outside])
        longest = max(normal_quantile(0.5 + level / 2.0), float(np.abs(known).max(initial=0.0)))
        return -longest, longest

    def plot(self, path: str | Path | None = None, *, level: float = 0.95) -> Any:
        """Draw private and public coefficients with their intervals (needs matplotlib); returns the figure.

        Up to twelve numbers have a panel each; beyond these, and where there are categories, terms stand below each other, and each
        column has an axis in its own unit.
        """
        from fastpubpriv.results import coefficient_plots
        from fastpubpriv.results import plots as plotting

        width = normal_quantile(0.5 + validation.confidence_level(level) / 2.0)
        public = width * np.sqrt(np.diag(self.public_covariance)[1:]) * self._known
        lower, upper = self.confidence_interval(level)
        estimates = [
            plotting.Estimate("private", self.coefficients, lower, upper),
            plotting.Estimate(
                "public only",
                self.public_coefficients,
                self.public_coefficients - public,
                self.public_coefficients + public,
            ),
        ]
        roles = self.design.get("role", [])
        levels = [role in (columns.LEVEL, columns.OTHER) for role in roles] or [False] * len(self.terms)
        if len(self.terms) <= plotting.MAX_PANELS and not any(levels):
            return plotting.plot_means(estimates, columns=self.terms, path=path, level=level, quantity="coefficients")
        unit = "log-odds" if self.loss == "logistic" else "label"
        return coefficient_plots.plot_coefficients(
            estimates, terms=self.terms, groups=coefficient_plots.strips(self.terms, self.design.get("source"), levels),
            title=f"Coefficients, with {level:.0%} intervals", path=path,
            unit=f"{unit} per unit of the column; of a level, about the mean of the public rows",
        )  # fmt: skip

    def _estimate(self) -> tuple[str, Any]:
        return "coefficients", self.coefficients

    def _table(self, level: float = LEVEL) -> Table:
        lower, upper = self._ends(level)
        numbers = [
            ("coefficient", [self.intercept, *self.coefficients]),
            ("lower", lower.tolist()),
            ("upper", upper.tolist()),
            ("public only", [self.public_intercept, *self.public_coefficients]),
        ]
        return Table("term", ("intercept", *self.terms), numbers)

    def _shown(self, level: float) -> tuple[Table, list[tuple[str, str]]]:
        rows, *facts = self._facts()
        interval = ("Interval", f"{100.0 * level:.4g} %: sampling, noise, and what the clip of rows far out may hide")
        return self._table(level), [rows, interval, *facts]

    @property
    def _odds(self) -> str:
        """Which class the log-odds are of."""
        if len(self.classes) != 2:
            return ""
        texts = self.design.get("classes")
        first, second = map(repr, texts) if texts else (f"{each:g}" for each in self.classes)
        return f": log-odds of {second} against {first}"

    def _details(self) -> list[tuple[str, str]]:
        unit = {"logistic": "log-loss", "huber": "mean Huber loss"}.get(self.loss, "mean squared error")
        share = f"; noise for privacy is {self.privacy_share:.0%} of the variance" if self.privacy_share > 0.0 else ""
        found = [
            ("Method", f"{self.method}, {self.loss} loss{self._odds}"),
            (
                "Predicted",
                f"{unit} {self.predicted_excess:.3g} above the best, public rows alone {self.public_excess:.3g}",
            ),
            (
                "Estimate",
                "public rows alone" if self.method == "throw_away" else f"private and public rows together{share}",
            ),
        ]
        needed = "five" if self.loss == "logistic" else "two"
        if np.isnan(self._known):
            guessed = "; what was predicted is a guess, and may be far too small" if self._through_all else ""
            if self.n_pub == 2 and self.method == "throw_away":
                guessed = '; two do not say how large anything is, so that method="auto" spends nothing'
            found.append(
                (
                    "Few public rows",
                    f"{self.n_pub:,} for {len(self.terms) + 1:,} coefficients: the size of residuals and how much of the way a "
                    f"step covers are hardly known, so that there are no intervals: these need {needed} for each{guessed}",
                )
            )
        found += [(title, text) for word, (title, text) in _REASONS.items() if word in self.status]
        if self.public_drift > 1.0:
            found.append(
                (
                    "Drift",
                    f"public rows disagree with private ones, by {self.public_drift:.3g} times the variance that chance explains",
                )
            )
        return found
