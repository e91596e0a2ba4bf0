"""Half-widths by their source: in squares they are the interval, and summaries and frames say what they are."""

import dataclasses
import re

import numpy as np
import pytest
from spies import seeded

import fastpubpriv as fpp
from fastpubpriv.results.estimates import ColumnReport, MeanResult

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
LEVELS = (0.5, 0.9, 0.95, 0.999)
WIDTHS = ["width_noise", "width_sampling", "width_clipping", "width_undetected"]
NUMBER = r"-?[\d,.]+"


def rows_of(n=4_000, constant=False):
    rng = np.random.default_rng(0)
    columns = [rng.normal(50.0, 10.0, n), rng.lognormal(2.0, 0.8, n), rng.exponential(3.0, n)]
    if constant:
        columns[2] = np.full(n, 7.0)
    return np.column_stack(columns)


def learned(function, rows, budget, **options):
    return seeded(function, rows[5:], x_pub=rows[:5].copy(), budget=budget, **options)


def larger_half(point, ends):
    lower, upper = ends
    return np.maximum(point - lower, upper - point)


def root_of_squares(parts):
    return np.sqrt((parts**2).sum(axis=-1))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("budget", [fpp.ZCDP(0.1), fpp.PureDP(1)], ids=["Gaussian", "Laplace"])
@pytest.mark.parametrize(
    ("function", "options"),
    [
        (fpp.estimate_mean, {}),
        (fpp.weighted_mean, {"norm_bound": "auto"}),
        (fpp.weighted_mean, {"norm_bound": 300.0}),
    ],
    ids=["counts", "norms", "no report"],
)
def test_squares_of_the_parts_add_up_to_that_of_the_larger_half(function, options, budget, level):
    result = learned(function, rows_of(), budget, **options)
    half = larger_half(result.mean, result.confidence_interval(level))
    assert root_of_squares(result.interval_parts(level)) == pytest.approx(half, rel=1e-12)


@pytest.mark.parametrize("level", LEVELS)
def test_parts_of_a_constant_column_hold_its_worst_case(level):
    result = learned(
        fpp.estimate_mean, rows_of(constant=True), fpp.ZCDP(0.1), bounds=(-1e3, 1e3), random_state=2
    )
    assert result.part_reasons[2] == ("constant",)
    half = larger_half(result.mean, result.confidence_interval(level))
    assert root_of_squares(result.interval_parts(level)) == pytest.approx(half, rel=1e-12)
    without = learned(fpp.estimate_mean, rows_of(constant=True), fpp.ZCDP(0.1))
    assert without.interval_parts(level)[2, 3] == np.inf


@pytest.mark.parametrize("level", LEVELS)
def test_parts_of_means_of_groups_are_their_intervals(level):
    rows = rows_of(12_000)
    rows[:, 2] = np.arange(12_000) % 3
    result = learned(fpp.estimate_mean, rows, fpp.ZCDP(0.5), by=-1, groups=[0, 1, 2])
    half = larger_half(result.mean[:3], [ends[:3] for ends in result.confidence_interval(level)])
    assert root_of_squares(result.interval_parts(level)[:3]) == pytest.approx(half, rel=1e-12)


def test_parts_of_a_description_are_those_of_its_means():
    result = learned(fpp.describe, rows_of(), fpp.ZCDP(0.1))
    assert np.array_equal(result.interval_parts(0.9), result.means.interval_parts(0.9))
    assert result.to_frame()[WIDTHS].to_numpy() == pytest.approx(result.interval_parts())


@pytest.mark.parametrize(("name", "place"), [("noise_std", 0), ("sampling_std", 1)])
def test_a_part_grows_with_its_own_error_alone(name, place):
    result = learned(fpp.estimate_mean, rows_of(), fpp.ZCDP(0.1))
    other = dataclasses.replace(result, **{name: 2.0 * getattr(result, name)})
    expected = result.interval_parts()
    expected[:, place] *= 2.0
    assert other.interval_parts() == pytest.approx(expected)


def test_a_half_without_undetected_rows_is_not_the_interval(monkeypatch):
    result = learned(fpp.estimate_mean, rows_of(), fpp.ZCDP(0.1))
    monkeypatch.setattr(ColumnReport, "_undetected", lambda self, width, unplaced: 0.0)  # planted
    half = larger_half(result.mean, result.confidence_interval())
    assert np.all(root_of_squares(result.interval_parts()) < half)


# ---- What summaries say ----------------------------------------------------------------------------------------------
def test_a_summary_has_a_line_of_parts_for_each_column():
    result = learned(fpp.estimate_mean, rows_of(), fpp.ZCDP(0.1))
    sources = ", ".join(
        f"{name} ({NUMBER})" for name in ("noise", "sampling", "clipping", "undetected rows")
    )
    lines = re.findall(rf"(x\d) ({NUMBER}) ± ({NUMBER}) \({sources}\)\n", result.summary())
    numbers = np.array([line[1:] for line in lines], dtype=float)
    assert [line[0] for line in lines] == ["x0", "x1", "x2"]
    half = root_of_squares(result.interval_parts())
    expected = np.column_stack([result.mean, half, result.interval_parts()])
    # two digits of the half-width
    assert np.all(np.abs(numbers - expected) <= 0.051 * half[:, None])


def test_many_columns_have_their_parts_in_the_frame_alone():
    rows = np.random.default_rng(0).normal(size=(4_000, 7))
    result = learned(fpp.estimate_mean, rows, fpp.ZCDP(0.5))
    assert "±" not in result.summary()
    assert "interval_parts() has the parts of each" in result.summary()
    assert result.to_frame()[WIDTHS].to_numpy() == pytest.approx(result.interval_parts())
    assert len(re.findall("rows between", result.summary())) == 1


def test_what_was_not_counted_is_said():
    result = learned(fpp.weighted_mean, rows_of(), fpp.ZCDP(0.1), norm_bound=300.0)
    assert np.all(result.interval_parts()[:, 2:] == 0.0)
    assert "sampling; clipping and undetected rows not counted\n" in result.summary()


def test_a_frame_from_json_has_the_parts():
    result = learned(fpp.estimate_mean, rows_of(), fpp.ZCDP(0.1))
    again = MeanResult.from_json(result.to_json())
    assert again.to_frame()[WIDTHS].equals(result.to_frame()[WIDTHS])


def facts_of(result):
    """The facts of a summary by name; lines without a name belong to the one above."""
    found = {}
    for line in result.summary().splitlines():
        name, _, text = line.partition("  ")
        found[name] = text.strip()
    return found


def test_a_mean_is_about_the_rows_that_counts_show():
    result = learned(fpp.estimate_mean, rows_of()[:, :1], fpp.ZCDP(0.1))
    report = result.report
    low, high, rows, share = re.fullmatch(
        rf"rows between ({NUMBER}) and ({NUMBER}) \(x0\); "
        rf"up to ({NUMBER}) rows \(({NUMBER}) %\) further out would not have been seen",
        facts_of(result)["Mean of"],
    ).groups()
    assert [float(low), float(high)] == pytest.approx(
        [report.resolved_from[0], report.resolved_to[0]], abs=0.6
    )
    assert float(rows) == pytest.approx(report.undetected_rows[0], abs=0.5)
    assert float(share) == pytest.approx(100.0 * report.undetected_rows[0] / 3_995, rel=0.05)


def test_within_bounds_a_mean_says_what_undetected_rows_would_do():
    result = learned(fpp.estimate_mean, rows_of()[:, :1], fpp.ZCDP(0.1), bounds=(0.0, 5e4))
    moved = re.search(rf"seen, and would move it by up to ({NUMBER})\n", result.summary())[1]
    worst = max(result.report.worst_below[0], result.report.worst_above[0])
    assert float(moved.replace(",", "")) == pytest.approx(worst, rel=0.05)


def test_a_column_that_is_not_located_is_about_nothing():
    result = learned(fpp.estimate_mean, np.full((4_000, 1), 7.0), fpp.ZCDP(0.1))
    assert "Mean of" not in facts_of(result)
