"""The methods of `estimate_gaussian` on public coordinates: each takes rows v and returns their mean and covariance."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.estimators import learner_group_covariances, learner_recursive, learner_selection, lifted
from fastpubpriv.estimators.ladder import estimate as ladder
from fastpubpriv.estimators.lifted import Learned, Prepared, Problem
from fastpubpriv.estimators.matrices import floored, lower_powers, spectrum, symmetric
from fastpubpriv.estimators.radii import chi_radius
from fastpubpriv.mechanisms.sums import AffineMap, Released, SecondMoment
from fastpubpriv.session import Method, Registry, Run
from fastpubpriv.sources.views import pair_rows


def coinpress_rounds(
    run: Run,
    base: AffineMap,
    *,
    shares: Sequence[Fraction],
    n: int,
    row_failure: float,
    slack: Callable[[Released], float],
    floor: float = 0.0,
) -> tuple[FloatArray, Released]:
    """CoinPress for the covariance of centred rows v = base(x) with covariance at most the identity.

    Rows are multiplied by A on the left: with the other order the factors of three and more rounds do not undo each other.
    """
    dim = base.dim
    contraction, inverse = np.eye(dim), np.eye(dim)
    clip = chi_radius(dim, row_failure)
    released: Released | None = None
    second = np.eye(dim)
    for index, share in enumerate(shares):
        name = f"second moment, round {index + 1} of {len(shares)}"
        released = run.release(
            SecondMoment(affine=lifted.after(base, contraction), radius=clip),
            name=name,
            cost=run.account.allowance * share,
            clip_radius=clip,
        )
        last = index == len(shares) - 1
        second = floored(released.value / n, floor if last else 0.0)
        if not last:
            root, inverse_root = lower_powers(second + slack(released) * np.eye(dim))
            contraction = inverse_root @ contraction
            inverse = inverse @ root
    assert released is not None
    return symmetric(inverse @ second @ inverse.T), released


def prepare_pairs(run: Run, problem: Problem, rounds: int | None) -> Prepared:
    """Rounds and the covariance's error are those of the differences, of which there are half as many; the mean's of all rows."""
    prepared = lifted.prepare(run, replace(problem, n=problem.n // 2), rounds)
    return replace(prepared, mean_error=lifted.prepare(run, problem, prepared.rounds).mean_error)


def pairs(run: Run, base: AffineMap, problem: Problem, *, rounds: int) -> Learned:
    """CoinPress covariance on pair differences, then a CoinPress step for the mean in whitened coordinates.

    Differences are centred whatever the mean, so this is the published algorithm; half as many rows carry the same noise.
    """
    halves = pair_rows(run.rows)
    paired = replace(run, rows=halves)
    problem_pairs = replace(problem, n=halves.n, mean_radius=0.0)

    def slack(released: Released) -> float:
        ratio = math.sqrt(problem.dim / halves.n)
        return ratio + ratio * ratio / 2.0 + problem_pairs.noise_slack(released.spectral_std, rounds)

    linear = AffineMap(dim=base.dim, matrix=base.matrix, lower=base.lower)
    failure = problem.failure_prob / (4.0 * halves.n * rounds) if problem.mode == "theory" else lifted.ROW_FAILURE
    covariance, released = coinpress_rounds(
        paired,
        linear,
        shares=lifted.round_shares(rounds),
        n=halves.n,
        row_failure=failure,
        slack=slack,
        floor=lifted.LAST_FLOOR,
    )
    covariance = floored(covariance, lifted.OUTPUT_FLOOR * float(spectrum(covariance)[0][-1]))
    mean, noise_std, root = lifted.coinpress_mean_step(run, base, covariance, problem)
    return Learned(mean, covariance, noise_std, released.spectral_std / halves.n, root)


def predict_pairs(problem: Problem, *, pure: bool, allowance: Fraction) -> Prepared:
    """As `prepare_pairs`, for `plan`: rounds and the covariance's error by half as many rows, the mean's error by all."""
    predicted = lifted.predict(replace(problem, n=max(1, problem.n // 2)), pure=pure, allowance=allowance)
    return replace(predicted, mean_error=lifted.predict(problem, pure=pure, allowance=allowance).mean_error)


PAIRS = Method(
    name="pairs",
    learn=pairs,
    draws=lifted.draws,
    prepare=prepare_pairs,
    predict=predict_pairs,
    needs_public=True,
    least_rows=2,
)
# draws(dim); prepare(run, problem, rounds) refuses and predicts; learn(run, base, problem, *, rounds) releases;
# predict(problem, *, pure, allowance) is what `prepare` would predict, without an account. The ladder has coordinates of its own:
# its learn(run, base, outlook, structure) is called by `ladder.estimate`.
METHODS: Registry[Method] = Registry(
    ladder.METHOD,
    lifted.METHOD,
    PAIRS,
    learner_recursive.METHOD,
    learner_group_covariances.METHOD,
    learner_selection.METHOD,
    auto=True,
)
