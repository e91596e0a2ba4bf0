"""Released histograms over an unbounded domain."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.defaults import FAILURE_PROB
from fastpubpriv.privacy.noise_quantiles import noise_quantile
from fastpubpriv.results import plots
from fastpubpriv.results.base import MOST_IN_REPR, Result, Value
from fastpubpriv.results.fields import array, value_class
from fastpubpriv.results.interval_parts import fact_of_rows_used
from fastpubpriv.results.result_tables import Facts, Table, TableColumn
from fastpubpriv.sources.column_names import points


@value_class
class Histogram(Value):
    """One released histogram: the bins whose noisy count reached the threshold; all other bins are estimated as zero.

    Attributes
    ----------
    columns : tuple of int
        Columns of the rows that were binned.
    level : int
        Level of the grid.
    keys : (b, len(columns)) int64
        Indices of the bins, in lexicographic order.
    counts : (b,) float64
        Noisy counts; tables of a result show at most the rows that there can be.
    lower, upper : (b, len(columns)) float64
        Ends of the bins (of the absolute value, for dyadic bins); a bin includes its upper end but not its lower end.
    frequency : (b,) float64
        counts / n_priv; with several rows per person counts / `rows_used`, or NaN (null in JSON) where that is not known.
    rows_used : float or None
        With several rows per person, the number of all rows less the noisy count of those that persons do not have; None
        otherwise, and where it is not known.
    """

    columns: tuple[int, ...]
    level: int
    keys: IntArray = array("bins", "columns", dtype=np.int64)
    counts: FloatArray = array("bins")
    lower: FloatArray = array("bins", "columns", missing=math.inf)
    upper: FloatArray = array("bins", "columns", missing=math.inf)
    frequency: FloatArray = array("bins", missing=math.nan)
    rows_used: float | None = None

    def _fits_together(self) -> bool:
        return bool(self.columns)

    def __len__(self) -> int:
        return len(self.keys)

    def __repr__(self) -> str:
        return f"Histogram(columns={self.columns}, level={self.level}, bins={len(self)})"

    def log_prob(self, rows: Any) -> FloatArray:
        """Log density of the histogram at rows (n, len(columns)) of the binned columns, (n,); counts are normalized to sum 1.

        -inf outside the released bins and in unbounded bins. For dyadic bins of absolute values, rows are absolute values.
        """
        array = (
            np.asarray(rows, dtype=np.float64)
            if len(self.columns) > 1
            else np.reshape(rows, (-1, 1))
        )
        array = np.atleast_2d(points(array, len(self.columns), finite=True))
        density = np.full(len(array), -np.inf)
        if len(self):
            # In each column the intervals of one level are disjoint: only the last one that starts below a value can contain it.
            starts = map(np.unique, self.lower.T)
            near = [
                begin[np.searchsorted(begin, of) - 1].tolist()
                for begin, of in zip(starts, array.T, strict=True)
            ]
            places = {tuple(lower): place for place, lower in enumerate(self.lower.tolist())}
            bins = np.array(
                [places.get(lower, 0) for lower in zip(*near, strict=True)], dtype=np.int64
            )
            inside = np.all((self.lower[bins] < array) & (array <= self.upper[bins]), axis=1)
            with np.errstate(divide="ignore"):
                heights = np.log(self.counts / self.counts.sum()) - np.log(
                    self.upper - self.lower
                ).sum(axis=1)
            density[inside] = heights[bins[inside]]
        return density

    def _table(self, level: float) -> Table:
        name = ", ".join(f"column {column}" for column in self.columns)
        return _bins_of("bin", range(len(self)), [name], [self])

    def _facts(self, level: float) -> Facts:
        return [("Bins", f"{len(self)}, level {self.level}; all other bins count as zero")]


@value_class
class HistogramResult(Result):
    """Released histograms, over an unbounded domain.

    Attributes
    ----------
    histograms : tuple of Histogram
        In the order of the requested bins, with levels from the finest; `result[i]` is the i-th.
    noise_law : str
        "laplace" or "gaussian".
    noise_std : float
        Standard deviation of the noise on each count.
    threshold : float
        Minimum noisy count that was released.
    singleton_rate : float
        Probability that a bin with one row is released; at most delta.

    Examples
    --------
    >>> import numpy as np
    >>> import fastpubpriv as fpp
    >>> ages = np.random.default_rng(0).integers(20, 60, size=30_000)
    >>> bins = fpp.BinGrid(width=10.0, offset=-0.5)  # whole numbers are off the ends
    >>> result = fpp.stable_histogram(ages, bins=bins, budget=fpp.ApproxDP(epsilon=1, delta=1e-6))
    >>> result[0].lower[:, 0].tolist(), result.threshold < 100
    ([19.5, 29.5, 39.5, 49.5], True)
    """

    histograms: tuple[Histogram, ...]
    noise_law: str
    noise_std: float
    threshold: float
    singleton_rate: float

    _gaps = "; a missing number is in no bin"

    def __getitem__(self, index: int) -> Histogram:
        return self.histograms[index]

    def __iter__(self) -> Iterator[Histogram]:  # type: ignore[override]
        return iter(self.histograms)

    def __len__(self) -> int:
        return len(self.histograms)

    def count_error(self, failure_prob: float = FAILURE_PROB) -> float:
        """Bound on the error of every count, suppressed bins included, that holds with probability 1 - failure_prob."""
        beta = validation.probability("failure_prob", failure_prob)
        return self.threshold + noise_quantile(
            self.noise_law, self.noise_std, beta / (2 * self._most_rows * len(self))
        )

    def plot(self, path: str | Path | None = None, *, level: float = 0.95, ax: Any = None) -> Any:
        """Draw each one-dimensional histogram with its noise and threshold (needs matplotlib); returns the figure.

        `ax` are axes of matplotlib to draw into, in place of a figure of their own.
        """
        level = validation.confidence_level(level)
        # a single level is not worth a label
        several = len({item.level for item in self.histograms}) > 1
        drawn = []
        for item in self.histograms:
            if len(item.columns) == 1:
                order = np.argsort(item.lower[:, 0], kind="stable")
                counts = np.minimum(item.counts[order], self._most_rows)
                name = self._names_of(item) + (f", level {item.level}" if several else "")
                drawn.append(plots.Bars(name, item.lower[order, 0], item.upper[order, 0], counts))
        noise = noise_quantile(self.noise_law, self.noise_std, (1.0 - level) / 2.0)
        return plots.plot_histograms(
            drawn, noise=noise, level=level, threshold=self.threshold, path=path, ax=ax
        )

    def _fits_together(self) -> bool:
        fine = self.n_priv >= 1 and bool(self.histograms)
        fine = fine and bool(
            np.isfinite((self.noise_std, self.threshold, self.singleton_rate)).all()
        )
        return fine and all(
            column < self.dim for histogram in self.histograms for column in histogram.columns
        )

    def _estimate(self) -> tuple[str, Any]:
        return "bins", [len(item) for item in self.histograms[:MOST_IN_REPR]] + [...] * (
            len(self) > MOST_IN_REPR
        )

    def _table(self, level: float) -> Table:
        names = [self._names_of(item) for item in self.histograms]
        labels = [place for place, item in enumerate(self.histograms) for _ in range(len(item))]
        most = self._most_rows
        return _bins_of("histogram", labels, names, self.histograms, self.noise_std, most)

    def _names_of(self, item: Histogram) -> str:
        """Return the names of the columns of a histogram."""
        return ", ".join(self.labels[column] for column in item.columns)

    def _facts(self, level: float) -> Facts:
        noise = f"{self.noise_law}, standard deviation {self.noise_std:.3g} rows"
        return [
            ("Noise", noise),
            ("Hidden", f"bins with a noisy count below {self.threshold:.4g} rows"),
        ]

    def _facts_of_rows_used(self, level: float) -> Facts:
        names = []
        numbers = []
        for item in self.histograms:
            if item.rows_used is not None:
                names.append(f"{self._names_of(item)}, level {item.level}:")
                numbers.append((item.rows_used, self.noise_std))
        return [fact_of_rows_used(names, numbers)] if names else []


def _bins_of(
    index: str,
    labels: Sequence[int],
    names: Sequence[str],
    histograms: Sequence[Histogram],
    noise_std: float | None = None,
    most: float = math.inf,
) -> Table:
    """Return a table with a row for each bin, of at most `most` rows; the ends of bins over several columns are tuples."""
    numbers: dict[str, list[Any]] = {}
    for name, item in zip(names, histograms, strict=True):
        own = {
            "column": [name] * len(item),
            "level": [item.level] * len(item),
            "above": _ends_in_table(item.lower),
            "up_to": _ends_in_table(item.upper),
            "count": np.minimum(item.counts, most).tolist(),
            "frequency": np.minimum(item.frequency, 1.0).tolist(),
        }
        for head, values in own.items():
            numbers.setdefault(head, []).extend(values)
    if any(map(math.isnan, numbers["frequency"])):  # of an unknown number of rows in use
        del numbers["frequency"]
    columns = [TableColumn(head, values) for head, values in numbers.items()]
    if noise_std is not None:
        columns[4] = columns[4]._replace(scale=[noise_std] * len(labels))
    return Table(index, labels, columns)


def _ends_in_table(ends: FloatArray) -> list[Any]:
    numbers: list[Any] = ends.tolist()
    return [each[0] if len(each) == 1 else tuple(each) for each in numbers]
