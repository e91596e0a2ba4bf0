"""Intervals of regression: their coverage, columns with long tails, lines that bend, and what few public rows cannot see."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from regression.test_coefficients import fitted
from regression.test_regression import STRONG, split
from regression.test_regression_accuracy import METHODS, relative
from scipy import optimize
from spies import seeded

from benchmarks.papers import newton_beyond as beyond
from examples import new_york
from fastpubpriv import ApproxDP, linear_regression, logistic_regression, train
from fastpubpriv.regression import coordinates, newton, public_fits
from fastpubpriv.regression import problem as leverage
from fastpubpriv.regression.coordinates import Whitener, water_filled, weighting
from fastpubpriv.regression.inputs import DataSpec, make_design
from fastpubpriv.regression.newton import NewtonState, plan_newton
from fastpubpriv.regression.problem import make_problem
from fastpubpriv.regression.public_fits import Posterior, huber_posterior, linear_posterior
from fastpubpriv.results.models import TrainingResult
from fastpubpriv.rowwise.losses import LOSSES
from fastpubpriv.training import SemiDP, huber_loss, methods

BUDGET = ApproxDP(1, 1e-5)
RUNS = 120
MIXING = np.linalg.cholesky(np.full((9, 9), 0.5) + 0.5 * np.eye(9))
LAWS = {
    "normal": lambda rng: rng.normal(size=20_500),
    "t4": lambda rng: rng.standard_t(4, size=20_500),
    "exponential": lambda rng: rng.exponential(size=20_500) - 1.0,
    "wrong": lambda rng: rng.normal(size=20_500) * np.where(rng.random(20_500) < 0.1, 20.0, 1.0),
}


def covered(law, *, epsilon=0.5, runs=RUNS, **given):
    """120 fits of nine columns by the steps alone, with true slopes and intercept: coverage of each, excess, and its prediction."""
    rng = np.random.default_rng(21)
    slopes = []
    intercepts = []
    excess = []
    predicted = []
    for _ in range(runs):
        x = rng.normal(size=(20_500, 9)) @ MIXING.T
        beta = rng.normal(size=9)
        data = split(x, x @ beta + 2.0 + LAWS[law](rng), 500)
        stated = {
            "loss": "squared",
            "tails": "light",
            "method": "newton",
            "budget": ApproxDP(epsilon, 1e-5),
            **given,
        }
        result = seeded(train, **data, **stated)
        lower, upper = result.confidence_interval()
        slopes += list((lower < beta) & (beta < upper))
        intercepts.append(abs(result.intercept - 2.0) < 1.96 * result.intercept_error)
        off = result.coefficients - beta
        excess.append(np.sum((MIXING.T @ off) ** 2) + (result.intercept - 2.0) ** 2)
        predicted.append(result.predicted_excess)
    return np.mean(slopes), np.mean(intercepts), np.mean(excess), np.mean(predicted)


@pytest.mark.statistical
@pytest.mark.parametrize("law", ["normal", "t4", "exponential"])
def test_intervals_cover_and_predictions_hold(law):
    """1080 slopes and 120 intercepts: a true coverage of .95 has standard deviations of .0066 and .02."""
    slopes, intercepts, excess, predicted = covered(law)
    assert 0.93 < slopes < 0.97
    assert intercepts >= 0.90
    assert excess < {"normal": 0.0011, "t4": 0.0022, "exponential": 0.0022}[law]
    assert 0.7 < predicted / excess < 1.5


@pytest.mark.statistical
def test_planted_fault_a_forgotten_bias_of_the_clip_is_seen(monkeypatch):
    """Without it the intercept of skewed labels is held in .86 of 100 draws, and with it in .94 (by the specification: .675)."""
    monkeypatch.setattr(
        methods,
        "replace",
        lambda fitted, **given: replace(fitted, **{**given, "bias_sq": 0.0, "bias": None}),
    )
    slopes, intercepts, *_ = covered("exponential", epsilon=2.0, runs=100)
    assert slopes > 0.9
    assert intercepts < 0.9


def bent(seed, *, n=10_000):
    """Two columns, one with a long tail in which the line flattens."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.normal(size=n), np.exp(1.5 * rng.normal(size=n))])
    return x, x[:, 0] + 4.0 * np.log1p(x[:, 1]) + rng.normal(size=n)


def best_line(x, y):
    return np.linalg.lstsq(np.column_stack([np.ones(len(x)), x]), y, rcond=None)[0][1:]


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_a_line_that_bends_in_the_tail_is_flagged_and_its_interval_is_wide(monkeypatch):
    x, y = bent(0, n=100_000)
    truth = best_line(x, y)
    hits = []
    for seed in range(12):
        x, y = bent(seed + 1)
        result = seeded(
            linear_regression, **split(x, y, 400), budget=BUDGET, method="newton", tails="light"
        )
        assert result.part_reasons == ((), (), ("few_rows",))
        assert result.rows_behind[0] > 80 > 25 > result.rows_behind[1]
        lower, upper = result.confidence_interval()
        hits.append(lower[1] < truth[1] < upper[1])
    assert np.mean(hits) >= 0.7
    assert "rows are few for this much noise" in result.summary()
    monkeypatch.setattr(methods, "counted_bias", lambda problem, clip, lever: np.zeros(3))
    alone = seeded(
        linear_regression, **split(x, y, 400), budget=BUDGET, method="newton", tails="light"
    )
    lower, upper = alone.confidence_interval()
    assert not lower[1] < truth[1] < upper[1]


def test_a_bend_that_public_rows_show_is_counted_and_a_straight_line_is_not(monkeypatch):
    found = []
    honest = leverage.counted_bias
    monkeypatch.setattr(
        methods, "counted_bias", lambda *given: found.append(honest(*given)) or found[-1]
    )
    rng = np.random.default_rng(5)
    x = rng.normal(size=(11_000, 2))
    x[:, 1] = x[:, 1] ** 2 * np.sign(x[:, 1])
    for y in (x @ [1.0, 2.0], x[:, 0] + 6.0 * np.tanh(x[:, 1])):
        result = fitted(
            x, y + rng.normal(size=len(x)), 1000, budget=BUDGET, method="newton", tails="light"
        )
        assert result.status == "ok"
    straight, curved = found
    assert np.all(np.abs(straight) < 0.02)
    assert abs(curved[2]) > 0.1
    truth = best_line(x, x[:, 0] + 6.0 * np.tanh(x[:, 1]))
    lower, upper = result.confidence_interval()
    assert np.all((lower < truth) & (truth < upper))


def nearly_always_zero(seed, n=8_000):
    """A column with a one in 15 of 1,000 rows, and six others; the first of its public rows have small labels by chance."""
    rng = np.random.default_rng([9, seed])
    x = rng.normal(size=(n, 6))
    x[:, 5] = np.arange(n) % 67 == 0
    y = x @ [1.0, -1.0, 0.5, 0.0, 2.0, 5.0] + rng.normal(size=n) * np.where(x[:, 5] > 0.0, 5.0, 2.0)
    return x, y


@pytest.mark.statistical
def test_a_column_that_is_nearly_always_zero_is_covered():
    """The interval of the rare column holds its coefficient, at a budget that leaves much noise in each step."""
    hits = 0
    for seed in range(40):
        x, y = nearly_always_zero(seed)
        result = seeded(
            linear_regression, **split(x, y, 202), budget=ApproxDP(1, 1e-6), method="newton"
        )
        lower, upper = result.confidence_interval()
        hits += lower[5] < 5.0 < upper[5]
    assert hits >= 35


def few_for_each(*, m, runs, alike):
    """Coverage of 20 slopes by m public rows; columns `alike`, or with variances from 1 to a twentieth."""
    hits = []
    errors = []
    for seed in range(runs):
        rng = np.random.default_rng([11, seed])
        x = rng.normal(size=(6_000, 20))
        if not alike:
            x = x @ (np.linalg.qr(rng.normal(size=(20, 20)))[0] / np.sqrt(np.arange(1, 21))).T
        beta = rng.normal(size=20)
        beta *= 2.0 / np.std(x @ beta)
        y = x @ beta + rng.normal(size=6_000)
        result = fitted(x, y, m, budget=ApproxDP(4, 1e-5), method="newton", tails="light")
        lower, upper = result.confidence_interval()
        hits += list((lower < beta) & (beta < upper))
        errors += list((result.coefficients - beta) / result.standard_error)
    return float(np.mean(hits)), float(np.mean(np.square(errors)))


@pytest.mark.statistical
@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("m", [44, 90])
def test_intervals_cover_from_two_public_rows_for_each_coefficient(m, alike):
    """800 slopes. Intervals may be too wide where the public rows have hardly shown the curvature, not too short."""
    coverage, squares = few_for_each(m=m, runs=40, alike=alike)
    assert coverage > 0.93
    assert squares < 1.4


@pytest.mark.statistical
def test_planted_fault_a_curvature_taken_for_known_is_seen(monkeypatch):
    monkeypatch.setattr(NewtonState, "widen", lambda self, *given: None)
    coverage, squares = few_for_each(m=44, runs=40, alike=False)
    assert coverage < 0.93
    assert squares > 1.4


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize("method", ["newton", "throw_away"])
def test_fewer_than_two_public_rows_for_each_coefficient_leave_no_interval(method, tmp_path):
    rng = np.random.default_rng(12)
    x = rng.normal(size=(3_000, 20))
    y = x @ rng.normal(size=20) + rng.normal(size=3_000)
    result = seeded(linear_regression, **split(x, y, 41), budget=BUDGET, method=method)
    assert set(result.part_reasons) == {("few_public_rows",)}
    assert np.isnan([*result.confidence_interval(), result.standard_error]).all()
    assert np.isnan(result.intercept_error)
    assert np.isnan(result.prediction_interval(x[:3])).all()
    assert np.isfinite(result.coefficients).all()
    assert np.isfinite(result.predict(x[:3])).all()
    assert "41 for 21 coefficients" in result.summary()
    assert TrainingResult.from_json(result.to_json()).to_dict() == result.to_dict()
    result.plot(tmp_path / "model.png")
    enough = seeded(linear_regression, **split(x, y, 42), budget=BUDGET, method=method)
    assert np.isfinite(enough.standard_error).all()


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_a_predicted_error_from_public_rows_that_one_line_goes_through_says_that_it_is_a_guess():
    """Ten columns and eleven coefficients: eleven public rows do not show the noise, twelve are the first that do."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(3_000, 10))
    y = x @ rng.normal(size=10) + rng.normal(size=3_000)
    few, more = (
        seeded(linear_regression, **split(x, y, m), budget=BUDGET, method="newton")
        for m in (11, 12)
    )
    assert "predicted is a guess" in few.summary()
    assert "predicted is a guess" not in more.summary()


def test_rain_by_the_hour():
    """The slope of a column that is nearly always zero: 82 by the bulk of the rows, 44 by least squares."""
    names = ["temp", "dewp", "precip", "humid"]
    rows = np.column_stack(list(new_york.read("weather.csv", names).values()))
    rows = rows[np.isfinite(rows).all(axis=1)]
    truth = best_line(rows[:, :3], rows[:, 3])
    hits = 0
    for which in range(0, 100, 10):
        public = np.arange(len(rows)) % 100 == which
        result = seeded(
            linear_regression,
            rows[~public],
            label=-1,
            x_pub=rows[public].copy(),
            budget=BUDGET,
            method="newton",
        )
        assert result.part_reasons[1] in (("few_rows",), ("heavy_tail",), ("shifted",))
        lower, upper = result.confidence_interval()
        hits += lower[2] < truth[2] < upper[2]
        assert np.all(np.abs(result.coefficients[:2] - truth[:2]) < 0.1)
    assert hits >= 9


def test_one_impossible_cell_moves_little():
    rng = np.random.default_rng(7)
    x = rng.normal(size=(5_300, 3))
    y = x @ [1.0, -1.0, 0.5] + rng.normal(size=len(x))
    for where in (slice(10, 11), slice(2000, 2010)):  # one public row, then ten private ones
        spoiled = x.copy()
        spoiled[where, 1] = 1e4
        result = seeded(
            linear_regression, **split(spoiled, y, 300), budget=ApproxDP(4, 1e-5), method="newton"
        )
        assert np.all(np.abs(result.coefficients - [1.0, -1.0, 0.5]) < 0.15)


# ---- Newton steps for the Huber loss: the coefficients it has without privacy, labels far out, intervals, and its public fit.
BETA = np.array([1.0, -2.0, 0.5])


def table(n, seed, noise):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)) @ (np.eye(3) + 0.4 * np.tri(3)).T * [1.0, 10.0, 0.1] + [
        0.0,
        5.0,
        2.0,
    ]
    return x, x @ (BETA / [1.0, 10.0, 0.1]) + 7.0 + noise(rng, n)


def contaminated(rng, n):
    """One label in ten is wrong, and always upwards."""
    return rng.normal(size=n) + np.where(
        rng.random(n) < 0.1, np.abs(rng.normal(size=n)) * 30.0, 0.0
    )


def without_privacy(x, y, threshold):
    rows = np.column_stack([np.ones(len(x)), x])

    def value(w):
        left = np.abs(y - rows @ w)
        each = np.where(left <= threshold, 0.5 * left**2, threshold * (left - 0.5 * threshold))
        slope = -rows.T @ np.clip(y - rows @ w, -threshold, threshold)
        return each.sum() / len(x), slope / len(x)

    return optimize.minimize(
        value, np.linalg.lstsq(rows, y, rcond=None)[0], jac=True, options={"gtol": 1e-9}
    ).x


@pytest.mark.parametrize("threshold", [1.345, 0.1])
def test_coefficients_are_those_of_the_loss_without_privacy(threshold):
    x, y = table(20_300, 1, contaminated)
    result = seeded(
        train, **split(x, y, 300), loss=huber_loss(threshold), budget=STRONG, method="newton"
    )
    assert isinstance(result, TrainingResult)
    assert TrainingResult.from_json(result.to_json()).to_dict() == result.to_dict()
    assert (result.loss, result.method) == ("huber", "newton")
    wanted = without_privacy(x, y, threshold * y[:300].std())
    off = np.append(result.intercept, result.coefficients) - wanted
    # Both see the same rows, and noise is what sets them apart.
    assert np.all(np.abs(off) < 4.0 * np.sqrt(np.diag(result.covariance)))
    alone = np.append(result.public_intercept, result.public_coefficients)
    assert np.abs(alone - wanted)[1:] @ [1.0, 10.0, 0.1] > 2.0 * np.abs(off)[1:] @ [1.0, 10.0, 0.1]
    assert result.predicted_excess < 0.2 * result.public_excess
    assert "Huber loss" in result.summary()


def test_labels_that_are_wrong_move_it_less_than_least_squares():
    x, y = table(20_300, 2, contaminated)
    given = {**split(x, y, 300), "budget": STRONG}
    robust = seeded(train, **given, loss=huber_loss(0.1), method="newton")
    squares = seeded(linear_regression, **given, method="newton")
    assert abs(robust.intercept - 7.0) < 0.5 < 1.0 < abs(squares.intercept - 7.0)
    assert np.all(robust.standard_error < 0.5 * squares.standard_error)


def test_noisy_gradients_aim_at_the_same():
    x, y = table(8_200, 3, lambda rng, n: rng.standard_t(2, size=n))
    given = {**split(x, y, 200), "loss": "huber", "budget": STRONG}
    found = seeded(train, **given, method="newton")
    steps = seeded(train, **given, method=SemiDP())
    np.testing.assert_allclose(
        steps.coefficients[0], found.coefficients, atol=5.0 * np.max(found.standard_error)
    )
    # A bound that no residual reaches is least squares.
    wide = seeded(train, **{**given, "loss": huber_loss(1e6)}, method="throw_away")
    plain = seeded(linear_regression, **split(x, y, 200), budget=STRONG, method="throw_away")
    np.testing.assert_allclose(wide.coefficients, plain.coefficients, rtol=1e-5)


def test_few_public_rows_weights_and_equal_labels():
    x, y = table(5_000, 4, contaminated)
    many = np.column_stack([x, np.random.default_rng(5).normal(size=(5_000, 40))])
    given = {"loss": "huber", "budget": STRONG, "method": "newton"}
    few = seeded(train, **split(many, y, 20), **given)
    assert np.isfinite(few.coefficients).all()
    weights = np.random.default_rng(6).random(5_000)
    stated = {"weights_priv": weights[200:], "weights_pub": weights[:200], "weight_cap": 1.0}
    weighted = seeded(train, **split(x, y, 200), **given, **stated)
    assert np.all(np.abs(weighted.coefficients * [1.0, 10.0, 0.1] - BETA) < 0.4)
    equal = {**split(x, y, 200), "y_pub": np.full(200, 2.0)}
    blank = seeded(train, **equal, **given, y_scale=5.0)
    assert np.isfinite(blank.covariance).all()


@pytest.mark.parametrize("m", [6, 300])
def test_the_public_fit_is_the_minimum_of_the_public_loss(m):
    x, y = table(m, 7, contaminated)
    design, _ = make_design(x, ["a", "b", "c"], None, None, {})
    terms = design.standardize(x)
    labels = (y - y.mean()) / y.std()
    ones = np.ones(m)
    whitener = Whitener.of(terms, ones)
    found = huber_posterior(terms, labels, ones, whitener, threshold=0.3)
    left = labels - found.rows @ found.mean
    inside = np.mean(np.abs(left) < 0.3)
    # Its labels are those of least squares with the same prior: the slope of loss and prior together is zero.
    shortened = labels - left + np.clip(left, -0.3, 0.3) / max(inside, 0.05)
    again = linear_posterior(terms, shortened, ones, whitener)
    np.testing.assert_allclose(found.turn @ found.mean, again.turn @ again.mean, atol=1e-3)
    np.testing.assert_allclose(found.labels, labels)


def covered_of_huber(runs, tails="light"):
    """Of labels that are wrong in a tenth of the rows: coverage of slopes and intercept, the excess, and its prediction."""
    slopes, intercepts, *excess = covered("wrong", runs=runs, loss=huber_loss(0.2), tails=tails)
    return 0.9 * slopes + 0.1 * intercepts, *excess


@pytest.mark.statistical
def test_intervals_cover():
    """800 numbers: a true coverage of .95 has a standard deviation of .008. A residual is within the bound in .78 of the rows."""
    coverage, excess, predicted = covered_of_huber(80)
    assert 0.92 < coverage < 0.98
    assert 0.6 < predicted / (0.5 * 0.8 * excess) < 1.7


@pytest.mark.statistical
def test_intervals_that_allow_for_tails_cover():
    """300 numbers; they hold nearly all, as they include a tail of the rows that there is not."""
    coverage, excess, predicted = covered_of_huber(30, tails="any")
    assert coverage > 0.93
    assert 0.6 < predicted / (0.5 * 0.8 * excess) < 1.7


@pytest.mark.statistical
def test_planted_fault_an_ordinary_clip_in_place_of_the_bound_is_seen(monkeypatch):
    """A slope of the clipped equation of twice its size: steps cover half of the way, and errors are stated half as large."""
    plain = methods.steps.plan_newton

    class Twice:
        def __init__(self, bound):
            self.bound, self.bias_sq, self.unseen_sq = bound, 0.0, 0.0

        def at(self, size):
            found = self.bound.at(size)
            return replace(found, inside=2.0 * found.inside)

    def planned(posterior, *given):
        found = plain(posterior, *given)
        return replace(found, clip=Twice(found.clip))

    monkeypatch.setattr(methods.steps, "plan_newton", planned)
    assert covered_of_huber(30)[0] < 0.9


# ---- Plans of Newton steps, which are simulated side by side --------------------------------------------------------
N_PRIV = 3000


def posterior(dim, n_pub):
    rng = np.random.default_rng(dim)
    terms = rng.standard_normal((n_pub, dim))
    ones = np.ones(n_pub)
    labels = terms.sum(axis=1) + rng.standard_t(3, n_pub)
    return linear_posterior(terms, labels / labels.std(), ones, Whitener.of(terms, ones))


def noise(share):
    return 40.0 / math.sqrt(share)


def error_alone(known: Posterior, steps, bound):
    """The error of one plan after its steps, number by number."""
    unit = known.unexplained
    variance = known.variance
    error = known.spread
    pooled = 0.0

    def precision(clip, radius, share):
        std = (
            radius
            * noise(1.0 / steps)
            * clip.bound
            * math.sqrt(unit + error)
            / (N_PRIV * clip.inside * share)
        )
        return std**-2

    clip = bound.at(math.sqrt(unit + error))
    radius = 1.0
    share = 1.0
    for _ in range(2):
        total = precision(clip, radius, share)
        first = weighting(known.typical, np.sqrt(water_filled(variance, total, 0.05) / total))
        radius = first.radius
        share = first.share
    for _ in range(steps):
        filled = water_filled(variance, precision(clip, radius, share), 0.05)
        noise_variance = (share / first.shares) ** 2 / filled
        left = np.sum(variance * noise_variance / (variance + noise_variance)) / np.sum(variance)
        again = min((1.0 + left) / (1.0 - left), steps)
        pooled = pooled + 1.0 / (
            noise_variance + (known.curvature_error + 1.0 / N_PRIV) * error * again
        )
        sampling = clip.energy * (unit + error) / (N_PRIV * clip.inside**2)
        variance = 1.0 / (1.0 / known.variance + 1.0 / (1.0 / pooled + sampling))
        error = float(np.sum(variance))
        clip = bound.at(math.sqrt(unit + error))
    return error


@pytest.mark.parametrize(("dim", "n_pub"), [(1, 8), (4, 30), (9, 400)])
def test_a_plan_is_the_best_of_all_each_alone(dim, n_pub):
    known = posterior(dim, n_pub)
    found = plan_newton(known, N_PRIV, noise)
    alone = {
        (steps, clip): known.part
        * (error_alone(known, steps, clip) + clip.bias_sq * known.noise_share)
        for steps in (1, 2, 4, 8, 16, 32)
        for clip in known.clips
    }
    assert (found.steps, found.clip) == min(alone, key=alone.__getitem__)
    assert found.predicted == pytest.approx(min(alone.values()), rel=1e-9)
    one = plan_newton(replace(known, clips=(found.clip,)), N_PRIV, noise)
    assert one.predicted == found.predicted  # the others beside it change no bit


# ---- Regressions from fewer public rows than coefficients: how far from the public rows alone, and what keeps them there.
# Each part that keeps them there is taken away once, and the same cases then show it.
def posterior_of_few(m, dim):
    rng = np.random.default_rng(m)
    x = rng.normal(size=(m, dim))
    table = np.column_stack([x, x @ rng.normal(size=dim) + rng.normal(size=m)])
    return make_problem(LOSSES["squared"], table, [f"x{j}" for j in range(dim)], 1, DataSpec())[
        0
    ].posterior


def noise_of_few(share):
    return 3.0 / math.sqrt(share)


def test_more_steps_only_with_few_public_rows_and_public_clips_where_noise_is_small():
    next_to_none = posterior_of_few(20, 30)
    few = posterior_of_few(60, 70)
    many = posterior_of_few(32, 30)
    counts = [(len(each.labels), len(each.mean) - 1) for each in (next_to_none, few)]
    assert [coordinates.next_to_none(*each) for each in counts] == [True, False]
    assert few.few
    assert not many.few
    assert [newton.step_counts(each)[-1] for each in (next_to_none, few, many)] == [128, 128, 32]
    assert newton.plan_newton(few, 2000.0, noise_of_few).steps > 32
    assert newton.plan_newton(many, 2000.0, noise_of_few).steps <= 32
    clips = next_to_none.clips
    assert newton.plan_newton(next_to_none, 1e9, noise_of_few).clip in clips
    assert newton.plan_newton(next_to_none, 60.0, noise_of_few, Fraction(1, 10)).clip not in clips


@pytest.mark.statistical
@pytest.mark.filterwarnings(
    "ignore::fastpubpriv.errors.AccuracyWarning", "ignore::fastpubpriv.SeededNoiseWarning"
)
def test_planted_fault_shares_read_from_few_residuals_run_away(monkeypatch):
    """400 columns, 60 public rows, the eighth draw: losses of 1.33, and of 25.8 with the share inside that the 60 rows have."""
    drawn = (beyond.QUICK, 0.01, 4.0, 7)
    assert beyond.cell(*drawn, rival=False)[0] < 2.0
    monkeypatch.setattr(
        newton, "normal_clips", lambda known: [(each, each) for each in known.clips]
    )
    assert beyond.cell(*drawn, rival=False)[0] > 5.0


@pytest.mark.filterwarnings("ignore::fastpubpriv.errors.AccuracyWarning")
@pytest.mark.parametrize(("dim", "m"), [(5, 3), (9, 5), (9, 8), (20, 6)])
def test_no_method_is_worse_than_next_to_no_public_rows_alone(dim, m):
    for method in ("newton", "auto"):
        for seed in range(2):
            public, found = relative(dim, m, 4.0, seed, ("throw_away", method), 2000)
            assert found < 1.1 * public


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore::fastpubpriv.errors.AccuracyWarning")
@pytest.mark.parametrize("epsilon", [0.3, 4.0])
@pytest.mark.parametrize(("dim", "m"), [(5, 3), (9, 5), (9, 7), (20, 6), (20, 15), (50, 15)])
def test_auto_with_next_to_no_public_rows(dim, m, epsilon):
    """Of 8 draws, the median beside the best method's, and the worst beside the public rows alone."""
    found = np.array([relative(dim, m, epsilon, seed, METHODS, 20_000) for seed in range(8)])
    assert np.median(found[:, 2]) < 1.1 * np.median(found[:, :2], axis=0).min()
    assert np.max(found[:, 2] / found[:, 1]) < 1.1


def test_rows_left_out_vary_in_other_directions_and_not_about_the_mean_of_all(monkeypatch):
    rows = np.random.default_rng(3).normal(size=(5, 9))
    values = coordinates.principal_variances(rows - rows.mean(axis=0))[0]
    assert values.min() > 0.2
    assert values.max() < 5.0
    monkeypatch.setattr(coordinates, "next_to_none", lambda m, p: False)
    assert coordinates.principal_variances(rows - rows.mean(axis=0))[0].min() < 1e-9


def test_planted_fault_the_likeliest_public_fit_is_believed(monkeypatch):
    """It is taken to be next to exact, so that steps do not correct it."""
    drawn = (9, 7, 0.3, 2, ("newton",), 20_000)
    assert relative(*drawn)[0] < 1.1
    monkeypatch.setattr(public_fits, "next_to_none", lambda m, p: False)
    assert relative(*drawn)[0] > 1.5


@pytest.mark.parametrize("fit", [linear_regression, logistic_regression])
def test_of_two_public_rows_auto_spends_nothing(fit):
    x = np.random.default_rng(8).normal(size=(2000, 3))
    y = (x[:, 0] > 0.0).astype(float)
    x[:2], y[:2] = [[-1.0, 0.0, 2.0], [1.0, 0.1, 0.3]], (0.0, 1.0)
    given = {"x_pub": x[:2].copy(), "y_pub": y[:2].copy(), "budget": ApproxDP(1, 1e-5)}
    found = fit(x[2:], y[2:], **given)
    assert found.method == "throw_away"
    assert not found.releases
    assert "two do not say how large anything is" in str(found.summary())
    given |= {"x_pub": np.vstack([x[:2], [[0.0, 1.0, 1.0]]]), "y_pub": [0.0, 1.0, 1.0]}
    assert fit(x[2:], y[2:], **given).method != "throw_away"
