"""How the rows of one training step are chosen. Each scheme answers for what its steps cost; accountants never ask for its class.

Every step adds Gaussian noise of standard deviation noise_multiplier * C to a sum of rows clipped to norm C, and divides by a fixed
public number. Proofs: `mechanisms/notes/subsampled_gaussian.md`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction

from fastpubpriv.errors import BudgetError
from fastpubpriv.privacy.exact import exact, float_up, show, whole
from fastpubpriv.privacy.profiles import StepProfile, fixed_size_replace, poisson_remove, poisson_replace
from fastpubpriv.privacy.relations import Neighbors


class Sampling(ABC):
    """A way to choose the rows of each step.

    Examples
    --------
    >>> from fastpubpriv.privacy import FullBatch, Poisson, Sampling
    >>> isinstance(FullBatch(), Sampling)
    True
    """

    __slots__ = ()

    def squared_mu(self, steps: int, relation: Neighbors) -> Fraction | None:
        """(mu noise_multiplier)^2 where the whole run is exactly mu-GDP; None where it is not."""
        return None

    @abstractmethod
    def pairs(self, noise_multiplier: float, relation: Neighbors) -> tuple[StepProfile, ...]:
        """The worst pairs of one step; each is composed by itself, and the dearest counts."""

    @property
    @abstractmethod
    def rate(self) -> Fraction:
        """Chance that a given row takes part in a given step; for one pass, in any step."""


def _jump(relation: Neighbors) -> int:
    """Largest change of the sum when one row changes, in units of C."""
    return 2 if relation is Neighbors.REPLACE_ONE else 1


@dataclass(frozen=True, slots=True)
class FullBatch(Sampling):
    """All rows in every step.

    Examples
    --------
    >>> FullBatch().squared_mu(100, Neighbors.REPLACE_ONE)
    Fraction(400, 1)
    """

    @property
    def rate(self) -> Fraction:
        """1."""
        return Fraction(1)

    def squared_mu(self, steps: int, relation: Neighbors) -> Fraction:
        """4 steps under replace-one: Gaussians add up in squares."""
        return Fraction(_jump(relation) ** 2 * steps)

    def pairs(self, noise_multiplier: float, relation: Neighbors) -> tuple[StepProfile, ...]:
        """None is needed."""
        return ()


@dataclass(frozen=True, slots=True)
class OnePass(Sampling):
    """Disjoint batches, fixed by public numbers, each used in one step: a row is in one step only.

    Examples
    --------
    >>> OnePass().squared_mu(100, Neighbors.REPLACE_ONE)
    Fraction(4, 1)
    """

    @property
    def rate(self) -> Fraction:
        """1."""
        return Fraction(1)

    def squared_mu(self, steps: int, relation: Neighbors) -> Fraction:
        """4 under replace-one, whatever the number of steps."""
        return Fraction(_jump(relation) ** 2)

    def pairs(self, noise_multiplier: float, relation: Neighbors) -> tuple[StepProfile, ...]:
        """None is needed."""
        return ()


@dataclass(frozen=True, slots=True)
class Poisson(Sampling):
    """Each row takes part in each step with probability `rate`, independently; the coins are secret.

    Parameters
    ----------
    rate : number
        In (0, 1]; 1 is the full batch.

    Examples
    --------
    >>> Poisson(Fraction(1, 60)).rate
    Fraction(1, 60)
    """

    rate: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", checked_rate(self.rate))

    def squared_mu(self, steps: int, relation: Neighbors) -> Fraction | None:
        """Of the full batch where every row is taken."""
        return FullBatch().squared_mu(steps, relation) if self.rate == 1 else None

    def pairs(self, noise_multiplier: float, relation: Neighbors) -> tuple[StepProfile, ...]:
        """One pair under replace-one; removing and adding a row under add/remove."""
        rate = rate_up(self.rate)
        if relation is Neighbors.REPLACE_ONE:
            return (poisson_replace(rate, noise_multiplier),)
        removed = poisson_remove(rate, noise_multiplier)
        return (removed, removed.swapped)


@dataclass(frozen=True, slots=True)
class WithoutReplacement(Sampling):
    """A fresh batch of `batch` of the `rows` rows in each step, all such batches equally likely; the coins are secret.

    Parameters
    ----------
    batch, rows : int
        1 <= batch <= rows; batch = rows is the full batch.

    Examples
    --------
    >>> WithoutReplacement(500, 30_000).rate
    Fraction(1, 60)
    """

    batch: int
    rows: int

    def __post_init__(self) -> None:
        if whole(self.batch, "batch") > whole(self.rows, "rows"):
            raise BudgetError(f"a batch of {self.batch} cannot be drawn without replacement from {self.rows} rows")

    @property
    def rate(self) -> Fraction:
        """batch / rows."""
        return Fraction(self.batch, self.rows)

    def squared_mu(self, steps: int, relation: Neighbors) -> Fraction | None:
        """Of the full batch where every row is taken."""
        check_fixed_size(relation)
        return FullBatch().squared_mu(steps, relation) if self.batch == self.rows else None

    def pairs(self, noise_multiplier: float, relation: Neighbors) -> tuple[StepProfile, ...]:
        """One pair, an upper bound for all."""
        check_fixed_size(relation)
        return (fixed_size_replace(rate_up(self.rate), noise_multiplier),)


def checked_rate(value: object) -> Fraction:
    """A rate in (0, 1]."""
    rate = exact(value, "rate")
    if not 0 < rate <= 1:
        raise BudgetError(f"rate must lie in (0, 1], got {show(rate)}")
    if rate < Fraction(1, 2**60):
        raise BudgetError(f"rate = {show(rate)} is below 2^-60; no table has that many rows")
    return rate


def rate_up(rate: Fraction) -> float:
    """A rate below 1 as a float below 1, rounded up; more sampling never costs less."""
    value = float_up(rate)
    if value >= 1.0:
        raise BudgetError("a rate within 2^-53 of 1 and not 1 cannot be accounted for; pass rate=1 or FullBatch()")
    return max(value, math.ulp(0.0))


def check_fixed_size(relation: Neighbors) -> None:
    """Batches of fixed size are for a public number of rows."""
    if relation is not Neighbors.REPLACE_ONE:
        raise BudgetError("batches of fixed size are accounted for under replace-one only; pass Poisson(rate)")
