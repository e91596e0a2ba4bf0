"""Regressions of real tables: `linear_regression` by each of its methods, against peers with the same budget.

A draw splits a table into test rows (a fifth), public rows and private rows. The error is the mean squared error on the test rows
over the variance of their labels. Peers get units, bounds and the maximum row norm from public rows. Opacus gets more: the best of
its settings on the test rows, a start from the public fit too, and an epsilon for adding or removing a row, which is about half of
one for replacing a row.
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import fastpubpriv as fpp
from benchmarks.accuracy import tables
from benchmarks.accuracy.contestants import module
from benchmarks.papers.newton_beyond import adassp
from examples.new_york import package_file
from fastpubpriv.errors import InputError

METHODS = ("newton", "auto")
CLOSE, BEST = 1.1, 1.1  # goals: maximum error over the prototype's, and over the best method's
_TEST = 5  # one row in so many is a test row
_FLIGHTS = 131_250  # number of rows that leaves the prototype's 105,000 training rows
STEP_SIZES = (0.03, 0.1, 0.3)
CLIP_NORMS = (1.0, 3.0)
EPOCHS = (5, 20)
BATCH = 1000


@dataclass(frozen=True)
class Cell:
    """A table, public rows, a budget; and the errors of the specification's prototypes of newton and of the second moments.

    These are medians of 5 to 7 splits, in which least squares on all rows has the error `plain`; as that differs by a few percent,
    errors are compared relative to least squares in the same splits. None where the prototype has no figure.
    """

    table: str
    n_pub: int
    epsilon: float
    delta: float = 1e-5
    newton: float | None = None
    statistics: float | None = None
    plain: float | None = None


CELLS = (
    Cell("visits", 100, 0.5, newton=0.905, statistics=0.905, plain=0.9046),
    Cell("visits", 500, 1.0, newton=0.905, statistics=0.905, plain=0.9046),
    Cell("visits", 2000, 4.0, newton=0.905, statistics=0.905, plain=0.9046),
    Cell("affairs", 100, 1.0, newton=0.926, statistics=0.922, plain=0.904),
    Cell("affairs", 500, 0.5, newton=0.908, statistics=0.912, plain=0.904),
    Cell("affairs", 500, 4.0, newton=0.904, statistics=0.903, plain=0.904),
    Cell("affairs", 2000, 1.0, newton=0.902, statistics=0.904, plain=0.904),
    Cell("flights", 100, 1.0, newton=0.179, statistics=0.165, plain=0.1554),
    Cell("flights", 500, 0.5, newton=0.156, statistics=0.156, plain=0.1536),
    Cell("flights", 2000, 0.5, newton=0.161, statistics=0.165, plain=0.1600),
    Cell("flights", 2000, 4.0, newton=0.161, statistics=0.161, plain=0.1600),
    Cell("diabetes", 40, 0.5, 1e-4, newton=0.599, statistics=0.580, plain=0.587),
    Cell("diabetes", 40, 4.0, 1e-4, newton=0.568, statistics=0.570, plain=0.587),
    Cell("diabetes", 100, 1.0, 1e-4, newton=0.580, statistics=0.579, plain=0.587),
    Cell("schools", 60, 1.0, 1e-4),
    Cell("visibility", 200, 1.0),
)


@cache
def labeled(table: str) -> np.ndarray:
    """Return complete numeric rows, the label last."""
    if table == "flights":
        return _flights()
    if table == "visits":
        found = tables.frame("randhie")
        return _last(found, "mdvis", log=True)  # number of doctor visits
    if table == "affairs":
        return _last(tables.frame("fair"), "affairs", log=True)
    if table == "diabetes":
        return _last(tables.frame("diabetes"), "target")
    if table == "schools":
        # Fraction of pupils above the median in mathematics, on covariates of the district.
        found = tables.frame("star98")
        found["above"] = found["NABOVE"] / (found["NABOVE"] + found["NBELOW"])
        plain = [
            "LOWINC",
            "PERASIAN",
            "PERBLACK",
            "PERHISP",
            "PERMINTE",
            "AVYRSEXP",
            "AVSALK",
            "PERSPENK",
            "PTRATIO",
        ]
        return _last(found[[*plain, "above"]], "above")
    if table == "visibility":
        plain = ["temp", "dewp", "humid", "wind_speed", "precip", "pressure"]
        return _last(tables.frame("weather")[[*plain, "visib"]], "visib")
    raise InputError(f"no table {table!r}")


def _last(frame: Any, label: str, *, log: bool = False) -> np.ndarray:
    frame = frame.dropna()
    y = frame[label].to_numpy(np.float64)
    return np.column_stack(
        [frame.drop(columns=label).to_numpy(np.float64), np.log1p(y) if log else y]
    )


def _flights() -> np.ndarray:
    """Return arrival delay on departure delay, distance, hour and minute, and one column for each carrier, origin and month."""
    pandas = importlib.import_module("pandas")
    frame = pandas.read_csv(package_file("flights.csv.zip"))
    frame = frame.dropna(subset=["arr_delay", "dep_delay", "distance", "hour", "minute"])
    coded = pandas.get_dummies(frame[["carrier", "origin", "month"]].astype(str))
    numbers = frame[["dep_delay", "distance", "hour", "minute"]]
    rows = np.column_stack([numbers, coded, frame["arr_delay"]]).astype(np.float64)
    return rows[np.random.default_rng(1).permutation(len(rows))[:_FLIGHTS]]


@dataclass(frozen=True)
class Cut:
    """One split: test, public and private rows with labels."""

    public: tuple[np.ndarray, np.ndarray]
    private: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    cell: Cell
    seed: int

    @classmethod
    def of(cls, cell: Cell, seed: int) -> Cut:
        """Return the split of a random permutation of the table."""
        rows = labeled(cell.table)
        rows = rows[np.random.default_rng([31, seed]).permutation(len(rows))]
        judge = len(rows) // _TEST
        parts = rows[judge : judge + cell.n_pub], rows[judge + cell.n_pub :], rows[:judge]
        public, private, test = (
            (np.ascontiguousarray(part[:, :-1]), part[:, -1].copy()) for part in parts
        )
        return cls(public, private, test, cell, seed)

    def error(self, predict: Callable[[np.ndarray], np.ndarray]) -> float:
        """Return the test error of a prediction function of rows."""
        return float(np.mean((predict(self.test[0]) - self.test[1]) ** 2) / self.test[1].var())

    @property
    def budget(self) -> fpp.ApproxDP:
        """Budget of the cell."""
        return fpp.ApproxDP(self.cell.epsilon, self.cell.delta)

    @property
    def units(self) -> tuple[np.ndarray, np.ndarray, float, float]:
        """Return means and standard deviations of public rows and labels."""
        x, y = self.public
        spread = x.std(axis=0)
        return (
            x.mean(axis=0),
            np.where(spread > 0.0, spread, 1.0),
            float(y.mean()),
            float(y.std()) or 1.0,
        )


def ours(cut: Cut, method: str) -> float:
    """Return the error of a method of `linear_regression`."""
    return cut.error(_fitted(cut, method).predict)


def _fitted(cut: Cut, method: str) -> Any:
    return fpp.linear_regression(
        *cut.private,
        x_pub=cut.public[0],
        y_pub=cut.public[1],
        budget=cut.budget,
        method=method,
        random_state=cut.seed,
        progress=False,
        threads=1,
    )


def non_private(cut: Cut) -> float:
    """Return the error of least squares on all training rows."""
    x, y = (
        np.concatenate([one, other]) for one, other in zip(cut.public, cut.private, strict=True)
    )
    mean = x.mean(axis=0)
    scale = np.maximum(x.std(axis=0), 1e-12)
    weights = np.linalg.lstsq((x - mean) / scale, y - y.mean(), rcond=None)[0]
    return cut.error(lambda z: y.mean() + (z - mean) / scale @ weights)


def public_only(cut: Cut) -> float:
    """Return the error of our fit to public rows alone."""
    return ours(cut, "throw_away")


def adaptive_statistics(cut: Cut) -> float:
    """Return the error of AdaSSP (Wang 2018) in public units; its bounds are the maximum public row norm and public label."""
    mean, scale, center, size = cut.units

    def terms(x: np.ndarray) -> np.ndarray:
        return np.column_stack([np.ones(len(x)), (x - mean) / scale])

    longest = float(np.sqrt(np.sum(terms(cut.public[0]) ** 2, axis=1)).max())
    largest = float(np.abs((cut.public[1] - center) / size).max())
    weights = adassp(
        terms(cut.private[0]),
        (cut.private[1] - center) / size,
        cut.cell.epsilon,
        np.random.default_rng(cut.seed),
        delta=cut.cell.delta,
        longest=longest,
        largest=largest,
    )
    return cut.error(lambda z: center + size * (terms(z) @ weights))


def diffprivlib(cut: Cut) -> float | None:
    """Return the error of diffprivlib's linear regression with bounds from public rows; it spends epsilon, without delta."""
    models = module("diffprivlib.models")
    if models is None:
        return None
    (x, y), (x_pub, y_pub) = cut.private, cut.public
    low = x_pub.min(axis=0)
    high = x_pub.max(axis=0)
    model = models.LinearRegression(
        epsilon=cut.cell.epsilon,
        bounds_X=(low, np.where(high > low, high, low + 1.0)),
        bounds_y=(y_pub.min(), max(y_pub.max(), y_pub.min() + 1e-6)),
        random_state=cut.seed,
    )
    return cut.error(model.fit(x, y).predict)


def opacus(cut: Cut) -> float | None:
    """Return the error of Opacus's DP-SGD, the best of its settings on the test rows."""
    if module("opacus") is None:
        return None
    network = importlib.import_module("benchmarks.networks.opacus_regression")
    rows = {"public": cut.public, "private": cut.private}
    found = [
        cut.error(
            network.opacus_fit(rows, cut.cell.epsilon, (size, clip, epochs, BATCH, warm, cut.seed))
        )
        for size in STEP_SIZES
        for clip in CLIP_NORMS
        for epochs in EPOCHS
        for warm in (0.0, 1.0)
    ]
    return min(found)


OPACUS = "Opacus, best on test"
PEERS: dict[str, Callable[[Cut], float | None]] = {
    "AdaSSP": adaptive_statistics,
    "diffprivlib": diffprivlib,
    OPACUS: opacus,
}


def measure(
    cell: Cell, seeds: int, *, peers: bool = True, opacus_cuts: int | None = None
) -> dict[str, Any]:
    """Return medians over the splits of a cell; NaN if a peer is not installed. Opacus has fewer splits, with 24 runs each."""
    tried = {
        "diffprivlib": max(1, seeds // 4),
        OPACUS: max(1, seeds // 4) if opacus_cuts is None else opacus_cuts,
    }
    found: dict[str, list[float]] = {}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for seed in range(seeds):
            cut = Cut.of(cell, seed)
            each: dict[str, float | None] = {method: ours(cut, method) for method in METHODS}
            each |= {"public": public_only(cut), "non-private": non_private(cut)}
            for name, peer in PEERS.items() if peers else ():
                each[name] = peer(cut) if seed < tried.get(name, seeds) else math.nan
            for name, error in each.items():
                found.setdefault(name, []).append(math.nan if error is None else error)
    medians = _medians(found)
    return {
        "table": cell.table,
        "rows": len(labeled(cell.table)),
        "n_pub": cell.n_pub,
        "epsilon": cell.epsilon,
        "delta": cell.delta,
        "cuts": seeds,
        **medians,
        **judged(cell, medians),
        "Opacus cuts": sum(not math.isnan(error) for error in found.get(OPACUS, [])),
    }


def _medians(found: dict[str, list[float]]) -> dict[str, float]:
    """Return medians over splits; for a method on some splits only, its median ratio to least squares, times that of the latter."""
    plain = np.array(found["non-private"])
    middle = float(np.median(plain))
    return {
        name: math.nan
        if np.isnan(errors).all()
        else middle * float(np.nanmedian(errors / plain))
        if np.isnan(errors).any()
        else float(np.median(errors))
        for name, errors in ((name, np.array(each)) for name, each in found.items())
    }


def judged(cell: Cell, medians: dict[str, float]) -> dict[str, float]:
    """Return the two ratios with goals: newton over the prototype, each over least squares; "auto" over the best of its choices."""
    over = math.nan
    if cell.newton is not None and cell.plain is not None:
        over = (medians["newton"] / medians["non-private"]) / (cell.newton / cell.plain)
    best = min(medians[name] for name in ("newton", "public"))
    return {"newton / prototype": over, "auto / best": medians["auto"] / best}


def run(
    quick: bool, *, seeds: int, wanted: Sequence[str] = (), opacus_cuts: int | None = None
) -> list[dict[str, Any]]:
    """Run all cells, or those of some tables; with `quick` one cell of each table except the flights."""
    chosen = [cell for cell in CELLS if not wanted or cell.table in wanted]
    if quick:
        chosen = list({cell.table: cell for cell in chosen if cell.table != "flights"}.values())
    found = []
    for cell in chosen:
        found.append(measure(cell, seeds, opacus_cuts=opacus_cuts))
        print(found[-1], flush=True)
    return found


def targets(lines: Sequence[dict[str, Any]]) -> list[str]:
    """Return each target, and in how many cells it is met."""
    known = [line for line in lines if not math.isnan(line["newton / prototype"])]
    close = sum(line["newton / prototype"] <= CLOSE for line in known)
    best = sum(line["auto / best"] <= BEST for line in lines)
    return [
        f"newton within {CLOSE} times the prototype's error: {close} of {len(known)} cells",
        f'"auto" within {BEST} times the best of newton, second moments and public rows: {best} of {len(lines)} cells',
    ]
