"""The searches of practice: a multi-scale tree, one cut into nearest centres, and public directions alone.

Same primitives as paper A's Algorithms 6 and 9, tuned: nobody is dropped, and a released histogram finds the valley to cut along.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.mixtures.separated.balls import Gap, rows_for_gaps, widest_gap
from fastpubpriv.mixtures.separated.kmeans import kmeans
from fastpubpriv.mixtures.separated.search import HISTOGRAM_SHARE, Clustering, Node, Search, usable_radius, widest

# Rows are clipped this much beyond the farthest public row of their node.
CLIP_MARGIN = 1.15
# A gap between distances narrower than this is no reason to ask about private rows.
LEAST_GAP = 1.3
# Gaps that a node may ask about, each with its part of the histogram's share.
ATTEMPTS = 2
# The histogram reaches this far beyond the public gap on either side, in logarithms of the radius; width of a bin.
OVERHANG, BIN_WIDTH, LEAST_BINS = 0.25, 0.1, 3
# Radii further apart than this are one gap of that width: the histogram stays small however exact the copies.
WIDEST_GAP = 1e3
# Most cells of a radial histogram: the bins, what lies within them and what lies beyond.
MOST_CELLS = round((math.log(WIDEST_GAP) + 2.0 * OVERHANG) / BIN_WIDTH) + 2
# A valley holds fewer rows than this share of the smaller side, and two standard deviations of noise.
VALLEY_SHARE, VALLEY_NOISE = 0.03, 2.0


def tree_depth(n_components: int) -> int:
    """Most nodes on a path of `tree_search` that ask private queries: each but the last was cut, and the last cut asks no more."""
    return max(1, n_components - 1)


def histogram_edges(gap: Gap) -> FloatArray:
    """Radii at which private rows are counted: the public gap and a little more, in even steps of the logarithm."""
    inner = math.log(max(gap.inner, gap.outer / WIDEST_GAP)) - OVERHANG
    outer = math.log(gap.outer) + OVERHANG
    bins = max(LEAST_BINS, round((outer - inner) / BIN_WIDTH))
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
    if not shell[best] < VALLEY_SHARE * smaller + VALLEY_NOISE * noise_std:
        return None
    return {
        "radius": math.sqrt(float(edges[best]) * float(edges[best + 1])),
        "inside": float(inside[best]),
        "shell": float(shell[best]),
        "outside": float(outside[best]),
    }


def gaps(search: Search, seen: FloatArray, wanted: int) -> Iterator[tuple[Gap, FloatArray]]:
    """The widest gap among the projected public rows of a node and its centre; then the widest around twice as many rows.

    Repeated values, such as one route of an airline, make gaps around a few rows that say nothing about components.
    """
    looked = rows_for_gaps(seen, wanted)
    # The same share of the rows that are looked at must lie on either side.
    least = max(2, math.ceil(search.least_public * len(looked) / len(seen)))
    for _ in range(ATTEMPTS):
        gap = widest_gap(looked, min_count=least)
        if gap is None or gap.ratio < LEAST_GAP or not usable_radius(gap.outer, seen):
            return
        yield gap, looked[gap.index]
        least = max(2 * least, gap.rank + 1)


def try_cut(search: Search, node: Node, wanted: int) -> tuple[Node, Node] | None:
    """Ask about one node; returns its children, or None when it stays whole."""
    points = search.public[node.rows]
    center = points.mean(axis=0)
    scaled = search.scaling.offsets(points - center)
    radius = CLIP_MARGIN * widest(scaled)
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
            share=HISTOGRAM_SHARE / ATTEMPTS,
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
    """Cut node after node, those with the most public rows first, until there are as many leaves as components.

    Every decision is a function of public rows and released values.
    """
    k = search.n_components
    queue, leaves = [search.root()], list[Node]()
    while queue:
        node = max(queue, key=lambda one: (len(one.rows), -one.id))
        queue.remove(node)
        wanted = k - len(leaves) - len(queue)
        cut = None
        if wanted >= 2 and node.depth < tree_depth(k) and len(node.rows) >= 2 * max(2, search.least_public):
            cut = try_cut(search, node, wanted)
        if cut is None:
            leaves.append(node)
        else:
            queue += cut
    return search.finish(leaves)


def nearest_split(search: Search, projection: FloatArray, origin: FloatArray, *, depth: int) -> Clustering:
    """Cut everything at once: rows go to the nearest of the centres that k-means finds among the projected public rows."""
    seen = (search.public - origin) @ projection.T
    centers = kmeans(seen, search.n_components)
    root = search.root()
    before, nodes = search.tree, [root]
    while len(centers) > 1:
        search.tree = before.split_nearest(root.id, origin=origin, projection=projection, centers=centers)
        members = [np.flatnonzero(search.tree.members(search.public, child)) for child in search.tree.children(root.id)]
        if all(len(rows) for rows in members):
            nodes = [
                Node(id=child, rows=rows, depth=depth, radius=search.scale_of(rows, root))
                for child, rows in zip(search.tree.children(root.id), members, strict=True)
            ]
            break
        # A centre that rounding left without a public row; no Gaussian could be learnt there.
        centers = centers[[len(rows) > 0 for rows in members]]
        search.tree = before
    return search.finish(nodes)


def one_shot(search: Search) -> Clustering:
    """Principal directions of all private rows, once; then nearest centres. For components of comparable scale."""
    points = search.public
    center = points.mean(axis=0)
    scaled = search.scaling.offsets(points - center)
    radius = CLIP_MARGIN * widest(scaled)
    root = search.root()
    if not usable_radius(radius, scaled):
        return search.finish([root])
    payer = search.payer(root)
    count = min(search.n_components, points.shape[1])
    projection = search.directions(root, payer, center=center, radius=radius, count=count, share=Fraction(1))
    return nearest_split(search, projection, center, depth=1)


def public_pca(search: Search) -> Clustering:
    """Nearest centres along the principal directions of the public rows: no private access, for many public rows."""
    center, projection = search.scaling.directions(search.public, search.n_components)
    return nearest_split(search, projection, center, depth=0)
