"""Cases of mixtures: separated and axis-aligned ones, list decoders, the choice among hypotheses, balls of public rows."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from golden_case import Case, private, public
from golden_data import (
    APPROX,
    BLOBS,
    BLOBS_PUBLIC,
    BUDGETS,
    FAR_BLOBS,
    FAR_PUBLIC,
    LINE,
    LINE_PUBLIC,
    PLANE,
    PLANE_PUBLIC,
    normal,
)

import fastpubpriv as fpp
from fastpubpriv import ZCDP, ApproxDP, PureDP
from fastpubpriv.mixtures import list_decoding as decoders
from fastpubpriv.mixtures.select import required_n
from fastpubpriv.mixtures.separated.searches import METHODS


def balls() -> Iterator[Case]:
    yield public("supercluster, near", fpp.supercluster, BLOBS_PUBLIC, n_components=3)
    yield public(
        "terrific_ball, near", fpp.terrific_ball, BLOBS_PUBLIC, min_count=5, radius_max=1e5
    )


def separated() -> Iterator[Case]:
    learn = fpp.learn_separated_mixture
    large = {"zcdp": ZCDP(20), "approx": ApproxDP(20, 1e-6), "pure": PureDP(20)}
    given = {"n_components": 3, "min_weight": 0.25}
    for name, method in METHODS.items():
        for notion, budget in large.items():
            call = {
                **given,
                "x_pub": BLOBS_PUBLIC,
                "method": name,
                "mode": "practical",
                "budget": budget,
            }
            yield private(
                f"learn_separated_mixture, {name}, practical, {notion}", learn, BLOBS, **call
            )
        if method.theory is not None:
            # Algorithms of the paper want components thousands of deviations apart.
            call = {
                **given,
                "x_pub": FAR_PUBLIC,
                "method": name,
                "mode": "theory",
                "budget": ZCDP(20),
            }
            yield private(
                f"learn_separated_mixture, {name}, theory, zcdp", learn, FAR_BLOBS, **call
            )
    yield private(
        "learn_separated_mixture, auto, zcdp",
        learn,
        BLOBS,
        x_pub=BLOBS_PUBLIC,
        **given,
        budget=BUDGETS["zcdp"],
    )
    for notion, budget in {**large, "pure": PureDP(1)}.items():
        call = {"n_components": 3, "radius": 80.0, "budget": budget, "center": [10.0, 20.0, 5.0]}
        yield private(f"no_public_baseline, {notion}", fpp.no_public_baseline, BLOBS, **call)
    yield public("public_only", fpp.public_only, BLOBS_PUBLIC, n_components=3)


def axis_aligned() -> Iterator[Case]:
    public_plane = {"x_pub": PLANE_PUBLIC}
    runs: dict[str, tuple[np.ndarray, Any, dict[str, Any]]] = {
        "cells": (LINE, APPROX, {}),
        "sketch": (PLANE, APPROX, {}),
        "sketch, known covariance": (
            PLANE,
            ApproxDP(8, 1e-6),
            {"covariance": [[4.0, 1.0], [1.0, 1.0]]},
        ),
    }
    for name, budget in BUDGETS.items():
        runs[f"cells near public rows, {name}"] = (LINE, budget, {"x_pub": LINE_PUBLIC})
        runs[f"dp_em, {name}"] = (PLANE, budget, {**public_plane, "method": "dp_em"})
    for name, (rows, budget, options) in runs.items():
        call = {"n_components": 2, "budget": budget, **options}
        yield private(
            f"learn_axis_aligned_mixture, {name}", fpp.learn_axis_aligned_mixture, rows, **call
        )
    paper = {
        "n_components": 1,
        "method": "list_decoding",
        "budget": ApproxDP(4, 1e-7),
        "accuracy": 0.9,
    }
    yield private(
        "learn_axis_aligned_mixture, theory, known variance",
        fpp.learn_axis_aligned_mixture,
        3.0 * normal(34, 20_000, 1),
        **paper,
        variance=9.0,
    )


def lists() -> Iterator[Case]:
    strong = {"budget": ApproxDP(4, 1e-6), "blas": False}
    for mode in ("practical", "theory"):
        call = {**strong, "mode": mode}
        yield private(
            f"decode_gaussians, {mode}", decoders.decode_gaussians, LINE, **call, min_weight=0.3
        )
    yield private("decode_variances, practical", decoders.decode_variances, PLANE, **strong)
    yield private("decode_means, practical", decoders.decode_means, PLANE, **strong, std=[2.0, 3.5])
    yield private("decode_axis_aligned, practical", decoders.decode_axis_aligned, PLANE, **strong)
    known = {**strong, "covariance": [[4.0, 1.0], [1.0, 9.0]], "blas": True}
    yield private(
        "decode_axis_aligned, known covariance, practical",
        decoders.decode_axis_aligned,
        PLANE,
        **known,
    )


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
        spreads[:, :, 0, 1] = spreads[:, :, 1, 0] = 0.3 * np.sqrt(
            spreads[:, :, 0, 0] * spreads[:, :, 1, 1]
        )
    return fpp.Hypotheses.from_arrays(
        np.concatenate([weights, 1.0 - weights], axis=1), means, spreads
    )


def selections() -> Iterator[Case]:
    choose = fpp.select_hypothesis
    line = listed(50, 1, 41)
    plane = listed(40, 2, 42)
    tilted = listed(20, 2, 43, full=True)
    for score in ("minimum_distance", "yatracos", "log_ratio"):
        for name, budget in BUDGETS.items():
            laws = (
                ("permute_and_flip", "exponential")
                if (score, name) == ("minimum_distance", "zcdp")
                else ("permute_and_flip",)
            )
            for law in laws:
                call = {"hypotheses": line, "score": score, "law": law, "budget": budget}
                yield private(f"select_hypothesis, {score}, {law}, {name}", choose, LINE, **call)
    for name, listing in (("2 columns", plane), ("covariances", tilted)):
        call = {"hypotheses": listing, "score": "minimum_distance", "budget": PureDP(1)}
        yield private(f"select_hypothesis, minimum_distance, {name}", choose, PLANE, **call)
    for method in ("exact", "cells", "densities"):
        yield private(
            f"select_hypothesis, {method}",
            choose,
            LINE,
            hypotheses=line,
            budget=PureDP(0.1),
            method=method,
        )
    one = (np.ones((1, 1)), np.zeros((1, 1, 1)), np.ones((1, 1, 1)))
    none = (np.ones((2, 1)), np.full((2, 1, 1), np.nan), np.ones((2, 1, 1)))
    yield private(
        "select_hypothesis, fallback", choose, LINE, hypotheses=none, fallback=one, budget=ZCDP(1)
    )
    yield public("required_n", required_n, 1000, accuracy=0.2, epsilon=1.0)


CASES = [*balls(), *separated(), *axis_aligned(), *lists(), *selections()]
