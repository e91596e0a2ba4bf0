"""Exact numbers at the door of the accounting, and the two directed ways from there to a float."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from fastpubpriv.errors import BudgetError

Number: TypeAlias = int | float | Fraction | Decimal | np.floating[Any] | np.integer[Any]
"""What a privacy parameter may be given as. A float stands for its shortest decimal: 0.1 is one tenth."""

# A float of any size needs at most 2098 bits. The limit keeps a hostile Fraction or Decimal from filling the memory,
# and keeps every number short enough for Python's own limit of 4300 digits in a decimal string.
_MAX_BITS = 4096
_RATIO = re.compile(r"(0|[1-9][0-9]*)/([1-9][0-9]*)\Z")


def exact(value: object, name: str) -> Fraction:
    """`value` as an exact Fraction; BudgetError for everything that is not one finite real number."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, bool | np.bool_):
        raise BudgetError(f"{name} must be a number, got the bool {bool(value)}; pass for example {name}=1.0")
    if isinstance(value, int | Fraction):
        number = Fraction(value)
    elif isinstance(value, np.integer):
        number = Fraction(int(value))
    elif isinstance(value, float | np.floating):
        if not math.isfinite(value):
            raise BudgetError(f"{name} must be finite, got {float(value)}; pass a finite number")
        number = Fraction(str(value))  # str() of a NumPy scalar is the shortest text of its own type
    elif isinstance(value, Decimal):
        if not value.is_finite():
            raise BudgetError(f"{name} must be finite, got Decimal('{value}'); pass a finite number")
        if value and abs(value.adjusted()) > 1200:
            raise BudgetError(f"{name} has a decimal exponent beyond 1200; pass a number between 1e-300 and 1e300")
        number = Fraction(value)
    else:
        raise BudgetError(
            f"{name} must be an int, float, Fraction, Decimal or NumPy number, got {type(value).__name__}; "
            f"convert it first, for example {name}=float(...)"
        )
    if max(number.numerator.bit_length(), number.denominator.bit_length()) > _MAX_BITS:
        raise BudgetError(f"{name} has more than {_MAX_BITS} bits; pass a float or a Fraction with a short denominator")
    return number


def whole(value: object, name: str, *, at_least: int = 1) -> int:
    """`value` as an int >= at_least; BudgetError for bools, floats and everything else."""
    if type(value) is int and value >= at_least:
        return value
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise BudgetError(f"{name} must be an int, got {type(value).__name__}; pass a whole number >= {at_least}")
    if value < at_least:
        raise BudgetError(f"{name} must be >= {at_least}, got {int(value)}")
    return int(value)


def float_down(value: Fraction) -> float:
    """Return the largest float that is not above `value`, read as its binary number or as its shortest decimal."""
    found = float(value)
    while not math.isinf(found) and max(Fraction(found), Fraction(str(found))) > value:
        found = math.nextafter(found, -math.inf)
    return found


def float_up(value: Fraction) -> float:
    """Return the smallest float that is not below `value`, read as its binary number or as its shortest decimal."""
    found = float(value)
    while not math.isinf(found) and min(Fraction(found), Fraction(str(found))) < value:
        found = math.nextafter(found, math.inf)
    return found


def float_for(value: Fraction, rounded: Callable[[Fraction], float] = float_up) -> float:
    """Return the float that stands for `value`, or `rounded(value)` if none does."""
    nearest = float(value)
    return nearest if Fraction(str(nearest)) == value else rounded(value)


def show(value: Fraction) -> str:
    """A short text for messages and reprs: the float that stands for the number, or six digits if none does."""
    try:
        nearest = float(value)
    except OverflowError:
        return "more than 1e308"
    return repr(nearest) if Fraction(str(nearest)) == value else f"{nearest:.6g}"


def to_ratio(value: Fraction) -> str:
    """The text "numerator/denominator", the exact form that files carry."""
    return f"{value.numerator}/{value.denominator}"


def from_ratio(text: object, name: str) -> Fraction:
    """The inverse of `to_ratio`; BudgetError for any text that `to_ratio` would not have written."""
    match = _RATIO.match(text) if isinstance(text, str) and len(text) <= 8000 else None
    if match is None or max(map(len, match.groups())) > 4000:
        raise BudgetError(f"{name} is not an exact 'numerator/denominator' text")
    number = Fraction(int(match[1]), int(match[2]))
    if to_ratio(number) != text:
        raise BudgetError(f"{name} is not in lowest terms")
    return number
