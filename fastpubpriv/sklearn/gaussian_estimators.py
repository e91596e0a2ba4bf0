"""Estimators of a density: one Gaussian, and a mixture of Gaussians."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

import numpy as np
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from fastpubpriv._types import CovarianceMethod, FloatArray, IntArray, MixtureMethod, Structure
from fastpubpriv.gaussians.gaussian import estimate_gaussian
from fastpubpriv.mixtures.separated.separated_mixture import learn_separated_mixture
from fastpubpriv.sklearn.public_private import PublicPrivateEstimator


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
