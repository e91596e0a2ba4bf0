"""`train(method="auto")`: the least of planted predictions, record and replay, and errors beside those of Algorithm 1."""

import math
from dataclasses import replace

import numpy as np
import pytest
from helpers.neighbors import pair_at
from spies import seeded

from benchmarks.training_choice import Setting, draw, excess
from fastpubpriv import ZCDP, ApproxDP, InputError, PureDP, linear_regression, plan, train
from fastpubpriv.auditing import record_replay
from fastpubpriv.gradient.gradient_problem import SemiDP, make_gradient_problem
from fastpubpriv.regression.inputs import DataSpec
from fastpubpriv.regression.problem import make_problem
from fastpubpriv.results.models import TrainingResult
from fastpubpriv.rowwise.losses import LOSSES
from fastpubpriv.session import MethodPlan
from fastpubpriv.training import methods
from fastpubpriv.training.methods import METHODS, Choice, choose

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
RNG = np.random.default_rng(5)
X = RNG.normal(size=(400, 2))
TABLE = np.column_stack([X, X @ [1.0, -1.0] + RNG.normal(size=400)])
BUDGET = ZCDP(0.5)


def problem_of(n_pub):
    return make_problem(LOSSES["squared"], TABLE[:n_pub], ("a", "b"), 1000, DataSpec())[0]


def chosen(predictions, n_pub=40):
    """Name of the method that is chosen by planted predictions, in parts of the error of public rows; an error is raised."""

    def planted(predicted):
        def prepare(problem, account):
            if isinstance(predicted, Exception):
                raise predicted
            return MethodPlan(predicted=predicted, public_excess=1.0, steps=1)

        return prepare

    choices = [
        Choice(
            method=replace(METHODS[name], prepare=planted(value), draws=lambda _: 1),
            problem=problem_of(n_pub),
        )
        for name, value in predictions.items()
    ]
    return choose(choices, "train", BUDGET).method.name


def test_the_smaller_prediction_is_chosen():
    assert chosen({"newton": 0.5, "semi_dp": 0.2, "pda_mirror_descent": 0.3}) == "semi_dp"
    assert chosen({"newton": 0.2, "semi_dp": 0.5}) == "newton"


@pytest.mark.parametrize("predicted", [math.nan, math.inf, None])
def test_a_method_without_a_finite_prediction_is_never_chosen(predicted):
    assert chosen({"newton": 0.5, "semi_dp": predicted}) == "newton"
    assert chosen({"newton": predicted, "semi_dp": predicted}) == "throw_away"


def test_a_method_that_raises_is_left_out():
    assert chosen({"newton": 0.5, "semi_dp": InputError("no grid")}) == "newton"
    assert chosen({"newton": InputError("no grid"), "semi_dp": 0.5}) == "semi_dp"
    assert chosen({"newton": InputError("no grid")}) == "throw_away"


def test_newton_wins_a_tie_within_a_tenth():
    assert chosen({"newton": 0.109, "semi_dp": 0.1}) == "newton"
    assert chosen({"newton": 0.111, "semi_dp": 0.1}) == "semi_dp"


def test_public_rows_stay_alone_if_no_method_gains_a_tenth_or_only_two_are_public():
    assert chosen({"newton": 0.95, "semi_dp": 0.91}) == "throw_away"
    assert chosen({"newton": 0.1, "semi_dp": 0.05}, n_pub=2) == "throw_away"


def test_gradient_methods_are_not_compared_with_fewer_than_two_public_rows_a_coefficient():
    assert chosen({"newton": 0.5, "semi_dp": 0.1}, n_pub=5) == "newton"
    assert chosen({"newton": 0.5, "semi_dp": 0.1}, n_pub=6) == "semi_dp"


def test_verbs_that_promise_intervals_compare_no_gradient_method(monkeypatch):
    def refuse(*_):
        raise AssertionError("a gradient method has no intervals")

    monkeypatch.setattr(methods, "gradient_choices", refuse)
    found = seeded(linear_regression, TABLE[40:], label=-1, x_pub=TABLE[:40].copy(), budget=BUDGET)
    assert isinstance(found, TrainingResult)
    assert found.method == "newton"


@pytest.mark.parametrize("loss", ["squared", "smooth_hinge"])
def test_auto_is_the_method_that_it_chooses_bit_for_bit(loss):
    rows = TABLE if loss == "squared" else np.column_stack([X, X[:, 0] > 0.0])
    given = {"label": -1, "x_pub": rows[:60].copy(), "budget": BUDGET, "loss": loss}
    found = seeded(train, rows[60:], **given)
    named = seeded(train, rows[60:], **given, method=found.method)
    assert found.method != "throw_away"
    np.testing.assert_array_equal(found.coefficients, named.coefficients)
    assert found.to_dict() == named.to_dict()


@pytest.mark.parametrize("loss", ["squared", "huber", "logistic", "smooth_hinge"])
@pytest.mark.parametrize("budget", [ZCDP(0.5), PureDP(2)], ids=["zcdp", "pure"])
def test_record_and_replay(loss, budget):
    """The choice rests on public numbers: neighbors have the same releases, within what is debited."""
    of_classes = loss in ("logistic", "smooth_hinge")
    rows = np.column_stack([X, X[:, 0] > 0.0]) if of_classes else TABLE
    pair = pair_at(rows[60:100], 3, [9.0, -9.0, 1.0], [9.0, -9.0, 0.0])
    common = {"label": -1, "x_pub": rows[:60].copy(), "threads": 1, "progress": False}
    report = record_replay(
        lambda x: train(x, loss=loss, budget=budget, **common), *pair, budget=budget
    )
    assert report.pair_cost <= report.declared_cost


@pytest.mark.parametrize("steps", [2, 8, 32])
def test_one_pass_is_never_predicted_to_be_better_than_full_batches(steps):
    n = 4000
    made = make_gradient_problem(
        LOSSES["squared"], TABLE[:60], ("a", "b"), n, scaling="standard", stated=DataSpec()
    )[0]
    predicted = {}
    for name, sampling in {
        "full": {},
        "one pass": {"sampling": "one_pass", "batch_rows": n // steps},
    }.items():
        problem = replace(made, settings=SemiDP(steps=steps, **sampling))
        choice = Choice(method=METHODS["semi_dp"], problem=problem).prepared("train", BUDGET)
        predicted[name] = choice.plan.predicted
    assert predicted["one pass"] > predicted["full"]


def test_the_plan_says_which_method_auto_takes():
    found = plan("train", dim=20, n_pub=60, n_priv=10_000, budget=ApproxDP(1, 1e-6))
    assert found.details["takes_newton"] == 1.0
    assert found.error <= 1.1 * min(found.details[name] for name in ("newton", "semi_dp"))


def test_auto_is_no_worse_than_algorithm_1_on_gaussian_rows():
    """A setting of `python -m benchmarks.training_choice` at a quarter of its rows: mean excess of four seeded draws."""
    setting = Setting(20, 5_000, 100, 1.0)
    errors = {"auto": [], "semi_dp": []}
    for seed in range(4):
        x, y, best = draw(setting, "squared", seed)
        given = {"x_pub": x[:100].copy(), "y_pub": y[:100], "budget": ApproxDP(1, 1e-6)}
        for method, found in errors.items():
            fitted = seeded(train, x[100:], y[100:], loss="squared", method=method, **given)
            found.append(excess(fitted, "squared", best, 1.0))
    assert np.mean(errors["auto"]) <= 1.1 * np.mean(errors["semi_dp"]), errors


@pytest.mark.parametrize(
    ("loss", "words"),
    [("squared", 'pass method="newton"'), ("smooth_hinge", "the smooth_hinge loss has no such")],
)
def test_a_result_without_intervals_says_why(loss, words):
    rows = TABLE if loss == "squared" else np.column_stack([X, X[:, 0] > 0.0])
    given = {"label": -1, "x_pub": rows[:60].copy(), "budget": BUDGET, "loss": loss}
    text = seeded(train, rows[60:], **given, method="semi_dp").summary()
    assert words in text, text
