"""How the rows of one training step are chosen, and what a run of noisy sums over them costs.

Each scheme answers for what its steps cost; accountants never ask for its class. Every result is on the safe side.

Every step adds Gaussian noise of standard deviation noise_multiplier * C to the *sum* of rows clipped to norm C, which moves by up
to 2 C under replace-one and C under add/remove, and divides by a fixed public number. Runs without sampling are exact (Gaussian
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
from fastpubpriv.privacy.budgets import (
    ZCDP,
    ApproxDP,
    Budget,
    Neighbors,
    Number,
    exact,
    float_down,
    float_for,
    float_up,
    show,
    whole,
)
from fastpubpriv.privacy.conversions import delta_in, gdp_delta, gdp_epsilon, gdp_mu, real
from fastpubpriv.privacy.pld import (
    StepProfile,
    composed_delta,
    composed_epsilon,
    fixed_size_replace,
    poisson_remove,
    poisson_replace,
    solved,
)


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
        """(mu noise_multiplier)^2 where the whole run is exactly mu-GDP, as where every row is taken; None where it is not."""
        return FullBatch().squared_mu(steps, relation) if self.rate == 1 else None

    @abstractmethod
    def pairs(self, noise_multiplier: float, relation: Neighbors) -> tuple[StepProfile, ...]:
        """The worst pairs of one step; each is composed by itself, and the dearest counts."""

    @property
    @abstractmethod
    def rate(self) -> Fraction:
        """Chance that a given row takes part in a given step; for one pass, in any step."""


class _EveryRow(Sampling):
    """Every row takes part, so that no pairs are needed."""

    __slots__ = ()
    rate: ClassVar[Fraction] = Fraction(1)

    def pairs(self, noise_multiplier: float, relation: Neighbors) -> tuple[StepProfile, ...]:
        """None."""
        return ()


def _jump(relation: Neighbors) -> int:
    """Largest change of the sum when one row changes, in units of C."""
    return 2 if relation is not Neighbors.ADD_REMOVE_ONE else 1


@dataclass(frozen=True, slots=True)
class FullBatch(_EveryRow):
    """All rows in every step.

    Examples
    --------
    >>> FullBatch().squared_mu(100, Neighbors.REPLACE_ONE)
    Fraction(400, 1)
    """

    def squared_mu(self, steps: int, relation: Neighbors) -> Fraction:
        """4 steps under replace-one: Gaussians add up in squares."""
        return Fraction(_jump(relation) ** 2 * steps)


@dataclass(frozen=True, slots=True)
class OnePass(_EveryRow):
    """Disjoint batches, fixed by public numbers, each used in one step: a row is in one step only.

    Examples
    --------
    >>> OnePass().squared_mu(100, Neighbors.REPLACE_ONE)
    Fraction(4, 1)
    """

    def squared_mu(self, steps: int, relation: Neighbors) -> Fraction:
        """4 under replace-one, whatever the number of steps."""
        return Fraction(_jump(relation) ** 2)


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
        object.__setattr__(self, "rate", exact(self.rate, "rate"))
        if not 0 < self.rate <= 1:
            raise BudgetError(f"rate must lie in (0, 1], got {show(self.rate)}")
        if self.rate < Fraction(1, 2**60):
            raise BudgetError(f"rate = {show(self.rate)} is below 2^-60; no table has that many rows")

    def pairs(self, noise_multiplier: float, relation: Neighbors) -> tuple[StepProfile, ...]:
        """One pair under replace-one; removing and adding a row under add/remove."""
        rate = rate_up(self.rate)
        if relation is not Neighbors.ADD_REMOVE_ONE:
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
        """Of the full batch where every row is taken; BudgetError under add/remove."""
        check_fixed_size(relation)
        return super(WithoutReplacement, self).squared_mu(steps, relation)

    def pairs(self, noise_multiplier: float, relation: Neighbors) -> tuple[StepProfile, ...]:
        """One pair, an upper bound for all."""
        check_fixed_size(relation)
        return (fixed_size_replace(rate_up(self.rate), noise_multiplier),)


def rate_up(rate: Fraction) -> float:
    """A rate below 1 as a float below 1, rounded up; more sampling never costs less."""
    value = float_up(rate)
    if value >= 1.0:
        raise BudgetError("a rate within 2^-53 of 1 and not 1 cannot be accounted for; pass rate=1 or FullBatch()")
    return max(value, math.ulp(0.0))


def check_fixed_size(relation: Neighbors) -> None:
    """Batches of fixed size are for a public number of rows."""
    if relation is Neighbors.ADD_REMOVE_ONE:
        raise BudgetError("batches of fixed size are accounted for under replace-one only; pass Poisson(rate)")


_STEPS_MAX = 10**8
_MULTIPLIERS = (Fraction(1, 100), Fraction(10**9))
_PRECISION = 1e-5  # relative, of a calibrated noise multiplier
_NEAR = 3e-4  # where the search on a coarse grid ends
_CLOSE = 1e-4  # between two such, what grids and rounding do to epsilon hides its slope


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
        What one row's change means.

    Returns
    -------
    float
        Exact to rounding for runs without sampling; else high by at most about 2.5e-4 epsilon and 0.001.

    Examples
    --------
    >>> from fastpubpriv.privacy import FullBatch, Poisson
    >>> f"{epsilon_of(5.2292, Poisson(1 / 54), 5000, 1e-5):.3f}"
    '1.997'
    >>> f"{epsilon_of(100, FullBatch(), 1000, 1e-5):.4f}"
    '2.5944'
    """
    z, count = _multiplier(noise_multiplier), _checked_steps(sampling, steps, relation)
    d = delta_in(delta)
    squared = sampling.squared_mu(count, relation)
    if squared is not None:
        return gdp_epsilon(d, _mu(squared, z))
    return _composed_epsilon(z, sampling, count, d, relation)


def delta_of(
    noise_multiplier: Number,
    sampling: Sampling,
    steps: int,
    epsilon: Number,
    relation: Neighbors = Neighbors.REPLACE_ONE,
) -> float:
    """Least found delta of the whole run at this epsilon, rounded up. Arguments as in `epsilon_of`.

    Examples
    --------
    >>> from fastpubpriv.privacy import Poisson
    >>> f"{delta_of(5.2292, Poisson(1 / 54), 5000, 2.0):.3g}"
    '9.74e-06'
    """
    z, count = _multiplier(noise_multiplier), _checked_steps(sampling, steps, relation)
    e = real(epsilon, "epsilon", float_down, zero=True)
    squared = sampling.squared_mu(count, relation)
    if squared is not None:
        return gdp_delta(e, _mu(squared, z))
    return max(composed_delta(pair, count, e) for pair in sampling.pairs(z, relation))


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
        ZCDP for runs without sampling only: sampling gains nothing that a rho could state.
    sampling : Sampling
        FullBatch(), Poisson(rate), WithoutReplacement(batch, rows) or OnePass().
    steps : int
        Number of noisy sums.
    relation : Neighbors
        What one row's change means.

    Returns
    -------
    float
        `epsilon_of` of it at the budget's delta is at most the budget's epsilon; within 1e-5 of the least one that shows that.

    Raises
    ------
    BudgetError
        For a pure budget, which no Gaussian noise meets, and for what the scheme cannot state.

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
            raise BudgetError("sampled rows have no useful cost in rho; pass ApproxDP(epsilon=..., delta=...)")
        return _root_up(squared / (2 * budget.rho))
    if not isinstance(budget, ApproxDP):
        raise BudgetError(
            "Gaussian noise on sums of rows needs a budget ApproxDP(epsilon=..., delta=...) or ZCDP(rho=...)"
        )
    epsilon, delta = float_down(budget.epsilon), delta_in(budget.delta)
    if squared is not None:
        return _root_up(squared / Fraction(gdp_mu(epsilon, delta)) ** 2)
    start = float(sampling.rate) * _jump(relation) * math.sqrt(count)
    start = min(max(start / gdp_mu(epsilon, delta), 0.3), float(_MULTIPLIERS[1]) / 4)
    # A coarse grid shows where to look, and how steep the cost is there; its word is not taken for anything else.
    rough = lambda z: _rough_epsilon(z, sampling, count, delta, relation)  # noqa: E731
    near, slope = _least_multiplier(rough, epsilon, start, precision=_NEAR)
    return _least_multiplier(lambda z: _composed_epsilon(z, sampling, count, delta, relation), epsilon, near, slope)[0]


# ---- the parts


def _multiplier(value: Number) -> float:
    number = exact(value, "noise_multiplier")
    if not _MULTIPLIERS[0] <= number <= _MULTIPLIERS[1]:
        raise BudgetError("noise_multiplier must be between 0.01 and 1e9")
    return float_for(number, float_down)  # the caller's own float: every cost has a margin far above its last bit


def _checked_steps(sampling: Sampling, steps: int, relation: Neighbors) -> int:
    if not isinstance(sampling, Sampling):
        raise BudgetError(
            "sampling must be FullBatch(), Poisson(rate), WithoutReplacement(batch, rows) or OnePass(), "
            f"got {type(sampling).__name__}"
        )
    if not isinstance(relation, Neighbors):
        raise BudgetError(f"relation must be a Neighbors value, got {type(relation).__name__}")
    if whole(steps, "steps") > _STEPS_MAX:
        raise BudgetError(f"steps must be at most {_STEPS_MAX}, got {steps}")
    return int(steps)


def _root_up(value: Fraction) -> float:
    """The square root, rounded up to the next float."""
    root = math.sqrt(float_up(value))
    while Fraction(root) ** 2 < value:
        root = math.nextafter(root, math.inf)
    return root


def _mu(squared: Fraction, noise_multiplier: float) -> float:
    return _root_up(squared / Fraction(noise_multiplier) ** 2)


@lru_cache(maxsize=4096)
def _composed_epsilon(z: float, sampling: Sampling, steps: int, delta: float, relation: Neighbors) -> float:
    return max(composed_epsilon(pair, steps, delta) for pair in sampling.pairs(z, relation))


def _rough_epsilon(z: float, sampling: Sampling, steps: int, delta: float, relation: Neighbors) -> float:
    """About the same from a grid four times as coarse, what that one adds taken off again: it adds 16 times as much."""
    pairs = [solved(pair, steps, delta, fineness=0.25) for pair in sampling.pairs(z, relation)]
    return max(epsilon - min(15 / 16 * curve.excess, epsilon / 2) for curve, epsilon in pairs)


def _least_multiplier(
    epsilon_at: Callable[[float], float],
    goal: float,
    z: float,
    known: float | None = None,
    precision: float = _PRECISION,
) -> tuple[float, float]:
    """The least multiplier found from `z` on, by secants in the logarithms, else by halves, and d log(epsilon) / d log(z) there."""
    # `known` is that slope at `z`, if it is known. The cost is at most the goal, and so close to it that by the slope, or by a
    # neighbor that costs more, no multiplier smaller by more than the wanted precision would do.
    low, high = 0.0, math.inf  # logarithms are unknown at both ends
    slope, points = known or -1.0, []
    for _ in range(200):
        epsilon = epsilon_at(z)
        if epsilon <= goal:
            high = min(high, z)
        else:
            low = max(low, z)
        points.append((math.log(z), math.log(max(epsilon, 1e-12) / goal)))
        slope = _slope(points, slope)
        close = epsilon <= goal and points[-1][1] >= precision * slope and (len(points) > 1 or known)
        if close or high <= float(_MULTIPLIERS[0]) or (low > 0 and high <= low * (1 + precision)):
            return high, slope
        z = _next_multiplier(points, slope, low, high, precision)
    raise BudgetError("no noise multiplier between 0.01 and 1e9 was found for this budget")


def _slope(points: list[tuple[float, float]], slope: float) -> float:
    """That of the last two points, if they are far enough apart to show one."""
    if len(points) < 2:
        return slope
    (x0, y0), (x1, y1) = points[-2:]
    return min((y1 - y0) / (x1 - x0), -0.2) if abs(x1 - x0) > _CLOSE else slope


def _next_multiplier(
    points: list[tuple[float, float]], slope: float, low: float, high: float, precision: float
) -> float:
    """Where to look next: a secant, stepped a little to the safe side of the root."""
    floor, ceiling = (float(bound) for bound in _MULTIPLIERS)
    x, y = points[-1]
    z = math.exp(x + min(max(-y / slope, -2.0), 2.0) + 0.4 * precision)
    if (low > 0 and high < math.inf and not low < z < high) or len(points) > 12:
        z = math.sqrt(low * high) if low > 0 and high < math.inf else (2 * low if low > 0 else high / 2)
    return min(max(z, floor), ceiling)
