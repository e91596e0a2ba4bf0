"""Covariance of centered private rows without public ones, by CoinPress."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fastpubpriv import session, validation
from fastpubpriv._types import FloatArray, Keep, Mode, RowsPerPerson
from fastpubpriv.defaults import FAILURE_PROB
from fastpubpriv.errors import InputError, warn
from fastpubpriv.estimators.output_bounds import Box, narrowed
from fastpubpriv.estimators.radii import budget_shares, chi_radius, failure_probability, size
from fastpubpriv.estimators.user_level import user_level
from fastpubpriv.gaussians.lifted import ROW_FAILURE
from fastpubpriv.gaussians.pairs import coinpress_rounds
from fastpubpriv.gaussians.rounds import Precision, RoundMoment, covariance_error, union_tail
from fastpubpriv.gaussians.shape_loss import RecordedRounds, shape_loss
from fastpubpriv.gaussians.structures import chi_beyond
from fastpubpriv.mechanisms.sums import AffineMap, check_gram_grids
from fastpubpriv.privacy import Budget, Ledger
from fastpubpriv.results.estimates import CovarianceResult
from fastpubpriv.results.reasons import Reason, Reasons, ordered

MAX_STEPS = 10
# Deviations of the noise by which the least eigenvalue exceeds the norm of a matrix of noise alone, if it is resolved.
SURELY = 1.5
# Predicted relative error from which a warning says that noise is as large as the covariance.
HOPELESS = 2.0
# Mean squared norm, over the squared clip radius, above which rows are considered clipped.
FILLED = 0.8


def _frame(
    scale: Any, center: Any, box: Box | None, dim: int
) -> tuple[FloatArray, FloatArray, dict[str, str]]:
    """Return center, units of the columns (dim,) in which the covariance is at most about the identity, and their provenance."""
    if (scale is None) == (box is None):
        raise InputError(
            "pass either scale=, a bound on the largest eigenvalue of the covariance, or bounds=(lowest, highest)"
        )
    if box is None:
        unit = np.full(dim, math.sqrt(size("scale", scale)))
        middle = session.vector_or_number("center", 0.0 if center is None else center, dim)
        return middle, unit, {"center": "argument", "scale": "argument"}
    low, high = box
    half = high / 2.0 - low / 2.0
    middle = low + half if center is None else session.vector_or_number("center", center, dim)
    if not np.all((low < middle) & (middle < high)):
        raise InputError("center= must lie within bounds=: it is the mean of the rows")
    unit = half if center is None else np.sqrt(middle - low) * np.sqrt(high - middle)
    for value in unit:
        size("the largest standard deviation within bounds", value)
        size("the largest variance within bounds", value * value)
    return (
        middle,
        unit,
        {"center": "bounds" if center is None else "argument", "bounds": "argument"},
    )


@user_level
def coinpress_covariance(
    x_priv: Any,
    *,
    budget: Budget,
    scale: float | None = None,
    center: Any = None,
    bounds: Any = None,
    steps: int = 2,
    mode: Mode = "practical",
    failure_prob: float = FAILURE_PROB,
    columns: Any = None,
    person: Any = None,
    keep: Keep | None = None,
    rows_per_person: RowsPerPerson | None = None,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> CovarianceResult:
    """Covariance of centered private rows with no public row: the caller bounds the largest eigenvalue, or the columns.

    Parameters
    ----------
    x_priv : (n_priv, dim) array-like, path, frame, table or Rows
        Private rows.
        Their mean is `center`. A row with a missing or infinite entry is left out: each round releases the number of complete
        rows with the second moment, at no cost, and divides by it. If surely fewer than .98 are complete, the result has the
        reason "gaps".
    budget : ZCDP, ApproxDP or PureDP
        Spent whole, and debited before `x_priv` is read.
    scale : float > 0
        Bound on the largest eigenvalue of the covariance, in squared data units. Too small a bound costs accuracy, never privacy.
        Either this or `bounds`.
    center : None, float or (dim,)
        Mean of the rows (zero by default, with `bounds` their middle), a public number.
    bounds : (lowest, highest), numbers or (dim,) each
        Range of each column, instead of `scale`. The unit of a column is the largest standard deviation that the bounds permit
        about `center`, half the range about their middle; no estimated standard deviation exceeds it.
    columns : str, int or list of these, optional
        Numeric columns by name or, of an array, by number; by default all, in their order.
    person : str or (n_priv,) array-like, optional
        Column that says whose row it is, or the identifiers themselves: the call then protects all rows of a person together
        (user-level privacy); say by `keep` or `rows_per_person` what stands for a person. Rows without an identifier are left
        out. A text that is a number in its usual form (7, -3, 7.0) is that number, whatever the form of the table; "07" and "7"
        are two persons. Whole numbers beyond 2^53 are rounded in columns of numbers: keep them as text. By default each row is
        protected by itself.
    keep : "row", "mean" or "sum", optional
        With `person`: "mean", for each column the mean of the numbers in the person's rows, so that each person counts once; or
        "sum", their sum (0 for a person without any), whose total is that of all rows. Public rows that have the column of
        persons are treated alike, others are of persons already. "row", which `rows_per_person` implies: rows.
    rows_per_person : int or "auto", optional
        With `person`: at most how many rows of each person are used, chosen as if at random. For k rows the budget is spent at
        row level with rho / k^2 or epsilon / k; "auto" chooses k with a sixteenth of it, and a given k spends 1/64 on how many
        persons have more rows: reason "rows_left_out" if surely more than 2 % do. Rows that a person does not have are in no
        count; a method that cannot tell them from rows at a center refuses k > 1 before the debit.

    steps : int from 1 to 10
        Number of rounds. The last spends 3/4 of the budget.
    mode : "practical" or "theory"
        Constants that do well in practice, or those of the proofs. Same privacy.
    failure_prob : float in (0, 1), default 0.05
        Probability with which a bound of this call may fail. A failure costs accuracy, never privacy.
        Used in mode="theory" only.

    ledger : Ledger, optional
        Debited before the first read, by what `budget` says is spent.
    random_state : None or int
        None: fresh operating-system keys. int: repeatable, warned about, `private=False`.
    threads : int, optional
        Number of threads; by default one for each core. Passes over few numbers wake none. Never changes the answer.
    progress : bool, optional
        Whether a progress bar is shown; by default on a terminal, for long work.

    Returns
    -------
    CovarianceResult
        `covariance` (dim, dim), positive semi-definite, in squared data units; `correlation`; `predicted_error` for Gaussian
        rows; `reasons` has "clipped" if `scale` appears to be too small, "unresolved" if the smallest eigenvalues are within the
        noise, "heavy_tail" if the rounds differ by what the last one clips of rows that are not Gaussian (the error is then counted
        in `predicted_error`), and "no_interval" if they do not show it and it may be several times the predicted error.

    Raises
    ------
    InputError, BudgetError, LedgerError
        For public data and arguments, the form of the private data, and the budget. Never for the content of `x_priv`.

    Privacy
    -------
    Protected: every private row, against replacement by any other. Public: n_priv, dim, and all arguments. Released with
    Gaussian noise (zCDP, approximate DP) or discrete Laplace noise (pure DP): one second moment for each round, together with
    the number of complete rows, which costs nothing more. The exact costs add up to at most the budget.

    Proofs: `notes/gram.md`, `notes/complete_rows.md`.

    See Also
    --------
    estimate_gaussian : two public rows or more take the place of the bound, and the mean is estimated too.
    coinpress_mean : the mean, also without public rows.
    private_pca : only directions are needed, within a ball.

    Notes
    -----
    Biswas, Dong, Kamath, Ullman, "CoinPress" (2020), Algorithm 3. Departs from its published code: rows are multiplied by the
    preconditioner on its proper side (that code is wrong from three rounds on), rows are not clipped in place, and the noise is
    orthogonally invariant.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ZCDP, coinpress_covariance
    >>> rows = np.random.default_rng(0).normal(size=(20_000, 3)) * [1.0, 2.0, 3.0]
    >>> result = coinpress_covariance(rows, budget=ZCDP(rho=0.5), scale=20.0, steps=3)
    >>> np.round(np.sqrt(np.diag(result.covariance)), 0).tolist()
    [1.0, 2.0, 3.0]
    """
    rows, _ = session.open_rows(x_priv, columns=columns)
    session.refuse_padding(rows, "coinpress_covariance", "estimate_gaussian")
    steps = validation.integer("steps", steps, minimum=1, maximum=MAX_STEPS)
    mode = validation.choice("mode", mode, ("practical", "theory"))
    failure_prob = failure_probability(failure_prob)
    session.require_squares("coinpress_covariance", rows.dim, 14 + 2 * steps)
    box = validation.column_bounds(bounds, rows.dim)
    middle, unit, provenance = _frame(scale, center, box, rows.dim)
    run = session.start(
        "coinpress_covariance",
        rows,
        budget,
        draws=steps * (rows.dim * rows.dim + 1),
        **session.asked(ledger, random_state, threads, progress),
    )
    dim = rows.dim
    n = rows.n
    shares = budget_shares(steps)
    costs = [run.account.allowance * share for share in shares]
    check_gram_grids(run.account, costs, dim, n)
    tail = union_tail(mode, failure_prob, steps)
    precision = Precision(dim, n, run.account.spending, tail)

    def slack(moment: RoundMoment) -> float:
        # As in the published constants, the noise is not included: with it, early rounds would reduce the range too little.
        if not tail:
            return precision.sampling
        return precision.slack(moment.released.spectral_std / n)

    base = AffineMap(dim=dim, center=middle, matrix=1.0 / unit)
    clip = chi_radius(dim, failure_prob / n if tail else ROW_FAILURE)
    std = precision.std(clip**2, shares[-1])
    predicted = covariance_error(np.ones(dim), n, std)
    if not predicted < HOPELESS:
        warn(
            f"coinpress_covariance: predicted relative error {predicted:.3g}, noise as large as the covariance; pass a larger "
            "budget, more private rows or fewer columns, or let estimate_gaussian fall back on public rows",
        )
    with run.paid():
        state = RecordedRounds(base, np.eye(dim), slack)
        covariance, last = coinpress_rounds(run, state, costs=costs, clip=clip)
        assert last.complete is not None
        predicted = max(predicted, _error_of(last, clip))
        reasons = _reasons(last, clip)
        farthest = None if box is None else np.maximum(box[1] - middle, middle - box[0]) / unit
        shape = shape_loss(state, last, clip, farthest)
        if not reasons and shape.is_significant.any():
            reasons = (Reason.HEAVY_TAIL,)
        if not reasons and shape.exceeds(predicted):
            reasons = (Reason.NO_INTERVAL,)
        predicted = math.hypot(predicted, shape.significant)
        covariance = covariance * np.outer(unit, unit)
        if box is not None:
            (covariance,) = narrowed(covariance[None], middle[None], box)
        result = CovarianceResult(
            covariance=covariance,
            relative_noise_std=last.std,
            steps=steps,
            predicted_error=predicted,
            reasons=ordered((*reasons, *last.complete.reasons)),
            columns=rows.columns,
            provenance=provenance,
            **last.complete.number(n),
            **run.fields(0),
        )
    return session.warned("coinpress_covariance", result)


def _error_of(last: RoundMoment, clip: float) -> float:
    """Return the relative Frobenius error by sampling, noise and clipping of Gaussian rows with the last round's second moment."""
    values = np.maximum(last.spectrum()[0], last.std)
    # A squared norm is about `unit` times a chi-squared of this freedom, of which clipping loses a share.
    total = float(values.sum())
    unit = float(values @ values) / total
    freedom = total / unit
    lost = chi_beyond(freedom, clip * clip / unit) / freedom
    return math.hypot(covariance_error(values, last.n, last.std), lost * math.sqrt(freedom))


def _reasons(last: RoundMoment, clip: float) -> Reasons:
    """Return the reasons that the last round's second moment shows, in its own coordinates."""
    dim = len(last.value)
    if float(np.trace(last.value)) - 3.0 * last.std * math.sqrt(dim) > FILLED * clip * clip:
        return (Reason.CLIPPED,)
    least = float(last.spectrum()[0][0])
    error = (math.sqrt(2.0 * dim) + SURELY) * last.std + dim / last.n / 2.0
    return () if least > error else (Reason.UNRESOLVED,)
