"""`recursive_preconditioner`: a recursion on pair differences, then CoinPress for the mean (paper A: the role of KLSU19). Every
budget and number of columns, many rows: each round reduces the range K of the eigenvalues only by the factor 0.6. With d + 1
public rows at rho 0.5, rounds are accurate enough from about 1.9e4 rows in 2 and 7.9e4 in 10 columns; with fewer rows it raises
before any debit. The constants 0.6, 1/2, 1/20 and 100 come from a proof of our own: if the error of a round is at most k / 20, it
maps `Sigma <= k I` to `A Sigma A <= 0.6 k I`, and shrinks no eigenvalue by more than 6 % while k >= 100.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.gaussians import lifted
from fastpubpriv.gaussians.lifted import (
    GaussianPlan,
    GaussianProblem,
    LearnedGaussian,
    PlannedRounds,
)
from fastpubpriv.gaussians.pairs import linear, of_pairs
from fastpubpriv.gaussians.rounds import (
    Precision,
    RoundMoment,
    Rounds,
    covariance_error,
    last_moment,
    planned,
)
from fastpubpriv.gaussians.structures import Prediction
from fastpubpriv.mechanisms.sums import AffineMap
from fastpubpriv.privacy.spending import Spending
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


def reach(condition: float, made: int) -> float:
    """Return the bound on the eigenvalues after this number of rounds."""
    return condition * SHRINK**made


@dataclass(slots=True, eq=False, kw_only=True)
class Halvings(Rounds):
    """The state of a recursion that halves the directions in the upper half of the range of eigenvalues."""

    condition: float

    def roots(self, values: FloatArray, vectors: FloatArray, moment: RoundMoment) -> FloatArray:
        """See `Rounds.roots`."""
        return np.where(values >= reach(self.condition, self.made) / 2.0, 2.0, 1.0)


def round_error(problem: GaussianProblem, rounds: int, spending: Spending) -> float:
    """Return the spectral error of an early round, from sampling and noise, relative to its range."""
    plan = PlannedRounds(problem, spending, rounds)
    noise = Precision(problem.dim, problem.n, spending)
    return plan.precision.slack(
        noise.std(problem.row_clip(rounds) ** 2, lifted.round_shares(rounds)[0])
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
    spending = run.account.spending
    error = round_error(paired, total, spending) if total > 1 else 0.0
    if error > TRUSTED_ERROR:
        needed = paired
        while round_error(needed, total, spending) > TRUSTED_ERROR:
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
    radius_sq = reach(problem.condition, total - 1) * paired.row_clip(total) ** 2
    std = Precision(dim, n, spending).std(radius_sq, lifted.round_shares(total)[-1])
    error = covariance_error(np.full(dim, KEPT ** (total - 1)), n, std)
    mean_error = lifted.mean_error(problem, spending)
    return GaussianPlan(total, Prediction(error, mean_error))


def learn(
    run: Session, base: AffineMap, problem: GaussianProblem, *, rounds: int
) -> LearnedGaussian:
    """Halve directions of large variance per round, estimate the rest, map back; each release is one second moment of pairs."""
    radius = of_pairs(problem).row_clip(rounds)
    costs = lifted.round_costs(run.account.allowance, rounds)
    # The unit makes the least eigenvalue at least one.
    unit = math.sqrt(problem.condition)
    state = Halvings(
        linear(base), unit * np.eye(problem.dim), lambda _: 0.0, condition=problem.condition
    )
    schedule = []
    for made, step in enumerate(planned("second moment of pairs", costs, radius)):
        limit = reach(problem.condition, made)
        facts = {"eigenvalue_range": limit}
        schedule.append(replace(step, radius=radius * math.sqrt(limit), facts=facts))
    last = last_moment(run.on(pairs_of(run.rows)), state, schedule)
    covariance = state.moment_of(last, KEPT ** (rounds - 1) / 2.0)
    return lifted.with_coinpress_mean(run, base, covariance, problem)
