"""The distinct keys of each person, from which a call takes a few: they depend on that person's rows alone.

The order of a person's keys is that of a hash of identifier and key, so that those that are left out are as if chosen at random.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.sources.person_table import NOT_AS_MANY, Marks, hash_of_numbers, room_for
from fastpubpriv.sources.row_types import Rows

_KEY = np.uint64(0xA0761D6478BD642F)  # a public constant of the hash of keys


@dataclass(frozen=True, slots=True, eq=False)
class KeysOfPersons:
    """Distinct pairs of a person and a key, person by person; the keys of a person in the order of their hashes."""

    person: IntArray  # (pairs,), ascending
    key: IntArray  # (pairs,)
    persons: int

    @property
    def sizes(self) -> FloatArray:
        """Number of distinct keys of each person, (persons,)."""
        return np.bincount(self.person, minlength=self.persons).astype(np.float64)

    def first(self, most: int) -> FloatArray:
        """Return the first `most` keys of each person, one row for each; NaN after the last one.

        There are no columns that all persons leave empty, so their number is private.
        """
        begin = np.searchsorted(self.person, np.arange(self.persons))
        rank = np.arange(len(self.person)) - begin[self.person]
        counts = rank < most
        width = int(rank[counts].max(initial=0)) + 1
        rows: FloatArray = room_for((self.persons, width), np.nan)
        rows[self.person[counts], rank[counts]] = self.key[counts]
        return rows


def keys_of_persons(
    rows: Rows, code: Callable[[Any], Any], cells: int, people: IntArray, marks: Marks
) -> KeysOfPersons:
    """Return the distinct keys of each person: `code` maps a chunk to codes 0 ... cells - 1, `people` has the person of each row.

    Rows of person -1 are left out. `marks` are the hashes of the identifiers, (persons,).
    """
    if rows.n != len(people):
        raise InputError(NOT_AS_MANY)
    parts = list(_pairs_of_chunks(rows, code, cells, people))
    person, key = np.divmod(distinct(np.concatenate(parts)), cells)
    hashes = hash_of_numbers(marks[person] + hash_of_numbers(key.astype(np.uint64) + _KEY))
    order = np.lexsort((key, hashes, person))
    return KeysOfPersons(person[order], key[order], len(marks))


def distinct(pairs: IntArray) -> IntArray:
    """Return the distinct pairs in ascending order: the sensitivity of a count holds for keys that a person has once."""
    return np.unique(pairs)


def _pairs_of_chunks(
    rows: Rows, code: Callable[[Any], Any], cells: int, people: IntArray
) -> Iterator[IntArray]:
    """Yield person * cells + key of the rows of each chunk, each pair once in a chunk."""
    begin = 0
    for chunk in rows.chunks():
        person = people[begin : begin + len(chunk)]
        there = person >= 0
        yield distinct(person[there] * cells + code(chunk)[there])
        begin += len(chunk)
