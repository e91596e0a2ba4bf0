"""Cases of searches over public rows, against all distances by SciPy and scikit-learn and a typical Numba loop."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from benchmarks.cases.loops import Call, Case, clusters
from fastpubpriv.kernels.geometry import first_terrific, most_isolated

LOOP, SCIKIT, SORTED = (
    "Numba loop with early exits",
    "scikit-learn NearestNeighbors",
    "sorted cdist",
)


@functools.cache
def early_exit_loop() -> Callable[[np.ndarray], int]:
    """Return a Numba loop that stops at a row's first near neighbor; sums may be reordered for vectorization."""
    import numba

    def loop(x: np.ndarray) -> int:
        best = -1
        farthest = -1.0
        for i in range(x.shape[0]):
            nearest = np.inf
            for j in range(x.shape[0]):
                if i == j:
                    continue
                square = 0.0
                for k in range(x.shape[1]):
                    gap = x[i, k] - x[j, k]
                    square += gap * gap
                if square < nearest:
                    nearest = square
                    if nearest <= farthest:
                        break
            if nearest > farthest:
                best = i
                farthest = nearest
        return best

    return numba.njit(fastmath={"reassoc", "contract", "nsz"})(loop)


def isolation_case(m: int, dim: int) -> Case:
    """Case of the row that is farthest from its nearest other row."""
    from sklearn.neighbors import NearestNeighbors

    x = clusters(m, dim)
    loop = early_exit_loop()

    def by_scikit() -> int:
        distances, _ = (
            NearestNeighbors(n_neighbors=2, algorithm="brute", n_jobs=1).fit(x).kneighbors(x)
        )
        return int(distances[:, 1].argmax())

    peers: dict[str, Call] = {LOOP: lambda: loop(x), SCIKIT: by_scikit}
    return Case(f"most isolated row, {m} x {dim}", lambda: most_isolated(x)[0], peers)


def terrific_case(m: int, dim: int) -> Case:
    """Case of a search without a solution, which must reject every ball; the peer sorts all distances in blocks of centers."""
    x = clusters(m, dim, apart=30.0)
    largest = 4.0 * float(np.abs(x).max())
    min_count = m // 40
    radii = np.ldexp(largest, -np.arange(12))

    def by_sorting() -> Any:
        hits = []
        for begin in range(0, m, 200):
            distances = cdist(x[begin : begin + 200], x, "sqeuclidean")
            distances.sort(axis=1)
            inner, outer = (
                np.array(
                    [np.searchsorted(row, (share * radii) ** 2, side="right") for row in distances]
                )
                for share in (1.0, 11.0)
            )
            passed = (inner >= min_count) & (inner == outer) & (m - outer >= min_count)
            hits += [(int(i), begin + int(j)) for j, i in np.argwhere(passed)]
        return min(hits) if hits else None

    name = f"terrific balls, {m} x {dim}, 12 radii x 2"
    return Case(name, lambda: first_terrific(x, largest, 12, min_count), {SORTED: by_sorting})
