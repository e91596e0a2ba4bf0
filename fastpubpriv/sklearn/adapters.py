"""Estimators for scikit-learn's pipelines: `fit(X, y, X_pub=..., y_pub=...)`, private rows first, public rows as metadata,
which every estimator requests by default, or as parameters of the estimator, which need no metadata routing.

Needs scikit-learn 1.6 or newer (`pip install fastpubpriv[sklearn]`). Every fit spends its budget again: also a fit of a clone, and
every fit inside cross-validation or a grid search. With `ledger=` (the path of a ledger file) fits are debited and rejected beyond
its total; without one, every fit after the first of a process issues a PrivacyWarning with the total spent.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, cast

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    DensityMixin,
    OneToOneFeatureMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted, validate_data

from fastpubpriv import validation
from fastpubpriv._types import (
    CovarianceMethod,
    FitMethod,
    FloatArray,
    IntArray,
    MixtureMethod,
    Structure,
    Tails,
)
from fastpubpriv.errors import InputError, PrivacyWarning, warn
from fastpubpriv.gaussians.gaussian import estimate_gaussian
from fastpubpriv.mixtures.separated.separated_mixture import learn_separated_mixture
from fastpubpriv.privacy import Budget, Cost, Ledger
from fastpubpriv.privacy.budgets import short
from fastpubpriv.release.account import before_debit
from fastpubpriv.sources import private_rows
from fastpubpriv.sources.arrow_streams import in_memory, public_in_memory
from fastpubpriv.sources.bound import BoundTable
from fastpubpriv.sources.column_names import MISSING, NUMBER
from fastpubpriv.sources.open import (
    cells_of_column,
    labels_of_table,
    names_of_table,
    public_rows,
    without_column,
)
from fastpubpriv.threads.guard import naming
from fastpubpriv.training.train import linear_regression, logistic_regression

NEEDS_PUBLIC = (
    "fit needs public rows: pass X_pub= to the estimator, or to fit, of a Pipeline or a search with "
    "sklearn.set_config(enable_metadata_routing=True)"
)
SCORES = (
    "scores of private rows, as best_score_ and cv_results_ of a search, are exact numbers about these rows, and nothing protects "
    "them: keep them as private as the rows"
)

_counting = threading.Lock()
_spent: list[Budget] = []


def _searching() -> tuple[bool, bool]:
    """Return whether a fit is one of a cross-validation, and whether it is part of a search that refits on all rows."""
    frame = sys._getframe()
    fold = False
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_globals.get("__name__", "").startswith("sklearn.model_selection."):
            fold = fold or frame.f_code.co_name == "_fit_and_score"
            if getattr(frame.f_locals.get("self"), "refit", False):
                return fold, True
    return fold, False


@dataclass(kw_only=True, eq=False, repr=False)
class PublicPrivateEstimator(BaseEstimator):
    """Base of all estimators. Without private rows or an open ledger: clones and pickles hold public and released values only."""

    # Neighbors: replace one row of X (and its label). The rows of X_pub are public. Attributes whose names end in an underscore are
    # released.
    # of one fit; required, as it has no default
    budget: Budget | None = field(default=None, kw_only=False)
    ledger: str | None = None  # path of a ledger file from which every fit is debited
    random_state: int | None = None  # for tests: results with a seed are not private
    X_pub: Any = None  # public rows of all fits that are given none

    __metadata_request__fit = {"X_pub": True}  # noqa: RUF012  # no field: scikit-learn reads it
    _may_lack_public: ClassVar[bool] = False  # whether `fit` works without public rows

    def __sklearn_tags__(self) -> Any:
        """Allow missing cells in private rows, whose content never raises."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.non_deterministic = True
        return tags

    def _public(self, **given: Any) -> tuple[Any, ...]:
        """Return the public rows, and labels if named, of the estimator or else of `fit`; raise if both have them."""
        stated = {name: getattr(self, name) for name in given}
        in_fit = any(each is not None for each in given.values())
        in_estimator = any(each is not None for each in stated.values())
        if in_fit and in_estimator and any(given[name] is not stated[name] for name in given):
            raise InputError(
                f"the estimator has public rows, and fit is given others: pass {' and '.join(f'{name}=' for name in given)} to one "
                "of them"
            )
        return tuple(map(public_in_memory, (stated if in_estimator else given).values()))

    def _spend(self, call: Callable[..., Any], x: Any, x_pub: Any, **given: Any) -> Any:
        """Return call(x, x_pub=, ...) with the parameters that it shares, after the checks of a fit, and count the fit."""
        is_bound = isinstance(x, BoundTable)
        if is_bound:
            self._refuse_beside_table(X_pub=x_pub, **given)
        lacks_public = x.public is None if is_bound else x_pub is None
        if lacks_public and not self._may_lack_public:
            raise InputError(NEEDS_PUBLIC)
        if not isinstance(self.budget, Budget):
            raise InputError(
                "budget must be ZCDP(...), ApproxDP(...) or PureDP(...): what one fit may cost"
            )
        if self.ledger is not None and not isinstance(self.ledger, str):
            raise InputError(
                "ledger must be the path of a ledger file: an open ledger can be neither cloned nor pickled"
            )
        # Only the number and names of the columns are checked, where scikit-learn can tell them.
        if hasattr(self, "n_features_in_"):
            del self.n_features_in_
        if not is_bound:
            validate_data(self, x, skip_check_array=True)
        named_by_public = not hasattr(self, "n_features_in_")
        if named_by_public and x_pub is not None:
            self._take_features(x_pub)
        names = inspect.signature(call).parameters
        settings = {
            name: value for name, value in self.get_params(deep=False).items() if name in names
        }
        purchase = _Purchase(self.budget, is_bound or self.ledger is not None)
        with (
            contextlib.nullcontext()
            if self.ledger is None
            else Ledger.from_file(self.ledger) as ledger,
            before_debit(purchase.announce),
        ):
            self.result_: Any = call(x, x_pub=x_pub, **{**settings, **given, "ledger": ledger})
        purchase.warn_of_scores()
        if named_by_public and x_pub is None:
            self._take_released_features(self.result_.dim, self.result_.columns)
        elif named_by_public:
            self._order_features(self.result_.columns)
        return self.result_

    def _refuse_beside_table(self, **given: Any) -> None:
        """Raise InputError, before the debit, if public rows or a ledger are given beside a `PrivateTable`, which has them."""
        named = {**given, "ledger": self.ledger}
        for name in ("X_pub", "y_pub", "ledger"):
            if named.get(name) is not None:
                raise InputError(
                    f"a PrivateTable has public rows, their labels and a ledger: leave {name}= out of the estimator and of fit"
                )

    def _take_features(self, x_pub: Any) -> None:
        """Set the number of columns, and names that are texts, from the public rows alone."""
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        names = names_of_table(x_pub)
        # A column of text has a name, so that only rows without names are read.
        self.n_features_in_: int = public_rows(x_pub).shape[1] if names is None else len(names)
        labels = labels_of_table(x_pub)
        if labels is not None and all(isinstance(label, str) for label in labels):
            self.feature_names_in_: Any = np.array(labels, dtype=object)

    def _take_released_features(self, dim: int, columns: tuple[str, ...] | None) -> None:
        """Set the number of columns, and their names if any, from a result without public rows."""
        self.n_features_in_ = dim
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if columns is not None:
            self.feature_names_in_ = np.array(columns, dtype=object)

    def _order_features(self, columns: tuple[str, ...] | None) -> None:
        """Put the names in the order of the private rows' `columns`; remove them if these have no such names."""
        if not hasattr(self, "feature_names_in_"):
            return
        if columns is None or set(columns) != set(self.feature_names_in_):
            del self.feature_names_in_
        else:
            self.feature_names_in_ = np.array(columns, dtype=object)

    def _rows(self, x: Any) -> FloatArray:
        """Return the rows to predict for, in the columns of the fit; this call does not protect them."""
        check_is_fitted(self)
        dimensions = len(getattr(x, "shape", ())) or (
            np.ndim(x) if isinstance(x, list | tuple) else 0
        )
        if dimensions > 1 or (dimensions == 1 and self.n_features_in_ > 1):
            checks: Any = {"reset": False, "dtype": np.float64, "ensure_all_finite": "allow-nan"}
            return cast(FloatArray, validate_data(self, x, **checks))
        # One column, or a source that scikit-learn does not read.
        names = getattr(self, "feature_names_in_", None)
        x = in_memory(x)
        rows = private_rows(x)
        if rows.columns is not None and names is not None:
            rows = private_rows(x, columns=names.tolist())
        if rows.dim != self.n_features_in_:
            raise InputError(
                f"X has {rows.dim} columns, and the rows of the fit had {self.n_features_in_}"
            )
        return np.concatenate([chunk.astype(np.float64) for chunk in rows.chunks()])

    def _ask(self, name: str, x: Any) -> Any:
        """Return the value of a method of the result for rows."""
        rows = self._rows(x)  # first, as it raises NotFittedError
        return getattr(self.result_, name)(rows)


class _Purchase:
    """The debit of one fit: it is counted, and its warnings come before it, so that as errors they lose no result."""

    def __init__(self, budget: Budget, has_ledger: bool) -> None:
        self._budget = budget
        self._has_ledger = has_ledger
        self._fold, self._search = _searching()
        self._warned_of_scores = False

    def announce(self) -> None:
        """Warn of repeated fits without a ledger and of scores; raise, and count nothing, if warnings are errors."""
        if self._has_ledger:
            self.warn_of_scores()
            return
        with _counting:
            _spent.append(self._budget)
            number = len(_spent)
            text = f"this is fit number {number} of this process without a ledger, and each spends its budget again, {_total()}"
        try:
            # Among the fits of a search only the last one warns, the refit on all rows.
            if number > 1 and not (self._fold and (self._search or number > 2)):
                warn(text, PrivacyWarning)
            self.warn_of_scores()
        except Warning:
            with _counting:
                _spent.remove(self._budget)
            raise

    def warn_of_scores(self) -> None:
        """Warn, once, that scores of private rows are not protected."""
        if self._fold != self._search and not self._warned_of_scores:
            self._warned_of_scores = True
            warn(SCORES, PrivacyWarning)


def _total() -> str:
    """Return what the fits without a ledger spend together, and what to do about it."""
    totals = []
    for notion in dict.fromkeys(map(type, _spent)):
        amounts = zip(*(each.amounts for each in _spent if type(each) is notion), strict=True)
        totals.append(short(Cost(notion, tuple(map(sum, amounts)))))  # type: ignore[arg-type]
    together = " and ".join(totals)
    return f"with this one {together} together: if they read the same rows, these add up. Pass ledger=PATH to count them"


class PublicPrivateScaler(OneToOneFeatureMixin, TransformerMixin, PublicPrivateEstimator):
    """Scaler of columns by a private mean and standard deviation (`fastpubpriv.estimate_gaussian` with a diagonal covariance).

    Transformed rows need the same protection as the input: only `mean_` and `scale_` are released. In a pipeline, have the
    public rows transformed like the private ones: `make_pipeline(..., transform_input=["X_pub"])`.

    Parameters
    ----------
    budget : ZCDP or ApproxDP
        What one fit costs.
    X_pub : (m, d) array-like or frame, optional
        Public rows of every fit, here or in `fit`, not in both; copies and pickles of the estimator hold them. In the units in
        which private rows reach this estimator: behind a transformer of a pipeline, pass them to `fit` to have them transformed
        too.

    ledger : str, optional
        Path of a ledger file.
    random_state : int, optional
        For tests only.

    Attributes
    ----------
    mean_, scale_ : (d,) float64
        A column without spread has scale 1.
    result_ : GaussianResult

    See Also
    --------
    SemiPrivatePCA : principal components in place of columns.
    fastpubpriv.estimate_gaussian : means and deviations as a result, with intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ZCDP
    >>> rows = np.random.default_rng(0).normal(100.0, 20.0, size=(5000, 2))
    >>> scaled = PublicPrivateScaler(ZCDP(0.5)).fit(rows[50:], X_pub=rows[:50]).transform(rows[50:])
    >>> bool(abs(scaled.std() - 1.0) < 0.1)
    True
    """

    def fit(self, X: Any, y: Any = None, *, X_pub: Any = None) -> Self:
        """Spend the budget on the private rows X (n, d), with the public rows X_pub (m, d)."""
        (public,) = self._public(X_pub=X_pub)
        result = self._spend(estimate_gaussian, X, public, structure="diagonal")
        scale = np.sqrt(np.diag(result.covariance))
        self.mean_, self.scale_ = result.mean, np.where(scale > 0.0, scale, 1.0)
        return self

    def transform(self, X: Any) -> FloatArray:
        """Rows less the mean, divided by the scale, (n, d)."""
        return cast(FloatArray, (self._rows(X) - self.mean_) / self.scale_)

    def inverse_transform(self, X: Any) -> FloatArray:
        """Scaled rows in the units of the columns, (n, d)."""
        return cast(FloatArray, np.asarray(X, dtype=np.float64) * self.scale_ + self.mean_)


@dataclass(kw_only=True, eq=False, repr=False)
class SemiPrivatePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PublicPrivateEstimator):
    """Principal components of a covariance learned from private rows and a few public ones (`fastpubpriv.estimate_gaussian`).

    Parameters
    ----------
    budget : ZCDP or ApproxDP
        What one fit costs.
    X_pub : (m, d) array-like or frame, optional
        Public rows of every fit, here or in `fit`, not in both; copies and pickles of the estimator hold them. In the units in
        which private rows reach this estimator: behind a transformer of a pipeline, pass them to `fit` to have them transformed
        too.

    n_components : int, optional
        Number of components; all by default.
    structure : str
        As in `estimate_gaussian`.

    ledger : str, optional
        Path of a ledger file.
    random_state : int, optional
        For tests only.

    Attributes
    ----------
    components_ : (k, d) float64
        Unit vectors; the largest entry of each is positive.
    explained_variance_, explained_variance_ratio_ : (k,) float64
    mean_ : (d,) float64
    result_ : GaussianResult

    See Also
    --------
    fastpubpriv.private_pca : directions within a ball, with intervals; needs no public rows.
    PublicPrivateScaler : standard units, without a rotation.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ZCDP
    >>> rows = np.random.default_rng(0).normal(size=(5000, 3)) * [9.0, 1.0, 1.0]
    >>> model = SemiPrivatePCA(ZCDP(0.5), n_components=1).fit(rows[50:], X_pub=rows[:50])
    >>> bool(model.components_[0, 0] > 0.99)
    True
    """

    n_components: int | None = None
    structure: Structure = "auto"

    def fit(self, X: Any, y: Any = None, *, X_pub: Any = None) -> Self:
        """Spend the budget on the private rows X (n, d), with the public rows X_pub (m, d)."""
        (public,) = self._public(X_pub=X_pub)
        if self.n_components is not None:
            validation.integer("n_components", self.n_components, minimum=1)
            X = in_memory(X)
            columns = X.n_features if isinstance(X, BoundTable) else private_rows(X).dim
            if self.n_components > columns:
                raise InputError(
                    f"n_components={self.n_components} is more than the {columns} columns"
                )
        result = self._spend(estimate_gaussian, X, public)
        values, vectors = np.linalg.eigh(result.covariance)
        order = np.argsort(values)[::-1][: self.n_components]
        components = vectors[:, order].T
        largest = np.take_along_axis(components, np.abs(components).argmax(axis=1)[:, None], axis=1)
        self.components_: FloatArray = components * np.sign(largest)
        self.explained_variance_ = values[order]
        self.explained_variance_ratio_ = values[order] / values.sum()
        self.mean_ = result.mean
        return self

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def transform(self, X: Any) -> FloatArray:
        """Coordinates of rows along the components, (n, k)."""
        return cast(FloatArray, (self._rows(X) - self.mean_) @ self.components_.T)

    def inverse_transform(self, X: Any) -> FloatArray:
        """Rows (n, d) from their coordinates along the components."""
        return cast(FloatArray, np.asarray(X, dtype=np.float64) @ self.components_ + self.mean_)


class _ReleasedDensity(DensityMixin, PublicPrivateEstimator):
    """Base of estimators with a released density, `_call`, whose fields of these names they take over."""

    _call: ClassVar[Callable[..., Any]]
    _released: ClassVar[tuple[str, ...]]

    def fit(self, X: Any, y: Any = None, *, X_pub: Any = None) -> Self:
        """Spend the budget on the private rows X (n, d), with the public rows X_pub (m, d) if any."""
        (public,) = self._public(X_pub=X_pub)
        result = self._spend(type(self)._call, X, public)
        for name in self._released:
            setattr(self, f"{name}_", getattr(result, name))
        return self

    def score_samples(self, X: Any) -> FloatArray:
        """Return the log density at each row, (n,)."""
        return cast(FloatArray, self._ask("log_prob", X))

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log density of the rows. On private rows this is not private."""
        return float(np.mean(self.score_samples(X)))


@dataclass(kw_only=True, eq=False, repr=False)
class PublicPrivateGaussian(_ReleasedDensity):
    """Mean and covariance from private rows and a few public ones (`fastpubpriv.estimate_gaussian`).

    Parameters
    ----------
    budget : ZCDP or ApproxDP
        What one fit costs.
    bounds : (lowest, highest), optional
        Ranges of the features, as in `estimate_gaussian`.
    X_pub : (m, d) array-like or frame, optional
        Public rows of every fit, here or in `fit`, not in both; copies and pickles of the estimator hold them. In the units in
        which private rows reach this estimator: behind a transformer of a pipeline, pass them to `fit` to have them transformed
        too.

    method, structure : str
        As in `estimate_gaussian`.

    ledger : str, optional
        Path of a ledger file.
    random_state : int, optional
        For tests only.

    Attributes
    ----------
    mean_ : (d,) float64
    covariance_ : (d, d) float64
    result_ : GaussianResult
        The released result, with its reasons and the record of the spent budget.

    See Also
    --------
    PublicPrivateGaussianMixture : several components.
    fastpubpriv.estimate_gaussian : the function, with all of its arguments.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ZCDP
    >>> rows = np.random.default_rng(0).normal(5.0, 1.0, size=(5000, 2))
    >>> model = PublicPrivateGaussian(ZCDP(0.5)).fit(rows[50:], X_pub=rows[:50])
    >>> bool(np.abs(model.mean_ - 5.0).max() < 0.1)
    True
    """

    method: CovarianceMethod = "auto"
    structure: Structure = "auto"
    bounds: Any = None

    _call = staticmethod(estimate_gaussian)
    _released = ("mean", "covariance")

    def sample(self, n_samples: int = 1, random_state: Any = None) -> FloatArray:
        """Synthetic rows (n_samples, d), without further privacy cost."""
        check_is_fitted(self)
        return cast(FloatArray, self.result_.sample(n_samples, random_state=random_state))


@dataclass(kw_only=True, eq=False, repr=False)
class PublicPrivateGaussianMixture(_ReleasedDensity):
    """Separated Gaussian components from private rows and a few public ones, or none (`fastpubpriv.learn_separated_mixture`).

    Without public rows the budget must be ApproxDP, or the bounds finite in every column.

    Parameters
    ----------
    budget : ZCDP or ApproxDP
        What one fit costs.
    bounds : (lowest, highest), optional
        Ranges of the columns, as in `learn_separated_mixture`.
    X_pub : (m, d) array-like or frame, optional
        Public rows of every fit, here or in `fit`, not in both; copies and pickles of the estimator hold them. In the units in
        which private rows reach this estimator: behind a transformer of a pipeline, pass them to `fit` to have them transformed
        too.

    n_components : int
        Number of components, public.
    min_weight : float, optional
        Minimum share of the rows in each component; by default half an equal share.
    method : str
        As in `learn_separated_mixture`.

    ledger : str, optional
        Path of a ledger file.
    random_state : int, optional
        For tests only.

    Attributes
    ----------
    weights_, means_, covariances_ : (k,), (k, d), (k, d, d) float64
    fit_distance_, fit_interval_ : float, (float, float)
        By how many of the rows the mixture differs from them, as far as a noisy count shows it.
    result_ : MixtureResult
        The released result, with the reasons of each component.

    See Also
    --------
    PublicPrivateGaussian : one component.
    fastpubpriv.learn_separated_mixture : the function, with all of its arguments.
    fastpubpriv.learn_axis_aligned_mixture : components without correlations.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ZCDP
    >>> rows = np.random.default_rng(0).normal(size=(6000, 2)) + 30.0 * (np.arange(6000) % 2)[:, None]
    >>> model = PublicPrivateGaussianMixture(ZCDP(0.5), n_components=2, min_weight=0.3).fit(rows[60:], X_pub=rows[:60])
    >>> sorted(model.means_[:, 0].round().tolist())
    [0.0, 30.0]
    """

    n_components: int = 1
    min_weight: float | None = None
    method: MixtureMethod = "auto"
    bounds: Any = None

    _call = staticmethod(learn_separated_mixture)
    _may_lack_public = True
    _released = ("weights", "means", "covariances", "fit_distance", "fit_interval")

    def fit_predict(self, X: Any, y: Any = None, **public: Any) -> IntArray:
        """Fit, and return the component of each private row. The components are private, the labels of the rows are not."""
        return self.fit(X, **public).predict(X)

    def predict(self, X: Any) -> IntArray:
        """Most likely component of each row, (n,). For private rows these labels are not private."""
        return cast(IntArray, self._ask("predict", X))

    def predict_proba(self, X: Any) -> FloatArray:
        """Probability of each component for each row, (n, k)."""
        return cast(FloatArray, self._ask("predict_proba", X))


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
            self.classes_, self.coef_, self.intercept_ = (
                classes,
                coefficients[None, :],
                np.array([result.intercept]),
            )
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
        if (
            classes.shape != (2,)
            or any(each != each for each in classes.tolist())
            or classes[0] == classes[1]
        ):
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
