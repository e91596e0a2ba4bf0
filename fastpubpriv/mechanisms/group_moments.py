"""Noisy counts, sums and sums of squares of the values of each group of rows, each clipped to a public box of its group.

Privacy note: `notes/group_moments.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.kernels.rows import Codes, group_moments, moment_sums
from fastpubpriv.mechanisms.sums import ArrayQuery, Measurement, release_query
from fastpubpriv.privacy import Event
from fastpubpriv.release.account import Account
from fastpubpriv.sources import Executor, Rows
from fastpubpriv.sources.row_types import Chunk

_LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupMomentsQuery(ArrayQuery):
    """By column and group: the number of values times `weight`, the sum of q and, if shape[0] is 3, of q^2 // Q - Q // 2."""

    # t is a value clipped to the box (middle - half, middle + half) of its group and column and mapped to -1 ... 1; q is Q t, or
    # if `squared` Q (2 t^2 - 1), rounded. The values are in the first columns of the rows; one that is not finite adds nothing.
    codes: Callable[[Any], Codes] | None  # the group of each row; None for one group
    middle: FloatArray  # (groups, columns), and `half`
    half: FloatArray
    squared: bool
    bound: int  # Q
    weight: int
    takes_columns = True

    def zeros(self) -> tuple[IntArray]:
        """See `Query.zeros`."""
        return (moment_sums(*self.middle.shape),)

    def add(self, chunk: Chunk, accumulators: Any) -> None:
        """See `Query.add`."""
        steps = (1 if self.squared else self.bound) / self.half
        np.minimum(steps, _LARGEST, out=steps)  # a box may have length zero
        codes = None if self.codes is None else self.codes(chunk)
        group_moments(chunk, codes, self.middle, steps, self.squared, self.bound, accumulators[0])

    def answer(self, accumulators: Any) -> IntArray:
        """See `ArrayQuery.answer`."""
        totals: IntArray = (
            accumulators[0].transpose(1, 2, 0)[: self.shape[0], : self.shape[1]].copy()
        )
        totals[0] *= self.weight
        return totals


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MomentsReleased:
    """Released moments of numbers y = q / Q in [-1, 1] (see `GroupMomentsQuery`) by group and column, (groups, columns) each."""

    count: FloatArray
    total: FloatArray
    squares: FloatArray | None  # of y^2 - 1/2; None under Laplace noise
    count_std: float
    noise_std: float  # of `total` and `squares`
    event: Event

    @property
    def facts(self) -> dict[str, Any]:
        """The noise, for the record."""
        return {"noise_std": self.noise_std, "count_noise_std": self.count_std}

    def at(self, place: Any) -> MomentsReleased:
        """The moments at a place of the arrays: of one group, or of one column."""
        squares = None if self.squares is None else self.squares[place]
        return replace(self, count=self.count[place], total=self.total[place], squares=squares)

    @property
    def possible(self) -> MomentsReleased:
        """The same with the nearest sums that so many numbers in [-1, 1] can have."""
        return replace(self, total=np.clip(self.total, -self.rows, self.rows))

    @property
    def rows(self) -> FloatArray:
        """Number of rows, at least one."""
        return np.maximum(self.count, 1.0)

    @property
    def mean(self) -> FloatArray:
        """Mean of y."""
        return self.total / self.rows

    @property
    def noise(self) -> FloatArray:
        """Standard deviation of `mean` by noise."""
        return np.hypot(self.noise_std, self.mean * self.count_std) / self.rows

    @property
    def variance(self) -> FloatArray | None:
        """Variance of y, which noise may make negative; None without squares."""
        if self.squares is None:
            return None
        return self.squares / self.rows + 0.5 - self.mean**2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupMoments(Measurement[Fraction, MomentsReleased]):
    """Release counts, sums and, under Gaussian noise, sums of squares of all groups and columns jointly."""

    # `cost` is a rho or an epsilon, for all columns together. Replace-one sensitivity 4 dim Q^2 in squared l2, which is that of the
    # sums alone; in l1, without squares, 5/2 dim Q, with one group 2 dim Q. One group has a larger weight of counts.
    # the group of each row of a chunk, each row independently; None for one group
    codes: Callable[[Any], Codes] | None = None
    middle: FloatArray
    half: FloatArray
    squared: bool = False

    def release(
        self, account: Account, rows: Rows, executor: Executor, *, name: str, cost: Fraction
    ) -> MomentsReleased:
        """Charge `cost`, run the pass and add noise."""
        groups, columns = self.middle.shape
        grid = account.spend(cost).group_grid(groups, columns, rows.n)
        bound = grid.bound
        query = GroupMomentsQuery(
            shape=(grid.sums, columns, groups),
            codes=self.codes,
            middle=self.middle,
            half=self.half,
            squared=self.squared,
            bound=bound,
            weight=grid.weight,
            row_cost=2 * columns if self.codes is None else 4 * (columns + 1),
        )
        value = release_query(
            account, query, rows, executor, name=name, event=grid.event, unit=1.0 / bound
        )
        stretch = bound / grid.weight
        return MomentsReleased(
            count=value[0].T * stretch,
            total=value[1].T,
            squares=value[2].T if grid.sums == 3 else None,
            count_std=grid.noise_std * stretch,
            noise_std=grid.noise_std,
            event=grid.event,
        )
