"""Blocks of rows, and rows under a linear map: views that give the same rows in every cut."""

import numpy as np
import pytest

from fastpubpriv.errors import InputError
from fastpubpriv.sources import Rows, private_rows
from fastpubpriv.sources.views import linear_rows, split_rows

X = np.random.default_rng(0).normal(size=(1000, 3))


def stream(x=X):
    return Rows.from_chunks(lambda: (x[i : i + 64] for i in range(0, len(x), 64)), n=len(x), dim=x.shape[1])


def content(rows, chunk_rows):
    return np.concatenate([chunk.copy() for chunk in rows.chunks(chunk_rows=chunk_rows)])


@pytest.mark.parametrize("make", [lambda: private_rows(X), stream], ids=["array", "stream"])
@pytest.mark.parametrize("chunk_rows", [1, 7, 100, 2000])
def test_a_block_holds_its_rows(make, chunk_rows):
    rows = make()
    for begin, end in ((0, 1000), (0, 1), (999, 1000), (130, 517)):
        block = rows.slice(begin, end)
        assert (block.n, block.dim, block.random_access) == (end - begin, 3, rows.random_access)
        np.testing.assert_array_equal(content(block, chunk_rows), X[begin:end])
        inner = block.slice(0, max(1, block.n // 2))
        np.testing.assert_array_equal(content(inner, chunk_rows), X[begin : begin + inner.n])


def test_refused_blocks():
    rows = private_rows(X)
    for begin, end in ((5, 5), (6, 5), (0, 1001), (1000, 1001)):
        with pytest.raises(InputError, match="block"):
            rows.slice(begin, end)
    for begin, end in ((-1, 5), (0.0, 5), (True, 5)):
        with pytest.raises(InputError):
            rows.slice(begin, end)


@pytest.mark.parametrize("shares", [(1,), (1, 1), (30, 30, 40), (1, 2, 3, 4)])
@pytest.mark.parametrize("n", [4, 10, 999, 1000])
def test_a_split_covers_every_row_once(n, shares):
    if n < len(shares) * 2 and len(shares) > 2:
        return
    blocks = split_rows(private_rows(X[:n]), *shares)
    np.testing.assert_array_equal(np.concatenate([content(block, 50) for block in blocks]), X[:n])
    for block, share in zip(blocks, shares, strict=True):
        assert abs(block.n - n * share / sum(shares)) <= 1


def test_too_few_rows_to_split():
    with pytest.raises(InputError, match="too few"):
        split_rows(private_rows(X[:1]), 1, 1)


@pytest.mark.parametrize("make", [lambda: private_rows(X), stream], ids=["array", "stream"])
def test_mapped_rows_have_the_same_bits_in_every_cut(make):
    matrix = np.array([[1.0, 0.25, 0.0], [0.1, -3.0, 7.0]])
    whole = content(linear_rows(make(), matrix), 1000)
    np.testing.assert_allclose(whole, X @ matrix.T, rtol=1e-12, atol=1e-12)
    for chunk_rows in (1, 3, 64, 333):
        np.testing.assert_array_equal(content(linear_rows(make(), matrix), chunk_rows), whole)


def test_mapped_rows_with_a_missing_entry_are_missing():
    x = X[:4].copy()
    x[0, 0], x[1, 2] = np.nan, np.inf
    mapped = content(linear_rows(private_rows(x), np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 2.0]])), 4)
    assert np.isnan(mapped[0, 0])
    assert not np.isfinite(mapped[1, 1])
    assert np.isfinite(mapped[2:]).all()
