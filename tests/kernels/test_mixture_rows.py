"""Rows under a mixture of normals: compiled loops and NumPy find the same bits, each row by itself."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from fastpubpriv.kernels import mixture_rows

SHAPES = [(1, 1), (1, 4), (3, 1), (3, 5), (8, 16), (2, 40)]


@pytest.fixture(scope="module")
def loops():
    from fastpubpriv.kernels import _mixture_loops

    return _mixture_loops


def case(k, dim, n=700, apart=3.0):
    rng = np.random.default_rng(k * 100 + dim)
    weights, means = rng.dirichlet(np.full(k, 5.0)), apart * rng.normal(size=(k, dim))
    roots = np.tril(0.3 * rng.normal(size=(k, dim, dim))) + np.eye(dim) * rng.uniform(0.5, 2.0, size=(k, 1, 1))
    inverses = np.tril(np.linalg.inv(roots))
    constants = np.log(weights) - np.log(np.abs(np.einsum("kii->ki", roots))).sum(axis=1)
    labels = rng.integers(k, size=n)
    rows = means[labels] + np.einsum("nij,nj->ni", roots[labels], rng.normal(size=(n, dim)))
    return weights, roots, mixture_rows.NormalTable(means, inverses, constants), rows


def hostile(rows):
    rows = rows.copy()
    rows[1], rows[2, -1], rows[3, 0], rows[4, -1] = np.nan, np.inf, -np.inf, np.nan
    rows[5], rows[6], rows[7], rows[8] = 1e200, -1e308, 1e9, 5e-324
    rows[9:60] *= 100.0
    return rows


def parts_of(rows, table, inv_step=500.0, labels=None):
    """Vectors of each component, and the places of their rows, which are in order."""
    dim = table.means.shape[1]
    inner, lift = 1.5 * dim, np.sqrt(max(1.0, 0.5 * dim))
    given = mixture_rows.soft_parts(rows, inv_step, table=table, labels=labels, inner=inner, lift=lift)
    found = [[each.copy() for each in parts + places] for parts, places in given]
    assert all(np.all(np.diff(at) > 0) for each in found for at in each[len(table.means) :])
    return [np.concatenate(each) for each in zip(*found, strict=True)]


def both(monkeypatch, loops, function):
    found = []
    for each in (None, loops):
        monkeypatch.setattr(mixture_rows, "_loops", each)
        with np.errstate(all="ignore"):
            found.append(function())
    return found


@pytest.mark.parametrize(("k", "dim"), SHAPES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_loops_and_numpy_find_the_same_bits(monkeypatch, loops, k, dim, dtype):
    _, _, table, rows = case(k, dim)
    with np.errstate(over="ignore"):
        rows = hostile(rows).astype(dtype)
    rows.flags.writeable = False
    labels = (np.arange(len(rows)) % (k + 1)).astype(np.int32)
    for given in (None, labels):
        one, other = both(monkeypatch, loops, lambda given=given: parts_of(rows, table, labels=given))
        assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(one, other, strict=True))
        assert sum(len(each) for each in one[:k]) > len(rows) / 3
    (top, one), (same, other) = both(monkeypatch, loops, lambda: mixture_rows.likeliest(rows, table, table.means))
    assert np.array_equal(top, same)
    assert np.array_equal(one, other, equal_nan=True)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_row_is_the_same_alone_and_in_company(monkeypatch, loops, compiled):
    monkeypatch.setattr(mixture_rows, "_loops", loops if compiled else None)
    _, _, table, rows = case(3, 5)
    rows = hostile(rows)
    together = parts_of(rows, table)
    alone = [parts_of(rows[i : i + 1], table) for i in range(len(rows))]
    for found, each in zip(together[:3], zip(*alone, strict=True), strict=False):
        assert np.array_equal(found, np.concatenate(each), equal_nan=True)


def test_parts_are_roots_of_responsibilities_times_clipped_white_rows():
    weights, roots, table, rows = case(3, 5)
    share = np.array([
        np.log(weight) + multivariate_normal(mean, root @ root.T).logpdf(rows)
        for weight, mean, root in zip(weights, table.means, roots, strict=True)
    ])  # fmt: skip
    share = np.exp(share - logsumexp(share, axis=0))
    assert np.allclose(mixture_rows.whitened(rows, table)[2], share, atol=1e-12)
    found = parts_of(rows, table, inv_step=1e9)
    for part, at, own, mean, root in zip(found[:3], found[3:], share, table.means, roots, strict=True):
        white = np.linalg.solve(root, (rows - mean).T)
        white *= np.minimum(1.0, np.sqrt(7.5) / np.linalg.norm(white, axis=0))
        wanted = np.sqrt(own) * np.vstack([white, np.full(len(rows), np.sqrt(2.5))])
        assert np.allclose(part / 1e9, wanted.T[at], atol=1e-6)


def test_exponentials_are_close_and_end_in_zero():
    values = -np.concatenate([np.linspace(0.0, 79.9, 10_001), [1e-300, 80.0, 1e300]])
    found = mixture_rows.decay(values)
    assert np.allclose(found[:-2], np.exp(values[:-2]), rtol=8 * 2.0**-52, atol=0.0)
    assert found[-2:].tolist() == [0.0, 0.0]


def test_few_rows_import_no_numba():
    code = (
        "import sys\n"
        "from fastpubpriv.kernels import mixture_rows\n"
        "mixture_rows.prepare(10_000, 4 * 25)\n"
        "assert 'numba' not in sys.modules and mixture_rows._loops is None\n"
        "mixture_rows.prepare(10**6, 8 * 256)\n"
        "assert mixture_rows._loops is not None\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
