"""Counts of private rows by key: with public lists of keys (no delta needed), or of unlisted texts (a stable histogram).

Privacy notes: `mechanisms/notes/code_counts.md`, `mechanisms/notes/stable_histogram.md`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from fastpubpriv import session, validation
from fastpubpriv._types import FloatArray, Keep, RowsPerPerson, column_of
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.estimators.user_level import user_level
from fastpubpriv.kernels.bins import WORDS_MAX, BinRule
from fastpubpriv.kernels.rows import Codes, column_codes
from fastpubpriv.mechanisms.cells import CodeCounts
from fastpubpriv.mechanisms.stable_histograms import (
    Partition,
    StableHistograms,
    check_memory,
    labeling_absences,
    table_memory,
    with_absences,
    without_absences,
)
from fastpubpriv.privacy import Budget, Ledger
from fastpubpriv.privacy.calibrated_budget import has_delta
from fastpubpriv.privacy.calibration import stable_event
from fastpubpriv.results.base import frozen
from fastpubpriv.results.by_key import LEAST_STDS, MISSING, OTHER, CountResult
from fastpubpriv.results.reasons import Reason, first_of
from fastpubpriv.session import Session
from fastpubpriv.shared_docs import shared_docs
from fastpubpriv.sources import Rows, private_rows
from fastpubpriv.sources.labeled import beside
from fastpubpriv.sources.open import public_table_of, refuse_shared_memory, texts_of_column
from fastpubpriv.sources.tables import (
    WORD_BYTES,
    TextColumns,
    TextsOrOther,
    TextWord,
    is_arrow_column,
    is_frame,
    is_series,
    is_texts,
    plain_text,
    text_of_words,
)
from fastpubpriv.threads.guard import naming

MOST_CELLS = 1_000_000
MOST_BYTES = WORD_BYTES * WORDS_MAX
MOST_ROUNDING = 10**9
ROW_COST = 32  # temporary memory per row and column for computing codes, in bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The public list of keys of one column, texts or numbers; cells of a text column are read as indices of this list."""

    name: str | int | None  # a number in a source without names, None for its only column
    levels: tuple[str, ...] | tuple[float, ...]

    @property
    def label(self) -> str:
        """Name of the column in a result."""
        return self.name if isinstance(self.name, str) else f"x{self.name or 0}"

    @property
    def is_text(self) -> bool:
        """Whether the keys are texts."""
        return isinstance(self.levels[0], str)

    @property
    def size(self) -> int:
        """Number of cells: one for each key, one for other values, and one for missing values."""
        return len(self.levels) + 2


@dataclass(frozen=True, slots=True, eq=False)
class KeyCodes:
    """Map from rows to indices in the lists of keys: one code per column, or if `joint` one row-major code of all columns."""

    keys: tuple[FloatArray, ...]  # ascending; for a text column, indices of its texts
    # index of each of these in the list, then the codes of other and missing values
    places: tuple[Codes, ...]
    joint: bool
    present: bool = (
        # whether the last column says which rows there are; an absent row has a cell of its own,
        # the last
        False
    )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of cells of each column."""
        return tuple(int(each[-1]) + 1 for each in self.places)

    def __call__(self, chunk: Any) -> list[Codes]:
        """Return the codes of the last columns of a chunk; the code of a row depends on that row alone."""
        codes = []
        first = chunk.shape[1] - len(self.keys) - self.present
        for j, (keys, places) in enumerate(zip(self.keys, self.places, strict=True), first):
            # Keys are rounded to the precision of the chunk: 0.1 in single precision matches the key 0.1.
            column = column_of(chunk, j)
            places_of_keys = column_codes(column, keys.astype(column.dtype).astype(np.float64))
            # The usual list ascends: its keys are where they were listed.
            codes.append(
                places_of_keys if np.all(places[1:] > places[:-1]) else places[places_of_keys]
            )
        sizes = self.sizes
        if self.joint:
            code = codes[0]
            for place, size in zip(codes[1:], sizes[1:], strict=True):
                code = code * np.int32(size) + place
            codes = [code]
            sizes = (math.prod(sizes),)
        if not self.present:
            return codes
        there = ~np.isnan(column_of(chunk, chunk.shape[1] - 1))
        return [
            np.where(there, code, np.int32(size)) for code, size in zip(codes, sizes, strict=True)
        ]


def code_of(keys: Sequence[Keys], *, joint: bool = True, present: bool = False) -> KeyCodes:
    """Return the map from rows to codes for columns with these lists of keys, and the column of `Rows.presence` if `present`."""
    numbers = [
        np.arange(len(each.levels)) if each.is_text else np.array(each.levels) for each in keys
    ]
    order = [np.argsort(each, kind="stable") for each in numbers]
    places = [np.append(each, [len(each), len(each) + 1]).astype(np.int32) for each in order]
    listed = [each[place].astype(np.float64) for each, place in zip(numbers, order, strict=True)]
    return KeyCodes(tuple(listed), tuple(places), joint, present)


def keys_of(name: str | int | None, given: Any, x_pub: Any, word: str = "keys") -> Keys:
    """Return the keys of a column, or with `word` "groups" its groups: as given, or the distinct values of the public rows.

    Raise InputError unless they are distinct texts or finite numbers.
    """
    if given is None and x_pub is None:
        raise InputError(
            f"there are no values of column {name!r}: list them in {word}=, or pass x_pub= with this column"
        )
    texts = texts_of_column(x_pub, name) if given is None and isinstance(name, str) else None
    if texts is not None:
        given = [text for text in texts if text not in (OTHER, MISSING)]
    elif given is None:
        # The only column has the keys, and none may be missing; groups may be in the last of several columns.
        only = word == "keys"
        plain = name is None or (
            only and isinstance(name, str) and isinstance(x_pub, np.ndarray | list | tuple)
        )
        table, _ = public_table_of(
            x_pub, columns=None if plain else [name], dim=1 if only else None, finite=only
        )
        given = np.unique(table[np.isfinite(table[:, -1]), -1]).tolist()
    if isinstance(given, str | bytes | Mapping) or not isinstance(
        given, list | tuple | np.ndarray | range
    ):
        raise InputError(
            f"{word} must be a list of texts or of numbers, got {type(given).__name__}"
        )
    cells = list(given)
    if not cells:
        raise InputError(f"{word} must have at least one entry")
    if all(isinstance(cell, str) for cell in cells):
        levels: tuple[str, ...] | tuple[float, ...] = tuple(plain_text(cell) for cell in cells)
        if "" in levels or {OTHER, MISSING} & set(levels):
            one = word.removesuffix("s")
            raise InputError(
                f"{word} must not be empty, {OTHER!r} or {MISSING!r}: these stand for cells without a {one}"
            )
    elif any(isinstance(cell, str) for cell in cells):
        raise InputError(f"{word} must be texts or numbers, not both")
    else:
        # True and False are the numbers 1 and 0, as they are in a Series.
        numbers = (float(cell) if isinstance(cell, bool | np.bool_) else cell for cell in cells)
        levels = tuple(validation.finite(word, cell) + 0.0 for cell in numbers)
    if len(set(levels)) < len(levels):
        raise InputError(
            f"{word} must not have an entry twice (texts are compared without the blanks around them)"
        )
    return Keys(name=name, levels=levels)


def require_columns(columns: Any) -> None:
    """Raise InputError unless this is a list of names of columns, or of numbers of columns of an array, each once."""
    listed = isinstance(columns, list | tuple)
    kinds = {str if isinstance(each, str) else type(each) for each in columns} if listed else set()
    if kinds not in ({str}, {int}) or len(set(columns)) < len(columns):
        raise InputError(
            "columns must be names of columns (of an array, their numbers) in a list, each once, at least one"
        )


def lists_by_column(by: Any, groups: Any) -> dict[str, Any]:
    """Return the given list of groups, or None, for each column of `by` (a name or list of names); raise InputError if invalid."""
    if isinstance(by, str):
        return {by: groups}
    if not isinstance(by, list | tuple) or not by or not all(isinstance(name, str) for name in by):
        raise InputError(
            "by must be the name of a column or a list of names (-1: the last column of arrays of numbers)"
        )
    given = {} if groups is None else groups
    if len(set(by)) < len(by) or not isinstance(given, Mapping) or not set(given) <= set(by):
        raise InputError(
            "by= must name each column once; for several, groups must map them to lists of groups"
        )
    return {name: given.get(name) for name in by}


def rows_of_keys(private: Any, keys: Sequence[Keys], public: Any) -> Rows:
    """Open private rows with one column for each list of keys; reads the schema only, no values.

    A last column says which rows there are, if some may pad a person.
    """
    names = [each.name for each in keys]
    texts = {str(each.name): TextsOrOther(each.levels) for each in keys if each.is_text}  # type: ignore[arg-type]
    columns: Any = None if names == [None] else TextColumns(names, texts) if texts else names
    if names == [None] and texts:
        # A source without names cannot have texts: opening it raises InputError.
        columns = TextColumns(None, {"": TextsOrOther(())})
    with naming("x_priv"):
        rows = private_rows(private, columns=columns)
    if public is not None:
        refuse_shared_memory(private, public, columns=columns)
    if rows.dim != len(keys):
        raise InputError(f"name the column by column=: x_priv has {rows.dim} columns")
    return rows if rows.presence is None else beside(rows, rows.presence)


def sizes_of(tables: Sequence[Sequence[Keys]], rows: Rows) -> list[int]:
    """Return the number of cells of each table; rows that a person does not have are in a cell of their own."""
    return [math.prod(each.size for each in own) + (rows.presence is not None) for own in tables]


class Shown(NamedTuple):
    """How counts are shown: the number of the largest, None for all, and the multiple to which they are rounded."""

    top: int | None = None
    round_to: int = 1

    @classmethod
    def of(cls, top: Any, round_to: Any) -> Shown:
        """Return the checked arguments of a public function."""
        return cls(
            None if top is None else validation.integer("top", top, minimum=1),
            validation.integer("round_to", round_to, minimum=1, maximum=MOST_ROUNDING),
        )


def _count_known(
    name: str,
    private: Any,
    public: Any,
    keys: Sequence[Keys],
    budget: Budget,
    shown: Shown,
    **asked: Any,
) -> CountResult:
    """Release the counts of all combinations of keys: one histogram in which every row has one cell."""
    rows = rows_of_keys(private, keys, public)
    (cells,) = sizes_of([keys], rows)
    if cells > MOST_CELLS:
        raise InputError(
            f"{name}: {cells:,} combinations of keys are too many, at most {MOST_CELLS:,}: list fewer keys or columns"
        )
    run = session.start(name, rows, budget, draws=cells, **asked)
    spending = run.account.spending
    spending.grid("count", cells, rows.n)  # raises before the debit if there is no noise grid
    with run.paid():
        return count_keys(run, [keys], spending.allowance, shown, "counts of keys")[0]


def count_keys(
    run: Session, tables: Sequence[Sequence[Keys]], cost: Fraction, shown: Shown, name: str
) -> tuple[CountResult, ...]:
    """Release, at once, the counts of all combinations of keys of the only table, or of the keys of several columns."""
    keys = [each for own in tables for each in own]
    padded = run.rows.presence is not None
    sizes = sizes_of(tables, run.rows)
    codes = code_of(keys, joint=len(tables) == 1, present=padded)
    measured = CodeCounts(codes=codes, cells=sizes, row_cost=ROW_COST * len(keys))
    released = run.release(measured, name=name, cost=cost)
    results = []
    for own, part, cells in zip(
        tables, np.split(released.value, np.cumsum(sizes)[:-1]), sizes, strict=True
    ):
        # Every row has one key, so the counts must add up to the public number of rows: the excess is noise.
        counts = part + (run.rows.n - float(part.sum())) / cells
        noise_std = math.sqrt(1.0 - 1.0 / cells)
        noise_std *= released.noise_std
        rows_used = None
        if padded:
            rows_used = run.rows.n - float(counts[-1])
            counts = counts[:-1]
        words = tuple(product(*((*each.levels, OTHER, MISSING) for each in own)))
        by = tuple(each.label for each in own)
        named = np.array([not {OTHER, MISSING} & set(key) for key in words])
        reasons = first_of(
            [(named & (counts <= LEAST_STDS * noise_std), Reason.FEW_ROWS)], len(counts)
        )
        fields = {**run.fields(0), "dim": len(own), "columns": None if own[0].name is None else by}
        results.append(
            CountResult(
                by=by,
                keys=words,
                counts=frozen(counts),
                rows_used=rows_used,
                part_reasons=reasons,
                noise_std=noise_std,
                top=shown.top,
                round_to=shown.round_to,
                noise_law=run.account.spending.law,
                provenance={"keys": "public"},
                **fields,
            )
        )
    return tuple(results)


def _count_unknown(
    x_priv: Any, column: str | int | None, budget: Budget, most: int, shown: Shown, **asked: Any
) -> CountResult:
    """Release the counts of the texts of a column whose noisy count reaches a threshold."""
    if not has_delta(budget):
        raise BudgetError(
            "without a list of keys a delta is needed, for texts that single rows have: pass keys=, x_pub= with this column, or "
            "ApproxDP(epsilon=..., delta=...)"
        )
    if not isinstance(column, str):
        raise InputError(
            "name the column of text by column=; numbers need keys=, x_pub=, or stable_histogram"
        )
    words = []
    # each column of integers encodes WORD_BYTES bytes of the text
    for first in range(0, most, WORD_BYTES):
        with naming("x_priv"):
            of_word = TextColumns([column], {column: TextWord(first, most)})
            words.append(private_rows(x_priv, columns=of_word))  # type: ignore[arg-type]
    texts_of_rows = functools.reduce(beside, words)
    dim = texts_of_rows.dim
    n = texts_of_rows.n
    rows = with_absences(texts_of_rows, (0.0,) * dim)
    partition = labeling_absences(
        Partition(tuple(range(dim)), (BinRule(1.0),) * dim), texts_of_rows
    )
    slots = partition.slots(rows.n)
    run = session.start("value_counts", rows, budget, draws=slots, **asked)
    check_memory([partition], rows.n, run.executor)
    session.require_memory("value_counts", rows.dim, table_memory([partition], rows.n))
    stable_event(*run.account.approx_left, histograms=1, n=rows.n, draws=slots, law=None)
    with run.paid():
        released = run.release(
            StableHistograms(partitions=[partition]),
            name="counts of texts",
            cost=run.account.approx_left,
        )
        bins, rows_used = without_absences(released.histograms[0], partition, n)
        texts = [text_of_words(words) for words in bins.keys.tolist()]
        order = sorted(range(len(texts)), key=lambda place: texts[place])
        return CountResult(
            by=(column,),
            columns=(column,),
            keys=tuple((texts[place],) for place in order),
            counts=frozen(bins.counts[order]),
            part_reasons=((),) * len(order),
            noise_std=released.noise_std,
            noise_law=released.event.law,
            top=shown.top,
            round_to=shown.round_to,
            rows_used=None if math.isnan(rows_used) else rows_used,
            threshold=released.threshold,
            provenance={"keys": "released"},
            **{**run.fields(0), "dim": 1},
        )


def _is_text_column(x_priv: Any, keys: Any, x_pub: Any) -> bool:
    """Return whether a list or array without names is read as text: by its public keys, else by its own cells."""
    if keys is None and x_pub is None:
        return is_texts(x_priv)
    objects = isinstance(x_priv, np.ndarray) and x_priv.ndim == 1 and x_priv.dtype.kind in "UTO"
    public_texts = is_texts(keys) if keys is not None else texts_of_column(x_pub, "0") is not None
    return public_texts and (objects or is_texts(x_priv))


@shared_docs
@user_level
def value_counts(
    x_priv: Any,
    *,
    budget: Budget,
    column: str | int | None = None,
    keys: Any = None,
    x_pub: Any = None,
    by: Any = None,
    groups: Any = None,
    top: int | None = None,
    round_to: int = 1,
    max_bytes: int = 24,
    person: Any = None,
    keep: Keep | None = None,
    rows_per_person: RowsPerPerson | None = None,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> CountResult:
    """Counts of the rows that have each value of a column, with intervals.

    Parameters
    ----------
    {values}
    {budget}
        Without `keys` and `x_pub` it must be ApproxDP.
    column : str or int, optional
        Name of the column, or its number in an array; not needed where there is one only.
    keys : list of texts or of numbers, optional
        The values to count, known without the private rows. Every other value counts as "(other)", and a cell without one as
        "(missing)".
    x_pub : frame, table, path or array, optional
        Public rows whose distinct values are the keys.
    by : str or list of str, optional
        The columns, of text or of numbers, whose cells name the group of a row: each group has a count of each key.
    groups : list of texts or of numbers, or mapping, optional
        The groups, known without the private rows; for several columns column -> list. By default the distinct cells of `x_pub`.
    top : int, optional
        Show this many of the largest counts, with the ranks that each may have. It changes nothing that is released.
    round_to : int
        Round the counts for readers (`published`) and the ends of their intervals to multiples of this, such as 100.
    max_bytes : int
        Where no keys are listed, a longer text (in UTF-8, without the blanks around it) is not counted.
    {person, keep, rows_per_person, ledger, random_state, threads, progress}

    Returns
    -------
    CountResult
        `keys`, `counts`, `published` counts, shares, intervals, ranks and reasons for each; `difference` and `ratio` of two keys.

    Raises
    ------
    {raises}

    Privacy
    -------
    Neighbors: replace one row. With keys: one count in which every row has one cell, squared l2 sensitivity 2 S^2, l1 sensitivity
    2 S; Gaussian noise (zCDP, approximate DP) or discrete Laplace noise (pure DP), and no delta of its own. Without: a stable
    histogram (StableHistogramEvent) over all texts of max_bytes. Public: n_priv, keys.

    Notes
    -----
    With listed keys, all counts add up to n_priv. An unlisted text is encoded as integers of six bytes each: the code depends on
    that cell alone and is injective. Only texts whose noisy count reaches a threshold are released.

    Examples
    --------
    >>> import pandas
    >>> from fastpubpriv import ApproxDP, ZCDP, value_counts
    >>> visits = pandas.DataFrame({"ward": ["north"] * 5000 + ["south"] * 3000 + ["attic"]})
    >>> value_counts(visits, keys=["north", "south"], budget=ZCDP(rho=0.1)).keys
    (('north',), ('south',), ('(other)',), ('(missing)',))
    >>> result = value_counts(visits, budget=ApproxDP(epsilon=1, delta=1e-8))
    >>> result.keys, bool(abs(result["north"] - 5000) < 100)
    ((('north',), ('south',)), True)
    """
    shown = Shown.of(top, round_to)
    most = validation.integer("max_bytes", max_bytes, minimum=1, maximum=MOST_BYTES)
    asked = session.asked(ledger, random_state, threads, progress)
    if by is not None or groups is not None:
        given = lists_by_column(by, groups)
        if column is None or column in given:
            raise InputError("name the column that is counted by column=; it is none of by=")
        levels = [
            *(keys_of(*each, x_pub, "groups") for each in given.items()),
            keys_of(column, keys, x_pub),
        ]
        return _count_known("value_counts", x_priv, x_pub, levels, budget, shown, **asked)
    if is_series(x_priv):
        x_priv = (x_priv.rename("0") if x_priv.name in (None, "") else x_priv).to_frame()
    if column is None and is_frame(x_priv) and len(x_priv.columns) == 1:
        column = x_priv.columns[0]
    if column is None and (is_arrow_column(x_priv) or _is_text_column(x_priv, keys, x_pub)):
        column = "0"
    if column is not None and not isinstance(column, str) and type(column) is not int:
        raise InputError(
            f"column must be the name of a column, or its number in an array, got {type(column).__name__}"
        )
    if keys is None and x_pub is None:
        return _count_unknown(x_priv, column, budget, most, shown, **asked)
    if keys is not None and x_pub is not None:
        raise InputError("pass keys= or x_pub=, whose values are the keys, not both")
    return _count_known(
        "value_counts", x_priv, x_pub, [keys_of(column, keys, x_pub)], budget, shown, **asked
    )


@shared_docs
@user_level
def crosstab(
    x_priv: Any,
    *,
    columns: Sequence[str | int],
    budget: Budget,
    keys: Mapping[str, Any] | None = None,
    x_pub: Any = None,
    top: int | None = None,
    round_to: int = 1,
    person: Any = None,
    keep: Keep | None = None,
    rows_per_person: RowsPerPerson | None = None,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> CountResult:
    """Counts of the rows that have each combination of the values of several columns, with intervals.

    Parameters
    ----------
    {x_priv}
    columns : sequence of str or int
        Names of the columns, of text or of numbers, or their numbers in an array.
    {budget}
    keys : mapping, optional
        Column -> list of texts or of numbers, known without the private rows. Every other value counts as "(other)", and a cell
        without one as "(missing)".
    x_pub : frame, table or path, optional
        Public rows; the keys of a column that `keys` does not list are its distinct public values.
    top : int, optional
        Show this many of the largest counts, with the ranks that each may have. It changes nothing that is released.
    round_to : int
        Round the counts for readers (`published`) and the ends of their intervals to multiples of this, such as 100.
    {person, keep, rows_per_person, ledger, random_state, threads, progress}

    Returns
    -------
    CountResult
        As that of `value_counts`; `to_table()`, and `to_frame()["count"].unstack()`, have an axis for each column.

    Raises
    ------
    {raises}

    Privacy
    -------
    Neighbors: replace one row. One count in which every row has one cell: squared l2 sensitivity 2 S^2, l1 sensitivity 2 S,
    however many columns and keys there are. Gaussian noise (zCDP, approximate DP) or discrete Laplace noise (pure DP), and no delta
    of its own. Public: n_priv, keys.

    Notes
    -----
    The noise of a count is that of `value_counts`; a sum of m counts has the noise of m. The counts add up to n_priv.

    Examples
    --------
    >>> import pandas
    >>> from fastpubpriv import ZCDP, crosstab
    >>> visits = pandas.DataFrame({"ward": ["north", "south"] * 4000, "night": [0, 0, 0, 1] * 2000})
    >>> result = crosstab(visits, columns=["ward", "night"], keys={"ward": ["north", "south"], "night": [0, 1]}, budget=ZCDP(rho=1))
    >>> result.to_table().shape, bool(abs(result["south", 1.0] - 2000) < 20)
    ((4, 4), True)
    """
    require_columns(columns)
    given: Mapping[Any, Any] = {} if keys is None else keys
    if not isinstance(given, Mapping) or not set(given) <= set(columns):
        raise InputError("keys must map columns of columns= to lists of keys")
    shown = Shown.of(top, round_to)
    asked = session.asked(ledger, random_state, threads, progress)
    lists = [(name, given.get(name)) for name in columns]
    return _count_known(
        "crosstab", x_priv, x_pub, [keys_of(*each, x_pub) for each in lists], budget, shown, **asked
    )
