"""Who has reported: hashed names of users, and how many reports of each were taken."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import BoolArray, IntArray
from fastpubpriv.errors import InputError

NAME_BYTES = 16
MOST_PER_USER = 1 << 20
_NAME, _COUNT = np.dtype(f"S{NAME_BYTES}"), np.dtype("<u4")
Names = npt.NDArray[np.bytes_]


def hashed_names(users: Any, n: int) -> Names:
    """Names as (n,) arrays of 16 bytes, from n texts of bytes or from a matrix (n, w >= 16) of uint8; InputError for others."""
    problem = (
        f"users must hold a hash of 16 or more bytes for each of the {n} reports, such as "
        "hmac.digest(key, name, 'sha256') with a key of the caller's"
    )
    if isinstance(users, np.ndarray):
        if users.dtype != np.uint8 or users.ndim != 2 or users.shape[0] != n or users.shape[1] < NAME_BYTES:
            raise InputError(f"{problem}; got an array of shape {users.shape} of {users.dtype}")
        cut = np.ascontiguousarray(users[:, :NAME_BYTES])
    else:
        if not isinstance(users, list | tuple) or len(users) != n:
            raise InputError(problem)
        if not all(isinstance(name, bytes) and len(name) >= NAME_BYTES for name in users):
            raise InputError(problem)
        cut = np.frombuffer(b"".join(name[:NAME_BYTES] for name in users), dtype=np.uint8)
    return np.frombuffer(cut.tobytes(), dtype=_NAME)


class Users:
    """Hashed names with a count for each: 20 bytes for a user, and 200 more for one user in sixteen.

    Sorted arrays hold most of them, a dictionary the latest: to sort again for each report would take too long.
    """

    __slots__ = ("_counts", "_late", "_names", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self._names: Names = np.empty(0, dtype=_NAME)
        self._counts: npt.NDArray[np.uint32] = np.empty(0, dtype=_COUNT)
        self._late: dict[bytes, int] = {}

    def admit(self, names: Names) -> tuple[BoolArray, dict[bytes, int]]:
        """Which of these reports, in their order, each user may still send; and what `take` must be told if they are taken."""
        taken, late = self._taken(names), self._late
        kept = np.zeros(len(names), dtype=np.bool_)
        new: dict[bytes, int] = {}
        for place, (name, before) in enumerate(zip(names.tolist(), taken.tolist(), strict=True)):
            more = new.get(name, 0)
            if before + late.get(name, 0) + more < self.most:
                kept[place] = True
                new[name] = more + 1
        return kept, new

    def take(self, new: dict[bytes, int]) -> None:
        """Count reports that `admit` found to be allowed."""
        for name, count in new.items():
            self._late[name] = self._late.get(name, 0) + count
        if len(self._late) > max(1 << 16, len(self._names) >> 4):
            self._sort()

    def merge(self, other: Users) -> None:
        """Add what another server counted; InputError, and nothing changed, if a user would have too many reports."""
        names, counts = _together(*self._whole(), *other._whole())
        beyond = int(np.count_nonzero(counts > self.most))
        if beyond:
            raise InputError(
                f"{beyond} users have more than {self.most} reports in the two together, and a sum cannot be taken apart: let each "
                "user send to one server only"
            )
        self._names, self._counts, self._late = names, counts, {}

    def to_bytes(self) -> bytes:
        """Names in ascending order, then their counts."""
        names, counts = self._whole()
        return names.tobytes() + counts.astype(_COUNT).tobytes()

    @classmethod
    def from_bytes(cls, data: bytes, most: int) -> Self:
        """Read what `to_bytes` wrote; InputError for anything else."""
        n = len(data) // (NAME_BYTES + _COUNT.itemsize)
        found = cls(most)
        names = np.frombuffer(data[: n * NAME_BYTES], dtype=_NAME)
        counts = np.frombuffer(data[n * NAME_BYTES :], dtype=_COUNT)
        if len(counts) != n or np.any(names[1:] <= names[:-1]) or np.any(counts < 1) or np.any(counts > most):
            raise InputError("these bytes are not the users of an Aggregator")
        found._names, found._counts = names, counts
        return found

    @property
    def reports(self) -> int:
        """How many reports were taken."""
        return int(self._counts.sum(dtype=np.int64)) + sum(self._late.values())

    def _taken(self, names: Names) -> IntArray:
        """Reports of each of these names in the sorted arrays."""
        place = np.searchsorted(self._names, names)
        inside = place < len(self._names)
        found = np.zeros(len(names), dtype=np.int64)
        at = place[inside]
        found[inside] = np.where(self._names[at] == names[inside], self._counts[at], 0)
        return found

    def _whole(self) -> tuple[Names, npt.NDArray[np.uint32]]:
        self._sort()
        return self._names, self._counts

    def _sort(self) -> None:
        if self._late:
            late = np.array(list(self._late), dtype=_NAME)
            counts = np.array(list(self._late.values()), dtype=_COUNT)
            self._names, self._counts = _together(self._names, self._counts, late, counts)
            self._late = {}


def _together(names: Names, counts: Any, others: Names, more: Any) -> tuple[Names, npt.NDArray[np.uint32]]:
    whole, place = np.unique(np.concatenate([names, others]), return_inverse=True)
    total = np.zeros(len(whole), dtype=np.int64)
    np.add.at(total, place, np.concatenate([counts, more]))
    return whole, total.astype(_COUNT)
