"""The theorems' numbers: against the lemmas, against each other, and against themselves run backwards."""

import math

import pytest
from helpers.errors import raises

from fastpubpriv import ApproxDP, PureDP
from fastpubpriv.errors import BudgetError, InfeasibleError, InputError
from fastpubpriv.mixtures.list_decoding import results
from fastpubpriv.mixtures.list_decoding.results import mixture_sizes

BUDGET = ApproxDP(1, 1e-6)


@pytest.mark.parametrize(
    ("k", "dim", "log10", "pairs"),
    [(1, 1, 19, 5.5e7), (2, 1, 44, 2.3e8), (3, 1, 70, None), (2, 10, 456, None)],
)
def test_sizes_of_the_paper(k, dim, log10, pairs):
    results = mixture_sizes(k, dim, 0.1, BUDGET)
    assert abs(results.log10_candidates - log10) < 0.8
    assert results.corruption_weight == pytest.approx(1 / (180 * k))
    assert results.scales == pytest.approx(12 * (180 * k) ** 2, rel=1e-5)
    assert results.weights == math.comb(180 * k + k - 1, k - 1)
    if pairs is not None:
        assert results.variance_rows / 2 == pytest.approx(pairs, rel=0.06)
    assert results.candidates_paired < results.candidates
    assert results.rows == results.variance_rows + results.mean_rows + results.selection_rows


def test_numbers_of_the_lemmas():
    assert results.mean_list_bound(0.1) == 119  # 0.1 as a double is a little more than a tenth
    assert results.mean_list_bound(0.25) == 48
    assert results.scale_list_bound(0.25) == 192
    # Row numbers are the least that satisfy the lemma.
    w = 0.3
    beta = 0.1
    n = results.mean_rows(w, BUDGET, beta)

    def enough(rows):
        error = results.histogram_error(BUDGET, rows, beta / 2)
        return rows >= 24 * math.log(2 / beta) / w and rows >= error * 24 / w

    assert enough(n)
    assert not enough(n - 1)
    # The lemma as it is printed, n >= [tau + (2 / epsilon) ln(4 n / beta)] 24 / (1 - gamma), allows each tail half of what it may.
    printed = (27.2447 + 2.0 * math.log(4 * n / beta)) * 24 / w
    assert n <= printed <= 1.04 * n
    pairs = results.variance_rows(w, BUDGET, beta) // 2
    printed = (27.2447 + 2.0 * math.log(4 * pairs / beta)) * 24 / w**2
    assert pairs <= printed <= 1.04 * pairs
    # Selection rows of the spec and a refusal.
    m = 1000
    alpha = 0.1
    epsilon = 0.5
    beta = 0.04
    sets = m * m
    expected = max(
        32 * math.log(2 * sets / (beta / 4)) / alpha**2,
        8 * math.log(m / (beta / 4)) / (alpha * epsilon),
    )
    assert results.selection_rows(math.log(m), alpha, epsilon, beta) == math.ceil(expected)
    # A refusal has numbers.
    raises(InfeasibleError, "no number of rows", results.mean_rows, 1e-19, BUDGET, 0.05)


def test_arguments_out_of_range_are_refused():
    for call in (
        lambda: mixture_sizes(0, 1, 0.1, BUDGET), lambda: mixture_sizes(1, 0, 0.1, BUDGET),
        lambda: mixture_sizes(1, 1, 1.0, BUDGET), lambda: mixture_sizes(1, 1, 0.1, BUDGET, failure_prob=0.0),
    ):  # fmt: skip
        raises(InputError, None, call)
    raises(BudgetError, "needs a delta", results.mean_rows, 0.5, PureDP(1), 0.05)
