"""One registry of methods: `train`, `plan` and the command line read it, and each method passes record and replay."""

from typing import get_args

import numpy as np
import pytest
from helpers.errors import raises
from helpers.neighbors import pair_at
from spies import seeded

from fastpubpriv import (
    ZCDP,
    ReplayError,
    plan,
    train,
)
from fastpubpriv._types import FitMethod
from fastpubpriv.auditing import record_replay
from fastpubpriv.mechanisms.gradient_sums import LinearGradientQuery
from fastpubpriv.mechanisms.selection import LossQuery
from fastpubpriv.mechanisms.sums import MappedQuery
from fastpubpriv.regression.problem import TrainingMethod
from fastpubpriv.training.methods import METHODS as RECORDS

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")

ISSUED = {
    "newton",
    "throw_away",
    "semi_dp",
    "dp_sgd",
    "pda_mirror_descent",
    "output_perturbation",
    "exponential",
}
RNG = np.random.default_rng(11)
X = RNG.normal(size=(400, 2))
TABLE = np.column_stack([X, X @ [1.0, -1.0] + RNG.normal(size=400)])
BUDGET = ZCDP(0.5)


def loss_of(name):
    return "huber" if name == "output_perturbation" else "squared"


def call(rows, name, **more):
    common = {
        "label": -1,
        "x_pub": TABLE[:40].copy(),
        "budget": BUDGET,
        "threads": 1,
        "progress": False,
    }
    return train(rows, loss=loss_of(name), method=name, **common, **more)


def test_every_method_is_one_record():
    assert set(RECORDS) == ISSUED
    assert all(type(each) is TrainingMethod and each.name == name for name, each in RECORDS.items())
    assert RECORDS.choices == ("auto", *RECORDS)
    assert [name for name, each in RECORDS.items() if each.settings is None] == list(
        get_args(FitMethod)[1:]
    )


@pytest.mark.parametrize("name", RECORDS)
def test_a_name_and_its_settings_are_the_same_method(name):
    found = seeded(call, TABLE[40:], name)
    assert found.method == name
    kind = RECORDS[name].settings
    if kind is not None:
        given = {"label": -1, "x_pub": TABLE[:40].copy(), "budget": BUDGET, "loss": loss_of(name)}
        same = seeded(train, TABLE[40:], **given, method=kind())
        assert same.method == name
        np.testing.assert_array_equal(same.weights, found.weights)
    assert (found.spent.amounts[0] == 0) == (name == "throw_away")


def test_the_plan_knows_every_method():
    details = plan("train", dim=3, n_pub=40, n_priv=2000, budget=BUDGET, loss="logistic").details
    assert set(details) >= ISSUED - {"throw_away"}
    for name in ISSUED - {"throw_away"}:
        same = plan(
            "train", dim=3, n_pub=40, n_priv=2000, budget=BUDGET, loss="logistic", method=name
        )
        assert same.error == details[name]


@pytest.mark.parametrize("loss", ["huber", "softmax"])
def test_public_rows_alone_cost_nothing_for_any_loss(loss):
    rows = np.column_stack([X, np.digitize(X[:, 0], [-0.5, 0.5])]) if loss == "softmax" else TABLE
    given = {"label": -1, "loss": loss, "x_pub": rows[:200].copy()}
    alone = train(np.full((50, 3), np.nan), **given, budget=BUDGET, method="throw_away")
    assert alone.method == "throw_away"
    assert alone.spent.amounts[0] == 0
    assert alone.releases == ()
    np.testing.assert_array_equal(alone.coefficients, alone.public_coefficients)
    # Fifty rows at a tiny budget say nothing: "auto" keeps the public fit, and spends nothing.
    assert seeded(train, rows[:50], **given, budget=ZCDP(1e-6)).spent.amounts[0] == 0
    assert seeded(train, rows, **given, budget=ZCDP(1)).method in ("newton", "pda_mirror_descent")


NEIGHBORS = pair_at(TABLE[:30], 3, [9.0, -9.0, 1e9], [9.0, -9.0, -1e9])


@pytest.mark.parametrize("name", RECORDS)
def test_record_and_replay(name, monkeypatch):
    if name == "throw_away":
        assert call(NEIGHBORS[0], name).to_dict() == call(NEIGHBORS[1], name).to_dict()
        return
    report = record_replay(lambda x: call(x, name), *NEIGHBORS, budget=BUDGET)
    assert 0 < report.pair_cost <= report.declared_cost
    if name == "output_perturbation":
        return
    # Planted: a row that counts nine times. A perturbed minimum is no sum that a row moves, and has faults of its own in its file.
    for kind in (MappedQuery, LinearGradientQuery, LossQuery):

        def add(self, chunk, sums, plain=kind.add):
            for _ in range(9):
                plain(self, chunk, sums)

        monkeypatch.setattr(kind, "add", add)
    raises(
        ReplayError,
        r"moved by|sensitivity",
        record_replay,
        lambda x: call(x, name),
        *NEIGHBORS,
        budget=BUDGET,
    )
