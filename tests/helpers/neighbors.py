"""Neighboring data sets for record and replay."""


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
