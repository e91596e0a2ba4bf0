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


def chosen(scores, law, seed, epsilon=2):
    event = SelectionEvent(epsilon=epsilon, sensitivity=1, candidates=len(scores), law=law)
    query = np.array(scores, dtype=np.int64)
    return release_choice(
        opened(PureDP(epsilon + 1), random_state=seed),
        name="choice",
        query=lambda: query,
        event=event,
    )


def coins(scores, rate):
    best = max(scores)
    return [
        Fraction(choice_weights.weight(best - s, rate, coin=True), 1 << choice_weights.BITS)
        for s in scores
    ]


def permute_and_flip_law(scores, rate):
    """P(i) = p_i times the integral over t in [0, 1] of prod_(j != i) (1 - p_j t), exactly."""
    p = coins(scores, rate)
    law = []
    for i, own in enumerate(p):
        polynomial = [Fraction(1)]
        for j, other in enumerate(p):
            if j != i:
                shifted = [Fraction(0), *(-other * c for c in polynomial)]
                polynomial = [
                    a + b for a, b in zip([*polynomial, Fraction(0)], shifted, strict=True)
                ]
        law.append(own * sum(c / (power + 1) for power, c in enumerate(polynomial)))
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
    # Never worse than the exponential mechanism: expected score at least as high.
    other = exponential_law(scores, rate)
    assert sum(p * s for p, s in zip(law, scores, strict=True)) >= sum(
        p * s for p, s in zip(other, scores, strict=True)
    )


@pytest.mark.parametrize(
    "rate", [Fraction(1, 2**31), Fraction(1, 2), Fraction(5), Fraction(77, 1000)]
)
@pytest.mark.parametrize("gap", [1, 2, 30])
def test_coins_are_close_for_heads_and_for_tails(gap, rate):
    coin = choice_weights.weight(gap, rate, coin=True)
    with mpmath.workprec(1400):
        heads = (
            mpmath.exp(-mpmath.mpf(gap * rate.numerator) / rate.denominator)
            * mpmath.mpf(2) ** choice_weights.BITS
        )
        tails = mpmath.mpf(2) ** choice_weights.BITS - heads
        error = heads - coin
        if coin:
            assert 0 <= error <= min(heads, tails) * mpmath.mpf(2) ** -120
        else:
            assert heads < mpmath.mpf(2) ** (choice_weights.BITS - choice_weights.CUT)
        # Control: a coin from a double is not.
        double = mpmath.mpf(np.exp(-float(gap * rate))) * mpmath.mpf(2) ** choice_weights.BITS
        assert abs(heads - double) > min(heads, tails) * mpmath.mpf(2) ** -120
    assert choice_weights.weight(0, rate, coin=True) == 1 << choice_weights.BITS


def frequencies(scores, law, draws):
    counts = np.zeros(len(scores))
    for seed in range(draws):
        counts[chosen(scores, law, seed)] += 1
    return counts


def check_frequencies(law, draws):
    scores = [4, 2, 4, 0, 1]
    counts = frequencies(scores, law, draws)
    want = np.array([float(p) for p in LAW[law](scores, Fraction(1))]) * draws
    # False alarm 1e-6; seeds are fixed.
    assert stats.chisquare(counts, want).pvalue > 1e-6
    # Planted: half and twice the rate, and the other law, which fewer draws do not tell apart.
    planted = [LAW[law](scores, Fraction(rate, 2)) for rate in (1, 4)]
    planted += [LAW[LAWS[1 - LAWS.index(law)]](scores, Fraction(1))] * (draws >= 8000)
    for wrong in planted:
        assert stats.chisquare(counts, np.array([float(p) for p in wrong]) * draws).pvalue < 1e-6


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
    raises(
        KernelError,
        "candidates",
        chosen,
        np.zeros(choice_weights.MAX_CANDIDATES + 1),
        "permute_and_flip",
        0,
    )


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


def neighbors(rows, atoms=ATOMS):
    return (
        (*rows[:place], value, *rows[place + 1 :])
        for place, value in itertools.product(range(4), atoms)
    )


def worst_ratio(scores, law, rate):
    laws = {key: LAW[law](list(key), rate) for key in set(scores.values())}
    worst = Fraction(0)
    for rows, mine in scores.items():
        for other in neighbors(rows):
            theirs = laws[scores[other]]
            worst = max(worst, *(a / b for a, b in zip(laws[mine], theirs, strict=True)))
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
def test_privacy_over_all_neighbors(name):
    scores = all_scores(EVALUATIONS[name])
    sensitivity = EVALUATIONS[name].sensitivity
    assert len(set(scores.values())) >= 10
    moves = {
        max(abs(a - b) for a, b in zip(mine, scores[other], strict=True))
        for rows, mine in scores.items()
        for other in neighbors(rows)
    }
    assert max(moves) == sensitivity
    doubled = {rows: tuple(2 * s for s in mine) for rows, mine in scores.items()}
    for law in LAWS:
        for epsilon in (Fraction(1, 10), Fraction(1), Fraction(4)):
            event = SelectionEvent(epsilon=epsilon, sensitivity=sensitivity, candidates=3, law=law)
            with mpmath.workprec(400):
                limit = mpmath.exp(
                    mpmath.mpf(epsilon.numerator) / epsilon.denominator + mpmath.mpf(2) ** -99
                )

                def exceeds(ratio, limit=limit):
                    return mpmath.mpf(ratio.numerator) / ratio.denominator > limit

                assert not exceeds(worst_ratio(scores, law, event.rate))
                if epsilon == 1:
                    assert worst_ratio(scores, law, event.rate) > Fraction(3, 2)
                    # Planted: scores that move by two, and the rate epsilon in place of epsilon / 2.
                    assert exceeds(worst_ratio(doubled, law, event.rate))
                    assert exceeds(worst_ratio(scores, law, 2 * event.rate))


def test_scores_that_are_not_whole_are_refused():
    """Planted: masses that are not rounded before rows are counted, and scores in floating point."""

    class Unrounded:
        sensitivity = 1

        def scores(self, rows, passes):
            return EVALUATIONS["cells"].scores(rows, passes) + 0.25

    with pytest.raises(KernelError, match="int64"):
        release_choice_of(
            opened(PureDP(1)),
            private_rows(np.zeros((4, 1))),
            Unrounded(),
            name="x",
            size=3,
            cost=Fraction(1, 2),
            law="exponential",
            executor=ONE,
        )


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
        ]
        evaluations += [
            ScheffeSets.of_cells(listed, n, cells=64),
            ScheffeSets.of_intervals(listed, n, threads=1),
        ]
    most = dict.fromkeys(range(len(evaluations)), 0)
    for _ in range(60):
        rows = 3.0 * rng.normal(size=(n, dim))
        rows[rng.integers(n), rng.integers(dim)] = HOSTILE[rng.integers(len(HOSTILE))]
        other = rows.copy()
        index = rng.integers(n)
        other[index] = (
            3.0 * rng.normal(size=dim)
            if rng.random() < 0.5
            else HOSTILE[rng.integers(len(HOSTILE))]
        )
        for place, evaluation in enumerate(evaluations):
            gap = evaluation.scores(private_rows(rows), ONE) - evaluation.scores(
                private_rows(other), ONE
            )
            most[place] = max(most[place], int(np.abs(gap).max()))
    assert list(most.values()) == [evaluation.sensitivity for evaluation in evaluations]


def test_equal_hypotheses_have_no_set_between_them():
    listed = Hypotheses.from_arrays(
        np.ones((3, 1)), np.array([[[0.0]], [[0.0]], [[9.0]]]), np.ones((3, 1, 1))
    )
    rows = private_rows(np.random.default_rng(0).normal(size=(500, 1)))
    exact = ScheffeSets.of_intervals(listed, 500, own_only=True)
    every = [ScheffeSets.of_intervals(listed, 500), ScheffeSets.of_densities(listed, 500, draws=64)]
    for evaluation in (
        exact,
        CellSets.prepare(listed, 500),
        DensitySets.prepare(listed, draws=64),
        *every,
    ):
        first, second, third = evaluation.scores(rows, ONE).tolist()
        assert first == second <= 1
        assert third >= 499


@pytest.mark.parametrize("full", [False, True])
def test_density_scores_against_a_direct_count(full):
    rng = np.random.default_rng(5)
    size = 9
    n = 200
    dim = 3
    draws = 128
    listed = random_list(rng, size, 2, dim)
    if full:
        root = rng.normal(size=(size, 2, dim, dim)) + np.eye(dim)
        listed = Hypotheses.from_arrays(
            listed.weights, listed.means, np.einsum("...ij,...kj->...ik", root, root)
        )
    evaluation = DensitySets.prepare(listed, draws=draws, threads=1)
    rows = 2.0 * rng.normal(size=(n, dim))
    logs = np.array([listed.log_density(rows, i) for i in range(size)])
    # Hypotheses more than 32 below the likeliest are not told apart.
    logs = np.maximum(logs - logs.max(axis=0), -32.0)
    want = np.zeros(size, dtype=int)
    for i, j in itertools.combinations(range(size), 2):
        held = int((logs[i] > logs[j]).sum())
        for h, drawn in ((i, evaluation.masses[i, j]), (j, evaluation.masses[j, i])):
            want[h] = max(want[h], abs((2 * n * int(drawn) + draws) // (2 * draws) - held))
    # Rows whose two log densities are within 1/2048 may be in neither set.
    assert np.abs(evaluation.scores(private_rows(rows), ONE) - want).max() <= 1


@pytest.mark.parametrize("draws", [255, 256, 300])
def test_masses_are_counts_of_the_codes_of_all_draws(draws):
    """Three panels of hypotheses, and draws that are less, as many and more than are coded at once."""
    listed = random_list(np.random.default_rng(draws), 2 * PANEL + 3, 2, 2)
    masses = DensitySets.prepare(listed, draws=draws, threads=2).masses
    public = PublicDraws(listed, draws=draws)
    codes = np.empty((public.table.panels, draws, PANEL), dtype=np.int16)
    expected = np.empty(public.table.panels * PANEL, dtype=np.int32)
    for own in (0, 1, PANEL - 1, PANEL, PANEL + 30, 2 * PANEL, 2 * PANEL + 2):
        kernels.density_codes(
            public.of(own), public.table, codes, 0, kernels.density_room(public.table)
        )
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
    worst = 0.0
    for i, j in itertools.combinations(range(12), 2):
        inside = logs[i] > logs[j]
        worst = max(worst, abs(masses[i][inside].sum() - evaluation.masses[i, j] / 1024))
        worst = max(worst, abs(masses[j][inside].sum() - evaluation.masses[j, i] / 1024))
    assert worst < 0.01


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
    pure = opened(PureDP(1))
    zcdp = opened(ZCDP(Fraction(1, 8)))
    spending = GaussianSpending(Fraction(1, 8))
    assert mechanism.law_for(pure) == "permute_and_flip"
    assert mechanism.law_for(zcdp) == "exponential"
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
    raises(
        KernelError,
        "32 bits",
        DensitySets.prepare(listed, draws=16).scores,
        private_rows(np.zeros((10, 2))),
        ONE,
    )


def test_required_rows():
    # 32 ln(2 * 499500 / .0125) / .04 = 14557.1 and 8 ln(1000 / .0125) / .002 = 45159.1, by hand.
    assert mechanism.closed_form_rows(1000, 0.2, 1.0, 0.05) == 14558
    assert mechanism.closed_form_rows(1000, 0.2, 0.01, 0.05) == 45160
    assert (
        mechanism.required_rows(1, 0.2, 1.0, 0.05)
        == mechanism.closed_form_rows(1, 0.2, 1.0, 0.05)
        == 1
    )
    for epsilon in (0.01, 1.0, 100.0):
        n = mechanism.required_rows(1000, 0.2, epsilon, 0.05)
        assert (
            mechanism.slack_at(1000, n, epsilon, 0.05)
            <= 0.1
            < mechanism.slack_at(1000, n - 1, epsilon, 0.05)
        )
        assert n < mechanism.closed_form_rows(1000, 0.2, epsilon, 0.05)


# ---- Scores over the Yatracos class and clipped log ratios: against direct counts, and what they are bound to find --


def logs_of(listed, points):
    """Log densities (size, n), no lower than 32 below the largest."""
    logs = np.array([listed.log_density(points, i) for i in range(listed.size)])
    return np.maximum(logs - logs.max(axis=0), -32.0)


def between(numbers):
    """Where one hypothesis has more than another, for each pair: (pairs, points) from (size, points)."""
    return np.array(
        [numbers[i] > numbers[j] for i, j in itertools.combinations(range(len(numbers)), 2)]
    )


def largest(masses, held, n, *, own=False):
    """max over all sets, or over those of its own pairs, of |round(n mass) - rows|, from masses (size, sets)."""
    off = np.abs(np.floor(n * masses + 0.5) - held)
    pairs = np.array(list(itertools.combinations(range(len(masses)), 2)))
    return (off * (pairs == np.arange(len(masses))[:, None, None]).any(axis=2) if own else off).max(
        axis=1
    )


@pytest.mark.parametrize("n", [1, 37, 1000])
def test_scores_over_cells_against_a_direct_count(n):
    rng = np.random.default_rng(n)
    listed = random_list(rng, 9, 2, 1)
    values = 2.0 * rng.normal(size=n)
    values[0] = np.nan if n > 100 else np.inf
    own = CellSets.prepare(listed, n, cells=40)
    edges = np.concatenate([[-np.inf], own.edges, [np.inf]])
    cells = np.array([np.diff(cdf(listed, i, edges)) for i in range(9)])
    counts = np.array([((values >= a) & (values < b)).sum() for a, b in itertools.pairwise(edges)])
    assert counts.sum() == n - 1
    inside = between(cells)
    masses = cells @ inside.T
    held = inside @ counts
    rows = private_rows(values[:, None])
    every = ScheffeSets.of_cells(listed, n, cells=40)
    assert own.scores(rows, ONE).tolist() == largest(masses, held, n, own=True).tolist()
    assert every.scores(rows, ONE).tolist() == largest(masses, held, n).tolist()
    # Control: the sets of one's own pairs alone give less for some.
    assert n == 1 or (own.scores(rows, ONE) < every.scores(rows, ONE)).any()


@pytest.mark.parametrize("components", [1, 2, 3])
def test_exact_scores_against_a_direct_count(components):
    """Masses of the sets from a fine grid, rows in them by comparing densities; cells come near."""
    rng = np.random.default_rng(components)
    n = 2000
    listed = random_list(rng, 12, components, 1)
    values = 2.0 * rng.normal(size=n)
    rows = private_rows(values[:, None])
    grid = np.linspace(-25.0, 25.0, 200_001)
    inside = between(
        np.array([listed.log_density((grid[1:, None] + grid[:-1, None]) / 2, i) for i in range(12)])
    )
    masses = np.array([np.diff(cdf(listed, i, grid)) for i in range(12)]) @ inside.T
    held = between(np.array([listed.log_density(values[:, None], i) for i in range(12)])).sum(
        axis=1
    )
    own = ScheffeSets.of_intervals(listed, n, threads=2, own_only=True).scores(rows, ONE)
    every = ScheffeSets.of_intervals(listed, n, threads=2).scores(rows, ONE)
    for found, want in (
        (own, largest(masses, held, n, own=True)),
        (every, largest(masses, held, n)),
    ):
        assert np.abs(found - want).max() <= 1  # the grid is good to 1e-4
        # Control: one set counted to the wrong side of its roots is seen.
        assert np.abs(np.roll(found, 1) - want).max() > 20
    assert 1 <= np.abs(CellSets.prepare(listed, n).scores(rows, ONE) - own).max() <= 0.01 * n


def by_draws(listed, rows, draws):
    """What scores are by the draws and by the rows in every set."""
    logs = logs_of(listed, rows)
    public = PublicDraws(listed, draws=draws)
    first, second = np.array(list(itertools.combinations(range(listed.size), 2))).T
    drawn = (logs_of(listed, public.of(h)) for h in range(listed.size))
    masses = np.array([(each[first] > each[second]).mean(axis=1) for each in drawn])
    return largest(masses, (logs[first] > logs[second]).sum(axis=1), len(rows))


@pytest.mark.parametrize("size", [9, 70])
def test_yatracos_by_draws_against_a_direct_count(size):
    rng = np.random.default_rng(size)
    listed = random_list(rng, size, 2, 3)
    n = 200
    draws = 64
    rows = 2.0 * rng.normal(size=(n, 3))
    want = by_draws(listed, rows, draws)
    found = ScheffeSets.of_densities(listed, n, draws=draws, threads=2).scores(
        private_rows(rows), ONE
    )
    # Points whose two log densities are within 1/2048 may be in neither set: one of the rows, or one draw for three rows.
    assert np.abs(found - want).max() <= 4
    assert (found == want).mean() > 0.7


def test_log_ratios_against_a_direct_sum():
    rng = np.random.default_rng(3)
    listed = random_list(rng, 200, 2, 2)
    rows = 2.0 * rng.normal(size=(3000, 2))
    below = -logs_of(listed, rows)
    for clip in (0.5, 4.0, 31.0):
        found = LogRatios.prepare(listed, clip=clip).scores(private_rows(rows), ONE)
        want = STEPS / clip * np.minimum(below, clip).sum(axis=1)
        # Codes are rounded to 1/2048 of a nat, and the step to a whole number of codes.
        assert np.abs(found - want).max() <= 1.0 + 3000 * STEPS / clip / 4096 + 0.01 * want.max()
        assert np.corrcoef(found, want)[0, 1] > 0.9999
    # A row that is not finite counts the same for all.
    spoiled = rows.copy()
    spoiled[:500] = np.nan
    clean = LogRatios.prepare(listed, clip=2.0).scores(private_rows(rows[500:]), ONE)
    assert set(
        (LogRatios.prepare(listed, clip=2.0).scores(private_rows(spoiled), ONE) - clean).tolist()
    ) == {500 * STEPS}


def test_sizes_beyond_the_limits_are_refused(monkeypatch):
    listed = random_list(np.random.default_rng(1), 300, 1, 1)
    for method in ("exact", "cells", "densities"):
        with pytest.raises(InputError, match="compares up to 256 hypotheses, got 300"):
            mechanism.prepare(listed, 10, method=method, score="yatracos")
    raises(
        InputError,
        "leave out method='cells'",
        mechanism.prepare,
        listed,
        10,
        method="cells",
        score="log_ratio",
    )
    for clip in (32.0, 0.001):
        raises(
            InputError,
            "1/512 to 31 nats",
            mechanism.prepare,
            listed,
            10,
            score="log_ratio",
            clip=clip,
        )
    monkeypatch.setattr(mechanism, "MOST_COMPARED", 99)
    listed = random_list(np.random.default_rng(1), 100, 1, 1)
    raises(
        InputError,
        r'up to 99 hypotheses, got 100: .*score="log_ratio"',
        mechanism.prepare,
        listed,
        10,
    )
    assert mechanism.prepare(listed, 10, score="log_ratio")[0] == "densities"


def test_one_pair_has_one_set_and_long_lists_have_several_turns():
    rng = np.random.default_rng(4)
    rows = private_rows(rng.normal(size=(400, 1)))
    two = random_list(rng, 2, 1, 1)
    for method in ("exact", "cells", "densities"):
        scores = mechanism.prepare(two, 400, method=method, score="yatracos", draws=64)[1].scores(
            rows, ONE
        )
        plain = mechanism.prepare(two, 400, method=method, draws=64)[1].scores(rows, ONE)
        assert scores.tolist() == plain.tolist()  # there is one set only
    # More panels than are summed at once.
    rng = np.random.default_rng(5)
    listed = random_list(rng, 5000, 1, 1)
    rows = rng.normal(size=(100, 1))
    found = LogRatios.prepare(listed, clip=3.0).scores(
        private_rows(rows), Executor(threads=2, progress=False)
    )
    want = STEPS / 3.0 * np.minimum(-logs_of(listed, rows), 3.0).sum(axis=1)
    assert np.abs(found - want).max() <= 1.5
