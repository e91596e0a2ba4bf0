"""The account of a call: what it may spend, when it pays, and what it reports."""

import math
import os
from dataclasses import dataclass, replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from helpers.accounts import opened
from helpers.errors import raises
from scipy import stats
from spies import SpyLedger

from fastpubpriv import ReplayError
from fastpubpriv.auditing import record_replay
from fastpubpriv.errors import (
    BudgetError,
    EntropyError,
    KernelError,
    LedgerError,
    SeededNoiseWarning,
)
from fastpubpriv.keys import key_source
from fastpubpriv.mechanisms.sums import Measurement, Released
from fastpubpriv.privacy import (
    ZCDP,
    ApproxDP,
    Cost,
    Event,
    FullBatch,
    GaussianEvent,
    LaplaceEvent,
    Ledger,
    Neighbors,
    Poisson,
    PureDP,
    SampledGaussianEvent,
    StableHistogramEvent,
    WithoutReplacement,
)
from fastpubpriv.privacy.budgets import Clusters
from fastpubpriv.privacy.calibrated_budget import (
    approx_slack,
    gaussian_rho,
    laplace_epsilon,
    pure_slack,
)
from fastpubpriv.privacy.calibration import sampled_sum_grid
from fastpubpriv.privacy.conversions import gdp_delta
from fastpubpriv.privacy.ledger import cost_in
from fastpubpriv.release.account import Account
from fastpubpriv.release.release import draw_batch, release, release_choice, release_stable
from fastpubpriv.session import Session
from fastpubpriv.sources import private_rows
from fastpubpriv.sources.fold import Executor

GAUSS = GaussianEvent(4 * 64**2, 8, 5)  # rho = 1/8
LAPLACE = LaplaceEvent(64, 8, 5)  # epsilon = 1/4


def test_an_account_is_debited_once_and_charges_add_up_exactly():
    assert Account("a", ZCDP(0.5), draws=10).allowance == Fraction(1, 2)
    approx = ApproxDP(1, 1e-6)
    assert Account("a", approx, draws=10).allowance == gaussian_rho(approx, 10)
    assert (
        Account("a", PureDP(1), draws=10).allowance
        == laplace_epsilon(PureDP(1), 10)
        == 1 - Fraction(10, 2**99)
    )
    # Charges add up exactly.
    account = opened(ZCDP(Fraction(3, 8)), draws=16)
    for _ in range(3):
        account.charge(GAUSS)
    raises(BudgetError, "exceed", account.charge, GaussianEvent(1, 40, 1))
    assert account.events == [GAUSS] * 3
    # Control an account one part in a billion smaller refuses.
    account = opened(ZCDP(Fraction(3, 8) * (1 - Fraction(1, 10**9))), draws=15)
    account.charge(GAUSS)
    account.charge(GAUSS)
    raises(BudgetError, "exceed", account.charge, GAUSS)
    # Each notion takes its own noise.
    raises(BudgetError, "Gaussian noise cannot meet PureDP", opened(PureDP(1)).charge, GAUSS)
    raises(BudgetError, "calibrated in epsilon", opened(ZCDP(1)).charge, LAPLACE)
    account = opened(PureDP(1))
    account.charge(LAPLACE)
    assert account.events == [LAPLACE]
    # A call is debited once.
    log = []
    account = Account("test", ZCDP(0.25), draws=1, ledger=SpyLedger(ZCDP(1), log))
    account.open()
    raises(BudgetError, "already", account.open)
    assert log == ["debit"]


def test_spent_is_what_was_debited():
    ledger = Ledger(ZCDP(0.25))
    account = Account("test", ZCDP(0.5), draws=1, ledger=ledger)
    raises(BudgetError, "larger than what remains", account.open)
    raises(BudgetError, "before the budget was debited", account.charge, GaussianEvent(1, 40, 1))
    assert ledger.spent.is_zero
    assert account.spent() == Cost.zero(ZCDP)
    ledger.close()
    raises(LedgerError, "closed", account.open)
    # Spent is what was debited.
    assert Account("test", ApproxDP(1, 1e-6), draws=1).spent() == Cost.zero(ApproxDP)
    assert opened(ApproxDP(1, 1e-6)).spent() == ApproxDP(1, 1e-6)
    ledger = Ledger(ApproxDP(2, 1e-3))
    account = Account("test", PureDP(0.25), draws=1, ledger=ledger)
    account.open()
    assert account.spent() == PureDP(0.25)
    assert ledger.spent == Cost(ApproxDP, (Fraction(1, 4), Fraction(0)))
    # A seed is flagged.
    with pytest.warns(SeededNoiseWarning):
        assert not opened(ZCDP(1), random_state=5).private
    assert opened(ZCDP(1)).private


def no_entropy(count):
    raise OSError("no entropy")


def test_a_machine_without_entropy_is_found_out_before_the_debit(monkeypatch):
    ledger = Ledger(ZCDP(1))
    account = Account("test", ZCDP(0.5), draws=5, ledger=ledger)
    monkeypatch.setattr(os, "urandom", no_entropy)
    raises(EntropyError, None, account.open)
    assert ledger.spent.is_zero


def test_entropy_that_ends_later_releases_nothing_and_refunds_nothing(monkeypatch):
    ledger = Ledger(ZCDP(1))
    account = opened(ZCDP(0.5), ledger=ledger)

    def query():
        monkeypatch.setattr(os, "urandom", no_entropy)
        return np.zeros(5, dtype=np.int64)

    raises(
        EntropyError,
        None,
        release,
        account,
        name="x",
        query=query,
        shape=(5,),
        event=GAUSS,
        unit=1.0,
    )
    assert ledger.spent == ZCDP(0.5).cost


EVENTS = {
    "zcdp": (ZCDP(50), lambda draws: GaussianEvent(4, 20, draws)),
    "approx": (ApproxDP(1, 1e-6), lambda draws: GaussianEvent(4, 20, draws)),
    "pure": (PureDP(1), lambda draws: LaplaceEvent(4, 20, draws)),
    "approx, own epsilon": (ApproxDP(1, 1e-6), lambda draws: LaplaceEvent(4, 20, draws)),
    "approx, bins": (
        ApproxDP(1, 1e-6),
        lambda draws: StableHistogramEvent("laplace", 1, 2, 2**26, 20, 1e-4, draws),
    ),
}


@pytest.mark.parametrize(("budget", "event"), EVENTS.values(), ids=EVENTS)
def test_no_release_draws_more_noise_than_was_declared(budget, event):
    account = opened(budget, draws=10)
    account.charge(event(6))
    for refused in (account, account):
        raises(BudgetError, "more noise is drawn", refused.charge, event(5))
    assert account.events == [event(6)]
    account.charge(event(4))


def test_blocks_and_nodes_share_the_declared_draws():
    account = opened(ZCDP(50), draws=10)
    one = account.block()
    two = account.block()
    one.charge(GaussianEvent(4, 20, 6))
    raises(BudgetError, "more noise is drawn", two.charge, GaussianEvent(4, 20, 5))
    two.charge(GaussianEvent(4, 20, 4))
    account = opened(ZCDP(50), draws=10)
    payer = account.tree(Fraction(1), 1).node(0)
    raises(
        BudgetError,
        "more noise is drawn",
        payer.charge,
        GaussianEvent(2, 20, 11, clusters=Clusters(2, 1, ("0",))),
    )
    payer.charge(GaussianEvent(2, 20, 10, clusters=Clusters(2, 1, ("0",))))


@pytest.mark.parametrize(("budget", "event"), EVENTS.values(), ids=EVENTS)
def test_an_event_of_another_relation_is_refused(budget, event):
    account = opened(budget, draws=10)
    if isinstance(event(1), StableHistogramEvent):
        raises(BudgetError, "replace-one", replace, event(1), relation=Neighbors.ADD_REMOVE_ONE)
        return
    raises(
        BudgetError,
        "ADD_REMOVE_ONE",
        account.charge,
        replace(event(1), relation=Neighbors.ADD_REMOVE_ONE),
    )
    assert account.events == []


def test_each_debit_states_its_relation():
    stated = []

    class Noting(Ledger):
        def debit(self, cost, *, name, relation=None, person=None):
            stated.append((relation, person))
            return super().debit(cost, name=name, relation=relation, person=person)

    opened(ZCDP(0.5), ledger=Noting(ZCDP(1)))
    assert stated == [(Neighbors.REPLACE_ONE, None)]


def test_what_is_reserved_is_off_the_budget_with_its_delta():
    budget = ApproxDP(1, 1e-6)
    draws = 100
    account = opened(budget, draws=draws, reserved=ApproxDP(Fraction(1, 8), Fraction(1, 10**7)))
    slack = approx_slack(1, draws)
    at = Fraction(7, 8), Fraction(1e-6) - Fraction(1, 10**7) - slack
    mu = math.sqrt(2 * account.allowance)
    assert (
        0.999999999 * at[1]
        < Fraction(gdp_delta(at[0], mu)) * (1 + Fraction(1, 10**7))
        < at[1] * (1 + Fraction(1, 10**6))
    )
    assert Fraction(gdp_delta(at[0], mu)) <= at[1]
    raises(
        BudgetError,
        "delta of a release exceeds",
        account.charge,
        LaplaceEvent(64, 10, 1, delta=Fraction(2, 10**7)),
    )
    account.charge(LaplaceEvent(64, 10, 1, delta=Fraction(1, 10**7)))
    with pytest.raises(BudgetError, match="delta of a release exceeds"):
        account.charge(LaplaceEvent(64, 10, 1, delta=Fraction(1, 10**30)))
    account.charge(LaplaceEvent(64, 10, 1))
    raises(BudgetError, "exceeds what was reserved", account.charge, LaplaceEvent(1, 10, 1))


def test_reserved_parts_and_deltas_that_have_no_place():
    raises(
        BudgetError,
        "a delta; pass ApproxDP",
        opened(PureDP(1)).charge,
        LaplaceEvent(64, 10, 1, delta=Fraction(1, 10**7)),
    )
    account = opened(ApproxDP(1, 1e-6))
    raises(
        BudgetError,
        "exceed the budget",
        account.charge,
        LaplaceEvent(64, 10, 1, delta=Fraction(1, 10**5)),
    )
    account.charge(LaplaceEvent(64, 10, 1, delta=Fraction(1, 10**7)))
    budget = ApproxDP(1000, 1e-6)
    raises(
        BudgetError,
        "leave nothing",
        Account,
        "test",
        budget,
        draws=100,
        reserved=ApproxDP(125, 1e-7),
    )
    assert Account("test", budget, draws=100, reserved=ApproxDP(20, 1e-7)).allowance > 0


def test_numerics_state_the_distance_from_the_ideal():
    account = opened(ZCDP(1))
    account.charge(GAUSS)
    account.charge(GAUSS)
    report = account.numerics()
    assert report["noise_draws"] == 10
    assert report["total_variation"] == 10 * 2.0**-100
    assert "implementation_delta" not in report

    account = opened(ApproxDP(1, 1e-6))
    account.charge(GaussianEvent(1, 20, 5))
    report = account.numerics()
    assert report["implementation_delta_included"] is True
    assert 5 * 3.718 * 2.0**-100 < report["implementation_delta"] < 5 * 3.72 * 2.0**-100

    account = opened(PureDP(1))
    account.charge(LAPLACE)
    report = account.numerics()
    assert 5 * 2.0**-99 <= report["implementation_epsilon"] <= math.nextafter(5 * 2.0**-99, 1.0)
    assert report["implementation_epsilon_included"] is True
    assert 0 < report["implementation_delta"] < 1e-53


LARGE = (2.0**-30, 2.0**-20, 1e-3, 1, 30, 40, 46, 58, 60, 66, 100, 512, 780, 1024)


@pytest.mark.parametrize("draws", [1, 1000, 10**7])
@pytest.mark.parametrize("delta", [2.0**-100, 1e-20, 1e-6, 0.5])
def test_the_whole_range_of_an_approximate_budget(delta, draws):
    for epsilon in LARGE:
        budget = ApproxDP(epsilon, delta)
        if delta < 2**12 * draws * 2.0**-100:
            raises(BudgetError, "too small", Account, "test", budget, draws=draws)
            continue
        account = opened(budget, draws=draws)
        account.charge(GaussianEvent(0, 20, draws))
        report = account.numerics()
        assert 0 < report["implementation_delta"] <= delta / 15
        assert report["implementation_delta_included"] is True
        # What the Gaussian releases may use is at most the rest, at the epsilon in use or below.
        used = min(budget.epsilon, laplace_epsilon(budget, draws))
        mu = math.sqrt(2 * account.allowance)
        assert Fraction(gdp_delta(used, mu)) + approx_slack(used, draws) <= budget.delta


@pytest.mark.parametrize("draws", [1, 1000, 10**7])
def test_the_whole_range_of_a_pure_budget(draws):
    refused = [epsilon for epsilon in LARGE if pure_slack(epsilon, draws)[1] > Fraction(1, 2**100)]
    for epsilon in LARGE:
        if epsilon in refused:
            raises(BudgetError, "as pure privacy", Account, "test", PureDP(epsilon), draws=draws)
            continue
        account = opened(PureDP(epsilon), draws=draws)
        account.charge(LaplaceEvent(0, 8, draws))
        report = account.numerics()
        # The least delta that a budget can name: what adds no more may be called pure.
        assert report["implementation_delta"] <= 2.0**-100
        assert report["implementation_delta_included"] is False
    assert {60, 66, 100, 512, 780, 1024} <= set(refused)
    assert not set(refused) & {2.0**-30, 2.0**-20, 1e-3, 1, 30, 40}


def test_control_the_delta_of_the_budgets_own_epsilon_is_no_probability():
    # What was printed before: e^epsilon of the budget, where a far smaller epsilon was in use.
    assert approx_slack(100, 3) > 1
    raises(OverflowError, None, float, approx_slack(780, 3))
    account = opened(ApproxDP(780, 1e-6), draws=3)
    account.charge(GaussianEvent(0, 20, 3))
    assert account.numerics()["implementation_delta"] < 1e-7


# ---- Secret batches: their law, and that a run over sampled rows has no more steps than were paid for ---------------
KEYS = SimpleNamespace(fresh_key=key_source(None).fresh)  # a payer


@pytest.mark.parametrize("rate", [Fraction(1, 50), Fraction(1, 3)])
def test_sizes_of_poisson_batches_are_binomial(rate):
    """3,000 batches of 400 rows: sizes and the share of each row; false alarms below 1e-9. A rate of 1.1 times is rejected."""
    n = 400
    runs = 3000
    found = [draw_batch(KEYS, Poisson(rate), n) for _ in range(runs)]
    sizes = np.array([len(batch) for batch in found])
    assert all(
        np.all(np.diff(batch) > 0) and batch[0] >= 0 and batch[-1] < n
        for batch in found
        if len(batch)
    )

    def fits(chance):
        edges = stats.binom.ppf([0.1, 0.3, 0.5, 0.7, 0.9], n, chance)
        cells = np.bincount(np.searchsorted(edges, sizes), minlength=6)
        expected = np.diff(np.concatenate([[0.0], stats.binom.cdf(edges, n, chance), [1.0]])) * runs
        return stats.chisquare(cells, expected).pvalue > 1e-9

    assert fits(float(rate))
    assert not fits(1.1 * float(rate))
    shares = np.bincount(np.concatenate(found), minlength=n)
    spread = (shares - runs * float(rate)) / np.sqrt(runs * float(rate) * (1 - float(rate)))
    assert np.max(np.abs(spread)) < 7.5


def test_batches_of_fixed_size_are_equally_likely():
    """All 10 pairs of 5 rows, 20,000 draws: chi-squared, false alarms below 1e-9."""
    sampling = WithoutReplacement(2, 5)
    found = [tuple(draw_batch(KEYS, sampling, 5)) for _ in range(20_000)]
    counts = {pair: found.count(pair) for pair in set(found)}
    assert len(counts) == 10
    assert stats.chisquare(list(counts.values())).pvalue > 1e-9
    for sampling in (FullBatch(), WithoutReplacement(2, 6)):
        raises(KernelError, None, draw_batch, KEYS, sampling, 5)


def opened_for_steps():
    return opened(ApproxDP(3, 1e-5), draws=10**6)


STEP = SampledGaussianEvent(
    Poisson(Fraction(1, 50)), 4 * 1000**2, 12, 5, steps=4, delta=Fraction(1, 10**7)
)


def test_runs_and_blocks_have_no_more_steps_than_were_paid_for():
    event = STEP
    account = opened_for_steps()
    raises(BudgetError, "more steps", account.charge, event.later)
    account.charge(event)
    for _ in range(3):
        account.charge(event.later)
    raises(BudgetError, "more steps", account.charge, event.later)
    account.charge(event)  # a second run is paid for by itself
    account.charge(event.later)
    raises(BudgetError, "more steps", account.charge, replace(event, steps=5).later)
    event = replace(STEP, steps=2)
    account = opened_for_steps()
    one = account.block()
    other = account.block()
    one.charge(event)
    raises(BudgetError, "more steps", other.charge, event.later)
    one.charge(event.later)
    for steps in (1, 100):
        grid = sampled_sum_grid(
            Fraction(1), Fraction(1, 10**6), Poisson(Fraction(1, 20)), steps=steps, dim=7, n=10**6
        )
        assert grid.event.epsilon <= 1
        assert grid.event.squared_sensitivity == 4 * grid.quant_bound**2
        assert grid.event.noise_multiplier < grid.noise_multiplier * 1.001
        assert grid.step(2.0) * grid.clip_steps == pytest.approx(2.0)


# ---- A kind of release that the library does not know: one class, made here, is charged, released, recorded and replayed.
@dataclass(frozen=True, slots=True)
class SampledEvent(Event):
    """Gaussian noise on a sum over a sample of the rows, priced (for this test) as a share of the rho without sampling."""

    law: ClassVar[str] = "gaussian"
    gdp: ClassVar[bool] = True
    recorded = ("rate", "rho")

    squared_sensitivity: int
    log2_scale: int
    draws: int
    rate: Fraction
    relation: Neighbors = Neighbors.REPLACE_ONE

    @property
    def rho(self) -> Fraction:
        return self.rate * Fraction(self.squared_sensitivity, 2 * 4**self.log2_scale)

    def pair_cost(self, query: Any, other: Any, notion: type) -> Fraction:
        moved = sum(int(gap) ** 2 for gap in (query - other).tolist())
        if moved > self.squared_sensitivity:
            raise ReplayError(f"the sample moved by {moved}")
        return self.rate * Fraction(moved, 2 * 4**self.log2_scale)


EVENT = SampledEvent(4 * 64**2, 8, 2, Fraction(1, 4))  # rho = 1/32


def ask(account, answer=(1, 2), event=EVENT):
    query = lambda: np.array(answer, dtype=np.int64)  # noqa: E731
    return release(account, name="sample", query=query, shape=(2,), event=event, unit=0.5)


@pytest.mark.parametrize("budget", [ZCDP(Fraction(1, 16)), ApproxDP(2, 1e-6)])
def test_it_is_charged_and_released(budget):
    account = opened(budget)
    answer = ask(account)
    assert answer.shape == (2,)
    # Floored noise sits half a step low: answers are odd multiples of half a grid step.
    assert np.all((answer / 0.5 - 0.5) % 1.0 == 0.0)
    assert account.charged == EVENT.rho
    assert account.events == [EVENT]
    assert account.numerics()["noise_draws"] == 2
    if isinstance(budget, ZCDP):
        ask(account)
        raises(BudgetError, "test: a release would exceed the budget", ask, account)
        assert account.charged == 2 * EVENT.rho


def test_its_refusal_names_the_call_and_changes_nothing():
    account = opened(PureDP(1))
    raises(BudgetError, "test: Gaussian noise cannot meet PureDP; pass ZCDP", ask, account)
    assert account.charged == 0
    assert account.events == []


class Sample(Measurement):
    """Releases by the event."""

    def release(self, account, rows, executor, *, name, cost):
        return Released(value=ask(account), noise_std=128.0, event=EVENT)


def test_it_is_recorded_debited_composed_and_replayed():
    run = Session(
        opened(ZCDP(1)), private_rows(np.zeros((3, 1))), Executor(threads=1, progress=False)
    )
    run.release(Sample(), name="sample", cost=EVENT.rho)
    expected = {
        "name": "sample",
        "noise_std": 128.0,
        "noise": "gaussian",
        "rate": EVENT.rate,
        "rho": EVENT.rho,
    }
    assert run.fields(0)["releases"] == (expected,)
    assert cost_in(ZCDP, EVENT) == EVENT.cost
    ledger = Ledger(ZCDP(1))
    ledger.debit(EVENT, name="sample")
    assert ledger.spent == EVENT.cost

    # It is replayed and a broken promise is caught.
    def run(x, factor=64):
        return ask(opened(ZCDP(1)), answer=(factor * int(x[0]), 0)).tolist()

    report = record_replay(run, np.array([1]), np.array([-1]), budget=ZCDP(1))
    assert report.pair_cost == report.declared_cost == EVENT.rho
    with pytest.raises(ReplayError, match="release 'sample': the sample moved by"):
        record_replay(lambda x: run(x, 65), np.array([1]), np.array([-1]), budget=ZCDP(1))


def test_what_is_no_event_is_refused_before_anything_changes():
    class NoEvent:
        draws = 2
        relation = Neighbors.REPLACE_ONE
        law = "gaussian"
        gdp = True
        clusters = None
        candidates = 2
        histograms = 1

        def price(self, notion):
            return Fraction(0)

    def query():
        raise AssertionError("the rows must not be read")

    log = []
    ledger = Ledger(ZCDP(2))
    account = opened(ZCDP(1), ledger=SpyLedger(ZCDP(2), log))
    asked = {"name": "x", "query": query, "event": NoEvent()}
    for refused in (
        lambda: account.charge(NoEvent()),
        lambda: account.tree(Fraction(1, 2), 1).node(0).charge(NoEvent()),
        lambda: account.charge(None),
        lambda: release(account, shape=(2,), unit=1.0, **asked),
        lambda: release_choice(account, **asked),
        lambda: release_stable(account, slots=(2,), **asked),
        lambda: ledger.debit(NoEvent(), name="x"),
    ):
        raises(BudgetError, "event", refused)
    assert account.events == []
    assert account.charged == Fraction(1, 2)  # the tree alone
    assert log == ["debit"]


def test_laws_without_a_sampler_and_events_without_answers_are_refused():
    class OddEvent(SampledEvent):
        __slots__ = ()
        law = "odd"

    account = opened(ZCDP(1))
    raises(
        KernelError,
        "no noise has the law 'odd'",
        ask,
        account,
        event=OddEvent(4, 8, 2, Fraction(1)),
    )
    assert account.events == []

    class Mute(Event):
        __slots__ = ()

    raises(TypeError, "abstract", Mute)
    raises(
        BudgetError,
        "ADD_REMOVE_ONE",
        opened(ZCDP(1)).charge,
        replace(EVENT, relation=Neighbors.ADD_REMOVE_ONE),
    )
