"""`python -m benchmarks.table`: speed of public functions and of their inner loops against alternatives, in one run.

Everything is timed with the widest instruction set of the machine and restricted to AVX2, which emulates a processor without wider
ones; a cell holds both numbers: a / b. Each instruction set has its own process, in which the peers are restricted as well
(`benchmarks/held.py`), except polars and OpenDP. The two processes alternate, case by case. A time is the minimum of several runs;
a ratio compares times of one process. Memory and first calls are measured with the widest instruction set only.

For the table of the book and the small one of the README run `python -m benchmarks.table --write` on an idle machine, in an
environment with the extra `bench`. It takes some minutes; `--quick` is a trial with a hundredth of the rows.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks import held, readme
from benchmarks.cases import (
    bins,
    calls,
    first_calls,
    geometry,
    leaves,
    limits,
    loops,
    memory,
    odd_shapes,
    public_calls,
    reports,
    training,
)
from benchmarks.goals import GOALS, NONE, verdict
from fastpubpriv.cli.tools import describe_machine
from fastpubpriv.kernels._cext import lib
from fastpubpriv.kernels.library import NAMES

HEADER = ("hot loop or call", "ours", "x limit", "limit", "peer", "times faster", "goal")
SECTIONS = ("loops", "calls", "odd", "memory", "first")
CASES = ("loops", "calls", "odd")  # sections that are measured for each instruction set
QUICK = 0.01
Line = tuple[str, ...]


def hot_loops(scale: float) -> Iterator[loops.Case]:
    """Yield the inner loops of the passes; each case is made when needed, as large ones take 800 MB."""

    def n(rows: int) -> int:
        return max(64, int(rows * scale))

    yield from loops.noise_cases(n(1_000_000), importlib.util.find_spec("opendp") is not None)
    for rows, dim in ((1_000_000, 50), (100_000, 500), (5_000_000, 4), (1_000_000, 20)):
        yield loops.mean_case(n(rows), dim)
    yield training.gradient_case(n(1_000_000), 100)
    yield reports.report_case(n(10_000), 100)
    yield leaves.soft_round_case(n(200_000), 100, 6)
    for rows in (2_000, 20_000):
        yield geometry.isolation_case(n(rows), 100)
    for dim in (4, 16):
        yield geometry.terrific_case(n(20_000), dim)
    for shape in public_calls.SHAPES:
        for rows in (300, 2_000, 8_000, 20_000):
            yield public_calls.supercluster_beside_the_best(shape, n(rows), 20)


def whole_calls(scale: float) -> Iterator[loops.Case]:
    """Yield complete calls of public functions on many rows and on few; `scale` is a factor on the many."""

    def n(rows: int) -> int:
        return max(20_000, int(rows * scale))

    yield from calls.mean_calls(n(1_000_000), 50)
    yield calls.gaussian_call(n(1_000_000), 50)
    yield calls.published_mean_call(n(100_000), 50)
    yield calls.covariance_call(n(200_000), 50)
    yield from calls.regression_calls(n(500_000), 20)
    yield calls.histogram_call(n(10_000_000))
    yield public_calls.stable_histogram_case("distinct", n(3_000_000))
    yield public_calls.stable_histogram_case("many bins", n(1_000_000))
    yield calls.mixture_call(n(1_000_000))
    yield calls.axis_aligned_call(n(1_000_000), 10)
    yield calls.choice_call(2000)
    yield calls.calibration_call()
    for threads in (1, None):  # None: what a user sees by default
        yield calls.quantiles_call(n(10_000_000), threads)
        yield calls.describe_call(n(1_000_000), 20, threads)
        yield calls.groups_call(n(1_000_000), 10, 51, threads)
        yield calls.groups_call(n(1_000_000), 10, 51, threads, text=True)
    yield from calls.small_calls()
    yield from odd_shapes.few_rows_cases()


def odd_calls(scale: float) -> Iterator[loops.Case]:
    """Yield calls on wide tables, many keys and groups, and rows in small pieces and in text; `scale` is a factor on the rows."""

    def n(rows: int) -> int:
        return max(1_000, int(rows * scale))

    wide = max(50, int(2_000 * scale))
    yield calls.gaussian_call(max(wide, 100), wide)
    yield from odd_shapes.wide_cases(wide, wide)
    yield odd_shapes.listed_keys_case(n(1_000_000), n(100_000))
    yield calls.groups_call(n(1_000_000), 1, n(10_000))
    yield bins.persons_case(n(1_000_000), n(100_000), 1)
    yield from odd_shapes.pieces_cases(n(200_000), 5)
    yield from odd_shapes.text_cases(n(200_000), 10)


def beside(numbers: Sequence[float], form: str) -> str:
    """Return the cell with the numbers of all instruction sets."""
    return " / ".join(format(number, form) for number in numbers)


@dataclasses.dataclass(frozen=True)
class Times:
    """Seconds of one case with one instruction set; those of a peer are scaled to the work of ours."""

    name: str
    limit_name: str
    ours: float
    limit: float | None
    peers: dict[str, float]


def timed(case: loops.Case, rounds: int) -> Times:
    """Time the case with the current instruction set."""
    return Times(
        case.name,
        case.limit_name,
        limits.best_seconds(case.ours, rounds),
        None if case.limit is None else case.limit(),
        {
            peer: case.peer_scale.get(peer, 1.0) * limits.best_seconds(call, max(2, rounds // 2))
            for peer, call in case.peers.items()
        },
    )


def all_timed(
    level: int, sections: Sequence[str], rounds: int, scale: float
) -> Iterator[str | Times]:
    """Yield the BLAS of this process, then the times of its cases with instruction set `level`."""
    lib.fpp_isa_limit(level)
    made: dict[str, Iterable[loops.Case]] = {
        "loops": hot_loops(scale),
        "calls": whole_calls(scale),
        "odd": odd_calls(scale),
    }
    with limits.held_to(level), threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of small budgets and of seeds
        yield describe_machine()["BLAS"]
        for section in sections:
            for case in made[section]:
                times = timed(case, rounds)
                del case  # frees its rows: the processes of all instruction sets share the memory
                yield times


def lines(found: Sequence[Times]) -> list[Line]:
    """Return the rows of the table for one case, one per peer; the first also holds the goal of the limit or of the seconds."""
    name = found[0].name
    ours = [each.ours for each in found]
    over = [each.ours / each.limit for each in found if each.limit is not None] or None
    goal = GOALS.get(name, NONE)
    own = [
        verdict(goal.limit, over, at_most=True, unit=" x limit"),
        verdict(goal.seconds, ours, at_most=True, unit=" s"),
    ]
    first = (
        name,
        beside([1e3 * seconds for seconds in ours], ".2f") + " ms",
        "-" if over is None else beside(over, ".2f"),
        found[0].limit_name,
    )
    if not found[0].peers:
        return [(*first, "", "", "; ".join(filter(None, own)))]
    made = []
    for index, peer in enumerate(found[0].peers):
        faster = [each.peers[peer] / each.ours for each in found]
        beside_peer = verdict(goal.peers.get(peer), faster, at_most=False)
        said = "; ".join(filter(None, [*(own if index == 0 else []), beside_peer]))
        made.append(
            ((*first,) if index == 0 else ("", "", "", "")) + (peer, beside(faster, ".1f"), said)
        )
    return made


def peaks(scale: float) -> Iterator[Line]:
    """Return the rows on the peak memory of calls beyond their rows, in fresh processes."""
    for case in memory.cases(scale):
        ours = memory.peak(case.ours)
        theirs = memory.peak(case.theirs)
        name = f"memory beside the rows: {case.name}"
        yield name, f"{ours:.0f} MB", "-", "", case.peer, f"{theirs:.0f} MB", ""


def firsts(rounds: int) -> Iterator[Line]:
    """Return the rows on first calls in fresh processes; `python -m benchmarks.first_calls` has all of them."""
    with tempfile.TemporaryDirectory() as name:
        for call in first_calls.SHOWN:
            code = first_calls.FUNCTIONS[call]
            found = min(
                first_calls.seconds(code, Path(name))[1] for _ in range(max(2, rounds // 3))
            )
            said = verdict(first_calls.goal_of(call), [found], at_most=True, unit=" s")
            yield f"first call: {call}", f"{1e3 * found:.0f} ms", "-", "", "", "", said


def measured(sections: Sequence[str], rounds: int, scale: float) -> Iterator[Line]:
    """Return the rows that are measured with the widest instruction set only."""
    if "memory" in sections:
        yield from peaks(scale)
    if "first" in sections:
        yield from firsts(rounds)


def note(levels: Sequence[int], blas: Sequence[str]) -> str:
    """Return the note on the machine and the versions that the numbers depend on."""
    machine = describe_machine()
    sets = " / ".join(NAMES[level] for level in levels)
    absent = [
        name for name in ("opendp", "sklearn", "polars") if importlib.util.find_spec(name) is None
    ]
    left_out = f" Not installed, and so left out: {', '.join(absent)}." if absent else ""
    if len(levels) > 1:
        beside_them = (
            ": the narrower set stands for a processor without wider ones, and OpenBLAS, NumPy, SciPy, scikit-learn and Numba are "
            "held to it as well; polars and OpenDP cannot be, and keep what they choose"
        )
    else:
        beside_them = ""
    return (
        f"{machine['processor']}, {machine['CPUs']} CPUs; NumPy {machine['numpy']} with {' / '.join(blas)}. Ours, limits and peers "
        f"with {sets}{beside_them}. One thread where nothing else is said; the least of some runs of "
        f"`python -m benchmarks.table`.{left_out}"
    )


def written(text: str, head: str, found: Sequence[Line]) -> str:
    """Return the page with the table between its marks."""
    return readme.replaced(
        text, "bench", f"{head}\n\n{readme.markdown([list(line) for line in (HEADER, *found)])}"
    )


def main() -> None:
    """Print the table; with --write, write it to the book and some of its rows to the README."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.table",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--rounds", type=int, default=7, help="runs of our calls; peers take half as many"
    )
    parser.add_argument(
        "--isa", choices=("avx512", "avx2", "baseline"), help="one instruction set instead of two"
    )
    parser.add_argument(
        "--only", choices=SECTIONS, action="append", help="one section of the table"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a hundredth of the rows and one run: to try the command",
    )
    parser.add_argument(
        "--write", action="store_true", help="the table into docs/evidence/speed.md and README.md"
    )
    given = parser.parse_args()
    if given.write and (given.quick or given.only is not None):
        parser.error("--write needs the whole table: leave out --quick and --only")
    widest = lib.fpp_isa_detect()
    levels = [widest, *([1] if widest > 1 else [])]
    if given.isa is not None:
        levels = [min(widest, ("baseline", "avx2", "avx512").index(given.isa))]
    rounds, scale = (1, QUICK) if given.quick else (given.rounds, 1.0)
    sections = given.only or SECTIONS
    lib.fpp_isa_limit(levels[0])
    processes = held.in_turn(
        levels, all_timed, [each for each in sections if each in CASES], rounds, scale
    )
    head = note(levels, next(processes))
    found = [line for times in processes for line in lines(times)]
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found += measured(sections, rounds, scale)
    table = Table(*HEADER, title=head)
    for line in found:
        table.add_row(*line)
    Console(width=170).print(table)
    missed = sum("NOT MET" in line[-1] for line in found)
    print(f"{missed} of {sum(bool(line[-1]) for line in found)} rows with goals miss one")
    if given.write:
        readme.SPEED.write_text(
            written(readme.SPEED.read_text(encoding="utf-8"), head, found), encoding="utf-8"
        )
        readme.main()


if __name__ == "__main__":
    main()
