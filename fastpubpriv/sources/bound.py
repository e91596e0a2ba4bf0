"""Private rows bound to what calls about them need beside: public rows, a ledger, persons. Functions take one as `x_priv`."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from fastpubpriv._types import Keep, RowsPerPerson
from fastpubpriv.errors import InputError
from fastpubpriv.privacy import Ledger
from fastpubpriv.sources.arrow_streams import in_memory, public_in_memory
from fastpubpriv.sources.derived import DerivedRows
from fastpubpriv.sources.open import kind_of, names_of_source, names_of_table, private_rows
from fastpubpriv.sources.person_table import (
    PersonTable,
    number_of_rows,
    people_of_table,
    stand_in,
    table_of_persons,
)
from fastpubpriv.sources.row_types import LedgerTable, Rows, source_of
from fastpubpriv.sources.text_files import CsvRows
from fastpubpriv.threads.guard import guarded, naming
from fastpubpriv.validation import did_you_mean

# arguments of a function that a call about a bound table may not pass
BOUND = ("x_priv", "x_pub", "ledger", "person")
CLOSED = "this table is closed: nothing was debited; make another one"
TABLE_OF_PERSONS = "x_priv has rows of persons already: pass the table itself, and person="
TABLE_TWICE = "{} is a PrivateTable already: call its methods, or pass its rows, public rows and ledger to another one"


@dataclass(slots=True, eq=False)
class Binding:
    """What a table and those derived from it share: rows, public rows, ledger, and what has been found out once."""

    source: Any
    public: Any
    ledger: Ledger
    owns_ledger: bool  # whether it was opened for this table, which closes it
    person: Any = None
    keep: Keep | None = None
    rows_per_person: RowsPerPerson | None = None
    threads: int | None = None
    progress: bool | None = None
    is_closed: bool = False
    # record of the release that chose the rows of each person, once one was paid for
    choice: dict[str, Any] | None = None
    n: int | None = None
    lock: Any = field(default_factory=threading.RLock)
    names: list[Any] | None = field(init=False)  # of the columns of the source, if it has any

    def __post_init__(self) -> None:
        with naming("x_priv"), guarded():
            source = self.source
            names = source.columns if isinstance(source, Rows) else names_of_source(source)
            self.names = None if names is None else list(names)
        if isinstance(self.person, str):
            self.require_column(self.person)

    def require_column(self, name: str) -> None:
        """Raise InputError unless the rows have a column of this name; names of a CSV file are not suggested."""
        if self.names is None:
            raise InputError(
                f"person={name!r} names a column, and these rows have none with names: pass a table, or a Series of identifiers"
            )
        if name not in self.names:
            near = "" if self.is_csv else did_you_mean(name, map(str, self.names))
            raise InputError(f"person: the private rows have no column {name!r}{near}")

    @property
    def is_csv(self) -> bool:
        """Whether the names of columns are a line of a file that may have no header: then it is a private row."""
        source = source_of(self.source)
        return isinstance(source, CsvRows) or kind_of(source) == ".csv"


def opened_source(x_priv: Any) -> Any:
    """Return the private rows as they are kept: a stream is read now, and once."""
    if isinstance(x_priv, BoundTable):
        raise InputError(TABLE_TWICE.format("x_priv"))
    if isinstance(x_priv, PersonTable):
        raise InputError(TABLE_OF_PERSONS)
    with naming("x_priv"), guarded():
        return in_memory(x_priv)


def opened_public(x_pub: Any) -> Any:
    """Return the public rows as they are kept."""
    if isinstance(x_pub, BoundTable):
        raise InputError(TABLE_TWICE.format("x_pub"))
    with naming("x_pub"), guarded():
        return None if x_pub is None else public_in_memory(x_pub)


class BoundTable(LedgerTable):
    """Private rows, derived by public texts or as they are, with what calls about them share."""

    __slots__ = ("binding", "held", "public", "rows", "where_texts", "with_texts")

    def __init__(
        self, binding: Binding, where_texts: tuple[str, ...], with_texts: Mapping[str, str]
    ) -> None:
        self.binding = binding
        self.where_texts = where_texts
        self.with_texts = dict(with_texts)
        # rows of persons that were found, by what stands for a person
        self.held: dict[Any, PersonTable] = {}
        # what functions read as x_priv and x_pub
        self.rows = binding.source
        self.public = binding.public
        if where_texts or with_texts:
            self.rows = self._derived(binding.source, binding.person)
            self.public = None if binding.public is None else self._derived(binding.public, None)

    def _derived(self, source: Any, person: Any) -> Any:
        """Return the rows of a source inside the conditions, with the columns that texts define."""
        name = person if isinstance(person, str) else None
        return DerivedRows(
            source, where=self.where_texts, with_columns=self.with_texts, person=name
        )

    @property
    def n(self) -> int:
        """Number of persons, or without persons of rows, inside a condition or not: public."""
        binding = self.binding
        with binding.lock:
            if binding.n is None and binding.person is None:
                binding.n = number_of_rows(binding.source)
            elif binding.n is None:
                _, marks = people_of_table(binding.source, binding.person)
                binding.n = len(marks)
            return binding.n

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns; of a CSV file those that the public rows have, or that were passed. None without names."""
        binding = self.binding
        names = binding.names
        if names is None:
            return tuple(self.with_texts) or None
        if binding.is_csv:
            public = None if binding.public is None else names_of_table(binding.public)
            passed = {*(public or ())}
            if isinstance(binding.person, str):
                passed.add(binding.person)
            names = [name for name in names if name in passed]
        return (*map(str, names), *self.with_texts)

    @property
    def dim(self) -> int:
        """Number of columns."""
        names = self.binding.names
        own = private_rows(self.binding.source).dim if names is None else len(names)
        return own + len(self.with_texts)

    @property
    def n_features(self) -> int:
        """Number of columns but that of the persons."""
        return self.dim - isinstance(self.binding.person, str)

    def arguments(self, parameters: Collection[str], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the named arguments of a call with those of the table; raise InputError, before a debit, for what is bound."""
        binding = self.binding
        if binding.is_closed:
            raise InputError(CLOSED)
        for name in BOUND:
            if named.get(name) is not None:
                raise InputError(f"{name}= is bound to this table: make another one to change it")
        own: dict[str, Any] = {
            "x_pub": self.public,
            "ledger": binding.ledger,
            "person": binding.person,
            "threads": binding.threads,
            "progress": binding.progress,
        }
        taken = {
            name: value
            for name, value in own.items()
            if name in parameters and named.get(name) is None
        }
        return {**named, **taken}

    def stand_in(self, keep: Any, rows_per_person: Any) -> tuple[str, RowsPerPerson]:
        """Return what stands for a person in a call: as it says, or else as the table does."""
        binding = self.binding
        one = keep is not None and keep != "row"
        several = rows_per_person is not None
        if rows_per_person is None and not one:
            rows_per_person = binding.rows_per_person
        if keep is None and not several:
            keep = binding.keep
        return stand_in(binding.person, keep, rows_per_person)

    def persons(self, rule: str, rows_per_person: int, *, is_chosen: bool = False) -> PersonTable:
        """Return the rows of persons, found once for all calls that have the same; `is_chosen`: their number was released."""
        key = (rule, rows_per_person, is_chosen)
        with self.binding.lock:
            if key not in self.held:
                table = table_of_persons(self.rows, self.binding.person, rule, rows_per_person)
                table.choice = self.binding.choice if is_chosen else None
                self.held[key] = table
            return self.held[key]
