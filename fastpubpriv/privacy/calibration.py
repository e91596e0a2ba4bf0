"""From a price to the integers that a mechanism needs. Everything is exact or rounded towards more privacy.

The noise has standard deviation (or Laplace scale) exactly 2^m grid steps, so calibration chooses the *grid*: m and the
largest integer norm Q of a quantised row. That the cost of (Q, m) is within the budget is checked in integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.privacy.events import (
    LOG2_SCALE_MAX,
    LOG2_SCALE_MIN,
    GaussianEvent,
    LaplaceEvent,
)
from fastpubpriv.privacy.exact import Number, exact, show, whole

_MAX_ROW = 2**26  # largest integer norm of a quantised row
_MAX_GRAM_ROW = 2896  # so that one product of two entries stays below 2^23 (FPP_GRAM_QUANT_MAX)
_MAX_ROW_SQ = 2**53  # dim * Q^2: the norm check is exact in doubles
_MAX_TOTAL = 2**62  # sums plus noise stay clear of the end of int64
_GAUSSIAN_CUT, _LAPLACE_CUT = 16, 128  # the samplers never exceed cut * 2^m
_DEFLATION = Fraction(10**9, 10**9 + 1)
_DEFAULT_ROWS = 2**35


@dataclass(frozen=True, slots=True)
class Grid:
    """A grid that meets a budget exactly.

    Parameters
    ----------
    log2_scale : int
        m: the noise scale is 2^m grid steps.
    quant_bound : int
        Q: the largest integer norm of a quantised row; for counts, grid steps per counted row.
    dim : int
        Length of a quantised row (counts: number of cells).
    event : GaussianEvent or LaplaceEvent
        What one release on this grid costs.

    Examples
    --------
    >>> grid = gaussian_sum_grid(Fraction(1, 2), dim=10, n=1000)
    >>> grid.event.rho <= Fraction(1, 2), grid.noise_std(radius=1.0) > 1.99
    (True, True)
    """

    log2_scale: int
    quant_bound: int
    dim: int
    event: GaussianEvent | LaplaceEvent

    @property
    def clip_steps(self) -> int:
        """The norm, in grid steps, to which a row is clipped in floating point, so that rounding cannot pass Q."""
        return clip_steps(self.quant_bound, self.dim)

    def step(self, radius: float) -> float:
        """Length of one grid step, in data units, when rows are clipped to `radius`."""
        return step(radius, self.quant_bound, self.dim)

    def noise_std(self, radius: float) -> float:
        """Standard deviation (Laplace: scale) of the noise on a sum of rows clipped to `radius`, in data units."""
        return math.ldexp(self.step(radius), self.log2_scale)


@lru_cache(maxsize=1024, typed=True)  # each release asks for it several times
def clip_steps(quant_bound: int, dim: int) -> int:
    """Q - ceil(sqrt(dim)/2) - 1: rounding moves a row by at most sqrt(dim)/2 steps, the 1 is for the floats.

    Examples
    --------
    >>> clip_steps(1000, 17)
    996
    """
    half_root = math.isqrt((whole(dim, "dim") - 1) // 4) + 1
    steps = whole(quant_bound, "quant_bound") - half_root - 1
    if steps < 1:
        raise InputError(
            f"quant_bound {quant_bound} leaves no room to clip rows of {dim} columns; it must exceed {half_root + 1}"
        )
    return steps


def step(radius: float, quant_bound: int, dim: int) -> float:
    """Length of one grid step, in data units, when rows are clipped to `radius`.

    Examples
    --------
    >>> from fastpubpriv.privacy import step
    >>> 2.0**-10 < step(1.0, 1_000, 1) < 2.0**-9
    True
    """
    if not 0 < radius < math.inf:
        raise InputError(f"radius must be positive and finite, got {radius!r}")
    return radius / clip_steps(quant_bound, dim)


# ---- grids
# ---------------------------------------------------------------------------------------------------------------


def _finest(
    largest_bound: Callable[[int], int], fits: Callable[[int, int], bool], least: int, problem: str
) -> tuple[int, int]:
    """The largest m in 8 ... 40, with its Q, for which everything fits in the machine's integers and Q >= least."""
    for m in range(LOG2_SCALE_MAX, LOG2_SCALE_MIN - 1, -1):
        bound = largest_bound(m)
        if fits(m, bound):
            if bound >= least:
                return m, bound
            raise InputError(
                f"{problem}: the finest usable grid has {bound} steps per clip radius, at least {least} are needed"
            )
    raise InputError(f"{problem}: even the coarsest grid (noise scale 2^{LOG2_SCALE_MIN}) overflows 64-bit sums")


def _sizes(value: Number, name: str, dim: int, n: int) -> tuple[Fraction, int, int, int, str]:
    amount, dim, n = exact(value, name), whole(dim, "dim"), whole(n, "n", at_least=0)
    if amount <= 0:
        raise BudgetError(f"{name} must be > 0, got {show(amount)}")
    advice = "pass a budget between 1e-6 and 1e3, fewer columns (project with a public matrix), or fewer rows"
    least = 8 * (math.isqrt(dim - 1) + 1)
    return amount, dim, n, least, f"no integer grid for {name} = {show(amount)}, {dim} columns, {n} rows ({advice})"


@lru_cache(maxsize=256)
def gaussian_sum_grid(rho: Number, dim: int, n: int) -> Grid:
    """The finest grid on which a sum of n rows plus Gaussian noise costs at most rho: 4 Q^2/(2 4^m) <= rho, exactly.

    Examples
    --------
    >>> grid = gaussian_sum_grid(Fraction(1, 2), dim=100, n=10**6)
    >>> grid.log2_scale, grid.quant_bound, grid.event.rho
    (24, 8388608, Fraction(1, 2))
    """
    amount, dim, n, least, problem = _sizes(rho, "rho", dim, n)

    def fits(m: int, q: int) -> bool:
        return q <= _MAX_ROW and dim * q * q <= _MAX_ROW_SQ and n * q + _GAUSSIAN_CUT * 2**m < _MAX_TOTAL

    m, q = _finest(lambda m: math.isqrt(math.floor(amount * 4**m / 2)), fits, least, problem)
    return Grid(m, q, dim, GaussianEvent(4 * q * q, m, dim))


@lru_cache(maxsize=256)
def gaussian_gram_grid(rho: Number, dim: int, n: int) -> Grid:
    """The finest grid on which a Gram matrix plus dim^2 Gaussian noises costs 2 Q^4/(2 4^m) <= rho, exactly.

    Examples
    --------
    >>> gaussian_gram_grid(Fraction(1, 2), dim=20, n=10**6).quant_bound
    2435
    """
    amount, dim, n, least, problem = _sizes(rho, "rho", dim, n)

    def fits(m: int, q: int) -> bool:
        return q <= _MAX_GRAM_ROW and dim * q * q <= _MAX_ROW_SQ and n * q * q + _GAUSSIAN_CUT * 2**m < _MAX_TOTAL

    m, q = _finest(lambda m: math.isqrt(math.isqrt(math.floor(amount * 4**m))), fits, least, problem)
    return Grid(m, q, dim, GaussianEvent(2 * q**4, m, dim * dim))


@lru_cache(maxsize=256)
def gaussian_count_grid(rho: Number, cells: int = 1, n: int = _DEFAULT_ROWS) -> Grid:
    """Grid steps S per counted row for disjoint cells with Gaussian noise: 2 S^2/(2 4^m) <= rho, exactly.

    Examples
    --------
    >>> grid = gaussian_count_grid(Fraction(1, 4), cells=3)
    >>> grid.quant_bound, grid.event.rho
    (67108864, Fraction(1, 4))
    """
    amount, cells, n, _, problem = _sizes(rho, "rho", cells, n)

    def fits(m: int, s: int) -> bool:
        return s <= _MAX_ROW and n * s + _GAUSSIAN_CUT * 2**m < _MAX_TOTAL

    m, s = _finest(lambda m: math.isqrt(math.floor(amount * 4**m)), fits, 1, problem)
    return Grid(m, s, cells, GaussianEvent(2 * s * s, m, cells))


@lru_cache(maxsize=256)
def laplace_sum_grid(epsilon: Number, dim: int, n: int) -> Grid:
    """The finest grid on which a sum plus discrete Laplace noise meets isqrt(4 dim Q^2) <= epsilon 2^m, exactly.

    Examples
    --------
    >>> laplace_sum_grid(1, dim=4, n=1000).event.epsilon
    Fraction(1, 1)
    """
    amount, dim, n, least, problem = _sizes(epsilon, "epsilon", dim, n)

    def fits(m: int, q: int) -> bool:
        return q <= _MAX_ROW and dim * q * q <= _MAX_ROW_SQ and n * q + _LAPLACE_CUT * 2**m < _MAX_TOTAL

    # isqrt(4 dim Q^2) <= B  <=>  4 dim Q^2 < (B + 1)^2
    m, q = _finest(lambda m: math.isqrt(((math.floor(amount * 2**m) + 1) ** 2 - 1) // (4 * dim)), fits, least, problem)
    return Grid(m, q, dim, LaplaceEvent(math.isqrt(4 * dim * q * q), m, dim))


@lru_cache(maxsize=256)
def laplace_gram_grid(epsilon: Number, dim: int, n: int) -> Grid:
    """As `laplace_sum_grid` for the upper triangle of a Gram matrix: isqrt(dim (dim + 3)/2 Q^4) <= epsilon 2^m.

    Examples
    --------
    >>> laplace_gram_grid(1, dim=4, n=1000).event.draws
    10
    """
    amount, dim, n, least, problem = _sizes(epsilon, "epsilon", dim, n)
    weight = dim * (dim + 3) // 2

    def fits(m: int, q: int) -> bool:
        return q <= _MAX_GRAM_ROW and dim * q * q <= _MAX_ROW_SQ and n * q * q + _LAPLACE_CUT * 2**m < _MAX_TOTAL

    def bound(m: int) -> int:
        return math.isqrt(math.isqrt(((math.floor(amount * 2**m) + 1) ** 2 - 1) // weight))

    m, q = _finest(bound, fits, least, problem)
    return Grid(m, q, dim, LaplaceEvent(math.isqrt(weight * q**4), m, dim * (dim + 1) // 2))


@lru_cache(maxsize=256)
def laplace_count_grid(epsilon: Number, cells: int = 1, n: int = _DEFAULT_ROWS) -> Grid:
    """Grid steps S per counted row for disjoint cells with discrete Laplace noise: 2 S <= epsilon 2^m, exactly.

    Examples
    --------
    >>> laplace_count_grid(0.5).event.epsilon
    Fraction(1, 2)
    """
    amount, cells, n, _, problem = _sizes(epsilon, "epsilon", cells, n)

    def fits(m: int, s: int) -> bool:
        return s <= _MAX_ROW and n * s + _LAPLACE_CUT * 2**m < _MAX_TOTAL

    m, s = _finest(lambda m: math.floor(amount * 2**m / 2), fits, 1, problem)
    return Grid(m, s, cells, LaplaceEvent(2 * s, m, cells))
