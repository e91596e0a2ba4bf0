"""Cases of local reports against typical NumPy and Numba code without a grid, with insecure randomness and once with secure.

The insecure loop draws by the ziggurat of a NumPy generator, which must not be used for privacy; the secure one uses ChaCha20, as
this library does, and the Box-Muller method.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from benchmarks.cases import limits
from benchmarks.cases.loops import KEY, Case
from fastpubpriv.kernels import _cbuf, noise
from fastpubpriv.kernels._cext import ffi, lib
from fastpubpriv.kernels.noise import report_integers
from fastpubpriv.local import PrivUnit

NUMPY, NUMBA = "NumPy, a block at a time (insecure)", "Numba, a plain loop (insecure)"
SECURE = "Numba, a plain loop over secure words"


def numpy_privunit(rows: np.ndarray, randomizer: PrivUnit, rng: np.random.Generator) -> np.ndarray:
    """Return PrivUnit reports of a block of unit rows: angles by vectorized rejection sampling, then one matrix of normals."""
    n, dim = rows.shape
    gamma = randomizer.cap.threshold
    alpha = 0.5 * (dim - 1)
    hit = rng.random(n) < randomizer.cap.probability
    t = np.empty(n)
    left = np.flatnonzero(hit)
    while len(left):
        y = (1.0 - gamma * gamma) * rng.random(len(left)) ** (1.0 / alpha)
        tried = np.sqrt(1.0 - y)
        kept = rng.random(len(left)) * tried < gamma
        t[left[kept]] = tried[kept]
        left = left[~kept]
    left = np.flatnonzero(~hit)
    while len(left):
        g = rng.standard_normal(len(left))
        tried = g / np.sqrt(g * g + rng.chisquare(dim - 1, len(left)))
        kept = tried < gamma
        t[left[kept]] = tried[kept]
        left = left[~kept]
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    w = rng.standard_normal((n, dim))
    w -= np.einsum("ij,ij->i", w, units)[:, None] * units
    w *= (np.sqrt(1.0 - t * t) / np.linalg.norm(w, axis=1))[:, None]
    w += t[:, None] * units
    return w / randomizer.scale


@numba.njit
def numba_privunit(rows, gamma, probability, scale, rng, out):
    """Write PrivUnit reports by a loop over rows, with a NumPy generator."""
    dim = rows.shape[1]
    for i in range(rows.shape[0]):
        x = rows[i]
        g = out[i]
        t = math.inf
        if rng.random() < probability:
            while not rng.random() * t < gamma:
                t = math.sqrt(1.0 - (1.0 - gamma * gamma) * rng.random() ** (2.0 / (dim - 1)))
        else:
            while not t < gamma:
                a = rng.standard_normal()
                t = a / math.sqrt(a * a + rng.chisquare(dim - 1))
        norm = along = square = 0.0
        for j in range(dim):
            g[j] = rng.standard_normal()
            norm += x[j] * x[j]
            along += x[j] * g[j]
            square += g[j] * g[j]
        across = math.sqrt((1.0 - t * t) / (square - along * along / norm)) / scale
        toward = t / (math.sqrt(norm) * scale) - across * along / norm
        for j in range(dim):
            g[j] = across * g[j] + toward * x[j]


@numba.njit
def secure_privunit(rows, gamma, probability, scale, words, out):
    """Write PrivUnit reports from words of a secure stream, with Box-Muller normals; return the number of words used.

    Outside of the cap, a direction is drawn from normals and redrawn if it falls inside.
    """
    dim = rows.shape[1]
    at = 0
    unit = 2.0**-53
    for i in range(rows.shape[0]):
        x = rows[i]
        g = out[i]
        t = math.inf
        hit = (words[at] >> np.uint64(11)) * unit < probability
        at += 1
        while hit and not (words[at] >> np.uint64(11)) * unit * t < gamma:
            u = 1.0 - (words[at + 1] >> np.uint64(11)) * unit
            t = math.sqrt(1.0 - (1.0 - gamma * gamma) * u ** (2.0 / (dim - 1)))
            at += 1
        at += 1
        while True:
            norm = along = square = 0.0
            for j in range(0, dim, 2):
                length = math.sqrt(-2.0 * math.log(1.0 - (words[at] >> np.uint64(11)) * unit))
                angle = 2.0 * math.pi * unit * (words[at + 1] >> np.uint64(11))
                at += 2
                g[j], g[j + 1] = length * math.cos(angle), length * math.sin(angle)
                norm += x[j] * x[j] + x[j + 1] * x[j + 1]
                along += x[j] * g[j] + x[j + 1] * g[j + 1]
                square += g[j] * g[j] + g[j + 1] * g[j + 1]
            if hit or along < gamma * math.sqrt(norm * square):
                break
        across = 1.0 / (math.sqrt(square) * scale)
        toward = 0.0
        if hit:
            across = math.sqrt((1.0 - t * t) / (square - along * along / norm)) / scale
            toward = t / (math.sqrt(norm) * scale) - across * along / norm
        for j in range(dim):
            g[j] = across * g[j] + toward * x[j]
    return at


def share_of_hits(vectors: np.ndarray, rows: np.ndarray, threshold: float) -> float:
    """Return the fraction of the vectors that lie in the caps of their rows."""
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(rows, axis=1)
    return float(np.mean(np.einsum("ij,ij->i", vectors, rows) / lengths >= threshold))


def report_case(n: int, dim: int, epsilon: float = 8.0) -> Case:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n, dim))
    randomizer = PrivUnit(dim, epsilon)
    law = randomizer.law
    out = np.empty((n, dim), np.int32)
    plain = np.empty((n, dim))

    def ours() -> np.ndarray:
        report_integers(rows, law, KEY, out)
        return out

    def loop() -> np.ndarray:
        numba_privunit(
            rows, randomizer.cap.threshold, randomizer.cap.probability, randomizer.scale, rng, plain
        )
        return plain

    def secure() -> np.ndarray:
        words = np.empty(n * (dim + 16) * 5 // 4, np.uint64)
        _cbuf.check(
            lib.fpp_words_u64(ffi.from_buffer("uint8_t[]", KEY), 0, len(words), _cbuf.out(words))
        )
        taken = secure_privunit(
            rows,
            randomizer.cap.threshold,
            randomizer.cap.probability,
            randomizer.scale,
            words,
            plain,
        )
        assert taken <= len(words)
        return plain

    def floor() -> float:
        """Draw the secure words that the normals need, and read the rows once: the limit."""
        return float(noise.gaussian_floor(KEY, n * dim, 40)[0]) + float(rows.sum())

    for call in (ours, loop, secure):
        share = share_of_hits(call(), rows, randomizer.cap.threshold)
        assert abs(share - randomizer.cap.probability) < 6.0 / np.sqrt(4.0 * n)
    return Case(
        name=f"PrivUnit reports, {n} x {dim}",
        ours=ours,
        peers={NUMPY: lambda: numpy_privunit(rows, randomizer, rng), NUMBA: loop, SECURE: secure},
        limit_name="as many secure normals, rows read once",
        limit=lambda: limits.best_seconds(floor),
        floor=floor,
    )
