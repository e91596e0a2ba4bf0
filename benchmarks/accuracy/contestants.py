"""The compared estimators, each as a function of one sample: ours, and peers that spend the same budget.

A contestant returns an `Answer`, or None if it cannot be run (one public row gives no range, a package is missing).
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import fastpubpriv as fpp
from benchmarks.accuracy.hindsight import Cell, equivalent_pure
from fastpubpriv.privacy import Budget

# Reasons that do not exempt an interval: those with "few_rows" are judged like those without a reason.
PLAIN = ("", "few_rows")
LOOSE_CENTER, LOOSE_VARIANCE = 10.0, 9.0


@dataclass(frozen=True)
class Sample:
    """Private rows (n, 1), public rows (m, 1), a seed, and the true values for contestants that use them."""

    private: np.ndarray
    public: np.ndarray
    seed: int
    cell: Cell
    population: np.ndarray

    @property
    def budget(self) -> Budget:
        """Budget of the cell."""
        if self.cell.notion == "epsilon":
            return fpp.PureDP(epsilon=self.cell.amount)
        return fpp.ZCDP(rho=self.cell.amount)


@dataclass(frozen=True)
class Answer:
    """An estimate, its 95 % interval if there is one, and its reasons; "" without a reason."""

    value: float
    lower: float = math.nan
    upper: float = math.nan
    reasons: str = ""


Contestant = Callable[[Sample], Answer | None]


def from_result(result: Any) -> Answer:
    """Return the answer of one of our results on its only column."""
    lower, upper = result.confidence_interval(0.95)
    return Answer(
        float(result.mean[0]), float(lower[0]), float(upper[0]), ", ".join(result.reasons)
    )


def options(sample: Sample) -> dict[str, Any]:
    """Return the arguments shared by all of our estimators."""
    return {"budget": sample.budget, "random_state": sample.seed, "threads": 1, "progress": False}


def default_mean(sample: Sample) -> Answer:
    return from_result(fpp.estimate_mean(sample.private, x_pub=sample.public, **options(sample)))


def public_covariance(sample: Sample) -> Answer | None:
    if sample.cell.n_pub < 2 or np.ptp(sample.public) == 0.0:
        return None
    return from_result(
        fpp.estimate_mean(
            sample.private, x_pub=sample.public, covariance="public", **options(sample)
        )
    )


def told_variance(sample: Sample) -> Answer:
    variance = float(sample.population.var())
    return from_result(
        fpp.estimate_mean(sample.private, x_pub=sample.public, variance=variance, **options(sample))
    )


def public_range(sample: Sample) -> tuple[float, float] | None:
    """Return the minimum and maximum public value, or None if they are equal."""
    low = float(sample.public.min())
    high = float(sample.public.max())
    return (low, high) if low < high else None


def true_range(sample: Sample) -> tuple[float, float]:
    return float(sample.population.min()), float(sample.population.max())


def weighted(sample: Sample, bounds: tuple[float, float] | None, **more: Any) -> Answer | None:
    if bounds is None:
        return None
    middle = (bounds[0] + bounds[1]) / 2.0
    half = (bounds[1] - bounds[0]) / 2.0
    return from_result(
        fpp.weighted_mean(
            sample.private,
            x_pub=sample.public,
            center=middle,
            norm_bound=half,
            **more,
            **options(sample),
        )
    )


def weighted_true_range(sample: Sample) -> Answer | None:
    return weighted(sample, true_range(sample))


def weighted_public_range(sample: Sample) -> Answer | None:
    return weighted(sample, public_range(sample))


def coinpress_loose(sample: Sample) -> Answer:
    """Run CoinPress with weak bounds: center zero, ten times the largest value, three times the standard deviation."""
    variance = LOOSE_VARIANCE * float(sample.population.var())
    radius = LOOSE_CENTER * float(np.abs(sample.population).max()) / math.sqrt(variance)
    return from_result(
        fpp.coinpress_mean(
            sample.private, center=0.0, radius=radius, variance=variance, **options(sample)
        )
    )


def diffprivlib_mean(sample: Sample, bounds: tuple[float, float] | None) -> Answer | None:
    tools = module("diffprivlib.tools")
    if bounds is None or tools is None:
        return None
    epsilon = float(equivalent_pure(sample.cell).epsilon)
    found = tools.mean(
        sample.private[:, 0], epsilon=epsilon, bounds=bounds, random_state=sample.seed
    )
    return Answer(float(found))


def diffprivlib_true_range(sample: Sample) -> Answer | None:
    return diffprivlib_mean(sample, true_range(sample))


def diffprivlib_public_range(sample: Sample) -> Answer | None:
    return diffprivlib_mean(sample, public_range(sample))


def opendp_mean(sample: Sample, bounds: tuple[float, float] | None) -> Answer | None:
    """Return OpenDP's mean of known size, clamped to the bounds; its noise cannot be seeded."""
    dp = module("opendp.prelude")
    if bounds is None or dp is None:
        return None
    dp.enable_features("contrib")
    n = sample.cell.n
    amount = sample.cell.amount
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=n), dp.symmetric_distance()
    bounded = space >> dp.t.then_clamp(bounds) >> dp.t.then_mean()
    step = (bounds[1] - bounds[0]) / n
    if sample.cell.notion == "epsilon":
        private = bounded >> dp.m.then_laplace(step / amount)
    else:
        private = bounded >> dp.m.then_gaussian(step / math.sqrt(2.0 * amount))
    return Answer(float(private(sample.private[:, 0])))


def opendp_true_range(sample: Sample) -> Answer | None:
    return opendp_mean(sample, true_range(sample))


def opendp_public_range(sample: Sample) -> Answer | None:
    return opendp_mean(sample, public_range(sample))


def module(name: str) -> Any:
    """Import a package of a peer; return None if it is not installed or does not load."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


OURS: dict[str, Contestant] = {
    "estimate_mean": default_mean,
    "estimate_mean, covariance='public'": public_covariance,
    "estimate_mean told the variance": told_variance,
}
PEERS: dict[str, Contestant] = {
    "weighted_mean, true range": weighted_true_range,
    "weighted_mean, public range": weighted_public_range,
    "coinpress_mean, loose bounds": coinpress_loose,
    "diffprivlib, true range": diffprivlib_true_range,
    "diffprivlib, public range": diffprivlib_public_range,
    "OpenDP, true range": opendp_true_range,
    "OpenDP, public range": opendp_public_range,
}
