"""Validation of public arguments: each function returns the converted value or raises an InputError that names a valid one.

Comparisons are written so that NaN fails them.
"""

from __future__ import annotations

import difflib
import math
import numbers
import operator
import os
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError

S = TypeVar("S", bound=str)

_ASYMMETRY = 1e-8
_SAFE_PIVOT = 1e-8


def finite(name: str, value: object) -> float:
    """Return a finite real number (int, float, Fraction, Decimal, NumPy scalar; no bool or str) as a double, else InputError."""
    return _real(name, value, "a finite number")


def positive(name: str, value: object) -> float:
    """Return a finite number above zero as a float, else raise InputError. Types as in `finite`."""
    return _finite_number_where(
        name, value, "a finite number above 0", "be above 0", lambda number: number > 0.0
    )


def clip_norm(value: object) -> float:
    """Return a bound on the norm of gradients, a float in [1e-100, 1e100] so that its square is finite, else raise InputError."""
    number = positive("clip_norm", value)
    if not 1e-100 <= number <= 1e100:
        raise InputError(
            f"clip_norm must lie between 1e-100 and 1e100, got {_shown(value)}: change the unit of the columns"
        )
    return number


def nonnegative(name: str, value: object) -> float:
    """Return a finite number of zero or more as a float, else raise InputError. Types as in `finite`."""
    return _finite_number_where(
        name, value, "a finite number of at least 0", "be at least 0", lambda number: number >= 0.0
    )


def probability(name: str, value: object) -> float:
    """Return a number strictly between 0 and 1 as a float, else raise InputError. Types as in `finite`."""
    ends = "strictly between 0 and 1"
    return _finite_number_where(
        name, value, f"a number {ends}", f"lie {ends}", lambda number: 0.0 < number < 1.0
    )


def confidence_level(value: object, name: str = "level") -> float:
    """Return the confidence level of an interval, ellipse or test, a float in (0, 1), else raise InputError."""
    if (
        isinstance(value, bool)
        or not isinstance(value, float | np.floating)
        or not 0.0 < value < 1.0
    ):
        raise InputError(
            f"{name} must be a number in (0, 1), for example 0.95; got {_shown(value)}"
        )
    return float(value)


def fraction(name: str, value: object) -> float:
    """Return a number in [0, 1) as a float, else raise InputError. Types as in `finite`."""
    inside = lambda number: 0.0 <= number < 1.0  # noqa: E731
    return _finite_number_where(name, value, "a number in [0, 1)", "lie in [0, 1)", inside)


def integer(
    name: str, value: object, *, minimum: int | None = None, maximum: int | None = None
) -> int:
    """Return a whole number within the limits as an int, else raise InputError."""
    # bool and float are rejected: 2.0 may be the result of a computation that should have been checked.
    number = value if type(value) is int else _index(name, value)
    if minimum is not None and number < minimum:
        raise InputError(f"{name} must be at least {minimum}, got {_text_of_integer(number)}")
    if maximum is not None and number > maximum:
        raise InputError(f"{name} must be at most {maximum}, got {_text_of_integer(number)}")
    return number


def boolean(name: str, value: object) -> bool:
    """Return True or False, else raise InputError."""
    if not isinstance(value, bool):
        raise InputError(
            f"{name} must be True or False, got a value of type {type(value).__name__}"
        )
    return value


def finite_vector(name: str, value: object, dim: int) -> FloatArray:
    """Return a vector of `dim` finite numbers as a contiguous float64 copy, else raise InputError."""
    vector = real_array(name, value, f"a vector of {dim} numbers")
    if vector.shape != (dim,):
        raise InputError(f"{name} must be a vector of {dim} numbers, got shape {vector.shape}")
    if not np.isfinite(vector).all():
        index = int(np.flatnonzero(~np.isfinite(vector))[0])
        raise InputError(f"{name} must be finite, but {name}[{index}] is {float(vector[index])}")
    return vector


def column_bounds(
    value: object, dim: int, *, endless: bool = False
) -> tuple[FloatArray, FloatArray] | None:
    """Return `bounds` as lower and upper ends, (dim,) each, possibly infinite if `endless`, or None; else raise InputError."""
    if value is None:
        return None
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise InputError("bounds must be a pair (lowest, highest) of numbers or vectors, or None")
    low, high = (
        real_array("bounds", end, f"numbers, or vectors with {dim} of them") for end in value
    )
    if not all(end.shape in ((), (dim,)) for end in (low, high)):
        raise InputError(
            f"bounds must be a pair of numbers, or of vectors with one for each of the {dim} columns"
        )
    if not np.all(low < high):
        raise InputError("bounds must have each lowest value below the highest")
    if not endless and not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise InputError(
            "bounds must be finite: pass the least and the greatest value that a column can hold"
        )
    return np.broadcast_to(low, (dim,)).copy(), np.broadcast_to(high, (dim,)).copy()


def symmetric_positive_definite(name: str, matrix: object, dim: int) -> FloatArray:
    """Return the lower Cholesky factor (dim, dim) of a symmetric positive definite matrix, else raise InputError."""
    # Symmetric means up to rounding (1e-8 of the largest entry): the symmetric part is used. Definite means to working precision.
    array = real_array(name, matrix, f"a matrix of shape ({dim}, {dim})")
    if array.shape != (dim, dim):
        raise InputError(
            f"{name} must be a matrix of shape ({dim}, {dim}), got shape {array.shape}"
        )
    if not np.isfinite(array).all():
        row, column = (int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise InputError(
            f"{name} must be finite, but {name}[{row}, {column}] is {float(array[row, column])}"
        )
    largest = float(np.abs(array).max())
    # Scaling by a power of two prevents over- and underflow of the sums below and of the factor.
    exponent = math.frexp(largest)[1] // 2 * 2
    scaled = np.ldexp(array, -exponent)
    gap = np.abs(scaled - scaled.T)
    if not float(gap.max()) <= _ASYMMETRY * float(np.abs(scaled).max()):
        row, column = (int(i) for i in np.unravel_index(int(gap.argmax()), gap.shape))
        raise InputError(
            f"{name} must be symmetric, but {name}[{row}, {column}] is {float(array[row, column])} and "
            f"{name}[{column}, {row}] is {float(array[column, row])}"
        )
    symmetric = 0.5 * (scaled + scaled.T)
    factor = _cholesky(symmetric)
    if factor is None:
        least = math.ldexp(float(np.linalg.eigvalsh(symmetric)[0]), exponent)
        raise InputError(
            f"{name} must be positive definite to working precision, but its least eigenvalue is {least:.3g} "
            f"where the largest entry is {largest:.3g}: drop dependent columns, or add a small multiple of the identity"
        )
    return np.ldexp(factor, exponent // 2)


def choice(name: str, value: object, options: Iterable[S]) -> S:
    """Return the option that equals `value` exactly, else raise an InputError that lists the options."""
    allowed = tuple(options)
    if isinstance(value, str):
        for option in allowed:
            if option == value:
                return option
    listed = ", ".join(repr(str(option)) for option in allowed)
    shown = repr(value) if isinstance(value, str | int | float | None) else type(value).__name__
    raise InputError(f"{name} must be one of {listed}, got {shown}{did_you_mean(value, allowed)}")


def number_or_auto(name: str, value: str) -> None:
    """Raise InputError unless the text in place of a whole number is "auto"."""
    if value != "auto":
        raise InputError(f"{name} must be a whole number or 'auto', got {value!r}")


def did_you_mean(value: object, options: Iterable[str]) -> str:
    """Return a hint for a message with the option most similar to `value`, or an empty text."""
    if not isinstance(value, str):
        return ""
    # "male" means "Male", not "Female".
    named = {str(option).casefold(): str(option) for option in options}
    near = difflib.get_close_matches(value.casefold(), list(named), n=1)
    return f" (did you mean {named[near[0]]!r}?)" if near else ""


def path_name(path: object) -> str:
    """Return the text of a path, else raise InputError."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"a path must be text or an os.PathLike object, got {type(path).__name__}")
    name = os.fspath(path)
    if not isinstance(name, str):
        raise InputError("a path made of bytes is not accepted: pass text, os.fsdecode(path)")
    if "\0" in name:
        raise InputError("a path cannot hold a NUL character: pass the name of a file")
    return name


def _real(name: str, value: object, wanted: str) -> float:
    if type(value) is float and math.isfinite(value):  # first, as nearly always
        return value
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real | Decimal):
        raise InputError(f"{name} must be {wanted}, got {_shown(value)}")
    try:
        number = float(value)
    except (OverflowError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{name} must be {wanted}, got {_shown(value)}")
    return number


def _finite_number_where(
    name: str, value: object, wanted: str, rule: str, holds: Callable[[float], bool]
) -> float:
    """Return a finite number for which `holds` is true, else raise InputError."""
    number = _real(name, value, wanted)
    if not holds(number):
        raise InputError(f"{name} must {rule}, got {_shown(value)}")
    return number


def _shown(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return _text_of_integer(value)
    text = repr(value)
    return (
        text if len(text) <= 60 and "\n" not in text else f"a value of type {type(value).__name__}"
    )


def _text_of_integer(number: int) -> str:
    """Return the text of a whole number; Python refuses to write more than a few thousand digits."""
    return str(number) if abs(number) < 10**40 else f"one of {number.bit_length()} bits"


def _index(name: str, value: object) -> int:
    try:
        if isinstance(value, bool | np.bool_) or (
            isinstance(value, np.ndarray) and value.dtype.kind not in "iu"
        ):
            raise TypeError
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        pass
    raise InputError(f"{name} must be a whole number (int), got {_shown(value)}")


def real_array(name: str, value: object, wanted: str) -> FloatArray:
    """Return a float64 copy in C order of an array-like of real numbers, else raise InputError."""
    try:
        array = np.array(value)
        if array.dtype.kind == "O" and not any(
            isinstance(item, str | bytes | bool | None) for item in array.ravel().tolist()
        ):
            array = array.astype(np.float64)  # Fraction and Decimal
    except (TypeError, ValueError, OverflowError):
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "iuf":
        raise InputError(f"{name} must be {wanted}, all real numbers; got {_shown(value)}")
    with np.errstate(all="ignore"):
        return np.array(array, dtype=np.float64, order="C")


def _cholesky(matrix: NDArray[Any]) -> FloatArray | None:
    try:
        factor: FloatArray = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return None
    variances = np.diagonal(matrix)
    if bool((np.diagonal(factor) ** 2 > _SAFE_PIVOT * variances).all()):
        return factor
    # Nearly singular: the least eigenvalue may be positive by rounding alone, so it is compared with the rounding error, after
    # normalizing the columns (a diagonal matrix may have any scales).
    roots = np.sqrt(variances)
    least = float(np.linalg.eigvalsh(matrix / roots[:, None] / roots)[0])
    return factor if least > 4.0 * matrix.shape[0] * np.finfo(np.float64).eps else None
