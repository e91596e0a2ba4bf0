"""The worked example after Proposition 8 of paper B: both baselines are 1.98 times worse than the weighted mean."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np

from fastpubpriv.estimators.weighted_mean import ErrorModel, noise_energy, weighted_mean
from fastpubpriv.experiments.registry import Report
from fastpubpriv.experiments.running import SEED_NOTE, checked_runs, noise_seed, side_by_side, text_table, write_csv
from fastpubpriv.plotting import PALETTE, new_figure, save
from fastpubpriv.privacy import ZCDP

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

N_TOTAL, N_PUB, DIM = 10_000, 80, 100
N_PRIV = N_TOTAL - N_PUB
RHO = 0.1
NORM_BOUND = 25.0  # in units of V, the root of the expected squared distance from the mean
RUNS = 2000
METHODS = {"weighted": "optimal", "throw-away": "throw_away", "Gaussian on all": "gaussian"}
PAPER = {"throw-away": 0.0125, "Gaussian on all": 0.0126, "factor": 1.98}


def model() -> ErrorModel:
    """The closed form of the example, with V = 1."""
    energy = noise_energy(DIM, NORM_BOUND, RHO, pure=False, k_norm=False)
    return ErrorModel(n_priv=N_PRIV, n_pub=N_PUB, variance=1.0, noise=energy)


def squared_errors(index: int) -> FloatArray:
    """Squared l2 error of each method on one sample of Gaussian rows with V = 1."""
    rng = np.random.default_rng(np.random.SeedSequence((8, index)))
    rows = rng.standard_normal((N_PRIV, DIM), dtype=np.float32) / np.float32(math.sqrt(DIM))
    public = rng.standard_normal((N_PUB, DIM)) / math.sqrt(DIM)
    found = np.empty(len(METHODS))
    for j, weight in enumerate(METHODS.values()):
        result = weighted_mean(
            rows,
            x_pub=public,
            budget=ZCDP(rho=RHO),
            norm_bound=NORM_BOUND,
            variance=1.0,
            row_weight=weight,
            project=False,
            threads=1,
            progress=False,
            random_state=noise_seed(8, index, j),
        )
        found[j] = float(np.sum(np.square(result.mean)))
    return found


def run(out: Path, *, runs: int | None = None, threads: int | None = None, progress: bool | None = None) -> Report:
    """Formula and simulation; write `b-proposition-8.csv` and `b-proposition-8.png` into `out`."""
    begin = time.perf_counter()
    count = checked_runs(runs, RUNS)
    found = np.array(
        side_by_side(squared_errors, range(count), threads=threads, progress=progress, label="b-proposition-8")
    )
    mean, spread = found.mean(axis=0), found.std(axis=0, ddof=1) / math.sqrt(count)
    form = model()
    forms = {method: form.mean_squared_error(weight) for method, weight in METHODS.items()}
    columns = ("method", "mean_squared_error", "standard_error", "closed_form", "paper", "factor", "closed_form_factor")
    rows = [
        (
            method,
            float(mean[j]),
            float(spread[j]),
            forms[method],
            PAPER.get(method),
            float(mean[j] / mean[0]),
            forms[method] / forms["weighted"],
        )
        for j, method in enumerate(METHODS)
    ]
    notes = (f"n={N_TOTAL}, n_pub={N_PUB}, d={DIM}, B={NORM_BOUND:g} V, rho={RHO}, {count} runs", SEED_NOTE)
    csv = write_csv(out / "b-proposition-8.csv", notes, columns, rows)
    png = draw(out / "b-proposition-8.png", mean, spread, forms)
    table = [
        (row[0], f"{row[1]:.6f}", f"{row[3]:.6f}", f"{row[4]:.4f}" if row[4] else "-", f"{row[6]:.3f}") for row in rows
    ]
    better = min(value for method, value in forms.items() if method != "weighted") / forms["weighted"]
    lines = (
        *text_table(("mean squared error / V^2", "simulated", "closed form", "paper", "times the weighted one"), table),
        f"the better baseline is {better:.3f} times worse than the weighted mean; the paper says about {PAPER['factor']}",
        SEED_NOTE,
    )
    return Report(name="b-proposition-8", lines=lines, csv=csv, png=png, seconds=time.perf_counter() - begin)


def draw(path: Path, mean: FloatArray, spread: FloatArray, forms: dict[str, float]) -> Path:
    """Bars of the simulated errors with the closed forms as lines across them."""
    figure = new_figure(5.6, 4.0)
    axes = figure.subplots()
    for j, value in enumerate(forms.values()):
        axes.bar(j, mean[j], yerr=2.0 * spread[j], width=0.6, color=PALETTE[j], alpha=0.8, capsize=4)
        axes.hlines(value, j - 0.4, j + 0.4, color="black", lw=1.5, label="closed form" if j == 0 else None)
        axes.annotate(f"{value / forms['weighted']:.3f} x", (j, value), (0, 6), textcoords="offset points", ha="center")
    axes.set_xticks(range(len(forms)))
    axes.set_xticklabels(list(forms))
    axes.set_ylim(0.0, 1.2 * max(forms.values()))
    axes.set_ylabel("mean squared error / V^2")
    axes.set_title("Example of Proposition 8: bars simulated, lines closed form", fontsize=10)
    axes.legend(frameon=False, loc="upper left", fontsize=8)
    save(figure, path)
    return path
