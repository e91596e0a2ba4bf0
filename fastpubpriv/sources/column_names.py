"""Match columns of two sources by name, and bring rows into the column order of a released result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError


def column_order(
    wanted: Sequence[str] | None,
    present: Sequence[str] | None,
    *,
    of: str,
    within: str,
    show: bool = True,
) -> list[int] | None:
    """Return the order with present[order[j]] == wanted[j], or None to match by position."""
    # Columns match by position if the order is the same, or a source has no names, or only the numbers 0, 1, ... of a frame made
    # from an array. InputError names missing and additional columns; missing names are shown only with `show`, as they may be a
    # private row, the first line of a CSV file without header.
    if wanted is None or present is None or tuple(wanted) == tuple(present):
        return None
    if set(wanted) != set(present) and (_only_numbered(wanted) or _only_numbered(present)):
        return None
    missing = [name for name in wanted if name not in present]
    more = [name for name in present if name not in wanted]
    if missing or more:
        details = []
        if missing and show:
            details.append(f"{within} has no column {listed(missing)}, which {of} has")
        elif missing:
            details.append(
                f"{within} lacks {len(missing)} of the columns of {of} (its names may be private)"
            )
        if more:
            details.append(f"{within} has a column {listed(more)}, which {of} has not")
        raise InputError(
            f"columns are matched by name, and {'; '.join(details)}: choose the same columns on both sides, rename them, or pass "
            "arrays to match by position"
        )
    places = {name: index for index, name in enumerate(present)}
    if len(places) < len(present) or len(set(wanted)) < len(wanted):
        raise InputError(
            f"columns are matched by name, and two columns of {within} have one name: rename one of them"
        )
    return [places[name] for name in wanted]


def _only_numbered(names: Sequence[str]) -> bool:
    return all(name == str(index) for index, name in enumerate(names))


def listed(names: Sequence[Any]) -> str:
    """Return the text of at most fifty names for a message."""
    shown = ", ".join(repr(name) for name in names[:50])
    return shown if len(names) <= 50 else f"{shown}, and {len(names) - 50} more"


def _names_of(rows: Any) -> list[str] | None:
    """Return the names of the columns of a frame or table, None for anything else."""
    labels = getattr(rows, "column_names", getattr(rows, "columns", None))
    return None if labels is None or callable(labels) else [str(label) for label in labels]


def _chosen(rows: Any, names: set[str]) -> Any:
    """Return the named columns of a frame or table, in its order."""
    if hasattr(rows, "column_names"):
        return rows.select([name for name in rows.column_names if name in names])
    return rows[[label for label in rows.columns if str(label) in names]]


def points(
    rows: object, dim: int, columns: Sequence[str] | None = None, *, finite: bool
) -> FloatArray:
    """Return rows (n, dim) or (dim,) at which a released result is evaluated, float64, in the order of its columns."""
    # They may be private, so no message quotes them. If dim is 1, one dimension is rows of one number. Columns of a frame or table
    # are matched by name, others left out. InputError unless they are numbers of that shape and, if requested, `finite`.
    names = _names_of(rows)
    order = None
    if columns is not None and names is not None:
        if set(columns) < set(names):  # a column that is not needed, such as the label, may be text
            return points(_chosen(rows, set(columns)), dim, columns, finite=finite)
        order = column_order(columns, names, of="the result", within="the table of rows")
    try:
        array = np.asarray(rows)
        fine = array.dtype.kind in "biufO"
        with np.errstate(all="ignore"):
            array = array.astype(np.float64) if fine else array
    except Exception:
        fine = False
    if not fine:
        raise InputError(
            f"rows must be an array of numbers of shape (n, {dim}), got {type(rows).__name__}"
        ) from None
    if order is not None:
        array = array[:, order]
    if array.ndim == 1 == dim:
        array = array.reshape(-1, 1)
    if array.ndim not in (1, 2) or array.shape[-1] != dim:
        raise InputError(f"rows must have shape (n, {dim}), got {array.shape}")
    if finite and not np.isfinite(array).all():
        raise InputError(
            "rows must be finite: leave out those with missing or infinite entries, or fill them in"
        )
    return array


# Kinds of model terms: a number, whether the cell is missing, whether it has a category, whether it has none of the categories.
NUMBER, MISSING, LEVEL, OTHER = range(4)


def term_values(
    rows: FloatArray,
    *,
    source: npt.NDArray[Any],
    role: npt.NDArray[Any],
    level: FloatArray,
    fill: FloatArray,
) -> FloatArray:
    """Return the terms (n, p) of a model from cells (n, dim), row by row; a missing cell is NaN or infinite."""
    # A term has a column, its `source`, and a `role`: NUMBER, MISSING, LEVEL (category `level`) or OTHER. `fill` (dim,) replaces
    # missing numbers; if it is NaN, the term stays not finite.
    where = np.asarray(source, dtype=np.int64)
    kind = np.asarray(role, dtype=np.int64)
    with np.errstate(all="ignore"):
        cells: FloatArray = rows[:, where].astype(np.float64, copy=False)
        if not kind.any() and not np.isfinite(fill).any():
            return cells
        missing = ~np.isfinite(cells)
        filled = np.where(missing & np.isfinite(fill[where]), fill[where], cells)
        cells = np.where(kind == NUMBER, filled, np.where(kind == MISSING, missing, cells == level))
        for place in np.flatnonzero(kind == OTHER):
            known = level[(kind == LEVEL) & (where == where[place])]
            cells[:, place] = ~np.isin(rows[:, where[place]], known)
    return cells
