"""`python -m benchmarks.accuracy.quantiles`: quartiles of fifteen columns from one public row, their intervals and rank errors.

10,000 rows are drawn with replacement from each column. *Held* is the fraction of 95 % intervals that contain a quartile of the
column: of all three quartiles, and of the one that is held least. *Rank error* is the root mean square distance, in rows, from the
nearest rank of the value in the private rows, over that of sampling: the sampling error of a rank is sqrt(n q (1 - q)). Atoms have
several ranks, so that the right value has the error 0. *Total* adds both in squares.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fastpubpriv as fpp
from benchmarks.accuracy import tables
from benchmarks.readme import ACCURACY, markdown, replaced, write_rows

ROWS = 10_000
QS = np.array([0.25, 0.5, 0.75])
BUDGETS: dict[str, Any] = {
    "rho 0.1": fpp.ZCDP(0.1),
    "rho 0.01": fpp.ZCDP(0.01),
    "epsilon 0.5": fpp.PureDP(0.5),
}


def _made(draw: Callable[[Any], Any]) -> Callable[[], Any]:
    return lambda: draw(np.random.default_rng(5))


def _raw(table: str, column: str) -> Callable[[], Any]:
    return lambda: tables.raw(table)[column].dropna().to_numpy(dtype=np.float64)


def _of(table: str, column: str) -> Callable[[], Any]:
    return lambda: tables.frame(table)[column].dropna().to_numpy(dtype=np.float64)


COLUMNS: dict[str, Callable[[], Any]] = {
    "normal": _made(lambda rng: rng.normal(size=100_000)),
    "normal at 1e6": _made(lambda rng: rng.normal(1e6, 1.0, size=100_000)),
    "lognormal": _made(lambda rng: rng.lognormal(size=100_000)),
    "Cauchy": _made(lambda rng: rng.standard_cauchy(size=100_000)),
    "uniform": _made(lambda rng: rng.random(size=100_000)),
    "nine of ten are zero": _made(
        lambda rng: rng.poisson(3.0, 100_000) * (rng.random(100_000) < 0.1)
    ),
    "ages": _made(lambda rng: rng.integers(18, 91, 100_000).astype(float)),
    "prices that end in .99": _made(lambda rng: np.floor(rng.lognormal(3.0, 0.5, 100_000)) + 0.99),
    "two groups far apart": _made(
        lambda rng: rng.normal(0.0, 1.0, 100_000) + 50.0 * rng.integers(0, 2, 100_000)
    ),
    "education": _raw("census2000", "educ"),
    "log wage": _raw("census2000", "lweekinc"),
    "net assets": _raw("401ksubs", "nettfa"),
    "visits to a doctor": _of("randhie", "mdvis"),
    "delay of departure": _of("flights", "dep_delay"),
    "price of a diamond": _raw("diamonds", "price"),
}


def line_of(name: str, budget: str, draws: int) -> list[str]:
    """Return the line of a column and a budget."""
    values = COLUMNS[name]()
    truth = np.quantile(values, QS, method="inverted_cdf")
    held = []
    off = []
    for seed in range(draws):
        rows = np.random.default_rng(seed).choice(values, ROWS + 1)
        result: Any = fpp.quantiles(
            rows[1:], x_pub=rows[:1], budget=BUDGETS[budget], random_state=seed, progress=False
        )
        lower, upper = result.confidence_interval()
        held.append((lower[0] <= truth) & (truth <= upper[0]))
        first, last = (
            np.searchsorted(np.sort(rows[1:]), result.quantile[0], side=side)
            for side in ("left", "right")
        )
        off.append(np.maximum(np.maximum(first - QS * ROWS, QS * ROWS - last), 0.0))
    share = np.mean(held, axis=0)
    error = np.sqrt(np.mean(np.square(off), axis=0))
    sampling = np.sqrt(ROWS * QS * (1.0 - QS))
    ratio = error / sampling
    return [
        name,
        budget,
        f"{share.mean():.3f}",
        f"{share.min():.3f}",
        " / ".join(f"{each:.0f}" for each in error),
        f"{ratio.max():.2f}",
        f"{np.hypot(1.0, ratio).max():.2f}",
    ]


HEADS = [
    "column",
    "budget",
    "held",
    "held least",
    "rank error, quartiles",
    "over sampling, largest",
    "total, largest",
]


def main() -> None:
    """Run the requested measurements and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy.quantiles", description=__doc__
    )
    parser.add_argument("--draws", type=int, default=200, help="draws for each column and budget")
    parser.add_argument(
        "--write",
        action="store_true",
        help="write the table into docs/evidence/accuracy.md as well",
    )
    parser.add_argument("--json", type=Path, help="write the table to this file as well")
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lines = [line_of(name, budget, options.draws) for name in COLUMNS for budget in BUDGETS]
    page = markdown([HEADS, *lines])
    print(page)
    if options.json is not None:
        write_rows(options.json, [HEADS, *lines])
    if options.write:
        text = ACCURACY.read_text(encoding="utf-8")
        ACCURACY.write_text(replaced(text, "quantiles", page), encoding="utf-8")


if __name__ == "__main__":
    main()
