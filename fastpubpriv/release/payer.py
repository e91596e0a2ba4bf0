"""What pays for a release, and what all payers of one call share."""

from __future__ import annotations

from typing import Protocol

from fastpubpriv.errors import BudgetError
from fastpubpriv.keys import KeySource
from fastpubpriv.privacy import Budget, Event, Neighbors
from fastpubpriv.release.transcript import Reserve

RELATION = Neighbors.REPLACE_ONE  # what every estimator promises, with the number of rows public


class Payer(Protocol):
    """An account, one of its blocks of rows, or one node of a tree."""

    @property
    def pure(self) -> bool:
        """True where costs are an epsilon."""

    @property
    def path(self) -> tuple[int, ...]:
        """The block of rows that it pays for, () for all rows."""

    @property
    def reserve(self) -> Reserve | None:
        """The debit of the tree scope that pays for this payer, None where it pays by itself."""

    @property
    def number(self) -> int | None:
        """The account's place in the transcript of an audit, None where none is kept."""

    def charge(self, event: Event) -> None:
        """Take the price of an event before its query runs; where it is not covered, raise and change nothing."""

    def fresh_key(self) -> bytes:
        """A key that no release has used; taken once the query has answered."""


class Book:
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


_KINDS: set[type[object]] = (
    set()
)  # classes of events that have been met: a question that an abstract class answers slowly


def check_known(event: object) -> None:
    """Refuse what is not an event: its cost would be unknown."""
    if type(event) in _KINDS:
        return
    if not isinstance(event, Event):
        raise BudgetError(
            f"a release needs an event of fastpubpriv.privacy or a subclass of Event, got {type(event).__name__}"
        )
    _KINDS.add(type(event))
