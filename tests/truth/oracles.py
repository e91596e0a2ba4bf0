"""What every printed number should be: facts of a result, their truths from the population, and what one answer alone shows.

No function of the package computes a truth: pandas and NumPy do, from the population or from the rows of the draw.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

import fastpubpriv as fpp
from fastpubpriv import local
from fastpubpriv.results.base import Result
from tests.truth import arguments
from tests.truth.arguments import LOCAL_NORM, Call, true_centers
from tests.truth.populations import drawn, population

OTHER, MISSING = "(other)", "(missing)"
FAR = 5.0  # half-widths of an interval
SURE = 6.0  # standard deviations of noise
CONSTANT = 1.05  # the loss of a prediction over that of a constant
COVARIANCE = 5.0  # the error of a covariance over the predicted one
# Share of tables in which the excess of a fit may be above its bound: by chance it is a chi-squared number of as many degrees of
# freedom as coefficients, over these, times the expected one, and a table is drawn only once.
BY_CHANCE = 1e-5


class Fact(NamedTuple):
    """A printed number with its interval; `ok` if neither it nor the result as a whole has a reason."""

    statistic: str
    where: tuple[Any, ...]
    point: float
    low: float
    high: float
    ok: bool


class Fault(NamedTuple):
    """What is wrong with an answer."""

    kind: str
    text: str


# ---- Facts -----------------------------------------------------------------------------------------------------------
def whole_is_ok(result: Result) -> bool:
    """Whether no reason is about the result as a whole."""
    of_parts = {reason for part in result.part_reasons for reason in part}
    return not set(result.reasons) - of_parts


def fine_parts(result: Result, count: int) -> list[bool]:
    """Whether each of `count` parts has no reason."""
    whole = whole_is_ok(result)
    if len(result.part_reasons) != count:
        return [whole and not result.part_reasons] * count
    return [whole and not part for part in result.part_reasons]


def listed(
    statistic: str, places: Any, points: Any, ends: tuple[Any, Any], fine: Any
) -> list[Fact]:
    """Facts of one statistic from flat arrays."""
    numbers = (np.ravel(points), np.ravel(ends[0]), np.ravel(ends[1]), fine)
    return [
        Fact(statistic, where, float(point), float(low), float(high), bool(ok))
        for where, point, low, high, ok in zip(places, *numbers, strict=True)
    ]


def of_mean(result: fpp.MeanResult) -> list[Fact]:
    """Means of columns."""
    places = [(name,) for name in result.labels]
    return listed(
        "mean", places, result.mean, result.confidence_interval(), fine_parts(result, result.dim)
    )


def of_groups(result: fpp.GroupMeans) -> list[Fact]:
    """Means and standard deviations of columns in groups."""
    places = [(name, group) for group in result.groups for name in result.labels]
    fine = fine_parts(result, len(places))
    found = listed("mean", places, result.mean, result.confidence_interval(), fine)
    if result.noise_law == "gaussian":
        spread = [
            ok and bool(known)
            for ok, known in zip(fine, np.isfinite(result.variance.ravel()), strict=True)
        ]
        found += listed(
            "std", places, result.standard_deviation, result.deviation_interval(), spread
        )
    return found


def of_quantiles(result: fpp.QuantileResult) -> list[Fact]:
    """Quantiles of columns, and of groups."""
    groups = result.groups if isinstance(result, fpp.GroupQuantiles) else (None,)
    places = [
        (name, group, q) for group in groups for name in result.labels for q in result.q.tolist()
    ]
    return listed(
        "quantile",
        places,
        result.quantile,
        result.confidence_interval(),
        fine_parts(result, len(places)),
    )


def of_counts(result: fpp.CountResult) -> list[Fact]:
    """Counts of keys; of persons' rows as a sample of the population."""
    of_persons = "person" in result.relation
    ends = result.confidence_interval(of="population" if of_persons else "rows")
    places = [(key, result.by) for key in result.keys]
    return listed("count", places, result.published, ends, fine_parts(result, len(places)))


def of_persons(result: fpp.PersonCounts) -> list[Fact]:
    """Numbers of persons by key."""
    places = [(key, result.by) for key in result.keys]
    ends = result.confidence_interval()
    fine = fine_parts(result, len(places))
    return listed("persons", places, np.maximum(result.counts, ends[0]), ends, fine)


def of_description(result: fpp.Description) -> list[Fact]:
    """Everything that a description prints."""
    found = [fact for texts in result.texts for fact in of_counts(texts)]
    if result.means is not None:
        names = [(name,) for name in result.labels[: result.numbers]]
        found += of_mean(result.means) + of_quantiles(result.quantiles)
        if result.means.noise_law == "gaussian":
            fine = fine_parts(result, result.dim)[: result.numbers]
            known = [
                ok and bool(number)
                for ok, number in zip(fine, np.isfinite(result.variance), strict=True)
            ]
            found += listed(
                "std", names, result.standard_deviation, result.confidence_interval(), known
            )
    return found


def of_gaussian(result: fpp.GaussianResult) -> list[Fact]:
    """Means, deviations, correlations, and the error of the covariance against its prediction."""
    names = list(result.labels)
    fine = fine_parts(result, result.dim)
    places = [(name,) for name in names]
    spread = np.sqrt(np.diag(result.covariance))
    found = listed("mean", places, result.mean, result.confidence_interval(), fine)
    found += listed(
        "std", places, spread, result.confidence_interval(of="standard_deviation"), fine
    )
    if result.dim > 1:
        above = np.triu_indices(result.dim, 1)
        pairs = [(names[i], names[j]) for i, j in zip(*above, strict=True)]
        both = [fine[i] and fine[j] for i, j in zip(*above, strict=True)]
        ends = tuple(end[above] for end in result.confidence_interval(of="correlation"))
        found += listed("correlation", pairs, result.correlation[above], ends, both)
    guess = bool(result.diagnostics.get("guess", False))
    found.append(
        covariance_fact(
            result, result.predicted_covariance_error, result.status == "ok" and not guess
        )
    )
    return found


def covariance_fact(result: Any, predicted: float, ok: bool) -> Fact:
    """The error of a covariance: at most five times the predicted one."""
    return Fact("covariance", tuple(result.labels), predicted, 0.0, COVARIANCE * predicted, ok)


def of_components(result: fpp.PCAResult) -> list[Fact]:
    """Mean squares along the printed directions."""
    points = result.eigenvalues if result.along is None else result.along
    places = [(place,) for place in range(len(result.eigenvalues))]
    return listed(
        "along", places, points, result.confidence_interval(), fine_parts(result, len(places))
    )


def of_histograms(result: fpp.HistogramResult) -> list[Fact]:
    """Counts of the bins that are shown, within six deviations of noise."""
    found = []
    reach = SURE * result.noise_std
    for place, histogram in enumerate(result.histograms):
        for row, count in enumerate(histogram.counts.tolist()):
            found.append(
                Fact(
                    "bin", (place, row), count, count - reach, count + reach, result.status == "ok"
                )
            )
    return found


def of_model(result: Any) -> list[Fact]:
    """Coefficients and intercepts of a linear model with intervals."""
    frame = result.to_frame()
    if "lower" not in frame.columns:
        return []
    fine = fine_parts(result, len(frame))
    places = [(str(name),) for name in frame.index]
    found = listed(
        "coefficient", places, frame["coefficient"], (frame["lower"], frame["upper"]), fine
    )
    # A level that others are compared with is zero by definition.
    fixed = {f"{column}={level}" for column, level in result.design.get("reference", {}).items()}
    return [fact for fact in found if fact.where[0].split(": ")[-1] not in fixed]


def of_mixture(result: Any) -> list[Fact]:
    """Distances of printed means from the nearest true center: at most one deviation."""
    fine = fine_parts(result, len(result.weights))
    return [Fact("component", (place,), 0.5, 0.0, 1.0, ok) for place, ok in enumerate(fine)]


FACTS: dict[type, Callable[[Any], list[Fact]]] = {
    fpp.MeanResult: of_mean,
    fpp.GroupMeans: of_groups,
    fpp.QuantileResult: of_quantiles,
    fpp.GroupQuantiles: of_quantiles,
    fpp.CountResult: of_counts,
    fpp.PersonCounts: of_persons,
    fpp.Description: of_description,
    fpp.GaussianResult: of_gaussian,
    fpp.CovarianceResult: lambda result: [
        covariance_fact(result, result.predicted_error, result.status == "ok")
    ],
    fpp.PCAResult: of_components,
    fpp.HistogramResult: of_histograms,
    fpp.TrainingResult: of_model,
    fpp.DescentResult: of_model,
    fpp.MixtureResult: of_mixture,
    fpp.SelectionResult: of_mixture,
    local.LocalTrainingResult: lambda result: [],
}


def facts(result: Any) -> list[Fact]:
    """Every printed number of a result."""
    if type(result) not in FACTS:
        raise AssertionError(
            f"class {type(result).__name__} has no facts in tests/truth/oracles.py"
        )
    with np.errstate(all="ignore"):
        return FACTS[type(result)](result)


# ---- What the answer is about ----------------------------------------------------------------------------------------
@functools.lru_cache(maxsize=64)
def weighted(name: str, rows_per_person: int | None) -> pd.Series:
    """How much each row of a population counts, if at most so many rows of each person are in use."""
    frame = population(name)
    if name != "visits" or rows_per_person is None:
        return pd.Series(np.ones(len(frame)), index=frame.index)
    sizes = frame.groupby("id")["id"].transform("size")
    return np.minimum(sizes, rows_per_person) / sizes


def rows_of_each(call: Call, result: Result) -> int | None:
    """At most how many rows of a person are in use; None without persons."""
    return result.rows_per_person if uses_persons(call) else None


def uses_persons(call: Call) -> bool:
    """Whether the call protects persons."""
    return "person" in call.names() or call.verb in ("persons", "count_persons")


@functools.lru_cache(maxsize=4096)
def part_of(
    name: str, column: str, group: Any, by: str | None, k: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of a column in a group, and how much each counts."""
    frame = population(name)
    weights = weighted(name, k)
    inside = np.ones(len(frame), dtype=bool)
    if by is not None:
        groups = frame[by].fillna(MISSING).astype(str).str.strip()
        named = group[1]
        inside = ~groups.isin(named) if group[0] == OTHER else groups == group[0]
    values = frame[column].to_numpy(float)
    known = inside & np.isfinite(values)
    return values[known], weights.to_numpy()[known]


@functools.lru_cache(maxsize=64)
def complete(name: str, columns: tuple[str, ...], k: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Rows without a gap in any of the columns, and how much each counts."""
    rows = population(name)[list(columns)].to_numpy(float)
    whole = np.isfinite(rows).all(axis=1)
    return rows[whole], weighted(name, k).to_numpy()[whole]


def group_of(result: Any, where: Any) -> tuple[Any, Any]:
    """The label of a group and all labels that have a group of their own, as hashable texts."""
    named = tuple(str(each).strip() for each in result.groups if each != OTHER)
    return (str(where).strip(), named)


# ---- Truths ----------------------------------------------------------------------------------------------------------
def true_mean(fact: Fact, call: Call, result: Any) -> float:
    """Mean of a column, of a group, or over complete rows where gaps leave out rows."""
    column = fact.where[0]
    k = rows_of_each(call, result)
    if result.columns is None:
        column = call.columns[result.labels.index(column)]
    if call.verb == "local.estimate_mean":
        return float(clipped_mean(call.population, column))
    keep = call.value("keep", "row")
    if isinstance(result, fpp.GroupMeans):
        return moments_of(
            call.population, column, group_of(result, fact.where[1]), result.by[0], k
        )[0]
    if call.value("missing") == "neutral" or isinstance(result, fpp.GaussianResult):
        return float(
            complete_moments(call.population, tuple(call.columns), k)[0][
                list(call.columns).index(column)
            ]
        )
    mean = moments_of(call.population, column, None, None, 1 if keep != "row" else k)[0]
    if keep == "sum":
        private = call.tables.private
        return (
            mean * len(private) / private["id"].nunique()
            if call.population != "visits"
            else math.nan
        )
    return mean


@functools.cache
def clipped_mean(name: str, column: str) -> float:
    """Mean of a column after rows are shortened to the norm of the local reports."""
    rows = population(name)[["x", "v"]]
    norms = np.maximum(np.linalg.norm(rows, axis=1) / LOCAL_NORM, 1.0)
    return float((rows[column] / norms).mean())


def true_std(fact: Fact, call: Call, result: Any) -> float:
    """Standard deviation of a column or group."""
    column = fact.where[0]
    k = rows_of_each(call, result)
    if isinstance(result, fpp.GroupMeans):
        return moments_of(
            call.population, column, group_of(result, fact.where[1]), result.by[0], k
        )[1]
    if isinstance(result, fpp.GaussianResult):
        return float(
            complete_moments(call.population, tuple(call.columns), k)[1][
                list(call.columns).index(column)
            ]
        )
    return moments_of(call.population, column, None, None, k)[1]


def true_quantile(fact: Fact, call: Call, result: Any) -> float:
    """Nearest-rank quantile."""
    column, group, q = fact.where
    k = rows_of_each(call, result)
    if group is None:
        values, weights = sorted_part(call.population, column, None, None, k)
    else:
        values, weights = sorted_part(
            call.population, column, group_of(result, group), result.by[0], k
        )
    if not len(values):
        return math.nan
    total = np.cumsum(weights)
    return float(values[np.searchsorted(total, q * total[-1] * (1.0 - 1e-12))])


@functools.lru_cache(maxsize=4096)
def sorted_part(
    name: str, column: str, group: Any, by: str | None, k: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of a column in a group, ascending, and how much each counts."""
    values, weights = part_of(name, column, group, by, k)
    order = np.argsort(values, kind="stable")
    return values[order], weights[order]


@functools.lru_cache(maxsize=4096)
def moments_of(
    name: str, column: str, group: Any, by: str | None, k: int | None
) -> tuple[float, float]:
    """Mean and standard deviation of a column in a group; NaN without rows."""
    values, weights = part_of(name, column, group, by, k)
    if not len(values):
        return math.nan, math.nan
    mean = np.average(values, weights=weights)
    return float(mean), float(np.sqrt(np.average((values - mean) ** 2, weights=weights)))


@functools.lru_cache(maxsize=256)
def complete_moments(
    name: str, columns: tuple[str, ...], k: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means, standard deviations and covariance over rows without a gap."""
    rows, weights = complete(name, columns, k)
    mean = np.average(rows, axis=0, weights=weights)
    covariance = np.atleast_2d(np.cov(rows, rowvar=False, aweights=weights, ddof=0))
    return mean, np.sqrt(np.diag(covariance)), covariance


@functools.lru_cache(maxsize=256)
def cells_of(name: str, rows: int, draw: int, column: str) -> tuple[np.ndarray, np.ndarray]:
    """Cells of a column of a draw, or of the population for no rows, without the blanks around texts; and which are absent."""
    cells = (drawn(name, rows, draw).private if rows else population(name))[column]
    absent = cells.isna().to_numpy()
    if not pd.api.types.is_numeric_dtype(cells):
        cells = cells.astype(object).str.strip()
    return cells.to_numpy(), absent


BIN = re.compile(r"below (.+)|(.+) or more|\[(.+), (.+)\)")


def in_bin(cells: np.ndarray, part: Any) -> np.ndarray:
    """Rows whose number is in a bin; one that is not finite is missing."""
    finite = np.isfinite(cells)
    if part == MISSING:
        return ~finite
    below, above, low, high = BIN.fullmatch(part).groups()
    low = float(low or above or -math.inf)
    high = float(high or below or math.inf)
    return finite & (cells >= low) & (cells < high)


def has_part(cells: np.ndarray, absent: np.ndarray, part: Any, named: set[Any]) -> np.ndarray:
    """Rows whose cell is this part of a key."""
    if any(BIN.fullmatch(str(each)) for each in named):
        return in_bin(cells, part)
    if part == MISSING:
        return absent
    if part == OTHER:
        wanted = [each.strip() if isinstance(each, str) else each for each in named]
        return other_of(cells, absent, wanted)
    return (cells == (part.strip() if isinstance(part, str) else part)) & ~absent


def other_of(cells: np.ndarray, absent: np.ndarray, wanted: list[Any]) -> np.ndarray:
    """Rows with a cell that is not listed, where some have none."""
    found = ~absent
    for each in wanted:
        found = found & (cells != each)
    return found


def counted(
    call: Call, key: tuple[Any, ...], by: tuple[str, ...], result: Any, *, of_draw: bool = True
) -> np.ndarray:
    """Rows of the draw, or of the population, that have a key."""
    rows = call.rows if of_draw else 0
    inside = np.array(True)
    for place, (column, part) in enumerate(zip(by, key, strict=True)):
        named = {each[place] for each in result.keys} - {OTHER, MISSING}
        inside = inside & has_part(
            *cells_of(call.population, rows, call.draw if of_draw else 0, column), part, named
        )
    return inside


def true_count(fact: Fact, call: Call, result: Any) -> float:
    """Count of this draw's private rows; with persons the share of the population times the rows in use."""
    key, by = fact.where
    if isinstance(result, fpp.Description):
        result = result.top(by[0])
    k = rows_of_each(call, result)
    if result.threshold > 0.0 and OTHER in key:
        return math.nan
    if k is None:
        return float(counted(call, key, by, result).sum())
    weights = weighted(call.population, k).to_numpy()
    share = weights[counted(call, key, by, result, of_draw=False)].sum() / weights.sum()
    used = np.minimum(call.tables.private.groupby("id").size(), k).sum()
    return float(share * used)


def true_persons(fact: Fact, call: Call, result: Any) -> float:
    """Number of different persons of this draw that have a key."""
    key, by = fact.where
    inside = counted(call, key, by, result)
    return float(call.tables.private["id"][inside].nunique())


def true_bin(fact: Fact, call: Call, result: Any) -> float:
    """Count of this draw's rows in a bin; with persons a row of each, of which only the number is known."""
    place, row = fact.where
    histogram = result.histograms[place]
    if uses_persons(call):
        return math.nan
    rows = call.tables.private[[result.columns[j] for j in histogram.columns]].to_numpy(float)
    if isinstance(call.value("bins"), fpp.DyadicBins):
        rows = np.abs(rows)
    inside = (histogram.lower[row] < rows) & (rows <= histogram.upper[row])
    return float(inside.all(axis=1).sum())


def true_correlation(fact: Fact, call: Call, result: Any) -> float:
    """Correlation over complete rows."""
    first, second = (list(call.columns).index(name) for name in fact.where)
    covariance = complete_moments(call.population, tuple(call.columns), rows_of_each(call, result))[
        2
    ]
    with np.errstate(all="ignore"):
        return float(
            covariance[first, second]
            / math.sqrt(covariance[first, first] * covariance[second, second])
        )


def true_covariance_error(fact: Fact, call: Call, result: Any) -> float:
    """norm(S^-1/2 C S^-1/2 - I) with the population's covariance S, about the center if one is given."""
    truth = complete_moments(call.population, tuple(fact.where), rows_of_each(call, result))[2]
    values, vectors = np.linalg.eigh(truth)
    if values[0] <= 1e-12 * values[-1]:
        return math.nan
    root = vectors / np.sqrt(values) @ vectors.T
    return float(np.linalg.norm(root @ result.covariance @ root - np.eye(len(values))))


def true_along(fact: Fact, call: Call, result: Any) -> float:
    """Mean square about the printed center along the printed direction."""
    rows, weights = complete(call.population, tuple(call.columns), rows_of_each(call, result))
    return float(
        np.average(
            ((rows - result.center) @ result.components[fact.where[0]]) ** 2, weights=weights
        )
    )


def true_component(fact: Fact, call: Call, result: Any) -> float:
    """Distance of a printed mean from the nearest true center."""
    return float(np.linalg.norm(true_centers(call) - result.means[fact.where[0]], axis=1).min())


# ---- Models: least squares and maximum likelihood of the population --------------------------------------------------
def design(name: str, with_kind: bool) -> np.ndarray:
    """Intercept, x and v, and the levels of `kind` but one."""
    frame = population(name)
    columns = [np.ones(len(frame)), frame["x"], frame["v"]]
    if with_kind:
        columns += [(frame["kind"] == level).astype(float) for level in ("odd", "rare")]
    return np.column_stack(columns)


def newton(design_rows: np.ndarray, labels: np.ndarray, weights: np.ndarray, k: int) -> np.ndarray:
    """Maximum likelihood of the softmax model with k classes, the first class at zero, (k - 1, columns)."""
    n, d = design_rows.shape
    wanted = (labels[:, None] == np.arange(1, k)).astype(float)
    found = np.zeros((k - 1, d))
    for _ in range(30):
        scores = np.column_stack([np.zeros(n), design_rows @ found.T])
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances = (scores / scores.sum(axis=1, keepdims=True))[:, 1:]
        gradient = ((wanted - chances) * weights[:, None]).T @ design_rows
        curvature = np.empty(((k - 1) * d, (k - 1) * d))
        for i in range(k - 1):
            for j in range(k - 1):
                mixed = weights * (chances[:, i] * (float(i == j) - chances[:, j]))
                curvature[i * d : i * d + d, j * d : j * d + d] = (
                    design_rows * mixed[:, None]
                ).T @ design_rows
        step = np.linalg.solve(curvature, gradient.ravel()).reshape(k - 1, d)
        found = found + step
        if np.abs(step).max() < 1e-10:
            break
    return found


@functools.lru_cache(maxsize=256)
def fitted(
    name: str, label: str, with_kind: bool, class_weights: tuple[float, ...], k: int | None
) -> np.ndarray:
    """Coefficients of the population, (outputs, columns): least squares of y, maximum likelihood of classes."""
    frame = population(name)
    rows = design(name, with_kind)
    counts = weighted(name, k).to_numpy()
    labels = frame[label].to_numpy(float)
    if label == "y":
        root = np.sqrt(counts)
        return np.linalg.lstsq(rows * root[:, None], labels * root, rcond=None)[0][None]
    classes = int(labels.max()) + 1
    weights = counts if not class_weights else counts * np.array(class_weights)[labels.astype(int)]
    found = newton(rows, labels, weights, classes)
    if classes == 2:
        return found
    every = np.vstack([np.zeros(rows.shape[1]), found])
    return every - every.mean(axis=0)


def label_of(call: Call) -> str:
    """The label's column of a model."""
    for part, label in (
        ("logistic", "yes"),
        ("hinge", "yes"),
        ("poisson", "hits"),
        ("softmax", "class"),
    ):
        if part in call.verb:
            return label
    return "y"


def class_weights(call: Call) -> tuple[float, ...]:
    """The weights of classes that the call states; "public" is one over a class's share of their weight, at most ten."""
    stated = call.value("class_weight")
    if stated is None:
        return ()
    if stated == "public":
        given = call.arguments()
        public = given["x_pub"][label_of(call)].to_numpy()
        weights = np.asarray(given.get("weights_pub", np.ones(len(public))))
        shares = [np.average(public == each, weights=weights) for each in (0.0, 1.0)]
        with np.errstate(divide="ignore"):
            return tuple(np.minimum(1.0 / np.array(shares), 10.0))
    return tuple(stated.values())


def of_shifted_rows(call: Call, result: Any) -> bool:
    """Whether an answer is from public rows alone, which are shifted: without a private row nothing can show it."""
    return not result.releases and call.value("x_pub") is arguments.SHIFTED


def true_coefficient(fact: Fact, call: Call, result: Any) -> float:
    """Least squares or maximum likelihood of the population; unknown for other losses, for levels, and from shifted rows alone."""
    name = fact.where[0]
    label = label_of(call)
    with_kind = "categories" in call.names()
    output = 0
    if ": " in name and label == "class":
        group, name = name.split(": ", 1)
        output = int(float(group.removeprefix("class ")))
    if name not in ("intercept", "x", "v") or (name == "intercept" and with_kind):
        return math.nan
    if result.loss not in ("squared", "logistic", "softmax") or of_shifted_rows(call, result):
        return math.nan
    if call.value("tails") == "light" and call.population == "skewed" and name == "intercept":
        return math.nan  # for residuals that are about normal
    truth = fitted(
        call.population, label, with_kind, class_weights(call), rows_of_each(call, result)
    )
    return float(truth[output, ("intercept", "x", "v").index(name)])


TRUTHS: dict[str, Callable[[Fact, Call, Any], float]] = {
    "mean": true_mean, "std": true_std, "quantile": true_quantile, "count": true_count, "persons": true_persons, "bin": true_bin,
    "correlation": true_correlation, "covariance": true_covariance_error, "along": true_along,
    "component": true_component, "coefficient": true_coefficient,
}  # fmt: skip


def truth(fact: Fact, call: Call, result: Any) -> float:
    """What a fact should be; NaN if this is not known."""
    return TRUTHS[fact.statistic](fact, call, result)


def missed(fact: Fact, true: float) -> bool:
    """Whether a finite interval is ok and does not hold the truth; rounding does not count."""
    if not fact.ok or math.isnan(true) or math.isnan(fact.low) or math.isnan(fact.high):
        return False
    spare = 1e-9 * abs(true)
    return not fact.low - spare <= true <= fact.high + spare


# ---- Faults of one answer --------------------------------------------------------------------------------------------
def least_far(fact: Fact, call: Call, result: Any) -> float:
    """What is far at least: the interval of a quantile may be a single value, that of a count is cut at zero."""
    if fact.statistic == "count":
        return 2.0 * FAR * max(table.noise_std for table in count_tables(result))
    if fact.statistic != "quantile":
        return 0.0
    return moments_of(call.population, fact.where[0], None, None, None)[1]


def far_half_widths(n_pub: int) -> float:
    """Half-widths that a truth is away by chance only in a share `BY_CHANCE` of the tables; `FAR`, unless public rows are few.

    An interval that takes its deviation from five public rows has the tails of Student's t: one in 6,400 truths is 5 half-widths
    away, and a sweep makes several hundred such intervals of a verb.
    """
    if n_pub < 2:
        return FAR
    freedom = n_pub - 1
    return max(FAR, float(stats.t.isf(BY_CHANCE / 2.0, freedom) / stats.t.isf(0.025, freedom)))


def of_numbers(call: Call, found: list[Fact], truths: list[float], result: Any) -> Iterator[Fault]:
    """Faults of single numbers."""
    for fact, true in zip(found, truths, strict=True):
        text = f"{fact.statistic} {fact.where}: {fact.point:.6g} [{fact.low:.6g}, {fact.high:.6g}], truth {true:.6g}"
        if fact.ok and math.isnan(fact.point):
            yield Fault("ok without a number", text)
        elif fact.ok and not math.isfinite(fact.high - fact.low):
            yield Fault("ok without an interval", text)
        elif missed(fact, true) and abs(true - fact.point) > max(
            far_half_widths(result.n_pub) * (fact.high - fact.low) / 2.0,
            least_far(fact, call, result),
        ):
            yield Fault("far", text)
        spare = 1e-9 * abs(fact.point)
        if not math.isnan(fact.point) and (
            fact.point < fact.low - spare or fact.point > fact.high + spare
        ):
            yield Fault("outside its own interval", text)


def count_tables(result: Any) -> tuple[fpp.CountResult, ...]:
    """The tables of counts of a result."""
    if isinstance(result, fpp.Description):
        return result.texts
    return (result,) if isinstance(result, fpp.CountResult) else ()


def of_count_tables(call: Call, result: Any) -> Iterator[Fault]:
    """Printed counts below zero, shares that are none, shares that do not add to one, missing cells that are not there."""
    for table in count_tables(result):
        printed = table.to_frame()
        if (printed["count"] < 0.0).any():
            yield Fault("negative count", f"{printed['count'].min():.4g}")
        shares = printed["share"] if "share" in printed else pd.Series(dtype=float)
        if (shares < 0.0).any() or (shares > 1.0).any():
            yield Fault("share below 0 or above 1", f"{shares.min():.4g} to {shares.max():.4g}")
        room = SURE * table.noise_std * math.sqrt(len(table.counts)) / max(table.n_priv, 1) + 1e-9
        if table.threshold == 0.0 and abs(table.share.sum() - 1.0) > room:
            yield Fault("shares that do not add to 1", f"{table.share.sum():.4g}, room {room:.3g}")
        for key, count in zip(table.keys, table.counts.tolist(), strict=True):
            if MISSING not in key:
                continue
            there = counted(call, key, table.by, table).sum()
            if count - there > SURE * table.noise_std:
                yield Fault("missing cells that are not there", f"{key}: {count:.4g} for {there}")


def of_missing(call: Call, result: Any) -> Iterator[Fault]:
    """Missing cells that are not there, in the report of means."""
    mean = result.means if isinstance(result, fpp.Description) else result
    report = getattr(mean, "report", None) if isinstance(mean, fpp.MeanResult) else None
    if report is None:
        return
    counting = ("signed dyadic cells", "moments within bounds")
    counted = [each for each in mean.releases if each["name"] in counting]
    noise = max(
        (each.get("count_noise_std", each["noise_std"]) for each in counted),
        default=0.0,
    )
    absent = call.tables.private[list(mean.labels)].isna()
    if call.value("missing") == "neutral":  # a row with a gap is left out in every column
        absent = absent.where(~absent.any(axis=1), True)
    for name, count in zip(mean.labels, report.missing.tolist(), strict=True):
        there = int(absent[name].sum())
        if count - there > SURE * max(noise, 1.0):
            yield Fault("missing cells that are not there", f"{name}: {count:.4g} for {there}")


def of_bounds(call: Call, found: list[Fact], given: dict[str, Any]) -> Iterator[Fault]:
    """Numbers beyond `bounds=`."""
    bounds = given.get("bounds")
    if bounds is None or call.value("project") is False:  # which asks for the answer as it is
        return
    columns = list(population(call.population)[call.columns].select_dtypes("number"))
    low, high = (np.broadcast_to(end, len(columns)) for end in bounds)
    for fact in found:
        if (
            fact.statistic in ("mean", "quantile")
            and fact.where[0] in columns
            and not math.isnan(fact.point)
        ):
            place = columns.index(fact.where[0])
            if not low[place] <= fact.point <= high[place]:
                yield Fault("beyond bounds=", f"{fact.statistic} {fact.where}: {fact.point:.6g}")


def of_result(call: Call, result: Any) -> Iterator[Fault]:
    """The number of rows, what was spent, the weights of a mixture, bins that are hidden."""
    private = call.tables.private
    rows = private["id"].nunique() if uses_persons(call) else len(private)
    if result.n_priv != rows and not call.verb.startswith("local"):
        yield Fault("n_priv", f"{result.n_priv} for {rows}")
    if not call.verb.startswith("local"):
        yield from of_spending(call, result)
    if (
        hasattr(result, "weights")
        and hasattr(result, "covariances")
        and abs(result.weights.sum() - 1.0) > 1e-6
    ):
        yield Fault("weights that do not add to 1", f"{result.weights.sum():.6g}")
    if isinstance(result, fpp.HistogramResult) and not uses_persons(call):
        yield from of_hidden_bins(call, result)


def of_spending(call: Call, result: Any) -> Iterator[Fault]:
    """Spent is the budget, or nothing where no private row was read; a selection spends the epsilon alone."""
    if not result.releases:
        if any(float(amount) for amount in result.spent.amounts):
            yield Fault("spent", f"{result.spent!r} without a release")
        return
    amounts = [float(each) for each in result.spent.amounts]
    wanted = [float(each) for each in call.budget.amounts]
    alone = isinstance(call.budget, fpp.ApproxDP) and amounts in ([wanted[0]], [wanted[0], 0.0])
    if amounts != wanted and not (
        alone and call.verb in ("select_hypothesis", "learn_axis_aligned_mixture")
    ):
        yield Fault("spent", f"{result.spent!r} of {call.budget!r}")


def of_hidden_bins(call: Call, result: fpp.HistogramResult) -> Iterator[Fault]:
    """A bin of a grid that is not shown has fewer rows than the threshold and six deviations."""
    for histogram in result.histograms:
        if (
            len(histogram.columns) != 1
            or not len(histogram)
            or isinstance(call.value("bins"), fpp.DyadicBins)
        ):
            continue
        values = call.tables.private[result.columns[histogram.columns[0]]].to_numpy(float)
        start = histogram.lower[0, 0]
        width = histogram.upper[0, 0] - histogram.lower[0, 0]
        bins = np.ceil((values - start) / width)
        shown = set(np.round((histogram.upper[:, 0] - start) / width).tolist())
        places, counts = np.unique(bins, return_counts=True)
        hidden = [
            count
            for place, count in zip(places.tolist(), counts.tolist(), strict=True)
            if place not in shown
        ]
        if max(hidden, default=0) > result.threshold + SURE * result.noise_std:
            yield Fault("hidden bin", f"{max(hidden)} rows, threshold {result.threshold:.4g}")


def losses(call: Call, result: Any) -> tuple[float, float]:
    """Mean loss over the population of the predictions, and of the best constant."""
    frame = population(call.population)
    label = label_of(call)
    y = frame[label].to_numpy(float)
    if isinstance(result, local.LocalTrainingResult):
        y = y - 10.0
        predicted = frame[list(result.columns or call.columns)].to_numpy() @ result.coefficients
        return float(np.mean((y - predicted) ** 2)), float(np.mean(y**2))
    predicted = np.asarray(result.predict(frame[list(result.columns)]), dtype=float)
    if result.loss in ("logistic", "softmax"):
        chances = result.predict_proba(frame[list(result.columns)])[
            np.arange(len(y)), y.astype(int)
        ]
        share = np.bincount(y.astype(int)) / len(y)
        return float(-np.log(np.maximum(chances, 1e-300)).mean()), float(
            -np.sum(share * np.log(share))
        )
    if result.loss == "smooth_hinge":
        return float(np.mean(predicted != y)), float(min(np.mean(y), 1.0 - np.mean(y)))
    if result.loss == "poisson":
        constant = np.full(len(y), y.mean())
        return tuple(
            float(np.mean(rate - y * np.log(np.maximum(rate, 1e-300))))
            for rate in (predicted, constant)
        )
    return float(np.mean(np.abs(predicted - y))), float(np.mean(np.abs(y - np.median(y))))


def of_prediction(call: Call, result: Any) -> Iterator[Fault]:
    """A model that predicts worse than a constant; weighted classes are about another loss."""
    model = isinstance(result, fpp.TrainingResult | fpp.DescentResult | local.LocalTrainingResult)
    if not model or result.status != "ok" or "class_weight" in call.names():
        return
    if of_shifted_rows(call, result):
        return
    reached, constant = losses(call, result)
    slack = CONSTANT * constant if constant > 0.0 else constant + 0.05 * abs(constant)
    if (
        not result.releases
    ):  # a few public rows alone, as was asked: within what the result predicts
        count = np.size(result.coefficients) + np.size(result.intercept)
        by_chance = float(stats.chi2.isf(BY_CHANCE, count)) / count
        slack = max(slack, constant + by_chance * result.predicted_excess)
    if not reached <= slack:
        yield Fault("prediction", f"loss {reached:.4g}, of a constant {constant:.4g}")


def faults(
    call: Call, result: Any, found: list[Fact], truths: list[float], given: dict[str, Any]
) -> list[Fault]:
    """What is wrong with one answer, without statistics."""
    with np.errstate(all="ignore"):
        return [
            *of_numbers(call, found, truths, result), *of_count_tables(call, result), *of_missing(call, result),
            *of_bounds(call, found, given), *of_result(call, result), *of_prediction(call, result),
        ]  # fmt: skip
