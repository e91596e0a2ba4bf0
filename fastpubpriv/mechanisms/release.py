"""The two functions that turn values computed from private rows into something public: noise, or a noisy choice.

Privacy notes: `notes/release.md`, `notes/selection.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fastpubpriv.errors import KernelError
from fastpubpriv.kernels import noise
from fastpubpriv.mechanisms import exponential, tap
from fastpubpriv.mechanisms.account import Purse
from fastpubpriv.privacy import Event, GaussianEvent, KNormEvent, LaplaceEvent, SelectionEvent

IntArray = np.ndarray[Any, np.dtype[np.int64]]
FloatArray = np.ndarray[Any, np.dtype[np.float64]]


def release(
    account: Purse,
    *,
    name: str,
    query: Callable[[], IntArray],
    shape: tuple[int, ...],
    event: Event,
    unit: float,
) -> FloatArray:
    """Charge, ask, add noise, convert.

    Parameters
    ----------
    account : Account or NodePurse
        Pays for `event` before `query` is called, and gives the key.
    name : str
        Name of the release in a transcript.
    query : callable
        Computes the exact int64 answer from the private rows; called once.
    shape : tuple of int
        Public shape of the answer.
    event : GaussianEvent, LaplaceEvent or KNormEvent
        Noise law, scale and replace-one sensitivity, all in grid steps.
    unit : float
        Size of a grid step in the unit of the answer.

    Returns
    -------
    ndarray of float64, `shape`
        (query + noise) in data units. Safe to publish.
    """
    if event.draws != math.prod(shape):
        raise KernelError(f"release {name!r}: the event counts {event.draws} draws for an answer of shape {shape}")
    key = account.charge(event)
    exact = query()
    # Never a cast: an answer that is not yet integer has no proven sensitivity.
    if not isinstance(exact, np.ndarray) or exact.dtype != np.int64 or exact.shape != shape:
        raise KernelError(f"release {name!r}: the query must return an int64 array of shape {shape}")
    exact = np.ascontiguousarray(exact)
    transcript = tap.current()
    answer = transcript.forced(name, shape) if transcript is not None else None
    if answer is None:
        noisy = _draw(key, event, exact.size).reshape(shape)
        # Wrap-around addition: reduction modulo 2^64 commutes with adding noise, so even an overflow would cost no privacy.
        with np.errstate(over="ignore"):
            noisy += exact
        if transcript is None:
            del exact  # a matrix may be large
        answer = _to_units(noisy, event, unit)
    if transcript is not None:
        transcript.calls.append(tap.Call(name, exact, event, unit, answer.copy(), tap.reserve(account.scope)))
    return answer


def release_choice(account: Purse, *, name: str, query: Callable[[], IntArray], event: SelectionEvent) -> int:
    """Charge, ask for integer scores, choose one by the exponential mechanism.

    Parameters
    ----------
    account : Account or NodePurse
        Pays for `event` before `query` is called, and gives the key.
    name : str
        Name of the release in a transcript.
    query : callable
        Computes the exact int64 scores (event.candidates,) from the private rows; called once.
    event : SelectionEvent
        Price, number of candidates and replace-one sensitivity of every score.

    Returns
    -------
    int
        The chosen candidate. Safe to publish.
    """
    key = account.charge(event)
    exact = query()
    shape = (event.candidates,)
    if not isinstance(exact, np.ndarray) or exact.dtype != np.int64 or exact.shape != shape:
        raise KernelError(f"release {name!r}: the query must return an int64 array of shape {shape}")
    transcript = tap.current()
    answer = transcript.forced(name, shape) if transcript is not None else None
    if answer is None:
        levels = exponential.levels(exact, event.rate)
        chosen = exponential.candidate(levels, _below(key, exponential.total(levels)))
        answer = np.array([float(chosen)])
    if transcript is not None:
        transcript.calls.append(tap.Call(name, exact, event, 1.0, answer.copy(), tap.reserve(account.scope)))
    return int(answer[0])


def _below(key: bytes, bound: int) -> int:
    """Uniform on 0 ... bound - 1 for a bound of any size, exact: bits are thrown again until they fit."""
    bits = bound.bit_length()
    words = -(-bits // 32)
    attempt = 0
    while True:
        drawn = noise.below(key, words, 2**32, begin=attempt * noise.DRAW_BLOCK)
        number = int.from_bytes(drawn.astype("<u4").tobytes(), "little") >> (32 * words - bits)
        if number < bound:
            return number
        attempt += 1


def _draw(key: bytes, event: Event, count: int) -> IntArray:
    if isinstance(event, GaussianEvent):
        return noise.gaussian_floor(key, count, event.log2_scale)
    if isinstance(event, LaplaceEvent):
        return noise.discrete_laplace(key, count, event.log2_scale)
    if isinstance(event, KNormEvent):
        return noise.k_norm_floor(key, count, event.noise_scale)
    raise KernelError("a choice has no noise to add; use release_choice")


def _to_units(noisy: IntArray, event: Event, unit: float) -> FloatArray:
    answer = noisy.astype(np.float64)
    # A floored continuous law sits half a step low; the discrete Laplace is symmetric already.
    answer += 0.0 if isinstance(event, LaplaceEvent) else 0.5
    answer *= unit
    return answer
