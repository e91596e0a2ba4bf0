"""`python -m benchmarks.first_calls`: every public function and command, as the first call of a fresh process, on a small table.

Seconds are those of the processor. `import` is that of NumPy and the package, `call` what comes after it. A function may take 1 s,
and .35 s where nothing is compiled; a command, with the start of Python and all imports, 1 s. What takes longer is said in the last
column, and why in `NOT_MET`. `--json` writes the numbers.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.cases.first_calls import COMMANDS, FUNCTIONS, MOST, command_seconds, goal_of, seconds, write_tables

# All pairs of 1,000 mixtures at 1,024 public draws each: 3 s of densities, at 2 ns for each component of each. Fewer candidates
# (`candidates=`) or draws take less, and change what is released.
_PAIRS = "compares 1,000 candidates pair by pair"
NOT_MET = {
    "learn_axis_aligned_mixture, x_pub, pure": _PAIRS,
    # It asks for the plan of each method at 30 sizes and budgets, to say from where on private rows pay; the first alone is .1 s.
    "plan, train": "30 plans, to say from where on private rows pay",
}


def measured(word: str, rounds: int, folder: Path) -> Iterator[tuple[str, float | None, float, float]]:
    """Name, seconds of the import, seconds of the call and goal of each function and command whose name holds `word`."""
    for name, code in FUNCTIONS.items():
        if word in name:
            found = [seconds(code, folder) for _ in range(rounds + 1)][1:]  # the first one writes bytecode
            yield name, min(first for first, _ in found), min(call for _, call in found), goal_of(name)
    for name, line in COMMANDS.items():
        if word in f"fastpubpriv {name}":
            whole = [command_seconds(line.split(), folder) for _ in range(rounds + 1)][1:]
            yield f"fastpubpriv {name}", None, min(whole), MOST


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.first_calls",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--rounds", type=int, default=2, help="fresh processes for each, after one that writes bytecode"
    )
    parser.add_argument("--only", default="", help="names that hold this word")
    parser.add_argument("--json", type=Path, help="write the seconds of the calls")
    given = parser.parse_args()
    table = Table(
        "call", "import, s", "call, s", "goal", title="First calls in fresh processes, seconds of the processor"
    )
    calls: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tables(folder)
        for call, first, found, goal in measured(given.only, given.rounds, folder):
            calls[call] = round(found, 3)
            said = f"<= {goal:g}: " + ("met" if found <= goal else f"NOT MET: {NOT_MET.get(call, 'new')}")
            table.add_row(call, "" if first is None else f"{first:.2f}", f"{found:.3f}", said)
    Console(width=150).print(table)
    if given.json is not None:
        given.json.write_text(json.dumps(calls, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
