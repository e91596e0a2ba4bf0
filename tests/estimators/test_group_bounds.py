"""Means and deviations of groups within bounds: one box encodes rows and decodes sums, so that intervals hold the truth."""

import numpy as np
import pandas as pd
import pytest

import fastpubpriv as fpp

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
GROUPS = ["a", "b", "c"]


def table_of(seed):
    """Columns whose bounds are the ends of what they hold, and the group of each row."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, 12_030)
    return pd.DataFrame(
        {
            "flag": (rng.random(12_030) < 0.2 + 0.2 * group).astype(float),
            "normal": np.clip(rng.normal(50.0, 10.0, 12_030), 20.0, 80.0),
            "age": rng.integers(18, 91, 12_030).astype(float),
            "awkward": 1e9 + 3.0 * rng.random(12_030),
            "skew": np.minimum(rng.exponential(1.0, 12_030), 3.0),
            "group": np.array(GROUPS)[group],
            "person": np.arange(12_030),
        }
    )


BOUNDS = {
    "flag": (0, 1),
    "normal": (20, 80),
    "age": (18, 90),
    "awkward": (1e9, 1e9 + 3),
    "skew": (0, 3),
}


@pytest.mark.parametrize("column", BOUNDS)
@pytest.mark.parametrize("seed", range(4))
def test_intervals_hold_the_means_and_deviations_of_groups_within_bounds(column, seed):
    table = table_of(seed)[[column, "group"]]
    result = fpp.estimate_mean(
        table[30:], x_pub=table[:30].copy(), by="group", groups=GROUPS, bounds=BOUNDS[column], budget=fpp.ZCDP(0.5),
        random_state=seed,
    )  # fmt: skip
    truth = table[30:].groupby("group")[column].agg(["mean", "std"])
    (lower, upper), (low, high) = (
        result.confidence_interval(0.999),
        result.deviation_interval(0.999),
    )
    assert ((lower[:3, 0] <= truth["mean"]) & (truth["mean"] <= upper[:3, 0])).all()
    assert ((low[:3, 0] <= truth["std"]) & (truth["std"] <= high[:3, 0])).all()


def test_the_columns_of_one_call_have_bounds_of_their_own():
    table = table_of(7).drop(columns="person")
    ends = np.array(list(BOUNDS.values()), dtype=float).T
    result = fpp.estimate_mean(
        table[30:], x_pub=table[:30].copy(), by="group", groups=GROUPS, bounds=tuple(ends), budget=fpp.ZCDP(1),
        random_state=7,
    )  # fmt: skip
    truth = table[30:].groupby("group").mean()
    lower, upper = result.confidence_interval(0.999)
    assert ((lower[:3] <= truth) & (truth <= upper[:3])).all(axis=None)


@pytest.mark.parametrize("budget", [fpp.ZCDP(0.5), fpp.PureDP(2)], ids=["zcdp", "pure"])
def test_the_means_of_persons_by_group_lie_within_bounds(budget):
    table = table_of(8)[["normal", "group", "person"]]
    result = fpp.estimate_mean(
        table[30:], x_pub=table[:30].copy(), by="group", groups=GROUPS, columns=["normal"], bounds=(20, 80),
        person="person", budget=budget, random_state=8,
    )  # fmt: skip
    truth = table[30:].groupby("group")["normal"].mean()
    lower, upper = result.confidence_interval(0.999)
    assert ((lower[:3, 0] <= truth) & (truth <= upper[:3, 0])).all()


def test_values_beyond_bounds_count_as_their_ends():
    rng = np.random.default_rng(9)
    group = rng.integers(0, 3, 12_030)
    rows = np.column_stack([rng.normal(50.0, 10.0, 12_030), group])
    result = fpp.estimate_mean(
        rows[30:], x_pub=np.array([[50.0, 0.0]]), by=-1, groups=[0, 1, 2], bounds=(45, 52), budget=fpp.ZCDP(1),
        random_state=9,
    )  # fmt: skip
    truth = np.array([np.clip(rows[30:][group[30:] == k, 0], 45.0, 52.0).mean() for k in range(3)])
    np.testing.assert_allclose(result.mean[:3, 0], truth, atol=0.2)
