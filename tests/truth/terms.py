"""One term of an interval, or one number of a plan, at a time: what coverage cannot see, as other terms hide it.

`noise_alone` and `sampling_alone` compare a spread over draws with what is printed, `still_terms` sets one field of a result to
zero and wants a narrower interval, `planned` compares a plan with what calls print.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

import fastpubpriv as fpp
from fastpubpriv import local
from fastpubpriv.results.base import Value
from tests.truth import arguments, engine, oracles
from tests.truth.arguments import VERBS, Call

ZCDP = fpp.ZCDP(0.1)
PURE = fpp.PureDP(1)
SEEDS = 200
NORMAL = 1.959964  # the normal quantile at .975
ROOM = 1.15  # of a spread of 200 draws: the standard error of one is .05, of the mean of three .03
# Ratios that are not one, by design, as they were when they were recorded.
# counts near a median are pooled with a prior, and the printed noise is the larger of two edges
RANKS_RECORDED = 0.833
# a plan assumes clips at three deviations, columns without tails have nearer ones
PLAN_AT_LEAST_BUDGET = 1.47


def call_of(
    verb: str, *texts: str, rows: int = 2_000, budget: Any = ZCDP, population: str = "light"
) -> Call:
    """A call with cases by their texts."""
    cases = {case.text: case for case in VERBS[verb].all_cases()}
    return Call(verb, tuple(cases[text] for text in texts), population, rows, budget)


MEDIAN = call_of("quantiles", "columns=columns[:1]", "q=0.5")


# ---- T1: noise alone -------------------------------------------------------------------------------------------------
def with_seeds(call: Call, seeds: int, **more: Any) -> list[Any]:
    """Results on the same rows with other seeds."""
    return [engine.result_of(call, random_state=seed, **more) for seed in range(seeds)]


def root_mean_square(values: Any) -> float:
    """Root of the mean of squares, over numbers that are known."""
    return float(np.sqrt(np.nanmean(np.square(values))))


def spread_ratio(points: Any, printed: Any) -> float:
    """The spread of answers over draws, in units of what is printed: one number for all columns."""
    known = np.isfinite(points).all(axis=0) & (np.median(printed, axis=0) > 0.0)
    scale = np.median(printed, axis=0)
    spread = np.full(known.shape, np.nan)
    spread[known] = np.std(np.asarray(points)[:, known], axis=0, ddof=1)
    return root_mean_square(spread[known] / scale[known])


def noise_of_means(call: Call, seeds: int = SEEDS) -> tuple[float, float]:
    """The spread of means over noise_std, and the most that noise of counts may add to it."""
    results = with_seeds(call, seeds)
    points = np.array([result.mean for result in results])
    noise = np.array([result.noise_std for result in results])
    clipping = [_clipping(result) for result in results]
    with_clips = np.median(np.hypot(noise, clipping), axis=0)
    scale = np.median(noise, axis=0)
    known = np.isfinite(points).all(axis=0) & (scale > 0.0)
    return spread_ratio(points, noise), root_mean_square(with_clips[known] / scale[known])


def _clipping(result: Any) -> np.ndarray:
    if isinstance(result, fpp.GroupMeans):
        return result.clipping_std
    return result.report.clipping_std if result.report is not None else np.zeros(result.dim)


def noise_of_counts(call: Call, seeds: int = SEEDS) -> float:
    """The spread of counts over noise_std, of keys whose count is far from zero."""
    results = with_seeds(call, seeds)
    counts = np.array([result.counts for result in results])
    large = counts.mean(axis=0) > 10.0 * results[0].noise_std
    return root_mean_square(counts[:, large].std(axis=0, ddof=1)) / results[0].noise_std


def noise_of_ranks(call: Call, seeds: int = SEEDS) -> float:
    """The spread of the ranks of quantiles over noise_rows."""
    results = with_seeds(call, seeds)
    sorted_columns = [
        np.sort(call.tables.private[name].dropna().to_numpy(float)) for name in results[0].labels
    ]
    ranks = np.array([
        [np.searchsorted(column, line) for column, line in zip(sorted_columns, result.quantile, strict=True)]
        for result in results
    ])  # fmt: skip
    return spread_ratio(ranks.astype(float), np.array([result.noise_rows for result in results]))


def noise_of_coefficients(call: Call, seeds: int = SEEDS) -> float:
    """The spread of the centers of coefficients' intervals over the diagonal of noise_covariance."""
    results = with_seeds(call, seeds)
    centers = np.array([result.interval_center for result in results])
    return spread_ratio(centers, np.sqrt([np.diag(result.noise_covariance) for result in results]))


def error_of_covariances(draws: int = 60, rows: int = 20_000, dim: int = 4) -> float:
    """The root mean squared error of a covariance of noise over the predicted one, for white rows and a scale that is right."""
    errors = []
    predicted = []
    for draw in range(draws):
        white = np.random.default_rng(draw).normal(size=(rows, dim))
        with warnings.catch_warnings(action="ignore"):
            result = fpp.coinpress_covariance(
                white, scale=1.2, budget=fpp.ZCDP(0.001), random_state=draw
            )
        errors.append(np.linalg.norm(result.covariance - np.eye(dim)))
        predicted.append(result.predicted_error)
    return root_mean_square(errors) / float(np.median(predicted))


def noise_alone() -> Iterator[tuple[str, float, float, float]]:
    """Name, ratio, and the least and the most that it may be."""
    fixed = "radius=30.0, variance=variances"
    for law, budget in (("Gaussian", ZCDP), ("Laplace", PURE)):
        for name, call in (
            ("weighted_mean", call_of("weighted_mean", budget=budget)),
            ("coinpress_mean", call_of("coinpress_mean", fixed, budget=budget)),
            ("estimate_mean", call_of("estimate_mean", budget=budget)),
            ("estimate_mean by=", call_of("estimate_mean", "by='g'", budget=budget)),
        ):
            ratio, most = noise_of_means(call, SEEDS if "by" not in name else SEEDS // 3)
            yield f"{name}, {law}", ratio, 1.0 / ROOM, ROOM * most
        yield (
            f"value_counts, {law}",
            noise_of_counts(call_of("value_counts", budget=budget)),
            1.0 / ROOM,
            ROOM,
        )
    # hardly any clips
    within = noise_of_means(call_of("estimate_mean", "by='g', bounds=ends(1.0)"), SEEDS // 3)
    yield "estimate_mean by=, within bounds", within[0], 1.0 / ROOM, ROOM * within[1]
    yield (
        "linear_regression",
        noise_of_coefficients(call_of("linear_regression", rows=20_000), 60),
        1.0 / ROOM,
        ROOM,
    )
    yield "coinpress_covariance", error_of_covariances(), 1.0 / ROOM, ROOM
    yield "quantiles", noise_of_ranks(MEDIAN, SEEDS), RANKS_RECORDED / ROOM, RANKS_RECORDED * ROOM


# ---- T2: each term moves its interval --------------------------------------------------------------------------------
PATTERN = re.compile(
    r".*_std|tail_.*|worst_.*|.*_below|.*_above|standard_error|rows_error|.*covariance|std"
)
# Fields of these names that are part of no interval: what they are instead.
NO_TERM = {
    "GaussianResult.mean_noise_std": "shown beside the interval of the report",
    "GaussianResult.covariance": "the estimate",
    "GaussianReport.covariance": "the estimate",
    "CovarianceResult.covariance": "the estimate",
    "CovarianceResult.relative_noise_std": "of the diagonal; a covariance has no interval",
    "GroupMeans.count_noise_std": "of the printed numbers of rows",
    "PCAResult.complete_rows_below": "zero: incomplete rows are a cell of their own",
    "PCAResult.complete_rows_above": "zero: incomplete rows are a cell of their own",
    "TrainingResult.noise_covariance": "the part of `covariance` from noise",
    "TrainingResult.public_covariance": "of the public fit",
    "DescentResult.noise_std": "of gradients",
    "HistogramResult.noise_std": "of bins, which have no interval",
    "EdgeRanks.total_std": "of the printed number of rows in use",
}


def interval_ends(result: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Lower and upper ends of everything that a result has intervals for."""
    found = []
    if isinstance(result, fpp.GaussianResult):
        found = [
            result.confidence_interval(of=kind)
            for kind in ("mean", "standard_deviation", "covariance", "correlation")
        ]
    elif isinstance(result, fpp.CountResult):
        found = [result.confidence_interval(of=kind) for kind in ("rows", "population")]
    elif isinstance(result, fpp.TrainingResult):
        found = [result.confidence_interval(of=kind) for kind in ("rows", "population")]
        if result.loss != "logistic":
            found.append(result.prediction_interval(np.ones((1, result.dim))))
        frame = result.to_frame()
        found.append((frame["lower"].to_numpy(), frame["upper"].to_numpy()))
    elif isinstance(result, fpp.DescentResult):
        frame = result.to_frame()
        found = [(frame["lower"].to_numpy(), frame["upper"].to_numpy())] if "lower" in frame else []
    elif isinstance(result, fpp.Description):
        found = [
            result.confidence_interval(),
            *interval_ends(result.means),
            *interval_ends(result.quantiles),
        ]
    elif hasattr(result, "confidence_interval"):
        found = [result.confidence_interval()]
        if isinstance(result, fpp.GroupMeans):
            found.append(result.deviation_interval())
    if hasattr(result, "complete_rows_interval"):
        found.append(result.complete_rows_interval())
    return [(np.asarray(low, dtype=float), np.asarray(high, dtype=float)) for low, high in found]


Path = tuple[str, ...]


def term_fields(value: Any, path: Path = ()) -> Iterator[tuple[str, Path]]:
    """Every field of a result, and of its reports, that may be a term: its name with its class, and the way to it."""
    for field in dataclasses.fields(value):
        held = getattr(value, field.name)
        inner = held[0] if isinstance(held, tuple) and held and isinstance(held[0], Value) else held
        if isinstance(inner, Value):
            yield from term_fields(inner, (*path, field.name))
        elif PATTERN.fullmatch(field.name) and held is not None:
            yield f"{type(value).__name__}.{field.name}", (*path, field.name)


def without(value: Any, path: Path) -> Any:
    """A result with one field set to zero."""
    name, *rest = path
    held = getattr(value, name)
    if rest and isinstance(held, tuple):
        changed: Any = tuple(without(each, tuple(rest)) for each in held)
    elif rest:
        changed = without(held, tuple(rest))
    else:
        changed = np.zeros_like(held) if isinstance(held, np.ndarray) else 0.0
    return dataclasses.replace(value, **{name: changed})


def is_narrower(result: Any, changed: Any) -> bool:
    """Whether an end moved inwards, and none outwards."""
    inwards = outwards = False
    with np.errstate(all="ignore"):
        for (low, high), (new_low, new_high) in zip(
            interval_ends(result), interval_ends(changed), strict=True
        ):
            spare = 1e-12 * (np.abs(low) + np.abs(high))
            inwards |= bool(np.any((new_low > low + spare) | (new_high < high - spare)))
            outwards |= bool(np.any((new_low < low - spare) | (new_high > high + spare)))
    return inwards and not outwards


def is_above_zero(value: Any, path: Path) -> bool:
    """Whether a field has a number above zero."""
    for name in path:
        value = value[0] if isinstance(value, tuple) else value
        value = getattr(value, name)
    with np.errstate(all="ignore"):
        return bool(np.any(np.asarray(value) > 0.0))


@functools.cache
def answers() -> Mapping[str, Any]:
    """Results of every class, on which each term is above zero somewhere."""
    calls = {
        "mean": call_of("estimate_mean"),
        "mean, skewed": call_of("estimate_mean", population="skewed", rows=400),
        "mean, bounds": call_of("estimate_mean", "bounds=ends(3.0)", population="awkward"),
        "mean, Laplace": call_of("estimate_mean", budget=PURE),
        "mean, norms": call_of("weighted_mean"),
        "groups, Laplace": call_of("estimate_mean", "by='g'", rows=20_000, budget=PURE),
        "counts, Laplace": call_of("value_counts", budget=PURE),
        "groups": call_of("estimate_mean", "by='g'", rows=20_000),
        "groups, skewed": call_of("estimate_mean", "by='g'", rows=20_000, population="skewed"),
        "description": call_of("describe", population="skewed"),
        "gaussian": call_of("estimate_gaussian", rows=20_000),
        "gaussian, skewed": call_of("estimate_gaussian", rows=20_000, population="skewed"),
        "gaussian, gaps": call_of("estimate_gaussian", rows=20_000, population="awkward"),
        "directions": call_of(
            "private_pca", "radius='auto', x_pub=p", population="skewed", rows=20_000
        ),
        "counts": call_of("value_counts"),
        "quantiles": call_of("quantiles"),
        "bins": call_of("stable_histogram", budget=fpp.ApproxDP(1, 1e-6)),
        "bins, Laplace": call_of("stable_histogram", budget=fpp.ApproxDP(5, 1e-6)),
        "line": call_of("linear_regression", rows=20_000, population="skewed"),
        "classes": call_of("logistic_regression", rows=20_000),
        "softmax": call_of("train softmax", rows=20_000),
    }
    found = {name: engine.result_of(call) for name, call in calls.items()}
    gaps = call_of("private_pca", "radius='auto', x_pub=p", population="awkward", rows=20_000)
    public = gaps.tables.public.dropna(subset=["w"])
    found["directions, gaps"] = engine.result_of(
        gaps, columns=["w", "x"], center=[0.0, 0.0], x_pub=public
    )
    tables = Call("local.estimate_mean").tables
    with warnings.catch_warnings(action="ignore", category=fpp.SeededNoiseWarning):
        short = local.PrivUnit(2, 4.0, norm_bound=0.5)
        sent = short.privatize(tables.private[["x", "v"]].to_numpy(), random_state=0)
    found["reports"] = local.estimate_mean(sent, x_pub=tables.public[["x", "v"]].to_numpy())
    return found


def still_terms() -> list[str]:
    """Terms that move no interval of any answer, and fields that no answer has above zero."""
    moved: dict[str, bool] = {}
    above: dict[str, bool] = {}
    for result in answers().values():
        for name, path in term_fields(result):
            above[name] = above.get(name, False)
            moved[name] = moved.get(name, False)
            if name in NO_TERM or not is_above_zero(result, path):
                continue
            above[name] = True
            moved[name] |= is_narrower(result, without(result, path))
    found = [
        f"{name} is above zero in no answer of tests/truth/terms.py"
        for name in above
        if not above[name] and name not in NO_TERM
    ]
    found += [
        f"{name} does not move an interval" for name in moved if above[name] and not moved[name]
    ]
    return sorted(found)


def wider_under_laplace() -> float:
    """Width at .99 over width at .95 of counts under Laplace noise: 1.54, and 1.31 for a normal law."""
    result = engine.result_of(call_of("value_counts", rows=20_000, budget=fpp.PureDP(0.1)))
    place = int(np.argmax(result.counts))
    wide, narrow = (
        np.diff(np.array(result.confidence_interval(level))[:, place])[0] for level in (0.99, 0.95)
    )
    return float(wide / narrow)


# ---- T2': sampling alone ---------------------------------------------------------------------------------------------
def sampling_of_means(call: Call, draws: int = SEEDS) -> float:
    """The spread over draws of rows, hardly any noise, over sampling_std."""
    results = [
        engine.result_of(dataclasses.replace(call, draw=draw, budget=fpp.ZCDP(10**6)))
        for draw in range(draws)
    ]
    return spread_ratio(
        np.array([result.mean for result in results]), np.array([r.sampling_std for r in results])
    )


def sampling_of_counts(call: Call, draws: int = SEEDS) -> float:
    """The spread of counts over draws of rows over the deviation of their intervals for the population."""
    results = [engine.result_of(dataclasses.replace(call, draw=draw)) for draw in range(draws)]
    counts = np.array([result.counts for result in results])
    large = counts.mean(axis=0) > 10.0 * results[0].noise_std  # the intervals of others end at zero
    lower, upper = np.array(
        [result.confidence_interval(of="population") for result in results]
    ).transpose(1, 0, 2)
    return spread_ratio(counts[:, large], (upper - lower)[:, large] / (2.0 * NORMAL))


def sampling_alone() -> Iterator[tuple[str, float, float, float]]:
    """Name, ratio, and the least and the most that it may be."""
    for name, call, draws in (
        ("estimate_mean", call_of("estimate_mean"), SEEDS // 2),
        ("estimate_mean by=", call_of("estimate_mean", "by='g'"), SEEDS // 5),  # nine means
    ):
        yield name, sampling_of_means(call, draws), 1.0 / ROOM, ROOM
    yield (
        "value_counts",
        sampling_of_counts(call_of("value_counts", "columns='w', keys=[0.0, 1.0]")),
        1.0 / ROOM,
        ROOM,
    )


# ---- T3: a plan is what calls print ----------------------------------------------------------------------------------
PLAN_DRAWS = 8


def expected_over_root_mean_square(k: int) -> float:
    """E |z| / sqrt(E |z|^2) of a normal vector with k entries: sqrt(2 / k) Gamma((k + 1) / 2) / Gamma(k / 2)."""
    return math.sqrt(2.0 / k) * math.exp(math.lgamma((k + 1) / 2.0) - math.lgamma(k / 2.0))


def of_draws(call: Call, number: Callable[[Any], float], **more: Any) -> float:
    """The median of a printed number over draws."""
    results = [
        engine.result_of(dataclasses.replace(call, draw=draw), **more) for draw in range(PLAN_DRAWS)
    ]
    return float(np.median([number(result) for result in results]))


def in_deviations(call: Call) -> Callable[[Any], float]:
    """The root mean squared distance of a printed mean, noise and sampling, in deviations of the columns."""
    unit = np.sqrt(arguments.variances(call))
    return lambda result: float(
        np.linalg.norm(np.hypot(result.noise_std, result.sampling_std) / unit)
    )


def planned_counts(budget: Any) -> float:
    """The planned error of a count over the printed one."""
    result = engine.result_of(call_of("value_counts", budget=budget))
    return (
        fpp.plan("counts", cells=len(result.keys), n_priv=2_000, budget=budget).error
        * 2_000
        / result.noise_std
    )


def planned_coinpress(budget: Any) -> float:
    """The planned noise of CoinPress over the printed one, in deviations: sampling, which is larger, is taken off."""
    call = call_of("coinpress_mean", "radius=30.0, variance=variances", budget=budget)
    unit = np.sqrt(arguments.variances(call))
    printed = of_draws(call, lambda result: float(np.linalg.norm(result.noise_std / unit)))
    expected = fpp.plan("coinpress_mean", dim=3, radius=30.0, n_priv=2_000, budget=budget).error
    whole = expected / expected_over_root_mean_square(3)
    return math.sqrt(whole**2 - 3.0 / 2_000) / printed


def planned_mean(budget: Any) -> float:
    """The planned distance of a mean from counts over the printed one."""
    call = call_of("estimate_mean", budget=budget)
    printed = of_draws(call, in_deviations(call)) * expected_over_root_mean_square(3)
    return fpp.plan("mean", dim=3, n_pub=60, n_priv=2_000, budget=budget).error / printed


def planned_cells(task: str) -> float:
    """The planned noise of a count that locates columns over that of the release."""
    call = call_of({"mean": "estimate_mean"}.get(task, task))
    released = [
        each for each in engine.result_of(call).releases if each["name"] == "signed dyadic cells"
    ]
    found = fpp.plan(task, dim=3, n_pub=60, n_priv=2_000, budget=ZCDP)
    return float(found.details["count_std"]) / float(released[0]["noise_std"])


def planned_gaussian(rows: int) -> float:
    """The planned error of a covariance over the printed prediction."""
    call = call_of("estimate_gaussian", rows=rows)
    printed = of_draws(call, lambda result: result.predicted_covariance_error)
    return fpp.plan("gaussian", dim=3, n_pub=60, n_priv=rows, budget=ZCDP).error / printed


def planned_distance() -> float:
    """Pinsker's bound on the total variation of two close Gaussians, from a plan's errors, over the planned one."""
    found = fpp.plan("gaussian", dim=3, n_pub=60, n_priv=20_000, budget=ZCDP)
    divergence = found.error**2 / 4.0 + float(found.details["mean_error"]) ** 2 / 2.0
    return math.sqrt(divergence / 2.0) / float(found.details["total_variation"])


def planned_median(rows: int) -> float:
    """The planned noise of the rank of a median among quartiles over the printed one, of a continuous column."""
    call = call_of("quantiles", rows=rows)
    printed = of_draws(call, lambda result: float(result.noise_rows[0, 1]), columns=["u"])
    whole = fpp.plan("quantiles", dim=1, n_pub=60, n_priv=rows, budget=ZCDP).error * rows
    return math.sqrt(max(whole**2 - 0.25 * rows, 0.0)) / printed


def planned() -> Iterator[tuple[str, float, float, float]]:
    """Name, ratio of a plan to what calls print, and the least and the most that it may be."""
    for name, ratio, room in (
        ("counts, Gaussian", planned_counts(ZCDP), 1.03),
        ("counts, Laplace", planned_counts(PURE), 1.03),
        ("coinpress_mean, Gaussian", planned_coinpress(ZCDP), 1.03),
        ("coinpress_mean, Laplace", planned_coinpress(PURE), 1.03),
        ("mean", planned_mean(ZCDP), 1.15),
        ("mean at rho .001", planned_mean(fpp.ZCDP(0.001)) / PLAN_AT_LEAST_BUDGET, 1.15),
        ("counts that locate columns", planned_cells("mean"), 1.03),
        ("gaussian", planned_gaussian(2_000), 1.3),
        ("total variation of a gaussian", planned_distance(), 1.03),
        ("quantiles at 2,000 rows", planned_median(2_000), 1.7),
        ("quantiles at 20,000 rows", planned_median(20_000), 1.2),
    ):
        yield name, ratio, 1.0 / room, room


def measured_over_planned(draws: int = 24) -> Iterator[tuple[str, float, float, float]]:
    """Measured errors of means and covariances over the plan's: within a factor of four."""
    call = call_of("estimate_mean")
    unit = np.sqrt(arguments.variances(call))
    true = np.array(
        [oracles.moments_of("light", name, None, None, None)[0] for name in call.columns]
    )
    results = [engine.result_of(dataclasses.replace(call, draw=draw)) for draw in range(draws)]
    error = float(np.mean([np.linalg.norm((result.mean - true) / unit) for result in results]))
    yield (
        "mean",
        error / fpp.plan("mean", dim=3, n_pub=60, n_priv=2_000, budget=ZCDP).error,
        0.25,
        4.0,
    )
    call = call_of("estimate_gaussian")
    errors = []
    for draw in range(draws):
        got = engine.answer(dataclasses.replace(call, draw=draw))
        errors += [
            true
            for fact, true in zip(got.facts, got.truths, strict=True)
            if fact.statistic == "covariance"
        ]
    yield (
        "gaussian",
        float(np.mean(errors))
        / fpp.plan("gaussian", dim=3, n_pub=60, n_priv=2_000, budget=ZCDP).error,
        0.25,
        4.0,
    )


def outside(measured: Iterator[tuple[str, float, float, float]]) -> list[str]:
    """Ratios that are not between their ends."""
    return [
        f"{name}: {ratio:.3f} is not between {least:.3f} and {most:.3f}"
        for name, ratio, least, most in measured
        if not least <= ratio <= most
    ]
