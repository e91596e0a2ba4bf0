"""Whole calls, as a user makes them: on many rows beside their passes, on few, and first in a fresh process."""

from __future__ import annotations

import subprocess
import sys
import warnings
from functools import partial
from typing import Any

import numpy as np

from benchmarks.cases import bins, limits, loops
from benchmarks.cases.loops import Call, Case
from fastpubpriv import (
    ZCDP,
    AccuracyWarning,
    ApproxDP,
    BinGrid,
    coinpress_covariance,
    estimate_mean,
    stable_histogram,
    weighted_mean,
)

RHO = ZCDP(rho=0.5)
APPROXIMATE = ApproxDP(epsilon=1.0, delta=1e-6)
# What a fresh process does after `import numpy, fastpubpriv`: x (2000, 3), y and labels are private, p, q and kinds public.
FIRST_CALLS = {
    "estimate_mean": "f.estimate_mean(x, x_pub=p, budget=zcdp, progress=False)",
    "estimate_gaussian": "f.estimate_gaussian(x, x_pub=p, budget=zcdp, progress=False)",
    "stable_histogram": "f.stable_histogram(y, bins=f.BinGrid(width=0.5), budget=approx, progress=False)",
    "supercluster": "f.supercluster(p, n_components=2)",
    "learn_separated_mixture": (
        "f.learn_separated_mixture(x, x_pub=p, n_components=1, min_weight=0.5, budget=zcdp, progress=False)"
    ),
    "linear_regression": "f.linear_regression(x, y, x_pub=p, y_pub=q, budget=zcdp, progress=False)",
    "logistic_regression": "f.logistic_regression(x, y > 0, x_pub=p, y_pub=q > 0, budget=zcdp, progress=False)",
    "train": "f.train(x, y, x_pub=p, y_pub=q, loss='huber', budget=zcdp, progress=False)",
    "train, a loss of one's own": (
        "f.train(x, y, x_pub=p, y_pub=q, budget=zcdp, progress=False, loss=f.training.Loss("
        "name='own', residual=lambda a, b: b - a, values=lambda s, l: (s - l) ** 2 / 2))"
    ),
    "PrivUnit": "f.local.PrivUnit(20, 4.0).privatize(x[:, :1] * np.ones((1, 20)))",
    "plan": "f.plan('mean', n_priv=1000, n_pub=1, dim=5, budget=zcdp)",
}
_PREPARED = """
import time, warnings
import numpy as np
import fastpubpriv as f
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
x, p = rng.normal(size=(2000, 3)), rng.normal(size=(40, 3))
y, q = x @ [1.0, 2.0, 3.0], p @ [1.0, 2.0, 3.0]
zcdp, approx = f.ZCDP(0.5), f.ApproxDP(1, 1e-6)
start = time.process_time()
"""


def first_call_seconds(name: str) -> float:
    """Processor seconds of a first call, the imports of NumPy and the package apart."""
    code = f"{_PREPARED}\n{FIRST_CALLS[name]}\nprint(time.process_time() - start)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def quiet(call: Call) -> Call:
    """The call without warnings of little accuracy, which is not what is measured."""

    def run() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AccuracyWarning)
            return call()

    return run


def mean_calls(n: int, dim: int) -> list[Case]:
    """Means of many rows, against as many Numba and NumPy passes over the rows as the call makes."""
    x = np.random.default_rng(1).standard_normal((n, dim))
    public = np.random.default_rng(2).standard_normal((100, dim))
    radius = float(np.sqrt(dim))
    once = loops.sum_peers(x, radius)
    calls = {
        "weighted_mean": (
            1,
            lambda: weighted_mean(
                x, x_pub=public, budget=RHO, norm_bound=radius, variance=float(dim), threads=1, progress=False
            ),
        ),
        "estimate_mean, clipping='gaussian'": (
            2,
            lambda: estimate_mean(x, x_pub=public, budget=RHO, clipping="gaussian", threads=1, progress=False),
        ),
        "estimate_mean": (3, lambda: estimate_mean(x, x_pub=public, budget=RHO, threads=1, progress=False)),
    }

    def case(name: str, passes: int, call: Call) -> Case:
        peers: dict[str, Call] = {
            f"{peer}, {passes} passes": lambda one=one: [one() for _ in range(passes)] for peer, one in once.items()
        }
        return Case(
            f"{name}, {n:.0e} x {dim}, whole call",
            quiet(call),
            peers,
            lambda: passes * limits.read_seconds(x),
            f"reading the rows {passes} times",
        )

    return [case(name, passes, call) for name, (passes, call) in calls.items()]


def published_covariance(x: np.ndarray, steps: int, rng: np.random.Generator) -> np.ndarray:
    """Rounds of CoinPress as its authors' script has them, in NumPy: a copy of all rows whitened, clipped and multiplied."""
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


def covariance_call(n: int, dim: int) -> Case:
    """Four rounds of CoinPress for a covariance, against the published script."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((n, dim)) * np.linspace(1.0, 0.3, dim)
    call = partial(coinpress_covariance, x, budget=RHO, scale=1.0, steps=4, threads=1, progress=False)
    true = np.diag(np.linspace(1.0, 0.3, dim) ** 2)
    for found in (call().covariance, published_covariance(x, 4, rng)):
        assert np.linalg.norm(found - true) < 0.2 * np.linalg.norm(true)
    return Case(
        f"coinpress_covariance, {n:.0e} x {dim}, 4 rounds, whole call",
        quiet(call),
        {"the published script": lambda: published_covariance(x, 4, rng)},
    )


def histogram_call(n: int) -> Case:
    """A stable histogram with its noise, against counting alone."""
    x = bins.column("bounded", n)
    keys = lambda: np.ceil(x / 0.01 - 0.5).astype(np.int64)  # noqa: E731
    return Case(
        f"stable_histogram, {n:.0e}, whole call",
        lambda: stable_histogram(x, bins=BinGrid(width=0.01), budget=APPROXIMATE, threads=1, progress=False),
        {
            "NumPy unique": lambda: np.unique(keys(), return_counts=True),
            "polars, one thread": bins.polars_call(x, "bounded"),
        },
        lambda: limits.read_seconds(x),
        "reading the column once",
    )


def small_calls() -> list[Case]:
    """Calls on few rows: what a call costs, and that it wakes no threads."""
    rng = np.random.default_rng(3)
    x, public = rng.standard_normal((1000, 5)), rng.standard_normal((100, 5))
    line, more = rng.standard_normal(1000), rng.standard_normal((10_000, 5))
    clip_and_mean: dict[str, Call] = {"NumPy clip and mean": lambda: loops.numpy_clip(x, 3.0).mean(axis=0)}

    def gaussian(rows: np.ndarray, threads: int | None) -> Call:
        return lambda: estimate_mean(
            rows, x_pub=public, budget=RHO, clipping="gaussian", threads=threads, progress=False
        )

    return [
        Case(
            "estimate_mean, 1000 x 5",
            quiet(lambda: estimate_mean(x, x_pub=public, budget=RHO, progress=False)),
            clip_and_mean,
        ),
        Case("estimate_mean, clipping='gaussian', 1000 x 5", gaussian(x, 1), clip_and_mean),
        Case(
            "weighted_mean, 1000 x 5",
            lambda: weighted_mean(x, x_pub=public, budget=RHO, norm_bound=5.0, variance=5.0, progress=False),
            clip_and_mean,
        ),
        Case(
            "stable_histogram, 1000",
            lambda: stable_histogram(line, bins=BinGrid(width=1.0), budget=APPROXIMATE, progress=False),
            {"NumPy unique": lambda: np.unique(np.ceil(line - 0.5), return_counts=True)},
        ),
        Case("threads by default, 10000 x 5", gaussian(more, None), {"one thread": gaussian(more, 1)}),
        Case("two threads, 10000 x 5", gaussian(more, 2), {"one thread": gaussian(more, 1)}),
    ]
