"""Accuracy on real columns, held to wide margins: seeded, so that every run on every machine gives the same numbers.

The margins are about twice what was seen. `python -m benchmarks.accuracy` measures all columns and cells; here are few of them,
from tables that the tests install anyway.
"""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.accuracy import gaussians, means, report, tables

# Skewed with a long tail, heavy on both sides, bounded, a year, counts with one far value, nearly all zeros.
COLUMNS = (
    "flights.dep_delay", "flights.distance", "weather.humid", "weather.wind_speed", "weather.precip", "planes.year",
    "planes.seats", "planes.engines", "airports.alt", "airports.lon",
)  # fmt: skip
RESAMPLES = 12


@pytest.fixture(scope="module")
def cells():
    chosen = [column for column in tables.columns(tables=tables.FLIGHT_TABLES) if column.name in COLUMNS]
    assert len(chosen) == len(COLUMNS)
    grid = means.cells((300, 2_000), (1, 50), (("rho", 0.5), ("epsilon", 1.0)))
    return means.run(chosen, grid, resamples=RESAMPLES, names=("estimate_mean",))


@pytest.mark.parametrize(("n", "median", "decile"), [(300, 1.8, 3.5), (2_000, 1.5, 2.5)])
def test_error_against_the_best_radius_in_hindsight(cells, n, median, decile):
    found = report.ratios([cell for cell in cells if cell["n"] == n], "estimate_mean")
    assert len(found) == 4 * len(COLUMNS)
    assert np.median(found) <= median
    assert np.quantile(found, 0.9) <= decile


def test_a_large_error_has_a_status(cells):
    assert report.ratios(cells, "estimate_mean", "plain_ratio").max() <= 5.0


def test_intervals_hold_the_truth(cells):
    assert report.coverage(cells, "estimate_mean") >= 0.9
    assert report.flagged(cells, "estimate_mean") <= 0.4


@pytest.mark.parametrize("place", range(3))
def test_gaussians_are_never_worse_than_the_obvious(place):
    problem = gaussians.normal_problem(*gaussians.GRID[place])
    line = gaussians.run_problem(problem, "rho 0.5", 5)
    assert line["covariance ratio"] <= 1.5
    assert line["mean ratio"] <= 1.5
    assert not line["worst silent covariance"] > 2.0
