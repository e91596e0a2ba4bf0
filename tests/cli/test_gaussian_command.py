"""`fastpubpriv gaussian`."""

import json

import numpy as np
import pytest
from command_cases import runner

invoke = runner("gaussian")


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    mix = np.array([[2.0, 0.0, 0.0], [1.0, 0.5, 0.0], [0.0, 3.0, 7.0]])
    np.save(tmp_path / "private.npy", rng.normal(size=(20_000, 3)) @ mix.T + 5.0)
    np.save(tmp_path / "public.npy", rng.normal(size=(12, 3)) @ mix.T + 5.0)
    return tmp_path, mix


def test_tables_json_and_plot(files):
    folder, mix = files
    result = invoke(
        *("--private", folder / "private.npy", "--public", folder / "public.npy", "--rho", "0.5"),
        *("--json", folder / "out.json", "--plot", folder / "out.png"),
    )
    assert "Correlations" in result.stdout
    data = json.loads((folder / "out.json").read_text())
    inverse = np.linalg.inv(mix)
    assert np.linalg.norm(inverse @ np.array(data["covariance"]) @ inverse.T - np.eye(3)) < 0.2
    assert np.array(data["correlation"]).shape == (3, 3)
    assert data["private"] is True
    assert (folder / "out.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (("--rho", "0.5", "--gap", "1"), "pub_priv_gap"),
        (("--rho", "0.5", "--method", "group_covariances"), "ApproxDP"),
        (("--rho", "0.5", "--failure-prob", "0"), "failure_prob"),
        (("--rho", "0.5", "--bounds", "3"), "two numbers with a comma"),
        (("--rho", "0.5", "--bounds", "3,-3"), "bounds"),
        ((), "no privacy budget"),
    ],
)
def test_refusals_are_one_line(files, extra, message):
    folder, _ = files
    result = invoke("--private", folder / "private.npy", "--public", folder / "public.npy", *extra, code=2)
    assert message in " ".join(result.stderr.split())


def test_what_the_columns_can_hold(files):
    folder, _ = files
    paths = "--private", folder / "private.npy", "--public", folder / "public.npy"
    data = json.loads(invoke(*paths, "--rho", "0.5", "--bounds", "-60,4.5", "--json", "-").stdout)
    assert data["diagnostics"]["bounds"] == [[-60.0] * 3, [4.5] * 3]
    assert max(data["mean"]) == 4.5  # though the rows lie about 5


def test_one_public_row_is_too_few(files):
    folder, _ = files
    np.save(folder / "one.npy", np.zeros((1, 3)))
    result = invoke("--private", folder / "private.npy", "--public", folder / "one.npy", "--rho", "0.5", code=2)
    assert "at least two public rows" in " ".join(result.stderr.split())
