"""The arguments of `plan`: the defaults of the verbs, what each task needs, persons, and what a refusal says to pass instead."""

import inspect
import math

import numpy as np
import pandas as pd
import pytest
from helpers.errors import raises
from spies import seeded

import fastpubpriv as fpp
from fastpubpriv import ZCDP, ApproxDP, plan
from fastpubpriv.errors import InputError
from fastpubpriv.planning import TASKS, task_arguments
from fastpubpriv.planning.plans import MEANINGS
from fastpubpriv.planning.tasks import REQUIRED
from fastpubpriv.session import PaddedRowsError
from fastpubpriv.training.methods import METHODS as TRAINING_METHODS

VERBS = {
    "mean": fpp.estimate_mean,
    "coinpress_mean": fpp.coinpress_mean,
    "weighted_mean": fpp.weighted_mean,
    "gaussian": fpp.estimate_gaussian,
    "quantiles": fpp.quantiles,
    "counts": fpp.value_counts,
    "count_persons": fpp.count_persons,
    "separated_mixture": fpp.learn_separated_mixture,
    "axis_aligned_mixture": fpp.learn_axis_aligned_mixture,
    "select_hypothesis": fpp.select_hypothesis,
    "train": fpp.train,
}
# A plan has a number where the call has rows by group, and cannot know what "auto" counts.
OTHER_DEFAULTS = {("quantiles", "groups"), ("count_persons", "keys_per_person"), ("train", "loss")}
SIZES = {
    "mean": {"dim": 2, "n_pub": 9},
    "coinpress_mean": {"dim": 2, "radius": 9.0},
    "weighted_mean": {"dim": 2, "norm_bound": 4.0},
    "gaussian": {"dim": 2, "n_pub": 9},
    "quantiles": {"dim": 2, "n_pub": 9},
    "counts": {"cells": 5},
    "count_persons": {"cells": 5},
    "separated_mixture": {"dim": 2, "n_pub": 9, "n_components": 2},
    "axis_aligned_mixture": {"dim": 2, "n_pub": 9, "n_components": 2},
    "select_hypothesis": {"dim": 1, "candidates": 9},
    "train": {"dim": 2, "n_pub": 9},
}


def test_every_task_has_a_verb():
    assert [*TASKS] == [*VERBS]
    assert len(TASKS) == len(VERBS)
    with pytest.raises(KeyError):
        TASKS["median"]


@pytest.mark.parametrize("task", VERBS)
def test_arguments_have_the_defaults_of_the_verb(task):
    verb = inspect.signature(VERBS[task]).parameters
    for name, argument in inspect.signature(TASKS[task]).parameters.items():
        if name not in verb or name in REQUIRED or (task, name) in OTHER_DEFAULTS:
            continue
        assert argument.default == verb[name].default, name


@pytest.mark.parametrize(
    ("task", "name"),
    [(task, name) for task, sizes in SIZES.items() for name in sizes if name in REQUIRED],
)
def test_a_plan_says_what_it_needs(task, name):
    given = {**SIZES[task], name: None}
    words = f"needs {name}=, {REQUIRED[name][:9]}"
    raises(InputError, words, plan, task, n_priv=1000, budget=ZCDP(1), **given)


@pytest.mark.parametrize("task", VERBS)
def test_every_number_of_a_plan_has_a_meaning(task):
    planned = plan(task, n_priv=20_000, budget=ApproxDP(1, 1e-6), **SIZES[task])
    assert {*planned.details} <= {*MEANINGS}


def test_every_training_method_has_a_meaning():
    named = {f"takes_{name}" for name in TRAINING_METHODS}
    assert named <= {*MEANINGS}


@pytest.mark.parametrize("task", VERBS)
def test_the_docstring_has_the_arguments_of_every_task(task):
    """Each line on a task names all of its arguments besides `dim`."""
    text = plan.__doc__.split("arguments\n        Those of the task", 1)[1].split("Returns\n")[0]
    lines = {part.split('":')[0]: part for part in text.split('        - "')[1:]}
    missing = [
        name for name in task_arguments(task) if name != "dim" and f"`{name}`" not in lines[task]
    ]
    assert not missing


# ---- Persons with several rows each ----------------------------------------------------------------------------------
ONE_ROW = [
    ("coinpress_mean", {}, {"center": 0.0}),
    ("weighted_mean", {}, {}),
    ("mean", {"clipping": "gaussian"}, {}),
    ("gaussian", {"structure": "diagonal"}, {}),
    ("gaussian", {"method": "pairs"}, {}),
    ("separated_mixture", {}, {}),
    ("axis_aligned_mixture", {"n_pub": 0}, {}),
]
SEVERAL_ROWS = [
    ("mean", {}),
    ("gaussian", {"structure": "full"}),
    ("quantiles", {}),
    ("axis_aligned_mixture", {}),
]


def called(task, options, **more):
    """Call the verb of a task with two rows of each person."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(2_000, 2)), columns=["x", "y"])
    table["id"] = np.arange(1_000).repeat(2)
    given = {**SIZES[task], **options, **more}
    given.pop("dim")
    n_pub = given.pop("n_pub", 0)
    if n_pub:
        given["x_pub"] = pd.DataFrame(rng.normal(size=(n_pub, 2)), columns=["x", "y"])
    persons = {"person": "id", "rows_per_person": 2}
    return seeded(VERBS[task], table, budget=ApproxDP(1, 1e-6), **persons, **given)


@pytest.mark.parametrize(("task", "options", "more"), ONE_ROW)
def test_no_rows_of_persons_are_planned_that_the_call_refuses(task, options, more):
    with pytest.raises(PaddedRowsError):
        called(task, options, **more)
    given = {**SIZES[task], **options, "n_priv": 1_000, "budget": ApproxDP(1, 1e-6)}
    raises(InputError, "one row of each person", plan, task, rows_per_person=2, **given)
    assert plan(task, rows_per_person=1, **given).n_priv == 1_000


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize(("task", "options"), SEVERAL_ROWS)
def test_rows_of_persons_are_planned_that_the_call_takes(task, options):
    assert called(task, options).n_priv == 1_000
    given = {**SIZES[task], **options, "n_priv": 1_000, "budget": ApproxDP(1, 1e-6)}
    assert math.isfinite(plan(task, rows_per_person=2, **given).error)


# ---- What a refusal says ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("task", "given", "words"),
    [
        ("mean", {"x_pub": 3}, "pass n_pub="),
        ("mean", {"x_priv": 3}, "pass n_priv="),
        ("mean", {"by": "ward"}, "pass groups="),
        ("gaussian", {"by": "ward"}, "leave it out"),
        ("counts", {"keys": ["a"]}, "pass cells="),
        ("mean", {"budget": 0.5}, r"ZCDP\(rho=...\)"),
        ("mean", {"budget": 0.5, "n_priv": None, "error": 0.1}, r"ZCDP\(rho=...\)"),
        ("mean", {"budget": None}, "got n_priv"),
        ("mean", {"error": 0.1}, "got n_priv, budget, error"),
        ("mean", {"notion": "pure"}, "leave them out, or budget="),
        ("mean", {"delta": 1e-6}, "leave them out, or budget="),
        ("mean", {"groups": 3, "clipping": "gaussian"}, "leave out clipping"),
        ("mean", {"groups": 3, "steps": 3}, "leave out steps"),
        ("count_persons", {"cells": 90, "keys_per_person": "auto"}, "pass a number"),
        (
            "train",
            {"mean_weight": 0.5, "method": "semi_dp"},
            "mean_weight= goes with method=.newton",
        ),
        ("train", {"n_pub": 9, "n_labeled": 12}, "n_labeled must be at most 9"),
    ],
)
def test_a_refusal_says_what_to_pass_instead(task, given, words):
    arguments = {"n_priv": 1000, "budget": ZCDP(1), **SIZES[task], **given}
    raises(InputError, words, plan, task, **arguments)
