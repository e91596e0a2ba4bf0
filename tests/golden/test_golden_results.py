"""The package says today what it said when results.json was made.

On any machine: exact integers and words are equal, numbers that come out of floating-point arithmetic are close (`golden_values`).
With FASTPUBPRIV_GOLDEN_BITS=1, on the machine that made the file: every bit. After a change on purpose, `make_results.py` writes
the file again.
"""

import dataclasses
import inspect
import os
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from golden_case import outcome
from golden_cases import CASES
from golden_uses import SAME, USES, WORDS_ONLY
from golden_values import ADDED, Array, agree, canonical, differences, numbers_of, stored
from make_results import read

from fastpubpriv import ZCDP
from fastpubpriv.cli.app import COMMANDS
from fastpubpriv.results import estimates as results

BITS = os.environ.get("FASTPUBPRIV_GOLDEN_BITS") == "1"
KEPT = read()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_says_what_it_said(case):
    assert differences(KEPT.get(case.name, {}), outcome(case), bits=BITS) == []


def test_every_recorded_case_is_in_the_table():
    assert KEPT.keys() - CASES.keys() == set()


# Not accounting, audits and figures: these have exact oracles and tests of their own.
MODULES = (
    "fastpubpriv",
    "fastpubpriv.mixtures.list_decoding",
    "fastpubpriv.mixtures.select",
    "fastpubpriv.planning",
)
# `warmup` gives nothing back, `task_arguments` are arguments of cases.
NO_CASE = {"warmup", "task_arguments"}


def public_callables() -> dict[str, Any]:
    """Functions and classes that the public modules offer, by name."""
    found: dict[str, Any] = {}
    for name in MODULES:
        module = import_module(name)
        found |= {
            each: getattr(module, each)
            for each in module.__all__
            if callable(getattr(module, each))
        }
    return found


def uncovered(public: dict[str, Any]) -> set[str]:
    """Public functions that no case calls; classes have tests beside them, and results are what cases give."""
    seen = {id(case.call) for case in CASES.values()}
    return {
        name
        for name, thing in public.items()
        if id(thing) not in seen and not inspect.isclass(thing) and name not in NO_CASE
    }


def test_every_public_name_has_a_case():
    assert uncovered(public_callables()) == set()
    assert uncovered({"planted": lambda: None}) == {"planted"}
    commands = {
        name.split(",")[0].removeprefix("command ") for name in CASES if name.startswith("command ")
    }
    # `info` prints what the machine is, `ledger` what is in a file; `audit` runs what has cases of its own; `predict` asks a result
    # to predict; `local` has two commands, and the bits of reports and of means from them have tests beside them.
    assert set(COMMANDS) - commands == {"audit", "info", "ledger", "local", "predict"}


def unused(kind: type) -> set[str]:
    """Public properties and methods of a class that no use of its results calls; fields are recorded all."""
    fields = {field.name for field in dataclasses.fields(kind)}
    own = {name for each in kind.__mro__[:-1] for name in vars(each) if not name.startswith("_")}
    return (
        own
        - fields
        - WORDS_ONLY
        - USES.get(kind.__name__, {}).keys()
        - SAME.get(kind.__name__, set())
    )


def test_every_use_of_a_result_is_recorded():
    kinds = {
        case.call.__annotations__.get("return")
        for case in CASES.values()
        if inspect.isfunction(case.call)
    }
    names = {str(name).split(" |")[0] for name in kinds}
    found = {
        name: thing
        for name, thing in public_callables().items()
        if name in names and dataclasses.is_dataclass(thing)
    }
    assert {
        "MeanResult",
        "MixtureResult",
        "Preconditioner",
        "AxisAlignedLists",
        "Plan",
    } <= found.keys()
    assert {name: unused(kind) for name, kind in found.items() if unused(kind)} == {}


def kept_of(value: Any) -> Any:
    (leaf,) = canonical(value).values()
    return stored(leaf)


VALUES = [
    1.25,
    np.pi * np.arange(1.0, 5.0),
    1e-8 * np.arange(1.0, 500.0).reshape(-1, 1),
    [1.5, 2.5],
    np.array([np.nan, 2.0]),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: str(np.shape(value)))
def test_rounding_errors_are_close_and_changes_are_not(value):
    array = np.asarray(value)
    kept = kept_of(value)
    rebuilt = (lambda new: float(new)) if array.ndim == 0 else (lambda new: new)
    assert agree(kept, kept_of(rebuilt(array.copy())), bits=True)
    rounded = kept_of(rebuilt(array * (1.0 + 1e-9)))
    assert agree(kept, rounded, bits=False)
    assert not agree(kept, rounded, bits=True)
    assert not agree(kept, kept_of(rebuilt(array * (1.0 + 1e-4))), bits=False)
    if array.ndim:
        changed = array.copy()
        changed.flat[-1] += 0.01 * np.nanmax(array)
        assert not agree(kept, kept_of(changed), bits=False)
        assert not agree(kept, kept_of(array[None]), bits=False)
        changed.flat[-1] = np.inf
        assert not agree(kept, kept_of(changed), bits=False)


def test_integers_and_words_are_exact_everywhere():
    integers = np.arange(100)
    for one, other in (
        (integers, integers + (integers == 7)),
        ([1, 2], [1, 3]),
        (5, 6),
        (True, False),
        ("ok", "empty"),
        (ZCDP(1), ZCDP(2)),
    ):
        kept = {name: stored(leaf) for name, leaf in canonical(one).items()}
        now = {name: stored(leaf) for name, leaf in canonical(other).items()}
        assert differences(kept, kept, bits=True) == []
        assert len(differences(kept, now, bits=False)) == 1
    # Fields that come and go are named.
    found = differences({"mean": "1", "gone": "2"}, {"mean": "3", "new": "4"}, bits=False)
    assert [line.split(":")[0] for line in found] == ["gone", "new", "mean"]


def moved(name, field, change):
    """What is said of a case of which one field is changed by a function, the others as they are recorded."""
    kept = KEPT[name]
    numbers = numbers_of(kept[field])
    now = kept | {field: stored(Array(change(numbers), exact=False))}
    (line,) = differences(kept, now, bits=False)
    return line.split(": was")[0]


def test_a_mean_that_moved_is_said_in_its_noise():
    noise = numbers_of(KEPT["estimate_mean, counts, zcdp"]["noise_std"])

    def further(mean):
        return mean + np.array([0.0, 0.3, 2.0]) * noise

    said = moved("estimate_mean, counts, zcdp", "mean", further)
    assert (
        said == "mean: mean[1] moved by 0.3 of its noise_std; mean[2] moved by 2 of its noise_std"
    )


def test_a_count_that_moved_is_said_in_the_noise_of_all():
    noise = float(numbers_of(KEPT["value_counts, zcdp"]["noise_std"])[0])

    def further(counts):
        return counts + np.array([0.0, 0.0, 0.0, 0.0, 4.0]) * noise

    assert (
        moved("value_counts, zcdp", "counts", further)
        == "counts: counts[4] moved by 4 of its noise_std"
    )


def test_a_quantile_that_moved_is_said_in_its_interval():
    name = "quantiles by groups, zcdp"
    low = numbers_of(KEPT[name]["confidence_interval 0()"])
    high = numbers_of(KEPT[name]["confidence_interval 1()"])

    def further(quantile):
        shift = np.zeros_like(quantile)
        shift[0, 1, 0] = 0.5 * (high - low)[0, 1, 0] / 2.0
        return quantile + shift

    assert moved(name, "quantile", further).startswith(
        "quantile: quantile[0, 1, 0] moved by 0.5 of its half-width"
    )


def test_a_number_without_an_error_moved_by_a_part_of_itself():
    kept = {"error": [(2.0).hex()]}
    assert differences(kept, {"error": [(3.0).hex()]}, bits=False)[0].startswith(
        "error: error moved by 0.5 of itself: was"
    )


def test_every_field_is_recorded():
    recorded = {
        name.split(" ")[0].split(":")[0].split(".")[0]
        for name in KEPT["estimate_gaussian, pairs, zcdp"]
    }
    assert {
        field.name for field in dataclasses.fields(results.GaussianResult)
    } - ADDED.keys() <= recorded
