"""Accuracy on real columns against wide limits; seeded, so that every run on every machine gives the same numbers.

The limits are about twice the measured values. `python -m benchmarks.accuracy` measures all columns and cells; this module a few of
them, from tables that the tests install anyway.
"""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.accuracy import (
    choosing,
    coefficients,
    contestants,
    covariances,
    gaussians,
    hindsight,
    keeping,
    means,
    mixtures,
    report,
    tables,
)

# Right-skewed, heavy-tailed on both sides, bounded, a year, counts with one outlier, nearly all zeros.
COLUMNS = (
    "flights.dep_delay",
    "flights.distance",
    "weather.humid",
    "weather.wind_speed",
    "weather.precip",
    "planes.year",
    "planes.seats",
    "planes.engines",
    "airports.alt",
    "airports.lon",
)
RESAMPLES = 12


def test_the_list_of_columns():
    names = [f"{table}.{name}" for table, found in tables.COLUMNS.items() for name in found]
    assert len(names) == len(set(names)) >= 60
    assert len(tables.COLUMNS) >= 20
    halves = [tables.half_of(name) for name in names]
    assert 25 <= halves.count("tuning") <= len(names) - 25


def test_raw_tables_are_in_two_halves_and_all_sources_are_known():
    halves = [table.half for table in tables.REGRESSIONS.values()]
    assert len(halves) >= 8
    assert {"tuning", "report"} == {*halves}
    assert 0.4 <= halves.count("report") / len(halves) <= 0.6
    assert {table.source for table in tables.REGRESSIONS.values()} <= {*tables.RAW_TABLES}
    for table in tables.REGRESSIONS.values():  # a table is not in both halves
        assert (table.half == "tuning") == (table.source in (*tables.RAW_TUNING, "college"))


def test_least_squares_and_the_excess_of_others_can_be_worked_by_hand():
    x = np.array([[0.0], [0.0], [2.0], [2.0]])
    y = np.array([1.0, 3.0, 5.0, 7.0])
    found = coefficients.LeastSquares.of(x, y)
    assert found.coefficients == pytest.approx([2.0])
    assert found.variance == pytest.approx(1.0)
    assert found.deviations == pytest.approx([0.5])  # x has variance 1: sqrt(1 / (4 * 1))
    assert found.excess(np.array([2.5])) == pytest.approx(0.25 / (1.0 / 4.0))


def test_coefficients_of_a_table_that_is_given(monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4_000, 2))
    made = coefficients.Labels(x, x @ [1.0, -1.0] + rng.normal(size=4_000), ("a", "b"))
    monkeypatch.setattr(coefficients, "labeled", lambda name: made)
    (line,) = (
        coefficients.run_setting(coefficients.Setting("gpa", 200, budget, 2_000), 3)
        for budget in ("rho 0.5",)
    )
    assert line["ok"] + line["flagged"] == 6
    assert line["coverage"] > 0.8
    assert line["excess"] < line["public excess"]
    assert coefficients.coverage_row([line | {"half": "report"}], "coefficients")["below"] == "none"
    low = coefficients.coverage_row([line | {"half": "report", "coverage": 0.5}], "coefficients")
    assert low["below"] == "gpa (200, rho 0.5)"


def test_deviations_of_a_normal_population_and_coverage_of_its_moments():
    of = covariances.population("normal")
    scale = of.truth["standard_deviation"]
    r = of.truth["correlation"]
    assert of.deviations["standard_deviation"] == pytest.approx(scale / np.sqrt(2.0), rel=0.03)
    pairs = np.triu_indices(4, 1)
    assert of.deviations["correlation"][pairs] == pytest.approx(1.0 - r[pairs] ** 2, rel=0.03)
    assert of.deviations["covariance"][pairs] == pytest.approx(
        (np.outer(scale, scale) * np.sqrt(1.0 + r**2))[pairs], rel=0.03
    )
    line = covariances.run_setting(covariances.Setting("normal", 5_000, 20, "rho 0.5"), 3)
    assert min(line[f"{kind} coverage"] for kind in covariances.KINDS) > 0.8
    assert line["guess"] == 0.0
    assert 0.5 < line["predicted"] / line["error"] < 2.0
    low = coefficients.coverage_row(
        [line | {"half": "report", "mean coverage": 0.5}], "means", "mean "
    )
    assert low["below"].startswith("normal (20, rho 0.5): 0.50, without noise ")


def test_a_rule_that_is_told_the_shape_chooses_an_interval_better_than_one_that_is_told_others():
    normal, rare = (choosing.general_shapes()[place] for place in (0, -2))
    # (3 - 1) / 2
    assert choosing.cut(np.array([0.0, 3.0]))[choosing.CLIPS == 1.0] == pytest.approx(1.0)
    assert choosing.counted(np.array([-1.0, 1.0, 4.0])).sum() == pytest.approx(choosing.CELL.n)
    told = choosing.ratio(
        normal, choosing.Hypotheses.of([normal], 1.0), 0.47, 10, np.random.default_rng(1)
    )
    misled = choosing.ratio(
        normal, choosing.Hypotheses.of([rare], 1.0), 0.47, 10, np.random.default_rng(1)
    )
    assert 0.5 < told < 1.6
    assert misled > 1.5 * told


def test_best_radius_in_hindsight_of_columns_that_can_be_worked_by_hand():
    cell = means.Cell(100, 1, "rho", 0.5)
    # radius 1/2 about the median: no bias
    coin = hindsight.best_radius_error(np.array([0.0, 1.0]), cell)
    assert coin == pytest.approx(np.sqrt(0.25 / 100 + (0.5 * 2.0 / 100) ** 2))
    assert hindsight.best_radius_error(np.full(9, 3.0), cell) == 0.0
    # One value in a thousand at 1000: leaving it out costs a bias of 1, keeping it noise of 20.
    rare = np.zeros(1000)
    rare[-1] = 1000.0
    assert hindsight.best_radius_error(rare, cell) == pytest.approx(1.0)
    assert hindsight.equivalent_pure(cell).amounts[0] == 1


def test_scores_of_answers():
    answers = [contestants.Answer(1.0, 0.0, 2.0), contestants.Answer(5.0, 4.5, 5.5, "heavy_tail")]
    found = means.score(answers, truth=0.5, best=1.0)
    assert found["rmse"] == pytest.approx(np.sqrt((0.25 + 20.25) / 2.0))
    assert (found["plain"], found["covered_plain"], found["coverage"]) == (1, 1, 0.5)
    assert found["reasons"]["heavy_tail"] == {"answers": 1, "covered": 0, "rmse": 4.5}


def test_a_run_that_was_stopped_goes_on_where_it_was(tmp_path):
    kept = tmp_path / "kept.lines"
    tasks = [keeping.Task(f"power {k}", pow, (2, k)) for k in range(3)]
    assert keeping.results(tasks[:2], keep=kept) == [1, 2]
    with kept.open("a", encoding="utf-8") as lines:
        lines.write('\n{"key": "power 1", "resu')  # the run was interrupted in the middle of a line
    never = [keeping.Task(task.key, divmod, (1, 0)) for task in tasks[:2]]
    assert keeping.results([*never, tasks[2]], keep=kept) == [1, 2, 4]
    assert keeping.results(tasks, keep=kept, processes=2) == [1, 2, 4]


@pytest.fixture(scope="module")
def cells():
    chosen = [
        column for column in tables.columns(tables=tables.FLIGHT_TABLES) if column.name in COLUMNS
    ]
    assert len(chosen) == len(COLUMNS)
    grid = means.cells((300, 2_000), (1, 50), (("rho", 0.5), ("epsilon", 1.0)))
    return means.run(chosen, grid, resamples=RESAMPLES, names=("estimate_mean",))


@pytest.mark.parametrize(("n", "median", "decile"), [(300, 1.8, 3.5), (2_000, 1.5, 2.5)])
def test_error_against_the_best_radius_in_hindsight(cells, n, median, decile):
    found = report.ratios([cell for cell in cells if cell["n"] == n], "estimate_mean")
    assert len(found) == 4 * len(COLUMNS)
    assert np.median(found) <= median
    assert np.quantile(found, 0.9) <= decile


def test_a_large_error_has_a_reason(cells):
    assert report.ratios(cells, "estimate_mean", "plain_ratio").max() <= 5.0


def test_intervals_hold_the_truth(cells):
    assert report.coverage(cells, "estimate_mean") >= 0.9
    assert report.flagged(cells, "estimate_mean") <= 0.5


@pytest.mark.parametrize("place", range(3))
def test_gaussians_are_never_worse_than_the_obvious(place):
    problem = gaussians.normal_problem(*gaussians.GRID[place])
    line = gaussians.run_problem(problem, "rho 0.5", 5)
    assert line["covariance ratio"] <= 1.5
    assert line["mean ratio"] <= 1.5
    assert not line["worst silent covariance"] > 2.0


@pytest.mark.parametrize("place", [0, 3])
def test_separated_mixtures_are_never_worse_than_the_obvious(place):
    """The fit is not worse than simple baselines, even with one public row for each component."""
    line = mixtures.separated(mixtures.GRID[place], 2)
    assert line["ratio to public"] <= 0.3
    assert line["worst silent"] <= 0.5


def test_mixtures_of_real_tables_are_never_worse_than_the_public_rows():
    line = mixtures.of_table("weather", 2, n=4_000)
    assert line["ratio to public"] <= 1.0
    assert line["absurd and ok"] == 0
    (engines,) = (
        column for column in tables.columns(tables=["planes"]) if column.name == "planes.engines"
    )
    assert mixtures.of_counts(engines, 2)["absurd and ok"] == 0
