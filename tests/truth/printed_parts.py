"""What the printed parts of a result say that its intervals are, computed here and compared with the intervals.

A half-width is that of the law of the noise times the root of the sum of squares of the standard errors; tails are added on their
side, for means and variances under the root, as rows that are not seen are no further in doubt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

import fastpubpriv as fpp

LEVELS = {0.5: 0.674490, 0.95: 1.959964, 0.99: 2.575829}  # normal quantiles of two sides
LEVEL_OF_PRINT = 0.95
ROUNDING = 1e-5  # of the quantiles
Ends = tuple[Any, Any]


class Reach(NamedTuple):
    """An interval of a result at a level, and what its parts say that it is."""

    name: str
    printed: Ends
    said: Ends


def half_widths(law: str, level: float) -> float:
    """Half-width of an interval in standard errors; of Laplace noise at least that of its own law."""
    normal = LEVELS[level]
    return max(normal, -math.log(1.0 - level) / math.sqrt(2.0)) if law == "laplace" else normal


def root_of_squares(*parts: Any) -> Any:
    """Root of the sum of squares; a part that is None is none."""
    return np.sqrt(sum(np.square(part) for part in parts if part is not None))


def cut(ends: Ends, lowest: Any, highest: Any) -> Ends:
    """Ends within bounds."""
    return np.clip(ends[0], lowest, highest), np.clip(ends[1], lowest, highest)


def with_point(ends: Ends, point: Any) -> Ends:
    """Ends that are moved outwards to hold the estimate."""
    return np.minimum(ends[0], point), np.maximum(ends[1], point)


# ---- One class of results after the other ----------------------------------------------------------------------------
def of_mean(result: fpp.MeanResult, level: float) -> Iterator[Reach]:
    """Means: noise, sampling and clipping, then tails, then the worst case of a column that is not located."""
    report = result.report
    clipping = result.clipping_std if report is None else report.clipping_std
    errors = root_of_squares(result.noise_std, result.sampling_std, clipping)
    half = half_widths(result.noise_law, level) * errors
    said = (result.mean - half, result.mean + half)
    if report is not None:
        lost = [bool({"constant", "unresolved"} & set(own)) for own in result.part_reasons]
        worst = (np.where(lost, end, 0.0) for end in (report.worst_below, report.worst_above))
        worst_below, worst_above = worst
        below = root_of_squares(half, report.tail_below) + worst_below
        above = root_of_squares(half, report.tail_above) + worst_above
        said = cut((result.mean - below, result.mean + above), report.lowest, report.highest)
        half = np.maximum(below, above)
    yield Reach("mean", result.confidence_interval(level), said)
    yield of_half(result, level, half)


def of_half(result: Any, level: float, half: Any) -> Reach:
    """The larger half-width, whose parts add up in squares."""
    printed = np.hypot.reduce(result.interval_parts(level), axis=-1)
    return Reach("parts of mean", (-printed, printed), (-half, half))


def of_variances(result: Any, law: str, level: float) -> Ends:
    """Standard deviations, from variances whose tail goes upwards."""
    variance = np.nan_to_num(result.variance)
    half = half_widths(law, level) * result.variance_std
    above = root_of_squares(half, result.variance_tail)
    return tuple(np.sqrt(np.maximum(end, 0.0)) for end in (variance - half, variance + above))


def of_groups(result: fpp.GroupMeans, level: float) -> Iterator[Reach]:
    """Means of groups: noise, sampling and clipping, then tails; and their deviations."""
    errors = root_of_squares(result.noise_std, result.sampling_std, result.clipping_std)
    half = half_widths(result.noise_law, level) * errors
    mean = np.nan_to_num(result.mean)
    below = root_of_squares(half, result.tail_below)
    above = root_of_squares(half, result.tail_above)
    said = cut((mean - below, mean + above), result.lowest, result.highest)
    yield Reach("mean", result.confidence_interval(level), said)
    yield of_half(result, level, np.maximum(below, above))
    deviations = of_variances(result, result.noise_law, level)
    yield Reach("std", result.deviation_interval(level), deviations)


def of_description(result: fpp.Description, level: float) -> Iterator[Reach]:
    """Means, deviations and counts of texts."""
    yield from of_mean(result.means, level)
    deviations = of_variances(result, result.means.noise_law, level)
    yield Reach("std", result.confidence_interval(level), deviations)
    for texts in result.texts:
        yield from of_counts(texts, level)


def of_counts(result: fpp.CountResult, level: float) -> Iterator[Reach]:
    """Counts of rows: noise alone; of the population: the binomial variance too. Rows of one person may be alike."""
    z = half_widths(result.noise_law, level)
    most = result.n_priv * result.rows_per_person

    def whole(half: Any) -> Ends:
        ends = np.floor(result.counts - half), np.ceil(result.counts + half)
        return with_point(cut(ends, 0.0, most), result.published)

    yield Reach("count", result.confidence_interval(level), whole(z * result.noise_std))
    counted = np.clip(result.counts.sum(), 0.0, most)
    share = np.clip(result.counts / max(counted, 1.0), 0.0, 1.0)
    sampling = np.sqrt(counted * share * (1.0 - share) * result.rows_per_person)
    said = whole(z * root_of_squares(result.noise_std, sampling))
    yield Reach("count of population", result.confidence_interval(level, of="population"), said)


def of_persons(result: fpp.PersonCounts, level: float) -> Iterator[Reach]:
    """Numbers of persons: noise, and above it the persons whose further keys do not count, with the noise of their number."""
    z = half_widths(result.noise_law, level)
    half = z * result.noise_std
    above = result.left_out + z * root_of_squares(result.noise_std, result.left_out_std)
    said = cut((result.counts - half, result.counts + above), 0.0, result.n_priv)
    yield Reach("persons", result.confidence_interval(level), said)
    share = np.clip(result.counts / result.n_priv, 0.0, 1.0)
    spread = root_of_squares(result.noise_std, np.sqrt(result.n_priv * share * (1.0 - share)))
    above = result.left_out + z * root_of_squares(spread, result.left_out_std)
    said = cut((result.counts - z * spread, result.counts + above), 0.0, result.n_priv)
    yield Reach("persons of population", result.confidence_interval(level, of="population"), said)


def of_bins(result: fpp.HistogramResult, level: float) -> Iterator[Reach]:
    """The error of every count at once: the threshold, and the noise by the union bound over both sides of each row's bin."""
    outside = (1.0 - level) / (2.0 * result.n_priv * len(result))
    if result.noise_law == "laplace":
        noise = -math.log(2.0 * outside) / math.sqrt(2.0) * result.noise_std
    else:
        noise = -NormalDist().inv_cdf(outside) * result.noise_std
    printed = result.count_error(1.0 - level)
    said = result.threshold + noise
    yield Reach("error of bins", (-printed, printed), (-said, said))


def of_gaussian(result: fpp.GaussianResult, level: float) -> Iterator[Reach]:
    """Means, covariances and correlations of the report, with tails beside the half-width; complete rows."""
    z = LEVELS[level]
    report = result.report
    points = {
        "mean": result.mean,
        "covariance": result.covariance,
        "correlation": result.correlation,
    }
    for kind, point in points.items():
        middle = getattr(report, kind)
        std = getattr(report, f"{kind}_std")
        ends = (
            middle - z * std - getattr(report, f"{kind}_below"),
            middle + z * std + getattr(report, f"{kind}_above"),
        )
        said = with_point(ends, point)
        printed = result.confidence_interval(level, of=kind)
        if kind == "covariance":
            least = np.where(np.eye(result.dim, dtype=bool), 0.0, -np.inf)  # a variance is one
            said = cut(said, least, np.inf)
        if kind == "correlation":
            above = np.triu_indices(result.dim, 1)
            said = tuple(end[above] for end in cut(said, -1.0, 1.0))
            printed = tuple(end[above] for end in printed)
        yield Reach(kind, printed, said)
    ends = tuple(np.diag(end) for end in result.confidence_interval(level, of="covariance"))
    deviations = tuple(np.sqrt(np.maximum(end, 0.0)) for end in ends)
    yield Reach("std", result.confidence_interval(level, of="standard_deviation"), deviations)
    yield from of_complete_rows(result, level)


def of_complete_rows(result: Any, level: float) -> Iterator[Reach]:
    """The number of complete rows, where one was released."""
    if result.complete_rows is None:
        return
    half = LEVELS[level] * result.complete_rows_std
    below = getattr(result, "complete_rows_below", 0.0)
    above = getattr(result, "complete_rows_above", 0.0)
    ends = (result.complete_rows - half - below, result.complete_rows + half + above)
    said = cut(ends, 0.0, result.n_priv)
    yield Reach("complete rows", result.complete_rows_interval(level), said)


def of_components(result: fpp.PCAResult, level: float) -> Iterator[Reach]:
    """Mean squares along directions, with tails beside the half-width; complete rows."""
    half = LEVELS[level] * result.along_std
    ends = (
        result.along - half - result.along_below,
        result.along + half + result.along_above,
    )
    said = cut(with_point(ends, result.eigenvalues), 0.0, np.inf)
    yield Reach("along", result.confidence_interval(level), said)
    yield from of_complete_rows(result, level)


def about_center(result: Any, point: Any, std: Any, level: float) -> Ends:
    """Ends of a model about its center, with tails beside the half-width."""
    half = LEVELS[level] * std
    ends = (
        result.interval_center - result.tail_below - half,
        result.interval_center + result.tail_above + half,
    )
    return with_point(ends, point)


def of_model(result: fpp.TrainingResult, level: float) -> Iterator[Reach]:
    """Coefficients, for the population and for these rows; and the intercept, in print."""
    point = np.append(result.intercept, result.coefficients)
    std = np.sqrt(np.diag(result.covariance))
    said = about_center(result, point, std, level)
    slopes = tuple(end[1:] for end in said)
    yield Reach("coefficient", result.confidence_interval(level), slopes)
    if level == LEVEL_OF_PRINT:
        frame = result.to_frame()
        yield Reach("coefficient in print", (frame["lower"], frame["upper"]), said)
    said = about_center(result, point, result.rows_error, level)
    slopes = tuple(end[1:] for end in said)
    yield Reach("coefficient of rows", result.confidence_interval(level, of="rows"), slopes)


def of_descent(result: fpp.DescentResult, level: float) -> Iterator[Reach]:
    """Coefficients of a model by gradients, one row an output."""
    point = np.column_stack([result.intercept, result.coefficients])
    said = about_center(result, point.ravel(), result.standard_error, level)
    slopes = tuple(end.reshape(point.shape)[:, 1:] for end in said)
    yield Reach("coefficient", result.confidence_interval(level), slopes)


PARTS: Mapping[type, Callable[[Any, float], Iterator[Reach]]] = {
    fpp.MeanResult: of_mean,
    fpp.GroupMeans: of_groups,
    fpp.Description: of_description,
    fpp.CountResult: of_counts,
    fpp.PersonCounts: of_persons,
    fpp.HistogramResult: of_bins,
    fpp.GaussianResult: of_gaussian,
    fpp.PCAResult: of_components,
    fpp.TrainingResult: of_model,
    fpp.DescentResult: of_descent,
}
# Whose intervals are edges between counts: `reaches.py` compares them with the spread of answers.
BY_SPREAD = (fpp.QuantileResult, fpp.GroupQuantiles)


# ---- Comparison ------------------------------------------------------------------------------------------------------
def differs(reach: Reach) -> bool:
    """Whether an end is not where the parts say, by more than their rounding in units of the width."""
    printed, said = (np.array(ends, dtype=float) for ends in (reach.printed, reach.said))
    with np.errstate(invalid="ignore"):
        width = np.nan_to_num(np.abs(said[1] - said[0]), posinf=0.0)
        room = ROUNDING * width + 1e-9 * np.abs(np.nan_to_num(said, posinf=0.0, neginf=0.0))
        near = np.abs(printed - said) <= room
    return not np.all(near | (printed == said) | (np.isnan(printed) & np.isnan(said)))


def other_reaches(results: Mapping[str, Any]) -> list[str]:
    """Intervals of results that are not what their printed parts say."""
    found = []
    for name, result in results.items():
        if type(result) not in PARTS and not isinstance(result, BY_SPREAD):
            found.append(f"{name}: the intervals of {type(result).__name__} have no parts")
            continue
        for level in LEVELS if type(result) in PARTS else ():
            with np.errstate(all="ignore"):
                reaches = list(PARTS[type(result)](result, level))
            found += [f"{name}: {each.name} at {level}" for each in reaches if differs(each)]
    return found
