"""c-univariate and c-public, small; and the distances they measure."""

import numpy as np
import pytest
from scipy import stats

from benchmarks.papers import public_mixtures, univariate_mixtures
from benchmarks.papers.mixture_cases import CASES, Truth, anywhere, blobs, distance_by_draws, distance_on_line
from benchmarks.papers.registry import EXPERIMENTS


def test_distance_of_two_gaussians_is_the_closed_form():
    one, other = Truth.line([1.0], [1e9], [2.0]), Truth.line([1.0], [1e9 + 3.0], [2.0])
    exact = 2.0 * stats.norm.cdf(3.0 / 4.0) - 1.0
    assert distance_on_line(one, other) == pytest.approx(exact, rel=1e-4)
    assert distance_by_draws(one, other, np.random.default_rng(0), 100_000) == pytest.approx(exact, abs=0.01)
    assert distance_on_line(one, one) == 0.0
    assert distance_on_line(one, Truth.line([1.0], [-1e9], [2.0])) == pytest.approx(1.0, abs=1e-4)


def test_draws_follow_their_law():
    for truth in (CASES["three"], anywhere(np.random.default_rng(1), 3)):
        rows = truth.draw(np.random.default_rng(2), 20_000)[:, 0]
        law = sum(
            w * stats.norm.cdf(np.sort(rows), m, s)
            for w, m, s in zip(truth.weights, truth.means[:, 0], truth.stds[:, 0], strict=True)
        )
        assert np.abs(law - (np.arange(len(rows)) + 0.5) / len(rows)).max() < 2.2 / np.sqrt(len(rows))
    assert (anywhere(np.random.default_rng(3), 3).weights >= 0.15).all()
    assert blobs(np.random.default_rng(3), 3, 4).means.shape == (3, 4)


def test_univariate_table(tmp_path, monkeypatch):
    for name, value in {"SIZES": (3000,), "EPSILONS": (1.0, 4.0), "FIXED_ROWS": 3000}.items():
        monkeypatch.setattr(univariate_mixtures, name, value)
    report = EXPERIMENTS["c-univariate"].run(tmp_path, runs=2, threads=1, progress=False)
    text = report.csv.read_text(encoding="utf-8")
    assert text.startswith("# ")
    rows = [line for line in text.splitlines() if not line.startswith("#")]
    assert rows[0].startswith("case,n_priv,epsilon,runs,median")
    assert len(rows) == 1 + 2 * (len(CASES) + 3)
    assert report.png.read_bytes().startswith(b"\x89PNG")
    medians = {tuple(row.split(",")[:3]): float(row.rsplit(",", 4)[1]) for row in rows[1:] if "means" not in row}
    assert 0.0 < medians["two", "3000", "1"] < 0.1


def test_public_table(tmp_path, monkeypatch):
    monkeypatch.setattr(public_mixtures, "PLACES", (public_mixtures.PLACES[0], public_mixtures.PLACES[6]))
    report = EXPERIMENTS["c-public"].run(tmp_path, runs=2, threads=1, progress=False)
    rows = [line for line in report.csv.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert len(rows) == 3
    for row in rows[1:]:
        cells = row.split(",")
        assert float(cells[6]) < float(cells[7])  # better than the public rows alone
    assert report.png.read_bytes().startswith(b"\x89PNG")
