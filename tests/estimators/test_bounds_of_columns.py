"""`bounds=(lowest, highest)` for people who know what their columns can hold."""

import numpy as np
import pytest
from spies import seeded

from fastpubpriv import ZCDP, InputError, PureDP, coinpress_mean, weighted_mean

RNG = np.random.default_rng(17)
SCALE = np.array([1.0, 1e-6, 1e9])
ROWS = RNG.random((4000, 3)) * SCALE
PUBLIC = RNG.random((20, 3)) * SCALE
BOUNDS = (np.zeros(3), SCALE)
CALLS = {
    "weighted_mean": lambda x, **o: seeded(weighted_mean, x, **({"budget": ZCDP(0.5)} | o)),
    "weighted_mean, public rows": lambda x, **o: seeded(
        weighted_mean, x, **({"budget": ZCDP(0.5), "x_pub": PUBLIC} | o)
    ),
    "coinpress_mean": lambda x, **o: seeded(coinpress_mean, x, **({"budget": ZCDP(0.5)} | o)),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("budget", [ZCDP(0.5), PureDP(1)])
def test_each_column_has_noise_of_its_own_scale(name, budget):
    result = CALLS[name](ROWS, bounds=BOUNDS, budget=budget)
    assert np.all(np.abs(result.mean - ROWS.mean(axis=0)) < 0.05 * SCALE)
    np.testing.assert_allclose(result.noise_std / SCALE, result.noise_std[0], rtol=1e-12)
    assert np.all(result.sampling_std < 0.02 * SCALE)
    lower, upper = result.confidence_interval()
    assert np.all((lower < result.mean) & (result.mean < upper))


@pytest.mark.parametrize("name", CALLS)
def test_units_change_nothing(name):
    once = CALLS[name](ROWS, bounds=BOUNDS)
    unit = np.array([4.0, 0.25, 1.0])
    given = {"x_pub": PUBLIC * unit} if "public" in name else {}
    again = CALLS[name](ROWS * unit, bounds=(np.zeros(3), SCALE * unit), **given)
    np.testing.assert_array_equal(again.mean, once.mean * unit)
    np.testing.assert_array_equal(again.noise_std, once.noise_std * unit)


@pytest.mark.parametrize("name", CALLS)
def test_the_answer_lies_within(name):
    given = {"x_pub": np.full((20, 3), 0.9)} if "public" in name else {}
    for budget in (ZCDP(1e-6), ZCDP(0.5)):
        result = CALLS[name](np.full((50, 3), 1e3), bounds=(0.0, 1.0), budget=budget, **given)
        assert np.all((result.mean >= 0.0) & (result.mean <= 1.0))


def test_one_column_is_the_ball_of_half_the_range():
    rows = ROWS[:, :1]
    box = seeded(weighted_mean, rows, bounds=(0.0, 2.0), budget=ZCDP(0.5))
    ball = seeded(weighted_mean, rows, center=1.0, norm_bound=1.0, budget=ZCDP(0.5))
    np.testing.assert_array_equal(box.mean, ball.mean)
    np.testing.assert_array_equal(box.noise_std, ball.noise_std)


def test_the_ball_of_coinpress_reaches_the_corners():
    box, ball = {"bounds": ([0.0, 0.0], [1.0, 4.0])}, {"center": [0.5, 2.0], "radius": float(np.hypot(0.5, 1.0))}
    found = [CALLS["coinpress_mean"](ROWS[:, :2], variance=[1.0, 4.0], steps=1, **given) for given in (box, ball)]
    assert found[0].releases[0]["clip_radius"] == found[1].releases[0]["clip_radius"]
    full = CALLS["coinpress_mean"](ROWS[:, :2], bounds=(0.0, 1.0), covariance=[[1.0, 0.5], [0.5, 1.0]])
    assert np.isfinite(full.mean).all()


BAD = [
    ({"bounds": (1.0, 0.0)}, "below the highest"),
    ({"bounds": (0.0, 0.0)}, "below the highest"),
    ({"bounds": (0.0, np.inf)}, "finite"),
    ({"bounds": (np.nan, 1.0)}, "below the highest"),
    ({"bounds": ([0.0, 0.0], 1.0)}, "3 columns"),
    ({"bounds": 1.0}, "pair"),
    ({"bounds": ("a", 1.0)}, "numbers"),
    ({"bounds": (0.0, 1e-300)}, "change the unit"),
    ({"bounds": BOUNDS, "center": 0.0}, "leave them out"),
    ({}, "bounds="),
]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(("options", "words"), BAD)
def test_bounds_are_checked(name, options, words):
    with pytest.raises(InputError, match=words):
        CALLS[name](ROWS, **options)


def test_bounds_stand_alone():
    with pytest.raises(InputError, match="either"):
        CALLS["weighted_mean"](ROWS, bounds=BOUNDS, norm_bound=1.0)
    with pytest.raises(InputError, match="leave them out"):
        CALLS["weighted_mean"](ROWS, bounds=BOUNDS, variance=1.0)
    with pytest.raises(InputError, match="leave them out"):
        CALLS["coinpress_mean"](ROWS, bounds=BOUNDS, radius=1.0)
