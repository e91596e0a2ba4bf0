"""A method from outside: registered once, it is found by the estimator, the command line and `plan`."""

from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from fastpubpriv import ZCDP, InputError, estimate_gaussian, plan
from fastpubpriv.cli import main
from fastpubpriv.estimators import lifted
from fastpubpriv.estimators.learners import METHODS
from fastpubpriv.session import Registry


def test_a_method_from_outside_is_found_everywhere(monkeypatch):
    calls = []

    def learn(run, base, problem, *, rounds):
        calls.append(rounds)
        return lifted.learn(run, base, problem, rounds=rounds)

    monkeypatch.setitem(METHODS, "toy", replace(lifted.METHOD, name="toy", learn=learn))
    rng = np.random.default_rng(0)
    estimate_gaussian(rng.normal(size=(5000, 2)), x_pub=rng.normal(size=(9, 2)), budget=ZCDP(1), method="toy")
    assert len(calls) == 1
    assert "|toy]" in "".join(CliRunner().invoke(main, ["gaussian", "--help"]).output.split())
    sizes = {"dim": 2, "n_pub": 9, "n_priv": 5000, "budget": ZCDP(1)}
    assert plan("gaussian", method="toy", **sizes).error == plan("gaussian", method="lifted_coinpress", **sizes).error


def test_a_name_that_is_taken_is_refused():
    registry = Registry(lifted.METHOD)
    with pytest.raises(InputError, match="already"):
        registry.add(lifted.METHOD)
    with pytest.raises(InputError, match="already"):
        registry.add(replace(lifted.METHOD, name="auto"))
    assert registry.choices == ("lifted_coinpress",)


def test_an_argument_of_another_task_is_refused_by_its_name():
    with pytest.raises(InputError, match="'norm_bound'"):
        plan("mean", dim=2, n_pub=3, n_priv=10, budget=ZCDP(1), norm_bound=1.0)
    words = "plan mean --dim 2 --n-pub 3 --n-priv 10 --rho 1 --norm-bound 1"
    done = CliRunner().invoke(main, words.split(" "))
    assert done.exit_code == 2
    assert "--norm-bound" in done.output
