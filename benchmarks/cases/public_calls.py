"""Cases of the five hot loops as users call them, at three sizes and on bad shapes, and of calls that no other module has."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from benchmarks.cases import limits, training
from benchmarks.cases.calls import APPROXIMATE, RHO, quiet
from benchmarks.cases.geometry import LOOP, early_exit_loop
from benchmarks.cases.loops import Call, Case, clusters
from benchmarks.cases.reports import NUMPY, numpy_privunit
from fastpubpriv import (
    ApproxDP,
    BinGrid,
    DyadicBins,
    PureDP,
    estimate_mean,
    local,
    select_hypothesis,
    stable_histogram,
    supercluster,
    terrific_ball,
    train,
    value_counts,
)
from fastpubpriv.training import DPSGD

PRODUCTS, TREE, SORTED = "products of matrices in blocks", "SciPy's k-d tree", "sorted cdist"
BEST = "the best of k-d tree, products and Numba loop"
SHAPES = ("random", "mixture", "nested", "sphere", "pairs", "line")
UNIQUE, PANDAS = "np.unique", "pandas"
EXPONENTS, LIKELIHOODS = "NumPy frexp and bincount", "NumPy likelihoods"


def shaped(shape: str, m: int, dim: int) -> np.ndarray:
    """Return rows (m, dim): a mixture, one Gaussian, groups of ever smaller spread, a sphere, close pairs, or a line."""
    rng = np.random.default_rng(5)
    if shape == "random":
        return rng.standard_normal((m, dim))
    if shape == "nested":
        return rng.standard_normal((m, dim)) * 0.1 ** rng.integers(0, 10, (m, 1))
    if shape == "sphere":
        rows = rng.standard_normal((m, dim))
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)
    if shape == "pairs":
        some = rng.standard_normal((m // 2, dim))
        return rng.permutation(np.vstack([some, some + 1e-6 * rng.standard_normal(some.shape)]))
    if shape == "line":
        return np.outer(rng.uniform(size=m), np.ones(dim))
    return clusters(m, dim, apart=30.0)


def by_products(x: np.ndarray) -> int:
    """Return the row farthest from its nearest other row, by products of matrices on blocks of rows."""
    half_sq = 0.5 * np.einsum("ij,ij->i", x, x)
    nearest = np.empty(len(x))
    rows = max(1, 2**18 // len(x))
    for begin in range(0, len(x), rows):
        block = x[begin : begin + rows]
        score = block @ x.T - half_sq
        lanes = np.arange(len(block))
        score[lanes, begin + lanes] = -np.inf
        nearest[begin : begin + rows] = half_sq[begin : begin + rows] - score.max(axis=1)
    return int(nearest.argmax())


def by_tree(x: np.ndarray) -> int:
    """Return the same row by a k-d tree."""
    distance, _ = cKDTree(x).query(x, k=2)
    return int(distance[:, 1].argmax())


def supercluster_case(shape: str, m: int, dim: int) -> Case:
    """Case of a supercluster, against the search for its center alone."""
    x = shaped(shape, m, dim)
    assert (
        supercluster(x, n_components=8).index == by_products(x - x.mean(axis=0))
        or shape != "mixture"
    )
    peers: dict[str, Call] = {PRODUCTS: lambda: by_products(x), TREE: lambda: by_tree(x)}
    return Case(
        f"supercluster, {shape}, {m} x {dim}", lambda: supercluster(x, n_components=8), peers
    )


def supercluster_beside_the_best(shape: str, m: int, dim: int) -> Case:
    """Case of a supercluster, against the fastest of a k-d tree, products of matrices and a Numba loop on these rows."""
    x = shaped(shape, m, dim)
    loop = early_exit_loop()
    sample = x[:: max(1, m // 64)]
    tree_seconds = limits.best_seconds(lambda: cKDTree(x).query(sample, k=2), 1) * m / len(sample)
    calls: dict[str, Call] = {
        TREE: lambda: by_tree(x),
        PRODUCTS: lambda: by_products(x),
        LOOP: lambda: loop(x),
    }
    loop(x[:2])
    seconds = {
        TREE: tree_seconds,
        **{peer: limits.best_seconds(calls[peer], 1) for peer in (PRODUCTS, LOOP)},
    }
    fastest = min(calls, key=lambda peer: seconds[peer])
    ours = partial(supercluster, x, n_components=8)
    return Case(f"supercluster, {shape}, {m} x {dim}", ours, {BEST: calls[fastest]})


def terrific_ball_case(shape: str, m: int, dim: int) -> Case:
    """Case of a search for a terrific ball over 12 radii, against sorted distances."""
    x = shaped(shape, m, dim)
    largest = 4.0 * float(np.abs(x).max())
    radii = largest * 0.5 ** np.arange(12)
    count = m // 40

    def by_sorting() -> int:
        found = 0
        for begin in range(0, m, 200):
            distances = np.sort(cdist(x[begin : begin + 200], x), axis=1)
            for row in distances:
                inner = np.searchsorted(row, radii, side="right")
                outer = np.searchsorted(row, 11.0 * radii, side="right")
                found += int(np.sum((inner >= count) & (inner == outer) & (m - outer >= count)))
        return found

    ours = partial(
        terrific_ball, x, min_count=count, radius_max=largest, radius_min=largest / 2**11
    )
    return Case(f"terrific_ball, {shape}, {m} x {dim}", ours, {SORTED: by_sorting})


def stable_histogram_case(shape: str, n: int) -> Case:
    """Case of a stable histogram of numbers in few bins, or each in its own, against counting alone."""
    width = {"few bins": 0.1, "many bins": 3.0 / n, "distinct": 1e-9}[shape]
    x = np.random.default_rng(5).standard_normal(n)
    peer = partial(unique_bins, x, width)
    return Case(
        f"stable_histogram, {shape}, {n}", histogram(x, BinGrid(width=width)), {UNIQUE: peer}
    )


def twenty_columns_case(n: int) -> Case:
    """Case of stable histograms of twenty columns of a matrix, read once, against counting column by column."""
    x = np.random.default_rng(0).standard_normal((n, 20))
    peer: Call = lambda: [unique_bins(column, 0.1) for column in x.T]  # noqa: E731
    return Case(f"stable_histogram, {n} x 20", histogram(x, BinGrid(width=0.1)), {UNIQUE: peer})


def dyadic_histogram_case(n: int) -> Case:
    """Case of a stable histogram of powers of two, against NumPy's exponents."""
    x = np.random.default_rng(5).standard_normal(n)
    peer: Call = lambda: np.bincount(np.frexp(x)[1] + 1100)  # noqa: E731
    return Case(f"stable_histogram, dyadic, {n}", histogram(x, DyadicBins()), {EXPONENTS: peer})


def histogram(x: np.ndarray, bins: Any) -> Call:
    """Return the call of a stable histogram of each column."""
    return quiet(
        partial(
            stable_histogram, x, bins=bins, budget=ApproxDP(1.0, 1e-9), threads=1, progress=False
        )
    )


def unique_bins(x: np.ndarray, width: float) -> tuple[np.ndarray, np.ndarray]:
    """Return occupied bins of a column and their counts, in NumPy."""
    keys = np.ceil(x / width - 0.5).astype(np.int64)
    return np.unique(keys, return_counts=True)


def selection_case(size: int, dim: int, n: int) -> Case:
    """Case of a choice among mixtures of three Gaussians by private rows, against their likelihoods in NumPy."""
    rng = np.random.default_rng(6)
    weights = rng.dirichlet(np.ones(3), size)
    means = 2.0 * rng.normal(size=(size, 3, dim))
    variances = np.exp(0.5 * rng.normal(size=(size, 3, dim)))
    true = 7
    picked = rng.choice(3, size=n, p=weights[true])
    rows = means[true][picked] + np.sqrt(variances[true][picked]) * rng.normal(size=(n, dim))
    given = {
        "hypotheses": (weights, means, variances),
        "budget": PureDP(1.0),
        "threads": 1,
        "progress": False,
    }
    ours = partial(select_hypothesis, rows, **given)

    def log_likelihood(k: int) -> float:
        gaps = (rows[:, None, :] - means[k]) ** 2 / variances[k]
        heights = weights[k] / np.sqrt(np.prod(2.0 * np.pi * variances[k], axis=1))
        return float(np.log(np.exp(-0.5 * gaps.sum(axis=2)) @ heights).sum())

    def by_likelihood() -> int:
        return int(np.argmax([log_likelihood(k) for k in range(size)]))

    assert ours().index == by_likelihood() == true
    return Case(
        f"select_hypothesis, {size} of {dim} columns, {n} rows",
        quiet(ours),
        {LIKELIHOODS: by_likelihood},
    )


def privatize_case(n: int, dim: int, epsilon: float) -> Case:
    """Case of reports of PrivUnit, against NumPy on a block of rows with insecure draws."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n, dim))
    randomizer = local.PrivUnit(dim, epsilon)
    peer = partial(numpy_privunit, rows, randomizer, rng)
    return Case(
        f"PrivUnit.privatize, {n} x {dim}", partial(randomizer.privatize, rows), {NUMPY: peer}
    )


def clipping_case(n: int, dim: int, dtype: type = np.float64) -> Case:
    """Case of twenty full passes of DP-SGD, whose work is clipping row by row, against as many passes in NumPy."""
    table = training.labeled(n + 10 * dim, dim, dtype)
    rows = table[:n, :-1].copy()
    labels = table[:n, -1].copy()
    x_pub = table[n:, :-1].copy()
    y_pub = table[n:, -1].copy()
    method = DPSGD(steps=20)
    given = {
        "loss": "squared",
        "x_pub": x_pub,
        "y_pub": y_pub,
        "method": method,
        "budget": APPROXIMATE,
    }
    ours = partial(train, rows, labels, **given, threads=1, progress=False)
    weights = training.gradient_map(dim).weights
    peer = lambda: [training.numpy_gradients(table[:n], weights) for _ in range(20)]  # noqa: E731
    kind = "" if dtype is np.float64 else " float32"
    return Case(f"clipping in train, {n} x {dim}{kind}", quiet(ours), {training.BLOCKS: peer})


def value_counts_case(n: int, keys: int) -> Case:
    """Case of counts of a column of texts, against pandas."""
    names = [f"key {k}" for k in range(keys)]
    column = pandas.Series(
        np.array(names, dtype=object)[np.random.default_rng(1).integers(0, keys, n)], name="key"
    )
    ours = partial(value_counts, column, keys=names, budget=RHO, threads=1, progress=False)
    return Case(f"value_counts, {n} rows, {keys} keys", quiet(ours), {PANDAS: column.value_counts})


def persons_mean_case(n: int) -> Case:
    """Case of a mean of at most two rows of each person, against pandas' first two of each group."""
    rng = np.random.default_rng(2)
    frame = pandas.DataFrame({"id": rng.integers(0, n // 4, n), "x": rng.standard_normal(n)})
    public: Any = frame[["x"]][:100].copy()
    given = {"columns": ["x"], "person": "id", "rows_per_person": 2}
    ours = partial(
        estimate_mean, frame, x_pub=public, budget=RHO, threads=1, progress=False, **given
    )
    return Case(
        f"estimate_mean of persons, {n} rows",
        quiet(ours),
        {PANDAS: lambda: frame.groupby("id").head(2).x.mean()},
    )
