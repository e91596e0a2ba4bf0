"""Defaults on the command line are those of the functions: a command without options passes what the function takes by itself."""

import inspect
from types import SimpleNamespace

import click
import numpy as np
import pytest
from click.testing import CliRunner

import fastpubpriv as fpp
from fastpubpriv import auditing, local
from fastpubpriv.cli import main

RHO = ("--rho", "0.5")
APPROX = ("--epsilon", "1", "--delta", "1e-6")
# Command: the function that it calls, the options that it cannot do without, and the arguments that come from them.
COMMANDS = {
    "mean": (fpp.estimate_mean, RHO, {"x_pub"}),
    "gaussian": (fpp.estimate_gaussian, RHO, {"x_pub"}),
    "mixture": (fpp.learn_separated_mixture, (*RHO, "--components", "2"), {"x_pub", "n_components", "min_weight"}),
    "axis-mixture": (fpp.learn_axis_aligned_mixture, (*RHO, "--components", "2"), {"x_pub", "n_components"}),
    "weighted-mean": (fpp.weighted_mean, (*RHO, "--norm-bound", "2"), {"x_pub", "norm_bound"}),
    "coinpress-mean": (fpp.coinpress_mean, (*RHO, "--center", "0", "--radius", "9"), {"center", "radius"}),
    "histogram": (fpp.stable_histogram, (*APPROX, "--width", "1"), {"bins"}),
    "train": (fpp.train, RHO, {"x_pub", "label", "loss"}),
    "plan": (fpp.plan, (*RHO, "--dim", "3", "--n-pub", "9", "--n-priv", "900"), {"n_priv", "n_pub", "dim"}),
}
# Every call has these from options of the command's own: budgets, seeds, bars.
OWN = {"budget", "random_state", "threads", "progress", "ledger"}


class Stopped(Exception):
    """The function was called."""


def equal(one, other):
    return one is other or (not isinstance(one, np.ndarray) and one == other)


def passed(command, monkeypatch, folder, *more):
    """Names and values of the arguments of `command`, without options but those it needs and `more`, beside the signature."""
    function, needed, given = COMMANDS[command]
    rng = np.random.default_rng(0)
    for name, n in (("p", 200), ("q", 12)):
        np.save(folder / f"{name}.npy", rng.normal(size=(n, 3)))
    seen = SimpleNamespace()

    def spy(*arguments, **named):
        seen.named = named
        raise Stopped

    monkeypatch.setattr(fpp, function.__name__, spy)
    files = [] if command == "plan" else ["--private", folder / "p.npy"]
    if command not in ("plan", "histogram", "coinpress-mean"):
        files += ["--public", folder / "q.npy"]
    first = ["plan", "gaussian"] if command == "plan" else [command]
    result = CliRunner().invoke(main, [*first, *map(str, [*files, *needed, *more])])
    assert "named" in vars(seen), result.output
    found = {name: value for name, value in seen.named.items() if name not in OWN | given}
    return found, inspect.signature(function).parameters


def other_defaults(found, parameters):
    """Arguments that are not what the function takes by itself."""
    return {name for name, value in found.items() if not equal(value, parameters[name].default)}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_passes_the_defaults_of_its_function(command, monkeypatch, tmp_path):
    found, parameters = passed(command, monkeypatch, tmp_path)
    assert other_defaults(found, parameters) == set()


def test_another_default_would_be_found(monkeypatch, tmp_path):
    found, parameters = passed("mixture", monkeypatch, tmp_path, "--structure", "mean")
    assert other_defaults(found, parameters) == {"structure"}


def test_what_has_no_default_in_python_has_the_advised_one(monkeypatch, tmp_path):
    """`train` must be told a loss; the command takes the squared one, as `linear_regression` does."""
    _, parameters = passed("train", monkeypatch, tmp_path)
    assert parameters["loss"].default is inspect.Parameter.empty
    loss = {each.name: each.default for each in main.get_command(click.Context(main), "train").params}["loss"]
    assert loss == "squared"


def test_the_least_weight_of_a_group_is_half_an_equal_share():
    """It has no default in Python; the command's is what `plan` and the docstring advise."""
    text = main.get_command(click.Context(main), "mixture").get_help(click.Context(main))
    assert "half an equal share" in " ".join(text.split())


# Options whose defaults a command passes on elsewhere: the path of the command, the option, the function and its parameter.
PASSED_ON = [
    (("local", "aggregate"), "target", local.estimate_mean, "target"),
    (("local", "privatize"), "form", local.PrivUnit, "form"),
    (("local", "privatize"), "form", local.PrivUnitG, "form"),
    (("local", "aggregate"), "form", local.Duchi, "form"),
    (("audit",), "confidence", auditing.audit_randomizer, "confidence"),
    (("audit",), "confidence", auditing.audit_weighted_mean, "confidence"),
    (("audit",), "confidence", auditing.trace_randomizer, "confidence"),
    (("audit",), "confidence", auditing.trace_weighted_mean, "confidence"),
]


@pytest.mark.parametrize("case", PASSED_ON, ids=lambda case: "-".join((*case[0], case[1], case[2].__name__)))
def test_an_option_has_the_default_of_its_parameter(case):
    path, option, function, parameter = case
    command = main
    for name in path:
        command = command.get_command(click.Context(command), name)
    (default,) = (each.default for each in command.params if each.name == option)
    assert default == inspect.signature(function).parameters[parameter].default


def test_every_command_that_estimates_is_in_the_table():
    """What reads private rows, by its option; `local privatize` is above."""
    context = click.Context(main)
    reading = {
        name
        for name in main.list_commands(context)
        for option in main.get_command(context, name).params
        if option.name == "private_path"
    }
    assert reading == COMMANDS.keys() - {"plan"}
