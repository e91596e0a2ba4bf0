"""The sample sizes and the condition that paper A's proofs about separated mixtures require."""

import math

import numpy as np
import pytest
from helpers.errors import raises

from benchmarks.papers.regularity import condition_two, mixture_needs
from fastpubpriv.errors import InputError


def test_worst_cases_have_the_numbers_of_the_proofs():
    needs = mixture_needs(
        n_priv=100_000, n_components=4, min_weight=0.25, accuracy=0.1, failure_prob=0.1
    )
    assert needs["rows_per_component"] == pytest.approx(405 * 16 * math.log(80.0) / 0.02)
    assert needs["rows_per_component"] == pytest.approx(1.42e6, rel=1e-3)
    assert needs["public_rows"] == pytest.approx(8 * math.log(40.0) / 0.25)
    assert needs["count_noise"] == pytest.approx(100_000 * 0.25 / 1280)
    # Both halves of Condition (2): the larger of 1849 and 973 columns (paper: errata E16).
    assert needs["dim"] == pytest.approx(1849.0, rel=1e-3)
    raises(InputError, "min_weight", mixture_needs, n_priv=10, n_components=4, min_weight=0.3)


def test_condition_two_holds_from_the_dimension_that_it_needs():
    # One component, so that the logarithm is that of mixture_needs with k = 1.
    least = mixture_needs(n_priv=1000, n_components=1, min_weight=1.0)["dim"]
    for dim, expected in ((math.ceil(least) + 1, True), (math.floor(least) - 1, False)):
        assert condition_two(np.eye(dim)[None] * 7.0, n_total=1000) == [expected]
    # A flat component fails however many columns there are.
    flat = np.eye(math.ceil(least) + 1)[None].copy()
    flat[0, 0, 0] = 1e4
    assert condition_two(flat, n_total=1000) == [False]
    for wrong in (np.eye(3), [np.eye(2), np.eye(3)], "abc", [[[None]]]):
        raises(InputError, "stack", condition_two, wrong, n_total=1000)
