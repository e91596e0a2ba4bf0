"""`quantiles`: what holds without noise, what noisy counts must give, what is said of a column, and neighbors."""

from dataclasses import replace
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from column_shapes import column
from gaussian_cases import held
from helpers.errors import raises
from helpers.neighbors import random_pairs

import fastpubpriv as fpp
from fastpubpriv.auditing import record_replay
from fastpubpriv.estimators import quantiles as module
from fastpubpriv.estimators.quantiles import EdgeCounts, ranks_of, shortest_decimal
from fastpubpriv.mechanisms import cells

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
EXACT = fpp.ZCDP(1e6)  # as good as no noise
BUDGETS = {"zcdp": fpp.ZCDP(0.1), "approx": fpp.ApproxDP(1, 1e-6), "pure": fpp.PureDP(1)}
Q = np.array([0.1, 0.25, 0.5, 0.75, 0.9])


def asked(rows, public=None, budget=EXACT, **options):
    return fpp.quantiles(
        rows, x_pub=rows[:1].copy() if public is None else public, budget=budget, threads=1, progress=False, **options
    )


def rank_error(values, answers, q=Q):
    """Rows between the rank of each answer and the one asked for; a number that rows share has all of their ranks."""
    ordered = np.sort(values[np.isfinite(values)])
    below, up_to = (np.searchsorted(ordered, answers, side) for side in ("left", "right"))
    wanted = np.asarray(q) * len(ordered)
    return np.maximum(np.maximum(below - wanted, wanted - up_to), 0.0)


KINDS = [
    "normal", "lognormal", "Cauchy", "counts", "ages", "mostly zero", "prices", "two groups", "tiny", "huge",
    "one number",
]  # fmt: skip
EXPECTED = {"ages": "atom", "counts": "atom", "one number": "atom", "normal": "continuous", "Cauchy": "continuous"}


# ---- without noise --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_without_noise_the_ranks_are_exact(kind, seed):
    values = column(np.random.default_rng(seed), kind, 4000)
    values[1::10] = np.nan
    result = asked(values, q=Q)
    assert rank_error(values, result.quantile[0]).max() <= 8.0
    assert kind not in EXPECTED or set(result.structure[0]) == {EXPECTED[kind]}
    assert result.ranks[0].total == pytest.approx(np.isfinite(values).sum(), abs=1.0)
    assert held(result, result.quantile).all()


def test_an_edge_belongs_to_the_cell_on_its_right_and_the_public_row_may_be_far():
    values = column(np.random.default_rng(0), "ages", 4000)
    assert rank_error(values, asked(values, q=Q).quantile[0]).max() == 0.0
    add = cells.columns_cells

    def left(chunk, edges, counts):
        add(chunk, [np.nextafter(cuts, np.inf) for cuts in edges], counts)

    with mock.patch.object(cells, "columns_cells", left):  # planted: (a, b] in place of [a, b)
        assert rank_error(values, asked(values, q=Q).quantile[0]).max() > 0.0
    values = column(np.random.default_rng(1), "normal", 4000)
    assert rank_error(values, asked(values, np.zeros(1), q=Q).quantile[0]).max() <= 10.0


def test_rows_beyond_what_is_seen_are_not_forgotten():
    values = np.random.default_rng(2).normal(size=4000)
    place = mock.Mock(side_effect=module.locate)
    scale = module.scales_of

    def short(columns, shares):  # the stretch ends where few rows are, and most lie beyond
        return [
            replace(each, above=each.above and each.above - 16, below=each.below) for each in scale(columns, shares)
        ]

    with mock.patch.object(module, "scales_of", short), mock.patch.object(module, "locate", place):
        result = asked(values + 3.0, np.zeros(1), q=Q)
    assert place.called
    assert rank_error(values + 3.0, result.quantile[0]).max() <= 400.0
    assert held(result, np.quantile(values + 3.0, Q)).all()


def test_all_missing_or_nowhere_is_unresolved():
    result = asked(np.full(500, np.nan), np.ones(1), fpp.ZCDP(0.1))
    assert result.part_reasons == (("unresolved",),) * 3
    assert np.isnan(result.quantile).all()
    assert np.isinf(result.confidence_interval()).all()
    assert len(result.releases) == 1
    assert fpp.QuantileResult.from_json(result.to_json()).to_dict() == result.to_dict()


@pytest.mark.parametrize(
    ("low", "high", "digits"),
    [(36.58, 36.63, 36.6), (16.97, 17.02, 17.0), (-5.3, -4.9, -5.0), (-1.0, 2.0, 0.0), (19.985, 19.995, 19.99),
     (1e300, 3e300, 2e300), (5e-324, 1e-323, 5e-324), (0.1, np.nextafter(0.1, 1), 0.1), (9.5, 10.5, 10.0)],
)  # fmt: skip
def test_shortest_decimal(low, high, digits):
    assert shortest_decimal(low, high) == digits


# ---- the model of the ranks -----------------------------------------------------------------------------------------
def test_rows_of_a_cell_may_be_one_number():
    edges = np.array([0.0, 1.0])
    wide = EdgeCounts(edges=edges, counts=np.array([0.0, 6000.0, 0.0]), std=8.0)
    # A later round finds all rows in a hundredth of that cell.
    fine = EdgeCounts(edges=np.array([0.0, 0.70, 0.71, 1.0]), counts=np.array([0.0, 0.0, 6000.0, 0.0, 0.0]), std=8.0)

    def error():
        found = ranks_of([wide, fine], 6000.0, 100.0)
        return np.abs(found.below - [0.0, 0.0, 6000.0, 6000.0]).max()

    assert error() < 10.0
    with mock.patch.object(module, "PRIOR_STD", 0.005):  # planted: the prior does not let it
        assert error() > 100.0


def test_ranks_never_fall():
    rng = np.random.default_rng(3)
    falls = False
    for _ in range(20):
        parts = [
            EdgeCounts(edges=np.sort(rng.normal(size=9)), counts=rng.normal(10.0, 40.0, 10), std=40.0) for _ in range(3)
        ]
        found = ranks_of(parts, 100.0, 5.0)
        assert np.all(np.diff(found.below) >= 0.0)
        assert np.all((found.below >= 0.0) & (found.below <= found.total))
        with mock.patch.object(module.np, "maximum", mock.Mock(wraps=np.maximum, accumulate=lambda x: x)):  # planted
            falls |= bool(np.any(np.diff(ranks_of(parts, 100.0, 5.0).below) < 0.0))
    assert falls


# ---- with noise -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["normal", "lognormal", "ages", "mostly zero"])
@pytest.mark.parametrize("budget", BUDGETS)
def test_noise_is_small_beside_sampling(kind, budget):
    rng, inside, errors = np.random.default_rng(4), [], []
    table = column(rng, kind, 8000)
    truth = np.quantile(table, [0.25, 0.5, 0.75], method="inverted_cdf")
    for _ in range(12):
        rows = rng.choice(table, 8000)
        result = asked(rows, rng.choice(table, 1), BUDGETS[budget])
        inside.append(held(result, truth, level=0.99))
        errors.append(rank_error(rows, result.quantile[0], [0.25, 0.5, 0.75]))
    assert np.mean(inside) >= 0.94
    assert np.sqrt(np.mean(np.square(errors))) < 0.8 * np.sqrt(8000 * 0.2)


def test_several_columns_bounds_and_simultaneous_intervals():
    rng = np.random.default_rng(5)
    table = np.stack([column(rng, kind, 4000) for kind in ("normal", "ages", "lognormal")], axis=1)
    limits = ([0.0, 20.0, 0.0], [2e6, 60.0, 50.0])
    result = asked(table, table[:3].copy(), fpp.ZCDP(0.5), q=Q, bounds=limits)
    lower, upper = result.confidence_interval()
    wider = result.confidence_interval(simultaneous=True)
    assert np.all(wider[0] <= lower)
    assert np.all(upper <= wider[1])
    assert np.any(wider[0] < lower)
    assert np.all(np.diff(result.quantile, axis=1) >= 0.0)
    assert result.quantile[1, 0] >= 20.0
    assert result.quantile[1, -1] == 60.0 == wider[1][1, -1]
    frame = result.to_frame()
    assert frame.shape == (15, 8)
    assert "quantile" in result.summary()
    assert fpp.QuantileResult.from_json(result.to_json()).to_dict() == result.to_dict()
    broken = result.to_json().replace('"atom"', '"atomic"')
    raises(fpp.InputError, "known words", fpp.QuantileResult.from_json, broken)


# ---- refusals and privacy -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("given", "words"),
    [({"q": ()}, "1 to 16"), ({"q": (0.5, 0.5)}, "ascending"), ({"q": (0.5, 1.0)}, "q must"), ({"q": "median"}, "1 to 16"),
     ({"bounds": (1, 0)}, "bounds"), ({"x_pub": None}, "one public row")],
)  # fmt: skip
def test_refusals_cost_nothing(given, words):
    ledger = fpp.Ledger(fpp.ZCDP(1))
    options = {"x_pub": np.zeros(1), "budget": fpp.ZCDP(1), "ledger": ledger, **given}
    raises(fpp.InputError, words, fpp.quantiles, np.zeros(9), **options)
    assert not ledger.entries


HOSTILE = [np.full(2, each) for each in (np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, -0.0, 0.0, 2.0**53, 1e9)]


def run_of(budget):
    return lambda x: asked(x, np.array([[0.5, -0.25]]), budget)


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_replay_on_neighbors(budget):
    costs = []
    for sizes in ([1, 2, 10], [300]):
        for rows, other in random_pairs(np.random.default_rng(6), 25, sizes=sizes, dim=2, hostile=HOSTILE):
            report = record_replay(run_of(budget), rows, other, budget=budget)
            assert report.pair_cost <= report.declared_cost <= report.allowance
            costs.append(report.tightness)
    assert max(costs) > 0.3


NORMAL = np.random.default_rng(7).normal(size=(2000, 2))
MOVED = NORMAL.copy()
MOVED[5] = [-40.0, 40.0]


def test_a_moved_row_takes_nearly_the_whole_cost():
    report = record_replay(run_of(fpp.ZCDP(0.1)), NORMAL, MOVED, budget=fpp.ZCDP(0.1))
    assert report.declared_cost >= report.allowance * Fraction(99, 100)
    assert 0.95 <= report.tightness <= 1.0


def replay(run, error):
    raises(error, None, record_replay, run, NORMAL, MOVED, budget=fpp.ZCDP(0.1))


def test_planted_costs_edges_and_counts():
    grid = cells.gaussian_count_grid
    with mock.patch.object(cells, "gaussian_count_grid", lambda cost, *more: grid(2 * cost, *more)):
        replay(run_of(fpp.ZCDP(0.1)), fpp.BudgetError)
    last = module.last_edges

    def run(x):
        with mock.patch.object(module, "last_edges", lambda *given: np.unique(np.append(last(*given), np.nanmax(x)))):
            return run_of(fpp.ZCDP(0.1))(x)

    replay(run, fpp.ReplayError)
    answer = cells.CellQuery.answer
    with mock.patch.object(cells.CellQuery, "answer", lambda self, counts: 2 * answer(self, counts)):
        replay(run_of(fpp.ZCDP(0.1)), fpp.ReplayError)
