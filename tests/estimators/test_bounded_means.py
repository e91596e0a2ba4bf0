"""`estimate_mean` within tight bounds: one release, intervals that hold, widths, and a route that public numbers choose."""

from dataclasses import replace
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from gaussian_cases import held
from helpers.neighbors import hostile_pairs, hostile_rows, pair_at, random_pairs
from scipy import stats
from spies import seeded

from fastpubpriv import (
    ZCDP,
    AccuracyWarning,
    ApproxDP,
    BudgetError,
    Ledger,
    PureDP,
    ReplayError,
    estimate_mean,
    weighted_mean,
)
from fastpubpriv.auditing import record_replay
from fastpubpriv.distributions.budget_split import draws
from fastpubpriv.estimators import bounded_means, column_means
from fastpubpriv.estimators.bounded_means import BoundedColumns
from fastpubpriv.privacy.spending import noise_of
from fastpubpriv.release.transcript import recording

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
BUDGETS = {"zcdp": ZCDP(0.1), "approx": ApproxDP(1, 1e-6), "pure": PureDP(1)}
every_budget = pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)


def mean_of(private, public, budget=BUDGETS["zcdp"], **options):
    return seeded(
        estimate_mean, private, x_pub=public, budget=budget, threads=1, progress=False, **options
    )


# ---- Columns with known means and ends -------------------------------------------------------------------------------
COLUMNS = {  # drawn as, mean, lowest, highest
    "uniform": (lambda rng, n: rng.random(n), 0.5, 0.0, 1.0),
    "answers": (lambda rng, n: rng.integers(1, 6, n).astype(float), 3.0, 1.0, 5.0),
    "yes": (lambda rng, n: (rng.random(n) < 0.3).astype(float), 0.3, 0.0, 1.0),
    "share": (lambda rng, n: rng.beta(2.0, 5.0, n), 2.0 / 7.0, 0.0, 1.0),
    "skewed": (lambda rng, n: rng.exponential(1.0, n) % 6.0, 1.0 - 6.0 / np.expm1(6.0), 0.0, 6.0),
    "ages": (lambda rng, n: rng.integers(18, 90, n).astype(float), 53.5, 18.0, 89.0),
}
NUMBERS = {1: ["uniform"], 2: ["yes", "skewed"], 6: list(COLUMNS)}


def table(names, n, rng):
    """Rows of independent columns, their true means, and their ends."""
    rows = np.column_stack([COLUMNS[name][0](rng, n) for name in names])
    mean, low, high = np.array([COLUMNS[name][1:] for name in names]).T
    return rows, mean, (low, high)


def most_misses(intervals):
    """Intervals at 95 % that may miss: more do so by chance with probability 1e-4."""
    return stats.binom.ppf(1.0 - 1e-4, intervals, 0.05)


DRAWS = 60


@every_budget
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("dim", NUMBERS)
def test_intervals_hold_the_truth(budget, missing, dim):
    hits = 0
    for seed in range(DRAWS):
        rng = np.random.default_rng(seed)
        rows, mean, bounds = table(NUMBERS[dim], 8060, rng)
        rows[60:][rng.random((8000, dim)) < missing] = np.nan
        result = mean_of(rows[60:], rows[:60], budget, bounds=bounds, random_state=seed)
        assert result.provenance["clipping"] == "bounds"
        assert result.status == "ok"
        hits += held(result, mean).sum()
    assert DRAWS * dim - hits <= most_misses(DRAWS * dim)


def misses_of_a_skewed_column():
    """Misses among 60 intervals, and the median of their standard deviations of sampling over the true one."""
    misses = 0
    ratios = []
    for seed in range(DRAWS):
        rows, mean, bounds = table(["skewed"], 3020, np.random.default_rng(seed))
        result = mean_of(rows[:3000], rows[3000:], ZCDP(5), bounds=bounds, random_state=seed)
        misses += not held(result, mean)[0]
        ratios.append(result.sampling_std[0] / (rows.std() / np.sqrt(3000)))
    return misses, np.median(ratios)


def test_sampling_is_that_of_the_released_squares():
    misses, ratio = misses_of_a_skewed_column()
    assert misses <= most_misses(DRAWS)
    assert ratio == pytest.approx(1.0, abs=0.02)


def test_a_deviation_of_nothing_is_caught():
    with mock.patch.object(
        BoundedColumns, "sampling_std", lambda self, moments: 0.0 * moments.mean
    ):  # planted
        assert misses_of_a_skewed_column()[0] > most_misses(DRAWS)


def misses_where_few_are_missing():
    """Misses of 300 where 17 of 2,000 values near an end are missing, three deviations of the noise of their number."""
    misses = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        rows = 1.0 - rng.beta(2.0, 20.0, (2020, 1))
        rows[:17] = np.nan
        result = mean_of(
            rows[:2000], rows[2000:], PureDP(0.5), bounds=(0.0, 1.0), random_state=seed
        )
        misses += not held(result, 1.0 - 2.0 / 22.0)[0]
    return misses


def test_missing_values_that_noise_may_hide_are_allowed_for():
    assert misses_where_few_are_missing() <= 30  # one in ten


def test_missing_values_that_are_not_allowed_for_are_caught():
    honest = BoundedColumns.report

    def certain(self, missing, pulled, worst, rows_used):  # planted
        return honest(self, missing, 0.0 * pulled, worst, rows_used)

    with mock.patch.object(BoundedColumns, "report", certain):
        assert misses_where_few_are_missing() > 36


@every_budget
@pytest.mark.parametrize("k", [1, 3])
def test_intervals_of_persons_hold_the_truth(budget, k):
    hits = 0
    for seed in range(DRAWS):
        rng = np.random.default_rng(seed)
        person = np.repeat(np.arange(2000), 1 + np.arange(2000) % 3)
        rows, mean, bounds = table(["answers", "share"], len(person) + 50, rng)
        visits = pd.DataFrame(rows[50:], columns=["a", "b"]).assign(id=person)
        public = pd.DataFrame(rows[:50], columns=["a", "b"])
        given = {"person": "id", "rows_per_person": k, "bounds": bounds}
        result = mean_of(visits, public, budget, random_state=seed, **given)
        assert result.provenance["clipping"] == "bounds"
        hits += held(result, mean).sum()
    assert 2 * DRAWS - hits <= most_misses(2 * DRAWS)
    if k == 1:
        assert result.report.rows_used is None
        assert result.report.missing.tolist() == [0.0, 0.0]
    else:  # 2,000 persons with one row, two or three
        assert np.isnan(result.report.missing).all()
        assert result.report.rows_used == pytest.approx(len(person), rel=0.05)
        assert "missing" not in result.summary()


# ---- What a result says ----------------------------------------------------------------------------------------------
def test_a_report_has_the_bounds_and_the_missing_values():
    rows, _, bounds = table(["uniform", "ages"], 4050, np.random.default_rng(1))
    rows[:1000, 1] = np.nan
    result = mean_of(rows[:4000], rows[4000:], bounds=bounds)
    report = result.report
    assert [report.resolved_from.tolist(), report.resolved_to.tolist()] == [[0, 18], [1, 89]]
    assert report.undetected_rows.tolist() == [0.0, 0.0]
    assert report.missing[0] == 0.0
    assert report.missing[1] == pytest.approx(1000, abs=4 * result.releases[0]["count_noise_std"])
    assert result.sampling_std[1] == pytest.approx(rows[1000:, 1].std() / np.sqrt(3000), rel=0.1)
    assert [each["name"] for each in result.releases] == ["moments within bounds"]
    total, lower, upper = result.sum(0.999)
    truth = np.nansum(rows[:4000], axis=0)
    assert np.all((lower < truth) & (truth < upper))
    assert total == pytest.approx(truth, rel=0.05)


@every_budget
@pytest.mark.parametrize("dim", [1, 6])
def test_the_whole_budget_is_spent_on_one_release_of_few_draws(budget, dim):
    rows, _, bounds = table(list(COLUMNS)[:dim], 8060, np.random.default_rng(2))
    ledger = Ledger(budget)
    with recording() as transcript:
        result = mean_of(rows[60:], rows[:60], budget, bounds=bounds, ledger=ledger)
    (call,) = transcript.calls
    assert call.name == "moments within bounds"
    assert call.event.draws <= 3 * dim <= draws(dim)
    assert result.spent == budget
    assert ledger.remaining.is_zero


@every_budget
def test_a_column_without_a_number_is_unresolved(budget):
    rows, _, bounds = table(["uniform", "answers"], 3020, np.random.default_rng(3))
    rows[:3000, 0] = np.nan
    with pytest.warns(AccuracyWarning, match="x0"):
        result = mean_of(rows[:3000], rows[3000:], budget, bounds=bounds, random_state=3)
    assert result.part_reasons == (("unresolved",), ())
    lower, upper = result.confidence_interval()
    assert [lower[0], upper[0]] == [0.0, 1.0]
    assert 0.0 <= result.mean[0] <= 1.0
    assert np.all(np.isfinite(result.mean))


def test_bounds_that_exclude_public_values_clip_and_say_so():
    rng = np.random.default_rng(4)
    rows = rng.random((4050, 2))
    with pytest.warns(AccuracyWarning, match="beyond bounds= in x1,"):
        result = mean_of(rows[:4000], rows[4000:], bounds=([0.0, 0.0], [1.0, 0.7]))
    assert result.provenance["clipping"] == "bounds"
    assert result.part_reasons == ((), ("clipped",))
    assert held(result, [0.5, 0.7 - 0.7**2 / 2.0]).all()  # of values clipped to .7


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e300, -1e300, 5e-324, 1.7976931348623157e308])
def test_extreme_rows_are_missing_or_at_an_end(value):
    rows, _, bounds = table(["uniform", "answers"], 3020, np.random.default_rng(5))
    rows[:1500, 0] = value
    result = mean_of(rows[:3000], rows[3000:], ZCDP(1), bounds=bounds)
    there = rows[:3000, 0]
    truth = np.clip(there, 0.0, 1.0)[np.isfinite(there)].mean()
    assert result.mean[0] == pytest.approx(truth, abs=0.01)


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("ends", [(-1.7e308, 1.7e308), (-1e-300, 1e-300), (0.0, 5e-324)])
@pytest.mark.parametrize("most", [bounded_means.MOST_ERROR, np.inf], ids=["chosen", "always"])
def test_ends_of_any_size_give_a_mean_within_them(ends, most):
    rows = np.random.default_rng(6).normal(size=(2050, 1))
    with mock.patch.object(bounded_means, "MOST_ERROR", most):
        result = mean_of(rows[:2000], rows[2000:], ZCDP(1), bounds=ends)
    lower, upper = result.confidence_interval()
    assert ends[0] <= lower[0] <= result.mean[0] <= upper[0] <= ends[1]


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@every_budget
def test_one_private_row_gives_finite_numbers(budget):
    rows, _, bounds = table(["uniform", "answers"], 40, np.random.default_rng(7))
    result = mean_of(rows[:1], rows[1:], budget, bounds=bounds)
    assert np.isfinite(result.mean).all()
    assert np.isfinite(result.confidence_interval()).all()


# ---- The route -------------------------------------------------------------------------------------------------------
def routes(private, public, bounds, **options):
    return mean_of(private, public, bounds=bounds, **options).provenance["clipping"]


UNIFORM = np.random.default_rng(8).random((3100, 2))
PRIVATE = UNIFORM[:3000]
PUBLIC = UNIFORM[3000:]
RARE = np.column_stack([PUBLIC[:, 0], np.zeros(100)])


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize(
    ("public", "bounds", "options", "route"),
    [
        (PUBLIC, (0, 1), {}, "bounds"),
        (PUBLIC[:5], (0, 1), {}, "bounds"),
        (PUBLIC[:4], (0, 1), {}, "released"),
        (PUBLIC[:1], (0, 1), {}, "released"),  # too few to show a deviation
        (RARE, (0, 1), {}, "released"),  # none but zeros: a rare yes
        (PUBLIC, (0, 100), {}, "released"),
        (PUBLIC, ([0, 0], [1, 100]), {}, "released"),
        (PUBLIC, (0, 1), {"missing": "neutral"}, "released"),
        (PUBLIC, (0, 1), {"objective": "l2"}, "released"),
        (PUBLIC, None, {}, "released"),
    ],
)
def test_tight_bounds_and_public_deviations_replace_counts(public, bounds, options, route):
    assert routes(PRIVATE, public, bounds, **options) == route


@every_budget
@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize("value", [np.nan, np.inf, -1e300, 0.0, 0.5])
@pytest.mark.parametrize("top", [1.0, 100.0])
def test_private_rows_do_not_choose_the_route(budget, value, top):
    there = routes(PRIVATE, PUBLIC, (0.0, top), budget=budget)
    assert routes(np.full_like(PRIVATE, value), PUBLIC, (0.0, top), budget=budget) == there


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_a_useless_answer_is_said_before_it_is_paid_for():
    """Noise of each sum of 100 rows between 0 and 1 is sqrt(4 / .01) / 2 = 10 rows; 100 public rows alone are off by .03."""
    with pytest.warns(AccuracyWarning, match="exceeds"):
        result = mean_of(PRIVATE[:100], PUBLIC, ZCDP(0.01), bounds=(0.0, 1.0))
    assert result.provenance["clipping"] == "bounds"


# ---- Widths ----------------------------------------------------------------------------------------------------------
def width(result):
    lower, upper = result.confidence_interval()
    return upper - lower


def widths_without_bounds(names, budget, factor, seeds=range(12)):
    """Widths with bounds, `factor` times as far apart as the ends, over those without, in calls of either route."""
    ratios = []
    taken = set()
    for seed in seeds:
        rows, _, (low, high) = table(names, 8060, np.random.default_rng(seed))
        more = (factor - 1.0) / 2.0 * (high - low)
        given = {"budget": budget, "random_state": seed}
        bounded = mean_of(rows[60:], rows[:60], bounds=(low - more, high + more), **given)
        taken.add(bounded.provenance["clipping"])
        ratios += list(width(bounded) / width(mean_of(rows[60:], rows[:60], **given)))
    return np.array(ratios), taken


WIDEST = 1.05


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@every_budget
@pytest.mark.parametrize("names", [["uniform"], ["ages", "share"], list(COLUMNS)], ids=[1, 2, 6])
def test_true_bounds_do_not_widen_an_interval(names, budget):
    ratios, taken = widths_without_bounds(names, budget, 1.0)
    assert taken == {"bounds"}
    assert np.median(ratios) <= 1.0
    # Those of answers from 1 to 5 may be, one column in six: their counts have no tail, and rows are shorter than their box.
    assert np.mean(ratios > WIDEST) <= 1.0 / 6.0
    assert ratios.max() <= 1.5


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize("factor", [10.0, 100.0])
def test_bounds_that_are_far_apart_do_not_widen_an_interval(factor):
    ratios, taken = widths_without_bounds(["uniform", "ages"], ZCDP(0.1), factor)
    assert taken == {"released"}
    assert np.mean(ratios > WIDEST) <= 0.1


def test_bounds_that_always_replace_counts_are_caught():
    with mock.patch.object(bounded_means, "MOST_ERROR", np.inf):  # planted
        ratios, taken = widths_without_bounds(["uniform", "ages"], ZCDP(0.1), 10.0)
    assert taken == {"bounds"}
    assert np.median(ratios) > 1.2


PRESSURES = [
    ([70.0, 30.0], [250.0, 150.0]),
    pytest.param(
        (0.0, 500.0),
    ),
    pytest.param(
        (0.0, 5000.0),
    ),
]


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize("bounds", PRESSURES, ids=["tight", "wide", "wider"])
def test_widths_are_those_of_weighted_mean_or_less(bounds):
    """Two columns of 1,506 rows, as blood pressures are, and 60 public ones."""
    ratios = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        rows = np.clip(rng.normal([136.0, 83.0], [22.0, 12.0], (1566, 2)), [71.0, 31.0], 249.0)
        given = {"budget": ZCDP(0.1), "bounds": bounds, "random_state": seed}
        ours = mean_of(rows[60:], rows[:60], **given)
        theirs = seeded(
            weighted_mean, rows[60:], x_pub=rows[:60], row_weight="private", progress=False, **given
        )
        ratios += list(width(ours) / width(theirs))
    assert np.median(ratios) <= 1.1


# ---- Privacy ---------------------------------------------------------------------------------------------------------
HOSTILE = hostile_rows()
NEAR = np.random.default_rng(9).uniform(-1.0, 1.0, (20, 3))


def replayed(pair, budget):
    def run(rows):
        return mean_of(rows, NEAR, budget, bounds=(-1.0, 1.0), random_state=3)

    report = record_replay(run, *pair, budget=budget)
    assert report.calls == 1
    assert report.pair_cost <= report.declared_cost <= report.allowance
    return report


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@every_budget
@pytest.mark.parametrize("count", [24, pytest.param(1000, marks=pytest.mark.audit)])
def test_random_and_hostile_neighbors(budget, count):
    rng = np.random.default_rng(10)
    pairs = random_pairs(rng, count, sizes=[1, 2, 3, 10, 50], dim=3, hostile=HOSTILE)
    for pair in [*pairs, *hostile_pairs(NEAR, 3, HOSTILE)]:
        replayed(pair, budget)


ENDS = pair_at(NEAR, 7, -1.0, 1.0)
MISSING = pair_at(NEAR, 7, np.nan, 1.0)


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@every_budget
@pytest.mark.parametrize("pair", [ENDS, MISSING], ids=["moved", "missing"])
def test_the_worst_neighbors_take_the_whole_cost(budget, pair):
    assert replayed(pair, budget).tightness > 0.99


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@every_budget
def test_a_count_that_is_too_heavy_is_caught(budget):
    """Of Laplace noise it costs more than there is; the cost of Gaussian noise is that of the sums alone."""
    law = noise_of(budget)
    with (
        mock.patch.object(law, "count_weight", staticmethod(lambda bound, groups: 2 * bound)),
        pytest.raises((ReplayError, BudgetError)),
    ):
        replayed(MISSING, budget)


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_a_route_that_private_rows_choose_is_caught():
    seen = []

    def run(rows):
        seen.append(rows)
        return mean_of(rows, NEAR, bounds=(-1.0, 1.0), random_state=3)

    def peeking(self, shares):  # planted
        return bool(np.isfinite(seen[-1]).all())

    with mock.patch.object(BoundedColumns, "suffice", peeking), pytest.raises(ReplayError):
        record_replay(run, *MISSING, budget=BUDGETS["zcdp"])


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_a_number_that_was_not_released_is_caught():
    honest = column_means.mean_in_bounds

    def leaking(run, public, columns):  # planted
        missing = float(np.isnan(np.concatenate(list(run.rows.chunks()))).sum())
        result = honest(run, public, columns)
        return replace(result, provenance={**result.provenance, "missing": str(missing)})

    with (
        mock.patch.object(column_means, "mean_in_bounds", leaking),
        pytest.raises(ReplayError, match="leaked past release"),
    ):
        replayed(MISSING, BUDGETS["zcdp"])
