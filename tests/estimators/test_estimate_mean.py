"""`estimate_mean` within a ball: equivariance, coverage of what the public rows promise, both modes, noise laws, intervals."""

import math
import warnings

import numpy as np
import pytest
from scipy import stats
from spies import refused, seeded

from fastpubpriv import ZCDP, AccuracyWarning, ApproxDP, PureDP, estimate_mean, plan
from fastpubpriv.auditing import record_replay
from fastpubpriv.estimators.mean import public_ball
from fastpubpriv.estimators.radii import chi_radius, gap_radius

BUDGETS = [ZCDP(0.5), ApproxDP(1, 1e-6), PureDP(1)]


def sample(n=2000, dim=4, m=1, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, dim)), rng.standard_normal((m, dim))


def mean_of(private, public, budget=BUDGETS[0], **options):
    return seeded(estimate_mean, private, x_pub=public, budget=budget, clipping="gaussian", **options)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("steps", [1, 2, 3, "auto"])
def test_answer_is_near_the_mean_and_says_how_near(budget, steps):
    private, public = sample(n=20_000)
    result = mean_of(private + 50, public + 50, budget, steps=steps)
    assert np.all(np.abs(result.mean - 50) < 8 * result.standard_error)
    assert result.spent == budget
    assert (result.n_priv, result.n_pub, result.dim, result.private) == (20_000, 1, 4, False)
    planned = plan("mean", dim=4, n_pub=1, n_priv=20_000, budget=budget, steps=steps, clipping="gaussian")
    assert result.noise_std[0] == pytest.approx(planned.details["noise_std"], rel=0.01)
    assert len(result.releases) == planned.details["steps"]
    assert result.noise_std[0] >= planned.details["noise_std"] * (1 - 1e-12)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("shift", [1e3, 1e8, -1e12])
def test_error_does_not_depend_on_where_the_mean_is(shift, budget):
    private, public = sample(m=3)
    here, there = mean_of(private, public, budget), mean_of(private + shift, public + shift, budget)
    assert np.all(np.abs(there.mean - shift - here.mean) <= 1e-9 * abs(shift))
    assert np.array_equal(here.noise_std, there.noise_std)


@pytest.mark.parametrize("kind", ["scalar", "diagonal", "matrix"])
def test_known_covariance_is_equivariant(kind):
    private, public = sample(m=2)
    factor = {
        "scalar": 3.5 * np.eye(4),
        "diagonal": np.diag([1e-3, 1.0, 20.0, 1e6]),
        "matrix": np.tril(np.random.default_rng(5).standard_normal((4, 4)), -1) + np.diag([0.1, 1.0, 5.0, 100.0]),
    }[kind]
    spread = {
        "scalar": {"variance": 3.5**2},
        "diagonal": {"variance": np.diag(factor) ** 2},
        "matrix": {"covariance": factor @ factor.T},
    }[kind]
    plain = mean_of(private, public)
    mapped = mean_of(private @ factor.T, public @ factor.T, **spread)
    row_std = np.sqrt(np.diag(factor @ factor.T))
    # Rounding may move single grid steps of single rows: far below the noise.
    assert np.all(np.abs(mapped.mean - factor @ plain.mean) < 1e-7 * row_std)
    assert mapped.noise_std == pytest.approx(plain.noise_std * row_std)
    assert mapped.sampling_std == pytest.approx(row_std / math.sqrt(2000))


def test_public_covariance_is_equivariant():
    private, public = sample(m=40)
    factor = np.tril(np.random.default_rng(5).standard_normal((4, 4)), -1) + np.diag([0.1, 1.0, 5.0, 100.0])
    plain = mean_of(private, public, covariance="public")
    mapped = mean_of(private @ factor.T + 7, public @ factor.T + 7, covariance="public")
    assert mapped.mean - 7 == pytest.approx(factor @ plain.mean, abs=1e-6)
    assert mapped.provenance["covariance"] == "public rows"


def test_public_covariance_of_skewed_correlated_rows():
    rng = np.random.default_rng(8)
    mix = rng.standard_normal((3, 3)) * np.array([1.0, 30.0, 0.01])
    rows = (rng.exponential(size=(40_200, 3)) - 1.0) @ mix + np.array([1e4, -3.0, 0.2])
    public, private = rows[:200], rows[200:]
    result = mean_of(private, public, covariance="public")
    assert np.all(np.abs(result.mean - private.mean(axis=0)) < 8 * result.standard_error)
    assert np.all(result.noise_std < 0.1 * private.std(axis=0))


def test_accuracy_warning_counts_in_standard_deviations_of_a_row():
    # d + 1 public rows leave the covariance uncertain by a factor 1e6: the whitened error looks small, the real one is not.
    private, public = sample(n=20_000, m=5)
    with pytest.warns(AccuracyWarning, match="public rows alone"):
        result = mean_of(private, public, covariance="public", failure_prob=0.01)
    assert result.noise_std.max() > 1.0
    private, public = sample(n=20_000, m=100)
    with warnings.catch_warnings():
        warnings.simplefilter("error", AccuracyWarning)
        mean_of(private, public, covariance="public")
        mean_of(private, public[:5])


def test_accuracy_warning_grants_the_public_rows_no_more_than_the_gap_allows():
    private, public = sample(n=300, m=400)
    with pytest.warns(AccuracyWarning, match="public rows alone"):
        mean_of(private, public)
    mean_of(private, public, pub_priv_gap=0.2)  # they may be biased by 1.3 standard deviations: no warning


def test_public_ball_closed_form():
    _, public = sample(dim=6, m=9)
    ball, whitening, row_std = public_ball(public, covariance=None, variance=None, failure_prob=0.1, pub_priv_gap=0.0)
    assert ball.radius == chi_radius(6, 0.05) / 3
    assert np.array_equal(ball.center, public.mean(axis=0))
    assert whitening.factor is None
    assert row_std.tolist() == [1.0] * 6
    wide, _, _ = public_ball(public, covariance=None, variance=None, failure_prob=0.1, pub_priv_gap=0.25)
    assert wide.radius == gap_radius(6, 9, 0.05, 0.25) > ball.radius


def ball_failures(draws, failure_prob, *, gap=0.0, shift=0.0, scale=1.0, shrink=1.0, seed=0):
    """How often the private mean, zero with unit covariance, lies outside the ball of public rows N(shift, scale^2 I)."""
    rng = np.random.default_rng(seed)
    count = 0
    for _ in range(draws):
        public = rng.standard_normal((2, 5)) * scale
        public[:, 0] += shift
        ball, _, _ = public_ball(public, covariance=None, variance=None, failure_prob=failure_prob, pub_priv_gap=gap)
        count += float(np.linalg.norm(ball.center)) > shrink * ball.radius
    return count


def test_public_ball_covers_the_private_mean():
    # Half of failure_prob belongs to the ball. A true rate of exactly that passes the limit with probability 1e-9.
    limit = stats.binom.isf(1e-9, 4000, 0.1)
    assert ball_failures(4000, 0.2) <= limit
    assert ball_failures(4000, 0.2, shrink=0.65) > limit  # control: a radius that is too small


def test_public_ball_covers_under_a_gap():
    gap = 0.3
    shift = 2 * stats.norm.ppf(0.5 + gap / 2)
    # N(0, s^2 I) is within 0.3 of N(0, I) in five dimensions for s = 1.28.
    limit = stats.binom.isf(1e-9, 2000, 0.1)
    assert ball_failures(2000, 0.2, gap=gap, shift=shift) <= limit
    assert ball_failures(2000, 0.2, gap=gap, scale=1.28) <= limit
    assert ball_failures(2000, 0.2, gap=0.0, shift=3.0) > limit  # control: a gap that was not declared


def test_gap_widens_the_radius_without_a_jump():
    private, public = sample(n=20_000, m=60)
    for covariance in (None, "public"):
        noise = [
            mean_of(private, public, covariance=covariance, pub_priv_gap=gap, steps=1).noise_std[0]
            for gap in (0.0, 1e-13, 1e-3, 0.1, 0.5)
        ]
        assert noise == sorted(noise)
        assert noise[1] == pytest.approx(noise[0], rel=1e-5)
        assert noise[-1] > 2 * noise[0]


def test_theory_mode_clips_by_the_lemma():
    private, public = sample(n=500, dim=4, m=1)
    one = mean_of(private, public, mode="theory", steps=1, failure_prob=0.05)
    radius = chi_radius(4, 0.025) + chi_radius(4, 0.05 / (2 * 500))
    assert one.releases[0]["clip_radius"] == pytest.approx(radius, rel=1e-12)
    assert one.noise_std[0] == pytest.approx(2 * radius / 500 / math.sqrt(2 * 0.5), rel=1e-3)
    two = mean_of(private, public, mode="theory", steps=2, failure_prob=0.05)
    assert two.releases[0]["clip_radius"] == pytest.approx(
        chi_radius(4, 0.025) + chi_radius(4, 0.05 / (4 * 500 * 2)), rel=1e-12
    )
    assert one.spent == two.spent == mean_of(private, public).spent


def test_theory_mode_keeps_all_rows():
    # 300 data sets; each clips a row, or loses the mean, with probability at most 0.1: 68 failures have probability 1e-9.
    rng = np.random.default_rng(3)
    failures = 0
    for _ in range(300):
        rows, public = rng.standard_normal((100, 3)), rng.standard_normal((1, 3))
        ball, _, _ = public_ball(public, covariance=None, variance=None, failure_prob=0.1, pub_priv_gap=0.0)
        clip = ball.radius + chi_radius(3, 0.1 / 200)
        failures += bool(np.any(np.linalg.norm(rows - ball.center, axis=1) > clip))
    assert failures <= stats.binom.isf(1e-9, 300, 0.1)


def noise_draws(budget, count, **options):
    public = np.zeros((1, 5))
    rows = np.zeros((3, 5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        results = [
            mean_of(rows, public, budget, steps=1, random_state=seed, threads=1, **options) for seed in range(count)
        ]
    return np.array([result.mean / result.noise_std for result in results]).ravel()


def test_noise_laws():
    # 5000 values each; a Kolmogorov-Smirnov test at 1e-9, and the other law as the control.
    gauss, laplace = noise_draws(ZCDP(0.5), 1000), noise_draws(PureDP(1), 1000)
    unit_laplace = stats.laplace(scale=1 / math.sqrt(2))
    assert stats.kstest(gauss, stats.norm.cdf).pvalue > 1e-9
    assert stats.kstest(laplace, unit_laplace.cdf).pvalue > 1e-9
    assert stats.kstest(gauss, unit_laplace.cdf).pvalue < 1e-9
    assert stats.kstest(laplace, stats.norm.cdf).pvalue < 1e-9


def test_rows_that_are_not_numbers_count_as_rows_at_the_centre():
    private, public = sample(n=4000)
    half = private + 3.0
    half[::2] = np.nan
    result = mean_of(half, public + 3.0, steps=1)
    expected = (half[1::2].sum(axis=0) + 2000 * (public[0] + 3.0)) / 4000
    assert np.all(np.abs(result.mean - expected) < 8 * result.noise_std + 0.01)


def test_all_rows_missing_gives_noise_around_the_public_centre():
    _, public = sample(m=1)
    result = mean_of(np.full((1000, 4), np.nan), public)
    assert np.all(np.abs(result.mean - public[0]) < 10 * result.noise_std)
    assert not np.array_equal(result.mean, public[0])


def interval_misses(runs, level, factor=1.0):
    """Coordinates outside their interval, and those outside of one without the privacy noise."""
    rng = np.random.default_rng(17)
    misses = without_noise = 0
    for seed in range(runs):
        rows = rng.standard_normal((400, 3))
        result = mean_of(rows, rng.standard_normal((4, 3)), ZCDP(0.1), random_state=seed, threads=1)
        lower, upper = result.confidence_interval(level)
        misses += int(np.sum((lower > 0) | (upper < 0)))
        narrow = stats.norm.ppf(0.5 + level / 2) * result.sampling_std
        without_noise += int(np.sum(np.abs(result.mean) > narrow))
    return misses, without_noise


def check_intervals(runs):
    # Each coordinate misses with probability 5 %, up to the rows that are clipped; the limits are at 1e-9 each.
    misses, without_noise = interval_misses(runs, 0.95)
    assert stats.binom.ppf(1e-9, 3 * runs, 0.05) <= misses <= stats.binom.isf(1e-9, 3 * runs, 0.05)
    assert without_noise > stats.binom.isf(1e-9, 3 * runs, 0.05)  # control: privacy noise forgotten


def test_confidence_intervals_cover():
    check_intervals(600)


@pytest.mark.statistical
def test_confidence_intervals_cover_closely():
    check_intervals(20_000)


def test_laplace_intervals_are_wider():
    gauss, laplace = mean_of(*sample()), mean_of(*sample(), PureDP(1))
    for result, quantile in ((gauss, 1.959964), (laplace, math.log(20) / math.sqrt(2))):
        lower, upper = result.confidence_interval()
        assert (upper - lower) / 2 == pytest.approx(quantile * result.standard_error, rel=1e-6)


def unequal(seed, n=2000, dim=100):
    """Rows whose deviations are 1 / j, and 20 public ones."""
    rows = np.random.default_rng(seed).normal(size=(n + 20, dim)) / np.arange(1, dim + 1)
    return {"x_priv": rows[20:], "x_pub": rows[:20].copy(), "budget": ZCDP(0.2)}


def means_for(objective, seeds=range(5)):
    return [seeded(estimate_mean, random_state=seed, objective=objective, **unequal(seed)) for seed in seeds]


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_noise_is_spread_for_the_whole_vector_where_that_is_asked_for():
    each, whole = means_for("columns"), means_for("l2")
    assert np.median([np.linalg.norm(found.mean) for found in whole]) < 0.7 * np.median(
        [np.linalg.norm(found.mean) for found in each]
    )
    # In data units noise falls with the root of the deviation in place of the deviation: columns in small units pay.
    ratio = np.median([found.noise_std[0] / found.noise_std[80] for found in whole])
    assert 4.0 < ratio < 20.0 < np.median([found.noise_std[0] / found.noise_std[80] for found in each])
    for found in whole:
        lower, upper = found.confidence_interval()
        assert np.mean((lower <= 0.0) & (upper >= 0.0)) > 0.93


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_the_objective_of_a_call_is_checked_and_its_releases_cost_the_same():
    refused(
        estimate_mean, "objective must be", np.zeros((9, 2)), x_pub=np.ones((1, 2)), budget=ZCDP(1), objective="max"
    )
    refused(
        estimate_mean, "objective= belongs to", np.zeros((9, 2)), x_pub=np.ones((1, 2)), budget=ZCDP(1), objective="l2",
        variance=1.0,
    )  # fmt: skip
    rows = np.random.default_rng(3).normal(size=(60, 2)) * [1.0, 50.0]
    other = rows.copy()
    other[7] = [1e6, -1e6]
    record_replay(
        lambda x: seeded(estimate_mean, x, x_pub=rows[:1] + 0.5, budget=ZCDP(2), objective="l2"),
        rows,
        other,
        budget=ZCDP(2),
    )
