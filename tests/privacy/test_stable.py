"""Stable histograms: the stated delta against the exact output laws of tiny data sets, and calibration against known numbers."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from helpers.errors import raises
from scipy.special import log_ndtr, ndtr

from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.privacy import (
    ZCDP,
    ApproxDP,
    ComposedEvent,
    GaussianEvent,
    Ledger,
    Neighbors,
    StableHistogramEvent,
    stable_delta,
    stable_event,
)
from fastpubpriv.privacy.stable_profile import singleton_rate

SCALE = 8
STEPS = 2**SCALE
# To how many digits losses are told apart: Laplace losses are few, Gaussian ones are all different.
DIGITS = {"laplace": 9, "gaussian": 2}


def law(kind, count, step, threshold, scale=float(STEPS)):
    """Exact law of one bin: nothing first, then each integer from the threshold on; what lies beyond the end is lumped there."""
    if count == 0:
        return lambda end: np.concatenate([[1.0], np.zeros(end - threshold)])

    def masses(end):
        values = np.arange(threshold, end) - step * count
        if kind == "laplace":
            a = math.exp(-1.0 / scale)
            point = (1.0 - a) / (1.0 + a) * np.exp(-np.abs(values) / scale)
            first = values[0]
            below = 1.0 - math.exp(-first / scale) / (1 + a) if first > 0 else math.exp((first - 1) / scale) / (1 + a)
            point[-1] = math.exp(-values[-1] / scale) / (1 + a)
        else:
            lower, upper = values / scale, (values + 1) / scale
            point = np.where(lower > 0, ndtr(-lower) - ndtr(-upper), ndtr(upper) - ndtr(lower))
            below, point[-1] = ndtr(values[0] / scale), ndtr(-values[-1] / scale)
        return np.concatenate([[below], point])

    return masses


def bin_pair(kind, before, after, step, threshold, scale=float(STEPS)):
    end = max(threshold, step * max(before, after)) + math.ceil((42 if kind == "laplace" else 9) * scale)
    return merge(*(law(kind, count, step, threshold, scale)(end) for count in (before, after)), DIGITS[kind])


def merge(p, q, digits=9):
    """Group outputs by the logarithm of p / q, rounded: a post-processing, so the divergence can only fall, and next to nothing."""
    keep = (p > 0) | (q > 0)
    p, q = p[keep], q[keep]
    with np.errstate(divide="ignore"):
        loss = np.round(np.log(p) - np.log(q), digits)
    _, where = np.unique(loss, return_inverse=True)
    return np.bincount(where, weights=p), np.bincount(where, weights=q)


def joint(pairs, digits=9):
    """The law of independent bins together."""
    p, q = np.ones(1), np.ones(1)
    for one, other in pairs:
        p, q = merge(np.outer(p, one).ravel(), np.outer(q, other).ravel(), digits)
    return p, q


def divergence(pair, epsilon):
    p, q = pair
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


# ---- what is true, in real numbers
def test_known_value_of_the_untranslated_mechanism():
    """epsilon_0 = 1/2, threshold 8 counts, noise on the counts themselves: delta_0 = 0.0187966, and no pair is worse."""
    delta = math.exp(-0.5 * 7) / (1 + math.exp(-0.5))
    assert round(delta, 7) == 0.0187966
    worst = {}
    for pair in (((1, 5), (0, 6)), ((3, 0), (2, 1)), ((1, 0), (0, 1)), ((30, 20), (29, 21))):
        moved = [bin_pair("laplace", *counts, 1, 8, 2.0) for counts in zip(*pair, strict=True)]
        worst[pair] = divergence(joint(moved), 1.0)
        assert worst[pair] <= delta * (1 + 1e-9)
    assert worst[((1, 5), (0, 6))] == pytest.approx(delta, rel=1e-9)
    assert worst[((1, 0), (0, 1))] == pytest.approx(delta, rel=1e-9)
    assert worst[((3, 0), (2, 1))] < 1e-9


def test_calibration_matches_known_numbers():
    for delta, count in ((1e-6, 28), (1e-8, 37)):
        assert math.ceil(stable_event(1, delta, histograms=1, n=10**6, draws=1, law="laplace").count_threshold) == count
    for m, std, threshold in ((1, 5.975, 29.40), (5, 13.360, 68.73), (20, 26.719, 143.34)):
        event = stable_event(1, 1e-6, histograms=m, n=10**6, draws=1, law="gaussian")
        assert event.count_noise_std == pytest.approx(std, rel=2e-4)
        assert event.count_threshold == pytest.approx(threshold, rel=2e-4)
    assert stable_event(1, 1e-6, histograms=1, n=10**6, draws=1).law == "laplace"
    assert stable_event(1, 1e-6, histograms=5, n=10**6, draws=1).law == "gaussian"
    # Basic composition of five at epsilon / 5: the Gaussian halves the threshold.
    basic = stable_event(1, 1e-6, histograms=5, n=10**6, draws=1, law="laplace")
    assert basic.count_noise_std == pytest.approx(14.1, rel=5e-3)
    assert basic.count_threshold == pytest.approx(148.2, rel=2e-3)


# ---- enumeration of tiny data sets
EVENTS = [
    ("laplace", 1, 128, 8 * 128, 1.0),
    ("laplace", 1, 128, 3 * 128 + 17, 1.0),
    ("laplace", 1, 300, 900, 2 * 300 / STEPS),
    ("laplace", 1, 128, 8 * 128, 1.7),
    ("laplace", 1, 128, 129, 1.0),  # -log(1 - delta_0) exceeds epsilon_0
    ("laplace", 1, 200, 1000, 0.9),  # epsilon does not cover two moved counts
    ("laplace", 2, 64, 640, 1.0),
    ("laplace", 2, 100, 700, 1.0),
    ("gaussian", 1, 128, 700, 1.0),
    ("gaussian", 1, 400, 1000, 1.0),
    ("gaussian", 2, 90, 900, 1.0),
]


def neighbours(bins, rows):
    """All pairs of count vectors of `rows` rows in `bins` bins or none that differ in one row."""
    for where in itertools.combinations_with_replacement(range(bins + 1), rows):
        counts = [where.count(b) for b in range(bins)]
        for old, new in itertools.product(range(bins + 1), repeat=2):
            if old != new and (old == bins or counts[old]) and (old < bins or bins in where):
                moved = list(counts)
                for b, change in ((old, -1), (new, 1)):
                    if b < bins:
                        moved[b] += change
                yield counts, moved


def worst_case(kind, m, step, threshold, epsilon, rows=4):
    """Largest divergence over data sets of at most `rows` rows and large counts; m histograms that see the same kind of move."""
    changes = set()
    for n in range(1, rows + 1):
        for before, after in neighbours(3, n):
            changes.add(tuple(sorted((a, b) for a, b in zip(before, after, strict=True) if a != b)))
    big = -(-threshold // step) + 12 * STEPS // step + 2
    changes.add(((big, big - 1), (big, big + 1)))
    cache = {}

    def of(change):
        if change not in cache:
            cache[change] = joint([bin_pair(kind, *counts, step, threshold) for counts in change], DIGITS[kind])
        return cache[change]

    return max(
        divergence(joint([of(change) for change in chosen], DIGITS[kind]), epsilon)
        for chosen in itertools.combinations_with_replacement(sorted(changes), m)
    )


@pytest.mark.parametrize(("kind", "m", "step", "threshold", "epsilon"), EVENTS)
def test_delta_covers_every_pair_and_is_reached(kind, m, step, threshold, epsilon):
    exact = worst_case(kind, m, step, threshold, epsilon, rows={"laplace": 4 if m == 1 else 2, "gaussian": 2}[kind])
    claim = stable_delta(kind, m, step, threshold, SCALE, Fraction(epsilon))
    assert exact <= claim * (1 + 1e-9)
    covered = Fraction(2 * m * step, STEPS) <= Fraction(epsilon)
    if kind == "gaussian":
        assert exact >= 0.998 * claim
    elif covered and singleton_rate(kind, threshold - step, SCALE) < 1 - math.exp(-step / STEPS):
        assert exact >= 0.9999 * claim
    # A mechanism that compares with `>` in place of `>=`, the other way round: one grid step too low is over the claim.
    if kind == "laplace" and covered and m == 1:
        assert worst_case(kind, m, step, threshold - 1, epsilon) > claim * (1 + 1e-4)


def test_the_check_catches_a_threshold_that_ignores_the_step():
    """SAFETY T5: a^(T - 1) / (1 + a) in place of a^(T - k) / (1 + a)."""
    step, threshold = 128, 8 * 128
    wrong = math.exp(-(threshold - 1) / STEPS) / (1 + math.exp(-1 / STEPS))
    assert worst_case("laplace", 1, step, threshold, 1.0) > 1.5 * wrong


def test_thresholds_add_no_delta_to_the_noise():
    """The deltas of noise and threshold enter as a maximum; the sum would waste half."""
    event = stable_event(1, 1e-6, histograms=1, n=10**4, draws=1, law="gaussian")
    noise = math.exp(log_gaussian(1.0, math.sqrt(2.0) / event.count_noise_std))
    assert noise + event.singleton_rate > 1.5e-6
    assert float(event.delta) <= 1e-6


def log_gaussian(epsilon, mu):
    first, second = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    return float(first + math.log1p(-math.exp(second - first)))


# ---- calibration
@pytest.mark.parametrize("epsilon", [2.0**-20, 0.01, 0.3, 1.0, 5.0, 40.0])
@pytest.mark.parametrize("delta", [1e-20, 1e-9, 1e-3, 0.4])
@pytest.mark.parametrize("m", [1, 2, 7, 130])
def test_calibration_keeps_its_budget_and_wastes_little(epsilon, delta, m):
    event = stable_event(epsilon, delta, histograms=m, n=10**6, draws=10)
    assert event.delta <= Fraction(delta)
    tighter = stable_delta(
        event.law, m, event.step, event.threshold - max(1, event.threshold // 1000), event.log2_scale, event.epsilon
    )
    if event.threshold - max(1, event.threshold // 1000) > event.step:
        assert Fraction(tighter) > Fraction(delta)
    assert event.step * 10**6 + 128 * 2**event.log2_scale < 2**62
    assert event.cost.amounts == (Fraction(epsilon), event.delta)


def test_blocks_of_cases_are_an_upper_bound(monkeypatch):
    from fastpubpriv.privacy import stable_profile

    fine = [
        stable_profile._largest_case(stable_profile._gaussian_profile(80, 8), 40, 1e-3, e, few=False)
        for e in (0.1, 1.0, 4.0)
    ]
    monkeypatch.setattr(stable_profile, "_WHOLE_GRID", 8)
    rough = [
        stable_profile._largest_case(stable_profile._gaussian_profile(80, 8), 40, 1e-3, e, few=False)
        for e in (0.1, 1.0, 4.0)
    ]
    assert all(a <= b <= 2.5 * a for a, b in zip(fine, rough, strict=True))


def test_more_rows_take_a_coarser_grid():
    assert stable_event(1, 1e-6, histograms=1, n=100, draws=1).log2_scale == 40
    event = stable_event(1, 1e-6, histograms=1, n=2**40, draws=1)
    assert event.log2_scale < 24
    assert event.count_threshold == pytest.approx(27.245, rel=1e-3)


def test_refusals():
    raises(BudgetError, "epsilon > 0", stable_event, 0, 1e-6, histograms=1, n=10, draws=1)
    raises(BudgetError, "delta in", stable_event, 1, 0, histograms=1, n=10, draws=1)
    raises(InputError, "histograms can be released", stable_event, 1, 1e-6, histograms=2**21, n=10, draws=1)
    raises(InputError, "no stable histogram", stable_event, 1, 1e-6, histograms=1, n=2**62, draws=1)
    raises(InputError, "noise must be", stable_event, 1, 1e-6, histograms=1, n=10, draws=1, law="cauchy")
    good = {"law": "laplace", "histograms": 1, "step": 5, "threshold": 6, "log2_scale": 8, "epsilon": 1, "draws": 0}
    StableHistogramEvent(**good)
    bad = [
        {"law": "x"}, {"histograms": 0}, {"step": 0}, {"threshold": 5}, {"log2_scale": 7}, {"log2_scale": 41}, {"epsilon": 0},
        {"draws": -1}, {"relation": Neighbors.ADD_REMOVE_ONE},
    ]  # fmt: skip
    for change in bad:
        raises(BudgetError, None, StableHistogramEvent, **{**good, **change})


def test_an_event_among_others():
    event = stable_event(1, 1e-6, histograms=1, n=100, draws=5)
    run = ComposedEvent((event, GaussianEvent(4, 8, 1)))
    assert run.draws == 6
    for cost in (lambda: run.rho, lambda: run.epsilon):
        raises(BudgetError, None, cost)
    ledger = Ledger(ApproxDP(2, 1e-5))
    ledger.debit(event, name="histogram")
    assert ledger.spent.amounts == (Fraction(1), event.delta)
    raises(BudgetError, "cannot be debited", Ledger(ZCDP(1)).debit, event, name="histogram")
    assert event.total_variation == Fraction(5, 2**100)
