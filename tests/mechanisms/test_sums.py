"""Noisy sums, second moments and shell counts: the integers asked about, the price, and the law of the noise."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from helpers import accounts
from releases import release_second_moment, release_shell_counts, release_vector_sum
from spies import SpyRows
from twins import rows as reference

from fastpubpriv.errors import InputError
from fastpubpriv.mechanisms.sums import AffineMap, Executor, check_sum_grids
from fastpubpriv.privacy import ZCDP, GaussianEvent, LaplaceEvent, PureDP
from fastpubpriv.release import transcript as transcripts
from fastpubpriv.release.account import Account
from fastpubpriv.sources import private_rows

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")

EXECUTOR = Executor(threads=1, progress=False)
BUDGETS = [ZCDP(0.5), PureDP(1)]


opened = partial(accounts.opened, draws=10_000)


def hostile_rows(n, dim, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, dim)) * 10.0 ** rng.integers(-3, 4, size=(n, 1))
    rows[0] = np.nan
    rows[1, 0] = np.inf
    rows[2] = 1e308
    rows[3] = 5e-324
    rows[4] = -0.0
    return rows


MAPS = {
    "identity": AffineMap(dim=3, center=np.array([1.0, -2.0, 0.5])),
    "diagonal": AffineMap(dim=3, matrix=np.array([2.0, 0.5, 1.0]), offset=np.ones(3)),
    "lower": AffineMap(dim=3, matrix=np.array([[1.0, 0, 0], [0.3, 2.0, 0], [0.1, -0.2, 0.7]]), lower=True),
    "lifted": AffineMap(dim=3, matrix=np.arange(12.0).reshape(4, 3) / 7, offset=np.array([0.0, 0, 0, 1.0])),
}


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", MAPS)
def test_vector_sum_asks_for_the_reference_integers(name, budget):
    affine, data = MAPS[name], hostile_rows(200, 3)
    with transcripts.recording() as transcript, np.errstate(all="raise"):
        released = release_vector_sum(
            opened(budget),
            private_rows(data),
            affine,
            name="sum",
            radius=3.0,
            cost=Fraction(1, 4),
            executor=EXECUTOR,
        )
    (call,) = transcript.calls
    bound = call.event.squared_sensitivity if isinstance(call.event, GaussianEvent) else call.event.l1_sensitivity**2
    quant = int(np.sqrt(bound / 4 / (1 if isinstance(call.event, GaussianEvent) else affine.out_dim)) + 1e-6)
    # The sensitivity gives Q back (4 Q^2, and isqrt(4 D Q^2)^2, which rounding leaves below it).
    quant = next(q for q in (quant, quant + 1) if abs(affine_step(affine, q, 3.0) - call.unit) < 1e-15 * call.unit)
    row_map = affine.row_map(quant_bound=quant, inv_step=1.0 / call.unit, limit=float(round(3.0 / call.unit)))
    expected = np.zeros(affine.out_dim, dtype=np.int64)
    reference.rows_sum(data, row_map, expected)
    assert call.query.tolist() == expected.tolist()
    assert released.noise_std == call.event.noise_std * call.unit
    assert released.event.draws == affine.out_dim
    assert np.all(np.isfinite(released.value))


def affine_step(affine, quant, radius):
    return radius / (quant - int(np.ceil(np.sqrt(affine.out_dim) / 2)) - 1)


@pytest.mark.parametrize("budget", BUDGETS)
def test_price_of_a_sum_is_at_most_the_cost_and_nearly_all_of_it(budget):
    released = release_vector_sum(
        opened(budget), private_rows(np.ones((50, 4))), AffineMap(dim=4), name="s", radius=2.0, cost=Fraction(1, 7),
        executor=EXECUTOR,
    )  # fmt: skip
    price = released.event.epsilon if isinstance(released.event, LaplaceEvent) else released.event.rho
    assert Fraction(1, 7) * (1 - Fraction(1, 10**5)) < price <= Fraction(1, 7)
    ideal = np.sqrt(8 * 4) * 2.0 * 7 if isinstance(budget, PureDP) else 2 * 2.0 / np.sqrt(2 / 7)
    assert ideal < released.noise_std < ideal * 1.001


def moments(budget, repeats, dim, rows):
    squares, raws = [], []
    for seed in range(repeats):
        with transcripts.recording() as transcript:
            released = release_second_moment(
                opened(budget, random_state=seed), rows, AffineMap(dim=dim), name="g", radius=1.0,
                cost=Fraction(1, 2), executor=EXECUTOR,
            )  # fmt: skip
        squares.append((released.value, released.noise_std))
        raws.append(transcript.calls[0])
    return squares, raws


def test_gram_asks_for_the_full_symmetric_matrix_and_symmetrises_the_answer():
    data = hostile_rows(300, 3, seed=1)
    squares, (call,) = moments(ZCDP(1), 1, 3, private_rows(data))
    value = squares[0][0]
    assert np.array_equal(value, value.T)
    assert np.array_equal(call.query, call.query.T)
    assert np.array_equal(value, (call.answer + call.answer.T) / 2)
    assert call.event.draws == 9
    step = np.sqrt(call.unit)
    row_map = AffineMap(dim=3).row_map(
        quant_bound=round((call.event.squared_sensitivity / 2) ** 0.25),
        inv_step=1.0 / step,
        limit=float(round(1.0 / step)),
    )
    expected = np.zeros((3, 3), dtype=np.int64)
    reference.rows_gram(data, row_map, expected)
    assert np.array_equal(np.tril(call.query), expected)
    # The answer is near the sum of outer products of the clipped rows.
    clean = data[np.isfinite(data).all(axis=1)]
    with np.errstate(over="ignore"):
        scale = np.abs(clean).max(axis=1, keepdims=True)
        scale[scale == 0] = 1.0
        unit = clean / scale
        norm = np.linalg.norm(unit, axis=1, keepdims=True)
        norm[norm == 0] = 1.0
        clipped = unit / norm * np.minimum(1.0, norm * scale)
    assert np.abs(value - clipped.T @ clipped).max() < 8 * squares[0][1] + 1.0


def test_gram_noise_is_one_on_the_diagonal_and_half_the_variance_off_it():
    # 300 matrices of 8 x 8: 2400 diagonal and 8400 off-diagonal values. Tolerance 10 % is 6.9 and 13 standard errors
    # of a standard deviation: false alarms below 1e-11.
    dim = 8
    squares, raws = moments(ZCDP(1), 300, dim, private_rows(np.zeros((2, dim))))
    noise_std = squares[0][1]
    values = np.array([value for value, _ in squares]) / noise_std
    diagonal = np.einsum("kii->ki", values).std()
    upper = np.triu_indices(dim, 1)
    assert abs(diagonal - 1.0) < 0.1
    assert abs(values[:, *upper].std() * np.sqrt(2.0) - 1.0) < 0.1
    assert noise_std == pytest.approx(raws[0].event.noise_std * raws[0].unit)
    # Control: the matrix before it is averaged with its transpose has the full noise off the diagonal.
    raw = np.array([call.answer for call in raws]) / noise_std
    assert abs(raw[:, *upper].std() * np.sqrt(2.0) - 1.0) > 0.1


def test_pure_gram_releases_the_triangle():
    dim = 5
    squares, raws = moments(PureDP(1), 200, dim, private_rows(np.zeros((2, dim))))
    value, noise_std = squares[0]
    assert np.array_equal(value, value.T)
    assert raws[0].query.shape == (15,)
    assert isinstance(raws[0].event, LaplaceEvent)
    assert raws[0].event.epsilon <= Fraction(1, 2)
    # 3000 Laplace values: the standard error of a standard deviation is sqrt(5/4/3000) = 2 %.
    values = np.array([v[np.triu_indices(dim)] for v, _ in squares]) / noise_std
    assert abs(values.std() - 1.0) < 0.14


@pytest.mark.parametrize("budget", BUDGETS)
def test_shell_counts(budget):
    data = hostile_rows(500, 2, seed=2)
    edges = np.array([0.5, 1.0, 20.0])
    with transcripts.recording() as transcript:
        released = release_shell_counts(
            opened(budget), private_rows(data), AffineMap(dim=2), name="c", edges=edges, cost=Fraction(1, 2),
            executor=EXECUTOR,
        )  # fmt: skip
    (call,) = transcript.calls
    finite = data[np.isfinite(data).all(axis=1)]
    with np.errstate(over="ignore"):
        norm_sq = (finite**2).sum(axis=1)
    expected = np.bincount(np.searchsorted(edges**2, norm_sq, side="left"), minlength=4)
    steps = round(1.0 / call.unit)
    assert call.query.tolist() == (expected * steps).tolist()
    assert expected.sum() == len(data) - 2  # rows with NaN or infinity are in no shell
    sensitivity = call.event.l1_sensitivity if budget == PureDP(1) else call.event.squared_sensitivity
    assert sensitivity == (2 * steps if budget == PureDP(1) else 2 * steps**2)
    assert np.abs(released.value - expected).max() < 30 * released.noise_std


@pytest.mark.parametrize(
    "edges", [[], [0.0, 1.0], [-1.0, 2.0], [2.0, 1.0], [1.0, 1.0], [1.0, np.nan], [1e-300, 1.0], [1.0, 1e200], [[1.0]]]
)
def test_shell_edges_are_checked_before_reading(edges):
    log = []
    arguments = {"name": "c", "edges": np.array(edges), "cost": Fraction(1, 2), "executor": EXECUTOR}
    rows = SpyRows(np.ones((5, 2)), log)
    if edges == []:  # one shell, everything: legal
        release_shell_counts(opened(ZCDP(1)), rows, AffineMap(dim=2), **arguments)
        assert log
        return
    with pytest.raises(InputError, match="ascending"):
        release_shell_counts(opened(ZCDP(1)), rows, AffineMap(dim=2), **arguments)
    assert log == []


def test_costs_without_a_grid_are_found_before_the_debit():
    account = Account("test", ZCDP(1), draws=1)
    check_sum_grids(account, [Fraction(1, 4)], 10, 1000)
    with pytest.raises(InputError, match="no integer grid"):
        check_sum_grids(account, [Fraction(1, 4), Fraction(1, 2**90)], 10, 1000)
    with pytest.raises(InputError, match="no integer grid"):
        check_sum_grids(Account("test", PureDP(1), draws=1), [Fraction(1, 2**60)], 10, 1000)
