"""One row for each person of a table in which persons have several rows, so that a guarantee for rows is one for persons.

A person's row is made of that person's rows alone, in their order: the rows of others, and how many there are, change neither its
bits nor its place. Which identifiers occur, and with them the number of persons, is public.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastpubpriv._types import FloatArray, IntArray, Keep
from fastpubpriv.errors import InputError, warn
from fastpubpriv.sources.arrays import ArrayRows
from fastpubpriv.sources.open import form_of_path, label_cells, names_of_source, private_rows
from fastpubpriv.sources.row_types import DerivedTable, Rows
from fastpubpriv.sources.tables import (
    TextColumns,
    TextHash,
    is_frame,
    names_of_columns,
    places,
)
from fastpubpriv.threads.guard import call_guarded, name_argument
from fastpubpriv.validation import choice

KEEP = ("row", "mean", "sum")
_NOUNS = "person|patient|subject|customer|user|member|respondent|client|individual|student|employee"
_PERSON = re.compile(rf"[pu]?id|({_NOUNS})[ _]?(id|no|nr|number|key)", re.IGNORECASE)


class PersonRows(ArrayRows):
    """One row for each person, in memory."""

    __slots__ = ()

    persons = True


@dataclass(frozen=True, eq=False)
class _People:
    """The persons of a table: of each row the number of its person, -1 for a row without one."""

    of_row: IntArray
    mark: NDArray[np.uint64]  # (count,), of each person a number that its identifier alone decides

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.mark)

    @cached_property
    def chosen(self) -> IntArray:
        """Of each person the place of one of its rows, which identifier and number of rows decide."""
        from scipy.sparse import csr_array  # takes longer to import than a first mean does

        there, n = np.flatnonzero(self.of_row >= 0), len(self.of_row)
        grouped = csr_array((np.ones(len(there), dtype=bool), (self.of_row[there], there)), shape=(self.count, n))
        counts = np.diff(grouped.indptr).astype(np.uint64)
        nth = (_mixed(self.mark + np.uint64(1)) % counts).astype(np.int64)
        row: IntArray = grouped.indices[grouped.indptr[:-1] + nth].astype(np.int64)
        return row


class PersonTable(DerivedTable):
    """A table with one row for each person, which every function takes as private rows. Made by `fastpubpriv.persons`.

    Attributes
    ----------
    n : int
        Number of persons, public.
    keep : str
        What a person's row is made of: "row", "mean" or "sum".

    Examples
    --------
    >>> import fastpubpriv as fpp
    >>> fpp.persons([[1.0], [2.0], [3.0]], person=[7, 7, 8], keep="mean")
    PersonTable(n=2, keep='mean')
    """

    __slots__ = ("_others", "_people", "keep")

    def __init__(self, source: Any, others: list[str] | None, people: _People, keep: str) -> None:
        self.source, self.keep = source, keep
        self._others, self._people = others, people

    @property
    def n(self) -> int:
        """Number of persons."""
        return self._people.count

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        return f"PersonTable(n={self.n}, keep={self.keep!r})"

    def rows(self, columns: Any) -> Rows:
        """The rows of the persons, of these columns; of all but the identifiers if none are named."""
        if names_of_columns(columns) is None and self._others is not None:
            columns = TextColumns(self._others, columns.texts) if isinstance(columns, TextColumns) else self._others
        rows = private_rows(self.source, columns=columns)
        if self.keep != "row" and any(hasattr(name, "levels") for name in rows.columns or ()):
            raise InputError(f'there is no {self.keep} of text: pass persons(..., keep="row"), or columns of numbers')
        if rows.n != len(self._people.of_row):
            raise InputError("the number of rows has changed since the persons were found")
        values = _at(rows, self._people.chosen) if self.keep == "row" else _added(rows, self._people, self.keep)
        return PersonRows(values, rows.kind, rows.columns)


def _at(rows: Rows, chosen: IntArray) -> FloatArray:
    """The rows at these places, in this order, read in one pass."""
    by_place = np.argsort(chosen)
    out, begin = np.empty((len(chosen), rows.dim)), 0
    for chunk in rows.chunks():
        first, last = np.searchsorted(chosen[by_place], (begin, begin + len(chunk)))
        here = by_place[first:last]
        out[here] = chunk[chosen[here] - begin]
        begin += len(chunk)
    return out


def _added(rows: Rows, people: _People, keep: str) -> FloatArray:
    """The sum or mean of each person's numbers in each column, added up in the order of the rows: 0 or NaN where there are none."""
    total, counts, begin = np.zeros((people.count, rows.dim)), np.zeros((people.count, rows.dim)), 0
    with np.errstate(all="ignore"):
        for chunk in rows.chunks():
            person = people.of_row[begin : begin + len(chunk)]
            for j in range(rows.dim):
                usable = (person >= 0) & np.isfinite(chunk[:, j])
                # One after the other, so that the cut into chunks decides no bit of a sum.
                np.add.at(total[:, j], person[usable], chunk[usable, j].astype(np.float64))
                counts[:, j] += np.bincount(person[usable], minlength=people.count)
            begin += len(chunk)
        return total if keep == "sum" else total / counts


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of SplitMix64: each bit of a number decides all bits of what becomes of it."""
    mixed = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def people_of(identifiers: FloatArray) -> _People:
    """The persons of a column of numbers, (n,). Their order is that of a hash of their identifiers."""
    import pyarrow as pa

    encoded = pa.array(identifiers + 0.0, from_pandas=True).dictionary_encode()
    distinct = encoded.dictionary.to_numpy()
    mark = _mixed(distinct.view(np.uint64) + np.uint64(0x9E3779B97F4A7C15))
    order = np.lexsort((distinct, mark))
    rank = np.empty(len(order) + 1, dtype=np.int64)
    rank[order], rank[-1] = np.arange(len(order)), -1
    of_row = rank[encoded.indices.fill_null(len(order)).to_numpy()]
    return _People(of_row, mark[order])


def persons(x_priv: Any, *, person: Any, keep: Keep = "row") -> PersonTable:
    """Make one row of all rows of each person, so that the guarantee of every function is one for persons.

    A table with several rows per person, such as visits or orders, is not protected person by person: each of its functions hides
    one row. With `persons(visits, person="patient_id")` as `x_priv` they hide all rows of a person together, at the same price.

    Parameters
    ----------
    x_priv : frame, table, path, array or Rows
        What every function takes as private rows.
    person : str, or array, list or series (n,)
        The column of identifiers, numbers or text, or the identifiers themselves, one for each row. Rows without one are left out.
    keep : {"row", "mean", "sum"}
        What stands for a person: one of its rows, taken as if at random; or of each column the mean, or the sum, of the
        numbers that its rows have. "row" serves every function; "mean" gives means in which each person has the same
        weight, with less noise from rows that vary; "sum" gives totals of persons, 0 for one without numbers.

    Returns
    -------
    PersonTable
        Private rows, one for each person. They are read into memory when a function opens them.

    Raises
    ------
    InputError
        No such column, identifiers of another number than rows, no identifier at all, or an unknown `keep`.

    Privacy
    -------
    Neighbors: all rows of one person are replaced by any other rows of that person, at least one. Which identifiers occur is
    public, and so is their number, n. A person's row depends on that person's rows alone, so one row is replaced: sensitivities
    and prices are those of rows. Ledgers count such calls apart: open them with `relation=Neighbors.REPLACE_PERSON`.

    Notes
    -----
    To use k rows of each person instead, keep k of them by a rule that looks at that person alone, leave missing ones empty, and
    pass a k-th of epsilon, or a rho that is k^2 times smaller.

    Examples
    --------
    >>> import numpy as np, pandas
    >>> from fastpubpriv import ZCDP, estimate_mean, persons
    >>> rng = np.random.default_rng(0)
    >>> visits = pandas.DataFrame({"patient": rng.integers(0, 4_000, 20_000), "days": rng.gamma(2.0, 3.0, 20_000)})
    >>> patients = persons(visits, person="patient", keep="mean")
    >>> result = estimate_mean(patients, x_pub=np.array([5.0]), budget=ZCDP(rho=0.1), random_state=0)
    >>> result.n_priv == len(patients) and bool(abs(result.mean[0] - 6.0) < 0.3)
    True
    >>> result.relation
    'replace all rows of one person; the number of persons is public'
    """
    kept = choice("keep", keep, KEEP)
    if isinstance(x_priv, PersonTable):
        raise InputError("these rows are one for each person already")
    others: list[Any] | None = None
    if isinstance(person, str):
        names = call_guarded(lambda: names_of_source(x_priv))
        others = None if names is None else [name for name in names if name != person]
        identifiers = name_argument("x_priv", lambda: _identifiers(x_priv, person))
    else:
        identifiers = name_argument("person", lambda: _listed(person))
        n = name_argument("x_priv", lambda: private_rows(x_priv)).n if type(x_priv) is np.ndarray else len(identifiers)
        if n != len(identifiers):
            raise InputError("x_priv and person differ in length: one identifier for each row is needed")
    people = people_of(identifiers)
    if not people.count:
        raise InputError("no row has an identifier of a person: name the column that has them by person=")
    return PersonTable(x_priv, others, people, kept)


def _identifiers(source: Any, name: str) -> FloatArray:
    """The column of identifiers as numbers; NaN where a row has none. A CSV file has no types: there all are text."""
    text: Any = TextColumns([name], {name: TextHash()})
    if isinstance(source, str | os.PathLike) and form_of_path(source) == ".csv":
        return _read(private_rows(source, columns=text))
    try:
        return _read(private_rows(source, columns=[name]))
    except InputError:
        return _read(private_rows(source, columns=text))


def _listed(person: Any) -> FloatArray:
    """Identifiers of an array, list or series, one for each row."""
    cells = list(label_cells(person))
    if any(isinstance(cell, str) for cell in cells):
        return places(TextHash())(cells)
    return _read(private_rows(person))


def _read(rows: Rows) -> FloatArray:
    """A column of numbers."""
    if rows.dim != 1:
        raise InputError(f"one identifier for each row is needed, got {rows.dim} columns")
    return np.concatenate([chunk[:, 0].astype(np.float64) for chunk in rows.chunks()])


def warn_of_persons(rows: Rows, x_pub: Any) -> None:
    """Warn if identifiers of persons, by the name of their column, stand twice in a public table, and `rows` are not of persons."""
    for name in x_pub.columns if is_frame(x_pub) and not rows.persons else ():
        if isinstance(name, str) and _PERSON.fullmatch(name):
            known = x_pub[name].dropna() if hasattr(x_pub[name], "dropna") else x_pub[name].drop_nulls()
            if 1 < (distinct := len(known.unique())) < len(known):
                warn(
                    f"column {name!r} of the public table has {distinct} values in {len(known)} rows: if they are persons, each "
                    f"row of theirs is protected by itself; pass fastpubpriv.persons(x_priv, person={name!r}) as x_priv"
                )
