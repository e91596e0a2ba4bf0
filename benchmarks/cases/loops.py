"""Cases of the inner loops with their peers, in one place so that guards, suites and the ratio table time the same calls."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg.blas import dsyrk

from benchmarks.cases import limits
from fastpubpriv import ZCDP, AccuracyWarning, estimate_gaussian
from fastpubpriv.kernels import noise, rows
from fastpubpriv.rowwise.row_maps import RowMap
from fastpubpriv.sources import Executor, Query, private_rows

Call = Callable[[], Any]
KEY = bytes(range(32))
SUM_BOUND = 2**22
GRAM_BOUND = 2896


@dataclass(frozen=True)
class Case:
    """One inner loop: our call, the calls of peers, and the minimum seconds on this machine (None: no known limit).

    `peer_scale` is the ratio of our work to that of a peer that is too slow to do all of it.
    """

    name: str
    ours: Call
    peers: dict[str, Call]
    limit: Callable[[], float] | None = None
    limit_name: str = ""
    floor: Call | None = None  # the call that `limit` times, if any
    peer_scale: dict[str, float] = field(default_factory=dict)


def sum_map(dim: int, radius: float) -> RowMap:
    steps = SUM_BOUND // max(1, int(np.sqrt(dim) / 8)) - 64
    return RowMap(
        dim=dim,
        quant_bound=steps + 64,
        inv_step=steps / radius,
        limit=float(steps),
        center=np.zeros(dim),
    )


def gram_map(dim: int, radius: float) -> RowMap:
    steps = GRAM_BOUND - int(np.sqrt(dim) / 2) - 2
    return RowMap(
        dim=dim,
        quant_bound=GRAM_BOUND,
        inv_step=steps / radius,
        limit=float(steps),
        center=np.zeros(dim),
    )


def numpy_clip(x: np.ndarray, radius: float) -> np.ndarray:
    """Return rows clipped to a norm, in typical NumPy code."""
    norms = np.sqrt(np.einsum("ij,ij->i", x, x))
    return x * np.minimum(1.0, radius / norms)[:, None]


class _Nothing(Query):
    """A pass that ignores its rows: its time is the overhead of every pass."""

    def zeros(self) -> tuple[np.ndarray]:
        return (np.zeros(50, dtype=np.int64),)

    def add(self, chunk: Any, accumulators: Any) -> None:
        pass


def empty_pass_case() -> Case:
    """Case of the overhead of a pass over few rows, against NumPy's mean, which reads them."""
    x = np.zeros((1000, 50))
    return Case(
        "a pass over 1000 x 50 that does nothing",
        lambda: Executor().run(_Nothing(), private_rows(x)),
        {"NumPy mean": lambda: x.mean(axis=0)},
    )


def noise_cases(draws: int, opendp: bool) -> list[Case]:
    rng = np.random.default_rng(0)
    gaussian: dict[str, Call] = {"numpy (insecure)": lambda: rng.standard_normal(draws)}
    laplace: dict[str, Call] = {"numpy (insecure)": lambda: rng.laplace(size=draws)}
    scale: dict[str, float] = {}
    if opendp:
        few = 10_000
        scale = {"OpenDP integer": draws / few}
        gaussian["OpenDP integer"] = opendp_call("gaussian", few)
        laplace["OpenDP integer"] = opendp_call("laplace", few)

    def keystream() -> float:
        return limits.best_seconds(lambda: noise.uniform(KEY, draws))

    label = "one secure 64-bit word a draw"
    return [
        Case(
            f"exact Gaussian noise, {draws:.0e} draws",
            lambda: noise.gaussian_floor(KEY, draws, 30),
            gaussian,
            keystream,
            label,
            peer_scale=scale,
        ),
        Case(
            f"exact Laplace noise, {draws:.0e} draws",
            lambda: noise.discrete_laplace(KEY, draws, 30),
            laplace,
            keystream,
            label,
            peer_scale=scale,
        ),
    ]


def opendp_call(law: str, draws: int) -> Call:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = (
        dp.vector_domain(dp.atom_domain(T="i64")),
        (dp.l2_distance(T="f64") if law == "gaussian" else dp.l1_distance(T="i64")),
    )
    mechanism = (dp.m.make_gaussian if law == "gaussian" else dp.m.make_laplace)(
        *space, scale=2.0**30
    )
    zeros = [0] * draws
    return lambda: mechanism(zeros)


def in_blocks(x: np.ndarray, radius: float) -> np.ndarray:
    """Return the clipped sum in optimized NumPy: blocks of rows that fit into a cache, norms and one product."""
    found = np.zeros(x.shape[1])
    rows_of_block = max(1, 2**16 // x.shape[1])
    for begin in range(0, len(x), rows_of_block):
        block = x[begin : begin + rows_of_block]
        found += np.minimum(1.0, radius / np.sqrt(np.einsum("ij,ij->i", block, block))) @ block
    return found


@functools.cache
def numba_sum() -> Callable[..., None]:
    """Return the clipped sum as a Numba loop of ten lines in floats, whose additions may be reordered."""
    import numba

    def loop(x, radius, found):  # type: ignore[no-untyped-def]
        for i in range(x.shape[0]):
            norm_sq = 0.0
            for j in range(x.shape[1]):
                norm_sq += x[i, j] * x[i, j]
            factor = 1.0 if norm_sq <= radius * radius else radius / np.sqrt(norm_sq)
            for j in range(x.shape[1]):
                found[j] += factor * x[i, j]

    return numba.njit(nogil=True, fastmath={"reassoc", "contract", "nsz"})(loop)


def sum_peers(x: np.ndarray, radius: float) -> dict[str, Call]:
    """Return usual replacements of the exact sum: none is exact, and none is private."""
    found = np.zeros(x.shape[1])
    loop = numba_sum()
    return {
        "NumPy clip and mean": lambda: numpy_clip(x, radius).mean(axis=0),
        "NumPy in row blocks": lambda: in_blocks(x, radius),
        "Numba loop": lambda: loop(x, radius, found),
    }


def mean_case(n: int, dim: int, dtype: type = np.float64, center: float = 0.0) -> Case:
    x = np.random.default_rng(1).standard_normal((n, dim)).astype(dtype)
    radius = float(np.sqrt(dim))
    row_map = dataclasses.replace(sum_map(dim, radius), center=np.full(dim, center))
    sums = np.zeros(dim, dtype=np.int64)
    kind = "" if dtype is np.float64 else " float32"
    return Case(
        f"clipped exact sum{' with a center' if center else ''}, {n:.0e} x {dim}{kind}",
        lambda: rows.rows_sum(x, row_map, sums),
        sum_peers(x, radius),
        lambda: limits.read_seconds(x),
        "reading the rows once",
        lambda: limits.read_once(x),
    )


def gram_case(n: int, dim: int, mapped: bool = False) -> Case:
    """Case of the Gram matrix of rows, or of rows multiplied by a lower triangular matrix, which the peer omits."""
    x = np.random.default_rng(2).standard_normal((n, dim))
    radius = float(np.sqrt(dim))
    row_map = gram_map(dim, radius)
    if mapped:
        matrix = np.eye(dim) + 0.02 * np.random.default_rng(3).standard_normal((dim, dim))
        row_map = dataclasses.replace(row_map, lower=True, matrix=matrix)
    gram = np.zeros((dim, dim), dtype=np.int64)
    return Case(
        f"clipped exact Gram{' behind a matrix' if mapped else ''}, {n:.0e} x {dim}",
        lambda: rows.rows_gram(x, row_map, gram),
        {"NumPy clip and dsyrk": lambda: dsyrk(1.0, numpy_clip(x, radius).T, lower=1)},
        lambda: limits.gram_flop_seconds(n, dim),
        "double-precision multiply-adds",
    )


def gaussian_case(n: int, dim: int, rounds: int = 4) -> Case:
    """Case of the complete estimator against as many NumPy passes: one for each round, one for the mean.

    A round first multiplies every row by a triangular matrix, which needs as many operations as dsyrk.
    """
    rng = np.random.default_rng(3)
    x = np.empty((n, dim))
    rng.standard_normal(out=x)
    public = rng.standard_normal((dim + 1, dim))
    radius = float(np.sqrt(dim))
    budget = ZCDP(rho=0.5)

    def ours() -> Any:
        with warnings.catch_warnings():
            # The fixed number of rounds is too small for accuracy, which does not affect the work of a round.
            warnings.simplefilter("ignore", AccuracyWarning)
            return estimate_gaussian(
                x, x_pub=public, budget=budget, rounds=rounds, threads=1, progress=False
            )

    def numpy_passes() -> Any:
        for _ in range(rounds + 1):
            second = dsyrk(1.0, numpy_clip(x, radius).T, lower=1)
        return second

    return Case(
        f"Gaussian, {n:.0e} x {dim}, {rounds} rounds",
        ours,
        {"NumPy clip and dsyrk, as many passes": numpy_passes},
        # n d^2 / 2 multiply-adds of the map in every pass; the Gram matrices come from cheaper integer arithmetic.
        lambda: (rounds + 1) * limits.gram_flop_seconds(n, dim),
        "multiply-adds of the maps alone",
    )


def clusters(n: int, dim: int, count: int = 8, apart: float = 12.0, seed: int = 5) -> np.ndarray:
    """Return rows of a mixture of spherical Gaussians whose centers are `apart` standard deviations apart, within a third."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((count, dim)) * (apart / np.sqrt(2 * dim))
    return rng.standard_normal((n, dim)) + centers[rng.integers(0, count, n)]
