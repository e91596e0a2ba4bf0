"""Cases of means, Gaussians, covariances and histograms: every function under each budget that it admits, each method once."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from golden_case import Case, private, public
from golden_data import APPROX, BUDGETS, MANY_PUBLIC, PUBLIC, ROWS, mixed
from helpers.tables import rows_of_persons

import fastpubpriv as fpp
from fastpubpriv import ZCDP, ApproxDP

MATRIX = [[0.02, 0.1, 0.0], [0.1, 2.0, 1.0], [0.0, 1.0, 200.0]]
VARIANCES = [0.01, 1.4, 150.0]
LONG = mixed(21, 6000, 3)
HALF = BUDGETS["zcdp"]


def mean(name: str, x: Any = ROWS, **given: Any) -> Case:
    """A case of `estimate_mean`."""
    return private(
        f"estimate_mean, {name}", fpp.estimate_mean, x, **{"x_pub": PUBLIC, "budget": HALF, **given}
    )


def means() -> Iterator[Case]:
    bound = {"norm_bound": 40.0, "x_pub": PUBLIC, "blas": False}
    for name, budget in BUDGETS.items():
        yield mean(f"counts, {name}", budget=budget, blas=False)
        yield mean(name, budget=budget, clipping="gaussian", blas=False)
        ball = {"center": 1.0, "radius": 30.0, "budget": budget, "blas": False}
        yield private(f"coinpress_mean, {name}", fpp.coinpress_mean, ROWS, **ball)
        yield private(
            f"weighted_mean, optimal, {name}",
            fpp.weighted_mean,
            ROWS,
            **bound,
            row_weight="optimal",
            budget=budget,
        )
    box = {"bounds": (-1e3, 1e3), "missing": "neutral", "x_pub": PUBLIC[:, :1]}
    yield mean("one column, zcdp", ROWS[:, :1], **box, blas=False)
    yield mean("variances, zcdp", variance=VARIANCES, blas=False)
    yield mean("matrix, zcdp", covariance=MATRIX)
    yield mean("public covariance, zcdp", x_pub=MANY_PUBLIC, covariance="public")
    whole = {"budget": ZCDP(1), "clipping": "gaussian", "blas": False}
    yield mean("4 steps", **whole, steps=4)
    yield mean("theory", **whole, mode="theory", failure_prob=0.05)
    yield private(
        "coinpress_mean, matrix, zcdp",
        fpp.coinpress_mean,
        ROWS,
        center=1.0,
        radius=30.0,
        budget=HALF,
        covariance=MATRIX,
    )
    for weight in ("throw_away", "gaussian", "private"):
        yield private(
            f"weighted_mean, {weight}, zcdp",
            fpp.weighted_mean,
            ROWS,
            **bound,
            row_weight=weight,
            budget=HALF,
        )
    for keep in ("row", "mean", "sum"):
        visits = rows_of_persons(ROWS, person=np.arange(len(ROWS)) * 7 % 1000, keep=keep)
        yield mean(f"persons, {keep}, zcdp", visits, blas=False)
    alone = {
        "norm_bound": 40.0,
        "variance": 300.0,
        "center": [0.0, 5.0, 9.0],
        "budget": HALF,
        "blas": False,
    }
    yield private("weighted_mean, no public rows, zcdp", fpp.weighted_mean, ROWS, **alone)


def gaussian(name: str, x: Any = LONG, **given: Any) -> Case:
    """A case of `estimate_gaussian`."""
    call = {"x_pub": MANY_PUBLIC, "budget": HALF, **given}
    return private(f"estimate_gaussian, {name}", fpp.estimate_gaussian, x, **call)


def gaussians() -> Iterator[Case]:
    for name, budget in BUDGETS.items():
        for method in ("lifted_coinpress", "pairs", "recursive_preconditioner"):
            yield gaussian(f"{method}, {name}", budget=budget, method=method)
        yield gaussian(f"ladder, two public rows, {name}", x_pub=PUBLIC[:2], budget=budget)
        yield private(
            f"coinpress_covariance, {name}",
            fpp.coinpress_covariance,
            LONG - LONG[0],
            budget=budget,
            scale=200.0,
        )
        yield private(
            f"private_pca, {name}",
            fpp.private_pca,
            LONG,
            budget=budget,
            center=0.0,
            radius=60.0,
            n_components=2,
        )
    for structure in ("public", "mean", "diagonal", "full"):
        yield gaussian(f"ladder, {structure}, zcdp", structure=structure)
    box = {"bounds": ([-9.0, -40.0, -90.0], [9.0, 50.0, 110.0]), "budget": HALF}
    yield gaussian("bounds, zcdp", **box, x_pub=PUBLIC)
    yield private("coinpress_covariance, bounds, zcdp", fpp.coinpress_covariance, LONG, **box)
    yield private(
        "private_pca, bounds, zcdp", fpp.private_pca, LONG, **box, x_pub=PUBLIC, n_components=2
    )
    yield gaussian("theory", budget=ZCDP(1), method="lifted_coinpress", mode="theory")
    yield gaussian(
        "hypothesis_selection, 1 columns, zcdp",
        mixed(23, 8000, 1),
        x_pub=mixed(22, 60, 1),
        budget=ZCDP(1),
        method="hypothesis_selection",
    )
    few = {"x_pub": mixed(24, 2, 1), "budget": ApproxDP(4, 1e-6)}
    yield gaussian("group_covariances", mixed(25, 120_000, 1), **few, method="group_covariances")
    yield public("precondition, 6 rows", fpp.precondition, PUBLIC)
    yield public(
        "precondition, 40 rows, gap",
        fpp.precondition,
        MANY_PUBLIC,
        pub_priv_gap=0.4,
        failure_prob=0.2,
    )


def histograms() -> Iterator[Case]:
    grid = fpp.BinGrid(width=2.5, offset=0.25)
    dyadic = fpp.DyadicBins()
    kinds = {
        "one width": grid,
        "three widths": fpp.BinGrid(width=0.5, levels=3),
        "dyadic": dyadic,
        "product": fpp.ProductBins(
            grids=[fpp.BinGrid(width=1.0), fpp.BinGrid(width=4.0)], columns=(2, 0)
        ),
        "a list": [grid, None, dyadic, fpp.ProductBins(grids=[grid, dyadic])],
    }
    for name, bins in kinds.items():
        for law in ("auto",) if name != "one width" else ("auto", "laplace", "gaussian"):
            call = {"bins": bins, "budget": APPROX, "noise": law, "blas": False}
            yield private(f"stable_histogram, {name}, {law}", fpp.stable_histogram, ROWS, **call)


def groups() -> Iterator[Case]:
    by = {"by": -1, "groups": [-1, 1]}
    rows, x_pub = (np.column_stack([each[:, :2], np.sign(each[:, 2])]) for each in (ROWS, PUBLIC))
    for name, budget in BUDGETS.items():
        yield private(
            f"estimate_mean by groups, {name}",
            fpp.estimate_mean,
            rows,
            x_pub=x_pub,
            budget=budget,
            **by,
        )
        yield private(
            f"quantiles by groups, {name}",
            fpp.quantiles,
            rows,
            x_pub=x_pub,
            budget=budget,
            q=0.5,
            **by,
        )


def quantiles() -> Iterator[Case]:
    for name, budget in BUDGETS.items():
        yield private(f"quantiles, {name}", fpp.quantiles, ROWS, x_pub=PUBLIC, budget=budget)


def descriptions() -> Iterator[Case]:
    signs = pd.DataFrame(ROWS[:, :2], columns=["a", "b"]).assign(
        c=np.where(ROWS[:, 2] > 0.0, "up", "down")
    )
    x_pub = pd.DataFrame(PUBLIC[:, :2], columns=["a", "b"]).assign(c="up")
    for name, budget in BUDGETS.items():
        call = {"x_pub": x_pub, "keys": {"c": ["up", "down"]}, "budget": budget}
        yield private(f"describe, {name}", fpp.describe, signs, **call)


def counts() -> Iterator[Case]:
    whole = np.floor(ROWS[:, :1])
    for name, budget in BUDGETS.items():
        if name == "zcdp":
            frame = pd.DataFrame({"a": whole[:, 0], "b": np.sign(ROWS[:, 1])})
            call = {
                "columns": ["a", "b"],
                "keys": {"a": [0, 1], "b": [-1, 1]},
                "budget": budget,
                "blas": False,
            }
            yield private("counts of two columns, zcdp", fpp.value_counts, frame, **call)
            wards = {
                "person": np.arange(len(ROWS)) * 7 % 1000,
                "by": ["a", "b"],
                "groups": call["keys"],
                "keys_per_person": 2,
                "budget": budget,
                "blas": False,
            }
            yield private("count_persons, zcdp", fpp.count_persons, frame, **wards)
        yield private(
            f"value_counts, {name}",
            fpp.value_counts,
            whole,
            keys=[0, 1, -1],
            budget=budget,
            blas=False,
        )


CASES = [*counts(), *descriptions(), *means(), *groups(), *quantiles(), *gaussians(), *histograms()]
