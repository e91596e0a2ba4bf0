"""One call's money and coins: what it may spend, what each release costs, and where its keys come from."""

from __future__ import annotations

import copy
from fractions import Fraction
from typing import Any, Protocol

from fastpubpriv.errors import BudgetError
from fastpubpriv.keys import key_source
from fastpubpriv.privacy import (
    ZCDP,
    ApproxDP,
    Bill,
    Budget,
    Cost,
    Event,
    GaussianEvent,
    KNormEvent,
    LaplaceEvent,
    Ledger,
    Neighbors,
    PureDP,
    SelectionEvent,
    StableHistogramEvent,
    add_to_bill,
    approx_slack,
    gaussian_rho,
    gaussian_rho_beside,
    laplace_epsilon,
    pure_slack,
    total_variation,
)
from fastpubpriv.privacy.exact import float_up
from fastpubpriv.release import transcript as tap
from fastpubpriv.release.scope import TreeScope

RELATION = Neighbors.REPLACE_ONE  # what every estimator promises, with the number of rows public


class Purse(Protocol):
    """What pays for a release: an account, or the purse of one node of a tree."""

    @property
    def pure(self) -> bool:
        """True where costs are an epsilon."""

    @property
    def path(self) -> tuple[int, ...]:
        """The block of rows that it pays for, () for all rows."""

    @property
    def scope(self) -> TreeScope | None:
        """The tree scope that was debited for it, None for an account."""

    @property
    def number(self) -> int | None:
        """The account's place in the transcript of an audit, None where none is kept."""

    def charge(self, event: Event) -> None:
        """Take the price of an event and write it down, before its query runs."""

    def fresh_key(self) -> bytes:
        """A key that no release has used; taken once the query has answered."""


class Account:
    """The budget of one estimator call.

    The whole budget is debited from the ledger by `open`, before any private row is read, and never refunded. Each release
    charges its exact cost here first; charging more than the allowance, or drawing more noise than declared, raises before the rows
    are read. Releases over the same disjoint clusters cost the larger of two totals: of what they cost for a row that stays in its
    cluster, and for one that moves.

    Paying and drawing are apart: `charge` takes the price before a query runs, `fresh_key` gives a key after it. A process that is
    forked while a query runs so takes a key of its own.

    Parameters
    ----------
    name : str
        Name of the call, as it appears in the ledger.
    budget : ZCDP, ApproxDP or PureDP
        Exactly one notion; see `noise`.
    draws : int
        An upper bound on the number of noise draws of the call (public); pays for the samplers' 2^-100.
    aside : ApproxDP or None
        Part of an ApproxDP budget kept for Laplace releases and choices: they may add up to its epsilon, and what they say about
        their delta to its delta. The Gaussian releases share the rest, by basic composition.
    ledger : Ledger or None
        Where the budget is debited; it must count under replace-one.
    random_state : None or int
        None: a fresh key of the operating system for each release. int: repeatable, flagged, not private.
    """

    def __init__(
        self,
        name: str,
        budget: Budget,
        *,
        draws: int,
        aside: ApproxDP | None = None,
        ledger: Ledger | None = None,
        random_state: int | None = None,
    ) -> None:
        if not isinstance(budget, Budget):
            raise BudgetError(
                f"budget must be ZCDP(rho=...), ApproxDP(epsilon=..., delta=...) or PureDP(epsilon=...), "
                f"got {type(budget).__name__}"
            )
        if ledger is not None and not isinstance(ledger, Ledger):
            raise BudgetError(f"ledger must be a Ledger or None, got {type(ledger).__name__}")
        if ledger is not None and ledger.relation is not RELATION:
            raise BudgetError(
                f"{name} is private under replace-one, with a public number of rows, and the ledger counts under "
                f"{ledger.relation.name}; pass a ledger opened with relation=Neighbors.REPLACE_ONE"
            )
        self.name = name
        self.budget = budget
        self.events: list[Event] = []
        self.pure = isinstance(budget, PureDP)
        self.scope: TreeScope | None = None
        self._ledger = ledger
        self._keys = key_source(random_state)
        self._price: Budget | None = None
        # The allowance is what the releases of this call may add up to, in their own exact currency.
        self.allowance: Fraction
        # What releases with an epsilon and a delta of their own may add up to, by basic composition.
        self._approx: tuple[Fraction, Fraction] | None = None
        self._aside = Fraction(0), Fraction(0)
        if isinstance(budget, ApproxDP):
            # The epsilon in use: less than the budget's where the samplers' error, which grows with it, would eat up delta.
            self._epsilon = laplace_epsilon(budget, draws)
            if aside is None:
                self._approx = self._epsilon, budget.delta - approx_slack(self._epsilon, draws)
                self.allowance = gaussian_rho(budget, draws)
            else:
                self._aside = aside.epsilon, aside.delta
                self.allowance = gaussian_rho_beside(budget, draws, *self._aside)
        elif aside is not None:
            raise BudgetError(
                f"{name} keeps a part of its budget aside for Laplace releases: pass ApproxDP(epsilon=..., delta=...)"
            )
        else:
            self.allowance = laplace_epsilon(budget, draws) if self.pure else gaussian_rho(budget, draws)
        self._bill = Bill()
        self._scopes = 0
        self._composed = False
        self.path: tuple[int, ...] = ()
        self._blocks = 0
        self._draws = draws
        self.number: int | None = None

    @property
    def private(self) -> bool:
        """False when the noise comes from a seed."""
        return self._keys.private

    def open(self, *, cost: Budget | None = None) -> None:
        """Debit the ledger (by `cost`, or by the whole budget), once, before the first release."""
        if self._price is not None:
            raise BudgetError(f"{self.name}: the budget of this call has been debited already")
        price = self.budget if cost is None else cost
        self._keys.check()  # a machine without randomness is found out before anything is paid
        if self._ledger is not None:
            self._ledger.debit(price, name=self.name, relation=RELATION)
        self._price = price
        self.number = tap.opened(self.name, price, self._draws)

    @property
    def approx_left(self) -> tuple[Fraction, Fraction]:
        """The (epsilon, delta) that releases with a delta of their own may still cost."""
        if self._approx is None:
            raise BudgetError(
                f"{self.name}: this release has an epsilon and a delta; pass ApproxDP(epsilon=..., delta=...)"
            )
        return self._approx

    def block(self) -> Account:
        """A purse for one block of rows, to be charged in place of this account, which pays for the dearest of its blocks only.

        The caller answers for it that the blocks are disjoint sets of positions, fixed by public numbers (`Rows.slice`): a
        replaced row is then in one block, and what later blocks are asked may depend on earlier answers. Budget and keys are
        shared, totals are not.
        """
        if self._price is None:
            raise BudgetError(f"{self.name}: a block was asked for before the budget was debited")
        if self.charged or self._composed:
            raise BudgetError(
                f"{self.name}: releases on all rows have been charged, so the rows cannot be split any more"
            )
        child = copy.copy(self)
        child.path, child._blocks = (*self.path, self._blocks), 0
        self._blocks += 1
        return child

    def charge(self, event: Event) -> None:
        """Add an event to the bill; raises, and changes nothing, when the allowance or the declared draws do not cover it."""
        if self._price is None:
            raise BudgetError(f"{self.name}: a release was asked for before the budget was debited")
        if self._blocks:
            raise BudgetError(f"{self.name}: the rows have been split into blocks, which are charged by themselves")
        self.check(event)
        own_epsilon = isinstance(event, SelectionEvent | LaplaceEvent) and self._approx is not None
        if isinstance(event, StableHistogramEvent) or own_epsilon:
            self._compose(event)
            cost = Fraction(0)
        elif isinstance(event, GaussianEvent):
            if self.pure:
                raise BudgetError(f"{self.name}: Gaussian noise cannot meet PureDP; pass ZCDP or ApproxDP")
            if self._composed:
                raise BudgetError(
                    f"{self.name}: Gaussian releases and those with an epsilon of their own need two accounts"
                )
            cost = event.rho
        elif isinstance(event, SelectionEvent) and isinstance(self.budget, ZCDP):
            cost = event.rho
        elif isinstance(event, LaplaceEvent | SelectionEvent) and event.epsilon <= self._aside[0]:
            if own_delta(event) > self._aside[1]:
                raise BudgetError(f"{self.name}: the delta of a release exceeds what was kept aside for it")
            self._aside = self._aside[0] - event.epsilon, self._aside[1] - own_delta(event)
            cost = Fraction(0)
        else:
            if not self.pure:
                raise BudgetError(f"{self.name}: this release is calibrated in epsilon; pass PureDP")
            if isinstance(event, LaplaceEvent) and event.delta:
                raise BudgetError(f"{self.name}: this release has a delta; pass ApproxDP(epsilon=..., delta=...)")
            cost = event.epsilon
        bill = self._bill.copy()
        add_to_bill(bill, event, cost)
        self._settle(bill)
        self.events.append(event)

    def _settle(self, bill: Bill) -> None:
        if bill.total > self.allowance:
            raise BudgetError(f"{self.name}: a release would exceed the budget of the call")
        self._bill = bill

    def check(self, event: Event) -> None:
        """Refuse an event of another relation, or one that draws more noise than the budget was corrected for."""
        if event.relation is not RELATION:
            raise BudgetError(f"{self.name}: a release states {event.relation.name}; estimators promise replace-one")
        # Blocks of rows share the list: their draws add up, as each of them is within 2^-100 of its law.
        if sum(past.draws for past in self.events) + event.draws > self._draws:
            raise BudgetError(f"{self.name}: more noise is drawn than the budget was corrected for")

    def fresh_key(self) -> bytes:
        """A key for the noise of one release. Take it after the query: a process forked within shares what was taken before."""
        return self._keys.fresh()

    @property
    def charged(self) -> Fraction:
        """Exact cost of what has been released or reserved so far, in the currency of `allowance`."""
        return self._bill.total

    def tree(self, cost: Fraction, max_depth: int) -> TreeScope:
        """Take `cost` (a rho) at once for the nodes of a cluster tree, of which at most `max_depth` lie above each other."""
        if self._price is None:
            raise BudgetError(f"{self.name}: a tree was asked for before the budget was debited")
        if self.pure:
            raise BudgetError(
                f"{self.name}: the nodes of a tree need Gaussian noise; pass ZCDP or ApproxDP, or cluster public rows"
            )
        if self._blocks or self._composed:
            raise BudgetError(
                f"{self.name}: a tree needs an account without blocks and without releases of their own epsilon"
            )
        if not cost > 0:
            raise BudgetError(f"{self.name}: the cost of a tree must be > 0, got {float(cost):.3g}")
        scope = TreeScope(self, cost, max_depth, self._scopes)
        bill = self._bill.copy()
        bill.add(cost)
        self._settle(bill)
        self._scopes += 1
        return scope

    def _compose(self, event: Any) -> None:
        """Take an (epsilon, delta) cost off what is left."""
        epsilon, delta = self.approx_left
        if self.charged:
            raise BudgetError(
                f"{self.name}: Gaussian releases and those with an epsilon of their own need two accounts"
            )
        own = own_delta(event)
        if event.epsilon > epsilon or own > delta:
            raise BudgetError(f"{self.name}: a release would exceed the budget of the call")
        self._approx, self._composed = (epsilon - event.epsilon, delta - own), True

    def spent(self) -> Budget | Cost:
        """What the call cost, as debited; an exact zero in the budget's notion if it was never opened."""
        return Cost.zero(type(self.budget)) if self._price is None else self._price

    def numerics(self) -> dict[str, Any]:
        """How far the computed mechanism is from the ideal one, in public numbers."""
        draws = sum(event.draws for event in self.events)
        report: dict[str, Any] = {"noise_draws": draws}
        floating = [event for event in self.events if isinstance(event, KNormEvent)]
        if floating:
            report["arithmetic"] = "exact integers modulo 2^64; K-norm noise computed in floating point"
            report["implementation_delta"] = float_up(sum((event.delta for event in floating), Fraction(0)))
            report["implementation_delta_included"] = True
            return report
        report["arithmetic"] = "exact integers modulo 2^64; noise within 2^-100 of its law for each draw"
        report["total_variation"] = float(total_variation(draws))
        if isinstance(self.budget, ApproxDP):
            report["implementation_delta"] = float_up(approx_slack(self._epsilon, draws))
            report["implementation_delta_included"] = True
        elif isinstance(self.budget, PureDP):
            extra_epsilon, extra_delta = pure_slack(self.budget.epsilon, draws)
            report["implementation_epsilon"] = float_up(extra_epsilon)
            report["implementation_epsilon_included"] = True
            report["implementation_delta"] = float_up(extra_delta)
            report["implementation_delta_included"] = False
        return report


def own_delta(event: Event) -> Fraction:
    """The delta that an event states for itself."""
    return event.delta if isinstance(event, LaplaceEvent | StableHistogramEvent) else Fraction(0)
