"""Private histograms with no range given: the occupied bins of an unbounded grid, with noisy counts above a threshold."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fastpubpriv import run as running
from fastpubpriv import validation
from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.histograms.bins import BinGrid, Bins, DyadicBins, ProductBins
from fastpubpriv.mechanisms.histograms import (
    LEVELS_MAX,
    NoisyBins,
    Partition,
    check_memory,
    release_histograms,
)
from fastpubpriv.privacy import ApproxDP, Budget, Ledger
from fastpubpriv.privacy.stable import HISTOGRAMS_MAX
from fastpubpriv.privacy.stable_profile import Law
from fastpubpriv.reading import read_array
from fastpubpriv.results.estimates import Result, frozen

MAX_MEMORY = 8e9  # bytes; what 200 million rows in bins of their own take

_LAWS: dict[str, Law | None] = {"auto": None, "laplace": "laplace", "gaussian": "gaussian"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Histogram:
    """One released histogram: the bins whose noisy count reached the threshold; all other bins count as zero.

    Attributes
    ----------
    columns : tuple of int
        Columns of the rows that were binned.
    level : int
        Level of the grid.
    keys : (b, len(columns)) int64
        Bins, in lexical order.
    counts : (b,) float64
        Noisy counts.
    lower, upper : (b, len(columns)) float64
        Ends of the bins (of the absolute value, for dyadic bins); the upper end belongs to a bin, the lower one does not.
    frequency : (b,) float64
        counts / n_priv.
    """

    columns: tuple[int, ...]
    level: int
    keys: IntArray
    counts: FloatArray
    lower: FloatArray
    upper: FloatArray
    frequency: FloatArray

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                value = value.copy()
                value.flags.writeable = False
                object.__setattr__(self, field.name, value)

    def __len__(self) -> int:
        return len(self.keys)

    def __repr__(self) -> str:
        return f"Histogram(columns={self.columns}, level={self.level}, bins={len(self)})"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class HistogramResult(Result):
    """Released histograms, over an unbounded domain.

    Attributes
    ----------
    histograms : tuple of Histogram
        In the order of the bins asked for, levels from the finest; `result[i]` is the i-th.
    noise_law : str
        "laplace" or "gaussian".
    noise_std : float
        Standard deviation of the noise on each count.
    threshold : float
        Least noisy count that was released.
    singleton_rate : float
        Chance that a bin with one row was released; at most delta.
    columns : tuple of str or None
        Names of the columns when the source had names.
    """

    histograms: tuple[Histogram, ...]
    noise_law: str
    noise_std: float
    threshold: float
    singleton_rate: float
    columns: tuple[str, ...] | None = None

    def __getitem__(self, index: int) -> Histogram:
        return self.histograms[index]

    def __len__(self) -> int:
        return len(self.histograms)

    def count_error(self, failure_prob: float = 0.05) -> float:
        """Bound on the error of every count, suppressed bins included, that holds with probability 1 - failure_prob."""
        beta = validation.probability("failure_prob", failure_prob)
        return self.threshold + noise_quantile(self.noise_law, self.noise_std, beta / (2 * self.n_priv * len(self)))

    def plot(self, path: str | Path | None = None, *, level: float = 0.95) -> Any:
        """Draw each one-dimensional histogram with its threshold (needs matplotlib); returns the figure."""
        from fastpubpriv.results import plots as plotting

        return plotting.plot_histogram(self, path=path)

    @classmethod
    def from_json(cls, text: str) -> HistogramResult:
        """Read back what `to_json` wrote: the histograms and public fields (the price comes back as a plain value)."""
        found = cls(**cls._fields_of(text, histograms=_histograms))
        numbers = (found.noise_std, found.threshold, found.singleton_rate)
        if found.n_priv < 1 or not found.histograms or found.noise_law not in _LAWS or not np.isfinite(numbers).all():
            raise InputError(
                "this JSON text is not a HistogramResult: it needs n_priv, histograms, a law of noise and its numbers"
            )
        if any(not 0 <= column < found.dim for histogram in found.histograms for column in histogram.columns):
            raise InputError(
                f"this JSON text cannot be read: a histogram names a column that is not among the {found.dim}"
            )
        return found


def _histograms(value: Any) -> tuple[Histogram, ...]:
    """Histograms from what JSON has for them."""
    names = {field.name for field in dataclasses.fields(Histogram)}
    if type(value) is not list or not all(type(item) is dict and set(item) == names for item in value):
        raise InputError(
            f"this JSON text cannot be read: histograms must be a list of objects with the fields {', '.join(sorted(names))}"
        )
    return tuple(_histogram(item) for item in value)


def _histogram(data: dict[str, Any]) -> Histogram:
    columns, level, keys = data["columns"], data["level"], data["keys"]
    if type(columns) is not list or not columns or not all(type(column) is int for column in columns):
        raise InputError("this JSON text cannot be read: the columns of a histogram must be a list of column numbers")
    if type(level) is not int or not 0 <= level <= LEVELS_MAX:
        raise InputError("this JSON text cannot be read: the level of a histogram must be a whole number")
    bad = type(keys) is not list or not all(
        type(key) is list and len(key) == len(columns) and all(type(word) is int and abs(word) < 2**63 for word in key)
        for key in keys
    )
    if bad:
        raise InputError("this JSON text cannot be read: the keys of a histogram must be lists of whole numbers")
    sizes = {"bins": len(keys), "columns": len(columns)}

    def ends(name: str) -> FloatArray:
        if not keys:  # JSON has no shape for an empty list
            return frozen(np.empty((0, len(columns))))
        # The ends of the last dyadic bin may be infinite.
        return read_array(name, data[name], ("bins", "columns"), sizes, missing=math.inf)

    return Histogram(
        columns=tuple(columns),
        level=level,
        keys=np.array(keys, dtype=np.int64).reshape(-1, len(columns)),
        counts=read_array("counts", data["counts"], ("bins",), sizes),
        lower=ends("lower"),
        upper=ends("upper"),
        frequency=read_array("frequency", data["frequency"], ("bins",), sizes),
    )


def noise_quantile(law: str, noise_std: float, tail: float) -> float:
    """The size that the noise on a count exceeds, in one direction, with probability `tail`."""
    if law == "laplace":
        return noise_std / math.sqrt(2.0) * max(0.0, -math.log(2.0 * tail))
    from scipy.special import ndtri

    return float(-noise_std * ndtri(tail))


def as_rows(x_priv: Any) -> Any:
    """A one-dimensional array as one column; everything else as it is."""
    if isinstance(x_priv, np.ndarray) and x_priv.ndim == 1:
        return x_priv.reshape(-1, 1)
    return x_priv


def stable_histogram(
    x_priv: Any,
    *,
    bins: Bins | Sequence[Bins | None],
    budget: Budget,
    noise: str = "auto",
    columns: Any = None,
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
        Private values. A value that is not finite, or further than 2^53 bins from the offset, is in no bin.
    bins : BinGrid, DyadicBins, ProductBins, or a list of these
        One object: a histogram of each column (ProductBins: one over its columns). A list: one object for each column, None for
        none, and any ProductBins after that. Fixed in public, before the rows are read.
    budget : ApproxDP
        Spent whole, and debited before `x_priv` is read.
    noise : "auto", "laplace" or "gaussian"
        Noise on the counts. "auto" takes the law with the smaller threshold plus two standard deviations.
    columns : sequence of str, optional
        Numeric columns of a frame, Parquet file or table.
    ledger : Ledger, optional
        Debited by `budget` before the first read.
    random_state : None or int
        None: fresh operating-system keys. int: repeatable, warned about, `private=False`.
    threads, progress
        Number of threads (None: all cores) and progress bar (None: on a terminal, for long work). Never change the answer.
    max_memory : float or None
        Most bytes that counting may take, were every row in a bin of its own: 34 n_priv for one histogram of one column, 16 n_priv
        for each further one, and about 10 MB for each thread and histogram. A call that may need more is refused before it pays,
        by public numbers alone; few occupied bins take little, whatever the limit. None: no limit. Never changes the answer.

    Returns
    -------
    HistogramResult
        `histograms`: keys, ends, noisy counts and frequencies of the released bins; `threshold`, `noise_std`.

    Raises
    ------
    InputError, BudgetError, LedgerError
        For public arguments, the form of the data, and the budget. Never for the content of `x_priv`.

    Privacy
    -------
    Neighbours: replace one row; in each histogram one count falls and one rises, by one. StableHistogramEvent: (epsilon, delta) of
    all histograms together, exact in integers. How many bins were occupied is not released. Public: n_priv, dim, bins.

    Notes
    -----
    Histogram learner of Lemma 4.1 of Aden-Ali, Ashtiani, Liaw (2021), which fixes no constants. The threshold is the least that
    keeps delta, by the exact profile: the deltas of noise and threshold enter as a maximum, not as a sum. Several histograms share
    one Gaussian, whose noise grows with the root of their number. Time linear in n_priv, memory in the occupied bins.
    Rounded data may fall on the ends of bins: choose an offset of half a step.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ApproxDP, stable_histogram
    >>> values = np.concatenate([np.full(3000, 1e9), np.full(1000, -7.25), [42.0]])
    >>> result = stable_histogram(values, bins=BinGrid(width=0.5), budget=ApproxDP(epsilon=1, delta=1e-8))
    >>> [(float(end), float(round(count, -2))) for end, count in zip(result[0].upper[:, 0], result[0].counts)]
    [(-7.25, 1000.0), (1000000000.25, 3000.0)]
    """
    rows, _ = running.open_rows(as_rows(x_priv), columns=columns)
    law = _LAWS[validation.choice("noise", noise, tuple(_LAWS))]
    grids = _grids(bins, rows.dim)
    partitions = [
        Partition(columns, tuple(grid.rule() for grid in parts), tuple(range(parts[0].levels)))
        for columns, parts in grids
    ]
    if not isinstance(budget, ApproxDP):
        raise BudgetError(
            "a histogram over an unbounded domain needs a delta, for the bins of single rows: pass ApproxDP(epsilon=..., delta=...)"
        )
    total = sum(len(partition.levels) for partition in partitions)
    if total > HISTOGRAMS_MAX:
        raise InputError(f"{total} histograms are too many; pass fewer levels or columns (at most {HISTOGRAMS_MAX})")
    run = running.start(
        "stable_histogram",
        rows,
        budget,
        draws=sum(len(partition.levels) * partition.slots(rows.n) for partition in partitions),
        ledger=ledger,
        random_state=random_state,
        threads=threads,
        progress=progress,
        max_memory=max_memory,
    )
    check_event(run, partitions, law)
    check_memory(partitions, rows.n, run.executor)
    with run.paid():
        released = release_histograms(run.account, rows, partitions, name="histogram", executor=run.executor, law=law)
        run.note("histogram", released)
        return HistogramResult(
            histograms=tuple(_public(item, *grids[item.partition], rows.n) for item in released.histograms),
            noise_law=released.event.law,
            noise_std=released.noise_std,
            threshold=released.threshold,
            singleton_rate=released.event.singleton_rate,
            columns=rows.columns,
            provenance={"bins": "argument"},
            **run.fields(0),
        )


def check_event(run: running.Run, partitions: Sequence[Partition], law: Any) -> None:
    """Raise now, before the debit, if the budget has no grid for these histograms."""
    from fastpubpriv.privacy import stable_event

    slots = [partition.slots(run.rows.n) for partition in partitions for _ in partition.levels]
    stable_event(*run.account.approx_left, histograms=len(slots), n=run.rows.n, draws=sum(slots), law=law)


def _grids(bins: Any, dim: int) -> list[tuple[tuple[int, ...], tuple[BinGrid | DyadicBins, ...]]]:
    """Columns and grids of each histogram family."""
    if isinstance(bins, BinGrid | DyadicBins):
        return [((column,), (bins,)) for column in range(dim)]
    listed = [bins] if isinstance(bins, ProductBins) else bins
    if not isinstance(listed, list | tuple) or not all(item is None or isinstance(item, Bins) for item in listed):
        raise InputError(
            "bins must be BinGrid, DyadicBins, ProductBins, or a list of these with None for a column without"
        )
    single = [item for item in listed if not isinstance(item, ProductBins)]
    if single and (len(single) != dim or any(isinstance(item, ProductBins) for item in listed[:dim])):
        raise InputError(
            f"a list of bins needs one entry for each of the {dim} columns (None for none), ProductBins after them"
        )
    found: list[tuple[tuple[int, ...], tuple[BinGrid | DyadicBins, ...]]] = [
        ((column,), (item,)) for column, item in enumerate(single) if item is not None
    ]
    for item in listed:
        if isinstance(item, ProductBins):
            assert item.columns is not None
            if max(item.columns) >= dim:
                raise InputError(f"ProductBins names column {max(item.columns)}, and there are {dim} columns")
            found.append((tuple(item.columns), tuple(item.grids)))
    if not found:
        raise InputError("bins asks for no histogram: pass bins for at least one column")
    return found


def _public(item: NoisyBins, columns: tuple[int, ...], grids: tuple[BinGrid | DyadicBins, ...], n: int) -> Histogram:
    ends = [grid.edges(item.keys[:, word], item.level) for word, grid in enumerate(grids)]
    return Histogram(
        columns=columns,
        level=item.level,
        keys=item.keys,
        counts=item.counts,
        lower=np.column_stack([low for low, _ in ends]),
        upper=np.column_stack([high for _, high in ends]),
        frequency=item.counts / n,
    )
