"""`python -m benchmarks`: hot loops and whole calls beside peers, the machine's limit and their goals, in one run, one thread."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks import goals
from benchmarks.cases import bins, calls, hypotheses, limits, loops, reports, training
from fastpubpriv.kernels._cext import lib
from fastpubpriv.kernels.instructions import instruction_set

ISAS = ("baseline", "avx2", "avx512")
HEADER = ("hot loop", "ours", "x limit", "limit", "peer", "times faster", "goal")


def hot_loops(opendp: bool) -> Iterable[loops.Case]:
    """The cases at full size; each is made when its turn comes, as the large ones take 800 MB."""
    yield from loops.noise_cases(1_000_000, opendp)
    for n, dim in ((1_000_000, 50), (100_000, 500)):
        yield loops.mean_case(n, dim)
        yield loops.mean_case(n, dim, center=0.01)
    yield loops.mean_case(5_000_000, 4)
    yield loops.mean_case(1_000_000, 50, np.float32)
    yield loops.gram_case(1_000_000, 100)
    yield loops.gram_case(100_000, 1000)
    yield loops.gaussian_case(1_000_000, 100)
    yield loops.gaussian_case(100_000, 1000)
    # Longer ones of each kind are in the pytest-benchmark suites: their peers take minutes.
    for m, dim in ((2_000, 100), (20_000, 100), (100_000, 50)):
        yield loops.isolation_case(m, dim, packaged=m < 100_000)
    for dim in (4, 16):
        yield loops.terrific_case(20_000, dim)
        yield loops.many_balls_case(1_000_000, dim)
    yield loops.one_ball_case(10_000_000, 4)
    yield loops.one_ball_case(1_000_000, 16)
    yield loops.gap_case(2_000, 8)
    for n, dim in reports.SIZES:
        yield reports.report_case(n, dim)
    yield reports.one_case(100)
    yield hypotheses.pairs_case(2000, 2000)
    yield hypotheses.cells_case(2000)
    for shape in bins.SHAPES:
        yield bins.bins_case(shape, 10_000_000)


def whole_calls() -> Iterable[loops.Case]:
    """The cases that are public functions, with many rows and with few."""
    yield from calls.mean_calls(1_000_000, 50)
    yield calls.covariance_call(300_000, 20)
    yield calls.covariance_call(200_000, 50)
    yield calls.histogram_call(10_000_000)
    yield from calls.small_calls()


def lines(case: loops.Case, rounds: int) -> list[tuple[str, ...]]:
    """Rows of the table for one case, a peer each; the first says the goal of the limit or of the seconds too."""
    ours = limits.best_seconds(case.ours, rounds)
    limit = case.limit() if case.limit is not None else None
    own = goals.said(goals.LIMITS.get(case.name), ours / limit if limit else None, at_most=True, unit=" x limit")
    own += goals.said(goals.SECONDS.get(case.name), ours, at_most=True, unit=" s")
    table = []
    if not case.peers:
        table.append((case.name, f"{ours * 1e3:.2f} ms", "-", case.limit_name, "", "", own))
    for index, (peer, call) in enumerate(case.peers.items()):
        theirs = limits.best_seconds(call, max(2, rounds // 2)) * case.peer_scale.get(peer, 1.0)
        first = (case.name, f"{ours * 1e3:.2f} ms", f"{ours / limit:.2f}" if limit else "-", case.limit_name)
        goal = goals.said(goals.PEERS.get(case.name, {}).get(peer), theirs / ours, at_most=False)
        said = "; ".join(filter(None, (own if index == 0 else "", goal)))
        table.append(((*first,) if index == 0 else ("", "", "", "")) + (peer, f"{theirs / ours:.1f}", said))
    return table


def first_calls(rounds: int) -> list[tuple[str, ...]]:
    """Rows of the table for first calls in a fresh process."""
    table = []
    for name in calls.FIRST_CALLS:
        seconds = min(calls.first_call_seconds(name) for _ in range(max(2, rounds // 3)))
        said = goals.said(goals.FIRST_CALL_SECONDS, seconds, at_most=True, unit=" s")
        table.append((f"first call of {name}", f"{seconds * 1e3:.0f} ms", "-", "", "", "", said))
    return table


def main() -> None:
    """Print the table; with --write, put it between the marks of a Markdown file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-opendp", action="store_true", help="leave out OpenDP")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--isa", choices=ISAS, help="hold our code to these instructions; the peers keep theirs")
    parser.add_argument(
        "--only",
        choices=("loops", "training", "calls", "first"),
        help="hot loops, those of training, whole calls, or first calls alone",
    )
    parser.add_argument("--write", type=Path, help="Markdown file with <!-- bench --> and <!-- /bench --> marks")
    options = parser.parse_args()
    if options.isa is not None:
        lib.fpp_isa_limit(ISAS.index(options.isa))
    with threadpool_limits(1):
        found = []
        if options.only in (None, "loops"):
            found += [line for case in hot_loops(not options.no_opendp) for line in lines(case, options.rounds)]
        if options.only in (None, "loops", "training"):
            found += [line for case in training.cases() for line in lines(case, options.rounds)]
        if options.only in (None, "calls"):
            found += [line for case in whole_calls() for line in lines(case, options.rounds)]
        if options.only in (None, "first"):
            found += first_calls(options.rounds)
    level = options.isa or instruction_set()
    table = Table(*HEADER, title=f"One thread, {level}, {platform.system()} {platform.machine()}; times are minima")
    for line in found:
        table.add_row(*line)
    Console(width=150).print(table)
    if options.write is not None:
        text = options.write.read_text(encoding="utf-8")
        body = "\n".join("| " + " | ".join(line) + " |" for line in [HEADER, ("---",) * len(HEADER), *found])
        before, rest = text.split("<!-- bench -->", 1)
        after = rest.split("<!-- /bench -->", 1)[1]
        note = f"One thread, {level}; minima of one run of `python -m benchmarks`."
        options.write.write_text(f"{before}<!-- bench -->\n{note}\n\n{body}\n<!-- /bench -->{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
