"""Joint estimation of the Gaussians of all leaves of a cluster tree (paper A, Algorithms 7 and 10): mode "theory" and baseline.

Every release is one integer vector over all leaves. A replaced row stays in its leaf or moves to another; the cost of
both cases is exact and independent of the number of leaves (see `mechanisms.leaves`). With Gaussian noise the estimation costs
rho_cov + max(rho_mean, rho_count + rho_mean / 2), hence the counts are free up to half of the mean's share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray, Mode
from fastpubpriv.defaults import FAILURE_PROB
from fastpubpriv.errors import InputError, warn
from fastpubpriv.estimators.linalg import Whitening
from fastpubpriv.estimators.preconditioner import (
    LARGEST_CONDITION,
    TRACE_BOUND,
    Frame,
    public_frame,
    trace_frame,
)
from fastpubpriv.gaussians import lifted
from fastpubpriv.gaussians.lifted import (
    MEAN_SHARE,
    GaussianProblem,
    LearnedGaussian,
    PlannedRounds,
)
from fastpubpriv.gaussians.rounds import (
    PlannedRelease,
    RoundMoment,
    Rounds,
    planned,
    release_rounds,
)
from fastpubpriv.gaussians.structures import Prediction
from fastpubpriv.mechanisms.leaves import LeafCounts, LeafSecondMoments, LeafSums
from fastpubpriv.mixtures import fit
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.separated.search_state import Clustering, ClusterTree
from fastpubpriv.mixtures.separated.searches import Shape
from fastpubpriv.privacy.spending import Spending
from fastpubpriv.results.base import frozen
from fastpubpriv.results.mixture import MixtureResult
from fastpubpriv.results.public_draws import chi2_upper_quantile
from fastpubpriv.results.reasons import Reason, Reasons, ordered
from fastpubpriv.rowwise.row_maps import RowTree, Rule
from fastpubpriv.session import Session

MOST_COMPONENTS = 1000


@dataclass(frozen=True, slots=True, eq=False)
class LeafFrame:
    """Public bounds of a leaf; its center and the covariance are reported if the private rows do not suffice."""

    frame: Frame
    covariance: FloatArray


class LeafCosts(NamedTuple):
    """The budgets of a leaf stage, each for the worse case of a replaced row."""

    counts: Spending
    gaussians: Spending  # of second moments and means


def leaf_costs(spending: Spending) -> LeafCosts:
    """Return the budgets of a leaf stage within a budget."""
    # Where a row that moves costs half as much in the means, counts within half of their share are free; else it pays for all.
    if spending.carries_trees:
        return LeafCosts(spending.part(MEAN_SHARE / 2), spending)
    return LeafCosts(spending.part(tuning.COUNT_SHARE), spending.part(1 - tuning.COUNT_SHARE))


def leaf_draws(dim: int, n_leaves: int) -> int:
    """Upper bound on the number of noise draws of a leaf stage."""
    return n_leaves * (1 + dim + 2 * lifted.MAX_ROUNDS * (dim + 1) ** 2)


def check_leaf_grids(dim: int, n: int, n_leaves: int, spending: Spending) -> None:
    """Raise, before the debit, if a leaf stage of this size and cost has no integer grids."""
    costs = leaf_costs(spending)
    leaves: Any = {"clusters": n_leaves, "lineage": ("check",)}
    costs.counts.cluster_grid("count", 1, n, **leaves)
    costs.gaussians.part(MEAN_SHARE).cluster_grid("sum", dim, n, **leaves)
    for rounds in (2, lifted.MAX_ROUNDS):
        for share in lifted.round_shares(rounds):
            costs.gaussians.part(share).cluster_grid("moment", dim + 1, n, **leaves)


def ball_frame(center: FloatArray, radius: float, mean_radius: float, source: str) -> LeafFrame:
    """Return the bounds of a leaf known only by an enclosing ball; its mean lies within `mean_radius` radii of the center."""
    dim = len(center)
    condition = tuning.LEAF_COND_MAX * dim * tuning.PARENT_SLACK
    frame = Frame(
        frozen(center), Whitening(dim, np.full(dim, radius)), mean_radius, condition, source
    )
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
    failure = failure_prob / (4.0 * len(leaves))
    return [
        _leaf_frame(leaf, x_pub[tree.members(x_pub, leaf)], radius, failure)
        for leaf, radius in zip(leaves, radii, strict=True)
    ]


def _leaf_frame(leaf: int, rows: FloatArray, radius: float, failure: float) -> LeafFrame:
    n_pub, dim = rows.shape
    if not n_pub:
        raise InputError(f"no public row reaches node {leaf}; estimate its parent instead")
    gaps = rows - rows.mean(axis=0)
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        try:
            frame = public_frame(
                rows,
                failure_prob=failure,
                pub_priv_gap=0.0,
                cond_max=tuning.LEAF_COND_MAX,
                require_precondition=False,
            )
            if n_pub > dim and frame.condition > tuning.MOST_PRECONDITIONED:
                frame = trace_frame(
                    rows, failure_prob=failure, pub_priv_gap=0.0, cond_max=tuning.LEAF_COND_MAX
                )
            matrix = frame.scale.inverse
            usable = (
                matrix is not None
                and bool(np.isfinite(matrix).all())
                and frame.condition <= LARGEST_CONDITION
            )
        except (InputError, np.linalg.LinAlgError):
            usable = False
    if not usable:
        if not 0.0 < radius < math.inf:
            raise InputError(
                f"a leaf without two distinct public rows needs the radius of its node, got {radius}"
            )
        own = math.sqrt(chi2_upper_quantile(failure, dim) / n_pub)
        return ball_frame(rows.mean(axis=0), radius, own, "radius of the node")
    if frame.source == TRACE_BOUND:
        return LeafFrame(
            frame, frozen(np.eye(dim) * (float(np.sum(np.square(gaps))) / (dim * (n_pub - 1))))
        )
    return LeafFrame(frame, frozen(gaps.T @ gaps / (n_pub - 1)))


def release_leaf_gaussians(
    run: Session,
    clustering: Clustering,
    frames: Sequence[LeafFrame],
    *,
    spending: Spending,
    mode: Mode = "practical",
    failure_prob: float = FAILURE_PROB,
    rounds: int | None = None,
    weight_floor: float = 0.005,
) -> MixtureResult:
    """Release counts, covariances and means of the rows that reach each leaf (ids of nodes, none an ancestor of another).

    All leaves have the same number of `rounds` of second moments, which share a grid; None takes the largest number that the
    public rule gives for a leaf with enough rows. Each leaf draws all its noise whatever its count, and sums are divided by
    max(noisy count, floor), never by a private size. FALLBACK: too few rows; mean and covariance are those of the public rows.
    UNRESOLVED: the smallest eigenvalues cannot be distinguished from noise; those of the public rows are reported, unless the
    predicted noise was small enough (the rows then lie near a subspace).
    """
    tree = clustering.tree
    k = len(clustering.leaves)
    dim = tree.dim
    if len(frames) != k:
        raise InputError(f"{k} leaves need {k} frames, got {len(frames)}")
    routes = tree.routes(clustering.leaves)
    costs = leaf_costs(spending)
    cost = costs.gaussians.allowance
    counted = run.release(
        LeafCounts(routes=routes), name="leaf counts", cost=costs.counts.allowance
    )
    count_noise = float(counted.noise_std[0])
    floor = max(tuning.LEAST_ROWS * (dim + 1), math.ceil(tuning.LEAST_STDS * count_noise))
    low = counted.value < floor
    sizes = [max(floor, min(round(count), run.rows.n)) for count in counted.value.tolist()]
    problem_of = partial(GaussianProblem, dim=dim, mode=mode, failure_prob=failure_prob / k)
    problems = [
        problem_of(n=size, mean_radius=leaf.frame.mean_radius, condition=leaf.frame.condition)
        for size, leaf in zip(sizes, frames, strict=True)
    ]
    of_leaves = replace(costs.gaussians, between_clusters=True)
    if rounds is None:
        rounds = _common_rounds(
            [problem for problem, few in zip(problems, low, strict=True) if not few], of_leaves
        )
    plans = [PlannedRounds(problem, of_leaves, rounds) for problem in problems]
    states = [plan.start(leaf.frame.base) for leaf, plan in zip(frames, plans, strict=True)]
    moments = _second_moments(run, routes, states, plans, cost)
    gaussians = list(map(lifted.lifted_gaussian, states, moments))
    gaussians = _with_means(run, routes, states, gaussians, sizes, cost * MEAN_SHARE)
    reasons: list[Reasons] = []
    errors = np.full((2, k), math.inf)
    out_means = np.zeros((k, dim))
    out_noise = np.zeros((k, dim))
    covariances = np.zeros((k, dim, dim))
    for i, (leaf, plan, moment, learned) in enumerate(
        zip(frames, plans, moments, gaussians, strict=True)
    ):
        # The eigenvalues of the last round take precedence over the prediction, which assumes the least favorable public rows.
        slack = plan.precision.slack(moment.std)
        least = float(moment.spectrum()[0][0])
        resolved = least > (slack / 2.0 if plan.resolves else slack)
        reasons.append((Reason.FALLBACK,) if low[i] else () if resolved else (Reason.UNRESOLVED,))
        if low[i] or not (resolved or plan.resolves):
            out_means[i], covariances[i] = leaf.frame.center, leaf.covariance
            continue
        out_means[i] = leaf.frame.mean_back(learned.mean)
        out_noise[i] = learned.noise_in_data(leaf.frame)
        covariances[i] = leaf.frame.covariance_back(learned.covariance)
        if resolved:
            errors[:, i] = plan.prediction.covariance, plan.prediction.mean
    weights = np.maximum(counted.value / run.rows.n, weight_floor / k)
    return MixtureResult(
        weights=weights / weights.sum(),
        means=out_means,
        covariances=covariances,
        part_reasons=tuple(reasons),
        structure=tuple("full" if noise.any() else "public" for noise in out_noise),
        method="leaves",
        tree=tree,
        columns=run.rows.columns,
        diagnostics={
            "counts": counted.value.tolist(),
            "count_noise_std": count_noise,
            "rounds": rounds,
            # in each coordinate; 0 where the public mean is reported
            "mean_noise_std": out_noise.tolist(),
            # Relative Frobenius errors, and l2 errors in standard deviations; infinite for a leaf with a reason.
            "predicted_covariance_errors": errors[0].tolist(),
            "predicted_mean_errors": errors[1].tolist(),
            **search_facts(clustering),
        },
        provenance={
            "center": "public rows",
            "scale": frames[0].frame.source,
            "radius": "public rows",
        },
        **run.fields(0),
    )


def _harm(plan: PlannedRounds) -> float:
    """Predicted noise of the last round over the least eigenvalue; infinite if that is not positive."""
    return (
        plan.slack(lifted.round_shares(plan.rounds)[-1]) / plan.least
        if plan.least > 0.0
        else math.inf
    )


def _common_rounds(problems: list[GaussianProblem], spending: Spending) -> int:
    """Largest number of rounds over the leaves: by the public rule, or, if no number suffices, with the least relative noise."""
    wanted = [2]
    for problem in problems:
        plan = lifted.choose_rounds(problem, spending)
        if not plan.resolves:
            counts = range(2, lifted.MAX_ROUNDS + 1)
            plan = min((replace(plan, rounds=count) for count in counts), key=_harm)
        wanted.append(plan.rounds)
    return max(wanted)


def _second_moments(
    run: Session,
    routes: RowTree,
    states: list[Rounds],
    plans: list[PlannedRounds],
    cost: Fraction,
) -> Sequence[RoundMoment]:
    """Run all rounds of second moments, each one release for all leaves; return the moments of the last."""
    radii = [plan.radius for plan in plans]
    costs = lifted.round_costs(cost, plans[0].rounds)

    def measure(step: PlannedRelease) -> list[RoundMoment]:
        affines = [state.affine for state in states]
        leaves = LeafSecondMoments(routes=routes, affines=affines, radii=radii)
        released = run.release(leaves, name=step.name, cost=step.cost, clip_radius=step.radius)
        return [
            RoundMoment(one, plan.problem.n)
            for one, plan in zip(released.answers, plans, strict=True)
        ]

    return release_rounds(states, planned("leaf second moments", costs, max(radii)), measure)


def _with_means(
    run: Session,
    routes: RowTree,
    states: list[Rounds],
    gaussians: list[LearnedGaussian],
    sizes: list[int],
    cost: Fraction,
) -> list[LearnedGaussian]:
    """Release a clipped mean of each leaf about its first estimate, in whitened coordinates."""
    clip = lifted.mean_clip(routes.dim)
    maps = [
        lifted.mean_map(state.base, learned)
        for state, learned in zip(states, gaussians, strict=True)
    ]
    step = run.release(
        LeafSums(routes=routes, affines=maps, radii=[clip] * len(maps)),
        name="leaf means",
        cost=cost,
        clip_radius=clip,
    )
    learned = []
    for leaf, total, std, rows in zip(gaussians, step.value, step.noise_std, sizes, strict=True):
        mean = leaf.mean + leaf.root @ total / rows
        learned.append(replace(leaf, mean=mean, mean_noise_std=float(std) / rows))
    return learned


def check_components(
    n_components: Any, min_weight: Any, n_pub: int | None, n_priv: int
) -> tuple[int, float]:
    """Return the number of components and the least weight (default: half an equal share), checked against the sizes."""
    k = validation.integer("n_components", n_components, minimum=1, maximum=MOST_COMPONENTS)
    if n_pub is not None and k > n_pub:
        raise InputError(
            f"n_components must be at most the number of public rows, got {k} with {n_pub} public rows"
        )
    if k > n_priv:
        raise InputError(
            f"n_components must be at most the number of private rows, got {k} with {n_priv} rows"
        )
    weight = 0.5 / k if min_weight is None else validation.positive("min_weight", min_weight)
    if not weight <= (1.0 + 1e-9) / k:
        raise InputError(
            f"min_weight must be at most 1 / n_components = {1.0 / k:.4g}, got {weight:g}"
        )
    return k, min(weight, 1.0 / k)


def lifted_errors(shape: Shape, expected: float, spending: Spending) -> Prediction:
    """Predict the errors of the lifted CoinPress for a component of `expected` rows, once it has been found."""
    problem = GaussianProblem(
        dim=shape.dim,
        n=max(1, int(expected)),
        mean_radius=1.0,
        condition=1.0,
        mode=shape.mode,
        failure_prob=shape.failure_prob,
    )
    of_leaves = replace(spending, between_clusters=True)
    return lifted.predict(problem, of_leaves, tuning.TYPICAL_ROUNDS).predicted


def warn_if_hopeless(run: Session, expected: float, predicted: Prediction) -> None:
    """Warn, from public numbers and before the debit, if the smallest component cannot be estimated."""
    if predicted.covariance > 1.0:
        warn(
            f"{run.account.name}: predicted relative covariance error {predicted.covariance:.3g}, and "
            f"{predicted.mean:.3g} standard deviations of the mean, for a component of {expected:.0f} rows; pass a larger budget, "
            "more private or public rows, a larger min_weight, or fewer columns",
        )


def search_facts(clustering: Clustering) -> dict[str, Any]:
    """Return the diagnostics of a search, with the balls of its tree in projected space."""
    balls = [
        {
            "node": index,
            "origin": split.origin.tolist(),
            "projection": None if split.projection is None else split.projection.tolist(),
            "center": split.centers[0].tolist(),
            "radius": math.sqrt(split.radius_sq),
        }
        for index, split in enumerate(clustering.tree.splits)
        if split is not None and split.rule is Rule.BALL
    ]
    return {
        "n_components_found": len(clustering.leaves),
        "leaves": list(clustering.leaves),
        "balls": balls,
        "cuts": list(clustering.cuts),
        "depth": clustering.depth,
    }


def with_fit_of_leaves(
    run: Session, learnt: MixtureResult, public: FloatArray, *, asked: int
) -> MixtureResult:
    """Return the result with a released count of its fit; with fewer components than `asked` all are UNRESOLVED."""
    learnt = fit.with_fit(run, learnt, public, asked=asked)
    if learnt.n_components == asked:
        return learnt
    # The search stopped early: a component may stand for several, whatever the count shows.
    merged = tuple(ordered((*own, Reason.UNRESOLVED)) for own in learnt.part_reasons)
    return replace(learnt, part_reasons=merged)
