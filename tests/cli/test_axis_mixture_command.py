"""`fastpubpriv axis-mixture`."""

import json

import numpy as np
import pytest
from command_cases import runner

from benchmarks.papers.mixture_cases import CASES

invoke = runner("axis-mixture")


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "private.npy", 1e6 + CASES["two"].draw(rng, 10_000))
    np.save(tmp_path / "public.npy", 1e6 + CASES["two"].draw(rng, 60))
    return tmp_path


def test_no_range_no_public_rows(files):
    result = invoke(
        *("--private", files / "private.npy", "--components", 2, "--epsilon", 1, "--delta", "1e-6"),
        *("--json", files / "out.json", "--plot", files / "out.png"),
    )
    assert "2 of 2 components, by univariate" in " ".join(result.stdout.split())
    data = json.loads((files / "out.json").read_text())
    assert data["private"] is True
    means = np.sort(np.array(data["means"])[:, 0])
    assert np.abs(means - [1e6 - 2.0, 1e6 + 3.0]).max() < 0.6
    assert (files / "out.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("extra", "method"), [((), "dp_em"), (("--method", "public_list", "--candidates", 100), "public_list")]
)
def test_public_rows_and_pure_budget(files, extra, method):
    result = invoke(
        *("--private", files / "private.npy", "--public", files / "public.npy", "--components", 2, "--epsilon", 1),
        *(*extra, "--json", "-"),
    )
    data = json.loads(result.stdout)
    assert data["method"] == method
    assert data["spent"]["notion"] == "PureDP"


def test_rows_held_out(files):
    result = invoke(
        *("--private", files / "private.npy", "--public", files / "public.npy", "--components", 2, "--rho", 0.1),
        *("--held-out", 0.2, "--json", "-", "--bounds", "-1e6,1e6"),
    )
    data = json.loads(result.stdout)
    assert data["method"] == "dp_em"
    assert data["diagnostics"]["candidates"] == 4


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (("--epsilon", 1), "delta"),
        (("--rho", 1), "delta"),
        ((), "no privacy budget"),
        (("--epsilon", 1, "--delta", "1e-6", "--method", "dp_em"), "x_pub"),
        (("--epsilon", 1, "--delta", "1e-6", "--method", "list_decoding"), "accuracy"),
        (("--epsilon", 1, "--delta", "1e-6", "--method", "list_decoding", "--accuracy", 0.1), "candidates"),
        (("--epsilon", 1, "--delta", "1e-6", "--variance", -1), "variance"),
        (("--epsilon", 1, "--delta", "1e-6", "--held-out", 0.2), "dp_em"),
    ],
)
def test_refusals_are_one_line(files, extra, message):
    result = invoke("--private", files / "private.npy", "--components", 2, *extra, code=2)
    assert message in " ".join(result.stderr.split())
