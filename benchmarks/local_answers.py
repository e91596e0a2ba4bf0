"""`python -m benchmarks.local_answers`: what the answers of the local model promise, beside known truths.

    python -m benchmarks.local_answers randomizers   squared errors of reports over their predictions, and who has the least
    python -m benchmarks.local_answers means         shares of draws whose interval holds the mean, by case and epsilon
    python -m benchmarks.local_answers training      the same for intervals that `local.train` could have, but has not

The first table is in `docs/guide/choices.md`; the second chose `FARTHEST` of `fastpubpriv/local/public_facts.py`.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.local_starts import Problem
from benchmarks.papers.experiment import aligned
from benchmarks.papers.local_means import RANDOMIZERS, randomizer, report_errors
from benchmarks.readme import markdown
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import SeededNoiseWarning
from fastpubpriv.local import PrivUnit, estimate_mean, local_training, train

# ---- Randomizers -----------------------------------------------------------------------------------------------------
DIMS = (1, 2, 10, 50, 200)
EPSILONS = (0.5, 1.0, 4.0)
RUNS = 10  # of at most 2,000 reports each
TIE = 1.001  # errors within this factor of each other are equal


def randomizer_rows() -> Iterator[list[str]]:
    """Yield dim, epsilon, the predicted error of each randomizer with the measured one over it, and the name with the least."""
    for dim in DIMS:
        for epsilon in EPSILONS:
            cells = []
            predicted = {}
            for name in RANDOMIZERS:
                found = np.concatenate(
                    [report_errors(name, dim, epsilon, run) for run in range(RUNS)]
                )
                predicted[name] = randomizer(name, dim, epsilon).mean_squared_error()
                ratio = float(found.mean()) / predicted[name]
                cells.append(f"{predicted[name]:.4g} ({ratio:.3f})")
            least = min(predicted.values())
            best = [name for name, error in predicted.items() if error <= TIE * least]
            yield [str(dim), f"{epsilon:g}", *cells, ", ".join(best)]


# ---- Intervals of means ----------------------------------------------------------------------------------------------
REPORTS = 2000


def normal(rng: np.random.Generator, n: int, dim: int) -> FloatArray:
    """Return rows of normals, mean .3 and deviation .2."""
    return rng.normal(0.3, 0.2, (n, dim))


def heavy(rng: np.random.Generator, n: int, dim: int) -> FloatArray:
    """Return rows of Student's t with 2.5 degrees of freedom, mean .3."""
    return 0.3 + 0.1 * rng.standard_t(2.5, (n, dim))


def skewed(rng: np.random.Generator, n: int, dim: int) -> FloatArray:
    """Return lognormal rows, of deviation 1.2 in logarithms."""
    return 0.1 * rng.lognormal(0.0, 1.2, (n, dim))


def rare(rng: np.random.Generator, n: int, dim: int) -> FloatArray:
    """Return rows of zeros and ones, three ones in a hundred."""
    return (rng.random((n, dim)) < 0.03).astype(np.float64)


MEANS = {normal: 0.3, heavy: 0.3, skewed: 0.1 * np.exp(0.72), rare: 0.03}


@dataclass(frozen=True)
class Case:
    """Rows of users and public rows, `shift` apart, in a ball of radius `bound` times the root of the number of columns."""

    law: Any
    dim: int = 2
    n_pub: int = 50
    bound: float = 1.1
    shift: float = 0.0

    def coverage(self, epsilon: float, draws: int) -> float:
        """Return the share of draws and columns in which the 95 % interval holds the mean of the law."""
        device = PrivUnit(self.dim, epsilon, norm_bound=self.bound * self.dim**0.5)
        held = []
        for seed in range(draws):
            rng = np.random.default_rng(seed)
            reports = device.privatize(self.law(rng, REPORTS, self.dim), random_state=seed)
            public = self.law(rng, self.n_pub, self.dim) + self.shift
            lower, upper = estimate_mean(reports, x_pub=public).confidence_interval()
            held.append((lower <= MEANS[self.law]) & (MEANS[self.law] <= upper))
        return float(np.mean(held))


CASES = [
    *(Case(normal, dim, n_pub) for dim in (1, 2, 50) for n_pub in (1, 2, 5, 50)),
    *(Case(law, dim) for law in (heavy, skewed, rare) for dim in (1, 2, 50)),
    *(Case(law, bound=0.5) for law in (normal, heavy, skewed, rare)),
    *(Case(normal, dim, 20, 1.5, 0.2) for dim in (1, 2, 50)),
]  # the fourth group is clipped; the public rows of the last are off by one deviation


def mean_rows(draws: int) -> Iterator[list[str]]:
    """Yield each case with its coverage at each epsilon."""
    for case in CASES:
        shares = [f"{case.coverage(epsilon, draws):.3f}" for epsilon in EPSILONS]
        words = f"{case.law.__name__}, {case.dim} columns, {case.n_pub} public"
        yield [words, f"{case.bound:g}", f"{case.shift:g}", *shares]


# ---- Intervals that training could have ------------------------------------------------------------------------------
BLOCKS = 20
STUDENT = 2.093  # .975 quantile of Student's distribution for 20 blocks
NORMAL = 1.96


@dataclass
class Recorded:
    """Iterates of a run, and the mean of the reports at each with its covariance."""

    iterates: list[FloatArray] = field(default_factory=list)
    means: list[FloatArray] = field(default_factory=list)
    covariances: list[FloatArray] = field(default_factory=list)

    def run(self, problem: Problem, epsilon: float, **more: Any) -> FloatArray:
        """Return the coefficients of `local.train`, and record the run."""
        gradients = local_training.loss_gradients
        reported = PrivUnit._reported

        def at_iterate(loss: Any, weights: FloatArray, *rows: FloatArray) -> FloatArray:
            if len(rows[0]) > 1:  # not the trial at one row
                self.iterates.append(weights.copy())
            return gradients(loss, weights, *rows)

        def with_moments(device: Any, rows: Any, keys: Any, **how: Any) -> Any:
            reports = reported(device, rows, keys, **how)
            vectors = reports.vectors()
            self.means.append(vectors.mean(axis=0))
            self.covariances.append(np.cov(vectors.T) / len(vectors))
            return reports

        x_pub, y_pub = problem.public
        with (
            mock.patch.object(local_training, "loss_gradients", at_iterate),
            mock.patch.object(PrivUnit, "_reported", with_moments),
        ):
            found = train(
                *problem.private,
                x_pub=x_pub,
                y_pub=y_pub,
                epsilon=epsilon,
                batch_rows=100,
                random_state=1,
                **more,
            )
        return found.coefficients

    def held(self, coefficients: FloatArray, problem: Problem) -> tuple[float, float]:
        """Return the shares of columns whose optimum lies within the spread of iterates, and within a Newton step's interval."""
        iterates = np.array(self.iterates)
        blocks = np.array([each.mean(axis=0) for each in np.array_split(iterates, BLOCKS)])
        spread = STUDENT * blocks.std(axis=0, ddof=1) / BLOCKS**0.5
        # For a squared loss the mean gradient at an iterate is the curvature, known from public rows, times its distance.
        x_pub = problem.public[0]
        inverse = np.linalg.inv(x_pub.T @ x_pub / len(x_pub))
        stepped = (iterates - np.array(self.means) @ inverse).mean(axis=0)
        covariance = np.sum(self.covariances, axis=0) / len(iterates) ** 2
        error = NORMAL * np.sqrt(np.diag(inverse @ covariance @ inverse))
        return (
            float(np.mean(np.abs(coefficients - problem.best) <= spread)),
            float(np.mean(np.abs(stepped - problem.best) <= error)),
        )


SETTINGS: dict[str, dict[str, Any]] = {
    "public start and clip": {"start": "public", "clip_norm": "public", "radius": "public"},
    "from zero, nothing clipped": {"clip_norm": 60.0, "radius": 3.0},
}


def training_rows(draws: int) -> Iterator[list[str]]:
    """Yield each kind of errors, epsilon and setting with the two coverages."""
    for kind in ("even noise", "skewed noise"):
        for epsilon in EPSILONS:
            for name, setting in SETTINGS.items():
                held = []
                for seed in range(draws):
                    problem = Problem(kind, 5, 100, np.random.default_rng(seed))
                    recorded = Recorded()
                    held.append(recorded.held(recorded.run(problem, epsilon, **setting), problem))
                spread, stepped = np.mean(held, axis=0)
                yield [f"{kind}, {epsilon:g}, {name}", f"{spread:.2f}", f"{stepped:.2f}"]


def main() -> None:
    """Print the table that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.local_answers")
    parser.add_argument("table", choices=("randomizers", "means", "training"))
    parser.add_argument("--draws", type=int, default=200)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", SeededNoiseWarning)
    epsilons = [f"{epsilon:g}" for epsilon in EPSILONS]
    if asked.table == "randomizers":
        head = ["columns", "epsilon", *RANDOMIZERS, "least"]
        print(markdown([head, *randomizer_rows()]))
    elif asked.table == "means":
        head = ["rows", "bound", "shift", *epsilons]
        print("\n".join(aligned(head, list(mean_rows(asked.draws)))))
    else:
        head = ["errors, epsilon, settings", "spread of iterates", "one Newton step"]
        print("\n".join(aligned(head, list(training_rows(asked.draws)))))


if __name__ == "__main__":
    main()
