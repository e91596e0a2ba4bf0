"""`release`: the order of events, the arithmetic of an answer, and the record that a transcript keeps."""

import itertools
import pickle
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from helpers import accounts
from helpers.errors import raises
from releases import release_histograms
from scipy import stats
from spies import SpyLedger

from fastpubpriv import ZCDP, ApproxDP, PureDP
from fastpubpriv.errors import BudgetError, InputError, KernelError, OutOfMemoryError, ReplayError
from fastpubpriv.kernels import noise
from fastpubpriv.kernels.bins import BinRule
from fastpubpriv.keys import KeySource, key_source
from fastpubpriv.mechanisms import stable_histograms as histograms_module
from fastpubpriv.mechanisms.stable_histograms import Partition, coarsen, count_bins
from fastpubpriv.privacy import GaussianEvent, LaplaceEvent, SelectionEvent, StableHistogramEvent
from fastpubpriv.privacy.calibration import stable_event
from fastpubpriv.release import release as release_module
from fastpubpriv.release import transcript as transcripts
from fastpubpriv.release.account import Account
from fastpubpriv.release.release import release, release_choice, release_stable
from fastpubpriv.sources import private_rows
from fastpubpriv.sources.fold import Executor

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
RHO_1 = ZCDP(1)
GAUSS = GaussianEvent(4 * 100**2, 10, 3)  # rho = 0.019
LAPLACE = LaplaceEvent(100, 10, 3)


def ask(account, query, event=GAUSS, *, shape=(3,), unit=0.25, name="answer"):
    return release(account, name=name, query=query, shape=shape, event=event, unit=unit)


def opened(budget=RHO_1, **options):
    return accounts.opened(budget, draws=100, **options)


def zeros():
    return np.zeros(3, dtype=np.int64)


# The doors of `release`, each with a budget and a query that it takes.
CHOICE = SelectionEvent(epsilon=Fraction(1, 2), sensitivity=1, candidates=3)
STABLE = StableHistogramEvent("laplace", 1, 128, 10 * 128, 8, 1, 20)
DOORS = {
    "noise": (RHO_1, ask, zeros),
    "choice": (
        RHO_1,
        lambda account, query: release_choice(account, name="x", query=query, event=CHOICE),
        zeros,
    ),
    "bins": (
        ApproxDP(1, Fraction(1, 100)),
        lambda account, query: release_stable(
            account, name="x", query=query, event=STABLE, slots=(20,), threads=1
        ),
        lambda: [table([5])],
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_debit_then_query_then_key(door):
    log, (budget, asked, answer) = [], DOORS[door]
    account = Account("test", budget, draws=100, ledger=SpyLedger(budget, log))

    class Keys(KeySource):
        def check(self):
            log.append("check")

        def fresh(self):
            log.append("key")
            return super().fresh()

    account.book.keys = Keys(None)

    def query():
        log.append("query")
        return answer()

    raises(BudgetError, "before the budget was debited", asked, account, unreachable)
    account.open()
    asked(account, query)
    assert log == ["check", "debit", "query", "key"]


def unreachable():
    raise RuntimeError("the query must not be called")


def test_over_budget_is_refused_before_reading():
    account = opened(ZCDP(GAUSS.rho * 2))
    ask(account, zeros)
    ask(account, zeros)  # fills the budget exactly
    raises(BudgetError, "exceed the budget", ask, account, unreachable)
    with pytest.raises(BudgetError, match="exceed the budget"):
        ask(account, unreachable, GaussianEvent(1, 40, 3))  # the least that can be asked


def test_nothing_is_refunded_when_the_query_fails():
    log = []
    ledger = SpyLedger(ZCDP(1), log)
    account = opened(ZCDP(GAUSS.rho), ledger=ledger)

    def failing():
        raise KernelError("as if the disk were gone")

    raises(KernelError, None, ask, account, failing)
    raises(BudgetError, None, ask, account, unreachable)
    assert ledger.spent.amounts == (GAUSS.rho,)
    assert log == ["debit"]


@pytest.mark.parametrize("door", ["noise", "choice"])
@pytest.mark.parametrize(
    ("query", "problem"),
    [
        (lambda: np.zeros(3), "float answer"),
        (lambda: np.zeros(4, dtype=np.int64), "length"),
        (lambda: np.zeros((3, 1), dtype=np.int64), "shape"),
        (lambda: [0, 0, 0], "list"),
        (lambda: np.zeros(3, dtype=np.int32), "int32"),
    ],
)
def test_a_query_that_is_not_the_declared_integers_is_refused(door, query, problem):
    budget, asked, _ = DOORS[door]
    raises(KernelError, "int64 array of shape", asked, opened(budget), query)


def test_an_event_that_counts_too_few_draws_is_refused_before_reading():
    raises(KernelError, "draws", ask, opened(), unreachable, GaussianEvent(4, 10, 1))


@pytest.mark.parametrize(
    ("event", "budget", "draw", "half"),
    [
        (GAUSS, ZCDP(1), lambda key: noise.gaussian_floor(key, 3, 10), 0.5),
        (LAPLACE, PureDP(1), lambda key: noise.discrete_laplace(key, 3, 10), 0.0),
    ],
)
def test_answer_is_integers_plus_noise_plus_half_a_step(event, budget, draw, half):
    key = key_source(11).fresh()
    query = np.array([5, -(2**40), 0], dtype=np.int64)
    answer = ask(opened(budget, random_state=11), lambda: query, event, unit=0.125)
    assert np.array_equal(answer, ((query + draw(key)) + half) * 0.125)
    assert answer.dtype == np.float64


def test_sums_wrap_around_silently():
    key = key_source(2).fresh()
    edge = np.array([2**63 - 1, -(2**63), 2**63 - 5], dtype=np.int64)
    with np.errstate(all="raise"):
        answer = ask(opened(random_state=2), lambda: edge, unit=1.0)
    wrapped = [
        (int(a) + int(b) + 2**63) % 2**64 - 2**63
        for a, b in zip(edge, noise.gaussian_floor(key, 3, 10), strict=True)
    ]
    assert answer.tolist() == [float(w) + 0.5 for w in wrapped]


def test_transcripts_record_what_was_asked_with_fresh_keys():
    account = opened()
    assert len({ask(account, zeros, GaussianEvent(4, 40, 3)).tobytes() for _ in range(20)}) == 20
    # Tap records what was asked and answered.
    query = np.array([1, 2, 3], dtype=np.int64)
    assert transcripts.current() is None
    with transcripts.recording() as transcript:
        answer = ask(opened(), lambda: query, name="first")
        ask(opened(PureDP(1)), zeros, LAPLACE, name="second")
    assert transcripts.current() is None
    first, second = transcript.calls
    assert first.name == "first"
    assert first.event == GAUSS
    assert first.unit == 0.25
    assert first.query.tolist() == [1, 2, 3]
    assert np.array_equal(first.answer, answer)
    assert second.name == "second"
    assert second.event == LAPLACE
    recorded = first.answer.copy()
    answer += 1.0  # an estimator may work in place; the record stays
    assert np.array_equal(first.answer, recorded)
    # Tap is closed by an exception and shows no integers.
    seen = []

    def run():
        with transcripts.recording() as transcript:
            seen.append(transcript)
            ask(opened(), lambda: np.full(3, 123456789, dtype=np.int64))
            ask(opened(), lambda: np.zeros(1))

    raises(KernelError, None, run)
    (transcript,) = seen
    assert transcripts.current() is None
    assert "ReleaseRecord" not in repr(transcript)
    raises(TypeError, "private integers", pickle.dumps, transcript)


def test_replay_forces_answers_and_refuses_another_course():
    with transcripts.recording() as recorded:
        first = ask(opened(), zeros)
    with transcripts.recording(script=recorded.calls):
        again = ask(opened(), lambda: np.full(3, 9, dtype=np.int64))
        again_bytes = again.tobytes()
        again += 1.0
        raises(ReplayError, "no counterpart", ask, opened(), zeros)
    assert again_bytes == first.tobytes() == recorded.calls[0].answer.tobytes()
    with (
        transcripts.recording(script=recorded.calls),
        pytest.raises(ReplayError, match="recorded was"),
    ):
        ask(opened(), zeros, name="other")
    with (
        transcripts.recording(script=recorded.calls),
        pytest.raises(ReplayError, match="recorded was"),
    ):
        ask(opened(), lambda: np.zeros((3, 1), dtype=np.int64), shape=(3, 1))


SHAPE = "Unable to allocate 7.5 GiB for an array with shape (12345678, 81)"


class Failing(Sequence):
    """Histograms that fail when they are made."""

    def __init__(self, error):
        self.error = error

    def __len__(self):
        return 1

    def __getitem__(self, number):
        raise self.error


def fail(error):
    raise error


@pytest.mark.parametrize("name", [*DOORS, "bins, one by one"])
@pytest.mark.parametrize(
    "error",
    [MemoryError(SHAPE), ValueError(SHAPE), ZeroDivisionError(SHAPE), KernelError("status")],
)
def test_a_query_that_fails_outside_of_a_pass_says_nothing(name, error):
    """What a query makes of a pass's answer, such as scores, has shapes and values that may be private."""
    budget, asked, _ = DOORS[name.split(",")[0]]
    account = opened(budget)
    kind = {MemoryError: OutOfMemoryError, KernelError: KernelError}.get(type(error), InputError)
    with pytest.raises(kind) as caught:
        asked(account, lambda: Failing(error) if "one by one" in name else fail(error))
    assert type(caught.value) is kind
    assert "12345678" not in repr(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert len(account.events) == 1  # paid for, and not given back


# ---- `release_stable`: order of events, the integer threshold, the slots of noise, and what a transcript keeps; blocks of rows.
BUDGET = ApproxDP(1, 1e-2)
EVENT = StableHistogramEvent("laplace", 1, 128, 8 * 128, 8, Fraction(1, 1), draws=20)
EXECUTOR = Executor(threads=1, progress=False)


def opened_of_stable(budget=BUDGET, draws=10_000, **options):
    return accounts.opened(budget, draws, **options)


def table(counts, first=0):
    counts = np.array(counts, dtype=np.int64)
    return np.arange(first, first + len(counts))[:, None], counts


def ask_of_stable(account, counts, event=EVENT, slots=(20,), name="bins"):
    return release_stable(
        account, name=name, query=lambda: [table(counts)], event=event, slots=slots
    )


def small(account=None, **changes):
    """An event that a budget of (1, 0.01) pays for."""
    fields = {
        "law": "laplace",
        "histograms": 1,
        "step": 128,
        "threshold": 10 * 128,
        "log2_scale": 8,
        "epsilon": 1,
        "draws": 20,
    }
    return StableHistogramEvent(**{**fields, **changes})


def test_charged_by_basic_composition():
    half = stable_event(Fraction(1, 2), Fraction(1, 250), histograms=1, n=100, draws=20)
    account = opened_of_stable()
    ask_of_stable(account, [3], half)
    ask_of_stable(account, [3], half)
    assert account.approx_left[0] < Fraction(1, 10**6)
    raises(BudgetError, "exceed the budget", ask_of_stable, account, [3], half)
    # delta alone is enough to refuse.
    account = opened_of_stable(ApproxDP(10, 1e-3))
    raises(BudgetError, "exceed the budget", ask_of_stable, account, [3], small(threshold=5 * 128))


@pytest.mark.parametrize("budget", [ZCDP(10), PureDP(10)])
def test_a_notion_without_a_delta_is_refused(budget):
    raises(BudgetError, "pass ApproxDP", ask_of_stable, opened_of_stable(budget), [3], small())


def test_not_together_with_gaussian_releases():
    gaussian = GaussianEvent(4, 20, 1)
    account = opened_of_stable()
    account.charge(gaussian)
    raises(BudgetError, "two accounts", account.charge, small())
    account = opened_of_stable()
    account.charge(small())
    raises(BudgetError, "two accounts", account.charge, gaussian)


def test_the_noise_and_the_threshold():
    """Answers are the integers of the reference computation, for both laws, with the comparison before the half step."""
    counts = np.arange(1, 3001)
    for law, draw in (("laplace", noise.discrete_laplace), ("gaussian", noise.gaussian_floor)):
        noisy = 3 * counts + draw(key_source(3).fresh(), 5000, 8)[:3000]
        edge = int(np.sort(noisy[noisy > 500])[50])
        event = StableHistogramEvent(law, 1, 3, edge, 8, Fraction(40), draws=5000)
        account = opened_of_stable(ApproxDP(40, 0.999), random_state=3)
        ((keys, values),) = release_stable(
            account, name="x", query=lambda: [table(counts)], event=event, slots=(5000,)
        )
        above = noisy >= edge
        assert keys[:, 0].tolist() == np.flatnonzero(above).tolist()
        np.testing.assert_array_equal(
            values, (noisy[above] + (0.5 if law == "gaussian" else 0.0)) / 3
        )
        # A bin exactly at the threshold is released.
        assert keys[np.argmin(values), 0] in np.flatnonzero(noisy == edge)


def spied_draws(monkeypatch):
    drawn = []
    original = noise.discrete_laplace

    def spy(key, count, scale, *, begin=0):
        drawn.append((begin, count))
        return original(key, count, scale, begin=begin)

    monkeypatch.setattr(release_module.noise, "discrete_laplace", spy)
    monkeypatch.setattr(release_module, "_PIECE", 2048)
    return drawn


def test_as_many_draws_whatever_the_data_when_all_slots_are_asked_for(monkeypatch):
    drawn = spied_draws(monkeypatch)
    seen = []
    for counts in ([], [1], np.ones(5000, dtype=np.int64)):
        drawn.clear()
        event = small(histograms=2, draws=9000, threshold=12 * 128, step=64)
        release_stable(
            opened_of_stable(draws=10**5),
            name="x",
            query=lambda c=counts: [table(c), table([])],
            event=event,
            slots=(5000, 4000),
            pad_all=True,
        )
        seen.append(sorted(drawn))
    assert seen[0] == seen[1] == seen[2]
    assert sum(count for _, count in drawn) == 9000
    assert all(
        first + count <= second for (first, count), (second, _) in itertools.pairwise(seen[0])
    )


@pytest.mark.parametrize("occupied", [0, 1, 1024, 1025, 3000, 4096, 4097, 5000])
def test_noise_for_occupied_bins_only_gives_the_same_answer(monkeypatch, occupied):
    """Padded to a power of two, never more than the slots; every released bit as when all slots are drawn."""
    drawn = spied_draws(monkeypatch)
    counts = np.random.default_rng(occupied).integers(1, 50, occupied)
    answers = []
    sizes = []
    for pad_all in (True, False):
        drawn.clear()
        event = small(histograms=2, draws=9000, threshold=12 * 128, step=64)
        released = release_stable(
            opened_of_stable(draws=10**5, random_state=4),
            name="x",
            query=lambda: [table(counts), table([900])],
            event=event,
            slots=(5000, 4000),
            pad_all=pad_all,
        )
        answers.append([(keys.tolist(), values.tolist()) for keys, values in released])
        sizes.append(sum(count for _, count in drawn))
    assert answers[0] == answers[1]
    expected = {
        0: 1024,
        1: 1024,
        1024: 1024,
        1025: 2048,
        3000: 4096,
        4096: 4096,
        4097: 5000,
        5000: 5000,
    }[occupied]
    assert sizes == [9000, expected + 1024]


def test_empty_bins_and_queries_of_the_wrong_form():
    released = ask_of_stable(
        opened_of_stable(ApproxDP(2, 0.5)), [0 + 1000, 1000], small(threshold=129)
    )
    assert released[0][0][:, 0].tolist() == [0, 1]
    assert (
        len(ask_of_stable(opened_of_stable(ApproxDP(2, 0.5)), [], small(threshold=129))[0][0]) == 0
    )
    wrong = [
        [(np.zeros((2, 1)), np.ones(2, dtype=np.int64))],
        [(np.zeros((2, 1), dtype=np.int64), np.ones(2))],
        [(np.zeros((2, 1), dtype=np.int64), np.ones(3, dtype=np.int64))],
        [table(np.ones(21, dtype=np.int64))],
    ]
    for query in wrong:
        with pytest.raises(KernelError, match="at most one for each slot"):
            release_stable(
                opened_of_stable(), name="x", query=lambda q=query: q, event=small(), slots=(20,)
            )
    raises(
        KernelError, "do not add up", ask_of_stable, opened_of_stable(), [1], small(), slots=(19,)
    )


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_tap_records_and_forces(law):
    event = small(law=law, histograms=2, draws=40, step=20, threshold=2000)

    def both(counts):
        return release_stable(
            opened_of_stable(),
            name="x",
            query=lambda: [table(counts), table([90, 150], -7)],
            event=event,
            slots=(20, 20),
        )

    with transcripts.recording() as recorded:
        first = both([300, 300, 2])
    with transcripts.recording(script=recorded.calls) as replayed:
        second = both([299, 300, 2, 1])
    for (keys, values), (again, forced) in zip(first, second, strict=True):
        np.testing.assert_array_equal(keys, again)
        np.testing.assert_array_equal(values, forced)
    assert recorded.calls[0].public_shape == replayed.calls[0].public_shape == (2,)
    assert recorded.calls[0].query.tolist() == [
        [0, 300, 0],
        [0, 300, 1],
        [0, 2, 2],
        [1, 90, -7],
        [1, 150, -6],
    ]
    with (
        transcripts.recording(script=recorded.calls),
        pytest.raises(ReplayError, match="recorded was"),
    ):
        release_stable(
            opened_of_stable(),
            name="y",
            query=lambda: [table([]), table([])],
            event=event,
            slots=(20, 20),
        )


@pytest.mark.statistical
@pytest.mark.fresh_keys(false_alarms=1e-8)
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_singletons_show_at_their_rate(law):
    """SAFETY 3.5: bins of one row among millions of draws. Two-sided false-alarm rate 1e-9; 5 % off is caught."""
    n = 4_000_000
    event = StableHistogramEvent(
        law, 1, 128, 128 + (1200 if law == "laplace" else 560), 8, Fraction(30), draws=n
    )
    shown = 0
    for _ in range(5):
        ((keys, values),) = release_stable(
            opened_of_stable(ApproxDP(30, 0.999), draws=n),
            name="x",
            query=lambda: [table(np.ones(n, dtype=np.int64))],
            event=event,
            slots=(n,),
        )
        shown += len(keys)
        assert values.min() >= event.count_threshold
    rate = event.singleton_rate
    assert 0.003 < rate < 0.02
    assert stats.binomtest(shown, 5 * n, rate).pvalue > 1e-9
    assert stats.binomtest(shown, 5 * n, rate * 1.05).pvalue < 1e-9


def rows_of(n=3000, dim=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, dim)) * 3.0


def test_partitions_levels_and_labels_are_counted_as_defined():
    x = rows_of()
    x[5] = np.nan
    x[6, 1] = np.inf
    plain = Partition((1,), (BinRule(0.25),), levels=(0, 1, 3))
    product = Partition((0, 2), (BinRule(1.0), BinRule()), levels=(0,))
    labeled = Partition(
        (2,),
        (BinRule(0.5),),
        levels=(0, 2),
        labels=lambda part: (part[:, 0] > 0).astype(np.int64) - (part[:, 0] < -3),
    )
    found = count_bins(private_rows(x), [plain, product, labeled], EXECUTOR)
    for partition, (keys, counts) in zip((plain, product, labeled), found, strict=True):
        parts = []
        if partition.labels is not None:
            parts.append(partition.labels(x))
        from twins import bins as reference

        parts += [
            reference.bins_keys(x[:, c], r)
            for c, r in zip(partition.columns, partition.rules, strict=True)
        ]
        usable = np.all([part != reference.NONE for part in parts], axis=0)
        if partition.labels is not None:
            usable &= parts[0] >= 0
        for level in partition.levels:
            shifted = [
                p if i == 0 and partition.labels is not None else p // 2**level
                for i, p in enumerate(parts)
            ]
            expected = np.unique(np.column_stack(shifted)[usable], axis=0, return_counts=True)
            wide = coarsen(keys, counts, level, partition)
            np.testing.assert_array_equal(wide[0], expected[0])
            np.testing.assert_array_equal(wide[1], expected[1])


@pytest.mark.parametrize("order", [(0, 1, 2, 5, 9), (5, 0, 9, 0, 1), (9, 9, 0)])
def test_each_level_is_the_same_whichever_was_asked_for_before(order):
    partition = Partition((0,), (BinRule(0.01),), levels=(0, 1, 2, 5, 9))
    found = count_bins(private_rows(rows_of(5000, 1)), [partition], EXECUTOR)
    levels = histograms_module._Histograms(found, [replace(partition, levels=order)])
    for (keys, counts), level in zip(levels, order, strict=True):
        expected = coarsen(*found[0], level, partition)
        np.testing.assert_array_equal(keys, expected[0])
        np.testing.assert_array_equal(counts, expected[1])


def test_refused_partitions():
    rows = private_rows(rows_of())
    raises(
        InputError,
        "at least one",
        release_histograms,
        opened_of_stable(),
        rows,
        [],
        name="h",
        executor=EXECUTOR,
    )
    with pytest.raises(InputError, match="outside"):
        release_histograms(
            opened_of_stable(),
            rows,
            [Partition((3,), (BinRule(1.0),))],
            name="h",
            executor=EXECUTOR,
        )
    for columns, rules, levels in (
        ((), (), (0,)),
        ((0,), (), (0,)),
        ((0,), (BinRule(1.0),), ()),
        ((0,), (BinRule(1.0),), (55,)),
        ((0,), (BinRule(),), (0, 1)),
    ):
        raises(InputError, None, Partition, columns, rules, levels)


def test_blocks_have_the_whole_budget_each():
    whole = stable_event(1, Fraction(1, 101), histograms=1, n=100, draws=20)
    account = opened_of_stable()
    first = account.block()
    second = account.block()
    for block in (first, second):
        ask_of_stable(block, [3], whole)
        raises(BudgetError, "exceed the budget", ask_of_stable, block, [3], whole)
    raises(BudgetError, "split into blocks", ask_of_stable, account, [3], whole)
    assert first.path == (0,)
    assert second.path == (1,)
    assert account.numerics()["noise_draws"] == 40
    assert first.block is not None
    nested = opened_of_stable().block()
    assert nested.block().path == (0, 0)
    raises(BudgetError, "split into blocks", ask_of_stable, nested, [3], whole)


def test_blocks_and_trees_exclude_what_was_released_before():
    account = Account("test", BUDGET, draws=100)
    raises(BudgetError, "before the budget", account.block)
    account.open()
    ask_of_stable(account, [3], small())
    raises(BudgetError, "cannot be split", account.block)
    gaussian = opened_of_stable(ZCDP(1))
    gaussian.charge(GaussianEvent(4, 20, 1))
    raises(BudgetError, "cannot be split", gaussian.block)
    # No tree beside blocks or composed releases.
    account = opened_of_stable(ZCDP(1))
    block = account.block()
    raises(BudgetError, "tree", account.tree, Fraction(1, 2), 2)
    assert block.tree(Fraction(1, 2), 2) is not None
    account = opened_of_stable()
    ask_of_stable(account, [3], small())
    raises(BudgetError, "tree", account.tree, account.allowance / 2, 2)


def test_blocks_under_zcdp_and_pure_budgets():
    event = GaussianEvent(4 * 64**2, 8, 5)  # rho = 1/8
    account = opened_of_stable(ZCDP(Fraction(1, 8)))
    for block in (account.block(), account.block()):
        block.charge(event)
        raises(BudgetError, "exceed", block.charge, event)
    pure = opened_of_stable(PureDP(Fraction(1, 4) + Fraction(1, 2**40)))
    for block in (pure.block(), pure.block()):
        block.charge(LaplaceEvent(64, 8, 5))
    chosen = opened_of_stable(BUDGET)
    block = chosen.block()
    block.charge(SelectionEvent(epsilon=Fraction(1, 2), sensitivity=1, candidates=3))
    block.charge(stable_event(Fraction(1, 2), Fraction(1, 200), histograms=1, n=9, draws=9))
    assert chosen.spent() == BUDGET
