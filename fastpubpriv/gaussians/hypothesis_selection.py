"""`hypothesis_selection`: over a cover of Gaussians on the line (paper A: the role of BKSW19). PureDP or ZCDP, one or two columns,
d + 1 public rows, and few rows at a small epsilon: at least about 2,600 rows at epsilon 1 in one column, 4,000 in two (with 20
public rows 1,800 and 3,000), below which it raises. The estimate is a point of a grid of total-variation width `alpha`, and the
predicted error is that of a truth anywhere in its cell; where the public rows alone promise a smaller one, the result is "wide".
One column has Scheffe sets of public cells, and the (3 + zeta) alpha guarantee of the minimum distance (MS08), zeta = 1. For two,
the marginals along (1, 0), (0, 1) and (1, 1) are selected, each with a third of the budget: the guarantee is for each of them, not
for the joint law.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.estimators.linalg import floored, lower_powers
from fastpubpriv.estimators.moments import packed, unpacked
from fastpubpriv.gaussians.lifted import GaussianPlan, GaussianProblem, LearnedGaussian
from fastpubpriv.gaussians.structures import Prediction
from fastpubpriv.mechanisms.group_covariances import total_times
from fastpubpriv.mechanisms.hypotheses import Hypotheses
from fastpubpriv.mechanisms.scores import CellSets
from fastpubpriv.mechanisms.selection import HypothesisChoice, check_rows
from fastpubpriv.mechanisms.sums import AffineMap
from fastpubpriv.privacy.calibrated_budget import has_delta
from fastpubpriv.session import Session
from fastpubpriv.sources.views import each_row

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
    return total_times((chunk.astype(np.float64) - center).T, weights)[:, None]


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


def prepare(run: Session, problem: GaussianProblem, rounds: int | None) -> GaussianPlan:
    """Choose the accuracy from public numbers; raise if the columns, budget or rounds do not fit or the cover is too large."""
    if problem.dim not in _DIRECTIONS:
        raise InputError(
            f"hypothesis_selection is offered for 1 or 2 columns, got {problem.dim}: its cover grows exponentially with them; "
            'pass method="auto", which is right for any number of columns and public rows, or fewer columns'
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
    error = selection_error(np.eye(problem.dim), accuracy)
    mean_error = math.sqrt(problem.dim) * IN_A_CELL * accuracy / MEAN_SLOPE
    return GaussianPlan(len(_DIRECTIONS[problem.dim]), Prediction(error, mean_error))


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


def learn(
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
    return LearnedGaussian(
        np.array(means[:dim]),
        covariance,
        *lower_powers(covariance),
        mean_noise_std=accuracy / MEAN_SLOPE,
        covariance_error=selection_error(covariance, accuracy),
    )
