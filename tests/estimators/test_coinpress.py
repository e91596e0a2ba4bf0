"""`coinpress_mean`: the recursion step by step, equivariance, and what the caller's ball means."""

import math

import numpy as np
import pytest
from spies import seeded

from fastpubpriv import ZCDP, ApproxDP, InputError, PureDP, coinpress_mean, estimate_mean, plan
from fastpubpriv.estimators.radii import chi_radius, gap_radius
from fastpubpriv.parameters import FAILURE_PROB
from fastpubpriv.release import transcript as transcripts


def mean_of(private, budget=None, **options):
    arguments = {"center": 0.0, "radius": 50.0, **options}
    return seeded(coinpress_mean, private, budget=budget or ZCDP(0.5), **arguments)


def gaussian(n=5000, dim=4, seed=0):
    return np.random.default_rng(seed).standard_normal((n, dim))


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_each_step_follows_the_recursion(steps):
    n, dim, rho = 5000, 4, 0.5
    result = mean_of(gaussian() + 10.0, steps=steps)
    radius, row = 50.0, chi_radius(dim, 0.01)
    shares = [1.0] if steps == 1 else [0.25 / (steps - 1)] * (steps - 1) + [0.75]
    for release, share in zip(result.releases, shares, strict=True):
        clip = math.sqrt(radius**2 + 6 * radius + row**2)
        noise = 2 * clip / math.sqrt(2 * rho * share)
        assert release["clip_radius"] == pytest.approx(clip, rel=1e-3)
        assert release["noise_std"] == pytest.approx(noise, rel=1e-3)
        assert release["noise_std"] >= 2 * release["clip_radius"] / math.sqrt(2 * rho * share)
        radius = row * math.sqrt(1 / n + (noise / n) ** 2)
    assert sum(float(release["rho"]) for release in result.releases) == pytest.approx(rho, rel=1e-5)
    assert sum(release["rho"] for release in result.releases) <= ZCDP(rho).rho
    assert np.all(np.abs(result.mean - 10.0) < 8 * result.standard_error)


def test_every_step_clips_the_original_rows():
    private = gaussian(200, 2) + np.array([30.0, 0.0])
    with transcripts.recording() as transcript:
        result = mean_of(private, steps=2)
    first, second = transcript.calls
    center = first.answer / 200
    clip = result.releases[1]["clip_radius"]
    moved = private - center
    norm = np.linalg.norm(moved, axis=1, keepdims=True)
    expected = (moved * np.minimum(1.0, clip / norm)).sum(axis=0)
    assert second.query * second.unit == pytest.approx(expected, abs=200 * second.unit)


@pytest.mark.parametrize("budget", [ZCDP(0.5), ApproxDP(1, 1e-6), PureDP(1)])
def test_shifted_rows_shift_the_mean(budget):
    private = gaussian()
    for shift in (1e3, 1e8):
        here, there = mean_of(private, budget), mean_of(private + shift, budget, center=shift)
        assert np.all(np.abs(there.mean - shift - here.mean) <= 1e-9 * shift)


def test_covariance_scales_ball_and_answer():
    private = gaussian()
    scale = np.array([1e-3, 1.0, 10.0, 1e4])
    plain, mapped = mean_of(private), mean_of(private * scale, variance=scale**2)
    assert mapped.mean / scale == pytest.approx(plain.mean, abs=1e-7)
    assert mapped.noise_std / scale == pytest.approx(plain.noise_std)


def test_center_is_a_number_or_a_vector():
    private = gaussian() + np.array([0, 10, 20, 30])
    vector = mean_of(private, center=[0, 10, 20, 30], radius=5.0)
    assert np.all(np.abs(vector.mean - [0, 10, 20, 30]) < 8 * vector.standard_error)
    number = mean_of(private, center=np.float64(15), radius=40.0)
    assert np.all(np.abs(number.mean - [0, 10, 20, 30]) < 8 * number.standard_error)
    assert np.array_equal(mean_of(private, center=np.array(15.0), radius=40.0).mean, number.mean)


def test_one_public_row_is_a_ball_of_its_own():
    private, public = gaussian(), gaussian(1, 4, seed=1)
    from_public = seeded(estimate_mean, private, x_pub=public, budget=ZCDP(0.5), clipping="gaussian")
    by_hand = mean_of(private, center=public[0], radius=gap_radius(4, 1, FAILURE_PROB / 2.0, 0.0))
    assert np.array_equal(from_public.mean, by_hand.mean)
    assert from_public.n_pub == 1
    assert by_hand.n_pub == 0


def test_auto_steps_take_the_planned_number():
    result = mean_of(gaussian(), radius=1e5, steps="auto")
    planned = plan("coinpress_mean", dim=4, n_priv=5000, budget=ZCDP(0.5), radius=1e5, steps="auto")
    assert len(result.releases) == planned.details["steps"] > 2
    assert result.noise_std[0] < mean_of(gaussian(), radius=1e5, steps=1).noise_std[0] / 100


def test_a_ball_that_misses_the_mean_costs_accuracy_only():
    result = mean_of(gaussian() + 1000.0, radius=1.0)
    assert np.all(np.isfinite(result.mean))
    assert np.all(result.mean < 100)
    assert result.spent == ZCDP(0.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"center": "zero"}, "center"),
        ({"center": None}, "center"),
        ({"center": math.nan}, "center"),
        ({"center": [0.0, 1.0]}, "center"),
        ({"center": True}, "center"),
        ({"radius": 0.0}, "radius"),
        ({"radius": -1.0}, "radius"),
        ({"radius": math.inf}, "radius"),
        ({"radius": 1e200}, "radius"),
        ({"radius": "10"}, "radius"),
        ({"covariance": "public"}, "covariance"),
        ({"covariance": 4.0}, "is variance="),
        ({"variance": [[1.0, 0.0], [0.0, 1.0]]}, "is covariance="),
        ({"covariance": [[1.0, 2.0], [2.0, 1.0]]}, "covariance"),
    ],
)
def test_arguments_are_checked(options, message):
    with pytest.raises(InputError, match=message):
        mean_of(gaussian(), **options)
