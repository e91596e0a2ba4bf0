"""Bins of columns: which bin at every edge, and the same counts however the rows are cut."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from row_cases import LEVELS, instruction_set
from twins import bins as reference

from fastpubpriv.errors import InputError, KernelError
from fastpubpriv.kernels import bins
from fastpubpriv.kernels.bins import NONE, BinRule, BinTable

up, down = math.inf, -math.inf
HOSTILE = np.array(
    [0.0, -0.0, 5e-324, -5e-324, 2.0**-1074 * 3, 2.0**-1023, 2.0**-1022, np.nextafter(2.0**-1022, 1), 1.0, 2.0, 3.0, 0.5,
     -0.5, 1.5, -1.5, 2.5, 2.0**1023, np.nextafter(2.0**1023, up), 1.7976931348623157e308, np.inf, -np.inf, np.nan,
     2.0**51, 2.0**51 + 0.5, -(2.0**51) - 0.5, 2.0**52 - 0.5, 2.0**52, 2.0**52 + 1, 2.0**53, 2.0**53 + 2, -(2.0**53),
     -(2.0**53) - 2, 1e300, -1e300]
)  # fmt: skip
RULES = [
    BinRule(), BinRule(1.0), BinRule(0.1), BinRule(0.1, 0.3), BinRule(3.0, -1e9), BinRule(2.0**-1074), BinRule(1e308),
    BinRule(1.0, 0.5),
]  # fmt: skip


def columns():
    """Bit patterns of all kinds, next to plain numbers."""
    words = st.integers(0, 2**64 - 1).map(lambda word: np.array([word], dtype=np.uint64).view(np.float64)[0])
    halves = st.integers(-(2**12), 2**12).map(lambda half: half / 2)
    number = st.one_of(words, halves, st.floats(-100, 100), st.sampled_from(HOSTILE.tolist()))
    return st.lists(number, min_size=0, max_size=60).map(lambda values: np.array(values, dtype=np.float64))


def rules():
    widths = st.one_of(st.none(), st.floats(1e-3, 1e3), st.sampled_from([1.0, 0.5, 2.0**-30, 1e-300, 1e300]))
    return st.builds(BinRule, widths, st.sampled_from([0.0, 0.5, -0.25, 1e5]))


def same(found, expected):
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


@given(columns(), rules(), st.integers(1, 40), st.sampled_from([np.float64, np.float32]))
@settings(max_examples=400, deadline=None)
def test_keys_and_counts_equal_twin(values, rule, repeat, dtype):
    with np.errstate(all="ignore"):
        column = np.tile(values, repeat).astype(dtype)
    keys = reference.bins_keys(column, rule)
    for level in LEVELS:
        with instruction_set(level):
            np.testing.assert_array_equal(bins.bins_keys(column, rule), keys)
            same(bins.bins_count(column, rule), reference.bins_count(column, rule))


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_hostile_numbers(rule):
    column = np.tile(HOSTILE, 50)
    same(bins.bins_count(column, rule), reference.bins_count(column, rule))
    assert bins.bins_count(column, rule)[1].sum() == (bins.bins_keys(column, rule) != NONE).sum()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("rule", [BinRule(1.0), BinRule(1.0, 0.5), BinRule(0.1), BinRule(0.3, -7.1)], ids=repr)
def test_edges_by_themselves(rule, level):
    """Nothing else in a block says that a number is near an edge: on either side of it, and of zero."""
    with instruction_set(level):
        for half in (-7, -3, -1, 1, 3, 8191):
            edge = rule.offset + half / 2 * rule.width
            for value in (np.nextafter(edge, down), edge, np.nextafter(edge, up)):
                for others in (1, 2, 8, 2_000):
                    column = np.append(np.full(others, rule.offset), value)
                    same(bins.bins_count(column, rule), reference.bins_count(column, rule))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("spread", [0, 100, 1000])
def test_outside_by_itself(level, spread):
    """One number that is in no cell of the window, or on its ends, in a block of others: nothing else says so."""
    powers = np.ldexp(1.0, np.array([9, 12, 14, 15, 16, 17, 31, 46, 49, 50, 51, 52, 53, 63]))
    values = np.concatenate([powers, powers - 0.5, 3.0 * powers, [1e300, up, math.nan]])
    others = np.round(np.random.default_rng(spread).uniform(-spread / 2, spread / 2, 512))
    with instruction_set(level):
        for rule in (BinRule(1.0), BinRule(1.0, 0.5))[
            : 1 + (spread == 100)
        ]:  # of the second, all whole numbers are edges: they are divided
            keys, counts = reference.bins_count(np.tile(others, 20), rule)
            for value in (*values, *-values):
                # It comes in the first block, in a later one and in the last, which is not full.
                for place in (3, 5 * 512 + 511, 20 * 512):
                    found = bins.bins_count(np.insert(np.tile(others, 20), place, value), rule)
                    key = reference.bins_keys(np.array([value]), rule)[0]
                    expected = dict(zip(keys[:, 0].tolist(), counts.tolist(), strict=True))
                    if key != NONE:
                        expected[int(key)] = expected.get(int(key), 0) + 1
                    assert dict(zip(found[0][:, 0].tolist(), found[1].tolist(), strict=True)) == expected, value


def test_width_bins_own_their_upper_edge():
    """The definition, in exact arithmetic: key i holds ((i - 1/2) w, (i + 1/2) w]."""
    rule = BinRule(0.25)
    for half in range(-41, 42, 2):
        edge = half / 2 * 0.25
        key = (half - 1) // 2
        around = np.array([np.nextafter(edge, down), edge, np.nextafter(edge, up)])
        assert bins.bins_keys(around, rule).tolist() == [key, key, key + 1]


def test_dyadic_bins_own_their_upper_edge():
    for exponent in range(-1073, 1024):
        power = math.ldexp(1.0, exponent)
        around = np.array([np.nextafter(power, 0.0), power, np.nextafter(power, up), -power])
        low = exponent - 1
        below = low if exponent > -1073 else exponent - 2  # nothing lies between 2^-1074 and 2^-1073
        assert bins.bins_keys(around, BinRule()).tolist() == [below, low, exponent, low]


def test_no_bin():
    column = np.array([np.nan, np.inf, -np.inf, 2.0**54, -(2.0**54), 1e300])
    assert (bins.bins_keys(column, BinRule(1.0)) == NONE).all()
    assert (bins.bins_keys(np.array([0.0, -0.0, np.nan, np.inf, -np.inf]), BinRule()) == NONE).all()
    assert bins.bins_keys(np.array([2.0**53, -(2.0**53)]), BinRule(1.0)).tolist() == [2**53, -(2**53)]
    assert len(bins.bins_count(np.full(3000, np.nan), BinRule(1.0))[0]) == 0
    assert len(bins.bins_count(np.empty(0), BinRule(1.0))[0]) == 0


@pytest.mark.parametrize("rule", [BinRule(), BinRule(1.0), BinRule(0.01), BinRule(1e-7)], ids=repr)
def test_counts_do_not_depend_on_the_cut(rule):
    """Windows are placed by a first chunk that is nothing like the rest, and the hash table has to grow."""
    rng = np.random.default_rng(3)
    x = np.concatenate([np.full(700, 1e6), rng.standard_cauchy(20_000), rng.normal(size=5_000), HOSTILE])
    expected = reference.bins_count(x, rule)
    for size in (1, 3, 64, 511, 512, 513, 10_000, len(x)):
        stop = len(x) if size > 3 else 2000
        table = BinTable()
        for begin in range(0, stop, size):
            table.count(x[begin : min(begin + size, stop)], rule)
        same(bins.collect([table], 1), reference.bins_count(x[:stop], rule) if stop < len(x) else expected)
    first, second = BinTable(), BinTable()
    first.count(x[:9_000], rule)
    second.count(x[9_000:], rule)
    same(bins.collect([second, first], 1), expected)


def test_strided_columns():
    rows = np.random.default_rng(1).normal(size=(3000, 7))
    for array in (rows, rows.astype(np.float32), np.asfortranarray(rows), rows[::2], rows[:, ::-1]):
        for column in (0, 6):
            rule = BinRule(0.3)
            same(bins.bins_count(array[:, column], rule), reference.bins_count(array[:, column], rule))


@given(st.integers(1, 4), st.integers(0, 3000), st.integers(1, 30), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_tuples_equal_twin(words, n, spread, seed):
    keys = np.random.default_rng(seed).integers(-spread, spread, (n, words))
    keys[::7, -1] = NONE
    same(bins.bins_count_tuples(keys), reference.bins_count_tuples(keys))


def test_a_long_table_of_single_rows():
    x = np.random.default_rng(0).uniform(0, 2**40, 300_000)
    found = bins.bins_count(x, BinRule(1.0))
    same(found, reference.bins_count(x, BinRule(1.0)))
    assert len(found[0]) > 290_000


def test_more_rows_than_a_counter_holds(monkeypatch):
    monkeypatch.setattr(bins, "_FLUSH_ROWS", 1000)
    x = np.random.default_rng(0).normal(size=10_000)
    for rule in (BinRule(1.0), BinRule()):
        same(bins.bins_count(x, rule), reference.bins_count(x, rule))


def test_wrong_forms_are_refused():
    for width in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(InputError, match="width"):
            BinRule(width)
    with pytest.raises(InputError, match="offset"):
        BinRule(1.0, np.inf)
    with pytest.raises(InputError, match="1 to 64"):
        BinTable(65)
    with pytest.raises(KernelError, match="one-dimensional"):
        bins.bins_keys(np.zeros((2, 2)), BinRule(1.0))
    with pytest.raises(KernelError, match="float64 or float32"):
        bins.bins_keys(np.zeros(3, dtype=np.int64), BinRule(1.0))
    with pytest.raises(KernelError, match="shape"):
        BinTable(2).insert(np.zeros((3, 1), dtype=np.int64))
    table = BinTable()
    table.count(np.zeros(3), BinRule(1.0))
    with pytest.raises(KernelError, match="one rule"):
        table.count(np.zeros(3), BinRule(2.0))
    assert NONE == reference.NONE


# Planted faults: the edge tests must tell them apart.


def test_control_ceil_and_log2_differ():
    edges = np.array([0.25 * (half / 2) for half in range(-41, 42, 2)])
    floored = np.floor(edges / 0.25 + 0.5).astype(np.int64)
    assert (floored != bins.bins_keys(edges, BinRule(0.25))).all()
    powers = np.ldexp(1.0, np.arange(-300, 300))
    assert (np.floor(np.log2(powers)) != bins.bins_keys(powers, BinRule())).all()


@pytest.mark.parametrize("n", [1, 511, 512, 513, 1023, 1024, 1025, 5000])
@pytest.mark.parametrize("rule", [BinRule(), BinRule(0.5)], ids=["dyadic", "width"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_layouts_around_whole_blocks(n, rule, dtype):
    rows = np.random.default_rng(n).standard_cauchy((n, 3)).astype(dtype)
    for column in (rows[:, 1], rows[::-1, 1], rows[:, 1].copy()[::-1], np.broadcast_to(rows[:1, 0], (n,))):
        same(bins.bins_count(column, rule), reference.bins_count(column, rule))


@pytest.mark.parametrize("rule", [BinRule(), BinRule(1e-3)], ids=["dyadic", "width"])
def test_keys_come_out_in_order(rule):
    """From the window and from the hash table, below, inside and above; `merged` then has nothing to sort."""
    x = np.concatenate([np.random.default_rng(0).standard_cauchy(50_000), [5e-324, -1e308, 1e5, -1e5, 2.0**-1023]])
    table = bins.BinTable()
    table.count(x, rule)
    assert (np.diff(table.collected()[0][:, 0]) > 0).all()
    assert rule.dyadic or table._table.used > 10
