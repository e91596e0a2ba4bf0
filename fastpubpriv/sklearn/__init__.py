"""Estimators for scikit-learn's pipelines (`pip install fastpubpriv[sklearn]`)."""

from fastpubpriv.sklearn.adapters import (
    PublicPrivateGaussian,
    PublicPrivateGaussianMixture,
    PublicPrivateScaler,
    SemiPrivateLinearRegression,
    SemiPrivateLogisticRegression,
    SemiPrivatePCA,
)

__all__ = [
    "PublicPrivateGaussian",
    "PublicPrivateGaussianMixture",
    "PublicPrivateScaler",
    "SemiPrivateLinearRegression",
    "SemiPrivateLogisticRegression",
    "SemiPrivatePCA",
]
