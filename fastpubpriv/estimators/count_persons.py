"""Numbers of persons by key: how many different persons have a row in each ward, or in each ward and month.

Privacy note: `mechanisms/notes/person_keys.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, Literal

import numpy as np

from fastpubpriv import session, validation
from fastpubpriv._types import FloatArray, KeysPerPerson
from fastpubpriv.errors import InputError
from fastpubpriv.estimators.key_lists import (
    MOST_CELLS,
    Keys,
    code_of,
    keys_of,
    lists_by_column,
    predicted_share,
    public_rows_of,
    rows_of_keys,
    sources_of,
)
from fastpubpriv.estimators.person_sizes import (
    CHOICE_SHARE,
    MANY_MORE,
    MORE_SHARE,
    PersonSizes,
    on_numbers,
    release_sizes,
    release_with_more,
)
from fastpubpriv.estimators.user_level import takes_tables
from fastpubpriv.kernels.rows import Codes
from fastpubpriv.mechanisms.person_keys import PersonKeys, changed_cells
from fastpubpriv.mechanisms.sums import Released
from fastpubpriv.privacy import Budget, Ledger
from fastpubpriv.privacy.spending import Spending, spending_of
from fastpubpriv.results.base import frozen
from fastpubpriv.results.by_key import LEAST_STDS, MISSING, OTHER
from fastpubpriv.results.person_counts import PersonCounts
from fastpubpriv.results.reasons import Reason, first_of
from fastpubpriv.session import Session
from fastpubpriv.sources.arrow_streams import held_in_memory
from fastpubpriv.sources.keys_of_persons import KeysOfPersons, keys_of_persons
from fastpubpriv.sources.person_table import (
    MOST_ROWS,
    PersonRows,
    in_words,
    name_of_persons,
    people_of_table,
    shown_more,
)
from fastpubpriv.sources.row_types import Persons, Rows, condition_of, derivations
from fastpubpriv.threads.guard import call_guarded

MOST_LIMIT = MOST_ROWS // 2  # largest number of keys below all of them that "auto" chooses
ALL_KEYS = 8  # keys up to which all of a person's count: noise of sqrt(8) cells at most
# the only key without by=, of persons with a row inside a condition
ROWS = "rows"
INSIDE = "inside"
UNREADABLE = "x_priv cannot be read: are its columns those that it was opened with?"


@dataclass(frozen=True, slots=True, eq=False)
class KeyLimit:
    """How many keys of a person count, and what was released about persons that have more."""

    most: int
    about: str  # in public words
    left_out: float = 0.0  # most persons by which a count is expected to be too low, with noise
    left_out_std: float = 0.0  # standard deviation of that noise
    are_many: bool = False  # whether surely more than a fiftieth of the persons have more


def checked_limit(keys_per_person: Any, cells: int) -> int | None:
    """Return the number of keys of a person that count, or None where "auto" chooses.

    Half of the keys change as many cells as all of them, so that a number from there on takes all.
    """
    if isinstance(keys_per_person, str):
        validation.number_or_auto("keys_per_person", keys_per_person)
        return cells if cells <= ALL_KEYS else None
    most = validation.integer("keys_per_person", keys_per_person, minimum=1, maximum=MOST_ROWS)
    return cells if 2 * most >= cells else most


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """The cells of the histogram, the number of keys of a person that count (None: chosen), and shares of the budget."""

    cells: int
    limit: int | None
    where: str = ""  # " where ..." for rows inside a condition

    @property
    def side_share(self) -> Fraction:
        """Share of the budget for what is released about the keys of persons."""
        if self.limit is None:
            return CHOICE_SHARE
        return Fraction(0) if self.limit == self.cells else MORE_SHARE

    @property
    def share(self) -> Fraction:
        """Share of the budget for the counts."""
        return 1 - self.side_share

    @property
    def side_cells(self) -> int:
        """Number of cells that are released about the keys of persons, at most."""
        return len(sizes_of_keys(self.cells)) if self.limit is None else 1

    def check(self, spending: Spending, persons: int) -> None:
        """Raise unless there is a noise grid for each number of keys that may count."""
        limits = limits_tried(self.cells) if self.limit is None else [self.limit]
        for most in limits:
            changed = changed_cells(int(most), self.cells)
            spending.part(self.share).grid("keys", self.cells, persons, parts=changed)
        if self.side_share:
            kind: Literal["count", "keys"] = "count" if self.limit is None else "keys"
            spending.part(self.side_share).grid(kind, self.side_cells, persons)


def predict(cells: int, limit: int) -> session.Predictor:
    """Return a `Predictor` of the noise of a count, as a share of the persons, of each of whom so many keys count."""
    plan = KeyPlan(cells, limit)
    changed = changed_cells(limit, cells)

    def predicted(persons: int, budget: Budget) -> session.PredictedError:
        spending = spending_of(budget, cells + plan.side_cells)
        return predicted_share(spending.std("keys", changed, plan.share), persons)

    return predicted


def sizes_of_keys(cells: int) -> FloatArray:
    """Return the largest number of keys of each cell of persons, 1, 2, 3, 4, 6, 8, 11, 16, ...: two cells an octave."""
    octaves = math.log2(2 * MOST_LIMIT)
    ends = np.unique(np.rint(2.0 ** (np.arange(2.0 * octaves) / 2.0)))
    return np.append(ends[ends < cells], min(cells, 2 * MOST_LIMIT))


def limits_tried(cells: int) -> FloatArray:
    """Return the numbers of keys that "auto" chooses from: `sizes_of_keys` below half of all keys, and all if these are few."""
    ends = sizes_of_keys(cells)
    below = ends[(2.0 * ends < cells) & (ends <= MOST_LIMIT)]
    return below if cells > 2 * MOST_LIMIT else np.append(below, float(cells))


def best_limit(sizes: PersonSizes, cells: int, spending: Spending) -> int:
    """Return the number of keys with the least predicted mean squared error of a count."""
    tried = limits_tried(cells)
    counts = sizes.projected
    lost = float(sizes.typical @ counts) - sizes.used(tried, counts)
    noise = [spending.std("keys", changed_cells(int(most), cells)) for most in tried]
    return int(tried[np.argmin(np.square(noise) + np.square(lost / cells))])


def dropped_shares(most: int, sizes: FloatArray, cells: int) -> FloatArray:
    """Return the largest share of the keys of a person in each cell of sizes that does not count, if `most` do."""
    shares = np.maximum(1.0 - most / sizes, 0.0)
    if sizes[-1] < cells:  # a cell without an end
        shares[-1] = 1.0
    return shares


def limit_of_choice(run: Session, distinct: KeysOfPersons, plan: KeyPlan) -> KeyLimit:
    """Release the keys per person, and choose how many count."""
    cells = plan.cells
    counting = on_numbers(run, distinct.sizes[:, None])
    cost = run.account.allowance * CHOICE_SHARE
    sizes = release_sizes(counting, sizes_of_keys(cells), cost, "keys per person")
    most = best_limit(sizes, cells, run.account.spending.part(1 - CHOICE_SHARE))
    run.log[-1] |= {"keys_per_person": most}
    if most == cells:
        return KeyLimit(most, about_all(plan, distinct.persons))
    record = sizes.with_more(int(np.searchsorted(sizes.most, most)))
    run.log[-1] |= record
    # A person with d keys loses d - m of them: in a given key, as many persons as these shares of persons at most.
    dropped = dropped_shares(most, sizes.most, cells)
    left_out = float(np.clip(dropped @ sizes.counts, 0.0, distinct.persons))
    left_out_std = sizes.noise_std * float(np.linalg.norm(dropped))
    about = f"{about_some(plan, most, distinct.persons)}; {shown_more(most, 'key', record)}"
    return KeyLimit(most, about, left_out, left_out_std, record[MANY_MORE])


def limit_of_caller(run: Session, distinct: KeysOfPersons, plan: KeyPlan, most: int) -> KeyLimit:
    """Release how many persons have more keys than the caller lets count."""
    cost = run.account.allowance * MORE_SHARE
    more = release_with_more(run, distinct.sizes > most, cost, "persons with more keys")
    about = f"{about_some(plan, most, distinct.persons)}; {shown_more(most, 'key', more.record)}"
    left_out = float(np.clip(more.persons, 0.0, distinct.persons))
    return KeyLimit(most, about, left_out, more.noise_std, more.record[MANY_MORE])


def about_all(plan: KeyPlan, persons: int) -> str:
    """Return what is counted where every key of a person counts."""
    keys = f"rows{plan.where}" if plan.cells == 1 else f"all keys of rows{plan.where}"
    return f"{keys if plan.where else 'all keys'} of each of {persons:,} persons"


def about_some(plan: KeyPlan, most: int, persons: int) -> str:
    """Return what is counted where at most this many keys of a person count."""
    of_rows = f" of rows{plan.where}" if plan.where else ""
    return f"at most {in_words(most, 'key')}{of_rows} of each of {persons:,} persons"


def count_keys_of_persons(
    run: Session, distinct: KeysOfPersons, plan: KeyPlan, most: int
) -> Released:
    """Release the number of persons with each key, of which at most so many of a person count."""
    measured = PersonKeys(keys_per_person=most, cells=plan.cells)
    cost = run.account.allowance * plan.share
    counting = on_numbers(run, distinct.first(most))
    return counting.release(measured, name="persons by key", cost=cost)


def checked_columns(by: Any, groups: Any, person: Any) -> dict[str, Any]:
    """Return the given list of keys, or None, for each column of `by`; raise InputError if one says whose row it is."""
    lists = lists_by_column(by, groups)
    if isinstance(person, str) and person in lists:
        raise InputError(
            f"column {person!r} says whose row it is: each person has one, so it cannot be counted by; name others by by="
        )
    return lists


@takes_tables
def count_persons(
    x_priv: Any,
    *,
    person: Any,
    by: Any = None,
    budget: Budget,
    groups: Any = None,
    x_pub: Any = None,
    keys_per_person: KeysPerPerson = "auto",
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> PersonCounts:
    """Numbers of different persons that have a row of each key, such as patients per ward and month, with intervals.

    Parameters
    ----------
    x_priv : (n_priv, dim) array-like, path, frame, table or Rows
        Private rows.
    person : str or (n_priv,) array-like
        Column that says whose row it is, or the identifiers themselves. All rows of a person are protected together (user-level
        privacy).
    by : str or list of str
        The columns whose cells are the key of a row. Under a condition (`where`) it may be left out: persons with a row inside are
        counted.
    budget : ZCDP, ApproxDP or PureDP
        Spent whole, and debited before `x_priv` is read.
    groups : list of texts, numbers, bools, dates, pandas Periods or Intervals, or mapping, optional
        The keys, of one kind, known without the private rows; for several columns column -> list, and all combinations are keys.
        Every other cell counts as "(other)", and a cell without a value as "(missing)".
    x_pub : frame, table or path, optional
        Public rows; the keys of a column that `groups` does not list are its distinct public values.
    keys_per_person : int or "auto"
        Most keys of a person that count, 1 to 4096, chosen as if at random; from half of all keys on all count, since they cost as
        much. "auto" takes all of up to 8; of more, a sixteenth of the budget counts persons with 1, 2, 3, 4, 5-6, 7-8, 9-11, ...
        keys to choose. Below half of all keys, a given number spends 1/64 on how many persons have more.

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
    PersonCounts
        `keys`, `counts`, intervals and reasons for each; "rows_left_out" if surely more than 2 % of the persons have more keys than
        count.

    Raises
    ------
    InputError, BudgetError, LedgerError
        For public data and arguments, the form of the private data, and the budget. Never for the content of `x_priv`.

    Privacy
    -------
    Protected: every person, against replacement of all of that person's rows by any other rows of that person, at least one.
    Public: identifiers, the keys, and keys_per_person unless it is "auto". Released with Gaussian noise (zCDP, approximate DP)
    or discrete Laplace noise (pure DP), and without a delta of its own: one count of persons by key, whose price grows with the
    keys that one person may have, and no further than the number of all keys; before it, where that is not yet known to be
    enough, a count of persons by number of keys, or of those who have more.

    Proofs: `notes/person_keys.md`, `notes/cell_counts.md`.

    See Also
    --------
    value_counts : rows, or persons with one row each.
    PrivateTable : a table that protects persons, for every other function.

    Notes
    -----
    The noise of a count has the standard deviation sqrt(c / (2 rho)), or sqrt(2) c / epsilon, however many rows persons have;
    `value_counts` of m rows of each person has m / sqrt(rho). The counts do not add up to the number of persons.

    Examples
    --------
    >>> import numpy as np, pandas
    >>> from fastpubpriv import ZCDP, count_persons
    >>> rng = np.random.default_rng(0)
    >>> visits = pandas.DataFrame({"patient": rng.integers(0, 4_000, 20_000), "ward": rng.choice(["north", "south"], 20_000)})
    >>> result = count_persons(visits, person="patient", by="ward", groups=["north", "south"], budget=ZCDP(rho=0.5))
    >>> truth = visits[visits.ward == "north"].patient.nunique()
    >>> result.n_priv == visits.patient.nunique(), bool(abs(result["north"] - truth) < 12)
    (True, True)
    """
    if person is None:
        raise InputError("person: name the column that says whose row it is")
    asked = session.asked(ledger, random_state, threads, progress)
    (x_priv,), public = held_in_memory((x_priv,), {"x_pub": x_pub})
    x_pub = public["x_pub"]
    condition = condition_of(x_priv)
    if by is None and not condition:
        _, marks = people_of_table(x_priv, person)
        raise InputError(
            f"the number of persons is public: {len(marks):,}; name the columns by which to count them by by=, such as a ward"
        )
    if by is None and groups is not None:
        raise InputError("groups= needs by=")
    lists = {} if by is None else checked_columns(by, groups, person)
    keys = [keys_of(name, given, x_pub, "groups", x_priv) for name, given in lists.items()]
    cells = math.prod(each.size for each in keys)
    if cells > MOST_CELLS:
        raise InputError(
            f"count_persons: {cells:,} combinations of keys are too many, at most {MOST_CELLS:,}: list fewer groups or columns"
        )
    where = f" where {condition}" if condition else ""
    plan = KeyPlan(cells, checked_limit(keys_per_person, cells), where)
    rows = rows_of_keys(x_priv, keys, x_pub) if keys else rows_inside(x_priv)
    people, marks = people_of_table(x_priv, person)
    if rows.n != len(people):
        raise InputError(
            "x_priv and person differ in length: one identifier for each row is needed"
        )
    blank = np.broadcast_to(np.nan, (len(marks), 1))
    whose = Persons(name_of_persons(person), rows_each=1)
    each_person = PersonRows(blank, "persons", None, whose)
    draws = cells + plan.side_cells
    run = session.start("count_persons", each_person, budget, draws=draws, **asked)
    plan.check(run.account.spending, len(marks))
    code = joint_code(keys, present=rows.may_be_absent)
    with run.paid():
        distinct = call_guarded(
            lambda: keys_of_persons(rows, code, cells, people, marks), UNREADABLE
        )
        limit = limit_of(run, distinct, plan)
        released = count_keys_of_persons(run, distinct, plan, limit.most)
        return result_of(run, keys, limit, released)


def rows_inside(x_priv: Any) -> Rows:
    """Return a column that says which rows are inside the condition of a table."""
    rows = next(each for each in derivations(x_priv) if each.condition).presence()
    assert rows is not None
    return rows


def joint_code(keys: list[Keys], *, present: bool) -> Callable[[Any], Codes]:
    """Return the map from a chunk of rows to the code of each row's key; 0 without keys.

    If `present`, the last column of a chunk says which rows there are.
    """
    if not keys:
        return lambda chunk: np.zeros(len(chunk), dtype=np.int32)
    codes = code_of(keys, present=present)
    return lambda chunk: codes(chunk)[0]


def limit_of(run: Session, distinct: KeysOfPersons, plan: KeyPlan) -> KeyLimit:
    """Return how many keys of a person count, after what is released for that."""
    if plan.limit is None:
        return limit_of_choice(run, distinct, plan)
    if plan.limit < plan.cells:
        return limit_of_caller(run, distinct, plan, plan.limit)
    return KeyLimit(plan.cells, about_all(plan, distinct.persons))


def result_of(run: Session, keys: list[Keys], limit: KeyLimit, released: Released) -> PersonCounts:
    """Return the result of the released counts."""
    counts = released.value
    by = tuple(each.label for each in keys) or (ROWS,)
    words = tuple(product(*(each.cells for each in keys))) if keys else ((INSIDE,),)
    named = np.array([not {OTHER, MISSING} & set(key) for key in words])
    few = named & (counts <= LEAST_STDS * released.noise_std)
    fields = run.fields(public_rows_of(keys))
    fields |= {
        "by": by,
        "columns": by,
        "dim": len(by),
        "provenance": {"keys": sources_of(keys) or "argument"},
    }
    fields |= {"noise_std": released.noise_std, "noise_law": run.account.spending.law}
    fields |= {"about": limit.about, "keys_per_person": limit.most}
    fields |= {"left_out": limit.left_out, "left_out_std": limit.left_out_std}
    if limit.are_many:
        fields["reasons"] = (Reason.ROWS_LEFT_OUT,)
    reasons = first_of([(few, Reason.FEW_ROWS)], len(counts))
    return PersonCounts(keys=words, counts=frozen(counts), part_reasons=reasons, **fields)
