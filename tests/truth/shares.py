"""The share of facts that are ok: `python -m tests.truth.shares [--write] [--verbs a,b | --watched]`.

Thresholds ("heavy", "unseen", "few") change no interval but who gets a reason. `shares.json` has, over 24 draws, the share of ok
facts, how often each reason is given, and how many ok facts miss the truth: of each verb, population and budget (for the audit),
and of some watched settings (for each test run). Without --write it prints what moved; with any, the exit status is 1.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

import fastpubpriv as fpp
from tests.truth import engine, oracles
from tests.truth.arguments import VERBS, Call
from tests.truth.terms import call_of

PATH = Path(__file__).with_name("shares.json")
DRAWS = 24
ROOM = 0.1
# Of a watched setting, whose seeds are fixed: it moves by what the package changes, and by rounding on other machines.
ROOM_OF_WATCHED = 0.04
# Without facts, or with one of a few that is the truth's own distance.
LEFT_OUT = ("local.train", "select_hypothesis")
Share = dict[str, Any]
Answers = Callable[[], Iterator[engine.Answer]]


# ---- What is measured ------------------------------------------------------------------------------------------------
def answers_of(call: Call) -> Answers:
    """The answers of a call over the draws."""
    return lambda: (engine.answer(dataclasses.replace(call, draw=draw)) for draw in range(DRAWS))


def of_verb(verb: str) -> Iterator[tuple[str, Answers]]:
    """The least legal call of a verb on each population with each budget, and its name in the file."""
    sweep = engine.Sweep()
    for population in VERBS[verb].populations:
        for budget, rows in sweep.budgets_and_sizes(verb):
            few = min(rows, engine.MOST_ROWS_OF_SLOW) if VERBS[verb].speed < engine.THIN else rows
            name = f"{verb}, {population}, {budget!r}, {few} rows"
            yield name, answers_of(Call(verb, (), population, few, budget))


RARE, RARE_COLUMNS = 0.002, ("r0", "r1", "r2")  # share of ones
RARE_PUBLIC = 3  # public rows with a one in each column
RARE_EFFECT = 3.0
RARE_TRUTH = {"intercept": 10.0, "x": 2.0}


def rare_rows(draw: int, rows: int = 2_000) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Private rows with columns that are hardly ever one, and 60 public rows of which three are one in each."""
    rng = np.random.default_rng([draw, rows])
    ones = rng.random((rows + 60, len(RARE_COLUMNS))) < RARE
    for place in range(len(RARE_COLUMNS)):
        ones[rows + RARE_PUBLIC * place : rows + RARE_PUBLIC * (place + 1), place] = True
    frame = pd.DataFrame(ones.astype(float), columns=list(RARE_COLUMNS))
    frame.insert(0, "x", rng.normal(size=rows + 60))
    mean = RARE_TRUTH["intercept"] + RARE_TRUTH["x"] * frame["x"] + RARE_EFFECT * ones.sum(axis=1)
    frame["y"] = mean + rng.normal(size=rows + 60)
    return frame.head(rows), frame.tail(60).reset_index(drop=True)


def rare_answers() -> Iterator[engine.Answer]:
    """Intercept and slope of x beside columns that are hardly ever one; the truth is known, as rows are made from it."""
    for draw in range(DRAWS):
        private, public = rare_rows(draw)
        with warnings.catch_warnings(action="ignore"):
            result = fpp.linear_regression(
                private, x_pub=public, label="y", budget=fpp.ZCDP(0.1), random_state=draw, threads=1
            )
        facts = [fact for fact in oracles.facts(result) if fact.where[0] in RARE_TRUTH]
        yield engine.Answer(result, facts, [RARE_TRUTH[fact.where[0]] for fact in facts], [])


LOW = fpp.ZCDP(0.1)
PURE = fpp.PureDP(1)
APPROX = fpp.ApproxDP(1, 1e-6)
RARELY = "watched: linear_regression beside columns that are hardly ever one"
WATCHED: Mapping[str, Answers] = {
    f"watched: {verb}({', '.join(cases)}), {population}, {budget!r}, {rows} rows": answers_of(
        call_of(verb, *cases, population=population, rows=rows, budget=budget)
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
} | {RARELY: rare_answers}


# ---- Shares ----------------------------------------------------------------------------------------------------------
def share_of(answers: Iterable[engine.Answer]) -> Share | None:
    """The share of ok facts, of draws with each reason, and of ok facts that miss; None without facts."""
    facts = ok = misses = 0
    reasons: collections.Counter[str] = collections.Counter()
    for got in answers:
        if got.result is None:
            continue
        facts += len(got.facts)
        ok += sum(fact.ok for fact in got.facts)
        misses += sum(
            oracles.missed(fact, true) for fact, true in zip(got.facts, got.truths, strict=True)
        )
        reasons.update({reason.value for reason in got.result.reasons})
    if not facts:
        return None
    given = {name: round(count / DRAWS, 3) for name, count in sorted(reasons.items())}
    return {"ok": round(ok / facts, 3), "misses": round(misses / max(ok, 1), 3), "reasons": given}


def measured(table: Iterable[tuple[str, Answers]]) -> dict[str, Share]:
    """The shares of a table, without those that have no facts."""
    shares = {name: share_of(answers()) for name, answers in table}
    return {name: share for name, share in shares.items() if share is not None}


def of_verbs(verbs: Iterable[str]) -> Iterator[tuple[str, Answers]]:
    """The table of some verbs."""
    for verb in verbs:
        yield from of_verb(verb)


def stored() -> dict[str, Share]:
    """The shares of the file."""
    read: dict[str, Share] = json.loads(PATH.read_text(encoding="utf-8"))
    return read


def stored_of(names: Iterable[str]) -> dict[str, Share]:
    """The shares of the file that are about verbs, or of watched settings, of these names."""
    wanted = set(names)
    return {name: share for name, share in stored().items() if {name, name.split(", ")[0]} & wanted}


def moved_reason(before: Share, now: Share) -> str:
    """The reason whose frequency moved most, in words."""
    names = sorted({*before["reasons"], *now["reasons"]})
    pairs = {
        name: (before["reasons"].get(name, 0.0), now["reasons"].get(name, 0.0)) for name in names
    }
    if not pairs:
        return "no reason"
    name = max(pairs, key=lambda each: abs(pairs[each][1] - pairs[each][0]))
    return f"{name} in {pairs[name][0]:.0%} of the draws, now in {pairs[name][1]:.0%}"


def moved(before: dict[str, Share], now: dict[str, Share], room: float = ROOM) -> list[str]:
    """A line for each share that moved by more than the room, and for each that only one of both has."""
    lines = [f"{name}: only in one of both" for name in sorted(set(before) ^ set(now))]
    for name in sorted(set(before) & set(now)):
        old = before[name]
        new = now[name]
        if abs(new["ok"] - old["ok"]) > room:
            lines.append(
                f"{name}: {old['ok']:.0%} of the facts were ok, now {new['ok']:.0%}; {moved_reason(old, new)}; "
                f"{old['misses']:.1%} of the ok facts missed, now {new['misses']:.1%}"
            )
    return lines


def watched_moved(name: str) -> list[str]:
    """A line if the share of a watched setting moved."""
    return moved(stored_of([name]), measured([(name, WATCHED[name])]), ROOM_OF_WATCHED)


# ---- By hand ---------------------------------------------------------------------------------------------------------
def write(names: Iterable[str], shares: dict[str, Share]) -> None:
    """Store shares in place of those of these names; others stay."""
    replaced = stored_of(names)
    kept = {name: share for name, share in stored().items() if name not in replaced}
    lines = [
        f"{json.dumps(name)}: {json.dumps(share)}"
        for name, share in sorted({**kept, **shares}.items())
    ]
    PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def main(given: list[str] | None = None) -> int:
    """Measure; write the file, or print what moved."""
    parser = argparse.ArgumentParser(prog="python -m tests.truth.shares", description=__doc__)
    every = [verb for verb in VERBS if verb not in LEFT_OUT]
    parser.add_argument(
        "--verbs", type=lambda text: text.split(","), default=every, help="names in arguments.py"
    )
    parser.add_argument("--watched", action="store_true", help="the watched settings alone")
    parser.add_argument(
        "--write", action="store_true", help="store these shares, others stay as they are"
    )
    asked = parser.parse_args(given)
    names = list(WATCHED) if asked.watched else asked.verbs
    with threadpool_limits(1):  # matrices are small
        now = measured(WATCHED.items() if asked.watched else of_verbs(asked.verbs))
    if asked.write:
        write(names, now)
        return 0
    room = ROOM_OF_WATCHED if asked.watched else ROOM
    lines = moved(stored_of(names), now, room)
    sys.stdout.writelines(line + "\n" for line in lines)
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
