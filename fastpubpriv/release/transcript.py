"""The transcript of a run, and what pays for a release.

A transcript has what `release` was asked, with the answers, and forces the same answers on a neighbor. Off by default. A transcript
holds exact private integers, so it must stay in a test or an audit (`fastpubpriv.auditing`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from fastpubpriv._types import IntArray
from fastpubpriv.errors import BudgetError, ReplayError
from fastpubpriv.keys import KeySource
from fastpubpriv.privacy import Budget, Cost, Event, Neighbors


@dataclass(frozen=True, slots=True)
class Prepaid:
    """A debit that several releases share: the number of the tree scope in its account, and its cost."""

    number: int
    cost: Fraction


@dataclass(frozen=True, slots=True)
class AccountRecord:
    """An account that was opened: name of the call, what it debited, and the draws of noise that its budget was corrected for."""

    name: str
    price: Budget | Cost
    draws: int


@dataclass(frozen=True, slots=True, eq=False)
class ReleaseRecord:
    """One release: its name, the exact integers of the query, the price, the public unit, the released answer, the block of rows.

    `shape` is the public shape of a query whose own shape is private (occupied bins). `batch` holds the rows that secret coins
    chose for it, None where all rows count. `reserve` is None where the price is paid by
    the account, else the debit of the tree scope that pays it. `account` is the place of the account in the transcript.
    """

    name: str
    query: IntArray
    event: Event
    unit: float
    answer: np.ndarray[Any, Any]
    block: tuple[int, ...] = ()
    shape: tuple[int, ...] | None = None
    reserve: Prepaid | None = None
    account: int | None = None
    batch: IntArray | None = None

    @property
    def public_shape(self) -> tuple[int, ...]:
        """Shape that must not depend on private rows."""
        return self.query.shape if self.shape is None else self.shape


@dataclass(slots=True, eq=False)
class Transcript:
    """The accounts and releases of one run in order; with `script`, the answers to force."""

    accounts: list[AccountRecord] = field(default_factory=list)
    calls: list[ReleaseRecord] = field(default_factory=list)
    script: list[ReleaseRecord] | None = None
    batch: IntArray | None = None  # of the query that is running

    def __reduce__(self) -> Any:
        raise TypeError("a transcript holds private integers and cannot be pickled")

    def __repr__(self) -> str:
        return f"Transcript(calls={len(self.calls)}, replaying={self.script is not None})"

    def forced_batch(self) -> IntArray | None:
        """The rows that the recorded run chose for the query that is running, so that neighbors are compared on equal coins."""
        index = len(self.calls)
        return None if self.script is None or index >= len(self.script) else self.script[index].batch

    def forced(self, name: str, shape: tuple[int, ...], event: Event, unit: float) -> np.ndarray[Any, Any] | None:
        """Return the recorded answer that stands in for the next release, or None while recording.

        `event` and `unit` say which answers are possible, for audits that invent answers.
        """
        if self.script is None:
            return None
        index = len(self.calls)
        if index >= len(self.script):
            raise ReplayError(f"call {index} ({name}) has no counterpart in the recorded run")
        recorded = self.script[index]
        if recorded.name != name or recorded.public_shape != shape:
            raise ReplayError(f"call {index} is {name} {shape}, recorded was {recorded.name} {recorded.public_shape}")
        return recorded.answer.copy()  # an estimator may work in place


_CURRENT: ContextVar[Transcript | None] = ContextVar("fastpubpriv_transcript", default=None)


def current() -> Transcript | None:
    """Return the transcript in force, None in ordinary use."""
    return _CURRENT.get()


def record_opening(name: str, price: Budget | Cost, draws: int) -> int | None:
    """Record that an account has been opened; return its place in the transcript, None where none is kept."""
    transcript = current()
    if transcript is None:
        return None
    transcript.accounts.append(AccountRecord(name, price, draws))
    return len(transcript.accounts) - 1


@contextmanager
def recording(script: list[ReleaseRecord] | None = None) -> Iterator[Transcript]:
    """Record every release inside the block; with `script`, force its answers."""
    transcript = Transcript(script=script)
    token = _CURRENT.set(transcript)
    try:
        yield transcript
    finally:
        _CURRENT.reset(token)


RELATION = Neighbors.REPLACE_ONE  # what every estimator promises, with the number of rows public


class BudgetAccount(Protocol):
    """An account, one of its blocks of rows, or one node of a tree."""

    @property
    def pure(self) -> bool:
        """True where costs are an epsilon."""

    @property
    def path(self) -> tuple[int, ...]:
        """The block of rows that it pays for, () for all rows."""

    @property
    def reserve(self) -> Prepaid | None:
        """The debit of the tree scope that pays for this payer, None where it pays by itself."""

    @property
    def number(self) -> int | None:
        """The account's place in the transcript of an audit, None where none is kept."""

    def charge(self, event: Event) -> None:
        """Take the price of an event before its query runs; where it is not covered, raise and change nothing."""

    def fresh_key(self) -> bytes:
        """A key that no release has used; taken once the query has answered."""


class CallRecord:
    """What all payers of one call share: its name, what was debited, the noise declared and drawn, and where keys come from."""

    __slots__ = ("declared", "draws", "events", "keys", "name", "number", "price")

    def __init__(self, name: str, keys: KeySource, declared: int) -> None:
        self.name = name
        self.keys = keys
        self.declared = declared
        self.events: list[Event] = []
        # Values of noise of all releases so far. Those of all blocks add up, as each value is within 2^-100 of its law.
        self.draws = 0
        self.price: Budget | None = None
        self.number: int | None = None

    def check(self, event: Event) -> None:
        """Refuse what is no event, one of another relation or process, or with more noise than the budget was corrected for."""
        check_known(event)
        if self.price is None:
            raise BudgetError(f"{self.name}: a release was asked for before the budget was debited")
        self.keys.check_process()
        if event.relation is not RELATION:
            raise BudgetError(f"{self.name}: a release states {event.relation.name}; estimators promise replace-one")
        if self.draws + event.draws > self.declared:
            raise BudgetError(f"{self.name}: more noise is drawn than the budget was corrected for")

    def add(self, event: Event) -> None:
        """Write down an event that has been checked and paid for."""
        self.events.append(event)
        self.draws += event.draws


# Classes of events that have been met: a question that an abstract class answers slowly.
_KINDS: set[type[object]] = set()


def check_known(event: object) -> None:
    """Refuse what is not an event: its cost would be unknown."""
    if type(event) in _KINDS:
        return
    if not isinstance(event, Event):
        raise BudgetError(
            f"a release needs an event of fastpubpriv.privacy or a subclass of Event, got {type(event).__name__}"
        )
    _KINDS.add(type(event))
