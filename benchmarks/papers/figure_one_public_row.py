"""Figure 1 of paper A: l2 error of the mean of a Gaussian, CoinPress with weak bounds against one public row."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from fastpubpriv.estimators.coinpress import coinpress_mean
from fastpubpriv.estimators.mean import estimate_mean
from fastpubpriv.estimators.radii import chi_radius, expected_normal_norm, predict_steps
from fastpubpriv.experiments.registry import Report
from fastpubpriv.experiments.running import (
    SEED_NOTE,
    checked_runs,
    noise_seed,
    side_by_side,
    text_table,
    trimmed,
    write_csv,
)
from fastpubpriv.experiments.samples import normal_rows
from fastpubpriv.privacy import ZCDP
from fastpubpriv.results import plots as plotting
from fastpubpriv.run import noise_per_radius

NAME = "a-figure-1"
DIM = 50
RHO = Fraction(1, 2)
STEPS = 2
FAILURE = 0.01
RUNS = 100
OFFSETS = (10, 100, 1000)
SIZES = tuple(int(n) for n in np.linspace(1000, 10_000, 12))
SEED = 0

_TICKS = (0.07, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  # plain numbers: the figure is drawn without mathtext, in half the time

NON_PRIVATE = "non-private"
ONE_PUBLIC = "1 public row, R(d)"
AS_PUBLISHED = "1 public row, R(n) as published"


def coinpress_name(offset: int) -> str:
    """Name of the CoinPress curve whose bounds are `offset` sqrt(d) wide."""
    return f"CoinPress, k={offset}"


CURVES = (NON_PRIVATE, *(coinpress_name(offset) for offset in OFFSETS), ONE_PUBLIC, AS_PUBLISHED)

# The published script, run again with seed 0 and numpy 2.4; it has no curve with the radius that the paper defines, R(d).
PUBLISHED: dict[str, dict[int, float]] = {
    NON_PRIVATE: {1000: 0.2258, 3454: 0.1183, 6727: 0.0867, 10_000: 0.0691},
    "CoinPress, k=10": {1000: 0.2870, 3454: 0.1268, 6727: 0.0897, 10_000: 0.0706},
    "CoinPress, k=100": {1000: 0.5589, 3454: 0.1352, 6727: 0.0909, 10_000: 0.0710},
    "CoinPress, k=1000": {1000: 4.4324, 3454: 0.3967, 6727: 0.1359, 10_000: 0.0848},
    ONE_PUBLIC: {1000: 0.2735, 3454: 0.1265, 6727: 0.0895, 10_000: 0.0706},
    AS_PUBLISHED: {1000: 0.2767, 3454: 0.1268, 6727: 0.0896, 10_000: 0.0707},
}

NOTES = (
    "Private Estimation with Public Data, Figure 1: l2 error of the mean of n rows N(k 1, I), d = 50, rho = 0.5 zCDP, two steps",
    "CoinPress knows a ball of radius k sqrt(d) around 0; the public curves know one public row, and no k",
    "trimmed_mean, trimmed_std: over the runs, 10 % dropped at each end",
    "closed_form: expected error when nothing is clipped; deviation = trimmed_mean / closed_form - 1",
    "published: the published script run again with the radius named; R(n) is the radius of its code, R(d) that of the paper",
    "the rows are the same for every k but for the shift, as in the published script, which seeds itself before each k",
    "a run draws one sample, of which size n takes the first n rows: every point has the law of a fresh sample",
    "the public curves are computed once, at k = 10: the estimator is translation equivariant, so they do not depend on k",
    SEED_NOTE,
)


@dataclass(frozen=True, slots=True)
class Point:
    """One point of one curve."""

    curve: str
    n: int
    trimmed_mean: float
    trimmed_std: float
    closed_form: float

    @property
    def deviation(self) -> float:
        """Relative distance from the closed form."""
        return self.trimmed_mean / self.closed_form - 1.0

    @property
    def published(self) -> float | None:
        """The published script's number, where there is one."""
        return PUBLISHED[self.curve].get(self.n)


def closed_form(curve: str, n: int) -> float:
    """Expected l2 error of a curve when no row is clipped: a chi mean times sampling and noise together."""
    if curve == NON_PRIVATE:
        return expected_normal_norm(DIM) / math.sqrt(n)
    radii = {coinpress_name(offset): offset * math.sqrt(DIM) for offset in OFFSETS}
    radii |= {ONE_PUBLIC: chi_radius(DIM, FAILURE), AS_PUBLISHED: chi_radius(n, FAILURE)}
    noise = noise_per_radius(DIM, pure=False, allowance=RHO)
    path = predict_steps(
        DIM, n, radii[curve], steps=STEPS, noise_per_radius=noise, mode="practical", failure_prob=FAILURE
    )
    return path[-1].error


def errors_of_run(run: int, sizes: tuple[int, ...]) -> dict[tuple[str, int], float]:
    """Error of every curve at every size on one data set, of which a size takes the first rows; a function of `run` alone."""
    bits = np.random.SFC64([SEED, run])
    sample, publics = normal_rows(bits, max(sizes), DIM), normal_rows(bits, len(sizes), DIM)
    errors = {(NON_PRIVATE, n): float(np.linalg.norm(sample[:n].mean(axis=0))) for n in sizes}
    common: dict[str, Any] = {"budget": ZCDP(rho=RHO), "steps": STEPS, "threads": 1, "progress": False}
    shift = 0
    for index, offset in enumerate(OFFSETS):
        sample += offset - shift
        publics += offset - shift
        shift = offset

        def distance(result: Any, mean: int = offset) -> float:
            return float(np.linalg.norm(result.mean - mean))

        for n, public in zip(sizes, publics, strict=True):
            rows, seed = sample[:n], noise_seed(n, run, 3 * index)
            errors[coinpress_name(offset), n] = distance(
                coinpress_mean(rows, center=0.0, radius=offset * math.sqrt(DIM), random_state=seed, **common)
            )
            if index > 0:
                continue
            # Half of the failure probability is the public row's, so that R = tb(d, 0.01) as in the paper.
            errors[ONE_PUBLIC, n] = distance(
                estimate_mean(
                    rows, x_pub=public, clipping="gaussian", failure_prob=2 * FAILURE, random_state=seed + 1, **common
                )
            )
            errors[AS_PUBLISHED, n] = distance(
                coinpress_mean(rows, center=public, radius=chi_radius(n, FAILURE), random_state=seed + 2, **common)
            )
    return errors


def points(
    *,
    sizes: tuple[int, ...] = SIZES,
    runs: int = RUNS,
    threads: int | None = None,
    progress: bool | None = None,
) -> list[Point]:
    """Run the figure: every curve at every size, by curve and then by size."""
    answers = side_by_side(
        lambda run: errors_of_run(run, sizes), range(runs), threads=threads, progress=progress, label=NAME
    )
    return [
        Point(curve, n, *trimmed(np.array([answer[curve, n] for answer in answers])), closed_form(curve, n))
        for curve in CURVES
        for n in sorted(sizes)
    ]


def run(out: Path, *, runs: int | None = None, threads: int | None = None, progress: bool | None = None) -> Report:
    """Write `a-figure-1.csv` and `a-figure-1.png` into `out`; see `registry.Runner`."""
    start = time.perf_counter()
    count = checked_runs(runs, RUNS)
    drawn = points(runs=count, threads=threads, progress=progress)
    columns = ("curve", "n", "runs", "trimmed_mean", "trimmed_std", "closed_form", "deviation", "published")
    table = [
        (p.curve, p.n, count, p.trimmed_mean, p.trimmed_std, p.closed_form, p.deviation, p.published) for p in drawn
    ]
    csv = write_csv(Path(out) / f"{NAME}.csv", NOTES, columns, table)
    png = draw(drawn, count, Path(out) / f"{NAME}.png")
    return Report(name=NAME, lines=summary(drawn), csv=csv, png=png, seconds=time.perf_counter() - start)


def summary(drawn: list[Point]) -> tuple[str, ...]:
    """Ours, the closed form and the published number at the sizes for which there is a published one."""
    shown = tuple(PUBLISHED[NON_PRIVATE])
    found = {(p.curve, p.n): p for p in drawn}
    rows = [
        (
            curve,
            *(f"{p.trimmed_mean:.4f}/{p.closed_form:.4f}/{p.published:.4f}" for p in (found[curve, n] for n in shown)),
        )
        for curve in CURVES
    ]
    worst = max(drawn, key=lambda p: abs(p.deviation))
    return (
        "l2 error: ours / closed form / published script",
        *text_table(("curve", *(f"n={n}" for n in shown)), rows),
        f"largest deviation from the closed form: {worst.deviation:+.1%} ({worst.curve}, n={worst.n})",
        "the curves with a public row do not depend on k and are computed once; " + SEED_NOTE,
    )


def draw(drawn: list[Point], runs: int, path: Path) -> Path:
    """One panel for each k: markers are ours with the trimmed standard deviation, lines the closed forms."""
    from matplotlib.ticker import FixedLocator, NullLocator

    figure = plotting.new_figure(11.0, 4.2)
    panels = figure.subplots(1, len(OFFSETS), sharey=True)
    for axes, offset in zip(panels, OFFSETS, strict=True):
        # Large, open markers first: where curves meet, all of them stay visible.
        shown = (
            (coinpress_name(offset), "s", 6.5),
            (AS_PUBLISHED, "^", 5.0),
            (ONE_PUBLIC, "o", 3.5),
            (NON_PRIVATE, "v", 4),
        )
        for (curve, marker, size), colour in zip(shown, plotting.PALETTE, strict=False):
            line = [p for p in drawn if p.curve == curve]
            sizes = np.array([p.n for p in line])
            middle = np.array([p.trimmed_mean for p in line])
            spread = np.array([p.trimmed_std for p in line])
            axes.fill_between(sizes, middle - spread, middle + spread, color=colour, alpha=0.15, lw=0)
            axes.plot(sizes, [p.closed_form for p in line], color=colour, lw=1.0)
            filled = colour if marker in "ov" else "none"
            axes.plot(sizes, middle, marker, color=colour, mfc=filled, ms=size, label=curve)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(FixedLocator(_TICKS))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_title(f"mean {offset} in each coordinate", fontsize=10)
        axes.set_xlabel("private rows n")
        axes.grid(alpha=0.3, lw=0.5)
        axes.legend(frameon=False, fontsize=8)
    panels[0].set_ylabel("distance to the mean")
    figure.suptitle(
        f"Mean of N(μ, I), d = 50, ρ = 0.5. Markers and bands: {runs} runs. Lines: closed forms.", fontsize=10
    )
    plotting.save(figure, path)
    return path
