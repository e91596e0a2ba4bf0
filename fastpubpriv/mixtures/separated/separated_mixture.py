"""Mixtures of separated Gaussians from many private rows and a few public ones (paper A, Algorithms 3 to 10), and baselines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fastpubpriv import session, validation
from fastpubpriv._types import FloatArray, Keep, MixtureMethod, Mode, RowsPerPerson
from fastpubpriv.errors import BudgetError, InputError, warn
from fastpubpriv.estimators.linalg import Whitening
from fastpubpriv.estimators.output_bounds import Box, bounded, checked_bounds
from fastpubpriv.estimators.preconditioner import (
    LARGEST_CONDITION,
    TRACE_BOUND,
    Frame,
    public_frame,
    trace_frame,
)
from fastpubpriv.estimators.radii import failure_probability, size
from fastpubpriv.estimators.user_level import user_level
from fastpubpriv.gaussians import lifted
from fastpubpriv.gaussians.lifted import (
    MEAN_SHARE,
    GaussianProblem,
    LearnedGaussian,
    PlannedRounds,
)
from fastpubpriv.gaussians.public_prior import column_scales, constant_text
from fastpubpriv.gaussians.rounds import (
    PlannedRelease,
    RoundMoment,
    Rounds,
    planned,
    release_rounds,
)
from fastpubpriv.gaussians.structures import Prediction
from fastpubpriv.kernels.mixture_rows import prepare
from fastpubpriv.mechanisms.leaves import LeafCounts, LeafSecondMoments, LeafSums
from fastpubpriv.mechanisms.sums import AffineMap, SecondMoment
from fastpubpriv.mixtures import fit
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.axis_aligned import bounded_range, dp_em
from fastpubpriv.mixtures.axis_aligned.em import Task
from fastpubpriv.mixtures.em_rounds import StartState
from fastpubpriv.mixtures.public_em import (
    Kind,
    column_variances,
    labeled_fit,
    without_far,
)
from fastpubpriv.mixtures.separated import search_state, searches, soft_em, without_public
from fastpubpriv.mixtures.separated.public_shapes import (
    SEED,
    column_scaling,
    kmeans,
    nearest_centers,
    refuse_too_much,
)
from fastpubpriv.mixtures.separated.search_state import Clustering, ClusterTree
from fastpubpriv.mixtures.separated.searches import SearchMethod, Shape
from fastpubpriv.mixtures.separated.soft_em import SoftPlan
from fastpubpriv.privacy import ZCDP, Budget, Cost, Ledger
from fastpubpriv.privacy.calibrated_budget import has_delta
from fastpubpriv.privacy.spending import Spending, noise_of
from fastpubpriv.results.base import frozen
from fastpubpriv.results.mixture import MixtureResult
from fastpubpriv.results.public_draws import chi2_upper_quantile, draw_normals, draw_uniforms
from fastpubpriv.results.reasons import Reason, Reasons, ordered
from fastpubpriv.rowwise.row_maps import RowTree, Rule
from fastpubpriv.session import Session
from fastpubpriv.shared_docs import FAILURE_PROB, shared_docs
from fastpubpriv.sources import Rows
from fastpubpriv.sources.open import public_table_of

MOST_COMPONENTS = 1000


# ---- Joint estimation of the Gaussians of all leaves of a cluster tree (paper A, Algorithms 7 and 10): mode "theory" and baseline.
# Every release is one integer vector over all leaves. A replaced row stays in its leaf or moves to another; the cost of
# both cases is exact and independent of the number of leaves (see `mechanisms.leaves`). With Gaussian noise the estimation costs
# rho_cov + max(rho_mean, rho_count + rho_mean / 2), hence the counts are free up to half of the mean's share.


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


def learn_leaves(
    run: Session,
    tree: ClusterTree,
    leaves: Sequence[int],
    frames: Sequence[LeafFrame],
    *,
    spending: Spending,
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
    k = len(leaves)
    dim = tree.dim
    if len(frames) != k:
        raise InputError(f"{k} leaves need {k} frames, got {len(frames)}")
    routes = tree.routes(leaves)
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


# ---- The learner.


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


def result_of_leaves(
    learnt: MixtureResult, clustering: Clustering, method: str, n_pub: int, **facts: Any
) -> MixtureResult:
    """Return the result of a method whose leaves the lifted CoinPress has estimated."""
    diagnostics = {**learnt.diagnostics, **search_facts(clustering), **facts}
    return replace(learnt, method=method, n_pub=n_pub, diagnostics=diagnostics)


@shared_docs
@user_level
def learn_separated_mixture(
    x_priv: Any,
    *,
    x_pub: Any = None,
    n_components: int,
    budget: Budget,
    min_weight: float | None = None,
    method: MixtureMethod = "auto",
    mode: Mode = "practical",
    failure_prob: float = FAILURE_PROB,
    weight_floor: float = 0.05,
    bounds: Any = None,
    columns: Any = None,
    person: Any = None,
    keep: Keep | None = None,
    rows_per_person: RowsPerPerson | None = None,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> MixtureResult:
    """Weights, means and covariances of separated Gaussian components, found with the help of a few public rows.

    Parameters
    ----------
    {x_priv}
        A row with a missing or infinite entry belongs to no component but counts in n_priv.
    x_pub : (n_pub, dim) array-like, path, frame or table, optional
        Public rows from the same mixture, not all equal, at least n_components of them; some of each component. If they have
        another distribution, only accuracy suffers. Without them see the notes.
    n_components : int
        Maximum number of components, at most 64 without public rows. Fewer are returned if the rest cannot be distinguished.
    {budget}
        PureDP is possible with "soft_em", which then starts from public rows alone, and with "public_pca". Without public rows it
        must be ApproxDP, unless `bounds` are finite in every column.
    min_weight : float in (0, 1 / n_components], optional
        Share of the rows in the smallest component; smaller groups are not split off. The default is half an equal share, and
        without public rows at most a tenth.
    method : "auto", "tree", "one_shot", "public_pca" or "soft_em"
        "soft_em": expectation-maximization with soft responsibilities, in rounds of private second moments, from public fits whose
        components may differ in scale by any factor and from the labels of a cheap private search; for components that overlap, for
        any scales, and for columns that are not too many for the rows and the budget. If noise would be about as large as a
        covariance, and public rows show no correlations within components, it learns variances alone ("diagonal" in `structure`),
        without the noise of correlations. The others find components first, and then
        learn a Gaussian for each, by such rounds from these labels. "tree": private principal directions, then a ball along a
        valley of a released histogram, repeatedly; for components of any scale and 10, better 20 public rows each. "one_shot":
        private principal directions once, then the nearest of the centers of the public rows; for components of comparable scale
        and 2 to 10 public rows each. "public_pca": public rows alone find the components. "auto" is "soft_em" in mode "practical";
        else it depends on n_pub, dim, n_components, min_weight and the notion of the budget. Without public rows it is "soft_em".
    mode : "practical" or "theory"
        The searches above, or paper A's Algorithms 6 and 7 ("tree") and 9 and 10 ("public_pca"), which need separations of about
        a hundred standard deviations. Same privacy. "theory" needs public rows.
    {failure_prob}
        The bounds are those derived from the public rows.
    weight_floor : float in (0, 1)
        No weight is reported below weight_floor / n_components: this share of an equal weight.
    {bounds_of_means, matched_columns}
        In any units: in mode "practical", the coordinates of the search are chosen from public rows
        (`diagnostics["scaling"]`).
    {person, keep, rows_per_person, ledger, random_state, threads, progress}

    Returns
    -------
    MixtureResult
        `weights`, `means`, `covariances` and `part_reasons` of the components found, the released `tree` that sends a row to its
        component (None for "soft_em", whose `predict` does), and `diagnostics` (noisy counts, predictions, balls, cuts, depth,
        shares; `predicted_total_variations`, of mode "practical"; `unexplained`: the share of rows far from every component).
        `fit_distance` and `fit_interval` say by how many of the rows the answer differs from them, as far as a noisy count shows
        it, and the reasons grade that; they do not say whether components are groups that you know. With fewer components than
        requested in mode "theory", all are "unresolved": one of them may stand for several.

    Raises
    ------
    {raises}

    Privacy
    -------
    Neighbors: replace one private row; holds for every public data set. Private rows are never partitioned: each pass
    routes them down a tree of released values. A node of the tree costs at most its share for a row replaced inside and half
    of that for one that enters or leaves, so a search of depth D costs D shares. Nothing is divided by a private size. In practical
    mode public shares of the budget pay for searches (three tenths for one that finds components by itself), for rounds (joint Gram
    matrices of all components, at the price of a single one), and for a choice by noisy scores among the starts of "soft_em". In
    mode "theory" the leaves are released together, with exact integer sensitivities for a row that stays in its leaf and one that
    moves; their counts are free. In both modes a fiftieth (of an epsilon, a twentieth) pays for the count of the fit. Without
    public rows two disjoint blocks of rows, fixed by public numbers, pay for the range with the whole (epsilon, delta) each; on the
    other rows, Gaussian noise on counts, Gram matrices and sums of bounded statistics, whose rhos add up to at most the allowance.
    Within bounds and without a delta there are no blocks: looks at cells of all rows pay for the range by shares of the allowance.

    Notes
    -----
    Paper A, Algorithms 3 to 10. Departs from it: the accounting, which has to pay for the two clusters that a replaced row
    changes and for the three counts of a ball query; the least radius of the partitioner, at which the printed search stops
    too early; in practical mode the search, and the learner of a leaf, which is a round of soft EM; in mode
    "theory" it is the lifted CoinPress of `estimate_gaussian`. "soft_em" is not the paper's.

    Without public rows "soft_em" starts from private ones: scales, places and cells of each column; the groups of rows that single
    columns separate; for each group one noisy Gram matrix, whose directions of largest variance are those in which means that lie
    apart differ; and noisy sums of cosines and sines, which show the mixture along them. In simulations (2 to 20 columns, 2 to 4
    components at least 6 deviations apart, condition numbers up to 30, 40,000 and 100,000 rows, epsilon = 1, delta = 1e-6) its
    total variation is 1.1 to 1.3 times that with 100 public rows, in the geometric mean. Components nearer than about 4
    deviations need public rows, or independent columns (`learn_axis_aligned_mixture`).

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ZCDP, learn_separated_mixture
    >>> rng = np.random.default_rng(0)
    >>> centers = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]])
    >>> private = centers[rng.integers(3, size=30_000)] + rng.normal(size=(30_000, 2))
    >>> public = centers[np.arange(12) % 3] + rng.normal(size=(12, 2))
    >>> result = learn_separated_mixture(private, x_pub=public, n_components=3, min_weight=0.2, budget=ZCDP(rho=0.5))
    >>> result.n_components, bool(np.allclose(result.weights, 1 / 3, atol=0.02))
    (3, True)

    Without public rows:

    >>> from fastpubpriv import ApproxDP
    >>> alone = learn_separated_mixture(private, n_components=3, budget=ApproxDP(epsilon=1, delta=1e-6))
    >>> bool(np.abs(np.sort(alone.means[:, 0]) - [0.0, 0.0, 20.0]).max() < 0.1), alone.status
    (True, 'ok')
    """
    rows, public = session.open_rows(x_priv, x_pub, columns=columns, min_pub=2)
    session.refuse_padding(rows, "learn_separated_mixture", "learn_axis_aligned_mixture")
    n_pub = None if public is None else len(public)
    k, weight = check_components(n_components, min_weight, n_pub, rows.n)
    session.require_squares("learn_separated_mixture", rows.dim, 40 * k + 24)
    method = searches.METHODS.choose(method)
    mode = validation.choice("mode", mode, ("practical", "theory"))
    failure_prob = failure_probability(failure_prob)
    weight_floor = validation.probability("weight_floor", weight_floor)
    box = checked_bounds("learn_separated_mixture", bounds, public, rows.dim, rows.columns)
    shape = Shape(
        dim=rows.dim,
        n_pub=n_pub or 0,
        n_components=k,
        min_weight=weight,
        mode=mode,
        failure_prob=failure_prob,
    )
    options = session.asked(ledger, random_state, threads, progress)
    limits = ReportLimits(weight_floor, box)
    constant: list[str] = []
    if public is None:
        check_without_public(shape, method, budget, rows.n, limits.box)
        if min_weight is None:
            shape = replace(shape, min_weight=min(tuning.LEAST_GROUP, weight))
        result = _learn_without_public(rows, shape, budget, limits, **options)
    else:
        column_variances(public)  # raises if all rows are equal
        chosen = searches.choose_method(method, shape, noise_of(budget))
        if mode == "theory" and k > 1:
            refuse_too_much(public)
        equal = np.flatnonzero(np.isnan(column_scales(public))).tolist()
        constant = [rows.columns[j] if rows.columns else str(j) for j in equal]
        if constant:
            warn(f"learn_separated_mixture: {constant_text(constant)}")
        learn = _learn_rounds if mode == "practical" else _learn_in_theory
        result = learn(rows, public, shape, chosen, budget, limits, **options)
    facts = {"n_components_asked": k, "fallback_columns": constant}
    result = replace(result, diagnostics={**result.diagnostics, **facts})
    return session.warned(
        "learn_separated_mixture", result, (Reason.FEW_PUBLIC_ROWS,) if constant else ()
    )


class ReportLimits(NamedTuple):
    """Limits of what a result reports: the least weight over an equal one, and bounds of the columns."""

    weight_floor: float
    box: Box | None


def check_without_public(
    shape: Shape, method: str, budget: Budget, n: int, box: Box | None
) -> None:
    """Raise if there can be no answer without public rows, by the arguments and the number of private rows."""
    name = "learn_separated_mixture"
    if shape.mode == "theory":
        raise InputError(
            f"{name} with mode='theory' needs public rows: pass x_pub=, or mode='practical'"
        )
    if method not in ("auto", searches.SOFT_EM.name):
        raise InputError(
            f"method={method!r} searches among public rows: pass x_pub=, or method='auto'"
        )
    if not (has_delta(budget) or bounded_range.covers(box)):
        raise BudgetError(
            f"without public rows {name} finds places by stable histograms, which need a delta: pass "
            "ApproxDP(epsilon=..., delta=...); or, for any budget, bounds=(lowest, highest) of what every column can hold, or "
            "public rows (x_pub)"
        )
    if shape.n_components > without_public.MOST_COMPONENTS:
        raise InputError(
            f"n_components must be at most {without_public.MOST_COMPONENTS} without public rows, got {shape.n_components}: "
            "pass x_pub="
        )
    if n < tuning.START_LEAST_ROWS:
        raise InputError(
            f"{name} without public rows needs at least {tuning.START_LEAST_ROWS} private rows, got {n}: pass x_pub="
        )


def _learn_in_theory(
    rows: Rows,
    public: FloatArray,
    shape: Shape,
    chosen: SearchMethod,
    budget: Budget,
    limits: ReportLimits,
    **options: Any,
) -> MixtureResult:
    """Run a search and estimate a Gaussian for each leaf, with the constants of the proofs."""
    k = shape.n_components
    dim = shape.dim
    depth = searches.tree_depth(chosen, shape)
    draws = searches.search_draws(chosen, shape) + leaf_draws(dim, k) + fit.count_draws(k)
    run = session.start("learn_separated_mixture", rows, budget, draws=draws, **options)
    counted = fit.count_share(run.account.spending)
    search_share = tuning.SEARCH_SHARE if depth else Fraction(0)
    shares = [search_share, 1 - search_share - counted, counted]
    of_search, of_leaves, of_count = run.account.spending.split(shares)
    of_count.grid("count", fit.count_draws(k), rows.n)
    if depth:
        searches.check_search_grids(of_search, depth, chosen, dim, rows.n)
    check_leaf_grids(dim, rows.n, k, of_leaves)
    expected = rows.n * shape.min_weight
    warn_if_hopeless(run, expected, lifted_errors(shape, expected, of_leaves))
    with run.paid():
        clustering = searches.find_components(run, public, shape, chosen, of_search.allowance)
        frames = leaf_frames(
            clustering.tree,
            clustering.leaves,
            public,
            radii=clustering.scales,
            failure_prob=shape.failure_prob,
        )
        learnt = learn_leaves(
            run,
            clustering.tree,
            clustering.leaves,
            frames,
            spending=of_leaves,
            mode="theory",
            failure_prob=shape.failure_prob,
            weight_floor=limits.weight_floor,
        )
        facts = {"scaling": clustering.scaling, "clustering_share": float(search_share)}
        name = f"{chosen.name}, theory"
        learnt = result_of_leaves(learnt, clustering, name, len(public), **facts)
        learnt = fit.with_fit(run, bounded(learnt, limits.box), public, asked=k)
        if learnt.n_components == k:
            return learnt
        # The search stopped early: a component may stand for several, whatever the count shows.
        merged = tuple(ordered((*own, Reason.UNRESOLVED)) for own in learnt.part_reasons)
        return replace(learnt, part_reasons=merged)


def rounds_of(
    run: Session, public: FloatArray, shape: Shape, plan: SoftPlan, fits: list[StartState]
) -> tuple[SoftPlan, list[StartState], float]:
    """Return plan and starts; for a noisy plan and public rows without correlations within components, the axis-aligned
    ones. Last, the relative covariance error by correlations that chance among public rows may hide; 0 for full covariances.
    """
    k = shape.n_components
    dim = shape.dim
    if plan.noisy and fits and dim > 1:
        with np.errstate(all="ignore"):  # values of any magnitude
            excess, chance = soft_em.correlation_excess(public, fits[1].at)
        if excess <= chance:
            hidden = math.sqrt(2.0 * (max(excess, 0.0) + chance) / len(public))
            plan = dp_em.plan_of(dim, k, run.rows.n, len(public), run.account.spending)
            shares = [plan.early, plan.last]
            dp_em.check(run.account, run.rows.n, dim, k, known_std=False, shares=shares)
            start = replace(fits[1], at=fits[1].at.axis_aligned)
            return plan, [start], hidden
    return plan, fits, 0.0


def _learn_rounds(
    rows: Rows,
    public: FloatArray,
    shape: Shape,
    chosen: SearchMethod,
    budget: Budget,
    limits: ReportLimits,
    **options: Any,
) -> MixtureResult:
    """Run rounds of soft EM from several starts or from the leaves of a search, and release a count of the fit."""
    k = shape.n_components
    dim = shape.dim
    n = rows.n
    n_pub = len(public)
    leaves = not chosen.soft
    with np.errstate(all="ignore"):  # values of any magnitude
        public = without_far(public, k, shape.min_weight)
    shape = replace(shape, n_pub=len(public))
    fits = [] if leaves else soft_em.public_starts(public, shape)
    draws = searches.search_draws(chosen, shape) + soft_em.soft_draws(dim, k)
    run = session.start("learn_separated_mixture", rows, budget, draws=draws, **options)
    plan = soft_em.SoftPlan.of(chosen, shape, n, run.account.spending)
    soft_em.check_soft_grids(plan, shape, n)
    expected = n * shape.min_weight
    warn_if_hopeless(run, expected, plan.predicted(dim, expected))
    plan, fits, hidden = rounds_of(run, public, shape, plan, fits)
    prepare(plan.rounds * plan.early_rows + n, k * dim**2)
    with run.paid(), np.errstate(all="ignore"):  # values of any magnitude
        state, facts = soft_em.learn_rounds(run, public, shape, plan, fits)
        state = replace(state, errors=np.hypot(state.errors, [[0.0], [hidden]]))
        if leaves and state.clustering is not None:
            facts |= {
                **search_facts(state.clustering),
                "scaling": state.clustering.scaling,
                "clustering_share": float(plan.searches[chosen.name]),
            }
        facts = {"far_public_rows": n_pub - len(public), **facts}
        predicted = fit.gaussian_tv(*state.errors)
        learnt = _result_of_rounds(run, state, limits.weight_floor, n_pub, facts)
        reasons = soft_em.component_reasons(state, leaves=leaves, guarded=facts["guarded"])
        learnt = replace(learnt, part_reasons=reasons, method=chosen.name)
        if hidden:
            learnt = replace(learnt, structure=("diagonal",) * len(reasons))
        if leaves and state.clustering:
            learnt = replace(learnt, tree=state.clustering.tree)
        learnt = bounded(learnt, limits.box)
        return fit.with_fit(run, learnt, public, predicted, asked=shape.n_components)


def _learn_without_public(
    rows: Rows, shape: Shape, budget: Budget, limits: ReportLimits, **options: Any
) -> MixtureResult:
    """Run all stages of a start from private rows alone, rounds of soft EM from it, and a count of the fit."""
    name = "learn_separated_mixture"
    k = shape.n_components
    draws = without_public.most_draws(rows.n, shape.dim, k)
    range_box = None if has_delta(budget) else limits.box
    if range_box is not None:
        draws += bounded_range.most_draws(shape.dim)
    run = session.start(name, rows, budget, draws=draws, **options)
    task = Task(
        run=run,
        n_components=k,
        min_weight=shape.min_weight,
        failure_prob=shape.failure_prob,
        start_name="a start without public rows",
        box=limits.box,
        range_box=range_box,
    )
    plan = without_public.PrivatePlan.of(task)
    plan.check(task)
    expected = plan.rest.n * shape.min_weight
    warn_if_hopeless(run, expected, plan.predicted(expected, run.account.spending))
    prepare((plan.shares.rounds + 1) * rows.n, k * shape.dim**2)
    with run.paid(), np.errstate(all="ignore"):  # values of any magnitude
        learned = without_public.learn(task, plan)
        facts = {"start": learned.state.name, **learned.facts}
        result = _result_of_rounds(run, learned.state, limits.weight_floor, 0, facts)
        if range_box is not None:
            result = replace(result, provenance={**result.provenance, "range": "bounds"})
        result = bounded(replace(result, part_reasons=learned.reasons), limits.box)
        return replace(result, **learned.fit.fields)


def _result_of_rounds(
    run: Session, state: StartState, weight_floor: float, n_pub: int, facts: dict[str, Any]
) -> MixtureResult:
    """Return the result of the state after the last round, without reasons, as of "soft_em" with full covariances."""
    dim = run.rows.dim
    k = len(state.at.weights)
    weights = np.maximum(state.at.weights, weight_floor / k)
    predicted = fit.gaussian_tv(*state.errors)
    source = "public rows" if n_pub else "released"
    return MixtureResult(
        weights=weights / weights.sum(),
        means=state.at.means,
        covariances=state.at.covariances,
        part_reasons=((),) * k,
        structure=("full",) * k,
        method=searches.SOFT_EM.name,
        columns=run.rows.columns,
        diagnostics={
            "n_components_found": k,
            "counts": state.counts.tolist(),
            "count_noise_std": state.count_std,
            "rounds": state.rounds,
            "predicted_covariance_errors": np.hypot(
                state.noise, np.sqrt(dim * (dim + 1) / state.counts)
            ).tolist(),
            "covariance_noise": state.noise.tolist(),
            "predicted_total_variations": predicted.tolist(),
            **facts,
        },
        provenance={"center": source, "scale": source, "radius": "released"},
        **run.fields(n_pub),
    )


@shared_docs
def public_only(x_pub: Any, *, n_components: int, columns: Any = None) -> MixtureResult:
    """Fit a mixture to public rows alone: k-means along their principal directions, then a Gaussian for each cluster.

    Parameters
    ----------
    {x_pub}
        Not all equal, at least n_components of them.
    n_components : int
        Maximum number of clusters; fewer are returned if fewer rows are distinct.
    {columns}

    Returns
    -------
    MixtureResult
        With `spent` zero and `n_priv` 0. Covariances of few rows are shrunk toward their diagonal, whatever the units
        of the columns; `diagnostics["fallback_columns"]` names constant columns, which are given a typical variance.

    Raises
    ------
    InputError
        Public rows or arguments out of range.

    Privacy
    -------
    Reads public data only.

    Notes
    -----
    The baseline of paper A's claim: with fewer public rows than columns, their principal directions are nearly
    uninformative about the components, while private rows find them.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> rows = np.concatenate([rng.normal(size=(20, 2)), rng.normal(size=(20, 2)) + 50.0])
    >>> public_only(rows, n_components=2).weights.tolist()
    [0.5, 0.5]
    """
    points, names = public_table_of(x_pub, columns=columns, min_rows=2)
    k, _ = check_components(n_components, None, len(points), len(points))
    session.require_squares("public_only", points.shape[1], 2 * k + 4)
    levels, equal = column_variances(points)
    center, projection = column_scaling(points, k).directions(points, k)
    tree = nearest_tree(center, projection, kmeans((points - center) @ projection.T, k))
    leaves, labels, counts = np.unique(tree.assign(points), return_inverse=True, return_counts=True)
    at = labeled_fit(points, labels, len(leaves), Kind.FULL)
    covariances = at.covariances.copy()
    covariances[:, equal, equal] = levels[equal]
    return MixtureResult(
        weights=counts / len(points),
        means=at.means,
        covariances=covariances,
        part_reasons=((),) * len(leaves),
        structure=("public",) * len(leaves),
        method="public_only",
        tree=tree,
        columns=names,
        diagnostics={
            "n_components_asked": k,
            "n_components_found": len(leaves),
            "leaves": leaves.tolist(),
            "fallback_columns": [names[j] if names else str(j) for j in np.flatnonzero(equal)],
        },
        n_priv=0,
        n_pub=len(points),
        dim=points.shape[1],
        spent=Cost.zero(ZCDP),
        private=True,
        provenance={"center": "public rows", "scale": "public rows"},
    )


def nearest_tree(origin: FloatArray, projection: FloatArray, centers: FloatArray) -> ClusterTree:
    """Return the tree that sends a row to the nearest of `centers` (c, l) in projected space, or its root for one center."""
    tree = ClusterTree.root(len(origin))
    return (
        tree.split_nearest(0, origin=origin, projection=projection, centers=centers)
        if len(centers) > 1
        else tree
    )


def starting_centers(count: int, dim: int, radius: float) -> FloatArray:
    """Return centers (count, dim) spread uniformly over a ball, independent of the rows and the same in every run."""
    normals = draw_normals((count, dim), random_state=SEED)
    lengths = draw_uniforms((count, 1), random_state=SEED + 1) ** (1.0 / dim)
    start: FloatArray = radius * lengths * normals / np.linalg.norm(normals, axis=1, keepdims=True)
    return start


def private_lloyd(
    run: Session,
    origin: FloatArray,
    projection: FloatArray,
    centers: FloatArray,
    radius: float,
    cost: Fraction,
) -> FloatArray:
    """Run Lloyd's iterations with noisy sums and counts in projected space; return the last centers."""
    # An iteration costs `cost` / LLOYD_ROUNDS, that of its sums. Its counts cost nothing extra: only a row that moves to another
    # cluster affects them, and such a row costs half as much in the sums.
    share = cost / tuning.LLOYD_ROUNDS
    affine = AffineMap(dim=len(origin), center=origin, matrix=projection)
    count = len(centers)
    for index in range(tuning.LLOYD_ROUNDS):
        routes = nearest_tree(origin, projection, centers).routes()
        turn = f"iteration {index + 1}"
        counted = run.release(LeafCounts(routes=routes), name=f"{turn}: counts", cost=share / 2)
        sums = LeafSums(routes=routes, affines=[affine] * count, radii=[radius] * count)
        summed = run.release(sums, name=f"{turn}: sums", cost=share, clip_radius=radius)
        floor = max(
            tuning.LEAST_ROWS * (len(projection) + 1),
            tuning.LEAST_STDS * float(counted.noise_std[0]),
        )
        moved = summed.value / np.maximum(counted.value, floor)[:, None]
        length = np.linalg.norm(moved, axis=1, keepdims=True)
        moved *= np.minimum(1.0, radius / np.maximum(length, radius))
        enough = counted.value >= floor
        # A center with too few rows restarts near the center with the most rows, closer in each iteration.
        busiest = (
            moved[int(np.argmax(counted.value))] if enough.any() else np.zeros_like(centers[0])
        )
        lost = busiest + starting_centers(count, len(projection), radius * 0.5 ** (index + 1))
        centers = np.where(
            enough[:, None], moved, lost if index < tuning.LLOYD_ROUNDS - 1 else centers
        )
    return centers


@shared_docs
@user_level
def no_public_baseline(
    x_priv: Any,
    *,
    n_components: int,
    radius: float,
    budget: Budget,
    center: Any = None,
    failure_prob: float = FAILURE_PROB,
    weight_floor: float = 0.05,
    columns: Any = None,
    person: Any = None,
    keep: Keep | None = None,
    rows_per_person: RowsPerPerson | None = None,
    ledger: Ledger | None = None,
    random_state: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> MixtureResult:
    """Fit a mixture without public rows, in a ball that the caller names: what `learn_separated_mixture` is compared with.

    Parameters
    ----------
    {x_priv}
        A row with a missing or infinite entry belongs to no component but counts in n_priv.
    n_components : int
        Number of components.
    radius : float > 0
        Radius of a ball that holds the rows, in data units; must not depend on the private rows. Rows outside are clipped.
    budget : ZCDP or ApproxDP
        Spent entirely, and debited before `x_priv` is read.
    center : None, float or (dim,)
        Center of the ball, a public number or vector (zero by default).
    {failure_prob}
        The bounds are constants of the learner.
    weight_floor : float in (0, 1)
        No weight is reported below weight_floor / n_components: this share of an equal weight.
    {columns, person, keep, rows_per_person, ledger, random_state, threads, progress}

    Returns
    -------
    MixtureResult
        As of `learn_separated_mixture`, with `n_pub` 0.

    Raises
    ------
    {raises}

    Privacy
    -------
    Neighbors: replace one private row. A third of the budget each for principal directions within the ball, five
    iterations of Lloyd's algorithm with joint noisy sums and counts of all clusters, and the Gaussians of the clusters.

    Notes
    -----
    A substitute for the algorithm without public data of Kamath, Sheffet, Singhal and Ullman (2019), whose recursion needs
    many more rows. The starting centers do not depend on the rows, so it may converge to a poor local optimum.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ZCDP, no_public_baseline
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(20_000, 2)) + np.where(rng.random((20_000, 1)) < 0.5, -10.0, 10.0)
    >>> no_public_baseline(rows, n_components=2, radius=30.0, budget=ZCDP(rho=0.5)).n_components
    2
    """
    rows, _ = session.open_rows(x_priv, columns=columns)
    session.refuse_padding(rows, "no_public_baseline", "learn_axis_aligned_mixture")
    k = validation.integer(
        "n_components", n_components, minimum=1, maximum=min(MOST_COMPONENTS, rows.n)
    )
    session.require_squares("no_public_baseline", rows.dim, 6 * k + 12)
    ball = size("radius", radius)
    middle = session.vector_or_number("center", 0.0 if center is None else center, rows.dim)
    failure_prob = failure_probability(failure_prob)
    weight_floor = validation.probability("weight_floor", weight_floor)
    if not noise_of(budget).carries_trees:
        raise BudgetError(
            "no_public_baseline uses Gaussian noise, which cannot meet PureDP; pass ZCDP or ApproxDP"
        )
    count = min(k, rows.dim)
    run = session.start(
        "no_public_baseline",
        rows,
        budget,
        draws=rows.dim**2 + tuning.LLOYD_ROUNDS * k * (count + 1) + leaf_draws(rows.dim, k),
        **session.asked(ledger, random_state, threads, progress),
    )
    third = run.account.spending.part(Fraction(1, 3))
    of_iteration = third.part(Fraction(1, tuning.LLOYD_ROUNDS))
    third.grid("moment", rows.dim, rows.n)
    of_iteration.grid("sum", count, rows.n)
    of_iteration.part(Fraction(1, 2)).grid("count", k, rows.n)
    check_leaf_grids(rows.dim, rows.n, k, third)
    expected = rows.n / k
    shape = Shape(
        dim=rows.dim,
        n_pub=0,
        n_components=k,
        min_weight=1.0 / k,
        mode="practical",
        failure_prob=failure_prob,
    )
    predicted = lifted_errors(shape, expected, third)
    warn_if_hopeless(run, expected, predicted)
    with run.paid():
        released = run.release(
            SecondMoment(affine=AffineMap(dim=rows.dim, center=middle), radius=ball),
            name="directions",
            cost=third,
            clip_radius=ball,
        )
        projection = search_state.leading(released.value, count)
        centers = private_lloyd(
            run, middle, projection, starting_centers(k, count, ball), ball, third.allowance
        )
        # Of equal centers one is kept; the clusters of the others would have no rows.
        centers = centers[np.unique(nearest_centers(centers, centers)[0])]
        tree = nearest_tree(middle, projection, centers)
        # The mean lies in the leaf, and so within the ball's diameter of the center.
        frames = [ball_frame(middle + projection.T @ at, ball, 2.0, "argument") for at in centers]
        clustering = Clustering(
            tree=tree, leaves=tree.leaves, scales=(ball,) * len(centers), depth=0
        )
        learnt = learn_leaves(
            run,
            tree,
            tree.leaves,
            frames,
            spending=third,
            failure_prob=failure_prob,
            weight_floor=weight_floor,
        )
        facts = {"n_components_asked": k, "clustering_share": float(2 * Fraction(1, 3))}
        result = result_of_leaves(learnt, clustering, "no_public_baseline", 0, **facts)
    return session.warned("no_public_baseline", result)
