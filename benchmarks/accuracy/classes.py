"""Coefficients of the softmax loss against the maximum likelihood of all private rows of raw tables, as a Markdown table.

    python -m benchmarks.accuracy.classes --draws 10 --table region cut

A draw splits a table at random into public rows and at most `MOST_ROWS` private ones. Errors are root mean squares over the
coefficients of all classes, in robust standard errors; the table gives medians over draws.
"""

from __future__ import annotations

import argparse
import sys
import warnings
import zlib
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
from sklearn import datasets

import fastpubpriv as fpp
from benchmarks.accuracy import tables
from benchmarks.accuracy.coefficients import BUDGETS, DEFAULT_BUDGETS

MOST_ROWS = 30_000
PUBLIC_SIZES = (200, 1_000)
# Source, columns, the column of classes, and the thresholds between its classes, or None where it is categorical.
TABLES: dict[str, tuple[str, tuple[str, ...], str, tuple[float, ...] | None]] = {
    "family": ("401ksubs", ("inc", "age", "nettfa", "e401k"), "fsize", (2.0, 4.0)),
    "region": ("cps1988", ("wage", "education", "experience"), "region", None),
    "cut": ("diamonds", ("carat", "depth", "table", "price"), "cut", None),
    "rating": ("movies", ("year", "length", "votes", "Action"), "rating", (5.0, 7.0)),
}
SMALL = ("iris", "wine")  # small tables of scikit-learn, which need large budgets


@cache
def labeled(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return columns (n, p) and classes 0, 1, ... (n,)."""
    if name in SMALL:
        found = getattr(datasets, f"load_{name}")()
        return found.data[:, :4], found.target.astype(np.float64)
    source, columns, label, edges = TABLES[name]
    frame = tables.raw(source)[[*columns, label]].dropna()
    classes = frame[label]
    y = classes.astype("category").cat.codes if edges is None else np.digitize(classes, edges)
    return frame[list(columns)].to_numpy(np.float64), np.asarray(y, dtype=np.float64)


def likeliest(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the maximum likelihood slopes (K, p), which sum to zero over the classes, and their robust standard errors."""
    classes = int(y.max()) + 1
    scale = x.std(axis=0)
    rows = np.column_stack([np.ones(len(x)), (x - x.mean(axis=0)) / scale])
    hot = y[:, None] == np.arange(classes)
    basis = np.linalg.qr(np.column_stack([np.ones(classes), np.eye(classes)[:, :-1]]))[0][:, 1:]
    free = classes - 1
    dim = rows.shape[1]
    found = np.zeros(free * dim)
    bend = np.eye(free * dim)
    spread = np.eye(free * dim)
    for _ in range(100):
        scores = rows @ (basis @ found.reshape(free, dim)).T
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        means = p @ basis
        blocks = [
            [
                (rows.T * (p @ (basis[:, a] * basis[:, b]) - means[:, a] * means[:, b])) @ rows
                for b in range(free)
            ]
            for a in range(free)
        ]
        bend = np.block(blocks) + 1e-9 * len(x) * np.eye(free * dim)
        each = np.einsum("na,nd->nad", (hot - p) @ basis, rows).reshape(len(x), -1)
        spread = each.T @ each
        step = np.linalg.solve(bend, each.sum(axis=0))
        found = found + step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))
        if np.abs(step).max() < 1e-9:
            break
    inverse = np.linalg.inv(bend)
    whole = np.kron(basis, np.eye(dim))
    deviations = np.sqrt(np.diag(whole @ inverse @ spread @ inverse @ whole.T)).reshape(
        classes, dim
    )
    return (basis @ found.reshape(free, dim))[:, 1:] / scale, deviations[:, 1:] / scale


def draw(table: str, m: int, budget: str, seed: int) -> dict[str, Any]:
    """Return the results of one split: coverage and reasons of each coefficient, width over that of sampling alone, and errors."""
    x, y = labeled(table)
    order = np.random.default_rng([zlib.crc32(table.encode()), seed]).permutation(len(y))[
        : MOST_ROWS + m
    ]
    x = x[order]
    y = y[order]
    given = {
        "loss": "softmax",
        "classes": list(range(int(y.max()) + 1)),
        "x_pub": x[:m],
        "y_pub": y[:m],
        "budget": BUDGETS[budget],
        "random_state": seed,
        "progress": False,
        "threads": 1,
    }
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        exact, light = (fpp.train(x[m:], y[m:], tails=tails, **given) for tails in ("any", "light"))
    wanted, deviations = likeliest(x[m:], y[m:])
    kinds = exact.coefficients.shape[0]
    own = [
        each
        for place, each in enumerate(exact.part_reasons)
        if place % (len(exact.part_reasons) // kinds)
    ]
    lower, upper = exact.confidence_interval()

    def error(coefficients: np.ndarray) -> float:
        return float(np.sqrt(np.mean(((coefficients - wanted) / deviations) ** 2)))

    return {
        "covered": ((lower <= wanted) & (wanted <= upper)).ravel()[: len(own)],
        "reasons": [", ".join(each) or "ok" for each in own],
        "width": float(np.median((upper - lower) / (3.92 * deviations))),
        "errors": [
            error(each)
            for each in (exact.coefficients, light.coefficients, exact.public_coefficients)
        ],
    }


def line(table: str, m: int, budget: str, draws: int) -> str:
    """Return the table's line of a setting."""
    found = [draw(table, m, budget, seed) for seed in range(draws)]
    words = np.concatenate([each["reasons"] for each in found])
    covered = np.concatenate([each["covered"] for each in found])
    shares = [
        f"{covered[places].mean():.2f}" if places.any() else "-"
        for places in (words == "ok", words != "ok")
    ]
    width = np.nanmedian([each["width"] for each in found]) if len(words) else np.nan
    errors = " | ".join(
        f"{each:.3g}" for each in np.median([each["errors"] for each in found], axis=0)
    )
    told = ", ".join(f"{count} {word}" for word, count in Counter(words.tolist()).items())
    return f"| {table} | {m:,} | {budget} | {shares[0]} / {shares[1]} | {width:.2f} | {errors} | {told} |"


def main() -> None:
    """Print all settings, or those of some tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--table", nargs="+", choices=[*TABLES, *SMALL], default=list(TABLES))
    parser.add_argument("--budget", nargs="+", choices=list(BUDGETS), default=list(DEFAULT_BUDGETS))
    parser.add_argument("--public", nargs="+", type=int, default=list(PUBLIC_SIZES))
    options = parser.parse_args()
    titles = (
        "table",
        "public",
        "budget",
        "covered: ok / with a reason",
        "width",
        "error",
        "semi_dp",
        "public",
        "reasons",
    )
    sys.stdout.write(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}\n")
    for table in options.table:
        for budget in options.budget:
            for m in options.public:
                print(line(table, m, budget, options.draws), flush=True)


if __name__ == "__main__":
    main()
