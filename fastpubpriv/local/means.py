"""Means from reports and public rows (paper B, section 3 and Appendix F): the best weights, their error, and intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray, Target
from fastpubpriv.errors import InputError
from fastpubpriv.local.aggregate import Aggregator
from fastpubpriv.local.public_facts import (
    clipping_std,
    directions_of,
    moments,
    public_mean_std,
    row_norms,
    shortened,
)
from fastpubpriv.local.randomizers import Randomizer, Reports
from fastpubpriv.results.base import frozen
from fastpubpriv.results.estimates import MeanResult
from fastpubpriv.results.public_draws import student_factor
from fastpubpriv.results.reasons import Reason
from fastpubpriv.sources.open import public_table_of
from fastpubpriv.sources.tables import asked_columns

TARGETS = ("population", "empirical")
RELATION = "any two rows of one user, whoever receives the report; the number of reports is public"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalError:
    """Mean squared error of a semi-local mean, in closed form; an upper bound if the norm of the mean is unknown.

    Attributes
    ----------
    private_error : float
        A: error of the mean of the reports alone, infinite without reports.
    public_error : float
        P: error of the mean of the public rows alone, infinite without any.
    weight : float
        Weight of the reports in the estimate.
    mean_squared_error : float
        Error of the estimate; A P / (A + P) with the best weight.

    Examples
    --------
    >>> from fastpubpriv.local import PrivUnit, mean_error
    >>> error = mean_error(PrivUnit(8, epsilon=4.0), n_reports=10_000, n_pub=40, variance=0.08)
    >>> error.mean_squared_error < min(error.private_error, error.public_error)
    True
    """

    private_error: float
    public_error: float
    weight: float
    mean_squared_error: float


def mean_error(
    randomizer: Randomizer,
    *,
    n_reports: int,
    n_pub: int = 0,
    variance: float | None = None,
    mean_square: float | None = None,
    target: Target = "population",
) -> LocalError:
    """Error of `estimate_mean`, predicted before anybody sends a report.

    Parameters
    ----------
    randomizer : PrivUnit, PrivUnitG, Duchi or SubsetSelection
        Randomizer of the reports.
    n_reports, n_pub : int
        Numbers of reports and of public rows, not both zero.
    variance : float, optional
        V^2 = E |x - E x|^2 of one row; None: the largest, `mean_square` or radius^2.
    mean_square : float, optional
        E |x|^2 of one row in the ball, for example of public rows: the sum of V^2 and the squared norm of the mean. None: its
        least value, `variance`, so that the error is an upper bound. Without `norm_bound` it is 1.
    target : "population" or "empirical"
        The mean of the distribution of the rows, or of the rows themselves.

    Returns
    -------
    LocalError

    Raises
    ------
    InputError
        Without reports and public rows, or unless variance <= mean_square <= radius^2.

    Privacy
    -------
    Public numbers only.

    See Also
    --------
    fastpubpriv.local.estimate_mean : the mean itself, once reports are there.
    fastpubpriv.plan : the error of estimators with a trusted server.

    Notes
    -----
    Paper B, Proposition 17 and equation 11. For the population, departs from it: weights by inverse variance instead of one weight
    for every row, which is never worse; LLHR's per-report error already includes V^2. It is E |Z|^2 - |E x|^2, Z the report.

    Examples
    --------
    >>> from fastpubpriv.local import PrivUnit, mean_error
    >>> found = mean_error(PrivUnit(100, 4.0), n_reports=10_000, n_pub=200)
    >>> bool(found.mean_squared_error < min(found.private_error, found.public_error))
    True
    """
    n_reports = validation.integer("n_reports", n_reports, minimum=0)
    n_pub = validation.integer("n_pub", n_pub, minimum=0)
    validation.choice("target", target, TARGETS)
    if n_reports + n_pub == 0:
        raise InputError("a mean needs reports, public rows, or both: n_reports + n_pub is 0")
    most = randomizer.radius**2
    sphere = randomizer.norm_bound is None
    if mean_square is not None:
        square = validation.nonnegative("mean_square", mean_square)
        if square > most * (1.0 + 1e-9) or (sphere and square < 1.0 - 1e-9):
            wanted = (
                "1 without norm_bound: leave it out" if sphere else f"at most radius^2 = {most:.6g}"
            )
            raise InputError(f"mean_square must be {wanted}, got {square:.6g}")
        most = min(square, most)
    spread = most if variance is None else validation.nonnegative("variance", variance)
    if spread > most * (1.0 + 1e-9):
        name = "radius^2" if mean_square is None else "mean_square"
        raise InputError(f"variance must be at most {name} = {most:.6g}, got {spread:.6g}")
    least = 0.0 if variance is None else min(spread, most)
    square = most if sphere or mean_square is not None else least
    return _error(randomizer, n_reports, n_pub, (min(spread, most), square), target)


def _error(
    randomizer: Randomizer, n_reports: int, n_pub: int, moments: tuple[float, float], target: str
) -> LocalError:
    """Return the error for the variance and the mean square of a row."""
    second = randomizer.second_moment
    spread, square = moments
    if target == "empirical":
        n = n_reports + n_pub
        noise = max(second - square, 0.0)
        reported = noise / n_reports if n_reports else math.inf
        public = 0.0 if n_pub else math.inf
        weight = n_reports / n
        error = noise * n_reports / n**2
    else:
        reported = (second - max(square - spread, 0.0)) / n_reports if n_reports else math.inf
        public = spread / n_pub if n_pub else math.inf
        if n_reports and n_pub:
            weight = public / (reported + public)
            error = reported * weight
        else:
            weight = 1.0 if n_reports else 0.0
            error = min(reported, public)
    return LocalError(
        private_error=reported, public_error=public, weight=weight, mean_squared_error=error
    )


def _reported_std(total: Aggregator) -> FloatArray:
    """Return the standard error of the mean of the reports, (dim,), with Student's factor."""
    n = total.count
    typical = total.randomizer.second_moment / total.randomizer.dim
    if n == 1:
        return np.full(total.randomizer.dim, math.sqrt(typical))
    # One more report of the usual length: few reports may be equal by chance.
    return student_factor(n) * np.sqrt((total.variance() + typical / (n - 1.0)) / n)


def _names_asked(columns: Any, dim: int) -> tuple[str, ...] | None:
    """Return the names in `columns`, None if they are none; InputError unless there is one for each column of the reports."""
    asked = () if columns is None else asked_columns(columns)
    if columns is not None and len(asked) != dim:
        raise InputError(f"columns has {len(asked)} names, and the reports are of {dim} columns")
    named = bool(asked) and all(isinstance(name, str) for name in asked)
    return tuple(asked) if named else None


def _sum_of(reports: Any) -> Aggregator:
    """Return the sum of Reports, of several, or of an Aggregator; InputError for anything else, and without a report."""
    total = reports if isinstance(reports, Aggregator) else None
    batches = () if isinstance(reports, Aggregator) else reports
    for batch in batches if isinstance(batches, Iterable) else [batches]:
        if not isinstance(batch, Reports):
            raise InputError("reports must be Reports, several of them, or an Aggregator")
        total = Aggregator(batch.randomizer) if total is None else total
        total.add(batch)
    if total is None or not total.count:
        raise InputError("no reports: at least one is needed")
    return total


def estimate_mean(
    reports: Reports | Aggregator | Iterable[Reports],
    *,
    x_pub: Any = None,
    target: Target = "population",
    reports_per_user: int | None = None,
    columns: Any = None,
) -> MeanResult:
    """Mean of the rows of users, from their reports and from public rows, with the least error that public numbers allow.

    Parameters
    ----------
    reports : Reports, Aggregator, or several Reports
        Reports of one randomizer.
    x_pub : (n_pub, dim) array-like, path, frame or table, optional
        Public rows. They are prepared as the users prepare theirs: clipped to `norm_bound`, or without one scaled to norm one.
    target : "population" or "empirical"
        The mean of the distribution of all rows, or of the reported and public rows themselves.
    reports_per_user : int, optional
        Maximum number of reports that one user may have drawn: `spent` is that many times the cost of one. Default: the limit
        that the Aggregator enforces by hashed names of users, or 1.
    columns : str or list of str, optional
        Columns of a public table or file, in the order of `privatize`. Reports that were drawn from a table in this process know
        their columns, and a public table is put in their order; reports read from bytes do not. Without `x_pub`: names for the
        result.

    Returns
    -------
    MeanResult
        `noise_std` is the standard error of the reports' part, estimated from them (it includes the spread of the users' rows);
        `sampling_std` that of the public part, if they are of one distribution; both with Student's factor for 95 % intervals.
        `clipping_std` estimates the bias of clipping rows to `norm_bound` from five or more public rows; without these it is None,
        and the interval is for the mean of the clipped rows. `spent` is the cost of one user. Reasons: "shifted", the reports
        refute the public rows, which were then left out; "heavy_tail", clipping is most of the interval; "clipped", rows are
        clipped, and public rows are too few to show by how much.

    Raises
    ------
    InputError
        No reports, reports of several randomizers, or public rows that do not fit.

    Privacy
    -------
    Protected: every row of a user, against whoever receives the report, by the randomizer that drew it. The cost was charged
    then; this is post-processing, and releases nothing more. The public rows have no protection.

    Proofs: `notes/local_reports.md`, `notes/local_codes.md`.

    See Also
    --------
    fastpubpriv.estimate_mean : a trusted server has the rows, which needs far fewer of them.
    mean_error : the error to expect, before anybody sends a report.
    Aggregator : adds up reports that arrive in parts or from several machines.

    Notes
    -----
    Paper B, Proposition 17 (empirical) and Appendix F (population, where the reports and the public rows are weighted by their
    inverse variances, which depend on the norm of the mean: this is estimated from the public rows, without bias and clipped to its
    range; with fewer than two of them it is set to zero, so that `predicted_error` is an upper bound). A shift of the public rows
    that is small beside the noise of the reports cannot be seen, and the interval for the population does not hold it: if they may
    differ, pass target="empirical", which is right for any public rows.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv.local import PrivUnit, estimate_mean
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(0.5, 0.2, size=(20_000, 3))
    >>> reports = PrivUnit(3, 4.0, norm_bound=2.0).privatize(rows)
    >>> result = estimate_mean(reports, x_pub=rng.normal(0.5, 0.2, size=(50, 3)))
    >>> bool(np.all(np.abs(result.mean - 0.5) < 0.2))
    True
    """
    validation.choice("target", target, TARGETS)
    total = _sum_of(reports)
    usual = total.reports_per_user or 1
    most = usual if reports_per_user is None else reports_per_user
    per_user = validation.integer("reports_per_user", most, minimum=1)
    randomizer = total.randomizer
    dim = total.randomizer.dim
    asked = _names_asked(columns, dim)
    names = total.columns or asked
    shown = None
    if x_pub is not None:
        shown, labels = public_table_of(x_pub, columns=columns, dim=dim, names=total.columns)
        names = names or labels
    public = shown  # below: prepared as a user prepares a row
    if shown is not None:
        public = (
            directions_of(shown)
            if randomizer.norm_bound is None
            else shortened(shown, randomizer.radius)
        )
    n_pub = 0 if public is None else len(public)
    spread, square = moments(public, randomizer.radius, sphere=randomizer.norm_bound is None)
    error = _error(randomizer, total.count, n_pub, (spread, square), target)
    reported = total.mean()
    reported_std = _reported_std(total)
    weight = error.weight
    mean = reported
    sampling = np.zeros(dim)
    reasons: list[Reason] = []
    if public is not None:
        gap = public.mean(axis=0) - reported
        if target == "population":
            public_std = public_mean_std(public, randomizer.radius, spread)
            apart = float(np.sum(gap**2 / (reported_std**2 + public_std**2)))
            if apart > dim + 3.0 * math.sqrt(2.0 * dim):
                weight = 1.0
                reasons.append(Reason.SHIFTED)
            sampling = (1.0 - weight) * public_std
        mean = reported + (1.0 - weight) * gap
    noise = weight * reported_std
    lost: dict[str, float] = {}
    clipping = None
    if shown is not None and randomizer.norm_bound is not None:
        beyond = float(np.mean(row_norms(shown) > randomizer.radius))
        lost["public_rows_shortened"] = beyond
        clipping = clipping_std(shown, randomizer.radius)
        if clipping is None and beyond > 0.0:
            reasons.append(Reason.CLIPPED)
        elif clipping is not None and np.any(clipping > np.hypot(noise, sampling)):
            reasons.append(Reason.HEAVY_TAIL)
    return MeanResult(
        mean=mean,
        noise_std=noise,
        sampling_std=sampling,
        clipping_std=None if clipping is None else frozen(clipping),
        noise_law="gaussian",
        n_priv=total.count,
        n_pub=n_pub,
        dim=dim,
        spent=randomizer.cost * per_user,
        private=total.private,
        relation=RELATION,
        about=f"all {total.count:,} reports",
        reasons=tuple(reasons),
        releases=(
            {
                "name": "local reports",
                "randomizer": type(randomizer).__name__,
                "form": randomizer.form,
                "norm_bound": randomizer.norm_bound,
                "private_weight": weight,
                "predicted_error": error.mean_squared_error,
                **lost,
            },
        ),
        provenance={"variance": "radius" if public is None else "public rows"},
        columns=names,
    )
