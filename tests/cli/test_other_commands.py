"""The group itself, and `plan` and `info`."""

import inspect
import json
import platform
import runpy
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest
from clocks import PATIENCE
from command_cases import invoke

import fastpubpriv as fpp
from fastpubpriv import auditing, local
from fastpubpriv.cli import app, main, options, tools
from fastpubpriv.planning import TASKS


def test_help_needs_no_numpy():
    program = (
        "import sys\n"
        "from fastpubpriv.cli import main\n"
        "for words in (['--help'], ['mean', '--help'], ['--version'], ['plan', '-h'], ['info', '--help']):\n"
        "    try:\n        main(words)\n    except SystemExit as end:\n        assert end.code == 0\n"
        "heavy = {'numpy', 'scipy', 'numba', 'rich', 'matplotlib', 'pyarrow'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, timeout=PATIENCE
    )


@pytest.mark.parametrize("name", app.COMMANDS)
def test_overview_says_what_the_commands_say(name):
    assert main.get_command(click.Context(main), name).name == name
    assert "Usage" in invoke(name, "--help").output


def test_python_runs_the_package(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["fastpubpriv", "--version"])
    # by tests that import every module
    monkeypatch.delitem(sys.modules, "fastpubpriv.__main__", raising=False)
    with pytest.raises(SystemExit, match=r"^0$"):
        runpy.run_module("fastpubpriv", run_name="__main__", alter_sys=False)
    assert capsys.readouterr().out == f"fastpubpriv {fpp.__version__}\n"


def test_version_and_unknown_names():
    assert invoke("--version").output == f"fastpubpriv {fpp.__version__}\n"
    assert (
        "No such command 'quantile'. Did you mean 'quantiles'" in invoke("quantile", code=2).output
    )
    with pytest.raises(AttributeError, match="no attribute 'median'"):
        fpp.median  # noqa: B018


def test_plan_solves_for_each_of_the_three_and_refuses():
    common = ["plan", "mean", "--dim", "5", "--n-pub", "20", "--json", "-"]
    error = json.loads(invoke(*common, "--n-priv", "10000", "--rho", "0.5").stdout)
    assert error == fpp.plan("mean", dim=5, n_pub=20, n_priv=10_000, budget=fpp.ZCDP(0.5)).to_dict()
    rows = json.loads(invoke(*common, "--rho", "0.5", "--error", error["error"]).stdout)
    assert abs(rows["n_priv"] - 10_000) <= 2
    budget = json.loads(invoke(*common, "--n-priv", "10000", "--error", error["error"]).stdout)
    assert budget["budget"]["rho_float"] == pytest.approx(0.5, rel=1e-6)
    paper = "plan axis-aligned-mixture --dim 1 --components 2 --n-priv 20000 --epsilon 1 --delta 1e-6 --json -"
    assert (
        json.loads(invoke(*paper.split()).stdout)["details"]["list_decoding_log10_candidates"] > 40
    )
    approx = json.loads(
        invoke(*common, "--n-priv", "10000", "--error", "0.03", "--delta", "1e-6").stdout
    )
    assert approx["budget"]["notion"] == "ApproxDP"
    # Plan has every task.
    assert [name.replace("-", "_") for name in tools.CHOICES] == list(TASKS)
    # Plan prints and refuses.
    words = "plan weighted-mean --dim 3 --n-priv 900 --epsilon 1 --norm-bound 2"
    text = invoke(*words.split()).stdout
    assert "<- worked out" in text
    assert "epsilon = 1 (pure DP)" in text
    assert (
        "exactly two"
        in invoke("plan", "mean", "--dim", "3", "--n-pub", "1", "--rho", "1", code=2).stderr
    )
    assert (
        "no privacy budget" in invoke("plan", "mean", "--dim", "3", "--n-priv", "9", code=2).stderr
    )
    counts = "plan counts --cells 20 --n-priv 9000 --rho 1 --json -"
    assert json.loads(invoke(*counts.split()).stdout)["error"] < 0.01
    both = ["plan", "mean", "--dim", "3", "--n-priv", "9", "--rho", "1", "--notion", "pure"]
    assert "--notion" in invoke(*both, code=2).stderr
    loss = ["plan", "mean", "--dim", "3", "--n-priv", "9", "--rho", "1", "--loss", "logistic"]
    assert "--loss is not an option of 'plan mean'" in invoke(*loss, code=2).stderr


def test_info_names_versions_and_no_path(tmp_path):
    shown = invoke("info").stdout
    for word in ("fastpubpriv", "processor", "instructions", "BLAS", "numpy", "C interface"):
        assert word in shown
    found = json.loads(invoke("info", "--json", "-").stdout)
    assert found["fastpubpriv"] == fpp.__version__
    assert platform.node() not in json.dumps(found)
    assert str(Path.home()) not in json.dumps(found)


# ---- Options are made from signatures: names, defaults and help of a command are those of the function that it calls.
COMMANDS = {
    "mean": fpp.estimate_mean,
    "gaussian": fpp.estimate_gaussian,
    "mixture": fpp.learn_separated_mixture,
    "axis-mixture": fpp.learn_axis_aligned_mixture,
    "weighted-mean": fpp.weighted_mean,
    "coinpress-mean": fpp.coinpress_mean,
    "histogram": fpp.stable_histogram,
    "train": fpp.train,
    "quantiles": fpp.quantiles,
    "counts": fpp.value_counts,
    "describe": fpp.describe,
    "persons": fpp.count_persons,
}
# What a command does not offer, and what it makes of other options.
WITHOUT = {
    "gaussian": {"cond_max", "require_precondition"},
    "mixture": {"weight_floor"},
    "axis-mixture": {"covariance", "min_weight"},
    "weighted-mean": {"project"},
    "coinpress-mean": {"bounds"},
    "histogram": {"bins"},
    "train": {"y_priv", "y_pub", "max_memory"},
}
SHARED = {"person", "x_priv", "x_pub", "budget", "random_state", "progress"}


def options_of(*path):
    """The options of a command by the names of parameters."""
    command = main
    for name in path:
        command = command.get_command(click.Context(command), name)
    return {each.name: each for each in command.params}


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_read_in_the_source_is_what_python_says(command):
    function = COMMANDS[command]
    found = options.parameters_of(function.__name__)
    expected = inspect.signature(function).parameters
    assert list(found) == list(expected)
    docs = " ".join(function.__doc__.split())
    for name, each in found.items():
        assert f"{name} : {each.form} {each.text}" in docs
        assert (each.default is ...) == (expected[name].default is inspect.Parameter.empty)
    # Every parameter has an option with its default.
    found = options_of(command)
    expected = inspect.signature(COMMANDS[command]).parameters
    assert expected.keys() - found.keys() - SHARED == WITHOUT.get(command, set())
    own = (expected.keys() & found.keys()) - {"ledger", "threads", "columns"}
    for name in own - ({"loss"} if command == "train" else set()):
        option = found[name]
        wanted = expected[name].default
        default = None if wanted is inspect.Parameter.empty else wanted
        assert option.required or option.to_info_dict()["default"] == default, name


def test_documented_methods_and_advised_defaults():
    for command, home in (
        ("gaussian", "gaussians.gaussian_methods"),
        ("mixture", "mixtures.separated.searches"),
        ("axis-mixture", "mixtures.axis_aligned.axis_aligned_mixture"),
        ("train", "training.methods"),
    ):
        assert (
            options_of(command)["method"].type.names
            == import_module(f"fastpubpriv.{home}").METHODS.choices
        )
    # `train` must be told a loss, and `learn_separated_mixture` a weight: the commands take what docstrings advise.
    assert options_of("train")["loss"].default == "squared"
    assert "half an equal share" in options_of("mixture")["min_weight"].help


# Options whose defaults a command passes on elsewhere: the path of the command, the option, the function and its parameter.
AUDITS = ("audit_randomizer", "audit_weighted_mean")
PASSED_ON = [
    (("local", "aggregate"), "target", local.estimate_mean, "target"),
    *(
        (("local", "privatize"), "form", kind, "form")
        for kind in (local.PrivUnit, local.PrivUnitG, local.Duchi)
    ),
    *((("audit",), "confidence", getattr(auditing, name), "confidence") for name in AUDITS),
]


@pytest.mark.parametrize(
    "case", PASSED_ON, ids=lambda case: "-".join((*case[0], case[1], case[2].__name__))
)
def test_an_option_has_the_default_of_its_parameter(case):
    path, option, function, parameter = case
    assert (
        options_of(*path)[option].default
        == inspect.signature(function).parameters[parameter].default
    )


def test_every_command_that_estimates_is_in_the_table():
    """What reads private rows, by its option; `local privatize` is above."""
    context = click.Context(main)
    reading = {
        name
        for name in main.list_commands(context)
        for option in main.get_command(context, name).params
        if option.name == "private_path"
    }
    assert reading == COMMANDS.keys()
