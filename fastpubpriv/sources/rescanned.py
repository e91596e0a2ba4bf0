"""Rows that are read again in each pass, and the check of the query plans of lazy frames (polars, Dask).

Only steps are accepted that are known to derive each row from one row, regardless of all others, and that never raise. Plans are
checked as written, before they are optimized or run.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import GeneratorType
from typing import Any, NoReturn

import numpy as np

from fastpubpriv.errors import InputError
from fastpubpriv.sources.array_plans import check_array, nodes_of
from fastpubpriv.sources.arrays import as_chunk, existing_file, plain_matrix
from fastpubpriv.sources.lazy_modules import arrow_dataset, ipc, pa, parquet, polars
from fastpubpriv.sources.row_types import Chunk, PathLike, Rows
from fastpubpriv.sources.tables import (
    RestartedRows,
    batch_rows,
    checked_schema,
    choose,
    data_columns,
    float_dtype,
    polars_frame_rows,
)
from fastpubpriv.threads.guard import call_foreign, call_guarded, guarded, iterate_foreign
from fastpubpriv.validation import integer, path_name

_UNSEEN = "one that cannot be looked into"

# fmt: off
# Row-wise functions of polars that return a number, a boolean or a text, and raise for no value of these types.
_FUNCTIONS = frozenset({
    "abs", "negate", "sign", "sqrt", "cbrt", "exp", "log", "log1p", "floor", "ceil", "round", "sin", "cos", "tan", "coalesce",
    "fill_null", "max_horizontal", "min_horizontal", "sum_horizontal", "mean_horizontal", "BooleanFunction.IsNull",
    "BooleanFunction.IsNotNull", "BooleanFunction.IsNan", "BooleanFunction.IsNotNan", "BooleanFunction.IsFinite",
    "BooleanFunction.IsInfinite", "BooleanFunction.IsBetween", "BooleanFunction.Not", "BooleanFunction.AllHorizontal",
    "BooleanFunction.AnyHorizontal",
})
# Further ones, accepted if all arguments but the first are literals.
_WITH_CONSTANTS = frozenset({"clip", "BooleanFunction.IsIn"})
# Options of a file scan that neither drop rows nor add a column that depends on the row's position.
_SCAN_OPTIONS = frozenset({
    "cache", "cast_columns_policy", "column_mapping", "default_values", "extra_columns_policy", "hive_options",
    "include_file_paths", "missing_columns_policy", "rechunk", "table_statistics", "with_columns",
})
# Expressions of Dask data frames: sources, and row-wise operations of pandas within a partition.
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
    raise InputError(_refusal(what, step))


def _refusal(what: str, step: str) -> str:
    return (
        f"the plan of {what} has a step ({step}) that is not known to make each row of one row: it might let rows see each other, "
        "or their number, which is published, depend on what they hold. Pass columns made row by row (select, with_columns, "
        "cast(strict=False)), or run the plan before and pass what it gives, if its number of rows may be public"
    )


def check_polars(frame: Any) -> None:
    """Raise InputError unless every step of the plan of a LazyFrame derives each row from one row."""
    what = "the LazyFrame"
    plain = call_foreign(
        lambda: polars.QueryOptFlags.none()._pyoptflags,
        f"the plan of {what} cannot be seen: update polars",
    )
    # polars raises for what it does not expose, and its names change between versions.
    with guarded(_refusal(what, _UNSEEN)):
        _check_polars_steps(frame._ldf.with_optimizations(plain).visit(), what)


def _check_polars_steps(visitor: Any, what: str) -> None:
    waiting = [visitor.get_node()]
    while waiting:
        visitor.set_node(waiting.pop())
        waiting += visitor.get_inputs()
        _check_polars_step(visitor, what)


def _check_polars_step(visitor: Any, what: str) -> None:
    step = visitor.view_current_node()
    kind = type(step).__name__
    whole = (kind == "DataFrameScan" and step.selection is None) or (
        kind == "Union" and step.slice is None
    )
    if whole or kind in {"Cache", "SimpleProjection"}:
        return
    if kind == "Scan":
        return _check_scan(step, what)
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
    if step.scan_type[0] != "parquet" or step.predicate is not None:
        _refuse(what, "Scan")
    for name in dir(options):
        # Some versions of polars raise for options that they do not show, of which harmless ones are not looked at.
        if (
            not name.startswith("_")
            and name not in _SCAN_OPTIONS
            and getattr(options, name) is not None
        ):
            _refuse(what, f"Scan with {name}")


def _arguments(visitor: Any, number: int, what: str) -> list[int]:
    """Check one expression, and return the numbers of its subexpressions."""
    node = visitor.view_expression(number)
    kind = type(node).__name__
    if kind == "Column" or (
        kind == "Literal" and isinstance(node.value, bool | int | float | str | None | list)
    ):
        return []
    if kind == "BinaryExpr":
        children = [node.left, node.right]
    elif kind == "Ternary":
        children = [node.predicate, node.truthy, node.falsy]
    elif kind == "Cast":
        children = [node.expr]
        source = visitor.get_dtype(node.expr)
        target = visitor.get_dtype(number)
        if node.options == 0 and not (
            target.is_float() and _plain(source) and source != polars.String
        ):
            _refuse(what, "a strict cast, which fails for some values")
    elif kind == "Function":
        name = str(node.function_data[0])
        children = list(node.input)
        constant = all(
            type(visitor.view_expression(other)).__name__ == "Literal" for other in children[1:]
        )
        # integers have no negative powers
        floating = name == "pow" and visitor.get_dtype(children[0]).is_float()
        if not (name in _FUNCTIONS or floating or (name in _WITH_CONSTANTS and constant)):
            _refuse(what, name)
    else:
        _refuse(what, kind)
    if not all(
        _plain(visitor.get_dtype(other))
        or type(visitor.view_expression(other)).__name__ == "Literal"
        for other in children
    ):
        _refuse(what, "arithmetic with columns that are neither numbers nor text")
    return children


def _plain(dtype: Any) -> bool:
    """Return whether arithmetic and comparisons of a type raise for no value: not those of decimals, dates and lists."""
    return (
        dtype.is_integer()
        or dtype.is_float()
        or dtype in (polars.Boolean, polars.String, polars.Null)
    )


def check_dask(frame: Any) -> None:
    """Raise InputError unless every step of the expression of a Dask data frame derives each row from one row."""
    what = "the Dask data frame"
    with guarded(_refusal(what, _UNSEEN)):
        _check_dask_steps(frame.expr, what)


def _check_dask_steps(expression: Any, what: str) -> None:
    waiting = [expression]
    while waiting:
        step = waiting.pop()
        kind = type(step).__name__
        if kind in _DASK_SOURCES:
            if getattr(step, "filters", None):
                _refuse(what, f"{kind} with filters")
            if kind == "FromGraph":  # persisted partitions, or those of an array
                check_array(nodes_of(step.operand("layer")), step.operand("keys"), what)
            continue
        below = list(step.dependencies())
        if kind == "AsType":
            asked = step.operand("dtypes")
            targets = asked.values() if isinstance(asked, dict) else [asked]
            held = _types(step.frame)
            floats = all(
                isinstance(target, str | type | np.dtype) and np.dtype(target).kind == "f"
                for target in targets
            )
            if not floats or not all(
                isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in held
            ):
                _refuse(what, "AsType, which fails for some values")
        elif kind in _DASK_ARITHMETIC:
            if any(getattr(dtype, "char", "") == "O" for each in below for dtype in _types(each)):
                _refuse(what, f"{kind} of objects, which may fail for some of them")
        elif kind not in _DASK_MOVES:
            _refuse(what, kind)
        if len(below) > 1 and len({source for each in below for source in _sources(each)}) > 1:
            _refuse(what, f"{kind} of two frames, which are put together by their index")
        waiting += below


def _types(step: Any) -> list[Any]:
    meta = step._meta
    return (
        list(meta.dtypes)
        if hasattr(meta, "dtypes") and meta.ndim > 1
        else [getattr(meta, "dtype", None)]
    )


def _sources(step: Any) -> Iterator[str]:
    """Yield the names of the sources of an expression."""
    waiting = [step]
    while waiting:
        step = waiting.pop()
        if type(step).__name__ in _DASK_SOURCES:
            yield step._name
        else:
            waiting += step.dependencies()


# Rows that are read again in each pass: Parquet files, Arrow datasets, Arrow streams, lazy frames, functions.

_READ_AHEAD = 2  # batches that Arrow decodes in its threads ahead of the current one


def parquet_rows(
    path: PathLike | Sequence[PathLike], columns: Sequence[str] | None, *, memory_map: bool = True
) -> Rows:
    """Return rows of Parquet files: of one, of a list, or of those under a directory in name order, read in batches."""
    options: dict[str, Any] = {"format": "parquet"}
    if isinstance(path, list | tuple):
        files = [existing_file(each) for each in path]
    elif os.path.isdir(name := path_name(path)):
        # Names with a leading dot or underscore are metadata.
        every = (
            path
            for path in Path(name).rglob("*")
            if path.suffix.lower() == ".parquet" and path.is_file()
        )
        files = sorted(
            str(path)
            for path in every
            if not any(part[0] in "._" for part in path.relative_to(name).parts)
        )
        if not files:
            raise InputError(f"{name!r} is a directory without .parquet files")
        # keys of "key=value" folders are columns too
        options |= {"partitioning": "hive", "partition_base_dir": name}
    else:
        files = [existing_file(path)]

    def opened() -> Any:
        dataset = arrow_dataset.dataset(files, **options)
        list(dataset.schema.names)  # a name that is not UTF-8 cannot be read
        return dataset

    dataset = call_guarded(opened, f"{files[0]!r} cannot be read as a Parquet file")
    alike = columns is None and isinstance(path, list | tuple)
    form: dict[str, Any] = {"kind": "parquet", "alike": alike, "memory_map": memory_map}
    return dataset_rows(dataset, columns, what=repr(files[0]), **form)


def unmapped_arrow_rows(path: PathLike, columns: Sequence[str] | None) -> Rows:
    """Return rows of an Arrow IPC or Feather file that each pass reads anew, in batches and without a memory map."""
    name = existing_file(path)
    with open(name, "rb") as file:
        is_file_format = file.read(6) == b"ARROW1"
    text = f"{name!r} cannot be read as an Arrow IPC or Feather file"
    if is_file_format:
        dataset = call_guarded(lambda: arrow_dataset.dataset(name, format="ipc"), text)
        return dataset_rows(dataset, columns, what=repr(name))
    return call_guarded(
        lambda: stream_rows(lambda: ipc.open_stream(pa.OSFile(name, "rb")), columns), text
    )


def dataset_rows(
    dataset: Any,
    columns: Sequence[str] | None,
    *,
    what: str = "the Arrow dataset",
    kind: str = "arrow",
    alike: bool = False,
    memory_map: bool = True,
) -> Rows:
    """Return rows of an Arrow dataset, in the order of its files, which must have the same columns if `alike`."""
    try:
        fragments = list(dataset.get_fragments())
    except ValueError:
        fragments = []
    if not fragments:
        # The number of rows that pass a filter depends on private content.
        raise InputError(
            f"{what} has no files, or is filtered: pass one without a filter, which has a public number of rows"
        )
    guessing = (
        arrow_dataset.CsvFileFormat,
        getattr(arrow_dataset, "JsonFileFormat", arrow_dataset.CsvFileFormat),
    )
    if any(isinstance(getattr(fragment, "format", None), guessing) for fragment in fragments):
        raise InputError(
            f"{what} is of text, whose types Arrow guesses from values: pass Parquet or Arrow files, or Rows.from_csv"
        )
    if any(_is_part(fragment, what) for fragment in fragments):
        raise InputError(
            f"{what} leaves out some row groups of a file, as fragment.subset(filter) does, whose number of rows depends on what "
            "the file holds: pass whole files, or write the chosen rows to a file of their own if their number may be public"
        )
    labels, _ = checked_schema(dataset.schema, columns, what)
    schemas = [_schema_of(fragment, dataset.schema, labels, what, alike) for fragment in fragments]
    single = all(float_dtype(field.type) == np.float32 for schema in schemas for field in schema)
    dtype = np.dtype(np.float32 if single else np.float64)
    counts = [call_guarded(fragment.count_rows, f"{what} cannot be read") for fragment in fragments]

    def chunks(skipped: int, chunk_rows: int) -> Iterator[Chunk]:
        for fragment, schema, count in zip(fragments, schemas, counts, strict=True):
            if skipped < count:
                by_groups = kind == "parquet" and set(schema.names) <= set(
                    fragment.physical_schema.names
                )
                for batch in _batches(fragment, schema, skipped, chunk_rows, by_groups, memory_map):
                    yield batch_rows(batch, labels, 0, batch.num_rows, dtype)
            skipped = max(skipped - count, 0)

    return RestartedRows(
        sum(counts), kind, labels, lambda begin, chunk_rows: (begin, chunks(begin, chunk_rows))
    )


def _is_part(fragment: Any, what: str) -> bool:
    """Return whether a fragment is a part of a Parquet file."""
    if not isinstance(fragment, arrow_dataset.ParquetFileFragment):
        return False
    groups = call_guarded(
        lambda: (fragment.num_row_groups, fragment.metadata.num_row_groups),
        f"{what} cannot be read",
    )
    return bool(groups[0] != groups[1])


def _schema_of(fragment: Any, schema: Any, labels: Sequence[str], what: str, alike: bool) -> Any:
    """Return the schema to read a file with: its own types, since a cast to those of the first file may fail for some values."""
    what = repr(fragment.path) if hasattr(fragment, "path") else what
    own = call_guarded(lambda: fragment.physical_schema, f"{what} cannot be read")
    keys = arrow_dataset.get_partition_keys(fragment.partition_expression)
    missing = [label for label in labels if label not in own.names and label not in keys]
    if missing:
        raise InputError(
            f"{what} has no column {missing[0]!r}: pass columns=[...] that all files have"
        )
    if alike and set(data_columns(own)) != set(labels):
        raise InputError(
            f"{what} has other columns than the first file: pass columns=[...] that all files have"
        )
    schema_read = pa.schema(
        [schema.field(label) if label in keys else own.field(label) for label in labels]
    )
    checked_schema(schema_read, labels, what)
    return schema_read


def _batches(
    fragment: Any, schema: Any, skipped: int, chunk_rows: int, by_groups: bool, memory_map: bool
) -> Iterator[Any]:
    """Yield the record batches of a file after its first `skipped` rows; `by_groups`, of a Parquet file from a row group on."""
    with contextlib.ExitStack() as files:
        if by_groups:
            file = files.enter_context(parquet.ParquetFile(fragment.path, memory_map=memory_map))
            sizes = [
                file.metadata.row_group(index).num_rows for index in range(file.num_row_groups)
            ]
            first = 0
            while skipped >= sizes[first]:
                skipped -= sizes[first]
                first += 1
            groups = list(range(first, len(sizes)))
            batches = file.iter_batches(
                batch_size=chunk_rows, row_groups=groups, columns=schema.names
            )
        else:
            options = {
                "batch_size": chunk_rows,
                "batch_readahead": _READ_AHEAD,
                "fragment_readahead": 1,
            }
            batches = fragment.to_batches(schema=schema, columns=schema.names, **options)
        for batch in batches:
            if skipped < batch.num_rows:
                yield batch.slice(skipped)
            skipped = max(skipped - batch.num_rows, 0)


def stream_rows(factory: Callable[[], Any], columns: Sequence[str] | None) -> Rows:
    """Return rows of the Arrow stream that `factory` opens for each pass; one pass is made now to count them."""
    what = "the Arrow stream"

    def reader() -> Any:
        stream = call_foreign(factory)
        if not isinstance(stream, pa.RecordBatchReader):
            raise InputError(
                "a function that opens an Arrow stream must return a pyarrow.RecordBatchReader each time"
            )
        return stream

    first = reader()
    labels, dtype = checked_schema(first.schema, columns, what)
    n = sum(batch.num_rows for batch in iterate_foreign(iter(first)))

    def open_at(begin: int, chunk_rows: int) -> tuple[int, Iterator[Chunk]]:
        del begin, chunk_rows
        batches = iterate_foreign(iter(reader()))
        return 0, (
            batch_rows(batch, labels, 0, batch.num_rows, dtype)
            for batch in batches
            if batch.num_rows
        )

    return RestartedRows(n, "arrow", labels, open_at)


def lazy_rows(frame: Any, columns: Sequence[Any] | None) -> Rows:
    """Return rows of a polars LazyFrame, whose plan runs again in each pass, in batches; the rows are counted now."""
    if not hasattr(frame, "collect_batches"):
        raise InputError(
            "this version of polars cannot read a LazyFrame in batches: update it, or pass frame.collect()"
        )
    what = "the lazy frame"
    check_polars(frame)
    schema = call_foreign(frame.collect_schema)
    labels = choose(schema.names(), columns, what)
    chosen = frame.select(labels)
    empty = polars.DataFrame(schema={label: schema[label] for label in labels})
    like = polars_frame_rows(empty.clear(1), None if columns is None else labels)
    dtype = like.block(0, 1).dtype
    n = int(call_foreign(lambda: chosen.select(polars.len()).collect(engine="streaming").item()))

    def chunks(chunk_rows: int) -> Iterator[Chunk]:
        for part in chosen.collect_batches(
            chunk_size=chunk_rows, maintain_order=True, engine="streaming"
        ):
            if part.height:
                yield (
                    polars_frame_rows(part, labels).block(0, part.height).astype(dtype, copy=False)
                )

    return RestartedRows(
        n, "frame", labels, lambda begin, chunk_rows: (0, iterate_foreign(chunks(chunk_rows)))
    )


def factory_rows(factory: Callable[[], Iterable[Any]], *, n: int, dim: int) -> Rows:
    """Return rows of the arrays in the iterable that `factory` returns for each pass."""
    if not callable(factory):
        raise InputError(
            f"factory must be a function that returns a fresh iterable of arrays, got {type(factory).__name__}: "
            "pass lambda: iterable if it can be iterated again and again"
        )
    n = integer("n", n, minimum=1)
    dim = integer("dim", dim, minimum=1)

    def pieces() -> Iterator[Chunk]:
        items = call_foreign(lambda: iter(factory()))
        try:
            for piece in map(plain_matrix, iterate_foreign(items)):
                if piece.shape[1] != dim:
                    raise InputError(
                        f"a chunk has {piece.shape[1]} columns where dim = {dim} was declared"
                    )
                yield piece
        finally:
            # Otherwise the interpreter closes the generator later, and prints the exceptions that this raises.
            if isinstance(items, GeneratorType):
                with contextlib.suppress(InputError):
                    call_foreign(items.close)

    def chunks(skipped: int, chunk_rows: int) -> Iterator[Chunk]:
        for piece in pieces():
            native = piece.dtype.isnative and piece.dtype.char in "fd"
            for start in range(skipped, len(piece), chunk_rows):
                # Always a copy: generators may reuse their buffer while another thread still reads it.
                yield as_chunk(
                    piece[start : start + chunk_rows],
                    piece.dtype if native else np.dtype(np.float64),
                )
            skipped = max(skipped - len(piece), 0)

    hint = f"n = {n} is public and must be declared exactly, and the factory must start afresh for each pass"
    return RestartedRows(
        n, "chunks", None, lambda begin, chunk_rows: (begin, chunks(begin, chunk_rows)), hint, dim
    )
