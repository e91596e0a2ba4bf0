"""Views: blocks, interleaved blocks, pairs and mapped rows are the same rows from every kind of source, in every cut."""

import numpy as np
import pytest
from helpers.errors import raises
from helpers_sources import column_sums, content, direct_sums, every_source, silently, streamed
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpubpriv import InputError, Rows
from fastpubpriv.sources import private_rows, views
from fastpubpriv.sources.views import DistantPairs, Pairs, interleave_rows, linear_rows, split_rows

X = np.random.default_rng(0).normal(size=(1003, 3))
MATRIX = np.array([[1.0, 0.25, 0.0], [0.1, -3.0, 7.0]])


def halved(near, far):
    return (near.astype(float) - far.astype(float)) * np.sqrt(0.5)


def neighbors(x):
    return halved(x[: len(x) // 2 * 2 : 2], x[1::2])


def distant(x):
    return halved(x[: len(x) // 2], x[len(x) // 2 : len(x) // 2 * 2])


def members(x):
    return x[views._Members(len(x), 2**64 // 5, 7 * 2**64 // 10).mask(0, len(x))]


def mapped(x):
    return np.stack(
        [x[:, 0] + x[:, 1] * 0.25, x[:, 0] * 0.1 + x[:, 1] * -3.0 + x[:, 2] * 7.0], axis=1
    )


# Each view, and what it must give.
VIEWS = {
    "all": (lambda rows: rows, lambda x: x),
    "slice": (lambda rows: rows.slice(130, 517), lambda x: x[130:517]),
    "slice of a slice": (lambda rows: rows.slice(130, 517).slice(0, 193), lambda x: x[130:323]),
    "interleaved": (lambda rows: interleave_rows(rows, 2, 5, 3)[1], members),
    "pairs": (Pairs, neighbors),
    "distant pairs": (DistantPairs, distant),
    "mapped": (lambda rows: linear_rows(rows, MATRIX), mapped),
}


@pytest.mark.parametrize("pieces", [None, 1, 16, 2000])
@pytest.mark.parametrize("view", VIEWS)
def test_any_range_of_a_view_has_the_same_bits_in_every_cut(view, pieces, monkeypatch):
    monkeypatch.setattr(views, "_SEGMENT", 7)
    make, wanted = VIEWS[view]
    rows = make(private_rows(X) if pieces is None else streamed(X, pieces))
    expected = wanted(X)
    assert (rows.n, rows.dim, rows.random_access) == (*expected.shape, pieces is None)
    for begin, end in ((0, rows.n), (0, 1), (5, 17), (rows.n - 1, rows.n), (4, 4)):
        for size in (1, 6, 100, 5000):
            chunks = list(rows.chunks(begin, end, size))
            assert np.array_equal(np.concatenate([expected[:0], *chunks]), expected[begin:end])
            assert all(len(chunk) <= size for chunk in chunks)


def numbered(n):
    return np.arange(n, dtype=np.float64).reshape(n, 1)


@pytest.mark.parametrize("n", [32, 100, 65_537, 200_000])
@pytest.mark.parametrize("shares", [(1,), (15, 15, 40, 30), (14, 14, 18, 8, 8, 24, 14)])
@pytest.mark.parametrize("cut", [split_rows, interleave_rows])
def test_blocks_are_disjoint_and_cover_all_rows(cut, n, shares):
    blocks = cut(private_rows(numbered(n)), *shares)
    found = [content(block)[:, 0] for block in blocks]
    assert np.array_equal(np.sort(np.concatenate(found)), np.arange(n))
    for values, share, block in zip(found, shares, blocks, strict=True):
        assert (np.diff(values) > 0).all()
        assert len(values) == block.n
        assert abs(len(values) - n * share / sum(shares)) < 4


def test_every_stretch_has_its_share():
    (block, _, _) = interleave_rows(private_rows(numbered(100_000)), 10, 50, 40)
    held = np.zeros(100_000)
    held[content(block)[:, 0].astype(int)] = 1.0
    for length in (100, 1000, 9973):
        assert np.abs(np.convolve(held, np.ones(length), "valid") - 0.1 * length).max() < 4
    # Nor does it follow the hours of a day or the days of a week.
    for period in (2, 7, 24, 100, 168):
        for phase in range(0, period, max(1, period // 7)):
            assert abs(held[phase::period].mean() - 0.1) < 0.02


@given(n=st.integers(1, 300), begin=st.integers(0, 300), length=st.integers(0, 300))
@settings(max_examples=60, deadline=None)
def test_positions_are_those_of_the_mask(n, begin, length):
    members = views._Members(n, 2**61, 2**63)
    every = np.flatnonzero(members.mask(0, n))
    assert members.size == len(every)
    begin, end = min(begin, members.size), min(begin + length, members.size)
    assert np.array_equal(members.positions(begin, end), every[begin:end])


def test_too_few_rows():
    raises(InputError, "too few", interleave_rows, private_rows(numbered(2)), 1, 1, 1)
    raises(InputError, "too few", split_rows, private_rows(numbered(1)), 1, 1)
    raises(InputError, "two rows", Pairs, private_rows(numbered(1)))


def test_one_row_changes_one_pair_and_one_block():
    data = np.random.default_rng(0).normal(size=(501, 1))
    other = data.copy()
    other[77] = np.inf
    blocks = [map(content, interleave_rows(private_rows(each), 3, 4, 3)) for each in (data, other)]
    assert sum(not np.array_equal(one, two) for one, two in zip(*blocks, strict=True)) == 1
    with np.errstate(all="raise"):
        one = content(DistantPairs(private_rows(data)))
        two = content(DistantPairs(private_rows(other)))
    assert np.count_nonzero(one != two) == 1


# ---- Differences of neighboring rows: position decides the pair, whatever the source, the chunks and the content.
@pytest.mark.parametrize("n", [2, 3, 4, 9, 38, 39])
def test_every_kind_of_source_gives_the_same_pairs(n, tmp_path):
    matrix = np.random.default_rng(n).standard_normal((n, 3))
    kinds = set()
    for name, rows in every_source(matrix, tmp_path):
        for pairs, wanted in (
            (Pairs(rows), neighbors(matrix)),
            (DistantPairs(rows), distant(matrix)),
        ):
            kinds.add(pairs.random_access)
            assert (pairs.n, pairs.dim) == (n // 2, 3), name
            assert pairs.kind == f"pairs of {rows.kind}"
            assert pairs.columns == rows.columns
            assert np.array_equal(content(pairs), wanted), name
            for threads in (1, 3):
                assert column_sums(pairs, threads=threads, chunk_rows=5) == direct_sums(wanted), (
                    name
                )
    assert kinds == {True, False}


def test_one_replaced_row_changes_one_pair():
    matrix = np.random.default_rng(1).standard_normal((21, 2))
    for index in range(21):
        other = matrix.copy()
        other[index] = 1e6
        moved = np.any(neighbors(matrix) != content(Pairs(private_rows(other))), axis=1)
        # The odd last row is in no pair.
        assert moved.nonzero()[0].tolist() == ([] if index == 20 else [index // 2])
    # Control: pairing by the order of values shifts many pairs at once.
    by_value = matrix[np.argsort(matrix[:, 0])]
    other = matrix.copy()
    other[np.argmin(matrix[:, 0])] = 1e6
    shifted = other[np.argsort(other[:, 0])]
    assert np.any(neighbors(by_value) != neighbors(shifted), axis=1).sum() > 5


def test_odd_pairs_are_neutral_taken_in_double_and_odd_blocks_are_refused():
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
    for rows in (
        private_rows(hostile),
        Rows.from_chunks(lambda: iter([hostile[:3], hostile[3:]]), n=8, dim=2),
    ):
        chunk = silently(lambda rows=rows: content(Pairs(rows)))
        assert np.isfinite(chunk).all(axis=1).tolist() == [False, False, False, True]
        (sums,) = silently(lambda rows=rows: [column_sums(Pairs(rows), threads=1)])
        assert sums == [0, 0]
    # Float32 differences are taken in double.
    rows = np.array([[1.0 + 2**-20], [1.0]], dtype=np.float32)
    (found,) = Pairs(private_rows(rows)).chunks()
    assert found.dtype == np.float64
    assert found[0, 0] == 2**-20 * np.sqrt(0.5)
    # Refused blocks.
    rows = private_rows(X)
    for begin, end in ((5, 5), (6, 5), (0, 1004), (1003, 1004)):
        raises(InputError, "block", rows.slice, begin, end)
    for begin, end in ((-1, 5), (0.0, 5), (True, 5)):
        raises(InputError, None, rows.slice, begin, end)
