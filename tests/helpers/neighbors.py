"""Neighboring data sets for record and replay."""

import numpy as np


def hostile_rows(*own):
    """Return rows of three columns that are missing, overflow, underflow or are outliers, and additional rows of a test."""
    return [
        np.array(row, dtype=float)
        for row in (
            [np.nan] * 3,
            [np.inf, 0.0, 0.0],
            [0.0, -np.inf, np.nan],
            [0.0, -np.inf, 1.0],
            [1e308] * 3,
            [1e308, -1e308, 1e308],
            [-1.7976931348623157e308] * 3,
            [5e-324] * 3,
            [-0.0] * 3,
            [0.0] * 3,
            [1e9, 0.0, 0.0],
            [0.0, 1e9, 0.0],
            [0.0, 0.0, -1e9],
            [1e9] * 3,
            [-1e9] * 3,
            [2.0**53, -(2.0**60), 1e-300],
            *own,
        )
    ]


def pair_at(rows, place, *values):
    """Return two copies of the rows that differ at one index: by two given values, or by the original and one value."""
    pair = rows.copy(), rows.copy()
    for each, value in zip(pair[-len(values) :], values, strict=True):
        each[place] = value
    return pair


def hostile_pairs(rows, place, hostile):
    """Yield pairs of data sets with different hostile rows at one index."""
    for one, row in enumerate(hostile):
        yield pair_at(rows, place, row, hostile[(one * 7 + 3) % len(hostile)])


def replaced(rng, rows, hostile):
    """Return the rows with one replaced: by a random row, a copy of another, a hostile row, or a hostile number in one column."""
    other = rows.copy()
    index = rng.integers(len(rows))
    kind = rng.integers(3)
    if kind == 0:
        other[index] = rng.standard_normal(rows.shape[1]) * 10.0 ** rng.integers(-3, 4)
    elif kind == 2:
        other[index] = rows[rng.integers(len(rows))]
    else:
        bad = hostile[rng.integers(len(hostile))]
        other[index, ... if hasattr(bad, "shape") else rng.integers(rows.shape[1])] = bad
    return other


def random_pairs(rng, count, *, sizes, dim, hostile, shift=0.0):
    """Yield random pairs of neighbors: of random size and scale, with a replaced row that is random, hostile or a copy."""
    for _ in range(count):
        n = int(rng.choice(sizes))
        rows = (
            rng.standard_normal((n, dim)) * 10.0 ** rng.choice([-300, -3, 0, 0, 1, 6, 300]) + shift
        )
        if rng.random() < 0.3:
            rows[rng.integers(n)] = hostile[rng.integers(len(hostile))]
        yield rows, replaced(rng, rows, hostile)
