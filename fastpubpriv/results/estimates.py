"""Released means, covariances, principal directions and Gaussians."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.privacy.noise_quantiles import deviations
from fastpubpriv.results import gaussians, plots, result_tables
from fastpubpriv.results.base import LEVEL, Result, Value
from fastpubpriv.results.comparisons import Comparable
from fastpubpriv.results.fields import WIDTH, array, column, value_class
from fastpubpriv.results.gaussians import KINDS, GaussianReport
from fastpubpriv.results.interval_parts import (
    MOST_SHOWN,
    fact_of_rows_used,
    half_widths,
    width_facts,
)
from fastpubpriv.results.public_draws import draw_normals, normal_quantile
from fastpubpriv.results.reasons import Reason
from fastpubpriv.results.result_tables import Facts, Table, TableColumn
from fastpubpriv.sources.column_names import points

# releases in which each column has its own number of missing values
COUNTS_OF_MISSING = ("signed dyadic cells", "moments within bounds")
# Where the rows inside a condition are a group, its count is that of this release.
COUNT_INSIDE = "moments of groups"


class OfCompleteRows(Result):
    """Base class of results that leave out rows with a missing cell, if the number of the others was released."""

    __slots__ = ()

    complete_rows: float | None
    complete_rows_std: float | None

    def complete_rows_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Lower and upper end of an interval for the number of private rows without a missing cell; NaN if it was not released."""
        level = validation.confidence_level(level)
        # Rows beyond a clip radius hide some only where the number is a clipped sum itself.
        clipped = [getattr(self, f"complete_rows_{end}", 0.0) for end in ("below", "above")]
        released = (self.complete_rows, self.complete_rows_std, *clipped)
        value, std, below, above = (math.nan if part is None else part for part in released)
        ends = gaussians.ends_about(value, value, std, below, above, level)
        lower, upper = np.clip(ends, 0.0, self._most_rows).tolist()
        return lower, upper

    def _complete_in_words(self, level: float) -> str:
        lower, upper = self.complete_rows_interval(level)
        return f"{self.complete_rows:,.0f} [{lower:,.0f}, {upper:,.0f}]"

    def _rows_in_words(self, level: float) -> str:
        if self.complete_rows is None:
            return Result._rows_in_words(self, level)
        return f"the complete rows, {self._complete_in_words(level)} of {self.n_priv:,}"

    def _about_at(self, level: float) -> str:
        if self.complete_rows is None or self._of_persons or self._rows_may_be_absent:
            return self.about
        return self._rows_in_words(level)

    def _facts_of_rows_used(self, level: float) -> Facts:
        if self.complete_rows is None or not (self._of_persons or self._rows_may_be_absent):
            return []
        gaps = "one with a missing cell is none"
        if self._rows_may_be_absent:
            gaps = "a row outside the condition, or with a missing cell, is none"
        if self.rows_per_person > 1:
            gaps = "a row that a person does not have, or with a missing cell, is none"
        return [("Rows used", f"{self._complete_in_words(level)}; {gaps}")]


@value_class
class ColumnReport(Value):
    """Diagnostics of each column from released and public numbers; arrays are (dim,), in data units unless stated otherwise.

    Attributes
    ----------
    missing : float64
        Released number of rows with a missing value; zero if it is within its noise. NaN (null in JSON) where rows were counted
        by their norm, as the mean is then that of `complete_rows`, and with several rows per person, as those that a
        person does not have were counted with them.
    rows_used : float64 or None
        With several rows per person, the released number of rows with a value, with the noise of a count; otherwise None.
    resolved_from, resolved_to : float64
        Range in which the noisy counts detect rows.
    undetected_rows : float64
        Upper bound on the rows outside that range that the noisy counts may miss: anywhere within the bounds, or,
        without bounds, in one octave up to ten million times further out.
    clipping_std : float64
        Standard deviation of the correction for clipped rows.
    tail_below, tail_above : float64
        Largest shift of the mean down or up by undetected rows, if the tails decay as the counts indicate.
    worst_below, worst_above : float64
        The same for undetected rows anywhere within the bounds; without bounds zero, or infinite (null in JSON) if unknown. In the
        interval only of a column that is "constant" or "unresolved".
    lowest, highest : float64
        Bounds on the mean given by the caller; -infinity and infinity without (null in JSON).
    """

    missing: FloatArray = array("dim", missing=math.nan)
    resolved_from: FloatArray = array("dim")
    resolved_to: FloatArray = array("dim")
    undetected_rows: FloatArray = array("dim")
    clipping_std: FloatArray = array("dim")
    tail_below: FloatArray = array("dim")
    tail_above: FloatArray = array("dim")
    worst_below: FloatArray = array("dim", missing=math.inf)
    worst_above: FloatArray = array("dim", missing=math.inf)
    lowest: FloatArray = array("dim", missing=-math.inf)
    highest: FloatArray = array("dim", missing=math.inf)
    rows_used: FloatArray | None = array("dim", default=None)

    def interval(
        self, mean: FloatArray, width: FloatArray, unplaced: BoolArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the ends of an interval about `mean`; noise, sampling and clipping contribute the half-width `width`.

        The worst case enters where a column is `unplaced`.
        """
        below = np.hypot(width, self.tail_below) + np.where(unplaced, self.worst_below, 0.0)
        above = np.hypot(width, self.tail_above) + np.where(unplaced, self.worst_above, 0.0)
        lower = np.clip(mean - below, self.lowest, self.highest)
        return lower, np.clip(mean + above, self.lowest, self.highest)

    def _undetected(self, width: FloatArray, unplaced: BoolArray) -> FloatArray:
        """Return the half-width from undetected rows on the larger side of `interval`, before bounds cut it, (dim,)."""
        tail = np.stack([self.tail_below, self.tail_above])
        worst = np.where(unplaced, [self.worst_below, self.worst_above], 0.0)
        with np.errstate(all="ignore"):  # numbers may be of any size
            shift = np.sqrt(worst) * np.sqrt(worst + 2.0 * np.hypot(width, tail))
            return np.asarray(np.fmax(np.hypot(tail, shift), tail).max(axis=0))

    def _undetected_in_words(self, place: int, most_rows: float) -> str:
        """Return how many rows beyond the range of a column may be undetected, and what they would do within bounds."""
        most = min(float(self.undetected_rows[place]), most_rows)
        share = f"{100.0 * most / max(most_rows, 1.0):.2g} %"
        text = f"up to {most:,.0f} rows ({share}) further out would not have been seen"
        if not np.isfinite([self.lowest[place], self.highest[place]]).all():
            return text
        shift = max(self.worst_below[place], self.worst_above[place])
        return f"{text}, and would move it by up to {result_tables.number(shift, shift)}"

    def _range_in_words(self, place: int) -> str:
        """Return the ends of the range of a column in which rows are detected."""
        low = self.resolved_from[place]
        high = self.resolved_to[place]
        scale = high / 4.0 - low / 4.0
        return f"{result_tables.number(low, scale)} and {result_tables.number(high, scale)}"

    def __repr__(self) -> str:
        return f"ColumnReport(dim={len(self.missing)})"

    def _table(self, level: float) -> Table:
        first = "missing" if self.rows_used is None else "rows_used"
        names = (first, "resolved_from", "resolved_to", "undetected_rows")
        numbers = [TableColumn(name, getattr(self, name)) for name in names]
        return Table("column", [str(place) for place in range(len(self.missing))], numbers)


@value_class
class MeanResult(OfCompleteRows, Comparable):
    """A released mean.

    Attributes
    ----------
    mean : (dim,) float64
        The estimate, in data units.
    noise_std : (dim,) float64
        Standard deviation of the privacy noise in each coordinate.
    sampling_std : (dim,) float64
        Standard deviation of the sample mean of the private rows, from the assumed or public covariance.
    noise_law : str
        "gaussian" or "laplace".
    clipping_std : (dim,) float64 or None
        Standard error for the clipping of rows beyond a given norm bound, from public rows, or of the steps of CoinPress, from how
        far they moved; None if nothing shows it.
    report : ColumnReport or None
        Diagnostics from released counts of each column, or of row norms; None if the clip radius came from a covariance or the
        caller. `part_reasons`, one entry per column, exist only with a report.
    complete_rows, complete_rows_std : float or None
        Released number of private rows without a missing cell, which the mean is then about, and the standard deviation of its
        noise; None where each column has its own number of values (`report.missing`), or no private row was read.

    Examples
    --------
    >>> import numpy as np
    >>> import fastpubpriv as fpp
    >>> rows = np.random.default_rng(0).normal(36.6, 1.0, size=(10_000, 2))
    >>> result = fpp.estimate_mean(rows[1:], x_pub=rows[:1], budget=fpp.ZCDP(rho=0.5))
    >>> lower, upper = result.confidence_interval(0.999999)
    >>> bool(np.all((lower < 36.6) & (36.6 < upper))), result.spent
    (True, ZCDP(rho=0.5))
    """

    mean: FloatArray = array(
        "dim", label="mean", ends="confidence_interval", error="standard_error", drawn="private"
    )
    noise_std: FloatArray = array("dim", label="noise_std", error="noise_std")
    sampling_std: FloatArray = array("dim", sampling=True)
    noise_law: str
    clipping_std: FloatArray | None = array("dim", default=None)
    report: ColumnReport | None = None
    complete_rows: float | None = None
    complete_rows_std: float | None = None

    _main = "mean"
    _line_axes = ("dim",)

    def _fits_together(self) -> bool:
        known = 0 if self.report is None else self.dim
        return len(self.part_reasons) == known and (
            self.report is None or len(self.report.missing) == known
        )

    @property
    def standard_error(self) -> FloatArray:
        """Standard error of the estimate from privacy noise, sampling and clipping, (dim,)."""
        total: FloatArray = np.hypot(self.noise_std, self.sampling_std)
        return np.asarray(np.hypot(total, self._clipping))

    @property
    def _clipping(self) -> Any:
        """Standard error for clipping, (dim,); zero if it is not known."""
        known = self.clipping_std if self.report is None else self.report.clipping_std
        return 0.0 if known is None else known

    def confidence_interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends, (dim,) each, of an interval for the mean of each coordinate.

        Includes privacy noise and sampling; with a `report`, also the bias of clipping and undetected rows, so that the interval
        need not be symmetric, and is infinite where nothing is known. Without a report, it assumes the covariance that the estimate
        was given, and includes the bias of clipping only if there is a `clipping_std`. Under
        pure DP it uses the Laplace quantile, which is conservative for levels of 0.9 and more.
        """
        width = self._width(level)
        if self.report is None:
            return self.mean - width, self.mean + width
        return self.report.interval(self.mean, width, self._unplaced)

    @column("width_", "dim", "parts", frames_only=True)
    def interval_parts(self, level: float = 0.95) -> FloatArray:
        """Half-widths from noise, sampling, clipping and undetected rows, (dim, 4).

        Their squares add up to that of the larger half of `confidence_interval`, which bounds may cut. Clipping and undetected rows
        are zero if they were not counted: without a `report`, and clipping without a `clipping_std`.

        >>> import numpy as np
        >>> import fastpubpriv as fpp
        >>> rows = np.random.default_rng(0).exponential(size=(10_000, 1))
        >>> result = fpp.estimate_mean(rows[1:], x_pub=rows[:1], budget=fpp.ZCDP(rho=0.5))
        >>> lower, upper = result.confidence_interval()
        >>> half = np.sqrt((result.interval_parts() ** 2).sum(axis=1))
        >>> bool(np.allclose(half, np.maximum(result.mean - lower, upper - result.mean)))
        True
        """
        undetected: Any = 0.0
        if self.report is not None:
            undetected = self.report._undetected(self._width(level), self._unplaced)
        z = deviations(self.noise_law, level)
        return half_widths(z, self.noise_std, self.sampling_std, self._clipping, undetected)

    def _width(self, level: float) -> FloatArray:
        """Return the half-width from noise, sampling and clipping, (dim,)."""
        level = validation.confidence_level(level)
        return np.asarray(deviations(self.noise_law, level) * self.standard_error)

    @property
    def _unplaced(self) -> BoolArray:
        """Return which columns the counts do not locate, (dim,)."""
        unplaced = {Reason.CONSTANT, Reason.UNRESOLVED}
        return np.array([not unplaced.isdisjoint(own) for own in self.part_reasons])

    @property
    def missing_rows(self) -> FloatArray:
        """Numbers of rows with a missing value for readers, (dim,): those of the report within [0, n_priv]; NaN if not counted."""
        if self.report is None:
            return np.full(self.dim, math.nan)
        return np.clip(self.report.missing, 0.0, float(self.n_priv))

    @property
    def _missing_std(self) -> float:
        """Standard deviation of the noise in the number of missing values of a column; 0 if they were not counted."""
        inside = any(each["name"] == COUNT_INSIDE for each in self.releases)
        names = (COUNT_INSIDE,) if inside else COUNTS_OF_MISSING
        counted = [
            float(each.get("count_noise_std", each["noise_std"]))
            for each in self.releases
            if each["name"] in names
        ]
        return max(counted, default=0.0)

    def _facts_of_rows_used(self, level: float) -> Facts:
        facts = OfCompleteRows._facts_of_rows_used(self, level)
        if self.report is None or self.report.rows_used is None:
            return facts
        numbers = [(rows, self._missing_std) for rows in self.report.rows_used.tolist()]
        return [*facts, fact_of_rows_used(self.labels, numbers)]

    def sum(self, level: float = 0.95) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the sums of the columns over their non-missing values, and lower and upper ends of intervals, (dim,) each.

        A sum is the mean times the number of values, which is n_priv minus the released number of missing ones (with its noise in
        the interval). Where the privacy unit is a person, `keep="sum"` gives the sum of all rows, and `keep="mean"` that of the
        means of persons. The ends come from those of the mean, which include sampling, so that they hold for the sum of these rows
        and for the expected sum of as many rows of the population. NaN where missing values were not counted.

        Raises
        ------
        InputError
            For at most k rows of each person, which have no total of the table.
        """
        if self.about.startswith("at most"):
            raise InputError(
                f"{self._rows_in_use} have no total of the table: pass keep='sum', whose sum is that of all rows"
            )
        lower, upper = self.confidence_interval(level)
        most_rows = float(self._most_rows)
        missing = np.zeros(self.dim)
        error = 0.0
        if self.report is not None:
            rows_used = self.report.rows_used
            missing = self.missing_rows if rows_used is None else most_rows - rows_used
            # A count of missing values within three noise standard deviations of zero is reported as zero.
            error = max(normal_quantile(0.5 + level / 2.0), 3.0) * self._missing_std
        fewest = np.maximum(most_rows - missing - error, 0.0)
        most = most_rows - np.maximum(missing - error, 0.0)
        low = np.where(lower < 0.0, lower * most, lower * fewest)
        high = np.where(upper > 0.0, upper * most, upper * fewest)
        return self.mean * (most_rows - missing), low, high

    def _public_estimates(self, x_pub: Any, level: float) -> list[plots.Estimate]:
        if x_pub is None:
            return []
        return [plots.public_estimate(self._public(x_pub, gaps=True), level)]

    def _facts(self, level: float) -> Facts:
        return [*self._facts_of_parts("Interval", level), *self._facts_of_range()]

    @property
    @column("missing", "dim", unit="rows")
    def _whole_missing_rows(self) -> FloatArray | None:
        if self.report is None or np.isnan(self.report.missing).all():
            return None
        return self.missing_rows.round()

    @property
    @column("rows_used", "dim", unit="rows")
    def _whole_rows_used(self) -> FloatArray | None:
        if self.report is None or self.report.rows_used is None:
            return None
        return self.report.rows_used.round()

    def _facts_of_parts(self, name: str, level: float) -> Facts:
        """Return the fact `name`: what intervals are from, and lines of the half-widths."""
        sources = "noise, sampling, clipping and undetected rows"
        if self.report is None and self.clipping_std is not None:
            sources = "noise, sampling and clipping; undetected rows not counted"
        elif self.report is None:
            sources = "noise and sampling; clipping and undetected rows not counted"
        text = f"{result_tables.percent(level)}, from {self.noise_law} {sources}"
        return [(name, text), *width_facts(self, level)]

    def _facts_of_range(self) -> Facts:
        """Return what the means are about: the range in which counts detect rows, and the rows beyond that they may miss.

        Only the column with most undetected rows, if there are many.
        """
        report = self.report
        if report is None:
            return []
        places = np.flatnonzero(~self._unplaced & (report.undetected_rows >= 0.5)).tolist()
        if len(places) > MOST_SHOWN:
            places = [max(places, key=report.undetected_rows.__getitem__)]
        ranges: dict[str, list[str]] = {}
        for place in places:
            beyond = report._undetected_in_words(place, float(self._most_rows))
            named = f"{report._range_in_words(place)} ({self.labels[place]})"
            ranges.setdefault(beyond, []).append(named)
        texts = [f"rows between {', '.join(own)}; {beyond}" for beyond, own in ranges.items()]
        return [("" if place else "Mean of", text) for place, text in enumerate(texts)]


@value_class
class CovarianceResult(OfCompleteRows):
    """A released covariance in squared data units.

    `reasons` has "clipped" if the rows appear to fill the clipping ball: the bound, and therefore the covariance, is too small;
    and "unresolved" if the smallest eigenvalues are within the noise.

    Attributes
    ----------
    covariance : (dim, dim) float64
        Positive semi-definite; mean squares of the complete rows about the given center.
    relative_noise_std : float
        Standard deviation of the privacy noise of the last round on the diagonal, relative to the covariance.
    steps : int
        Number of rounds.
    predicted_error : float
        Relative Frobenius error by sampling, noise and clipping, predicted from the last released second moment for Gaussian rows
        about the center; an error of "unresolved" eigenvalues may be larger.
    complete_rows, complete_rows_std : float or None
        Released number of private rows without a missing cell, which the covariance is about, and the standard deviation of its
        noise.

    Examples
    --------
    >>> import numpy as np
    >>> import fastpubpriv as fpp
    >>> rows = np.random.default_rng(0).normal(size=(20_000, 2)) * [1.0, 3.0]
    >>> result = fpp.coinpress_covariance(rows, scale=20.0, budget=fpp.ZCDP(rho=0.5))
    >>> result.covariance.shape, bool(abs(result.correlation[0, 1]) < 0.1)
    ((2, 2), True)
    """

    covariance: FloatArray = array("dim", "dim", label="")
    relative_noise_std: float
    steps: int
    predicted_error: float = math.nan
    complete_rows: float | None = None
    complete_rows_std: float | None = None

    _main = "covariance"
    _line_axes = ("dim",)

    @property
    def correlation(self) -> FloatArray:
        """Correlation matrix (dim, dim): post-processing of the covariance."""
        return gaussians.correlation_of(self.covariance)

    def _facts(self, level: float) -> Facts:
        noise = f"{self.relative_noise_std:.3g} of the variances (standard deviation); {self.steps} rounds"
        return [
            ("Noise", noise),
            ("Predicted error", f"{self.predicted_error:.3g} (relative Frobenius)"),
        ]


@value_class
class PCAResult(OfCompleteRows):
    """Released principal directions.

    A component is "unresolved" if its eigenvalue exceeds the next by at most `noise_norm`, or if no interval is valid; it has a
    "heavy_tail" if rows beyond the radius may dominate its interval. "few_rows": they were too few for a private count, so that the
    public rows gave the radius. "clipped": most rows are near or beyond a public radius, and the mean square may be far above the
    interval.

    Attributes
    ----------
    components : (n_components, dim) float64
        Orthonormal rows.
    eigenvalues : (n_components,) float64
        Eigenvalues of the noisy second moment about `center`, in squared data units.
    center : (dim,) float64
        The public center.
    noise_norm : float
        Expected spectral norm of the error of the second moment, from noise and from the pooled public rows: eigenvalue gaps below
        it are not resolved.
    structure : str
        "public" if the directions are determined by the public rows, which have more weight than the private ones, else "full".
    along, along_std, along_below, along_above : (n_components,) float64 or None
        Mean square of the private rows along each component, without the public ones; its standard error from noise and sampling;
        and its largest decrease and increase by rows beyond the radius. `confidence_interval` is computed from these.
    complete_rows, complete_rows_std, complete_rows_below, complete_rows_above : float or None
        Number of private rows without a missing cell, which the result is about, and the errors behind `complete_rows_interval`;
        None if the radius did not come from a count: rows with a missing cell are then counted as rows at the center.

    Examples
    --------
    >>> import numpy as np
    >>> import fastpubpriv as fpp
    >>> rows = np.random.default_rng(0).normal(size=(20_000, 3)) * [5.0, 1.0, 1.0]
    >>> result = fpp.private_pca(rows, center=0.0, radius=20.0, n_components=1, budget=fpp.ZCDP(rho=0.1))
    >>> result.components.shape, bool(result.eigenvalues[0] > 20.0)
    ((1, 3), True)
    """

    components: FloatArray = array("components", "dim", label="", after_reasons=True)
    eigenvalues: FloatArray = array(
        "components",
        label="eigenvalue",
        ends="_ends",
        unit="squared units of the columns",
    )
    center: FloatArray = array("dim")
    noise_norm: float
    structure: str = "full"
    along: FloatArray | None = array("components", default=None)
    along_std: FloatArray | None = array("components", default=None, sampling=True)
    along_below: FloatArray | None = array("components", default=None)
    along_above: FloatArray | None = array("components", default=None)
    complete_rows: float | None = None
    complete_rows_std: float | None = None
    complete_rows_below: float | None = None
    complete_rows_above: float | None = None

    _main = _parted = "eigenvalues"
    _line_axes = ("components",)
    _gaps = "; one with a missing cell counts as a row at the center"

    def _fits_together(self) -> bool:
        parts = [self.along, self.along_std, self.along_below, self.along_above]
        return len({part is None for part in parts}) == 1 and self.structure in ("public", "full")

    def confidence_interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends, (n_components,) each, of the mean square of rows about `center` along each component as released.

        Includes noise, sampling, and rows beyond the radius, whose effect is bounded from the outer of two released pieces. NaN in
        results written before radii from arguments and public rows had intervals.
        """
        level = validation.confidence_level(level)
        if self.along is None:
            unknown = np.full(len(self.eigenvalues), np.nan)
            return unknown, unknown.copy()
        errors = (self.along_std, self.along_below, self.along_above)
        lower, upper = gaussians.ends_about(self.eigenvalues, self.along, *errors, level)
        return np.maximum(lower, 0.0), upper

    def transform(self, rows: Any) -> FloatArray:
        """Project rows (n, dim) onto the components, (n, n_components); columns of a frame are matched by name.

        The projection of private rows stays private data.
        """
        array = points(rows, self.dim, self.columns, finite=False)
        return (array - self.center) @ self.components.T

    def _axis(self, axis: str) -> tuple[str, Sequence[Any]]:
        if axis == "components":
            return "component", range(len(self.components))
        return super()._axis(axis)

    def _ends(self, level: float) -> tuple[FloatArray, FloatArray] | None:
        """Return the interval ends that tables show; None where nothing is known of them."""
        return None if self.along is None else self.confidence_interval(level)

    def _facts(self, level: float) -> Facts:
        noise = f"gaps between eigenvalues below {self.noise_norm:.4g} are not resolved"
        facts = [("Noise", noise)]
        if self.structure == "public":
            facts.append(("Directions", "those of the public rows, mostly"))
        return facts


@value_class
class GaussianResult(OfCompleteRows):
    """A released Gaussian: mean and covariance in data units.

    A part is a column. "unresolved": by the public rule there are too few rounds to reach the smallest eigenvalues, which may be
    far off, or (ladder) these are within the noise, or the counts cannot locate the column. "clipped": the private mean is at the
    edge of the clipping ball around the public rows and therefore biased, or lay outside `bounds`. "shifted": it is farther from
    the public mean than chance explains, or the private rows have another scale; the estimate accounts for both. "heavy_tail" and
    "few_rows" of a column: its intervals may be invalid; "few_rows" also if some are missing, or the ladder has no `report`, and
    "few_public_rows" if public rows show no scale of the column, or not how columns vary together. "no_interval": the method
    is another than the ladder. "gaps": fewer than .98 of the private rows are complete, or public rows have gaps and the number of
    complete private rows was not released.

    Attributes
    ----------
    mean : (dim,) float64
    covariance : (dim, dim) float64
        Positive definite; learned from private rows about their mean with the divisor n_priv - 1.
    mean_noise_std : (dim,) float64
        Standard deviation of the privacy noise in each coordinate of the mean.
    rounds : int
        Number of rounds of the covariance recursion.
    predicted_covariance_error, predicted_mean_error : float
        Relative Frobenius error of the covariance, and l2 error of the mean in standard deviations, predicted from public numbers;
        infinite (null in JSON) if the result as a whole is "unresolved", unless the method shrinks unresolved directions. A guess
        if `diagnostics["guess"]` is true: a column has a reason, or (without a private covariance) fewer than five public rows, or
        no more than columns, cannot show correlations; the true error of the covariance may then be many times larger.
    method : str
        The algorithm that ran.
    structure : str
        "full"; for the ladder also "public" (no private row was read), "mean" (a private mean with the public covariance) and
        "diagonal" (private variances along the eigenvectors of the public covariance).
    diagnostics : mapping
        Released or public numbers about the run; for the ladder the predicted errors of all structures, the columns that borrowed a
        scale because their public values are all equal, the shrinkage target, the weight of the private mean, and as checks of the
        public rows, `shift` (distance of the private mean from the public one, in standard deviations) and `scale_ratio` (factor
        that corrected the public scale after a private count; 1 if it was about right).
    report : GaussianReport or None
        Estimates and standard errors of each mean, covariance and correlation, from releases or, for the other structures, from at
        least ten public rows, with the released mean; None otherwise. `confidence_interval` is computed from it.
    complete_rows, complete_rows_std, complete_rows_below, complete_rows_above : float or None
        Number of private rows without a missing cell, which the result is about; the standard deviation of its noise; and its
        largest decrease and increase by rows beyond the clip radius. `complete_rows_interval` is computed from these; None if the
        number was not released.

    Examples
    --------
    >>> import numpy as np
    >>> import fastpubpriv as fpp
    >>> rows = np.random.default_rng(0).normal([170.0, 70.0], [9.0, 12.0], size=(20_000, 2))
    >>> result = fpp.estimate_gaussian(rows[9:], x_pub=rows[:9], budget=fpp.ZCDP(rho=0.5))
    >>> bool(np.allclose(np.sqrt(np.diag(result.covariance)), [9.0, 12.0], rtol=0.1)), result.private
    (True, True)
    """

    mean: FloatArray = array("dim", label="mean", ends="_mean_ends", error="_mean_error")
    covariance: FloatArray = array("dim", "dim")
    mean_noise_std: FloatArray = array("dim", label="mean_noise_std", error="mean_noise_std")
    rounds: int
    predicted_covariance_error: float
    predicted_mean_error: float
    method: str
    structure: str = "full"
    diagnostics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    report: GaussianReport | None = None
    complete_rows: float | None = None
    complete_rows_std: float | None = None
    complete_rows_below: float | None = None
    complete_rows_above: float | None = None

    _main = _parted = "mean"
    _line_axes = ("dim",)
    _gaps = "; how many have a missing cell is not known"

    def confidence_interval(
        self, level: float = 0.95, *, of: str = "mean"
    ) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends of intervals for each "mean" or "standard_deviation", (dim,), "covariance" or "correlation".

        Those of the last two are (dim, dim). They include noise, sampling, and rows beyond the clip radius, whose effect is bounded
        from the outer of two released pieces, or for structures "mean" and "diagonal" from what public rows lose by clipping; they
        are extended to contain the shrunk estimate. NaN without a `report`, and where public rows alone show too little: deviations
        from fewer than a hundred of them, or of a long tail.
        """
        level = validation.confidence_level(level)
        kind = validation.choice("of", of, KINDS)
        points = {
            "mean": self.mean,
            "standard_deviation": np.sqrt(np.diag(self.covariance)),
            "covariance": self.covariance,
            "correlation": self.correlation,
        }
        if self.report is None:
            unknown = np.full(points[kind].shape, np.nan)
            return unknown, unknown.copy()
        return self.report.interval(kind, points[kind], level)

    @property
    def correlation(self) -> FloatArray:
        """Correlation matrix (dim, dim): post-processing of the covariance."""
        return gaussians.correlation_of(self.covariance)

    def confidence_ellipse(
        self, first: int = 0, second: int = 1, *, level: float = 0.95
    ) -> tuple[FloatArray, FloatArray]:
        """Center (2,) and outline (181, 2) of the ellipse that has probability `level` under the Gaussian of two coordinates."""
        level = validation.confidence_level(level)
        if not (0 <= first < self.dim and 0 <= second < self.dim and first != second):
            raise InputError(
                f"an ellipse needs two different columns from 0 to {self.dim - 1}, got {first} and {second}"
            )
        chosen = [first, second]
        center = self.mean[chosen]
        return center, gaussians.ellipse(center, self.covariance[np.ix_(chosen, chosen)], level)

    def sample(self, n: int, *, random_state: Any = None) -> FloatArray:
        """Draw n synthetic rows (n, dim) from the released Gaussian.

        Post-processing, so any generator is safe: `random_state` is None, an int or a NumPy generator.
        """
        normals: FloatArray = draw_normals((n, self.dim), random_state=random_state)
        return self.mean + normals @ gaussians.factor_of(self.covariance).T

    def log_prob(self, rows: Any) -> FloatArray:
        """Log density of the released Gaussian at finite rows (n, dim), (n,). Columns of a frame are matched by name."""
        array = np.atleast_2d(points(rows, self.dim, self.columns, finite=True))
        half, constant = gaussians.log_density(
            array, self.mean, gaussians.factor_of(self.covariance)
        )
        return -half - constant

    def plot(
        self,
        path: str | Path | None = None,
        *,
        level: float = 0.95,
        x_pub: Any = None,
        bounds: Any = None,
        ax: Any = None,
    ) -> Any:
        """Draw ellipses of all pairs (up to five columns) or a correlation heat map; returns the figure (needs matplotlib).

        Correlations are printed beside the ellipses, with 95 % intervals if there is a `report`. Public rows `x_pub`, if given, are
        drawn behind the ellipses. `bounds`, a pair (lowest, highest) of numbers or vectors, restricts the ellipses to the range of
        the columns; by default those of the call.
        `ax` are axes of matplotlib to draw into, in place of a figure of their own.
        """
        level = validation.confidence_level(level)
        if self.dim <= plots.MAX_PAIRED:
            rows = None
            if x_pub is not None:
                rows = self._public(x_pub, gaps=True)
                rows = rows[np.isfinite(rows).all(axis=1)]  # as of the private ones: complete rows
            box = gaussians.drawn_box(bounds, self.diagnostics, self.dim)
            return plots.plot_ellipses(
                self, path=path, ax=ax, level=level, ends_level=LEVEL, points=rows, box=box
            )
        # Error of one correlation: the Frobenius error has dim (dim + 1) / 2 free entries; off-diagonal ones count twice.
        noise = self.predicted_covariance_error / math.sqrt(self.dim * (self.dim + 1.0))
        note = f"predicted noise of one entry, sampling included: about ±{noise:.2g}"
        if self.report is not None:
            lower, upper = self.confidence_interval(LEVEL, of="correlation")
            half = float(np.nanmedian((upper - lower)[np.triu_indices(self.dim, 1)])) / 2.0
            note = f"{LEVEL:.0%} intervals: ±{half:.2g} in the median"
        if self.structure in ("public", "mean"):
            note = f"the covariance of the public rows; predicted error of one entry: about ±{noise:.2g}"
        elif self.status == "unreliable":
            note = "; ".join(
                reason.sentence for reason in self.reasons if reason.level == "unreliable"
            )
        return plots.plot_correlations(self.correlation, self.labels, note, path=path, ax=ax)

    def _fits_together(self) -> bool:
        known = self.report is None or len(self.report.mean) == self.dim
        return known and gaussians.positive_definite(self.covariance[None])

    @property
    @column(
        "standard_deviation",
        "dim",
        ends="_deviation_ends",
        names_of_ends=("deviation_lower", "deviation_upper"),
        error=WIDTH,
    )
    def _spread(self) -> FloatArray:
        return np.sqrt(np.diag(self.covariance))

    @property
    def _mean_error(self) -> FloatArray:
        """Standard error of each mean from noise and sampling, (dim,)."""
        sampling = self._spread / math.sqrt(max(1, self.n_priv))
        return np.asarray(np.hypot(self.mean_noise_std, sampling))

    def _mean_ends(self, level: float) -> tuple[FloatArray, FloatArray] | None:
        return None if self.report is None else self.confidence_interval(level)

    def _deviation_ends(self, level: float) -> tuple[FloatArray, FloatArray] | None:
        if self.report is None:
            return None
        return self.confidence_interval(level, of="standard_deviation")

    def _facts(self, level: float) -> Facts:
        details = []
        if self.report is not None:
            parts = "noise, sampling, and rows beyond the clip radius"
            public = "public sampling"
            alone = f"{parts} (means); {public} (deviations, correlations)"
            parts = {"public": public, "full": parts}.get(self.structure, alone)
            details.append(("Interval", f"{result_tables.percent(level)}: {parts}"))
        text = (
            f"covariance {self.predicted_covariance_error:.1%} (relative Frobenius), mean "
            f"{self.predicted_mean_error:.3g} standard deviations; {self.rounds} rounds"
        )
        details += [
            ("Predicted error", text),
            ("Method", f"{self.method}, structure {self.structure}"),
        ]
        diagnostics = self.diagnostics
        if diagnostics.get("guess", False):
            few = f"{self.n_pub} public rows do not show how {self.dim} columns vary together"
            why = few if self.report is None else "rows far out, or too few of them, leave it open"
            details.append(("Covariance", f"its predicted error is a guess: {why}"))
        if fallback := diagnostics.get("fallback_columns", ()):
            details.append(("No public scale in", ", ".join(fallback)))
        if diagnostics.get("shifted", False):
            details.append(
                (
                    "Public mean",
                    f"{diagnostics['shift']:.3g} deviations off: it was given less weight",
                )
            )
        if diagnostics.get("rescaled", False):
            off = f"off by a factor of {diagnostics['scale_ratio']:.3g}"
            details.append(("Public scale", f"{off}: that of a private count was used"))
        return details
