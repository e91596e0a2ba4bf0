"""What it costs that noise is sampled: close to the ideal laws, not equal to them.

Each draw is within a factor e^(2^-100) of its law inside a cut, and the tail beyond the cut has mass below 2^-184
(SECURITY.md).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from fastpubpriv.privacy.exact import Number, exact, float_up, whole

DRAW_ERROR = Fraction(1, 2**100)
_PURE_EPSILON_PER_DRAW = Fraction(1, 2**99)
PURE_DELTA_PER_DRAW = Fraction(1, 2**184)


def exp_upper(value: Fraction) -> Fraction:
    """A rational number that is at least e^value, for 0 <= value <= 1100, within a factor 1 + 2^-40."""
    # Squared once because e^1024 overflows a double; 2^-42 is far above the error of any libm.
    return Fraction(math.exp(float_up(value) / 2) * (1 + 2.0**-42)) ** 2


def total_variation(draws: int) -> Fraction:
    """Upper bound on the total variation distance between `draws` draws of noise and their ideal laws.

    Examples
    --------
    >>> from fastpubpriv.privacy import total_variation
    >>> float(total_variation(10**6)) < 1e-24
    True
    """
    return whole(draws, "draws", at_least=0) * DRAW_ERROR


def approx_slack(epsilon: Number, draws: int) -> Fraction:
    """What the samplers add to delta in an (epsilon, delta) statement: (1 + e^epsilon) draws 2^-100, rounded up.

    Examples
    --------
    >>> f"{float(approx_slack(1.0, 10**6)):.1e}"
    '2.9e-24'
    """
    return _one_and_exp(exact(epsilon, "epsilon")) * total_variation(draws)


def pure_slack(epsilon: Number, draws: int) -> tuple[Fraction, Fraction]:
    """What the samplers add to a pure epsilon statement: (draws 2^-99, (1 + e^epsilon) draws 2^-184), rounded up.

    Examples
    --------
    >>> from fastpubpriv.privacy import pure_slack
    >>> epsilon, delta = pure_slack(1, draws=10**6)
    >>> float(epsilon) < 1e-23, float(delta) < 1e-48
    (True, True)
    """
    n = whole(draws, "draws", at_least=0)
    return n * _PURE_EPSILON_PER_DRAW, _one_and_exp(exact(epsilon, "epsilon")) * n * PURE_DELTA_PER_DRAW


@lru_cache(maxsize=256)  # each call asks for that of its budget several times
def _one_and_exp(epsilon: Fraction) -> Fraction:
    """1 + e^epsilon, rounded up."""
    return 1 + exp_upper(epsilon)
