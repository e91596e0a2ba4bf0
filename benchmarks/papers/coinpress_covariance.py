"""Covariance without public rows: CoinPress's curves by number of rounds, and the effect of the correct order of the matrices."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.papers.experiment import (
    GREY,
    SEED_NOTE,
    Experiment,
    Options,
    Row,
    aligned,
    column,
    curve,
    finish,
    noise_seed,
    panels,
    text_table,
    where,
)
from fastpubpriv.gaussians.coinpress_covariance import coinpress_covariance
from fastpubpriv.privacy import ZCDP
from fastpubpriv.results.plots import PALETTE

DIM = 10
RHO = Fraction(1, 2)
STEPS = (1, 2, 3, 4, 5)
SIZES = (3000, 4000, 5000, 6000, 7000, 8000)
# The second part: a covariance with eigenvalues from 1 to 100, for which the order of the matrices matters.
SKEWED, SKEWED_SIZE = 100.0, 8000
SEED = 1

# (condition, steps, n). `orthogonal` and `triangle` have the correct order, with rotation-invariant noise as in this library and
# with independent noise on the upper triangle; `published` is the published code, whose order is wrong from three rounds on.
KNOWN: dict[tuple[float, int, int], dict[str, float]] = {
    (1.0, 2, 3000): {"orthogonal": 0.361, "triangle": 0.485},
    (1.0, 2, 8000): {"orthogonal": 0.141, "triangle": 0.159},
    (1.0, 3, 3000): {"triangle": 0.246},
    (1.0, 3, 8000): {"triangle": 0.129},
    (1.0, 4, 3000): {"orthogonal": 0.215, "triangle": 0.235, "published": 0.353},
    (SKEWED, 2, SKEWED_SIZE): {"published": 0.74},
    (SKEWED, 3, SKEWED_SIZE): {"triangle": 0.14, "published": 0.86},
    (SKEWED, 5, SKEWED_SIZE): {"triangle": 0.12, "published": 2.17},
}
BESIDE = ("orthogonal", "triangle", "published")


def errors_of_run(condition: float, n: int, run: int) -> list[float]:
    """Return the error for every number of rounds on one data set, a function of the arguments alone."""
    generator = np.random.Generator(np.random.SFC64([SEED, int(condition), n, run]))
    directions = np.linalg.qr(generator.standard_normal((DIM, DIM)))[0]
    factor = directions * np.sqrt(np.geomspace(1.0, condition, DIM))
    sample = generator.standard_normal((n, DIM)) @ factor.T
    errors = []
    for steps in STEPS:
        result = coinpress_covariance(
            sample,
            budget=ZCDP(rho=RHO),
            # the bound that the estimator gets
            scale=10.0 * math.sqrt(DIM) if condition == 1.0 else 10.0 * condition,
            steps=steps,
            random_state=noise_seed(n, run, steps + 16 * (condition > 1.0)),
            threads=1,
            progress=False,
        )
        half = np.linalg.solve(factor, result.covariance)
        errors.append(float(np.linalg.norm(np.linalg.solve(factor, half.T) - np.eye(DIM))))
    return errors


def rows(options: Options) -> list[Row]:
    """Return the rows of both parts, by condition, rounds and size."""
    places = [(1.0, n) for n in SIZES] + [(SKEWED, SKEWED_SIZE)]
    tasks = [
        (*place, run)
        for place in sorted(places, key=lambda place: -place[1])
        for run in range(options.runs)
    ]
    answers = options.side_by_side(lambda task: errors_of_run(*task), tasks, EXPERIMENT.name)
    errors: dict[tuple[float, int, int], list[float]] = defaultdict(list)
    for (condition, n, _), answer in zip(tasks, answers, strict=True):
        for steps, error in zip(STEPS, answer, strict=True):
            errors[condition, steps, n].append(error)
    found = []
    for condition, steps, n in sorted(errors):
        lower, median, upper = map(
            float, np.quantile(errors[condition, steps, n], [0.25, 0.5, 0.75])
        )
        row = {"condition": condition, "steps": steps, "n": n, "runs": options.runs}
        row |= {"median": median, "lower_quartile": lower, "upper_quartile": upper}
        # expected error of the sample covariance
        row |= {"non_private": math.sqrt(DIM * (DIM + 1) / n)}
        found.append(
            row | {name: KNOWN.get((condition, steps, n), {}).get(name) for name in BESIDE}
        )
    return found


def lines(found: list[Row], options: Options) -> Iterator[str]:
    """Yield our medians by rounds and size, with the known numbers."""
    yield "median relative Frobenius error of the covariance, S = I"
    curves = [
        (f"t = {steps}", *(f"{x['median']:.3f}" for x in where(found, condition=1.0, steps=steps)))
        for steps in STEPS
    ]
    first = where(found, condition=1.0, steps=1)
    curves.append(("non-private", *(f"{x['non_private']:.3f}" for x in first)))
    yield from aligned(("rounds", *(f"n={x['n']}" for x in first)), curves)
    yield ""
    yield "beside known numbers: the same noise, noise on the upper triangle, the published code"
    columns = {
        "": "condition {condition:g}, t = {steps}, n = {n}",
        "ours": "{median:.3f}",
        "same noise": "{orthogonal:.3f}",
        "triangle": "{triangle:.3f}",
        "published": "{published:.3f}",
    }
    yield from text_table(
        columns, [x for x in found if any(x[name] is not None for name in BESIDE)]
    )
    yield SEED_NOTE


def draw(found: list[Row], options: Options) -> Any:
    """Draw curves by size on the left, condition 100 by number of rounds on the right."""
    title = (
        f"CoinPress covariance, d = {DIM}, rho = 0.5: medians and quartiles of {options.runs} runs"
    )
    figure, ((left, right),) = panels(10.0, 4.2, across=2, title=title)
    for i, (steps, marker) in enumerate(zip(STEPS, "ov^sD", strict=True)):
        part = where(found, condition=1.0, steps=steps)
        ends = column(part, "lower_quartile"), column(part, "upper_quartile")
        left.fill_between(column(part, "n"), *ends, color=PALETTE[i], alpha=0.15, lw=0)
        curve(left, part, "n", "median", f"{marker}-", i, label=f"t = {steps}")
        known = [x for x in part if x["orthogonal"] is not None]
        curve(left, known, "n", "orthogonal", "x", i, ms=9, mew=1.4)
    curve(
        left,
        where(found, condition=1.0, steps=1),
        "n",
        "non_private",
        "--",
        GREY,
        lw=1.0,
        label="non-private",
    )
    left.plot([], [], "x", ms=8, mew=1.4, color=GREY, label="reference run")
    finish(left, "private rows n", "relative Frobenius error", log="y", title="S = I")
    part = where(found, condition=SKEWED)
    middle = column(part, "median")
    reach = [middle - column(part, "lower_quartile"), column(part, "upper_quartile") - middle]
    curve(right, part, "steps", "median", "o-", 0, ms=5, label="ours")
    right.errorbar(STEPS, middle, yerr=reach, fmt="none", capsize=3, color=PALETTE[0])
    code = [x for x in part if x["published"] is not None]
    curve(right, code, "steps", "published", "s--", 1, ms=5, label="published code")
    right.axhline(part[0]["non_private"], ls="--", lw=1.0, color=GREY, label="non-private")
    right.set_xticks(STEPS)
    finish(right, "rounds t", log="y", title=f"condition {SKEWED:g}, n = {SKEWED_SIZE}")
    return figure


NOTES = f"""\
Biswas, Dong, Kamath, Ullman, CoinPress (2020): covariance of n rows N(0, S), d = 10, rho = 0.5 zCDP, t rounds
condition 1: S = I, eigenvalues known to be at most 10 sqrt(d); condition 100: random directions, at most 1000
median, lower_quartile, upper_quartile: of the relative Frobenius error |S^-1/2 C S^-1/2 - I| over the runs
non_private: expected error of the sample covariance, sqrt(d (d + 1) / n)
orthogonal, triangle: the same algorithm measured with invariant noise (ours) and with noise on the upper triangle
published: the published code, which multiplies matrices in the wrong order from three rounds on
{SEED_NOTE}"""

EXPERIMENT = Experiment(
    name="coinpress-covariance",
    summary="Covariance without public rows: error by number of rounds, and the published code's order of matrices",
    source="Biswas, Dong, Kamath, Ullman, CoinPress: Practical Private Mean and Covariance Estimation (2020)",
    runs=100,
    rows=rows,
    lines=lines,
    draw=draw,
    notes=NOTES,
)
