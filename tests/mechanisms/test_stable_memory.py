"""Counting bins within `max_memory`: the same answers, refusals by public numbers before the debit, and a bound that holds."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from clocks import PATIENCE
from spies import SpyLedger, SpyRows, seeded
from twins import bins as reference

from fastpubpriv import ApproxDP, BinGrid, DyadicBins, InputError, ProductBins, stable_histogram
from fastpubpriv.errors import KernelError
from fastpubpriv.kernels import bins
from fastpubpriv.kernels.bins import BinRule, BinTable
from fastpubpriv.mechanisms import stable_histograms as stable
from fastpubpriv.mechanisms.stable_histograms import Partition, count_bins, memory_for
from fastpubpriv.mixtures.list_decoding import decode_axis_aligned, decode_gaussians, decode_means
from fastpubpriv.sources import Rows, private_rows
from fastpubpriv.sources.fold import Executor

BUDGET = ApproxDP(1, 1e-7)


def same(one, other):
    for left, right in zip(one, other, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("spread", [10, 3000, 10**9])
@pytest.mark.parametrize("rule", [BinRule(1.0), BinRule()], ids=["width", "dyadic"])
def test_a_table_that_spills_counts_the_same(rule, spread):
    """From a window and from the hash table, which has 4096 slots for up to 60,000 keys, in two threads' tables."""
    x = np.random.default_rng(spread).uniform(-spread, spread, 60_000)
    tables = [BinTable(slots=bins.LEAST_SLOTS) for _ in range(2)]
    for number, begin in enumerate(range(0, len(x), 7000)):
        tables[number % 2].count(x[begin : begin + 7000], rule)
    assert (sum(len(table._spilt) for table in tables) > 5) == (spread == 10**9 and not rule.dyadic)
    same(bins.collect(tables, 1), reference.bins_count(x, rule))


@pytest.mark.parametrize("words", [1, 2, 5])
@pytest.mark.parametrize("spread", [3, 40_000])
def test_tuples_that_spill_count_the_same(words, spread, monkeypatch):
    monkeypatch.setattr(bins, "_PAGED", 1 << 14)
    keys = np.random.default_rng(words).integers(-spread, spread, (50_000, words))
    keys[::7, -1] = bins.NONE
    tables = [BinTable(words, slots=bins.LEAST_SLOTS) for _ in range(3)]
    for number, begin in enumerate(range(0, len(keys), 1000)):
        tables[number % 3].insert(np.ascontiguousarray(keys[begin : begin + 1000]))
    same(bins.collect(tables, words), reference.bins_count_tuples(keys))


def test_slots_are_a_power_of_two():
    for slots in (0, 2048, 5000):
        with pytest.raises(KernelError, match="power of two"):
            BinTable(slots=slots)


def partitions():
    return [
        Partition((0,), (BinRule(1e-7),), levels=(0, 3, 20)),
        Partition((1,), (BinRule(),)),
        Partition((0, 1), (BinRule(1e-4), BinRule(1e-4)), levels=(0, 1)),
        Partition((1,), (BinRule(1e-5),), labels=lambda part: (part[:, 0] > 0).astype(np.int64)),
    ]


@pytest.mark.parametrize("threads", [1, 3])
def test_the_limit_does_not_change_the_counts(threads, monkeypatch):
    monkeypatch.setattr(stable, "_FEW_SLOTS", bins.LEAST_SLOTS)
    x = np.random.default_rng(0).normal(size=(40_000, 2))
    x[5] = np.nan
    x[6, 1] = np.inf
    stream = Rows.from_chunks(
        lambda: (x[i : i + 777] for i in range(0, len(x), 777)), n=len(x), dim=2
    )
    free = count_bins(private_rows(x), partitions(), Executor(threads=1, progress=False))
    spilt = []
    original = bins.BinTable.drained
    monkeypatch.setattr(
        bins.BinTable, "drained", lambda self: spilt.append(len(self._spilt)) or original(self)
    )
    least = memory_for(partitions(), len(x), Executor(threads=threads))
    for rows in (private_rows(x), stream):
        tight = Executor(threads=threads, progress=False, max_memory=least)
        for one, other in zip(count_bins(rows, partitions(), tight), free, strict=True):
            same(one, other)
    assert max(spilt) > 1
    spilt.clear()
    count_bins(
        private_rows(x), partitions(), Executor(threads=threads, progress=False, max_memory=10**10)
    )
    assert max(spilt) == 0


def test_the_limit_does_not_change_the_release(monkeypatch):
    monkeypatch.setattr(stable, "_FEW_SLOTS", bins.LEAST_SLOTS)
    x = np.random.default_rng(1).normal(size=(30_000, 2))
    grids = [
        BinGrid(width=2e-4, levels=12),
        DyadicBins(),
        ProductBins(grids=[BinGrid(width=0.01)] * 2, columns=(0, 1)),
    ]
    answers = [
        seeded(
            stable_histogram,
            x,
            bins=grids,
            budget=BUDGET,
            threads=2,
            progress=False,
            max_memory=most,
        )
        for most in (None, 8e9, 17e6)
    ]
    assert sum(len(item) for item in answers[0].histograms) > 20
    for answer in answers[1:]:
        assert answer.to_json() == answers[0].to_json()


def calls(rows, **options):
    yield lambda: stable_histogram(rows, bins=BinGrid(width=1.0), **options)
    yield lambda: decode_means(rows, std=1.0, **options)
    yield lambda: decode_gaussians(rows, **options)
    yield lambda: decode_axis_aligned(rows, **options)
    yield lambda: decode_axis_aligned(rows, covariance=[[2.0]], **options)


def test_memory_is_asked_for_before_the_debit_and_is_enough():
    """Neither the rows nor the ledger are touched, and the message says what to pass."""
    log = []
    ledger = SpyLedger(ApproxDP(10, 1e-3), log)
    for values in (np.zeros((100_000, 1)), np.arange(100_000.0)[:, None]):
        for call in calls(
            SpyRows(values, log), budget=BUDGET, ledger=ledger, threads=1, max_memory=3e6
        ):
            with pytest.raises(InputError, match=r"\d+ rows may take") as caught:
                call()
            assert "pass max_memory=" in str(caught.value)
    assert log == []
    # What the message asks for is enough.
    rows = np.arange(100_000.0)[:, None]
    with pytest.raises(InputError) as caught:
        stable_histogram(rows, bins=BinGrid(width=1.0), budget=BUDGET, threads=1, max_memory=1e6)
    needed = int(str(caught.value).split("max_memory=")[1].split()[0])
    assert 3_400_000 <= needed <= 3_400_000 + 12_000_000
    options = {"bins": BinGrid(width=1.0), "budget": BUDGET, "threads": 1, "progress": False}
    seeded(stable_histogram, rows, max_memory=needed, **options)
    with pytest.raises(InputError, match="may take"):
        stable_histogram(rows, max_memory=needed - 1, **options)
    # Dyadic bins are few, however many the rows.
    seeded(stable_histogram, rows, **{**options, "bins": DyadicBins()}, max_memory=needed)


@pytest.mark.parametrize("most", [0, -1.0, np.nan, "1e9", True])
def test_what_is_no_amount_of_memory(most):
    with pytest.raises(InputError, match="max_memory"):
        stable_histogram(np.zeros(10), bins=BinGrid(width=1.0), budget=BUDGET, max_memory=most)


MEASURE = """
    import sys
    import numpy as np
    from fastpubpriv.kernels.bins import BinRule
    from fastpubpriv.mechanisms.stable_histograms import Partition, count_bins, memory_for
    from fastpubpriv.sources.fold import Executor
    from fastpubpriv.sources import private_rows

    def status(name):
        # Not getrusage: its maximum includes that of the process that started this one.
        with open("/proc/self/status") as lines:
            return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))

    n, words, threads = 2_000_000, int(sys.argv[1]), int(sys.argv[2])
    x = np.arange(float(n))[:, None]
    np.random.default_rng(0).shuffle(x)
    partition = [Partition((0,) * words, (BinRule(1.0),) * words)]
    count_bins(private_rows(x[:5000]), partition, Executor(threads=threads, progress=False))
    most = memory_for(partition, n, Executor(threads=threads))
    before = status("VmRSS")
    (found,) = count_bins(private_rows(x), partition, Executor(threads=threads, progress=False, max_memory=most))
    assert len(found[0]) == n
    print(status("VmHWM") - before, most)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.parametrize(("words", "threads"), [(1, 1), (1, 2), (3, 2)])
def test_bins_of_one_row_stay_within_the_limit(words, threads):
    """Two million of them, at the least limit. Rows at work and what any allocator keeps come on top: 8 bytes a row are ample."""
    command = [sys.executable, "-c", textwrap.dedent(MEASURE), str(words), str(threads)]
    out = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=PATIENCE
    ).stdout.split()
    taken = int(out[0])
    most = int(out[1])
    assert taken <= most + 16e6
    assert taken > 0.5 * most  # what is measured is the counting


def test_the_bound_is_what_the_documentation_says():
    one = [Partition((0,), (BinRule(1.0),))]
    passes = Executor(threads=2)
    for n in (10**6, 10**8):
        alone = memory_for(one, n, passes)
        assert 0.99 * 34 * n <= alone <= 34 * n + 2 * 10e6
        assert 0.99 * 16 * n <= memory_for(one * 2, n, passes) - alone <= 16 * n + 2 * 10e6
    assert memory_for([Partition((0,), (BinRule(),))], 10**9, passes) < 30e6
