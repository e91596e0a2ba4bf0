"""How far intervals reach on either side, and bounds on distant rows, against what the population says.

A spread is the error of answers over draws in units of each half of the printed interval. A tail is the printed bound on what
distant rows do to a statistic, in units of what the `HIDDEN` farthest rows of the population do to it, through their influences.
Intervals and bounds are wide by design, some of them several times: `reaches.json` has the ratios (below, above) of the right
package, which `python -m tests.truth.reaches --write` measures. Half a bound, or twice as much, shows on each side alone.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import functools
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

import fastpubpriv as fpp
from tests.truth import engine, oracles
from tests.truth.arguments import Call
from tests.truth.populations import NUMBERS, population
from tests.truth.terms import NORMAL, PURE, call_of, root_mean_square

PATH = Path(__file__).with_name("reaches.json")
DRAWS = 16
ROWS = 20_000
# Seeds are fixed: a ratio moves by what the package changes, and by rounding on other machines.
ROOM = 1.25
HIDDEN = 20.0  # rows that counts with noise do not show
EMPTY = 0.02  # of what lies beyond on the other side: this side has no tail
LABELS = 200  # rows whose labels are predicted
Sides = tuple[float, float]


# ---- Spreads ---------------------------------------------------------------------------------------------------------
class Halves(NamedTuple):
    """The error of an answer, and how far its interval reaches below and above it."""

    error: float
    below: float
    above: float


def halves_of(call: Call, result: Any) -> Iterator[tuple[str, Any, Halves]]:
    """Error and half-widths of each fact of a result, and of the labels that it predicts."""
    for fact in oracles.facts(result):
        if fact.statistic == "count" and fact.low == 0.0:  # cut
            continue
        true = oracles.truth(fact, call, result)
        halves = Halves(fact.point - true, fact.point - fact.low, fact.high - fact.point)
        yield fact.statistic, fact.where, halves
    if getattr(result, "loss", "") == "squared":
        frame = population(call.population).head(LABELS)
        rows = frame[list(result.columns)]
        predicted = result.predict(rows)
        lower, upper = result.prediction_interval(rows)
        numbers = np.array([predicted - frame["y"], predicted - lower, upper - predicted])
        for place, halves in enumerate(numbers.T.tolist()):
            yield "label", place, Halves(*halves)


def spread_of(draws: list[Halves]) -> Sides | None:
    """The spread of errors over the median half-widths; None if a side has none, or not in each draw."""
    known = np.array(draws)[np.isfinite(draws).all(axis=1)]
    if len(known) < DRAWS:
        return None
    errors, below, above = known.T
    reach = np.median([below, above], axis=1)
    if not np.all(reach > 0.0):
        return None
    below_ratio, above_ratio = NORMAL * root_mean_square(errors) / reach
    return float(below_ratio), float(above_ratio)


def both_sides(ratios: list[Sides], mean: Callable[[Any], Any]) -> Sides:
    """A mean of the ratios below and of those above."""
    below, above = np.array(ratios).T
    return float(mean(below)), float(mean(above))


# ---- Tails -----------------------------------------------------------------------------------------------------------
class Tail(NamedTuple):
    """A printed bound below and above, and what the population has beyond on both sides."""

    printed: tuple[Any, Any]
    beyond: Sides


def excess(influences: np.ndarray, rows: float) -> float:
    """How much less the mean influence is if those of the farthest rows end where the others do."""
    end = np.quantile(influences, 1.0 - HIDDEN / rows)
    return float(np.mean(np.maximum(influences - end, 0.0)))


def tail(printed: tuple[Any, Any], influences: np.ndarray, rows: float) -> Tail:
    """A bound beside what the influences of rows have beyond."""
    return Tail(printed, (excess(-influences, rows), excess(influences, rows)))


def of_column(call: Call, name: Any, group: Any = None, by: Any = None) -> np.ndarray:
    """Values of a column of the population."""
    return oracles.part_of(call.population, name, group, by, None)[0]


def of_means(call: Call, result: fpp.MeanResult) -> Iterator[Tail]:
    """Means of columns."""
    report = result.report
    for place, name in enumerate(result.labels):
        printed = (report.tail_below[place], report.tail_above[place])
        yield tail(printed, of_column(call, name), result.n_priv)


def of_means_at_worst(call: Call, result: fpp.MeanResult) -> Iterator[Tail]:
    """Means of columns whose hidden rows lie at the bounds."""
    report = result.report
    share = HIDDEN / result.n_priv
    for place, name in enumerate(result.labels):
        low, high = np.quantile(of_column(call, name), [share, 1.0 - share])
        beyond = (share * (low - report.lowest[place]), share * (report.highest[place] - high))
        yield Tail((report.worst_below[place], report.worst_above[place]), beyond)


def of_groups(call: Call, result: fpp.GroupMeans) -> Iterator[tuple[Any, np.ndarray, float]]:
    """Place, values and number of rows of each column in each group."""
    size = len(population(call.population))
    for row, group in enumerate(result.groups):
        label = oracles.group_of(result, group)
        for column, name in enumerate(result.labels):
            values = of_column(call, name, label, result.by[0])
            if len(values):
                yield (row, column), values, len(values) / size * result.n_priv


def of_group_means(call: Call, result: fpp.GroupMeans) -> Iterator[Tail]:
    """Means of columns in groups."""
    for place, values, rows in of_groups(call, result):
        yield tail((result.tail_below[place], result.tail_above[place]), values, rows)


def of_group_variances(call: Call, result: fpp.GroupMeans) -> Iterator[Tail]:
    """Variances of columns in groups, whose tail goes upwards."""
    for place, values, rows in of_groups(call, result):
        yield tail((0.0, result.variance_tail[place]), (values - values.mean()) ** 2, rows)


def of_variances(call: Call, result: fpp.Description) -> Iterator[Tail]:
    """Variances of columns, whose tail goes upwards."""
    for place, name in enumerate(result.labels[: result.numbers]):
        values = of_column(call, name)
        squares = (values - values.mean()) ** 2
        yield tail((0.0, result.variance_tail[place]), squares, result.n_priv)


def of_described_means(call: Call, result: fpp.Description) -> Iterator[Tail]:
    """Means of a description."""
    yield from of_means(call, result.means)


def complete(call: Call, result: Any, center: Any = None) -> np.ndarray:
    """Rows of the population without a gap, about their mean or a center."""
    rows = oracles.complete(call.population, tuple(result.labels), None)[0]
    return rows - (rows.mean(axis=0) if center is None else center)


def of_gaussian_means(call: Call, result: fpp.GaussianResult) -> Iterator[Tail]:
    """Means of a Gaussian."""
    report = result.report
    for place, values in enumerate(complete(call, result).T):
        yield tail((report.mean_below[place], report.mean_above[place]), values, result.n_priv)


def of_covariances(call: Call, result: fpp.GaussianResult) -> Iterator[Tail]:
    """Variances and covariances of a Gaussian."""
    report = result.report
    rows = complete(call, result)
    for i, j in zip(*np.triu_indices(result.dim), strict=True):
        printed = (report.covariance_below[i, j], report.covariance_above[i, j])
        yield tail(printed, rows[:, i] * rows[:, j], result.n_priv)


def of_correlations(call: Call, result: fpp.GaussianResult) -> Iterator[Tail]:
    """Correlations r of a Gaussian: z_i z_j - r (z_i^2 + z_j^2) / 2 is the influence of a row z in deviations."""
    report = result.report
    rows = complete(call, result)
    units = rows / rows.std(axis=0)
    for i, j in zip(*np.triu_indices(result.dim, 1), strict=True):
        products = units[:, i] * units[:, j]
        influences = products - products.mean() * (units[:, i] ** 2 + units[:, j] ** 2) / 2.0
        printed = (report.correlation_below[i, j], report.correlation_above[i, j])
        yield tail(printed, influences, result.n_priv)


def of_complete_rows(call: Call, result: fpp.GaussianResult) -> Iterator[Tail]:
    """The number of complete rows."""
    yield Tail((result.complete_rows_below, result.complete_rows_above), (HIDDEN, HIDDEN))


def of_directions(call: Call, result: fpp.PCAResult) -> Iterator[Tail]:
    """Mean squares along the printed directions."""
    rows = complete(call, result, result.center)
    for place, direction in enumerate(result.components):
        printed = (result.along_below[place], result.along_above[place])
        yield tail(printed, (rows @ direction) ** 2, result.n_priv)


@functools.cache
def influences_of_model(name: str, label: str) -> np.ndarray:
    """Influences of the rows of a population on coefficients, (rows, outputs * columns): scores over the curvature."""
    rows = oracles.design(name, with_kind=False)
    truth = oracles.fitted(name, label, False, (), None)
    labels = population(name)[label].to_numpy(float)[:, None]
    scores = rows @ truth.T
    spread = np.ones((len(rows), 1, 1))
    if label == "yes":
        scores = 1.0 / (1.0 + np.exp(-scores))
        spread = (scores * (1.0 - scores))[:, :, None]
    if label == "class":
        scores = np.exp(scores)
        scores /= scores.sum(axis=1, keepdims=True)
        spread = scores[:, :, None] * (np.eye(len(truth)) - scores[:, None, :])
        labels = labels == np.arange(len(truth))
    curvature = np.einsum("ni,nab,nj->aibj", rows, spread, rows) / len(rows)
    gradients = (labels - scores)[:, :, None] * rows[:, None, :]
    return gradients.reshape(len(rows), -1) @ np.linalg.pinv(curvature.reshape(truth.size, -1))


def of_coefficients(call: Call, result: Any) -> Iterator[Tail]:
    """Coefficients of a model."""
    influences = influences_of_model(call.population, oracles.label_of(call))
    for place, column in enumerate(influences.T):
        yield tail((result.tail_below[place], result.tail_above[place]), column, result.n_priv)


def tail_ratio(tails: list[Tail], side: int) -> float:
    """The median bound of a side over what lies beyond; NaN where nothing does."""
    beyond = np.median([each.beyond for each in tails], axis=0)
    bound = float(np.median([each.printed[side] for each in tails]))
    has_tail = beyond[side] > EMPTY * beyond.max() and bound > 0.0
    return float(bound / beyond[side]) if has_tail else np.nan


def middle(ratios: np.ndarray) -> float:
    """Geometric mean of the ratios that are known; NaN if none is."""
    known = ratios[np.isfinite(ratios)]
    return float(np.exp(np.log(known).mean())) if len(known) else np.nan


# ---- Settings --------------------------------------------------------------------------------------------------------
Tails = Callable[[Call, Any], Iterator[Tail]]


class Setting(NamedTuple):
    """A call, the statistics whose spreads are measured, and the tails; of negative columns the two sides change places."""

    call: Call
    spreads: tuple[str, ...] = ()
    tails: Mapping[str, Tails] = {}
    negative: bool = False

    def result(self, draw: int) -> tuple[Call, Any]:
        """The call and the result of a draw."""
        call = dataclasses.replace(self.call, draw=draw)
        if not self.negative:
            return call, engine.result_of(call)
        signs = dict.fromkeys(NUMBERS[call.population], -1.0)
        private, public = (
            frame.assign(**{name: sign * frame[name] for name, sign in signs.items()})
            for frame in call.tables
        )
        return call, engine.result_of(call, private=private, x_pub=public)


BY_G = "by='g'"
SKEWED = {"rows": ROWS, "population": "skewed"}
GROUPS = {"tail of mean": of_group_means, "tail of variance": of_group_variances}
GAUSSIAN = {
    "tail of mean": of_gaussian_means,
    "tail of covariance": of_covariances,
    "tail of correlation": of_correlations,
    "tail of complete rows": of_complete_rows,
}
DIRECTION = {"tail of along": of_directions}
MODEL = {"tail of coefficient": of_coefficients}
TENTHS = ("columns=columns[:1]", "q=(0.1, 0.9)")
SETTINGS: Mapping[str, Setting] = {
    "mean": Setting(call_of("estimate_mean", rows=ROWS), ("mean",)),
    "mean, skewed": Setting(call_of("estimate_mean", **SKEWED), (), {"tail of mean": of_means}),
    "mean, skewed to the left": Setting(
        call_of("estimate_mean", **SKEWED), (), {"tail of mean": of_means}, negative=True
    ),
    "mean, bounds": Setting(
        call_of("estimate_mean", "bounds=ends(3.0)", **SKEWED), (), {"worst": of_means_at_worst}
    ),
    "mean by norms": Setting(
        call_of("weighted_mean", "norm_bound='auto', x_pub=p", **SKEWED),
        (),
        {"tail of mean": of_means},
    ),
    "mean in steps": Setting(
        call_of("coinpress_mean", "variance=variances", **SKEWED), (), {"tail of mean": of_means}
    ),
    "groups": Setting(call_of("estimate_mean", BY_G, rows=ROWS), ("mean", "std")),
    "groups, Laplace": Setting(call_of("estimate_mean", BY_G, rows=ROWS, budget=PURE), ("mean",)),
    "groups, skewed": Setting(call_of("estimate_mean", BY_G, **SKEWED), (), GROUPS),
    "groups, skewed to the left": Setting(
        call_of("estimate_mean", BY_G, **SKEWED),
        (),
        {"tail of mean": of_group_means},
        negative=True,
    ),
    "median": Setting(
        call_of("quantiles", "columns=columns[:1]", "q=0.5", rows=ROWS), ("quantile",)
    ),
    "tenths": Setting(call_of("quantiles", *TENTHS, rows=ROWS), ("quantile",)),
    "tenths, Laplace": Setting(
        call_of("quantiles", *TENTHS, rows=ROWS, budget=PURE), ("quantile",)
    ),
    "description, skewed": Setting(
        call_of("describe", **SKEWED),
        ("std",),
        {"tail of mean": of_described_means, "tail of variance": of_variances},
    ),
    "counts": Setting(call_of("value_counts"), ("count",)),
    "gaussian": Setting(
        call_of("estimate_gaussian", rows=ROWS), ("mean", "std", "correlation"), GAUSSIAN
    ),
    "gaussian, skewed": Setting(call_of("estimate_gaussian", **SKEWED), (), GAUSSIAN),
    "direction": Setting(
        call_of("private_pca", "radius='auto', x_pub=p", rows=ROWS), ("along",), DIRECTION
    ),
    "direction, skewed": Setting(
        call_of("private_pca", "radius='auto', x_pub=p", **SKEWED), (), DIRECTION
    ),
    "line": Setting(call_of("linear_regression", rows=ROWS), ("coefficient", "label"), MODEL),
    "line, skewed": Setting(call_of("linear_regression", **SKEWED), ("label",), MODEL),
    "line, Laplace": Setting(
        call_of("linear_regression", rows=ROWS, budget=PURE), ("coefficient",), MODEL
    ),
    "classes": Setting(call_of("logistic_regression", rows=ROWS), ("coefficient",), MODEL),
    "softmax": Setting(call_of("train softmax"), ("coefficient",), MODEL),
    "reports": Setting(call_of("local.estimate_mean"), ("mean",)),
}


def measured(name: str) -> dict[str, Sides]:
    """The ratios of a setting, below and above; NaN on a side without a tail."""
    setting = SETTINGS[name]
    halves: dict[str, dict[Any, list[Halves]]] = collections.defaultdict(dict)
    tails: dict[str, list[list[Tail]]] = {kind: [] for kind in setting.tails}
    for draw in range(DRAWS):
        call, result = setting.result(draw)
        for statistic, where, half in halves_of(call, result) if setting.spreads else ():
            halves[statistic].setdefault(where, []).append(half)
        for kind, tails_of in setting.tails.items():
            tails[kind].append(list(tails_of(call, result)))
    found = {}
    for statistic in setting.spreads:
        spreads = [spread_of(draws) for draws in halves[statistic].values()]
        found[statistic] = both_sides([each for each in spreads if each], root_mean_square)
    for kind, draws in tails.items():
        ratios = []
        for same in zip(*draws, strict=True):
            turned = [Tail(each.printed, each.beyond[::-1]) for each in same]
            placed = turned if setting.negative else list(same)
            ratios.append((tail_ratio(placed, 0), tail_ratio(placed, 1)))
        found[kind] = both_sides(ratios, middle)
    return found


def stored() -> dict[str, dict[str, Sides]]:
    """The ratios of `reaches.json`."""
    read = json.loads(PATH.read_text(encoding="utf-8"))
    return {
        name: {
            kind: tuple(np.nan if side is None else side for side in sides)
            for kind, sides in ratios.items()
        }
        for name, ratios in read.items()
    }


def moved(name: str) -> list[str]:
    """Ratios of a setting that are not what they were, and bounds that are less than what the population has beyond."""
    before = stored()[name]
    lines = []
    for kind, ratios in measured(name).items():
        for side, was, now in zip(("below", "above"), before[kind], ratios, strict=True):
            if not (np.isnan(was) and np.isnan(now)) and not was / ROOM < now < was * ROOM:
                lines.append(f"{name}, {kind}, {side}: {now:.3g}, was {was:.3g}")
            elif kind not in SETTINGS[name].spreads and now < 1.0:
                lines.append(f"{name}, {kind}, {side}: {now:.3g} of what lies beyond")
    return lines


def main(given: list[str] | None = None) -> int:
    """Write the file, or print what moved."""
    parser = argparse.ArgumentParser(prog="python -m tests.truth.reaches", description=__doc__)
    parser.add_argument("--write", action="store_true", help="store the ratios of all settings")
    with threadpool_limits(1):  # matrices are small
        if parser.parse_args(given).write:
            texts = [f"{json.dumps(name)}: {json.dumps(rounded(name))}" for name in SETTINGS]
            PATH.write_text("{\n" + ",\n".join(texts) + "\n}\n", encoding="utf-8")
            return 0
        lines = [line for name in SETTINGS for line in moved(name)]
    sys.stdout.writelines(line + "\n" for line in lines)
    return int(bool(lines))


def rounded(name: str) -> dict[str, list[float | None]]:
    """The ratios of a setting as they are stored: None for a side without a tail."""
    return {
        kind: [None if np.isnan(ratio) else float(f"{ratio:.4g}") for ratio in sides]
        for kind, sides in measured(name).items()
    }


if __name__ == "__main__":
    sys.exit(main())
