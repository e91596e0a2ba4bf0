"""Declarations of the fields of results: axes, unit, label, interval and text, each declaration once.

Tables, data frames, JSON, drawings, `widened` and documentation are made from them, in `result_tables`, `json_fields` and
`base`. The decorator `column` declares what tables show of properties and methods.
"""

from __future__ import annotations

import dataclasses
import functools
import textwrap
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field
from typing import Any, TypeVar, dataclass_transform

import numpy as np

# The parts of a half-width of an interval, which are the entries of the axis "parts".
PARTS = ("noise", "sampling", "clipping", "undetected rows")
# In place of the name of a standard error: digits come from a quarter of the width of the interval.
WIDTH = "width of the interval"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What a field, or a property with a column, says about itself.

    Attributes
    ----------
    axes : tuple of str
        Names of the axes. An axis has the length of the tuple field of its name, if there is one.
    dtype : type or None
        That of an array; None where the annotation of the field is its whole type.
    missing : float or None
        How JSON null is read; None where it is refused.
    sampling : bool
        A standard deviation from sampling, which `Value.widened` scales; noise contained in it is overestimated then.
    unit : str
        Unit of the numbers, in words; "" for those of the column, or for none.
    label : str or None
        Name of the column in tables, or its beginning if there is a column for each of the last axis; None for no column. The
        label of a field without axes names a fact below the table.
    ends : str
        Name of the method that returns interval ends for a level, or None without; "" without an interval.
    names_of_ends : tuple of str
        Names of the columns of these ends.
    error : str
        Name of the attribute with the standard error from which texts take their digits, `WIDTH`, or "" for six digits.
    spread : tuple of str or None
        Label and name of an attribute that texts show after a ±, and frames as a column of its own.
    after_reasons : bool
        Whether the column stands behind those of status and reasons.
    frames_only : bool
        Whether the column is in data frames only, not in texts.
    drawn : str
        What legends of plots call the numbers; "" for numbers that plots leave out.
    bars : bool
        Whether plots draw the numbers as bars.
    zero : bool
        Whether plots draw a line at zero, and of many numbers those that are farthest from it beside their error.
    interval_of : str
        What the interval is of, as axes of plots say it, where it leaves sampling out.
    doc : str
        Text for the documentation, for fields that the docstring of their class leaves out.
    """

    axes: tuple[str, ...] = ()
    dtype: Any = None
    missing: float | None = None
    sampling: bool = False
    unit: str = ""
    label: str | None = None
    ends: str = ""
    names_of_ends: tuple[str, str] = ("lower", "upper")
    error: str = ""
    spread: tuple[str, str] | None = None
    after_reasons: bool = False
    frames_only: bool = False
    drawn: str = ""
    bars: bool = False
    zero: bool = False
    interval_of: str = ""
    doc: str = ""

    @property
    def in_units(self) -> str:
        """The unit in parentheses, as axes of plots have it; "" without one."""
        return f"({self.unit})" if self.unit else ""

    @property
    def form(self) -> str:
        """The shape and type of an array, as in docstrings: "(dim,) float64"."""
        axes = f"{self.axes[0]}," if len(self.axes) == 1 else ", ".join(self.axes)
        return f"({axes}) {np.dtype(self.dtype)}"


def declared(
    *axes: str, default: Any = MISSING, default_factory: Any = MISSING, **declaration: Any
) -> Any:
    """Return a dataclass field with a `Declaration`, whose type is its annotation."""
    metadata = {"declaration": Declaration(axes=axes, **declaration)}
    if default_factory is not MISSING:
        return field(default_factory=default_factory, metadata=metadata)
    return field(default=default, metadata=metadata)


def array(*axes: str, dtype: type = np.float64, default: Any = MISSING, **declaration: Any) -> Any:
    """Return a dataclass field for an array of this shape and type, with a `Declaration`."""
    return declared(*axes, dtype=dtype, default=default, **declaration)


AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])
AnyClass = TypeVar("AnyClass")


def column(label: str, *axes: str, **declaration: Any) -> Callable[[AnyFunction], AnyFunction]:
    """Declare the column of a property (below `@property`), or of a method of the confidence level.

    Without axes there is a value for each line; the value None leaves the column out.
    """

    def mark(function: AnyFunction) -> AnyFunction:
        function.__dict__["declaration"] = Declaration(
            axes=axes or ("lines",), label=label, **declaration
        )
        return function

    return mark


@dataclass_transform(
    kw_only_default=True,
    frozen_default=True,
    eq_default=False,
    field_specifiers=(field, declared, array),
)
def value_class(kind: type[AnyClass]) -> type[AnyClass]:
    """Return a class of values as a frozen dataclass, with the texts of its declarations in its docstring."""
    made = dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)(kind)
    _let_super_find(made, kind)
    if made.__doc__ is not None:
        made.__doc__ = _with_texts(made, made.__doc__)
    return made


def _let_super_find(made: Any, kind: Any) -> None:
    """Point `super()` in the methods of a class with slots, which is made anew, to the new class; Python 3.14 does it itself."""
    for member in vars(made).values():
        function = getattr(member, "fget", None) or getattr(member, "__func__", member)
        for cell in getattr(function, "__closure__", None) or ():
            if cell.cell_contents is kind:
                cell.cell_contents = made


def _with_texts(kind: Any, docstring: str) -> str:
    """Return the docstring with an entry under "Attributes" for each field of the class whose declaration has a text."""
    entries = []
    for each in dataclasses.fields(kind):
        declaration = declaration_of(each)
        if declaration.doc and each.name in kind.__annotations__:
            form = each.type if declaration.dtype is None else declaration.form
            text = (
                declaration.doc
                if not declaration.unit
                else f"{declaration.doc} Unit: {declaration.unit}."
            )
            lines = textwrap.wrap(text, 120, initial_indent=" " * 8, subsequent_indent=" " * 8)
            entries.append("\n".join([f"    {each.name} : {form}", *lines, ""]))
    if not entries:
        return docstring
    title = "    Attributes\n    ----------\n"
    if title not in docstring:
        docstring = f"{docstring.rstrip()}\n\n{title}"
    before, _, after = docstring.partition(title)
    own, gap, rest = after.partition("\n\n")
    own = own.rstrip() + "\n" if own.strip() else ""
    return f"{before}{title}{own}{''.join(entries)}{gap[1:]}{rest}"


def declaration_of(each: dataclasses.Field[Any]) -> Declaration:
    """Return the declaration of a field; an empty one for a field without."""
    declaration: Declaration = each.metadata.get("declaration", UNDECLARED)
    return declaration


UNDECLARED = Declaration()


# As `functools.cache`, for functions of a class, which mypy does not take for hashable.
_cached: Callable[[AnyFunction], AnyFunction] = functools.cache  # type: ignore[assignment]


@_cached
def fields_of(kind: Any) -> dict[str, dataclasses.Field[Any]]:
    """Return the fields of a class by name."""
    return {each.name: each for each in dataclasses.fields(kind)}


@_cached
def columns_of(kind: Any) -> dict[str, Declaration]:
    """Return the declarations with a column by attribute, in order: fields, then properties, each from the base class on."""
    columns = {name: declaration_of(each) for name, each in fields_of(kind).items()}
    for base in reversed(kind.__mro__):
        for name, member in vars(base).items():
            function = member.fget if isinstance(member, property) else member
            declaration = getattr(function, "declaration", None)
            if declaration is not None:
                columns[name] = declaration
    return {
        name: declaration for name, declaration in columns.items() if declaration.label is not None
    }


def drawn_of(kind: Any) -> dict[str, Declaration]:
    """Return the declarations of the numbers that plots show, by attribute; the first are what an estimate is compared by."""
    return {
        name: declaration for name, declaration in columns_of(kind).items() if declaration.drawn
    }
