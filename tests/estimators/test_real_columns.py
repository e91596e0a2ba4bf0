"""`estimate_mean` by counts: what must hold exactly, what a column of each shape must give, and what must be said of it."""

import warnings
from dataclasses import replace
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from spies import seeded

from fastpubpriv import ZCDP, AccuracyWarning, ApproxDP, InputError, Ledger, PureDP, estimate_mean
from fastpubpriv.estimators.columns import clips, report, scales
from fastpubpriv.estimators.columns.shares import divide
from fastpubpriv.release import transcript as transcripts

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
BUDGETS = [ZCDP(0.05), ApproxDP(0.5, 1e-6), PureDP(1)]
EXACT = ZCDP(1e6)  # as good as no noise


def mean_of(private, public, budget=BUDGETS[0], **options):
    return seeded(estimate_mean, private, x_pub=public, budget=budget, threads=1, progress=False, **options)


def column(rng, kind, n):
    return {
        "Gaussian": lambda: rng.normal(1e6, 1.0, n),
        "lognormal": lambda: rng.lognormal(0.0, 1.0, n),
        "counts": lambda: rng.poisson(3.0, n).astype(float),
        "share": lambda: rng.random(n),
        "tiny": lambda: -1e-12 * rng.gamma(2.0, size=n),
        "mostly zero": lambda: rng.gamma(1.0, 40.0, n) * (rng.random(n) < 0.2),
    }[kind]()


KINDS = ["Gaussian", "lognormal", "counts", "share", "tiny", "mostly zero"]


# ---- what holds exactly ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS)
def test_without_noise_the_mean_is_that_of_the_rows(kind):
    rows = column(np.random.default_rng(1), kind, 3000)[:, None]
    result = mean_of(rows, rows[:1].copy(), EXACT)
    # What is left is the width of the outermost cells, which a clip point cuts off.
    assert abs(result.mean[0] - rows.mean()) < 0.03 * rows.std()


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
        self.calls_there, self.change = calls_there, change

    def forced(self, name, shape, event, unit):
        return self.change(name, self.calls_there[len(self.calls)].answer.copy())


def with_answers(calls, change, call):
    token = transcripts._CURRENT.set(Shifted(calls, change))
    try:
        return call()
    finally:
        transcripts._CURRENT.reset(token)


def recorded(call):
    with transcripts.recording() as transcript:
        result = call()
    return result, transcript.calls


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_power_of_two_scales_every_output_exactly(budget):
    rng = np.random.default_rng(3)
    rows, public = rng.lognormal(size=(3000, 2)), rng.lognormal(size=(1, 2))
    here, calls = recorded(lambda: mean_of(rows, public, budget))
    octaves = 37
    parts = divide(2, 3000, here_allowance(budget, 2), pure=isinstance(budget, PureDP)).parts
    side = 2047 * parts

    def change(name, answer):
        if name == "signed dyadic cells":
            for begin in (0, side):
                answer[:, begin : begin + side] = np.roll(answer[:, begin : begin + side], octaves * parts, axis=1)
        return answer

    factor = 2.0**octaves
    there = with_answers(calls, change, lambda: mean_of(rows * factor, public * factor, budget))
    for name in ("mean", "noise_std", "sampling_std"):
        assert np.array_equal(getattr(there, name), getattr(here, name) * factor), name
    for name in ("resolved_from", "resolved_to", "clipping_std", "tail_below", "tail_above"):
        assert np.array_equal(getattr(there.report, name), getattr(here.report, name) * factor), name
    assert there.status == here.status


def here_allowance(budget, dim):
    from fastpubpriv.estimators.columns.shares import draws
    from fastpubpriv.methods import allowance_of

    return allowance_of(budget, draws(dim))[1]


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_negated_column_mirrors(budget):
    rng = np.random.default_rng(4)
    rows, public = rng.lognormal(size=(3000, 1)), rng.lognormal(size=(5, 1))
    here, calls = recorded(lambda: mean_of(rows, public, budget))

    def change(name, answer):
        if name != "signed dyadic cells":
            return -answer
        side = (answer.shape[1] - 2) // 2
        return np.concatenate([answer[:, side : 2 * side], answer[:, :side], answer[:, 2 * side :]], axis=1)

    there = with_answers(calls, change, lambda: mean_of(-rows, -public, budget))
    assert np.allclose(there.mean, -here.mean, rtol=1e-12)
    assert np.array_equal(there.noise_std, here.noise_std)
    assert np.array_equal(there.report.tail_below, here.report.tail_above)
    assert there.status == here.status


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("dim", [1, 2, 7])
def test_costs_add_up_to_the_budget(budget, dim):
    rows, ledger = np.random.default_rng(5).normal(size=(20_000, dim)), Ledger(budget)
    result = mean_of(rows, rows[:1].copy(), budget, ledger=ledger)
    assert result.spent == budget
    names = [release["name"] for release in result.releases]
    again = names.count("signed dyadic cells") - 1
    assert names == [
        "signed dyadic cells", *["signed dyadic cells"] * again, *["shells of rows"] * (dim > 1), "clipped sum",
    ]  # fmt: skip
    assert again <= 1
    costs = [release["epsilon" if isinstance(budget, PureDP) else "rho"] for release in result.releases]
    total = here_allowance(budget, dim)
    shares = divide(dim, 20_000, total, pure=isinstance(budget, PureDP))
    assert float(sum(costs)) == pytest.approx(float(total), rel=1e-3)
    assert sum(costs) <= total
    assert float(costs[0]) == pytest.approx(float(shares.cells), rel=1e-3)
    assert float(costs[-1]) >= 0.249 * float(shares.total)


@pytest.mark.parametrize("neutral", [False, True])
def test_without_noise_every_row_is_counted_once(neutral):
    """The released counts of a column add up to n, missing ones among them."""
    rng = np.random.default_rng(17)
    rows = np.stack([column(rng, kind, 2000) for kind in KINDS], axis=1)
    rows[rng.random(rows.shape) < 0.05] = np.nan
    rows[rng.random(rows.shape) < 0.02] = -np.inf
    _, calls = recorded(lambda: mean_of(rows, np.ones((1, 6)), EXACT, missing="neutral" if neutral else "observed"))
    assert calls[0].name == "signed dyadic cells"
    counts = calls[0].query * calls[0].unit
    assert np.array_equal(counts.sum(axis=1), np.full(6, 2000.0))
    alone = ~np.isfinite(rows)
    assert np.array_equal(counts[:, -1], np.full(6, alone.any(axis=1).sum()) if neutral else alone.sum(axis=0))


@pytest.mark.parametrize("budget", BUDGETS[::2], ids=["zcdp", "pure"])
@pytest.mark.parametrize(("n", "dim"), [(2000, 1), (20_000, 1), (2000, 4)])
def test_gaussian_columns_cost_a_tenth_more_than_being_told_their_variance(budget, n, dim):
    """Against two steps of the paper's method on the same rows."""
    ours, theirs = [], []
    for seed in range(160 // dim):
        rng = np.random.default_rng(seed)
        rows, public = rng.normal(size=(n, dim)), rng.normal(size=(5, dim))
        ours.append(mean_of(rows, public, budget, random_state=seed).mean)
        theirs.append(mean_of(rows, public, budget, variance=1.0, random_state=seed).mean)
    ratio = np.sqrt(np.mean(np.square(ours)) / np.mean(np.square(theirs)))
    assert ratio < 1.1 * 1.17  # a tenth, and three deviations of 160 squared errors


def ten_gaussian_columns(budget, n_pub):
    """Error over that of two steps of the paper's method, which is told the variance, on the same rows."""
    ours, theirs = [], []
    for seed in range(24):
        rng = np.random.default_rng(seed)
        rows, public = rng.normal(size=(2000, 10)), rng.normal(size=(n_pub, 10))
        ours.append(mean_of(rows, public, budget, random_state=seed).mean)
        theirs.append(mean_of(rows, public, budget, variance=1.0, random_state=seed).mean)
    return np.sqrt(np.mean(np.square(ours)) / np.mean(np.square(theirs)))


@pytest.mark.parametrize("budget", BUDGETS[::2], ids=["zcdp", "pure"])
@pytest.mark.parametrize("n_pub", [1, 5])
def test_ten_gaussian_columns_cost_a_fifth_more_than_being_told_their_variance(budget, n_pub):
    """And a tenth more from five public rows on: with one, the cells lie about a row of the tail in some column or other."""
    limit = 1.2 if n_pub == 1 else 1.1
    assert ten_gaussian_columns(budget, n_pub) < limit * 1.1  # and what 240 squared errors leave open


def test_columns_cut_where_their_rows_stand_out_fail_that(monkeypatch):
    """As they were before intervals of many columns reached as far as they may at no price."""
    monkeypatch.setattr(clips, "free_reach", lambda column, ends, moments, shares: tuple(ends))
    assert ten_gaussian_columns(BUDGETS[2], 1) > 1.2 * 1.1


def test_intervals_of_many_columns_reach_as_far_as_the_width_lets_them():
    """Clip points move outwards only, and the width stays the deviation of the rows."""
    shares, rng = divide(10, 2000, Fraction(1), pure=True), np.random.default_rng(18)
    rows = np.column_stack([rng.normal(size=2000), rng.random(2000), rng.gamma(2.0, size=2000)])
    edges, columns = scales.edges_of(shares.log2_parts), []
    for values in rows.T:
        distances = values - values[0]
        counts = [np.histogram(side[side > 0.0], edges)[0].astype(float) for side in (distances, -distances)]
        counted = np.concatenate([*counts, [1.0, 0.0]]) + rng.laplace(0.0, 5.0, 2 * len(counts[0]) + 2)
        columns += scales.columns_of(counted[None], values[:1, None], values[:1], [replace(shares, count_std=7.0)])
    own, limits = [replace(shares, count_std=7.0)] * 3, [None] * 3
    found = clips.choose(columns, scales.scales_of(columns, own), own, limits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clips, "free_reach", lambda column, ends, moments, shares: tuple(ends))
        cut = clips.choose(columns, scales.scales_of(columns, own), own, limits)
    for wide, narrow in zip(found, cut, strict=True):
        assert wide.below >= narrow.below
        assert wide.above >= narrow.above
        assert wide.radius > narrow.radius
        assert (wide.rms, wide.first_mean, wide.mean) == (narrow.rms, narrow.first_mean, narrow.mean)
        assert clips.map_of(wide, 10).width == wide.rms
    (bounded,) = clips.choose(columns[1:2], scales.scales_of(columns[1:2], own[1:2]), own[:1], [(0.0, 1.0)])
    assert bounded.absolute(bounded.above) <= 1.0 - columns[1].center
    assert bounded.absolute(bounded.below) <= columns[1].center


# ---- columns of each shape ------------------------------------------------------------------------------------------
def test_a_constant_column_is_a_point_mass_at_its_value():
    result = mean_of(np.full((5000, 1), 3.7), np.full((3, 1), 3.7))
    assert result.mean[0] == 3.7
    assert result.status == ("point_mass",)
    assert [end[0] for end in result.confidence_interval()] == [-np.inf, np.inf]
    bounded = mean_of(np.full((5000, 1), 3.7), np.full((3, 1), 3.7), bounds=(0.0, 10.0))
    lower, upper = bounded.confidence_interval()
    unseen = bounded.report.undetected_rows[0] / 5000
    assert 3.7 - 3.7 * unseen <= lower[0] < 3.7
    assert upper[0] == pytest.approx(3.7 + 6.3 * unseen)


def test_a_rare_yes_is_clipped_near_one():
    rate = 8.0 * divide(1, 20_000, BUDGETS[0].rho, pure=False).count_std / 20_000
    rng, errors, clips = np.random.default_rng(6), [], []
    for seed in range(40):
        rows = (rng.random((20_000, 1)) < rate).astype(float)
        result = mean_of(rows, np.zeros((1, 1)), random_state=seed)
        errors.append(result.mean[0] - rate)
        clips.append(result.releases[-1]["noise_std"] and result.report.resolved_to[0])
    assert np.median(clips) <= 2.0
    # Clipped to [0, 1] with the whole budget, the noise would be sqrt(2 / rho) / 2 rows.
    best = np.sqrt(rate / 20_000 + (np.sqrt(2 / 0.05) / 2 / 20_000) ** 2)
    assert np.sqrt(np.mean(np.square(errors))) < 1.6 * best  # 1.25, and what 40 runs leave open at a rate of 1e-6


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_hold_and_are_of_a_sensible_width(kind, budget):
    rng = np.random.default_rng(7)
    rows = column(rng, kind, 20_000)[:, None]
    truth, misses = column(np.random.default_rng(8), kind, 10**6), 0
    for seed in range(12):
        rows = column(rng, kind, 20_000)[:, None]
        result = mean_of(rows, rng.permutation(truth)[:5, None], budget, random_state=seed)
        lower, upper = result.confidence_interval()
        misses += not lower[0] <= truth.mean() <= upper[0]
        assert result.noise_std[0] < 0.05 * truth.std()
    assert misses <= 5  # of 12 at 5 % each: by chance with probability 2e-5, six of them 1e-6


def test_one_row_far_away_costs_little():
    rows = np.random.default_rng(9).normal(50.0, 2.0, size=(10_000, 1))
    rows[0] = 1e300
    result = mean_of(rows, np.array([[49.0]]))
    assert abs(result.mean[0] - 50.0) < 0.3
    assert result.report.resolved_to[0] < 1e3


def test_a_public_row_far_away_is_found_out():
    rng = np.random.default_rng(10)
    result = mean_of(rng.normal(0.0, 1.0, size=(20_000, 2)), np.array([[1e4, -1e4]]), ZCDP(0.5))
    assert np.all(np.abs(result.mean) < 500.0)  # noise grows with the distance, the answer does not follow it


def test_all_rows_missing():
    result = mean_of(np.full((1000, 2), np.nan), np.array([[5.0, 6.0]]))
    assert set(result.status) <= {"unresolved", "point_mass", "faint"}
    assert np.isfinite(result.mean).all()


# ---- what is said ---------------------------------------------------------------------------------------------------
def test_one_warning_names_the_columns():
    rows = np.column_stack([np.random.default_rng(11).normal(size=20_000), np.full(20_000, 4.0)])
    with pytest.warns(AccuracyWarning, match="point_mass.*: x1") as caught:
        result = mean_of(rows, np.array([[0.1, 4.0]]), ZCDP(0.5))
    assert len([each for each in caught if each.category is AccuracyWarning]) == 1
    assert result.status[1] == "point_mass"
    assert "point_mass" in result.summary()
    with warnings.catch_warnings():
        warnings.simplefilter("error", AccuracyWarning)
        assert mean_of(rows, np.array([[0.1, 4.0]]), ZCDP(0.5)).status[1] == "point_mass"  # paid for, so not lost


def test_too_little_of_everything_is_said_before_it_is_spent():
    rows = np.random.default_rng(12).normal(size=(60, 3))
    with pytest.warns(AccuracyWarning, match="too few to see any scale"):
        result = mean_of(rows, rows[:5] + 0.25, ZCDP(0.01))
    assert set(result.status) == {"unresolved"}
    assert np.isfinite(result.mean).all()
    assert np.isinf(result.confidence_interval()[0]).all()
    assert np.array_equal(mean_of(rows, rows[:5] + 0.25, ZCDP(0.01), bounds=(-9, 9)).confidence_interval()[0], [-9] * 3)


def test_public_rows_may_stand_in_for_a_hopeless_budget():
    rng = np.random.default_rng(13)
    rows, public = rng.normal(size=(300, 2)), rng.normal(size=(200, 2))
    ledger = Ledger(ZCDP(1))
    result = mean_of(rows, public, ZCDP(0.001), public_only="auto", ledger=ledger)
    assert np.array_equal(result.mean, public.mean(axis=0))
    assert result.spent.is_zero
    assert ledger.remaining.amounts == (1,)
    assert mean_of(rows, public[:20], ZCDP(0.001), public_only="auto").spent == ZCDP(0.001)
    assert mean_of(rows, public, ZCDP(5), public_only="auto").spent == ZCDP(5)


@pytest.mark.parametrize(("options", "message"), [
    ({"clipping": "box"}, "clipping"),
    ({"missing": "drop"}, "missing"),
    ({"public_only": True}, "public_only"),
    ({"bounds": 3.0}, "bounds"),
    ({"bounds": (1.0, 1.0)}, "lowest"),
    ({"bounds": (0.0, np.nan)}, "bounds"),
    ({"bounds": ([0.0], [1.0, 2.0, 3.0])}, "bounds"),
    ({"steps": 3}, "steps= belongs to clipping='gaussian'"),
    ({"mode": "theory"}, "mode= belongs"),
    ({"failure_prob": 0.1}, "failure_prob= belongs"),
    ({"pub_priv_gap": 0.1}, "pub_priv_gap= belongs"),
    ({"variance": 1.0, "bounds": (0, 1)}, "bounds= belongs"),
    ({"clipping": "gaussian", "missing": "neutral"}, "missing= belongs"),
    ({"clipping": "gaussian", "public_only": "auto"}, "public_only= belongs"),
])  # fmt: skip
def test_arguments_are_checked(options, message):
    ledger = Ledger(ZCDP(1))
    with pytest.raises(InputError, match=message):
        mean_of(np.zeros((10, 2)), np.zeros((1, 2)), ledger=ledger, **options)
    assert ledger.remaining.amounts == (1,)


# ---- pieces ---------------------------------------------------------------------------------------------------------
def test_edges_and_keys_belong_together():
    rng = np.random.default_rng(15)
    for log2_parts in range(3):
        edges = scales.edges_of(log2_parts)
        assert np.all(np.diff(edges) > 0.0)
        for size in [5e-324, 1.0, 1.25, 3.0, *np.exp(rng.normal(scale=200.0, size=50))]:
            key = scales.key_of(size, log2_parts)
            assert edges[key] < size <= edges[key + 1]


def test_thresholds_fall_faster_than_a_mistake_costs():
    from scipy import stats

    for pure in (False, True):
        limits = scales.thresholds(2, 0.01, 1, pure)
        law = stats.laplace(scale=np.sqrt(0.5)) if pure else stats.norm
        for octaves in (0, 1, 5, 30):
            assert law.sf(limits[4 * octaves]) == pytest.approx(0.01 * 2.0 ** (-3 * octaves), rel=1e-6)
        assert np.isfinite(limits).all()


# ---- `estimate_mean` of columns in which few rows decide: a rare yes, a value that stands for "missing".
# Seeded: every run gives the same numbers.
SENTINEL = 9999.0
RUNS = 40


def rare_mean_of(private, public, budget, **options):
    return seeded(estimate_mean, private, x_pub=public, budget=budget, threads=1, progress=False, **options)


# ---- equal public values tell of no deviation -----------------------------------------------------------------------
RARE = [  # rows, share, value, the usual value, budget, allowed error over that of sampling
    (200, 0.2, 1.0, 0.0, ZCDP(0.05), 2.5), (200, 0.2, 1.0, 0.0, PureDP(1), 2.5),
    (1000, 0.05, 1.0, 0.0, ZCDP(0.05), 2.0), (1000, 0.05, 1.0, 0.0, PureDP(1), 2.0),
    (200, 0.3, SENTINEL, 7.0, ZCDP(0.05), 2.0), (1000, 0.2, 99.0, 7.0, PureDP(0.3), 2.5),
]  # fmt: skip


def rare_error(n, share, value, usual, budget, public_rows=5):
    """Root mean squared error over the deviation of the mean of the rows, where all public rows have the usual value."""
    errors = []
    for seed in range(RUNS):
        rows = np.where(np.random.default_rng(seed).random((n, 1)) < share, value, usual)
        result = rare_mean_of(rows, np.full((public_rows, 1), usual), budget, random_state=seed)
        errors.append(result.mean[0] - (usual + share * (value - usual)))
    return np.sqrt(np.mean(np.square(errors)) * n / (share * (1.0 - share))) / abs(value - usual)


@pytest.mark.parametrize(("n", "share", "value", "usual", "budget", "most"), RARE)
def test_equal_public_values_do_not_replace_a_released_sum(n, share, value, usual, budget, most):
    assert rare_error(n, share, value, usual, budget) < most


def test_a_deviation_of_zero_would_replace_it():
    def certain(found, n_pub, **known):
        instead = 0.0 if np.isinf(found.instead_std) else found.instead_std
        return report.say(replace(found, instead_std=instead), n_pub, **known)

    with mock.patch("fastpubpriv.estimators.columns.learn.say", side_effect=certain):  # planted
        assert all(rare_error(*case[:-1]) > 1.5 * case[-1] for case in RARE)


# ---- rows that cannot be seen ---------------------------------------------------------------------------------------
def with_sentinels(n, rows, budget, bounds=None, runs=RUNS):
    """Runs with so many sentinels expected among n rows about 50: how many are resolved, and how many of these hold the truth."""
    resolved = held = 0
    share = rows / n
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        private = rng.normal(50.0, 10.0, size=(n, 1))
        private[rng.random(n) < share] = SENTINEL
        public = rng.normal(50.0, 10.0, size=(1, 1))
        result = rare_mean_of(private, public, budget, bounds=bounds, random_state=seed)
        lower, upper = result.confidence_interval()
        resolved += result.status == ("resolved",)
        held += result.status == ("resolved",) and lower[0] <= (1.0 - share) * 50.0 + share * SENTINEL <= upper[0]
    return resolved, held


@pytest.mark.parametrize("budget", [ZCDP(0.05), ZCDP(0.5), PureDP(1)])
@pytest.mark.parametrize("rows", [3, 6, 12, 20])
def test_a_column_that_may_hide_many_rows_is_not_called_resolved(budget, rows):
    assert with_sentinels(200, rows, budget, runs=10)[0] == 0


@pytest.mark.parametrize("budget", [ZCDP(0.5), PureDP(1)])
def test_many_rows_show_or_the_status_is_another(budget):
    """Where one row in fifty can be seen, so many sentinels are."""
    for n in (2_000, 20_000):
        resolved, held = with_sentinels(n, n / 50, budget)
        assert held >= 0.8 * resolved
        assert resolved >= 0.5 * RUNS or n == 2_000


@pytest.mark.parametrize("budget", [ZCDP(0.5), PureDP(1)])
@pytest.mark.parametrize("rows", [6, 10, 14, 20])
def test_bounds_make_the_interval_hold_them(budget, rows):
    resolved, held = with_sentinels(200, rows, budget, bounds=(0.0, SENTINEL))
    assert resolved >= RUNS / 5
    assert held >= 0.9 * resolved


def test_a_limit_that_does_not_grow_with_the_distance_is_caught():
    def near(column, scale, shares, far):
        return scales.undetected_rows(shares, 0)

    with mock.patch.object(report, "undetected_at", side_effect=near):  # planted
        resolved, held = with_sentinels(200, 14, ZCDP(0.5), bounds=(0.0, SENTINEL))
    assert held < 0.8 * resolved


@pytest.mark.parametrize(("dim", "budget", "pure"), [(1, 0.5, False), (1, 1, True), (6, 0.5, False)])
def test_more_rows_may_lie_unseen_further_out(dim, budget, pure):
    """More rows further out, and never more than there are."""
    shares = divide(dim, 2_000, budget, pure=pure)
    found = [scales.undetected_rows(shares, octaves) for octaves in (0, 1, 4, 10, 100)]
    assert found == sorted(found)
    assert scales.undetected_rows(shares, 4, guessed=True) > found[2]
    assert scales.undetected_rows(divide(dim, 50, budget, pure=pure), 500) <= 50
    assert found[0] > 1.645 * shares.count_std
