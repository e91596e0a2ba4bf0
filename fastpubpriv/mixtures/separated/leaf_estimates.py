"""Joint estimation of the Gaussians of all leaves of a cluster tree (paper A, Algorithms 7 and 10).

Every release is one integer vector over all leaves. A replaced row stays in its leaf or moves to another; the cost of
both cases is exact and independent of the number of leaves (see `mechanisms.leaves`). With Gaussian noise the estimation costs
rho_cov + max(rho_mean, rho_count + rho_mean / 2), hence the counts are free up to half of the mean's share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from fastpubpriv._types import FloatArray, Mode
from fastpubpriv.errors import InputError
from fastpubpriv.estimators import lifted_coinpress
from fastpubpriv.estimators.lifted_coinpress import MEAN_SHARE, GaussianProblem, GramNoise, Recursion
from fastpubpriv.estimators.linalg import Whitening
from fastpubpriv.estimators.preconditioner import LARGEST_CONDITION, TRACE_BOUND, Frame, public_frame, trace_frame
from fastpubpriv.mechanisms.leaves import LeafCounts, LeafSecondMoments, LeafSums
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.separated.search_state import ClusterTree
from fastpubpriv.privacy.calibration import cluster_count_grid, cluster_gram_grid, cluster_sum_grid
from fastpubpriv.public_draws import chi2_upper_quantile
from fastpubpriv.results.base import frozen
from fastpubpriv.results.mixture import MixtureResult
from fastpubpriv.results.reasons import Reason
from fastpubpriv.row_maps import RowTree
from fastpubpriv.session import Noise, Session
from fastpubpriv.shared_docs import FAILURE_PROB


@dataclass(frozen=True, slots=True, eq=False)
class LeafFrame:
    """Public bounds of a leaf; its center and the covariance are reported if the private rows do not suffice."""

    frame: Frame
    covariance: FloatArray


def leaf_costs(allowance: Fraction, *, pure: bool) -> tuple[Fraction, Fraction]:
    """Return the budgets of the counts and of the other releases of a leaf stage, each for the worse case of a replaced row."""
    # With Gaussian noise, counts within half of the mean's share cost nothing extra; under pure DP a row that moves pays for all.
    if not pure:
        return allowance * MEAN_SHARE / 2, allowance
    counts = allowance * tuning.PURE_COUNT_SHARE
    return counts, allowance - counts


def leaf_draws(dim: int, n_leaves: int) -> int:
    """Upper bound on the number of noise draws of a leaf stage."""
    return n_leaves * (1 + dim + 2 * lifted_coinpress.MAX_ROUNDS * (dim + 1) ** 2)


def check_leaf_grids(dim: int, n: int, n_leaves: int, allowance: Fraction, *, pure: bool) -> None:
    """Raise, before the debit, if a leaf stage of this size and cost has no integer grids."""
    (counts, learning), public = leaf_costs(allowance, pure=pure), ("check",)
    cluster_count_grid(counts, n, pure=pure, clusters=n_leaves, lineage=public)
    cluster_sum_grid(learning * MEAN_SHARE, dim, n, pure=pure, clusters=n_leaves, lineage=public)
    for rounds in (2, lifted_coinpress.MAX_ROUNDS):
        for share in lifted_coinpress.round_shares(rounds):
            cluster_gram_grid(learning * share, dim + 1, n, pure=pure, clusters=n_leaves, lineage=public)


def ball_frame(center: FloatArray, radius: float, mean_radius: float, source: str) -> LeafFrame:
    """Return the bounds of a leaf known only by an enclosing ball; its mean lies within `mean_radius` radii of the center."""
    dim = len(center)
    condition = tuning.LEAF_COND_MAX * dim * tuning.PARENT_SLACK
    frame = Frame(frozen(center), Whitening(dim, np.full(dim, radius)), mean_radius, condition, source)
    return LeafFrame(frame, frozen(np.eye(dim) * (radius**2 / dim)))


def leaf_frames(
    tree: ClusterTree,
    leaves: Sequence[int],
    x_pub: FloatArray,
    *,
    radii: Sequence[float],
    failure_prob: float = FAILURE_PROB,
) -> list[LeafFrame]:
    """Return bounds of each leaf from its public rows: preconditioner, else trace bound, else radius. Raise if it has none."""
    # `radii` serve leaves with a single public row, or equal ones. Each bound fails with probability at most failure_prob / (4 k).
    members = [x_pub[tree.members(x_pub, leaf)] for leaf in leaves]
    failure = failure_prob / (4.0 * len(leaves))
    return [_leaf_frame(rows, radius, failure) for rows, radius in zip(members, radii, strict=True)]


def _leaf_frame(rows: FloatArray, radius: float, failure: float) -> LeafFrame:
    n_pub, dim = rows.shape
    if not n_pub:
        raise InputError("no public row reaches a leaf; estimate its parent instead")
    gaps = rows - rows.mean(axis=0)
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        try:
            frame = public_frame(
                rows, failure_prob=failure, pub_priv_gap=0.0, cond_max=tuning.LEAF_COND_MAX, require_precondition=False
            )
            if n_pub > dim and frame.condition > tuning.MOST_PRECONDITIONED:
                frame = trace_frame(rows, failure_prob=failure, pub_priv_gap=0.0, cond_max=tuning.LEAF_COND_MAX)
            matrix = frame.scale.inverse
            usable = matrix is not None and bool(np.isfinite(matrix).all()) and frame.condition <= LARGEST_CONDITION
        except (InputError, np.linalg.LinAlgError):
            usable = False
    if not usable:
        if not 0.0 < radius < math.inf:
            raise InputError(f"a leaf without two distinct public rows needs the radius of its node, got {radius}")
        own = math.sqrt(chi2_upper_quantile(failure, dim) / n_pub)
        return ball_frame(rows.mean(axis=0), radius, own, "radius of the node")
    if frame.source == TRACE_BOUND:
        return LeafFrame(frame, frozen(np.eye(dim) * (float(np.sum(np.square(gaps))) / (dim * (n_pub - 1)))))
    return LeafFrame(frame, frozen(gaps.T @ gaps / (n_pub - 1)))


def learn_leaves(
    run: Session,
    tree: ClusterTree,
    leaves: Sequence[int],
    frames: Sequence[LeafFrame],
    *,
    allowance: Fraction,
    mode: Mode = "practical",
    failure_prob: float = FAILURE_PROB,
    rounds: int | None = None,
    weight_floor: float = 0.005,
) -> MixtureResult:
    """Release counts, covariances and means of the rows that reach each of `leaves` (ids of nodes, none an ancestor of another).

    All leaves have the same number of `rounds` of second moments, which share a grid; None takes the largest number that the
    public rule gives for a leaf with enough rows. Each leaf draws all its noise whatever its count, and sums are divided by
    max(noisy count, floor), never by a private size. FALLBACK: too few rows; mean and covariance are those of the public rows.
    UNRESOLVED: the smallest eigenvalues cannot be distinguished from noise; those of the public rows are reported, unless the
    predicted noise was small enough (the rows then lie near a subspace).
    """
    k, dim, account = len(leaves), tree.dim, run.account
    routes = tree.routes(leaves)
    count_cost, cost = leaf_costs(allowance, pure=account.pure)
    counted = run.release(LeafCounts(routes=routes), name="leaf counts", cost=count_cost)
    count_noise = float(counted.noise_std[0])
    floor = max(tuning.LEAST_ROWS * (dim + 1), math.ceil(tuning.LEAST_STDS * count_noise))
    low = counted.value < floor
    sizes = [max(floor, min(round(count), run.rows.n)) for count in counted.value.tolist()]
    problem_of = partial(GaussianProblem, dim=dim, mode=mode, failure_prob=failure_prob / k)
    problems = [
        problem_of(n=size, mean_radius=leaf.frame.mean_radius, condition=leaf.frame.condition)
        for size, leaf in zip(sizes, frames, strict=True)
    ]
    moving = Noise(account.pure, cost, moving=True)
    noise = partial(moving.gram, dim + 1)
    if rounds is None:
        rounds = _common_rounds([problem for problem, few in zip(problems, low, strict=True) if not few], noise)
    states = [Recursion(leaf.frame.base, problem, rounds) for leaf, problem in zip(frames, problems, strict=True)]
    _second_moments(run, routes, states, problems, rounds, cost)
    means, mean_noise = _means(run, routes, states, sizes, cost * MEAN_SHARE)
    reasons, errors = [], np.full((2, k), math.inf)
    per_row = moving.vector(dim, MEAN_SHARE)
    out_means, out_noise, covariances = np.zeros((k, dim)), np.zeros((k, dim)), np.zeros((k, dim, dim))
    for i, (leaf, problem, state) in enumerate(zip(frames, problems, states, strict=True)):
        # The eigenvalues of the last round take precedence over the prediction, which assumes the least favorable public rows.
        predicted = lifted_coinpress.resolves(problem, rounds, noise)
        resolved = state.least > (state.slack / 2.0 if predicted else state.slack)
        reasons.append((Reason.FALLBACK,) if low[i] else () if resolved else (Reason.UNRESOLVED,))
        if low[i] or not (resolved or predicted):
            out_means[i], covariances[i] = leaf.frame.center, leaf.covariance
            continue
        factor = leaf.frame.scale.to_data(state.powers[0])
        out_means[i] = leaf.frame.mean_back(means[i])
        out_noise[i] = mean_noise[i] * np.sqrt(np.einsum("ij,ij->i", factor, factor))
        covariances[i] = leaf.frame.covariance_back(state.covariance)
        if resolved:
            errors[:, i] = lifted_coinpress.predicted_errors(problem, rounds, noise, per_row)
    weights = np.maximum(counted.value / run.rows.n, weight_floor / k)
    return MixtureResult(
        weights=frozen(weights / weights.sum()),
        means=frozen(out_means),
        covariances=frozen(covariances),
        part_reasons=tuple(reasons),
        structure=tuple("full" if noise.any() else "public" for noise in out_noise),
        method="leaves",
        tree=tree,
        columns=run.rows.columns,
        diagnostics={
            "counts": counted.value.tolist(),
            "count_noise_std": count_noise,
            "rounds": rounds,
            "mean_noise_std": out_noise.tolist(),  # in each coordinate; 0 where the public mean is reported
            # Relative Frobenius errors, and l2 errors in standard deviations; infinite for a leaf with a reason.
            "predicted_covariance_errors": errors[0].tolist(),
            "predicted_mean_errors": errors[1].tolist(),
        },
        provenance={"center": "public rows", "scale": frames[0].frame.source, "radius": "public rows"},
        **run.fields(0),
    )


def _harm(problem: GaussianProblem, rounds: int, noise: GramNoise) -> float:
    """Predicted noise of the last round over the least eigenvalue; infinite if that is not positive."""
    last = lifted_coinpress.predicted_slack(problem, rounds, noise, lifted_coinpress.round_shares(rounds)[-1])
    least = lifted_coinpress.least_eigenvalue(problem, rounds, noise)
    return last / least if least > 0.0 else math.inf


def _common_rounds(problems: list[GaussianProblem], noise: GramNoise) -> int:
    """Largest number of rounds over the leaves: by the public rule, or, if no number suffices, with the least relative noise."""
    wanted = [2]
    for problem in problems:
        rounds, too_few = lifted_coinpress.choose_rounds(problem, noise)
        if too_few:
            rounds = min(range(2, lifted_coinpress.MAX_ROUNDS + 1), key=lambda count: _harm(problem, count, noise))
        wanted.append(rounds)
    return max(wanted)


def _second_moments(
    run: Session, routes: RowTree, states: list[Recursion], problems: list[GaussianProblem], rounds: int, cost: Fraction
) -> None:
    """Run all rounds of second moments; each round is one release for all leaves."""
    radii = [problem.row_radius(rounds) for problem in problems]
    for index, share in enumerate(lifted_coinpress.round_shares(rounds)):
        name = f"leaf second moments, round {index + 1} of {rounds}"
        released = run.release(
            LeafSecondMoments(routes=routes, affines=[state.affine for state in states], radii=radii),
            name=name,
            cost=cost * share,
            clip_radius=max(radii),
        )
        for state, one in zip(states, released.answers, strict=True):
            if index < rounds - 1:
                state.update(one)
            else:
                state.finalize(one)


def _means(
    run: Session, routes: RowTree, states: list[Recursion], sizes: list[int], cost: Fraction
) -> tuple[list[FloatArray], FloatArray]:
    """Release a clipped mean of each leaf about its first estimate, in whitened coordinates; return means and noise_std."""
    clip = lifted_coinpress.mean_clip(routes.dim)
    maps = [lifted_coinpress.mean_map(state.base, state.mean, state.powers[1]) for state in states]
    step = run.release(
        LeafSums(routes=routes, affines=maps, radii=[clip] * len(maps)), name="leaf means", cost=cost, clip_radius=clip
    )
    means = [
        state.mean + state.powers[0] @ total / size
        for state, total, size in zip(states, step.value, sizes, strict=True)
    ]
    return means, step.noise_std / np.array(sizes, dtype=np.float64)
