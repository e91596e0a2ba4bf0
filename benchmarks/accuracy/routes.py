"""`python -m benchmarks.accuracy.routes`: choices of "auto" in regressions, and the cost of `tails="any"` under light tails.

Each line is a distribution or a raw table, private rows, public rows and a budget. Errors are the excess squared error over least
squares on all rows, in units of the sampling error of as many rows (0 is least squares itself; the population risk adds 1).
Targets: "auto" at most 1.1 times the better of public rows and the private route; under light tails the risk at most 1.1 times that
of `tails="light"` where noise is small (lambda, the variance of noise over that of sampling, below .5), the width at most 1.5 times
that of noise and sampling; errors do not increase with the budget.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
import zlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import fastpubpriv as fpp
from benchmarks.accuracy import coefficients, tables
from benchmarks.accuracy.keeping import Task, results

LIGHT = ("gauss3", "gauss10", "uniform5", "gpa")
OTHERS = ("lognormal", "nettfa", "txhousing")
BUDGETS = (0.003, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 100.0)  # rho
SIZES = (2_000, 9_000)
PUBLIC_SIZES = (50, 500)
NEVER_WORSE, WIDEST, SMALL = 1.1, 1.5, 0.5


def rows_of(name: str, seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return n rows of a distribution, or all of a raw table in random order, and their labels."""
    rng = np.random.default_rng([zlib.crc32(name.encode()), seed])
    if name in ("gauss3", "gauss10", "uniform5"):
        dim = int(name.lstrip("gausniform"))
        x = (
            rng.normal(size=(n, dim))
            if name.startswith("gauss")
            else rng.uniform(-1.0, 1.0, size=(n, dim))
        )
        noise = rng.normal(size=n) if name.startswith("gauss") else rng.uniform(-1.0, 1.0, size=n)
        return x, x @ np.linspace(1.0, -1.0, dim) + noise
    if name == "lognormal":
        x = rng.exponential(size=(n, 1))
        return x, x[:, 0] * rng.lognormal(0.0, 1.2, size=n)
    if name == "txhousing":
        frame = tables.of_r("ggplot2", name)[
            ["median", "sales", "volume", "listings", "inventory", "year"]
        ].dropna()
        x = frame.to_numpy(np.float64)[:, 1:]
        y = frame["median"].to_numpy(np.float64)
    else:
        data = coefficients.labeled(name)
        x = data.x
        y = data.y
    order = rng.permutation(len(y))[:n]
    return np.ascontiguousarray(x[order]), y[order].copy()


def draw(name: str, n: int, m: int, rho: float, seed: int) -> dict[str, float]:
    """Return errors of "auto", of `tails="light"` and of the public rows, and the median width of intervals over the ideal one."""
    x, y = rows_of(name, seed, n + m)

    def fitted(**options: Any) -> Any:
        return fpp.linear_regression(
            x[m:],
            y[m:],
            x_pub=x[:m],
            y_pub=y[:m],
            budget=fpp.ZCDP(rho),
            random_state=seed,
            progress=False,
            threads=1,
            **options,
        )

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        auto = fitted()
        newton = fitted(method="newton")
        light = fitted(tails="light")
        kept = coefficients.columns_of(auto)
        has_slope = np.isfinite(auto.coefficients)
        truth, public = (
            coefficients.LeastSquares.of(x[:rows, kept], y[:rows]) for rows in (len(y), m)
        )
        lower, upper = (ends[has_slope] for ends in auto.confidence_interval())
    noise_sq = np.diag(auto.noise_covariance)[1:][has_slope]
    need = 3.92 * np.sqrt(truth.deviations**2 + noise_sq)
    return {
        "auto": truth.excess(auto.coefficients[has_slope]),
        "newton": truth.excess(newton.coefficients[has_slope]),
        "light": truth.excess(light.coefficients[has_slope]),
        "public": truth.excess(public.coefficients),
        "width": float(np.median((upper - lower) / need)),
        "sampled": float(np.median((upper - lower) / truth.deviations)) / 3.92,
        "covered": float(np.mean((lower <= truth.coefficients) & (truth.coefficients <= upper))),
        "ok": float(
            np.mean([not own for own in itertools.compress(auto.part_reasons[1:], has_slope)])
        ),
        "dim": len(auto.coefficients) + 1.0,
    }


def setting(name: str, n: int, m: int, rho: float, draws: int) -> dict[str, Any]:
    """Return medians over draws, and means of fractions."""
    each = [draw(name, n, m, rho, seed) for seed in range(draws)]
    found = {key: float(np.median([one[key] for one in each])) for key in each[0]}
    found |= {key: float(np.mean([one[key] for one in each])) for key in ("covered", "ok")}
    return {
        "name": name,
        "n": n,
        "m": m,
        "rho": rho,
        "noise": 32.0 * found["dim"] / (2.0 * rho * n),
        **found,
        "choice": found["auto"] / max(min(found["newton"], found["public"]), 1e-300),
        "risk": (1.0 + found["auto"]) / (1.0 + found["light"]),
    }


def targets(lines: Sequence[dict[str, Any]]) -> list[str]:
    """Return the targets, and where they are not met."""

    def told(what: str, chosen: Sequence[dict[str, Any]], key: str, most: float) -> str:
        worse = [
            f"{one['name']} {one['n']:,}/{one['m']} rho {one['rho']:g}: {one[key]:.2f}"
            for one in chosen
            if one[key] > most
        ]
        return f"{what}: {len(chosen) - len(worse)} of {len(chosen)}; not: {', '.join(worse) or 'none'}"

    light = [one for one in lines if one["name"] in LIGHT]
    clear = [one for one in light if one["noise"] < SMALL]
    budgets: dict[tuple[str, int, int], list[dict[str, Any]]] = {}
    for one in lines:
        budgets.setdefault((one["name"], one["n"], one["m"]), []).append(one)
    falls = [
        {
            **more,
            "more": (1.0 + more["auto"]) / (1.0 + less["auto"]),
            "wider": more["sampled"] / less["sampled"],
        }
        for group in budgets.values()
        for less, more in pairwise(sorted(group, key=lambda one: float(one["rho"])))
    ]
    return [
        told(f"auto at most {NEVER_WORSE} times the better route", lines, "choice", NEVER_WORSE),
        told(
            f"risk at most {NEVER_WORSE} times that of tails='light' where lambda < {SMALL:g}",
            clear,
            "risk",
            NEVER_WORSE,
        ),
        told(f"width at most {WIDEST} times what noise and sampling need", light, "width", WIDEST),
        told(
            f"risk with more budget at most {NEVER_WORSE} times that with less",
            falls,
            "more",
            NEVER_WORSE,
        ),
        told("width with more budget not larger", falls, "wider", 1.0),
    ]


def main() -> None:
    """Print a line for each setting, and the targets."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy.routes", description=__doc__
    )
    parser.add_argument("--draws", type=int, default=9)
    parser.add_argument("--name", action="append", choices=[*LIGHT, *OTHERS])
    parser.add_argument("--rho", action="append", type=float)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    tasks = [
        Task(
            f"routes {name} {n} {m} {rho} {options.draws}",
            setting,
            (name, n, m, rho, options.draws),
        )
        for name in options.name or (*LIGHT, *OTHERS)
        for n in (
            (2_000, 6_600) if name == "txhousing" else (2_000, 3_600) if name == "gpa" else SIZES
        )
        for m in PUBLIC_SIZES
        for rho in options.rho or BUDGETS
    ]
    lines = results(tasks, processes=options.processes, keep=options.keep)
    for one in lines:
        print(
            " ".join(
                f"{value:.3g}" if isinstance(value, float) else str(value) for value in one.values()
            )
        )
    print("\n".join(targets(lines)))


if __name__ == "__main__":
    main()
