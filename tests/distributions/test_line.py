"""The counted line: excess and moments against numbers drawn in its cells, boxes against a search, tails against a slow twin."""

from dataclasses import replace

import numpy as np
import pytest

from fastpubpriv.distributions import tuning
from fastpubpriv.distributions.line import TINY, Line, shrunk, tails


def some_line(seed=0, lines=3, cells=12):
    rng = np.random.default_rng(seed)
    return Line(
        center=rng.normal(size=lines),
        exponent=rng.integers(-3, 4, size=lines),
        edges=np.sort(rng.normal(size=(lines, cells + 1)), axis=1),
        rows=rng.uniform(0.0, 90.0, size=(lines, cells)),
        variance=rng.uniform(1.0, 9.0, size=(lines, cells)),
        spread=rng.uniform(0.0, 3.0, size=(lines, cells)),
        hidden=rng.uniform(50.0, 120.0, size=(lines, cells)),
    )


def drawn_in_cells(line, rows, rng):
    """So many numbers, uniform in each cell of a single line."""
    cells = zip(line.lower[0], line.upper[0], rows, strict=True)
    return np.concatenate([rng.uniform(lower, upper, size) for lower, upper, size in cells])


def mean_excess(lower, upper, point, sign):
    """Mean of max(sign (x - point), 0) over [lower, upper], from a fine grid."""
    values = lower + (upper - lower) * (np.arange(20_000) + 0.5) / 20_000
    return np.maximum(sign * (values - point), 0.0).mean()


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_an_excess_is_that_of_uniform_cells(sign):
    line = some_line()
    points = np.array([[-1.2, -0.1, 0.3], [0.0, 0.4, 0.9], [-2.0, 0.1, 3.0]])
    excess = line.excess(points, sign)
    for row in range(3):
        ends = list(zip(line.lower[row], line.upper[row], strict=True))
        for column in range(3):
            over = np.array([mean_excess(*end, points[row, column], sign) for end in ends])
            total = (over * line.rows[row]).sum()
            hidden = (over * np.maximum(line.hidden[row] - line.rows[row], 0.0)).sum()
            assert excess.total[row, column] == pytest.approx(total, rel=1e-6, abs=1e-6)
            assert excess.hidden[row, column] == pytest.approx(hidden, rel=1e-6, abs=1e-6)


def test_the_variance_of_an_excess_has_a_part_for_counts_predictions_and_positions():
    """One cell [0, 2) and the point 1: over is 1/4 and the part beyond the point has length 1."""
    line = Line(
        center=np.zeros(1),
        exponent=np.zeros(1, dtype=np.int64),
        edges=np.array([[0.0, 2.0]]),
        rows=np.array([[6.0]]),
        variance=np.array([[0.0]]),
        spread=np.array([[0.0]]),
        hidden=np.array([[0.0]]),
    )
    point = np.array([[1.0]])
    of_positions = 6.0**2 / 12.0
    assert line.excess(point, 1.0).variance[0, 0] == of_positions
    counted = replace(line, variance=np.array([[16.0]]))
    assert counted.excess(point, 1.0).variance[0, 0] == of_positions + 16.0 / 4.0**2
    predicted = replace(line, spread=np.array([[8.0]]))
    assert predicted.excess(point, 1.0).variance[0, 0] == of_positions + (8.0 / 4.0) ** 2


def test_predictions_of_all_cells_are_wrong_together():
    """Two cells with over 1 and 3 and deviations 2 and 1: (2 + 3)^2, not 4 + 9."""
    line = replace(
        some_line(lines=1, cells=2),
        edges=np.array([[0.0, 2.0, 4.0]]),
        rows=np.zeros((1, 2)),
        variance=np.zeros((1, 2)),
        spread=np.array([[2.0, 1.0]]),
    )
    assert line.excess(np.zeros((1, 1)), 1.0).variance[0, 0] == 25.0


@pytest.mark.parametrize(("bias", "corrected"), [(0.0, True), (0.05, True), (1.0, False)])
def test_a_box_is_the_best_of_all_pairs_of_points(bias, corrected):
    line = some_line(2)
    lower = np.sort(np.random.default_rng(3).uniform(-2.0, 0.5, size=(3, 8)), axis=1)
    upper = np.sort(np.random.default_rng(4).uniform(-0.5, 2.0, size=(3, 9)), axis=1)
    box = line.clip(lower, upper, noise=11.0, bias=bias, corrected=corrected)

    def error(row, low, high):
        below = line.excess(np.full((3, 1), low), -1.0)
        above = line.excess(np.full((3, 1), high), 1.0)
        taken = below.total + above.total
        if corrected:
            taken = shrunk(below.total, below.variance) + shrunk(above.total, above.variance)
        noise = (high - low) / 2.0 * 11.0
        risk = below.variance + above.variance + bias * taken**2
        return noise**2 + risk[row, 0]

    for row in range(3):
        pairs = [(low, high) for low in lower[row] for high in upper[row] if low <= high]
        best = min(pairs, key=lambda pair: error(row, *pair))
        assert (box.lower[row], box.upper[row]) == best


def test_a_box_restores_the_mean_of_what_it_clips():
    """Values drawn in the cells: the clipped sum and the correction give back their mean, within the error of the draw."""
    rng = np.random.default_rng(5)
    line = some_line(6, lines=1)
    rows = np.round(1000.0 * line.rows[0]).astype(int)
    values = drawn_in_cells(line, rows, rng)
    exact = replace(
        line, rows=rows[None].astype(float), variance=np.zeros((1, 12)), spread=np.zeros((1, 12))
    )
    box = exact.box(np.array([-0.2]), np.array([2.5]))
    clipped = (np.clip(values, -0.2, 2.5) - box.middle) / box.half
    total = np.array([clipped.sum()])
    n = np.array([float(len(values))])
    # Part of the correction is shrunk away: nobody knows where in its cell the mass of a cell lies.
    error_std = float(np.sqrt(box.variance[0])) / len(values)
    assert abs(box.decode(total, n)[0] - values.mean()) < error_std
    assert np.clip(values, -0.2, 2.5).mean() - values.mean() > 4.0 * error_std
    planted = replace(box, half=1.5 * box.half)  # not the box that encoded
    assert abs(planted.decode(total, n)[0] - values.mean()) > 4.0 * error_std


def test_no_cell_lies_beyond_bounds():
    line = some_line(7)
    lowest = line.center - 0.3
    highest = line.center + 0.4
    cut = line.within(lowest, highest)
    assert np.all(cut.edges >= cut.relative(lowest)[:, None])
    assert np.all(cut.edges <= cut.relative(highest)[:, None])
    beyond = cut.excess(cut.relative(highest)[:, None], 1.0)
    assert np.all(beyond.total == 0.0)
    assert np.all(beyond.hidden == 0.0)


def test_moments_are_those_of_numbers_in_the_cells():
    rng = np.random.default_rng(8)
    line = some_line(9, lines=1)
    rows = np.round(2000.0 * line.rows[0]).astype(int)
    values = drawn_in_cells(line, rows, rng)
    whole = line.moments()
    clipped = line.moments(line.box(np.array([-0.5]), np.array([0.6])))
    for moments, drawn in ((whole, values), (clipped, np.clip(values, -0.5, 0.6))):
        about = drawn - drawn.mean()
        assert moments.mean[0] == pytest.approx(drawn.mean(), abs=0.01)
        # A cell that holds a clip point is taken as uniform up to it.
        assert moments.variance[0] == pytest.approx((about**2).mean(), rel=0.06)
        assert moments.fourth[0] == pytest.approx((about**4).mean(), rel=0.1)


def test_a_line_of_squares_holds_the_same_rows_by_their_squared_distance():
    rng = np.random.default_rng(10)
    line = some_line(11, lines=1)
    rows = np.round(2000.0 * line.rows[0]).astype(int)
    values = drawn_in_cells(line, rows, rng)
    squares = line.squares_about(0.2)
    assert squares.rows.sum() == pytest.approx(line.rows.sum())
    drawn = (values - 0.2) ** 2
    for point in (0.05, 0.4, 1.0):
        excess = squares.excess(np.array([[point]]), 1.0).total[0, 0]
        expected = np.maximum(drawn - point, 0.0).sum() / 2000.0
        assert excess == pytest.approx(expected, rel=0.05, abs=0.5)
    assert squares.second_moment() == pytest.approx((drawn**2).sum() / 2000.0, rel=0.02)


def test_a_line_does_not_depend_on_those_beside_it():
    line = some_line(12)
    points = np.linspace(-1.0, 1.0, 5)[None]
    together = line.clip(points, points, noise=7.0, bias=0.05)
    for row in range(3):
        part = slice(row, row + 1)
        names = ("center", "exponent", "edges", "rows", "variance", "spread", "hidden")
        own = Line(**{name: getattr(line, name)[part] for name in names})
        alone = own.clip(points, points, noise=7.0, bias=0.05)
        assert alone.lower == together.lower[row]
        assert alone.upper == together.upper[row]
        assert alone.back == together.back[row]


def test_a_power_of_two_changes_no_bit():
    line = some_line(13)
    larger = replace(line, edges=8.0 * line.edges)
    points = np.linspace(-1.0, 1.0, 6)[None]
    box = line.clip(points, points, noise=5.0)
    scaled = larger.clip(8.0 * points, 8.0 * points, noise=5.0)
    assert np.array_equal(scaled.lower, 8.0 * box.lower)
    assert np.array_equal(scaled.back, 8.0 * box.back)
    assert np.array_equal(scaled.variance, 64.0 * box.variance)


# ---- Tails -----------------------------------------------------------------------------------------------------------
def slow_tail(last, inner, std, inner_std, beyond, stds):
    """Section 3 of the specification of the counted line, octave by octave: rows, spread and hidden rows."""
    now = max(last, std / 2.0)
    ratio = min(0.5, now / max(inner, inner_std / 2.0))
    most = max(last + std, TINY)
    most_ratio = min(0.5, most / max(inner - inner_std, inner_std / 2.0))
    octaves = []
    for counted, noise in zip(beyond, stds, strict=True):
        allowed = ratio * now
        weight = noise**2 / (noise**2 + (allowed / 2.0) ** 2)
        rows = min(max(0.3 * weight * allowed + (1.0 - weight) * counted, 0.0), allowed)
        ratio = min(ratio, rows / now) if now > 0.0 else ratio
        bound = min(max(counted, 0.0) + 2.0 * noise, most_ratio * most)
        most_ratio = min(most_ratio, bound / most)
        octaves.append((rows, min(noise, allowed / 2.0), max(bound, rows)))
        now = rows
        most = max(bound, TINY)
    return np.array(octaves).T


@pytest.mark.parametrize(
    ("last", "beyond"),
    [(500.0, 10.0), (-500.0, 10.0), (500.0, -50.0), (0.0, 0.0), (1e15, 1e14), (20.0, 1e9)],
    ids=["ordinary", "negative", "negative beyond", "noise alone", "huge", "more beyond"],
)
def test_tails_are_those_of_the_formulas(last, beyond):
    rng = np.random.default_rng(14)
    octaves = last + rng.normal(0.0, 20.0, size=(40, 2))
    stds = rng.uniform(1.0, 15.0, size=(40, 2))
    counts = beyond + rng.normal(0.0, 20.0, size=(40, 5))
    noise = rng.uniform(1.0, 15.0, size=(40, 5))
    fast = tails(octaves, stds, counts, noise)
    for place in range(40):
        slow = slow_tail(*octaves[place], *stds[place], counts[place], noise[place])
        np.testing.assert_allclose(np.array(fast)[:, place], slow, rtol=1e-9, atol=1e-9)


def test_counts_without_noise_are_believed_where_the_rule_allows_them():
    """From 64 rows on, 8 in place of 32, then at most an eighth of the octave before: 1, and nothing."""
    zeros = np.zeros((1, 2))
    little = np.full((1, 3), 1e-9)
    tail = tails(np.array([[64.0, 128.0]]), zeros, np.array([[8.0, 7.0, 0.0]]), little)
    np.testing.assert_allclose(tail.rows, [[8.0, 1.0, 0.0]], atol=1e-6)
    np.testing.assert_allclose(tail.hidden, [[8.0, 1.0, 0.0]], atol=1e-6)
    np.testing.assert_allclose(tail.spread, 0.0, atol=1e-6)


def test_rows_beyond_fall_by_at_least_half_an_octave_whatever_is_counted():
    rng = np.random.default_rng(15)
    for scale in (0.0, 1.0, 1e6, 1e18):
        octaves = scale * rng.normal(size=(200, 2))
        beyond = scale * rng.normal(size=(200, 5))
        stds = np.full((200, 5), 3.0)
        tail = tails(octaves, stds[:, :2], beyond, stds)
        first = np.maximum(octaves[:, 0], 1.5)
        before = np.concatenate([first[:, None], tail.rows[:, :-1]], axis=1)
        assert np.isfinite(np.array(tail)).all()
        assert np.all(tail.rows >= 0.0)
        assert np.all(tail.rows <= tuning.LARGEST_RATIO * before)
        assert np.all(tail.hidden >= tail.rows)


def test_a_cliff_has_hardly_a_tail_and_a_power_law_has_one():
    octaves = np.array([[10_000.0, 10_000.0], [64.0, 128.0]])
    beyond = np.array([[0.0] * 5, [32.0, 16.0, 8.0, 4.0, 2.0]])
    ones = np.ones((2, 5))
    tail = tails(octaves, ones[:, :2], beyond, ones)
    assert tail.rows[0].sum() < 10.0
    np.testing.assert_allclose(tail.rows[1], beyond[1], atol=2.0)


def test_no_rows_lie_beyond_the_largest_double():
    """Octaves without cells have counts without noise: deviation zero."""
    tail = tails(np.full((1, 2), 90.0), np.ones((1, 2)), np.zeros((1, 5)), np.zeros((1, 5)))
    assert np.all(np.array(tail) == 0.0)


def test_what_noise_explains_is_not_put_back():
    excess = np.array([10.0, 10.0, 3.0, -3.0, 0.0])
    variance = np.array([0.0, 25.0, 9.0, 1.0, 1.0])
    assert shrunk(excess, variance).tolist() == [10.0, 7.5, 0.0, 0.0, 0.0]
    # Cells of noise alone: what they add to a sum is a fraction of the noise, and what is surely there stays.
    noise = np.random.default_rng(16).normal(size=4000)
    added = shrunk(noise, np.ones(4000))
    assert np.sqrt(np.mean(added**2)) < 0.6 * np.sqrt(np.mean(np.maximum(noise, 0.0) ** 2))
