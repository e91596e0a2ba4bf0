"""The covariance curves against the numbers known for them."""

from helpers.tables import read

from benchmarks.papers import coinpress_covariance as experiment
from benchmarks.papers.registry import EXPERIMENTS

# Medians of n = 3000, and of n = 8000: (t, least, most). Upper ends are what noise on the triangle would give.
BANDS = {(2, 3000): (0.33, 0.39), (2, 8000): (0.13, 0.15), (3, 3000): (0.19, 0.246), (3, 8000): (0.11, 0.129)}


def test_curves_are_written_for_every_size_and_step(tmp_path, monkeypatch):
    monkeypatch.setattr(experiment, "SIZES", (3000, 8000))
    report = EXPERIMENTS["coinpress-covariance"].run(tmp_path, runs=20, progress=False)
    rows = {(float(r["condition"]), int(r["steps"]), int(r["n"])): r for r in read(report.csv)}
    assert set(rows) == {(1.0, t, n) for t in range(1, 6) for n in (3000, 8000)} | {
        (100.0, t, 8000) for t in range(1, 6)
    }
    for (steps, n), (least, most) in BANDS.items():
        row = rows[1.0, steps, n]
        assert least < float(row["median"]) < most
        assert float(row["lower_quartile"]) <= float(row["median"]) <= float(row["upper_quartile"])
    # The right order keeps improving where the published code gets worse.
    skewed = [float(rows[100.0, t, 8000]["median"]) for t in (2, 3, 5)]
    assert skewed[0] > skewed[1] > 0.95 * skewed[2]
    assert skewed[2] < 0.15
    assert float(rows[100.0, 5, 8000]["published"]) == 2.17
    assert rows[1.0, 5, 3000]["published"] == ""
    assert report.png.stat().st_size > 5_000
    assert any("0.361" in line for line in report.lines)
