"""Cases of mixtures: separated and axis-aligned ones, list decoders, the choice among hypotheses, balls of public rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from golden_case import Case, private, public, steps
from golden_data import (
    APPROX,
    BLOBS,
    BLOBS_PUBLIC,
    BUDGETS,
    CENTERS,
    FAR_BLOBS,
    FAR_PUBLIC,
    FORMS,
    LINE,
    LINE_PUBLIC,
    PLANE,
    PLANE_PUBLIC,
    blobs,
    normal,
)

import fastpubpriv as fpp
from fastpubpriv import ZCDP, ApproxDP, PureDP
from fastpubpriv.mixtures import list_decoding as decoders
from fastpubpriv.mixtures.select import required_n
from fastpubpriv.mixtures.separated.searches import METHODS

SEARCHES = [
    *((name, "practical") for name in METHODS),
    *((name, "theory") for name, method in METHODS.items() if method.theory is not None),
]
LARGE_BLOBS = blobs(31, 300_000, CENTERS)
LARGE_PLANE = blobs(32, 400_000, [[0.0, 5.0], [30.0, 5.0]], [1.0, 3.0])
EVEN_LINE = blobs(36, 4000, [[0.0], [1000.0]], 2.0)
LARGE_LINE = blobs(33, 700_000, [[0.0], [1000.0]], [1.0, 30.0])


def balls() -> Iterator[Case]:
    for name, rows in (("near", BLOBS_PUBLIC), ("far", FAR_PUBLIC)):
        yield public(f"supercluster, {name}", fpp.supercluster, rows, n_components=3)
        yield public(f"supercluster, short steps, {name}", fpp.supercluster, rows, n_components=3, step_factor=2.0)
        yield public(f"terrific_ball, {name}", fpp.terrific_ball, rows, min_count=5, radius_max=1e5)
        yield public(
            f"terrific_ball, few radii, {name}", fpp.terrific_ball, rows, min_count=5, radius_max=1e5, radius_min=1e3
        )
    yield steps("ClusterTree", tree, fpp.ClusterTree, fpp.Ball)


def tree() -> dict[str, Any]:
    """A tree of both kinds of split, and where rows go in it."""
    ball = fpp.Ball(center=CENTERS[1], radius=20.0, index=1)
    grown = fpp.ClusterTree.root(3).split_ball(
        0, origin=CENTERS[1], projection=None, center=np.zeros(3), radius=ball.radius
    )
    plane = np.eye(3)[:2]
    grown = grown.split_nearest(2, origin=np.zeros(3), projection=plane, centers=CENTERS[[0, 2]] @ plane.T)
    again = fpp.ClusterTree.from_dict(grown.to_dict())
    return {
        "tree": again,
        "leaves": grown.leaves,
        "children": [grown.children(node) for node in range(5)],
        "paths": str([grown.path(node) for node in range(5)]),
        "parents": str([grown.parent(node) for node in range(5)]),
        "depths": [grown.depth(node) for node in range(5)],
        "assigned": grown.assign(BLOBS),
        "members": grown.members(BLOBS, 2),
        "above": [grown.only(4).row_tree.lineage[:steps] == grown.only(2).row_tree.lineage for steps in (1, 2)],
        "names of clusters": len(grown.routes().lineage),
        "inside": ball.contains(BLOBS),
    }


def separated() -> Iterator[Case]:
    for method, mode in SEARCHES:
        # Algorithms of the paper want components thousands of deviations apart.
        rows, points = (FAR_BLOBS, FAR_PUBLIC) if mode == "theory" else (BLOBS, BLOBS_PUBLIC)
        for name, budget in {"zcdp": ZCDP(20), "approx": ApproxDP(20, 1e-6), "pure": PureDP(20)}.items():
            call = {"x_pub": points, "n_components": 3, "min_weight": 0.25, "method": method, "mode": mode}
            yield private(
                f"learn_separated_mixture, {method}, {mode}, {name}",
                fpp.learn_separated_mixture,
                rows,
                **call,
                budget=budget,
            )
    given = {"x_pub": BLOBS_PUBLIC, "n_components": 3, "min_weight": 0.25}
    for name, budget in BUDGETS.items():
        yield private(
            f"learn_separated_mixture, auto, {name}", fpp.learn_separated_mixture, BLOBS, **given, budget=budget
        )
    yield private(
        "learn_separated_mixture, sources", fpp.learn_separated_mixture, BLOBS, **given, budget=ZCDP(2), forms=FORMS
    )
    yield private(
        "learn_separated_mixture, one component",
        fpp.learn_separated_mixture,
        BLOBS,
        x_pub=BLOBS_PUBLIC,
        n_components=1,
        min_weight=0.5,
        budget=ZCDP(1),
        weight_floor=0.1,
        failure_prob=0.2,
    )
    for method in METHODS:
        yield private(
            f"learn_separated_mixture, {method}, large",
            fpp.learn_separated_mixture,
            LARGE_BLOBS,
            **given,
            method=method,
            budget=ZCDP(1),
            threads=(2,),
        )
    yield private(
        "learn_separated_mixture refuses",
        fpp.learn_separated_mixture,
        BLOBS,
        **given,
        method="tree",
        budget=PureDP(1),
    )
    for name, budget in {"zcdp": ZCDP(20), "approx": ApproxDP(20, 1e-6), "pure": PureDP(1)}.items():
        call = {"n_components": 3, "radius": 80.0, "budget": budget, "center": [10.0, 20.0, 5.0]}
        yield private(f"no_public_baseline, {name}", fpp.no_public_baseline, BLOBS, **call)
    yield public("public_only", fpp.public_only, BLOBS_PUBLIC, n_components=3)
    yield public("public_only, more than there are", fpp.public_only, BLOBS_PUBLIC[:4], n_components=4)


def axis_aligned() -> Iterator[Case]:
    learn = fpp.learn_axis_aligned_mixture
    runs: dict[str, tuple[np.ndarray, Any, dict[str, Any]]] = {
        "univariate": (LINE, APPROX, {}),
        "univariate, known variance": (EVEN_LINE, APPROX, {"variance": 4.0}),
        "univariate, sure of itself": (LINE, ApproxDP(8, 1e-6), {"candidates": 40, "accuracy": 0.2}),
        "anchors": (PLANE, APPROX, {"candidates": 12}),
        "anchors, sure of itself": (PLANE, ApproxDP(8, 1e-6), {"candidates": 12, "min_weight": 0.2}),
        "anchors, known covariance": (
            PLANE,
            ApproxDP(8, 1e-6),
            {"covariance": [[4.0, 1.0], [1.0, 1.0]], "candidates": 12},
        ),
    }
    for name, budget in BUDGETS.items():
        points = {"x_pub": LINE_PUBLIC}
        runs[f"public_list, {name}"] = (LINE, budget, {**points, "method": "public_list", "candidates": 60})
        runs[f"public_list, 2 columns, {name}"] = (
            PLANE,
            budget,
            {"x_pub": PLANE_PUBLIC, "method": "public_list", "candidates": 20},
        )
        runs[f"dp_em, {name}"] = (PLANE, budget, {"x_pub": PLANE_PUBLIC, "method": "dp_em"})
        runs[f"dp_em, held out, {name}"] = (PLANE, budget, {"x_pub": PLANE_PUBLIC, "method": "dp_em", "held_out": 0.2})
        runs[f"dp_em, known variance, {name}"] = (LINE, budget, {**points, "method": "dp_em", "variance": 4.0})
        runs[f"auto, {name}"] = (LINE, budget, points)
    for name, (rows, budget, options) in runs.items():
        call = {"n_components": 2, "budget": budget, **options}
        yield private(f"learn_axis_aligned_mixture, {name}", learn, rows, **call)
    for name, rows, points in (("univariate", LINE, LINE_PUBLIC), ("2 columns", PLANE, PLANE_PUBLIC)):
        call = {"n_components": 2, "budget": ApproxDP(4, 1e-6), "forms": FORMS}
        yield private(f"learn_axis_aligned_mixture, {name}, sources", learn, rows, **call, candidates=10)
        yield private(f"learn_axis_aligned_mixture, {name}, public, sources", learn, rows, **call, x_pub=points)
    large = {"n_components": 2, "budget": APPROX, "threads": (2,)}
    yield private("learn_axis_aligned_mixture, univariate, large", learn, LARGE_LINE, **large, candidates=30)
    yield private("learn_axis_aligned_mixture, anchors, large", learn, LARGE_PLANE, **large, candidates=8)
    yield private("learn_axis_aligned_mixture, dp_em, large", learn, LARGE_PLANE, **large, x_pub=PLANE_PUBLIC)
    paper = {"n_components": 1, "method": "list_decoding"}
    line = 3.0 * normal(34, 20_000, 1)
    yield private(
        "learn_axis_aligned_mixture, theory, known variance",
        learn,
        line,
        **paper,
        budget=ApproxDP(4, 1e-7),
        accuracy=0.9,
        variance=9.0,
    )
    yield private(
        "learn_axis_aligned_mixture, theory",
        learn,
        3.0 * normal(35, 1_200_000, 1),
        **paper,
        budget=ApproxDP(8, 1e-7),
        accuracy=0.9,
        slow=True,
    )
    yield private(
        "learn_axis_aligned_mixture refuses what is out of reach",
        learn,
        line,
        n_components=2,
        method="list_decoding",
        budget=APPROX,
        accuracy=0.1,
    )
    yield private("learn_axis_aligned_mixture refuses a budget", learn, LINE, n_components=2, budget=ZCDP(1))


def lists() -> Iterator[Case]:
    strong = {"budget": ApproxDP(4, 1e-6), "blas": False}
    for mode in ("practical", "theory"):
        call = {**strong, "mode": mode}
        yield private(f"decode_variances, {mode}", decoders.decode_variances, PLANE, **call)
        yield private(f"decode_means, {mode}", decoders.decode_means, PLANE, **call, std=[2.0, 3.5])
        yield private(f"decode_gaussians, {mode}", decoders.decode_gaussians, LINE, **call, min_weight=0.3)
        yield private(f"decode_axis_aligned, {mode}", decoders.decode_axis_aligned, PLANE, **call)
        known = {**call, "covariance": [[4.0, 1.0], [1.0, 9.0]], "blas": True}
        yield private(f"decode_axis_aligned, known covariance, {mode}", decoders.decode_axis_aligned, PLANE, **known)
    yield private(
        "decode_gaussians, the paper's accounting",
        decoders.decode_gaussians,
        LARGE_LINE[::10],
        **strong,
        accounting="paper",
    )
    yield private(
        "decode_variances, large", decoders.decode_variances, LARGE_PLANE, **strong, max_scales=2, threads=(2,)
    )
    yield private("decode_axis_aligned, sources", decoders.decode_axis_aligned, PLANE, **strong, forms=FORMS)


def listed(size: int, dim: int, seed: int, *, full: bool = False) -> fpp.Hypotheses:
    """A list of mixtures of two Gaussians, near LINE and PLANE and away from them; the last entry is of no use."""
    rng = np.random.default_rng(seed)
    weights = 0.2 + 0.6 * rng.random((size, 1))
    ends = np.array([[0.0], [1000.0]]) if dim == 1 else np.array([[0.0, 5.0], [30.0, 5.0]])
    means = ends + 6.0 * (rng.random((size, 2, dim)) - 0.5)
    spreads = (1.0 + 30.0 * rng.random((size, 2, dim))) ** 2
    means[-1, 0, 0] = np.nan
    if full:
        spreads = spreads[..., None] * np.eye(dim)
        spreads[:, :, 0, 1] = spreads[:, :, 1, 0] = 0.3 * np.sqrt(spreads[:, :, 0, 0] * spreads[:, :, 1, 1])
    return fpp.Hypotheses.from_arrays(np.concatenate([weights, 1.0 - weights], axis=1), means, spreads)


def selections() -> Iterator[Case]:
    choose = fpp.select_hypothesis
    line, plane, tilted = listed(50, 1, 41), listed(40, 2, 42), listed(20, 2, 43, full=True)
    for score in ("minimum_distance", "yatracos", "log_ratio"):
        for law in ("permute_and_flip", "exponential"):
            for name, budget in BUDGETS.items():
                call = {"score": score, "law": law, "budget": budget}
                yield private(
                    f"select_hypothesis, {score}, {law}, {name}",
                    choose,
                    LINE,
                    hypotheses=line,
                    **call,
                    covers=[fpp.Hypotheses],
                )
        for name, listing in (("2 columns", plane), ("covariances", tilted)):
            yield private(
                f"select_hypothesis, {score}, {name}", choose, PLANE, hypotheses=listing, score=score, budget=PureDP(1)
            )
    for method in ("exact", "cells", "densities"):
        yield private(f"select_hypothesis, {method}", choose, LINE, hypotheses=line, budget=PureDP(0.1), method=method)
    given = {"hypotheses": line, "budget": PureDP(1)}
    yield private("select_hypothesis, few cells", choose, LINE, **given, method="cells", cells=16, accuracy=0.3)
    yield private("select_hypothesis, few draws", choose, LINE, **given, method="densities", draws=64, public_seed=3)
    yield private("select_hypothesis, small clip", choose, LINE, **given, score="log_ratio", clip=0.5)
    yield private("select_hypothesis, sources", choose, PLANE, hypotheses=plane, budget=PureDP(1), forms=FORMS)
    one = (np.ones((1, 1)), np.zeros((1, 1, 1)), np.ones((1, 1, 1)))
    none = (np.ones((2, 1)), np.full((2, 1, 1), np.nan), np.ones((2, 1, 1)))
    yield private("select_hypothesis, only one", choose, LINE, hypotheses=one, budget=ZCDP(1))
    yield private("select_hypothesis, fallback", choose, LINE, hypotheses=none, fallback=one, budget=ZCDP(1))
    for score in ("minimum_distance", "log_ratio"):
        yield private(
            f"select_hypothesis, {score}, large",
            choose,
            LARGE_PLANE,
            hypotheses=plane,
            budget=PureDP(1),
            score=score,
            threads=(2,),
        )
    yield public("required_n", required_n, 1000, accuracy=0.2, epsilon=1.0)
    yield steps(
        "Hypotheses", lambda: {"listed": tilted, "log densities": tilted.log_density(PLANE[:5], 3)}, fpp.Hypotheses
    )


CASES = [*balls(), *separated(), *axis_aligned(), *lists(), *selections()]
