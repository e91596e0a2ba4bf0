"""Bounds of the caller on the columns, applied to estimated means, covariances and mixtures as post-processing."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.estimators.column_means import warn_if_bounds_are_wrong
from fastpubpriv.results.base import frozen
from fastpubpriv.results.estimates import GaussianResult
from fastpubpriv.results.mixture import MixtureResult
from fastpubpriv.results.reasons import Reason, Reasons, ordered

# Smallest standard deviation after narrowing, over the distance between the bounds, and the smallest factor, which must not be 0.
LEAST_WIDTH = 1e-3
LEAST_FACTOR = 1e-100

Box = tuple[FloatArray, FloatArray]


def checked_bounds(
    name: str, bounds: Any, public: FloatArray | None, dim: int, columns: tuple[str, ...] | None
) -> Box | None:
    """Return the argument `bounds` of the function `name` as a box; warn if public rows contradict it."""
    box = validation.column_bounds(bounds, dim, endless=True)
    if public is not None:
        warn_if_bounds_are_wrong(name, public, box, columns)
    return box


def narrowed(covariances: FloatArray, means: FloatArray, box: Box) -> FloatArray:
    """Return covariances (k, dim, dim) with columns scaled down to a variance of at most (mean - low) (high - mean)."""
    low, high = box
    spreads = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    with np.errstate(all="ignore"):
        most = np.maximum((means - low) * (high - means), (LEAST_WIDTH * (high - low)) ** 2)
        most = np.where(np.isfinite(high - low), most, np.inf)
        shrink = np.clip(np.nan_to_num(np.sqrt(most) / spreads, nan=1.0), LEAST_FACTOR, 1.0)
        return covariances * shrink[:, :, None] * shrink[:, None, :]


def inside(
    means: FloatArray, covariances: FloatArray, box: Box | None
) -> tuple[FloatArray, FloatArray]:
    """Return means (k, dim) clipped to the box, if there is one, and covariances (k, dim, dim) narrowed to it."""
    if box is None:
        return means, covariances
    clipped = np.clip(means, *box)
    return clipped, narrowed(covariances, clipped, box)


def _within(
    means: FloatArray, covariances: FloatArray, box: Box, *, known_covariance: bool = False
) -> tuple[FloatArray, FloatArray, list[Reasons], dict[str, Any]]:
    """Return means (k, dim) clipped to the bounds, covariances narrowed unless known, reasons of those outside, and diagnostics."""
    clipped, shrunken = inside(means, covariances, box)
    spreads = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    outside = np.any(np.abs(means - clipped) > spreads, axis=1).tolist()
    reasons: list[Reasons] = [(Reason.CLIPPED,) if out else () for out in outside]
    # None stands for an infinite end.
    ends = [[each if math.isfinite(each) else None for each in end.tolist()] for end in box]
    narrow = covariances if known_covariance else shrunken
    return frozen(clipped), frozen(narrow), reasons, {"bounds": ends, "outside_bounds": outside}


def bounded_gaussian(result: GaussianResult, box: Box | None) -> GaussianResult:
    """Return the Gaussian within bounds, with the reason CLIPPED if its mean was more than one standard deviation outside."""
    if box is None:
        return result
    (mean,), (covariance,), (reasons,), details = _within(
        result.mean[None], result.covariance[None], box
    )
    diagnostics = {**result.diagnostics, **details, "outside_bounds": details["outside_bounds"][0]}
    reasons += result.reasons
    return replace(
        result, mean=mean, covariance=covariance, reasons=reasons, diagnostics=diagnostics
    )


def bounded(
    result: MixtureResult, box: Box | None, *, known_covariance: bool = False
) -> MixtureResult:
    """Return the mixture within bounds, (dim,) each, with the reason CLIPPED for components more than one deviation outside."""
    if box is None:
        return result
    means, covariances, more, details = _within(
        result.means, result.covariances, box, known_covariance=known_covariance
    )
    diagnostics = {**result.diagnostics, **details}
    reasons = tuple(ordered(chain(*pair)) for pair in zip(result.part_reasons, more, strict=True))
    return replace(
        result, means=means, covariances=covariances, part_reasons=reasons, diagnostics=diagnostics
    )
