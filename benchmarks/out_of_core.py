"""`python -m benchmarks.out_of_core`: a Gaussian, a regression and a mixture from a Parquet file that need not fit into memory.

The file (eight columns of float64, three groups, the last column a linear function of the others) is made in `--folder` and removed
at the end. Each fit runs in a process of its own, which tells its time, how often it read the file, and the most memory of its own
that it had at once (mapped pages of the file are not its own). Beside them stands a plain scan: pyarrow decodes all columns and
does nothing with them; "work" is time of the processor, which a busy machine changes little. On a prefix
of the file, the results must have the bits of the same rows in memory.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import fastpubpriv as fpp
from fastpubpriv.sources.readers.arrow import ParquetRows

NAMES = [*"abcdefg", "y"]
CENTERS = np.zeros((3, 7))
CENTERS[1, 0], CENTERS[2, 1] = 40.0, 60.0
COEFFICIENTS = np.linspace(-1.0, 1.0, 7)
GROUP = 1_000_000  # rows of a row group
PUBLIC, PREFIX = 3000, 200_000


def table(n: int, seed: int) -> np.ndarray[Any, Any]:
    """Rows of the file."""
    rng = np.random.default_rng(seed)
    rows = np.empty((n, 8))
    rows[:, :7] = rng.standard_normal((n, 7)) + CENTERS[rng.integers(3, size=n)]
    rows[:, 7] = rows[:, :7] @ COEFFICIENTS + rng.standard_normal(n)
    return rows


def write(path: Path, n: int) -> None:
    """The file, group after group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.float64()) for name in NAMES])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for seed, first in enumerate(range(0, n, GROUP)):
            rows = table(min(GROUP, n - first), seed + 1)
            writer.write_table(pa.table([np.ascontiguousarray(rows[:, k]) for k in range(8)], schema=schema))


FITS: dict[str, Any] = {
    "gaussian": lambda x, pub, **o: fpp.estimate_gaussian(x, x_pub=pub, budget=fpp.ZCDP(1), **o),
    "regression": lambda x, pub, **o: fpp.linear_regression(x, x_pub=pub, **_labels(x), budget=fpp.ZCDP(1), **o),
    "mixture": lambda x, pub, **o: fpp.learn_separated_mixture(
        x, x_pub=pub[:300], n_components=3, min_weight=0.2, budget=fpp.ZCDP(1), **o
    ),
}


def _labels(x: Any) -> dict[str, Any]:
    return {"label": "y" if isinstance(x, fpp.Rows) and x.columns else -1}


def own_memory() -> int:
    """Bytes of this process that are not pages of files."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(text.split("RssAnon:")[1].split()[0])


class Watch:
    """The most memory of its own that this process has while the block runs."""

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


def scan(path: str, n: int) -> dict[str, Any]:
    """Decode all columns, and do nothing with them."""
    import pyarrow.parquet as pq

    begin, work, seen = time.perf_counter(), time.process_time(), 0
    with pq.ParquetFile(path, memory_map=True) as file:
        for batch in file.iter_batches(batch_size=1 << 16):
            seen += batch.num_rows
    assert seen == n
    return {"seconds": time.perf_counter() - begin, "work": time.process_time() - work}


def fit(path: str, name: str, threads: int | None) -> dict[str, Any]:
    """One fit of the whole file: seconds, rows that were read, memory."""
    seen = 0
    plain = ParquetRows._chunks

    def counted(self: Any, *where: int) -> Iterator[Any]:
        nonlocal seen
        for chunk in plain(self, *where):
            seen += len(chunk)
            yield chunk

    ParquetRows._chunks = counted  # type: ignore[method-assign]
    rows = fpp.Rows.from_parquet(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        FITS[name](
            table(3000, 1), _public(None), threads=threads, progress=False
        )  # compiles what is compiled at the first call
    before = own_memory()
    begin, work = time.perf_counter(), time.process_time()
    with Watch() as watch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        FITS[name](rows, _public(rows), threads=threads, progress=False)
    seconds, work = time.perf_counter() - begin, time.process_time() - work
    return {
        "seconds": seconds,
        "work": work,
        "passes": seen / rows.n,
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
    """Whether a prefix of the file gives the bits of the same rows in memory."""
    size = min(PREFIX, n)
    rows = fpp.Rows.from_parquet(path).slice(0, size)
    memory = np.concatenate(list(rows.chunks()))
    found = {}
    for name, call in FITS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            there, here = (call(x, _public(x), random_state=1, progress=False) for x in (rows, memory))
        found[name] = all(np.array_equal(getattr(there, k), getattr(here, k)) for k in _numbers(name))
    return found


def _numbers(name: str) -> tuple[str, ...]:
    return {
        "gaussian": ("mean", "covariance"),
        "regression": ("coefficients", "intercept"),
        "mixture": ("weights", "means", "covariances"),
    }[name]


def apart(call: Any, *given: Any) -> Any:
    """call(*given) in a process of its own."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(call, given)


def main() -> None:
    """Print one line of JSON for each measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000_000], help="sizes of files")
    parser.add_argument("--folder", type=Path, default=None, help="where the file is made (64 bytes a row)")
    parser.add_argument("--fits", nargs="+", default=list(FITS), choices=list(FITS))
    parser.add_argument("--threads", type=int, default=None)
    given = parser.parse_args()
    for n in given.rows:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            path = Path(folder) / "rows.parquet"
            write(path, n)
            plain = min((apart(scan, str(path), n) for _ in range(2)), key=lambda found: float(found["work"]))
            _say(rows=n, scan=plain, rows_per_second=n / plain["seconds"])
            for name in given.fits:
                found = apart(fit, str(path), name, given.threads)
                each, work = found["seconds"] / found["passes"], found["work"] / found["passes"]
                ratios = {"times_a_scan": each / plain["seconds"], "times_its_work": work / plain["work"]}
                _say(rows=n, fit=name, **found, rows_per_second=n / each, **ratios)
            _say(rows=n, prefix=apart(prefix, str(path), n))


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _say(**found: Any) -> None:
    print(json.dumps(_rounded(found)))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
