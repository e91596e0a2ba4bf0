"""log and exp in plain NumPy, operation by operation as in `csrc/elementary.c`."""

import math

import numpy as np

LN2_HIGH = float.fromhex("0x1.62e42feep-1")
LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
PER_LN2 = float.fromhex("0x1.71547652b82fep+0")
SQRT_HALF = np.uint64(0x3FE6A09E00000000)
MANTISSA = np.uint64(0xFFFFFFFFFFFFF)
ROUNDING = 1.5 * 2.0**52


def log(numbers):
    """x = 2^k (1 + f), s = f / (2 + f), log(1 + f) = f - f^2 / 2 + s (f^2 / 2 + 2 s^2 / 3 + 2 s^4 / 5 + ...)."""
    with np.errstate(all="ignore"):
        x = np.asarray(numbers, dtype=np.float64)
        small = (x > 0.0) & (x < 2.0**-1022)
        usual = np.where((x > 0.0) & (x < math.inf), np.where(small, x * 2.0**54, x), 1.0)
        shifted = usual.view(np.uint64) - SQRT_HALF
        k = (shifted.view(np.int64) >> 52) - 54 * small
        f = ((shifted & MANTISSA) + SQRT_HALF).view(np.float64) - 1.0
        s = f / (2.0 + f)
        z = s * s
        half = 0.5 * f * f
        series = np.full(x.shape, 2.0 / 25.0)
        for j in range(23, 2, -2):
            series = series * z + 2.0 / j
        found = k * LN2_HIGH - ((half - (s * (half + z * series) + k * LN2_LOW)) - f)
        found = np.where(x == math.inf, math.inf, found)
        return np.where(x > 0.0, found, np.where(x == 0.0, -math.inf, math.nan))


def exp(numbers):
    """x = k log 2 + r, exp(r) = 1 + (r + (r^2 / 2 + r^3 (1 / 6 + r / 24 + ...)))."""
    with np.errstate(all="ignore"):
        x = np.asarray(numbers, dtype=np.float64)
        usual = np.where((x <= math.log(2.0**1023) + math.log(2.0)) & (x >= -746.0), x, 0.0)
        power = (usual * PER_LN2 + ROUNDING) - ROUNDING
        high = usual - power * LN2_HIGH
        low = power * LN2_LOW
        r = high - low
        lost = (high - r) - low
        series = np.full(x.shape, 1.0 / math.factorial(13))
        for j in range(12, 2, -1):
            series = series * r + 1.0 / math.factorial(j)
        total = 1.0 + (r + (0.5 * r * r + (r * r * r * series + lost)))
        k = power.astype(np.int64)
        first = np.where(k > 0, k - 1, k + 54)
        found = total * np.ldexp(1.0, first) * np.where(k > 0, 2.0, 2.0**-54)
        largest = float.fromhex("0x1.62e42fefa39efp9")
        found = np.where(x > largest, math.inf, np.where(x < -746.0, 0.0, found))
        return np.where(np.isnan(x), x, found)
