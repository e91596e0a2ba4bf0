"""Makes results.json from the package beside it, or compares: `python tests/golden/make_results.py [--check] [NAME ...]`.

    python tests/golden/make_results.py                 write the whole file again
    python tests/golden/make_results.py mean plan       write the cases again whose names hold one of these words
    python tests/golden/make_results.py --missing       write the cases that are not in the file, and leave the others
    python tests/golden/make_results.py --prune         drop the cases that are no longer in the table, and change nothing else
    python tests/golden/make_results.py --check         compare every bit, and write nothing
    python tests/golden/make_results.py --check --close compare as on another machine
    python tests/golden/make_results.py --show NAME     print what the cases say, with the numbers in full

A case is one line for each value that came out of one call; `golden_values` says how values are written, and `cases_*` which calls.
"""

import argparse
import json
import platform
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# the package of this tree, not an installed one, and what its tests share
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent)]

import numpy as np  # noqa: E402
from golden_case import leaves_of, outcome  # noqa: E402
from golden_cases import CASES  # noqa: E402
from golden_values import Array, differences  # noqa: E402

RESULTS = HERE / "results.json"


def read() -> dict[str, dict[str, Any]]:
    """The recorded cases by name."""
    if not RESULTS.exists():
        return {}
    cases: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text(encoding="utf-8"))["cases"]
    return cases


def write(cases: dict[str, dict[str, Any]]) -> None:
    """One line for each value, cases in the order of the table."""
    blocks = []
    for name in sorted(cases, key=lambda each: list(CASES).index(each)):
        lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in cases[name].items()]
        blocks.append(f"{json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n}")
    made_on = {
        "machine": platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    text = f'{{"made_on": {json.dumps(made_on)},\n"cases": {{\n' + ",\n".join(blocks) + "\n}}\n"
    RESULTS.write_text(text, encoding="utf-8")


def say(text: str) -> None:
    """A line on the standard output, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def show(name: str) -> None:
    """The values of a case in full."""
    say(name)
    for field, leaf in leaves_of(CASES[name]).items():
        say(f"  {field}: {leaf.array.tolist() if isinstance(leaf, Array) else leaf}")


def compare(names: list[str], kept: dict[str, dict[str, Any]], *, bits: bool) -> int:
    """Print what differs; the number of cases in which something does."""
    wrong = 0
    for name in names:
        found = differences(kept.get(name, {}), outcome(CASES[name]), bits=bits)
        wrong += bool(found)
        for line in found:
            say(f"{name} | {line}")
    gone = [name for name in kept if name not in CASES]
    for name in gone:
        say(f"{name} | is no longer in the table (--prune)")
    say(f"{len(names)} cases, {wrong} differ, {len(gone)} are no longer in the table")
    return wrong + len(gone)


def main() -> int:
    """Run the cases that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for flag in ("--check", "--close", "--missing", "--prune", "--show"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("words", nargs="*")
    given = parser.parse_args()
    names = [name for name in CASES if not given.words or any(word in name for word in given.words)]
    partly = given.words or given.check or given.missing or given.prune
    kept = read() if partly else {}
    names = [name for name in names if not (given.missing and name in kept)]
    if given.show:
        for name in names:
            show(name)
        return 0
    if given.check:
        return min(1, compare(names, kept, bits=not given.close))
    kept = {name: case for name, case in kept.items() if name in CASES}
    for name in [] if given.prune else names:
        kept[name] = outcome(CASES[name])
    write(kept)
    say(f"{len(kept)} cases in {RESULTS.name}, {RESULTS.stat().st_size / 1e3:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
