"""Scores over the Yatracos class and clipped log ratios: against direct counts, and what they are bound to find.

Their laws over all neighbors are enumerated in `test_hypotheses.py`.
"""

import itertools

import numpy as np
import pytest
from helpers.errors import raises
from helpers.hypotheses import cdf, random_list

from fastpubpriv import InputError
from fastpubpriv.mechanisms import selection as mechanism
from fastpubpriv.mechanisms.scores import STEPS, CellSets, LogRatios, PublicDraws, ScheffeSets
from fastpubpriv.sources import private_rows
from fastpubpriv.sources.fold import Executor

ONE = Executor(threads=1, progress=False)


def logs_of(listed, points):
    """Log densities (size, n), no lower than 32 below the largest."""
    logs = np.array([listed.log_density(points, i) for i in range(listed.size)])
    return np.maximum(logs - logs.max(axis=0), -32.0)


def between(numbers):
    """Where one hypothesis has more than another, for each pair: (pairs, points) from (size, points)."""
    return np.array([numbers[i] > numbers[j] for i, j in itertools.combinations(range(len(numbers)), 2)])


def largest(masses, held, n, *, own=False):
    """max over all sets, or over those of its own pairs, of |round(n mass) - rows|, from masses (size, sets)."""
    off = np.abs(np.floor(n * masses + 0.5) - held)
    pairs = np.array(list(itertools.combinations(range(len(masses)), 2)))
    return (off * (pairs == np.arange(len(masses))[:, None, None]).any(axis=2) if own else off).max(axis=1)


@pytest.mark.parametrize("n", [1, 37, 1000])
def test_scores_over_cells_against_a_direct_count(n):
    rng = np.random.default_rng(n)
    listed, values = random_list(rng, 9, 2, 1), 2.0 * rng.normal(size=n)
    values[0] = np.nan if n > 100 else np.inf
    own = CellSets.prepare(listed, n, cells=40)
    edges = np.concatenate([[-np.inf], own.edges, [np.inf]])
    cells = np.array([np.diff(cdf(listed, i, edges)) for i in range(9)])
    counts = np.array([((values >= a) & (values < b)).sum() for a, b in itertools.pairwise(edges)])
    assert counts.sum() == n - 1
    inside = between(cells)
    masses, held = cells @ inside.T, inside @ counts
    rows, every = private_rows(values[:, None]), ScheffeSets.of_cells(listed, n, cells=40)
    assert own.scores(rows, ONE).tolist() == largest(masses, held, n, own=True).tolist()
    assert every.scores(rows, ONE).tolist() == largest(masses, held, n).tolist()
    # Control: the sets of one's own pairs alone give less for some.
    assert n == 1 or (own.scores(rows, ONE) < every.scores(rows, ONE)).any()


@pytest.mark.parametrize("components", [1, 2, 3])
def test_exact_scores_against_a_direct_count(components):
    """Masses of the sets from a fine grid, rows in them by comparing densities; cells come near."""
    rng, n = np.random.default_rng(components), 2000
    listed, values = random_list(rng, 12, components, 1), 2.0 * rng.normal(size=n)
    rows, grid = private_rows(values[:, None]), np.linspace(-25.0, 25.0, 200_001)
    inside = between(np.array([listed.log_density((grid[1:, None] + grid[:-1, None]) / 2, i) for i in range(12)]))
    masses = np.array([np.diff(cdf(listed, i, grid)) for i in range(12)]) @ inside.T
    held = between(np.array([listed.log_density(values[:, None], i) for i in range(12)])).sum(axis=1)
    own = ScheffeSets.of_intervals(listed, n, threads=2, own_only=True).scores(rows, ONE)
    every = ScheffeSets.of_intervals(listed, n, threads=2).scores(rows, ONE)
    for found, want in ((own, largest(masses, held, n, own=True)), (every, largest(masses, held, n))):
        assert np.abs(found - want).max() <= 1  # the grid is good to 1e-4
        # Control: one set counted to the wrong side of its roots is seen.
        assert np.abs(np.roll(found, 1) - want).max() > 20
    assert 1 <= np.abs(CellSets.prepare(listed, n).scores(rows, ONE) - own).max() <= 0.01 * n


def by_draws(listed, rows, draws):
    """What scores are by the draws and by the rows in every set."""
    logs, public = logs_of(listed, rows), PublicDraws(listed, draws=draws)
    first, second = np.array(list(itertools.combinations(range(listed.size), 2))).T
    drawn = (logs_of(listed, public.of(h)) for h in range(listed.size))
    masses = np.array([(each[first] > each[second]).mean(axis=1) for each in drawn])
    return largest(masses, (logs[first] > logs[second]).sum(axis=1), len(rows))


@pytest.mark.parametrize("size", [9, 70])
def test_yatracos_by_draws_against_a_direct_count(size):
    rng = np.random.default_rng(size)
    listed, n, draws = random_list(rng, size, 2, 3), 200, 64
    rows = 2.0 * rng.normal(size=(n, 3))
    want = by_draws(listed, rows, draws)
    found = ScheffeSets.of_densities(listed, n, draws=draws, threads=2).scores(private_rows(rows), ONE)
    # Points whose two log densities are within 1/2048 may be in neither set: one of the rows, or one draw for three rows.
    assert np.abs(found - want).max() <= 4
    assert (found == want).mean() > 0.7


def test_log_ratios_against_a_direct_sum():
    rng = np.random.default_rng(3)
    listed, rows = random_list(rng, 200, 2, 2), 2.0 * rng.normal(size=(3000, 2))
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
    assert set((LogRatios.prepare(listed, clip=2.0).scores(private_rows(spoiled), ONE) - clean).tolist()) == {
        500 * STEPS
    }


def test_sizes_beyond_the_limits_are_refused(monkeypatch):
    listed = random_list(np.random.default_rng(1), 300, 1, 1)
    for method in ("exact", "cells", "densities"):
        with pytest.raises(InputError, match="compares up to 256 hypotheses, got 300"):
            mechanism.prepare(listed, 10, method=method, score="yatracos")
    raises(InputError, "leave out method='cells'", mechanism.prepare, listed, 10, method="cells", score="log_ratio")
    for clip in (32.0, 0.001):
        raises(InputError, "1/512 to 31 nats", mechanism.prepare, listed, 10, score="log_ratio", clip=clip)
    monkeypatch.setattr(mechanism, "MOST_COMPARED", 99)
    listed = random_list(np.random.default_rng(1), 100, 1, 1)
    raises(InputError, r'up to 99 hypotheses, got 100: .*score="log_ratio"', mechanism.prepare, listed, 10)
    assert mechanism.prepare(listed, 10, score="log_ratio")[0] == "densities"


def test_one_pair_has_one_set_and_long_lists_have_several_turns():
    rng = np.random.default_rng(4)
    rows, two = private_rows(rng.normal(size=(400, 1))), random_list(rng, 2, 1, 1)
    for method in ("exact", "cells", "densities"):
        scores = mechanism.prepare(two, 400, method=method, score="yatracos", draws=64)[1].scores(rows, ONE)
        plain = mechanism.prepare(two, 400, method=method, draws=64)[1].scores(rows, ONE)
        assert scores.tolist() == plain.tolist()  # there is one set only
    # More panels than are summed at once.
    rng = np.random.default_rng(5)
    listed, rows = random_list(rng, 5000, 1, 1), rng.normal(size=(100, 1))
    found = LogRatios.prepare(listed, clip=3.0).scores(private_rows(rows), Executor(threads=2, progress=False))
    want = STEPS / 3.0 * np.minimum(-logs_of(listed, rows), 3.0).sum(axis=1)
    assert np.abs(found - want).max() <= 1.5
