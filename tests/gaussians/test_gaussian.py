import math
from functools import partial

import numpy as np
import pytest
from gaussian_cases import RHO_HALF, covariance_error, draw, fit, gaussian, lifted_coinpress, ratios
from helpers.errors import raises
from helpers.refusals import Refusals
from scipy import stats
from spies import refused, seeded

from fastpubpriv import (
    ZCDP,
    AccuracyWarning,
    ApproxDP,
    GaussianResult,
    InputError,
    Ledger,
    PureDP,
    estimate_gaussian,
)
from fastpubpriv.estimators import radii
from fastpubpriv.estimators.preconditioner import precondition_bounds
from fastpubpriv.gaussians import lifted
from fastpubpriv.privacy.spending import GaussianSpending

FEW = [(100.0, {"n_pub": n_pub, "cond_max": 100.0}) for n_pub in (2, 5)]


@pytest.mark.parametrize(
    ("dim", "n", "condition", "options"),
    [
        *(
            (dim, n, condition, {})
            for dim, n in ((5, 5000), (10, 20_000), (20, 20_000))
            for condition in (1.0, 1e4)
        ),
        *((10, 20_000, *few) for few in FEW),
    ],
)
def test_errors_are_the_predicted_ones(dim, n, condition, options):
    covariance, mean = ratios(20, dim, n, condition, **options)
    assert 0.9 <= covariance <= 1.15
    assert 0.8 <= mean <= 1.15


def test_the_band_catches_noise_left_out_of_the_prediction():
    # Control: sampling alone, the prediction with the noise forgotten, is outside the band where noise matters.
    result, *_ = fit(20, 20_000, 1.0, 0, budget=ZCDP(0.2), n_pub=400, rounds=4)
    covariance, _ = ratios(9, 20, 20_000, 1.0, budget=ZCDP(0.2), n_pub=400, rounds=4)
    assert 0.9 <= covariance <= 1.15
    assert covariance * result.predicted_covariance_error > 1.15 * math.sqrt(20 * 21 / 20_000)


@pytest.mark.parametrize(
    ("dim", "n", "rounds"), [(5, 5000, 11), (10, 20_000, 8), (20, 20_000, 12), (50, 200_000, 8)]
)
def test_rounds_of_the_public_rule(dim, n, rounds):
    # The examples of the specification: dim + 1 public rows, rho 0.5, failure probability 0.025.
    lower, upper, radius = precondition_bounds(dim, dim + 1, 0.0, 0.025)
    problem = lifted.GaussianProblem(
        dim=dim,
        n=n,
        mean_radius=radius,
        condition=upper / lower,
        mode="practical",
        failure_prob=0.05,
    )
    plan = lifted.choose_rounds(problem, GaussianSpending(RHO_HALF.rho))
    assert plan.rounds == rounds
    assert plan.resolves


def test_too_few_rounds_is_catastrophic_and_too_many_is_cheap():
    unresolved = partial(pytest.warns, AccuracyWarning, match="estimate_gaussian: unresolved")
    with unresolved(), pytest.warns(AccuracyWarning, match="3 rounds do not resolve"):
        result, few, _ = fit(10, 20_000, 1.0, 1, rounds=3)
    assert result.reasons == ("unresolved", "no_interval")
    assert result.predicted_covariance_error == np.inf
    assert GaussianResult.from_json(result.to_json()).predicted_covariance_error == np.inf
    with unresolved(), pytest.warns(AccuracyWarning, match="3 rounds do not resolve"):
        pairs, *_ = fit(10, 20_000, 1.0, 1, rounds=3, method="pairs")
    assert pairs.predicted_mean_error == np.inf
    _, enough, _ = fit(10, 20_000, 1.0, 1)
    _, many, _ = fit(10, 20_000, 1.0, 1, rounds=12)
    assert few > 10 * enough
    assert many < 1.2 * enough


@pytest.mark.parametrize(
    ("budget", "dim", "n"),
    [
        (ZCDP(0.5), 4, 20_000),
        (ApproxDP(2.0, 1e-6), 4, 40_000),
        (PureDP(4.0), 3, 200_000),
    ],
    ids=["zcdp", "approx", "pure"],
)
@pytest.mark.parametrize("method", ["lifted_coinpress", "pairs"])
def test_every_notion_and_learner(budget, dim, n, method):
    found = [fit(dim, n, 30.0, seed, budget=budget, method=method) for seed in range(5)]
    result = found[0][0]
    assert result.spent == budget
    assert result.reasons == ("no_interval",)
    assert np.median([error for _, error, _ in found]) <= 1.35 * result.predicted_covariance_error
    assert np.median([mean for *_, mean in found]) <= 1.5 * result.predicted_mean_error
    assert {entry["noise"] for entry in result.releases} == {
        "discrete laplace" if isinstance(budget, PureDP) else "gaussian"
    }


def test_pairs_have_their_own_prediction_and_take_as_many_mean_steps_as_needed(monkeypatch):
    whole, *_ = fit(10, 20_000, 1.0, 0)
    halved, *_ = fit(10, 20_000, 1.0, 0, method="pairs")
    assert 1.4 < halved.predicted_covariance_error / whole.predicted_covariance_error < 2.0
    covariance, mean = ratios(15, 10, 20_000, 100.0, method="pairs")
    assert 0.85 <= covariance <= 1.15
    assert 0.75 <= mean <= 1.15
    # Pairs take as many mean steps as the public ball calls for.
    # dim + 1 public rows leave the mean thousands of (private) standard deviations away.
    _, enough = ratios(10, 5, 20_000, 100.0, method="pairs")
    assert enough <= 1.15
    monkeypatch.setattr(radii, "best_steps", lambda *args, **options: 2)
    _, two = ratios(10, 5, 20_000, 100.0, method="pairs")
    assert two > 1.15 * enough


def test_equivariant_under_lower_triangular_maps():
    rng = np.random.default_rng(5)
    private = rng.standard_normal((40_000, 6))
    public = rng.standard_normal((7, 6))
    below = np.tril(rng.standard_normal((6, 6)), -1) + np.diag([1.0, 30.0, 0.1, 5.0, 100.0, 0.5])
    shift = rng.standard_normal(6) * 50
    assert np.linalg.cond(below) <= 1e4
    for method in ("lifted_coinpress", "pairs"):
        run = {"budget": RHO_HALF, "method": method, "rounds": 12}
        plain = seeded(lifted_coinpress, private, x_pub=public, **run)
        moved = seeded(
            lifted_coinpress, private @ below.T + shift, x_pub=public @ below.T + shift, **run
        )
        inverse = np.linalg.inv(below)
        assert np.allclose(inverse @ (moved.mean - shift), plain.mean, rtol=0, atol=1e-7)
        back = inverse @ moved.covariance @ inverse.T
        assert np.linalg.norm(back - plain.covariance) <= 1e-7 * np.linalg.norm(plain.covariance)
        # Control: a rotation is not lower triangular, so equality is in law only.
        turn = np.linalg.qr(rng.standard_normal((6, 6)))[0]
        turned = seeded(lifted_coinpress, private @ turn.T, x_pub=public @ turn.T, **run)
        assert np.linalg.norm(turn.T @ turned.covariance @ turn - plain.covariance) > 1e-3


@pytest.mark.parametrize("n_pub", [2, 7])
@pytest.mark.parametrize(
    ("scale", "shift"), [(1e-12, 0.0), (1e12, 0.0), (1.0, 1e8), (2.0**-40, 0.0)]
)
def test_units_and_origin_do_not_matter(scale, shift, n_pub):
    rng = np.random.default_rng(8)
    private = rng.standard_normal((5000, 6))
    public = rng.standard_normal((n_pub, 6))
    run = partial(seeded, lifted_coinpress, budget=RHO_HALF, cond_max=100.0)
    plain = run(private, x_pub=public)
    moved = run(scale * private + shift, x_pub=scale * public + shift)
    # A shift of 1e8 leaves eight digits of the rows.
    tolerance = 1e-5 if shift else 1e-7
    assert np.allclose(moved.covariance / scale**2, plain.covariance, rtol=0, atol=tolerance)
    assert np.allclose((moved.mean - shift) / scale, plain.mean, rtol=0, atol=tolerance)


def test_a_few_hostile_rows_change_little():
    clean, error, _ = fit(4, 20_000, 10.0, 3)
    rng = np.random.default_rng([3, 4, 20_000])
    mean, factor = gaussian(4, 10.0, rng)
    private = draw(20_000, mean, factor, rng)
    public = draw(5, mean, factor, rng)
    private[:3] = [[np.nan] * 4, [1e308, -1e308, 0, 0], [np.inf, 0, 0, 0]]
    result = seeded(lifted_coinpress, private, x_pub=public, budget=RHO_HALF, random_state=3)
    assert covariance_error(result.covariance, factor) < error + 0.05
    assert result.releases == clean.releases  # everything public is the same


REFUSED = Refusals()
REFUSED.add("needs public rows", x_pub=None)
REFUSED.add("at least two public rows", x_pub=np.ones((1, 3)))
REFUSED.add("all public rows are equal", x_pub=np.ones((9, 3)))
REFUSED.add("at least 4 public rows", x_pub=np.eye(3), require_precondition=True)
REFUSED.add(
    "subspace", x_pub=np.eye(3)[[0, 1, 2, 0, 1]] @ np.ones((3, 3)), require_precondition=True
)
REFUSED.add("failure_prob", failure_prob=1e-200)
REFUSED.add("pass a larger failure_prob", x_pub=np.eye(3)[:2], failure_prob=1e-90)
REFUSED.add("smaller pub_priv_gap", pub_priv_gap=1.0 - 1e-15)
REFUSED.add("rounds", rounds=0)
REFUSED.add("rounds", rounds=25)
REFUSED.add("cond_max", cond_max=math.nan)
REFUSED.add("cond_max", cond_max=-1.0)
REFUSED.add("at least 2 private rows", x_priv=np.zeros((1, 3)), method="pairs")
REFUSED.add("public rows have 3 columns and private rows have 1", x_priv=np.zeros(5))


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_refusals_come_before_the_debit_and_before_any_read(options, message):
    public = np.random.default_rng(2).standard_normal((8, 3))
    refused(
        lifted_coinpress,
        message,
        **({"x_priv": np.zeros((50, 3)), "x_pub": public, "budget": RHO_HALF} | options),
    )


def test_public_rows_with_missing_cells_are_left_out():
    rng = np.random.default_rng(3)
    private = rng.normal(size=(3000, 2))
    public = rng.normal(size=(6, 2))
    gaps = np.insert(public, [0, 3], [[np.nan, 1.0], [2.0, np.nan]], axis=0)
    whole = seeded(estimate_gaussian, private, x_pub=public, budget=RHO_HALF)
    some = seeded(estimate_gaussian, private, x_pub=gaps, budget=RHO_HALF)
    assert some.n_pub == 6
    assert some.covariance.tolist() == whole.covariance.tolist()
    ledger = Ledger(ZCDP(1))
    few = public.copy()
    few[:4, 1] = few[5, 0] = np.nan
    raises(
        InputError,
        "at least 2 public rows without missing cells, and 1 of 6",
        estimate_gaussian,
        private,
        x_pub=few,
        budget=RHO_HALF,
        ledger=ledger,
    )
    assert not ledger.entries


def test_theory_mode_spends_the_same():
    results = [fit(3, 200_000, 10.0, 1, mode=mode) for mode in ("practical", "theory")]
    spent = [sum(entry["rho"] for entry in result.releases) for result, *_ in results]
    assert all(0.995 < share / 0.5 <= 1.0 for share in map(float, spent))
    assert all(error < 0.1 for _, error, _ in results)


@pytest.fixture(scope="module")
def released():
    return fit(4, 20_000, 10.0, 11)[0]


def test_log_prob_and_samples_are_scipys(released):
    law = stats.multivariate_normal(released.mean, released.covariance)
    rows = released.sample(20_000, random_state=np.random.default_rng(1))
    assert rows.shape == (20_000, 4)
    assert np.allclose(released.log_prob(rows[:100]), law.logpdf(rows[:100]), rtol=1e-10)
    assert released.log_prob(rows[0]).shape == (1,)
    factor = np.linalg.cholesky(released.covariance)
    assert covariance_error(np.cov(rows.T), factor) < 6 * math.sqrt(20 / 20_000)
    white = np.linalg.solve(factor, (rows - released.mean).T)
    assert stats.kstest(white.ravel(), "norm").pvalue > 1e-6
    assert np.array_equal(released.sample(3, random_state=5), released.sample(3, random_state=5))
    raises(InputError, "shape", released.log_prob, np.zeros((2, 3)))


def test_confidence_ellipse_holds_its_share(released):
    rows = released.sample(20_000, random_state=2)
    for level in (0.5, 0.95):
        center, points = released.confidence_ellipse(1, 3, level=level)
        assert np.allclose(points.mean(axis=0), center, atol=0.1)
        chosen = released.covariance[np.ix_([1, 3], [1, 3])]
        radius = np.einsum(
            "ij,ij->i", points - center, np.linalg.solve(chosen, (points - center).T).T
        )
        assert np.allclose(radius, radius[0])
        gaps = rows[:, [1, 3]] - center
        inside = np.einsum("ij,ij->i", gaps, np.linalg.solve(chosen, gaps.T).T) <= radius[0]
        # A false alarm once in 1e6.
        assert abs(inside.mean() - level) <= 4.9 * math.sqrt(level * (1 - level) / 20_000)
    for level in (0.0, 1.0, math.nan, True):
        raises(InputError, "level", released.confidence_ellipse, level=level)
    raises(InputError, "two different columns", released.confidence_ellipse, 1, 1)


def test_mean_noise_std_is_that_of_the_mean(released):
    # Repeating the noise on the same rows: its spread is the stated one (five columns, 60 runs: within 35 %).
    rng = np.random.default_rng(12)
    private = rng.standard_normal((3000, 3)) * [1.0, 5.0, 20.0]
    public = rng.standard_normal((60, 3)) * [1.0, 5.0, 20.0]
    runs = [
        seeded(lifted_coinpress, private, x_pub=public, budget=ZCDP(0.1), random_state=seed)
        for seed in range(60)
    ]
    spread = np.std([run.mean for run in runs], axis=0)
    stated = np.mean([run.mean_noise_std for run in runs], axis=0)
    assert np.all(np.abs(np.log(spread / stated)) < 0.35)
