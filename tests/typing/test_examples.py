"""Type checkers know what a call of the book returns, and public functions keep their signatures and docstrings."""

import inspect
import subprocess
import sys
from pathlib import Path
from typing import get_overloads, get_type_hints

import pytest

import fastpubpriv as fpp
from fastpubpriv.estimators import mean, quantiles
from fastpubpriv.estimators.call_options import MeanOptions, QuantileOptions

EXAMPLES = Path(__file__).with_name("examples.py")
ROOT = Path(__file__).parents[2]


def complaints(file):
    """What mypy says about a file, with the settings and the cache of the repository."""
    command = [sys.executable, "-m", "mypy", "--no-error-summary", str(file)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return run.stdout.splitlines()


def test_mypy_knows_what_calls_return(tmp_path):
    pytest.importorskip("mypy")
    assert complaints(EXAMPLES) == []
    # planted: a mean without groups is taken for one of groups
    wrong = tmp_path / "wrong.py"
    text = EXAMPLES.read_text(encoding="utf-8")
    wrong.write_text(text.replace("assert_type(mean, MeanResult)", "assert_type(mean, GroupMeans)"))
    (found,) = complaints(wrong)
    assert 'Expression is of type "MeanResult", not "GroupMeans"' in found


@pytest.mark.parametrize(
    ("function", "options"), [(fpp.estimate_mean, MeanOptions), (fpp.quantiles, QuantileOptions)]
)
def test_options_of_overloads_are_those_of_the_signature(function, options):
    names = set(inspect.signature(function).parameters)
    assert {"x_priv", "x_pub", "budget", "by", "groups", *options.__annotations__} == names
    assert "Parameters\n" in function.__doc__


@pytest.mark.parametrize(("module", "name"), [(mean, "estimate_mean"), (quantiles, "quantiles")])
def test_types_of_options_are_those_of_the_signature(module, name):
    hints = get_type_hints(inspect.unwrap(getattr(module, name)))
    options = {"estimate_mean": MeanOptions, "quantiles": QuantileOptions}[name]
    for option, kind in get_type_hints(options).items():
        assert hints[option] == kind, option
    assert len(get_overloads(inspect.unwrap(getattr(module, name)))) == 2
