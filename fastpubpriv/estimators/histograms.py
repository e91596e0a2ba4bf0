"""Stable histograms of one or several columns over an unbounded domain, and their bins."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fastpubpriv import session, validation
from fastpubpriv._types import FloatArray, HistogramNoise, IntArray, Keep, Pad, RowsPerPerson
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.estimators.user_level import user_level
from fastpubpriv.kernels.bins import WORDS_MAX, BinRule
from fastpubpriv.mechanisms import stable_histograms
from fastpubpriv.privacy import Budget, Ledger
from fastpubpriv.privacy.calibrated_budget import has_delta
from fastpubpriv.privacy.calibration import HISTOGRAMS_MAX, stable_event
from fastpubpriv.results.histogram import Histogram, HistogramResult
from fastpubpriv.results.reasons import Reason
from fastpubpriv.sources import Rows

# ---- Public bins over an unbounded domain


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BinGrid:
    """Unboundedly many bins of one width: bin i is [offset + i width, offset + (i + 1) width).

    A value within rounding error of an end (2^-53 of its distance from the offset, or of the width) may be in either of its bins.

    Parameters
    ----------
    width : float
        Positive; in data units.
    offset : float
        Lower end of bin 0, and hence an end of bins at every level.
    levels : int
        With L levels there is a histogram for each of the widths width, 2 width, ..., 2^(L - 1) width: a bin of level l is the
        union of 2^l neighboring finest bins. Rows are counted once, at the finest level.

    Examples
    --------
    >>> BinGrid(width=0.5, levels=3).widths
    (0.5, 1.0, 2.0)
    >>> BinGrid(width=10_000).edges(np.array([0, 1]), 0)
    (array([    0., 10000.]), array([10000., 20000.]))
    """

    width: float
    offset: float = 0.0
    levels: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", validation.positive("width", self.width))
        object.__setattr__(self, "offset", validation.finite("offset", self.offset))
        levels = validation.integer(
            "levels", self.levels, minimum=1, maximum=stable_histograms.LEVELS_MAX
        )
        object.__setattr__(self, "levels", levels)
        if not math.isfinite(self.width * 2.0 ** (levels - 1)):
            raise InputError("the widest level overflows: pass a smaller width or fewer levels")
        if not math.isfinite(self.offset + self.width / 2.0):
            raise InputError(
                "the middle of bin 0 overflows: pass a smaller width or an offset nearer to zero"
            )

    @property
    def widths(self) -> tuple[float, ...]:
        """Width of each level."""
        return tuple(math.ldexp(self.width, level) for level in range(self.levels))

    def rule(self) -> BinRule:
        """Finest bins for a kernel."""
        return BinRule(self.width, self.offset + self.width / 2.0)  # a rule has the middle of bin 0

    def edges(self, keys: IntArray, level: int) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends of the bins of a level."""
        first = keys.astype(np.float64) * 2.0**level
        with np.errstate(over="ignore"):
            return self.offset + first * self.width, self.offset + (first + 2.0**level) * self.width


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DyadicBins:
    """Bins between powers of two: bin i is 2^i < |x| <= 2^(i + 1), for i = -1075 ... 1023. Zero is in no bin.

    Examples
    --------
    >>> DyadicBins().edges(np.array([3]), 0)
    (array([8.]), array([16.]))
    """

    @property
    def levels(self) -> int:
        """Number of levels: one."""
        return 1

    def rule(self) -> BinRule:
        """Bins for a kernel."""
        return BinRule()

    def edges(self, keys: IntArray, level: int) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends of the bins of the absolute value."""
        with np.errstate(over="ignore", under="ignore"):
            exponents = keys.astype(np.int32)
            return np.ldexp(1.0, exponents), np.ldexp(1.0, exponents + 1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProductBins:
    """Joint bins of several columns: a bin is a product of one bin of each grid; a row in no bin of some grid is in none.

    Parameters
    ----------
    grids : sequence of BinGrid or DyadicBins
        One for each column. All must have the same number of levels, which is that of the product; DyadicBins has one.
    columns : sequence of int, optional
        Indices of the columns; the default is the first len(grids).

    Examples
    --------
    >>> ProductBins(grids=[BinGrid(width=1.0), BinGrid(width=2.0)]).columns
    (0, 1)
    """

    grids: Sequence[BinGrid | DyadicBins]
    columns: Sequence[int] | None = None

    def __post_init__(self) -> None:
        grids = tuple(self.grids) if isinstance(self.grids, list | tuple) else ()
        if not 1 <= len(grids) <= WORDS_MAX or not all(
            isinstance(grid, BinGrid | DyadicBins) for grid in grids
        ):
            raise InputError(
                f"grids must be a list of 1 to {WORDS_MAX} BinGrid or DyadicBins, one for each column"
            )
        if len({grid.levels for grid in grids}) > 1:
            raise InputError("the grids of a product must have the same number of levels")
        columns = range(len(grids)) if self.columns is None else self.columns
        if not isinstance(columns, list | tuple | range | np.ndarray):
            raise InputError(
                f"columns must be a list of column numbers, got {type(columns).__name__}"
            )
        columns = tuple(validation.integer("columns", column, minimum=0) for column in columns)
        if len(columns) != len(grids) or len(set(columns)) != len(columns):
            raise InputError(f"columns must name {len(grids)} different columns, one for each grid")
        object.__setattr__(self, "grids", grids)
        object.__setattr__(self, "columns", columns)


Bins = BinGrid | DyadicBins | ProductBins


# ---- Private histograms over an unbounded domain: occupied bins with noisy counts above a threshold

MAX_MEMORY = 8e9  # bytes, enough for 200 million rows in distinct bins


@user_level
def stable_histogram(
    x_priv: Any,
    *,
    bins: Bins | Sequence[Bins | None],
    budget: Budget,
    noise: HistogramNoise = "auto",
    pad: Pad = "occupied",
    columns: Any = None,
    person: Any = None,
    keep: Keep | None = None,
    rows_per_person: RowsPerPerson | None = None,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
    max_memory: float | None = MAX_MEMORY,
) -> HistogramResult:
    """Histograms of private values with no range given: noisy counts of the occupied bins of an unbounded grid.

    Parameters
    ----------
    x_priv : (n_priv,) or (n_priv, dim) array-like, path, frame, table or Rows
        Private rows, or the values of one column.
        A value that is not finite, or further than 2^53 bins from the offset, is in no bin.
    bins : BinGrid, DyadicBins, ProductBins, or a list of these
        One object: a histogram of each column (ProductBins: one over its columns). A list: one object for each column, None for a
        column without a histogram, then any ProductBins. Public, chosen before the rows are read.
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

    noise : "auto", "laplace" or "gaussian"
        Noise on the counts. "auto" chooses the distribution with the smaller threshold plus two standard deviations.
    pad : "occupied" or "all"
        Number of noise draws: the number of occupied bins, rounded up to a power of two, or of bins that n_priv rows can occupy.
        The result is the same, bit for bit. With "all" the time of this step does not depend on the number of occupied bins
        (that of counting them still does); it is much slower if few bins are occupied.

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
        That is 34 n_priv bytes for one histogram of one column, 16 n_priv for each further one, and about 10 MB for each thread
        and histogram; few occupied bins take little memory, whatever the limit.

    Returns
    -------
    HistogramResult
        `histograms`: keys, ends, noisy counts and frequencies of the released bins; `threshold`, `noise_std`.

    Raises
    ------
    InputError, BudgetError, LedgerError
        For public data and arguments, the form of the private data, and the budget. Never for the content of `x_priv`.

    Privacy
    -------
    Protected: every private row, against replacement by any other. Public: n_priv, dim, bins. Released at once: for each
    histogram the noisy counts of those occupied bins that reach a threshold, for one (epsilon, delta) of all histograms
    together, exact in integers. A bin that few rows have does not appear, and the number of occupied bins is not released.

    Proof: `notes/stable_histogram.md`.

    See Also
    --------
    value_counts : counts of keys or bins that are known beforehand; no delta is needed.
    quantiles : shares of rows instead of counts, from one public value on.
    learn_axis_aligned_mixture : a mixture of Gaussians in place of bins.

    Notes
    -----
    Histogram learner of Lemma 4.1 of Aden-Ali, Ashtiani, Liaw (2021), which specifies no constants. The threshold is the least for
    delta by the exact privacy profile: the deltas of noise and threshold enter as a maximum, not as a sum. The Gaussian noise of
    several histograms grows with the square root of their number. Time is linear in n_priv, memory in the occupied bins.
    Rounded data may fall on the ends of bins: choose an offset of half a step.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ApproxDP, stable_histogram
    >>> values = np.concatenate([np.full(3000, 1e9), np.full(1000, -7.25), [42.0]])
    >>> result = stable_histogram(values, bins=BinGrid(width=0.5), budget=ApproxDP(epsilon=1, delta=1e-8))
    >>> [(float(end), float(round(count, -2))) for end, count in zip(result[0].lower[:, 0], result[0].counts)]
    [(-7.5, 1000.0), (1000000000.0, 3000.0)]
    """
    opened, _ = session.open_rows(x_priv, columns=columns)
    noise = validation.choice("noise", noise, ("auto", "laplace", "gaussian"))
    law = None if noise == "auto" else noise
    pad = validation.choice("pad", pad, ("occupied", "all"))
    grids = _grids(bins, opened.dim)
    partitions = [
        stable_histograms.labeling_absences(
            stable_histograms.Partition(
                columns, tuple(grid.rule() for grid in parts), tuple(range(parts[0].levels))
            ),
            opened,
        )
        for columns, parts in grids
    ]
    absent_cells = _cells_of_absent_rows(grids, opened.dim)
    rows = stable_histograms.with_absences(opened, absent_cells)
    if not has_delta(budget):
        raise BudgetError(
            "a histogram over an unbounded domain needs a delta, for the bins of single rows: pass ApproxDP(epsilon=..., delta=...)"
        )
    total = sum(len(partition.levels) for partition in partitions)
    if total > HISTOGRAMS_MAX:
        raise InputError(
            f"{total} histograms are too many; pass fewer levels or columns (at most {HISTOGRAMS_MAX})"
        )
    slots = [partition.slots(rows.n) for partition in partitions for _ in partition.levels]
    asked = session.asked(ledger, random_state, threads, progress, max_memory=max_memory)
    run = session.start("stable_histogram", rows, budget, draws=sum(slots), **asked)
    stable_histograms.check_memory(partitions, rows.n, run.executor)
    session.require_memory(
        "stable_histogram", rows.dim, stable_histograms.table_memory(partitions, rows.n)
    )
    # Raise now, before the debit, if the budget has no grid for these histograms.
    stable_event(
        *run.account.approx_left,
        histograms=len(slots),
        n=run.rows.n,
        draws=sum(slots),
        law=law,
    )
    with run.paid():
        released = run.release(
            stable_histograms.StableHistograms(
                partitions=partitions, law=law, pad_all=pad == "all"
            ),
            name="histogram",
            cost=run.account.approx_left,
        )
        return HistogramResult(
            reasons=()
            if any(len(item.counts) for item in released.histograms)
            else (Reason.UNRESOLVED,),
            histograms=tuple(
                _public(
                    item, partitions[item.partition], *grids[item.partition], opened, absent_cells
                )
                for item in released.histograms
            ),
            noise_law=released.event.law,
            noise_std=released.noise_std,
            threshold=released.threshold,
            singleton_rate=released.event.singleton_rate,
            columns=opened.columns,
            provenance={"bins": "argument"},
            **{**run.fields(0), "dim": opened.dim},
        )


GridsOfColumns = tuple[tuple[int, ...], tuple[BinGrid | DyadicBins, ...]]


def _grids(bins: Any, dim: int) -> list[GridsOfColumns]:
    """Return the columns and grids of each histogram family. Raise InputError for invalid `bins`."""
    if isinstance(bins, BinGrid | DyadicBins):
        return [((column,), (bins,)) for column in range(dim)]
    listed = [bins] if isinstance(bins, ProductBins) else bins
    if not isinstance(listed, list | tuple) or not all(
        item is None or isinstance(item, Bins) for item in listed
    ):
        raise InputError(
            "bins must be BinGrid, DyadicBins, ProductBins, or a list of these with None for a column without"
        )
    single = [item for item in listed if not isinstance(item, ProductBins)]
    if single and (
        len(single) != dim or any(isinstance(item, ProductBins) for item in listed[:dim])
    ):
        raise InputError(
            f"a list of bins needs one entry for each of the {dim} columns (None for none), ProductBins after them"
        )
    grids: list[GridsOfColumns] = [
        ((column,), (item,)) for column, item in enumerate(single) if item is not None
    ]
    for item in listed:
        if isinstance(item, ProductBins):
            assert item.columns is not None
            if max(item.columns) >= dim:
                raise InputError(
                    f"ProductBins names column {max(item.columns)}, and there are {dim} columns"
                )
            grids.append((tuple(item.columns), tuple(item.grids)))
    if not grids:
        raise InputError("bins asks for no histogram: pass bins for at least one column")
    return grids


def _cells_of_absent_rows(grids: list[GridsOfColumns], dim: int) -> tuple[float, ...]:
    """Return, for each column, a number that is in a bin of its first grid, for rows that persons do not have."""
    cells = [1.0] * dim
    for columns, parts in reversed(grids):
        for column, grid in zip(columns, parts, strict=True):
            cells[column] = grid.rule().offset if isinstance(grid, BinGrid) else 1.0
    return tuple(cells)


def _rows_used(
    used: float, grids: tuple[BinGrid | DyadicBins, ...], cells: Sequence[float]
) -> float | None:
    """Return the number of rows in use, the denominator of frequencies; None where absent rows may be in no bin."""
    # Another grid of the same column may have no bin there.
    near = [
        isinstance(grid, DyadicBins)
        or abs(cell / grid.width - grid.rule().offset / grid.width) < 2.0**50
        for grid, cell in zip(grids, cells, strict=True)
    ]
    dyadic = [
        cell != 0.0 for grid, cell in zip(grids, cells, strict=True) if isinstance(grid, DyadicBins)
    ]
    return max(used, 1.0) if all(near) and all(dyadic) else None


def _public(
    item: stable_histograms.NoisyBins,
    partition: stable_histograms.Partition,
    columns: tuple[int, ...],
    grids: tuple[BinGrid | DyadicBins, ...],
    opened: Rows,
    absent_cells: tuple[float, ...],
) -> Histogram:
    there, used = stable_histograms.without_absences(item, partition, opened.n)
    ends = [grid.edges(there.keys[:, word], there.level) for word, grid in enumerate(grids)]
    rows_used = None
    denominator = float(opened.n)
    if opened.may_be_absent:
        rows_used = _rows_used(used, grids, [absent_cells[column] for column in columns])
        denominator = math.nan if rows_used is None else rows_used
    return Histogram(
        columns=columns,
        level=there.level,
        keys=there.keys,
        counts=there.counts,
        lower=np.column_stack([low for low, _ in ends]),
        upper=np.column_stack([high for _, high in ends]),
        frequency=there.counts / denominator,
        rows_used=rows_used,
    )
