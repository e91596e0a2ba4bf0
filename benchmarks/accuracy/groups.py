"""`python -m benchmarks.accuracy.groups`: means and deviations of groups, against groups whose sizes and range are known.

For each table, its groups of 200 rows or more. *Error* is the median distance from the mean of the private rows; *known range* is
the noise, at the whole budget, of the mean of a group of public size whose values lie between the ends of the column. *Held* is the
fraction of 95 % intervals that contain the value of the table, from which rows are drawn with replacement: of groups without a
reason, and of all. A mean or deviation is *finite* if both ends of its interval are.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from scipy.special import ndtri

import fastpubpriv as fpp
from benchmarks.accuracy import tables
from benchmarks.readme import ACCURACY, markdown, replaced, write_rows
from examples.new_york import package_file

LEAST, PUBLIC = 200, 50
RHOS = (0.1, 0.02)


def _of_raw(table: str, by: str, *columns: str) -> Callable[[], Any]:
    return lambda: tables.raw(table)[[by, *columns]]


def _of_flights(by: str, column: str) -> Callable[[], Any]:
    return lambda: (
        pandas.read_csv(package_file("flights.csv.zip"), usecols=[by, column])[[by, column]]
        .dropna()
        .sample(60_000, random_state=1)
    )


def _scales() -> Any:
    group = np.repeat(np.arange(40), 500)
    return pandas.DataFrame(
        {"group": group, "x": np.random.default_rng(2).lognormal(size=20_000) * np.exp(group / 6.0)}
    )


def _sizes() -> Any:
    rng = np.random.default_rng(3)
    share = 1.0 / np.arange(1, 201)
    group = rng.choice(200, 20_000, p=share / share.sum())
    return pandas.DataFrame({"group": group, "x": rng.normal(rng.normal(size=200)[group], 1.0)})


# Name -> a function that returns the column of the groups and then columns of numbers.
TABLES: dict[str, Callable[[], Any]] = {
    "log wage by state": _of_raw("census2000", "state", "lweekinc"),
    "education by state": _of_raw("census2000", "state", "educ"),
    "wage by state": _of_raw("census2000", "state", "weekinc"),
    "delay by carrier": _of_flights("carrier", "arr_delay"),
    "distance by destination": _of_flights("dest", "distance"),
    "delay by destination": _of_flights("dest", "arr_delay"),
    "scales, 40 groups": _scales,
    "sizes, 200 groups": _sizes,
    "three columns by clarity": _of_raw("diamonds", "clarity", "carat", "depth", "price"),
}


@dataclass(frozen=True)
class Part:
    """One group and column of one draw."""

    error: float
    known: float
    finite: bool
    held: bool
    deviation_finite: bool
    deviation_held: bool
    reasons: tuple[Any, ...]


def parts_of(table: Any, rho: float, draws: int) -> Iterator[Part]:
    """Yield the groups of 200 rows or more of several draws of a table."""
    table = table.dropna()
    by, *columns = table.columns
    table = table.assign(**{by: table[by].astype(str)})
    groups = sorted(table[by].unique())
    of_group = table.groupby(by)[columns]
    truth = of_group.mean().loc[groups]
    spread = of_group.std(ddof=0).loc[groups]
    width = np.ptp(table[columns], axis=0)
    for seed in range(draws):
        rows = table.sample(len(table) + PUBLIC, replace=True, random_state=seed)
        private = rows[PUBLIC:]
        result: Any = fpp.estimate_mean(
            private,
            x_pub=rows[:PUBLIC],
            by=by,
            groups=groups,
            budget=fpp.ZCDP(rho),
            random_state=seed,
            progress=False,
        )
        here = private.groupby(by)[columns].mean().reindex(groups).to_numpy()
        size = private.groupby(by).size().reindex(groups).fillna(0).to_numpy()
        (low, high), (least, most) = result.confidence_interval(), result.deviation_interval()
        for i, j in np.ndindex(here.shape):
            if size[i] < LEAST:
                continue
            held, held_std = (
                bool(ends[0][i, j] <= value.iloc[i, j] <= ends[1][i, j])
                for ends, value in (((low, high), truth), ((least, most), spread))
            )
            yield Part(
                error=abs(float(result.mean[i, j] - here[i, j])),
                known=float(
                    width.iloc[j] / size[i] * np.sqrt(len(columns) / (2.0 * rho)) * ndtri(0.75)
                ),
                finite=bool(np.isfinite([low[i, j], high[i, j]]).all()),
                held=held,
                deviation_finite=bool(np.isfinite([least[i, j], most[i, j]]).all()),
                deviation_held=held_std,
                reasons=result.part_reasons[i * len(columns) + j],
            )


HEADS = [
    "table",
    "rho",
    "groups",
    "error",
    "known range",
    "ratio",
    "finite",
    "held, no reason",
    "held",
    "with a reason",
    "deviation finite",
    "deviation held, no reason",
    "deviation held",
]


def line_of(name: str, rho: float, parts: list[Part], draws: int) -> list[str]:
    """Return the line of the table."""
    plain = [part for part in parts if not part.reasons]
    share = lambda found: f"{np.mean(found):.3f}" if len(found) else "-"  # noqa: E731
    error, known = (
        np.median([getattr(part, which) for part in parts]) for which in ("error", "known")
    )
    # Columns of several units have no common error: the ratio is that of the median of their ratios.
    ratio = (
        np.median([part.error / part.known for part in parts])
        if "columns" in name
        else error / known
    )
    return [
        name,
        f"{rho:g}",
        f"{len(parts) // draws}",
        f"{error:.3g}",
        f"{known:.3g}",
        f"{ratio:.2f}",
        share([part.finite for part in parts]),
        share([part.held for part in plain]),
        share([part.held for part in parts]),
        share([bool(part.reasons) for part in parts]),
        share([part.deviation_finite for part in parts]),
        share([part.deviation_held for part in plain]),
        share([part.deviation_held for part in parts]),
    ]


def main() -> None:
    """Run the requested measurements and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy.groups", description=__doc__
    )
    parser.add_argument(
        "--table", action="append", choices=list(TABLES), help="only these; may be repeated"
    )
    parser.add_argument("--draws", type=int, default=20, help="draws for each table and budget")
    parser.add_argument(
        "--write",
        action="store_true",
        help="write the table into docs/evidence/accuracy.md as well",
    )
    parser.add_argument("--json", type=Path, help="write the table to this file as well")
    options = parser.parse_args()
    lines = [HEADS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in options.table or TABLES:
            for rho in RHOS:
                parts = list(parts_of(TABLES[name](), rho, options.draws))
                lines.append(line_of(name, rho, parts, options.draws))
    print(markdown(lines))
    if options.json is not None:
        write_rows(options.json, lines)
    if options.write:
        page = ACCURACY.read_text(encoding="utf-8")
        ACCURACY.write_text(replaced(page, "groups", markdown(lines)), encoding="utf-8")


if __name__ == "__main__":
    main()
