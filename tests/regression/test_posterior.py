"""The point of a regression: its closed form, the families that scores choose, its predictions, intervals, and planted faults."""

from typing import NamedTuple

import numpy as np
import pytest
from regression.test_regression import split
from spies import seeded

from fastpubpriv import ZCDP, ApproxDP, PureDP, linear_regression, logistic_regression, train
from fastpubpriv.estimators.moments import RadialMean
from fastpubpriv.regression import exact, posterior, problem
from fastpubpriv.regression.posterior import (
    Average,
    Family,
    Law,
    Scores,
    average,
    constant_family,
    kept_share,
    public_family,
    public_point,
    shrunk,
    start_family,
)
from fastpubpriv.results.models import TrainingResult

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")


# ---- Closed forms ----------------------------------------------------------------------------------------------------
def scores(value, *, noise_sq=1.0, curvature_sq=0.0):
    value = np.array(value)
    return Scores(
        value=value,
        half=np.eye(len(value)),
        noise_sq=noise_sq,
        sampling_sq=0.1,
        curvature_sq=curvature_sq,
    )


def test_one_prior_in_one_dimension_gives_the_normal_posterior():
    """Prior N(1, 3), and 5 with variance 1: mean 1 + 3 / 4 * 4 and variance 3 * 1 / (3 + 1)."""
    found = average(scores([5.0]), [Family(mean=np.array([1.0]), covariances=[np.array([[3.0]])])])
    assert found.mean[0] == pytest.approx(4.0)
    assert found.error_sq == pytest.approx(0.75)


def test_the_error_of_the_curvature_grows_with_the_step():
    """Prior N(0, 5), 4 with variance 1 + step^2 / 4: the steps 4, 2 and 20 / 7 give 5 / (6 + (10 / 7)^2) * 4."""
    family = Family(mean=np.zeros(1), covariances=[np.array([[5.0]])])
    found = average(scores([4.0], curvature_sq=0.25), [family])
    assert found.mean[0] == pytest.approx(20.0 / (6.0 + (10.0 / 7.0) ** 2))


def test_two_means_without_evidence_are_averaged():
    """Halfway between them, each has half of the weight, and half their distance is an error: 0 + 1."""
    at_zero, at_two = (
        Family(mean=np.array([middle]), covariances=[np.zeros((1, 1))]) for middle in (0.0, 2.0)
    )
    found = average(scores([1.0]), [at_zero, at_two])
    assert found.weights == pytest.approx([0.5, 0.5])
    assert found.mean[0] == pytest.approx(1.0)
    assert found.error_sq == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("value", "chosen"),
    [
        pytest.param(0.0, 0, id="a start that agrees"),
        pytest.param(4.0, 1, id="many public rows"),
        pytest.param(-4.0, 2, id="a constant"),
    ],
)
def test_evidence_picks_the_family_that_is_right(value, chosen):
    families = [
        start_family(0.01 * np.eye(3), 0.01),
        public_family(Law(mean=np.full(3, 4.0), covariance=0.01 * np.eye(3))),
        constant_family(Law(mean=np.full(3, -4.0), covariance=0.01 * np.eye(3)), np.eye(3)),
    ]
    found = average(scores(np.full(3, value), noise_sq=0.01), families)
    assert found.weights[chosen] > 0.9


def test_the_prior_stays_where_noise_hides_the_scores():
    family = Family(mean=np.array([3.0, 3.0]), covariances=[np.eye(2)])
    found = average(scores([1e6, -1e6], noise_sq=1e14), [family])
    assert found.mean == pytest.approx([3.0, 3.0], abs=1e-6)


@pytest.mark.parametrize(
    ("doubt_sq", "distance_sq", "kept"),
    [(1.0, 4.0, 0.75), (0.0, 4.0, 1.0), (5.0, 4.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)],
)
def test_a_doubt_takes_its_share_of_a_distance(doubt_sq, distance_sq, kept):
    assert kept_share(doubt_sq, distance_sq) == pytest.approx(kept)


def test_the_public_fit_is_shrunk_to_the_constant_by_three_times_its_variance():
    """From (1, 0) to (1, 6) with the variance 4 in all: 1 - 3 * 4 / 36 of the way."""
    constant = np.array([1.0, 0.0])
    own = Law(mean=np.array([1.0, 6.0]), covariance=np.diag([1.0, 3.0]))
    assert public_point(constant, own) == pytest.approx([1.0, 4.0])
    assert public_point(constant, None) is constant


def test_the_move_of_a_shrunk_point_is_an_error():
    """A quarter of the way from 4 to 0, and the square of that."""
    found = shrunk(
        Average(mean=np.array([4.0]), error_sq=2.0, weights=np.ones(1)), np.zeros(1), 0.75
    )
    assert found.mean == pytest.approx([3.0])
    assert found.error_sq == pytest.approx(3.0)


# ---- Regressions -----------------------------------------------------------------------------------------------------
def gaussian(rng, n):
    x = rng.normal(size=(n, 4))
    return x, x @ [0.6, -0.5, 0.4, 0.3] + rng.normal(size=n)


def heavy_tailed(rng, n):
    """Lognormal columns, and residuals with four moments that grow with one of them."""
    x = rng.lognormal(size=(n, 3))
    return x, x @ [1.0, -0.5, 0.2] + np.sqrt(x[:, 0]) * rng.standard_t(4, size=n)


def labels_of_noise(rng, n):
    return rng.normal(size=(n, 4)), rng.normal(size=n)


def far_columns(rng, n):
    """Lognormal columns, of which a few rows have nearly all of the variance, and labels on the logarithm of one."""
    x = rng.lognormal(sigma=2.0, size=(n, 3))
    return x, 0.2 * np.log(x[:, 0]) + rng.standard_t(4, size=n)


# [intercept, slopes] of the laws
BEST = {
    gaussian: [0.0, 0.6, -0.5, 0.4, 0.3],
    heavy_tailed: [0.0, 1.0, -0.5, 0.2],
    labels_of_noise: [0.0] * 5,
}


class Cell(NamedTuple):
    law: object
    m: int
    n: int
    budget: object

    def __str__(self):
        return f"{self.law.__name__}, {self.m} public rows, {self.budget}"


class Measured(NamedTuple):
    """Of each draw, relative to the residual variance about the best coefficients."""

    excess: np.ndarray
    predicted: np.ndarray
    public: np.ndarray  # measured excess of the public fit over the predicted one
    covered: float
    results: list


def measured(cell, runs):
    law, m, n, budget = cell
    lines = []
    covered = []
    results = []
    for seed in range(runs):
        x, y = law(np.random.default_rng([13, seed]), n + m)
        rows = np.column_stack([np.ones(len(x)), x])
        best = np.array(BEST[law])
        variance = np.mean((y - rows @ best) ** 2)
        result = seeded(
            linear_regression,
            **split(x, y, m),
            budget=budget,
            method="newton",
            random_state=seed,
            threads=1,
        )
        off = rows @ (np.append(result.intercept, result.coefficients) - best)
        apart = rows @ (np.append(result.public_intercept, result.public_coefficients) - best)
        lines.append(
            [
                np.mean(off**2) / variance,
                result.predicted_excess / variance,
                np.mean(apart**2) / result.public_excess,
            ]
        )
        lower, upper = result.confidence_interval()
        covered.append((lower <= best[1:]) & (best[1:] <= upper))
        results.append(result)
    return Measured(*np.array(lines).T, float(np.mean(covered)), results)


DROWNED = Cell(gaussian, 300, 2000, PureDP(0.05))
NOISY = Cell(heavy_tailed, 60, 5000, PureDP(1))
RANDOM = Cell(labels_of_noise, 40, 1000, PureDP(0.1))


@pytest.mark.parametrize(
    "cell",
    [
        Cell(gaussian, 60, 5000, ZCDP(0.05)),
        Cell(gaussian, 20, 5000, PureDP(1)),
        Cell(heavy_tailed, 20, 5000, ZCDP(0.05)),
        NOISY,
    ],
    ids=str,
)
def test_intervals_hold_the_best_coefficients(cell):
    assert measured(cell, 16).covered >= 0.93


@pytest.mark.parametrize(
    "cell",
    [
        Cell(gaussian, 20, 5000, ZCDP(0.05)),
        Cell(gaussian, 60, 5000, PureDP(1)),
        Cell(gaussian, 300, 5000, ZCDP(0.5)),
        Cell(heavy_tailed, 20, 5000, ZCDP(0.05)),
    ],
    ids=str,
)
def test_predictions_are_within_a_factor_of_two_in_the_median(cell):
    found = measured(cell, 20)
    assert 0.5 < np.median(found.excess / found.predicted) < 2.0
    assert 0.5 < np.median(found.public) < 2.0


def test_predictions_of_the_log_loss_are_within_a_factor_of_two_in_the_median():
    ratios = []
    for seed in range(20):
        rng = np.random.default_rng([14, seed])
        x = rng.normal(size=(8_060, 3))
        chance = 1.0 / (1.0 + np.exp(-x @ [1.0, -0.7, 0.4]))
        result = seeded(
            logistic_regression,
            **split(x, (rng.random(len(x)) < chance) * 1.0, 60),
            budget=ZCDP(0.1),
            random_state=seed,
        )
        score = x @ result.coefficients + result.intercept
        # excess of the expected log-loss: the Kullback-Leibler divergence of chances
        own = np.logaddexp(0.0, score) - chance * score
        best = x @ [1.0, -0.7, 0.4]
        excess = np.mean(own - np.logaddexp(0.0, best) + chance * best)
        ratios.append(excess / result.predicted_excess)
    assert 0.5 < np.median(ratios) < 2.0


def test_no_more_than_a_constant_is_a_fallback():
    """Of labels of noise a constant has no excess, up to noise: most draws say so."""
    results = measured(Cell(labels_of_noise, 40, 2000, ZCDP(0.02)), 16).results
    fallen = [result.predicted_excess >= result.constant_excess for result in results]
    assert [result.status == "unreliable" for result in results] == fallen
    assert ["fallback" in result.reasons for result in results] == fallen
    assert sum(fallen) >= 6


def test_a_fit_that_beats_a_constant_is_none_and_says_by_how_much():
    """The labels' variance is that of residuals, 1, and of predictions, .86."""
    result = measured(Cell(gaussian, 60, 5000, ZCDP(0.5)), 1).results[0]
    assert result.constant_excess == pytest.approx(0.86, rel=0.15)
    assert "fallback" not in result.reasons
    assert f"a constant {result.constant_excess:.3g}" in result.summary()
    assert "mean squared error about " in result.summary()
    assert TrainingResult.from_json(result.to_json()).constant_excess == result.constant_excess


@pytest.mark.parametrize("given", [{"method": "throw_away"}, {"tails": "light"}], ids=str)
def test_no_constant_is_compared_where_no_scores_are_released(given):
    x, y = gaussian(np.random.default_rng(15), 1060)
    result = seeded(linear_regression, **split(x, y, 60), budget=ZCDP(0.5), **given)
    assert result.constant_excess is None
    assert "a constant" not in result.summary()
    assert TrainingResult.from_json(result.to_json()).constant_excess is None


def test_the_text_says_where_predictions_are_about_rows_within_the_clip():
    result = measured(NOISY, 1).results[0]
    assert "heavy_tail" in {reason for own in result.part_reasons for reason in own}
    assert "about, of the rows within the clip," in result.summary()


def test_softmax_has_the_excess_that_its_scores_show():
    """Classes by the largest of three noisy scores of two columns: log-loss of a constant is about log 3."""
    rng = np.random.default_rng(16)
    x = rng.normal(size=(8_200, 2))
    y = np.argmax(x @ [[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]] + rng.gumbel(size=(len(x), 3)), axis=1)
    result = seeded(train, **split(x, y * 1.0, 200), loss="softmax", budget=ApproxDP(1, 1e-6))
    assert result.method == "newton"
    assert result.predicted_excess < result.public_excess < result.constant_excess < np.log(3.0)


def losses_of_codes(runs, *, m=40, n=3000):
    """Log-losses of fits and of constants; three private rows in a hundred have the code -1000 in a column, and no public row."""
    fits = []
    constants = []
    for seed in range(runs):
        rng = np.random.default_rng([18, seed])
        x = rng.normal(size=(n + m, 3))
        y = (rng.random(n + m) < 1.0 / (1.0 + np.exp(-0.7 * x[:, 0]))) * 1.0
        coded = rng.random(n + m) < 0.03
        coded[:m] = False
        x[coded, 2] = -1000.0
        result = seeded(
            logistic_regression,
            **split(x, y, m),
            budget=ZCDP(0.5),
            method="newton",
            random_state=seed,
            threads=1,
        )
        score = x @ result.coefficients + result.intercept
        fits.append(np.mean(np.logaddexp(0.0, score) - y * score))
        share = np.mean(y[:m])
        constants.append(-np.mean(y * np.log(share) + (1.0 - y) * np.log(1.0 - share)))
    return np.array(fits), np.array(constants)


def worse_than_a_constant(cell, runs):
    """Number of fits whose mean squared error is above that of the mean of the public labels."""
    worse = 0
    for seed in range(runs):
        x, y = cell.law(np.random.default_rng([17, seed]), cell.n + cell.m)
        fit = seeded(
            linear_regression,
            **split(x, y, cell.m),
            budget=cell.budget,
            random_state=seed,
            threads=1,
        )
        risk = np.mean((y - fit.predict(x)) ** 2)
        constant = np.mean((y - np.mean(y[: cell.m])) ** 2)
        worse += risk > constant * (1.0 + 1e-9)
    return worse


# ---- Planted faults --------------------------------------------------------------------------------------------------
def test_half_of_the_tail_in_the_value_is_found(monkeypatch):
    """Mean excess: .12; outer pieces of noise alone, times their ratio, take it beyond the constant's .9."""
    assert np.mean(measured(DROWNED, 40).excess) < 0.3
    mean = RadialMean.mean.fget
    monkeypatch.setattr(
        RadialMean,
        "mean",
        property(lambda self: mean(self) + self.pulled(self.outer, np.ones(self.dim)) / 2.0),
    )
    assert np.mean(measured(DROWNED, 40).excess) > 0.6


def test_scores_without_the_error_of_the_curvature_are_found(monkeypatch):
    """Ninth deciles of eight sets of 40 draws are .04 to .11, and with the fault 3.3 to 9 times as much."""
    cell = Cell(heavy_tailed, 40, 5000, PureDP(1))
    right = np.quantile(measured(cell, 40).excess, 0.9)
    assert right < 0.15
    monkeypatch.setattr(Scores, "errors", lambda self, step: self.noise_sq * np.eye(len(step)))
    assert np.quantile(measured(cell, 40).excess, 0.9) > 2.0 * right


@pytest.mark.parametrize(
    ("cell", "place", "most"),
    [
        pytest.param(NOISY, 0, 0.015, id="start"),
        pytest.param(DROWNED, 1, 0.12, id="public"),
        pytest.param(RANDOM, 2, 0.05, id="constant"),
    ],
)
def test_a_family_that_is_left_out_is_found(monkeypatch, cell, place, most):
    monkeypatch.setattr(exact, "kept_share", lambda doubt_sq, distance_sq: 1.0)  # the average alone
    assert np.median(measured(cell, 40).excess) < most
    monkeypatch.setattr(
        exact,
        "average",
        lambda released, families: average(
            released, [family for index, family in enumerate(families) if index != place]
        ),
    )
    assert np.median(measured(cell, 40).excess) > most


def test_a_point_that_is_not_shrunk_is_found(monkeypatch):
    """Of 40 fits to columns of which a few rows have the variance 5 are worse than a constant, and with the fault 28."""
    cell = Cell(far_columns, 20, 2000, PureDP(1))
    assert worse_than_a_constant(cell, 40) <= 12
    monkeypatch.setattr(exact, "kept_share", lambda doubt_sq, distance_sq: 1.0)
    assert worse_than_a_constant(cell, 40) >= 20


def test_a_start_that_is_worse_than_a_constant_and_is_kept_is_found(monkeypatch):
    """Of 10 fits to columns with codes none has a log-loss above 2, and with the fault 2 above 17."""
    fits, _ = losses_of_codes(10)
    assert fits.max() < 2.0
    monkeypatch.setattr(exact.ExactStep, "_is_astray", False)
    fits, _ = losses_of_codes(10)
    assert np.sum(fits > 10.0) >= 1


def test_steps_from_few_public_rows_that_are_not_shrunk_are_found(monkeypatch):
    """Labels of noise, 20 public rows of 6 coefficients: slopes have a mean length of .02, and .11 with the fault."""

    def distance():
        sizes = []
        for seed in range(12):
            rng = np.random.default_rng([19, seed])
            x = rng.normal(size=(1020, 5))
            y = (rng.random(1020) < 0.5) * 1.0
            result = seeded(
                logistic_regression,
                **split(x, y, 20),
                budget=PureDP(0.3),
                method="newton",
                random_state=seed,
            )
            assert "few_public_rows" in result.reasons
            sizes.append(np.linalg.norm(result.coefficients))
        return np.mean(sizes)

    assert distance() < 0.05
    monkeypatch.setattr(problem, "kept_share", lambda doubt_sq, distance_sq: 1.0)
    assert distance() > 0.08


@pytest.mark.parametrize("below", [1e-16, 1e-9, 1e-6])
def test_a_covariance_that_rounding_makes_indefinite_has_a_factor(below):
    """Levels of a column beside weights of rows: a crash after the debit, for one private table."""
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    matrix = (turn * [1.0, 1e-3, 1e-6, -below]) @ turn.T
    factor = posterior._factor(matrix)
    assert np.allclose(factor @ factor.T, matrix, atol=2e-6)
