"""Options are made from signatures: names, defaults and help of a command are those of the function that it calls."""

import inspect

import click
import pytest

import fastpubpriv as fpp
from fastpubpriv import auditing, local
from fastpubpriv.cli import estimators, main

COMMANDS = {
    "mean": fpp.estimate_mean,
    "gaussian": fpp.estimate_gaussian,
    "mixture": fpp.learn_separated_mixture,
    "axis-mixture": fpp.learn_axis_aligned_mixture,
    "weighted-mean": fpp.weighted_mean,
    "coinpress-mean": fpp.coinpress_mean,
    "histogram": fpp.stable_histogram,
    "train": fpp.train,
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
SHARED = {"x_priv", "x_pub", "budget", "random_state", "progress"}


def options_of(*path):
    """The options of a command by the names of parameters."""
    command = main
    for name in path:
        command = command.get_command(click.Context(command), name)
    return {each.name: each for each in command.params}


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_read_in_the_source_is_what_python_says(command):
    function = COMMANDS[command]
    found, expected = estimators.parameters_of(function.__name__), inspect.signature(function).parameters
    assert list(found) == list(expected)
    docs = " ".join(function.__doc__.split())
    for name, each in found.items():
        assert f"{name} : {each.form} {each.text}" in docs
        assert each.annotation == expected[name].annotation
        assert (each.default is None) == (expected[name].default is inspect.Parameter.empty)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_parameter_has_an_option_with_its_default(command):
    found, expected = options_of(command), inspect.signature(COMMANDS[command]).parameters
    assert expected.keys() - found.keys() - SHARED == WITHOUT.get(command, set())
    own = (expected.keys() & found.keys()) - {"ledger", "threads", "columns"}
    for name in own - ({"loss"} if command == "train" else set()):
        option, wanted = found[name], expected[name].default
        default = None if wanted is inspect.Parameter.empty else wanted
        assert option.required or option.to_info_dict()["default"] == default, name


def test_what_has_no_default_in_python_has_the_advised_one():
    """`train` must be told a loss, and `learn_separated_mixture` a weight: the commands take what docstrings advise."""
    assert options_of("train")["loss"].default == "squared"
    assert "half an equal share" in options_of("mixture")["min_weight"].help


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
    assert options_of(*path)[option].default == inspect.signature(function).parameters[parameter].default


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
