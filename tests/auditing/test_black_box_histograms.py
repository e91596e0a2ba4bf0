"""Black-box audit of stable histograms: how often the bin of a single row shows, and how well neighbours can be told apart.

Bounds are Clopper-Pearson at 1e-9; the controls must exceed the claim.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from fastpubpriv import ApproxDP, BinGrid, stable_histogram
from fastpubpriv.privacy import StableHistogramEvent, stable_event
from fastpubpriv.release import release as release_module
from fastpubpriv.release.account import Account
from fastpubpriv.release.release import release_stable

pytestmark = pytest.mark.audit
ALPHA = 1e-9


def lower(successes, trials):
    return 0.0 if successes == 0 else float(stats.beta.ppf(ALPHA, successes, trials - successes + 1))


def upper(successes, trials):
    return 1.0 if successes == trials else float(stats.beta.isf(ALPHA, successes + 1, trials - successes))


def shown(event, rounds, n=4_000_000):
    """Single rows that show among rounds * n bins."""
    ones = np.arange(n)[:, None], np.ones(n, dtype=np.int64)
    total = 0
    for _ in range(rounds):
        account = Account("audit", ApproxDP(40, 0.999), draws=n)
        account.open()
        ((keys, _),) = release_stable(account, name="bins", query=lambda: [ones], event=event, slots=(n,))
        total += len(keys)
    return total, rounds * n


def with_draws(event, **changes):
    fields = {name: getattr(event, name) for name in ("law", "histograms", "step", "threshold", "log2_scale", "draws")}
    return StableHistogramEvent(**{**fields, "epsilon": Fraction(30), **changes})


@pytest.mark.fresh_keys(false_alarms=1e-8)
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_a_single_row_shows_at_the_declared_rate(law):
    """SAFETY 3.5: 1e8 draws at delta = 1e-5, so about a thousand events: within 10 % at three standard deviations."""
    n = 4_000_000
    event = stable_event(1, 1e-5, histograms=1, n=n, draws=n, law=law)
    found, trials = shown(with_draws(event), 25, n)
    assert lower(found, trials) <= event.singleton_rate <= upper(found, trials)
    assert lower(found, trials) <= 1e-5
    if law == "laplace":
        assert found / trials == pytest.approx(1e-5, rel=0.3)
    # Planted: a threshold one count too low.
    found, trials = shown(with_draws(event, threshold=event.threshold - event.step), 25, n)
    assert lower(found, trials) > event.singleton_rate


def released_count(values, runs, budget):
    """The noisy counts of the bin of 0 over many runs, zero where it is hidden."""
    counts = np.zeros(runs)
    for index in range(runs):
        item = stable_histogram(values, bins=BinGrid(width=1.0), budget=budget, threads=1, progress=False)[0]
        where = np.flatnonzero(item.keys[:, 0] == 0)
        counts[index] = item.counts[where[0]] if len(where) else 0.0
    return counts


def epsilon_bound(one, other, delta):
    """Lower bound on epsilon from P(count > t) on both, the threshold chosen on the first halves."""
    half = len(one) // 2

    def bound(a, b, t):
        low, high = lower(int((a > t).sum()), len(a)), upper(int((b > t).sum()), len(b))
        return math.log((low - delta) / high) if low > delta else -math.inf

    best = max(np.quantile(one[:half], np.linspace(0.05, 0.95, 40)), key=lambda t: bound(one[:half], other[:half], t))
    return bound(one[half:], other[half:], best)


def test_neighbours_are_no_easier_to_tell_apart_than_declared(monkeypatch):
    budget, runs = ApproxDP(1, 1e-3), 6000
    values = np.zeros(40)
    neighbour = values.copy()
    neighbour[0] = 1e6
    pairs = released_count(values, runs, budget), released_count(neighbour, runs, budget)
    assert 0.15 < epsilon_bound(*pairs, 1e-3) <= 1.0
    # Planted: an eighth of the noise.
    original = release_module.noise.discrete_laplace
    monkeypatch.setattr(release_module.noise, "discrete_laplace", lambda *args, **kw: original(*args, **kw) // 8)
    pairs = released_count(values, runs, budget), released_count(neighbour, runs, budget)
    assert epsilon_bound(*pairs, 1e-3) > 1.0
