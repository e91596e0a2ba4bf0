"""Linear models: regression of a number, and of one of two classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin

from fastpubpriv._types import FloatArray
from fastpubpriv.columns import MISSING, NUMBER
from fastpubpriv.errors import InputError
from fastpubpriv.sklearn.base import NEEDS_PUBLIC, PublicPrivateEstimator
from fastpubpriv.training.train import linear_regression, logistic_regression


@dataclass(kw_only=True, eq=False, repr=False)
class _SemiPrivateLinear(PublicPrivateEstimator):
    """What both have: the method, what is stated of columns, and coefficients in the columns of the table."""

    method: str = "auto"
    tails: str = "any"
    x_bounds: Any = None
    categories: Any = None
    weight_cap: float | None = None

    def _keep(self, result: Any) -> None:
        """One coefficient for each column: zero without spread in the public rows, NaN with categories, which have several."""
        coefficients = np.zeros(self.n_features_in_)
        terms = zip(result.design["source"], result.design["role"], result.coefficients, strict=True)
        for source, role, coefficient in terms:
            if role != MISSING:
                coefficients[source] = coefficient if role == NUMBER else np.nan
        self.coef_: Any = coefficients
        self.intercept_: Any = float(result.intercept)


@dataclass(kw_only=True, eq=False, repr=False)
class SemiPrivateLinearRegression(RegressorMixin, _SemiPrivateLinear):
    """Least squares from private rows and a few public ones (`fastpubpriv.linear_regression`).

    Parameters
    ----------
    {linear_fit_budget}
    method, tails, x_bounds, y_bounds, categories, y_scale, weight_cap
        As in `linear_regression`.
    {ledger_file, test_seed}

    Attributes
    ----------
    coef_ : (d,) float64
        NaN for a column with categories: `result_.coefficients` has one for each of `result_.terms`.
    intercept_ : float
    result_ : TrainingResult
        The released result, with standard errors and intervals.

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

    def fit(
        self, X: Any, y: Any, *, X_pub: Any = None, y_pub: Any = None, weights_pub: Any = None, weights_priv: Any = None
    ) -> Self:
        """Spend the budget on private rows X (n, d) with labels y (n,), beside public ones.

        Public rows may have weights (m,). Private rows may have them too, (n,), up to `weight_cap`; then public ones must.
        """
        _check_labels(X_pub, y_pub)
        result = self._spend(
            X,
            X_pub,
            lambda **given: linear_regression(
                X, y, x_pub=X_pub, y_pub=y_pub, weights_pub=weights_pub, weights_priv=weights_priv,
                weight_cap=self.weight_cap, method=self.method, tails=self.tails, x_bounds=self.x_bounds, y_bounds=self.y_bounds,
                categories=self.categories, y_scale=self.y_scale, **given,
            ),
        )  # fmt: skip
        self._keep(result)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Predicted labels, (n,)."""
        return cast(FloatArray, self._ask("predict", X))


@dataclass(kw_only=True, eq=False, repr=False)
class SemiPrivateLogisticRegression(ClassifierMixin, _SemiPrivateLinear):
    """Logistic regression of two classes from private rows and a few public ones (`fastpubpriv.logistic_regression`).

    Parameters
    ----------
    {linear_fit_budget}
    classes : sequence of two labels, optional
        The two classes, in public; by default the two labels of the public rows. A private row with another label counts as
        missing.
    class_weight : mapping of each class to a number above 0, or "public", optional
        As in `logistic_regression`.
    method, tails, x_bounds, categories, weight_cap
        As in `logistic_regression`.
    {ledger_file, test_seed}

    Attributes
    ----------
    classes_ : (2,)
    coef_ : (1, d) float64
        Of the log-odds of the second class.
    intercept_ : (1,) float64
    result_ : TrainingResult

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
        """Two classes only."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(
        self, X: Any, y: Any, *, X_pub: Any = None, y_pub: Any = None, weights_pub: Any = None, weights_priv: Any = None
    ) -> Self:
        """Spend the budget on private rows X (n, d) with labels y (n,), beside public ones.

        Public rows may have weights (m,). Private rows may have them too, (n,), up to `weight_cap`; then public ones must.
        """
        _check_labels(X_pub, y_pub)
        classes = np.unique(np.asarray(y_pub)) if self.classes is None else np.asarray(self.classes)
        if classes.shape != (2,) or any(each != each for each in classes.tolist()) or classes[0] == classes[1]:
            raise InputError("two classes are needed: pass classes=(first, second), or public rows with two labels")
        result = self._spend(
            X,
            X_pub,
            lambda **given: logistic_regression(
                X, _coded(y, classes), x_pub=X_pub, y_pub=_coded(y_pub, classes), classes=(0.0, 1.0),
                method=self.method, tails=self.tails, weights_pub=weights_pub, weights_priv=weights_priv,
                weight_cap=self.weight_cap, x_bounds=self.x_bounds, categories=self.categories,
                class_weight=_coded_weights(self.class_weight, classes),
                **given,
            ),
        )  # fmt: skip
        self._keep(result)
        self.classes_ = classes
        self.coef_, self.intercept_ = self.coef_[None, :], np.array([self.intercept_])
        return self

    def predict(self, X: Any) -> Any:
        """The likelier class of each row, (n,)."""
        rows = self._rows(X)
        return self.classes_[(self.result_.decision_function(rows) > 0.0).astype(np.intp)]

    def predict_proba(self, X: Any) -> FloatArray:
        """The probability of each class for each row, (n, 2)."""
        return cast(FloatArray, self._ask("predict_proba", X))

    def decision_function(self, X: Any) -> FloatArray:
        """Log-odds of the second class, (n,)."""
        return cast(FloatArray, self._ask("decision_function", X))


def _check_labels(x_pub: Any, y_pub: Any) -> None:
    if x_pub is None:
        raise InputError(NEEDS_PUBLIC)
    if y_pub is None:
        raise InputError("fit needs the labels of the public rows: pass y_pub= beside X_pub=")


def _coded_weights(given: Any, classes: Any) -> Any:
    """The weights of the codes 0 and 1; anything else is left for `logistic_regression` to refuse."""
    if not isinstance(given, Mapping):
        return given
    if set(given) != set(np.asarray(classes).tolist()):
        raise InputError(f"class_weight must have a number for each of the classes {classes[0]!s} and {classes[1]!s}")
    return {code: given[label] for code, label in zip((0.0, 1.0), np.asarray(classes).tolist(), strict=True)}


def _coded(labels: Any, classes: Any) -> FloatArray:
    """0 and 1 for the two classes, NaN (a missing label) for everything else: what a label holds never raises."""
    array = np.asarray(labels)
    return np.where(array == classes[0], 0.0, np.where(array == classes[1], 1.0, np.nan))
