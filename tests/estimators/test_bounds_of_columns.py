"""`bounds=(lowest, highest)` for people who know what their columns can hold."""

from unittest import mock

import numpy as np
import pytest
from spies import seeded

from fastpubpriv import (
    ZCDP,
    AccuracyWarning,
    GaussianResult,
    InputError,
    PureDP,
    coinpress_covariance,
    coinpress_mean,
    estimate_gaussian,
    private_pca,
    weighted_mean,
)
from fastpubpriv.estimators import covariance as covariances

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


# ---- second moments ---------------------------------------------------------------------------------------------------

SPREADS = {
    "coinpress_covariance": lambda x, **o: seeded(coinpress_covariance, x, **({"budget": ZCDP(0.5)} | o)),
    "private_pca": lambda x, **o: seeded(private_pca, x, **({"budget": ZCDP(0.5), "n_components": 1} | o)),
    "private_pca, public rows": lambda x, **o: seeded(
        private_pca, x, **({"budget": ZCDP(0.5), "n_components": 1, "x_pub": PUBLIC} | o)
    ),
    "estimate_gaussian": lambda x, **o: seeded(estimate_gaussian, x, **({"budget": ZCDP(0.5), "x_pub": PUBLIC} | o)),
}


@pytest.mark.parametrize("center", [None, 0.4 * SCALE])
def test_a_covariance_has_a_unit_for_each_column(center):
    given = {"bounds": BOUNDS, "center": center}
    found = SPREADS["coinpress_covariance"](ROWS, **given)
    about = SCALE / 2.0 if center is None else center
    true = (ROWS - about).T @ (ROWS - about) / len(ROWS)
    assert np.all(np.abs(found.covariance - true) < 0.03 * np.outer(SCALE, SCALE))
    assert np.all(np.diag(found.covariance) <= (about * (SCALE - about)) * (1 + 1e-12))
    unit = np.array([4.0, 0.25, 1.0])
    moved = given | {"bounds": (np.zeros(3), SCALE * unit), "center": None if center is None else center * unit}
    again = SPREADS["coinpress_covariance"](ROWS * unit, **moved)
    np.testing.assert_array_equal(again.covariance, found.covariance * np.outer(unit, unit))
    # Planted: one unit for all columns, in which the small ones are lost.
    shared = SPREADS["coinpress_covariance"](ROWS - about, scale=float(SCALE.max() ** 2))
    assert abs(shared.covariance[1, 1] - true[1, 1]) > 100.0 * SCALE[1] ** 2


def test_no_variance_is_more_than_bounds_allow():
    """Rows at both ends have the largest variance that there is; noise must not make it larger, and does without the limit."""
    ends = np.repeat([[0.0], [1.0]], 100, axis=0)
    limited = [SPREADS["coinpress_covariance"](ends, bounds=(0.0, 1.0), random_state=seed) for seed in range(8)]
    assert max(float(found.covariance[0, 0]) for found in limited) <= 0.25 * (1 + 1e-12)
    with mock.patch.object(covariances, "narrowed", side_effect=lambda found, center, box: found):
        free = [SPREADS["coinpress_covariance"](ends, bounds=(0.0, 1.0), random_state=seed) for seed in range(8)]
    assert max(float(found.covariance[0, 0]) for found in free) > 0.25


@pytest.mark.parametrize("name", ["private_pca", "private_pca, public rows"])
@pytest.mark.parametrize("budget", [ZCDP(0.5), PureDP(1)])
def test_a_ball_of_directions_stays_within_the_corners(name, budget):
    rows = ROWS / SCALE * [1.0, 3.0, 1.0]
    public = {"x_pub": PUBLIC / SCALE * [1.0, 3.0, 1.0]} if "public" in name else {}
    found = SPREADS[name](rows, bounds=([0.0, 0.0, 0.0], [1.0, 3.0, 1.0]), budget=budget, **public)
    assert abs(found.components[0, 1]) > 0.95
    assert found.status == ("resolved",)
    (radius,) = {each["clip_radius"] * np.sqrt(2.0) for each in found.releases if "second moment" in each["name"]}
    assert radius <= np.linalg.norm(np.maximum(found.center, [1.0, 3.0, 1.0] - found.center)) * (1 + 1e-12)
    few = SPREADS[name](rows[:40], bounds=(0.0, 3.0), budget=ZCDP(0.01), **public)  # too few for a count of distances
    assert [each["name"] for each in few.releases] == ["second moment"]
    assert few.provenance["radius"] == ("public rows" if public else "bounds")
    assert few.provenance["center"] == ("public rows" if public else "bounds")


def test_a_gaussian_stays_within_its_bounds():
    box = (np.zeros(3), SCALE)
    free, held = (SPREADS["estimate_gaussian"](ROWS + 2.0 * SCALE, bounds=bounds) for bounds in (None, box))
    assert np.all(free.mean > SCALE)
    np.testing.assert_array_equal(held.mean, SCALE)
    assert (held.status, held.diagnostics["outside_bounds"]) == ("clipped", True)
    assert np.all(np.diag(held.covariance) < np.diag(free.covariance))
    np.testing.assert_allclose(held.correlation, free.correlation, rtol=1e-9, atol=1e-12)
    assert held.spent == free.spent
    assert held.releases == free.releases
    again = GaussianResult.from_json(held.to_json())
    assert again.diagnostics["bounds"] == (tuple(box[0]), tuple(box[1]))
    for method in ("lifted_coinpress", "pairs"):
        with pytest.warns(AccuracyWarning):
            other = SPREADS["estimate_gaussian"](
                ROWS[:50] / SCALE, bounds=(0.0, 1.0), method=method, x_pub=PUBLIC / SCALE
            )
        assert np.all((other.mean >= 0.0) & (other.mean <= 1.0) & (np.diag(other.covariance) <= 0.25 * (1 + 1e-12)))
    assert SPREADS["estimate_gaussian"](ROWS / SCALE, bounds=(0.0, np.inf), x_pub=PUBLIC / SCALE).status == "ok"


@pytest.mark.parametrize("name", ["private_pca, public rows", "estimate_gaussian"])
def test_public_rows_beyond_the_bounds_are_named(name):
    with pytest.warns(AccuracyWarning, match=r"public values lie beyond bounds= in x2,"):
        SPREADS[name](ROWS, bounds=(np.zeros(3), [1.0, 1e-6, 1e8]))


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
# A mean or a covariance may be limited at one end alone, in any unit; what needs no bounds needs nothing in their place.
ENDLESS = ("finite", "change the unit", "leave them out", "bounds=")
OPTIONAL = {
    "estimate_gaussian": ENDLESS,
    "private_pca, public rows": ("bounds=",),
    "coinpress_covariance": ("leave them out",),
}


@pytest.mark.parametrize("name", CALLS | SPREADS)
@pytest.mark.parametrize(("options", "words"), BAD)
def test_bounds_are_checked(name, options, words):
    if words in OPTIONAL.get(name, ()):
        return
    with pytest.raises(InputError, match=words):
        (CALLS | SPREADS)[name](ROWS, **options)


def test_bounds_stand_alone():
    with pytest.raises(InputError, match="either"):
        CALLS["weighted_mean"](ROWS, bounds=BOUNDS, norm_bound=1.0)
    with pytest.raises(InputError, match="leave them out"):
        CALLS["weighted_mean"](ROWS, bounds=BOUNDS, variance=1.0)
    with pytest.raises(InputError, match="leave them out"):
        CALLS["coinpress_mean"](ROWS, bounds=BOUNDS, radius=1.0)
    with pytest.raises(InputError, match="leave them out"):
        SPREADS["private_pca"](ROWS, bounds=BOUNDS, radius="auto")
    with pytest.raises(InputError, match="either"):
        SPREADS["coinpress_covariance"](ROWS, bounds=BOUNDS, scale=1.0)
    with pytest.raises(InputError, match="within"):
        SPREADS["coinpress_covariance"](ROWS, bounds=BOUNDS, center=0.0)
