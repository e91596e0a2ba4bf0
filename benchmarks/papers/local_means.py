"""Paper B, section 3: comparison of the randomizers, and semi-local means by the share of public rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.papers.experiment import (
    SEED_NOTE,
    Experiment,
    Options,
    Row,
    curve,
    finish,
    mean_and_error,
    noise_seed,
    panels,
    text_table,
    where,
)
from fastpubpriv._types import FloatArray
from fastpubpriv.local import (
    Duchi,
    PrivUnit,
    PrivUnitG,
    Randomizer,
    SubsetSelection,
    estimate_mean,
    mean_error,
)

DIMS = (10, 100, 1000)
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
RANDOMIZERS = ("PrivUnit", "PrivUnitG", "Duchi")
REPORTS = 2000  # for each randomizer, dimension and epsilon, in each run
DIM, EPSILON, N = 10, 4.0, 2000
BITS = (1, 3, 5, 7, 9)
BIT_DIM = 100
BIT_EPSILONS = (1.0, 4.0)
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)
SEED = 31
BIT_REPORTS = 300  # for each number of bits, in each run


def randomizer(name: str, dim: int, epsilon: float) -> Randomizer:
    """Return one of the three randomizers of unit vectors."""
    if name == "Duchi":
        return Duchi(dim, epsilon, 1.0)
    return PrivUnitG(dim, epsilon) if name == "PrivUnitG" else PrivUnit(dim, epsilon)


def report_errors(name: str, dim: int, epsilon: float, run: int) -> FloatArray:
    """Return squared errors of REPORTS reports of one vector, of fewer if `dim` is large."""
    row = np.zeros(dim)
    row[0] = 1.0
    count = min(REPORTS, 200_000 // dim)
    seed = noise_seed(dim, run, RANDOMIZERS.index(name))
    reports = randomizer(name, dim, epsilon).privatize(
        np.tile(row, (count, 1)), random_state=seed, threads=1
    )
    found: FloatArray = np.sum((reports.vectors() - row) ** 2, axis=1)
    return found


def few_bits(epsilon: float) -> list[tuple[str, Randomizer]]:
    """Return randomizers by the bits of a report, fewest first; a seed and the index of a codebook are public randomness."""
    books = [
        (f"SubsetSelection, {bits} bits", SubsetSelection(BIT_DIM, epsilon, words=2**bits))
        for bits in BITS
    ]
    seeds = PrivUnit(BIT_DIM, epsilon, form="selection")
    direct = PrivUnit(BIT_DIM, epsilon)
    return [
        *books,
        (f"PrivUnit seed, {8 * seeds.report_bytes} bits", seeds),
        (f"PrivUnit, {8 * direct.report_bytes} bits", direct),
    ]


def bit_errors(epsilon: float, place: int, run: int) -> FloatArray:
    """Return squared errors of reports of one vector by one of `few_bits`."""
    row = np.full((BIT_REPORTS, BIT_DIM), BIT_DIM**-0.5)
    reports = few_bits(epsilon)[place][1].privatize(
        row, random_state=noise_seed(place, run, 7), threads=1
    )
    found: FloatArray = np.sum((reports.vectors() - row) ** 2, axis=1)
    return found


def sphere_rows(bits: np.random.Generator, n: int) -> FloatArray:
    """Return rows on the sphere around a common direction."""
    rows = bits.standard_normal((n, DIM)) / math.sqrt(DIM)
    rows[:, 0] += 1.0
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def mean_errors(share: float, run: int, truth: FloatArray) -> list[float]:
    """Return squared errors of semi-local, one weight, full local and throw-away."""
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


def rows(options: Options) -> list[Row]:
    """Return errors of single reports, of means, and of reports of few bits."""
    truth = sphere_rows(np.random.Generator(np.random.SFC64(SEED)), 400_000).mean(axis=0)
    runs = range(options.runs)
    few = range(max(1, options.runs // 5))
    single = [(name, dim, epsilon) for dim in DIMS for epsilon in EPSILONS for name in RANDOMIZERS]
    short = [(epsilon, place) for epsilon in BIT_EPSILONS for place in range(len(BITS) + 2)]
    tasks: list[Any] = [
        lambda each=each: np.concatenate([report_errors(*each, run) for run in few])
        for each in single
    ]
    tasks += [
        lambda share=share: np.array([mean_errors(share, run, truth) for run in runs])
        for share in SHARES
    ]
    tasks += [
        lambda each=each: np.concatenate([bit_errors(*each, run) for run in few]) for each in short
    ]
    answers = iter(options.side_by_side(lambda task: task(), tasks, EXPERIMENT.name))
    found = []
    for name, dim, epsilon in single:
        closed = randomizer(name, dim, epsilon).mean_squared_error()
        found.append(row_of("report", name, dim, epsilon, None, closed, next(answers)))
    for share in SHARES:
        closed_forms = closed_means(share, 1.0 - float(truth @ truth))
        errors = next(answers)
        for j, (way, closed) in enumerate(zip(WAYS, closed_forms, strict=True)):
            found.append(row_of("mean", way, DIM, EPSILON, share, closed, errors[:, j]))
    for epsilon, place in short:
        name, device = few_bits(epsilon)[place]
        found.append(
            row_of("bits", name, BIT_DIM, epsilon, None, device.mean_squared_error(), next(answers))
        )
    return found


def row_of(
    part: str,
    method: str,
    dim: int,
    epsilon: float,
    share: float | None,
    closed: float,
    errors: FloatArray,
) -> Row:
    """Return one row of the table."""
    row = {
        "part": part,
        "method": method,
        "dim": dim,
        "epsilon": epsilon,
        "public_share": share,
        "runs": len(errors),
    }
    mean, error = mean_and_error(errors)
    return row | {"closed_form": closed, "monte_carlo": mean, "standard_error": error}


def closed_means(share: float, spread: float) -> tuple[float, ...]:
    """Return the closed-form squared errors of the four methods, for rows of variance `spread`."""
    n_pub = round(share * N)
    device = PrivUnit(DIM, EPSILON)
    best = mean_error(device, n_reports=N - n_pub, n_pub=n_pub, variance=spread)
    weight = 1.0 - n_pub / N
    alike = weight**2 * best.private_error + (1.0 - weight) ** 2 * best.public_error
    full = mean_error(device, n_reports=N, variance=spread).mean_squared_error
    return best.mean_squared_error, alike, full, best.public_error


def lines(found: list[Row], options: Options) -> Iterator[str]:
    """Yield all rows, but of single reports only a selection."""
    shown = [
        x
        for x in found
        if x["part"] != "report" or (x["dim"] == 100 and x["method"] != "PrivUnitG")
    ]
    yield from text_table(
        {name: f"{{{name}}}" for name in found[0]},
        [{k: _short(v) for k, v in x.items()} for x in shown],
    )


def _short(cell: Any) -> str:
    return "" if cell is None else f"{cell:.5g}" if isinstance(cell, float) else str(cell)


def draw(found: list[Row], options: Options) -> Any:
    """Draw the error of one report by epsilon and dimension (left), and that of a mean by the share of public rows (right)."""
    figure, ((left, right),) = panels(10.0, 4.0, across=2)
    # The branches of the minimax rate, d / epsilon^2 and d / epsilon, over a wider range than that of the reports.
    wide = np.geomspace(0.1, 30.0, 60)
    for dim in DIMS:
        closed = [PrivUnit(dim, float(epsilon)).mean_squared_error() for epsilon in wide]
        left.plot(wide, closed, "-", color="lightgrey", linewidth=4.0, zorder=0)
        left.text(0.1, 0.45 * closed[0], f"{dim} columns", fontsize=7, va="top")
    low = wide[wide <= 1.5]
    high = wide[wide >= 3.0]
    left.plot(low, 12.0 * DIMS[-1] / low**2, "k-", linewidth=0.7, label="falls like 1 / epsilon^2")
    left.plot(high, 4.0 * DIMS[-1] / high, "k--", linewidth=0.7, label="falls like 1 / epsilon")
    for dim in DIMS:
        for j, (name, style) in enumerate(zip(RANDOMIZERS, ("o-", "x--", "^:"), strict=True)):
            part = where(found, part="report", method=name, dim=dim)
            curve(
                left,
                part,
                "epsilon",
                "monte_carlo",
                style,
                j,
                label=name if dim == DIMS[0] else None,
            )
    for j, way in enumerate(WAYS):
        part = where(found, part="mean", method=way)
        curve(right, part, "public_share", "monte_carlo", "o", j, label=way)
        curve(right, part, "public_share", "closed_form", "-", j)
    shown = (0.1, *EPSILONS, 30.0)
    finish(left, "epsilon", "squared error", log="xy", title="one report", legend=6)
    left.set_xticks(shown, [f"{epsilon:g}" for epsilon in shown])
    left.set_xticks([], minor=True)
    title = f"mean of {N} rows, epsilon {EPSILON:g}"
    finish(right, "public share of the rows", "squared error", log="xy", title=title, legend=6)
    return figure


NOTES = f"""\
errors of one report: E |Z - x|^2 of a unit vector x, closed form and mean over reports; the best of each group is PrivUnit
at 1000 columns PrivUnitG is 0.05 to 0.4 % above PrivUnit, which takes 10^5 reports to see: there the closed forms tell
means: {N} rows on the sphere in {DIM} columns, epsilon {EPSILON:g}, of which a share is public; mean of the law
bits: errors of one report in {BIT_DIM} columns by its size; SubsetSelection names one of 2^bits words of a public book
semi-local is estimate_mean; one weight is LLHR's, each row alike; full local makes reports of all rows; throw-away uses none
{SEED_NOTE}"""

EXPERIMENT = Experiment(
    name="b-local",
    summary="The local model: PrivUnit, PrivUnitG and Duchi by dimension and epsilon; semi-local means by public share",
    source="Lowy, Li, Huang, Razaviyayn, Optimal DP Model Training with Public Data (2024), section 3 and Appendix F",
    runs=20,
    rows=rows,
    lines=lines,
    draw=draw,
    notes=NOTES,
)
