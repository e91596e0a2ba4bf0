"""Losses of a prediction and a label, by their residuals: minus the derivative in the prediction.

A row's gradient is -residual times the row, so the residual is all that a pass needs. Each is a plain function of two numbers; the
kernel compiles it together with its loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


def squared_residual(prediction: float, label: float) -> float:
    """Of (label - prediction)^2 / 2."""
    return label - prediction


def logistic_residual(prediction: float, label: float) -> float:
    """Of the log-loss of a label 0 or 1 at the log-odds `prediction`; NaN for another label."""
    if label != 0.0 and label != 1.0:
        return math.nan
    if prediction >= 0.0:
        chance = 1.0 / (1.0 + math.exp(-prediction))
    else:
        grown = math.exp(prediction)
        chance = grown / (1.0 + grown)
    return label - chance


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A loss that `train` knows.

    Attributes
    ----------
    name : str
        The value of `loss=`.
    residual : callable
        residual(prediction, label) -> float.
    classes : bool
        Whether labels are two classes, coded 0 and 1.
    """

    name: str
    residual: Callable[[float, float], float]
    classes: bool = False


LOSSES = {
    loss.name: loss
    for loss in (
        Loss(name="squared", residual=squared_residual),
        Loss(name="logistic", residual=logistic_residual, classes=True),
    )
}
