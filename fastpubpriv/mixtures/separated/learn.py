"""Mixtures of separated Gaussians from many private rows and a handful of public ones (paper A, Algorithms 3 to 10)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv import session as running
from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import AccuracyWarning, BudgetError, InputError
from fastpubpriv.estimators import lifted
from fastpubpriv.estimators.bounded import checked_bounds
from fastpubpriv.estimators.ladder.public_base import column_scales, constant_text, plain_strength
from fastpubpriv.estimators.ladder.rungs import STRUCTURES, Prediction, outlook
from fastpubpriv.estimators.ladder.schedule import Noise
from fastpubpriv.estimators.radii import Mode, failure_probability
from fastpubpriv.mixtures.bounded import bounded
from fastpubpriv.mixtures.separated.leaf_estimates import (
    LeafEstimates,
    check_leaf_grids,
    check_leaf_ladder_grids,
    leaf_bases,
    leaf_draws,
    leaf_frames,
    leaf_gram_noise,
    leaf_ladder_draws,
    learn_leaf_ladder,
    learn_leaves,
)
from fastpubpriv.mixtures.separated.public_shapes import Scaling, refuse_too_much
from fastpubpriv.mixtures.separated.search_state import Clustering, Search
from fastpubpriv.mixtures.separated.searches import (
    METHODS,
    SearchMethod,
    Shape,
    check_search_grids,
    choose_method,
    search_draws,
    search_scaling,
    tree_depth,
)
from fastpubpriv.mixtures.separated.tree import ClusterTree, overall_variance
from fastpubpriv.privacy import Budget, Ledger, PureDP
from fastpubpriv.results.base import frozen
from fastpubpriv.results.mixture import MixtureResult
from fastpubpriv.row_maps import Rule
from fastpubpriv.session import Run, noise_per_radius
from fastpubpriv.shared_docs import FAILURE_PROB, shared_docs

# Share of the budget for finding the components, where that asks private rows; the rest is for their Gaussians and weights.
SEARCH_SHARE = Fraction(3, 10)
MOST_COMPONENTS = 1000
# Rounds of a leaf's recursion for the prediction; the error hardly depends on them.
TYPICAL_ROUNDS = 6


def find_components(
    run: Run, public: FloatArray, shape: Shape, method: SearchMethod, cost: Fraction, scaling: Scaling
) -> Clustering:
    """Search for the components; `cost` is what the private queries of the search may cost in all."""
    search = Search(run, public, shape.n_components, shape.min_weight, scaling=scaling)
    depth = tree_depth(method, shape)
    if depth:
        search.scope = run.account.tree(cost, depth)
    if shape.n_components == 1:
        return search.finish([search.root()])
    find = method.learn if shape.mode == "practical" else method.theory
    assert find is not None
    return find(search)


def checked_search(method: str, shape: Shape, structure: str, public: FloatArray, *, pure: bool) -> SearchMethod:
    """The search to run, if mode, structure and budget allow it."""
    chosen = choose_method(method, shape, pure=pure)
    if shape.mode == "theory" and chosen.theory is None:
        proved = " and ".join(repr(name) for name, each in METHODS.items() if each.theory is not None)
        raise InputError(f"method={method!r} belongs to mode='practical'; mode='theory' has {proved}")
    if shape.mode == "theory" and structure not in ("auto", "full"):
        raise InputError(f"structure={structure!r} belongs to mode='practical'; mode='theory' has structure='full'")
    if tree_depth(chosen, shape) and pure:
        raise BudgetError(
            f"method={method!r} reads private rows with Gaussian noise, which cannot meet PureDP; "
            "pass ZCDP or ApproxDP, or method='public_pca'"
        )
    if shape.mode == "theory" and shape.n_components > 1:
        refuse_too_much(public)
    return chosen


def check_components(n_components: Any, min_weight: Any, n_pub: int, n_priv: int) -> tuple[int, float]:
    """The number of components and the least weight, checked against each other and the public sizes."""
    k = validation.integer("n_components", n_components, minimum=1, maximum=MOST_COMPONENTS)
    if k > n_pub:
        raise InputError(f"n_components must be at most the number of public rows, got {k} with {n_pub} public rows")
    if k > n_priv:
        raise InputError(f"n_components must be at most the number of private rows, got {k} with {n_priv} rows")
    weight = validation.positive("min_weight", min_weight)
    if not weight <= (1.0 + 1e-9) / k:
        raise InputError(f"min_weight must be at most 1 / n_components = {1.0 / k:.4g}, got {weight:g}")
    return k, min(weight, 1.0 / k)


def component_errors(shape: Shape, n_priv: int, *, pure: bool, allowance: Fraction) -> Prediction:
    """Predicted errors of the smallest component, once found: of its rung, or in mode "theory" of the full covariance."""
    expected = n_priv * shape.min_weight
    if shape.mode == "practical":
        strength = plain_strength(shape.dim, max(1, round(shape.n_pub * shape.min_weight)))
        view = outlook(strength, max(1.0, expected), Noise(pure, allowance, moving=True), pieces=False)
        return view.rungs[view.best]
    return lifted_errors(
        shape.dim, expected, pure=pure, allowance=allowance, mode="theory", failure_prob=shape.failure_prob
    )


def lifted_errors(
    dim: int, expected: float, *, pure: bool, allowance: Fraction, mode: Mode, failure_prob: float
) -> Prediction:
    """Predicted errors of a component with so many rows when it is learnt by the lifted CoinPress."""
    problem = lifted.Problem(
        dim=dim, n=max(1, int(expected)), mean_radius=1.0, condition=1.0, mode=mode, failure_prob=failure_prob
    )
    noise = leaf_gram_noise(dim + 1, pure=pure, cost=allowance)
    per_row = noise_per_radius(dim, pure=pure, allowance=allowance)(lifted.MEAN_SHARE)
    return Prediction(*lifted.predicted_errors(problem, TYPICAL_ROUNDS, noise, per_row))


def warn_if_hopeless(run: Run, expected: float, predicted: Prediction) -> None:
    """Warn, from public numbers and before anything is paid, when the smallest component cannot be learnt."""
    if predicted.covariance > 1.0:
        warnings.warn(
            f"{run.account.name}: predicted relative covariance error {predicted.covariance:.3g}, and "
            f"{predicted.mean:.3g} standard deviations of the mean, for a component of {expected:.0f} rows; pass a larger budget, "
            "more private or public rows, a larger min_weight, or fewer columns",
            AccuracyWarning,
            stacklevel=3,
        )


def constant_columns(public: FloatArray, names: tuple[str, ...] | None) -> list[str]:
    """Columns in which all public rows are equal, by name or place."""
    places = np.flatnonzero(np.isnan(column_scales(public))).tolist()
    return [names[j] if names else str(j) for j in places]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafStage:
    """How the components are learnt once they have been found: draws and grids before the debit, releases after it."""

    draws: Callable[[int, int], int]
    check: Callable[..., None]
    learn: Callable[..., tuple[LeafEstimates, str]]


def _by_ladder(
    run: Run, found: Clustering, public: FloatArray, *, allowance: Fraction, structure: str, failure_prob: float
) -> tuple[LeafEstimates, str]:
    bases = leaf_bases(found.tree, found.leaves, public)
    leaves = learn_leaf_ladder(
        run, found.tree, found.leaves, bases, allowance=allowance, structure=structure, kept=found.kept
    )
    return leaves, bases[0].source


def _lifted(
    run: Run, found: Clustering, public: FloatArray, *, allowance: Fraction, structure: str, failure_prob: float
) -> tuple[LeafEstimates, str]:
    frames = leaf_frames(found.tree, found.leaves, public, radii=found.scales, failure_prob=failure_prob)
    leaves = learn_leaves(
        run, found.tree, found.leaves, frames, allowance=allowance, mode="theory", failure_prob=failure_prob
    )
    return leaves, frames[0].frame.source


LADDER_STAGE = LeafStage(draws=leaf_ladder_draws, check=check_leaf_ladder_grids, learn=_by_ladder)
LIFTED_STAGE = LeafStage(draws=leaf_draws, check=check_leaf_grids, learn=_lifted)


def released_balls(tree: ClusterTree) -> list[dict[str, Any]]:
    """The balls of a tree as plain values: centre and radius in the projected space, with its origin."""
    return [
        {
            "node": index,
            "origin": split.origin.tolist(),
            "projection": None if split.projection is None else split.projection.tolist(),
            "center": split.centers[0].tolist(),
            "radius": math.sqrt(split.radius_sq),
        }
        for index, split in enumerate(tree.splits)
        if split is not None and split.rule is Rule.BALL
    ]


def put_together(
    run: Run,
    clustering: Clustering,
    leaves: LeafEstimates,
    *,
    method: str,
    source: str,
    weight_floor: float,
    n_pub: int,
    diagnostics: dict[str, Any],
) -> MixtureResult:
    """The result of leaves that have been learnt; `source` says where their ranges come from."""
    return MixtureResult(
        weights=frozen(leaves.weights(run.rows.n, weight_floor=weight_floor)),
        means=leaves.means,
        covariances=leaves.covariances,
        status=leaves.status,
        method=method,
        tree=clustering.tree,
        columns=run.rows.columns,
        diagnostics={
            "n_components_found": len(clustering.leaves),
            "leaves": list(clustering.leaves),
            "counts": leaves.counts.tolist(),
            "count_noise_std": leaves.count_noise_std,
            "rounds": leaves.rounds,
            "mean_noise_std": leaves.mean_noise_std.tolist(),
            "predicted_covariance_errors": leaves.predicted_covariance_errors.tolist(),
            "predicted_mean_errors": leaves.predicted_mean_errors.tolist(),
            **({"components": list(leaves.details)} if leaves.details else {}),
            "balls": released_balls(clustering.tree),
            "cuts": list(clustering.cuts),
            "depth": clustering.depth,
            **diagnostics,
        },
        provenance={"center": "public rows", "scale": source, "radius": "public rows"},
        **run.fields(n_pub),
    )


@shared_docs
def learn_separated_mixture(
    x_priv: Any,
    *,
    x_pub: Any,
    n_components: int,
    min_weight: float,
    budget: Budget,
    method: str = "auto",
    structure: str = "auto",
    mode: Mode = "practical",
    failure_prob: float = FAILURE_PROB,
    weight_floor: float = 0.05,
    bounds: Any = None,
    columns: Any = None,
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
    {x_pub}
        Of the same mixture, not all equal, at least n_components of them; some of each component.
    n_components : int
        Most components to look for. Fewer are returned if the rest cannot be told apart.
    min_weight : float in (0, 1 / n_components]
        Share of the rows in the smallest component. Nothing smaller is split off.
    {budget}
        PureDP pays for methods that read public rows only.
    method : "auto", "tree", "one_shot" or "public_pca"
        How components are found. "tree": private principal directions, then a ball along a valley of a released histogram, again
        and again; for components of any scale and 10, better 20 public rows each. "one_shot": private principal directions
        once, then the nearest of the centres of the public rows; for components of comparable scale and 2 to 10 public rows each.
        "public_pca": public rows alone find the components. "auto" decides by n_pub, dim, n_components and min_weight.
    structure : "auto", "public", "mean", "diagonal" or "full"
        What is learnt privately of each component, as in `estimate_gaussian`: "auto" predicts what is best for each by its
        released count and its public rows. Mode "theory" learns full covariances.
    mode : "practical" or "theory"
        The searches above, or paper A's Algorithms 6 and 7 ("tree") and 9 and 10 ("public_pca"), which need separations of about
        a hundred standard deviations. Same privacy.
    {failure_prob}
        The bounds are those derived from the public rows.
    weight_floor : float in (0, 1)
        No weight is reported below weight_floor / n_components: this share of an equal weight.
    {mixture_bounds, matched_columns}
        In any units: in mode "practical", public rows choose the coordinates in which components are looked for
        (`diagnostics["scaling"]`).
    {ledger, random_state, threads, progress}

    Returns
    -------
    MixtureResult
        `weights`, `means`, `covariances` and `status` of the components found, the released `tree` that sends a row to its
        component, and `diagnostics` (noisy counts, what each component's rung and its predictions are, balls, cuts, depth, shares).

    Raises
    ------
    {raises}

    Privacy
    -------
    Neighbours: replace one private row; holds for every public data set. Private rows are never partitioned: each pass
    routes them down a tree of released values. A node of the tree costs at most its share for a row replaced inside and half
    of that for one that enters or leaves, so a search of depth D costs D shares. The leaves are released together, with exact
    integer sensitivities for a row that stays in its leaf and one that moves; counts are free. Nothing is divided by a
    private size. Three tenths of the budget go to a search that reads private rows, the rest to the leaves.

    Notes
    -----
    Paper A, Algorithms 3 to 10. Departs from it: the accounting, which has to pay for the two clusters that a replaced row
    changes and for the three counts of a ball query; the least radius of the partitioner, at which the printed search stops
    too early; in practical mode the search, and the learner of a leaf, which is the ladder of `estimate_gaussian`; in mode
    "theory" it is its lifted CoinPress.

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
    """
    rows, public = running.open_rows(x_priv, x_pub, columns=columns, min_pub=2)
    if public is None:
        raise InputError("learn_separated_mixture needs public rows: pass x_pub=, or use no_public_baseline")
    k, weight = check_components(n_components, min_weight, len(public), rows.n)
    running.require_squares("learn_separated_mixture", rows.dim, 4 * (k + 2))
    method = METHODS.choose(method)
    mode = validation.choice("mode", mode, ("practical", "theory"))
    failure_prob = failure_probability(failure_prob)
    weight_floor = validation.probability("weight_floor", weight_floor)
    structure = validation.choice("structure", structure, ("auto", *STRUCTURES))
    box = checked_bounds("learn_separated_mixture", bounds, public, rows.dim, rows.columns)
    overall_variance(public)
    shape = Shape(
        dim=rows.dim, n_pub=len(public), n_components=k, min_weight=weight, mode=mode, failure_prob=failure_prob
    )
    chosen = checked_search(method, shape, structure, public, pure=isinstance(budget, PureDP))
    depth = tree_depth(chosen, shape)
    stage = LADDER_STAGE if mode == "practical" else LIFTED_STAGE
    scaling = search_scaling(chosen, shape, public)
    run = running.start(
        "learn_separated_mixture",
        rows,
        budget,
        draws=search_draws(chosen, shape) + stage.draws(rows.dim, k),
        **running.asked(ledger, random_state, threads, progress),
    )
    allowance, pure = run.account.allowance, run.account.pure
    search_cost = allowance * SEARCH_SHARE if depth else Fraction(0)
    left = allowance - search_cost
    if depth:
        check_search_grids(search_cost, depth, chosen, rows.dim, rows.n)
    stage.check(rows.dim, rows.n, k, left, pure=pure)
    warn_if_hopeless(run, rows.n * weight, component_errors(shape, rows.n, pure=pure, allowance=left))
    constant = constant_columns(public, rows.columns)
    if constant:
        warnings.warn(f"learn_separated_mixture: {constant_text(constant)}", AccuracyWarning, stacklevel=2)
    with run.paid():
        found = find_components(run, public, shape, chosen, search_cost, scaling)
        leaves, source = stage.learn(run, found, public, allowance=left, structure=structure, failure_prob=failure_prob)
        learnt = put_together(
            run,
            found,
            leaves,
            method=chosen.name if mode == "practical" else f"{chosen.name}, theory",
            source=source,
            weight_floor=weight_floor,
            n_pub=len(public),
            diagnostics={
                "n_components_asked": k,
                "fallback_columns": constant,
                "scaling": scaling.name,
                "clustering_share": float(search_cost / allowance),
                "node_share": float(search_cost / allowance / depth) if depth else 0.0,
            },
        )
        return bounded(learnt, box)
