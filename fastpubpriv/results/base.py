"""Base classes of all results: read-only fields, JSON output and input, a text summary, and a pandas table."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import html
import json
import math
import os
import re
import sys
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import (
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.privacy import ZCDP, ApproxDP, Budget, Cost, Neighbors, PureDP
from fastpubpriv.privacy.conversions import best_epsilon
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
from fastpubpriv.sources import Rows
from fastpubpriv.sources.column_names import listed
from fastpubpriv.sources.open import public_table_of

# Parsing of results from JSON: every field must have the type and shape that was written, or an InputError names it.


def shape(*axes: str, missing: float | None = None, dtype: type = np.float64) -> dict[str, Any]:
    """Return the metadata of an array field of this shape; JSON null is read as `missing`, if that is given.

    An axis has the length of the tuple field of its name, if there is one.
    """
    return {"axes": axes, "missing": missing, "dtype": dtype}


def unreadable(fault: str) -> InputError:
    """Return the error for a JSON text with this fault."""
    return InputError(f"this JSON text cannot be read: {fault}")


def shortened(name: str) -> str:
    """Return the repr of a name for an error message, truncated after 40 characters."""
    return repr(name if len(name) <= 40 else name[:40] + "...")


def read_json(text: Any, kind: str) -> dict[str, Any]:
    """Return the object in a JSON text, or in the file at a path; raise InputError for anything else."""
    if not isinstance(text, str | bytes | os.PathLike):
        raise InputError(
            f"from_json reads the text that to_json returns, or a path to it, got {type(text).__name__}"
        )
    if not isinstance(text, bytes) and not str(text).lstrip().startswith(("{", "[")):
        try:
            text = Path(validation.path_name(text)).read_bytes()
        except (OSError, ValueError):
            raise InputError(
                f"this is neither the JSON text of a {kind} nor a file that can be read"
            ) from None
    try:
        data = json.loads(text, parse_constant=int)  # refuses NaN and Infinity, which are not JSON
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise InputError(
            f"this is not the JSON text of a {kind}: pass what to_json returned or wrote"
        )
    return data


def read_field(name: str, kind: Any, value: Any) -> Any:
    """Parse the JSON value of a field by its type; a value of a type without a rule is returned unchanged."""
    origin = get_origin(kind)
    parts = [each for each in get_args(kind) if each is not type(None)]
    if len(parts) < len(get_args(kind)) and value is None:
        return None
    if origin in (UnionType, Union):
        if value is None:
            raise unreadable(f"field {shortened(name)} must not hold null")
        for each in parts[:-1]:
            with contextlib.suppress(InputError):
                return read_field(name, each, value)
        return read_field(name, parts[-1], value)
    if origin is np.ndarray:
        return read_array(name, value, {}, axes=("entries",))
    if isinstance(kind, type) and issubclass(kind, Value):
        return read_value(kind, value)
    if kind is Budget:
        return Budget.from_dict(value)
    if origin is Literal or kind is Reason:
        fine = value in (parts or [*map(str, Reason)])
        words = "known words"
    else:
        test, words = _KINDS.get(origin or kind, (None, ""))
        fine = test is None or test(value)
    if not fine:
        raise unreadable(f"field {shortened(name)} must hold {words}")
    if origin is tuple:
        return tuple(read_field(name, parts[0], item) for item in value)
    if origin is Mapping:
        return {key: read_field(name, parts[1], item) for key, item in value.items()}
    if kind is float:
        # JSON cannot represent infinity, so it is written as null
        return math.inf if value is None else float(value)
    return Reason(value) if kind is Reason else value  # type: ignore[call-arg]


def read_value(kind: type[_AnyValue], value: Any) -> _AnyValue:
    """Parse a nested `Value` of class `kind` from its JSON object."""
    if type(value) is not dict:
        raise unreadable(f"a {kind.__name__} must be an object")
    parsed = kind(**kind._fields_of(dict(value)))
    if not parsed._fits_together():
        raise InputError(f"this JSON text is not a {kind.__name__}: its fields do not fit together")
    return parsed


def read_array(
    name: str,
    value: Any,
    sizes: dict[str, int],
    *,
    axes: tuple[str, ...],
    missing: float | None = None,
    dtype: type = np.float64,
) -> Any:
    """Return a read-only array of a shape with named axes, whose lengths `sizes` collects; null is read as `missing`."""
    try:
        array: Any = np.array(_numbers(value, missing, dtype), dtype=dtype)
        if value == []:  # JSON has no shape for an empty list
            array = array.reshape(0, *(sizes.get(axis, 0) for axis in axes[1:]))
        fine = array.ndim == len(axes) and (math.isnan(missing or 0.0) or not np.isnan(array).any())
        fine = fine and (missing is not None or bool(np.isfinite(array).all()))
    except (ValueError, TypeError, OverflowError, RecursionError):
        fine = False
    if not fine:
        raise unreadable(
            f"field {shortened(name)} must be an array of finite numbers of shape ({', '.join(axes)})"
        )
    for axis, length in zip(axes, array.shape, strict=True):
        if sizes.setdefault(axis, length) != length:
            raise unreadable(
                f"field {shortened(name)} must have {sizes[axis]} entries along {axis}, got {length}"
            )
    array.flags.writeable = False
    return array


def _numbers(value: Any, missing: float | None, dtype: type) -> Any:
    """Check nested lists of numbers; `np.array` alone would accept strings and booleans."""
    if type(value) is list:
        return [_numbers(item, missing, dtype) for item in value]
    if value is None and missing is not None:
        return missing
    if type(value) is not int and (type(value) is not float or dtype is np.int64):
        raise TypeError
    return value


# For each type of a field: a test of the JSON value, and the description of valid values in error messages.
_KINDS: dict[Any, tuple[Callable[[Any], bool], str]] = {
    int: (lambda value: type(value) is int and 0 <= value < 2**63, "a whole number"),
    float: (
        lambda value: (
            value is None or (type(value) in (int, float) and abs(value) <= sys.float_info.max)
        ),
        "a number, or null for an infinite one",
    ),
    bool: (lambda value: type(value) is bool, "true or false"),
    str: (lambda value: type(value) is str, "text"),
    tuple: (lambda value: type(value) is list, "a list"),
    Mapping: (lambda value: type(value) is dict, "an object"),
}


# Formatting: numbers rounded to their significant digits, budgets in words, tables as text, HTML and data frames.

# The delta at which a zCDP budget is converted to (epsilon, delta) in texts.
READERS_DELTA = Fraction(1, 10**6)
# Maximum number of rows and columns of a table in a text or page; a data frame has all of them.
MOST_ROWS = 60
MOST_COLUMNS = 20
ROUNDED_COLUMNS = 10  # maximum number of columns of a table for a terminal


class TableColumn(NamedTuple):
    """A column of a table; texts round values to two digits of their uncertainty `scale`, and show `spread` after a ±."""

    name: str
    values: Any
    scale: Any = None
    spread: tuple[str, Any] | None = None


@dataclass(frozen=True)
class Table:
    """Table of labeled rows; `index` names the labels. A column is a TableColumn or (name, values); names may repeat.

    The columns `more`, and the rows that are true in `left_out`, are in data frames only, not in texts. `parts_of_labels` names the
    entries of labels that are tuples; `crossed` is a form with an axis for each of two entries, which texts show instead. Texts for
    a terminal round numbers, other texts where `rounded`.
    """

    index: str
    labels: Sequence[Any]
    columns: Sequence[TableColumn | tuple[str, Any]]
    more: Sequence[TableColumn] = ()
    left_out: Sequence[bool] = ()
    parts_of_labels: Sequence[str] = ()
    crossed: Table | None = None
    rounded: bool = False

    @property
    def in_texts(self) -> Table:
        """The form that texts show."""
        return self if self.crossed is None else self.crossed

    @property
    def printed(self) -> list[int]:
        """Places of the rows that texts show."""
        left_out = set(np.flatnonzero(self.left_out).tolist())
        return [row for row in range(len(self.labels)) if row not in left_out]

    @property
    def every(self) -> list[TableColumn]:
        """All columns of a data frame."""
        return [*self.parts(), *self.more]

    def parts(self, *, rounded: bool = False) -> list[TableColumn]:
        """Return all columns as TableColumns; unless `rounded`, spreads become columns of their own."""
        given = [TableColumn(*column) for column in self.columns]
        if rounded:
            return given
        columns = []
        for each in given:
            columns.append(
                TableColumn(each.name, each.values, each.scale if self.rounded else None)
            )
            if each.spread is not None:
                columns.append(TableColumn(*each.spread))
        return columns


def with_ends(
    name: str,
    values: Any,
    ends: tuple[Any, Any],
    scale: Any,
    names: tuple[str, str] = ("lower", "upper"),
) -> list[TableColumn]:
    """Return the columns of an estimate and of its lower and upper interval ends."""
    return [
        TableColumn(each, of, scale)
        for each, of in zip((name, *names), (values, *ends), strict=True)
    ]


def with_reasons(parts: PartReasons) -> list[TableColumn]:
    """Return the columns "status" and "reasons" of the parts; an empty list without parts."""
    if not parts:
        return []
    statuses = [status_of(each) for each in parts]
    words = [", ".join(each) for each in parts]
    return [TableColumn("status", statuses), TableColumn("reasons", words)]


def number(value: float, scale: float) -> str:
    """Return a value rounded to two digits of `scale`, its uncertainty."""
    if not math.isfinite(value) or not math.isfinite(scale) or scale <= 0.0:
        return f"{value:.6g}"
    places = 1 - math.floor(math.log10(scale))
    if places > 9 or abs(value) >= 1e12 or places < -6:
        return f"{value:.{max(1, min(17, places + 1 + math.floor(math.log10(max(abs(value), scale)))))}g}"
    return f"{round(value, places):,.{max(places, 0)}f}"


def bracketed(array: Any) -> str:
    """Return a small array as one line of text, with six digits per number."""
    if array.ndim == 0:
        return f"{array:.6g}"
    return f"[{', '.join(bracketed(item) for item in array)}]"


def short(budget: Budget | Cost) -> str:
    """Return the parameters of a budget and their amounts: "rho = 0.5"."""
    parts = budget.notion.parts if isinstance(budget, Cost) else budget.parts
    return ", ".join(
        f"{name} = {float(value):.6g}" for name, value in zip(parts, budget.amounts, strict=True)
    )


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


def percent(level: float) -> str:
    """Return a confidence level as text: "95 %", or the plain number above 0.9999."""
    return f"{level:.12g}" if level > 0.9999 else f"{100 * level:.4g} %"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    if isinstance(value, tuple):
        return ", ".join(_cell(item) for item in value)
    return " ".join(str(value).split())


def cells(
    table: Table, *, rounded: bool = False, where: str = "to_frame()"
) -> tuple[list[list[str]], list[str]]:
    """Return the lines of cells to show, column names first, and notes on omitted rows and columns and where to find them."""
    table = table.in_texts
    printed = table.printed
    columns = [
        each
        for each in table.parts(rounded=rounded)
        if each.name != "reasons" or any(each.values[row] for row in printed)
    ]
    most = ROUNDED_COLUMNS if rounded else MOST_COLUMNS
    shown = columns[:most]
    lines = [
        [
            table.index,
            *(_cell(column.name) + (" ± std" if column.spread else "") for column in shown),
        ]
    ]
    for row in printed[:MOST_ROWS]:
        line = [_cell(table.labels[row])]
        for _, values, scale, spread in shown:
            value = values[row]
            rounded_value = scale is not None and value is not None
            text = number(float(value), float(scale[row])) if rounded_value else _cell(value)
            line.append(text if spread is None else f"{text} ± {spread[1][row]:.3g}")
        lines.append(line)
    kind = "columns" if table.index == "column" else "rows"
    left = [(len(printed) - MOST_ROWS, kind), (len(columns) - most, "columns")]
    return lines, [
        f"... and {count} more {what}; {where} has all of them."
        for count, what in left
        if count > 0
    ]


def _intervals(table: Table) -> list[str]:
    """Return an HTML cell per row that draws its interval and estimate, with a thin line at zero; [] without intervals."""
    # Rows with one unit share an axis: in a table of columns or terms rows of one label, in any other table all rows.
    columns = {column.name: np.asarray(column.values) for column in table.parts()}
    if not {"lower", "upper"} <= columns.keys():
        return []
    before = list(columns)[list(columns).index("lower") - 1]
    ends = np.column_stack([columns[name] for name in ("lower", before, "upper")]).astype(
        np.float64
    )
    units = np.array(
        [str(label) if table.index in ("column", "term") else "" for label in table.labels]
    )
    cells = []
    for unit, row in zip(units, ends, strict=True):
        known = np.append(ends[units == unit], 0.0)
        low, high = (pick(known[np.isfinite(known)]) for pick in (np.min, np.max))
        with np.errstate(all="ignore"):
            zero, *places = 2.0 + 116.0 * np.clip(
                (np.append(0.0, row) - low) / (high - low), 0.0, 1.0
            )
        least, at, most = places
        cells.append(
            "<td><svg width='120' height='12' stroke='currentColor'>"
            f"<line x1='{zero:.1f}' x2='{zero:.1f}' y2='12' stroke-width='.5'/>"
            f"<line x1='{least:.1f}' x2='{most:.1f}' y1='6' y2='6'/><circle cx='{at:.1f}' cy='6' r='2'/></svg></td>"
            if np.isfinite([zero, *places]).all()
            else "<td></td>"
        )
    return cells


def listed_facts(facts: list[tuple[str, str]]) -> str:
    """Return (name, text) pairs as an escaped HTML list."""
    pairs = (
        f"<dt>{html.escape(name)}</dt><dd>{html.escape(_cell(text))}</dd>" for name, text in facts
    )
    return f"<dl>{''.join(pairs)}</dl>"


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


# A table, and facts to show below it as (name, sentence) pairs.
Contents = tuple[Table, list[tuple[str, str]]]
# Names of the fields of a class of values.
_names: Callable[[Any], tuple[str, ...]]
_names = functools.cache(lambda kind: tuple(field.name for field in dataclasses.fields(kind)))
_type_hints: Callable[[Any], dict[str, Any]] = functools.cache(get_type_hints)


def _plain_dicts(value: Any) -> Any:
    """Undo the read-only dictionaries, which cannot be pickled."""
    if isinstance(value, MappingProxyType):
        return {key: _plain_dicts(item) for key, item in value.items()}
    if type(value) is tuple:
        return tuple(_plain_dicts(item) for item in value)
    return value


def plain(value: Any) -> Any:
    """Turn a field of a result into types that JSON has; exact fractions keep their numerator and denominator."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Reason):
        return value.value
    if isinstance(value, Fraction):
        return {"exact": f"{value.numerator}/{value.denominator}", "value": float(value)}
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, Mapping):
        return {str(key): plain(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def read_price(value: Any) -> Budget | Cost:
    """Read a budget or cost from its JSON value."""
    try:
        return Budget.from_dict(value)
    except BudgetError:
        return Cost.from_dict(value)  # a cost of zero, or smaller than the smallest valid budget


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
        f"{table.index} {label}" if isinstance(label, int) else _cell(label)
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Value:
    """A frozen value with named fields that can be written to JSON, read back and shown."""

    # Fields of sampling standard deviations, which `widened` scales; noise contained in such a field is overestimated then.
    _sampling: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        # Fields are made read-only here so that this also holds after unpickling and dataclasses.replace.
        for name in _names(type(self)):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    def __reduce__(self) -> Any:
        fields = {name: _plain_dicts(getattr(self, name)) for name in _names(type(self))}
        return functools.partial(type(self), **fields), ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain lists, numbers and strings, ready for JSON."""
        return {name: plain(getattr(self, name)) for name in _names(type(self))}

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
        return read_value(cls, read_json(text, cls.__name__))

    def _fits_together(self) -> bool:
        """Return whether fields read from JSON, each of the right form, are consistent."""
        return True

    @classmethod
    def _fields_of(cls, data: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of this class parsed from a JSON object; raise InputError for unknown or missing ones."""
        fields = {field.name: field for field in dataclasses.fields(cls)}
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
            if name in data and (value := data[name]) is not None and field.metadata:
                parsed[name] = read_array(name, value, sizes, **field.metadata)
            elif name in data:
                parsed[name] = read_field(name, kinds[name], value)
        return parsed

    @abstractmethod
    def _own(self, level: float) -> Contents:
        """Return the table, with intervals at this level if it has any, and the facts that are specific to the class."""

    def _contents(self, level: float) -> Contents:
        """Return the table and all facts."""
        return self._own(level)

    def widened(self, k: int) -> Self:
        """Return a copy whose sampling variances are multiplied by k, as if the k rows of a person were identical."""
        changed: dict[str, Any] = {
            name: frozen(getattr(self, name) * math.sqrt(k))
            for name in self._sampling
            if getattr(self, name) is not None
        }
        for name in _names(type(self)):
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
        notes = [f"{name.ljust(space)}  {_cell(text)}" for name, text in facts]
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
        drawings = _intervals(table) or [""] * len(table.labels)
        for row, drawn in zip(rows, [drawings[place] for place in table.printed], strict=False):
            body += f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}{drawn}</tr>"
        notes = "".join(f"<p>{html.escape(text)}</p>" for text in more)
        return (
            f"<div><strong>{type(self).__name__}</strong><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
            f"{notes}{listed_facts(facts)}</div>"
        )


_AnyValue = TypeVar("_AnyValue", bound=Value)

NO_PRIVATE_ROW = "the public rows; no private row was read"
WHERE = " where "  # in what a result is about, if that is rows inside a condition


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
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
        return self._judged({name: getattr(self, name) for name in _names(type(self))})

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

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain lists, numbers and strings, ready for JSON; `kind` and `status` come first."""
        return {"kind": type(self).__name__, "status": self.status, **Value.to_dict(self)}

    @classmethod
    def _fields_of(cls, data: dict[str, Any]) -> dict[str, Any]:
        if data.pop("kind", None) != cls.__name__:
            raise InputError(f"this JSON text is not a {cls.__name__}")
        status = data.pop("status", None)
        if "rows_per_person" not in data:  # written before the field existed
            number = re.search(r"at most (\d+) rows of each", str(data.get("relation")))
            data["rows_per_person"] = int(number[1]) if number else 1
        fields = super(Result, cls)._fields_of(data)
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

    def _contents(self, level: float) -> Contents:
        table, own = self._own(level)
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
