"""A third law of noise is one class: estimators take whatever `SPENDINGS` names for the notion of their budget."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import fastpubpriv as fpp
from fastpubpriv.privacy import LaplaceEvent, spending
from fastpubpriv.privacy.calibrated_budget import gaussian_rho, laplace_epsilon
from fastpubpriv.privacy.spending import LaplaceSpending


class LaplaceOfRho(LaplaceSpending):
    """A rho that is spent on discrete Laplace noise: of an epsilon with epsilon^2 / 2 at most the rho."""

    __slots__ = ()
    unit = fpp.ZCDP

    @classmethod
    def amount(cls, budget, draws, *reserved):
        return gaussian_rho(budget, draws, *reserved)

    @property
    def in_epsilon(self):
        """The same amount as an epsilon, rounded down."""
        return LaplaceSpending(laplace_epsilon(fpp.ZCDP(self.allowance), 1))

    def _cost(self, share):
        return math.sqrt(2.0 * float(self.allowance * share))

    def energy(self, dim, radius):
        return self.in_epsilon.energy(dim, radius)

    def share_for(self, signal, histograms, n):
        return self.in_epsilon.share_for(signal, histograms, n) ** 2

    @staticmethod
    def share_at(variance):
        return variance

    def grid(self, kind, dim, n, *, parts=1):
        return self.in_epsilon.grid(kind, dim, n, parts=parts)

    def group_grid(self, groups, columns, n):
        return self.in_epsilon.group_grid(groups, columns, n)

    def count_steps(self, event):
        return self.in_epsilon.count_steps(event)

    def choice_epsilon(self, law):
        return self.in_epsilon.allowance


@pytest.fixture
def third_law(monkeypatch):
    monkeypatch.setitem(spending.SPENDINGS, fpp.ZCDP, LaplaceOfRho)


def tables():
    rng = np.random.default_rng(5)
    x = rng.normal(3.0, 1.0, (20_100, 2))
    y = 1.0 + 2.0 * x[:, 0] - x[:, 1] + rng.normal(0.0, 0.5, len(x))
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y})
    return frame[100:], frame[:100]


CALLS = {
    "weighted_mean": lambda rows, public: fpp.weighted_mean(
        rows[["a", "b"]], public[["a", "b"]], bounds=(-5, 10), budget=fpp.ZCDP(0.5)
    ),
    "estimate_mean": lambda rows, public: fpp.estimate_mean(
        rows[["a", "b"]], public[["a", "b"]], budget=fpp.ZCDP(0.5)
    ),
    "quantiles": lambda rows, public: fpp.quantiles(
        rows[["a", "b"]], q=[0.25, 0.5], x_pub=public[["a", "b"]], budget=fpp.ZCDP(0.5)
    ),
    "linear_regression": lambda rows, public: fpp.linear_regression(
        rows[["a", "b"]],
        rows["y"],
        x_pub=public[["a", "b"]],
        y_pub=public["y"],
        budget=fpp.ZCDP(0.5),
    ),
}
TRUTHS = {
    "weighted_mean": lambda result: (result.mean, [3.0, 3.0]),
    "estimate_mean": lambda result: (result.mean, [3.0, 3.0]),
    "quantiles": lambda result: (result.values[:, 1], [3.0, 3.0]),
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
def test_every_release_has_the_noise_of_the_law(name, monkeypatch):
    charged = []
    charge = fpp.release.account.Account.charge
    monkeypatch.setattr(
        fpp.release.account.Account,
        "charge",
        lambda account, event: (charged.append(event), charge(account, event))[1],
    )
    CALLS[name](*tables())
    assert charged
    assert {type(event) for event in charged} == {LaplaceEvent}


def test_a_cost_within_the_amount_is_left_out_of_it():
    whole = LaplaceOfRho(Fraction(1, 2))
    event = whole.part(Fraction(1, 4)).grid("count", 5, 1000).event
    left = whole.reserve(event)
    assert Fraction(3, 8) <= left.allowance < Fraction(1, 2)
    with pytest.raises(fpp.BudgetError, match="what is left"):
        left.part(Fraction(1, 100)).reserve(event)
    with pytest.raises(fpp.BudgetError, match="more than 1"):
        whole.split([Fraction(2, 3), Fraction(1, 2)])
