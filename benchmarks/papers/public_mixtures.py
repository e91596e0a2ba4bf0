"""Mixtures with public rows: the public list with pure epsilon, and EM continued on private rows."""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.experiments.mixture_cases import CASES, Truth, blobs, distance_by_draws, distance_on_line, released
from fastpubpriv.experiments.registry import Report
from fastpubpriv.experiments.running import SEED_NOTE, checked_runs, noise_seed, side_by_side, text_table, write_csv
from fastpubpriv.mixtures.axis_aligned.dp_em import Parameters, public_start
from fastpubpriv.mixtures.axis_aligned.learn import learn_axis_aligned_mixture
from fastpubpriv.privacy import ZCDP, PureDP
from fastpubpriv.results import plots as plotting

NAME = "c-public"
RUNS = 7
SEED = 5
RHO = Fraction(176, 10_000)

NOTES = (
    "Mixtures learnt from private rows and a few public ones: median total variation over the runs",
    "public_list: pure epsilon = 1, 2,000 private rows, one column; dp_em: rho = 0.0176, three components, 300 public rows",
    "public_alone: the likeliest of 20 EM fits to the public rows; aim: what the acceptance table asks for",
    SEED_NOTE,
)


@dataclass(frozen=True, slots=True)
class Place:
    """One row of the table."""

    method: str
    case: str
    dim: int
    n_pub: int
    n_priv: int
    aim: float


PLACES = (
    Place("public_list", "two", 1, 50, 2000, 0.037),
    Place("public_list", "two", 1, 200, 2000, 0.029),
    Place("public_list", "concentric", 1, 50, 2000, 0.058),
    Place("public_list", "concentric", 1, 200, 2000, 0.034),
    Place("public_list", "three", 1, 50, 2000, 0.080),
    Place("public_list", "three", 1, 200, 2000, 0.044),
    Place("dp_em", "three blobs", 5, 300, 10_000, 0.056),
    Place("dp_em", "three blobs", 20, 300, 10_000, 0.147),
    Place("dp_em", "three blobs", 20, 300, 50_000, 0.041),
)


def alone(public: FloatArray, components: int) -> Truth:
    """The fit to the public rows."""
    at: Parameters = public_start(public, components, known_std=False)[0]
    return Truth(at.weights, at.means, at.stds)


def one_run(place: Place, run: int) -> tuple[float, float, float]:
    """Total variation of the release and of the public rows alone, and seconds."""
    rng = np.random.default_rng([SEED, run, place.dim, place.n_pub, place.n_priv])
    truth = CASES[place.case] if place.case in CASES else blobs(rng, 3, place.dim)
    public, private = truth.draw(rng, place.n_pub), truth.draw(rng, place.n_priv)
    start = time.perf_counter()
    result = learn_axis_aligned_mixture(
        private,
        x_pub=public,
        n_components=len(truth.weights),
        budget=PureDP(1) if place.method == "public_list" else ZCDP(RHO),
        method=place.method,
        random_state=noise_seed(place.n_priv, run, place.dim),
        threads=1,
        progress=False,
    )
    seconds = time.perf_counter() - start
    errors = []
    for found in (released(result), alone(public, len(truth.weights))):
        errors.append(distance_on_line(truth, found) if place.dim == 1 else distance_by_draws(truth, found, rng))
    return errors[0], errors[1], seconds


def run(out: Path, *, runs: int | None = None, threads: int | None = None, progress: bool | None = None) -> Report:
    """Write `c-public.csv` and `c-public.png` into `out`; see `registry.Runner`."""
    return _run(out, PLACES, checked_runs(runs, RUNS), threads, progress)


def _run(out: Path, places: tuple[Place, ...], runs: int, threads: int | None, progress: bool | None) -> Report:
    start = time.perf_counter()
    tasks = [(place, run) for place in places for run in range(runs)]
    answers = side_by_side(lambda task: one_run(*task), tasks, threads=threads, progress=progress, label=NAME)
    medians = np.median(np.array(answers).reshape(len(places), runs, 3), axis=1)
    columns = ("method", "case", "dim", "n_pub", "n_priv", "runs", "median", "public_alone", "aim", "seconds")
    rows = [
        (p.method, p.case, p.dim, p.n_pub, p.n_priv, runs, float(m[0]), float(m[1]), p.aim, float(m[2]))
        for p, m in zip(places, medians, strict=True)
    ]
    csv = write_csv(out / f"{NAME}.csv", NOTES, columns, rows)
    png = out / f"{NAME}.png"
    draw(places, medians, png)
    lines = text_table(
        ("case", "columns", "public", "private", "median TV", "public alone", "aim", "s"),
        [
            (
                f"{p.method} {p.case}",
                str(p.dim),
                str(p.n_pub),
                f"{p.n_priv:,}",
                f"{m[0]:.4f}",
                f"{m[1]:.3f}",
                f"{p.aim:.3f}",
                f"{m[2]:.1f}",
            )
            for p, m in zip(places, medians, strict=True)
        ],
    )
    return Report(name=NAME, lines=lines, csv=csv, png=png, seconds=time.perf_counter() - start)


def draw(places: tuple[Place, ...], medians: FloatArray, path: Path) -> None:
    """Public rows alone, and with the private ones."""
    figure = plotting.new_figure(8.0, 4.2)
    axes = figure.subplots()
    where = np.arange(len(places))
    axes.bar(where - 0.2, medians[:, 1], 0.38, color=plotting.PALETTE[4], label="public rows alone")
    axes.bar(where + 0.2, medians[:, 0], 0.38, color=plotting.PALETTE[0], label="released")
    axes.set_xticks(where)
    labels = [f"{p.method}\n{p.case}\nd={p.dim}, m={p.n_pub}\nn={p.n_priv:,}" for p in places]
    axes.set_xticklabels(labels, fontsize=6)
    axes.set_ylabel("total variation, median")
    axes.grid(axis="y", alpha=0.3, lw=0.5)
    axes.legend(frameon=False, fontsize=8)
    axes.set_title("Mixtures with a few public rows", fontsize=10)
    plotting.save(figure, path)
