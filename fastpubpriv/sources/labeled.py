"""Labeled rows: features with the label as last column of the same row, so that no pass reads one without the other."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.sources import open
from fastpubpriv.sources.arrays import plain_text
from fastpubpriv.sources.column_names import listed
from fastpubpriv.sources.person_table import warn_of_persons
from fastpubpriv.sources.row_types import DerivedTable, Rows, condition_of, order_of
from fastpubpriv.sources.tables import (
    ColumnRows,
    TextColumns,
    asked_columns,
    is_frame,
    is_series,
    places,
)
from fastpubpriv.sources.views import (
    AdjacentColumns,
    ChosenColumns,
    SideBySide,
    each_row,
    require_one_order,
)
from fastpubpriv.threads.guard import call_guarded, naming
from fastpubpriv.validation import did_you_mean

Label = str | int | tuple[str, ...] | None  # several columns only by name
Texts = Mapping[str, tuple[str, ...]]
MOST_TEXTS = 1000
WHAT_A_LABEL_IS = (
    "label must be the name of a column, or -1 for the last column of a source without names"
)


@dataclass(frozen=True, slots=True)
class WeightColumns:
    """The columns that hold weights, which are no features of either table; None where weights are an array, or there are none."""

    private: str | None = None
    public: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The distinct names."""
        return tuple(
            dict.fromkeys(name for name in (self.private, self.public) if name is not None)
        )


NO_WEIGHTS = WeightColumns()


def open_labeled(
    x_priv: Any,
    y_priv: Any,
    *,
    x_pub: Any,
    y_pub: Any,
    label: Label,
    columns: Sequence[Any] | None,
    categories: Any,
    classes: Any,
    of_classes: bool,
    weights: WeightColumns = NO_WEIGHTS,
) -> tuple[Rows, FloatArray, Texts, tuple[str, ...] | None]:
    """Open the labeled data: private rows, public table (label last), texts of each text column, and class names or None."""
    # A private weight with a name is the column after the label.
    # `of_classes`: labels may be text. Only the form of private rows is read.
    columns = None if columns is None else asked_columns(columns)
    texts = column_texts(categories, x_pub)
    names = class_texts(classes, x_pub, y_pub, label) if of_classes else None
    try:
        rows = labeled_rows(
            x_priv,
            y_priv,
            label=label,
            columns=columns,
            texts=texts,
            label_texts=names,
            weights=weights,
        )
        table = public_labeled(
            x_pub,
            y_pub,
            label=label,
            columns=_public_features(x_pub, label, columns, weights),
            private=rows if weights.private is None else _unweighted(rows),
            x_priv=x_priv,
            texts=texts,
            label_texts=names,
        )
    except InputError:
        levels = None if of_classes else class_texts(None, x_pub, y_pub, label)
        if levels is None:
            raise
        shown = ", ".join(map(repr, levels[:3])) + (", ..." if len(levels) > 3 else "")
        raise InputError(
            f"the public labels are text ({shown}), and this loss is for numbers: pass numbers, or take logistic_regression or "
            "train(loss='logistic') for two classes, train(loss='softmax') for more"
        ) from None
    if not rows.rows_per_person:
        warn_of_persons(x_pub)
    return rows, table, texts, names


def _public_features(
    x_pub: Any, label: Label, columns: Sequence[Any] | None, weights: WeightColumns
) -> Sequence[Any] | None:
    """Return the features of public rows: by default all columns but the label and weights."""
    names = open.names_of_table(x_pub) if columns is None and weights.names else None
    others: set[str | None] = {*_named(label), *weights.names}
    return columns if names is None else [name for name in names if name not in others]


def _unweighted(rows: Rows) -> Rows:
    return AdjacentColumns(rows, rows.dim - 1, None if rows.columns is None else rows.columns[:-1])


def levels_by_column(categories: Any) -> Mapping[Any, Any] | None:
    """Return the levels of each column with categories, or "public"; one name or several stand for those of the public rows."""
    if categories is None or isinstance(categories, Mapping):
        return categories
    names = [categories] if isinstance(categories, str) else categories
    if isinstance(names, list | tuple) and all(isinstance(name, str) for name in names):
        return dict.fromkeys(names, "public")
    raise InputError(
        "categories must be names of columns, such as ['month'] (those of an array are 'x0', 'x1' and so on), or map each to its "
        f"levels or to 'public', got {categories!r:.80}"
    )


def column_texts(categories: Any, x_pub: Any) -> dict[str, tuple[str, ...]]:
    """Return the texts of each column whose categories are texts, from the given list or from the public rows."""
    texts: dict[str, tuple[str, ...]] = {}
    for name, given in (levels_by_column(categories) or {}).items():
        if isinstance(given, str) and given != "public":
            raise InputError(
                f"the categories of {name!r} must be a list of numbers or of texts, or 'public', got {given!r}"
            )
        listed = (
            open.texts_of_column(x_pub, name) if isinstance(given, str) else _texts(name, given)
        )
        if listed is not None:
            texts[name] = listed
    return texts


def _texts(name: str, given: Any) -> tuple[str, ...] | None:
    """Return the distinct texts of a list, in its order, or None for anything else; raise InputError for a mixed list."""
    listed = (
        () if isinstance(given, str | Mapping) or not hasattr(given, "__iter__") else tuple(given)
    )
    if not any(isinstance(each, str) for each in listed):
        return None
    if not all(isinstance(each, str) for each in listed):
        raise InputError(f"the list of {name!r} must be of numbers or of texts, not of both")
    distinct = tuple(dict.fromkeys(plain_text(each) for each in listed))
    if "" in distinct or len(distinct) > MOST_TEXTS:
        raise InputError(
            f"the list of {name!r} must have at most {MOST_TEXTS} texts, none of them empty"
        )
    return distinct


def class_texts(classes: Any, x_pub: Any, y_pub: Any, label: Any) -> tuple[str, ...] | None:
    """Return the class names, as listed or from the public labels; None for numeric classes."""
    if classes is not None:
        return _texts("classes", classes)
    if isinstance(label, str):
        return open.texts_of_column(x_pub, label)
    return (
        None
        if y_pub is None
        else call_guarded(lambda: open.distinct_texts(open.label_cells(y_pub)))
    )


def labeled_rows(
    x: object,
    y: object,
    *,
    label: Label,
    columns: Sequence[Any] | None,
    texts: Texts | None = None,
    label_texts: tuple[str, ...] | None = None,
    weights: WeightColumns = NO_WEIGHTS,
) -> Rows:
    """Return private rows with the label as last column, (n, dim + 1); only the form is read, as by `private_rows`."""
    # Labels are `y`, or the column `label` of `x` (-1: the last column of a source without names). `columns` are the features, by
    # default all other columns. `texts` maps a column to its public list of texts; `label_texts` is the list of the labels. A named
    # column of private weights follows the label.
    if (y is None) == (label is None):
        raise InputError(
            "pass the labels once: y_priv=, or label= with the name of a column of x_priv"
        )
    if y is not None and isinstance(x, DerivedTable) and (x.persons is not None or condition_of(x)):
        what = "rows of persons" if x.persons is not None else "where="
        raise InputError(
            f"x_priv has {what}: name the column of the label by label= in place of y_priv="
        )
    if not isinstance(label, str | int | tuple | None):
        raise InputError(WHAT_A_LABEL_IS)
    if label is not None:
        both = {**(texts or {}), **({} if label_texts is None else {str(label): label_texts})}
        with naming("x_priv"):
            return _of_table(x, label, columns, both, weights)
    with naming("x_priv"):
        features = _of_table(x, None, columns, texts, weights)
    with naming("y_priv"):
        labels = _label_rows(y, label_texts)
    rows = beside(features, labels)
    if weights.private is None:
        return rows
    order = (*range(rows.dim - 2), rows.dim - 1, rows.dim - 2)
    return each_row(
        rows,
        ChosenColumns(order),
        rows.dim,
        rows.columns and tuple(rows.columns[place] for place in order),
    )


def _asked(columns: Sequence[Any] | None, texts: Texts | None) -> Any:
    return columns if texts is None else TextColumns(columns, texts)


def _label_rows(y: Any, texts: tuple[str, ...] | None) -> Rows:
    """Return labels given apart from the features as rows; text labels become indices into the list."""
    if texts is None:
        return open.private_rows(y)
    if is_series(y) or (is_frame(y) and y.shape[1] == 1):
        frame = y.to_frame() if is_series(y) else y
        frame = (
            frame.set_axis(["label"], axis=1)
            if hasattr(frame, "set_axis")
            else frame.rename(lambda _: "label")
        )
        return open.private_rows(frame, columns=_asked(["label"], {"label": texts}))
    cells = call_guarded(lambda: list(open.label_cells(y)))
    place_of = places(texts)
    if not cells:
        raise InputError(
            "the classes are text: pass labels as an array, a list or a series of text, or name their column by label="
        )
    return ColumnRows(
        len(cells),
        "array",
        ["label"],
        [lambda begin, end: place_of(cells[begin:end])],
        np.dtype(np.float64),
        [],
    )


def public_labeled(
    x: object,
    y: object,
    *,
    label: Label,
    columns: Sequence[Any] | None,
    private: Rows,
    x_priv: object,
    texts: Texts | None = None,
    label_texts: tuple[str, ...] | None = None,
) -> FloatArray:
    """Return public rows (m, dim + 1), label last, in the column order of the private rows; cells may be missing (NaN)."""
    # `private` holds the labeled private rows, made from `x_priv`, with which `x` must not share memory. Without labels, or a
    # column of them, all are missing.
    if y is not None and label is not None:
        raise InputError(
            "pass the public labels once: y_pub=, or label= with the name of a column of x_pub"
        )
    if label is not None and not _has_label(x, label, columns, private.dim):
        _refuse_similar_name(x, label, open.names_of_table(x_priv) or ())
        label = None
    if y is not None and order_of(x) is not order_of(y):
        raise InputError(
            "x_pub has rows of persons: name the column of the label by label= in place of y_pub="
        )
    named = _named(label)
    named_columns = _with_label(columns, label)
    read = dict(texts or {})
    if label_texts is not None and named:
        read[str(label)] = label_texts
    chosen = _asked(named_columns, read)
    open.refuse_shared_memory(x_priv, x, columns=chosen)
    show = private.kind != "csv"
    names = private.columns
    if label is not None:
        table, _ = open.public_table_of(
            x, columns=chosen, dim=private.dim, names=names, show=show, finite=False
        )
        return table
    dim = private.dim - 1
    features, _ = open.public_table_of(
        x,
        columns=_asked(columns, texts),
        dim=dim,
        names=None if names is None else names[:-1],
        show=show,
        finite=False,
    )
    if y is None:
        labels = np.full((len(features), 1), np.nan)
    elif label_texts is None:
        labels, _ = open.public_table_of(y, dim=1, argument="y_pub", finite=False)
    else:
        labels = places(label_texts)(open.label_cells(y)).reshape(-1, 1)
    if len(labels) != len(features):
        raise InputError(
            f"x_pub has {len(features)} rows and y_pub has {len(labels)}: one label for each row"
        )
    return np.hstack([features, labels])


def _has_label(x: object, label: Label, columns: Sequence[Any] | None, dim: int) -> bool:
    """Whether public rows have the column of the label; by their width, `dim` with it, if their columns have no names."""
    names = open.names_of_table(x)
    if names is not None:
        return not _named(label) or not set(names).isdisjoint(_named(label))
    return columns is not None or open.open_public(x, None, dim).dim != dim - 1


def _refuse_similar_name(x: object, label: Label, private: Sequence[str]) -> None:
    """Raise InputError if a column of public rows, and of no `private` ones, has nearly the name of the label."""
    names = open.names_of_table(x) or ()
    words = {_letters(name): name for name in names if name not in private}
    for name in _named(label):
        near = difflib.get_close_matches(_letters(name), list(words), n=1)
        if near:
            raise InputError(
                f"x_pub has no column {name!r}, but one named {words[near[0]]!r}: rename it to {name!r} if it holds the labels, or "
                "drop it if no public label is known"
            )


def _letters(name: str) -> str:
    """Letters and digits of a name, in lower case; the name itself if it has none."""
    return "".join(filter(str.isalnum, name.casefold())) or name


def _named(label: Label) -> tuple[str, ...]:
    return (label,) if isinstance(label, str) else label if isinstance(label, tuple) else ()


def _with_label(columns: Sequence[Any] | None, label: Label) -> Sequence[Any] | None:
    """Return the columns to read: those of the features, and then the label or, in an array, the last column."""
    last = (
        (-1,)
        if label == -1 and columns is not None and all(type(each) is int for each in columns)
        else ()
    )
    return None if columns is None else [*columns, *_named(label), *last]


def _of_table(
    x: object,
    label: Label,
    columns: Sequence[Any] | None,
    texts: Texts | None,
    weights: WeightColumns = NO_WEIGHTS,
) -> Rows:
    """Return the features, then the label and the private weight where these are columns with names."""
    weight = () if weights.private is None else (weights.private,)
    for name in weights.names:
        if name in (*(() if columns is None else columns), *_named(label)):
            raise InputError(
                f"column {name!r} holds weights: it cannot be a feature or the label too"
            )
    read = _with_label(columns, label)
    rows = open.private_rows(x, columns=_asked(None if read is None else [*read, *weight], texts))
    if label is not None and not _named(label):
        if label != -1 or rows.columns is not None:
            raise InputError(WHAT_A_LABEL_IS)
        if rows.dim < 2:
            raise InputError("there is no column beside the label: at least one is needed")
    last = (*_named(label), *weight)
    if rows.columns is None:
        if weight:
            raise InputError(
                f"weights_priv= names a column, and a source of kind {rows.kind!r} has no names: pass a table"
            )
        if last:
            raise InputError(
                f"label= names a column, and a source of kind {rows.kind!r} has no names: pass y_priv="
            )
        return rows
    for argument, name in [
        *(("label", name) for name in _named(label)),
        *(("weights_priv", name) for name in weight),
    ]:
        _require_column(rows, argument, name)
    others = {*last, *weights.names}
    places = [place for place, name in enumerate(rows.columns) if name not in others]
    if not places:
        what = f"the label {last[0]!r}" if _named(label) else "the weights"
        raise InputError(f"there is no column beside {what}: at least one is needed")
    order = (*places, *(rows.columns.index(name) for name in last))
    if order == tuple(range(rows.dim)):
        return rows
    return each_row(
        rows, ChosenColumns(order), len(order), tuple(rows.columns[place] for place in order)
    )


def _require_column(rows: Rows, argument: str, name: str) -> None:
    """Raise InputError unless the name, which an argument gave, is that of one column."""
    names = rows.columns or ()
    if name not in names:
        known = (
            "" if rows.kind == "csv" else f"{did_you_mean(name, names)}; there are {listed(names)}"
        )
        raise InputError(f"{argument}={name!r} is not the name of a column{known}")
    if names.count(name) > 1:
        raise InputError(f"two columns are called {name!r}: rename one of them")


def beside(features: Rows, labels: Rows) -> Rows:
    """Return features and labels side by side; raise InputError unless both sources have the same number of rows."""
    # First, since lengths beside rows of persons may be private.
    with naming("y_priv"):
        require_one_order(features, labels)
    if labels.dim != 1:
        raise InputError(f"labels must be one number for each row, got {labels.dim} columns")
    if labels.n != features.n:
        raise InputError(
            f"x_priv has {features.n} rows and y_priv has {labels.n}: one label for each row"
        )
    return SideBySide(features, labels)


def weighted_rows(rows: Rows, weights: object) -> Rows:
    """Return labeled rows with the weight of each row as an additional last column."""
    with naming("weights_priv"):
        column = open.private_rows(weights)
        require_one_order(rows, column)
    if column.dim != 1 or column.n != rows.n:
        raise InputError(
            f"weights_priv must be one number for each of the {rows.n} private rows, got {column.n} rows of {column.dim}"
        )
    return SideBySide(rows, column)
