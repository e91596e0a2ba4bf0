"""Intervals reach as far as their parts say, and as answers spread; bounds on distant rows are those of the population.

The faults that are planted here scale one side of an interval, a width or a tail: each shows in the class of its kind.
"""

import dataclasses

import numpy as np
import pytest

from fastpubpriv.results.estimates import ColumnReport
from fastpubpriv.results.models import LinearModel
from fastpubpriv.results.ranks import EdgeRanks
from tests.truth import printed_parts, reaches, terms


def test_every_interval_is_what_its_printed_parts_say():
    assert printed_parts.other_reaches(terms.answers()) == []


@pytest.mark.parametrize("name", reaches.SETTINGS)
def test_answers_spread_and_tails_reach_as_far_as_recorded(name):
    assert reaches.moved(name) == []


# ---- Ratios ----------------------------------------------------------------------------------------------------------
def test_the_rows_beyond_the_last_ones_are_what_a_tail_is_compared_with():
    influences = np.zeros(1_000)
    influences[:10] = (
        5.0  # of 20 rows that counts do not show half lie at 5, a quantile beyond zero
    )
    assert reaches.excess(influences, rows=1_000) == pytest.approx(10 * 5.0 / 1_000)


def test_spreads_are_in_units_of_each_half():
    draws = [reaches.Halves(error, 1.0, 2.0) for error in (-1.0, 1.0)] * (reaches.DRAWS // 2)
    assert reaches.spread_of(draws) == pytest.approx((1.96, 0.98), abs=1e-4)


# ---- Planted faults --------------------------------------------------------------------------------------------------
def test_an_upper_end_that_is_a_tenth_too_far_is_found(monkeypatch):
    right = LinearModel._ends_about

    def wide(self, known, std, level):
        lower, upper = right(self, known, std, level)
        return lower, self.interval_center + 1.1 * (upper - self.interval_center)

    monkeypatch.setattr(LinearModel, "_ends_about", wide)
    found = printed_parts.other_reaches({"classes": terms.answers()["classes"]})
    assert "classes: coefficient at 0.95" in found


def test_a_lower_end_of_a_mean_that_is_a_tenth_too_near_is_found(monkeypatch):
    right = ColumnReport.interval

    def near(self, mean, *given):
        lower, upper = right(self, mean, *given)
        return mean - 0.9 * (mean - lower), upper

    monkeypatch.setattr(ColumnReport, "interval", near)
    found = printed_parts.other_reaches({"mean": terms.answers()["mean"]})
    assert found == [f"mean: mean at {level}" for level in printed_parts.LEVELS]


def test_an_upper_end_of_quantiles_that_is_too_far_is_found(monkeypatch):
    right = EdgeRanks.ends
    monkeypatch.setattr(
        EdgeRanks, "ends", lambda self, q, z: (right(self, q, z)[0], right(self, q, 1.5 * z)[1])
    )
    (line,) = reaches.moved("median")
    assert line.startswith("median, quantile, above: ")


@pytest.mark.parametrize("factor", [0.0, 0.5, 2.0])
def test_a_tail_of_another_size_is_found(monkeypatch, factor):
    def scaled(call, result):
        report = result.report
        larger = dataclasses.replace(report, tail_above=factor * report.tail_above)
        return reaches.of_means(call, dataclasses.replace(result, report=larger))

    setting = reaches.SETTINGS["mean, skewed"]._replace(tails={"tail of mean": scaled})
    monkeypatch.setattr(reaches, "SETTINGS", {"mean, skewed": setting})
    (line,) = reaches.moved("mean, skewed")
    assert line.startswith("mean, skewed, tail of mean, above: ")


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_worst_case_of_another_size_is_found(monkeypatch, factor):
    def scaled(call, result):
        report = result.report
        larger = dataclasses.replace(report, worst_below=factor * report.worst_below)
        return reaches.of_means_at_worst(call, dataclasses.replace(result, report=larger))

    setting = reaches.SETTINGS["mean, bounds"]._replace(tails={"worst": scaled})
    monkeypatch.setattr(reaches, "SETTINGS", {"mean, bounds": setting})
    (line,) = reaches.moved("mean, bounds")
    assert line.startswith("mean, bounds, worst, below: ")
