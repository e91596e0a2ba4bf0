"""Rows alone and in company: records what every pass of an estimator does with a chunk, to do it again with other rows.

`recorded` runs an estimator and keeps, for each pass over private rows, a function that gives the integers which that pass finds in
any rows of the same width. All of them add up over rows, modulo 2^64, so what a row contributes in company is compared with what it
contributes alone. Nothing has to be listed: a pass is found because it calls `fold`.
"""

import ast
import contextlib
import importlib
import pkgutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np

import fastpubpriv
from fastpubpriv.mechanisms import histograms as stable
from fastpubpriv.mechanisms import statistics
from fastpubpriv.mechanisms.selection import densities
from fastpubpriv.mechanisms.sums import Passes
from fastpubpriv.sources import Rows, private_rows
from fastpubpriv.sources.base import RandomAccessRows
from fastpubpriv.sources.fold import fold

PACKAGE = Path(fastpubpriv.__file__).parent
ALONE = Passes(threads=1, progress=False)
MIXER = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Pass:
    """One pass: which function made it, in which case, the columns of its rows, and contribution(rows, chunk_rows)."""

    site: str
    case: str
    dim: int
    contribution: Callable[[np.ndarray, int], np.ndarray]
    rows: Rows

    def __repr__(self):
        return f"{self.site} in {self.case}, {self.dim} columns"


def modules():
    """All modules of the package that can be imported here."""
    for info in pkgutil.walk_packages(fastpubpriv.__path__, "fastpubpriv."):
        if not info.name.startswith(("fastpubpriv.cli", "fastpubpriv.experiments")):
            importlib.import_module(info.name)
    return [module for name, module in sorted(sys.modules.items()) if name.startswith("fastpubpriv.") and module]


@contextlib.contextmanager
def replaced(function, by):
    """Every module's name for a function, bound to another."""
    with contextlib.ExitStack() as stack:
        for module in modules():
            if module.__name__.startswith("fastpubpriv.sources"):
                continue
            for name, value in list(vars(module).items()):
                if value is function:
                    stack.enter_context(mock.patch.object(module, name, by))
        yield


def flat(accumulators):
    return np.concatenate([array.reshape(-1) for array in accumulators]).astype(np.int64)


def hashed_counts(found):
    """Keys and counts of occupied bins as one number for each partition: the sum over rows of a hash of the key."""
    numbers = []
    for keys, counts in found:
        code = np.zeros(len(keys), dtype=np.uint64)
        for word in keys.T.astype(np.uint64):
            code = (code ^ word) * MIXER
            code ^= code >> np.uint64(31)
        numbers.append((code * MIXER * counts.astype(np.uint64)).sum(dtype=np.uint64))
    return np.array(numbers, dtype=np.uint64).view(np.int64)


def summed_codes(table, rows, chunk_rows):
    """Codes of densities, added up over the rows."""
    total = np.zeros((table.panels, densities.PANEL), dtype=np.int64)

    def use(codes, taken):
        total[:] += codes[:, :taken].sum(axis=1, dtype=np.int64)

    densities.read_codes(table, rows, ALONE, chunk_rows, use)
    return total.reshape(-1)


class Recorder:
    """Stands for `fold` and for the two functions whose passes write elsewhere than into accumulators of integers."""

    def __init__(self):
        self.passes = []
        self.statistics = []
        self.case = ""

    def fold(self, rows, make, step, **options):
        def contribution(x, chunk_rows):
            return flat(fold(private_rows(x), make, step, threads=1, progress=False, chunk_rows=chunk_rows))

        caller = sys._getframe(1)
        self.keep(f"{caller.f_globals['__name__']}.{caller.f_code.co_qualname}", rows, contribution)
        return fold(rows, make, step, **options)

    def count_bins(self, rows, partitions, passes):
        def contribution(x, chunk_rows):
            with in_chunks(chunk_rows):
                return hashed_counts(count_bins(private_rows(x), partitions, ALONE))

        self.keep("fastpubpriv.mechanisms.histograms.count_bins", rows, contribution)
        return count_bins(rows, partitions, passes)

    def read_codes(self, table, rows, passes, capacity, use):
        def contribution(x, chunk_rows):
            return summed_codes(table, private_rows(x), min(chunk_rows, capacity))

        self.keep("fastpubpriv.mechanisms.selection.densities.read_codes", rows, contribution)
        return read_codes(table, rows, passes, capacity, use)

    def release_statistic_sum(self, account, rows, statistic, **options):
        self.statistics.append((f"{options['name']} in {self.case}", rows.dim, statistic))
        return release_statistic_sum(account, rows, statistic, **options)

    def keep(self, site, rows, contribution):
        """One pass of each site for each case: later rounds have other maps, and the same code."""
        known = {(each.site, each.case, each.dim) for each in self.passes}
        if (site, self.case, rows.dim) not in known:
            self.passes.append(Pass(site, self.case, rows.dim, contribution, rows))


count_bins, read_codes = stable.count_bins, densities.read_codes
release_statistic_sum = statistics.release_statistic_sum


@contextlib.contextmanager
def in_chunks(chunk_rows):
    """`count_bins` in chunks of so many rows."""

    def chunked(rows, make, step, **options):
        return fold(rows, make, step, **{**options, "chunk_rows": chunk_rows})

    with mock.patch.object(stable, "fold", chunked):
        yield


@contextlib.contextmanager
def recording():
    """Passes made inside the block, in the `passes` of the recorder; its `case` names what runs."""
    recorder = Recorder()
    with (
        replaced(fold, recorder.fold),
        replaced(count_bins, recorder.count_bins),
        replaced(read_codes, recorder.read_codes),
        replaced(release_statistic_sum, recorder.release_statistic_sum),
    ):
        yield recorder


def reading_sites():
    """Functions outside of `sources` that call `fold`, `.chunks(...)` or `.block(...)`: all that see private rows."""
    found = {"fold": set(), "chunks": set()}

    def visit(node, module, path):
        for child in ast.iter_child_nodes(node):
            inner = path
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                parent_is_function = bool(path) and path[-1] != "" and not path[-1][0].isupper()
                inner = [*path, "<locals>", child.name] if parent_is_function else [*path, child.name]
            if isinstance(child, ast.Call):
                name = child.func.id if isinstance(child.func, ast.Name) else getattr(child.func, "attr", "")
                if name == "fold":
                    found["fold"].add(f"{module}.{'.'.join(path)}")
                elif name in ("chunks", "block") and isinstance(child.func, ast.Attribute) and reads_rows(child):
                    found["chunks"].add(f"{module}.{'.'.join(path)}")
            visit(child, module, inner)

    for file in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(("fastpubpriv", *file.relative_to(PACKAGE).with_suffix("").parts))
        if not module.startswith("fastpubpriv.sources"):
            visit(ast.parse(file.read_text(encoding="utf-8")), module, [])
    return found


def reads_rows(call):
    """`rows.chunks()` or `rows.block(a, b)`; `account.block()` has no arguments and is something else."""
    return call.func.attr == "chunks" or len(call.args) == 2


# ---- rows -----------------------------------------------------------------------------------------------------------


def cancelling(rng, rows):
    """Rows at the places of the given ones, moved by large steps that cancel each other in a sum over columns, or do not."""
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
    """Rows next to which, on the way to another row, a row contributes other integers when alone.

    On every other way one coordinate moves only: its next double changes what is rounded by less than a unit in the last place, so
    that the boundary moves when any other bit does.
    """
    found = []
    for turn in range(count):
        one, other = rng.choice(len(rows), size=2, replace=False)
        low, high = rows[one], rows[other]
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
    """The rows, with one entry of each replaced."""
    found = rows.copy()
    found[np.arange(len(rows)), rng.integers(rows.shape[1], size=len(rows))] = value
    return found


def read_alike(rows):
    """Whether the rows that a view of a source gives have the same bits in blocks of any size."""
    if not isinstance(rows, RandomAccessRows):
        return True
    count = min(rows.n, 7)
    whole = rows.block(0, count).tobytes()
    cut = [[rows.block(i, min(i + size, count)) for i in range(0, count, size)] for size in (1, 2, 3)]
    return all(np.concatenate(blocks).tobytes() == whole for blocks in cut)


def other_bits(statistic, rows):
    """Sizes of chunks in which a statistic gives some row other bits than alone; sharper than the integers made of it."""
    with np.errstate(all="ignore"):
        alone = np.concatenate([statistic(rows[i : i + 1]) for i in range(len(rows))])
        return [
            size
            for size in (2, 3, len(rows))
            if np.concatenate([statistic(rows[i : i + size]) for i in range(0, len(rows), size)]).tobytes()
            != alone.tobytes()
        ]


def differences(each, rows, rng, bisected=6):
    """Where company changes what rows contribute: nothing, if all is well."""
    finite = np.concatenate([rows, cancelling(rng, rows)])
    with np.errstate(all="ignore"):
        edges = on_boundaries(each.contribution, finite, bisected, rng)
    hostile = [np.full(each.dim, value) for value in (1e308, 5e-324, 0.0, -1e200)]
    holes = [missing(np.random.default_rng(3), rows[:3], value) for value in (np.nan, np.inf, -np.inf)]
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
