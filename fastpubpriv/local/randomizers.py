"""Local randomizers: what a user sends instead of a vector. PrivUnit, PrivUnitG and Duchi's, for the sphere and for balls."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, InitVar, dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from scipy import special

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels.report_codes import FORMS as REPORT_FORMS
from fastpubpriv.kernels.report_codes import WIDTHS, BatchHeader
from fastpubpriv.keys import KeySource, key_source
from fastpubpriv.local import parameters as caps
from fastpubpriv.local.parameters import Cap, log_rest
from fastpubpriv.local.public_facts import public_norm_bound
from fastpubpriv.local.reports import Reports, header_of
from fastpubpriv.privacy import ApproxDP, PureDP
from fastpubpriv.privacy.budgets import DELTA_MIN
from fastpubpriv.privacy.calibrated_budget import pure_slack
from fastpubpriv.release.reports import release_reports, report_keys
from fastpubpriv.row_maps import ReportLaw
from fastpubpriv.sources import Rows, private_rows, public_rows
from fastpubpriv.threads.guard import name_argument
from fastpubpriv.threads.pool import max_threads

# ---- What floating point may add to the epsilon of a report: bounds that are taken off before the report is drawn ----
# Derived in `mechanisms/notes/local_reports.md`; u = 2^-53 is the rounding of one operation.

_UNIT = 2.0**-53
_NORMAL = 2.0**-41  # a normal as it is read, less the exact one
_CUT = 17.0  # the length of d normals is below sqrt(d) + 17 but for a mass of 2^-200
_OTHER = 2.0**-36  # acceptance tests and coins, each a factor close to 1


def direct_error(dim: int, log2_grid: int, cap: Cap, *, gaussian: bool) -> float:
    """Bound on what rounding adds to epsilon when reports are vectors on a grid."""
    if dim == 1 and not gaussian:
        return _OTHER
    length = math.sqrt(dim) + _CUT + (cap.threshold if gaussian else 0.0)
    # |computed - exact| in l2: `units` of u times the length of the report, and `times` the error of all its normals.
    if gaussian:
        units, times, angle = 200.0, 2.0, 2.0 * _NORMAL / length
    elif dim < 16:
        units, times, angle = 4500.0, 9.0, 2.0**-35
    else:
        units, times = 700.0, 3.0
        angle = 2.0**-35 if dim < 64 else 18.0 * _NORMAL / math.sqrt(dim - 3.0)
    moved = (units * _UNIT + angle) * length + times * _NORMAL * math.sqrt(dim)
    return 4.5 * math.ldexp(math.sqrt(dim) * moved, log2_grid) + 64.0 * dim * _UNIT + _OTHER


def seed_error(dim: int, cap: Cap, *, gaussian: bool) -> float:
    """Bound on what the computed test of a seed adds to epsilon: the mass that it accepts depends a little on the row."""
    ratio = math.exp(-(cap.logit + log_rest(cap.log_mass) - cap.log_mass))
    mass = math.exp(cap.log_mass)
    accepted = mass + (1.0 - mass) * ratio
    error = (2.0 * dim + 64.0) * _UNIT + 2.0**-39
    if gaussian:
        error *= 2.0 * math.sqrt(dim) + cap.threshold + _CUT
        density = 0.4
    else:
        density = max(math.sqrt(dim / (2.0 * math.pi)), _density(dim, cap.threshold))
    return 2.0 * (1.0 - ratio) * error * density / accepted + _OTHER


def _density(dim: int, threshold: float) -> float:
    """Density of one coordinate of a uniform unit vector."""
    if dim == 1:
        return 0.0
    alpha = 0.5 * (dim - 1)
    log_beta = 0.5 * math.log(math.pi) + math.lgamma(alpha) - math.lgamma(alpha + 0.5)
    return math.exp((alpha - 1.0) * math.log1p(-threshold * threshold) - log_beta)


def expected_proposals(cap: Cap) -> float:
    """1 / (q + (1 - q) e^-epsilon)."""
    gap = cap.logit + log_rest(cap.log_mass) - cap.log_mass
    mass = math.exp(cap.log_mass)
    return 1.0 / (mass + (1.0 - mass) * math.exp(-gap))


DIM_MAX = 1 << 20
GRID = 8  # steps of 2^-8 of the root mean square of a coordinate, finer ones for thin caps
MOST_PROPOSALS = 4096.0
FORMS = ("direct", "selection")
_SPARE_DRAWS = 4096  # normals of a report besides one for each column: more are drawn with probability below 2^-200


@dataclass(frozen=True, slots=True)
class Randomizer:
    """What the randomizers share; make a `PrivUnit`, a `PrivUnitG` or a `Duchi`.

    Attributes
    ----------
    dim : int
        Columns of a row.
    epsilon : float
        Privacy of one report, as asked: never exceeded, floating point included.
    norm_bound : float or None
        Rows lie in the ball of this radius, longer ones count as rows on its sphere. None: only the direction of a row counts,
        and what is estimated is the mean of the unit vectors. It is passed as a number or as "public", the length of the longest
        row of `x_pub`, rounded up to four digits: both ends find the same number from the same public rows.
    form : "direct" or "selection"
        Reports are vectors on a grid, or seeds of 32 bytes.
    cap : Cap
        The exact threshold and probability in use.
    log2_grid : int
        Direct reports are integers, in steps of 2^-log2_grid of the root mean square of a coordinate.
    law : ReportLaw
        What the kernels read.
    entry_bytes : int
        Bytes of one entry of a direct report: 2 where no entry that matters is larger, else 4; 0 for other forms.
    header : BatchHeader
        What the bytes of a batch begin with, but for the number of reports.
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
    needs_bound: ClassVar[bool] = False

    def __post_init__(self, x_pub: Any) -> None:
        settle = object.__setattr__
        settle(self, "dim", validation.integer("dim", self.dim, minimum=1, maximum=DIM_MAX))
        epsilon = validation.positive("epsilon", self.epsilon)
        if not caps.EPSILON_MIN <= epsilon <= caps.EPSILON_MAX:
            raise InputError(f"epsilon must lie in [2^-20, {caps.EPSILON_MAX:g}], got {epsilon:g}")
        settle(self, "epsilon", epsilon)
        settle(self, "norm_bound", _norm_bound(self.norm_bound, x_pub, self.dim))
        self._design(epsilon)
        settle(self, "header", header_of(self))

    def _design(self, epsilon: float) -> None:
        """Settle the parameters for arguments that have been checked."""
        settle = object.__setattr__
        validation.choice("form", self.form, FORMS)
        draft = self._cap(epsilon)
        opening = 1.0 if self.gaussian else 1.0 - draft.threshold**2
        settle(self, "log2_grid", GRID + max(0, math.floor(-0.5 * math.log2(opening))))
        lost = caps.SAFETY * max(1.0, epsilon) + self._floating(draft)
        if not lost <= 0.5 * epsilon:
            raise InputError(
                f"epsilon = {epsilon:g} is too small for {self.dim} columns: floating point alone may cost {lost:.2g}; "
                f"pass at least {2.0 * lost:.2g}"
            )
        design = min(epsilon, draft.epsilon) - lost
        settle(self, "cap", self._made(draft.threshold, caps.logit_for(design, draft.log_mass)))
        if self.form == "selection" and not self.proposals <= MOST_PROPOSALS:
            raise InputError(
                f"form='selection' at epsilon = {epsilon:g} would try {self.proposals:.2g} seeds for each report, at most "
                f"{MOST_PROPOSALS:g} are allowed: pass form='direct', or a smaller epsilon"
            )
        settle(self, "law", self._law())
        if self.form == "direct":
            settle(self, "entry_bytes", self._entry_bytes())

    def _cap(self, epsilon: float) -> Cap:
        """The cap for a privacy of epsilon in real arithmetic."""
        raise InputError("a Randomizer is made as a PrivUnit, a PrivUnitG or a Duchi")

    def _made(self, threshold: float, logit: float) -> Cap:
        return caps.tail_of(threshold, logit) if self.gaussian else caps.cap_of(self.dim, threshold, logit)

    def _floating(self, cap: Cap) -> float:
        """What floating point may add to epsilon."""
        if self.form == "selection":
            return seed_error(self.dim, cap, gaussian=self.gaussian)
        return direct_error(self.dim, self.log2_grid, cap, gaussian=self.gaussian)

    def _law(self) -> ReportLaw:
        miss = float(special.expit(-self.cap.logit))
        tail = 0.5
        if self.form == "selection":
            # Rounded up: fewer seeds are then refused, never more.
            log_ratio = self.cap.logit + caps.log_rest(self.cap.log_mass) - self.cap.log_mass
            tail = min(math.exp(-log_ratio) * (1.0 + 1e-12), math.nextafter(1.0, 0.0))
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
        """Length of the longest row: `norm_bound`, or 1."""
        return 1.0 if self.norm_bound is None else float(self.norm_bound)

    @property
    def cost(self) -> PureDP | ApproxDP:
        """What one report costs its user: PureDP(epsilon), or ApproxDP where the cut tails of the normals weigh 2^-100 or more."""
        return _cost(self.epsilon, self.dim + _SPARE_DRAWS if self.form == "direct" else None)

    @property
    def scale(self) -> float:
        """m: the mean of a report of a unit vector, before it is divided by m, along that vector."""
        return self.cap.scale

    @property
    def second_moment(self) -> float:
        """E |Z|^2 of the vector Z that a report stands for (rounding to the grid adds less than 1e-5 of it)."""
        if not self.gaussian:
            return (self.radius / self.scale) ** 2
        return self.radius**2 * (self.dim + self.cap.threshold * self.scale) / self.scale**2

    def mean_squared_error(self, norm: float | None = None) -> float:
        """E |Z - x|^2 of one report of a row of this length (None: `radius`), in closed form."""
        length = self.radius if norm is None else validation.nonnegative("norm", norm)
        return self.second_moment - min(length, self.radius) ** 2

    @property
    def proposals(self) -> float:
        """Seeds that form="selection" tries for a report, on average."""
        return expected_proposals(self.cap)

    @property
    def report_bytes(self) -> int:
        """Bytes of one report, without the header of its batch."""
        return WIDTHS[REPORT_FORMS[self.form]] or self.dim * self.entry_bytes

    @property
    def normals(self) -> float:
        """Normals that a report is made of, on average."""
        return self.dim * (self.proposals if self.form == "selection" else 1.0)

    def _entry_bytes(self) -> int:
        root = math.sqrt(self.dim)
        along = min(1.0, self.cap.threshold + 12.0 / root) if not self.gaussian else 0.0
        largest = 9.0 + (root + 9.0) * along + (self.cap.threshold + 12.0 if self.gaussian else 0.0)
        return 2 if math.ldexp(largest, self.log2_grid) <= 32767.0 else 4

    # ---- Reports -----------------------------------------------------------------------------------------------------

    def privatize(self, rows: Any, *, random_state: int | None = None, threads: int | None = None) -> Reports:
        """Draw one report for each row: what its user may send.

        Parameters
        ----------
        rows : (n, dim) array-like, path, frame, table or Rows, or one row (dim,)
            One row for each user. A row with a missing or infinite entry, and without `norm_bound` a row of zeros, counts as the
            first unit vector; with `norm_bound`, zeros count as zeros, and the others as that vector times the bound.
        random_state : None or int
            None: keys from the operating system. int: repeatable, warned about, not private.
        threads : int, optional
            Threads that draw. Never changes a report.

        Returns
        -------
        Reports
            As many as rows, in their order.

        Raises
        ------
        InputError
            The form of the rows. Never for their content.

        Privacy
        -------
        Local: each report, by itself, is `cost`-private for any two rows of its user, without trust in whoever receives it.
        A second report of a user, of the same row or of another, costs as much again.

        Notes
        -----
        The law of a report and its proof are in `mechanisms/notes/local_reports.md`. How long a report takes depends a little on
        its coins, which the row shifts: do not let a stranger time a client.

        Examples
        --------
        >>> from fastpubpriv.local import PrivUnit
        >>> reports = PrivUnit(3, 2.0).privatize([[1.0, 0.0, 0.0], [0.0, 0.6, 0.8]])
        >>> len(reports), reports.vectors().shape
        (2, (2, 3))
        """
        if threads is not None:
            threads = validation.integer("threads", threads, minimum=1, maximum=max_threads())
        _ = self.cost  # refuses an epsilon that has none
        if (
            type(rows) is np.ndarray
            and rows.dtype == np.float64
            and rows.shape in ((self.dim,), (1, self.dim))
            and rows.flags.c_contiguous
            and rows.flags.aligned
        ):  # a client that sends one report, thousands of times as often as anything else: nothing is left to check
            return self._reported(rows.reshape(1, self.dim), key_source(random_state))
        opened = name_argument("rows", lambda: private_rows(_as_matrix(rows)))
        if opened.dim != self.dim:
            raise InputError(f"rows have {opened.dim} columns, the randomizer is for {self.dim}")
        return self._reported(opened, report_keys(random_state), threads=threads)

    def _reported(self, rows: Rows | FloatArray, keys: KeySource, *, threads: int | None = 1) -> Reports:
        """Reports of rows that have been checked, with keys of a run."""
        made = release_reports(
            rows, self.law, seeds=self.form == "selection", entry_bytes=self.entry_bytes, keys=keys, threads=threads
        )
        return Reports.fitted(self, made, private=keys.private)


def _norm_bound(given: Any, x_pub: Any, dim: int) -> float | None:
    """A number, that of the public rows, or None."""
    if isinstance(given, str) and given != "public":
        raise InputError(f"norm_bound must be a number, 'public' or None, got {given!r}")
    if isinstance(given, str) != (x_pub is not None):
        raise InputError(
            "norm_bound='public' and x_pub=, public rows, belong together: pass both, or a number for norm_bound"
        )
    if given is None:
        return None
    found = (
        validation.positive("norm_bound", given) if x_pub is None else public_norm_bound(public_rows(x_pub, dim=dim))
    )
    if not 1e-150 <= found <= 1e150:
        raise InputError(f"norm_bound must lie in [1e-150, 1e150], got {found:g}: rescale the columns")
    return found


@lru_cache(maxsize=1024)
def _cost(epsilon: float, draws: int | None) -> PureDP | ApproxDP:
    """Of a report made of so many normals, or of a seed; exact fractions take longer than a report."""
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


def _as_matrix(rows: Any) -> Any:
    """One row as a matrix of one row."""
    if getattr(rows, "ndim", None) == 1 and hasattr(rows, "reshape"):
        return rows.reshape(1, -1)
    if isinstance(rows, list | tuple) and rows and all(isinstance(value, int | float) for value in rows):
        return [list(rows)]
    return rows
