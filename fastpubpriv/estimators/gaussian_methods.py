"""The methods of `estimate_gaussian` in public coordinates: each takes rows v and returns their mean and covariance.

`group_covariances`: a private center of the covariances of many groups as preconditioner, then the default learner (paper A: the
role of AL21). Experimental: its stability bound is proved here and in the notes, and not in the literature. ApproxDP only, up to
six columns, and very many rows: thousands of groups of 100 rows per column, so at least about 3e5 rows (one column) or 1e6
(two) at epsilon 1, about a third of that at epsilon 4. Its advantage is independence of the range of the covariance; it is
inaccurate if the mean is far outside its bound. If the private test of agreement fails, the rest of the budget goes to the default
learner in the public frame. The published mask has no exact sampler; instead, the matrix logarithm of the mean covariance is
released twice on an integer grid, the second time in coordinates whitened by the first; the same stability bound applies. The
test uses discrete Laplace noise and a margin instead of the truncated Laplace law; group constants are our own.

`recursive_preconditioner`: a recursion on pair differences, then CoinPress for the mean (paper A: the role of KLSU19). Every
budget and number of columns, many rows: each round reduces the range K of the eigenvalues only by the factor 0.6. With d + 1
public rows at rho 0.5, rounds are accurate enough from about 1.9e4 rows in 2 and 7.9e4 in 10 columns; with fewer rows it raises
before any debit. The constants 0.6, 1/2, 1/20 and 100 come from a proof of our own: if the error of a round is at most k / 20, it
maps `Sigma <= k I` to `A Sigma A <= 0.6 k I`, and shrinks no eigenvalue by more than 6 % while k >= 100.

`hypothesis_selection`: over a cover of Gaussians on the line (paper A: the role of BKSW19). PureDP or ZCDP, one or two columns,
d + 1 public rows, and few rows at a small epsilon: at least about 2,600 rows at epsilon 1 in one column, 4,000 in two (with 20
public rows 1,800 and 3,000), below which it raises. The estimate is a point of a grid of total-variation width `alpha`, and the
predicted error is that of a truth anywhere in its cell; where the public rows alone promise a smaller one, the result is "wide".
One column has Scheffe sets of public cells, and the (3 + zeta) alpha guarantee of the minimum distance (MS08), zeta = 1. For two,
the marginals along (1, 0), (0, 1) and (1, 1) are selected, each with a third of the budget: the guarantee is for each of them, not
for the joint law.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import BudgetError, ExperimentalWarning, InputError, warn
from fastpubpriv.estimators import lifted_coinpress
from fastpubpriv.estimators.complete_rows import CompleteRows, release_complete
from fastpubpriv.estimators.ladder import ladder_method as ladder
from fastpubpriv.estimators.lifted_coinpress import (
    GaussianMethod,
    GaussianPlan,
    GaussianProblem,
    LearnedGaussian,
)
from fastpubpriv.estimators.linalg import floored, lower_powers, spectrum, symmetric
from fastpubpriv.estimators.moments import packed, unpacked
from fastpubpriv.estimators.radii import LARGEST_SIZE
from fastpubpriv.mechanisms import group_covariances as mechanism
from fastpubpriv.mechanisms.hypotheses import Hypotheses
from fastpubpriv.mechanisms.scores import CellSets
from fastpubpriv.mechanisms.selection import HypothesisChoice, check_rows
from fastpubpriv.mechanisms.sums import AffineMap, Released, SecondMoment
from fastpubpriv.privacy import ApproxDP, Budget
from fastpubpriv.privacy.calibrated_budget import has_delta
from fastpubpriv.privacy.spending import Spending
from fastpubpriv.session import Registry, Session
from fastpubpriv.sources.views import each_row, pairs_of

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


def prepare_groups(run: Session, problem: GaussianProblem, rounds: int | None) -> GaussianPlan:
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
    return lifted_coinpress.prepare(
        run, narrowed(problem, log_noise(dim, groups, cost))[0], rounds, allowance=rest
    )


def learn_groups(
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
    noise = partial(run.account.spend(rest).std, "moment", problem.lifted)
    if not agreement.passed:
        rounds, _ = lifted_coinpress.choose_rounds(problem, noise)
        return replace(
            lifted_coinpress.learn(run, base, problem, rounds=rounds, allowance=rest), rounds=rounds
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
    rounds = max(rounds, lifted_coinpress.choose_rounds(inner, noise)[0])
    learned = lifted_coinpress.learn(run, preconditioned, inner, rounds=rounds, allowance=rest)
    return replace(
        learned,
        mean=unwhitener @ learned.mean,
        covariance=symmetric(unwhitener @ learned.covariance @ unwhitener.T),
        mean_factor=unwhitener @ learned.mean_factor,
        rounds=rounds,
    )


GROUP_COVARIANCES = GaussianMethod(
    name="group_covariances",
    learn=learn_groups,
    draws=lifted_coinpress.draws,
    prepare=prepare_groups,
    reserved=reserved,
    needs_public=True,
    needs_delta=True,
)


SHRINK = 0.6
LEAST_RANGE = 100.0
TRUSTED_ERROR = 1.0 / 20.0
KEPT = 0.94
MAX_RECURSION = 100


def recursion(condition: float) -> int:
    """Return the number of rounds before the last one: max(0, ceil(log(K / 100) / log(1 / 0.6)))."""
    return max(0, math.ceil(math.log(condition / LEAST_RANGE) / -math.log(SHRINK)))


def of_pairs(problem: GaussianProblem) -> GaussianProblem:
    """Return the problem of pair differences: half as many rows, centered."""
    return replace(problem, n=problem.n // 2, mean_radius=0.0)


def round_error(problem: GaussianProblem, rounds: int, noise: lifted_coinpress.GramNoise) -> float:
    """Return the spectral error of an early round, from sampling and noise, relative to its range."""
    early = lifted_coinpress.round_shares(rounds)[0]
    return problem.sampling_slack(rounds) + problem.noise_slack(
        problem.row_clip(rounds) ** 2 * noise(early), rounds
    )


def prepare_recursive(run: Session, problem: GaussianProblem, rounds: int | None) -> GaussianPlan:
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
    lifted_coinpress.check_grids(run, problem.dim, problem, total, run.account.allowance)
    # Error relative to the least eigenvalue that the recursion can leave, for which it is largest.
    dim = problem.dim
    n = paired.n
    least = KEPT ** (total - 1)
    reach = problem.condition * SHRINK ** (total - 1)  # of the eigenvalues in the last round
    last = (
        reach
        * paired.row_clip(total) ** 2
        * noise(lifted_coinpress.round_shares(total)[-1])
        / (n * least)
    )
    noise_of_mean = run.account.spending.std("sum", dim, lifted_coinpress.MEAN_SHARE)
    step = lifted_coinpress.mean_clip(dim) * noise_of_mean / problem.n
    return GaussianPlan(
        rounds=total,
        covariance_error=lifted_coinpress.covariance_error(dim, n, last),
        mean_error=lifted_coinpress.mean_error(dim, problem.n, step),
    )


def learn_recursive(
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
    for index, share in enumerate(lifted_coinpress.round_shares(rounds)):
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
    return lifted_coinpress.coinpress_mean_step(run, base, covariance, problem)


RECURSIVE = GaussianMethod(
    name="recursive_preconditioner",
    learn=learn_recursive,
    draws=partial(lifted_coinpress.draws, rounds=MAX_RECURSION),
    prepare=prepare_recursive,
    needs_public=True,
    least_rows=2,
)


MAX_HYPOTHESES = 5000
COARSEST = 0.2  # four times this is 0.8: a coarser cover has a nearly vacuous guarantee
_LADDER = 0.95
# Total variation of N(0, 1) from N(0, e^2u) is at most this times u, and from N(t, 1) at most t / sqrt(2 pi).
SCALE_SLOPE = math.sqrt(2.0 / (math.pi * math.e))
MEAN_SLOPE = 1.0 / math.sqrt(2.0 * math.pi)
_DIRECTIONS = {
    1: np.ones((1, 1)),
    2: np.array([[1.0, 0.0], [0.0, 1.0], [math.sqrt(0.5), math.sqrt(0.5)]]),
}


IN_A_CELL = math.sqrt(1.0 / 12.0)  # standard deviation of what is uniform in a cell of width one


def cover_sizes(
    problem: GaussianProblem, accuracy: float
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return the standard deviations of the cover, and steps and numbers of their means: alpha/2 of total variation for either."""
    depth = 0.5 * math.log(max(problem.condition, 1.0))
    scales = max(1, math.ceil(depth * SCALE_SLOPE / accuracy))
    std = np.exp(-(np.arange(scales) + 0.5) * depth / scales)
    half = math.exp(0.5 * depth / scales)
    # The public mean is off in proportion to the deviation: d + 1 public rows leave 10^2 Gaussians, not 10^4.
    reach = np.minimum(problem.mean_radius, problem.deviations * half * std)
    steps = accuracy / MEAN_SLOPE * std / half
    counts = np.maximum(np.ceil(2.0 * reach / steps), 1.0)
    return std, steps, counts.astype(np.int64)


def cover_of(problem: GaussianProblem, accuracy: float) -> Hypotheses:
    """Return a cover in total variation `accuracy` of all N(m, s^2) within the bounds of the problem, 1/condition <= s^2 <= 1."""
    std, steps, counts = cover_sizes(problem, accuracy)
    places = [np.arange(count) - (count - 1) / 2.0 for count in counts]
    means = np.repeat(steps, counts) * np.concatenate(places)
    spreads = np.repeat(std**2, counts)
    shape = len(means), 1, 1
    return Hypotheses.from_arrays(np.ones(shape[:2]), means.reshape(shape), spreads.reshape(shape))


def projected(chunk: Any, *, center: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the coordinate weights (x - center) of each row, (n, 1), summed in the order of the columns."""
    return mechanism.total_times((chunk.astype(np.float64) - center).T, weights)[:, None]


def finest(run: Session, problem: GaussianProblem) -> tuple[Fraction, float]:
    """Return the epsilon of one selection, and the finest accuracy whose cover is small enough and whose guarantee holds at n rows.

    All selections cost at most the allowance. Raise InputError if no accuracy is possible.
    """
    marginals = len(_DIRECTIONS[problem.dim])
    epsilon = run.account.spending.part(Fraction(1, marginals)).choice_epsilon("exponential")
    failure = problem.failure_prob / marginals
    accuracy = COARSEST
    best = 0.0
    while True:
        size = int(cover_sizes(problem, accuracy)[-1].sum())
        # So many rows suffice for total variation 4 accuracy with probability 1 - failure, if covered.
        needed = 8.0 * math.log(4.0 * size / failure) / accuracy**2
        needed += 8.0 * math.log(2.0 * size / failure) / (accuracy * float(epsilon))
        if size > MAX_HYPOTHESES or needed > problem.n:
            break
        best = accuracy
        accuracy *= _LADDER
    if best:
        return epsilon, best
    if size > MAX_HYPOTHESES:
        raise InputError(
            f"hypothesis_selection: the public rows leave a cover of {size} Gaussians (eigenvalue range "
            f"{problem.condition:.3g}, mean radius {problem.mean_radius:.3g}) where at most {MAX_HYPOTHESES} are searched; pass "
            'more public rows, or method="lifted_coinpress" with the same budget'
        )
    raise InputError(
        f"hypothesis_selection: {problem.n} rows are too few for {size} hypotheses at epsilon {float(epsilon):.3g} each, about "
        f'{math.ceil(needed)} are needed; pass a larger budget, more rows, or method="lifted_coinpress"'
    )


def prepare_selection(run: Session, problem: GaussianProblem, rounds: int | None) -> GaussianPlan:
    """Choose the accuracy from public numbers; raise if the columns, budget or rounds do not fit or the cover is too large."""
    if problem.dim not in _DIRECTIONS:
        raise InputError(
            f"hypothesis_selection is offered for 1 or 2 columns, got {problem.dim}: its cover grows exponentially with them; "
            'pass method="lifted_coinpress" with PureDP, or fewer columns'
        )
    if has_delta(run.account.budget):
        raise BudgetError(
            "hypothesis_selection has a pure cost: pass PureDP(epsilon=...) or ZCDP(rho=...), or another method for ApproxDP"
        )
    if rounds is not None:
        raise InputError("hypothesis_selection has no rounds; pass rounds=None")
    check_rows(problem.n, 1)
    _, accuracy = finest(run, problem)
    # The error of a truth anywhere in its cell, since measured errors are far below the 4 alpha of the guarantee.
    return GaussianPlan(
        rounds=len(_DIRECTIONS[problem.dim]),
        covariance_error=selection_error(np.eye(problem.dim), accuracy),
        mean_error=math.sqrt(problem.dim) * IN_A_CELL * accuracy / MEAN_SLOPE,
    )


def parts_of(directions: FloatArray) -> FloatArray:
    """Return the matrices (k, dim, dim) whose sum, weighted by the variances along the k directions, is the covariance."""
    design = np.array([packed(np.outer(each, each)) for each in directions])
    dim = directions.shape[1]
    return np.array([unpacked(each, dim) for each in np.linalg.inv(design).T])


def selection_error(covariance: FloatArray, accuracy: float) -> float:
    """Return the relative Frobenius error of a covariance from variances of marginals that are anywhere in the cells of a cover."""
    directions = _DIRECTIONS[len(covariance)]
    inverse_root = lower_powers(covariance)[1]
    variances = np.einsum("ij,jk,ik->i", directions, covariance, directions)
    whitened = inverse_root @ parts_of(directions) @ inverse_root.T
    moved = np.linalg.norm(variances[:, None, None] * whitened)
    return 2.0 * IN_A_CELL * accuracy / SCALE_SLOPE * float(moved)


def learn_selection(
    run: Session, base: AffineMap, problem: GaussianProblem, *, rounds: int
) -> LearnedGaussian:
    """Select a Gaussian for each of `rounds` marginals of v = base(x), and combine them to a mean and covariance."""
    assert base.center is not None  # `preconditioned` makes the map
    dim = problem.dim
    epsilon, accuracy = finest(run, problem)
    cover = cover_of(problem, accuracy)
    choice = HypothesisChoice(
        evaluation=CellSets.prepare(cover, run.rows.n), size=cover.size, law="exponential"
    )
    means = []
    variances = []
    for index, direction in enumerate(_DIRECTIONS[dim]):
        name = f"selection, marginal {index + 1} of {rounds}"
        line = partial(projected, center=base.center, weights=direction @ base.dense)
        chosen = (
            run.on(each_row(run.rows, line, 1))
            .release(choice, name=name, cost=epsilon, accuracy=accuracy)
            .index
        )
        means.append(float(cover.means[chosen, 0, 0]))
        variances.append(float(cover.spreads[chosen, 0, 0]))
    covariance = np.tensordot(variances, parts_of(_DIRECTIONS[dim]), 1)
    covariance = floored(covariance, 1.0 / problem.condition)
    root = lower_powers(covariance)[0]
    error = selection_error(covariance, accuracy)
    mean = np.array(means[:dim])
    return LearnedGaussian(mean, covariance, accuracy / MEAN_SLOPE, root, covariance_error=error)


SELECTION = GaussianMethod(
    name="hypothesis_selection",
    learn=learn_selection,
    draws=lifted_coinpress.draws,
    prepare=prepare_selection,
    needs_public=True,
)


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
            SecondMoment(affine=lifted_coinpress.after(base, contraction), radius=clip),
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


def pairs(
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
        shares=lifted_coinpress.round_shares(rounds),
        clip=paired.row_clip(rounds),
        slack=slack,
        floor=lifted_coinpress.LAST_FLOOR,
    )
    covariance = floored(
        covariance, lifted_coinpress.OUTPUT_FLOOR * float(spectrum(covariance)[0][-1])
    )
    return lifted_coinpress.coinpress_mean_step(run, base, covariance, problem)


def predict_pairs(
    problem: GaussianProblem, spending: Spending, rounds: int | None = None
) -> GaussianPlan:
    """Predict rounds and covariance error from the pair differences (half as many rows), and the mean's error from all rows."""
    halved = lifted_coinpress.predict(replace(problem, n=max(1, problem.n // 2)), spending, rounds)
    return replace(
        halved, mean_error=lifted_coinpress.predict(problem, spending, halved.rounds).mean_error
    )


PAIRS = GaussianMethod(
    name="pairs",
    learn=pairs,
    draws=lifted_coinpress.draws,
    prepare=partial(lifted_coinpress.prepare, rule=predict_pairs),
    predict=partial(lifted_coinpress.forecast, rule=predict_pairs),
    needs_public=True,
    least_rows=2,
)
METHODS: Registry[GaussianMethod] = Registry(
    ladder.METHOD,
    lifted_coinpress.METHOD,
    PAIRS,
    RECURSIVE,
    GROUP_COVARIANCES,
    SELECTION,
    auto=True,
)
