"""The sixth page of the demonstration: what makes flights arrive late."""

import json

import numpy as np

from fastpubpriv.cli.demo import training as demo_training
from fastpubpriv.experiments import delays


def small_table():
    rng = np.random.default_rng(2)
    n = 40_000
    x = np.column_stack([rng.exponential(20.0, n) - 10.0, rng.uniform(100, 3000, n), rng.integers(5, 23, n)])
    codes = rng.integers(0, 3, (n, 2))
    late = x[:, 0] - 0.002 * x[:, 1] + 4.0 * codes[:, 0] + rng.normal(0.0, 12.0, n)
    rows = np.column_stack([x, codes, late])
    rows[[777, 31_111], [0, 5]] = np.nan
    return delays.Delays(rows[:400], rows[400:], {"carrier": ("A", "B", "C"), "origin": ("E", "J", "L")})


def test_the_page_shows_what_privacy_costs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(delays, "load_delays", small_table)
    paths = demo_training.page(None, tmp_path)
    assert [path.name for path in paths] == ["demo-training.json", "demo-training.png"]
    assert paths[1].read_bytes().startswith(b"\x89PNG")
    data = json.loads(paths[0].read_text())
    excess = {label: case["excess"] for label, case in data["demonstration_only"].items()}
    assert excess["no privacy"] == 0.0
    assert -1e-9 < excess["private, Newton steps"] < 0.3 * excess["public rows only"]
    assert data["private"] is True
    carriers = data["demonstration_only"]["no privacy"]["carriers"]
    assert np.allclose(np.diff(carriers), 4.0, atol=0.6)
    out = capsys.readouterr().out
    assert "For demonstration only" in out
    assert "What happened." in out


def test_bare_least_squares_knows_the_truth():
    table = small_table()
    found = demo_training.bare(table)
    assert np.allclose(found[1:4], [1.0, -0.002, 0.0], atol=0.05)
    assert np.allclose(np.diff(found[4:7]), 4.0, atol=0.6)
    assert np.allclose(found[7:], 0.0, atol=0.6)
