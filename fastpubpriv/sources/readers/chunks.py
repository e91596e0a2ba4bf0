"""Rows from a function that yields arrays."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from types import GeneratorType
from typing import Any

import numpy as np

from fastpubpriv.errors import InputError
from fastpubpriv.sources.base import Chunk, Rows
from fastpubpriv.sources.readers.array import as_chunk, check_count, plain_matrix
from fastpubpriv.threads.guard import call_foreign, iterate_foreign
from fastpubpriv.validation import integer

_HINT = "n is public and must be declared exactly, and the factory must start afresh for each pass"


class ChunkRows(Rows):
    """Rows of `factory()`, read in order."""

    __slots__ = ("_factory",)

    def __init__(self, factory: Callable[[], Iterable[Any]], *, n: int, dim: int) -> None:
        if not callable(factory):
            raise InputError(
                f"factory must be a function that returns a fresh iterable of arrays, got {type(factory).__name__}: "
                "pass lambda: iterable if it can be iterated again and again"
            )
        super().__init__(integer("n", n, minimum=1), integer("dim", dim, minimum=1), "chunks", None)
        self._factory = factory

    def _chunks(self, begin: int, end: int, chunk_rows: int) -> Iterator[Chunk]:
        # If the range ends where the rows end, all rows are counted; a range that ends earlier reads no further.
        last = self._n if end == self._n else end
        position = 0
        for piece in check_count(self._pieces(last), last, _HINT):
            size = piece.shape[0]
            first, stop = max(begin - position, 0), min(end - position, size)
            position += size
            for start in range(first, stop, chunk_rows):
                part = piece[start : min(start + chunk_rows, stop)]
                # Always a copy: generators like to reuse their buffer, and another thread may still be reading this
                # one.
                yield as_chunk(
                    part, part.dtype if part.dtype.isnative and part.dtype.char in "fd" else np.dtype(np.float64)
                )

    def _pieces(self, last: int) -> Iterator[Chunk]:
        """The arrays of the factory, after checks of their form, up to row `last` if no later row is wanted."""
        seen = 0
        items = call_foreign(lambda: iter(self._factory()))
        try:
            for item in iterate_foreign(items):
                piece = plain_matrix(item)
                if piece.shape[1] != self._dim:
                    raise InputError(f"a chunk has {piece.shape[1]} columns where dim = {self._dim} was declared")
                if last < self._n:
                    piece = piece[: last - seen]
                seen += piece.shape[0]
                yield piece
                if last < self._n and seen >= last:
                    return
        finally:
            # A generator that is not closed here is closed by the interpreter, which prints what it raises then.
            if isinstance(items, GeneratorType):
                with contextlib.suppress(InputError):
                    call_foreign(items.close)
