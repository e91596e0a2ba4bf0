"""The three functions that release values computed from private rows: additive noise, a private selection, and noisy counts of
occupied bins.

Privacy notes: `notes/release.md`, `notes/selection.md`, `notes/hypotheses.md`, `notes/stable_histogram.md`.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import operator
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import KernelError
from fastpubpriv.kernels import noise
from fastpubpriv.privacy import (
    Event,
    Poisson,
    Sampling,
    SelectionEvent,
    StableHistogramEvent,
    WithoutReplacement,
)
from fastpubpriv.release.transcript import (
    BudgetAccount,
    ReleaseRecord,
    Transcript,
    check_known,
    current,
)
from fastpubpriv.threads.guard import call_guarded, iterate_guarded
from fastpubpriv.threads.pool import share_out

# Integer weights and coin probabilities of private selection: e^(-rate gap) in fixed point with proven bounds, per score level.
# All arithmetic is on Python integers, so every machine computes the same weights.
BITS = 512  # fractional bits of a weight
# Weights below 2^-CUT of the largest are zero: with up to 2^20 candidates their mass is below 2^-184.
CUT = 205
MAX_CANDIDATES = 2**20
ACCURACY = 101  # -log2 of the relative error of a weight
_COIN_ACCURACY = 131  # the same of a coin, relative to the smaller of its two probabilities
_FIRST = 8  # the series is evaluated at arguments up to 2^-_FIRST


def exp_bounds(x: Fraction) -> tuple[int, int]:
    """Return integers with low <= 2^BITS e^-x <= high, for x >= 0."""
    halvings = math.floor(x).bit_length() + _FIRST
    scaled = x * Fraction(2**BITS, 2**halvings)
    low = _exp_series(math.ceil(scaled))[0]
    high = _exp_series(math.floor(scaled))[1]
    for _ in range(halvings):
        low = low * low >> BITS
        high = -(-high * high >> BITS)
    return low, high


def _exp_series(y: int) -> tuple[int, int]:
    """Return bounds of 2^BITS e^-(y / 2^BITS): each term of the series is rounded down and up; one unit covers the remainder."""
    term_low = term_high = low = high = 1 << BITS
    order = 0
    while term_high > 1:
        order += 1
        term_low = term_low * y // (order << BITS)
        term_high = -(-term_high * y // (order << BITS))
        low, high = (
            (low - term_high, high - term_low) if order % 2 else (low + term_low, high + term_high)
        )
    return low - 1, high + 1


def weight(gap: int, rate: Fraction, *, coin: bool = False) -> int:
    """Return a lower bound of 2^BITS e^(-rate gap), relative error 2^-ACCURACY; zero for bounds below 2^(BITS - CUT).

    For a `coin`, heads and tails are each within a factor e^(2^-129) of their probability.
    """
    if gap == 0:
        return 1 << BITS
    if rate * gap > CUT:  # e^-x < 2^-x
        return 0
    low, high = exp_bounds(rate * gap)
    if low >> (BITS - CUT) == 0:
        return 0
    accuracy, smaller = (_COIN_ACCURACY, min(low, (1 << BITS) - high)) if coin else (ACCURACY, low)
    if (high - low) << accuracy > smaller:
        raise KernelError("the weights of a choice are not accurate enough")
    return low


def levels(scores: IntArray, rate: Fraction) -> list[tuple[int, IntArray]]:
    """Return the score levels of positive weight, best first: the weight of each candidate, and the candidates, ascending."""
    if not 1 <= len(scores) <= MAX_CANDIDATES:
        raise KernelError(f"a choice needs 1 to {MAX_CANDIDATES} candidates")
    values, inverse = np.unique(scores, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(inverse))[:-1])
    best = int(values[-1])
    weighed = (
        (weight(best - value, rate), group)
        for value, group in zip(values.tolist()[::-1], groups[::-1], strict=True)
    )
    return list(itertools.takewhile(operator.itemgetter(0), weighed))


def candidate(parts: list[tuple[int, IntArray]], number: int) -> int:
    """Return the candidate of a number below the sum of all weights; each candidate has as many numbers as its weight."""
    for one, candidates in parts:
        own = one * len(candidates)
        if number < own:
            return int(candidates[number // one])
        number -= own
    raise KernelError("a choice was asked for beyond the total weight")


_COIN_WORDS = BITS // 32
_I64 = np.dtype(np.int64)
_PIECE = 1 << 16  # draws at a time, which fit into the second-level cache

# The noise distributions that an event may name.
_SAMPLERS: dict[str, Callable[[bytes, int, Any, int], IntArray]] = {
    "gaussian": lambda key, count, event, begin: noise.gaussian_floor(
        key, count, event.log2_scale, begin=begin
    ),
    "laplace": lambda key, count, event, begin: noise.discrete_laplace(
        key, count, event.log2_scale, begin=begin
    ),
}


def release(
    account: BudgetAccount,
    *,
    name: str,
    query: Callable[[], IntArray],
    shape: tuple[int, ...],
    event: Event,
    unit: float,
) -> FloatArray:
    """Charge the event, run the query, take a key, add noise and convert the answer to data units.

    Parameters
    ----------
    account : BudgetAccount
        Charged for `event` before `query` is called; supplies the key after `query` has returned.
    name : str
        Name of the release in a transcript.
    query : callable
        Computes the exact int64 answer from the private rows; called once.
    shape : tuple of int
        Public shape of the answer.
    event : Event
        Noise distribution, scale and replace-one sensitivity, in grid steps.
    unit : float
        Size of a grid step in the unit of the answer.

    Returns
    -------
    ndarray of float64, `shape`
        (query + noise) in data units. Safe to publish.
    """
    check_known(event)
    if event.law not in _SAMPLERS:
        raise KernelError(
            f"release {name!r}: no noise has the law {event.law!r}; a choice is made by release_choice"
        )
    if event.draws != math.prod(shape):
        raise KernelError(
            f"release {name!r}: the event counts {event.draws} draws for an answer of shape {shape}"
        )
    account.charge(event)
    exact = np.ascontiguousarray(_exact_answer(name, query, shape))
    transcript = current()
    answer = transcript.forced(name, shape, event, unit) if transcript is not None else None
    if answer is None:
        # After the query: a process forked during it would share a key taken before, and is refused one here.
        noisy = _SAMPLERS[event.law](account.fresh_key(), exact.size, event, 0)
        if noisy.shape != shape:
            noisy = noisy.reshape(shape)
        # Addition modulo 2^64 commutes with adding noise, so even an overflow would not weaken privacy.
        noisy += exact
        if transcript is None:
            del exact  # free a large matrix early
        # converts each integer to float64 first
        answer = np.add(noisy, event.half_step, dtype=np.float64)
        answer *= unit
    if transcript is not None:
        _write_down(transcript, account, ReleaseRecord(name, exact, event, unit, answer.copy()))
    return answer


def _exact_answer(name: str, query: Callable[[], IntArray], shape: tuple[int, ...]) -> IntArray:
    """Run the query and return its exact answer, never cast: the sensitivity of a non-integer answer is unproven."""
    exact = call_guarded(query)
    if not isinstance(exact, np.ndarray) or exact.dtype != _I64 or exact.shape != shape:
        raise KernelError(
            f"release {name!r}: the query must return an int64 array of shape {shape}"
        )
    return exact


def release_choice(
    account: BudgetAccount, *, name: str, query: Callable[[], IntArray], event: SelectionEvent
) -> int:
    """Charge the event, run the query, take a key, and select by the exponential mechanism or permute-and-flip.

    As `release`, but the query returns exact int64 scores (event.candidates,), whose sensitivity the event states. The returned
    index of a candidate is safe to publish.
    """
    check_known(event)
    shape = (event.candidates,)
    account.charge(event)
    exact = _exact_answer(name, query, shape)
    transcript = current()
    answer = transcript.forced(name, shape, event, 1.0) if transcript is not None else None
    if answer is None:
        key = account.fresh_key()  # after the query, as in `release`
        if event.law == "exponential":
            parts = levels(exact, event.rate)
            chosen = candidate(
                parts, _uniform_below(key, sum(one * len(candidates) for one, candidates in parts))
            )
        else:
            chosen = _permute_and_flip(key, exact, event.rate)
        answer = np.array([float(chosen)])
    if transcript is not None:
        _write_down(transcript, account, ReleaseRecord(name, exact, event, 1.0, answer.copy()))
    return int(answer[0])


def release_stable(
    account: BudgetAccount,
    *,
    name: str,
    query: Callable[[], Iterable[tuple[IntArray, IntArray]]],
    event: StableHistogramEvent,
    slots: tuple[int, ...],
    pad_all: bool = False,
    threads: int | None = None,
) -> list[tuple[IntArray, FloatArray]]:
    """Charge the event, run the query, take a key, and release the noisy counts of occupied bins that reach the threshold.

    As `release`, but the query returns for each histogram the occupied keys (b, words) in lexical order and their counts (b,),
    int64. The released keys and noisy float64 counts have the same form and are safe to publish. `slots` is a public bound on the
    occupied bins per histogram: each slot has a fixed position in the random stream, for any thread. With `pad_all` noise is
    drawn for every slot, else for the occupied bins, rounded up to a power of two: equal bits, but a different running time.
    """
    check_known(event)
    if len(slots) != event.histograms or sum(slots) != event.draws:
        raise KernelError(
            f"release {name!r}: the slots do not add up to the histograms and draws of the event"
        )
    account.charge(event)
    exact = call_guarded(query)
    for (keys, counts), bound in zip(iterate_guarded(iter(exact)), slots, strict=True):
        if (
            keys.dtype != np.int64
            or counts.dtype != np.int64
            or not len(keys) == len(counts) <= bound
        ):
            raise KernelError(
                f"release {name!r}: the query must return int64 keys and counts, at most one for each slot"
            )
    unit = 1.0 / event.step
    shape = (event.histograms,)
    transcript = current()
    answer = transcript.forced(name, shape, event, unit) if transcript is not None else None
    key = account.fresh_key() if answer is None else b""  # after the query, as in `release`
    begin = 0
    stable = []
    for index, ((keys, counts), bound) in enumerate(
        zip(iterate_guarded(iter(exact)), slots, strict=True)
    ):
        if answer is None:
            drawn = (
                bound if pad_all else max(noise.DRAW_BLOCK, 1 << max(0, len(keys) - 1).bit_length())
            )
            released = call_guarded(
                partial(
                    _bins_over_threshold,
                    key,
                    begin,
                    keys,
                    counts,
                    min(drawn, bound),
                    event,
                    threads,
                )
            )
        else:
            mine = answer[answer[:, 0] == index]
            released = mine[:, 2 : 2 + keys.shape[1]], mine[:, 1]
        stable.append(released)
        begin += -(-bound // noise.DRAW_BLOCK) * noise.DRAW_BLOCK
    if transcript is not None:
        _write_down(
            transcript,
            account,
            ReleaseRecord(name, _table(exact), event, unit, _table(stable), shape=shape),
        )
    # The half step is added after the comparison with the threshold.
    return [
        (keys, (noisy.astype(np.float64) + event.half_step) / event.step) for keys, noisy in stable
    ]


def _bins_over_threshold(
    key: bytes,
    begin: int,
    keys: IntArray,
    counts: IntArray,
    slots: int,
    event: StableHistogramEvent,
    threads: int | None,
) -> tuple[IntArray, IntArray]:
    """Return keys and noisy integers that reach the threshold. Noise is drawn in pieces for `slots` bins."""
    pieces = -(-slots // _PIECE)
    keys_above = [keys[:0]] * pieces
    values = [counts[:0]] * pieces

    def work(piece: int) -> None:
        at = piece * _PIECE
        drawn = _SAMPLERS[event.law](key, min(_PIECE, slots - at), event, begin + at)
        part = counts[at : at + _PIECE]
        noisy = part * event.step + drawn[: len(part)]
        # The integers are compared, as in the proof of the cost, before any conversion.
        high = noisy >= event.threshold
        keys_above[piece], values[piece] = keys[at : at + _PIECE][high], noisy[high]

    share_out(work, pieces, threads=threads)
    return np.concatenate([keys[:0], *keys_above]), np.concatenate([counts[:0], *values])


def _write_down(transcript: Transcript, payer: BudgetAccount, call: ReleaseRecord) -> None:
    """Add a release to the transcript of an audit, with the identity of the account that was charged."""
    batch, transcript.batch = transcript.batch, None
    transcript.calls.append(
        dataclasses.replace(
            call, block=payer.path, reserve=payer.reserve, account=payer.number, batch=batch
        )
    )


def _table(parts: Iterable[tuple[IntArray, IntArray]]) -> IntArray:
    """Return rows (histogram, count, key ...), one per bin of all histograms, short keys padded, for the transcript."""
    words = max((keys.shape[1] for keys, _ in parts), default=1)
    rows = []
    for index, (keys, counts) in enumerate(parts):
        table = np.zeros((len(keys), 2 + words), dtype=np.int64)
        table[:, 0], table[:, 1], table[:, 2 : 2 + keys.shape[1]] = index, counts, keys
        rows.append(table)
    return np.concatenate(rows) if rows else np.zeros((0, 2 + words), dtype=np.int64)


def _uniform_below(key: bytes, bound: int) -> int:
    """Return an exactly uniform draw from 0 ... bound - 1, for a bound of any size, by rejection."""
    bits = bound.bit_length()
    words = -(-bits // 32)
    attempt = 0
    while True:
        drawn = noise.below(key, words, 2**32, begin=attempt * noise.DRAW_BLOCK)
        number = int.from_bytes(drawn.astype("<u4").tobytes(), "little") >> (32 * words - bits)
        if number < bound:
            return number
        attempt += 1


def _permute_and_flip(key: bytes, scores: IntArray, rate: Fraction) -> int:
    """Return the first candidate, in random order, whose coin e^(-rate (best - score)) shows heads; a best one's always does."""
    if not 1 <= len(scores) <= MAX_CANDIDATES:
        raise KernelError(f"a choice needs 1 to {MAX_CANDIDATES} candidates")
    gaps = int(scores.max()) - scores
    coins: dict[int, int] = {}
    together = noise.DRAW_BLOCK // _COIN_WORDS
    for turn, place in enumerate(noise.permutation(key, len(scores)).tolist()):
        if turn % together == 0:
            begin = turn // together * noise.DRAW_BLOCK
            drawn = (
                noise.below(key, noise.DRAW_BLOCK, 2**32, begin=begin)
                .astype("<u4")
                .reshape(together, _COIN_WORDS)
            )
        gap = int(gaps[place])
        if gap not in coins:
            coins[gap] = weight(gap, rate, coin=True)
        if int.from_bytes(drawn[turn % together].tobytes(), "little") < coins[gap]:
            return int(place)
    raise KernelError("no candidate of a choice came up heads")


# ---- Secret batches: the rows sampled for one step of a run over sampled rows. Their coins have a separate key.

_COIN_BITS = 62
_COINS = 1 << 14  # coins at a time, which fit into the cache; a multiple of noise.DRAW_BLOCK


def draw_batch(account: BudgetAccount, sampling: Sampling, n: int) -> IntArray:
    """Draw a new batch out of n rows; return the ascending positions of its rows.

    Call it once, within the query of a `release` whose event states `sampling`. The batch and its size are secret: neither may
    leave the query. A Poisson batch holds each row with probability floor(rate 2^62) / 2^62, never above the rate; all batches of
    fixed size are equally likely.
    """
    transcript = current()
    chosen = transcript.forced_batch() if transcript is not None else None
    if chosen is None:
        chosen = _sampled_places(account.fresh_key(), sampling, n)
    if transcript is not None:
        transcript.batch = chosen
    return chosen


def _sampled_places(key: bytes, sampling: Sampling, n: int) -> IntArray:
    if isinstance(sampling, Poisson):
        below = math.floor(sampling.rate * 2**_COIN_BITS)
        chosen = [
            begin
            + np.flatnonzero(
                noise.below(key, min(_COINS, n - begin), 2**_COIN_BITS, begin=begin) < below
            )
            for begin in range(0, n, _COINS)
        ]
        return np.concatenate(chosen)
    if isinstance(sampling, WithoutReplacement) and sampling.rows == n:
        return np.sort(noise.permutation(key, n)[: sampling.batch])
    raise KernelError(
        "batches are drawn for Poisson and for WithoutReplacement of as many rows as there are"
    )
