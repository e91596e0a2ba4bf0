"""Objects that hand out rows as an Arrow stream (`__arrow_c_stream__`): tables in memory are read, what may run a query is refused.

A row of a query's result may depend on many rows of a table: after a filter, a join, a window, a limit or a sort, one replaced row
of the table changes many rows of the result, and its number of rows. Noise for one row of the result then protects nobody.
"""

from __future__ import annotations

from typing import Any

from fastpubpriv.errors import InputError
from fastpubpriv.sources import tables
from fastpubpriv.sources.lazy_modules import pa
from fastpubpriv.sources.row_types import STREAM, Opaque, Rows
from fastpubpriv.threads.guard import call_foreign, guarded, naming

QUERY = (
    "this object runs a query, or may run one. What is protected is a row of the query's result, and a filter, join, window, limit "
    "or sort lets one row of a table change many of them: pass the table, or, if each row of the result is made of one row of "
    "the table, regardless of all others, Rows.from_stream(query, each_row_from_one=True)"
)
UNREAD = (
    "the stream could not be read. The reason is withheld because it may quote private content: run the query by hand, with data "
    "that you may look at. A stream that was read before has to be opened again"
)


class StreamTable(Opaque):
    """The rows of an Arrow stream, which is read once, as private rows of every function; made by `Rows.from_stream`."""

    __slots__ = ("table",)

    def __init__(self, table: Any) -> None:
        self.table = table

    def __repr__(self) -> str:
        return f"StreamTable(columns={self.table.num_columns})"

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return tables.data_columns(self.table.schema)

    def rows(self, columns: Any) -> Rows:
        """Return the rows with these columns, by default all; checks of form only."""
        return tables.arrow_rows(self.table, columns, what="the Arrow stream", kind=STREAM)


def stream_table(query: Any, each_row_from_one: bool) -> StreamTable:
    """Return the rows of any object with an Arrow stream; raise InputError unless the caller says how its rows are made."""
    if each_row_from_one is not True:
        raise InputError(
            "each_row_from_one must be True: " + QUERY.replace("this object", "this stream")
        )
    if _is_narwhals(query, "LazyFrame") or tables.is_lazy(query):
        query = call_foreign(query.collect, UNREAD)
    if not _has_stream(query):
        raise InputError(
            f"expected an object with an Arrow stream (__arrow_c_stream__), got {type(query).__name__}"
        )
    return StreamTable(read_stream(query))


def read_stream(stream: Any) -> Any:
    """Return all rows of an object with an Arrow stream as an Arrow table."""

    def read() -> Any:
        reader = stream
        if not isinstance(reader, pa.RecordBatchReader):
            reader = pa.RecordBatchReader.from_stream(stream)
        table = reader.read_all()
        list(table.schema.names)  # a name that is not UTF-8 cannot be read
        return table

    table = call_foreign(read, UNREAD)
    if not table.num_columns:
        raise InputError("the stream has no columns: at least one is needed")
    if not table.num_rows:
        raise InputError("the stream has no rows, or was read before: open it again")
    return table


def in_memory(table: Any) -> Any:
    """Return the frame or table that private rows are read from; raise InputError for an object that may run a query.

    The frame within a narwhals frame, the rows of a table of DuckDB; all other objects unchanged. A RecordBatchReader may run a
    query, too: that of a scanner with a filter, or of DuckDB.
    """
    if _is_narwhals(table, "LazyFrame"):
        raise InputError(QUERY)
    if _is_narwhals(table, "DataFrame", "Series"):
        native = call_foreign(table.to_native)
        return native if _is_known(native) else read_stream(table)
    if _is_known(table):
        return table
    if _is_table_of_duckdb(table):
        return read_stream(table)
    raise InputError(QUERY)


def public_in_memory(table: Any) -> Any:
    """Return the frame or table that public rows are read from, which may come from a query."""
    if _is_narwhals(table, "LazyFrame"):
        table = call_foreign(table.collect, UNREAD)
    if _is_narwhals(table, "DataFrame", "Series") or _is_known(table):
        return in_memory(table)
    return read_stream(table)


def held_in_memory(
    given: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a function, private rows first, with tables in place of streams, which are read once."""
    named = dict(named)
    public = named.get("x_pub")
    private = given[0] if given else named.get("x_priv")
    with naming("x_priv"), guarded():
        held = in_memory(private)
    if given:
        given = (held, *given[1:])
    elif "x_priv" in named:
        named["x_priv"] = held
    if public is private and public is not None:  # one object, which the function refuses
        named["x_pub"] = held
    elif public is not None:
        with naming("x_pub"), guarded():
            named["x_pub"] = public_in_memory(public)
    return given, named


def _has_stream(obj: object) -> bool:
    """Return whether an object of this type hands out an Arrow stream; nothing of the object itself is asked."""
    return hasattr(type(obj), "__arrow_c_stream__")


def _is_known(obj: object) -> bool:
    """Return whether an object holds its rows, or is none that hands out a stream."""
    if tables.is_instance(obj, "pyarrow", "RecordBatchReader"):
        return False
    if not _has_stream(obj) or tables.is_frame(obj) or tables.is_series(obj):
        return True
    return tables.is_arrow(obj) or tables.is_arrow_column(obj) or tables.is_lazy(obj)


def _is_narwhals(obj: object, *names: str) -> bool:
    return tables.is_instance(obj, "narwhals", *names)


def _is_table_of_duckdb(obj: Any) -> bool:
    """Return whether an object is a table of DuckDB, not a view, a query, or a step of one."""
    if not tables.is_instance(obj, "duckdb", "DuckDBPyRelation"):
        return False
    return bool(call_foreign(lambda: obj.type == "TABLE_RELATION"))
