"""Releases over disjoint clusters of rows: what a replaced row costs that stays in its cluster, and one that moves to another.

Under replace-one a row may leave a cluster and enter another, so two clusters change and parallel composition needs a second look.
For each release both numbers are exact, and which of them applies is the same for all releases over the *same* clusters: the row
stays in all of them or moves in all of them. So those releases cost the larger of the two sums, not the sum of the larger ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from fastpubpriv.errors import BudgetError
from fastpubpriv.privacy.rationals import whole


@dataclass(frozen=True, slots=True)
class Clusters:
    """The two sensitivities of a release over disjoint clusters of rows, squared l2 or l1 as in the event that holds it.

    Parameters
    ----------
    stay : int
        For a row replaced inside one cluster.
    move : int
        For a row that leaves one cluster and enters another: twice that of entering or leaving one.
    lineage : tuple of str
        Names what decides membership, by content. For the rows of one node, the nodes from the root to it.
    """

    stay: int
    move: int
    lineage: tuple[str, ...]

    def __post_init__(self) -> None:
        whole(self.stay, "stay", at_least=0)
        whole(self.move, "move", at_least=0)
        if not self.lineage or not all(isinstance(name, str) for name in self.lineage):
            raise BudgetError("lineage must name the clusters: a tuple of at least one str")

    @property
    def worst(self) -> int:
        """The sensitivity of the release."""
        return max(self.stay, self.move)


_ByCase = dict[
    tuple[str, ...], tuple[Fraction, Fraction]
]  # what a row costs that stays in its cluster, and one that moves


class CostTally:
    """The exact cost of several releases: plain ones add up; those over the same clusters cost the worse of stay and move.

    Examples
    --------
    >>> tally, half = CostTally(), Fraction(1, 2)
    >>> tally.add(half)
    >>> tally.add(half, Clusters(0, 4, ("leaves",)))  # counts: free for a row that stays
    >>> tally.add(half, Clusters(4, 2, ("leaves",)))  # sums: cheaper for a row that moves
    >>> tally.total
    Fraction(5, 4)
    """

    __slots__ = ("_by_case", "_over", "_under")

    def __init__(self) -> None:
        # The plain part is _over / _under, not in lowest terms: a Fraction takes most of its time for them, in each small call.
        self._over, self._under = 0, 1
        self._by_case: _ByCase = {}

    def add(self, cost: Fraction, clusters: Clusters | None = None) -> None:
        """Add a release: by case if it is over clusters, else as one that may change whatever the replaced row does."""
        if clusters is None or not clusters.worst:
            over, under = cost.as_integer_ratio()
            if under != self._under:
                common = math.lcm(under, self._under)
                self._over, over, self._under = self._over * (common // self._under), over * (common // under), common
            self._over += over
            return
        stay, move = self._by_case.get(clusters.lineage, (Fraction(0), Fraction(0)))
        stay += cost * Fraction(clusters.stay, clusters.worst)
        move += cost * Fraction(clusters.move, clusters.worst)
        self._by_case[clusters.lineage] = stay, move

    def copy(self) -> CostTally:
        """A tally of its own with the same items."""
        tally = CostTally()
        tally._over, tally._under, tally._by_case = self._over, self._under, dict(self._by_case)
        return tally

    @property
    def total(self) -> Fraction:
        """What all of it costs."""
        return sum((max(pair) for pair in self._by_case.values()), Fraction(self._over, self._under))

    def within(self, limit: Fraction, cost: Fraction, clusters: Clusters | None = None) -> CostTally | None:
        """The tally with one release more, None where that would cost more than `limit`; this one stays as it is."""
        more = self.copy()
        more.add(cost, clusters)
        over, under = limit.as_integer_ratio()
        exceeds = more.total > limit if more._by_case else more._over * under > over * more._under
        return None if exceeds else more
