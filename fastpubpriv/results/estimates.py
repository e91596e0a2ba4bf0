"""Released means, covariances, principal directions and Gaussians."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.column_names import points
from fastpubpriv.errors import InputError
from fastpubpriv.public_draws import draw_normals, normal_quantile
from fastpubpriv.results import base, gaussians, plots
from fastpubpriv.results.base import LEVEL, IntervalResult, Result, Table, TableColumn, Value, shape, value_of
from fastpubpriv.results.gaussians import KINDS, GaussianReport

SHOWN_UNSEEN = 0.01  # share of the rows that may lie far out unseen, from which a summary says how many


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ColumnReport(Value):
    """What released and public numbers say about each column; all arrays are (dim,), in data units unless said otherwise.

    Attributes
    ----------
    missing : float64
        Released number of rows without a number here; zero where it is within its noise. NaN (null in JSON) where whole rows were
        counted by their norm, and those without a number as rows at the center.
    resolved_from, resolved_to : float64
        The counts show rows as far as these numbers.
    undetected_rows : float64
        Up to this many rows may lie outside that range without being noticed in the noisy counts: anywhere within the bounds, or,
        without bounds, in one octave up to a thousand times further out.
    clipping_std : float64
        Standard deviation of the correction that was added for clipped rows.
    tail_below, tail_above : float64
        How far rows that could not be seen may move the mean down or up, if the tails continue as the counts show them.
    worst_below, worst_above : float64
        The same for rows anywhere within the bounds; without bounds zero, or infinite (null in JSON) where nothing is known.
    lowest, highest : float64
        Bounds of the mean that the caller gave; infinite without (null in JSON; `lowest` as the negative of it).
    """

    missing: FloatArray = dataclasses.field(metadata=shape("dim", missing=math.nan))
    resolved_from: FloatArray = dataclasses.field(metadata=shape("dim"))
    resolved_to: FloatArray = dataclasses.field(metadata=shape("dim"))
    undetected_rows: FloatArray = dataclasses.field(metadata=shape("dim"))
    clipping_std: FloatArray = dataclasses.field(metadata=shape("dim"))
    tail_below: FloatArray = dataclasses.field(metadata=shape("dim"))
    tail_above: FloatArray = dataclasses.field(metadata=shape("dim"))
    worst_below: FloatArray = dataclasses.field(metadata=shape("dim", missing=math.inf))
    worst_above: FloatArray = dataclasses.field(metadata=shape("dim", missing=math.inf))
    lowest: FloatArray = dataclasses.field(metadata=shape("dim", missing=-math.inf))
    highest: FloatArray = dataclasses.field(metadata=shape("dim", missing=math.inf))

    def _refuse_nonsense(self) -> None:
        lengths = {len(getattr(self, field.name)) for field in dataclasses.fields(self)}
        if len(lengths) != 1:
            raise InputError("this JSON text cannot be read: a report says as much of each column")

    def interval(self, mean: FloatArray, width: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Ends of an interval around `mean` whose noise, sampling and clipping reach `width` to each side."""
        lower = mean - np.hypot(width, self.tail_below) - self.worst_below
        upper = mean + np.hypot(width, self.tail_above) + self.worst_above
        return np.clip(lower, self.lowest, self.highest), np.clip(upper, self.lowest, self.highest)

    def __repr__(self) -> str:
        return f"ColumnReport(dim={len(self.missing)})"

    def _table(self) -> Table:
        names = ("missing", "resolved_from", "resolved_to", "undetected_rows")
        numbers = [TableColumn(name, getattr(self, name)) for name in names]
        return Table("column", [str(place) for place in range(len(self.missing))], numbers)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MeanResult(IntervalResult):
    """A released mean.

    Attributes
    ----------
    mean : (dim,) float64
        The estimate, in data units.
    noise_std : (dim,) float64
        Standard deviation of the privacy noise in each coordinate.
    sampling_std : (dim,) float64
        Standard deviation of the mean of the rows themselves, from the assumed or public covariance.
    noise_law : str
        "gaussian" or "laplace".
    clipping_std : (dim,) float64 or None
        Allowance for what rows beyond a given norm bound lose, from public rows; None where they do not tell.
    report : ColumnReport or None
        What released counts say about each column, or of whole rows; None where the clip radius came from a covariance or the
        caller. Only with it are there `part_reasons`, of each column.

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

    mean: FloatArray = dataclasses.field(metadata=shape("dim"))
    noise_std: FloatArray = dataclasses.field(metadata=shape("dim"))
    sampling_std: FloatArray = dataclasses.field(metadata=shape("dim"))
    noise_law: str
    clipping_std: FloatArray | None = dataclasses.field(default=None, metadata=shape("dim"))
    report: ColumnReport | None = dataclasses.field(default=None, metadata=value_of(ColumnReport))

    _sampling = ("sampling_std",)

    def _refuse_nonsense(self) -> None:
        known = 0 if self.report is None else self.dim
        if len(self.part_reasons) != known or (self.report is not None and len(self.report.missing) != known):
            raise InputError("this JSON text cannot be read: the report must say something of every column")

    @property
    def standard_error(self) -> FloatArray:
        """Standard deviation of the estimate: privacy noise, sampling and what was allowed for clipped rows, (dim,)."""
        total: FloatArray = np.hypot(self.noise_std, self.sampling_std)
        clipped = self.clipping_std if self.report is None else self.report.clipping_std
        return total if clipped is None else np.hypot(total, clipped)

    def confidence_interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends, (dim,) each, of an interval for the mean of each coordinate.

        Counts privacy noise and sampling; with a `report`, also the bias of clipping and what may lie where the counts show
        nothing, so that the ends need not be equally far, and are infinite where nothing is known. Without a report it counts under
        the covariance that the estimate was given, the bias of clipping only where there is `clipping_std`, and not that of rows
        with missing entries. Under pure DP the quantile is a Laplace law's, on the safe side for levels of 0.9 and more.
        """
        level = validation.confidence_level(level)
        width = base.deviations(self.noise_law, level) * self.standard_error
        return (self.mean - width, self.mean + width) if self.report is None else self.report.interval(self.mean, width)

    def sum(self, level: float = 0.95) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Sums of the columns over the rows that have a number there, with lower and upper ends, (dim,) each.

        The mean times the number of these rows: all, or all but the released number of missing ones, whose noise counts. The ends
        are those of the mean, so that sampling counts too: they hold the sum of the rows at hand and the expected sum of as many
        others. NaN where it was not counted how many rows are missing.
        """
        lower, upper = self.confidence_interval(level)
        missing, error = np.zeros(self.dim), 0.0
        if self.report is not None:
            missing = self.report.missing
            counted = [each["noise_std"] for each in self.releases if each["name"] == "signed dyadic cells"]
            # A number of missing rows that is within three deviations of its noise is reported as zero.
            error = max(normal_quantile(0.5 + level / 2.0), 3.0) * max(counted, default=0.0)
        fewest = np.maximum(self.n_priv - missing - error, 0.0)
        most = self.n_priv - np.maximum(missing - error, 0.0)
        low = np.where(lower < 0.0, lower * most, lower * fewest)
        high = np.where(upper > 0.0, upper * most, upper * fewest)
        return self.mean * (self.n_priv - missing), low, high

    def plot(self, path: str | Path | None = None, *, level: float = 0.95, x_pub: Any = None) -> Any:
        """Draw the means with their intervals, a line for each column (needs matplotlib); returns the figure.

        Below each, if given, the mean of the public rows `x_pub` with Student's interval: what they say by themselves.
        """
        lower, upper = self.confidence_interval(level)
        estimates = [plots.Estimate("private", self.mean, lower, upper)]
        if x_pub is not None:
            estimates.append(plots.public_estimate(self._public(x_pub, gaps=True), level))
        return plots.plot_forest(estimates, self.labels, label=f"mean, with {level:.0%} intervals", path=path)

    def _estimate(self) -> tuple[str, Any]:
        return "mean", self.mean

    def _table(self, level: float = LEVEL) -> Table:
        columns = base.with_ends("mean", self.mean, self.confidence_interval(level), self.standard_error)
        columns.append(TableColumn("noise_std", self.noise_std, self.noise_std))
        if self.report is not None and not np.isnan(self.report.missing).all():
            columns.append(TableColumn("missing", self.report.missing.round()))
        return Table("column", self.labels, [*columns, *base.with_reasons(self.part_reasons)])

    def _about(self, level: float) -> list[tuple[str, str]]:
        explained = self.report is not None or self.clipping_std is not None
        parts = "noise, sampling and clipping" if explained else "noise and sampling"
        return [("Interval", f"{base.percent(level)}, from {self.noise_law} {parts}")]

    def _details(self) -> list[tuple[str, str]]:
        unseen = 0.0 if self.report is None else float(self.report.undetected_rows.max())
        if unseen < SHOWN_UNSEEN * self.n_priv:
            return []
        return [("Unseen", f"up to {unseen:,.0f} rows may lie far from all others without showing in the counts")]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CovarianceResult(Result):
    """A released covariance in squared data units.

    `reasons` has "clipped" where rows were seen to fill the ball that they are clipped to: the bound is too small, and the
    covariance with it; and "unresolved" where noise could have made the smallest eigenvalues.

    Attributes
    ----------
    covariance : (dim, dim) float64
        Positive semi-definite.
    relative_noise_std : float
        Diagonal standard deviation of the privacy noise of the last round, relative to the covariance.
    steps : int
        Rounds.
    predicted_error : float
        Relative Frobenius error predicted from public numbers, for a bound and a center that are right.

    Examples
    --------
    >>> import numpy as np
    >>> import fastpubpriv as fpp
    >>> rows = np.random.default_rng(0).normal(size=(20_000, 2)) * [1.0, 3.0]
    >>> result = fpp.coinpress_covariance(rows, scale=20.0, budget=fpp.ZCDP(rho=0.5))
    >>> result.covariance.shape, bool(abs(result.correlation[0, 1]) < 0.1)
    ((2, 2), True)
    """

    covariance: FloatArray = dataclasses.field(metadata=shape("dim", "dim"))
    relative_noise_std: float
    steps: int
    predicted_error: float = math.nan

    @property
    def correlation(self) -> FloatArray:
        """Correlation matrix (dim, dim): post-processing of the covariance."""
        return gaussians.correlation_of(self.covariance)

    def _estimate(self) -> tuple[str, Any]:
        return "covariance", self.covariance

    def _table(self) -> Table:
        return Table("column", self.labels, list(zip(self.labels, self.covariance.T, strict=True)))

    def _details(self) -> list[tuple[str, str]]:
        noise = f"{self.relative_noise_std:.3g} of the variances (standard deviation); {self.steps} rounds"
        return [("Noise", noise), ("Predicted error", f"{self.predicted_error:.3g} (relative Frobenius)")]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PCAResult(Result):
    """Released principal directions.

    A component is "unresolved" where its eigenvalue is not above the next by more than `noise_norm`, or where no interval holds; it
    has a "heavy_tail" where rows beyond the radius may decide its interval.

    Attributes
    ----------
    components : (n_components, dim) float64
        Orthonormal rows.
    eigenvalues : (n_components,) float64
        Of the noisy second moment about `center`, in squared data units.
    center : (dim,) float64
        The public center.
    noise_norm : float
        Expected spectral norm of the noise on the second moment, and of what the share of public rows in it may be off: eigenvalue
        gaps below it are not resolved.
    structure : str
        "public" where the directions are because of the public rows, which weigh more than the private ones, else "full".
    along, along_std, along_below, along_above : (n_components,) float64 or None
        Mean square of the private rows along each component, without the public ones; its deviation by noise and sampling; and how
        far rows beyond the radius may move it down and up. `confidence_interval` is made of them.

    Examples
    --------
    >>> import numpy as np
    >>> import fastpubpriv as fpp
    >>> rows = np.random.default_rng(0).normal(size=(20_000, 3)) * [5.0, 1.0, 1.0]
    >>> result = fpp.private_pca(rows, center=0.0, radius=20.0, n_components=1, budget=fpp.ZCDP(rho=0.1))
    >>> result.components.shape, bool(result.eigenvalues[0] > 20.0)
    ((1, 3), True)
    """

    components: FloatArray = dataclasses.field(metadata=shape("components", "dim"))
    eigenvalues: FloatArray = dataclasses.field(metadata=shape("components"))
    center: FloatArray = dataclasses.field(metadata=shape("dim"))
    noise_norm: float
    structure: str = "full"
    along: FloatArray | None = dataclasses.field(default=None, metadata=shape("components"))
    along_std: FloatArray | None = dataclasses.field(default=None, metadata=shape("components"))
    along_below: FloatArray | None = dataclasses.field(default=None, metadata=shape("components"))
    along_above: FloatArray | None = dataclasses.field(default=None, metadata=shape("components"))

    _sampling = ("along_std",)

    def _refuse_nonsense(self) -> None:
        parts = [getattr(self, f"along{part}") for part in ("", "_std", "_below", "_above")]
        consistent = len({part is None for part in parts}) == 1 and self.structure in ("public", "full")
        if not consistent or len(self.part_reasons) != len(self.eigenvalues):
            raise InputError("this JSON text cannot be read: intervals and reasons of directions do not fit together")

    def confidence_interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends, (n_components,) each, of the mean square of rows about `center` along each component as released.

        Counts noise, sampling, and rows beyond the radius. NaN where the radius was an argument: it says nothing of them.
        """
        level = validation.confidence_level(level)
        if self.along is None:
            unknown = np.full(len(self.eigenvalues), np.nan)
            return unknown, unknown.copy()
        along, std, below, above = map(np.asarray, (self.along, self.along_std, self.along_below, self.along_above))
        width = normal_quantile(0.5 + level / 2.0) * std
        lower, upper = along - width - below, along + width + above
        return np.maximum(np.minimum(lower, self.eigenvalues), 0.0), np.maximum(upper, self.eigenvalues)

    def transform(self, rows: Any) -> FloatArray:
        """Project rows (n, dim) onto the components, (n, n_components); columns of a frame are matched by name.

        The projection of private rows stays private data.
        """
        array = points(rows, self.dim, self.columns, finite=False)
        return (array - self.center) @ self.components.T

    def _estimate(self) -> tuple[str, Any]:
        return "eigenvalues", self.eigenvalues

    def _table(self) -> Table:
        columns = base.with_ends("eigenvalue", self.eigenvalues, self.confidence_interval(), None)
        columns = [*columns[: 1 if self.along is None else 3], *base.with_reasons(self.part_reasons)]
        columns += [TableColumn(*pair) for pair in zip(self.labels, self.components.T, strict=True)]
        return Table("component", range(len(self.components)), columns)

    def _details(self) -> list[tuple[str, str]]:
        mostly = [("Directions", "those of the public rows, mostly")] if self.structure == "public" else []
        return [("Noise", f"gaps between eigenvalues below {self.noise_norm:.4g} are not resolved"), *mostly]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class GaussianResult(IntervalResult):
    """A released Gaussian: mean and covariance in data units.

    A part is a column. "unresolved": the rounds are too few, by the public rule, to reach the smallest eigenvalues, which may be
    far off, or (ladder) noise could have made them, or the counts cannot show where rows of a column lie. "clipped": the private
    mean was seen at the edge of the ball around the public rows that rows are clipped to, which held it back, or lay outside
    `bounds`. "shifted": it lies farther from theirs than chance explains, or the private rows have another scale; both were allowed
    for. "heavy_tail" and "few_rows" of a column: its intervals may not hold; "few_rows" also where the ladder has no `report`.

    Attributes
    ----------
    mean : (dim,) float64
    covariance : (dim, dim) float64
        Positive definite.
    mean_noise_std : (dim,) float64
        Standard deviation of the privacy noise in each coordinate of the mean.
    rounds : int
        Rounds of the covariance recursion.
    predicted_covariance_error, predicted_mean_error : float
        Relative Frobenius error of the covariance, and l2 error of the mean in standard deviations, from public numbers; infinite
        (null in JSON) when the whole is "unresolved", unless the method shrinks what it cannot resolve. A guess where
        `diagnostics["guess"]` is true: a column has a reason, or (without a private covariance) fewer than five public rows, or no
        more than columns, do not show correlations; the error of the covariance may be many times that.
    method : str
        The algorithm that ran.
    structure : str
        "full"; of the ladder also "public" (nothing private was read), "mean" (a private mean with the public covariance) and
        "diagonal" (private variances along the axes of the public covariance).
    diagnostics : mapping
        Released or public numbers about the run; of the ladder the errors predicted for all rungs, the columns that borrowed a
        scale because their public values are all equal, the target of the shrinkage, the weight of the private mean, and as a check
        of the public rows, `shift` (distance of the private mean from the public one, in deviations) and `scale_ratio` (by what the
        public scale was multiplied after a private count; 1 where it was near).
    report : GaussianReport or None
        What releases say about each mean, covariance and correlation; of structure "public" what ten public rows or more say of
        themselves; None otherwise. `confidence_interval` is made of it.

    Examples
    --------
    >>> import numpy as np
    >>> import fastpubpriv as fpp
    >>> rows = np.random.default_rng(0).normal([170.0, 70.0], [9.0, 12.0], size=(20_000, 2))
    >>> result = fpp.estimate_gaussian(rows[9:], x_pub=rows[:9], budget=fpp.ZCDP(rho=0.5))
    >>> bool(np.allclose(np.sqrt(np.diag(result.covariance)), [9.0, 12.0], rtol=0.1)), result.private
    (True, True)
    """

    mean: FloatArray = dataclasses.field(metadata=shape("dim"))
    covariance: FloatArray = dataclasses.field(metadata=shape("dim", "dim"))
    mean_noise_std: FloatArray = dataclasses.field(metadata=shape("dim"))
    rounds: int
    predicted_covariance_error: float
    predicted_mean_error: float
    method: str
    structure: str = "full"
    diagnostics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    report: GaussianReport | None = dataclasses.field(default=None, metadata=value_of(GaussianReport))

    def confidence_interval(self, level: float = 0.95, *, of: str = "mean") -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends of intervals for each "mean" or "standard_deviation", (dim,), "covariance" or "correlation".

        Those of the last two are (dim, dim). They count noise, sampling, and what rows beyond the clip radius may add, which the
        outer of two released pieces shows by its direction; they hold the estimate, which is shrunk. NaN without a `report`.
        """
        level, kind = validation.confidence_level(level), validation.choice("of", of, KINDS)
        points = {
            "mean": self.mean, "standard_deviation": np.sqrt(np.diag(self.covariance)), "covariance": self.covariance,
            "correlation": self.correlation,
        }  # fmt: skip
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
        """Center (2,) and points (181, 2) of the ellipse that holds a share `level` of the Gaussian in two coordinates."""
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

        Post-processing, so any generator will do: `random_state` is None, an int or a NumPy generator.
        """
        normals: FloatArray = draw_normals((n, self.dim), random_state=random_state)
        return self.mean + normals @ gaussians.factor_of(self.covariance).T

    def log_prob(self, rows: Any) -> FloatArray:
        """Log density of the released Gaussian at finite rows (n, dim), (n,). Columns of a frame are matched by name."""
        array = np.atleast_2d(points(rows, self.dim, self.columns, finite=True))
        half, constant = gaussians.log_density(array, self.mean, gaussians.factor_of(self.covariance))
        return -half - constant

    def plot(
        self, path: str | Path | None = None, *, level: float = 0.95, x_pub: Any = None, bounds: Any = None
    ) -> Any:
        """Draw ellipses of all pairs (up to five columns) or a correlation heat map; returns the figure (needs matplotlib).

        Correlations stand beside the ellipses with their 95 % intervals where there is a `report`.
        Behind the ellipses, if given, the public rows `x_pub`. `bounds`, a pair (lowest, highest) of numbers or vectors, cuts the
        ellipses to what the columns can hold; by default those of the call.
        """
        level = validation.confidence_level(level)
        if self.dim <= plots.MAX_PAIRED:
            rows = None if x_pub is None else self._public(x_pub)
            ends = gaussians.public_bounds(self.diagnostics) if bounds is None else bounds
            box = validation.column_bounds(ends, self.dim, endless=True)
            return plots.plot_ellipses(self, path=path, level=level, ends_level=LEVEL, points=rows, box=box)
        # The share of one correlation in the Frobenius error, which has dim (dim + 1) / 2 free entries; it counts twice.
        noise = self.predicted_covariance_error / math.sqrt(self.dim * (self.dim + 1.0))
        note = f"predicted noise of one entry, sampling included: about ±{noise:.2g}"
        if self.report is not None:
            lower, upper = self.confidence_interval(LEVEL, of="correlation")
            half = float(np.median((upper - lower)[np.triu_indices(self.dim, 1)])) / 2.0
            note = f"{LEVEL:.0%} intervals: ±{half:.2g} in the median"
        if self.structure in ("public", "mean"):
            note = f"the covariance of the public rows; predicted error of one entry: about ±{noise:.2g}"
        elif self.status == "unreliable":
            note = "; ".join(reason.sentence for reason in self.reasons if reason.level == "unreliable")
        return plots.plot_correlations(self.correlation, self.labels, note, path=path)

    def _refuse_nonsense(self) -> None:
        gaussians.refuse_no_covariances(self.covariance[None])
        if len(self.part_reasons) != self.dim or (self.report is not None and len(self.report.mean) != self.dim):
            raise InputError("this JSON text cannot be read: the report must say something of every column")

    def _estimate(self) -> tuple[str, Any]:
        return "mean", self.mean

    def _table(self, level: float = LEVEL) -> Table:
        spread = np.sqrt(np.diag(self.covariance))
        error = np.hypot(self.mean_noise_std, spread / math.sqrt(max(1, self.n_priv)))
        noise = TableColumn("mean_noise_std", self.mean_noise_std, self.mean_noise_std)
        if self.report is None:
            alone = [TableColumn("mean", self.mean, error), noise, TableColumn("standard_deviation", spread)]
            return Table("column", self.labels, [*alone, *base.with_reasons(self.part_reasons)])
        means = base.with_ends("mean", self.mean, self.confidence_interval(level), error)
        least, most = self.confidence_interval(level, of="standard_deviation")
        names = "deviation_lower", "deviation_upper"
        spreads = base.with_ends("standard_deviation", spread, (least, most), (most - least) / 4.0, names)
        return Table("column", self.labels, [*means, noise, *spreads, *base.with_reasons(self.part_reasons)])

    def _about(self, level: float) -> list[tuple[str, str]]:
        if self.report is None:
            return []
        parts = "public sampling" if self.structure == "public" else "noise, sampling, and rows beyond the clip radius"
        return [("Interval", f"{base.percent(level)}: {parts}")]

    def _details(self) -> list[tuple[str, str]]:
        text = (
            f"covariance {self.predicted_covariance_error:.1%} (relative Frobenius), mean "
            f"{self.predicted_mean_error:.3g} standard deviations; {self.rounds} rounds"
        )
        details = [("Predicted error", text), ("Method", f"{self.method}, structure {self.structure}")]
        diagnostics = self.diagnostics
        if diagnostics.get("guess", False):
            few = f"{self.n_pub} public rows do not show how {self.dim} columns vary together"
            why = few if self.report is None else "rows far out, or too few of them, leave it open"
            details.append(("Covariance", f"its predicted error is a guess: {why}"))
        if fallback := diagnostics.get("fallback_columns", ()):
            details.append(("No public scale in", ", ".join(fallback)))
        if diagnostics.get("shifted", False):
            details.append(("Public mean", f"{diagnostics['shift']:.3g} deviations off: it was given less weight"))
        if diagnostics.get("rescaled", False):
            off = f"off by a factor of {diagnostics['scale_ratio']:.3g}"
            details.append(("Public scale", f"{off}: that of a private count was used"))
        return details
