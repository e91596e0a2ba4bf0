"""Figures 12 to 14 of paper B: mean of Bernoulli rows from private and public ones, by the share of public rows."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fastpubpriv.estimators.weighted_mean import ErrorModel, noise_energy, weighted_mean
from fastpubpriv.experiments.registry import Report
from fastpubpriv.experiments.running import SEED_NOTE, checked_runs, noise_seed, side_by_side, text_table, write_csv
from fastpubpriv.plotting import PALETTE, new_figure, save
from fastpubpriv.privacy import ZCDP

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

DIM = 1000
RHO = 0.5
TOTALS = (500, 1000, 2000)
SHARES = tuple(round(0.05 * step, 2) for step in range(1, 20))
RUNS = 20
METHODS = {"weighted": "optimal", "throw-away": "throw_away", "Gaussian on all": "gaussian"}
# The paper does not say which: rows as 0 and 1 about the origin, or about the centre of the cube, where the radius is half.
ENCODINGS = {"0/1": (0.0, math.sqrt(DIM)), "centred": (0.5, math.sqrt(DIM) / 2.0)}
VARIANCE = DIM / 4.0


@dataclass(frozen=True, slots=True)
class Point:
    """One place on the horizontal axis of one panel."""

    total: int
    share: float

    @property
    def n_pub(self) -> int:
        """Public rows."""
        return round(self.share * self.total)


def model(point: Point, norm_bound: float) -> ErrorModel:
    """The closed form of the mean squared error at a point."""
    energy = noise_energy(DIM, norm_bound, RHO, pure=False, k_norm=False)
    return ErrorModel(n_priv=point.total - point.n_pub, n_pub=point.n_pub, variance=VARIANCE, noise=energy)


def errors(task: tuple[Point, int]) -> FloatArray:
    """l2 errors of one run, (encodings, methods), on one sample of rows."""
    point, index = task
    rng = np.random.default_rng(np.random.SeedSequence((point.total, point.n_pub, index)))
    rows = (rng.integers(0, 2, size=(point.total, DIM), dtype=np.int8)).astype(np.float32)
    public, private = rows[: point.n_pub].copy(), rows[point.n_pub :].copy()
    found = np.empty((len(ENCODINGS), len(METHODS)))
    for i, (center, norm_bound) in enumerate(ENCODINGS.values()):
        for j, weight in enumerate(METHODS.values()):
            result = weighted_mean(
                private,
                x_pub=public,
                budget=ZCDP(rho=RHO),
                norm_bound=norm_bound,
                center=center,
                variance=VARIANCE,
                row_weight=weight,
                project=False,
                threads=1,
                progress=False,
                random_state=noise_seed(point.total << 12 | point.n_pub, index, 8 * i + j),
            )
            found[i, j] = np.linalg.norm(result.mean - 0.5)
    return found


def run(out: Path, *, runs: int | None = None, threads: int | None = None, progress: bool | None = None) -> Report:
    """Simulate the three panels; write `b-figures-12-14.csv` and `b-figures-12-14.png` into `out`."""
    begin = time.perf_counter()
    count = checked_runs(runs, RUNS)
    points = [Point(total, share) for total in TOTALS for share in SHARES]
    tasks = [(point, index) for point in points for index in range(count)]
    answers = side_by_side(errors, tasks, threads=threads, progress=progress, label="b-figures-12-14")
    means = np.array(answers).reshape(len(points), count, len(ENCODINGS), len(METHODS)).mean(axis=1)

    columns = ("encoding", "n", "public_share", "method", "l2_error", "closed_form", "ratio")
    rows: list[tuple[Any, ...]] = []
    worst, best_everywhere = 0.0, True
    for i, (encoding, (_, norm_bound)) in enumerate(ENCODINGS.items()):
        for k, point in enumerate(points):
            for j, (method, weight) in enumerate(METHODS.items()):
                exact = math.sqrt(model(point, norm_bound).mean_squared_error(weight))
                ratio = float(means[k, i, j]) / exact
                worst = max(worst, abs(ratio - 1.0))
                rows.append((encoding, point.total, point.share, method, float(means[k, i, j]), exact, ratio))
            best_everywhere &= bool(means[k, i, 0] <= means[k, i, 1:].min())
    notes = (
        f"d={DIM}, Bernoulli(1/2), rho={RHO}, {count} runs, mean l2 error beside the root of the closed form",
        SEED_NOTE,
    )
    csv = write_csv(out / "b-figures-12-14.csv", notes, columns, rows)
    png = draw(out / "b-figures-12-14.png", points, means)
    table = [
        (f"n={point.total}, {point.share:.0%} public, {encoding}", *(f"{value:.3f}" for value in means[k, i]))
        for i, encoding in enumerate(ENCODINGS)
        for k, point in enumerate(points)
        if point.share in (0.05, 0.5, 0.95)
    ]
    verdict = "at every point" if best_everywhere else "not at every point"
    lines = (
        *text_table(("mean l2 error", *METHODS), table),
        f"the weighted estimator is below both baselines {verdict}; largest deviation from the closed forms {worst:.1%}",
        SEED_NOTE,
    )
    return Report(name="b-figures-12-14", lines=lines, csv=csv, png=png, seconds=time.perf_counter() - begin)


def draw(path: Path, points: list[Point], means: FloatArray) -> Path:
    """A panel for each n (across) and encoding (down): simulated points on the lines of the closed forms."""
    figure = new_figure(11.0, 6.4)
    panels = figure.subplots(len(ENCODINGS), len(TOTALS), sharex=True, sharey="row", squeeze=False)
    for i, (encoding, (_, norm_bound)) in enumerate(ENCODINGS.items()):
        for column, total in enumerate(TOTALS):
            axes = panels[i][column]
            chosen = [k for k, point in enumerate(points) if point.total == total]
            for j, (method, weight) in enumerate(METHODS.items()):
                line = [math.sqrt(model(points[k], norm_bound).mean_squared_error(weight)) for k in chosen]
                axes.plot(SHARES, line, color=PALETTE[j], lw=1.2)
                axes.plot(SHARES, means[chosen, i, j], "os^"[j], color=PALETTE[j], ms=3.5, label=method)
            axes.set_yscale("log")
            axes.grid(which="both", alpha=0.25, lw=0.5)
            axes.set_title(f"n = {total}, rows {encoding}", fontsize=9)
            if i == len(ENCODINGS) - 1:
                axes.set_xlabel("share of public rows")
            if column == 0:
                axes.set_ylabel("l2 error")
    panels[0][0].legend(frameon=False, fontsize=8)
    figure.suptitle(f"Mean of {DIM} binary columns at rho = {RHO}: points simulated, lines closed form", fontsize=10)
    save(figure, path)
    return path
