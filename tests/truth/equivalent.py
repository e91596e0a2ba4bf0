"""Terms that may be changed without a wrong answer, each with the reason: `mutate.py` does not count them as survivors."""

from __future__ import annotations

from typing import NamedTuple


class Equivalent(NamedTuple):
    """A term by its file, its function and its text, and why no oracle has to notice a change of it."""

    path: str
    function: str
    text: str
    reason: str


EQUIVALENT: tuple[Equivalent, ...] = ()


def reason_of(path: str, function: str, text: str) -> str:
    """Why a change of this term is no fault; empty if it is not listed."""
    return next((each.reason for each in EQUIVALENT if each[:3] == (path, function, text)), "")
