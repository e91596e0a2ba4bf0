"""Names of intervals of numbers, as bins and keys show them."""

from __future__ import annotations


def written(number: float) -> str:
    """Return the shortest text that reads as this number, without a decimal point for a whole one."""
    return repr(float(number)).removesuffix(".0")


def name_of_interval(low: float, high: float, right: bool = False) -> str:
    """Return the name of an interval that is closed on the left, with `right` on the right."""
    ends = f"{written(low)}, {written(high)}"
    return f"({ends}]" if right else f"[{ends})"
