"""Private hypothesis selection: exact output laws over all neighbors, scores against direct counts, coins against closed forms."""

import itertools
from fractions import Fraction
from functools import partial

import mpmath
import numpy as np
import pytest
from helpers import accounts
from helpers.errors import raises
from helpers.hypotheses import cdf, exponential_law, random_list
from releases import release_choice_of
from scipy import stats
from twins import hypotheses as twin

from fastpubpriv import InputError
from fastpubpriv.errors import KernelError
from fastpubpriv.kernels import densities as kernels
from fastpubpriv.kernels.densities import PANEL
from fastpubpriv.mechanisms import selection as mechanism
from fastpubpriv.mechanisms.hypotheses import Hypotheses
from fastpubpriv.mechanisms.scores import (
    STEPS,
    CellSets,
    DensitySets,
    LogRatios,
    PublicDraws,
    ScheffeSets,
    cell_edges,
)
from fastpubpriv.privacy import ZCDP, PureDP, SelectionEvent
from fastpubpriv.privacy.spending import GaussianSpending
from fastpubpriv.release import release as choice_weights
from fastpubpriv.release.release import release_choice
from fastpubpriv.sources import private_rows
from fastpubpriv.sources.fold import Executor

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")

ONE = Executor(threads=1, progress=False)
LAWS = ("exponential", "permute_and_flip")


opened = partial(accounts.opened, draws=1)


def chosen(scores, law, seed):
    event = SelectionEvent(epsilon=2, sensitivity=1, candidates=len(scores), law=law)
    query = np.array(scores, dtype=np.int64)
    account = opened(PureDP(3), random_state=seed)
    return release_choice(account, name="choice", query=lambda: query, event=event)


def coins(scores, rate):
    """The probability of heads of each candidate."""
    best = max(scores)
    heads = [choice_weights.weight(best - score, rate, coin=True) for score in scores]
    return [Fraction(weight, 1 << choice_weights.BITS) for weight in heads]


def permute_and_flip_law(scores, rate):
    """P(i) = p_i times the integral over t in [0, 1] of prod_(j != i) (1 - p_j t), exactly."""
    p = coins(scores, rate)
    law = []
    for i, own in enumerate(p):
        polynomial = [Fraction(1)]
        for other in p[:i] + p[i + 1 :]:
            times_t = [Fraction(0), *polynomial]
            padded = [*polynomial, Fraction(0)]
            polynomial = [a - other * b for a, b in zip(padded, times_t, strict=True)]
        integral = sum(c / (power + 1) for power, c in enumerate(polynomial))
        law.append(own * integral)
    return law


def permute_and_flip_by_orders(scores, rate):
    """The same law from the loop itself: all orders, all coins."""
    p = coins(scores, rate)
    law = [Fraction(0)] * len(p)
    orders = list(itertools.permutations(range(len(p))))
    for order in orders:
        none_yet = Fraction(1, len(orders))
        for candidate in order:
            law[candidate] += none_yet * p[candidate]
            none_yet *= 1 - p[candidate]
        assert none_yet == 0
    return law


LAW = {"exponential": exponential_law, "permute_and_flip": permute_and_flip_law}


@pytest.mark.parametrize("scores", [[0, 0, 0, 0], [3, 1, 0, 2], [-9, -9, -2, -3]])
@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(3, 100)])
def test_closed_form_of_permute_and_flip(scores, rate):
    law = permute_and_flip_law(scores, rate)
    assert law == permute_and_flip_by_orders(scores, rate)
    assert sum(law) == 1


@pytest.mark.parametrize("scores", [[0, 0, 0, 0], [3, 1, 0, 2], [-9, -9, -2, -3]])
@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(3, 100)])
def test_permute_and_flip_is_never_worse_than_the_exponential_mechanism(scores, rate):
    def expected_score(law):
        return sum(p * score for p, score in zip(law, scores, strict=True))

    by_flips = expected_score(permute_and_flip_law(scores, rate))
    assert by_flips >= expected_score(exponential_law(scores, rate))


@pytest.mark.parametrize(
    "rate", [Fraction(1, 2**31), Fraction(1, 2), Fraction(5), Fraction(77, 1000)]
)
@pytest.mark.parametrize("gap", [1, 2, 30])
def test_coins_are_close_for_heads_and_for_tails(gap, rate):
    coin = choice_weights.weight(gap, rate, coin=True)
    with mpmath.workprec(1400):
        two = mpmath.mpf(2)
        unit = two**choice_weights.BITS
        heads = unit * mpmath.exp(-mpmath.mpf(gap * rate.numerator) / rate.denominator)
        room = min(heads, unit - heads) * two**-120
        if coin:
            assert 0 <= heads - coin <= room
        else:
            assert heads < unit / two**choice_weights.CUT
        # Control: a coin from a double is not.
        from_double = unit * mpmath.mpf(np.exp(-float(gap * rate)))
        assert abs(heads - from_double) > room
    assert choice_weights.weight(0, rate, coin=True) == 1 << choice_weights.BITS


def frequencies(scores, law, draws):
    counts = np.zeros(len(scores))
    for seed in range(draws):
        counts[chosen(scores, law, seed)] += 1
    return counts


def check_frequencies(law, draws):
    """A false alarm has probability 1e-6; seeds are fixed."""
    scores = [4, 2, 4, 0, 1]
    counts = frequencies(scores, law, draws)

    def p_value(law, rate):
        probabilities = np.array([float(p) for p in LAW[law](scores, rate)])
        return stats.chisquare(counts, probabilities * draws).pvalue

    assert p_value(law, Fraction(1)) > 1e-6
    # Planted: half and twice the rate, and the other law, which fewer draws do not tell apart.
    assert p_value(law, Fraction(1, 2)) < 1e-6
    assert p_value(law, Fraction(2)) < 1e-6
    if draws >= 8000:
        (other,) = set(LAWS) - {law}
        assert p_value(other, Fraction(1)) < 1e-6


def test_choices_follow_permute_and_flip():
    check_frequencies("permute_and_flip", 8000)


def test_choices_follow_the_exponential_mechanism():
    check_frequencies("exponential", 3000)


@pytest.mark.statistical
@pytest.mark.parametrize("law", LAWS)
def test_many_choices_follow_their_law(law):
    check_frequencies(law, 40_000)


def test_permute_and_flip_with_many_candidates():
    scores = np.full(1000, -(10**6))
    scores[[3, 700, 999]] = 0
    assert {chosen(scores, "permute_and_flip", seed) for seed in range(60)} == {3, 700, 999}


def test_more_candidates_than_permute_and_flip_takes_are_refused():
    too_many = np.zeros(choice_weights.MAX_CANDIDATES + 1)
    raises(KernelError, "candidates", chosen, too_many, "permute_and_flip", 0)


ATOMS = (-2.0, -0.4, 0.7, 2.5)
THREE = Hypotheses.from_arrays(
    np.array([[0.5, 0.5], [1.0, 0.0], [0.3, 0.7]]),
    np.array([[[-2.0], [2.0]], [[0.5], [0.0]], [[-0.5], [2.5]]]),
    np.array([[[1.0], [1.0]], [[2.0], [1.0]], [[0.3], [0.5]]]),
)


def all_scores(evaluation, atoms=ATOMS):
    """Scores of every data set of four rows, as the mechanism sees them (the higher the better)."""
    found = {}
    for rows in itertools.product(atoms, repeat=4):
        data = private_rows(np.array(rows)[:, None])
        found[rows] = tuple((-evaluation.scores(data, ONE)).tolist())
    return found


def neighboring_scores(scores):
    """Pairs of scores of data sets that differ in one row."""
    for rows, place, atom in itertools.product(scores, range(4), ATOMS):
        yield scores[rows], scores[*rows[:place], atom, *rows[place + 1 :]]


def worst_ratio(scores, law, rate):
    laws = {key: LAW[law](list(key), rate) for key in set(scores.values())}
    worst = Fraction(0)
    for one, other in set(neighboring_scores(scores)):
        ratios = [a / b for a, b in zip(laws[one], laws[other], strict=True)]
        worst = max(worst, *ratios)
    return worst


EVALUATIONS = {
    "cells": CellSets.prepare(THREE, 4),
    "few cells": CellSets.prepare(THREE, 4, cells=7),
    "densities": DensitySets.prepare(THREE, draws=64, threads=1),
    "exact": ScheffeSets.of_intervals(THREE, 4, threads=1, own_only=True),
    "yatracos, cells": ScheffeSets.of_cells(THREE, 4, cells=40),
    "yatracos, densities": ScheffeSets.of_densities(THREE, 4, draws=64, threads=1),
    "yatracos, exact": ScheffeSets.of_intervals(THREE, 4, threads=1),
    "log ratios": LogRatios.prepare(THREE, clip=1.0),
}


@pytest.mark.parametrize("name", EVALUATIONS)
def test_scores_move_by_their_sensitivity_over_all_neighbors(name):
    scores = all_scores(EVALUATIONS[name])
    assert len(set(scores.values())) >= 10
    moves = [np.abs(np.subtract(one, other)).max() for one, other in neighboring_scores(scores)]
    assert max(moves) == EVALUATIONS[name].sensitivity


def exceeds(ratio, epsilon):
    """Whether a ratio of probabilities is above e^epsilon, by more than rounding."""
    with mpmath.workprec(400):
        exact = mpmath.mpf(epsilon.numerator) / epsilon.denominator
        limit = mpmath.exp(exact + mpmath.mpf(2) ** -99)
        return mpmath.mpf(ratio.numerator) / ratio.denominator > limit


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", EVALUATIONS)
def test_privacy_over_all_neighbors(name, law):
    scores = all_scores(EVALUATIONS[name])
    sensitivity = EVALUATIONS[name].sensitivity
    for epsilon in (Fraction(1, 10), Fraction(1), Fraction(4)):
        event = SelectionEvent(epsilon=epsilon, sensitivity=sensitivity, candidates=3, law=law)
        assert not exceeds(worst_ratio(scores, law, event.rate), epsilon)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", EVALUATIONS)
def test_planted_faults_of_privacy_are_caught(name, law):
    """Scores that move by two, and the rate epsilon in place of epsilon / 2."""
    scores = all_scores(EVALUATIONS[name])
    doubled = {rows: tuple(2 * score for score in of_rows) for rows, of_rows in scores.items()}
    sensitivity = EVALUATIONS[name].sensitivity
    one = Fraction(1)
    event = SelectionEvent(epsilon=one, sensitivity=sensitivity, candidates=3, law=law)
    assert worst_ratio(scores, law, event.rate) > Fraction(3, 2)
    assert exceeds(worst_ratio(doubled, law, event.rate), one)
    assert exceeds(worst_ratio(scores, law, 2 * event.rate), one)


def test_scores_that_are_not_whole_are_refused():
    """Planted: masses that are not rounded before rows are counted, and scores in floating point."""

    class Unrounded:
        sensitivity = 1

        def scores(self, rows, passes):
            return EVALUATIONS["cells"].scores(rows, passes) + 0.25

    rows = private_rows(np.zeros((4, 1)))
    asked = {"name": "x", "size": 3, "cost": Fraction(1, 2), "law": "exponential"}
    call = partial(release_choice_of, opened(PureDP(1)), rows, Unrounded(), executor=ONE)
    raises(KernelError, "int64", call, **asked)


HOSTILE = [np.nan, np.inf, -np.inf, 1e308, -1.7e308, 5e-324, -0.0]


@pytest.mark.parametrize("dim", [1, 3])
def test_scores_move_by_their_sensitivity_on_hostile_neighbors(dim):
    rng = np.random.default_rng(dim)
    listed = random_list(rng, 70, 2, dim)
    n = 30
    evaluations = [
        DensitySets.prepare(listed, draws=64, threads=1),
        ScheffeSets.of_densities(listed, n, draws=64, threads=1),
        LogRatios.prepare(listed, clip=2.0),
    ]
    if dim == 1:
        evaluations += [
            CellSets.prepare(listed, n),
            ScheffeSets.of_intervals(listed, n, threads=1, own_only=True),
            ScheffeSets.of_cells(listed, n, cells=64),
            ScheffeSets.of_intervals(listed, n, threads=1),
        ]
    moves = np.zeros((60, len(evaluations)), dtype=int)
    for trial in range(60):
        rows = 3.0 * rng.normal(size=(n, dim))
        rows[rng.integers(n), rng.integers(dim)] = rng.choice(HOSTILE)
        other = rows.copy()
        replaced = rng.integers(n)
        other[replaced] = rng.choice(HOSTILE)
        if rng.random() < 0.5:
            other[replaced] = 3.0 * rng.normal(size=dim)
        for place, evaluation in enumerate(evaluations):
            before = evaluation.scores(private_rows(rows), ONE)
            after = evaluation.scores(private_rows(other), ONE)
            moves[trial, place] = np.abs(before - after).max()
    sensitivities = [evaluation.sensitivity for evaluation in evaluations]
    assert moves.max(axis=0).tolist() == sensitivities


TWO_EQUAL = Hypotheses.from_arrays(
    np.ones((3, 1)), np.array([[[0.0]], [[0.0]], [[9.0]]]), np.ones((3, 1, 1))
)


@pytest.mark.parametrize(
    "evaluation",
    [
        ScheffeSets.of_intervals(TWO_EQUAL, 500, own_only=True),
        CellSets.prepare(TWO_EQUAL, 500),
        DensitySets.prepare(TWO_EQUAL, draws=64),
        ScheffeSets.of_intervals(TWO_EQUAL, 500),
        ScheffeSets.of_densities(TWO_EQUAL, 500, draws=64),
    ],
)
def test_equal_hypotheses_have_no_set_between_them(evaluation):
    rows = private_rows(np.random.default_rng(0).normal(size=(500, 1)))
    first, second, third = evaluation.scores(rows, ONE).tolist()
    assert first == second <= 1
    assert third >= 499


@pytest.mark.parametrize("full", [False, True])
def test_density_scores_against_a_direct_count(full):
    rng = np.random.default_rng(5)
    size = 9
    n = 200
    draws = 128
    listed = random_list(rng, size, 2, 3)
    if full:
        root = rng.normal(size=(size, 2, 3, 3)) + np.eye(3)
        covariances = np.einsum("...ij,...kj->...ik", root, root)
        listed = Hypotheses.from_arrays(listed.weights, listed.means, covariances)
    evaluation = DensitySets.prepare(listed, draws=draws, threads=1)
    rows = 2.0 * rng.normal(size=(n, 3))
    # Hypotheses more than 32 below the likeliest are not told apart.
    logs = logs_of(listed, rows)
    expected = np.zeros(size, dtype=int)
    for i, j in itertools.combinations(range(size), 2):
        held = int((logs[i] > logs[j]).sum())
        for own, other in ((i, j), (j, i)):
            drawn = int(evaluation.masses[own, other])
            rounded = (2 * n * drawn + draws) // (2 * draws)
            expected[own] = max(expected[own], abs(rounded - held))
    # Rows whose two log densities are within 1/2048 may be in neither set.
    assert np.abs(evaluation.scores(private_rows(rows), ONE) - expected).max() <= 1


@pytest.mark.parametrize("draws", [255, 256, 300])
def test_masses_are_counts_of_the_codes_of_all_draws(draws):
    """Three panels of hypotheses, and draws that are less, as many and more than are coded at once."""
    listed = random_list(np.random.default_rng(draws), 2 * PANEL + 3, 2, 2)
    masses = DensitySets.prepare(listed, draws=draws, threads=2).masses
    public = PublicDraws(listed, draws=draws)
    table = public.table
    codes = np.empty((table.panels, draws, PANEL), dtype=np.int16)
    expected = np.empty(table.panels * PANEL, dtype=np.int32)
    for own in (0, 1, PANEL - 1, PANEL, PANEL + 30, 2 * PANEL, 2 * PANEL + 2):
        room = kernels.density_room(table)
        kernels.density_codes(public.of(own), table, codes, 0, room)
        twin.draw_counts(codes, own, expected)
        np.testing.assert_array_equal(masses[own], expected[: listed.size])
        assert 0 < masses[own].max() <= draws


def test_masses_from_draws_are_near_the_true_ones():
    """On the line the masses of Scheffe sets are known: sums over fine cells."""
    listed = random_list(np.random.default_rng(8), 12, 2, 1)
    evaluation = DensitySets.prepare(listed, draws=1024, threads=2)
    grid = np.linspace(-20.0, 20.0, 40001)
    middle = (grid[1:] + grid[:-1])[:, None] / 2
    logs = np.array([listed.log_density(middle, i) for i in range(12)])
    masses = np.array([np.diff(cdf(listed, i, grid)) for i in range(12)])
    shares = evaluation.masses / 1024
    for i, j in itertools.combinations(range(12), 2):
        inside = logs[i] > logs[j]
        assert shares[i, j] == pytest.approx(masses[i][inside].sum(), abs=0.01)
        assert shares[j, i] == pytest.approx(masses[j][inside].sum(), abs=0.01)


def test_cells_follow_the_candidates_at_any_scale():
    listed = Hypotheses.from_arrays(
        np.ones((3, 1)),
        np.array([[[-1e9]], [[0.0]], [[1e9]]]),
        np.array([[[1.0]], [[1e-6]], [[4.0]]]),
    )
    edges = cell_edges(listed, 512)
    assert len(edges) < 512
    assert (np.diff(edges) > 0).all()
    for mean, std in ((-1e9, 1.0), (0.0, 1e-3), (1e9, 2.0)):
        assert len(edges[np.abs(edges - mean) <= 4.001 * std]) >= 30


def test_the_cheaper_law_is_the_default():
    assert mechanism.law_for(opened(PureDP(1))) == "permute_and_flip"
    assert mechanism.law_for(opened(ZCDP(Fraction(1, 8)))) == "exponential"


def test_the_epsilon_of_a_choice_for_rho():
    spending = GaussianSpending(Fraction(1, 8))
    assert spending.choice_epsilon("exponential") == 1
    flip = spending.choice_epsilon("permute_and_flip")
    event = SelectionEvent(epsilon=flip, sensitivity=1, candidates=2, law="permute_and_flip")
    assert Fraction(124, 1000) < event.rho <= Fraction(1, 8)
    assert flip < Fraction(52, 100)


def test_limits_are_refused_with_numbers(monkeypatch):
    listed = random_list(np.random.default_rng(1), 5, 1, 2)
    for made in (CellSets.prepare, ScheffeSets.of_intervals):
        raises(InputError, "one column", made, listed, 10)
    raises(InputError, "2\\^30 rows", CellSets.prepare, THREE, 2**30 + 1)
    monkeypatch.setattr("fastpubpriv.mechanisms.scores.MOST_DENSITIES", 4)
    raises(InputError, "up to 4 hypotheses, got 5", DensitySets.prepare, listed)
    monkeypatch.setattr("fastpubpriv.mechanisms.scores.MOST_EXACT_SETS", 2)
    raises(InputError, "up to 2 hypotheses, got 3", ScheffeSets.of_intervals, THREE, 10)


def test_more_rows_than_counts_can_hold_are_refused(monkeypatch):
    """Counts of 32 bits would wrap, and a neighbor then move a score by 2^32."""
    from fastpubpriv.mechanisms import scores as densities

    listed = random_list(np.random.default_rng(1), 5, 1, 2)
    for score in ("minimum_distance", "yatracos"):
        raises(InputError, "up to 2\\^31 - 1 rows", mechanism.prepare, listed, 2**31, score=score)
        assert mechanism.prepare(listed, 2**31 - 1, score=score, draws=16)[0] == "densities"
    raises(InputError, "up to 2\\^31 - 1 rows", mechanism.prepare, THREE, 2**31, method="densities")
    monkeypatch.setattr(densities, "LARGEST_COUNT", 9)
    ten_rows = private_rows(np.zeros((10, 2)))
    raises(KernelError, "32 bits", DensitySets.prepare(listed, draws=16).scores, ten_rows, ONE)


def test_rows_of_the_closed_form():
    # 32 ln(2 * 499500 / .0125) / .04 = 14557.1 and 8 ln(1000 / .0125) / .002 = 45159.1, by hand.
    assert mechanism.closed_form_rows(1000, 0.2, 1.0, 0.05) == 14558
    assert mechanism.closed_form_rows(1000, 0.2, 0.01, 0.05) == 45160


def test_one_hypothesis_needs_one_row():
    assert mechanism.closed_form_rows(1, 0.2, 1.0, 0.05) == 1
    assert mechanism.required_rows(1, 0.2, 1.0, 0.05) == 1


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 100.0])
def test_required_rows_are_the_fewest(epsilon):
    """Half of the accuracy is for the slack."""
    n = mechanism.required_rows(1000, 0.2, epsilon, 0.05)
    assert mechanism.slack_at(1000, n, epsilon, 0.05) <= 0.1
    assert mechanism.slack_at(1000, n - 1, epsilon, 0.05) > 0.1
    assert n < mechanism.closed_form_rows(1000, 0.2, epsilon, 0.05)


# ---- Scores over the Yatracos class and clipped log ratios: against direct counts, and what they are bound to find --


def logs_of(listed, points):
    """Log densities (size, n), no lower than 32 below the largest."""
    logs = np.array([listed.log_density(points, i) for i in range(listed.size)])
    return np.maximum(logs - logs.max(axis=0), -32.0)


def pairs_of(size):
    """The first and the second of each pair."""
    return np.triu_indices(size, 1)


def between(numbers):
    """Where one hypothesis has more than another, for each pair: (pairs, points) from (size, points)."""
    first, second = pairs_of(len(numbers))
    return numbers[first] > numbers[second]


def largest(masses, held, n):
    """max over all sets of |round(n mass) - rows|, from masses (size, sets)."""
    return np.abs(np.floor(n * masses + 0.5) - held).max(axis=1)


def largest_of_own_pairs(masses, held, n):
    """The same over the sets of its own pairs."""
    first, second = pairs_of(len(masses))
    expected = []
    for own in range(len(masses)):
        of_own = (first == own) | (second == own)
        expected.append(largest(masses[own : own + 1, of_own], held[of_own], n)[0])
    return np.array(expected)


@pytest.mark.parametrize("n", [1, 37, 1000])
def test_scores_over_cells_against_a_direct_count(n):
    rng = np.random.default_rng(n)
    listed = random_list(rng, 9, 2, 1)
    values = 2.0 * rng.normal(size=n)
    values[0] = np.nan if n > 100 else np.inf
    own = CellSets.prepare(listed, n, cells=40)
    edges = np.concatenate([[-np.inf], own.edges, [np.inf]])
    cells = np.array([np.diff(cdf(listed, i, edges)) for i in range(9)])
    finite = values[np.isfinite(values)]
    counts = np.bincount(np.searchsorted(own.edges, finite, side="right"), minlength=len(edges) - 1)
    assert counts.sum() == n - 1
    inside = between(cells)
    masses = cells @ inside.T
    held = inside @ counts
    rows = private_rows(values[:, None])
    every = ScheffeSets.of_cells(listed, n, cells=40)
    of_own = own.scores(rows, ONE)
    of_every = every.scores(rows, ONE)
    assert of_own.tolist() == largest_of_own_pairs(masses, held, n).tolist()
    assert of_every.tolist() == largest(masses, held, n).tolist()
    # Control: the sets of one's own pairs alone give less for some.
    assert n == 1 or (of_own < of_every).any()


@pytest.mark.parametrize("components", [1, 2, 3])
def test_exact_scores_against_a_direct_count(components):
    """Masses of the sets from a fine grid, rows in them by comparing densities; cells come near."""
    rng = np.random.default_rng(components)
    n = 2000
    listed = random_list(rng, 12, components, 1)
    values = 2.0 * rng.normal(size=n)
    rows = private_rows(values[:, None])
    grid = np.linspace(-25.0, 25.0, 200_001)
    middle = (grid[1:] + grid[:-1]) / 2

    def log_densities(points):
        return np.array([listed.log_density(points[:, None], i) for i in range(12)])

    masses = np.array([np.diff(cdf(listed, i, grid)) for i in range(12)])
    masses = masses @ between(log_densities(middle)).T
    held = between(log_densities(values)).sum(axis=1)
    own = ScheffeSets.of_intervals(listed, n, threads=2, own_only=True).scores(rows, ONE)
    every = ScheffeSets.of_intervals(listed, n, threads=2).scores(rows, ONE)
    for found, expected in (
        (own, largest_of_own_pairs(masses, held, n)),
        (every, largest(masses, held, n)),
    ):
        assert np.abs(found - expected).max() <= 1  # the grid is good to 1e-4
        # Control: one set counted to the wrong side of its roots is seen.
        assert np.abs(np.roll(found, 1) - expected).max() > 20
    of_cells = CellSets.prepare(listed, n).scores(rows, ONE)
    assert 1 <= np.abs(of_cells - own).max() <= 0.01 * n


def by_draws(listed, rows, draws):
    """What scores are by the draws and by the rows in every set."""
    public = PublicDraws(listed, draws=draws)
    masses = []
    for place in range(listed.size):
        inside = between(logs_of(listed, public.of(place)))
        masses.append(inside.mean(axis=1))
    held = between(logs_of(listed, rows)).sum(axis=1)
    return largest(np.array(masses), held, len(rows))


@pytest.mark.parametrize("size", [9, 70])
def test_yatracos_by_draws_against_a_direct_count(size):
    rng = np.random.default_rng(size)
    listed = random_list(rng, size, 2, 3)
    n = 200
    draws = 64
    rows = 2.0 * rng.normal(size=(n, 3))
    expected = by_draws(listed, rows, draws)
    evaluation = ScheffeSets.of_densities(listed, n, draws=draws, threads=2)
    found = evaluation.scores(private_rows(rows), ONE)
    # Points whose two log densities are within 1/2048 may be in neither set: one of the rows, or one draw for three rows.
    assert np.abs(found - expected).max() <= 4
    assert (found == expected).mean() > 0.7


def clipped_ratios(listed, rows, clip):
    """The exact sum of clipped log ratios to the likeliest, in steps."""
    below = -logs_of(listed, rows)
    return STEPS / clip * np.minimum(below, clip).sum(axis=1)


@pytest.mark.parametrize("clip", [0.5, 4.0, 31.0])
def test_log_ratios_against_a_direct_sum(clip):
    rng = np.random.default_rng(3)
    listed = random_list(rng, 200, 2, 2)
    rows = 2.0 * rng.normal(size=(3000, 2))
    found = LogRatios.prepare(listed, clip=clip).scores(private_rows(rows), ONE)
    expected = clipped_ratios(listed, rows, clip)
    # Codes are rounded to 1/2048 of a nat, and the step to a whole number of codes.
    room = 1.0 + 3000 * STEPS / clip / 4096 + 0.01 * expected.max()
    assert np.abs(found - expected).max() <= room
    assert np.corrcoef(found, expected)[0, 1] > 0.9999


def test_a_row_that_is_not_finite_counts_the_same_for_all():
    rng = np.random.default_rng(3)
    listed = random_list(rng, 200, 2, 2)
    rows = 2.0 * rng.normal(size=(3000, 2))
    spoiled = rows.copy()
    spoiled[:500] = np.nan
    evaluation = LogRatios.prepare(listed, clip=2.0)
    without = evaluation.scores(private_rows(rows[500:]), ONE)
    found = evaluation.scores(private_rows(spoiled), ONE)
    assert set((found - without).tolist()) == {500 * STEPS}


THREE_HUNDRED = random_list(np.random.default_rng(1), 300, 1, 1)


@pytest.mark.parametrize("method", ["exact", "cells", "densities"])
def test_more_hypotheses_than_a_yatracos_score_compares_are_refused(method):
    words = "compares up to 256 hypotheses, got 300"
    asked = {"method": method, "score": "yatracos"}
    raises(InputError, words, mechanism.prepare, THREE_HUNDRED, 10, **asked)


def test_arguments_of_log_ratios_that_are_refused():
    prepare = partial(mechanism.prepare, THREE_HUNDRED, 10, score="log_ratio")
    raises(InputError, "leave out method='cells'", prepare, method="cells")
    raises(InputError, "1/512 to 31 nats", prepare, clip=32.0)
    raises(InputError, "1/512 to 31 nats", prepare, clip=0.001)


def test_more_hypotheses_than_are_compared_are_told_of_log_ratios(monkeypatch):
    monkeypatch.setattr(mechanism, "MOST_COMPARED", 99)
    listed = random_list(np.random.default_rng(1), 100, 1, 1)
    words = r'up to 99 hypotheses, got 100: .*score="log_ratio"'
    raises(InputError, words, mechanism.prepare, listed, 10)
    assert mechanism.prepare(listed, 10, score="log_ratio")[0] == "densities"


@pytest.mark.parametrize("method", ["exact", "cells", "densities"])
def test_one_pair_has_one_set(method):
    rng = np.random.default_rng(4)
    rows = private_rows(rng.normal(size=(400, 1)))
    two = random_list(rng, 2, 1, 1)
    prepare = partial(mechanism.prepare, two, 400, method=method, draws=64)
    _, yatracos = prepare(score="yatracos")
    _, plain = prepare()
    assert yatracos.scores(rows, ONE).tolist() == plain.scores(rows, ONE).tolist()


def test_more_panels_than_are_summed_at_once():
    rng = np.random.default_rng(5)
    listed = random_list(rng, 5000, 1, 1)
    rows = rng.normal(size=(100, 1))
    two_threads = Executor(threads=2, progress=False)
    found = LogRatios.prepare(listed, clip=3.0).scores(private_rows(rows), two_threads)
    assert np.abs(found - clipped_ratios(listed, rows, 3.0)).max() <= 1.5
