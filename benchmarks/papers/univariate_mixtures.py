"""Mixtures on the line from private rows alone: total variation against rows, epsilon and the number of components."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fastpubpriv.experiments.mixture_cases import CASES, FIRST_VERSION, Truth, anywhere, distance_on_line, released
from fastpubpriv.experiments.registry import Report
from fastpubpriv.experiments.running import SEED_NOTE, checked_runs, noise_seed, side_by_side, text_table, write_csv
from fastpubpriv.mixtures.axis_aligned.learn import learn_axis_aligned_mixture
from fastpubpriv.privacy import ApproxDP
from fastpubpriv.results import plots as plotting

NAME = "c-univariate"
RUNS = 3
DELTA = 1e-6
SIZES = (2000, 5000, 20_000, 100_000)
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
FIXED_ROWS = 20_000  # where epsilon varies
SEED = 3
FAR_NAMES = {f"k = {k}, means within 1e9": k for k in (1, 2, 3)}

NOTES = (
    "Learning mixtures on the line with no range given (Aden-Ali, Ashtiani, Liaw 2021, made practical): median total variation",
    f"delta = {DELTA:g}; private rows alone; method 'univariate'",
    "means within 1e9: drawn uniformly, with standard deviations over two decades, anew in every run",
    "first_version: thresholded histograms of one scale at a time with a share of epsilon each, and no cells counted afterwards",
    SEED_NOTE,
)


@dataclass(frozen=True, slots=True)
class Point:
    """Median over the runs at one place."""

    case: str
    n: int
    epsilon: float
    median: float
    worst: float
    seconds: float

    @property
    def first_version(self) -> float | None:
        """What thresholded histograms alone reached, where it was measured."""
        return FIRST_VERSION.get(self.case, {}).get(self.n) if self.epsilon == 1.0 else None


def places(sizes: Iterable[int], epsilons: Iterable[float], fixed: int) -> list[tuple[str, int, float]]:
    """Every case at every size with epsilon = 1, and at every epsilon with a fixed number of rows."""
    names = [*CASES, *FAR_NAMES]
    found = [(name, n, 1.0) for name in names for n in sizes]
    found += [(name, fixed, epsilon) for name in names for epsilon in epsilons]
    return sorted(set(found), key=lambda each: (names.index(each[0]), each[1], each[2]))


def one_run(name: str, n: int, epsilon: float, run: int) -> tuple[float, float]:
    """Total variation and seconds of one fit."""
    rng = np.random.default_rng([SEED, run, n])
    truth: Truth = CASES[name] if name in CASES else anywhere(rng, FAR_NAMES[name])
    rows = truth.draw(rng, n)
    start = time.perf_counter()
    result = learn_axis_aligned_mixture(
        rows,
        n_components=len(truth.weights),
        budget=ApproxDP(epsilon, DELTA),
        random_state=noise_seed(n, run, int(16 * epsilon) % 256),
        threads=1,
        progress=False,
    )
    return distance_on_line(truth, released(result)), time.perf_counter() - start


def points(
    *,
    sizes: tuple[int, ...] = SIZES,
    epsilons: tuple[float, ...] = EPSILONS,
    fixed: int = FIXED_ROWS,
    runs: int = RUNS,
    threads: int | None = None,
    progress: bool | None = None,
) -> list[Point]:
    """All medians."""
    where = places(sizes, epsilons, fixed)
    tasks = sorted(((place, run) for place in where for run in range(runs)), key=lambda task: -task[0][1])
    answers = dict(
        zip(
            tasks,
            side_by_side(
                lambda task: one_run(*task[0], task[1]), tasks, threads=threads, progress=progress, label=NAME
            ),
            strict=True,
        )
    )
    found = []
    for place in where:
        values = [answers[place, run] for run in range(runs)]
        errors = [error for error, _ in values]
        found.append(
            Point(*place, float(np.median(errors)), max(errors), float(np.median([seconds for _, seconds in values])))
        )
    return found


def draw(found: list[Point], sizes: tuple[int, ...], fixed: int, path: Path) -> None:
    """Error against rows, and against epsilon."""
    figure = plotting.new_figure(10.0, 4.4)
    left, right = figure.subplots(1, 2, sharey=True)
    for index, name in enumerate([*CASES, *FAR_NAMES]):
        colour = plotting.PALETTE[index % len(plotting.PALETTE)]
        style = {"color": colour, "lw": 1.3, "marker": "o", "ms": 3.5, "ls": "-" if name in CASES else "--"}
        by_rows = [point for point in found if point.case == name and point.epsilon == 1.0 and point.n in sizes]
        left.plot([p.n for p in by_rows], [p.median for p in by_rows], label=name, **style)
        by_epsilon = [point for point in found if point.case == name and point.n == fixed]
        right.plot([p.epsilon for p in by_epsilon], [p.median for p in by_epsilon], **style)
    for axes, label in ((left, "private rows (epsilon = 1)"), (right, f"epsilon ({fixed:,} rows)")):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(label)
        axes.grid(alpha=0.3, lw=0.5)
    shown = sorted({point.epsilon for point in found if point.n == fixed})
    right.minorticks_off()
    right.set_xticks(shown, [f"{epsilon:g}" for epsilon in shown])
    left.set_ylabel("total variation, median")
    left.legend(frameon=False, fontsize=7)
    figure.suptitle("Mixtures on the line, no range given", fontsize=10)
    plotting.save(figure, path)


def run(out: Path, *, runs: int | None = None, threads: int | None = None, progress: bool | None = None) -> Report:
    """Write `c-univariate.csv` and `c-univariate.png` into `out`; see `registry.Runner`."""
    return _run(out, SIZES, EPSILONS, FIXED_ROWS, checked_runs(runs, RUNS), threads, progress)


def _run(
    out: Path,
    sizes: tuple[int, ...],
    epsilons: tuple[float, ...],
    fixed: int,
    runs: int,
    threads: int | None,
    progress: bool | None,
) -> Report:
    start = time.perf_counter()
    found = points(sizes=sizes, epsilons=epsilons, fixed=fixed, runs=runs, threads=threads, progress=progress)
    columns = ("case", "n_priv", "epsilon", "runs", "median", "worst", "seconds", "first_version")
    rows = [(p.case, p.n, p.epsilon, runs, p.median, p.worst, p.seconds, p.first_version) for p in found]
    csv = write_csv(out / f"{NAME}.csv", NOTES, columns, rows)
    png = out / f"{NAME}.png"
    draw(found, sizes, fixed, png)
    shown = [p for p in found if p.epsilon == 1.0]
    lines = text_table(
        ("case", "rows", "median TV", "worst", "first version", "s"),
        [
            (
                p.case,
                f"{p.n:,}",
                f"{p.median:.4f}",
                f"{p.worst:.3f}",
                "" if p.first_version is None else f"{p.first_version:.3f}",
                f"{p.seconds:.1f}",
            )
            for p in shown
        ],
    )
    return Report(name=NAME, lines=lines, csv=csv, png=png, seconds=time.perf_counter() - start)
