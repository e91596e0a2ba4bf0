"""Independence of rows: record every pass of an estimator over rows, to repeat it with other rows, alone and in chunks.

`recorded` runs an estimator and stores, for each pass over private rows, a function that returns the integers of that pass for any
rows of the same width. These are additive over rows, modulo 2^64, so that the contribution of a row in a chunk can be compared with
its contribution alone. Passes need not be listed: they are recorded when an executor runs their query.
"""

import ast
import contextlib
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np

import fastpubpriv
from fastpubpriv.mechanisms import scores
from fastpubpriv.mechanisms import stable_histograms as stable
from fastpubpriv.session import Session
from fastpubpriv.sources import Rows, private_rows
from fastpubpriv.sources.fold import Executor, Query

PACKAGE = Path(fastpubpriv.__file__).parent
ALONE = Executor(threads=1, progress=False)
MIXER = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Pass:
    """One pass: the kind of its query, its case, the number of columns of its rows, and contribution(rows, chunk_rows)."""

    site: str
    case: str
    dim: int
    contribution: Callable[[np.ndarray, int], np.ndarray]
    rows: Rows
    query: Query

    def __repr__(self):
        return f"{self.site} in {self.case}, {self.dim} columns"


def modules():
    """Import and return all modules of the package except those of the command line and of PyTorch."""
    for info in pkgutil.walk_packages(fastpubpriv.__path__, "fastpubpriv."):
        if not info.name.startswith(("fastpubpriv.cli", "fastpubpriv.torch")):
            importlib.import_module(info.name)
    return [
        module
        for name, module in sorted(sys.modules.items())
        if name.startswith("fastpubpriv.") and module
    ]


def flat(accumulators):
    return np.concatenate([array.reshape(-1) for array in accumulators]).astype(np.int64)


def hashed_counts(found):
    """Return occupied bins as one number for each partition: the sum over rows of a hash of the key."""
    numbers = []
    for keys, counts in found:
        code = np.zeros(len(keys), dtype=np.uint64)
        for word in keys.T.astype(np.uint64):
            code = (code ^ word) * MIXER
            code ^= code >> np.uint64(31)
        numbers.append((code * MIXER * counts.astype(np.uint64)).sum(dtype=np.uint64))
    return np.array(numbers, dtype=np.uint64).view(np.int64)


def found_by(query, rows, chunk_rows):
    """Return the integers of a query, additive over rows, before its answer, which need not be a sum."""
    executor = Executor(threads=1, progress=False, chunk_rows=chunk_rows)
    if isinstance(query, scores.CodesQuery):
        # Codes summed over rows are more sensitive than counts of pairs.
        codes = replace(
            query, most=2**31 - 1, chunk_rows=min(chunk_rows, query.chunk_rows), threads=1
        )
        return executor.run(codes, private_rows(rows))[0].reshape(-1)
    if isinstance(query, stable.BinQuery):
        return hashed_counts(executor.run(query, private_rows(rows)))
    with mock.patch.object(type(query), "answer", lambda self, accumulators: accumulators):
        return flat(honest_run(executor, query, private_rows(rows)))


honest_run = Executor.run
honest_release = Session.release


class Recorder:
    """Recorder of the queries that executors run."""

    def __init__(self):
        self.passes = []
        self.statistics = []
        self.measurements = []
        self.case = ""

    def keep(self, query, rows):
        """Store one pass of each kind for each case, as later rounds run the same code."""
        site = kind_of(query)
        statistic = getattr(query, "statistic", None)
        known = {
            (each.site, each.case, each.dim, getattr(each.query, "statistic", None) is None)
            for each in self.passes
        }
        if (site, self.case, rows.dim, statistic is None) not in known:
            self.passes.append(
                Pass(site, self.case, rows.dim, partial(found_by, query), rows, query)
            )
        if statistic is not None:
            self.statistics.append((self.case, rows.dim, statistic))


@contextlib.contextmanager
def recording():
    """Record passes and releases of the block in `passes` and `measurements` of the recorder; its `case` names the estimator."""
    recorder = Recorder()

    def run(self, query, rows):
        recorder.keep(query, rows)
        return honest_run(self, query, rows)

    def release(self, measurement, **options):
        recorder.measurements.append(measurement)
        return honest_release(self, measurement, **options)

    with mock.patch.object(Executor, "run", run), mock.patch.object(Session, "release", release):
        yield recorder


def name_of(kind):
    return f"{kind.__module__}.{kind.__qualname__}"


KINDS = {
    "MappedQuery": (
        "_parts_sum",
        "_shells_and_incomplete",
        "rows_gram",
        "rows_pieces",
        "rows_shell_counts",
        "rows_sum",
    ),
    "LeafQuery": ("numbers", "sums", "squares"),
    "CodesQuery": ("pairs", "sums"),
}


def kind_of(query):
    """Return the name of a query, and of its kernel or kind if it has several."""
    kind = type(query).__name__
    if kind == "MappedQuery":
        which = getattr(query.kernel, "func", query.kernel).__name__
    elif kind == "LeafQuery":
        which = KINDS[kind][bool(query.maps) + query.squares]
    else:
        which = KINDS[kind][query.most > 0] if kind == "CodesQuery" else ""
    return f"{name_of(type(query))} {which}".strip()


def queries():
    """Return names of the concrete queries of the package, with their kinds."""
    modules()
    found = set()
    kinds = [Query]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        # The bridge to PyTorch has tests of its own, where PyTorch is installed.
        ours = kind.__module__.startswith("fastpubpriv.") and not kind.__module__.startswith(
            "fastpubpriv.torch."
        )
        if ours and not inspect.isabstract(kind):
            found |= {
                f"{name_of(kind)} {which}".strip() for which in KINDS.get(kind.__name__, [""])
            }
    return found


def reading_sites():
    """Return functions outside of `sources` that call `.chunks(...)` or `.block(...)`, and so read private rows without a query."""
    found = set()

    def visit(node, module, path):
        for child in ast.iter_child_nodes(node):
            inner = path
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = [*path, child.name]
            if isinstance(child, ast.Call) and reads_rows(child):
                found.add(f"{module}.{'.'.join(path)}")
            visit(child, module, inner)

    for file in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(("fastpubpriv", *file.relative_to(PACKAGE).with_suffix("").parts))
        if not module.startswith("fastpubpriv.sources"):
            visit(ast.parse(file.read_text(encoding="utf-8")), module, [])
    return found


def reads_rows(call):
    """Return whether this is `rows.chunks()`, `even_chunks(rows, n)` or `rows.block(a, b)`; `account.block()` has no arguments."""
    if not isinstance(call.func, ast.Attribute):
        return isinstance(call.func, ast.Name) and call.func.id == "even_chunks"
    return call.func.attr == "chunks" or (call.func.attr == "block" and len(call.args) == 2)


def cancelling(rng, rows):
    """Return the rows moved by large steps that cancel in a sum over columns, or do not."""
    found = []
    dim = rows.shape[1]
    for size in (1e3, 1e6, 1e9, 1e12):
        row = rows[rng.integers(len(rows))].copy()
        first, second = rng.integers(dim, size=2)
        row[first] += size
        row[second] -= size
        found.append(row)
        found.append(rows[rng.integers(len(rows))] + size * rng.normal(size=dim))
        single = rows[rng.integers(len(rows))].copy()
        single[rng.integers(dim)] = size
        found.append(single)
    return np.array(found)


def on_boundaries(contribution, rows, count, rng):
    """Return pairs of adjacent rows, between two given rows, whose contributions alone differ.

    Every second pair differs in one coordinate only: its next double changes the rounded value by less than a unit in the last
    place, so that a change of any bit moves the boundary.
    """
    found = []
    for turn in range(count):
        one, other = rng.choice(len(rows), size=2, replace=False)
        low = rows[one]
        high = rows[other]
        if turn % 2 == 0:
            column = rng.integers(rows.shape[1])
            high = low.copy()
            high[column] = rows[other, column]
        at_low = contribution(low[None], 1)
        if np.array_equal(at_low, contribution(high[None], 1)):
            continue
        for _ in range(80):
            middle = low + (high - low) * 0.5
            if np.array_equal(middle, low) or np.array_equal(middle, high):
                break
            if np.array_equal(contribution(middle[None], 1), at_low):
                low = middle
            else:
                high = middle
        found += [low, high]
    return np.array(found).reshape(-1, rows.shape[1])


def missing(rng, rows, value):
    """Return the rows with one entry of each replaced by `value`."""
    found = rows.copy()
    found[np.arange(len(rows)), rng.integers(rows.shape[1], size=len(rows))] = value
    return found


def read_alike(rows):
    """Return whether the rows of a view of a source have the same bits in blocks of any size."""
    if not rows.random_access:
        return True
    count = min(rows.n, 7)
    whole = rows.block(0, count).tobytes()
    cut = [
        [rows.block(i, min(i + size, count)) for i in range(0, count, size)] for size in (1, 2, 3)
    ]
    return all(np.concatenate(blocks).tobytes() == whole for blocks in cut)


def other_bits(statistic, rows):
    """Return chunk sizes in which a statistic of some row differs in bits from that of the row alone."""
    with np.errstate(all="ignore"):
        alone = np.concatenate([statistic(rows[i : i + 1]) for i in range(len(rows))])
        return [
            size
            for size in (2, 3, len(rows))
            if np.concatenate(
                [statistic(rows[i : i + size]) for i in range(0, len(rows), size)]
            ).tobytes()
            != alone.tobytes()
        ]


def differences(each, rows, rng, bisected=6):
    """Return the cases in which other rows change a row's contribution; empty if the pass is correct."""
    finite = np.concatenate([rows, cancelling(rng, rows)])
    with np.errstate(all="ignore"):
        edges = on_boundaries(each.contribution, finite, bisected, rng)
    hostile = [np.full(each.dim, value) for value in (1e308, 5e-324, 0.0, -1e200)]
    holes = [
        missing(np.random.default_rng(3), rows[:3], value) for value in (np.nan, np.inf, -np.inf)
    ]
    everyone = np.concatenate([finite, edges, edges[::-1], hostile, *holes])
    total = np.sum([each.contribution(row[None], 1) for row in everyone], axis=0)
    found = [
        f"{each}: rows in chunks of {size} contribute other integers than alone"
        for size, turn in ((1, 0), (2, 0), (2, 1), (3, 0), (len(everyone), 0), (len(everyone), 5))
        if not np.array_equal(each.contribution(np.roll(everyone, turn, axis=0), size), total)
    ]
    if not total.any():
        found.append(f"{each}: finds nothing, so nothing is known about it")
    if not read_alike(each.rows):
        found.append(f"{each}: rows come from their source with other bits alone")
    nan, *infinite = (each.contribution(rows, 3) for rows in holes)
    if any(not np.array_equal(nan, other) for other in infinite):
        found.append(f"{each}: an infinite entry counts, and NaN does not")
    return found
