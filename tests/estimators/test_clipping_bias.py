"""Means of rows that a ball clips: their intervals hold the truth, or the status says that the unit is not that of the rows."""

import math

import numpy as np
import pytest
from spies import seeded

from fastpubpriv import ZCDP, coinpress_mean, estimate_mean
from fastpubpriv.estimators.clipping_bias import (
    ClippedMean,
    bias_of_last,
    pull,
    shape_std,
)

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")

BUDGET = ZCDP(0.1)
ROWS = 20_000
DRAWS = 12


def normal_rows(draw, rows, *, mean=5.0, std=1.0):
    return np.random.default_rng(draw).normal(mean, std, (rows, 3))


def lognormal_rows(draw, rows):
    """Rows with a mean of exp(.5) and a variance of e (e - 1) in every column."""
    return np.random.default_rng(draw).lognormal(size=(rows, 3))


def covered(result, truth):
    lower, upper = result.confidence_interval()
    return bool(np.all((lower <= truth) & (truth <= upper)))


def test_one_public_row_gives_the_mean_of_gaussian_rows():
    for draw in range(DRAWS):
        public = normal_rows(1_000 + draw, 1)
        result = seeded(
            estimate_mean,
            normal_rows(draw, 5_000),
            x_pub=public,
            budget=ZCDP(0.5),
            clipping="gaussian",
            random_state=draw,
        )
        assert np.all(np.abs(result.mean - 5.0) < 0.3)
        assert result.status == "ok"


@pytest.mark.parametrize("n_pub", [1, 5, 60])
def test_intervals_of_skewed_rows_hold_their_mean(n_pub):
    variance = math.e * (math.e - 1.0)
    held = []
    for draw in range(DRAWS):
        result = seeded(
            estimate_mean,
            lognormal_rows(draw, ROWS),
            x_pub=lognormal_rows(1_000 + draw, n_pub),
            budget=BUDGET,
            variance=variance,
            random_state=draw,
        )
        held.append(result.status != "ok" or covered(result, math.exp(0.5)))
    assert sum(held) >= DRAWS - 2


@pytest.mark.parametrize("radius", [30.0, "auto"])
def test_intervals_of_skewed_rows_hold_without_public_rows(radius):
    variance = math.e * (math.e - 1.0)
    held = []
    for draw in range(DRAWS):
        result = seeded(
            coinpress_mean,
            lognormal_rows(draw, ROWS),
            budget=BUDGET,
            center=2.0,
            radius=radius,
            variance=variance,
            random_state=draw,
        )
        held.append(result.status != "ok" or covered(result, math.exp(0.5)))
    assert sum(held) >= DRAWS - 2


def test_public_rows_of_light_tails_keep_intervals_narrow():
    result = seeded(
        estimate_mean,
        normal_rows(0, ROWS),
        x_pub=normal_rows(1, 60),
        budget=BUDGET,
        variance=1.0,
    )
    assert result.status == "ok"
    # 1.55 here: the tail of Gaussian rows is shorter than the exponential one that 60 rows permit.
    assert np.all(result.standard_error < 1.75 * np.hypot(result.noise_std, result.sampling_std))


@pytest.mark.parametrize("n_pub", [1, 2])
@pytest.mark.parametrize("rows", [400, ROWS])
def test_few_public_rows_do_not_vouch_for_a_unit(n_pub, rows):
    """The unit variance that is assumed by default is a twentieth of the true deviation."""
    for draw in range(DRAWS):
        result = seeded(
            estimate_mean,
            normal_rows(draw, rows, std=20.0),
            x_pub=normal_rows(1_000 + draw, n_pub, std=20.0),
            budget=BUDGET,
            clipping="gaussian",
            random_state=draw,
        )
        assert result.status == "unreliable"


def test_one_step_about_shifted_public_rows_is_corrected_for_its_pull():
    for draw in range(DRAWS):
        result = seeded(
            estimate_mean,
            normal_rows(draw, ROWS),
            x_pub=normal_rows(1_000 + draw, 60, mean=8.0),
            budget=BUDGET,
            variance=1.0,
            steps=1,
            random_state=draw,
        )
        assert covered(result, 5.0)


def test_bounds_that_no_ball_cuts_leave_no_bias():
    result = seeded(
        coinpress_mean,
        np.clip(normal_rows(0, ROWS), 0.0, 10.0),
        budget=BUDGET,
        bounds=(0.0, 10.0),
    )
    assert result.clipping_std.tolist() == [0.0, 0.0, 0.0]


# ---- Parts by hand ---------------------------------------------------------------------------------------------------
def test_the_pull_is_what_clipping_takes_from_gaussian_rows():
    offset = np.array([2.0])
    rows = 2.0 + np.random.default_rng(0).normal(size=1_000_000)
    lost = (rows - np.clip(rows, -2.5, 2.5)).mean()
    assert pull(offset, 2.5)[0] == pytest.approx(lost, rel=0.02)


def test_the_shape_is_what_clipping_takes_from_a_lognormal_column():
    log_std = 1.5
    growth = math.exp(log_std**2)
    std = math.sqrt(growth * (growth - 1.0))
    rows = np.exp(log_std * np.random.default_rng(0).normal(size=4_000_000))
    rows = (rows - math.sqrt(growth)) / std
    lost = np.maximum(rows - 4.0, 0.0).mean()
    assert shape_std(4.0, 1) == pytest.approx(lost, rel=0.1)


def test_a_wider_ball_shows_what_the_last_one_takes():
    """Ten times the ball shows nearly all of the shape; without noise it is known."""
    wide = ClippedMean(40.0, 1e-4, np.array([1.0]))
    last = ClippedMean(4.0, 1e-4, np.array([-0.02]))
    bias = bias_of_last([wide, last])
    share = 1.0 - shape_std(40.0, 1) / shape_std(4.0, 1)
    assert bias.expected[0] == pytest.approx(0.02 / share, rel=0.01)
    assert bias.std < 2e-4
    assert not bias.reasons


def test_a_step_that_moves_by_more_than_the_shape_contradicts_the_covariance():
    wide = ClippedMean(40.0, 1e-3, np.array([1.0]))
    last = ClippedMean(4.0, 1e-3, np.array([0.5]))
    assert bias_of_last([wide, last]).reasons == ("clipped",)


def test_a_single_step_has_the_prior():
    bias = bias_of_last([ClippedMean(4.0, 1e-3, np.array([0.0]))])
    assert bias.std == shape_std(4.0, 1)
    assert bias.expected.tolist() == [0.0]
