"""Tables read column by column: choosing the columns, and assembling them into rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastpubpriv.columns import listed
from fastpubpriv.errors import InputError
from fastpubpriv.sources.base import Chunk
from fastpubpriv.sources.blocks import RandomAccessRows
from fastpubpriv.sources.readers.texts import TextColumns, coded_labels, name_of, names_of_columns
from fastpubpriv.threads.guard import call_foreign

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
    return coded_labels(chosen, columns)


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
