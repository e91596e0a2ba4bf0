"""Learners with planted faults that record and replay must reject, beside the honest learner that it lets pass."""

from fractions import Fraction

import numpy as np
import pytest
from helpers.errors import raises
from releases import release_agreement, release_choice_of, release_statistic_sum, release_vector_sum

from fastpubpriv import ApproxDP, ReplayError
from fastpubpriv.auditing import record_replay
from fastpubpriv.errors import BudgetError
from fastpubpriv.mechanisms.selection.candidates import Hypotheses
from fastpubpriv.mechanisms.selection.hypotheses import prepare
from fastpubpriv.mechanisms.sums import AffineMap
from fastpubpriv.privacy import SelectionEvent, gaussian_rho, gaussian_rho_beside
from fastpubpriv.release import notions
from fastpubpriv.release.account import Account
from fastpubpriv.release.payer import Book
from fastpubpriv.sources import private_rows
from fastpubpriv.sources.fold import Executor

DIM, GROUPS = 2, 12
BUDGET = ApproxDP(1, 1e-6)
ASIDE = ApproxDP(Fraction(1, 8), BUDGET.delta / 8)
EXECUTOR = Executor(threads=1, progress=False)
ROWS = np.random.default_rng(3).standard_normal((240, DIM))
OTHER = ROWS.copy()
OTHER[4] = [0.5, -0.25]


def checked_mean(x):
    """A test whether groups of rows agree, paid from a part kept aside, then a mean with all that is left."""
    rows, base = private_rows(x), AffineMap(dim=DIM)
    account = Account("checked mean", BUDGET, draws=1 + DIM, reserved=ASIDE)
    account.open()
    release_agreement(
        account, rows, base, GROUPS, name="agreement", cost=(ASIDE.epsilon, ASIDE.delta), executor=EXECUTOR
    )
    total = release_vector_sum(account, rows, base, name="sum", radius=3.0, cost=account.allowance, executor=EXECUTOR)
    return total.value


LISTED = Hypotheses.from_arrays(
    np.ones((3, 1)), np.array([[[-1.0, 0.0]], [[0.0, 0.0]], [[1.0, 0.0]]]), np.ones((3, 1, DIM))
)


def chosen_then_mean(x, choices=1):
    """Choices among three Gaussians, paid from a part kept aside, then a mean with all that is left."""
    rows = private_rows(x)
    account = Account("choices and a mean", BUDGET, draws=choices + DIM, reserved=ASIDE)
    account.open()
    evaluation = prepare(LISTED, rows.n, draws=64, threads=1)[1]
    chosen = [
        release_choice_of(
            account, rows, evaluation, size=3, law="permute_and_flip", name=f"choice {number}",
            cost=ASIDE.epsilon / choices, executor=EXECUTOR,
        ).index
        for number in range(choices)
    ]  # fmt: skip
    total = release_vector_sum(
        account, rows, AffineMap(dim=DIM), name="sum", radius=3.0, cost=account.allowance, executor=EXECUTOR
    )
    return chosen, total.value


def mean_of(statistic, *, draws=DIM):
    """The sum of a statistic of the rows, with all of a budget."""

    def run(x):
        rows, account = private_rows(x), Account("mean of a statistic", BUDGET, draws=draws)
        account.open()
        total = release_statistic_sum(
            account, rows, statistic, name="sum", dim=DIM, radius=3.0, cost=account.allowance, row_cost=DIM,
            executor=EXECUTOR,
        )  # fmt: skip
        return total.value

    return run


def test_the_honest_learner_passes():
    report = record_replay(checked_mean, ROWS, OTHER, budget=BUDGET, pieces=7)
    assert report.calls == 2
    assert report.epsilon > 0
    assert Fraction(99, 100) * report.allowance <= report.declared_cost <= report.allowance
    record_replay(mean_of(lambda chunk: np.array(chunk)), ROWS, OTHER, budget=BUDGET, pieces=7)


@pytest.mark.parametrize("choices", [1, 2])
def test_choices_paid_from_the_part_kept_aside_are_counted(choices):
    report = record_replay(lambda x: chosen_then_mean(x, choices), ROWS, OTHER, budget=BUDGET, pieces=7)
    assert report.calls == choices + 1
    # Basic composition: the choices' epsilons, and for the sum a budget that is smaller by just as much.
    assert report.epsilon == ASIDE.epsilon
    rest = ApproxDP(BUDGET.epsilon - ASIDE.epsilon, BUDGET.delta - ASIDE.delta)
    account = Account("", BUDGET, draws=choices + DIM, reserved=ASIDE)
    assert account.allowance <= gaussian_rho(rest, choices + DIM)
    assert Fraction(999, 1000) * account.allowance <= report.declared_cost <= account.allowance
    # The choices state no delta, so replay allows the sum that part too, and not more.
    assert report.allowance == gaussian_rho_beside(BUDGET, choices + DIM, ASIDE.epsilon, Fraction(0))
    account.open()
    for _ in range(choices):
        account.charge(SelectionEvent(epsilon=ASIDE.epsilon / choices, sensitivity=1, candidates=3))
    with pytest.raises(BudgetError, match="calibrated in epsilon"):
        account.charge(SelectionEvent(epsilon=Fraction(1, 10**9), sensitivity=1, candidates=3))


def test_choices_that_come_on_top_of_the_budget_are_rejected(monkeypatch):
    def on_top(budget, draws, epsilon, delta):
        return gaussian_rho(budget, draws)

    monkeypatch.setattr(notions, "gaussian_rho_beside", on_top)
    raises(ReplayError, "exceed the budget", record_replay, chosen_then_mean, ROWS, OTHER, budget=BUDGET)


def test_a_learner_that_forgets_the_delta_kept_aside_is_rejected(monkeypatch):
    def forgetful(budget, draws, epsilon, delta):
        return gaussian_rho(ApproxDP(budget.epsilon - epsilon, budget.delta), draws)

    assert forgetful(BUDGET, 3, ASIDE.epsilon, ASIDE.delta) > gaussian_rho_beside(BUDGET, 3, ASIDE.epsilon, ASIDE.delta)
    monkeypatch.setattr(notions, "gaussian_rho_beside", forgetful)
    raises(ReplayError, "exceed the budget", record_replay, checked_mean, ROWS, OTHER, budget=BUDGET)


def test_a_learner_that_states_no_delta_is_rejected():
    # The other way to forget it: nothing is kept aside, and the test is paid with a part of epsilon alone.
    less = ApproxDP(Fraction(7, 8), BUDGET.delta)

    def run(x):
        rows, base = private_rows(x), AffineMap(dim=DIM)
        side = Account("side", ASIDE, draws=1)
        side.open()
        cost = side.approx_left[0], ASIDE.delta / 2
        release_agreement(side, rows, base, GROUPS, name="agreement", cost=cost, executor=EXECUTOR)
        account = Account("mean", less, draws=DIM)
        account.open()
        total = release_vector_sum(
            account, rows, base, name="sum", radius=3.0, cost=account.allowance, executor=EXECUTOR
        )
        return total.value

    raises(ReplayError, "exceed the budget", record_replay, run, ROWS, OTHER, budget=BUDGET)


def test_a_learner_that_overdraws_is_rejected(monkeypatch):
    run = mean_of(lambda chunk: np.array(chunk), draws=DIM - 1)
    monkeypatch.setattr(Book, "check", lambda self, event: None)
    with pytest.raises(ReplayError, match="2 values of noise were drawn where 1 were declared"):
        record_replay(run, ROWS, OTHER, budget=BUDGET)


def test_a_statistic_that_depends_on_its_chunk_is_rejected():
    def scaled(chunk):
        """Rows in units of the largest row of their chunk: whoever has that row decides about all others."""
        return chunk / np.abs(chunk).max()

    # The pair itself shows nothing: neither of its rows is the largest.
    record_replay(mean_of(scaled), ROWS, OTHER, budget=BUDGET)
    raises(ReplayError, "cut into chunks", record_replay, mean_of(scaled), ROWS, OTHER, budget=BUDGET, pieces=7)


def test_a_statistic_whose_rounding_depends_on_its_chunk_is_rejected():
    def centred(chunk):
        """The mean of a chunk taken off and put back: equal up to rounding, and rounding decides about a grid step."""
        middle = chunk.mean(axis=0)
        return (chunk - middle) + middle

    ties = np.full((240, DIM), 1e-17)
    ties[::3] = [1.0, 0.5]
    other = ties.copy()
    other[0] = [0.5, 0.25]
    with pytest.raises(ReplayError, match="cut into chunks"):
        record_replay(mean_of(lambda chunk: 1e17 * centred(chunk)), ties, other, budget=BUDGET, pieces=1)


def test_an_account_that_was_opened_before_the_run_is_rejected():
    account = Account("early", BUDGET, draws=4 * DIM)
    account.open()
    rows = private_rows(ROWS)
    with pytest.raises(ReplayError, match="opened before the run"):
        record_replay(
            lambda x: (
                release_vector_sum(
                    account, rows, AffineMap(dim=DIM), name="sum", radius=3.0, cost=account.allowance / 8,
                    executor=EXECUTOR,
                ).value
            ),
            ROWS,
            OTHER,
            budget=BUDGET,
        )  # fmt: skip
