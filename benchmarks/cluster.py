"""`python -m benchmarks.cluster`: time of a pass over a Dask collection by number of chunks and of workers, and a model of it.

Chunks are made on the workers and stay there. Each line is a pass that sums clipped rows: its number of tasks, the bytes of the
graph sent to the scheduler, those of integers sent between tasks, and the minimum time of several passes. The model is

    seconds = start + tasks * per_task + rows * per_row / min(workers, cores)

where `per_task` is work of the scheduler, which has one thread and does not scale with workers.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import cloudpickle
import numpy as np
from rich.console import Console
from rich.table import Table

from fastpubpriv.kernels.rows import rows_sum
from fastpubpriv.mechanisms.sums import MappedQuery
from fastpubpriv.rowwise.row_maps import RowMap
from fastpubpriv.sources import Executor, Rows
from fastpubpriv.sources.dask_backend import _Plan
from fastpubpriv.sources.remote import Pass, tree_of

HEADER = ("workers", "chunks", "tasks", "graph, kB", "integers, kB", "seconds a pass", "ms a task")


def query(dim: int) -> MappedQuery:
    """Return the query for a sum of rows clipped to norm 1."""
    row_map = RowMap(dim=dim, quant_bound=2**20, inv_step=2.0**20, limit=2.0**20 - dim)
    return MappedQuery(shape=(dim,), kernel=rows_sum, row_map=row_map)


def planned(rows: Rows, asked: MappedQuery) -> dict[Any, Any]:
    """The tasks of a pass."""
    sources: list[Any] = []
    tree = tree_of(rows, sources)
    return _Plan(Pass(asked, tree, tuple(s.form for s in sources), 1 << 16), rows, sources).graph


def least(call: Any, times: int) -> float:
    """Return the minimum wall time of several calls."""
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        call()
        found.append(time.perf_counter() - begin)
    return min(found)


def measure(
    rows: int, dim: int, chunks: list[int], workers: list[int], times: int
) -> list[tuple[Any, ...]]:
    """Return one line for each number of workers and of chunks."""
    import dask.array
    from distributed import Client, LocalCluster

    asked = query(dim)
    lines = []
    for many in workers:
        options = {"n_workers": many, "threads_per_worker": 1, "dashboard_address": ":0"}
        with LocalCluster(**options) as cluster, Client(cluster) as client:
            for count in chunks:
                made = (
                    dask.array.random.default_rng(1)
                    .normal(size=(rows, dim), chunks=(-(-rows // count), dim))
                    .persist()
                )
                source = Rows.from_dask(made, client=client)
                Executor().run(asked, source)  # imports on the workers
                graph = planned(source, asked)
                seconds = least(lambda source=source: Executor().run(asked, source), times)
                parts = sum("rows" in str(key) or "merge" in str(key) for key in graph)
                moved = parts * 8 * dim / 1e3
                lines.append(
                    (many, count, len(graph), len(cloudpickle.dumps(graph)) / 1e3, moved, seconds)
                )
                del made, source
    return lines


def fitted(lines: list[tuple[Any, ...]], rows: int) -> tuple[float, float, float]:
    """Return start, per_task and per_row of the model by nonnegative least squares."""
    from scipy.optimize import nnls

    cores = os.cpu_count() or 1
    design = np.array([[1.0, line[2], rows / min(line[0], cores)] for line in lines])
    scale = design.max(axis=0)
    found, _ = nnls(design / scale, np.array([line[5] for line in lines]))
    start, task, row = (found / scale).tolist()
    return start, task, row


def main() -> None:
    """Print the table and the model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--dim", type=int, default=8)
    parser.add_argument("--chunks", type=int, nargs="+", default=[10, 50, 200, 1000])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    lines = measure(given.rows, given.dim, given.chunks, given.workers, given.times)
    table = Table(
        *HEADER, title=f"{given.rows:,} rows, {given.dim} columns, {os.cpu_count()} cores"
    )
    for many, count, tasks, graph, moved, seconds in lines:
        cells = (f"{graph:.0f}", f"{moved:.1f}", f"{seconds:.3f}", f"{1e3 * seconds / tasks:.2f}")
        table.add_row(str(many), str(count), str(tasks), *cells)
    start, task, row = fitted(lines, given.rows)
    Console().print(table)
    print(
        f"seconds = {start:.3f} + tasks * {1e3 * task:.2f} ms + rows * {1e9 * row:.1f} ns / min(workers, cores)"
    )


if __name__ == "__main__":
    main()
