"""Point estimates, predictions and reasons of `linear_regression` and `logistic_regression` on real tables.

A table is a population: public and private rows are drawn from it with replacement, a table with many rows being thinned to
`MOST_ROWS`. Its *label* is the last column with at least `LEAST_LEVELS` values, its *covariates* are the first `MOST_COVARIATES`
others; the regressions of the list name theirs. The logistic label is whether that label is above its median.

*Excess* is the risk over the least one on all rows of the table: for least squares in units of the residual variance, for classes
in nats. *Public* is least squares of the public rows alone (classes: maximum likelihood with a wide prior), *constant* the mean of
the public labels. *Worse* is the share of fits worse than that constant, of which *worse, ok* have no reason. *Ratio* is the
excess over the smaller of public and constant, with `FLOOR` / n added to both. *Held* is the share of 95 % intervals that hold the
table's coefficient, *rows held* that of intervals of the private rows' own one. *Measured / predicted* compares the excess with
`predicted_excess`.
"""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import fastpubpriv as fpp
from benchmarks.accuracy import coefficients, tables
from benchmarks.accuracy.coefficients import BUDGETS
from benchmarks.accuracy.keeping import Task, results
from benchmarks.accuracy.scores import geometric, interval_counts
from fastpubpriv.errors import InputError

N_PRIV = 5_000
PUBLIC_SIZES = (20, 60, 300)
DEFAULT_BUDGETS = ("epsilon 1", "rho 0.05", "rho 0.5")
LOSSES = ("squared", "logistic")
TAILS = ("any", "light")
MOST_ROWS = 20_000
LEAST_LEVELS = 10
LEAST_COVARIATES, MOST_COVARIATES = 2, 4
LEAST_SHARE = 0.02  # share of the rarer class of a logistic label
# Over n: the sampling error of four coefficients, below which a ratio has no meaning.
FLOOR = 4.0
# Goals of each cell: ratio, ninth decile of the ratio, measured over predicted; and against old code mean and median excess.
MEDIAN_RATIO, HIGH_RATIO, HIGHEST_RATIO = 1.1, 1.3, 3.0
WITHIN = 2.0
OLD_MEAN, OLD_MEDIAN, OLD_LARGEST_MEDIAN = 1.5, 1.05, 1.5
ROUNDING = 1e-9  # relative error of an excess
PRIOR_STD = 2.5  # of standardized log-odds, for the fit to public rows alone (Gelman et al. 2008)
# What two files of fits to the same rows have in common; they may differ in the tails.
KEY = ("table", "loss", "n_pub", "budget", "draw")

Lines = list[dict[str, Any]]


@dataclass(frozen=True)
class Population:
    """Covariates (n, p) and labels (n,) of a table; `half` is "tuning", "report" or "held out"."""

    name: str
    half: str
    x: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class Setting:
    """Loss, tails, number of public rows, and budget."""

    loss: str
    tails: str
    n_pub: int
    budget: str


def thinned(name: str, half: str, x: np.ndarray, y: np.ndarray) -> Population:
    """Return the population of at most `MOST_ROWS` rows of a table, chosen at random by its name."""
    order = np.random.default_rng(zlib.crc32(name.encode())).permutation(len(y))[:MOST_ROWS]
    return Population(name, half, np.ascontiguousarray(x[order]), y[order].copy())


def population(name: str, half: str, rows: np.ndarray) -> Population | None:
    """Return the regression of a table by the rule of the columns; None if it has no label or too few covariates."""
    labels = [j for j, column in enumerate(rows.T) if len(np.unique(column)) >= LEAST_LEVELS]
    if not labels or rows.shape[1] <= LEAST_COVARIATES:
        return None
    others = [j for j in range(rows.shape[1]) if j != labels[-1]]
    return thinned(name, half, rows[:, others[:MOST_COVARIATES]], rows[:, labels[-1]])


def populations(half: str | None = None, wanted: Sequence[str] = ()) -> list[Population]:
    """Return the regressions of the benchmark's tables: of both halves or of one, or of some tables."""
    found: list[Population | None] = []
    for name, regression in tables.REGRESSIONS.items():
        data = coefficients.labeled(name)
        if data.x.shape[1] >= LEAST_COVARIATES:
            found.append(thinned(name, regression.half, data.x[:, :MOST_COVARIATES], data.y))
    for name in tables.JOINT_TABLES:
        found.append(population(name, tables.half_of(name), tables.joint(name)))
    return [
        one
        for one in found
        if one is not None and half in (None, one.half) and (not wanted or one.name in wanted)
    ]


def classes(one: Population) -> Population | None:
    """Return the population with the label above its median as its class; None if one class is rare."""
    y = (one.y > np.median(one.y)).astype(np.float64)
    if not LEAST_SHARE <= y.mean() <= 1.0 - LEAST_SHARE:
        return None
    return Population(one.name, one.half, one.x, y)


def logistic_weights(rows: np.ndarray, y: np.ndarray, precision: float) -> np.ndarray:
    """Return the minimum of the sum of logistic losses and of half of the precision times the squared norm, by Newton steps."""
    weights = np.zeros(rows.shape[1])

    def loss(at: np.ndarray) -> float:
        score = rows @ at
        return float(np.sum(np.logaddexp(0.0, score) - y * score) + 0.5 * precision * at @ at)

    least = loss(weights)
    for _ in range(100):
        chance = 0.5 + 0.5 * np.tanh(0.5 * (rows @ weights))  # exp would overflow
        slope = rows.T @ (y - chance) - precision * weights
        curvature = (rows * (chance * (1.0 - chance))[:, None]).T @ rows
        move = np.linalg.solve(curvature + precision * np.eye(len(weights)), slope)
        while loss(weights + move) > least and np.abs(move).max() > 1e-12:
            move /= 2.0
        weights = weights + move
        gain = least - loss(weights)
        least -= gain
        if gain <= 1e-12 * len(y):
            break
    return weights


@dataclass(frozen=True)
class Risk:
    """Risk of coefficients on rows: of least squares in units of the least one, of classes in nats."""

    x: np.ndarray
    y: np.ndarray
    loss: str
    precision: float = 1e-6  # classes: of a prior that bounds the coefficients of separated ones

    @cached_property
    def mean(self) -> np.ndarray:
        """Means of the columns."""
        return self.x.mean(axis=0)

    @cached_property
    def scale(self) -> np.ndarray:
        """Standard deviations of the columns, 1 for constant ones."""
        spread = self.x.std(axis=0)
        return np.where(spread > 0.0, spread, 1.0)

    @cached_property
    def rows(self) -> np.ndarray:
        """Standardized rows with a leading one."""
        return np.column_stack([np.ones(len(self.x)), (self.x - self.mean) / self.scale])

    @cached_property
    def weights(self) -> np.ndarray:
        """Best coefficients of the standardized rows."""
        if self.loss == "logistic":
            return logistic_weights(self.rows, self.y, self.precision)
        found: np.ndarray = np.linalg.lstsq(self.rows, self.y, rcond=None)[0]
        return found

    @cached_property
    def best(self) -> np.ndarray:
        """Best coefficients in the units of the columns, the intercept first."""
        slopes = self.weights[1:] / self.scale
        return np.append(self.weights[0] - self.mean @ slopes, slopes)

    @cached_property
    def least(self) -> float:
        """Least risk: mean squared residual, or mean loss."""
        return self.absolute(self.weights)

    def absolute(self, weights: np.ndarray) -> float:
        """Return mean squared residual, or mean loss, of coefficients of the standardized rows."""
        score = self.rows @ weights
        if self.loss == "logistic":
            return float(np.mean(np.logaddexp(0.0, score) - self.y * score))
        return float(np.mean((self.y - score) ** 2))

    def excess(self, of: np.ndarray) -> float:
        """Return the excess risk of coefficients in the units of the columns."""
        weights = np.append(of[0] + self.mean @ of[1:], of[1:] * self.scale)
        if self.loss == "logistic":
            return self.absolute(weights) - self.least
        gap = self.rows @ (weights - self.weights)
        return float(np.mean(gap * gap)) / max(self.least, 1e-300)


def of_constant(y: np.ndarray, dim: int, loss: str) -> np.ndarray:
    """Return coefficients of the mean of public labels; of classes with half a row added to either, so that it is finite."""
    level = float(y.mean())
    if loss == "logistic":
        level = math.log((y.sum() + 0.5) / (len(y) - y.sum() + 0.5))
    return np.append(level, np.zeros(dim))


def fit(rows: tuple[np.ndarray, np.ndarray], setting: Setting, draw: int) -> Any:
    """Return the fit of a setting to rows, of which the first are public."""
    x, y = rows
    m = setting.n_pub
    function: Any = fpp.logistic_regression if setting.loss == "logistic" else fpp.linear_regression
    return function(
        x[m:],
        y[m:],
        x_pub=x[:m].copy(),
        y_pub=y[:m].copy(),
        budget=BUDGETS[setting.budget],
        tails=setting.tails,
        random_state=draw,
        threads=1,
        progress=False,
    )


def answer(one: Population, truth: Risk, setting: Setting, draw: int) -> dict[str, Any]:
    """Return how one fit does; all budgets, tails and losses have the same rows."""
    rng = np.random.default_rng([zlib.crc32(one.name.encode()), setting.n_pub, draw])
    places = rng.integers(0, len(one.y), N_PRIV + setting.n_pub)
    x = one.x[places]
    y = one.y[places]
    m = setting.n_pub
    dim = x.shape[1]
    alone = Risk(x[:m], y[:m], setting.loss, PRIOR_STD**-2)
    line: dict[str, Any] = {
        "table": one.name,
        "half": one.half,
        "loss": setting.loss,
        "tails": setting.tails,
        "n_pub": m,
        "budget": setting.budget,
        "draw": draw,
        "dim": dim,
        "public": truth.excess(alone.best),
        "constant": truth.excess(of_constant(y[:m], dim, setting.loss)),
    }
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            result = fit((x, y), setting, draw)
        except fpp.FastPubPrivError as error:
            return line | {"refused": type(error).__name__}
    found = np.zeros(1 + dim)
    found[0] = result.intercept
    public_fit = np.zeros(1 + dim)
    public_fit[0] = result.public_intercept
    terms = [int(term.removeprefix("x")) for term in result.terms]
    # A term without a coefficient is zero in predictions.
    found[1:][terms] = np.nan_to_num(result.coefficients)
    public_fit[1:][terms] = np.nan_to_num(result.public_coefficients)
    unit = 1.0 if setting.loss == "logistic" else max(truth.least, 1e-300)
    words = {str(reason) for own in (result.reasons, *result.part_reasons) for reason in own}
    return line | {
        "excess": truth.excess(found),
        "public fit": truth.excess(public_fit),
        "predicted": result.predicted_excess / unit,
        "method": result.method,
        "status": str(result.status),
        "reasons": ", ".join(sorted(words)),
        "intervals": intervals(result, one, (x[m:], y[m:]), setting.loss),
    }


def intervals(
    result: Any, one: Population, private: tuple[np.ndarray, np.ndarray], loss: str
) -> dict[str, dict[str, int]]:
    """Return counts of intervals of slopes for the table and for the private rows, by terms that have a coefficient."""
    given = np.isfinite(result.coefficients)
    kept = [
        int(term.removeprefix("x"))
        for term, there in zip(result.terms, given, strict=True)
        if there
    ]
    ok = np.array([not own for own in result.part_reasons[1:]], dtype=bool)[given]
    found = {}
    for of, (x, y) in {"population": (one.x, one.y), "rows": private}.items():
        true = Risk(x[:, kept], y, loss).best[1:]
        lower, upper = result.confidence_interval(0.95, of=of)
        found[of] = interval_counts(true, (lower[given], upper[given]), ok)
    return found


def measure(
    one: Population,
    draws: int,
    losses: Sequence[str] = LOSSES,
    tails: str = "any",
    budgets: Sequence[str] = DEFAULT_BUDGETS,
) -> Lines:
    """Return a line for each fit of a table."""
    lines = []
    for loss in losses:
        labeled = classes(one) if loss == "logistic" else one
        if labeled is None:
            continue
        truth = Risk(labeled.x, labeled.y, loss)
        for n_pub in PUBLIC_SIZES:
            for budget in budgets:
                setting = Setting(loss, tails, n_pub, budget)
                lines += [answer(labeled, truth, setting, draw) for draw in range(draws)]
    return lines


def run(
    quick: bool,
    *,
    draws: int,
    half: str | None = None,
    wanted: Sequence[str] = (),
    budgets: Sequence[str] = DEFAULT_BUDGETS,
    tails: str = "any",
    processes: int = 1,
    keep: Path | None = None,
) -> Lines:
    """Measure least squares on the benchmark's tables; with `quick` every fourth of them."""
    chosen = populations(half, wanted)
    if quick:
        chosen = chosen[::4]
    if not chosen:
        raise InputError("no table has that name, two covariates and that half")
    tasks = [
        Task(
            f"points {one.name} {draws} {tails} {budgets}",
            measure,
            (one, draws, ("squared",), tails, budgets),
        )
        for one in chosen
    ]
    return [line for found in results(tasks, processes=processes, keep=keep) for line in found]


# ---- Report ----------------------------------------------------------------------------------------------------------
def floored(excess: float) -> float:
    """Return an excess with the sampling error added; that of a loss with rounding errors may be below zero."""
    return max(excess, 0.0) + FLOOR / N_PRIV


def ratio(line: dict[str, Any]) -> float:
    """Return the excess over that of the better of the public rows alone and a constant."""
    return floored(line["excess"]) / floored(min(line["public"], line["constant"]))


def is_worse(line: dict[str, Any]) -> bool:
    """Return whether a constant is better, by more than rounding: a fit without slopes may be the same constant."""
    return bool(line["excess"] > line["constant"] * (1.0 + ROUNDING))


def held(lines: Lines, of: str, *, ok: bool) -> float:
    """Return the share of intervals, without or with a reason, that hold the truth; NaN of none."""
    counts = [line["intervals"][of] for line in lines]
    total = sum(own["ok"] if ok else own["known"] - own["ok"] for own in counts)
    good = sum(own["ok held"] if ok else own["held"] - own["ok held"] for own in counts)
    return good / total if total else math.nan


def share(lines: Lines, word: str, of: str) -> float:
    """Return the share of intervals counted as `of` that are counted as `word`; NaN of none."""
    total = sum(line["intervals"]["population"][of] for line in lines)
    return (
        sum(line["intervals"]["population"][word] for line in lines) / total if total else math.nan
    )


def quantile(values: Iterable[float], level: float) -> float:
    """Return a quantile; NaN of none."""
    found = list(values)
    return float(np.quantile(found, level)) if found else math.nan


def row(name: str, lines: Lines, old: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    """Return the row of some fits; `old` holds those of other code by their keys."""
    given = [line for line in lines if "excess" in line]
    worse = [line for line in given if is_worse(line)]
    # No prediction is stored as null.
    told = [line for line in given if line["predicted"] is not None and line["predicted"] > 0.0]
    factors = [max(line["excess"], 0.0) / line["predicted"] for line in told]
    pairs = [
        (line["excess"], old[key]["excess"])
        for line in given
        if "excess" in old.get(key := tuple(line[part] for part in KEY), {})
    ]
    shown = {
        "fits": name,
        "answers": len(given),
        "worse": len(worse) / len(given) if given else math.nan,
        "worse, ok": sum(line["status"] == "ok" for line in worse),
        "worse, caution": sum(line["status"] == "caution" for line in worse),
        "ratio, median": quantile(map(ratio, given), 0.5),
        "ratio, d9": quantile(map(ratio, given), 0.9),
        "excess, median": quantile((line["excess"] for line in given), 0.5),
        "mean": float(np.mean([line["excess"] for line in given])) if given else math.nan,
        "public, mean": float(np.mean([line["public"] for line in given])) if given else math.nan,
        "held, ok": held(given, "population", ok=True),
        "a reason": held(given, "population", ok=False),
        "rows held, ok": held(given, "rows", ok=True),
        "rows, a reason": held(given, "rows", ok=False),
        "ok": share(given, "ok", "known"),
        "absent": 1.0 - share(given, "known", "parts"),
        "measured / predicted": quantile(factors, 0.5),
        "d9": quantile(factors, 0.9),
        "within 2": float(np.mean([1.0 / WITHIN <= factor <= WITHIN for factor in factors]))
        if told
        else math.nan,
    }
    if not old:
        return shown
    before = [other for _, other in pairs]
    return shown | {
        "excess / old": geometric(floored(one) / floored(other) for one, other in pairs),
        "old median": quantile(before, 0.5),
        "old mean": float(np.mean(before)) if before else math.nan,
    }


def rows_of(lines: Lines, old: Lines) -> Lines:
    """Return the row of every cell: half, loss, tails, public rows and budget; then those of all cells of a loss."""
    before = {tuple(line[part] for part in KEY): line for line in old}
    cells: dict[tuple[Any, ...], Lines] = {}
    for line in lines:
        kind = line["half"], line["loss"], line["tails"]
        cells.setdefault((*kind, line["n_pub"], line["budget"]), []).append(line)
    for line in lines:
        cells.setdefault((line["half"], line["loss"], line["tails"], "all", "all"), []).append(line)
    shown = []
    for (half, loss, tails, n_pub, budget), found in cells.items():
        shown.append(row(f"{half}, {loss}, {tails}: {n_pub} public, {budget}", found, before))
    return shown


def targets(rows: Lines) -> list[str]:
    """Return each goal, and in how many cells it is met; `rows` are those of `rows_of`."""
    cells = [row for row in rows if "all public" not in row["fits"]]

    def met(what: str, key: str, most: float, of: str = "") -> str:
        """Return in how many cells a number is at most a limit, or so many times that of old code."""
        limits = [most * row[of] if of else most for row in cells]
        good = sum(row[key] <= limit for row, limit in zip(cells, limits, strict=True))
        return f"{what} at most {most}{' times the old' if of else ''}: in {good} of {len(cells)} cells"

    close = sum(1.0 / WITHIN <= row["measured / predicted"] <= WITHIN for row in cells)
    found = [
        met("Median ratio", "ratio, median", MEDIAN_RATIO),
        met("Ninth decile of the ratio", "ratio, d9", HIGH_RATIO),
        met("Ninth decile of the ratio", "ratio, d9", HIGHEST_RATIO),
        f"Median of measured over predicted within {WITHIN:g}: in {close} of {len(cells)} cells",
    ]
    if "old mean" in cells[0]:
        found += [
            met("Mean excess", "mean", OLD_MEAN, "old mean"),
            met("Median excess", "excess, median", OLD_MEDIAN, "old median"),
            met("Median excess", "excess, median", OLD_LARGEST_MEDIAN, "old median"),
        ]
    return found


def summary(about: str, name: str, lines: Lines) -> dict[str, Any]:
    """Return how far off the fits with one property are."""
    ratios = list(map(ratio, lines))
    return {
        about: name,
        "fits": len(lines),
        "worse than a constant": sum(map(is_worse, lines)),
        "ratio, median": quantile(ratios, 0.5),
        "ratio, d9": quantile(ratios, 0.9),
        "largest": max(ratios),
    }


def reasons_of(lines: Lines) -> Lines:
    """Return for each reason how far off the fits are that have it."""
    found: dict[str, Lines] = {}
    for line in lines:
        for word in (line["reasons"] or "ok").split(", ") if "excess" in line else ():
            found.setdefault(word, []).append(line)
    return [summary("reason", word, own) for word, own in sorted(found.items())]


def tables_of(lines: Lines) -> Lines:
    """Return for each table how far off its fits are, the largest ratio first."""
    found: dict[str, Lines] = {}
    for line in lines:
        if "excess" in line:
            found.setdefault(f"{line['table']}, {line['loss']}", []).append(line)
    shown = [summary("table", name, own) for name, own in found.items()]
    return sorted(shown, key=lambda line: -line["largest"])
