"""Estimators that transform rows: standard units, and principal components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, OneToOneFeatureMixin, TransformerMixin

from fastpubpriv import validation
from fastpubpriv._types import FloatArray, Structure
from fastpubpriv.errors import InputError
from fastpubpriv.gaussians.gaussian import estimate_gaussian
from fastpubpriv.sklearn.public_private import PublicPrivateEstimator
from fastpubpriv.sources import private_rows
from fastpubpriv.sources.arrow_streams import in_memory
from fastpubpriv.sources.bound import BoundTable


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
