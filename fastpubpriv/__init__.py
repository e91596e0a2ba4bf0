"""Differentially private estimation from many private rows and a few public ones: exact integers, exact noise, honest
accounting.
"""

from fastpubpriv.errors import (
    AccuracyWarning,
    BudgetError,
    EntropyError,
    FastPubPrivError,
    InputError,
    KernelError,
    LedgerError,
    PrivacyWarning,
    ReplayError,
    SeededNoiseWarning,
)
from fastpubpriv.estimators.coinpress import coinpress_mean
from fastpubpriv.estimators.mean import estimate_mean
from fastpubpriv.estimators.preconditioner import Preconditioner, precondition
from fastpubpriv.estimators.weighted_mean import weighted_mean
from fastpubpriv.planning import Plan, plan
from fastpubpriv.privacy import ZCDP, ApproxDP, Ledger, PureDP
from fastpubpriv.results import MeanResult
from fastpubpriv.sources import Rows

__version__ = "0.1.0"

__all__ = [
    "ZCDP",
    "AccuracyWarning",
    "ApproxDP",
    "BudgetError",
    "EntropyError",
    "FastPubPrivError",
    "InputError",
    "KernelError",
    "Ledger",
    "LedgerError",
    "MeanResult",
    "Plan",
    "Preconditioner",
    "PrivacyWarning",
    "PureDP",
    "ReplayError",
    "Rows",
    "SeededNoiseWarning",
    "coinpress_mean",
    "estimate_mean",
    "plan",
    "precondition",
    "weighted_mean",
]
