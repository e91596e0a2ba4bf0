"""Cells and boxes of columns: equal bits to the slow twin, one cell for each number, and what the kernels refuse."""

import numpy as np
import pytest

from fastpubpriv import InputError, KernelError
from fastpubpriv.kernels import columns as kernels
from fastpubpriv.maps import ColumnBox
from fastpubpriv.reference import columns as reference

SIDE = [2047 << parts for parts in range(3)]


def hostile_rows(rng, n, dim, dtype=np.float64):
    """Any bit pattern, ordinary numbers, and the notorious ones."""
    size = np.dtype(dtype).itemsize
    bits = rng.integers(0, 256, size=(n, dim, size), dtype=np.uint8)
    rows = bits.view(dtype).reshape(n, dim).copy()
    ordinary = rng.random((n, dim)) < 0.5
    rows[ordinary] = rng.normal(size=int(ordinary.sum())) * 10.0 ** rng.integers(-5, 6)
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


def counted(module, rows, center, log2_parts, neutral=False):
    counts = np.zeros((len(center), module.cells_of_column(log2_parts)), dtype=np.int64)
    module.columns_count(rows, center, log2_parts, neutral, counts)
    return counts


def centers(rng, dim):
    return rng.choice([0.0, 1.5, -3.0, 1e308, -1e308, 5e-324], size=dim)


def a_box(rng, dim, neutral):
    low, high = -(10.0 ** rng.integers(-3, 300, size=dim)), 10.0 ** rng.integers(-3, 300, size=dim)
    return ColumnBox(
        center=centers(rng, dim), lower=low, upper=high, middle=(low + high) / 2, width=(high - low) / 2,
        absent=rng.normal(size=dim), neutral=neutral,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("neutral", [False, True])
@pytest.mark.parametrize("log2_parts", [0, 1, 2])
def test_counts_equal_those_of_the_twin(isa, dtype, neutral, log2_parts):
    rng = np.random.default_rng(log2_parts)
    for dim in (1, 2, 7, 65):
        rows, center = hostile_rows(rng, 400, dim, dtype), centers(rng, dim)
        if neutral:
            rows[::3] = np.where(np.isfinite(rows[::3]), rows[::3], 1.0)
        found = counted(kernels, rows, center, log2_parts, neutral)
        assert np.array_equal(found, counted(reference, rows, center, log2_parts, neutral))
        assert found.sum(axis=1).tolist() == [400] * dim  # every row in exactly one cell of each column
        missing = ~np.isfinite(rows)
        if neutral:
            missing[missing.any(axis=1)] = True
        assert found[:, -1].tolist() == missing.sum(axis=0).tolist()
        parts = sum(counted(kernels, piece, center, log2_parts, neutral) for piece in np.array_split(rows, 7))
        assert np.array_equal(found, parts)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("neutral", [False, True])
def test_boxes_equal_those_of_the_twin(isa, dtype, neutral):
    rng = np.random.default_rng(5)
    for dim in (1, 3, 9, 70):
        rows, box = hostile_rows(rng, 300, dim, dtype), a_box(rng, dim, neutral)
        found = kernels.columns_box(rows, box)
        assert found.tobytes() == reference.columns_box(rows, box).tobytes()
        whole = np.isfinite(rows).all(axis=1)
        assert np.isfinite(found[whole]).all()
        assert np.isnan(found[~whole]).all() == neutral or whole.all()
        alone = np.concatenate([kernels.columns_box(rows[k : k + 1], box) for k in range(len(rows))])
        assert alone.tobytes() == found.tobytes()


@pytest.mark.parametrize("log2_parts", [0, 1, 2])
def test_numbers_on_and_beside_edges_of_cells(isa, log2_parts):
    """About a centre that is exact, in each lane of a vector: an edge belongs to the cell below it, on either side."""
    sizes = np.ldexp(1.0 + np.arange(1 << log2_parts) / (1 << log2_parts), np.arange(-1022, 1024)[:, None]).ravel()
    first = (1 << log2_parts) - 1  # the least ordinary number ends the last cell of the subnormal ones
    for center, kept in ((0.0, sizes), (1.0, sizes[(sizes > 2.0**-40) & (sizes < 2.0**40)])):
        cell = first + np.flatnonzero(np.isin(sizes, kept))
        for sign, side in ((1.0, 0), (-1.0, SIDE[log2_parts])):
            beyond = np.nextafter(kept, np.inf) if center == 0.0 else kept + kept * 2.0**-10
            for numbers, shift in ((kept, 0), (beyond, 1)):
                column = center + sign * numbers
                expected = np.bincount(cell + shift + side, minlength=2 * SIDE[log2_parts] + 2)
                assert np.array_equal(counted(kernels, column[:, None], np.array([center]), log2_parts)[0], expected)
                square = np.lib.stride_tricks.sliding_window_view(column, 8)  # rows that share numbers
                apart = [np.isin(np.arange(len(column)), range(k, k + len(square))) for k in range(8)]
                together = [np.bincount((cell + shift + side)[each], minlength=len(expected)) for each in apart]
                assert np.array_equal(counted(kernels, square, np.full(8, center), log2_parts), together)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_apart_are_counted_and_boxed_as_rows_together(isa, dtype):
    rng = np.random.default_rng(8)
    for dim in (3, 50, 530):
        wide = hostile_rows(rng, 61, dim + 3, dtype)
        center, box = centers(rng, dim), a_box(rng, dim, False)
        for rows in (wide[:, 2 : dim + 2], wide[::2, :dim], wide[::-1, :dim]):
            together = np.ascontiguousarray(rows)
            assert np.array_equal(counted(kernels, rows, center, 1), counted(reference, together, center, 1))
            assert kernels.columns_box(rows, box).tobytes() == reference.columns_box(together, box).tobytes()


@pytest.mark.parametrize(
    ("value", "log2_parts", "cell"),
    [
        (1.0, 0, 1022),  # (1/2, 1]
        (np.nextafter(1.0, 2.0), 0, 1023),
        (-1.0, 0, SIDE[0] + 1022),
        (1.25, 2, 4 * 1023),  # (1, 1.25]
        (1.5, 1, 2 * 1023),
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


def test_a_distance_that_overflows_is_in_the_last_cell():
    found = counted(kernels, np.array([[1.7e308], [-1.7e308]]), np.array([-1.7e308]), 0)
    assert np.flatnonzero(found[0]).tolist() == [SIDE[0] - 1, 2 * SIDE[0]]


def moved(rows, other, center, log2_parts, neutral):
    change = counted(kernels, rows, center, log2_parts, neutral) - counted(kernels, other, center, log2_parts, neutral)
    return np.abs(change).sum(axis=1), (change**2).sum(axis=1)


@pytest.mark.parametrize("neutral", [False, True])
def test_a_replaced_row_moves_two_counts_of_a_column_at_most(neutral):
    rng = np.random.default_rng(6)
    most = 0
    for _ in range(300):
        dim = int(rng.integers(1, 5))
        rows, center = hostile_rows(rng, int(rng.integers(1, 6)), dim), centers(rng, dim)
        other = rows.copy()
        other[rng.integers(len(rows))] = hostile_rows(rng, 1, dim)[0]
        l1, l2 = moved(rows, other, center, int(rng.integers(3)), neutral)
        assert l1.max() <= 2
        assert l2.max() <= 2
        most = max(most, l1.max())
    assert most == 2


def test_a_row_that_is_counted_by_its_neighbours_is_caught():
    """Control of the test above: a cell of the distance to the row before moves four counts."""

    def faulty(rows):
        return counted(kernels, np.diff(rows, axis=0, prepend=0.0), np.zeros(1), 0)

    rows = np.array([[1.0], [2.0], [4.0]])
    other = np.array([[1.0], [9.0], [4.0]])
    assert np.abs(faulty(rows) - faulty(other)).sum() > 2


def test_what_is_no_kernel_argument_is_refused():
    rows, center = np.ones((3, 2)), np.zeros(2)
    with pytest.raises(KernelError, match="shape"):
        kernels.columns_count(rows, center, 0, False, np.zeros((2, 5), dtype=np.int64))
    with pytest.raises(KernelError, match=r"out of range|shape"):
        counted(kernels, rows, center, 3)
    with pytest.raises(KernelError, match="float64 or float32"):
        counted(kernels, rows.astype(int), center, 0)
    box = {"center": center, "lower": -np.ones(2), "upper": np.ones(2), "middle": center, "absent": center}
    for width in (np.zeros(2), np.ones(3), np.array([1.0, np.nan])):
        with pytest.raises(InputError):
            ColumnBox(**box, width=width)
    with pytest.raises(InputError, match="lower <= upper"):
        ColumnBox(**{**box, "lower": 2.0 * np.ones(2)}, width=np.ones(2))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_cells_between_edges_equal_those_of_the_twin(dtype):
    rng = np.random.default_rng(11)
    for n in (0, 1, 8, 301):
        rows = hostile_rows(rng, n, 6, dtype)[:, :5]
        edges = [np.unique(rng.normal(size=count).astype(dtype)).astype(np.float64) for count in (0, 1, 2, 31, 200)]
        if n > 8:
            rows[:9, 3] = edges[3][:9]  # a number on an edge is in the cell to its right
        found, expected = (np.zeros(sum(map(len, edges)) + 5, dtype=np.int64) for _ in range(2))
        kernels.columns_cells(rows, edges, found)
        reference.columns_cells(rows, edges, expected)
        assert np.array_equal(found, expected)
        assert found[0] == np.isfinite(rows[:, 0]).sum()
    with pytest.raises(KernelError):
        kernels.columns_cells(np.zeros((3, 4)), edges, found)
    with pytest.raises(KernelError):
        kernels.columns_cells(np.zeros((3, 5)), edges[:4], found)
