"""One-dimensional mixtures from private rows alone: total variation by rows, epsilon and number of components."""

from __future__ import annotations

import time
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
    noise_seed,
    panels,
    text_table,
    where,
)
from benchmarks.papers.mixture_cases import (
    CASES,
    FIRST_VERSION,
    Truth,
    anywhere,
    distance_on_line,
    released,
)
from fastpubpriv.mixtures.axis_aligned.axis_aligned_mixture import learn_axis_aligned_mixture
from fastpubpriv.privacy import ApproxDP

DELTA = 1e-6
SIZES = (2000, 5000, 20_000, 100_000)
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
FIXED_ROWS = 20_000  # number of rows where epsilon varies
SEED = 3
FAR_NAMES = {f"k = {k}, means within 1e9": k for k in (1, 2, 3)}


def places() -> list[tuple[str, int, float]]:
    """Return every case at every size with epsilon = 1, and at every epsilon with FIXED_ROWS rows."""
    by_case = sorted({*((n, 1.0) for n in SIZES), *((FIXED_ROWS, epsilon) for epsilon in EPSILONS)})
    return [(name, *each) for name in (*CASES, *FAR_NAMES) for each in by_case]


def one_run(name: str, n: int, epsilon: float, run: int) -> tuple[float, float]:
    """Return total variation and seconds of one fit."""
    rng = np.random.default_rng([SEED, run, n])
    truth: Truth = CASES[name] if name in CASES else anywhere(rng, FAR_NAMES[name])
    sample = truth.draw(rng, n)
    start = time.perf_counter()
    result = learn_axis_aligned_mixture(
        sample,
        n_components=len(truth.weights),
        budget=ApproxDP(epsilon, DELTA),
        random_state=noise_seed(n, run, int(16 * epsilon) % 256),
        threads=1,
        progress=False,
    )
    return distance_on_line(truth, released(result)), time.perf_counter() - start


def rows(options: Options) -> list[Row]:
    """Return medians over the runs at each point."""
    tasks = sorted(
        ((place, run) for place in places() for run in range(options.runs)),
        key=lambda task: -task[0][1],
    )
    answers = options.side_by_side(lambda task: one_run(*task[0], task[1]), tasks, EXPERIMENT.name)
    answer = dict(zip(tasks, answers, strict=True))
    found = []
    for name, n, epsilon in places():
        errors, seconds = np.array(
            [answer[(name, n, epsilon), run] for run in range(options.runs)]
        ).T
        row = {"case": name, "n_priv": n, "epsilon": epsilon, "runs": options.runs}
        row |= {
            "median": float(np.median(errors)),
            "worst": float(errors.max()),
            "seconds": float(np.median(seconds)),
        }
        known = FIRST_VERSION.get(name, {}).get(n) if epsilon == 1.0 else None
        found.append(row | {"first_version": known})
    return found


def lines(found: list[Row], options: Options) -> Iterator[str]:
    """Yield the points with epsilon = 1."""
    columns = {
        "case": "{case}",
        "rows": "{n_priv:,}",
        "median TV": "{median:.4f}",
        "worst": "{worst:.3f}",
        "first version": "{first_version:.3f}",
        "s": "{seconds:.1f}",
    }
    yield from text_table(columns, where(found, epsilon=1.0))


def draw(found: list[Row], options: Options) -> Any:
    """Draw the error against rows, and against epsilon."""
    figure, ((left, right),) = panels(
        10.0, 4.4, across=2, sharey=True, title="Mixtures on the line, no range given"
    )
    for i, name in enumerate([*CASES, *FAR_NAMES]):
        style = "o-" if name in CASES else "o--"
        curve(
            left,
            where(found, case=name, epsilon=1.0),
            "n_priv",
            "median",
            style,
            i,
            ms=3.5,
            label=name,
        )
        curve(
            right, where(found, case=name, n_priv=FIXED_ROWS), "epsilon", "median", style, i, ms=3.5
        )
    finish(left, "private rows (epsilon = 1)", "total variation, median", log="xy", legend=7)
    finish(right, f"epsilon ({FIXED_ROWS:,} rows)", log="xy", legend=0)
    right.minorticks_off()
    right.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    return figure


NOTES = f"""\
Learning mixtures on the line with no range given (Aden-Ali, Ashtiani, Liaw 2021, made practical): median total variation
delta = {DELTA:g}; private rows alone; method 'cells'
means within 1e9: drawn uniformly, with standard deviations over two decades, anew in every run
first_version: thresholded histograms of one scale at a time with a share of epsilon each, and no cells counted afterwards
{SEED_NOTE}"""

EXPERIMENT = Experiment(
    name="c-univariate",
    summary="Mixtures on the line with no range given: total variation against rows, epsilon and components",
    source="Aden-Ali, Ashtiani, Liaw, Privately Learning Mixtures of Axis-Aligned Gaussians (2021), made practical",
    runs=3,
    rows=rows,
    lines=lines,
    draw=draw,
    notes=NOTES,
)
