"""CoinPress for the mean (BDKU20): its steps from a ball that holds the mean, their forecast, and `coinpress_mean`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import special

from fastpubpriv import session, validation
from fastpubpriv._types import FloatArray, Keep, Mode, RowsPerPerson, Steps
from fastpubpriv.defaults import FAILURE_PROB
from fastpubpriv.distributions import tuning
from fastpubpriv.distributions.norms import DRAWS, NormCount, Norms
from fastpubpriv.errors import InputError, warn
from fastpubpriv.estimators import radii
from fastpubpriv.estimators.clipping_bias import (
    CONFIRMATION,
    ClippedMean,
    ClippingBias,
    bias_of_last,
)
from fastpubpriv.estimators.column_means import with_report
from fastpubpriv.estimators.complete_rows import CompleteRows, release_complete
from fastpubpriv.estimators.linalg import Whitening, known_root
from fastpubpriv.estimators.preconditioner import precondition
from fastpubpriv.estimators.user_level import user_level
from fastpubpriv.mechanisms.sums import AffineMap, VectorSum, check_sum_grids
from fastpubpriv.privacy import Budget, Ledger
from fastpubpriv.privacy.spending import spending_of
from fastpubpriv.results.estimates import MeanResult
from fastpubpriv.results.reasons import Reason, ordered

# Maps (n_priv, budget) to the predicted error of a method and its details.

FEW_STEPS = 2  # number of steps of "auto" if the radius comes from a private count


def most_steps(steps: Steps) -> int:
    """Return an upper bound on the number of steps, known before the account is created."""
    return radii.MAX_AUTO_STEPS if steps == "auto" else steps


def steps_from(
    run: session.Session, radius: float, steps: Steps, **settings: Any
) -> list[radii.PlannedStep]:
    """Plan the steps from a ball of public radius; raise before the debit."""
    planned = radii.planned_steps(run, run.account.allowance, radius, steps, **settings)
    if max(step.clip_radius for step in planned) >= radii.LARGEST_SIZE:
        raise InputError(
            "the noise of the early steps would make the ball grow without bound: pass fewer steps or a larger budget"
        )
    return planned


@dataclass(frozen=True, slots=True, eq=False)
class Refined:
    """The mean of the complete rows after the last step, the noise of its sum per whitened coordinate, and how far it moved."""

    mean: FloatArray
    sum_std: float
    moved: FloatArray  # (dim,), from the center of the last step, in data units
    complete: CompleteRows
    clipped_means: tuple[ClippedMean, ...] = ()  # of all steps, in whitened units

    def may_clip(self, whitening: Whitening, box: tuple[FloatArray, FloatArray]) -> bool:
        """Return whether the last step clips some row within a box."""
        farthest = distance_to_corner(self.mean - self.moved, whitening, box)
        return farthest > self.clipped_means[-1].radius

    def noise_std(self, unit_std: FloatArray) -> FloatArray:
        """Return the noise of the mean and of its divisor in data units, (dim,), for units of whitened coordinates."""
        return np.hypot(
            self.sum_std * unit_std / self.complete.divisor,
            self.complete.relative_std * np.abs(self.moved),
        )


def refine(
    run: session.Session,
    allowance: Fraction,
    center: FloatArray,
    whitening: Whitening,
    inverse: FloatArray | None,
    steps: Sequence[radii.PlannedStep],
) -> Refined:
    """Release the steps, each on the original rows; return the last estimate, whose noise is that of the planned step."""
    n = run.rows.n
    dim = run.rows.dim
    means = []
    for index, step in enumerate(steps):
        affine = AffineMap(dim=dim, center=center, matrix=inverse, lower=True)
        total = VectorSum(affine=affine, radius=step.clip_radius)
        name = f"clipped sum, step {index + 1} of {len(steps)}"
        cost = allowance * step.share
        released, complete = release_complete(run, total, name=name, cost=cost)
        whitened = released.value / (n * complete.divisor)
        means.append(ClippedMean(step.clip_radius, step.noise_std / complete.divisor, whitened))
        moved = whitening.to_data(whitened)
        center = center + moved
        center.flags.writeable = False  # the next map and the result use it without a copy
    return Refined(center, steps[-1].noise_std, moved, complete, tuple(means))


def clipping_error(
    bias: ClippingBias, whitening: Whitening, row_std: FloatArray, row_unit: float
) -> FloatArray:
    """Return the standard error of the mean by clipping, (dim,), in data units, for rows with deviations `row_std`, (dim,)."""
    expected = whitening.to_data(bias.expected / row_unit)
    return np.asarray(np.hypot(expected, row_std * bias.std))


def counts_of_norms(run: session.Session, steps: int, *, once: bool) -> list[NormCount]:
    """Return the counts of distances, one before all steps or one per step. Raise, before the debit, if a grid does not exist."""
    n = run.rows.n
    dim = run.rows.dim
    shares = radii.budget_shares(steps)
    norms = [
        NormCount.of(run.account, n, dim, part) for part in ((Fraction(1),) if once else shares)
    ]
    for each in norms:
        each.check_grids(run.account)
    if once:
        check_sum_grids(run.account, (norms[0].left * share for share in shares), dim, n)
    return norms


def counted_steps(
    run: session.Session, center: FloatArray, norms: list[NormCount]
) -> tuple[Refined, Norms]:
    """Release steps that count distances and clip for the least predicted error; return the last estimate and count."""
    n = run.rows.n
    dim = run.rows.dim
    for index, count in enumerate(norms):
        affine = AffineMap(dim=dim, center=center)
        counted = count.count_norms(run, affine, np.zeros(0))
        name = f"clipped sum, step {index + 1} of {len(norms)}"
        total = VectorSum(affine=affine, radius=counted.radius)
        released, complete = release_complete(run, total, name=name, cost=count.left)
        moved = released.value / (n * complete.divisor)
        center = np.clip(center + moved, -radii.LARGEST_SIZE, radii.LARGEST_SIZE)
    # The root mean square of norms is of all rows, of which incomplete ones are in no shell.
    counted = replace(counted, rms=counted.rms / math.sqrt(complete.divisor))
    return Refined(center, released.noise_std / n, moved, complete), counted


def mean_result(
    run: session.Session,
    refined: Refined,
    unit_std: FloatArray,
    row_std: FloatArray,
    n_pub: int,
    **sources: str,
) -> MeanResult:
    """Assemble the result from the data units of whitened coordinates and the standard deviation of a row, (dim,) each."""
    return MeanResult(
        mean=refined.mean,
        noise_std=refined.noise_std(unit_std),
        sampling_std=row_std / math.sqrt(run.rows.n * refined.complete.divisor),
        noise_law=run.account.spending.law,
        columns=run.rows.columns,
        provenance=sources,
        reasons=refined.complete.reasons,
        **refined.complete.number(run.rows.n),
        **run.fields(n_pub),
    )


def predict_from_ball(
    dim: int, radius: float, steps: int | str, mode: Mode, failure_prob: float, n_pub: int
) -> session.Predictor:
    """Return a `Predictor` of steps from a ball of public radius, in standard deviations, with the error of `n_pub` rows if any."""

    def predict(n_priv: int, budget: Budget) -> session.PredictedError:
        spending = spending_of(budget, radii.MAX_AUTO_STEPS * dim)
        settings: dict[str, Any] = {
            "mode": mode,
            "failure_prob": failure_prob,
            "noise": lambda share, clip: clip * spending.std("sum", dim, share),
        }
        number = radii.best_steps(dim, n_priv, radius, steps, **settings)
        last = radii.predict_steps(dim, n_priv, radius, steps=number, **settings)[-1]
        norm = radii.expected_normal_norm(dim)
        public = {"public_rows_alone": norm / math.sqrt(n_pub)} if n_pub else {}
        return last.error, {
            "steps": float(number),
            "radius": radius,
            "clip_radius": last.clip_radius,
            "noise_std": last.noise_std,
            "without_privacy": norm / math.sqrt(n_priv),
            **public,
        }

    return predict


def starting_ball(
    center: Any, radius: Any, bounds: Any, root: FloatArray | None, dim: int
) -> tuple[FloatArray, float, Whitening, tuple[FloatArray, FloatArray] | None]:
    """Return center and radius (infinite if a count will give it) of the ball, the whitening, and the box of `bounds` or None."""
    box = validation.column_bounds(bounds, dim)
    if box is None:
        if center is None or radius is None:
            raise InputError(
                "pass center= and radius=, a ball that holds the mean, or bounds=(lowest, highest)"
            )
        number = radii.size_or_auto("radius", radius)
        middle = session.vector_or_number("center", center, dim)
        return middle, math.inf if number is None else number, Whitening(dim, root), None
    if center is not None or radius is not None:
        raise InputError("bounds= replaces center= and radius=: leave them out")
    middle, half = radii.middle_and_half(box)
    whitening = Whitening(dim, half if root is None else root)
    farthest = distance_to_corner(middle, whitening, box)
    return middle, radii.size("radius from bounds", farthest), whitening, box


def distance_to_corner(
    center: FloatArray, whitening: Whitening, box: tuple[FloatArray, FloatArray]
) -> float:
    """Return the whitened distance from a center to the farthest corner of a box, or an upper bound on it for a full matrix."""
    middle, half = radii.middle_and_half(box)
    reach = half + np.abs(center - middle)
    inverse = whitening.inverse
    assert inverse is not None
    farthest = np.abs(inverse) @ reach if inverse.ndim == 2 else np.abs(inverse) * reach
    return float(np.linalg.norm(farthest))


@user_level
def coinpress_mean(
    x_priv: Any,
    *,
    budget: Budget,
    center: Any = None,
    radius: float | str | None = None,
    bounds: Any = None,
    covariance: Any = None,
    variance: Any = None,
    steps: Steps = 2,
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
) -> MeanResult:
    """Mean of private rows with no public row: the caller names a ball that holds the mean.

    Parameters
    ----------
    x_priv : (n_priv, dim) array-like, path, frame, table or Rows
        Private rows.
        A row with a missing or infinite entry is left out: each step releases the number of complete rows with the sum, at no
        cost, and divides by it. If surely fewer than .98 are complete, the result has the reason "gaps".
    budget : ZCDP, ApproxDP or PureDP
        Spent whole, and debited before `x_priv` is read.
    center : (dim,) array-like, or a number for all columns
        Center of the ball, in data units. Must not come from the private rows.
    radius : float > 0 or "auto"
        Radius of the ball, in standard deviations (that is, after whitening by `variance` or `covariance`). Too small a radius
        costs accuracy, never privacy. "auto": a quarter or more of the budget pays for a private count of the distances from
        `center`, and the ball holds all rows that the count detects above its noise. Without a variance or covariance, every step
        counts again about its own center and clips where the predicted error is least: no deviation has to be known, and the
        interval assumes the deviation of whole rows for each column, so that it is wide for columns in small units, and several
        columns have the reason "wide". The result has a `report`.
    bounds : (lowest, highest), numbers or (dim,) each
        Range of each column, in place of `center` and `radius`; the answer lies within. Without a variance or covariance, the
        standard deviations are assumed to be the largest that the bounds allow: half the range.
    covariance : (dim, dim) array-like, optional
        Covariance of a row, a public matrix. By default the identity.
    variance : float or (dim,), optional
        In place of `covariance`, for columns assumed independent: one public variance, or one for each column.
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

    steps : int or "auto"
        Number of refinements. The last spends 3/4 of the budget. "auto" minimizes the predicted error.
    mode : "practical" or "theory"
        Constants that do well in practice, or those of the proofs. Same privacy.
        Those of the proof have union bounds over rows and steps.
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
    MeanResult

    Raises
    ------
    InputError, BudgetError, LedgerError
        For public data and arguments, the form of the private data, and the budget. Never for the content of `x_priv`.

    Privacy
    -------
    Protected: every private row, against replacement by any other. Public: n_priv, dim, and all arguments. Released with
    Gaussian noise (zCDP, approximate DP) or discrete Laplace noise (pure DP): one clipped sum for each step, together with the
    number of complete rows, which costs nothing more; with radius="auto" one count of norms before the first sum or, without a
    variance, before each. The exact costs add up to at most the budget.

    Proofs: `notes/vector_sum.md`, `notes/complete_rows.md`, `notes/shell_counts.md`.

    See Also
    --------
    estimate_mean : one public row takes the place of the ball.
    weighted_mean : all rows are within known bounds.
    coinpress_covariance : the covariance of centered rows, also without public rows.

    Notes
    -----
    Biswas, Dong, Kamath, Ullman, "CoinPress" (2020), Algorithm 1. Departs from it: every step clips the original rows, not those
    that the previous step clipped; noise is added to integers.

    Examples
    --------
    >>> import numpy as np, warnings
    >>> from fastpubpriv import ZCDP, coinpress_mean
    >>> rows = np.random.default_rng(0).normal(5.0, 1.0, size=(4000, 3))
    >>> result = coinpress_mean(rows, budget=ZCDP(rho=0.5), center=0.0, radius=30.0)
    >>> bool(np.all(np.abs(result.mean - 5.0) < 0.2))
    True
    """
    rows, _ = session.open_rows(x_priv, columns=columns)
    session.refuse_padding(rows, "coinpress_mean", "estimate_mean")
    root = known_root(covariance, variance, rows.dim)
    middle, reach, whitening, box = starting_ball(center, radius, bounds, root, rows.dim)
    steps = radii.step_count(steps)
    settings: dict[str, Any] = {
        "mode": validation.choice("mode", mode, ("practical", "theory")),
        "failure_prob": radii.failure_probability(failure_prob),
    }
    counted = reach == math.inf
    inverse = whitening.inverse
    unknown = counted and root is None  # no variance or covariance was given
    count = FEW_STEPS if counted and steps == "auto" else most_steps(steps)
    most = count * (rows.dim + 1) + (DRAWS * (count if unknown else 1) if counted else 0)
    asked = session.asked(ledger, random_state, threads, progress)
    run = session.start("coinpress_mean", rows, budget, draws=most, **asked)
    norms = counts_of_norms(run, count, once=not unknown) if counted else []
    planned = [] if counted else steps_from(run, reach, steps, **settings)
    with run.paid():
        shells = None
        unit_std = whitening.row_std()
        allowance = run.account.allowance
        row_std = unit_std
        clipping_std = np.zeros(rows.dim)
        reasons: tuple[Reason, ...] = ()
        if unknown:
            refined, shells = counted_steps(run, middle, norms)
            # No column's deviation is known: that of whole rows bounds each.
            row_std = np.full(rows.dim, shells.rms)
        else:
            if counted:
                affine = AffineMap(dim=rows.dim, center=middle, matrix=inverse, lower=True)
                shells = norms[0].count_norms(run, affine, np.zeros(0))
                allowance = norms[0].left
                planned = radii.planned_steps(run, allowance, shells.end, count, **settings)
            refined = refine(run, allowance, middle, whitening, inverse, planned)
            if box is None or refined.may_clip(whitening, box):
                bias = bias_of_last(refined.clipped_means)
                clipping_std = clipping_error(bias, whitening, row_std, row_unit=1.0)
                reasons = bias.reasons
        if box is not None:
            refined = replace(refined, mean=np.clip(refined.mean, *box))
        result = mean_result(
            run,
            refined,
            unit_std,
            row_std,
            n_pub=0,
            center="argument",
            radius="released" if counted else "argument",
            covariance="norms of rows" if unknown else "argument",
        )
        result = replace(result, reasons=ordered((*result.reasons, *reasons)))
        if shells is None:
            result = replace(result, clipping_std=clipping_std)
            return session.warned("coinpress_mean", result)
        if unknown:
            clipping_std = np.full(rows.dim, shells.bias / (rows.n * refined.complete.divisor))
        # Without known deviations only a single column has its own scale, and the count chooses the clip radius.
        return with_report(
            "coinpress_mean",
            result,
            shells,
            center=result.mean,
            unit=unit_std,
            known=np.full(rows.dim, rows.dim == 1 or not unknown),
            wide=np.zeros(rows.dim, dtype=bool),
            bias=clipping_std,
            n=rows.n * refined.complete.divisor,
        )


# ---- The method of `estimate_mean`: a ball about the public rows (paper A, section 2.1), for its `BallSettings`


def public_ball(
    x_pub: FloatArray, settings: Any
) -> tuple[FloatArray, float, Whitening, FloatArray]:
    """Return center and radius of the ball of the mean, for half of `failure_prob`, the whitening, and the deviations of a row."""
    n_pub, dim = x_pub.shape
    covariance = settings.covariance
    variance = settings.variance
    failure_prob = settings.failure_prob / 2.0
    gap = settings.pub_priv_gap
    if isinstance(covariance, str):
        if covariance != "public":
            raise InputError(f"covariance must be None, a matrix or 'public'; got {covariance!r}")
        if variance is not None:
            raise InputError(
                "covariance='public' estimates the variances too: leave out variance, or covariance"
            )
        if n_pub < dim + 1:
            raise InputError(
                f"covariance='public' needs at least {dim + 1} public rows for {dim} columns, got {n_pub}; "
                "pass more public rows, fewer columns, or the covariance itself"
            )
        guarantee = precondition(x_pub, pub_priv_gap=gap, failure_prob=failure_prob)
        row_std = np.sqrt(np.einsum("ij,ij->i", guarantee.factor, guarantee.factor))
        return guarantee.center, guarantee.mean_radius, Whitening(dim, guarantee.scale), row_std
    whitening = Whitening(dim, known_root(covariance, variance, dim))
    radius = radii.gap_radius(dim, n_pub, failure_prob, gap)
    return x_pub.mean(axis=0), radius, whitening, whitening.row_std()


# Chance that Gaussian public rows of the assumed covariance are said to contradict it, and the least ratio of their deviations to
# the assumed ones that is said: a smaller one changes an interval by less than its own uncertainty.
FALSE_CONTRADICTION = 1e-6
LEAST_CONTRADICTION = 1.25


def whitened_rows(public: FloatArray, whitening: Whitening) -> FloatArray:
    """Return the public rows about their mean in whitened coordinates."""
    centered: FloatArray = public - public.mean(axis=0)
    inverse = whitening.inverse
    if inverse is None:
        return centered
    whitened: FloatArray = centered @ inverse.T if inverse.ndim == 2 else centered * inverse
    return whitened


def is_contradicted(public: FloatArray, whitening: Whitening) -> bool:
    """Return whether public rows vary more than the assumed covariance allows, in a whitened column or in all together."""
    n_pub, dim = public.shape
    if n_pub < 2:
        return False
    squares = np.square(whitened_rows(public, whitening)).sum(axis=0)
    squares = np.append(squares, squares.sum())
    degrees = (n_pub - 1) * np.append(np.ones(dim), dim)
    chance = special.chdtrc(degrees, squares)
    wider = squares > degrees * LEAST_CONTRADICTION**2
    return bool(np.any(wider & (chance < FALSE_CONTRADICTION / (dim + 1))))


def mean_within_ball(run: session.Session, public: FloatArray, settings: Any) -> MeanResult:
    """Estimate the mean by CoinPress from a ball around the public rows."""
    from_public = isinstance(settings.covariance, str)
    if from_public:
        session.require_squares("estimate_mean", public.shape[1], 12)
    center, radius, whitening, row_std = public_ball(public, settings)
    unit_std = whitening.row_std()
    # Ratio of the whitened unit to a row's standard deviation, the same for all columns: sqrt(eig_upper), or one.
    row_unit = float(unit_std[0] / row_std[0])
    path = steps_from(
        run, radius, settings.steps, mode=settings.mode, failure_prob=settings.failure_prob
    )
    n = run.rows.n
    dim = run.rows.dim
    session.warn_if_useless(
        "estimate_mean",
        # In standard deviations of a row; a whitened unit is `row_unit` of them.
        radii.expected_normal_norm(dim) * math.sqrt(1.0 / n + (row_unit * path[-1].noise_std) ** 2),
        math.hypot(math.sqrt(dim / len(public)), radii.gap_shift(settings.pub_priv_gap)),
    )
    inverse = whitening.inverse
    contradicted = not from_public and is_contradicted(public, whitening)
    if contradicted:
        warn(
            "estimate_mean: the public rows vary more than the covariance that is assumed, and private rows like them would be "
            "clipped; pass their variance= or covariance=, or leave clipping= out",
        )
    with run.paid():
        refined = refine(run, run.account.allowance, center, whitening, inverse, path)
        result = mean_result(
            run,
            refined,
            unit_std,
            row_std,
            n_pub=len(public),
            center="public rows",
            radius="public rows",
            covariance="public rows" if from_public else "argument",
        )
        norms = row_unit * np.linalg.norm(whitened_rows(public, whitening), axis=1)
        bias = bias_of_last([mean.in_units(row_unit) for mean in refined.clipped_means], norms)
        reasons = [*result.reasons, *bias.reasons]
        if contradicted:
            reasons.append(Reason.CLIPPED)
        is_assumed = settings.covariance is None and settings.variance is None
        few = len(public) < tuning.FEW_PUBLIC
        if is_assumed and few and not bias.log_odds > math.log(CONFIRMATION):
            reasons.append(Reason.FEW_PUBLIC_ROWS)
        clipping_std = clipping_error(bias, whitening, row_std, row_unit)
        result = replace(result, clipping_std=clipping_std, reasons=ordered(reasons))
        # A contradiction was warned of before the debit.
        return result if contradicted else session.warned("estimate_mean", result)


def predict_from_public(dim: int, n_pub: int, settings: Any) -> session.Predictor:
    """Return a `Predictor` of steps from the ball about `n_pub` rows."""
    radius = radii.gap_radius(dim, n_pub, settings.failure_prob / 2.0, settings.pub_priv_gap)
    return predict_from_ball(
        dim, radius, settings.steps, settings.mode, settings.failure_prob, n_pub
    )
