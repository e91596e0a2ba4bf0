"""Cases of complete calls of public functions: on many rows against their passes over the rows, and on few rows."""

from __future__ import annotations

import itertools
import warnings
from functools import partial
from typing import Any

import numpy as np
import pandas

from benchmarks.cases import bins, limits, loops
from benchmarks.cases.loops import Call, Case
from fastpubpriv import (
    ZCDP,
    AccuracyWarning,
    ApproxDP,
    BinGrid,
    PureDP,
    SeededNoiseWarning,
    coinpress_covariance,
    coinpress_mean,
    describe,
    estimate_gaussian,
    estimate_mean,
    learn_axis_aligned_mixture,
    learn_separated_mixture,
    linear_regression,
    logistic_regression,
    quantiles,
    select_hypothesis,
    stable_histogram,
    weighted_mean,
)
from fastpubpriv.privacy import Poisson, noise_multiplier_for
from fastpubpriv.results.estimates import MeanResult

RHO = ZCDP(rho=0.5)
SEED = 1
SCIKIT = "scikit-learn (not private)"
APPROXIMATE = ApproxDP(epsilon=1.0, delta=1e-6)


def quiet(call: Call) -> Call:
    """Return the call with warnings of low accuracy and of seeds suppressed."""

    def run() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AccuracyWarning)
            warnings.simplefilter("ignore", SeededNoiseWarning)
            return call()

    return run


def mean_calls(n: int, dim: int) -> list[Case]:
    """Cases of means of many rows, against as many Numba and NumPy passes over the rows as the call makes."""
    x = np.random.default_rng(1).standard_normal((n, dim))
    public = np.random.default_rng(2).standard_normal((100, dim))
    radius = float(np.sqrt(dim))
    once = loops.sum_peers(x, radius)

    def by_default() -> MeanResult:
        # Released numbers decide whether cells are counted again: a seed gives all instruction sets the same work.
        return estimate_mean(
            x, x_pub=public, budget=RHO, threads=1, random_state=SEED, progress=False
        )

    calls = {
        "weighted_mean": (
            1,
            lambda: weighted_mean(
                x,
                x_pub=public,
                budget=RHO,
                norm_bound=radius,
                variance=float(dim),
                threads=1,
                progress=False,
            ),
        ),
        "estimate_mean, clipping='gaussian'": (
            2,
            lambda: estimate_mean(
                x, x_pub=public, budget=RHO, clipping="gaussian", threads=1, progress=False
            ),
        ),
        "estimate_mean": (len(quiet(by_default)().releases), by_default),
    }

    def case(name: str, passes: int, call: Call) -> Case:
        peers: dict[str, Call] = {"np.mean": lambda: x.mean(axis=0)}
        peers |= {
            f"{peer}, {passes} passes": lambda one=one: [one() for _ in range(passes)]
            for peer, one in once.items()
        }
        return Case(
            f"{name}, {size(n)} x {dim}",
            quiet(call),
            peers,
            lambda: passes * limits.read_seconds(x),
            f"reading the rows {passes} times",
        )

    return [case(name, passes, call) for name, (passes, call) in calls.items()]


def published_covariance(x: np.ndarray, steps: int, rng: np.random.Generator) -> np.ndarray:
    """Run CoinPress for a covariance as in its authors' NumPy script, which copies, whitens, clips and multiplies all rows."""
    n, dim = x.shape
    base = np.eye(dim)
    clip = np.sqrt(dim + 2.0 * np.sqrt(dim * np.log(n / 0.1)) + 2.0 * np.log(n / 0.1))
    for step in range(steps):
        rho = 0.5 * (0.75 if step == steps - 1 else 0.25 / (steps - 1))
        w = x @ base
        norm = np.sqrt((w**2).sum(axis=1, keepdims=True))
        ratio = clip / norm
        short = (ratio < 1.0).squeeze()
        w[short] = (w * ratio)[short]
        noise = rng.standard_normal((dim, dim)) * clip**2 / np.sqrt(rho) / n
        noise = np.triu(noise) + np.triu(noise, 1).T
        values, vectors = np.linalg.eigh(w.T @ w / n + noise)
        values = np.maximum(values, 1e-3)
        if step < steps - 1:
            bound = values + 0.05
            base = base @ (vectors / np.sqrt(bound)) @ vectors.T
        else:
            back = np.linalg.inv(base)
            found: np.ndarray = back.T @ (vectors * values) @ vectors.T @ back
    return found


def published_mean(x: np.ndarray, steps: int, rng: np.random.Generator) -> np.ndarray:
    """Run CoinPress for a mean as in its authors' NumPy script."""
    n, dim = x.shape
    center = np.zeros(dim)
    radius = 10.0 * np.sqrt(dim)
    gamma = np.sqrt(dim + 2.0 * np.sqrt(dim * np.log(n / 0.1)) + 2.0 * np.log(n / 0.1))
    for step in range(steps):
        rho = 0.5 * (0.75 if step == steps - 1 else 0.25 / (steps - 1))
        clip = min(np.sqrt(radius**2 + 6.0 * radius + gamma**2), radius + gamma)
        away = x - center
        length = np.linalg.norm(away, axis=1)
        outside = length > clip
        inside = x.copy()
        inside[outside] = center + (away.T / length).T[outside] * clip
        std = 2.0 * clip / n / np.sqrt(2.0 * rho)
        center = inside.mean(axis=0) + rng.standard_normal(dim) * std
        radius = gamma * np.sqrt(1.0 / n + std**2)
    return center


def published_mean_call(n: int, dim: int) -> Case:
    """Case of four rounds of CoinPress for a mean, against the published script."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((n, dim))
    given = {"variance": 1.0, "center": 0.0, "radius": 10.0 * float(np.sqrt(dim)), "steps": 4}
    call = partial(coinpress_mean, x, budget=RHO, threads=1, progress=False, **given)
    for found in (call().mean, published_mean(x, 4, rng)):
        assert np.linalg.norm(found) < 0.1 * np.sqrt(dim)
    return Case(
        f"coinpress_mean, {size(n)} x {dim}, 4 rounds",
        quiet(call),
        {"the published script": lambda: published_mean(x, 4, rng)},
        lambda: 4 * limits.read_seconds(x),
        "reading the rows 4 times",
    )


def covariance_call(n: int, dim: int) -> Case:
    """Case of four rounds of CoinPress for a covariance, against the published script."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((n, dim)) * np.linspace(1.0, 0.3, dim)
    call = partial(
        coinpress_covariance, x, budget=RHO, scale=1.0, steps=4, threads=1, progress=False
    )
    true = np.diag(np.linspace(1.0, 0.3, dim) ** 2)
    for found in (call().covariance, published_covariance(x, 4, rng)):
        assert np.linalg.norm(found - true) < 0.2 * np.linalg.norm(true)
    return Case(
        f"coinpress_covariance, {size(n)} x {dim}, 4 rounds",
        quiet(call),
        {"the published script": lambda: published_covariance(x, 4, rng)},
    )


def histogram_call(n: int) -> Case:
    """Case of a stable histogram with its noise, against counting alone."""
    x = bins.column("bounded", n)
    keys = lambda: np.ceil(x / 0.01 - 0.5).astype(np.int64)  # noqa: E731
    return Case(
        f"stable_histogram, {size(n)}",
        lambda: stable_histogram(
            x, bins=BinGrid(width=0.01), budget=APPROXIMATE, threads=1, progress=False
        ),
        {
            "NumPy unique": lambda: np.unique(keys(), return_counts=True),
            "polars, one thread": bins.polars_call(x, "bounded"),
        },
        lambda: limits.read_seconds(x),
        "reading the column once",
    )


def mixture_call(n: int) -> Case:
    """Case of a fit of eight separated Gaussians in 16 columns, against scikit-learn's."""
    from sklearn.mixture import GaussianMixture

    rows = loops.clusters(n + 80, 16, count=8, apart=12.0)
    order = np.random.default_rng(0).permutation(len(rows))
    public = rows[order[:-n]].copy()
    private = np.ascontiguousarray(rows[order[-n:]])
    given = {"n_components": 8, "min_weight": 0.1, "budget": RHO, "threads": 1, "progress": False}
    return Case(
        f"learn_separated_mixture, {size(n)} x 16, 8 components",
        quiet(lambda: learn_separated_mixture(private, x_pub=public, **given)),
        {
            f"{SCIKIT}, a tenth of the rows, 5 steps": lambda: GaussianMixture(
                8, max_iter=5, random_state=0
            ).fit(private[::10])
        },
    )


def axis_aligned_call(n: int, dim: int) -> Case:
    """Case of a fit of two Gaussians with independent columns, without public rows."""
    from sklearn.mixture import GaussianMixture

    rng = np.random.default_rng(6)
    x = rng.standard_normal((n, dim)) + 8.0 * rng.integers(2, size=(n, 1))
    given = {"n_components": 2, "budget": APPROXIMATE, "threads": 1, "progress": False}
    return Case(
        f"learn_axis_aligned_mixture, {size(n)} x {dim}, 2 components",
        quiet(lambda: learn_axis_aligned_mixture(x, **given)),
        {
            f"{SCIKIT}, 'diag', 5 steps": lambda: GaussianMixture(
                2, covariance_type="diag", max_iter=5, random_state=0
            ).fit(x)
        },
    )


def choice_call(n: int) -> Case:
    """Case of selection under pure epsilon among 1,000 candidates, each with 512 public draws, compared pairwise."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 3))
    weights = np.full((1000, 2), 0.5)
    means = 0.3 * rng.standard_normal((1000, 2, 3))
    variances = np.exp(0.3 * rng.standard_normal((1000, 2, 3)))
    given = {
        "hypotheses": (weights, means, variances),
        "budget": PureDP(1.0),
        "draws": 512,
        "progress": False,
    }
    return Case(
        f"a pure choice among 1,000 mixtures, {size(n)} x 3, all cores",
        quiet(lambda: select_hypothesis(x, **given)),
        {},
    )


def calibration_call() -> Case:
    """Case of the noise calibration of 5,000 steps at sampling rate 1/54, with a delta that is not cached."""
    deltas = (1e-5 * (1.0 + 1e-9 * turn) for turn in itertools.count())
    return Case(
        "noise_multiplier_for, 5,000 steps of 1/54",
        lambda: noise_multiplier_for(ApproxDP(2.0, next(deltas)), Poisson(1 / 54), 5000),
        {},
    )


def gaussian_call(n: int, dim: int) -> Case:
    """Case of mean and covariance, against NumPy's."""
    x = np.random.default_rng(7).standard_normal((n, dim))
    public = np.random.default_rng(8).standard_normal(
        (10 * dim + 100 if dim <= 100 else dim + 1, dim)
    )
    return Case(
        f"estimate_gaussian, {size(n)} x {dim:,}",
        quiet(lambda: estimate_gaussian(x, x_pub=public, budget=RHO, threads=1, progress=False)),
        {"np.cov": lambda: np.cov(x, rowvar=False)},
    )


def regression_calls(n: int, dim: int) -> list[Case]:
    """Cases of linear and logistic regression, against scikit-learn's with default settings."""
    from sklearn.linear_model import LinearRegression, LogisticRegression

    rng = np.random.default_rng(9)
    rows = rng.standard_normal((n + 20 * dim, dim))
    score = rows @ np.linspace(-1.0, 1.0, dim) + rng.standard_normal(len(rows))
    found = []
    for ours, peer, y in (
        (linear_regression, LinearRegression(), score),
        (logistic_regression, LogisticRegression(), (score > 0.0).astype(float)),
    ):
        given = {
            "x_priv": rows[:n],
            "y_priv": y[:n],
            "x_pub": rows[n:].copy(),
            "y_pub": y[n:].copy(),
        }
        call = partial(ours, **given, budget=RHO, threads=1, progress=False)
        fit = partial(peer.fit, rows[:n], y[:n])
        found.append(Case(f"{ours.__name__}, {size(n)} x {dim}", quiet(call), {SCIKIT: fit}))
    return found


def quantiles_call(n: int, threads: int | None = 1) -> Case:
    """Quartiles of one column, against NumPy's."""
    x = np.random.default_rng(8).normal(size=n)
    q = (0.25, 0.5, 0.75)
    call = partial(
        quantiles, x, x_pub=x[:500].copy(), q=q, budget=RHO, threads=threads, progress=False
    )
    assert np.allclose(call().quantile[0], np.quantile(x, q), atol=0.05)
    return Case(
        f"quantiles, {size(n)}{cores(threads)}",
        quiet(call),
        {"np.quantile": lambda: np.quantile(x, q)},
    )


def cores(threads: int | None) -> str:
    """Return the end of the name of a case whose calls have as many threads as a user's by default (None); pandas has one."""
    return ", all cores" if threads is None else ""


def describe_call(n: int, dim: int, threads: int | None = 1) -> Case:
    """Counts, means, deviations and quartiles of a data frame, against pandas'."""
    frame = pandas.DataFrame(
        np.random.default_rng(8).normal(size=(n, dim)), columns=[f"x{j}" for j in range(dim)]
    )
    call = partial(
        describe, frame, x_pub=frame[:500].copy(), budget=RHO, threads=threads, progress=False
    )
    return Case(
        f"describe, {size(n)} x {dim}{cores(threads)}",
        quiet(call),
        {"pandas describe": frame.describe},
    )


def groups_call(n: int, dim: int, groups: int, threads: int | None = 1, text: bool = False) -> Case:
    """Means of groups of a data frame, which a column of integers or of text names, against pandas'."""
    rng = np.random.default_rng(8)
    frame = pandas.DataFrame(rng.normal(size=(n, dim)), columns=[f"x{j}" for j in range(dim)])
    keys = [f"state {k}" for k in range(groups)] if text else list(range(groups))
    frame["state"] = np.array(keys, dtype=object if text else None)[rng.integers(0, groups, n)]
    given = {"groups": keys, "budget": RHO, "threads": threads, "progress": False}
    call = partial(estimate_mean, frame, x_pub=frame[:500].copy(), by="state", **given)
    grouped = lambda: frame.groupby("state").mean()  # noqa: E731
    by_text = " by text" if text else ""
    return Case(
        f"means of {groups} groups{by_text}, {size(n)} x {dim}{cores(threads)}",
        quiet(call),
        {"pandas groupby": grouped},
    )


def size(n: int) -> str:
    """Return a number of rows as text, such as "1e6" or "3,000"."""
    return f"{n:.0e}".replace("e+0", "e") if n >= 10**5 else f"{n:,}"


def small_calls() -> list[Case]:
    """Cases of calls on few rows, dominated by the overhead of a call: fixed public settings, as in a loop over small tables."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((1000, 5))
    public = rng.standard_normal((100, 5))
    given = {"x_pub": public, "budget": RHO, "progress": False}
    known = {**given, "norm_bound": 5.0, "variance": 5.0}
    return [
        Case(
            "estimate_mean, 1,000 x 5",
            quiet(lambda: estimate_mean(x, **given)),
            {"np.mean": lambda: x.mean(axis=0)},
        ),
        Case(
            "weighted_mean, 1,000 x 5",
            quiet(lambda: weighted_mean(x, **known)),
            {"np.mean": lambda: x.mean(axis=0)},
        ),
        gaussian_call(1000, 5),
    ]
