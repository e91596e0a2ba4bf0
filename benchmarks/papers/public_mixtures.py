"""Mixtures with public rows: cells of one column under pure epsilon, and EM continued on private rows of several."""

from __future__ import annotations

import time
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from benchmarks.papers.experiment import (
    SEED_NOTE,
    Experiment,
    Options,
    Row,
    column,
    finish,
    noise_seed,
    panels,
    text_table,
)
from benchmarks.papers.mixture_cases import (
    CASES,
    Truth,
    blobs,
    distance_by_draws,
    distance_on_line,
    released,
)
from fastpubpriv.mixtures.axis_aligned.axis_aligned_mixture import learn_axis_aligned_mixture
from fastpubpriv.mixtures.public_em import axis_aligned_start
from fastpubpriv.privacy import ZCDP, PureDP
from fastpubpriv.results.plots import PALETTE

SEED = 5
RHO = Fraction(176, 10_000)


class Place(NamedTuple):
    """One row of the table."""

    method: str
    case: str
    dim: int
    n_pub: int
    n_priv: int
    aim: float


PLACES = (
    Place("cells", "two", 1, 50, 2000, 0.037),
    Place("cells", "two", 1, 200, 2000, 0.029),
    Place("cells", "concentric", 1, 50, 2000, 0.058),
    Place("cells", "concentric", 1, 200, 2000, 0.034),
    Place("cells", "three", 1, 50, 2000, 0.080),
    Place("cells", "three", 1, 200, 2000, 0.044),
    Place("dp_em", "three blobs", 5, 300, 10_000, 0.056),
    Place("dp_em", "three blobs", 20, 300, 10_000, 0.147),
    Place("dp_em", "three blobs", 20, 300, 50_000, 0.041),
)


def one_run(place: Place, run: int) -> tuple[float, float, float]:
    """Return the total variation of the release and of the public rows alone, and seconds."""
    rng = np.random.default_rng([SEED, run, place.dim, place.n_pub, place.n_priv])
    truth = CASES[place.case] if place.case in CASES else blobs(rng, 3, place.dim)
    public = truth.draw(rng, place.n_pub)
    private = truth.draw(rng, place.n_priv)
    start = time.perf_counter()
    result = learn_axis_aligned_mixture(
        private,
        x_pub=public,
        n_components=len(truth.weights),
        budget=PureDP(1) if place.method == "cells" else ZCDP(RHO),
        method=place.method,
        random_state=noise_seed(place.n_priv, run, place.dim),
        threads=1,
        progress=False,
    )
    seconds = time.perf_counter() - start
    fit = axis_aligned_start(public, len(truth.weights), known_std=False)
    errors = []
    for found in (released(result), Truth(fit.weights, fit.means, fit.stds)):
        errors.append(
            distance_on_line(truth, found)
            if place.dim == 1
            else distance_by_draws(truth, found, rng)
        )
    return errors[0], errors[1], seconds


def rows(options: Options) -> list[Row]:
    """Return medians over the runs."""
    tasks = [(place, run) for place in PLACES for run in range(options.runs)]
    answers = options.side_by_side(lambda task: one_run(*task), tasks, EXPERIMENT.name)
    found = []
    for place, part in zip(
        PLACES, np.array(answers).reshape(len(PLACES), options.runs, 3), strict=True
    ):
        median, alone, seconds = map(float, np.median(part, axis=0))
        row = place._asdict() | {"runs": options.runs, "median": median, "public_alone": alone}
        found.append(row | {"aim": row.pop("aim"), "seconds": seconds})
    return found


def lines(found: list[Row], options: Options) -> Iterator[str]:
    """Yield the lines of the table."""
    columns = {
        "case": "{method} {case}",
        "columns": "{dim}",
        "public": "{n_pub}",
        "private": "{n_priv:,}",
        "median TV": "{median:.4f}",
        "public alone": "{public_alone:.3f}",
        "aim": "{aim:.3f}",
        "s": "{seconds:.1f}",
    }
    yield from text_table(columns, found)


def draw(found: list[Row], options: Options) -> Any:
    """Draw the errors of public rows alone, and with the private ones."""
    figure, ((axes,),) = panels(8.0, 4.2)
    places = np.arange(len(found))
    axes.bar(
        places - 0.2,
        column(found, "public_alone"),
        0.38,
        color=PALETTE[4],
        label="public rows alone",
    )
    axes.bar(places + 0.2, column(found, "median"), 0.38, color=PALETTE[0], label="released")
    labels = ["{method}\n{case}\nd={dim}, m={n_pub}\nn={n_priv:,}".format(**x) for x in found]
    axes.set_xticks(places, labels, fontsize=6)
    finish(axes, y="total variation, median", title="Mixtures with a few public rows")
    return figure


NOTES = f"""\
Mixtures learnt from private rows and a few public ones: median total variation over the runs
cells: pure epsilon = 1, 2,000 private rows, one column; dp_em: rho = 0.0176, three components, 300 public rows
public_alone: the likeliest EM fit to the public rows; aim: what the acceptance table asks for
{SEED_NOTE}"""

EXPERIMENT = Experiment(
    name="c-public",
    summary="Mixtures with a few public rows: cells of one column with pure epsilon, and EM continued on private rows",
    source="Aden-Ali, Ashtiani, Liaw, Privately Learning Mixtures of Axis-Aligned Gaussians (2021), with public rows",
    runs=7,
    rows=rows,
    lines=lines,
    draw=draw,
    notes=NOTES,
)
