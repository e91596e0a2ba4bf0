"""Tables of results: labeled lines with columns, as text, as HTML, and made from the declarations of fields."""

from __future__ import annotations

import datetime
import html
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Any, NamedTuple

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.results.fields import WIDTH, Declaration, columns_of
from fastpubpriv.results.reasons import PartReasons, status_of
from fastpubpriv.rowwise.intervals import name_of_interval

# Maximum number of rows and columns of a table in a text or page; a data frame has all of them.
MOST_ROWS = 60
MOST_COLUMNS = 20
ROUNDED_COLUMNS = 10  # maximum number of columns of a table for a terminal


# Facts below a table, as (name, sentence) pairs.
Facts = list[tuple[str, str]]


class TableColumn(NamedTuple):
    """A column of a table; texts round values to two digits of their uncertainty `scale`, and show `spread` after a ±."""

    name: str
    values: Any
    scale: Any = None
    spread: tuple[str, Any] | None = None


@dataclass(frozen=True)
class Table:
    """Table of labeled rows; `index` names the labels. A column is a TableColumn or (name, values); names may repeat.

    The columns `more`, and the rows that are true in `left_out`, are in data frames only, not in texts. `parts_of_labels` names the
    entries of labels that are tuples; `crossed` is a form with an axis for each of two entries, which texts show instead. Texts for
    a terminal round numbers, other texts where `rounded`. `units` has the unit of the intervals of each row; empty if all have one.
    """

    index: str
    labels: Sequence[Any]
    columns: Sequence[TableColumn | tuple[str, Any]]
    more: Sequence[TableColumn] = ()
    left_out: Sequence[bool] = ()
    parts_of_labels: Sequence[str] = ()
    crossed: Table | None = None
    rounded: bool = False
    units: Sequence[str] = ()

    @property
    def in_texts(self) -> Table:
        """The form that texts show."""
        return self if self.crossed is None else self.crossed

    @property
    def printed(self) -> list[int]:
        """Places of the rows that texts show."""
        left_out = set(np.flatnonzero(self.left_out).tolist())
        return [row for row in range(len(self.labels)) if row not in left_out]

    @property
    def every(self) -> list[TableColumn]:
        """All columns of a data frame."""
        return [*self.parts(), *self.more]

    def taken(self, places: Sequence[int]) -> Table:
        """Return the table of the rows at these places, in this order."""

        def of(values: Any) -> Any:
            if values is None or isinstance(values, np.ndarray):
                return values if values is None else values[places]
            return [values[place] for place in places]

        columns = [TableColumn(each.name, of(each.values), of(each.scale)) for each in self.parts()]
        return replace(self, labels=of(self.labels), columns=columns, left_out=of(self.left_out))

    def parts(self, *, rounded: bool = False) -> list[TableColumn]:
        """Return all columns as TableColumns; unless `rounded`, spreads become columns of their own."""
        given = [TableColumn(*column) for column in self.columns]
        if rounded:
            return given
        columns = []
        for each in given:
            columns.append(
                TableColumn(each.name, each.values, each.scale if self.rounded else None)
            )
            if each.spread is not None:
                columns.append(TableColumn(*each.spread))
        return columns


def as_shown(key: Any) -> Any:
    """Return a key as results show it: a date, or a period or interval of pandas, as text."""
    if isinstance(key, tuple):
        return tuple(map(as_shown, key))
    if type(key).__name__ == "Interval":
        return name_of_interval(key.left, key.right, key.closed == "right")
    if isinstance(key, datetime.datetime):
        return key.date().isoformat()
    if isinstance(key, np.datetime64):
        is_coarse = np.datetime_data(key.dtype)[0] in ("Y", "M")
        return str(key if is_coarse else key.astype("M8[D]"))
    return str(key) if isinstance(key, datetime.date) or type(key).__name__ == "Period" else key


def label_of(name: Any) -> str:
    """Return a group or key as text; the parts of a tuple are joined by commas."""
    name = as_shown(name)
    if isinstance(name, tuple):
        return ", ".join(map(label_of, name))
    return str(name) if isinstance(name, str | bool) else f"{name:g}"


class Lines(NamedTuple):
    """The lines of a table: the axes whose entries they are, in row-major order, with the titles and names of their entries."""

    axes: tuple[str, ...]
    titles: tuple[str, ...]
    names: tuple[Sequence[Any], ...]

    @classmethod
    def of(cls, value: Any) -> Lines:
        """Return the lines of a value, which has a line for each entry of its axes `_line_axes`."""
        titles, names = zip(*map(value._axis, value._line_axes), strict=True)
        return cls(value._line_axes, titles, names)

    def __len__(self) -> int:
        return math.prod(map(len, self.names))

    def along(self, axes: tuple[str, ...], values: Any) -> Any:
        """Return the value of each line from values with some of the axes; an array, or tuples within tuples."""
        if isinstance(values, np.ndarray):
            flat: Any = values.reshape(-1)
        else:
            flat = list(values)
            for _ in axes[1:]:
                flat = [*chain(*flat)]
        if axes in (self.axes, ("lines",)):
            return flat
        sizes = tuple(map(len, self.names))
        own = [size if axis in axes else 1 for axis, size in zip(self.axes, sizes, strict=True)]
        places = np.broadcast_to(np.arange(math.prod(own)).reshape(own), sizes).reshape(-1)
        return flat[places] if isinstance(flat, np.ndarray) else [flat[place] for place in places]

    def joined(self, axes: tuple[str, ...]) -> list[str]:
        """Return the names of the entries of some axes, in row-major order; a single column is not named beside others."""
        parts = []
        for axis in axes:
            names = self.names[self.axes.index(axis)]
            if axis != "dim" or len(names) > 1 or len(axes) == 1:
                parts.append([label_of(name) for name in names])
        return [": ".join(each) for each in product(*parts)]


def table_of(value: Any, level: float) -> Table:
    """Return the table that the declarations of a value make, with a line for each entry of its axes `_line_axes`."""
    lines = Lines.of(value)
    heads = []
    # An axis without a title has a declared column.
    for axis, title, names in list(zip(*lines, strict=True))[1:]:
        if title and len(names) > 1:
            heads.append(TableColumn(title, lines.along((axis,), names)))
    before: list[TableColumn] = []
    behind: list[TableColumn] = []
    more: list[TableColumn] = []
    for name, declaration in columns_of(type(value)).items():
        columns = _columns_of(value, name, declaration, lines, level) if declaration.axes else []
        if declaration.frames_only:
            more += columns
        elif declaration.after_reasons:
            behind += columns
        else:
            before += columns
    parts = getattr(value, "part_reasons", ())
    # A text may hold other reasons, of parts that are no lines.
    reasons = with_reasons(parts) if len(parts) == len(lines) else []
    labels = lines.along(lines.axes[:1], lines.names[0])
    by = getattr(value, "by", ())
    table = Table(lines.titles[0], labels, [*heads, *before, *reasons, *behind], more=more)
    if len(by) > 1:
        tuples = [label if isinstance(label, tuple) else (label,) * len(by) for label in labels]
        table = replace(table, labels=tuples, parts_of_labels=by)
    rounded = value._rounded
    return replace(table, left_out=value._left_out, rounded=rounded, units=value._units())


def declared_numbers(
    value: Any, name: str, declaration: Declaration, level: float
) -> tuple[Any, Any]:
    """Return the numbers that are declared, and their interval ends; None for each that the value does not have."""
    numbers = getattr(value, name)
    if callable(numbers):
        numbers = numbers(level)
    has_ends = numbers is not None and declaration.ends
    return numbers, getattr(value, declaration.ends)(level) if has_ends else None


def _columns_of(
    value: Any, name: str, declaration: Declaration, lines: Lines, level: float
) -> list[TableColumn]:
    """Return the columns of one declaration: of the numbers, of interval ends, or one for each name of the last axis."""
    numbers, ends = declared_numbers(value, name, declaration, level)
    label = declaration.label or ""
    if numbers is None:
        return []
    error = declaration.error
    scales = getattr(value, error) if error and error != WIDTH else None
    if declaration.axes[:-1] == lines.axes:
        columns = []
        for place, column in enumerate(value._axis(declaration.axes[-1])[1]):
            spread = None
            if declaration.spread is not None:
                title, attribute = declaration.spread
                spread = title + column, getattr(value, attribute)[..., place].reshape(-1)
            scale = None if scales is None else scales[..., place].reshape(-1)
            values = numbers[..., place].reshape(-1)
            columns.append(TableColumn(label + column, values, scale, spread))
        return columns
    if scales is not None:
        scales = np.broadcast_to(scales, np.shape(numbers)).reshape(-1)
    elif error == WIDTH and ends is not None:
        scales = scale_of(*ends).reshape(-1)
    named = zip((label, *declaration.names_of_ends), (numbers, *(ends or ())), strict=False)
    return [TableColumn(each, lines.along(declaration.axes, of), scales) for each, of in named]


def scale_of(lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Return the uncertainty of numbers from the ends of their intervals: a quarter of the width."""
    with np.errstate(invalid="ignore"):
        return upper / 4.0 - lower / 4.0


def line_columns(value: Any, level: float) -> list[TableColumn]:
    """Return the columns that are declared for the lines of whatever table a class has."""
    columns = []
    for name, declaration in columns_of(type(value)).items():
        if declaration.axes == ("lines",):
            columns += _columns_of(value, name, declaration, Lines(("lines",), (), ()), level)
    return columns


def declared_facts(value: Any) -> Facts:
    """Return the facts that declared numbers and texts without axes are: label and value, with the unit."""
    facts = []
    for name, declaration in columns_of(type(value)).items():
        number = getattr(value, name)
        if not declaration.axes and number is not None:
            facts.append(
                (declaration.label or "", f"{cell_text(number)} {declaration.unit}".rstrip())
            )
    return facts


def with_ends(
    name: str,
    values: Any,
    ends: tuple[Any, Any],
    scale: Any,
    names: tuple[str, str] = ("lower", "upper"),
) -> list[TableColumn]:
    """Return the columns of an estimate and of its lower and upper interval ends."""
    return [
        TableColumn(each, of, scale)
        for each, of in zip((name, *names), (values, *ends), strict=True)
    ]


def with_reasons(parts: PartReasons) -> list[TableColumn]:
    """Return the columns "status" and "reasons" of the parts; an empty list without parts."""
    if not parts:
        return []
    statuses = [status_of(each) for each in parts]
    words = [", ".join(each) for each in parts]
    return [TableColumn("status", statuses), TableColumn("reasons", words)]


def number(value: float, scale: float) -> str:
    """Return a value rounded to two digits of `scale`, its uncertainty."""
    if not math.isfinite(value) or not math.isfinite(scale) or scale <= 0.0:
        return f"{value:.6g}"
    places = 1 - math.floor(math.log10(scale))
    if places > 9 or abs(value) >= 1e12 or places < -6:
        return f"{value:.{max(1, min(17, places + 1 + math.floor(math.log10(max(abs(value), scale)))))}g}"
    return f"{round(value, places):,.{max(places, 0)}f}"


def bracketed(array: Any) -> str:
    """Return a small array as one line of text, with six digits per number."""
    if array.ndim == 0:
        return f"{array:.6g}"
    return f"[{', '.join(bracketed(item) for item in array)}]"


def percent(level: float) -> str:
    """Return a confidence level as text: "95 %", or the plain number above 0.9999."""
    return f"{level:.12g}" if level > 0.9999 else f"{100 * level:.4g} %"


def cell_text(value: Any) -> str:
    """Return a value as one line of text, with six digits per number."""
    if value is None:
        return ""
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    if isinstance(value, tuple):
        return ", ".join(cell_text(item) for item in value)
    return " ".join(str(value).split())


def cells(
    table: Table, *, rounded: bool = False, where: str = "to_frame()"
) -> tuple[list[list[str]], list[str]]:
    """Return the lines of cells to show, column names first, and notes on omitted rows and columns and where to find them."""
    table = table.in_texts
    printed = table.printed
    columns = [
        each
        for each in table.parts(rounded=rounded)
        if each.name != "reasons" or any(each.values[row] for row in printed)
    ]
    most = ROUNDED_COLUMNS if rounded else MOST_COLUMNS
    shown = columns[:most]
    lines = [
        [
            table.index,
            *(cell_text(column.name) + (" ± std" if column.spread else "") for column in shown),
        ]
    ]
    for row in printed[:MOST_ROWS]:
        line = [cell_text(table.labels[row])]
        for _, values, scale, spread in shown:
            value = values[row]
            rounded_value = scale is not None and value is not None
            text = number(float(value), float(scale[row])) if rounded_value else cell_text(value)
            line.append(text if spread is None else f"{text} ± {spread[1][row]:.3g}")
        lines.append(line)
    kind = "columns" if table.index == "column" else "rows"
    left = [(len(printed) - MOST_ROWS, kind), (len(columns) - most, "columns")]
    return lines, [
        f"... and {count} more {what}; {where} has all of them."
        for count, what in left
        if count > 0
    ]


def interval_drawings(table: Table) -> list[str]:
    """Return an HTML cell per row that draws its interval and estimate, with a thin line at zero; [] without intervals.

    Rows of one unit share an axis, whose ends stand below the last of them.
    """
    columns = {column.name: column.values for column in table.parts()}
    if not {"lower", "upper"} <= columns.keys():
        return []
    before = list(columns)[list(columns).index("lower") - 1]
    spans = [np.asarray(columns[name], dtype=np.float64) for name in ("lower", before, "upper")]
    ends = np.column_stack(spans)
    units: Any = np.array(table.units or [""] * len(ends), dtype=str)
    drawn: Any = np.isfinite(ends).all(axis=1).tolist()
    printed = table.printed[:MOST_ROWS]
    last = {units[row]: row for row in printed if drawn[row]}
    cells = []
    for row, unit in enumerate(units):
        known = np.append(ends[units == unit], 0.0)
        known = known[np.isfinite(known)]
        axis = float(known.min()), float(known.max())
        inside = _interval_svg(ends[row], axis, scale=last.get(unit) == row) if drawn[row] else ""
        cells.append(f"<td>{inside}</td>")
    return cells


def _interval_svg(span: FloatArray, axis: tuple[float, float], *, scale: bool) -> str:
    """Return a drawing of a lower end, an estimate and an upper end on an axis, with the ends of the axis below if `scale`."""
    low, high = axis
    with np.errstate(all="ignore"):
        shares = np.clip((np.append(0.0, span) - low) / (high - low), 0.0, 1.0)
    zero, least, at, most = 2.0 + 116.0 * shares
    if not math.isfinite(zero):
        return ""
    lines = [
        f"<line x1='{zero:.1f}' x2='{zero:.1f}' y2='12' stroke-width='.5'/>",
        f"<line x1='{least:.1f}' x2='{most:.1f}' y1='6' y2='6'/><circle cx='{at:.1f}' cy='6' r='2'/>",
    ]
    if scale:
        label = "fill='currentColor' stroke='none' font-size='9'"
        lines += [
            "<line x1='2' x2='118' y1='14' y2='14' stroke-width='.5'/>",
            f"<text x='2' y='24' {label}>{low:.3g}</text>",
            f"<text x='118' y='24' text-anchor='end' {label}>{high:.3g}</text>",
        ]
    height = 26 if scale else 12
    return f"<svg width='120' height='{height}' stroke='currentColor'>{''.join(lines)}</svg>"


def listed_facts(facts: Facts) -> str:
    """Return (name, text) pairs as an escaped HTML list."""
    pairs = (
        f"<dt>{html.escape(name)}</dt><dd>{html.escape(cell_text(text))}</dd>"
        for name, text in facts
    )
    return f"<dl>{''.join(pairs)}</dl>"
