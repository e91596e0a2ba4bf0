"""Figure 1 of paper A against its closed forms, and those against the table worked out by hand."""

import pytest
from helpers.tables import read

from benchmarks.papers import figure_one_public_row as figure
from benchmarks.papers.registry import EXPERIMENTS

SIZES = (1000, 1818, 2636, 4272, 6727, 10_000)
TABLE = {
    figure.NON_PRIVATE: (0.2225, 0.1650, 0.1370, 0.1076, 0.0858, 0.0704),
    "CoinPress, k=10": (0.2824, 0.1880, 0.1499, 0.1138, 0.0889, 0.0721),
    "CoinPress, k=100": (0.5537, 0.2428, 0.1687, 0.1183, 0.0901, 0.0724),
    "CoinPress, k=1000": (4.408, 1.356, 0.6614, 0.2742, 0.1361, 0.0866),
    figure.ONE_PUBLIC: (0.2726, 0.1860, 0.1492, 0.1136, 0.0888, 0.0720),
    figure.AS_PUBLISHED: (0.2757, 0.1870, 0.1497, 0.1138, 0.0889, 0.0721),
}


@pytest.mark.parametrize("curve", figure.CURVES)
def test_closed_forms(curve):
    for n, value in zip(SIZES, TABLE[curve], strict=True):
        assert figure.closed_form(curve, n) == pytest.approx(value, rel=7e-4)


def test_the_whole_figure_is_within_four_percent(tmp_path):
    # 100 runs: the trimmed mean of a point varies by about 1 %, and the seeds are fixed.
    report = EXPERIMENTS["a-figure-1"].run(tmp_path, progress=False)
    rows = read(report.csv)
    assert len(rows) == 6 * 12
    for row in rows:
        assert float(row["trimmed_mean"]) == pytest.approx(float(row["closed_form"]), rel=0.04)
    assert report.png.stat().st_size > 10_000


def test_the_published_radius_is_worse_at_small_n():
    assert figure.closed_form(figure.AS_PUBLISHED, 1000) > 1.01 * figure.closed_form(figure.ONE_PUBLIC, 1000)


def test_a_wrong_radius_would_be_noticed(monkeypatch):
    monkeypatch.setattr(figure, "FAILURE", 1e-12)
    assert figure.closed_form(figure.ONE_PUBLIC, 1000) != pytest.approx(TABLE[figure.ONE_PUBLIC][0], rel=7e-4)
