"""`describe`: its parts against the table itself, shares of the budget, every source, neighbors, coverage of deviations."""

from fractions import Fraction
from functools import partial
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from gaussian_cases import held
from helpers.errors import raises
from helpers.refusals import Refusals
from helpers.tables import forms_of
from spies import seeded

from fastpubpriv import ZCDP, ApproxDP, InputError, Ledger, PureDP, ReplayError, describe
from fastpubpriv.auditing import record_replay
from fastpubpriv.estimators import describe as module
from fastpubpriv.mechanisms import group_moments
from fastpubpriv.privacy.spending import GaussianSpending, LaplaceSpending

pytestmark = pytest.mark.filterwarnings(
    "ignore::fastpubpriv.AccuracyWarning", "ignore::fastpubpriv.SeededNoiseWarning"
)
EXACT = ZCDP(1e6)  # as good as no noise
BUDGETS = {"zcdp": ZCDP(0.5), "approx": ApproxDP(1, 1e-6), "pure": PureDP(1)}
WARDS = ["attic", "north", "south"]


described = partial(describe, budget=EXACT, threads=1, progress=False)


def visits(n=6000, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n).astype(float)
    age[rng.random(n) < 0.1] = np.nan
    ward = rng.choice(
        np.array([*WARDS, "elsewhere", None], dtype=object), n, p=[0.1, 0.4, 0.3, 0.15, 0.05]
    )
    return pd.DataFrame(
        {
            "age": age,
            "ward": pd.Series(ward, dtype=object),
            "cost": rng.lognormal(5.0, 0.5, n),
            "night": rng.choice([0.0, 1.0], n),
        }
    )


PUBLIC = visits(60, seed=9).dropna()
GIVEN = {"x_pub": PUBLIC, "keys": {"ward": WARDS, "night": [0, 1]}}


def test_exact_shares_add_up_to_the_budget():
    rng = np.random.default_rng(1)
    for _ in range(300):
        numbers, texts = (int(each) for each in rng.integers(0, 12, 2))
        if not numbers + texts:
            continue
        allowance = Fraction(int(rng.integers(1, 1000)), 977)
        spending = (GaussianSpending, LaplaceSpending)[int(rng.integers(2))](allowance)
        shares, costs = module.divided(
            numbers, texts, int(rng.integers(1, 10**6)), spending, n_pub=3
        )
        assert sum(costs.values()) == allowance
        assert min(costs.values()) >= 0
        assert (
            shares is None
            or shares.cells + shares.shells + shares.total == costs["cells"] + costs["means"]
        )


def test_public_files_name_columns_of_text(tmp_path):
    frame = pl.from_pandas(PUBLIC)
    frames = [frame, frame.lazy(), pa.Table.from_pandas(PUBLIC, preserve_index=False)]
    for public in [*forms_of(tmp_path, PUBLIC)[3:], *frames]:
        result = described(visits(), x_pub=public)
        assert [each.by for each in result.texts] == [("ward",)]
        assert result.numbers == 3


def test_arrays_are_numbers_and_text_alone_is_counted():
    rows = np.random.default_rng(3).normal(5.0, 2.0, (5000, 2))
    result = described(rows[3:], x_pub=rows[:3], q=0.5)
    np.testing.assert_allclose(result.standard_deviation, 2.0, rtol=0.03)
    assert result.texts == ()
    alone = described(visits(), x_pub=PUBLIC, columns=["ward"])
    assert alone.means is None
    assert alone.dim == 1
    assert alone.confidence_interval()[0].shape == (0,)
    assert abs(alone.top("ward")["south"] - (visits()["ward"] == "south").sum()) < 1.0


def test_a_result_is_shown_and_drawn(tmp_path):
    result = described(visits(), budget=ZCDP(0.2), random_state=3, **GIVEN)
    assert result.labels == ("age", "cost", "ward", "night")
    assert result.to_frame()["top"]["ward"].startswith("north")
    assert sum(result.shares.values()) == pytest.approx(1.0)
    assert "cells" in result.summary()
    # what a column of text has not is blank
    assert "nan" not in result.summary() + result._repr_html_()
    assert np.isnan(result.to_frame()["mean"]["ward"])
    raises(KeyError, None, result.top, "age")
    result.plot(tmp_path / "table.png")
    assert (tmp_path / "table.png").stat().st_size > 1000


REFUSED = Refusals()
REFUSED.add("columns must be a name", columns=True)
REFUSED.add("columns must be names", columns=[])
REFUSED.add("columns must be names", columns=["age", "age"])
REFUSED.add("keys must map", keys=["north"])
REFUSED.add("keys must map", keys={"floor": [1]})
REFUSED.add("at least one", keys={"ward": []})
REFUSED.add("ascending", q=[0.5, 0.5])
REFUSED.add("top", top=0)
REFUSED.add("number in every column", x_pub=visits(60).assign(age=np.nan))
REFUSED.add("bounds", bounds=(1.0, 0.0))


@pytest.mark.parametrize(("given", "words"), REFUSED, ids=lambda each: str(each)[:40])
def test_refusals_cost_nothing(given, words):
    ledger = Ledger(ZCDP(1))
    raises(
        InputError,
        words,
        described,
        visits(200),
        **{**GIVEN, "budget": ZCDP(1), "ledger": ledger, **given},
    )
    assert not ledger.entries


HOSTILE = [
    (np.nan, "north", 1e308, 1.0),
    (np.inf, "", -1e308, np.nan),
    (5e-324, None, 0.0, 7.0),
    (1e9, "\ud800", -0.0, 0.0),
]


def replayed(name, at, hostile, n=80):
    rows = visits(n)
    other = visits(n)
    for column, value in zip(rows.columns[[0, 1, 2, 3]], hostile, strict=True):
        other.loc[at, column] = value
    return record_replay(
        lambda x: described(x, budget=BUDGETS[name], **GIVEN), rows, other, budget=BUDGETS[name]
    )


@pytest.mark.parametrize("name", BUDGETS)
def test_replay_on_hostile_neighbors(name):
    for at, hostile in enumerate(HOSTILE):
        report = replayed(name, at, hostile)
        assert report.pair_cost <= report.declared_cost <= report.allowance
        assert report.declared_cost >= report.allowance * Fraction(1, 2)


def test_planted_faults_are_caught():
    honest = group_moments.group_moments

    # planted: distances are far longer than the reach
    def unbounded(chunk, code, middle, steps, *given):
        honest(chunk, code, middle, steps * 1e6, *given)

    add = group_moments.GroupMomentsQuery.add

    def loose(self, chunk, accumulators):  # planted: and their box is not applied
        add(self, chunk, accumulators)
        accumulators[0][:] *= 3

    with mock.patch.object(group_moments.GroupMomentsQuery, "add", loose):
        raises(ReplayError, None, replayed, "zcdp", 3, (1e9, "south", 1e9, 1.0))
    with mock.patch.object(group_moments, "group_moments", unbounded):
        # the box alone carries the guarantee
        assert replayed("zcdp", 3, (1e9, "south", 1e9, 1.0)).pair_cost


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["zcdp", "pure"])
def test_intervals_hold_the_deviations(name):
    """600 intervals at 95 % for each law. Alarm below 90 %: of sound ones less than once in 1e6."""
    budget = ZCDP(0.1) if name == "zcdp" else PureDP(1)
    rng = np.random.default_rng(5)
    truth = np.array([1.0, 12.0**-0.5, np.sqrt((np.exp(0.25) - 1.0) * np.exp(0.25))])
    inside = []
    for draw in range(200):
        rows = np.column_stack(
            [rng.standard_normal(10_000), rng.random(10_000), rng.lognormal(0.0, 0.5, 10_000)]
        )
        inside.append(
            held(
                described(rows[5:], budget=budget, x_pub=rows[:5], q=0.5, random_state=draw), truth
            )
        )
    assert np.all(np.mean(inside, axis=0) >= 0.88)
    assert np.mean(inside) >= 0.9


def test_the_variance_of_an_unresolved_column_is_unknown():
    """Its standard error and tail are infinite, in JSON as well, and the interval holds whatever there is."""
    rng = np.random.default_rng(0)
    x = rng.normal(1e6, 1.0, (61, 1))
    result = seeded(describe, x[1:], x_pub=x[:1], budget=PureDP(0.1))
    assert result.means.part_reasons == (("unresolved",),)
    for each in (result, type(result).from_json(result.to_json())):
        assert np.isnan(each.variance[0])
        assert each.variance_std[0] == each.variance_tail[0] == np.inf
        assert [end[0] for end in each.confidence_interval()] == [0.0, np.inf]
