"""List decoders: short lists with a scale, a mean or a Gaussian close to each component of a mixture."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from fastpubpriv import session, validation
from fastpubpriv._types import Accounting, FloatArray, Keep, Mode, RowsPerPerson
from fastpubpriv.defaults import FAILURE_PROB
from fastpubpriv.errors import BudgetError, InputError, warn
from fastpubpriv.estimators.user_level import user_level
from fastpubpriv.kernels.bins import BinRule
from fastpubpriv.mechanisms.stable_histograms import Partition, StableHistograms, check_memory
from fastpubpriv.mixtures.list_decoding import results
from fastpubpriv.mixtures.list_decoding.results import AxisAlignedLists, MeanLists, ScaleLists
from fastpubpriv.privacy import Budget, Ledger, StableHistogramEvent
from fastpubpriv.privacy.calibrated_budget import has_delta
from fastpubpriv.privacy.calibration import paper_event, stable_event
from fastpubpriv.results.reasons import Reason, Reasons
from fastpubpriv.session import Session
from fastpubpriv.sources import Rows
from fastpubpriv.sources.views import linear_rows, pairs_of, split_rows

# ---- Constants, checks and account of the list decoders, before rows are read ------------------------------------------

MAX_SCALES = 48
# minimum weight of a component; no noisy count detects fewer rows than one in a billion
LEAST_WEIGHT = 1e-9


def start_decoding(
    name: str,
    rows: Rows,
    budget: Budget,
    thresholds: Thresholds,
    partitions: Sequence[tuple[Sequence[Partition], int]],
    needed: Callable[[], int],
    **options: Any,
) -> Session:
    """Start the session after every check of public numbers, with one stage for each (partitions, rows); warn if the theorem
    requires more rows than there are.
    """
    if not has_delta(budget):
        raise BudgetError(
            f"{name} has no range to rely on, so it needs a delta: pass ApproxDP(epsilon=..., delta=...)"
        )
    draws = sum(len(part.levels) * part.slots(n) for parts, n in partitions for part in parts)
    run = session.start(name, rows, budget, draws=draws, **options)
    for parts, n in partitions:
        check_histograms(run, parts, n)
    if thresholds.theory and rows.n < (least := needed()):
        warn(
            f"{name}: the theorem asks for {least} rows at this weight and budget, and there are {rows.n}; pass more rows, a "
            "larger budget, or mode='practical'",
        )
    return run


def check_histograms(run: Session, partitions: Sequence[Partition], n: int) -> StableHistogramEvent:
    """Return the noise of one joint release on n rows. Raise, before the debit, if none exists, or memory is too small."""
    check_memory(partitions, n, run.executor)
    return stable_event(
        *run.account.approx_left, histograms=len(partitions), n=n, draws=len(partitions) * n
    )


def common_fields(run: Session, thresholds: Thresholds, columns: Any) -> dict[str, Any]:
    """Return the fields that the results of all decoders share."""
    return {
        "mode": "theory" if thresholds.theory else "practical",
        "min_weight": thresholds.min_weight,
        "columns": columns,
        **run.fields(0),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Minimum share of rows in a listed bin, and the maximum length of lists. Public; privacy does not depend on it."""

    min_weight: float  # w = 1 - gamma: Gaussians of at least this weight must be listed
    # the paper's constants (w^2 / 8 and w / 8, and an empty list if more than 12 / w^2 or 12 / w bins exceed them), or else
    # half of the mass in the best bin of such a Gaussian
    theory: bool = False
    # practical constants only: the bins of largest noisy counts are listed
    max_scales: int = MAX_SCALES
    failure_prob: float = FAILURE_PROB  # of the theorem

    @classmethod
    def of(
        cls, min_weight: Any, mode: Mode, failure_prob: Any, max_scales: Any = MAX_SCALES
    ) -> Thresholds:
        """Return the thresholds of the arguments of a call. Raise InputError if one is out of range."""
        theory = validation.choice("mode", mode, ("practical", "theory")) == "theory"
        weight = validation.positive("min_weight", min_weight)
        if not LEAST_WEIGHT <= weight <= 1.0:
            raise InputError(f"min_weight must lie in [{LEAST_WEIGHT:g}, 1], got {min_weight!r}")
        most = validation.integer(
            "max_scales", max_scales, minimum=1, maximum=results.DYADIC_SCALES
        )
        beta = validation.probability("failure_prob", failure_prob)
        return cls(min_weight=weight, theory=theory, max_scales=most, failure_prob=beta)

    @property
    def scale_share(self) -> float:
        """Minimum share of the pairs in a listed bin of scales."""
        return self.min_weight**2 * (0.125 if self.theory else 0.5 * results.SCALE_MASS)

    @property
    def mean_share(self) -> float:
        """Minimum share of the rows in a listed bin of means."""
        return self.min_weight * (0.125 if self.theory else 0.5 * results.MEAN_MASS)

    @property
    def scale_bound(self) -> int:
        """Maximum number of scales of one column that stage one returns."""
        return (
            min(results.DYADIC_SCALES, results.scale_list_bound(self.min_weight))
            if self.theory
            else self.max_scales
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CoarseList:
    """Scales of a column (powers of two), or midpoints of bins of width `scale`, (t,) ascending, with noisy counts (t,)."""

    entries: FloatArray
    counts: FloatArray
    scale: float = math.nan

    @property
    def reasons(self) -> Reasons:
        """UNRESOLVED if the list is empty."""
        return () if len(self.entries) else (Reason.UNRESOLVED,)


def scale_partitions(dim: int) -> list[Partition]:
    """Return the dyadic histogram of each column."""
    return [Partition((column,), (BinRule(),)) for column in range(dim)]


def mean_partitions(scales: Sequence[Sequence[float]]) -> list[Partition]:
    """Return one histogram for each column and scale, with bins of the scale's width centered at its multiples."""
    return [
        Partition((column,), (BinRule(scale),))
        for column, listed in enumerate(scales)
        for scale in listed
    ]


def release_scales(
    run: Session, thresholds: Thresholds, *, cost: tuple[Fraction, Fraction] | None = None
) -> list[CoarseList]:
    """Run Algorithm 3 on all columns jointly: dyadic bins of |x - x'| / sqrt(2) over pairs of neighboring positions."""
    # One row is in one pair, so replacing it replaces a pair. `cost` None is the whole remaining budget of the account.
    pairs = pairs_of(run.rows)
    released = run.on(pairs).release(
        StableHistograms(partitions=scale_partitions(pairs.dim)),
        name="scales",
        cost=cost or run.account.approx_left,
    )
    lists = []
    for histogram in released.histograms:
        occupied = np.flatnonzero(histogram.counts / pairs.n > thresholds.scale_share)
        if thresholds.theory and len(occupied) > thresholds.scale_bound:
            occupied = occupied[:0]  # line 6: too many bins for the assumption of the theorem
        elif len(occupied) > thresholds.scale_bound:
            largest = np.argsort(-histogram.counts[occupied], kind="stable")[
                : thresholds.scale_bound
            ]
            occupied = np.sort(occupied[largest])
        exponents = histogram.keys[occupied, 0].astype(np.int32) + 1
        # The last dyadic bin ends at 2^1024, which overflows, and dividing by the first ones would.
        usable = (exponents <= 1023) & (exponents > -1022)
        lists.append(
            CoarseList(
                entries=np.ldexp(1.0, exponents[usable]), counts=histogram.counts[occupied][usable]
            )
        )
    return lists


def release_means(
    run: Session,
    scales: Sequence[Sequence[float]],
    thresholds: Thresholds,
    *,
    event: StableHistogramEvent | None = None,
) -> list[list[CoarseList]]:
    """Run Algorithm 2 on all columns and scales jointly; spend the cost of `event`, or the remaining budget of the account."""
    partitions = mean_partitions(scales)
    if not partitions:
        return [[] for _ in scales]
    released = run.release(
        StableHistograms(partitions=partitions, event=event),
        name="means",
        cost=run.account.approx_left,
    )
    histograms = iter(released.histograms)
    bound = results.mean_list_bound(thresholds.min_weight)
    lists: list[list[CoarseList]] = []
    for listed in scales:
        column = []
        for scale in listed:
            histogram = next(histograms)
            occupied = np.flatnonzero(histogram.counts / run.rows.n > thresholds.mean_share)
            if thresholds.theory and len(occupied) > bound:
                occupied = occupied[:0]
            means = histogram.keys[occupied, 0] * float(scale)
            column.append(
                CoarseList(entries=means, counts=histogram.counts[occupied], scale=float(scale))
            )
        lists.append(column)
    return lists


# ---- List decoders of one parameter: scales of any mixture, or means for a known scale -----------------------------------


@user_level
def decode_variances(
    x_priv: Any,
    *,
    budget: Budget,
    min_weight: float = 0.1,
    mode: Mode = "practical",
    max_scales: int = MAX_SCALES,
    failure_prob: float = FAILURE_PROB,
    columns: Any = None,
    person: Any = None,
    keep: Keep | None = None,
    rows_per_person: RowsPerPerson | None = None,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> ScaleLists:
    """Coarse scales of the Gaussians that a column may be a mixture of, with no range given.

    Parameters
    ----------
    x_priv : (n_priv,) or (n_priv, dim) array-like, path, frame, table or Rows
        Private rows, or the values of one column.
        Rows of neighboring positions are paired; an odd last one is dropped.
    budget : ApproxDP
        Spent whole, for all columns together, and debited before `x_priv` is read.
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

    min_weight : float in (0, 1]
        Gaussians of at least this weight are to be found: 1 - gamma in the paper.
    mode : "practical" or "theory"
        Constants that do well in practice, or those of the proofs. Same privacy.
        "practical" lists bins with half the mass in the best bin of such a Gaussian, at most `max_scales` of them; "theory"
        returns an empty list if there are more than 12 / min_weight^2.
    max_scales : int
        With mode="practical", maximum length of the list of a column.
    failure_prob : float in (0, 1), default 0.05
        Probability with which a bound of this call may fail. A failure costs accuracy, never privacy.
        With mode="theory", warn, from public numbers, if the theorem requires more rows.

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
    ScaleLists
        `scales[j]`: powers of two, one of them in [sigma, 2 sigma) of each Gaussian found in column j; `part_reasons[j]`.

    Raises
    ------
    InputError, BudgetError, LedgerError
        For public data and arguments, the form of the private data, and the budget. Never for the content of `x_priv`.

    Privacy
    -------
    Protected: every private row, against replacement by any other. Rows are paired by position, so that one pair is replaced.
    Public: n_priv, dim. Released: one stable histogram of powers of two for each column, all at once, for the whole (epsilon,
    delta).

    Proof: `notes/stable_histogram.md`.

    See Also
    --------
    decode_means : the scale is known.
    decode_gaussians : scales and means of one column.
    decode_axis_aligned : both for every column of a table.

    Notes
    -----
    Algorithm 3 of Aden-Ali, Ashtiani, Liaw (2021), Lemma 4.7, with pairs fixed by position. Differences between components add
    scales near the distances of their means. Equal values (rounded data) differ by zero, which is in no bin: if more than half
    of the pairs are equal, first add public noise of the size of the rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ApproxDP
    >>> values = np.random.default_rng(0).normal(1e6, 3.0, size=20_000)
    >>> lists = decode_variances(values, budget=ApproxDP(epsilon=1, delta=1e-6))
    >>> 4.0 in lists.scales[0]
    True
    """
    rows, _ = session.open_rows(x_priv, columns=columns)
    thresholds = Thresholds.of(min_weight, mode, failure_prob, max_scales)
    if rows.n < 2:
        raise InputError("differences of rows need at least two rows, got 1")
    run = start_decoding(
        "decode_variances",
        rows,
        budget,
        thresholds,
        [(scale_partitions(rows.dim), rows.n // 2)],
        lambda: results.variance_rows(
            thresholds.min_weight, budget, thresholds.failure_prob, dim=rows.dim
        ),
        **session.asked(ledger, random_state, threads, progress),
    )
    with run.paid():
        lists = release_scales(run, thresholds)
        return ScaleLists(
            scales=tuple(item.entries for item in lists),
            counts=tuple(item.counts for item in lists),
            part_reasons=tuple(item.reasons for item in lists),
            **common_fields(run, thresholds, rows.columns),
        )


@user_level
def decode_means(
    x_priv: Any,
    *,
    std: Any,
    budget: Budget,
    min_weight: float = 0.1,
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
    max_memory: float | None = None,
) -> MeanLists:
    """Coarse means of Gaussians of known scale, with no range given.

    Parameters
    ----------
    x_priv : (n_priv,) or (n_priv, dim) array-like, path, frame, table or Rows
        Private rows, or the values of one column.
    std : float or (dim,)
        A public scale for each column: at least the standard deviation of the Gaussians to be found, and less than twice that.
    budget : ApproxDP
        Spent whole, for all columns together, and debited before `x_priv` is read.
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

    min_weight : float in (0, 1]
        Gaussians of at least this weight are to be found: 1 - gamma in the paper.
    mode : "practical" or "theory"
        Constants that do well in practice, or those of the proofs. Same privacy.
        "practical" lists bins with half the mass in the best bin of such a Gaussian; "theory" returns an empty list if there are
        more than 12 / min_weight.
    failure_prob : float in (0, 1), default 0.05
        Probability with which a bound of this call may fail. A failure costs accuracy, never privacy.
        With mode="theory", warn, from public numbers, if the theorem requires more rows.

    ledger : Ledger, optional
        Debited before the first read, by what `budget` says is spent.
    random_state : None or int
        None: fresh operating-system keys. int: repeatable, warned about, `private=False`.
    threads : int, optional
        Number of threads; by default one for each core. Passes over few numbers wake none. Never changes the answer.
    progress : bool, optional
        Whether a progress bar is shown; by default on a terminal, for long work.
    max_memory : float, optional
        Most bytes that counting may take, were every row in a bin of its own; by default no limit. A call that may need more is
        refused before it pays, by public numbers alone. Never changes the answer.

    Returns
    -------
    MeanLists
        `means[j]`: midpoints of bins, one of them within sigma of the mean of each Gaussian found in column j; `part_reasons[j]`.

    Raises
    ------
    InputError, BudgetError, LedgerError
        For public data and arguments, the form of the private data, and the budget. Never for the content of `x_priv`.

    Privacy
    -------
    Protected: every private row, against replacement by any other. Public: n_priv, dim, std. Released: one stable histogram for
    each column, with bins as wide as its scale, all at once, for the whole (epsilon, delta).

    Proof: `notes/stable_histogram.md`.

    See Also
    --------
    decode_variances : the scale is not known.
    decode_gaussians : scales and means of one column.
    decode_axis_aligned : both for every column of a table.

    Notes
    -----
    Algorithm 2 of Aden-Ali, Ashtiani, Liaw (2021), Lemma 4.2. The paper's ceiling is read as the nearest integer: bin i is
    ((i - 1/2) std, (i + 1/2) std].

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ApproxDP
    >>> values = np.random.default_rng(0).normal([-7e5, 3.0], 1.0, size=(10_000, 2)).ravel()
    >>> lists = decode_means(values, std=1.5, budget=ApproxDP(epsilon=1, delta=1e-6))
    >>> bool(abs(lists.means[0] - 3.0).min() < 1.0 and abs(lists.means[0] + 7e5).min() < 1.0)
    True
    """
    rows, _ = session.open_rows(x_priv, columns=columns)
    thresholds = Thresholds.of(min_weight, mode, failure_prob)
    widths = session.vector_or_number("std", std, rows.dim)
    if not (widths > 0.0).all():
        raise InputError("std must be above 0 in every column")
    options = session.asked(ledger, random_state, threads, progress, max_memory=max_memory)
    run = _start_means("decode_means", rows, widths, budget, thresholds, **options)
    with run.paid():
        lists = [column[0] for column in release_means(run, widths[:, None].tolist(), thresholds)]
        return MeanLists(
            scale=widths,
            means=tuple(item.entries for item in lists),
            counts=tuple(item.counts for item in lists),
            part_reasons=tuple(item.reasons for item in lists),
            **common_fields(run, thresholds, rows.columns),
        )


# ---- List decoders of Gaussians: short lists with one close to each component of a mixture, without a known range ---------


@user_level
def decode_gaussians(
    x_priv: Any,
    *,
    budget: Budget,
    min_weight: float = 0.1,
    mode: Mode = "practical",
    max_scales: int = MAX_SCALES,
    failure_prob: float = FAILURE_PROB,
    accounting: Accounting = "exact",
    columns: Any = None,
    person: Any = None,
    keep: Keep | None = None,
    rows_per_person: RowsPerPerson | None = None,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
    max_memory: float | None = None,
) -> AxisAlignedLists:
    """Coarse (mean, scale) pairs of the Gaussians that one column may be a mixture of, with no range given.

    Parameters
    ----------
    x_priv : (n_priv,) or (n_priv, dim) array-like, path, frame, table or Rows
        Private rows, or the values of one column.
        One column only, so dim is 1. The first half of the rows gives scales, the second half means.
    budget : ApproxDP
        Spent whole, for all columns together, and debited before `x_priv` is read.
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

    min_weight : float in (0, 1]
        Gaussians of at least this weight are to be found: 1 - gamma in the paper.
    mode : "practical" or "theory"
        Constants that do well in practice, or those of the proofs. Same privacy.
        See `decode_variances`.
    max_scales : int
        With mode="practical", maximum number of scales.
    failure_prob : float in (0, 1), default 0.05
        Probability with which a bound of this call may fail. A failure costs accuracy, never privacy.
        With mode="theory", warn, from public numbers, if the theorem requires more rows.
    accounting : "exact" or "paper"
        "exact": each half has the whole budget, as the halves are disjoint. "paper": the noise of the paper's composition, half of
        the budget for scales and far less for each histogram of means. Its exact cost is lower; a BudgetError is raised if it could
        exceed the budget for the maximum number of scales.

    ledger : Ledger, optional
        Debited before the first read, by what `budget` says is spent.
    random_state : None or int
        None: fresh operating-system keys. int: repeatable, warned about, `private=False`.
    threads : int, optional
        Number of threads; by default one for each core. Passes over few numbers wake none. Never changes the answer.
    progress : bool, optional
        Whether a progress bar is shown; by default on a terminal, for long work.
    max_memory : float, optional
        Most bytes that counting may take, were every row in a bin of its own; by default no limit. A call that may need more is
        refused before it pays, by public numbers alone. Never changes the answer.

    Returns
    -------
    AxisAlignedLists
        With one column; `coarse(0)` returns the pairs, `net(0, accuracy)` the fine list.

    Raises
    ------
    InputError, BudgetError, LedgerError
        For public data and arguments, the form of the private data, and the budget. Never for the content of `x_priv`.

    Privacy
    -------
    Protected: every private row, against replacement by any other. Public: n_priv. Released: one stable histogram of scales
    from the first half of the rows, and stable histograms of means, all at once, from the second. A row is in one of the
    halves, so that each has the whole (epsilon, delta).

    Proof: `notes/stable_histogram.md`.

    See Also
    --------
    decode_axis_aligned : both for every column of a table.
    decode_means : the scale is known.
    fastpubpriv.learn_axis_aligned_mixture : a mixture, not a list.

    Notes
    -----
    Algorithm 4 of Aden-Ali, Ashtiani, Liaw (2021). Departs from it: standard deviations are paired with the means of their scale
    (the paper crosses all), each half has the whole budget, and the histograms of all scales have the same noise level.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ApproxDP
    >>> rng = np.random.default_rng(0)
    >>> values = np.where(rng.random(40_000) < 0.4, rng.normal(1e5, 3.0, 40_000), rng.normal(-20.0, 0.5, 40_000))
    >>> lists = decode_gaussians(values, budget=ApproxDP(epsilon=1, delta=1e-6))
    >>> means, scales, counts = lists.coarse(0)
    >>> bool(((abs(means - 1e5) < 3.0) & (scales == 4.0)).any() and ((abs(means + 20.0) < 0.5) & (scales == 0.5)).any())
    True
    """
    rows, _ = session.open_rows(x_priv, columns=columns)
    if rows.dim != 1:
        raise InputError(
            f"decode_gaussians takes one column, got {rows.dim}; use decode_axis_aligned"
        )
    thresholds = Thresholds.of(min_weight, mode, failure_prob, max_scales)
    paper = validation.choice("accounting", accounting, ("exact", "paper")) == "paper"
    options = session.asked(ledger, random_state, threads, progress, max_memory=max_memory)
    return _decode("decode_gaussians", rows, budget, thresholds, paper=paper, **options)


@user_level
def decode_axis_aligned(
    x_priv: Any,
    *,
    budget: Budget,
    min_weight: float = 0.1,
    covariance: Any = None,
    mode: Mode = "practical",
    max_scales: int = MAX_SCALES,
    failure_prob: float = FAILURE_PROB,
    columns: Any = None,
    person: Any = None,
    keep: Keep | None = None,
    rows_per_person: RowsPerPerson | None = None,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
    max_memory: float | None = None,
) -> AxisAlignedLists:
    """Coarse lists for every column of a mixture of axis-aligned Gaussians, or of Gaussians with one known covariance.

    Parameters
    ----------
    x_priv : (n_priv, dim) array-like, path, frame, table or Rows
        Private rows.
        Without a covariance the first half of the rows gives scales, the second half means.
    budget : ApproxDP
        Spent whole, for all columns together, and debited before `x_priv` is read.
    covariance : (dim, dim), optional
        Public covariance that all components share. Rows are multiplied by the inverse of its Cholesky factor, and only means are
        decoded, in those coordinates.
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

    min_weight : float in (0, 1]
        Gaussians of at least this weight are to be found: 1 - gamma in the paper.
    mode : "practical" or "theory"
        Constants that do well in practice, or those of the proofs. Same privacy.
        See `decode_variances`.
    max_scales : int
        With mode="practical", maximum number of scales for each column.
    failure_prob : float in (0, 1), default 0.05
        Probability with which a bound of this call may fail. A failure costs accuracy, never privacy.
        With mode="theory", warn, from public numbers, if the theorem requires more rows.

    ledger : Ledger, optional
        Debited before the first read, by what `budget` says is spent.
    random_state : None or int
        None: fresh operating-system keys. int: repeatable, warned about, `private=False`.
    threads : int, optional
        Number of threads; by default one for each core. Passes over few numbers wake none. Never changes the answer.
    progress : bool, optional
        Whether a progress bar is shown; by default on a terminal, for long work.
    max_memory : float, optional
        Most bytes that counting may take, were every row in a bin of its own; by default no limit. A call that may need more is
        refused before it pays, by public numbers alone. Never changes the answer.

    Returns
    -------
    AxisAlignedLists
        A list for each column. A candidate component of the mixture is one member of each list; the product is never formed, and
        `list_size(accuracy)` returns its length.

    Raises
    ------
    InputError, BudgetError, LedgerError
        For public data and arguments, the form of the private data, and the budget. Never for the content of `x_priv`.

    Privacy
    -------
    Protected: every private row, against replacement by any other. Public: n_priv, dim. Released: stable histograms of scales
    of all columns, at once, from the first half of the rows, and stable histograms of means, at once, from the second. A row is
    in one of the halves, so that each has the whole (epsilon, delta). The noise grows with the square root of the number of
    histograms, whereas the paper gives each column a share of the budget.

    Proof: `notes/stable_histogram.md`.

    See Also
    --------
    decode_gaussians : one column, with the accounting of the paper.
    fastpubpriv.learn_axis_aligned_mixture : a mixture, not lists.
    fastpubpriv.select_hypothesis : the choice among members of a list.

    Notes
    -----
    Algorithm 5 and Appendix E of Aden-Ali, Ashtiani, Liaw (2021). The total variation distance of products is at most the sum over
    columns: pass accuracy / dim to `net`.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ApproxDP
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal([1e4, -3.0], [10.0, 0.2], size=(30_000, 2))
    >>> lists = decode_axis_aligned(rows, budget=ApproxDP(epsilon=1, delta=1e-6))
    >>> [len(lists.coarse(column)[0]) > 0 for column in range(2)], lists.list_size(0.5) > 100
    ([True, True], True)
    """
    rows, _ = session.open_rows(x_priv, columns=columns)
    thresholds = Thresholds.of(min_weight, mode, failure_prob, max_scales)
    options = session.asked(ledger, random_state, threads, progress, max_memory=max_memory)
    if covariance is None:
        return _decode("decode_axis_aligned", rows, budget, thresholds, paper=False, **options)
    factor = validation.symmetric_positive_definite("covariance", covariance, rows.dim)
    white = linear_rows(rows, solve_triangular(factor, np.eye(rows.dim), lower=True))
    run = _start_means(
        "decode_axis_aligned", white, np.ones(rows.dim), budget, thresholds, **options
    )
    with run.paid():
        return _lists(
            run,
            release_means(run, [[1.0]] * rows.dim, thresholds),
            thresholds,
            rows.columns,
            factor,
        )


def _start_means(
    name: str,
    rows: Rows,
    widths: FloatArray,
    budget: Budget,
    thresholds: Thresholds,
    **options: Any,
) -> Session:
    """Start the session of a decoder with a known scale for each column, after all checks and warnings."""
    stages = [(mean_partitions(widths[:, None].tolist()), rows.n)]
    needed = partial(
        results.mean_rows,
        thresholds.min_weight,
        budget,
        thresholds.failure_prob,
        histograms=rows.dim,
    )
    return start_decoding(name, rows, budget, thresholds, stages, needed, **options)


def _decode(
    name: str, rows: Rows, budget: Budget, thresholds: Thresholds, *, paper: bool, **options: Any
) -> AxisAlignedLists:
    """Decode scales from the first half of the rows and means from the second."""
    if rows.n < 4:
        raise InputError(
            f"two halves with a pair of rows each need at least four rows, got {rows.n}"
        )
    first, second = split_rows(rows, 1, 1)
    most = rows.dim * min(thresholds.scale_bound, results.DYADIC_SCALES)
    # The maximum number of histograms of means is checked; the actual one is known after the first release.
    stages = [
        (scale_partitions(rows.dim), first.n // 2),
        (mean_partitions([[1.0] * most]), second.n),
    ]

    def needed() -> int:
        weight = thresholds.min_weight
        beta = thresholds.failure_prob / 2.0
        scale_rows = results.variance_rows(weight, budget, beta, dim=rows.dim)
        return 2 * max(scale_rows, results.mean_rows(weight, budget, beta, histograms=most))

    run = start_decoding(name, rows, budget, thresholds, stages, needed, **options)
    epsilon, delta = run.account.approx_left
    scale_cost = epsilon, delta
    if paper:
        scale_cost = epsilon / 2, delta / (2 * (thresholds.scale_bound + 1))
        stable_event(*scale_cost, histograms=rows.dim, n=first.n // 2, draws=first.n)
        if paper_event(epsilon, delta, histograms=most, n=second.n, draws=most * second.n) is None:
            raise BudgetError(
                f"with up to {most} histograms the paper's parameters cost more than the budget: pass accounting='exact', a "
                "smaller epsilon, or fewer scales (max_scales)"
            )
    with run.paid():
        scales = release_scales(run.block(first), thresholds, cost=scale_cost)
        listed = [column.entries.tolist() for column in scales]
        count = sum(len(column) for column in listed)
        event = None
        if paper and count:
            # Fewer histograms than were checked should cost less, but this is not proved: None falls back to "exact".
            event = paper_event(
                epsilon, delta, histograms=count, n=second.n, draws=count * second.n
            )
        means = release_means(run.block(second), listed, thresholds, event=event)
        return _lists(run, means, thresholds, rows.columns, None)


def _lists(
    run: Session,
    means: list[list[CoarseList]],
    thresholds: Thresholds,
    columns: Any,
    factor: FloatArray | None,
) -> AxisAlignedLists:
    return AxisAlignedLists(
        scales=tuple(np.array([item.scale for item in column]) for column in means),
        means=tuple(tuple(item.entries for item in column) for column in means),
        counts=tuple(tuple(item.counts for item in column) for column in means),
        part_reasons=tuple(
            () if any(not item.reasons for item in column) else (Reason.UNRESOLVED,)
            for column in means
        ),
        factor=factor,
        **common_fields(run, thresholds, columns),
    )
