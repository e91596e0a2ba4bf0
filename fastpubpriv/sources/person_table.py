"""User-level rows: a table with several rows per person is reduced to one row or k rows each, so that privacy protects a person.

The rows of a person depend on that person's rows alone: the rows of others, and their number, change neither their bits nor their
position. The set of identifiers, and so the number of persons, is public; the number of rows of a person is private.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator
from contextlib import ExitStack
from hashlib import blake2b
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastpubpriv._types import BoolArray, FloatArray, IntArray, Keep, RowsPerPerson
from fastpubpriv.errors import InputError, warn
from fastpubpriv.sources.arrays import ArrayRows
from fastpubpriv.sources.dask_backend import is_dask
from fastpubpriv.sources.dates import Calendar
from fastpubpriv.sources.lazy_modules import pa, polars
from fastpubpriv.sources.open import kind_of, label_cells, names_of_source, private_rows
from fastpubpriv.sources.row_types import (
    DerivedTable,
    Persons,
    Rows,
    RowStream,
    added_to,
    condition_of,
    inside,
    source_of,
)
from fastpubpriv.sources.tables import (
    TextColumns,
    TextHash,
    holds_objects,
    is_frame,
    is_lazy,
    is_series,
    names_of_columns,
    places,
)
from fastpubpriv.threads.guard import call_guarded, naming
from fastpubpriv.validation import choice, integer, number_or_auto

KEEP = ("row", "mean", "sum")
MOST_ROWS = 4096  # maximum of `rows_per_person`
# Names, in the record of "auto", of the share of persons with more rows than are used, and of its 95 % interval.
MORE_ROWS = ("persons_with_more", "persons_with_more_lower", "persons_with_more_upper")
# Row records (24 bytes each) and selected rows beyond this many bytes are stored in unnamed temporary files, not in memory.
SPOOL_BYTES = 1 << 30
_NOUNS = "person|patient|subject|customer|user|member|respondent|client|individual|student|employee"
_PERSON = re.compile(rf"[pu]?id|({_NOUNS})[ _]?(id|no|nr|number|key)", re.IGNORECASE)
# public constants of the hashes
_MARK = np.uint64(0x9E3779B97F4A7C15)
_COPY = np.uint64(0xD1B54A32D192ED03)
_BUCKET_BITS = np.uint64(58)  # the six bits above these select one of 64 buckets for a person

ONE_STANDS_IN = (
    "keep={!r} makes one row of each person: leave out rows_per_person=, or pass keep='row'"
)
NOT_AS_MANY = (
    "person must have one identifier for each row, and there are more or fewer, or the number of rows has changed since the "
    "persons were found; the column of identifiers is named by a text, such as person='id'"
)
UNSAID = (
    "say what stands for a person: keep='mean' (each counts once), keep='sum' (totals), rows_per_person=1 (one row of each, as if "
    "at random), 3, or 'auto'"
)
NO_PERSONS = "no row has an identifier of a person: name the column that has them by person="
_UNREAD = "x_priv cannot be read, or its temporary files not be written: is there room in the folder of tempfile (TMPDIR)?"

Marks = NDArray[np.uint64]


class PersonRows(ArrayRows):
    """Rows of persons, equally many adjacent ones for each, in memory or in an unnamed memory-mapped file."""

    __slots__ = ("_filled", "about", "more", "persons")

    persons: Persons

    def __init__(
        self,
        array: FloatArray,
        kind: str,
        columns: tuple[str, ...] | None,
        persons: Persons,
        *,
        about: str = "",
        filled: IntArray | None = None,
        more: BoolArray | None = None,
    ) -> None:
        super().__init__(array, kind, columns)
        self.persons = persons
        self.about = about
        # As of the `PersonTable`, private.
        self.more = more
        # The places of the rows that persons have, and -1 for rows of the source that are not used.
        self._filled = filled

    @property
    def presence(self) -> Rows | None:  # type: ignore[override]
        """See `Rows.presence`."""
        if self._filled is None:
            return None
        there = room_for((self.n, 1), np.nan)
        there[self._filled[self._filled >= 0]] = 1.0
        return PersonRows(there, self.kind, None, self.persons, about=self.about)

    @property
    def may_be_absent(self) -> bool:
        """See `Rows.may_be_absent`."""
        return self._filled is not None


class PlacesOfRows(NamedTuple):
    """Where the rows of a source go: for each row its target row, or its person, -1 if it is not used."""

    made: IntArray
    persons: int
    # whether each person has more rows than are used, (persons,); None where all rows of a person are
    more: BoolArray | None = None


class PersonTable(DerivedTable):
    """A table with one row, or k rows, per person, accepted as private rows by every function.

    Made for `person=`, and once for all calls of a `PrivateTable`.

    Attributes
    ----------
    n : int
        Number of persons, public.
    keep : str
        How the rows of a person are reduced: "row", "mean" or "sum".
    rows_per_person : int
        Number of rows kept for each person.
    person : str, optional
        Name of the column of identifiers, which is also dropped from public tables.
    choice : dict, optional
        Record of the release that selected `rows_per_person`, if one did.

    Examples
    --------
    >>> table_of_persons([[1.0], [2.0], [3.0]], [7, 7, 8], "mean", 1)
    PersonTable(n=2, keep='mean')
    >>> table_of_persons([[1.0], [2.0], [3.0]], [7, 7, 8], "row", 2)
    PersonTable(n=2, rows_per_person=2)
    """

    __slots__ = ("_made", "_more", "_rows", "choice", "keep", "n", "person", "persons")

    persons: Persons

    def __init__(
        self,
        source: Any,
        person: Any,
        rows: int,
        keep: str,
        rows_per_person: int,
        places: PlacesOfRows,
    ) -> None:
        if not places.persons:
            raise InputError(NO_PERSONS)
        self.source = source
        self.keep = keep
        self.n = places.persons
        self.persons = Persons(name_of_persons(person), rows_per_person)
        self.choice: dict[str, Any] | None = None
        self.person = person if isinstance(person, str) else None
        self._rows = rows
        self._made = places.made
        self._more = places.more

    @property
    def left_out(self) -> frozenset[str]:
        """The name of the column of identifiers."""
        return frozenset() if self.person is None else frozenset({self.person})

    @property
    def rows_per_person(self) -> int:
        """Number of rows kept for each person."""
        return self.persons.rows_each

    @property
    def more(self) -> BoolArray | None:
        """Whether each person has more rows than are used, (n,), private; None where that is not to be released."""
        return None if self.choice is not None else self._more

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        choice_made = (
            f"keep={self.keep!r}"
            if self.rows_per_person == 1
            else f"rows_per_person={self.rows_per_person}"
        )
        return f"PersonTable(n={self.n}, {choice_made})"

    def rows(self, columns: Any) -> Rows:
        """Return the rows of the persons with these columns, by default all but the identifiers."""
        names = names_of_columns(columns)
        if self.person is not None and names is not None and self.person in names:
            raise InputError(
                f"column {self.person!r} says whose row it is: it cannot be a column of the analysis too"
            )
        others = (
            None
            if names is not None or self.person is None
            else _other_names(self.source, self.person)
        )
        if others is not None:
            columns = (
                TextColumns(others, columns.texts) if isinstance(columns, TextColumns) else others
            )
        rows = private_rows(self.source, columns=columns)
        if self.keep != "row" and any(hasattr(name, "levels") for name in rows.columns or ()):
            raise InputError(
                f'there is no {self.keep} of text or dates, in columns= or by=: pass keep="row" with rows_per_person=, or columns '
                "of numbers"
            )
        if rows.n != self._rows:
            raise InputError(NOT_AS_MANY)
        count = self.n * self.rows_per_person
        if not len(self._made):  # no data is read, and all rows are missing
            values = np.broadcast_to(np.nan, (count, rows.dim))
        else:
            values = (
                _at(rows, self._made, count)
                if self.keep == "row"
                else _added(rows, self._made, count, self.keep)
            )
        return PersonRows(
            values,
            rows.kind,
            rows.columns,
            self.persons,
            about=self.about,
            filled=self._filled(),
            more=self.more,
        )

    def _filled(self) -> IntArray | None:
        """Return the places of rows that persons have; None where each person has all."""
        if not condition_of(self.source):
            return self._made if self.rows_per_person > 1 else None
        # A person without a row inside has the sum 0, and no mean.
        return None if self.keep == "sum" else self._made

    @property
    def about(self) -> str:
        """What stands for a person, and what is released about persons with more rows, in public words."""
        condition = condition_of(self.source)
        where = f" where {condition}" if condition else ""
        if self.keep != "row":
            return f"the {self.keep} of the rows{where} of each of {self.n:,} persons"
        several = in_words(self.rows_per_person, "row")
        about = f"at most {several}{where} of each of {self.n:,} persons"
        if self.choice is None:
            return about
        # A choice is of the persons' rows in the source, whatever condition this call has.
        of = " of all rows of the table" if getattr(self.source, "condition", "") else ""
        return f"{about}; {shown_more(self.rows_per_person, 'row', self.choice)}{of}"


def in_words(number: int, noun: str) -> str:
    """Return a number and what it counts: "1 row", "3 rows"."""
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"


def shown_more(most: int, noun: str, record: dict[str, Any]) -> str:
    """Return the released share of persons with more rows, or keys, than are used, and its 95 % interval, as text."""
    share, lower, upper = (f"{100 * record[name]:.3g}" for name in MORE_ROWS)
    return f"persons with more than {in_words(most, noun)}: {share} % [{lower}, {upper}]"


# ---- Selection of k rows per person: those with the smallest hashes of identifier and content ---------------------


def _chosen(
    ids: Rows, source: Any, person: str | None, k: int, usable: BoolArray | None = None
) -> PlacesOfRows:
    """Return the places of at most k rows of each person among persons * k rows; persons are ordered by their hash.

    Only `usable` rows, (n,), are chosen; the persons are those of all rows.
    """
    to = room_for((ids.n,), -1)
    persons = 0
    more = []
    records = _records(ids, source, person, usable)
    spooled = 24 * ids.n > SPOOL_BYTES
    for bucket in _spooled(records) if spooled else _whole(records):
        places = _of_bucket(bucket, k)
        there = np.flatnonzero(places.rows >= 0)
        to[places.rows[there]] = persons * k + there
        persons += len(places.more)
        more.append(places.more)
    return PlacesOfRows(to, persons, np.concatenate(more))


def room_for(shape: tuple[int, ...], fill: Any) -> NDArray[Any]:
    """Return a filled array, in memory or, if large, in an unnamed temporary file that is deleted with its last mapping."""
    dtype = np.asarray(fill).dtype
    if 8 * math.prod(shape) <= SPOOL_BYTES:
        return np.full(shape, fill, dtype=dtype)
    with TemporaryFile() as file:
        memory = np.memmap(file, dtype=dtype, shape=shape).view(np.ndarray)
    memory[:] = fill
    return memory


class Bucket(NamedTuple):
    """Hashes of person and content, and positions, of all rows of some persons; -1 for a row that is not to be chosen."""

    mark: Marks
    content: Marks
    place: IntArray


class ChosenRows(NamedTuple):
    """At most k rows of each person of a bucket, persons in the order of their hash."""

    rows: IntArray  # positions, (persons * k,); -1 where a person has fewer
    more: BoolArray  # whether each person has more, (persons,)


def _radix_order(keys: Marks) -> IntArray:
    """Return the stable order of keys: NumPy sorts numbers of 16 bits by counting, several times as fast as longer ones."""
    order = np.argsort(keys.astype(np.uint16), kind="stable")
    for shift in (16, 32, 48):
        digits = (keys >> np.uint64(shift)).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
    return order


class OrderedRows(NamedTuple):
    """Rows in the order of the hash of their person, then of their content: their numbers, and these hashes."""

    order: IntArray
    mark: Marks
    content: Marks


def _ordered(mark: Marks, content: Marks) -> OrderedRows:
    """Return the rows in their stable order."""
    # Half of the bits of both first. Where these agree all bits decide, so that rows which are no copies are none.
    half = np.uint64(32)
    order = _radix_order((mark >> half << half) | (content >> half))
    marks = mark[order]
    contents = content[order]
    between_marks = marks[1:] ^ marks[:-1]
    between_contents = contents[1:] ^ contents[:-1]
    alike = between_marks >> half == 0
    unlike = (between_marks != 0) | ((between_contents >> half == 0) & (between_contents != 0))
    unlike &= alike
    if unlike.any():
        run = np.append(0, np.cumsum(~alike))
        mixed = np.zeros(run[-1] + 1, dtype=bool)
        mixed[run[1:][unlike]] = True
        within = np.flatnonzero(mixed[run])
        settled = within[np.lexsort((contents[within], marks[within], run[within]))]
        for numbers in (order, marks, contents):
            numbers[within] = numbers[settled]
    return OrderedRows(order, marks, contents)


def _of_bucket(bucket: Bucket, k: int) -> ChosenRows:
    """Return at most k rows of each person of a bucket, of those that may be chosen."""
    usable = bucket.place >= 0
    if usable.all():
        return _of_all_rows(bucket, k)
    within = Bucket(bucket.mark[usable], bucket.content[usable], bucket.place[usable])
    chosen = _of_all_rows(within, k)
    people = np.unique(bucket.mark)
    places = np.full((len(people), k), -1, dtype=np.int64)
    more = np.zeros(len(people), dtype=bool)
    at = np.searchsorted(people, np.unique(within.mark))
    places[at] = chosen.rows.reshape(-1, k)
    more[at] = chosen.more
    return ChosenRows(places.reshape(-1), more)


def _of_all_rows(bucket: Bucket, k: int) -> ChosenRows:
    """Return at most k rows of each person of a bucket; row order only breaks ties of equal rows."""
    rows = _ordered(bucket.mark, bucket.content)
    order = rows.order
    begins = np.ones(len(order), dtype=bool)
    begins[1:] = rows.mark[1:] != rows.mark[:-1]
    copy = ~begins
    copy[1:] &= rows.content[1:] == rows.content[:-1]
    if copy.any():
        # Each copy of a row gets a distinct hash; otherwise frequent values of a person would be selected as rarely as others.
        at = np.arange(len(order))
        number = at - np.maximum.accumulate(np.where(copy, 0, at))
        distinct = hash_of_numbers(rows.content + number.astype(np.uint64) * _COPY)
        order = order[_ordered(rows.mark, np.where(copy, distinct, rows.content)).order]
    begin = np.flatnonzero(begins)
    sizes = np.diff(np.append(begin, len(order)))
    places = np.full((len(begin), k), -1, dtype=np.int64)
    for j in range(min(k, int(sizes.max(initial=0)))):
        has_one = np.flatnonzero(sizes > j)
        places[has_one, j] = bucket.place[order[begin[has_one] + j]]
    return ChosenRows(places.reshape(-1), sizes > k)


def _whole(records: Iterator[Bucket]) -> Iterator[Bucket]:
    """Yield all rows as one bucket."""
    yield Bucket(*(np.concatenate(parts) for parts in zip(*records, strict=True)))


def _spooled(records: Iterator[Bucket]) -> Iterator[Bucket]:
    """Yield the rows bucket by bucket from unnamed temporary files."""
    count = 1 << (64 - int(_BUCKET_BITS))
    with ExitStack() as files:
        spool: list[Any] = [files.enter_context(TemporaryFile()) for _ in range(count)]
        for record in records:
            bucket = (record.mark >> _BUCKET_BITS).astype(np.uint8)
            order = np.argsort(bucket, kind="stable")  # a radix sort
            lines = np.stack([record.mark, record.content, record.place.view(np.uint64)])
            ends = np.searchsorted(bucket[order], np.arange(1, count))
            parts = np.split(lines[:, order].T, ends)
            for file, part in zip(spool, parts, strict=True):
                file.write(part.tobytes())
        for file in spool:
            file.seek(0)
            mark, content, place = np.ascontiguousarray(
                np.frombuffer(file.read(), dtype=np.uint64).reshape(-1, 3).T
            )
            file.close()
            yield Bucket(mark, content, place.view(np.int64))


def _records(
    ids: Rows, source: Any, person: str | None, usable: BoolArray | None
) -> Iterator[Bucket]:
    """Yield, per chunk, the rows that have an identifier; the hash of content is that of person and content.

    A row that is not `usable` has the place -1.
    """
    cells, words = _content(source, person)
    if cells.n != ids.n:
        raise InputError(
            "x_priv and person differ in length: one identifier for each row is needed"
        )
    begin = 0
    stream = RowStream(ids)
    for contents in _hashes(cells, words):
        end = begin + len(contents)
        identifiers = stream.read(begin, end)
        there = np.flatnonzero(~np.isnan(identifiers[:, 0]))
        mark = _marks(identifiers[there, 0])
        place = begin + there
        if usable is not None:
            place = np.where(usable[place], place, -1)
        yield Bucket(mark, hash_of_numbers(contents[there] + mark), place)
        begin = end
    stream.finish(0)


def _hashes(cells: Rows, words: Rows | None) -> Iterator[Marks]:
    """Yield a hash of the cells of each row, independent of column order; `words` encodes the text of cells without a number."""
    names = [str(name) for name in cells.columns or range(cells.dim)]
    keys = [
        np.frombuffer(
            blake2b(name.encode(errors="surrogatepass"), digest_size=8).digest(), np.uint64
        )[0]
        for name in names
    ]
    begin = 0
    stream = RowStream(cells if words is None else words)
    for chunk in cells.chunks():
        beside = chunk if words is None else stream.read(begin, begin + len(chunk))
        begin += len(chunk)
        total = np.zeros(len(chunk), dtype=np.uint64)
        for j, key in enumerate(keys):
            cell = chunk[:, j].astype(np.float64)
            missing = np.isnan(cell)
            if words is not None:
                cell = np.where(missing, beside[:, j], cell)
                missing = np.isnan(cell)
            total += np.where(missing, np.uint64(0), hash_of_numbers(cell.view(np.uint64) ^ key))
        yield total


def _content(source: Any, person: str | None) -> tuple[Rows, Rows | None]:
    """Return all readable columns but the identifiers, dates as days and text as hashes; for a CSV file also all read as text."""
    names = _other_names(source, person)
    if names is None:
        with naming("x_priv"):
            return private_rows(source), None
    as_text = TextColumns(names, {name: TextHash("all") for name in names})
    if kind_of(source) == ".csv":
        return private_rows(source, columns=names), private_rows(source, columns=as_text)  # type: ignore[arg-type]
    like = source
    if is_dask(source):
        like = source._meta_nonempty
    elif is_lazy(source):
        schema = source.collect_schema()
        like = polars.DataFrame({name: [None] for name in schema}, schema=schema)
    texts: Any = {}
    readable = []
    for name in names:
        of_texts = {name: TextHash("all")}
        # numbers, text or dates, by its type alone
        tried: Any = ({}, of_texts, {name: Calendar()})
        for text in (of_texts,) if holds_objects(like, name) else tried:
            with contextlib.suppress(InputError):
                private_rows(like, columns=TextColumns([name], text))  # type: ignore[arg-type]
                readable.append(name)
                texts |= text
                break
    if not readable:
        raise InputError("x_priv has no column of numbers, text or dates beside the identifiers")
    return private_rows(source, columns=TextColumns(readable, texts)), None  # type: ignore[arg-type]


def _other_names(source: Any, person: str | None) -> list[Any] | None:
    """Return the column names of a source without the identifiers; None for a source without names."""
    names = call_guarded(lambda: names_of_source(source_of(source)))
    if names is None:
        return None
    return [name for name in (*names, *added_to(source)) if name != person]


def _at(rows: Rows, to: IntArray, count: int) -> FloatArray:
    """Return an array of `count` rows filled in one pass with the selected rows; NaN where a person has no more rows."""
    out = room_for((count, rows.dim), np.nan)
    begin = 0
    for chunk in rows.chunks():
        place = to[begin : begin + len(chunk)]
        there = np.flatnonzero(place >= 0)
        out[place[there]] = chunk[there]
        begin += len(chunk)
    return out


# ---- Sums or means of the rows of each person ------------------------------------------------------------------------


def _added(rows: Rows, of_row: IntArray, count: int, keep: str) -> FloatArray:
    """Return the sum or mean of the finite numbers of each person, (count, dim), added in row order; 0 or NaN if there are none."""
    total = np.zeros((count, rows.dim))
    counts = np.zeros((count, rows.dim))
    begin = 0
    with np.errstate(all="ignore"):
        for chunk in rows.chunks():
            person = of_row[begin : begin + len(chunk)]
            for j in range(rows.dim):
                usable = (person >= 0) & np.isfinite(chunk[:, j])
                # Sequential addition, so that the bits of a sum do not depend on the split into chunks.
                np.add.at(total[:, j], person[usable], chunk[usable, j].astype(np.float64))
                counts[:, j] += np.bincount(person[usable], minlength=count)
            begin += len(chunk)
        return total if keep == "sum" else total / counts


def hash_of_numbers(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return numbers hashed by the finalizer of SplitMix64: each input bit affects all output bits."""
    mixed = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _marks(identifiers: FloatArray) -> Marks:
    """Return a distinct hash for each identifier; persons are ordered by it."""
    return hash_of_numbers((identifiers.astype(np.float64) + 0.0).view(np.uint64) + _MARK)


def marked_people(ids: Rows, usable: BoolArray | None = None) -> tuple[IntArray, Marks]:
    """Return the index of the person of each row (-1: no identifier), and the hashes of the persons by index.

    The persons are those of all rows; a row that is not `usable` has the index -1.
    """
    numbers = np.concatenate([chunk[:, 0].astype(np.float64) for chunk in ids.chunks()]) + 0.0
    encoded = pa.array(numbers, from_pandas=True).dictionary_encode()
    marks = _marks(encoded.dictionary.to_numpy())
    order = np.argsort(marks)
    rank = np.empty(len(order) + 1, dtype=np.int64)
    rank[order], rank[-1] = np.arange(len(order)), -1
    of_row = rank[encoded.indices.fill_null(len(order)).to_numpy()]
    return of_row if usable is None else np.where(usable, of_row, -1), marks[order]


def people_of(ids: Rows, usable: BoolArray | None = None) -> PlacesOfRows:
    """Return the index of the person of each row (-1: none, or not usable), and the number of persons."""
    of_row, marks = marked_people(ids, usable)
    return PlacesOfRows(of_row, len(marks))


def stand_in(
    person: Any, keep: Keep | None, rows_per_person: RowsPerPerson | None
) -> tuple[str, RowsPerPerson]:
    """Return what stands for a person, a value of `keep` and a number of rows; raise InputError if it is not said."""
    if isinstance(rows_per_person, str):
        number_or_auto("rows_per_person", rows_per_person)
    elif rows_per_person is not None:
        rows_per_person = integer("rows_per_person", rows_per_person, minimum=1, maximum=MOST_ROWS)
    rule = "row" if keep is None else choice("keep", keep, KEEP)
    if person is None:
        if keep is not None or rows_per_person not in (None, 1):
            raise InputError(
                "keep= and rows_per_person= belong to person=, the column that says whose row it is"
            )
    elif rule == "row" and rows_per_person is None:
        raise InputError(UNSAID)
    elif rule != "row" and rows_per_person not in (None, 1):
        raise InputError(ONE_STANDS_IN.format(rule))
    return rule, 1 if rows_per_person is None else rows_per_person


def table_of_persons(
    x_priv: Any, person: Any, keep: str, rows_per_person: int, *, persons: int | None = None
) -> PersonTable:
    """Group the rows by person. If the number `persons` is given, nothing is read, and all rows are missing."""
    rule = choice("keep", keep, KEEP)
    k = integer("rows_per_person", rows_per_person, minimum=1, maximum=MOST_ROWS)
    if k > 1 and rule != "row":
        raise InputError(ONE_STANDS_IN.format(rule))
    ids = _ids(x_priv, person)
    if persons is not None:
        blank = PlacesOfRows(np.full(0, -1), persons)
        return PersonTable(x_priv, person, ids.n, rule, k, blank)
    own = person if isinstance(person, str) else None

    def places_of_rows() -> PlacesOfRows:
        usable = usable_rows(x_priv, ids)
        if rule == "row":
            return _chosen(ids, source_of(x_priv), own, k, usable)
        return people_of(ids, usable)

    return PersonTable(x_priv, person, ids.n, rule, k, call_guarded(places_of_rows, _UNREAD))


def name_of_persons(person: Any) -> str | None:
    """Return the name of the identifiers: of their column, or of a series; None for an array or a list."""
    name = person if isinstance(person, str) else person.name if is_series(person) else None
    return name if isinstance(name, str) else None


def usable_rows(x_priv: Any, ids: Any) -> BoolArray | None:
    """Return which rows are inside the condition of a table, (n,), private; None without any.

    Raise InputError if there are more or fewer identifiers than rows.
    """
    usable = inside(x_priv)
    if usable is not None and len(usable) != ids.n:
        raise InputError(NOT_AS_MANY)
    return usable


def rows_of_each(x_priv: Any, person: Any) -> FloatArray:
    """Return the number of rows of each person, (persons,): private."""
    ids = _ids(x_priv, person)
    people = call_guarded(lambda: people_of(ids, usable_rows(x_priv, ids)), _UNREAD)
    of_row = people.made[people.made >= 0]
    return np.bincount(of_row, minlength=people.persons).astype(np.float64)


def number_of_rows(source: Any) -> int:
    """Return the number of rows of a source that may have columns of text, from its form, or from the lines of a file."""
    cells, _ = call_guarded(lambda: _content(source, None), _UNREAD)
    return cells.n


def people_of_table(x_priv: Any, person: Any) -> tuple[IntArray, Marks]:
    """Return what `marked_people` does for the identifiers of a table, a row that is absent without a person.

    InputError if no row has an identifier.
    """
    ids = _ids(x_priv, person)
    of_row, marks = call_guarded(lambda: marked_people(ids, usable_rows(x_priv, ids)), _UNREAD)
    if not len(marks):
        raise InputError(NO_PERSONS)
    return of_row, marks


def _ids(x_priv: Any, person: Any) -> Rows:
    """Return the identifier of each row as a number, (n, 1)."""
    if isinstance(x_priv, PersonTable):
        raise InputError("these rows are those of persons already: leave out person=")
    own = isinstance(person, str)
    # Before any condition and any new column: who there is, and in which order, is public.
    with naming("x_priv" if own else "person"):
        ids = _identifiers(source_of(x_priv), person) if own else _listed(person)
    if ids.dim != 1:
        raise InputError(f"person: one identifier for each row is needed, got {ids.dim} columns")
    return ids


def _identifiers(source: Any, name: str) -> Rows:
    """Return the column of identifiers as numbers, NaN where missing.

    Text that is a number in its usual form is that number, so that a CSV file, which has no types, has the persons of a frame.
    """
    if kind_of(source) != ".csv" and not holds_objects(
        source._meta if is_dask(source) else source, name
    ):
        with contextlib.suppress(InputError):
            return private_rows(source, columns=[name])
    return private_rows(source, columns=TextColumns([name], {name: TextHash("canonical")}))  # type: ignore[arg-type]


def _listed(person: Any) -> Rows:
    """Return the identifiers in an array, list or series as rows of one number."""
    cells = list(label_cells(person))
    if any(isinstance(cell, str) for cell in cells):
        return private_rows(places(TextHash("canonical"))(cells))
    return private_rows(person)


def of_participants(rows: Rows) -> Rows:
    """Return rows for the local model, in which each person randomizes one row; raise InputError for several rows per person."""
    if rows.rows_per_person > 1:
        raise InputError(
            "in the local model each person sends one report, of one row: make that of the rows of each person beforehand"
        )
    if rows.may_be_absent:
        raise InputError(
            "in the local model a condition would be seen in who sends a report: leave out where=, or let a person outside send "
            "the report of a public row"
        )
    return rows


def warn_of_persons(x_pub: Any) -> None:
    """Warn if a public column named like a person identifier has repeated values, for private rows not grouped by person."""
    for name in x_pub.columns if is_frame(x_pub) else ():
        if isinstance(name, str) and _PERSON.fullmatch(name):
            known = (
                x_pub[name].dropna() if hasattr(x_pub[name], "dropna") else x_pub[name].drop_nulls()
            )
            if 1 < (distinct := len(known.unique())) < len(known):
                warn(
                    f"column {name!r} of the public table has {distinct} values in {len(known)} rows: if they are persons, each "
                    f"row of theirs is protected by itself; pass person={name!r}"
                )
