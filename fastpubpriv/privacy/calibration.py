"""Integer parameters of mechanisms for a given privacy cost; exact, or rounded toward more privacy.

The noise has standard deviation (or Laplace scale) exactly 2^m grid steps, so calibration chooses the *grid*: m and the
largest integer norm Q of a quantized row. The cost of (Q, m) is compared with the budget in integer arithmetic.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.privacy.budgets import (
    ApproxDP,
    Number,
    exact,
    float_down,
    positive,
    show,
    whole,
)
from fastpubpriv.privacy.conversions import (
    Law,
    gdp_mu,
    largest,
    optimal_composition_delta,
    stable_delta,
)
from fastpubpriv.privacy.events import (
    LOG2_SCALE_MAX,
    LOG2_SCALE_MIN,
    GaussianEvent,
    LaplaceEvent,
    SampledGaussianEvent,
    StableHistogramEvent,
)
from fastpubpriv.privacy.sampling import Sampling, noise_multiplier_for

_MAX_ROW = 2**26  # largest integer norm of a quantized row
GRAM_QUANT_MAX = 2896  # so that one product of two entries stays below 2^23 (FPP_GRAM_QUANT_MAX)
_MAX_ROW_SQ = 2**53  # dim * Q^2: the norm check is exact in doubles
_MAX_TOTAL = 2**62  # bound on sums plus noise, well inside int64
_CUT: dict[Law, int] = {"gaussian": 16, "laplace": 128}  # the samplers never exceed cut * 2^m
_EVENTS: dict[Law, type[GaussianEvent | LaplaceEvent]] = {
    "gaussian": GaussianEvent,
    "laplace": LaplaceEvent,
}
_DEFAULT_ROWS = 2**35  # number of rows assumed if none is given


@dataclass(frozen=True, slots=True)
class Grid:
    """An integer grid on which a release meets a budget exactly.

    Parameters
    ----------
    log2_scale : int
        m: the noise scale is 2^m grid steps.
    quant_bound : int
        Q: the largest integer norm of a quantized row; for counts, grid steps per counted row.
    dim : int
        Length of a quantized row (counts: number of cells).
    event : GaussianEvent or LaplaceEvent
        One release on this grid, with its cost.
    """

    log2_scale: int
    quant_bound: int
    dim: int
    event: GaussianEvent | LaplaceEvent

    @property
    def clip_steps(self) -> int:
        """Norm, in grid steps, to which a row is clipped in floating point, so that rounding cannot exceed Q."""
        return clip_steps(self.quant_bound, self.dim)

    def step(self, radius: float) -> float:
        """Length of one grid step, in data units, when rows are clipped to `radius`."""
        if not 0 < radius < math.inf:
            raise InputError(f"radius must be positive and finite, got {radius!r}")
        return radius / self.clip_steps


@lru_cache(maxsize=1024, typed=True)  # several calls per release
def clip_steps(quant_bound: int, dim: int) -> int:
    """Return Q - ceil(sqrt(dim)/2) - 1: rounding moves a row by at most sqrt(dim)/2 steps; the 1 covers float errors."""
    half_root = math.isqrt((whole(dim, "dim") - 1) // 4) + 1
    steps = whole(quant_bound, "quant_bound") - half_root - 1
    if steps < 1:
        raise InputError(
            f"quant_bound {quant_bound} leaves no room to clip rows of {dim} columns; it must exceed {half_root + 1}"
        )
    return steps


# ---- grids


def _finest(
    law: Law,
    value: Number,
    dim: int,
    n: int,
    sensitivity: Callable[[int, int], int],
    *,
    draws: int | None = None,
    power: int = 1,
    cells: bool = False,
    least: int = 1,
    stated: str | None = None,
) -> Grid:
    """Return the grid of the largest m in 8 ... 40 at which the largest affordable Q, by sensitivity(Q, dim), fits into int64."""
    # A row adds at most Q^power to a sum. The norms of rows need Q >= 8 sqrt(dim), which disjoint `cells` do not.
    name = "rho" if law == "gaussian" else "epsilon"
    amount = positive(value, name)
    dim = whole(dim, "dim")
    n = whole(n, "n", at_least=0)
    highest = _MAX_ROW if power == 1 else GRAM_QUANT_MAX
    if not cells:
        highest = min(highest, math.isqrt(_MAX_ROW_SQ // dim))
        least = max(least, 8 * (math.isqrt(dim - 1) + 1))
    problem = (
        f"no integer grid for {stated or f'{name} = {show(amount)}'}, {dim} columns, {n} rows (pass a budget between 1e-6 and 1e3, "
        "fewer columns (project with a public matrix), or fewer rows)"
    )
    for m in range(LOG2_SCALE_MAX, LOG2_SCALE_MIN - 1, -1):
        allowed = math.floor(amount * 2 * 4**m if law == "gaussian" else amount * 2**m)
        room = (_MAX_TOTAL - 1 - _CUT[law] * 2**m) // max(n, 1)
        most = min(highest, room if power == 1 else math.isqrt(room))
        q = bisect_right(range(most + 2), allowed, key=lambda bound: sensitivity(bound, dim)) - 1
        if least <= q <= most:
            return Grid(
                m, q, dim, _EVENTS[law](sensitivity(q, dim), m, dim if draws is None else draws)
            )
        if q <= most:
            raise InputError(
                f"{problem}: the finest usable grid has {q} steps per clip radius, at least {least} are needed"
            )
    raise InputError(
        f"{problem}: even the coarsest grid (noise scale 2^{LOG2_SCALE_MIN}) overflows 64-bit sums"
    )


@lru_cache(maxsize=256)
def gaussian_sum_grid(rho: Number, dim: int, n: int) -> Grid:
    """The finest grid on which a sum of n rows plus Gaussian noise costs at most rho: 4 Q^2/(2 4^m) <= rho, exactly.

    Examples
    --------
    >>> grid = gaussian_sum_grid(Fraction(1, 2), dim=100, n=10**6)
    >>> grid.log2_scale, grid.quant_bound, grid.event.rho
    (24, 8388608, Fraction(1, 2))
    """
    return _finest("gaussian", rho, dim, n, lambda q, _: 4 * q * q)


@lru_cache(maxsize=256)
def gaussian_gram_grid(rho: Number, dim: int, n: int) -> Grid:
    """The finest grid on which a Gram matrix plus dim^2 Gaussian noise values costs 2 Q^4/(2 4^m) <= rho, exactly."""
    return _finest(
        "gaussian", rho, dim, n, lambda q, _: 2 * q**4, draws=whole(dim, "dim") ** 2, power=2
    )


@lru_cache(maxsize=256)
def gaussian_count_grid(
    rho: Number, cells: int = 1, n: int = _DEFAULT_ROWS, *, changed: int = 2
) -> Grid:
    """The finest grid for counts of disjoint cells with Gaussian noise, S steps per row: 2 S^2/(2 4^m) <= rho, exactly.

    Neighbors differ by one in at most two cells; or in `changed` cells, where a row may count in several: changed S^2/(2 4^m).

    Examples
    --------
    >>> grid = gaussian_count_grid(Fraction(1, 4), cells=3)
    >>> grid.quant_bound, grid.event.rho
    (67108864, Fraction(1, 4))
    """
    cost = whole(changed, "changed")
    return _finest("gaussian", rho, cells, n, lambda s, _: cost * s * s, cells=True)


@lru_cache(maxsize=256)
def laplace_sum_grid(epsilon: Number, dim: int, n: int) -> Grid:
    """The finest grid on which a sum plus discrete Laplace noise meets isqrt(4 dim Q^2) <= epsilon 2^m, exactly."""
    return _finest("laplace", epsilon, dim, n, lambda q, d: math.isqrt(4 * d * q * q))


def parts_slack(parts: int, width: int) -> int:
    """Return the grid steps that rounding, and rounding up each part's norm, may add to the sum of the parts' norms."""
    return parts * (math.isqrt((whole(width, "width") - 1) // 4) + 2)


@lru_cache(maxsize=256)
def laplace_parts_grid(epsilon: Number, parts: int, width: int, n: int) -> Grid:
    """`laplace_sum_grid` for rows of `parts` parts with rounded-up norms of sum at most Q: 2 isqrt(width Q^2) <= epsilon 2^m."""
    # A bound on the norm of the whole row would give sqrt(parts) times this sensitivity (`mechanisms/notes/statistic_sum.md`).
    least = 8 * parts_slack(parts, width)
    return _finest(
        "laplace",
        epsilon,
        parts * width,
        n,
        lambda q, _: 2 * math.isqrt(width * q * q),
        least=least,
    )


@lru_cache(maxsize=256)
def laplace_gram_grid(epsilon: Number, dim: int, n: int) -> Grid:
    """`laplace_sum_grid` for the upper triangle of a Gram matrix: isqrt(dim (dim + 3)/2 Q^4) <= epsilon 2^m."""
    draws = whole(dim, "dim") * (dim + 1) // 2
    return _finest(
        "laplace",
        epsilon,
        dim,
        n,
        lambda q, d: math.isqrt(d * (d + 3) // 2 * q**4),
        draws=draws,
        power=2,
    )


@lru_cache(maxsize=256)
def laplace_parts_gram_grid(epsilon: Number, parts: int, side: int, n: int) -> Grid:
    """`laplace_gram_grid` for the upper triangles of Gram matrices of parts: 2 floor((side + 1) Q^2/2) <= epsilon 2^m."""
    draws = parts * (side * (side + 1) // 2)
    return _finest(
        "laplace",
        epsilon,
        parts * side,
        n,
        lambda q, _: 2 * ((side + 1) * q * q // 2),
        draws=draws,
        power=2,
    )


@lru_cache(maxsize=256)
def laplace_count_grid(
    epsilon: Number, cells: int = 1, n: int = _DEFAULT_ROWS, *, changed: int = 2
) -> Grid:
    """The finest grid for counts of disjoint cells with discrete Laplace noise, S steps per row: 2 S <= epsilon 2^m, exactly.

    Neighbors differ by one in at most two cells; or in `changed` cells: changed S <= epsilon 2^m.
    """
    cost = whole(changed, "changed")
    return _finest("laplace", epsilon, cells, n, lambda s, _: cost * s, cells=True)


Lineage = tuple[str, ...]  # as in `Clusters`


@dataclass(frozen=True, slots=True)
class SampledGrid(Grid):
    """A grid on which sums over sampled rows meet a budget; `event` is the first step."""

    event: SampledGaussianEvent  # type: ignore[assignment]
    noise_multiplier: float


def sampled_sum_grid(
    epsilon: Fraction, delta: Fraction, sampling: Sampling, *, steps: int, dim: int, n: int
) -> SampledGrid:
    """The finest grid on which `steps` sums over sampled rows, of norm at most Q, cost at most epsilon at delta; replace-one."""
    multiplier = noise_multiplier_for(ApproxDP(epsilon, delta), sampling, steps)
    # Noise of 2^m steps is at least `multiplier` norms of Q steps: 4 Q^2 / (2 4^m) is at most the rho of full batches.
    rho = 2 / Fraction(multiplier) ** 2
    stated = f"noise_multiplier = {show(Fraction(multiplier))}"
    grid = _finest("gaussian", rho, dim, n, lambda q, _: 4 * q * q, stated=stated)
    event = SampledGaussianEvent(
        sampling, grid.event.worst, grid.log2_scale, grid.dim, steps, delta
    )
    return SampledGrid(grid.log2_scale, grid.quant_bound, grid.dim, event, multiplier)


# ---- Integer parameters of a stable histogram for a given (epsilon, delta): scale, grid steps per row and threshold

HISTOGRAMS_MAX = 2**20  # histograms of one release
_SCALES = range(LOG2_SCALE_MAX, LOG2_SCALE_MIN - 1, -1)  # the samplers' log2 scales, finest first
_STEP_MAX = 2**40  # grid steps per row
# factor on the noise that leaves a part of delta for the threshold
_GAUSSIAN_INFLATION = 1 + Fraction(1, 10**4)
_KOV_FROM = 4  # histograms from which on optimal composition (Kairouz, Oh, Viswanath) is tried too


@lru_cache(maxsize=512)
def stable_event(
    epsilon: Number, delta: Number, *, histograms: int, n: int, draws: int, law: Law | None = None
) -> StableHistogramEvent:
    """Return the event at (epsilon, delta) with the least count that is almost surely released; both laws if `law` is None."""
    # That count is taken to be count_threshold + 2 count_noise_std.
    e = exact(epsilon, "epsilon")
    d = exact(delta, "delta")
    if e <= 0 or not 0 < d < 1:
        raise BudgetError(
            f"a stable histogram needs epsilon > 0 and delta in (0, 1), got {show(e)}, {show(d)}"
        )
    m = whole(histograms, "histograms")
    if m > HISTOGRAMS_MAX:
        raise InputError(f"at most {HISTOGRAMS_MAX} histograms can be released together, got {m}")
    if law is not None and law not in _CUT:
        raise InputError(f"noise must be 'laplace', 'gaussian' or 'auto', got {law!r}")
    events = [
        event
        for kind in (("laplace", "gaussian") if law is None else (law,))
        for event in _candidates(kind, e, d, m, whole(n, "n"), whole(draws, "draws", at_least=0))
    ]
    if not events:
        raise InputError(
            f"no stable histogram for epsilon = {show(e)}, delta = {show(d)}, {m} histograms and {n} rows: pass a larger "
            "budget, fewer bins or columns, or fewer rows"
        )
    return min(events, key=lambda event: event.count_threshold + 2 * event.count_noise_std)


def paper_event(
    epsilon: Fraction, delta: Fraction, *, histograms: int, n: int, draws: int
) -> StableHistogramEvent | None:
    """Return noise and thresholds of paper C's composition, None if its exact cost exceeds (epsilon, delta) or it has no grid."""
    # Each of T histograms has epsilon' = epsilon / (2 sqrt(6 T ln(2 (T + 1) / delta))) and delta' = delta / (2 (T + 1)).
    t = histograms
    each = Fraction(
        float(epsilon) / (2.0 * math.sqrt(6.0 * t * math.log(2.0 * (t + 1) / float(delta))))
    )
    try:
        single = stable_event(
            each, delta / (2 * (t + 1)), histograms=1, n=n, draws=0, law="laplace"
        )
    except InputError:  # no grid is fine enough
        return None
    event = StableHistogramEvent(
        "laplace", t, single.step, single.threshold, single.log2_scale, epsilon, draws
    )
    return event if event.delta <= delta else None


def _candidates(
    law: Law, epsilon: Fraction, delta: Fraction, m: int, n: int, draws: int
) -> list[StableHistogramEvent]:
    sizes: list[Callable[[int], int]]  # log2 scale -> grid steps per row
    if law == "gaussian":
        squared = Fraction(gdp_mu(epsilon, delta)) ** 2 / (2 * m * _GAUSSIAN_INFLATION**2)
        sizes = [lambda s: math.isqrt(math.floor(squared * 4**s))]
    else:
        sizes = [lambda s: math.floor(epsilon * 2**s / (2 * m))]
        if m >= _KOV_FROM:
            goal = float_down(delta) / 2
            pieces = 2 * m
            high = min(float(epsilon), 30.0)
            best = largest(
                lambda x: optimal_composition_delta(x, 0, pieces, epsilon) <= goal,
                float_down(epsilon / pieces),
                high,
            )
            sizes.append(lambda s: math.floor(Fraction(best) * 2**s))
    events = []
    for size in sizes:
        # The finest grid on which n counted rows, the noise and the threshold fit into 64 bits.
        for scale in _SCALES:
            step = size(scale)
            if 1 <= step <= _STEP_MAX and n * step + (_CUT[law] + 64) * 2**scale < _MAX_TOTAL:
                threshold = _least_threshold(law, m, step, scale, epsilon, delta)
                if threshold is not None:
                    events.append(
                        StableHistogramEvent(law, m, step, threshold, scale, epsilon, draws)
                    )
                break
    return events


def _least_threshold(
    law: Law, m: int, step: int, scale: int, epsilon: Fraction, delta: Fraction
) -> int | None:
    """Return the least threshold that meets delta, or None; raising it is post-processing, so delta decreases with it."""
    cut = _CUT[law] // 2 if law == "laplace" else _CUT[law]

    def keeps(threshold: int) -> bool:
        return Fraction(stable_delta(law, m, step, threshold, scale, epsilon)) <= delta

    highest = step + cut * 2**scale
    return (
        step + 1 + bisect_left(range(step + 1, highest), True, key=keeps)
        if keeps(highest)
        else None
    )
