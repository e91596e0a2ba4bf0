"""The paper's linear regression by Newton steps, at a fifth of its size: the printed table is beaten at an honest epsilon."""

import numpy as np
import pytest
from helpers.tables import read

from benchmarks.papers import newton_beyond as beyond
from benchmarks.papers.experiment import Options
from benchmarks.papers.registry import EXPERIMENTS

SMALL = beyond.Size(1000, 70)


def test_files_and_summary(tmp_path, monkeypatch):
    monkeypatch.setattr(beyond, "QUICK", SMALL)
    report = EXPERIMENTS["b-beyond"].run(tmp_path, runs=2, progress=False, quick=True)
    rows = read(report.csv)
    assert len(rows) == 2 * len(beyond.RATIOS)
    assert report.png.stat().st_size > 5_000
    for row in rows:
        # At a ratio of .01 there are ten public rows for seventy columns.
        assert float(row["newton"]) < (1.01 if float(row["public_ratio"]) > 0.05 else 1.1) * float(row["public_only"])
        assert float(row["newton"]) < float(row["adassp"])
    assert "honest epsilon of 4" in report.lines[0]


@pytest.mark.statistical
def test_the_printed_table_is_beaten_and_the_prediction_holds():
    """Medians of three runs; the specification's prototype at epsilon 4 has 1.1302, 1.1186 and .0993 in these cells."""
    cells = tuple(beyond.cells_of((0.1, 0.25, 0.9)))
    for line in beyond.rows(Options(runs=3, threads=1, progress=False, quick=True, cells=cells)):
        assert line["newton"] < 1.001 * line["public_only"]
        assert abs(line["predicted"] / line["newton"] - 1.0) < 0.08
        if line["epsilon"] == 4.0:
            assert line["newton"] < 1.01 * line["paper_algorithm_1"]
            assert line["adassp"] > 2.0 * line["newton"]


def test_adassp_without_noise_is_ridge(monkeypatch):
    # So that the rival is not beaten by a mistake in it.
    rng = np.random.default_rng(0)
    rows, truth = rng.normal(size=(5000, 5)), np.arange(5.0)
    monkeypatch.setattr(beyond, "noise_multiplier_for", lambda *given: 1e-9)
    np.testing.assert_allclose(beyond.adassp(rows, rows @ truth, 1.0, rng), truth, atol=0.2)
