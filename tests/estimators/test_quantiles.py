"""`quantiles`: what holds without noise, what noisy counts must give, what is said of a column, and neighbors."""

import math
from dataclasses import replace
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from gaussian_cases import column, held
from helpers.errors import raises
from helpers.neighbors import pair_at, random_pairs
from helpers.refusals import Refusals

import fastpubpriv as fpp
from fastpubpriv.auditing import record_replay
from fastpubpriv.distributions import rank_model, support, tuning
from fastpubpriv.distributions.budget_split import divide
from fastpubpriv.distributions.rank_model import EdgeCounts, ranks_of, shortest_decimal
from fastpubpriv.estimators import quantiles as module
from fastpubpriv.kernels.rows import EXPONENTS
from fastpubpriv.mechanisms import cells
from fastpubpriv.privacy.spending import GaussianSpending

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
EXACT = fpp.ZCDP(1e6)  # as good as no noise
BUDGETS = {"zcdp": fpp.ZCDP(0.1), "approx": fpp.ApproxDP(1, 1e-6), "pure": fpp.PureDP(1)}
Q = np.array([0.1, 0.25, 0.5, 0.75, 0.9])


def asked(rows, public=None, budget=EXACT, **options):
    return fpp.quantiles(
        rows,
        x_pub=rows[:1].copy() if public is None else public,
        budget=budget,
        threads=1,
        progress=False,
        **options,
    )


def rank_error(values, answers, q=Q):
    """Rows between the rank of each answer and the one asked for; a number that rows share has all of their ranks."""
    ordered = np.sort(values[np.isfinite(values)])
    below = np.searchsorted(ordered, answers, "left")
    up_to = np.searchsorted(ordered, answers, "right")
    wanted = np.asarray(q) * len(ordered)
    return np.maximum(np.maximum(below - wanted, wanted - up_to), 0.0)


KINDS = [
    "normal",
    "lognormal",
    "Cauchy",
    "counts",
    "ages",
    "mostly zero",
    "prices",
    "two groups",
    "tiny",
    "huge",
    "one number",
]
EXPECTED = {
    "ages": "atom",
    "counts": "atom",
    "one number": "atom",
    "normal": "continuous",
    "Cauchy": "continuous",
}


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
            replace(each, above=each.above and each.above - 16, below=each.below)
            for each in scale(columns, shares)
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
    [
        (36.58, 36.63, 36.6),
        (16.97, 17.02, 17.0),
        (-5.3, -4.9, -5.0),
        (-1.0, 2.0, 0.0),
        (19.985, 19.995, 19.99),
        (1e300, 3e300, 2e300),
        (5e-324, 1e-323, 5e-324),
        (0.1, np.nextafter(0.1, 1), 0.1),
        (9.5, 10.5, 10.0),
    ],
)
def test_shortest_decimal(low, high, digits):
    assert shortest_decimal(low, high) == digits


# ---- the model of the ranks -----------------------------------------------------------------------------------------
def test_rows_of_a_cell_may_be_one_number():
    edges = np.array([0.0, 1.0])
    wide = EdgeCounts(edges=edges, counts=np.array([0.0, 6000.0, 0.0]), std=8.0)
    # A later round finds all rows in a hundredth of that cell.
    fine = EdgeCounts(
        edges=np.array([0.0, 0.70, 0.71, 1.0]),
        counts=np.array([0.0, 0.0, 6000.0, 0.0, 0.0]),
        std=8.0,
    )

    def error():
        found = ranks_of([wide, fine], 6000.0, 100.0)
        return np.abs(found.below - [0.0, 0.0, 6000.0, 6000.0]).max()

    assert error() < 10.0
    with mock.patch.object(rank_model, "PRIOR_STD", 0.005):  # planted: the prior does not let it
        assert error() > 100.0


def test_ranks_never_fall():
    rng = np.random.default_rng(3)
    falls = False
    for _ in range(20):
        parts = [
            EdgeCounts(
                edges=np.sort(rng.normal(size=9)), counts=rng.normal(10.0, 40.0, 10), std=40.0
            )
            for _ in range(3)
        ]
        found = ranks_of(parts, 100.0, 5.0)
        assert np.all(np.diff(found.ascending) >= 0.0)
        assert np.all((found.ascending >= 0.0) & (found.ascending <= found.total))
        falls |= bool(np.any(np.diff(found.below) < 0.0))
    assert falls


def test_cells_without_rows_add_none_to_a_group_of_unknown_size():
    rng = np.random.default_rng(4)
    totals = []
    rows = np.zeros(61)
    rows[20] = 500.0
    for _ in range(200):
        counts = rows + rng.laplace(scale=50.0, size=61)
        counted = EdgeCounts(edges=np.arange(60.0), counts=counts, std=70.0)
        totals.append(ranks_of([counted], 2_000.0, 20_000.0).total)

    assert abs(np.mean(totals) - 500.0) < 150.0


@pytest.mark.parametrize(("q", "atom"), [(0.5, 0.0), (0.501, 1.0)])
def test_an_interval_reaches_the_atom_at_the_end_of_a_stretch_of_equal_ranks(q, atom):
    rng = np.random.default_rng(4)
    outside = 0
    one = float(np.nextafter(1.0, 2.0))
    edges = np.array([0.0, 5e-324, *np.arange(1, 31) / 31, 1.0, one])
    rows = np.zeros(len(edges) + 1)
    rows[[1, -2]] = 5000.0  # half of the rows are 0, the others 1
    for _ in range(200):
        counts = rows + rng.normal(scale=300.0, size=len(rows))
        counted = EdgeCounts(edges=edges, counts=counts, std=300.0)
        low, high = ranks_of([counted], 10_000.0, 0.5).ends(q, 1.96)
        outside += not low <= atom <= high

    assert outside <= 16


def test_an_estimate_at_the_end_of_its_range_lies_in_its_interval():
    rows = np.where(np.arange(4_000) < 2_400, 0.0, 1.0)[:, None]
    result = asked(rows, q=(0.5,))
    counted = {"edges": [0.0, 1.0], "below": [3_000.0, 3_500.0], "std": [9.0, 9.0]}
    ranks = replace(result.ranks[0], **{name: np.array(each) for name, each in counted.items()})
    at_the_end = replace(result, ranks=(ranks,), quantile=np.array([[0.0]]))
    _, upper = at_the_end.confidence_interval()

    assert upper == 0.0


# ---- with noise -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["normal", "lognormal", "ages", "mostly zero"])
@pytest.mark.parametrize("budget", BUDGETS)
def test_noise_is_small_beside_sampling(kind, budget):
    rng = np.random.default_rng(4)
    inside = []
    errors = []
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
    assert result.to_frame().shape == (15, 8)
    broken = result.to_json().replace('"atom"', '"atomic"')
    raises(fpp.InputError, "known words", fpp.QuantileResult.from_json, broken)


def few_rows_of_a_normal(seed, **options):
    """The first and the last decile of 400 standard normal rows."""
    rows = np.random.default_rng(seed).normal(size=(400, 1))
    return asked(rows, budget=BUDGETS["approx"], q=(0.1, 0.9), random_state=seed, **options)


@pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
@pytest.mark.parametrize("options", [{}, {"bounds": (-1e6, 1e6)}], ids=["free", "bounds"])
def test_an_estimate_without_a_reason_has_an_interval_that_ends_near_the_rows(options):
    """Ends were missing, or thousands of deviations away, in two of five intervals of such columns, and all were ok."""
    reasons = []
    truth = np.array([-1.2815516, 1.2815516])
    misses = 0
    for seed in range(20):
        result = few_rows_of_a_normal(seed, **options)
        lower, upper = (ends[0] for ends in result.confidence_interval())
        misses += np.count_nonzero((truth < lower) | (upper < truth))
        for own, width in zip(result.part_reasons, upper - lower, strict=True):
            assert own or width < 10.0
            reasons.append(own)
    assert misses <= 8  # of 40 at .05: by chance more with probability 1e-4
    assert {(), ("few_rows",)} <= set(reasons)


@pytest.mark.parametrize(
    ("ends", "bounds", "reasons"),
    [
        ((6.5, 7.5), (6.0, 8.0), ()),
        ((8.5, 9.0), (6.0, 8.0), ("clipped",)),
        ((4.0, 5.5), (6.0, 8.0), ("clipped",)),
        ((-math.inf, math.inf), (6.0, 8.0), ()),
        ((6.5, math.inf), (6.0, 1e6), ("few_rows",)),
        ((-math.inf, 7.5), (-math.inf, math.inf), ("few_rows",)),
    ],
)
def test_reasons_of_the_ends_of_an_interval(ends, bounds, reasons):
    """Rows are detected from 6.4 to 7.5 about 7.0: ends between 5.8 and 8.1 are near them."""
    place = module.ColumnPlace(7.0, np.array([6.4, 7.5]), 0.6, 400.0, 0.5, True, False)
    assert module.reasons_of_ends(ends, place, bounds) == reasons


# ---- refusals and privacy -------------------------------------------------------------------------------------------
REFUSED = Refusals()
REFUSED.add("1 to 16", q=())
REFUSED.add("ascending", q=(0.5, 0.5))
REFUSED.add("q must", q=(0.5, 1.0))
REFUSED.add("1 to 16", q="median")
REFUSED.add("bounds", bounds=(1, 0))
REFUSED.add("one public row", x_pub=None)


@pytest.mark.parametrize(("given", "words"), REFUSED)
def test_refusals_cost_nothing(given, words):
    ledger = fpp.Ledger(fpp.ZCDP(1))
    options = {"x_pub": np.zeros(1), "budget": fpp.ZCDP(1), "ledger": ledger, **given}
    raises(fpp.InputError, words, fpp.quantiles, np.zeros(9), **options)
    assert not ledger.entries


HOSTILE = [
    np.full(2, each)
    for each in (np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, -0.0, 0.0, 2.0**53, 1e9)
]


def run_of(budget):
    return lambda x: asked(x, np.array([[0.5, -0.25]]), budget)


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_replay_on_neighbors(budget):
    costs = []
    for sizes in ([1, 2, 10], [300]):
        for rows, other in random_pairs(
            np.random.default_rng(6), 25, sizes=sizes, dim=2, hostile=HOSTILE
        ):
            report = record_replay(run_of(budget), rows, other, budget=budget)
            assert report.pair_cost <= report.declared_cost <= report.allowance
            costs.append(report.tightness)
    assert max(costs) > 0.3


NORMAL, MOVED = pair_at(np.random.default_rng(7).normal(size=(2000, 2)), 5, [-40.0, 40.0])


def test_a_moved_row_takes_nearly_the_whole_cost():
    report = record_replay(run_of(fpp.ZCDP(0.1)), NORMAL, MOVED, budget=fpp.ZCDP(0.1))
    assert report.declared_cost >= report.allowance * Fraction(99, 100)
    assert 0.95 <= report.tightness <= 1.0


def replay(run, error):
    raises(error, None, record_replay, run, NORMAL, MOVED, budget=fpp.ZCDP(0.1))


def test_planted_costs_edges_and_counts():
    grid = GaussianSpending.grid

    def at_twice(spending, *given, **more):
        return grid(spending.part(2), *given, **more)

    with mock.patch.object(GaussianSpending, "grid", at_twice):
        replay(run_of(fpp.ZCDP(0.1)), fpp.BudgetError)
    last = module.last_edges

    def run(x):
        with mock.patch.object(
            module, "last_edges", lambda *given: np.unique(np.append(last(*given), np.nanmax(x)))
        ):
            return run_of(fpp.ZCDP(0.1))(x)

    replay(run, fpp.ReplayError)
    answer = cells.CellQuery.answer
    with mock.patch.object(
        cells.CellQuery, "answer", lambda self, counts: 2 * answer(self, counts)
    ):
        replay(run_of(fpp.ZCDP(0.1)), fpp.ReplayError)


# ---- Windows of counts that stand out of the noise, against a slow rewrite ------------------------------------------


def test_windows_are_believed_by_their_distance_to_the_nearest_reference():
    rng = np.random.default_rng(17)
    shares = divide(3, 5_000, GaussianSpending(Fraction(1, 10)))
    edges = support.edges_of(shares.log2_parts)
    size = EXPONENTS << shares.log2_parts
    for _ in range(5):
        counts = rng.normal(size=2 * size + 2) * shares.count_std
        counts[rng.integers(0, 2 * size, 30)] += 400.0
        column = support.columns_of(counts[None], np.zeros((1, 1)), np.zeros(1), [shares])[0]
        ((found, _),) = support.find([column], 0.01, shares)
        assert not support.stand(found, ())[0].any()  # nothing is known
        known = set(rng.integers(0, len(edges) - 1, 3).tolist())
        stood, ends = support.stand(found, known)
        below, _, last, _ = found[stood].T
        # that these are reached from the first three, the next test shows
        known |= set(last.tolist())
        for side, counts_of in enumerate(column.values[::-1]):
            slowly = set()
            for width, limits in zip(
                (1, 2, 4, 8),
                support.thresholds(shares.log2_parts, 0.01, GaussianSpending),
                strict=False,
            ):
                for begin in range(size - width + 1):
                    total = counts_of[begin : begin + width].sum()
                    beyond = counts_of[begin + width // 2 : begin + width].sum()
                    if total < 2.0 * shares.count_std * math.sqrt(width):
                        continue
                    apart = (
                        min(max(begin - each, each - (begin + width - 1), 0) for each in known)
                        + width // 2
                    )
                    stands = total > limits[min(apart, size)] * shares.count_std * math.sqrt(width)
                    if stands and (
                        width == 1 or beyond > 1.5 * shares.count_std * math.sqrt(width / 2)
                    ):
                        slowly.add(begin + width - 1)
            assert set(last[below == side].tolist()) == slowly
            assert ends[side] == max(slowly, default=-1)


def slowly_stand(found, cells, known, passes):
    """Every window against every cell that is known or was found, again in every pass."""
    _, begin, last, most = found.T
    stood = np.zeros(len(found), dtype=bool)
    held = list(known)
    for _ in range(passes):
        distance = np.full(len(found), cells)
        for cell in held:
            distance = np.minimum(distance, np.maximum(np.maximum(begin - cell, cell - last), 0))
        stood |= distance < most
        held = [*known, *last[stood].tolist()]
    return stood


def test_windows_that_stand_make_others_stand():
    rng = np.random.default_rng(18)
    shares = divide(2, 5_000, GaussianSpending(Fraction(1, 10)))
    size = EXPONENTS << shares.log2_parts
    counted = []
    for place in (0, -1) * 6:
        counts = rng.normal(size=(1, 2 * size + 2)) * shares.count_std
        # One of a run is near enough only when the one before it is known.
        places = 900 + np.cumsum(shares.parts * rng.integers(4, 9, 12))
        counts[:, places] += rng.uniform(6.5, 8.0, 12) * shares.count_std
        (column,) = support.columns_of(counts, np.zeros((1, 1)), np.zeros(1), [shares])
        ((found, _),) = support.find([column], 0.01, shares)
        counted.append([])
        for passes in (1, 2, 3, 20):
            slowly = slowly_stand(found, size, [int(places[place])], passes)
            counted[-1].append(int(slowly.sum()))
        stood, ends = support.stand(found, {int(places[place])})
        assert stood.tolist() == slowly.tolist()
        lasts = found[:, 2]
        assert ends == tuple(
            lasts[slowly & (found[:, 0] == side)].max(initial=-1) for side in (0, 1)
        )
    firsts, seconds, thirds, _ = np.sum(counted, axis=0)
    assert firsts < seconds < thirds  # passes after the first one matter here


def test_the_anchor_is_the_window_that_stands_out_most():
    """Above, below or both together, of any width: against all of them, one by one; of equals the same one each time."""
    rng = np.random.default_rng(18)
    for log2_parts in range(3):
        shares = replace(divide(3, 5_000, GaussianSpending(Fraction(1, 10))), log2_parts=log2_parts)
        size = EXPONENTS << log2_parts
        columns = []
        for height in (0.0, 4.0, 40.0):
            counts = np.round(rng.normal(size=2 * size + 2) * shares.count_std)
            counts[rng.integers(0, 2 * size, 20)] += height * shares.count_std
            columns.append(
                support.columns_of(counts[None], np.zeros((1, 1)), np.zeros(1), [shares])[0]
            )
        for each in columns:
            ((_, anchor),) = support.find([each], 0.01, shares)
            best = -math.inf, -1
            below, above = each.values
            one = shares.count_std
            both = math.sqrt(2.0) * shares.count_std
            for counts, std in ((above, one), (below, one), (above + below, both)):
                for width in (1, 2, 4, 8)[: log2_parts + 2]:
                    score = np.convolve(counts, np.ones(width), "valid") / (std * math.sqrt(width))
                    best = max(best, (float(score.max()), int(score.argmax()) + width - 1))
            if best[0] > tuning.ANCHOR:
                assert math.isclose(anchor[0], best[0], rel_tol=1e-12)
            else:
                assert anchor == (-math.inf, -1)
            low = best[1] - 30
            high = best[1] + 5
            near = support.anchor_between(each, low, high, shares)
            assert math.isclose(near[0], best[0], rel_tol=1e-12) or near[0] < best[0]
            assert low <= near[1] < high + 2 * shares.parts


def test_a_window_is_found_with_nothing_beside_it():
    for place in (0, 1, 15, 2044, 2046):
        for side in range(2):
            counts = np.zeros((2, 3, 2047))  # above, below, and both
            counts[1, [side, 2], place] = 8.0
            variances = np.ones(counts.shape) + np.array([[0.0], [0.0], [1.0]])
            counted = np.stack([counts, variances])
            empty, (found, anchor) = support.find_windows(counted, np.full((1, 2048), 3.0))
            assert found.tolist() == [[side, place, place, 2048]]
            assert anchor == (8.0, place)
            assert len(empty[0]) == 0
            assert empty[1] == (-math.inf, -1)


# ---- Released counts of columns: pooled with public rows, and the sides and tails made of them ----------------------
PARTS = [0, 1, 2]


# ---- counts of public rows -------------------------------------------------------------------------------------------
def slowly_pooled(counts, sides, log2_parts, public, centers, own, factors):
    """All cells of one side of one column at a time."""
    cells = 2047 << log2_parts
    values = np.zeros((len(centers), sides, cells))
    variances = np.zeros((len(centers), sides, cells))
    found = []
    for j, (center, variance, factor) in enumerate(zip(centers, own, factors, strict=True)):
        distance = public[:, j] - center
        distance = distance[distance != 0.0]
        keys = (np.abs(distance).view(np.int64) - 1) >> (52 - log2_parts)
        for side in range(sides):
            seen = np.bincount(keys[(distance < 0.0) == bool(side)], minlength=cells)
            around = np.convolve(seen, np.ones(3), "same")
            part = counts[j, side * cells : (side + 1) * cells]
            gap = factor * seen - part
            public_var = factor**2 * (around / 3.0 + 0.5)
            explained = 3.0 * np.sqrt(variance + public_var)
            unexplained = np.maximum(np.abs(gap) - explained, 0.0)
            unexplained[(around == 0.0) & (part < 0.0)] = 0.0  # no public row contradicts noise
            pooled_var = variance + public_var + unexplained**2
            weight = variance / pooled_var if factor else np.zeros(cells)
            values[j, side] = part + weight * gap
            variances[j, side] = variance * (1.0 - weight)
            found.append(np.flatnonzero(seen).tolist())
    return values, variances, found


@pytest.mark.parametrize("log2_parts", PARTS)
@pytest.mark.parametrize("sides", [1, 2])
def test_pooled_counts_are_those_of_one_cell_after_another(log2_parts, sides):
    rng = np.random.default_rng(10 * log2_parts + sides)
    notorious = np.array([0.0, -0.0, 1.0, 1.25, 2.0, 5e-324, -5e-324, 1.7e308, -1.7e308])
    for m in (0, 1, 7, 300):
        columns = int(rng.integers(1, 5))
        counts = rng.normal(size=(columns, 2 * (2047 << log2_parts) + 2)) * 20.0
        public = rng.normal(size=(m, columns)) * 10.0 ** rng.integers(-300, 300, size=(m, columns))
        public = np.where(
            rng.random((m, columns)) < 0.4, rng.choice(notorious, size=(m, columns)), public
        )
        centers = rng.choice([0.0, 1.0, -1e308], size=columns)
        if sides == 1:
            public = np.abs(public)
            centers = np.zeros(columns)
        factors = (rng.random(columns) * 50.0 * (m > 0)).tolist()
        given = (
            counts,
            sides,
            log2_parts,
            public,
            centers,
            (rng.random(columns) * 90.0).tolist(),
            factors,
        )
        values, variances, found = support.pooled_counts(*given)
        with np.errstate(over="ignore"):
            slowly = slowly_pooled(*given)
        np.testing.assert_allclose(values, slowly[0], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(variances, slowly[1], rtol=1e-9, atol=1e-9)
        assert [each.tolist() for each in found] == slowly[2]
