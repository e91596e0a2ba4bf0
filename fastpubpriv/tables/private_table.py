"""`PrivateTable`: private rows bound once to their public rows, ledger and persons, with every function as a method."""

from __future__ import annotations

import contextlib
import html
import os
from typing import Any, NoReturn, Self

from fastpubpriv._types import Keep, RowsPerPerson
from fastpubpriv.errors import BudgetError, FastPubPrivError, InputError
from fastpubpriv.privacy import Budget, Cost, Ledger, Neighbors
from fastpubpriv.release.account import check_ledger
from fastpubpriv.sources.arrow_streams import StreamTable
from fastpubpriv.sources.bound import (
    Binding,
    BoundTable,
    opened_public,
    opened_source,
)
from fastpubpriv.sources.person_table import in_words, name_of_persons, stand_in
from fastpubpriv.tables.bound_functions import BoundFunctions
from fastpubpriv.tables.data_file import WITH, read_data_file, total_of

NO_TOTAL = (
    "a table without a total cannot say what is left: pass total=ZCDP(rho=1), what all calls together may cost, or ledger=, "
    "the path of a ledger file or a Ledger"
)
UNSPLIT = (
    "a PrivateTable has no rows to split: score with public rows; its own rows are read by its methods, and by functions that "
    "take it as x_priv"
)
# attributes of the binding that are names, numbers or released
PICKLED = ("person", "keep", "rows_per_person", "threads", "progress", "choice")


class PrivateTable(BoundFunctions, BoundTable):
    """Private rows bound once to their public rows, ledger and persons; every function with a ledger is a method.

    Parameters
    ----------
    x_priv : (n_priv, dim) array-like, path, frame, table or Rows
        Private rows.
        In any form that the functions take. A stream is read now, and once.
    x_pub : (n_pub, dim) array-like, path, frame or table, optional
        Public rows of all calls. Where a call lists keys, these are used.
    total : ZCDP, ApproxDP or PureDP, optional
        What all calls together may cost. Alone it makes a ledger in memory. `total / 12` pays for exactly twelve calls.
    ledger : path or Ledger, optional
        Debited by every call; the file of a path is opened, or made with `total`.
    person : str or (n_priv,) array-like, optional
        Column that says whose row it is, or the identifiers themselves: the call then protects all rows of a person together
        (user-level privacy); say by `keep` or `rows_per_person` what stands for a person. Rows without an identifier are left
        out. A text that is a number in its usual form (7, -3, 7.0) is that number, whatever the form of the table; "07" and "7"
        are two persons. Whole numbers beyond 2^53 are rounded in columns of numbers: keep them as text. By default each row is
        protected by itself.
    keep : "row", "mean" or "sum", optional
        With `person`: "mean", for each column the mean of the numbers in the person's rows, so that each person counts once; or
        "sum", their sum (0 for a person without any), whose total is that of all rows. Public rows that have the column of
        persons are treated alike, others are of persons already. "row", which `rows_per_person` implies: rows.
    rows_per_person : int or "auto", optional
        With `person`: at most how many rows of each person are used, chosen as if at random. For k rows the budget is spent at
        row level with rho / k^2 or epsilon / k; "auto" chooses k with a sixteenth of it, and a given k spends 1/64 on how many
        persons have more rows: reason "rows_left_out" if surely more than 2 % do. Rows that a person does not have are in no
        count; a method that cannot tell them from rows at a center refuses k > 1 before the debit.
        A call may say otherwise. "auto" is paid by the first call; later ones use its choice.
    threads : int, optional
        As in every function, for all calls.
    progress : bool, optional
        As in every function, for all calls.

    Raises
    ------
    InputError, BudgetError, LedgerError
        Neither a total nor a ledger, a ledger of another total, relation or kind of person, no such file or column. A call may not
        pass `x_priv`, `x_pub`, `ledger` or `person`; it raises before its debit.

    Privacy
    -------
    Neighbors: replace one row, or with `person` all rows of a person; identifiers are public, and read from the rows as they are,
    outside any condition. Nothing shows a row. No operator, conversion or iteration reads the table, and a pickle holds names of
    files, for tables whose rows are files and whose ledger is one.

    Examples
    --------
    >>> import numpy as np, pandas
    >>> from fastpubpriv import ZCDP, PrivateTable
    >>> rng = np.random.default_rng(0)
    >>> visits = pandas.DataFrame({"patient": rng.integers(0, 2_000, 9_000), "cost": rng.gamma(2.0, 50.0, 9_000)})
    >>> few = pandas.DataFrame({"cost": [90.0, 140.0]})
    >>> table = PrivateTable(visits, x_pub=few, total=ZCDP(rho=1), person="patient", keep="mean")
    >>> result = table.estimate_mean(columns=["cost"], budget=table.total / 4)
    >>> bool(abs(result.mean[0] - 100) < 20), table.remaining
    (True, Cost(ZCDP, rho=0.75))
    >>> table
    PrivateTable(1,975 persons, the mean of the rows of each; 2 columns; rho 0.75 of 1 left)
    """

    __slots__ = ("__weakref__",)

    def __init__(
        self,
        x_priv: Any,
        *,
        x_pub: Any = None,
        total: Budget | None = None,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        person: Any = None,
        keep: Keep | None = None,
        rows_per_person: RowsPerPerson | None = None,
        threads: int | None = None,
        progress: bool | None = None,
    ) -> None:
        source = opened_source(x_priv)
        public = opened_public(x_pub)
        if keep is not None or rows_per_person is not None:
            stand_in(person, keep, rows_per_person)
        opened = opened_ledger(total, ledger, person)
        binding = Binding(source, public, opened, opened is not ledger, person)
        binding.keep = keep
        binding.rows_per_person = rows_per_person
        binding.threads = threads
        binding.progress = progress
        super().__init__(binding, (), {})

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Self:
        """Table that a file describes; its keys are the long names of options of commands, and files are relative to it.

        Parameters
        ----------
        path : path
            File in TOML with the keys `private`, `public`, `ledger`, `ledger_total` ("rho=1"), `person`, `keep`, `rows_per_person`,
            `threads`, `where`, and a table `[with]` of texts that define columns. Only `private` is needed beside a total.

        Returns
        -------
        PrivateTable

        Raises
        ------
        InputError
            An unknown key, a value of another type, or what the constructor refuses.
        """
        bound = read_data_file(path)
        private = bound.pop("private")
        condition = bound.pop("where", None)
        columns = bound.pop(WITH, {})
        text = bound.pop("ledger_total", None)
        total = None if text is None else total_of(text)
        table = cls(private, x_pub=bound.pop("public", None), total=total, **bound)
        if columns:
            table = table.with_columns(**columns)
        return table if condition is None else table.where(condition)

    def _with(self, where_texts: tuple[str, ...], with_texts: dict[str, str]) -> Self:
        """Return a table derived from the same rows, with the same ledger."""
        table = object.__new__(type(self))
        BoundTable.__init__(table, self.binding, where_texts, with_texts)
        return table

    def where(self, text: str) -> Self:
        """Table of the rows inside a condition such as "age >= 40 and sex == 'f'", with the same ledger; nothing is read.

        Rows outside are absent, not left out: their number stays private, and `n` is that of all rows. A condition on a table that
        has one holds beside it.
        """
        return self._with((*self.where_texts, text), self.with_texts)

    def with_columns(self, /, **texts: str) -> Self:
        """Table with more columns, each defined by a text such as bmi="weight / height ** 2", with the same ledger."""
        return self._with(self.where_texts, {**self.with_texts, **texts})

    @property
    def total(self) -> Budget:
        """What all calls together may cost."""
        return self.binding.ledger.total

    @property
    def spent(self) -> Cost:
        """Exact sum of the debits of the ledger, those of other tables and processes included."""
        return self.binding.ledger.spent

    @property
    def remaining(self) -> Cost:
        """The exact remainder of the total."""
        return self.binding.ledger.remaining

    def close(self) -> None:
        """Refuse further calls of this table and of those derived from it, and free the rows of persons that it kept."""
        binding = self.binding
        binding.is_closed = True
        self.held.clear()
        if binding.owns_ledger:
            binding.ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(UNSPLIT)

    def __repr__(self) -> str:
        return f"PrivateTable({'; '.join(self._facts())})"

    def _repr_html_(self) -> str:
        facts = html.escape("; ".join(self._facts()))
        ledger = self.binding.ledger._repr_html_()
        return f"<div><strong>PrivateTable</strong> {facts}{ledger}</div>"

    def _facts(self) -> list[str]:
        """Return what is public about the table, in words."""
        facts = [self._rows_in_words()]
        with contextlib.suppress(FastPubPrivError):  # of a file that is gone: a repr raises nothing
            facts.append(in_words(self.dim, "column"))
        facts += [f"where {text}" for text in self.where_texts]
        facts.append(self.binding.ledger.left)
        return [*facts, "closed"] if self.binding.is_closed else facts

    def _rows_in_words(self) -> str:
        """Return the number of persons and what stands for each, or the number of rows unless a stream had them."""
        binding = self.binding
        noun = "rows" if binding.person is None else "persons"
        is_hidden = isinstance(binding.source, StreamTable) and binding.person is None
        try:
            number = noun if is_hidden else f"{self.n:,} {noun}"
        except FastPubPrivError:
            number = noun
        if binding.keep not in (None, "row"):
            return f"{number}, the {binding.keep} of the rows of each"
        k = binding.rows_per_person
        if isinstance(k, str):
            if binding.choice is None:
                return f"{number}, the first call chooses how many rows of each"
            k = binding.choice["rows_per_person"]
        return number if k is None else f"{number}, at most {in_words(int(k), 'row')} of each"

    def __getstate__(self) -> dict[str, Any]:
        """Return the names that make this table again; raise TypeError for a part that no name stands for."""
        binding = self.binding
        if binding.is_closed:
            raise TypeError("this table is closed: it cannot be pickled or copied")
        if binding.person is not None and not isinstance(binding.person, str):
            raise TypeError("person is held in memory: pass the name of a column as person")
        if binding.ledger.path is None:
            raise TypeError(
                "the ledger is held in memory, and two copies could spend the same budget twice: pass the path of a file as ledger"
            )
        state = {name: getattr(binding, name) for name in PICKLED}
        state["x_priv"] = path_of("x_priv", binding.source)
        state["x_pub"] = path_of("x_pub", binding.public)
        state["ledger"] = os.path.abspath(binding.ledger.path)
        return {**state, "where": self.where_texts, WITH: dict(self.with_texts)}

    def __reduce__(self) -> Any:
        return _restored, (self.__getstate__(),)


def path_of(name: str, source: Any) -> str | None:
    """Return the absolute name of a file, None for None; raise TypeError for rows that are no file."""
    if source is None:
        return None
    if not isinstance(source, str | os.PathLike):
        raise TypeError(
            f"{name} is held in memory, and a pickle would hold its rows: pass the path of a file as {name}"
        )
    return os.path.abspath(source)


def _restored(state: dict[str, Any]) -> PrivateTable:
    """Return the table of a pickle."""
    named = dict(state)
    conditions = named.pop("where")
    columns = named.pop(WITH)
    choice = named.pop("choice")
    table = PrivateTable(named.pop("x_priv"), **named)
    table.binding.choice = choice
    return table._with(conditions, columns) if conditions or columns else table


def opened_ledger(total: Any, ledger: Any, person: Any) -> Ledger:
    """Return the ledger of a table; raise if its total, its relation or its kind of person is another one."""
    relation = Neighbors.REPLACE_ONE if person is None else Neighbors.REPLACE_PERSON
    if total is None and ledger is None:
        raise InputError(NO_TOTAL)
    if ledger is None:
        opened = Ledger(total, relation=relation)
    elif isinstance(ledger, str | os.PathLike):
        opened = _ledger_of_file(total, ledger, relation)
    else:
        opened = ledger
    name = name_of_persons(person)
    check_ledger("PrivateTable", opened, relation, name)
    if total is not None and opened.total != total:
        raise BudgetError(
            f"the ledger has a total of {opened.total!r}, and total= is {total!r}: leave total= out"
        )
    if opened.person not in (None, name):
        raise BudgetError(
            f"this ledger counts what is spent on each {opened.person!r}, and {name!r} is another kind of person: pass a ledger of "
            "its own"
        )
    return opened


def _ledger_of_file(total: Any, path: str | os.PathLike[str], relation: Neighbors) -> Ledger:
    """Return the ledger of a file, which is made if there is a total and no such file."""
    if os.path.lexists(path):
        return Ledger.from_file(path)
    if total is None:
        raise InputError(
            f"there is no ledger {os.fspath(path)!r} yet: pass total=, what all calls together may cost"
        )
    return Ledger(total, path=path, relation=relation)
