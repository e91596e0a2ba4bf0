"""A row kernel for tests, and one matrix written as every kind of source."""

import itertools
import warnings

import numpy as np

from fastpubpriv.sources import Executor, Query, Rows, private_rows

SCALE = 1 << 20


class TwoCalls(Query):
    """A query made of two functions, for tests: make() is `zeros`, step is `add`; the answer is all accumulators."""

    def __init__(self, make, step, row_cost=1):
        self.make = make
        self.step = step
        self.cost = row_cost

    def zeros(self):
        return self.make()

    def add(self, chunk, accumulators):
        self.step(chunk, accumulators)

    def answer(self, accumulators):
        return accumulators

    @property
    def row_cost(self):
        return self.cost


def fold(rows, make, step, *, row_cost=1, **options):
    """The accumulators of one pass."""
    return Executor(**options).run(TwoCalls(make, step, row_cost), rows)


def make_sums(dim):
    return lambda: (np.zeros(dim, np.int64), np.zeros(1, np.int64))


def add_sums(chunk, accumulators):
    """Column sums of rows on a grid, neutral rows left out, and the number of rows seen."""
    values = np.asarray(chunk, dtype=np.float64)
    keep = np.isfinite(values).all(axis=1)
    grid = np.rint(np.clip(np.where(keep[:, None], values, 0.0), -1e6, 1e6) * SCALE)
    accumulators[0][:] += grid.astype(np.int64).sum(axis=0)
    accumulators[1][0] += chunk.shape[0]


def column_sums(rows, **options):
    sums, count = fold(rows, make_sums(rows.dim), add_sums, **options)
    assert count[0] == rows.n
    return sums.tolist()


def direct_sums(matrix):
    accumulators = make_sums(matrix.shape[1])()
    add_sums(matrix, accumulators)
    return accumulators[0].tolist()


def streamed(array, pieces=5):
    """The rows of an array as a function yields them."""
    return Rows.from_chunks(lambda: np.array_split(array, pieces), n=len(array), dim=array.shape[1])


def content(rows, *where, **options):
    """The rows of a range, all by default, in one array."""
    chunks = list(rows.chunks(*where, **options))
    return np.concatenate(chunks) if chunks else np.empty((0, rows.dim))


def silently(call):
    """call() with every warning turned into an error and NumPy told to raise: private content may cause neither."""
    with warnings.catch_warnings(action="error"), np.errstate(all="raise"):
        return call()


def every_source(matrix, folder):
    """(name, Rows) for each kind of source that holds `matrix`, float64."""
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet

    names = [f"c{i}" for i in range(matrix.shape[1])]
    n = len(matrix)
    frame = pd.DataFrame(matrix, columns=names)
    table = pa.table({k: matrix[:, i] for i, k in enumerate(names)})
    np.save(folder / "c.npy", matrix)
    np.save(folder / "f.npy", np.asfortranarray(matrix))
    pa.parquet.write_table(table, folder / "one.parquet", row_group_size=max(1, n // 3))
    pa.parquet.write_table(table.slice(0, n // 2), folder / "a.parquet")
    pa.parquet.write_table(table.slice(n // 2), folder / "b.parquet", row_group_size=7)
    pa.feather.write_feather(table, str(folder / "t.feather"), chunksize=11)
    with pa.ipc.new_file(str(folder / "t.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=13)
    frame.to_csv(folder / "t.csv", index=False)
    pieces = [0, 1, 2, min(9, n), n]

    def factory():
        buffer = np.empty_like(matrix)  # reused, as generators do
        for low, high in itertools.pairwise(pieces):
            buffer[: high - low] = matrix[low:high]
            yield buffer[: high - low]

    yield "array", private_rows(matrix)
    yield "fortran", private_rows(np.asfortranarray(matrix))
    yield "npy", private_rows(folder / "c.npy")
    yield "fortran npy", private_rows(folder / "f.npy")
    yield "list", private_rows(matrix.tolist())
    yield "pandas", private_rows(frame)
    yield "pandas nullable", private_rows(frame.astype("Float64"))
    yield "pandas arrow", private_rows(frame.astype("double[pyarrow]"))
    yield "polars", private_rows(pl.DataFrame(matrix, schema=names))
    yield "arrow", private_rows(table)
    yield "arrow batches", private_rows(table.to_batches(max_chunksize=5))
    yield "parquet", private_rows(folder / "one.parquet")
    yield "parquet list", private_rows([folder / "a.parquet", folder / "b.parquet"])
    yield "feather", private_rows(folder / "t.feather")
    yield "ipc", private_rows(str(folder / "t.arrow"))
    yield "csv", Rows.from_csv(folder / "t.csv")
    yield "chunks", Rows.from_chunks(factory, n=n, dim=matrix.shape[1])
