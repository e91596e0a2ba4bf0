"""Linear and logistic regression, with public rows and their labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from fastpubpriv._types import FitMethod, FloatArray, Tails
from fastpubpriv.errors import InputError
from fastpubpriv.sklearn.public_private import NEEDS_PUBLIC, PublicPrivateEstimator
from fastpubpriv.sources import private_rows
from fastpubpriv.sources.arrow_streams import in_memory
from fastpubpriv.sources.bound import BoundTable
from fastpubpriv.sources.column_names import MISSING, NUMBER
from fastpubpriv.sources.open import cells_of_column, public_rows, without_column
from fastpubpriv.threads.guard import naming
from fastpubpriv.training.train import linear_regression, logistic_regression


@dataclass(kw_only=True, eq=False, repr=False)
class _SemiPrivateLinear(PublicPrivateEstimator):
    """Base of both regressions: the method, public statements about columns, and coefficients by column of the table."""

    method: FitMethod = "auto"
    tails: Tails = "any"
    x_bounds: Any = None
    categories: Any = None
    reference: Any = None
    weight_cap: float | None = None
    y_pub: Any = None

    __metadata_request__fit = {"X_pub": True, "y_pub": True, "weights_pub": True}  # noqa: RUF012

    def _model(self, y: Any, y_pub: Any) -> tuple[Callable[..., Any], dict[str, Any], Any]:
        """Return the function that fits the model, its labels, and the classes that they encode or None."""
        return linear_regression, {"y_priv": y, "y_pub": y_pub}, None

    def _model_of_table(self, table: BoundTable, label: str) -> tuple[Callable[..., Any], Any]:
        """Return the function that fits the model to the column `label` of a table, and its classes or None."""
        return linear_regression, None

    def _rows(self, x: Any) -> Any:
        """Return the rows to predict for; if there are columns of text, unchanged, for the result to match and encode them."""
        check_is_fitted(self)
        return x if self.result_.design.get("texts") else super()._rows(x)

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        X_pub: Any = None,
        y_pub: Any = None,
        weights_pub: Any = None,
        weights_priv: Any = None,
    ) -> Self:
        """Spend the budget on private rows X (n, d) with labels y (n,), with public rows X_pub (m, d) and labels y_pub (m,).

        Public labels may be missing (NaN), or all be left out.
        Public rows may have weights (m,). Private rows may have weights (n,), up to `weight_cap`, if public ones do. The name of a
        column of X, or of X_pub, stands for its numbers; columns with such names are no features.
        """
        public, public_labels = self._public(X_pub=X_pub, y_pub=y_pub)
        weights = {"weights_pub": weights_pub, "weights_priv": weights_priv}
        if isinstance(X, BoundTable):
            return self._fit_table(X, y, public, public_labels, weights)
        if public is None:
            raise InputError(NEEDS_PUBLIC)
        named = [name for name in weights.values() if isinstance(name, str)]
        if isinstance(weights_priv, str):
            with naming("weights_priv"):
                X = in_memory(X)
                weights["weights_priv"] = private_rows(X, columns=[weights_priv])
        if isinstance(weights_pub, str):
            cells = public_rows(public, columns=[weights_pub], argument="weights_pub")
            weights["weights_pub"] = cells[:, 0]
        for name in named:
            X = without_column(X, name)
            public = without_column(public, name)
        call, labels, classes = self._model(y, public_labels)
        self._spend(call, X, public, **weights, **labels)
        return self._take_coefficients(classes)

    def _fit_table(
        self, table: BoundTable, label: Any, public: Any, y_pub: Any, weights: dict[str, Any]
    ) -> Self:
        """Fit to the column `label` of a table, whose public rows have that column too."""
        if not isinstance(label, str):
            raise InputError("y must be the name of the column of labels beside a PrivateTable")
        call, classes = self._model_of_table(table, label)
        of_classes = {} if classes is None else {"classes": classes}
        result = self._spend(call, table, public, y_pub=y_pub, label=label, **weights, **of_classes)
        if classes is not None:
            classes = np.asarray(result.design.get("classes") or result.classes)
        return self._take_coefficients(classes)

    def _take_coefficients(self, classes: Any) -> Self:
        """Set the coefficients of the released result, and the classes if any."""
        result = self.result_
        # One coefficient for each column: zero without spread in the public rows, NaN for categories, which have several.
        coefficients: Any = np.zeros(self.n_features_in_)
        terms = zip(
            result.design["source"], result.design["role"], result.coefficients, strict=True
        )
        for source, role, coefficient in terms:
            if role == MISSING or (role == NUMBER and np.isnan(coefficient)):
                continue
            coefficients[source] = coefficient if role == NUMBER else np.nan
        self.coef_, self.intercept_ = coefficients, result.intercept
        if classes is not None:
            self.classes_ = classes
            self.coef_ = coefficients[None, :]
            self.intercept_ = np.array([result.intercept])
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class SemiPrivateLinearRegression(RegressorMixin, _SemiPrivateLinear):
    """Least squares from private rows and a few public ones (`fastpubpriv.linear_regression`).

    Parameters
    ----------
    budget : ZCDP, ApproxDP or PureDP
        What one fit costs.
    X_pub : (m, d) array-like or frame, optional
        Public rows of every fit, here or in `fit`, not in both; copies and pickles of the estimator hold them. In the units in
        which private rows reach this estimator: behind a transformer of a pipeline, pass them to `fit` to have them transformed
        too.
    y_pub : (m,) array-like, optional
        Labels of these public rows, in the same place; missing (NaN) where unknown.

    method, tails, x_bounds, y_bounds, categories, reference, y_scale, weight_cap
        As in `linear_regression`.

    ledger : str, optional
        Path of a ledger file.
    random_state : int, optional
        For tests only.

    Attributes
    ----------
    coef_ : (d,) float64
        NaN for a column with categories: `result_.coefficients` has one for each of `result_.terms`.
    intercept_ : float
    result_ : TrainingResult
        The released result, with standard errors and intervals.

    See Also
    --------
    SemiPrivateLogisticRegression : a label of two classes.
    fastpubpriv.linear_regression : the function, with all of its arguments.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ZCDP
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X @ [2.0, -1.0] + rng.normal(size=5000)
    >>> model = SemiPrivateLinearRegression(ZCDP(0.5)).fit(X[100:], y[100:], X_pub=X[:100], y_pub=y[:100])
    >>> model.coef_.round().tolist()
    [2.0, -1.0]
    """

    y_bounds: tuple[float, float] | None = None
    y_scale: float | None = None

    def predict(self, X: Any) -> FloatArray:
        """Predicted labels, (n,)."""
        return cast(FloatArray, self._ask("predict", X))


@dataclass(kw_only=True, eq=False, repr=False)
class SemiPrivateLogisticRegression(ClassifierMixin, _SemiPrivateLinear):
    """Logistic regression of two classes from private rows and a few public ones (`fastpubpriv.logistic_regression`).

    Parameters
    ----------
    budget : ZCDP, ApproxDP or PureDP
        What one fit costs.
    classes : sequence of two labels, optional
        The two classes, public; by default the two labels of the public rows. Another label of a private row is treated as
        missing.
    X_pub : (m, d) array-like or frame, optional
        Public rows of every fit, here or in `fit`, not in both; copies and pickles of the estimator hold them. In the units in
        which private rows reach this estimator: behind a transformer of a pipeline, pass them to `fit` to have them transformed
        too.
    y_pub : (m,) array-like, optional
        Labels of these public rows, in the same place; missing (NaN) where unknown.

    class_weight : mapping of each class to a number above 0, or "public", optional
        As in `logistic_regression`.
    method, tails, x_bounds, categories, reference, weight_cap
        As in `logistic_regression`.

    ledger : str, optional
        Path of a ledger file.
    random_state : int, optional
        For tests only.

    Attributes
    ----------
    classes_ : (2,)
    coef_ : (1, d) float64
        Coefficients of the log-odds of the second class.
    intercept_ : (1,) float64
    result_ : TrainingResult

    See Also
    --------
    SemiPrivateLinearRegression : a label that is a number.
    fastpubpriv.logistic_regression : the function, with all of its arguments.
    fastpubpriv.train : more than two classes.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ZCDP
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = np.where(X[:, 0] + rng.logistic(size=5000) > 0, "late", "in time")
    >>> model = SemiPrivateLogisticRegression(ZCDP(0.5)).fit(X[200:], y[200:], X_pub=X[:200], y_pub=y[:200])
    >>> model.predict([[9.0, 0.0], [-9.0, 0.0]]).tolist()
    ['late', 'in time']
    """

    classes: Any = None
    class_weight: Any = None

    def __sklearn_tags__(self) -> Any:
        """Declare that there are two classes only."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _two_classes(self, labels: list[Any]) -> Any:
        """Return the classes of the estimator, or those among public labels; raise InputError unless there are two."""
        known = [label for label in labels if label is not None and label == label]
        classes = np.unique(known) if self.classes is None else np.asarray(self.classes)
        has_missing = any(label != label for label in classes.tolist())
        if classes.shape != (2,) or has_missing or classes[0] == classes[1]:
            raise InputError(
                "two classes are needed: pass classes=(first, second), or public rows with two labels"
            )
        return classes

    def _model_of_table(self, table: BoundTable, label: str) -> tuple[Callable[..., Any], Any]:
        cells = None if table.public is None else cells_of_column(table.public, label)
        return logistic_regression, self._two_classes(cells or []).tolist()

    def _model(self, y: Any, y_pub: Any) -> tuple[Callable[..., Any], dict[str, Any], Any]:
        classes = self._two_classes([] if y_pub is None else np.ravel(np.asarray(y_pub)).tolist())
        coded = {
            "y_priv": _coded(y, classes),
            "y_pub": None if y_pub is None else _coded(y_pub, classes),
            "classes": (0.0, 1.0),
        }
        weights = self.class_weight  # `logistic_regression` rejects invalid values
        if isinstance(weights, Mapping):
            first, second = classes.tolist()
            if set(weights) != {first, second}:
                raise InputError(
                    f"class_weight must have a number for each of the classes {first!s} and {second!s}"
                )
            weights = {0.0: weights[first], 1.0: weights[second]}
        return logistic_regression, {**coded, "class_weight": weights}, classes

    def predict(self, X: Any) -> Any:
        """More likely class of each row, (n,)."""
        rows = self._rows(X)
        return self.classes_[(self.result_.decision_function(rows) > 0.0).astype(np.intp)]

    def predict_proba(self, X: Any) -> FloatArray:
        """Probability of each class for each row, (n, 2)."""
        return cast(FloatArray, self._ask("predict_proba", X))

    def decision_function(self, X: Any) -> FloatArray:
        """Log-odds of the second class, (n,)."""
        return cast(FloatArray, self._ask("decision_function", X))


def _coded(labels: Any, classes: Any) -> FloatArray:
    """Return 0 and 1 for the two classes and NaN (a missing label) for everything else; the content of a label never raises."""
    array = np.asarray(labels)
    return np.where(array == classes[0], 0.0, np.where(array == classes[1], 1.0, np.nan))
