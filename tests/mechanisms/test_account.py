"""The account of a call: what it may spend, when it pays, and what it reports."""

import os
from fractions import Fraction

import pytest
from spies import SpyLedger

from fastpubpriv.errors import BudgetError, EntropyError, InputError, LedgerError, SeededNoiseWarning
from fastpubpriv.mechanisms.account import Account
from fastpubpriv.mechanisms.release import release
from fastpubpriv.privacy import (
    ZCDP,
    ApproxDP,
    Cost,
    GaussianEvent,
    KNormEvent,
    LaplaceEvent,
    Ledger,
    PureDP,
    gaussian_rho,
    laplace_epsilon,
)

GAUSS = GaussianEvent(4 * 64**2, 8, 5)  # rho = 1/8
LAPLACE = LaplaceEvent(64, 8, 5)  # epsilon = 1/4
KNORM = KNormEvent(Fraction(1, 4), Fraction(1, 2**30), 64, 5)


def opened(budget, draws=10, **options):
    account = Account("test", budget, draws=draws, **options)
    account.open()
    return account


def test_allowance_in_the_currency_of_the_noise():
    assert Account("a", ZCDP(0.5), draws=10).allowance == Fraction(1, 2)
    approx = ApproxDP(1, 1e-6)
    assert Account("a", approx, draws=10).allowance == gaussian_rho(approx, 10)
    assert Account("a", PureDP(1), draws=10).allowance == laplace_epsilon(PureDP(1), 10) == 1 - Fraction(10, 2**99)


def test_charges_add_up_exactly():
    account = opened(ZCDP(Fraction(3, 8)))
    for _ in range(3):
        assert len(account.charge(GAUSS)) == 32
    with pytest.raises(BudgetError, match="exceed"):
        account.charge(GaussianEvent(1, 40, 1))
    assert account.events == [GAUSS] * 3


def test_control_an_account_one_part_in_a_billion_smaller_refuses():
    account = opened(ZCDP(Fraction(3, 8) * (1 - Fraction(1, 10**9))))
    account.charge(GAUSS)
    account.charge(GAUSS)
    with pytest.raises(BudgetError, match="exceed"):
        account.charge(GAUSS)


def test_each_notion_takes_its_own_noise():
    with pytest.raises(BudgetError, match="Gaussian noise cannot meet PureDP"):
        opened(PureDP(1)).charge(GAUSS)
    for event in (LAPLACE, KNORM):
        with pytest.raises(BudgetError, match="calibrated in epsilon"):
            opened(ZCDP(1)).charge(event)
        assert len(opened(PureDP(1)).charge(event)) == 32


def test_a_call_is_debited_once():
    log = []
    account = Account("test", ZCDP(0.25), draws=1, ledger=SpyLedger(ZCDP(1), log))
    account.open()
    with pytest.raises(BudgetError, match="already"):
        account.open()
    assert log == ["debit"]


def test_a_refused_debit_leaves_the_account_closed():
    ledger = Ledger(ZCDP(0.25))
    account = Account("test", ZCDP(0.5), draws=1, ledger=ledger)
    with pytest.raises(BudgetError, match="larger than what remains"):
        account.open()
    with pytest.raises(BudgetError, match="before the budget was debited"):
        account.charge(GaussianEvent(1, 40, 1))
    assert ledger.spent.is_zero
    assert account.spent() == Cost.zero(ZCDP)
    ledger.close()
    with pytest.raises(LedgerError, match="closed"):
        account.open()


def test_spent_is_what_was_debited():
    assert Account("test", ApproxDP(1, 1e-6), draws=1).spent() == Cost.zero(ApproxDP)
    assert opened(ApproxDP(1, 1e-6)).spent() == ApproxDP(1, 1e-6)
    ledger = Ledger(ApproxDP(2, 1e-3))
    account = Account("test", PureDP(0.25), draws=1, ledger=ledger)
    price = ApproxDP(0.25, 2.0**-30)
    account.open(cost=price)
    assert account.spent() == price
    assert ledger.spent == price.cost


@pytest.mark.parametrize("budget", [0.5, None, "1", {"rho": 1}, ZCDP, Cost.zero(ZCDP)])
def test_budget_must_be_a_budget(budget):
    with pytest.raises(BudgetError, match="budget must be ZCDP"):
        Account("test", budget, draws=1)


@pytest.mark.parametrize("ledger", [0.5, "ledger.jsonl", {}, ZCDP(1)])
def test_ledger_must_be_a_ledger(ledger):
    with pytest.raises(BudgetError, match="ledger must be a Ledger"):
        Account("test", ZCDP(1), draws=1, ledger=ledger)


@pytest.mark.parametrize("seed", [True, 1.0, "7", -1])
def test_seed_must_be_a_whole_number(seed):
    with pytest.raises(InputError, match="random_state"):
        Account("test", ZCDP(1), draws=1, random_state=seed)


def test_a_seed_is_flagged_and_repeats():
    with pytest.warns(SeededNoiseWarning):
        one = opened(ZCDP(1), random_state=5)
    with pytest.warns(SeededNoiseWarning):
        two = opened(ZCDP(1), random_state=5)
    first = [one.charge(GAUSS), one.charge(GAUSS)]
    assert first == [two.charge(GAUSS), two.charge(GAUSS)]
    assert first[0] != first[1]
    assert not one.private
    system = opened(ZCDP(1))
    assert system.private
    assert system.charge(GAUSS) != system.charge(GAUSS)


def test_without_entropy_nothing_is_read_and_nothing_refunded(monkeypatch):
    ledger = Ledger(ZCDP(1))
    account = opened(ZCDP(0.5), ledger=ledger)

    def fails(count):
        raise OSError("no entropy")

    def query():
        raise AssertionError("private rows were read without a key")

    monkeypatch.setattr(os, "urandom", fails)
    with pytest.raises(EntropyError):
        release(account, name="x", query=query, shape=(5,), event=GAUSS, unit=1.0)
    assert ledger.spent == ZCDP(0.5).cost


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
    assert report["implementation_epsilon"] == 5 * 2.0**-99
    assert report["implementation_epsilon_included"] is True
    assert 0 < report["implementation_delta"] < 1e-53

    account = opened(PureDP(1))
    account.charge(KNORM)
    report = account.numerics()
    assert "floating point" in report["arithmetic"]
    assert report["implementation_delta"] == 2.0**-30


def test_numerics_of_a_huge_epsilon_are_a_probability():
    account = Account("test", PureDP(1000), draws=3)
    assert account.numerics()["implementation_delta"] == 0.0
    account.open()
    account.charge(LaplaceEvent(256, 8, 3))
    # e^1000 exceeds a double; the promise is then empty, and says so.
    assert account.numerics()["implementation_delta"] == 1.0
