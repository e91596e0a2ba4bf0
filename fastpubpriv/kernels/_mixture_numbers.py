"""Numbers of the NumPy loops of `mixture_rows` and of the compiled ones of `_mixture_loops`.

They are shared, so that both give the same bits.
"""

from __future__ import annotations

import math

import numpy as np

# Upper bound on squared distances: components beyond it do not differ by their distance.
FAR = 2.0**20
# Grid steps that the bound on a part of a row must reach: below, all entries of the part are rounded to zero.
UNSEEN = 0.49

# e^x = 2^whole times a polynomial of the rest: the exponentials of libraries differ in their last bits.
LEAST_EXPONENT = -80.0  # exponent down from which the result is zero
LOG2_E = 1.4426950408889634
# ln 2 = HIGH + LOW; products of HIGH with whole numbers are exact
LOG_2_HIGH = 0.6931471805592082
LOG_2_LOW = 7.371052624053311e-13
TERMS = tuple(1.0 / math.factorial(power) for power in range(12, -1, -1))
POWERS = np.ldexp(1.0, -np.arange(120))

# Cosines and sines of x = whole * pi / 2 + rest. pi / 2 is the sum of three parts, of which the products of the first two with
# whole numbers below 2^20 are exact (33 bits each, as in fdlibm); the polynomials are Taylor's, with errors below 4e-13.
FARTHEST_PHASE = 2.0**20
HALF_PI = 1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21
COSINE = tuple((-1.0) ** k / math.factorial(2 * k) for k in range(6, -1, -1))
SINE = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(6, -1, -1))
