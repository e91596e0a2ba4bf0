"""What `learn_separated_mixture` is compared with: public rows alone, and a mixture in a ball without public rows."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv import session, validation
from fastpubpriv._types import FloatArray, Keep, RowsPerPerson
from fastpubpriv.defaults import FAILURE_PROB
from fastpubpriv.errors import BudgetError
from fastpubpriv.estimators.radii import failure_probability, size
from fastpubpriv.estimators.user_level import user_level
from fastpubpriv.mechanisms.leaves import LeafCounts, LeafSums
from fastpubpriv.mechanisms.sums import AffineMap, SecondMoment
from fastpubpriv.mixtures import fit
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.public_em import (
    ComponentShape,
    column_variances,
    labeled_fit,
)
from fastpubpriv.mixtures.separated import search_state
from fastpubpriv.mixtures.separated.leaf_gaussians import (
    MOST_COMPONENTS,
    ball_frame,
    check_components,
    check_leaf_grids,
    leaf_draws,
    lifted_errors,
    release_leaf_gaussians,
    warn_if_hopeless,
    with_fit_of_leaves,
)
from fastpubpriv.mixtures.separated.public_shapes import (
    SEED,
    column_scaling,
    kmeans,
    nearest_centers,
)
from fastpubpriv.mixtures.separated.search_state import Clustering, ClusterTree
from fastpubpriv.mixtures.separated.searches import Shape
from fastpubpriv.privacy import ZCDP, Budget, Cost, Ledger
from fastpubpriv.privacy.spending import noise_of
from fastpubpriv.results.mixture import MixtureResult
from fastpubpriv.results.public_draws import draw_normals, draw_uniforms
from fastpubpriv.session import Session
from fastpubpriv.sources.open import public_table_of


def public_only(x_pub: Any, *, n_components: int, columns: Any = None) -> MixtureResult:
    """Mixture fitted to public rows alone: k-means along their principal directions, then a Gaussian for each cluster.

    Parameters
    ----------
    x_pub : (n_pub, dim) array-like, path, frame or table
        Public rows, finite, in data units.
        Not all equal, at least n_components of them.
    n_components : int
        Maximum number of clusters; fewer are returned if fewer rows are distinct.
    columns : str, int or list of these, optional
        Numeric columns by name or, of an array, by number; by default all, in their order.

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

    See Also
    --------
    learn_separated_mixture : the same from private rows as well.
    no_public_baseline : a private mixture without public rows, in a known ball.

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
    at = labeled_fit(points, labels, len(leaves), ComponentShape.FULL)
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
    """Mixture without public rows, in a ball that the caller names: what `learn_separated_mixture` is compared with.

    Parameters
    ----------
    x_priv : (n_priv, dim) array-like, path, frame, table or Rows
        Private rows.
        A row with a missing or infinite entry belongs to no component but counts in n_priv.
    radius : float > 0
        Radius of a ball that holds the rows, in data units; must not depend on the private rows. Rows outside are clipped.
    budget : ZCDP or ApproxDP
        Spent entirely, and debited before `x_priv` is read.
    center : None, float or (dim,)
        Center of the ball, a public number or vector (zero by default).
    columns : str, int or list of these, optional
        Numeric columns by name or, of an array, by number; by default all, in their order.
    person : str or (n_priv,) array-like, optional
        Column that says whose row it is, or the identifiers themselves: the call then protects all rows of a person together
        (user-level privacy); say by `keep` or `rows_per_person` what stands for a person. Rows without an identifier are left
        out. A text that is a number in its usual form (7, -3, 7.0) is that number, whatever the form of the table; "07" and "7"
        are two persons. Whole numbers beyond 2^53 are rounded in columns of numbers: keep them as text. By default each row is
        protected by itself.
    keep : "row", "mean" or "sum", optional
        With `person`: "mean", for each column the mean of the numbers in the person's rows, so that each person counts once; or
        "sum", their sum (0 for a person without any), whose total is that of all rows. Public rows that have the column of
        persons are treated alike, others are of persons already. "row", which `rows_per_person` implies: rows.
    rows_per_person : int or "auto", optional
        With `person`: at most how many rows of each person are used, chosen as if at random. For k rows the budget is spent at
        row level with rho / k^2 or epsilon / k; "auto" chooses k with a sixteenth of it, and a given k spends 1/64 on how many
        persons have more rows: reason "rows_left_out" if surely more than 2 % do. Rows that a person does not have are in no
        count; a method that cannot tell them from rows at a center refuses k > 1 before the debit.

    n_components : int
        Number of components.
    failure_prob : float in (0, 1), default 0.05
        Probability with which a bound of this call may fail. A failure costs accuracy, never privacy.
        The bounds are constants of the learner.
    weight_floor : float in (0, 1)
        No weight is reported below weight_floor / n_components: this share of an equal weight.

    ledger : Ledger, optional
        Debited before the first read, by what `budget` says is spent.
    random_state : None or int
        None: fresh operating-system keys. int: repeatable, warned about, `private=False`.
    threads : int, optional
        Number of threads; by default one for each core. Passes over few numbers wake none. Never changes the answer.
    progress : bool, optional
        Whether a progress bar is shown; by default on a terminal, for long work.

    Returns
    -------
    MixtureResult
        As of `learn_separated_mixture` in mode "theory", with `n_pub` 0. `fit_distance` and the reasons show a component that
        stands for several, where Lloyd's algorithm ended in a poor local optimum.

    Raises
    ------
    InputError, BudgetError, LedgerError
        For public data and arguments, the form of the private data, and the budget. Never for the content of `x_priv`.

    Privacy
    -------
    Protected: every private row, against replacement by any other. Public: n_priv, dim, and all arguments. Released with
    Gaussian noise: a count of the fit, for a fiftieth of the budget; and, for a third of the rest each, one second moment within
    the ball; in each of five iterations of Lloyd's algorithm counts and sums of all clusters; and counts, second moments and sums
    of the final clusters.

    Proofs: `notes/gram.md`, `notes/leaf_counts.md`, `notes/leaf_sums.md`, `notes/leaf_second_moments.md`, `notes/code_counts.md`.

    See Also
    --------
    learn_separated_mixture : needs no ball, with public rows or ApproxDP.
    public_only : the other baseline, without private rows.

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
    session.require_squares("no_public_baseline", rows.dim, 12 * k + 16)
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
        draws=rows.dim**2
        + tuning.LLOYD_ROUNDS * k * (count + 1)
        + leaf_draws(rows.dim, k)
        + fit.count_draws(k),
        **session.asked(ledger, random_state, threads, progress),
    )
    counted = fit.count_share(run.account.spending)
    run.account.spending.part(counted).grid("count", fit.count_draws(k), rows.n)
    stage = (1 - counted) / 3
    third = run.account.spending.part(stage)
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
        result = release_leaf_gaussians(
            run,
            clustering,
            frames,
            spending=third,
            failure_prob=failure_prob,
            weight_floor=weight_floor,
        )
        facts = {"n_components_asked": k, "clustering_share": float(2 * stage)}
        result = replace(
            result, method="no_public_baseline", diagnostics={**result.diagnostics, **facts}
        )
        result = with_fit_of_leaves(run, result, np.zeros((0, rows.dim)), asked=k)
    return session.warned("no_public_baseline", result)
