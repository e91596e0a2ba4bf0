"""The group itself, and `plan` and `info`."""

import json
import platform
import runpy
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from clocks import PATIENCE

import fastpubpriv as fpp
from fastpubpriv.cli import app, main


def invoke(*arguments, code=0):
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return result


def test_help_needs_no_numpy():
    program = (
        "import sys\n"
        "from fastpubpriv.cli import main\n"
        "for words in (['--help'], ['mean', '--help'], ['--version'], ['plan', '-h'], ['info', '--help']):\n"
        "    try:\n        main(words)\n    except SystemExit as end:\n        assert end.code == 0\n"
        "heavy = {'numpy', 'scipy', 'numba', 'rich', 'matplotlib', 'pyarrow'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=PATIENCE)


@pytest.mark.parametrize("name", app.COMMANDS)
def test_overview_says_what_the_commands_say(name):
    assert main.get_command(click.Context(main), name).name == name
    assert "Usage" in invoke(name, "--help").output


def test_python_runs_the_package(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["fastpubpriv", "--version"])
    monkeypatch.delitem(sys.modules, "fastpubpriv.__main__", raising=False)  # by tests that import every module
    with pytest.raises(SystemExit, match=r"^0$"):
        runpy.run_module("fastpubpriv", run_name="__main__", alter_sys=False)
    assert capsys.readouterr().out == f"fastpubpriv {fpp.__version__}\n"


def test_version_and_unknown_command():
    assert invoke("--version").output == f"fastpubpriv {fpp.__version__}\n"
    assert "No such command" in invoke("median", code=2).output


def test_package_names_load_at_first_use():
    assert set(fpp.__all__) <= set(dir(fpp))
    assert all(getattr(fpp, name) is not None for name in fpp.__all__)
    with pytest.raises(AttributeError, match="no attribute 'median'"):
        fpp.median  # noqa: B018


def test_plan_solves_for_each_of_the_three():
    common = ["plan", "mean", "--dim", "5", "--n-pub", "20", "--json", "-"]
    error = json.loads(invoke(*common, "--n-priv", "10000", "--rho", "0.5").stdout)
    assert error == fpp.plan("mean", dim=5, n_pub=20, n_priv=10_000, budget=fpp.ZCDP(0.5)).to_dict()
    rows = json.loads(invoke(*common, "--rho", "0.5", "--error", error["error"]).stdout)
    assert abs(rows["n_priv"] - 10_000) <= 2
    budget = json.loads(invoke(*common, "--n-priv", "10000", "--error", error["error"]).stdout)
    assert budget["budget"]["rho_float"] == pytest.approx(0.5, rel=1e-6)
    paper = "plan axis-aligned-mixture --dim 1 --components 2 --n-priv 20000 --epsilon 1 --delta 1e-6 --json -"
    assert json.loads(invoke(*paper.split()).stdout)["details"]["list_decoding_log10_candidates"] > 40
    approx = json.loads(invoke(*common, "--n-priv", "10000", "--error", "0.03", "--delta", "1e-6").stdout)
    assert approx["budget"]["notion"] == "ApproxDP"


def test_plan_prints_and_refuses():
    text = invoke(
        "plan", "weighted-mean", "--dim", "3", "--n-priv", "900", "--epsilon", "1", "--norm-bound", "2"
    ).stdout
    assert "<- worked out" in text
    assert "epsilon = 1 (pure DP)" in text
    assert "exactly two" in invoke("plan", "mean", "--dim", "3", "--n-pub", "1", "--rho", "1", code=2).stderr
    assert "no privacy budget" in invoke("plan", "mean", "--dim", "3", "--n-priv", "9", code=2).stderr
    both = ["plan", "mean", "--dim", "3", "--n-priv", "9", "--rho", "1", "--notion", "pure"]
    assert "--notion" in invoke(*both, code=2).stderr


def test_info_names_versions_and_no_path(tmp_path):
    shown = invoke("info").stdout
    for word in ("fastpubpriv", "processor", "instructions", "BLAS", "numpy", "C interface"):
        assert word in shown
    found = json.loads(invoke("info", "--json", "-").stdout)
    assert found["fastpubpriv"] == fpp.__version__
    assert platform.node() not in json.dumps(found)
    assert str(Path.home()) not in json.dumps(found)
