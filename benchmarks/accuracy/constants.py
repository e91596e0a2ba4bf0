"""`python -m benchmarks.accuracy.constants`: what each number of `fastpubpriv/distributions/tuning.py` is worth.

The mean of columns is measured with each number times 1.5 and divided by 1.5, a tuple by all its members, on 40 columns that are
not held out (`held_out_columns`), with 5 public rows. Integers are rounded and change by one at least; fractions stay below 1.
*Error* and *width* are geometric means over those of the unchanged numbers, answer by answer. Numbers that only matter to calls
with several columns, with bounds or with many public rows change nothing without `--joint 8`, `--bounds` or `--public 60`.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

import fastpubpriv
from benchmarks.accuracy import held_out_columns, means
from benchmarks.accuracy.held_out import (
    Lines,
    coverage,
    error_ratio,
    geometric,
    measure,
    measure_jointly,
    share,
    width_over,
)
from benchmarks.accuracy.report import table
from benchmarks.accuracy.tables import Column

TUNING = "fastpubpriv.distributions.tuning"
# What reads these numbers and is imported anew; the other modules that read them take no part in a mean.
READERS = ("fastpubpriv.distributions", "fastpubpriv.estimators")
SIZES = (500, 1_500, 5_000)
BUDGETS = (("rho", 0.1), ("epsilon", 1.0))
FACTOR = Fraction(3, 2)
ANSWER = ("mean", "width", "reasons")


def numbers() -> dict[str, Any]:
    """Return the tuned numbers, and tuples of numbers, by name."""
    found = {}
    for name, value in vars(importlib.import_module(TUNING)).items():
        members = value if isinstance(value, tuple) else (value,)
        is_number = all(type(member) in (int, float, Fraction) for member in members)
        if name.isupper() and members and is_number:
            found[name] = value
    return found


def scaled(value: Any, factor: Fraction) -> Any:
    """Return a number times a factor, or a tuple with all of its members times the factor."""
    if isinstance(value, tuple):
        return tuple(scaled(member, factor) for member in value)
    if isinstance(value, Fraction):
        return min(value * factor, (1 + value) / 2)
    if isinstance(value, float):
        return value * float(factor)
    nearest = round(value * factor)
    one_step = value + (1 if factor > 1 else -1)
    return one_step if nearest == value else nearest


@contextlib.contextmanager
def changed(**new: Any) -> Iterator[None]:
    """Import the mean of columns anew with other numbers, so that what was computed from them or cached is new as well."""
    modules = {
        name: sys.modules.pop(name) for name in list(sys.modules) if name.startswith(READERS)
    }
    package = dict(vars(fastpubpriv))
    # The package imports a function when it is first asked for, and keeps it.
    for name in fastpubpriv.__all__:
        vars(fastpubpriv).pop(name, None)
    try:
        tuning = importlib.import_module(TUNING)
        for name, value in new.items():
            setattr(tuning, name, value)
        yield
    finally:
        for name in list(sys.modules):
            if name.startswith(READERS):
                del sys.modules[name]
        sys.modules.update(modules)
        vars(fastpubpriv).clear()
        vars(fastpubpriv).update(package)


@dataclass(frozen=True)
class Measurement:
    """What is measured with each number: columns, draws, public rows, columns of a call, and whether it is told their range."""

    columns: Sequence[Column]
    draws: int
    n_pub: int = 5
    joint: int = 1
    bounds: bool = False

    def run(self, **new: Any) -> Lines:
        """Measure with other numbers."""
        cells = means.cells(SIZES, (self.n_pub,), BUDGETS)
        factor = 1.0 if self.bounds else None
        lines: Lines = []
        with changed(**new):
            if self.joint > 1:
                for start in range(0, len(self.columns), self.joint):
                    call = self.columns[start : start + self.joint]
                    lines += measure_jointly(call, cells, self.draws)
            else:
                for column in self.columns:
                    lines += measure(column, cells, self.draws, factor)
        return lines


def told(lines: Lines, base: Lines) -> str:
    """Return what a change does: error and width over the unchanged ones, coverage, and share of ok answers."""
    same = [
        all(line[key] == before[key] for key in ANSWER)
        for line, before in zip(lines, base, strict=True)
    ]
    if all(same):
        return "changes nothing"
    ratios = width_over(lines, base)
    known = np.isfinite(ratios) & (ratios > 0.0)
    names = [line["column"] for line in lines]
    kept = [name for name, is_known in zip(names, known, strict=True) if is_known]
    width, _ = geometric(np.log(ratios[known]).tolist(), kept)
    mean, error = error_ratio(lines, base)
    ok = share(lines, lambda line: line["ok"])
    return (
        f"{mean:.3f} +- {error:.3f}, {width:.3f}, {coverage(lines):.3f}, {ok:.3f}"
        f" ({len(same) - sum(same)} of {len(same)})"
    )


def shown(value: Any) -> str:
    """Return a number as text."""
    if isinstance(value, tuple):
        return ", ".join(shown(member) for member in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def rows(measurement: Measurement, names: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield the line of each number, after that of the unchanged ones."""
    base = measurement.run()
    every = numbers()
    heads = ("times 1.5", "divided by 1.5")
    unchanged = share(base, lambda line: line["ok"])
    yield {
        "number": "none",
        "value": "error, width, coverage, ok (answers that differ)",
        heads[0]: f"1, 1, {coverage(base):.3f}, {unchanged:.3f}",
        heads[1]: "",
    }
    for name in names or every:
        row = {"number": f"`{name}`", "value": shown(every[name])}
        for head, factor in zip(heads, (FACTOR, 1 / FACTOR), strict=True):
            try:
                row[head] = told(measurement.run(**{name: scaled(every[name], factor)}), base)
            except Exception as error:  # the code need not work with any other number
                row[head] = f"fails: {type(error).__name__}"
        yield row


def main(given: Sequence[str] | None = None) -> None:
    """Run the measurements and print the table, a line as soon as it is known."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy.constants", description=__doc__
    )
    parser.add_argument("--draws", type=int, default=4, help="draws for each column and setting")
    parser.add_argument("--public", type=int, default=5, help="public rows")
    parser.add_argument("--joint", type=int, default=1, help="columns of a call")
    parser.add_argument("--bounds", action="store_true", help="tell each call the range")
    parser.add_argument(
        "--only", action="append", default=[], help="only this number; may be repeated"
    )
    options = parser.parse_args(given)
    measurement = Measurement(
        held_out_columns.columns("further"),
        options.draws,
        options.public,
        options.joint,
        options.bounds,
    )
    for place, row in enumerate(rows(measurement, options.only)):
        text = table([row]).splitlines()
        print("\n".join(text if place == 0 else text[2:]), flush=True)


if __name__ == "__main__":
    main()
