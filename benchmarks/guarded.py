"""Guarded cases: the hot loops as users call them, whole calls, and passes beneath them, each with the peer of its ratio."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.cases import bins, calls, columns, hypotheses, leaves, loops, reports, training
from benchmarks.cases.loops import Case
from benchmarks.cases.public_calls import (
    EXPONENTS,
    LIKELIHOODS,
    PANDAS,
    PRODUCTS,
    SORTED,
    TREE,
    UNIQUE,
    clipping_case,
    dyadic_histogram_case,
    persons_mean_case,
    privatize_case,
    selection_case,
    stable_histogram_case,
    supercluster_case,
    terrific_ball_case,
    twenty_columns_case,
    value_counts_case,
)
from fastpubpriv.rowwise.losses import logistic_residual


class Guarded(NamedTuple):
    """A case and the peer whose time, divided by ours in the same run, is the guarded ratio."""

    make: Callable[[], Case]
    peer: str


class Cases(dict[str, Guarded]):
    """Guarded cases of one family by name."""

    def add(
        self, name: str, peer: str, make: Callable[..., Case], *arguments: Any, **options: Any
    ) -> None:
        """Add the case that `make` returns for these arguments, guarded by its ratio to `peer`."""
        self[name] = Guarded(partial(make, *arguments, **options), peer)


SUPERCLUSTERS = Cases()
SUPERCLUSTERS.add("supercluster, small", PRODUCTS, supercluster_case, "mixture", 300, 20)
SUPERCLUSTERS.add("supercluster, medium", PRODUCTS, supercluster_case, "mixture", 2_000, 20)
SUPERCLUSTERS.add("supercluster, large", PRODUCTS, supercluster_case, "mixture", 5_000, 20)
SUPERCLUSTERS.add("supercluster, pairs", TREE, supercluster_case, "pairs", 8_000, 20)
SUPERCLUSTERS.add("supercluster, line", TREE, supercluster_case, "line", 8_000, 20)
TERRIFIC_BALLS = Cases()
TERRIFIC_BALLS.add("terrific ball, small", SORTED, terrific_ball_case, "mixture", 300, 8)
TERRIFIC_BALLS.add("terrific ball, medium", SORTED, terrific_ball_case, "mixture", 1_000, 8)
TERRIFIC_BALLS.add("terrific ball, large", SORTED, terrific_ball_case, "mixture", 2_000, 8)
TERRIFIC_BALLS.add("terrific ball, pairs", SORTED, terrific_ball_case, "pairs", 1_000, 8)
HISTOGRAMS = Cases()
HISTOGRAMS.add("stable histogram, small", UNIQUE, stable_histogram_case, "few bins", 20_000)
HISTOGRAMS.add("stable histogram, medium", UNIQUE, stable_histogram_case, "few bins", 200_000)
HISTOGRAMS.add("stable histogram, large", UNIQUE, stable_histogram_case, "few bins", 2_000_000)
HISTOGRAMS.add("stable histogram, many bins", UNIQUE, stable_histogram_case, "many bins", 1_000_000)
HISTOGRAMS.add("stable histogram, distinct", UNIQUE, stable_histogram_case, "distinct", 1_000_000)
HISTOGRAMS.add("stable histogram, twenty columns", UNIQUE, twenty_columns_case, 50_000)
HISTOGRAMS.add("stable histogram, dyadic", EXPONENTS, dyadic_histogram_case, 1_000_000)
PRIVATIZED = Cases()
PRIVATIZED.add("PrivUnit, one row", reports.NUMPY, privatize_case, 1, 100, 4.0)
PRIVATIZED.add("PrivUnit, small", reports.NUMPY, privatize_case, 100, 20, 4.0)
PRIVATIZED.add("PrivUnit, medium", reports.NUMPY, privatize_case, 1_000, 100, 8.0)
PRIVATIZED.add("PrivUnit, large", reports.NUMPY, privatize_case, 500, 1_000, 8.0)
PRIVATIZED.add("PrivUnit, two columns", reports.NUMPY, privatize_case, 5_000, 2, 0.5)
CLIPPED = Cases()
CLIPPED.add("clipping in train, small", training.BLOCKS, clipping_case, 2_000, 20)
CLIPPED.add("clipping in train, medium", training.BLOCKS, clipping_case, 10_000, 50)
CLIPPED.add("clipping in train, large", training.BLOCKS, clipping_case, 20_000, 100)
CLIPPED.add("clipping in train, float32", training.BLOCKS, clipping_case, 20_000, 100, np.float32)
HOT_LOOPS = SUPERCLUSTERS | TERRIFIC_BALLS | HISTOGRAMS | PRIVATIZED | CLIPPED

WHOLE_CALLS = Cases()
WHOLE_CALLS.add("estimate_mean, small", "np.mean", lambda: calls.small_calls()[0])
WHOLE_CALLS.add(
    "estimate_mean, large",
    "NumPy in row blocks",
    lambda: _named(calls.mean_calls(50_000, 50), "estimate_mean"),
)
WHOLE_CALLS.add("weighted_mean, small", "np.mean", lambda: calls.small_calls()[1])
WHOLE_CALLS.add(
    "weighted_mean, large",
    "NumPy in row blocks",
    lambda: _named(calls.mean_calls(200_000, 50), "weighted_mean"),
)
WHOLE_CALLS.add("estimate_gaussian, small", "np.cov", lambda: calls.small_calls()[2])
WHOLE_CALLS.add("estimate_gaussian, large", "np.cov", calls.gaussian_call, 50_000, 50)
WHOLE_CALLS.add(
    "estimate_gaussian, four rounds",
    "NumPy clip and dsyrk, as many passes",
    loops.gaussian_case,
    20_000,
    100,
)
WHOLE_CALLS.add("coinpress_mean", "the published script", calls.published_mean_call, 50_000, 50)
WHOLE_CALLS.add("coinpress_covariance", "the published script", calls.covariance_call, 20_000, 50)
WHOLE_CALLS.add("linear regression", calls.SCIKIT, lambda: calls.regression_calls(100_000, 20)[0])
WHOLE_CALLS.add("logistic regression", calls.SCIKIT, lambda: calls.regression_calls(100_000, 20)[1])
WHOLE_CALLS.add(
    "separated mixture", f"{calls.SCIKIT}, a tenth of the rows, 5 steps", calls.mixture_call, 50_000
)
WHOLE_CALLS.add(
    "axis-aligned mixture", f"{calls.SCIKIT}, 'diag', 5 steps", calls.axis_aligned_call, 50_000, 10
)
WHOLE_CALLS.add("choice of a hypothesis", LIKELIHOODS, selection_case, 100, 2, 5_000)
WHOLE_CALLS.add("quantiles", "np.quantile", calls.quantiles_call, 1_000_000)
WHOLE_CALLS.add("describe", "pandas describe", calls.describe_call, 200_000, 20)
WHOLE_CALLS.add("value counts", PANDAS, value_counts_case, 200_000, 50)
WHOLE_CALLS.add("means of groups", "pandas groupby", calls.groups_call, 200_000, 10, 51)
WHOLE_CALLS.add("mean of persons", PANDAS, persons_mean_case, 200_000)
WHOLE_CALLS.add("rows of persons", "polars, head of groups", bins.persons_case, 300_000)

PASSES = Cases()
PASSES.add("gaussian noise", "numpy (insecure)", lambda: loops.noise_cases(200_000, False)[0])
PASSES.add("laplace noise", "numpy (insecure)", lambda: loops.noise_cases(200_000, False)[1])
PASSES.add("a small pass", "NumPy mean", loops.empty_pass_case)
PASSES.add("sum 4", "NumPy clip and mean", loops.mean_case, 1_000_000, 4)
PASSES.add("sum 50", "NumPy clip and mean", loops.mean_case, 200_000, 50)
PASSES.add("sum 50, float32", "NumPy clip and mean", loops.mean_case, 200_000, 50, np.float32)
PASSES.add("sum 500", "NumPy clip and mean", loops.mean_case, 20_000, 500)
PASSES.add("cells of columns", columns.BINCOUNT, columns.cells_case, 20_000, 50)
PASSES.add("boxes of columns", columns.CLIP, columns.box_case, 20_000, 50)
PASSES.add("boxed rows added up", columns.ADD, columns.boxed_sum_case, 20_000, 50)
PASSES.add("boxed rows by norm", columns.NORMS, columns.boxed_shells_case, 20_000, 50)
PASSES.add("gram 100", "NumPy clip and dsyrk", loops.gram_case, 50_000, 100)
PASSES.add("gram 1000", "NumPy clip and dsyrk", loops.gram_case, 4_000, 1_000)
PASSES.add("gram 100, mapped", "NumPy clip and dsyrk", loops.gram_case, 30_000, 100, mapped=True)
PASSES.add("local reports 100", reports.NUMPY, reports.report_case, 2_000, 100)
PASSES.add("routes", "NumPy products", leaves.routing_case, 100_000, 16, 8)
PASSES.add("leaf grams", "NumPy masks, clip and dsyrk", leaves.leaf_gram_case, 100_000, 16, 8)
PASSES.add("pairs", "NumPy, a hypothesis against the rest", hypotheses.pairs_case, 640, 1024)
PASSES.add("cells", "NumPy, a hypothesis against the rest", hypotheses.cells_case, 640)
PASSES.add("bins, bounded", "NumPy unique", bins.bins_case, "bounded", 1_000_000)
PASSES.add("bins, heavy tail", "NumPy unique", bins.bins_case, "heavy-tailed", 1_000_000)
PASSES.add("bins, dyadic", "NumPy frexp and bincount", bins.bins_case, "dyadic", 1_000_000)
PASSES.add("bins, 30 widths", "NumPy unique", bins.bins_case, "30 widths", 1_000_000)
PASSES.add("clipped gradients", training.BLOCKS, training.gradient_case, 50_000, 100)
PASSES.add(
    "clipped gradients, float32", training.BLOCKS, training.gradient_case, 50_000, 100, np.float32
)
PASSES.add(
    "clipped gradients, logistic",
    training.BLOCKS,
    training.gradient_case,
    50_000,
    100,
    np.float64,
    logistic_residual,
)
PASSES.add("a mini-batch", "NumPy", training.batch_case)
PASSES.add("a newton pass", training.BLOCKS, training.newton_case, 50_000, 100)
GUARDED = HOT_LOOPS | WHOLE_CALLS | PASSES


def _named(cases: list[Case], name: str) -> Case:
    """Return the case of a function, with the peers that make several passes named without their number."""
    (case,) = [
        each for each in cases if each.name.split(",")[0] == name and "clipping" not in each.name
    ]
    return dataclasses.replace(
        case, peers={peer.rsplit(", ", 1)[0]: call for peer, call in case.peers.items()}
    )
