"""Sums of reports, and numbers of reports by user: a server keeps these, and discards the reports."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from fastpubpriv import validation
from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.local.randomizers import (
    Randomizer,
    Reports,
    directions,
    integers,
    length_limit,
    payload_form,
)
from fastpubpriv.results.base import frozen
from fastpubpriv.results.estimates import MeanResult
from fastpubpriv.sources import Executor, Query, private_rows
from fastpubpriv.sources.row_types import Chunk

# Hashed names of users, and the number of accepted reports of each.

NAME_BYTES = 16
MOST_PER_USER = 1 << 20  # reports
_NAME = np.dtype(f"S{NAME_BYTES}")
_COUNT = np.dtype("<u4")
Names = npt.NDArray[np.bytes_]
_Layer = tuple[Names, npt.NDArray[np.uint32]]  # names in ascending order, and a count for each


def hashed_names(users: Any, n: int) -> Names:
    """Return names as an (n,) array of 16 bytes each, from n bytes or from an (n, w >= 16) uint8 matrix; InputError otherwise."""
    problem = (
        f"users must hold a hash of 16 or more bytes for each of the {n} reports, such as "
        "hmac.digest(key, name, 'sha256') with a key of the caller's"
    )
    if isinstance(users, np.ndarray):
        if (
            users.dtype != np.uint8
            or users.ndim != 2
            or users.shape[0] != n
            or users.shape[1] < NAME_BYTES
        ):
            raise InputError(f"{problem}; got an array of shape {users.shape} of {users.dtype}")
        return np.frombuffer(users[:, :NAME_BYTES].tobytes(), dtype=_NAME)
    if not isinstance(users, list | tuple) or len(users) != n:
        raise InputError(problem)
    if not all(isinstance(name, bytes) and len(name) >= NAME_BYTES for name in users):
        raise InputError(problem)
    return np.frombuffer(b"".join(name[:NAME_BYTES] for name in users), dtype=_NAME)


@dataclass(frozen=True, slots=True, eq=False)
class Users:
    """Hashed names with a count for each: 20 bytes per user. Immutable: `with_more` returns a new object."""

    most: int
    # Sorted, each more than twice as long as the next one: sorting all names again for each report would take too long.
    layers: tuple[_Layer, ...] = ()

    def admit(self, names: Names) -> tuple[BoolArray, dict[bytes, int]]:
        """Return which of these reports, in order, are within the limits of their users, and the argument for `with_more`."""
        taken = np.zeros(len(names), dtype=np.int64)
        for known, counts in self.layers:
            place = np.searchsorted(known, names)
            inside = place < len(known)
            at = place[inside]
            taken[inside] += np.where(known[at] == names[inside], counts[at], 0)
        admitted = np.zeros(len(names), dtype=np.bool_)
        new: dict[bytes, int] = {}
        for number, (name, before) in enumerate(zip(names.tolist(), taken.tolist(), strict=True)):
            more = new.get(name, 0)
            if before + more < self.most:
                admitted[number] = True
                new[name] = more + 1
        return admitted, new

    def with_more(self, new: dict[bytes, int]) -> Users:
        """Return these users with the reports that `admit` accepted."""
        if not new:
            return self
        layers = list(self.layers)
        last = _together(
            (np.array(list(new), dtype=_NAME), np.array(list(new.values()), dtype=_COUNT))
        )
        while layers and len(layers[-1][0]) <= 2 * len(last[0]):
            last = _together(layers.pop(), last)
        return Users(self.most, (*layers, last))

    def merged(self, other: Users) -> Users:
        """Return the union with the users of another server; InputError if a user exceeds the limit."""
        whole = _together(*self.layers, *other.layers)
        beyond = int(np.count_nonzero(whole[1] > self.most))
        if beyond:
            raise InputError(
                f"{beyond} users have more than {self.most} reports in the two together, and a sum cannot be taken apart: let each "
                "user send to one server only"
            )
        return Users(self.most, (whole,))

    def to_bytes(self) -> bytes:
        """Return names in ascending order, then their counts."""
        names, counts = _together(*self.layers)
        return names.tobytes() + counts.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes, most: int) -> Self:
        """Read what `to_bytes` wrote; InputError for anything else."""
        n, rest = divmod(len(data), NAME_BYTES + _COUNT.itemsize)
        names = np.frombuffer(data, dtype=_NAME, count=n)
        counts = np.frombuffer(data[n * NAME_BYTES :], dtype=_COUNT, count=n)
        if rest or np.any(names[1:] <= names[:-1]) or np.any(counts < 1) or np.any(counts > most):
            raise InputError("these bytes are not the users of an Aggregator")
        return cls(most, ((names, counts),))

    @property
    def reports(self) -> int:
        """Number of accepted reports."""
        return sum(int(counts.sum(dtype=np.int64)) for _, counts in self.layers)


def _together(*layers: _Layer) -> _Layer:
    """Merge layers into one sorted layer."""
    if not layers:
        return np.empty(0, dtype=_NAME), np.empty(0, dtype=_COUNT)
    whole, place = np.unique(np.concatenate([names for names, _ in layers]), return_inverse=True)
    total = np.zeros(len(whole), dtype=np.int64)
    np.add.at(total, place, np.concatenate([counts for _, counts in layers]))
    return whole, total.astype(_COUNT)


# Columns of different units in one ball: rows are standardized by public rows before they are reported, and the mean mapped back.


@dataclass(frozen=True, slots=True, eq=False)
class Standard:
    """A public affine map of columns: (value - center) / scale, each (dim,)."""

    center: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, public: FloatArray) -> Standard:
        """Build from mean and standard deviation of at least two public rows; a column that is constant there is not scaled."""
        if len(public) < 2:
            raise InputError(
                f"to standardize columns takes at least two public rows, got {len(public)}"
            )
        spread = np.std(public, axis=0, ddof=1)
        return cls(np.mean(public, axis=0), np.where(spread > 0.0, spread, 1.0))

    def chunk(self, chunk: Chunk) -> FloatArray:
        """Standardize rows (k, dim), each independently; a missing cell is set to the center, so that other columns are used."""
        with np.errstate(all="ignore"):
            scaled: FloatArray = (chunk.astype(np.float64) - self.center) / self.scale
        return np.nan_to_num(scaled, copy=False, nan=0.0, posinf=1e300, neginf=-1e300)

    def back(self, result: MeanResult) -> MeanResult:
        """Map a mean of standardized rows to the units of the data."""
        return dataclasses.replace(
            result,
            mean=result.mean * self.scale + self.center,
            noise_std=result.noise_std * self.scale,
            sampling_std=result.sampling_std * self.scale,
            clipping_std=None
            if result.clipping_std is None
            else frozen(result.clipping_std * self.scale),
            provenance={**result.provenance, "units": "public rows"},
        )


_MAGIC = b"FPPA"
_VERSION = 2
_START = 8 + 32  # magic, version, and the name of the randomizer
MOST_REPORTS = 1 << 30
_MOST_REFUSED = int(np.iinfo(np.int64).max)


def sealed(magic: bytes, version: int, *parts: bytes) -> bytes:
    """Return magic, version and parts as bytes, with a digest at the end."""
    body = b"".join([magic, version.to_bytes(4, "little"), *parts])
    return body + hashlib.sha256(body).digest()


def unsealed(data: Any, magic: bytes, version: int, what: str, these: str) -> bytes | None:
    """Return what `sealed` wrote without its digest; None if that is wrong, InputError unless bytes of this version."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise InputError(f"{what} read from bytes, got {type(data).__name__}")
    data = bytes(data)
    if len(data) >= 8 and data.startswith(magic) and int.from_bytes(data[4:8], "little") != version:
        raise InputError(f"{these} another version than {version}: update whichever side is older")
    body = data[:-32]
    return body if body.startswith(magic) and hashlib.sha256(body).digest() == data[-32:] else None


@dataclass(frozen=True, slots=True)
class ReportSum(Query):
    """A pass over reports: their count, the sum of their vectors, and that of the squares of each coordinate, as integers.

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
        return (
            np.zeros(1, dtype=np.int64),
            np.zeros(dim, dtype=np.int64),
            np.zeros(dim, dtype=np.int64),
        )

    def add(self, chunk: Any, accumulators: Any) -> None:
        """Add reports, the rows of an integer matrix."""
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
        """Nanoseconds per report: about 20 per column, 40 for seeds and codes."""
        return (20 if self.randomizer.form == "direct" else 40) * self.randomizer.dim


@dataclass(frozen=True, slots=True)
class _Sums:
    """The state of an Aggregator. Immutable and replaced as a whole: an interrupt leaves the old or the new state."""

    sums: IntArray
    squares: IntArray
    users: Users | None
    count: int = 0
    refused: int = 0
    private: bool = True
    columns: tuple[str, ...] | None = None

    def plus(self, other: _Sums, users: Users | None) -> _Sums:
        """Return the sum of both states, with `users` as the merged users."""
        count = self.count + other.count
        if count > MOST_REPORTS:
            raise InputError(f"an Aggregator holds at most 2^30 reports, got {count}")
        columns = self.columns or other.columns
        if (other.columns or columns) != columns:
            raise InputError(
                f"these reports are of the columns {', '.join(other.columns or ())}, and those before of "
                f"{', '.join(columns or ())}: draw all of them with the same columns= of privatize(), in the same order"
            )
        return _Sums(
            self.sums + other.sums,
            self.squares + other.squares,
            users,
            count,
            min(self.refused + other.refused, _MOST_REFUSED),
            self.private and other.private,
            columns,
        )


class Aggregator:
    """The sum of reports: exact integers, the same for any order of the reports and any way to merge.

    Parameters
    ----------
    randomizer : PrivUnit, PrivUnitG, Duchi or SubsetSelection
        Randomizer of the reports.
    reports_per_user : int, optional
        Maximum number of reports per user: `add` then requires the names of users, hashed by the caller, and leaves out further
        reports. None: users are not distinguished, and every report is added.

    Attributes
    ----------
    count : int
        Number of reports so far.
    refused : int
        Number of reports left out because their users had reached the limit.
    private : bool
        False if reports drawn from a seed have been added.
    columns : tuple of str or None
        Names of the columns, from the first reports of named columns; further reports must have the same, in this order, or none.

    Privacy
    -------
    Post-processing of reports: costs nothing, needs no trust. A report is charged when it is drawn, so a refusal protects the
    mean, not the user: a user who drew k fresh reports has spent k times the cost of one, accepted or not. `estimate_mean` states
    the cost of `reports_per_user` of them. The names reveal who has reported to anybody who can hash all names: use a key.

    Notes
    -----
    Memory: 16 bytes for each column, and with `reports_per_user` 20 bytes for each user. An interrupted call has added the whole
    batch or nothing, as `count` and `refused` show.

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

    __slots__ = ("_state", "randomizer", "reports_per_user")

    def __init__(self, randomizer: Randomizer, *, reports_per_user: int | None = None) -> None:
        if not isinstance(randomizer, Randomizer):
            raise InputError(
                f"randomizer must be a PrivUnit, PrivUnitG, Duchi or SubsetSelection, got {type(randomizer).__name__}"
            )
        users = None
        if reports_per_user is not None:
            users = Users(
                validation.integer(
                    "reports_per_user", reports_per_user, minimum=1, maximum=MOST_PER_USER
                )
            )
        self.randomizer, self.reports_per_user = randomizer, None if users is None else users.most
        _, sums, squares = ReportSum(randomizer).zeros()
        self._state = _Sums(sums, squares, users)

    @property
    def count(self) -> int:
        """Number of reports so far."""
        return self._state.count

    @property
    def refused(self) -> int:
        """Number of reports left out because their users had reached the limit."""
        return self._state.refused

    @property
    def private(self) -> bool:
        """False if reports drawn from a seed have been added."""
        return self._state.private

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns, None if no reports had names."""
        return self._state.columns

    def __repr__(self) -> str:
        return f"Aggregator(count={self.count}, randomizer={type(self.randomizer).__name__})"

    def add(
        self, reports: Reports | bytes, *, users: Any = None, threads: int | None = None
    ) -> int:
        """Add a batch of reports, or its bytes.

        Parameters
        ----------
        reports : Reports or bytes
            Reports of this randomizer.
        users : n bytes of length 16 or more, or (n, 16 or more) uint8
            With `reports_per_user` only: a hash of the name of each report's user, the same in every batch. The first 16 bytes
            are used. The hash must not depend on anything else about a user, above all not on the row.
        threads : int, optional
            Number of threads. Never changes the sum.

        Returns
        -------
        int
            Number of reports left out, because their users had sent `reports_per_user` before.

        Raises
        ------
        InputError
            The bytes are not a batch, it comes from another randomizer, or the names are invalid; nothing was added.
        """
        if not isinstance(reports, Reports):
            reports = Reports.from_bytes(reports, randomizer=self.randomizer)
        if reports.randomizer != self.randomizer:
            raise InputError(
                "these reports come from another randomizer: its dim, epsilon, norm_bound, form and words must be the same"
            )
        known = self._state.users
        payload = reports.payload
        query = ReportSum(self.randomizer)
        if (users is None) != (known is None):
            raise InputError(
                "an Aggregator with reports_per_user needs users= with every batch, a hash for each report"
                if users is None
                else "users= is for an Aggregator(..., reports_per_user=): this one does not tell users apart"
            )
        if known is not None:
            admitted, new = known.admit(hashed_names(users, len(reports)))
            payload = payload[admitted]
            known = known.with_more(new)
        total = (
            Executor(threads=threads).run(query, private_rows(payload))
            if len(payload)
            else query.zeros()
        )
        left_out = len(reports) - len(payload)
        more = _Sums(
            total[1],
            total[2],
            None,
            len(payload),
            left_out,
            reports.private or not len(payload),
            reports.columns,
        )
        self._state = self._state.plus(more, known)
        return left_out

    def copy(self) -> Self:
        """Independent copy with the same reports."""
        twin = type(self)(self.randomizer, reports_per_user=self.reports_per_user)
        twin._state = self._state
        return twin

    def merge(self, other: Aggregator) -> None:
        """Add the sums of another Aggregator of the same randomizer; InputError if a user would exceed `reports_per_user`."""
        if not isinstance(other, Aggregator) or other.randomizer != self.randomizer:
            raise InputError("only an Aggregator of the same randomizer can be merged")
        if other.reports_per_user != self.reports_per_user:
            raise InputError("only an Aggregator with the same reports_per_user can be merged")
        mine = self._state
        theirs = other._state
        known = (
            mine.users
            if mine.users is None or theirs.users is None
            else mine.users.merged(theirs.users)
        )
        self._state = mine.plus(theirs, known)

    def mean(self) -> FloatArray:
        """Mean of the vectors of the reports, (dim,): an unbiased estimate of the mean of the rows."""
        state = self._state
        if not state.count:
            raise InputError("no reports yet: add some first")
        return state.sums.astype(np.float64) * (2.0**-32 * self._unit() / state.count)

    def variance(self) -> FloatArray:
        """Sample variance of a report's vector in each coordinate, (dim,); InputError for fewer than two reports."""
        state = self._state
        if state.count < 2:
            raise InputError("a variance needs at least two reports")
        square = state.squares.astype(np.float64) * (2.0**-32 / state.count) * self._unit() ** 2
        return np.maximum(square - self.mean() ** 2, 0.0) * (state.count / (state.count - 1.0))

    def _unit(self) -> float:
        randomizer = self.randomizer
        longest = length_limit(randomizer) if randomizer.gaussian else 1.0
        return longest * randomizer.radius / randomizer.scale

    def to_bytes(self) -> bytes:
        """Sums, and the hashed names of users if there is a limit per user, as bytes."""
        state = self._state
        numbers = [state.count, int(state.private), state.refused, self.reports_per_user or 0]
        parts = [
            np.array(part, dtype="<i8").tobytes() for part in (numbers, state.sums, state.squares)
        ]
        users = b"" if state.users is None else state.users.to_bytes()
        return sealed(_MAGIC, _VERSION, _name(self.randomizer), *parts, users)

    @classmethod
    def from_bytes(cls, data: bytes, *, randomizer: Randomizer) -> Self:
        """Read what `to_bytes` wrote, for the same randomizer; InputError for anything else."""
        dim = cls(randomizer).randomizer.dim
        body = unsealed(data, _MAGIC, _VERSION, "an Aggregator is", "this Aggregator has")
        end = _START + 32 + 16 * dim
        if body is None or len(body) < end or body[8:_START] != _name(randomizer):
            raise InputError(
                "these bytes are not an Aggregator of this randomizer: cut short, changed, foreign or of another one"
            )
        numbers = np.frombuffer(body[_START:end], dtype="<i8").astype(np.int64)
        count, private, refused, cap = (int(number) for number in numbers[:4])
        sums = numbers[4 : 4 + dim]
        squares = numbers[4 + dim :]
        most = count << 32
        if (
            not 0 <= count <= MOST_REPORTS
            or private not in (0, 1)
            or refused < 0
            or not 0 <= cap <= MOST_PER_USER
            or not -most <= int(sums.min()) <= int(sums.max()) <= most
            or not 0 <= int(squares.min()) <= int(squares.max()) <= most
        ):
            raise InputError(
                "these bytes are not an Aggregator: its sums exceed what so many reports can give"
            )
        users = Users.from_bytes(body[end:], cap) if cap else None
        if (users.reports if users is not None else count) != count or (
            len(body) > end and not cap
        ):
            raise InputError(
                "these bytes are not an Aggregator: its users do not have as many reports as it holds"
            )
        aggregator = cls(randomizer, reports_per_user=cap or None)
        aggregator._state = _Sums(sums, squares, users, count, refused, bool(private))
        return aggregator


def _name(randomizer: Randomizer) -> bytes:
    """Return a digest of the public parameters."""
    return hashlib.sha256(repr(randomizer.header).encode()).digest()
