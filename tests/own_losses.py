"""Custom losses: two that treat each row independently, and some whose value for a row depends on the other rows."""

import math

import numba
import numpy as np

from fastpubpriv.training import Loss


class Absolute:
    """Absolute error, which is not differentiable at zero."""

    def value(self, weights, x, y):
        return np.abs(x @ weights - y)

    def gradient(self, weights, x, y):
        return np.sign(x @ weights - y)[:, None] * x


class Squared:
    """Squared error, by per-example gradients."""

    def value(self, weights, x, y):
        return 0.5 * (np.sum(x * weights, axis=1) - y) ** 2

    def gradient(self, weights, x, y):
        return (np.sum(x * weights, axis=1) - y)[:, None] * x


class OwnLoss:
    """Values and gradients that depend on the number of rows."""

    def value(self, weights, x, y):
        return np.abs(x @ weights - y) / len(x)

    def gradient(self, weights, x, y):
        return (np.sign(x @ weights - y)[:, None] + 0.5) * x / len(x)


def own_gradient(weights, x, y):
    """Gradient in loops, which compile faster than array products."""
    found = np.empty_like(x)
    for i in range(len(x)):
        prediction = 0.0
        for j in range(len(weights)):
            prediction += x[i, j] * weights[j]
        for j in range(len(weights)):
            found[i, j] = (np.sign(prediction - y[i]) + 0.5) * x[i, j] / len(x)
    return found


class CompiledLoss(OwnLoss):
    """A custom loss that its user compiles, for a million rows."""

    gradient = staticmethod(numba.njit(own_gradient))


def own_residual(prediction, label):
    return 0.9 if label > prediction else -0.1


def own_residuals(scores, labels):
    return np.where(labels > scores, 0.9, -0.1) / len(scores)


def own_values(scores, labels):
    """Values for several models at one row, or for rows at one model."""
    return np.abs(labels - scores) * np.exp(-np.abs(labels).max())


def own_scores(scores, label, found):
    """Faulty: adds to its output instead of writing it, and omits the last entry."""
    for k in range(len(found) - 1):
        found[k] += math.tanh(label - scores[k])


def own_score_residuals(scores, labels):
    return np.tanh(labels[:, None] - scores)


ROWS = OwnLoss()
COMPILED = CompiledLoss()
OWN = Loss(name="quantile", residual=own_residual, residuals=own_residuals, values=own_values)
OWN_SCORES = Loss(name="scores", residual=own_scores, residuals=own_score_residuals, scores=True)
