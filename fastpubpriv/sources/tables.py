"""Tables of named columns: Arrow tables and files, frames of pandas and polars, and text encoded by public lists.

A cell of a text column becomes the index of its text, stripped of blanks, in the public list; any other cell, also a missing one,
becomes NaN. Dates become whole numbers (`dates.py`). The code of a cell depends on that cell and on the list alone, and no cell
raises an error.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from hashlib import blake2b
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fastpubpriv._types import Columns, FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels.rows import columns_join
from fastpubpriv.sources.arrays import (
    BLANKS,
    check_count,
    existing_file,
    number_of_cell,
    numbers_of_cells,
    plain_list,
    plain_text,
)
from fastpubpriv.sources.column_names import listed
from fastpubpriv.sources.dates import (
    Calendar,
    day_of_cell,
    days_of_arrow,
    days_of_datetimes,
    days_of_texts,
    is_dated,
    require_known_zone,
    unit_of_frequency,
)
from fastpubpriv.sources.lazy_modules import compute, ipc, pa, polars, types
from fastpubpriv.sources.row_types import Chunk, RandomAccessRows, Rows
from fastpubpriv.threads.guard import call_foreign, call_guarded
from fastpubpriv.validation import did_you_mean


@dataclass(frozen=True, slots=True)
class TextsOrOther:
    """A public list of texts; any other text has the index after the last, and only a cell without text is NaN."""

    levels: tuple[str, ...]


WORD_BYTES = 6  # bytes of text per number: 48 bits, so that a double represents every word exactly


@dataclass(frozen=True, slots=True)
class TextWord:
    """Encoding of a text by its bytes first ... first + 5 as one whole number, instead of an index into a list."""

    # NaN for a cell without text, text of more than `most` bytes of UTF-8, and text that is not UTF-8 or has a zero byte.
    first: int
    most: int

    def of_texts(self, texts: Sequence[bytes]) -> FloatArray:
        """Return the words of stripped texts, (k,)."""
        width = self.first + WORD_BYTES + self.most
        # zeros follow a text
        data = np.array(texts, dtype=f"S{width}").view(np.uint8).reshape(len(texts), width)
        length = np.fromiter(map(len, texts), np.int64, len(texts))
        fine = (length > 0) & (length <= self.most) & (np.count_nonzero(data, axis=1) == length)
        for place in np.flatnonzero(fine & (data > 127).any(axis=1)).tolist():
            try:
                texts[place].decode()
            except UnicodeDecodeError:
                fine[place] = False
        part = data[:, self.first : self.first + WORD_BYTES]
        return np.where(fine, part @ 256.0 ** np.arange(WORD_BYTES - 1, -1, -1), np.nan)


@dataclass(frozen=True, slots=True)
class TextHash:
    """Encoding of a text of any length by a hash, a whole number below 2^52; NaN for a cell without text."""

    # Which texts stand for a number, as a CSV file has no types: none, those that `canonical_number` reads (identifiers, where
    # "01" and "1" differ), or every numeral (contents, in which dates stand for their days).
    numerals: Literal["none", "canonical", "all"] = "none"

    @property
    def numbers(self) -> bool:
        """Whether a number among the objects of a column stands for itself."""
        return self.numerals != "none"

    def of_texts(self, texts: Sequence[bytes]) -> FloatArray:
        """Return the numbers or hashes of stripped texts, (k,), NaN for an empty one."""
        return np.array([self._of_text(text) for text in texts], dtype=np.float64)

    def _of_text(self, text: bytes) -> float:
        if not text:
            return math.nan
        number = math.nan
        if self.numerals == "canonical":
            number = canonical_number(text)
        elif self.numerals == "all":
            is_number = _NUMERAL.fullmatch(text) is not None
            number = float(text) if is_number else day_of_cell(text.decode(errors="replace"))
        return (
            number
            if number == number
            else float(int.from_bytes(blake2b(text, digest_size=8).digest()) >> 12)
        )


_NUMERAL = re.compile(
    rb"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:inf|infinity))"
)
_LONGEST_CANONICAL = 25  # bytes of the longest shortest form of a double


def canonical_number(text: bytes) -> float:
    """Return the number whose usual form this text is (7, -3, 7.0, 0.5), NaN for any other text (07, +7, 7.50, 1e3, text).

    Two texts have one number only if they are "7" and "7.0". Whole numbers beyond 2^53 remain texts, as doubles merge them.
    """
    if len(text) > _LONGEST_CANONICAL or not _NUMERAL.fullmatch(text):
        return math.nan
    number = float(text)
    if not math.isfinite(number):
        return math.nan
    forms = {repr(number)}
    if number.is_integer() and abs(number) <= 2.0**53:
        forms.add(str(int(number)))
    return number if text.decode() in forms else math.nan


TextRule = Sequence[str] | TextsOrOther | TextWord | TextHash | Calendar


def text_of_words(words: Iterable[int]) -> str:
    """Return the text with these words."""
    return (
        b"".join(int(word).to_bytes(WORD_BYTES, "big") for word in words)
        .rstrip(b"\0")
        .decode(errors="replace")
    )


class Coded(str):
    """The name of a column that is read as text, with the public list of its texts or another encoding."""

    __slots__ = ("levels",)

    levels: TextRule

    def __new__(cls, name: str, levels: TextRule) -> Coded:
        """Return a string equal to `name` that carries `levels`."""
        made = super().__new__(cls, name)
        made.levels = tuple(levels) if isinstance(levels, Sequence) else levels
        return made

    def __reduce__(self) -> Any:
        return Coded, (str(self), self.levels)


@dataclass(frozen=True, slots=True)
class TextColumns:
    """The columns to read: a list of names (None: all columns), and the encodings of the text columns among them."""

    names: Sequence[Any] | None
    texts: Mapping[str, Any]  # the TextRule of each text column
    # What an error about a column that is not numeric says to do.
    advice: str = "leave them out by columns=, or name a column of text in categories={column: 'public'}, or its list of texts"


def names_of_columns(columns: Any) -> Sequence[Any] | None:
    """Return the names that `columns` requests, as a list if it is one name or number; None for all."""
    names = columns.names if isinstance(columns, TextColumns) else columns
    return [names] if isinstance(names, str) or type(names) is int else names


def name_of(label: Any) -> str:
    """Return a column label as a string; a `Coded` name keeps its list."""
    return label if isinstance(label, Coded) else str(label)


def places(rule: TextRule) -> Callable[[Iterable[Any]], FloatArray]:
    """Return a function that maps cells of any type to the numbers of their texts, or of their dates."""
    if isinstance(rule, Calendar):
        return rule.of_cells
    if isinstance(rule, TextWord | TextHash):
        numbers = isinstance(rule, TextHash) and rule.numbers
        dates = isinstance(rule, TextHash) and rule.numerals == "all"

        def encoded(cells: Iterable[Any]) -> FloatArray:
            listed = list(cells)
            texts = [
                plain_text(cell).encode(errors="surrogatepass") if isinstance(cell, str) else b""
                for cell in listed
            ]
            numbers_of_texts = rule.of_texts(texts)
            for place, cell in enumerate(listed if numbers else ()):
                if not isinstance(cell, str):
                    number = number_of_cell(cell)
                    is_other = dates and math.isnan(number)
                    numbers_of_texts[place] = day_of_cell(cell) if is_other else number
            return numbers_of_texts

        return encoded
    listed, other = (
        (rule.levels, float(len(rule.levels)))
        if isinstance(rule, TextsOrOther)
        else (rule, math.nan)
    )
    known = {level: float(place) for place, level in enumerate(listed)} | {"": math.nan}
    return lambda cells: np.array(
        [
            known.get(plain_text(cell), other) if isinstance(cell, str) else math.nan
            for cell in cells
        ],
        dtype=np.float64,
    )


def arrow_places(column: Any, rule: TextRule, *, quoted: bool = False) -> FloatArray:
    """Return the numbers of the texts in an Arrow Array or ChunkedArray, compared as bytes; with `quoted`, quotes are doubled.

    Those of a `Calendar` may be dates or time stamps.
    """
    if isinstance(rule, Calendar) and is_dated(column.type):
        return rule.of_days(days_of_arrow(column))
    trimmed = trimmed_texts(column)
    if isinstance(rule, Calendar):
        return rule.of_days(days_of_texts(trimmed, rule.reads_months))
    if quoted:
        trimmed = compute.replace_substring(trimmed, b'""', b'"')
    if isinstance(rule, TextWord | TextHash):
        distinct = trimmed.dictionary_encode()
        numbers = np.append(rule.of_texts(distinct.dictionary.to_pylist()), np.nan)
        return np.asarray(numbers[distinct.indices.fill_null(len(numbers) - 1).to_numpy()])
    listed = rule.levels if isinstance(rule, TextsOrOther) else rule
    index = compute.index_in(
        trimmed, value_set=pa.array([level.encode() for level in listed], pa.large_binary())
    )
    if isinstance(rule, TextsOrOther):
        some = compute.greater(compute.binary_length(trimmed), 0)
        index = compute.if_else(some, compute.fill_null(index, len(listed)), None)
    return np.asarray(index.cast(pa.float64()).to_numpy(zero_copy_only=False))


def trimmed_texts(column: Any) -> Any:
    """Return the stripped texts in an Arrow Array or ChunkedArray as one LargeBinaryArray."""
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not types.is_large_string(column.type):
        column = column.cast(pa.large_string())
    trimmed = compute.ascii_trim(column, characters=BLANKS).cast(pa.large_binary())
    if isinstance(trimmed, pa.ChunkedArray):
        trimmed = trimmed.combine_chunks() if trimmed.num_chunks != 1 else trimmed.chunk(0)
    return trimmed


def fits_rule(label: Coded, arrow_type: Any) -> bool:
    """Return whether a column of this Arrow type can be read by the rule of its label."""
    if isinstance(label.levels, Calendar) and is_dated(arrow_type):
        require_known_zone(arrow_type, str(label))
        return True
    return is_text(arrow_type)


def refuse_numbers(label: Coded, kind: str, what: str) -> None:
    """Raise InputError: a column with a list of texts is not text by its type, which is part of the form."""
    if isinstance(label.levels, Calendar):
        raise InputError(
            f"column {str(label)!r} of {what} holds no dates ({kind}), and its public list does: pass the list as what the column "
            "holds, or convert the column to dates"
        )
    if kind.startswith(("date", "Date", "timestamp")):
        raise InputError(
            f"column {str(label)!r} of {what} holds dates ({kind}), and its public list is text: pass datetime.date(2024, 1, 31) "
            "and so on"
        )
    raise InputError(
        f"column {str(label)!r} of {what} is not text ({kind}), and its public list is: pass the list as numbers, or convert the "
        "column"
    )


# Tables read column by column: selecting the columns, and assembling them into rows.

# (begin, end) -> values of one column, one-dimensional
ColumnReader = Callable[[int, int], NDArray[Any]]


def asked_columns(columns: object) -> list[Any]:
    """Return the argument `columns`, a label or a sequence of labels, as a list; raise InputError if it is neither."""
    listed = names_of_columns(columns)
    if isinstance(listed, bytes) or not isinstance(listed, Sequence):
        raise InputError(
            f"columns must be a name, or a list of names such as ['a', 'b'], got {type(columns).__name__}"
        )
    for label in listed:
        if not isinstance(label, Hashable):
            raise InputError(
                f"columns must be a list of column names, and a {type(label).__name__} is no name"
            )
    return list(listed)


def choose(
    available: Sequence[Hashable], columns: Any, what: str, list_names: bool = True
) -> list[Any]:
    """Return the labels to read, text columns as `Coded`; raise InputError for a missing, ambiguous or repeated label."""
    asked = names_of_columns(columns)
    chosen = list(available) if asked is None else asked_columns(asked)
    if not chosen:
        raise InputError(f"no columns of {what} were chosen: at least one is needed")
    there = Counter(available)
    missing = [label for label in chosen if label not in there]
    if missing:
        known = (
            f"{did_you_mean(str(missing[0]), map(str, available))}; it has {listed(available)}"
            if list_names
            else ""
        )
        raise InputError(f"{what} has no column {listed(missing)}{known}")
    ambiguous = [label for label in dict.fromkeys(chosen) if there[label] > 1]
    if ambiguous:
        named = listed(ambiguous) if list_names or asked is not None else "of some name"
        raise InputError(f"{what} has more than one column {named}: rename one of them")
    repeated = [label for label, count in Counter(chosen).items() if count > 1]
    if repeated:
        raise InputError(f"column {listed(repeated)} was chosen twice: choose each column once")
    texts = columns.texts if isinstance(columns, TextColumns) else {}
    return [
        Coded(each, texts[each]) if isinstance(each, str) and each in texts else each
        for each in chosen
    ]


def require_numeric(refused: Sequence[tuple[Any, str]], what: str, columns: Any) -> None:
    """Raise InputError naming the columns that are not numeric, with their types, which are part of the form."""
    if not refused:
        return
    listed = ", ".join(f"{label!r} ({kind})" for label, kind in refused)
    advice = (
        "or pass columns=[...] with the numeric columns to use"
        if columns is None
        else "or choose numeric columns only"
    )
    if isinstance(columns, TextColumns):
        advice = columns.advice
    raise InputError(f"not numeric in {what}: {listed}. Convert them to numbers first, {advice}")


def assemble(readers: Sequence[ColumnReader], begin: int, end: int, dtype: np.dtype[Any]) -> Chunk:
    """The columns of a range as one C-contiguous array of rows."""

    def fill() -> Chunk:
        if dtype == np.float64 and len(readers) >= 8:  # so many fill the vectors of the kernel
            columns = [read(begin, end) for read in readers]
            if all(_is_plain(column, end - begin) for column in columns):
                return columns_join(columns)
        out = np.empty((end - begin, len(readers)), dtype)
        with np.errstate(all="ignore"):
            # Whole columns, one after the other: tiles that fit a cache are slower.
            for index, read in enumerate(readers):
                out[:, index] = read(begin, end)
        return out

    return call_foreign(fill)  # the columns of a frame may be objects of other code


def _is_plain(column: Any, n: int) -> bool:
    """Whether a column is n doubles after each other."""
    plain = type(column) is np.ndarray and column.dtype == np.float64 and column.shape == (n,)
    return plain and column.flags.c_contiguous and column.flags.aligned


class ColumnRows(RandomAccessRows):
    """Rows of a table in memory, with one reader per column."""

    __slots__ = ("_dtype", "_held", "_readers")

    def __init__(
        self,
        n: int,
        kind: str,
        labels: Sequence[Any],
        readers: Sequence[ColumnReader],
        dtype: np.dtype[Any],
        held: Sequence[NDArray[Any]],
    ) -> None:
        super().__init__(n, len(readers), kind, tuple(name_of(label) for label in labels))
        self._readers = tuple(readers)
        self._dtype = dtype
        self._held = tuple(held)

    def block(self, begin: int, end: int) -> Chunk:
        """Return rows `begin` to `end`, assembled from the columns."""
        return assemble(self._readers, begin, end, self._dtype)

    def by_columns(self, begin: int, end: int, columns: slice = slice(None)) -> Columns:
        """See `Rows.by_columns`: columns that memory holds as contiguous floats are not copied."""

        def read() -> Columns:
            with np.errstate(all="ignore"):
                return Columns(
                    np.require(each(begin, end), self._dtype, ["C", "A"])
                    for each in self._readers[columns]
                )

        return call_foreign(read)

    def memory(self) -> list[NDArray[Any]]:
        """Return the arrays that hold the columns, as far as NumPy can address them, for the check for shared memory."""
        return list(self._held)


# (begin, chunk_rows) -> (first, chunks): the chunks start at row `first`, which is at most `begin`.
Open = Callable[[int, int], tuple[int, Iterator[Chunk]]]


class RestartedRows(Rows):
    """Rows read by `open_at`, which starts a pass; `hint` is the advice in the error for a pass with another number of rows."""

    __slots__ = ("_hint", "_open")

    def __init__(
        self,
        n: int,
        kind: str,
        labels: Sequence[Any] | None,
        open_at: Open,
        hint: str = "the source must give the same rows in each pass",
        dim: int = 0,
    ) -> None:
        names = None if labels is None else tuple(map(name_of, labels))
        super().__init__(n, dim if names is None else len(names), kind, names)
        self._open = open_at
        self._hint = hint

    def _chunks(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        position, chunks = self._open(begin, chunk_rows)
        return check_count(
            self._cut(position, chunks, begin, end, chunk_rows), begin, end, self._hint
        )

    def _cut(
        self, position: int, chunks: Iterator[Chunk], begin: int, end: int, chunk_rows: int
    ) -> Iterator[Chunk]:
        # a pass to the last row reads on, to detect extra rows
        stop = end if end < self.n else None
        for chunk in chunks:
            high = len(chunk) if stop is None else min(stop - position, len(chunk))
            for start in range(max(begin - position, 0), high, chunk_rows):
                yield chunk[start : min(start + chunk_rows, high)]
            position += len(chunk)
            if stop is not None and position >= stop:
                return


# Rows of Arrow tables in memory, and of Arrow IPC / Feather files.

_F64 = np.dtype(np.float64)
_F32 = np.dtype(np.float32)


def is_instance(obj: object, module: str, *names: str) -> bool:
    """Return whether `obj` is of one of these classes of a module, without importing it: an instance implies that it is loaded."""
    loaded = sys.modules.get(module)
    return any(
        isinstance(obj, cls)
        for cls in (getattr(loaded, name, None) for name in names)
        if cls is not None
    )


def is_arrow(obj: object) -> bool:
    """Return True for a pyarrow Table, RecordBatch, RecordBatchReader or Dataset."""
    return is_instance(obj, "pyarrow", "Table", "RecordBatch", "RecordBatchReader") or is_dataset(
        obj
    )


def is_arrow_column(obj: object) -> bool:
    """Return True for a pyarrow Array or ChunkedArray, which is read as a table with one column called "0"."""
    return is_instance(obj, "pyarrow", "Array", "ChunkedArray")


def table_of_column(column: Any) -> Any:
    """Return an Arrow Array or ChunkedArray as a table, as a Series without a name is."""
    return pa.table({"0": column})


def cells_of_texts(cells: Any) -> list[Any]:
    """Return the cells of a list or array; bytes of NumPy are read as UTF-8, and those that are none are like no text."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "S":
        return [cell.decode(errors="surrogateescape") for cell in cells.tolist()]
    return list(cells)


def is_texts(obj: object) -> bool:
    """Return True for a one-dimensional array of text, or a list or array of cells with a text among them."""
    if isinstance(obj, np.ndarray):
        if obj.ndim != 1 or obj.dtype.kind not in "USTO":
            return False
        return obj.dtype.kind != "O" or any(isinstance(cell, str) for cell in obj.tolist())
    if not isinstance(obj, list | tuple) or not any(isinstance(cell, str) for cell in obj):
        return False
    return not all(isinstance(cell, str) and cell.lower().endswith(".parquet") for cell in obj)


def texts_rows(cells: Any, columns: TextColumns) -> Rows:
    """Return the cells of a list or array as rows of one column, called "0", which is read as text or dates."""
    rule = columns.texts["0"]
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "M" and isinstance(rule, Calendar):
        return _one_column(
            lambda begin, end: rule.of_days(days_of_datetimes(cells[begin:end])), len(cells)
        )
    place_of = places(rule)
    listed = cells_of_texts(cells)
    return _one_column(lambda begin, end: place_of(listed[begin:end]), len(listed))


def _one_column(reader: ColumnReader, n: int) -> Rows:
    return ColumnRows(n, "array", ["0"], [reader], _F64, [])


def is_dataset(obj: object) -> bool:
    """Return True for a pyarrow Dataset."""
    return is_instance(obj, "pyarrow.dataset", "Dataset")


def float_dtype(arrow_type: Any) -> np.dtype[Any] | None:
    """Return the dtype in which a column of this Arrow type is read; None if it is not numeric, also for the type null."""
    if types.is_dictionary(arrow_type):
        return float_dtype(arrow_type.value_type)
    if types.is_float32(arrow_type):
        return _F32
    numeric = (
        types.is_boolean(arrow_type)
        or types.is_integer(arrow_type)
        or types.is_floating(arrow_type)
    )
    return _F64 if numeric or types.is_decimal(arrow_type) else None


def to_numpy(column: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Convert an Array or ChunkedArray to a one-dimensional float array; null becomes NaN, and no value raises an error."""
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    target = pa.float32() if dtype == _F32 else pa.float64()
    if column.type != target:
        # A safe cast would refuse integers beyond 2**53, and errors must not depend on values.
        column = column.cast(target, safe=False)
    options = {} if isinstance(column, pa.ChunkedArray) else {"zero_copy_only": False}
    return np.asarray(column.to_numpy(**options))


def is_text(arrow_type: Any) -> bool:
    """Return whether a column of this Arrow type holds text."""
    if types.is_dictionary(arrow_type):
        return is_text(arrow_type.value_type)
    kinds = ("is_string", "is_large_string", "is_string_view")
    return any(
        kind(arrow_type) for name in kinds if (kind := getattr(types, name, None)) is not None
    )


def column_reader(column: Any, label: Any = None, what: str = "the Arrow table") -> ColumnReader:
    """Return a reader of an Array or ChunkedArray whose type `float_dtype` accepts, or that the rule of a `Coded` label reads."""
    if isinstance(label, Coded):
        if not fits_rule(label, column.type):
            refuse_numbers(label, str(column.type)[:40], what)
        return lambda begin, end: arrow_places(column.slice(begin, end - begin), label.levels)
    dtype = float_dtype(column.type) or _F64
    return lambda begin, end: to_numpy(column.slice(begin, end - begin), dtype)


def column_memory(column: Any) -> list[NDArray[Any]]:
    """Return NumPy views of the values of a column of fixed-width numbers, for the check for shared memory."""
    views: list[NDArray[Any]] = []
    for piece in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        buffers = piece.buffers()
        if (
            types.is_dictionary(piece.type)
            or len(buffers) != 2
            or buffers[1] is None
            or len(piece) == 0
        ):
            continue
        width = piece.type.bit_width // 8
        if width:
            data = np.frombuffer(buffers[1], dtype=np.uint8)
            views.append(data[piece.offset * width : (piece.offset + len(piece)) * width])
    return views


def checked_schema(
    schema: Any, columns: Sequence[str] | None, what: str
) -> tuple[list[str], np.dtype[Any]]:
    """Return the columns to read and the dtype of their rows, from the schema alone; raise InputError for other types."""
    every = names_of_columns(columns) is None
    labels = choose(data_columns(schema) if every else schema.names, columns, what)
    kinds = [schema.field(str(label)).type for label in labels]
    for label, held in zip(labels, kinds, strict=True):
        if isinstance(label, Coded) and not fits_rule(label, held):
            refuse_numbers(label, str(held)[:40], what)
    dtypes = [
        _F64 if isinstance(label, Coded) else float_dtype(t)
        for label, t in zip(labels, kinds, strict=True)
    ]
    refused = [
        (label, str(t)[:40]) for label, t, d in zip(labels, kinds, dtypes, strict=True) if d is None
    ]
    require_numeric(refused, what, columns)
    return labels, _F32 if all(d == _F32 for d in dtypes) else _F64


def data_columns(schema: Any) -> list[str]:
    """Return all columns except those in which pandas stores the index of a frame."""
    metadata = call_guarded(lambda: schema.pandas_metadata) or {}
    index = {name for name in metadata.get("index_columns", ()) if isinstance(name, str)}
    return [name for name in schema.names if name not in index]


def arrow_rows(
    source: object,
    columns: Sequence[str] | None,
    *,
    what: str = "the Arrow table",
    kind: str = "arrow",
) -> Rows:
    """Return rows of a Table, RecordBatch, list of RecordBatches or Arrow IPC / Feather file; `what` names it in errors."""
    if isinstance(source, str | os.PathLike):
        name = existing_file(source)
        what = repr(name)
        text = f"{name!r} cannot be read as an Arrow IPC or Feather file"
        source = call_guarded(lambda: ipc_reader(name).read_all(), text)
    elif isinstance(source, pa.RecordBatch):
        batch = source
        source = call_guarded(lambda: pa.Table.from_batches([batch]))
    elif isinstance(source, list | tuple):
        batches = plain_list(source)
        if batches and all(isinstance(item, pa.RecordBatch) for item in batches):
            source = call_guarded(
                lambda: pa.Table.from_batches(batches), "the record batches do not share one schema"
            )
    if not isinstance(source, pa.Table):
        raise InputError(
            f"expected a pyarrow Table or RecordBatch, or a list of RecordBatches, got {type(source).__name__}"
        )
    table: Any = source
    # A name that is not UTF-8 cannot be read, and the error of pyarrow would quote it.
    call_guarded(
        lambda: table.schema.names,
        f"the column names of {what} cannot be read: they must be text in UTF-8",
    )
    labels, dtype = checked_schema(table.schema, columns, what)
    numbers = [label for label in labels if not isinstance(label, Coded)]
    held = [view for label in numbers for view in column_memory(table.column(label))]
    readers = [column_reader(table.column(str(k)), k, what) for k in labels]
    return ColumnRows(table.num_rows, kind, labels, readers, dtype, held)


def ipc_reader(name: str) -> Any:
    """Return a reader of an IPC file or stream, memory-mapped."""
    with open(name, "rb") as file:
        is_file_format = file.read(6) == b"ARROW1"
    opener = ipc.open_file if is_file_format else ipc.open_stream
    return opener(pa.memory_map(name))


def batch_rows(
    batch: Any, labels: Sequence[str], begin: int, end: int, dtype: np.dtype[Any]
) -> Chunk:
    """Return rows `begin` to `end` of a record batch."""
    return assemble(
        [column_reader(batch.column(str(label)), label) for label in labels], begin, end, dtype
    )


# Rows of pandas and polars frames.


def is_frame(obj: object) -> bool:
    """Return True for a pandas or polars DataFrame."""
    return is_instance(obj, "pandas", "DataFrame") or is_instance(obj, "polars", "DataFrame")


def is_series(obj: object) -> bool:
    """Return True for a pandas or polars Series."""
    return is_instance(obj, "pandas", "Series") or is_instance(obj, "polars", "Series")


def series_as_row(series: Any) -> Any:
    """Return a Series as one row; the index of a pandas Series of several values becomes the column names."""
    if len(series) == 1 or is_instance(series, "polars", "Series"):
        return np.ndarray.view(series.to_numpy(), np.ndarray).reshape(1, -1)
    return series.to_frame().T.infer_objects()


def is_lazy(obj: object) -> bool:
    """Return True for a polars LazyFrame."""
    return is_instance(obj, "polars", "LazyFrame")


def frame_rows(frame: Any, columns: Sequence[Any] | None) -> Rows:
    """Return rows of a pandas or polars DataFrame, or of a Series as one column."""
    if is_series(frame):  # a series without a name becomes column 0, as in a frame made of an array
        frame = (
            frame.alias("0") if is_instance(frame, "polars", "Series") and not frame.name else frame
        ).to_frame()
    if is_instance(frame, "pandas", "DataFrame"):
        return _pandas_rows(frame, columns)
    return polars_frame_rows(frame, columns)


def _pandas_rows(frame: Any, columns: Sequence[Any] | None) -> Rows:
    what = "the data frame"
    labels = choose(list(frame.columns), columns, what)
    series = [frame[label] for label in labels]
    dtypes = {label: each.dtype for label, each in zip(labels, series, strict=True)}
    refused = [
        (k, _kind(d))
        for k, d in dtypes.items()
        if not isinstance(k, Coded) and not _pandas_numeric(d)
    ]
    require_numeric(refused, what, columns)
    pairs = [_pandas_column(each, label, what) for label, each in zip(labels, series, strict=True)]
    held = [view for _, views in pairs for view in views]
    plain = [d for k, d in dtypes.items() if not isinstance(k, Coded) and d != np.dtype(object)]
    coded = any(isinstance(k, Coded) for k in labels)
    # Objects have no precision of their own: one odd cell must not change how the other columns are read.
    dtype = _F32 if plain and not coded and all(d == _F32 for d in plain) else _F64
    return ColumnRows(len(frame), "frame", labels, [reader for reader, _ in pairs], dtype, held)


def _pandas_column(series: Any, label: Any, what: str) -> tuple[ColumnReader, list[NDArray[Any]]]:
    """Return the reader of a column, and the arrays that hold its numbers."""
    if isinstance(label, Coded):
        return _pandas_texts(series, label, what), []
    if isinstance(series.dtype, np.dtype):
        values = np.ndarray.view(series.to_numpy(), np.ndarray)
        # pandas makes it of a whole column for one cell, such as an integer beyond 64 bits
        if values.dtype.kind == "O":
            return (lambda begin, end: numbers_of_cells(values[begin:end])), [values]
        return (lambda begin, end: values[begin:end]), [values]
    if hasattr(series.dtype, "pyarrow_dtype"):
        column = call_guarded(lambda: series.array.__arrow_array__())
        return column_reader(column), column_memory(column)
    array = series.array

    def masked(begin: int, end: int) -> FloatArray:
        return np.asarray(array[begin:end].to_numpy(dtype=np.float64, na_value=np.nan))

    return masked, [array._data] if hasattr(array, "_data") else []


def _kind(dtype: object) -> str:
    """Return the type of a column without its parameters, which may hold a value (the fill value of a sparse column)."""
    return str(dtype).split("[")[0].split("(")[0][:40]


def _pandas_numeric(dtype: Any) -> bool:
    if isinstance(dtype, np.dtype):
        return dtype.kind in "biuO" or (dtype.kind == "f" and dtype.char != "g")
    arrow_type = getattr(dtype, "pyarrow_dtype", None)
    if arrow_type is not None:
        return float_dtype(arrow_type) is not None
    # Nullable Int64, Float64, boolean and the like. A sparse column has a `subtype`, a category has `categories`.
    return getattr(dtype, "numpy_dtype", np.dtype(object)).kind in "biuf" and not hasattr(
        dtype, "subtype"
    )


def _pandas_dates(series: Any, label: Coded, rule: Calendar, what: str) -> ColumnReader | None:
    """Return a reader of a column of dates or periods of pandas by its type; None for a column of another type."""
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        if dtype.kind != "M":
            return None
        values = np.ndarray.view(series.to_numpy(), np.ndarray)
        return lambda begin, end: rule.of_days(days_of_datetimes(values[begin:end]))
    if hasattr(dtype, "tz"):
        zoned = call_guarded(lambda: pa.Array.from_pandas(series[:0]).type, "an unknown time zone")
        require_known_zone(zoned, str(label))
        stamps = series.array.asi8
        return lambda begin, end: rule.of_days(
            days_of_arrow(pa.array(stamps[begin:end]).cast(zoned))
        )
    name, _, frequency = str(dtype).partition("[")
    if name != "period":
        return None
    if unit_of_frequency(frequency.removesuffix("]")) != rule.unit:
        refuse_numbers(label, str(dtype)[:40], what)
    numbers = series.array.asi8
    return lambda begin, end: np.where(
        numbers[begin:end] == _NO_PERIOD, np.nan, numbers[begin:end].astype(np.float64)
    )


def _pandas_texts(series: Any, label: Coded, what: str) -> ColumnReader:
    dtype = series.dtype
    if isinstance(label.levels, Calendar):
        reader = _pandas_dates(series, label, label.levels, what)
        if reader is not None:
            return reader
    if hasattr(dtype, "pyarrow_dtype") or getattr(dtype, "storage", None) == "pyarrow":
        return column_reader(call_guarded(lambda: series.array.__arrow_array__()), label, what)
    objects = isinstance(dtype, np.dtype) and dtype.kind == "O"
    if not objects and (
        _pandas_numeric(dtype) or isinstance(dtype, np.dtype) or hasattr(dtype, "subtype")
    ):
        refuse_numbers(label, _kind(dtype), what)
    place_of = places(label.levels)
    if hasattr(dtype, "categories"):
        # The categories are encoded once; the code of a missing cell is -1, the index of the NaN at the end.
        table = np.append(place_of(list(dtype.categories)), np.nan)
        codes = np.asarray(series.cat.codes)
        return lambda begin, end: table[codes[begin:end]]
    array = series.array
    return lambda begin, end: place_of(np.asarray(array[begin:end], dtype=object))


_NO_PERIOD = np.iinfo(np.int64).min  # NaT


def polars_frame_rows(frame: Any, columns: Sequence[Any] | None) -> Rows:
    """Return rows of a polars DataFrame, read as the Arrow arrays that share the memory of its columns."""
    what = "the data frame"
    labels = choose(list(frame.columns), columns, what)
    series = {label: frame.get_column(label) for label in labels}
    # Only the class name of a type: the text of an Enum has its categories.
    kinds = {
        label: str(getattr(s.dtype, "base_type", lambda s=s: s.dtype)())
        for label, s in series.items()
    }
    numeric = {
        label
        for label, s in series.items()
        if s.dtype.is_numeric() or s.dtype in (polars.Boolean, polars.Object)
    }
    refused = [
        (str(k), kind) for k, kind in kinds.items() if not (isinstance(k, Coded) or k in numeric)
    ]
    require_numeric(refused, what, columns)
    held: list[NDArray[Any]] = []

    def reader(label: Any) -> ColumnReader:
        column = series[label]
        kind = kinds[label]
        if isinstance(label, Coded):
            dated = ("Date", "Datetime") if isinstance(label.levels, Calendar) else ()
            if kind not in ("String", "Utf8", "Categorical", "Enum", "Object", *dated):
                refuse_numbers(label, kind, what)
        if kind == "Object":  # Arrow has no such type
            place_of = places(label.levels) if isinstance(label, Coded) else _numbers_of_list
            return lambda begin, end: place_of(column.slice(begin, end - begin).to_list())
        wide = kind in ("Int128", "UInt128")
        array = (column.cast(polars.Float64) if wide else column).to_frame().to_arrow().column(0)
        held.extend([] if isinstance(label, Coded) else column_memory(array))
        return column_reader(array, label, what)

    plain = [s.dtype for s in series.values() if s.dtype != polars.Object]
    dtype = _F32 if plain and all(each == polars.Float32 for each in plain) else _F64
    return ColumnRows(frame.height, "frame", labels, list(map(reader, labels)), dtype, held)


def _numbers_of_list(cells: Iterable[Any]) -> FloatArray:
    return np.array([number_of_cell(cell) for cell in cells], dtype=np.float64)


def holds_objects(source: Any, name: Any) -> bool:
    """Return whether a column of a frame holds objects, which may be numbers and texts beside each other."""
    if is_frame(source) and name in source.columns:
        return str(getattr(source[name], "dtype", None)) in ("object", "Object")
    return False


def refuse_objects(source: Any, columns: Any) -> None:
    """Raise InputError if a public column of objects, or an array of them, has a cell that is neither a number nor missing."""
    if (
        isinstance(source, np.ndarray)
        and source.dtype.kind == "O"
        and not _all_numbers(source.ravel().tolist())
    ):
        raise InputError(
            "public rows must be real numbers, and this array of objects has other cells: pass numbers"
        )
    if is_series(source):
        source = source.to_frame()
    if not is_frame(source):
        return
    asked = names_of_columns(columns)
    texts = columns.texts if isinstance(columns, TextColumns) else {}
    names = [
        name
        for name in (source.columns if asked is None else asked_columns(asked))
        if name not in texts
    ]
    objects = [name for name in names if holds_objects(source, name)]
    others = [name for name in objects if not _all_numbers(source[name].to_list())]
    require_numeric([(name, "object") for name in others], "the data frame", columns)


def _all_numbers(cells: Iterable[Any]) -> bool:
    """Return whether all cells are numbers or missing."""
    missing = {"NoneType", "NAType", "NaTType"}
    return all(
        type(cell).__name__ in missing or isinstance(cell, Real | Decimal | np.bool_)
        for cell in cells
    )
