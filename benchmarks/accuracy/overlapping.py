"""`python -m benchmarks.accuracy.overlapping`: axis-aligned mixtures without a public row, and the same learner with 100 of them.

60 random problems, fixed before any was run: k components whose means are about `apart` standard deviations from each other,
columns of units from .001 to 1,000 and a hundred units away from zero, deviations that differ between components by a factor
e^(+-.4), random weights of at least half of 1 / k. An answer is *right* if its total variation from the truth is at most .1; it is
"ok" if its status says so. *Ratio* is the total variation without public rows over that with them.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import fastpubpriv as fpp
from benchmarks.accuracy.keeping import Task, results
from benchmarks.papers.mixture_cases import Truth, distance_by_draws, released
from benchmarks.readme import markdown

BUDGET = fpp.ApproxDP(1, 1e-6)
PROBLEMS, N_PUB = 60, 100
DRAWS = 20_000  # rows of each mixture for a total variation
RIGHT = 0.1  # total variation
CLOSE = 1.5  # ratio up to which private rows alone are as good as with public ones
COLUMNS = (2, 3, 5, 8, 12, 20, 30, 50)
ROWS = (10_000, 20_000, 40_000, 100_000, 200_000)


@dataclass(frozen=True)
class Problem:
    """One problem by its seed."""

    seed: int
    dim: int
    n: int
    k: int
    apart: float  # standard deviations

    @classmethod
    def of(cls, seed: int) -> Problem:
        """Return the problem of a seed; sizes take turns, so that every one of them occurs."""
        rng = np.random.default_rng([seed, 0])
        return cls(
            seed=seed,
            dim=COLUMNS[seed % len(COLUMNS)],
            n=ROWS[seed % len(ROWS)],
            k=int(rng.integers(2, 7)),
            apart=float(rng.uniform(3.0, 8.0)),
        )

    @property
    def truth(self) -> Truth:
        """The mixture that the rows are drawn from."""
        rng = np.random.default_rng([self.seed, 1])
        directions = rng.normal(size=(self.k, self.dim))
        # Two random points of a sphere are about sqrt(2) radii apart.
        directions *= self.apart / np.sqrt(2.0) / np.linalg.norm(directions, axis=1)[:, None]
        units = 10.0 ** rng.uniform(-3.0, 3.0, self.dim)
        offsets = 100.0 * units * rng.normal(size=self.dim)
        return Truth(
            weights=0.5 / self.k + 0.5 * rng.dirichlet(np.ones(self.k)),
            means=offsets + units * directions,
            stds=units * np.exp(rng.uniform(-0.4, 0.4, (self.k, self.dim))),
        )


def answers(problem: Problem) -> dict[str, Any]:
    """Return total variation and status of the answer without public rows, and of that with them."""
    truth = problem.truth
    rng = np.random.default_rng([problem.seed, 2])
    rows = truth.draw(rng, problem.n)
    public = truth.draw(rng, N_PUB)
    found: dict[str, Any] = {}
    for name, x_pub in (("alone", None), ("with public rows", public)):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            result = fpp.learn_axis_aligned_mixture(
                rows,
                x_pub=x_pub,
                n_components=problem.k,
                budget=BUDGET,
                random_state=problem.seed,
                threads=1,
                progress=False,
            )
        of_distance = np.random.default_rng([problem.seed, 3])
        found[name] = distance_by_draws(truth, released(result), of_distance, DRAWS)
        found[f"status {name}"] = result.status
    return found


def summary(name: str, found: list[dict[str, Any]]) -> list[str]:
    """Return the line of some problems."""
    alone = np.array([each["alone"] for each in found])
    public = np.array([each["with public rows"] for each in found])
    ok = np.array([each["status alone"] == "ok" for each in found])
    right = alone <= RIGHT
    return [
        f"{name} ({len(found)})",
        f"{np.median(alone):.3f}",
        f"{np.median(public):.3f}",
        f"{np.exp(np.mean(np.log(alone / public))):.2f}",
        f"{np.mean(alone <= CLOSE * public):.2f}",
        f"{np.sum(ok & right)} of {np.sum(ok)}",
        f"{np.max(alone[ok], initial=0.0):.3f}",
    ]


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy.overlapping", description=__doc__
    )
    parser.add_argument("--problems", type=int, default=PROBLEMS)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="file of results as they come")
    options = parser.parse_args()
    problems = [Problem.of(seed) for seed in range(options.problems)]
    tasks = [Task(str(each), answers, (each,)) for each in problems]
    found = results(tasks, processes=options.processes, keep=options.keep)
    together = list(zip(problems, found, strict=True))
    parts = {
        "all": together,
        "n of 10,000 and 20,000": [each for each in together if each[0].n <= 20_000],
        "n of 40,000": [each for each in together if each[0].n == 40_000],
        "n of 100,000 and 200,000": [each for each in together if each[0].n >= 100_000],
        "2 and 3 columns": [each for each in together if each[0].dim <= 3],
        "5 to 12 columns": [each for each in together if 5 <= each[0].dim <= 12],
        "20 to 50 columns": [each for each in together if each[0].dim >= 20],
    }
    head = ["problems", "median", "with 100 public rows", "ratio", f"within {CLOSE}"]
    head += ["right of ok", "worst ok"]
    lines = [summary(name, [line for _, line in part]) for name, part in parts.items() if part]
    print(markdown([head, *lines]))


if __name__ == "__main__":
    main()
