"""The parts of the ladder that are public arithmetic or post-processing, against direct evaluations."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import multigammaln

from fastpubpriv.errors import InputError
from fastpubpriv.estimators.ladder import evidence, targets
from fastpubpriv.estimators.ladder.public_base import Strength, marchenko_pastur, moderated, public_base
from fastpubpriv.estimators.ladder.rungs import axis_variances, combined, full_plan, mean_weight, outlook
from fastpubpriv.estimators.ladder.schedule import EARLY_SHARES, LEAST_LEFT, MOST_ROUNDS, Noise, clip_factor
from fastpubpriv.mechanisms.axis_features import AxisFeatures

NOISE = Noise(False, Fraction(1, 2))


def mixed(seed, n, dim):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, dim)) @ rng.normal(size=(dim, dim)) + rng.normal(size=dim)


@pytest.mark.parametrize(("n", "dim"), [(5, 8), (9, 8), (40, 3)])
def test_evidence_is_the_marginal_likelihood(n, dim):
    gaps = mixed(1, n, dim)
    gaps = gaps - gaps.mean(axis=0)
    scatter, degrees = gaps.T @ gaps, n - 1

    def direct(rows):
        prior = rows + dim + 1.0
        found = multigammaln((prior + degrees) / 2, dim) - multigammaln(prior / 2, dim)
        found += prior / 2 * np.linalg.slogdet(rows * np.eye(dim))[1]
        return found - (prior + degrees) / 2 * np.linalg.slogdet(rows * np.eye(dim) + scatter)[1]

    some = np.array([1e-3, 0.7, 30.0, 1e4])
    levels = evidence.log_evidence(some, np.maximum(np.linalg.eigvalsh(scatter), 0.0), degrees)
    assert np.allclose(levels, [direct(rows) for rows in some], rtol=1e-9, atol=1e-7)


def test_evidence_of_one_column():
    assert evidence.pseudo_rows(np.array([2.0]), 5) == (evidence.GRID[0], evidence.GRID[0])


def test_the_ridge_does_not_lift_truly_small_eigenvalues():
    likely, _ = evidence.pseudo_rows(200.0 * np.array([1.0, 1.0, 1e-4]), 200)
    assert likely < 0.1 * 200.0 * 1e-4


def test_columns_of_one_scale_share_it_and_others_keep_theirs():
    """As far as chance goes the variance is the average of all; a column in another unit is left alone."""
    logs = np.linspace(-0.5, 0.5, 30)
    together, middle, degrees = moderated(logs, 5)
    assert np.exp(middle) == pytest.approx(np.exp(logs).mean(), rel=1e-12)
    assert np.ptp(together) < 0.01 * np.ptp(logs)
    assert degrees > 1e4
    apart = np.array([0.0, 0.1, 25.0])
    assert np.allclose(moderated(apart, 9)[0], apart, atol=0.2)


def test_the_reported_covariance_has_less_of_a_ridge_than_the_coordinates():
    rows = mixed(9, 9, 8)
    base = public_base(rows)
    whitened = base.root @ base.root.T
    assert 0.0 < np.linalg.eigvalsh(base.covariance)[0] < np.linalg.eigvalsh(whitened)[0]
    assert np.allclose(base.scaled(np.full(8, 3.0)).covariance, 9.0 * base.covariance)
    # Fewer rows than columns: nothing but the ridge fills the directions that no public row shows.
    few = public_base(rows[:4])
    assert np.allclose(few.covariance, few.root @ few.root.T)


def test_no_structure_is_believed_where_the_evidence_cannot_tell():
    rng = np.random.default_rng(3)
    likely = [
        evidence.pseudo_rows(np.maximum(np.linalg.eigvalsh(np.cov(rng.normal(size=(10, 20)).T) * 9.0), 0.0), 9)[0]
        for _ in range(20)
    ]
    assert np.median(likely) == evidence.GRID[-1]


@pytest.mark.parametrize(("n", "dim"), [(6, 3), (5, 8), (50, 4)])
def test_leave_one_out_distances(n, dim):
    rows = mixed(2, n, dim)
    base = public_base(rows)
    assert np.isfinite(np.sqrt(np.diag(base.covariance))).all()
    # Explicitly, with the ridge and the scales of all rows.
    unit = np.abs(rows).max(axis=0)
    inner = rows / unit
    logs, *_ = moderated(np.log(inner.var(axis=0, ddof=1)) + 2 * np.log(unit), n - 1)
    scale = np.exp(logs / 2)
    found = []
    for index in range(n):
        others = np.delete(rows, index, axis=0)
        gaps = (others - others.mean(axis=0)) / scale
        covariance = (base.ridge * np.eye(dim) + gaps.T @ gaps) / (base.ridge + n - 2)
        gap = (rows[index] - others.mean(axis=0)) / scale
        found.append(gap @ np.linalg.solve(covariance, gap))
    assert base.strength.quartile == pytest.approx(np.quantile(found, 0.75), rel=1e-8)


def test_many_rows_are_their_own_covariance():
    rows = mixed(3, 400, 5)
    base, sample = public_base(rows), np.cov(rows.T)
    assert np.linalg.norm(base.covariance - sample) <= 1e-2 * np.linalg.norm(sample)
    assert np.allclose(base.root @ base.inverse, np.eye(5), atol=1e-9)
    assert base.strength.low <= base.strength.likely


def test_units_of_columns_do_not_matter_with_many_rows():
    rows, units = mixed(4, 400, 4), np.array([1e-12, 1.0, 1e12, 3.0])
    one, other = public_base(rows), public_base(rows * units)
    assert np.allclose(other.covariance / np.outer(units, units), one.covariance, rtol=1e-2, atol=1e-3)
    assert other.strength.low == pytest.approx(one.strength.low, rel=1e-3)


def test_columns_in_different_units_are_not_drawn_together():
    rows = np.random.default_rng(5).normal(size=(20, 3)) * [1e-12, 1.0, 1e12]
    assert np.allclose(np.diag(public_base(rows).covariance), rows.var(axis=0, ddof=1), rtol=0.3)


@pytest.mark.parametrize(
    "public",
    [
        np.array([[0.0, 1.0], [0.0, 2.0]]),
        np.array([[1.0, 1.0, 5.0]] * 7 + [[2.0, 2.0, 5.0]]),
        np.tile(np.arange(4.0)[:, None], (1, 6)),
        np.random.default_rng(0).normal(size=(5, 2)) * [1e-140, 1e140],
        np.vstack([np.random.default_rng(1).normal(size=(9, 3)), [[1e6, 0.0, 0.0]]]),
    ],
)
def test_any_public_rows_give_a_positive_definite_base(public):
    base = public_base(public)
    assert np.isfinite(base.inverse).all()
    with np.errstate(over="ignore"):
        scales = np.sqrt(np.diag(base.covariance))
        correlation = base.covariance / np.outer(scales, scales)
    assert np.linalg.eigvalsh(correlation)[0] > 0
    assert base.fallback == tuple(np.flatnonzero(np.ptp(public, axis=0) == 0.0))
    view = outlook(base.strength, 1000, NOISE)
    assert all(np.isfinite(each.divergence) for name, each in view.rungs.items() if name != "full")


def test_equal_public_rows_are_refused():
    with pytest.raises(InputError, match="all public rows are equal"):
        public_base(np.ones((4, 2)))


def test_marchenko_pastur_against_wishart_eigenvalues():
    rng = np.random.default_rng(6)
    values = np.mean([np.linalg.eigvalsh(np.cov(rng.normal(size=(61, 20)).T)) for _ in range(100)], axis=0)
    assert np.allclose(marchenko_pastur(20, 20 / 60), values, rtol=0.1)


@pytest.mark.parametrize("dim", [2, 20, 60])
def test_the_clip_factor_of_white_rows_against_quadrature(dim):
    radius_sq = 1.0 + stats.chi2.ppf(0.9, dim)

    def kept(norm):
        return min(norm, radius_sq * norm / (1.0 + norm)) * stats.chi2.pdf(norm, dim)

    mass = integrate.quad(kept, 0.0, radius_sq - 1.0)[0] + integrate.quad(kept, radius_sq - 1.0, np.inf)[0]
    kept_share = mass / dim
    second = np.eye(dim) * kept_share
    assert clip_factor(second, radius_sq, std=0.0, n=np.inf) == pytest.approx(1.0 / kept_share, abs=3e-3)
    assert clip_factor(np.eye(dim), 1e9, std=0.0, n=np.inf) == pytest.approx(1.0, abs=1e-6)


def test_shrinkage_at_the_ends():
    released = np.cov(np.random.default_rng(7).normal(size=(40, 5)).T)
    exact = targets.chosen({"public": np.eye(5)}, targets.Noisy(released, 1e-9, 1e12), 10.0)
    assert np.allclose(targets.repaired(exact)[0], released, atol=1e-6)
    drowned = targets.chosen({"public": np.eye(5)}, targets.Noisy(released, 1e6, 1e12), 1e6)
    shrunk, _ = targets.repaired(drowned)
    assert np.allclose(shrunk / np.outer(*[np.sqrt(np.diag(shrunk))] * 2), np.eye(5), atol=1e-3)


def test_a_diagonal_target_removes_most_of_the_noise_off_the_diagonal():
    rng = np.random.default_rng(8)
    dim, n = 12, 400
    truth = np.diag(np.geomspace(1.0, 30.0, dim))
    rows = rng.normal(size=(n, dim)) * np.sqrt(np.diag(truth))
    released = rows.T @ rows / n
    noisy = targets.Noisy(released, 1e-3, n)
    best = targets.chosen({"public": np.eye(dim), "diagonal": np.diag(np.diag(released))}, noisy, 5.0)
    assert best.turned.name == "diagonal"
    found = targets.repaired(best)[0]
    away = ~np.eye(dim, dtype=bool)
    assert np.linalg.norm(found[away]) <= 0.2 * np.linalg.norm(released[away])


@pytest.mark.parametrize("std", [0.0, 0.01, 1.0, 1e9])
def test_repair_is_relative_to_the_noise_and_always_positive(std):
    rng = np.random.default_rng(9)
    target = np.diag(np.geomspace(1e-6, 1.0, 6))
    noise = rng.normal(size=(6, 6)) * std
    best = targets.chosen({"public": target}, targets.Noisy(target + noise + noise.T, std, 1e4), 20.0)
    found, floored = targets.repaired(best)
    assert np.linalg.eigvalsh(found / np.sqrt(np.outer(np.diag(found), np.diag(found))))[0] > 0
    ratios = np.linalg.eigvals(np.linalg.solve(target, found)).real
    assert ratios.min() >= 0.99 * min(0.2, 1e-9 + 0.35 * std * np.sqrt(12.0))
    assert 0 <= floored <= 6


def test_the_plan_spends_at_most_everything():
    for n in (10.0, 1e3, 1e6):
        for degrees in (1.0, 9.0, 300.0):
            plan = full_plan(Strength(dim=8, n_pub=10, low=degrees, likely=degrees, scales=degrees), n, NOISE)
            left, made, spectrum = Fraction(1), 0, np.geomspace(1e-6, 1.0, 8)
            while (step := plan.step(spectrum, left, made)).share is not None:
                assert step.share in EARLY_SHARES
                assert left > LEAST_LEFT
                left -= step.share
                made += 1
            assert left > 0
            assert made < MOST_ROUNDS


def test_noise_is_that_of_the_mechanisms():
    assert Noise(False, Fraction(1, 2)).vector(7) == pytest.approx(2.0)
    assert Noise(False, Fraction(1, 4)).gram(7) == pytest.approx(2.0)
    assert Noise(True, Fraction(2)).vector(2) == pytest.approx(2.0)
    assert Noise(True, Fraction(2)).gram(5) == pytest.approx(np.sqrt(20.0))
    assert Noise(False, Fraction(1)).part(Fraction(1, 4)) == Noise(False, Fraction(1, 4))


def test_the_better_rung_as_rows_grow():
    strength = Strength(dim=8, n_pub=24, low=23.0, likely=23.0, scales=23.0)
    order = ["public", "mean", "diagonal", "full"]
    taken = [order.index(outlook(strength, n, NOISE).best) for n in (1, 100, 1000, 10_000, 10**6)]
    assert taken == sorted(taken)
    assert taken[0] <= 1
    assert taken[-1] == 3


@pytest.mark.parametrize("n", [1, 10**15])
@pytest.mark.parametrize("allowance", [Fraction(1, 10**12), Fraction(1000)])
def test_any_size_and_budget_has_a_rung(n, allowance):
    for pure in (False, True):
        view = outlook(Strength(dim=3, n_pub=2, low=1.0, likely=1.0, scales=1.0), n, Noise(pure, allowance))
        assert view.best in view.rungs


def test_weights_are_inverse_variances():
    assert combined(1.0, 1.0) == 0.5
    assert combined(2.0, np.inf) == 2.0
    strength = Strength(dim=4, n_pub=2, low=1.0, likely=1.0, scales=1.0)
    assert mean_weight(strength, 2.0) == 0.5
    assert mean_weight(strength, np.inf) == 0.0


def test_axis_variances_find_a_common_scale():
    strength = Strength(dim=200, n_pub=20, low=19.0, likely=19.0, scales=19.0)
    rng = np.random.default_rng(10)
    rows = np.sqrt(2.0) * rng.normal(size=(500, 200))
    features = AxisFeatures(center=np.zeros(200), matrix=np.eye(200))(rows)
    found = axis_variances(features.mean(axis=0), 0.0, 500.0, strength)
    assert found.common == pytest.approx(2.0, rel=0.02)
    assert np.std(found.variances) < 0.5 * np.std(rows.var(axis=0))


def test_features_are_those_of_each_row():
    rng = np.random.default_rng(11)
    rows, matrix, center = rng.normal(size=(5000, 7)), rng.normal(size=(7, 7)), rng.normal(size=7)
    features = AxisFeatures(center=center, matrix=matrix)
    found = features(rows)
    moved = (rows - center) @ matrix.T
    assert np.allclose(found, np.hstack([moved, (moved**2 - 1) / np.sqrt(2)]))
    for begin, size in ((0, 1), (4999, 1), (3, 2), (100, 9)):
        assert np.array_equal(features(rows[begin : begin + size]), found[begin : begin + size])
    # Control: a library product of matrices has other last bits for a row alone.
    alone = np.vstack([(rows[i : i + 1] - center) @ matrix.T for i in range(200)])
    assert not np.array_equal(alone, ((rows - center) @ matrix.T)[:200])
