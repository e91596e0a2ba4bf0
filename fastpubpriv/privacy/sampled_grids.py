"""The integers of one step over sampled rows: as `calibration.py`, with a noise multiplier in place of a price."""

from __future__ import annotations

import math
from fractions import Fraction

from fastpubpriv.privacy.budgets import ApproxDP
from fastpubpriv.privacy.calibration import (
    _GAUSSIAN_CUT,
    _MAX_ROW,
    _MAX_ROW_SQ,
    _MAX_TOTAL,
    _finest,
    _sizes,
    clip_steps,
    step,
)
from fastpubpriv.privacy.events import SampledGaussianEvent
from fastpubpriv.privacy.sampling import Sampling
from fastpubpriv.privacy.subsampled import noise_multiplier_for


class SampledGrid:
    """A grid on which a run of sums over sampled rows meets a budget. Attributes as in `Grid`; `event` is that of the first step.

    Examples
    --------
    >>> from fastpubpriv.privacy import Poisson
    >>> grid = sampled_sum_grid(Fraction(1), Fraction(1, 10**6), Poisson(Fraction(1, 10)), steps=50, dim=10, n=1000)
    >>> grid.event.epsilon <= 1, grid.event.noise_multiplier >= grid.noise_multiplier
    (True, True)
    """

    __slots__ = ("dim", "event", "noise_multiplier", "quant_bound")

    def __init__(self, quant_bound: int, dim: int, event: SampledGaussianEvent, noise_multiplier: float) -> None:
        self.quant_bound, self.dim, self.event, self.noise_multiplier = quant_bound, dim, event, noise_multiplier

    def step(self, radius: float) -> float:
        """As `Grid.step`."""
        return step(radius, self.quant_bound, self.dim)

    @property
    def clip_steps(self) -> int:
        """As `Grid.clip_steps`."""
        return clip_steps(self.quant_bound, self.dim)


def sampled_sum_grid(
    epsilon: Fraction, delta: Fraction, sampling: Sampling, *, steps: int, dim: int, n: int
) -> SampledGrid:
    """The finest grid on which `steps` sums over sampled rows, of norm at most Q, cost at most epsilon at delta; replace-one.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fastpubpriv.privacy import Poisson, sampled_sum_grid
    >>> rate = Poisson(Fraction(1, 10))
    >>> grid = sampled_sum_grid(Fraction(1), Fraction(1, 10**6), rate, steps=50, dim=10, n=1000)
    >>> grid.event.epsilon <= 1
    True
    """
    multiplier = noise_multiplier_for(ApproxDP(epsilon, delta), sampling, steps)
    amount, dim, n, least, problem = _sizes(Fraction(multiplier), "noise_multiplier", dim, n)

    def fits(m: int, q: int) -> bool:
        return 1 <= q <= _MAX_ROW and dim * q * q <= _MAX_ROW_SQ and n * q + _GAUSSIAN_CUT * 2**m < _MAX_TOTAL

    # Noise of 2^m steps is at least `multiplier` norms of Q steps.
    m, q = _finest(lambda m: math.floor(2**m / amount), fits, least, problem)
    event = SampledGaussianEvent(sampling, 4 * q * q, m, dim, steps, delta)
    return SampledGrid(q, dim, event, multiplier)
