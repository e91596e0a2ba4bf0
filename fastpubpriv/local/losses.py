"""Losses of local training: the value and the gradient of each row, which depend on that row and the weights alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fastpubpriv._types import FloatArray


class RowLoss(Protocol):
    """What `train` needs of a loss: gradients row by row. A row whose gradient is not finite counts as one without a gradient."""

    def value(self, weights: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
        """Loss of each row, (k,), for weights (dim,), rows (k, dim) and labels (k,)."""

    def gradient(self, weights: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
        """Gradient in the weights of each row, (k, dim)."""


def predictions(weights: FloatArray, x: FloatArray) -> FloatArray:
    """<x, weights> for each row: sums along a row, not a matrix product, whose order may depend on the number of rows."""
    found: FloatArray = np.sum(np.ascontiguousarray(x) * weights, axis=1)
    return found


@dataclass(frozen=True, slots=True)
class SquaredLoss:
    """(label - prediction)^2 / 2."""

    def value(self, weights: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
        """Loss of each row."""
        found: FloatArray = 0.5 * (predictions(weights, x) - y) ** 2
        return found

    def gradient(self, weights: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
        """(prediction - label) x."""
        found: FloatArray = (predictions(weights, x) - y)[:, None] * x
        return found


@dataclass(frozen=True, slots=True)
class LogisticLoss:
    """Log-loss of a label 0 or 1 at the log-odds <x, weights>; a row with another label has no gradient."""

    def value(self, weights: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
        """Loss of each row."""
        odds = predictions(weights, x)
        found: FloatArray = np.logaddexp(0.0, odds) - y * odds
        return found

    def gradient(self, weights: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
        """(chance - label) x."""
        chance = 0.5 * (1.0 + np.tanh(0.5 * predictions(weights, x)))
        known = np.where((y == 0.0) | (y == 1.0), y, np.nan)
        found: FloatArray = (chance - known)[:, None] * x
        return found


LOSSES: dict[str, RowLoss] = {"squared": SquaredLoss(), "logistic": LogisticLoss()}
