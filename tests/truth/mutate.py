"""Terms of intervals that are changed by lot: `python -m tests.truth.mutate [--seed n] [--count n]`.

Each time one summand under a root, one argument of `hypot`, `maximum` or `minimum`, or one factor of a term is left out, halved or
taken one and a half times, in a copy of the package; the quick part of the verbs that run it, the terms and the shares must notice.
Survivors are printed, and the exit status is the number of those that `equivalent.py` does not list.
"""

from __future__ import annotations

import argparse
import ast
import functools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.clocks import PATIENCE
from tests.truth import engine, equivalent, known, printed_parts, reaches, shares, terms
from tests.truth.arguments import VERBS, Call

ROOT = Path(__file__).resolve().parents[2]
PLACES = (
    "results",
    "estimators",
    "gaussians",
    "distributions",
    "regression/curvature.py",
    "regression/exact.py",
    "planning/forecasts.py",
)
TERM = re.compile("noise|std|tail|sampling|clipping|reach")
JOINED = ("hypot", "maximum", "minimum", "max", "min")
CHANGES = ("left out", "halved", "one and a half times")
BEFORE = "before.json"  # in the folder of a copy: what the right package shows
SECONDS = 120.0  # CPU seconds of the quick part of all verbs of a mutant


class Spot(NamedTuple):
    """A part of a function in a source file, from one offset to another in bytes, and what stands there if it is left out."""

    path: str
    function: str
    line: int
    start: int
    end: int
    text: str
    without: str


class Mutant(NamedTuple):
    """A spot and its change."""

    spot: Spot
    change: str

    @property
    def replaced(self) -> str:
        """The text that takes the place of the spot."""
        factors = {"halved": "0.5", "one and a half times": "1.5"}
        return (
            self.spot.without
            if self.change == "left out"
            else f"({factors[self.change]} * ({self.spot.text}))"
        )

    def __str__(self) -> str:
        place = f"{self.spot.path}:{self.spot.line} ({self.spot.function})"
        return f"{place}: {self.spot.text!r} {self.change}"


# ---- Candidates ------------------------------------------------------------------------------------------------------
def name_of(node: ast.AST) -> str:
    """The last name of a function that is called."""
    return (
        node.attr
        if isinstance(node, ast.Attribute)
        else node.id
        if isinstance(node, ast.Name)
        else ""
    )


def summands(node: ast.AST) -> Iterator[ast.AST]:
    """The terms of a sum."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from summands(node.left)
        yield from summands(node.right)
    else:
        yield node


def parts(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Parts of the terms of a module, and what stands in place of each if it is left out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and name_of(node.func) in JOINED and len(node.args) == 2:
            first, second = node.args
            for argument, other in ((first, second), (second, first)):
                # A greater or a lesser of two numbers without one of them is the other.
                neutral = "0.0" if name_of(node.func) == "hypot" else ast.unparse(other)
                yield argument, neutral
        elif (
            isinstance(node, ast.Call)
            and name_of(node.func) == "sqrt"
            and len(list(summands(node.args[0]))) > 1
        ):
            yield from ((each, "0.0") for each in summands(node.args[0]))
        elif isinstance(node, ast.Assign) and any(
            TERM.search(ast.unparse(target)) for target in node.targets
        ):
            for inner in ast.walk(node.value):
                if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Mult):
                    yield inner.left, "1.0"
                    yield inner.right, "1.0"


def function_at(tree: ast.AST, line: int) -> str:
    """The name of the innermost function or class around a line; empty outside."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, kinds) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(around, key=lambda node: node.lineno).name if around else ""


def spots_of(file: Path, root: Path) -> Iterator[Spot]:
    """The parts of terms of a file."""
    source = file.read_bytes()
    tree = ast.parse(source)
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node, without in parts(tree):
        at: Any = node
        start = starts[at.lineno - 1] + at.col_offset
        end = starts[at.end_lineno - 1] + at.end_col_offset
        text = source[start:end].decode()
        if TERM.search(text):
            path = file.relative_to(root).as_posix()
            yield Spot(path, function_at(tree, at.lineno), at.lineno, start, end, text, without)


@functools.cache
def spots(root: Path = ROOT) -> list[Spot]:
    """Every part of a term that may be changed, in the order of files and lines."""
    found = set[Spot]()
    for place in PLACES:
        path = root / "fastpubpriv" / place
        for file in [path] if path.suffix else path.rglob("*.py"):
            found.update(spots_of(file, root))
    return sorted(found, key=lambda spot: (spot.path, spot.line, spot.start, spot.end))


def drawn(seed: int, count: int) -> list[Mutant]:
    """Mutants by lot, the same for a seed and a tree."""
    lot = random.Random(seed)
    return [Mutant(spot, lot.choice(CHANGES)) for spot in lot.sample(spots(), count)]


# ---- Verbs -----------------------------------------------------------------------------------------------------------
def verbs_that_run(places: set[tuple[str, int]]) -> dict[tuple[str, int], list[str]]:
    """The verbs whose calls, alone or with one case, run the function of each place (path, line)."""
    ran: dict[str, set[tuple[str, int, int]]] = {}
    for verb in VERBS:
        seen: set[Any] = set()

        def note(frame: Any, event: str, argument: Any, seen: set[Any] = seen) -> None:
            seen.add(frame.f_code)

        cases_alone = (
            [(case,) for case in VERBS[verb].all_cases()] if VERBS[verb].speed > engine.THIN else []
        )
        for cases in [(), *cases_alone]:
            sys.settrace(note)  # calls of functions alone, as no function is traced any further
            try:
                got = engine.answer(
                    Call(verb, cases, "light", 2_000, engine.BUDGETS[VERBS[verb].budgets[0]][0])
                )
                if got.result is not None:
                    repr(got.result.summary())
            finally:
                sys.settrace(None)
        ran[verb] = {
            (
                Path(code.co_filename).name,
                code.co_firstlineno,
                max(line or 0 for *_, line in code.co_lines()),
            )
            for code in seen
            if "fastpubpriv" in code.co_filename
        }
    return {
        (path, line): [
            verb
            for verb in VERBS
            if any(
                name == Path(path).name and first <= line <= last for name, first, last in ran[verb]
            )
        ]
        for path, line in places
    }


# ---- A copy of the package -------------------------------------------------------------------------------------------
def copy_of(mutant: Mutant, folder: Path) -> None:
    """Write the package with one change, and the tests, into a folder."""
    shutil.copytree(
        ROOT / "fastpubpriv", folder / "fastpubpriv", ignore=shutil.ignore_patterns("__pycache__")
    )
    (folder / "tests").symlink_to(ROOT / "tests")
    spot = mutant.spot
    file = folder / mutant.spot.path
    source = file.read_bytes()
    assert source[spot.start : spot.end].decode() == spot.text
    file.write_bytes(source[: spot.start] + mutant.replaced.encode() + source[spot.end :])


def noticed(verbs: list[str]) -> Iterator[str]:
    """What the oracles say about the package that is imported, the cheapest first."""
    yield from printed_parts.other_reaches(terms.answers())
    yield from terms.still_terms()
    yield from terms.outside(terms.planned())
    for name in reaches.SETTINGS:
        yield from reaches.moved(name)
    for measured in (terms.noise_alone, terms.sampling_alone, terms.measured_over_planned):
        yield from terms.outside(measured())
    for name in shares.WATCHED:
        yield from shares.watched_moved(name)
    for verb in verbs:
        yield from engine.quick([verb], seconds=SECONDS / len(verbs)).lines(known.KNOWN)


def kind_of(line: str) -> str:
    """A finding without its numbers and draws."""
    return line.split(": [")[0]


def first_new(lines: Iterable[str], before: set[str]) -> str:
    """The first line whose kind the right package does not show."""
    return next((line for line in lines if kind_of(line) not in before), "")


@functools.cache
def shown_before(verb: str) -> frozenset[str]:
    """What the quick part finds in the package as it is."""
    return frozenset(kind_of(line) for line in engine.quick([verb]).lines(known.KNOWN))


def verdict(mutant: Mutant, verbs: list[str]) -> str:
    """The first line of an oracle about a mutant; empty if it survives."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_of(mutant, folder)
        before = sorted(set().union(*map(shown_before, verbs)))
        (folder / BEFORE).write_text(json.dumps(before), encoding="utf-8")
        command = [sys.executable, "-m", "tests.truth.mutate", "--judge", ",".join(verbs)]
        surroundings = {**os.environ, "PYTHONPATH": str(folder), "OPENBLAS_NUM_THREADS": "1"}
        ended = subprocess.run(
            command,
            cwd=folder,
            env=surroundings,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
    if ended.returncode:
        return f"crash: {ended.stderr.strip().splitlines()[-1]}"
    return ended.stdout.strip()


class Judged(NamedTuple):
    """A mutant, the verbs that run it, and what is said about it; nothing if it survives."""

    mutant: Mutant
    verbs: list[str]
    said: str

    @property
    def reason(self) -> str:
        """Why a survivor is none; empty if it is not listed."""
        return equivalent.reason_of(
            self.mutant.spot.path, self.mutant.spot.function, self.mutant.spot.text
        )

    @property
    def survives(self) -> bool:
        """Whether no oracle noticed it, and no reason is known."""
        return not self.said and not self.reason

    def __str__(self) -> str:
        verbs = ", ".join(self.verbs) or "no verb"
        said = self.said or (f"EQUIVALENT: {self.reason}" if self.reason else "SURVIVES")
        return f"{self.mutant} ({verbs}): {said}"


def judged(seed: int, count: int) -> Iterator[Judged]:
    """Mutants by lot, one after the other."""
    if shown := list(noticed([])):
        raise AssertionError(f"the package without a change is noticed: {shown[0]}")
    mutants = drawn(seed, count)
    run_by = verbs_that_run({(mutant.spot.path, mutant.spot.line) for mutant in mutants})
    for mutant in mutants:
        verbs = run_by[mutant.spot.path, mutant.spot.line]
        yield Judged(mutant, verbs, verdict(mutant, verbs))


def main(given: list[str] | None = None) -> int:
    """Judge mutants by lot; return the number of survivors."""
    parser = argparse.ArgumentParser(prog="python -m tests.truth.mutate", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the lot")
    parser.add_argument("--count", type=int, default=40, help="of mutants")
    parser.add_argument("--judge", help=argparse.SUPPRESS)
    asked = parser.parse_args(given)
    if asked.judge is not None:
        before = set(json.loads(Path(BEFORE).read_text(encoding="utf-8")))
        verbs = [verb for verb in asked.judge.split(",") if verb]
        sys.stdout.write(first_new(noticed(verbs), before))
        return 0
    sys.stdout.write(f"seed {asked.seed}: {asked.count} of {len(spots())} terms\n")
    survivors = 0
    for each in judged(asked.seed, asked.count):
        survivors += each.survives
        sys.stdout.write(f"{each}\n")
        sys.stdout.flush()
    return survivors


if __name__ == "__main__":
    sys.exit(main())
