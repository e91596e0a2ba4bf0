"""A private centre of the covariances of many groups as preconditioner, then the default learner (paper A: the role of AL21).

Experimental: its stability bound is proved here and in the notes, and not in the literature.

Regime
------
ApproxDP only, up to six columns, and very many rows: thousands of groups of about 100 rows for each column, so from some 3e5 rows
(one column) or 1e6 (two columns) at epsilon 1, about a third of that at epsilon 4. What it buys is independence of the range of the
covariance: the public rows choose coordinates and bound the mean, and a covariance far larger than they allow does no harm, as it
would to the default; a mean far outside of its bound still does. The rows must agree with one covariance; if the private test of
that fails, the rest of the budget goes to the default learner in the public frame.

What it substitutes for
-----------------------
The published learner masks the weighted mean covariance by (I + eta G)(I + eta G)^T, for which there is no exact sampler. Here its
matrix logarithm is released on an integer grid with exact Gaussian noise, twice, the second time in the coordinates that the first
one whitens. A logarithm moves by no more than the relative change of the matrix, so the same stability bound pays for it. The test
uses discrete Laplace noise and a margin instead of the truncated Laplace law; group constants are our own.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import ExperimentalWarning, InputError
from fastpubpriv.estimators import lifted
from fastpubpriv.estimators.lifted import Learned, Prepared, Problem
from fastpubpriv.estimators.matrices import spectrum, symmetric
from fastpubpriv.estimators.radii import LARGEST_SIZE
from fastpubpriv.mechanisms import group_covariances as mechanism
from fastpubpriv.mechanisms.group_covariances import LOG_CAP
from fastpubpriv.mechanisms.sums import AffineMap
from fastpubpriv.privacy import ApproxDP, Budget
from fastpubpriv.session import Method, Run

TEST_SHARE = Fraction(1, 8)
MASK_SHARE = Fraction(1, 4)
MASK_ROUNDS = 2
MAX_COLUMNS = 6
MAX_GROUPS = 8192
ROWS_PER_COLUMN = 100
EXTRA_ROWS = 20
# Spectral size of the noise on the logarithm: above this the centre is no better than a wide public frame.
MAX_LOG_NOISE = 0.75
MAX_MARGIN = 0.1


def reserved(budget: Budget) -> ApproxDP:
    """The part of the budget that pays for the test."""
    assert isinstance(budget, ApproxDP)  # `needs_delta`
    return ApproxDP(epsilon=budget.epsilon * TEST_SHARE, delta=budget.delta * TEST_SHARE)


def groups_for(problem: Problem) -> int:
    """Groups of about 100 rows for each column, at most MAX_GROUPS."""
    return min(MAX_GROUPS, problem.n // (ROWS_PER_COLUMN * problem.dim + EXTRA_ROWS))


def log_noise(dim: int, groups: int, cost: Fraction) -> float:
    """Spectral norm of the noise on a released logarithm, about sqrt(2 dim) of its diagonal standard deviation."""
    return math.sqrt(2.0 * dim) * mechanism.log_sensitivity(dim, groups) / math.sqrt(2.0 * float(cost))


def mask_cost(run: Run) -> Fraction:
    """Price of one release of a logarithm."""
    return run.account.allowance * MASK_SHARE / MASK_ROUNDS


def narrowed(problem: Problem, noise: float) -> tuple[Problem, float]:
    """The problem after preconditioning, and the upper bound on the eigenvalues there."""
    upper = (1.0 + mechanism.TOLERANCE) * math.exp(2.0 * noise)
    return replace(problem, condition=upper * upper), upper


def prepare(run: Run, problem: Problem, rounds: int | None) -> Prepared:
    """Refuse, from public numbers, what has too few groups for the noise."""
    dim = problem.dim
    if dim > MAX_COLUMNS:
        raise InputError(
            f'group_covariances is offered for up to {MAX_COLUMNS} columns, got {dim}; pass method="lifted_coinpress"'
        )
    price, cost, groups = reserved(run.account.budget), mask_cost(run), groups_for(problem)

    def enough(count: int) -> bool:
        margin = mechanism.pass_margin(count, price.epsilon, price.delta)
        return margin <= MAX_MARGIN and log_noise(dim, count, cost) <= MAX_LOG_NOISE

    needed = mechanism.MIN_GROUPS
    while not enough(needed):
        needed = math.ceil(1.05 * needed)
    if groups < needed:
        per_group = ROWS_PER_COLUMN * dim + EXTRA_ROWS
        most = f" (at most {MAX_GROUPS} are used)" if needed > MAX_GROUPS else ""
        raise InputError(
            f"group_covariances needs about {needed} groups of {per_group} rows{most} at this budget, {needed * per_group} rows, "
            f'and has {problem.n}; pass more rows, a larger budget, or method="lifted_coinpress"'
        )
    warnings.warn(
        "group_covariances is experimental: its privacy proof is our own (see the notes of the mechanisms) and its constants are "
        "not tuned",
        ExperimentalWarning,
        stacklevel=3,
    )
    return lifted.prepare(run, narrowed(problem, log_noise(dim, groups, cost))[0], rounds, allowance=rest(run))


def rest(run: Run) -> Fraction:
    """What is left for the default learner."""
    return run.account.allowance * (1 - MASK_SHARE)


def _norm(matrix: FloatArray) -> float:
    """Spectral norm of a released matrix."""
    return math.sqrt(max(float(spectrum(matrix @ matrix.T)[0][-1]), 0.0))


def learn(run: Run, base: AffineMap, problem: Problem, *, rounds: int) -> Learned:
    """Test, release the centre, and run the default learner in its coordinates; in the public frame if the test fails."""
    dim, groups = problem.dim, groups_for(problem)
    price, cost = reserved(run.account.budget), mask_cost(run)
    agreement = run.release(
        mechanism.GroupAgreement(base=base, groups=groups),
        name="group agreement",
        cost=(price.epsilon, price.delta),
        groups=groups,
    )
    noise = lifted.gram_noise(problem.lifted, pure=False, allowance=rest(run))
    if not agreement.passed:
        rounds, _ = lifted.choose_rounds(problem, noise)
        return replace(lifted.learn(run, base, problem, rounds=rounds, allowance=rest(run)), rounds=rounds)
    whitener, unwhitener = np.eye(dim), np.eye(dim)
    for index in range(MASK_ROUNDS):
        name = f"logarithm of the centre, round {index + 1} of {MASK_ROUNDS}"
        center = mechanism.GroupCenter(base=base, groups=groups, whitener=whitener)
        released = run.release(center, name=name, cost=cost)
        values, vectors = spectrum(released.value)
        halves = np.exp(np.clip(values, -2.0 * LOG_CAP, 2.0 * LOG_CAP) / 2.0)
        whitener = (vectors / halves) @ vectors.T @ whitener
        unwhitener = unwhitener @ ((vectors * halves) @ vectors.T)
    inner, upper = narrowed(problem, log_noise(dim, groups, cost))
    whitener /= math.sqrt(upper)
    unwhitener *= math.sqrt(upper)
    inner = replace(inner, mean_radius=min(problem.mean_radius * _norm(whitener), LARGEST_SIZE))
    preconditioned = AffineMap(dim=dim, center=base.center, matrix=base.times(whitener))
    # The radius of the mean is a released number now, so the number of rounds is one too; the total stays what it was.
    rounds = max(rounds, lifted.choose_rounds(inner, noise)[0])
    learned = lifted.learn(run, preconditioned, inner, rounds=rounds, allowance=rest(run))
    return Learned(
        mean=unwhitener @ learned.mean,
        covariance=symmetric(unwhitener @ learned.covariance @ unwhitener.T),
        mean_noise_std=learned.mean_noise_std,
        covariance_noise_std=learned.covariance_noise_std,
        mean_factor=unwhitener @ learned.mean_factor,
        rounds=rounds,
    )


METHOD = Method(
    name="group_covariances",
    learn=learn,
    draws=lifted.draws,
    prepare=prepare,
    reserved=reserved,
    needs_public=True,
    needs_delta=True,
)
