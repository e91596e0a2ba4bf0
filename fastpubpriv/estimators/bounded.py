"""What means, covariances and mixtures can be where the caller says what the columns can hold: post-processing."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.estimators.columns.learn import warn_if_bounds_are_wrong
from fastpubpriv.results.base import frozen
from fastpubpriv.results.estimates import GaussianResult
from fastpubpriv.results.mixture import MixtureResult

# No deviation is made smaller than this part of the distance between the bounds; the factor only keeps it from being zero.
LEAST_WIDTH, LEAST_FACTOR = 1e-3, 1e-100
# Words that promise nothing less than an ordinary result: only they give way to "clipped".
ORDINARY = ("ok", "diagonal", "mean", "public", "shifted", "rescaled")

Box = tuple[FloatArray, FloatArray]


def checked_bounds(
    name: str, bounds: Any, public: FloatArray | None, dim: int, columns: tuple[str, ...] | None
) -> Box | None:
    """The argument `bounds` of the function `name`; warns its caller where public rows contradict it."""
    box = validation.column_bounds(bounds, dim, endless=True)
    if public is not None:
        warn_if_bounds_are_wrong(name, public, box, columns)
    return box


def narrowed(covariances: FloatArray, means: FloatArray, box: Box) -> FloatArray:
    """Covariances (k, dim, dim) with no column wider than its mean, of (k, dim), and the bounds allow.

    A variable between l and h with mean m has a variance of at most (m - l) (h - m): columns beyond that are scaled down, which
    keeps correlations.
    """
    low, high = box
    spreads = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        most = np.maximum((means - low) * (high - means), (LEAST_WIDTH * (high - low)) ** 2)
        most = np.where(np.isfinite(high - low), most, np.inf)
        shrink = np.clip(np.nan_to_num(np.sqrt(most) / spreads, nan=1.0), LEAST_FACTOR, 1.0)
    return covariances * shrink[:, :, None] * shrink[:, None, :]


@dataclass(frozen=True, slots=True, eq=False)
class Within:
    """Means (k, dim) and covariances (k, dim, dim) within bounds, and which of the means lay a deviation or more outside."""

    means: FloatArray
    covariances: FloatArray
    outside: BoolArray
    box: Box

    def status(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """The words about them, "clipped" where a mean lay outside and nothing worse is known."""
        return tuple(
            "clipped" if out and word in ORDINARY else word
            for out, word in zip(self.outside.tolist(), words, strict=True)
        )

    @property
    def told(self) -> list[list[float | None]]:
        """The bounds for a record: None where an end bounds nothing."""
        return [[each if math.isfinite(each) else None for each in end.tolist()] for end in self.box]


def within(means: FloatArray, covariances: FloatArray, box: Box, *, known_covariance: bool = False) -> Within:
    """Means moved into the bounds, and covariances narrowed to them, unless they are known."""
    inside = np.clip(means, *box)
    spreads = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    outside: BoolArray = np.any(np.abs(means - inside) > spreads, axis=1)
    return Within(inside, covariances if known_covariance else narrowed(covariances, inside, box), outside, box)


def bounded_gaussian(result: GaussianResult, box: Box | None) -> GaussianResult:
    """The Gaussian within bounds; it says "clipped" if its mean lay more than one deviation outside."""
    if box is None:
        return result
    found = within(result.mean[None], result.covariance[None], box)
    (status,) = found.status((result.status,))
    return replace(
        result,
        mean=frozen(found.means[0]),
        covariance=frozen(found.covariances[0]),
        status=status,
        diagnostics={**result.diagnostics, "bounds": found.told, "outside_bounds": bool(found.outside[0])},
    )


def bounded(result: MixtureResult, box: Box | None, *, known_covariance: bool = False) -> MixtureResult:
    """The mixture with its means inside the bounds, (dim,) each, and no component wider than its mean and the bounds allow.

    A component whose mean lay more than one of its deviations outside says "clipped".
    """
    if box is None:
        return result
    found = within(result.means, result.covariances, box, known_covariance=known_covariance)
    return replace(
        result,
        means=frozen(found.means),
        covariances=frozen(found.covariances),
        status=found.status(result.status),
        diagnostics={**result.diagnostics, "bounds": found.told, "outside_bounds": found.outside.tolist()},
    )
