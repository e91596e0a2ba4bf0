"""Clips of residuals for fewer public rows than coordinates, where noise decides: by a normal law in place of the residuals.

Residuals of so few rows are mostly errors of their own fit, each a sum of many, and too few to read a small share from. 400
columns, 60 public rows: a share of .07 to .3 was seen for .20 inside a bound of .25, and where it was .07, steps nearly three times
too long ran away. With 5,940 private rows and epsilon 4, 128 steps ended at losses of 1.28 to 13.9 in five draws, by this law at
1.24 to 1.43.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.special import ndtr

from fastpubpriv.training.public_linear import Bound, Clip, Posterior, energy_of

_DOUBT = 2.0  # residuals may be so many times as small as they are taken to be


def normal_clips(posterior: Posterior) -> list[tuple[Bound, Bound]]:
    """The clips to choose from, each with the one that it is judged by.

    The size of residuals at the last steps is a guess, and a clip is judged as if they were half as large: small bounds hardly
    depend on it. 2,000 columns, 300 public rows, 29,700 private ones, epsilon 4, 64 steps: losses of 1.24, 1.25 and 1.37 at bounds
    of .25, .5 and 1, of which the second is predicted to be the best if the size is as guessed.
    """
    return [
        (_normal(posterior, each, 1.0), _normal(posterior, each, _DOUBT)) if isinstance(each, Clip) else (each, each)
        for each in posterior.clips
    ]


def _normal(posterior: Posterior, clip: Clip, times: float) -> Clip:
    """The clip of residuals with a normal law, in the unit that they are taken to have and `times` smaller than it.

    Longer tails count as far as they are seen.
    """
    far = times * clip.bound
    inside = 2.0 * float(ndtr(far)) - 1.0
    density = math.exp(-0.5 * far**2) / math.sqrt(2.0 * math.pi)
    usual = posterior.residuals * np.sqrt(posterior.weights) / posterior.scale
    energy = max(inside - 2.0 * far * density + far**2 * (1.0 - inside), float(np.mean(np.clip(usual, -far, far) ** 2)))
    weight = clip.energy / energy_of(np.clip(usual, -clip.bound, clip.bound), clip.inside)  # of rows of unequal weight
    return replace(clip, inside=inside / times, energy=weight * energy / times**2)
