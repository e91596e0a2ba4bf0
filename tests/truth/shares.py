"""The share of ok facts of each verb, population and budget: `python -m tests.truth.shares [--write]`.

Thresholds ("heavy", "unseen", "few") change no interval but who gets a reason: `shares.json` has the shares of 24 draws, how often
each reason is given, and how many ok facts miss the truth. Without --write it prints what moved; with any, the exit status is 1.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from tests.truth import engine, oracles
from tests.truth.arguments import VERBS, Call

PATH = Path(__file__).with_name("shares.json")
DRAWS = 24
ROOM = 0.1
# Without facts, or with one of a few that is the truth's own distance.
LEFT_OUT = ("local.train", "select_hypothesis")
Share = dict[str, Any]


def base_calls(verb: str) -> Iterator[tuple[str, Call]]:
    """The least legal call of a verb on each population with each budget, and its name in the file."""
    sweep = engine.Sweep()
    for population in VERBS[verb].populations:
        for budget, rows in sweep.budgets_and_sizes(verb):
            few = min(rows, engine.MOST_ROWS_OF_SLOW) if VERBS[verb].speed < engine.THIN else rows
            yield (
                f"{verb}, {population}, {budget!r}, {few} rows",
                Call(verb, (), population, few, budget),
            )


def share_of(call: Call) -> Share | None:
    """The share of ok facts over the draws, of draws with each reason, and of ok facts that miss; None without facts."""
    facts = ok = misses = 0
    reasons: collections.Counter[str] = collections.Counter()
    for draw in range(DRAWS):
        got = engine.answer(dataclasses.replace(call, draw=draw))
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


def measured(verbs: Iterable[str]) -> dict[str, Share]:
    """The shares of some verbs."""
    found = {}
    for verb in verbs:
        for name, call in base_calls(verb):
            share = share_of(call)
            if share is not None:
                found[name] = share
    return found


def stored() -> dict[str, Share]:
    """The shares of the file."""
    read: dict[str, Share] = json.loads(PATH.read_text(encoding="utf-8"))
    return read


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


def moved(before: dict[str, Share], now: dict[str, Share]) -> list[str]:
    """A line for each share that moved by more than the room, and for each that only one of both has."""
    lines = [f"{name}: only in one of both" for name in sorted(set(before) ^ set(now))]
    for name in sorted(set(before) & set(now)):
        old, new = before[name], now[name]
        if abs(new["ok"] - old["ok"]) > ROOM:
            lines.append(
                f"{name}: {old['ok']:.0%} of the facts were ok, now {new['ok']:.0%}; {moved_reason(old, new)}; "
                f"{old['misses']:.1%} of the ok facts missed, now {new['misses']:.1%}"
            )
    return lines


def of_verbs(shares: dict[str, Share], verbs: Iterable[str]) -> dict[str, Share]:
    """The part of the shares that is about some verbs."""
    named = set(verbs)
    return {name: share for name, share in shares.items() if name.split(", ")[0] in named}


def main(given: list[str] | None = None) -> int:
    """Measure; write the file, or print what moved."""
    parser = argparse.ArgumentParser(prog="python -m tests.truth.shares", description=__doc__)
    every = [verb for verb in VERBS if verb not in LEFT_OUT]
    parser.add_argument(
        "--verbs", type=lambda text: text.split(","), default=every, help="names in arguments.py"
    )
    parser.add_argument(
        "--write", action="store_true", help="store the shares of these verbs, others stay"
    )
    asked = parser.parse_args(given)
    before = stored() if PATH.exists() else {}
    with threadpool_limits(1):  # matrices are small
        now = measured(asked.verbs)
    if asked.write:
        kept = {
            name: share
            for name, share in before.items()
            if name not in of_verbs(before, asked.verbs)
        }
        lines = [
            f"{json.dumps(name)}: {json.dumps(share)}"
            for name, share in sorted({**kept, **now}.items())
        ]
        PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        return 0
    lines = moved(of_verbs(before, asked.verbs), now)
    for line in lines:
        sys.stdout.write(line + "\n")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
