"""Estimators for scikit-learn's pipelines (`pip install fastpubpriv[sklearn]`)."""

from fastpubpriv.sklearn.gaussian_estimators import (
    PublicPrivateGaussian,
    PublicPrivateGaussianMixture,
)
from fastpubpriv.sklearn.regressions import (
    SemiPrivateLinearRegression,
    SemiPrivateLogisticRegression,
)
from fastpubpriv.sklearn.transformers import PublicPrivateScaler, SemiPrivatePCA

__all__ = [
    "PublicPrivateGaussian",
    "PublicPrivateGaussianMixture",
    "PublicPrivateScaler",
    "SemiPrivateLinearRegression",
    "SemiPrivateLogisticRegression",
    "SemiPrivatePCA",
]
