"""`python -m benchmarks.local_starts`: rules for the settings of `local.train` from public rows, compared at known optima.

    python -m benchmarks.local_starts          the quantile of the clip and the reach of the radius, side by side
    python -m benchmarks.local_starts --draws 8

The table holds the mean excess loss over draws with 20,000 reports, that of public rows alone, and that of a start at zero with
the true distance of the optimum.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.papers.experiment import aligned
from fastpubpriv.errors import SeededNoiseWarning
from fastpubpriv.local import public_facts, train
from fastpubpriv.rowwise.losses import LOSSES

REPORTS, BATCH = 20_000, 100
CASES = [  # kind, columns, public rows, epsilon
    ("even noise", 10, 50, 4.0),
    ("even noise", 10, 200, 1.0),
    ("skewed noise", 10, 50, 4.0),
    ("skewed noise", 10, 200, 1.0),
    ("classes", 10, 50, 4.0),
    ("classes", 10, 200, 1.0),
]
QUANTILES = (0.5, 0.75, 0.9, 1.0)
REACHES = (1.0, 2.0, 3.0, 4.0, 6.0)

CHOICES = list(itertools.product(QUANTILES, REACHES))


class Problem:
    """A draw of rows and labels whose optimal weights are known."""

    def __init__(self, kind: str, dim: int, n_pub: int, rng: np.random.Generator) -> None:
        n = REPORTS + n_pub
        self.loss = LOSSES["logistic" if kind == "classes" else "squared"]
        x, self.best = rng.normal(size=(n, dim)), rng.normal(size=dim) / np.sqrt(dim)
        x[:, 0] = 1.0
        if kind == "classes":
            self.best *= 2.0
            y = (rng.random(n) < 1.0 / (1.0 + np.exp(-x @ self.best))).astype(float)
        else:
            skewed = kind == "skewed noise"
            y = x @ self.best + (
                np.exp(rng.normal(size=n)) - np.exp(0.5) if skewed else rng.normal(size=n)
            )
        self.private, self.public = (x[n_pub:], y[n_pub:]), (x[:n_pub].copy(), y[:n_pub].copy())
        self.fresh = np.hstack([np.ones((20_000, 1)), rng.normal(size=(20_000, dim - 1))])

    def excess(self, weights: Any) -> float:
        """Return the expected excess loss on fresh rows."""
        scores = self.fresh @ weights
        least = self.fresh @ self.best
        if self.loss.name == "squared":
            return float(0.5 * np.mean((scores - least) ** 2))
        chance = 1.0 / (1.0 + np.exp(-least))
        return float(
            np.mean(
                np.logaddexp(0.0, scores)
                - chance * scores
                - np.logaddexp(0.0, least)
                + chance * least
            )
        )

    def trained(self, epsilon: float, **more: Any) -> float:
        """Return the excess loss of one run of `local.train`."""
        x_pub, y_pub = self.public
        found = train(
            *self.private,
            x_pub=x_pub,
            y_pub=y_pub,
            epsilon=epsilon,
            loss=self.loss,
            batch_rows=BATCH,
            random_state=1,
            **more,
        )
        return self.excess(found.coefficients)


def means_of(kind: str, dim: int, n_pub: int, epsilon: float, draws: int) -> list[float]:
    """Return the mean excess loss of every choice for a case, over the draws."""
    found: dict[Any, list[float]] = {}
    for seed in range(draws):
        problem = Problem(kind, dim, n_pub, np.random.default_rng(seed))
        begun = public_facts.PublicStart.of(problem.loss, *problem.public)
        distance = 2.0 * float(np.linalg.norm(problem.best))
        found.setdefault("public", []).append(problem.excess(begun.weights))
        found.setdefault("zero", []).append(
            problem.trained(epsilon, clip_norm="public", radius=distance)
        )
        for choice in CHOICES:
            with mock.patch.multiple(public_facts, CLIP_QUANTILE=choice[0], REACH=choice[1]):
                run = problem.trained(epsilon, start="public", clip_norm="public", radius="public")
            found.setdefault(choice, []).append(run)
    return [float(np.mean(values)) for values in found.values()]


def main() -> None:
    """Print the table, a column for each case; the last is the geometric mean of the ratios to public rows alone."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.local_starts")
    parser.add_argument("--draws", type=int, default=2)
    draws = parser.parse_args().draws
    warnings.simplefilter("ignore", SeededNoiseWarning)
    found = np.array([means_of(*case, draws) for case in CASES])
    overall = np.exp(np.mean(np.log(found / found[:, :1]), axis=0))
    names = [
        "public rows alone",
        "from zero",
        *(f"quantile {q:g}, reach {r:g}" for q, r in CHOICES),
    ]
    head = [
        "choice",
        *(f"{kind}, {n_pub}, {epsilon:g}" for kind, _, n_pub, epsilon in CASES),
        "overall",
    ]
    cells = np.column_stack([found.T, overall])
    print(
        "\n".join(
            aligned(
                head,
                [
                    [name, *(f"{x:.4f}" for x in row)]
                    for name, row in zip(names, cells, strict=True)
                ],
            )
        )
    )


if __name__ == "__main__":
    main()
