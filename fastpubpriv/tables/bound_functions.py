"""Public functions as methods of a table: each is the function itself, without the arguments that the table binds.

`bound_functions.pyi` has their types, made by `python tests/tables/types_of_methods.py`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from importlib import import_module
from types import MethodType
from typing import Any

from fastpubpriv.sources.bound import BOUND


class BoundFunction:
    """A public function of the same name as a method; it is imported when it is first asked for."""

    __slots__ = ("name",)

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, table: Any, owner: type | None = None) -> Callable[..., Any]:
        method = method_of(getattr(import_module("fastpubpriv"), self.name))
        return method if table is None else MethodType(method, table)


@functools.cache
def method_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function as a method, whose signature and docstring have no bound parameters."""

    @functools.wraps(function)
    def method(self: Any, *given: Any, **named: Any) -> Any:
        return function(self, *given, **named)

    signature = inspect.signature(function)
    free = [each for name, each in signature.parameters.items() if name not in BOUND]
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    described: Any = method
    described.__signature__ = signature.replace(parameters=[own, *free])
    method.__qualname__ = f"PrivateTable.{function.__name__}"
    if function.__doc__ is not None:
        method.__doc__ = without_bound(function.__doc__)
    return method


def without_bound(docstring: str) -> str:
    """Return a docstring without the parameters that a table binds."""
    lines = []
    is_bound = False
    for line in inspect.cleandoc(docstring).split("\n"):
        if not line.startswith(" "):
            is_bound = line.partition(" : ")[0] in BOUND
        if not is_bound:
            lines.append(line)
    return "\n".join(lines)


class BoundFunctions:
    """Every public function that takes private rows and a ledger, as a method."""

    __slots__ = ()

    coinpress_covariance = BoundFunction()
    coinpress_mean = BoundFunction()
    count_persons = BoundFunction()
    describe = BoundFunction()
    estimate_gaussian = BoundFunction()
    estimate_mean = BoundFunction()
    learn_axis_aligned_mixture = BoundFunction()
    learn_separated_mixture = BoundFunction()
    linear_regression = BoundFunction()
    logistic_regression = BoundFunction()
    no_public_baseline = BoundFunction()
    private_pca = BoundFunction()
    quantiles = BoundFunction()
    select_hypothesis = BoundFunction()
    stable_histogram = BoundFunction()
    train = BoundFunction()
    value_counts = BoundFunction()
    weighted_mean = BoundFunction()
