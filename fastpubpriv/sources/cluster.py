"""What an executor asks of the machines where private rows live, when they are not in this process."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any


class Cluster(abc.ABC):
    """Runs passes where the rows live. Only accumulators come back; ledger, account and keys stay where the caller is."""

    __slots__ = ()

    @abc.abstractmethod
    def accumulate(self, query: Any, rows: Any, chunk_rows: int, tell: Callable[[int], object] | None) -> Any:
        """The accumulators of `query`, which can be pickled, over all rows of the `rows` whose cluster this is, each counted once.

        `query.add` gets at most `chunk_rows` at a time; `tell` is called with the number of rows done so far. InputError if a
        worker could not read or add rows, a chunk has another number of rows than when it was opened, or the cluster did not
        finish; its text says nothing about the content.
        """
