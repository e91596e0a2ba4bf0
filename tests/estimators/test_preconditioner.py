"""Public preconditioning: closed forms, coverage over draws of the public rows, equivariance, refusals."""

import math

import numpy as np
import pytest
from scipy import special, stats

from fastpubpriv import InputError, precondition


def test_closed_forms_at_the_least_number_of_rows():
    rows = np.random.default_rng(0).standard_normal((6, 5))
    guarantee = precondition(rows, failure_prob=0.05)
    tail = math.log(3 / 0.05)
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


def test_more_rows_sharpen_both_bounds():
    bounds = []
    for m in (6, 12, 50, 200, 5000):
        guarantee = precondition(np.random.default_rng(1).standard_normal((m, 5)))
        bounds.append((guarantee.eig_lower, guarantee.eig_upper, guarantee.mean_radius))
    lower, upper, radius = zip(*bounds, strict=True)
    assert list(lower) == sorted(lower)
    assert list(upper[1:]) == sorted(upper[1:], reverse=True)
    assert list(radius) == sorted(radius, reverse=True)
    tail = math.log(3 / 0.05)
    assert 1.0 < upper[-1] <= 4999 / (math.sqrt(4999) - math.sqrt(5) - math.sqrt(2 * tail)) ** 2


def failures(draws, dim, failure_prob, *, m=None, shrink=1.0, seed=0):
    """Counts of the three events, for private covariance I and mean 0: upper bound, lower bound, mean."""
    rng = np.random.default_rng(seed)
    counts = np.zeros(3, dtype=int)
    for _ in range(draws):
        guarantee = precondition(rng.standard_normal((m or dim + 1, dim)), failure_prob=failure_prob)
        singular = np.linalg.svd(guarantee.factor, compute_uv=False)
        counts += [
            guarantee.eig_upper * shrink * singular[-1] ** 2 < 1.0,
            guarantee.eig_lower * singular[0] ** 2 > 1.0,
            np.linalg.norm(guarantee.center) > guarantee.mean_radius,
        ]
    return counts


@pytest.mark.parametrize(("dim", "failure_prob"), [(5, 0.2), (5, 0.05)])
def test_coverage(dim, failure_prob):
    # The upper bound is tight at dim + 1 rows: a third of failure_prob is nearly reached. Limits at 1e-9 each.
    draws, share = 600, failure_prob / 3
    upper, lower, mean = failures(draws, dim, failure_prob)
    assert max(upper, lower, mean) <= stats.binom.isf(1e-9, draws, share)
    # Control: an upper bound a quarter as large fails about twice as often.
    assert failures(draws, dim, 0.2, shrink=0.1)[0] > stats.binom.isf(1e-9, draws, 0.2 / 3)


@pytest.mark.parametrize("m", [7, 9, 15, 30, 200])
def test_coverage_with_more_rows(m):
    assert failures(300, 5, 0.2, m=m).max() <= stats.binom.isf(1e-9, 300, 0.2 / 3)


@pytest.mark.statistical
@pytest.mark.parametrize("dim", [5, 20])
@pytest.mark.parametrize("failure_prob", [0.05, 0.2])
def test_coverage_is_as_specified(dim, failure_prob):
    draws = 4000
    upper, lower, mean = failures(draws, dim, failure_prob, seed=1)
    share = failure_prob / 3
    slack = 4 * math.sqrt(share * draws)
    assert 0.7 * share * draws - slack <= upper <= 1.15 * share * draws + slack
    assert max(lower, mean) <= stats.binom.isf(1e-9, draws, share)


def test_bounds_hold_in_the_stated_coordinates():
    rng = np.random.default_rng(6)
    factor = np.tril(rng.standard_normal((4, 4)), -1) + np.diag([0.01, 1.0, 30.0, 1e4])
    covariance, mean = factor @ factor.T, np.array([1e5, -2.0, 0.0, 7.0])
    misses = 0
    for _ in range(200):
        guarantee = precondition(rng.standard_normal((12, 4)) @ factor.T + mean, failure_prob=0.1)
        whitening = guarantee.whitening()
        private = np.linalg.eigvalsh(whitening @ covariance @ whitening.T)
        ratio = guarantee.eig_lower / guarantee.eig_upper
        misses += not (private[-1] <= 1.0 and private[0] >= ratio and
                       np.linalg.norm(whitening @ (mean - guarantee.center)) <= guarantee.mean_radius)  # fmt: skip
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


def test_gap_covers_shifted_and_scaled_public_rows():
    # Public N(d, I) and N(0, s^2 I) within total variation 0.3 of the private N(0, I); see test_radii.
    gap, misses = 0.3, np.zeros(2, dtype=int)
    shift = 2 * stats.norm.ppf(0.5 + gap / 2)
    rng = np.random.default_rng(3)
    for _ in range(150):
        for index, (scale, offset) in enumerate([(1.0, shift), (1.28, 0.0)]):
            public = rng.standard_normal((12, 3)) * scale
            public[:, 0] += offset
            guarantee = precondition(public, failure_prob=0.1, pub_priv_gap=gap)
            whitening = guarantee.whitening()
            private = np.linalg.eigvalsh(whitening @ whitening.T)
            ratio = guarantee.eig_lower / guarantee.eig_upper
            inside = np.linalg.norm(whitening @ guarantee.center) <= guarantee.mean_radius
            misses[index] += not (private[-1] <= 1.0 and private[0] >= ratio and inside)
    assert misses.max() <= stats.binom.isf(1e-9, 150, 0.1)


@pytest.mark.parametrize("scale", [1e-140, 1e-12, 1e12, 1e140])
def test_extreme_units(scale):
    rows = np.random.default_rng(0).standard_normal((10, 3))
    plain, scaled = precondition(rows), precondition(rows * scale)
    assert scaled.factor / scale == pytest.approx(plain.factor, rel=1e-12)
    assert scaled.eig_upper == plain.eig_upper


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (np.eye(5)[:, :5], {}, "at least 6 public rows"),
        (np.ones((9, 3)), {}, "subspace"),
        (np.repeat(np.arange(8.0)[:, None], 3, axis=1), {}, "subspace"),
        (np.full((9, 3), np.nan), {}, "finite"),
        (np.eye(9)[:, :3] * 1e200, {}, "1e\\+150"),
        (np.random.default_rng(0).random((9, 3)), {"failure_prob": 0.0}, "failure_prob"),
        (np.random.default_rng(0).random((9, 3)), {"failure_prob": 1e-200}, "failure_prob"),
        (np.random.default_rng(0).random((9, 3)), {"pub_priv_gap": 1.0}, "pub_priv_gap"),
        (np.random.default_rng(0).random((9, 3)), {"pub_priv_gap": -0.1}, "pub_priv_gap"),
    ],
)
def test_refusals(rows, options, message):
    with pytest.raises(InputError, match=message):
        precondition(rows, **options)
