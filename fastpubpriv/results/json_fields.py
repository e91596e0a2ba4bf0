"""Fields of results as JSON values, and back: each must have the type and shape that was written, or an InputError names it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import sys
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np

from fastpubpriv import validation
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.privacy import Budget, Cost
from fastpubpriv.results.fields import Declaration
from fastpubpriv.results.reasons import Reason

# Version of the form of JSON texts, which rises when an older package could not read, or would misread, what is written.
FORMAT_VERSION = 1


def unreadable(fault: str) -> InputError:
    """Return the error for a JSON text with this fault."""
    return InputError(f"this JSON text cannot be read: {fault}")


def shortened(name: str) -> str:
    """Return the repr of a name for an error message, truncated after 40 characters."""
    return repr(name if len(name) <= 40 else name[:40] + "...")


def read_json(text: Any, kind: str) -> dict[str, Any]:
    """Return the object in a JSON text, or in the file at a path; raise InputError for anything else."""
    if not isinstance(text, str | bytes | os.PathLike):
        raise InputError(
            f"from_json reads the text that to_json returns, or a path to it, got {type(text).__name__}"
        )
    if not isinstance(text, bytes) and not str(text).lstrip().startswith(("{", "[")):
        try:
            text = Path(validation.path_name(text)).read_bytes()
        except (OSError, ValueError):
            raise InputError(
                f"this is neither the JSON text of a {kind} nor a file that can be read"
            ) from None
    try:
        data = json.loads(text, parse_constant=int)  # refuses NaN and Infinity, which are not JSON
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise InputError(
            f"this is not the JSON text of a {kind}: pass what to_json returned or wrote"
        )
    return without_version(data)


def without_version(data: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON object without its version, which older ones lack; raise InputError for a later one than this package reads."""
    version = data.get("format_version", 1)
    if type(version) is not int or version < 1:
        raise unreadable("field 'format_version' must hold a whole number from 1 on")
    if version > FORMAT_VERSION:
        raise unreadable(
            f"its format has version {version}, and this fastpubpriv reads versions up to {FORMAT_VERSION}; "
            "install a newer one"
        )
    return {name: value for name, value in data.items() if name != "format_version"}


def read_field(name: str, kind: Any, value: Any) -> Any:
    """Parse the JSON value of a field by its type; a value of a type without a rule is returned unchanged."""
    origin = get_origin(kind)
    parts = [each for each in get_args(kind) if each is not type(None)]
    if len(parts) < len(get_args(kind)) and value is None:
        return None
    if origin in (UnionType, Union):
        if value is None:
            raise unreadable(f"field {shortened(name)} must not hold null")
        for each in parts[:-1]:
            with contextlib.suppress(InputError):
                return read_field(name, each, value)
        return read_field(name, parts[-1], value)
    if origin is np.ndarray:
        return read_array(name, value, {}, ENTRIES)
    if hasattr(kind, "_from_plain"):
        return kind._from_plain(value)
    if kind is Budget:
        return Budget.from_dict(value)
    if origin is Literal or kind is Reason:
        fine = value in (parts or [*map(str, Reason)])
        words = "known words"
    else:
        test, words = _KINDS.get(origin or kind, (None, ""))
        fine = test is None or test(value)
    if not fine:
        raise unreadable(f"field {shortened(name)} must hold {words}")
    if origin is tuple:
        return tuple(read_field(name, parts[0], item) for item in value)
    if origin is Mapping:
        return {key: read_field(name, parts[1], item) for key, item in value.items()}
    if kind is float:
        # JSON cannot represent infinity, so it is written as null
        return math.inf if value is None else float(value)
    return Reason(value) if kind is Reason else value  # type: ignore[call-arg]


def read_array(name: str, value: Any, sizes: dict[str, int], declaration: Declaration) -> Any:
    """Return a read-only array with named axes, whose lengths `sizes` collects; null is read as `missing`, if that is given."""
    axes = declaration.axes
    missing = declaration.missing
    try:
        array: Any = np.array(_numbers(value, missing, declaration.dtype), dtype=declaration.dtype)
        if value == []:  # JSON has no shape for an empty list
            array = array.reshape(0, *(sizes.get(axis, 0) for axis in axes[1:]))
        fine = array.ndim == len(axes) and (math.isnan(missing or 0.0) or not np.isnan(array).any())
        fine = fine and (missing is not None or bool(np.isfinite(array).all()))
    except (ValueError, TypeError, OverflowError, RecursionError):
        fine = False
    if not fine:
        raise unreadable(
            f"field {shortened(name)} must be an array of finite numbers of shape ({', '.join(axes)})"
        )
    for axis, length in zip(axes, array.shape, strict=True):
        if sizes.setdefault(axis, length) != length:
            raise unreadable(
                f"field {shortened(name)} must have {sizes[axis]} entries along {axis}, got {length}"
            )
    array.flags.writeable = False
    return array


def _numbers(value: Any, missing: float | None, dtype: type) -> Any:
    """Check nested lists of numbers; `np.array` alone would accept strings and booleans."""
    if type(value) is list:
        return [_numbers(item, missing, dtype) for item in value]
    if value is None and missing is not None:
        return missing
    if type(value) is not int and (type(value) is not float or dtype is np.int64):
        raise TypeError
    return value


# The declaration of an array within a tuple.
ENTRIES = Declaration(axes=("entries",), dtype=np.float64)
# For each type of a field: a test of the JSON value, and the description of valid values in error messages.
_KINDS: dict[Any, tuple[Callable[[Any], bool], str]] = {
    int: (lambda value: type(value) is int and 0 <= value < 2**63, "a whole number"),
    float: (
        lambda value: (
            value is None or (type(value) in (int, float) and abs(value) <= sys.float_info.max)
        ),
        "a number, or null for an infinite one",
    ),
    bool: (lambda value: type(value) is bool, "true or false"),
    str: (lambda value: type(value) is str, "text"),
    tuple: (lambda value: type(value) is list, "a list"),
    Mapping: (lambda value: type(value) is dict, "an object"),
}


def plain(value: Any) -> Any:
    """Turn a field of a result into types that JSON has; exact fractions keep their numerator and denominator."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Reason):
        return value.value
    if isinstance(value, Fraction):
        return {"exact": f"{value.numerator}/{value.denominator}", "value": float(value)}
    if hasattr(value, "_plain"):
        return plain(value._plain())
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, Mapping):
        return {str(key): plain(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def read_price(value: Any) -> Budget | Cost:
    """Read a budget or cost from its JSON value."""
    try:
        return Budget.from_dict(value)
    except BudgetError:
        return Cost.from_dict(value)  # a cost of zero, or smaller than the smallest valid budget
