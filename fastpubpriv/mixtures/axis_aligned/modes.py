"""What is found about one column: a mixture on the line, and cuts in the valleys between its modes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from fastpubpriv._types import FloatArray
from fastpubpriv.mixtures.axis_aligned.binned_em import Mixtures

_CONFUSED = 0.1  # of the lighter side may be on the wrong side of a cut


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """What was found about a column: a mixture on the line, cuts in valleys between its modes, share of ties, step of values."""

    fit: Mixtures
    cuts: FloatArray
    confused: float
    seen: bool = True  # whether its rows showed places
    tied: float = 0.0
    step: float = math.inf

    def modes(self, label: int | None, least: float) -> FloatArray:
        """Weights, means and standard deviations (modes, 3) of the fit's components between two cuts, light ones left out."""
        weights, means, stds = (part[0] for part in (self.fit.weights, self.fit.means, self.fit.stds))
        mine = weights > 0.0
        if label is not None:
            mine = mine & (np.searchsorted(self.cuts, means, side="right") == label)
        mine = mine & (weights >= min(least, float(weights[mine].max(initial=0.0))))
        found: FloatArray = np.column_stack([weights, means, stds])[mine]
        return np.asarray(found[np.argsort(found[:, 1])])

    def moments(self, label: int | None, least: float) -> tuple[float, float]:
        """Mean and standard deviation of those components together."""
        return moments_of(self.modes(label, least)) if self.fit.size else (0.0, 1.0)


def moments_of(modes: FloatArray) -> tuple[float, float]:
    """Mean and standard deviation of a mixture (modes, 3) on the line."""
    if not len(modes):
        return 0.0, 1.0
    share = modes[:, 0] / modes[:, 0].sum()
    mean = float(share @ modes[:, 1])
    return mean, math.sqrt(float(share @ (modes[:, 2] ** 2 + (modes[:, 1] - mean) ** 2)))


def valleys(fit: Mixtures, least_weight: float) -> tuple[FloatArray, float]:
    """Cuts between neighbouring modes that leave few rows on the wrong side, and the worst confused share."""
    weights, means, stds = fit.weights[0], fit.means[0], fit.stds[0]
    order = np.argsort(means)
    weights, means, stds = weights[order], means[order], stds[order]
    cuts: list[float] = []
    worst = 0.0
    for left in range(len(means) - 1):
        if weights[left] <= 0.0 or weights[left + 1] <= 0.0 or not means[left] < means[left + 1]:
            continue
        points = np.linspace(means[left], means[left + 1], 129)[1:-1]
        below = ndtr((points[:, None] - means) / stds) * weights
        wrong = (below[:, left + 1 :]).sum(axis=1) + (weights[: left + 1] - below[:, : left + 1]).sum(axis=1)
        best = int(np.argmin(wrong))
        lighter = min(float(weights[: left + 1].sum()), float(weights[left + 1 :].sum()))
        if lighter >= least_weight and wrong[best] < _CONFUSED * lighter:
            cuts.append(float(points[best]))
            worst = max(worst, float(wrong[best]) / lighter)
    return np.array(cuts), worst
