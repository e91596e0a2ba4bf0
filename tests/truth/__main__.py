"""The sweep by hand: `python -m tests.truth [--verbs a,b] [--full] [--seconds s] [--seed n]`.

It writes one line for each fault that `known.py` does not list; with any, the exit status is 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from threadpoolctl import threadpool_limits

from tests.truth import engine, known
from tests.truth.arguments import VERBS


def main(given: list[str] | None = None) -> int:
    """Run the sweep; return 1 if it finds what `known.py` does not list."""
    parser = argparse.ArgumentParser(prog="python -m tests.truth", description=__doc__)
    parser.add_argument(
        "--verbs",
        type=lambda text: text.split(","),
        default=list(VERBS),
        help="names in arguments.py",
    )
    parser.add_argument(
        "--full", action="store_true", help="all pairs, populations and eight draws"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=float("inf"),
        help="CPU seconds; what is left out is counted",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the draws")
    parser.add_argument("--code", action="store_true", help="also the calls as code that runs")
    asked = parser.parse_args(given)
    unknown = sorted(set(asked.verbs) - set(VERBS))
    if unknown:
        parser.error(f"no verb is called {', '.join(unknown)}: pass some of {', '.join(VERBS)}")
    run = engine.whole if asked.full else engine.quick
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1):  # matrices are small
        sweep = run(asked.verbs, seed=asked.seed, seconds=asked.seconds)
        if asked.full:
            engine.same_bits(sweep, asked.verbs, Path(folder))
    lines = sweep.lines(known.KNOWN)
    lines += sweep.refusals() if asked.full and not sweep.cut else []
    for line in lines:
        sys.stdout.write(line + "\n")
    for finding in sweep.unlisted(known.KNOWN) if asked.code else ():
        sys.stdout.write(finding.code() + "\n")
    if sweep.cut:
        sys.stdout.write(f"{sweep.cut} calls were not made: no time was left\n")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
