"""`estimate_mean`: the mean of private rows with public ones, by a method of `mean_methods`, or of each group by `group_means`."""

from __future__ import annotations

from typing import Any, Unpack, overload

from fastpubpriv import session
from fastpubpriv._types import (
    Clipping,
    ColumnNames,
    Keep,
    Missing,
    Mode,
    Objective,
    PublicOnly,
    RowsPerPerson,
    Steps,
)
from fastpubpriv.estimators.call_options import MeanOptions
from fastpubpriv.estimators.group_means import mean_of_groups
from fastpubpriv.estimators.mean_methods import MeanSettings, changed_settings, method_of
from fastpubpriv.estimators.user_level import user_level
from fastpubpriv.privacy import Budget, Ledger
from fastpubpriv.results.by_key import GroupMeans
from fastpubpriv.results.estimates import MeanResult
from fastpubpriv.shared_docs import FAILURE_PROB, shared_docs


@overload
def estimate_mean(
    x_priv: Any, *, x_pub: Any, budget: Budget, by: None = None, **options: Unpack[MeanOptions]
) -> MeanResult: ...


@overload
def estimate_mean(
    x_priv: Any,
    *,
    x_pub: Any,
    budget: Budget,
    by: ColumnNames,
    groups: Any = None,
    **options: Unpack[MeanOptions],
) -> GroupMeans: ...


@shared_docs
@user_level
def estimate_mean(
    x_priv: Any,
    *,
    x_pub: Any,
    budget: Budget,
    clipping: Clipping | MeanSettings = "auto",
    objective: Objective = "columns",
    covariance: Any = None,
    variance: Any = None,
    bounds: Any = None,
    missing: Missing = "observed",
    public_only: PublicOnly = "never",
    pub_priv_gap: float = 0.0,
    failure_prob: float = FAILURE_PROB,
    steps: Steps = 2,
    mode: Mode = "practical",
    by: Any = None,
    groups: Any = None,
    columns: Any = None,
    person: Any = None,
    keep: Keep | None = None,
    rows_per_person: RowsPerPerson | None = None,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> MeanResult | GroupMeans:
    """Mean of private rows in any unit and of any shape, with as little as one public row instead of a range.

    Parameters
    ----------
    {x_priv}
    {gappy_pub}
        Not for "gaussian", whose public rows are finite.
    {budget}
    clipping : "auto", "counts" or "gaussian"
        "counts": private counts give the location and range of each column, and the rest of the budget pays for one clipped sum.
        "gaussian": the ball of paper A, for approximately Gaussian rows with the `covariance` or `variance`. "auto" is "gaussian"
        if one of these is given, else "counts".
    objective : "columns" or "l2"
        For counts, how noise is distributed: "columns" makes it equal in units of the columns' deviations; "l2" minimizes the
        squared error of the whole vector in data units, which columns with large deviations dominate.
    covariance : (dim, dim) array-like or "public", optional
        For "gaussian": covariance of a private row: a public matrix; or "public": estimated from at least dim + 1 public rows, with
        the clip radius widened for their sampling error. By default the identity.
    variance : float or (dim,), optional
        In place of `covariance`, for columns assumed independent: one public variance, or one for each column. If the public rows
        vary more than is assumed, the result is "clipped".
    bounds : None or (lowest, highest)
        For counts: numbers or vectors (dim,) between which every value is known to lie. Intervals are
        cut at them; that of a constant column becomes finite. The report says how far undetected rows would move a mean. Tight
        bounds take the place of the counts, if five public values or more, not all equal, in every column predict about as small
        an error: no row is undetected then, and `provenance` says that clipping is by "bounds".
    missing : "observed" or "neutral"
        For counts: treatment of entries that are not finite numbers. "observed": the mean of a column is that of its numbers.
        "neutral": a row with such an entry is left out in every column.
    public_only : "never" or "auto"
        For counts. "auto": if at least 30 public rows alone are predicted to be more accurate, return their mean; nothing is then
        spent or read.
    {pub_priv_gap, failure_prob}
        For "gaussian", as are `steps` and `mode`; the bound is the radius derived from the public rows.
    steps : int or "auto"
        1 is clip-and-noise; t > 1 refines the ball t - 1 times before the last release, which spends 3/4 of the budget.
        "auto" minimizes the predicted error.
    {mode}
        "theory" uses Lemma 2.2 for one step.
    {by, groups}
        For counts.
    {matched_columns, person, keep, rows_per_person, ledger, random_state, threads, progress}

    Returns
    -------
    MeanResult
        `mean` (dim,), noise level and intervals in data units, the releases with their radii, and the source of each; from
        counts also reasons for each column and `report`: the missing rows, and how many may lie far out undetected.
        With `by` a GroupMeans: means, counts, intervals and reasons for each group and column.

    Raises
    ------
    {raises}

    Privacy
    -------
    Neighbors: replace one private row; holds for every public data set. From counts: one joint count of all columns (squared l2
    sensitivity 2 dim S^2, l1 sensitivity 2 dim S in steps of S for a row), with several columns one of norms (2 S^2; 2 S), and one
    vector sum (4 Q^2; isqrt(4 dim Q^2)); if released numbers require it, further counts and sums like these. Within tight bounds:
    one joint release of the number, sum and sum of squares of each column (4 dim Q^2; without squares 2 dim Q), which public
    numbers alone choose.
    With `by`: the joint count, one of groups by cells of each column (squared l2 2 dim S^2, l1 2 dim S), and one joint release of
    the rows, sums and sums of squares of all groups (4 dim Q^2 together; without squares 5/2 dim Q in l1), whatever their number.
    "gaussian": one vector sum per step. Gaussian noise (zCDP, approximate DP) or discrete Laplace noise (pure DP); the exact costs
    add up to at most the budget. Public: n_priv, dim, x_pub.

    Notes
    -----
    "gaussian" is paper A, Claim 2.1, Lemma 2.2 and Theorem 2.3. Departs from it: several public rows are averaged; for a gap above
    zero the radius uses the exact inequalities behind Lemma B.9; pure DP uses discrete Laplace noise in place of the inefficient
    cover.
    The counts are not from a paper: values relative to a public one fall into signed dyadic cells, so that no unit is needed.
    Beyond the detected rows, each factor of two in distance holds at most half as many rows as the one before, since a heavier tail
    has no mean. The estimate shrinks the noisy counts there towards that rule, and the interval allows for as many rows as both
    permit. A column whose rows lie close together but far from its public ones (if these are several, by over 100 of their
    deviations) is counted again about its own mean. Public rows far from all detected private ones are ignored.
    Each group is clipped by its own noisy counts, shrunk toward the shape of all rows; its mean is not shrunk. A group whose sums
    contradict that shape is corrected by its counts alone, with a wider interval.

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
    given = locals()
    asked = session.asked(ledger, random_state, threads, progress)
    if by is not None or groups is not None:
        return mean_of_groups(asked=asked, **given)
    method, settings = method_of(clipping, changed_settings(given))
    rows, public = method.opened(x_priv, x_pub, columns)
    draws = method.draws(rows.dim, settings)
    run = session.start("estimate_mean", rows, budget, draws=draws, **asked)
    result: MeanResult = method.learn(run, public, settings)
    return result
