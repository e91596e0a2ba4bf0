"""Exact record and replay of the learners of axis-aligned mixtures: releases promise what they cost, and nothing passes them by."""

import dataclasses
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from helpers.errors import raises
from helpers.neighbors import pair_at, replaced

from fastpubpriv import ZCDP, ApproxDP, PureDP, ReplayError, learn_axis_aligned_mixture
from fastpubpriv.auditing import record_replay
from fastpubpriv.mixtures import em_rounds
from fastpubpriv.mixtures.axis_aligned import axis_aligned_mixture as axis_aligned
from fastpubpriv.mixtures.axis_aligned import bounded_range, column_modes, one_column, places
from fastpubpriv.sources import views

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")

APPROX = ApproxDP(1, 1e-6)
COMMON = {"threads": 1, "progress": False}
HOSTILE = [
    np.nan,
    np.inf,
    -np.inf,
    1e308,
    -1.7976931348623157e308,
    5e-324,
    -0.0,
    1e9,
    -1e9,
    2.0**53,
]


def public(dim):
    return np.random.default_rng(9).normal(size=(25, dim)) * 2.0 + 3.0


def runner(dim, budget, **options):
    if options.pop("with_public", False):
        options["x_pub"] = public(dim)
    components = 1 if options.get("method") == "list_decoding" else 2
    return lambda x: learn_axis_aligned_mixture(
        x, n_components=components, budget=budget, **COMMON, **options
    )


FEW_PUBLIC = np.random.default_rng(5).normal(size=(8, 7))
WITHIN = {"bounds": (-1e6, 1e7)}
RUNS = {
    "cells": (1, APPROX, {}),
    "cells, known variance": (1, APPROX, {"variance": 4.0}),
    "cells, large epsilon": (1, ApproxDP(30, 1e-5), {}),
    "cells near public rows, pure": (1, PureDP(1), {"with_public": True}),
    "cells near public rows, zcdp": (1, ZCDP(0.125), {"with_public": True}),
    "cells near public rows, approx": (1, APPROX, {"with_public": True}),
    "cells near public rows, Gaussian noise": (1, ApproxDP(0.005, 5e-4), {"with_public": True}),
    "cells near public rows, known variance": (
        1,
        PureDP(1),
        {"with_public": True, "variance": 4.0},
    ),
    "cells near three public rows, and a count": (
        1,
        ZCDP(0.125),
        {"x_pub": np.array([[1.0], [4.0], [9.5]])},
    ),
    "cells near equal public rows": (1, PureDP(1), {"x_pub": np.full((3, 1), 2.0)}),
    "cells within bounds, pure": (1, PureDP(1), WITHIN),
    "cells within bounds, zcdp": (1, ZCDP(0.125), WITHIN),
    "cells within bounds, known variance": (1, ZCDP(0.125), {**WITHIN, "variance": 4.0}),
    "sketch within bounds, zcdp": (7, ZCDP(0.125), WITHIN),
    "sketch within bounds, pure": (2, PureDP(1), WITHIN),
    "sketch, 2 columns": (2, APPROX, {}),
    "sketch, 7 columns": (7, APPROX, {}),
    "sketch, known covariance": (2, APPROX, {"covariance": [[4.0, 1.0], [1.0, 1.0]]}),
    "dp_em, zcdp": (2, ZCDP(0.125), {"with_public": True}),
    "dp_em, approx": (2, APPROX, {"with_public": True}),
    "dp_em, pure": (2, PureDP(1), {"with_public": True, "method": "dp_em"}),
    "dp_em with few public rows": (7, ZCDP(20), {"x_pub": FEW_PUBLIC}),
    "dp_em with few public rows, known variance": (
        7,
        ZCDP(20),
        {"x_pub": FEW_PUBLIC, "variance": 4.0},
    ),
    "dp_em, known variance": (2, ZCDP(0.125), {"with_public": True, "variance": 4.0}),
}


def neighbors(rng, dim, count, least=40):
    """Random pairs: sizes, scales and shapes, and a replaced row that is random, hostile, or a copy of another."""
    for _ in range(count):
        n = int(rng.choice([least, 300, 1500]))
        rows = rng.normal(size=(n, dim)) * 10.0 ** rng.choice([-300, -3, 0, 0, 1, 6, 300])
        rows[rng.random(n) < 0.4] += rng.choice([0.0, 9.0, 1e6])
        if rng.random() < 0.3:
            rows[rng.integers(n), rng.integers(dim)] = HOSTILE[rng.integers(len(HOSTILE))]
        yield rows, replaced(rng, rows, HOSTILE)


@pytest.mark.parametrize(("dim", "budget", "options"), RUNS.values(), ids=RUNS)
@pytest.mark.parametrize("times", [1, pytest.param(10, marks=pytest.mark.audit)])
def test_random_neighbors(dim, budget, options, times):
    run = runner(dim, budget, **options)
    for rows, other in neighbors(np.random.default_rng(70), dim, times * (3 if dim > 2 else 6)):
        report = record_replay(run, rows, other, budget=budget)
        assert (
            report.pair_cost <= report.declared_cost <= report.allowance * (1 + Fraction(1, 10**9))
        )


@pytest.mark.parametrize("place", [0, 1, 44, 119, 120, 279, 280, 399])
def test_every_block_of_the_cells_without_public_rows(place):
    # The first and last row of each block, replaced by hostile and by far values.
    rows = (
        np.random.default_rng(3).normal(size=(400, 1))
        + np.where(np.arange(400) % 3, 0.0, 50.0)[:, None]
    )
    for value in (np.nan, 1e300, 50.0):
        record_replay(runner(1, APPROX), *pair_at(rows, place, value), budget=APPROX)


def test_list_decoding_and_stages_keep_their_promises():
    budget = ApproxDP(4, 1e-7)
    run = runner(1, budget, method="list_decoding", accuracy=0.9, variance=4.0)
    rows = np.random.default_rng(12).normal(size=(20_000, 1))
    for place in (0, 7000, 19_999):
        record_replay(run, *pair_at(rows, place, 1e9), budget=budget)
    # Each stage has the whole budget and the run costs it once.
    rows = np.random.default_rng(4).normal(size=(4000, 1))
    report = record_replay(runner(1, APPROX), *pair_at(rows, -1, 1e9), budget=APPROX)
    assert report.calls == 3
    assert Fraction(99, 100) < report.declared_cost <= 1


def pair(value=77.0):
    return pair_at(np.random.default_rng(5).normal(size=(600, 1)), 300, value)


def test_catches_an_answer_that_bypasses_release(monkeypatch):
    original = one_column.learn

    def leaky(task):
        learned = original(task)
        private = next(iter(task.run.rows.chunks()))
        moved = learned.at.mapped(1e-12 * private[300, 0], 1.0)
        return replace(learned, at=moved)

    monkeypatch.setitem(axis_aligned.METHODS, "cells", replace(one_column.METHOD, learn=leaky))
    raises(
        ReplayError, "leaked past release", record_replay, runner(1, APPROX), *pair(), budget=APPROX
    )


def test_catches_cells_that_follow_the_rows(monkeypatch):
    original = one_column.CellCounts.release

    def centered(self, payer, rows, executor, **options):
        middle = float(np.mean(np.concatenate([chunk[:, 0] for chunk in rows.chunks()])))
        moved = dataclasses.replace(self, edges=[each + middle for each in self.edges])
        return original(moved, payer, rows, executor, **options)

    record_replay(runner(1, APPROX), *pair(1e6), budget=APPROX)
    monkeypatch.setattr(one_column.CellCounts, "release", centered)
    raises(ReplayError, "sensitivity", record_replay, runner(1, APPROX), *pair(1e6), budget=APPROX)
    run = runner(1, PureDP(1), with_public=True)
    raises(ReplayError, "sensitivity", record_replay, run, *pair(1e6), budget=PureDP(1))


def test_catches_looks_that_follow_the_rows(monkeypatch):
    original = bounded_range.DividedRange.of

    def shifted(low, high):
        return original(low + extremes[0], high)

    extremes = [0.0]
    rows, other = pair(1e6)
    run = runner(1, PureDP(1), **WITHIN)
    record_replay(run, rows, other, budget=PureDP(1))

    def learn(task):
        extremes[0] = max(float(chunk.max()) for chunk in task.run.rows.chunks())
        return one_column.learn(task)

    monkeypatch.setattr(bounded_range.DividedRange, "of", shifted)
    monkeypatch.setitem(axis_aligned.METHODS, "cells", replace(one_column.METHOD, learn=learn))
    raises(ReplayError, "sensitivity", record_replay, run, rows, other, budget=PureDP(1))


def test_catches_blocks_that_overlap(monkeypatch):
    def overlapping(rows, *shares):
        return tuple(rows.slice(0, rows.n) for _ in shares)

    monkeypatch.setattr(places, "interleave_rows", overlapping)
    raises(ReplayError, "disjoint", record_replay, runner(1, APPROX), *pair(), budget=APPROX)
    monkeypatch.setattr(places, "interleave_rows", views.interleave_rows)
    record_replay(runner(1, APPROX), *pair(), budget=APPROX)


def test_catches_a_statistic_that_depends_on_other_rows(monkeypatch):
    original = em_rounds.row_statistic

    def centered(chunk, at, radii):
        return original(chunk - np.nanmean(chunk, axis=0), at, radii)

    rows, other = pair_at(np.random.default_rng(6).normal(size=(300, 2)) + 3.0, 7, 1e6)
    run = runner(2, ZCDP(0.5), with_public=True)
    record_replay(run, rows, other, budget=ZCDP(0.5))
    monkeypatch.setattr(em_rounds, "row_statistic", centered)
    raises(ReplayError, "sensitivity", record_replay, run, rows, other, budget=ZCDP(0.5))


def test_catches_codes_that_depend_on_other_rows(monkeypatch):
    original = column_modes.codes

    def ranked(chunk, **given):
        # Whether a row lies above the chunk's mean: one replaced row moves several.
        return [
            (chunk[:, 0] > np.mean(chunk[:, 0])).astype(np.int64) + 0 * code
            for code in original(chunk, **given)
        ]

    rows = np.random.default_rng(8).normal(size=(4000, 2))
    rows[::2] += 50.0
    # A row of the last block, which counts combinations.
    last = views._Members(4000, 2**64 - 2**62, 2**64)
    rows, other = pair_at(rows, last.positions(10, 11)[0], 1e6)
    run = runner(2, APPROX)
    record_replay(run, rows, other, budget=APPROX)
    monkeypatch.setattr(column_modes, "codes", ranked)
    raises(ReplayError, "sensitivity", record_replay, run, rows, other, budget=APPROX)
