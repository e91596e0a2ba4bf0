"""Newton steps from fewer public rows than coefficients: how many, and by which clips."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr

from fastpubpriv.experiments import newton_beyond as beyond
from fastpubpriv.losses import LOSSES
from fastpubpriv.training import newton
from fastpubpriv.training.normal_clips import normal_clips
from fastpubpriv.training.problem import make_problem
from fastpubpriv.training.stated import Stated


def posterior(m, dim):
    rng = np.random.default_rng(m)
    x = rng.normal(size=(m, dim))
    table = np.column_stack([x, x @ rng.normal(size=dim) + rng.normal(size=m)])
    return make_problem(LOSSES["squared"], table, [f"x{j}" for j in range(dim)], 1, Stated())[0].posterior


def noise(share):
    return 3.0 / math.sqrt(share)


def test_more_steps_only_with_few_public_rows():
    next_to_none, few, many = posterior(20, 30), posterior(50, 60), posterior(32, 30)
    assert next_to_none.few
    assert few.few
    assert not many.few
    assert [newton.step_counts(each)[-1] for each in (next_to_none, few, many)] == [32, 128, 32]
    assert newton.plan_newton(few, 2000.0, noise).steps > 32
    assert newton.plan_newton(many, 2000.0, noise).steps <= 32


def test_clips_of_a_normal_law():
    known = posterior(60, 80)
    for clip, (normal, doubted) in zip(known.clips, normal_clips(known), strict=True):
        c = clip.bound
        assert normal.inside == pytest.approx(2.0 * ndtr(c) - 1.0)
        assert doubted.inside == pytest.approx((2.0 * ndtr(2.0 * c) - 1.0) / 2.0)
        draws = np.clip(np.random.default_rng(0).normal(size=20_000), -c, c)
        assert normal.energy >= 0.97 * np.mean(draws**2)
        assert normal.bias_sq == clip.bias_sq


def test_rows_of_unequal_weight_stay_so():
    known = posterior(60, 80)
    half = replace(known, clips=tuple(replace(each, energy=0.5 * each.energy) for each in known.clips))
    for (one, _), (other, _) in zip(normal_clips(known), normal_clips(half), strict=True):
        assert other.energy == pytest.approx(0.5 * one.energy)


def test_where_noise_is_small_clips_are_those_of_the_public_rows():
    known = posterior(20, 30)
    assert newton.plan_newton(known, 1e9, noise).clip in known.clips
    assert newton.plan_newton(known, 60.0, noise, Fraction(1, 10)).clip not in known.clips


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore::fastpubpriv.errors.AccuracyWarning", "ignore::fastpubpriv.SeededNoiseWarning")
def test_planted_fault_shares_read_from_few_residuals_run_away(monkeypatch):
    """400 columns, 60 public rows, the fifth draw: losses of 1.43, and of 13.9 with the share inside that the 60 rows have."""
    drawn = (beyond.QUICK, 0.01, 4.0, 4)
    assert beyond.cell(*drawn, rival=False)[0] < 2.0
    monkeypatch.setattr(newton, "normal_clips", lambda known: [(each, each) for each in known.clips])
    assert beyond.cell(*drawn, rival=False)[0] > 5.0
