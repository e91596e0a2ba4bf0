"""The worked example after Proposition 8 of paper B: half the squared error of throw-away and of Gaussian-on-all."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.estimators.weighted_mean import ErrorModel, noise_energy, weighted_mean
from fastpubpriv.experiments.registry import Report
from fastpubpriv.experiments.running import SEED_NOTE, checked_runs, noise_seed, side_by_side, text_table, write_csv
from fastpubpriv.experiments.samples import coin_rows
from fastpubpriv.privacy import ZCDP
from fastpubpriv.results import plots as plotting

NAME = "b-proposition-8"
DIM = 100
N_TOTAL = 10_000
N_PUB = 80
RHO = Fraction(1, 10)
NORM_BOUND = 25.0  # in units of V: the rows have E |x - E x|^2 = V^2 = 1
RUNS = 4000
RUNS_PER_TABLE = 50
SEED = 8
FACTOR = 1.976316  # throw-away / weighted
FACTOR_GAUSSIAN = 1.992126

ESTIMATORS = ("throw_away", "gaussian", "optimal")

NOTES = (
    "Optimal DP Model Training with Public Data, example after Proposition 8: n = 10000, d = 100, B = 25 V, rho = 0.1, n_pub = 80",
    "the paper says a factor of about 1.98 below throw-away and Gaussian; closed_form_factor is E squared error / weighted's",
    "monte_carlo: mean squared l2 error through weighted_mean with row_weight = estimator; rows are signs / sqrt(d), so V = 1",
    f"every run has its own public rows and noise; {RUNS_PER_TABLE} runs share one table of private rows, 0.8 % of the error",
    SEED_NOTE,
)


@dataclass(frozen=True, slots=True)
class Line:
    """One estimator: its private share, and its mean squared error twice."""

    estimator: str
    private_weight: float
    closed_form: float
    closed_form_factor: float
    monte_carlo: float
    standard_error: float
    factor: float
    factor_standard_error: float


def model(n_pub: int = N_PUB) -> ErrorModel:
    """Closed-form squared errors with `n_pub` public rows among N_TOTAL."""
    energy = noise_energy(DIM, NORM_BOUND, float(RHO), pure=False, k_norm=False)
    return ErrorModel(n_priv=N_TOTAL - n_pub, n_pub=n_pub, variance=1.0, noise=energy)


def squared_errors(table: int, runs: int) -> FloatArray:
    """Squared errors (runs, estimators) of runs on one table of private rows, fresh public rows and noise in each run."""
    bits = np.random.SFC64([SEED, table])
    private = _signs(bits, N_TOTAL - N_PUB)
    errors = np.empty((runs, len(ESTIMATORS)))
    for run in range(runs):
        public = _signs(bits, N_PUB)
        for j, estimator in enumerate(ESTIMATORS):
            result = weighted_mean(
                private,
                x_pub=public,
                budget=ZCDP(rho=RHO),
                norm_bound=NORM_BOUND,
                variance=1.0,
                row_weight=estimator,
                random_state=noise_seed(table, run, j),
                threads=1,
                progress=False,
            )
            errors[run, j] = float(result.mean @ result.mean)
    return errors


def _signs(bits: np.random.BitGenerator, n: int) -> Any:
    rows = coin_rows(bits, n, DIM)
    rows -= np.float32(0.5)
    rows *= np.float32(2.0 / math.sqrt(DIM))
    return rows


def lines(*, runs: int = RUNS, threads: int | None = None, progress: bool | None = None) -> list[Line]:
    """Run the example: formula and Monte-Carlo for each estimator."""
    tasks = [(table, min(RUNS_PER_TABLE, runs - table * RUNS_PER_TABLE)) for table in range(-(-runs // RUNS_PER_TABLE))]
    answers = side_by_side(lambda task: squared_errors(*task), tasks, threads=threads, progress=progress, label=NAME)
    errors = np.concatenate(answers)
    theory = model()
    ours = errors[:, -1].mean()
    found = []
    for j, estimator in enumerate(ESTIMATORS):
        factor = errors[:, j].mean() / ours
        # The ratio of two means of the same runs, to first order.
        influence = (errors[:, j] - factor * errors[:, -1]) / ours
        squared = theory.mean_squared_error(estimator)
        found.append(
            Line(
                estimator=estimator,
                private_weight=theory.weight(estimator),
                closed_form=squared,
                closed_form_factor=squared / theory.mean_squared_error("optimal"),
                monte_carlo=float(errors[:, j].mean()),
                standard_error=float(errors[:, j].std(ddof=1)) / math.sqrt(runs),
                factor=float(factor),
                factor_standard_error=float(influence.std(ddof=1)) / math.sqrt(runs),
            )
        )
    return found


def run(out: Path, *, runs: int | None = None, threads: int | None = None, progress: bool | None = None) -> Report:
    """Write `b-proposition-8.csv` and `b-proposition-8.png` into `out`; see `registry.Runner`."""
    start = time.perf_counter()
    count = checked_runs(runs, RUNS)
    found = lines(runs=count, threads=threads, progress=progress)
    columns = (
        *("estimator", "private_weight", "runs", "closed_form", "monte_carlo", "standard_error"),
        *("closed_form_factor", "monte_carlo_factor", "factor_standard_error", "published_factor"),
    )
    table = [
        (
            *(x.estimator, x.private_weight, count, x.closed_form, x.monte_carlo, x.standard_error),
            *(x.closed_form_factor, x.factor, x.factor_standard_error, None if x.estimator == "optimal" else 1.98),
        )
        for x in found
    ]
    csv = write_csv(Path(out) / f"{NAME}.csv", NOTES, columns, table)
    png = draw(found, Path(out) / f"{NAME}.png")
    return Report(name=NAME, lines=summary(found), csv=csv, png=png, seconds=time.perf_counter() - start)


def summary(found: list[Line]) -> tuple[str, ...]:
    """Squared errors and factors, by formula and by Monte-Carlo."""
    rows = [
        (
            *(
                x.estimator,
                f"{x.private_weight:.4f}",
                f"{x.closed_form:.6f}",
                f"{x.monte_carlo:.6f} ± {x.standard_error:.6f}",
            ),
            *(f"{x.closed_form_factor:.6f}", f"{x.factor:.4f} ± {x.factor_standard_error:.4f}"),
        )
        for x in found
    ]
    head = ("estimator", "private weight", "squared error", "Monte-Carlo", "factor", "Monte-Carlo factor")
    return (
        "n = 10000, d = 100, B = 25 V, rho = 0.1, 80 public rows; the paper says a factor of about 1.98",
        *text_table(head, rows),
        SEED_NOTE,
    )


def draw(found: list[Line], path: Path) -> Path:
    """Left, squared error against the private weight; right, the factor against the number of public rows."""
    figure = plotting.new_figure(10.0, 4.0)
    left, right = figure.subplots(1, 2)
    theory = model()
    weights = np.linspace(0.0, 1.0, 201)
    curve = [weight**2 * theory.private_error + (1.0 - weight) ** 2 * theory.public_error for weight in weights]
    left.plot(weights, curve, color=plotting.PALETTE[4], lw=1.0, label="closed form")
    names = {"throw_away": "throw-away", "gaussian": "Gaussian on all rows", "optimal": "weighted"}
    styles = (("v", plotting.PALETTE[2]), ("s", plotting.PALETTE[1]), ("o", plotting.PALETTE[0]))
    for line, (marker, colour) in zip(found, styles, strict=True):
        left.errorbar(
            line.private_weight,
            line.monte_carlo,
            yerr=2.0 * line.standard_error,
            fmt=marker,
            color=colour,
            ms=6,
            capsize=4,
            label=f"{names[line.estimator]}, Monte-Carlo",
        )
    left.set_ylim(bottom=0.0)
    left.set_xlabel("total weight of the private rows")
    left.set_ylabel("mean squared error / V²")
    left.legend(frameon=False, fontsize=8)
    counts = np.unique(np.geomspace(4, 2000, 200).astype(int))
    sides = (("throw_away", "v", plotting.PALETTE[2], 25, "right"), ("gaussian", "s", plotting.PALETTE[1], 270, "left"))
    for line, (estimator, marker, colour, beside, align) in zip(found, sides, strict=False):
        models = [model(int(n)) for n in counts]
        factors = [m.mean_squared_error(estimator) / m.mean_squared_error("optimal") for m in models]
        right.plot(counts, factors, color=colour, lw=1.2)
        right.plot(N_PUB, line.factor, marker, color=colour, mfc="none", ms=7)
        right.text(beside, 3.6, f"{names[estimator]}\n/ weighted", color=colour, ha=align, fontsize=8)
    right.axvline(N_PUB, color=plotting.PALETTE[4], lw=0.8, ls=":")
    shown = " and ".join(f"{line.closed_form_factor:.3f}" for line in found[:2])
    right.annotate(
        f"{N_PUB} public rows:\n{shown}",
        (N_PUB, 1.98),
        xytext=(-28, 0),
        textcoords="offset points",
        fontsize=8,
        ha="right",
        va="center",
    )
    right.set_xscale("log")
    right.set_ylim(0.9, 4.0)
    right.xaxis.set_major_formatter("{x:g}")
    right.set_xlabel("public rows among 10000")
    right.set_ylabel("squared error / weighted squared error")
    for axes in (left, right):
        axes.grid(alpha=0.3, lw=0.5)
    figure.suptitle("n = 10000, d = 100, B = 25 V, ρ = 0.1", fontsize=10)
    plotting.save(figure, path)
    return path
