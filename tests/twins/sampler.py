"""The exact samplers, one draw at a time in Python integers: equal to csrc/sampler.c and coins.c.

Every acceptance is decided by its definition, with 384-bit numbers; the C code decides nearly all of them by integer
comparisons and doubles, and must agree with this module.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from twins.chacha import DRAW_BLOCK, WordStream, nonce_of, words

BINS = 1024
COMPARE_BITS = 54
FIXED_BITS = 384
HALVINGS = 16
TERMS = 20
MAX_LOG2_SCALE = 40
_MASK = (1 << FIXED_BITS) - 1


@dataclass(frozen=True, slots=True)
class NoiseLaw:
    """Parameters of the two noise distributions; bins have width scale / 2^log2_bins."""

    log2_bins: int
    alias_bits: int
    quick_bits: int
    laplace: bool


GAUSSIAN = NoiseLaw(log2_bins=6, alias_bits=9, quick_bits=10, laplace=False)
LAPLACE = NoiseLaw(log2_bins=3, alias_bits=8, quick_bits=8, laplace=True)


@dataclass(frozen=True, slots=True)
class Tables:
    """Per bin: weight of 2^64, quick threshold; per column: alias threshold and the other bin; `scale` is K."""

    scale: int
    weight: list[int]
    quick: list[int]
    threshold: list[int]
    other: list[int]


@cache
def ln2_fixed():
    """Return floor(2^384 ln 2): ln 2 = sum of 1 / (k 2^k), with 64 guard bits."""
    one = 1 << (FIXED_BITS + 64)
    return sum(one // (k << k) for k in range(1, FIXED_BITS + 64)) >> 64


def exp_fixed(s):
    """Return (e, n) with exp(-s / 2^384) = e / 2^(384 + n) up to a relative 2^-360, with the roundings of csrc/fixed.c."""
    n = (s >> (FIXED_BITS - 24)) * 1549082004 >> 54
    t = (s - n * ln2_fixed()) >> HALVINGS
    y = 0  # 1 - exp(-t)
    for j in range(TERMS, 0, -1):
        y = (t - (t * y >> FIXED_BITS)) // j
    for _ in range(HALVINGS):
        y = 2 * y - (y * y >> FIXED_BITS)
    return _MASK - y, n


def _edge_exponent(law, edge):
    """Return s at the left edge of a bin, with 384 fraction bits."""
    return (
        (edge << FIXED_BITS) // 8 if law.laplace else (edge * edge << FIXED_BITS) // (2 * 64 * 64)
    )


@cache
def tables(law):
    """Return the smallest bin weights above K density, their alias table, and the thresholds of the quick test."""
    density = [exp_fixed(_edge_exponent(law, b)) for b in range(BINS + 1)]
    total = sum(e >> n for e, n in density[:BINS])
    scale = ((2**64 - BINS) << FIXED_BITS) // total
    weight = [(scale * e >> (FIXED_BITS + n)) + 1 for e, n in density[:BINS]]
    weight[0] = scale
    weight[0] += 2**64 - sum(weight)
    shift = 0 if law.laplace else 1  # quick test at the left or the right edge
    quick = [
        (scale * density[b + shift][0] << law.quick_bits)
        // (weight[b] << (FIXED_BITS + density[b + shift][1]))
        for b in range(BINS)
    ]
    threshold, other = _alias_table(weight)
    return Tables(scale, weight, quick, threshold, other)


def _alias_table(weight):
    column = 1 << COMPARE_BITS
    mass = list(weight)
    threshold = [column - 1] * BINS
    other = list(range(BINS))
    small = [c for c in range(BINS) if mass[c] < column]
    large = [c for c in range(BINS) if mass[c] >= column]
    while small:
        poor = small.pop()
        rich = large[-1]
        threshold[poor], other[poor] = mass[poor], rich
        mass[rich] -= column - mass[poor]
        if mass[rich] < column:
            small.append(large.pop())
    return threshold, other


def accepts(law, bin_index, magnitude, u, u_bits, fraction, fraction_bits, log2_scale):
    """Return whether u / 2^u_bits * weight < K exp(-s), the definition of an acceptance."""
    table = tables(law)
    if law.laplace:
        s = magnitude << (FIXED_BITS - log2_scale)
    else:
        x = magnitude << fraction_bits | fraction
        s = (x * x << FIXED_BITS) >> (2 * fraction_bits + 2 * log2_scale + 1)
    e, n = exp_fixed(s)
    return u * table.weight[bin_index] << (FIXED_BITS + n - u_bits) < table.scale * e


def _noise_draw(law, key, lazy_kind, stream, draw, log2_scale):
    table = tables(law)
    low_bits = log2_scale - law.log2_bins
    more_bits = COMPARE_BITS - law.alias_bits
    word = stream.first[draw % DRAW_BLOCK]
    trial = 0
    while True:
        # The word from its lowest bit: column, start of the alias compare, start of U, sign; the offset in the bin is
        # on top.
        rest, column = divmod(word, BINS)
        rest, compare = divmod(rest, 1 << law.alias_bits)
        rest, u = divmod(rest, 1 << law.quick_bits)
        negative = rest % 2 == 1
        low = word >> (64 - low_bits)

        compare <<= more_bits
        if compare >> more_bits == table.threshold[column] >> more_bits:
            compare |= stream.more() >> (64 - more_bits)
        bin_index = column if compare < table.threshold[column] else table.other[column]
        magnitude = bin_index << low_bits | low

        if not (law.laplace and magnitude == 0 and negative):  # zero has no negative copy
            drop = 0
            if law.laplace:
                drop = (
                    low << (MAX_LOG2_SCALE - log2_scale) >> (MAX_LOG2_SCALE - law.quick_bits)
                ) + 1
            kept = u + drop < table.quick[bin_index]
            if not kept:
                u = u << 64 | stream.more()
                fraction = 0 if law.laplace else stream.more()
                lazy = words(key, nonce_of(lazy_kind, draw), trial, 6)
                for i in range(3):
                    u = u << 64 | lazy[i]
                    fraction = fraction << 64 | lazy[3 + i]
                kept = accepts(
                    law, bin_index, magnitude, u, law.quick_bits + 256, fraction, 256, log2_scale
                )
            if kept:
                if law.laplace:
                    return -magnitude if negative else magnitude
                return ~magnitude if negative else magnitude  # floor(-(k + f)) = ~k
        word = stream.more()
        trial = trial + 1


def _draws(key, kind, begin, count, draw, dtype):
    out = np.empty(count, dtype=dtype)
    for block in range(begin // DRAW_BLOCK, -(-(begin + count) // DRAW_BLOCK)):
        stream = WordStream(key, kind, block)
        for i in range(block * DRAW_BLOCK, min((block + 1) * DRAW_BLOCK, begin + count)):
            out[i - begin] = draw(stream, i)
    return out


def gaussian_floor(key, count, log2_scale, *, begin=0):
    """Return floor(N(0, 4^log2_scale)): draws begin ... begin + count - 1 of the key, (count,) int64."""
    return _draws(
        key,
        "gaus",
        begin,
        count,
        lambda w, i: _noise_draw(GAUSSIAN, key, "glaz", w, i, log2_scale),
        np.int64,
    )


def discrete_laplace(key, count, log2_scale, *, begin=0):
    return _draws(
        key,
        "lapl",
        begin,
        count,
        lambda w, i: _noise_draw(LAPLACE, key, "llaz", w, i, log2_scale),
        np.int64,
    )


def uniform(key, count, *, begin=0):
    """Return multiples of 2^-53 in [0, 1), (count,) float64."""
    return _draws(
        key,
        "unif",
        begin,
        count,
        lambda w, i: (w.first[i % DRAW_BLOCK] >> 11) * 2.0**-53,
        np.float64,
    )


def _below(word, bound, stream):
    """Return the high half of word * bound; draw again if the low half is one of the 2^64 mod bound surplus values."""
    while word * bound % 2**64 < 2**64 % bound:
        word = stream.more()
    return word * bound >> 64


def below(key, count, bound, *, begin=0):
    return _draws(
        key, "belo", begin, count, lambda w, i: _below(w.first[i % DRAW_BLOCK], bound, w), np.int64
    )


def permutation(key, n):
    """Return a random permutation (n,) int64 by Fisher-Yates from the last entry."""
    others = _draws(
        key, "perm", 0, n, lambda w, i: _below(w.first[i % DRAW_BLOCK], n - i, w), np.int64
    )
    out = np.arange(n, dtype=np.int64)
    for i in range(n):
        last = n - 1 - i
        other = others[i]
        out[last], out[other] = out[other], out[last]
    return out


# Kind of the words of slow comparisons, for normals of reports and seeds.
_REPORT_KINDS = {"repo": "rlaz", "rsca": "rslz", "seed": "slaz"}


def report_gaussians(key, kind, block, count):
    """Return floor(N(0, 4^40)), (count,) int64: the first draws of a block of reports, of their angles or of seeds."""
    lazy = _REPORT_KINDS[kind]
    return _draws(
        key,
        kind,
        block * DRAW_BLOCK,
        count,
        lambda w, i: _noise_draw(GAUSSIAN, key, lazy, w, i, 40),
        np.int64,
    )
