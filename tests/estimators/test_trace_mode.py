"""From two public rows: a bound on the largest eigenvalue, and what it is worth."""

import math

import numpy as np
import pytest
from gaussian_cases import RHO_HALF, covariance_error, draw, fit, gaussian, lifted_coinpress, mean_error
from scipy import stats
from spies import seeded

from fastpubpriv import InputError
from fastpubpriv.estimators.preconditioned import public_frame
from fastpubpriv.estimators.preconditioner import precondition, trace_bound


def test_the_bound_by_hand():
    rows = np.array([[0.0, 0.0, 1.0], [2.0, 0.0, 1.0]])
    bound = trace_bound(rows, pub_priv_gap=0.0, failure_prob=0.05)
    assert bound.center.tolist() == [1.0, 0.0, 1.0]
    assert bound.eig_upper == pytest.approx(2.0 / 0.000982, rel=1e-3)  # lower 2.5 % point of chi-squared, 1 degree
    assert bound.mean_radius == pytest.approx(math.sqrt(stats.chi2.ppf(0.975, 3) / 2))
    assert bound.slack == pytest.approx(3 * 0.4549 / 0.000982, rel=1e-3)
    five = trace_bound(np.eye(5)[:, :3], pub_priv_gap=0.0, failure_prob=0.05)
    assert five.eig_upper == pytest.approx(np.sum(np.var(np.eye(5)[:, :3], axis=0)) * 5 / 0.4844, rel=1e-3)


def failures(draws, condition, *, m=2, dim=5, failure_prob=0.1, shrink=1.0):
    """How often the largest eigenvalue, or the mean, escapes its bound."""
    rng = np.random.default_rng(1)
    counts = np.zeros(2, dtype=int)
    for _ in range(draws):
        mean, factor = gaussian(dim, condition, rng)
        bound = trace_bound(draw(m, mean, factor, rng), pub_priv_gap=0.0, failure_prob=failure_prob)
        above = shrink * bound.eig_upper < condition
        counts += [above, np.linalg.norm(mean - bound.center) > math.sqrt(bound.eig_upper) * bound.mean_radius]
    return counts


@pytest.mark.parametrize("m", [2, 4])
def test_coverage_for_any_condition(m):
    draws = 500
    for condition in (1.0, 1e8):
        upper, mean = failures(draws, condition, m=m)
        assert upper <= stats.binom.isf(1e-9, draws, 0.05)
        assert mean <= stats.binom.isf(1e-9, draws, 0.1)
    # One direction dominates: the bound is nearly tight, so that a bound 100 times smaller fails often.
    assert failures(draws, 1e8, m=m, shrink=0.01)[0] > stats.binom.isf(1e-9, draws, 0.05)


@pytest.mark.statistical
def test_coverage_is_as_specified():
    draws = 4000
    upper, mean = failures(draws, 1e12)
    assert abs(upper - 0.05 * draws) <= 6.2 * math.sqrt(0.05 * draws)
    assert mean <= stats.binom.isf(1e-9, draws, 0.1)


def total_variation(shift, spread, grid=20_001):
    """Between N(0, 1) and N(shift, spread^2), by the trapezium rule."""
    x = np.linspace(-12.0 * max(1.0, spread), 12.0 * max(1.0, spread) + shift, grid)
    return float(np.trapezoid(np.abs(stats.norm.pdf(x) - stats.norm.pdf(x, shift, spread)), x) / 2)


def test_total_variation_by_hand():
    assert total_variation(2.0, 1.0) == pytest.approx(2 * stats.norm.cdf(1.0) - 1, abs=1e-6)
    assert total_variation(0.0, 1.0) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(("shift", "spread"), [(1.0, 1.0), (0.0, 3.0), (2.0, 0.4), (6.0, 1.0), (0.0, 0.02)])
def test_gap_bounds_hold_at_the_computed_total_variation(shift, spread):
    # Public N(0, I); private differs along the first column only, so that its total variation is one-dimensional.
    gap = total_variation(shift, spread) + 1e-6
    assert 0.3 < gap < 1.0
    rng = np.random.default_rng(2)
    draws, dim = 200, 4
    misses = np.zeros(2, dtype=int)
    unaware = 0
    private = np.diag([spread**2, 1.0, 1.0, 1.0])
    mean = np.array([shift, 0.0, 0.0, 0.0])
    for _ in range(draws):
        public = rng.standard_normal((120, dim))
        for index, told in enumerate((gap, 0.0)):
            guarantee = precondition(public, pub_priv_gap=told, failure_prob=0.1)
            white = guarantee.whitening()
            values = np.linalg.eigvalsh(white @ private @ white.T)
            inside = (
                values[-1] <= 1.0
                and values[0] >= guarantee.eig_lower / guarantee.eig_upper
                and np.linalg.norm(white @ (mean - guarantee.center)) <= guarantee.mean_radius
            )
            if index == 0:
                misses[0] += not inside
            else:
                unaware += not inside
        bound = trace_bound(public[:3], pub_priv_gap=gap, failure_prob=0.1)
        misses[1] += not (
            max(1.0, spread**2) <= bound.eig_upper
            and np.linalg.norm(mean - bound.center) <= math.sqrt(bound.eig_upper) * bound.mean_radius
        )
    assert misses.max() <= stats.binom.isf(1e-9, draws, 0.1)
    # Control: the bounds without the gap are wrong nearly always.
    assert unaware > draws / 2


def test_falls_back_without_enough_rows_in_general_position():
    rng = np.random.default_rng(3)
    arguments = {"failure_prob": 0.05, "pub_priv_gap": 0.0, "cond_max": 100.0}
    sources = {}
    for name, rows in {
        "enough": rng.standard_normal((6, 5)),
        "few": rng.standard_normal((5, 5)),
        "duplicated": np.repeat(rng.standard_normal((4, 5)), 3, axis=0),
        "collinear": rng.standard_normal((20, 4)) @ rng.standard_normal((4, 5)),
    }.items():
        sources[name] = public_frame(rows, **arguments, require_precondition=False)
        if name != "enough":
            with pytest.raises(InputError):
                public_frame(rows, **arguments, require_precondition=True)
    assert sources["enough"].source == "public rows (preconditioner)"
    assert {sources[name].source for name in ("few", "duplicated", "collinear")} == {"public rows (trace bound)"}
    assert sources["few"].condition == pytest.approx(100.0 * 5 * stats.chi2.ppf(0.5, 4) / stats.chi2.ppf(0.025, 4))


def test_collinear_private_and_public_columns_give_an_answer():
    # Three columns, of which the third is the sum of the others: no preconditioner, and a singular truth.
    rng = np.random.default_rng(4)
    mix = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
    private, public = rng.standard_normal((40_000, 2)) @ mix, rng.standard_normal((9, 2)) @ mix
    result = seeded(lifted_coinpress, private, x_pub=public, budget=RHO_HALF)
    assert result.provenance["scale"] == "public rows (trace bound)"
    assert np.linalg.eigvalsh(result.covariance)[0] > 0
    assert np.allclose(result.covariance, mix.T @ mix, atol=0.1)


@pytest.mark.parametrize("n_pub", [2, 5])
def test_errors_are_the_predicted_ones(n_pub):
    found = [fit(10, 20_000, 100.0, seed, n_pub=n_pub, cond_max=100.0) for seed in range(15)]
    result = found[0][0]
    assert 0.9 <= np.median([error for _, error, _ in found]) / result.predicted_covariance_error <= 1.15
    assert 0.8 <= np.median([mean for *_, mean in found]) / result.predicted_mean_error <= 1.15
    assert result.n_pub == n_pub


def test_understated_condition_loses_the_small_directions():
    rng = np.random.default_rng(5)
    mean, factor = gaussian(6, 1e6, rng)
    private, public = draw(20_000, mean, factor, rng), draw(2, mean, factor, rng)
    told, lied = (
        seeded(lifted_coinpress, private, x_pub=public, budget=RHO_HALF, cond_max=cond_max) for cond_max in (1e6, 1.0)
    )
    assert covariance_error(told.covariance, factor) < 0.1
    assert covariance_error(lied.covariance, factor) > 10.0
    assert mean_error(told.mean, mean, factor) < 0.1


@pytest.mark.statistical
def test_fifty_columns_from_two_rows():
    found = [fit(50, 200_000, 100.0, seed, n_pub=2, cond_max=100.0) for seed in range(7)]
    assert np.median([error for _, error, _ in found]) <= 0.13
    assert np.median([mean for *_, mean in found]) <= 1.15 * found[0][0].predicted_mean_error
