"""Simulated rows, and batches and noise for sweeps on them. Nothing in this module is private."""

from __future__ import annotations

from typing import Any

import numpy as np

SampleArray = np.ndarray[Any, np.dtype[np.float32]]

# Pairs of normals per block: two float32 work arrays that fit into a core's cache.
_PAIRS = 1 << 15
_WORD = np.float32(2.0**-32)


def normal_rows(bits: np.random.BitGenerator, n: int, dim: int) -> SampleArray:
    """Return rows of N(0, I) as float32, (n, dim), by the Box-Muller formula, which is faster than a NumPy generator.

    Entries have 24 bits and never exceed 6.8 in absolute value (probability 1e-11 per entry), which suffices for simulated
    data of which means over thousands of rows are compared.
    """
    flat = np.empty(n * dim + n * dim % 2, dtype=np.float32)
    for begin in range(0, flat.size, 2 * _PAIRS):
        block = flat[begin : begin + 2 * _PAIRS]
        half = block.size // 2
        first = block[:half]
        second = block[half:]
        uniforms = bits.random_raw(half).view(np.uint32).astype(np.float32)
        length = uniforms[:half]
        angle = uniforms[half:]
        length += np.float32(0.5)  # avoids the logarithm of zero
        length *= _WORD
        np.log(length, out=length)
        length *= np.float32(-2.0)
        np.sqrt(length, out=length)
        angle *= np.float32(2.0 * np.pi) * _WORD
        np.cos(angle, out=first)
        np.sin(angle, out=second)
        first *= length
        second *= length
    return flat[: n * dim].reshape(n, dim)


def coin_rows(bits: np.random.BitGenerator, n: int, dim: int) -> SampleArray:
    """Return rows of fair Bernoulli variables as float32, (n, dim)."""
    words = bits.random_raw(-(-n * dim // 64))
    return np.unpackbits(words.view(np.uint8), count=n * dim).astype(np.float32).reshape(n, dim)


class SimulatedDraws:
    """Poisson batches of rows, public batches without replacement, and Gaussian noise for each step of a sweep.

    Parameters
    ----------
    seed : int
        Seed of the generator.
    n, rate : int, float
        Number of rows, and the probability of each to be in a batch.
    n_pub, public_rows : int, int or None
        Number of public rows, and of those in a batch; None is all, and a larger number than `n_pub` is with replacement.
    """

    def __init__(
        self, seed: int, *, n: int, rate: float, n_pub: int = 0, public_rows: int | None = None
    ) -> None:
        self._generator = np.random.default_rng(seed)
        self._n, self._rate, self._n_pub, self._public_rows = n, rate, n_pub, public_rows

    def batch(self, step: int) -> Any:
        """Return the indices of the private rows of a step."""
        size = int(self._generator.binomial(self._n, self._rate))
        return np.sort(self._generator.choice(self._n, size, replace=False, shuffle=False))

    def public_batch(self, step: int) -> Any:
        """Return the indices of its public rows; None for all of them."""
        if self._public_rows is None or self._public_rows == self._n_pub:
            return None
        more = self._public_rows > self._n_pub
        return self._generator.choice(self._n_pub, self._public_rows, replace=more, shuffle=False)

    def noise(self, step: int, dim: int) -> Any:
        """Return a standard normal vector (dim,)."""
        return normal_rows(self._generator.bit_generator, 1, dim)[0]
