"""Cells of many columns, counted block by block: costs, noise, memory, and answers that are those of one release of all columns."""

import itertools
import subprocess
import sys
import tracemalloc
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from helpers.errors import raises
from helpers.neighbors import hostile_pairs, pair_at
from robustness.adversary import PATTERNS, Adversary, forcing
from spies import seeded

import fastpubpriv as fpp
from fastpubpriv import session
from fastpubpriv.auditing import record_replay
from fastpubpriv.distributions import support, tuning
from fastpubpriv.estimators import column_means
from fastpubpriv.kernels.rows import cells_apart
from fastpubpriv.mechanisms.cells import SignedCells
from fastpubpriv.privacy.spending import GaussianSpending, LaplaceSpending
from fastpubpriv.release import transcript as transcripts
from fastpubpriv.session import Session
from fastpubpriv.sources.tables import ColumnRows

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
CELLS = "signed dyadic cells"
DIM = 7
EXACT = fpp.ZCDP(1e6)  # as good as no noise
REFINED = fpp.ZCDP(50.0)  # which leaves budget for a second count
every_budget = pytest.mark.parametrize(
    "budget", [fpp.ZCDP(0.5), fpp.ApproxDP(2, 1e-6), fpp.PureDP(4)], ids=["zcdp", "approx", "pure"]
)


def table(n, dim=DIM, seed=0):
    """Columns of units from 1e-6 to 1e6, every third lognormal."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, dim))
    rows[:, ::3] = np.exp(rows[:, ::3])
    return rows * np.geomspace(1e-6, 1e6, dim)


ROWS = table(3_000)
PUBLIC = table(20, seed=1)


def mean_of(rows, budget, public=PUBLIC, **options):
    return seeded(
        fpp.estimate_mean, rows, x_pub=public, budget=budget, threads=1, progress=False, **options
    )


def quantiles_of(rows, budget):
    return seeded(fpp.quantiles, rows, x_pub=PUBLIC, budget=budget, threads=1, progress=False)


def describe_of(rows, budget):
    return seeded(fpp.describe, rows, x_pub=PUBLIC, budget=budget, threads=1, progress=False)


CALLS = {"mean": mean_of, "quantiles": quantiles_of, "describe": describe_of}


def in_blocks(monkeypatch, columns, cells_per_octave=1):
    """Have blocks of so many columns."""
    room = 8 * column_means.HELD * cells_apart({1: 0, 2: 1, 4: 2}[cells_per_octave])
    monkeypatch.setattr(column_means, "BLOCK_BYTES", columns * room)
    monkeypatch.setattr(column_means, "PARSED_BYTES", columns * room)


def recorded(call, *given, **options):
    """Return the result of a call, and its releases."""
    with transcripts.recording() as transcript:
        result = call(*given, **options)
    return result, transcript.calls


def cells_of(calls):
    return [call for call in calls if call.name == CELLS]


def check_costs(monkeypatch, budget):
    """Blocks of 3, 3 and 1 columns cost as much together as one release of all seven, and the call spends its budget."""
    _, (whole, *_) = recorded(mean_of, ROWS, budget)
    notion = fpp.PureDP if isinstance(budget, fpp.PureDP) else fpp.ZCDP
    with monkeypatch.context() as patch:
        in_blocks(patch, 3)
        result, calls = recorded(mean_of, ROWS, budget)
    blocks = cells_of(calls)[:3]
    assert [len(block.answer) for block in blocks] == [3, 3, 1]
    assert sum(block.event.price(notion) for block in blocks) == whole.event.price(notion)
    assert result.spent == budget


@every_budget
def test_the_costs_of_blocks_add_up_to_that_of_one_release(budget, monkeypatch):
    check_costs(monkeypatch, budget)


@every_budget
def test_planted_fault_costs_composed_by_their_maximum_are_caught(budget, monkeypatch):
    """Either each block at the whole cost, or blocks of columns charged as if they were disjoint blocks of rows."""

    def whole(*parts):
        return Fraction(1) if len(parts) == 2 else Fraction(*parts)

    with monkeypatch.context() as patch:
        patch.setattr(column_means, "Fraction", whole)
        with pytest.raises((AssertionError, fpp.BudgetError)):
            check_costs(monkeypatch, budget)
    monkeypatch.setattr(Session, "on", Session.block)
    with pytest.raises(fpp.BudgetError):
        check_costs(monkeypatch, budget)


@pytest.mark.parametrize("spending", [GaussianSpending, LaplaceSpending])
def test_the_noise_of_a_block_is_that_of_all_columns(spending):
    for cost, n, dim in itertools.product(
        (Fraction(1, 10), Fraction(3, 7), Fraction(10**6)), (10, 10**6, 2**35), (7, 1_000, 50_000)
    ):

        def grid_of(columns, share, cost=cost, n=n):
            cells = SignedCells(center=np.zeros(columns), log2_parts=0)
            _, event, unit = cells.priced_query(spending(cost * share), n)
            return event, unit

        joint, unit = grid_of(dim, Fraction(1))
        for columns in (1, 3, dim // 2, dim - 1):
            block, unit_of_block = grid_of(columns, Fraction(columns, dim))
            assert block.log2_scale == joint.log2_scale
            assert unit_of_block == unit
            assert block.price(spending.unit) * dim == joint.price(spending.unit) * columns


class Divided(transcripts.Transcript):
    """Answers each block of columns with its part of the answer of another run, which asked for all columns at once."""

    def __init__(self, there):
        super().__init__()
        self.there = list(there)
        self.done = 0

    def forced(self, name, shape, event, unit):
        answer = self.there[0].answer
        assert name == self.there[0].name
        if name == CELLS:
            first = self.done
            self.done += shape[0]
            if self.done < len(answer):
                return answer[first : self.done].copy()
            answer = answer[first:]
            self.done = 0
        self.there.pop(0)
        return answer.copy()


def check_answers(name, budget, monkeypatch):
    """A call in blocks on other rows, told what the call on all columns at once was told, has its result."""
    whole, calls = recorded(CALLS[name], ROWS, budget)
    in_blocks(monkeypatch, 2)
    other = np.random.default_rng(5).standard_cauchy(ROWS.shape)
    parts = forcing(Divided(calls))(lambda: CALLS[name](other, budget))
    assert len(cells_of(calls)) == 1 + (name == "mean" and budget == REFINED)
    assert len(parts.releases) > len(whole.releases)
    expected = whole.to_dict()
    found = parts.to_dict()
    for each in (expected, found):
        forget_releases(each)
    assert found == expected


@pytest.mark.parametrize("budget", [fpp.ZCDP(0.5), REFINED, fpp.PureDP(4)])
@pytest.mark.parametrize("name", CALLS)
def test_released_numbers_alone_give_the_same_answer_in_blocks(name, budget, monkeypatch):
    """So do the windows that are cut depend on released numbers alone, and hold all that is read."""
    check_answers(name, budget, monkeypatch)


def test_planted_fault_windows_that_are_too_narrow_are_seen(monkeypatch):
    monkeypatch.setattr(tuning, "INSIDE", tuning.INNER - 1)
    with pytest.raises(AssertionError):
        check_answers("mean", fpp.ZCDP(0.5), monkeypatch)


def forget_releases(fields):
    """Remove the record of the releases, of parts of a result too."""
    for key in list(fields):
        if key == "releases":
            del fields[key]
        elif isinstance(fields[key], dict):
            forget_releases(fields[key])


def test_columns_that_keep_nothing_have_only_the_second_counts(monkeypatch):
    """A column whose rows the first counts do not show, and one that is moved: each is pooled with nothing."""
    rows = ROWS.copy()
    rows[:, 1] = 5.0 + 1e-9 * rows[:, 1]  # off its center
    rows[:, 2] = np.nan
    whole, calls = recorded(mean_of, rows, REFINED)
    assert whole.provenance["center"] == "released"
    assert "unresolved" in whole.part_reasons[2]
    assert len(cells_of(calls)) >= 2
    in_blocks(monkeypatch, 2)
    parts = forcing(Divided(calls))(lambda: mean_of(ROWS, REFINED))
    assert np.array_equal(parts.mean, whole.mean)
    assert parts.part_reasons == whole.part_reasons


@pytest.mark.parametrize("missing", ["observed", "neutral"])
def test_without_noise_the_answer_is_that_of_the_rows(missing, monkeypatch):
    rows = ROWS.copy()
    rows[np.random.default_rng(2).random(rows.shape) < 0.05] = np.nan
    in_blocks(monkeypatch, 3, cells_per_octave=4)
    result = mean_of(rows, EXACT, missing=missing)
    if missing == "neutral":
        rows = rows[np.isfinite(rows).all(axis=1)]
    assert len([each for each in result.releases if each["name"] == CELLS]) >= 3
    assert np.all(np.abs(result.mean - np.nanmean(rows, axis=0)) < 0.01 * np.nanstd(rows, axis=0))
    absent = len(ROWS) - np.isfinite(rows).sum(axis=0)
    assert result.report.missing == pytest.approx(absent, abs=1.0)


@every_budget
def test_a_column_has_the_same_answer_in_a_block_within_the_noise(budget, monkeypatch):
    whole = mean_of(ROWS, budget)
    in_blocks(monkeypatch, 1)
    blocks = mean_of(ROWS, budget)
    noise = np.hypot(whole.standard_error, blocks.standard_error)
    assert np.all(np.abs(whole.mean - blocks.mean) < 5.0 * noise)
    assert np.all(whole.mean != blocks.mean)


@every_budget
def test_record_and_replay_in_blocks(budget, monkeypatch):
    in_blocks(monkeypatch, 2)
    rows = table(60, dim=3)

    def run(given):
        return mean_of(given, budget, public=rows[:5].copy())

    hostile = [np.array(row) for row in ([np.nan] * 3, [1e9] * 3, [-1e308, 0.0, 5e-324])]
    for pair in hostile_pairs(rows, 7, hostile):
        record_replay(run, *pair, budget=budget)
    report = record_replay(run, *pair_at(rows, 7, [1e6] * 3, [-1e6] * 3), budget=budget)
    assert report.tightness > 0.5


@pytest.mark.parametrize("pattern", PATTERNS)
def test_any_released_numbers_give_finite_answers_in_blocks(pattern, monkeypatch):
    in_blocks(monkeypatch, 2)
    result = forcing(Adversary(pattern, 0, len(ROWS)))(lambda: mean_of(ROWS, fpp.ZCDP(0.5)))
    assert np.all(np.isfinite(result.mean))


SOURCES = {
    "array": lambda rows: rows,
    "frame": lambda rows: pd.DataFrame(rows, columns=[f"x{j}" for j in range(DIM)]),
    "whole numbers": lambda rows: rows.astype(np.int64),
    "chunks": lambda rows: fpp.Rows.from_chunks(
        lambda: (rows[begin : begin + 700] for begin in range(0, len(rows), 700)),
        n=len(rows),
        dim=DIM,
    ),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", SOURCES)
def test_every_source_has_the_same_bits_in_blocks(name, threads, monkeypatch):
    in_blocks(monkeypatch, 3)
    rows = np.round(ROWS)
    options = {"x_pub": np.round(PUBLIC), "budget": fpp.ZCDP(0.5), "progress": False}
    expected = seeded(fpp.estimate_mean, rows, threads=1, **options)
    found = seeded(fpp.estimate_mean, SOURCES[name](rows), threads=threads, **options)
    assert np.array_equal(found.mean, expected.mean)


def test_a_block_reads_its_own_columns_of_a_frame(monkeypatch):
    in_blocks(monkeypatch, 3)
    read = []
    whole = []
    by_columns = ColumnRows.by_columns
    block = ColumnRows.block

    def some(self, *given):
        columns = by_columns(self, *given)
        read.append(len(columns))
        return columns

    def every(self, *given):
        whole.append(1)
        return block(self, *given)

    monkeypatch.setattr(ColumnRows, "by_columns", some)
    monkeypatch.setattr(ColumnRows, "block", every)
    mean_of(SOURCES["frame"](ROWS), fpp.ZCDP(0.5))
    assert set(read) == {3, 1}
    assert len(whole) == 2  # shells and sum


def test_a_parsed_source_is_read_once_if_its_cells_fit(monkeypatch):
    passes = []

    def chunks():
        passes.append(1)
        yield ROWS

    in_blocks(monkeypatch, 2)
    once = {"n": len(ROWS), "dim": DIM}
    mean_of(fpp.Rows.from_chunks(chunks, **once), fpp.ZCDP(0.5))
    assert len(passes) == 4 + 2  # cells of four blocks, shells, sum
    passes.clear()
    monkeypatch.setattr(column_means, "PARSED_BYTES", 1 << 30)
    mean_of(fpp.Rows.from_chunks(chunks, **once), fpp.ZCDP(0.5))
    assert len(passes) == 1 + 2


def test_a_source_that_changes_between_two_blocks_is_an_error(monkeypatch, tmp_path):
    in_blocks(monkeypatch, 2)
    passes = []

    def chunks():
        passes.append(1)
        yield ROWS[: 3_000 - (len(passes) == 3)]

    changing = fpp.Rows.from_chunks(chunks, n=3_000, dim=DIM)
    ledger = fpp.Ledger(fpp.ZCDP(1))
    raises(fpp.InputError, "n = 3000", mean_of, changing, fpp.ZCDP(0.5), ledger=ledger)
    assert ledger.spent.amounts == fpp.ZCDP(0.5).amounts
    path = tmp_path / "rows.csv"
    names = ",".join(f"x{j}" for j in range(DIM))
    np.savetxt(path, ROWS, delimiter=",", header=names, comments="")
    file = fpp.Rows.from_csv(path)
    released = column_means.SignedCells.release

    def longer(self, *given, **options):
        answer = released(self, *given, **options)
        with path.open("a") as text:
            text.write(names + "\n")
        return answer

    monkeypatch.setattr(column_means.SignedCells, "release", longer)
    raises(fpp.InputError, "changed since it was opened", mean_of, file, fpp.ZCDP(0.5))


def traced(dim, **options):
    """Peak bytes of a mean of so many columns of 40 rows."""
    rows = table(40, dim)
    public = rows[:5].copy()
    tracemalloc.start()
    try:
        mean_of(rows, fpp.ZCDP(0.5), public=public, **options)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_further_column_takes_five_kilobytes_beyond_a_block(monkeypatch):
    in_blocks(monkeypatch, 50)
    traced(60)  # tables that stay
    assert traced(400) - traced(200) < 5_000 * 200


def test_planted_fault_cells_that_are_kept_whole_are_seen(monkeypatch):
    in_blocks(monkeypatch, 50)
    monkeypatch.setattr(support.SignedCounts, "cut", lambda self, *_: self)
    traced(60)
    assert traced(200) - traced(100) > 30_000 * 100


def test_what_is_asked_for_is_enough_in_blocks(monkeypatch):
    in_blocks(monkeypatch, 150)
    asked = []
    monkeypatch.setattr(session, "require_memory", lambda *given: asked.append(given[-1]))
    traced(60)
    taken = traced(400)
    assert asked[-1] / 3.0 < taken <= asked[-1]


PEAK = """
import resource, sys, warnings
import numpy as np
import fastpubpriv as fpp
warnings.simplefilter("ignore")
peak = lambda: 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
n, dim = map(int, sys.argv[1:])
rng = np.random.default_rng(0)
given = {"budget": fpp.ZCDP(1), "threads": 2, "progress": False}
fpp.estimate_mean(rng.standard_normal((50, 3)), x_pub=rng.standard_normal((20, 3)), **given)
x = rng.standard_normal((n, dim))
public = x[:20].copy()
before = peak()
fpp.estimate_mean(x, x_pub=public, **given)
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory of a process in kB")
@pytest.mark.parametrize(
    ("n", "dim", "most"),
    [(2_000, 10_000, 40e6 + 5e3 * 10_000), (100, 50_000, 400e6)],
)
def test_peak_memory_of_many_columns(n, dim, most):
    """Beyond the rows, which stand in memory before."""
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(n), str(dim)], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) <= most
