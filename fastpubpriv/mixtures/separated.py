"""Mixtures of separated Gaussians from many private rows and a handful of public ones (paper A, Algorithms 3 to 10)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv import validation
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.estimators import run as running
from fastpubpriv.estimators.radii import Mode, failure_probability
from fastpubpriv.estimators.run import Run
from fastpubpriv.mixtures import practical, theory
from fastpubpriv.mixtures.balls import refuse_too_much
from fastpubpriv.mixtures.result import MixtureResult
from fastpubpriv.mixtures.search import Clustering, Search
from fastpubpriv.privacy import Budget, Ledger, PureDP, gaussian_count_grid, gaussian_gram_grid

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

CLUSTERINGS = ("auto", "tree", "one_shot", "public_pca")
# Share of the budget for finding the components, where that asks private rows; the rest is for their Gaussians and weights.
CLUSTERING_SHARE = Fraction(3, 10)
# Fewer public rows than this for each component are too few for a tree: balls of two rows say little about gaps.
TREE_ROWS = 10
MOST_COMPONENTS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The public description of a mixture problem."""

    dim: int
    n_pub: int
    n_components: int
    min_weight: float
    mode: Mode
    failure_prob: float


def choose_clustering(clustering: str, shape: Shape, *, pure: bool) -> str:
    """The search to run, by public shapes alone (and pure budgets, which can pay for none that asks private rows)."""
    if clustering != "auto":
        return clustering
    if pure or shape.n_components == 1:
        return "public_pca"
    if shape.mode == "theory":
        # Public rows linear in the dimension: m = d log(k / beta) / w_min.
        tail = max(1.0, math.log(shape.n_components / shape.failure_prob))
        return "public_pca" if shape.n_pub >= shape.dim * tail / shape.min_weight else "tree"
    if shape.n_pub >= shape.dim / shape.min_weight:
        return "public_pca"
    return "one_shot" if shape.n_pub < TREE_ROWS * shape.n_components else "tree"


def tree_depth(method: str, shape: Shape) -> int:
    """Most nodes on a path that ask private queries; 0 where none does."""
    if method == "public_pca" or shape.n_components == 1:
        return 0
    if method == "one_shot":
        return 1
    return (theory if shape.mode == "theory" else practical).tree_depth(shape.n_components)


def clustering_draws(method: str, shape: Shape) -> int:
    """Upper bound on the noise draws of a search."""
    if tree_depth(method, shape) == 0:
        return 0
    nodes = 1 if method == "one_shot" else 2 * shape.n_components - 1
    return nodes * (shape.dim**2 + practical.MOST_CELLS)


def check_grids(allowance: Fraction, depth: int, method: str, dim: int, n: int) -> None:
    """Raise before the debit if a node's share is too small for an integer grid."""
    share = allowance / depth
    directions = practical_share(method)
    gaussian_gram_grid(share * directions, dim, n)
    if directions < 1:
        gaussian_count_grid(share * (1 - directions), practical.MOST_CELLS, n)


def practical_share(method: str) -> Fraction:
    """Share of a node's budget that its directions take."""
    from fastpubpriv.mixtures.search import DIRECTIONS_SHARE

    return Fraction(1) if method == "one_shot" else DIRECTIONS_SHARE


def find_components(run: Run, public: FloatArray, shape: Shape, method: str, cost: Fraction) -> Clustering:
    """Search for the components; `cost` is what the private queries of the search may cost in all."""
    search = Search(run, public, shape.n_components, shape.min_weight)
    depth = tree_depth(method, shape)
    if depth:
        search.scope = run.account.tree(cost, depth)
    if shape.n_components == 1:
        return search.finish([search.root()])
    if shape.mode == "theory":
        return theory.hard_search(search) if method == "tree" else theory.easy_search(search)
    searches = {"tree": practical.tree_search, "one_shot": practical.one_shot, "public_pca": practical.public_pca}
    return searches[method](search)


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
