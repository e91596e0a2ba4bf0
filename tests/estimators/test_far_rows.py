"""`estimate_mean` by counts where rows lie far away: public ones that mislead, private ones that can hardly be seen, and tails."""

import warnings
from unittest import mock

import numpy as np
import pytest
from spies import seeded

from fastpubpriv import ZCDP, AccuracyWarning, ApproxDP, PureDP, estimate_mean
from fastpubpriv.auditing import record_replay
from fastpubpriv.estimators.columns import clips, counts, learn, report, scales, shares, tails
from fastpubpriv.estimators.columns.shares import divide

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")

BUDGETS = [ZCDP(0.05), ApproxDP(0.5, 1e-6), PureDP(1)]
every_budget = pytest.mark.parametrize("budget", BUDGETS, ids=["zcdp", "approx", "pure"])


def mean_of(private, public, budget=BUDGETS[0], **options):
    return seeded(estimate_mean, private, x_pub=public, budget=budget, threads=1, progress=False, **options)


def names(result):
    return [release["name"] for release in result.releases]


# ---- public rows that mislead ---------------------------------------------------------------------------------------
@every_budget
@pytest.mark.parametrize("others", [4, 200])
def test_one_public_value_far_from_all_others_costs_nothing(budget, others):
    """The error is that of the same public rows without it, and the column is named."""
    rng, errors, held = np.random.default_rng(1), [], 0
    for seed in range(8):
        rows, public = rng.normal(size=(5000, 1)), rng.normal(size=(others, 1))
        result = mean_of(rows, np.vstack([public, [[1e6]]]), budget, random_state=seed)
        lower, upper = result.confidence_interval()
        errors.append(result.mean[0])
        held += lower[0] <= 0.0 <= upper[0]
        assert result.status == ("faint",)
        assert upper[0] - lower[0] < 2.0
    assert np.sqrt(np.mean(np.square(errors))) < 0.08
    assert held >= 6  # by chance below with probability 4e-4


@every_budget
@pytest.mark.parametrize("distance", [1e6, -1e6, 1e12])
def test_the_only_public_row_may_be_far_away(budget, distance):
    """New centres bring the cells back to the width of the rows: the error does not grow with the distance."""
    rows = np.random.default_rng(2).exponential(size=(20_000, 1))
    result = mean_of(rows, np.array([[distance]]), budget)
    assert names(result)[:3] == ["signed dyadic cells", "new centres", "signed dyadic cells"]
    near = abs(distance) < 1e9
    assert abs(result.mean[0] - 1.0) < (0.1 if near else 1e5)
    lower, upper = result.confidence_interval()
    assert lower[0] <= 1.0 <= upper[0]
    assert not near or upper[0] - lower[0] < 1.0
    assert result.provenance["center"] == "released"
    assert result.status == ("faint",)


def test_only_the_columns_that_lie_far_get_a_new_centre():
    rows = np.random.default_rng(3).normal(size=(20_000, 3)) * [1.0, 1e-3, 5.0]
    result = mean_of(rows, np.array([[0.3, 1e5, -2.0]]), ZCDP(0.5))
    assert np.all(np.abs(result.mean - rows.mean(axis=0)) < [0.02, 2e-5, 0.1])
    assert names(result).count("new centres") == 2
    assert result.spent == ZCDP(0.5)
    assert float(sum(release["rho"] for release in result.releases)) <= 0.5


def test_a_released_centre_is_better_than_a_far_public_row_even_where_nothing_more_can_be_seen():
    result = mean_of(np.random.default_rng(4).normal(size=(300, 1)), np.array([[1e6]]), PureDP(1))
    assert abs(result.mean[0]) < 3e5


@every_budget
def test_record_and_replay_where_counts_are_asked_again(budget):
    rng, calls = np.random.default_rng(5), set()
    for center in (np.full((1, 2), 1e5), np.zeros((1, 2)), np.array([[0.0, 1e9]])):
        for one in ([1e308, 0.0], [np.nan, 5.0], [-1e5, 1e5], [np.inf, -np.inf]):
            rows = rng.normal(size=(4000, 2))
            other = rows.copy()
            other[17] = one
            report = record_replay(lambda x, c=center: mean_of(x, c, budget), rows, other, budget=budget)
            assert report.pair_cost <= report.declared_cost <= report.allowance
            calls.add(report.calls)
    assert max(calls) >= 5


def test_a_centre_that_was_not_released_is_caught():
    """Planted: the mean of the rows instead of their released one."""
    honest = counts.moved

    def peeking(run, columns, far, cost, *, neutral):
        honest(run, columns, far, cost, neutral=neutral)
        return np.concatenate(list(run.rows.chunks())).mean(axis=0)

    rows = np.random.default_rng(6).normal(size=(4000, 1))
    other = rows.copy()
    other[0] = 9.0
    with (
        mock.patch.object(counts, "moved", peeking),
        pytest.raises(Exception, match=r"sensitivity allows|depends on private rows"),
    ):
        record_replay(lambda x: mean_of(x, np.array([[1e5]])), rows, other, budget=BUDGETS[0])


def test_bounds_that_public_rows_contradict_are_questioned():
    rows = np.random.default_rng(7).normal(5.0, 1.0, size=(5000, 2))
    with pytest.warns(AccuracyWarning, match=r"public values lie beyond bounds= in x1,"):
        mean_of(rows, rows[:20].copy(), ZCDP(1), bounds=([0.0, 0.0], [10.0, 5.0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error", AccuracyWarning)
        mean_of(rows, rows[:20].copy(), ZCDP(1), bounds=(0.0, 10.0))


# ---- private rows that can hardly be seen ---------------------------------------------------------------------------
def coverage(draw, truth, *, n, budget, repetitions):
    """Share of the intervals that hold the truth."""
    kept = 0
    for seed in range(repetitions):
        rng = np.random.default_rng(seed)
        result = mean_of(draw(rng, n)[:, None], draw(rng, 5)[:, None], budget, random_state=seed)
        lower, upper = result.confidence_interval()
        kept += lower[0] <= truth <= upper[0]
    return kept / repetitions


def engines(rng, n):
    """Nearly always 2, sometimes 1, and rarely 4: what is rare above can hide behind what is seen below."""
    return rng.choice([2.0, 1.0, 4.0], p=[0.9897, 0.009, 0.0013], size=n)


def test_an_empty_side_is_not_believed_to_be_empty_where_most_rows_are_at_the_centre():
    truth = 2.0 * 0.9897 + 0.009 + 4.0 * 0.0013
    options = {"n": 20_000, "budget": ZCDP(0.05), "repetitions": 40}
    assert coverage(engines, truth, **options) >= 0.85
    nothing = {"return_value": 0.0}  # planted: as if nothing could hide there
    with (
        mock.patch.object(clips, "unseen_beside", **nothing),
        mock.patch.object(clips, "unseen_far", **nothing),
        mock.patch.object(clips, "with_empty_sides", seen_alone),
    ):
        assert coverage(engines, truth, **options) < 0.8


def silent_and_far(seeds):
    """Results without a status that are off by more than two deviations of the mean of a column that is nearly constant."""
    found = 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        rows = rng.choice([1.0, 2.0, 3.0, 4.0], p=[0.008, 0.9899, 0.0009, 0.0012], size=(20_050, 1))
        result = mean_of(rows[50:], rows[:50], ZCDP(0.05), random_state=seed)
        found += result.status == ("resolved",) and abs(result.mean[0] - 1.9943) > 2e-3
    return found


def test_a_side_without_a_row_to_be_seen_is_called_faint_where_most_rows_are_at_the_centre():
    """Forty rows above the usual value are fewer than noise can hide, and twice what the sum is off by."""
    assert silent_and_far(12) == 0
    with mock.patch.object(report, "_beside", return_value=False):  # planted
        assert silent_and_far(12) > 0


def seen_alone(columns, lasts, shares):
    """Planted: a side where no cell stands out is empty."""
    return lasts


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
    with mock.patch.object(clips, "with_empty_sides", seen_alone):
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
        mock.patch.object(shares, "SIGNAL_PURE", 90.0),
        mock.patch.object(scales, "FALSE_ALARM_PURE", 0.01),
        mock.patch.object(learn, "divide", shares.divide.__wrapped__),  # shares are kept from call to call
    ):
        assert unseen() > 0.6


def zones(rng, n):
    """Whole numbers on a short range that ends like a cliff, and one row in 700 far above it."""
    return rng.choice([-9.0, -8.0, -7.0, -6.0, -5.0, 8.0], p=[0.1786, 0.12, 0.11, 0.23, 0.36, 0.0014], size=n)


def test_rows_beyond_a_cliff_widen_the_interval():
    """No tail tells of them: the counts further out do, though none of them stands out."""
    truth = -9.0 * 0.1786 - 8.0 * 0.12 - 7.0 * 0.11 - 6.0 * 0.23 - 5.0 * 0.36 + 8.0 * 0.0014
    options = {"n": 20_000, "budget": ZCDP(0.01), "repetitions": 60}
    assert coverage(zones, truth, **options) >= 0.85
    with mock.patch.object(clips, "unseen_far", return_value=0.0):  # planted: the tail is all there is
        assert coverage(zones, truth, **options) < 0.75


def test_few_rows_far_away_are_seen_where_the_sum_can_spare_budget():
    """Not two rows in a thousand at 24 deviations: counts that are asked again show them."""

    def error():
        errors = []
        for seed in range(30):
            rng = np.random.default_rng(seed)
            rows = np.where(rng.random((5000, 1)) < 0.0018, 24.0, rng.normal(size=(5000, 1)))
            errors.append(mean_of(rows, rng.normal(size=(5, 1)), ZCDP(0.5), random_state=seed).mean[0] - 0.0432)
        return np.sqrt(np.mean(np.square(errors)))

    asked = error()
    assert asked < 0.03  # without privacy 0.02
    with mock.patch.object(counts, "spared", return_value=0):
        assert error() > 1.15 * asked


@pytest.mark.parametrize("budget", BUDGETS[::2], ids=["zcdp", "pure"])
def test_more_counts_cost_little_where_they_are_not_needed(budget):
    """A Gaussian column: the noise of the sum stays far below its sampling error."""
    rows = np.random.default_rng(8).normal(size=(100_000, 1))
    asked = mean_of(rows, rows[:1].copy(), budget)
    assert names(asked) == ["signed dyadic cells", "signed dyadic cells", "clipped sum"]
    with mock.patch.object(counts, "spared", return_value=0):
        once = mean_of(rows, rows[:1].copy(), budget)
    assert names(once) == ["signed dyadic cells", "clipped sum"]
    assert asked.standard_error[0] < 1.05 * once.standard_error[0]


# ---- tails ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("budget", BUDGETS[::2], ids=["zcdp", "pure"])
def test_ordinary_columns_are_not_called_heavy(budget):
    draws = {
        "Gaussian": lambda rng, n: rng.normal(size=n),
        "exponential": lambda rng, n: rng.exponential(size=n),
        "uniform": lambda rng, n: rng.random(n),
        "children": lambda rng, n: rng.choice([0, 1, 2, 3, 4, 5.5], p=[0.38, 0.11, 0.23, 0.16, 0.08, 0.04], size=n),
        "delays": lambda rng, n: rng.gamma(0.5, 60.0, n) - 10.0,
    }
    heavy = 0
    for draw in draws.values():
        for seed in range(10):
            rng = np.random.default_rng(seed)
            result = mean_of(draw(rng, 2000)[:, None], draw(rng, 5)[:, None], budget, random_state=seed)
            heavy += result.status == ("heavy_tail",)
    assert heavy <= 10  # of 50: a fifth


def test_tails_without_a_variance_are_called_heavy():
    said = []
    for seed in range(20):
        rows = np.random.default_rng(seed).pareto(1.2, size=(20_000, 1))
        said += mean_of(rows, rows[:5].copy(), ZCDP(0.5), random_state=seed).status
    assert said.count("heavy_tail") >= 4
    assert said.count("resolved") <= 10


def test_a_tail_that_would_have_shown_further_out_is_not_heavy():
    """Octaves 100, 150, 180 and nothing beyond: with the first of noise, a power law would go on with 67 rows."""
    edges, values, last = scales.edges_of(0), np.zeros(2047), 1100
    values[last - 2 : last + 1] = 180.0, 150.0, 100.0

    def side(std):
        (found,) = tails.sides_of([values], [np.full(2047, std**2)], edges, [last], 1, np.zeros(1, dtype=int)).each()
        return found

    assert not side(2.0).heavy
    values[last + 1] = 60.0
    assert side(2.0).heavy


def test_a_wide_window_that_stands_out_by_chance_must_be_as_rare_as_its_end_is_far():
    """False alarms: columns of noise about one known cell end beyond it as rarely as the rule says."""
    divided = divide(1, 20_000, ZCDP(0.05).rho, pure=False)
    rng, far = np.random.default_rng(9), 0
    size, end = 2047 * divided.parts, scales.key_of(1.0, divided.log2_parts)
    none = np.zeros(0, dtype=np.int64)
    for _ in range(300):
        above, below = rng.normal(scale=divided.count_std, size=(2, size))
        above[end] += 20_000.0
        spread = np.full(size, divided.count_std**2)
        column = scales.Column(
            center=0.0, above=above, below=below, above_var=spread, below_var=spread, zero=0.0, missing=0.0,
            public_above=none, public_below=none,
        )  # fmt: skip
        (found,) = scales.scales_of([column], [divided])
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
    for found in (result.noise_std, result.sampling_std, result.report.tail_above, result.report.tail_below):
        assert not np.isnan(found).any()


# ---- what is put back -----------------------------------------------------------------------------------------------
def test_numbers_of_a_cell_are_spread_evenly_also_below_a_clip_point_inside_it():
    rng, edges = np.random.default_rng(10), scales.edges_of(1)
    last, values = scales.key_of(8.0, 1), np.zeros(len(edges) - 1)
    values[last - 3 : last + 1] = 40.0, 30.0, 20.0, 10.0
    side = tails.sides_of([values], [np.full(len(values), 1e-30)], edges, [last], 2, np.zeros(1, dtype=int))
    lower, upper, mass = side.block[:3, 0]
    counted = np.flatnonzero(mass[: side.seen])
    numbers = [rng.uniform(lower[k], upper[k], int(4000 * mass[k])) for k in counted]
    points = np.array([2.5, 3.0, 4.4, 5.0, 6.5, 7.9])
    (found,), _, _ = side.excess(points[None])
    guessed, middle = mass[side.seen :], (lower + (upper - lower) / 2.0)[side.seen :]
    for clip, told in zip(points, found, strict=True):
        beyond = float((guessed * (middle - clip)).sum())
        assert told == pytest.approx(
            np.maximum(np.concatenate(numbers) - clip, 0.0).sum() / 4000 + beyond, rel=0.03, abs=0.05
        )


def test_what_noise_explains_is_not_put_back():
    assert clips.put_back(10.0, 0.0) == 10.0
    assert clips.put_back(10.0, 25.0) == 7.5
    assert clips.put_back(3.0, 9.0) == clips.put_back(-3.0, 1.0) == clips.put_back(0.0, 1.0) == 0.0
    # Cells of noise alone: what they add to a sum is a fraction of the noise, and what is surely there stays.
    noise = np.random.default_rng(11).normal(size=4000)
    added = np.array([clips.put_back(each, 1.0) for each in noise])
    assert np.sqrt(np.mean(added**2)) < 0.6 * np.sqrt(np.mean(np.maximum(noise, 0.0) ** 2))
