"""`python -m benchmarks.papers NAME` reproduces a published figure or table as CSV and PNG; without NAME it lists the experiments.

    python -m benchmarks.papers a-figure-1
    python -m benchmarks.papers b-beyond --quick --cell 0.5:4 --out reproduced

The rows are simulated, so seeded noise is used throughout.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.papers.registry import EXPERIMENTS
from fastpubpriv.errors import FastPubPrivError


def pair(text: str) -> tuple[float, float]:
    """Parse SHARE:EPSILON, a share of public rows and an epsilon."""
    share, _, epsilon = text.partition(":")
    return float(share), float(epsilon)


def main(arguments: list[str] | None = None) -> None:
    """Run one experiment, or list them."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.papers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", choices=EXPERIMENTS, metavar="NAME")
    parser.add_argument(
        "--out", type=Path, default=Path("reproduced"), help="folder (default: reproduced)"
    )
    parser.add_argument(
        "--runs", type=int, help="repetitions of each point (default: as many as was published)"
    )
    parser.add_argument("--threads", type=int, help="default: all cores; never changes a number")
    parser.add_argument(
        "--quick", action="store_true", help="a smaller problem, for experiments that take long"
    )
    parser.add_argument(
        "--cell",
        dest="cells",
        type=pair,
        action="append",
        default=[],
        metavar="SHARE:EPSILON",
        help="one cell of a table, such as 0.5:4, for experiments that take long; may be given for several",
    )
    asked = vars(parser.parse_args(arguments))
    name = asked.pop("name")
    if name is None:
        for each in EXPERIMENTS.values():
            print(f"{each.name:22}{each.summary}\n{'':22}{each.source}")
        return
    try:
        report = EXPERIMENTS[name].run(**asked)
    except FastPubPrivError as error:
        parser.error(str(error))
    print(*report.lines, f"{report.seconds:.1f} s", sep="\n")
    print(f"Wrote {report.csv}, {report.png}", file=sys.stderr)


if __name__ == "__main__":
    main()
