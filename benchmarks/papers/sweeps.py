"""Many settings of one gradient method at once, on simulated rows that need no privacy.

The settings share batches and one noise vector per step, so that a step is two matrix products for each kind of rows, and
differences between settings have less variance; each setting represents a run with its own budget.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.papers.samples import SimulatedDraws
from fastpubpriv._types import FloatArray
from fastpubpriv.rowwise.losses import LOSSES

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sweep:
    """Settings of Algorithm 1 of paper B; entry i of a vector (S,) belongs to setting i.

    `priv_weight` is the weight of the private gradient; `clip_norm` bounds the norm of every gradient, public ones as well;
    `noise_multiplier` is the noise on the sum of clipped private gradients, over `clip_norm`; `batch_rows` is its divisor.
    """

    step_size: FloatArray
    priv_weight: FloatArray | float = 1.0
    steps: int
    clip_norm: float
    noise_multiplier: float
    batch_rows: float
    loss: str = "squared"


def sweep(
    settings: Sweep,
    x: Any,
    y: Any,
    *,
    draws: SimulatedDraws,
    x_pub: Any = None,
    y_pub: Any = None,
    start: Any = None,
    preconditioner: Any = None,
    on_step: Callable[[int, Array], None] | None = None,
    dtype: Any = np.float32,
) -> FloatArray:
    """Return the final weights (S, dim) of every setting, with the same batches and noise for all; not private.

    Without public rows there is no public gradient. `priv_weight` 1 with all rows is DP-SGD, with a `preconditioner` mirror
    descent. `on_step(step, weights (dim, S))` is called after each step and must not change the array.
    """
    private = _Rows(x, y, settings, dtype)
    sizes = np.asarray(settings.step_size).astype(dtype)
    weight = np.broadcast_to(np.asarray(settings.priv_weight, dtype=np.float64), sizes.shape)
    public = (
        None if x_pub is None or not np.any(weight < 1.0) else _Rows(x_pub, y_pub, settings, dtype)
    )
    dim = private.x.shape[1]
    first = np.zeros(dim) if start is None else np.asarray(start, dtype=np.float64)
    w = np.repeat(first[:, None], len(sizes), axis=1).astype(dtype)
    share = (weight / settings.batch_rows).astype(dtype)
    noise = (weight * settings.noise_multiplier * settings.clip_norm / settings.batch_rows).astype(
        dtype
    )
    with np.errstate(all="ignore"):
        for step in range(settings.steps):
            places = draws.batch(step)
            shown = None if public is None else draws.public_batch(step)
            move = np.multiply.outer(draws.noise(step, dim).astype(dtype, copy=False), noise)
            move += private.gradients(places, w, share)
            if public is not None:
                count = len(public.x) if shown is None else len(shown)
                move += public.gradients(
                    slice(None) if shown is None else shown,
                    w,
                    ((1.0 - weight) / count).astype(dtype),
                )
            if preconditioner is not None:
                move = np.asarray(preconditioner, dtype=dtype) @ move
            w += move * sizes
            if on_step is not None:
                on_step(step, w)
    return w.T.astype(np.float64)


class _Rows:
    """Private or public rows with labels, and for each row the maximum residual whose gradient is within the clipping norm."""

    def __init__(self, x: Any, y: Any, settings: Sweep, dtype: Any) -> None:
        self.x, self.y = np.asarray(x, dtype=dtype), np.asarray(y, dtype=dtype)
        norms = np.sqrt(np.einsum("ij,ij->i", self.x, self.x))
        self.bound = (settings.clip_norm / np.maximum(norms, 1e-30))[:, None].astype(dtype)
        self.loss = LOSSES[settings.loss]

    def gradients(self, places: Any, w: Array, factors: Array) -> Array:
        """Return minus the sum of clipped gradients at `places` times `factors`, (dim, S); non-finite residuals are set to 0."""
        x = self.x[places]
        y = self.y[places]
        bound = self.bound[places]
        scores = x @ w
        found = y[:, None] - scores
        if self.loss is not LOSSES["squared"]:
            found = self.loss.residuals_of(scores.T, np.broadcast_to(y, scores.T.shape)).T.astype(
                w.dtype
            )
        found[~np.isfinite(found)] = 0.0
        return x.T @ (np.clip(found, -bound, bound) * factors)
