"""Differentially private estimation from many private rows and a few public ones: exact integers, exact noise, honest
accounting.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

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

if _TYPE_CHECKING:
    from fastpubpriv.estimators.coinpress import coinpress_mean
    from fastpubpriv.estimators.components import private_pca
    from fastpubpriv.estimators.covariance import coinpress_covariance
    from fastpubpriv.estimators.gaussian import estimate_gaussian
    from fastpubpriv.estimators.mean import estimate_mean
    from fastpubpriv.estimators.preconditioner import Preconditioner, precondition
    from fastpubpriv.estimators.weighted_mean import weighted_mean
    from fastpubpriv.histograms import BinGrid, DyadicBins, ProductBins, stable_histogram
    from fastpubpriv.mixtures.axis_aligned.learn import learn_axis_aligned_mixture
    from fastpubpriv.mixtures.select import Hypotheses, select_hypothesis
    from fastpubpriv.mixtures.separated.baselines import no_public_baseline, public_only
    from fastpubpriv.mixtures.separated.learn import learn_separated_mixture
    from fastpubpriv.mixtures.separated.public_shapes import Ball, supercluster, terrific_ball
    from fastpubpriv.mixtures.separated.tree import ClusterTree
    from fastpubpriv.planning import OrderBounds, Plan, order_bounds, plan
    from fastpubpriv.privacy import ZCDP, ApproxDP, Ledger, PureDP
    from fastpubpriv.results.estimates import CovarianceResult, GaussianResult, MeanResult, PCAResult
    from fastpubpriv.results.histogram import HistogramResult
    from fastpubpriv.results.mixture import MixtureResult, SelectionResult
    from fastpubpriv.results.models import DescentResult, TrainingResult
    from fastpubpriv.sources import Rows
    from fastpubpriv.training.train import linear_regression, logistic_regression, train
    from fastpubpriv.warming import warmup

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
    "DescentResult",
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
    "TrainingResult",
    "coinpress_covariance",
    "coinpress_mean",
    "estimate_gaussian",
    "estimate_mean",
    "learn_axis_aligned_mixture",
    "learn_separated_mixture",
    "linear_regression",
    "logistic_regression",
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
    "train",
    "warmup",
    "weighted_mean",
]

# Loaded at first use: SciPy and the kernels take longer to import than `fastpubpriv --help` may take to answer.
_HOMES = {
    "coinpress_mean": "fastpubpriv.estimators.coinpress",
    "coinpress_covariance": "fastpubpriv.estimators.covariance",
    "private_pca": "fastpubpriv.estimators.components",
    "estimate_gaussian": "fastpubpriv.estimators.gaussian",
    "estimate_mean": "fastpubpriv.estimators.mean",
    "Preconditioner": "fastpubpriv.estimators.preconditioner",
    "precondition": "fastpubpriv.estimators.preconditioner",
    "weighted_mean": "fastpubpriv.estimators.weighted_mean",
    "Ball": "fastpubpriv.mixtures.separated.public_shapes",
    "terrific_ball": "fastpubpriv.mixtures.separated.public_shapes",
    "no_public_baseline": "fastpubpriv.mixtures.separated.baselines",
    "public_only": "fastpubpriv.mixtures.separated.baselines",
    "MixtureResult": "fastpubpriv.results.mixture",
    "learn_axis_aligned_mixture": "fastpubpriv.mixtures.axis_aligned.learn",
    "learn_separated_mixture": "fastpubpriv.mixtures.separated.learn",
    "supercluster": "fastpubpriv.mixtures.separated.public_shapes",
    "ClusterTree": "fastpubpriv.mixtures.separated.tree",
    "BinGrid": "fastpubpriv.histograms",
    "DyadicBins": "fastpubpriv.histograms",
    "HistogramResult": "fastpubpriv.results.histogram",
    "ProductBins": "fastpubpriv.histograms",
    "stable_histogram": "fastpubpriv.histograms",
    "Hypotheses": "fastpubpriv.mixtures.select",
    "SelectionResult": "fastpubpriv.results.mixture",
    "select_hypothesis": "fastpubpriv.mixtures.select",
    "OrderBounds": "fastpubpriv.planning",
    "Plan": "fastpubpriv.planning",
    "order_bounds": "fastpubpriv.planning",
    "plan": "fastpubpriv.planning",
    "ZCDP": "fastpubpriv.privacy",
    "ApproxDP": "fastpubpriv.privacy",
    "Ledger": "fastpubpriv.privacy",
    "PureDP": "fastpubpriv.privacy",
    "CovarianceResult": "fastpubpriv.results.estimates",
    "GaussianResult": "fastpubpriv.results.estimates",
    "MeanResult": "fastpubpriv.results.estimates",
    "PCAResult": "fastpubpriv.results.estimates",
    "Rows": "fastpubpriv.sources",
    "DescentResult": "fastpubpriv.results.models",
    "TrainingResult": "fastpubpriv.results.models",
    "linear_regression": "fastpubpriv.training.train",
    "logistic_regression": "fastpubpriv.training.train",
    "train": "fastpubpriv.training.train",
    "warmup": "fastpubpriv.warming",
}
_PARTS = (
    "auditing",
    "estimators",
    "histograms",
    "local",
    "mechanisms",
    "mixtures",
    "planning",
    "privacy",
    "release",
    "results",
    "sources",
    "training",
)

# Those that people call by hand; the others serve whoever reads or extends the package.
_PUBLIC_PARTS = ("auditing", "local", "mixtures", "planning", "privacy", "sources", "training")


def __getattr__(name: str) -> object:
    if name in _HOMES:
        value = getattr(_import_module(_HOMES[name]), name)
    elif name in _PARTS:
        value = _import_module(f"fastpubpriv.{name}")
    else:
        raise AttributeError(f"module 'fastpubpriv' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_PUBLIC_PARTS, "__version__"})
