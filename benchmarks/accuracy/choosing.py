"""`python -m benchmarks.accuracy.choosing`: lower bound on the error of any rule that chooses clip points from counts.

The Bayes rule has a uniform prior over shapes, over the quantile at which the public row lies, and over scales within some octaves
of the true one. Its mean squared error, over that of the best radius, is the minimum of any rule on average over these shapes,
given these counts and their share of the budget. With the columns themselves as shapes it is a bound; with general shapes it is an
attainable rule. A prototype in doubles: nothing here is private.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from benchmarks.accuracy.hindsight import Cell, best_radius_error
from benchmarks.accuracy.tables import columns

CELL = Cell(300, 1, "epsilon", 1.0)
EDGES = 2.0 ** np.arange(-11, 10)  # edges of octaves, in standard deviations of the column
CLIPS = 2.0 ** (np.arange(-16, 37) / 4)  # candidate clip points of either side
PLACES = 12  # quantiles of the public row, in each shape
STEPS = 4  # scales per octave
POINTS = 4_000  # maximum number of points of a shape
LEAST_WEIGHT = 1e-5


@dataclass(frozen=True)
class Hypotheses:
    """For each of k hypotheses (shape, place, scale): expected counts (k, cells), mean amounts clipped below and above by each clip
    point (k, clips) in the unit of the scale, the scale (k,), and the error of the best radius in standard deviations (k,).
    """

    counts: np.ndarray
    below: np.ndarray
    above: np.ndarray
    scale: np.ndarray
    best: np.ndarray

    @classmethod
    def of(cls, shapes: Sequence[np.ndarray], octaves: float) -> Hypotheses:
        """Return the hypotheses of all shapes, at all places and at scales 2^-octaves ... 2^octaves."""
        found = []
        reach = round(octaves * STEPS)
        for shape in shapes:
            best = best_radius_error(shape, CELL)
            for place in (np.arange(PLACES) + 0.5) / PLACES:
                distances = shape - np.quantile(shape, place, method="nearest")
                for scale in 2.0 ** (np.arange(-reach, reach + 1) / STEPS):
                    sides = -distances * scale, distances * scale
                    found.append(
                        (counted(distances * scale), *(cut(side) for side in sides), scale, best)
                    )
        return cls(*(np.array(part) for part in zip(*found, strict=True)))


def counted(distances: np.ndarray) -> np.ndarray:
    """Return the expected counts of n rows in the octaves of both sides, (cells,)."""
    ends = (
        np.searchsorted(np.sort(side[side > 0.0]), EDGES, side="right")
        for side in (distances, -distances)
    )
    return np.concatenate([np.diff(each) for each in ends]) * (CELL.n / len(distances))


def cut(distances: np.ndarray) -> np.ndarray:
    """Return the mean excess over each clip point, (clips,)."""
    ascending = np.sort(distances)
    above = np.append(np.cumsum(ascending[::-1])[::-1], 0.0)
    places = np.searchsorted(ascending, CLIPS)
    return np.asarray((above[places] - CLIPS * (len(distances) - places)) / len(distances))


def standard(values: np.ndarray) -> np.ndarray:
    """Return at most `POINTS` values, centered at the median, in standard deviations."""
    if len(values) > POINTS:
        values = np.quantile(values, (np.arange(POINTS) + 0.5) / POINTS, method="nearest")
    return np.asarray((values - np.median(values)) / values.std())


def general_shapes() -> list[np.ndarray]:
    """Return shapes that are not columns of a table: symmetric ones, and skewed ones to both sides."""
    chance = (np.arange(POINTS) + 0.5) / POINTS
    normal = stats.norm.ppf(chance)
    even = [
        normal,
        chance,
        stats.laplace.ppf(chance),
        stats.t.ppf(chance, 4),
        stats.beta.ppf(chance, 0.5, 0.5),
    ]
    even.append(np.concatenate([normal - 2.0, normal + 2.0]))
    skewed = [stats.gamma.ppf(chance, shape) for shape in (0.4, 1.0, 3.0)]
    skewed += [stats.lognorm.ppf(chance, width) for width in (0.5, 1.0, 1.5)]
    skewed += [stats.poisson.ppf(chance, rate) for rate in (0.5, 2.0)]
    skewed += [stats.beta.ppf(chance, 1.0, 3.0), stats.pareto.ppf(chance, 2.5)]
    skewed += [(chance > 1.0 - share).astype(float) for share in (0.05, 0.15, 0.3, 0.5)]
    for share in (0.1, 0.3, 0.6):
        skewed.append(
            np.where(chance > 1.0 - share, -np.log(np.maximum(1.0 - chance, 1e-9) / share), 0.0)
        )
    return [standard(each) for each in even] + [
        standard(sign * each) for each in skewed for sign in (1.0, -1.0)
    ]


def decide(
    shapes: Hypotheses, noisy: np.ndarray, share: float
) -> tuple[float, float, float, float]:
    """Return the clip points below and above, and their bias corrections, that minimize the posterior mean squared error ratio."""
    distance = np.abs(shapes.counts - noisy).sum(axis=1)
    log_weight = (distance.min() - distance) * share / 2.0
    kept = log_weight > math.log(LEAST_WEIGHT)
    weight = np.exp(log_weight[kept]) / (shapes.best[kept] * shapes.scale[kept]) ** 2
    weight /= weight.sum()
    below = shapes.below[kept]
    above = shapes.above[kept]
    mean_below = weight @ below
    mean_above = weight @ above
    together = (below * weight[:, None]).T @ above - np.outer(mean_below, mean_above)
    spread = (
        (weight @ below**2 - mean_below**2)[:, None]
        + (weight @ above**2 - mean_above**2)
        - 2.0 * together
    )
    radius = (CLIPS[:, None] + CLIPS) / 2.0
    low, high = np.unravel_index((spread + (radius * noise(share)) ** 2).argmin(), spread.shape)
    return float(CLIPS[low]), float(CLIPS[high]), float(mean_below[low]), float(mean_above[high])


def noise(share: float) -> float:
    """Return the noise standard deviation of the mean at radius 1, if the counts have this share of the budget."""
    return CELL.noise_per_radius / (1.0 - share) / CELL.n


def ratio(
    shape: np.ndarray, shapes: Hypotheses, share: float, resamples: int, rng: np.random.Generator
) -> float:
    """Return the root mean squared error over that of the best radius; the noise of the sum enters by its variance."""
    total = 0.0
    for _ in range(resamples):
        scale = 2.0 ** rng.uniform(-0.5, 0.5)
        rows = rng.choice(shape, CELL.n)
        center = rng.choice(shape)
        noisy = counted((rows - center) * scale) + rng.laplace(
            0.0, 2.0 / share, shapes.counts.shape[1]
        )
        low, high, cut_below, cut_above = decide(shapes, noisy, share)
        found = np.clip((rows - center) * scale, -low, high).mean() - cut_below + cut_above
        error = found / scale + center - shape.mean()
        total += error**2 + ((low + high) / 2.0 * noise(share) / scale) ** 2
    return math.sqrt(total / resamples) / best_radius_error(shape, CELL)


def main() -> None:
    """Print a line for each share."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy.choosing", description=__doc__
    )
    parser.add_argument("--half", choices=["tuning", "report"], default="tuning")
    parser.add_argument("--shapes", choices=["columns", "general"], default="general")
    parser.add_argument(
        "--octaves",
        type=float,
        default=4.0,
        help="scales around the true one that are thought possible",
    )
    parser.add_argument("--shares", type=float, nargs="+", default=[0.25, 0.47])
    parser.add_argument("--resamples", type=int, default=60)
    options = parser.parse_args()
    tried = [standard(column.values) for column in columns(options.half)]
    shapes = Hypotheses.of(
        tried if options.shapes == "columns" else general_shapes(), options.octaves
    )
    for share in options.shares:
        rng = np.random.default_rng(0)
        found = [ratio(shape, shapes, share, options.resamples, rng) for shape in tried]
        median, ninth = np.quantile(found, [0.5, 0.9])
        print(f"{options.half}, share {share:g}: median {median:.2f}, ninth decile {ninth:.2f}")


if __name__ == "__main__":
    main()
