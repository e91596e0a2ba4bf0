"""What the experiments share: runs side by side, seeded noise without a warning each, trimmed statistics, CSV and text tables."""

from __future__ import annotations

import csv
import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import SeededNoiseWarning
from fastpubpriv.threads.pool import available_cpus

Task = TypeVar("Task")
Answer = TypeVar("Answer")

SEED_NOTE = "data and noise come from seeds, so that the table repeats: a demonstration, not a private release"


def checked_runs(runs: int | None, default: int) -> int:
    """Number of runs, at least two."""
    return default if runs is None else validation.integer("runs", runs, minimum=2)


def checked_threads(threads: int | None) -> int:
    """Number of threads; None is all cores."""
    return available_cpus() if threads is None else validation.integer("threads", threads, minimum=1)


def noise_seed(size: int, run: int, call: int) -> int:
    """Seed of one noisy call, from its place in the experiment: the same for any number of threads and any order.

    Seeds need only differ: keys are hashes of them.
    """
    return (size << 40) + (run << 8) + call


@contextmanager
def seeded_quietly() -> Iterator[None]:
    """Silence the warning about seeded noise inside the block; every CSV carries `SEED_NOTE` in its place."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        yield


def side_by_side(
    function: Callable[[Task], Answer],
    tasks: Sequence[Task],
    *,
    threads: int | None,
    progress: bool | None,
    label: str,
) -> list[Answer]:
    """Apply `function` to every task on `threads` threads; answers in the order of the tasks.

    Threads are enough: generators, kernels and NumPy let go of the interpreter's lock. Long tasks should come first.
    """
    from tqdm import tqdm

    workers = min(checked_threads(threads), max(len(tasks), 1))
    hidden = None if progress is None else not progress  # None: tqdm hides itself where there is no terminal
    answers: dict[int, Answer] = {}
    with seeded_quietly(), tqdm(total=len(tasks), desc=label, disable=hidden, delay=2.0, leave=False) as bar:
        if workers == 1:
            for index, task in enumerate(tasks):
                answers[index] = function(task)
                bar.update()
        else:
            pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="experiment")
            try:
                futures = {pool.submit(function, task): index for index, task in enumerate(tasks)}
                for future in as_completed(futures):
                    answers[futures[future]] = future.result()
                    bar.update()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
    return [answers[index] for index in range(len(tasks))]


def trimmed(errors: FloatArray, share: float = 0.1) -> tuple[float, float]:
    """Mean and standard deviation of what is left after dropping `share` of the runs at each end."""
    cut = int(share * len(errors))
    kept = np.sort(errors)[cut : len(errors) - cut]
    return float(kept.mean()), float(kept.std())


def write_csv(path: Path, notes: Iterable[str], columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    """Write `rows` below `columns`; `notes` come first, as lines that begin with '#'."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        file.writelines(f"# {note}\n" for note in notes)
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([cell(value) for value in row] for row in rows)
    return path


def cell(value: Any) -> str:
    """One value of a CSV: seven digits, and nothing where there is no number."""
    if value is None:
        return ""
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def text_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Align cells into lines: the first column to the left, the others to the right."""
    grid = [tuple(columns), *(tuple(row) for row in rows)]
    widths = [max(len(row[j]) for row in grid) for j in range(len(columns))]
    return tuple(
        "  ".join(
            itertools.chain(
                (row[0].ljust(widths[0]),), (text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True))
            )
        ).rstrip()
        for row in grid
    )
