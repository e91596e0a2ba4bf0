"""The private mean from one or more public rows: clipped by what private counts show, or by a ball (paper A, section 2.1)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from fastpubpriv import session as running
from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.estimators.coinpress import (
    Ball,
    choose_steps,
    mean_result,
    most_steps,
    path_of,
    refine,
)
from fastpubpriv.estimators.columns.learn import mean_of_columns
from fastpubpriv.estimators.preconditioner import precondition
from fastpubpriv.estimators.radii import Mode, failure_probability, gap_radius, gap_shift, step_count
from fastpubpriv.estimators.regions import column_means
from fastpubpriv.estimators.whitening import Whitening, known_root
from fastpubpriv.privacy import Budget, Ledger
from fastpubpriv.results.estimates import MeanResult
from fastpubpriv.shared_docs import FAILURE_PROB, shared_docs


def public_ball(
    x_pub: FloatArray, *, covariance: Any, variance: Any, failure_prob: float, pub_priv_gap: float
) -> tuple[Ball, Whitening, FloatArray]:
    """Ball around the mean, whitening map and standard deviation of a row per column, all from public rows and arguments.

    Half of `failure_prob` is spent here (on the public rows), the other half on clipping private rows.
    """
    n_pub, dim = x_pub.shape
    if isinstance(covariance, str):
        if covariance != "public":
            raise InputError(f"covariance must be None, a matrix or 'public'; got {covariance!r}")
        if variance is not None:
            raise InputError("covariance='public' estimates the variances too: leave out variance, or covariance")
        if n_pub < dim + 1:
            raise InputError(
                f"covariance='public' needs at least {dim + 1} public rows for {dim} columns, got {n_pub}; "
                "pass more public rows, fewer columns, or the covariance itself"
            )
        guarantee = precondition(x_pub, pub_priv_gap=pub_priv_gap, failure_prob=failure_prob / 2.0)
        row_std = np.sqrt(np.einsum("ij,ij->i", guarantee.factor, guarantee.factor))
        return Ball(guarantee.center, guarantee.mean_radius), Whitening(dim, guarantee.scale), row_std
    whitening = Whitening(dim, known_root(covariance, variance, dim))
    radius = gap_radius(dim, n_pub, failure_prob / 2.0, pub_priv_gap)
    return Ball(column_means(x_pub), radius), whitening, whitening.row_std()


@shared_docs
def estimate_mean(
    x_priv: Any,
    *,
    x_pub: Any,
    budget: Budget,
    clipping: str = "auto",
    objective: str = "columns",
    covariance: Any = None,
    variance: Any = None,
    bounds: Any = None,
    missing: str = "observed",
    public_only: str = "never",
    pub_priv_gap: float = 0.0,
    failure_prob: float = FAILURE_PROB,
    steps: int | str = 2,
    mode: Mode = "practical",
    columns: Any = None,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> MeanResult:
    """Mean of private rows in any unit and of any shape, with as little as one public row instead of a range.

    Parameters
    ----------
    {x_priv}
    x_pub : (n_pub, dim) or (dim,) array-like, path, frame or table
        Public rows, at least one, finite.
    {budget}
    clipping : "auto" or "gaussian"
        "auto": private counts show where each column's numbers lie and end, and the rest of the budget goes into one clipped sum;
        with a `covariance` or `variance` it is "gaussian": the ball of paper A, for rows like those of a Gaussian that has it.
    objective : "columns" or "l2"
        For counts, what noise is spread for: "columns" makes it equal in the deviations of the columns; "l2" makes the squared
        error of the whole vector in data units small, which columns with large deviations decide.
    covariance : (dim, dim) array-like or "public", optional
        For "gaussian": covariance of a private row: a public matrix; or "public": estimated from at least dim + 1 public rows, with
        the clip radius widened for what they leave uncertain. By default the identity.
    variance : float or (dim,), optional
        Instead of `covariance`, for columns taken as independent: one public variance, or one for each column.
    bounds : None or (lowest, highest)
        For counts: numbers or vectors (dim,) between which every value is known to lie. Intervals are then
        finite, and hold what rows may do that lie anywhere within and cannot be seen.
    missing : "observed" or "neutral"
        For counts: what an entry that is not a finite number does. "observed": the mean of a column is that of its numbers.
        "neutral": a row with such an entry is left out in every column.
    public_only : "never" or "auto"
        For counts. "auto": where at least 30 public rows alone are predicted to be closer, return their mean; nothing is then
        spent or read.
    {pub_priv_gap, failure_prob}
        For "gaussian", as what follows; the bound is the radius derived from the public rows.
    steps : int or "auto"
        1 is clip-and-noise; t > 1 refines the ball t - 1 times before the last release, which spends 3/4 of the budget.
        "auto" takes the least predicted error.
    {mode}
        Theory has Lemma 2.2 for one step.
    {matched_columns, ledger, random_state, threads, progress}

    Returns
    -------
    MeanResult
        `mean` (dim,), noise level and intervals in data units, the releases with their radii, and where each came from; from
        counts also `report`: a status for each column, rows that are missing, and how many rows may lie where nothing can be seen.

    Raises
    ------
    {raises}

    Privacy
    -------
    Neighbours: replace one private row; holds for every public data set. From counts: one joint count of all columns (squared l2
    sensitivity 2 dim S^2, l1 sensitivity 2 dim S in steps of S for a row), with several columns one of norms (2 S^2; 2 S), and one
    vector sum (4 Q^2; isqrt(4 dim Q^2)); where released numbers ask for it, further counts and sums like these.
    "gaussian": one vector sum per step. Gaussian noise (zCDP, approximate DP) or discrete Laplace noise (pure DP); the exact costs
    add up to at most the budget. Public: n_priv, dim, x_pub.

    Notes
    -----
    "gaussian" is paper A, Claim 2.1, Lemma 2.2 and Theorem 2.3. Departs from it: several public rows are averaged; for a gap above
    zero the radius uses the exact inequalities behind Lemma B.9; pure DP uses discrete Laplace noise in place of the inefficient
    cover.
    The counts are our own: numbers about a public one fall into signed dyadic cells, so that no unit is needed; tails beyond what
    can be seen follow a power law that bends, and the interval allows for what they may hide. A column that lies far from its
    public row is counted again about its own mean. Public rows far from all private ones that can be seen are not believed.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ZCDP, estimate_mean
    >>> rng = np.random.default_rng(0)
    >>> private = np.column_stack([rng.normal(1e6, 1.0, 20_000), rng.lognormal(3.0, 1.0, 20_000)])
    >>> public = np.array([[1e6 + 0.7, 15.0]])
    >>> result = estimate_mean(private, x_pub=public, budget=ZCDP(rho=0.5))
    >>> bool(np.all(np.abs(result.mean - private.mean(axis=0)) < [0.05, 2.0]))
    True
    """
    rows, public = running.open_rows(x_priv, x_pub, columns=columns)
    if public is None:
        raise InputError(
            "estimate_mean needs at least one public row: pass x_pub=, or use coinpress_mean with a centre and radius"
        )
    start = partial(
        running.start,
        "estimate_mean",
        rows,
        budget,
        ledger=ledger,
        random_state=random_state,
        threads=threads,
        progress=progress,
    )
    settings = (clipping, mode, failure_prob, pub_priv_gap, steps, missing, public_only, objective)
    try:
        chosen = _known_settings(*settings)
    except TypeError:  # no key of a table, as an array
        chosen = _checked(*settings)
    gaussian, mode, failure_prob, gap, steps, neutral, skip, whole = chosen
    gaussian = gaussian or covariance is not None or variance is not None
    limits = validation.column_bounds(bounds, rows.dim)
    if gaussian:
        _only_for(
            "clipping='auto' without covariance= or variance=",
            bounds=limits,
            missing=neutral,
            public_only=skip,
            objective=whole,
        )
        spread = {"covariance": covariance, "variance": variance}
        return _within_ball(start, public, spread, steps=steps, mode=mode, failure_prob=failure_prob, gap=gap)
    _only_for(
        "clipping='gaussian'",
        pub_priv_gap=gap > 0.0,
        failure_prob=failure_prob != FAILURE_PROB,
        steps=steps != 2,
        mode=mode != "practical",
    )
    return mean_of_columns("estimate_mean", start, public, bounds=limits, neutral=neutral, skip=skip, whole=whole)


def _checked(
    clipping: Any,
    mode: Any,
    failure_prob: Any,
    pub_priv_gap: Any,
    steps: Any,
    missing: Any,
    public_only: Any,
    objective: Any,
) -> tuple[bool, Mode, float, float, int | str, bool, bool, bool]:
    """The settings of a call, checked: ball, mode, failure_prob, gap, steps, whole rows only, public rows if they do, l2."""
    return (
        validation.choice("clipping", clipping, ("auto", "gaussian")) == "gaussian",
        validation.choice("mode", mode, ("practical", "theory")),
        failure_probability(failure_prob),
        validation.fraction("pub_priv_gap", pub_priv_gap),
        step_count(steps),
        validation.choice("missing", missing, ("observed", "neutral")) == "neutral",
        validation.choice("public_only", public_only, ("never", "auto")) == "auto",
        validation.choice("objective", objective, ("columns", "l2")) == "l2",
    )


_known_settings = lru_cache(maxsize=64, typed=True)(_checked)  # calls come in loops, with the same settings


def _only_for(case: str, **given: Any) -> None:
    """Refuse arguments that the way of clipping does not read."""
    for name, value in given.items():
        if value is not None and value is not False:
            raise InputError(f"{name}= belongs to {case}: leave it out, or pass another clipping=")


def _within_ball(
    start: Callable[..., running.Run],
    public: FloatArray,
    spread: dict[str, Any],
    *,
    steps: int | str,
    mode: Mode,
    failure_prob: float,
    gap: float,
) -> MeanResult:
    """The mean from a ball around the public rows that is narrowed step by step."""
    if isinstance(spread["covariance"], str):
        running.require_squares("estimate_mean", public.shape[1], 12)
    ball, whitening, row_std = public_ball(public, **spread, failure_prob=failure_prob, pub_priv_gap=gap)
    unit_std = whitening.row_std() if isinstance(spread["covariance"], str) else row_std
    # All columns share one factor between the whitened unit and a row's standard deviation: sqrt(eig_upper), or one.
    row_unit = float(unit_std[0] / row_std[0])
    run = start(draws=most_steps(steps) * public.shape[1])
    count = choose_steps(run, ball, steps, mode=mode, failure_prob=failure_prob)
    path = path_of(run, ball, count, mode=mode, failure_prob=failure_prob)
    n, dim = run.rows.n, run.rows.dim
    running.warn_if_useless(
        "estimate_mean",
        path.predicted_error(n, dim, row_unit),
        math.hypot(math.sqrt(dim / len(public)), gap_shift(gap)),
    )
    inverse = whitening.inverse
    from_public = isinstance(spread["covariance"], str)
    with run.paid():
        estimate, noise_std = refine(run, ball.center, whitening, inverse, path.steps)
        return mean_result(
            run,
            estimate,
            noise_std,
            unit_std,
            row_std,
            n_pub=len(public),
            provenance={
                "center": "public rows",
                "radius": "public rows",
                "covariance": "public rows" if from_public else "argument",
            },
        )
