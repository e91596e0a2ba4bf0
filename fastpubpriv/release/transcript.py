"""The transcript of a run, and the protocol of accounts that are charged for releases.

A transcript records the arguments and answers of `release`, and can force the same answers on a neighboring data set. Off by
default. It holds exact private integers, so it must stay within a test or an audit (`fastpubpriv.auditing`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv._types import IntArray
from fastpubpriv.errors import BudgetError, ReplayError
from fastpubpriv.keys import KeySource
from fastpubpriv.privacy import Budget, Cost, Event, Neighbors
from fastpubpriv.privacy.spending import Spending


@dataclass(frozen=True, slots=True)
class Prepaid:
    """A cost charged in advance that several releases share: the number of the tree budget in its account, and the cost."""

    number: int
    cost: Fraction


@dataclass(frozen=True, slots=True, eq=False)
class ReleaseRecord:
    """One release: name, exact integers of the query, event, public unit, released answer, and block of rows.

    `shape` is the public shape of a query whose own shape is private (occupied bins). `batch` holds the rows sampled by secret
    coins, None if all rows are used. `reserve` is the prepaid cost of the tree budget that covers the release, None if the account
    was charged. `account` is the index of the account in the transcript.
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
        """Shape of the answer that must not depend on private rows."""
        return self.query.shape if self.shape is None else self.shape


@dataclass(slots=True, eq=False, repr=False)  # it holds private integers
class Transcript:
    """The accounts and releases of one run, in order; `script` holds the answers to force in a replay."""

    # Opened accounts: name of the call, debited price, and the number of noise draws that its budget was corrected for.
    accounts: list[tuple[str, Budget | Cost, int]] = field(default_factory=list)
    calls: list[ReleaseRecord] = field(default_factory=list)
    script: list[ReleaseRecord] | None = None
    batch: IntArray | None = None  # of the running query

    def __reduce__(self) -> Any:
        raise TypeError("a transcript holds private integers and cannot be pickled")

    def forced_batch(self) -> IntArray | None:
        """Return the batch of the running query in the recorded run, so that neighbors are compared on equal coins."""
        index = len(self.calls)
        return (
            None if self.script is None or index >= len(self.script) else self.script[index].batch
        )

    def forced(
        self, name: str, shape: tuple[int, ...], event: Event, unit: float
    ) -> np.ndarray[Any, Any] | None:
        """Return the recorded answer that replaces the next release, or None while recording.

        `event` and `unit` determine the possible answers, for audits that generate answers.
        """
        if self.script is None:
            return None
        index = len(self.calls)
        if index >= len(self.script):
            raise ReplayError(f"call {index} ({name}) has no counterpart in the recorded run")
        recorded = self.script[index]
        if recorded.name != name or recorded.public_shape != shape:
            raise ReplayError(
                f"call {index} is {name} {shape}, recorded was {recorded.name} {recorded.public_shape}"
            )
        return recorded.answer.copy()  # an estimator may work in place


_CURRENT: ContextVar[Transcript | None] = ContextVar("fastpubpriv_transcript", default=None)


def current() -> Transcript | None:
    """Return the active transcript, None in ordinary use."""
    return _CURRENT.get()


@contextmanager
def recording(script: list[ReleaseRecord] | None = None) -> Iterator[Transcript]:
    """Context that records every release; with `script`, its answers are forced."""
    transcript = Transcript(script=script)
    token = _CURRENT.set(transcript)
    try:
        yield transcript
    finally:
        _CURRENT.reset(token)


RELATION = Neighbors.REPLACE_ONE  # relation of every estimator, with the number of rows public


class CallRecord:
    """State shared by all accounts of one call: name, debited price, noise draws declared and made, and source of keys."""

    def __init__(self, name: str, keys: KeySource, declared: int) -> None:
        self.name = name
        self.keys = keys
        self.declared = declared
        self.events: list[Event] = []
        # Noise draws of all releases so far, over all blocks: each draw has an error of up to 2^-100.
        self.draws = 0
        self.price: Budget | None = None
        self.number: int | None = None

    def check(self, event: Event) -> None:
        """Raise BudgetError for an event that is invalid, of another relation or process, or beyond the declared noise draws."""
        check_known(event)
        if self.price is None:
            raise BudgetError(f"{self.name}: a release was asked for before the budget was debited")
        self.keys.check_process()
        if event.relation is not RELATION:
            raise BudgetError(
                f"{self.name}: a release states {event.relation.name}; estimators promise replace-one"
            )
        if self.draws + event.draws > self.declared:
            raise BudgetError(f"{self.name}: more noise is drawn than the budget was corrected for")

    def add(self, event: Event) -> None:
        """Record an event that was checked and charged."""
        self.events.append(event)
        self.draws += event.draws


class BudgetAccount(ABC):
    """What a release is charged to: an account, one of its blocks of rows, or one node of a tree."""

    book: CallRecord
    spending: Spending  # the maximum total cost of its releases
    path: tuple[int, ...]  # the block of rows that it covers, () for all rows
    reserve: Prepaid | None = (
        # prepaid cost of the tree budget that covers this node; None for an account or a block
        None
    )

    @property
    def allowance(self) -> Fraction:
        """The maximum total cost of its releases, exact."""
        return self.spending.allowance

    def spend(self, cost: Fraction | Spending) -> Spending:
        """Return the spending of a release at a cost, which is in the unit of the allowance if it is a number."""
        return cost if isinstance(cost, Spending) else self.spending.at(cost)

    @property
    def number(self) -> int | None:
        """Index of the call in the transcript of an audit, None without a transcript."""
        return self.book.number

    @abstractmethod
    def charge(self, event: Event) -> None:
        """Charge the price of an event before its query runs; if it is not covered, raise and change nothing."""

    def fresh_key(self) -> bytes:
        """Return a key for the noise of one release. Call it after the query: in a process forked during the query it raises."""
        return self.book.keys.fresh()


def check_known(event: object) -> None:
    """Raise BudgetError for an object that is not an event, as its cost would be unknown."""
    if not isinstance(event, Event):
        raise BudgetError(
            f"a release needs an event of fastpubpriv.privacy or a subclass of Event, got {type(event).__name__}"
        )
