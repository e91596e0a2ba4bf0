"""User-level privacy for every public function: `person=`, `rows_per_person=`, and the choice of the number of rows per person."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

import numpy as np

from fastpubpriv import session
from fastpubpriv._types import BoolArray, FloatArray, Keep, RowsPerPerson
from fastpubpriv.errors import FastPubPrivError, warn_after_debit, warnings_to
from fastpubpriv.estimators.person_sizes import (
    CELLS,
    CHOICE_SHARE,
    MANY_MORE,
    MORE_SHARE,
    PersonSizes,
    powers_of_two,
    release_sizes,
    release_with_more,
)
from fastpubpriv.privacy import Budget, Ledger, Neighbors
from fastpubpriv.privacy.calibrated_budget import row_budget
from fastpubpriv.privacy.spending import spending_of
from fastpubpriv.release.account import announce_debit, announcer, before_debit, check_ledger
from fastpubpriv.results.base import Result
from fastpubpriv.results.reasons import Reason
from fastpubpriv.sources import Rows
from fastpubpriv.sources.arrow_streams import held_in_memory
from fastpubpriv.sources.bound import BoundTable
from fastpubpriv.sources.open import has_column, without_column
from fastpubpriv.sources.person_table import (
    PersonRows,
    PersonTable,
    name_of_persons,
    rows_of_each,
    shown_more,
    stand_in,
    table_of_persons,
)
from fastpubpriv.sources.row_types import Persons, source_of

# in standard deviations of a row: clip radius, and assumed shift of dropped rows
CLIP_STDS = 3.0
UNLIKE_STDS = 0.2
# what the releases of one call add up to, of `Account.numerics`
ADDED_NUMERICS = {
    "noise_draws",
    "total_variation",
    "implementation_epsilon",
    "implementation_delta",
}

Function = TypeVar("Function", bound=Callable[..., Any])


def user_level(function: Function) -> Function:
    """Decorate a public function to protect persons, with `person=`, `keep=` and `rows_per_person=`."""

    @functools.wraps(function)
    def call(
        *given: Any,
        person: Any = None,
        keep: Keep | None = None,
        rows_per_person: RowsPerPerson | None = None,
        **named: Any,
    ) -> Any:
        x_priv: Any = given[0] if given else named.get("x_priv")
        if isinstance(x_priv, BoundTable):
            given, named = _arguments_but_rows(given, named)
            named |= {"person": person, "keep": keep, "rows_per_person": rows_per_person}
            return _of_table(call, x_priv, given, named)
        rule, k = stand_in(person, keep, rows_per_person)
        given, named = held_in_memory(given, named)
        x_priv = given[0] if given else named.get("x_priv")
        if person is None and not isinstance(x_priv, PersonTable | Rows):
            return function(*given, **named)
        if isinstance(x_priv, PersonTable):
            rule = x_priv.keep
        named.pop("x_priv", None)
        column = person if person is not None else getattr(x_priv, "person", None)
        # it may have the column as well
        if isinstance(column, str) and "x_pub" in named:
            if rule != "row" and has_column(named["x_pub"], column):
                named["x_pub"] = table_of_persons(named["x_pub"], column, rule, 1)
            elif named.get("columns") is None:
                named["x_pub"] = without_column(named["x_pub"], column)
        if isinstance(k, str):
            return _with_chosen(call, x_priv, person, given[1:], named)
        if person is not None:
            x_priv = table_of_persons(x_priv, person, rule, k)
        counts_more = getattr(x_priv, "more", None) is not None
        if counts_more and isinstance(named.get("budget"), Budget):
            return _with_rows_left_out(function, x_priv, given[1:], named)
        return _at_row_level(function, x_priv, given[1:], named)

    return call  # type: ignore[return-value]


def takes_tables(function: Function) -> Function:
    """Decorate a public function that finds persons itself, so that it takes a `PrivateTable` as private rows."""

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        x_priv: Any = given[0] if given else named.get("x_priv")
        if not isinstance(x_priv, BoundTable):
            return function(*given, **named)
        given, named = _arguments_but_rows(given, named)
        named = x_priv.arguments(inspect.signature(call).parameters, named)
        return function(x_priv.rows, *given, **named)

    return call  # type: ignore[return-value]


def _arguments_but_rows(
    given: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call but its private rows, which are the first one or named."""
    others = dict(named)
    if not given:
        del others["x_priv"]
    return given[1:], others


def _of_table(
    call: Callable[..., Any], table: BoundTable, given: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    """Return the result of a call about a `PrivateTable`, with its public rows, ledger and persons."""
    named = table.arguments(inspect.signature(call).parameters, named)
    person = named.pop("person")
    rule, k = table.stand_in(named.pop("keep"), named.pop("rows_per_person"))
    if person is None:
        return call(table.rows, *given, **named)
    if not isinstance(k, str):
        return call(table.persons(rule, k), *given, **named)
    # Of two first calls at once one chooses, and the other waits for it.
    with table.binding.lock:
        if table.binding.choice is None:
            keep_choice = functools.partial(setattr, table.binding, "choice")
            return _with_chosen(call, table.rows, person, given, named, keep_choice)
        k = table.binding.choice["rows_per_person"]
    return call(table.persons("row", k, is_chosen=True), *given, **named)


def _at_row_level(
    function: Callable[..., Any], x_priv: Any, given: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    """Return the result of a call that spends the budget of k rows of each person at row level."""
    k = x_priv.rows_per_person
    if k > 1 and "budget" in named:
        named = {**named, "budget": row_budget(named["budget"], k)}
    result = function(x_priv, *given, **named)
    if k > 1:
        result = result.widened(k)
    chosen = getattr(x_priv, "choice", None)
    return result if chosen is None else _with_reason(result, chosen)


def _with_reason(result: Any, record: dict[str, Any]) -> Any:
    """Return the result with the reason "rows_left_out" if surely many persons have more rows than are used."""
    if not record[MANY_MORE]:
        return result
    return replace(result, reasons=(*result.reasons, Reason.ROWS_LEFT_OUT))


def _also_about(result: Any, fact: str) -> Any:
    """Return the result with one more fact in `about`, its own and that of the results in its fields."""
    within = {}
    for each in fields(result):
        value = getattr(result, each.name)
        if isinstance(value, Result):
            within[each.name] = _also_about(value, fact)
        elif isinstance(value, tuple) and value and isinstance(value[0], Result):
            within[each.name] = tuple(_also_about(part, fact) for part in value)
    return replace(result, about=f"{result.about}; {fact}", **within)


def _with_rows_left_out(
    function: Callable[..., Any], x_priv: Any, given: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    """Run a call with a given number of rows; a part of its budget releases how many persons have more."""
    more: BoolArray = x_priv.more
    budget = named["budget"]
    ledger = named.get("ledger")
    persons = x_priv.persons
    k = persons.rows_each
    name = getattr(function, "__name__", "rows_per_person")
    check_ledger(name, ledger, Neighbors.REPLACE_PERSON, persons.name)
    counting = _prepare_count(name, persons.name, len(more), budget * MORE_SHARE, named)
    announce = announcer()
    debits: list[Budget] = []

    def debit_once() -> None:
        if not debits:
            announce()
            _debit(counting, budget, ledger, name, persons.name)
            debits.append(budget)

    rest = {**named, "budget": budget * (1 - MORE_SHARE), "ledger": None}
    with before_debit(debit_once):  # all checks have passed
        result = _at_row_level(function, x_priv, given, rest)
    if not debits:  # public rows suffice
        return result
    with before_debit(lambda: None), counting.paid():
        cost = counting.account.allowance
        record = release_with_more(counting, more, cost, "persons with more rows").record
    result = _also_about(result, shown_more(k, "row", record))
    releases = (*result.releases, *counting.log)
    numerics = _numerics_of_both(result, counting)
    result = replace(result, spent=budget, releases=releases, numerics=numerics)
    return _with_reason(result, record)


def _prepare_count(
    name: str, who: str | None, persons: int, share: Budget, named: dict[str, Any]
) -> session.Session:
    """Return the session that releases how many persons have more rows, after a check that `share` pays for it."""
    blank = np.broadcast_to(np.nan, (persons, 1))
    rows = PersonRows(blank, "persons", None, Persons(who, rows_each=1))
    # The call itself gives the same warnings.
    with warnings_to(lambda text, category: False):
        run = session.start(name, rows, share, draws=1, ledger=None, **_account_arguments(named))
    run.account.spending.grid("keys", 1, persons)
    return run


def _account_arguments(named: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call about the machine and the source of keys."""
    return {name: named.get(name) for name in ("random_state", "threads", "progress")}


def _debit(
    run: session.Session, budget: Budget, ledger: Ledger | None, name: str, who: str | None
) -> None:
    """Debit a whole budget, of which the account of a session has a part; first raise if there is no randomness."""
    run.account.book.keys.check()
    if ledger is not None:
        ledger.debit(budget, name=name, relation=Neighbors.REPLACE_PERSON, person=who)


def _numerics_of_both(result: Any, run: session.Session) -> dict[str, Any]:
    """Return the numerics of a call whose releases are those of a result and of a session: their errors add up."""
    more = run.account.numerics()
    added = {
        name: value + more.get(name, 0)
        for name, value in result.numerics.items()
        if name in ADDED_NUMERICS
    }
    return {**result.numerics, **added}


def _with_chosen(
    call: Callable[..., Any],
    x_priv: Any,
    person: Any,
    given: tuple[Any, ...],
    named: dict[str, Any],
    keep_choice: Callable[[dict[str, Any]], None] = lambda record: None,
) -> Any:
    """Run a call with "auto": a part of its budget chooses the number of rows, which is halved while the call refuses it."""
    # `keep_choice` receives the record of the choice that the result has been made with.
    budget = named.get("budget")
    ledger = named.get("ledger")
    if not isinstance(budget, Budget):
        return call(x_priv, *given, person=person, rows_per_person=1, **named)  # raises
    share = budget * CHOICE_SHARE
    rest = budget * (1 - CHOICE_SHARE)
    # Of all rows, inside a condition or not: later calls about a table have other conditions.
    sizes = rows_of_each(source_of(x_priv), person)
    who = name_of_persons(person)
    name = getattr(call, "__name__", "rows_per_person")
    at_rest = functools.partial(call, **{**named, "budget": rest})
    issued: set[str] = set()

    def is_new(text: str, category: type[Warning]) -> bool:
        repeated = text in issued
        issued.add(text)
        return not repeated

    # All checks and their warnings come before the debit: with warnings as errors nothing is spent.
    with warnings_to(is_new):
        blank = table_of_persons(x_priv, person, "row", 1, persons=len(sizes))
        try:
            with session.rehearsal():
                return at_rest(blank, *given)  # public rows suffice
        except session.WouldPay:
            pass
        _require_several(at_rest, x_priv, person, len(sizes), given)
        asked = _account_arguments(named)
        choice = RowsChoice.prepare(name, who, sizes, share, rest, ledger=None, **asked)
    announce_debit()
    _debit(choice.run, budget, ledger, name, who)  # one debit for the choice and the call
    later: list[tuple[str, type[Warning]]] = []

    def defer(text: str, category: type[Warning]) -> bool:
        if is_new(text, category):
            later.append((text, category))
        return False

    with warnings_to(defer), before_debit(lambda: None):  # both debits were announced as one
        k = choice.release()
        accepts = functools.partial(at_rest, ledger=None)
        result, record = _largest_accepted(accepts, x_priv, person, given, choice, k)
    keep_choice(record)
    for text, category in later:
        warn_after_debit(text, category)
    numerics = _numerics_of_both(result, choice.run)
    return replace(result, spent=budget, releases=(record, *result.releases), numerics=numerics)


def _require_several(
    call: Callable[..., Any],
    x_priv: Any,
    person: Any,
    persons: int,
    given: tuple[Any, ...],
) -> None:
    """Raise what a call with two rows of each person raises because it cannot tell absent rows from others, before the debit."""
    blank = table_of_persons(x_priv, person, "row", 2, persons=persons)
    with warnings_to(lambda text, category: False), session.rehearsal():
        try:
            call(blank, *given)
        except session.PaddedRowsError:
            raise
        # too little budget for two rows: the choice falls back to one
        except (session.WouldPay, FastPubPrivError):
            return


def _largest_accepted(
    call: Callable[..., Any],
    x_priv: Any,
    person: Any,
    given: tuple[Any, ...],
    choice: RowsChoice,
    k: int,
) -> tuple[Any, dict[str, Any]]:
    """Return the result of a call with k rows of each person, or k/2, k/4, ... if it refuses before reading, and the record."""
    while True:
        table = table_of_persons(x_priv, person, "row", k)
        table.choice = choice.record(k)
        begun: list[int] = []
        try:
            with before_debit(functools.partial(begun.append, k)):
                return call(table, *given), table.choice
        except FastPubPrivError:
            # An error after the first pass began must not start a second noisy run.
            if begun or k == 1:
                raise
        k //= 2


@dataclass(slots=True, eq=False)
class RowsChoice:
    """Choice of the rows per person by noisy counts of persons with 1, 2, 3-4, ... rows: first `prepare`, then `release`."""

    run: session.Session
    # standard deviation of noise on a sum of rows of the rest of the budget, with one row per
    # person
    row_noise: float
    sizes: PersonSizes | None = None
    # of the rows, by the logarithm of k
    shares_used: FloatArray = field(default_factory=lambda: np.zeros(CELLS))

    @classmethod
    def prepare(
        cls,
        name: str,
        who: str | None,
        sizes: FloatArray,
        share: Budget,
        rest: Budget,
        **asked: Any,
    ) -> RowsChoice:
        """Check that `share` pays for the counts; nothing is debited."""
        rows = PersonRows(sizes[:, None], "rows per person", None, Persons(who, rows_each=1))
        run = session.start(name, rows, share, draws=CELLS, **asked)
        run.account.spending.grid("count", CELLS, rows.n)  # raises if the noise is out of range
        return cls(run, spending_of(rest, CELLS).std("sum"))

    def release(self) -> int:
        """Debit; return the number of rows with the least predicted error of a mean."""
        with self.run.paid():
            cost = self.run.account.allowance
            self.sizes = sizes = release_sizes(
                self.run, powers_of_two(CELLS), cost, "rows per person"
            )
            rows_used = np.maximum(sizes.used(sizes.most, sizes.shrunk), 1.0)
            rows_of_all = float(sizes.typical @ sizes.shrunk)
            self.shares_used = rows_used / max(rows_of_all, float(rows_used[-1]))
            # Squared error of a mean, in standard deviations of a row: noise, sampling, and bias by dropped rows.
            noise_error = (CLIP_STDS * sizes.most * self.row_noise / rows_used) ** 2
            error = noise_error + 1.0 / rows_used + (UNLIKE_STDS * (1.0 - self.shares_used)) ** 2
            return 1 << int(np.argmin(error))

    def record(self, k: int) -> dict[str, Any]:
        """Return the record of the release, with the rows in use and the persons that have more."""
        cell = k.bit_length() - 1
        more = {} if self.sizes is None else self.sizes.with_more(cell)
        share = float(min(self.shares_used[cell], 1.0))
        return {**self.run.log[0], "rows_per_person": k, "share_of_rows_used": share, **more}
