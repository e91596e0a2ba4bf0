"""Results read back from JSON: every field has the type and shape that was written, or an InputError says which has not."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError

Shape = tuple[str, ...]
Form = Shape | Callable[[Any], Any]

_LARGEST = 2**63


def shortened(name: str) -> str:
    """A name for a message."""
    return repr(name if len(name) <= 40 else name[:40] + "...")


def read_json(text: Any, kind: str) -> dict[str, Any]:
    """The object in a JSON text; InputError for anything else."""
    if not isinstance(text, str | bytes):
        raise InputError(
            f"from_json reads the text that to_json returns, got {type(text).__name__}: pass path.read_text()"
        )
    try:
        data = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise InputError(f"this is not the JSON text of a {kind}: pass what to_json returned or wrote")
    return data


def _refuse_constant(word: str) -> None:
    raise ValueError(word)  # NaN and Infinity are not JSON


def read_field(name: str, annotation: str, value: Any, form: Form | None, sizes: dict[str, int]) -> Any:
    """A field from what JSON has for it, by the annotation of the dataclass; `sizes` collects the lengths of named axes."""
    if value is None and form is not None and annotation.endswith("| None"):
        return None
    if isinstance(form, tuple):
        return read_array(name, value, form, sizes)
    if form is not None:
        return form(value)
    if annotation not in _READERS:
        return value
    found = _READERS[annotation](value)
    if found is _WRONG:
        raise InputError(f"this JSON text cannot be read: field {shortened(name)} must be {_WORDS[annotation]}")
    return found


def read_array(
    name: str, value: Any, shape: Shape, sizes: dict[str, int], *, missing: float | None = None
) -> FloatArray:
    """A float64 array of a shape whose axes have names; `missing` stands for null."""
    wanted = f"an array of finite numbers of shape ({', '.join(shape)})"
    try:
        array = np.array(_numbers(value, missing), dtype=np.float64)
        fine = array.ndim == len(shape) and (math.isnan(missing or 0.0) or not np.isnan(array).any())
        fine = fine and (missing is not None or bool(np.isfinite(array).all()))
    except (ValueError, TypeError, OverflowError, RecursionError):
        fine = False
    if not fine:
        raise InputError(f"this JSON text cannot be read: field {shortened(name)} must be {wanted}")
    for axis, length in zip(shape, array.shape, strict=True):
        if sizes.setdefault(axis, length) != length:
            raise InputError(
                f"this JSON text cannot be read: field {shortened(name)} must have {sizes[axis]} entries along {axis}, "
                f"got {length}"
            )
    array.flags.writeable = False
    return array


def _numbers(value: Any, missing: float | None) -> Any:
    """Nested lists of floats; np.array alone would take texts and true for numbers."""
    if type(value) is list:
        return [_numbers(item, missing) for item in value]
    if value is None and missing is not None:
        return missing
    if type(value) not in (int, float):
        raise TypeError
    return float(value)


def refuse_no_covariances(covariances: FloatArray) -> None:
    """InputError unless all of (k, dim, dim) are symmetric and positive definite."""
    for covariance in covariances:
        diagonal = np.diag(covariance)
        try:
            if not np.all(diagonal > 0.0):
                raise np.linalg.LinAlgError
            with np.errstate(all="ignore"):
                correlation = covariance / np.sqrt(np.outer(diagonal, diagonal))
            if not np.abs(correlation - correlation.T).max() <= 1e-8:
                raise np.linalg.LinAlgError
            np.linalg.cholesky(correlation)
        except np.linalg.LinAlgError:
            raise InputError(
                "this JSON text cannot be read: a covariance must be symmetric and positive definite"
            ) from None


class _Wrong:
    """What a reader returns for a value of another type."""


_WRONG = _Wrong()


def _whole(value: Any) -> Any:
    return value if type(value) is int and 0 <= value < _LARGEST else _WRONG


def _number(value: Any) -> Any:
    if value is None:
        return math.inf  # not a number of JSON
    fine = type(value) is float or (type(value) is int and abs(value) < _LARGEST)
    return float(value) if fine and math.isfinite(value) else _WRONG


def _of(kind: type) -> Callable[[Any], Any]:
    return lambda value: value if type(value) is kind else _WRONG


def _tuple_of(kind: type) -> Callable[[Any], Any]:
    return lambda value: tuple(value) if type(value) is list and all(type(item) is kind for item in value) else _WRONG


def _texts(value: Any) -> Any:
    return value if type(value) is dict and all(type(item) is str for item in value.values()) else _WRONG


def read_numbers(value: Any) -> dict[str, float]:
    """An object of numbers by name, null for an infinite one."""
    found: dict[str, Any] = (
        {name: _number(each) for name, each in value.items()} if type(value) is dict else {"": _WRONG}
    )
    if any(each is _WRONG for each in found.values()):
        raise InputError(
            "this JSON text cannot be read: details and terms must be objects of numbers, null for infinite ones"
        )
    return found


_READERS: dict[str, Callable[[Any], Any]] = {
    "int": _whole,
    "float": _number,
    "bool": _of(bool),
    "str": _of(str),
    "int | None": lambda value: None if value is None else _whole(value),
    "float | None": lambda value: None if value is None else _number(value),
    "Mapping[str, Any]": _of(dict),
    "Mapping[str, str]": _texts,
    "tuple[str, ...]": _tuple_of(str),
    "tuple[str, ...] | None": lambda value: None if value is None else _tuple_of(str)(value),
    "tuple[Mapping[str, Any], ...]": _tuple_of(dict),
}
_WORDS = {
    "int": "a whole number",
    "float": "a number, or null for an infinite one",
    "bool": "true or false",
    "str": "text",
    "int | None": "a whole number or null",
    "float | None": "a number or null",
    "Mapping[str, Any]": "an object",
    "Mapping[str, str]": "an object of texts",
    "tuple[str, ...]": "a list of texts",
    "tuple[str, ...] | None": "null or a list of texts",
    "tuple[Mapping[str, Any], ...]": "a list of objects",
}
