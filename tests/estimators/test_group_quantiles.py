"""Quantiles, counts and means by one column or several: the cells of groups, answers without noise, arguments, neighbors."""

from functools import partial
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from helpers.errors import raises
from helpers.neighbors import pair_at
from helpers.refusals import Refusals

from fastpubpriv import (
    ZCDP,
    ApproxDP,
    InputError,
    Ledger,
    PureDP,
    ReplayError,
    estimate_mean,
    quantiles,
    value_counts,
)
from fastpubpriv.auditing import record_replay
from fastpubpriv.mechanisms import cells

pytestmark = pytest.mark.filterwarnings(
    "ignore::fastpubpriv.AccuracyWarning", "ignore::fastpubpriv.SeededNoiseWarning"
)
EXACT = ZCDP(1e6)  # as good as no noise
PLAIN = {"threads": 1, "progress": False}
STATES = ["ME", "NH", "VT"]
SEXES = [0, 1]


def survey(n, seed):
    rng = np.random.default_rng(seed)
    place = rng.choice(4, n, p=[0.5, 0.2, 0.2, 0.1])
    sex = rng.integers(0, 3, n)
    age = rng.integers(18, 90, n) + 100.0 * place
    age[rng.random(n) < 0.03] = np.nan
    names = np.array([*STATES, "elsewhere"], dtype=object)
    return pd.DataFrame(
        {"age": age, "income": rng.lognormal(3.0 + sex, 0.5), "sex": sex, "state": names[place]}
    )


TABLE = survey(20_000, 0)
PUBLIC = survey(60, 1).dropna()
BOTH = {"by": ["state", "sex"], "groups": {"state": STATES, "sex": SEXES}, "x_pub": PUBLIC, **PLAIN}


def test_without_noise_each_group_of_two_columns_has_its_own_quantiles():
    result = quantiles(TABLE, q=(0.25, 0.5, 0.9), budget=EXACT, **BOTH)
    assert result.by == ("state", "sex")
    assert result.groups[:3] == (("ME", 0.0), ("ME", 1.0), ("NH", 0.0))
    assert result.quantile.shape == (7, 2, 3)
    other = ~TABLE["state"].isin(STATES) | (TABLE["sex"] == 2)
    for group in result.groups:
        mine = (
            other
            if group == "(other)"
            else (TABLE["state"] == group[0]) & (TABLE["sex"] == group[1])
        )
        rows = TABLE[mine]
        ages = np.quantile(rows["age"].dropna(), result.q, method="inverted_cdf")
        np.testing.assert_allclose(result[group][0], ages, rtol=1e-12)
        below = [(rows["income"] < value).mean() for value in result[group][1]]
        np.testing.assert_allclose(below, result.q, atol=2.0 / len(rows) + 0.002)
    lower, upper = result.confidence_interval(simultaneous=True)
    assert np.all((lower <= result.quantile) & (result.quantile <= upper))
    frame = result.to_frame()
    assert [*frame.index.names, *frame.columns[:2]] == ["state", "sex", "column", "q"]
    assert len(result.to_frame()) == 42


def test_means_of_two_columns_and_counts_by_group():
    means = estimate_mean(TABLE, budget=EXACT, **BOTH)
    truth = TABLE[TABLE["sex"] < 2].groupby(["state", "sex"])[["age", "income"]].mean()
    for state in STATES:
        for sex in SEXES:
            np.testing.assert_allclose(means[state, float(sex)], truth.loc[(state, sex)], rtol=0.02)
    counts = value_counts(
        TABLE, columns="sex", keys=[0, 1], by="state", groups=STATES, budget=EXACT, **PLAIN
    )
    table = pd.crosstab(TABLE["state"], TABLE["sex"]).loc[[*STATES, "elsewhere"]]
    np.testing.assert_allclose(counts.to_table()[:4, :3], table, atol=0.1)
    from_public = value_counts(
        TABLE, columns="sex", by="state", x_pub=PUBLIC, budget=EXACT, **PLAIN
    )
    assert from_public["ME", 1.0] == pytest.approx(table.loc["ME", 1], abs=0.1)


def test_a_group_of_few_rows_has_no_quantiles():
    rows = np.column_stack([np.arange(4000.0), np.where(np.arange(4000) < 40, 1.0, 0.0)])
    result = quantiles(
        rows, x_pub=rows[:4] + 0.5, by=-1, groups=[0, 1], budget=ZCDP(0.1), random_state=0, **PLAIN
    )
    assert result.part_reasons[3:6] == (("few_rows",),) * 3
    assert np.isnan(result[1.0]).all()
    assert np.isinf(result.confidence_interval()[1][1]).all()
    assert not np.isnan(result[0.0]).any()


REFUSED = Refusals()
REFUSED.add("groups= needs by=", quantiles, by=None)
REFUSED.add("by must be the name", quantiles, by=0)
REFUSED.add("each column once", quantiles, by=["state", "state"])
REFUSED.add("map them to lists", quantiles, groups=STATES)
REFUSED.add("town", quantiles, by=["state", "town"], groups=None)
REFUSED.add("too many", quantiles, by="state", groups=[f"g{k}" for k in range(9000)])
REFUSED.add("at most 10,000 groups", estimate_mean, groups={"state": STATES, "sex": range(5000)})
REFUSED.add("none of by=", value_counts, columns="state")
REFUSED.add(
    "no values of column 'age': list them in keys=", value_counts, columns="age", x_pub=None
)


@pytest.mark.parametrize(("call", "given", "words"), REFUSED, ids=[words for *_, words in REFUSED])
def test_refusals_cost_nothing(call, given, words):
    ledger = Ledger(ZCDP(1))
    raises(InputError, words, call, TABLE, **{**BOTH, "budget": ZCDP(1), "ledger": ledger, **given})
    assert not ledger.entries


# ---- neighbors ------------------------------------------------------------------------------------------------------
BUDGET = ZCDP(0.5)
ROWS = np.column_stack([np.random.default_rng(6).standard_normal((300, 2)), np.arange(300) % 3])
NEAR = np.column_stack([np.zeros((3, 2)), np.arange(3)])


def replayed(budget=BUDGET, old=(1e9, -1e9, 0.0), new=(-1e9, np.nan, 2.0)):
    call = partial(quantiles, x_pub=NEAR, by=-1, groups=[0, 1, 2], q=0.5, budget=budget, **PLAIN)
    return record_replay(call, *pair_at(ROWS, 7, old, new), budget=budget)


@pytest.mark.parametrize(
    "budget", [ZCDP(0.5), ApproxDP(1, 1e-6), PureDP(1)], ids=["zcdp", "approx", "pure"]
)
def test_replay_of_a_row_that_changes_its_group(budget):
    for new in ((-1e9, np.nan, 2.0), (1e9, -1e9, 7.0), (0.1, 0.1, np.inf)):
        report = replayed(budget, new=new)
        assert report.pair_cost <= report.declared_cost <= report.allowance


def test_a_moved_row_takes_nearly_the_whole_cost_and_planted_faults_are_caught():
    assert replayed(new=(-1e9, 1e9, 2.0)).tightness > 0.99
    between = cells.cells_between  # planted: all columns at the price of one
    with mock.patch.object(cells, "cells_between", lambda *given: (1, between(*given)[1])):
        raises(ReplayError, None, partial(replayed, new=(-1e9, 1e9, 2.0)))


@pytest.mark.parametrize("own", [False, True], ids=["common", "own"])
def test_counts_are_parted_as_the_pass_lays_them_out(own):
    rows = np.random.default_rng(3).normal(size=(300, 3))
    code = (rows[:, 2] > 0.5).astype(np.int32)
    edges = [np.array([0.0]), np.array([-1.0, 1.0])]
    if own:  # of each column and group
        edges = [edges[0], edges[1], edges[1] + 0.2, edges[0] - 0.3]
    groups = cells.RowGroups(code=lambda chunk: code, number=2, own=own)
    query = cells.CellQuery.of(*edges, groups=groups)
    sums = query.zeros()
    query.add(rows, sums)
    parts = cells.CellCounts(edges=edges, groups=groups).parted(query.answer(sums))
    for place, (cuts, counts) in enumerate(zip(edges, parts, strict=True)):
        column = place // 2 if own else place
        of_groups = [place % 2] if own else [0, 1]
        ends = [-np.inf, *cuts, np.inf]
        wanted = [np.histogram(rows[code == g, column], ends)[0].tolist() for g in of_groups]
        assert counts.tolist() == wanted
