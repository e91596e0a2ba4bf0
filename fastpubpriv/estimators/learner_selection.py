"""Hypothesis selection over a cover of Gaussians on the line, under pure DP, for one or two columns (paper A: the role of BKSW19).

Regime
------
PureDP or ZCDP, one or two columns, about 20 public rows (one column) or 30 (two), and few rows at a small epsilon: from about
2,000 rows at epsilon 1 in one column, 3,000 in two, below which it refuses. Its price grows with the logarithm of the number of
hypotheses, so it fails gracefully: with one column, 50 public rows and epsilon 0.3 the median covariance error was 0.22 at 3,000
rows and 0.08 at 5,000, where noise on moments still hides the answer (the default's errors were 3,000 and 28). From 20,000 rows on
the default under `PureDP` is closer, by a factor of 5 and more: the answer is a point of a grid whose total-variation width `alpha`
is chosen as fine as the guarantee allows at n, and predicted errors are that width.

What it substitutes for
-----------------------
The paper calls a selection from a cover of all d-dimensional Gaussians. Here: one column has that cover, with Scheffe sets rounded
to public cells, and the (3 + zeta) alpha guarantee of the textbook proof. For two columns there is no cover of planes: the three
marginals along (1, 0), (0, 1) and (1, 1) are selected, each with a third of the budget, and determine mean and covariance; the
guarantee is for each marginal, not for the joint law. Three columns and more are refused.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.estimators import lifted
from fastpubpriv.estimators.lifted import Learned, Prepared, Problem
from fastpubpriv.estimators.matrices import floored, lower_powers
from fastpubpriv.mechanisms.selection import Cover, CoverChoice
from fastpubpriv.mechanisms.sums import AffineMap
from fastpubpriv.privacy import ApproxDP
from fastpubpriv.session import Method, Run

MAX_HYPOTHESES = 5000
SLACK = 1.0
COARSEST = 0.2  # (3 + SLACK) times this is 0.8: beyond it the guarantee says next to nothing
_LADDER = 0.95
# Total variation of N(0, 1) from N(0, e^2u) is at most this times u, and from N(t, 1) at most t / sqrt(2 pi).
SCALE_SLOPE = math.sqrt(2.0 / (math.pi * math.e))
MEAN_SLOPE = 1.0 / math.sqrt(2.0 * math.pi)
_CELLS_PER_STD = 64
_TAIL_STD = 6.0
_MAX_CUTS = 1 << 21
_DIRECTIONS = {1: np.ones((1, 1)), 2: np.array([[1.0, 0.0], [0.0, 1.0], [math.sqrt(0.5), math.sqrt(0.5)]])}


def cover_sizes(problem: Problem, accuracy: float) -> tuple[FloatArray, list[int]]:
    """Standard deviations of the cover, and how many means each has: alpha/2 of total variation for either."""
    depth = 0.5 * math.log(max(problem.condition, 1.0))
    spacing = accuracy / SCALE_SLOPE
    scales = max(1, math.ceil(depth / spacing))
    std = np.exp(-(np.arange(scales) + 0.5) * depth / scales)
    steps = accuracy / MEAN_SLOPE * std * math.exp(-0.5 * depth / scales)
    return std, [max(1, math.ceil(2.0 * problem.mean_radius / float(step))) for step in steps]


def cover_of(problem: Problem, accuracy: float) -> Cover:
    """Gaussians within total variation `accuracy` of every N(m, s^2) with |m| <= mean_radius and 1/condition <= s^2 <= 1."""
    stds, counts = cover_sizes(problem, accuracy)
    radius = problem.mean_radius
    means = [radius * (2.0 * np.arange(count) + 1.0 - count) / count for count in counts]
    step = float(stds[-1]) / _CELLS_PER_STD
    reach = radius + _TAIL_STD
    step = max(step, 2.0 * reach / (_MAX_CUTS - 1))
    return Cover(
        mean=np.concatenate(means),
        std=np.repeat(stds, counts),
        accuracy=accuracy,
        slack=SLACK,
        low=-reach,
        step=step,
        cuts=math.ceil(2.0 * reach / step) + 1,
    )


def rows_needed(size: int, accuracy: float, epsilon: float, failure_prob: float) -> float:
    """Rows from which the choice is (3 + SLACK) accuracy-close with probability 1 - failure_prob, if the truth is covered."""
    sampling = 8.0 * math.log(4.0 * size / failure_prob) / (SLACK * accuracy) ** 2
    return sampling + 8.0 * math.log(2.0 * size / failure_prob) / (SLACK * accuracy * epsilon)


def choices(dim: int) -> int:
    """Number of selections for `dim` columns."""
    return len(_DIRECTIONS[dim])


def share_epsilon(run: Run, dim: int) -> Fraction:
    """Price of one selection: all of them together cost at most the allowance."""
    each = run.account.allowance / choices(dim)
    if run.account.pure:
        return each
    # epsilon^2 / 8 <= each, rounded down
    return Fraction(math.isqrt(math.floor(each * 8 * 4**60)), 2**60)


def finest(problem: Problem, epsilon: float) -> float:
    """The finest accuracy whose cover is small enough and whose guarantee holds at n rows; raises with the numbers if none."""
    failure = problem.failure_prob / choices(problem.dim)
    accuracy, found = COARSEST, 0.0
    while True:
        size = sum(cover_sizes(problem, accuracy)[1])
        needed = rows_needed(size, accuracy, epsilon, failure)
        if size > MAX_HYPOTHESES or needed > problem.n:
            break
        found = accuracy
        accuracy *= _LADDER
    if found:
        return found
    if size > MAX_HYPOTHESES:
        raise InputError(
            f"hypothesis_selection: the public rows leave a cover of {size} Gaussians (eigenvalue range "
            f"{problem.condition:.3g}, mean radius {problem.mean_radius:.3g}) where at most {MAX_HYPOTHESES} are searched; pass "
            'more public rows, or method="lifted_coinpress" with the same budget'
        )
    raise InputError(
        f"hypothesis_selection: {problem.n} rows are too few for {size} hypotheses at epsilon {epsilon:.3g} each, about "
        f'{math.ceil(needed)} are needed; pass a larger budget, more rows, or method="lifted_coinpress"'
    )


def prepare(run: Run, problem: Problem, rounds: int | None) -> Prepared:
    """Refuse what has no small cover, and choose the accuracy, from public numbers."""
    if problem.dim not in _DIRECTIONS:
        raise InputError(
            f"hypothesis_selection is offered for 1 or 2 columns, got {problem.dim}: its cover grows exponentially with them; "
            'pass method="lifted_coinpress" with PureDP, or fewer columns'
        )
    if isinstance(run.account.budget, ApproxDP):
        raise BudgetError(
            "hypothesis_selection has a pure cost: pass PureDP(epsilon=...) or ZCDP(rho=...), or another method for ApproxDP"
        )
    if rounds is not None:
        raise InputError("hypothesis_selection has no rounds; pass rounds=None")
    accuracy = finest(problem, float(share_epsilon(run, problem.dim)))
    # A resolution of alpha, not the (3 + SLACK) alpha of the guarantee, which no data set was seen to come near.
    return Prepared(
        rounds=choices(problem.dim),
        status="ok",
        covariance_error=2.0 * accuracy / SCALE_SLOPE,
        mean_error=accuracy / MEAN_SLOPE,
    )


def learn(run: Run, base: AffineMap, problem: Problem, *, rounds: int) -> Learned:
    """Select a Gaussian for each of `rounds` marginals of v = base(x) and put mean and covariance together."""
    dim = problem.dim
    epsilon = share_epsilon(run, dim)
    accuracy = finest(problem, float(epsilon))
    cover = cover_of(problem, accuracy)
    matrix = base.dense
    means, variances = [], []
    for index, direction in enumerate(_DIRECTIONS[dim]):
        name = f"selection, marginal {index + 1} of {rounds}"
        affine = AffineMap(dim=dim, center=base.center, matrix=(direction @ matrix)[None, :])
        choice = CoverChoice(affine=affine, cover=cover)
        chosen = run.release(choice, name=name, cost=epsilon, accuracy=accuracy).index
        means.append(float(cover.mean[chosen]))
        variances.append(float(cover.std[chosen]) ** 2)
    if dim == 1:
        covariance = np.array([[variances[0]]])
    else:
        # Var((v_1 + v_2) / sqrt 2) = (Var v_1 + Var v_2) / 2 + Cov
        both = variances[2] - (variances[0] + variances[1]) / 2.0
        covariance = floored(np.array([[variances[0], both], [both, variances[1]]]), 1.0 / problem.condition)
    root = lower_powers(covariance)[0]
    return Learned(np.array(means[:dim]), covariance, accuracy / MEAN_SLOPE, 2.0 * accuracy / SCALE_SLOPE, root)


METHOD = Method(name="hypothesis_selection", learn=learn, draws=lifted.draws, prepare=prepare, needs_public=True)
