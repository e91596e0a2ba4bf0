"""Warnings about results: the vocabulary of statuses and reasons that every result uses.

The status of a result, and of each of its parts, is the worst level of its reasons, or "ok" without any. The shape of an estimate
is not a reason; results record it in the field `structure`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Literal

import numpy as np

Status = Literal["ok", "caution", "unreliable"]
STATUSES: tuple[Status, ...] = ("ok", "caution", "unreliable")  # from the best to the worst


class Reason(StrEnum):
    """Warning about a result or a part of it; members are strings, ordered from the most severe.

    Attributes
    ----------
    level : str
        "caution" if the estimate is valid under the condition stated in `sentence`; "unreliable" if the estimate or its interval
        should not be used without checking what `sentence` states.
    sentence : str
        The explanation shown in texts, pages, plots and by the command line.
    """

    level: Status
    sentence: str

    def __new__(cls, word: str, level: Status, sentence: str) -> Reason:
        """Create a member: a string with two attributes."""
        member = str.__new__(cls, word)
        member._value_ = word
        member.level = level
        member.sentence = sentence
        return member

    UNRESOLVED = (
        "unresolved",
        "unreliable",
        "noise hides where it lies: it may be far off, or has no answer",
    )
    CONSTANT = (
        "constant",
        "unreliable",
        "rows are equal, or those that differ are too few to be seen: no interval without bounds",
    )
    COLLINEAR = (
        "collinear",
        "unreliable",
        "columns agree wherever rows show it: their common effect cannot be divided among them",
    )
    ONE_CLASS = (
        "one_class",
        "unreliable",
        "rows of one of the classes are too few to be seen: how the classes differ is not known",
    )
    SEPARATED = (
        "separated",
        "unreliable",
        "the columns tell the classes apart in nearly all rows: coefficients have no upper limit",
    )
    FALLBACK = (
        "fallback",
        "unreliable",
        "too little of it was seen: a public or coarser answer stands in",
    )
    CLIPPED = (
        "clipped",
        "unreliable",
        "it lies at the edge of what could be seen, of the clip radius or of bounds: it was held back",
    )
    FEW_PUBLIC_ROWS = (
        "few_public_rows",
        "unreliable",
        "public rows are too few or too alike to show its scale: no interval, or a guess",
    )
    POOR_FIT = (
        "poor_fit",
        "unreliable",
        "private rows differ from it by far more than noise and chance explain: it does not describe them",
    )
    EXACT_FIT = (
        "exact_fit",
        "caution",
        "labels follow from the columns exactly: the interval is that of rounding alone",
    )
    SHIFTED = (
        "shifted",
        "caution",
        "public and private rows differ by more than chance explains: this was allowed for",
    )
    HEAVY_TAIL = (
        "heavy_tail",
        "caution",
        "a few rows far out decide it: the interval holds if no more of them are hidden by noise",
    )
    GAPS = (
        "gaps",
        "caution",
        "rows with a missing cell are left out, and are many or uncounted: it describes complete rows alone",
    )
    NO_INTERVAL = (
        "no_interval",
        "caution",
        "the method has no interval: what it clips, and what its rounds miss, is not known",
    )
    MORE_MISSING = (
        "more_missing",
        "caution",
        "surely more cells of the private file are missing than of the public rows: is it written in the same way?",
    )
    ROWS_LEFT_OUT = (
        "rows_left_out",
        "caution",
        "persons with more rows than were used decide less than their rows do",
    )
    ROUGH_FIT = (
        "rough_fit",
        "caution",
        "private rows differ from it by more than noise and chance explain: means and weights hold as a summary",
    )
    NOT_GAUSSIAN = (
        "not_gaussian",
        "caution",
        "its rows fall off in another way than a Gaussian does: means and weights hold as a summary",
    )
    TIES = "ties", "caution", "many rows share a value, or may: a density says little about them"
    SHORTLIST = (
        "shortlist",
        "caution",
        "there were more candidates than can be compared: only the heaviest were",
    )
    FEW_ROWS = (
        "few_rows",
        "caution",
        "rows are few for this much noise: some that would change it may be unseen",
    )
    WIDE = (
        "wide",
        "caution",
        "noise is large beside its scale, if that is known: public rows alone may do as well",
    )


Reasons = tuple[Reason, ...]
PartReasons = tuple[Reasons, ...]


def ordered(reasons: Iterable[Reason]) -> Reasons:
    """Return the distinct reasons in the order of `Reason`."""
    present = set(reasons)
    return tuple(reason for reason in Reason if reason in present) if present else ()


def status_of(reasons: Iterable[Reason]) -> Status:
    """Return the worst level of the reasons, or "ok" if there are none."""
    return max((reason.level for reason in reasons), key=STATUSES.index, default="ok")


def first_of(choices: Sequence[tuple[Any, Reason | None]], size: int) -> PartReasons:
    """Return for each of `size` parts the first reason whose condition holds, if any; conditions are (size,) arrays or bools."""
    held = np.ones((len(choices) + 1, size), dtype=bool)
    for row, (condition, _) in zip(held, choices, strict=False):
        row[:] = condition
    reasons = [*(() if reason is None else (reason,) for _, reason in choices), ()]
    return tuple(reasons[place] for place in held.argmax(axis=0).tolist())


def with_reason(parts: PartReasons, reason: Reason, holds: Sequence[bool]) -> PartReasons:
    """Return the reasons of the parts, with one added where it `holds`."""
    return tuple(
        ordered((*own, reason)) if here else own for own, here in zip(parts, holds, strict=True)
    )


def explained(
    reasons: Reasons, parts: PartReasons = (), causes: Mapping[Reason, str] | None = None
) -> list[tuple[str, str]]:
    """Return the status of a result, with the numbers of its parts, and each reason with its sentence, as (name, text) pairs.

    `causes` are texts with the numbers of this result, which follow the sentence of a reason.
    """
    status = status_of(reasons)
    of_parts = [status_of(each) for each in parts]
    counted = ", ".join(f"{of_parts.count(each)} {each}" for each in STATUSES if each in of_parts)
    status_text = f"{status} ({counted})" if reasons and len(parts) > 1 else status
    texts = [(reason.value, with_cause(reason, causes or {})) for reason in reasons]
    return [("Status", status_text), *texts]


def with_cause(reason: Reason, causes: Mapping[Reason, str]) -> str:
    """Return the sentence of a reason, followed by its cause, if there is one."""
    cause = causes.get(reason)
    return reason.sentence if cause is None else f"{reason.sentence}; {cause}"
