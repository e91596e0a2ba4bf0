"""`python -m benchmarks.threads`: whole calls with one thread and with two, on the wall clock and on that of the processor.

Each line is a call of `benchmarks/cases/threads.py`. Calls with one thread and with two take turns, and the least of each counts.

- `passes`: how many times as fast the passes over rows are with two threads; `whole`: the whole call, what lies between them too;
- `machine`: how many times as much two processes do at once as one does alone, each with one thread: what the two cores give at
  best, as caches, memory and clock are shared. It is measured unless `--no-machine` is given;
- `processor`: time of the processor with two threads over that with one; what is above 1 is work that the second thread has caused.

Run it on a machine that does nothing else: another process on a second core takes the second thread's time.
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

HEADER = ("call", "one thread, ms", "passes, ms", "passes x", "whole x", "machine x", "processor", "goal")


@contextmanager
def passes() -> Iterator[list[float]]:
    """Seconds of each pass that is run in the block."""
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
    """Seconds of a call, of its passes (of all of it, where it makes none), and of the processor."""
    with passes() as found:
        begin, work = time.perf_counter(), time.process_time()
        case.call(threads)
        whole, work = time.perf_counter() - begin, time.process_time() - work
    return whole, sum(found) or whole, work


def least(case: Threaded, rounds: int) -> dict[int, tuple[float, ...]]:
    """The least of each time with one thread and with two, in turns."""
    case.call(2)  # compiles and starts what there is to start
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
    """How many times as much two processes do as one: twice the time that one needs alone over the time of two at once."""
    context = multiprocessing.get_context("fork")  # the children have the rows already

    def together(count: int) -> float:
        barrier, send = context.Barrier(count), context.Queue()
        children = [context.Process(target=_alone, args=(case, barrier, rounds, send)) for _ in range(count)]
        for child in children:
            child.start()
        longest = max(send.get() for _ in children)
        for child in children:
            child.join()
        return float(longest)

    return 2.0 * together(1) / together(2)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rounds", type=int, default=5, help="of the large calls; small ones are made 40 times as often"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the rows of the large calls")
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
                case.name, f"{1e3 * whole:.2f}", f"{1e3 * inside:.2f}", f"{inside / inside_2:.2f}", f"{whole / whole_2:.2f}",
                limit, f"{work_2 / work:.2f}", f">= {goal:g}: {'met' if seen >= goal else 'NOT MET'}",
            )  # fmt: skip
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
