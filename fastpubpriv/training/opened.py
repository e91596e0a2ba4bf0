"""Private and public labelled rows as a caller gave them, and which of their columns are text, in public."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.sources import Rows
from fastpubpriv.sources.labelled import labelled_rows, public_labelled, weighted_rows
from fastpubpriv.sources.open import texts_of_column, texts_of_labels
from fastpubpriv.sources.tables import plain_text
from fastpubpriv.training.stated import Stated

Texts = dict[str, tuple[str, ...]]
MOST_TEXTS = 1000


def opened(
    name: str,
    x_priv: Any,
    y_priv: Any,
    x_pub: Any,
    y_pub: Any,
    *,
    label: Any,
    columns: Sequence[Any] | None,
    stated: Stated,
    classes: bool,
) -> tuple[Rows, FloatArray, Stated]:
    """Private rows and public ones, the label last (then a private weight), and what is stated, with places of texts for texts.

    Nothing private is read. `classes` says whether labels may be classes, and so text.
    """
    if x_pub is None:
        raise InputError(f"{name} starts from public rows with labels: pass x_pub= and y_pub=, or label=")
    stated = stated.checked_weights()
    texts = column_texts(stated.categories, x_pub)
    names = class_texts(stated.classes, x_pub, y_pub, label) if classes else None
    try:
        rows = labelled_rows(x_priv, y_priv, label=label, columns=columns, texts=texts, label_texts=names)
        table = public_labelled(
            x_pub, y_pub, label=label, columns=columns, private=rows, x_priv=x_priv, texts=texts, label_texts=names
        )
    except InputError:
        if not classes:
            refuse_text_labels(x_pub, y_pub, label)
        raise
    if stated.weights_priv is not None:
        rows = weighted_rows(rows, stated.weights_priv)
    return rows, table, _in_places(stated, texts, names)


def refuse_text_labels(x_pub: Any, y_pub: Any, label: Any) -> None:
    """InputError if public labels, which should be numbers, are text."""
    found = class_texts(None, x_pub, y_pub, label)
    if found is not None:
        shown = ", ".join(map(repr, found[:3])) + (", ..." if len(found) > 3 else "")
        raise InputError(
            f"the public labels are text ({shown}), and this loss is for numbers: pass numbers, or take logistic_regression or "
            "train(loss='logistic') for two classes, train(loss='softmax') for more"
        ) from None


def column_texts(categories: Any, x_pub: Any) -> Texts:
    """The texts of the columns whose categories are texts: as listed, or those of the public rows."""
    if categories is not None and not isinstance(categories, Mapping):
        raise InputError(
            "categories must map a column name to its levels or to 'public', for example {'month': 'public'}, "
            f"got {type(categories).__name__}"
        )
    found: Texts = {}
    for name, given in (categories or {}).items():
        if isinstance(given, str) and given != "public":
            raise InputError(
                f"the categories of {name!r} must be a list of numbers or of texts, or 'public', got {given!r}"
            )
        listed = texts_of_column(x_pub, name) if isinstance(given, str) else _texts(name, given)
        if listed is not None:
            found[name] = listed
    return found


def _texts(name: str, given: Any) -> tuple[str, ...] | None:
    """A list of texts, in its order and each once; None for anything else."""
    listed = () if isinstance(given, str | Mapping) or not hasattr(given, "__iter__") else tuple(given)
    if not any(isinstance(each, str) for each in listed):
        return None
    if not all(isinstance(each, str) for each in listed):
        raise InputError(f"the list of {name!r} must be of numbers or of texts, not of both")
    found = tuple(dict.fromkeys(plain_text(each) for each in listed))
    if "" in found or len(found) > MOST_TEXTS:
        raise InputError(f"the list of {name!r} must have at most {MOST_TEXTS} texts, none of them empty")
    return found


def class_texts(classes: Any, x_pub: Any, y_pub: Any, label: Any) -> tuple[str, ...] | None:
    """The classes, where they are texts: as listed, or those of the public labels."""
    if classes is not None:
        return _texts("classes", classes)
    if isinstance(label, str):
        return texts_of_column(x_pub, label)
    return None if y_pub is None else texts_of_labels(y_pub)


def _in_places(stated: Stated, texts: Texts, names: tuple[str, ...] | None) -> Stated:
    """What is stated, with numbers for texts: their places in the lists."""
    if texts:
        places = {name: list(range(len(listed))) for name, listed in texts.items()}
        stated = replace(stated, categories={**stated.categories, **places}, texts=texts)
    if names is None:
        return stated
    weight = stated.class_weight
    if isinstance(weight, Mapping):
        if set(weight) != set(names):
            raise InputError(f"class_weight must have a number for each of the classes {', '.join(map(repr, names))}")
        weight = {place: weight[each] for place, each in enumerate(names)}
    given = None if stated.classes is None else list(range(len(names)))
    return replace(stated, classes=given, class_names=names, class_weight=weight)
