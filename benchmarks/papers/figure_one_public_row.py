"""Figure 1 of paper A: l2 error of the mean of a Gaussian, CoinPress with weak bounds against one public row."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from benchmarks.papers.experiment import (
    SEED_NOTE,
    Experiment,
    Options,
    Row,
    column,
    crossed,
    curve,
    finish,
    noise_seed,
    panels,
    trimmed,
    where,
)
from benchmarks.papers.samples import normal_rows
from fastpubpriv.estimators.coinpress import coinpress_mean
from fastpubpriv.estimators.mean import estimate_mean
from fastpubpriv.estimators.radii import chi_radius, expected_normal_norm, predict_steps
from fastpubpriv.privacy import ZCDP
from fastpubpriv.privacy.spending import GaussianSpending
from fastpubpriv.results.plots import PALETTE

DIM = 50
RHO = Fraction(1, 2)
STEPS = 2
FAILURE = 0.01
OFFSETS = (10, 100, 1000)
SIZES = tuple(int(n) for n in np.linspace(1000, 10_000, 12))
SEED = 0

NON_PRIVATE = "non-private"
ONE_PUBLIC = "1 public row, R(d)"
AS_PUBLISHED = "1 public row, R(n) as published"


def coinpress_name(offset: int) -> str:
    """Return the name of the CoinPress curve with bounds of width `offset` sqrt(d)."""
    return f"CoinPress, k={offset}"


CURVES = (NON_PRIVATE, *(coinpress_name(offset) for offset in OFFSETS), ONE_PUBLIC, AS_PUBLISHED)

# Results of the published script with seed 0 and numpy 2.4; it has no curve with the paper's radius R(d).
PUBLISHED: dict[str, dict[int, float]] = {
    NON_PRIVATE: {1000: 0.2258, 3454: 0.1183, 6727: 0.0867, 10_000: 0.0691},
    "CoinPress, k=10": {1000: 0.2870, 3454: 0.1268, 6727: 0.0897, 10_000: 0.0706},
    "CoinPress, k=100": {1000: 0.5589, 3454: 0.1352, 6727: 0.0909, 10_000: 0.0710},
    "CoinPress, k=1000": {1000: 4.4324, 3454: 0.3967, 6727: 0.1359, 10_000: 0.0848},
    ONE_PUBLIC: {1000: 0.2735, 3454: 0.1265, 6727: 0.0895, 10_000: 0.0706},
    AS_PUBLISHED: {1000: 0.2767, 3454: 0.1268, 6727: 0.0896, 10_000: 0.0707},
}


def closed_form(name: str, n: int) -> float:
    """Return the expected l2 error of a curve without clipping: the mean of a chi variable times the total standard deviation."""
    if name == NON_PRIVATE:
        return expected_normal_norm(DIM) / math.sqrt(n)
    radii = {coinpress_name(offset): offset * math.sqrt(DIM) for offset in OFFSETS}
    radii |= {ONE_PUBLIC: chi_radius(DIM, FAILURE), AS_PUBLISHED: chi_radius(n, FAILURE)}
    per_radius = partial(GaussianSpending(RHO).std, "sum", DIM)
    settings: dict[str, Any] = {"steps": STEPS, "mode": "practical", "failure_prob": FAILURE}
    return predict_steps(
        DIM, n, radii[name], noise=lambda share, clip: clip * per_radius(share), **settings
    )[-1].error


def errors_of_run(run: int) -> dict[tuple[str, int], float]:
    """Return the errors of every curve at every size on one data set, nested over the sizes; a function of `run` alone."""
    bits = np.random.SFC64([SEED, run])
    sample = normal_rows(bits, max(SIZES), DIM)
    publics = normal_rows(bits, len(SIZES), DIM)
    errors = {(NON_PRIVATE, n): float(np.linalg.norm(sample[:n].mean(axis=0))) for n in SIZES}
    common: dict[str, Any] = {
        "budget": ZCDP(rho=RHO),
        "steps": STEPS,
        "threads": 1,
        "progress": False,
    }
    shift = 0
    for index, offset in enumerate(OFFSETS):
        sample += offset - shift
        publics += offset - shift
        shift = offset

        def distance(result: Any, mean: int = offset) -> float:
            return float(np.linalg.norm(result.mean - mean))

        for n, public in zip(SIZES, publics, strict=True):
            rows = sample[:n]
            seed = noise_seed(n, run, 3 * index)
            errors[coinpress_name(offset), n] = distance(
                coinpress_mean(
                    rows, center=0.0, radius=offset * math.sqrt(DIM), random_state=seed, **common
                )
            )
            if index > 0:
                continue
            # Half of the failure probability belongs to the public row, so that R = tb(d, 0.01) as in the paper.
            errors[ONE_PUBLIC, n] = distance(
                estimate_mean(
                    rows,
                    x_pub=public,
                    clipping="gaussian",
                    failure_prob=2 * FAILURE,
                    random_state=seed + 1,
                    **common,
                )
            )
            errors[AS_PUBLISHED, n] = distance(
                coinpress_mean(
                    rows,
                    center=public,
                    radius=chi_radius(n, FAILURE),
                    random_state=seed + 2,
                    **common,
                )
            )
    return errors


def rows(options: Options) -> list[Row]:
    """Return every curve at every size, by curve and then by size."""
    answers = options.side_by_side(errors_of_run, range(options.runs), EXPERIMENT.name)
    found = []
    for name in CURVES:
        for n in SIZES:
            middle, spread = trimmed(np.array([answer[name, n] for answer in answers]))
            closed = closed_form(name, n)
            row = {
                "curve": name,
                "n": n,
                "runs": options.runs,
                "trimmed_mean": middle,
                "trimmed_std": spread,
            }
            row |= {
                "closed_form": closed,
                "deviation": middle / closed - 1.0,
                "published": PUBLISHED[name].get(n),
            }
            found.append(row)
    return found


def lines(found: list[Row], options: Options) -> Iterator[str]:
    """Yield ours, the closed form and the published number at the published sizes."""
    yield "l2 error: ours / closed form / published script"
    shown = [row for row in found if row["published"] is not None]
    yield from crossed(shown, "curve", "n", "{trimmed_mean:.4f}/{closed_form:.4f}/{published:.4f}")
    worst = max(found, key=lambda row: abs(row["deviation"]))
    yield f"largest deviation from the closed form: {worst['deviation']:+.1%} ({worst['curve']}, n={worst['n']})"
    yield "the curves with a public row do not depend on k and are computed once; " + SEED_NOTE


def draw(found: list[Row], options: Options) -> Any:
    """Draw a panel for each k: markers are ours with the trimmed standard deviation, lines the closed forms."""
    title = f"Mean of N(μ, I), d = 50, ρ = 0.5. Markers and bands: {options.runs} runs. Lines: closed forms."
    figure, grid = panels(11.0, 4.2, across=len(OFFSETS), sharey=True, title=title)
    for axes, offset in zip(grid[0], OFFSETS, strict=True):
        # Large, open markers first, so that coinciding curves stay visible.
        names = (coinpress_name(offset), AS_PUBLISHED, ONE_PUBLIC, NON_PRIVATE)
        for i, (name, marker, size) in enumerate(
            zip(names, "s^ov", (6.5, 5.0, 3.5, 4.0), strict=True)
        ):
            part = where(found, curve=name)
            middle = column(part, "trimmed_mean")
            spread = column(part, "trimmed_std")
            axes.fill_between(
                column(part, "n"),
                middle - spread,
                middle + spread,
                color=PALETTE[i],
                alpha=0.15,
                lw=0,
            )
            curve(axes, part, "n", "closed_form", "-", i, lw=1.0)
            filled = PALETTE[i] if marker in "ov" else "none"
            curve(axes, part, "n", "trimmed_mean", marker, i, mfc=filled, ms=size, label=name)
        title = f"mean {offset} in each coordinate"
        finish(
            axes, "private rows n", log="y", title=title, ticks=(0.07, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
        )
    grid[0, 0].set_ylabel("distance to the mean")
    return figure


NOTES = f"""\
Private Estimation with Public Data, Figure 1: l2 error of the mean of n rows N(k 1, I), d = 50, rho = 0.5 zCDP, two steps
CoinPress knows a ball of radius k sqrt(d) around 0; the public curves know one public row, and no k
trimmed_mean, trimmed_std: over the runs, 10 % dropped at each end
closed_form: expected error when nothing is clipped; deviation = trimmed_mean / closed_form - 1
published: the published script run again with the radius named; R(n) is the radius of its code, R(d) that of the paper
the rows are the same for every k but for the shift, as in the published script, which seeds itself before each k
a run draws one sample, of which size n takes the first n rows: every point has the law of a fresh sample
the public curves are computed once, at k = 10: the estimator is translation equivariant, so they do not depend on k
{SEED_NOTE}"""

EXPERIMENT = Experiment(
    name="a-figure-1",
    summary="Mean of a Gaussian: one public row against CoinPress with bounds that are 10, 100 and 1000 wide",
    source="Bie, Kamath, Singhal, Private Estimation with Public Data (2022), Figure 1",
    runs=100,
    rows=rows,
    lines=lines,
    draw=draw,
    notes=NOTES,
)
