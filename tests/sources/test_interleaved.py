"""Interleaved blocks and distant pairs: disjoint, spread out, the same rows from every kind of source."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpubpriv import InputError, Rows
from fastpubpriv.sources.views import interleaved
from fastpubpriv.sources.views.interleaved import interleave_rows
from fastpubpriv.sources.views.pairs import distant_pairs


def numbered(n, dim=1):
    return np.arange(n * dim, dtype=np.float64).reshape(n, dim)


def streamed(array, pieces=5):
    return Rows.from_chunks(lambda: np.array_split(array, pieces), n=len(array), dim=array.shape[1])


def content(rows, **options):
    return np.concatenate(list(rows.chunks(**options)))


@pytest.mark.parametrize("n", [32, 100, 65_537, 200_000])
@pytest.mark.parametrize("shares", [(1,), (15, 15, 40, 30), (14, 14, 18, 8, 8, 24, 14)])
def test_blocks_are_disjoint_and_cover_all_rows(n, shares):
    blocks = interleave_rows(Rows.from_array(numbered(n)), *shares)
    found = [content(block)[:, 0] for block in blocks]
    assert np.array_equal(np.sort(np.concatenate(found)), np.arange(n))
    for values, share, block in zip(found, shares, blocks, strict=True):
        assert (np.diff(values) > 0).all()
        assert len(values) == block.n
        assert abs(len(values) - n * share / sum(shares)) < 4


def test_every_stretch_has_its_share():
    (block, _, _) = interleave_rows(Rows.from_array(numbered(100_000)), 10, 50, 40)
    held = np.zeros(100_000)
    held[content(block)[:, 0].astype(int)] = 1.0
    for length in (100, 1000, 9973):
        assert np.abs(np.convolve(held, np.ones(length), "valid") - 0.1 * length).max() < 4
    # Nor does it follow the hours of a day or the days of a week.
    for period in (2, 7, 24, 100, 168):
        for phase in range(0, period, max(1, period // 7)):
            assert abs(held[phase::period].mean() - 0.1) < 0.02


@pytest.mark.parametrize("segment", [7, 64, 1 << 15])
def test_any_range_of_any_source_gives_the_same_rows(segment, monkeypatch):
    monkeypatch.setattr(interleaved, "_SEGMENT", segment)
    data = numbered(1003, 3)
    for random, stream in zip(
        interleave_rows(Rows.from_array(data), 2, 5, 3), interleave_rows(streamed(data), 2, 5, 3), strict=True
    ):
        assert random.n == stream.n
        whole = content(random)
        assert np.array_equal(whole, content(stream))
        for begin, end in ((0, 1), (0, random.n), (5, 17), (random.n - 1, random.n), (4, 4)):
            for rows in (random, stream):
                got = list(rows.chunks(begin, end, 6))
                assert np.array_equal(np.concatenate(got) if got else whole[:0], whole[begin:end])
                assert all(len(chunk) <= 6 for chunk in got)


@given(n=st.integers(1, 300), begin=st.integers(0, 300), length=st.integers(0, 300))
@settings(max_examples=60, deadline=None)
def test_positions_are_those_of_the_mask(n, begin, length):
    members = interleaved._Members(n, 2**61, 2**63)
    every = np.flatnonzero(members.mask(0, n))
    assert members.size == len(every)
    begin, end = min(begin, members.size), min(begin + length, members.size)
    assert np.array_equal(members.positions(begin, end), every[begin:end])


def test_too_few_rows():
    with pytest.raises(InputError, match="too few"):
        interleave_rows(Rows.from_array(numbered(2)), 1, 1, 1)


@pytest.mark.parametrize("n", [2, 3, 10, 1001])
@pytest.mark.parametrize("pieces", [1, 3])
def test_distant_pairs(n, pieces):
    data = np.random.default_rng(n).normal(size=(n, 2))
    half = n // 2
    expected = (data[:half] - data[half : 2 * half]) * np.sqrt(0.5)
    for rows in (Rows.from_array(data), streamed(data, pieces)):
        pairs = distant_pairs(rows)
        assert pairs.n == half
        for size in (1, 4, 5000):
            assert np.array_equal(content(pairs, chunk_rows=size), expected)
    assert np.array_equal(content(distant_pairs(Rows.from_array(data.astype(np.float32)))).dtype, np.float64)


def test_one_row_changes_one_pair_and_one_block():
    data = np.random.default_rng(0).normal(size=(501, 1))
    other = data.copy()
    other[77] = np.inf
    changed = [
        not np.array_equal(content(one), content(two))
        for one, two in zip(
            interleave_rows(Rows.from_array(data), 3, 4, 3),
            interleave_rows(Rows.from_array(other), 3, 4, 3),
            strict=True,
        )
    ]
    assert sum(changed) == 1
    with np.errstate(all="raise"):
        one, two = (content(distant_pairs(Rows.from_array(each))) for each in (data, other))
    assert np.count_nonzero(one != two) == 1


def test_rows_stay_behind_their_type():
    (block, _) = interleave_rows(Rows.from_array(numbered(10)), 1, 1)
    assert "Rows(n=" in repr(block)
    with pytest.raises(TypeError):
        np.asarray(block)
