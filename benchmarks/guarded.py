"""Guarded cases: the hot loops as users call them, whole calls, and passes beneath them, each with the peer of its ratio."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from benchmarks.cases import (
    bins,
    calls,
    columns,
    hypotheses,
    leaves,
    loops,
    public_calls,
    reports,
    training,
)
from benchmarks.cases.loops import Case
from fastpubpriv.rowwise.losses import logistic_residual


class Guarded(NamedTuple):
    """A case and the peer whose time, divided by ours in the same run, is the guarded ratio."""

    make: Callable[[], Case]
    peer: str


SUPERCLUSTERS = {
    "supercluster, small": Guarded(
        partial(public_calls.supercluster_case, "mixture", 300, 20), public_calls.PRODUCTS
    ),
    "supercluster, medium": Guarded(
        partial(public_calls.supercluster_case, "mixture", 2_000, 20), public_calls.PRODUCTS
    ),
    "supercluster, large": Guarded(
        partial(public_calls.supercluster_case, "mixture", 5_000, 20), public_calls.PRODUCTS
    ),
    "supercluster, pairs": Guarded(
        partial(public_calls.supercluster_case, "pairs", 8_000, 20), public_calls.TREE
    ),
    "supercluster, line": Guarded(
        partial(public_calls.supercluster_case, "line", 8_000, 20), public_calls.TREE
    ),
}
TERRIFIC_BALLS = {
    "terrific ball, small": Guarded(
        partial(public_calls.terrific_ball_case, "mixture", 300, 8), public_calls.SORTED
    ),
    "terrific ball, medium": Guarded(
        partial(public_calls.terrific_ball_case, "mixture", 1_000, 8), public_calls.SORTED
    ),
    "terrific ball, large": Guarded(
        partial(public_calls.terrific_ball_case, "mixture", 2_000, 8), public_calls.SORTED
    ),
    "terrific ball, pairs": Guarded(
        partial(public_calls.terrific_ball_case, "pairs", 1_000, 8), public_calls.SORTED
    ),
}
HISTOGRAMS = {
    "stable histogram, small": Guarded(
        partial(public_calls.stable_histogram_case, "few bins", 20_000), public_calls.UNIQUE
    ),
    "stable histogram, medium": Guarded(
        partial(public_calls.stable_histogram_case, "few bins", 200_000), public_calls.UNIQUE
    ),
    "stable histogram, large": Guarded(
        partial(public_calls.stable_histogram_case, "few bins", 2_000_000), public_calls.UNIQUE
    ),
    "stable histogram, many bins": Guarded(
        partial(public_calls.stable_histogram_case, "many bins", 1_000_000), public_calls.UNIQUE
    ),
    "stable histogram, distinct": Guarded(
        partial(public_calls.stable_histogram_case, "distinct", 1_000_000), public_calls.UNIQUE
    ),
    "stable histogram, twenty columns": Guarded(
        partial(public_calls.twenty_columns_case, 50_000), public_calls.UNIQUE
    ),
    "stable histogram, dyadic": Guarded(
        partial(public_calls.dyadic_histogram_case, 1_000_000), public_calls.EXPONENTS
    ),
}
PRIVATIZED = {
    "PrivUnit, one row": Guarded(partial(public_calls.privatize_case, 1, 100, 4.0), reports.NUMPY),
    "PrivUnit, small": Guarded(partial(public_calls.privatize_case, 100, 20, 4.0), reports.NUMPY),
    "PrivUnit, medium": Guarded(
        partial(public_calls.privatize_case, 1_000, 100, 8.0), reports.NUMPY
    ),
    "PrivUnit, large": Guarded(
        partial(public_calls.privatize_case, 500, 1_000, 8.0), reports.NUMPY
    ),
    "PrivUnit, two columns": Guarded(
        partial(public_calls.privatize_case, 5_000, 2, 0.5), reports.NUMPY
    ),
}
CLIPPED = {
    "clipping in train, small": Guarded(
        partial(public_calls.clipping_case, 2_000, 20), training.BLOCKS
    ),
    "clipping in train, medium": Guarded(
        partial(public_calls.clipping_case, 10_000, 50), training.BLOCKS
    ),
    "clipping in train, large": Guarded(
        partial(public_calls.clipping_case, 20_000, 100), training.BLOCKS
    ),
    "clipping in train, float32": Guarded(
        partial(public_calls.clipping_case, 20_000, 100, np.float32), training.BLOCKS
    ),
}
HOT_LOOPS = SUPERCLUSTERS | TERRIFIC_BALLS | HISTOGRAMS | PRIVATIZED | CLIPPED

WHOLE_CALLS = {
    "estimate_mean, small": Guarded(lambda: calls.small_calls()[0], "np.mean"),
    "estimate_mean, large": Guarded(
        lambda: _named(calls.mean_calls(50_000, 50), "estimate_mean"), "NumPy in row blocks"
    ),
    "weighted_mean, small": Guarded(lambda: calls.small_calls()[1], "np.mean"),
    "weighted_mean, large": Guarded(
        lambda: _named(calls.mean_calls(200_000, 50), "weighted_mean"), "NumPy in row blocks"
    ),
    "estimate_gaussian, small": Guarded(lambda: calls.small_calls()[2], "np.cov"),
    "estimate_gaussian, large": Guarded(partial(calls.gaussian_call, 50_000, 50), "np.cov"),
    "estimate_gaussian, four rounds": Guarded(
        partial(loops.gaussian_case, 20_000, 100), "NumPy clip and dsyrk, as many passes"
    ),
    "coinpress_mean": Guarded(
        partial(calls.published_mean_call, 50_000, 50), "the published script"
    ),
    "coinpress_covariance": Guarded(
        partial(calls.covariance_call, 20_000, 50), "the published script"
    ),
    "linear regression": Guarded(lambda: calls.regression_calls(100_000, 20)[0], calls.SCIKIT),
    "logistic regression": Guarded(lambda: calls.regression_calls(100_000, 20)[1], calls.SCIKIT),
    "separated mixture": Guarded(
        partial(calls.mixture_call, 50_000), f"{calls.SCIKIT}, a tenth of the rows, 5 steps"
    ),
    "axis-aligned mixture": Guarded(
        partial(calls.axis_aligned_call, 50_000, 10), f"{calls.SCIKIT}, 'diag', 5 steps"
    ),
    "choice of a hypothesis": Guarded(
        partial(public_calls.selection_case, 100, 2, 5_000), public_calls.LIKELIHOODS
    ),
    "quantiles": Guarded(partial(calls.quantiles_call, 1_000_000), "np.quantile"),
    "describe": Guarded(partial(calls.describe_call, 200_000, 20), "pandas describe"),
    "value counts": Guarded(
        partial(public_calls.value_counts_case, 200_000, 50), public_calls.PANDAS
    ),
    "means of groups": Guarded(partial(calls.groups_call, 200_000, 10, 51), "pandas groupby"),
    "mean of persons": Guarded(
        partial(public_calls.persons_mean_case, 200_000), public_calls.PANDAS
    ),
    "rows of persons": Guarded(partial(bins.persons_case, 300_000), "polars, head of groups"),
}

PASSES = {
    "gaussian noise": Guarded(lambda: loops.noise_cases(200_000, False)[0], "numpy (insecure)"),
    "laplace noise": Guarded(lambda: loops.noise_cases(200_000, False)[1], "numpy (insecure)"),
    "a small pass": Guarded(loops.empty_pass_case, "NumPy mean"),
    "sum 4": Guarded(partial(loops.mean_case, 1_000_000, 4), "NumPy clip and mean"),
    "sum 50": Guarded(partial(loops.mean_case, 200_000, 50), "NumPy clip and mean"),
    "sum 50, float32": Guarded(
        partial(loops.mean_case, 200_000, 50, np.float32), "NumPy clip and mean"
    ),
    "sum 500": Guarded(partial(loops.mean_case, 20_000, 500), "NumPy clip and mean"),
    "cells of columns": Guarded(partial(columns.cells_case, 20_000, 50), columns.BINCOUNT),
    "boxes of columns": Guarded(partial(columns.box_case, 20_000, 50), columns.CLIP),
    "boxed rows added up": Guarded(partial(columns.boxed_sum_case, 20_000, 50), columns.ADD),
    "boxed rows by norm": Guarded(partial(columns.boxed_shells_case, 20_000, 50), columns.NORMS),
    "gram 100": Guarded(partial(loops.gram_case, 50_000, 100), "NumPy clip and dsyrk"),
    "gram 1000": Guarded(partial(loops.gram_case, 4_000, 1000), "NumPy clip and dsyrk"),
    "gram 100, mapped": Guarded(
        partial(loops.gram_case, 30_000, 100, mapped=True), "NumPy clip and dsyrk"
    ),
    "local reports 100": Guarded(partial(reports.report_case, 2_000, 100), reports.NUMPY),
    "routes": Guarded(partial(leaves.routing_case, 100_000, 16, 8), "NumPy products"),
    "leaf grams": Guarded(
        partial(leaves.leaf_gram_case, 100_000, 16, 8), "NumPy masks, clip and dsyrk"
    ),
    "pairs": Guarded(
        partial(hypotheses.pairs_case, 640, 1024), "NumPy, a hypothesis against the rest"
    ),
    "cells": Guarded(partial(hypotheses.cells_case, 640), "NumPy, a hypothesis against the rest"),
    "bins, bounded": Guarded(partial(bins.bins_case, "bounded", 1_000_000), "NumPy unique"),
    "bins, heavy tail": Guarded(partial(bins.bins_case, "heavy-tailed", 1_000_000), "NumPy unique"),
    "bins, dyadic": Guarded(
        partial(bins.bins_case, "dyadic", 1_000_000), "NumPy frexp and bincount"
    ),
    "bins, 30 widths": Guarded(partial(bins.bins_case, "30 widths", 1_000_000), "NumPy unique"),
    "clipped gradients": Guarded(partial(training.gradient_case, 50_000, 100), training.BLOCKS),
    "clipped gradients, float32": Guarded(
        partial(training.gradient_case, 50_000, 100, np.float32), training.BLOCKS
    ),
    "clipped gradients, logistic": Guarded(
        partial(training.gradient_case, 50_000, 100, np.float64, logistic_residual), training.BLOCKS
    ),
    "a mini-batch": Guarded(training.batch_case, "NumPy"),
    "a newton pass": Guarded(partial(training.newton_case, 50_000, 100), training.BLOCKS),
}
GUARDED = HOT_LOOPS | WHOLE_CALLS | PASSES


def _named(cases: list[Case], name: str) -> Case:
    """Return the case of a function, with the peers that make several passes named without their number."""
    (case,) = [
        each for each in cases if each.name.split(",")[0] == name and "clipping" not in each.name
    ]
    return dataclasses.replace(
        case, peers={peer.rsplit(", ", 1)[0]: call for peer, call in case.peers.items()}
    )
