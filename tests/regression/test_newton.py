"""Newton steps: secants and bounds in closed form, streams in which steps ran away, and planted faults."""

import math

import numpy as np
import pytest
from regression.test_intervals import posterior_of_few
from spies import seeded

from fastpubpriv import ZCDP, logistic_regression, train
from fastpubpriv.regression import newton
from fastpubpriv.regression import regression_tuning as tuning
from fastpubpriv.regression.newton import NewtonState, Secant, Slope, bounded

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
CURVATURE = np.diag([9.0, 2.0])  # of a quadratic loss with its minimum at zero
ASSUMED = np.array([1.0, 2.0])


def slope_at(*start, noise=0.0):
    coefficients = np.array(start)
    return Slope(
        start=coefficients, slope=-CURVATURE @ coefficients, noise_variance=np.full(2, noise)
    )


# ---- Secants -----------------------------------------------------------------------------------------------------------
def test_a_secant_has_the_curvature_between_two_slopes():
    secant = Secant.between(slope_at(1.0, 0.0), slope_at(0.5, 0.0), ASSUMED)
    assert secant.factor == pytest.approx(9.0)  # 9 in place of 1


def test_of_a_curvature_that_is_not_too_small_there_is_none():
    assert Secant.between(slope_at(0.0, 1.0), slope_at(0.0, 0.5), ASSUMED) is None
    assert Secant.between(slope_at(1.0, 1.0), slope_at(1.0, 1.0), ASSUMED) is None


def test_a_secant_counts_beyond_two_deviations_of_noise():
    """Along a way of length 1 with noise variances of 1 / 8 in both slopes, two deviations are 1: of 9 there remain 8."""
    ends = [slope_at(start, 0.0, noise=0.125) for start in (1.0, 0.0)]
    assert Secant.between(*ends, ASSUMED).factor == pytest.approx(8.0)
    noisy = [slope_at(start, 0.0, noise=8.0) for start in (1.0, 0.0)]  # two deviations are 8
    assert Secant.between(*noisy, ASSUMED) is None


def test_a_factor_is_limited():
    steep = np.array([1e-3, 2.0])
    assert Secant.between(slope_at(1.0, 0.0), slope_at(0.5, 0.0), steep).factor == tuning.STEEPEST


def test_a_step_with_the_secant_of_an_axis_reaches_the_minimum():
    here = slope_at(0.5, 3.0)
    secant = Secant.between(slope_at(1.0, 3.0), here, ASSUMED)
    move = secant.shortened(here.slope / ASSUMED, ASSUMED)
    np.testing.assert_allclose(here.start + move, 0.0, atol=1e-12)


def test_what_is_orthogonal_in_the_assumed_curvature_keeps_its_length():
    secant = Secant(direction=np.array([1.0, 1.0]), factor=4.0)
    across = np.array([2.0, -1.0])  # 1 * 2 * 1 + 2 * -1 * 1 = 0
    np.testing.assert_allclose(secant.shortened(across, ASSUMED), across)
    np.testing.assert_allclose(secant.shortened(secant.direction, ASSUMED), 0.25)


# ---- The bound and the end ---------------------------------------------------------------------------------------------
def test_a_long_step_is_cut_to_its_change_of_predictions_and_is_no_evidence():
    public = np.array([[1.0, 0.0], [0.0, 1.0]])
    move = np.array([6.0, 8.0])  # predictions change by a root mean square of sqrt(50)
    cut, variance = bounded(move, public, 0.5 * math.sqrt(50.0))
    np.testing.assert_allclose(cut, 0.5 * move)
    assert variance == pytest.approx(0.25 * 100.0 / 2.0)


def test_a_short_step_is_taken_whole():
    move = np.array([6.0, 8.0])
    cut, variance = bounded(move, np.eye(2), 10.0)
    np.testing.assert_array_equal(cut, move)
    assert variance == 0.0


@pytest.mark.parametrize(("last", "settled"), [(4.0, 2.0), (0.012, 9.0)])
def test_steps_end_at_the_shortest_slope_if_the_last_one_is_longer_beyond_noise(last, settled):
    """Slopes of noise .01 along each of ten coordinates: 4 is longer than .01, and .012 is not."""
    state = NewtonState(posterior_of_few(30, 9))
    begin = state.mean
    for step, length in enumerate((5.0, 4.0, 0.01, last)):
        here = Slope(
            start=begin + step, slope=np.full(10, length), noise_variance=np.full(10, 1e-4)
        )
        state.note_slope(here)
    state.mean = begin + 9.0
    state.settle()
    np.testing.assert_allclose(state.mean, begin + settled)


# ---- Two classes, 20 public rows of the private law, whose curvature is 2 to 3 times too small ------------------------------
SLOPES = np.array([1.0, -0.7, 0.4])


def stream(draws, *, tails="any", vary=1.0):
    """The largest errors of draws of one stream, and the shares of intervals that hold; private rows `vary` times as much."""
    rng = np.random.default_rng(9)
    errors = []
    held = []
    for draw in range(max(draws) + 1):
        x = rng.normal(size=(20_020, 3))
        chance = rng.random(20_020)
        if draw not in draws:
            continue
        x[20:] *= vary
        y = (chance < 1.0 / (1.0 + np.exp(-x @ SLOPES))).astype(float)
        result = seeded(
            logistic_regression,
            x[20:],
            y[20:],
            x_pub=x[:20],
            y_pub=y[:20],
            budget=ZCDP(1),
            method="newton",
            tails=tails,
            random_state=draw,
        )
        errors.append(np.max(np.abs([*(result.coefficients - SLOPES), result.intercept])))
        lower, upper = result.confidence_interval()
        held.append((lower < SLOPES) & (upper > SLOPES))
    return np.array(errors), float(np.mean(held))


# draws of 100 that steps without bound and secants leave off by more than .5
RAN_AWAY = (1, 4, 24, 28, 34, 44, 48, 90)


@pytest.mark.parametrize("tails", ["any", "light"])
def test_steps_of_classes_do_not_run_away(tails):
    """Errors are .03 in the median; of 100 draws none is above .1."""
    errors, _ = stream(RAN_AWAY, tails=tails)
    assert np.max(errors) < 0.5


def without_secants(monkeypatch):
    monkeypatch.setattr(NewtonState, "note_secant", lambda self, curvature: None)


def test_planted_fault_steps_without_bound_and_secants_end_far_off(monkeypatch):
    """Errors are .5 to 26."""
    without_secants(monkeypatch)
    monkeypatch.setattr(tuning, "LONGEST_MOVE", math.inf)
    errors, _ = stream(RAN_AWAY, tails="light")
    assert np.min(errors) > 0.5


def test_planted_fault_steps_without_bound_and_secants_run_away(monkeypatch):
    """Of private rows that vary 2.5 times as much; errors of these draws are .11 at most with both, and 18 to 41 without."""
    without_secants(monkeypatch)
    monkeypatch.setattr(tuning, "LONGEST_MOVE", math.inf)
    errors, _ = stream((0, 1, 4, 9, 14), tails="light", vary=2.5)
    assert np.min(errors) > 10.0


def test_planted_fault_bounded_steps_without_secants_end_far_off(monkeypatch):
    """Errors of these draws are .08 at most, and .4 to 1.4 without."""
    draws = (18, 23, 36, 47)
    errors, _ = stream(draws, tails="light", vary=2.5)
    assert np.max(errors) < 0.2
    without_secants(monkeypatch)
    errors, _ = stream(draws, tails="light", vary=2.5)
    assert np.min(errors) > 0.3


def test_planted_fault_secants_in_all_directions_are_seen(monkeypatch):
    """They also shorten what is right, and a move that was shortened counts as a measurement."""
    draws = range(20)
    errors, held = stream(draws, tails="light", vary=2.5)
    assert np.max(errors) < 0.2
    assert held > 0.9
    monkeypatch.setattr(Secant, "shortened", lambda self, move, curvature: move / self.factor)
    errors, held = stream(draws, tails="light", vary=2.5)
    assert np.max(errors) > 0.2
    assert held < 0.75


@pytest.mark.statistical
@pytest.mark.parametrize("tails", ["any", "light"])
def test_intervals_of_the_stream_hold(tails):
    """300 slopes: a true coverage of .95 has a standard deviation of .013."""
    errors, held = stream(range(100), tails=tails)
    assert np.max(errors) < 0.5
    assert held > 0.93


@pytest.mark.parametrize("positives", [0, 20])
def test_no_interval_is_narrow_if_a_class_is_next_to_absent(positives):
    """20 positives of 4,000 tell a slope up to .2; their absence tells nothing."""
    rng = np.random.default_rng(9)
    for draw in range(6):
        x = rng.normal(size=(4_020, 3))
        y = (rng.random(4_020) < 1.0 / (1.0 + np.exp(-x @ SLOPES))).astype(float)
        y[20:] = np.arange(4_000) < positives
        given = {"x_pub": x[:20], "y_pub": y[:20], "budget": ZCDP(1), "method": "newton"}
        result = seeded(logistic_regression, x[20:], y[20:], **given, random_state=draw)
        lower, upper = result.confidence_interval()
        assert np.min(upper - lower) > 0.1


# ---- The Huber loss ----------------------------------------------------------------------------------------------------
def robust(m, draws, tails="any"):
    """Of draws with m public rows: how many exclude two truths or more, and print the public fit; and the coverage."""
    truth = np.array([0.5, *SLOPES])
    rng = np.random.default_rng([3, m])
    held = []
    public = 0
    for draw in range(draws):
        x = rng.normal(size=(20_000 + m, 3))
        y = 0.5 + x @ SLOPES + rng.normal(size=len(x))
        given = {
            "x_pub": x[:m],
            "y_pub": y[:m],
            "loss": "huber",
            "method": "newton",
            "tails": tails,
        }
        result = seeded(train, x[m:], y[m:], **given, budget=ZCDP(1), random_state=draw)
        lower, upper = result.confidence_interval()
        held.append((lower < truth[1:]) & (truth[1:] < upper))
        public += np.allclose(result.coefficients, result.public_coefficients, rtol=1e-6)
    held = np.array(held)
    return int(np.sum(np.sum(~held, axis=1) > 1)), public, float(np.mean(held))


def test_of_eight_public_rows_the_private_fit_is_not_the_public_one():
    excluded, public, held = robust(8, 40)
    assert public == 0
    assert excluded <= 1
    assert held > 0.93


@pytest.mark.statistical
def test_planted_fault_an_end_at_the_start_is_seen(monkeypatch):
    """The rule that a slope toward the public fit leads back to it, however small an overshoot: 13 of 40 steps alone print it."""
    # "light" tails: exact coefficients after the steps would leave the public fit.
    excluded, public, held = robust(8, 40, tails="light")
    assert excluded == 0
    assert public == 0
    assert held > 0.93

    def back(self):
        if self._slopes[-1].slope @ (self._posterior.mean - self.mean) > 0.0:
            self.mean = self._slopes[0].start

    monkeypatch.setattr(newton.NewtonState, "settle", back)
    excluded, public, held = robust(8, 40, tails="light")
    assert excluded > 8
    assert public > 8
    assert held < 0.8
