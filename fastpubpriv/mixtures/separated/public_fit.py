"""What public rows by themselves say about a mixture: no private row, no budget."""

from __future__ import annotations

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.mixtures.separated.kmeans import kmeans
from fastpubpriv.mixtures.separated.practical import public_directions
from fastpubpriv.mixtures.separated.tree import ClusterTree


def cluster_public(points: FloatArray, n_components: int) -> tuple[ClusterTree, IntArray]:
    """Cut the space by k-means along the principal directions of public rows; the tree and the leaf of each row."""
    center, projection = public_directions(points, n_components)
    tree = ClusterTree.root(points.shape[1])
    centers = kmeans((points - center) @ projection.T, n_components)
    if len(centers) > 1:
        tree = tree.split_nearest(0, origin=center, projection=projection, centers=centers)
    return tree, tree.assign(points)


def shrunken(points: FloatArray, overall: float) -> FloatArray:
    """Covariance of a few rows (m, dim), pulled towards a multiple of the identity as far as m leaves it open.

    `overall` is the variance of a column that stands in where all rows coincide.
    """
    m, dim = points.shape
    offsets = points - points.mean(axis=0)
    sample = offsets.T @ offsets / max(m - 1, 1)
    level = float(np.trace(sample)) / dim or overall
    weight = dim / (dim + m)
    covariance: FloatArray = (1.0 - weight) * sample + weight * level * np.eye(dim)
    return covariance


def overall_variance(points: FloatArray) -> float:
    """Mean variance of a column of public rows; refuses rows that are all equal."""
    spread = float(np.square(points - points.mean(axis=0)).mean())
    if not spread > 0.0:
        raise InputError("all public rows are equal, so they say nothing about scale; pass distinct public rows")
    return spread
