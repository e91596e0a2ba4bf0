"""Reports of a few bits: their exact privacy, mean and error, bytes, and arguments out of range."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest

from fastpubpriv import InputError, PureDP
from fastpubpriv.local import Aggregator, Duchi, PrivUnit, Reports, SubsetSelection, codes, estimate_mean
from fastpubpriv.local.codes import names_near_word

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")


def drawn(randomizer, row, n=3000):
    return randomizer.privatize(np.tile(row, (n, 1)), random_state=1)


def direction(dim):
    row = np.random.default_rng(dim).standard_normal(dim)
    return row / np.linalg.norm(row)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 4.0, 20.0, 60.0, 400.0])
@pytest.mark.parametrize(("words", "chosen"), [(2, 1), (16, 3), (1024, 500)])
def test_the_ratio_of_probabilities_is_within_epsilon(words, chosen, epsilon):
    miss, whole = codes.miss_of(words, chosen, epsilon), 1 << 62
    ratio = Fraction(whole - miss, chosen) / Fraction(miss, words - chosen)
    # In logarithms of integers, with a margin below that of the rounding of miss_of.
    assert math.log(ratio.numerator) - math.log(ratio.denominator) <= epsilon * (1.0 + 1e-15)
    assert ratio >= 1
    one_less = Fraction(whole - miss + 1, chosen) / Fraction(max(miss - 1, 1), words - chosen)
    assert miss == 1 or math.log(one_less) > epsilon - 1e-9 or math.log(one_less) > math.log(ratio)


def off(randomizer, row, payload):
    """Standard deviations between how often a chosen word is sent and how often it should; 6: false alarms 2e-9."""
    p = randomizer.cap.probability
    hits = np.count_nonzero(names_near_word(randomizer, payload, row))
    return abs(hits - len(payload) * p) / math.sqrt(len(payload) * p * (1.0 - p))


@pytest.mark.parametrize(("dim", "words", "epsilon"), [(2, 8, 2.0), (20, 64, 1.0), (100, 32, 3.0)])
def test_chosen_words_are_sent_as_often_as_they_should(dim, words, epsilon):
    randomizer, row = SubsetSelection(dim, epsilon, words=words), direction(dim)
    assert off(randomizer, row, drawn(randomizer, row, 2000).payload) < 6.0


def test_a_planted_fault_is_caught():
    """Coins that spare the words outside more often than the randomizer says."""
    randomizer, row = SubsetSelection(20, 1.0, words=64), direction(20)
    greedy = dataclasses.replace(randomizer.book, miss=int(0.7 * randomizer.book.miss))
    object.__setattr__(randomizer, "book", greedy)
    assert off(randomizer, row, drawn(randomizer, row, 2000).payload) > 6.0


@pytest.mark.parametrize(
    ("dim", "words", "chosen"), [(1, 5, 2), (2, 9, 3), (3, 100, 1), (50, 1024, 100), (1000, 256, 7)]
)
def test_top_cosines_are_those_of_a_simulation(dim, words, chosen):
    rng = np.random.default_rng(0)
    g = rng.standard_normal((2000, words))
    rest = rng.chisquare(dim - 1, g.shape) if dim > 1 else 0.0
    sums = np.sort(g / np.sqrt(g * g + rest), axis=1)[:, -chosen:].sum(axis=1)
    assert abs(codes.top_cosines(dim, words, chosen) - sums.mean()) < 6.0 * sums.std() / math.sqrt(len(sums))


def test_the_best_number_of_words_is_the_best():
    for dim, words, epsilon in ((3, 16, 0.5), (30, 64, 2.0), (300, 128, 5.0)):
        errors = [
            SubsetSelection(dim, epsilon, words=words, chosen=s).mean_squared_error() for s in range(1, words // 2 + 1)
        ]
        assert SubsetSelection(dim, epsilon, words=words).mean_squared_error() == min(errors)


def test_more_words_are_better_and_privunit_is_the_limit():
    errors = [SubsetSelection(100, 4.0, words=2**bits).mean_squared_error() for bits in range(1, 11)]
    assert errors == sorted(errors, reverse=True)
    assert PrivUnit(100, 4.0).mean_squared_error() < errors[-1] < 1.01 * PrivUnit(100, 4.0).mean_squared_error()
    # Six bits do better than all of Duchi's columns.
    assert errors[5] < Duchi(100, 4.0, 1.0).mean_squared_error()


def test_bytes_sums_and_means():
    randomizer = SubsetSelection(12, 2.0, words=64)
    reports = randomizer.privatize(np.random.default_rng(0).standard_normal((40, 12)))
    assert reports.private
    assert randomizer.cost == PureDP(2.0)
    data = reports.to_bytes()
    assert len(data) == 64 + 40 * 10 == 64 + 40 * randomizer.report_bytes
    assert np.array_equal(Reports.from_bytes(data, randomizer=randomizer).vectors(), reports.vectors())
    total = Aggregator(randomizer)
    total.add(data)
    assert np.allclose(total.mean(), reports.vectors().mean(axis=0), atol=1e-6)
    assert estimate_mean(total).mean.shape == (12,)
    for other in (
        SubsetSelection(12, 2.0, words=32),
        SubsetSelection(12, 2.5, words=64),
        SubsetSelection(12, 2.0, words=64, chosen=1),
    ):
        with pytest.raises(InputError, match="another randomizer"):
            Reports.from_bytes(data, randomizer=other)
    for bad in (data[:-1], data + b"x", b"", data[:64], data[:70] + b"\1" + data[71:], data[:4] + b"\t" + data[5:]):
        with pytest.raises(InputError):
            total.add(bad)
    assert total.count == 40
    hostile = Reports(randomizer, np.full((1, 10), 255, dtype=np.uint8))
    assert np.linalg.norm(hostile.vectors()) == pytest.approx(1.0 / randomizer.scale)


def test_no_row_raises_and_reports_do_not_depend_on_company():
    rows = np.full((6, 4), 1.0)
    rows[0], rows[1, 2], rows[2, 0], rows[3], rows[4] = 0.0, np.nan, np.inf, 1e308, 1e-320
    randomizer = SubsetSelection(4, 1.0, words=8)
    whole = randomizer.privatize(rows, random_state=3)
    assert np.isfinite(whole.vectors()).all()
    rows[:5] = 1.0
    assert np.array_equal(randomizer.privatize(rows, random_state=3).payload[5], whole.payload[5])


@pytest.mark.parametrize(
    "call",
    [
        lambda: SubsetSelection(3, 1.0, words=1), lambda: SubsetSelection(3, 1.0, words=1025),
        lambda: SubsetSelection(3, 1.0, words=8, chosen=5), lambda: SubsetSelection(3, 1.0, words=8, chosen=0),
        lambda: SubsetSelection(2**20, 1.0, words=32), lambda: SubsetSelection(3, 0.0),
        lambda: SubsetSelection(3, math.nan), lambda: SubsetSelection(3, 1.0, words=2.5),
        lambda: SubsetSelection(3, 1.0).privatize(np.ones((2, 4))),
    ],
)  # fmt: skip
def test_public_arguments_are_checked(call):
    with pytest.raises(InputError):
        call()
