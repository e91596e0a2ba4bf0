"""Bins of numbers and their counts, by operations on complete columns."""

import numpy as np

NONE = -(2**63) + 1
KEY_MAX = 2.0**53


def width_keys(x, offset, width):
    """Return keys i with x in [offset + (i - 1/2) width, offset + (i + 1/2) width), NONE beyond |i| = 2^53; (n,)."""
    with np.errstate(all="ignore"):
        t = (x - offset) / width
        nearest = np.rint(t)
        # rint rounds a half to even, the bin takes the upper key; t - rint(t) is exact.
        key = nearest + (t - nearest == 0.5)
        inside = np.abs(t) <= KEY_MAX
    return np.where(inside, np.where(inside, key, 0.0).astype(np.int64), NONE)


def dyadic_keys(x):
    """Return keys i with 2^i < |x| <= 2^(i + 1), NONE for 0, infinities and NaN; (n,)."""
    some = np.isfinite(x) & (x != 0.0)
    # x = fraction 2^exponent, 1/2 <= fraction < 1
    fraction, exponent = np.frexp(np.where(some, np.abs(x), 1.0))
    key = exponent.astype(np.int64) - np.where(fraction == 0.5, 2, 1)
    return np.where(some, key, NONE)


def bins_keys(column, rule):
    with np.errstate(all="ignore"):
        x = np.asarray(column).astype(np.float64)
    return dyadic_keys(x) if rule.dyadic else width_keys(x, rule.offset, rule.width)


def bins_count(column, rule):
    keys = bins_keys(column, rule)
    found, counts = np.unique(keys[keys != NONE], return_counts=True)
    return found[:, None], counts.astype(np.int64)


def bins_count_tuples(keys):
    some = keys[(keys != NONE).all(axis=1)]
    found, counts = np.unique(some, axis=0, return_counts=True)
    return found.reshape(-1, keys.shape[1]), counts.astype(np.int64)
