"""Goals of the rows of `python -m benchmarks.table`: maximum multiple of the limit, maximum seconds, minimum speedup."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Goal:
    """`limit`: maximum multiple of the machine's limit; `seconds`: maximum time; `peers`: minimum speedup over each peer."""

    limit: float | None = None
    seconds: float | None = None
    peers: dict[str, float] = field(default_factory=dict)


_INSECURE, _OPENDP = "numpy (insecure)", "OpenDP integer"
_BLOCKS, _LOOP, _SORTED = "NumPy in row blocks", "Numba loop", "sorted cdist"
_SCIKIT, _SCRIPT = "scikit-learn (not private)", "the published script"
_BEST, _UNIQUE = "the best of k-d tree, products and Numba loop", "np.unique"
_READING, _ONE_ARRAY = "pyarrow's reading", "the same rows in one array"
_SHAPES = ("random", "mixture", "nested", "sphere", "pairs", "line")
_NEIGHBORS, _EARLY = "scikit-learn NearestNeighbors", "Numba loop with early exits"

GOALS = {
    "exact Gaussian noise, 1e+06 draws": Goal(peers={_INSECURE: 2.0, _OPENDP: 700.0}),
    "exact Laplace noise, 1e+06 draws": Goal(peers={_INSECURE: 2.0, _OPENDP: 700.0}),
    "clipped exact sum, 1e+06 x 50": Goal(1.7, peers={_LOOP: 0.85, _BLOCKS: 2.0}),
    "clipped exact sum, 1e+05 x 500": Goal(1.7, peers={_LOOP: 0.85, _BLOCKS: 2.0}),
    "clipped exact sum, 5e+06 x 4": Goal(1.7, peers={_LOOP: 0.85, _BLOCKS: 2.0}),
    "clipped exact sum, 1e+06 x 20": Goal(2.1, peers={_LOOP: 0.85, _BLOCKS: 2.0}),
    "clipped gradients, 1e+06 x 100": Goal(1.15, peers={_BLOCKS: 3.0, _LOOP: 1.1}),
    "PrivUnit reports, 10000 x 100": Goal(peers={"NumPy, a block at a time (insecure)": 2.0}),
    "round of soft EM, 2e+05 x 100, 6 components": Goal(peers={"one component": 1.0 / 3.0}),
    "most isolated row, 2000 x 100": Goal(peers={_NEIGHBORS: 6.0, _EARLY: 1.0}),
    "most isolated row, 20000 x 100": Goal(peers={_NEIGHBORS: 50.0, _EARLY: 1.0}),
    "terrific balls, 20000 x 4, 12 radii x 2": Goal(peers={_SORTED: 8.0}),
    "terrific balls, 20000 x 16, 12 radii x 2": Goal(peers={_SORTED: 2.0}),
    "weighted_mean, 1e6 x 50": Goal(1.7),
    "estimate_mean, 1e6 x 50": Goal(seconds=0.16, peers={"np.mean": 1.0 / 5.0}),
    "estimate_mean, 1,000 x 5": Goal(seconds=0.005),
    "estimate_gaussian, 1e6 x 50": Goal(peers={"np.cov": 0.4}),
    "estimate_gaussian, 1,000 x 5": Goal(seconds=0.012),
    "estimate_gaussian, 2,000 x 2,000": Goal(peers={"np.cov": 1.0 / 6.0}),
    "weighted_mean, 1,000 x 5": Goal(seconds=0.0003),
    "quantiles, 1,000 x 5": Goal(peers={"diffprivlib": 0.5}),
    "describe, 1,000 x 5": Goal(peers={"NumPy mean and deviation": 1.0 / 150.0}),
    "coinpress_mean, 1e5 x 50, 4 rounds": Goal(peers={_SCRIPT: 11.0}),
    "coinpress_covariance, 2e5 x 50, 4 rounds": Goal(peers={_SCRIPT: 3.0}),
    "linear_regression, 5e5 x 20": Goal(peers={_SCIKIT: 1.0}),
    "logistic_regression, 5e5 x 20": Goal(peers={_SCIKIT: 1.0}),
    "stable_histogram, 1e7": Goal(peers={"NumPy unique": 8.0, "polars, one thread": 8.0}),
    "stable_histogram, distinct, 3000000": Goal(peers={_UNIQUE: 0.5}),
    "stable_histogram, many bins, 1000000": Goal(peers={_UNIQUE: 1.0}),
    "learn_separated_mixture, 1e6 x 16, 8 components": Goal(
        seconds=0.9, peers={f"{_SCIKIT}, a tenth of the rows, 5 steps": 1.0}
    ),
    "learn_axis_aligned_mixture, 1e6 x 10, 2 components": Goal(
        seconds=1.3, peers={f"{_SCIKIT}, 'diag', 5 steps": 1.0}
    ),
    "a pure choice among 1,000 mixtures, 2,000 x 3, all cores": Goal(seconds=1.5),
    "quantiles, 1e7": Goal(peers={"np.quantile": 1.0}),
    "describe, 1e6 x 20": Goal(peers={"pandas describe": 1.0}),
    "means of 51 groups, 1e6 x 10": Goal(peers={"pandas groupby": 0.5}),
    "means of 10000 groups, 1e6 x 1": Goal(peers={"pandas groupby": 1.0 / 3.0}),
    "value_counts, 1e6 rows, 100,000 keys": Goal(peers={"pandas": 1.0 / 3.0}),
    "persons, 1e+06 rows, 1 of each": Goal(peers={"polars, head of groups": 1.0 / 3.0}),
    "weighted_mean of Arrow in 1,000 chunks, 2e5 x 5": Goal(peers={_ONE_ARRAY: 1.0 / 3.0}),
    "weighted_mean of Arrow in 20,000 chunks, 2e5 x 5": Goal(peers={_ONE_ARRAY: 1.0 / 3.0}),
    "weighted_mean of a generator of 100 rows, 2e5 x 5": Goal(peers={_ONE_ARRAY: 1.0 / 3.0}),
    "estimate_mean of a CSV file, 2e5 x 10": Goal(peers={_READING: 1.0 / 2.5}),
    "weighted_mean of a CSV file, 2e5 x 10": Goal(peers={_READING: 1.0 / 1.7}),
    "estimate_mean, 2,000 x 2,000": Goal(60.0),
    "quantiles, 2,000 x 2,000": Goal(60.0),
    "noise_multiplier_for, 5,000 steps of 1/54": Goal(seconds=0.2),
}
GOALS |= {
    f"supercluster, {shape}, {m} x 20": Goal(peers={_BEST: 0.5})
    for shape in _SHAPES
    for m in (300, 2_000, 8_000, 20_000)
}
NONE = Goal()


def verdict(
    goal: float | None, measured: list[float] | None, *, at_most: bool, unit: str = ""
) -> str:
    """Return the text of a cell: the goal and whether the number of each instruction set meets it; empty without a goal."""
    if goal is None or measured is None:
        return ""
    words = [
        "met" if (number <= goal if at_most else number >= goal) else "NOT MET"
        for number in measured
    ]
    return f"{'<=' if at_most else '>='} {goal:g}{unit}: {' / '.join(words if len(set(words)) > 1 else words[:1])}"
