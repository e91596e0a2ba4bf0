"""Released quantiles, and the noisy ranks of edges from which they and their intervals are computed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from itertools import chain
from typing import Any, ClassVar, Literal

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.privacy.noise_quantiles import deviations
from fastpubpriv.results import plots
from fastpubpriv.results.base import Value
from fastpubpriv.results.by_key import Key, OfGroups, Part, place_of
from fastpubpriv.results.drawn import Drawn
from fastpubpriv.results.fields import WIDTH, array, column, value_class
from fastpubpriv.results.interval_parts import fact_of_rows_used
from fastpubpriv.results.result_tables import Facts, Lines, percent

Structure = Literal["continuous", "atom", "gap"]
STRUCTURES: dict[Structure, str] = {
    "continuous": "",
    "atom": "many rows have this very number, the one with fewest decimal digits where they are",
    "gap": "no rows are seen around the answer, which is the middle of the gap",
}


def in_order(below: FloatArray, total: float) -> FloatArray:
    """Return ranks that do not fall, between 0 and `total`, from ranks as counted."""
    within = np.clip(below, 0.0, total)
    # The running maximum from the left is biased upwards, the running minimum from the right downwards.
    most = np.maximum.accumulate(within)
    least = np.minimum.accumulate(within[::-1])[::-1]
    return np.asarray((most + least) / 2.0)


@value_class
class EdgeRanks(Value):
    """Estimated number of rows below each of several edges of one column.

    Attributes
    ----------
    edges : (k,) float64
        Ascending.
    below : (k,) float64
        Estimated number of rows below each edge, as counted: noise may make it fall, or lie beyond 0 and `total`.
    std : (k,) float64
        Standard deviation of the noise in below - (below / total) * (number of non-missing values).
    total : float
        Estimated number of non-missing values in this column.
    total_std : float
        Standard deviation of the noise in `total`; NaN (null in JSON) where no edges were counted.
    """

    edges: FloatArray = array("edges")
    below: FloatArray = array("edges", label="below", unit="rows")
    std: FloatArray = array("edges", label="std", unit="rows")
    total: float
    total_std: float = math.nan

    _line_axes = ("edges",)

    def widened(self, k: int) -> EdgeRanks:
        """See `Value.widened`; intervals add the sampling variance of single rows to `std`, so k - 1 times that is added here."""
        ascending = self.ascending
        sampling = ascending * (1.0 - ascending / max(self.total, 1.0))
        std = np.sqrt(self.std**2 + (k - 1) * sampling)
        return dataclasses.replace(super().widened(k), std=std)

    def _fits_together(self) -> bool:
        return self.total >= 0.0 and bool(np.all(np.diff(self.edges) > 0.0))

    def __repr__(self) -> str:
        return f"EdgeRanks(edges={len(self.edges)}, total={self.total:.6g})"

    @property
    def ascending(self) -> FloatArray:
        """Estimated number of rows below each edge; non-decreasing, between 0 and `total`, (k,)."""
        return in_order(self.below, self.total)

    @property
    def masses(self) -> FloatArray:
        """Estimated numbers of rows below the first edge, between edges, and at or above the last edge, (k + 1,)."""
        return np.diff(np.concatenate([[0.0], self.ascending, [self.total]]))

    def ends(self, q: float, z: float) -> tuple[float, float]:
        """Return the ends of an interval for the q-quantile: the last edge below it, and the float before the first edge above it.

        Each holds for errors from noise and sampling up to z standard deviations. Infinite if there is no such edge.
        """
        target = q * self.total
        reach = z * np.sqrt(self.std**2 + q * (1.0 - q) * self.total)
        # Ranks that ascend are too low before a stretch of equal ranks and too high behind it, so those that were counted decide.
        ascending = self.ascending
        highest = np.maximum(self.below, ascending)
        lowest = np.minimum(self.below, ascending)
        # Single edges may be significant by chance: all edges up to the lower end must be below, all from the upper end on above.
        first = int(np.append(np.flatnonzero(highest + reach >= target), len(self.edges))[0])
        last = int(np.append(-1, np.flatnonzero(lowest - reach <= target))[-1]) + 1
        return (
            float(self.edges[first - 1]) if first > 0 else -math.inf,
            float(np.nextafter(self.edges[last], -math.inf))
            if last < len(self.edges)
            else math.inf,
        )

    def _axis(self, axis: str) -> tuple[str, Sequence[Any]]:
        return "edge", self.edges.tolist()


@value_class
class QuantileResult(Drawn):
    """Released quantiles of columns.

    A part is a (column, q) pair, in row-major order: "clipped" if the quantile lies beyond the range that the counts resolve, so
    that the estimate is the end of that range and the interval is unbounded, or if its interval lies beyond the bounds;
    "unresolved" if the counts cannot locate the column; "few_rows" if its interval at 95 % has no end on some side, or ends far
    beyond the range in which rows are detected.

    Attributes
    ----------
    q : (k,) float64
        Quantile levels, ascending.
    quantile : (dim, k) float64
        The estimates, non-decreasing in q; NaN where the column is unresolved (null in JSON).
    noise_rows : (dim, k) float64
        Standard deviation of the privacy noise in the rank of each estimate, in rows.
    structure : tuple of tuples of str
        Distribution of the rows around each estimate: "continuous"; an "atom", if many rows have exactly this value; or a "gap"
        without rows, of which the estimate is the middle.
    noise_law : str
        "gaussian" or "laplace".
    ranks : tuple of EdgeRanks
        For each column, the estimated ranks from which estimates and intervals are computed.
    lowest, highest : (dim,) float64
        Bounds that the caller gave; infinite without (null in JSON).

    Examples
    --------
    >>> import numpy as np
    >>> import fastpubpriv as fpp
    >>> ages = np.random.default_rng(0).integers(18, 90, size=20_000)
    >>> result = fpp.quantiles(ages[1:], x_pub=ages[:1], q=(0.5,), budget=fpp.ZCDP(rho=0.5))
    >>> lower, upper = result.confidence_interval(0.999999)
    >>> bool(lower[0, 0] <= 53 <= upper[0, 0]), result.structure, result.status
    (True, (('atom',),), 'ok')
    """

    q: FloatArray = array("q", label="q", unit="share of the rows")
    quantile: FloatArray = array(
        "dim",
        "q",
        missing=math.nan,
        label="quantile",
        ends="confidence_interval",
        error=WIDTH,
        drawn="private",
    )
    noise_rows: FloatArray = array("dim", "q", label="noise_rows", error="noise_rows", unit="rows")
    structure: tuple[tuple[Structure, ...], ...]
    noise_law: str
    ranks: tuple[EdgeRanks, ...]
    lowest: FloatArray = array("dim", missing=-math.inf)
    highest: FloatArray = array("dim", missing=math.inf)

    _main = "quantile"
    _parted = "quantile"
    _line_axes: ClassVar[tuple[str, ...]] = ("dim", "q")

    def _axis(self, axis: str) -> tuple[str, Sequence[Any]]:
        return ("", self.q.tolist()) if axis == "q" else super()._axis(axis)

    @property
    @column("structure")
    def _structures(self) -> list[Structure]:
        return [*chain(*self.structure)]

    def _fits_together(self) -> bool:
        columns = self.quantile.size // max(len(self.q), 1)
        lengths = [len(column) for column in self.structure]
        return len(self.ranks) == columns and lengths == [len(self.q)] * columns

    def confidence_interval(
        self, level: float = 0.95, *, simultaneous: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends, like `quantile`, of intervals for the quantiles of the distribution of the rows.

        Includes privacy noise and sampling. The ends are edges with released ranks, so that nothing is assumed about rows between
        two edges; an end is infinite if no edge is known to lie beyond it. With `simultaneous`, all intervals hold jointly at this
        level by the union bound. Under pure DP, the Laplace quantile is used if it exceeds the Gaussian one.
        """
        level = validation.confidence_level(level)
        together = self.quantile.size if validation.boolean("simultaneous", simultaneous) else 1
        z = deviations(self.noise_law, level, together)
        ends = np.array([[ranks.ends(q, z) for q in self.q.tolist()] for ranks in self.ranks])
        ends = ends.reshape(-1, self.dim, len(self.q), 2)
        within = np.clip(ends, self.lowest[:, None, None], self.highest[:, None, None])
        lower = within[..., 0].reshape(self.quantile.shape)
        upper = within[..., 1].reshape(self.quantile.shape)
        # An estimate at the end of the range that is resolved belongs to its interval.
        return np.fmin(lower, self.quantile), np.fmax(upper, self.quantile)

    def _public_estimates(self, x_pub: Any, level: float) -> list[plots.Estimate]:
        if x_pub is None:
            return []
        public = np.nanquantile(self._public(x_pub, gaps=True), self.q, axis=0).T
        return [plots.Estimate("public rows", public.ravel())]

    def _facts(self, level: float) -> Facts:
        text = f"{percent(level)} each, from {self.noise_law} noise and sampling"
        present = set(self._structures)
        meanings = [
            (word, meaning) for word, meaning in STRUCTURES.items() if meaning and word in present
        ]
        return [("Interval", text), *meanings]

    def _facts_of_rows_used(self, level: float) -> Facts:
        if not self._rows_may_be_absent:
            return []
        totals = [(ranks.total, ranks.total_std) for ranks in self.ranks]
        return [fact_of_rows_used(Lines.of(self).joined(self._line_axes[:-1]), totals)]


@value_class
class GroupQuantiles(OfGroups, QuantileResult):
    """Released quantiles of groups; `quantile` and `noise_rows` are (groups, dim, k), `structure` and `ranks` have one entry per
    (group, column) pair, in row-major order.

    A part is a (group, column, q) triple. A group "(other)" without enough rows is not drawn, and its "few_rows" does not enter the
    status. Estimates are NaN if a group has "few_rows": its number of rows is within four noise
    standard deviations of zero.

    Attributes
    ----------
    by : tuple of str
        The columns that determine the group of a row.
    groups : tuple of str, float or tuple
        The listed groups (tuples of cells if `by` has several columns), and "(other)" for rows of any other group.

    Examples
    --------
    >>> import numpy as np
    >>> import fastpubpriv as fpp
    >>> ward = np.arange(30_000) % 3
    >>> rows = np.column_stack([np.random.default_rng(0).integers(20, 60, 30_000) + 10 * ward, ward])
    >>> result = fpp.quantiles(rows[9:], x_pub=rows[:9], by=-1, groups=[0, 1, 2], q=0.5, budget=fpp.ZCDP(rho=0.5))
    >>> lower, upper = result.confidence_interval(0.999999)
    >>> bool(lower[2, 0, 0] <= 59.5 <= upper[2, 0, 0]), result[2].shape
    (True, (1, 1))
    """

    by: tuple[str, ...]
    groups: tuple[Part | Key, ...]
    quantile: FloatArray = array(
        "groups",
        "dim",
        "q",
        missing=math.nan,
        label="quantile",
        ends="confidence_interval",
        error=WIDTH,
        drawn="private",
    )
    noise_rows: FloatArray = array(
        "groups", "dim", "q", label="noise_rows", error="noise_rows", unit="rows"
    )

    _line_axes = ("groups", "dim", "q")

    def __getitem__(self, group: Part | Key) -> FloatArray:
        """Return the quantiles of a group, (dim, k); raise KeyError if it is not among `groups`."""
        return np.asarray(self.quantile[place_of(self.groups, group)])

    def _public_estimates(self, x_pub: Any, level: float) -> list[plots.Estimate]:
        return []

    def _facts(self, level: float) -> Facts:
        return [*super()._facts(level), *self._facts_of_left_out()]
