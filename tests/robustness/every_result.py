"""One result of each class, for tests of what all of them can do."""

import dataclasses

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
GROUPS, FEW = (
    np.concatenate([rng.normal(size=(n, 2)), rng.normal(size=(n, 2)) + 60.0])
    for rng, n in ((np.random.default_rng(1), 4000), (np.random.default_rng(2), 12))
)
STRONG = ApproxDP(8, 1e-6)
LISTED = ([[1.0], [1.0]], [[[0.0, 0.0]], [[5.0, -7.0]]], [[[1.0, 1.0]], [[1.0, 400.0]]])
SECOND = "<script>alert('&')</script>"

MADE = {
    "MeanResult": lambda: seeded(fpp.estimate_mean, ROWS, x_pub=PUBLIC, budget=ZCDP(1)),
    "ColumnReport": lambda: MADE["MeanResult"]().report,
    "GroupMeans": lambda: seeded(
        fpp.estimate_mean, np.column_stack([ROWS, np.sign(ROWS[:, 0] - 5.0)]), by=-1, groups=[-1, 1], budget=ZCDP(1),
        x_pub=np.column_stack([PUBLIC, np.sign(PUBLIC[:, 0] - 5.0)]),
    ),
    "GroupQuantiles": lambda: seeded(
        fpp.quantiles, np.column_stack([ROWS, np.sign(ROWS[:, 0] - 5.0)]), by=-1, groups=[-1, 1], budget=ZCDP(1),
        x_pub=np.column_stack([PUBLIC, np.sign(PUBLIC[:, 0] - 5.0)]),
    ),
    "CovarianceResult": lambda: seeded(fpp.coinpress_covariance, ROWS, budget=ZCDP(1), scale=400.0),
    "PCAResult": lambda: seeded(fpp.private_pca, ROWS, budget=ZCDP(1), center=[5.0, -7.0], radius=60.0, n_components=1),
    "GaussianResult": lambda: seeded(fpp.estimate_gaussian, ROWS, x_pub=PUBLIC, budget=ZCDP(1)),
    "GaussianReport": lambda: MADE["GaussianResult"]().report,
    "MixtureResult": lambda: seeded(
        fpp.learn_separated_mixture, GROUPS, x_pub=FEW, n_components=2, min_weight=0.4, budget=ZCDP(4), method="tree"
    ),
    "TrainingResult": lambda: seeded(
        fpp.linear_regression, pd.DataFrame(ROWS, columns=["age", SECOND]), ROWS @ [1.0, 0.1], x_pub=PUBLIC,
        y_pub=PUBLIC @ [1.0, 0.1], y_scale=0.1, budget=ZCDP(1),
    ),
    "DescentResult": lambda: seeded(
        fpp.train, pd.DataFrame(ROWS, columns=["age", SECOND]), ROWS @ [1.0, 0.1], loss="squared", x_pub=PUBLIC,
        y_pub=PUBLIC @ [1.0, 0.1] + [0.1, -0.1] * (len(PUBLIC) // 2), budget=ZCDP(1), method="semi_dp",
    ),
    "QuantileResult": lambda: seeded(fpp.quantiles, ROWS, x_pub=PUBLIC, budget=ZCDP(1)),
    "Description": lambda: seeded(fpp.describe, ROWS, x_pub=PUBLIC, budget=ZCDP(1)),
    "EdgeRanks": lambda: MADE["QuantileResult"]().ranks[0],
    "CountResult": lambda: seeded(
        fpp.value_counts, pd.DataFrame(np.sign(ROWS), columns=["age", SECOND]), columns=["age", SECOND],
        keys={"age": [1, -1], SECOND: [1, -1]}, budget=ZCDP(1),
    ),
    "Comparison": lambda: MADE["GroupMeans"]().ratio(1.0, -1.0),
    "PersonCounts": lambda: seeded(
        fpp.count_persons, pd.DataFrame(np.sign(ROWS), columns=["age", SECOND]), person=np.arange(3000) // 2,
        by=["age", SECOND], groups={"age": [1, -1], SECOND: [1, -1]}, budget=ZCDP(1), keys_per_person=2,
    ),
    "SelectionResult": lambda: seeded(fpp.select_hypothesis, ROWS, hypotheses=LISTED, budget=PureDP(2)),
    "HistogramResult": lambda: seeded(
        fpp.stable_histogram, ROWS, bins=[fpp.BinGrid(width=1.0), fpp.DyadicBins()], budget=STRONG
    ),
    "Histogram": lambda: MADE["HistogramResult"]()[0],
    "ScaleLists": lambda: seeded(list_decoding.decode_variances, ROWS, budget=STRONG, min_weight=0.9),
    "MeanLists": lambda: seeded(list_decoding.decode_means, ROWS, budget=STRONG, min_weight=0.9, std=[1.0, 20.0]),
    "AxisAlignedLists": lambda: seeded(list_decoding.decode_axis_aligned, ROWS, budget=STRONG, min_weight=0.9),
    "Preconditioner": lambda: fpp.precondition(PUBLIC),
    "ClusterTree": lambda: MADE["MixtureResult"]().tree,
    "Plan": lambda: fpp.plan("mean", dim=3, n_pub=4, n_priv=1000, budget=ZCDP(1)),
    "OrderBounds": lambda: fpp.order_bounds("B.2", dim=5, accuracy=0.1, budget=ZCDP(1)),
    "AuditReport": lambda: fpp.auditing.audit_randomizer(fpp.local.PrivUnit(2, 1.0), runs=50),
    "LocalTrainingResult": lambda: seeded(
        fpp.local.train, ROWS[:200], ROWS[:200, 0], epsilon=1.0, clip_norm=5.0, radius=1.0
    ),
    "Ball": lambda: fpp.terrific_ball(FEW, min_count=5, radius_max=500.0),
}  # fmt: skip
FOUND = {}


def made(name):
    """The result of that class, computed once; those with columns have a name that a page must not take for a tag."""
    if name not in FOUND:
        result = MADE[name]()
        FOUND[name] = (
            dataclasses.replace(result, columns=("age", SECOND))
            if isinstance(result, Result)
            else result
        )
    return FOUND[name]
