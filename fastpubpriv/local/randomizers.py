"""Local randomizers and their reports: what a user sends instead of a vector, as arrays and as bytes.

PrivUnit, PrivUnitG and Duchi's, for the sphere and for balls.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, InitVar, dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy import special

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels import report_codes
from fastpubpriv.kernels.report_codes import BatchHeader, code_integers, seed_integers
from fastpubpriv.keys import KeySource, key_source
from fastpubpriv.local import parameters as caps
from fastpubpriv.local.parameters import Cap
from fastpubpriv.local.public_facts import public_norm_bound
from fastpubpriv.privacy import ApproxDP, PureDP
from fastpubpriv.privacy.budgets import DELTA_MIN
from fastpubpriv.privacy.calibrated_budget import pure_slack
from fastpubpriv.release.reports import release_reports, report_keys
from fastpubpriv.results.base import read_only
from fastpubpriv.rowwise.row_maps import ReportLaw
from fastpubpriv.sources import Rows, private_rows
from fastpubpriv.sources.open import public_rows
from fastpubpriv.sources.person_table import of_participants
from fastpubpriv.threads.guard import naming
from fastpubpriv.threads.pool import max_threads

# ---- Bounds on what floating-point errors add to the epsilon of a report, which are subtracted from it beforehand ----
# Derived in `mechanisms/notes/local_reports.md`; u = 2^-53 is the rounding of one operation.

_UNIT = 2.0**-53
_NORMAL = 2.0**-41  # error of a computed normal
_CUT = 17.0  # the norm of d normals is below sqrt(d) + 17 except for a mass of 2^-200
_OTHER = 2.0**-36  # acceptance tests and coins, each a factor close to 1


DIM_MAX = 1 << 20
GRID = 8  # steps of 2^-8 of the root mean square of a coordinate, finer ones for thin caps
MOST_PROPOSALS = 4096.0
FORMS = ("direct", "selection")
# normals of a report besides one for each column: more are drawn with probability below 2^-200
_SPARE_DRAWS = 4096


@dataclass(frozen=True, slots=True)
class Randomizer:
    """Base class of the randomizers; use `PrivUnit`, `PrivUnitG`, `Duchi` or `SubsetSelection`.

    Attributes
    ----------
    dim : int
        Columns of a row.
    epsilon : float
        Privacy of one report, as requested: never exceeded, including floating-point errors.
    norm_bound : float or None
        Radius of the ball of the rows; longer rows are clipped to it. None: only the direction of a row is used, and the mean of
        the unit vectors is estimated. It is passed as a number or as "public", the norm of the longest row of `x_pub`, rounded
        up to four digits: device and server compute the same number from the same public rows.
    form : "direct" or "selection"
        Reports are vectors on a grid, or seeds of 32 bytes.
    cap : Cap
        The exact threshold and probability in use.
    log2_grid : int
        Direct reports are integers, in steps of 2^-log2_grid of the root mean square of a coordinate.
    law : ReportLaw
        Parameters for the kernels.
    entry_bytes : int
        Bytes of one entry of a direct report: 2 if larger entries are negligible, else 4; 0 for other forms.
    header : BatchHeader
        Header of the bytes of a batch, without the number of reports.
    """

    dim: int
    epsilon: float
    _: KW_ONLY
    norm_bound: float | str | None = None
    x_pub: InitVar[Any] = None
    form: str = "direct"
    cap: Cap = field(init=False)
    log2_grid: int = field(init=False)
    law: ReportLaw = field(init=False, repr=False, compare=False)
    entry_bytes: int = field(init=False, repr=False, compare=False, default=0)
    header: BatchHeader = field(init=False, repr=False, compare=False)

    gaussian: ClassVar[bool] = False

    def __post_init__(self, x_pub: Any) -> None:
        dim = validation.integer("dim", self.dim, minimum=1, maximum=DIM_MAX)
        epsilon = validation.positive("epsilon", self.epsilon)
        if not caps.EPSILON_MIN <= epsilon <= caps.EPSILON_MAX:
            raise InputError(f"epsilon must lie in [2^-20, {caps.EPSILON_MAX:g}], got {epsilon:g}")
        bound: Any = self.norm_bound
        if isinstance(bound, str) and bound != "public":
            raise InputError(f"norm_bound must be a number, 'public' or None, got {bound!r}")
        if isinstance(bound, str) != (x_pub is not None):
            raise InputError(
                "norm_bound='public' and x_pub=, public rows, belong together: pass both, or a number for norm_bound"
            )
        if x_pub is not None:
            bound = public_norm_bound(public_rows(x_pub, dim=dim))
        if (
            bound is not None
            and not 1e-150 <= (bound := validation.positive("norm_bound", bound)) <= 1e150
        ):
            raise InputError(
                f"norm_bound must lie in [1e-150, 1e150], got {bound:g}: rescale the columns"
            )
        self._settle(dim=dim, epsilon=epsilon, norm_bound=bound)
        self._design(epsilon)
        header = BatchHeader(
            dim=self.dim,
            count=0,
            gaussian=int(self.gaussian),
            form=report_codes.FORMS[self.form],
            ball=int(self.norm_bound is not None),
            log2_grid=self.log2_grid,
            entry_bytes=self.entry_bytes,
            threshold=self.cap.threshold,
            logit=self.cap.logit,
            radius=self.radius,
            epsilon=self.epsilon,
        )
        self._settle(header=header)

    def _settle(self, **fields: Any) -> None:
        """Set fields of this frozen object during its construction."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _design(self, epsilon: float) -> None:
        """Set the parameters from arguments that have been checked."""
        validation.choice("form", self.form, FORMS)
        draft = self._cap(epsilon)
        opening = 1.0 if self.gaussian else 1.0 - draft.threshold**2
        self._settle(log2_grid=GRID + max(0, math.floor(-0.5 * math.log2(opening))))
        floating = (
            self._seed_error(draft) if self.form == "selection" else self._direct_error(draft)
        )
        lost = caps.SAFETY * max(1.0, epsilon) + floating
        if not lost <= 0.5 * epsilon:
            raise InputError(
                f"epsilon = {epsilon:g} is too small for {self.dim} columns: floating point alone may cost {lost:.2g}; "
                f"pass at least {2.0 * lost:.2g}"
            )
        design = min(epsilon, draft.epsilon) - lost
        gamma = draft.threshold
        logit = caps.logit_for(design, draft.log_mass)
        self._settle(
            cap=caps.tail_of(gamma, logit) if self.gaussian else caps.cap_of(self.dim, gamma, logit)
        )
        if self.form == "selection" and not self.proposals <= MOST_PROPOSALS:
            raise InputError(
                f"form='selection' at epsilon = {epsilon:g} would try {self.proposals:.2g} seeds for each report, at most "
                f"{MOST_PROPOSALS:g} are allowed: pass form='direct', or a smaller epsilon"
            )
        self._settle(law=self._law())
        if self.form == "direct":
            root = math.sqrt(self.dim)
            beyond = self.cap.threshold + 12.0
            along = min(1.0, self.cap.threshold + 12.0 / root) if not self.gaussian else 0.0
            largest = 9.0 + (root + 9.0) * along + (beyond if self.gaussian else 0.0)
            self._settle(entry_bytes=2 if math.ldexp(largest, self.log2_grid) <= 32767.0 else 4)

    def _cap(self, epsilon: float) -> Cap:
        """Return the cap for a privacy of epsilon in real arithmetic."""
        raise InputError("a Randomizer is made as a PrivUnit, a PrivUnitG or a Duchi")

    def _direct_error(self, cap: Cap) -> float:
        """Return a bound on what rounding adds to epsilon when reports are vectors on a grid."""
        dim = self.dim
        if dim == 1 and not self.gaussian:
            return _OTHER
        length = math.sqrt(dim) + _CUT + (cap.threshold if self.gaussian else 0.0)
        # |computed - exact| in l2: `units` of u times the length of the report, and `times` the error of all its normals.
        if self.gaussian:
            units = 200.0
            times = 2.0
            angle = 2.0 * _NORMAL / length
        elif dim < 16:
            units = 4500.0
            times = 9.0
            angle = 2.0**-35
        else:
            units = 700.0
            times = 3.0
            angle = 2.0**-35 if dim < 64 else 18.0 * _NORMAL / math.sqrt(dim - 3.0)
        moved = (units * _UNIT + angle) * length + times * _NORMAL * math.sqrt(dim)
        return (
            4.5 * math.ldexp(math.sqrt(dim) * moved, self.log2_grid) + 64.0 * dim * _UNIT + _OTHER
        )

    def _seed_error(self, cap: Cap) -> float:
        """Return a bound on what the computed test of a seed adds to epsilon: the accepted mass depends slightly on the row."""
        dim = self.dim
        ratio = math.exp(-cap.log_ratio)
        mass = math.exp(cap.log_mass)
        accepted = mass + (1.0 - mass) * ratio
        error = (2.0 * dim + 64.0) * _UNIT + 2.0**-39
        if self.gaussian:
            error *= 2.0 * math.sqrt(dim) + cap.threshold + _CUT
            density = 0.4
        else:
            density = max(
                math.sqrt(dim / (2.0 * math.pi)), caps.coordinate_density(dim, cap.threshold)
            )
        return 2.0 * (1.0 - ratio) * error * density / accepted + _OTHER

    def _law(self) -> ReportLaw:
        miss = float(special.expit(-self.cap.logit))
        tail = 0.5
        if self.form == "selection":
            # Rounded up, so that fewer seeds are rejected, never more.
            tail = min(math.exp(-self.cap.log_ratio) * (1.0 + 1e-12), math.nextafter(1.0, 0.0))
        return ReportLaw(
            dim=self.dim,
            gaussian=self.gaussian,
            log2_grid=self.log2_grid,
            ball=self.norm_bound is not None,
            threshold=self.cap.threshold,
            miss=max(miss, 2.0**-1000),
            radius=self.radius,
            tail=tail,
        )

    # ---- Facts -------------------------------------------------------------------------------------------------------

    @property
    def radius(self) -> float:
        """Norm of the longest row: `norm_bound`, or 1."""
        return 1.0 if self.norm_bound is None else float(self.norm_bound)

    @property
    def cost(self) -> PureDP | ApproxDP:
        """Cost of one report: PureDP(epsilon), or ApproxDP if the cut tails of the normals add a delta of 2^-100 or more."""
        return _cost(self.epsilon, self.dim + _SPARE_DRAWS if self.form == "direct" else None)

    @property
    def scale(self) -> float:
        """m: the mean of a report of a unit vector, before it is divided by m, along that vector."""
        return self.cap.scale

    @property
    def second_moment(self) -> float:
        """E |Z|^2 of the vector Z that a report encodes (rounding to the grid adds less than 1e-5 of it)."""
        if not self.gaussian:
            return (self.radius / self.scale) ** 2
        return self.radius**2 * (self.dim + self.cap.threshold * self.scale) / self.scale**2

    def mean_squared_error(self, norm: float | None = None) -> float:
        """E |Z - x|^2 of one report of a row of this norm (None: `radius`), in closed form."""
        length = self.radius if norm is None else validation.nonnegative("norm", norm)
        return self.second_moment - min(length, self.radius) ** 2

    @property
    def proposals(self) -> float:
        """Mean number of seeds that form="selection" tries for a report."""
        mass = math.exp(self.cap.log_mass)  # 1 / (q + (1 - q) e^-epsilon)
        return 1.0 / (mass + (1.0 - mass) * math.exp(-self.cap.log_ratio))

    @property
    def report_bytes(self) -> int:
        """Bytes of one report, without the header of its batch."""
        return report_codes.WIDTHS[report_codes.FORMS[self.form]] or self.dim * self.entry_bytes

    @property
    def normals(self) -> float:
        """Mean number of normals drawn for a report."""
        return self.dim * (self.proposals if self.form == "selection" else 1.0)

    # ---- Reports -----------------------------------------------------------------------------------------------------

    def privatize(
        self,
        rows: Any,
        *,
        columns: Any = None,
        random_state: int | None = None,
        threads: int | None = None,
    ) -> Reports:
        """Draw one report for each row, which its user may send.

        Parameters
        ----------
        rows : (n, dim) array-like, path, frame, table or Rows, or one row (dim,)
            One row for each user. With `norm_bound`, a row with a missing or infinite entry counts as a row of zeros, and pulls a
            mean there; fill in cells before. Without it, such a row, and a row of zeros, counts as the first unit vector.
        columns : str or list of str, optional
            Columns of a frame, table or file, in the order that the server uses, since bytes have no names. Default: all.
        random_state : None or int
            None: keys from the operating system. int: repeatable, warned about, not private.
        threads : int, optional
            Number of threads. Never changes a report.

        Returns
        -------
        Reports
            As many as rows, in their order.

        Raises
        ------
        InputError
            Rows of a wrong form. Never for their content.

        Privacy
        -------
        Local: each report, by itself, is `cost`-private for any two rows of its user, without trust in whoever receives it.
        A second report of a user, of the same row or of another, costs as much again.

        Notes
        -----
        The distribution of a report and its proof are in `mechanisms/notes/local_reports.md`. The time to draw a report depends
        slightly on its random bits, and their distribution on the row: do not let others measure the time of a client.

        Examples
        --------
        >>> from fastpubpriv.local import PrivUnit
        >>> reports = PrivUnit(3, 2.0).privatize([[1.0, 0.0, 0.0], [0.0, 0.6, 0.8]])
        >>> len(reports), reports.vectors().shape
        (2, (2, 3))
        """
        if threads is not None:
            threads = validation.integer("threads", threads, minimum=1, maximum=max_threads())
        _ = self.cost  # raises for an epsilon without one
        # one report of one client, by far the most frequent call: there is nothing else to check
        if (
            type(rows) is np.ndarray
            and rows.dtype == np.float64
            and rows.shape in ((self.dim,), (1, self.dim))
            and rows.flags.c_contiguous
            and rows.flags.aligned
            and columns is None
        ):
            return self._reported(rows.reshape(1, self.dim), key_source(random_state))
        if getattr(rows, "ndim", None) == 1 and hasattr(rows, "reshape"):
            rows = rows.reshape(1, -1)
        elif (
            isinstance(rows, list | tuple)
            and rows
            and all(isinstance(value, int | float) for value in rows)
        ):
            rows = [list(rows)]  # one row
        with naming("rows"):
            opened = of_participants(private_rows(rows, columns=columns))
        if opened.dim != self.dim:
            raise InputError(f"rows have {opened.dim} columns, the randomizer is for {self.dim}")
        reports = self._reported(opened, report_keys(random_state), threads=threads)
        reports.columns = opened.columns
        return reports

    def _reported(
        self, rows: Rows | FloatArray, keys: KeySource, *, threads: int | None = 1
    ) -> Reports:
        """Draw reports of rows that have been checked, with the keys of a run."""
        made = release_reports(
            rows,
            self.law,
            seeds=self.form == "selection",
            entry_bytes=self.entry_bytes,
            keys=keys,
            threads=threads,
        )
        return Reports.fitted(self, made, private=keys.private)


@lru_cache(maxsize=1024)
def _cost(epsilon: float, draws: int | None) -> PureDP | ApproxDP:
    """Return the cost of a report of `draws` normals, or (None) of a seed; cached, as exact fractions take longer than a report."""
    if draws is None:
        return PureDP(epsilon)
    delta = pure_slack(epsilon, draws)[1]
    if delta < DELTA_MIN:
        return PureDP(epsilon)
    if delta >= Fraction(1, 10**3):
        raise InputError(
            f"at epsilon = {epsilon:g} the cut tails of the normals leave no privacy that could be stated; "
            "pass an epsilon of at most 100"
        )
    return ApproxDP(epsilon=epsilon, delta=delta)


# ---- Reports: what users send, as arrays and as bytes


class Reports:
    """A batch of reports of one randomizer; safe to send and to store. Created by `privatize` or `from_bytes`.

    Attributes
    ----------
    randomizer : Randomizer
        The randomizer that drew the reports.
    payload : (n, dim) int32; (n, 32) uint8 if the form is "selection", (n, 10) if it is "codes"
        The reports, read-only.
    private : bool
        False if the random bits came from a seed. Bytes do not record this: it is True for reports read from bytes.
    columns : tuple of str or None
        Names of the columns of the rows, if they had some. Bytes do not record this either.

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

    __slots__ = ("columns", "payload", "private", "randomizer")

    def __init__(
        self,
        randomizer: Randomizer,
        payload: npt.NDArray[Any],
        *,
        private: bool = True,
    ) -> None:
        width, dtype = payload_form(randomizer)
        given: Any = payload
        if not isinstance(given, np.ndarray) or given.dtype != dtype or given.shape[1:] != (width,):
            raise InputError(
                f"reports of this randomizer are an array of shape (n, {width}) of {np.dtype(dtype)}"
            )
        self.randomizer = randomizer
        self.payload = read_only(payload)
        self.private = private
        self.columns: tuple[str, ...] | None = None

    @classmethod
    def fitted(cls, randomizer: Randomizer, payload: npt.NDArray[Any], *, private: bool) -> Self:
        """Wrap the array that a release returned."""
        payload.flags.writeable = False
        made = cls.__new__(cls)  # the kernel's array needs neither checks nor a copy
        made.randomizer = randomizer
        made.payload = payload
        made.private = private
        made.columns = None
        return made

    def __len__(self) -> int:
        return int(self.payload.shape[0])

    def __getitem__(self, index: slice) -> Reports:
        """Return some of the reports; an integer gives a batch of one."""
        if not isinstance(index, slice):
            number = range(len(self))[index]
            index = slice(number, number + 1)
        some = Reports(self.randomizer, self.payload[index], private=self.private)
        some.columns = self.columns
        return some

    def __repr__(self) -> str:
        flag = "" if self.private else ", private=False"
        return f"Reports(n={len(self)}, randomizer={type(self.randomizer).__name__}, cost={self.randomizer.cost!r}{flag})"

    def vectors(self) -> FloatArray:
        """Decode the reports: (n, dim) float64, each an unbiased estimate of its row (or of its unit vector)."""
        randomizer = self.randomizer
        result: FloatArray = directions(randomizer, integers(randomizer, self.payload))
        result *= randomizer.radius / randomizer.scale
        return result

    def to_bytes(self) -> bytes:
        """Batch as portable bytes: a public header, and `report_bytes` for each report."""
        return report_codes.batch_write(self.randomizer.header, self.payload)

    @classmethod
    def from_bytes(cls, data: bytes, *, randomizer: Randomizer) -> Self:
        """Read a batch that `to_bytes` wrote.

        Parameters
        ----------
        data : bytes
            Untrusted bytes: everything is checked.
        randomizer : PrivUnit, PrivUnitG, Duchi or SubsetSelection
            Required randomizer of the reports, with the same arguments.

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
        header = report_codes.batch_header(data)
        if report_codes.batch_size(header) != len(data):
            raise InputError(
                "these bytes hold more than one batch of reports: pass each one by itself"
            )
        if replace(header, count=0) != randomizer.header:
            raise InputError(
                "these reports come from another randomizer: its dim, epsilon, norm_bound, form and words must be the same"
            )
        return cls(randomizer, report_codes.batch_payload(data))


def payload_form(randomizer: Randomizer) -> tuple[int, Any]:
    """Return the number of columns and the dtype of the arrays of its reports."""
    width = report_codes.WIDTHS[report_codes.FORMS[randomizer.form]]
    return (width, np.uint8) if width else (randomizer.dim, np.int32)


def integers(randomizer: Randomizer, payload: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """Return the integer vectors (n, dim) of reports."""
    if randomizer.form == "direct":
        return payload
    out = np.empty((len(payload), randomizer.dim), dtype=np.int32)
    decode = code_integers if randomizer.form == "codes" else seed_integers
    decode(np.ascontiguousarray(payload), randomizer.law, out)
    return out


def length_limit(randomizer: Randomizer) -> float:
    """Return the norm to which reports of PrivUnitG are clipped; an honest one exceeds it with probability below 1e-30."""
    return math.sqrt(randomizer.dim) + 13.0 + randomizer.cap.threshold


def directions(randomizer: Randomizer, whole: npt.NDArray[np.int32]) -> FloatArray:
    """Return unit vectors (n, dim) of integer reports, zeros for zeros; PrivUnitG: the vectors, clipped to `length_limit`."""
    wide = whole.astype(np.int64)
    # In parts whose sums cannot overflow: the bits do not depend on the other reports.
    high = wide >> 16
    low = wide & 65535
    parts = [
        np.sum(a * b, axis=1, dtype=np.int64).astype(np.float64)
        for a, b in ((high, high), (high, low), (low, low))
    ]
    norms = np.sqrt(parts[0] * 2.0**32 + parts[1] * 2.0**17 + parts[2])
    if randomizer.gaussian:
        grid = math.ldexp(1.0, -randomizer.log2_grid)
        factor = grid * np.minimum(1.0, length_limit(randomizer) / np.maximum(norms * grid, 1.0))
    else:
        factor = np.where(norms > 0.0, 1.0 / np.maximum(norms, 1.0), 0.0)
    return wide * factor[:, None]
