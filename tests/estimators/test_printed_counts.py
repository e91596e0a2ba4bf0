"""Printed counts: in [0, n] and in their own intervals, which hold the true counts; deviations are printed with divisor n - 1."""

import numpy as np
import pandas as pd
import pytest

import fastpubpriv as fpp

pytestmark = pytest.mark.filterwarnings(
    "ignore::fastpubpriv.AccuracyWarning", "ignore::fastpubpriv.SeededNoiseWarning"
)
EXACT = fpp.ZCDP(1e6)  # as good as no noise


def judged(tables, truth):
    """Share of the counts of all tables within their interval and [0, n], and share of the intervals that hold the truth."""
    count = np.array([table["count"] for table in tables])
    lower = np.array([table["lower"] for table in tables])
    upper = np.array([table["upper"] for table in tables])
    within = (lower <= count) & (count <= upper) & (count >= 0.0) & (count <= np.sum(truth))
    return within.mean(), ((lower <= truth) & (truth <= upper)).mean()


@pytest.mark.parametrize(
    ("budget", "runs"), [(fpp.ZCDP(0.005), 200), (fpp.PureDP(0.1), 60)], ids=["zcdp", "pure"]
)
def test_counts_lie_in_their_intervals(budget, runs):
    rows = [0] * 5 + [1] * 95
    results = [
        fpp.value_counts(rows, keys=[0, 1], budget=budget, random_state=seed)
        for seed in range(runs)
    ]
    assert min(result.counts.min() for result in results) < 0.0  # the raw ones are unbiased
    within, held = judged([result.to_frame() for result in results], [5, 95, 0, 0])
    assert within == 1.0
    assert held >= 0.93


def test_counts_of_a_result_are_unbiased_and_its_shares_possible():
    results = [
        fpp.value_counts([1] * 50, keys=[0, 1], budget=fpp.ZCDP(0.005), random_state=seed)
        for seed in range(50)
    ]
    assert min(result.counts.min() for result in results) < 0.0
    assert min(result.share.min() for result in results) >= 0.0
    assert min(result.to_frame()["share"].min() for result in results) >= 0.0


def test_bars_end_where_a_count_is_possible():
    results = (
        fpp.value_counts([1] * 50, keys=[0, 1], budget=fpp.ZCDP(0.005), random_state=seed)
        for seed in range(50)
    )
    result = next(result for result in results if result.counts[1] > 60)
    assert result.plot().axes[0].patches[1].get_width() == 50


def test_a_description_shows_possible_counts_of_texts():
    ward = ["north"] * 190 + ["south"] * 10
    tables = []
    for seed in range(60):
        result = fpp.describe(
            pd.DataFrame({"ward": ward}),
            x_pub=pd.DataFrame({"ward": ["north", "south"]}),
            budget=fpp.ZCDP(0.002),
            random_state=seed,
        )
        tables.append(result.texts[0].to_frame())
        line = result.to_frame().loc["ward"]
        assert 0 <= line["missing"] <= 200
        assert line["count"] == 200 - line["missing"]
        assert ">-" not in result.to_html()
    within, held = judged(tables, [190, 10])
    assert within == 1.0
    assert held >= 0.93


def test_rows_of_groups_lie_between_none_and_all():
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1], [3, 997])
    rows = np.column_stack([rng.normal(5.0, 1.0, 1000), group])
    results = [
        fpp.estimate_mean(
            rows,
            x_pub=rows[:9].copy(),
            by=-1,
            groups=[0, 1],
            budget=fpp.ZCDP(0.01),
            random_state=seed,
        )
        for seed in range(40)
    ]
    shown = np.array([result.to_frame()["rows"] for result in results])
    assert min(result.count.min() for result in results) < 0.0
    assert max(result.count.max() for result in results) > 1000.0
    assert shown.min() >= 0.0
    assert shown.max() <= 1000.0


def test_a_bin_has_no_more_rows_than_there_are():
    bins = fpp.BinGrid(width=10.0, offset=-5.0)
    results = [
        fpp.stable_histogram(
            np.zeros(400), bins=bins, budget=fpp.ApproxDP(0.3, 1e-6), random_state=seed
        )
        for seed in range(20)
    ]
    assert max(result[0].counts.max() for result in results) > 400.0
    assert max(result.to_frame()["count"].max() for result in results) == 400.0
    assert max(result.to_frame()["frequency"].max() for result in results) == 1.0


def test_deviations_of_columns_groups_and_gaussians_have_the_divisor_n_minus_one():
    rng = np.random.default_rng(12)
    rows = rng.normal(5.0, 2.0, size=(12, 2))
    public = rng.normal(5.0, 2.0, size=(30, 2))
    described = fpp.describe(rows, x_pub=public, budget=EXACT, random_state=0)
    gaussian = fpp.estimate_gaussian(rows, x_pub=public, method="lifted_coinpress", budget=EXACT)
    half = np.arange(12) % 2
    means = fpp.estimate_mean(
        np.column_stack([rows, half]),
        x_pub=np.column_stack([public, np.arange(30) % 2]),
        by=-1,
        groups=[0, 1],
        budget=EXACT,
        random_state=0,
    )
    truth = pd.DataFrame(rows).std().to_numpy()  # the divisor n is 4 % less, and 9 % in the groups
    np.testing.assert_allclose(described.standard_deviation, truth, rtol=0.02)
    np.testing.assert_allclose(np.sqrt(np.diag(gaussian.covariance)), truth, rtol=0.02)
    np.testing.assert_allclose(
        means.standard_deviation[:2], pd.DataFrame(rows).groupby(half).std(), rtol=0.02
    )


@pytest.mark.parametrize("seed", range(4))
def test_a_gaussian_learned_from_private_rows_has_the_divisor_n_minus_one(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(5.0, 2.0, size=(60, 1))
    public = rng.normal(5.0, 2.0, size=(3, 1))
    result = fpp.estimate_gaussian(rows, x_pub=public, structure="full", budget=EXACT)
    # the divisor n is 1.7 % less
    assert result.covariance[0, 0] == pytest.approx(rows.var(ddof=1), rel=0.004)
