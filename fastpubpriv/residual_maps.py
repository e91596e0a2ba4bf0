"""The map of a labelled row to what it adds to a gradient: a frozen value that `kernels` and `reference` read."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.maps import _EXACT, _copied, _public, _Value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResidualMap(_Value):
    """What a labelled row (z, label) adds to a gradient: factor(row) (spread z), rounded to a grid and checked.

    factor = min(1, radius / |spread z|) clip(residual(<slope, z>, label) / scale) / clip / step, 0 where that is not finite.

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
