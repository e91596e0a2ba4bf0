"""Reports of local randomizers: what users send, as arrays and as bytes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels import report_codes
from fastpubpriv.kernels.report_codes import code_integers, seed_integers
from fastpubpriv.local.parameters import Cap
from fastpubpriv.results.base import read_only
from fastpubpriv.row_maps import ReportLaw


class Randomizer(Protocol):
    """What reports need to know of the randomizer that drew them; `randomizers.py` says what each of it means."""

    @property
    def dim(self) -> int: ...  # noqa: D102
    @property
    def epsilon(self) -> float: ...  # noqa: D102
    @property
    def norm_bound(self) -> float | str | None: ...  # noqa: D102
    @property
    def form(self) -> str: ...  # noqa: D102
    @property
    def gaussian(self) -> bool: ...  # noqa: D102
    @property
    def cap(self) -> Cap: ...  # noqa: D102
    @property
    def log2_grid(self) -> int: ...  # noqa: D102
    @property
    def entry_bytes(self) -> int: ...  # noqa: D102
    @property
    def radius(self) -> float: ...  # noqa: D102
    @property
    def scale(self) -> float: ...  # noqa: D102
    @property
    def cost(self) -> Any: ...  # noqa: D102
    @property
    def law(self) -> ReportLaw: ...  # noqa: D102
    @property
    def header(self) -> report_codes.BatchHeader: ...  # noqa: D102


class Reports:
    """A batch of reports of one randomizer; safe to send and to store. Made by `privatize` or `from_bytes`.

    Attributes
    ----------
    randomizer : Randomizer
        What drew them.
    payload : (n, dim) int32; (n, 32) uint8 where the form is "selection", (n, 10) where it is "codes"
        The reports, read-only.
    private : bool
        False if the coins came from a seed. Bytes do not tell: reports read from bytes say True.

    Guarantees
    ----------
    Whatever the bytes of a report are, its vector is no longer than `radius` / `scale` (PrivUnitG: than a public bound), so one
    hostile report moves a mean by no more than an honest one could.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv.local import PrivUnit, Reports
    >>> randomizer = PrivUnit(3, epsilon=2.0)
    >>> message = randomizer.privatize(np.zeros((5, 3))).to_bytes()  # what leaves the device
    >>> reports = Reports.from_bytes(message, randomizer=randomizer)
    >>> len(reports), reports.payload.shape
    (5, (5, 3))
    """

    __slots__ = ("payload", "private", "randomizer")

    def __init__(self, randomizer: Randomizer, payload: npt.NDArray[Any], *, private: bool = True) -> None:
        width, dtype = payload_form(randomizer)
        if payload.ndim != 2 or payload.shape[1] != width or payload.dtype != dtype:
            raise InputError(f"reports of this randomizer are an array of shape (n, {width}) of {np.dtype(dtype)}")
        self.randomizer = randomizer
        self.payload = read_only(payload)
        self.private = private

    @classmethod
    def fitted(cls, randomizer: Randomizer, payload: npt.NDArray[Any], *, private: bool) -> Self:
        """Reports as `release_reports` gives them."""
        payload.flags.writeable = False
        made = cls.__new__(cls)  # the kernel's own array: not looked at again, and not copied
        made.randomizer, made.payload, made.private = randomizer, payload, private
        return made

    def __len__(self) -> int:
        return int(self.payload.shape[0])

    def __getitem__(self, index: slice) -> Reports:
        """Some of the reports; an integer gives a batch of one."""
        if not isinstance(index, slice):
            number = range(len(self))[index]
            index = slice(number, number + 1)
        return Reports(self.randomizer, self.payload[index], private=self.private)

    def __repr__(self) -> str:
        flag = "" if self.private else ", private=False"
        return (
            f"Reports(n={len(self)}, randomizer={type(self.randomizer).__name__}, cost={self.randomizer.cost!r}{flag})"
        )

    def vectors(self) -> FloatArray:
        """What the reports stand for: (n, dim) float64, each an unbiased estimate of its row (or of its unit vector)."""
        randomizer = self.randomizer
        result: FloatArray = directions(randomizer, integers(randomizer, self.payload))
        result *= randomizer.radius / randomizer.scale
        return result

    def to_bytes(self) -> bytes:
        """The batch as bytes, for any machine: a public header, and `report_bytes` for each report."""
        return report_codes.batch_write(self.randomizer.header, self.payload)

    @classmethod
    def from_bytes(cls, data: bytes, *, randomizer: Randomizer) -> Self:
        """Read a batch that `to_bytes` wrote.

        Parameters
        ----------
        data : bytes
            From anybody: nothing in it is believed.
        randomizer : PrivUnit, PrivUnitG, Duchi or SubsetSelection
            That the reports must come from, with the same arguments.

        Returns
        -------
        Reports

        Raises
        ------
        InputError
            The bytes are cut short, changed, foreign, of another version, or from another randomizer.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise InputError(f"reports are read from bytes, got {type(data).__name__}")
        data = bytes(data)
        found = report_codes.batch_header(data)
        if report_codes.batch_size(found) != len(data):
            raise InputError("these bytes hold more than one batch of reports: pass each one by itself")
        if replace(found, count=0) != randomizer.header:
            raise InputError(
                "these reports come from another randomizer: its dim, epsilon, norm_bound, form and words must be the same"
            )
        return cls(randomizer, report_codes.batch_payload(data))


def payload_form(randomizer: Randomizer) -> tuple[int, Any]:
    """Columns and type of the arrays that hold its reports."""
    width = report_codes.WIDTHS[report_codes.FORMS[randomizer.form]]
    return (width, np.uint8) if width else (randomizer.dim, np.int32)


def header_of(randomizer: Randomizer) -> report_codes.BatchHeader:
    """What the bytes of its batches begin with, for a batch without reports."""
    return report_codes.BatchHeader(
        dim=randomizer.dim,
        count=0,
        gaussian=int(randomizer.gaussian),
        form=report_codes.FORMS[randomizer.form],
        ball=int(randomizer.norm_bound is not None),
        log2_grid=randomizer.log2_grid,
        entry_bytes=randomizer.entry_bytes,
        threshold=randomizer.cap.threshold,
        logit=randomizer.cap.logit,
        radius=randomizer.radius,
        epsilon=randomizer.epsilon,
    )


def integers(randomizer: Randomizer, payload: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """The integer vectors (n, dim) of reports."""
    if randomizer.form == "direct":
        return payload
    out = np.empty((len(payload), randomizer.dim), dtype=np.int32)
    if randomizer.form == "codes":
        code_integers(np.ascontiguousarray(payload), randomizer.law, out)
    else:
        seed_integers(np.ascontiguousarray(payload), randomizer.law, out)
    return out


def length_limit(randomizer: Randomizer) -> float:
    """PrivUnitG: reports are shortened to this length, which an honest one passes with probability below 1e-30."""
    return math.sqrt(randomizer.dim) + 13.0 + randomizer.cap.threshold


def directions(randomizer: Randomizer, whole: npt.NDArray[np.int32]) -> FloatArray:
    """Unit vectors (n, dim) of integer reports, zeros for zeros; PrivUnitG: the vectors, shortened to the limit."""
    wide = whole.astype(np.int64)
    # In parts that no sum can overflow: the same bits in any company.
    high, low = wide >> 16, wide & 65535
    parts = [
        np.sum(a * b, axis=1, dtype=np.int64).astype(np.float64) for a, b in ((high, high), (high, low), (low, low))
    ]
    norms = np.sqrt(parts[0] * 2.0**32 + parts[1] * 2.0**17 + parts[2])
    if randomizer.gaussian:
        grid = math.ldexp(1.0, -randomizer.log2_grid)
        factor = grid * np.minimum(1.0, length_limit(randomizer) / np.maximum(norms * grid, 1.0))
    else:
        factor = np.where(norms > 0.0, 1.0 / np.maximum(norms, 1.0), 0.0)
    return wide * factor[:, None]
