"""Rows of a source inside a condition, with new columns made of the cells of each row.

Rows outside the condition are absent, not left out: n stays that of the source, and each derived row is made of one row of it.
Privacy note: `mechanisms/notes/derived_rows.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastpubpriv._types import BoolArray, Columns, FloatArray, column_of
from fastpubpriv.errors import InputError
from fastpubpriv.kernels import elementary
from fastpubpriv.rowwise.expressions import OTHER, RowProgram, UsedColumn, row_program
from fastpubpriv.sources.arrow_streams import in_memory
from fastpubpriv.sources.column_names import listed
from fastpubpriv.sources.dates import Calendar, day_of_month
from fastpubpriv.sources.open import kind_of, names_of_source, private_rows
from fastpubpriv.sources.row_types import Chunk, DerivedTable, Rows
from fastpubpriv.sources.tables import (
    Coded,
    TextColumns,
    TextRule,
    TextsOrOther,
    asked_columns,
    names_of_columns,
    places,
)
from fastpubpriv.sources.views import PIECE_BYTES, RowMapView, SideBySide, each_row
from fastpubpriv.threads.guard import guarded
from fastpubpriv.validation import did_you_mean

GIVEN = {
    "log": elementary.log,
    "exp": elementary.exp,
    "months": Calendar("month").of_days,
    "day": day_of_month,
}
Texts = Mapping[str, str]
NO_COLUMNS: Texts = {}
HOW_READ = (
    "in where= and with_columns= a column that is compared with '2024-01-31', or read by year() and the like, is one of dates, one "
    "compared with other texts one of texts, any other one of numbers"
)


@dataclass(frozen=True, slots=True)
class OutColumn:
    """A column of derived rows: one of the chunk that is read, by its place, or a new one by its name."""

    place: int = -1
    name: str = ""
    codes: tuple[
        float, ...
    ] = ()  # numbers of the labels of bins, of "(other)", and of a missing one


@dataclass(frozen=True, slots=True)
class Derivation:
    """Map from rows as they are read to derived rows, a value that can be sent to a worker; a row outside is NaN."""

    program: RowProgram
    read: tuple[tuple[str, int], ...]  # the columns that the program reads, and their places
    columns: tuple[OutColumn, ...]

    def cells(self, chunk: Chunk | Columns) -> dict[str, FloatArray]:
        """Return the columns that the program reads."""
        return {
            name: np.ascontiguousarray(column_of(chunk, place), dtype=np.float64)
            for name, place in self.read
        }

    def inside(self, chunk: Chunk | Columns) -> BoolArray | None:
        """Return which rows are inside, (k,); None without a condition."""
        inside = self.program.inside(self.cells(chunk), GIVEN)
        return None if inside is None else np.broadcast_to(inside, chunk.shape[0])

    def __call__(self, chunk: Chunk | Columns) -> Chunk:
        """Return the derived rows; each depends on its row and on public constants alone."""
        dtype = self.dtype(column_of(chunk, 0).dtype)
        out: Chunk = np.empty((chunk.shape[0], len(self.columns)), dtype=dtype)
        self.fill(chunk, list(out.T))
        return out

    def dtype(self, given: Any) -> Any:
        """Return the type of derived rows from that of rows as they are read."""
        return given if all(column.place >= 0 for column in self.columns) else np.float64

    def fill(self, chunk: Chunk | Columns, out: Sequence[NDArray[Any]]) -> None:
        """Write the columns of the derived rows into `out`."""
        cells = self.cells(chunk)
        inside = self.program.inside(cells, GIVEN)
        # A number times one is that number, bit for bit.
        factor = None if inside is None else np.where(inside, 1.0, np.nan).astype(out[0].dtype)
        for column, target in zip(self.columns, out, strict=True):
            if column.place >= 0:
                numbers = column_of(chunk, column.place)
            else:
                numbers = _coded(self.program.new_column(column.name, cells, GIVEN), column.codes)
            if factor is None:
                np.copyto(target, numbers)
            else:
                np.multiply(numbers, factor, out=target)


def _coded(places_of_labels: FloatArray, codes: tuple[float, ...]) -> FloatArray:
    """Return the codes of places among labels; numbers unchanged without codes."""
    if not codes:
        return places_of_labels
    missing = len(codes) - 1
    return np.array(codes)[np.nan_to_num(places_of_labels, nan=missing).astype(np.int64)]


@dataclass(frozen=True, slots=True)
class Inside:
    """Map from rows as they are read to 1 for a row inside and NaN for one outside, (k, 1)."""

    derivation: Derivation

    def __call__(self, chunk: Chunk) -> Chunk:
        """Return which rows are inside."""
        inside = self.derivation.inside(chunk)
        assert inside is not None
        return np.where(inside, 1.0, np.nan)[:, None]


class DerivedView(RowMapView):
    """The derived rows of a source."""

    __slots__ = ()

    _function: Derivation

    def __init__(
        self, rows: Rows, function: Derivation, dim: int, columns: tuple[str, ...] | None
    ) -> None:
        super().__init__(rows, function, dim, columns)
        if function.program.condition is not None:
            self.about = f"the rows where {function.program.about}"

    @property
    def joins_columns(self) -> bool:
        """See `RowMapView.joins_columns`."""
        return self._rows.by_columns(0, 0) is not None

    def by_columns(self, begin: int, end: int, columns: slice = slice(None)) -> Columns | None:
        """See `Rows.by_columns`."""
        held = self._rows.by_columns(begin, end)
        if held is None:
            return None
        function = replace(self._function, columns=self._function.columns[columns])
        dtype = function.dtype(held[0].dtype)
        out = [np.empty(end - begin, dtype=dtype) for _ in function.columns]
        _fill_in_pieces(function, held, out)
        return Columns(out)

    def block(self, begin: int, end: int) -> Chunk:
        """See `Rows.block`."""
        held = self._rows.by_columns(begin, end)
        if held is None:
            return super().block(begin, end)
        out: Chunk = np.empty((end - begin, self.dim), dtype=self._function.dtype(held[0].dtype))
        _fill_in_pieces(self._function, held, list(out.T))
        return out

    @property
    def may_be_absent(self) -> bool:
        """See `Rows.may_be_absent`."""
        return bool(self.about)

    @property
    def presence(self) -> Rows | None:  # type: ignore[override]
        """See `Rows.presence`."""
        if not self.may_be_absent:
            return None
        return each_row(self._rows, Inside(self._function), 1)


def _fill_in_pieces(function: Derivation, held: Columns, out: Sequence[NDArray[Any]]) -> None:
    """Write the columns of derived rows, by pieces whose temporaries fit into the cache of a core."""
    size = max(1, PIECE_BYTES // (8 * len(held)))
    for first in range(0, held.shape[0], size):
        piece = slice(first, first + size)
        function.fill(Columns(each[piece] for each in held), [each[piece] for each in out])


class DerivedRows(DerivedTable):
    """Rows of a source inside a condition, with new columns, accepted wherever private or public rows are.

    Private rows outside are absent: they are in no count and no sum, and n is that of the source. Public rows outside are dropped.

    Parameters
    ----------
    source : frame, table, path, array or Rows
        Of an array, the columns are x0, x1, and so on.
    where : tuple of str
        Conditions, all of which must be true for a row to be inside.
    with_columns : mapping
        Name of a new column -> its text; a text may name columns that are listed before it, and `where` all of them.
    person : str, optional
        Name of the column of identifiers, which no new column may have.

    Raises
    ------
    InputError
        A text is none of the grammar (`rowwise.expressions`), before anything is opened; a column is named as one of the source.

    Examples
    --------
    >>> from fastpubpriv.sources import private_rows
    >>> table = {"age": [31.0, 52.0, 47.0], "weight": [60.0, 81.0, 75.0]}
    >>> import pandas
    >>> older = DerivedRows(pandas.DataFrame(table), where=("age >= 40",), with_columns={"pounds": "weight / 0.4536"})
    >>> private_rows(older, columns=["pounds"])
    Rows(n=3, dim=1, kind='frame')
    """

    __slots__ = ("_labels", "program")

    def __init__(
        self,
        source: Any,
        *,
        where: Sequence[str] = (),
        with_columns: Texts = NO_COLUMNS,
        person: str | None = None,
    ) -> None:
        self.program = row_program(where, with_columns)
        if person in self.program.names:
            raise InputError(
                f"with_columns: column {person!r} says whose row it is: give the new column another name"
            )
        if isinstance(source, DerivedTable):
            raise InputError(
                "where= and with_columns= are of the table itself, before rows of persons are chosen: pass the table, all texts at "
                "once, and person="
            )
        with guarded():
            self.source = in_memory(source)
        self._labels: dict[str, Any] | None = None

    def __repr__(self) -> str:
        where = f"where {self.program.about}" if self.program.where else "all rows"
        return f"DerivedRows({'; '.join([where, *self.program.names])})"

    @property
    def left_out(self) -> frozenset[str]:
        """See `DerivedTable`."""
        return frozenset()

    @property
    def added(self) -> tuple[str, ...]:
        """See `DerivedTable`."""
        return self.program.names

    @property
    def condition(self) -> str:
        """See `DerivedTable`."""
        return self.program.about

    def levels_of(self, name: str) -> tuple[str, ...] | None:
        """See `DerivedTable`."""
        bins = self.program.bins_of(name)
        return None if bins is None else bins.labels

    @property
    def labels(self) -> dict[str, Any]:
        """Columns of the source by their names, empty if it has none; raise InputError if a new column has the name of one."""
        if self._labels is None:
            is_rows = isinstance(self.source, Rows)
            names = self.source.columns if is_rows else names_of_source(self.source)
            self._labels = {str(label): label for label in names or ()}
        for name in self.program.names:
            if name in self._labels:
                raise InputError(
                    f"with_columns: x_priv has a column {name!r} already: give the new one another name"
                )
        return self._labels

    def presence(self) -> Rows | None:
        """See `DerivedTable`."""
        if self.program.condition is None:
            return None
        if not self.labels:
            return self._view_of_array(None, {}).presence
        return self._view([], {}, HOW_READ).presence

    def rows(self, columns: Any) -> Rows:
        """See `DerivedTable.rows`."""
        texts = columns.texts if isinstance(columns, TextColumns) else {}
        advice = f"{columns.advice}; {HOW_READ}" if isinstance(columns, TextColumns) else HOW_READ
        asked = names_of_columns(columns)
        chosen = None if asked is None else asked_columns(asked)
        if not self.labels:
            return self._view_of_array(chosen, texts)
        if chosen is None:
            chosen = [*self.labels.values(), *self.program.names]
        return self._view(chosen, texts, advice)

    def _view(self, asked: list[Any], texts: Mapping[str, Any], advice: str) -> Rows:
        """Return the derived rows with these columns, the texts among them read by their rules."""
        own = [name for name in asked if name in self.program.names]
        used = self.program.used_by(own)
        self._require_known(used)
        base = [label for label in asked if label not in own]
        rules = {name: rule for name, rule in texts.items() if name not in own}
        more = [column for column in used if column.name not in map(str, base)]
        apart = [
            column
            for column in used
            if column not in more and rule_of(column) != rules.get(column.name)
        ]
        read = TextColumns(
            [*base, *(self.labels[column.name] for column in more)],
            rules | rules_of(more),
            advice,
        )
        rows = private_rows(self.source, columns=read)  # type: ignore[arg-type]
        place_of = {str(label): place for place, label in enumerate(read.names or ())}
        if apart:
            # A column of which a call reads other texts than the program does is read twice.
            again = TextColumns([column.name for column in apart], rules_of(apart), HOW_READ)
            beside = private_rows(self.source, columns=again)  # type: ignore[arg-type]
            place_of |= {column.name: rows.dim + j for j, column in enumerate(apart)}
            rows = SideBySide(rows, beside)
        places_read = tuple((column.name, place_of[column.name]) for column in used)
        place_of |= {str(label): place for place, label in enumerate(base)}
        shown = tuple(self._column(name, texts, place_of) for name in asked)
        names: Any = tuple(
            name if name in own else (rows.columns or ())[place_of[str(name)]] for name in asked
        )
        names = tuple(_with_rule(name, texts) for name in names)
        return DerivedView(
            rows, Derivation(self.program, places_read, shown), max(len(shown), 1), names or None
        )

    def _view_of_array(self, asked: list[Any] | None, texts: Mapping[str, Any]) -> Rows:
        """Return the derived rows of a source without names, whose columns are x0, x1, and so on, or their numbers."""
        own = [name for name in self.program.names if asked is None or name in asked]
        used = self.program.used_by(own)
        if texts.keys() - set(self.program.names) or any(
            column.kind != "number" for column in used
        ):
            raise InputError(
                "text and dates are read from frames, tables and files, and these rows hold numbers: pass the table or the path "
                "itself"
            )
        rows = private_rows(self.source)
        numbered = {f"x{place}": place for place in range(rows.dim)}
        unknown = [column.name for column in used if column.name not in numbered]
        if unknown:
            raise InputError(
                f"where= and with_columns= name a column {listed(unknown)}, and x_priv has no names: write x0 to x{rows.dim - 1}"
            )
        unnamed = all(type(each) is int for each in asked or ()) and not own
        if asked is None:
            asked = [*numbered, *self.program.names]
        place_of = numbered | {each: each % rows.dim for each in asked if type(each) is int}
        missing = [
            each for each in asked if each not in place_of and each not in self.program.names
        ]
        if missing:
            raise InputError(
                f"x_priv has no column {listed(missing)}: a source without names has the columns x0 to x{rows.dim - 1}"
            )
        shown = tuple(self._column(name, texts, place_of) for name in asked)
        read = tuple((column.name, numbered[column.name]) for column in used)
        names = tuple(
            _with_rule(f"x{place_of[name]}" if name in place_of else name, texts) for name in asked
        )
        return DerivedView(
            rows, Derivation(self.program, read, shown), len(shown), None if unnamed else names
        )

    def _require_known(self, used: tuple[UsedColumn, ...]) -> None:
        """Raise InputError if a program names a column that the source does not have."""
        unknown = [column.name for column in used if column.name not in self.labels]
        if unknown:
            # The first line of a CSV file may be a row.
            known = ""
            if kind_of(self.source) != ".csv":
                hint = did_you_mean(unknown[0], self.labels)
                known = f"{hint}; it has {listed(list(self.labels))}"
            raise InputError(
                f"where= and with_columns= name a column {listed(unknown)}, which x_priv does not have{known}"
            )

    def _column(
        self, name: Any, texts: Mapping[str, Any], place_of: Mapping[Any, int]
    ) -> OutColumn:
        """Return how a column of the derived rows is made."""
        if name not in self.program.names:
            return OutColumn(place=place_of[name] if name in place_of else place_of[str(name)])
        labels = self.levels_of(name)
        rule = texts.get(name)
        if labels is None and rule is not None:
            raise InputError(
                f"column {name!r} of with_columns= holds numbers, and its public list is text or dates: pass the list as numbers"
            )
        if labels is None:
            return OutColumn(name=name)
        if rule is None:
            raise InputError(
                f"column {name!r} of with_columns= holds bins, which are texts: take it as by=, or as columns= of value_counts, or "
                "leave it out by columns="
            )
        codes = (*places(rule)([*labels, OTHER]).tolist(), np.nan)
        return OutColumn(name=name, codes=codes)


def rule_of(column: UsedColumn) -> TextRule | None:
    """Return how the cells of a column of a program are read as numbers; None for numbers."""
    if column.kind == "date":
        return Calendar()
    return TextsOrOther(column.texts) if column.kind == "text" else None


def rules_of(columns: Sequence[UsedColumn]) -> dict[str, Any]:
    """Return the rules of the columns that hold texts or dates."""
    rules = {column.name: rule_of(column) for column in columns}
    return {name: rule for name, rule in rules.items() if rule is not None}


def _with_rule(name: Any, texts: Mapping[str, Any]) -> Any:
    """Return the name of a column with the rule by which its texts are read, if there is one."""
    return Coded(str(name), texts[name]) if name in texts else name
