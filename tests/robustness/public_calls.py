"""Every public function that spends a budget, with good arguments, hostile ones, and the budgets that it takes.

One table for the tests that hold for all of them: relations of ledgers, large budgets, released extremes, fuzzed arguments.
"""

import functools
import importlib
import inspect
import itertools
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
CLASSES = np.column_stack([ROWS[:, 0], ROWS[:, 1] > 2.0])
PUBLIC_CLASSES = np.column_stack([PUBLIC[:, 0], PUBLIC[:, 1] > 2.0])
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


TINY = 5e-324
HUGE = 1.7976931348623157e308
BOX = ([-5.0, -4.0], [35.0, 9.0])

# ---- Hostile values of arguments that several functions have.
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
    None,
    TINY,
    1.0,
    HUGE,
    [1.0, 1e-300],
    [1e300, 1e-300],
    np.eye(2),
    np.eye(2) * 1e-300,
    np.diag([1e300, 1e-300]),
    np.ones((2, 2)),
    np.full((2, 2), math.nan),
    "public",
    "x",
]
CENTERS = [None, 0.0, 1e300, HUGE, -HUGE, [HUGE, -HUGE], [1.0], math.nan, "public", "x"]
BOUNDS = [
    BOX,
    (0.0, 1.0),
    (-1e300, 1e300),
    (0.0, TINY),
    (1.0, 1.0 + 2.0**-52),
    ([0.0, -1e9], [1e-9, 1e9]),
    (1.0, 0.0),
    (0.0, math.inf),
    (math.nan, 1.0),
    (0.0,),
    ([0.0] * 3, 1.0),
    (0.0, 1e-300),
    (-HUGE, HUGE),
    "x",
    None,
]
PUBLICS = [
    PUBLIC,
    PUBLIC[:1],
    PUBLIC[:2],
    PUBLIC[:3],
    PUBLIC * 1e150,
    PUBLIC * 1e300,
    PUBLIC * 1e-150,
    PUBLIC * 1e-300,
    PUBLIC * [1e150, 1e-150],
    np.zeros((5, DIM)),
    np.repeat(PUBLIC[:2], 6, axis=0),
    np.full((3, DIM), HUGE),
    PUBLIC_LINE,
    PUBLIC_LINE * 1e-200,
    PUBLIC_CLASSES,
    np.where(PUBLIC > 30.0, math.nan, PUBLIC),
    None,
    "x",
]
RHOS = (2.0**-60, 1e-9, 1e-3, 10, 1e3, 1e6)
EPSILONS_OF_PURE = (2.0**-30, 1e-3, 10, 40, 46, 58, 60, 100, 780, 1024)
EPSILONS = (2.0**-30, 1e-3, 10, 46, 60, 100, 780, 1024)
DELTAS = (2.0**-100, 1e-20, 1e-9, 0.5, 1.0 - 2.0**-53)
BUDGETS = [
    *[fpp.ZCDP(rho) for rho in RHOS],
    *[fpp.PureDP(epsilon) for epsilon in EPSILONS_OF_PURE],
    *[fpp.ApproxDP(epsilon, delta) for epsilon, delta in itertools.product(EPSILONS, DELTAS)],
    None,
    1.0,
]
PRIVATES = [
    ROWS[:1],
    ROWS[:2],
    ROWS[:3],
    ROWS[:5],
    ROWS[:17],
    ROWS,
    LINE,
    LINE[:20],
    LINE[:, 0],
    ROWS.astype(np.float32),
    ROWS[:20, [0, 1, 0]],
    np.full((20, DIM), math.nan),
    np.full((20, DIM), HUGE),
    np.zeros((20, DIM)),
    ROWS * 1e300,
    "no such file.npy",
]
KEYS = [[1.0], [1.0, 1.0], [], ["a", "b"], [1.0, "b"], [math.nan]]
MANY_KEYS = list(range(100))
# By the name of the argument, for every function that has it.
SHARED = {}
SHARED["budget"] = BUDGETS
SHARED |= dict.fromkeys(("failure_prob", "pub_priv_gap", "min_weight"), PROBABILITIES)
SHARED |= dict.fromkeys(("weight_floor", "accuracy"), PROBABILITIES)
SHARED |= dict.fromkeys(("radius", "scale", "norm_bound", "cond_max", "y_scale"), LENGTHS)
SHARED |= dict.fromkeys(("steps", "rounds", "n_components", "top", "max_bytes"), COUNTS)
SHARED |= dict.fromkeys(("covariance", "variance"), MATRICES)
SHARED |= dict.fromkeys(("project", "require_precondition"), (True, False, 1))
SHARED["x_pub"] = PUBLICS
SHARED["center"] = CENTERS
SHARED["bounds"] = BOUNDS
SHARED["mode"] = ["practical", "theory", "x"]
SHARED["structure"] = ["auto", "public", "full", "x", None]
SHARED["noise"] = ["auto", "laplace", "gaussian", "x"]
SHARED["by"] = [-1, 0, "a", True, None]
SHARED["groups"] = [*KEYS, MANY_KEYS, 7, "x", None]
SHARED["label"] = [-1, 0, None, "y", True, math.nan]
SHARED["y_priv"] = [None, ROWS[:, 0], [1.0], "x"]
SHARED["y_pub"] = [None, PUBLIC[:, 0], [1.0], "x"]
SHARED["columns"] = [None, ["a"], 3]
OF_CATEGORIES = [{"x0": "public"}, {"x0": [1.0, 2.0]}, {"z": "public"}, {"x0": []}]
SHARED["categories"] = [None, {}, *OF_CATEGORIES, "public", ["x0"], [1]]
SHARED["reference"] = [None, {}, {"x0": 1.0}, {"z": "a"}, {"x0": HUGE}, "x0", 3]
SHARED["classes"] = [None, [0, 1], [1, 0], [1, 1], [1, 2], [0, math.nan], 5]
SHARED["class_weight"] = [None, "public", "balanced", {0: 1, 1: 2}, {0: 1}, 3]
SHARED["loss"] = ["poisson", "logistic", 3]
SHARED["weights_pub"] = [None, np.ones(len(PUBLIC)), np.ones(len(ROWS)), [1.0], "x", math.nan]
OF_BOUNDS = [{"x0": (-1e9, 1e9)}, {"z": (0, 1)}]
SHARED["x_bounds"] = [None, (-1e9, 1e9), (0.0, 1e-300), *OF_BOUNDS, "x", 3]
SHARED["y_bounds"] = [None, (-1e9, 1e9), (0, 1), "x", 3]
SHARED["random_state"] = [None, 0, 2**64, 10**400, 10**5000, -1, 1.5, True]
SHARED["threads"] = [None, 1, 2, 0, 10**9, True]
SHARED["progress"] = [None, False, 1]
SHARED["x_priv"] = PRIVATES

# ---- The calls.
CALLS = {}


def add(name, function, *, rows=ROWS, notions=ALL, hostile=None, heavy=False, named=False, **given):
    """Add a call to the table: a function, its rows, the notions that it takes, hostile values, and its other arguments."""
    CALLS[name] = Call(function, rows, given, notions, hostile or {}, heavy, named)


# Means, covariances and directions.
SIGNED = np.column_stack([ROWS[:, 0], np.sign(ROWS[:, 1])])
PUBLIC_SIGNED = np.column_stack([PUBLIC[:, 0], np.sign(PUBLIC[:, 1])])
OF_SIGNS = {"by": -1, "groups": [-1.0, 1.0]}
WEIGHTS = ["optimal", "throw_away", "gaussian", "private", 0.0, 1e-3, TINY, 1.0, math.nan, "x"]
WEIGHTED = {"variance": LENGTHS, "row_weight": WEIGHTS}
add("estimate_mean", fpp.estimate_mean, x_pub=PUBLIC)
add("estimate_mean, bounds", fpp.estimate_mean, x_pub=PUBLIC, bounds=BOX)
add("estimate_mean, groups", fpp.estimate_mean, rows=SIGNED, x_pub=PUBLIC_SIGNED, **OF_SIGNS)
add("estimate_mean, public covariance", fpp.estimate_mean, x_pub=PUBLIC, covariance="public")
add("coinpress_mean", fpp.coinpress_mean, center=0.0, radius=50.0, steps=3)
add("weighted_mean", fpp.weighted_mean, hostile=WEIGHTED, x_pub=PUBLIC, norm_bound=50.0)
add("weighted_mean, bounds", fpp.weighted_mean, x_pub=PUBLIC, bounds=BOX)
add("coinpress_mean, bounds", fpp.coinpress_mean, bounds=BOX)
add("coinpress_covariance", fpp.coinpress_covariance, scale=1000.0, steps=3)
add("coinpress_covariance, bounds", fpp.coinpress_covariance, bounds=BOX)
add("private_pca", fpp.private_pca, center=0.0, radius=50.0, n_components=1)
add("private_pca, bounds", fpp.private_pca, bounds=BOX, n_components=1)


def add_gaussian(name, method, x_pub=PUBLIC, **given):
    add(f"estimate_gaussian, {name}", fpp.estimate_gaussian, x_pub=x_pub, method=method, **given)


FIVE_TIMES = np.tile(MANY, (5, 1))
add_gaussian("auto", "auto")
for structure in ("public", "mean", "diagonal", "full"):
    add_gaussian(f"ladder, {structure}", "ladder", structure=structure)
add_gaussian("lifted", "lifted_coinpress")
add_gaussian("lifted from two public rows", "lifted_coinpress", PUBLIC[:2], rounds=5)
add_gaussian("pairs", "pairs", rounds=3)
add_gaussian("recursive", "recursive_preconditioner", SAME * 3.0, rows=MANY, notions=GAUSSIAN)
add_gaussian("selection", "hypothesis_selection", SAME, rows=MANY, notions=("zcdp", "pure"))
add_gaussian(
    "group_covariances", "group_covariances", SAME, rows=FIVE_TIMES, notions=APPROX, heavy=True
)


# Mixtures of separated components.
def add_separated(name, k, notions, *, x_pub=PUBLIC, **given):
    methods = {"method": ["auto", "tree", "one_shot", "public_pca", "soft_em", "x"]}
    given = {"x_pub": x_pub, "n_components": k, "min_weight": 0.2, **given}
    name = f"learn_separated_mixture, {name}"
    add(name, fpp.learn_separated_mixture, notions=notions, hostile=methods, **given)


add_separated("tree", 3, GAUSSIAN, method="tree")
add_separated("one shot", 2, GAUSSIAN, method="one_shot")
add_separated("public", 2, ALL, method="public_pca")
add_separated("soft EM", 2, GAUSSIAN, method="soft_em")
add_separated("theory, tree", 3, GAUSSIAN, method="tree", mode="theory")
add_separated("theory, public", 2, ALL, method="public_pca", mode="theory")
add_separated("one component", 1, ALL)
add_separated("no public rows", 2, APPROX, x_pub=None)

# Quantiles and counts.
SHARES = [0.5, [0.1, 0.9], [0.9, 0.1], [], [math.nan], None]
EXTREME_SHARES = [[0.5, 0.5], [0.0, 0.5], [TINY, 1.0 - 2.0**-53], "x"]
OF_QUANTILES = {"q": [*SHARES, *EXTREME_SHARES]}
OF_DESCRIPTIONS = {
    "q": SHARES,
    "keys": [{"a": [1.0]}, {}, [1.0], "x", None],
    "columns": [["a"], [], "a", None],
}
GRIDS = [1, 0, [0.0], [-0.5, 0.5], [1.0, 0.0], [0.0, 0.0], [math.nan], [math.inf]]
OF_COUNTS = {
    "keys": [*KEYS, [math.inf], MANY_KEYS, 7, "x", None],
    "columns": [None, "a", 0, True, ["a", "b"], []],
    "bins": [*GRIDS, True, 10**9, "x", {}, None],
}
PAIRS = {"a": [-1.0, 1.0], "b": [-1.0, 1.0]}
BAD_PAIRS = [{"a": [1.0], "b": [1.0]}, {"a": [1.0]}, {"c": [1.0]}, {"a": [], "b": [1.0]}]
OF_PAIRS = {
    "keys": [*BAD_PAIRS, {}, [1.0], "x", None],
    "x_pub": [SIGNS[:5], PUBLIC, None, "x"],
    "columns": [["a"], ["b", "a"], ["a", "a"], ["c"], [], "a", None, [0, 1]],
}
OF_PERSONS = {
    "person": ["a", np.arange(300), np.arange(7), np.full(300, math.nan), None, "x", 3],
    "by": ["a", ["b"], ["a", "a"], ["c"], [], -1, None],
    "groups": [*BAD_PAIRS, [1.0], "x", None],
    "x_pub": [SIGNS[:5], PUBLIC, None, "x"],
    "keys_per_person": COUNTS,
}
add("quantiles", fpp.quantiles, hostile=OF_QUANTILES, x_pub=PUBLIC)
add("describe", fpp.describe, hostile=OF_DESCRIPTIONS, x_pub=PUBLIC)
add("value_counts", fpp.value_counts, rows=np.sign(LINE), hostile=OF_COUNTS, keys=[-1.0, 1.0])
add(
    "value_counts, two columns",
    fpp.value_counts,
    rows=SIGNS,
    named=True,
    hostile=OF_PAIRS,
    columns=["a", "b"],
    keys=PAIRS,
)
add(
    "count_persons",
    fpp.count_persons,
    rows=SIGNS,
    named=True,
    hostile=OF_PERSONS,
    person=np.arange(300) // 3,
    by=["a", "b"],
    groups=PAIRS,
)
add("no_public_baseline", fpp.no_public_baseline, notions=GAUSSIAN, n_components=3, radius=60.0)

# Choices among hypotheses.
SCALES = (0.0, -1.0, 1e-300, 1e300, math.nan)
LISTS = [listed(count, dim) for count, dim in itertools.product((1, 2, 30, 300), (1, 2))]
SCALED_LISTS = [tuple(part * scale for part in listed(5, 2)) for scale in SCALES]
OF_CHOICES = {
    "hypotheses": LISTS + SCALED_LISTS,
    "score": ["minimum_distance", "yatracos", "log_ratio", "x"],
    "method": ["auto", "exact", "cells", "densities", "x"],
    "law": ["auto", "permute_and_flip", "exponential", "x"],
    "fallback": [None, listed(1, 1), listed(1, 2), listed(2, 2)],
    "cells": COUNTS,
    "draws": COUNTS,
    "public_seed": [0, 2**31, 2**64, 10**400, -1, 1.5],
    "clip": LENGTHS,
}


def add_choice(name, rows, **given):
    given["hypotheses"] = listed(12, rows.shape[1])
    name = f"select_hypothesis, {name}"
    add(name, fpp.select_hypothesis, rows=rows, hostile=OF_CHOICES, **given)


add_choice("pairs", ROWS)
add_choice("roots", LINE, method="exact")
add_choice("cells", LINE, method="cells", accuracy=0.1)
add_choice("yatracos", LINE, score="yatracos")
add_choice("log ratios", ROWS, score="log_ratio", law="exponential")
add_choice("permute and flip", ROWS, law="permute_and_flip")

# Histograms.
OF_BINS = {
    "bins": [
        fpp.BinGrid(width=1.0),
        fpp.BinGrid(width=TINY),
        fpp.BinGrid(width=1e-300, offset=1e300),
        fpp.BinGrid(width=1e300, levels=10),
        fpp.BinGrid(width=1.0, levels=54),
        fpp.BinGrid(width=HUGE),
        fpp.DyadicBins(),
        fpp.ProductBins(grids=[fpp.BinGrid(width=1.0), fpp.DyadicBins()]),
        [fpp.BinGrid(width=1.0), None],
        [None, None],
        None,
    ]
}
GRID = fpp.BinGrid(width=1.0, levels=4)
PRODUCT = fpp.ProductBins(grids=[fpp.BinGrid(width=1.0), fpp.BinGrid(width=2.0)])


def add_histogram(name, bins, **given):
    name = f"stable_histogram, {name}"
    add(name, fpp.stable_histogram, notions=APPROX, hostile=OF_BINS, bins=bins, **given)


add_histogram("grid", GRID)
add_histogram("dyadic", fpp.DyadicBins(), noise="gaussian")
add_histogram("product", PRODUCT, noise="laplace")


# Regressions and training.
def add_fit(function, method, rows=ROWS, x_pub=PUBLIC, **given):
    methods = {"method": [*METHODS.choices, "x"]}
    name = f"{function.__name__}, {method}"
    given = {"x_pub": x_pub, "label": -1, "method": method, **given}
    add(name, function, rows=rows, hostile=methods, **given)


for method in ("newton", "auto"):
    add_fit(fpp.linear_regression, method)
for method in ("newton", "auto"):
    add_fit(fpp.logistic_regression, method, CLASSES, PUBLIC_CLASSES)
for method in METHODS:
    # The first never asks the rows; the second is below.
    if method not in ("throw_away", "output_perturbation"):
        add_fit(fpp.train, method, loss="squared")
# By itself it takes up to a thousand steps, where noise is small.
TWENTY_STEPS = OutputPerturbation(steps=20)
HUBER = {"x_pub": PUBLIC, "label": -1, "loss": "huber"}
add("train, output_perturbation", fpp.train, method=TWENTY_STEPS, **HUBER)

# List decoders.
OF_DECODERS = {
    "max_scales": [1, 2, 12, 50, 0, 10**9],
    "accounting": ["exact", "paper", "x"],
    "std": [*LENGTHS, [1.0, 1e-300], [TINY, HUGE]],
}
THEORY = {"mode": "theory", "min_weight": 0.9}


def add_decoder(name, function, rows=ROWS, **given):
    add(name, function, rows=rows, notions=APPROX, hostile=OF_DECODERS, **given)


add_decoder("decode_variances", decode_variances)
add_decoder("decode_variances, theory", decode_variances, **THEORY)
add_decoder("decode_means", decode_means, std=1.5)
add_decoder("decode_gaussians, exact", decode_gaussians, LINE)
add_decoder("decode_gaussians, paper", decode_gaussians, LINE, accounting="paper")
add_decoder("decode_gaussians, theory", decode_gaussians, LINE, **THEORY)
add_decoder("decode_axis_aligned", decode_axis_aligned)
add_decoder("decode_axis_aligned, known covariance", decode_axis_aligned, covariance=np.eye(2))

# Mixtures of axis-aligned components.
OF_AXIS_ALIGNED = {
    "n_components": [1, 2, 3, 7, 65, 0, -1, 1.5],
    "method": ["auto", "cells", "sketch", "dp_em", "list_decoding", "x"],
}
FAR_BOUNDS = (-1e3, 1e3)


def add_axis_aligned(name, rows, k, notions, **given):
    method = name.split()[0].rstrip(",")
    given = {"n_components": k, "method": method, **given}
    add(
        f"learn_axis_aligned_mixture, {name}",
        fpp.learn_axis_aligned_mixture,
        rows=rows,
        notions=notions,
        hostile=OF_AXIS_ALIGNED,
        heavy=method == "list_decoding",
        **given,
    )


add_axis_aligned("cells", LINE, 2, APPROX)
add_axis_aligned("cells, known", LINE, 2, APPROX, variance=1.0)
add_axis_aligned("sketch", ROWS, 2, APPROX)
add_axis_aligned("sketch, known", ROWS, 3, APPROX, variance=1.0)
add_axis_aligned("cells, public", LINE, 2, ALL, x_pub=PUBLIC_LINE)
add_axis_aligned("cells, bounds", LINE, 2, ALL, bounds=FAR_BOUNDS)
add_axis_aligned("sketch, bounds", ROWS, 2, ALL, bounds=FAR_BOUNDS)
add_axis_aligned("dp_em", ROWS, 2, ALL, x_pub=PUBLIC)
add_axis_aligned("list_decoding", MANY, 1, APPROX, accuracy=0.9, variance=1.0)

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
