"""Reasons of a regression: which one is the first that released and public numbers show, of all coefficients or of one.

All functions are of numbers and return conditions; none reads a row. The order of `Concerns` is that of `Reason`: what makes an
estimate meaningless comes before what widens its interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy import special

from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.regression import regression_tuning as tuning
from fastpubpriv.results.reasons import PartReasons, Reason, first_of


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Concerns:
    """Whether each reason holds, (q,) or of all numbers, in the order in which they are considered."""

    unresolved: Any = False
    collinear: Any = False
    one_class: Any = False
    separated: Any = False
    exact_fit: Any = False
    few_public_rows: Any = False
    fallback: Any = False
    shifted: Any = False
    few_rows: Any = False
    heavy_tail: Any = False

    def first(self, size: int) -> PartReasons:
        """Return the first reason that holds for each of `size` numbers, if any."""
        named = [(getattr(self, each.name), Reason[each.name.upper()]) for each in fields(self)]
        return first_of(named, size)


def is_too_few(m: int, dim: int, *, classes: bool) -> bool:
    """Whether m public rows are too few for `dim` coefficients to show the scale of residuals."""
    return m < (tuning.FEW_OF_CLASSES if classes else tuning.FEW) * dim


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NullSpace:
    """Directions in which public terms do not vary, k of them; an orthonormal basis each of terms and of coordinates."""

    terms: FloatArray  # (p, k), in units of the terms' standard deviations
    rows: FloatArray  # (D, k)

    @classmethod
    def of(cls, centered: FloatArray, sums: FloatArray, to_terms: FloatArray) -> NullSpace:
        """Return it for centered terms (m, p) with constant `sums` (k, p), which are of the levels of a column and no direction.

        `to_terms` (p, D) maps coordinates to the terms.
        """
        std = np.sqrt(np.mean(centered**2, axis=0))
        std = np.where(std > 0.0, std, 1.0)
        standard = centered / std
        values, vectors = np.linalg.eigh(standard.T @ standard / len(centered))
        null = vectors[:, values < tuning.FLAT]
        if len(sums):
            basis = np.linalg.qr((sums * std).T)[0]
            null = null - basis @ (basis.T @ null)
        left, sizes, _ = np.linalg.svd(null, full_matrices=False)
        null = left[:, sizes > 0.5]  # sizes are 1, or 0 for a sum
        return cls(terms=null, rows=to_terms.T @ (null / std[:, None]))

    def loads(self, curvature: FloatArray | None = None, least: float = 0.0) -> BoolArray:
        """Whether terms (p,) take part in directions in which the curvature (D, D) of private rows is below `least` too."""
        null = self.terms
        if not null.shape[1]:
            return np.zeros(len(null), dtype=bool)
        if curvature is not None:
            basis, triangle = np.linalg.qr(self.rows)
            values, along = np.linalg.eigh(basis.T @ curvature @ basis)
            unseen = along[:, values < least]
            # combinations of the null directions whose rows lie along these
            null = np.linalg.qr(null @ np.linalg.solve(triangle, unseen))[0]
        return np.asarray(np.sqrt(np.sum(null**2, axis=1)) > tuning.LOADING)


def is_one_class(score: float, noise: float, expected: FloatArray, dispersion: float) -> bool:
    """Whether private labels are of one class, up to fewer rows than are seen; `score` is their mean score of the intercept.

    `expected` (m,) are the scores of public rows if they had that class. The difference of the means is the share of the other
    class, and is compared with its noise; also with the sampling error of the public mean if the model's own errors of private
    rows are far smaller than it predicts.
    """
    apart = abs(score - float(expected.mean()))
    sampling = float(expected.std()) / math.sqrt(len(expected))
    reach = 3.0 * noise
    return apart < reach or (dispersion < tuning.SEPARATED and apart < reach + 3.0 * sampling)


def is_separated(trace: float, noise: float, dispersion: float) -> bool:
    """Whether columns tell classes apart: by the trace of the curvature and its noise, or by errors.

    The dispersion is the mean squared residual over its prediction p (1 - p). A logistic model on the way to infinite coefficients
    is right about every row: of predictors that are even about zero, 2 (log 2 - 1/2) = .39 of it remains, at any size.
    """
    return trace < 3.0 * noise or dispersion < tuning.SEPARATED


def is_exact_fit(residual: float, rounding: float) -> bool:
    """Whether labels follow from the columns: residuals, in units of the labels' deviation, are those of rounding or none."""
    # Twice, as the shells of a count of norms are that wide.
    return residual < max(tuning.EXACT, 2.0 * rounding)


def is_hidden(unseen: int, dim: int, predicted: float, better: float) -> bool:
    """Whether many directions are unseen and matter: `predicted` error is no small part of the `better` one of other fits."""
    return unseen > tuning.MUCH * dim and predicted > tuning.MUCH * better


def is_drift(disagreement: float, rank: int, freedom: int) -> bool:
    """Whether a squared distance of public and private coefficients, over its expectation, is significant by an F test.

    It has `rank` coordinates, and the public curvature `freedom` degrees of freedom.
    """
    by_chance = float(special.fdtri(rank, max(freedom, 1), 1.0 - tuning.BY_CHANCE))
    return disagreement > max(tuning.MOST_DRIFT, by_chance)


def is_narrower(private: FloatArray, public: FloatArray, noise: FloatArray) -> BoolArray:
    """Whether columns vary far less in private rows: by variances (p,), and the noise of the private ones.

    Public rows of a population vary three times as much as it in no draw that is worth a thought; the converse is usual for tails.
    """
    bound = public / tuning.NARROWER**2
    told_apart = tuning.SIGNIFICANT * noise < public / tuning.NARROWER - bound
    return np.asarray(told_apart & (private < bound))
