"""Noisy sums, second moments and shell counts: the integers asked about, the price, and the law of the noise."""

import itertools
import math
from fractions import Fraction
from functools import partial

import mpmath
import numpy as np
import pytest
from helpers import accounts
from helpers.errors import raises
from helpers.hypotheses import exponential_law
from releases import (
    release_second_moment,
    release_shell_counts,
    release_soft_grams,
    release_statistic_sum,
    release_vector_sum,
)
from spies import SpyRows
from twins import rows as reference

from fastpubpriv.errors import BudgetError, InputError, KernelError, ReplayError
from fastpubpriv.mechanisms import sums
from fastpubpriv.mechanisms.sums import AffineMap, Executor, check_sum_grids
from fastpubpriv.privacy import ZCDP, ApproxDP, GaussianEvent, LaplaceEvent, PureDP, SelectionEvent
from fastpubpriv.release import release as choice_weights
from fastpubpriv.release import transcript as transcripts
from fastpubpriv.release.account import Account
from fastpubpriv.release.release import release_choice
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
    "lower": AffineMap(
        dim=3, matrix=np.array([[1.0, 0, 0], [0.3, 2.0, 0], [0.1, -0.2, 0.7]]), lower=True
    ),
    "lifted": AffineMap(
        dim=3, matrix=np.arange(12.0).reshape(4, 3) / 7, offset=np.array([0.0, 0, 0, 1.0])
    ),
}


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", MAPS)
def test_vector_sum_asks_for_the_reference_integers(name, budget):
    affine = MAPS[name]
    data = hostile_rows(200, 3)
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
    bound = (
        call.event.squared_sensitivity
        if isinstance(call.event, GaussianEvent)
        else call.event.l1_sensitivity**2
    )
    quant = int(
        np.sqrt(bound / 4 / (1 if isinstance(call.event, GaussianEvent) else affine.out_dim)) + 1e-6
    )
    # The sensitivity gives Q back (4 Q^2, and isqrt(4 D Q^2)^2, which rounding leaves below it).
    lost = int(np.ceil(np.sqrt(affine.out_dim) / 2)) + 1
    quant = next(
        q for q in (quant, quant + 1) if abs(3.0 / (q - lost) - call.unit) < 1e-15 * call.unit
    )
    row_map = affine.row_map(
        quant_bound=quant, inv_step=1.0 / call.unit, limit=float(round(3.0 / call.unit))
    )
    expected = np.zeros(affine.out_dim, dtype=np.int64)
    reference.rows_sum(data, row_map, expected)
    assert call.query.tolist() == expected.tolist()
    assert released.noise_std == call.event.noise_std * call.unit
    assert released.event.draws == affine.out_dim
    assert np.all(np.isfinite(released.value))


@pytest.mark.parametrize("budget", BUDGETS)
def test_price_of_a_sum_is_at_most_the_cost_and_nearly_all_of_it(budget):
    released = release_vector_sum(
        opened(budget),
        private_rows(np.ones((50, 4))),
        AffineMap(dim=4),
        name="s",
        radius=2.0,
        cost=Fraction(1, 7),
        executor=EXECUTOR,
    )
    price = (
        released.event.epsilon if isinstance(released.event, LaplaceEvent) else released.event.rho
    )
    assert Fraction(1, 7) * (1 - Fraction(1, 10**5)) < price <= Fraction(1, 7)
    ideal = np.sqrt(8 * 4) * 2.0 * 7 if isinstance(budget, PureDP) else 2 * 2.0 / np.sqrt(2 / 7)
    assert ideal < released.noise_std < ideal * 1.001


def moments(budget, repeats, dim, rows):
    squares = []
    raws = []
    for seed in range(repeats):
        with transcripts.recording() as transcript:
            released = release_second_moment(
                opened(budget, random_state=seed),
                rows,
                AffineMap(dim=dim),
                name="g",
                radius=1.0,
                cost=Fraction(1, 2),
                executor=EXECUTOR,
            )
        squares.append((released.value, released.noise_std))
        raws.append(transcript.calls[0])
    return squares, raws


def test_gram_asks_for_the_full_symmetric_matrix_and_symmetrizes_the_answer():
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


def test_gram_noise_and_triangle():
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
    # Pure gram releases the triangle.
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
            opened(budget),
            private_rows(data),
            AffineMap(dim=2),
            name="c",
            edges=edges,
            cost=Fraction(1, 2),
            executor=EXECUTOR,
        )
    (call,) = transcript.calls
    finite = data[np.isfinite(data).all(axis=1)]
    with np.errstate(over="ignore"):
        norm_sq = (finite**2).sum(axis=1)
    expected = np.bincount(np.searchsorted(edges**2, norm_sq, side="left"), minlength=4)
    steps = round(1.0 / call.unit)
    assert call.query.tolist() == (expected * steps).tolist()
    assert expected.sum() == len(data) - 2  # rows with NaN or infinity are in no shell
    sensitivity = (
        call.event.l1_sensitivity if budget == PureDP(1) else call.event.squared_sensitivity
    )
    assert sensitivity == (2 * steps if budget == PureDP(1) else 2 * steps**2)
    assert np.abs(released.value - expected).max() < 30 * released.noise_std


@pytest.mark.parametrize(
    "edges",
    [
        [],
        [0.0, 1.0],
        [-1.0, 2.0],
        [2.0, 1.0],
        [1.0, 1.0],
        [1.0, np.nan],
        [1e-300, 1.0],
        [1.0, 1e200],
        [[1.0]],
    ],
)
def test_shell_edges_are_checked_before_reading(edges):
    log = []
    arguments = {
        "name": "c",
        "edges": np.array(edges),
        "cost": Fraction(1, 2),
        "executor": EXECUTOR,
    }
    rows = SpyRows(np.ones((5, 2)), log)
    if edges == []:  # one shell, everything: legal
        release_shell_counts(opened(ZCDP(1)), rows, AffineMap(dim=2), **arguments)
        assert log
        return
    raises(
        InputError,
        "ascending",
        release_shell_counts,
        opened(ZCDP(1)),
        rows,
        AffineMap(dim=2),
        **arguments,
    )
    assert log == []


def test_costs_without_a_grid_are_found_before_the_debit():
    account = Account("test", ZCDP(1), draws=1)
    check_sum_grids(account, [Fraction(1, 4)], 10, 1000)
    raises(
        InputError,
        "no integer grid",
        check_sum_grids,
        account,
        [Fraction(1, 4), Fraction(1, 2**90)],
        10,
        1000,
    )
    with pytest.raises(InputError, match="no integer grid"):
        check_sum_grids(Account("test", PureDP(1), draws=1), [Fraction(1, 2**60)], 10, 1000)


def integer_rows(bound, dim):
    return np.array(list(itertools.product(range(-bound, bound + 1), repeat=dim)))


@pytest.mark.parametrize(("parts", "width", "bound"), [(1, 3, 5), (2, 2, 5), (3, 2, 3), (3, 1, 4)])
def test_l1_norm_of_rows_in_parts_by_enumeration(parts, width, bound):
    rows = integer_rows(bound, parts * width)
    lengths = np.abs(rows).sum(axis=1)
    inside = (
        np.ceil(np.sqrt(np.square(rows).reshape(len(rows), parts, -1).sum(axis=2))).sum(axis=1)
        <= bound
    )
    assert np.isclose(lengths[inside].max(), math.isqrt(width * bound**2), atol=1)
    assert lengths[inside].max() <= math.isqrt(width * bound**2)
    # Planted fault: the norm of the whole row alone.
    whole = np.square(rows).sum(axis=1) <= bound**2
    assert parts == 1 or lengths[whole].max() > math.isqrt(width * bound**2)


@pytest.mark.parametrize("budget", BUDGETS)
def test_statistics_in_parts(budget):
    rng = np.random.default_rng(4)
    part_of = np.array([0, 1, 2, 0, 0, 1, 1, 2, 2])
    dim = 9
    rows = rng.normal(size=(500, dim))
    norms = np.stack(
        [np.linalg.norm(rows[:, part_of == part], axis=1) for part in range(3)], axis=1
    )
    rows[:400] *= (2.0 / norms.sum(axis=1))[:400, None]  # on the bound of the norms' sum
    # on that of the whole norm, so beyond it
    rows[400:] *= (2.0 / np.linalg.norm(rows, axis=1))[400:, None]
    options = {"dim": dim, "radius": 2.0, "row_cost": 1, "name": "parts", "cost": Fraction(1, 4)}
    with transcripts.recording() as transcript:
        for extra in ({}, {"part_of": part_of}):
            release_statistic_sum(
                opened(budget), private_rows(rows), np.copy, executor=EXECUTOR, **options, **extra
            )
    plain, parts = transcript.calls
    if not isinstance(budget, PureDP):
        assert plain.query.tolist() == parts.query.tolist()
        assert plain.event == parts.event
        return
    # Rows within the bound all count, up to the rounding of each; the others are zero.
    assert np.allclose(parts.query * parts.unit, rows[:400].sum(axis=0), atol=400 * parts.unit)
    assert not np.allclose(parts.query * parts.unit, rows.sum(axis=0), atol=400 * parts.unit)
    scales = [call.event.noise_std * call.unit for call in (parts, plain)]
    assert 0.99 < scales[0] / scales[1] * math.sqrt(3.0) < 1.01


def soft_grams_of(rows, parts):
    parted = rows.reshape(len(rows), parts, -1)
    return np.einsum("npi,npj->npij", parted, parted).reshape(len(rows), -1)


@pytest.mark.parametrize(("parts", "side", "bound"), [(1, 2, 4), (2, 1, 5), (2, 2, 3), (3, 1, 4)])
def test_soft_gram_sensitivity_by_enumeration(parts, side, bound):
    rows = integer_rows(bound, parts * side)
    answers = soft_grams_of(rows, parts)

    def largest(kept):
        squares = np.square(answers[kept]).sum(axis=1)
        return int((squares[:, None] + squares - 2 * answers[kept] @ answers[kept].T).max())

    joint = np.square(rows).sum(axis=1) <= bound**2
    assert largest(joint) == 2 * bound**4
    # Upper triangles, in l1.
    rows_at, columns_at = np.triu_indices(side)
    triangles = (
        answers[joint]
        .reshape(-1, parts, side, side)[:, :, rows_at, columns_at]
        .reshape(joint.sum(), -1)
    )
    moved = max(int(np.abs(triangles - one).sum(axis=1).max()) for one in triangles)
    assert (
        moved
        <= 2 * ((side + 1) * bound**2 // 2)
        < 2 * math.isqrt(parts * side * (parts * side + 3) // 2 * bound**4)
    )
    # Planted fault: each part is checked by itself.
    alone = (np.square(rows).reshape(len(rows), parts, side).sum(axis=2) <= bound**2).all(axis=1)
    assert 1 in (parts, side) or largest(alone) > 2 * bound**4


def soft_parts_of(statistic, parts):
    """The parts of a statistic (n, parts * side) of each row, as `SoftGrams` asks for them."""

    def rows_of(chunk, inv_step):
        yield np.split(statistic(chunk) * inv_step, parts, axis=1), [np.arange(len(chunk))] * parts

    return rows_of


def test_soft_grams_check_the_joint_norm_of_each_row_whatever_its_parts_are():
    bound = 100
    side = 3
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(400, 4 * side)) * rng.choice([20.0, 28.0, 60.0], size=(400, 1))
    rows[:4, 1] = np.nan, np.inf, 1e150, -1e30

    def added(rows, most=bound):
        query = sums.SoftGramQuery(
            shape=(4, side, side), rows_of=soft_parts_of(np.copy, 4), inv_step=1.0, bound=most
        )
        found = query.zeros()
        query.add(rows, found)
        return found[0]

    each = np.array([added(row[None]) for row in rows])
    assert np.array_equal(added(rows), each.sum(axis=0))
    counted = each.any(axis=(1, 2, 3))
    whole = np.rint(rows)
    assert np.array_equal(counted, np.square(whole).sum(axis=1) <= bound**2)
    assert 50 < counted.sum() < 350
    assert np.array_equal(
        each[counted].reshape(counted.sum(), -1), soft_grams_of(whole[counted], 4)
    )
    assert np.square(each.astype(float)).sum(axis=(1, 2, 3)).max() <= bound**4
    # Planted fault: the parts are trusted, as with a larger bound.
    trusted = np.array([added(row[None], most=10**4) for row in rows[4:]]).astype(float)
    assert np.square(trusted).sum(axis=(1, 2, 3)).max() > bound**4


def test_soft_gram_of_one_part_is_a_second_moment():
    hostile = hostile_rows(300, 3)
    rows = private_rows(np.where(np.abs(hostile).max(axis=1, keepdims=True) < 1.0, hostile, np.nan))
    options = {"radius": 2.0, "name": "gram", "cost": Fraction(1, 8), "executor": EXECUTOR}
    with transcripts.recording() as transcript:
        release_second_moment(opened(ZCDP(1)), rows, AffineMap(dim=3), **options)
        release_soft_grams(
            opened(ZCDP(1)), rows, soft_parts_of(np.copy, 1), parts=1, side=3, row_cost=1, **options
        )
    one, other = transcript.calls
    assert one.event == other.event
    assert one.query.reshape(-1).tolist() == other.query.reshape(-1).tolist()


@pytest.mark.parametrize("threads", [1, 2])
def test_soft_grams_are_sums_over_rows(threads):
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(3000, 3))
    shares = rng.dirichlet(np.ones(4), size=3000)

    def stacked(chunk):
        share = chunk[:, 3:]
        white = np.concatenate([chunk[:, :3], np.ones((len(chunk), 1))], axis=1)
        return (np.sqrt(share)[:, :, None] * white[:, None, :]).reshape(len(chunk), -1)

    data = np.concatenate([rows, shares], axis=1)
    queries = []
    for chunk_rows in (64, 1000):
        with transcripts.recording() as transcript:
            released = release_soft_grams(
                opened(ZCDP(500)),
                private_rows(data),
                soft_parts_of(stacked, 4),
                parts=4,
                side=4,
                row_cost=1,
                radius=8.0,
                name="soft",
                cost=Fraction(400),
                executor=Executor(threads=threads, progress=False, chunk_rows=chunk_rows),
            )
        queries.append(transcript.calls[0].query)
    assert np.array_equal(*queries)
    assert released.event.draws == 4 * 4 * 4
    white = np.concatenate([rows, np.ones((3000, 1))], axis=1)
    expected = np.einsum("nk,ni,nj->kij", shares, white, white)
    assert np.allclose(released.value, expected, atol=30.0)
    # Planted fault: responsibilities in place of their roots.
    assert not np.allclose(
        released.value, np.einsum("nk,ni,nj->kij", shares**2, white, white), atol=300.0
    )


# ---- The exponential mechanism on integer scores: exact weights, exact ratios, and scores that move by at most one.
HALF = Fraction(1, 2)


@pytest.mark.parametrize("rate", [HALF, Fraction(1, 10**6), Fraction(3, 7), Fraction(25)])
@pytest.mark.parametrize("gap", [1, 2, 5, 77, 400])
def test_exp_is_bracketed(gap, rate):
    with mpmath.workprec(1200):
        exact = (
            mpmath.exp(-mpmath.mpf(gap * rate.numerator) / rate.denominator)
            * mpmath.mpf(2) ** choice_weights.BITS
        )
        weight = choice_weights.weight(gap, rate)
        if gap * rate < 139:
            low, high = choice_weights.exp_bounds(gap * rate)
            assert low <= exact <= high
        if exact < mpmath.mpf(2) ** (choice_weights.BITS - choice_weights.CUT):
            assert weight == 0
        else:
            assert weight <= exact
            assert exact - weight <= exact * mpmath.mpf(2) ** -101
            # Control: a weight from a double is not good enough.
            assert (
                abs(
                    mpmath.mpf(np.exp(-float(gap * rate))) * mpmath.mpf(2) ** choice_weights.BITS
                    - exact
                )
                > exact / 2**101
            )


@pytest.mark.parametrize(
    "scores", [[0, 0, 0, 0, 0], [5, 1, 3, 3, 0], [-7, 2, 2, 2, 1], [0, 1000, 1, 999, 998]]
)
@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 3), Fraction(8)])
def test_five_candidates_have_the_exact_exponential_law(scores, epsilon):
    found = exponential_law(
        scores, SelectionEvent(epsilon=epsilon, sensitivity=1, candidates=5).rate
    )
    with mpmath.workprec(800):
        ideal = [
            mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator * (s - max(scores)) / 2)
            for s in scores
        ]
        ideal = [one / mpmath.fsum(ideal) for one in ideal]
        for got, want in zip(found, ideal, strict=True):
            got = mpmath.mpf(got.numerator) / got.denominator
            assert abs(got - want) <= want * mpmath.mpf(2) ** -100 or want < mpmath.mpf(2) ** -199
    assert sum(found) == 1


def test_every_number_belongs_to_one_candidate():
    found = choice_weights.levels(np.array([2, 0, 2, 1], dtype=np.int64), HALF)
    total = sum(weight * len(candidates) for weight, candidates in found)
    assert [candidates.tolist() for _, candidates in found] == [[0, 2], [3], [1]]
    best = found[0][0]
    assert choice_weights.candidate(found, 0) == 0
    assert choice_weights.candidate(found, best - 1) == 0
    assert choice_weights.candidate(found, best) == 2
    assert choice_weights.candidate(found, 2 * best) == 3
    assert choice_weights.candidate(found, total - 1) == 1
    raises(KernelError, None, choice_weights.candidate, found, total)
    raises(KernelError, None, choice_weights.levels, np.empty(0, dtype=np.int64), HALF)


def worst_ratio(rate, step):
    """Largest probability ratio over all pairs of three scores in 0 ... 3 of which each moves by at most `step`."""
    cache = {
        scores: exponential_law(scores, rate) for scores in itertools.product(range(4), repeat=3)
    }
    worst = Fraction(0)
    for one, other in itertools.product(cache, repeat=2):
        if max(abs(a - b) for a, b in zip(one, other, strict=True)) <= step:
            worst = max(worst, *(a / b for a, b in zip(cache[one], cache[other], strict=True)))
    return worst


def test_privacy_ratio_by_enumeration():
    event = SelectionEvent(epsilon=Fraction(1), sensitivity=1, candidates=3)
    with mpmath.workprec(600):
        bound = mpmath.exp(1 + mpmath.mpf(2) ** -99)

        def exceeds(ratio):
            return mpmath.mpf(ratio.numerator) / ratio.denominator > bound

        assert not exceeds(worst_ratio(event.rate, 1))
        assert worst_ratio(event.rate, 1) > 2  # 2.0 of 2.718: three candidates cannot reach e
        # Planted: scores of sensitivity two, and the rate epsilon in place of epsilon / 2.
        assert exceeds(worst_ratio(event.rate, 2))
        assert exceeds(worst_ratio(2 * event.rate, 1))


def ask(account, scores, epsilon=1):
    event = SelectionEvent(epsilon=epsilon, sensitivity=1, candidates=len(scores))
    return release_choice(
        account, name="choice", query=lambda: np.array(scores, dtype=np.int64), event=event
    )


def test_a_choice_is_paid_for_recorded_and_forced():
    account = accounts.opened(PureDP(1.5))
    ask(account, [1, 2])
    raises(BudgetError, "exceed the budget", ask, account, [1, 2])
    zcdp = accounts.opened(ZCDP(Fraction(1, 8)))
    ask(zcdp, [1, 2])  # epsilon^2 / 8, exactly the budget
    raises(BudgetError, "exceed the budget", ask, zcdp, [1, 2], epsilon=Fraction(1, 1000))
    approximate = accounts.opened(ApproxDP(1.5, 1e-6))
    ask(approximate, [1, 2])
    raises(BudgetError, "exceed the budget", ask, approximate, [1, 2])
    with pytest.raises(BudgetError, match="before the budget was debited"):
        ask(Account("test", PureDP(1), draws=1), [1, 2])
    # Tap records and forces a choice.
    with transcripts.recording() as recorded:
        first = ask(accounts.opened(PureDP(2)), [9, 9, 9, 9, 9, 9, 9, 9])
    assert recorded.calls[0].query.tolist() == [9] * 8
    for _ in range(5):
        with transcripts.recording(script=recorded.calls):
            assert ask(accounts.opened(PureDP(2)), [0, 1, 2, 3, 4, 5, 6, 7]) == first
    with transcripts.recording(script=recorded.calls), pytest.raises(ReplayError):
        ask(accounts.opened(PureDP(2)), [0, 1])
    # Event costs.
    event = SelectionEvent(epsilon=Fraction(1, 2), sensitivity=2, candidates=9)
    assert event.rate == Fraction(1, 8)
    assert event.rho == Fraction(1, 32)
    assert event.draws == 1
    for bad in (0, -1):
        raises(BudgetError, None, SelectionEvent, epsilon=bad, sensitivity=1, candidates=2)
