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
        """The accumulators of `query` over all rows, each row counted once.

        Parameters
        ----------
        query : Query
            Picklable; what a row adds depends on that row alone.
        rows : Rows
            Whose `cluster` this is.
        chunk_rows : int
            Most rows given to `query.add` at a time.
        tell : callable or None
            Called with the number of rows done so far; None when nobody wants to know.

        Raises
        ------
        InputError
            A worker could not read or add rows, a chunk has another number of rows than when it was opened, or the cluster did not
            finish. The text says nothing about the content.
        """
