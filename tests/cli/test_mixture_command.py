"""`fastpubpriv mixture`."""

import json

import numpy as np
import pytest
from command_cases import runner

invoke = runner("mixture")


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    centers = np.array([[0.0, 0.0], [30.0, 0.0], [0.0, 40.0]])
    np.save(tmp_path / "private.npy", centers[np.arange(20_000) % 3] + rng.normal(size=(20_000, 2)))
    np.save(tmp_path / "public.npy", centers[np.arange(15) % 3] + rng.normal(size=(15, 2)))
    return ("--private", tmp_path / "private.npy", "--public", tmp_path / "public.npy"), tmp_path, centers


def test_table_json_and_plot(files):
    paths, folder, centers = files
    result = invoke(
        *paths, "--components", 3, "--rho", "1", "--json", folder / "out.json", "--plot", folder / "out.png"
    )
    assert "Found" in result.stdout
    assert "3 of 3 components" in result.stdout
    assert "status" in result.stdout
    data = json.loads((folder / "out.json").read_text())
    away = np.linalg.norm(np.array(data["means"])[:, None] - centers, axis=2)
    assert away.min(axis=0).max() < 1.0
    assert data["private"] is True
    assert data["kind"] == "MixtureResult"
    assert (folder / "out.png").read_bytes().startswith(b"\x89PNG")


def test_named_columns_ledger_and_json_to_the_screen(files, tmp_path):
    _, folder, _ = files
    for name in ("private", "public"):
        rows = np.load(folder / f"{name}.npy")
        text = "\n".join(["length,width", *(f"{a},{b}" for a, b in rows[:6000])])
        (tmp_path / f"{name}.csv").write_text(text + "\n")
    result = invoke(
        *("--private", tmp_path / "private.csv", "--public", tmp_path / "public.csv", "--columns", "length,width"),
        *("--components", 3, "--min-weight", "0.2", "--rho", "1", "--method", "tree", "--json", "-"),
        *("--ledger", tmp_path / "l.ledger", "--ledger-total", "rho=2", "--bounds", "-9,45"),
    )
    data = json.loads(result.stdout)
    assert data["diagnostics"]["bounds"] == [[-9.0, -9.0], [45.0, 45.0]]
    assert data["columns"] == ["length", "width"]
    assert data["method"] == "tree"
    assert data["diagnostics"]["n_components_asked"] == 3


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (("--components", 3), "no privacy budget"),
        (("--components", 3, "--rho", "1", "--bounds", "3"), "two numbers with a comma"),
        (("--components", 0, "--rho", "1"), "components"),
        (("--components", 3, "--rho", "1", "--min-weight", "0.5"), "min_weight must be at most"),
        (("--components", 16, "--rho", "1"), "number of public rows"),
        (("--components", 3, "--epsilon", "1", "--method", "tree"), "PureDP"),
        (("--components", 3, "--rho", "1", "--mode", "theory", "--method", "one_shot"), "one_shot"),
        (("--rho", "1"), "--components"),
    ],
)
def test_refusals_are_one_line(files, extra, message):
    result = invoke(*files[0], *extra, code=2)
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.output
