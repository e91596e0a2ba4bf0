"""The ways to find the components of a separated mixture, and which of them suits public shapes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from fastpubpriv._types import FloatArray
from fastpubpriv.estimators.radii import Mode
from fastpubpriv.methods import Method, Registry
from fastpubpriv.mixtures.separated import practical, theory
from fastpubpriv.mixtures.separated.scaling import DATA_UNITS, Scaling, column_scaling
from fastpubpriv.mixtures.separated.search import DIRECTIONS_SHARE, Clustering, Search
from fastpubpriv.privacy import gaussian_count_grid, gaussian_gram_grid

# Fewer public rows than this for each component are too few for a tree: balls of two rows say little about gaps.
TREE_ROWS = 10


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
class SearchMethod(Method):
    """A search: `learn(search)` for mode "practical", `theory(search)` for mode "theory" where there is one; `draws(shape)`.

    `depth(shape)` is the most nodes on a path that ask private queries, 0 for a search among public rows. Principal directions get
    `directions_share` of what a node may cost, histograms along them the rest. `cuts_at_gaps`: by balls around which no public row
    lies.
    """

    depth: Callable[[Shape], int]
    theory: Callable[[Search], Clustering] | None = None
    directions_share: Fraction = Fraction(1)
    cuts_at_gaps: bool = False


def node_draws(shape: Shape) -> int:
    """Upper bound on the noise draws of a node."""
    return shape.dim**2 + practical.ATTEMPTS * practical.MOST_CELLS


TREE = SearchMethod(
    name="tree",
    learn=practical.tree_search,
    theory=theory.hard_search,
    depth=lambda shape: (theory if shape.mode == "theory" else practical).tree_depth(shape.n_components),
    draws=lambda shape: (2 * shape.n_components - 1) * node_draws(shape),
    directions_share=DIRECTIONS_SHARE,
    cuts_at_gaps=True,
    needs_public=True,
)
ONE_SHOT = SearchMethod(
    name="one_shot", learn=practical.one_shot, depth=lambda shape: 1, draws=node_draws, needs_public=True
)
PUBLIC_PCA = SearchMethod(
    name="public_pca",
    learn=practical.public_pca,
    theory=theory.easy_search,
    depth=lambda shape: 0,
    draws=lambda shape: 0,
    needs_public=True,
)
METHODS: Registry[SearchMethod] = Registry(TREE, ONE_SHOT, PUBLIC_PCA, auto=True)


def choose_method(method: str, shape: Shape, *, pure: bool) -> SearchMethod:
    """The search to run, by public shapes alone (and pure budgets, which can pay for none that asks private rows)."""
    if method != "auto":
        return METHODS[method]
    if pure or shape.n_components == 1:
        return PUBLIC_PCA
    if shape.mode == "theory":
        # Public rows linear in the dimension: m = d log(k / beta) / w_min.
        tail = max(1.0, math.log(shape.n_components / shape.failure_prob))
        return PUBLIC_PCA if shape.n_pub >= shape.dim * tail / shape.min_weight else TREE
    if shape.n_pub >= shape.dim / shape.min_weight:
        return PUBLIC_PCA
    return ONE_SHOT if shape.n_pub < TREE_ROWS * shape.n_components else TREE


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
        gaussian_count_grid(share * (1 - directions) / practical.ATTEMPTS, practical.MOST_CELLS, n)


def search_scaling(method: SearchMethod, shape: Shape, public: FloatArray) -> Scaling:
    """The coordinates of a search, by public rows; mode "theory" is the paper's, in data units."""
    if shape.mode == "theory":
        return DATA_UNITS
    return column_scaling(public, shape.n_components, gap_share=shape.min_weight / 2.0 if method.cuts_at_gaps else None)
