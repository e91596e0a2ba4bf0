"""The start of a pipeline: private means and scales, and private principal components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import _num_features

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.estimators.gaussian import estimate_gaussian
from fastpubpriv.sklearn.base import PublicPrivateEstimator


class PublicPrivateScaler(OneToOneFeatureMixin, TransformerMixin, PublicPrivateEstimator):
    """Columns less a private mean, over a private standard deviation (`fastpubpriv.estimate_gaussian` with a diagonal covariance).

    The rows that come out are as private as those that went in: only `mean_` and `scale_` are released. In a pipeline, ask for the
    public rows to be transformed like the private ones: `make_pipeline(..., transform_input=["X_pub"])`.

    Parameters
    ----------
    {fit_budget}
    {ledger_file, test_seed}

    Attributes
    ----------
    mean_, scale_ : (d,) float64
        A column without spread has scale 1.
    result_ : GaussianResult

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
        result = self._spend(X, X_pub, lambda **given: estimate_gaussian(X, x_pub=X_pub, structure="diagonal", **given))
        scale = np.sqrt(np.diag(result.covariance))
        self.mean_, self.scale_ = result.mean, np.where(scale > 0.0, scale, 1.0)
        return self

    def transform(self, X: Any) -> FloatArray:
        """Rows less the mean, over the scale, (n, d)."""
        rows = self._rows(X)
        scaled: FloatArray = (rows - self.mean_) / self.scale_
        return scaled

    def inverse_transform(self, X: Any) -> FloatArray:
        """Scaled rows in the units of the columns again, (n, d)."""
        rows: FloatArray = np.asarray(X, dtype=np.float64)
        found: FloatArray = rows * self.scale_ + self.mean_
        return found


@dataclass(kw_only=True, eq=False, repr=False)
class SemiPrivatePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PublicPrivateEstimator):
    """Principal components of a covariance learnt from private rows and a few public ones (`fastpubpriv.estimate_gaussian`).

    Parameters
    ----------
    {fit_budget}
    n_components : int, optional
        How many components; all by default.
    structure : str
        As in `estimate_gaussian`.
    {ledger_file, test_seed}

    Attributes
    ----------
    components_ : (k, d) float64
        Unit vectors; the largest entry of each is positive.
    explained_variance_, explained_variance_ratio_ : (k,) float64
    mean_ : (d,) float64
    result_ : GaussianResult

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
    structure: str = "auto"

    def fit(self, X: Any, y: Any = None, *, X_pub: Any = None) -> Self:
        """Spend the budget on the private rows X (n, d), with the public rows X_pub (m, d)."""
        if self.n_components is not None:
            validation.integer("n_components", self.n_components, minimum=1)
            columns = _num_features(X_pub) if X_pub is not None else self.n_components
            if self.n_components > columns:
                raise InputError(f"n_components={self.n_components} is more than the {columns} columns")
        result = self._spend(
            X, X_pub, lambda **given: estimate_gaussian(X, x_pub=X_pub, structure=self.structure, **given)
        )
        values, vectors = np.linalg.eigh(result.covariance)
        kept = np.argsort(values)[::-1][: self.n_components]
        components = vectors[:, kept].T
        largest = np.take_along_axis(components, np.abs(components).argmax(axis=1)[:, None], axis=1)
        self.components_: FloatArray = components * np.sign(largest)
        self.explained_variance_ = values[kept]
        self.explained_variance_ratio_ = values[kept] / values.sum()
        self.mean_ = result.mean
        return self

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def transform(self, X: Any) -> FloatArray:
        """Coordinates of rows along the components, (n, k)."""
        rows = self._rows(X)
        found: FloatArray = (rows - self.mean_) @ self.components_.T
        return found

    def inverse_transform(self, X: Any) -> FloatArray:
        """Rows in the columns again, (n, d), from their coordinates."""
        found: FloatArray = np.asarray(X, dtype=np.float64) @ self.components_ + self.mean_
        return found
