"""The radius that counts of norms choose: a search shell by shell, rows that noise hides, and rows of noise alone."""

import numpy as np
import pytest

from fastpubpriv import ZCDP
from fastpubpriv.distributions.budget_split import divide
from fastpubpriv.distributions.norms import HIDDEN, TYPICAL, choose_ball
from fastpubpriv.privacy.spending import GaussianSpending

EDGES = 2.0 ** (np.arange(-7.0, 5.0) / 2.0)
STD = 12.0  # of a count
NOISE = 6.0  # of a coordinate of the sum at radius 1
DIM = 5


def ball(counts):
    shares = divide(DIM, 20_000, GaussianSpending(ZCDP(0.1).rho))
    return choose_ball(counts, EDGES, STD, shares, NOISE)


def squared_bias(counts, last, radius):
    """Squared sum that the ball takes away, and its variance; noise hides rows as far as two shells further out."""
    total = variance = 0.0
    lower = np.append(0.0, EDGES)
    for shell, rows in enumerate(counts[: last + 1]):
        # shells hold rows evenly; those beyond the last edge are at it
        upper = EDGES[min(shell, len(EDGES) - 1)]
        grid = lower[shell] + (upper - lower[shell]) * (np.arange(4_000) + 0.5) / 4_000
        over = np.maximum(grid - radius, 0.0).mean()
        part = max(upper - max(lower[shell], radius), 0.0)
        total += rows * over
        variance += (STD / 2.0 * over) ** 2 + (max(rows, 0.0) * part) ** 2 / 12.0
    far = EDGES[-1]
    if last + 2 < len(EDGES):
        far = (EDGES[last + 1] + EDGES[last + 2]) / 2.0
    hidden = HIDDEN * STD / 2.0 * max(far - radius, 0.0)
    return max(total, 0.0) ** 2 + variance + hidden**2


@pytest.mark.parametrize("outermost", [3, 6, len(EDGES)])
def test_a_radius_is_the_best_of_all_edges(outermost):
    """Far inside the edges, and up to the last one: there, the hidden rows are at it."""
    counts = np.zeros(len(EDGES) + 1)
    counts[: outermost + 1] = 900.0 * 0.6 ** np.arange(outermost + 1)
    counts[outermost] += 10.0 * STD
    last = min(outermost + 3, len(EDGES))  # a window of four shells has as many rows
    squares = [squared_bias(counts, last, edge) for edge in EDGES]
    best = int(np.argmin(squares + DIM * (NOISE * EDGES) ** 2))
    radius, bias = ball(counts)
    assert radius == EDGES[best]
    assert bias == pytest.approx(np.sqrt(squares[best]), rel=0.01)


def test_rows_that_noise_explains_are_taken_away_too():
    """Four deviations in one shell: a correction would leave part of them out, and none is put back."""
    counts = np.zeros(len(EDGES) + 1)
    counts[2] = 5_000.0
    counts[9] = 4.0 * STD
    squares = [squared_bias(counts, 10, edge) for edge in EDGES]  # a window of two shells
    best = int(np.argmin(squares + DIM * (NOISE * EDGES) ** 2))
    radius, bias = ball(counts)
    assert radius == EDGES[best]
    assert bias == pytest.approx(np.sqrt(squares[best]), rel=0.01)


def test_counts_of_noise_alone_give_the_typical_radius():
    assert ball(np.zeros(len(EDGES) + 1)) == (min(EDGES[-1], TYPICAL * np.sqrt(DIM)), 0.0)
