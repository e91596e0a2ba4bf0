"""Regressions aim at exact coefficients of all private rows: oracles, intervals, reasons against them, and planted faults."""

import dataclasses

import numpy as np
import pytest
from helpers.errors import raises
from helpers.neighbors import pair_at
from regression.test_regression import split
from spies import seeded

from fastpubpriv import (
    ZCDP,
    ApproxDP,
    InputError,
    PureDP,
    linear_regression,
    logistic_regression,
    plan,
    train,
)
from fastpubpriv.auditing import record_replay
from fastpubpriv.regression import curvature, exact, newton, public_fits
from fastpubpriv.regression import regression_tuning as tuning
from fastpubpriv.regression.curvature import PooledMoment
from fastpubpriv.regression.exact import ExactStep
from fastpubpriv.regression.problem import Fitted
from fastpubpriv.results.models import TrainingResult
from fastpubpriv.training import huber_loss, methods

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
HUGE = ZCDP(1e6)


def gaussian(seed, n=6000):
    rng = np.random.default_rng([1, seed])
    x = rng.normal(size=(n, 3)) * [1.0, 10.0, 0.1]
    return x, x @ [1.0, 0.2, -3.0] + 2.0 + rng.normal(size=n)


def multiplied(seed, n=10_000):
    """The label is its column times a lognormal factor: residuals of a Newton step are clipped, and least squares is 2.05."""
    rng = np.random.default_rng([2, seed])
    x = rng.exponential(size=(n, 1))
    return x, x[:, 0] * rng.lognormal(0.0, 1.2, size=n)


def least_squares(x, y):
    """[intercept, slopes], and the deviations that sampling gives the slopes."""
    rows = np.column_stack([np.ones(len(x)), x])
    found = np.linalg.lstsq(rows, y, rcond=None)[0]
    inverse = np.linalg.inv(rows.T @ rows)
    squares = (rows * ((y - rows @ found) ** 2)[:, None]).T @ rows
    return found, np.sqrt(np.diag(inverse @ squares @ inverse))[1:]


def fitted(x, y, m, function=linear_regression, **given):
    return seeded(function, **split(x, y, m), **{"budget": HUGE, **given})


@pytest.mark.parametrize("law", [gaussian, multiplied])
def test_without_noise_the_answer_is_least_squares(law):
    """20 public rows: they are few, so that next to nothing of them is pooled; a bad start costs nothing."""
    x, y = law(0)
    result = fitted(x, y, 20)
    wanted, deviation = least_squares(x[20:], y[20:])
    pooled = 20.0 / len(x) * np.abs(result.public_coefficients - wanted[1:])
    assert np.all(np.abs(result.coefficients - wanted[1:]) < pooled + 0.05 * deviation)
    light = fitted(x, y, 20, tails="light")
    if law is multiplied:
        assert abs(light.coefficients[0] - wanted[1]) > 1.5 * deviation[0]


def test_without_noise_the_answer_is_the_likeliest():
    rng = np.random.default_rng(3)
    x = rng.lognormal(0.0, 1.0, size=(8000, 2))
    y = (rng.random(8000) < 1.0 / (1.0 + np.exp(-np.log(x) @ [1.0, -1.0]))).astype(float)
    result = fitted(x, y, 100, logistic_regression)
    rows = np.column_stack([np.ones(7900), x[100:]])
    wanted = public_fits.fit(rows, y[100:], np.ones(7900), 1e-9 * np.eye(3), np.zeros(3))
    p = public_fits.chances(rows @ wanted)
    deviation = np.sqrt(np.diag(np.linalg.inv((rows.T * (p * (1.0 - p))) @ rows)))[1:]
    assert np.all(np.abs(result.coefficients - wanted[1:]) < 0.6 * deviation)
    lower, upper = result.confidence_interval()
    assert np.all((lower < wanted[1:]) & (wanted[1:] < upper))


def huber_minimum(x, y, threshold):
    """Intercept and slopes of the least Huber loss, by weighted least squares in turn."""
    rows = np.column_stack([np.ones(len(x)), x])
    theta = np.linalg.lstsq(rows, y, rcond=None)[0]
    for _ in range(200):
        size = np.abs(y - rows @ theta)
        weights = np.minimum(1.0, threshold / np.maximum(size, 1e-300))
        theta = np.linalg.solve((rows.T * weights) @ rows, rows.T @ (weights * y))
    return theta


def test_without_noise_the_huber_answer_is_the_minimum_of_all_rows():
    """A tenth of the labels is far too large; the unit of the fit is the deviation of public labels."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(8200, 2))
    y = x @ [1.0, -1.0] + rng.normal(size=8200) + 30.0 * (rng.random(8200) < 0.1)
    result = fitted(x, y, 200, train, loss=huber_loss(0.1), method="newton")
    wanted = huber_minimum(x[200:], y[200:], 0.1 * y[:200].std())
    lower, upper = result._ends(0.95, rows=True)
    assert np.all(np.abs(result.coefficients - wanted[1:]) < 0.05 * result.standard_error[1:])
    assert np.all((lower < wanted) & (wanted < upper))


@pytest.mark.parametrize(
    ("budget", "rounds"), [(ZCDP(1), 2), (ZCDP(0.01), 1), (PureDP(1), 1), (PureDP(20), 2)]
)
def test_rounds_of_bounded_residuals_follow_the_noise(budget, rounds):
    """16 D sigma^2 / n is .032, 3.2, .51 and .0013: two where it is below 3 and the halves of pure epsilon double at most .1."""
    x, y = gaussian(2, n=4200)
    result = fitted(x, y, 200, train, loss="huber", budget=budget, method="newton")
    counted = [each["name"] for each in result.releases if each["name"].startswith("curvature")]
    assert len(counted) == rounds


def test_a_second_move_that_is_cut_is_a_fallback(monkeypatch):
    x, y = gaussian(2)
    given = {"function": train, "loss": "huber", "budget": ZCDP(0.5), "method": "newton"}
    assert fitted(x, y, 200, **given).reasons == ()
    monkeypatch.setattr(tuning, "LONGEST_MOVE", 1e-6)
    assert set(fitted(x, y, 200, **given).part_reasons) == {("fallback",)}


def test_light_tails_and_little_noise_save_passes(monkeypatch):
    """Radii from public rows: counts are released in the pass that they are for, in one round, and the answer is the same."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(20_000, 2))
    y = (rng.random(len(x)) < 1.0 / (1.0 + np.exp(-x @ [1.0, -1.0]))).astype(float)
    joint = fitted(x, y, 200, logistic_regression, budget=ZCDP(2.0))
    assert [each["name"] for each in joint.releases][-2:] == [
        "norms of the rows' curvature, and curvature", "norms of scores and two pieces of scores and their squares",
    ]  # fmt: skip
    given = {**split(x, y, 200), "budget": ZCDP(2.0), "threads": 1, "progress": False}
    pair = pair_at(
        np.column_stack([given.pop("x_priv"), given.pop("y_priv")]),
        3,
        [1e9, 0.0, 0.0],
        [-1e9, 0.0, 0.0],
    )
    call = lambda rows: logistic_regression(rows[:, :2].copy(), rows[:, 2].copy(), **given)  # noqa: E731
    report = record_replay(call, *pair, budget=ZCDP(2.0))
    assert 0 < report.pair_cost <= report.declared_cost
    monkeypatch.setattr(tuning, "NOISELESS", 0.0)
    apart = fitted(x, y, 200, logistic_regression, budget=ZCDP(2.0))
    assert (
        len(apart.releases) == len(joint.releases) + 6
    )  # two counts in each of two rounds, and a round of two sums
    assert np.all(np.abs(apart.coefficients - joint.coefficients) < 0.3 * joint.standard_error[1:])
    assert np.all(np.abs(np.log(joint.standard_error / apart.standard_error)) < 0.1)


def test_units_and_signs_carry_over():
    x, y = gaussian(2)
    one = fitted(x, y, 50)
    scaled = fitted(x * [8.0, 0.5, 1024.0] + 16.0, 4.0 * y - 7.0, 50)
    assert np.allclose(scaled.coefficients * [8.0, 0.5, 1024.0] / 4.0, one.coefficients, atol=1e-3)
    turned = fitted(x, -y, 50)
    assert np.allclose(turned.coefficients, -one.coefficients, atol=1e-3)


def slopes(x, y):
    wanted, deviation = least_squares(x, y)
    return wanted[1:], deviation


def covered(budget, m, runs, law=multiplied, fit=fitted, best=slopes, **given):
    """Share of intervals that hold the best slopes, and the median error in deviations of sampling."""
    inside = []
    errors = []
    for seed in range(runs):
        x, y = law(seed)
        result = fit(x, y, m, budget=budget, random_state=seed, **given)
        wanted, deviation = best(x[m:], y[m:])
        lower, upper = result.confidence_interval()
        inside.append((lower < wanted) & (wanted < upper))
        errors.append(np.abs(result.coefficients - wanted) / deviation)
    return float(np.mean(inside)), float(np.median(errors))


@pytest.mark.parametrize("budget", [ZCDP(0.5), ApproxDP(1, 1e-6), PureDP(1)], ids=str)
def test_intervals_hold_where_few_rows_decide(budget):
    """Newton steps alone held a sixth to a third of them."""
    share, error = covered(budget, 50, 8)
    assert share >= 0.85
    assert error < 4.0
    assert covered(budget, 50, 8, tails="light")[0] < 0.6


def test_rows_that_no_count_shows_may_pull_one_way(monkeypatch):
    """Labels that end at a most, as prices in a list do: the largest rows all lie below the line."""

    def held():
        found = []
        for seed in range(12):
            rng = np.random.default_rng([7, seed])
            x = rng.lognormal(-0.4, 0.58, size=20_000)
            y = np.minimum(4.2 * x**1.6 * rng.lognormal(0.0, 0.4, size=len(x)), 18.8)
            lower, upper = fitted(
                x[:, None], y, 200, budget=ApproxDP(1, 1e-6)
            ).confidence_interval()
            found.append(lower[0] <= least_squares(x[200:, None], y[200:])[0][1] <= upper[0])
        return sum(found)

    assert held() == 12
    # planted: they pull in all directions
    monkeypatch.setattr(ExactStep, "_far_out", lambda *_: 0.0)
    assert held() < 12


def test_steps_along_a_long_column_are_a_small_part_of_the_public_error():
    """The ball of the curvature is narrow under pure privacy, and cuts off more of a long column than that of the scores."""
    ratios = []
    for seed in range(8):
        rng = np.random.default_rng([12, seed])
        x = np.column_stack(
            [np.minimum(rng.pareto(1.2, size=20_200) + 1.0, 50.0), rng.normal(size=(20_200, 2))]
        )
        y = x[:, 1] - 3.0 * np.sqrt(x[:, 0]) + rng.normal(size=len(x)) * 3.0
        rows = np.column_stack([np.ones(len(x)), x])
        wanted, _ = least_squares(x[200:], y[200:])
        result = fitted(x, y, 200, budget=PureDP(1), random_state=seed)
        lower, upper = result.confidence_interval()
        assert lower[0] < wanted[1] < upper[0]
        found, public = (
            np.mean((rows @ (coefficients - wanted)) ** 2)
            for coefficients in (
                np.append(result.intercept, result.coefficients),
                np.append(result.public_intercept, result.public_coefficients),
            )
        )
        ratios.append(found / public)
    assert np.median(ratios) < 0.25


@pytest.mark.parametrize("function", [linear_regression, logistic_regression])
def test_zeros_and_ones_have_no_heavy_tail(function):
    """Residuals of classes are skewed: their outer pieces point one way without any far row."""
    for seed in range(3):
        rng = np.random.default_rng([8, seed])
        x = (rng.random((20_200, 2)) < 0.3) * 1.0
        result = fitted(
            x, (rng.random(len(x)) < 0.2 + 0.3 * x[:, 0]) * 1.0, 200, function, budget=ZCDP(1)
        )
        lower, upper = result.confidence_interval()
        assert result.reasons == ()
        assert np.all(upper - lower < 1.3 * 3.92 * result.standard_error)


def test_standard_errors_are_those_of_residuals_that_grow_with_a_column(monkeypatch):
    rng = np.random.default_rng(11)
    x = rng.normal(size=(30_000, 2))
    y = x @ [1.0, -1.0] + np.abs(x[:, 0]) * rng.normal(size=len(x))

    def ratio(budget):
        result = fitted(x, y, 200, budget=budget)
        return (
            np.sqrt(np.diag(result.covariance - result.noise_covariance))[1:]
            / least_squares(x, y)[1]
        )

    both = ratio(ZCDP(5))
    assert np.all(both > 1.0)
    assert np.all(both < 1.4)
    monkeypatch.setattr(exact, "shape_of_squares", lambda found: np.eye(found.dim))  # planted
    assert ratio(ZCDP(5))[0] < 0.95


def test_auto_spends_where_public_rows_seem_to_be_enough():
    x, y = multiplied(7)
    result = fitted(x, y, 500, budget=ZCDP(1e4))
    wanted, deviation = least_squares(x[500:], y[500:])
    assert result.method == "newton"
    assert abs(result.coefficients[0] - wanted[1]) < 0.5 * deviation[0]
    drowned = fitted(x[:1000], y[:1000], 500, budget=ZCDP(1e-4))
    assert drowned.method == "throw_away"
    assert float(drowned.spent.amounts[0]) == 0.0


def test_intervals_of_public_rows_alone_are_about_least_squares(monkeypatch):
    """One of 40 columns matters: shrinkage of all by one factor takes it three of its standard errors away."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(400, 40))
    y = 0.5 * x[:, 0] + rng.normal(size=400)
    wanted, deviation = least_squares(x[:100], y[:100])
    result, light = (
        fitted(x, y, 100, method="throw_away", tails=tails) for tails in ("any", "light")
    )
    assert np.allclose(result.interval_center, wanted)
    assert np.all(result.standard_error > deviation)
    for found in (result, light):
        assert abs(found.coefficients[0] - wanted[1]) < 1.1 * found.standard_error[0]
    # planted: the posterior of one prior for all
    monkeypatch.setattr(
        methods,
        "public_fit",
        lambda problem: Fitted(
            mean=problem.posterior.mean,
            covariance=problem.posterior.covariance,
            noise=np.zeros((41, 41)),
        ),
    )
    shrunk = fitted(x, y, 100, method="throw_away", tails="light")
    assert abs(shrunk.coefficients[0] - wanted[1]) > 3.0 * shrunk.standard_error[0]


def test_intervals_of_public_rows_alone_are_about_the_likelihood():
    """Of 10 columns one matters: about the ridge fit the intervals of 30 draws held its coefficient in 14."""
    held = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(120, 10))
        y = (rng.random(120) < 1.0 / (1.0 + np.exp(-x[:, 0]))).astype(float)
        result = fitted(x, y, 100, logistic_regression, method="throw_away")
        lower, upper = result.confidence_interval()
        held.append(lower[0] <= 1.0 <= upper[0])
    assert np.mean(held) >= 0.9


def test_public_rows_from_elsewhere_are_not_pooled(monkeypatch):
    x, y = gaussian(3)
    y[:200] += 3.0
    result = fitted(x, y, 200, budget=ZCDP(0.5))
    wanted, _ = least_squares(x[200:], y[200:])
    assert set(result.part_reasons) == {("shifted",)}
    assert result.public_drift > 5.0
    assert "public and private rows differ" in result.summary()
    assert abs(result.intercept - wanted[0]) < 0.1
    assert abs(result.interval_center[0] - wanted[0]) < 0.05
    # planted: they always agree
    monkeypatch.setattr(ExactStep, "_disagreement", lambda self, apart, tail: 1.0)
    assert abs(fitted(x, y, 200, budget=ZCDP(0.5)).interval_center[0] - wanted[0]) > 0.05


def test_private_rows_of_another_range_or_category():
    x, y = gaussian(4)
    x[200:, 1] += 80.0
    assert set(fitted(x, y, 200, budget=ZCDP(5)).part_reasons) == {("shifted",)}
    # A category that no public row has.
    rng = np.random.default_rng(6)
    x = np.column_stack([rng.normal(size=8000), rng.integers(0, 4, 8000)])
    y = x[:, 0] + 2.0 * (x[:, 1] == 3.0) + rng.normal(size=8000)
    given = {"label": -1, "categories": {"x1": "public"}, "budget": ZCDP(0.5)}
    table = np.column_stack([x, y])
    alike = seeded(linear_regression, table[300:], x_pub=table[:300].copy(), **given)
    assert alike.status == "ok"
    public = table[:300][table[:300, 1] < 3.0]
    assert set(seeded(linear_regression, table[300:], x_pub=public, **given).part_reasons) == {
        ("shifted",)
    }


def test_a_curvature_taken_from_few_public_rows_is_caught(monkeypatch):
    """Planted: whitened rows are taken to have the second moment that they have in public."""
    right = covered(ZCDP(50), 20, 6)
    plain = exact.measure_curvature

    def identity(*given):
        found = plain(*given)
        return dataclasses.replace(found, matrix=np.eye(len(found.matrix)), noise=0.0, clipped=0.0)

    monkeypatch.setattr(exact, "measure_curvature", identity)
    wrong = covered(ZCDP(50), 20, 6)
    assert right[0] >= 0.8
    assert wrong[1] > 2.0 * right[1]


def test_directions_that_hardly_vary_are_held():
    found = PooledMoment(
        matrix=np.diag([4.0, 0.25]), noise=0.0, clipped=0.0, unseen=np.zeros((2, 0)), raised=0.02, flattest=np.zeros(0),
        plain=np.eye(2), plain_noise=0.0,
    )  # fmt: skip
    assert np.allclose(found.power(-0.5), np.diag([0.5, 2.0]))
    flat = dataclasses.replace(
        found, matrix=np.diag([1.0, 0.02]), unseen=np.eye(2)[:, 1:], flattest=np.array([1e-4])
    )
    assert (flat.hidden_parts(np.array([[1.0, 0.03], [1.0, 0.003]])) > 0.25).tolist() == [
        [True],
        [False],
    ]
    rng = np.random.default_rng(8)
    x = rng.normal(size=(3000, 2))
    x[100:, 1] *= 0.01  # private rows hardly vary where public ones do
    result = fitted(x, x[:, 0] + rng.normal(size=3000), 100, budget=ZCDP(0.5))
    assert result.part_reasons[2] in (("few_rows",), ("shifted",))
    # Other coefficients do not rest on it.
    assert result.part_reasons[1] == (("shifted",) if "shifted" in result.reasons else ())


def test_columns_that_agree_in_public_rows_but_for_a_few_private_ones():
    """Scores of two parties and their mean, rounded in one row of a hundred: these alone tell the three coefficients apart."""
    rng = np.random.default_rng(9)
    x = rng.integers(0, 98, size=(20_000, 2)).astype(float)
    both = x.mean(axis=1)
    both[200:][rng.random(19_800) < 0.01] += 1.0
    x = np.column_stack([x, both, rng.normal(size=len(x))])
    result = fitted(x, x[:, 3] + 0.3 * x[:, 0] + rng.normal(size=len(x)), 200, budget=ZCDP(0.5))
    # Their variation along the combination that is constant in public rows is below the noise of the curvature.
    assert result.part_reasons[1:4] == (("collinear",),) * 3
    assert "collinear" not in result.part_reasons[4]


def test_the_plan_is_known_before_the_debit():
    x, y = gaussian(5)
    result = fitted(x, y, 100, budget=ZCDP(0.5))
    names = [each["name"] for each in result.releases]
    assert names[-4::3] == [
        "norms of the rows' curvature",
        "two pieces of scores and their squares",
    ]
    assert 1 <= len(names) - 4 <= tuning.MOST_STEPS
    assert result.provenance["radius of scores"] == "released"
    assert result.numerics["noise_draws"] >= sum(each.get("draws", 0) for each in result.releases)
    details = plan("train", dim=3, n_pub=100, n_priv=5900, budget=ZCDP(0.5)).details
    assert details["takes_newton"] == 1.0
    assert details["steps"] == len(names)


def test_results_read_back_and_old_steps_have_no_tails(tmp_path):
    x, y = multiplied(9)
    result = fitted(x, y, 100, budget=ZCDP(0.5))
    again = TrainingResult.from_json(result.to_json())
    assert again.to_dict() == result.to_dict()
    assert np.array_equal(again.confidence_interval(), result.confidence_interval())
    assert result.tail_above[1] > 0.0
    lower, upper = result.confidence_interval()
    assert lower[0] < result.coefficients[0] < upper[0]
    inner = result.confidence_interval(0.5)
    assert lower[0] < inner[0][0] < inner[1][0] < upper[0]
    light = fitted(x, y, 100, budget=ZCDP(0.5), tails="light")
    assert not light.tail_above.any()
    assert np.array_equal(light.interval_center[1:], light.coefficients)
    huber = fitted(x, y, 100, train, budget=ZCDP(0.5), loss="huber")
    assert huber.coefficients[0] < 0.8 * result.coefficients[0]  # a robust slope
    raises(InputError, "tails must be one of", fitted, x, y, 100, tails="heavy")


def test_intervals_of_the_rows_leave_out_sampling():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(4_100, 3))
    y = x @ [1.0, -1.0, 0.5] + rng.normal(size=len(x))
    result = fitted(x, y, 100, budget=ZCDP(50.0))
    (low, high), (lower, upper) = (
        result.confidence_interval(of="rows"),
        result.confidence_interval(),
    )
    assert np.all(high - low < 0.5 * (upper - lower))
    wanted = least_squares(x[100:], y[100:])[0][1:]
    assert np.all((low <= wanted) & (wanted <= high))
    raises(InputError, "of must be", result.confidence_interval, of="sample")


def test_few_public_rows_for_their_columns(monkeypatch):
    """Indicators of three categories with some rare levels, of which few public rows have one, and a number."""

    def held():
        inside = []
        for seed in range(6):
            rng = np.random.default_rng([8, seed])
            levels = [
                rng.choice(6, size=20_050, p=[0.02, 0.03, 0.1, 0.15, 0.3, 0.4]) for _ in range(3)
            ]
            x = np.column_stack(
                [rng.lognormal(size=20_050), *(level == j for level in levels for j in range(1, 6))]
            )
            y = x @ np.linspace(4.0, -4.0, x.shape[1]) + rng.standard_t(4, size=len(x))
            result = fitted(x, y, 50, budget=ZCDP(0.5))
            # A level that no public row has is a constant column, and no term of the least squares that is fitted.
            kept = np.isfinite(result.coefficients)
            wanted = least_squares(x[50:, kept], y[50:])[0][1:]
            lower, upper = result.confidence_interval()
            inside += ((lower[kept] <= wanted) & (wanted <= upper[kept])).tolist()
        return np.mean(inside)

    assert held() > 0.95
    monkeypatch.setattr(
        ExactStep, "_unseen", lambda self, *_: (np.zeros(self.curvature.unseen.shape[1]),) * 2
    )
    assert held() < 0.9


def test_steps_do_not_run_away_where_private_rows_vary_more(monkeypatch):
    """Steps are six times too long: their average reaches the minimum, and the last one alone does not."""

    def off():
        rng = np.random.default_rng(9)
        x = rng.normal(size=(20_040, 10)) * np.where(np.arange(20_040) < 40, 1.0, 2.5)[:, None]
        y = x @ np.ones(10) + rng.normal(size=len(x))
        return np.max(np.abs(fitted(x, y, 40, budget=ZCDP(5.0), tails="light").coefficients - 1.0))

    assert off() < 0.1
    pooled = newton.NewtonState._pool

    def last_alone(self, now, sampling):
        self._measured = self._measured[-1:]
        pooled(self, now, sampling)

    monkeypatch.setattr(newton.NewtonState, "_pool", last_alone)
    assert off() > 0.2


def test_a_curvature_that_vanished_with_its_noise_is_held():
    """Classes that a step told apart: rows are clipped to next to none, and so is the noise; inverse roots stay finite."""
    rows = 1e-11 * np.random.default_rng(0).normal(size=(60, 4))
    released = curvature.ReleasedCurvature(
        mean=1e-22 * np.eye(4), noise=1e-24, clipped=0.0, unit=1.0
    )
    moment = curvature.pooled_curvature(released, rows.T @ rows / 60, rows, n=5_000)
    least = np.linalg.eigvalsh(moment.matrix)[0]
    np.testing.assert_allclose(least, tuning.LEAST_CURVATURE, rtol=1e-9)
    assert np.isfinite(moment.power(-0.5)).all()
