"""The ledger: one total budget, debited before private data is read, never refunded."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from fastpubpriv.errors import BudgetError, InputError, LedgerError
from fastpubpriv.privacy.budgets import (
    ZCDP,
    ApproxDP,
    Budget,
    Cost,
    Neighbors,
    PureDP,
    checked_relation,
    short,
)
from fastpubpriv.privacy.conversions import pure_to_zcdp
from fastpubpriv.privacy.events import Event
from fastpubpriv.privacy.ledger_file import LedgerFile, OpenFile, Position, Turn, checked_timeout
from fastpubpriv.threads.processes import here


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One debit: its number (1, 2, ...), the name that the caller gave, and the exact cost in the ledger's notion.

    Examples
    --------
    >>> import fastpubpriv as fpp
    >>> ledger = fpp.Ledger(fpp.ZCDP(rho=1))
    >>> number = ledger.debit(fpp.ZCDP(rho=0.25), name="mean of 2026")
    >>> ledger.entries[0].name
    'mean of 2026'
    """

    number: int
    name: str
    cost: Cost


@dataclass(frozen=True, slots=True)
class _State:
    """What the debits so far have left: position in the file, their number and exact sum, and the name of the persons, if any."""

    position: Position
    count: int
    spent: Cost
    person: str | None = None

    def after(self, position: Position, cost: Cost, person: str | None) -> _State:
        """Return the state after one more debit; the first name of persons stays."""
        return _State(position, self.count + 1, self.spent + cost, self.person or person)


def cost_in(notion: type[Budget], amount: Budget | Cost | Event) -> Cost:
    """Return the exact cost of `amount` in a ledger of `notion`; BudgetError if no exact conversion exists."""
    # Pure epsilon costs (epsilon, 0) in ApproxDP and at most epsilon tanh(epsilon/2) in ZCDP.
    if isinstance(amount, Event | Budget):
        amount = amount.cost
    if not isinstance(amount, Cost):
        raise BudgetError(
            f"a debit must be a budget, a Cost or an event, got {type(amount).__name__}"
        )
    if amount.notion is notion:
        return amount
    if amount.notion is PureDP:
        (epsilon,) = amount.amounts
        if notion is ApproxDP:
            return Cost(ApproxDP, (epsilon, Fraction(0)))
        return Cost(ZCDP, (pure_to_zcdp(epsilon),))
    advice = {
        ZCDP: "debit a ZCDP or PureDP budget",
        PureDP: "debit a PureDP budget, or open a ledger with ZCDP or ApproxDP as its total",
        ApproxDP: "debit the ApproxDP budget from which the noise was calibrated, or open a ZCDP ledger",
    }[notion]
    raise BudgetError(
        f"a {notion.__name__} ledger cannot be debited in {amount.notion.__name__}; {advice}"
    )


# Maximum number of debits that a page shows: the last ones.
MOST_IN_PAGE = 60


def _cells(texts: Iterable[str], tag: str) -> str:
    """Return the escaped cells of a row of an HTML table."""
    return "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in texts)


def _short_text(value: object, name: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 200 or not value.isprintable():
        raise InputError(
            f"{name} must be a printable text of 1 to 200 characters, without private content"
        )
    return value


class Ledger:
    """A total budget for one data set and the debits against it, in memory or in a file shared by processes.

    Parameters
    ----------
    total : ZCDP, ApproxDP or PureDP
        Maximum cost of all releases together. Never changes.
    path : str or path, optional
        File to keep the debits in. It is created if missing; an existing one must have the same total, label and
        relation.
    label : str, optional
        Description of the data set. Do not put private content here.
    relation : Neighbors
        Neighboring relation of the total; every debit must state the same relation. A total of REPLACE_PERSON is for one kind of
        person: see `debit`.
    timeout : float
        Seconds to wait for another process that holds the file; finite, 0 does not wait.

    Raises
    ------
    InputError
        The path, label or timeout is invalid.
    LedgerError
        The file is corrupt, foreign, rolled back, locked or cannot be written; nothing was charged unless the message
        says so.
    BudgetError
        The debit is larger than what remains, or of a notion that has no exact cost in this ledger.

    Guarantees
    ----------
    When `debit` returns, the cost is on disk (file mode). A crash at any time leaves a readable file whose total is
    at least the sum of the debits that returned. Threads and processes may debit at once; the total is exact and
    never exceeded. A file ledger goes on working in forked children, and no child keeps it locked. A child cannot
    debit an in-memory ledger, because the two copies could not see each other; it can read what was spent before the
    fork. Ctrl-C at any moment leaves nothing locked or open. A signal handler that uses the ledger during an operation of its own
    thread gets a LedgerError instead of a deadlock. A ledger cannot be pickled or copied.

    Notes
    -----
    A crash between write and return, an interrupt, or a failed fit leaves the cost charged. Half a line at the end of
    the file (a power cut) is an error until `Ledger.repair` moves it aside: its debit never returned, so no data was
    read under it. A live ledger notices when the file has lost a debit that it has seen, also if others have been
    written since. A process that starts afterwards cannot: an older copy of the file is a valid file.

    Examples
    --------
    >>> with Ledger(ZCDP(1), label="survey 2024") as ledger:
    ...     number = ledger.debit(ZCDP(0.25), name="mean")
    >>> ledger
    Ledger(total=ZCDP(rho=1.0), remaining=Cost(ZCDP, rho=0.75), entries=1)
    """

    def __init__(
        self,
        total: Budget,
        *,
        path: str | os.PathLike[str] | None = None,
        label: str | None = None,
        relation: Neighbors = Neighbors.REPLACE_ONE,
        timeout: float = 10.0,
    ) -> None:
        if not isinstance(total, Budget):
            raise BudgetError(f"total must be ZCDP, ApproxDP or PureDP, got {type(total).__name__}")
        checked_relation(relation)
        wait = checked_timeout(timeout)
        file = None if path is None else LedgerFile(path, wait)
        self._start(
            total, relation, None if label is None else _short_text(label, "label"), file, new=True
        )

    def _start(
        self,
        total: Budget,
        relation: Neighbors,
        label: str | None,
        file: LedgerFile | None,
        *,
        new: bool,
    ) -> None:
        self._total = total
        self._relation = relation
        self._label = label
        self._turns: dict[tuple[int, int], Turn] = {}
        self._home = here()
        self._closed = False
        self._entries: list[LedgerEntry] = []
        # one assignment, which an interrupt cannot split
        self._state = _State(Position(), 0, Cost.zero(type(total)))
        self._file = file
        if file is not None:
            if new:
                file.create(self._header())
            else:
                file.sync_directory()
            self._current()
            file.remove_leftovers()

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], *, timeout: float = 10.0) -> Ledger:
        """Open an existing ledger file with the total, label and relation that it holds."""
        file = LedgerFile(path, timeout)
        header = file.locked(lambda held: file.read_from(held, Position())[0][0], write=False)
        try:
            total = Budget.from_dict(header["total"])
            relation = Neighbors(header["relation"])
            label = header["label"]
            label = None if label is None else _short_text(label, "label")
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise LedgerError(
                f"ledger file {str(file.path)!r} has an unreadable header ({type(error).__name__})"
            ) from None
        # Not through __init__, which would create a file that vanished in between.
        ledger = cls.__new__(cls)
        ledger._start(total, relation, label, file, new=False)
        return ledger

    @staticmethod
    def repair(path: str | os.PathLike[str], *, timeout: float = 10.0) -> int:
        """Move half a line at the end of the file into `<path>.torn-...`; return its size in bytes, or 0.

        Use it only after a power cut. If somebody may have truncated the file, debits are missing: do not use the file
        again.
        """
        file = LedgerFile(path, timeout)
        return file.locked(file.repair, write=True)

    def debit(
        self,
        cost: Budget | Cost | Event,
        *,
        name: str,
        relation: Neighbors | None = None,
        person: str | None = None,
    ) -> int:
        """Charge `cost` and return the number of the entry. Call it before private data is read; there is no refund.

        Parameters
        ----------
        cost : budget, Cost or event
            In the ledger's notion, or PureDP.
        name : str
            Purpose of the debit; 1 to 200 printable characters without private content.
        relation : Neighbors, optional
            The relation under which `cost` holds; the ledger's own if omitted (events carry theirs).
        person : str, optional
            For a ledger of REPLACE_PERSON: the name of the column that says whose row it is; 1 to 200 printable characters.
            The ledger keeps the first one, and refuses any other: a patient may have rows of many doctors, so that a total for
            patients does not hold for doctors. Functions with `person=` state it; a debit without one is the caller's to match.
        """
        amount = cost_in(type(self._total), cost)
        text = _short_text(name, "name")
        stated = {cost.relation} if isinstance(cost, Event) else set()
        if relation is not None:
            stated.add(checked_relation(relation))
        if stated - {self._relation}:
            raise BudgetError(
                f"this ledger counts under {self._relation.name}; restate the cost under it before the debit"
            )
        who = None if person is None else _short_text(person, "person")
        if who is not None and self._relation is not Neighbors.REPLACE_PERSON:
            raise BudgetError(
                f"person= belongs to a ledger of REPLACE_PERSON; this one counts under {self._relation.name}"
            )
        with (turn := Turn(self._turns)), turn:
            turn.wait()
            if self._closed:
                raise LedgerError("this ledger is closed; open it again to debit it")
            if self._file is not None:
                return self._file.locked(partial(self._append, amount, text, who), write=True)
            if here() != self._home:
                raise LedgerError(
                    "an in-memory ledger cannot be debited in a forked process; use Ledger(path=...)"
                )
            self._check_person(who)
            self._check_room(amount)
            return self._record(Position(), amount, text, who)

    @property
    def total(self) -> Budget:
        """The total budget."""
        return self._total

    @property
    def label(self) -> str | None:
        """The label of the data set."""
        return self._label

    @property
    def relation(self) -> Neighbors:
        """The neighbor relation of the total."""
        return self._relation

    @property
    def person(self) -> str | None:
        """The name of the column of persons that the total is for, as the first debit with one stated it; None before."""
        return self._current().person

    @property
    def spent(self) -> Cost:
        """Exact sum of all debits, those of other processes included."""
        return self._current().spent

    @property
    def remaining(self) -> Cost:
        """The exact remainder of the total."""
        return self._total - self.spent

    @property
    def left(self) -> str:
        """What is left of the total, in words, as far as this object has seen debits: "rho 0.62 of 1 left"."""
        state = self._state
        left = (self._total - state.spent).amounts
        parts = zip(self._total.parts, left, self._total.amounts, strict=True)
        texts = (f"{name} {float(rest):.4g} of {float(whole):.4g}" for name, rest, whole in parts)
        return f"{', '.join(texts)} left"

    @property
    def path(self) -> Path | None:
        """The file that keeps the debits; None for a ledger in memory."""
        return None if self._file is None else self._file.path

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """All debits in order, those of other processes included."""
        return tuple(self._entries[: self._current().count])

    def close(self) -> None:
        """Refuse further debits through this object. Its debits stay readable."""
        self._closed = True

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        # From the state in memory, without touching the file: a repr must not wait for a lock.
        state = self._state
        return f"Ledger(total={self._total!r}, remaining={self._total - state.spent!r}, entries={state.count})"

    def _repr_html_(self) -> str:
        # From the state in memory, like the repr. Names and labels are texts of callers, so every text is escaped.
        entries = self._entries[: self._state.count]
        left = self._total.cost
        rows = [("", "total", "", short(left))]
        for entry in entries:
            left = left - entry.cost
            number = str(entry.number)
            rows.append((number, entry.name, short(entry.cost), short(left)))
        hidden = max(len(entries) - MOST_IN_PAGE, 0)
        del rows[1 : 1 + hidden]
        label = "" if self._label is None else f": {self._label}"
        notes = [self.left]
        if hidden:
            notes.append(f"{hidden:,} earlier debits are not shown; entries has all of them")
        notes.append(self._relation.statement)
        heads = _cells(("number", "debit", "cost", "left"), "th")
        body = "".join(f"<tr>{_cells(row, 'td')}</tr>" for row in rows)
        below = "".join(f"<p>{html.escape(note)}</p>" for note in notes)
        return (
            f"<div><strong>Ledger{html.escape(label)}</strong><table><thead><tr>{heads}</tr></thead>"
            f"<tbody>{body}</tbody></table>{below}</div>"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Ledger cannot be pickled or copied: two copies could spend the same budget twice; share its path"
        )

    def _header(self) -> dict[str, Any]:
        return {
            "total": self._total.to_dict(),
            "label": self._label,
            "relation": self._relation.value,
        }

    def _current(self) -> _State:
        """Return the state after reading the lines that other processes have added."""
        if self._file is None:
            return self._state
        with (turn := Turn(self._turns)), turn:
            turn.wait()
            self._file.locked(self._refresh, write=False)
            return self._state

    def _append(self, amount: Cost, name: str, person: str | None, held: OpenFile) -> int:
        """Append a debit to the file, under the exclusive lock; return the number of the entry."""
        assert self._file is not None
        self._refresh(held)
        self._check_person(person)
        self._check_room(amount)
        state = self._state
        record = {
            "number": state.count + 1,
            "name": name,
            "cost": amount.to_dict(),
            "utc": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        if person is not None:
            record["person"] = person
        return self._record(self._file.append(held, record, state.position), amount, name, person)

    def _record(self, position: Position, amount: Cost, name: str, person: str | None) -> int:
        state = self._state.after(position, amount, person)
        del self._entries[state.count - 1 :]
        self._entries.append(LedgerEntry(state.count, name, amount))
        self._state = state
        return state.count

    def _check_person(self, person: str | None) -> None:
        first = self._state.person
        if person is not None and first is not None and person != first:
            raise BudgetError(
                f"this ledger counts what is spent on each {first!r}, and {person!r} is another kind of person, one of "
                f"whom may share rows with many of the first; name {first!r} as the person, or pass a ledger of its own"
            )

    def _check_room(self, amount: Cost) -> None:
        spent = self._state.spent
        if not spent + amount <= self._total:
            parts = zip((spent + amount).amounts, self._total.amounts, strict=True)
            over = max(Fraction(0), *(a - b for a, b in parts))
            tiny = over < max(self._total.amounts) * Fraction(1, 10**14)
            more = ""
            if tiny:
                more = f" by {float(over):.1g}: a sum of rounded floats; pass 0.3 or a Fraction, not 0.1 + 0.2"
            raise BudgetError(
                f"the debit {amount!r} is larger than what remains, {self._total - spent!r} of {self._total!r}"
                f"{more}; pass a smaller budget, or open a ledger with a larger total for this data set on purpose"
            )

    def _refresh(self, held: OpenFile) -> None:
        """Read the lines that other processes have added, holding the turn and a lock of the file."""
        assert self._file is not None
        state = self._state
        records, position = self._file.read_from(held, state.position)
        where = f"ledger file {str(self._file.path)!r}"
        if records and state.position.offset == 0:
            header = {"format": "fastpubpriv-ledger", "version": 1, **self._header()}
            first = records[0]
            different = [
                key
                for key, value in header.items()
                if key not in first or type(first[key]) is not type(value) or first[key] != value
            ]
            if different or len(first) != len(header):
                raise LedgerError(
                    f"{where} was made with another {' and '.join(different) or 'header'}; pass the same or a new path"
                )
            del records[0]
        known = state.count
        new: list[LedgerEntry] = []
        try:
            for record in records:
                cost = Cost.from_dict(record["cost"])
                number = state.count + 1
                stated = record["number"]
                if (
                    type(stated) is not int
                    or stated != number
                    or cost.notion is not type(self._total)
                ):
                    raise LedgerError(f"{where} is corrupt at debit {number}")
                # Debits by hand, and those of earlier versions, have no person.
                person = _short_text(record["person"], "person") if "person" in record else None
                state = state.after(position, cost, person)
                if person is not None and person != state.person:
                    raise LedgerError(f"{where} holds debits for two kinds of persons")
                new.append(LedgerEntry(number, _short_text(record["name"], "name"), cost))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise LedgerError(
                f"{where} holds a debit that cannot be read ({type(error).__name__})"
            ) from None
        if not state.spent <= self._total:
            raise LedgerError(f"{where} holds more debits than its total allows")
        del self._entries[known:]
        self._entries.extend(new)
        self._state = replace(state, position=position)
