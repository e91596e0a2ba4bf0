"""A tree scope: one debit for all releases of a recursive clustering, by depth instead of by node."""

from __future__ import annotations

import itertools
import operator
from fractions import Fraction

from fastpubpriv.errors import BudgetError
from fastpubpriv.privacy import ZCDP, Event
from fastpubpriv.privacy.exact import whole
from fastpubpriv.release.payer import Book
from fastpubpriv.release.transcript import Reserve


class TreeScope:
    """One `cost`, taken from an account at once, for all nodes of a cluster tree with at most `max_depth` paying nodes on a path.

    Made by `Account.tree`. Each of its payers pays cost / max_depth for a row replaced inside its node, and half of that for a row
    that enters or leaves. The old row and the new row go down the same path at first and then separate: each node of the common
    path costs the whole share, each node after it costs half the share for one of the two rows. With at most `max_depth` paying
    nodes on every path from the root, that is at most `cost`.

    Privacy
    -------
    The bound needs that nodes on different branches have no row in common, and that no path has more than `max_depth` payers.
    Both are checked here, by the names of the nodes on the path from the root: a payer belongs to the node of its first release,
    all nodes are of one tree, no node has two payers, and no node may be above another that has paid already.
    """

    __slots__ = ("_paid", "book", "cost", "max_depth", "path", "reserve")

    def __init__(self, book: Book, path: tuple[int, ...], cost: Fraction, max_depth: int, number: int) -> None:
        self.book = book
        self.path = path
        self.cost = cost
        self.max_depth = whole(max_depth, "max_depth")
        self.reserve = Reserve(number, cost)
        self._paid: set[tuple[str, ...]] = set()

    @property
    def share(self) -> Fraction:
        """What one node may cost."""
        return self.cost / self.max_depth

    def node(self, depth: int) -> NodePayer:
        """A payer for a node with at most `depth` paying nodes above it; refused where depth >= max_depth: make it a leaf."""
        depth = whole(depth, "depth", at_least=0)
        if depth >= self.max_depth:
            raise BudgetError(
                f"{self.book.name}: a node at depth {depth} has no budget, the tree was given max_depth={self.max_depth}; "
                "make it a leaf"
            )
        return NodePayer(self, depth)

    def enter(self, lineage: tuple[str, ...], depth: int) -> None:
        """Take a node into the scope, or raise."""
        name, above = self.book.name, 0
        for paid in self._paid:
            common = sum(itertools.takewhile(bool, map(operator.eq, paid, lineage)))
            if common == len(lineage):
                raise BudgetError(f"{name}: this node, or one below it, has had its payer already")
            if common == len(paid):
                above += 1
            elif not common or paid[common].split("/")[0] != lineage[common].split("/")[0]:
                raise BudgetError(f"{name}: this node is of another tree than one that has paid; grow a single tree")
        if above > depth:
            raise BudgetError(f"{name}: {above} nodes above this one have paid; pass depth={above}, not {depth}")
        self._paid.add(lineage)


class NodePayer:
    """The payer of one node of a tree: pass it in place of an account, with `only=` for the rows of the node.

    It pays only for Gaussian releases that state what entering or leaving the node costs, all of them over the same rows.
    """

    __slots__ = ("_depth", "_lineage", "_move", "_stay", "scope")

    def __init__(self, scope: TreeScope, depth: int) -> None:
        self.scope = scope
        self._depth = depth
        self._lineage: tuple[str, ...] | None = None
        self._stay = self._move = Fraction(0)

    @property
    def pure(self) -> bool:
        """False: a tree scope is Gaussian."""
        return False

    @property
    def path(self) -> tuple[int, ...]:
        """The block of rows of its account."""
        return self.scope.path

    @property
    def reserve(self) -> Reserve:
        """The debit of its scope."""
        return self.scope.reserve

    @property
    def allowance(self) -> Fraction:
        """What the releases of this node may add up to, as rho."""
        return self.scope.share

    @property
    def number(self) -> int | None:
        """As `Account.number`."""
        return self.scope.book.number

    def charge(self, event: Event) -> None:
        """As `Account.charge`, against the node's share."""
        book = self.scope.book
        book.check(event)
        clusters = event.clusters
        if not event.gdp or clusters is None:
            raise BudgetError(
                f"{book.name}: a node pays for Gaussian releases over its own rows; pass only=tree.only(node)"
            )
        if self._lineage is not None and clusters.lineage != self._lineage:
            raise BudgetError(f"{book.name}: this payer belongs to another node; take one for each node")
        unit = event.price(ZCDP) / clusters.worst if clusters.worst else Fraction(0)
        # A move leaves one node and enters another, so entering or leaving costs half as much.
        stay, move = self._stay + unit * clusters.stay, self._move + unit * clusters.move
        if max(stay, move) > self.scope.share:
            raise BudgetError(f"{book.name}: a release would exceed the budget of its node")
        if self._lineage is None:
            self.scope.enter(clusters.lineage, self._depth)
            self._lineage = clusters.lineage
        self._stay, self._move = stay, move
        book.add(event)

    def fresh_key(self) -> bytes:
        """As `Account.fresh_key`."""
        return self.scope.book.keys.fresh()
