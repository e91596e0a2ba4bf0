"""Which integers a stable histogram takes: scale, grid steps per row and threshold for a wanted (epsilon, delta)."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.privacy.composition import optimal_composition_delta
from fastpubpriv.privacy.conversions import gdp_mu, largest
from fastpubpriv.privacy.events import LOG2_SCALE_MAX, LOG2_SCALE_MIN, StableHistogramEvent
from fastpubpriv.privacy.exact import Number, exact, float_down, show, whole
from fastpubpriv.privacy.stable_profile import Law, stable_delta

HISTOGRAMS_MAX = 2**20
_SCALES = range(LOG2_SCALE_MAX, LOG2_SCALE_MIN - 1, -1)  # the samplers' log2 scales, finest first
_STEP_MAX = 2**40
_MAX_TOTAL = 2**62
_CUT = {"laplace": 128, "gaussian": 16}  # the samplers never exceed cut * 2^m
_GAUSSIAN_INFLATION = 1 + Fraction(1, 10**4)
_KOV_FROM = 4


@lru_cache(maxsize=512)
def stable_event(
    epsilon: Number, delta: Number, *, histograms: int, n: int, draws: int, law: Law | None = None
) -> StableHistogramEvent:
    """The event that releases most at (epsilon, delta); with `law` None, that of the law with the smaller count_threshold + 2
    count_noise_std, the count that is nearly always released.

    Examples
    --------
    >>> event = stable_event(1, 1e-6, histograms=1, n=10**5, draws=10**5)
    >>> event.law, math.ceil(event.count_threshold), round(event.count_noise_std, 2)
    ('laplace', 28, 2.83)
    >>> event = stable_event(1, 1e-6, histograms=5, n=10**5, draws=10**5)
    >>> event.law, round(event.count_threshold, 1), round(event.count_noise_std, 2)
    ('gaussian', 68.7, 13.36)
    """
    e, d = exact(epsilon, "epsilon"), exact(delta, "delta")
    if e <= 0 or not 0 < d < 1:
        raise BudgetError(f"a stable histogram needs epsilon > 0 and delta in (0, 1), got {show(e)}, {show(d)}")
    m = whole(histograms, "histograms")
    if m > HISTOGRAMS_MAX:
        raise InputError(f"at most {HISTOGRAMS_MAX} histograms can be released together, got {m}")
    if law is not None and law not in _CUT:
        raise InputError(f"noise must be 'laplace', 'gaussian' or 'auto', got {law!r}")
    found = [
        event
        for kind in (("laplace", "gaussian") if law is None else (law,))
        for event in _candidates(kind, e, d, m, whole(n, "n"), whole(draws, "draws", at_least=0))
    ]
    if not found:
        raise InputError(
            f"no stable histogram for epsilon = {show(e)}, delta = {show(d)}, {m} histograms and {n} rows: pass a larger "
            "budget, fewer bins or columns, or fewer rows"
        )
    return min(found, key=lambda event: event.count_threshold + 2 * event.count_noise_std)


def _candidates(law: Law, epsilon: Fraction, delta: Fraction, m: int, n: int, draws: int) -> list[StableHistogramEvent]:
    sizes: list[Callable[[int], int]]  # log2 scale -> grid steps per row
    if law == "gaussian":
        squared = Fraction(gdp_mu(epsilon, delta)) ** 2 / (2 * m * _GAUSSIAN_INFLATION**2)
        sizes = [lambda s: math.isqrt(math.floor(squared * 4**s))]
    else:
        sizes = [lambda s: math.floor(epsilon * 2**s / (2 * m))]
        if m >= _KOV_FROM:
            goal, pieces = float_down(delta) / 2, 2 * m
            high = min(float(epsilon), 30.0)
            best = largest(
                lambda x: optimal_composition_delta(x, 0, pieces, epsilon) <= goal, float_down(epsilon / pieces), high
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
                    events.append(StableHistogramEvent(law, m, step, threshold, scale, epsilon, draws))
                break
    return events


def _least_threshold(law: Law, m: int, step: int, scale: int, epsilon: Fraction, delta: Fraction) -> int | None:
    """The least threshold at which delta is kept, or None; a larger threshold is post-processing, so delta falls with it."""
    cut = _CUT[law] // 2 if law == "laplace" else _CUT[law]

    def keeps(threshold: int) -> bool:
        return Fraction(stable_delta(law, m, step, threshold, scale, epsilon)) <= delta

    low = step
    high: int = step + cut * 2**scale
    if not keeps(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high
