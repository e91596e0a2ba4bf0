"""Covariance without public rows: CoinPress's curves by number of rounds, and what the right order of matrices is worth."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from fastpubpriv.estimators.covariance import coinpress_covariance
from fastpubpriv.experiments.registry import Report
from fastpubpriv.experiments.running import SEED_NOTE, checked_runs, noise_seed, side_by_side, text_table, write_csv
from fastpubpriv.privacy import ZCDP
from fastpubpriv.results import plots as plotting

NAME = "coinpress-covariance"
DIM = 10
RHO = Fraction(1, 2)
RUNS = 100
STEPS = (1, 2, 3, 4, 5)
SIZES = (3000, 4000, 5000, 6000, 7000, 8000)
# The second part: a covariance with eigenvalues from 1 to 100, for which the order of the matrices matters.
SKEWED, SKEWED_SIZE = 100.0, 8000
SEED = 1


@dataclass(frozen=True, slots=True)
class Known:
    """Relative Frobenius errors measured elsewhere with other noise, or with the published code."""

    orthogonal: float | None = None
    triangle: float | None = None
    published: float | None = None


# (condition, steps, n). `orthogonal` and `triangle` are the right order with noise that is invariant under rotations, as ours,
# and with independent noise on the upper triangle; `published` is the published code, whose order is wrong from three rounds on.
KNOWN: dict[tuple[float, int, int], Known] = {
    (1.0, 2, 3000): Known(orthogonal=0.361, triangle=0.485),
    (1.0, 2, 8000): Known(orthogonal=0.141, triangle=0.159),
    (1.0, 3, 3000): Known(triangle=0.246),
    (1.0, 3, 8000): Known(triangle=0.129),
    (1.0, 4, 3000): Known(orthogonal=0.215, triangle=0.235, published=0.353),
    (SKEWED, 2, SKEWED_SIZE): Known(published=0.74),
    (SKEWED, 3, SKEWED_SIZE): Known(triangle=0.14, published=0.86),
    (SKEWED, 5, SKEWED_SIZE): Known(triangle=0.12, published=2.17),
}

NOTES = (
    "Biswas, Dong, Kamath, Ullman, CoinPress (2020): covariance of n rows N(0, S), d = 10, rho = 0.5 zCDP, t rounds",
    "condition 1: S = I, eigenvalues known to be at most 10 sqrt(d); condition 100: random directions, at most 1000",
    "median, lower_quartile, upper_quartile: of the relative Frobenius error |S^-1/2 C S^-1/2 - I| over the runs",
    "non_private: expected error of the sample covariance, sqrt(d (d + 1) / n)",
    "orthogonal, triangle: the same algorithm measured with invariant noise (ours) and with noise on the upper triangle",
    "published: the published code, which multiplies matrices in the wrong order from three rounds on",
    SEED_NOTE,
)


@dataclass(frozen=True, slots=True)
class Point:
    """One cell of the table."""

    condition: float
    steps: int
    n: int
    lower: float
    median: float
    upper: float

    @property
    def non_private(self) -> float:
        """Expected error of the sample covariance."""
        return math.sqrt(DIM * (DIM + 1) / self.n)

    @property
    def known(self) -> Known:
        """Numbers to compare with, if there are any."""
        return KNOWN.get((self.condition, self.steps, self.n), Known())


def bound_on(condition: float) -> float:
    """Bound on the largest eigenvalue that the estimator is told."""
    return 10.0 * math.sqrt(DIM) if condition == 1.0 else 10.0 * condition


def errors_of_run(condition: float, n: int, run: int) -> list[float]:
    """Error for every number of rounds on one data set; a function of the arguments alone."""
    generator = np.random.Generator(np.random.SFC64([SEED, int(condition), n, run]))
    directions = np.linalg.qr(generator.standard_normal((DIM, DIM)))[0]
    factor = directions * np.sqrt(np.geomspace(1.0, condition, DIM))
    rows = generator.standard_normal((n, DIM)) @ factor.T
    errors = []
    for steps in STEPS:
        result = coinpress_covariance(
            rows,
            budget=ZCDP(rho=RHO),
            scale=bound_on(condition),
            steps=steps,
            random_state=noise_seed(n, run, steps + 16 * (condition > 1.0)),
            threads=1,
            progress=False,
        )
        half = np.linalg.solve(factor, result.covariance)
        errors.append(float(np.linalg.norm(np.linalg.solve(factor, half.T) - np.eye(DIM))))
    return errors


def points(
    *, sizes: tuple[int, ...] | None = None, runs: int = RUNS, threads: int | None = None, progress: bool | None = None
) -> list[Point]:
    """Run both parts: by condition, then by rounds, then by size."""
    cells = [(1.0, n) for n in (SIZES if sizes is None else sizes)] + [(SKEWED, SKEWED_SIZE)]
    tasks = [(condition, n, run) for condition, n in sorted(cells, key=lambda cell: -cell[1]) for run in range(runs)]
    answers = side_by_side(lambda task: errors_of_run(*task), tasks, threads=threads, progress=progress, label=NAME)
    errors: dict[tuple[float, int, int], list[float]] = defaultdict(list)
    for (condition, n, _), answer in zip(tasks, answers, strict=True):
        for steps, error in zip(STEPS, answer, strict=True):
            errors[condition, steps, n].append(error)
    return [Point(*key, *(float(q) for q in np.quantile(errors[key], [0.25, 0.5, 0.75]))) for key in sorted(errors)]


def run(out: Path, *, runs: int | None = None, threads: int | None = None, progress: bool | None = None) -> Report:
    """Write `coinpress-covariance.csv` and `.png` into `out`; see `registry.Runner`."""
    start = time.perf_counter()
    count = checked_runs(runs, RUNS)
    found = points(runs=count, threads=threads, progress=progress)
    columns = (
        "condition", "steps", "n", "runs", "median", "lower_quartile", "upper_quartile", "non_private",
        "orthogonal", "triangle", "published",
    )  # fmt: skip
    table = [
        (
            p.condition, p.steps, p.n, count, p.median, p.lower, p.upper, p.non_private,
            p.known.orthogonal, p.known.triangle, p.known.published,
        )
        for p in found
    ]  # fmt: skip
    csv = write_csv(Path(out) / f"{NAME}.csv", NOTES, columns, table)
    png = draw(found, count, Path(out) / f"{NAME}.png")
    return Report(name=NAME, lines=summary(found), csv=csv, png=png, seconds=time.perf_counter() - start)


def summary(found: list[Point]) -> tuple[str, ...]:
    """Our medians by rounds and size, and beside them the known numbers."""
    sizes = sorted({p.n for p in found if p.condition == 1.0})
    ours = {(p.condition, p.steps, p.n): p for p in found}
    curves = [(f"t = {steps}", *(f"{ours[1.0, steps, n].median:.3f}" for n in sizes)) for steps in STEPS] + [
        ("non-private", *(f"{math.sqrt(DIM * (DIM + 1) / n):.3f}" for n in sizes))
    ]

    def shown(value: float | None) -> str:
        return "-" if value is None else f"{value:.3f}"

    beside = [
        (
            f"condition {p.condition:g}, t = {p.steps}, n = {p.n}",
            f"{p.median:.3f}",
            shown(p.known.orthogonal),
            shown(p.known.triangle),
            shown(p.known.published),
        )
        for p in found
        if p.known != Known()
    ]
    return (
        "median relative Frobenius error of the covariance, S = I",
        *text_table(("rounds", *(f"n={n}" for n in sizes)), curves),
        "",
        "beside known numbers: the same noise, noise on the upper triangle, the published code",
        *text_table(("", "ours", "same noise", "triangle", "published"), beside),
        SEED_NOTE,
    )


def draw(found: list[Point], runs: int, path: Path) -> Path:
    """Curves by size on the left, condition 100 by number of rounds on the right."""
    figure = plotting.new_figure(10.0, 4.2)
    left, right = figure.subplots(1, 2)
    for steps, marker, colour in zip(STEPS, "ov^sD", plotting.PALETTE, strict=False):
        line = [p for p in found if p.condition == 1.0 and p.steps == steps]
        sizes = [p.n for p in line]
        left.fill_between(sizes, [p.lower for p in line], [p.upper for p in line], color=colour, alpha=0.15, lw=0)
        left.plot(sizes, [p.median for p in line], marker=marker, ms=4, lw=1.1, color=colour, label=f"t = {steps}")
        known = [(p.n, p.known.orthogonal) for p in line if p.known.orthogonal is not None]
        left.plot([n for n, _ in known], [value for _, value in known], "x", ms=9, mew=1.4, color=colour)
    sizes = sorted({p.n for p in found if p.condition == 1.0})
    left.plot(
        sizes, [math.sqrt(DIM * (DIM + 1) / n) for n in sizes], "--", lw=1.0, color="#555555", label="non-private"
    )
    left.plot([], [], "x", ms=8, mew=1.4, color="#555555", label="reference run")
    left.set_yscale("log")
    left.set_xlabel("private rows n")
    left.set_ylabel("relative Frobenius error")
    left.set_title("S = I", fontsize=10)
    line = [p for p in found if p.condition == SKEWED]
    right.errorbar(
        [p.steps for p in line], [p.median for p in line],
        yerr=[[p.median - p.lower for p in line], [p.upper - p.median for p in line]],
        fmt="o-", ms=5, capsize=3, lw=1.1, color=plotting.PALETTE[0], label="ours",
    )  # fmt: skip
    code = [(p.steps, p.known.published) for p in line if p.known.published is not None]
    right.plot(
        [t for t, _ in code],
        [v for _, v in code],
        "s--",
        ms=5,
        lw=1.0,
        color=plotting.PALETTE[1],
        label="published code",
    )
    right.axhline(math.sqrt(DIM * (DIM + 1) / SKEWED_SIZE), ls="--", lw=1.0, color="#555555", label="non-private")
    right.set_yscale("log")
    right.set_xticks(STEPS)
    right.set_xlabel("rounds t")
    right.set_title(f"condition {SKEWED:g}, n = {SKEWED_SIZE}", fontsize=10)
    for axes in (left, right):
        axes.grid(which="major", alpha=0.3, lw=0.5)
        axes.legend(frameon=False, fontsize=8)
    figure.suptitle(f"CoinPress covariance, d = {DIM}, rho = 0.5: medians and quartiles of {runs} runs", fontsize=10)
    plotting.save(figure, path)
    return path
