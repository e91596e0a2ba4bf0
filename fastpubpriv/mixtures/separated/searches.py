"""Searches for the components of a separated mixture: practical ones, and those that paper A proves.

The practical searches use the primitives of paper A's Algorithms 6 and 9, tuned: no row is dropped, and a released histogram
locates the valley to cut along.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np

from fastpubpriv._types import FloatArray, Mode
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.separated import public_shapes, search_state
from fastpubpriv.mixtures.separated.public_shapes import (
    DATA_UNITS,
    column_scaling,
    first_terrific,
    kmeans,
)
from fastpubpriv.mixtures.separated.search_state import (
    Clustering,
    Node,
    Search,
    usable_radius,
    widest,
)
from fastpubpriv.privacy.spending import Spending
from fastpubpriv.session import Method, Registry, Session

# Maximum number of cells of a radial histogram: the bins, one cell inside and one outside of them.
MOST_CELLS = round((math.log(tuning.WIDEST_GAP) + 2.0 * tuning.OVERHANG) / tuning.BIN_WIDTH) + 2


def valley(
    counts: FloatArray, edges: FloatArray, *, least: float, noise_std: float
) -> dict[str, float] | None:
    """Return radius and counts of the emptiest bin with `least` rows on either side, or None if it is not empty enough."""
    inside = np.cumsum(counts)[:-2]
    outside = counts.sum() - np.cumsum(counts)[1:-1]
    enough = (inside >= least) & (outside >= least)
    if not enough.any():
        return None
    shell = np.where(enough, counts[1:-1], np.inf)
    best = int(np.argmin(shell))
    smaller = min(float(inside[best]), float(outside[best]))
    if not shell[best] < tuning.VALLEY_SHARE * smaller + tuning.VALLEY_NOISE * noise_std:
        return None
    return {
        "radius": math.sqrt(float(edges[best]) * float(edges[best + 1])),
        "inside": float(inside[best]),
        "shell": float(shell[best]),
        "outside": float(outside[best]),
    }


def gaps(
    search: Search, projected: FloatArray, wanted: int
) -> Iterator[tuple[public_shapes.Gap, FloatArray]]:
    """Yield the widest gap of a node's projected public rows and its center, then the widest with twice the rows on each side."""
    # Repeated values, such as one route of an airline, make gaps around a few rows that are no components.
    sample = public_shapes.rows_for_gaps(projected, wanted)
    # The minimum on either side is the same share of the subsample.
    least = max(2, math.ceil(search.least_public * len(sample) / len(projected)))
    for _ in range(tuning.ATTEMPTS):
        gap = public_shapes.widest_gap(sample, min_count=least)
        if gap is None or gap.ratio < tuning.LEAST_GAP or not usable_radius(gap.outer, projected):
            return
        yield gap, sample[gap.index]
        least = max(2 * least, gap.rank + 1)


def clip_ball(search: Search, node: Node) -> tuple[FloatArray, float] | None:
    """Return center and radius, in scaled coordinates, of a ball around a node's public rows; None if that is too small."""
    points = search.public[node.rows]
    center = points.mean(axis=0)
    scaled = search.scaling.offsets(points - center)
    radius = tuning.CLIP_MARGIN * widest(scaled)
    return (center, radius) if usable_radius(radius, scaled) else None


def try_cut(search: Search, node: Node, wanted: int) -> tuple[Node, Node] | None:
    """Try to cut a node by private queries; return its children, or None if it stays whole."""
    points = search.public[node.rows]
    ball = clip_ball(search, node)
    if ball is None:
        return None
    center, radius = ball
    payer = search.payer(node)
    projection = search.directions(node, payer, center=center, radius=radius, count=wanted)
    projected = (points - center) @ projection.T
    for attempt, (gap, middle) in enumerate(gaps(search, projected, wanted), start=1):
        # Evenly spaced in log radius over the public gap and a margin.
        inner = math.log(max(gap.inner, gap.outer / tuning.WIDEST_GAP)) - tuning.OVERHANG
        outer = math.log(gap.outer) + tuning.OVERHANG
        bins = max(tuning.LEAST_BINS, round((outer - inner) / tuning.BIN_WIDTH))
        edges = np.exp(np.linspace(inner, outer, bins + 1))
        counts = search.radial_counts(
            node,
            payer,
            origin=center,
            projection=projection,
            center=middle,
            edges=edges,
            share=search_state.HISTOGRAM_SHARE / tuning.ATTEMPTS,
            attempt=attempt,
        )
        cut = valley(counts.value, edges, least=search.least_private, noise_std=counts.noise_std)
        if cut is None:
            continue
        before = search.tree
        children = search.split_ball(
            node,
            origin=center,
            projection=projection,
            center=middle,
            radius=cut["radius"],
            depth=node.depth + 1,
        )
        if all(len(child.rows) for child in children):
            search.cuts.append({"node": node.id, "gap": gap.ratio, "clip_radius": radius, **cut})
            return children
        # The cut lies beyond the public gap: the Gaussian of a side without public rows could not be initialized.
        search.tree = before
    return None


def practical_depth(n_components: int) -> int:
    """Return the largest depth of the practical search: k components need at most k - 1 cuts."""
    return max(1, n_components - 1)


def tree_search(search: Search) -> Clustering:
    """Cut node after node, those with the most public rows first, until there are as many leaves as components."""
    # Every decision is a function of public rows and released values.
    k = search.n_components
    queue = [search.root()]
    leaves = list[Node]()
    while queue:
        node = max(queue, key=lambda one: (len(one.rows), -one.id))
        queue.remove(node)
        wanted = k - len(leaves) - len(queue)
        cut = None
        if (
            wanted >= 2
            and node.depth < practical_depth(k)
            and len(node.rows) >= 2 * max(2, search.least_public)
        ):
            cut = try_cut(search, node, wanted)
        if cut is None:
            leaves.append(node)
        else:
            queue += cut
    return search.finish(leaves)


def nearest_split(
    search: Search, projection: FloatArray, origin: FloatArray, *, depth: int
) -> Clustering:
    """Split the root at once: rows go to the nearest k-means center of the projected public rows."""
    projected = (search.public - origin) @ projection.T
    centers = kmeans(projected, search.n_components)
    root = search.root()
    before = search.tree
    nodes = [root]
    while len(centers) > 1:
        search.tree = before.split_nearest(
            root.id, origin=origin, projection=projection, centers=centers
        )
        children = [search.child(each, root, depth) for each in search.tree.children(root.id)]
        if all(len(child.rows) for child in children):
            nodes = children
            break
        # Rounding may leave a center without public rows; its Gaussian could not be initialized.
        centers = centers[[len(child.rows) > 0 for child in children]]
        search.tree = before
    return search.finish(nodes)


def one_shot(search: Search) -> Clustering:
    """Release principal directions of all private rows once, then split by nearest centers; for components of similar scale."""
    root = search.root()
    ball = clip_ball(search, root)
    if ball is None:
        return search.finish([root])
    center, radius = ball
    payer = search.payer(root)
    count = search.n_components
    projection = search.directions(
        root, payer, center=center, radius=radius, count=count, share=Fraction(1)
    )
    return nearest_split(search, projection, center, depth=1)


def public_pca(search: Search) -> Clustering:
    """Split by nearest centers along principal directions of the public rows; no private access, for many public rows."""
    center, projection = search.scaling.directions(search.public, search.n_components)
    return nearest_split(search, projection, center, depth=0)


# The searches that paper A proves: Algorithms 6 (few public rows) and 9 (public rows linear in the dimension), errata applied.

# Outer radius of the shell of the private query over that of the cut, 2 r: the public shell reaches from r to 11 r.
PRIVATE_SHELL = 5.0
# Maximum rows in the shell over the minimum on either side.
SHELL_SHARE = 1.0 / 320.0


def partition(
    search: Search, node: Node, *, center: FloatArray, radius: float
) -> tuple[Node, Node] | None:
    """Algorithm 5 on the rows of a supercluster: a private histogram if a public ball qualifies; None without a cut."""
    points = search.public[node.rows]
    payer = search.payer(node)
    count = search.n_components
    projection = search.directions(node, payer, center=center, radius=radius, count=count)
    projected = (points - center) @ projection.T
    # The paper's least radius, radius / sqrt(dim), stops the search too early.
    ball = first_terrific(
        projected, min_count=search.least_public, radius_max=radius, radius_min=None
    )
    if ball is None:
        return None
    edges = np.array([ball.radius, PRIVATE_SHELL * ball.radius])
    counts = search.radial_counts(
        node, payer, origin=center, projection=projection, center=ball.center, edges=edges
    )
    inside, shell, outside = counts.value
    least = search.least_private
    if not (inside >= least and shell < SHELL_SHARE * least and outside >= least):
        return None
    return _split(search, node, center, projection, ball, counts.value)


def _split(
    search: Search,
    node: Node,
    origin: FloatArray,
    projection: FloatArray,
    ball: public_shapes.Ball,
    counts: FloatArray | None,
) -> tuple[Node, Node]:
    children = search.split_ball(
        node,
        origin=origin,
        projection=projection,
        center=ball.center,
        radius=ball.radius,
        depth=node.depth + (counts is not None),
    )
    counted = (
        {}
        if counts is None
        else dict(zip(("inside", "shell", "outside"), map(float, counts), strict=True))
    )
    search.cuts.append(
        {
            "node": node.id,
            "radius": ball.radius,
            "public_row": int(node.rows[ball.index]),
            **counted,
        }
    )
    return children


# The node that became a leaf, or None, and the nodes that remain to be searched.
Parts = tuple[Node | None, tuple[Node, ...]]


def proved_search(search: Search, *, cut: Callable[[Search, Node], Parts]) -> Clustering:
    """Cut nodes, first in first out, in at most 2 k - 1 turns; nodes left over become leaves, up to k leaves in all."""
    k = search.n_components
    queue = deque([search.root()])
    leaves = list[Node]()
    for _ in range(2 * k - 1):
        if len(leaves) == k or not queue:
            break
        leaf, parts = cut(search, queue.popleft())
        leaves += [] if leaf is None else [leaf]
        queue.extend(parts)
    return search.finish([*leaves, *list(queue)[: k - len(leaves)]])


def hard_cut(search: Search, node: Node) -> Parts:
    """Algorithm 6: supercluster, private directions, partition. Its outside is dropped if it has no public row."""
    k = search.n_components
    points = search.public[node.rows]
    if len(node.rows) < 2 or node.depth >= k:
        return node, ()
    ball = public_shapes.find_supercluster(points, k)
    if not usable_radius(ball.radius, points):
        return node, ()
    inner, outer = search.split_ball(
        node,
        origin=ball.center,
        projection=None,
        center=np.zeros(points.shape[1]),
        radius=ball.radius,
        depth=node.depth,
    )
    beyond = (outer,) if len(outer.rows) else ()
    inner = replace(inner, radius=ball.radius)
    parts = partition(search, inner, center=ball.center, radius=ball.radius)
    return (inner, beyond) if parts is None else (None, (*beyond, *parts))


def easy_cut(search: Search, node: Node) -> Parts:
    """Algorithm 9: directions and balls from public rows alone; no private access."""
    points = search.public[node.rows]
    if len(node.rows) < 2:
        return node, ()
    center, projection = public_shapes.public_directions(points, search.n_components)
    # Four times the diameter in the paper, bounded here by twice the largest distance from the mean.
    ball = first_terrific(
        (points - center) @ projection.T,
        min_count=search.least_public,
        radius_max=8.0 * widest(points),
        radius_min=None,
    )
    return (
        (node, ()) if ball is None else (None, _split(search, node, center, projection, ball, None))
    )


hard_search = partial(proved_search, cut=hard_cut)
easy_search = partial(proved_search, cut=easy_cut)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The public description of a mixture problem."""

    dim: int
    n_pub: int
    n_components: int
    min_weight: float
    mode: Mode
    failure_prob: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SearchMethod(Method[[Shape]]):
    """A search method: `learn(search)` of mode "practical", `draws(shape)`, and the fields below."""

    depth: Callable[[Shape], int]  # maximum number of nodes on a path with private queries
    theory: Callable[[Search], Clustering] | None = None  # `learn` of mode "theory"
    # share of the cost of a node; the rest pays for histograms
    directions_share: Fraction = Fraction(1)
    cuts_at_gaps: bool = False  # cuts by balls within gaps of the public rows
    soft: bool = False  # soft EM starts from public fits, not from this search


def node_draws(shape: Shape) -> int:
    """Upper bound on the number of noise draws of a node."""
    return shape.dim**2 + tuning.ATTEMPTS * MOST_CELLS


TREE = SearchMethod(
    name="tree",
    learn=tree_search,
    theory=hard_search,
    depth=lambda shape: (
        shape.n_components if shape.mode == "theory" else practical_depth(shape.n_components)
    ),
    draws=lambda shape: (2 * shape.n_components - 1) * node_draws(shape),
    directions_share=tuning.DIRECTIONS_SHARE,
    cuts_at_gaps=True,
)
ONE_SHOT = SearchMethod(name="one_shot", learn=one_shot, depth=lambda shape: 1, draws=node_draws)
PUBLIC_PCA = SearchMethod(
    name="public_pca",
    learn=public_pca,
    theory=easy_search,
    depth=lambda shape: 0,
    draws=lambda shape: 0,
)
# It starts from public fits in place of a search; see `soft_em`.
SOFT_EM = replace(PUBLIC_PCA, name="soft_em", theory=None, soft=True)
METHODS: Registry[SearchMethod] = Registry(TREE, ONE_SHOT, PUBLIC_PCA, SOFT_EM, auto=True)


def choose_method(method: str, shape: Shape, noise: type[Spending]) -> SearchMethod:
    """Return the method to run, from public numbers alone. Raise if its mode or the budget's noise do not allow it."""
    if method == "auto":
        if shape.mode == "practical":
            return SOFT_EM
        enough = (
            shape.dim
            * max(1.0, math.log(shape.n_components / shape.failure_prob))
            / shape.min_weight
        )
        if not noise.carries_trees or shape.n_components == 1 or shape.n_pub >= enough:
            return PUBLIC_PCA
        return TREE
    chosen = METHODS[method]
    if shape.mode == "theory" and chosen.theory is None:
        proved = " and ".join(
            repr(name) for name, each in METHODS.items() if each.theory is not None
        )
        raise InputError(
            f"method={method!r} belongs to mode='practical'; mode='theory' has {proved}"
        )
    if not noise.carries_trees and tree_depth(chosen, shape):
        raise BudgetError(
            f"method={method!r} reads private rows with Gaussian noise, which cannot meet PureDP; "
            "pass ZCDP or ApproxDP, or method='public_pca'"
        )
    return chosen


def tree_depth(method: SearchMethod, shape: Shape) -> int:
    """Maximum number of nodes on a path with private queries; 0 if there are none."""
    return 0 if shape.n_components == 1 else method.depth(shape)


def search_share(method: SearchMethod, shape: Shape) -> Fraction:
    """Share of the budget for the private queries of a search."""
    return tuning.SEARCH_SHARE if tree_depth(method, shape) else Fraction(0)


def search_draws(method: SearchMethod, shape: Shape) -> int:
    """Upper bound on the number of noise draws of a search."""
    return 0 if tree_depth(method, shape) == 0 else method.draws(shape)


def check_search_grids(method: SearchMethod, shape: Shape, n: int, spending: Spending) -> None:
    """Raise, before the debit, if the share of a node is too small for integer grids."""
    depth = tree_depth(method, shape)
    if depth == 0:
        return
    of_node = spending.part(Fraction(1, depth))
    directions = method.directions_share
    of_node.part(directions).grid("moment", shape.dim, n)
    if directions < 1:
        of_node.part((1 - directions) / tuning.ATTEMPTS).grid("count", MOST_CELLS, n)


def find_components(
    run: Session, public: FloatArray, shape: Shape, method: SearchMethod, cost: Fraction
) -> Clustering:
    """Search for the components; `cost` is the total privacy cost of the search."""
    k = shape.n_components
    scaling = DATA_UNITS
    find = method.theory
    if shape.mode == "practical":
        find = method.learn
        scaling = column_scaling(
            public, k, gap_share=shape.min_weight / 2.0 if method.cuts_at_gaps else None
        )
    depth = tree_depth(method, shape)
    scope = run.account.tree(cost, depth) if depth else None
    search = Search(run, public, k, shape.min_weight, scope=scope, scaling=scaling)
    if k == 1:
        return search.finish([search.root()])
    assert find is not None
    return find(search)
