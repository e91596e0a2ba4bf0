"""What public rows tell in the local model: the norm bound, the error of a mean in a ball, and what shortening takes."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from fastpubpriv import InputError
from fastpubpriv.local import Duchi, PrivUnit, PrivUnitG, SubsetSelection, estimate_mean, mean_error, public_facts
from fastpubpriv.local.public_facts import Moments, clipping_std, public_norm_bound, row_norms
from fastpubpriv.results.estimates import MeanResult

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")

# ---- The norm bound -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [PrivUnit, PrivUnitG, Duchi, SubsetSelection])
def test_the_bound_is_the_longest_public_row(make):
    public = np.random.default_rng(0).normal(size=(50, 3))
    found = make(3, 2.0, norm_bound="public", x_pub=public)
    longest = np.linalg.norm(public, axis=1).max()
    assert longest <= found.radius <= 1.001 * longest
    assert found == make(3, 2.0, norm_bound=found.norm_bound)
    assert dataclasses.replace(found, epsilon=3.0).norm_bound == found.norm_bound


@pytest.mark.parametrize(
    ("longest", "bound"),
    [(3.0, 3.0), (2.68694, 2.687), (9.99991, 10.0), (1.00001e-7, 1.001e-7), (123456.7, 123500.0), (4e149, 4e149)],
)
def test_the_bound_has_four_digits(longest, bound):
    """Whatever the last bits of a norm are: the two ends of a pipe may compute them otherwise."""
    for last in (1.0 - 1e-15, 1.0, 1.0 + 1e-15):
        assert public_norm_bound(np.array([[longest * last, 0.0], [0.0, 0.1 * longest]])) == bound


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"norm_bound": "largest"}, "'public'"),
        ({"norm_bound": "public"}, "x_pub"),
        ({"norm_bound": 2.0, "x_pub": np.ones((4, 3))}, "pass both, or a number"),
        ({"x_pub": np.ones((4, 3))}, "pass both, or a number"),
        ({"norm_bound": "public", "x_pub": np.zeros((4, 3))}, "not zero"),
        ({"norm_bound": "public", "x_pub": np.ones((4, 2))}, "columns"),
        ({"norm_bound": "public", "x_pub": np.full((4, 3), 1e200)}, "unit"),
    ],
)
def test_a_bound_that_cannot_be_told(arguments, why):
    with pytest.raises(InputError, match=why):
        PrivUnit(3, 2.0, **arguments)


# ---- The error of a mean in a ball ----------------------------------------------------------------------------------


def test_the_error_in_a_ball_is_the_predicted_one():
    """300 runs with fixed seeds: within 4 standard errors; radius^2 - V^2, the mean's square on a sphere, is far off here."""
    dim, n, n_pub, runs = 6, 400, 30, 300
    randomizer = PrivUnit(dim, 6.0, norm_bound=2.0)
    center = np.full(dim, 0.2)
    variance = dim * 0.1**2
    known = {"n_reports": n, "n_pub": n_pub, "variance": variance}
    predicted = mean_error(randomizer, **known, mean_square=variance + float(center @ center))
    rng = np.random.default_rng(3)
    errors, told = [], []
    for run in range(runs):
        reports = randomizer.privatize(rng.normal(center, 0.1, (n, dim)), random_state=run)
        alone = estimate_mean(reports)
        result = estimate_mean(reports, x_pub=rng.normal(center, 0.1, (n_pub, dim)))
        errors.append([np.sum((each.mean - center) ** 2) for each in (alone, result)])
        told.append(result.releases[0]["predicted_error"])
    found, doubt = np.mean(errors, axis=0), np.std(errors, axis=0) / math.sqrt(runs)
    assert abs(found[0] - predicted.private_error) < 4.0 * doubt[0]
    assert abs(found[1] - predicted.mean_squared_error) < 4.0 * doubt[1]
    assert np.mean(told) == pytest.approx(predicted.mean_squared_error, rel=0.05)
    # Without the mean square the prediction is an upper bound, and a near one where the mean is short.
    bound = mean_error(randomizer, **known)
    assert predicted.private_error < bound.private_error == pytest.approx(randomizer.second_moment / n)
    # The planted fault: what the sphere would have.
    fault = (randomizer.second_moment - (randomizer.radius**2 - variance)) / n
    assert fault < found[0] - 8.0 * doubt[0]


def test_the_empirical_error_in_a_ball():
    """200 runs with fixed seeds, as above; the rows are those of one draw."""
    dim, n, n_pub, runs = 4, 300, 60, 200
    randomizer = PrivUnit(dim, 6.0, norm_bound=1.0)
    rows = np.random.default_rng(4).normal(0.3, 0.1, (n + n_pub, dim))
    private, public = rows[:n], rows[n:]
    square = float(np.mean(np.sum(private * private, axis=1)))
    sizes = {"n_reports": n, "n_pub": n_pub, "target": "empirical"}
    predicted = mean_error(randomizer, **sizes, mean_square=square)
    errors = [
        np.sum(
            (estimate_mean(randomizer.privatize(private, random_state=run), x_pub=public, target="empirical").mean
             - rows.mean(axis=0)) ** 2
        )
        for run in range(runs)
    ]  # fmt: skip
    doubt = np.std(errors) / math.sqrt(runs)
    assert abs(np.mean(errors) - predicted.mean_squared_error) < 4.0 * doubt
    assert mean_error(randomizer, **sizes).mean_squared_error > predicted.mean_squared_error


def test_on_the_sphere_the_mean_square_is_one():
    assert mean_error(PrivUnit(4, 3.0), n_reports=9, variance=0.3) == mean_error(
        PrivUnit(4, 3.0), n_reports=9, variance=0.3, mean_square=1.0
    )
    found = Moments.of(np.eye(4), 1.0, sphere=True)
    assert found.square == 1.0
    assert found.mean_square == pytest.approx(1.0 - found.variance)


@pytest.mark.parametrize(
    ("randomizer", "arguments", "why"),
    [
        (PrivUnit(3, 2.0, norm_bound=2.0), {"mean_square": 4.1}, "radius"),
        (PrivUnit(3, 2.0, norm_bound=2.0), {"mean_square": 1.0, "variance": 1.1}, "mean_square"),
        (PrivUnit(3, 2.0), {"mean_square": 0.5}, "leave it out"),
    ],
)
def test_moments_that_cannot_be(randomizer, arguments, why):
    with pytest.raises(InputError, match=why):
        mean_error(randomizer, n_reports=10, **arguments)


# ---- What shortening takes ------------------------------------------------------------------------------------------


def covered(draw, loss, told_by, monkeypatch, draws=1000, n_pub=200):
    """Share of draws in which 1.96 times the allowance is no less than what the longest public row takes, without any noise."""
    monkeypatch.setattr(public_facts, "TOLD_BY", told_by)
    rng = np.random.default_rng(5)
    rows = [draw(rng, n_pub)[:, None] for _ in range(draws)]
    return np.mean([loss(float(each.max())) <= 1.96 * clipping_std(each, float(each.max()))[0] for each in rows])


def test_the_allowance_covers_an_exponential_tail(monkeypatch):
    """What the longest of 200 public rows leaves beyond it: 96 % of draws; by two rows it is 85 %."""
    exponential = (lambda rng, n: rng.exponential(size=n), lambda bound: math.exp(-bound))
    normal = (
        lambda rng, n: np.abs(rng.normal(size=n)),
        lambda bound: 2.0 * (stats.norm.pdf(bound) - bound * stats.norm.sf(bound)),
    )
    assert covered(*exponential, 4, monkeypatch) > 0.94
    assert covered(*normal, 4, monkeypatch) > 0.94
    assert covered(*exponential, 2, monkeypatch) < 0.9  # the planted fault


def test_a_bound_far_beyond_the_rows_takes_nothing():
    public = np.random.default_rng(6).normal(size=(100, 3))
    longest = float(row_norms(public).max())
    at, near, far = (clipping_std(public, factor * longest) for factor in (1.0, 1.5, 30.0))
    assert np.all(at > near)
    assert np.all(near > far)
    assert np.all(far < 1e-9)
    assert np.all(clipping_std(public, 0.5 * longest) > at)
    assert np.array_equal(clipping_std(np.ones((10, 2)), 2.0), np.zeros(2))
    assert clipping_std(public[:4], 1.0) is None


def test_the_interval_holds_what_is_shortened():
    """Rows with a tail, one in ten beyond the bound: the truth lies outside of noise and sampling, and inside with clipping."""
    rng = np.random.default_rng(7)
    rows, public = rng.exponential(size=(200_000, 1)), rng.exponential(size=(400, 1))
    randomizer = PrivUnit(1, 8.0, norm_bound=math.log(10.0))
    result = estimate_mean(randomizer.privatize(rows, random_state=1), x_pub=public)
    assert result.releases[0]["public_rows_shortened"] == pytest.approx(0.1, abs=0.05)
    lower, upper = result.confidence_interval(0.95)
    without = dataclasses.replace(result, clipping_std=None)
    assert without.confidence_interval(0.95)[1][0] < 1.0 < upper[0]
    assert lower[0] < result.mean[0]
    assert np.array_equal(MeanResult.from_json(result.to_json()).clipping_std, result.clipping_std)
    assert "noise, sampling and clipping" in result.summary()


def test_directions_lose_nothing():
    public = np.random.default_rng(8).normal(size=(20, 3))
    result = estimate_mean(PrivUnit(3, 2.0).privatize(public, random_state=0), x_pub=public + 0.0)
    assert result.clipping_std is None
    assert "public_rows_shortened" not in result.releases[0]


@pytest.mark.parametrize("numbers", ["[1.0]", "[1.0, null]", "3.0", '"no"'])
def test_a_clipping_std_that_cannot_be_read(numbers):
    public = np.random.default_rng(9).normal(size=(20, 2))
    reports = PrivUnit(2, 2.0, norm_bound=9.0).privatize(public, random_state=0)
    text = estimate_mean(reports, x_pub=public + 0.0).to_json()
    start = text.index('"clipping_std":') + len('"clipping_std":')
    end = text.index("]", start) + 1
    assert MeanResult.from_json(text[:start] + " null" + text[end:]).clipping_std is None
    with pytest.raises(InputError, match="clipping_std"):
        MeanResult.from_json(text[:start] + numbers + text[end:])
