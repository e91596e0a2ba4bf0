"""Densities: one Gaussian, and a mixture of separated Gaussians."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.estimators.gaussian import estimate_gaussian
from fastpubpriv.mixtures.separated.learn import learn_separated_mixture
from fastpubpriv.sklearn.base import PublicPrivateEstimator


class _ReleasedDensity(DensityMixin, PublicPrivateEstimator):
    """What a released density says of rows."""

    def score_samples(self, X: Any) -> FloatArray:
        """Log density at each row, (n,)."""
        return cast(FloatArray, self._ask("log_prob", X))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log density of the rows. On private rows this is not private."""
        return float(np.mean(self.score_samples(X)))


@dataclass(kw_only=True, eq=False, repr=False)
class PublicPrivateGaussian(_ReleasedDensity):
    """Mean and covariance from private rows and a few public ones (`fastpubpriv.estimate_gaussian`).

    Parameters
    ----------
    {fit_budget}
    method, structure : str
        As in `estimate_gaussian`.
    bounds : (lowest, highest), optional
        What the features can hold, as in `estimate_gaussian`.
    {ledger_file, test_seed}

    Attributes
    ----------
    mean_ : (d,) float64
    covariance_ : (d, d) float64
    result_ : GaussianResult
        The released result, with its status and its record of what was spent.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ZCDP
    >>> rows = np.random.default_rng(0).normal(5.0, 1.0, size=(5000, 2))
    >>> model = PublicPrivateGaussian(ZCDP(0.5)).fit(rows[50:], X_pub=rows[:50])
    >>> bool(np.abs(model.mean_ - 5.0).max() < 0.1)
    True
    """

    method: str = "auto"
    structure: str = "auto"
    bounds: Any = None

    def fit(self, X: Any, y: Any = None, *, X_pub: Any = None) -> Self:
        """Spend the budget on the private rows X (n, d), with the public rows X_pub (m, d)."""
        result = self._spend(
            X,
            X_pub,
            lambda **given: estimate_gaussian(
                X, x_pub=X_pub, method=self.method, structure=self.structure, bounds=self.bounds, **given
            ),
        )
        self.mean_, self.covariance_ = result.mean, result.covariance
        return self

    def sample(self, n_samples: int = 1, random_state: Any = None) -> FloatArray:
        """Synthetic rows (n_samples, d); they cost nothing more."""
        check_is_fitted(self)
        found: FloatArray = self.result_.sample(n_samples, random_state=random_state)
        return found


@dataclass(kw_only=True, eq=False, repr=False)
class PublicPrivateGaussianMixture(_ReleasedDensity):
    """Separated Gaussian components from private rows and a few public ones (`fastpubpriv.learn_separated_mixture`).

    Parameters
    ----------
    {fit_budget}
    n_components : int
        How many components, in public.
    min_weight : float
        Every component holds at least this share of the rows.
    method, structure : str
        As in `learn_separated_mixture`.
    bounds : (lowest, highest), optional
        What the columns can hold, as in `learn_separated_mixture`.
    {ledger_file, test_seed}

    Attributes
    ----------
    weights_, means_, covariances_ : (k,), (k, d), (k, d, d) float64
    result_ : MixtureResult
        The released result, with the status of each component.

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
    min_weight: float = 0.1
    method: str = "auto"
    structure: str = "auto"
    bounds: Any = None

    def fit(self, X: Any, y: Any = None, *, X_pub: Any = None) -> Self:
        """Spend the budget on the private rows X (n, d), with the public rows X_pub (m, d)."""
        result = self._spend(
            X,
            X_pub,
            lambda **given: learn_separated_mixture(
                X,
                x_pub=X_pub,
                n_components=self.n_components,
                min_weight=self.min_weight,
                method=self.method,
                structure=self.structure,
                bounds=self.bounds,
                **given,
            ),
        )
        self.weights_, self.means_, self.covariances_ = result.weights, result.means, result.covariances
        return self

    def fit_predict(self, X: Any, y: Any = None, **public: Any) -> IntArray:
        """Fit, then the component of each private row: the components are private, the labels of the rows are not."""
        return self.fit(X, **public).predict(X)

    def predict(self, X: Any) -> IntArray:
        """The likeliest component of each row, (n,). For private rows these labels are not private."""
        return cast(IntArray, self._ask("predict", X))

    def predict_proba(self, X: Any) -> FloatArray:
        """The probability of each component for each row, (n, k)."""
        return cast(FloatArray, self._ask("predict_proba", X))
