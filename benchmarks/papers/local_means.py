"""Paper B, section 3: the randomizers side by side, and semi-local means over the share of public rows."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.experiments.registry import Report
from fastpubpriv.experiments.running import (
    SEED_NOTE,
    checked_runs,
    noise_seed,
    side_by_side,
    text_table,
    write_csv,
)
from fastpubpriv.local import (
    Duchi,
    PrivUnit,
    PrivUnitG,
    Randomizer,
    SubsetSelection,
    estimate_mean,
    mean_error,
)
from fastpubpriv.results import plots as plotting

NAME = "b-local"
DIMS, EPSILONS = (10, 100, 1000), (0.5, 1.0, 2.0, 4.0, 8.0)
RANDOMIZERS = ("PrivUnit", "PrivUnitG", "Duchi")
REPORTS = 2000  # for each randomizer, dimension and epsilon, in each run
DIM, EPSILON, N = 10, 4.0, 2000
BITS, BIT_DIM, BIT_EPSILONS = (1, 3, 5, 7, 9), 100, (1.0, 4.0)
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)
RUNS = 20
SEED = 31
BIT_REPORTS = 300  # for each number of bits, in each run

NOTES = (
    "errors of one report: E |Z - x|^2 of a unit vector x, closed form and mean over reports; the best of each group is PrivUnit",
    "at 1000 columns PrivUnitG is 0.05 to 0.4 % above PrivUnit, which takes 10^5 reports to see: there the closed forms tell",
    f"means: {N} rows on the sphere in {DIM} columns, epsilon {EPSILON:g}, of which a share is public; mean of the law",
    f"bits: errors of one report in {BIT_DIM} columns by its size; SubsetSelection names one of 2^bits words of a public book",
    "semi-local is estimate_mean; one weight is LLHR's, each row alike; full local makes reports of all rows; throw-away uses none",
    SEED_NOTE,
)


def randomizer(name: str, dim: int, epsilon: float) -> Randomizer:
    """One of the three, for unit vectors."""
    if name == "Duchi":
        return Duchi(dim, epsilon, 1.0)
    return PrivUnitG(dim, epsilon) if name == "PrivUnitG" else PrivUnit(dim, epsilon)


def report_errors(name: str, dim: int, epsilon: float, run: int) -> FloatArray:
    """Squared errors (REPORTS,) of reports of one vector, fewer of them in many columns."""
    row = np.zeros(dim)
    row[0] = 1.0
    count = min(REPORTS, 200_000 // dim)
    seed = noise_seed(dim, run, RANDOMIZERS.index(name))
    reports = randomizer(name, dim, epsilon).privatize(np.tile(row, (count, 1)), random_state=seed, threads=1)
    found: FloatArray = np.sum((reports.vectors() - row) ** 2, axis=1)
    return found


def few_bits(epsilon: float) -> list[tuple[str, Randomizer]]:
    """Randomizers by the bits of a report, fewest first; a seed and the number of a book are public randomness."""
    books = [(f"SubsetSelection, {bits} bits", SubsetSelection(BIT_DIM, epsilon, words=2**bits)) for bits in BITS]
    seeds, direct = PrivUnit(BIT_DIM, epsilon, form="selection"), PrivUnit(BIT_DIM, epsilon)
    return [
        *books,
        (f"PrivUnit seed, {8 * seeds.report_bytes} bits", seeds),
        (f"PrivUnit, {8 * direct.report_bytes} bits", direct),
    ]


def bit_errors(epsilon: float, place: int, run: int) -> FloatArray:
    """Squared errors of reports of one vector by one of `few_bits`."""
    row = np.full((BIT_REPORTS, BIT_DIM), BIT_DIM**-0.5)
    reports = few_bits(epsilon)[place][1].privatize(row, random_state=noise_seed(place, run, 7), threads=1)
    found: FloatArray = np.sum((reports.vectors() - row) ** 2, axis=1)
    return found


def sphere_rows(bits: np.random.Generator, n: int) -> FloatArray:
    """Rows on the sphere about a common direction."""
    rows = bits.standard_normal((n, DIM)) / math.sqrt(DIM)
    rows[:, 0] += 1.0
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def mean_errors(share: float, run: int, truth: FloatArray) -> list[float]:
    """Squared errors of semi-local, one weight, full local and throw-away."""
    bits = np.random.Generator(np.random.SFC64([SEED, run, round(1000 * share)]))
    rows = sphere_rows(bits, N)
    n_pub = round(share * N)
    device = PrivUnit(DIM, EPSILON)
    reports = device.privatize(rows[n_pub:], random_state=noise_seed(n_pub, run, 5), threads=1)
    everyone = device.privatize(rows, random_state=noise_seed(n_pub, run, 6), threads=1)
    public = rows[:n_pub].copy()
    answers = (
        estimate_mean(reports, x_pub=public).mean,
        estimate_mean(reports, x_pub=public, target="empirical").mean,
        estimate_mean(everyone).mean,
        public.mean(axis=0),
    )
    return [float(np.sum((answer - truth) ** 2)) for answer in answers]


WAYS = ("semi-local", "one weight", "full local", "throw-away")


def run(out: Path, *, runs: int | None = None, threads: int | None = None, progress: bool | None = None) -> Report:
    """Write `b-local.csv` and `b-local.png` into `out`; see `registry.Runner`."""
    start = time.perf_counter()
    count = checked_runs(runs, RUNS)
    truth = sphere_rows(np.random.Generator(np.random.SFC64(SEED)), 400_000).mean(axis=0)
    spread = 1.0 - float(truth @ truth)
    cells = [(name, dim, epsilon) for dim in DIMS for epsilon in EPSILONS for name in RANDOMIZERS]
    tasks: list[Any] = [*(("report", *cell) for cell in cells), *(("mean", share) for share in SHARES)]
    tasks += [("bits", epsilon, place) for epsilon in BIT_EPSILONS for place in range(len(BITS) + 2)]

    def work(task: Any) -> Any:
        if task[0] == "report":
            return np.concatenate(
                [report_errors(task[1], task[2], task[3], each) for each in range(max(1, count // 5))]
            )
        if task[0] == "bits":
            return np.concatenate([bit_errors(task[1], task[2], each) for each in range(max(1, count // 5))])
        return np.array([mean_errors(task[1], each, truth) for each in range(count)])

    answers = side_by_side(work, tasks, threads=threads, progress=progress, label=NAME)
    table: list[tuple[Any, ...]] = []
    for (name, dim, epsilon), errors in zip(cells, answers, strict=False):
        closed = randomizer(name, dim, epsilon).mean_squared_error()
        table.append(("report", name, dim, epsilon, "", len(errors), closed, *_mean(errors)))
    for share, errors in zip(SHARES, answers[len(cells) :], strict=False):
        n_pub = round(share * N)
        device = PrivUnit(DIM, EPSILON)
        best = mean_error(device, n_reports=N - n_pub, n_pub=n_pub, variance=spread)
        weight = 1.0 - n_pub / N
        alike = weight**2 * best.private_error + (1.0 - weight) ** 2 * best.public_error
        full = mean_error(device, n_reports=N, variance=spread).mean_squared_error
        for j, closed in enumerate((best.mean_squared_error, alike, full, best.public_error)):
            table.append(("mean", WAYS[j], DIM, EPSILON, share, count, closed, *_mean(errors[:, j])))
    table += bit_rows(answers[len(cells) + len(SHARES) :])
    columns = (
        "part",
        "method",
        "dim",
        "epsilon",
        "public_share",
        "runs",
        "closed_form",
        "monte_carlo",
        "standard_error",
    )
    out.mkdir(parents=True, exist_ok=True)
    csv, png = out / f"{NAME}.csv", out / f"{NAME}.png"
    write_csv(csv, NOTES, columns, table)
    _draw(table, png)
    shown = [row for row in table if row[0] in ("mean", "bits") or (row[2] == 100 and row[1] != "PrivUnitG")]
    lines = (*text_table(columns, [[_short(cell) for cell in row] for row in shown]),)
    return Report(name=NAME, lines=lines, csv=csv, png=png, seconds=time.perf_counter() - start)


def bit_rows(answers: list[FloatArray]) -> list[tuple[Any, ...]]:
    """Rows of the table for `few_bits`, from errors in the order of the tasks."""
    found = iter(answers)
    return [
        ("bits", name, BIT_DIM, epsilon, "", len(errors), device.mean_squared_error(), *_mean(errors))
        for epsilon in BIT_EPSILONS
        for (name, device), errors in zip(few_bits(epsilon), found, strict=False)
    ]


def _mean(values: FloatArray) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values))


def _short(cell: Any) -> str:
    return f"{cell:.5g}" if isinstance(cell, float) else str(cell)


def _draw(table: list[tuple[Any, ...]], path: Path) -> None:
    figure = plotting.new_figure(10.0, 4.0)
    left, right = figure.subplots(1, 2)
    # The branches of the minimax rate, d / epsilon^2 and d / epsilon, over a range wider than that of the reports.
    wide = np.geomspace(0.1, 30.0, 60)
    for dim in DIMS:
        closed = [PrivUnit(dim, float(epsilon)).mean_squared_error() for epsilon in wide]
        left.plot(wide, closed, "-", color="lightgrey", linewidth=4.0, zorder=0)
    low, high = wide[wide <= 1.5], wide[wide >= 3.0]
    left.plot(low, 12.0 * DIMS[-1] / low**2, "k-", linewidth=0.7, label="falls like 1 / epsilon^2")
    left.plot(high, 4.0 * DIMS[-1] / high, "k--", linewidth=0.7, label="falls like 1 / epsilon")
    for dim in DIMS:
        for j, (name, style) in enumerate(zip(RANDOMIZERS, ("o-", "x--", "^:"), strict=True)):
            rows = [row for row in table if row[:3] == ("report", name, dim)]
            label = name if dim == DIMS[0] else None
            left.plot(
                [row[3] for row in rows], [row[7] for row in rows], style, color=f"C{j}", markersize=4, label=label
            )
        left.text(0.1, 0.45 * PrivUnit(dim, 0.1).mean_squared_error(), f"{dim} columns", fontsize=7, va="top")
    for way in WAYS:
        rows = [row for row in table if row[:2] == ("mean", way)]
        right.plot([row[4] for row in rows], [row[7] for row in rows], "o", label=way)
        right.plot([row[4] for row in rows], [row[6] for row in rows], "-", color=right.lines[-1].get_color())
    for axes, label in ((left, "epsilon"), (right, "public share of the rows")):
        axes.set(xlabel=label, ylabel="squared error", xscale="log", yscale="log")
        axes.legend(fontsize=6)
    shown = (0.1, *EPSILONS, 30.0)
    left.set_xticks(shown, [f"{epsilon:g}" for epsilon in shown])
    left.set_xticks([], minor=True)
    left.set_title("one report")
    right.set_title(f"mean of {N} rows, epsilon {EPSILON:g}")
    plotting.save(figure, path)
