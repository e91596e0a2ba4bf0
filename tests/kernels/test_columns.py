"""Cells and boxes of columns: equal bits to the slow twin, one cell for each number, and what the kernels refuse."""

import itertools
import math

import numpy as np
import pytest
from helpers.errors import raises
from hypothesis import given, settings
from hypothesis import strategies as st
from row_cases import LEVELS, instruction_set
from twins import bins as bins_twin
from twins import rows as reference

from fastpubpriv import InputError, KernelError
from fastpubpriv._types import Columns
from fastpubpriv.kernels import bins
from fastpubpriv.kernels import rows as kernels
from fastpubpriv.kernels.bins import NONE, BinRule, BinTable
from fastpubpriv.rowwise.row_maps import ColumnBox, RowMap

SIDE = [2047 << parts for parts in range(3)]


def hostile_rows(rng, n, dim, dtype=np.float64):
    """Any bit pattern, ordinary numbers, and the notorious ones."""
    width = np.dtype(dtype).itemsize
    bits = rng.integers(0, 256, size=(n, dim, width), dtype=np.uint8)
    rows = bits.view(dtype).reshape(n, dim).copy()
    ordinary = rng.random((n, dim)) < 0.5
    numbers = rng.normal(size=int(ordinary.sum()))
    rows[ordinary] = numbers * 10.0 ** rng.integers(-5, 6)
    special = rng.random((n, dim)) < 0.2
    largest = np.finfo(dtype).max
    notorious = [
        0.0,
        -0.0,
        np.finfo(dtype).smallest_subnormal,
        1.0,
        1.25,
        2.0,
        np.inf,
        -np.inf,
        np.nan,
        largest,
        -largest,
    ]
    rows[special] = rng.choice(np.array(notorious, dtype=dtype), size=int(special.sum()))
    return rows


def bins_count(column, rule):
    """Keys and counts of the bins of a column."""
    table = BinTable(1)
    table.count(column, rule)
    return bins.collect([table], table.words)


def counted(module, rows, center, log2_parts, neutral=False):
    counts = np.zeros((len(center), module.cells_of_column(log2_parts)), dtype=np.int64)
    module.columns_count(rows, center, log2_parts, neutral, counts)
    return counts


def centers(rng, dim):
    return rng.choice([0.0, 1.5, -3.0, 1e308, -1e308, 5e-324], size=dim)


def a_box(rng, dim, neutral=False, ordinary=False):
    """For ordinary ones AVX-512 takes no division: no middle near zero, nothing near overflow."""
    if ordinary:
        low = -rng.uniform(0.1, 9.0, size=dim)
        high = rng.uniform(10.0, 99.0, size=dim)
        center = rng.normal(size=dim)
        width = rng.uniform(0.01, 99.0, size=dim)
    else:
        low = -(10.0 ** rng.integers(-3, 300, size=dim))
        high = 10.0 ** rng.integers(-3, 300, size=dim)
        center = centers(rng, dim)
        width = (high - low) / 2
    absent = rng.normal(size=dim)
    return ColumnBox(
        center=center,
        lower=low,
        upper=high,
        middle=(low + high) / 2,
        width=width,
        absent=absent,
        neutral=neutral,
    )


def check_boxes(rows, box):
    """Rows in their boxes have the bits of the twin."""
    expected = reference.columns_box(rows, box)
    assert kernels.columns_box(rows, box).tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("neutral", [False, True])
@pytest.mark.parametrize("log2_parts", [0, 1, 2])
@pytest.mark.parametrize("dim", [1, 2, 7, 65])
def test_counts_equal_those_of_the_twin(isa, dtype, neutral, log2_parts, dim):
    rng = np.random.default_rng(log2_parts)
    rows = hostile_rows(rng, 400, dim, dtype)
    center = centers(rng, dim)
    if neutral:
        rows[::3] = np.where(np.isfinite(rows[::3]), rows[::3], 1.0)
    found = counted(kernels, rows, center, log2_parts, neutral)
    expected = counted(reference, rows, center, log2_parts, neutral)
    assert np.array_equal(found, expected)
    assert found.sum(axis=1).tolist() == [400] * dim, "each row is in one cell of each column"
    missing = ~np.isfinite(rows)
    if neutral:
        missing[missing.any(axis=1)] = True
    assert found[:, -1].tolist() == missing.sum(axis=0).tolist(), "the last cell has the missing"
    pieces = np.array_split(rows, 7)
    counts = [counted(kernels, piece, center, log2_parts, neutral) for piece in pieces]
    assert np.array_equal(found, sum(counts)), "counts of pieces add up"


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("neutral", [False, True])
@pytest.mark.parametrize("dim", [1, 3, 9, 70])
def test_boxes_equal_those_of_the_twin(isa, dtype, neutral, dim):
    rng = np.random.default_rng(5)
    rows = hostile_rows(rng, 300, dim, dtype)
    box = a_box(rng, dim, neutral)
    found = kernels.columns_box(rows, box)
    assert found.tobytes() == reference.columns_box(rows, box).tobytes()
    whole = np.isfinite(rows).all(axis=1)
    assert np.isfinite(found[whole]).all()
    assert np.isnan(found[~whole]).all() == neutral or whole.all()
    alone = [kernels.columns_box(rows[k : k + 1], box) for k in range(len(rows))]
    assert np.concatenate(alone).tobytes() == found.tobytes(), "a row is boxed by itself"


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_quotients_are_rounded_as_divisions_are(isa, dtype):
    """Widths and differences of any bits, neighbors of products, and nothing else in the strip than one number."""
    rng = np.random.default_rng(14)
    scales = [1.0]
    if dtype == np.float64:
        scales += [2.0**-90, 2.0**90]
    for dim, scale in itertools.product((1, 7, 50, 520), scales):
        one = a_box(rng, dim, ordinary=True)
        box = ColumnBox(
            center=one.center * scale,
            lower=one.lower * scale,
            upper=one.upper * scale,
            middle=one.middle * scale,
            width=one.width,
            absent=one.absent,
        )
        # Quotients near numbers of few bits, and half way between two doubles, where the last bit hangs on the smallest rest.
        beside = rng.choice([1.0, 1.0 + 2.0**-52, 1.0 - 2.0**-53], size=(600, dim))
        near = rng.integers(1, 9, size=(600, dim)) * box.width * beside
        side = rng.choice([-1.0, 1.0], size=near.shape)
        rows = (box.center + box.middle + scale * near * side).astype(dtype)
        rows[::2] = (rng.normal(size=(300, dim)) * 20.0 * scale).astype(dtype)
        odd = rng.random(rows.shape) < 0.05
        rows[odd] = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0])
        check_boxes(rows, box)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 5e-324, -5e-324])
def test_one_number_in_each_lane_is_boxed_as_by_the_twin(isa, dtype, value):
    rows = np.full((64, 1), value, dtype=dtype)
    check_boxes(rows, a_box(np.random.default_rng(14), 1, ordinary=True))


@pytest.mark.parametrize("middle", [0.0, -0.0, 2.0**-299, 2.0**-301, 2.0**399, 2.0**401])
@pytest.mark.parametrize("width", [2.0**-401, 2.0**-399, 1.5, 2.0**399, 2.0**401])
def test_boxes_on_the_limits_of_ordinary_ones(isa, middle, width):
    sizes = np.ldexp(1.0 + np.random.default_rng(15).random(2098), np.arange(-1074, 1024))
    rows = np.concatenate([sizes, -sizes, [0.0, -0.0, 3.0]])[:, None]
    for signed in (middle, -middle):
        box = ColumnBox(
            center=np.zeros(1),
            lower=np.array([-(2.0**402)]),
            upper=np.array([2.0**402]),
            middle=np.array([signed]),
            width=np.array([width]),
            absent=np.array([7.0]),
        )
        check_boxes(rows, box)


def boxed(module, rows, box, row_map, edges_sq):
    sums = np.zeros(row_map.out_dim, dtype=np.int64)
    counts = np.zeros(len(edges_sq) + 1, dtype=np.int64)
    module.rows_sum(rows, row_map, sums, box)
    module.rows_shell_counts(rows, row_map, counts, edges_sq, box)
    return np.concatenate([sums, counts])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("neutral", [False, True])
@pytest.mark.parametrize(
    ("dim", "n"),
    [
        (1, 3100),
        (1, 5),
        (3, 1100),
        (7, 9),
        (50, 200),
        (64, 61),
        (65, 130),
        (513, 21),
        (3100, 9),
    ],
)
def test_boxed_rows_are_added_and_counted_as_by_the_twin(isa, dtype, neutral, dim, n):
    """All numbers of rows and columns about blocks, strips and groups; rows apart; and a row's part is that of the row alone."""
    rng = np.random.default_rng(16)
    wide = hostile_rows(rng, n, dim + 1, dtype)
    wide[::2] = rng.normal(size=wide[::2].shape)
    apart = wide[:, :dim]
    row_map = RowMap(dim=dim, quant_bound=20_000, inv_step=4000.0, limit=19_000.0)
    for box in (a_box(rng, dim, neutral, ordinary=True), a_box(rng, dim, neutral)):
        norms_sq = np.sum(reference.columns_box(apart[::2], box) ** 2, axis=1)
        edges_sq = np.unique(np.quantile(norms_sq, [0.1, 0.4, 0.7]))
        for edges in (edges_sq, edges_sq[:0]):
            expected = boxed(reference, apart, box, row_map, edges)
            assert np.array_equal(boxed(kernels, apart, box, row_map, edges), expected)
            together = apart.copy()
            assert np.array_equal(boxed(kernels, together, box, row_map, edges), expected)
            first = apart[:40]
            alone = [boxed(kernels, row[None], box, row_map, edges) for row in first]
            assert np.array_equal(boxed(kernels, first, box, row_map, edges), sum(alone))


@pytest.mark.parametrize("log2_parts", [0, 1, 2])
def test_numbers_on_and_beside_edges_of_cells(isa, log2_parts):
    """About a center that is exact, in each lane of a vector: an edge belongs to the cell below it, on either side."""
    parts = 1 << log2_parts
    mantissas = 1.0 + np.arange(parts) / parts
    sizes = np.ldexp(mantissas, np.arange(-1022, 1024)[:, None]).ravel()
    # the least ordinary number ends the last cell of the subnormal ones
    cells = parts - 1 + np.arange(len(sizes))
    cells_of_column = 2 * SIDE[log2_parts] + 2
    exact_about_one = (sizes > 2.0**-40) & (sizes < 2.0**40)
    about_one = sizes[exact_about_one]
    for center, numbers, cell in (
        (0.0, sizes, cells),
        (0.0, np.nextafter(sizes, np.inf), cells + 1),
        (1.0, about_one, cells[exact_about_one]),
        (1.0, about_one + about_one * 2.0**-10, cells[exact_about_one] + 1),
    ):
        for sign, side in ((1.0, 0), (-1.0, SIDE[log2_parts])):
            column = center + sign * numbers
            found = counted(kernels, column[:, None], np.array([center]), log2_parts)
            expected = np.bincount(cell + side, minlength=cells_of_column)
            assert np.array_equal(found[0], expected)
            # Rows that share numbers: column k of the windows has the numbers from the k-th on.
            windows = np.lib.stride_tricks.sliding_window_view(column, 8)
            found = counted(kernels, windows, np.full(8, center), log2_parts)
            for k in range(8):
                cells_of_k = cell[k : k + len(windows)] + side
                assert np.array_equal(found[k], np.bincount(cells_of_k, minlength=cells_of_column))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("dim", [3, 50, 530])
def test_rows_apart_are_counted_and_boxed_as_rows_together(isa, dtype, dim):
    rng = np.random.default_rng(8)
    wide = hostile_rows(rng, 61, dim + 3, dtype)
    center = centers(rng, dim)
    box = a_box(rng, dim, False)
    for rows in (wide[:, 2 : dim + 2], wide[::2, :dim], wide[::-1, :dim]):
        together = np.ascontiguousarray(rows)
        counts = counted(reference, together, center, 1)
        assert np.array_equal(counted(kernels, rows, center, 1), counts)
        boxes = reference.columns_box(together, box)
        assert kernels.columns_box(rows, box).tobytes() == boxes.tobytes()


@pytest.mark.parametrize(
    ("value", "log2_parts", "cell"),
    [
        (1.0, 0, 1022),
        (np.nextafter(1.0, 2.0), 0, 1023),
        (-1.0, 0, SIDE[0] + 1022),  # (1/2, 1]
        (1.25, 2, 4 * 1023),
        (1.5, 1, 2 * 1023),  # (1, 1.25]
        (5e-324, 2, 0),
        (np.finfo(np.float64).max, 1, SIDE[1] - 1),
        (0.0, 2, 2 * SIDE[2]),
        (-0.0, 2, 2 * SIDE[2]),
        (np.nan, 0, 2 * SIDE[0] + 1),
        (-np.inf, 0, 2 * SIDE[0] + 1),
    ],
)
def test_cells_worked_by_hand(value, log2_parts, cell):
    found = counted(kernels, np.array([[value]]), np.zeros(1), log2_parts)
    assert np.flatnonzero(found[0]).tolist() == [cell]


@pytest.mark.parametrize("neutral", [False, True])
def test_a_replaced_row_moves_two_counts_of_a_column_at_most(neutral):
    rng = np.random.default_rng(6)
    most_moved = 0
    for _ in range(300):
        dim = int(rng.integers(1, 5))
        rows = hostile_rows(rng, int(rng.integers(1, 6)), dim)
        center = centers(rng, dim)
        other = rows.copy()
        other[rng.integers(len(rows))] = hostile_rows(rng, 1, dim)[0]
        log2_parts = int(rng.integers(3))
        before = counted(kernels, rows, center, log2_parts, neutral)
        after = counted(kernels, other, center, log2_parts, neutral)
        change = after - before
        l1 = np.abs(change).sum(axis=1).max()
        l2_sq = (change**2).sum(axis=1).max()
        assert l1 <= 2
        assert l2_sq <= 2
        most_moved = max(most_moved, l1)
    assert most_moved == 2, "the bound is reached"


def test_a_row_that_is_counted_by_its_neighbors_is_caught():
    """Control of the test above: a cell of the distance to the row before moves four counts."""

    def faulty(rows):
        return counted(kernels, np.diff(rows, axis=0, prepend=0.0), np.zeros(1), 0)

    rows = np.array([[1.0], [2.0], [4.0]])
    other = np.array([[1.0], [9.0], [4.0]])
    assert np.abs(faulty(rows) - faulty(other)).sum() > 2


def test_what_is_no_argument_of_counts_is_refused():
    rows = np.ones((3, 2))
    center = np.zeros(2)
    short = np.zeros((2, 5), dtype=np.int64)
    raises(KernelError, "shape", kernels.columns_count, rows, center, 0, False, short)
    raises(KernelError, r"out of range|shape", counted, kernels, rows, center, 3)
    raises(KernelError, "float64 or float32", counted, kernels, rows.astype(int), center, 0)


BOX_OF_TWO = {
    "center": np.zeros(2),
    "lower": -np.ones(2),
    "upper": np.ones(2),
    "middle": np.zeros(2),
    "absent": np.zeros(2),
    "width": np.ones(2),
}


def test_what_is_no_box_is_refused():
    for width in (np.zeros(2), np.ones(3), np.array([1.0, np.nan])):
        raises(InputError, None, ColumnBox, **BOX_OF_TWO | {"width": width})
    above = {"lower": np.full(2, 2.0)}
    raises(InputError, "lower <= upper", ColumnBox, **BOX_OF_TWO | above)


def test_what_is_no_argument_of_boxed_sums_is_refused():
    rows = np.ones((3, 2))
    box = ColumnBox(**BOX_OF_TWO)
    two = RowMap(dim=2, quant_bound=8, inv_step=1.0, limit=1.0)
    three = RowMap(dim=3, quant_bound=8, inv_step=1.0, limit=1.0)
    counts = np.zeros(3, dtype=np.int64)
    raises(KernelError, None, kernels.rows_sum, rows, three, counts, box)
    raises(KernelError, "shape", kernels.rows_sum, rows, two, counts, box)
    edge = np.ones(1)
    raises(KernelError, None, kernels.rows_shell_counts, rows, three, counts[:2], edge, box)
    descending = np.array([2.0, 1.0])
    raises(KernelError, None, kernels.rows_shell_counts, rows, two, counts, descending, box)


def by_columns(rows):
    return Columns(np.ascontiguousarray(column) for column in rows.T)


def counts_of(edges, groups=1):
    return np.zeros(sum(len(cuts) + 1 for cuts in edges) * groups, dtype=np.int64)


GROUPS = 3


def codes(rng, n):
    """Groups of rows, some of them in no group."""
    return rng.integers(-1, GROUPS + 1, n).astype(np.int32)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [0, 1, 8, 301, 1000])
def test_cells_of_groups_equal_those_of_the_twin(dtype, isa, n):
    rng = np.random.default_rng(11)
    rows = hostile_rows(rng, n, 6, dtype)[:, :5]
    code = codes(rng, n)
    edges_by_group = []
    for size in (0, 1, 2, 31, 300) * GROUPS:
        numbers = rng.normal(size=size).astype(dtype)
        edges_by_group.append(np.unique(numbers).astype(float))
    edges = edges_by_group[:5]
    if n > 8:
        rows[:9, 3] = edges[3][:9]  # a number on an edge is in the cell to its right

    def cells(module, given, edges, counts, *by):
        module.columns_cells(given, edges, counts, *by)
        return counts

    for cuts, cut_groups, *by in (
        (edges, 1),
        (edges, GROUPS, code, GROUPS),
        (edges_by_group, 1, code, GROUPS, True),
    ):
        expected = cells(reference, rows, cuts, counts_of(cuts, cut_groups), *by)
        found = cells(kernels, rows, cuts, counts_of(cuts, cut_groups), *by)
        split = cells(kernels, by_columns(rows), cuts, counts_of(cuts, cut_groups), *by)
        assert np.array_equal(found, expected)
        assert np.array_equal(split, expected)
        if not by:
            assert found[0] == np.isfinite(rows[:, 0]).sum(), "a column without edges has one cell"


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [0, 1, 8, 301, 1000])
def test_codes_of_keys_equal_those_of_the_twin(dtype, isa, n):
    column = hostile_rows(np.random.default_rng(11), n, 6, dtype)[:, 1]
    first = column[:50]
    keys = np.unique(np.append(first[np.isfinite(first)], [0.0, 1.5]).astype(float))
    expected = reference.column_codes(column, keys)
    assert np.array_equal(kernels.column_codes(column, keys), expected)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [0, 1, 8, 301, 1000])
def test_moments_of_groups_equal_those_of_the_twin(dtype, isa, n):
    rng = np.random.default_rng(11)
    rows = hostile_rows(rng, n, 6, dtype)[:, :5]

    def moments(module, given, code, middle, steps, squared, bound):
        sums = kernels.moment_sums(len(middle), 5)
        module.group_moments(given, code, middle, steps, squared, bound, sums)
        return sums[..., :5]

    bounds = (2, 7, 2**20 + 3, 2**26)
    for bound, squared, code in itertools.product(bounds, (False, True), (codes(rng, n), None)):
        groups = 1 if code is None else GROUPS
        middle = rng.normal(size=(groups, 5))
        steps = (1 if squared else bound) / rng.random((groups, 5))
        arguments = (code, middle, steps, squared, bound)
        expected = moments(reference, rows, *arguments)
        assert np.array_equal(moments(kernels, rows, *arguments), expected)
        assert np.array_equal(moments(kernels, by_columns(rows), *arguments), expected)


def test_columns_are_joined_to_rows(isa):
    for n, dim in ((0, 3), (300, 1), (256, 8), (700, 13)):
        columns = list(np.random.default_rng(n).normal(size=(dim, n)))
        assert np.array_equal(kernels.columns_join(columns), reference.columns_join(columns))
    raises(KernelError, "one length", kernels.columns_join, [np.zeros(3), np.zeros(4)])


def test_what_is_no_argument_of_groups_is_refused():
    rows = np.zeros((3, 4))
    code = np.zeros(3, dtype=np.int32)
    two = [np.zeros(1), np.ones(1)]
    counts = counts_of(two)
    raises(KernelError, None, kernels.columns_cells, rows[:, :1], two, counts)
    raises(KernelError, None, kernels.columns_cells, rows, two, counts, code[:2], 1)
    raises(KernelError, None, kernels.columns_cells, rows, two, counts, code, 3, True)
    raises(KernelError, None, kernels.columns_cells, rows, two, counts[1:])
    sums = kernels.moment_sums(2, 4)
    box = np.ones((2, 4))
    for middle, bound in ((box[:1], 4), (np.ones((2, 5)), 4), (box, 0), (box, 2**26 + 1)):
        given = (rows, code, middle, middle, False, bound, sums)
        raises(KernelError, None, kernels.group_moments, *given)


# ---- Bins of columns: which bin at every edge, and the same counts however the rows are cut -------------------------
up = math.inf
down = -math.inf
HOSTILE = np.array(
    [
        0.0,
        -0.0,
        5e-324,
        -5e-324,
        2.0**-1074 * 3,
        2.0**-1023,
        2.0**-1022,
        np.nextafter(2.0**-1022, 1),
        1.0,
        2.0,
        3.0,
        0.5,
        -0.5,
        1.5,
        -1.5,
        2.5,
        2.0**1023,
        np.nextafter(2.0**1023, up),
        1.7976931348623157e308,
        np.inf,
        -np.inf,
        np.nan,
        2.0**51,
        2.0**51 + 0.5,
        -(2.0**51) - 0.5,
        2.0**52 - 0.5,
        2.0**52,
        2.0**52 + 1,
        2.0**53,
        2.0**53 + 2,
        -(2.0**53),
        -(2.0**53) - 2,
        1e300,
        -1e300,
    ]
)
RULES = [
    BinRule(),
    BinRule(1.0),
    BinRule(0.1),
    BinRule(0.1, 0.3),
    BinRule(3.0, -1e9),
    BinRule(2.0**-1074),
    BinRule(1e308),
    BinRule(1.0, 0.5),
]


def columns():
    """Bit patterns of all kinds, next to plain numbers."""

    def number_of(word):
        return np.array([word], dtype=np.uint64).view(np.float64)[0]

    def array_of(numbers):
        return np.array(numbers, dtype=np.float64)

    words = st.integers(0, 2**64 - 1).map(number_of)
    halves = st.integers(-(2**12), 2**12).map(lambda half: half / 2)
    number = st.one_of(words, halves, st.floats(-100, 100), st.sampled_from(HOSTILE.tolist()))
    return st.lists(number, min_size=0, max_size=60).map(array_of)


def rules():
    odd_widths = st.sampled_from([1.0, 0.5, 2.0**-30, 1e-300, 1e300])
    widths = st.one_of(st.none(), st.floats(1e-3, 1e3), odd_widths)
    offsets = st.sampled_from([0.0, 0.5, -0.25, 1e5])
    return st.one_of(st.sampled_from(RULES), st.builds(BinRule, widths, offsets))


def same(found, expected):
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


def counts_equal_twin(column, rule):
    same(bins_count(column, rule), bins_twin.bins_count(column, rule))


@given(columns(), rules(), st.integers(1, 40), st.sampled_from([np.float64, np.float32]))
@settings(max_examples=400, deadline=None)
def test_keys_and_counts_equal_twin(values, rule, repeat, dtype):
    with np.errstate(all="ignore"):
        column = np.tile(values, repeat).astype(dtype)
    keys = bins_twin.bins_keys(column, rule)
    for level in LEVELS:
        with instruction_set(level):
            np.testing.assert_array_equal(bins.bins_keys(column, rule), keys)
            counts_equal_twin(column, rule)
            assert bins_count(column, rule)[1].sum() == (keys != NONE).sum()


@pytest.mark.parametrize(
    "rule", [BinRule(1.0), BinRule(1.0, 0.5), BinRule(0.1), BinRule(0.3, -7.1)], ids=repr
)
def test_edges_by_themselves(rule, isa):
    """Nothing else in a block says that a number is near an edge: on either side of it, and of zero."""
    for half in (-7, -3, -1, 1, 3, 8191):
        edge = rule.offset + half / 2 * rule.width
        for value in (np.nextafter(edge, down), edge, np.nextafter(edge, up)):
            for others in (1, 2, 8, 2_000):
                column = np.append(np.full(others, rule.offset), value)
                counts_equal_twin(column, rule)


def by_key(counted_bins):
    keys, counts = counted_bins
    return dict(zip(keys[:, 0].tolist(), counts.tolist(), strict=True))


@pytest.mark.parametrize("spread", [0, 100, 1000])
def test_outside_by_itself(isa, spread):
    """One number that is in no cell of the window, or on its ends, in a block of others: nothing else says so."""
    powers = np.ldexp(1.0, np.array([9, 12, 14, 15, 16, 17, 31, 46, 49, 50, 51, 52, 53, 63]))
    values = np.concatenate([powers, powers - 0.5, 3.0 * powers, [1e300, up, math.nan]])
    others = np.round(np.random.default_rng(spread).uniform(-spread / 2, spread / 2, 512))
    column = np.tile(others, 20)
    rules = [BinRule(1.0)]
    if spread == 100:
        rules.append(BinRule(1.0, 0.5))  # all whole numbers are edges: they are divided
    for rule in rules:
        counts = bins_twin.bins_count(column, rule)
        for value in (*values, *-values):
            key = int(bins_twin.bins_keys(np.array([value]), rule)[0])
            expected = by_key(counts)
            if key != NONE:
                expected[key] = expected.get(key, 0) + 1
            # It comes in the first block, in a later one and in the last, which is not full.
            for place in (3, 5 * 512 + 511, 20 * 512):
                found = bins_count(np.insert(column, place, value), rule)
                assert by_key(found) == expected, value


def test_a_bin_holds_its_lower_edge():
    """The definition, in exact arithmetic: key i holds [(i - 1/2) w, (i + 1/2) w)."""
    rule = BinRule(0.25)
    for half in range(-41, 42, 2):
        edge = half / 2 * 0.25
        key = (half - 1) // 2
        around = np.array([np.nextafter(edge, down), edge, np.nextafter(edge, up)])
        assert bins.bins_keys(around, rule).tolist() == [key, key + 1, key + 1]


def test_a_dyadic_bin_holds_its_upper_edge():
    """The definition, in exact arithmetic: key i holds (2^i, 2^(i + 1)]."""
    for exponent in range(-1073, 1024):
        power = math.ldexp(1.0, exponent)
        around = np.array([np.nextafter(power, 0.0), power, np.nextafter(power, up), -power])
        low = exponent - 1
        # nothing lies between 2^-1074 and 2^-1073
        below = low if exponent > -1073 else exponent - 2
        assert bins.bins_keys(around, BinRule()).tolist() == [below, low, exponent, low]


def test_the_last_whole_numbers_that_have_a_bin():
    column = np.array([2.0**53, -(2.0**53)])
    assert bins.bins_keys(column, BinRule(1.0)).tolist() == [2**53, -(2**53)]


def test_numbers_that_are_in_no_bin():
    column = np.array([np.nan, np.inf, -np.inf, 2.0**54, -(2.0**54), 1e300])
    assert (bins.bins_keys(column, BinRule(1.0)) == NONE).all()
    column = np.array([0.0, -0.0, np.nan, np.inf, -np.inf])
    assert (bins.bins_keys(column, BinRule()) == NONE).all()
    assert len(bins_count(np.full(3000, np.nan), BinRule(1.0))[0]) == 0
    assert len(bins_count(np.empty(0), BinRule(1.0))[0]) == 0


def counted_in_chunks(column, size, rule):
    table = BinTable()
    for begin in range(0, len(column), size):
        table.count(column[begin : begin + size], rule)
    return bins.collect([table], 1)


@pytest.mark.parametrize("rule", [BinRule(), BinRule(1.0), BinRule(0.01), BinRule(1e-7)], ids=repr)
def test_counts_do_not_depend_on_the_cut(rule):
    """Windows are placed by a first chunk that is nothing like the rest, and the hash table has to grow."""
    rng = np.random.default_rng(3)
    heavy = rng.standard_cauchy(20_000)
    x = np.concatenate([np.full(700, 1e6), heavy, rng.normal(size=5_000), HOSTILE])
    expected = bins_twin.bins_count(x, rule)
    for size in (64, 511, 512, 513, 10_000, len(x)):
        same(counted_in_chunks(x, size, rule), expected)
    short = x[:2000]
    for size in (1, 3):
        same(counted_in_chunks(short, size, rule), bins_twin.bins_count(short, rule))
    first = BinTable()
    second = BinTable()
    first.count(x[:9_000], rule)
    second.count(x[9_000:], rule)
    same(bins.collect([second, first], 1), expected)


@given(st.integers(1, 4), st.integers(0, 3000), st.integers(1, 30), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_tuples_equal_twin(words, n, spread, seed):
    keys = np.random.default_rng(seed).integers(-spread, spread, (n, words))
    keys[::7, -1] = NONE
    table = BinTable(words)
    table.insert(keys)
    same(bins.collect([table], words), bins_twin.bins_count_tuples(keys))


class Counted:
    """A function that counts its calls."""

    def __init__(self, function):
        self.function = function
        self.calls = 0

    def __call__(self, *arguments):
        self.calls += 1
        return self.function(*arguments)


@pytest.mark.parametrize("size", [700, 5_000, 60_000])
def test_keys_that_are_sorted_and_keys_of_a_table_give_the_same_counts(size, monkeypatch):
    """Distinct numbers are written down and sorted; the repeated ones after them go back to a window and a hash table."""
    monkeypatch.setattr(bins, "_SORTED_AT_ONCE", 20_000)
    sorts = Counted(BinTable._sort)
    writes = Counted(BinTable._write_down)
    monkeypatch.setattr(BinTable, "_sort", lambda table: sorts(table))
    monkeypatch.setattr(BinTable, "_write_down", lambda table: writes(table))
    rng = np.random.default_rng(6)
    distinct = rng.uniform(0, 2**50, (2, 60_000))
    repeated = rng.integers(0, 5, 30_000) * 2.0**40
    x = np.concatenate([distinct[0], repeated, HOSTILE, distinct[1], [np.nan] * 30_000])
    rule = BinRule(1.0)
    same(counted_in_chunks(x, size, rule), bins_twin.bins_count(x, rule))
    assert writes.calls == 2
    assert sorts.calls >= 6


def test_keys_of_a_table_with_few_slots_are_sorted_a_few_at_a_time(monkeypatch):
    """A table of 2^15 slots of 16 bytes may not have the keys of 2^22 rows beside it: it sorts 2^14 at once."""
    sizes = []
    sort = BinTable._sort

    def noted_sort(table):
        sizes.append(table._counted)
        sort(table)

    monkeypatch.setattr(BinTable, "_sort", noted_sort)
    x = np.random.default_rng(7).uniform(0, 2**50, 200_000)
    table = BinTable(slots=2**15)
    table.count(x, BinRule(1.0))
    same(bins.collect([table], 1), bins_twin.bins_count(x, BinRule(1.0)))
    assert len(sizes) > 10
    assert max(sizes) == 2**14


def test_a_long_table_and_more_rows_than_a_counter_holds(monkeypatch):
    x = np.random.default_rng(0).uniform(0, 2**40, 300_000)
    counts_equal_twin(x, BinRule(1.0))
    assert len(bins_count(x, BinRule(1.0))[0]) > 290_000
    monkeypatch.setattr(bins, "_FLUSH_ROWS", 1000)
    for rule in (BinRule(1.0), BinRule()):
        counts_equal_twin(np.random.default_rng(0).normal(size=10_000), rule)


def test_wrong_forms_are_refused():
    for width in (0.0, -1.0, np.nan, np.inf):
        raises(InputError, "width", BinRule, width)
    raises(InputError, "offset", BinRule, 1.0, np.inf)
    raises(InputError, "1 to 64", BinTable, 65)
    raises(KernelError, "one-dimensional", bins.bins_keys, np.zeros((2, 2)), BinRule(1.0))
    integers = np.zeros(3, dtype=np.int64)
    raises(KernelError, "float64 or float32", bins.bins_keys, integers, BinRule(1.0))
    raises(KernelError, "shape", BinTable(2).insert, integers[:, None])
    table = BinTable()
    table.count(np.zeros(3), BinRule(1.0))
    raises(KernelError, "one rule", table.count, np.zeros(3), BinRule(2.0))
    assert NONE == bins_twin.NONE


# Planted faults: the edge tests must tell them apart.
def test_control_ceil_and_log2_differ():
    edges = np.array([0.25 * (half / 2) for half in range(-41, 42, 2)])
    lower = np.ceil(edges / 0.25 - 0.5).astype(np.int64)
    assert (lower != bins.bins_keys(edges, BinRule(0.25))).all()
    powers = np.ldexp(1.0, np.arange(-300, 300))
    assert (np.floor(np.log2(powers)) != bins.bins_keys(powers, BinRule())).all()


@pytest.mark.parametrize("n", [1, 511, 512, 513, 1023, 1024, 1025, 5000])
@pytest.mark.parametrize("rule", [BinRule(), BinRule(0.5)], ids=["dyadic", "width"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_layouts_around_whole_blocks(n, rule, dtype):
    rows = np.random.default_rng(n).standard_cauchy((n, 3)).astype(dtype)
    apart = np.asfortranarray(rows)[:, 2]
    reverse = rows[:, 1].copy()[::-1]
    constant = np.broadcast_to(rows[:1, 0], (n,))
    for column in (rows[:, 1], rows[::2, 0], rows[::-1, 1], apart, reverse, constant):
        counts_equal_twin(column, rule)


@pytest.mark.parametrize("rule", [BinRule(), BinRule(1e-3)], ids=["dyadic", "width"])
def test_keys_come_out_in_order(rule):
    """From the window and from the hash table, below, inside and above; `merged` then has nothing to sort."""
    heavy = np.random.default_rng(0).standard_cauchy(50_000)
    x = np.concatenate([heavy, [5e-324, -1e308, 1e5, -1e5, 2.0**-1023]])
    table = bins.BinTable()
    table.count(x, rule)
    assert (np.diff(table.collected()[0][:, 0]) > 0).all()
    assert rule.dyadic or table._table.used > 10
