"""A third law of noise is one class: estimators take whatever `SPENDINGS` names for the notion of their budget."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import fastpubpriv as fpp
from fastpubpriv.privacy import spending
from fastpubpriv.privacy.spending import LaplaceSpending
from fastpubpriv.release import account


class HalfSpentLaplace(LaplaceSpending):
    """An epsilon of which releases spend one half, on discrete Laplace noise of twice the scale."""

    __slots__ = ()

    @property
    def spent(self):
        """The half that is spent."""
        return LaplaceSpending(self.allowance / 2, self.between_clusters)

    def std(self, kind, dim=1, share=Fraction(1)):
        return self.spent.std(kind, dim, share)

    def energy(self, dim, radius):
        return self.spent.energy(dim, radius)

    def share_for(self, signal, histograms, n):
        return self.spent.share_for(signal, histograms, n)

    def grid(self, kind, dim, n, *, parts=1):
        return self.spent.grid(kind, dim, n, parts=parts)

    def group_grid(self, groups, columns, n):
        return self.spent.group_grid(groups, columns, n)

    def count_steps(self, event):
        return self.spent.count_steps(event)

    def choice_epsilon(self, law):
        return self.spent.choice_epsilon(law)


@pytest.fixture
def third_law(monkeypatch):
    monkeypatch.setitem(spending.SPENDINGS, fpp.PureDP, HalfSpentLaplace)


def tables():
    rng = np.random.default_rng(5)
    x = rng.normal(3.0, 1.0, (20_100, 2))
    y = 1.0 + 2.0 * x[:, 0] - x[:, 1] + rng.normal(0.0, 0.5, len(x))
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y})
    return frame[100:], frame[:100]


BUDGET = fpp.PureDP(4)
CALLS = {
    "weighted_mean": lambda rows, public: fpp.weighted_mean(
        rows[["a", "b"]], x_pub=public[["a", "b"]], bounds=(-5, 10), budget=BUDGET
    ),
    "estimate_mean": lambda rows, public: fpp.estimate_mean(
        rows[["a", "b"]], x_pub=public[["a", "b"]], budget=BUDGET
    ),
    "quantiles": lambda rows, public: fpp.quantiles(
        rows[["a", "b"]], q=[0.25, 0.5], x_pub=public[["a", "b"]], budget=BUDGET
    ),
    "linear_regression": lambda rows, public: fpp.linear_regression(
        rows[["a", "b"]],
        rows["y"],
        x_pub=public[["a", "b"]],
        y_pub=public["y"],
        budget=BUDGET,
    ),
}
TRUTHS = {
    "weighted_mean": lambda result: (result.mean, [3.0, 3.0]),
    "estimate_mean": lambda result: (result.mean, [3.0, 3.0]),
    "quantiles": lambda result: (result.quantile[:, 1], [3.0, 3.0]),
    "linear_regression": lambda result: (result.coefficients, [2.0, -1.0]),
}


@pytest.mark.usefixtures("third_law")
@pytest.mark.parametrize("name", CALLS)
def test_a_law_of_its_own_runs_in_every_estimator(name):
    result = CALLS[name](*tables())
    found, true = TRUTHS[name](result)
    assert np.allclose(found, true, atol=0.15), found


@pytest.mark.usefixtures("third_law")
@pytest.mark.parametrize("name", CALLS)
def test_every_release_spends_as_the_law_does(name, monkeypatch):
    """Half of the budget is charged: a release that chose its noise by itself would charge more."""
    charged = []
    charge = account.Account.charge

    def counted(self, event):
        charged.append(event.epsilon)
        return charge(self, event)

    monkeypatch.setattr(account.Account, "charge", counted)
    CALLS[name](*tables())
    assert 0.49 * 4 < sum(charged) <= 0.5 * 4


def test_a_cost_within_the_amount_is_left_out_of_it():
    whole = HalfSpentLaplace(Fraction(1, 2))
    event = whole.grid("count", 5, 1000).event
    left = whole.reserve(event)
    assert Fraction(1, 4) <= left.allowance < Fraction(1, 4) + Fraction(1, 1000)
    with pytest.raises(fpp.BudgetError, match="what is left"):
        left.part(Fraction(1, 100)).reserve(event)
    with pytest.raises(fpp.BudgetError, match="more than 1"):
        whole.split([Fraction(2, 3), Fraction(1, 2)])
