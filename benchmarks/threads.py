"""`python -m benchmarks.threads`: complete calls with one thread and with two, by wall time and by CPU time.

Each line is a call of `benchmarks/cases/threads.py`. Calls with one thread and with two alternate; the minimum of each is reported.

- `passes`: speedup of the passes over rows with two threads; `whole`: speedup of the complete call;
- `machine`: throughput of two concurrent processes over that of one, each with one thread: an upper bound on the speedup, as
  caches, memory and clock are shared. It is measured unless `--no-machine` is given;
- `processor`: CPU time with two threads over that with one; the excess over 1 is overhead of the second thread.

Run it on an idle machine: another process would take the time of the second thread.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks.cases.threads import COMPUTE, GOALS, Threaded, cases
from fastpubpriv.sources import Executor

HEADER = (
    "call",
    "one thread, ms",
    "passes, ms",
    "passes x",
    "whole x",
    "machine x",
    "processor",
    "goal",
)


@contextmanager
def passes() -> Iterator[list[float]]:
    """Collect the seconds of each pass that runs in the block."""
    found: list[float] = []
    plain = Executor.run

    def timed(self: Executor, query: Any, rows: Any) -> Any:
        begin = time.perf_counter()
        try:
            return plain(self, query, rows)
        finally:
            found.append(time.perf_counter() - begin)

    Executor.run = timed  # type: ignore[method-assign]
    try:
        yield found
    finally:
        Executor.run = plain  # type: ignore[method-assign]


def once(case: Threaded, threads: int | None) -> tuple[float, float, float]:
    """Return the wall time of a call, that of its passes (of the complete call if it makes none), and its CPU time."""
    with passes() as found:
        begin = time.perf_counter()
        work = time.process_time()
        case.call(threads)
        whole = time.perf_counter() - begin
        work = time.process_time() - work
    return whole, sum(found) or whole, work


def least(case: Threaded, rounds: int) -> dict[int, tuple[float, ...]]:
    """Return the minimum of each time with one thread and with two, in alternating runs."""
    case.call(2)  # compilation and start of threads are not timed
    found: dict[int, list[tuple[float, float, float]]] = {1: [], 2: []}
    for _ in range(rounds):
        for threads, times in found.items():
            times.append(once(case, threads))
    return {threads: tuple(map(min, zip(*times, strict=True))) for threads, times in found.items()}


def _alone(case: Threaded, barrier: Any, rounds: int, send: Any) -> None:
    case.call(1)
    barrier.wait()
    begin = time.perf_counter()
    for _ in range(rounds):
        case.call(1)
    send.put(time.perf_counter() - begin)


def machine(case: Threaded, rounds: int) -> float:
    """Return the throughput of two processes over that of one: twice the time of one alone over the time of two at once."""
    context = multiprocessing.get_context("fork")  # the children inherit the rows

    def together(count: int) -> float:
        barrier = context.Barrier(count)
        send = context.Queue()
        children = [
            context.Process(target=_alone, args=(case, barrier, rounds, send)) for _ in range(count)
        ]
        for child in children:
            child.start()
        longest = max(send.get() for _ in children)
        for child in children:
            child.join()
        return float(longest)

    return 2.0 * together(1) / together(2)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=5,
        help="of the large calls; small ones are made 40 times as often",
    )
    parser.add_argument(
        "--scale", type=float, default=1.0, help="factor on the rows of the large calls"
    )
    parser.add_argument("--only", default="", help="calls whose name begins so")
    parser.add_argument("--no-machine", action="store_true", help="leave out the two processes")
    given = parser.parse_args()
    table = Table(*HEADER, title="Two threads against one")
    with threadpool_limits(1):
        for case in cases(given.scale):
            if not case.name.startswith(given.only):
                continue
            large = GOALS[case.kind] >= 1.0
            found = least(case, given.rounds if large else 40 * given.rounds)
            (whole, inside, work), (whole_2, inside_2, work_2) = found[1], found[2]
            seen = inside / inside_2 if case.kind == COMPUTE else whole / whole_2
            goal = GOALS[case.kind]
            limit = "" if given.no_machine or not large else f"{machine(case, 3):.2f}"
            table.add_row(
                case.name,
                f"{1e3 * whole:.2f}",
                f"{1e3 * inside:.2f}",
                f"{inside / inside_2:.2f}",
                f"{whole / whole_2:.2f}",
                limit,
                f"{work_2 / work:.2f}",
                f">= {goal:g}: {'met' if seen >= goal else 'NOT MET'}",
            )
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
