"""Columns of text, read as places in public lists of texts.

A cell becomes the place of its text in the list, without the blanks around it; any other cell, a missing one too, becomes NaN. What
a cell becomes depends on that cell and on the list alone, and no cell makes it fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError

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


def coded_labels(labels: Iterable[Any], columns: Any) -> list[Any]:
    """Labels that were chosen, those of columns of text as `Coded`."""
    if not isinstance(columns, TextColumns):
        return list(labels)
    texts = columns.texts
    return [Coded(each, texts[each]) if isinstance(each, str) and each in texts else each for each in labels]


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
