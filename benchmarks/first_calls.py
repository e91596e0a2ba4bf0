"""`python -m benchmarks.first_calls`: every public function and command, as the first call of a fresh process, on a small table.

Times are CPU seconds: `import` of NumPy and the package, `call` of the function after it. The limit is 1 s for a function, .35 s
where nothing is compiled, and 1 s for a command with the start of Python and all imports. The last column marks what exceeds its
limit, and `NOT_MET` gives the reason. `--json` writes the numbers.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.cases.first_calls import (
    COMMANDS,
    FUNCTIONS,
    MOST,
    command_seconds,
    goal_of,
    seconds,
    write_tables,
)

# Fewer candidates (`candidates=`) take less time and change the release; 100 of them show the overhead of a first call.
_PAIRS = "compares 1,000 candidates pair by pair, in every call"
NOT_MET = {
    "learn_axis_aligned_mixture, x_pub, pure": _PAIRS,
    "train, OutputPerturbation": "imports scipy.optimize",
}


def measured(
    word: str, rounds: int, folder: Path
) -> Iterator[tuple[str, float | None, float, float]]:
    """Yield name, seconds of the import, seconds of the call and limit of each function and command whose name contains `word`.

    The first run writes bytecode and is ignored.
    """
    for name, code in FUNCTIONS.items():
        if word in name:
            found = [(0.0, math.inf)]
            with shown(name):
                found = [seconds(code, folder) for _ in range(rounds + 1)][1:]
            first, call = map(min, zip(*found, strict=True))
            yield name, first, call, goal_of(name)
    for name, line in COMMANDS.items():
        if word in f"fastpubpriv {name}":
            whole = [math.inf]
            with shown(name):
                whole = [command_seconds(line.split(), folder) for _ in range(rounds + 1)][1:]
            yield f"fastpubpriv {name}", None, min(whole), MOST


@contextlib.contextmanager
def shown(name: str) -> Iterator[None]:
    """Print the failure of a call at once, and continue with the others."""
    try:
        yield
    except RuntimeError as error:
        print(f"{name}: {error}", file=sys.stderr)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.first_calls",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=2,
        help="fresh processes for each, after one that writes bytecode",
    )
    parser.add_argument("--only", default="", help="names that hold this word")
    parser.add_argument("--json", type=Path, help="write the seconds of the calls")
    given = parser.parse_args()
    print(f"{'seconds of the processor':<48}{'import':>8}{'call':>8}  goal")
    calls: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tables(folder)
        for call, first, found, goal in measured(given.only, given.rounds, folder):
            calls[call] = round(found, 3)
            said = f"<= {goal:g}: " + (
                "met"
                if found <= goal
                else f"NOT MET: {NOT_MET.get(call, 'why is to be found out')}"
            )
            imported = "" if first is None else f"{first:.2f}"
            print(f"{call:<48}{imported:>8}{found:>8.3f}  {said}", flush=True)
    failed = [call for call, found in calls.items() if math.isinf(found)]
    if given.json is not None:
        done = {call: found for call, found in calls.items() if call not in failed}
        given.json.write_text(json.dumps(done, indent=1) + "\n", encoding="utf-8")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
