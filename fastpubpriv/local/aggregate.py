"""Sums of reports that can be added to, merged and stored: a server keeps these, and forgets the reports."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.local.randomizers import Randomizer
from fastpubpriv.local.reports import Reports, directions, header, integers, length_limit
from fastpubpriv.sources import Executor, Query, private_rows

_MAGIC = b"FPPA\x01\x00\x00\x00"
MOST_REPORTS = 1 << 30


@dataclass(frozen=True, slots=True)
class ReportSum(Query):
    """The pass over reports: their count, the sum of their vectors, and that of the squares of each coordinate, as integers.

    Vectors of length one are rounded to steps of 2^-32, squares to steps of 2^-32; those of PrivUnitG are divided by their length
    limit first. What a report adds depends on that report alone.
    """

    randomizer: Randomizer

    def zeros(self) -> tuple[IntArray, IntArray, IntArray]:
        """Count, sum and sum of squares."""
        dim = self.randomizer.dim
        return np.zeros(1, dtype=np.int64), np.zeros(dim, dtype=np.int64), np.zeros(dim, dtype=np.int64)

    def add(self, chunk: Any, accumulators: Any) -> None:
        """Add reports, rows of a matrix of whole numbers."""
        count, sums, squares = accumulators
        dtype = np.uint8 if self.randomizer.form == "selection" else np.int32
        unit = directions(self.randomizer, integers(self.randomizer, chunk.astype(dtype)))
        if self.randomizer.gaussian:
            unit *= 1.0 / length_limit(self.randomizer)
        unit *= 2.0**32
        count += len(unit)
        sums += np.rint(unit).astype(np.int64).sum(axis=0, dtype=np.int64)
        unit *= 2.0**-16
        squares += np.rint(unit * unit).astype(np.int64).sum(axis=0, dtype=np.int64)

    def answer(self, accumulators: Any) -> Any:
        """Count, sum and sum of squares."""
        return accumulators

    @property
    def row_cost(self) -> int:
        """About 20 ns for a column, and for seeds about 15 more."""
        return (40 if self.randomizer.form == "selection" else 20) * self.randomizer.dim


class Aggregator:
    """The sum of reports: exact integers, the same for any order of the reports and any way to merge.

    Parameters
    ----------
    randomizer : PrivUnit, PrivUnitG or Duchi
        That the reports come from.

    Attributes
    ----------
    count : int
        Reports so far.
    private : bool
        False once reports from a seed are in it.

    Privacy
    -------
    Post-processing of reports: costs nothing, needs no trust.

    Examples
    --------
    >>> from fastpubpriv.local import Aggregator, PrivUnit
    >>> randomizer = PrivUnit(3, 2.0)
    >>> total = Aggregator(randomizer)
    >>> for user in ([1.0, 0.0, 0.0], [0.6, 0.8, 0.0]):
    ...     total.add(randomizer.privatize(user))
    >>> total.count, total.mean().shape
    (2, (3,))
    """

    __slots__ = ("_squares", "_sums", "count", "private", "randomizer")

    def __init__(self, randomizer: Randomizer) -> None:
        if not isinstance(randomizer, Randomizer):
            raise InputError(f"randomizer must be a PrivUnit, PrivUnitG or Duchi, got {type(randomizer).__name__}")
        self.randomizer = randomizer
        self.count = 0
        self.private = True
        self._sums: IntArray = np.zeros(randomizer.dim, dtype=np.int64)
        self._squares: IntArray = np.zeros(randomizer.dim, dtype=np.int64)

    def __repr__(self) -> str:
        return f"Aggregator(count={self.count}, randomizer={type(self.randomizer).__name__})"

    def add(self, reports: Reports | bytes, *, threads: int | None = None) -> None:
        """Add a batch of reports, or its bytes; InputError, and nothing added, if they come from another randomizer.

        A second report of a user counts like one of another user: a server that must not be swayed by one user keeps their names,
        or says in `estimate_mean(..., reports_per_user=)` how many it takes, and that is then what a user pays for.
        """
        if not isinstance(reports, Reports):
            reports = Reports.from_bytes(reports, randomizer=self.randomizer)
        if reports.randomizer != self.randomizer:
            raise InputError(
                "these reports come from another randomizer: its dim, epsilon, norm_bound and form must be the same"
            )
        if not len(reports):
            return
        self._check_room(len(reports))
        found = Executor(threads=threads).run(ReportSum(self.randomizer), private_rows(reports.payload))
        self._take(int(found[0][0]), found[1], found[2], reports.private)

    def merge(self, other: Aggregator) -> None:
        """Add what another one has summed up, of the same randomizer."""
        if not isinstance(other, Aggregator) or other.randomizer != self.randomizer:
            raise InputError("only an Aggregator of the same randomizer can be merged")
        self._check_room(other.count)
        self._take(other.count, other._sums, other._squares, other.private)

    def _check_room(self, more: int) -> None:
        if self.count + more > MOST_REPORTS:
            raise InputError(f"an Aggregator holds at most 2^30 reports, got {self.count + more}")

    def _take(self, count: int, sums: IntArray, squares: IntArray, private: bool) -> None:
        self.count += count
        self._sums = self._sums + sums
        self._squares = self._squares + squares
        self.private = self.private and private

    def mean(self) -> FloatArray:
        """The mean of the vectors of the reports, (dim,): an unbiased estimate of the mean of the rows."""
        if not self.count:
            raise InputError("no reports yet: add some first")
        found: FloatArray = self._sums.astype(np.float64) * (2.0**-32 * self._unit() / self.count)
        return found

    def variance(self) -> FloatArray:
        """Variance of one report's vector in each coordinate, (dim,), as seen in the reports; at least two are needed."""
        if self.count < 2:
            raise InputError("a variance needs at least two reports")
        square = self._squares.astype(np.float64) * (2.0**-32 / self.count) * self._unit() ** 2
        found: FloatArray = np.maximum(square - self.mean() ** 2, 0.0) * (self.count / (self.count - 1.0))
        return found

    def _unit(self) -> float:
        randomizer = self.randomizer
        longest = length_limit(randomizer) if randomizer.gaussian else 1.0
        return longest * randomizer.radius / randomizer.scale

    def to_bytes(self) -> bytes:
        """The sums as bytes."""
        body = b"".join(
            [
                _MAGIC,
                _name(self.randomizer),
                np.array([self.count, int(self.private)], dtype="<i8").tobytes(),
                self._sums.astype("<i8").tobytes(),
                self._squares.astype("<i8").tobytes(),
            ]
        )
        return body + hashlib.sha256(body).digest()

    @classmethod
    def from_bytes(cls, data: bytes, *, randomizer: Randomizer) -> Self:
        """Read what `to_bytes` wrote, for the same randomizer; InputError for anything else."""
        found = cls(randomizer)
        dim = randomizer.dim
        if not isinstance(data, bytes | bytearray | memoryview):
            raise InputError(f"an Aggregator is read from bytes, got {type(data).__name__}")
        data = bytes(data)
        body, start = data[:-32], len(_MAGIC) + 32
        if (
            len(data) != start + 16 + 16 * dim + 32
            or not data.startswith(_MAGIC + _name(randomizer))
            or hashlib.sha256(body).digest() != data[-32:]
        ):
            raise InputError(
                "these bytes are not an Aggregator of this randomizer: cut short, changed, foreign or of another one"
            )
        numbers = np.frombuffer(body[start:], dtype="<i8").astype(np.int64)
        count, private, sums, squares = int(numbers[0]), int(numbers[1]), numbers[2 : 2 + dim], numbers[2 + dim :]
        most = count << 32
        if (
            not 0 <= count <= MOST_REPORTS
            or private not in (0, 1)
            or (
                math.isfinite(most)
                and (int(np.abs(sums).max()) > most or int(squares.min()) < 0 or int(squares.max()) > most)
            )
        ):
            raise InputError("these bytes are not an Aggregator: its sums exceed what so many reports can give")
        found._take(count, sums, squares, bool(private))
        return found


def _name(randomizer: Randomizer) -> bytes:
    """A digest of the public parameters."""
    return hashlib.sha256(repr(header(randomizer, 0)).encode()).digest()
