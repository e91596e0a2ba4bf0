"""Sampling schemes, the cost of a run and the noise for a budget, and the event of one step of it."""

from fractions import Fraction

import numpy as np
import pytest

from fastpubpriv import ZCDP, ApproxDP, PureDP, ReplayError
from fastpubpriv.errors import BudgetError
from fastpubpriv.privacy import (
    Cost,
    FullBatch,
    Ledger,
    Neighbors,
    OnePass,
    Poisson,
    SampledGaussianEvent,
    WithoutReplacement,
    cost_in,
    delta_of,
    epsilon_of,
    gdp_epsilon,
    noise_multiplier_for,
    subsampled,
)
from fastpubpriv.release.account import Account
from fastpubpriv.release.release import release

ADD_REMOVE = Neighbors.ADD_REMOVE_ONE
RUNS = [
    (ApproxDP(2, 1e-5), Poisson(Fraction(1, 54)), 5000, Neighbors.REPLACE_ONE),
    (ApproxDP(4, 1e-5), Poisson(Fraction(1, 3)), 5000, Neighbors.REPLACE_ONE),
    (ApproxDP(2, 1e-5), Poisson(Fraction(1, 54)), 5000, ADD_REMOVE),
    (ApproxDP(1, 1e-6), WithoutReplacement(100, 10_000), 1000, Neighbors.REPLACE_ONE),
    (ApproxDP(0.1, 1e-8), Poisson(0.01), 100, Neighbors.REPLACE_ONE),
    (ApproxDP(100, 1e-6), Poisson(0.1), 10, Neighbors.REPLACE_ONE),
    (ApproxDP(50, 1e-10), WithoutReplacement(1, 2), 3, Neighbors.REPLACE_ONE),
    (ApproxDP(8, 1e-6), Poisson(Fraction(1, 10_000)), 10**5, Neighbors.REPLACE_ONE),
    (ApproxDP(100, 1e-6), Poisson(Fraction(1, 2)), 10**6, Neighbors.REPLACE_ONE),
]


@pytest.mark.parametrize(("budget", "sampling", "steps", "relation"), RUNS)
def test_noise_for_a_budget_is_safe_and_tight(budget, sampling, steps, relation, monkeypatch):
    fine, rough = [], []
    honest, hasty = subsampled._composed_epsilon, subsampled._rough_epsilon
    monkeypatch.setattr(subsampled, "_composed_epsilon", lambda *a: fine.append(a[0]) or honest(*a))
    monkeypatch.setattr(subsampled, "_rough_epsilon", lambda *a: rough.append(a[0]) or hasty(*a))
    z = noise_multiplier_for(budget, sampling, steps, relation)
    assert len(fine) <= 3  # the number of compositions is what a calibration costs
    assert len(rough) <= 8
    assert epsilon_of(z, sampling, steps, budget.delta, relation) <= budget.epsilon
    assert epsilon_of(z * (1 - 3e-5), sampling, steps, budget.delta, relation) > budget.epsilon
    assert 0.97 * budget.delta <= delta_of(z, sampling, steps, budget.epsilon, relation) <= 1.005 * budget.delta


def test_known_multipliers():
    assert noise_multiplier_for(*RUNS[0][:3]) == pytest.approx(5.2229, rel=1e-3)  # dp-accounting: 5.2229 at its grid
    assert noise_multiplier_for(*RUNS[2]) == pytest.approx(2.726, abs=5e-4)
    # Beside full batches sampling buys computation only: noise on the mean as 2 sqrt(T) / mu at these rates.
    full = noise_multiplier_for(ApproxDP(2, 1e-5), FullBatch(), 5000)
    assert noise_multiplier_for(*RUNS[0][:3]) == pytest.approx(full / 54, rel=2e-3)


def test_runs_without_sampling_are_exact():
    assert epsilon_of(100, FullBatch(), 1000, 1e-5) == pytest.approx(gdp_epsilon(1e-5, 0.4**0.5), rel=1e-14)
    assert epsilon_of(4, OnePass(), 10**6, 1e-5) == gdp_epsilon(1e-5, 0.5)
    assert epsilon_of(4, OnePass(), 7, 1e-5, ADD_REMOVE) == gdp_epsilon(1e-5, 0.25)
    for whole in (Poisson(1), WithoutReplacement(9, 9)):
        assert epsilon_of(5, whole, 17, 1e-6) == epsilon_of(5, FullBatch(), 17, 1e-6)
        assert noise_multiplier_for(ZCDP(0.5), whole, 25) == 10.0
    assert noise_multiplier_for(ZCDP(0.5), OnePass(), 25) == 2.0
    z = noise_multiplier_for(ApproxDP(1, 1e-6), FullBatch(), 12)
    assert epsilon_of(z, FullBatch(), 12, 1e-6) <= 1
    assert delta_of(z, FullBatch(), 12, 1) <= 1e-6


def test_more_noise_fewer_steps_and_a_smaller_rate_cost_less():
    cost = lambda z, q, steps: epsilon_of(z, Poisson(q), steps, 1e-6)  # noqa: E731
    here = cost(2.0, 0.02, 500)
    assert cost(2.1, 0.02, 500) < here < cost(2.0, 0.021, 500)
    assert cost(2.0, 0.02, 400) < here < epsilon_of(2.0, FullBatch(), 500, 1e-6)


def test_a_planted_fault_of_the_relation_is_seen():
    # The library's own relation must cost about twice what the tables' relation says.
    assert epsilon_of(noise_multiplier_for(*RUNS[2]), Poisson(Fraction(1, 54)), 5000, 1e-5) > 4


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: noise_multiplier_for(PureDP(1), Poisson(0.1), 5), "needs a budget ApproxDP"),
        (lambda: noise_multiplier_for(ZCDP(1), Poisson(0.1), 5), "no useful cost in rho"),
        (lambda: noise_multiplier_for(ApproxDP(1, 1e-6), "poisson", 5), "sampling must be FullBatch"),
        (lambda: noise_multiplier_for(ApproxDP(1, 1e-6), Poisson(0.1), 0), "steps"),
        (lambda: noise_multiplier_for(ApproxDP(1, 1e-6), Poisson(0.1), 10**9), "steps must be at most"),
        (lambda: noise_multiplier_for(ApproxDP(1, 1e-6), Poisson(0.1), 5, "replace"), "relation"),
        (lambda: noise_multiplier_for(ApproxDP(1, 1e-6), WithoutReplacement(1, 9), 5, ADD_REMOVE), "replace-one only"),
        (lambda: epsilon_of(0.001, Poisson(0.1), 5, 1e-6), "between 0.01 and 1e9"),
        (lambda: epsilon_of(1.0, Poisson(0.1), 5, 0.0), "delta"),
        (lambda: Poisson(0), "rate must lie"),
        (lambda: Poisson(1.5), "rate must lie"),
        (lambda: WithoutReplacement(10, 9), "cannot be drawn"),
        (lambda: event(steps=0), "steps"),
        (lambda: event(delta=1), "delta"),
        (lambda: event(sampling=FullBatch()), "GaussianEvent"),
        (lambda: event(first=1), "first"),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(BudgetError, match=words):
        call()


# ---- the event


def event(**changes):
    fields = {
        "sampling": Poisson(Fraction(1, 20)),
        "squared_sensitivity": 4 * 128**2,
        "log2_scale": 9,
        "draws": 2,
        "steps": 30,
        "delta": Fraction(1, 10**6),
    }
    return SampledGaussianEvent(**(fields | changes))


def test_the_event_answers_for_the_whole_run_once():
    step = event()
    assert step.noise_multiplier == pytest.approx(4.0, rel=1e-15)
    assert step.noise_multiplier <= 4.0
    assert float(step.epsilon) == epsilon_of(step.noise_multiplier, step.sampling, 30, step.delta)
    assert step.cost == Cost(ApproxDP, (step.epsilon, step.delta))
    assert step.later.cost.is_zero
    assert step.record()["sampling_rate"] == Fraction(1, 20)
    assert cost_in(ApproxDP, step) == step.cost
    assert not step.gdp
    ledger = Ledger(ApproxDP(2, 1e-5))
    ledger.debit(step, name="run")
    assert ledger.spent == step.cost
    for notion in (ZCDP, PureDP):
        with pytest.raises(BudgetError, match="pass ApproxDP"):
            step.price(notion)


def test_the_event_under_add_remove_has_the_same_noise_over_half_the_sensitivity():
    assert event(relation=ADD_REMOVE, squared_sensitivity=128**2).noise_multiplier == pytest.approx(4.0, rel=1e-15)


def test_the_event_is_charged_and_released():
    account = Account("train", ApproxDP(2, 1e-5), draws=100)
    account.open()
    query = lambda: np.array([5, 7], dtype=np.int64)  # noqa: E731
    for step in (event(), *[event().later] * 29):
        answer = release(account, name="step", query=query, shape=(2,), event=step, unit=1.0)
    assert answer.shape == (2,)
    epsilon, delta = account.approx_left
    assert epsilon <= 2 - event().epsilon
    assert delta <= account.budget.delta - event().delta
    with pytest.raises(BudgetError, match="exceed"):
        account.charge(event(log2_scale=8, steps=3000))


def test_the_event_checks_its_promise():
    step = event()
    assert step.pair_cost(np.array([0, 0]), np.array([256, 0]), ApproxDP) == step.epsilon
    assert step.later.pair_cost(np.array([0, 0]), np.array([0, 0]), ApproxDP) == 0
    with pytest.raises(ReplayError, match="moved by"):
        step.pair_cost(np.array([0, 0]), np.array([256, 1]), ApproxDP)
