"""What public rows by themselves say about a mixture: no private row, no budget."""

from __future__ import annotations

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.mixtures.separated.kmeans import kmeans
from fastpubpriv.mixtures.separated.scaling import column_scaling
from fastpubpriv.mixtures.separated.tree import ClusterTree

ALL_EQUAL = "all public rows are equal, so they say nothing about scale; pass distinct public rows"
# Variances below this share of a column's own are rounding.
CONSTANT = 64.0 * float(np.finfo(np.float64).eps)


def cluster_public(points: FloatArray, n_components: int) -> tuple[ClusterTree, IntArray]:
    """Cut the space by k-means along the principal directions of scaled public rows; the tree and the leaf of each row."""
    center, projection = column_scaling(points, n_components).directions(points, n_components)
    tree = ClusterTree.root(points.shape[1])
    centers = kmeans((points - center) @ projection.T, n_components)
    if len(centers) > 1:
        tree = tree.split_nearest(0, origin=center, projection=projection, centers=centers)
    return tree, tree.assign(points)


def shrunken(points: FloatArray, overall: FloatArray) -> FloatArray:
    """Covariance of a few rows (m, dim), pulled towards its diagonal as far as m leaves it open: whatever the units of the columns.

    `overall` (dim,) are the variances of the columns that stand in where the rows of a group coincide; a column that is constant
    everywhere has the typical one of the others.
    """
    m, dim = points.shape
    offsets = points - points.mean(axis=0)
    sample = offsets.T @ offsets / max(m - 1, 1)
    own = np.diag(sample)
    weight = dim / (dim + m)
    covariance: FloatArray = (1.0 - weight) * sample
    np.fill_diagonal(covariance, np.where(own > CONSTANT * overall, own, overall))
    return covariance


def column_variances(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Variances (dim,) of the columns of public rows, and which of them are the typical one because their values are all equal."""
    scale = np.max(np.abs(points), axis=0)
    found = np.square(points - points.mean(axis=0)).mean(axis=0)
    equal = found <= np.square(CONSTANT * np.where(scale > 0.0, scale, 1.0))
    if equal.all():
        raise InputError(ALL_EQUAL)
    typical = float(np.exp(np.mean(np.log(found[~equal]))))
    return np.where(equal, typical, found), equal


def overall_variance(points: FloatArray) -> float:
    """Mean variance of a column of public rows; refuses rows that are all equal."""
    spread = float(np.square(points - points.mean(axis=0)).mean())
    if not spread > 0.0:
        raise InputError(ALL_EQUAL)
    return spread
