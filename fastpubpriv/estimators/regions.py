"""Where rows are clipped for an average of private and public rows: a ball, or what the columns can hold."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastpubpriv import session as running
from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import AccuracyWarning, InputError
from fastpubpriv.estimators.radii import LARGEST_SIZE, size

# ---- Means and deviations of the columns of public rows --------------------------------------------------------------
# The bits are NumPy's. Its wrappers take longer than its sums where rows are few, and a small call asks for several
# of them.


def column_means(rows: FloatArray) -> FloatArray:
    """`np.mean(rows, axis=0)`, (dim,)."""
    means: FloatArray = np.add.reduce(rows, axis=0) / len(rows)
    return means


def column_stds(rows: FloatArray, means: FloatArray | None = None) -> FloatArray:
    """`np.std(rows, axis=0, ddof=1)` of at least two rows, (dim,); `means` are those of the columns, if they are known."""
    offsets = rows - (column_means(rows) if means is None else means)
    stds: FloatArray = np.sqrt(np.add.reduce(offsets * offsets, axis=0) / (len(rows) - 1))
    return stds


def row_lengths(rows: FloatArray) -> FloatArray:
    """`np.linalg.norm(rows, axis=1)`, (n,)."""
    lengths: FloatArray = np.sqrt(np.add.reduce(rows * rows, axis=1))
    return lengths


# Share of the public rows beyond a bound from which on the bound is called into question.
MOST_BEYOND = 0.1


def clip_center(center: Any, public: FloatArray | None, dim: int) -> tuple[FloatArray, str]:
    """Centre of the clipping ball and where it came from."""
    if isinstance(center, str):
        if center != "public" or public is None:
            raise InputError("center must be None, a number, a vector, or 'public' together with x_pub")
        return column_means(public), "public rows"
    return running.vector_or_number("center", 0.0 if center is None else center, dim), "argument"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Region:
    """Where rows are clipped: a ball of `radius` about `center`, in units of each column; and the box that the answer lies in.

    `counted`: the radius is still to come, from a count of norms.
    """

    center: FloatArray
    unit: FloatArray
    radius: float
    box: tuple[FloatArray, FloatArray] | None
    provenance: dict[str, str]
    counted: bool = False
    plain: bool = False  # all units are known to be one: nothing need be divided by them

    @property
    def matrix(self) -> FloatArray | None:
        """The diagonal of the map to these units, None where they are those of the data."""
        if self.plain or (self.box is None and (self.unit == 1.0).all()):
            return None
        return 1.0 / self.unit

    def to_units(self, offsets: FloatArray) -> FloatArray:
        """Offsets in data units, (dim,) or (n, dim), in these units."""
        return offsets if self.plain else offsets / self.unit

    def to_data(self, offsets: FloatArray) -> FloatArray:
        """Offsets in these units, (dim,), in data units."""
        return offsets if self.plain else self.unit * offsets

    def warn_if_contradicted(self, public: FloatArray) -> None:
        """Warn where more public rows than a few would be clipped."""
        beyond = int(np.count_nonzero(row_lengths(self.to_units(public - self.center)) > self.radius * (1 + 1e-12)))
        if beyond > MOST_BEYOND * len(public):
            name = "norm_bound" if self.box is None else "bounds"
            warnings.warn(
                f"weighted_mean: {beyond} of {len(public)} public rows are beyond {name}, and private rows like them would be "
                "clipped; pass larger ones, another center, or norm_bound='auto'",
                AccuracyWarning,
                stacklevel=3,
            )

    def within(self, mean: FloatArray) -> FloatArray:
        """The answer, moved into the box if there is one."""
        return mean if self.box is None else np.clip(mean, *self.box)


def units_of(public: FloatArray) -> FloatArray:
    """Standard deviations of the public columns (m, dim), the least of them for a constant one.

    Ones where a column is alone in its ball, or where nothing can be told.
    """
    stds = column_stds(public) if len(public) >= 2 and public.shape[1] > 1 else np.zeros(public.shape[1])
    told = np.isfinite(stds) & (stds > 1.0 / LARGEST_SIZE) & (stds < LARGEST_SIZE)
    return np.where(told, stds, stds[told].min()) if told.any() else np.ones(len(stds))


def clip_region(
    norm_bound: Any, bounds: Any, center: Any, variance: Any, public: FloatArray | None, dim: int
) -> Region:
    """The region from a radius and a centre, or from what the columns can hold."""
    if (norm_bound is None) == (bounds is None):
        raise InputError("pass either norm_bound=, the distance to which rows are clipped, or bounds=(lowest, highest)")
    box = validation.column_bounds(bounds, dim)
    if box is None:
        auto = isinstance(norm_bound, str) and validation.choice("norm_bound", norm_bound, ("auto",)) == "auto"
        if auto and public is None:
            raise InputError("norm_bound='auto' needs public rows: pass x_pub=, or a number")
        middle, center_from = clip_center("public" if auto and center is None else center, public, dim)
        spread_by = public if auto and variance is None else None
        return Region(
            center=middle,
            unit=np.ones(dim) if spread_by is None else units_of(spread_by),
            plain=spread_by is None,
            radius=LARGEST_SIZE if auto else size("norm_bound", norm_bound),
            box=None,
            provenance={"center": center_from, "norm_bound": "released" if auto else "argument"},
            counted=auto,
        )
    if center is not None or variance is not None:
        raise InputError("bounds= replaces center= and variance=: leave them out")
    half = box[1] / 2.0 - box[0] / 2.0
    for value in half:
        size("half of the range of bounds", value)
    return Region(
        center=box[0] + half,
        unit=half,
        radius=math.sqrt(dim),
        box=box,
        provenance={"center": "argument", "bounds": "argument"},
    )
