"""Clip factors without roots and quotients by the divider: squares and limits for which a last bit is hard to tell.

A factor that is one unit in the last place off changes the integers of these rows, so that equal integers show equal factors.
"""

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from row_cases import LEVELS, instruction_set, integers_of, sum_of
from twins import rows as reference

from fastpubpriv.maps import RowMap

BLOCK = 32  # rows, at most
FOURS = [(1.0, 1.0), (-1.0, 1.0), (1.0, -1.0), (-1.0, -1.0)]


def odd_roots(remainder: int, bits: int) -> list[int]:
    """The odd numbers whose square is `remainder` (1 modulo 8) modulo 2^bits."""
    root = 1
    for known in range(3, bits):
        if (root * root - remainder) >> known & 1:
            root += 1 << (known - 1)
    half = 1 << (bits - 1)
    return [each % (2 * half) for each in (root, -root, half + root, half - root)]


def hard_squares(remainders: range) -> Iterator[float]:
    """Doubles whose root is next to the middle of two doubles: an odd number of 54 bits, but for remainder / 2^107 of it."""
    for remainder in remainders:
        for bits, low, high in ((54, 2**53, math.isqrt(2**107)), (55, math.isqrt(2**107) + 1, 2**54)):
            for middle in odd_roots(remainder, bits):
                if low <= middle < high:
                    square = middle * middle - remainder
                    assert square % 2**bits == 0
                    yield float(square)  # of 53 bits


def hard_quotients(remainders: range, rng: np.random.Generator) -> Iterator[tuple[float, float]]:
    """Limits and roots with a quotient next to the middle of two doubles: an odd number of 54 bits, but for remainder / 2^107."""
    for remainder in remainders:
        for _ in range(64):
            middle = int(rng.integers(2**53, 2**54)) | 1
            root = remainder * pow(middle, -1, 2**54) % 2**54
            limit = (middle * root - remainder) >> 54
            if 2**52 <= root < 2**53 and 2**52 <= limit < 2**53:
                yield float(limit) * 2.0**-42, float(root) * 2.0**-40
                break


def deciding_entry(factor: float, start: int, parity: int) -> tuple[float, float] | None:
    """An entry whose product with the factor is a tie, exactly, which a factor one unit larger (even) or smaller (odd) breaks."""
    neighbour = math.nextafter(factor, math.inf if parity == 0 else 0.0)
    for half in range(start + (start + parity) % 2, start + 60, 2):
        tie = half + 0.5
        for entry in (tie / factor, math.nextafter(tie / factor, 0.0), math.nextafter(tie / factor, math.inf)):
            if entry * factor == tie and entry * neighbour != tie:
                return entry, tie
    return None


def deciding_row(square: float, limit: float) -> np.ndarray | None:
    """Four columns with this squared norm, of which the first two tell a factor from the next on either side."""
    factor = limit / math.sqrt(square)
    even, odd = (deciding_entry(factor, int(limit / 4), parity) for parity in (0, 1))
    if even is None or odd is None:
        return None
    row = np.array([even[0], odd[0], 0.0, 0.0])
    row[2] = math.sqrt(square - float(row @ row)) * (1.0 - 2.0**-30)
    rest = Fraction(square) - sum(Fraction(entry * entry) for entry in row.tolist())
    row[3] = math.sqrt(rest)
    for _ in range(9):
        folded = (row[0] * row[0] + row[2] * row[2]) + (row[1] * row[1] + row[3] * row[3])
        if folded == square:
            return row
        row[3] = math.nextafter(row[3], math.inf if folded < square else 0.0)
    return None


def check(row: np.ndarray, limit: float, factor: float) -> None:
    """A block of nothing else than this row, with either sign: the integers of the twin, that other factors would not give."""
    near = [np.rint(row * other) for other in (math.nextafter(factor, 0.0), math.nextafter(factor, 1.0))]
    assert all((np.rint(row * factor) != other).any() for other in near)
    row_map = RowMap(dim=4, out_dim=4, quant_bound=math.ceil(limit) + 2, inv_step=1.0, limit=limit)
    for signs in FOURS:
        x = np.tile(row * np.repeat(signs, 2), (BLOCK, 1))
        expected = integers_of(x, row_map, reference).sum(axis=0, dtype=np.int64)
        np.testing.assert_array_equal(expected, BLOCK * np.rint(x[0] * factor))
        for level in LEVELS:
            with instruction_set(level):
                np.testing.assert_array_equal(sum_of(x, row_map), expected)


@pytest.mark.parametrize("scale", [2.0**-80, 2.0**200])
def test_roots_next_to_the_middle_of_two_numbers(scale):
    """From those that any estimate leaves open to those that it decides; a root on the wrong side would often show."""
    remainders = [range(-399, 400, 8), range(2**16 + 1, 2**17, 2**11), range(2**30 + 1, 2**31, 2**26)]
    limit, found, shown = 1000.0 * math.pi, 0, 0
    for square in (each * scale for part in remainders for each in hard_squares(part)):
        root = math.sqrt(square)
        row = deciding_row(square, limit)
        if row is not None:
            check(row, limit, limit / root)
            found += 1
            shown += limit / root not in {limit / math.nextafter(root, side) for side in (0.0, math.inf)}
    assert found >= 200
    assert shown >= 100


def test_quotients_next_to_the_middle_of_two_numbers():
    rng = np.random.default_rng(0)
    found = 0
    for part in (range(-199, 200, 2), range(2**16 + 1, 2**17, 2**11), range(2**30 + 1, 2**31, 2**26)):
        for limit, root in hard_quotients(part, rng):
            row = deciding_row(root * root, limit)
            if row is not None:
                check(row, limit, limit / root)
                found += 1
    assert found >= 100
