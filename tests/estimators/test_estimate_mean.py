"""`estimate_mean` within a ball: equivariance, coverage of what the public rows promise, both modes, noise laws, intervals."""

import math
import warnings
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from gaussian_cases import held
from helpers.errors import raises
from helpers.neighbors import pair_at
from scipy import stats
from spies import SpyLedger, SpyRows, refused, seeded

from fastpubpriv import (
    ZCDP,
    AccuracyWarning,
    ApproxDP,
    InputError,
    PureDP,
    estimate_mean,
    plan,
    weighted_mean,
)
from fastpubpriv.auditing import record_replay
from fastpubpriv.estimators.coinpress import public_ball
from fastpubpriv.estimators.mean_methods import METHODS, BallSettings
from fastpubpriv.estimators.radii import chi_radius, gap_radius
from fastpubpriv.estimators.weighted_mean import ErrorModel
from fastpubpriv.privacy import Cost
from fastpubpriv.privacy.spending import GaussianSpending, LaplaceSpending

BUDGETS = [ZCDP(0.5), ApproxDP(1, 1e-6), PureDP(1)]


def sample(n=2000, dim=4, m=1, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, dim)), rng.standard_normal((m, dim))


def mean_of(private, public, budget=BUDGETS[0], **options):
    return seeded(
        estimate_mean, private, x_pub=public, budget=budget, clipping="gaussian", **options
    )


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("steps", [1, 2, 3, "auto"])
def test_answer_is_near_the_mean_and_says_how_near(budget, steps):
    private, public = sample(n=20_000)
    result = mean_of(private + 50, public + 50, budget, steps=steps)
    assert np.all(np.abs(result.mean - 50) < 8 * result.standard_error)
    assert result.spent == budget
    assert result.n_priv == 20_000
    assert result.n_pub == 1
    assert result.dim == 4
    assert result.private is False
    planned = plan(
        "mean", dim=4, n_pub=1, n_priv=20_000, budget=budget, steps=steps, clipping="gaussian"
    )
    assert result.noise_std[0] == pytest.approx(planned.details["noise_std"], rel=0.01)
    assert len(result.releases) == planned.details["steps"]
    assert result.noise_std[0] >= planned.details["noise_std"] * (1 - 1e-12)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("shift", [1e3, 1e8, -1e12])
def test_error_does_not_depend_on_where_the_mean_is(shift, budget):
    private, public = sample(m=3)
    here = mean_of(private, public, budget)
    there = mean_of(private + shift, public + shift, budget)
    assert np.all(np.abs(there.mean - shift - here.mean) <= 1e-9 * abs(shift))
    assert np.array_equal(here.noise_std, there.noise_std)


@pytest.mark.parametrize("kind", ["scalar", "diagonal", "matrix", "public"])
def test_a_mean_is_equivariant(kind):
    private, public = sample(m=40 if kind == "public" else 2)
    triangle = np.tril(np.random.default_rng(5).standard_normal((4, 4)), -1) + np.diag(
        [0.1, 1.0, 5.0, 100.0]
    )
    factor = {
        "scalar": 3.5 * np.eye(4),
        "diagonal": np.diag([1e-3, 1.0, 20.0, 1e6]),
        "matrix": triangle,
        "public": triangle,
    }[kind]
    spread = {
        "scalar": {"variance": 3.5**2},
        "diagonal": {"variance": np.diag(factor) ** 2},
        "matrix": {"covariance": factor @ factor.T},
        "public": {"covariance": "public"},
    }[kind]
    plain = mean_of(private, public, **(spread if kind == "public" else {}))
    mapped = mean_of(private @ factor.T, public @ factor.T, **spread)
    row_std = np.sqrt(np.diag(factor @ factor.T))
    # Rounding may move single grid steps of single rows: far below the noise.
    assert np.all(np.abs(mapped.mean - factor @ plain.mean) < 1e-7 * row_std)
    assert mapped.provenance["covariance"] == ("public rows" if kind == "public" else "argument")
    if kind != "public":
        assert mapped.noise_std == pytest.approx(plain.noise_std * row_std)
        assert mapped.sampling_std == pytest.approx(row_std / math.sqrt(2000))


def test_accuracy_warnings_count_in_deviations_of_a_row_and_grant_no_more_than_the_gap():
    # d + 1 public rows leave the covariance uncertain by a factor 1e6: the whitened error looks small, the real one is not.
    private, public = sample(n=20_000, m=5)
    with pytest.warns(AccuracyWarning, match="public rows alone"):
        result = mean_of(private, public, covariance="public", failure_prob=0.01)
    assert result.noise_std.max() > 1.0
    private, public = sample(n=20_000, m=100)
    with warnings.catch_warnings(action="error", category=AccuracyWarning):
        mean_of(private, public, covariance="public")
        mean_of(private, public[:5])
    private, public = sample(n=300, m=400)
    with pytest.warns(AccuracyWarning, match="public rows alone"):
        mean_of(private, public)
    # they may be biased by 1.3 standard deviations: no warning
    mean_of(private, public, pub_priv_gap=0.2)


def test_public_ball_covers_the_private_mean():
    _, public = sample(dim=6, m=9)
    center, radius, whitening, row_std = public_ball(public, BallSettings(failure_prob=0.1))
    assert radius == chi_radius(6, 0.05) / 3
    assert np.array_equal(center, public.mean(axis=0))
    assert whitening.factor is None
    assert row_std.tolist() == [1.0] * 6
    wider = BallSettings(failure_prob=0.1, pub_priv_gap=0.25)
    assert public_ball(public, wider)[1] == gap_radius(6, 9, 0.05, 0.25) > radius
    # Public ball covers the private mean.
    # Half of failure_prob belongs to the ball. A true rate of exactly that passes the limit with probability 1e-9.
    limit = stats.binom.isf(1e-9, 4000, 0.1)
    assert ball_failures(4000, 0.2) <= limit
    assert ball_failures(4000, 0.2, shrink=0.65) > limit  # control: a radius that is too small
    # Public ball covers under a gap.
    gap = 0.3
    shift = 2 * stats.norm.ppf(0.5 + gap / 2)
    # N(0, s^2 I) is within 0.3 of N(0, I) in five dimensions for s = 1.28.
    limit = stats.binom.isf(1e-9, 2000, 0.1)
    assert ball_failures(2000, 0.2, gap=gap, shift=shift) <= limit
    assert ball_failures(2000, 0.2, gap=gap, scale=1.28) <= limit
    # control: a gap that was not declared
    assert ball_failures(2000, 0.2, gap=0.0, shift=3.0) > limit


def ball_failures(draws, failure_prob, *, gap=0.0, shift=0.0, scale=1.0, shrink=1.0, seed=0):
    """How often the private mean, zero with unit covariance, lies outside the ball of public rows N(shift, scale^2 I)."""
    rng = np.random.default_rng(seed)
    count = 0
    for _ in range(draws):
        public = rng.standard_normal((2, 5)) * scale
        public[:, 0] += shift
        settings = BallSettings(failure_prob=failure_prob, pub_priv_gap=gap)
        center, radius, *_ = public_ball(public, settings)
        count += float(np.linalg.norm(center)) > shrink * radius
    return count


def test_theory_mode_clips_by_the_lemma():
    private, public = sample(n=500, dim=4, m=1)
    one = mean_of(private, public, mode="theory", steps=1, failure_prob=0.05)
    radius = chi_radius(4, 0.025) + chi_radius(4, 0.05 / (2 * 500))
    assert one.releases[0]["clip_radius"] == pytest.approx(radius, rel=1e-12)
    assert one.noise_std[0] == pytest.approx(2 * radius / 500 / math.sqrt(2 * 0.5), rel=1e-3)
    two = mean_of(private, public, mode="theory", steps=2, failure_prob=0.05)
    radius = chi_radius(4, 0.025) + chi_radius(4, 0.05 / (4 * 500 * 2))
    assert two.releases[0]["clip_radius"] == pytest.approx(radius, rel=1e-12)
    assert one.spent == two.spent == mean_of(private, public).spent


@pytest.mark.parametrize("runs", [600, pytest.param(20_000, marks=pytest.mark.statistical)])
def test_confidence_intervals_cover(runs):
    """Coordinates outside their interval, outside of one without clipping, and outside of one without the privacy noise."""
    rng = np.random.default_rng(17)
    z = stats.norm.ppf(0.975)
    misses = without_clipping = without_noise = 0
    expected = 0.0
    for seed in range(runs):
        rows = rng.standard_normal((400, 3))
        result = mean_of(rows, rng.standard_normal((4, 3)), ZCDP(0.1), random_state=seed, threads=1)
        misses += int(np.sum(~held(result, 0.0, level=0.95)))
        unclipped = np.hypot(result.noise_std, result.sampling_std)
        without_clipping += int(np.sum(np.abs(result.mean) > z * unclipped))
        without_noise += int(np.sum(np.abs(result.mean) > z * result.sampling_std))
        # of Gaussian rows, whose clipping has no bias: the standard error of clipping makes the interval wider than they need
        expected += float(np.sum(2.0 * stats.norm.sf(z * result.standard_error / unclipped)))
    # Noise and sampling alone miss with probability 5 %, up to the rows that are clipped; the limits are at 1e-9 each.
    trials = 3 * runs
    fewest = stats.binom.ppf(1e-9, trials, 0.05)
    most = stats.binom.isf(1e-9, trials, 0.05)
    assert fewest <= without_clipping <= most
    # The whole interval misses with probability .042: of 60,000 coordinates 2,540, fewer than the 2,685 that 5 % permit.
    assert misses >= stats.binom.ppf(1e-9, trials, expected / trials)
    assert misses <= stats.binom.isf(1e-9, trials, expected / trials)
    assert without_noise > most  # control: privacy noise forgotten


def test_laplace_intervals_are_wider():
    gauss = mean_of(*sample())
    laplace = mean_of(*sample(), PureDP(1))
    for result, quantile in ((gauss, 1.959964), (laplace, math.log(20) / math.sqrt(2))):
        lower, upper = result.confidence_interval()
        assert (upper - lower) / 2 == pytest.approx(quantile * result.standard_error, rel=1e-6)


def means_for(objective):
    """Means of rows whose deviations are 1 / j, with 20 public ones."""
    call = partial(seeded, estimate_mean, budget=ZCDP(0.2), objective=objective)
    tables = [
        np.random.default_rng(seed).normal(size=(2020, 100)) / np.arange(1, 101)
        for seed in range(5)
    ]
    return [
        call(rows[20:], x_pub=rows[:20].copy(), random_state=seed)
        for seed, rows in enumerate(tables)
    ]


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_noise_is_spread_for_the_whole_vector_where_that_is_asked_for():
    each = means_for("columns")
    whole = means_for("l2")
    error_of_each = np.median([np.linalg.norm(found.mean) for found in each])
    error = np.median([np.linalg.norm(found.mean) for found in whole])
    assert error < 0.7 * error_of_each
    # In data units noise falls with the root of the deviation in place of the deviation: columns in small units pay.
    ratio = np.median([found.noise_std[0] / found.noise_std[80] for found in whole])
    assert (
        4.0 < ratio < 20.0 < np.median([found.noise_std[0] / found.noise_std[80] for found in each])
    )
    for found in whole:
        assert np.mean(held(found, 0.0)) > 0.93


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_the_objective_of_a_call_is_checked_and_its_releases_cost_the_same():
    given = {"x_priv": np.zeros((9, 2)), "x_pub": np.ones((1, 2)), "budget": ZCDP(1)}
    refused(estimate_mean, "objective must be", objective="max", **given)
    refused(estimate_mean, "objective= belongs to", objective="l2", variance=1.0, **given)
    rows = np.random.default_rng(3).normal(size=(60, 2)) * [1.0, 50.0]
    call = partial(seeded, estimate_mean, x_pub=rows[:1] + 0.5, budget=ZCDP(2), objective="l2")
    record_replay(call, *pair_at(rows, 7, [1e6, -1e6]), budget=ZCDP(2))


# ---- The registry: what a method reads, and what it refuses -------------------------------------------------------------
def test_counts_are_a_method_that_clipping_names():
    rows = np.random.default_rng(5).normal(size=(400, 2))
    call = partial(seeded, estimate_mean, rows[3:], x_pub=rows[:3], budget=ZCDP(1))
    assert METHODS.choices == ("auto", "counts", "gaussian")
    assert np.array_equal(call(clipping="counts").mean, call().mean)


def test_a_method_refuses_the_settings_of_another_with_its_case():
    given = {"x_priv": np.zeros((9, 2)), "x_pub": np.ones((1, 2)), "budget": ZCDP(1)}
    text = "variance= belongs to clipping='gaussian'"
    refused(estimate_mean, text, clipping="counts", variance=1.0, **given)
    text = "belongs to clipping='counts'"
    refused(estimate_mean, text, clipping="gaussian", missing="neutral", **given)


def test_a_wrong_setting_is_refused_in_words_whichever_method_is_asked_for():
    given = {"x_priv": np.zeros((9, 2)), "x_pub": np.ones((1, 2)), "budget": ZCDP(1)}
    refused(estimate_mean, "steps must be", steps=np.array([1, 2]), **given)
    refused(estimate_mean, "steps must be", steps=np.array([1, 2]), by=-1, **given)


# ---- `weighted_mean`: the closed forms of paper B, its special cases, and the noise laws ----------------------------
def weighted_mean_of(private, public=None, budget=BUDGETS[0], *, norm_bound=2.0, **options):
    return seeded(
        weighted_mean, private, x_pub=public, budget=budget, norm_bound=norm_bound, **options
    )


def bits(n, dim, seed):
    return np.random.default_rng(seed).integers(0, 2, size=(n, dim)).astype(np.float64)


def test_best_error_is_the_harmonic_form():
    rng = np.random.default_rng(0)
    for _ in range(500):
        dim, n_priv, n_pub = (int(v) for v in rng.integers(1, 1000, size=3))
        variance, bound, amount = 10.0 ** rng.uniform(-4, 4, size=3)
        law = (GaussianSpending, LaplaceSpending)[int(rng.integers(2))]
        energy = law(Fraction(amount)).energy(dim, bound)
        model = ErrorModel(n_priv=n_priv, n_pub=n_pub, variance=variance, noise=energy)
        a = model.private_error
        p = model.public_error
        best = model.mean_squared_error("optimal")
        assert best == pytest.approx(a * p / (a + p), rel=1e-13)
        share = model.weight("optimal")
        assert 0 < share < 1
        # J in its original form, and its derivative, at r* = share / n_priv
        r = share / n_priv
        j = energy * r**2 + n_priv * r**2 * variance + (1 - n_priv * r) ** 2 * variance / n_pub
        assert best == pytest.approx(j, rel=1e-12)
        slope = energy * r + n_priv * r * variance - n_priv * (1 - n_priv * r) * variance / n_pub
        assert abs(slope) <= 1e-12 * (energy * r + n_priv * r * variance)
        # Proposition 8: q / (q + s^2), for zCDP noise
        if law is GaussianSpending:
            q = 2 + n_priv * amount * variance / (dim * bound**2)
            s_squared = variance * n_priv**2 * amount / (bound**2 * dim * n_pub)
            assert best / p == pytest.approx(q / (q + s_squared), rel=1e-12)


def squared_errors(runs, **options):
    errors = []
    for seed in range(runs):
        private = bits(1000, 1000, seed)
        public = bits(50, 1000, 10**6 + seed)
        result = weighted_mean_of(
            private,
            public,
            center=0.0,
            norm_bound=math.sqrt(1000),
            variance=250.0,
            project=False,
            random_state=seed,
            **options,
        )
        errors.append(float(np.sum(np.square(result.mean - 0.5))))
    return np.array(errors)


@pytest.mark.parametrize(
    ("runs", "most"), [(100, 6.5), pytest.param(2000, 4.0, marks=pytest.mark.statistical)]
)
def test_monte_carlo_error_agrees_with_the_closed_form(runs, most):
    # Fixed seeds; 6.5 standard errors (about 2.5 % of the error at 100 runs) would be a false alarm of 1e-10.
    errors = squared_errors(runs)
    theory = 4.25 * 5.0 / 9.25
    step = errors.std(ddof=1) / math.sqrt(runs)
    assert abs(errors.mean() - theory) < most * step < 0.05 * theory
    # Control: the weight of the plain Gaussian mechanism on all rows.
    assert abs(squared_errors(20, row_weight="gaussian").mean() - theory) > most * step * math.sqrt(
        5
    )


@pytest.mark.parametrize("row_weight", ["throw_away", 0, 0.0])
def test_throw_away_reads_and_spends_nothing(row_weight):
    log = []
    poisoned = SpyRows(
        np.full((1000, 3), np.nan), log, fails=RuntimeError("the private rows were read")
    )
    ledger = SpyLedger(ZCDP(1), log)
    public = np.random.default_rng(0).random((40, 3))
    result = weighted_mean_of(poisoned, public, row_weight=row_weight, ledger=ledger)
    assert log == []
    assert ledger.spent.is_zero
    assert result.mean == pytest.approx(public.mean(axis=0))
    assert result.spent == Cost.zero(ZCDP)
    assert result.noise_std.tolist() == [0.0] * 3
    assert result.releases == ()
    assert "rho" in result.to_json()
    with pytest.raises(InputError):  # control: any other weight does read
        weighted_mean_of(poisoned, public, row_weight="optimal", ledger=ledger)
    assert log == ["debit", "read"]
    assert ledger.spent == ZCDP(0.5).cost


def test_special_weights_of_one_data_set():
    rng = np.random.default_rng(4)
    private = rng.random((2000, 3))
    public = rng.random((500, 3))
    for row_weight, share in [
        ("private", 1.0),
        ("gaussian", 0.8),
        (1 / 4000, 0.5),
        (1 / 2000, 1.0),
    ]:
        result = weighted_mean_of(private, public, row_weight=row_weight, center=0.5, project=False)
        expected = share * private.mean(axis=0) + (1 - share) * public.mean(axis=0)
        assert result.releases[0]["private_weight"] == pytest.approx(share)
        assert np.all(np.abs(result.mean - expected) < 8 * result.noise_std)
        assert result.noise_std[0] == pytest.approx(share * 2 * 2.0 / 2000, rel=1e-3)


@pytest.mark.parametrize("budget", [ZCDP(0.1), ApproxDP(1, 1e-6), PureDP(1)])
def test_error_on_the_plan_is_the_error_of_the_estimate(budget):
    planned = plan(
        "weighted_mean", dim=3, n_priv=2000, n_pub=20, budget=budget, norm_bound=2.0, variance=0.25
    )
    rng = np.random.default_rng(4)
    result = weighted_mean_of(
        rng.random((2000, 3)), rng.random((20, 3)), budget, center=0.5, variance=0.25
    )
    assert result.releases[0]["private_weight"] == pytest.approx(
        planned.details["private_weight"], rel=1e-9
    )
    share = planned.details["private_weight"]
    sampling = 0.25 * (share**2 / 2000 + (1 - share) ** 2 / 20)
    assert math.sqrt(3 * result.noise_std[0] ** 2 + sampling) == pytest.approx(
        planned.error, rel=0.005
    )


def test_clipping_ball_projection_and_public_recentering():
    private = np.full((1000, 2), 50.0)
    result = weighted_mean_of(private, center=10.0, norm_bound=1.0)
    assert np.linalg.norm(result.mean - 10.0) <= 1.0 + 1e-12
    assert result.mean == pytest.approx([10 + math.sqrt(0.5)] * 2, abs=0.05)
    loose = weighted_mean_of(private, center=10.0, norm_bound=1.0, project=False)
    assert loose.mean == pytest.approx(result.mean, abs=0.05)
    rng = np.random.default_rng(2)
    private = 1e6 + rng.random((5000, 2))
    public = 1e6 + rng.random((30, 2))
    result = weighted_mean_of(private, public, center="public", norm_bound=2.0)
    assert np.all(np.abs(result.mean - 1e6 - 0.5) < 8 * result.standard_error)
    assert result.provenance["center"] == "public rows"
    raises(InputError, "center", weighted_mean_of, private, center="public")


@pytest.mark.filterwarnings("ignore:.*public rows are beyond norm_bound")
def test_variance_from_public_rows_stays_below_the_bound():
    private = np.zeros((100, 2))
    wild = np.array([[1e3, 0.0], [-1e3, 0.0], [0.0, 1e3]])
    result = weighted_mean_of(private, wild, norm_bound=1.0)
    share = result.releases[0]["private_weight"]
    energy = GaussianSpending(Fraction(1, 2)).energy(2, 1.0)
    expected = ErrorModel(n_priv=100, n_pub=3, variance=1.0, noise=energy).weight("optimal")
    assert share == pytest.approx(expected, rel=1e-6)
    assert result.provenance["variance"] == "public rows"
    assert weighted_mean_of(private, wild[:1]).provenance["variance"] == "norm bound"
    assert weighted_mean_of(private, np.ones((5, 2))).provenance["variance"] == "norm bound"
    # duplicates estimate no variance
    assert np.all(weighted_mean_of(private, np.ones((5, 2))).sampling_std > 0)
    assert weighted_mean_of(private, wild, variance=2.0).provenance["variance"] == "argument"


@pytest.mark.parametrize(
    "options",
    [
        {"norm_bound": 0.0},
        {"norm_bound": -1.0},
        {"norm_bound": math.nan},
        {"norm_bound": math.inf},
        {"norm_bound": 1e200},
        {"norm_bound": 1e-200},
        {"norm_bound": "1"},
        {"variance": 0.0},
        {"variance": 1e300},
        {"row_weight": "best"},
        {"row_weight": -1e-9},
        {"row_weight": 0.2},
        {"row_weight": math.nan},
        {"row_weight": True},
        {"row_weight": None},
        {"center": "origin"},
        {"center": math.inf},
        {"center": [1.0]},
        {"project": "yes"},
        {"project": 1},
    ],
)
def test_arguments_are_checked_before_anything_is_read(options):
    log = []
    raises(
        InputError,
        next(iter(options)),
        weighted_mean_of,
        SpyRows(np.ones((10, 2)), log),
        np.ones((4, 2)),
        **options,
    )
    assert log == []


@pytest.mark.parametrize("row_weight", ["throw_away", 0.0, 0.05])
def test_without_public_rows_private_rows_carry_the_weight(row_weight):
    raises(InputError, "whole weight", weighted_mean_of, np.ones((10, 2)), row_weight=row_weight)
    for named in ("optimal", "gaussian", "private", 0.1):
        assert (
            weighted_mean_of(np.ones((10, 2)), row_weight=named).releases[0]["private_weight"]
            == 1.0
        )
