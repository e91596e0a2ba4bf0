"""`python -m benchmarks.out_of_core`: fits of a Gaussian, a regression and a mixture from Parquet files larger than memory.

For each size a file (eight columns of float64, three groups, the last column a linear function of the others) is made in
`--folder`, one row group at a time, and removed when all its steps are done:

- a plain scan: pyarrow decodes all columns and does nothing with them;
- each fit, in a separate process: its time, the number of passes over rows and of reads of the file, and its peak private memory
  (mapped pages of the file are excluded). `fixed` is the time of the same call on 3,000 rows in memory, so that
  (seconds - fixed) / rows is the time per row;
- the same calls on a prefix of the file and on the same rows in memory, which must give identical bits.

`work` is the CPU time of all threads, which depends less on other load than `seconds`. Each step is one line of JSON, appended to
`--results` at once; another run with the same file of results does only the missing steps. The final table holds for each fit the
time per row at each size over the median of the sizes: linear growth is a column of ones.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import fastpubpriv as fpp
from fastpubpriv.sources import fold, private_rows
from fastpubpriv.sources.tables import RestartedRows

NAMES = [*"abcdefg", "y"]
CENTERS = np.zeros((3, 7))
CENTERS[1, 0], CENTERS[2, 1] = 40.0, 60.0
COEFFICIENTS = np.linspace(-1.0, 1.0, 7)
GROUP = 1_000_000  # rows of a row group
PUBLIC, FEW, PREFIX = 3000, 3000, 1_000_000
# a small size is repeated until this many rows in total; the minimum time is reported
REPEATED_ROWS, MOST_REPEATS = (
    2_000_000,
    7,
)
MEMORY = 2e9


def table(n: int, seed: int) -> np.ndarray[Any, Any]:
    """Return rows of the file."""
    rng = np.random.default_rng(seed)
    rows = np.empty((n, 8))
    rows[:, :7] = rng.standard_normal((n, 7)) + CENTERS[rng.integers(3, size=n)]
    rows[:, 7] = rows[:, :7] @ COEFFICIENTS + rng.standard_normal(n)
    return rows


def write(path: Path, n: int) -> None:
    """Write the file one row group at a time; it gets its name when it is complete."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.float64()) for name in NAMES])
    unfinished = path.with_suffix(".unfinished")
    with pq.ParquetWriter(unfinished, schema, compression="none", use_dictionary=False) as writer:
        for seed, first in enumerate(range(0, n, GROUP)):
            rows = table(min(GROUP, n - first), seed + 1)
            writer.write_table(
                pa.table([np.ascontiguousarray(rows[:, k]) for k in range(8)], schema=schema)
            )
    unfinished.rename(path)


FITS: dict[str, Any] = {
    "gaussian": lambda x, pub, **o: fpp.estimate_gaussian(x, x_pub=pub, budget=fpp.ZCDP(1), **o),
    "regression": lambda x, pub, **o: fpp.linear_regression(
        x, x_pub=pub, **_labels(x), budget=fpp.ZCDP(1), **o
    ),
    "mixture": lambda x, pub, **o: fpp.learn_separated_mixture(
        x, x_pub=pub[:300], n_components=3, min_weight=0.2, budget=fpp.ZCDP(1), **o
    ),
}
NUMBERS = {
    "gaussian": ("mean", "covariance"),
    "regression": ("coefficients", "intercept"),
    "mixture": ("weights", "means", "covariances"),
}


def _labels(x: Any) -> dict[str, Any]:
    return {"label": "y" if isinstance(x, fpp.Rows) and x.columns else -1}


def own_memory() -> int:
    """Return the bytes of memory of this process that are not pages of files."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(text.split("RssAnon:")[1].split()[0])


class Watch:
    """Peak private memory of this process while the block runs."""

    def __enter__(self) -> Watch:
        self.most, self._over = own_memory(), threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.02):
            self.most = max(self.most, own_memory())


class Counted:
    """Number of rows that queries processed, and of rows read from files, while the block runs."""

    def __enter__(self) -> Counted:
        self.passed = self.read = 0
        self._pass, self._chunks = fold._pass, RestartedRows._chunks

        def passed(query: Any, rows: Any, *more: Any) -> Any:
            self.passed += rows.n
            return self._pass(query, rows, *more)

        def chunks(rows: Any, *where: int) -> Iterator[Any]:
            for chunk in self._chunks(rows, *where):
                self.read += len(chunk)
                yield chunk

        fold._pass, RestartedRows._chunks = passed, chunks  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        fold._pass, RestartedRows._chunks = self._pass, self._chunks  # type: ignore[method-assign]


def timed(call: Any, times: int = 1) -> dict[str, float]:
    """Return the minimum wall and CPU time of several calls."""
    seconds = []
    work = []
    for _ in range(times):
        begin = time.perf_counter()
        spent = time.process_time()
        call()
        seconds.append(time.perf_counter() - begin)
        work.append(time.process_time() - spent)
    return {"seconds": min(seconds), "work": min(work)}


def _times(n: int) -> int:
    return max(1, min(MOST_REPEATS, REPEATED_ROWS // n))


def scan(path: str, n: int) -> dict[str, Any]:
    """Time decoding all columns without using them."""
    import pyarrow.parquet as pq

    def once() -> None:
        seen = 0
        with pq.ParquetFile(path, memory_map=True) as file:
            for batch in file.iter_batches(batch_size=1 << 16):
                seen += batch.num_rows
        assert seen == n

    found: dict[str, Any] = timed(once, max(2, _times(n)))
    return {**found, "rows_per_second": n / found["seconds"]}


def fit(path: str, name: str, threads: int | None, max_memory: float | None) -> dict[str, Any]:
    """Measure one fit of the complete file: seconds, passes, memory, and the time that does not depend on the number of rows."""
    import pandas as pd

    rows = private_rows(path)
    public = _public(rows)
    options = {"threads": threads, "progress": False}
    if name == "regression":  # the others cache no rows
        options["max_memory"] = max_memory

    def call(x: Any) -> Any:
        return FITS[name](x, public, **options)

    warnings.simplefilter("ignore")
    few = private_rows(pd.DataFrame(table(FEW, 1), columns=NAMES))
    call(few)  # so that compilation is not timed
    fixed = timed(lambda: call(few), 3)
    before = own_memory()
    with Watch() as watch, Counted() as counted:
        found = timed(lambda: call(rows), _times(rows.n))
    total = rows.n * _times(rows.n)
    return {
        **found,
        "fixed": fixed["seconds"],
        "fixed_work": fixed["work"],
        "passes": counted.passed / total,
        "read": counted.read / total,
        "memory": watch.most,
        "more": watch.most - before,
    }


def _public(rows: Any) -> Any:
    public = table(PUBLIC, 0)
    if getattr(rows, "columns", None) is None:
        return public
    import pandas as pd

    return pd.DataFrame(public, columns=NAMES)


def prefix(path: str, n: int) -> dict[str, bool]:
    """Report whether a prefix of the file gives the same bits as the same rows in memory."""
    rows = private_rows(path).slice(0, min(PREFIX, n))
    memory = np.concatenate(list(rows.chunks()))
    warnings.simplefilter("ignore")
    found = {}
    for name, call in FITS.items():
        there, here = (call(x, _public(x), random_state=1, progress=False) for x in (rows, memory))
        found[name] = all(
            np.array_equal(getattr(there, k), getattr(here, k)) for k in NUMBERS[name]
        )
    return found


def apart(call: Any, *given: Any) -> Any:
    """Return call(*given), run in a separate process."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(call, given)


class Results:
    """Results of finished steps, in a file with one line of JSON each."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.lines: list[dict[str, Any]] = []
        if path is not None and path.exists():
            self.lines = [
                json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line
            ]

    def found(self, **which: Any) -> dict[str, Any] | None:
        """Return the line of a step if it is finished."""
        return next(
            (line for line in self.lines if all(line.get(key) == which[key] for key in which)), None
        )

    def once(self, which: dict[str, Any], call: Any) -> dict[str, Any]:
        """Return the line of a step, after running it if it is not finished."""
        line = self.found(**which)
        if line is None:
            line = _rounded({**which, **call()})
            self.lines.append(line)
            print(json.dumps(line))
            sys.stdout.flush()
            if self._path is not None:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
        return line


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    return float(f"{value:.5g}") if isinstance(value, float) else value


def measure(n: int, given: argparse.Namespace, results: Results) -> None:
    """Run all unfinished steps of one size."""
    folder = given.folder
    fits = given.fits
    threads = given.threads
    wanted = [
        {"rows": n, "step": "fit", "fit": name, "threads": many}
        for many in threads
        for name in fits
    ]
    others = [{"rows": n, "step": step} for step in ("scan", "prefix")]
    if all(results.found(**which) for which in [*wanted, *others]):
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"rows-{n}.parquet"
    if not path.exists():
        write(path, n)
    plain = results.once(others[0], lambda: apart(scan, str(path), n))

    def compared(name: str, many: int | None) -> dict[str, Any]:
        found = apart(fit, str(path), name, many, given.max_memory)
        return {
            **found,
            "rows_per_second": n / found["seconds"],
            "times_a_scan": found["seconds"] / plain["seconds"],
            "times_a_scan_each_pass": found["seconds"] / found["passes"] / plain["seconds"],
        }

    for which in wanted:
        results.once(which, lambda which=which: compared(which["fit"], which["threads"]))
    results.once(
        others[1], lambda: {"same_bits": apart(prefix, str(path), n), "first_rows": min(PREFIX, n)}
    )
    path.unlink()


def growth(
    results: Results, fits: list[str], threads: list[int | None], clock: str
) -> list[tuple[Any, ...]]:
    """Return one line for each fit and size: nanoseconds per row of the complete call, less the fixed time, and per pass."""
    lines = []
    for name in fits:
        for many in threads:
            found = [
                line
                for line in results.lines
                if (line.get("fit"), line.get("threads")) == (name, many)
            ]
            found.sort(key=lambda line: int(line["rows"]))
            fixed = "fixed" if clock == "seconds" else "fixed_work"
            each = [1e9 * (line[clock] - line[fixed]) / line["rows"] for line in found]
            passes = [row / line["passes"] for row, line in zip(each, found, strict=True)]
            for line, row, one in zip(found, each, passes, strict=True):
                whole = 1e9 * line[clock] / line["rows"]
                middle = statistics.median(each)
                lines.append(
                    (
                        name,
                        many,
                        line["rows"],
                        line["passes"],
                        line["read"],
                        whole,
                        row,
                        row / middle,
                        one,
                        line["memory"] / 1e6,
                    )
                )
    return lines


def show(results: Results, fits: list[str], threads: list[int | None]) -> None:
    """Print the tables of growth, and how many fits exceed 2 GB and how many prefixes differ."""
    from rich.console import Console
    from rich.table import Table

    header = (
        "fit",
        "threads",
        "rows",
        "passes",
        "of them read",
        "ns a row, whole",
        "less fixed",
        "of the median",
        "a row and pass",
        "MB",
    )
    console = Console(width=130)
    for clock in ("seconds", "work"):
        drawn = Table(*header, title=f"{clock}: nanoseconds")
        for name, many, n, passes, read, whole, row, part, one, memory in growth(
            results, fits, threads, clock
        ):
            numbers = (
                f"{passes:.3g}",
                f"{read:.3g}",
                f"{whole:.1f}",
                f"{row:.1f}",
                f"{part:.2f}",
                f"{one:.1f}",
            )
            drawn.add_row(name, str(many or "all"), f"{n:.0e}", *numbers, f"{memory:.0f}")
        console.print(drawn)
    large = [line for line in results.lines if line.get("memory", 0) > MEMORY]
    other = [line for line in results.lines if not all(line.get("same_bits", {"": True}).values())]
    print(f"fits beyond 2 GB: {len(large)}; prefixes with other bits than in memory: {len(other)}")


def main() -> None:
    """Run the unfinished steps, then print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sizes = [100_000, 1_000_000, 10_000_000]
    parser.add_argument(
        "--rows", type=int, nargs="+", default=sizes, help="sizes of files (64 bytes a row)"
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("build/out_of_core"), help="where the files are made"
    )
    parser.add_argument("--fits", nargs="+", default=list(FITS), choices=list(FITS))
    parser.add_argument(
        "--threads", type=int, nargs="+", default=[None], help="one or several; default: all cores"
    )
    parser.add_argument(
        "--max-memory", type=float, help="bytes of rows that the regression keeps (default: 2**30)"
    )
    parser.add_argument(
        "--results", type=Path, help="file of finished steps, which are not done again"
    )
    given = parser.parse_args()
    results = Results(given.results)
    for n in given.rows:
        measure(n, given, results)
    show(results, given.fits, given.threads)


if __name__ == "__main__":
    main()
