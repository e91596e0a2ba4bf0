"""The ways to find the components of a separated mixture: those of practice and those that paper A proves.

Practice uses the same primitives as paper A's Algorithms 6 and 9, tuned: nobody is dropped, and a released histogram finds the
valley to cut along.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray, Mode
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.separated import public_shapes, search_state
from fastpubpriv.mixtures.separated.public_shapes import DATA_UNITS, Scaling, column_scaling, first_terrific, kmeans
from fastpubpriv.mixtures.separated.search_state import Clustering, Node, Search, usable_radius, widest
from fastpubpriv.privacy.calibration import gaussian_count_grid, gaussian_gram_grid
from fastpubpriv.session import Method, Registry, Session

# Most cells of a radial histogram: the bins, what lies within them and what lies beyond.
MOST_CELLS = round((math.log(tuning.WIDEST_GAP) + 2.0 * tuning.OVERHANG) / tuning.BIN_WIDTH) + 2


def practical_depth(n_components: int) -> int:
    """Most nodes on a path of `tree_search` that ask private queries: each but the last was cut, and the last cut asks no more."""
    return max(1, n_components - 1)


def histogram_edges(gap: public_shapes.Gap) -> FloatArray:
    """Radii at which private rows are counted: the public gap and a little more, in even steps of the logarithm."""
    inner = math.log(max(gap.inner, gap.outer / tuning.WIDEST_GAP)) - tuning.OVERHANG
    outer = math.log(gap.outer) + tuning.OVERHANG
    bins = max(tuning.LEAST_BINS, round((outer - inner) / tuning.BIN_WIDTH))
    return np.exp(np.linspace(inner, outer, bins + 1))


def valley(counts: FloatArray, edges: FloatArray, *, least: float, noise_std: float) -> dict[str, float] | None:
    """The emptiest bin with enough rows on either side, if it is empty enough: its radius and the counts that say so."""
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


def gaps(search: Search, seen: FloatArray, wanted: int) -> Iterator[tuple[public_shapes.Gap, FloatArray]]:
    """The widest gap among the projected public rows of a node and its center; then the widest around twice as many rows."""
    # Repeated values, such as one route of an airline, make gaps around a few rows that say nothing about components.
    looked = public_shapes.rows_for_gaps(seen, wanted)
    # The same share of the rows that are looked at must lie on either side.
    least = max(2, math.ceil(search.least_public * len(looked) / len(seen)))
    for _ in range(tuning.ATTEMPTS):
        gap = public_shapes.widest_gap(looked, min_count=least)
        if gap is None or gap.ratio < tuning.LEAST_GAP or not usable_radius(gap.outer, seen):
            return
        yield gap, looked[gap.index]
        least = max(2 * least, gap.rank + 1)


def try_cut(search: Search, node: Node, wanted: int) -> tuple[Node, Node] | None:
    """Ask about one node; returns its children, or None when it stays whole."""
    points = search.public[node.rows]
    center = points.mean(axis=0)
    scaled = search.scaling.offsets(points - center)
    radius = tuning.CLIP_MARGIN * widest(scaled)
    if not usable_radius(radius, scaled):
        return None
    payer = search.payer(node)
    projection = search.directions(node, payer, center=center, radius=radius, count=min(wanted, points.shape[1]))
    seen = (points - center) @ projection.T
    for attempt, (gap, middle) in enumerate(gaps(search, seen, wanted), start=1):
        edges = histogram_edges(gap)
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
        found = valley(counts.value, edges, least=search.least_private, noise_std=counts.noise_std)
        if found is None:
            continue
        before = search.tree
        children = search.split_ball(
            node, origin=center, projection=projection, center=middle, radius=found["radius"], depth=node.depth + 1
        )
        if all(len(child.rows) for child in children):
            search.cuts.append({"node": node.id, "gap": gap.ratio, "clip_radius": radius, **found})
            return children
        # Beyond the public gap, so that a side has no public row to learn its Gaussian from.
        search.tree = before
    return None


def tree_search(search: Search) -> Clustering:
    """Cut node after node, those with the most public rows first, until there are as many leaves as components."""
    # Every decision is a function of public rows and released values.
    k = search.n_components
    queue, leaves = [search.root()], list[Node]()
    while queue:
        node = max(queue, key=lambda one: (len(one.rows), -one.id))
        queue.remove(node)
        wanted = k - len(leaves) - len(queue)
        cut = None
        if wanted >= 2 and node.depth < practical_depth(k) and len(node.rows) >= 2 * max(2, search.least_public):
            cut = try_cut(search, node, wanted)
        if cut is None:
            leaves.append(node)
        else:
            queue += cut
    return search.finish(leaves)


def nearest_split(search: Search, projection: FloatArray, origin: FloatArray, *, depth: int) -> Clustering:
    """Cut everything at once: rows go to the nearest of the centers that k-means finds among the projected public rows."""
    seen = (search.public - origin) @ projection.T
    centers = kmeans(seen, search.n_components)
    root = search.root()
    before, nodes = search.tree, [root]
    while len(centers) > 1:
        search.tree = before.split_nearest(root.id, origin=origin, projection=projection, centers=centers)
        children = [search.child(each, root, depth) for each in search.tree.children(root.id)]
        if all(len(child.rows) for child in children):
            nodes = children
            break
        # A center that rounding left without a public row; no Gaussian could be learnt there.
        centers = centers[[len(child.rows) > 0 for child in children]]
        search.tree = before
    return search.finish(nodes)


def one_shot(search: Search) -> Clustering:
    """Principal directions of all private rows, once; then nearest centers. For components of comparable scale."""
    points = search.public
    center = points.mean(axis=0)
    scaled = search.scaling.offsets(points - center)
    radius = tuning.CLIP_MARGIN * widest(scaled)
    root = search.root()
    if not usable_radius(radius, scaled):
        return search.finish([root])
    payer = search.payer(root)
    count = min(search.n_components, points.shape[1])
    projection = search.directions(root, payer, center=center, radius=radius, count=count, share=Fraction(1))
    return nearest_split(search, projection, center, depth=1)


def public_pca(search: Search) -> Clustering:
    """Nearest centers along the principal directions of the public rows: no private access, for many public rows."""
    center, projection = search.scaling.directions(search.public, search.n_components)
    return nearest_split(search, projection, center, depth=0)


# The searches that paper A proves: Algorithms 6 (few public rows) and 9 (public rows linear in the dimension), errata applied.

# The private query counts rows up to this many radii; the public shell reaches as far, since a cut has twice its radius.
PRIVATE_SHELL = 5.0
# The shell may hold this share of the rows that either side must have.
SHELL_SHARE = 1.0 / 320.0


def proof_depth(n_components: int) -> int:
    """Most nodes on a path that ask private queries."""
    return n_components


def accepted(counts: FloatArray, least: float) -> bool:
    """The private query: enough rows inside and beyond, next to none in the shell."""
    inside, shell, outside = (float(value) for value in counts)
    return inside >= least and shell < SHELL_SHARE * least and outside >= least


def partition(search: Search, node: Node, *, center: FloatArray, radius: float) -> tuple[Node, Node] | None:
    """Algorithm 5 on the rows of a supercluster: one private histogram if a public ball qualifies, else none."""
    points = search.public[node.rows]
    payer = search.payer(node)
    count = min(search.n_components, points.shape[1])
    projection = search.directions(node, payer, center=center, radius=radius, count=count)
    seen = (points - center) @ projection.T
    # The printed least radius, that of the ball over the root of the columns, stops too early.
    ball = first_terrific(seen, min_count=search.least_public, radius_max=radius, radius_min=None)
    if ball is None:
        return None
    edges = np.array([ball.radius, PRIVATE_SHELL * ball.radius])
    counts = search.radial_counts(node, payer, origin=center, projection=projection, center=ball.center, edges=edges)
    if not accepted(counts.value, search.least_private):
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
    cut: dict[str, Any] = {"node": node.id, "radius": ball.radius, "public_row": int(node.rows[ball.index])}
    if counts is not None:
        cut |= dict(zip(("inside", "shell", "outside"), (float(value) for value in counts), strict=True))
    search.cuts.append(cut)
    return children


# A node that became a leaf, or None, and the nodes that it was cut into.
Parts = tuple[Node | None, tuple[Node, ...]]


def proved_search(search: Search, *, cut: Callable[[Search, Node], Parts]) -> Clustering:
    """Cut node after node, first come first served; of those that nobody had time for as many are leaves as there is room for."""
    k = search.n_components
    queue, leaves = deque([search.root()]), list[Node]()
    for _ in range(2 * k - 1):
        if len(leaves) == k or not queue:
            break
        leaf, parts = cut(search, queue.popleft())
        leaves += [] if leaf is None else [leaf]
        queue.extend(parts)
    return search.finish([*leaves, *list(queue)[: k - len(leaves)]])


def hard_cut(search: Search, node: Node) -> Parts:
    """Algorithm 6: supercluster, private directions, partition. Rows beyond a supercluster are left out where no public row is."""
    k, points = search.n_components, search.public[node.rows]
    if len(node.rows) < 2 or node.depth >= proof_depth(k):
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
    # Four times the diameter in the paper; twice the largest distance from the mean is an upper bound of it.
    ball = first_terrific(
        (points - center) @ projection.T,
        min_count=search.least_public,
        radius_max=8.0 * widest(points),
        radius_min=None,
    )
    return (node, ()) if ball is None else (None, _split(search, node, center, projection, ball, None))


hard_search, easy_search = partial(proved_search, cut=hard_cut), partial(proved_search, cut=easy_cut)


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
    """A search: `learn(search)` for mode "practical", `draws(shape)` and what stands below."""

    depth: Callable[[Shape], int]  # most nodes on a path that ask private queries
    theory: Callable[[Search], Clustering] | None = None  # `learn` of mode "theory"
    directions_share: Fraction = Fraction(1)  # of the cost of a node; the rest is for histograms along them
    cuts_at_gaps: bool = False  # by balls around which no public row lies
    soft: bool = False  # rounds of soft EM follow, not a Gaussian for each leaf


def _enough_alone(shape: Shape) -> float:
    """Public rows that find the components by themselves: d log(k / beta) / w_min."""
    return shape.dim * max(1.0, math.log(shape.n_components / shape.failure_prob)) / shape.min_weight


def node_draws(shape: Shape) -> int:
    """Upper bound on the noise draws of a node."""
    return shape.dim**2 + tuning.ATTEMPTS * MOST_CELLS


TREE = SearchMethod(
    name="tree",
    learn=tree_search,
    theory=hard_search,
    depth=lambda shape: (proof_depth if shape.mode == "theory" else practical_depth)(shape.n_components),
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
# Not a search for components, but for a start of what follows; see `soft_em`.
SOFT_EM = SearchMethod(
    name="soft_em",
    learn=one_shot,
    depth=lambda shape: 1,
    draws=lambda shape: 2 * shape.n_components * node_draws(shape),
    soft=True,
)
METHODS: Registry[SearchMethod] = Registry(TREE, ONE_SHOT, PUBLIC_PCA, SOFT_EM, auto=True)


def choose_method(method: str, shape: Shape, *, pure: bool) -> SearchMethod:
    """The method to run, by public numbers alone. Pure budgets can pay for no private search."""
    if method != "auto":
        return METHODS[method]
    if shape.mode == "practical":
        return SOFT_EM
    alone = pure or shape.n_components == 1 or shape.n_pub >= _enough_alone(shape)
    return PUBLIC_PCA if alone else TREE


def tree_depth(method: SearchMethod, shape: Shape) -> int:
    """Most nodes on a path that ask private queries; 0 where none does."""
    return 0 if shape.n_components == 1 else method.depth(shape)


def search_draws(method: SearchMethod, shape: Shape) -> int:
    """Upper bound on the noise draws of a search."""
    return 0 if tree_depth(method, shape) == 0 else method.draws(shape)


def check_search_grids(cost: Fraction, depth: int, method: SearchMethod, dim: int, n: int) -> None:
    """Raise now, before the debit, if the share of a node is too small for integer grids."""
    share = cost / depth
    directions = method.directions_share
    gaussian_gram_grid(share * directions, dim, n)
    if directions < 1:
        gaussian_count_grid(share * (1 - directions) / tuning.ATTEMPTS, MOST_CELLS, n)


def search_scaling(method: SearchMethod, shape: Shape, public: FloatArray) -> Scaling:
    """The coordinates of a search, by public rows; mode "theory" is the paper's, in data units."""
    if shape.mode == "theory":
        return DATA_UNITS
    return column_scaling(public, shape.n_components, gap_share=shape.min_weight / 2.0 if method.cuts_at_gaps else None)


def find_components(
    run: Session, public: FloatArray, shape: Shape, method: SearchMethod, cost: Fraction, scaling: Scaling
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
