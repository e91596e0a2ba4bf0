"""A tree scope: one debit for all releases of a recursive clustering, by depth instead of by node (spec A 1.6)."""

from __future__ import annotations

import itertools
import operator
from fractions import Fraction
from typing import TYPE_CHECKING

from fastpubpriv.errors import BudgetError
from fastpubpriv.privacy import Event, GaussianEvent
from fastpubpriv.privacy.exact import whole

if TYPE_CHECKING:
    from fastpubpriv.release.account import Account


class TreeScope:
    """`cost`, taken from an account at once, for the nodes of a cluster tree of which at most `max_depth` lie above each other.

    Made by `Account.tree`. A purse of it pays cost / max_depth for a row replaced inside its node, and half of that for a row that
    enters or leaves. Two rows share a path and then part: each node of the common path costs the whole share, each node below half
    of it for one of the rows. With at most `max_depth` paying nodes on every path from the root, that is at most `cost`.

    Privacy
    -------
    The bound needs that nodes on different branches have no row in common, and that no path has more than `max_depth` purses.
    Both are checked here, from the names of the nodes above: a purse belongs to the node of its first release, all nodes are of
    one tree, none has two purses, and none may be above one that has paid already.
    """

    __slots__ = ("_account", "_paid", "cost", "max_depth", "number")

    def __init__(self, account: Account, cost: Fraction, max_depth: int, number: int) -> None:
        self._account = account
        self._paid: set[tuple[str, ...]] = set()
        self.cost = cost
        self.max_depth = whole(max_depth, "max_depth")
        self.number = number

    @property
    def share(self) -> Fraction:
        """What one node may cost."""
        return self.cost / self.max_depth

    def node(self, depth: int) -> NodePurse:
        """A purse for a node with at most `depth` paying nodes above it; refused where depth >= max_depth: make it a leaf."""
        depth = whole(depth, "depth", at_least=0)
        if depth >= self.max_depth:
            raise BudgetError(
                f"{self._account.name}: a node at depth {depth} has no budget, the tree was given max_depth={self.max_depth}; "
                "make it a leaf"
            )
        return NodePurse(self, depth)

    def _enter(self, lineage: tuple[str, ...], depth: int) -> None:
        """Take a node into the scope, or raise."""
        name, above = self._account.name, 0
        for paid in self._paid:
            common = sum(itertools.takewhile(bool, map(operator.eq, paid, lineage)))
            if common == len(lineage):
                raise BudgetError(f"{name}: this node, or one below it, has had its purse already")
            if common == len(paid):
                above += 1
            elif not common or paid[common].split("/")[0] != lineage[common].split("/")[0]:
                raise BudgetError(f"{name}: this node is of another tree than one that has paid; grow a single tree")
        if above > depth:
            raise BudgetError(f"{name}: {above} nodes above this one have paid; pass depth={above}, not {depth}")
        self._paid.add(lineage)


class NodePurse:
    """What one node of a tree may spend: pass it in the place of an account, with `only=` for the rows of the node.

    Only Gaussian releases that state what entering or leaving the node costs are taken, all of them over the same rows.
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
        return self.scope._account.path

    @property
    def allowance(self) -> Fraction:
        """What the releases of this node may add up to, as rho."""
        return self.scope.share

    @property
    def number(self) -> int | None:
        """As `Account.number`."""
        return self.scope._account.number

    def charge(self, event: Event) -> None:
        """As `Account.charge`, against the node's share."""
        account = self.scope._account
        clusters = event.clusters if isinstance(event, GaussianEvent) else None
        if not isinstance(event, GaussianEvent) or clusters is None:
            raise BudgetError(
                f"{account.name}: a node pays for Gaussian releases over its own rows; pass only=tree.only(node)"
            )
        account.check(event)
        if self._lineage is not None and clusters.lineage != self._lineage:
            raise BudgetError(f"{account.name}: this purse belongs to another node; take one for each node")
        unit = 2 * 4 ** int(event.log2_scale)
        # `move` is one node left and one entered, so entering or leaving costs half of it.
        stay, move = self._stay + Fraction(clusters.stay, unit), self._move + Fraction(clusters.move, unit)
        if max(stay, move) > self.scope.share:
            raise BudgetError(f"{account.name}: a release would exceed the budget of its node")
        if self._lineage is None:
            self.scope._enter(clusters.lineage, self._depth)
            self._lineage = clusters.lineage
        self._stay, self._move = stay, move
        account.events.append(event)

    def fresh_key(self) -> bytes:
        """As `Account.fresh_key`."""
        return self.scope._account.fresh_key()
