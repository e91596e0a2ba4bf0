"""`recursive_preconditioner`: a recursion on pair differences, then CoinPress for the mean (paper A: the role of KLSU19). Every
budget and number of columns, many rows: each round reduces the range K of the eigenvalues only by the factor 0.6. With d + 1
public rows at rho 0.5, rounds are accurate enough from about 1.9e4 rows in 2 and 7.9e4 in 10 columns; with fewer rows it raises
before any debit. The constants 0.6, 1/2, 1/20 and 100 come from a proof of our own: if the error of a round is at most k / 20, it
maps `Sigma <= k I` to `A Sigma A <= 0.6 k I`, and shrinks no eigenvalue by more than 6 % while k >= 100.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from fastpubpriv.errors import InputError
from fastpubpriv.estimators.complete_rows import release_complete
from fastpubpriv.estimators.linalg import floored, spectrum, symmetric
from fastpubpriv.gaussians import lifted
from fastpubpriv.gaussians.lifted import GaussianPlan, GaussianProblem, LearnedGaussian
from fastpubpriv.gaussians.pairs import of_pairs
from fastpubpriv.mechanisms.sums import AffineMap, SecondMoment
from fastpubpriv.session import Session
from fastpubpriv.sources.views import pairs_of

SHRINK = 0.6
LEAST_RANGE = 100.0
TRUSTED_ERROR = 1.0 / 20.0
KEPT = 0.94
MAX_RECURSION = 100


def recursion(condition: float) -> int:
    """Return the number of rounds before the last one: max(0, ceil(log(K / 100) / log(1 / 0.6)))."""
    return max(0, math.ceil(math.log(condition / LEAST_RANGE) / -math.log(SHRINK)))


def round_error(problem: GaussianProblem, rounds: int, noise: lifted.GramNoise) -> float:
    """Return the spectral error of an early round, from sampling and noise, relative to its range."""
    early = lifted.round_shares(rounds)[0]
    return problem.sampling_slack(rounds) + problem.noise_slack(
        problem.row_clip(rounds) ** 2 * noise(early), rounds
    )


def prepare(run: Session, problem: GaussianProblem, rounds: int | None) -> GaussianPlan:
    """Plan the recursion from public numbers; raise InputError if its rounds are not accurate enough for the proof."""
    if rounds is not None:
        raise InputError(
            "recursive_preconditioner takes its number of rounds from the range of the eigenvalues; pass rounds=None"
        )
    paired = of_pairs(problem)
    total = recursion(problem.condition) + 1
    if total > MAX_RECURSION:
        raise InputError(
            f"recursive_preconditioner would need {total} rounds for an eigenvalue range of {problem.condition:.3g}; pass "
            'dim + 1 public rows in general position, a smaller cond_max, or method="lifted_coinpress"'
        )
    noise = partial(run.account.spending.std, "moment", problem.dim)
    error = round_error(paired, total, noise) if total > 1 else 0.0
    if error > TRUSTED_ERROR:
        needed = paired
        while round_error(needed, total, noise) > TRUSTED_ERROR:
            needed = replace(needed, n=math.ceil(1.1 * needed.n))
        raise InputError(
            f"recursive_preconditioner: the error of a round is {error:.3g} of its range, above the {TRUSTED_ERROR} that the "
            f"recursion allows, with {problem.n} rows and {total} rounds for an eigenvalue range of {problem.condition:.3g}; "
            f'about {2 * needed.n} rows are needed. Pass more rows, a larger budget, or method="lifted_coinpress"'
        )
    lifted.check_grids(run, problem.dim, problem, total, run.account.allowance)
    # Error relative to the least eigenvalue that the recursion can leave, for which it is largest.
    dim = problem.dim
    n = paired.n
    least = KEPT ** (total - 1)
    reach = problem.condition * SHRINK ** (total - 1)  # of the eigenvalues in the last round
    last = reach * paired.row_clip(total) ** 2 * noise(lifted.round_shares(total)[-1]) / (n * least)
    noise_of_mean = run.account.spending.std("sum", dim, lifted.MEAN_SHARE)
    step = lifted.mean_clip(dim) * noise_of_mean / problem.n
    return GaussianPlan(
        rounds=total,
        covariance_error=lifted.covariance_error(dim, n, last),
        mean_error=lifted.mean_error(dim, problem.n, step),
    )


def learn(
    run: Session, base: AffineMap, problem: GaussianProblem, *, rounds: int
) -> LearnedGaussian:
    """Halve directions of large variance per round, estimate the rest, map back; each release is one second moment of pairs."""
    dim = problem.dim
    halves = pairs_of(run.rows)
    paired = of_pairs(problem)
    radius = paired.row_clip(rounds)
    # The unit makes the least eigenvalue at least one.
    unit = math.sqrt(problem.condition)
    contraction = unit * np.eye(dim)
    inverse = np.eye(dim) / unit
    limit = problem.condition
    covariance = np.eye(dim)
    for index, share in enumerate(lifted.round_shares(rounds)):
        ball = radius * math.sqrt(limit)
        released, complete = release_complete(
            run.on(halves),
            SecondMoment(affine=AffineMap(dim=dim, matrix=base.times(contraction)), radius=ball),
            name=f"second moment of pairs, round {index + 1} of {rounds}",
            cost=run.account.allowance * share,
            eigenvalue_range=limit,
        )
        pairs_used = halves.n * complete.divisor
        if index == rounds - 1:
            second = floored(released.value / pairs_used, KEPT ** (rounds - 1) / 2.0)
            covariance = symmetric(inverse @ second @ inverse.T)
        else:
            values, vectors = spectrum(released.value / pairs_used)
            halved = np.where(values >= limit / 2.0, 0.5, 1.0)
            contraction = (vectors * halved) @ vectors.T @ contraction
            inverse = inverse @ ((vectors / halved) @ vectors.T)
            limit *= SHRINK
    return lifted.coinpress_mean_step(run, base, covariance, problem)
