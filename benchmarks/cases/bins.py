"""Cases of occupied bins of a column, against typical NumPy and polars code and against one read of the column."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from benchmarks.cases import limits
from benchmarks.cases.loops import Call, Case
from fastpubpriv.kernels import bins
from fastpubpriv.kernels.bins import BinRule
from fastpubpriv.mechanisms.stable_histograms import Partition, coarsen

# read once, when polars is imported, perhaps by OpenDP
os.environ.setdefault("POLARS_MAX_THREADS", "1")


def column(shape: str, n: int) -> np.ndarray:
    rng = np.random.default_rng(5)
    if shape == "heavy-tailed":
        return rng.standard_cauchy(n)
    return rng.standard_normal(n) if shape != "few bins" else rng.uniform(-5.0, 5.0, n)


def bins_count(x: np.ndarray, rule: BinRule) -> Any:
    """Return the occupied keys of a column, and their counts."""
    table = bins.BinTable()
    table.count(x, rule)
    return bins.collect([table], 1)


def ours(x: np.ndarray, shape: str) -> Call:
    rule = BinRule() if shape == "dyadic" else BinRule(1.0 if shape == "few bins" else 0.01)
    if shape != "30 widths":
        return lambda: bins_count(x, rule)
    partition = Partition((0,), (rule,), tuple(range(30)))

    def nested() -> list[Any]:
        found = bins_count(x, rule)
        return [coarsen(*found, level, partition) for level in partition.levels]

    return nested


def polars_call(x: np.ndarray, shape: str) -> Call:
    import polars as pl

    if pl.thread_pool_size() != 1:
        raise RuntimeError(
            "polars was imported before benchmarks.cases.bins, with more threads than one"
        )
    frame = pl.DataFrame({"x": x})
    width = 1.0 if shape == "few bins" else 0.01
    key = (
        pl.col("x").abs().log(2).ceil() if shape == "dyadic" else (pl.col("x") / width - 0.5).ceil()
    ).cast(pl.Int64)
    return lambda: frame.lazy().group_by(key.alias("key")).len().collect()


def bins_case(shape: str, n: int) -> Case:
    x = column(shape, n)
    width = 1.0 if shape == "few bins" else 0.01
    if shape == "dyadic":
        peers: dict[str, Call] = {
            "NumPy frexp and bincount": lambda: np.bincount(np.frexp(x)[1] + 1100)
        }
    else:
        keys = lambda: np.ceil(x / width - 0.5).astype(np.int64)  # noqa: E731
        peers = {"NumPy unique": lambda: np.unique(keys(), return_counts=True)}
        if shape != "heavy-tailed":
            # the data range, which a private histogram cannot use
            low = int(np.ceil(x.min() / width)) - 1
            peers["NumPy bincount, range known"] = lambda: np.bincount(keys() - low)
    peers["polars, one thread"] = polars_call(x, shape)
    return Case(
        f"occupied bins, {shape}, {n:.0e}",
        ours(x, shape),
        peers,
        lambda: limits.read_seconds(x),
        "reading the column once",
        lambda: limits.read_once(x),
    )


def persons_case(n: int, persons: int | None = None, each: int = 4) -> Case:
    """Case of at most some rows per person, by default four of a fifth as many persons, against the first of each group."""
    import polars as pl

    from fastpubpriv.sources import private_rows
    from fastpubpriv.sources.person_table import table_of_persons

    rng = np.random.default_rng(5)
    frame = pl.DataFrame(
        {
            "id": rng.integers(0, persons or n // 5, n),
            **{name: rng.standard_normal(n) for name in "abc"},
        }
    )
    return Case(
        f"persons, {n:.0e} rows, {each} of each",
        lambda: private_rows(table_of_persons(frame, "id", "row", each)),
        {
            "polars, head of groups": lambda: frame.group_by("id").head(each),
            "polars, means of groups": lambda: frame.group_by("id").agg(pl.all().mean()),
        },
    )
