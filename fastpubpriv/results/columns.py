"""What released counts say about each column of a mean: a status, what could not be seen, and how far clipping may mislead."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.reading import Form, read_array
from fastpubpriv.results.base import Value
from fastpubpriv.results.words import Column, Table, tally

STATUSES = {
    "resolved": "the counts show its scale and where it ends",
    "heavy_tail": "it falls off slowly: there may be more beyond what can be seen than the interval allows for",
    "faint": "few rows far from all others decide it: the interval holds if nothing lies further out",
    "unseen": "more than one row in fifty may lie far away unseen: the interval holds if none does, or with bounds",
    "wide": "the public rows alone do about as well",
    "one_scale": "its own scale is not known: noise and interval are those of whole rows, too wide for a column in a small unit",
    "point_mass": "constant, or the rows that differ are fewer than can be seen: no interval without bounds",
    "unresolved": "the counts cannot show its scale: no interval without bounds",
}


def _unbounded(name: str) -> Form:
    return lambda value: read_array(name, value, ("dim",), {}, missing=math.inf)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ColumnReport(Value):
    """What released and public numbers say about each column; all arrays are (dim,), in data units unless said otherwise.

    Attributes
    ----------
    status : tuple of str
        "resolved", "heavy_tail", "faint", "unseen", "wide", "one_scale", "point_mass" or "unresolved".
    missing : float64
        Released number of rows without a number here; zero where it is within its noise. NaN (null in JSON) where whole rows were
        counted by their norm, and those without a number as rows at the centre.
    resolved_from, resolved_to : float64
        The counts show rows as far as these numbers.
    undetected_rows : float64
        Up to this many rows may lie outside that range without being noticed in the noisy counts: anywhere within the bounds, or,
        without bounds, in one octave up to a thousand times further out.
    clipping_std : float64
        Standard deviation of the correction that was added for clipped rows.
    tail_below, tail_above : float64
        How far rows that could not be seen may move the mean down or up, if the tails continue as the counts show them.
    worst_below, worst_above : float64
        The same for rows anywhere within the bounds; without bounds zero, or infinite (null in JSON) where nothing is known.
    lowest, highest : float64
        Bounds of the mean that the caller gave; infinite without (null in JSON; `lowest` as the negative of it).
    """

    status: tuple[str, ...]
    missing: FloatArray
    resolved_from: FloatArray
    resolved_to: FloatArray
    undetected_rows: FloatArray
    clipping_std: FloatArray
    tail_below: FloatArray
    tail_above: FloatArray
    worst_below: FloatArray
    worst_above: FloatArray
    lowest: FloatArray
    highest: FloatArray

    _forms: ClassVar[Mapping[str, Form]] = {
        **{
            name: ("dim",)
            for name in (
                "resolved_from", "resolved_to", "undetected_rows", "clipping_std", "tail_below", "tail_above",
            )
        },
        "missing": lambda value: read_array("missing", value, ("dim",), {}, missing=math.nan),
        "worst_below": _unbounded("worst_below"),
        "worst_above": _unbounded("worst_above"),
        "lowest": lambda value: read_array("lowest", value, ("dim",), {}, missing=-math.inf),
        "highest": _unbounded("highest"),
    }  # fmt: skip

    def _refuse_nonsense(self) -> None:
        lengths = {len(getattr(self, field.name)) for field in dataclasses.fields(self)}
        if len(lengths) != 1 or not set(self.status) <= STATUSES.keys():
            raise InputError("this JSON text cannot be read: a report has one known status for each column")

    def interval(self, mean: FloatArray, width: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Ends of an interval around `mean` whose noise, sampling and clipping reach `width` to each side."""
        lower = mean - np.hypot(width, self.tail_below) - self.worst_below
        upper = mean + np.hypot(width, self.tail_above) + self.worst_above
        return np.clip(lower, self.lowest, self.highest), np.clip(upper, self.lowest, self.highest)

    def flagged(self, labels: tuple[str, ...]) -> dict[str, list[str]]:
        """Labels of the columns of each status but "resolved"."""
        found: dict[str, list[str]] = {}
        for label, status in zip(labels, self.status, strict=True):
            if status != "resolved":
                found.setdefault(status, []).append(label)
        return found

    def __repr__(self) -> str:
        return f"ColumnReport(status={self.status})" if len(self.status) <= 6 else f"ColumnReport({tally(self.status)})"

    def _table(self) -> Table:
        names = ("status", "missing", "resolved_from", "resolved_to", "undetected_rows")
        numbers = [Column(name, getattr(self, name)) for name in names]
        return Table("column", [str(place) for place in range(len(self.status))], numbers)


def read_report(value: Any) -> ColumnReport:
    """Read a report from its JSON value."""
    if not isinstance(value, dict):
        raise InputError("this JSON text cannot be read: field 'report' must be an object or null")
    report = ColumnReport(**ColumnReport._fields_of(value))
    report._refuse_nonsense()
    return report
