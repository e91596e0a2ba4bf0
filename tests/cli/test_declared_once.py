"""A verb is declared once: an argument that is added to it is one of the function, the method, the command and the plan."""

import inspect
import json
import sys
from types import ModuleType

import numpy as np
import pytest
from click.testing import CliRunner

import fastpubpriv as fpp
from fastpubpriv.cli import estimators
from fastpubpriv.planning import Plan, plan, tasks
from fastpubpriv.privacy import ZCDP
from fastpubpriv.session import PredictedError
from fastpubpriv.tables.bound_functions import BoundFunction

NAME = "scaled_mean"
VERB = '''
from dataclasses import replace
from fastpubpriv.estimators.mean import estimate_mean
from fastpubpriv.estimators.user_level import user_level

@user_level
def scaled_mean(x_priv, *, x_pub, budget, columns=None, {argument}person=None, keep=None, rows_per_person=None,
                ledger=None, random_state=None, threads=None, progress=None):
    """Mean in another unit.

    Parameters
    ----------
    x_priv : array-like
        Private rows.
    x_pub : array-like
        Public rows.
    budget : ZCDP, ApproxDP or PureDP
        Spent whole.
    columns : list of str, optional
        Columns.
    {described}
    person, keep, rows_per_person, ledger, random_state, threads, progress
        As in every function.
    """
    given = dict(locals())
    scale = given.pop("scale", 1.0)
    result = estimate_mean(given.pop("x_priv"), **given)
    return replace(result, mean=scale * result.mean)
'''
DESCRIBED = "scale : float, default 3\n        Factor of the mean, for `columns` in other units."
SHARED = ("person", "keep", "rows_per_person", "ledger", "random_state", "threads", "progress")


def verb_of(argument="", described=""):
    """The module of a verb, which describes its shared arguments one by one."""
    each = "\n    ".join(f"{name} : object, optional\n        As everywhere." for name in SHARED)
    line = "    person, keep, rows_per_person, ledger, random_state, threads, progress\n        As in every function."
    module = ModuleType("fastpubpriv.toy_verb")
    text = VERB.replace(line, f"    {each}").format(argument=argument, described=described)
    exec(text, vars(module))
    return module


def declare(monkeypatch, module):
    """The command of the verb, which is a function of the library and a method of tables from now on."""
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(fpp._HOMES, NAME, module.__name__)
    monkeypatch.setitem(vars(fpp), NAME, vars(module)[NAME])
    method = BoundFunction()
    method.__set_name__(fpp.PrivateTable, NAME)
    setattr(fpp.PrivateTable, NAME, method)
    monkeypatch.setattr(estimators, "COMMANDS", [])

    def change(inputs, settings, arguments):
        """Mean in another unit."""

    return estimators.estimator(NAME, "Scaled mean of {n:,} rows")(change)


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """Private rows and public ones, whose files are in the folder of the moment."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    private = rng.normal(5.0, 1.0, (4_000, 2))
    public = rng.normal(5.0, 1.0, (20, 2))
    np.save("p.npy", private)
    np.save("q.npy", public)
    yield private, public
    delattr(fpp.PrivateTable, NAME)


def printed(command, *more):
    """The result that a command prints as JSON."""
    words = ["--private", "p.npy", "--public", "q.npy", "--rho", "0.5", "--json", "-", *more]
    done = CliRunner().invoke(command, words)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_an_argument_is_added_in_one_place(rows, monkeypatch):
    private, public = rows
    before = declare(monkeypatch, verb_of())
    assert "scale" not in {each.name for each in before.params}
    assert np.allclose(printed(before)["mean"], 5.0, atol=0.2)

    command = declare(monkeypatch, verb_of("scale=3.0, ", DESCRIBED))

    table = fpp.PrivateTable(private, x_pub=public, total=ZCDP(1))
    assert inspect.signature(fpp.scaled_mean).parameters["scale"].default == 3.0
    assert inspect.signature(table.scaled_mean).parameters["scale"].default == 3.0
    assert "Factor of the mean" in table.scaled_mean.__doc__
    assert np.allclose(table.scaled_mean(budget=ZCDP(0.5)).mean, 15.0, atol=0.6)
    shown = " ".join(CliRunner().invoke(command, ["--help"]).stdout.split())
    assert "--scale FLOAT Factor of the mean, for --columns in other units. [default: 3.0]" in shown
    assert np.allclose(printed(command)["mean"], 15.0, atol=0.6)
    assert np.allclose(printed(command, "--scale", "2")["mean"], 10.0, atol=0.4)


def test_a_plan_takes_the_default_of_the_verb(monkeypatch):
    verb = vars(verb_of("scale=3.0, ", DESCRIBED))[NAME]

    @tasks.defaults_of(verb)
    def plan_scaled_mean(*, dim, scale):
        def predict(n_priv, budget) -> PredictedError:
            return scale * dim / n_priv, {}

        return tasks.Forecast(predict=predict, unit="units")

    monkeypatch.setattr(tasks, "TASKS", {NAME: plan_scaled_mean})
    assert tasks.task_arguments(NAME) == ("dim", "scale")
    found = plan(NAME, dim=2, n_priv=100, budget=ZCDP(1))
    assert isinstance(found, Plan)
    assert found.error == 0.06
    assert plan(NAME, dim=2, n_priv=100, budget=ZCDP(1), scale=1.0).error == 0.02
