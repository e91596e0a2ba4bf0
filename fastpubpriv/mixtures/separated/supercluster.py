"""Superclustering of public rows (paper A, Algorithm 3): a ball whose surface passes between components."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.kernels import geometry
from fastpubpriv.mixtures.separated.balls import Ball, distances, refuse_too_much
from fastpubpriv.parameters import shared_docs
from fastpubpriv.sources import public_rows

# The proof's constant: that many times the largest distance from a row to its nearest neighbour is one step of the radius.
STEP_FACTOR = 16.0


def find_supercluster(points: FloatArray, n_components: int, *, step_factor: float = STEP_FACTOR) -> Ball:
    """Algorithm 3 on rows (m, dim), m at least 2, that have been checked."""
    index, nearest_sq = geometry.most_isolated(points)
    step = step_factor * math.sqrt(nearest_sq)
    if not step > 0.0:
        return Ball(center=points[index], radius=0.0, index=index)
    away = np.sort(distances(points, points[index]))

    def within(steps: int) -> int:
        return int(np.searchsorted(away, steps * step, side="right"))

    # The radius is a whole number of steps. `pure`: the shell that was stepped over last held no row.
    radius, pure = 1, False
    for _ in range(n_components):
        if within(radius + 1) > within(radius):
            pure = within(radius + 2) == within(radius + 1)
            radius += 2
        elif pure:
            break
        elif within(radius + 2) == within(radius):
            radius += 1
            break
        else:
            radius += 3
    return Ball(center=points[index], radius=radius * step, index=index)


@shared_docs
def supercluster(x_pub: Any, *, n_components: int, step_factor: float = STEP_FACTOR) -> Ball:
    """Find a ball around the most isolated public row that cuts no component.

    Parameters
    ----------
    {x_pub}
        At least two.
    n_components : int
        Number of components; the radius is at most 3 n_components + 1 steps.
    step_factor : float > 0
        A step is this many times the largest distance from a public row to its nearest neighbour. The proof needs 16; 2
        does in practice.

    Returns
    -------
    Ball
        Around the row that is farthest from its nearest neighbour (the first of several). Radius 0 if every row has an
        equal among the others.

    Raises
    ------
    InputError
        Public rows or arguments out of range, or so many rows that pairwise distances are out of reach.

    Privacy
    -------
    Reads public data only.

    Notes
    -----
    Paper A, Algorithm 3. Departs from it: the number of rounds and the order of arguments, which the text gives in
    several ways, follow the proof; ties go to the lowest index.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> rows = np.vstack([rng.normal(size=(30, 2)), rng.normal(size=(30, 2)) + 1e4])
    >>> int(supercluster(rows, n_components=2).contains(rows).sum())
    30
    """
    points = public_rows(x_pub, min_rows=2)
    count = validation.integer("n_components", n_components, minimum=1)
    factor = validation.positive("step_factor", step_factor)
    refuse_too_much(points)
    return find_supercluster(points, count, step_factor=factor)
