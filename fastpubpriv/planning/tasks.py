"""The tasks of `plan`: the forecast of each, the defaults that its arguments have in the verb, and the checks that tasks share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, get_args

from fastpubpriv import validation
from fastpubpriv._types import PlanTask
from fastpubpriv.errors import InputError
from fastpubpriv.estimators.person_sizes import MORE_SHARE
from fastpubpriv.estimators.radii import failure_probability
from fastpubpriv.privacy import Budget
from fastpubpriv.privacy.calibrated_budget import row_budget
from fastpubpriv.session import PredictedError, Predictor
from fastpubpriv.sources.person_table import MOST_ROWS

# Upper bound on all integer arguments: floats represent every integer up to it.
MOST_COUNT = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The error of a task as a function of rows and budget, its unit, and details computed only for the solution (`more`)."""

    predict: Predictor
    unit: str
    more: Callable[[int, Budget], dict[str, float]] = lambda n_priv, budget: {}
    # whether all noise is Gaussian under zCDP, for which rho implies a smaller epsilon
    gaussian: Callable[[int, Budget], bool] = lambda n_priv, budget: True
    # whether the call takes one row of each person only: see `session.refuse_padding`
    one_row: bool = False


class _Tasks(Mapping[str, Callable[..., Forecast]]):
    """Functions that return the forecasts of the tasks; their modules are imported on first access, to keep the first call fast."""

    modules: Mapping[str, str] = {
        "separated_mixture": "mixture_forecasts",
        "axis_aligned_mixture": "mixture_forecasts",
        "select_hypothesis": "mixture_forecasts",
        "train": "training_forecasts",
    }

    def __iter__(self) -> Iterator[str]:
        return iter(get_args(PlanTask))

    def __len__(self) -> int:
        return len(get_args(PlanTask))

    def __getitem__(self, task: str) -> Callable[..., Forecast]:
        name = self.modules.get(task, "forecasts")
        module = import_module(f"fastpubpriv.planning.{name}")
        forecast: Callable[..., Forecast] = vars(module)[f"plan_{task}"]
        return forecast


TASKS: Mapping[str, Callable[..., Forecast]] = _Tasks()

# Meaning of the arguments that a task cannot do without.
REQUIRED = {
    "dim": "the number of columns",
    "radius": "that of the ball that holds the mean",
    "norm_bound": "the radius to which rows are clipped",
    "cells": "the combinations of keys, with '(other)' and '(missing)', or of bins",
    "n_components": "the number of components",
    "candidates": "the length of the list",
}
# Numbers that stand for arguments of the verbs, of which a plan sees no content.
NUMBER_OF = {
    "x_priv": "n_priv",
    "x_pub": "n_pub",
    "y_pub": "n_labeled",
    "columns": "dim",
    "by": "groups",
    "keys": "cells",
    "bins": "cells",
    "hypotheses": "candidates",
}
# Least and most of the numbers that have one meaning in all tasks; the other arguments are checked as in the call.
LIMITS = {"dim": (1, MOST_COUNT), "n_pub": (0, MOST_COUNT), "groups": (1, 10_000)}


def defaults_of(
    verb: Callable[..., Any],
) -> Callable[[Callable[..., Forecast]], Callable[..., Forecast]]:
    """Return a decorator that gives the arguments of a forecast the defaults that they have in the verb."""
    usual = inspect.signature(verb).parameters

    def with_defaults(make: Callable[..., Forecast]) -> Callable[..., Forecast]:
        shared = {}
        for name, argument in inspect.signature(make).parameters.items():
            is_open = argument.default is argument.empty
            if is_open and name in usual and name not in REQUIRED:
                shared[name] = usual[name].default
        return partial(make, **shared)

    return with_defaults


def parameters(task: str) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of the forecast of a task. Raise InputError if there is no such task."""
    return inspect.signature(TASKS[validation.choice("task", task, TASKS)]).parameters


def task_arguments(task: str) -> tuple[str, ...]:
    """Arguments of a task of `plan`, besides rows, budget and error.

    See Also
    --------
    fastpubpriv.plan : takes these arguments.
    TASKS : the tasks, by name.

    Examples
    --------
    >>> from fastpubpriv.planning import task_arguments
    >>> "n_components" in task_arguments("separated_mixture")
    True
    """
    return tuple(parameters(task))


def forecast_of(task: str, given: Mapping[str, Any]) -> Forecast:
    """Return the forecast of a task. Raise InputError for arguments that are missing, out of range or those of other tasks."""
    allowed = parameters(task)
    for name in given:
        if name not in allowed:
            number = NUMBER_OF.get(name)
            instead = "leave it out"
            if number == "n_priv" or number in allowed:
                instead = f"pass {number}=, since a plan takes numbers and no data"
            raise InputError(
                f"plan({task!r}) has no argument {name!r}: {instead}; its arguments are {', '.join(allowed)}"
            )
    for name, argument in allowed.items():
        if argument.default is argument.empty and given.get(name) is None:
            raise InputError(f"plan({task!r}) needs {name}=, {REQUIRED[name]}")
    checked = dict(given)
    for name, (least, most) in LIMITS.items():
        if name in given:
            checked[name] = validation.integer(name, given[name], minimum=least, maximum=most)
    if "failure_prob" in given:
        checked["failure_prob"] = failure_probability(given["failure_prob"])
    return TASKS[task](**checked)


def of_persons(task: str, forecast: Forecast, rows_per_person: Any) -> Forecast:
    """Return the forecast for so many rows of each person, whose number and whose budget it is then a function of."""
    if task == "count_persons":
        raise InputError("plan('count_persons') counts all rows: leave out rows_per_person=")
    rows_each = validation.integer("rows_per_person", rows_per_person, minimum=1, maximum=MOST_ROWS)
    if forecast.one_row and rows_each > 1:
        raise InputError(
            f"plan({task!r}): with these arguments the call takes one row of each person, got rows_per_person={rows_each}: "
            "leave it out, with the number of persons as n_priv=, and call with keep='mean'"
        )

    def spent_on(budget: Budget) -> Budget:
        return row_budget(budget * (1 - MORE_SHARE), rows_each)

    def predict(n_priv: int, budget: Budget) -> PredictedError:
        return forecast.predict(n_priv * rows_each, spent_on(budget))

    def gaussian(n_priv: int, budget: Budget) -> bool:
        return forecast.gaussian(n_priv * rows_each, spent_on(budget))

    return Forecast(predict=predict, unit=forecast.unit, gaussian=gaussian)
