"""Counts of cells and codes, and sums of statistics: exact queries, sensitivities, prices, refusals."""

from fractions import Fraction

import numpy as np
import pytest
from helpers import accounts
from releases import release_cell_counts, release_code_counts, release_statistic_sum

from fastpubpriv import ZCDP, ApproxDP, BudgetError, KernelError, PureDP, Rows, SeededNoiseWarning
from fastpubpriv.privacy import GaussianEvent, LaplaceEvent
from fastpubpriv.release.transcript import recording
from fastpubpriv.sources.fold import Executor

EXECUTOR = Executor(threads=1, progress=False)
EDGES = [np.array([-1.0, 0.0, 2.5]), np.array([100.0])]
HOSTILE = [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, -0.0, 0.0, -1.0, 2.5, np.nextafter(2.5, 3.0)]


def opened(budget=None, draws=100, seed=None):
    return accounts.opened(PureDP(1) if budget is None else budget, draws, random_state=seed)


def exact(release, rows, **options):
    """The integers that a release asked about, in rows, and what came out."""
    with recording() as transcript:
        released = release(Rows.from_array(rows), **options)
    call = transcript.calls[0]
    return call.query * call.unit, call, released


def cells(rows, *, account=None, cost=None, gaussian=False, edges=EDGES):
    account = opened() if account is None else account
    cost = account.allowance if cost is None else cost
    return release_cell_counts(account, rows, edges, name="cells", cost=cost, executor=EXECUTOR, gaussian=gaussian)


def test_counts_are_those_of_numpy():
    rows = np.random.default_rng(0).normal(scale=3.0, size=(5000, 2)) + np.array([0.0, 99.0])
    found, _, released = exact(cells, rows)
    expected = [
        np.histogram(rows[:, j], bins=np.concatenate([[-np.inf], cuts, [np.inf]]))[0] for j, cuts in enumerate(EDGES)
    ]
    assert np.allclose(found, np.concatenate(expected))
    assert np.abs(released.value - found).max() < 60.0 * released.noise_std  # e^-80


def test_edges_and_values_without_a_cell():
    rows = np.array([[-1.0, 0.0], [-0.0, 100.0], [2.5, np.nan], [np.nan, np.inf], [-np.inf, 1e308], [1e308, -1e308]])
    found, _, _ = exact(cells, rows)
    assert np.allclose(found, [0, 1, 1, 2, 2, 2])  # a value on an edge is right of it; no cell for what is not finite


@pytest.mark.parametrize("columns", [1, 2])
def test_cells_cost_what_was_asked_for(columns):
    rows = np.zeros((10, columns))
    _, call, released = exact(cells, rows, edges=EDGES[:columns])
    assert isinstance(call.event, LaplaceEvent)
    assert Fraction(99, 100) < call.event.epsilon <= 1
    assert call.event.l1_sensitivity == 2 * round(1.0 / call.unit) * columns
    assert released.noise_std == pytest.approx(np.sqrt(2.0) * 2.0 * columns, rel=1e-3)
    account = opened(ZCDP(Fraction(1, 2)))
    _, call, released = exact(
        cells, rows, edges=EDGES[:columns], account=account, cost=account.allowance, gaussian=True
    )
    assert isinstance(call.event, GaussianEvent)
    assert Fraction(49, 100) < call.event.rho <= Fraction(1, 2)
    assert call.event.squared_sensitivity == 2 * round(1.0 / call.unit) ** 2 * columns
    assert released.noise_std == pytest.approx(np.sqrt(columns * 2.0), rel=1e-3)


def test_a_replaced_row_moves_no_more_than_declared():
    rng = np.random.default_rng(1)
    worst = 0
    for _ in range(150):
        rows = rng.normal(scale=3.0, size=(7, 2))
        other = rows.copy()
        rows[3] = [HOSTILE[rng.integers(len(HOSTILE))], HOSTILE[rng.integers(len(HOSTILE))]]
        other[3] = [HOSTILE[rng.integers(len(HOSTILE))], rng.normal(scale=100.0)]
        (_, one, _), (_, two, _) = exact(cells, rows), exact(cells, other)
        moved = int(np.abs(one.query - two.query).sum())
        worst = max(worst, moved)
        assert moved <= one.event.l1_sensitivity
    assert worst == one.event.l1_sensitivity  # reached


def sorted_code(chunk):
    return [np.where(np.isfinite(chunk[:, 0]), np.clip(chunk[:, 0], -2, 5), -1.0).astype(np.int64)]


def coded(rows, *, account=None, codes=sorted_code, sizes=(4,)):
    account = opened() if account is None else account
    return release_code_counts(
        account, rows, codes, list(sizes), name="codes", cost=account.allowance, row_cost=10, executor=EXECUTOR
    )


def test_codes_outside_count_for_nothing():
    rows = np.array([[0.0], [0.5], [3.0], [4.0], [-2.0], [np.nan], [np.inf]])
    found, call, _ = exact(coded, rows)
    assert np.allclose(found, [2, 0, 0, 1])
    assert call.event.l1_sensitivity == 2 * round(1.0 / call.unit)


def test_several_codings_share_the_price():
    rows = np.arange(12.0)[:, None] % 3
    found, call, released = exact(
        coded,
        rows,
        codes=lambda chunk: [chunk[:, 0].astype(np.int64), (chunk[:, 0] > 0).astype(np.int64)],
        sizes=(3, 2),
    )
    assert np.allclose(found, [4, 4, 4, 4, 8])
    assert call.event.l1_sensitivity == 4 * round(1.0 / call.unit)
    assert call.event.epsilon <= 1
    assert released.noise_std == pytest.approx(np.sqrt(2.0) * 4.0, rel=1e-3)


def summed(rows, *, statistic, account=None, dim=2, radius=3.0, cost=None):
    account = opened(ZCDP(1)) if account is None else account
    return release_statistic_sum(
        account, rows, statistic, name="sum", dim=dim, radius=radius,
        cost=account.allowance if cost is None else cost, row_cost=10, executor=EXECUTOR,
    )  # fmt: skip


def test_statistics_are_clipped_whatever_they_say():
    # A statistic that breaks its own promise: one row far beyond the radius, one not finite.
    def statistic(chunk):
        out = np.ones((len(chunk), 2))
        out[chunk[:, 0] == 1.0] = [1e200, -1e200]
        out[chunk[:, 0] == 2.0] = [np.nan, 1.0]
        return out

    found, call, _ = exact(summed, np.array([[0.0], [1.0], [2.0]]), statistic=statistic)
    expected = np.array([1.0, 1.0]) + 3.0 / np.sqrt(2.0) * np.array([1.0, -1.0])
    assert np.allclose(found, expected, atol=1e-5)
    assert int(np.sum(call.query.astype(object) ** 2)) <= 4 * int(call.event.squared_sensitivity)


def test_statistics_move_by_twice_the_radius_at_most():
    def statistic(chunk):
        return chunk * 1e9

    one, two = (exact(summed, np.array([[0.0, 0.0], [sign, 0.0]]), statistic=statistic)[1] for sign in (1.0, -1.0))
    moved = int(((one.query - two.query).astype(object) ** 2).sum())
    assert 0.999 * one.event.squared_sensitivity <= moved <= one.event.squared_sensitivity


def test_statistics_under_a_pure_budget():
    _, call, _ = exact(summed, np.zeros((4, 1)), statistic=lambda chunk: np.zeros((len(chunk), 2)), account=opened())
    assert isinstance(call.event, LaplaceEvent)
    assert call.event.epsilon <= 1


# ---- the account: counts with an epsilon of their own under (epsilon, delta) -----------------------------------------


def test_laplace_counts_take_epsilon_off_an_approximate_budget():
    account = opened(ApproxDP(1, 1e-6))
    cells(Rows.from_array(np.zeros((5, 1))), account=account, edges=EDGES[:1], cost=Fraction(1, 2))
    epsilon, delta = account.approx_left
    assert Fraction(1, 2) <= epsilon < Fraction(51, 100)
    assert delta > Fraction(99, 10**8)
    with pytest.raises(BudgetError, match="exceed"):
        cells(Rows.from_array(np.zeros((5, 1))), account=account, edges=EDGES[:1], cost=Fraction(3, 4))
    with pytest.raises(BudgetError, match="two accounts"):
        cells(Rows.from_array(np.zeros((5, 1))), account=account, edges=EDGES[:1], cost=Fraction(1, 100), gaussian=True)


def test_a_block_for_each_law():
    account = opened(ApproxDP(1, 1e-6))
    one, two = account.block(), account.block()
    cells(Rows.from_array(np.zeros((5, 1))), account=one, edges=EDGES[:1], cost=one.approx_left[0])
    cells(Rows.from_array(np.zeros((5, 1))), account=two, edges=EDGES[:1], cost=two.allowance, gaussian=True)
    assert len(account.events) == 2


def test_more_cells_than_announced_are_refused():
    with pytest.raises(BudgetError, match="noise"):
        cells(
            Rows.from_array(np.zeros((5, 1))),
            account=opened(ApproxDP(1, 1e-6), draws=3),
            edges=EDGES[:1],
            cost=Fraction(1, 2),
        )


def test_seeded_counts_repeat():
    def once():
        with pytest.warns(SeededNoiseWarning):
            account = opened(seed=5)
        return cells(Rows.from_array(np.ones((5, 2))), account=account).value

    assert np.array_equal(once(), once())


def test_a_statistic_of_the_wrong_shape_is_a_bug():
    with pytest.raises((KernelError, ValueError)):
        summed(Rows.from_array(np.zeros((4, 1))), statistic=lambda chunk: np.zeros((len(chunk), 3)))
