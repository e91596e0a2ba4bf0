"""`python -m benchmarks.training_choice`: "auto" of `train` beside Algorithm 1 of paper B, and predicted beside measured errors.

    python -m benchmarks.training_choice                 the five textbook settings
    python -m benchmarks.training_choice --pairs         32 pairs of runs with 20 to 400 columns, one pair on each data set
    python -m benchmarks.training_choice --loss huber    the five settings with another loss
    python -m benchmarks.training_choice --one-release   single releases of a pure budget beside public rows alone

Independent normal columns; labels with as much noise as signal, or classes with log-odds of standard deviation two. An error is
the excess of the expected loss over that of the best coefficients, with fresh noise in each run.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import fastpubpriv as fpp
from fastpubpriv.errors import AccuracyWarning
from fastpubpriv.rowwise.losses import LOSSES

DELTA = 1e-6
FRESH = 40_000  # rows for the expected loss of classes and of a bounded loss
METHODS = ("auto", "newton", "semi_dp", "pda_mirror_descent", "dp_sgd")
SINGLE = ("output_perturbation", "exponential", "semi_dp", "throw_away")


@dataclass(frozen=True)
class Setting:
    """Columns, private rows, public rows and epsilon."""

    dim: int
    n_priv: int
    n_pub: int
    epsilon: float


TEXTBOOK = (
    Setting(20, 20_000, 100, 1.0),
    Setting(30, 15_000, 150, 1.0),
    Setting(40, 20_000, 300, 1.0),
    Setting(8, 5_000, 40, 0.5),
    Setting(60, 8_000, 200, 0.5),
)
# four runs of each
PAIRED = (
    Setting(20, 10_000, 60, 1.0),
    Setting(20, 20_000, 200, 0.5),
    Setting(50, 20_000, 150, 1.0),
    Setting(50, 10_000, 500, 0.5),
    Setting(100, 20_000, 400, 1.0),
    Setting(200, 20_000, 600, 1.0),
    Setting(200, 30_000, 400, 2.0),
    Setting(400, 30_000, 1_000, 1.0),
)


def draw(setting: Setting, loss: str, seed: int) -> tuple[Any, Any, Any]:
    """Return rows, public ones first, their labels and the best coefficients."""
    rng = np.random.default_rng([setting.dim, setting.n_priv, seed])
    n = setting.n_pub + setting.n_priv
    x = rng.normal(size=(n, setting.dim))
    best = rng.normal(size=setting.dim) / math.sqrt(setting.dim)
    if not LOSSES[loss].classes:
        return x, x @ best + rng.normal(size=n), best
    best = 2.0 * best
    return x, (rng.random(n) < 1.0 / (1.0 + np.exp(-x @ best))).astype(float), best


def excess(found: Any, loss: str, best: Any, scale: float) -> float:
    """Return the excess of the expected loss; `scale` is the unit of the labels."""
    slopes = np.ravel(found.coefficients)
    intercept = float(np.ravel(found.intercept)[0])
    if loss == "squared":
        return float(np.sum((slopes - best) ** 2)) + intercept**2
    values: Any = LOSSES[loss].values
    rng = np.random.default_rng(0)
    x = rng.normal(size=(FRESH, len(best)))
    wanted = x @ best
    given = x @ slopes + intercept
    if not LOSSES[loss].classes:
        labels = (wanted + rng.normal(size=FRESH)) / scale
        loss_of = [values(scores / scale, labels) for scores in (given, wanted)]
        return scale**2 * float(np.mean(loss_of[0] - loss_of[1]))
    chance = 1.0 / (1.0 + np.exp(-wanted))
    positive, negative = (
        values(given, np.full(FRESH, label)) - values(wanted, np.full(FRESH, label))
        for label in (1.0, 0.0)
    )
    return float(np.mean(chance * positive + (1.0 - chance) * negative))


def run(
    setting: Setting, loss: str, method: str, seed: int, budget: Any
) -> tuple[float, float, str]:
    """Return measured and predicted excess of a run, and the method that was used."""
    x, y, best = draw(setting, loss, seed)
    m = setting.n_pub
    found = fpp.train(
        x[m:],
        y[m:],
        loss=loss,
        method=method,
        x_pub=x[:m].copy(),
        y_pub=y[:m].copy(),
        budget=budget,
        progress=False,
    )
    predicted = math.nan if found.predicted_excess is None else float(found.predicted_excess)
    scale = 1.0 if LOSSES[loss].classes else float(y[:m].std())
    return excess(found, loss, best, scale), predicted, found.method


def row(*cells: str) -> str:
    """Return a line of a table."""
    return "| " + " | ".join(cells) + " |"


def settings(loss: str, methods: tuple[str, ...], runs: int, *, pure: bool) -> Iterator[str]:
    """Yield the lines of a table of medians."""
    head = ("d", "n", "m", "epsilon", "method", "excess", "measured / predicted", "used")
    yield row(*head)
    for setting in TEXTBOOK:
        budget: Any = fpp.PureDP(setting.epsilon) if pure else fpp.ApproxDP(setting.epsilon, DELTA)
        for method in methods:
            found = [run(setting, loss, method, seed, budget) for seed in range(runs)]
            ratio = np.median([measured / predicted for measured, predicted, _ in found])
            used = sorted({name for *_, name in found})
            yield row(
                *(f"{each:g}" for each in vars(setting).values()),
                method,
                f"{np.median([measured for measured, *_ in found]):.4f}",
                f"{ratio:.2f}",
                ", ".join(used),
            )


def pairs(runs: int) -> Iterator[str]:
    """Yield the lines of a table of paired runs, and in how many "auto" is ahead."""
    head = ("d", "n", "m", "epsilon", "auto", "Algorithm 1", "auto ahead")
    yield row(*head)
    ahead = 0
    for setting in PAIRED:
        budget = fpp.ApproxDP(setting.epsilon, DELTA)
        found = np.array(
            [
                [run(setting, "squared", method, seed, budget)[0] for method in ("auto", "semi_dp")]
                for seed in range(runs)
            ]
        )
        wins = int(np.sum(found[:, 0] < found[:, 1]))
        ahead += wins
        medians = (f"{each:.4f}" for each in np.median(found, axis=0))
        shown = (f"{each:g}" for each in vars(setting).values())
        yield row(*shown, *medians, f"{wins} of {runs}")
    yield f"auto ahead in {ahead} of {runs * len(PAIRED)} pairs"


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", action="store_true")
    parser.add_argument("--one-release", action="store_true")
    parser.add_argument("--loss", default="squared", choices=("squared", "huber", "logistic"))
    parser.add_argument("--runs", type=int, default=0, help="by default 4 pairs, or 9 runs")
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        if options.pairs:
            lines = pairs(options.runs or 4)
        elif options.one_release:
            lines = settings("huber", SINGLE, options.runs or 9, pure=True)
        else:
            lines = settings(options.loss, METHODS, options.runs or 9, pure=False)
        for line in lines:
            print(line, flush=True)


if __name__ == "__main__":
    main()
