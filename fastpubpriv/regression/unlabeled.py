"""Public rows without labels: they show units, whitened coordinates and far rows, and no coefficients.

Without labels the coefficients of whitened rows are N(0, v / D) each, and the intercept N(0, v), with v the mean square of labels
about their center: stated, or released as one count of |label - center|. Log-odds have v = 2.5^2 (Gelman et al. 2008).

Where labels are too few for a fit of their own, all rows have made-up ones, the prediction plus a normal quantile, for norms of
scores and the choice of clips: they are drawn about each prediction anew, so that they say nothing about coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import special

from fastpubpriv._types import FloatArray
from fastpubpriv.distributions.norms import NormCount
from fastpubpriv.errors import InputError
from fastpubpriv.mechanisms.sums import AffineMap
from fastpubpriv.privacy.spending import Spending
from fastpubpriv.regression import regression_tuning as tuning
from fastpubpriv.regression.inputs import LARGEST_COEFFICIENT
from fastpubpriv.regression.public_fits import (
    FixedClip,
    LogisticPosterior,
    Posterior,
    candidate_clips,
    golden_shares,
    mean_curvature,
)
from fastpubpriv.session import Session
from fastpubpriv.sources.views import ChosenColumns, each_row

LABEL_NORMS = "norms of labels"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelScale:
    """The released scale of labels about their center."""

    scale: float
    has_far_labels: bool  # whether few labels far out make most of their mean square


def _prior_variance(dim: int, label_variance: float) -> FloatArray:
    """Variances (dim,) of the intercept and of slopes that together explain the labels."""
    variance = np.full(dim, label_variance / dim)
    variance[0] = label_variance
    return variance


def _without_rows(dim: int, label_variance: float) -> dict[str, Any]:
    """The common fields of a posterior without public rows, whose labels have this variance."""
    none = np.zeros(0)
    rows = np.zeros((0, dim))
    variance = _prior_variance(dim, label_variance)
    law = {"turn": np.eye(dim), "mean": np.zeros(dim), "variance": variance}
    return law | {"rows": rows, "weights": none, "labels": none}


def prior(dim: int, threshold: float | None) -> Posterior:
    """The law of `dim` coefficients without labels, whose unit is their root mean square; `threshold` of the Huber loss."""
    common = _without_rows(dim, 1.0)
    none = common["labels"]
    return Posterior(
        **common,
        residuals=none,
        leverage=none,
        scale=1.0,
        floor=tuning.UNEXPLAINED,
        clips=(),
        curvature_error=0.0,
        threshold=threshold,
    )


def prior_of_classes(dim: int, class_weights: FloatArray) -> LogisticPosterior:
    """The same for log-odds, with the weights (2,) of the classes."""
    common = _without_rows(dim, tuning.ODDS_SQ)
    none = common["labels"]
    counted = common["rows"], none, none
    ridge = np.diag(1.0 / common["variance"])
    # of residuals of one half in each class
    mean_energy = float(np.sum(class_weights**2) / np.sum(class_weights))
    energy = np.full(dim, mean_energy)
    return LogisticPosterior(
        **common, ridge=ridge, curvature=none, counted=counted, factors=none, energy=energy
    )


def on_all_rows(
    known: Posterior, rows: FloatArray, weights: FloatArray, confirmed: float
) -> Posterior:
    """Return the posterior for public rows (M, D) with weights (M,) and made-up labels; `confirmed` as in `Whitener`."""
    m = len(rows)
    drawn = known.scale * special.ndtri(golden_shares(m))
    fitted = rows @ known.mean
    root = np.sqrt(weights)
    usual = drawn * root / known.scale
    clips = candidate_clips(usual, fitted * root, known.scale)
    if known.threshold is not None:
        counts = np.ones(m)
        clips = (FixedClip(threshold=known.threshold, residuals=usual, counts=counts),)
    made = replace(known, rows=rows, weights=weights, clips=clips, blank=True, drawn=drawn)
    labels = fitted + drawn
    error = tuning.CURVATURE * confirmed / m
    leverage = np.zeros(m)
    return replace(made, labels=labels, residuals=drawn, leverage=leverage, curvature_error=error)


def on_all_rows_of_classes(
    known: LogisticPosterior, rows: FloatArray, weights: FloatArray, class_weights: FloatArray
) -> LogisticPosterior:
    """The same for log-odds, with the weights (2,) of the classes."""
    drawn = golden_shares(len(rows))
    made = replace(known, rows=rows, weights=weights, drawn=drawn)
    labels = made.labels_at(rows @ known.mean)
    factors = np.where(labels == 1.0, class_weights[1], class_weights[0])
    curvature = mean_curvature(rows, known.mean, factors, len(rows))
    return replace(made, labels=labels, factors=factors, curvature=curvature)


def plan_label_count(spending: Spending, n: int) -> NormCount:
    """Return the plan of the count of n distances of labels from their center. Raise InputError if noise would hide them."""
    cost = spending.allowance
    count = NormCount.costing(cost, cost, n, 1, spending=spending)
    noise = count.shares.count_std
    if noise > tuning.HIDDEN_LABELS * n:
        raise InputError(
            "no label is public: pass y_scale=, the size of labels that you know, or y_bounds=, since the noise of a private "
            f"count of them would be {noise:.3g} of {n} rows"
        )
    count.check_grid()
    return count


def release_label_scale(
    run: Session, place: int, center: float, share: Fraction, smallest: float
) -> LabelScale:
    """Release the scale of labels, column `place` of the rows; `smallest` is that of the units of the features."""
    rows = each_row(run.rows, ChosenColumns((place,)), 1)
    count = plan_label_count(run.account.spending.part(share), rows.n)
    affine = AffineMap(dim=1, center=np.array([center]))
    norms = count.count_norms(run.on(rows), affine, np.zeros(0), LABEL_NORMS)
    inner = None if norms.shells is None else norms.shells.quantile(tuning.LABEL_QUANTILE)
    # A far label does not enlarge a quantile; of labels that are mostly at their center there is none.
    scale = norms.rms if inner is None else inner / special.ndtri((1 + tuning.LABEL_QUANTILE) / 2)
    has_far_labels = norms.rms > tuning.FAR_LABELS * scale
    largest = LARGEST_COEFFICIENT * smallest
    return LabelScale(scale=float(min(scale, largest)), has_far_labels=has_far_labels)
