"""Dates as whole numbers: the days since 1970, and the months, quarters or years in which they lie.

A moment is one number whatever the type of its column: a date, a time stamp of any unit, an object of Python, NumPy or pandas, or
an ISO 8601 text such as 2024-01-31, 2024-01-31T10:22 or "2024-01-31 10:22:00+01:00". Its day is that of its own clock: an offset
or time zone is dropped. Any other cell, and a day outside the years 1 to 9999, is NaN. The number of a cell depends on that cell
and on the type of the column alone, and no cell raises an error.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.sources.arrays import plain_text
from fastpubpriv.sources.lazy_modules import compute, pa, types

Unit = Literal["day", "month", "quarter", "year"]
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_FIRST_DAY = datetime.date.min.toordinal() - _EPOCH
_LAST_DAY = datetime.date.max.toordinal() - _EPOCH
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_DAYS_OF_UNIT = {"Y": 365.2425, "M": 30.436875, "W": 7.0, "D": 1.0}  # mean lengths, Gregorian
_STEPS_OF_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_ISO = (
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.,][0-9]+)?)?"
    r"(Z|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)?)?"
)
_ISO_TEXT = re.compile(_ISO)
_ISO_HEAD = len("2024-01-31")
_MONTH = r"[0-9]{4}-[0-9]{2}"
_MONTH_TEXT = re.compile(_MONTH)
_COARSE: dict[str, Unit] = {"M": "month", "Y": "year"}  # units of NumPy


@dataclass(frozen=True, slots=True)
class Calendar:
    """Encoding of a cell by the number of its day, month, quarter or year, counted from that of 1970-01-01; NaN for no date."""

    unit: Unit = "day"

    def of_days(self, days: FloatArray) -> FloatArray:
        """Return the numbers of days, (k,), as numbers of this unit; NaN stays."""
        if self.unit == "day":
            return days
        known = ~np.isnan(days)
        dates = np.where(known, days, 0.0).astype(np.int64).astype("M8[D]")
        months = dates.astype("M8[M]").astype(np.int64)
        return np.where(known, months // _MONTHS[self.unit], np.nan)

    def of_cells(self, cells: Iterable[Any]) -> FloatArray:
        """Return the numbers of cells of any type, (k,)."""
        listed = list(cells)
        days = [day_of_cell(cell, self.reads_months) for cell in listed]
        numbers = self.of_days(np.array(days, dtype=np.float64))
        for place, cell in enumerate(listed):
            if type(cell).__name__ == "Period":
                numbers[place] = self.of_period(cell)
        return numbers

    def of_period(self, period: Any) -> float:
        """Return the number of a period of pandas, or a month or year of NumPy, if it is one of this unit, else NaN."""
        if unit_of_period(period) != self.unit or period != period:
            return math.nan
        if isinstance(period, np.datetime64):
            return float(period.astype(np.int64))
        return float(period.ordinal)

    @property
    def reads_months(self) -> bool:
        """Whether a text such as 2024-01, which has no day, has a number."""
        return self.unit != "day"


def day_of_month(days: FloatArray) -> FloatArray:
    """Return the day of the month, 1 to 31, of numbers of days, (k,); NaN stays."""
    known = ~np.isnan(days)
    dates = np.where(known, days, 0.0).astype(np.int64).astype("M8[D]")
    first = dates.astype("M8[M]").astype("M8[D]")
    return np.where(known, (dates - first).astype(np.int64) + 1.0, np.nan)


_UNITS = {"D": "day", "M": "month", "Q-DEC": "quarter", "Y-DEC": "year", "A-DEC": "year"}


def unit_of_frequency(frequency: str) -> Unit | None:
    """Return the unit of periods of pandas with this frequency; None for other ones, such as weeks or fiscal quarters."""
    return _UNITS.get(frequency)  # type: ignore[return-value]


def unit_of_period(period: Any) -> Unit | None:
    """Return the unit of a period of pandas, or of a month or year of NumPy; None for other ones."""
    if isinstance(period, np.datetime64):
        return _COARSE.get(np.datetime_data(period.dtype)[0])
    return unit_of_frequency(period.freqstr)


def is_month_or_year(cell: object) -> bool:
    """Return whether an object is a month or year of NumPy, such as numpy.datetime64("2024-01")."""
    if not isinstance(cell, np.datetime64):
        return False
    unit, count = np.datetime_data(cell.dtype)
    return unit in _COARSE and count == 1


def is_month(text: str) -> bool:
    """Return whether a text names a month, such as 2024-01."""
    return _MONTH_TEXT.fullmatch(text) is not None


def day_of_cell(cell: object, months: bool = False) -> float:
    """Return the day of an object, NaN for what is no date; the code of foreign classes raises nothing.

    With `months` a text such as 2024-01 is the first day of its month.
    """
    try:
        if isinstance(cell, str):
            text = plain_text(cell)
            return _day_of_text(f"{text}-01" if months and is_month(text) else text)
        if isinstance(cell, np.datetime64):
            return float(days_of_datetimes(np.array([cell]))[0])
        # NaT, and time stamps of pandas outside the years 1 to 9999, are dates with fields of no meaning.
        if not isinstance(cell, datetime.date) or cell != cell or not _is_plain(cell):
            return math.nan
        return float(datetime.date.toordinal(cell) - _EPOCH)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return math.nan


def is_dates(obj: object) -> bool:
    """Return True for a one-dimensional array of dates, or a list or array of cells with a date among them."""
    if isinstance(obj, np.ndarray) and obj.ndim == 1:
        return obj.dtype.kind == "M" or (obj.dtype.kind == "O" and is_dates(obj.tolist()))
    if not isinstance(obj, list | tuple):
        return False
    return any(isinstance(cell, datetime.date | np.datetime64) for cell in obj)


def _is_plain(cell: datetime.date) -> bool:
    return bool(cell.year == datetime.date.year.__get__(cell))


def _day_of_text(text: str) -> float:
    """Return the day of an ISO 8601 text, NaN for any other."""
    match = _ISO_TEXT.fullmatch(text)
    return math.nan if match is None else _day_of_head(match[1])


def _day_of_head(text: str) -> float:
    """Return the day of a text YYYY-MM-DD, NaN if there is no such day."""
    try:
        return float(datetime.date(*map(int, text.split("-"))).toordinal() - _EPOCH)
    except ValueError:
        return math.nan


def _within_calendar(days: NDArray[np.int64]) -> FloatArray:
    return np.where((days >= _FIRST_DAY) & (days <= _LAST_DAY), days, np.nan)


def days_of_datetimes(values: NDArray[Any]) -> FloatArray:
    """Return the days of a datetime64 array (k,) of any unit."""
    unit, count = np.datetime_data(values.dtype)
    if unit == "generic":
        return np.full(len(values), np.nan)  # without a unit there is only NaT
    if unit in _DAYS_OF_UNIT:
        # A conversion to days could overflow into the calendar.
        about = values.astype(np.int64) * (count * _DAYS_OF_UNIT[unit])
        values = np.where(np.abs(about) <= 2.0 * _LAST_DAY, values, np.array("NaT", values.dtype))
    if unit in ("ps", "fs", "as"):
        values = values.astype("M8[ns]")  # a day has too many of these for a conversion in one step
    return _within_calendar(values.astype("M8[D]").astype(np.int64))


def is_dated(arrow_type: Any) -> bool:
    """Return whether a column of this Arrow type holds dates or time stamps."""
    if types.is_dictionary(arrow_type):
        return is_dated(arrow_type.value_type)
    return bool(types.is_date(arrow_type) or types.is_timestamp(arrow_type))


def require_known_zone(arrow_type: Any, label: str) -> None:
    """Raise InputError if the time zone of a column of time stamps is not known here."""
    if types.is_dictionary(arrow_type):
        arrow_type = arrow_type.value_type
    if not types.is_timestamp(arrow_type) or arrow_type.tz is None:
        return
    try:
        days_of_arrow(pa.array([0], pa.int64()).cast(arrow_type))
    except pa.ArrowInvalid:
        raise InputError(
            f"the time zone of column {label!r} is unknown to pyarrow: convert the column to one without a zone"
        ) from None


def days_of_arrow(column: Any) -> FloatArray:
    """Return the days of an Arrow Array or ChunkedArray of dates or time stamps, (k,)."""
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_date32(column.type):
        steps = 1
        numbers = _whole_numbers(column.cast(pa.int32()))
    else:
        unit = column.type.unit if types.is_timestamp(column.type) else "ms"
        steps = _STEPS_OF_DAY[unit]
        numbers = _whole_numbers(column)
    known = ~_missing(column)
    if types.is_timestamp(column.type) and column.type.tz is not None:
        # The offset of a zone is less than a day; near the ends of 64 bits it could overflow.
        days = numbers // steps
        known &= (days >= _FIRST_DAY - 1) & (days <= _LAST_DAY + 1)
        known &= np.abs(numbers // 2) <= np.iinfo(np.int64).max // 2 - steps
        moments = pa.array(np.where(known, numbers, 0)).cast(column.type)
        numbers = _whole_numbers(compute.local_timestamp(moments))
    return np.where(known, _within_calendar(numbers // steps), np.nan)


def _whole_numbers(column: Any) -> NDArray[np.int64]:
    """Return the numbers that stand for the cells of an Arrow column of fixed width, 0 for a missing one."""
    filled = column.cast(pa.int64()).fill_null(0)
    return np.asarray(filled.to_numpy()).astype(np.int64, copy=False)


def _missing(column: Any) -> NDArray[np.bool_]:
    missing = compute.is_null(column)
    options = {} if isinstance(missing, pa.ChunkedArray) else {"zero_copy_only": False}
    return np.asarray(missing.to_numpy(**options)).astype(bool, copy=False)


def days_of_texts(trimmed: Any, months: bool = False) -> FloatArray:
    """Return the days of stripped texts in an Arrow array of binary data, (k,); `months` as for `day_of_cell`."""
    # As bytes, so that text that is not UTF-8 does not match instead of raising.
    is_iso = compute.match_substring_regex(trimmed, rf"\A{_ISO}\z")
    missing = pa.scalar(None, trimmed.type)
    heads = compute.if_else(is_iso, compute.binary_slice(trimmed, 0, _ISO_HEAD), missing)
    if months:
        is_month = compute.match_substring_regex(trimmed, rf"\A{_MONTH}\z")
        parts = [trimmed, *(pa.scalar(part, trimmed.type) for part in (b"-01", b""))]
        heads = compute.if_else(is_month, compute.binary_join_element_wise(*parts), heads)
    distinct = heads.dictionary_encode()
    days = [_day_of_head(head.decode()) for head in distinct.dictionary.to_pylist()]
    places = distinct.indices.fill_null(len(days)).to_numpy()
    return np.asarray(np.append(days, np.nan)[places])
