"""One result of each class, for tests of what all of them can do."""

import dataclasses
from functools import partial

import numpy as np
import pandas as pd
from spies import seeded

import fastpubpriv as fpp
from fastpubpriv import ZCDP, ApproxDP, PureDP
from fastpubpriv.mixtures import list_decoding
from fastpubpriv.results.base import Result

RNG = np.random.default_rng(5)
ROWS = RNG.normal(size=(3000, 2)) * [1.0, 20.0] + [5.0, -7.0]
PUBLIC = RNG.normal(size=(40, 2)) * [1.0, 20.0] + [5.0, -7.0]


def far_groups(n, seed):
    """Rows about two centers that are far apart."""
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(size=(n, 2)), rng.normal(size=(n, 2)) + 60.0])


def with_sign(rows):
    """The rows with the side of the first column's mean, as a column of groups."""
    return np.column_stack([rows, np.sign(rows[:, 0] - 5.0)])


GROUPS = far_groups(4000, 1)
FEW = far_groups(12, 2)
STRONG = ApproxDP(8, 1e-6)
RHO = ZCDP(1)
LISTED = ([[1.0], [1.0]], [[[0.0, 0.0]], [[5.0, -7.0]]], [[[1.0, 1.0]], [[1.0, 400.0]]])
SECOND = "<script>alert('&')</script>"
SIGNS = pd.DataFrame(np.sign(ROWS), columns=["age", SECOND])
KEYS = {"age": [1, -1], SECOND: [1, -1]}
LABELED = pd.DataFrame(ROWS, columns=["age", SECOND])
SLOPES = [1.0, 0.1]
LABELS = ROWS @ SLOPES
PUBLIC_LABELS = PUBLIC @ SLOPES
NOISY_LABELS = PUBLIC_LABELS + [0.1, -0.1] * (len(PUBLIC) // 2)
OF_GROUPS = {"x_pub": with_sign(PUBLIC), "by": -1, "groups": [-1, 1], "budget": RHO}
BINS = [fpp.BinGrid(width=1.0), fpp.DyadicBins()]
# Functions that make a result of each class, by its name.
MADE = {}


def add(name, function, *args, **given):
    """Add a result that a function gives with seeded noise."""
    MADE[name] = partial(seeded, function, *args, **given)


def add_part(name, whole, part):
    """Add what is a part of another result, or follows from it."""
    MADE[name] = lambda: part(MADE[whole]())


add("MeanResult", fpp.estimate_mean, ROWS, x_pub=PUBLIC, budget=RHO)
add_part("ColumnReport", "MeanResult", lambda result: result.report)
add("GroupMeans", fpp.estimate_mean, with_sign(ROWS), **OF_GROUPS)
add("GroupQuantiles", fpp.quantiles, with_sign(ROWS), **OF_GROUPS)
add("CovarianceResult", fpp.coinpress_covariance, ROWS, budget=RHO, scale=400.0)
BALL = {"center": [5.0, -7.0], "radius": 60.0}
add("PCAResult", fpp.private_pca, ROWS, budget=RHO, n_components=1, **BALL)
add("GaussianResult", fpp.estimate_gaussian, ROWS, x_pub=PUBLIC, budget=RHO)
add_part("GaussianReport", "GaussianResult", lambda result: result.report)
TWO = {"n_components": 2, "min_weight": 0.4, "method": "tree"}
add("MixtureResult", fpp.learn_separated_mixture, GROUPS, x_pub=FEW, budget=ZCDP(4), **TWO)
EXACT = {"x_pub": PUBLIC, "y_pub": PUBLIC_LABELS, "y_scale": 0.1, "budget": RHO}
add("TrainingResult", fpp.linear_regression, LABELED, LABELS, **EXACT)
NOISY = {"x_pub": PUBLIC, "y_pub": NOISY_LABELS, "loss": "squared", "budget": RHO}
add("DescentResult", fpp.train, LABELED, LABELS, method="semi_dp", **NOISY)
add("QuantileResult", fpp.quantiles, ROWS, x_pub=PUBLIC, budget=RHO)
add("Description", fpp.describe, ROWS, x_pub=PUBLIC, budget=RHO)
add_part("EdgeRanks", "QuantileResult", lambda result: result.ranks[0])
add("CountResult", fpp.value_counts, SIGNS, columns=["age", SECOND], keys=KEYS, budget=RHO)
add_part("Comparison", "GroupMeans", lambda result: result.ratio(1.0, -1.0))
PAIRS = {"person": np.arange(3000) // 2, "keys_per_person": 2}
add("PersonCounts", fpp.count_persons, SIGNS, by=["age", SECOND], groups=KEYS, budget=RHO, **PAIRS)
add("SelectionResult", fpp.select_hypothesis, ROWS, hypotheses=LISTED, budget=PureDP(2))
add("HistogramResult", fpp.stable_histogram, ROWS, bins=BINS, budget=STRONG)
add_part("Histogram", "HistogramResult", lambda result: result[0])
HEAVY = {"budget": STRONG, "min_weight": 0.9}
add("ScaleLists", list_decoding.decode_variances, ROWS, **HEAVY)
add("MeanLists", list_decoding.decode_means, ROWS, std=[1.0, 20.0], **HEAVY)
add("AxisAlignedLists", list_decoding.decode_axis_aligned, ROWS, **HEAVY)
MADE["Preconditioner"] = partial(fpp.precondition, PUBLIC)
add_part("ClusterTree", "MixtureResult", lambda result: result.tree)
MADE["Plan"] = partial(fpp.plan, "mean", dim=3, n_pub=4, n_priv=1000, budget=RHO)
MADE["OrderBounds"] = partial(fpp.order_bounds, "B.2", dim=5, accuracy=0.1, budget=RHO)
RANDOMIZER = fpp.local.PrivUnit(2, 1.0)
MADE["AuditReport"] = partial(fpp.auditing.audit_randomizer, RANDOMIZER, runs=50)
LOCAL = {"epsilon": 1.0, "clip_norm": 5.0, "radius": 1.0}
add("LocalTrainingResult", fpp.local.train, ROWS[:200], ROWS[:200, 0], **LOCAL)
MADE["Ball"] = partial(fpp.terrific_ball, FEW, min_count=5, radius_max=500.0)
FOUND = {}


def made(name):
    """The result of that class, computed once; those with columns have a name that a page must not take for a tag."""
    if name not in FOUND:
        result = MADE[name]()
        if isinstance(result, Result):
            result = dataclasses.replace(result, columns=("age", SECOND))
        FOUND[name] = result
    return FOUND[name]
