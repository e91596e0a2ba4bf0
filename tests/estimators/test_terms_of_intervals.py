"""Noise, sampling, clipping and undetected rows: without any of them, intervals of means by counts are narrower or miss."""

from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import pytest
from gaussian_cases import held
from spies import seeded

from fastpubpriv import ZCDP, ApproxDP, estimate_mean
from fastpubpriv.estimators import column_means

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
# A short range that ends like a cliff, and one row in 700 far above it, which counts do not show.
VALUES = np.array([-9.0, -8.0, -7.0, -6.0, -5.0, 8.0])
SHARES = np.array([0.1786, 0.12, 0.11, 0.23, 0.36, 0.0014])


@dataclass(frozen=True)
class Case:
    """Columns of independent numbers of one law, and the runs on them."""

    draw: Any
    mean: float
    shape: tuple[int, int]
    budget: Any
    public: Any = None  # else five rows of the same law
    runs: int = 40

    def intervals(self):
        """Share of the intervals that hold the mean, and their lengths."""
        inside = []
        lengths = []
        for seed in range(self.runs):
            rng = np.random.default_rng(seed)
            rows = self.draw(rng, self.shape)
            public = self.public
            if public is None:
                public = self.draw(rng, (5, self.shape[1]))
            result = seeded(
                estimate_mean, rows, x_pub=public, budget=self.budget, random_state=seed
            )
            lower, upper = result.confidence_interval()
            inside.append(held(result, self.mean))
            lengths.append(upper - lower)
        return np.mean(inside), np.array(lengths)


def with_hidden_rows(rng, shape):
    return rng.choice(VALUES, p=SHARES, size=shape)


CASES = {
    # Thirty columns of a light tail share little budget.
    "noise_std": Case(lambda rng, shape: rng.random(shape), 0.5, (4_000, 30), ZCDP(0.02), runs=8),
    # Much budget for few rows.
    "sampling_std": Case(with_hidden_rows, float(VALUES @ SHARES), (2_000, 1), ZCDP(0.5)),
    # After a new center, cells are wide, and the correction for what is clipped is as noisy as the sum.
    "clipping_std": Case(
        lambda rng, shape: rng.exponential(size=shape),
        1.0,
        (20_000, 1),
        ApproxDP(0.5, 1e-6),
        public=np.array([[1e6]]),
    ),
    # Little budget for many rows: noise hides the rare rows.
    "tails": Case(with_hidden_rows, float(VALUES @ SHARES), (20_000, 1), ZCDP(0.01)),
}
NARROWER = {"noise_std": 0.9, "sampling_std": 0.5, "clipping_std": 0.96, "tails": 0.75}


def without(term):
    """Planted: estimates whose `term` is zero."""
    honest = column_means.estimates_of

    def planted(*args, **known):
        estimates = honest(*args, **known)
        return estimates._replace(**{term: np.zeros_like(getattr(estimates, term))})

    return mock.patch.object(column_means, "estimates_of", planted)


@pytest.mark.parametrize("term", CASES)
def test_intervals_hold_the_mean_and_each_term_is_a_part_of_them(term):
    case = CASES[term]
    coverage, lengths = case.intervals()
    assert coverage >= 0.9
    with without(term):
        _, narrower = case.intervals()
    assert np.all(narrower <= lengths)
    assert np.median(narrower / lengths) < NARROWER[term]


@pytest.mark.parametrize("term", ["sampling_std", "tails"])
def test_intervals_without_a_large_term_miss(term):
    with without(term):
        coverage, _ = CASES[term].intervals()
    assert coverage < 0.75
