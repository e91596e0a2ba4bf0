"""`fastpubpriv histogram`."""

import json

import numpy as np
import pandas as pd
import pytest
from command_cases import runner

from fastpubpriv import HistogramResult

BUDGET = ("--epsilon", "1", "--delta", "1e-7")


invoke = runner("histogram")


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"delay": rng.exponential(20.0, 5000).round(), "name": "Alice-SSN-123", "distance": rng.normal(1e6, 3.0, 5000)}
    )
    frame.to_parquet(tmp_path / "flights.parquet")
    return tmp_path


def test_table_json_and_plot(table):
    result = invoke(
        *("--private", table / "flights.parquet", "--columns", "delay", "--width", "10", "--offset", "0.5", *BUDGET),
        *("--json", table / "out.json", "--plot", table / "out.png"),
    )
    heads = next(line for line in result.stdout.splitlines() if "above" in line)
    assert "column" in heads
    assert "up_to" in heads
    assert "│ delay" in result.stdout
    assert "noisy count below" in " ".join(result.stdout.split())
    text = (table / "out.json").read_text()
    released = HistogramResult.from_json(json.dumps({k: v for k, v in json.loads(text).items() if k != "warnings"}))
    assert released.columns == ("delay",)
    assert 4800 < released[0].counts.sum() < 5100
    assert np.allclose((released[0].lower[:, 0] - 0.5) % 10, 0)
    assert (table / "out.png").read_bytes().startswith(b"\x89PNG")


def test_levels_dyadic_and_joint(table):
    base = ("--private", table / "flights.parquet", "--columns", "delay,distance", *BUDGET)
    data = json.loads(invoke(*base, "--width", "5", "--levels", "3", "--json", "-", "--quiet").stdout)
    assert len(data["histograms"]) == 6
    data = json.loads(invoke(*base, "--dyadic", "--json", "-", "--quiet").stdout)
    assert data["histograms"][1]["lower"] == [[2.0**19]]
    data = json.loads(invoke(*base, "--width", "50", "--joint", "--json", "-", "--quiet").stdout)
    assert data["histograms"][0]["columns"] == [0, 1]
    assert "more histograms" in invoke(*base, "--width", "5", "--levels", "9").stdout


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ((*BUDGET,), "either --width W or --dyadic"),
        (("--dyadic", "--width", "1", *BUDGET), "either --width W or --dyadic"),
        (("--dyadic", "--levels", "2", *BUDGET), "belong to --width"),
        (("--width", "0", *BUDGET), "width must be above 0"),
        (("--width", "1", "--rho", "1"), "needs a delta"),
        (("--width", "1", "--epsilon", "1"), "needs a delta"),
        (("--width", "1"), "no privacy budget"),
        (("--width", "x", *BUDGET), "not a number"),
        (("--width", "1", "--max-memory", "1e5", *BUDGET), "pass max_memory="),
    ],
)
def test_refusals_are_one_line(table, extra, message):
    result = invoke("--private", table / "flights.parquet", "--columns", "delay", *extra, code=2)
    assert message in " ".join(result.stderr.split())
    assert "Alice" not in result.output
