"""Differences of rows, of adjacent ones or of those n / 2 apart, for learners that need centred rows without knowing the mean."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from fastpubpriv._types import IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.sources.base import Chunk, Rows
from fastpubpriv.sources.views.view import View

_ROOT = math.sqrt(0.5)


def pair_rows(rows: Rows) -> Rows:
    """Rows (x_2i - x_2i+1) / sqrt(2) of a source; an odd last row is dropped.

    A pair is fixed by its position in the source, so a replaced row changes one pair. A pair whose difference is not finite counts
    for nothing, as any such row. InputError for a single row.
    """
    return Pairs(rows)


def distant_pairs(rows: Rows) -> Rows:
    """Rows (x_i - x_(i + h)) / sqrt(2) for i below h = n // 2; an odd last row is dropped.

    As in `pair_rows`, a pair is fixed by its positions, so a replaced row changes one pair. In sorted data, adjacent rows are too
    similar to show how wide the data are; rows that are h apart are not.
    """
    return DistantPairs(rows)


class Pairs(View):
    """Differences of adjacent rows."""

    __slots__ = ()

    def __init__(self, rows: Rows) -> None:
        if rows.n < 2:
            raise InputError("differences of rows need at least two rows, got 1")
        super().__init__(rows, rows.n // 2, rows.dim, f"pairs of {rows.kind}", rows.columns)

    @property
    def arguments(self) -> tuple[()]:
        """See `View.arguments`."""
        return ()

    def spans(self, begin: int, end: int) -> list[tuple[int, int, int]]:
        """See `View.spans`."""
        return [(0, 2 * begin, 2 * end)]

    def cuts(self, source: int, ends: IntArray) -> IntArray:
        """See `View.cuts`. A pair over an end is by itself, so that one row moves and not a chunk."""
        return np.concatenate([ends // 2, -(-ends // 2)])

    def block(self, begin: int, end: int) -> Chunk:
        """Pairs begin to end."""
        return differences(self._rows.block(2 * begin, 2 * end))

    def _streamed(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        held: Chunk | None = None
        # A pass to the last pair also reads an odd last row, so that the source can check its number of rows.
        stop = self._rows.n if end == self.n else 2 * end
        for chunk in self._rows.chunks(2 * begin, stop, 2 * chunk_rows):
            rows = chunk if held is None else np.concatenate([held, chunk])
            even = len(rows) - len(rows) % 2
            held = rows[even:].copy() if even < len(rows) else None
            if even:
                yield differences(rows[:even])


class DistantPairs(Pairs):
    """Differences of rows that are half of the source apart."""

    __slots__ = ()

    def spans(self, begin: int, end: int) -> list[tuple[int, int, int]]:
        """See `View.spans`."""
        return [(0, begin, end), (0, begin + self.n, end + self.n)]

    def cuts(self, source: int, ends: IntArray) -> IntArray:
        """See `View.cuts`."""
        return np.concatenate([ends, ends - self.n])

    def block(self, begin: int, end: int) -> Chunk:
        """Pairs begin to end."""
        return halved(self._rows.block(begin, end), self._rows.block(begin + self.n, end + self.n))

    def _streamed(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        # Two readers, one for each row of a pair.
        stop = self._rows.n if end == self.n else self.n + end  # as above
        far = self._rows.chunks(self.n + begin, stop, chunk_rows)
        held: Chunk = np.empty((0, self.dim))
        for near in self._rows.chunks(begin, end, chunk_rows):
            kept = near.copy()  # the next read may reuse its memory
            while len(held) < len(kept):
                held = np.concatenate([held, next(far)])
            yield halved(kept, held[: len(kept)])
            held = held[len(kept) :]
        for _ in far:
            pass


def differences(rows: Chunk) -> Chunk:
    """Differences of adjacent rows: (k, dim) float64 from (2k, dim)."""
    return halved(rows[0::2], rows[1::2])


def halved(near: Chunk, far: Chunk) -> Chunk:
    """The differences near - far, divided by the square root of two, (k, dim) float64."""
    with np.errstate(all="ignore"):
        gaps: Chunk = (near.astype(np.float64) - far.astype(np.float64)) * _ROOT
    return gaps
