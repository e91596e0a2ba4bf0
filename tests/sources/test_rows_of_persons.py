"""The rows that stand for a person: those of the smallest hashes of content, by all of their bits, and by a rule for copies."""

import numpy as np
import pytest

from fastpubpriv.sources import person_table
from fastpubpriv.sources.person_table import Bucket


def rows_of_a_full_sort(bucket, k):
    """The same choice by two sorts of all bits, as it was made before."""
    order = np.lexsort((bucket.content, bucket.mark))
    mark = bucket.mark[order]
    content = bucket.content[order]
    first = np.append(True, mark[1:] != mark[:-1])
    copy = np.append(False, content[1:] == content[:-1]) & ~first
    at = np.arange(len(mark))
    number = (at - np.maximum.accumulate(np.where(copy, 0, at))).astype(np.uint64)
    copies = person_table.hash_of_numbers(content + number * person_table._COPY)
    order = order[np.lexsort((np.where(copy, copies, content), mark))]
    begin = np.flatnonzero(first)
    sizes = np.diff(np.append(begin, len(mark)))
    rank = at - np.repeat(begin, sizes)
    rows = np.full(len(begin) * k, -1)
    places = (np.cumsum(first) - 1) * k + rank
    rows[places[rank < k]] = bucket.place[order[rank < k]]
    return rows


def hashes(rng, n, bits):
    """Random hashes that differ in the first and in the last bits alone."""
    first = rng.integers(0, 1 << bits, n).astype(np.uint64) << np.uint64(64 - bits)
    return first | rng.integers(0, 1 << bits, n).astype(np.uint64)


@pytest.mark.parametrize("k", [1, 3, 40])
@pytest.mark.parametrize(
    ("person_bits", "content_bits"),
    [(5, 12), (5, 2), (1, 6), (2, 1), (9, 12)],
    ids=["distinct rows", "copies", "few persons", "many copies", "one row of most"],
)
def test_the_rows_are_those_of_a_sort_by_all_bits(person_bits, content_bits, k):
    rng = np.random.default_rng(0)
    mark = hashes(rng, 1_000, person_bits)
    content = hashes(rng, 1_000, content_bits)
    bucket = Bucket(mark, content, rng.permutation(5_000)[:1_000])
    chosen = person_table._of_bucket(bucket, k)

    assert chosen.rows.tolist() == rows_of_a_full_sort(bucket, k).tolist()
    assert chosen.more.tolist() == (np.unique(mark, return_counts=True)[1] > k).tolist()


def test_planted_fault_rows_that_agree_in_half_of_their_bits_are_caught(monkeypatch):
    by_half = person_table._radix_order

    def ordered(mark, content):
        order = by_half((mark >> np.uint64(32) << np.uint64(32)) | (content >> np.uint64(32)))
        return person_table.OrderedRows(order, mark[order], content[order])

    monkeypatch.setattr(person_table, "_ordered", ordered)
    with pytest.raises(AssertionError):
        test_the_rows_are_those_of_a_sort_by_all_bits(5, 2, 1)


def test_a_bucket_without_rows_has_no_persons():
    nothing = np.zeros(0, dtype=np.uint64)
    chosen = person_table._of_bucket(Bucket(nothing, nothing, np.zeros(0, dtype=np.int64)), 3)
    assert len(chosen.rows) == len(chosen.more) == 0
