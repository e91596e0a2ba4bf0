"""`release_stable`: order of events, the integer threshold, the slots of noise, and what a transcript keeps; blocks of rows."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from helpers import accounts
from releases import release_histograms
from scipy import stats
from spies import SpyLedger

from fastpubpriv.errors import BudgetError, InputError, KernelError, ReplayError
from fastpubpriv.kernels import noise
from fastpubpriv.kernels.bins import BinRule
from fastpubpriv.keys import key_source
from fastpubpriv.mechanisms import histograms as histograms_module
from fastpubpriv.mechanisms.histograms import Partition, coarsen, count_bins
from fastpubpriv.privacy import (
    ZCDP,
    ApproxDP,
    GaussianEvent,
    LaplaceEvent,
    PureDP,
    SelectionEvent,
    StableHistogramEvent,
    stable_event,
)
from fastpubpriv.release import release as release_module
from fastpubpriv.release import transcript as transcripts
from fastpubpriv.release.account import Account
from fastpubpriv.release.release import release_stable
from fastpubpriv.sources import private_rows
from fastpubpriv.sources.fold import Executor

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")

BUDGET = ApproxDP(1, 1e-2)
EVENT = StableHistogramEvent("laplace", 1, 128, 8 * 128, 8, Fraction(1, 1), draws=20)
EXECUTOR = Executor(threads=1, progress=False)


def opened(budget=BUDGET, draws=10_000, **options):
    return accounts.opened(budget, draws, **options)


def table(counts, first=0):
    counts = np.array(counts, dtype=np.int64)
    return np.arange(first, first + len(counts))[:, None], counts


def ask(account, counts, event=EVENT, slots=(20,), name="bins"):
    return release_stable(account, name=name, query=lambda: [table(counts)], event=event, slots=slots)


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


def test_debit_then_query():
    log = []
    account = Account("test", BUDGET, draws=100, ledger=SpyLedger(BUDGET, log))

    def query():
        log.append("query")
        return [table([5])]

    with pytest.raises(BudgetError, match="before the budget"):
        release_stable(account, name="bins", query=query, event=small(), slots=(20,))
    account.open()
    release_stable(account, name="bins", query=query, event=small(), slots=(20,))
    assert log == ["debit", "query"]


def test_charged_by_basic_composition():
    half = stable_event(Fraction(1, 2), Fraction(1, 250), histograms=1, n=100, draws=20)
    account = opened()
    ask(account, [3], half)
    ask(account, [3], half)
    assert account.approx_left[0] < Fraction(1, 10**6)
    with pytest.raises(BudgetError, match="exceed the budget"):
        ask(account, [3], half)
    # delta alone is enough to refuse.
    account = opened(ApproxDP(10, 1e-3))
    with pytest.raises(BudgetError, match="exceed the budget"):
        ask(account, [3], small(threshold=5 * 128))


@pytest.mark.parametrize("budget", [ZCDP(10), PureDP(10)])
def test_a_notion_without_a_delta_is_refused(budget):
    with pytest.raises(BudgetError, match="pass ApproxDP"):
        ask(opened(budget), [3], small())


def test_not_together_with_gaussian_releases():
    gaussian = GaussianEvent(4, 20, 1)
    account = opened()
    account.charge(gaussian)
    with pytest.raises(BudgetError, match="two accounts"):
        account.charge(small())
    account = opened()
    account.charge(small())
    with pytest.raises(BudgetError, match="two accounts"):
        account.charge(gaussian)


def test_more_draws_than_announced_are_refused():
    with pytest.raises(BudgetError, match="more noise is drawn"):
        ask(opened(draws=19), [3], small())


def test_the_noise_and_the_threshold():
    """Answers are the integers of the reference computation, for both laws, with the comparison before the half step."""
    counts = np.arange(1, 3001)
    for law, draw in (("laplace", noise.discrete_laplace), ("gaussian", noise.gaussian_floor)):
        noisy = 3 * counts + draw(key_source(3).fresh(), 5000, 8)[:3000]
        edge = int(np.sort(noisy[noisy > 500])[50])
        event = StableHistogramEvent(law, 1, 3, edge, 8, Fraction(40), draws=5000)
        account = opened(ApproxDP(40, 0.999), random_state=3)
        ((keys, values),) = release_stable(account, name="x", query=lambda: [table(counts)], event=event, slots=(5000,))
        above = noisy >= edge
        assert keys[:, 0].tolist() == np.flatnonzero(above).tolist()
        np.testing.assert_array_equal(values, (noisy[above] + (0.5 if law == "gaussian" else 0.0)) / 3)
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
            opened(draws=10**5), name="x", query=lambda c=counts: [table(c), table([])], event=event, slots=(5000, 4000),
            pad_all=True,
        )  # fmt: skip
        seen.append(sorted(drawn))
    assert seen[0] == seen[1] == seen[2]
    assert sum(count for _, count in drawn) == 9000
    assert all(first + count <= second for (first, count), (second, _) in itertools.pairwise(seen[0]))


@pytest.mark.parametrize("occupied", [0, 1, 1024, 1025, 3000, 4096, 4097, 5000])
def test_noise_for_occupied_bins_only_gives_the_same_answer(monkeypatch, occupied):
    """Padded to a power of two, never more than the slots; every released bit as when all slots are drawn."""
    drawn = spied_draws(monkeypatch)
    counts = np.random.default_rng(occupied).integers(1, 50, occupied)
    answers, sizes = [], []
    for pad_all in (True, False):
        drawn.clear()
        event = small(histograms=2, draws=9000, threshold=12 * 128, step=64)
        released = release_stable(
            opened(draws=10**5, random_state=4), name="x", query=lambda: [table(counts), table([900])], event=event,
            slots=(5000, 4000), pad_all=pad_all,
        )  # fmt: skip
        answers.append([(keys.tolist(), values.tolist()) for keys, values in released])
        sizes.append(sum(count for _, count in drawn))
    assert answers[0] == answers[1]
    expected = {0: 1024, 1: 1024, 1024: 1024, 1025: 2048, 3000: 4096, 4096: 4096, 4097: 5000, 5000: 5000}[occupied]
    assert sizes == [9000, expected + 1024]


def test_an_empty_bin_is_never_released_and_a_large_one_always():
    released = ask(opened(ApproxDP(2, 0.5)), [0 + 1000, 1000], small(threshold=129))
    assert released[0][0][:, 0].tolist() == [0, 1]
    assert len(ask(opened(ApproxDP(2, 0.5)), [], small(threshold=129))[0][0]) == 0


def test_a_query_of_the_wrong_form_is_a_bug():
    wrong = [
        [(np.zeros((2, 1)), np.ones(2, dtype=np.int64))],
        [(np.zeros((2, 1), dtype=np.int64), np.ones(2))],
        [(np.zeros((2, 1), dtype=np.int64), np.ones(3, dtype=np.int64))],
        [table(np.ones(21, dtype=np.int64))],
    ]
    for query in wrong:
        with pytest.raises(KernelError, match="at most one for each slot"):
            release_stable(opened(), name="x", query=lambda q=query: q, event=small(), slots=(20,))
    with pytest.raises(KernelError, match="do not add up"):
        ask(opened(), [1], small(), slots=(19,))


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_tap_records_and_forces(law):
    event = small(law=law, histograms=2, draws=40, step=20, threshold=2000)

    def both(counts):
        return release_stable(
            opened(), name="x", query=lambda: [table(counts), table([90, 150], -7)], event=event, slots=(20, 20)
        )

    with transcripts.recording() as recorded:
        first = both([300, 300, 2])
    with transcripts.recording(script=recorded.calls) as replayed:
        second = both([299, 300, 2, 1])
    for (keys, values), (again, forced) in zip(first, second, strict=True):
        np.testing.assert_array_equal(keys, again)
        np.testing.assert_array_equal(values, forced)
    assert recorded.calls[0].public_shape == replayed.calls[0].public_shape == (2,)
    assert recorded.calls[0].query.tolist() == [[0, 300, 0], [0, 300, 1], [0, 2, 2], [1, 90, -7], [1, 150, -6]]
    with transcripts.recording(script=recorded.calls), pytest.raises(ReplayError, match="recorded was"):
        release_stable(opened(), name="y", query=lambda: [table([]), table([])], event=event, slots=(20, 20))


@pytest.mark.statistical
@pytest.mark.fresh_keys(false_alarms=1e-8)
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_singletons_show_at_their_rate(law):
    """SAFETY 3.5: bins of one row among millions of draws. Two-sided false-alarm rate 1e-9; 5 % off is caught."""
    n = 4_000_000
    event = StableHistogramEvent(law, 1, 128, 128 + (1200 if law == "laplace" else 560), 8, Fraction(30), draws=n)
    shown = 0
    for _ in range(5):
        ((keys, values),) = release_stable(
            opened(ApproxDP(30, 0.999), draws=n),
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


# ---- many histograms of rows


def rows_of(n=3000, dim=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, dim)) * 3.0


def test_partitions_levels_and_labels_are_counted_as_defined():
    x = rows_of()
    x[5], x[6, 1] = np.nan, np.inf
    plain = Partition((1,), (BinRule(0.25),), levels=(0, 1, 3))
    product = Partition((0, 2), (BinRule(1.0), BinRule()), levels=(0,))
    labelled = Partition(
        (2,), (BinRule(0.5),), levels=(0, 2), labels=lambda part: (part[:, 0] > 0).astype(np.int64) - (part[:, 0] < -3)
    )
    found = count_bins(private_rows(x), [plain, product, labelled], EXECUTOR)
    for partition, (keys, counts) in zip((plain, product, labelled), found, strict=True):
        parts = []
        if partition.labels is not None:
            parts.append(partition.labels(x))
        from twins import bins as reference

        parts += [reference.bins_keys(x[:, c], r) for c, r in zip(partition.columns, partition.rules, strict=True)]
        usable = np.all([part != reference.NONE for part in parts], axis=0)
        if partition.labels is not None:
            usable &= parts[0] >= 0
        for level in partition.levels:
            shifted = [p if i == 0 and partition.labels is not None else p // 2**level for i, p in enumerate(parts)]
            expected = np.unique(np.column_stack(shifted)[usable], axis=0, return_counts=True)
            wide = coarsen(keys, counts, level, partition)
            np.testing.assert_array_equal(wide[0], expected[0])
            np.testing.assert_array_equal(wide[1], expected[1])


@pytest.mark.parametrize("order", [(0, 1, 2, 5, 9), (5, 0, 9, 0, 1), (9, 9, 0)])
def test_each_level_is_the_same_whichever_was_asked_for_before(order):
    partition = Partition((0,), (BinRule(0.01),), levels=(0, 1, 2, 5, 9))
    found = count_bins(private_rows(rows_of(5000, 1)), [partition], EXECUTOR)
    levels = histograms_module._Histograms(found, [(0, level) for level in order], [partition])
    for number, level in enumerate(order):
        keys, counts = levels[number]
        expected = coarsen(*found[0], level, partition)
        np.testing.assert_array_equal(keys, expected[0])
        np.testing.assert_array_equal(counts, expected[1])


def test_release_of_many_histograms():
    x = rows_of()
    account = opened(ApproxDP(1, 1e-6), draws=10**6)
    partitions = [Partition((0,), (BinRule(1.0),), levels=(0, 2)), Partition((1,), (BinRule(),))]
    released = release_histograms(account, private_rows(x), partitions, name="h", executor=EXECUTOR)
    assert [(item.partition, item.level) for item in released.histograms] == [(0, 0), (0, 2), (1, 0)]
    assert released.event.histograms == 3
    assert released.event.draws == 3000 + 3000 + 2099
    for item in released.histograms:
        assert (np.diff(item.keys[:, 0]) > 0).all()
        assert (item.counts >= released.threshold).all()
    exact = dict(zip(*np.unique(np.ceil(x[:, 0] - 0.5), return_counts=True), strict=True))
    first = released.histograms[0]
    for key, count in zip(first.keys[:, 0].tolist(), first.counts.tolist(), strict=True):
        assert abs(count - exact[key]) < 9 * released.noise_std


def test_refused_partitions():
    rows = private_rows(rows_of())
    with pytest.raises(InputError, match="at least one"):
        release_histograms(opened(), rows, [], name="h", executor=EXECUTOR)
    with pytest.raises(InputError, match="outside"):
        release_histograms(opened(), rows, [Partition((3,), (BinRule(1.0),))], name="h", executor=EXECUTOR)
    for columns, rules, levels in (
        ((), (), (0,)),
        ((0,), (), (0,)),
        ((0,), (BinRule(1.0),), ()),
        ((0,), (BinRule(1.0),), (55,)),
        ((0,), (BinRule(),), (0, 1)),
    ):
        with pytest.raises(InputError):
            Partition(columns, rules, levels)


# ---- blocks


def test_blocks_have_the_whole_budget_each():
    whole = stable_event(1, Fraction(1, 101), histograms=1, n=100, draws=20)
    account = opened()
    first, second = account.block(), account.block()
    for block in (first, second):
        ask(block, [3], whole)
        with pytest.raises(BudgetError, match="exceed the budget"):
            ask(block, [3], whole)
    with pytest.raises(BudgetError, match="split into blocks"):
        ask(account, [3], whole)
    assert first.path == (0,)
    assert second.path == (1,)
    assert account.numerics()["noise_draws"] == 40
    assert first.block is not None
    nested = opened().block()
    assert nested.block().path == (0, 0)
    with pytest.raises(BudgetError, match="split into blocks"):
        ask(nested, [3], whole)


def test_no_blocks_before_the_debit_or_after_a_release():
    account = Account("test", BUDGET, draws=100)
    with pytest.raises(BudgetError, match="before the budget"):
        account.block()
    account.open()
    ask(account, [3], small())
    with pytest.raises(BudgetError, match="cannot be split"):
        account.block()
    gaussian = opened(ZCDP(1))
    gaussian.charge(GaussianEvent(4, 20, 1))
    with pytest.raises(BudgetError, match="cannot be split"):
        gaussian.block()


def test_no_tree_beside_blocks_or_composed_releases():
    account = opened(ZCDP(1))
    block = account.block()
    with pytest.raises(BudgetError, match="tree"):
        account.tree(Fraction(1, 2), 2)
    assert block.tree(Fraction(1, 2), 2) is not None
    account = opened()
    ask(account, [3], small())
    with pytest.raises(BudgetError, match="tree"):
        account.tree(account.allowance / 2, 2)


def test_blocks_under_zcdp_and_pure_budgets():
    event = GaussianEvent(4 * 64**2, 8, 5)  # rho = 1/8
    account = opened(ZCDP(Fraction(1, 8)))
    for block in (account.block(), account.block()):
        block.charge(event)
        with pytest.raises(BudgetError, match="exceed"):
            block.charge(event)
    pure = opened(PureDP(Fraction(1, 4) + Fraction(1, 2**40)))
    for block in (pure.block(), pure.block()):
        block.charge(LaplaceEvent(64, 8, 5))
    chosen = opened(BUDGET)
    block = chosen.block()
    block.charge(SelectionEvent(epsilon=Fraction(1, 2), sensitivity=1, candidates=3))
    block.charge(stable_event(Fraction(1, 2), Fraction(1, 200), histograms=1, n=9, draws=9))
    assert chosen.spent() == BUDGET
