"""The account of one call: its allowance, the costs charged to it, and the source of its keys."""

from __future__ import annotations

import contextlib
import copy
import itertools
import operator
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from fractions import Fraction
from typing import Any

from fastpubpriv.errors import BudgetError
from fastpubpriv.keys import key_source
from fastpubpriv.privacy import ZCDP, ApproxDP, Budget, Cost, Event, Ledger, Neighbors, PureDP
from fastpubpriv.privacy.budgets import Composition, float_up, whole
from fastpubpriv.privacy.calibrated_budget import (
    approx_slack,
    laplace_epsilon,
    person_budget,
    pure_slack,
    total_variation,
)
from fastpubpriv.privacy.events import NEEDS_APPROX
from fastpubpriv.privacy.spending import GaussianSpending, LaplaceSpending, Spending, spending_of
from fastpubpriv.release.transcript import RELATION, BudgetAccount, CallRecord, Prepaid, current

EXCEEDED = "a release would exceed the budget of the call"
TWO_ACCOUNTS = "Gaussian releases and those with an epsilon of their own need two accounts"


_BEFORE_DEBIT: ContextVar[Callable[[], None] | None] = ContextVar(
    "fastpubpriv_before_debit", default=None
)


@contextlib.contextmanager
def before_debit(act: Callable[[], None]) -> Iterator[None]:
    """Call `act` within the block just before each debit, when all checks have passed; if it raises, nothing is debited."""
    token = _BEFORE_DEBIT.set(act)
    try:
        yield
    finally:
        _BEFORE_DEBIT.reset(token)


def announcer() -> Callable[[], None]:
    """Return the function that an enclosing `before_debit` names, or one that does nothing."""
    return _BEFORE_DEBIT.get() or (lambda: None)


def announce_debit() -> None:
    """Call the function that an enclosing `before_debit` names, if there is one."""
    announcer()()


def check_ledger(name: str, ledger: Any, relation: Neighbors, person: str | None) -> None:
    """Raise BudgetError unless `ledger` is None or counts what a call debits, under the relation of the call."""
    if ledger is not None and not isinstance(ledger, Ledger):
        raise BudgetError(f"ledger must be a Ledger or None, got {type(ledger).__name__}")
    if ledger is not None and ledger.relation is not relation:
        promise = (
            "replace-one, with a public number of rows" if relation is RELATION else relation.name
        )
        raise BudgetError(
            f"{name} is private under {promise}, and the ledger counts under "
            f"{ledger.relation.name}; pass a ledger opened with relation=Neighbors.{relation.name}"
        )
    if ledger is not None and relation is Neighbors.REPLACE_PERSON and person is None:
        raise BudgetError(
            f"{name}: a ledger is for one kind of person, known by name, and identifiers in an array have none: pass person= "
            "with the name of a column, or a Series that has a name"
        )


class Charges:
    """An allowance, already reduced for a sampler error of 2^-100 per declared draw, and the costs charged to it.

    Pure DP: epsilons add up. zCDP: rhos add up. (epsilon, delta)-DP: the rhos of Gaussian releases add up, by GDP, or else epsilons
    and deltas, by basic composition. A `reserved` part of an (epsilon, delta) covers Laplace releases and choices; in the rest, the
    rhos of Gaussian releases add up.
    """

    def __init__(self, name: str, budget: Budget, draws: int, reserved: ApproxDP | None) -> None:
        self.name = name
        # True once releases with their own epsilon and delta were charged, outside the allowance
        self.composed = False
        self.notion: type[Budget] = next(
            each for each in (ZCDP, ApproxDP, PureDP) if isinstance(budget, each)
        )
        self._tally = Composition()
        # number of prepaid steps not yet taken, by the event of the first step
        self._paid_ahead: dict[Event, int] = {}
        self._reserved = reserved
        # The sampler error grows with epsilon; where it would exhaust delta, a smaller epsilon is used.
        self._epsilon = Fraction(0) if isinstance(budget, ZCDP) else laplace_epsilon(budget, draws)
        # (epsilon, delta) for releases with an epsilon of their own
        self._left = Fraction(0), Fraction(0)
        # maximum total cost of the releases, exact
        set_apart = () if reserved is None else reserved.amounts
        self.spending = spending_of(budget, draws, *set_apart)
        if isinstance(budget, PureDP):
            self._epsilon = budget.epsilon
        if reserved is not None:
            self._left = reserved.epsilon, reserved.delta
        elif isinstance(budget, ApproxDP):
            self._left = self._epsilon, budget.delta - approx_slack(self._epsilon, draws)

    def _refusal(self, why: object) -> BudgetError:
        return BudgetError(f"{self.name}: {why}")

    def _pay(self, event: Event) -> None:
        """Add the price of an event; raise BudgetError, and change nothing, if it is not covered."""
        try:
            price = event.price(self.notion)
            delta = event.own_delta
        except BudgetError as error:
            raise self._refusal(error) from None
        if event.gdp or self.notion is not ApproxDP:
            if self.composed:
                raise self._refusal(TWO_ACCOUNTS)
            self._take(price, event)
            return
        covered = price <= self._left[0] and delta <= self._left[1]
        if self._reserved is not None:
            if not event.beside_gaussian:
                raise self._refusal(NEEDS_APPROX)
            if not covered:
                raise self._refusal(
                    "the epsilon or delta of a release exceeds what was reserved for it"
                )
        else:
            if self.charged:
                raise self._refusal(TWO_ACCOUNTS)
            paid_ahead = self._steps_left(event)
            if not covered:
                raise self._refusal(EXCEEDED)
            self._paid_ahead = paid_ahead
            self.composed = True
        self._left = self._left[0] - price, self._left[1] - delta

    def _steps_left(self, event: Event) -> dict[Event, int]:
        """Return the prepaid steps after an event; raise BudgetError for a later step that is not prepaid."""
        first = event.follows
        if first is None and not event.opens:
            return self._paid_ahead
        known = event if first is None else first
        left = self._paid_ahead.get(known, 0) + (event.opens if first is None else -1)
        if left < 0:
            raise self._refusal("a run has more steps than its first one has paid for")
        return {**self._paid_ahead, known: left}

    def _take(self, cost: Fraction, event: Event | None = None) -> None:
        """Charge a cost to the allowance, separately for stay and move if the event is over clusters."""
        clusters = None if event is None else event.clusters
        tally = self._tally.within(self.spending.allowance, cost, clusters)
        if tally is None:
            raise self._refusal(EXCEEDED)
        self._tally = tally

    @property
    def beside(self) -> Spending:
        """The remaining epsilon for releases that have their own delta."""
        return LaplaceSpending(self.approx_left[0])

    @property
    def of_choices(self) -> Spending:
        """What selections may cost: the remaining epsilon of a budget with a delta, else the whole allowance."""
        return self.beside if self.notion is ApproxDP else self.spending

    @property
    def choice_law(self) -> str:
        """The cheaper selection: permute-and-flip for a price in epsilon, exponential for one in rho."""
        return "exponential" if self.notion is ZCDP else "permute_and_flip"

    @property
    def charged(self) -> Fraction:
        """Exact total cost so far, trees included, in the unit of `allowance`."""
        return self._tally.total

    @property
    def approx_left(self) -> tuple[Fraction, Fraction]:
        """Remaining (epsilon, delta) for releases that have their own delta, unless a part is reserved for others."""
        if self.notion is not ApproxDP or self._reserved is not None:
            raise self._refusal(NEEDS_APPROX)
        return self._left

    def implementation(self, draws: int) -> dict[str, Any]:
        """Return, for the record, what the sampler error of `draws` draws adds to the privacy statement."""
        if self.notion is ZCDP:  # stated as a total variation only
            return {}
        if self.notion is ApproxDP:  # already subtracted from the budget
            delta = float_up(approx_slack(self._epsilon, draws))
            return {"implementation_delta": delta, "implementation_delta_included": True}
        # A part of epsilon, already subtracted from the allowance, and a delta below 2^-100, not subtracted.
        more = pure_slack(self._epsilon, draws)
        return {
            "implementation_epsilon": float_up(more[0]),
            "implementation_epsilon_included": True,
            "implementation_delta": float_up(more[1]),
            "implementation_delta_included": False,
        }


class TreeBudget:
    """A `cost`, charged to an account in advance, for all nodes of a cluster tree with at most `max_depth` charged nodes on a path.

    Made by `Account.tree`. Each node budget may cost cost / max_depth for a row replaced within its node, and half of that for a
    row that enters or leaves. The old and the new row share a path from the root and then separate: each node of the common path
    costs the whole share, each node after it half the share for one of the two rows. With at most `max_depth` charged nodes on
    every path from the root, the sum is at most `cost`.

    Privacy
    -------
    The bound requires that nodes on different branches have disjoint rows, and that no path has more than `max_depth` charged
    nodes. Both are checked by the names of the nodes on the path from the root: a node budget belongs to the node of its first
    release, all nodes are of one tree, no node has two budgets, and none may be above another that was charged before.
    """

    def __init__(
        self, book: CallRecord, path: tuple[int, ...], cost: Fraction, max_depth: int, number: int
    ) -> None:
        self.book = book
        self.path = path
        self.cost = cost
        self.max_depth = whole(max_depth, "max_depth")
        self.share = cost / self.max_depth  # maximum cost of one node
        self.reserve = Prepaid(number, cost)
        self._paid: set[tuple[str, ...]] = set()

    def node(self, depth: int) -> NodeBudget:
        """Return the budget of a node with at most `depth` charged nodes above it; raise BudgetError if depth >= max_depth."""
        depth = whole(depth, "depth", at_least=0)
        if depth >= self.max_depth:
            raise BudgetError(
                f"{self.book.name}: a node at depth {depth} has no budget, the tree was given max_depth={self.max_depth}; "
                "make it a leaf"
            )
        return NodeBudget(self, depth)

    def enter(self, lineage: tuple[str, ...], depth: int) -> None:
        """Register a node; raise BudgetError if that breaks a condition of the bound."""
        name = self.book.name
        above = 0
        for paid in self._paid:
            common = sum(itertools.takewhile(bool, map(operator.eq, paid, lineage)))
            if common == len(lineage):
                raise BudgetError(f"{name}: this node, or one below it, has had its payer already")
            if common == len(paid):
                above += 1
            elif not common or paid[common].split("/")[0] != lineage[common].split("/")[0]:
                raise BudgetError(
                    f"{name}: this node is of another tree than one that has paid; grow a single tree"
                )
        if above > depth:
            raise BudgetError(
                f"{name}: {above} nodes above this one have paid; pass depth={above}, not {depth}"
            )
        self._paid.add(lineage)


class NodeBudget(BudgetAccount):
    """The budget of one node of a tree: pass it in place of an account, with `only=` for the rows of the node.

    It covers only Gaussian releases that state the cost of entering or leaving the node, all of them over the same rows.
    """

    def __init__(self, scope: TreeBudget, depth: int) -> None:
        self.scope = scope
        self.book, self.path, self.reserve = scope.book, scope.path, scope.reserve
        # maximum total rho of the releases of this node
        self.spending = GaussianSpending(scope.share)
        self._depth = depth
        self._lineage: tuple[str, ...] | None = None
        self._stay = self._move = Fraction(0)

    def charge(self, event: Event) -> None:
        """As `Account.charge`, for the share of the node."""
        book = self.book
        book.check(event)
        clusters = event.clusters
        if not event.gdp or clusters is None:
            raise BudgetError(
                f"{book.name}: a node pays for Gaussian releases over its own rows; pass only=tree.only(node)"
            )
        if self._lineage is not None and clusters.lineage != self._lineage:
            raise BudgetError(
                f"{book.name}: this payer belongs to another node; take one for each node"
            )
        unit = event.price(ZCDP) / clusters.worst if clusters.worst else Fraction(0)
        # A move leaves one node and enters another, so entering or leaving costs half as much.
        stay = self._stay + unit * clusters.stay
        move = self._move + unit * clusters.move
        if max(stay, move) > self.allowance:
            raise BudgetError(f"{book.name}: a release would exceed the budget of its node")
        if self._lineage is None:
            self.scope.enter(clusters.lineage, self._depth)
            self._lineage = clusters.lineage
        self._stay = stay
        self._move = move
        book.add(event)


class Account(Charges, BudgetAccount):
    """The budget account of one estimator call, charged for the releases on all of its rows.

    `open` debits the whole budget from the ledger, before any private row is read; it is never refunded. Each release first
    charges its exact cost; exceeding the allowance or the declared number of noise draws raises before the rows are read.
    Releases over the same disjoint clusters have two totals, one for a row that stays in its cluster and one for a row that moves;
    together they cost the larger total. `Charges` has the composition rules of each notion.

    `charge` is called before a query runs, and `fresh_key` after it. Both work only in the process of the debit: a process forked
    afterwards may finish a pass, but gets no answer.

    Parameters
    ----------
    draws : int
        An upper bound on the number of noise draws of the call (public). The budget is corrected for an error of 2^-100 in each.
    reserved : ApproxDP or None
        Part of an ApproxDP budget for Laplace releases and choices: their epsilons may add up to its epsilon, their deltas to its
        delta. The Gaussian releases share the rest, by basic composition.
    relation : Neighbors
        Neighboring relation: replacing a row, or all rows of a person. The ledger must have the same relation.
    rows_per_person : int
        Maximum number of rows of one person. `budget` is then the budget per row (`row_budget`); the ledger is debited by the cost
        of all rows of a person together, and `spent` is that cost.
    person : str or None
        Name of the identifiers of persons, which a ledger needs: its total is for one kind of person.
    """

    def __init__(
        self,
        name: str,
        budget: Budget,
        *,
        draws: int,
        reserved: ApproxDP | None = None,
        ledger: Ledger | None = None,
        random_state: int | None = None,
        relation: Neighbors = RELATION,
        rows_per_person: int = 1,
        person: str | None = None,
    ) -> None:
        if not isinstance(budget, Budget):
            raise BudgetError(
                f"budget must be ZCDP(rho=...), ApproxDP(epsilon=..., delta=...) or PureDP(epsilon=...), "
                f"got {type(budget).__name__}"
            )
        check_ledger(name, ledger, relation, person)
        if reserved is not None and not isinstance(budget, ApproxDP):
            raise BudgetError(
                f"{name} reserves a part of its budget for Laplace releases: pass ApproxDP(epsilon=..., delta=...)"
            )
        super().__init__(name, budget, draws, reserved)
        self.budget = budget
        self.relation = relation
        self._person = person
        self.price, self.rows_per_person = person_budget(budget, rows_per_person), rows_per_person
        many = "" if rows_per_person == 1 else f"; at most {rows_per_person} rows of each are used"
        self.statement = relation.statement + many  # text of the relation, for results
        self.book = CallRecord(name, key_source(random_state), draws)
        # all events charged in this call, its blocks and its trees, in order
        self.events = self.book.events
        self.path: tuple[int, ...] = ()
        self._ledger = ledger
        self._blocks = self._scopes = 0
        # The sampler error is stated for the protected unit: for a person it is larger than for a row.
        self._stated = None if rows_per_person == 1 else Charges(name, self.price, draws, None)

    @property
    def private(self) -> bool:
        """False if the noise comes from a seed."""
        return self.book.keys.private

    def open(self) -> None:
        """Debit the ledger by the whole budget, once, before the first release."""
        if self.book.price is not None:
            raise BudgetError(f"{self.name}: the budget of this call has been debited already")
        announce_debit()
        # raise without randomness before the debit; bind the keys to this process
        self.book.keys.check()
        if self._ledger is not None:
            self._ledger.debit(
                self.price, name=self.name, relation=self.relation, person=self._person
            )
        self.book.price = self.price
        if (transcript := current()) is not None:
            self.book.number = len(transcript.accounts)
            transcript.accounts.append((self.name, self.price, self.book.declared))

    def block(self) -> Account:
        """Return the account of one block of rows. The call costs as much as its most expensive block (parallel composition).

        The caller guarantees that the blocks are disjoint sets of positions, fixed by public numbers (`Rows.slice`). A replaced
        row is then in one block only, and a query of a later block may depend on earlier answers. All blocks share the allowance
        and the source of keys; each has its own total.
        """
        if self.book.price is None:
            raise BudgetError(f"{self.name}: a block was asked for before the budget was debited")
        if self.charged or self.composed:
            raise BudgetError(
                f"{self.name}: releases on all rows have been charged, so the rows cannot be split any more"
            )
        block = copy.copy(self)
        block.path = *self.path, self._blocks
        self._blocks += 1
        block._blocks = block._scopes = 0
        return block

    def charge(self, event: Event) -> None:
        """Add the price of an event; raise, and change nothing, if the allowance or the declared draws do not cover it."""
        self.book.check(event)
        if self._blocks:
            raise BudgetError(
                f"{self.name}: the rows have been split into blocks, which are charged by themselves"
            )
        self._pay(event)
        self.book.add(event)

    def tree(self, cost: Fraction, max_depth: int) -> TreeBudget:
        """Charge `cost` (a rho) in advance for the nodes of a cluster tree, at most `max_depth` of them on a path from the root."""
        if self.book.price is None:
            raise BudgetError(f"{self.name}: a tree was asked for before the budget was debited")
        if not self.spending.carries_trees:
            raise BudgetError(
                f"{self.name}: the nodes of a tree need Gaussian noise; pass ZCDP or ApproxDP, or cluster public rows"
            )
        if self._blocks or self.composed:
            raise BudgetError(
                f"{self.name}: a tree needs an account without blocks and without releases of their own epsilon"
            )
        if not cost > 0:
            raise BudgetError(f"{self.name}: the cost of a tree must be > 0, got {float(cost):.3g}")
        scope = TreeBudget(self.book, self.path, cost, max_depth, self._scopes)
        self._take(cost)
        self._scopes += 1
        return scope

    def spent(self) -> Budget | Cost:
        """Return the debited budget, or an exact zero cost in its notion if the account was never opened."""
        return Cost.zero(type(self.price)) if self.book.price is None else self.book.price

    def numerics(self) -> dict[str, Any]:
        """Return public numbers that bound the distance of the implementation from the ideal mechanism."""
        draws = self.book.draws
        return {
            "noise_draws": draws,
            "arithmetic": "exact integers modulo 2^64; noise within 2^-100 of its law for each draw",
            "total_variation": float(total_variation(draws)),
            **(self._stated or self).implementation(draws),
        }
