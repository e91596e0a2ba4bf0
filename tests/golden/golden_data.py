"""Inputs of the cases. Made of sums and products of 53-bit uniforms alone, so that no processor or library makes them otherwise."""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from fastpubpriv import ZCDP, ApproxDP, PureDP, Rows

BUDGETS = {"zcdp": ZCDP(Fraction(1, 2)), "approx": ApproxDP(1, Fraction(1, 10**6)), "pure": PureDP(1)}
APPROX = BUDGETS["approx"]
NAMES = ("weight", "height", "age")


def normal(seed: int, n: int, dim: int) -> np.ndarray:
    """Rows of independent entries close to N(0, 1): twelve uniforms added up."""
    rng = np.random.default_rng(seed)
    total = np.zeros((n, dim))
    for _ in range(12):
        total += rng.random((n, dim))
    return total - 6.0


def mixed(seed: int, n: int, dim: int) -> np.ndarray:
    """Correlated columns in different units, about a mean that is not zero."""
    rows = normal(seed, n, dim)
    for j in range(1, dim):
        rows[:, j] += 0.6 * rows[:, j - 1]
    return rows * (10.0 ** (np.arange(dim) - 1.0)) + 3.0 * np.arange(1.0, dim + 1.0)


def blobs(seed: int, n: int, centers: Any, spread: Any = 1.0) -> np.ndarray:
    """Rows about the centres in turn."""
    points = np.asarray(centers, dtype=np.float64)
    which = np.arange(n) % len(points)
    spreads = np.broadcast_to(np.asarray(spread, dtype=np.float64), (len(points),))
    return points[which] + normal(seed, n, points.shape[1]) * spreads[which][:, None]


def hostile(rows: np.ndarray) -> np.ndarray:
    """The same with a missing row, an infinite entry and one that overflows."""
    changed = rows.copy()
    changed[7] = np.nan
    changed[8, 0] = np.inf
    changed[9] = 1e300
    return changed


ROWS = hostile(mixed(1, 1200, 3))
PUBLIC = mixed(2, 6, 3)
MANY_PUBLIC = mixed(3, 40, 3)
# More than one chunk of a pass, so that threads have something to share.
LARGE = mixed(4, 400_000, 3)
CENTERS = np.array([[0.0, 0.0, 0.0], [40.0, 0.0, 10.0], [0.0, 60.0, 0.0]])
BLOBS = hostile(blobs(5, 6000, CENTERS))
BLOBS_PUBLIC = blobs(6, 36, CENTERS)
FAR_BLOBS = blobs(7, 3000, 100.0 * CENTERS)
FAR_PUBLIC = blobs(8, 36, 100.0 * CENTERS)
LINE = hostile(blobs(9, 4000, [[0.0], [1000.0]], [1.0, 30.0]))
LINE_PUBLIC = blobs(10, 30, [[0.0], [1000.0]], [1.0, 30.0])
PLANE = hostile(blobs(11, 4000, [[0.0, 5.0], [30.0, 5.0]], [1.0, 3.0]))
PLANE_PUBLIC = blobs(12, 30, [[0.0, 5.0], [30.0, 5.0]], [1.0, 3.0])


def in_form(form: str, rows: np.ndarray, folder: Path) -> Any:
    """The same rows as another kind of source."""
    names = [*NAMES, "extra"][: rows.shape[1]]
    if form == "npy":
        np.save(folder / "rows.npy", rows)
        return folder / "rows.npy"
    if form == "chunks":
        ends = [0, 1, 70, len(rows) // 2, len(rows)]
        return Rows.from_chunks(
            lambda: (rows[low:high] for low, high in itertools.pairwise(ends)), n=len(rows), dim=rows.shape[1]
        )
    if form == "fortran":
        return np.asfortranarray(rows)
    if form == "pandas":
        import pandas as pd

        return pd.DataFrame(rows, columns=names)
    if form == "polars":
        import polars as pl

        return pl.DataFrame(rows, schema=names)
    import pyarrow as pa
    import pyarrow.parquet

    table = pa.table({name: rows[:, j] for j, name in enumerate(names)})
    if form == "arrow":
        return table
    assert form == "parquet"
    pyarrow.parquet.write_table(table, folder / "rows.parquet", row_group_size=301)
    return folder / "rows.parquet"


FORMS = ("npy", "chunks", "fortran", "pandas", "polars", "arrow", "parquet")
