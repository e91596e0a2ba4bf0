"""Rows.from_chunks: declared shapes are kept, buffers may be reused, and what the factory raises stays inside."""

import itertools

import numpy as np
import pytest
from helpers_sources import column_sums, direct_sums, silently

from fastpubpriv.errors import InputError
from fastpubpriv.sources import Rows

X = np.random.default_rng(3).normal(size=(41, 3))


def test_any_cutting_gives_the_same_rows():
    cuts = [0, 1, 1, 5, 30, 41]
    rows = Rows.from_chunks(lambda: [X[a:b] for a, b in itertools.pairwise(cuts)], n=41, dim=3)
    for chunk_rows in (1, 4, 100):
        assert all(len(chunk) <= chunk_rows for chunk in rows.chunks(chunk_rows=chunk_rows))
        for threads in (1, 2):
            assert column_sums(rows, chunk_rows=chunk_rows, threads=threads) == direct_sums(X)
    for begin, end in ((0, 41), (0, 3), (4, 7), (29, 41), (41, 41), (0, 0)):
        found = list(rows.chunks(begin, end, 2))
        np.testing.assert_array_equal(np.concatenate([np.empty((0, 3)), *found]), X[begin:end])


def test_pieces_of_any_form():
    pieces = [
        X[:5].astype(np.float32),
        [[1, 2, 3]],
        X[5:7].astype(">f8"),
        np.asfortranarray(X[7:9]),
        np.ones((2, 3), bool),
    ]
    rows = Rows.from_chunks(lambda: iter(pieces), n=12, dim=3)
    expected = np.concatenate([np.asarray(p, float) for p in pieces])
    assert silently(lambda: column_sums(rows)) == direct_sums(expected)


def test_a_reused_buffer_is_copied_before_it_changes():
    def factory():
        buffer = np.empty((1, 3))
        for row in X:
            buffer[0] = row
            yield buffer

    rows = Rows.from_chunks(factory, n=41, dim=3)
    np.testing.assert_array_equal(np.concatenate(list(rows.chunks())), X)


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ([X[:40]], "gave 40 rows where 41 were declared"),
        ([X, X[:1]], "more than 41 rows where 41"),
        ([X[:, :2]], "2 columns where dim = 3"),
        ([X[0]], "two-dimensional"),
        ([X.astype(object)], "dtype object"),
        ([["Alice-SSN-123"]], "dtype text"),
        (None, "withheld"),
        (["Alice-SSN-123"], "cannot be read"),
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_wrong_pieces(pieces, words, threads):
    rows = Rows.from_chunks(lambda: pieces, n=41, dim=3)
    with pytest.raises(InputError, match=words) as caught:
        column_sums(rows, threads=threads, chunk_rows=8)
    assert caught.value.__context__ is None
    assert "Alice" not in str(caught.value)


def test_an_iterator_that_is_not_fresh_is_noticed():
    once = iter([X])
    rows = Rows.from_chunks(lambda: once, n=41, dim=3)
    assert column_sums(rows) == direct_sums(X)
    with pytest.raises(InputError, match=r"gave 0 rows.*afresh"):
        column_sums(rows)


def test_bad_declarations():
    for n, dim in ((0, 3), (-1, 3), (3, 0), (2.0, 3), (True, 3), (3, "3"), (None, 1)):
        with pytest.raises(InputError):
            Rows.from_chunks(lambda: [], n=n, dim=dim)
    with pytest.raises(InputError, match="lambda: iterable"):
        Rows.from_chunks([X], n=41, dim=3)
