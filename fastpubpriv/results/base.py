"""Base classes of all results: read-only fields, JSON output and input, a text summary, and a pandas table."""

from __future__ import annotations

import dataclasses
import functools
import html
import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self, get_type_hints

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.privacy import ZCDP, ApproxDP, Budget, Cost, Neighbors, PureDP
from fastpubpriv.privacy.budgets import short
from fastpubpriv.privacy.conversions import best_epsilon
from fastpubpriv.results.fields import PARTS, declaration_of, fields_of, value_class
from fastpubpriv.results.json_fields import (
    FORMAT_VERSION,
    plain,
    read_array,
    read_field,
    read_json,
    read_price,
    shortened,
    unreadable,
)
from fastpubpriv.results.reasons import (
    PartReasons,
    Reason,
    Reasons,
    Status,
    explained,
    ordered,
    status_of,
    with_cause,
)
from fastpubpriv.results.result_tables import (
    Facts,
    Lines,
    Table,
    bracketed,
    cell_text,
    cells,
    declared_facts,
    interval_drawings,
    line_columns,
    listed_facts,
    table_of,
)
from fastpubpriv.sources import Rows
from fastpubpriv.sources.column_names import listed
from fastpubpriv.sources.open import public_table_of

# Budgets in words.

# The delta at which a zCDP budget is converted to (epsilon, delta) in texts.
READERS_DELTA = Fraction(1, 10**6)


def readers_epsilon(budget: Budget, *, all_gaussian: bool) -> float:
    """Return the epsilon that a budget implies; for zCDP at `READERS_DELTA`, where it is smaller if all noise is Gaussian."""
    amount = budget.amounts[0]
    if budget.has_epsilon:
        return float(amount)
    return float(best_epsilon(READERS_DELTA, amount, all_gaussian=all_gaussian))


def explain(
    budget: Budget | Cost | None,
    releases: tuple[Mapping[str, Any], ...] = (),
    *,
    epsilon: float | None = None,
) -> str:
    """Return a budget in words; `epsilon` is the epsilon implied by a zCDP budget, by default computed from the releases."""
    if budget is None or (isinstance(budget, Cost) and budget.is_zero):
        return "nothing: only public rows were used"
    if isinstance(budget, Cost):
        return short(budget)
    named = f"{short(budget)} ({budget.called})"
    if budget.has_epsilon:
        return named
    if epsilon is None:
        every_gaussian = all(release.get("noise") == "gaussian" for release in releases)
        epsilon = readers_epsilon(budget, all_gaussian=bool(releases) and every_gaussian)
    return f"{named}, which implies epsilon = {epsilon:.3g} at delta = 1e-6"


# Base classes of results. They hold released and public values only.

_F64 = np.dtype(np.float64)
# Maximum number of entries of an estimate that a repr shows.
MOST_IN_REPR = 6
# Maximum number of parts that a warning names.
MOST_NAMED = 10
# Default confidence level of the intervals in texts.
LEVEL = 0.95


# Immutable types of most fields, for which `read_only` skips the slower tests.
_READ_ONLY = frozenset({int, float, str, bool, type(None), Fraction, ZCDP, ApproxDP, PureDP, Cost})


def frozen(array: Any) -> FloatArray:
    """Return a read-only float64 copy, or the array itself if it is one already: matrices may be large."""
    if type(array) is np.ndarray and array.dtype == _F64:
        flags = array.flags
        if flags.owndata and not flags.writeable:
            return array
    copy = np.array(array, dtype=np.float64)
    copy.flags.writeable = False
    return copy


def read_only(value: Any) -> Any:
    """Return a read-only copy of a field; arrays, lists and dictionaries are read-only at any depth."""
    kind = type(value)
    if kind in _READ_ONLY:
        return value
    # fast path for the records of most releases
    if kind is dict and _READ_ONLY.issuperset(map(type, value.values())):
        return MappingProxyType(value.copy())
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "f":
            return frozen(value)
        copy = value.copy()
        copy.flags.writeable = False
        return copy
    if kind is list or kind is tuple:
        return tuple([read_only(item) for item in value])
    if isinstance(value, Mapping):
        return MappingProxyType({key: read_only(item) for key, item in value.items()})
    return value


# A table, and facts to show below it.
Contents = tuple[Table, Facts]
_type_hints: Callable[[Any], dict[str, Any]] = functools.cache(get_type_hints)


def _plain_dicts(value: Any) -> Any:
    """Undo the read-only dictionaries, which cannot be pickled."""
    if isinstance(value, MappingProxyType):
        return {key: _plain_dicts(item) for key, item in value.items()}
    if type(value) is tuple:
        return tuple(_plain_dicts(item) for item in value)
    return value


def shown(value: Value, level: float = LEVEL) -> Contents:
    """Return the table of a value and its facts, which texts, pages and terminals all show."""
    return value._contents(level)


def unreliable(result: Result, known: Reasons = ()) -> str:
    """Return why a result is unreliable, one sentence per reason with the labels of affected parts; "" if it is reliable.

    Reasons in `known` are omitted.
    """
    reasons = tuple(reason for reason in result.reasons if reason not in known)
    if status_of(reasons) != "unreliable":
        return ""
    with np.errstate(all="ignore"):  # released numbers may be of any size
        table, _ = result._contents(LEVEL)
    labels = [
        f"{table.index} {label}" if isinstance(label, int) else cell_text(label)
        for label in table.labels
    ]
    texts = []
    for reason in (each for each in reasons if each.level == "unreliable"):
        parts = zip(labels, result.part_reasons, strict=False)
        named = list(dict.fromkeys(label for label, own in parts if reason in own))
        text = f"{reason.value} ({with_cause(reason, result._causes)})"
        if named:
            text += f": {', '.join(named[:MOST_NAMED])}"
        if len(named) > MOST_NAMED:
            text += f" and {len(named) - MOST_NAMED} more"
        texts.append(text)
    return "; ".join(texts)


@value_class
class Value:
    """A frozen value with named fields that can be written to JSON, read back and shown."""

    # The axes whose entries are the lines of the table, in row-major order.
    _line_axes: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        # Fields are made read-only here so that this also holds after unpickling and dataclasses.replace.
        for name in fields_of(type(self)):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    def __reduce__(self) -> Any:
        fields = {name: _plain_dicts(getattr(self, name)) for name in fields_of(type(self))}
        return functools.partial(type(self), **fields), ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain lists, numbers and strings, ready for JSON; `format_version` comes first."""
        return {"format_version": FORMAT_VERSION, **self._plain()}

    def _plain(self) -> dict[str, Any]:
        """Return the fields of this value, which may be one within another."""
        return {name: plain(getattr(self, name)) for name in fields_of(type(self))}

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the JSON text, and write it to `path` if one is given."""
        text = json.dumps(self.to_dict(), indent=2, allow_nan=False)
        if path is not None:
            Path(validation.path_name(path)).write_text(text + "\n", encoding="utf-8")
        return text

    def __getitem__(self, name: Any) -> Any:
        """Return the row of `to_frame()` with this label as a mapping; raise InputError if there is none."""
        table, _ = shown(self)
        labels = list(table.labels)
        if name not in labels:
            raise InputError(
                f"no {table.index} is called {shortened(str(name))}: pass one of {listed(labels)}"
                + validation.did_you_mean(name, map(str, labels))
            )
        at = labels.index(name)
        return MappingProxyType({column.name: plain(column.values[at]) for column in table.every})

    __iter__: ClassVar[None] = None  # __getitem__ alone would make a result iterable

    @classmethod
    def from_json(cls, text: str | os.PathLike[str]) -> Self:
        """Read back what `to_json` returned, or wrote to a path; raise InputError for anything else."""
        return cls._from_plain(read_json(text, cls.__name__))

    @classmethod
    def _from_plain(cls, value: Any) -> Self:
        """Parse the JSON object of a value, which may be one within another."""
        if type(value) is not dict:
            raise unreadable(f"a {cls.__name__} must be an object")
        parsed = cls(**cls._fields_of(dict(value)))
        if not parsed._fits_together():
            raise InputError(
                f"this JSON text is not a {cls.__name__}: its fields do not fit together"
            )
        return parsed

    def _fits_together(self) -> bool:
        """Return whether fields read from JSON, each of the right form, are consistent."""
        return True

    @classmethod
    def _fields_of(cls, data: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of this class parsed from a JSON object; raise InputError for unknown or missing ones."""
        fields = fields_of(cls)
        no_default = (dataclasses.MISSING, dataclasses.MISSING)
        needed = {
            name
            for name, field in fields.items()
            if (field.default, field.default_factory) == no_default
        }
        for name in [*data, *fields]:
            if name not in fields or (name not in data and name in needed):
                word = "lacks" if name in fields else "has an unknown"
                raise InputError(
                    f"this JSON text is not a {cls.__name__}: it {word} field {shortened(name)}"
                )
        sizes = {name: len(value) for name, value in data.items() if type(value) is list}
        sizes |= {"dim": data["dim"]} if "dim" in data else {}
        kinds = _type_hints(cls)
        parsed = {}
        # in order of definition, so that `dim` is checked before arrays
        for name, field in fields.items():
            declaration = declaration_of(field)
            if name in data and (value := data[name]) is not None and declaration.dtype is not None:
                parsed[name] = read_array(name, value, sizes, declaration)
            elif name in data:
                parsed[name] = read_field(name, kinds[name], value)
        return parsed

    def _axis(self, axis: str) -> tuple[str, Sequence[Any]]:
        """Return the title of the labels of an axis, and the labels; without a title the axis has a declared column."""
        if axis == "parts":
            return "", [name.split()[0] for name in PARTS]
        raise KeyError(axis)

    # Whether all texts round the numbers of the table; otherwise only those for a terminal do.
    _rounded: ClassVar[bool] = False

    @property
    def _left_out(self) -> BoolArray:
        """Which lines texts and plots leave out."""
        return np.zeros(len(Lines.of(self)), dtype=bool)

    def _units(self) -> Sequence[str]:
        """Return the unit of the numbers of each line; empty if all have one."""
        lines = Lines.of(self)
        return lines.along(("dim",), self._axis("dim")[1]) if "dim" in lines.axes else ()

    def _table(self, level: float) -> Table:
        """Return the table, with intervals at this level if it has any; by default that of the declarations."""
        return table_of(self, level)

    def _facts(self, level: float) -> Facts:
        """Return the facts that are specific to the class."""
        return []

    def _contents(self, level: float) -> Contents:
        """Return the table and all facts."""
        table = self._table(level)
        if not self._line_axes:  # the table of the class is not made of declarations
            columns = [*table.columns, *line_columns(self, level)]
            table = dataclasses.replace(table, columns=columns)
        return table, [*self._facts(level), *declared_facts(self)]

    def widened(self, k: int) -> Self:
        """Return a copy whose sampling variances are multiplied by k, as if the k rows of a person were identical."""
        changed: dict[str, Any] = {
            name: frozen(getattr(self, name) * math.sqrt(k))
            for name, each in fields_of(type(self)).items()
            if declaration_of(each).sampling and getattr(self, name) is not None
        }
        for name in fields_of(type(self)):
            value = getattr(self, name)
            if isinstance(value, Value):
                changed[name] = value.widened(k)
            elif type(value) is tuple and value and all(isinstance(each, Value) for each in value):
                changed[name] = tuple(each.widened(k) for each in value)
        return dataclasses.replace(self, **changed)

    def summary(self) -> str:
        """Return the estimate as a text table, followed by the status, its reasons, the spent budget and further facts."""
        table, facts = shown(self)
        lines, more = cells(table)
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        rows = [
            "  ".join([first.ljust(widths[0]), *map(str.rjust, others, widths[1:])])
            for first, *others in lines
        ]
        space = max((len(name) for name, _ in facts), default=0)
        notes = [f"{name.ljust(space)}  {cell_text(text)}" for name, text in facts]
        return "\n".join(line.rstrip() for line in [type(self).__name__, *rows, *more, *notes])

    def to_frame(self) -> Any:
        """Return the table of the summary as a pandas data frame, unrounded (needs pandas)."""
        try:
            import pandas
        except ImportError:
            raise InputError(
                "to_frame needs pandas: pip install pandas, or use to_dict()"
            ) from None
        table, _ = shown(self)
        columns = table.every
        if table.parts_of_labels:
            index = pandas.MultiIndex.from_tuples(table.labels, names=table.parts_of_labels)
        else:
            index = pandas.Index(list(table.labels), name=table.index)
        frame = pandas.DataFrame(
            {place: list(column.values) for place, column in enumerate(columns)}, index=index
        )
        frame.columns = pandas.Index([column.name for column in columns])
        return frame

    def _repr_html_(self) -> str:
        # Column names come from data files, so every text is escaped.
        table, facts = shown(self)
        table = table.in_texts
        (names, *rows), more = cells(table)
        heads = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        body = ""
        drawings = interval_drawings(table) or [""] * len(table.labels)
        for row, drawn in zip(rows, [drawings[place] for place in table.printed], strict=False):
            body += f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}{drawn}</tr>"
        notes = "".join(f"<p>{html.escape(text)}</p>" for text in more)
        return (
            f"<div><strong>{type(self).__name__}</strong><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
            f"{notes}{listed_facts(facts)}</div>"
        )


NO_PRIVATE_ROW = "the public rows; no private row was read"
WHERE = " where "  # in what a result is about, if that is rows inside a condition


@value_class
class Result(Value):
    """Base class of the results of all estimators: sizes, privacy cost, releases and reasons.

    Attributes
    ----------
    n_priv, n_pub, dim : int
        Numbers of private rows (or, where the privacy unit is a person, of persons), public rows and columns; all are public.
    spent : ZCDP, ApproxDP, PureDP or Cost
        Privacy cost of the call under `relation`, as debited; a zero Cost when no private row was read.
    private : bool
        False when the noise came from a seed, so that the result is not private.
    relation : str
        "replace one private row; the number of rows is public", or, with `person=`, all rows of one person.
    rows_per_person : int
        Maximum number of rows used per person; 1 also where the privacy unit is a row.
    about : str
        What the answers are about: "all 4,760 rows", "at most 3 rows of each of 1,585 persons; ...", or "the complete rows, 11,560
        [11,480, 11,640] of 16,837", with an interval of 95 %, where the number of rows without a missing cell was released.
    releases : tuple of mappings
        For each release, in order: name, noise law, exact cost, and in the coordinates in which rows were clipped (whitened ones
        if there is a covariance) the clip radius and the standard deviation of the noise on the *sum*.
    provenance : mapping
        Source of each radius and scale: "public rows", "argument" or "released".
    numerics : mapping
        Number of noise draws, and distance of the samplers from their ideal distributions.
    columns : tuple of str or None
        Names of the columns if the source has names.
    reasons : tuple of Reason
        Warnings about the result and its parts; empty if `status` is "ok". A group "(other)" that shows no rows adds none.
    part_reasons : tuple of tuples of Reason
        Warnings for each part, if there are parts; a part is a row of `to_frame()` unless the class defines it otherwise.
    """

    n_priv: int
    n_pub: int
    dim: int
    spent: Any
    private: bool
    relation: str = Neighbors.REPLACE_ONE.statement
    rows_per_person: int = 1
    about: str = ""
    releases: tuple[Mapping[str, Any], ...] = ()
    provenance: Mapping[str, str] = dataclasses.field(default_factory=dict)
    numerics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    reasons: Reasons = ()
    part_reasons: PartReasons = ()

    # What becomes of a row with a missing cell, where the answers do not show it.
    _gaps: ClassVar[str] = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "reasons", ordered(chain(self.reasons, *self._judged_parts)))
        Value.__post_init__(self)
        if isinstance(self.spent, Cost) and self.spent.is_zero:
            object.__setattr__(self, "about", NO_PRIVATE_ROW)
        elif not self.about:
            object.__setattr__(self, "about", self._rows_in_words(LEVEL))

    def _axis(self, axis: str) -> tuple[str, Sequence[Any]]:
        return ("column", self.labels) if axis == "dim" else super()._axis(axis)

    def _rows_in_words(self, level: float) -> str:
        """Return which rows the answers are about; a released number of rows has an interval of this level."""
        return f"all {self.n_priv:,} rows{self._gaps}"

    def _about_at(self, level: float) -> str:
        """Return `about` with an interval of this level."""
        return self.about

    @property
    def _of_persons(self) -> bool:
        """Whether the privacy unit is a person."""
        return self.relation.startswith(Neighbors.REPLACE_PERSON.statement)

    @classmethod
    def _judged(cls, fields: Mapping[str, Any]) -> PartReasons:
        """Return the reasons of the parts that enter the status of a result with these fields."""
        return tuple(fields.get("part_reasons", ()))

    @property
    def _judged_parts(self) -> PartReasons:
        return self._judged({name: getattr(self, name) for name in fields_of(type(self))})

    @property
    def status(self) -> Status:
        """The worst level of `reasons`: "ok" without any, "caution" or "unreliable"."""
        return status_of(self.reasons)

    @property
    def part_status(self) -> tuple[Status, ...]:
        """The worst level of the reasons of each part."""
        return tuple(map(status_of, self.part_reasons))

    @property
    def _causes(self) -> Mapping[Reason, str]:
        """Texts with the numbers of this result that follow the sentence of a reason."""
        return {}

    @property
    def _most_rows(self) -> int:
        """Number of private rows; where the unit is a person, the number if each had `rows_per_person`."""
        return self.n_priv * max(self.rows_per_person, 1)

    @property
    def _rows_may_be_absent(self) -> bool:
        """Whether some of these rows may be none: a person may have fewer, or a row be outside a condition."""
        inside = WHERE in self.about and not self.about.startswith("the sum")
        return self.rows_per_person > 1 or inside

    @property
    def _rows_in_use(self) -> str:
        """The rows that are counted or added, in words."""
        several = "1 row" if self.rows_per_person == 1 else f"{self.rows_per_person} rows"
        return (
            f"at most {several} of each person"
            if self.about.startswith("at most")
            else "these rows"
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the columns, or x0, x1, ... if the source has none."""
        return self.columns or tuple(f"x{j}" for j in range(self.dim))

    def _public(self, x_pub: Any, *, gaps: bool = False) -> FloatArray:
        """Return public rows for a plot, with missing cells if `gaps`; a file or table is restricted to the result's columns."""
        plain = isinstance(x_pub, np.ndarray | list | tuple | Rows)
        plain = plain or (isinstance(x_pub, str | Path) and str(x_pub).lower().endswith(".npy"))
        columns = (
            None if plain or self.columns == tuple(map(str, range(self.dim))) else self.columns
        )
        return public_table_of(
            x_pub, columns=columns, dim=self.dim, names=self.columns, finite=not gaps
        )[0]

    def _plain(self) -> dict[str, Any]:
        return {"kind": type(self).__name__, "status": self.status, **Value._plain(self)}

    @classmethod
    def _fields_of(cls, data: dict[str, Any]) -> dict[str, Any]:
        if data.pop("kind", None) != cls.__name__:
            raise InputError(f"this JSON text is not a {cls.__name__}")
        status = data.pop("status", None)
        if "rows_per_person" not in data:  # written before the field existed
            number = re.search(r"at most (\d+) rows of each", str(data.get("relation")))
            data["rows_per_person"] = int(number[1]) if number else 1
        fields = super()._fields_of(data)
        columns = fields.get("columns")
        parts = fields.get("part_reasons", ())
        fields["spent"] = read_price(fields["spent"])
        for wrong, fault in (
            (
                status != status_of(chain(fields.get("reasons", ()), *cls._judged(fields))),
                "its status does not follow from its reasons",
            ),
            (fields["dim"] < 1, "it has no columns"),
            (
                columns is not None and len(columns) != fields["dim"],
                f"it does not name {fields['dim']} columns",
            ),
            (
                cls._parted and len(parts) != fields[cls._parted].size,
                "it needs reasons for each of its parts",
            ),
            (
                fields.get("noise_law", "laplace") not in ("gaussian", "laplace"),
                "its law of noise is unknown",
            ),
        ):
            if wrong:
                raise InputError(f"this JSON text is not a {cls.__name__}: {fault}")
        return fields

    def _facts_of_rows_used(self, level: float) -> Facts:
        """Return the fact that says how many rows the answers use, where that is not the number of all rows."""
        return []

    def _contents(self, level: float) -> Contents:
        table, own = super()._contents(level)
        public = f"{self.n_pub:,}" if self.n_pub else "no"
        nouns = {"released": "released numbers"}
        ranges = "; ".join(
            f"{name} from {nouns.get(of, of)}" for name, of in sorted(self.provenance.items())
        )
        sizes = ("Rows", f"{self.n_priv:,} private, {public} public")
        if self._of_persons:
            sizes = ("Persons", f"{self.n_priv:,} private; {public} public rows")
        return table, [
            ("Answers about", self._about_at(level)),
            sizes,
            *self._facts_of_rows_used(level),
            *own,
            *explained(self.reasons, self._judged_parts, self._causes),
            ("Spent", explain(self.spent, self.releases)),
            ("Neighbors", self.relation),
            *([("Ranges", ranges)] if ranges else []),
            (
                "Private",
                "yes"
                if self.private
                else "NO: the noise came from a seed, so these values are not private",
            ),
        ]

    # The field that `repr` shows: an array, or the number of entries of another field.
    _main: ClassVar[str]
    # The array field with an entry for each part; "" where there are no parts, or not always.
    _parted: ClassVar[str] = ""

    def _estimate(self) -> tuple[str, Any]:
        """Return the name and value that `repr` shows."""
        value = getattr(self, self._main)
        return self._main, value if isinstance(value, np.ndarray) else len(value)

    def __repr__(self) -> str:
        name, value = self._estimate()
        if isinstance(value, np.ndarray):
            shown = (
                f"{name}={bracketed(value)}"
                if 0 < value.size <= MOST_IN_REPR
                else f"dim={self.dim}"
            )
        else:
            shown = f"dim={self.dim}, {name}={value}"
        flag = "" if self.private else ", private=False"
        return f"{type(self).__name__}({shown}, n_priv={self.n_priv}, spent={self.spent!r}{flag})"
