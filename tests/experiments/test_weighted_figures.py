"""Figures 12 to 14 and the example of Proposition 8 of paper B, against the closed forms and the paper's numbers."""

import csv
import math

import pytest

from fastpubpriv.experiments import example_weighted_mean, figure_public_ratio
from fastpubpriv.experiments.registry import EXPERIMENTS


def read(path):
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


def test_closed_form_of_the_example():
    model = example_weighted_mean.model()
    weighted = model.mean_squared_error("optimal")
    assert weighted == pytest.approx(0.0063249, rel=1e-5)
    assert model.mean_squared_error("throw_away") / weighted == pytest.approx(1.976316, rel=1e-6)
    assert model.mean_squared_error("gaussian") / weighted == pytest.approx(1.992126, rel=1e-6)


def test_the_example_as_simulated(tmp_path):
    report = EXPERIMENTS["b-proposition-8"].run(tmp_path, runs=60, progress=False)
    rows = {row["method"]: row for row in read(report.csv)}
    assert set(rows) == {"weighted", "throw-away", "Gaussian on all"}
    for row in rows.values():
        gap = abs(float(row["mean_squared_error"]) - float(row["closed_form"]))
        assert gap < 6 * float(row["standard_error"])  # false alarm below 1e-8 a row
    assert report.png.stat().st_size > 5_000
    assert "1.976" in " ".join(report.lines)


def test_the_closed_form_of_the_weighted_mean_is_below_both_baselines_everywhere():
    for _, norm_bound in figure_public_ratio.ENCODINGS.values():
        for total in figure_public_ratio.TOTALS:
            for share in figure_public_ratio.SHARES:
                model = figure_public_ratio.model(figure_public_ratio.Point(total, share), norm_bound)
                least = min(model.mean_squared_error(name) for name in ("throw_away", "gaussian"))
                assert model.mean_squared_error("optimal") < least


def test_figures_as_simulated(tmp_path, monkeypatch):
    monkeypatch.setattr(figure_public_ratio, "TOTALS", (500, 2000))
    monkeypatch.setattr(figure_public_ratio, "SHARES", (0.05, 0.5, 0.95))
    report = EXPERIMENTS["b-figures-12-14"].run(tmp_path, runs=6, progress=False)
    rows = read(report.csv)
    assert len(rows) == 2 * 2 * 3 * 3
    for row in rows:
        # A mean over 6 runs of the norm of 1000 coordinates: relative standard deviation about 1 %.
        assert float(row["ratio"]) == pytest.approx(1.0, abs=0.06)
        assert math.isfinite(float(row["l2_error"]))
    assert report.png.stat().st_size > 5_000


@pytest.mark.statistical
def test_figures_in_full(tmp_path):
    report = EXPERIMENTS["b-figures-12-14"].run(tmp_path, progress=False)
    assert "at every point" in " ".join(report.lines)
    assert all(float(row["ratio"]) == pytest.approx(1.0, abs=0.04) for row in read(report.csv))
