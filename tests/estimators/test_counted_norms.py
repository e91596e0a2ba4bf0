"""`weighted_mean(norm_bound="auto")` and `coinpress_mean(radius="auto")`: a radius from a count of norms, and what it costs."""

import warnings
from unittest import mock

import numpy as np
import pytest
from gaussian_cases import held
from helpers.errors import raises
from helpers.neighbors import pair_at
from spies import seeded

from fastpubpriv import ZCDP, AccuracyWarning, ApproxDP, InputError, Ledger, PureDP, coinpress_mean, weighted_mean
from fastpubpriv.auditing import record_replay
from fastpubpriv.estimators import radii
from fastpubpriv.estimators.columns import column_means

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
BUDGETS = [ZCDP(0.1), ApproxDP(1, 1e-6), PureDP(1)]
every_budget = pytest.mark.parametrize("budget", BUDGETS, ids=["zcdp", "approx", "pure"])


def weighted(x, x_pub, budget, **options):
    return seeded(weighted_mean, x, x_pub=x_pub, budget=budget, norm_bound="auto", **options)


def coinpress(x, budget, **options):
    return seeded(coinpress_mean, x, budget=budget, **{"center": 0.0, "radius": "auto", **options})


@every_budget
@pytest.mark.parametrize("unit", [1e-30, 1.0, 1e30])
def test_no_unit_has_to_be_known(budget, unit):
    rng = np.random.default_rng(1)
    rows, errors = unit * rng.lognormal(2.0, 1.0, size=(5000, 4)), []
    for bound in 10.0 ** np.linspace(0.5, 2.5, 9):
        known = seeded(weighted_mean, rows, budget=budget, norm_bound=bound * unit, variance=unit**2)
        errors.append(np.linalg.norm(known.mean - rows.mean(axis=0)))
    found = weighted(rows, unit * rng.lognormal(2.0, 1.0, size=(1, 4)), budget, row_weight="private")
    # The whole budget at the best of nine bounds in hindsight, against three quarters at a bound that was counted.
    assert np.linalg.norm(found.mean - rows.mean(axis=0)) < 3.0 * min(errors) + 0.3 * unit
    assert found.provenance["norm_bound"] == "released"
    assert [release["name"] for release in found.releases] == ["norms of rows", "clipped sum"]


@every_budget
@pytest.mark.parametrize("steps", [1, 2, "auto"])
def test_a_ball_that_nobody_named(budget, steps):
    rows = np.random.default_rng(2).normal(7.0, 1.0, size=(5000, 3))
    found = coinpress(rows, budget, steps=steps)
    assert np.all(np.abs(found.mean - 7.0) < 0.5)
    assert found.provenance["radius"] == "released"
    assert found.spent == budget
    count = {"auto": 2}.get(steps, steps)
    assert len(found.releases) == 2 * count  # each step counts again: no deviation is known
    assert np.all(held(found, 7.0))
    told = coinpress(rows, budget, steps=steps, variance=1.0)
    assert np.all(np.abs(told.mean - 7.0) < 0.5)
    assert len(told.releases) == 1 + count


UNITS = np.array([1e-3, 1.0, 20.0, 3e4])


@every_budget
def test_columns_of_many_units_do_not_share_their_noise(budget):
    """With the deviations of five public rows as units no column is farther off than those rows, and intervals hold."""
    inside, ours, alone = 0, [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        rows, public = UNITS * rng.gamma(2.0, size=(2000, 4)), UNITS * rng.gamma(2.0, size=(5, 4))
        found = weighted(rows, public, budget, random_state=seed)
        ours.append((found.mean - 2.0 * UNITS) / UNITS)
        alone.append((public.mean(axis=0) - 2.0 * UNITS) / UNITS)
        inside += held(found, 2.0 * UNITS).sum()
    assert np.all(np.mean(np.square(ours), axis=0) < np.mean(np.square(alone), axis=0))
    assert inside >= 38  # of 40: the deviations of five rows are allowed for as Student's law does
    with mock.patch.object(radii, "units_of", return_value=np.ones(4)):  # planted: one unit for all
        found = weighted(rows, public, budget, random_state=1)
    assert abs(found.mean[0] / UNITS[0] - 2.0) > 10.0


def test_a_constant_public_column_takes_the_least_unit_of_the_others():
    public = np.array([[1.0, 5.0, 0.0], [3.0, 5.0, 40.0]])
    assert np.allclose(radii.units_of(public), [np.sqrt(2.0), np.sqrt(2.0), np.sqrt(800.0)])
    assert np.array_equal(radii.units_of(public[:1]), np.ones(3))
    assert np.array_equal(radii.units_of(public[:, :1]), np.ones(1))
    assert np.array_equal(radii.units_of(np.full((4, 2), 7.0)), np.ones(2))


@every_budget
def test_an_interval_without_a_known_deviation_holds(budget):
    """Rows of many units and no variance: wide for the small ones, and true for all."""
    inside = 0
    for seed in range(10):
        rows = UNITS * np.random.default_rng(seed).gamma(2.0, size=(2000, 4))
        inside += held(coinpress(rows, budget, random_state=seed), 2.0 * UNITS).sum()
    assert inside >= 34  # of 40 at 95 %: by chance fewer with probability 3e-3, seeded
    rows = UNITS * np.random.default_rng(1).gamma(2.0, size=(2000, 4))
    planted = seeded(coinpress_mean, rows, budget=budget, center=0.0, radius=3e5)  # as if each deviation were one
    assert not held(planted, 2.0 * UNITS)[3]


def real_columns():
    """Shapes of real columns, each with its mean: counts with many zeros, delays, a share, a city size, answers from 1 to 5."""
    rng = np.random.default_rng(9)
    counts = rng.negative_binomial(0.6, 0.2, size=50_000)
    delays = rng.lognormal(2.5, 1.1, size=50_000) - 9.0
    atoms = rng.choice([0.0, 0.25, 0.5, 1.0], size=50_000, p=[0.6, 0.1, 0.1, 0.2])
    sizes, answers = 1e4 * rng.pareto(3.5, size=50_000), rng.integers(1, 6, size=50_000)
    return np.column_stack([counts, delays, atoms, sizes, answers]).astype(float)


def coverage(seeds):
    """Shares of intervals that hold the mean, without a reason and with one, and whether a gross error had none."""
    population = real_columns()
    means, stds = population.mean(axis=0), population.std(axis=0)
    plain, told, silent = [], [], 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        n, m = (300, 2000)[seed % 2], (1, 2, 5, 20)[seed // 2 % 4]
        rows, public = population[rng.integers(0, 50_000, n)], population[rng.integers(0, 50_000, m)]
        budget = BUDGETS[seed % 3]
        found = [(slice(None), weighted(rows, public, budget, random_state=seed))]
        found.append((slice(None), coinpress(rows, budget, center=public[0], random_state=seed)))
        for j in range(5):
            one = slice(j, j + 1)
            found.append((one, weighted(rows[:, one], public[:, one], budget, random_state=seed)))
            found.append((one, coinpress(rows[:, one], budget, center=float(public[0, j]), random_state=seed)))
        for part, result in found:
            inside = held(result, means[part])
            ordinary = np.array([not own for own in result.part_reasons])
            plain += inside[ordinary].tolist()
            told += inside[~ordinary].tolist()
            silent += int((ordinary & (np.abs(result.mean - means[part]) > 2.0 * stds[part])).sum())
    return np.mean(plain), np.mean(told), silent


def test_intervals_hold_on_columns_of_any_shape_and_unit():
    plain, told, silent = coverage(12)
    assert plain >= 0.94
    assert told >= 0.97
    assert silent == 0
    with mock.patch.object(column_means, "tails", side_effect=lambda norms, unit, n: np.zeros(len(unit))):  # planted
        assert coverage(12)[0] < plain - 0.02


def test_what_a_count_of_norms_cannot_show_is_said():
    rows = UNITS * np.random.default_rng(1).gamma(2.0, size=(2000, 4))
    found = seeded(coinpress_mean, rows, budget=ZCDP(0.5), center=0.0, radius="auto")
    assert found.part_reasons == (("wide",),) * 4
    assert weighted(rows, rows[:1].copy(), ZCDP(0.5)).part_reasons == (("wide",),) * 4
    assert coinpress(rows[:, :1], ZCDP(0.5)).status == "ok"
    assert weighted(rows, np.tile(rows[:1], (5, 1)), ZCDP(0.5)).part_reasons == (("wide",),) * 4
    public = rows[:5] * [1.0, 1.0, 1.0, 0.0]  # the last column has no scale of its own in public
    assert weighted(rows, public, ZCDP(0.5)).part_reasons[3] == ("wide",)
    few = weighted(rows[:8], public, ZCDP(1e-4))
    assert set(few.part_reasons) == {("unresolved",)}
    assert np.isinf(few.confidence_interval()).all()
    assert np.isnan(found.report.missing).all()
    again = type(found).from_json(found.to_json())
    assert np.isnan(again.report.missing).all()
    assert "missing" not in found.to_frame().columns
    assert "wide" in found.summary()


@every_budget
def test_record_and_replay(budget):
    rng = np.random.default_rng(3)
    public = rng.normal(size=(5, 3))
    runs = [
        lambda x: weighted(x, public, budget, center="public"),
        lambda x: weighted(x, public[:1], budget, row_weight="private"), lambda x: coinpress(x, budget),
        lambda x: coinpress(x, budget, variance=2.0),
    ]  # fmt: skip
    hostile = [np.full(3, 1e308), np.full(3, np.nan), np.zeros(3), np.full(3, 5e-324), np.array([np.inf, 0.0, 0.0])]
    for run in runs:
        for one in hostile:
            n = int(rng.choice([1, 5, 2000]))
            rows, other = pair_at(rng.normal(size=(n, 3)), rng.integers(n), one)
            report = record_replay(run, rows, other, budget=budget)
            assert report.pair_cost <= report.declared_cost <= report.allowance


def test_a_bound_that_public_rows_contradict_is_questioned():
    rng = np.random.default_rng(4)
    rows, public = rng.normal(5.0, 1.0, size=(2000, 2)), rng.normal(5.0, 1.0, size=(20, 2))
    with pytest.warns(AccuracyWarning, match=r"20 of 20 public rows are beyond norm_bound"):
        seeded(weighted_mean, rows, x_pub=public, budget=ZCDP(1), norm_bound=3.0)
    with warnings.catch_warnings(action="error", category=AccuracyWarning):
        seeded(weighted_mean, rows, x_pub=public, budget=ZCDP(1), norm_bound=12.0)


def test_arguments_are_checked():
    rows, ledger = np.zeros((10, 2)), Ledger(PureDP(1))
    given = {"budget": PureDP(1), "ledger": ledger}
    raises(InputError, "needs public rows", weighted_mean, rows, norm_bound="auto", **given)
    raises(InputError, "norm_bound", weighted_mean, rows, norm_bound="large", **given)
    raises(InputError, "radius", coinpress_mean, rows, center=0.0, radius="large", **given)
    raises(InputError, "steps", coinpress_mean, rows, center=0.0, radius="auto", steps=0, **given)
    assert ledger.remaining.amounts == (1,)
