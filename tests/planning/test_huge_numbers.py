"""Numbers of things that no table has: a plan refuses them under their name, and computes nothing of their size."""

import pytest

import fastpubpriv as fpp
from fastpubpriv.planning import TASKS, task_arguments

PUBLIC = {
    "dim": 3,
    "n_priv": 1000,
    "n_pub": 20,
    "radius": 10,
    "norm_bound": 1,
    "candidates": 100,
    "n_components": 2,
    "min_weight": 0.2,
}
NUMBERS = ["dim", "n_priv", "n_pub", "n_components", "candidates"]
CASES = [
    (task, name)
    for task in TASKS
    for name in NUMBERS
    if name == "n_priv" or name in task_arguments(task)
]


@pytest.mark.parametrize("huge", [10**400, 10**5000, -(10**400)], ids=["400", "5000", "-400"])
@pytest.mark.parametrize(("task", "name"), CASES)
def test_a_huge_number_of_things_is_refused(task, name, huge):
    given = PUBLIC | {name: huge}
    taken = {"n_priv", *task_arguments(task)}
    arguments = {key: value for key, value in given.items() if key in taken}
    with pytest.raises(fpp.InputError, match=name):
        fpp.plan(task, budget=fpp.ZCDP(0.5), **arguments)


def test_a_list_of_millions_of_digits_is_not_computed():
    sizes = {"dim": 2**30, "n_components": 2, "n_priv": 1000, "n_pub": 9}
    found = fpp.plan("axis_aligned_mixture", budget=fpp.ApproxDP(1, 1e-6), **sizes)
    assert "list_decoding_rows" not in found.details
