"""Differentially private estimation from many private rows and a few public ones: exact integers, exact noise, honest
accounting.
"""

from __future__ import annotations

import sys as _sys
from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _sys.platform == "win32":
    raise ImportError(
        "fastpubpriv does not run on Windows, as ledgers need POSIX file locks: use it in WSL or in a container"
    )

if _TYPE_CHECKING:  # `as` marks a name as re-exported
    from fastpubpriv.errors import AccuracyWarning as AccuracyWarning
    from fastpubpriv.errors import BudgetError as BudgetError
    from fastpubpriv.errors import EntropyError as EntropyError
    from fastpubpriv.errors import ExperimentalWarning as ExperimentalWarning
    from fastpubpriv.errors import FastPubPrivError as FastPubPrivError
    from fastpubpriv.errors import InfeasibleError as InfeasibleError
    from fastpubpriv.errors import InputError as InputError
    from fastpubpriv.errors import KernelError as KernelError
    from fastpubpriv.errors import LedgerError as LedgerError
    from fastpubpriv.errors import OutOfMemoryError as OutOfMemoryError
    from fastpubpriv.errors import PrivacyWarning as PrivacyWarning
    from fastpubpriv.errors import ReplayError as ReplayError
    from fastpubpriv.errors import SeededNoiseWarning as SeededNoiseWarning
    from fastpubpriv.estimators.coinpress import coinpress_mean as coinpress_mean
    from fastpubpriv.estimators.count_persons import count_persons as count_persons
    from fastpubpriv.estimators.describe import describe as describe
    from fastpubpriv.estimators.histograms import BinGrid as BinGrid
    from fastpubpriv.estimators.histograms import DyadicBins as DyadicBins
    from fastpubpriv.estimators.histograms import ProductBins as ProductBins
    from fastpubpriv.estimators.histograms import stable_histogram as stable_histogram
    from fastpubpriv.estimators.mean import estimate_mean as estimate_mean
    from fastpubpriv.estimators.preconditioner import Preconditioner as Preconditioner
    from fastpubpriv.estimators.preconditioner import precondition as precondition
    from fastpubpriv.estimators.quantiles import quantiles as quantiles
    from fastpubpriv.estimators.value_counts import value_counts as value_counts
    from fastpubpriv.estimators.weighted_mean import weighted_mean as weighted_mean
    from fastpubpriv.gaussians.coinpress_covariance import (
        coinpress_covariance as coinpress_covariance,
    )
    from fastpubpriv.gaussians.gaussian import estimate_gaussian as estimate_gaussian
    from fastpubpriv.gaussians.pca import private_pca as private_pca
    from fastpubpriv.kernels.warming import warmup as warmup
    from fastpubpriv.mixtures.axis_aligned.axis_aligned_mixture import (
        learn_axis_aligned_mixture as learn_axis_aligned_mixture,
    )
    from fastpubpriv.mixtures.select import Hypotheses as Hypotheses
    from fastpubpriv.mixtures.select import select_hypothesis as select_hypothesis
    from fastpubpriv.mixtures.separated.baselines import no_public_baseline as no_public_baseline
    from fastpubpriv.mixtures.separated.baselines import public_only as public_only
    from fastpubpriv.mixtures.separated.public_shapes import Ball as Ball
    from fastpubpriv.mixtures.separated.public_shapes import supercluster as supercluster
    from fastpubpriv.mixtures.separated.public_shapes import terrific_ball as terrific_ball
    from fastpubpriv.mixtures.separated.search_state import ClusterTree as ClusterTree
    from fastpubpriv.mixtures.separated.separated_mixture import (
        learn_separated_mixture as learn_separated_mixture,
    )
    from fastpubpriv.planning import OrderBounds as OrderBounds
    from fastpubpriv.planning import Plan as Plan
    from fastpubpriv.planning import order_bounds as order_bounds
    from fastpubpriv.planning import plan as plan
    from fastpubpriv.privacy import ZCDP as ZCDP
    from fastpubpriv.privacy import ApproxDP as ApproxDP
    from fastpubpriv.privacy import Ledger as Ledger
    from fastpubpriv.privacy import PureDP as PureDP
    from fastpubpriv.results.by_key import CountResult as CountResult
    from fastpubpriv.results.by_key import GroupMeans as GroupMeans
    from fastpubpriv.results.comparisons import Comparison as Comparison
    from fastpubpriv.results.description import Description as Description
    from fastpubpriv.results.estimates import CovarianceResult as CovarianceResult
    from fastpubpriv.results.estimates import GaussianResult as GaussianResult
    from fastpubpriv.results.estimates import MeanResult as MeanResult
    from fastpubpriv.results.estimates import PCAResult as PCAResult
    from fastpubpriv.results.histogram import HistogramResult as HistogramResult
    from fastpubpriv.results.mixture import MixtureResult as MixtureResult
    from fastpubpriv.results.mixture import SelectionResult as SelectionResult
    from fastpubpriv.results.models import DescentResult as DescentResult
    from fastpubpriv.results.models import TrainingResult as TrainingResult
    from fastpubpriv.results.person_counts import PersonCounts as PersonCounts
    from fastpubpriv.results.ranks import GroupQuantiles as GroupQuantiles
    from fastpubpriv.results.ranks import QuantileResult as QuantileResult
    from fastpubpriv.sources import Rows as Rows
    from fastpubpriv.tables.private_table import PrivateTable as PrivateTable
    from fastpubpriv.training.train import linear_regression as linear_regression
    from fastpubpriv.training.train import logistic_regression as logistic_regression
    from fastpubpriv.training.train import train as train

__version__ = "0.1.0"

# Public names by module, imported on first use: SciPy and the kernels would delay `--help`. A test compares the table with the
# imports above. It is literal because frozen programs and trees of compiled files have no source text.
_NAMES = {
    "errors": (
        "AccuracyWarning",
        "BudgetError",
        "EntropyError",
        "ExperimentalWarning",
        "FastPubPrivError",
        "InfeasibleError",
        "InputError",
        "KernelError",
        "LedgerError",
        "OutOfMemoryError",
        "PrivacyWarning",
        "ReplayError",
        "SeededNoiseWarning",
    ),
    "estimators.coinpress": ("coinpress_mean",),
    "gaussians.pca": ("private_pca",),
    "estimators.count_persons": ("count_persons",),
    "estimators.describe": ("describe",),
    "gaussians.coinpress_covariance": ("coinpress_covariance",),
    "gaussians.gaussian": ("estimate_gaussian",),
    "estimators.histograms": ("BinGrid", "DyadicBins", "ProductBins", "stable_histogram"),
    "estimators.mean": ("estimate_mean",),
    "estimators.preconditioner": ("Preconditioner", "precondition"),
    "estimators.quantiles": ("quantiles",),
    "estimators.value_counts": ("value_counts",),
    "estimators.weighted_mean": ("weighted_mean",),
    "kernels.warming": ("warmup",),
    "mixtures.axis_aligned.axis_aligned_mixture": ("learn_axis_aligned_mixture",),
    "mixtures.select": ("Hypotheses", "select_hypothesis"),
    "mixtures.separated.baselines": ("no_public_baseline", "public_only"),
    "mixtures.separated.public_shapes": ("Ball", "supercluster", "terrific_ball"),
    "mixtures.separated.search_state": ("ClusterTree",),
    "mixtures.separated.separated_mixture": ("learn_separated_mixture",),
    "planning": ("OrderBounds", "Plan", "order_bounds", "plan"),
    "privacy": ("ZCDP", "ApproxDP", "Ledger", "PureDP"),
    "results.by_key": ("CountResult", "GroupMeans"),
    "results.comparisons": ("Comparison",),
    "results.description": ("Description",),
    "results.estimates": ("CovarianceResult", "GaussianResult", "MeanResult", "PCAResult"),
    "results.histogram": ("HistogramResult",),
    "results.mixture": ("MixtureResult", "SelectionResult"),
    "results.models": ("DescentResult", "TrainingResult"),
    "results.person_counts": ("PersonCounts",),
    "results.ranks": ("GroupQuantiles", "QuantileResult"),
    "sources": ("Rows",),
    "tables.private_table": ("PrivateTable",),
    "training.train": ("linear_regression", "logistic_regression", "train"),
}
_HOMES = {name: f"fastpubpriv.{module}" for module, names in _NAMES.items() for name in names}
__all__ = sorted(_HOMES)
# Subpackages for users; the others are for those who read or extend the package.
_PUBLIC_PARTS = ("auditing", "local", "mixtures", "planning", "privacy", "sources", "training")
_PARTS = (*_PUBLIC_PARTS, "errors", "estimators", "gaussians", "mechanisms", "release", "results")


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
