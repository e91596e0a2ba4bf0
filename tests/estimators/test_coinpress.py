"""`coinpress_mean`: the recursion step by step, equivariance, and what the caller's ball means."""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from gaussian_cases import holds
from helpers.errors import raises
from scipy import special, stats
from spies import seeded

from fastpubpriv import ZCDP, InputError, coinpress_mean, estimate_mean, plan, precondition
from fastpubpriv.estimators import radii
from fastpubpriv.estimators.radii import best_steps, chi_radius, gap_radius, predict_steps
from fastpubpriv.release import transcript as transcripts
from fastpubpriv.session import Noise
from fastpubpriv.shared_docs import FAILURE_PROB


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
    center, clip = first.answer / 200, result.releases[1]["clip_radius"]
    moved = private - center
    norm = np.linalg.norm(moved, axis=1, keepdims=True)
    expected = (moved * np.minimum(1.0, clip / norm)).sum(axis=0)
    assert second.query * second.unit == pytest.approx(expected, abs=200 * second.unit)


def test_center_is_a_number_or_a_vector_and_a_ball_that_misses_costs_accuracy_only():
    private = gaussian() + np.array([0, 10, 20, 30])
    vector = mean_of(private, center=[0, 10, 20, 30], radius=5.0)
    assert np.all(np.abs(vector.mean - [0, 10, 20, 30]) < 8 * vector.standard_error)
    number = mean_of(private, center=np.float64(15), radius=40.0)
    assert np.all(np.abs(number.mean - [0, 10, 20, 30]) < 8 * number.standard_error)
    assert np.array_equal(mean_of(private, center=np.array(15.0), radius=40.0).mean, number.mean)
    # A ball that misses the mean costs accuracy only.
    result = mean_of(gaussian() + 1000.0, radius=1.0)
    assert np.all(np.isfinite(result.mean))
    assert np.all(result.mean < 100)
    assert result.spent == ZCDP(0.5)


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


@pytest.mark.parametrize(("options", "message"), [
    ({"center": "zero"}, "center"), ({"center": None}, "center"), ({"center": math.nan}, "center"),
    ({"center": [0.0, 1.0]}, "center"), ({"center": True}, "center"), ({"radius": 0.0}, "radius"),
    ({"radius": -1.0}, "radius"), ({"radius": math.inf}, "radius"), ({"radius": 1e200}, "radius"),
    ({"radius": "10"}, "radius"), ({"covariance": "public"}, "covariance"), ({"covariance": 4.0}, "is variance="),
    ({"variance": [[1.0, 0.0], [0.0, 1.0]]}, "is covariance="),
    ({"covariance": [[1.0, 2.0], [2.0, 1.0]]}, "covariance"), ({"steps": "two"}, "steps"), ({"steps": 1.5}, "steps"),
])  # fmt: skip
def test_arguments_are_checked(options, message):
    raises(InputError, message, mean_of, gaussian(), **options)


# ---- Public preconditioning: closed forms, coverage over draws of the public rows, equivariance, refusals -----------
def test_closed_forms_at_the_least_number_of_rows():
    rows = np.random.default_rng(0).standard_normal((6, 5))
    guarantee, tail = precondition(rows, failure_prob=0.05), math.log(3 / 0.05)
    assert guarantee.eig_lower == pytest.approx(5 / (2 * math.sqrt(5) + math.sqrt(2 * tail)) ** 2)
    # Edelman's bound for d degrees of freedom: c erf(sqrt(x / 2)), c = sqrt(pi) Gamma(3) / Gamma(5/2), equals a third of
    # failure_prob; the paper's 9 d^2 / failure_prob^2 is the same before it is rounded up.
    share = 0.05 / 3 / (math.sqrt(math.pi) * math.gamma(3) / math.gamma(2.5))
    assert guarantee.eig_upper == pytest.approx(5 / (2 * special.erfinv(share) ** 2), rel=1e-9)
    assert guarantee.eig_upper < 9 * 25 / 0.05**2
    assert guarantee.mean_radius == pytest.approx(math.sqrt((5 + 2 * math.sqrt(5 * tail) + 2 * tail) / 6))
    assert guarantee.factor @ guarantee.factor.T == pytest.approx(np.cov(rows.T))
    assert np.array_equal(guarantee.factor, np.tril(guarantee.factor))
    assert np.all(np.diag(guarantee.factor) > 0)
    assert guarantee.center == pytest.approx(rows.mean(axis=0))
    assert guarantee.whitening() @ guarantee.scale == pytest.approx(np.eye(5))


def failures(draws, dim, failure_prob, *, m=None, shrink=1.0, seed=0):
    """Counts of the three events, for private covariance I and mean 0: upper bound, lower bound, mean."""
    rng, counts = np.random.default_rng(seed), np.zeros(3, dtype=int)
    for _ in range(draws):
        guarantee = precondition(rng.standard_normal((m or dim + 1, dim)), failure_prob=failure_prob)
        singular = np.linalg.svd(guarantee.factor, compute_uv=False)
        counts += [
            guarantee.eig_upper * shrink * singular[-1] ** 2 < 1.0,
            guarantee.eig_lower * singular[0] ** 2 > 1.0,
            np.linalg.norm(guarantee.center) > guarantee.mean_radius,
        ]
    return counts


@pytest.mark.parametrize(("m", "failure_prob"), [
    (6, 0.2), (6, 0.05), (7, 0.2), (9, 0.2), (15, 0.2), (30, 0.2), (200, 0.2),
])  # fmt: skip
def test_coverage(m, failure_prob):
    # The upper bound is tight at dim + 1 rows: a third of failure_prob is nearly reached. Limits at 1e-9 each.
    draws = 600 if m == 6 else 300
    assert failures(draws, 5, failure_prob, m=m).max() <= stats.binom.isf(1e-9, draws, failure_prob / 3)
    if m == 6:  # control: an upper bound a tenth as large fails about twice as often
        assert failures(draws, 5, 0.2, shrink=0.1)[0] > stats.binom.isf(1e-9, draws, 0.2 / 3)


def test_bounds_hold_in_the_stated_coordinates():
    rng = np.random.default_rng(6)
    factor = np.tril(rng.standard_normal((4, 4)), -1) + np.diag([0.01, 1.0, 30.0, 1e4])
    covariance, mean, misses = factor @ factor.T, np.array([1e5, -2.0, 0.0, 7.0]), 0
    for _ in range(200):
        guarantee = precondition(rng.standard_normal((12, 4)) @ factor.T + mean, failure_prob=0.1)
        misses += not holds(guarantee, covariance, mean)
    assert misses <= stats.binom.isf(1e-9, 200, 0.1)


def test_gap_widens_continuously_and_covers():
    rows = np.random.default_rng(0).standard_normal((40, 3))
    values = [precondition(rows, pub_priv_gap=gap) for gap in (0.0, 1e-13, 0.01, 0.1, 0.5, 0.9)]
    upper = [value.eig_upper for value in values]
    lower = [value.eig_lower for value in values]
    radius = [value.mean_radius for value in values]
    assert upper == sorted(upper)
    assert lower == sorted(lower, reverse=True)
    assert radius == sorted(radius)
    assert upper[1] == pytest.approx(upper[0], rel=1e-5)
    assert radius[1] == pytest.approx(radius[0], rel=1e-5)
    # Never wider than Lemma B.11.
    for value, gap in zip(values, (0.0, 1e-13, 0.01, 0.1, 0.5, 0.9), strict=True):
        assert value.eig_upper <= upper[0] * 4 / (1 - gap) ** 4
        assert value.mean_radius <= radius[0] + math.sqrt(10 * gap / (1 - gap))


@pytest.mark.parametrize("scale", [1e-140, 1e-12, 1e12, 1e140])
def test_extreme_units(scale):
    rows = np.random.default_rng(0).standard_normal((10, 3))
    plain, scaled = precondition(rows), precondition(rows * scale)
    assert scaled.factor / scale == pytest.approx(plain.factor, rel=1e-12)
    assert scaled.eig_upper == plain.eig_upper


@pytest.mark.parametrize(("rows", "options", "message"), [
    (np.eye(5)[:, :5], {}, "at least 6 public rows"), (np.ones((9, 3)), {}, "subspace"),
    (np.repeat(np.arange(8.0)[:, None], 3, axis=1), {}, "subspace"), (np.full((9, 3), np.nan), {}, "finite"),
    (np.eye(9)[:, :3] * 1e200, {}, "1e\\+150"),
    (np.random.default_rng(0).random((9, 3)), {"failure_prob": 0.0}, "failure_prob"),
    (np.random.default_rng(0).random((9, 3)), {"failure_prob": 1e-200}, "failure_prob"),
    (np.random.default_rng(0).random((9, 3)), {"pub_priv_gap": 1.0}, "pub_priv_gap"),
    (np.random.default_rng(0).random((9, 3)), {"pub_priv_gap": -0.1}, "pub_priv_gap"),
])  # fmt: skip
def test_refusals(rows, options, message):
    raises(InputError, message, precondition, rows, **options)


# ---- Radii, shares and predicted errors against the closed forms and tables of the specification --------------------
@pytest.mark.parametrize("dim", [1, 2, 5, 50, 1000])
@pytest.mark.parametrize("failure", [0.5, 0.1, 1e-3, 1e-9, 1e-100])
def test_chi_radius_bounds_the_quantile(dim, failure):
    assert stats.chi2.sf(chi_radius(dim, failure) ** 2, dim) <= failure


def predicted(n, radius, **options):
    arguments = {"steps": 2, "mode": "practical", "failure_prob": 0.01, **options}
    noise = partial(Noise(False, Fraction(1, 2)).vector, 50)
    return predict_steps(50, n, radius, noise_per_radius=noise, **arguments)[-1].error


def test_best_steps_is_the_least_predicted_error():
    noise = partial(Noise(False, Fraction(1, 2)).vector, 50)
    arguments = {"noise_per_radius": noise, "mode": "practical", "failure_prob": 0.01}
    counts = []
    for radius in (1.0, 1e2, 1e4, 1e6):
        count = best_steps(50, 20_000, radius, **arguments)
        errors = [predicted(20_000, radius, steps=t) for t in range(1, radii.MAX_AUTO_STEPS + 1)]
        assert errors[count - 1] == min(errors)
        counts.append(count)
    assert counts == sorted(counts)
    assert counts[0] == 1 < counts[-1]


def test_gap_radius_is_continuous_and_monotone():
    own = chi_radius(7, 0.01) / math.sqrt(3)
    assert gap_radius(7, 3, 0.01, 0.0) == own
    gaps = [0.0, *np.geomspace(1e-14, 0.5, 60), 0.9, 0.999, 1 - 1e-12]
    values = [gap_radius(7, 3, 0.01, gap) for gap in gaps]
    assert values == sorted(values)
    assert values[1] == pytest.approx(own, rel=1e-5)
    assert all(math.isfinite(value) for value in values)


def total_variation_shift(distance):
    return 2 * stats.norm.cdf(distance / 2) - 1


def total_variation_scale(ratio, dim=1):
    """TV of N(0, I) and N(0, ratio^2 I): they cross on one sphere."""
    if ratio == 1.0:
        return 0.0
    cross = 2 * dim * math.log(ratio) / (1 - ratio**-2)
    return abs(stats.chi2.cdf(cross, dim) - stats.chi2.cdf(cross / ratio**2, dim))


@pytest.mark.parametrize("gap", [0.01, 0.1, 0.3, 0.6, 0.9, 0.99])
def test_gap_facts_hold_for_gaussians_within_the_gap(gap):
    shift = 2 * stats.norm.ppf(0.5 + gap / 2)  # the largest shift at this distance, equal variances
    assert total_variation_shift(shift) == pytest.approx(gap)
    assert shift <= radii.gap_shift(gap)
    low, high = 1.0, 1e12
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if total_variation_scale(middle) <= gap else (low, middle)
    assert low <= radii.gap_ratio(gap)
    # Never worse than the rounded constants of Lemma B.11.
    assert radii.gap_ratio(gap) <= 2 / (1 - gap) ** 2
    assert radii.gap_shift(gap) <= math.sqrt(10 * gap / (1 - gap))
