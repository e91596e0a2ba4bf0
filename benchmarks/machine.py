"""How fast this machine is: the private mean against the same job in plain NumPy floats, which protects nobody."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.estimators.coinpress import coinpress_mean
from fastpubpriv.privacy import ZCDP

# Many rows: the clipped sum is the work. Many columns: the noise is.
SHAPES = ((200_000, 50), (4, 500_000))
ROUNDS = 7
RADIUS = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lap:
    """One comparison.

    Attributes
    ----------
    n_priv, dim : int
        Size of the job.
    seconds, numpy_seconds : float
        Median wall time of ours and of NumPy, runs interleaved.
    """

    n_priv: int
    dim: int
    seconds: float
    numpy_seconds: float

    @property
    def ratio(self) -> float:
        """How many times faster ours is."""
        return self.numpy_seconds / self.seconds


def race(ours: Callable[[], object], theirs: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Median seconds of each, taking turns so that a busy machine slows both; one warm-up each."""

    def lap(function: Callable[[], object]) -> float:
        start = time.perf_counter()
        function()
        return time.perf_counter() - start

    lap(ours)
    lap(theirs)
    laps = [(lap(ours), lap(theirs)) for _ in range(rounds)]
    return statistics.median(a for a, _ in laps), statistics.median(b for _, b in laps)


def float_mean(rows: FloatArray, rng: np.random.Generator) -> FloatArray:
    """What people write: clip each row to a ball, average, add Gaussian noise in floats."""
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    clipped = rows * np.minimum(1.0, RADIUS / np.maximum(norms, 1e-300))[:, None]
    mean: FloatArray = clipped.mean(axis=0) + 2.0 * RADIUS / len(rows) * rng.standard_normal(rows.shape[1])
    return mean


def measure(threads: int | None, *, shapes: tuple[tuple[int, int], ...] = SHAPES, rounds: int = ROUNDS) -> list[Lap]:
    """Race on each shape, through the public function, everything included."""
    rng = np.random.default_rng(0)
    budget = ZCDP(0.5)
    laps = []
    for n_priv, dim in shapes:
        rows = rng.standard_normal((n_priv, dim))

        def ours(rows: FloatArray = rows) -> object:
            return coinpress_mean(rows, budget=budget, center=0.0, radius=1.0, steps=1, threads=threads, progress=False)

        def theirs(rows: FloatArray = rows) -> object:
            return float_mean(rows, rng)

        seconds, numpy_seconds = race(ours, theirs, rounds)
        laps.append(Lap(n_priv=n_priv, dim=dim, seconds=seconds, numpy_seconds=numpy_seconds))
    return laps
