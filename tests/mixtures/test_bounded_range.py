"""Mixtures from private rows within bounds: any budget, without public rows and without a delta."""

from fractions import Fraction

import numpy as np
import pytest
from helpers.errors import raises
from mixture_cases import learn, separated, total_variation
from spies import seeded

from benchmarks.papers.mixture_cases import CASES, Truth, distance_by_draws, released
from fastpubpriv import ZCDP, ApproxDP, Ledger, PureDP, learn_separated_mixture, plan
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.mixtures.axis_aligned import bounded_range
from fastpubpriv.mixtures.axis_aligned.bounded_range import DividedRange
from fastpubpriv.session import PaddedRowsError

BUDGETS = (PureDP(1), ZCDP(0.1), ZCDP(0.5))

# ---- Cells of a range -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.0), (-1e6, 1e7), (1e9, 1e9 + 1e-5), (-1e149, 1e149), (0.0, 1e-300)]
)
def test_edges_ascend_and_hold_the_bounds_however_often_cells_are_divided(low, high):
    at = DividedRange.of(low, high)
    for _ in range(8):
        at = at.divided(np.where(np.arange(len(at.counts)) % 50 == 7, 16, 1))
    edges = at.edges
    assert np.all(np.diff(edges) > 0.0)
    assert edges[0] <= low
    assert edges[-1] >= high
    assert len(edges) == len(at.counts) + 1


def test_division_keeps_rows_and_joining_undoes_it():
    at = DividedRange.of(0.0, 1.0)
    rows = np.zeros(len(at.counts))
    rows[3] = 160.0
    held = DividedRange(at.start, at.length, at.ends, rows)
    split = held.split(limit=100.0)
    assert split.counts[3:19] == pytest.approx(10.0)
    assert split.counts.sum() == pytest.approx(160.0)
    joined = split.joined(least=11.0)
    assert joined.counts.sum() == pytest.approx(160.0)
    # Sixteen parts of 10 rows become eight of 20, and all cells without rows become few.
    assert np.sort(joined.counts)[-8:] == pytest.approx(20.0)
    assert len(joined.counts) < 30


def test_cells_are_few_enough_for_the_declared_noise_whatever_counts_say():
    at = DividedRange.of(0.0, 1.0)
    for _ in range(6):
        at = DividedRange(at.start, at.length, at.ends, np.full(len(at.counts), 1e300))
        at = at.split(limit=1.0)
    held = DividedRange(at.start, at.length, at.ends, np.full(len(at.counts), 1e300))
    edges = held.of_rows(1.0, noise_std=1.0).edges
    assert len(at.counts) < len(edges) <= bounded_range.MOST_EDGES
    assert np.all(np.diff(edges) > 0.0)


def test_the_image_of_a_box_holds_the_images_of_its_corners():
    matrix = np.array([[2.0, -1.0], [0.5, 3.0]])
    box = (np.array([-1.0, 0.0]), np.array([2.0, 5.0]))
    low, high = bounded_range.seen_through(matrix, box)
    corners = np.array([[a, b] for a in (-1.0, 2.0) for b in (0.0, 5.0)]) @ matrix.T
    assert low == pytest.approx(corners.min(axis=0))
    assert high == pytest.approx(corners.max(axis=0))


# ---- What it finds --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [5e3, 1e6])
@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
@pytest.mark.parametrize("name", CASES)
def test_one_column_is_found_within_wide_and_narrow_bounds(name, budget, width):
    truth = CASES[name]
    values = truth.draw(np.random.default_rng(1), 10_000)
    result = learn(
        values, len(truth.weights), budget=budget, bounds=(-width, width), random_state=2
    )
    assert result.status == "ok", result.part_reasons
    assert result.provenance["range"] == "bounds"
    assert result.spent == budget
    distance = distance_by_draws(truth, released(result), np.random.default_rng(3))
    # With a delta the learner that finds the range by itself is .02 away at this number of rows.
    assert distance < 0.03
    lower, upper = result.fit_interval
    assert lower <= distance <= upper


def apart(dim, step):
    means = np.array([np.zeros(dim), np.full(dim, step)])
    return Truth(np.array([0.5, 0.5]), means, np.ones((2, dim)))


# Problem, budget, bound on the total variation: 1.5 times the largest of four draws.
COLUMNS = {
    "2 columns": (apart(2, 1.6), ZCDP(0.1), 0.02), "8 columns": (apart(8, 1.6), ZCDP(0.1), 0.025),
    "20 columns": (apart(20, 1.6), ZCDP(0.1), 0.035), "pure, 4 columns": (apart(4, 1.6), PureDP(1), 0.05),
    "pure, far": (apart(3, 1e4), PureDP(1), 0.04),
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_overlapping_components_are_found_without_delta_and_public_rows(name):
    truth, budget, bound = COLUMNS[name]
    rows = truth.draw(np.random.default_rng(1), 40_000)
    result = learn(rows, 2, budget=budget, bounds=(-3e4, 3e4), random_state=1)
    distance = distance_by_draws(truth, released(result), np.random.default_rng(2))
    assert distance < bound, distance
    assert result.status == "ok", result.part_reasons
    assert result.spent == budget


# Bounds: those of the same problems with a delta, where the range takes blocks of rows.
@pytest.mark.parametrize(
    ("truth", "bound"),
    [
        (separated(np.random.default_rng(1), 3, 3, 6.0), 0.027),
        (separated(np.random.default_rng(2), 8, 2, 6.0), 0.035),
        (separated(np.random.default_rng(5), 10, 4, 100.0), 0.1),
    ],
    ids=["3 columns", "8 columns", "far apart"],
)
def test_full_covariances_are_found_without_delta_and_public_rows(truth, bound):
    rows = truth.draw(np.random.default_rng(1), 40_000)[0]
    k = len(truth.weights)
    given = {"budget": ZCDP(0.1), "bounds": (-1e4, 1e4), "random_state": 0}
    result = seeded(learn_separated_mixture, rows, n_components=k, threads=1, **given)
    distance = total_variation(truth, result)
    assert distance < bound, distance
    assert result.status == "ok", result.part_reasons
    assert result.provenance["range"] == "bounds"
    assert result.spent == ZCDP(0.1)


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_full_covariances_that_laplace_noise_hides_are_never_ok():
    truth = separated(np.random.default_rng(2), 8, 2, 6.0)
    rows = truth.draw(np.random.default_rng(1), 40_000)[0]
    given = {"budget": PureDP(1), "bounds": (-1e4, 1e4), "random_state": 0}
    result = seeded(learn_separated_mixture, rows, n_components=2, threads=1, **given)
    assert total_variation(truth, result) > 0.1
    assert result.status != "ok"


@pytest.mark.parametrize("budget", [*BUDGETS, ApproxDP(1, 1e-6)], ids=repr)
def test_persons_with_several_rows_need_no_public_rows_in_one_column(budget):
    """Of 6,000 persons some have one row, others six; rows that pad a person are in no cell."""
    rng = np.random.default_rng(4)
    of_person = np.repeat(np.arange(6_000), rng.integers(1, 7, 6_000))
    truth = CASES["two"]
    table = {"who": of_person, "x": truth.draw(rng, len(of_person))[:, 0]}
    import pandas as pd

    result = learn(
        pd.DataFrame(table),
        2,
        budget=budget,
        bounds=(-100.0, 100.0),
        columns=["x"],
        person="who",
        rows_per_person=2,
    )
    # Two persons of three have more rows than two.
    assert result.reasons == ("rows_left_out",)
    assert set(result.part_status) == {"ok"}
    assert distance_by_draws(truth, released(result), np.random.default_rng(5)) < 0.03


@pytest.mark.parametrize("budget", [PureDP(1), ZCDP(0.5)], ids=repr)
@pytest.mark.parametrize(("low", "high"), [(7.0, 8.0), (0.0, 7.0), (-1e6, 1e6)])
def test_a_constant_is_one_atom_even_on_a_bound(budget, low, high):
    result = learn(np.full(20_000, 7.0), 2, budget=budget, bounds=(low, high))
    assert result.part_reasons == (("ties",),)
    assert result.means[0, 0] == pytest.approx(7.0, abs=1e-8 * (high - low))


def test_two_values_on_the_bounds_are_two_atoms():
    values = (np.random.default_rng(0).random(20_000) < 0.03).astype(float)
    for budget in (PureDP(1), ZCDP(0.5)):
        result = learn(values, 2, budget=budget, bounds=(0.0, 1.0))
        assert set(result.part_reasons) == {("ties",)}
        assert result.weights == pytest.approx([0.97, 0.03], abs=0.005)
        assert result.means[:, 0] == pytest.approx([0.0, 1.0], abs=1e-3)


def test_rounded_values_of_a_wide_mixture_are_no_atoms():
    rng = np.random.default_rng(0)
    values = np.where(
        rng.random(20_000) < 0.7, rng.normal(-3.0, 5.0, 20_000), rng.normal(60.0, 20.0, 20_000)
    )
    for budget in (PureDP(1), ZCDP(0.5)):
        result = learn(np.rint(values), 2, budget=budget, bounds=(-200.0, 300.0))
        assert result.status == "ok"
        assert result.means[:, 0] == pytest.approx([-3.0, 60.0], abs=2.0)


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize(("low", "high"), [(1000.0, 2000.0), (0.0, 20.0)])
def test_rows_outside_the_bounds_are_never_ok(low, high):
    rng = np.random.default_rng(0)
    values = np.where(
        rng.random(20_000) < 0.7, rng.normal(-3.0, 5.0, 20_000), rng.normal(60.0, 20.0, 20_000)
    )
    result = learn(values, 2, budget=ZCDP(0.5), bounds=(low, high))
    assert result.status == "unreliable"
    assert np.all((low <= result.means) & (result.means <= high))


@pytest.mark.parametrize("budget", [PureDP(1), ZCDP(0.5)], ids=repr)
def test_known_scales_within_bounds(budget):
    truth = Truth.line([0.4, 0.6], [-2.0, 3.0], [1.5, 1.5])
    values = truth.draw(np.random.default_rng(1), 10_000)
    result = learn(values, 2, budget=budget, bounds=(-50.0, 50.0), variance=2.25)
    assert result.status == "ok"
    assert distance_by_draws(truth, released(result), np.random.default_rng(2)) < 0.02


def test_bounds_stand_in_for_equal_public_rows():
    values = CASES["two"].draw(np.random.default_rng(1), 10_000)
    result = learn(values, 2, budget=ZCDP(0.5), x_pub=np.full((5, 1), 2.0), bounds=(-200.0, 300.0))
    assert result.status == "ok"
    assert result.provenance["range"] == "bounds"


# ---- Before and after the debit -------------------------------------------------------------------------------------

ROWS = CASES["two"].draw(np.random.default_rng(1), 5_000)


@pytest.mark.parametrize(
    ("rows", "options", "error", "words"),
    [
        (ROWS, {}, BudgetError, r"bounds=\(lowest, highest\)"),
        (ROWS, {"bounds": (0.0, np.inf)}, BudgetError, r"bounds=\(lowest, highest\)"),
        (ROWS, {"bounds": (-1e300, 1e300)}, BudgetError, r"bounds=\(lowest, highest\)"),
        (ROWS, {"bounds": (3.0, 3.0)}, InputError, "bounds"),
        (ROWS, {"bounds": (0.0, 9.0), "method": "list_decoding"}, BudgetError, "need a delta"),
        (ROWS[:10], {"bounds": (0.0, 9.0)}, InputError, "at least 16 private rows"),
    ],
)
@pytest.mark.parametrize("budget", [PureDP(1), ZCDP(0.5)], ids=repr)
def test_refused_before_the_debit(rows, options, error, words, budget):
    ledger = Ledger(budget)
    raises(error, words, learn, rows, 2, budget=budget, ledger=ledger, **options)
    assert not ledger.entries


def test_padded_persons_of_several_columns_are_refused():
    import pandas as pd

    table = pd.DataFrame({"who": np.arange(5_000) // 2, "x": ROWS[:, 0], "y": ROWS[:, 0]})
    options = {"person": "who", "rows_per_person": 3, "columns": ["x", "y"], "bounds": (-9.0, 9.0)}
    raises(PaddedRowsError, "of one column, bounds=", learn, table, 2, budget=ZCDP(0.5), **options)


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
def test_looks_that_are_not_needed_are_spent_on_the_cells(budget, monkeypatch):
    """Components as wide as a cell of the first look need one; the cells get the rest, and all together the budget."""
    released_names = []
    original = bounded_range.Session.release

    def named(self, measured, *, name, cost, **facts):
        before = self.account.charged
        answer = original(self, measured, name=name, cost=cost, **facts)
        released_names.append((name, self.account.charged - before))
        return answer

    monkeypatch.setattr(bounded_range.Session, "release", named)
    learn(ROWS, 2, budget=budget, bounds=(-60.0, 60.0))
    names = [name for name, _ in released_names]
    assert names[:-1] == ["look"] * (len(names) - 1)
    assert names[-1] == "cells"
    assert 1 <= len(names) - 1 < 4
    spent = sum((cost for _, cost in released_names), Fraction(0))
    (amount,) = budget.amounts
    assert Fraction(99, 100) * amount < spent <= amount


def test_planted_fault_looks_that_cost_nothing_are_refused(monkeypatch):
    monkeypatch.setattr(bounded_range, "look_cost", lambda spending: spending)
    raises(BudgetError, "exceed the budget", learn, ROWS, 2, budget=PureDP(1), bounds=(-1e6, 1e6))


@pytest.mark.parametrize("budget", [PureDP(1), ZCDP(0.5)], ids=repr)
@pytest.mark.parametrize("dim", [1, 3])
def test_plan_knows_bounds(budget, dim):
    given = {"dim": dim, "n_components": 2, "n_priv": 20_000}
    raises(BudgetError, "bounds=", plan, "axis_aligned_mixture", budget=budget, **given)
    forecast = plan("axis_aligned_mixture", budget=budget, bounds=(-9.0, 9.0), **given)
    assert 0.0 < forecast.error < 2.0
    raises(BudgetError, "bounds=", plan, "separated_mixture", budget=budget, **given)
    forecast = plan("separated_mixture", budget=budget, bounds=(-9.0, 9.0), **given)
    assert 0.0 < forecast.error < 2.0
