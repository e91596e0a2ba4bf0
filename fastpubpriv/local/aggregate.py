"""Sums of reports that can be added to, merged and stored: a server keeps these, and forgets the reports."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.local.randomizers import Randomizer
from fastpubpriv.local.reports import Reports, directions, integers, length_limit, payload_form
from fastpubpriv.local.users import MOST_PER_USER, Users, hashed_names
from fastpubpriv.sources import Executor, Query, private_rows

_MAGIC, _VERSION = b"FPPA", 2
_START = 8 + 32  # magic, version, and the name of the randomizer
MOST_REPORTS = 1 << 30


@dataclass(frozen=True, slots=True)
class ReportSum(Query):
    """The pass over reports: their count, the sum of their vectors, and that of the squares of each coordinate, as integers.

    Vectors of length one are rounded to steps of 2^-32, squares to steps of 2^-32; those of PrivUnitG are divided by their length
    limit first. What a report adds depends on that report alone.

    Examples
    --------
    >>> from fastpubpriv.local import PrivUnit, ReportSum
    >>> [part.shape for part in ReportSum(PrivUnit(3, epsilon=2.0)).zeros()]
    [(1,), (3,), (3,)]
    """

    randomizer: Randomizer

    def zeros(self) -> tuple[IntArray, IntArray, IntArray]:
        """Count, sum and sum of squares."""
        dim = self.randomizer.dim
        return np.zeros(1, dtype=np.int64), np.zeros(dim, dtype=np.int64), np.zeros(dim, dtype=np.int64)

    def add(self, chunk: Any, accumulators: Any) -> None:
        """Add reports, rows of a matrix of whole numbers."""
        count, sums, squares = accumulators
        dtype = payload_form(self.randomizer)[1]
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
        return (20 if self.randomizer.form == "direct" else 40) * self.randomizer.dim


class Aggregator:
    """The sum of reports: exact integers, the same for any order of the reports and any way to merge.

    Parameters
    ----------
    randomizer : PrivUnit, PrivUnitG, Duchi or SubsetSelection
        That the reports come from.
    reports_per_user : int, optional
        The most reports that are taken of one user: `add` then asks for the names of users, hashed by the caller, and leaves out
        what is beyond. None: users are not told apart, and each report counts.

    Attributes
    ----------
    count : int
        Reports so far.
    refused : int
        Reports that were left out because their users had sent enough.
    private : bool
        False once reports from a seed are in it.

    Privacy
    -------
    Post-processing of reports: costs nothing, needs no trust. A report is paid for when it is drawn, so a refusal protects the
    mean, not the user: a user who drew k fresh reports has spent k times the cost of one, taken or not. `estimate_mean` states the
    cost of `reports_per_user` of them. The names tell who has reported to anybody who can hash all names: use a key.

    Notes
    -----
    Memory: 16 bytes for each column, and with `reports_per_user` about 30 bytes for each user.

    Examples
    --------
    >>> from fastpubpriv.local import Aggregator, PrivUnit
    >>> randomizer = PrivUnit(3, 2.0)
    >>> total = Aggregator(randomizer)
    >>> for user in ([1.0, 0.0, 0.0], [0.6, 0.8, 0.0]):
    ...     left_out = total.add(randomizer.privatize(user))
    >>> total.count, total.mean().shape
    (2, (3,))
    >>> import hmac
    >>> once = Aggregator(randomizer, reports_per_user=1)
    >>> anna = [hmac.digest(b"a secret of the server", b"anna", "sha256")]
    >>> [once.add(randomizer.privatize([1.0, 0.0, 0.0]), users=anna) for _ in range(2)], once.count
    ([0, 1], 1)
    """

    __slots__ = ("_squares", "_sums", "_users", "count", "private", "randomizer", "refused", "reports_per_user")

    def __init__(self, randomizer: Randomizer, *, reports_per_user: int | None = None) -> None:
        if not isinstance(randomizer, Randomizer):
            raise InputError(
                f"randomizer must be a PrivUnit, PrivUnitG, Duchi or SubsetSelection, got {type(randomizer).__name__}"
            )
        self.randomizer = randomizer
        self.reports_per_user = (
            None
            if reports_per_user is None
            else validation.integer("reports_per_user", reports_per_user, minimum=1, maximum=MOST_PER_USER)
        )
        self._users = None if self.reports_per_user is None else Users(self.reports_per_user)
        self.count = 0
        self.refused = 0
        self.private = True
        self._sums: IntArray = np.zeros(randomizer.dim, dtype=np.int64)
        self._squares: IntArray = np.zeros(randomizer.dim, dtype=np.int64)

    def __repr__(self) -> str:
        return f"Aggregator(count={self.count}, randomizer={type(self.randomizer).__name__})"

    def add(self, reports: Reports | bytes, *, users: Any = None, threads: int | None = None) -> int:
        """Add a batch of reports, or its bytes.

        Parameters
        ----------
        reports : Reports or bytes
            Of this randomizer.
        users : n bytes of length 16 or more, or (n, 16 or more) uint8
            With `reports_per_user` only: a hash of the name of each report's user, the same in every batch. The first 16 bytes
            count. Anything else about a user, and above all the row, must stay out of it.
        threads : int, optional
            Never changes the sum.

        Returns
        -------
        int
            Reports left out, because their users had sent `reports_per_user` before.

        Raises
        ------
        InputError
            Nothing was added: the bytes are not a batch, it comes from another randomizer, or the names do not fit.
        """
        if not isinstance(reports, Reports):
            reports = Reports.from_bytes(reports, randomizer=self.randomizer)
        if reports.randomizer != self.randomizer:
            raise InputError(
                "these reports come from another randomizer: its dim, epsilon, norm_bound, form and words must be the same"
            )
        if (users is None) != (self._users is None):
            raise InputError(
                "an Aggregator with reports_per_user needs users= with every batch, a hash for each report"
                if users is None
                else "users= is for an Aggregator(..., reports_per_user=): this one does not tell users apart"
            )
        payload = reports.payload
        new: dict[bytes, int] = {}
        if self._users is not None:
            kept, new = self._users.admit(hashed_names(users, len(reports)))
            payload = payload[kept]
        left_out = len(reports) - len(payload)
        if len(payload):
            self._check_room(len(payload))
            found = Executor(threads=threads).run(ReportSum(self.randomizer), private_rows(payload))
            self._take(int(found[0][0]), found[1], found[2], reports.private)
        if self._users is not None:
            self._users.take(new)
        self.refused += left_out
        return left_out

    def merge(self, other: Aggregator) -> None:
        """Add what another one has summed up, of the same randomizer; InputError if a user would then have too many reports."""
        if not isinstance(other, Aggregator) or other.randomizer != self.randomizer:
            raise InputError("only an Aggregator of the same randomizer can be merged")
        if other.reports_per_user != self.reports_per_user:
            raise InputError("only an Aggregator with the same reports_per_user can be merged")
        self._check_room(other.count)
        if self._users is not None and other._users is not None:
            self._users.merge(other._users)
        self.refused += other.refused
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
        """The sums, and the hashed names of users if they are kept, as bytes."""
        numbers = [self.count, int(self.private), self.refused, self.reports_per_user or 0]
        body = b"".join(
            [
                _MAGIC,
                _VERSION.to_bytes(4, "little"),
                _name(self.randomizer),
                np.array(numbers, dtype="<i8").tobytes(),
                self._sums.astype("<i8").tobytes(),
                self._squares.astype("<i8").tobytes(),
                b"" if self._users is None else self._users.to_bytes(),
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
        if len(data) >= 8 and data.startswith(_MAGIC) and int.from_bytes(data[4:8], "little") != _VERSION:
            raise InputError(f"this Aggregator has another version than {_VERSION}: update whichever side is older")
        body, end = data[:-32], _START + 32 + 16 * dim
        if (
            len(body) < end
            or not data.startswith(_MAGIC + _VERSION.to_bytes(4, "little") + _name(randomizer))
            or hashlib.sha256(body).digest() != data[-32:]
        ):
            raise InputError(
                "these bytes are not an Aggregator of this randomizer: cut short, changed, foreign or of another one"
            )
        numbers = np.frombuffer(body[_START:end], dtype="<i8").astype(np.int64)
        count, private, refused, cap = (int(number) for number in numbers[:4])
        sums, squares = numbers[4 : 4 + dim], numbers[4 + dim :]
        most = count << 32
        if (
            not 0 <= count <= MOST_REPORTS
            or private not in (0, 1)
            or refused < 0
            or not 0 <= cap <= MOST_PER_USER
            or not -most <= int(sums.min()) <= int(sums.max()) <= most
            or not 0 <= int(squares.min()) <= int(squares.max()) <= most
        ):
            raise InputError("these bytes are not an Aggregator: its sums exceed what so many reports can give")
        found._take(count, sums, squares, bool(private))
        found.refused = refused
        if cap:
            found.reports_per_user, found._users = cap, Users.from_bytes(body[end:], cap)
        if (found._users.reports if found._users is not None else count) != count or (len(body) > end and not cap):
            raise InputError("these bytes are not an Aggregator: its users do not have as many reports as it holds")
        return found


def _name(randomizer: Randomizer) -> bytes:
    """A digest of the public parameters."""
    return hashlib.sha256(repr(randomizer.header).encode()).digest()
