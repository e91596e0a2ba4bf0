"""Differentially private estimation from many private rows and a few public ones: exact integers, exact noise, honest
accounting.
"""

from fastpubpriv.errors import (
    AccuracyWarning,
    BudgetError,
    EntropyError,
    ExperimentalWarning,
    FastPubPrivError,
    InputError,
    KernelError,
    LedgerError,
    PrivacyWarning,
    ReplayError,
    SeededNoiseWarning,
)
from fastpubpriv.estimators.coinpress import coinpress_mean
from fastpubpriv.estimators.covariance import coinpress_covariance, private_pca
from fastpubpriv.estimators.gaussian import estimate_gaussian
from fastpubpriv.estimators.mean import estimate_mean
from fastpubpriv.estimators.preconditioner import Preconditioner, precondition
from fastpubpriv.estimators.weighted_mean import weighted_mean
from fastpubpriv.planning import Plan, plan
from fastpubpriv.privacy import ZCDP, ApproxDP, Ledger, PureDP
from fastpubpriv.results import CovarianceResult, GaussianResult, MeanResult, PCAResult
from fastpubpriv.sources import Rows

__version__ = "0.1.0"

__all__ = [
    "ZCDP",
    "AccuracyWarning",
    "ApproxDP",
    "BudgetError",
    "CovarianceResult",
    "EntropyError",
    "ExperimentalWarning",
    "FastPubPrivError",
    "GaussianResult",
    "InputError",
    "KernelError",
    "Ledger",
    "LedgerError",
    "MeanResult",
    "PCAResult",
    "Plan",
    "Preconditioner",
    "PrivacyWarning",
    "PureDP",
    "ReplayError",
    "Rows",
    "SeededNoiseWarning",
    "coinpress_covariance",
    "coinpress_mean",
    "estimate_gaussian",
    "estimate_mean",
    "plan",
    "precondition",
    "private_pca",
    "weighted_mean",
]
