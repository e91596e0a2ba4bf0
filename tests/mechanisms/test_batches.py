"""Secret batches: their law, and that a run over sampled rows has no more steps than were paid for."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from fastpubpriv import ApproxDP, BudgetError
from fastpubpriv.errors import KernelError
from fastpubpriv.keys import key_source
from fastpubpriv.privacy import FullBatch, Poisson, SampledGaussianEvent, WithoutReplacement, sampled_sum_grid
from fastpubpriv.release.account import Account
from fastpubpriv.release.batches import draw_batch


class Keys:
    """A payer with fresh keys."""

    def __init__(self):
        self._source = key_source(None)

    def fresh_key(self):
        return self._source.fresh()


KEYS = Keys()


@pytest.mark.parametrize("rate", [Fraction(1, 50), Fraction(1, 3)])
def test_sizes_of_poisson_batches_are_binomial(rate):
    """3,000 batches of 400 rows: sizes and the share of each row; false alarms below 1e-9. A rate of 1.1 times is rejected."""
    n, runs = 400, 3000
    found = [draw_batch(KEYS, Poisson(rate), n) for _ in range(runs)]
    sizes = np.array([len(batch) for batch in found])
    assert all(np.all(np.diff(batch) > 0) and batch[0] >= 0 and batch[-1] < n for batch in found if len(batch))

    def fits(chance):
        edges = stats.binom.ppf([0.1, 0.3, 0.5, 0.7, 0.9], n, chance)
        cells = np.bincount(np.searchsorted(edges, sizes), minlength=6)
        expected = np.diff(np.concatenate([[0.0], stats.binom.cdf(edges, n, chance), [1.0]])) * runs
        return stats.chisquare(cells, expected).pvalue > 1e-9

    assert fits(float(rate))
    assert not fits(1.1 * float(rate))
    shares = np.bincount(np.concatenate(found), minlength=n)
    spread = (shares - runs * float(rate)) / np.sqrt(runs * float(rate) * (1 - float(rate)))
    assert np.max(np.abs(spread)) < 7.5


def test_batches_of_fixed_size_are_equally_likely():
    """All 10 pairs of 5 rows, 20,000 draws: chi-squared, false alarms below 1e-9."""
    sampling = WithoutReplacement(2, 5)
    found = [tuple(draw_batch(KEYS, sampling, 5)) for _ in range(20_000)]
    counts = {pair: found.count(pair) for pair in set(found)}
    assert len(counts) == 10
    assert stats.chisquare(list(counts.values())).pvalue > 1e-9


def test_what_has_no_batches():
    for sampling in (FullBatch(), WithoutReplacement(2, 6)):
        with pytest.raises(KernelError):
            draw_batch(KEYS, sampling, 5)


def paid(event):
    account = Account("t", ApproxDP(3, 1e-5), draws=10**6)
    account.open()
    account.charge(event)
    return account


def test_a_run_has_no_more_steps_than_were_paid_for():
    event = SampledGaussianEvent(Poisson(Fraction(1, 50)), 4 * 1000**2, 12, 5, steps=4, delta=Fraction(1, 10**7))
    account = paid(event)
    for _ in range(3):
        account.charge(event.later)
    with pytest.raises(BudgetError, match="more steps"):
        account.charge(event.later)
    account.charge(event)  # a second run is paid for by itself
    account.charge(event.later)
    with pytest.raises(BudgetError, match="more steps"):
        paid(event).charge(SampledGaussianEvent(**{**fields(event), "steps": 5}).later)
    fresh = Account("t", ApproxDP(3, 1e-5), draws=10**6)
    fresh.open()
    with pytest.raises(BudgetError, match="more steps"):
        fresh.charge(event.later)


def fields(event):
    return {name: getattr(event, name) for name in ("sampling", "squared_sensitivity", "log2_scale", "draws", "delta")}


def test_blocks_count_their_own_steps():
    event = SampledGaussianEvent(Poisson(Fraction(1, 50)), 4 * 1000**2, 12, 5, steps=2, delta=Fraction(1, 10**7))
    account = Account("t", ApproxDP(3, 1e-5), draws=10**6)
    account.open()
    one, other = account.block(), account.block()
    one.charge(event)
    with pytest.raises(BudgetError, match="more steps"):
        other.charge(event.later)
    one.charge(event.later)


def test_grids_of_sampled_sums():
    for steps in (1, 100):
        grid = sampled_sum_grid(Fraction(1), Fraction(1, 10**6), Poisson(Fraction(1, 20)), steps=steps, dim=7, n=10**6)
        assert grid.event.epsilon <= 1
        assert grid.event.squared_sensitivity == 4 * grid.quant_bound**2
        assert grid.event.noise_multiplier < grid.noise_multiplier * 1.001
        assert grid.step(2.0) * grid.clip_steps == pytest.approx(2.0)
