"""What `help()` says of parameters: each one once, with words; shared texts are filled in; one default of `failure_prob`."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module

import click
import pytest

from fastpubpriv import parameters
from fastpubpriv.cli.app import main
from fastpubpriv.parameters import FAILURE_PROB, shared_docs
from fastpubpriv.planning.solve import TASKS, task_arguments

PARTS = ["auditing", "local", "mixtures", "planning", "privacy", "sources", "training"]
HOMES = [
    "fastpubpriv",
    *(f"fastpubpriv.{part}" for part in ("auditing", "mixtures.list_decoding", "planning", "privacy")),
]


def public_functions() -> dict[str, Callable[..., object]]:
    found = [getattr(module, name) for module in map(import_module, HOMES) for name in module.__all__]
    return {function.__name__: function for function in found if inspect.isfunction(function)}


PUBLIC = public_functions()
# Those that say in their first lines all that there is to say of their arguments.
SHORT = {name for name, function in PUBLIC.items() if "Parameters\n" not in (inspect.getdoc(function) or "")}


def described(text: str) -> tuple[list[str], list[str]]:
    """Names in the Parameters section, in order, and those without a description."""
    section = text.split("Parameters\n----------\n")[1]
    section = re.split(r"\n\n(?=[A-Z]\w+\n-{3,}(\n|$))", section)[0]
    blocks = re.split(r"\n(?=\S)", section)
    names = [(re.split(r" : |$", block.split("\n")[0])[0].split(", "), "\n    " in block) for block in blocks]
    return [name for each, _ in names for name in each], [name for each, told in names if not told for name in each]


@pytest.mark.parametrize("name", sorted(PUBLIC.keys() - SHORT))
def test_each_parameter_is_described_once(name):
    found, silent = described(inspect.getdoc(PUBLIC[name]))
    assert sorted(found) == sorted(inspect.signature(PUBLIC[name]).parameters)
    assert silent == []


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_no_placeholder_is_left(name):
    assert not re.search(r"(?m)^ *\{.*\}$", inspect.getdoc(PUBLIC[name]))


def test_the_entry_points_say_more_than_a_line():
    assert not SHORT & {name for name in import_module("fastpubpriv").__all__ if name in PUBLIC}
    assert sum("None: fresh operating-system keys" in inspect.getdoc(function) for function in PUBLIC.values()) >= 15


def test_the_check_of_descriptions_catches():
    assert described("Parameters\n----------\na, b : int\n    Two.\nc\nc : int\n    One.\n\nReturns\n-------\nint") == (
        ["a", "b", "c", "c"],
        ["c"],
    )


def test_texts_are_filled_in_and_keep_what_is_below_them():
    @shared_docs
    def sample(*, mode: str, ledger: object = None) -> int:
        """Sample.

        Parameters
        ----------
        {ledger, mode}
            Of this function.

        Returns
        -------
        int
            A {literal} stays, and so does {one} in a line.
        """
        return 3

    assert sample(mode="practical") == 3
    assert list(inspect.signature(sample).parameters) == ["mode", "ledger"]
    text = inspect.getdoc(sample)
    assert described(text) == (["ledger", "mode"], [])
    assert "Same privacy.\n    Of this function.\n\nReturns" in text
    assert "A {literal} stays, and so does {one} in a line." in text


def test_an_unknown_text_is_refused():
    with pytest.raises(KeyError):

        @shared_docs
        def wrong() -> None:
            """Wrong.

            {nonsense}
            """


def test_shared_texts_are_parameters_with_a_description():
    for text in parameters._TEXTS.values():
        first, *rest = text.split("\n")
        assert re.fullmatch(r"[\w, ]+( : .+)?", first)
        assert rest
        assert all((line.startswith("    ") and line.endswith((".", ","))) or len(line) > 90 for line in rest)


def test_without_docstrings_nothing_is_filled_in():
    program = "import fastpubpriv as f; assert f.estimate_mean.__doc__ is None; print(f.estimate_mean.__name__)"
    done = subprocess.run([sys.executable, "-OO", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "estimate_mean\n"


def test_failure_prob_has_one_default():
    found = {
        name: inspect.signature(function).parameters["failure_prob"].default
        for name, function in PUBLIC.items()
        if "failure_prob" in inspect.signature(function).parameters
    }
    assert len(found) >= 14
    assert {name for name, default in found.items() if default != FAILURE_PROB} == set()


def test_failure_prob_has_the_same_default_in_plan_and_on_the_command_line():
    tasks = [task for task in TASKS if "failure_prob" in task_arguments(task)]
    assert len(tasks) >= 6
    assert {inspect.signature(TASKS[task]).parameters["failure_prob"].default for task in tasks} == {FAILURE_PROB}
    context = click.Context(main)
    commands = [main.get_command(context, name) for name in main.list_commands(context)]
    options = [option for command in commands for option in command.params if option.name == "failure_prob"]
    assert len(options) >= 5
    assert {option.default for option in options if isinstance(option.default, float)} == {FAILURE_PROB}


@pytest.mark.parametrize("part", ["", *PARTS, "mixtures.list_decoding"])
def test_dir_shows_what_is_public(part):
    module = import_module(f"fastpubpriv.{part}".rstrip("."))
    own = {*PARTS, "__version__"} if not part else set()
    assert set(dir(module)) == {*module.__all__, *own}
    for name in dir(module):
        assert getattr(module, name) is not None
