"""Differences of neighbouring rows: position decides the pair, whatever the source, the chunks and the content."""

import numpy as np
import pytest
from helpers_sources import column_sums, direct_sums, every_source, silently

from fastpubpriv import InputError
from fastpubpriv.sources import Rows
from fastpubpriv.sources.views import differences, pair_rows


def expected(matrix):
    even = len(matrix) // 2 * 2
    return (matrix[0:even:2].astype(float) - matrix[1:even:2].astype(float)) * np.sqrt(0.5)


def read(rows, *arguments):
    chunks = list(rows.chunks(*arguments))
    return np.concatenate(chunks) if chunks else np.empty((0, rows.dim))


@pytest.mark.parametrize("n", [2, 3, 4, 9, 38, 39])
def test_every_kind_of_source_gives_the_same_pairs(n, tmp_path):
    matrix = np.random.default_rng(n).standard_normal((n, 3))
    wanted = expected(matrix)
    kinds = set()
    for name, rows in every_source(matrix, tmp_path):
        pairs = pair_rows(rows)
        kinds.add(pairs.random_access)
        assert (pairs.n, pairs.dim) == (n // 2, 3), name
        assert pairs.kind == f"pairs of {rows.kind}"
        assert pairs.columns == rows.columns
        assert np.array_equal(read(pairs), wanted), name
        for threads in (1, 3):
            assert column_sums(pairs, threads=threads, chunk_rows=5) == direct_sums(wanted), name
    assert kinds == {True, False}


@pytest.mark.parametrize("chunk_rows", [1, 2, 3, 7, 100])
def test_any_range_and_chunk_size(chunk_rows):
    matrix = np.random.default_rng(0).standard_normal((37, 2))
    wanted = expected(matrix)

    def factory():
        # Odd pieces: most pairs of the stream straddle two of them.
        for low in range(0, 37, 5):
            yield matrix[low : low + 5]

    for rows in (Rows.from_array(matrix), Rows.from_chunks(factory, n=37, dim=2)):
        pairs = pair_rows(rows)
        for begin, end in ((0, 18), (3, 11), (17, 18), (5, 5)):
            assert np.array_equal(read(pairs, begin, end, chunk_rows), wanted[begin:end])
        assert max(len(chunk) for chunk in pairs.chunks(0, 18, chunk_rows)) <= chunk_rows


def test_one_row_makes_no_pair():
    with pytest.raises(InputError, match="two rows"):
        pair_rows(Rows.from_array(np.ones((1, 2))))


def test_one_replaced_row_changes_one_pair():
    matrix = np.random.default_rng(1).standard_normal((21, 2))
    for index in range(21):
        other = matrix.copy()
        other[index] = 1e6
        moved = np.any(expected(matrix) != read(pair_rows(Rows.from_array(other))), axis=1)
        # The odd last row is in no pair.
        assert moved.nonzero()[0].tolist() == ([] if index == 20 else [index // 2])
    # Control: pairing by the order of values shifts many pairs at once.
    by_value = matrix[np.argsort(matrix[:, 0])]
    other = matrix.copy()
    other[np.argmin(matrix[:, 0])] = 1e6
    shifted = other[np.argsort(other[:, 0])]
    assert np.any(expected(by_value) != expected(shifted), axis=1).sum() > 5


def test_a_pair_that_is_not_finite_is_neutral_and_silent():
    hostile = np.array(
        [
            [np.nan, 0.0],
            [1.0, 2.0],
            [np.inf, 0.0],
            [np.inf, 0.0],
            [1e308, 0.0],
            [-1e308, 0.0],
            [5e-324, 0.0],
            [0.0, 0.0],
        ]
    )
    for rows in (Rows.from_array(hostile), Rows.from_chunks(lambda: iter([hostile[:3], hostile[3:]]), n=8, dim=2)):
        chunk = silently(lambda rows=rows: read(pair_rows(rows)))
        assert np.isfinite(chunk).all(axis=1).tolist() == [False, False, False, True]
        (sums,) = silently(lambda rows=rows: [column_sums(pair_rows(rows), threads=1)])
        assert sums == [0, 0]


def test_float32_differences_are_taken_in_double():
    rows = np.array([[1.0 + 2**-20], [1.0]], dtype=np.float32)
    assert differences(rows).dtype == np.float64
    assert differences(rows)[0, 0] == 2**-20 * np.sqrt(0.5)
