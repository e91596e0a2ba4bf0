"""`estimate_mean` by counts: what must hold exactly, what a column of each shape must give, and what must be said of it."""

import warnings
from unittest import mock

import numpy as np
import pytest
from gaussian_cases import column, held
from helpers.errors import raises
from helpers.neighbors import pair_at
from helpers.refusals import Refusals
from robustness.adversary import forcing
from spies import seeded

from fastpubpriv import ZCDP, AccuracyWarning, ApproxDP, InputError, Ledger, PureDP, estimate_mean
from fastpubpriv.auditing import record_replay
from fastpubpriv.distributions import budget_split, columns, support, tuning
from fastpubpriv.distributions.budget_split import divide
from fastpubpriv.estimators import column_means
from fastpubpriv.privacy.spending import GaussianSpending, LaplaceSpending, spending_of
from fastpubpriv.release import transcript as transcripts

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
BUDGETS = [ZCDP(0.05), ApproxDP(0.5, 1e-6), PureDP(1)]
EXACT = ZCDP(1e6)  # as good as no noise


def mean_of(private, public, budget=BUDGETS[0], **options):
    return seeded(
        estimate_mean, private, x_pub=public, budget=budget, threads=1, progress=False, **options
    )


KINDS = ["normal", "lognormal", "counts", "share", "negative", "mostly zero"]


def test_without_noise_several_columns_and_missing_entries():
    rng = np.random.default_rng(2)
    rows = np.stack([column(rng, kind, 4000) for kind in KINDS], axis=1)
    rows[rng.random(rows.shape) < 0.1] = np.nan
    public = np.stack([column(rng, kind, 5) for kind in KINDS], axis=1)
    result = mean_of(rows, public, EXACT)
    assert np.all(np.abs(result.mean - np.nanmean(rows, axis=0)) < 0.05 * np.nanstd(rows, axis=0))
    assert result.report.missing == pytest.approx(np.isnan(rows).sum(axis=0), abs=1.0)
    whole = rows[np.isfinite(rows).all(axis=1)]
    neutral = mean_of(rows, public, EXACT, missing="neutral")
    assert np.all(np.abs(neutral.mean - whole.mean(axis=0)) < 0.05 * np.nanstd(rows, axis=0))
    assert neutral.report.missing == pytest.approx(len(rows) - len(whole), abs=1.0)


class Shifted(transcripts.Transcript):
    """Answers with what another run was told, its cells moved by whole octaves or its sides exchanged."""

    __slots__ = ("calls_there", "change")

    def __init__(self, calls_there, change):
        super().__init__()
        self.calls_there = calls_there
        self.change = change

    def forced(self, name, shape, event, unit):
        return self.change(name, self.calls_there[len(self.calls)].answer.copy())


def spending_here(budget, dim):
    return spending_of(budget, budget_split.draws(dim))


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize(("octaves", "sign"), [(37, 1.0), (0, -1.0)], ids=["scaled", "negated"])
def test_a_power_of_two_or_a_sign_moves_every_output_alike(budget, octaves, sign):
    """Exactly, where the answers are those of the other run with its cells moved by whole octaves, or its sides exchanged."""
    rng = np.random.default_rng(3)
    dim = 2 if sign > 0.0 else 1
    rows = rng.lognormal(size=(3000, dim))
    public = rng.lognormal(size=(1, dim))
    with transcripts.recording() as transcript:
        here = mean_of(rows, public, budget)
    parts = divide(dim, 3000, spending_here(budget, dim)).parts
    side = 2047 * parts

    def change(name, answer):
        if name != "signed dyadic cells":
            return sign * answer
        above = np.roll(answer[:, :side], octaves * parts, axis=1)
        below = np.roll(answer[:, side : 2 * side], octaves * parts, axis=1)
        return np.concatenate(
            [*((above, below) if sign > 0.0 else (below, above)), answer[:, 2 * side :]], axis=1
        )

    factor = sign * 2.0**octaves
    there = forcing(Shifted(transcript.calls, change))(
        lambda: mean_of(rows * factor, public * factor, budget)
    )
    assert np.allclose(there.mean, here.mean * factor, rtol=0.0 if sign > 0.0 else 1e-12)
    # Sums over cells run in the other direction where sides are exchanged.
    rounding = {"rtol": 0.0 if sign > 0.0 else 1e-12, "atol": 0.0}
    for name in ("noise_std", "sampling_std"):
        expected = getattr(here, name) * abs(factor)
        assert np.allclose(getattr(there, name), expected, **rounding), name
    for name, mirrored, unit in (
        ("clipping_std", "clipping_std", abs(factor)),
        ("tail_below", "tail_above", abs(factor)),
        ("tail_above", "tail_below", abs(factor)),
        ("resolved_from", "resolved_to", factor),
        ("resolved_to", "resolved_from", factor),
    ):
        other = getattr(here.report, name if sign > 0.0 else mirrored)
        assert np.allclose(getattr(there.report, name), other * unit, **rounding), name
    assert there.part_reasons == here.part_reasons


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("dim", [1, 2, 7])
def test_costs_add_up_to_the_budget(budget, dim):
    rows = np.random.default_rng(5).normal(size=(20_000, dim))
    ledger = Ledger(budget)
    result = mean_of(rows, rows[:1].copy(), budget, ledger=ledger)
    assert result.spent == budget
    names = [release["name"] for release in result.releases]
    counted = names.count("signed dyadic cells")
    assert names == [
        *["signed dyadic cells"] * counted,
        *["shells of rows"] * (dim > 1),
        "clipped sum",
    ]
    assert 1 <= counted <= 2
    costs = [
        release["epsilon" if isinstance(budget, PureDP) else "rho"] for release in result.releases
    ]
    total = spending_here(budget, dim).allowance
    shares = divide(dim, 20_000, spending_here(budget, dim))
    assert float(sum(costs)) == pytest.approx(float(total), rel=1e-3)
    assert sum(costs) <= total
    assert float(costs[0]) == pytest.approx(float(shares.cells), rel=1e-3)
    assert float(costs[-1]) >= 0.249 * float(shares.total)


@pytest.mark.parametrize("budget", BUDGETS[::2], ids=["zcdp", "pure"])
@pytest.mark.parametrize(
    ("n", "dim", "n_pub", "runs", "limit"),
    [
        (2000, 1, 5, 160, 1.1 * 1.17),
        (20_000, 1, 5, 160, 1.1 * 1.17),
        (2000, 4, 5, 40, 1.1 * 1.17),
        (2000, 10, 5, 24, 1.1 * 1.1),
        (2000, 10, 1, 24, 1.2 * 1.1),
    ],
)
def test_gaussian_columns_cost_a_tenth_more_than_being_told_their_variance(
    budget, n, dim, n_pub, runs, limit
):
    """And ten of them a fifth with one public row: the cells lie about a row of the tail in some column or other."""
    # And what 160 or 240 squared errors leave open.
    assert error_over_a_known_variance(budget, n, dim, n_pub, runs=runs) < limit


def error_over_a_known_variance(budget, n, dim, n_pub, *, runs):
    """Error over that of two steps of the paper's method, which is told the variance, on the same rows of Gaussian columns."""
    ours = []
    theirs = []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(n, dim))
        public = rng.normal(size=(n_pub, dim))
        ours.append(mean_of(rows, public, budget, random_state=seed).mean)
        theirs.append(mean_of(rows, public, budget, variance=1.0, random_state=seed).mean)
    return np.sqrt(np.mean(np.square(ours)) / np.mean(np.square(theirs)))


def test_columns_cut_where_their_rows_stand_out_fail_that(monkeypatch):
    """As they were before intervals of many columns reached as far as they may at no price."""
    monkeypatch.setattr(columns, "_freely_extended", lambda line, box, points, inside, dim: box)
    assert error_over_a_known_variance(BUDGETS[2], 2000, 10, 1, runs=24) > 1.2 * 1.1


def test_a_constant_column_is_said_to_be_at_its_value():
    result = mean_of(np.full((5000, 1), 3.7), np.full((3, 1), 3.7))
    assert result.mean[0] == 3.7
    assert result.part_reasons == (("constant",),)
    assert [end[0] for end in result.confidence_interval()] == [-np.inf, np.inf]
    bounded = mean_of(np.full((5000, 1), 3.7), np.full((3, 1), 3.7), bounds=(0.0, 10.0))
    lower, upper = bounded.confidence_interval()
    unseen = bounded.report.undetected_rows[0] / 5000
    assert 3.7 - 3.7 * unseen <= lower[0] < 3.7
    assert upper[0] == pytest.approx(3.7 + 6.3 * unseen)


def test_a_rare_yes_is_clipped_near_one():
    rate = 8.0 * divide(1, 20_000, GaussianSpending(BUDGETS[0].rho)).count_std / 20_000
    rng = np.random.default_rng(6)
    errors = []
    clips = []
    for seed in range(40):
        rows = (rng.random((20_000, 1)) < rate).astype(float)
        result = mean_of(rows, np.zeros((1, 1)), random_state=seed)
        errors.append(result.mean[0] - rate)
        clips.append(result.releases[-1]["noise_std"] and result.report.resolved_to[0])
    assert np.median(clips) <= 2.0
    # Clipped to [0, 1] with the whole budget, the noise would be sqrt(2 / rho) / 2 rows.
    best = np.sqrt(rate / 20_000 + (np.sqrt(2 / 0.05) / 2 / 20_000) ** 2)
    # 1.4: an octave beyond may hold half as many rows as the last one, and its count hides so many.
    # The limit adds what 40 runs leave open at a rate of 1e-6.
    assert np.sqrt(np.mean(np.square(errors))) < 1.8 * best


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_hold_and_are_of_a_sensible_width(kind, budget):
    rng = np.random.default_rng(7)
    rows = column(rng, kind, 20_000)[:, None]
    truth = column(np.random.default_rng(8), kind, 10**6)
    misses = 0
    for seed in range(12):
        rows = column(rng, kind, 20_000)[:, None]
        result = mean_of(rows, rng.permutation(truth)[:5, None], budget, random_state=seed)
        misses += not held(result, truth.mean())[0]
        assert result.noise_std[0] < 0.05 * truth.std()
    assert misses <= 5  # of 12 at 5 % each: by chance with probability 2e-5, six of them 1e-6


def test_one_row_far_away_costs_little():
    rows = np.random.default_rng(9).normal(50.0, 2.0, size=(10_000, 1))
    rows[0] = 1e300
    result = mean_of(rows, np.array([[49.0]]))
    assert abs(result.mean[0] - 50.0) < 0.3
    assert result.report.resolved_to[0] < 1e3


def test_one_warning_names_the_columns_and_says_that_everything_is_too_little():
    rows = np.column_stack([np.random.default_rng(11).normal(size=20_000), np.full(20_000, 4.0)])
    with pytest.warns(AccuracyWarning, match="constant.*: x1") as caught:
        result = mean_of(rows, np.array([[0.1, 4.0]]), ZCDP(0.5))
    assert len([each for each in caught if each.category is AccuracyWarning]) == 1
    assert result.part_reasons[1] == ("constant",)
    assert "constant" in result.summary()
    with warnings.catch_warnings(action="error", category=AccuracyWarning):
        # paid for, so not lost
        assert mean_of(rows, np.array([[0.1, 4.0]]), ZCDP(0.5)).part_status[1] == "unreliable"
    # Too little of everything is said before it is spent.
    rows = np.random.default_rng(12).normal(size=(60, 3))
    with pytest.warns(AccuracyWarning, match="too few to see any scale"):
        result = mean_of(rows, rows[:5] + 0.25, ZCDP(0.01))
    assert set(result.part_reasons) == {("unresolved",)}
    assert np.isfinite(result.mean).all()
    assert np.isinf(result.confidence_interval()[0]).all()
    assert np.array_equal(
        mean_of(rows, rows[:5] + 0.25, ZCDP(0.01), bounds=(-9, 9)).confidence_interval()[0],
        [-9] * 3,
    )


def test_public_rows_may_stand_in_for_a_hopeless_budget():
    rng = np.random.default_rng(13)
    rows = rng.normal(size=(300, 2))
    public = rng.normal(size=(200, 2))
    ledger = Ledger(ZCDP(1))
    result = mean_of(rows, public, ZCDP(0.001), public_only="auto", ledger=ledger)
    assert np.array_equal(result.mean, public.mean(axis=0))
    assert result.spent.is_zero
    assert ledger.remaining.amounts == (1,)
    assert mean_of(rows, public[:20], ZCDP(0.001), public_only="auto").spent == ZCDP(0.001)
    assert mean_of(rows, public, ZCDP(5), public_only="auto").spent == ZCDP(5)


REFUSED = Refusals()
REFUSED.add("clipping", clipping="box")
REFUSED.add("missing", missing="drop")
REFUSED.add("public_only", public_only=True)
REFUSED.add("bounds", bounds=3.0)
REFUSED.add("lowest", bounds=(1.0, 1.0))
REFUSED.add("bounds", bounds=(0.0, np.nan))
REFUSED.add("bounds", bounds=([0.0], [1.0, 2.0, 3.0]))
REFUSED.add("steps= belongs to clipping='gaussian'", steps=3)
REFUSED.add("mode= belongs", mode="theory")
REFUSED.add("failure_prob= belongs", failure_prob=0.1)
REFUSED.add("pub_priv_gap= belongs", pub_priv_gap=0.1)
REFUSED.add("bounds= belongs", variance=1.0, bounds=(0, 1))
REFUSED.add("missing= belongs", clipping="gaussian", missing="neutral")
REFUSED.add("public_only= belongs", clipping="gaussian", public_only="auto")


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_arguments_are_checked(options, message):
    ledger = Ledger(ZCDP(1))
    raises(
        InputError, message, mean_of, np.zeros((10, 2)), np.zeros((1, 2)), ledger=ledger, **options
    )
    assert ledger.remaining.amounts == (1,)


def test_thresholds_fall_faster_than_a_mistake_costs():
    from scipy import stats

    laws = {GaussianSpending: stats.norm, LaplaceSpending: stats.laplace(scale=np.sqrt(0.5))}
    for noise, law in laws.items():
        limits = support.thresholds(2, 0.01, noise)[0]
        for octaves in (0, 1, 5, 30):
            assert law.sf(limits[4 * octaves]) == pytest.approx(
                0.01 * 2.0 ** (-3 * octaves), rel=1e-6
            )
        assert np.isfinite(limits).all()


# ---- `estimate_mean` of columns in which few rows decide: a rare yes, a value that stands for "missing".
# Seeded: every run gives the same numbers.
SENTINEL = 9999.0
RUNS = 40


RARE = [  # rows, share, value, the usual value, budget, allowed error over that of sampling
    (200, 0.2, 1.0, 0.0, ZCDP(0.05), 2.5),
    (200, 0.2, 1.0, 0.0, PureDP(1), 2.5),
    (1000, 0.05, 1.0, 0.0, ZCDP(0.05), 2.0),
    (1000, 0.05, 1.0, 0.0, PureDP(1), 2.0),
    (200, 0.3, SENTINEL, 7.0, ZCDP(0.05), 2.0),
    (1000, 0.2, 99.0, 7.0, PureDP(0.3), 2.5),
    (100, 0.5, 1.0, 0.0, PureDP(1), 1.5),
]


def rare_error(n, share, value, usual, budget, public_rows=5):
    """Root mean squared error over the deviation of the mean of the rows, where all public rows have the usual value."""
    errors = []
    for seed in range(RUNS):
        rows = np.where(np.random.default_rng(seed).random((n, 1)) < share, value, usual)
        result = mean_of(rows, np.full((public_rows, 1), usual), budget, random_state=seed)
        errors.append(result.mean[0] - (usual + share * (value - usual)))
    return np.sqrt(np.mean(np.square(errors)) * n / (share * (1.0 - share))) / abs(value - usual)


@pytest.mark.parametrize(("n", "share", "value", "usual", "budget", "most"), RARE)
def test_equal_public_values_do_not_replace_a_released_sum(n, share, value, usual, budget, most):
    assert rare_error(n, share, value, usual, budget) < most


def test_a_deviation_of_zero_would_replace_it():
    honest = column_means.estimates_of

    def certain(counted, totals, instead, instead_std, n_pub, **known):
        known_std = np.where(np.isinf(instead_std), 0.0, instead_std)
        return honest(counted, totals, instead, known_std, n_pub, **known)

    # planted
    with mock.patch.object(column_means, "estimates_of", side_effect=certain):
        assert rare_error(*RARE[-1][:-1]) > 1.5 * RARE[-1][-1]


def results_with_sentinels(n, rows, budget, bounds=None, runs=RUNS):
    """Results of runs with so many sentinels expected among n rows about 50."""
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        private = rng.normal(50.0, 10.0, size=(n, 1))
        private[rng.random(n) < rows / n] = SENTINEL
        public = rng.normal(50.0, 10.0, size=(1, 1))
        yield mean_of(private, public, budget, bounds=bounds, random_state=seed)


def mean_with_sentinels(share):
    return (1.0 - share) * 50.0 + share * SENTINEL


def with_sentinels(n, rows, budget, runs=RUNS):
    """How many of those results are resolved, and how many of these hold the truth."""
    results = results_with_sentinels(n, rows, budget, runs=runs)
    resolved = [result for result in results if result.status == "ok"]
    return len(resolved), sum(held(each, mean_with_sentinels(rows / n))[0] for each in resolved)


def held_beside_the_worst_case(rows, budget):
    """Share of results within bounds whose interval, moved by the printed worst case, holds the truth."""
    truth = mean_with_sentinels(rows / 200)
    inside = 0
    for result in results_with_sentinels(200, rows, budget, bounds=(0.0, SENTINEL)):
        lower, upper = result.confidence_interval()
        report = result.report
        inside += (lower - report.worst_below <= truth <= upper + report.worst_above).item()
    return inside / RUNS


@pytest.mark.parametrize(("n", "budget"), [(100, ZCDP(0.05)), (200, PureDP(1))])
@pytest.mark.parametrize("rows", [3, 6, 12, 20])
def test_a_column_that_may_hide_most_of_its_rows_is_not_called_resolved(n, budget, rows):
    assert with_sentinels(n, rows, budget, runs=10)[0] == 0


@pytest.mark.parametrize(
    ("n", "budget"), [(2_000, ZCDP(0.5)), (20_000, ZCDP(0.5)), (20_000, PureDP(1))]
)
def test_many_rows_show_or_there_is_a_reason(n, budget):
    """Where one row in fifty can be seen, so many sentinels are."""
    resolved, held = with_sentinels(n, n / 50, budget)
    assert held >= 0.8 * resolved
    assert resolved >= 0.5 * RUNS


@pytest.mark.parametrize("budget", [ZCDP(0.5), PureDP(1)])
@pytest.mark.parametrize("rows", [6, 10, 14, 20])
def test_undetected_rows_within_bounds_are_told_beside_the_interval_of_a_located_column(
    budget, rows
):
    assert held_beside_the_worst_case(rows, budget) >= 0.9


def test_a_limit_that_does_not_grow_with_the_distance_is_caught():
    def near(column, scale, shares, far):
        return support.undetected_rows(shares, 0)

    with mock.patch.object(column_means, "undetected_at", side_effect=near):  # planted
        assert held_beside_the_worst_case(14, ZCDP(0.5)) < 0.8


def test_bounds_widen_no_interval_of_a_located_column():
    """Undetected rows at a bound ten times as far away as the rows reach made it six times as wide."""
    ratios = []
    inside = 0
    for seed in range(12):
        rows = np.random.default_rng(seed).normal(50.0, 10.0, size=(1506, 1))
        results = [
            mean_of(rows, rows[:1].copy(), ZCDP(0.1), bounds=bounds, random_state=seed)
            for bounds in (None, (0.0, 500.0))
        ]
        free, bounded = (np.ptp(result.confidence_interval()) for result in results)
        ratios.append(bounded / free)
        inside += held(results[1], 50.0)[0]
    assert np.median(ratios) <= 1.05
    assert inside >= 9  # of intervals at 95 % fewer by chance with probability 2e-3


# ---- `estimate_mean` by counts where rows lie far away: public ones that mislead, private ones that can hardly be seen, and tails.
every_budget = pytest.mark.parametrize("budget", BUDGETS, ids=["zcdp", "approx", "pure"])


def names(result):
    return [release["name"] for release in result.releases]


@every_budget
@pytest.mark.parametrize("others", [4, 200])
def test_one_public_value_far_from_all_others_costs_nothing(budget, others):
    """The error is that of the same public rows without it, and the column is named."""
    rng = np.random.default_rng(1)
    errors = []
    held = 0
    for seed in range(8):
        rows = rng.normal(size=(5000, 1))
        public = rng.normal(size=(others, 1))
        result = mean_of(rows, np.vstack([public, [[1e6]]]), budget, random_state=seed)
        lower, upper = result.confidence_interval()
        errors.append(result.mean[0])
        held += lower[0] <= 0.0 <= upper[0]
        assert result.part_reasons == (("heavy_tail",),)
        assert upper[0] - lower[0] < 2.0
    assert np.sqrt(np.mean(np.square(errors))) < 0.08
    assert held >= 6  # by chance below with probability 4e-4


@every_budget
@pytest.mark.parametrize("distance", [1e6, -1e6, 1e12])
def test_the_only_public_row_may_be_far_away(budget, distance):
    """New centers bring the cells back to the width of the rows: the error does not grow with the distance."""
    rows = np.random.default_rng(2).exponential(size=(20_000, 1))
    result = mean_of(rows, np.array([[distance]]), budget)
    assert names(result)[:3] == ["signed dyadic cells", "new centers", "signed dyadic cells"]
    near = abs(distance) < 1e9
    assert abs(result.mean[0] - 1.0) < (0.1 if near else 1e5)
    lower, upper = result.confidence_interval()
    assert lower[0] <= 1.0 <= upper[0]
    assert not near or upper[0] - lower[0] < 1.3
    assert result.provenance["center"] == "released"
    assert result.part_reasons == (("heavy_tail",),)


def test_only_the_columns_that_lie_far_get_a_new_center():
    rows = np.random.default_rng(3).normal(size=(20_000, 3)) * [1.0, 1e-3, 5.0]
    result = mean_of(rows, np.array([[0.3, 1e5, -2.0]]), ZCDP(0.5))
    assert np.all(np.abs(result.mean - rows.mean(axis=0)) < [0.02, 2e-5, 0.1])
    assert names(result).count("new centers") == 2
    assert result.spent == ZCDP(0.5)
    assert float(sum(release["rho"] for release in result.releases)) <= 0.5
    # A released center is better than a far public row even where nothing more can be seen.
    result = mean_of(np.random.default_rng(4).normal(size=(300, 1)), np.array([[1e6]]), PureDP(1))
    assert abs(result.mean[0]) < 3e5


@every_budget
def test_record_and_replay_where_counts_are_asked_again(budget):
    rng = np.random.default_rng(5)
    calls = set()
    for center in (np.full((1, 2), 1e5), np.zeros((1, 2)), np.array([[0.0, 1e9]])):
        for one in ([1e308, 0.0], [np.nan, 5.0], [-1e5, 1e5], [np.inf, -np.inf]):
            rows, other = pair_at(rng.normal(size=(4000, 2)), 17, one)
            report = record_replay(
                lambda x, c=center: mean_of(x, c, budget), rows, other, budget=budget
            )
            assert report.pair_cost <= report.declared_cost <= report.allowance
            calls.add(report.calls)
    assert max(calls) >= 5


def test_a_center_that_was_not_released_is_caught():
    """Planted: the mean of the rows instead of their released one."""
    honest = column_means.moved

    def peeking(run, columns, far, cost, *, neutral):
        honest(run, columns, far, cost, neutral=neutral)
        return np.concatenate(list(run.rows.chunks())).mean(axis=0)

    rows, other = pair_at(np.random.default_rng(6).normal(size=(4000, 1)), 0, 9.0)
    with (
        mock.patch.object(column_means, "moved", peeking),
        pytest.raises(Exception, match=r"sensitivity allows|depends on private rows"),
    ):
        record_replay(lambda x: mean_of(x, np.array([[1e5]])), rows, other, budget=BUDGETS[0])


def coverage(draw, truth, *, n, budget, repetitions):
    """Share of the intervals that hold the truth."""
    kept = 0
    for seed in range(repetitions):
        rng = np.random.default_rng(seed)
        result = mean_of(draw(rng, n)[:, None], draw(rng, 5)[:, None], budget, random_state=seed)
        kept += held(result, truth)[0]
    return kept / repetitions


def engines(rng, n):
    """Nearly always 2, sometimes 1, and rarely 4: what is rare above can hide behind what is seen below."""
    return rng.choice([2.0, 1.0, 4.0], p=[0.9897, 0.009, 0.0013], size=n)


def test_an_empty_side_is_not_believed_to_be_empty_where_most_rows_are_at_the_center():
    truth = 2.0 * 0.9897 + 0.009 + 4.0 * 0.0013
    options = {"n": 20_000, "budget": ZCDP(0.05), "repetitions": 40}
    assert coverage(engines, truth, **options) >= 0.85
    nothing = {"return_value": 0.0}  # planted: as if nothing could hide there
    with (
        mock.patch.object(columns, "_rare_excess_bound", **nothing),
        mock.patch.object(columns, "_far_excess_bound", **nothing),
        mock.patch.object(columns, "_filled", seen_alone),
    ):
        assert coverage(engines, truth, **options) < 0.8


def silent_and_far(seeds):
    """Results without a reason that are off by more than two deviations of the mean of a column that is nearly constant."""
    found = 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        rows = rng.choice([1.0, 2.0, 3.0, 4.0], p=[0.008, 0.9899, 0.0009, 0.0012], size=(20_050, 1))
        result = mean_of(rows[50:], rows[:50], ZCDP(0.05), random_state=seed)
        found += result.status == "ok" and abs(result.mean[0] - 1.9943) > 2e-3
    return found


def test_a_side_without_a_row_to_be_seen_is_told_where_most_rows_are_at_the_center():
    """Forty rows above the usual value are fewer than noise can hide, and twice what the sum is off by."""
    assert silent_and_far(40) == 0
    with mock.patch.object(tuning, "BESIDE", np.inf):  # planted
        assert silent_and_far(40) > 0


def seen_alone(scale, column, shares):
    """Planted: a side where no cell stands out is empty."""
    return [scale.below, scale.above]


def at_an_end(budget):
    """Error of the mean of a Gaussian column whose only public row has a sixth of the rows on one side of it, in each run."""
    errors = []
    for seed in range(80):
        rows = np.random.default_rng(seed).normal(size=(300, 1))
        errors.append(mean_of(rows, np.array([[-1.0]]), budget, random_state=seed).mean[0])
    return np.array(errors)


@pytest.mark.parametrize("budget", BUDGETS[::2], ids=["zcdp", "pure"])
def test_few_rows_on_one_side_of_the_public_row_are_not_all_clipped_to_it(budget):
    found = at_an_end(budget)
    with mock.patch.object(columns, "_filled", seen_alone):
        alone = at_an_end(budget)
    assert np.sqrt(np.mean(alone**2)) > np.sqrt(np.mean(found**2))
    assert alone.mean() > found.mean() + 0.004  # what is clipped to the public row


def test_laplace_counts_show_rows_far_from_all_others():
    """Three in a hundred of 2,000 rows, forty times as far from the public row as the median."""

    def unseen():
        said = []
        for seed in range(30):
            rng = np.random.default_rng(seed)
            rows = np.where(rng.random((2000, 1)) < 0.03, 28.0, rng.exponential(size=(2000, 1)))
            result = mean_of(rows, np.array([[0.6]]), PureDP(1), random_state=seed)
            said.append(result.report.resolved_to[0] < 28.0)
        return np.mean(said)

    assert unseen() < 0.4
    with (
        mock.patch.object(tuning, "SIGNAL_PURE", 90.0),
        mock.patch.object(tuning, "FALSE_ALARM_PURE", 0.01),
        # shares are kept from call to call
        mock.patch.object(column_means, "divide", budget_split.divide.__wrapped__),
    ):
        assert unseen() > 0.6


def zones(rng, n):
    """Whole numbers on a short range that ends like a cliff, and one row in 700 far above it."""
    return rng.choice(
        [-9.0, -8.0, -7.0, -6.0, -5.0, 8.0], p=[0.1786, 0.12, 0.11, 0.23, 0.36, 0.0014], size=n
    )


def test_rows_beyond_a_cliff_widen_the_interval():
    """No tail tells of them: the counts further out do, though none of them stands out."""
    truth = -9.0 * 0.1786 - 8.0 * 0.12 - 7.0 * 0.11 - 6.0 * 0.23 - 5.0 * 0.36 + 8.0 * 0.0014
    options = {"n": 20_000, "budget": ZCDP(0.01), "repetitions": 60}
    assert coverage(zones, truth, **options) >= 0.85
    # planted: the tail is all there is
    with mock.patch.object(columns, "_far_excess_bound", return_value=0.0):
        assert coverage(zones, truth, **options) < 0.75


def test_few_rows_far_away_are_seen_where_the_sum_can_spare_budget():
    """Not two rows in a thousand at 24 deviations: counts that are asked again show them."""

    def error():
        errors = []
        for seed in range(30):
            rng = np.random.default_rng(seed)
            rows = np.where(rng.random((5000, 1)) < 0.0018, 24.0, rng.normal(size=(5000, 1)))
            errors.append(
                mean_of(rows, rng.normal(size=(5, 1)), ZCDP(0.5), random_state=seed).mean[0]
                - 0.0432
            )
        return np.sqrt(np.mean(np.square(errors)))

    asked = error()
    assert asked < 0.03  # without privacy 0.02
    with mock.patch.object(column_means, "leftover_share", return_value=0):
        assert error() > 1.15 * asked


@pytest.mark.parametrize("budget", BUDGETS[::2], ids=["zcdp", "pure"])
def test_more_counts_cost_little_where_they_are_not_needed(budget):
    """A Gaussian column: the noise of the sum stays far below its sampling error."""
    rows = np.random.default_rng(8).normal(size=(100_000, 1))
    asked = mean_of(rows, rows[:1].copy(), budget)
    assert names(asked) == ["signed dyadic cells", "signed dyadic cells", "clipped sum"]
    with mock.patch.object(column_means, "leftover_share", return_value=0):
        once = mean_of(rows, rows[:1].copy(), budget)
    assert names(once) == ["signed dyadic cells", "clipped sum"]
    assert asked.standard_error[0] < 1.05 * once.standard_error[0]


@pytest.mark.parametrize("budget", BUDGETS[::2], ids=["zcdp", "pure"])
def test_ordinary_columns_are_not_called_heavy(budget):
    draws = {
        "Gaussian": lambda rng, n: rng.normal(size=n),
        "exponential": lambda rng, n: rng.exponential(size=n),
        "uniform": lambda rng, n: rng.random(n),
        "children": lambda rng, n: rng.choice(
            [0, 1, 2, 3, 4, 5.5], p=[0.38, 0.11, 0.23, 0.16, 0.08, 0.04], size=n
        ),
        "delays": lambda rng, n: rng.gamma(0.5, 60.0, n) - 10.0,
    }
    heavy = 0
    for draw in draws.values():
        for seed in range(10):
            rng = np.random.default_rng(seed)
            result = mean_of(
                draw(rng, 2000)[:, None], draw(rng, 5)[:, None], budget, random_state=seed
            )
            heavy += result.part_reasons == (("heavy_tail",),)
    assert heavy <= 10  # of 50: a fifth


def test_which_tails_are_called_heavy():
    said = []
    for seed in range(20):
        rows = np.random.default_rng(seed).pareto(1.2, size=(20_000, 1))
        said += mean_of(rows, rows[:5].copy(), ZCDP(0.5), random_state=seed).part_reasons
    assert said.count(("heavy_tail",)) >= 4
    assert said.count(()) <= 10


def test_a_tail_is_heavy_if_rows_go_on_as_a_power_law_has_them():
    """Octaves 100, 150, 180 and nothing beyond: a power law would go on with 67 rows."""
    stds = np.full((1, 5), 2.0)
    ends = np.array([[0.0, 100.0, 150.0, 180.0, 0.0]])
    assert not columns.is_slow(ends, stds, 1)[0]
    ends[0, 0] = 60.0
    assert columns.is_slow(ends, stds, 1)[0]


def test_a_wide_window_that_stands_out_by_chance_must_be_as_rare_as_its_end_is_far():
    """False alarms: columns of noise about one known cell end beyond it as rarely as the rule says."""
    divided = divide(1, 20_000, GaussianSpending(ZCDP(0.05).rho))
    rng = np.random.default_rng(9)
    far = 0
    size = 2047 * divided.parts
    end = support.key_of(1.0, divided.log2_parts)
    none = np.zeros(0, dtype=np.int64)
    for _ in range(300):
        counts = rng.normal(scale=divided.count_std, size=(2, size))
        counts[1, end] += 20_000.0
        variances = np.full((2, size), divided.count_std**2)
        column = support.SignedCounts(
            center=0.0,
            values=counts,
            variances=variances,
            zero=0.0,
            missing=0.0,
            public_above=none,
            public_below=none,
        )
        (found,) = support.scales_of([column], [divided])
        far += max(found.above or 0, found.below or 0) >= end + 2 * divided.parts
    assert far <= 10


@pytest.mark.parametrize("largest", [9e307, 1.7e308, np.finfo(np.float64).max])
def test_a_column_that_ends_at_the_largest_double_has_a_mean(largest):
    """As where the largest number stands for what is missing. The octaves beyond it have no cells: they made the mean zero."""
    rng = np.random.default_rng(11)
    rows = np.where(rng.random(3000) < 0.5, largest, rng.normal(size=3000))[:, None]
    result = mean_of(rows, np.zeros((1, 1)), ZCDP(0.5))
    lower, upper = result.confidence_interval()
    assert lower[0] < largest * np.mean(rows == largest) < upper[0]
    assert upper[0] - lower[0] < 0.2 * largest
    for found in (
        result.noise_std,
        result.sampling_std,
        result.report.tail_above,
        result.report.tail_below,
    ):
        assert not np.isnan(found).any()
