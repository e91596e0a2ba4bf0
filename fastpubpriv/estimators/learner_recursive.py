"""A recursive preconditioner on pair differences, then CoinPress for the mean (paper A: the role of KLSU19).

Regime
------
Every budget, any number of columns, and many rows: each round takes only the factor 0.6 off the range K of the eigenvalues, where a
CoinPress round takes all that its noise leaves. With d + 1 public rows the rounds can be trusted from about 1.9e4, 4.1e4 and 7.9e4
rows in 2, 5 and 10 columns at rho 0.5, from three times as many at (1, 1e-6), and from 3e5, 1.4e6 and 5.3e6 under pure epsilon 1;
fewer rows are refused before anything is paid. Above that its covariance error is that of `pairs`, with more passes than the
default. Use it to compare with the literature or to check the default. The predicted covariance error is a bound for the least
favorable covariance in the public range.

What it substitutes for
-----------------------
The published learner has unspecified constants and a coordinate-wise mean. The constants 0.6, 1/2, 1/20 and 100 are those of a
proof of our own: if the error of a round is at most k / 20, it maps `Sigma <= k I` to `A Sigma A <= 0.6 k I`, and shrinks no
eigenvalue by more than 6 % while k >= 100. The mean is CoinPress in whitened coordinates; the budget is split as in the default,
1/10 for the mean and 6/10 of the rest for the last round. In mode "practical" clip radius and error are those of practice, not of
the proof.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fastpubpriv.errors import InputError
from fastpubpriv.estimators import lifted
from fastpubpriv.estimators.lifted import Learned, Prepared, Problem
from fastpubpriv.estimators.matrices import floored, spectrum, symmetric
from fastpubpriv.estimators.radii import chi_radius
from fastpubpriv.mechanisms.sums import AffineMap, SecondMoment
from fastpubpriv.session import Method, Run, noise_per_radius
from fastpubpriv.sources.views import pair_rows

SHRINK = 0.6
LEAST_RANGE = 100.0
TRUSTED_ERROR = 1.0 / 20.0
KEPT = 0.94
MAX_RECURSION = 100


def recursion(condition: float) -> int:
    """Rounds before the last one: ceil(log(K / 100) / log(1 / 0.6)), at least none."""
    return max(0, math.ceil(math.log(condition / LEAST_RANGE) / -math.log(SHRINK)))


def of_pairs(problem: Problem) -> Problem:
    """The problem of the differences: half as many rows, centred."""
    return replace(problem, n=problem.n // 2, mean_radius=0.0)


def clip(problem: Problem, rounds: int) -> float:
    """Clip radius of a row in units of the root of the largest eigenvalue."""
    failure = problem.failure_prob / (4.0 * problem.n * rounds) if problem.mode == "theory" else lifted.ROW_FAILURE
    return chi_radius(problem.dim, failure)


def round_error(problem: Problem, rounds: int, noise: lifted.GramNoise) -> float:
    """Spectral error of an early round relative to its range: sampling and noise."""
    early = lifted.round_shares(rounds)[0]
    return problem.sampling_slack(rounds) + problem.noise_slack(clip(problem, rounds) ** 2 * noise(early), rounds)


def prepare(run: Run, problem: Problem, rounds: int | None) -> Prepared:
    """Refuse, from public numbers, a recursion whose rounds are not accurate enough to be trusted."""
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
    pure, allowance = run.account.pure, run.account.allowance
    noise = lifted.gram_noise(problem.dim, pure=pure, allowance=allowance)
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
    lifted.check_grids(
        run, problem.dim, problem, [allowance * share for share in lifted.round_shares(total)], allowance
    )
    # Against the least eigenvalue that the recursion can leave; the others are known better.
    d, n = problem.dim, paired.n
    least = KEPT ** (total - 1)
    last = (
        last_range(problem.condition) * clip(paired, total) ** 2 * noise(lifted.round_shares(total)[-1]) / (n * least)
    )
    per_row = noise_per_radius(d, pure=pure, allowance=allowance)
    step = lifted.mean_clip(d) * per_row(lifted.MEAN_SHARE) / problem.n
    return Prepared(
        rounds=total,
        status="ok",
        covariance_error=math.sqrt(d * (d + 1) / n + last * last * d * (d + 1) / 2.0),
        mean_error=math.sqrt(d / problem.n + d * step * step),
    )


def last_range(condition: float) -> float:
    """Range of the eigenvalues in the last round, at most 100."""
    return condition * SHRINK ** recursion(condition)


def learn(run: Run, base: AffineMap, problem: Problem, *, rounds: int) -> Learned:
    """Halve the large directions round by round, estimate what is left, undo; every release is one second moment of pairs."""
    dim = problem.dim
    halves = pair_rows(run.rows)
    paired = of_pairs(problem)
    radius = clip(paired, rounds)
    # In units in which the least eigenvalue is at least one.
    unit = math.sqrt(problem.condition)
    contraction, inverse = unit * np.eye(dim), np.eye(dim) / unit
    limit = problem.condition
    covariance, noise_std = np.eye(dim), 0.0
    for index, share in enumerate(lifted.round_shares(rounds)):
        last = index == rounds - 1
        name = f"second moment of pairs, round {index + 1} of {rounds}"
        released = run.on(halves).release(
            SecondMoment(affine=AffineMap(dim=dim, matrix=base.times(contraction)), radius=radius * math.sqrt(limit)),
            name=name,
            cost=run.account.allowance * share,
            clip_radius=radius * math.sqrt(limit),
            eigenvalue_range=limit,
        )
        if last:
            second = floored(released.value / halves.n, KEPT ** (rounds - 1) / 2.0)
            covariance = symmetric(inverse @ second @ inverse.T)
            noise_std = released.spectral_std / halves.n
        else:
            values, vectors = spectrum(released.value / halves.n)
            halved = np.where(values >= limit / 2.0, 0.5, 1.0)
            contraction = (vectors * halved) @ vectors.T @ contraction
            inverse = inverse @ ((vectors / halved) @ vectors.T)
            limit *= SHRINK
    mean, mean_noise, root = lifted.coinpress_mean_step(run, base, covariance, problem)
    return Learned(mean, covariance, mean_noise, noise_std, root)


def draws(dim: int) -> int:
    """Upper bound on the noise draws of `learn`."""
    return MAX_RECURSION * (dim + 1) ** 2 + 8 * dim


METHOD = Method(
    name="recursive_preconditioner", learn=learn, draws=draws, prepare=prepare, needs_public=True, least_rows=2
)
