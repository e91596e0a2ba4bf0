"""Ratios that `make bench-save` stored for classes of processors, and `make bench-check`, which compares a new run with them.

A class is the vendor of the processor and the instruction set that our code keeps to. A processor of no stored class is held to the
lowest ratio of the classes with its instruction set, or of all.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path
from typing import Any

from benchmarks import readme
from fastpubpriv.kernels.library import NAMES

FOLDER = Path(__file__).parent / "baselines"
CHECKED_SHARE = 0.75  # of the stored ratio: below it, `make bench-check` fails


def vendor() -> str:
    """Return the vendor of the processor, or its architecture where the system names none."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.split(":")[1].strip() for line in lines if line.startswith("vendor_id")]
    return named[0] if named else platform.machine()


def processor_class(level: int) -> str:
    """Return the class of this processor while our code keeps to instruction set `level`."""
    return f"{vendor()}-{NAMES[level]}".lower()


def stored_ratios(level: int, folder: Path = FOLDER) -> dict[str, float]:
    """Return the ratios of this class; the lowest of comparable classes, case by case, if it has none."""
    own = folder / f"{processor_class(level)}.json"
    if own.exists():
        found: dict[str, float] = json.loads(own.read_text(encoding="utf-8"))["ratios"]
        return found
    files = sorted(folder.glob(f"*-{NAMES[level].lower()}.json")) or sorted(folder.glob("*.json"))
    lowest: dict[str, float] = {}
    for path in files:
        for name, ratio in json.loads(path.read_text(encoding="utf-8"))["ratios"].items():
            lowest[name] = min(ratio, lowest.get(name, ratio))
    return lowest


def measured_ratios(path: Path) -> dict[str, float]:
    """Return the ratios of a report of pytest-benchmark."""
    report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    infos = [each["extra_info"] for each in report["benchmarks"]]
    return {info["case"]: info["ratio"] for info in infos if "case" in info}


def save(path: Path, level: int, folder: Path = FOLDER) -> Path:
    """Write the ratios of a report for the class of this processor; cases that it does not have keep theirs."""
    ratios = measured_ratios(path)
    target = folder / f"{processor_class(level)}.json"
    kept = json.loads(target.read_text(encoding="utf-8"))["ratios"] if target.exists() else {}
    together = {name: round(ratio, 4) for name, ratio in sorted((kept | ratios).items())}
    folder.mkdir(exist_ok=True)
    target.write_text(json.dumps({"made_by": "make bench-save", "ratios": together}, indent=1) + "\n", encoding="utf-8")
    return target


def slower(ratios: dict[str, float], stored: dict[str, float], share: float) -> list[tuple[str, str, str, str]]:
    """Return the table of all cases: name, ratio, stored ratio, and their quotient with a mark where it is below `share`."""
    lines = []
    for name, ratio in ratios.items():
        before = stored.get(name)
        if before is None:
            lines.append((name, f"{ratio:.2f}", "-", "not stored"))
        else:
            mark = " TOO SLOW" if ratio < share * before else ""
            lines.append((name, f"{ratio:.2f}", f"{before:.2f}", f"{ratio / before:.2f}{mark}"))
    return lines


def main() -> int:
    """Save the report of a run, or compare it with what is stored; return 1 if a case has become slower."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stored", description=__doc__)
    parser.add_argument("report", type=Path, help="the file that pytest wrote with --benchmark-json")
    parser.add_argument("--save", action="store_true", help="store the ratios for the class of this processor")
    given = parser.parse_args()
    from benchmarks.conftest import LEVEL

    if given.save:
        print(f"stored in {save(given.report, LEVEL).relative_to(FOLDER.parent.parent)}")
        return 0
    lines = slower(measured_ratios(given.report), stored_ratios(LEVEL), CHECKED_SHARE)
    print(readme.markdown([["case", "ratio", "stored", "of the stored"], *map(list, lines)]))
    failed = [line[0] for line in lines if line[3].endswith("TOO SLOW")]
    print(
        f"{processor_class(LEVEL)}: {len(failed)} of {len(lines)} cases are below {CHECKED_SHARE} of their stored ratio: {failed}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
