"""Batches and noise for sweeps on simulated rows, from a NumPy generator. Nothing here hides a private value."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.papers.samples import normal_rows
from fastpubpriv._types import IntArray


class SimulatedDraws:
    """Poisson batches of rows, public batches without replacement, and normal noise; see `training.gradient.sweep.Draws`.

    Parameters
    ----------
    seed : int
        Of the generator.
    n, rate : int, float
        Rows, and the chance of each to be in a batch.
    n_pub, public_rows : int, int or None
        Public rows, and how many of them a batch has; None is all, and more than there are is with replacement.
    """

    def __init__(self, seed: int, *, n: int, rate: float, n_pub: int = 0, public_rows: int | None = None) -> None:
        self._generator = np.random.default_rng(seed)
        self._n, self._rate, self._n_pub, self._public_rows = n, rate, n_pub, public_rows

    def batch(self, step: int) -> IntArray:
        """See `Draws.batch`."""
        size = int(self._generator.binomial(self._n, self._rate))
        return np.sort(self._generator.choice(self._n, size, replace=False, shuffle=False))

    def public_batch(self, step: int) -> IntArray | None:
        """See `Draws.public_batch`."""
        if self._public_rows is None or self._public_rows == self._n_pub:
            return None
        more = self._public_rows > self._n_pub
        return self._generator.choice(self._n_pub, self._public_rows, replace=more, shuffle=False)

    def noise(self, step: int, dim: int) -> Any:
        """See `Draws.noise`."""
        return normal_rows(self._generator.bit_generator, 1, dim)[0]
