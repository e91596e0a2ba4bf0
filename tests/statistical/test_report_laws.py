"""Local reports against their laws: angles inside and outside of the cap, directions across it, at 20,000 reports each.

A Kolmogorov-Smirnov test fails below 1e-6, so one of the tests here fails falsely once in 20,000 runs of the file.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

from fastpubpriv.kernels.noise import report_integers
from fastpubpriv.row_maps import ReportLaw

pytestmark = pytest.mark.statistical

N = 20_000
LEVEL = 1e-6
CAPS = [(2, 0.5), (3, 0.2), (3, 0.9), (10, 0.1), (10, 0.6), (64, 0.05), (64, 0.3), (1000, 0.02), (1000, 0.1)]


def angles(dim, threshold, miss, *, gaussian=False, first=0, n=N):
    """Cosines to the row (its part along the row for a normal law), and the reports."""
    law = ReportLaw(dim=dim, gaussian=gaussian, log2_grid=24, ball=False, threshold=threshold, miss=miss, radius=1.0)
    row = np.zeros(dim)
    row[0] = 1.0
    out = np.empty((n, dim), np.int32)
    report_integers(np.tile(row, (n, 1)), law, b"statistical test of the reports!", out, first=first)
    wide = out.astype(np.float64) * 2.0**-24
    return (wide[:, 0] if gaussian else wide[:, 0] / np.linalg.norm(wide, axis=1)), wide


def mass_below(dim, t):
    """P(cosine <= t) of a uniform unit vector."""
    a = 0.5 * (dim - 1)
    return special.betainc(a, a, 0.5 * (1.0 + np.clip(t, -1.0, 1.0)))


@pytest.mark.parametrize(("dim", "threshold"), CAPS)
def test_angles_inside_of_the_cap(dim, threshold):
    found, _ = angles(dim, threshold, 2.0**-900)
    edge = mass_below(dim, threshold)
    assert found.min() > threshold - 1e-5
    assert stats.kstest(found, lambda t: np.clip((mass_below(dim, t) - edge) / (1.0 - edge), 0.0, 1.0)).pvalue > LEVEL


@pytest.mark.parametrize(("dim", "threshold"), CAPS)
def test_angles_outside_of_the_cap(dim, threshold):
    found, _ = angles(dim, threshold, 1.0 - 2.0**-53, first=100_000)
    edge = mass_below(dim, threshold)
    assert found.max() < threshold + 1e-5
    assert stats.kstest(found, lambda t: np.clip(mass_below(dim, t) / edge, 0.0, 1.0)).pvalue > LEVEL


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.7, 2.5, 6.0])
def test_tails_of_the_normal_law(threshold):
    inside, _ = angles(4, threshold, 2.0**-900, gaussian=True)
    top = stats.norm.sf(threshold)
    assert stats.kstest(inside, lambda a: np.clip(1.0 - stats.norm.sf(a) / top, 0.0, 1.0)).pvalue > LEVEL
    outside, wide = angles(4, threshold, 1.0 - 2.0**-53, gaussian=True)
    assert stats.kstest(outside, lambda a: np.clip(stats.norm.cdf(a) / (1.0 - top), 0.0, 1.0)).pvalue > LEVEL
    assert stats.kstest(wide[:, 1], "norm").pvalue > LEVEL


@pytest.mark.parametrize(("dim", "threshold"), [(2, 0.5), (3, 0.2), (10, 0.3), (200, 0.1)])
def test_lengths_and_directions_across_the_row(dim, threshold):
    found, wide = angles(dim, threshold, 0.3, first=200_000)
    lengths = np.linalg.norm(wide, axis=1)
    assert stats.kstest(lengths**2, stats.chi2(dim).cdf).pvalue > LEVEL
    across = wide[:, 1:] / np.linalg.norm(wide[:, 1:], axis=1, keepdims=True)
    if dim == 2:
        assert stats.binomtest(int(np.count_nonzero(across[:, 0] > 0)), N).pvalue > LEVEL
    else:
        cosines = across[:, 0]
        assert stats.kstest(cosines, lambda t: mass_below(dim - 1, t)).pvalue > LEVEL if dim > 3 else True
        circle = np.arctan2(across[:, -1], across[:, 0])
        if dim == 3:
            assert stats.kstest(circle, stats.uniform(-math.pi, 2.0 * math.pi).cdf).pvalue > LEVEL
    # The side of the cap, the length and the direction are independent.
    inside = found >= threshold
    assert stats.ks_2samp(lengths[inside], lengths[~inside]).pvalue > LEVEL
    assert abs(np.corrcoef(found, lengths)[0, 1]) < 5.0 / math.sqrt(N)


def test_a_planted_fault_is_seen():
    """A cap that is a hundredth of its threshold lower."""
    found, _ = angles(10, 0.594, 2.0**-900)
    edge = mass_below(10, 0.6)
    assert stats.kstest(found, lambda t: np.clip((mass_below(10, t) - edge) / (1.0 - edge), 0.0, 1.0)).pvalue < LEVEL


def test_a_million_columns():
    """1000 reports on each side, 15 s of draws each; beyond 64 columns their number enters an angle by two constants alone."""
    inside = np.concatenate([angles(10**6, 0.003, 2.0**-900, first=i, n=40)[0] for i in range(0, 1000, 40)])
    top = stats.norm.sf(0.003 * 1000.0)
    assert stats.kstest(1000.0 * inside, lambda a: np.clip(1.0 - stats.norm.sf(a) / top, 0.0, 1.0)).pvalue > LEVEL
    outside = np.concatenate([angles(10**6, 0.003, 1.0 - 2.0**-53, first=i, n=40)[0] for i in range(1000, 2000, 40)])
    assert stats.kstest(1000.0 * outside, lambda a: np.clip(stats.norm.cdf(a) / (1.0 - top), 0.0, 1.0)).pvalue > LEVEL
