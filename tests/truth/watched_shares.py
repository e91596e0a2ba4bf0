"""The share of facts that are ok, for some verbs, populations and budgets: thresholds change no interval but who gets a reason.

`python -m tests.truth.watched_shares` writes `watched_shares.json`; a share that is no longer as it was there says which reason
moved, and how many ok facts miss, so that a reader can tell a repair from a regression. The shares of all verbs are in `shares.py`.
"""

from __future__ import annotations

import collections
import json
import math
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import fastpubpriv as fpp
from tests.truth import engine, oracles
from tests.truth.arguments import VERBS, Call

PLACE = Path(__file__).with_name("watched_shares.json")
DRAWS = 24
# seeds are fixed: a share moves by what the package changes, and by rounding on other machines
ROOM = 0.04


class Setting(NamedTuple):
    """A verb with cases by their texts, on rows of a population."""

    verb: str
    cases: tuple[str, ...]
    population: str
    rows: int
    budget: Any

    def call(self, draw: int) -> Call:
        """The call of a draw."""
        cases = {case.text: case for case in VERBS[self.verb].all_cases()}
        return Call(
            self.verb,
            tuple(cases[text] for text in self.cases),
            self.population,
            self.rows,
            self.budget,
            draw,
        )

    def facts(self) -> Iterator[Judged]:
        """The facts of all draws."""
        for draw in range(DRAWS):
            got = engine.answer(self.call(draw))
            for fact, true in zip(got.facts, got.truths, strict=True):
                yield Judged(fact.ok, oracles.missed(fact, true))


class Judged(NamedTuple):
    """Whether a fact is ok, and whether it is so and misses the truth."""

    ok: bool
    missed: bool


# share of ones, and public rows with one
RARE, RARE_COLUMNS, RARE_PUBLIC = 0.002, ("r0", "r1", "r2"), 3
RARE_EFFECT = 3.0


def rare_rows(draw: int, rows: int = 2_000) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Private rows with columns that are hardly ever one, and 60 public rows of which three are one in each."""
    rng = np.random.default_rng([draw, rows])
    ones = rng.random((rows + 60, len(RARE_COLUMNS))) < RARE
    for place in range(len(RARE_COLUMNS)):
        ones[rows + RARE_PUBLIC * place : rows + RARE_PUBLIC * (place + 1), place] = True
    frame = pd.DataFrame(ones.astype(float), columns=list(RARE_COLUMNS))
    frame.insert(0, "x", rng.normal(size=rows + 60))
    frame["y"] = (
        10.0 + 2.0 * frame["x"] + RARE_EFFECT * ones.sum(axis=1) + rng.normal(size=rows + 60)
    )
    return frame.head(rows), frame.tail(60).reset_index(drop=True)


def rare_facts() -> Iterator[Judged]:
    """Intercept and slope of x beside columns that are hardly ever one; the truth is known, as rows are made from it."""
    truth = {"intercept": 10.0, "x": 2.0}
    for draw in range(DRAWS):
        private, public = rare_rows(draw)
        with warnings.catch_warnings(action="ignore"):
            result = fpp.linear_regression(
                private, x_pub=public, label="y", budget=fpp.ZCDP(0.1), random_state=draw, threads=1
            )
        for fact in oracles.facts(result):
            if fact.where[0] in truth:
                yield Judged(fact.ok, oracles.missed(fact, truth[fact.where[0]]))


def of_setting(
    verb: str, cases: tuple[str, ...], population: str, rows: int, budget: Any
) -> Callable[[], Any]:
    """The facts of a setting."""
    return Setting(verb, cases, population, rows, budget).facts


RARELY = "linear_regression beside columns that are hardly ever one, 2000 rows, ZCDP(rho=0.1)"
LOW, PURE, APPROX = fpp.ZCDP(0.1), fpp.PureDP(1), fpp.ApproxDP(1, 1e-6)
FACTS: dict[str, Callable[[], Iterator[Judged]]] = {
    f"{verb}({', '.join(cases)}) on {population}, {rows} rows, {budget!r}": of_setting(
        verb, cases, population, rows, budget
    )
    for verb, cases, population, rows, budget in (
        ("estimate_mean", (), "light", 20_000, LOW),
        ("estimate_mean", (), "skewed", 2_000, LOW),
        ("estimate_mean", (), "skewed", 20_000, LOW),
        ("estimate_mean", ("by='g'",), "light", 2_000, PURE),
        ("estimate_mean", ("by='g'",), "light", 20_000, LOW),
        ("estimate_mean", ("by='g'",), "skewed", 2_000, LOW),
        ("coinpress_mean", (), "light", 20_000, LOW),
        ("value_counts", (), "light", 400, APPROX),
        ("quantiles", ("columns=columns[:1]", "q=0.5"), "light", 2_000, PURE),
        ("estimate_gaussian", (), "light", 2_000, LOW),
        ("linear_regression", (), "light", 2_000, PURE),
        ("linear_regression", (), "skewed", 2_000, LOW),
    )
} | {RARELY: rare_facts}


def measured(name: str) -> dict[str, float]:
    """The share of facts that are ok, and the share of these that miss the truth."""
    counted: collections.Counter[str] = collections.Counter()
    for fact in FACTS[name]():
        counted["all"] += 1
        counted["ok"] += fact.ok
        counted["missed"] += fact.missed
    return {
        "ok": round(counted["ok"] / counted["all"], 4),
        "missed": round(counted["missed"] / max(counted["ok"], 1), 4),
    }


def kept() -> dict[str, dict[str, float]]:
    """The shares of `watched_shares.json`."""
    found: dict[str, dict[str, float]] = json.loads(PLACE.read_text(encoding="utf-8"))
    return found


def moved(name: str) -> list[str]:
    """One line if the share of a setting is not as it was."""
    was, now = kept()[name], measured(name)
    if math.isclose(was["ok"], now["ok"], rel_tol=0.0, abs_tol=ROOM):
        return []
    text = f"{name}: {now['ok']:.3f} of the facts are ok, was {was['ok']:.3f}"
    return [f"{text}; {now['missed']:.3f} of these miss the truth, was {was['missed']:.3f}"]


def main() -> None:
    """Write `watched_shares.json`."""
    shares = {name: measured(name) for name in FACTS}
    PLACE.write_text(json.dumps(shares, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
