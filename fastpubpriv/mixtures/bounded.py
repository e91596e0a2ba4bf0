"""What a mixture can be where the caller says what the columns can hold: post-processing of a released mixture."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.estimators.columns.learn import warn_if_bounds_are_wrong
from fastpubpriv.results.base import frozen
from fastpubpriv.results.mixture import MixtureResult

# A component is never made narrower than this part of the distance between the bounds, nor than that part of what it was.
LEAST_WIDTH, LEAST_FACTOR = 1e-3, 1e-6
# Words that promise an ordinary component: only they give way to "clipped".
ORDINARY = ("ok", "diagonal", "mean", "public", "shifted")


def checked_bounds(
    name: str, bounds: Any, public: FloatArray | None, dim: int, columns: tuple[str, ...] | None
) -> tuple[FloatArray, FloatArray] | None:
    """The argument `bounds` of the learner `name`; warns its caller where public rows contradict it."""
    box = validation.column_bounds(bounds, dim, endless=True)
    if public is not None:
        warn_if_bounds_are_wrong(name, public, box, columns, stacklevel=4)
    return box


def bounded(
    result: MixtureResult, bounds: tuple[FloatArray, FloatArray] | None, *, known_covariance: bool = False
) -> MixtureResult:
    """The mixture with its means inside the bounds, (dim,) each, and no component wider than its mean and the bounds allow.

    A variable between l and h with mean m has a variance of at most (m - l) (h - m): columns beyond that are scaled down, which
    keeps correlations. A component whose mean lay more than one of its deviations outside says "clipped".
    """
    if bounds is None:
        return result
    low, high = bounds
    means = np.clip(result.means, low, high)
    spreads = np.sqrt(result.variances)
    outside: BoolArray = np.any(np.abs(result.means - means) > spreads, axis=1)
    covariances = result.covariances
    if not known_covariance:
        with np.errstate(over="ignore", invalid="ignore"):
            most = np.maximum((means - low) * (high - means), (LEAST_WIDTH * (high - low)) ** 2)
            most = np.where(np.isfinite(high - low), most, np.inf)
            shrink = np.clip(np.sqrt(most) / spreads, LEAST_FACTOR, 1.0)
        covariances = covariances * shrink[:, :, None] * shrink[:, None, :]
    status = tuple(
        "clipped" if out and word in ORDINARY else word
        for out, word in zip(outside.tolist(), result.status, strict=True)
    )
    told = [[each if math.isfinite(each) else None for each in end.tolist()] for end in (low, high)]
    return replace(
        result,
        means=frozen(means),
        covariances=frozen(covariances),
        status=status,
        diagnostics={**result.diagnostics, "bounds": told, "outside_bounds": outside.tolist()},
    )
