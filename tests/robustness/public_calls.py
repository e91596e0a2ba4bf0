"""Every public function that spends a budget, with good arguments, hostile ones, and the budgets that it takes.

One table for the tests that hold for all of them: relations of ledgers, large budgets, released extremes, fuzzed arguments.
"""

import functools
import importlib
import inspect
import math
import pkgutil
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

import fastpubpriv as fpp
from fastpubpriv.mixtures.list_decoding import (
    decode_axis_aligned,
    decode_gaussians,
    decode_means,
    decode_variances,
)
from fastpubpriv.privacy import Cost, Neighbors
from fastpubpriv.training import OutputPerturbation
from fastpubpriv.training.methods import METHODS

DIM = 2
RNG = np.random.default_rng(11)
ROWS = np.concatenate(
    [RNG.normal(size=(150, DIM)), RNG.normal(size=(150, DIM)) + np.array([30.0, 5.0])]
)[RNG.permutation(300)]
PUBLIC = np.concatenate(
    [RNG.normal(size=(12, DIM)), RNG.normal(size=(12, DIM)) + np.array([30.0, 5.0])]
)
LINE = ROWS[:, :1]
PUBLIC_LINE = PUBLIC[:, :1]
SIGNS = pd.DataFrame(np.sign(ROWS), columns=["a", "b"])
MANY = RNG.normal(size=(100_000, 1))
SAME = RNG.normal(size=(50, 1))
CLASSES, PUBLIC_CLASSES = (np.column_stack([x[:, 0], x[:, 1] > 2.0]) for x in (ROWS, PUBLIC))
NOTIONS = {"zcdp": fpp.ZCDP(0.5), "approx": fpp.ApproxDP(1, 1e-6), "pure": fpp.PureDP(1)}
ALL = tuple(NOTIONS)
GAUSSIAN = ("zcdp", "approx")
APPROX = ("approx",)


def listed(count, dim):
    """A list of `count` mixtures of two components."""
    rng = np.random.default_rng(count)
    weights = np.full((count, 2), 0.5)
    return (
        weights,
        rng.normal(size=(count, 2, dim)) * 10.0,
        np.exp(rng.normal(size=(count, 2, dim))),
    )


@dataclass(frozen=True)
class Call:
    """A function with its rows, its other arguments, and the notions that it takes; `hostile` replaces arguments.

    One that is `named` reads columns by their names: arrays and what stands in for rows in a test have none.
    """

    function: Any
    rows: Any = field(default_factory=lambda: ROWS, repr=False)
    options: dict = field(default_factory=dict, repr=False)
    notions: tuple = ALL
    hostile: dict = field(default_factory=dict, repr=False)
    heavy: bool = False
    named: bool = False

    @property
    def parameters(self):
        """The parameters of the function, by name."""
        return inspect.signature(self.function).parameters

    @property
    def slow(self):
        """True where a search goes through what was released."""
        return self.function is fpp.learn_axis_aligned_mixture

    def __call__(self, x_priv=None, **more):
        given = {"threads": 1, "progress": False, **self.options, **more}
        return quiet(self.function, self.rows if x_priv is None else x_priv, **given)

    def bits(self, x_priv=None, **more):
        """What it gives with a seed, as text with all bits."""
        result = self(x_priv, budget=NOTIONS[self.notions[0]], random_state=3, **more)
        return repr(result.to_dict()) if hasattr(result, "to_dict") else repr(result)


def quiet(function, *args, **options):
    """Call without the warnings that are about accuracy, weak deltas, seeds and status."""
    with warnings.catch_warnings():
        for kind in (
            "AccuracyWarning",
            "PrivacyWarning",
            "ExperimentalWarning",
            "SeededNoiseWarning",
        ):
            warnings.simplefilter("ignore", getattr(fpp, kind))
        return function(*args, **options)


TINY, HUGE = 5e-324, 1.7976931348623157e308
PROBABILITIES = [
    TINY,
    1e-300,
    1e-100,
    1e-16,
    0.5,
    1.0 - 2.0**-53,
    0.0,
    1.0,
    -1.0,
    math.nan,
    math.inf,
    "x",
    None,
]
LENGTHS = [
    TINY,
    1e-160,
    1e-150,
    1e-9,
    1.0,
    1e9,
    1e150,
    1e160,
    HUGE,
    0.0,
    -1.0,
    math.nan,
    math.inf,
    "x",
    None,
]
COUNTS = [1, 2, 3, 7, 24, 64, 1000, 2**31, 0, -1, 1.5, math.nan, True, "auto", "x", None]
MATRICES = [
    None, TINY, 1.0, HUGE, [1.0, 1e-300], [1e300, 1e-300], np.eye(2), np.eye(2) * 1e-300, np.diag([1e300, 1e-300]),
    np.ones((2, 2)), np.full((2, 2), math.nan), "public", "x",
]  # fmt: skip
CENTERS = [None, 0.0, 1e300, HUGE, -HUGE, [HUGE, -HUGE], [1.0], math.nan, "public", "x"]
BOX = ([-5.0, -4.0], [35.0, 9.0])
BOUNDS = [
    BOX, (0.0, 1.0), (-1e300, 1e300), (0.0, TINY), (1.0, 1.0 + 2.0**-52), ([0.0, -1e9], [1e-9, 1e9]), (1.0, 0.0),
    (0.0, math.inf), (math.nan, 1.0), (0.0,), ([0.0] * 3, 1.0), (0.0, 1e-300), (-HUGE, HUGE), "x", None,
]  # fmt: skip
PUBLICS = [
    PUBLIC, PUBLIC[:1], PUBLIC[:2], PUBLIC[:3], PUBLIC * 1e150, PUBLIC * 1e300, PUBLIC * 1e-150, PUBLIC * 1e-300,
    PUBLIC * [1e150, 1e-150], np.zeros((5, DIM)), np.repeat(PUBLIC[:2], 6, axis=0), np.full((3, DIM), HUGE),
    PUBLIC_LINE, PUBLIC_LINE * 1e-200, PUBLIC_CLASSES, np.where(PUBLIC > 30.0, math.nan, PUBLIC), None, "x",
]  # fmt: skip
SHARED = {
    "budget": [
        *(fpp.ZCDP(rho) for rho in (2.0**-60, 1e-9, 1e-3, 10, 1e3, 1e6)),
        *(fpp.PureDP(epsilon) for epsilon in (2.0**-30, 1e-3, 10, 40, 46, 58, 60, 100, 780, 1024)),
        *(
            fpp.ApproxDP(epsilon, delta)
            for epsilon in (2.0**-30, 1e-3, 10, 46, 60, 100, 780, 1024)
            for delta in (2.0**-100, 1e-20, 1e-9, 0.5, 1.0 - 2.0**-53)
        ),
        None,
        1.0,
    ],
    **dict.fromkeys(("failure_prob", "pub_priv_gap", "min_weight", "weight_floor", "accuracy"), PROBABILITIES),
    **dict.fromkeys(("radius", "scale", "norm_bound", "cond_max", "y_scale"), LENGTHS),
    **dict.fromkeys(("steps", "rounds", "n_components", "top", "max_bytes"), COUNTS),
    **dict.fromkeys(("covariance", "variance"), MATRICES),
    **dict.fromkeys(("project", "require_precondition"), (True, False, 1)),
    "x_pub": PUBLICS,
    "center": CENTERS,
    "bounds": BOUNDS,
    "mode": ["practical", "theory", "x"],
    "structure": ["auto", "public", "full", "x", None],
    "noise": ["auto", "laplace", "gaussian", "x"],
    "by": [-1, 0, "a", True, None],
    "groups": [[1.0], [1.0, 1.0], [], ["a", "b"], [1.0, "b"], [math.nan], list(range(100)), 7, "x", None],
    "label": [-1, 0, None, "y", True, math.nan],
    "y_priv": [None, ROWS[:, 0], [1.0], "x"],
    "y_pub": [None, PUBLIC[:, 0], [1.0], "x"],
    "columns": [None, ["a"], 3],
    "categories": [None, {}, {"x0": "public"}, {"x0": [1.0, 2.0]}, {"z": "public"}, {"x0": []}, "public", ["x0"], [1]],
    "reference": [None, {}, {"x0": 1.0}, {"z": "a"}, {"x0": HUGE}, "x0", 3],
    "classes": [None, [0, 1], [1, 0], [1, 1], [1, 2], [0, math.nan], 5],
    "class_weight": [None, "public", "balanced", {0: 1, 1: 2}, {0: 1}, 3],
    "loss": ["poisson", "logistic", 3],
    "weights_pub": [None, np.ones(len(PUBLIC)), np.ones(len(ROWS)), [1.0], "x", math.nan],
    "x_bounds": [None, (-1e9, 1e9), (0.0, 1e-300), {"x0": (-1e9, 1e9)}, {"z": (0, 1)}, "x", 3],
    "y_bounds": [None, (-1e9, 1e9), (0, 1), "x", 3],
    "random_state": [None, 0, 2**64, 10**400, 10**5000, -1, 1.5, True],
    "threads": [None, 1, 2, 0, 10**9, True],
    "progress": [None, False, 1],
    "x_priv": [
        ROWS[:1], ROWS[:2], ROWS[:3], ROWS[:5], ROWS[:17], ROWS, LINE, LINE[:20], LINE[:, 0],
        ROWS.astype(np.float32), ROWS[:20, [0, 1, 0]], np.full((20, DIM), math.nan), np.full((20, DIM), HUGE),
        np.zeros((20, DIM)), ROWS * 1e300, "no such file.npy",
    ],
}  # fmt: skip
CALLS = {
    "estimate_mean": Call(fpp.estimate_mean, options={"x_pub": PUBLIC}),
    "estimate_mean, bounds": Call(fpp.estimate_mean, options={"x_pub": PUBLIC, "bounds": BOX}),
    "estimate_mean, groups": Call(
        fpp.estimate_mean, rows=np.column_stack([ROWS[:, 0], np.sign(ROWS[:, 1])]),
        options={"x_pub": np.column_stack([PUBLIC[:, 0], np.sign(PUBLIC[:, 1])]), "by": -1, "groups": [-1.0, 1.0]},
    ),
    "estimate_mean, public covariance": Call(fpp.estimate_mean, options={"x_pub": PUBLIC, "covariance": "public"}),
    "coinpress_mean": Call(fpp.coinpress_mean, options={"center": 0.0, "radius": 50.0, "steps": 3}),
    "weighted_mean": Call(
        fpp.weighted_mean, options={"x_pub": PUBLIC, "norm_bound": 50.0},
        hostile={
            "variance": LENGTHS,
            "row_weight": ["optimal", "throw_away", "gaussian", "private", 0.0, 1e-3, TINY, 1.0, math.nan, "x"],
        },
    ),
    "weighted_mean, bounds": Call(fpp.weighted_mean, options={"x_pub": PUBLIC, "bounds": BOX}),
    "coinpress_mean, bounds": Call(fpp.coinpress_mean, options={"bounds": BOX}),
    "coinpress_covariance": Call(fpp.coinpress_covariance, options={"scale": 1000.0, "steps": 3}),
    "coinpress_covariance, bounds": Call(fpp.coinpress_covariance, options={"bounds": BOX}),
    "private_pca": Call(fpp.private_pca, options={"center": 0.0, "radius": 50.0, "n_components": 1}),
    "private_pca, bounds": Call(fpp.private_pca, options={"bounds": BOX, "n_components": 1}),
    **{
        f"estimate_gaussian, {name}": Call(
            fpp.estimate_gaussian, rows=rows, options={"x_pub": public, "method": method, **more}, notions=notions,
            heavy=heavy,
        )
        for name, method, rows, public, notions, heavy, more in (
            ("auto", "auto", ROWS, PUBLIC, ALL, False, {}),
            *(
                (f"ladder, {structure}", "ladder", ROWS, PUBLIC, ALL, False, {"structure": structure})
                for structure in ("public", "mean", "diagonal", "full")
            ),
            ("lifted", "lifted_coinpress", ROWS, PUBLIC, ALL, False, {}),
            ("lifted from two public rows", "lifted_coinpress", ROWS, PUBLIC[:2], ALL, False, {"rounds": 5}),
            ("pairs", "pairs", ROWS, PUBLIC, ALL, False, {"rounds": 3}),
            ("recursive", "recursive_preconditioner", MANY, SAME * 3.0, GAUSSIAN, False, {}),
            ("selection", "hypothesis_selection", MANY, SAME, ("zcdp", "pure"), False, {}),
            ("group_covariances", "group_covariances", np.tile(MANY, (5, 1)), SAME, APPROX, True, {}),
        )
    },
    **{
        f"learn_separated_mixture, {name}": Call(
            fpp.learn_separated_mixture, options={"x_pub": PUBLIC, "n_components": k, "min_weight": 0.2, **options},
            notions=notions, hostile={"method": ["auto", "tree", "one_shot", "public_pca", "soft_em", "x"]},
        )
        for name, k, options, notions in (
            ("tree", 3, {"method": "tree"}, GAUSSIAN), ("one shot", 2, {"method": "one_shot"}, GAUSSIAN),
            ("public", 2, {"method": "public_pca"}, ALL), ("soft EM", 2, {"method": "soft_em"}, GAUSSIAN),
            ("theory, tree", 3, {"method": "tree", "mode": "theory"}, GAUSSIAN),
            ("theory, public", 2, {"method": "public_pca", "mode": "theory"}, ALL), ("one component", 1, {}, ALL),
            ("no public rows", 2, {"x_pub": None}, APPROX),
        )
    },
    "quantiles": Call(
        fpp.quantiles, options={"x_pub": PUBLIC},
        hostile={
            "q": [0.5, [0.1, 0.9], [0.5, 0.5], [0.9, 0.1], [0.0, 0.5], [TINY, 1.0 - 2.0**-53], [], [math.nan], "x", None],
        },
    ),
    "describe": Call(
        fpp.describe, options={"x_pub": PUBLIC},
        hostile={
            "q": [0.5, [0.1, 0.9], [0.9, 0.1], [], [math.nan], None],
            "keys": [{"a": [1.0]}, {}, [1.0], "x", None], "columns": [["a"], [], "a", None],
        },
    ),
    "value_counts": Call(
        fpp.value_counts, rows=np.sign(LINE), options={"keys": [-1.0, 1.0]},
        hostile={
            "keys": [[1.0], [1.0, 1.0], [], ["a", "b"], [1.0, "b"], [math.nan], [math.inf], list(range(100)), 7, "x", None],
            "columns": [None, "a", 0, True, ["a", "b"], []],
            "bins": [1, 0, [0.0], [-0.5, 0.5], [1.0, 0.0], [0.0, 0.0], [math.nan], [math.inf], True, 10**9, "x", {}, None],
        },
    ),
    "value_counts, two columns": Call(
        fpp.value_counts, rows=SIGNS, named=True,
        options={"columns": ["a", "b"], "keys": {"a": [-1.0, 1.0], "b": [-1.0, 1.0]}},
        hostile={
            "keys": [{"a": [1.0], "b": [1.0]}, {"a": [1.0]}, {"c": [1.0]}, {}, {"a": [], "b": [1.0]}, [1.0], "x", None],
            "x_pub": [SIGNS[:5], PUBLIC, None, "x"],
            "columns": [["a"], ["b", "a"], ["a", "a"], ["c"], [], "a", None, [0, 1]],
        },
    ),
    "count_persons": Call(
        fpp.count_persons, rows=SIGNS, named=True,
        options={"person": np.arange(300) // 3, "by": ["a", "b"], "groups": {"a": [-1.0, 1.0], "b": [-1.0, 1.0]}},
        hostile={
            "person": ["a", np.arange(300), np.arange(7), np.full(300, math.nan), None, "x", 3],
            "by": ["a", ["b"], ["a", "a"], ["c"], [], -1, None],
            "groups": [{"a": [1.0], "b": [1.0]}, {"a": [1.0]}, {"c": [1.0]}, {"a": [], "b": [1.0]}, [1.0], "x", None],
            "x_pub": [SIGNS[:5], PUBLIC, None, "x"],
            "keys_per_person": COUNTS,
        },
    ),
    "no_public_baseline": Call(fpp.no_public_baseline, options={"n_components": 3, "radius": 60.0}, notions=GAUSSIAN),
    **{
        f"select_hypothesis, {name}": Call(
            fpp.select_hypothesis, rows=rows, options={"hypotheses": listed(12, rows.shape[1]), **options},
            hostile={
                "hypotheses": [listed(count, dim) for count in (1, 2, 30, 300) for dim in (1, 2)]
                + [tuple(part * scale for part in listed(5, 2)) for scale in (0.0, -1.0, 1e-300, 1e300, math.nan)],
                "score": ["minimum_distance", "yatracos", "log_ratio", "x"],
                "method": ["auto", "exact", "cells", "densities", "x"],
                "law": ["auto", "permute_and_flip", "exponential", "x"],
                "fallback": [None, listed(1, 1), listed(1, 2), listed(2, 2)],
                "cells": COUNTS,
                "draws": COUNTS,
                "public_seed": [0, 2**31, 2**64, 10**400, -1, 1.5],
                "clip": LENGTHS,
            },
        )
        for name, rows, options in (
            ("pairs", ROWS, {}), ("roots", LINE, {"method": "exact"}),
            ("cells", LINE, {"method": "cells", "accuracy": 0.1}), ("yatracos", LINE, {"score": "yatracos"}),
            ("log ratios", ROWS, {"score": "log_ratio", "law": "exponential"}),
            ("permute and flip", ROWS, {"law": "permute_and_flip"}),
        )
    },
    **{
        f"stable_histogram, {name}": Call(
            fpp.stable_histogram, options={"bins": bins, **more}, notions=APPROX,
            hostile={
                "bins": [
                    fpp.BinGrid(width=1.0), fpp.BinGrid(width=TINY), fpp.BinGrid(width=1e-300, offset=1e300),
                    fpp.BinGrid(width=1e300, levels=10), fpp.BinGrid(width=1.0, levels=54), fpp.BinGrid(width=HUGE),
                    fpp.DyadicBins(), fpp.ProductBins(grids=[fpp.BinGrid(width=1.0), fpp.DyadicBins()]),
                    [fpp.BinGrid(width=1.0), None], [None, None], None,
                ],
            },
        )
        for name, bins, more in (
            ("grid", fpp.BinGrid(width=1.0, levels=4), {}),
            ("dyadic", fpp.DyadicBins(), {"noise": "gaussian"}),
            ("product", fpp.ProductBins(grids=[fpp.BinGrid(width=1.0), fpp.BinGrid(width=2.0)]), {"noise": "laplace"}),
        )
    },
    **{
        f"{name}, {method}": Call(
            function, rows=rows, options={"x_pub": public, "label": -1, "method": method, **more},
            hostile={"method": [*METHODS.choices, "x"]},
        )
        for name, function, rows, public, more, methods in (
            ("linear_regression", fpp.linear_regression, ROWS, PUBLIC, {}, ("newton", "auto")),
            ("logistic_regression", fpp.logistic_regression, CLASSES, PUBLIC_CLASSES, {}, ("newton", "auto")),
            ("train", fpp.train, ROWS, PUBLIC, {"loss": "squared"}, METHODS),
        )
        for method in methods
        # the first never asks the rows; the second is below
        if method not in ("throw_away", "output_perturbation")
    },
    "train, output_perturbation": Call(
        fpp.train,
        # By itself it takes up to a thousand steps, where noise is small.
        options={"x_pub": PUBLIC, "label": -1, "loss": "huber", "method": OutputPerturbation(steps=20)},
    ),
    **{
        name: Call(function, rows=rows, options=options, notions=APPROX, hostile={
            "max_scales": [1, 2, 12, 50, 0, 10**9], "accounting": ["exact", "paper", "x"],
            "std": [*LENGTHS, [1.0, 1e-300], [TINY, HUGE]],
        })
        for name, function, rows, options in (
            ("decode_variances", decode_variances, ROWS, {}),
            ("decode_variances, theory", decode_variances, ROWS, {"mode": "theory", "min_weight": 0.9}),
            ("decode_means", decode_means, ROWS, {"std": 1.5}),
            ("decode_gaussians, exact", decode_gaussians, LINE, {}),
            ("decode_gaussians, paper", decode_gaussians, LINE, {"accounting": "paper"}),
            ("decode_gaussians, theory", decode_gaussians, LINE, {"mode": "theory", "min_weight": 0.9}),
            ("decode_axis_aligned", decode_axis_aligned, ROWS, {}),
            ("decode_axis_aligned, known covariance", decode_axis_aligned, ROWS, {"covariance": np.eye(2)}),
        )
    },
    **{
        f"learn_axis_aligned_mixture, {name}": Call(
            fpp.learn_axis_aligned_mixture, rows=rows,
            options={"n_components": k, "method": name.split()[0].rstrip(","), **options}, notions=notions,
            heavy=name == "list_decoding",
            hostile={
                "n_components": [1, 2, 3, 7, 65, 0, -1, 1.5],
                "method": ["auto", "cells", "sketch", "dp_em", "list_decoding", "x"],
            },
        )
        for name, rows, k, options, notions in (
            ("cells", LINE, 2, {}, APPROX),
            ("cells, known", LINE, 2, {"variance": 1.0}, APPROX),
            ("sketch", ROWS, 2, {}, APPROX),
            ("sketch, known", ROWS, 3, {"variance": 1.0}, APPROX),
            ("cells, public", LINE, 2, {"x_pub": PUBLIC_LINE}, ALL),
            ("cells, bounds", LINE, 2, {"bounds": (-1e3, 1e3)}, ALL),
            ("sketch, bounds", ROWS, 2, {"bounds": (-1e3, 1e3)}, ALL),
            ("dp_em", ROWS, 2, {"x_pub": PUBLIC}, ALL),
            ("list_decoding", MANY, 1, {"accuracy": 0.9, "variance": 1.0}, APPROX),
        )
    },
}  # fmt: skip


# Functions of public rows alone, which spend nothing.
PUBLIC_ONLY = {
    "precondition": fpp.precondition,
    "public_only": functools.partial(fpp.public_only, n_components=2),
    "supercluster": functools.partial(fpp.supercluster, n_components=2),
    "terrific_ball": functools.partial(fpp.terrific_ball, min_count=2, radius_max=1e3),
}


@functools.cache
def spending_functions():
    """Every public function of the package, by full name, that takes a budget and a ledger."""
    found = {}
    for module in pkgutil.walk_packages(fpp.__path__, "fastpubpriv."):
        parts = module.name.split(".")
        # The bridge to PyTorch has tests of its own, where PyTorch is installed.
        if parts[1] in ("cli", "torch") or any(part.startswith("_") for part in parts):
            continue
        for name, function in vars(importlib.import_module(module.name)).items():
            if (
                name.startswith("_")
                or not inspect.isfunction(function)
                or function.__module__ != module.name
            ):
                continue
            if {"budget", "ledger"} <= set(inspect.signature(function).parameters):
                found[f"{module.name}.{name}"] = function
    return found


def full_name(function):
    return f"{function.__module__}.{function.__name__}"


def ample(budget, relation=Neighbors.REPLACE_ONE):
    """A ledger that the budget can be debited from."""
    total = fpp.ZCDP(10**6) if isinstance(budget, fpp.ZCDP) else fpp.ApproxDP(1024, 1.0 - 2.0**-53)
    return fpp.Ledger(total, relation=relation)


def spent_nothing(ledger):
    return ledger.spent == Cost.zero(type(ledger.total))
