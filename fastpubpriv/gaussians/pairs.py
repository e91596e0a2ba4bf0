"""CoinPress on the differences of pairs of rows, which are centered for any mean, and then for the mean (BDKU20)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.estimators.linalg import floored, spectrum
from fastpubpriv.gaussians import lifted
from fastpubpriv.gaussians.lifted import (
    GaussianPlan,
    GaussianProblem,
    LearnedGaussian,
    PlannedRounds,
)
from fastpubpriv.gaussians.rounds import (
    Precision,
    RoundMoment,
    Rounds,
    last_moment,
    planned,
)
from fastpubpriv.mechanisms.sums import AffineMap
from fastpubpriv.privacy.spending import Spending
from fastpubpriv.session import Session
from fastpubpriv.sources.views import pairs_of


def coinpress_rounds(
    run: Session,
    state: Rounds,
    *,
    costs: Sequence[Fraction],
    clip: float,
    floor: float = 0.0,
) -> tuple[FloatArray, RoundMoment]:
    """Run CoinPress for the covariance, at most the identity, of centered complete rows v = state.base(x).

    Return it, and the moment of the last round.
    """
    last = last_moment(run, state, planned("second moment", costs, clip))
    return state.moment_of(last, floor), last


def of_pairs(problem: GaussianProblem) -> GaussianProblem:
    """Return the problem of pair differences: half as many rows, centered."""
    return replace(problem, n=problem.n // 2, mean_radius=0.0)


def learn(
    run: Session, base: AffineMap, problem: GaussianProblem, *, rounds: int
) -> LearnedGaussian:
    """Run the published algorithm: CoinPress on pair differences, which are centered for any mean, then a step for the mean."""
    halves = run.on(pairs_of(run.rows))
    plan = PlannedRounds(of_pairs(problem), run.account.spending, rounds)
    sampling = Precision(problem.dim, halves.rows.n, run.account.spending).sampling

    def slack(moment: RoundMoment) -> float:
        return sampling + plan.precision.noise(moment.released.spectral_std / halves.rows.n)

    covariance, _ = coinpress_rounds(
        halves,
        Rounds(linear(base), np.eye(base.dim), slack),
        costs=lifted.round_costs(run.account.allowance, rounds),
        clip=plan.problem.row_clip(rounds),
        floor=lifted.LAST_FLOOR,
    )
    covariance = floored(covariance, lifted.OUTPUT_FLOOR * float(spectrum(covariance)[0][-1]))
    return lifted.with_coinpress_mean(run, base, covariance, problem)


def linear(base: AffineMap) -> AffineMap:
    """Return the map of differences of rows."""
    return AffineMap(dim=base.dim, matrix=base.matrix, lower=base.lower)


def predict(
    problem: GaussianProblem, spending: Spending, rounds: int | None = None
) -> GaussianPlan:
    """Predict rounds and covariance error from the pair differences (half as many rows), and the mean's error from all rows."""
    halved = lifted.predict(replace(problem, n=max(1, problem.n // 2)), spending, rounds)
    mean = lifted.mean_error(problem, spending)
    return replace(halved, predicted=replace(halved.predicted, mean=mean))
