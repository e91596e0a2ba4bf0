"""Chunks on their way from a reader: fresh copies, and a count of their rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fastpubpriv.errors import InputError
from fastpubpriv.sources.base import Chunk


def check_count(chunks: Iterator[Chunk], expected: int, hint: str) -> Iterator[Chunk]:
    """Yield the chunks; InputError as soon as they are known to have more or fewer rows than `expected`."""
    seen = 0
    for chunk in chunks:
        seen += chunk.shape[0]
        if seen > expected:
            break
        yield chunk
    if seen != expected:
        found = f"more than {expected}" if seen > expected else str(seen)
        raise InputError(f"a pass over the rows gave {found} rows where {expected} were declared: {hint}")


def as_chunk(array: Chunk, dtype: np.dtype[Any]) -> Chunk:
    """A fresh C-contiguous copy of a (k, dim) array as `dtype`; no value causes a warning."""
    with np.errstate(all="ignore"):
        return np.array(array, dtype=dtype, order="C", copy=True, subok=False)
