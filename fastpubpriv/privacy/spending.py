"""What is left of a budget, as one value that knows the law of its own noise.

Estimators and mechanisms ask a `Spending` for standard deviations, integer grids and tails, and know neither a law of noise nor a
notion of privacy. A further law is one subclass, and an entry in `SPENDINGS`.

Standard deviations are those of an infinitely fine grid, for rows of norm at most 1; with c the cost, D a number of coordinates, h
of histograms and d the side of a second moment:

========  =====================================  ==============================================================
kind      Gaussian noise, c a rho                discrete Laplace noise, c an epsilon
========  =====================================  ==============================================================
sum       sqrt(2 / c)                            sqrt(8 D) / c
parts     sqrt(2 / c)                            4 sqrt(D) / c
count     1 / sqrt(c)                            sqrt(8) / c
counts    sqrt(h / c)                            sqrt(8) h / c
keys      sqrt(k / (2 c))                        sqrt(2) k / c
moment    1 / sqrt(c)                            2 sqrt(d (d + 3) / 2) / c; between clusters 2 (d + 1) / c
shared    1 / sqrt(c)                            sqrt(2) (d + 1) / c
groups    sqrt(2 D / c)                          sqrt(2) (5/2) D / c, for two groups or more
========  =====================================  ==============================================================

"count" is of the cells of one histogram, "counts" of those of h histograms, "keys" of those of one histogram of which neighbors
differ in k. "parts" is the sum of both parts of rows that are
divided at half of their bound. "moment" is the diagonal of the Gaussian orthogonal ensemble with the same effect; "shared" is an
entry of the diagonal of one of several second moments of rows that share one ball. "groups" are sums of the rows of each group, in
half boxes.

A release over disjoint clusters of rows is one integer vector for all clusters, with a sensitivity for each case (`Clusters`).

The amount bounds the cost of the worse case. On a grid with largest integer norm Q, or S steps for a counted row, and D columns:

=================  ===================  ===================  =======================  =========================
one vector of      squared l2, stay     squared l2, move     l1, stay                 l1, move
=================  ===================  ===================  =======================  =========================
Gram matrices      2 Q^4                2 Q^4                isqrt(D (D + 3)/2 Q^4)   2 floor((D + 1) Q^2/2)
sums               4 Q^2                2 Q^2                isqrt(4 D Q^2)           2 isqrt(D Q^2)
counts             0                    2 S^2                0                        2 S
keys               k S^2                k S^2                k S                      k S
cells in a cluster 2 S^2                2 S^2                2 S                      2 S
=================  ===================  ===================  =======================  =========================

A move is charged as leaving one cluster and entering another. Cells inside a single cluster have the same charge although no other
cluster exists: `TreeBudget` relies on entering or leaving costing at most half of a replacement.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Literal, NamedTuple, Self, TypeVar

import numpy as np
from scipy import special

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import BudgetError
from fastpubpriv.privacy import calibration
from fastpubpriv.privacy.budgets import ZCDP, ApproxDP, Budget, Clusters, PureDP
from fastpubpriv.privacy.calibrated_budget import gaussian_rho, laplace_epsilon
from fastpubpriv.privacy.calibration import Grid, Lineage
from fastpubpriv.privacy.conversions import Law
from fastpubpriv.privacy.events import Event, GaussianEvent, LaplaceEvent

Value = TypeVar("Value")
Std = Literal["sum", "parts", "count", "counts", "keys", "moment", "shared", "groups"]
OfGrid = Literal["sum", "parts", "count", "keys", "moment", "shared"]
OfClusters = Literal["sum", "moment", "count", "cells"]
WHOLE = Fraction(1)


class GroupGrid(NamedTuple):
    """The integers of a joint release of the moments of groups: see `mechanisms/notes/group_moments.md`."""

    bound: int  # Q, the grid steps of half a box
    weight: int  # the grid steps that a number adds to its count
    sums: int  # 2 if counts and sums are released, 3 with sums of squares
    event: GaussianEvent | LaplaceEvent

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise of a sum of numbers in [-1, 1]."""
        return self.event.noise_std / self.bound


@dataclass(frozen=True, slots=True)
class Spending(ABC):
    """An exact part of a budget that releases with one law of noise may cost together.

    Parameters
    ----------
    allowance : Fraction
        The part, in the unit in which the account of a call adds up the costs of its releases.
    between_clusters : bool
        Whether second moments are of disjoint clusters, so that a replaced row may move from one to another.
    """

    allowance: Fraction
    between_clusters: bool = False

    law: ClassVar[Law]  # of the noise, as results name it
    unit: ClassVar[type[Budget]]  # notion in which its amounts add up
    # whether second moments may share a release, and so its noise, with sums
    counts_squares: ClassVar[bool]
    adds_parts: ClassVar[bool]  # whether a row's sensitivity is the sum of the norms of its parts
    # whether entering or leaving a cluster costs half of a replacement
    carries_trees: ClassVar[bool]
    on_diagonal: ClassVar[float]  # noise on the diagonal of a second moment over that off it
    # weight of a count in its joint release with the sum of one of several groups, in half boxes
    count_of_group: ClassVar[float]

    @classmethod
    @abstractmethod
    def amount(cls, budget: Budget, draws: int, *reserved: Fraction) -> Fraction:
        """Return what releases of `draws` noise values may cost together, next to a `reserved` epsilon and delta."""

    # ---- parts ----

    def at(self, cost: Fraction) -> Self:
        """Return another amount, of the same law."""
        return replace(self, allowance=cost)

    def part(self, share: Fraction) -> Self:
        """Return a share of the amount."""
        return replace(self, allowance=self.allowance * share)

    def split(self, shares: Iterable[Fraction]) -> list[Self]:
        """Return the parts of the amount; raise BudgetError if the shares add up to more than 1."""
        parts = [self.part(share) for share in shares]
        if sum(part.allowance for part in parts) > self.allowance:
            raise BudgetError("the shares of a budget add up to more than 1")
        return parts

    def reserve(self, event: Event) -> Self:
        """Return what is left after a release; raise BudgetError if the amount does not cover it."""
        left = self.allowance - event.price(self.unit)
        if left < 0:
            raise BudgetError("a release would exceed what is left of the budget")
        return self.at(left)

    def _cost(self, share: Fraction) -> float:
        """Return the cost of a share as a correctly rounded float; this is ten times faster than a reduced fraction."""
        whole_cost = self.allowance
        numerator = whole_cost.numerator * share.numerator
        return max(numerator / (whole_cost.denominator * share.denominator), 1e-300)

    # ---- noise ----

    @abstractmethod
    def std(self, kind: Std, dim: int = 1, share: Fraction = WHOLE) -> float:
        """Return the standard deviation of one released number at a share of the amount: see the table of this module."""

    @abstractmethod
    def energy(self, dim: int, radius: float) -> float:
        """Return E |noise|^2 on a sum of rows of `dim` coordinates, clipped to norm `radius`."""

    @abstractmethod
    def share_for(self, signal: float, histograms: int, n: int) -> float:
        """Return the share of the amount at which `signal` standard deviations of a count are n rows."""

    @staticmethod
    @abstractmethod
    def share_at(variance: float) -> float:
        """Return the share of an amount at which the noise has the variance of the whole over `variance`, at most 1."""

    @staticmethod
    @abstractmethod
    def beyond_gaussian(log_chance: FloatArray) -> FloatArray:
        """Return by how many standard deviations the noise of a count exceeds Gaussian noise, each with this log probability."""

    @abstractmethod
    def by_tail(self, gaussian: Value, exponential: Value) -> Value:
        """Return the first constant if the noise has the tails of a Gaussian, the second if they are exponential."""

    # ---- grids and events ----

    @abstractmethod
    def grid(self, kind: OfGrid, dim: int, n: int, *, parts: int = 1) -> Grid:
        """Return the finest grid on which a release about n rows costs at most the amount; InputError if there is none.

        "sum" is of `dim` coordinates, "parts" of `parts` parts of `dim` coordinates each; "count" of `dim` cells in `parts`
        histograms, "keys" of `dim` cells of one histogram, `parts` of which differ between neighbors; "moment" of side `dim`,
        "shared" of `parts` second moments of side `dim`.
        """

    @staticmethod
    @abstractmethod
    def count_weight(bound: int, groups: int) -> int:
        """Return the grid steps that a number adds to its count, beside a sum in half boxes of `bound` steps.

        With one group a number may become missing, but enters no other: its weight is larger.
        """

    @abstractmethod
    def group_grid(self, groups: int, columns: int, n: int) -> GroupGrid:
        """Return the integers of a joint release of the moments of each group and column; the columns share the amount equally."""

    def cluster_grid(
        self, kind: OfClusters, dim: int, n: int, *, clusters: int, lineage: Lineage
    ) -> Grid:
        """Return the finest grid for one release over disjoint clusters, with the costs of staying and of moving.

        "sum" and "moment" are of rows of `dim` columns for each cluster, "count" the number of rows of each cluster, "cells" that
        in each of `dim` disjoint cells of one cluster.
        """
        return _cluster_grid(self, kind, dim, n, clusters, lineage)

    @abstractmethod
    def _stay_and_move(
        self, kind: Literal["sum", "moment"], dim: int, n: int
    ) -> tuple[Grid, int, int]:
        """Return the grid of sums or second moments of clusters, and the sensitivities of staying and of moving."""

    @abstractmethod
    def moment_shape(self, side: int, *parts: int) -> tuple[int, ...]:
        """Return the shape of the integers of second moments: whole matrices, or upper triangles."""

    @abstractmethod
    def count_steps(self, event: GaussianEvent | LaplaceEvent) -> int:
        """Return the largest integer by which counts may be multiplied at this amount, with the noise of an event."""

    @staticmethod
    @abstractmethod
    def counts_add(steps: int) -> int:
        """Return what a histogram of `steps` a row adds to the sensitivity of a joint release."""

    @abstractmethod
    def free_steps(self, side: int, bound: int) -> int:
        """Return the steps of a complete row that leave the sensitivity of a second moment of rows of norm `bound` as it is."""

    @abstractmethod
    def square_bound(self, grid: Grid, dim: int) -> tuple[int, int]:
        """Return the norm of whole rows, and a factor of their squares, that cost the amount with the noise of a grid of sums.

        The norm is 0 where that is too rough, or where `counts_squares` is False.
        """

    # ---- choices ----

    @abstractmethod
    def choice_epsilon(self, law: str) -> Fraction:
        """Return the largest epsilon at which a selection by "exponential" or "permute_and_flip" costs at most the amount."""


@lru_cache(maxsize=256)
def _cluster_grid(
    spending: Spending, kind: OfClusters, dim: int, n: int, clusters: int, lineage: Lineage
) -> Grid:
    if kind == "count":
        grid = spending.grid("count", clusters, n)
        cases = Clusters(0, grid.event.worst, lineage)
        draws = clusters
    elif kind == "cells":
        grid = spending.grid("count", dim, n)
        cases = Clusters(grid.event.worst, grid.event.worst, lineage)
        draws = dim
    else:
        grid, stay, move = spending._stay_and_move(kind, dim, n)
        cases = Clusters(stay, move, lineage)
        of_one = (dim,) if kind == "sum" else spending.moment_shape(dim)
        draws = clusters * math.prod(of_one)
    event = type(grid.event)(cases.worst, grid.log2_scale, draws, clusters=cases)
    return replace(grid, event=event)


def _of_histograms(grid: Grid, histograms: int) -> Grid:
    """Return the grid of counts of one histogram with the event of several, of `grid.dim` cells in all."""
    # A replaced row changes two counts of each histogram by one: the histograms share the cost equally.
    if histograms == 1:
        return grid
    event = type(grid.event)(grid.event.worst * histograms, grid.log2_scale, grid.dim)
    return replace(grid, event=event)


class GaussianSpending(Spending):
    """A rho: discrete Gaussian noise, for zCDP and approximate DP."""

    __slots__ = ()

    law = "gaussian"
    unit = ZCDP
    counts_squares = True
    adds_parts = False
    carries_trees = True
    on_diagonal = math.sqrt(2.0)
    count_of_group = math.sqrt(0.75)

    @classmethod
    def amount(cls, budget: Budget, draws: int, *reserved: Fraction) -> Fraction:
        """See `Spending.amount`."""
        return gaussian_rho(budget, draws, *reserved)

    def std(self, kind: Std, dim: int = 1, share: Fraction = WHOLE) -> float:
        """See `Spending.std`."""
        cost = self._cost(share)
        if kind == "counts":
            return math.sqrt(dim / cost)
        if kind == "keys":
            return math.sqrt(dim / (2.0 * cost))
        if kind == "groups":
            return math.sqrt(2.0 * dim / cost)
        if kind in ("count", "moment", "shared"):
            return 1.0 / math.sqrt(cost)
        if kind == "sum":
            return 2.0 / math.sqrt(2.0 * cost)
        return math.sqrt(2.0 / cost)

    def energy(self, dim: int, radius: float) -> float:
        """See `Spending.energy`."""
        return 2.0 * dim * radius**2 / float(self.allowance)

    def share_for(self, signal: float, histograms: int, n: int) -> float:
        """See `Spending.share_for`."""
        return histograms * signal**2 / (float(self.allowance) * n * n)

    @staticmethod
    def share_at(variance: float) -> float:
        """See `Spending.share_at`."""
        return variance

    @staticmethod
    def beyond_gaussian(log_chance: FloatArray) -> FloatArray:
        """See `Spending.beyond_gaussian`."""
        return np.zeros(len(log_chance))

    def by_tail(self, gaussian: Value, exponential: Value) -> Value:
        """See `Spending.by_tail`."""
        return gaussian

    def grid(self, kind: OfGrid, dim: int, n: int, *, parts: int = 1) -> Grid:
        """See `Spending.grid`."""
        if kind == "count":
            counts = calibration.gaussian_count_grid(self.allowance / parts, dim, n)
            return _of_histograms(counts, parts)
        if kind == "keys":
            return calibration.gaussian_count_grid(self.allowance, dim, n, changed=parts)
        if kind == "sum":
            return calibration.gaussian_sum_grid(self.allowance, dim, n)
        if kind == "parts":
            return calibration.gaussian_sum_grid(self.allowance, parts * dim, n)
        moments = calibration.gaussian_gram_grid(self.allowance, parts * dim, n)
        return replace(moments, event=replace(moments.event, draws=parts * dim * dim))

    @staticmethod
    def count_weight(bound: int, groups: int) -> int:
        """See `Spending.count_weight`."""
        # The most that does not raise the squared l2 sensitivity 4 Q^2, of which entering another group leaves half.
        room = 4 * bound**2 if groups == 1 else 2 * bound**2
        return math.isqrt(room - bound**2 - (bound - bound // 2) ** 2)

    def group_grid(self, groups: int, columns: int, n: int) -> GroupGrid:
        """See `Spending.group_grid`."""
        grid = calibration.gaussian_sum_grid(self.allowance / columns, 1, n)
        bound = grid.quant_bound
        event = GaussianEvent(4 * bound**2 * columns, grid.log2_scale, groups * columns * 3)
        return GroupGrid(bound, self.count_weight(bound, groups), 3, event)

    def _stay_and_move(
        self, kind: Literal["sum", "moment"], dim: int, n: int
    ) -> tuple[Grid, int, int]:
        grid = self.grid(kind, dim, n)
        if kind == "moment":
            return grid, grid.event.worst, grid.event.worst
        squared = grid.quant_bound**2
        return grid, 4 * squared, 2 * squared

    def moment_shape(self, side: int, *parts: int) -> tuple[int, ...]:
        """See `Spending.moment_shape`."""
        return (*parts, side, side)

    def count_steps(self, event: GaussianEvent | LaplaceEvent) -> int:
        """See `Spending.count_steps`."""
        return math.isqrt(math.floor(self.allowance * 4**event.log2_scale))

    @staticmethod
    def counts_add(steps: int) -> int:
        """See `Spending.counts_add`."""
        return 2 * steps * steps

    def free_steps(self, side: int, bound: int) -> int:
        """See `Spending.free_steps`."""
        return bound * bound

    def square_bound(self, grid: Grid, dim: int) -> tuple[int, int]:
        """See `Spending.square_bound`."""
        # No larger than an entry of the sums, which fit the machine.
        most = min(math.isqrt(math.floor(self.allowance * 4**grid.log2_scale)), grid.quant_bound)
        times = max(1, -(-most // calibration.GRAM_QUANT_MAX**2))
        bound = math.isqrt(most // times)
        return (bound, times) if bound >= 8 * (math.isqrt(dim - 1) + 1) else (0, 1)

    def choice_epsilon(self, law: str) -> Fraction:
        """See `Spending.choice_epsilon`."""
        if law == "exponential":
            return Fraction(math.isqrt(math.floor(self.allowance * 8 * 4**60)), 2**60)
        return laplace_epsilon(ZCDP(self.allowance), 1)


class LaplaceSpending(Spending):
    """An epsilon: discrete Laplace noise, for pure DP."""

    __slots__ = ()

    law = "laplace"
    unit = PureDP
    counts_squares = False
    adds_parts = True
    carries_trees = False
    on_diagonal = 1.0
    count_of_group = 0.25

    @classmethod
    def amount(cls, budget: Budget, draws: int, *reserved: Fraction) -> Fraction:
        """See `Spending.amount`."""
        return laplace_epsilon(budget, draws)

    def std(self, kind: Std, dim: int = 1, share: Fraction = WHOLE) -> float:
        """See `Spending.std`."""
        cost = self._cost(share)
        if kind == "sum":
            return math.sqrt(8.0 * dim) / cost
        if kind == "parts":
            return 4.0 * math.sqrt(dim) / cost
        if kind == "count":
            return math.sqrt(8.0) / cost
        if kind == "counts":
            return math.sqrt(8.0) * dim / cost
        if kind == "keys":
            return math.sqrt(2.0) * dim / cost
        if kind == "groups":
            return math.sqrt(2.0) * 2.5 * dim / cost
        if kind == "shared":
            return math.sqrt(2.0) * (dim + 1) / cost
        # All entries have standard deviation sqrt(2) b; the ensemble has a factor sqrt(2) on the diagonal.
        root = dim + 1.0 if self.between_clusters else math.sqrt(dim * (dim + 3.0) / 2.0)
        return 2.0 * root / cost

    def energy(self, dim: int, radius: float) -> float:
        """See `Spending.energy`."""
        return 8.0 * dim**2 * radius**2 / float(self.allowance) ** 2

    def share_for(self, signal: float, histograms: int, n: int) -> float:
        """See `Spending.share_for`."""
        return math.sqrt(8.0) * histograms * signal / (float(self.allowance) * n)

    @staticmethod
    def share_at(variance: float) -> float:
        """See `Spending.share_at`."""
        return math.sqrt(variance)

    @staticmethod
    def beyond_gaussian(log_chance: FloatArray) -> FloatArray:
        """See `Spending.beyond_gaussian`."""
        gaussian = -special.ndtri_exp(log_chance)
        beyond: FloatArray = -(math.log(2.0) + log_chance) / math.sqrt(2.0) - gaussian
        return beyond

    def by_tail(self, gaussian: Value, exponential: Value) -> Value:
        """See `Spending.by_tail`."""
        return exponential

    def grid(self, kind: OfGrid, dim: int, n: int, *, parts: int = 1) -> Grid:
        """See `Spending.grid`."""
        if kind == "count":
            counts = calibration.laplace_count_grid(self.allowance / parts, dim, n)
            return _of_histograms(counts, parts)
        if kind == "keys":
            return calibration.laplace_count_grid(self.allowance, dim, n, changed=parts)
        if kind == "sum" or (kind == "parts" and parts == 1):
            return calibration.laplace_sum_grid(self.allowance, dim, n)
        if kind == "parts":
            return calibration.laplace_parts_grid(self.allowance, parts, dim, n)
        if kind == "shared":
            return calibration.laplace_parts_gram_grid(self.allowance, parts, dim, n)
        return calibration.laplace_gram_grid(self.allowance, dim, n)

    @staticmethod
    def count_weight(bound: int, groups: int) -> int:
        """See `Spending.count_weight`."""
        return bound if groups == 1 else bound // 4

    def group_grid(self, groups: int, columns: int, n: int) -> GroupGrid:
        """See `Spending.group_grid`."""
        grid = calibration.laplace_count_grid(self.allowance / columns, groups * columns * 2, n)
        bound = grid.quant_bound if groups == 1 else max(2, grid.quant_bound * 4 // 5)
        weight = self.count_weight(bound, groups)
        enters = bound + weight
        change = enters if groups == 1 else 2 * enters
        event = LaplaceEvent(change * columns, grid.log2_scale, groups * columns * 2)
        return GroupGrid(bound, weight, 2, event)

    def _stay_and_move(
        self, kind: Literal["sum", "moment"], dim: int, n: int
    ) -> tuple[Grid, int, int]:
        if kind == "moment":
            # A row that stays costs less than one that moves, for every dim.
            grid = self.grid("shared", dim, n)
            stay = math.isqrt(dim * (dim + 3) // 2 * grid.quant_bound**4)
            return grid, stay, grid.event.worst
        grid = self.grid("sum", dim, n)
        squared = dim * grid.quant_bound**2
        return grid, math.isqrt(4 * squared), 2 * math.isqrt(squared)

    def moment_shape(self, side: int, *parts: int) -> tuple[int, ...]:
        """See `Spending.moment_shape`."""
        return (*parts, side * (side + 1) // 2)

    def count_steps(self, event: GaussianEvent | LaplaceEvent) -> int:
        """See `Spending.count_steps`."""
        most: int = math.floor(self.allowance * 2**event.log2_scale)
        return most // 2

    @staticmethod
    def counts_add(steps: int) -> int:
        """See `Spending.counts_add`."""
        return 2 * steps

    def free_steps(self, side: int, bound: int) -> int:
        """See `Spending.free_steps`."""
        squared = bound * bound
        whole_triangle = math.isqrt(side * (side + 3) // 2 * squared * squared)
        return min(squared, whole_triangle - (side + 1) * squared // 2)

    def square_bound(self, grid: Grid, dim: int) -> tuple[int, int]:
        """See `Spending.square_bound`."""
        return 0, 1

    def choice_epsilon(self, law: str) -> Fraction:
        """See `Spending.choice_epsilon`."""
        return self.allowance


# The noise of each notion of privacy.
SPENDINGS: dict[type[Budget], type[Spending]] = {
    ZCDP: GaussianSpending,
    ApproxDP: GaussianSpending,
    PureDP: LaplaceSpending,
}


def noise_of(budget: Budget) -> type[Spending]:
    """Return the kind of noise that a budget is spent on; for what is no budget, a kind whose `amount` refuses it.

    Examples
    --------
    >>> noise_of(ZCDP(rho=1)).carries_trees, noise_of(PureDP(epsilon=1)).carries_trees
    (True, False)
    """
    known = (SPENDINGS[base] for base in type(budget).__mro__ if base in SPENDINGS)
    return next(known, GaussianSpending)


def spending_of(budget: Budget, draws: int, *reserved: Fraction) -> Spending:
    """Return what releases of `draws` noise values may cost of a budget, next to a `reserved` epsilon and delta.

    Examples
    --------
    >>> spending_of(ZCDP(rho=1), draws=10)
    GaussianSpending(allowance=Fraction(1, 1), between_clusters=False)
    >>> spending_of(ZCDP(rho=2), draws=10).std("count")
    0.7071067811865475
    """
    kind = noise_of(budget)
    return kind(kind.amount(budget, draws, *reserved))
