"""Results in words: numbers rounded to their meaningful digits, budgets explained, tables as text, HTML and data frames."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from fastpubpriv.errors import InputError
from fastpubpriv.privacy import ZCDP, ApproxDP, Budget, Cost, PureDP, best_epsilon

# The delta at which a zCDP budget is restated for readers who know (epsilon, delta).
READERS_DELTA = Fraction(1, 10**6)
# Rows and columns of a table that a text or page shows; a data frame has all of them.
MOST_ROWS, MOST_COLUMNS = 60, 20
ROUNDED_COLUMNS = 10  # of a table for a terminal


class Column(NamedTuple):
    """A column of a table. `scale` is the uncertainty of each value: a terminal shows only the digits that are meaningful with it.
    A terminal shows the values of `spread` behind a ±; elsewhere they are a separate column.
    """

    name: str
    values: Any
    scale: Any = None
    spread: tuple[str, Any] | None = None


@dataclass(frozen=True)
class Table:
    """Rows with labels; `index` says what the labels are. Columns are a Column or (name, values); names need not differ."""

    index: str
    labels: Sequence[Any]
    columns: Sequence[Column | tuple[str, Any]]

    def parts(self, *, rounded: bool = False) -> list[Column]:
        """The columns, each as a Column; spreads are columns too unless values are rounded to what is meaningful."""
        given = [Column(*column) for column in self.columns]
        if rounded:
            return given
        return [Column(*pair) for each in given for pair in ((each.name, each.values), each.spread) if pair is not None]


def number(value: float, scale: float) -> str:
    """A value rounded to two digits of `scale`, its uncertainty."""
    if not math.isfinite(value) or not math.isfinite(scale) or scale <= 0.0:
        return f"{value:.6g}"
    places = 1 - math.floor(math.log10(scale))
    if places > 9 or abs(value) >= 1e12 or places < -6:
        return f"{value:.{max(1, min(17, places + 1 + math.floor(math.log10(max(abs(value), scale)))))}g}"
    return f"{round(value, places):,.{max(places, 0)}f}"


def bracketed(array: Any) -> str:
    """A small array in one line, six digits for each number."""
    if array.ndim == 0:
        return f"{array:.6g}"
    return f"[{', '.join(bracketed(item) for item in array)}]"


def amount(value: Fraction) -> str:
    """An exact amount as a short decimal."""
    return f"{float(value):.6g}"


def short(budget: Budget | Cost) -> str:
    """Parts and amounts: "rho = 0.5"."""
    parts = budget.notion.parts if isinstance(budget, Cost) else budget.parts
    return ", ".join(f"{name} = {amount(value)}" for name, value in zip(parts, budget.amounts, strict=True))


def readers_epsilon(budget: Budget, *, all_gaussian: bool) -> float:
    """The epsilon that a budget implies; of zCDP the one at `READERS_DELTA`, smaller where all noise is Gaussian."""
    if isinstance(budget, ZCDP):
        return float(best_epsilon(READERS_DELTA, budget.rho, all_gaussian=all_gaussian))
    return float(budget.amounts[0])


def explain(
    budget: Budget | Cost | None, releases: tuple[Mapping[str, Any], ...] = (), *, epsilon: float | None = None
) -> str:
    """A budget in words, for people who know one notion of it; `epsilon` is what zCDP implies, by default that of the releases."""
    if budget is None or (isinstance(budget, Cost) and budget.is_zero):
        return "nothing: only public rows were used"
    if isinstance(budget, Cost):
        return short(budget)
    if isinstance(budget, ZCDP):
        if epsilon is None:
            gaussian = bool(releases) and all(release.get("noise") == "gaussian" for release in releases)
            epsilon = readers_epsilon(budget, all_gaussian=gaussian)
        return f"rho = {amount(budget.rho)} (zCDP), which implies epsilon = {epsilon:.3g} at delta = 1e-6"
    if isinstance(budget, ApproxDP):
        return f"{short(budget)} (approximate DP)"
    assert isinstance(budget, PureDP)
    return f"{short(budget)} (pure DP)"


def tally(status: Iterable[str]) -> str:
    """Count each word: "2 ok, 1 low_count"."""
    found = list(status)
    return ", ".join(f"{found.count(word)} {word}" for word in dict.fromkeys(found)) or "none"


def _cell(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    if isinstance(value, tuple):
        return ", ".join(_cell(item) for item in value)
    return " ".join(str(value).split())


def _entry(column: Column, row: int) -> str:
    """A cell of a column, rounded to its meaningful digits, with its spread."""
    value = column.values[row]
    text = _cell(value) if column.scale is None else number(float(value), float(column.scale[row]))
    return text if column.spread is None else f"{text} ± {column.spread[1][row]:.3g}"


def cells(table: Table, *, rounded: bool = False, where: str = "to_frame()") -> tuple[list[list[str]], list[str]]:
    """The cells that are shown, with the line of names first; and a text on what was left out and where it can be found."""
    columns = table.parts(rounded=rounded)
    most = ROUNDED_COLUMNS if rounded else MOST_COLUMNS
    shown = columns[:most]
    lines = [[table.index, *(_cell(column.name) + (" ± std" if column.spread else "") for column in shown)]]
    for row in range(min(len(table.labels), MOST_ROWS)):
        lines.append([_cell(table.labels[row]), *(_entry(column, row) for column in shown)])
    kind = "columns" if table.index == "column" else "rows"
    left = [(len(table.labels) - MOST_ROWS, kind), (len(columns) - most, "columns")]
    return lines, [f"... and {count} more {what}; {where} has all of them." for count, what in left if count > 0]


def as_text(title: str, table: Table, facts: list[tuple[str, str]]) -> str:
    """Title, table and facts in lines."""
    lines, more = cells(table)
    widths = [max(len(line[j]) for line in lines) for j in range(len(lines[0]))]
    rows = [
        "  ".join(
            [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        )
        for line in lines
    ]
    space = max((len(name) for name, _ in facts), default=0)
    told = [f"{name.ljust(space)}  {_cell(text)}" for name, text in facts]
    return "\n".join(line.rstrip() for line in [title, *rows, *more, *told])


def as_html(title: str, table: Table, facts: list[tuple[str, str]]) -> str:
    """The same as HTML for a notebook. Names of columns come from data files, so every text is escaped."""
    (names, *rows), more = cells(table)

    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(line(row, "td") for row in rows)
    notes = "".join(f"<p>{html.escape(text)}</p>" for text in more)
    told = "".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(_cell(text))}</dd>" for name, text in facts)
    return (
        f"<div><strong>{html.escape(title)}</strong><table><thead>{line(names, 'th')}</thead><tbody>{body}</tbody></table>"
        f"{notes}<dl>{told}</dl></div>"
    )


def as_frame(table: Table) -> Any:
    """The table as a pandas data frame, with the labels as its index."""
    try:
        import pandas
    except ImportError:
        raise InputError("to_frame needs pandas: pip install pandas, or use to_dict()") from None
    columns = table.parts()
    frame = pandas.DataFrame(
        {place: list(column.values) for place, column in enumerate(columns)},
        index=pandas.Index(list(table.labels), name=table.index),
    )
    frame.columns = pandas.Index([column.name for column in columns])
    return frame
