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
_Layer = tuple[Names, npt.NDArray[np.uint32]]  # names in ascending order, and a count for each


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
    """Hashed names with a count for each: 20 bytes for a user. Never changed: `with_more` makes another.

    Sorted layers, each more than twice as long as the next one: to sort all names again for each report would take too long.
    """

    __slots__ = ("_layers", "most")

    def __init__(self, most: int, layers: tuple[_Layer, ...] = ()) -> None:
        self.most = most
        self._layers = layers

    def admit(self, names: Names) -> tuple[BoolArray, dict[bytes, int]]:
        """Which of these reports, in their order, each user may still send; and what `with_more` needs if they are taken."""
        taken = self._taken(names)
        kept = np.zeros(len(names), dtype=np.bool_)
        new: dict[bytes, int] = {}
        for place, (name, before) in enumerate(zip(names.tolist(), taken.tolist(), strict=True)):
            more = new.get(name, 0)
            if before + more < self.most:
                kept[place] = True
                new[name] = more + 1
        return kept, new

    def with_more(self, new: dict[bytes, int]) -> Users:
        """These users, with reports that `admit` found to be allowed."""
        if not new:
            return self
        layers = list(self._layers)
        last = _together((np.array(list(new), dtype=_NAME), np.array(list(new.values()), dtype=_COUNT)))
        while layers and len(layers[-1][0]) <= 2 * len(last[0]):
            last = _together(layers.pop(), last)
        return Users(self.most, (*layers, last))

    def merged(self, other: Users) -> Users:
        """These and what another server counted; InputError if a user would have too many reports."""
        whole = _together(*self._layers, *other._layers)
        beyond = int(np.count_nonzero(whole[1] > self.most))
        if beyond:
            raise InputError(
                f"{beyond} users have more than {self.most} reports in the two together, and a sum cannot be taken apart: let each "
                "user send to one server only"
            )
        return Users(self.most, (whole,))

    def to_bytes(self) -> bytes:
        """Names in ascending order, then their counts."""
        names, counts = _together(*self._layers)
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
        """How many reports were taken."""
        return sum(int(counts.sum(dtype=np.int64)) for _, counts in self._layers)

    def _taken(self, names: Names) -> IntArray:
        """Reports of each of these names."""
        found = np.zeros(len(names), dtype=np.int64)
        for known, counts in self._layers:
            place = np.searchsorted(known, names)
            inside = place < len(known)
            at = place[inside]
            found[inside] += np.where(known[at] == names[inside], counts[at], 0)
        return found


def _together(*layers: _Layer) -> _Layer:
    """One sorted layer of several."""
    if not layers:
        return np.empty(0, dtype=_NAME), np.empty(0, dtype=_COUNT)
    whole, place = np.unique(np.concatenate([names for names, _ in layers]), return_inverse=True)
    total = np.zeros(len(whole), dtype=np.int64)
    np.add.at(total, place, np.concatenate([counts for _, counts in layers]))
    return whole, total.astype(_COUNT)
