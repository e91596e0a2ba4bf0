"""Neighboring data sets for record and replay."""

import numpy as np


def hostile_rows(*own):
    """Rows of three columns that are missing, overflow, vanish or lie far out, and those of a test."""
    return [np.array(row, dtype=float) for row in (
        [np.nan] * 3, [np.inf, 0.0, 0.0], [0.0, -np.inf, np.nan], [0.0, -np.inf, 1.0], [1e308] * 3, [1e308, -1e308, 1e308],
        [-1.7976931348623157e308] * 3, [5e-324] * 3, [-0.0] * 3, [0.0] * 3, [1e9, 0.0, 0.0], [0.0, 1e9, 0.0], [0.0, 0.0, -1e9],
        [1e9] * 3, [-1e9] * 3, [2.0**53, -(2.0**60), 1e-300], *own,
    )]  # fmt: skip


def pair_at(rows, place, *values):
    """Two copies of the rows that differ in one place: with two values there, or as they are and with one."""
    pair = rows.copy(), rows.copy()
    for each, value in zip(pair[-len(values) :], values, strict=True):
        each[place] = value
    return pair


def hostile_pairs(rows, place, hostile):
    """Pairs of data sets with different hostile rows in one place."""
    for one, row in enumerate(hostile):
        yield pair_at(rows, place, row, hostile[(one * 7 + 3) % len(hostile)])


def replaced(rng, rows, hostile):
    """The rows with one replaced: by a random one, by a copy of another, or by a hostile row or, in one column, number."""
    other, index, kind = rows.copy(), rng.integers(len(rows)), rng.integers(3)
    if kind == 0:
        other[index] = rng.standard_normal(rows.shape[1]) * 10.0 ** rng.integers(-3, 4)
    elif kind == 2:
        other[index] = rows[rng.integers(len(rows))]
    else:
        bad = hostile[rng.integers(len(hostile))]
        other[index, ... if hasattr(bad, "shape") else rng.integers(rows.shape[1])] = bad
    return other


def random_pairs(rng, count, *, sizes, dim, hostile, shift=0.0):
    """Random pairs: sizes, scales, and a replaced row that is random, hostile, or a copy of another."""
    for _ in range(count):
        n = int(rng.choice(sizes))
        rows = rng.standard_normal((n, dim)) * 10.0 ** rng.choice([-300, -3, 0, 0, 1, 6, 300]) + shift
        if rng.random() < 0.3:
            rows[rng.integers(n)] = hostile[rng.integers(len(hostile))]
        yield rows, replaced(rng, rows, hostile)
