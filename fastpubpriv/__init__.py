"""Differentially private estimation from many private rows and a few public ones: exact integers, exact noise, honest
accounting.
"""

from __future__ import annotations

import sys as _sys
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

if _sys.platform == "win32":
    raise ImportError(
        "fastpubpriv does not run on Windows, as ledgers need POSIX file locks: use it in WSL or in a container"
    )

if _TYPE_CHECKING:
    from fastpubpriv.estimators.components import private_pca
    from fastpubpriv.estimators.gaussian import coinpress_covariance, estimate_gaussian
    from fastpubpriv.estimators.mean import coinpress_mean, estimate_mean
    from fastpubpriv.estimators.preconditioner import Preconditioner, precondition
    from fastpubpriv.estimators.quantiles import quantiles
    from fastpubpriv.estimators.value_counts import crosstab, value_counts
    from fastpubpriv.estimators.weighted_mean import weighted_mean
    from fastpubpriv.histograms import BinGrid, DyadicBins, ProductBins, stable_histogram
    from fastpubpriv.mixtures.axis_aligned.learn import learn_axis_aligned_mixture
    from fastpubpriv.mixtures.select import Hypotheses, select_hypothesis
    from fastpubpriv.mixtures.separated.learn import learn_separated_mixture, no_public_baseline, public_only
    from fastpubpriv.mixtures.separated.public_shapes import Ball, supercluster, terrific_ball
    from fastpubpriv.mixtures.separated.search_state import ClusterTree
    from fastpubpriv.planning import OrderBounds, Plan, order_bounds, plan
    from fastpubpriv.privacy import ZCDP, ApproxDP, Ledger, PureDP
    from fastpubpriv.results.estimates import CovarianceResult, GaussianResult, MeanResult, PCAResult
    from fastpubpriv.results.histogram import HistogramResult
    from fastpubpriv.results.key_counts import CountResult
    from fastpubpriv.results.mixture import MixtureResult, SelectionResult
    from fastpubpriv.results.models import DescentResult, TrainingResult
    from fastpubpriv.results.ranks import QuantileResult
    from fastpubpriv.sources import PersonTable, Rows, persons
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
    "CountResult",
    "CovarianceResult",
    "DescentResult",
    "Description",
    "DyadicBins",
    "EntropyError",
    "ExperimentalWarning",
    "FastPubPrivError",
    "GaussianResult",
    "GroupMeans",
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
    "PersonTable",
    "Plan",
    "Preconditioner",
    "PrivacyWarning",
    "ProductBins",
    "PureDP",
    "QuantileResult",
    "ReplayError",
    "Rows",
    "SeededNoiseWarning",
    "SelectionResult",
    "TrainingResult",
    "coinpress_covariance",
    "coinpress_mean",
    "crosstab",
    "describe",
    "estimate_gaussian",
    "estimate_mean",
    "learn_axis_aligned_mixture",
    "learn_separated_mixture",
    "linear_regression",
    "logistic_regression",
    "no_public_baseline",
    "order_bounds",
    "persons",
    "plan",
    "precondition",
    "private_pca",
    "public_only",
    "quantiles",
    "select_hypothesis",
    "stable_histogram",
    "supercluster",
    "terrific_ball",
    "train",
    "value_counts",
    "warmup",
    "weighted_mean",
]

# Loaded at first use: SciPy and the kernels take longer to import than `fastpubpriv --help` may take to answer.
_HOMES = {
    name: f"fastpubpriv.{module}"
    for module, names in (
        ("estimators.describe", "describe"),
        ("estimators.gaussian", "coinpress_covariance"),
        ("estimators.components", "private_pca"),
        ("estimators.gaussian", "estimate_gaussian"),
        ("estimators.mean", "coinpress_mean estimate_mean"),
        ("estimators.preconditioner", "Preconditioner precondition"),
        ("estimators.quantiles", "quantiles"),
        ("estimators.value_counts", "crosstab value_counts"),
        ("estimators.weighted_mean", "weighted_mean"),
        ("mixtures.separated.public_shapes", "Ball terrific_ball supercluster"),
        ("results.mixture", "MixtureResult SelectionResult"),
        ("mixtures.axis_aligned.learn", "learn_axis_aligned_mixture"),
        ("mixtures.separated.learn", "learn_separated_mixture no_public_baseline public_only"),
        ("mixtures.separated.search_state", "ClusterTree"),
        ("histograms", "BinGrid DyadicBins ProductBins stable_histogram"),
        ("results.histogram", "HistogramResult"),
        ("results.describe", "Description"),
        ("results.group_means", "GroupMeans"),
        ("results.key_counts", "CountResult"),
        ("mixtures.select", "Hypotheses select_hypothesis"),
        ("planning", "OrderBounds Plan order_bounds plan"),
        ("privacy", "ZCDP ApproxDP Ledger PureDP"),
        ("results.estimates", "CovarianceResult GaussianResult MeanResult PCAResult"),
        ("sources", "PersonTable Rows persons"),
        ("results.models", "DescentResult TrainingResult"),
        ("results.ranks", "QuantileResult"),
        ("training.train", "linear_regression logistic_regression train"),
        ("warming", "warmup"),
    )
    for name in names.split()
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
