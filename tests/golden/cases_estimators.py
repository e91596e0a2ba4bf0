"""Cases of means, Gaussians, covariances and histograms: every function with every method, under each budget that it admits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from golden_case import Case, private, public
from golden_data import (
    APPROX,
    BUDGETS,
    FORMS,
    LARGE,
    LINE,
    MANY_PUBLIC,
    PUBLIC,
    ROWS,
    mixed,
)

import fastpubpriv as fpp
from fastpubpriv import ZCDP, ApproxDP, PureDP

MATRIX = [[0.02, 0.1, 0.0], [0.1, 2.0, 1.0], [0.0, 1.0, 200.0]]
VARIANCES = [0.01, 1.4, 150.0]
LONG = mixed(21, 6000, 3)


def means() -> Iterator[Case]:
    whole = {"threads": (2,), "forms": FORMS, "blas": False}
    for name, budget in BUDGETS.items():
        given = {"x_pub": PUBLIC, "budget": budget}
        yield private(f"estimate_mean, {name}", fpp.estimate_mean, ROWS, **given, clipping="gaussian", blas=False)
        yield private(f"estimate_mean, counts, {name}", fpp.estimate_mean, ROWS, **given, **whole)
        one = {**given, "bounds": (-1e3, 1e3), "missing": "neutral", "x_pub": PUBLIC[:, :1]}
        yield private(f"estimate_mean, one column, {name}", fpp.estimate_mean, ROWS[:, :1], **one, blas=False)
        yield private(
            f"estimate_mean, variances, {name}", fpp.estimate_mean, ROWS, **given, variance=VARIANCES, **whole
        )
        yield private(f"estimate_mean, matrix, {name}", fpp.estimate_mean, ROWS, **given, covariance=MATRIX)
        many = {**given, "x_pub": MANY_PUBLIC}
        yield private(f"estimate_mean, public covariance, {name}", fpp.estimate_mean, ROWS, **many, covariance="public")
        ball = {"center": 1.0, "radius": 30.0, "budget": budget}
        yield private(f"coinpress_mean, {name}", fpp.coinpress_mean, ROWS, **ball, **whole)
        yield private(f"coinpress_mean, matrix, {name}", fpp.coinpress_mean, ROWS, **ball, covariance=MATRIX)
        for weight in ("optimal", "throw_away", "gaussian", "private", 0.0002):
            call = {"norm_bound": 40.0, "budget": budget, "x_pub": PUBLIC, "row_weight": weight}
            yield private(f"weighted_mean, {weight}, {name}", fpp.weighted_mean, ROWS, **call, blas=False)
        alone = {"norm_bound": 40.0, "variance": 300.0, "center": [0.0, 5.0, 9.0], "budget": budget}
        yield private(f"weighted_mean, no public rows, {name}", fpp.weighted_mean, ROWS, **alone, **whole)
    given = {"x_pub": PUBLIC, "budget": ZCDP(1), "clipping": "gaussian"}
    for steps in (1, 4, "auto"):
        yield private(f"estimate_mean, {steps} steps", fpp.estimate_mean, ROWS, **given, steps=steps, blas=False)
    yield private(
        "estimate_mean, theory", fpp.estimate_mean, ROWS, **given, mode="theory", failure_prob=0.05, blas=False
    )
    yield private("estimate_mean, gap", fpp.estimate_mean, ROWS, **given, pub_priv_gap=0.3, blas=False)
    yield private(
        "estimate_mean, one public row", fpp.estimate_mean, ROWS, **{**given, "x_pub": PUBLIC[:1]}, blas=False
    )
    # A matrix: the longest way of a row, in several chunks.
    yield private("estimate_mean, large", fpp.estimate_mean, LARGE, **given, covariance=MATRIX, threads=(2,))
    yield private(
        "coinpress_mean, theory",
        fpp.coinpress_mean,
        ROWS,
        center=[1.0, 0.0, 3.0],
        radius=50.0,
        budget=ZCDP(1),
        steps=3,
        mode="theory",
        failure_prob=0.1,
        blas=False,
    )
    pure = {"norm_bound": 40.0, "budget": PureDP(1)}
    yield private(
        "weighted_mean, not projected", fpp.weighted_mean, ROWS, **pure, project=False, center=0.5, blas=False
    )
    yield private(
        "weighted_mean, public centre", fpp.weighted_mean, ROWS, **pure, x_pub=PUBLIC, center="public", blas=False
    )
    yield private(
        "estimate_mean, a delta that protects nobody", fpp.estimate_mean, ROWS, **{**given, "budget": ApproxDP(1, 0.01)}
    )
    for name, rows in (("number of columns", ROWS[:, :2]), ("no rows", ROWS[:0]), ("text", [["a", "b", "c"]])):
        yield private(f"estimate_mean refuses {name}", fpp.estimate_mean, rows, **given)
    yield private("estimate_mean refuses a budget", fpp.estimate_mean, ROWS, x_pub=PUBLIC, budget=0.5)


def gaussians() -> Iterator[Case]:
    for name, budget in BUDGETS.items():
        for method in ("lifted_coinpress", "pairs", "recursive_preconditioner"):
            given = {"x_pub": MANY_PUBLIC, "budget": budget, "method": method}
            yield private(f"estimate_gaussian, {method}, {name}", fpp.estimate_gaussian, LONG, **given)
        two = {"x_pub": PUBLIC[:2], "budget": budget, "method": "lifted_coinpress"}
        yield private(f"estimate_gaussian, two public rows, {name}", fpp.estimate_gaussian, LONG, **two)
        for structure in ("public", "mean", "diagonal", "full"):
            rung = {"x_pub": MANY_PUBLIC, "budget": budget, "structure": structure}
            yield private(f"estimate_gaussian, ladder, {structure}, {name}", fpp.estimate_gaussian, LONG, **rung)
        few = {"x_pub": PUBLIC[:2], "budget": budget}
        yield private(f"estimate_gaussian, ladder, two public rows, {name}", fpp.estimate_gaussian, LONG, **few)
        yield private(
            f"coinpress_covariance, {name}", fpp.coinpress_covariance, LONG - LONG[0], budget=budget, scale=200.0
        )
        yield private(
            f"private_pca, {name}", fpp.private_pca, LONG, budget=budget, center=0.0, radius=60.0, n_components=2
        )
        box = {"bounds": ([-9.0, -40.0, -90.0], [9.0, 50.0, 110.0]), "budget": budget}
        yield private(f"coinpress_covariance, bounds, {name}", fpp.coinpress_covariance, LONG, **box)
        pca = {**box, "x_pub": PUBLIC, "n_components": 2}
        yield private(f"private_pca, bounds, {name}", fpp.private_pca, LONG, **pca)
        yield private(f"estimate_gaussian, bounds, {name}", fpp.estimate_gaussian, LONG, **box, x_pub=PUBLIC)
    given = {"x_pub": MANY_PUBLIC, "budget": ZCDP(1), "method": "lifted_coinpress"}
    changes = {
        "theory": {"mode": "theory"},
        "3 rounds": {"rounds": 3},
        "gap": {"pub_priv_gap": 0.2, "failure_prob": 0.2},
    }
    for name, change in changes.items():
        yield private(f"estimate_gaussian, {name}", fpp.estimate_gaussian, LONG, **given, **change)
    yield private("estimate_gaussian, sources", fpp.estimate_gaussian, ROWS, **given, forms=FORMS)
    yield private("estimate_gaussian, large", fpp.estimate_gaussian, LARGE, **given, threads=(2,))
    yield private(
        "estimate_gaussian, pairs, large", fpp.estimate_gaussian, LARGE, **{**given, "method": "pairs"}, threads=(2,)
    )
    yield private(
        "estimate_gaussian, known condition",
        fpp.estimate_gaussian,
        LONG,
        x_pub=PUBLIC[:3],
        budget=ZCDP(1),
        cond_max=1e4,
    )
    yield private(
        "estimate_gaussian refuses to do without",
        fpp.estimate_gaussian,
        LONG,
        x_pub=PUBLIC[:3],
        budget=ZCDP(1),
        require_precondition=True,
    )
    for columns in (1, 2):
        for name, budget in (("zcdp", ZCDP(1)), ("pure", PureDP(1))):
            call = {"x_pub": mixed(22, 60, columns), "budget": budget, "method": "hypothesis_selection"}
            rows = mixed(23, 8000 * columns, columns)
            yield private(
                f"estimate_gaussian, hypothesis_selection, {columns} columns, {name}",
                fpp.estimate_gaussian,
                rows,
                **call,
                slow=columns == 2,
            )
    few = {"x_pub": mixed(24, 2, 1), "budget": ApproxDP(4, 1e-6), "method": "group_covariances"}
    yield private(
        "estimate_gaussian, group_covariances", fpp.estimate_gaussian, mixed(25, 120_000, 1), **few, threads=(2,)
    )
    apart = np.repeat(np.arange(120.0), 1000)[:, None] ** 5 + mixed(25, 120_000, 1)
    yield private("estimate_gaussian, group_covariances, rows disagree", fpp.estimate_gaussian, apart, **few)
    plane = {"x_pub": mixed(24, 3, 2), "budget": ApproxDP(4, 1e-6), "method": "group_covariances"}
    yield private(
        "estimate_gaussian, group_covariances, 2 columns", fpp.estimate_gaussian, mixed(26, 330_000, 2), **plane
    )
    yield private(
        "coinpress_covariance, theory",
        fpp.coinpress_covariance,
        LONG,
        budget=ZCDP(1),
        scale=300.0,
        steps=3,
        center=[3.0, 6.0, 9.0],
        mode="theory",
        failure_prob=0.05,
    )
    yield private(
        "private_pca, large",
        fpp.private_pca,
        LARGE,
        budget=ZCDP(1),
        center=[3.0, 6.0, 9.0],
        radius=80.0,
        n_components=3,
        threads=(2,),
    )
    for name, rows in (("6 rows", PUBLIC), ("40 rows", MANY_PUBLIC)):
        yield public(f"precondition, {name}", fpp.precondition, rows)
        yield public(f"precondition, {name}, gap", fpp.precondition, rows, pub_priv_gap=0.4, failure_prob=0.2)
    yield public("precondition refuses a subspace", fpp.precondition, PUBLIC[[0, 1, 2, 2]])


def histograms() -> Iterator[Case]:
    grid, dyadic = fpp.BinGrid(width=2.5, offset=0.25), fpp.DyadicBins()
    kinds = {
        "one width": grid,
        "three widths": fpp.BinGrid(width=0.5, levels=3),
        "dyadic": dyadic,
        "product": fpp.ProductBins(grids=[fpp.BinGrid(width=1.0), fpp.BinGrid(width=4.0)], columns=(2, 0)),
        "a list": [grid, None, dyadic, fpp.ProductBins(grids=[grid, dyadic])],
    }
    for name, bins in kinds.items():
        for law in ("auto", "laplace", "gaussian"):
            call = {"bins": bins, "budget": APPROX, "noise": law, "blas": False}
            forms = FORMS if law == "auto" else ()
            yield private(
                f"stable_histogram, {name}, {law}", fpp.stable_histogram, ROWS, **call, forms=forms, covers=[type(bins)]
            )
        call = {"bins": bins, "budget": APPROX, "blas": False}
        yield private(f"stable_histogram, {name}, large", fpp.stable_histogram, LARGE, **call, threads=(2,))
    yield private(
        "stable_histogram, one column",
        fpp.stable_histogram,
        LINE[:, 0],
        bins=grid,
        budget=ApproxDP(4, 1e-9),
        blas=False,
    )
    for name, most in (("little memory", 1e8), ("no limit of memory", None), ("too little memory", 1e6)):
        call = {"bins": fpp.BinGrid(width=0.001), "budget": APPROX, "max_memory": most, "blas": False}
        yield private(f"stable_histogram, {name}", fpp.stable_histogram, LARGE, **call)
    yield private("stable_histogram refuses other budgets", fpp.stable_histogram, LINE, bins=grid, budget=ZCDP(1))
    yield public("BinGrid edges", fpp.BinGrid(width=0.5, offset=3.0, levels=3).edges, np.arange(-3, 9), 2)
    yield public("DyadicBins edges", dyadic.edges, np.array([-1075, -1, 0, 5, 1023]), 0)


CASES = [*means(), *gaussians(), *histograms()]
