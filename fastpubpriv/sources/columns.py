"""Tables read column by column: numbers, and text as places in public lists.

Columns of text, read as places in public lists of texts.

A cell becomes the place of its text in the list, without the blanks around it; any other cell, a missing one too, becomes NaN. What
a cell becomes depends on that cell and on the list alone, and no cell makes it fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastpubpriv._types import FloatArray
from fastpubpriv.columns import listed
from fastpubpriv.errors import InputError
from fastpubpriv.sources.base import Chunk, RandomAccessRows
from fastpubpriv.threads.guard import call_foreign

BLANKS = " \t\r\n\v\f"


class Coded(str):
    """The name of a column that is read as text, and the public list of its texts."""

    __slots__ = ("levels",)

    levels: tuple[str, ...]

    def __new__(cls, name: str, levels: Sequence[str]) -> Coded:
        """A name that is equal to `name`."""
        made = super().__new__(cls, name)
        made.levels = tuple(levels)
        return made

    def __reduce__(self) -> Any:
        return Coded, (str(self), self.levels)


@dataclass(frozen=True, slots=True)
class TextColumns:
    """What to read, in place of a list of column names: those names, None for all columns, and the texts of columns of text."""

    names: Sequence[Any] | None
    texts: Mapping[str, tuple[str, ...]]


def names_of_columns(columns: Any) -> Sequence[Any] | None:
    """The names that `columns` asks for, None for all."""
    return columns.names if isinstance(columns, TextColumns) else columns


def name_of(label: Any) -> str:
    """The name of a column, as rows have it: that of a column of text keeps its list."""
    return label if isinstance(label, Coded) else str(label)


def plain_text(cell: str) -> str:
    """A text without the blanks around it; of a subclass of `str`, what it holds."""
    return str.strip(str.__str__(cell), BLANKS)


def places(levels: Sequence[str]) -> Callable[[Iterable[Any]], FloatArray]:
    """A function from cells, which may be of any type, to their places in a list of texts."""
    known = {level: float(place) for place, level in enumerate(levels)}

    def found(cells: Iterable[Any]) -> FloatArray:
        return np.array(
            [known.get(plain_text(cell), np.nan) if isinstance(cell, str) else np.nan for cell in cells],
            dtype=np.float64,
        )

    return found


def arrow_places(column: Any, levels: Sequence[str]) -> NDArray[Any]:
    """The places of the texts in an Arrow Array or ChunkedArray, as bytes: text that is not UTF-8 is none of them."""
    import pyarrow as pa
    import pyarrow.compute as compute

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not pa.types.is_large_string(column.type):
        column = column.cast(pa.large_string())
    trimmed = compute.ascii_trim(column, characters=BLANKS).cast(pa.large_binary())
    known = pa.array([level.encode() for level in levels], pa.large_binary())
    found = compute.index_in(trimmed, value_set=known).cast(pa.float64())
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks() if found.num_chunks != 1 else found.chunk(0)
    return found.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def refuse_numbers(label: str, kind: str, what: str) -> None:
    """A column whose list is of texts holds numbers: by its type, which is part of the form."""
    raise InputError(
        f"column {str(label)!r} of {what} is not text ({kind}), and its public list is: pass the list as numbers, or convert the "
        "column"
    )


# Tables read column by column: choosing the columns, and assembling them into rows.

ColumnReader = Callable[[int, int], NDArray[Any]]  # (begin, end) -> values of one column, one-dimensional


def asked_columns(columns: object) -> list[Any]:
    """The argument `columns` as a list of labels."""
    if isinstance(columns, str | bytes) or not isinstance(columns, Sequence):
        raise InputError(f"columns must be a list of column names such as ['a', 'b'], got {type(columns).__name__}")
    for label in columns:
        if not isinstance(label, Hashable):
            raise InputError(f"columns must be a list of column names, and a {type(label).__name__} is no name")
    return list(columns)


def choose(available: Sequence[Hashable], columns: Any, what: str, list_names: bool = True) -> list[Any]:
    """The labels to read, those of text as `Coded`; InputError if one of them does not exist."""
    asked = names_of_columns(columns)
    chosen = list(available) if asked is None else asked_columns(asked)
    if not chosen:
        raise InputError(f"no columns of {what} were chosen: at least one is needed")
    there = Counter(available)
    missing = [label for label in chosen if label not in there]
    if missing:
        known = f"; it has {listed(available)}" if list_names else ""
        raise InputError(f"{what} has no column {listed(missing)}{known}")
    ambiguous = [label for label in dict.fromkeys(chosen) if there[label] > 1]
    if ambiguous:
        named = listed(ambiguous) if list_names or asked is not None else "of some name"
        raise InputError(f"{what} has more than one column {named}: rename one of them")
    repeated = [label for label, count in Counter(chosen).items() if count > 1]
    if repeated:
        raise InputError(f"column {listed(repeated)} was chosen twice: choose each column once")
    # Labels that were chosen, those of columns of text as `Coded`.
    if not isinstance(columns, TextColumns):
        return list(chosen)
    texts = columns.texts
    return [Coded(each, texts[each]) if isinstance(each, str) and each in texts else each for each in chosen]


def require_numeric(refused: Sequence[tuple[Any, str]], what: str, columns: Any) -> None:
    """InputError naming the columns (and their types, which are part of the form) that hold no numbers."""
    if not refused:
        return
    listed = ", ".join(f"{label!r} ({kind})" for label, kind in refused)
    asked = names_of_columns(columns) is not None
    if isinstance(columns, TextColumns):
        text = "name a column of text in categories={column: 'public'}, or its list of texts"
        raise InputError(
            f"not numeric in {what}: {listed}. Convert them to numbers first, leave them out by columns=, or {text}"
        )
    advice = "choose numeric columns only" if asked else "pass columns=[...] with the numeric columns to use"
    raise InputError(f"not numeric in {what}: {listed}. Convert them to numbers first, or {advice}")


def assemble(readers: Sequence[ColumnReader], begin: int, end: int, dtype: np.dtype[Any]) -> Chunk:
    """The columns of a range as one C-contiguous array of rows."""
    out = np.empty((end - begin, len(readers)), dtype)

    def fill() -> None:
        with np.errstate(all="ignore"):
            # Whole columns, one after the other: tiles that fit a cache are slower.
            for index, read in enumerate(readers):
                out[:, index] = read(begin, end)

    call_foreign(fill)  # the columns of a frame may be objects of other code
    return out


class ColumnRows(RandomAccessRows):
    """Rows of a table in memory, one reader for each column."""

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
        """Rows begin to end, assembled."""
        return assemble(self._readers, begin, end, self._dtype)

    def memory(self) -> list[NDArray[Any]]:
        """The arrays that hold the columns, as far as NumPy can see them, for the shared-memory check."""
        return list(self._held)
