"""The private mean from one or more public rows (paper A, section 2.1)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fastpubpriv import run as running
from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.estimators.coinpress import (
    Ball,
    check_path,
    choose_steps,
    mean_result,
    most_steps,
    predicted_error,
    predicted_path,
    refine,
)
from fastpubpriv.estimators.preconditioner import precondition
from fastpubpriv.estimators.radii import Mode, failure_probability, gap_radius, gap_shift
from fastpubpriv.estimators.whitening import Whitening, known_root
from fastpubpriv.parameters import FAILURE_PROB, shared_docs
from fastpubpriv.privacy import Budget, Ledger
from fastpubpriv.results.estimates import MeanResult


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
    return Ball(x_pub.mean(axis=0), radius), whitening, whitening.row_std()


@shared_docs
def estimate_mean(
    x_priv: Any,
    *,
    x_pub: Any,
    budget: Budget,
    covariance: Any = None,
    variance: Any = None,
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
    """Mean of private rows, with the range taken from as little as one public row instead of a guess.

    Parameters
    ----------
    {x_priv}
        A row with a missing or infinite entry counts as a row at the public centre.
    x_pub : (n_pub, dim) or (dim,) array-like, path, frame or table
        Public rows, at least one, finite.
    {budget}
    covariance : (dim, dim) array-like or "public", optional
        Covariance of a private row: a public matrix; or "public": estimated from at least dim + 1 public rows, with the clip
        radius widened for what they leave uncertain. By default the identity.
    variance : float or (dim,), optional
        Instead of `covariance`, for columns taken as independent: one public variance, or one for each column.
    {pub_priv_gap, failure_prob}
        The bound is the radius derived from the public rows.
    steps : int or "auto"
        1 is clip-and-noise; t > 1 refines the ball t - 1 times before the last release, which spends 3/4 of the budget.
        "auto" takes the least predicted error.
    {mode}
        Theory has Lemma 2.2 for one step.
    {matched_columns, ledger, random_state, threads, progress}

    Returns
    -------
    MeanResult
        `mean` (dim,), noise level and intervals in data units, the releases with their radii, and where each came from.

    Raises
    ------
    {raises}

    Privacy
    -------
    Neighbours: replace one private row; holds for every public data set. One Gaussian (zCDP, approximate DP) or discrete Laplace
    (pure DP) vector sum per step, squared l2 sensitivity 4 Q^2 or l1 sensitivity isqrt(4 dim Q^2) in grid steps; the exact costs
    add up to at most the budget. Public: n_priv, dim, x_pub.

    Notes
    -----
    Paper A, Claim 2.1 and Lemmas 2.2 and 2.3. Departs from it: several public rows are averaged; for a gap above zero
    the radius uses the exact inequalities behind Lemma B.9; pure DP uses discrete Laplace noise in place of the
    inefficient cover.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ZCDP, estimate_mean
    >>> rng = np.random.default_rng(0)
    >>> private = rng.normal(1e6, 1.0, size=(20_000, 10))
    >>> public = rng.normal(1e6, 1.0, size=(1, 10))
    >>> result = estimate_mean(private, x_pub=public, budget=ZCDP(rho=0.5))
    >>> result
    MeanResult(dim=10, n_priv=20000, spent=ZCDP(rho=0.5))
    >>> bool(np.all(np.abs(result.mean - 1e6) < 0.1))
    True
    """
    rows, public = running.open_rows(x_priv, x_pub, columns=columns)
    if public is None:
        raise InputError(
            "estimate_mean needs at least one public row: pass x_pub=, or use coinpress_mean with a centre and radius"
        )
    mode = validation.choice("mode", mode, ("practical", "theory"))
    failure_prob = failure_probability(failure_prob)
    gap = validation.fraction("pub_priv_gap", pub_priv_gap)
    ball, whitening, row_std = public_ball(
        public, covariance=covariance, variance=variance, failure_prob=failure_prob, pub_priv_gap=gap
    )
    # All columns share one factor between the whitened unit and a row's standard deviation: sqrt(eig_upper), or one.
    row_unit = float(whitening.row_std()[0] / row_std[0])
    run = running.start(
        "estimate_mean",
        rows,
        budget,
        draws=most_steps(steps) * rows.dim,
        ledger=ledger,
        random_state=random_state,
        threads=threads,
        progress=progress,
    )
    count = choose_steps(run, ball, steps, mode=mode, failure_prob=failure_prob)
    path = predicted_path(run, ball, count, mode=mode, failure_prob=failure_prob)
    running.warn_if_useless(
        "estimate_mean",
        predicted_error(run, path, row_unit),
        math.hypot(math.sqrt(rows.dim / len(public)), gap_shift(gap)),
    )
    check_path(run, path)
    inverse = whitening.inverse
    from_public = isinstance(covariance, str)
    with run.paid():
        estimate, noise_std = refine(run, ball, whitening, inverse, steps=count, mode=mode, failure_prob=failure_prob)
        return mean_result(
            run,
            estimate,
            noise_std,
            whitening,
            row_std,
            n_pub=len(public),
            provenance={
                "center": "public rows",
                "radius": "public rows",
                "covariance": "public rows" if from_public else "argument",
            },
        )
