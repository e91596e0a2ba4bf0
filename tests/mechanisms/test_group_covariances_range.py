"""Groups that are found usable, or to agree, are so in exact arithmetic, from the least positive number to the largest."""

from fractions import Fraction

import numpy as np
import pytest

from fastpubpriv.mechanisms import group_covariances as mechanism

SIZES = [
    5e-324,
    1e-322,
    1e-320,
    1e-316,
    1e-310,
    1e-300,
    1e-290,
    1e-281,
    1e-280,
    1e-279,
    1e-150,
    1.0,
    1e150,
    1e300,
    1e307,
]


def exact(matrix):
    return [[Fraction(x) for x in row] for row in matrix.tolist()]


def definite(matrix):
    """Whether an exact symmetric matrix is positive definite: its pivots."""
    rest = [list(row) for row in matrix]
    for k in range(len(rest)):
        if rest[k][k] <= 0:
            return False
        for i in range(k + 1, len(rest)):
            factor = rest[i][k] / rest[k][k]
            for j in range(k, len(rest)):
                rest[i][j] -= factor * rest[k][j]
    return True


def combined(one, factor, other, weight):
    """factor one - weight other."""
    return [
        [factor * a - weight * b for a, b in zip(row, there, strict=True)]
        for row, there in zip(one, other, strict=True)
    ]


def pairs(rng, dim, size, count):
    """Pairs of matrices about `size`, whose ratio is at or about the tolerance in one direction, some nearly singular."""
    with np.errstate(all="ignore"):
        for _ in range(count):
            root = rng.normal(size=(dim, dim))
            if rng.random() < 0.5:
                root[-1] = root[0] + 10.0 ** rng.uniform(-6, -1) * root[-1]
            root /= np.sqrt(np.square(root).sum())
            base = root @ root.T
            away = rng.normal(size=dim)
            away = root @ (away / np.linalg.norm(away))
            # base + t away away^T has the factor 1 + t to base in one direction: below, at and beyond what agrees.
            t = rng.choice([0.3, 0.49, 0.4999, 0.49999999, 0.5, 0.5001, 0.6])
            yield symmetric(size * base), symmetric(size * (base + t * np.outer(away, away)))


def symmetric(matrix):
    return np.tril(matrix) + np.tril(matrix, -1).T


def usable(covariance, count):
    with np.errstate(all="ignore"):
        return mechanism.usable_groups(covariance, np.full(len(covariance), count))


@pytest.mark.parametrize("dim", [1, 2, 3, 6])
def test_what_agrees_does_so_exactly(dim):
    """notes/center.md: positive pivots prove B <= (1 + tau + 2e-4) A; the sensitivity has room for 1e-3."""
    rng = np.random.default_rng(dim)
    reach = Fraction(3, 2) + Fraction(2, 10_000)
    agreed, found = 0, 0
    for size in SIZES:
        for one, other in pairs(rng, dim, size, 40):
            both = np.array([one, other])
            valid = usable(both, 1000.0)
            found += int(valid.sum())
            a, b = exact(one), exact(other)
            identity = [[Fraction(int(i == j)) for j in range(dim)] for i in range(dim)]
            for matrix, fine in zip((a, b), valid, strict=True):
                share = Fraction(9, 10) * Fraction(1, 10**8) * sum(matrix[i][i] for i in range(dim))
                assert not fine or definite(combined(matrix, 1, identity, share)), size
            if mechanism.agreements(both, valid).sum() == 4:
                agreed += 1
                assert definite(combined(a, reach, b, 1)), size
                assert definite(combined(b, reach, a, 1)), size
    assert agreed > 60
    assert found > 200


def test_ordinary_groups_of_ordinary_sizes_are_usable():
    eye = np.eye(3)
    valid = usable(np.array(SIZES)[:, None, None] * eye, 1000.0)
    assert valid.tolist() == [size >= 1e-280 for size in SIZES]  # the trace of the size 1e-280 is 3e-280
    assert not usable(np.array([np.full((3, 3), np.inf), np.full((3, 3), np.nan), 0.7e308 * eye]), 1000.0).any()


def test_the_bound_is_what_makes_it_so(monkeypatch):
    """Planted fault: without the least trace the exact check finds groups that agree in rounding only."""
    monkeypatch.setattr(mechanism, "LEAST_TRACE", 0.0)
    with pytest.raises(AssertionError):
        test_what_agrees_does_so_exactly(3)
