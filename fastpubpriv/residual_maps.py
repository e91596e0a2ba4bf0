"""Maps of a labelled row to what it adds to a gradient: frozen values that `kernels` and `reference` read."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.maps import _EXACT, _copied, _public, _Value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResidualMap(_Value):
    """What a labelled row (z, label) adds to a gradient: factor(row) (spread z), rounded to a grid and checked.

    factor = min(1, radius / |spread z|) clip(residual(<slope, z>, label) / scale) / clip / step, 0 where that is not finite.

    With `weighted`, a row is (z, label, weight), and its factor is multiplied by the weight, at most 1; 0 unless that is above 0.

    `residual` (prediction, label) -> float is minus the derivative of a loss in the prediction <slope, z>; Numba can compile it.
    `clip` bounds residuals in units of `scale`, `radius` bounds |spread z|, `quant_bound` is Q with dim Q^2 <= 2^53.

    Guarantees
    ----------
    Every integer row q satisfies sum q**2 <= quant_bound**2, whatever `residual` returns: a new row moves a sum by at most 2 Q.
    """

    slope: FloatArray
    spread: FloatArray
    residual: Callable[[float, float], float]
    scale: float
    clip: float
    radius: float
    inv_step: float
    quant_bound: int
    weighted: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "slope", _copied("slope", self.slope, 1))
        object.__setattr__(self, "spread", _public("spread", self.spread, self.slope.shape, required=True))
        for name in ("scale", "clip", "radius", "inv_step"):
            if not 0.0 < getattr(self, name) < math.inf:
                raise InputError(f"{name} must be positive and finite, got {getattr(self, name)}")
        if not 1 <= self.quant_bound <= math.isqrt(_EXACT // self.dim):
            raise InputError(f"dim * quant_bound**2 must be at most 2**53, got dim={self.dim}, Q={self.quant_bound}")

    @property
    def dim(self) -> int:
        """Coordinates of z."""
        return len(self.slope)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GradientMap(_Value):
    """What a labelled row (z, label) adds to a gradient that is clipped as a whole: c z, rounded to a grid and checked.

    `weights` (dim,): c = s min(1, clip_norm / (|s| |z|)), s = residual(<weights, z>, label). `weights` (outputs, dim): s has one
    entry for each output, residual(scores, label, s) fills it in, and c z is a matrix (outputs, dim). A row whose s or label
    is not finite adds nothing.

    `residual` is minus the derivative of a loss in its predictions; Numba can compile it. `quant_bound` is Q, outputs dim Q^2 <=
    2^53.

    Guarantees
    ----------
    Every integer row q satisfies sum q**2 <= quant_bound**2, whatever `residual` returns: a new row moves a sum by at most 2 Q.
    """

    weights: FloatArray
    residual: Callable[..., Any]
    clip_norm: float
    inv_step: float
    quant_bound: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", _copied("weights", self.weights, max(1, min(2, self.weights.ndim))))
        for name in ("clip_norm", "inv_step"):
            if not 0.0 < getattr(self, name) < math.inf:
                raise InputError(f"{name} must be positive and finite, got {getattr(self, name)}")
        if not 1 <= self.quant_bound <= math.isqrt(_EXACT // self.weights.size):
            raise InputError(
                f"outputs * dim * quant_bound**2 must be at most 2**53, got {self.weights.shape}, Q={self.quant_bound}"
            )

    @property
    def dim(self) -> int:
        """Coordinates of z."""
        return int(self.weights.shape[-1])
