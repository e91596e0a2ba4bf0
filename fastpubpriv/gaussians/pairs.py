"""CoinPress on the differences of pairs of rows, which are centered for any mean, and then for the mean (BDKU20)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.estimators.complete_rows import CompleteRows, release_complete
from fastpubpriv.estimators.linalg import floored, lower_powers, spectrum, symmetric
from fastpubpriv.gaussians import lifted
from fastpubpriv.gaussians.lifted import GaussianPlan, GaussianProblem, LearnedGaussian
from fastpubpriv.gaussians.rounds import after
from fastpubpriv.mechanisms.sums import AffineMap, Released, SecondMoment
from fastpubpriv.privacy.spending import Spending
from fastpubpriv.session import Session
from fastpubpriv.sources.views import pairs_of


def coinpress_rounds(
    run: Session,
    base: AffineMap,
    *,
    shares: Sequence[Fraction],
    clip: float,
    slack: Callable[[Released], float],
    floor: float = 0.0,
) -> tuple[FloatArray, Released, CompleteRows]:
    """Run CoinPress for the covariance, at most the identity, of centered complete rows v = base(x).

    Return it, the last release, and the share of complete rows.
    """
    dim = base.dim
    contraction = np.eye(dim)
    inverse = np.eye(dim)
    for made, share in enumerate(shares, start=1):
        released, complete = release_complete(
            run,
            SecondMoment(affine=after(base, contraction), radius=clip),
            name=f"second moment, round {made} of {len(shares)}",
            cost=run.account.allowance * share,
        )
        second = floored(
            released.value / (run.rows.n * complete.divisor), floor if made == len(shares) else 0.0
        )
        if made < len(shares):
            root, inverse_root = lower_powers(second + slack(released) * np.eye(dim))
            contraction = inverse_root @ contraction
            inverse = inverse @ root
    return symmetric(inverse @ second @ inverse.T), released, complete


def of_pairs(problem: GaussianProblem) -> GaussianProblem:
    """Return the problem of pair differences: half as many rows, centered."""
    return replace(problem, n=problem.n // 2, mean_radius=0.0)


def learn(
    run: Session, base: AffineMap, problem: GaussianProblem, *, rounds: int
) -> LearnedGaussian:
    """Run the published algorithm: CoinPress on pair differences, which are centered for any mean, then a step for the mean."""
    halves = pairs_of(run.rows)
    paired = of_pairs(problem)

    def slack(released: Released) -> float:
        ratio = math.sqrt(problem.dim / halves.n)
        return ratio + ratio * ratio / 2.0 + paired.noise_slack(released.spectral_std, rounds)

    linear = AffineMap(dim=base.dim, matrix=base.matrix, lower=base.lower)
    covariance, _, _ = coinpress_rounds(
        run.on(halves),
        linear,
        shares=lifted.round_shares(rounds),
        clip=paired.row_clip(rounds),
        slack=slack,
        floor=lifted.LAST_FLOOR,
    )
    covariance = floored(covariance, lifted.OUTPUT_FLOOR * float(spectrum(covariance)[0][-1]))
    return lifted.coinpress_mean_step(run, base, covariance, problem)


def predict(
    problem: GaussianProblem, spending: Spending, rounds: int | None = None
) -> GaussianPlan:
    """Predict rounds and covariance error from the pair differences (half as many rows), and the mean's error from all rows."""
    halved = lifted.predict(replace(problem, n=max(1, problem.n // 2)), spending, rounds)
    return replace(halved, mean_error=lifted.predict(problem, spending, halved.rounds).mean_error)
