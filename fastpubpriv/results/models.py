"""Released linear and logistic models, and models trained by noisy gradients."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from scipy import special

from fastpubpriv import validation
from fastpubpriv._types import FloatArray, StepwiseLoss
from fastpubpriv.errors import InputError
from fastpubpriv.results.drawn import Drawn
from fastpubpriv.results.fields import Declaration, array, column, value_class
from fastpubpriv.results.public_draws import normal_quantile
from fastpubpriv.results.reasons import Reason
from fastpubpriv.results.result_tables import Facts, Lines, Table, percent, table_of
from fastpubpriv.sources import column_names, private_rows
from fastpubpriv.sources.column_names import points, term_values
from fastpubpriv.sources.dask_backend import is_dask
from fastpubpriv.sources.tables import TextColumns, is_arrow, is_frame, is_lazy, is_series, places

# Conversion of rows for prediction to numeric cells; texts are encoded by the category lists of the model.

PLAN = ("source", "role", "level", "fill")
# unit of the predictions of a loss, for axes; that of the others is the label's
_UNITS = {
    "logistic": "log-odds",
    "softmax": "log-odds",
    "smooth_hinge": "margin",
    "poisson": "log of the count",
}


@dataclass(frozen=True, slots=True, eq=False)
class ParsedRows:
    """Rows (k, dim) that were read by `as_columns`, with texts already encoded as indices."""

    numbers: FloatArray


def as_columns(columns: Sequence[str] | None, design: Mapping[str, Any]) -> Any:
    """Return the argument `columns` for `private_rows` that reads rows for a model."""
    texts = design.get("texts")
    return TextColumns(columns, dict(texts)) if texts else columns


def terms_of(
    rows: Any, dim: int, columns: Sequence[str] | None, design: Mapping[str, Any]
) -> FloatArray:
    """Return the terms (n, p) that a model is linear in; a text becomes its index, an unknown one NaN."""
    table = (
        is_frame(rows)
        or is_lazy(rows)
        or is_arrow(rows)
        or is_dask(rows)
        or isinstance(rows, str | os.PathLike)
    )
    if isinstance(rows, ParsedRows):
        cells = rows.numbers
    elif not (texts := design.get("texts")):
        cells = np.atleast_2d(points(rows, dim, columns, finite=False))
    elif table and not is_series(rows):
        cells = np.concatenate(
            list(private_rows(rows, columns=as_columns(columns, design)).chunks()), dtype=np.float64
        )
    else:
        try:
            array = np.asarray(rows, dtype=object)
        except Exception:
            array = np.empty((0, 0), dtype=object)
        if np.ndim(array) == 1 and len(array) == dim:
            array = array.reshape(1, -1)
        if array.ndim != 2 or array.shape[1] != dim:
            raise InputError(
                f"rows must be a table, or an array of numbers and texts of shape (n, {dim})"
            ) from None
        cells = np.empty(array.shape)
        for j, name in enumerate(columns or ()):
            column = array[:, j]
            known = (
                places(texts[name])(column)
                if name in texts
                else points(column.reshape(-1, 1), 1, finite=False)
            )
            cells[:, j] = np.ravel(known)
    if "source" not in design:
        return cells
    terms = term_values(cells, **{name: np.array(design[name], dtype=np.float64) for name in PLAN})
    average = np.array(design.get("average", ()))
    source = np.array(design["source"])
    # A row with none of the levels of a column is predicted as the average one, not as the reference.
    for column in np.unique(source[: len(average)][average > 0.0]):
        levels = np.flatnonzero(source == column)
        unknown = np.flatnonzero(~terms[:, levels].any(axis=1))
        terms[np.ix_(unknown, levels)] = average[levels]
    return terms


# Released linear and logistic models.


def _flat_with(intercept: Any, coefficients: FloatArray) -> FloatArray:
    """Return [intercept, coefficients], output by output."""
    first = np.atleast_1d(intercept)
    return np.column_stack([first, np.atleast_2d(coefficients)]).reshape(-1)


PREDICTED_EXCESS = "predicted excess"  # the key of its origin in the provenance
WITHIN_CLIP = "released numbers, of the rows within the clip"
START = "start"  # likewise, of the steps
ZERO_SLOPES = "zero slopes"  # without public labels


@value_class
class LinearModel(Drawn):
    """Base of released models that are linear in terms of the columns; use `TrainingResult` or `DescentResult`."""

    coefficients: FloatArray
    intercept: Any
    public_coefficients: FloatArray
    public_intercept: Any
    interval_center: FloatArray = array("all", missing=math.nan)
    tail_below: FloatArray = array("all", missing=math.inf)
    tail_above: FloatArray = array("all", missing=math.inf)
    method: str
    loss: str
    terms: tuple[str, ...]
    classes: FloatArray = array("classes")
    design: Mapping[str, Any]
    constant_excess: float | None

    _line_axes = ("all",)
    _gaps = "; one with a missing cell is left out, unless public rows have such cells"

    @property
    def _about(self) -> str:
        """Word before the predicted excess: it is an estimate, and may be of the rows within the clip alone."""
        origin = self.provenance.get(PREDICTED_EXCESS)
        return "about, of the rows within the clip," if origin == WITHIN_CLIP else "about"

    @property
    def _of_constant(self) -> str:
        """The part of the text on predictions that is about a constant; empty where none was released."""
        return "" if self.constant_excess is None else f", a constant {self.constant_excess:.3g}"

    @property
    def _has_public_fit(self) -> bool:
        """Whether enough public rows have labels to fit anything."""
        return self.provenance.get(START) != ZERO_SLOPES

    def _fits_together(self) -> bool:
        design = self.design
        p = len(self.terms)
        texts = design.get("texts", {})
        names = design.get("classes", ())
        if self.coefficients.shape[-1] != p or not isinstance(texts, Mapping):
            return False
        reference = design.get("reference", {})
        columns = design.get("columns", ())
        if not isinstance(reference, Mapping) or not isinstance(columns, tuple):
            return False
        if "source" in design and len(columns) != self.dim:
            return False
        wanted = (
            {"source": p, "role": p, "level": p, "fill": self.dim} if "source" in design else {}
        )
        if "average" in design:
            wanted["average"] = p
        plan: list[Any] = [design.get(name) for name in wanted]
        fine = all(
            isinstance(each, tuple) and len(each) == wanted[name]
            for name, each in zip(wanted, plan, strict=True)
        )
        fine = fine and all(
            item is None or type(item) in (int, float) for each in plan for item in each
        )
        if wanted:
            fine = fine and all(type(j) is int and 0 <= j < self.dim for j in design["source"])
        fine = fine and (bool(wanted) or p == self.dim) and set(texts) <= set(self.columns or ())
        words = [columns, names, tuple(reference.values()), *texts.values()]
        fine = fine and all(
            isinstance(each, tuple) and all(type(text) is str for text in each) for each in words
        )
        return fine and len(names) in (0, len(self.classes))

    def _ends_about(
        self, known: FloatArray, std: FloatArray, level: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return the ends of intervals about `interval_center`, extended to contain the estimates `known`."""
        # Without a coefficient, that of a constant column, nothing is to be contained.
        half = normal_quantile(0.5 + level / 2.0) * std
        lower = self.interval_center - self.tail_below - half
        upper = self.interval_center + self.tail_above + half
        lower = np.where(known < lower, known, lower)
        return lower, np.where(known > upper, known, upper)

    @property
    def _references(self) -> Mapping[str, str]:
        """The level of each column that others are compared with; no column without `reference=`."""
        references: Mapping[str, str] = self.design.get("reference", {})
        return references

    @property
    def _is_reference(self) -> Any:
        """Which terms are such levels, whose coefficients are zero, (terms,)."""
        references = self._references
        if not references:
            return np.zeros(len(self.terms), dtype=bool)
        columns = [self.design["columns"][place] for place in self.design["source"]]
        return np.array(
            [
                column in references and term == f"{column}={references[column]}"
                for column, term in zip(columns, self.terms, strict=True)
            ]
        )

    @property
    def _is_level(self) -> Any:
        """Which terms are levels of a column, (terms,)."""
        roles = self.design.get("role", (column_names.NUMBER,) * len(self.terms))
        levels = column_names.LEVEL, column_names.OTHER
        return np.array([role in levels for role in roles], dtype=bool)

    def _units(self) -> list[str]:
        """Return the name of the axis of the intercept and of each term: the levels of a column share one."""
        sources = self.design.get("source", range(len(self.terms)))
        shared = zip(self.terms, sources, self._is_level, strict=True)
        units = [f"levels of {source}" if level else term for term, source, level in shared]
        return ["", *units] * (len(self.coefficients) if self._has_outputs else 1)

    @property
    def _differences(self) -> Facts:
        """The line of the text that says what the coefficients of levels are differences from; none without levels."""
        bases: dict[str, list[str]] = {}
        varying = np.flatnonzero(self._has_slope & self._is_level)
        for place in dict.fromkeys(self.design["source"][term] for term in varying):
            column = self.design["columns"][place]
            base = "the average of the public rows"
            if column in self._references:
                base = f"{column}={self._references[column]}"
            bases.setdefault(base, []).append(column)
        texts = [
            f"levels of {', '.join(columns)}: difference from {base}"
            for base, columns in bases.items()
        ]
        return [("Coefficients", "; ".join(texts))] if texts else []

    def _drawn_places(self) -> list[int]:
        places = range(len(Lines.of(self)))
        return [place for place in places if place % (len(self.terms) + 1)]  # no intercepts

    def _axis_label(self, declaration: Declaration) -> str:
        bases = []
        for source in itertools.compress(self.design.get("source", ()), self._is_level):
            has_reference = self.design["columns"][source] in self._references
            bases.append("its reference" if has_reference else "the mean of the public rows")
        of_level = ""
        if bases:
            of_level = f"; of a level, from {' or '.join(dict.fromkeys(bases))}"
        return f"{_UNITS.get(self.loss, 'label')} per unit of the column{of_level}"

    def _axis(self, axis: str) -> tuple[str, Sequence[Any]]:
        if axis != "all":
            return super()._axis(axis)
        terms = ("intercept", *self.terms)
        if not self._has_outputs:
            return "term", terms
        return "class: term", [f"{each}: {term}" for each in self._class_names for term in terms]

    @property
    def _has_outputs(self) -> bool:
        """Whether there are coefficients of several classes."""
        return self.coefficients.ndim == 2 and len(self.coefficients) > 1

    @property
    @column("coefficient", "all", ends="_ends_in_table", error="_scale", drawn="private", zero=True)
    def _with_intercept(self) -> FloatArray:
        return _flat_with(self.intercept, self.coefficients)

    def _ends_in_table(self, level: float) -> tuple[FloatArray, FloatArray] | None:
        return self._ends(level) if self.part_reasons else None

    @abstractmethod
    def _ends(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Return the interval ends of [intercept, coefficients], class by class."""

    @property
    @column(
        "public only",
        "all",
        ends="_public_ends",
        names_of_ends=(),
        error="_public_scale",
        drawn="public only",
        zero=True,
    )
    def _public_with_intercept(self) -> FloatArray | None:
        if not self._has_public_fit:
            return None
        return _flat_with(self.public_intercept, self.public_coefficients)

    @property
    def _scale(self) -> FloatArray | None:
        """Standard errors of [intercept, coefficients]; None where texts have six digits."""
        return None

    @property
    def _public_scale(self) -> FloatArray | None:
        """The same of the public rows alone."""
        return None

    def _public_ends(self, level: float) -> tuple[FloatArray, FloatArray] | None:
        """Return the interval ends that plots show for the public rows alone; None without."""
        return None

    @property
    def _class_names(self) -> Sequence[str]:
        """The names of the classes; numbers as texts if they have none."""
        return self.design.get("classes") or [f"{label:g}" for label in self.classes]

    @property
    def _has_slope(self) -> Any:
        """Which terms have a coefficient, (terms,): all but constant columns."""
        return ~np.isnan(np.atleast_2d(self.coefficients)).all(axis=0)

    def decision_function(self, rows: Any) -> FloatArray:
        """Intercept plus coefficients times terms of rows (n, dim): (n,) labels or log-odds, or (n, outputs) scores of classes.

        NaN where a needed cell is missing.
        """
        with np.errstate(all="ignore"):
            terms = terms_of(rows, self.dim, self.columns, self.design)
            slopes = self.coefficients
            if not self._has_slope.all():
                terms = terms[:, self._has_slope]
                slopes = slopes[..., self._has_slope]
            scores: FloatArray = self.intercept + terms @ slopes.T
        return scores[:, 0] if scores.shape[1:] == (1,) else scores

    def predict(self, rows: Any) -> Any:
        """Predict the label of each of rows (n, dim), (n,): number, mean count, or likeliest class.

        NaN where a needed cell is missing. If the model has text columns, rows must be a table, a path, or an array of objects.
        Text classes are returned as an array of objects, with None where a cell is missing.
        """
        scores = self.decision_function(rows)
        with np.errstate(all="ignore"):
            if not len(self.classes):
                return np.exp(scores) if self.loss == "poisson" else scores
            place = (
                np.argmax(scores, axis=1) if scores.ndim == 2 else (scores > 0.0).astype(np.int64)
            )
            missing = np.isnan(scores).any(axis=1) if scores.ndim == 2 else np.isnan(scores)
        if not (names := self.design.get("classes")):
            return np.where(missing, np.nan, self.classes[place])
        labels = np.array(names, dtype=object)[place]
        labels[missing] = None
        return labels

    def predict_proba(self, rows: Any) -> FloatArray:
        """Probabilities of the classes for rows (n, dim), (n, classes), of the logistic and the softmax loss."""
        if self.loss not in ("logistic", "softmax"):
            of = (
                "the logistic and the softmax loss"
                if len(self.classes)
                else "classes, and this model is of a number"
            )
            raise InputError(f"predict_proba is for {of}: use predict")
        scores = self.decision_function(rows)
        if scores.ndim == 2:
            return np.asarray(special.softmax(scores, axis=1))
        second = special.expit(scores)
        return np.column_stack([1.0 - second, second])

    def _estimate(self) -> tuple[str, Any]:
        return "coefficients", self.coefficients.ravel()


@value_class
class TrainingResult(LinearModel):
    """A released linear model of a label, or of the log-odds of the second of two classes.

    A part is the intercept or a coefficient. "heavy_tail": a few distant rows dominate, and noisy counts cannot show all of them.
    "shifted": public rows have another distribution (`public_drift` above 2, a released mean outside their range, or categories
    that none of them has), and were not pooled. "few_rows": too few public rows for the number of coefficients, or directions in
    which private rows hardly vary; with tails="light", and for the Huber loss, a term that few public rows support. "unresolved":
    noise hides the norms of the scores. "constant": no public row differs in the column, whose coefficient is NaN, its interval
    infinite, and its part in a prediction 0. "collinear": a combination of columns is constant in public rows, and private ones
    do not show that it varies. "one_class" and "separated": private rows have one of the classes alone, or are told apart nearly
    without error; intervals then have no end on the far side of zero. "exact_fit": labels are linear in the columns, up to
    rounding. "few_public_rows" for all parts if there are fewer than two public rows per coefficient (five for classes), or, of
    which so few have labels, fewer than one (with tails="light": if three have labels): the scale of residuals and how close a step
    comes to the optimum are then hardly known: no intervals (NaN).
    "wide": the public rows alone were predicted to be more accurate.

    Attributes
    ----------
    coefficients : (terms,) float64
        One for each of `terms`, in units of the label (or of log-odds) per unit of the column. Those of the levels of a column are
        differences from the average of the public rows, or from the level of `reference=`, which has 0 and no interval (NaN).
    intercept : float
        The prediction if all terms are zero.
    covariance, noise_covariance : (1 + terms, 1 + terms) float64
        Error covariance of `interval_center` from sampling of public and private rows, privacy noise and the bias of clipping; and
        its part from the noise. `coefficients` and `intercept`, an average of posteriors, spread less.
    public_coefficients, public_intercept, public_covariance
        The same from the public rows alone, at no privacy cost; where they have no labels, zero slopes and their prior.
    rows_error : (1 + terms,) float64
        Standard errors of [intercept, coefficients] relative to the exact fit to the private rows, without their sampling error.
    interval_center, tail_below, tail_above : (1 + terms,) float64
        Intervals of [intercept, coefficients] are centered here: least squares, or maximum likelihood, of the private rows, pooled
        with public rows if they agree. The tails extend them for distant rows, which noise partly hides; they are zero for public
        rows alone. With tails="light" they are zero too, and the center is the estimate. The center of a reference level is NaN.
    method, loss : str
        The method and loss that were used.
    terms : tuple of str
        Terms of the linear predictor: columns, indicators of missing cells, and levels of categories ("month=2"). A column that
        is constant in the public rows has no term, or one with a coefficient of NaN in a TrainingResult.
    classes : (k,) float64
        The labels of a model of classes, else empty; 0, 1, ... for texts, which are stored in `design`.
    design : mapping
        How the terms are computed from columns: "texts" has the categories of each text column, "classes" those of a text
        label, "reference" the levels that others are compared with, and "average" the shares of their columns' levels in public
        rows, which stand for a level that is not listed. Without "source" the terms are the columns.
    public_drift : float
        Factor by which the variance of the public fit had to be enlarged to agree with the private rows; 1 if they agree.
    rows_behind : (terms,) float64
        Effective number of public rows that determine a least-squares coefficient: about a third of them for normal columns.
    predicted_excess, public_excess : float
        Excess of the mean squared error (log-loss, Huber loss) over that of the best coefficients, for the estimate and for the
        public rows alone, from released scores: within a factor of two of the true one in the median, but no bound, and about the
        rows within the clip where a few rows far out matter. Where no scores are released (public rows alone, tails="light", the
        Huber loss, few public rows) they are predicted before anything is spent: with no more public rows than coefficients, the
        fit interpolates them and the residual variance is not identified: these are then guesses, some of them far too small.
    constant_excess : float or None
        The same for a constant, the intercept of public labels: the estimate is "fallback" if its own excess is no smaller.
        None where no scores are released.
    residual_std : float
        Standard deviation of a new label about its prediction; zero for classes.
    label_quantiles : (k,) float64
        Quantiles at j / (k + 1), j = 1 ... k, of the prediction errors of public labels, in units of their standard deviation
        under a normal law. At most 200; none for classes, or if all public labels are equal.

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

    coefficients: FloatArray = array("terms", missing=math.nan)
    intercept: float
    covariance: FloatArray = array("all", "all")
    noise_covariance: FloatArray = array("all", "all")
    rows_error: FloatArray = array("all")
    public_coefficients: FloatArray = array("terms", missing=math.nan)
    public_intercept: float
    public_covariance: FloatArray = array("all", "all")
    public_drift: float
    rows_behind: FloatArray = array("terms")
    predicted_excess: float
    public_excess: float
    residual_std: float
    label_quantiles: FloatArray = array("label_quantiles")

    def widened(self, k: int) -> TrainingResult:
        """See `Value.widened`."""
        sampling = self.covariance - self.noise_covariance
        covariance = self.noise_covariance + k * sampling
        return dataclasses.replace(super().widened(k), covariance=covariance)

    def _fits_together(self) -> bool:
        p = len(self.terms)
        return (
            super()._fits_together()
            and len(self.covariance) == len(self.part_reasons) == p + 1
            and bool(np.all(self.tail_below >= 0.0) and np.all(self.tail_above >= 0.0))
            and len(self.classes) in (0, 2)
            and bool(np.all(np.diff(self.label_quantiles) >= 0.0))
            and "source" in self.design
        )

    @property
    def _known(self) -> float:
        """1, or NaN if there are too few public rows for intervals."""
        return np.nan if Reason.FEW_PUBLIC_ROWS in self.reasons else 1.0

    @property
    def standard_error(self) -> FloatArray:
        """Standard error of each coefficient, (terms,); NaN with "few_public_rows", and for a "constant" or a reference level."""
        std = np.sqrt(np.diag(self.covariance)[1:]) * self._known
        return np.where(self._is_estimated, std, np.nan)

    @property
    def _is_estimated(self) -> Any:
        """Which terms have a coefficient that is neither missing nor zero by definition, (terms,)."""
        return self._has_slope & ~self._is_reference

    @property
    def intercept_error(self) -> float:
        """Standard error of the intercept, including the bias of clipping; NaN if there are "few_public_rows"."""
        return float(np.sqrt(self.covariance[0, 0]) * self._known)

    @property
    def privacy_share(self) -> float:
        """Share of the coefficients' variance due to privacy noise, averaged over the coefficients."""
        estimated = np.append(False, self._is_estimated)
        noise = np.diag(self.noise_covariance)[estimated]
        return float(np.mean(noise / np.diag(self.covariance)[estimated]))

    def confidence_interval(
        self, level: float = 0.95, *, of: Literal["population", "rows"] = "population"
    ) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends, (terms,) each, of an interval for every coefficient.

        With `of` "rows", intervals are for least squares, or maximum likelihood, of the private rows, and include privacy noise,
        clipping of distant rows, and the noise of the curvature. With "population", they also include sampling error: the sandwich
        estimate, from released squares of scores, if noise leaves enough of these; otherwise (always under `PureDP`) the estimate
        for homoscedastic residuals: if their variance depends on a column, that column's interval may then be a seventh too short
        for the population. With tails="light" and for the Huber loss, both include sampling of public and private rows and the
        known noise, under a normal law; skewed labels bias the intercept most, which `intercept_error` includes. NaN if there are
        "few_public_rows", and for a reference level.
        """
        rows = validation.choice("of", of, ("population", "rows")) == "rows"
        lower, upper = self._ends(validation.confidence_level(level), rows=rows)
        return lower[1:], upper[1:]

    def _ends(self, level: float, *, rows: bool = False) -> tuple[FloatArray, FloatArray]:
        """Return the interval ends of [intercept, coefficients]."""
        std = (self.rows_error if rows else np.sqrt(np.diag(self.covariance))) * self._known
        return self._ends_about(self._with_intercept, std, level)

    def prediction_interval(self, rows: Any, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends, (n,) each, of an interval for the label of a new row.

        It accounts for heavy tails and skew by the quantiles of leave-one-out prediction errors of public rows, with equal shares
        outside on either side. That needs 39 public rows for .95 and 199 for .99; with fewer, and beyond .99, each end is the
        farther of the normal quantile and the most extreme of `label_quantiles`. It assumes that new rows are distributed like
        the public ones. NaN if there are "few_public_rows".
        """
        if self.loss == "logistic":
            raise InputError(
                "prediction_interval is for labels that are numbers: use predict_proba"
            )
        terms = terms_of(rows, self.dim, self.columns, self.design)
        terms[:, ~self._has_slope] = 0.0
        with_one = np.hstack([np.ones((len(terms), 1)), terms])
        middle = self.predict(rows)
        variance = np.einsum("ij,jk,ik->i", with_one, self.covariance, with_one)
        if Reason.SHIFTED not in self.reasons:
            # In directions that noise dominates, the public fit gives a tighter bound on the error of a prediction.
            alone_slopes = np.where(self._has_slope, self.public_coefficients, 0.0)
            away = middle - terms @ alone_slopes - self.public_intercept
            alone = np.einsum("ij,jk,ik->i", with_one, self.public_covariance, with_one)
            variance = np.fmin(variance, alone + away**2)
        level = validation.confidence_level(level)
        known = self.label_quantiles
        outside = math.floor((1.0 - level) / 2.0 * (len(known) + 1) + 1e-9)
        upper = max(normal_quantile(0.5 + level / 2.0), float(np.abs(known).max(initial=0.0)))
        lower, upper = (known[outside - 1], known[-outside]) if outside >= 1 else (-upper, upper)
        unit = np.sqrt(variance + self.residual_std**2) * self._known
        return middle + lower * unit, middle + upper * unit

    @property
    def _scale(self) -> FloatArray:
        return np.sqrt(np.diag(self.covariance))

    @property
    def _public_scale(self) -> FloatArray:
        return np.sqrt(np.diag(self.public_covariance))

    def _public_ends(self, level: float) -> tuple[FloatArray, FloatArray]:
        public = _flat_with(self.public_intercept, self.public_coefficients)
        width = normal_quantile(0.5 + level / 2.0) * self._public_scale * self._known
        return public - width, public + width

    def _facts(self, level: float) -> Facts:
        odds = ""
        if len(self.classes) == 2:
            texts = self.design.get("classes")
            first, second = map(repr, texts) if texts else (f"{each:g}" for each in self.classes)
            odds = f": log-odds of {second} against {first}"
        unit = {"logistic": "log-loss", "huber": "mean Huber loss"}.get(
            self.loss, "mean squared error"
        )
        share = (
            f"; noise for privacy is {self.privacy_share:.0%} of the variance"
            if self.privacy_share > 0.0
            else ""
        )
        together = f"private and public rows together{share}"
        alternative = f"public rows alone {self.public_excess:.3g}"
        if not self._has_public_fit:
            together = f"private rows, since no public labels are used{share}"
            alternative = "no public labels to fit"
        predicted = (
            f"{unit} {self._about} {self.predicted_excess:.3g} above the best, "
            f"{alternative}{self._of_constant}"
        )
        details = [
            (
                "Interval",
                f"{percent(level)}: sampling, noise, and what the clip of rows far out may hide",
            ),
            ("Method", f"{self.method}, {self.loss} loss{odds}"),
            *self._differences,
            ("Predicted", predicted),
            ("Estimate", "public rows alone" if self.method == "throw_away" else together),
        ]
        if np.isnan(self._known):
            needed = "five" if self.loss == "logistic" else "two"
            terms = len(self.terms) + 1
            # The public fit interpolates the rows, so that it does not show the residual variance.
            guessed = (
                "; what was predicted is a guess, and may be far too small"
                if self.n_pub <= terms
                else ""
            )
            if self.n_pub == 2 and self.method == "throw_away":
                guessed = (
                    '; two do not say how large anything is, so that method="auto" spends nothing'
                )
            text = f"{self.n_pub:,} for {terms:,} coefficients, and intervals need {needed} for each{guessed}"
            details.append(("Few public rows", text))
        if self.public_drift > 1.0:
            text = f"by {self.public_drift:.3g} times the variance that chance explains"
            details.append(("Drift", f"public rows disagree with private ones, {text}"))
        return details


# Models trained by noisy gradients.


@value_class
class DescentResult(LinearModel):
    """A released linear model with one or several outputs; with intervals for classes with the softmax loss.

    Models from noisy gradients have no intervals: the error of their coefficients is predicted, not measured. With intervals, a
    part is an intercept or a coefficient, class by class, as for `TrainingResult`; without intervals there are no parts.

    Attributes
    ----------
    coefficients : (outputs, terms) float64
        One row for each output: a single one, or one for each class of the softmax loss. In the units of the columns.
    intercept : (outputs,) float64
        The scores if all terms are zero.
    public_coefficients, public_intercept
        The same from the public rows alone, at no privacy cost.
    method, loss : str
        The method and loss that were used.
    terms : tuple of str
        Terms of the linear predictor: columns, indicators of missing cells, and levels of categories ("month=2"). A column that
        is constant in the public rows has no term, or one with a coefficient of NaN in a TrainingResult.
    classes : (k,) float64
        The labels of a model of classes, else empty; 0, 1, ... for texts, which are stored in `design`.
    design : mapping
        How the terms are computed from columns: "texts" has the categories of each text column, "classes" those of a text
        label, "reference" the levels that others are compared with, and "average" the shares of their columns' levels in public
        rows, which stand for a level that is not listed. Without "source" the terms are the columns.
    standard_error, interval_center, tail_below, tail_above : (outputs * (1 + terms),) float64
        For [intercept, coefficients], class by class, as for `TrainingResult`: intervals are centered at the maximum likelihood of
        the private rows, pooled with public rows if they agree, and include sampling. Scores of classes are identified up to a
        common constant, so the coefficients of each term sum to zero over classes. NaN for a reference level. Empty for a gradient
        method and for public rows alone.
    weights : (size,) float64
        The weights in the units of the fit, for `start=` of a further call.
    steps : int
        Number of steps.
    step_size, clip_norm, priv_weight : float
        The values that were used, in the units of the fit.
    batch_rows : int
        (Expected) number of private rows per step.
    noise_std : float
        Standard deviation of the noise on the *sum* of clipped gradients, in the units of the fit.
    predicted_excess, public_excess : float
        Excess of the loss (of the mean squared error, for the squared loss) over that of the best coefficients, for the method and
        for the public fit: from released gradients and public rows together, or for the softmax loss by "newton" from released
        scores, as for `TrainingResult`. From public rows alone where no gradient is released; None where the loss has no public
        fit.
    constant_excess : float or None
        The same for the best constant (softmax by "newton": the log-odds of public classes): the estimate is "fallback" if its own
        excess is no smaller. None where all is predicted from public rows.

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

    coefficients: FloatArray = array("outputs", "terms")
    intercept: FloatArray = array("outputs")
    public_coefficients: FloatArray = array("outputs", "terms")
    public_intercept: FloatArray = array("outputs")
    standard_error: FloatArray = array("all", missing=math.nan, sampling=True)
    weights: FloatArray = array("size")
    steps: int
    step_size: float
    clip_norm: float
    priv_weight: float
    batch_rows: int
    noise_std: float
    predicted_excess: float | None
    public_excess: float | None

    def _fits_together(self) -> bool:
        outputs = len(self.coefficients)
        parts = len(self.part_reasons)
        together = (
            parts in (0, outputs * (len(self.terms) + 1)) and len(self.interval_center) == parts
        )
        return together and outputs in (1, len(self.classes) or 1) and super()._fits_together()

    def confidence_interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends, (outputs, terms) each, of an interval for every coefficient; NaN where there are none."""
        lower, upper = self._ends(validation.confidence_level(level))
        return lower[:, 1:], upper[:, 1:]

    def _ends(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Return the interval ends of [intercept, coefficients], (outputs, 1 + terms) each."""
        known = np.column_stack([self.intercept, self.coefficients])
        if not self.part_reasons:
            return np.full_like(known, np.nan), np.full_like(known, np.nan)
        lower, upper = self._ends_about(known.ravel(), self.standard_error, level)
        return lower.reshape(known.shape), upper.reshape(known.shape)

    def _table(self, level: float) -> Table:
        if self.part_reasons or not self._has_outputs:
            return table_of(self, level)
        numbers = np.column_stack([self.intercept, self.coefficients]).tolist()
        heads = [f"class {each}" for each in self._class_names]
        terms = ("intercept", *self.terms)
        return Table("term", terms, list(zip(heads, numbers, strict=True)))

    @property
    def _no_intervals(self) -> str:
        """Why there are no intervals, and what to pass for them if the loss has Newton steps."""
        if self.loss in (*get_args(StepwiseLoss), "softmax"):
            return f'none by {self.method}: pass method="newton", which has them if public rows are enough'
        return f"none: only Newton steps have them, and the {self.loss} loss has no such steps"

    def _facts(self, level: float) -> Facts:
        batch = (
            f"{self.batch_rows:,} of {self._most_rows:,} rows"
            if self.batch_rows < self._most_rows
            else "all rows"
        )
        made = f"{self.steps:,} step{'s' if self.steps != 1 else ''} over {batch}"
        if self.method == "exponential":  # the exponential mechanism has no steps or gradients
            made = "one choice among models that public rows suggest"
        details = [
            ("Method", f"{self.method}, {self.loss} loss" + (f", {made}" if self.steps else ""))
        ]
        details += self._differences
        if self.steps and self.method not in ("exponential", "newton"):
            weights = f"private gradient {self.priv_weight:.3g}, public gradient {1.0 - self.priv_weight:.3g}"
            details.append(("Weights", weights))
        if not self.part_reasons:
            details.append(("Intervals", self._no_intervals))
        if self.predicted_excess is not None and self.public_excess is not None:
            text = (
                f"loss {self._about} {self.predicted_excess:.3g} above the best, "
                f"public rows alone {self.public_excess:.3g}{self._of_constant}"
            )
            details.append(("Predicted", text))
        return details
