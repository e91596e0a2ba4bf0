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
    decades = 10.0 ** rng.integers(-3, 4, size=(n, 1))
    rows = rng.standard_normal((n, dim)) * decades
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
    asked = {"radius": 3.0, "cost": Fraction(1, 4), "executor": EXECUTOR}
    with transcripts.recording() as transcript, np.errstate(all="raise"):
        released = release_vector_sum(
            opened(budget), private_rows(data), affine, name="sum", **asked
        )
    (call,) = transcript.calls
    clip_steps = round(3.0 / call.unit)
    assert call.unit == 3.0 / clip_steps
    # Half a step of rounding in each column, and one more, stand between the clip and Q.
    quant = clip_steps + int(np.ceil(np.sqrt(affine.out_dim) / 2)) + 1
    if isinstance(call.event, GaussianEvent):
        assert call.event.squared_sensitivity == 4 * quant**2
    else:
        assert call.event.l1_sensitivity == math.isqrt(4 * affine.out_dim * quant**2)
    row_map = affine.row_map(quant_bound=quant, inv_step=1.0 / call.unit, limit=float(clip_steps))
    expected = np.zeros(affine.out_dim, dtype=np.int64)
    reference.rows_sum(data, row_map, expected)
    assert call.query.tolist() == expected.tolist()
    assert released.noise_std == call.event.noise_std * call.unit
    assert released.event.draws == affine.out_dim
    assert np.all(np.isfinite(released.value))


# Of a sum of 4 columns of radius 2: sqrt(8 D) r / epsilon of Laplace noise, and 2 r / sqrt(2 rho) of Gaussian noise.
@pytest.mark.parametrize(
    ("budget", "ideal"), [(PureDP(1), 7 * 2 * math.sqrt(32)), (ZCDP(0.5), 4 / math.sqrt(2 / 7))]
)
def test_price_of_a_sum_is_at_most_the_cost_and_nearly_all_of_it(budget, ideal):
    cost = Fraction(1, 7)
    asked = {"radius": 2.0, "cost": cost, "executor": EXECUTOR}
    rows = private_rows(np.ones((50, 4)))
    released = release_vector_sum(opened(budget), rows, AffineMap(dim=4), name="s", **asked)
    price = released.event.epsilon if budget == PureDP(1) else released.event.rho
    assert cost * (1 - Fraction(1, 10**5)) < price <= cost
    assert ideal < released.noise_std < ideal * 1.001


def second_moment(budget, rows, dim, seed=0):
    """A released second moment, and the record of its release."""
    account = opened(budget, random_state=seed)
    asked = {"radius": 1.0, "cost": Fraction(1, 2), "executor": EXECUTOR}
    with transcripts.recording() as transcript:
        released = release_second_moment(account, rows, AffineMap(dim=dim), name="g", **asked)
    return released, transcript.calls[0]


def test_gram_asks_for_the_full_symmetric_matrix_and_symmetrizes_the_answer():
    data = hostile_rows(300, 3, seed=1)
    released, call = second_moment(ZCDP(1), private_rows(data), 3)
    value = released.value
    assert np.array_equal(value, value.T)
    assert np.array_equal(call.query, call.query.T)
    assert np.array_equal(value, (call.answer + call.answer.T) / 2)
    assert call.event.draws == 9


def test_gram_asks_for_the_reference_integers():
    data = hostile_rows(300, 3, seed=1)
    _, call = second_moment(ZCDP(1), private_rows(data), 3)
    step = np.sqrt(call.unit)
    quant = round((call.event.squared_sensitivity / 2) ** 0.25)
    limit = float(round(1.0 / step))
    row_map = AffineMap(dim=3).row_map(quant_bound=quant, inv_step=1.0 / step, limit=limit)
    expected = np.zeros((3, 3), dtype=np.int64)
    reference.rows_gram(data, row_map, expected)
    assert np.array_equal(np.tril(call.query), expected)


def test_gram_is_near_the_sum_of_outer_products_of_the_clipped_rows():
    data = hostile_rows(300, 3, seed=1)
    released, _ = second_moment(ZCDP(1), private_rows(data), 3)
    clean = data[np.isfinite(data).all(axis=1)]
    with np.errstate(over="ignore"):
        scale = np.abs(clean).max(axis=1, keepdims=True)
        scale[scale == 0] = 1.0
        unit = clean / scale
        norm = np.linalg.norm(unit, axis=1, keepdims=True)
        norm[norm == 0] = 1.0
        clipped = unit / norm * np.minimum(1.0, norm * scale)
    error = np.abs(released.value - clipped.T @ clipped).max()
    assert error < 8 * released.noise_std + 1.0


def test_gram_noise_of_the_diagonal_and_beside_it():
    """300 matrices of 8 x 8: 2400 diagonal and 8400 off-diagonal values.

    Tolerance 10 % is 6.9 and 13 standard errors of a standard deviation: false alarms below 1e-11.
    """
    zeros = private_rows(np.zeros((2, 8)))
    moments = [second_moment(ZCDP(1), zeros, 8, seed) for seed in range(300)]
    first, call = moments[0]
    noise_std = first.noise_std
    assert noise_std == pytest.approx(call.event.noise_std * call.unit)
    values = np.array([released.value for released, _ in moments]) / noise_std
    upper = np.triu_indices(8, 1)
    assert abs(np.einsum("kii->ki", values).std() - 1.0) < 0.1
    assert abs(values[:, *upper].std() * np.sqrt(2.0) - 1.0) < 0.1
    # Control: the matrix before it is averaged with its transpose has the full noise off the diagonal.
    answers = np.array([call.answer for _, call in moments]) / noise_std
    assert abs(answers[:, *upper].std() * np.sqrt(2.0) - 1.0) > 0.1


def test_pure_gram_releases_the_triangle():
    zeros = private_rows(np.zeros((2, 5)))
    moments = [second_moment(PureDP(1), zeros, 5, seed) for seed in range(200)]
    released, call = moments[0]
    assert np.array_equal(released.value, released.value.T)
    assert call.query.shape == (15,)
    assert isinstance(call.event, LaplaceEvent)
    assert call.event.epsilon <= Fraction(1, 2)
    # 3000 Laplace values: the standard error of a standard deviation is sqrt(5/4/3000) = 2 %.
    triangles = np.array([released.value[np.triu_indices(5)] for released, _ in moments])
    assert abs(triangles.std() / released.noise_std - 1.0) < 0.14


@pytest.mark.parametrize("budget", BUDGETS)
def test_shell_counts(budget):
    data = hostile_rows(500, 2, seed=2)
    edges = np.array([0.5, 1.0, 20.0])
    asked = {"edges": edges, "cost": Fraction(1, 2), "executor": EXECUTOR}
    with transcripts.recording() as transcript:
        released = release_shell_counts(
            opened(budget), private_rows(data), AffineMap(dim=2), name="c", **asked
        )
    (call,) = transcript.calls
    finite = data[np.isfinite(data).all(axis=1)]
    with np.errstate(over="ignore"):
        norm_sq = (finite**2).sum(axis=1)
    expected = np.bincount(np.searchsorted(edges**2, norm_sq, side="left"), minlength=4)
    assert expected.sum() == len(data) - 2  # rows with NaN or infinity are in no shell
    steps = round(1.0 / call.unit)
    assert call.query.tolist() == (expected * steps).tolist()
    if budget == PureDP(1):
        assert call.event.l1_sensitivity == 2 * steps
    else:
        assert call.event.squared_sensitivity == 2 * steps**2
    assert np.abs(released.value - expected).max() < 30 * released.noise_std


def test_one_shell_holds_everything():
    log = []
    rows = SpyRows(np.ones((5, 2)), log)
    asked = {"edges": np.array([]), "cost": Fraction(1, 2), "executor": EXECUTOR}
    release_shell_counts(opened(ZCDP(1)), rows, AffineMap(dim=2), name="c", **asked)
    assert log


@pytest.mark.parametrize(
    "edges",
    [
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
    rows = SpyRows(np.ones((5, 2)), log)
    asked = {"name": "c", "edges": np.array(edges), "cost": Fraction(1, 2), "executor": EXECUTOR}
    call = partial(release_shell_counts, opened(ZCDP(1)), rows, AffineMap(dim=2))
    raises(InputError, "ascending", call, **asked)
    assert log == []


@pytest.mark.parametrize(
    ("budget", "costs"),
    [(ZCDP(1), [Fraction(1, 4), Fraction(1, 2**90)]), (PureDP(1), [Fraction(1, 2**60)])],
)
def test_costs_without_a_grid_are_found_before_the_debit(budget, costs):
    account = Account("test", budget, draws=1)
    check_sum_grids(account, [Fraction(1, 4)], 10, 1000)
    raises(InputError, "no integer grid", check_sum_grids, account, costs, 10, 1000)


def integer_rows(bound, dim):
    return np.array(list(itertools.product(range(-bound, bound + 1), repeat=dim)))


@pytest.mark.parametrize(("parts", "width", "bound"), [(1, 3, 5), (2, 2, 5), (3, 2, 3), (3, 1, 4)])
def test_l1_norm_of_rows_in_parts_by_enumeration(parts, width, bound):
    rows = integer_rows(bound, parts * width)
    lengths = np.abs(rows).sum(axis=1)
    norms_sq = np.square(rows).reshape(len(rows), parts, -1).sum(axis=2)
    inside = np.ceil(np.sqrt(norms_sq)).sum(axis=1) <= bound
    claimed = math.isqrt(width * bound**2)
    largest = lengths[inside].max()
    assert largest <= claimed
    assert largest >= claimed - 1, "nearly reached"
    # Planted fault: the norm of the whole row alone.
    whole = norms_sq.sum(axis=1) <= bound**2
    assert parts == 1 or lengths[whole].max() > claimed


PART_OF = np.array([0, 1, 2, 0, 0, 1, 1, 2, 2])


def rows_of_parts():
    """400 rows whose norms of parts add up to 2, and 100 whose norm is 2, so that those of their parts add up to more."""
    rows = np.random.default_rng(4).normal(size=(500, 9))
    norms = [np.linalg.norm(rows[:, part == PART_OF], axis=1) for part in range(3)]
    rows[:400] *= 2.0 / sum(norms)[:400, None]
    rows[400:] *= 2.0 / np.linalg.norm(rows[400:], axis=1, keepdims=True)
    return rows


def statistics(budget, rows, **parts):
    """The record of a released sum of rows of radius 2."""
    asked = {"dim": 9, "radius": 2.0, "row_cost": 1, "cost": Fraction(1, 4), "executor": EXECUTOR}
    with transcripts.recording() as transcript:
        release_statistic_sum(
            opened(budget), private_rows(rows), np.copy, name="parts", **asked, **parts
        )
    return transcript.calls[0]


def test_parts_of_statistics_change_nothing_under_gaussian_noise():
    rows = rows_of_parts()
    plain = statistics(ZCDP(0.5), rows)
    parts = statistics(ZCDP(0.5), rows, part_of=PART_OF)
    assert plain.query.tolist() == parts.query.tolist()
    assert plain.event == parts.event


def test_under_laplace_noise_rows_beyond_the_bound_of_their_parts_are_zero():
    rows = rows_of_parts()
    call = statistics(PureDP(1), rows, part_of=PART_OF)
    total = call.query * call.unit
    rounding = 400 * call.unit
    assert np.allclose(total, rows[:400].sum(axis=0), atol=rounding)
    assert not np.allclose(total, rows.sum(axis=0), atol=rounding)


def test_three_parts_of_statistics_have_laplace_noise_smaller_by_the_root_of_three():
    rows = rows_of_parts()
    plain = statistics(PureDP(1), rows)
    parts = statistics(PureDP(1), rows, part_of=PART_OF)
    ratio = (plain.event.noise_std * plain.unit) / (parts.event.noise_std * parts.unit)
    assert ratio == pytest.approx(math.sqrt(3.0), rel=0.01)


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

    norms_sq = np.square(rows).reshape(len(rows), parts, side).sum(axis=2)
    assert largest(norms_sq.sum(axis=1) <= bound**2) == 2 * bound**4
    # Planted fault: each part is checked by itself.
    alone = (norms_sq <= bound**2).all(axis=1)
    assert 1 in (parts, side) or largest(alone) > 2 * bound**4


@pytest.mark.parametrize(("parts", "side", "bound"), [(1, 2, 4), (2, 1, 5), (2, 2, 3), (3, 1, 4)])
def test_soft_gram_sensitivity_of_triangles_by_enumeration(parts, side, bound):
    rows = integer_rows(bound, parts * side)
    inside = rows[np.square(rows).sum(axis=1) <= bound**2]
    squares = soft_grams_of(inside, parts).reshape(-1, parts, side, side)
    rows_at, columns_at = np.triu_indices(side)
    triangles = squares[:, :, rows_at, columns_at].reshape(len(inside), -1)
    moved = max(int(np.abs(triangles - one).sum(axis=1).max()) for one in triangles)
    claimed = 2 * ((side + 1) * bound**2 // 2)
    of_one_gram = 2 * math.isqrt(parts * side * (parts * side + 3) // 2 * bound**4)
    assert moved <= claimed < of_one_gram


def soft_parts_of(statistic, parts):
    """The parts of a statistic (n, parts * side) of each row, as `SoftGrams` asks for them."""

    def rows_of(chunk, inv_step):
        yield np.split(statistic(chunk) * inv_step, parts, axis=1), [np.arange(len(chunk))] * parts

    return rows_of


def test_soft_grams_check_the_joint_norm_of_each_row_whatever_its_parts_are():
    bound = 100
    side = 3
    rng = np.random.default_rng(5)
    lengths = rng.choice([20.0, 28.0, 60.0], size=(400, 1))
    rows = rng.normal(size=(400, 4 * side)) * lengths
    rows[:4, 1] = np.nan, np.inf, 1e150, -1e30

    def added(rows, bound):
        parts = soft_parts_of(np.copy, 4)
        query = sums.SoftGramQuery(shape=(4, side, side), rows_of=parts, inv_step=1.0, bound=bound)
        accumulators = query.zeros()
        query.add(rows, accumulators)
        return accumulators[0]

    def longest_sq(grams):
        return np.square(grams.astype(float)).sum(axis=(1, 2, 3)).max()

    alone = np.array([added(row[None], bound) for row in rows])
    assert np.array_equal(added(rows, bound), alone.sum(axis=0))
    counted = alone.any(axis=(1, 2, 3))
    rounded = np.rint(rows)
    assert np.array_equal(counted, np.square(rounded).sum(axis=1) <= bound**2)
    assert 50 < counted.sum() < 350
    expected = soft_grams_of(rounded[counted], 4)
    assert np.array_equal(alone[counted].reshape(counted.sum(), -1), expected)
    assert longest_sq(alone) <= bound**4
    # Planted fault: the parts are trusted, as with a larger bound.
    trusted = np.array([added(row[None], 10**4) for row in rows[4:]])
    assert longest_sq(trusted) > bound**4


def test_soft_gram_of_one_part_is_a_second_moment():
    hostile = hostile_rows(300, 3)
    within_one = np.abs(hostile).max(axis=1, keepdims=True) < 1.0
    rows = private_rows(np.where(within_one, hostile, np.nan))
    asked = {"radius": 2.0, "name": "gram", "cost": Fraction(1, 8), "executor": EXECUTOR}
    parts = {"parts": 1, "side": 3, "row_cost": 1}
    with transcripts.recording() as transcript:
        release_second_moment(opened(ZCDP(1)), rows, AffineMap(dim=3), **asked)
        release_soft_grams(opened(ZCDP(1)), rows, soft_parts_of(np.copy, 1), **parts, **asked)
    one, other = transcript.calls
    assert one.event == other.event
    assert one.query.reshape(-1).tolist() == other.query.reshape(-1).tolist()


def lifted(rows):
    """Rows with a column of ones."""
    return np.column_stack([rows, np.ones(len(rows))])


def weighted_rows(chunk):
    """For each of four components the row times the root of its responsibility."""
    responsibilities = chunk[:, 3:]
    roots = np.sqrt(responsibilities)[:, :, None]
    weighted = roots * lifted(chunk[:, :3])[:, None, :]
    return weighted.reshape(len(chunk), -1)


@pytest.mark.parametrize("threads", [1, 2])
def test_soft_grams_are_sums_over_rows(threads):
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(3000, 3))
    responsibilities = rng.dirichlet(np.ones(4), size=3000)
    data = private_rows(np.column_stack([rows, responsibilities]))
    parts = {"parts": 4, "side": 4, "row_cost": 1}
    asked = {"radius": 8.0, "name": "soft", "cost": Fraction(400)}
    queries = []
    for chunk_rows in (64, 1000):
        executor = Executor(threads=threads, progress=False, chunk_rows=chunk_rows)
        with transcripts.recording() as transcript:
            released = release_soft_grams(
                opened(ZCDP(500)),
                data,
                soft_parts_of(weighted_rows, 4),
                executor=executor,
                **parts,
                **asked,
            )
        queries.append(transcript.calls[0].query)
    assert np.array_equal(*queries), "chunks change nothing"
    assert released.event.draws == 4 * 4 * 4
    sum_of_squares = partial(np.einsum, "nk,ni,nj->kij")
    expected = sum_of_squares(responsibilities, lifted(rows), lifted(rows))
    assert np.allclose(released.value, expected, atol=30.0)
    # Planted fault: responsibilities in place of their roots.
    wrong = sum_of_squares(responsibilities**2, lifted(rows), lifted(rows))
    assert not np.allclose(released.value, wrong, atol=300.0)


# ---- The exponential mechanism on integer scores: exact weights, exact ratios, and scores that move by at most one.
HALF = Fraction(1, 2)


@pytest.mark.parametrize("rate", [HALF, Fraction(1, 10**6), Fraction(3, 7), Fraction(25)])
@pytest.mark.parametrize("gap", [1, 2, 5, 77, 400])
def test_exp_is_bracketed(gap, rate):
    with mpmath.workprec(1200):
        unit = mpmath.mpf(2) ** choice_weights.BITS
        exact = unit * mpmath.exp(-mpmath.mpf(gap * rate.numerator) / rate.denominator)
        weight = choice_weights.weight(gap, rate)
        if gap * rate < 139:
            low, high = choice_weights.exp_bounds(gap * rate)
            assert low <= exact <= high
        if exact < unit / mpmath.mpf(2) ** choice_weights.CUT:
            assert weight == 0
        else:
            assert weight <= exact
            assert exact - weight <= exact * mpmath.mpf(2) ** -101
            # Control: a weight from a double is not good enough.
            from_double = unit * mpmath.mpf(np.exp(-float(gap * rate)))
            assert abs(from_double - exact) > exact / 2**101


@pytest.mark.parametrize(
    "scores", [[0, 0, 0, 0, 0], [5, 1, 3, 3, 0], [-7, 2, 2, 2, 1], [0, 1000, 1, 999, 998]]
)
@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 3), Fraction(8)])
def test_five_candidates_have_the_exact_exponential_law(scores, epsilon):
    event = SelectionEvent(epsilon=epsilon, sensitivity=1, candidates=5)
    found = exponential_law(scores, event.rate)
    assert sum(found) == 1
    with mpmath.workprec(800):
        exact_epsilon = mpmath.mpf(epsilon.numerator) / epsilon.denominator
        weights = [mpmath.exp(exact_epsilon * (score - max(scores)) / 2) for score in scores]
        total = mpmath.fsum(weights)
        for probability, weight in zip(found, weights, strict=True):
            ideal = weight / total
            if ideal >= mpmath.mpf(2) ** -199:
                error = mpmath.mpf(probability.numerator) / probability.denominator - ideal
                assert abs(error) <= ideal * mpmath.mpf(2) ** -100


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
    every_scores = itertools.product(range(4), repeat=3)
    laws = {scores: exponential_law(scores, rate) for scores in every_scores}
    worst = Fraction(0)
    for (one, law), (other, other_law) in itertools.product(laws.items(), repeat=2):
        if max(abs(a - b) for a, b in zip(one, other, strict=True)) <= step:
            ratios = [a / b for a, b in zip(law, other_law, strict=True)]
            worst = max(worst, *ratios)
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


@pytest.mark.parametrize("budget", [PureDP(1.5), ApproxDP(1.5, 1e-6)])
def test_a_choice_is_paid_for(budget):
    account = accounts.opened(budget)
    ask(account, [1, 2])
    raises(BudgetError, "exceed the budget", ask, account, [1, 2])


def test_a_choice_costs_an_eighth_of_epsilon_squared_in_rho():
    account = accounts.opened(ZCDP(Fraction(1, 8)))
    ask(account, [1, 2], epsilon=1)
    raises(BudgetError, "exceed the budget", ask, account, [1, 2], epsilon=Fraction(1, 1000))


def test_a_choice_before_the_debit_is_refused():
    account = Account("test", PureDP(1), draws=1)
    raises(BudgetError, "before the budget was debited", ask, account, [1, 2])


def test_a_choice_is_recorded_and_forced():
    with transcripts.recording() as recorded:
        first = ask(accounts.opened(PureDP(2)), [9] * 8)
    assert recorded.calls[0].query.tolist() == [9] * 8
    for _ in range(5):
        with transcripts.recording(script=recorded.calls):
            assert ask(accounts.opened(PureDP(2)), [0, 1, 2, 3, 4, 5, 6, 7]) == first
    with transcripts.recording(script=recorded.calls), pytest.raises(ReplayError):
        ask(accounts.opened(PureDP(2)), [0, 1])


def test_the_event_of_a_choice():
    event = SelectionEvent(epsilon=Fraction(1, 2), sensitivity=2, candidates=9)
    assert event.rate == Fraction(1, 8)
    assert event.rho == Fraction(1, 32)
    assert event.draws == 1
    for bad in (0, -1):
        raises(BudgetError, None, SelectionEvent, epsilon=bad, sensitivity=1, candidates=2)
