"""`group_covariances`: a private center of the covariances of many groups as preconditioner, then the default learner (paper A: the
role of AL21). Experimental: its stability bound is proved here and in the notes, and not in the literature. ApproxDP only, up to
six columns, and very many rows: thousands of groups of 100 rows per column, so at least about 3e5 rows (one column) or 1e6
(two) at epsilon 1, about a third of that at epsilon 4. Its advantage is independence of the range of the covariance; it is
inaccurate if the mean is far outside its bound. If the private test of agreement fails, the rest of the budget goes to the default
learner in the public frame. The published mask has no exact sampler; instead, the matrix logarithm of the mean covariance is
released twice on an integer grid, the second time in coordinates whitened by the first; the same stability bound applies. The
test uses discrete Laplace noise and a margin instead of the truncated Laplace law; group constants are our own.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from fastpubpriv.errors import ExperimentalWarning, InputError, warn
from fastpubpriv.estimators.linalg import spectrum, symmetric
from fastpubpriv.estimators.radii import LARGEST_SIZE
from fastpubpriv.gaussians import lifted
from fastpubpriv.gaussians.lifted import GaussianPlan, GaussianProblem, LearnedGaussian
from fastpubpriv.mechanisms import group_covariances as mechanism
from fastpubpriv.mechanisms.sums import AffineMap
from fastpubpriv.privacy import ApproxDP, Budget
from fastpubpriv.privacy.calibrated_budget import has_delta
from fastpubpriv.session import Session

TEST_SHARE = Fraction(1, 8)
# share of the releases of a logarithm; the rest is for the default learner
MASK_SHARE = Fraction(1, 4)
MASK_ROUNDS = 2  # their number
MAX_COLUMNS = 6
MAX_GROUPS = 8192
ROWS_PER_COLUMN = 100
# Maximum spectral norm of the noise on the logarithm: above this the center is no better than a wide public frame.
MAX_LOG_NOISE = 0.75
MAX_MARGIN = 0.1


def reserved(budget: Budget) -> ApproxDP:
    """Return the part of the budget that pays for the test of agreement."""
    assert has_delta(budget)  # `needs_delta`
    return ApproxDP(epsilon=budget.epsilon * TEST_SHARE, delta=budget.delta * TEST_SHARE)


def groups_for(problem: GaussianProblem) -> int:
    """Return the number of groups of 100 rows per column, at most MAX_GROUPS."""
    return min(MAX_GROUPS, problem.n // (ROWS_PER_COLUMN * problem.dim))


def log_noise(dim: int, groups: int, cost: Fraction) -> float:
    """Return the spectral norm of the noise on a released logarithm, about sqrt(2 dim) times its diagonal standard deviation."""
    return (
        math.sqrt(2.0 * dim) * mechanism.log_sensitivity(dim, groups) / math.sqrt(2.0 * float(cost))
    )


def narrowed(problem: GaussianProblem, noise: float) -> tuple[GaussianProblem, float]:
    """Return the problem after preconditioning, and its upper bound on the eigenvalues."""
    upper = (1.0 + mechanism.TOLERANCE) * math.exp(2.0 * noise)
    return replace(problem, condition=upper * upper), upper


def _prices(run: Session) -> tuple[Fraction, Fraction]:
    """Return the cost of each release of a logarithm, and of the default learner."""
    allowance = run.account.allowance
    return allowance * MASK_SHARE / MASK_ROUNDS, allowance * (1 - MASK_SHARE)


def prepare(run: Session, problem: GaussianProblem, rounds: int | None) -> GaussianPlan:
    """Plan the method from public numbers; raise InputError if there are too few groups for the noise."""
    dim = problem.dim
    if dim > MAX_COLUMNS:
        raise InputError(
            f'group_covariances is offered for up to {MAX_COLUMNS} columns, got {dim}; pass method="lifted_coinpress"'
        )
    price = reserved(run.account.budget)
    groups = groups_for(problem)
    cost, rest = _prices(run)

    def enough(count: int) -> bool:
        margin = mechanism.pass_margin(count, price.epsilon, price.delta)
        return margin <= MAX_MARGIN and log_noise(dim, count, cost) <= MAX_LOG_NOISE

    needed = mechanism.MIN_GROUPS
    while not enough(needed):
        needed = math.ceil(1.05 * needed)
    if groups < needed:
        per_group = ROWS_PER_COLUMN * dim
        most = f" (at most {MAX_GROUPS} are used)" if needed > MAX_GROUPS else ""
        raise InputError(
            f"group_covariances needs about {needed} groups of {per_group} rows{most} at this budget, {needed * per_group} rows, "
            f'and has {problem.n}; pass more rows, a larger budget, or method="lifted_coinpress"'
        )
    warn(
        "group_covariances is experimental: its privacy proof is our own (see the notes of the mechanisms) and its constants are "
        "not tuned",
        ExperimentalWarning,
    )
    return lifted.prepare(
        run, narrowed(problem, log_noise(dim, groups, cost))[0], rounds, allowance=rest
    )


def learn(
    run: Session, base: AffineMap, problem: GaussianProblem, *, rounds: int
) -> LearnedGaussian:
    """Test, release the center, and run the default learner in its coordinates; in the public frame if the test fails."""
    dim = problem.dim
    groups = groups_for(problem)
    cost, rest = _prices(run)
    price = reserved(run.account.budget)
    agreement = run.release(
        mechanism.GroupAgreement(base=base, groups=groups),
        name="group agreement",
        cost=(price.epsilon, price.delta),
        groups=groups,
    )
    spending = run.account.spend(rest)
    if not agreement.passed:
        rounds = lifted.choose_rounds(problem, spending).rounds
        return replace(
            lifted.learn(run, base, problem, rounds=rounds, allowance=rest), rounds=rounds
        )
    whitener = np.eye(dim)
    unwhitener = np.eye(dim)
    for index in range(MASK_ROUNDS):
        name = f"logarithm of the center, round {index + 1} of {MASK_ROUNDS}"
        center = mechanism.GroupCenter(base=base, groups=groups, whitener=whitener)
        released = run.release(center, name=name, cost=cost)
        values, vectors = spectrum(released.value)
        halves = np.exp(np.clip(values, -2.0 * mechanism.LOG_CAP, 2.0 * mechanism.LOG_CAP) / 2.0)
        whitener = (vectors / halves) @ vectors.T @ whitener
        unwhitener = unwhitener @ ((vectors * halves) @ vectors.T)
    inner, upper = narrowed(problem, log_noise(dim, groups, cost))
    whitener /= math.sqrt(upper)
    unwhitener *= math.sqrt(upper)
    stretched = math.sqrt(max(float(spectrum(whitener @ whitener.T)[0][-1]), 0.0))
    inner = replace(inner, mean_radius=min(problem.mean_radius * stretched, LARGEST_SIZE))
    preconditioned = AffineMap(dim=dim, center=base.center, matrix=base.times(whitener))
    # The radius of the mean, and with it the number of rounds, now depends on released numbers; the total cost does not change.
    rounds = max(rounds, lifted.choose_rounds(inner, spending).rounds)
    learned = lifted.learn(run, preconditioned, inner, rounds=rounds, allowance=rest)
    return replace(
        learned,
        mean=unwhitener @ learned.mean,
        covariance=symmetric(unwhitener @ learned.covariance @ unwhitener.T),
        root=unwhitener @ learned.root,
        inverse=learned.inverse @ whitener,
        rounds=rounds,
    )
