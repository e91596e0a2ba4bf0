"""`python -m benchmarks.compared`: the tasks of the book's page "Compared with", in each installed library.

With `--write` the medians go to the table of that page. Lines of libraries that are not installed stay: diffprivlib does not load
with newer versions of scikit-learn (`pip install '.[bench]'` has both), and Opacus needs PyTorch (`pip install '.[torch]'`).
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import fastpubpriv as fpp
from examples.new_york import package_file

TABLE = Path(__file__).resolve().parent.parent / "docs" / "evidence" / "compared.json"
MODULES = {
    "fastpubpriv": "fastpubpriv",
    "OpenDP": "opendp.prelude",
    "diffprivlib": "diffprivlib.models",
    "Opacus": "opacus",
}
EPSILON = 0.1  # of the two means
# epsilon of quartiles and of means by group; maximum wind speed in mph
TABLE_EPSILON, SPEED = 1.0, 60.0
SHARED = 200  # public rows of the regression


@cache
def weather(name: str) -> Any:
    """Return the values of a column that are not missing."""
    import pandas as pd

    return pd.read_csv(package_file("weather.csv"))[name].dropna().to_numpy(copy=True)


# The mean of a column with a given range.


def ours_in_range(column: Any, high: float) -> float:
    budget = fpp.PureDP(epsilon=EPSILON)
    found = fpp.weighted_mean(column[:, None], budget=budget, bounds=(0.0, high))
    return float(found.mean[0])


def opendp_in_range(column: Any, high: float) -> float:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    n = len(column)
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=n)
    space = domain, dp.symmetric_distance()
    bounded = space >> dp.t.then_clamp((0.0, high)) >> dp.t.then_mean()
    return float((bounded >> dp.m.then_laplace(high / n / EPSILON))(column))


def diffprivlib_in_range(column: Any, high: float) -> float:
    from diffprivlib import tools

    return float(tools.mean(column, epsilon=EPSILON, bounds=(0.0, high)))


# The mean of a column without a range.


def ours_without_range(column: Any, public: Any) -> float:
    budget = fpp.PureDP(epsilon=EPSILON)
    found = fpp.estimate_mean(column[:, None], x_pub=public, budget=budget)
    return float(found.mean[0])


# Quartiles of integers, and means by group: epsilon 1 for a complete task, under replacement of one row.


@cache
def delays() -> Any:
    """Return departure delays of 30,000 flights in minutes."""
    import pandas as pd

    column = pd.read_csv(package_file("flights.csv.zip"))["dep_delay"].dropna()
    return column.sample(30_000, random_state=0).to_numpy(copy=True)


def ours_quartiles(column: Any, low: float, high: float) -> Any:
    found = fpp.quantiles(column[1:], x_pub=column[:1], budget=fpp.PureDP(epsilon=TABLE_EPSILON))
    return found.quantile[0]


def opendp_quartiles(column: Any, low: float, high: float) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = (
        dp.vector_domain(dp.atom_domain(T=float, nan=False), size=len(column)),
        dp.symmetric_distance(),
    )
    candidates = np.linspace(low, high, 1000).tolist()

    def release(q: float) -> float:
        def make(scale: float):
            return space >> dp.m.then_private_quantile(dp.max_divergence(), candidates, q, scale)

        measure = dp.binary_search_chain(make, d_in=2, d_out=TABLE_EPSILON / 3.0, T=float)
        return float(measure(column))

    return [release(q) for q in (0.25, 0.5, 0.75)]


def diffprivlib_quartiles(column: Any, low: float, high: float) -> Any:
    from diffprivlib import tools

    each = {"epsilon": TABLE_EPSILON / 3.0, "bounds": (low, high)}
    return [float(tools.quantile(column, q, **each)) for q in (0.25, 0.5, 0.75)]


def quartiles(call: Callable[..., Any]) -> Callable[[int], float]:
    """Return the root mean square rank error of the three answers, rounded to minutes; a tie with the quantile has error zero."""

    def error(run: int) -> float:
        column = delays()
        off = []
        ordered = np.sort(column)
        for q, value in zip(
            (0.25, 0.5, 0.75), call(column, float(ordered[0]), float(ordered[-1])), strict=True
        ):
            first, last = (
                np.searchsorted(ordered, np.rint(value), side) for side in ("left", "right")
            )
            off.append(
                max(first - q * len(column), q * len(column) - last, 0.0)
                if np.isfinite(value)
                else len(column) / 2
            )
        return float(np.sqrt(np.mean(np.square(off))))

    return error


@cache
def months() -> Any:
    """Return wind speeds, at most 60 miles an hour, and their months."""
    import pandas as pd

    table = pd.read_csv(package_file("weather.csv"))[["wind_speed", "month"]].dropna()
    return table[table["wind_speed"] <= SPEED].reset_index(drop=True)


def ours_by_month(table: Any) -> Any:
    budget = fpp.PureDP(epsilon=TABLE_EPSILON)
    public = table.iloc[:1].copy()
    found = fpp.estimate_mean(
        table.iloc[1:], x_pub=public, by="month", groups=range(1, 13), budget=budget
    )
    return found.mean[:12, 0]


def opendp_by_month(table: Any) -> Any:
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    month = table["month"].astype(int).astype(str)
    frame = pl.LazyFrame({"wind_speed": table["wind_speed"].to_numpy(), "month": month.to_list()})
    keys = [str(each) for each in range(1, 13)]
    context = dp.Context.compositor(
        data=frame,
        privacy_unit=dp.unit_of(contributions=2),
        privacy_loss=dp.loss_of(epsilon=TABLE_EPSILON),
        split_evenly_over=1,
        margins=[dp.polars.Margin(max_length=len(table))],
    )
    speed = pl.col("wind_speed").fill_null(0.0).fill_nan(0.0)
    asked = context.query().group_by("month").agg(speed.dp.sum((0.0, SPEED)), dp.len())
    found = (
        asked.with_keys(pl.LazyFrame({"month": keys}))
        .release()
        .collect()
        .to_pandas()
        .set_index("month")
        .loc[keys]
    )
    return found["wind_speed"].to_numpy() / np.maximum(found["len"].to_numpy(), 1.0)


def diffprivlib_by_month(table: Any) -> Any:
    from diffprivlib import tools

    # Replacing a row may change two groups.
    each = {"epsilon": TABLE_EPSILON / 2.0, "bounds": (0.0, SPEED)}
    return [
        float(tools.mean(table.loc[table["month"] == month, "wind_speed"], **each))
        for month in range(1, 13)
    ]


def by_month(call: Callable[[Any], Any]) -> Callable[[int], float]:
    """Return the root mean square of the errors of the twelve means."""

    def error(run: int) -> float:
        truth = months().groupby("month")["wind_speed"].mean().to_numpy()
        return float(np.sqrt(np.mean((np.asarray(call(months())) - truth) ** 2)))

    return error


# Linear regression from public and private rows; epsilon = 1, and delta = 1e-6 in approximate DP.


@dataclass(frozen=True)
class Labeled:
    """Public and private rows with labels, and the true coefficients."""

    x: Any
    y: Any
    x_pub: Any
    y_pub: Any
    best: Any

    def excess(self, coefficients: Any) -> float:
        """Return the excess loss: the squared distance to the true coefficients."""
        return float(np.sum((np.ravel(coefficients) - self.best) ** 2))


def labeled(rows: int = 20_000, columns: int = 4, seed: int = 0) -> Labeled:
    """Return independent standard normal columns, and a label with noise variance 1."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns))
    best = rng.normal(size=columns) / 2
    y = x @ best + rng.normal(size=rows)
    return Labeled(x[SHARED:].copy(), y[SHARED:].copy(), x[:SHARED].copy(), y[:SHARED].copy(), best)


def public_regression(data: Labeled) -> Any:
    return np.linalg.lstsq(data.x_pub, data.y_pub, rcond=None)[0]


def ours_regression(data: Labeled) -> Any:
    budget = fpp.ApproxDP(epsilon=1, delta=1e-6)
    public = {"x_pub": data.x_pub, "y_pub": data.y_pub}
    return fpp.linear_regression(data.x, data.y, **public, budget=budget).coefficients


def diffprivlib_regression(data: Labeled) -> Any:
    from diffprivlib.models import LinearRegression

    model = LinearRegression(epsilon=1.0, bounds_X=(-4.0, 4.0), bounds_y=(-8.0, 8.0))
    return model.fit(data.x, data.y).coef_


def opacus_regression(data: Labeled) -> Any:
    import torch
    from opacus import PrivacyEngine

    net = torch.nn.Linear(data.x.shape[1], 1)
    rows = torch.utils.data.TensorDataset(
        torch.tensor(data.x).float(), torch.tensor(data.y).float()
    )
    net, step, loader = PrivacyEngine().make_private_with_epsilon(
        module=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.5),
        data_loader=torch.utils.data.DataLoader(rows, batch_size=600),
        target_epsilon=1.0,
        target_delta=1e-6,
        epochs=5,
        max_grad_norm=2.0,
    )
    for _ in range(5):
        for features, labels in loader:
            step.zero_grad()
            torch.nn.functional.mse_loss(net(features).ravel(), labels).backward()
            step.step()
    return net._module.weight.detach().numpy()


@dataclass(frozen=True)
class Contestant:
    """One call of a library: a function from the index of a run to its error."""

    task: str
    name: str
    library: str
    error: Callable[[int], float]


def in_range(call: Callable[..., float], column: str, high: float) -> Callable[[int], float]:
    return lambda run: abs(call(weather(column), high) - float(weather(column).mean()))


def without_range(run: int) -> float:
    wind = weather("wind_speed")
    return abs(
        ours_without_range(np.delete(wind, 7000), wind[7000:7001, None].copy()) - float(wind.mean())
    )


def regression(call: Callable[[Labeled], Any], rows: int, columns: int) -> Callable[[int], float]:
    def error(run: int) -> float:
        data = labeled(rows, columns, seed=run)
        return data.excess(call(data))

    return error


PEERS = {"OpenDP": opendp_in_range, "diffprivlib": diffprivlib_in_range}
GUESSES = (50.0, 2_000.0, 100_000.0)
QUARTILES = {
    "fastpubpriv, one public row": ("fastpubpriv", ours_quartiles),
    "OpenDP, 1,000 candidates in the true range": ("OpenDP", opendp_quartiles),
    "diffprivlib, the true range": ("diffprivlib", diffprivlib_quartiles),
}
BY_MONTH = {
    "fastpubpriv, one public row": ("fastpubpriv", ours_by_month),
    "OpenDP with Polars, 0 to 60": ("OpenDP", opendp_by_month),
    "diffprivlib, 0 to 60, each month by itself": ("diffprivlib", diffprivlib_by_month),
}
REGRESSIONS = {
    "public rows alone": ("fastpubpriv", public_regression),
    "fastpubpriv": ("fastpubpriv", ours_regression),
    "diffprivlib, ranges given": ("diffprivlib", diffprivlib_regression),
    "Opacus, nothing tuned": ("Opacus", opacus_regression),
}
SIZES = {
    "regression": (20_000, 4),
    "regression, 10 columns": (20_000, 10),
    "regression, few rows": (2_000, 10),
}
CONTESTANTS = (
    Contestant(
        "bounded column", "fastpubpriv", "fastpubpriv", in_range(ours_in_range, "humid", 100.0)
    ),
    *(
        Contestant("bounded column", name, name, in_range(call, "humid", 100.0))
        for name, call in PEERS.items()
    ),
    Contestant("unbounded column", "fastpubpriv, one public row", "fastpubpriv", without_range),
    *(
        Contestant(
            "unbounded column",
            f"{name}, 0 to {guess:,.0f}",
            name,
            in_range(call, "wind_speed", guess),
        )
        for name, call in PEERS.items()
        for guess in GUESSES
    ),
    *(
        Contestant("quartiles", name, library, quartiles(call))
        for name, (library, call) in QUARTILES.items()
    ),
    *(
        Contestant("means by group", name, library, by_month(call))
        for name, (library, call) in BY_MONTH.items()
    ),
    *(
        Contestant(task, name, library, regression(call, *size))
        for task, size in SIZES.items()
        for name, (library, call) in REGRESSIONS.items()
        if library != "Opacus" or task == "regression"  # training takes minutes
    ),
)


def missing(library: str) -> str | None:
    """Return the reason why a library cannot be used; None if it can."""
    try:
        importlib.import_module(MODULES[library])
    except ImportError as error:
        return f"skipped: {library} ({error})"
    return None


def once(task: str) -> dict[str, float]:
    """Run a task once in each installed library, and print which are not installed."""
    chosen = [each for each in CONTESTANTS if each.task == task]
    reasons = {
        library: missing(library) for library in dict.fromkeys(each.library for each in chosen)
    }
    print(*filter(None, reasons.values()), sep="\n", end="")
    return {each.name: each.error(0) for each in chosen if reasons[each.library] is None}


def measure(contestant: Contestant, runs: int) -> dict[str, Any]:
    """Return the table's line of a contestant."""
    count = max(3, runs // 3) if contestant.library == "Opacus" else runs
    errors = sorted(map(contestant.error, range(count)))
    figures = {
        "runs": count,
        "median": statistics.median(errors),
        "least": errors[0],
        "most": errors[-1],
    }
    figures = {
        name: float(f"{value:.3g}") if name != "runs" else value for name, value in figures.items()
    }
    return {
        "task": contestant.task,
        "name": contestant.name,
        "library": contestant.library,
        "version": metadata.version(contestant.library.lower()),
        **figures,
    }


def merged(new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the table with new lines in place of old ones, in the order of the contestants."""
    kept = json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else []
    lines = {(line["task"], line["name"]): line for line in [*kept, *new]}
    order = [(each.task, each.name) for each in CONTESTANTS]
    return [lines[key] for key in order if key in lines]


def main() -> None:
    """Run all tasks in all installed libraries."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compared", description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--library", choices=MODULES, action="append")
    parser.add_argument(
        "--write", action="store_true", help="keep the figures in docs/evidence/compared.json"
    )
    options = parser.parse_args()
    wanted = options.library or list(MODULES)
    reasons = {library: missing(library) for library in wanted}
    print(*filter(None, reasons.values()), sep="\n")
    warnings.simplefilter("ignore")
    chosen = [
        each for each in CONTESTANTS if each.library in wanted and reasons[each.library] is None
    ]
    for each in chosen:
        line = measure(each, options.runs)
        print(*line.values(), sep=", ", flush=True)
        if options.write:
            TABLE.write_text(json.dumps(merged([line]), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
