"""Rounds of soft EM for separated mixtures: the statistic, a round, the plan, what they cost, and how close they come."""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from mixture_cases import opened
from scipy.special import logsumexp

from fastpubpriv import (
    ZCDP,
    ApproxDP,
    PureDP,
    learn_axis_aligned_mixture,
    learn_separated_mixture,
)
from fastpubpriv.mixtures import em_rounds
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.gaussian_mixture import GaussianMixture
from fastpubpriv.mixtures.public_em import public_fits
from fastpubpriv.mixtures.separated import soft_em
from fastpubpriv.mixtures.separated.searches import METHODS, Shape
from fastpubpriv.privacy.spending import GaussianSpending, LaplaceSpending, spending_of
from fastpubpriv.release.transcript import recording

pytestmark = [
    pytest.mark.usefixtures("one_blas_thread"),
    pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning"),
    pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning"),
]


def drawn(rng, weights, means, covariances, n):
    labels = rng.choice(len(weights), size=n, p=weights)
    roots = np.linalg.cholesky(covariances)
    return means[labels] + np.einsum(
        "nij,nj->ni", roots[labels], rng.normal(size=(n, means.shape[1]))
    )


def log_density(mixture, rows):
    joint = []
    for weight, mean, covariance in zip(*mixture, strict=True):
        root = np.linalg.cholesky(covariance)
        white = np.linalg.solve(root, (rows - mean).T)
        joint.append(
            math.log(weight) - 0.5 * np.square(white).sum(axis=0) - np.log(np.diag(root)).sum()
        )
    return logsumexp(joint, axis=0)


def total_variation(one, result, rng):
    other = result.weights, result.means, result.covariances
    rows = np.concatenate([drawn(rng, *one, 5000), drawn(rng, *other, 5000)])
    return float(
        np.mean(np.abs(np.tanh((log_density(one, rows) - log_density(other, rows)) / 2.0)))
    )


def nested(rng, dim=5, k=3, ratio=10.0):
    """Components around one place, each `ratio` times as wide as the one before."""
    scales = ratio ** np.arange(k)
    covariances = np.array(
        [np.diag(np.exp(rng.uniform(-0.5, 0.5, dim))) * scale**2 for scale in scales]
    )
    return np.full(k, 1.0 / k), 0.5 * rng.normal(size=(k, dim)) * scales[:, None], covariances


def overlapping(rng, dim=10, k=4, apart=4.0):
    means = rng.normal(size=(k, dim))
    gaps = np.linalg.norm(means[:, None] - means, axis=2)[np.triu_indices(k, 1)]
    factors = rng.normal(size=(k, dim, 2))
    covariances = 0.5 * np.eye(dim) + 0.25 * factors @ factors.swapaxes(1, 2)
    return np.full(k, 1.0 / k), means * apart / gaps.min(), covariances


def learned(mixture, seed, *, n, n_pub, budget, **options):
    rng = np.random.default_rng(seed)
    rows = drawn(rng, *mixture, n)
    public = drawn(rng, *mixture, n_pub)
    return learn_separated_mixture(
        rows, x_pub=public, n_components=len(mixture[0]), min_weight=0.9 / len(mixture[0]), budget=budget,
        method="soft_em", random_state=seed, threads=1, progress=False, **options,
    )  # fmt: skip


def test_scale_free_starts_find_nested_components(monkeypatch):
    many = tuning.STARTS
    found = {starts: [] for starts in (many, 0)}
    for starts, errors in found.items():
        monkeypatch.setattr(tuning, "STARTS", starts)
        for seed in range(3):
            rng = np.random.default_rng(seed)
            mixture = nested(rng)
            full, diagonal = public_fits(drawn(rng, *mixture, 120), 3, 0.3)
            scales = [
                np.sort(np.sqrt(np.einsum("kii->k", at.covariances) / 5.0))
                for at in (full, diagonal)
            ]
            errors.append(min(np.abs(np.log(each / [1.0, 10.0, 100.0])).max() for each in scales))
    assert max(found[many]) < math.log(1.5)
    # Planted fault: one scale for all, that of k-means.
    assert np.median(found[0]) > math.log(3.0)


def test_public_fits_do_not_depend_on_units():
    rng = np.random.default_rng(3)
    rows = drawn(rng, *nested(rng), 90)
    units = np.array([1e-6, 1.0, 1e4, 1e9, 3.0])
    plain, scaled = (public_fits(each, 3, 0.3)[0] for each in (rows, rows * units))
    assert np.allclose(plain.means * units, scaled.means, rtol=1e-6, atol=1e-6 * units.min())
    assert np.allclose(plain.weights, scaled.weights, rtol=1e-6)


MIXTURE = overlapping(np.random.default_rng(1), dim=4, k=3, apart=4.0)
SAMPLE = drawn(np.random.default_rng(2), *MIXTURE, 30_000)


def em_step(mixture, rows):
    joint = np.stack(
        [log_density((w[None], m[None], c[None]), rows) for w, m, c in zip(*mixture, strict=True)]
    )
    share = np.exp(joint - logsumexp(joint, axis=0))
    held = share.sum(axis=1)
    middle = share @ rows / held[:, None]
    spread = [
        (s[:, None] * (rows - m)).T @ (rows - m) / h
        for s, m, h in zip(share, middle, held, strict=True)
    ]
    return held / len(rows), middle, np.array(spread)


def test_a_round_without_noise_is_a_step_of_em(monkeypatch):
    # From a start that is off: means by a fifth of a deviation, covariances a quarter too wide.
    start = (MIXTURE[0], MIXTURE[1] + 0.2, MIXTURE[2] * 1.25)
    at = GaussianMixture(*start)
    wanted = em_step(start, SAMPLE)
    state = em_rounds.StartState(name="truth", at=at, rounds=2)

    def error_of(share):
        run = opened(SAMPLE, ZCDP(1000), random_state=1)
        found = em_rounds.advance(run, SAMPLE[:10], state, share=share, name="round").at
        ratios = [np.trace(found.covariances[j]) / np.trace(wanted[2][j]) for j in range(3)]
        return (
            np.abs(found.means - wanted[1]).max(),
            np.abs(found.weights - wanted[0]).max(),
            np.mean(ratios),
        )

    mean, weight, ratio = error_of(Fraction(9, 10))
    assert mean < 0.05
    assert weight < 0.01
    assert 0.98 < ratio < 1.03
    # Planted fault: clipping is not corrected for.
    monkeypatch.setattr(em_rounds.RowClip, "factor", lambda self, dim: 1.0)
    assert error_of(Fraction(9, 10))[2] < ratio - 0.015


def test_noise_alone_changes_next_to_nothing():
    rng = np.random.default_rng(4)
    factors = []
    for _ in range(200):
        noise = rng.normal(0.0, 0.3, size=(8, 8))
        noise = (noise + noise.T) / 2.0
        change = em_rounds.shrunken_change(np.eye(8) + noise, 0.09, 0.045)
        factors.append(np.linalg.norm(change - np.eye(8)) / np.linalg.norm(noise))
    assert np.mean(factors) < 0.25
    # Planted fault: the noise of the off-diagonal entries is taken for half of what it is.
    assert em_rounds.shrinkage(np.full(28, 1.0), 0.0) == 1.0
    assert em_rounds.shrinkage(np.zeros(28), 1.0) == 0.0
    white = [em_rounds.shrinkage(rng.normal(size=45), 0.25) for _ in range(50)]
    assert (
        np.mean(white)
        > 0.5
        > np.mean([em_rounds.shrinkage(rng.normal(size=45), 1.0) for _ in range(50)])
    )


def test_a_change_along_one_direction_stands_out_of_noise():
    """A common factor for all entries, the planted fault, leaves two thirds of it in the noise."""
    rng = np.random.default_rng(7)
    truth = np.eye(40) + 3.0 / 40.0
    noise = rng.normal(0.0, 0.1 / np.sqrt(2.0), size=(40, 40))
    found = truth + noise + noise.T
    change = em_rounds.shrunken_change(found, 0.02, 0.01)
    assert np.linalg.norm(change - truth) < 1.2
    assert (
        np.linalg.norm(found * em_rounds.shrinkage(found[np.triu_indices(40, 1)], 0.01) - truth)
        > 1.6
    )
    # Diagonal statistics have no noise off the diagonal, and no eigenvalue of theirs stands out of it by that.
    alone = em_rounds.shrunken_change(np.diag(1.0 + rng.normal(0.0, 0.1, size=40)), 0.01, 0.0)
    assert np.abs(alone - np.eye(40)).max() < 0.1


def plan_of(dim, k, n, n_pub, rho):
    shape = Shape(
        dim=dim, n_pub=n_pub, n_components=k, min_weight=0.5 / k, mode="practical", failure_prob=0.1
    )
    return soft_em.EmRoundPlan.of(METHODS["soft_em"], shape, n, GaussianSpending(Fraction(rho)))


@pytest.mark.parametrize("n", [300, 3000, 50_000, 10**7])
@pytest.mark.parametrize("n_pub", [10, 500])
@pytest.mark.parametrize(("method", "law"), [
    ("soft_em", GaussianSpending), ("soft_em", LaplaceSpending), ("tree", GaussianSpending),
    ("public_pca", GaussianSpending), ("public_pca", LaplaceSpending),
])  # fmt: skip
def test_shares_of_a_plan_add_up_to_the_budget(n, n_pub, method, law):
    spending = law(Fraction(1, 10))
    shape = Shape(
        dim=6, n_pub=n_pub, n_components=4, min_weight=0.125, mode="practical", failure_prob=0.1
    )
    plan = soft_em.EmRoundPlan.of(METHODS[method], shape, n, spending)
    rounds = (plan.starts * plan.race + plan.more) * plan.early + plan.last
    choices = plan.choice * (2 if plan.noisy else 1)
    counted = soft_em.fit.count_share(spending)
    assert rounds + choices + plan.search + counted == 1
    assert plan.last > Fraction(1, 10)
    assert plan.starts * plan.race + plan.more + 1 <= soft_em.MOST_ROUNDS


@pytest.mark.parametrize(("n", "n_pub"), [(20_000, 30), (20_000, 200), (800, 60)])
@pytest.mark.parametrize("budget", [ZCDP(0.5), ApproxDP(2, 1e-6)])
def test_releases_cost_the_budget_whichever_start_wins(monkeypatch, n, n_pub, budget):
    monkeypatch.setattr(tuning, "SETTLED", 0.0)  # a start that settles leaves rounds unspent
    transcripts = []
    honest = soft_em.choose_start
    for winner in (0, 1):

        def forced(run, states, *, share, name, winner=winner):
            honest(run, states, share=share, name=name)
            return states[winner]

        monkeypatch.setattr(soft_em, "choose_start", forced)
        with recording() as transcript:
            learned(MIXTURE, 5, n=n, n_pub=n_pub, budget=budget)
        transcripts.append([(call.name, call.event) for call in transcript.calls])
    first, second = transcripts
    assert [event for _, event in first] == [event for _, event in second]
    allowance = spending_of(budget, soft_em.soft_draws(4, 3)).allowance
    paid = sum(event.rho for _, event in first)
    assert Fraction(97, 100) * allowance < paid <= allowance


def test_a_noisy_plan_keeps_its_budget_for_the_last_round():
    # 20 columns, 4 components, 20,000 rows: the whole budget leaves more noise than a covariance has size.
    plan = plan_of(20, 4, 20_000, 400, 0.028)
    assert plan.noisy
    assert plan.last > Fraction(7, 10)
    assert not plan_of(20, 4, 20_000, 400, 0.5).noisy


@pytest.mark.parametrize("rho", [0.028, 0.5])
def test_groups_of_few_public_rows_are_a_third_start(rho):
    assert plan_of(20, 4, 20_000, 80, rho).starts == 2
    assert plan_of(20, 4, 20_000, 79, rho).starts == 3
    assert plan_of(20, 1, 20_000, 5, rho).starts == 2


@pytest.mark.parametrize(("made", "seeds", "n", "n_pub", "budget", "bound"), [
    (nested, 3, 30_000, 80, ApproxDP(1, 1e-6), 0.05), (overlapping, 2, 50_000, 80, ZCDP(0.5), 0.06),
    (partial(overlapping, dim=5, apart=8.0), 2, 100_000, 80, PureDP(1), 0.05),
    (partial(overlapping, dim=1, k=2, apart=6.0), 2, 5_000, 40, PureDP(1), 0.05),
])  # fmt: skip
def test_nested_and_overlapping_components_are_learned(made, seeds, n, n_pub, budget, bound):
    for seed in range(seeds):
        mixture = made(np.random.default_rng(seed))
        result = learned(mixture, seed, n=n, n_pub=n_pub, budget=budget)
        assert total_variation(mixture, result, np.random.default_rng(0)) < bound
        assert result.status == "ok" or n < 10_000


def test_one_public_row_of_each_component_shows_where_it_is():
    rng = np.random.default_rng(8)
    means = 30.0 * np.eye(3, 6)
    mixture = np.full(3, 1 / 3), means, np.tile(np.eye(6), (3, 1, 1))
    rows = drawn(rng, *mixture, 20_000)
    public = means + rng.normal(size=(3, 6))
    result = learn_separated_mixture(
        rows, x_pub=public, n_components=3, budget=ZCDP(0.5), random_state=0
    )
    assert result.method == "soft_em"
    assert total_variation(mixture, result, rng) < 0.05


@pytest.mark.parametrize("learn", [learn_separated_mixture, learn_axis_aligned_mixture])
def test_a_public_row_far_from_all_others_is_no_component(learn):
    rng = np.random.default_rng(9)
    rows = rng.normal(size=(20_000, 1)) + 5.0 * rng.choice([-1.0, 1.0], size=(20_000, 1))
    public = np.concatenate([rows[:30], [[500.0]]])
    result = learn(rows[30:], x_pub=public, n_components=2, budget=ZCDP(0.5), random_state=0)
    assert np.allclose(np.sort(result.means[:, 0]), [-5.0, 5.0], atol=0.1)
    assert result.status == "ok"


def test_fewer_private_rows_than_public_ones_leave_the_public_fit():
    result = learned(MIXTURE, 4, n=40, n_pub=90, budget=ZCDP(0.1))
    assert [release["name"] for release in result.releases] == ["fit"]
    assert result.diagnostics["guarded"]
    assert result.reasons == ("wide",)


@pytest.mark.parametrize(
    ("n", "budget"), [(30_000, ZCDP(0.5)), (3_000, ZCDP(0.5)), (3_000, ZCDP(0.02))]
)
def test_the_predicted_total_variation_is_that_of_the_answer(n, budget):
    mixture = overlapping(np.random.default_rng(0), dim=4, k=3, apart=8.0)
    result = learned(mixture, 0, n=n, n_pub=60, budget=budget)
    predicted = float(result.weights @ result.diagnostics["predicted_total_variations"])
    assert 0.6 < predicted / total_variation(mixture, result, np.random.default_rng(1)) < 1.6
    # A shape that noise hides is a caution.
    assert ("wide" in result.reasons, result.status) == (
        (True, "caution") if budget == ZCDP(0.02) else (False, "ok")
    )


@pytest.mark.parametrize(("correlated", "bound"), [(False, 0.065), (True, 0.3)])
def test_noisy_plans_learn_variances_alone_if_public_rows_show_no_correlations(correlated, bound):
    rng = np.random.default_rng(1)
    weights, means, covariances = overlapping(rng, apart=8.0)
    if not correlated:
        covariances = np.exp(rng.uniform(-0.5, 0.5, size=(4, 10)))[:, :, None] * np.eye(10)
    mixture = weights, means, covariances
    result = learned(mixture, 1, n=30_000, n_pub=80, budget=PureDP(1))
    assert total_variation(mixture, result, np.random.default_rng(0)) < bound
    # What eighty public rows do not show may still be there.
    assert (result.structure[0], result.reasons) == (
        "full" if correlated else "diagonal",
        ("wide",),
    )


def test_early_rounds_of_many_rows_read_a_part_of_them(monkeypatch):
    many = plan_of(4, 3, 10**6, 60, 0.5)
    few = plan_of(4, 3, 20_000, 60, 0.5)
    assert many.early_rows == tuning.LEAST_EARLY_ROWS
    assert few.early_rows == 20_000
    # With less budget noise asks for more rows.
    assert plan_of(4, 3, 10**6, 60, 1e-4).early_rows > 4 * many.early_rows
    read = []
    honest = soft_em.advance

    def spied(run, public, state, *, share, name):
        read.append((name, run.rows.n))
        return honest(run, public, state, share=share, name=name)

    monkeypatch.setattr(soft_em, "advance", spied)
    result = learned(MIXTURE, 3, n=70_000, n_pub=60, budget=ZCDP(0.5))
    assert read[-1] == ("last round", 70_000)
    assert all(50_000 <= n < 50_100 for _, n in read[:-1])
    assert result.status == "ok"
