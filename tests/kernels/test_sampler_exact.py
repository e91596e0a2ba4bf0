"""The noise laws by enumeration with ball arithmetic: tables, thresholds, fixed point, implied probabilities."""

import hashlib
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from flint import arb, ctx, fmpq
from twins import sampler
from twins.sampler import BINS, FIXED_BITS, GAUSSIAN, LAPLACE, exp_fixed, tables

from fastpubpriv.kernels._cext import ffi, lib

ROOT = Path(__file__).parents[2]
HEADER = ROOT / "csrc" / "sampler_tables.h"
LAWS = {"gaussian": GAUSSIAN, "laplace": LAPLACE}
U_MORE_BITS = 256  # how far U is read beyond the first word, and the whole of the fraction


@pytest.fixture(autouse=True)
def precision():
    before = ctx.prec
    ctx.prec = 640
    yield
    ctx.prec = before


def exp_minus(numerator, denominator):
    return (-arb(fmpq(numerator, denominator))).exp()


def edge_density(name, edge):
    return exp_minus(edge * edge, 2 * 64 * 64) if name == "gaussian" else exp_minus(edge, 8)


@pytest.fixture(scope="module")
def header():
    """The arrays of the C header, read as text."""
    text = HEADER.read_text()
    found = {}
    for kind, name, body in re.findall(r"static const (\w+) (\w+)\[\d+\] = \{(.*?)\};", text, re.S):
        items = [item.strip().rstrip("u") for item in body.split(",") if item.strip()]
        found[name] = [float.fromhex(x) if kind == "double" else int(x, 0) for x in items]
    for name, value in re.findall(r"#define FPP_(\w+) (?:UINT64_C\()?(\d+)", text):
        found[name] = int(value)
    return found


def test_header_is_what_the_generator_writes_with_the_hash_of_its_body():
    made = subprocess.run(
        [sys.executable, str(ROOT / "csrc/tables/make_tables.py")],
        capture_output=True,
        check=True,
        text=True,
    )
    text = HEADER.read_text()
    assert made.stdout == text
    body = text[text.index("#ifndef") :]
    assert hashlib.sha256(body.encode()).hexdigest() in text[: text.index("#ifndef")]


@pytest.mark.parametrize("name", LAWS)
def test_tables_are_those_of_the_twin_and_cover_the_density(header, name):
    table = tables(LAWS[name])
    assert table.scale == header[f"{name.upper()}_SCALE"]
    assert LAWS[name].alias_bits == header[f"{name.upper()}_ALIAS_BITS"]
    assert LAWS[name].quick_bits == header[f"{name.upper()}_QUICK_BITS"]
    assert table.weight == header[f"{name}_weight"]
    assert table.quick == header[f"{name}_quick"]
    assert [t << 10 | o for t, o in zip(table.threshold, table.other, strict=True)] == header[
        f"{name}_alias"
    ]
    # Weights cover the density and sum to 2 64.
    scale = header[f"{name.upper()}_SCALE"]
    weight = header[f"{name}_weight"]
    assert sum(weight) == 2**64
    for b in range(BINS):
        # an acceptance probability never exceeds 1
        assert weight[b] >= scale * edge_density(name, b)
    # Not tighter than needed, so that draws are not wasted: bin 0 alone holds what was left over.
    assert all(weight[b] <= scale * edge_density(name, b) + 1 for b in range(1, BINS))
    assert weight[0] - scale <= 2 * BINS
    # Alias table gives exactly the weights.
    column = 1 << sampler.COMPARE_BITS
    got = [0] * BINS
    for c, entry in enumerate(header[f"{name}_alias"]):
        threshold = entry >> 10
        other = entry & 1023
        got[c] += threshold
        got[other] += column - threshold
    assert got == header[f"{name}_weight"]
    # First look table abbreviates the alias table.
    law = LAWS[name]
    quick = header[f"{name}_quick"]
    for c, (first, entry) in enumerate(
        zip(header[f"{name}_first"], header[f"{name}_alias"], strict=True)
    ):
        other = entry & 1023
        assert first & 1023 == other
        assert first >> 10 & 1023 == entry >> (64 - law.alias_bits)
        assert first >> 20 & 1023 == quick[c]
        assert first >> 32 == quick[other]


def test_gaussian_quick_threshold_is_a_lower_bound_over_its_bin(header):
    scale = header["GAUSSIAN_SCALE"]
    weight = header["gaussian_weight"]
    quick = header["gaussian_quick"]
    for b in range(BINS):  # the density falls inside a bin: its right edge is the worst point
        assert (
            quick[b] * arb(weight[b])
            <= scale * edge_density("gaussian", b + 1) * 2**GAUSSIAN.quick_bits
        )
    assert sum(w * q for w, q in zip(weight, quick, strict=True)) / 2**74 > 0.98


@pytest.mark.parametrize("log2_scale", [8, 9, 32, 33, 40])
def test_laplace_quick_threshold_is_a_lower_bound_at_every_offset(header, log2_scale):
    scale = header["LAPLACE_SCALE"]
    weight = header["laplace_weight"]
    quick = header["laplace_quick"]
    low_bits = log2_scale - 3
    rng = np.random.default_rng(log2_scale)
    lows = (
        range(1 << low_bits)
        if low_bits <= 6
        else [0, 1, (1 << low_bits) - 1, *rng.integers(0, 1 << low_bits, 40).tolist()]
    )
    for low in lows:
        drop = (low << (40 - log2_scale) >> (40 - LAPLACE.quick_bits)) + 1
        inside = exp_minus(low, 1 << log2_scale)
        for b in range(0, BINS, 1 if low < 2 else 37):
            kept_for_certain = max(quick[b] - drop, 0)
            assert (
                kept_for_certain * arb(weight[b])
                <= scale * edge_density("laplace", b) * inside * 2**LAPLACE.quick_bits
            )


@pytest.mark.parametrize("name", LAWS)
def test_double_ratios_are_close_to_the_truth(header, name):
    scale = header[f"{name.upper()}_SCALE"]
    weight = header[f"{name}_weight"]
    for b in range(BINS):
        truth = scale * edge_density(name, b) / weight[b]
        assert abs(arb(header[f"{name}_ratio"][b]) - truth) <= truth * arb(2) ** -51


def series(x):
    """exp_minus of csrc/sampler.c, the same double operations."""
    value = 1.0
    for i in range(10, 1, -1):
        value = 1.0 - x * (1.0 / i) * value
    return 1.0 - x * value


@pytest.mark.parametrize("log2_scale", [8, 20, 40])
@pytest.mark.parametrize("name", LAWS)
def test_double_test_is_well_inside_its_window(header, name, log2_scale):
    rng = np.random.default_rng(log2_scale)
    scale = header[f"{name.upper()}_SCALE"]
    weight = header[f"{name}_weight"]
    unit = 2.0**-log2_scale
    low_bits = log2_scale - LAWS[name].log2_bins
    for b in [0, 1, 2, 63, 64, BINS - 1, *rng.integers(0, BINS, 300).tolist()]:
        low = [0, (1 << low_bits) - 1, int(rng.integers(0, 1 << low_bits))][int(rng.integers(0, 3))]
        fraction = [0, 2**64 - 1, int(rng.integers(0, 2**64, dtype=np.uint64))][
            int(rng.integers(0, 3))
        ]
        if name == "gaussian":
            y = (float(low) + float(fraction) * 2.0**-64) * unit
            x = y * (b * 2.0**-6 + 0.5 * y)
            k = (((b << low_bits) | low) << 64) | fraction
            truth = exp_minus(k * k, 1 << (2 * log2_scale + 129))
        else:
            x = low * unit
            truth = exp_minus((b << low_bits) | low, 1 << log2_scale)
        bound = header[f"{name}_ratio"][b] * series(x)
        truth = scale * truth / weight[b]
        # The fraction is cut at 64 bits here: that moves s by at most 16 * 2^-8 * 2^-64 more.
        assert abs(arb(bound) - truth) <= truth * arb(2) ** -43


def c_exp(s):
    limbs = ffi.new("uint64_t[7]", [s >> 64 * i & (2**64 - 1) for i in range(7)])
    result = ffi.new("uint64_t[7]")
    assert lib.fpp_test_fixed_exp(limbs, result) == lib.FPP_OK
    return sum(result[i] << 64 * i for i in range(6)), result[6]


def exponents():
    one = 1 << FIXED_BITS
    ln2 = sampler.ln2_fixed()
    grid = [0, 1, one - 1, one, 128 * one, 129 * one - 1]
    grid += [k * ln2 + d for k in (1, 2, 64, 184, 185) for d in (-1, 0, 1, one >> 25, -(one >> 25))]
    rng = np.random.default_rng(5)
    grid += [
        int.from_bytes(rng.bytes(48), "little") + (int(rng.integers(0, 129)) << FIXED_BITS)
        for _ in range(2000)
    ]
    return grid


def test_fixed_point_exponential_is_good_to_360_bits_and_the_same_in_c():
    for s in exponents():
        e, n = exp_fixed(s)
        assert (e, n) == c_exp(s)
        truth = exp_minus(s, 1 << FIXED_BITS)
        assert abs(arb(e) * arb(2) ** -(FIXED_BITS + n) - truth) <= truth * arb(2) ** -360
    result = ffi.new("uint64_t[7]")
    assert (
        lib.fpp_test_fixed_exp(ffi.new("uint64_t[7]", [0] * 6 + [129]), result)
        == lib.FPP_ERR_ARGUMENT
    )
    assert lib.fpp_test_fixed_exp(ffi.NULL, result) == lib.FPP_ERR_ARGUMENT


def kept_of(law, bin_index, magnitude, fraction, log2_scale):
    """(number of U that are kept, bits of U): `accepts` solved for U, so exactly what the sampler keeps."""
    table = tables(law)
    u_bits = law.quick_bits + U_MORE_BITS
    if law.laplace:
        s = magnitude << (FIXED_BITS - log2_scale)
    else:
        x = magnitude << U_MORE_BITS | fraction
        s = (x * x << FIXED_BITS) >> (2 * U_MORE_BITS + 2 * log2_scale + 1)
    e, n = exp_fixed(s)
    step = table.weight[bin_index] << (FIXED_BITS + n - u_bits)
    return min(-(-table.scale * e // step), 1 << u_bits), u_bits


def test_kept_of_is_where_accepts_changes():
    for law, bin_index, magnitude in (
        (GAUSSIAN, 70, 70 * 4 + 3),
        (LAPLACE, 9, 9 * 32 + 17),
        (GAUSSIAN, 0, 0),
    ):
        kept, u_bits = kept_of(law, bin_index, magnitude, 12345, 8)
        assert sampler.accepts(law, bin_index, magnitude, kept - 1, u_bits, 12345, U_MORE_BITS, 8)
        if kept < 1 << u_bits:
            assert not sampler.accepts(
                law, bin_index, magnitude, kept, u_bits, 12345, U_MORE_BITS, 8
            )


def worst_log2_ratio(name, log2_scale, fractions, error=0):
    """Largest |implied / ideal - 1| over every magnitude, as a power of two. `error` plants a wrong weight."""
    law = LAWS[name]
    worst = arb(0)
    table = tables(law)
    low_bits = log2_scale - law.log2_bins
    for b in range(BINS):
        for low in range(1 << low_bits):
            k = b << low_bits | low
            for fraction in fractions:
                kept, u_bits = kept_of(law, b, k, fraction, log2_scale)
                implied = (
                    arb(table.weight[b] + (error if b == 100 else 0))
                    * kept
                    / table.scale
                    * arb(2) ** -u_bits
                )
                if law.laplace:
                    ideal = exp_minus(k, 1 << log2_scale)
                else:
                    x = k << U_MORE_BITS | fraction
                    ideal = exp_minus(x * x, 1 << (2 * U_MORE_BITS + 2 * log2_scale + 1))
                worst = worst.max(abs(implied / ideal - 1))
    return math.log2(float(worst.upper()))


@pytest.mark.parametrize("log2_scale", [8, 10])
@pytest.mark.parametrize(
    ("name", "fractions"), [("laplace", [0]), ("gaussian", [0, 3 << 250, 2**256 - 1])]
)
def test_probabilities_are_exact_to_2_100_at_every_output(name, fractions, log2_scale):
    # weight / 2^64 * 2^-low_bits * kept / 2^u_bits is the probability of a magnitude in one attempt: everything but
    # the alias word, whose weights are exact (above), the uniform offset and the sign. Zero has one sign only, hence
    # half. Gaussian: for each fraction f the density at k + f; averaging over f keeps the bound.
    assert worst_log2_ratio(name, log2_scale, fractions) < -100


def test_enumeration_sees_one_unit_of_one_weight():
    assert worst_log2_ratio("laplace", 8, [0], error=1) > -100


@pytest.mark.parametrize(
    ("name", "total"), [("gaussian", 64 * math.sqrt(math.pi / 2)), ("laplace", 8.0)]
)
def test_share_of_attempts_kept(header, name, total):
    # K times the integral of the density in bin widths, over 2^64: what the comment in sampler.c and the speed rest on.
    share = header[f"{name.upper()}_SCALE"] * total / 2**64
    assert share > (0.99 if name == "gaussian" else 0.93)
