"""Plans of lazy frames (polars, Dask): taken are steps that make each row of one row, whatever the others hold, and never raise.

What is not known to be such a step is refused. Plans are looked at as they were written, before anything is optimized or run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from fastpubpriv.errors import InputError
from fastpubpriv.threads.guard import attempt, call_foreign

_UNSEEN = "one that cannot be looked into"

# fmt: off
# Functions of polars that give a number, a truth value or a text for each row, and raise for no value of these types.
_FUNCTIONS = frozenset({
    "abs", "negate", "sign", "sqrt", "cbrt", "exp", "log", "log1p", "floor", "ceil", "round", "sin", "cos", "tan", "coalesce",
    "fill_null", "max_horizontal", "min_horizontal", "sum_horizontal", "mean_horizontal", "BooleanFunction.IsNull",
    "BooleanFunction.IsNotNull", "BooleanFunction.IsNan", "BooleanFunction.IsNotNan", "BooleanFunction.IsFinite",
    "BooleanFunction.IsInfinite", "BooleanFunction.IsBetween", "BooleanFunction.Not", "BooleanFunction.AllHorizontal",
    "BooleanFunction.AnyHorizontal",
})
# The same, if all arguments but the first are written in the plan.
_WITH_CONSTANTS = frozenset({"clip", "BooleanFunction.IsIn"})
# What a scan of files may be told that leaves out no row and adds no column by its place.
_SCAN_OPTIONS = frozenset({
    "cache", "cast_columns_policy", "column_mapping", "default_values", "extra_columns_policy", "hive_options",
    "include_file_paths", "missing_columns_policy", "rechunk", "table_statistics", "with_columns",
})
# Expressions of Dask data frames: sources, and what pandas does row by row within one of them.
_DASK_SOURCES = frozenset({
    "FromPandas", "FromPandasDivisions", "FromArray", "FromGraph", "FromMap", "FromDelayed", "DelayedsExpr", "ReadParquetFSSpec",
    "ReadParquetPyarrowFS",
})
_DASK_MOVES = frozenset({
    "Projection", "Assign", "ArrowStringConversion", "ToFrame", "RenameFrame", "RenameSeries", "ColumnsSetter", "Repartition",
})
_DASK_ARITHMETIC = frozenset({
    "Add", "Sub", "Mul", "Div", "Neg", "Pos", "Abs", "Invert", "LT", "LE", "GT", "GE", "EQ", "NE", "And", "Or", "XOr", "IsNa",
    "NotNull", "Where", "Mask", "Clip", "Round", "Fillna",
})
# fmt: on


def _refuse(what: str, step: str) -> NoReturn:
    raise InputError(
        f"the plan of {what} has a step ({step}) that is not known to make each row of one row: it might let rows see each other, "
        "or their number, which is published, depend on what they hold. Pass columns made row by row (select, with_columns, "
        "cast(strict=False)), or run the plan before and pass what it gives, if its number of rows may be public"
    )


def check_polars(frame: Any) -> None:
    """InputError unless every step of the plan of a LazyFrame makes each row of one row."""
    import polars

    what = "the LazyFrame"
    plain = call_foreign(
        lambda: polars.QueryOptFlags.none()._pyoptflags, f"the plan of {what} cannot be seen: update polars"
    )
    visitor = _seen(what, lambda: frame._ldf.with_optimizations(plain).visit())
    waiting = [visitor.get_node()]
    while waiting:
        visitor.set_node(waiting.pop())
        waiting += visitor.get_inputs()
        _check_polars_step(visitor, what)


def _seen(what: str, call: Callable[[], Any]) -> Any:
    """call(), or what is refused: polars shows steps one by one, and raises for those that it does not show."""
    found = attempt(call)
    return _refuse(what, _UNSEEN) if found is None else found


def _check_polars_step(visitor: Any, what: str) -> None:
    step = _seen(what, visitor.view_current_node)
    kind = type(step).__name__
    if kind == "DataFrameScan" and step.selection is None:
        return
    if kind == "Scan":
        return _check_scan(step, what)
    if kind == "Union" and step.slice is None:
        return
    if kind == "Cache" or kind == "SimpleProjection":
        return
    if kind not in {"Select", "HStack"}:
        _refuse(what, kind)
    expressions = [expression.node for expression in visitor.get_exprs()]
    (source,) = visitor.get_inputs()
    visitor.set_node(source)  # types are those of the columns before the step
    while expressions:
        number = expressions.pop()
        expressions += _arguments(visitor, number, what)


def _check_scan(step: Any, what: str) -> None:
    if step.scan_type[0] in {"csv", "ndjson"}:
        raise InputError(
            f"{what} is of text, where one cell may end other rows and types are guessed from values: pass Parquet files, or the "
            "path of the CSV file"
        )
    options = step.file_options
    told = {name for name in dir(options) if not name.startswith("_") and getattr(options, name) is not None}
    if step.scan_type[0] != "parquet" or step.predicate is not None:
        _refuse(what, "Scan")
    if told - _SCAN_OPTIONS:
        _refuse(what, f"Scan with {min(told - _SCAN_OPTIONS)}")


def _arguments(visitor: Any, number: int, what: str) -> list[int]:
    """Check one expression; the numbers of those that it is made of."""
    seen = _seen(what, lambda: visitor.view_expression(number))
    kind = type(seen).__name__
    if kind == "Column" or (kind == "Literal" and isinstance(seen.value, bool | int | float | str | None | list)):
        return []
    if kind == "BinaryExpr":
        found = [seen.left, seen.right]
    elif kind == "Ternary":
        found = [seen.predicate, seen.truthy, seen.falsy]
    elif kind == "Cast":
        found = [seen.expr]
        source, target = visitor.get_dtype(seen.expr), visitor.get_dtype(number)
        if seen.options == 0 and not (target.is_float() and _plain(source) and source != _text()):
            _refuse(what, "a strict cast, which fails for some values")
    elif kind == "Function":
        name, found = str(seen.function_data[0]), list(seen.input)
        constant = all(type(visitor.view_expression(other)).__name__ == "Literal" for other in found[1:])
        floating = name == "pow" and visitor.get_dtype(found[0]).is_float()  # integers have no negative powers
        if not (name in _FUNCTIONS or floating or (name in _WITH_CONSTANTS and constant)):
            _refuse(what, name)
    else:
        _refuse(what, kind)
    if not all(
        _plain(visitor.get_dtype(other)) or type(visitor.view_expression(other)).__name__ == "Literal"
        for other in found
    ):
        _refuse(what, "arithmetic with columns that are neither numbers nor text")
    return found


def _text() -> Any:
    import polars

    return polars.String


def _plain(dtype: Any) -> bool:
    """Whether a type is one whose arithmetic and comparisons raise for no value: decimals, dates and lists are none."""
    import polars

    return dtype.is_integer() or dtype.is_float() or dtype in (polars.Boolean, polars.String, polars.Null)


def check_dask(frame: Any) -> None:
    """InputError unless every step of the expression of a Dask data frame makes each row of one row."""
    what = "the Dask data frame"
    waiting = [frame.expr]
    while waiting:
        step = waiting.pop()
        kind = type(step).__name__
        if kind in _DASK_SOURCES:
            if getattr(step, "filters", None):
                _refuse(what, f"{kind} with filters")
            continue
        below = list(step.dependencies())
        if kind == "AsType":
            _check_types(step, what)
        elif kind in _DASK_ARITHMETIC:
            if any(getattr(dtype, "char", "") == "O" for each in below for dtype in _types(each)):
                _refuse(what, f"{kind} of objects, which may fail for some of them")
        elif kind not in _DASK_MOVES:
            _refuse(what, kind)
        if len(below) > 1 and len({source for each in below for source in _sources(each)}) > 1:
            _refuse(what, f"{kind} of two frames, which are put together by their index")
        waiting += below


def _check_types(step: Any, what: str) -> None:
    asked = step.operand("dtypes")
    targets = asked.values() if isinstance(asked, dict) else [asked]
    held = _types(step.frame)
    floats = all(isinstance(target, str | type | np.dtype) and np.dtype(target).kind == "f" for target in targets)
    if not floats or not all(isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in held):
        _refuse(what, "AsType, which fails for some values")


def _types(step: Any) -> list[Any]:
    meta = step._meta
    return list(meta.dtypes) if hasattr(meta, "dtypes") and meta.ndim > 1 else [getattr(meta, "dtype", None)]


def _sources(step: Any) -> Iterator[str]:
    """The names of what an expression reads."""
    waiting = [step]
    while waiting:
        step = waiting.pop()
        if type(step).__name__ in _DASK_SOURCES:
            yield step._name
        else:
            waiting += step.dependencies()
