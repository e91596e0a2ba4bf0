"""Grids for releases over disjoint clusters of rows: one integer vector for all clusters, priced by case.

`cost` is what the worse case may cost, a rho or (`pure`) an epsilon. On a grid with largest integer norm Q, or S steps for a
counted row, and D columns:

=================  ===================  ===================  =======================  =========================
one vector of      squared l2, stay     squared l2, move     l1, stay                 l1, move
=================  ===================  ===================  =======================  =========================
Gram matrices      2 Q^4                2 Q^4                isqrt(D (D + 3)/2 Q^4)   2 floor((D + 1) Q^2/2)
sums               4 Q^2                2 Q^2                isqrt(4 D Q^2)           2 isqrt(D Q^2)
counts             0                    2 S^2                0                        2 S
cells in a cluster 2 S^2                2 S^2                2 S                      2 S
=================  ===================  ===================  =======================  =========================

A move is charged as one cluster left and one entered. For the cells inside a single cluster nothing else can be entered; there the
double charge is what `TreeScope` checks against: entering or leaving costs at most half of a replacement.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from fastpubpriv.privacy.calibration import (
    _LAPLACE_CUT,
    _MAX_GRAM_ROW,
    _MAX_ROW_SQ,
    _MAX_TOTAL,
    Grid,
    _finest,
    _sizes,
    gaussian_count_grid,
    gaussian_gram_grid,
    gaussian_sum_grid,
    laplace_count_grid,
    laplace_sum_grid,
)
from fastpubpriv.privacy.clusters import Clusters
from fastpubpriv.privacy.events import GaussianEvent, LaplaceEvent
from fastpubpriv.privacy.exact import Number

Lineage = tuple[str, ...]


def _priced(grid: Grid, stay: int, move: int, draws: int, lineage: Lineage) -> Grid:
    """The grid with an event for `draws` integers over clusters."""
    cases = Clusters(stay, move, lineage)
    if isinstance(grid.event, GaussianEvent):
        return replace(grid, event=GaussianEvent(cases.worst, grid.log2_scale, draws, clusters=cases))
    return replace(grid, event=LaplaceEvent(cases.worst, grid.log2_scale, draws, clusters=cases))


@lru_cache(maxsize=256)
def cluster_sum_grid(
    cost: Number, dim: int, n: int, *, pure: bool, clusters: int, lineage: Lineage, draws: int | None = None
) -> Grid:
    """The finest grid for sums of rows of `dim` columns, one for each of `clusters` clusters.

    `draws` counts the integers where some clusters have fewer columns, or take no part.

    Examples
    --------
    >>> grid = cluster_sum_grid(0.5, 4, 1000, pure=False, clusters=3, lineage=("leaves",))
    >>> grid.event.draws, grid.event.rho, grid.event.clusters.move * 2 == grid.event.clusters.stay
    (12, Fraction(1, 2), True)
    """
    grid = (laplace_sum_grid if pure else gaussian_sum_grid)(cost, dim, n)
    q = grid.quant_bound
    stay, move = (math.isqrt(4 * dim * q * q), 2 * math.isqrt(dim * q * q)) if pure else (4 * q * q, 2 * q * q)
    return _priced(grid, stay, move, clusters * dim if draws is None else draws, lineage)


@lru_cache(maxsize=256)
def cluster_gram_grid(cost: Number, dim: int, n: int, *, pure: bool, clusters: int, lineage: Lineage) -> Grid:
    """The finest grid for Gram matrices of rows of `dim` columns; upper triangles if `pure`.

    Examples
    --------
    >>> cluster_gram_grid(1, 4, 1000, pure=True, clusters=3, lineage=("leaves",)).event.draws
    30
    """
    if not pure:
        grid = gaussian_gram_grid(cost, dim, n)
        stay = 2 * grid.quant_bound**4
        return _priced(grid, stay, stay, clusters * dim * dim, lineage)
    amount, dim, n, least, problem = _sizes(cost, "epsilon", dim, n)

    def fits(m: int, q: int) -> bool:
        return q <= _MAX_GRAM_ROW and dim * q * q <= _MAX_ROW_SQ and n * q * q + _LAPLACE_CUT * 2**m < _MAX_TOTAL

    # 2 floor((dim + 1) Q^2 / 2) <= B  <=>  (dim + 1) Q^2 <= 2 floor(B / 2) + 1; staying costs less for every dim.
    m, q = _finest(lambda m: math.isqrt((math.floor(amount * 2**m) // 2 * 2 + 1) // (dim + 1)), fits, least, problem)
    stay, move = math.isqrt(dim * (dim + 3) // 2 * q**4), 2 * ((dim + 1) * q * q // 2)
    grid = Grid(m, q, dim, LaplaceEvent(max(stay, move), m, 1))
    return _priced(grid, stay, move, clusters * (dim * (dim + 1) // 2), lineage)


@lru_cache(maxsize=256)
def cluster_count_grid(cost: Number, n: int, *, pure: bool, clusters: int, lineage: Lineage) -> Grid:
    """Grid steps for a counted row: how many rows each cluster has.

    Examples
    --------
    >>> cluster_count_grid(0.5, 1000, pure=True, clusters=3, lineage=("leaves",)).event.clusters.stay
    0
    """
    grid = (laplace_count_grid if pure else gaussian_count_grid)(cost, clusters, n)
    return _priced(grid, 0, grid.event.worst, clusters, lineage)


@lru_cache(maxsize=256)
def cluster_shell_grid(cost: Number, cells: int, n: int, *, pure: bool, lineage: Lineage) -> Grid:
    """Grid steps for a counted row: how many rows of one cluster each of `cells` cells has.

    Examples
    --------
    >>> cluster_shell_grid(0.5, 4, 1000, pure=False, lineage=("root", "child")).event.draws
    4
    """
    grid = (laplace_count_grid if pure else gaussian_count_grid)(cost, cells, n)
    return _priced(grid, grid.event.worst, grid.event.worst, cells, lineage)
