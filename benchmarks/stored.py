"""Ratios of a run, beside those that `make bench-save` stored for this processor: `python -m benchmarks.stored REPORT...`.

A class is a model of processors and the instruction set that our code keeps to. Models of one vendor differ by a factor of two: a
processor of no stored class is held to a smaller share of the lowest ratio of the classes with its instruction set, and a case that
none of them has is not guarded there.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from benchmarks import readme
from fastpubpriv.kernels.library import NAMES

FOLDER = Path(__file__).parent / "baselines"
CHECKED_SHARE = 0.75  # of the stored ratio: below it, `make bench-check` fails
TOO_SLOW = " TOO SLOW"


class Measured(TypedDict):
    """How many times as fast a case was as its peer."""

    peer: str
    ratio: float


def processor() -> str:
    """Return vendor, family and model of the processor, or its architecture where the system names none."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    fields = {}
    for line in lines:
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    asked = "vendor_id", "cpu family", "model"
    if any(name not in fields for name in asked):
        return platform.machine()
    return "-".join(fields[name] for name in asked)


def processor_class(level: int) -> str:
    """Return the class of this processor while our code keeps to instruction set `level`."""
    return f"{processor()}-{NAMES[level]}".lower()


def own_file(level: int, folder: Path = FOLDER) -> Path:
    """Return the file of the ratios of this class, which need not exist."""
    return folder / f"{processor_class(level)}.json"


def ratios_of(cases: Mapping[str, Measured]) -> dict[str, float]:
    """Return the ratios alone, by case."""
    return {name: each["ratio"] for name, each in cases.items()}


def cases_in(path: Path) -> dict[str, Measured]:
    """Return the cases of a file that `save` wrote."""
    found: dict[str, Measured] = json.loads(path.read_text(encoding="utf-8"))["cases"]
    return found


def stored_ratios(level: int, folder: Path = FOLDER) -> dict[str, float]:
    """Return the ratios of this class; if it has none, the lowest of the classes with this instruction set, case by case."""
    own = own_file(level, folder)
    if own.exists():
        return ratios_of(cases_in(own))
    lowest: dict[str, float] = {}
    for path in sorted(folder.glob(f"*-{NAMES[level].lower()}.json")):
        for name, ratio in ratios_of(cases_in(path)).items():
            lowest[name] = min(ratio, lowest.get(name, ratio))
    return lowest


def measured(report: Path) -> dict[str, Measured]:
    """Return the cases of a report of pytest-benchmark."""
    found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    infos = [each["extra_info"] for each in found["benchmarks"]]
    return {
        info["case"]: {"peer": info["peer"], "ratio": info["ratio"]}
        for info in infos
        if "case" in info
    }


def median_of(reports: Sequence[Mapping[str, Measured]]) -> dict[str, Measured]:
    """Return the median ratio of each case over the reports that have it."""
    names = dict.fromkeys(name for report in reports for name in report)
    found: dict[str, Measured] = {}
    for name in names:
        runs = [report[name] for report in reports if name in report]
        ratio = statistics.median(run["ratio"] for run in runs)
        found[name] = {"peer": runs[0]["peer"], "ratio": ratio}
    return found


def save(cases: Mapping[str, Measured], level: int, folder: Path = FOLDER) -> Path:
    """Write cases for the class of this processor and return the file; cases that were not measured keep their ratios."""
    target = own_file(level, folder)
    kept = cases_in(target) if target.exists() else {}
    together = {
        name: {"peer": each["peer"], "ratio": float(f"{each['ratio']:.4g}")}
        for name, each in {**kept, **cases}.items()
    }
    folder.mkdir(exist_ok=True)
    text = json.dumps({"made_by": "make bench-save", "cases": together}, indent=1)
    target.write_text(text + "\n", encoding="utf-8")
    return target


def compared(
    ratios: Mapping[str, float], stored: Mapping[str, float], share: float = CHECKED_SHARE
) -> list[tuple[str, str, str, str]]:
    """Return the table of all cases: name, ratio, stored ratio, and their quotient with a mark where it is below `share`."""
    lines = []
    for name, ratio in ratios.items():
        before = stored.get(name)
        if before is None:
            lines.append((name, f"{ratio:.3g}", "-", "not stored"))
        else:
            mark = TOO_SLOW if ratio < share * before else ""
            lines.append((name, f"{ratio:.3g}", f"{before:.3g}", f"{ratio / before:.2f}{mark}"))
    return lines


def main() -> int:
    """Save the report of a run, or compare it with what is stored; return 1 if a case has become slower."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stored", description=__doc__)
    parser.add_argument(
        "reports",
        type=Path,
        nargs="+",
        help="files that pytest wrote with --benchmark-json; of several, the median of each case",
    )
    parser.add_argument(
        "--save", action="store_true", help="store the ratios for the class of this processor"
    )
    parser.add_argument(
        "--show", action="store_true", help="print the table alone: a slow case is no failure"
    )
    given = parser.parse_args()
    from benchmarks.conftest import LEVEL

    cases = median_of([measured(report) for report in given.reports])
    lines = compared(ratios_of(cases), stored_ratios(LEVEL))
    print(
        readme.markdown(
            [
                ["case", "times as fast as its peer", "stored", "share of the stored"],
                *map(list, lines),
            ]
        )
    )
    if given.save:
        print(f"stored: {save(cases, LEVEL)}")
        return 0
    slow = [name for name, *_, share in lines if share.endswith(TOO_SLOW)]
    print(
        f"{processor_class(LEVEL)}: {len(slow)} of {len(lines)} below {CHECKED_SHARE} of what is stored: {slow}"
    )
    return int(bool(slow) and not given.show)


if __name__ == "__main__":
    sys.exit(main())
