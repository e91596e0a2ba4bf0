"""Differentially private estimation from many private rows and a few public ones: exact integers, exact noise, honest
accounting.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fastpubpriv.errors import (
    AccuracyWarning,
    BudgetError,
    EntropyError,
    ExperimentalWarning,
    FastPubPrivError,
    InfeasibleError,
    InputError,
    KernelError,
    LedgerError,
    OutOfMemoryError,
    PrivacyWarning,
    ReplayError,
    SeededNoiseWarning,
)

if TYPE_CHECKING:
    from fastpubpriv.estimators.coinpress import coinpress_mean
    from fastpubpriv.estimators.covariance import coinpress_covariance, private_pca
    from fastpubpriv.estimators.gaussian import estimate_gaussian
    from fastpubpriv.estimators.mean import estimate_mean
    from fastpubpriv.estimators.preconditioner import Preconditioner, precondition
    from fastpubpriv.estimators.weighted_mean import weighted_mean
    from fastpubpriv.mixtures.axis_aligned import learn_axis_aligned_mixture
    from fastpubpriv.mixtures.balls import Ball, terrific_ball
    from fastpubpriv.mixtures.baselines import no_public_baseline, public_only
    from fastpubpriv.mixtures.bin_grids import BinGrid, DyadicBins, ProductBins
    from fastpubpriv.mixtures.histogram import HistogramResult, stable_histogram
    from fastpubpriv.mixtures.hypotheses import Hypotheses, SelectionResult, select_hypothesis
    from fastpubpriv.mixtures.result import MixtureResult
    from fastpubpriv.mixtures.separated import learn_separated_mixture
    from fastpubpriv.mixtures.supercluster import supercluster
    from fastpubpriv.mixtures.tree import ClusterTree
    from fastpubpriv.planning import OrderBounds, Plan, order_bounds, plan
    from fastpubpriv.privacy import ZCDP, ApproxDP, Ledger, PureDP
    from fastpubpriv.results import CovarianceResult, GaussianResult, MeanResult, PCAResult
    from fastpubpriv.sources import Rows

__version__ = "0.1.0"

__all__ = [
    "ZCDP",
    "AccuracyWarning",
    "ApproxDP",
    "Ball",
    "BinGrid",
    "BudgetError",
    "ClusterTree",
    "CovarianceResult",
    "DyadicBins",
    "EntropyError",
    "ExperimentalWarning",
    "FastPubPrivError",
    "GaussianResult",
    "HistogramResult",
    "Hypotheses",
    "InfeasibleError",
    "InputError",
    "KernelError",
    "Ledger",
    "LedgerError",
    "MeanResult",
    "MixtureResult",
    "OrderBounds",
    "OutOfMemoryError",
    "PCAResult",
    "Plan",
    "Preconditioner",
    "PrivacyWarning",
    "ProductBins",
    "PureDP",
    "ReplayError",
    "Rows",
    "SeededNoiseWarning",
    "SelectionResult",
    "coinpress_covariance",
    "coinpress_mean",
    "estimate_gaussian",
    "estimate_mean",
    "learn_axis_aligned_mixture",
    "learn_separated_mixture",
    "no_public_baseline",
    "order_bounds",
    "plan",
    "precondition",
    "private_pca",
    "public_only",
    "select_hypothesis",
    "stable_histogram",
    "supercluster",
    "terrific_ball",
    "weighted_mean",
]

# Loaded at first use: SciPy and the kernels take longer to import than `fastpubpriv --help` may take to answer.
_HOMES = {
    "coinpress_mean": "fastpubpriv.estimators.coinpress",
    "coinpress_covariance": "fastpubpriv.estimators.covariance",
    "private_pca": "fastpubpriv.estimators.covariance",
    "estimate_gaussian": "fastpubpriv.estimators.gaussian",
    "estimate_mean": "fastpubpriv.estimators.mean",
    "Preconditioner": "fastpubpriv.estimators.preconditioner",
    "precondition": "fastpubpriv.estimators.preconditioner",
    "weighted_mean": "fastpubpriv.estimators.weighted_mean",
    "Ball": "fastpubpriv.mixtures.balls",
    "terrific_ball": "fastpubpriv.mixtures.balls",
    "no_public_baseline": "fastpubpriv.mixtures.baselines",
    "public_only": "fastpubpriv.mixtures.baselines",
    "MixtureResult": "fastpubpriv.mixtures.result",
    "learn_axis_aligned_mixture": "fastpubpriv.mixtures.axis_aligned",
    "learn_separated_mixture": "fastpubpriv.mixtures.separated",
    "supercluster": "fastpubpriv.mixtures.supercluster",
    "ClusterTree": "fastpubpriv.mixtures.tree",
    "BinGrid": "fastpubpriv.mixtures.bin_grids",
    "DyadicBins": "fastpubpriv.mixtures.bin_grids",
    "HistogramResult": "fastpubpriv.mixtures.histogram",
    "ProductBins": "fastpubpriv.mixtures.bin_grids",
    "stable_histogram": "fastpubpriv.mixtures.histogram",
    "Hypotheses": "fastpubpriv.mixtures.hypotheses",
    "SelectionResult": "fastpubpriv.mixtures.hypotheses",
    "select_hypothesis": "fastpubpriv.mixtures.hypotheses",
    "OrderBounds": "fastpubpriv.planning",
    "Plan": "fastpubpriv.planning",
    "order_bounds": "fastpubpriv.planning",
    "plan": "fastpubpriv.planning",
    "ZCDP": "fastpubpriv.privacy",
    "ApproxDP": "fastpubpriv.privacy",
    "Ledger": "fastpubpriv.privacy",
    "PureDP": "fastpubpriv.privacy",
    "CovarianceResult": "fastpubpriv.results",
    "GaussianResult": "fastpubpriv.results",
    "MeanResult": "fastpubpriv.results",
    "PCAResult": "fastpubpriv.results",
    "Rows": "fastpubpriv.sources",
}
_PARTS = (
    "auditing",
    "estimators",
    "experiments",
    "mechanisms",
    "mixtures",
    "planning",
    "plotting",
    "privacy",
    "results",
    "sources",
)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in _PARTS:
        value = import_module(f"fastpubpriv.{name}")
    else:
        raise AttributeError(f"module 'fastpubpriv' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PARTS})
