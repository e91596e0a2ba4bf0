"""Balls that public rows single out: the public query of paper A's Algorithms 5 and 8, and the widest gap around a row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.estimators.radii import size
from fastpubpriv.kernels import geometry
from fastpubpriv.parameters import shared_docs
from fastpubpriv.reading import Form
from fastpubpriv.results.base import MOST_IN_REPR, Value
from fastpubpriv.results.words import Table, bracketed, explain
from fastpubpriv.sources import public_rows

# Without a least radius the search goes down to this share of the largest: 41 radii, and one more costs next to nothing.
LEAST_SHARE = 1e-12
# Squared distances take rows^2 * columns steps where nothing can be pruned: about an hour.
MOST_WORK = 2.0**45
# Of more public rows than this for each piece, every so-many-th looks for a gap: thousands of rows leave none empty, however few
# lie in it, and the private histogram decides anyway.
GAP_ROWS = 50


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Ball(Value):
    """A closed ball around a public row.

    Attributes
    ----------
    center : (dim,) float64
        The public row, in the coordinates that were searched.
    radius : float
        In the same unit.
    index : int
        Position of the row.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import Ball
    >>> Ball(center=np.zeros(2), radius=1.0, index=0).contains([[0.5, 0.5], [2.0, 0.0]]).tolist()
    [True, False]
    """

    center: FloatArray
    radius: float
    index: int

    _forms: ClassVar[Mapping[str, Form]] = {"center": ("dim",)}

    def __repr__(self) -> str:
        center = bracketed(self.center) if len(self.center) <= MOST_IN_REPR else f"{len(self.center)} columns"
        return f"Ball(center={center}, radius={self.radius:.6g}, index={self.index})"

    def _table(self) -> Table:
        return Table("column", [f"x{j}" for j in range(len(self.center))], [("center", self.center)])

    def _facts(self) -> list[tuple[str, str]]:
        return [("Radius", f"{self.radius:.6g} around public row {self.index}"), ("Spent", explain(None))]

    def contains(self, rows: Any) -> BoolArray:
        """Which rows (n, dim) lie within the radius, (n,); a row with a non-finite entry does not."""
        points = np.atleast_2d(np.asarray(rows, dtype=np.float64))
        if points.ndim != 2 or points.shape[1] != len(self.center):
            raise InputError(f"rows must have shape (n, {len(self.center)}), got {points.shape}")
        with np.errstate(all="ignore"):
            inside: BoolArray = distances(points, self.center) <= self.radius
        return inside


@dataclass(frozen=True, slots=True)
class Gap:
    """The widest relative gap in the distances from one row: `rank` rows within `inner`, itself counted, the next at `outer`."""

    index: int
    rank: int
    inner: float
    outer: float

    @property
    def ratio(self) -> float:
        """Distance beyond the gap over the distance before it; infinite when the inner rows coincide."""
        return self.outer / self.inner if self.inner > 0.0 else math.inf


def distances(points: FloatArray, center: FloatArray) -> FloatArray:
    """Distances of rows (m, dim) from a centre, (m,)."""
    offsets = points - center
    away: FloatArray = np.sqrt(np.einsum("ij,ij->i", offsets, offsets))
    return away


def refuse_too_much(points: FloatArray) -> None:
    """Public rows whose pairwise distances nobody wants to wait for; everything in the message is public."""
    if float(points.shape[0]) ** 2 * points.shape[1] > MOST_WORK:
        raise InputError(
            f"{points.shape[0]} public rows of {points.shape[1]} columns are too many for pairwise distances; "
            "pass fewer public rows (a random part of them will do)"
        )


def radii_down_to(radius_max: float, radius_min: float) -> int:
    """How many radii radius_max / 2^i the search visits: i from 0 to ceil(log2(radius_max / radius_min))."""
    return max(0, math.ceil(math.log2(radius_max / radius_min))) + 1


def first_terrific(points: FloatArray, *, min_count: int, radius_max: float, radius_min: float | None) -> Ball | None:
    """The search on rows that have been checked; `radius_min` None is the rule that misses nothing."""
    if len(points) < 2 * min_count or not radius_max > 0.0:
        return None
    least = LEAST_SHARE * radius_max if radius_min is None else max(radius_min, LEAST_SHARE * radius_max)
    found = geometry.first_terrific(points, radius_max, radii_down_to(radius_max, least), min_count)
    if found is None:
        return None
    step, index = found
    return Ball(center=points[index], radius=2.0 * radius_max / 2.0**step, index=index)


def rows_for_gaps(points: FloatArray, pieces: int) -> FloatArray:
    """The public rows (m, dim) among which a gap between so many pieces is looked for."""
    return points[:: -(-len(points) // (GAP_ROWS * pieces))]


def widest_gap(points: FloatArray, *, min_count: int) -> Gap | None:
    """The widest gap with at least `min_count` rows on either side, or None where there is none."""
    if len(points) < 2 * min_count:
        return None
    found = geometry.widest_gap(points, min_count)
    if found is None:
        return None
    index, rank, inner_sq, outer_sq = found
    gap = Gap(index, rank, math.sqrt(inner_sq), math.sqrt(outer_sq))
    return gap if gap.outer > gap.inner else None


@shared_docs
def terrific_ball(x_pub: Any, *, min_count: int, radius_max: float, radius_min: float | None = None) -> Ball | None:
    """Find a ball of many public rows with a wide empty shell around it and many public rows beyond.

    Radii r = radius_max / 2^i are tried from the largest, and for each of them every public row as centre, in order. The
    first (r, centre) wins for which at least `min_count` rows lie within r, none between r and 11 r, and at least
    `min_count` beyond 11 r.

    Parameters
    ----------
    {x_pub}
    min_count : int of at least 1
        Rows that must lie within r, and again beyond 11 r.
    radius_max : float > 0
        First radius, in data units.
    radius_min : float, optional
        Last radius is the first one at or below it. By default every radius down to 1e-12 of the largest is tried: below
        the smallest distance from a row to its `min_count`-th nearest no ball qualifies, so nothing is missed.

    Returns
    -------
    Ball or None
        Centre, and radius 2 r: half of an empty shell away from everything on either side. None if no ball qualifies.

    Raises
    ------
    InputError
        Public rows or arguments out of range, or so many rows that pairwise distances are out of reach.

    Privacy
    -------
    Reads public data only.

    Notes
    -----
    Paper A, Algorithms 5 and 8 (public query). Departs from it: Algorithm 6 calls the search with a least radius of
    R / sqrt(dim), at which it stops too early (separations below several hundred standard deviations are missed); here the
    search goes on while a ball can qualify. Distances within rounding of a radius may fall on either side.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> rows = np.vstack([rng.normal(size=(30, 2)), rng.normal(size=(30, 2)) + 100.0])
    >>> ball = terrific_ball(rows, min_count=10, radius_max=500.0)
    >>> int(ball.contains(rows).sum())
    30
    """
    points = public_rows(x_pub, min_rows=1)
    count = validation.integer("min_count", min_count, minimum=1)
    largest = size("radius_max", radius_max)
    least = None if radius_min is None else size("radius_min", radius_min)
    if least is not None and least > largest:
        raise InputError(f"radius_min must be at most radius_max = {largest:g}, got {least:g}")
    refuse_too_much(points)
    return first_terrific(points, min_count=count, radius_max=largest, radius_min=least)
