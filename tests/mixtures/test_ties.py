"""Point masses, constants and absurd components never go by as "ok"."""

import numpy as np
import pytest
from spies import seeded

from fastpubpriv import ApproxDP, PureDP, learn_axis_aligned_mixture
from fastpubpriv.mechanisms.histograms import StableRelease
from fastpubpriv.mixtures.axis_aligned.ties import component_status, public_ties, tied_shares

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
BUDGET = ApproxDP(1, 1e-6)


def column(name, n):
    rng = np.random.default_rng(0)
    return {
        "counts": rng.poisson(2.0, n).astype(float),
        "visits": rng.negative_binomial(0.5, 0.15, n).astype(float),
        "constant": np.full(n, 7.0),
        "rare": (rng.random(n) < 0.03).astype(float),
        "half an atom": np.where(rng.random(n) < 0.5, 0.0, rng.normal(50.0, 10.0, n)),
        "normal": rng.normal(size=n),
        "two": np.where(rng.random(n) < 0.5, rng.normal(0.0, 1.0, n), rng.normal(50.0, 10.0, n)),
        "income": rng.lognormal(10.0, 1.0, n),
    }[name]


@pytest.mark.parametrize("name", ["counts", "visits", "constant", "rare", "half an atom"])
def test_atoms_are_said_to_be(name):
    values = column(name, 20_000)
    found = seeded(learn_axis_aligned_mixture, values, n_components=2, budget=BUDGET)
    assert set(found.status) == {"atoms"}
    # Pairs that tie, about: the share of the released bins that is missing, some of it hidden by the threshold.
    share = float(np.sum((np.unique(values, return_counts=True)[1] / len(values)) ** 2))
    assert found.diagnostics["tied_share"][0] == pytest.approx(share, abs=0.15)
    public = seeded(learn_axis_aligned_mixture, values[20:], n_components=2, budget=PureDP(1), x_pub=values[:20].copy())
    assert set(public.status) == {"atoms"}


@pytest.mark.parametrize("name", ["normal", "two", "income"])
def test_smooth_columns_are_not(name):
    values = column(name, 20_000)
    assert set(seeded(learn_axis_aligned_mixture, values, n_components=2, budget=BUDGET).status) <= {"ok", "narrow"}
    found = seeded(learn_axis_aligned_mixture, values[20:], n_components=2, budget=PureDP(1), x_pub=values[:20].copy())
    assert set(found.status) <= {"ok", "narrow"}
    assert found.diagnostics["tied_share"] == (0.0,)


def test_a_constant_beside_a_smooth_column():
    rows = np.column_stack([column("constant", 20_000), column("normal", 20_000)])
    assert set(seeded(learn_axis_aligned_mixture, rows, n_components=2, budget=BUDGET).status) == {"atoms"}


def test_too_few_rows_are_never_ok():
    # The range was not found, so that means may be anywhere.
    for seed in range(5):
        rows = np.random.default_rng(seed).normal(size=(300, 2))
        found = seeded(learn_axis_aligned_mixture, rows, n_components=2, budget=ApproxDP(0.2, 1e-6), random_state=seed)
        assert "ok" not in found.status or np.abs(found.means).max() < 100.0


def test_statuses_by_hand():
    means, stds = np.array([[0.0, 7.0], [1.0, 7.0]]), np.array([[1.0, 1.0], [0.001, 1.0]])
    assert component_status("ok", means, stds, [0.0, 0.0]) == ("ok", "narrow")
    assert component_status("ok", means, stds, [0.0, 0.3]) == ("atoms", "atoms")
    assert component_status("empty", means, stds, []) == ("empty", "empty")
    assert component_status("empty", means, stds, [0.3]) == ("atoms", "atoms")
    assert component_status("fallback", means, stds, [0.3]) == ("fallback", "fallback")
    assert component_status("ok", np.array([[7.0]]), np.array([[1e-12]]), []) == ("narrow",)


def test_public_ties_by_hand():
    rows = np.array([[1.0, 0.1, 5.0], [1.0, 0.2, 5.0], [1.0, 0.3, 6.0], [2.0, 0.4, 7.0]])
    assert public_ties(rows) == [0.5, 0.0, 0.0]
    assert public_ties(rows[:1]) == [0.0, 0.0, 0.0]


def test_what_a_threshold_may_hide_is_no_tie():
    class Histogram:
        counts = np.array([400.0, 300.0, 200.0])

    found = object.__new__(StableRelease)
    for name, value in (("histograms", [Histogram]), ("threshold", 20.0), ("noise_std", 2.0), ("event", None)):
        object.__setattr__(found, name, value)
    assert tied_shares(found, 950, 1) == [0.0]
    assert tied_shares(found, 1200, 1) == [0.25]
