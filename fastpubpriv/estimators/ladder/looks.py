"""Cheap private counts before any sum: the scale of columns that show none in public, and that of the rows as a whole."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.estimators.ladder.norms import CountShares, Norms, scale_edges
from fastpubpriv.estimators.ladder.public_base import PublicBase
from fastpubpriv.estimators.ladder.shifts import off_scale, stretch_of
from fastpubpriv.mechanisms.sums import AffineMap, ShellCounts
from fastpubpriv.session import Run


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """The base after the counts, the norms of the rows in its coordinates (None without a count), and how it was stretched.

    `refuted`: the stretch is more than chance explains. `middle_sq` is the released median of the squared norms.
    """

    base: PublicBase
    norms: Norms | None = None
    stretch: float = 1.0
    refuted: bool = False
    middle_sq: float | None = None


def count_norms(run: Run, affine: AffineMap, edges: FloatArray, share: Fraction, *, name: str) -> Norms:
    """Release how many rows have their norm between the edges, for this share of the allowance."""
    found = run.release(ShellCounts(affine=affine, edges=edges), name=name, cost=run.account.allowance * share)
    return Norms(edges, found.value, found.noise_std, run.rows.n, run.account.pure)


def look(run: Run, base: PublicBase, counts: CountShares) -> Look:
    """Make the counts that are worth their share."""
    if counts.column:
        base = with_column_scales(run, base, counts.column)
    if not counts.first:
        return Look(base)
    edges = scale_edges(math.sqrt(base.strength.radius_sq(0.5)))
    norms = count_norms(run, base.affine, edges, counts.first, name="norms of rows")
    middle_sq = norms.quantile_sq(0.5)
    stretch = stretch_of(middle_sq, base.strength)
    if stretch == 1.0:
        return Look(base, norms, middle_sq=middle_sq)
    assert middle_sq is not None
    refuted = off_scale(stretch, base.strength)
    shrunk = replace(norms, edges=norms.edges / stretch)
    return Look(base.stretched(stretch), shrunk, stretch, refuted, middle_sq / stretch**2)


def with_column_scales(run: Run, base: PublicBase, share: Fraction) -> PublicBase:
    """The base with a scale from a private count for each column whose public values are all equal, where rows stand out."""
    factors = np.ones(run.rows.dim)
    left = []
    for column in base.fallback:
        borrowed = math.sqrt(float(np.sum(np.square(base.root[column]))))
        unit = np.zeros((1, run.rows.dim))
        unit[0, column] = 1.0 / borrowed
        affine = AffineMap(dim=run.rows.dim, center=base.center, matrix=unit)
        norms = count_norms(run, affine, scale_edges(1.0), share, name=f"scale of column {column}")
        found = replace(norms, many=False).mean_square
        if found is None:
            left.append(column)
        else:
            factors[column] = math.sqrt(found)
    return replace(base.scaled(factors), borrowed=tuple(left))
