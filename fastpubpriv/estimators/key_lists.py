"""Public lists of keys of columns, and the codes of rows by them.

A list holds texts, numbers, truth values, dates, calendar periods or intervals of numbers, of one kind; bins of numbers are such a
list, too. Every key is known without the private rows.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray, column_of
from fastpubpriv.errors import InputError
from fastpubpriv.kernels.rows import Codes, column_codes
from fastpubpriv.results.by_key import FEW_STDS, MISSING, OTHER, Part
from fastpubpriv.rowwise.intervals import name_of_interval, written
from fastpubpriv.session import PredictedError
from fastpubpriv.sources import Rows, private_rows
from fastpubpriv.sources.arrays import plain_text
from fastpubpriv.sources.dates import Calendar, day_of_cell, is_month_or_year, unit_of_period
from fastpubpriv.sources.labeled import beside
from fastpubpriv.sources.open import (
    cells_of_column,
    distinct_texts,
    public_table_of,
    refuse_shared_memory,
)
from fastpubpriv.sources.row_types import levels_of
from fastpubpriv.sources.tables import (
    TextColumns,
    TextsOrOther,
    cells_of_texts,
    is_arrow_column,
    is_instance,
    is_series,
)
from fastpubpriv.threads.guard import naming

MOST_CELLS = 1_000_000


def predicted_share(count_std: float, number: int) -> PredictedError:
    """Return the noise of a count as a share of so many rows or persons, and the least share that is told from none."""
    return count_std / number, {
        "count_std": count_std,
        "smallest_share": FEW_STDS * count_std / number,
    }


@dataclass(frozen=True, slots=True, eq=False)
class ListedNumbers:
    """Map from numbers to indices in a list: `places` of each of `ascending`, then of any other number, and of a missing one."""

    ascending: FloatArray
    places: Codes

    @classmethod
    def of(cls, numbers: Sequence[float] | range) -> ListedNumbers:
        """Return the map of distinct finite numbers."""
        listed = np.array(numbers, dtype=np.float64)
        order = np.argsort(listed, kind="stable")
        places = np.append(order, [len(order), len(order) + 1]).astype(np.int32)
        return cls(listed[order], places)

    def __call__(self, column: np.ndarray[Any, Any]) -> Codes:
        """Return the codes of numbers (n,); one that is not finite is missing."""
        # Keys are rounded to the precision of the chunk: 0.1 in single precision matches the key 0.1.
        with np.errstate(over="ignore"):
            keys = self.ascending.astype(column.dtype).astype(np.float64)
        places_of_keys = column_codes(column, keys)
        # The usual list ascends: its keys are where they were listed.
        if np.all(self.places[1:] > self.places[:-1]):
            return places_of_keys
        return self.places[places_of_keys]


@dataclass(frozen=True, slots=True, eq=False)
class NumbersBetween:
    """Map from numbers to cells between ascending edges: `places` of the cell below the first, of each between two, of the last.

    The last entry of `places` is for missing numbers. An edge belongs to the cell on its right, with `right` to that on its left.
    """

    edges: FloatArray
    places: Codes
    right: bool = False

    def __call__(self, column: np.ndarray[Any, Any]) -> Codes:
        """Return the codes of numbers (n,); one that is not finite is missing."""
        # As in `ListedNumbers`: 0.1 in single precision lies on the edge 0.1.
        with np.errstate(over="ignore"):
            edges = self.edges.astype(column.dtype)
        cells = np.searchsorted(edges, column, side="left" if self.right else "right")
        return self.places[np.where(np.isfinite(column), cells, len(edges) + 1)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Keys:
    """The public list of keys of one column."""

    name: str | int | None  # a number in a source without names, None for its only column
    levels: tuple[Part, ...]  # as results show them
    codes: ListedNumbers | NumbersBetween
    # how cells are read as numbers, if the column does not hold numbers
    rule: TextsOrOther | Calendar | None = None
    has_other: bool = True  # whether a number may be none of the keys
    source: str = "argument"  # see `Result.provenance`
    n_pub: int = 0  # number of public rows that the keys are from

    @property
    def label(self) -> str:
        """Name of the column in a result."""
        return self.name if isinstance(self.name, str) else f"x{self.name or 0}"

    @property
    def cells(self) -> tuple[Part, ...]:
        """The keys, then what stands for other values and for missing ones."""
        return (*self.levels, *((OTHER,) if self.has_other else ()), MISSING)

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.levels) + 1 + self.has_other


@dataclass(frozen=True, slots=True, eq=False)
class KeyCodes:
    """Map from rows to indices in the lists of keys: one code per column, or if `joint` one row-major code of all columns."""

    columns: tuple[ListedNumbers | NumbersBetween, ...]
    sizes: tuple[int, ...]  # number of cells of each column
    joint: bool
    # whether the last column says which rows there are; an absent row has a cell of its own, the last
    present: bool = False

    def __call__(self, chunk: Any) -> list[Codes]:
        """Return the codes of the last columns of a chunk; the code of a row depends on that row alone."""
        first = chunk.shape[1] - len(self.columns) - self.present
        codes = [code(column_of(chunk, j)) for j, code in enumerate(self.columns, first)]
        sizes = self.sizes
        if self.joint:
            code = codes[0]
            for place, size in zip(codes[1:], sizes[1:], strict=True):
                code = code * np.int32(size) + place
            codes = [code]
            sizes = (math.prod(sizes),)
        if not self.present:
            return codes
        there = ~np.isnan(column_of(chunk, chunk.shape[1] - 1))
        return [
            np.where(there, code, np.int32(size)) for code, size in zip(codes, sizes, strict=True)
        ]


def code_of(keys: Sequence[Keys], *, joint: bool = True, present: bool = False) -> KeyCodes:
    """Return the map from rows to codes for columns with these lists of keys, and the column of `Rows.presence` if `present`."""
    columns = tuple(each.codes for each in keys)
    return KeyCodes(columns, tuple(each.size for each in keys), joint, present)


# ---- Keys of one column, as listed or from public rows ---------------------------------------------------------------


def keys_of(
    name: str | int | None, given: Any, x_pub: Any, word: str = "keys", x_priv: Any = None
) -> Keys:
    """Return the keys of a column, or with `word` "groups" its groups: as given, or the distinct values of the public rows.

    Those of bins that are derived from a column of `x_priv` are all bins. Raise InputError unless all are distinct, of one kind.
    """
    bins = None if given is not None or name is None else levels_of(x_priv, str(name))
    if bins is not None:
        return _text_keys(name, list(bins), word)
    if given is None and x_pub is None:
        raise InputError(
            f"there are no values of column {name!r}: list them in {word}=, or pass x_pub= with this column"
        )
    n_pub = 0
    if given is None:
        cells, n_pub = public_keys(name, x_pub, word)
    else:
        cells = listed_cells(given, word)
    if not cells:
        raise InputError(f"{word} must have at least one entry")
    if given is not None and not all(map(_is_known, cells)):
        raise InputError(
            f"{word} must not hold None, NaN or NaT: cells without a value count as {MISSING!r} by themselves"
        )
    makers = {kind_of_key(cell) for cell in cells}
    if len(makers) > 1:
        raise InputError(
            f"{word} must be of one kind: all texts, numbers, truth values, dates, periods or intervals"
        )
    keys = makers.pop()(name, cells, word)
    if len(set(keys.levels)) < len(keys.levels):
        raise InputError(
            f"{word} must not have an entry twice (texts are compared without the blanks around them)"
        )
    return replace(keys, source="public rows", n_pub=n_pub) if given is None else keys


def public_rows_of(keys: Sequence[Keys]) -> int:
    """Return the number of public rows that keys are from; 0 if all are listed."""
    return max((each.n_pub for each in keys), default=0)


def sources_of(keys: Sequence[Keys]) -> str:
    """Return where the keys are from, as results say it."""
    return " and ".join(sorted({each.source for each in keys}))


def listed_cells(given: Any, word: str) -> list[Any]:
    """Return the entries of a list of keys; raise InputError for what is none."""
    if is_instance(given, "pandas", "Categorical", "CategoricalIndex") or hasattr(
        getattr(given, "dtype", None), "categories"
    ):
        raise InputError(
            f"{word} must not be a Categorical, whose levels may come from private rows: pass a list of what is known without them"
        )
    if is_arrow_column(given):
        return list(given.to_pylist())
    # A mapping is for several columns.
    listed = isinstance(given, list | tuple | np.ndarray | range)
    if not listed and not is_series(given) and not is_instance(given, "pandas", "Index"):
        raise InputError(
            f"{word} must be a list of texts, numbers, truth values, dates, periods or intervals, got {type(given).__name__}"
        )
    return cells_of_texts(given)


def public_keys(name: str | int | None, x_pub: Any, word: str) -> tuple[list[Any], int]:
    """Return the distinct values of a column of the public rows, and the number of these rows.

    The values are texts, dates or truth values if the column holds these, else finite numbers.
    """
    cells = cells_of_column(x_pub, name) if isinstance(name, str) else None
    if cells is not None:
        cells = list(cells)
        texts = distinct_texts(cells)
        if texts is not None:
            return [text for text in texts if text not in (OTHER, MISSING)], len(cells)
        known = [cell for cell in cells if _is_known(cell)]
        if known and all(isinstance(cell, bool | np.bool_) for cell in known):
            return sorted({bool(cell) for cell in known}), len(cells)
        days = {
            day_of_cell(cell) for cell in known if isinstance(cell, datetime.date | np.datetime64)
        }
        if days and not any(map(math.isnan, days)):
            return [date_of_day(day) for day in sorted(days)], len(cells)
    # The only column has the keys, and none may be missing; groups may be in the last of several columns.
    numbers = public_numbers(name, x_pub, only=word == "keys", finite=word == "keys")
    return list(np.unique(numbers[np.isfinite(numbers)])), len(numbers)


def public_numbers(name: str | int | None, x_pub: Any, *, only: bool, finite: bool) -> FloatArray:
    """Return a column of numbers of the public rows, NaN where missing; of arrays that is the `only` one, or the last."""
    unnamed = only and isinstance(name, str) and isinstance(x_pub, np.ndarray | list | tuple)
    columns = None if name is None or unnamed else [name]
    table, _ = public_table_of(x_pub, columns=columns, dim=1 if only else None, finite=finite)
    numbers: FloatArray = table[:, -1]
    return numbers


def _is_known(cell: Any) -> bool:
    """Return whether a public cell is not missing."""
    if isinstance(cell, float):
        return not math.isnan(cell)
    return type(cell).__name__ not in ("NoneType", "NAType", "NaTType")


def date_of_day(day: float) -> datetime.date:
    """Return the date that is so many days after 1970-01-01."""
    return datetime.date(1970, 1, 1) + datetime.timedelta(days=int(day))


KeyMaker = Callable[[str | int | None, list[Any], str], Keys]


def kind_of_key(cell: Any) -> KeyMaker:
    """Return the function that makes keys of entries such as this one."""
    if isinstance(cell, str):
        return _text_keys
    if isinstance(cell, bool | np.bool_):
        return _truth_keys
    if is_instance(cell, "pandas", "Period") or is_month_or_year(cell):
        return _period_keys
    if is_instance(cell, "pandas", "Interval"):
        return _interval_keys
    if isinstance(cell, datetime.date | np.datetime64):
        return _date_keys
    return _number_keys


def _text_keys(name: str | int | None, cells: list[Any], word: str) -> Keys:
    texts = tuple(plain_text(cell) for cell in cells)
    if "" in texts or {OTHER, MISSING} & set(texts):
        one = word.removesuffix("s")
        raise InputError(
            f"{word} must not be empty, {OTHER!r} or {MISSING!r}: these stand for cells without a {one}"
        )
    codes = ListedNumbers.of(range(len(texts)))
    return Keys(name=name, levels=texts, codes=codes, rule=TextsOrOther(texts))


def _number_keys(name: str | int | None, cells: list[Any], word: str) -> Keys:
    odd = next((cell for cell in cells if not isinstance(cell, Real | Decimal)), None)
    if odd is not None:
        raise InputError(
            f"{word} must be texts, numbers, truth values, dates, periods or intervals, and one is a {type(odd).__name__}"
        )
    numbers = tuple(validation.finite(word, cell) + 0.0 for cell in cells)
    return Keys(name=name, levels=numbers, codes=ListedNumbers.of(numbers))


def _truth_keys(name: str | int | None, cells: list[Any], word: str) -> Keys:
    levels = tuple(bool(cell) for cell in cells)
    return Keys(name=name, levels=levels, codes=ListedNumbers.of(levels))


def _date_keys(name: str | int | None, cells: list[Any], word: str) -> Keys:
    days = []
    for cell in cells:
        if getattr(cell, "tzinfo", None) is not None:
            raise InputError(
                f"{word} must be dates without a time zone: pass datetime.date(2024, 1, 31) and so on"
            )
        day = day_of_cell(cell)
        if math.isnan(day):
            raise InputError(f"{word} must be dates in the years 1 to 9999, and one is none")
        if np.datetime64(date_of_day(day), "D") != np.datetime64(cell):
            raise InputError(
                f"{word} must be dates without a time of day: pass datetime.date(2024, 1, 31) and so on"
            )
        days.append(day)
    levels = tuple(date_of_day(day).isoformat() for day in days)
    return Keys(name=name, levels=levels, codes=ListedNumbers.of(days), rule=Calendar())


def _period_keys(name: str | int | None, cells: list[Any], word: str) -> Keys:
    units = {unit_of_period(cell) for cell in cells}
    unit = units.pop()
    if units or unit is None or unit == "day":
        raise InputError(
            f"{word} must be periods of calendar years, quarters or months, all of one length; for days pass datetime.date"
        )
    calendar = Calendar(unit)
    numbers = [calendar.of_period(cell) for cell in cells]
    if any(map(math.isnan, numbers)):
        raise InputError(f"{word} must be periods in the years 1 to 9999, and one is none")
    codes = ListedNumbers.of(numbers)
    return Keys(name=name, levels=tuple(map(str, cells)), codes=codes, rule=calendar)


def _interval_keys(name: str | int | None, cells: list[Any], word: str) -> Keys:
    closed = {cell.closed for cell in cells}
    if len(closed) > 1 or not closed <= {"left", "right"}:
        raise InputError(
            f"{word} must be intervals that are closed on one side, all on the same: pass pandas.Interval(18, 40, closed='left')"
        )
    right = closed == {"right"}
    ends = [(_interval_end(cell.left, word), _interval_end(cell.right, word)) for cell in cells]
    if not all(low < high for low, high in ends) or not all(
        high <= low for (_, high), (low, _) in pairwise(ends)
    ):
        raise InputError(f"{word} must be intervals that are disjoint, ascending and not empty")
    edges = sorted({end for pair in ends for end in pair if math.isfinite(end)})
    # The cell on the right of each edge, and that below all of them.
    right_of = {edge: cell for cell, edge in enumerate(edges, 1)} | {-math.inf: 0}
    left_of = {edge: cell for cell, edge in enumerate([*edges, math.inf])}
    places = np.full(len(edges) + 2, len(ends), dtype=np.int32)  # other
    for place, (low, high) in enumerate(ends):
        first = right_of[low]
        last = left_of[high]
        places[first : last + 1] = place
    places[-1] = len(ends) + 1
    levels = tuple(name_of_interval(low, high, right) for low, high in ends)
    return Keys(name=name, levels=levels, codes=NumbersBetween(np.array(edges), places, right))


def _interval_end(end: Any, word: str) -> float:
    """Return an end of an interval, which may be infinite."""
    try:
        infinite = math.isinf(end)
    except (TypeError, OverflowError):
        infinite = False
    return float(end) if infinite else validation.finite(f"the ends of {word}", end) + 0.0


# ---- Bins ------------------------------------------------------------------------------------------------------------

WHAT_BINS_ARE = (
    "bins must be a number of bins, or a list of edges that ascend, such as [25, 35, 45]"
)


def of_columns(names: Sequence[Any], given: Any, word: str) -> dict[Any, Any]:
    """Return the argument `keys` or `bins` as a mapping of columns: it maps them, or is that of the only one."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        if not set(given) <= set(names):
            other = next(name for name in given if name not in names)
            raise InputError(
                f"{word} must map columns of columns= to lists, and {other!r} is none of them"
                f"{validation.did_you_mean(other, map(str, names))}"
            )
        return dict(given)
    if len(names) > 1:
        shown = {"keys": f"{{{names[0]!r}: [...]}}", "bins": f"{{{names[0]!r}: [25, 35]}}"}[word]
        raise InputError(
            f"for several columns, {word} must map columns of columns= to lists, such as {shown}"
        )
    return {names[0]: given}


def bins_of(name: str | int | None, bins: Any, x_pub: Any) -> Keys:
    """Return the keys that stand for bins of a column: between given edges, or with a number of bins over the public rows.

    Raise InputError unless the edges are finite and ascend. Numbers outside them have cells of their own.
    """
    if is_series(bins) or is_instance(bins, "pandas", "Index"):
        bins = bins.to_numpy()
    if isinstance(bins, list | tuple | range | np.ndarray):
        edges = _checked_edges(bins)
        source = "argument"
        n_pub = 0
    elif isinstance(bins, int | np.integer) and not isinstance(bins, bool):
        # Values on both sides of zero are in two bins at least.
        number = validation.integer("bins", bins, minimum=2, maximum=MOST_CELLS)
        column = _column_of_bins(name, x_pub)
        edges = _round_edges(name, number, column[np.isfinite(column)])
        source = "public rows"
        n_pub = len(column)
    else:
        raise InputError(f"{WHAT_BINS_ARE}, got {type(bins).__name__}")
    levels = (
        f"below {written(edges[0])}",
        *(name_of_interval(*pair) for pair in pairwise(edges)),
        f"{written(edges[-1])} or more",
    )
    places = np.arange(len(levels) + 1, dtype=np.int32)
    codes = NumbersBetween(np.array(edges), places)
    return Keys(name=name, levels=levels, codes=codes, has_other=False, source=source, n_pub=n_pub)


def _checked_edges(bins: Any) -> list[float]:
    if len(bins) > MOST_CELLS:
        raise InputError(
            f"bins has {len(bins):,} edges, which are too many: at most {MOST_CELLS:,}"
        )
    listed = list(bins)
    if any(isinstance(edge, float | np.floating) and math.isinf(edge) for edge in listed):
        raise InputError(
            "bins must have finite edges: leave out infinite ones, since the numbers below the first edge and above the last have "
            "bins of their own"
        )
    edges = [validation.finite("each edge of bins", edge) + 0.0 for edge in listed]
    if not edges or not all(low < high for low, high in pairwise(edges)):
        raise InputError(WHAT_BINS_ARE)
    return edges


def _column_of_bins(name: str | int | None, x_pub: Any) -> FloatArray:
    """Return the column of the public rows over whose values bins lie."""
    if x_pub is None:
        raise InputError(
            f"a number of bins needs public rows, over whose values they lie: pass x_pub= with column {name!r}, or the edges, "
            "such as bins=[25, 35, 45]"
        )
    return public_numbers(name, x_pub, only=True, finite=False)


def _round_edges(name: str | int | None, number: int, known: FloatArray) -> list[float]:
    """Return edges at multiples of the least round step with which so many bins hold the public values of a column."""
    if len(known) == 0 or known.min() == known.max():
        raise InputError(
            f"the public rows have fewer than two values in column {name!r}, which say no width of bins: pass the edges, such as "
            "bins=[25, 35, 45]"
        )
    low, high = Fraction(float(known.min())), Fraction(float(known.max()))
    power = math.floor(math.log10((high - low) / number)) - 1
    while True:
        for factor in (1, 2, Fraction(5, 2), 5):
            step = factor * Fraction(10) ** power
            first = low // step
            last = high // step
            if last - first < number:
                edges = [float(k * step) for k in range(first, last + 2)]
                if len(set(edges)) == len(edges):
                    return edges
        power += 1


def lists_by_column(by: Any, groups: Any) -> dict[str, Any]:
    """Return the given list of groups, or None, for each column of `by` (a name or list of names); raise InputError if invalid."""
    if isinstance(by, list | tuple) and len(by) == 1:
        by = by[0]
    if isinstance(by, str):
        return {by: groups} if not isinstance(groups, Mapping) else _lists_of((by,), groups)
    if not isinstance(by, list | tuple) or not by or not all(isinstance(name, str) for name in by):
        raise InputError(
            "by must be the name of a column or a list of names (-1: the last column of arrays of numbers)"
        )
    return _lists_of(by, {} if groups is None else groups)


def _lists_of(by: Sequence[str], groups: Any) -> dict[str, Any]:
    if len(set(by)) < len(by) or not isinstance(groups, Mapping) or not set(groups) <= set(by):
        raise InputError(
            "by= must name each column once; for several, groups must map them to lists of groups"
        )
    return {name: groups.get(name) for name in by}


def rows_of_keys(private: Any, keys: Sequence[Keys], public: Any) -> Rows:
    """Open private rows with one column for each list of keys; reads the schema only, no values.

    A last column says which rows there are, if some may pad a person.
    """
    names = [each.name for each in keys]
    texts = {str(each.name): each.rule for each in keys if each.rule is not None}
    advice = "or list keys of the kind that the column holds, such as texts or dates"
    columns: Any = None if names == [None] else TextColumns(names, texts, advice)
    if names == [None] and texts:
        # A source without names cannot have texts or dates: opening it raises InputError.
        columns = TextColumns(None, {"": TextsOrOther(())})
    with naming("x_priv"):
        rows = private_rows(private, columns=columns)
    if public is not None:
        refuse_shared_memory(private, public, columns=columns)
    if rows.dim != len(keys):
        raise InputError(f"name the column by columns=: x_priv has {rows.dim} columns")
    return rows if rows.presence is None else beside(rows, rows.presence)


def sizes_of(tables: Sequence[Sequence[Keys]], rows: Rows) -> list[int]:
    """Return the number of cells of each table; rows that a person does not have are in a cell of their own."""
    return [math.prod(each.size for each in own) + (rows.presence is not None) for own in tables]
