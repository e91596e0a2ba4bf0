"""One registry of methods: `train`, `plan` and the command line read it, and each method passes record and replay."""

import numpy as np
import pytest
from spies import seeded

from fastpubpriv import ZCDP, InputError, ReplayError, linear_regression, plan, train
from fastpubpriv.auditing import record_replay
from fastpubpriv.cli.options import Methods
from fastpubpriv.mechanisms.gradients import LinearGradientQuery
from fastpubpriv.mechanisms.losses import LossQuery
from fastpubpriv.mechanisms.residuals import ResidualQuery
from fastpubpriv.mechanisms.sums import GramQuery
from fastpubpriv.training.methods import METHODS, WITHOUT_SETTINGS
from fastpubpriv.training.record import TrainingMethod

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
ISSUED = {
    "newton", "throw_away", "semi_dp", "dp_sgd", "pda_mirror_descent", "output_perturbation",
    "exponential",
}  # fmt: skip
RNG = np.random.default_rng(11)
X = RNG.normal(size=(400, 2))
TABLE = np.column_stack([X, X @ [1.0, -1.0] + RNG.normal(size=400)])
BUDGET = ZCDP(0.5)


def loss_of(name):
    return "huber" if name == "output_perturbation" else "squared"


def call(rows, name, **more):
    common = {"label": -1, "x_pub": TABLE[:40].copy(), "budget": BUDGET, "threads": 1, "progress": False}
    return train(rows, loss=loss_of(name), method=name, **common, **more)


def test_every_method_is_one_record():
    assert set(METHODS) == ISSUED
    assert all(type(each) is TrainingMethod and each.name == name for name, each in METHODS.items())
    assert Methods("fastpubpriv.training.methods").choices() == METHODS.choices == ("auto", *METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_a_name_and_its_settings_are_the_same_method(name):
    found = seeded(call, TABLE[40:], name)
    assert found.method == name
    kind = METHODS[name].settings
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
        same = plan("train", dim=3, n_pub=40, n_priv=2000, budget=BUDGET, loss="logistic", method=name)
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
    assert seeded(train, rows, **given, budget=ZCDP(1)).method == ("newton" if loss == "huber" else "semi_dp")


def test_refusals():
    with pytest.raises(InputError, match="method must be one of"):
        call(TABLE, "newtons")
    with pytest.raises(InputError, match="method must be one of"):
        linear_regression(TABLE, label=-1, x_pub=TABLE[:40].copy(), budget=BUDGET, method="semi_dp")
    with pytest.raises(InputError, match="gradient method"):
        train(TABLE, label=-1, x_pub=TABLE[:40].copy(), budget=BUDGET, loss="softmax", method="newton")
    assert WITHOUT_SETTINGS == ("newton", "throw_away")


def neighbours():
    rows, other = TABLE[:30].copy(), TABLE[:30].copy()
    rows[3], other[3] = [9.0, -9.0, 1e9], [9.0, -9.0, -1e9]
    return rows, other


@pytest.mark.parametrize("name", METHODS)
def test_record_and_replay(name):
    rows, other = neighbours()
    if name == "throw_away":
        assert call(rows, name).to_dict() == call(other, name).to_dict()
        return
    report = record_replay(lambda x: call(x, name), rows, other, budget=BUDGET)
    assert 0 < report.pair_cost <= report.declared_cost


@pytest.mark.parametrize("name", sorted(ISSUED - {"throw_away", "output_perturbation"}))
def test_a_row_that_counts_nine_times_is_caught(name, monkeypatch):
    """A perturbed minimum has faults of its own in its file: it is no sum that a row moves."""

    def often(kind):
        plain = kind.add

        def add(self, chunk, sums):
            for _ in range(9):
                plain(self, chunk, sums)

        monkeypatch.setattr(kind, "add", add)

    for kind in (GramQuery, LinearGradientQuery, LossQuery, ResidualQuery):
        often(kind)
    with pytest.raises(ReplayError, match=r"moved by|sensitivity"):
        record_replay(lambda x: call(x, name), *neighbours(), budget=BUDGET)
