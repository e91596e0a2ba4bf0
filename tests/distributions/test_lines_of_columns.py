"""Lines of columns from their signed counts: rows, tails, bounds, and columns that do not depend on those beside them."""

from dataclasses import fields, replace

import numpy as np
import pytest

from fastpubpriv import ZCDP
from fastpubpriv.distributions.budget_split import divide
from fastpubpriv.distributions.columns import columns_clipped, lines_of
from fastpubpriv.distributions.line import tails
from fastpubpriv.distributions.support import SignedCounts, Support, edges_of
from fastpubpriv.privacy.spending import GaussianSpending

N = 20_000
PARTS = [0, 1, 2]  # logarithms of the cells of an octave
NO_BOUNDS = np.array([[-np.inf, np.inf]])


def shares_of(log2_parts):
    shares = divide(1, N, GaussianSpending(ZCDP(0.05).rho))
    return replace(shares, log2_parts=log2_parts)


def column_of(log2_parts, *, below=None, above=None, seed=0, center=0.0):
    """Counts with noise 10 and, up to the outermost cells, rows that fall by half an octave towards the center."""
    rng = np.random.default_rng(seed)
    parts = 1 << log2_parts
    counts = rng.normal(scale=10.0, size=(2, 2047 * parts))
    for side, last in zip(counts, (below, above), strict=True):
        if last is not None:
            begin = max(0, last + 1 - 8 * parts)
            side[begin : last + 1] += (
                5_000.0 / parts * 0.5 ** (np.arange(last, begin - 1, -1) / parts)
            )
    nothing = np.zeros(0, dtype=np.int64)
    counted = SignedCounts(
        center=center,
        values=counts,
        variances=np.full(counts.shape, 100.0),
        zero=40.0,
        missing=0.0,
        public_below=nothing,
        public_above=nothing,
    )
    return counted, Support(below=below, above=above, anchored=True, referenced=True)


def some_columns(log2_parts):
    """Columns with both sides, with one, with none, and with rows at both ends of the doubles."""
    one = 1023 << log2_parts
    last = (2047 << log2_parts) - 1
    places = [(one, one + 3), (None, one), (one - 9, None), (None, None), (0, 0), (last, last)]
    return [
        column_of(log2_parts, below=below, above=above, seed=seed)
        for seed, (below, above) in enumerate(places)
    ]


@pytest.mark.parametrize("log2_parts", PARTS)
def test_the_line_of_a_column_does_not_depend_on_those_beside_it(log2_parts):
    shares = shares_of(log2_parts)
    columns = some_columns(log2_parts)
    line, sides = lines_of(*zip(*columns, strict=True), [shares] * len(columns))
    for place, (counted, scale) in enumerate(columns):
        alone, own_sides = lines_of([counted], [scale], [shares])
        for given, whole in ((alone, line), (own_sides, sides)):
            for field in fields(given):
                own = getattr(given, field.name)[0]
                assert np.array_equal(own, getattr(whole, field.name)[place]), field.name


@pytest.mark.parametrize("log2_parts", PARTS)
def test_whole_octaves_further_out_change_the_exponent_alone(log2_parts):
    """Octaves among normal numbers: counts, and so lines, are the same bits in units of another power of two."""
    shares = shares_of(log2_parts)
    cell = 1023 << log2_parts
    octaves = 37
    near, scale = column_of(log2_parts, below=cell, above=cell + 2)
    moved = octaves << log2_parts
    far = replace(near, values=np.roll(near.values, moved, axis=1))
    far_scale = replace(scale, below=cell + moved, above=cell + 2 + moved)
    line, _ = lines_of([near], [scale], [shares])
    other, _ = lines_of([far], [far_scale], [shares])
    assert other.exponent == line.exponent + octaves
    for name in ("edges", "rows", "variance", "spread", "hidden"):
        assert np.array_equal(getattr(other, name), getattr(line, name)), name


@pytest.mark.parametrize("log2_parts", PARTS)
def test_a_line_holds_all_rows_and_ascends(log2_parts):
    columns = some_columns(log2_parts)
    line, _ = lines_of(*zip(*columns, strict=True), [shares_of(log2_parts)] * len(columns))
    assert line.rows.sum(axis=1) == pytest.approx(N)
    # but for the ends of the doubles, beyond which there are no cells
    assert np.all(np.diff(line.edges[:5], axis=1) >= 0.0)
    middle = line.edges.shape[1] // 2
    assert np.all(line.edges[:, middle - 1 : middle + 1] == 0.0)  # the cell of the center


def test_cells_of_the_line_are_those_of_the_counts_and_tails_follow_them():
    """One cell an octave, the outermost one (1, 2]: cells of (2, 4] ... (32, 64] hold what `tails` says of the counts."""
    cell = 1023
    counted, scale = column_of(0, above=cell)
    line, _ = lines_of([counted], [scale], [shares_of(0)])
    assert edges_of(0)[cell + 1] == 2.0
    unit = 2.0 ** line.exponent[0]
    assert np.array_equal(unit * line.edges[0, -6:], [2.0, 4.0, 8.0, 16.0, 32.0, 64.0])
    _, above = counted.values
    assert np.array_equal(line.rows[0, -8:-5], above[cell - 2 : cell + 1])
    ten = np.full((1, 5), 10.0)
    octaves = above[None, [cell, cell - 1]]
    tail = tails(octaves, ten[:, :2], above[None, cell + 1 : cell + 6], ten)
    assert np.array_equal(line.rows[:, -5:], tail.rows)
    assert np.array_equal(line.spread[:, -5:], tail.spread)
    assert np.array_equal(line.hidden[:, -5:], tail.hidden)
    assert np.all(line.variance[:, -5:] == 0.0)  # their errors are common


def test_cells_of_an_octave_beyond_share_its_rows_as_a_power_law_has_them():
    """Two cells an octave: those of (l, u] hold shares of l^-1.5 - u^-1.5."""
    counted, scale = column_of(1, above=2046)
    line, _ = lines_of([counted], [scale], [shares_of(1)])
    lower = line.lower[0, -10:]
    upper = line.upper[0, -10:]
    law = (lower**-1.5 - upper**-1.5).reshape(5, 2)
    shares = line.hidden[0, -10:].reshape(5, 2)
    expected = law / law.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shares / shares.sum(axis=1, keepdims=True), expected, rtol=1e-12)


def test_within_bounds_nothing_is_clipped_or_hidden_beyond_them():
    counted, scale = column_of(2, below=4092, above=4100, center=10.0)
    shares = shares_of(2)
    public = np.array([[10.0]])
    free = columns_clipped([counted], [scale], [shares], NO_BOUNDS, public)
    bounds = np.array([[9.0, 11.5]])
    columns = columns_clipped([counted], [scale], [shares], bounds, public)
    box = columns.box
    assert free.box.placed(free.box.upper)[0] > 11.5
    assert box.placed(box.lower)[0] >= 9.0
    assert box.placed(box.upper)[0] <= 11.5
    assert np.all(box.hidden <= free.box.hidden)
