"""Secret batches: which rows take part in one step of a run over sampled rows. Their coins have a key of their own."""

from __future__ import annotations

import math

import numpy as np

from fastpubpriv._types import IntArray
from fastpubpriv.errors import KernelError
from fastpubpriv.kernels import noise
from fastpubpriv.privacy import Poisson, Sampling, WithoutReplacement
from fastpubpriv.release.transcript import Payer, current

_COIN_BITS = 62
_PIECE = 1 << 14  # coins at a time, so that they stay in the cache; a multiple of noise.DRAW_BLOCK


def draw_batch(account: Payer, sampling: Sampling, n: int) -> IntArray:
    """Ascending positions of the rows of a fresh batch out of n.

    Call it within the query of a `release` whose event states `sampling`, once. The batch, and its size, are secret: neither may
    leave the query. Each row of a Poisson batch is in it with probability floor(rate 2^62) / 2^62, never above the rate; each
    batch of fixed size is equally likely.
    """
    transcript = current()
    chosen = transcript.forced_batch() if transcript is not None else None
    if chosen is None:
        chosen = _drawn(account.fresh_key(), sampling, n)
    if transcript is not None:
        transcript.batch = chosen
    return chosen


def _drawn(key: bytes, sampling: Sampling, n: int) -> IntArray:
    if isinstance(sampling, Poisson):
        below = math.floor(sampling.rate * 2**_COIN_BITS)
        found = [
            begin + np.flatnonzero(noise.below(key, min(_PIECE, n - begin), 2**_COIN_BITS, begin=begin) < below)
            for begin in range(0, n, _PIECE)
        ]
        return np.concatenate(found)
    if isinstance(sampling, WithoutReplacement) and sampling.rows == n:
        return np.sort(noise.permutation(key, n)[: sampling.batch])
    raise KernelError("batches are drawn for Poisson and for WithoutReplacement of as many rows as there are")
