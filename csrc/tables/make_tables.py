"""Writes csrc/sampler_tables.h: `python csrc/tables/make_tables.py > csrc/sampler_tables.h` (needs python-flint).

A magnitude falls into one of 1024 bins of width scale/64 (Gaussian) or scale/8 (Laplace), chosen with probability
w/2^64, then is uniform inside the bin and kept with probability K density / w. So a weight w must be at least K times
the density at the left edge of its bin, and the weights must sum to 2^64; every inequality below is decided with ball
arithmetic, none with rounded numbers.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction

from flint import arb, ctx, fmpq

BINS = 1024
COLUMN = 1 << 54  # what one of the 1024 columns of the alias table holds of 2^64
LN2_BITS = 384
ctx.prec = 640


def floor_of(x: arb) -> int:
    """The integer below x; the ball must not straddle one."""
    low = int(x.floor().unique_fmpz())
    assert arb(low) <= x < arb(low + 1)
    return low


def density(exponent: Fraction) -> arb:
    """exp(-exponent), as a ball."""
    return (-arb(fmpq(exponent.numerator, exponent.denominator))).exp()


def gaussian_exponent(edge: int) -> Fraction:
    """Minus the log density at the left edge of a bin."""
    return Fraction(edge * edge, 2 * 64 * 64)


def laplace_exponent(edge: int) -> Fraction:
    """Minus the log density at the left edge of a bin."""
    return Fraction(edge, 8)


def bin_weights(exponent: Callable[[int], Fraction]) -> tuple[int, list[int]]:
    """K and the weights: each the least integer >= K density, then bin 0 takes what is left of 2^64."""
    total = sum((density(exponent(b)) for b in range(BINS)), arb(0))
    scale = floor_of((arb(2) ** 64 - BINS) / total)
    weights = [
        scale if exponent(b) == 0 else floor_of(scale * density(exponent(b))) + 1
        for b in range(BINS)
    ]
    weights[0] += 2**64 - sum(weights)
    assert weights[0] >= scale
    assert sum(weights) == 2**64
    return scale, weights


def alias_table(weights: Sequence[int]) -> list[int]:
    """Walker's table, packed: threshold << 10 | other bin. Column c is bin c below its threshold, else the other."""
    mass = [w for w in weights]
    small = [c for c in range(BINS) if mass[c] < COLUMN]
    large = [c for c in range(BINS) if mass[c] >= COLUMN]
    packed = [(COLUMN - 1) << 10 | c for c in range(BINS)]
    while small:
        poor, rich = small.pop(), large[-1]
        packed[poor] = mass[poor] << 10 | rich
        mass[rich] -= COLUMN - mass[poor]
        if mass[rich] < COLUMN:
            small.append(large.pop())
    assert all(mass[c] == COLUMN for c in large)
    return packed


def quick_thresholds(
    scale: int, weights: Sequence[int], exponent: Callable[[int], Fraction], bits: int, edge: int
) -> list[int]:
    """floor(2^bits K density / w) at the left (edge 0) or right (edge 1) end of each bin; below, U is kept."""
    return [
        floor_of(arb(2) ** bits * scale * density(exponent(b + edge)) / weights[b])
        for b in range(BINS)
    ]


def first_look(
    packed: Sequence[int], quick: Sequence[int], alias_bits: int, quick_bits: int
) -> list[int]:
    """What a first attempt reads of column c: other bin, start of the threshold, quick thresholds of c and other."""
    words = []
    for c in range(BINS):
        threshold, other = packed[c] >> 10, packed[c] & (BINS - 1)
        assert max(quick[c], quick[other]) < 1 << quick_bits
        words.append(
            other | threshold >> (54 - alias_bits) << 10 | quick[c] << 20 | quick[other] << 32
        )
    return words


def nearest_double(x: arb) -> float:
    """x rounded to 60 bits, then to a double: relative error below 2^-52."""
    mantissa, power = x.mid().man_exp()
    shift = int(mantissa).bit_length() - 60
    return float(Fraction(int(mantissa) >> shift) * Fraction(2) ** (int(power) + shift))


def array(kind: str, name: str, values: Sequence[str], per_line: int) -> str:
    """A C array."""
    lines = [", ".join(values[i : i + per_line]) for i in range(0, len(values), per_line)]
    return (
        f"static const {kind} {name}[{len(values)}] = {{\n    " + ",\n    ".join(lines) + ",\n};\n"
    )


def law(
    name: str, exponent: Callable[[int], Fraction], alias_bits: int, quick_bits: int, edge: int
) -> str:
    """The tables of one law."""
    scale, weights = bin_weights(exponent)
    packed = alias_table(weights)
    quick = quick_thresholds(scale, weights, exponent, quick_bits, edge)
    first = first_look(packed, quick, alias_bits, quick_bits)
    ratios = [nearest_double(scale * density(exponent(b)) / weights[b]) for b in range(BINS)]
    return (
        f"#define FPP_{name.upper()}_SCALE UINT64_C({scale})\n"
        f"#define FPP_{name.upper()}_ALIAS_BITS {alias_bits}\n#define FPP_{name.upper()}_QUICK_BITS {quick_bits}\n"
        + array("uint64_t", f"{name}_first", [f"0x{x:x}u" for x in first], 10)
        + array("uint64_t", f"{name}_alias", [f"0x{w:016x}u" for w in packed], 6)
        + array("uint64_t", f"{name}_weight", [f"0x{w:016x}u" for w in weights], 6)
        + array("uint16_t", f"{name}_quick", [f"{q}" for q in quick], 20)
        + array("double", f"{name}_ratio", [r.hex() for r in ratios], 5)
    )


def body() -> str:
    """The header below its title."""
    ln2 = floor_of(arb(2).log() * arb(2) ** LN2_BITS)
    limbs = [f"0x{(ln2 >> 64 * i) & (2**64 - 1):016x}u" for i in range(LN2_BITS // 64)]
    return (
        "#ifndef FPP_SAMPLER_TABLES_H\n#define FPP_SAMPLER_TABLES_H\n#include <stdint.h>\n\n"
        "/* floor(2^384 ln 2), least significant limb first. */\n"
        + array("uint64_t", "fixed_ln2", limbs, 6)
        + "\n/* Gaussian, bins of scale/64; quick thresholds at the right end of a bin. */\n"
        + law("gaussian", gaussian_exponent, 9, 10, 1)
        + "\n/* Laplace, bins of scale/8; quick thresholds at the left end: the sampler subtracts the offset. */\n"
        + law("laplace", laplace_exponent, 8, 8, 0)
        + "\n#endif\n"
    )


def header() -> str:
    """The whole header."""
    text = body()
    digest = hashlib.sha256(text.encode()).hexdigest()
    title = "/* Made by csrc/tables/make_tables.py, which explains it. SHA-256 of what follows this line:"
    return f"{title}\n   {digest} */\n{text}"


if __name__ == "__main__":
    sys.stdout.write(header())
