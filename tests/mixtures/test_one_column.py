"""One column: cells around public rows or released places, and what the fits to them find, pay and say."""

import numpy as np
import pandas as pd
import pytest
from helpers.errors import raises
from mixture_cases import APPROX, axis_matched, learn

from benchmarks.papers.mixture_cases import CASES, Truth, distance_on_line, released
from fastpubpriv import ZCDP, ApproxDP, Ledger, PureDP
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.axis_aligned import bounded_range, candidates, one_column

THREE = CASES["three"]
PURE = PureDP(1)


def distances(n, m, seeds, truth=THREE, budget=PURE):
    """Total variations of answers with m public rows."""
    found = []
    for seed in range(seeds):
        rng = np.random.default_rng([20, n, m, seed])
        result = learn(
            truth.draw(rng, n),
            len(truth.weights),
            budget=budget,
            x_pub=truth.draw(rng, m),
            random_state=seed,
        )
        found.append(distance_on_line(truth, released(result)))
    return found


# ---- What it finds.
# Medians of a prototype by private rows, and what they may be; a list of public fits had .063, .028, .044 and .015.
@pytest.mark.parametrize(("n", "median"), [
    (5000, 0.014),
    (10_000, 0.011),
    pytest.param(30_000, 0.006, marks=pytest.mark.extended),
    pytest.param(100_000, 0.004, marks=pytest.mark.extended),
])  # fmt: skip
def test_pure_privacy_with_forty_public_rows(n, median):
    found = distances(n, 40, seeds=6)
    assert np.median(found) < 1.5 * median
    assert max(found) < 0.03


def test_planted_fault_cells_that_are_too_coarse_are_seen(monkeypatch):
    monkeypatch.setattr(tuning, "FINEST", 30.0)
    assert np.median(distances(10_000, 40, seeds=3)) > 1.5 * 0.011


@pytest.mark.parametrize("budget", [PURE, ZCDP(0.0176), APPROX])
def test_five_public_rows_suffice(budget):
    assert np.median(distances(10_000, 5, seeds=3, budget=budget)) < 0.04


@pytest.mark.extended
@pytest.mark.parametrize("budget", [PURE, ZCDP(0.0176), APPROX])
@pytest.mark.parametrize("m", [0, 5, 40])
def test_an_answer_without_a_reason_is_right(budget, m):
    """Random overlapping mixtures of 1 to 5 components, two to six deviations apart."""
    if m == 0 and not isinstance(budget, ApproxDP):
        pytest.skip("the range takes a delta")
    rng = np.random.default_rng(m)
    right = []
    for seed in range(30):
        k = 1 + seed % 5
        stds = np.exp(rng.uniform(-0.7, 0.7, k))
        gaps = rng.uniform(2.0, 6.0, k) * stds
        weights = 0.5 * rng.dirichlet(np.ones(k)) + 0.5 / k
        truth = Truth(weights, np.cumsum(gaps)[:, None], stds[:, None])
        public = truth.draw(rng, m) if m else None
        rows = truth.draw(rng, int(rng.choice([2000, 10_000])))
        result = learn(rows, k, budget=budget, x_pub=public, random_state=seed)
        if result.status == "ok":
            right.append(distance_on_line(truth, released(result)) <= 0.1)
    assert len(right) >= 10
    assert np.mean(right) >= 0.95


FAR = Truth.line([0.3, 0.3, 0.4], [-1e9, 0.0, 1e9], [1.0, 30.0, 0.2])


@pytest.mark.parametrize("budget", [PURE, ZCDP(0.05)])
def test_deviations_that_are_tiny_beside_the_distances(budget):
    rng = np.random.default_rng(7)
    result = learn(FAR.draw(rng, 20_000), 3, budget=budget, x_pub=FAR.draw(rng, 20))
    assert (axis_matched(result, FAR) < [0.1, 0.1, 0.02]).all()


def test_powers_of_two_as_units_change_nothing_else():
    rng = np.random.default_rng(2)
    rows = THREE.draw(rng, 5000)
    public = THREE.draw(rng, 20)
    one = learn(rows, 3, budget=PURE, x_pub=public)
    other = learn(rows * 2.0**40, 3, budget=PURE, x_pub=public * 2.0**40)
    assert np.allclose(other.means / 2.0**40, one.means, rtol=1e-9)
    assert np.allclose(other.weights, one.weights, rtol=1e-9)


def test_public_rows_of_another_law_cost_accuracy_only():
    rng = np.random.default_rng(3)
    rows = THREE.draw(rng, 10_000)
    result = learn(rows, 3, budget=PURE, x_pub=rng.normal(3.0, 4.0, (40, 1)))
    assert distance_on_line(THREE, released(result)) < 0.06


def test_a_sentinel_leaves_the_other_components_as_they_are():
    rng = np.random.default_rng(4)
    rows = CASES["two"].draw(rng, 10_000)
    rows[rng.random(10_000) < 0.02] = 99_999.0
    result = learn(rows, 3, budget=PURE, x_pub=CASES["two"].draw(rng, 20))
    assert np.abs(np.sort(result.means[:, 0])[:2] - [-2.0, 3.0]).max() < 0.1
    assert result.part_reasons[2] != ()
    assert result.weights[2] == pytest.approx(0.02, abs=0.005)


# ---- Cells.
@pytest.mark.parametrize("values", [
    [0.0, 1.0],
    [-1e9, 0.0, 1e-9],
    [3.0, 3.0, 3.0, 4.0],
    [0.0, 5e-324],
    [-1e149, 0.0, 1e149],
    np.random.default_rng(0).standard_cauchy(2000),
])  # fmt: skip
@pytest.mark.parametrize("k", [1, 5])
def test_edges_ascend_and_cover_the_public_rows(values, k):
    edges = one_column.public_edges(np.array(values), k, 100.0, step=0.0, known_std=False)
    assert (np.diff(edges) > 0.0).all()
    assert edges[[0, -1]].tolist() == [-np.inf, np.inf]
    assert edges[1] < min(values) < max(values) < edges[-2]
    assert len(edges) < bounded_range.MOST_EDGES


def test_cells_are_fine_near_rows_and_double_far_from_them():
    values = np.sort(np.random.default_rng(1).normal(size=100))
    edges = one_column.public_edges(values, 2, 160.0, step=0.0, known_std=False)[1:-1]
    widths = np.diff(edges)
    middles = (edges[1:] + edges[:-1]) / 2.0
    assert widths[np.abs(middles) < 1.0].max() < 0.2
    # Beyond the outermost rows a width grows with the distance.
    assert 0.5 < widths[-2] / middles[-2] < 1.1


@pytest.mark.parametrize(("values", "step"), [
    ([0.0, 1.0, 7.0, 10.0], 1.0),
    ([0.1, 0.4, 1.9, 2.5], 0.3),
    ([1e9, 1e9 + 15.0, 1e9 + 40.0], 5.0),
    ([0.0, 5.0], 0.0),
    ([0.0, 1.0, np.pi], 0.0),
    (np.sort(np.random.default_rng(0).normal(size=50)), 0.0),
    ([-1e9, -1e9 + 1.7, 0.3, 28.4, 1e9, 1e9 + 0.11], 0.0),
])  # fmt: skip
def test_the_step_of_a_lattice(values, step):
    assert one_column.lattice_step(np.array(values)) == pytest.approx(step, rel=1e-6)


def rounded(rng, n):
    return np.rint(np.where(rng.random(n) < 0.4, rng.normal(40, 8, n), rng.normal(90, 12, n)))


@pytest.mark.parametrize("m", [3, 40])
def test_rounded_values_of_a_wide_mixture_are_no_comb(m):
    rng = np.random.default_rng(5)
    result = learn(rounded(rng, 10_000), 2, budget=PURE, x_pub=rounded(rng, m))
    assert result.status == "ok"
    assert np.abs(np.sort(result.means[:, 0]) - [40.0, 90.0]).max() < 1.0


def test_planted_fault_edges_on_rounded_values_are_seen(monkeypatch):
    rng = np.random.default_rng(5)
    rows = rounded(rng, 10_000)
    public = rounded(rng, 40)
    monkeypatch.setattr(one_column, "lattice_step", lambda values: 0.0)
    monkeypatch.setattr(candidates, "step_of_comb", lambda cells, bound: None)
    result = learn(rows, 2, budget=PURE, x_pub=public)
    assert result.part_reasons == (("rough_fit",), ("rough_fit",))


# ---- Degenerate rows.
@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize("budget", [PURE, ZCDP(0.5)])
def test_equal_public_rows_show_no_scale(budget):
    rows = np.random.default_rng(6).normal(3.0, 1.0, 5000)
    result = learn(rows, 1, budget=budget, x_pub=np.full((5, 1), 2.0))
    assert result.part_reasons[0][0] == "few_public_rows"
    assert abs(result.means[0, 0] - 3.0) < 0.3


def test_equal_public_rows_leave_the_range_to_private_ones_if_there_is_a_delta():
    rows = np.random.default_rng(6).normal(1e6, 1.0, 5000)
    result = learn(rows, 1, x_pub=np.full((5, 1), 2.0))
    assert result.status == "ok"
    assert abs(result.means[0, 0] - 1e6) < 0.2
    assert result.provenance["range"] == "released"
    assert result.spent == APPROX


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize("rows", [
    np.full(4000, 7.0),
    np.full(4000, np.nan),
    np.array([1.0]),
    np.array([1.0, 2.0]),
    np.full(4000, 1e308),
], ids=["constant", "missing", "one", "two", "huge"])  # fmt: skip
@pytest.mark.parametrize("public", [[0.0, 1.0, 2.5], [7.0, 7.0, 7.0]], ids=["three", "equal"])
def test_degenerate_private_rows_give_an_answer_with_a_reason(rows, public):
    for budget in (PURE, ZCDP(0.1)):
        result = learn(rows, 3, budget=budget, x_pub=np.array(public)[:, None])
        assert np.isfinite(result.means).all()
        assert (result.variances > 0.0).all()
        assert result.weights.sum() == pytest.approx(1.0)
        assert result.status != "ok"


def test_rows_with_missing_values_do_not_count():
    rng = np.random.default_rng(8)
    rows = THREE.draw(rng, 10_000)
    rows[::2] = np.nan
    result = learn(rows, 3, budget=PURE, x_pub=THREE.draw(rng, 40))
    assert result.status == "ok"
    assert distance_on_line(THREE, released(result)) < 0.03


def test_persons_with_several_rows():
    rng = np.random.default_rng(9)
    table = pd.DataFrame({"who": rng.integers(0, 4000, 10_000), "x": THREE.draw(rng, 10_000)[:, 0]})
    public = pd.DataFrame({"x": THREE.draw(rng, 40)[:, 0]})
    given = {"person": "who", "rows_per_person": 3, "columns": ["x"], "x_pub": public}
    for budget in (PURE, APPROX, ZCDP(0.5)):
        result = learn(table, 3, budget=budget, **given)
        assert distance_on_line(THREE, released(result)) < 0.08
        assert result.rows_per_person == 3
    # Without public rows, rows that a person does not have would be pairs at a center.
    raises(InputError, "x_pub", learn, table, 3, **{**given, "x_pub": None})


# ---- What it pays.
def names(result):
    return [release["name"] for release in result.releases]


def test_a_delta_that_brings_nothing_is_not_spent():
    rng = np.random.default_rng(10)
    rows = THREE.draw(rng, 5000)
    public = THREE.draw(rng, 20)
    ledger = Ledger(APPROX)
    result = learn(rows, 3, x_pub=public, ledger=ledger)
    assert result.spent == PURE
    assert ledger.spent.amounts == (1, 0)
    assert names(result) == ["cells"]
    assert result.status == "ok"
    # Gaussian noise is smaller at a large delta, or where Laplace noise has no pure privacy.
    for budget in (ApproxDP(0.005, 1e-4), ApproxDP(60, 1e-6)):
        assert learn(rows[:1000], 3, budget=budget, x_pub=public).spent == budget


def test_rows_that_pay_for_a_count_of_the_fit():
    """Three public rows hide a step between values, so that the cells cannot test the fit."""
    rng = np.random.default_rng(11)
    rows = CASES["two"].draw(rng, 10_000)
    public = np.array([[-np.pi], [0.4], [3.3]])
    for budget in (PURE, ZCDP(0.1)):
        assert names(learn(rows, 2, budget=budget, x_pub=public)) == ["cells", "fit"]


def test_planted_fault_a_count_on_top_of_the_whole_budget_is_refused(monkeypatch):
    monkeypatch.setattr(one_column, "cost_of_cells", lambda spending: spending)
    rows = CASES["two"].draw(np.random.default_rng(11), 1000)
    public = np.array([[-np.pi], [0.4], [3.3]])
    raises(BudgetError, "exceed", learn, rows, 2, budget=PURE, x_pub=public)


@pytest.mark.parametrize("budget", [PURE, ZCDP(1)])
def test_the_range_takes_public_rows_or_a_delta(budget):
    raises(BudgetError, r"ApproxDP.*x_pub", learn, np.zeros(100), 2, budget=budget)


def test_noise_that_hides_the_rows_leaves_the_public_fit_with_a_reason():
    rng = np.random.default_rng(12)
    public = CASES["two"].draw(rng, 100)
    result = learn(CASES["two"].draw(rng, 200), 2, budget=PureDP(0.01), x_pub=public)
    assert result.status != "ok"
    assert distance_on_line(CASES["two"], released(result)) < 0.25
