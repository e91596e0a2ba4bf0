"""Sampling schemes for the rows of training steps, and the privacy cost of a run of noisy sums over sampled rows.

Each scheme provides the worst pairs of its steps, so accountants do not depend on its class. All results are pessimistic.

Each step adds Gaussian noise of standard deviation noise_multiplier * C to the *sum* of rows clipped to norm C, which changes by at
most 2 C under replace-one and C under add/remove, and divides by a fixed public number. Runs without sampling are exact (Gaussian
differential privacy); the others are composed on a grid of losses (`pld.py`), whose error is stated there. Proofs:
`mechanisms/notes/subsampled_gaussian.md`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

from fastpubpriv.errors import BudgetError
from fastpubpriv.privacy import pld
from fastpubpriv.privacy.budgets import (
    ZCDP,
    ApproxDP,
    Budget,
    Neighbors,
    Number,
    checked_relation,
    exact,
    float_down,
    float_for,
    float_up,
    keep_whole,
    show,
    whole,
)
from fastpubpriv.privacy.conversions import delta_in, gdp_delta, gdp_epsilon, gdp_mu, real


class Sampling(ABC):
    """A scheme that selects the rows of each step.

    Examples
    --------
    >>> from fastpubpriv.privacy import FullBatch, Poisson, Sampling
    >>> isinstance(FullBatch(), Sampling)
    True
    """

    __slots__ = ()

    def squared_mu(self, steps: int, relation: Neighbors) -> Fraction | None:
        """(mu noise_multiplier)^2 if the whole run is exactly mu-GDP, as when every row takes part; else None."""
        # Squared mu of Gaussian noise adds up.
        return Fraction(jump(relation) ** 2 * steps) if self.rate == 1 else None

    def pairs(self, noise_multiplier: float, relation: Neighbors) -> tuple[pld.StepProfile, ...]:
        """Worst pairs of one step, none if every row takes part; each is composed apart, the largest cost applies."""
        return ()

    @property
    @abstractmethod
    def rate(self) -> Fraction:
        """Probability that a given row takes part in a given step; for one pass, in any step."""


def jump(relation: Neighbors) -> int:
    """Return the maximum change of the sum when one row changes, in units of C."""
    return 2 if relation is not Neighbors.ADD_REMOVE_ONE else 1


@dataclass(frozen=True, slots=True)
class FullBatch(Sampling):
    """All rows in every step.

    Examples
    --------
    >>> FullBatch().squared_mu(100, Neighbors.REPLACE_ONE)
    Fraction(400, 1)
    """

    rate: ClassVar[Fraction] = Fraction(1)


@dataclass(frozen=True, slots=True)
class OnePass(Sampling):
    """Disjoint batches, fixed by public numbers, each used in one step: a row is in one step only.

    Examples
    --------
    >>> OnePass().squared_mu(100, Neighbors.REPLACE_ONE)
    Fraction(4, 1)
    """

    rate: ClassVar[Fraction] = Fraction(1)

    def squared_mu(self, steps: int, relation: Neighbors) -> Fraction:
        """4 under replace-one, whatever the number of steps."""
        return Fraction(jump(relation) ** 2)


@dataclass(frozen=True, slots=True)
class Poisson(Sampling):
    """Batches that each row joins with probability `rate`, independently in each step; the coins are secret.

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
        object.__setattr__(self, "rate", exact(self.rate, "rate"))
        if not 0 < self.rate <= 1:
            raise BudgetError(f"rate must lie in (0, 1], got {show(self.rate)}")
        if self.rate < Fraction(1, 2**60):
            raise BudgetError(
                f"rate = {show(self.rate)} is below 2^-60; no table has that many rows"
            )

    def pairs(self, noise_multiplier: float, relation: Neighbors) -> tuple[pld.StepProfile, ...]:
        """One pair under replace-one; the pairs of removing and adding a row under add/remove."""
        rate = rate_up(self.rate)
        if relation is not Neighbors.ADD_REMOVE_ONE:
            return (pld.poisson_replace(rate, noise_multiplier),)
        removed = pld.poisson_remove(rate, noise_multiplier)
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
        if keep_whole(self, "batch") > keep_whole(self, "rows"):
            raise BudgetError(
                f"a batch of {self.batch} cannot be drawn without replacement from {self.rows} rows"
            )

    @property
    def rate(self) -> Fraction:
        """batch / rows."""
        return Fraction(self.batch, self.rows)

    def squared_mu(self, steps: int, relation: Neighbors) -> Fraction | None:
        """Number of the full batch if batch = rows, else None; BudgetError under add/remove."""
        check_fixed_size(relation)
        return super(WithoutReplacement, self).squared_mu(steps, relation)

    def pairs(self, noise_multiplier: float, relation: Neighbors) -> tuple[pld.StepProfile, ...]:
        """One pair whose profile bounds that of every pair; BudgetError under add/remove."""
        check_fixed_size(relation)
        return (pld.fixed_size_replace(rate_up(self.rate), noise_multiplier),)


def rate_up(rate: Fraction) -> float:
    """Return a rate below 1 as a float below 1, rounded up: the cost increases with the rate."""
    value = float_up(rate)
    if value >= 1.0:
        raise BudgetError(
            "a rate within 2^-53 of 1 and not 1 cannot be accounted for; pass rate=1 or FullBatch()"
        )
    return max(value, math.ulp(0.0))


def check_fixed_size(relation: Neighbors) -> None:
    """Raise BudgetError under add/remove: batches of fixed size need a public number of rows."""
    if relation is Neighbors.ADD_REMOVE_ONE:
        raise BudgetError(
            "batches of fixed size are accounted for under replace-one only; pass Poisson(rate)"
        )


_STEPS_MAX = 10**8
_MULTIPLIERS = (Fraction(1, 100), Fraction(10**9))
_PRECISION = 1e-5  # relative precision of a calibrated noise multiplier
_NEAR = 3e-4  # relative precision of the search on a coarse grid
# log distance of multipliers below which grid and rounding errors of epsilon hide its slope
_CLOSE = 1e-4


def epsilon_of(
    noise_multiplier: Number,
    sampling: Sampling,
    steps: int,
    delta: Number,
    relation: Neighbors = Neighbors.REPLACE_ONE,
) -> float:
    """Least found epsilon of the whole run at this delta, rounded up.

    Parameters
    ----------
    noise_multiplier : number
        Standard deviation of the noise on the sum, in units of the clipping norm; 0.01 to 1e9.
    sampling : Sampling
        FullBatch(), Poisson(rate), WithoutReplacement(batch, rows) or OnePass().
    steps : int
        Number of noisy sums.
    delta : number
        In (0, 1).
    relation : Neighbors
        Neighboring relation.

    Returns
    -------
    float
        Exact up to rounding for runs without sampling; else an overestimate by at most about 2.5e-4 epsilon and 0.001.

    See Also
    --------
    delta_of : the delta at a given epsilon.
    noise_multiplier_for : the noise that a budget needs.
    fastpubpriv.privacy.conversions.best_epsilon : a run without sampling, from its total cost.

    Examples
    --------
    >>> from fastpubpriv.privacy import FullBatch, Poisson
    >>> f"{epsilon_of(5.2292, Poisson(1 / 54), 5000, 1e-5):.3f}"
    '1.997'
    >>> f"{epsilon_of(100, FullBatch(), 1000, 1e-5):.4f}"
    '2.5944'
    """
    z = _multiplier(noise_multiplier)
    count = _checked_steps(sampling, steps, relation)
    d = delta_in(delta)
    squared = sampling.squared_mu(count, relation)
    if squared is not None:
        return gdp_epsilon(d, root_up(squared / Fraction(z) ** 2))
    return _composed_epsilon(z, sampling, count, d, relation)


def delta_of(
    noise_multiplier: Number,
    sampling: Sampling,
    steps: int,
    epsilon: Number,
    relation: Neighbors = Neighbors.REPLACE_ONE,
) -> float:
    """Least found delta of the whole run at this epsilon, rounded up. Arguments as in `epsilon_of`.

    See Also
    --------
    epsilon_of : the epsilon at a given delta.
    noise_multiplier_for : the noise that a budget needs.

    Examples
    --------
    >>> from fastpubpriv.privacy import Poisson
    >>> f"{delta_of(5.2292, Poisson(1 / 54), 5000, 2.0):.3g}"
    '9.74e-06'
    """
    z = _multiplier(noise_multiplier)
    count = _checked_steps(sampling, steps, relation)
    e = real(epsilon, "epsilon", float_down, zero=True)
    squared = sampling.squared_mu(count, relation)
    if squared is not None:
        return gdp_delta(e, root_up(squared / Fraction(z) ** 2))
    return max(pld.composed_delta(pair, count, e) for pair in sampling.pairs(z, relation))


def noise_multiplier_for(
    budget: Budget,
    sampling: Sampling,
    steps: int,
    relation: Neighbors = Neighbors.REPLACE_ONE,
) -> float:
    """The noise multiplier with which the whole run meets the budget, rounded up.

    Parameters
    ----------
    budget : ApproxDP or ZCDP
        ZCDP for runs without sampling only: a rho cannot express privacy amplification by sampling.
    sampling : Sampling
        FullBatch(), Poisson(rate), WithoutReplacement(batch, rows) or OnePass().
    steps : int
        Number of noisy sums.
    relation : Neighbors
        Neighboring relation.

    Returns
    -------
    float
        A multiplier whose `epsilon_of` at the budget's delta is at most the budget's epsilon; within 1e-5 of the least such one.

    Raises
    ------
    BudgetError
        For a PureDP budget, which Gaussian noise cannot meet, and for a budget or relation that the scheme does not support.

    See Also
    --------
    epsilon_of : what a given noise costs.
    fastpubpriv.train : calibrates its noise by itself.

    Examples
    --------
    >>> from fastpubpriv.privacy import FullBatch, Poisson
    >>> f"{noise_multiplier_for(ApproxDP(2, 1e-5), Poisson(1 / 54), 5000):.3f}"
    '5.222'
    >>> noise_multiplier_for(ZCDP(0.5), FullBatch(), 25)
    10.0
    """
    count = _checked_steps(sampling, steps, relation)
    squared = sampling.squared_mu(count, relation)
    if isinstance(budget, ZCDP):
        if squared is None:
            raise BudgetError(
                "sampled rows have no useful cost in rho; pass ApproxDP(epsilon=..., delta=...)"
            )
        return root_up(squared / (2 * budget.rho))
    if not isinstance(budget, ApproxDP):
        raise BudgetError(
            "Gaussian noise on sums of rows needs a budget ApproxDP(epsilon=..., delta=...) or ZCDP(rho=...)"
        )
    epsilon = float_down(budget.epsilon)
    delta = delta_in(budget.delta)
    if squared is not None:
        return root_up(squared / Fraction(gdp_mu(epsilon, delta)) ** 2)
    start = float(sampling.rate) * jump(relation) * math.sqrt(count)
    start = min(max(start / gdp_mu(epsilon, delta), 0.3), float(_MULTIPLIERS[1]) / 4)

    def rough(z: float) -> float:
        # On a grid four times as coarse, minus 15/16 of its excess, which is 16 times as large.
        pairs = [
            pld.solved(pair, count, delta, fineness=0.25) for pair in sampling.pairs(z, relation)
        ]
        return max(least - min(15 / 16 * curve.excess, least / 2) for curve, least in pairs)

    # The coarse grid only provides the start and the slope of the final search.
    near, slope = _least_multiplier(rough, epsilon, start, precision=_NEAR)
    return _least_multiplier(
        lambda z: _composed_epsilon(z, sampling, count, delta, relation), epsilon, near, slope
    )[0]


# ---- the parts


def _multiplier(value: Number) -> float:
    number = exact(value, "noise_multiplier")
    if not _MULTIPLIERS[0] <= number <= _MULTIPLIERS[1]:
        raise BudgetError("noise_multiplier must be between 0.01 and 1e9")
    # the caller's own float: every cost has a margin far above its last bit
    return float_for(number, float_down)


def _checked_steps(sampling: Sampling, steps: int, relation: Neighbors) -> int:
    if not isinstance(sampling, Sampling):
        raise BudgetError(
            "sampling must be FullBatch(), Poisson(rate), WithoutReplacement(batch, rows) or OnePass(), "
            f"got {type(sampling).__name__}"
        )
    checked_relation(relation)
    if whole(steps, "steps") > _STEPS_MAX:
        raise BudgetError(f"steps must be at most {_STEPS_MAX}, got {steps}")
    return int(steps)


def root_up(value: Fraction) -> float:
    """Return the square root, rounded up to a float."""
    root = math.sqrt(float_up(value))
    while Fraction(root) ** 2 < value:
        root = math.nextafter(root, math.inf)
    return root


@lru_cache(maxsize=4096)
def _composed_epsilon(
    z: float, sampling: Sampling, steps: int, delta: float, relation: Neighbors
) -> float:
    return max(pld.solved(pair, steps, delta)[1] for pair in sampling.pairs(z, relation))


def _least_multiplier(
    epsilon_at: Callable[[float], float],
    goal: float,
    z: float,
    known: float | None = None,
    precision: float = _PRECISION,
) -> tuple[float, float]:
    """Search from `z` for the least multiplier, by secants in logarithms, else bisection; also return d log(epsilon) / d log(z)."""
    # `known` is the slope at `z`, if available. The search ends at an epsilon within the goal once the slope, or a neighbor above
    # the goal, shows that no multiplier smaller by more than `precision` suffices.
    floor, ceiling = (float(bound) for bound in _MULTIPLIERS)
    low, high = 0.0, math.inf  # no bound known yet
    slope = known or -1.0
    points = []
    for _ in range(200):
        epsilon = epsilon_at(z)
        if epsilon <= goal:
            high = min(high, z)
        else:
            low = max(low, z)
        points.append((math.log(z), math.log(max(epsilon, 1e-12) / goal)))
        if len(points) > 1 and abs(points[-1][0] - points[-2][0]) > _CLOSE:
            (x0, y0), (x1, y1) = points[-2:]
            slope = min((y1 - y0) / (x1 - x0), -0.2)
        close = (
            epsilon <= goal and points[-1][1] >= precision * slope and (len(points) > 1 or known)
        )
        if close or high <= floor or (low > 0 and high <= low * (1 + precision)):
            return high, slope
        # A secant step to slightly beyond the root, on the safe side, or a bisection step.
        x, y = points[-1]
        z = math.exp(x + min(max(-y / slope, -2.0), 2.0) + 0.4 * precision)
        if (low > 0 and high < math.inf and not low < z < high) or len(points) > 12:
            z = (
                math.sqrt(low * high)
                if low > 0 and high < math.inf
                else (2 * low if low > 0 else high / 2)
            )
        z = min(max(z, floor), ceiling)
    raise BudgetError("no noise multiplier between 0.01 and 1e9 was found for this budget")
