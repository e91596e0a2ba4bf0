"""plan("train"): it predicts what `train` predicts, its turning points are those of `train`, and the rates switch in place."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from click.testing import CliRunner
from spies import seeded

from fastpubpriv import ZCDP, ApproxDP, InputError, PureDP, plan, train
from fastpubpriv.cli.app import main
from fastpubpriv.planning.rates import minimax_rates
from fastpubpriv.planning.train import turning_point, typical_rows

BUDGETS = {"zcdp": ZCDP(rho=0.1), "approx": ApproxDP(epsilon=1.0, delta=1e-6), "pure": PureDP(epsilon=1.0)}
PAIRS = [
    ("auto", "zcdp"),
    ("auto", "approx"),
    ("auto", "pure"),
    ("newton", "approx"),
    ("newton", "pure"),
    ("throw_away", "zcdp"),
    ("semi_dp", "approx"),
    ("dp_sgd", "pure"),
    ("pda_mirror_descent", "approx"),
    ("exponential", "zcdp"),
]


def fitted(public, n_priv, **options):
    """`train` beside these public rows; what the private rows are plays no part in a prediction."""
    private = typical_rows("logistic" if options.get("loss") == "logistic" else "squared", 4, n_priv, 0.5)
    options = {"loss": "squared", **options}
    return seeded(train, private[:, :-1], private[:, -1], x_pub=public[:, :-1], y_pub=public[:, -1], **options)


@pytest.mark.parametrize(("method", "notion"), PAIRS)
@pytest.mark.filterwarnings("ignore::fastpubpriv.errors.AccuracyWarning")
def test_the_plan_is_what_train_predicts(method, notion):
    budget, public = BUDGETS[notion], typical_rows("squared", 4, 60, 0.5)
    planned = plan("train", dim=4, n_pub=60, n_priv=500, budget=budget, method=method)
    result = fitted(public, 500, budget=budget, method=method)
    assert planned.error * public[:, -1].var() == pytest.approx(result.predicted_excess, rel=1e-9)
    if method == "auto":
        assert planned.details[f"takes_{result.method}"] == 1.0
    else:
        same = "public_rows_alone" if method == "throw_away" else method
        assert planned.details[same] == planned.error


@pytest.mark.parametrize("method", ["newton"])
def test_the_plan_is_what_train_predicts_for_rows_with_weights(method):
    budget, public = BUDGETS["zcdp"], typical_rows("squared", 4, 60, 0.5)
    planned = plan("train", dim=4, n_pub=60, n_priv=5000, budget=budget, method=method, mean_weight=0.2)
    weights = {"weights_pub": np.full(60, 1.0), "weights_priv": np.full(5000, 1.0), "weight_cap": 5.0}
    result = fitted(public, 5000, budget=budget, method=method, **weights)
    assert planned.error * public[:, -1].var() == pytest.approx(result.predicted_excess, rel=1e-9)
    whole = plan("train", dim=4, n_pub=60, n_priv=5000, budget=budget, method=method)
    assert whole.error < planned.error < whole.details["public_rows_alone"]


def test_the_plan_is_what_train_predicts_for_the_loss_of_huber():
    budget, public = BUDGETS["zcdp"], typical_rows("huber", 4, 60, 0.5)
    planned = plan("train", dim=4, n_pub=60, n_priv=2000, budget=budget, loss="huber", method="newton")
    result = fitted(public, 2000, budget=budget, loss="huber", method="newton")
    assert planned.error * public[:, -1].var() == pytest.approx(result.predicted_excess, rel=1e-9)
    assert planned.details["without_privacy"] < planned.error < planned.details["public_rows_alone"]


@pytest.mark.parametrize("method", ["auto", "semi_dp"])
def test_the_plan_is_what_train_predicts_for_classes(method):
    budget, public = BUDGETS["approx"], typical_rows("logistic", 4, 60, 0.5)
    planned = plan("train", dim=4, n_pub=60, n_priv=2000, budget=budget, loss="logistic", method=method)
    result = fitted(public, 2000, budget=budget, loss="logistic", method=method)
    assert planned.error == pytest.approx(result.predicted_excess, rel=1e-9)


def test_the_choice_turns_where_the_plan_says():
    budget = ApproxDP(epsilon=0.05, delta=1e-6)
    planned = plan("train", dim=4, n_pub=60, n_priv=400, budget=budget)
    rows, epsilon = int(planned.details["worth_rows"]), planned.details["worth_budget"]
    assert 400 < rows < 4000
    assert 0.05 < epsilon < 1.0
    assert planned.details["takes_public"] == 1.0
    assert planned.error == planned.details["public_rows_alone"]
    public = typical_rows("squared", 4, 60, 0.5)
    assert fitted(public, rows, budget=budget).method != "throw_away"
    assert fitted(public, int(rows * 0.99), budget=budget).method == "throw_away"
    assert fitted(public, 400, budget=ApproxDP(epsilon=epsilon, delta=1e-6)).method != "throw_away"
    assert fitted(public, 400, budget=ApproxDP(epsilon=epsilon * 0.99, delta=1e-6)).method == "throw_away"
    # From the other side the same points are found.
    later = plan("train", dim=4, n_pub=60, n_priv=4000, budget=budget).details
    assert later["worth_rows"] == pytest.approx(rows, rel=3e-3)
    assert later["takes_public"] == 0.0


@pytest.mark.parametrize("slope", [0.6, 1.0, 3.0])
@pytest.mark.parametrize("turn", [3, 130, 4_321, 7_654_321])
def test_margins_say_where_to_ask_and_never_what_is_found(turn, slope):
    """The answer is that of halving, whose margins say nothing; with margins it takes fewer questions."""

    def asked(margin, start):
        numbers = []

        def ask(number):
            numbers.append(number)
            return number >= turn, margin(number)

        return turning_point(start, 1, 10**9, ask), len(numbers)

    questions = np.zeros(2)
    for start in (1, 1000, 10**8, 1000.0):
        plain, halves = asked(lambda number: math.inf, start)
        found, fewer = asked(lambda number: slope * math.log(turn / number) + 0.1 * math.sin(math.log(number)), start)
        assert found == plain
        assert plain == turn or turn <= plain <= 1.001 * turn
        questions += fewer, halves
        misled, _ = asked(lambda number: number % 7 - 3.0, start)
        assert misled == plain
    assert questions[0] <= (0.9 if turn > 1000 else 1.0) * questions[1]


def test_solves_for_rows_and_budget():
    found = plan("train", dim=4, n_pub=60, budget=ZCDP(rho=0.1), error=0.01, method="newton")
    assert found.error <= 0.01
    assert plan("train", dim=4, n_pub=60, n_priv=found.n_priv - 1, budget=ZCDP(rho=0.1), method="newton").error > 0.01
    same = plan("train", dim=4, n_pub=60, n_priv=found.n_priv, error=0.01, method="newton")
    assert float(same.budget.rho) == pytest.approx(0.1, rel=0.02)
    assert plan("train", dim=4, n_pub=60, n_priv=9, error=0.9, method="throw_away").details["worth_rows"] == math.inf
    with pytest.raises(InputError, match="no number of rows"):
        plan("train", dim=4, n_pub=60, budget=ZCDP(rho=0.1), error=0.001, method="throw_away")


@pytest.mark.parametrize(("budget", "cost"), [(ZCDP(rho=0.01), 5000.0), (PureDP(epsilon=0.5), 10_000.0)])
def test_the_rates_switch_where_they_say(budget, cost):
    turn = minimax_rates(n_priv=1000, n_pub=1, dim=50, budget=budget).public_rows
    assert turn == pytest.approx(1000**2 / (cost - 1000))
    below, above = (minimax_rates(n_priv=1000, n_pub=n, dim=50, budget=budget) for n in (int(turn), int(turn) + 1))
    assert (below.public_decides, above.public_decides) == (False, True)
    assert above.private == pytest.approx(cost / (1001 + int(turn)) ** 2 + 1 / (1001 + int(turn)))
    # With more private rows than privacy costs, public rows alone never have the best rate.
    assert minimax_rates(n_priv=int(cost) + 1, n_pub=10**9, dim=50, budget=budget).public_rows == math.inf
    assert not minimax_rates(n_priv=int(cost) + 1, n_pub=10**9, dim=50, budget=budget).public_decides


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"n_pub": 1}, "n_pub of at least 2"),
        ({"n_pub": 2**24}, "2\\^24 cells"),
        ({"loss": "poisson"}, "loss"),
        ({"method": "exponentials"}, "method"),
        ({"method": "output_perturbation"}, "bounded"),
        ({"r_squared": 1.0}, "r_squared"),
        ({"r_squared": -0.1}, "r_squared"),
        ({"mean_weight": 0.0}, "mean_weight"),
        ({"mean_weight": 2.0}, "units of weight_cap"),
        ({"mean_weight": 0.5, "method": "semi_dp"}, "not for this loss or method"),
        ({"radius": 3.0}, "no argument 'radius'"),
    ],
)
def test_refusals(changed, match):
    with pytest.raises(InputError, match=match):
        plan("train", **{"dim": 3, "n_pub": 20, "n_priv": 1000, "budget": ZCDP(rho=0.5), **changed})


def test_command():
    words = "plan train --dim 3 --n-pub 30 --n-priv 2000 --rho 0.2 --loss logistic --r-squared 0.3 --json -"
    done = CliRunner().invoke(main, words.split(), catch_exceptions=False)
    found = json.loads(done.output)
    same = plan("train", dim=3, n_pub=30, n_priv=2000, budget=ZCDP(rho=Fraction(1, 5)), loss="logistic", r_squared=0.3)
    assert found["error"] == pytest.approx(same.error)
    assert found["details"]["worth_rows"] == same.details["worth_rows"]
    refused = CliRunner().invoke(main, words.replace("train", "mean").split())
    assert refused.exit_code == 2
    assert "--loss is not an option of 'plan mean'" in refused.output


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_with_few_public_rows_the_plan_says_that_it_guesses(loss):
    given = {"loss": loss, "dim": 20, "n_priv": 5000, "budget": BUDGETS["approx"]}
    few, more = plan("train", n_pub=21, **given), plan("train", n_pub=22, **given)
    assert few.details["is_a_guess"] == 1.0
    assert "a guess" in repr(few)
    assert "may be far too small" in few.summary()
    assert more.details["is_a_guess"] == 0.0
    assert "guess" not in repr(more)
    words = [
        "plan",
        "train",
        "--dim",
        "20",
        "--n-pub",
        "5",
        "--n-priv",
        "5000",
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
        "--loss",
    ]
    shown = CliRunner().invoke(main, [*words, loss])
    assert shown.exit_code == 0
    assert "guess" in shown.output
