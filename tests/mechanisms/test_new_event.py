"""A kind of release that the library does not know: one class, made here, is charged, released, recorded and replayed."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest
from helpers.accounts import opened
from spies import SpyLedger

from fastpubpriv import ZCDP, ApproxDP, PureDP, ReplayError
from fastpubpriv.auditing import record_replay
from fastpubpriv.errors import BudgetError, KernelError
from fastpubpriv.mechanisms.sums import Measurement, Released
from fastpubpriv.privacy import ComposedEvent, Cost, Event, GaussianEvent, Ledger, Neighbors, cost_in
from fastpubpriv.release.release import release, release_choice, release_stable
from fastpubpriv.run import Run
from fastpubpriv.sources import private_rows
from fastpubpriv.sources.fold import Executor


@dataclass(frozen=True, slots=True)
class SampledEvent(Event):
    """Gaussian noise on a sum over a sample of the rows, priced (for this test) as a share of the rho without sampling."""

    law: ClassVar[str] = "gaussian"
    gdp: ClassVar[bool] = True

    squared_sensitivity: int
    log2_scale: int
    draws: int
    rate: Fraction
    relation: Neighbors = Neighbors.REPLACE_ONE

    @property
    def rho(self) -> Fraction:
        return self.rate * Fraction(self.squared_sensitivity, 2 * 4**self.log2_scale)

    @property
    def cost(self) -> Cost:
        return Cost(ZCDP, (self.rho,))

    def price(self, notion: type) -> Fraction:
        if notion is PureDP:
            raise BudgetError("a sampled sum has no pure cost; pass ZCDP")
        return self.rho

    def record(self) -> dict[str, Any]:
        return {"noise": "gaussian", "sampling_rate": self.rate, "rho": self.rho}

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
        with pytest.raises(BudgetError, match="test: a release would exceed the budget"):
            ask(account)
        assert account.charged == 2 * EVENT.rho


def test_its_refusal_names_the_call_and_changes_nothing():
    account = opened(PureDP(1))
    with pytest.raises(BudgetError, match="test: a sampled sum has no pure cost; pass ZCDP"):
        ask(account)
    assert account.charged == 0
    assert account.events == []


class Sample(Measurement):
    """Releases by the event."""

    def release(self, account, rows, executor, *, name, cost):
        return Released(value=ask(account), noise_std=128.0, event=EVENT)


def test_it_is_recorded_debited_and_composed():
    run = Run(opened(ZCDP(1)), private_rows(np.zeros((3, 1))), Executor(threads=1, progress=False))
    run.release(Sample(), name="sample", cost=EVENT.rho)
    expected = {
        "name": "sample",
        "noise_std": 128.0,
        "noise": "gaussian",
        "sampling_rate": EVENT.rate,
        "rho": EVENT.rho,
    }
    assert run.fields(0)["releases"] == (expected,)
    assert cost_in(ZCDP, EVENT) == EVENT.cost
    ledger = Ledger(ZCDP(1))
    ledger.debit(EVENT, name="sample")
    assert ledger.spent == EVENT.cost
    both = ComposedEvent((EVENT, GaussianEvent(4 * 64**2, 8, 2)))
    assert both.all_gaussian
    assert both.rho == EVENT.rho + Fraction(1, 8)
    with pytest.raises(BudgetError):
        _ = both.epsilon


def test_it_is_replayed_and_a_broken_promise_is_caught():
    def run(x, factor=64):
        return ask(opened(ZCDP(1)), answer=(factor * int(x[0]), 0)).tolist()

    report = record_replay(run, np.array([1]), np.array([-1]), budget=ZCDP(1))
    assert report.pair_cost == report.declared_cost == EVENT.rho
    with pytest.raises(ReplayError, match="release 'sample': the sample moved by"):
        record_replay(lambda x: run(x, 65), np.array([1]), np.array([-1]), budget=ZCDP(1))


def test_what_is_no_event_is_refused_before_anything_changes():
    class NoEvent:
        draws, relation, law, gdp, clusters, candidates, histograms = (
            2,
            Neighbors.REPLACE_ONE,
            "gaussian",
            True,
            None,
            2,
            1,
        )

        def price(self, notion):
            return Fraction(0)

    def query():
        raise AssertionError("the rows must not be read")

    log = []
    account = opened(ZCDP(1), ledger=SpyLedger(ZCDP(2), log))
    asked = {"name": "x", "query": query, "event": NoEvent()}
    for refused in (
        lambda: account.charge(NoEvent()),
        lambda: account.tree(Fraction(1, 2), 1).node(0).charge(NoEvent()),
        lambda: account.charge(None),
        lambda: release(account, shape=(2,), unit=1.0, **asked),
        lambda: release_choice(account, **asked),
        lambda: release_stable(account, slots=(2,), **asked),
        lambda: ComposedEvent((NoEvent(),)),
    ):
        with pytest.raises(BudgetError, match="event"):
            refused()
    assert account.events == []
    assert account.charged == Fraction(1, 2)  # the tree alone
    assert log == ["debit"]


def test_a_law_without_a_sampler_is_refused_before_anything_changes():
    class OddEvent(SampledEvent):
        __slots__ = ()
        law = "odd"

    account = opened(ZCDP(1))
    with pytest.raises(KernelError, match="no noise has the law 'odd'"):
        ask(account, event=OddEvent(4, 8, 2, Fraction(1)))
    assert account.events == []


def test_an_event_must_answer_every_question():
    class Mute(Event):
        __slots__ = ()

    with pytest.raises(TypeError, match="abstract"):
        Mute()
    with pytest.raises(BudgetError, match="ADD_REMOVE_ONE"):
        opened(ZCDP(1)).charge(replace(EVENT, relation=Neighbors.ADD_REMOVE_ONE))
