"""Estimators for scikit-learn's pipelines: `fit(X, y, X_pub=..., y_pub=...)`, private rows first, public rows as metadata.

Needs scikit-learn 1.6 or newer (`pip install fastpubpriv[sklearn]`). Every fit spends its budget again: also a fit of a clone, and
every fit inside cross-validation or a grid search. With `ledger=` (the path of a ledger file) the fits are added up and refused at
its total; without one, every fit after the first of a process gives a PrivacyWarning that says what has been spent.
"""

from fastpubpriv.sklearn.density import PublicPrivateGaussian, PublicPrivateGaussianMixture
from fastpubpriv.sklearn.linear import SemiPrivateLinearRegression, SemiPrivateLogisticRegression
from fastpubpriv.sklearn.transform import PublicPrivateScaler, SemiPrivatePCA

__all__ = [
    "PublicPrivateGaussian",
    "PublicPrivateGaussianMixture",
    "PublicPrivateScaler",
    "SemiPrivateLinearRegression",
    "SemiPrivateLogisticRegression",
    "SemiPrivatePCA",
]
