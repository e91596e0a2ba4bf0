"""What public rows without private ones, and private rows without public ones, say about a mixture."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv import session as running
from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.estimators.preconditioned import Frame
from fastpubpriv.estimators.radii import failure_probability, size
from fastpubpriv.mechanisms.leaves import LeafCounts, LeafSums
from fastpubpriv.mechanisms.sums import AffineMap, SecondMoment
from fastpubpriv.mixtures.separated.leaf_estimates import (
    FLOOR_DEVIATIONS,
    FLOOR_ROWS,
    LEAF_COND_MAX,
    LeafFrame,
    check_leaf_grids,
    leaf_draws,
    learn_leaves,
)
from fastpubpriv.mixtures.separated.learn import MOST_COMPONENTS, lifted_errors, put_together, warn_if_hopeless
from fastpubpriv.mixtures.separated.public_shapes import SEED, nearest_centers
from fastpubpriv.mixtures.separated.search_state import Clustering, leading
from fastpubpriv.mixtures.separated.tree import ClusterTree, cluster_public, column_variances, shrunken
from fastpubpriv.privacy import (
    ZCDP,
    Budget,
    Cost,
    Ledger,
    PureDP,
    gaussian_count_grid,
    gaussian_gram_grid,
    gaussian_sum_grid,
)
from fastpubpriv.public_draws import draw_normals, draw_uniforms
from fastpubpriv.results.base import frozen
from fastpubpriv.results.mixture import MixtureResult
from fastpubpriv.session import Run
from fastpubpriv.shared_docs import FAILURE_PROB, shared_docs
from fastpubpriv.sources.open import public_table_of

THIRD = Fraction(1, 3)
ITERATIONS = 5


@shared_docs
def public_only(x_pub: Any, *, n_components: int, columns: Any = None) -> MixtureResult:
    """Fit a mixture to public rows alone: k-means along their principal directions, then a Gaussian for each cluster.

    Parameters
    ----------
    {x_pub}
        Not all equal, at least n_components of them.
    n_components : int
        Clusters to look for; fewer are returned if fewer rows are distinct.
    {columns}

    Returns
    -------
    MixtureResult
        With `spent` zero and `n_priv` 0. Covariances of few rows are pulled towards their diagonal, whatever the
        units of the columns; `diagnostics["fallback_columns"]` names those without any spread, which borrow a scale.

    Raises
    ------
    InputError
        Public rows or arguments out of range.

    Privacy
    -------
    Reads public data only.

    Notes
    -----
    What paper A's claim is measured against: as long as there are fewer public rows than columns, their principal
    directions say little about the components, and private rows find them.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> rows = np.concatenate([rng.normal(size=(20, 2)), rng.normal(size=(20, 2)) + 50.0])
    >>> public_only(rows, n_components=2).weights.tolist()
    [0.5, 0.5]
    """
    points, names = public_table_of(x_pub, columns=columns, min_rows=2)
    k = validation.integer("n_components", n_components, minimum=1, maximum=MOST_COMPONENTS)
    if k > len(points):
        raise InputError(f"n_components must be at most the number of public rows, got {k} with {len(points)}")
    running.require_squares("public_only", points.shape[1], 2 * k + 4)
    levels, equal = column_variances(points)
    tree, reached = cluster_public(points, k)
    groups = [(leaf, points[reached == leaf]) for leaf in tree.leaves]
    groups = [(leaf, group) for leaf, group in groups if len(group)]
    return MixtureResult(
        weights=frozen([len(group) / len(points) for _, group in groups]),
        means=frozen([group.mean(axis=0) for _, group in groups]),
        covariances=frozen([shrunken(group, levels) for _, group in groups]),
        status=("ok",) * len(groups),
        method="public_only",
        tree=tree,
        columns=names,
        diagnostics={
            "n_components_asked": k,
            "n_components_found": len(groups),
            "leaves": [leaf for leaf, _ in groups],
            "fallback_columns": [names[j] if names else str(j) for j in np.flatnonzero(equal)],
        },
        n_priv=0,
        n_pub=len(points),
        dim=points.shape[1],
        spent=Cost.zero(ZCDP),
        private=True,
        provenance={"center": "public rows", "scale": "public rows"},
    )


def starting_centers(count: int, dim: int, radius: float) -> FloatArray:
    """Centres (count, dim) spread over a ball, the same in every run: nothing is known about the rows yet."""
    normals = draw_normals((count, dim), random_state=SEED)
    lengths = draw_uniforms((count, 1), random_state=SEED + 1) ** (1.0 / dim)
    start: FloatArray = radius * lengths * normals / np.linalg.norm(normals, axis=1, keepdims=True)
    return start


def private_lloyd(
    run: Run, origin: FloatArray, projection: FloatArray, centers: FloatArray, radius: float, cost: Fraction
) -> FloatArray:
    """Lloyd's iterations with noisy sums and counts in projected space; returns the last centres.

    An iteration costs `cost` / ITERATIONS, that of its sums. Its counts are free: only a row that moves pays for them, and it pays
    half for the sums.
    """
    share = cost / ITERATIONS
    affine = AffineMap(dim=len(origin), center=origin, matrix=projection)
    count = len(centers)
    for index in range(ITERATIONS):
        tree = ClusterTree.root(len(origin))
        if count > 1:
            tree = tree.split_nearest(0, origin=origin, projection=projection, centers=centers)
        routes = tree.routes()
        turn = f"iteration {index + 1}"
        counted = run.release(LeafCounts(routes=routes), name=f"{turn}: counts", cost=share / 2)
        sums = LeafSums(routes=routes, affines=[affine] * count, radii=[radius] * count)
        summed = run.release(sums, name=f"{turn}: sums", cost=share, clip_radius=radius)
        floor = max(FLOOR_ROWS * (len(projection) + 1), FLOOR_DEVIATIONS * float(counted.noise_std[0]))
        moved = summed.value / np.maximum(counted.value, floor)[:, None]
        length = np.linalg.norm(moved, axis=1, keepdims=True)
        moved *= np.minimum(1.0, radius / np.maximum(length, radius))
        enough = counted.value >= floor
        # A centre that has lost its rows tries its luck beside the one with the most, closer in each iteration.
        busiest = moved[int(np.argmax(counted.value))] if enough.any() else np.zeros_like(centers[0])
        lost = busiest + starting_centers(count, len(projection), radius * 0.5 ** (index + 1))
        centers = np.where(enough[:, None], moved, lost if index < ITERATIONS - 1 else centers)
    return centers


def ball_frame(center: FloatArray, radius: float, failure_prob: float) -> LeafFrame:
    """Bounds of a leaf about which only a ball is known that holds all rows."""
    dim = len(center)
    # The mean is somewhere in the leaf, and so within the ball's diameter of the centre; every variance is at most radius^2.
    frame = Frame(frozen(center), np.asarray(radius), 2.0, LEAF_COND_MAX * dim * 100.0, "argument")
    return LeafFrame(frame, frozen(np.eye(dim) * (radius**2 / dim)))


@shared_docs
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
        Components to look for.
    radius : float > 0
        Radius of a ball that holds the rows, in data units; not taken from the private rows. Rows outside are clipped.
    budget : ZCDP or ApproxDP
        Spent whole, and debited before `x_priv` is read.
    center : None, float or (dim,)
        Centre of the ball, a public number or vector (zero by default).
    {failure_prob}
        The bounds are constants of the learner.
    weight_floor : float in (0, 1)
        No weight is reported below weight_floor / n_components: this share of an equal weight.
    {columns, ledger, random_state, threads, progress}

    Returns
    -------
    MixtureResult
        As of `learn_separated_mixture`, with `n_pub` 0.

    Raises
    ------
    {raises}

    Privacy
    -------
    Neighbours: replace one private row. A third of the budget each for principal directions within the ball, five
    iterations of Lloyd's algorithm with joint noisy sums and counts of all clusters, and the Gaussians of the clusters.

    Notes
    -----
    Stands in for the algorithm of Kamath, Sheffet, Singhal and Ullman (2019) without public data; it is not theirs, whose
    recursion needs many more rows. Its starting centres know nothing about the rows, so it may settle in a bad place.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ZCDP, no_public_baseline
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(20_000, 2)) + np.where(rng.random((20_000, 1)) < 0.5, -10.0, 10.0)
    >>> no_public_baseline(rows, n_components=2, radius=30.0, budget=ZCDP(rho=0.5)).n_components
    2
    """
    rows, _ = running.open_rows(x_priv, columns=columns)
    k = validation.integer("n_components", n_components, minimum=1, maximum=min(MOST_COMPONENTS, rows.n))
    running.require_squares("no_public_baseline", rows.dim, 5 * k + 10)
    ball = size("radius", radius)
    middle = running.vector_or_number("center", 0.0 if center is None else center, rows.dim)
    failure_prob = failure_probability(failure_prob)
    weight_floor = validation.probability("weight_floor", weight_floor)
    if isinstance(budget, PureDP):
        raise BudgetError("no_public_baseline uses Gaussian noise, which cannot meet PureDP; pass ZCDP or ApproxDP")
    count = min(k, rows.dim)
    run = running.start(
        "no_public_baseline",
        rows,
        budget,
        draws=rows.dim**2 + ITERATIONS * k * (count + 1) + leaf_draws(rows.dim, k),
        **running.asked(ledger, random_state, threads, progress),
    )
    share = run.account.allowance * THIRD
    gaussian_gram_grid(share, rows.dim, rows.n)
    gaussian_sum_grid(share / ITERATIONS, count, rows.n)
    gaussian_count_grid(share / ITERATIONS / 2, k, rows.n)
    check_leaf_grids(rows.dim, rows.n, k, share, pure=False)
    expected = rows.n / k
    predicted = lifted_errors(
        rows.dim, expected, pure=False, allowance=share, mode="practical", failure_prob=failure_prob
    )
    warn_if_hopeless(run, expected, predicted)
    with run.paid():
        released = run.release(
            SecondMoment(affine=AffineMap(dim=rows.dim, center=middle), radius=ball),
            name="directions",
            cost=share,
            clip_radius=ball,
        )
        projection = leading(released.value, count)
        centers = private_lloyd(run, middle, projection, starting_centers(k, count, ball), ball, share)
        # Two centres at one place would leave a cluster without rows.
        centers = centers[np.unique(nearest_centers(centers, centers)[0])]
        tree = ClusterTree.root(rows.dim)
        if len(centers) > 1:
            tree = tree.split_nearest(0, origin=middle, projection=projection, centers=centers)
        frames = [ball_frame(middle + projection.T @ at, ball, failure_prob) for at in centers]
        found = Clustering(tree=tree, leaves=tree.leaves, scales=(ball,) * len(centers), depth=0)
        leaves = learn_leaves(run, tree, found.leaves, frames, allowance=share, failure_prob=failure_prob)
        return put_together(
            run,
            found,
            leaves,
            method="no_public_baseline",
            source=frames[0].frame.source,
            weight_floor=weight_floor,
            n_pub=0,
            diagnostics={"n_components_asked": k, "clustering_share": float(2 * THIRD)},
        )
