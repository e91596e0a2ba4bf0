"""Objects that hand out private content by no operator, protocol or function of Python."""

from __future__ import annotations

from typing import Any, NoReturn


class Closed:
    """Base class: pickling, copying, iterating, comparing, converting and formatting raise TypeError."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        if spec:
            _refuse("formatted as a number")
        return repr(self)

    def __reduce__(self) -> NoReturn:
        _refuse("pickled or copied")

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        _refuse("converted to an array")

    def __iter__(self) -> NoReturn:
        _refuse("iterated over")

    def __contains__(self, item: object) -> NoReturn:
        _refuse("searched")

    def __getitem__(self, index: object) -> NoReturn:
        _refuse("indexed")

    def __eq__(self, other: object) -> NoReturn:
        _refuse("compared")

    def __bool__(self) -> NoReturn:
        _refuse("used as a truth value")

    __hash__ = object.__hash__
    __array_ufunc__ = None  # NumPy operators and functions then raise TypeError instead of trying to convert


def _refuse(action: str) -> NoReturn:
    raise TypeError(f"private rows cannot be {action}: only an estimator, or fold(), may read them")
