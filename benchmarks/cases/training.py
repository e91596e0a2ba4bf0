"""Cases of the inner loops of training with their peers: a pass of clipped gradients, a mini-batch, a Newton pass."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.cases import limits
from benchmarks.cases.loops import Case
from fastpubpriv.kernels.gradients import gradient_sum
from fastpubpriv.rowwise.losses import squared_residual
from fastpubpriv.rowwise.row_maps import GradientMap, ResidualMap

CLIP = 2.0
BOUND = 2**20
BLOCK = 4096
BATCH, POOL, WIDTH = 500, 27_000, 2000
LOOP, BLOCKS = "Numba loop", "NumPy in row blocks"


def labeled(n: int, dim: int, dtype: Any) -> np.ndarray:
    """Return rows of unit variance, with a label in the last column."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n, dim + 1)).astype(dtype)
    rows[:, -1] = (
        rows[:, :-1] @ (rng.standard_normal(dim) / np.sqrt(dim)).astype(dtype) + rows[:, -1]
    )
    return rows


def gradient_map(dim: int, residual: Any = squared_residual) -> GradientMap:
    """Return a map from labeled rows to clipped gradients at fixed weights."""
    weights = np.full(dim, 0.5 / np.sqrt(dim))
    return GradientMap(
        weights=weights,
        residual=residual,
        clip_norm=CLIP,
        inv_step=(BOUND - dim) / CLIP,
        quant_bound=BOUND,
    )


def residual_map(dim: int) -> ResidualMap:
    """Return the map of one Newton pass over whitened rows, one in ten of which is clipped."""
    return ResidualMap(
        weights=np.full(dim, 0.5 / np.sqrt(dim)),
        spread=np.full(dim, 1.0 / np.sqrt(dim)),
        residual=squared_residual,
        scale=1.0,
        clip=2.0,
        clip_norm=1.2,
        inv_step=(BOUND - dim) / 1.2,
        quant_bound=BOUND,
    )


def numpy_gradients(rows: Any, weights: Any) -> Any:
    """Return the sum of clipped gradients in optimized NumPy: a norm is that of residual times row; no table-sized arrays."""
    total = np.zeros(len(weights))
    for begin in range(0, len(rows), BLOCK):
        x = rows[begin : begin + BLOCK, :-1]
        y = rows[begin : begin + BLOCK, -1]
        residual = y - x @ weights.astype(rows.dtype)
        bound = CLIP / np.sqrt(np.einsum("ij,ij->i", x, x))
        total += np.clip(residual, -bound, bound) @ x
    return total


def numpy_newton(rows: Any, chosen: ResidualMap) -> Any:
    """Return a Newton pass in NumPy blocks: residual, weighted norm, weighted sum."""
    total = np.zeros(len(chosen.weights))
    slope = chosen.weights.astype(rows.dtype)
    spread = chosen.spread.astype(rows.dtype)
    for begin in range(0, len(rows), BLOCK):
        x = rows[begin : begin + BLOCK, :-1]
        y = rows[begin : begin + BLOCK, -1]
        spreads = x * spread
        lever = np.minimum(1.0, chosen.clip_norm / np.sqrt(np.einsum("ij,ij->i", spreads, spreads)))
        total += (lever * np.clip(y - x @ slope, -chosen.clip, chosen.clip)) @ spreads
    return total


@functools.cache
def numba_gradients() -> Callable[..., Any]:
    """Return the pass of gradients as a Numba loop in floats, whose additions may be reordered."""
    import numba

    def loop(rows, weights, clip):  # type: ignore[no-untyped-def]
        total = np.zeros(weights.size)
        for i in range(rows.shape[0]):
            prediction = 0.0
            norm_sq = 0.0
            for j in range(weights.size):
                prediction += rows[i, j] * weights[j]
                norm_sq += rows[i, j] * rows[i, j]
            bound = clip / np.sqrt(norm_sq)
            factor = min(max(rows[i, weights.size] - prediction, -bound), bound)
            for j in range(weights.size):
                total[j] += factor * rows[i, j]
        return total

    return numba.njit(nogil=True, fastmath={"reassoc", "contract", "nsz"})(loop)


@functools.cache
def numba_newton() -> Callable[..., Any]:
    """Return a Newton pass as such a loop."""
    import numba

    def loop(rows, slope, spread, clip, radius):  # type: ignore[no-untyped-def]
        total = np.zeros(slope.size)
        for i in range(rows.shape[0]):
            prediction = 0.0
            norm_sq = 0.0
            for j in range(slope.size):
                prediction += rows[i, j] * slope[j]
                norm_sq += (rows[i, j] * spread[j]) ** 2
            factor = min(max(rows[i, slope.size] - prediction, -clip), clip)
            if norm_sq > radius * radius:
                factor *= radius / np.sqrt(norm_sq)
            for j in range(slope.size):
                total[j] += factor * rows[i, j] * spread[j]
        return total

    return numba.njit(nogil=True, fastmath={"reassoc", "contract", "nsz"})(loop)


@functools.cache
def numba_batch() -> Callable[..., Any]:
    """Return the gradients of a batch as such a loop, which reads rows in place."""
    import numba

    def loop(rows, places, weights, clip):  # type: ignore[no-untyped-def]
        total = np.zeros(weights.size)
        for i in places:
            prediction = 0.0
            norm_sq = 0.0
            for j in range(weights.size):
                prediction += rows[i, j] * weights[j]
                norm_sq += rows[i, j] * rows[i, j]
            bound = clip / np.sqrt(norm_sq)
            factor = min(max(rows[i, weights.size] - prediction, -bound), bound)
            for j in range(weights.size):
                total[j] += factor * rows[i, j]
        return total

    return numba.njit(nogil=True, fastmath={"reassoc", "contract", "nsz"})(loop)


def gradient_case(
    n: int, dim: int, dtype: type = np.float64, residual: Any = squared_residual
) -> Case:
    """Case of per-example clipping for a linear model, a full pass."""
    rows = labeled(n, dim, dtype)
    chosen = gradient_map(dim, residual)
    sums = np.zeros(dim, dtype=np.int64)
    loop = numba_gradients()
    kind = "" if dtype is np.float64 else " float32"
    kind += "" if residual is squared_residual else ", logistic"
    return Case(
        f"clipped gradients, {n:.0e} x {dim}{kind}",
        lambda: gradient_sum(rows, chosen, sums),
        {
            BLOCKS: lambda: numpy_gradients(rows, chosen.weights),
            LOOP: lambda: loop(rows, chosen.weights, CLIP),
        },
        lambda: limits.read_seconds(rows),
        "reading the rows once",
        lambda: limits.read_once(rows),
    )


def batch_case() -> Case:
    """Case of a mini-batch of scattered rows. NumPy gets all norms and computes in single precision, ours in double."""
    rows = labeled(POOL, WIDTH, np.float32)
    chosen = gradient_map(WIDTH)
    sums = np.zeros(WIDTH, dtype=np.int64)
    draws = [
        np.sort(np.random.default_rng(k).choice(POOL, BATCH, replace=False)) for k in range(32)
    ]
    turn = iter(range(10**12))  # a new batch each time: the previous one is in the cache
    bounds = np.float32(CLIP) / np.sqrt(np.einsum("ij,ij->i", rows[:, :-1], rows[:, :-1]))
    weights = chosen.weights.astype(np.float32)
    loop = numba_batch()

    def places() -> Any:
        return draws[next(turn) % len(draws)]

    def by_numpy() -> Any:
        chosen_rows = places()
        x = rows[chosen_rows]
        bound = bounds[chosen_rows]
        return np.clip(x[:, -1] - x[:, :-1] @ weights, -bound, bound) @ x[:, :-1]

    return Case(
        f"a mini-batch of {BATCH} of {POOL} x {WIDTH} float32",
        lambda: gradient_sum(rows, chosen, sums, places()),
        {"NumPy": by_numpy, LOOP: lambda: loop(rows, places(), chosen.weights, CLIP)},
        lambda: limits.read_seconds(rows) * BATCH / POOL,
        "reading as many rows of the table",
    )


def newton_case(n: int, dim: int) -> Case:
    """Case of a pass of `newton` over rotated rows in single precision; its limit is its matrix products."""
    rows = labeled(n, dim, np.float32)
    chosen = residual_map(dim)
    sums = np.zeros(dim, dtype=np.int64)
    slope = chosen.weights.astype(np.float32)
    spread = chosen.spread
    loop = numba_newton()

    def products() -> Any:
        """Compute predictions and the weighted sum of rows by BLAS, whose order of summation depends on the neighboring rows."""
        return np.clip(rows[:, -1] - rows[:, :-1] @ slope, -chosen.clip, chosen.clip) @ rows[:, :-1]

    return Case(
        f"a Newton pass, {n:.0e} x {dim}",
        lambda: gradient_sum(rows, chosen, sums),
        {
            BLOCKS: lambda: numpy_newton(rows, chosen),
            LOOP: lambda: loop(rows, chosen.weights, spread, chosen.clip, chosen.clip_norm),
        },
        lambda: limits.best_seconds(products),
        "its two matrix products",
        products,
    )
