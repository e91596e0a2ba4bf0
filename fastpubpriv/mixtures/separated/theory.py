"""The searches that paper A proves: Algorithms 6 (few public rows) and 9 (public rows linear in the dimension), errata applied."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.mixtures.separated.balls import Ball, first_terrific
from fastpubpriv.mixtures.separated.scaling import public_directions
from fastpubpriv.mixtures.separated.search import Clustering, Node, Search, usable_radius, widest
from fastpubpriv.mixtures.separated.supercluster import STEP_FACTOR, find_supercluster

# The private query counts rows up to this many radii; the public shell reaches as far, since a cut has twice its radius.
PRIVATE_SHELL = 5.0
# The shell may hold this share of the rows that either side must have.
SHELL_SHARE = 1.0 / 320.0

# Least radius of the partitioner for a ball of radius R in `dim` columns; None searches while a ball can qualify.
LeastRadius = Callable[[float, int], "float | None"]


def search_on(radius: float, dim: int) -> float | None:
    """The rule that misses nothing."""
    return None


def tree_depth(n_components: int) -> int:
    """Most nodes on a path that ask private queries."""
    return n_components


def accepted(counts: FloatArray, least: float) -> bool:
    """The private query: enough rows inside and beyond, next to none in the shell."""
    inside, shell, outside = (float(value) for value in counts)
    return inside >= least and shell < SHELL_SHARE * least and outside >= least


def partition(
    search: Search, node: Node, *, center: FloatArray, radius: float, least_radius: LeastRadius
) -> tuple[Node, Node] | None:
    """Algorithm 5 on the rows of a supercluster: one private histogram if a public ball qualifies, else none."""
    points = search.public[node.rows]
    dim = points.shape[1]
    payer = search.payer(node)
    projection = search.directions(node, payer, center=center, radius=radius, count=min(search.n_components, dim))
    seen = (points - center) @ projection.T
    ball = first_terrific(seen, min_count=search.least_public, radius_max=radius, radius_min=least_radius(radius, dim))
    if ball is None:
        return None
    edges = np.array([ball.radius, PRIVATE_SHELL * ball.radius])
    counts = search.radial_counts(node, payer, origin=center, projection=projection, center=ball.center, edges=edges)
    if not accepted(counts.value, search.least_private):
        return None
    return _split(search, node, center, projection, ball, counts.value)


def _split(
    search: Search, node: Node, origin: FloatArray, projection: FloatArray, ball: Ball, counts: FloatArray | None
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


def left_over(queue: deque[Node], room: int) -> list[Node]:
    """Nodes that nobody had time to look at, as far as there is room for components; the rows of others are left out."""
    return list(queue)[:room]


def hard_search(
    search: Search, *, step_factor: float = STEP_FACTOR, least_radius: LeastRadius = search_on
) -> Clustering:
    """Algorithm 6: supercluster, private directions, partition. Rows beyond a supercluster are left out where no public row is."""
    k = search.n_components
    queue, leaves = deque([search.root()]), list[Node]()
    for _ in range(2 * k - 1):
        if len(leaves) == k or not queue:
            break
        node = queue.popleft()
        if len(node.rows) < 2 or node.depth >= tree_depth(k):
            leaves.append(node)
            continue
        points = search.public[node.rows]
        ball = find_supercluster(points, k, step_factor=step_factor)
        if not usable_radius(ball.radius, points):
            leaves.append(node)
            continue
        inner, outer = search.split_ball(
            node,
            origin=ball.center,
            projection=None,
            center=np.zeros(points.shape[1]),
            radius=ball.radius,
            depth=node.depth,
        )
        if len(outer.rows):
            queue.append(outer)
        inner = Node(id=inner.id, rows=inner.rows, depth=inner.depth, radius=ball.radius)
        cut = partition(search, inner, center=ball.center, radius=ball.radius, least_radius=least_radius)
        if cut is None:
            leaves.append(inner)
        else:
            queue.extend(cut)
    return search.finish([*leaves, *left_over(queue, k - len(leaves))])


def easy_search(search: Search) -> Clustering:
    """Algorithm 9: directions and balls from public rows alone; no private access."""
    k = search.n_components
    queue, leaves = deque([search.root()]), list[Node]()
    for _ in range(2 * k - 1):
        if len(leaves) == k or not queue:
            break
        node = queue.popleft()
        points = search.public[node.rows]
        ball = None
        if len(node.rows) >= 2:
            center, projection = public_directions(points, k)
            # Four times the diameter in the paper; twice the largest distance from the mean is an upper bound of it.
            ball = first_terrific(
                (points - center) @ projection.T,
                min_count=search.least_public,
                radius_max=8.0 * widest(points),
                radius_min=None,
            )
        if ball is None:
            leaves.append(node)
        else:
            queue.extend(_split(search, node, center, projection, ball, None))
    return search.finish([*leaves, *left_over(queue, k - len(leaves))])
