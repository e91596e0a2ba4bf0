"""Cases of calls on odd shapes: wide tables, rows in small pieces, text files, many keys, and few rows; for the ratio table."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas
import pyarrow
import pyarrow.csv

from benchmarks.cases import limits
from benchmarks.cases.calls import RHO, quiet, size
from benchmarks.cases.loops import Call, Case
from fastpubpriv import describe, estimate_mean, quantiles, value_counts, weighted_mean
from fastpubpriv.sources import Rows

ONE_ARRAY, READING = "the same rows in one array", "pyarrow's reading"
ALONE = {"threads": 1, "progress": False}


def wide_cases(n: int, dim: int) -> Iterator[Case]:
    """Yield the cases of tables with as many columns as rows, against one read of the rows."""
    x = np.random.default_rng(1).standard_normal((n, dim))
    public = np.random.default_rng(2).standard_normal((100, dim))
    for call in (estimate_mean, quantiles):
        ours = quiet(partial(call, x, x_pub=public, budget=RHO, **ALONE))
        name = f"{call.__name__}, {n:,} x {dim:,}"
        yield Case(name, ours, {}, lambda: limits.read_seconds(x), "reading the rows once")


def pieces_cases(n: int, dim: int) -> Iterator[Case]:
    """Yield the cases of a mean of rows that come in small pieces, against the same rows in one array."""
    x = np.random.default_rng(1).standard_normal((n, dim))
    call = partial(weighted_mean, bounds=(-5.0, 5.0), budget=RHO, **ALONE)
    peers = {ONE_ARRAY: quiet(partial(call, x))}
    for chunks in (1_000, 20_000):
        pieces = np.array_split(x, min(n, chunks))
        names = [f"x{j}" for j in range(dim)]
        table = pyarrow.concat_tables(
            pyarrow.table({name: piece[:, j] for j, name in enumerate(names)}) for piece in pieces
        )
        yield Case(
            f"weighted_mean of Arrow in {chunks:,} chunks, {size(n)} x {dim}",
            quiet(partial(call, table)),
            peers,
        )
    rows = Rows.from_chunks(
        lambda: (x[begin : begin + 100] for begin in range(0, n, 100)), n=n, dim=dim
    )
    yield Case(
        f"weighted_mean of a generator of 100 rows, {size(n)} x {dim}",
        quiet(partial(call, rows)),
        peers,
    )


def text_cases(n: int, dim: int) -> Iterator[Case]:
    """Yield the cases of means of a CSV file, against pyarrow's reading of it."""
    frame = pandas.DataFrame(
        np.random.default_rng(1).standard_normal((n, dim)).round(6),
        columns=[f"x{j}" for j in range(dim)],
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        frame.to_csv(path, index=False)
        public = frame[:100].copy()
        options = pyarrow.csv.ReadOptions(use_threads=False)
        peers: dict[str, Call] = {READING: lambda: pyarrow.csv.read_csv(path, read_options=options)}
        for call, given in (
            (estimate_mean, {"x_pub": public}),
            (weighted_mean, {"bounds": (-6.0, 6.0)}),
        ):
            ours = quiet(partial(call, path, budget=RHO, **given, **ALONE))
            yield Case(f"{call.__name__} of a CSV file, {size(n)} x {dim}", ours, peers)


def listed_keys_case(n: int, keys: int) -> Case:
    """Case of the counts of many listed keys, against pandas."""
    column = pandas.Series(np.random.default_rng(1).integers(0, keys, n), name="key")
    ours = partial(value_counts, column, keys=list(range(keys)), budget=RHO, **ALONE)
    return Case(
        f"value_counts, {size(n)} rows, {keys:,} keys", quiet(ours), {"pandas": column.value_counts}
    )


def few_rows_cases() -> list[Case]:
    """Cases of quantiles and of a description of 1,000 rows, against diffprivlib's where it is installed, and NumPy."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((1000, 5))
    public = rng.standard_normal((100, 5))
    given = {"x_pub": public, "budget": RHO, "progress": False}
    quartiles: dict[str, Call] = {}
    if importlib.util.find_spec("diffprivlib") is not None:
        from diffprivlib import tools

        def by_diffprivlib() -> list[list[float]]:
            levels = (0.25, 0.5, 0.75)
            return [
                [tools.quantile(column, q, epsilon=0.1, bounds=(-5.0, 5.0)) for q in levels]
                for column in x.T
            ]

        quartiles["diffprivlib"] = by_diffprivlib
    moments: dict[str, Call] = {"NumPy mean and deviation": lambda: (x.mean(axis=0), x.std(axis=0))}
    return [
        Case("quantiles, 1,000 x 5", quiet(partial(quantiles, x, **given)), quartiles),
        Case("describe, 1,000 x 5", quiet(partial(describe, x, **given)), moments),
    ]
