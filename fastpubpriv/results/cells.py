"""Rows that a released model predicts for: their cells as numbers, text by the lists that the model was trained with."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.columns import points, term_values
from fastpubpriv.errors import InputError
from fastpubpriv.sources import private_rows
from fastpubpriv.sources.readers.arrow import is_arrow
from fastpubpriv.sources.readers.dask import is_dask
from fastpubpriv.sources.readers.frame import is_frame, is_lazy, is_series
from fastpubpriv.sources.readers.texts import TextColumns, places

PLAN = ("source", "role", "level", "fill")


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Rows (k, dim) that were read by `as_columns`: texts are places already."""

    numbers: FloatArray


def as_columns(columns: Sequence[str] | None, design: Mapping[str, Any]) -> Any:
    """What `private_rows` is asked for, to read rows for a model."""
    texts = design.get("texts")
    return TextColumns(columns, dict(texts)) if texts else columns


def cells_of(rows: Any, dim: int, columns: Sequence[str] | None, design: Mapping[str, Any]) -> FloatArray:
    """The cells (n, dim) of rows, in the order of the model's columns; a text becomes its place, NaN for any other."""
    if isinstance(rows, Cells):
        return rows.numbers
    texts = design.get("texts")
    if not texts:
        return np.atleast_2d(points(rows, dim, columns, finite=False))
    table = is_frame(rows) or is_lazy(rows) or is_arrow(rows) or is_dask(rows) or isinstance(rows, str | os.PathLike)
    if table and not is_series(rows):
        return np.concatenate(list(private_rows(rows, columns=as_columns(columns, design)).chunks()), dtype=np.float64)
    try:
        array = np.asarray(rows, dtype=object)
    except Exception:
        array = np.empty((0, 0), dtype=object)
    if np.ndim(array) == 1 and len(array) == dim:
        array = array.reshape(1, -1)
    if array.ndim != 2 or array.shape[1] != dim:
        raise InputError(f"rows must be a table, or an array of numbers and texts of shape (n, {dim})") from None
    found = np.empty(array.shape)
    for place, name in enumerate(columns or ()):
        cells = array[:, place]
        if name in texts:
            found[:, place] = places(texts[name])(cells)
        else:
            found[:, place] = points(cells.reshape(-1, 1), 1, finite=False)[:, 0]
    return found


def terms_of(rows: Any, dim: int, columns: Sequence[str] | None, design: Mapping[str, Any]) -> FloatArray:
    """The terms (n, p) that a model is linear in."""
    cells = cells_of(rows, dim, columns, design)
    if "source" not in design:
        return cells
    return term_values(cells, **{name: np.array(design[name], dtype=np.float64) for name in PLAN})


def labels_of(place: Any, missing: Any, classes: FloatArray, design: Mapping[str, Any]) -> Any:
    """The classes at these places, (n,): numbers, NaN where missing; or texts, None where missing."""
    names = design.get("classes")
    if not names:
        return np.where(missing, np.nan, classes[place])
    found = np.array(names, dtype=object)[place]
    found[missing] = None
    return found


def shown_class(label: float, index: int, design: Mapping[str, Any]) -> str:
    """A class for a table."""
    return str(design["classes"][index]) if design.get("classes") else f"{label:g}"


def fits(design: Mapping[str, Any], dim: int, terms: int, columns: Sequence[str] | None, classes: int) -> bool:
    """Whether a design that was read from JSON makes sense for a model."""
    wanted = {"source": terms, "role": terms, "level": terms, "fill": dim} if "source" in design else {}
    for name, length in wanted.items():
        given = design.get(name)
        if not isinstance(given, tuple) or len(given) != length:
            return False
        if not all(type(item) in (int, float) or item is None for item in given):
            return False
    if wanted and not all(type(j) is int and 0 <= j < dim for j in design["source"]):
        return False
    names, texts = design.get("classes", ()), design.get("texts", {})
    if not (isinstance(names, tuple) and len(names) in (0, classes) and all(type(each) is str for each in names)):
        return False
    if not isinstance(texts, Mapping) or not set(texts) <= set(columns or ()):
        return False
    return all(isinstance(each, tuple) and all(type(text) is str for text in each) for each in texts.values())
