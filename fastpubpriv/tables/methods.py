"""Public functions as methods of a table: each is the function itself, without the arguments that the table binds.

`methods.pyi` has their types, made by `python tests/tables/method_types.py`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import MethodType
from typing import Any

import fastpubpriv
from fastpubpriv.sources.bound import BOUND


class Method:
    """A public function of the same name as a method; it is imported when it is first asked for."""

    __slots__ = ("name",)

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, table: Any, owner: type | None = None) -> Callable[..., Any]:
        method = method_of(getattr(fastpubpriv, self.name))
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
    kept = []
    is_bound = False
    for line in inspect.cleandoc(docstring).split("\n"):
        if not line.startswith(" "):
            is_bound = line.partition(" : ")[0] in BOUND
        if not is_bound:
            kept.append(line)
    return "\n".join(kept)


class Methods:
    """Every public function that takes private rows and a ledger, as a method."""

    __slots__ = ()

    coinpress_covariance = Method()
    coinpress_mean = Method()
    count_persons = Method()
    describe = Method()
    estimate_gaussian = Method()
    estimate_mean = Method()
    learn_axis_aligned_mixture = Method()
    learn_separated_mixture = Method()
    linear_regression = Method()
    logistic_regression = Method()
    no_public_baseline = Method()
    private_pca = Method()
    quantiles = Method()
    select_hypothesis = Method()
    stable_histogram = Method()
    train = Method()
    value_counts = Method()
    weighted_mean = Method()
