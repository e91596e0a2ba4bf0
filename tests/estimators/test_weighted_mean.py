"""`weighted_mean`: the closed forms of paper B, its special cases, and the noise laws."""

import math

import numpy as np
import pytest
from helpers.errors import raises
from spies import SpyLedger, SpyRows, seeded

from fastpubpriv import ZCDP, ApproxDP, InputError, PureDP, plan, weighted_mean
from fastpubpriv.estimators.weighted_mean import ErrorModel, noise_energy
from fastpubpriv.privacy import Cost
from fastpubpriv.release import transcript as transcripts

# The example of Proposition 8: 10^4 rows in all, 80 of them public.
EXAMPLE = ErrorModel(n_priv=9_920, n_pub=80, variance=1.0, noise=noise_energy(100, 25.0, 0.1, pure=False))


def mean_of(private, public=None, budget=None, **options):
    arguments = {"norm_bound": 2.0, **options}
    return seeded(weighted_mean, private, x_pub=public, budget=budget or ZCDP(0.5), **arguments)


def bits(n, dim, seed):
    return np.random.default_rng(seed).integers(0, 2, size=(n, dim)).astype(np.float64)


def test_proposition_8_example():
    best = EXAMPLE.mean_squared_error("optimal")
    throw_away, gaussian = EXAMPLE.mean_squared_error("throw_away"), EXAMPLE.mean_squared_error("gaussian")
    assert throw_away == 0.0125
    assert gaussian == pytest.approx(0.0126, abs=5e-6)
    assert best == pytest.approx(0.006324900, abs=5e-10)
    assert throw_away / best == pytest.approx(1.976316, abs=5e-7)
    assert gaussian / best == pytest.approx(1.992126, abs=5e-7)
    assert EXAMPLE.weight("optimal") == pytest.approx(0.494008, abs=5e-7)


def test_best_error_is_the_harmonic_form():
    rng = np.random.default_rng(0)
    for _ in range(500):
        dim, n_priv, n_pub = (int(v) for v in rng.integers(1, 1000, size=3))
        variance, bound, amount = 10.0 ** rng.uniform(-4, 4, size=3)
        energy = noise_energy(dim, bound, amount, pure=bool(rng.integers(2)))
        model = ErrorModel(n_priv=n_priv, n_pub=n_pub, variance=variance, noise=energy)
        a, p = model.private_error, model.public_error
        best = model.mean_squared_error("optimal")
        assert best == pytest.approx(a * p / (a + p), rel=1e-13)
        share = model.weight("optimal")
        assert 0 < share < 1
        # J in its original form, and its derivative, at r* = share / n_priv
        r = share / n_priv
        j = energy * r**2 + n_priv * r**2 * variance + (1 - n_priv * r) ** 2 * variance / n_pub
        assert best == pytest.approx(j, rel=1e-12)
        slope = energy * r + n_priv * r * variance - n_priv * (1 - n_priv * r) * variance / n_pub
        assert abs(slope) <= 1e-12 * (energy * r + n_priv * r * variance)
        # Proposition 8: q / (q + s^2), for zCDP noise
        if energy == noise_energy(dim, bound, amount, pure=False):
            q = 2 + n_priv * amount * variance / (dim * bound**2)
            s_squared = variance * n_priv**2 * amount / (bound**2 * dim * n_pub)
            assert best / p == pytest.approx(q / (q + s_squared), rel=1e-12)


def test_noise_energies_of_both_laws():
    assert noise_energy(7, 3.0, 0.5, pure=False) == 2 * 7 * 9 / 0.5
    assert noise_energy(7, 3.0, 0.5, pure=True) == 8 * 49 * 9 / 0.25


def test_degenerate_weights():
    assert ErrorModel(n_priv=5, n_pub=0, variance=1.0, noise=1.0).weight("optimal") == 1.0
    assert ErrorModel(n_priv=5, n_pub=2, variance=1.0, noise=math.inf).weight("optimal") == 0.0
    assert ErrorModel(n_priv=0, n_pub=2, variance=1.0, noise=1.0).weight("optimal") == 0.0
    model = ErrorModel(n_priv=30, n_pub=10, variance=1.0, noise=1.0)
    assert model.weight("gaussian") == 0.75
    assert model.weight("private") == 1.0
    assert model.weight(1 / 60) == 0.5


def squared_errors(runs, **options):
    errors = []
    for seed in range(runs):
        private, public = bits(1000, 1000, seed), bits(50, 1000, 10**6 + seed)
        result = mean_of(
            private, public, center=0.0, norm_bound=math.sqrt(1000), variance=250.0, project=False,
            random_state=seed, **options,
        )  # fmt: skip
        errors.append(float(np.sum(np.square(result.mean - 0.5))))
    return np.array(errors)


def test_monte_carlo_error_agrees_with_the_closed_form():
    # 100 runs with fixed seeds; 6.5 standard errors (about 2.5 % of the error) would be a false alarm of 1e-10.
    errors, theory = squared_errors(100), 4.25 * 5.0 / 9.25
    step = errors.std(ddof=1) / 10
    assert abs(errors.mean() - theory) < 6.5 * step < 0.05 * theory
    # Control: the weight of the plain Gaussian mechanism on all rows.
    assert abs(squared_errors(20, row_weight="gaussian").mean() - theory) > 6.5 * step * math.sqrt(5)


@pytest.mark.statistical
def test_monte_carlo_error_agrees_closely():
    errors = squared_errors(2000)
    assert abs(errors.mean() - 4.25 * 5.0 / 9.25) < 4 * errors.std(ddof=1) / math.sqrt(2000)


@pytest.mark.parametrize("row_weight", ["throw_away", 0, 0.0])
def test_throw_away_reads_and_spends_nothing(row_weight):
    log = []
    poisoned = SpyRows(np.full((1000, 3), np.nan), log, fails=RuntimeError("the private rows were read"))
    ledger, public = SpyLedger(ZCDP(1), log), np.random.default_rng(0).random((40, 3))
    result = mean_of(poisoned, public, row_weight=row_weight, ledger=ledger)
    assert log == []
    assert ledger.spent.is_zero
    assert result.mean == pytest.approx(public.mean(axis=0))
    assert result.spent == Cost.zero(ZCDP)
    assert result.noise_std.tolist() == [0.0] * 3
    assert result.releases == ()
    assert "rho" in result.to_json()
    with pytest.raises(InputError):  # control: any other weight does read
        mean_of(poisoned, public, row_weight="optimal", ledger=ledger)
    assert log == ["debit", "read"]
    assert ledger.spent == ZCDP(0.5).cost


def test_special_weights_of_one_data_set():
    rng = np.random.default_rng(4)
    private, public = rng.random((2000, 3)), rng.random((500, 3))
    for row_weight, share in [("private", 1.0), ("gaussian", 0.8), (1 / 4000, 0.5), (1 / 2000, 1.0)]:
        result = mean_of(private, public, row_weight=row_weight, center=0.5, project=False)
        expected = share * private.mean(axis=0) + (1 - share) * public.mean(axis=0)
        assert result.releases[0]["private_weight"] == pytest.approx(share)
        assert np.all(np.abs(result.mean - expected) < 8 * result.noise_std)
        assert result.noise_std[0] == pytest.approx(share * 2 * 2.0 / 2000, rel=1e-3)


@pytest.mark.parametrize("budget", [ZCDP(0.1), ApproxDP(1, 1e-6), PureDP(1)])
def test_error_on_the_plan_is_the_error_of_the_estimate(budget):
    planned = plan("weighted_mean", dim=3, n_priv=2000, n_pub=20, budget=budget, norm_bound=2.0, variance=0.25)
    rng = np.random.default_rng(4)
    result = mean_of(rng.random((2000, 3)), rng.random((20, 3)), budget, center=0.5, variance=0.25)
    assert result.releases[0]["private_weight"] == pytest.approx(planned.details["private_weight"], rel=1e-9)
    share = planned.details["private_weight"]
    sampling = 0.25 * (share**2 / 2000 + (1 - share) ** 2 / 20)
    assert math.sqrt(3 * result.noise_std[0] ** 2 + sampling) == pytest.approx(planned.error, rel=0.005)


def test_clipping_ball_and_projection():
    private = np.full((1000, 2), 50.0)
    result = mean_of(private, center=10.0, norm_bound=1.0)
    assert np.linalg.norm(result.mean - 10.0) <= 1.0 + 1e-12
    assert result.mean == pytest.approx([10 + math.sqrt(0.5)] * 2, abs=0.05)
    loose = mean_of(private, center=10.0, norm_bound=1.0, project=False)
    assert loose.mean == pytest.approx(result.mean, abs=0.05)


def test_public_recentring():
    rng = np.random.default_rng(2)
    private, public = 1e6 + rng.random((5000, 2)), 1e6 + rng.random((30, 2))
    result = mean_of(private, public, center="public", norm_bound=2.0)
    assert np.all(np.abs(result.mean - 1e6 - 0.5) < 8 * result.standard_error)
    assert result.provenance["center"] == "public rows"
    raises(InputError, "center", mean_of, private, center="public")


@pytest.mark.filterwarnings("ignore:.*public rows are beyond norm_bound")
def test_variance_from_public_rows_stays_below_the_bound():
    private, wild = np.zeros((100, 2)), np.array([[1e3, 0.0], [-1e3, 0.0], [0.0, 1e3]])
    result = mean_of(private, wild, norm_bound=1.0)
    share = result.releases[0]["private_weight"]
    energy = noise_energy(2, 1.0, 0.5, pure=False)
    expected = ErrorModel(n_priv=100, n_pub=3, variance=1.0, noise=energy).weight("optimal")
    assert share == pytest.approx(expected, rel=1e-6)
    assert result.provenance["variance"] == "public rows"
    assert mean_of(private, wild[:1]).provenance["variance"] == "norm bound"
    assert mean_of(private, np.ones((5, 2))).provenance["variance"] == "norm bound"
    assert np.all(mean_of(private, np.ones((5, 2))).sampling_std > 0)  # duplicates estimate no variance
    assert mean_of(private, wild, variance=2.0).provenance["variance"] == "argument"


def test_replaced_extreme_row_moves_the_query_by_the_sensitivity():
    rows = np.zeros((10, 4))
    plus, minus = rows.copy(), rows.copy()
    plus[3, 0], minus[3, 0] = 1e9, -1e9
    with transcripts.recording() as one:
        mean_of(plus)
    with transcripts.recording() as two:
        mean_of(minus)
    gap = (one.calls[0].query - two.calls[0].query) * one.calls[0].unit
    assert np.linalg.norm(gap) == pytest.approx(2 * 2.0, rel=1e-6)
    assert np.linalg.norm(gap) <= 2 * 2.0


@pytest.mark.parametrize("options", [
    {"norm_bound": 0.0}, {"norm_bound": -1.0}, {"norm_bound": math.nan}, {"norm_bound": math.inf},
    {"norm_bound": 1e200}, {"norm_bound": 1e-200}, {"norm_bound": "1"}, {"variance": 0.0}, {"variance": 1e300},
    {"row_weight": "best"}, {"row_weight": -1e-9}, {"row_weight": 0.2}, {"row_weight": math.nan},
    {"row_weight": True}, {"row_weight": None}, {"center": "origin"}, {"center": math.inf}, {"center": [1.0]},
    {"noise": "gauss"}, {"noise": "k_norm"}, {"project": "yes"}, {"project": 1},
])  # fmt: skip
def test_arguments_are_checked_before_anything_is_read(options):
    log = []
    raises(InputError, next(iter(options)), mean_of, SpyRows(np.ones((10, 2)), log), np.ones((4, 2)), **options)
    assert log == []


@pytest.mark.parametrize("row_weight", ["throw_away", 0.0, 0.05])
def test_without_public_rows_private_rows_carry_the_weight(row_weight):
    raises(InputError, "whole weight", mean_of, np.ones((10, 2)), row_weight=row_weight)
    for named in ("optimal", "gaussian", "private", 0.1):
        assert mean_of(np.ones((10, 2)), row_weight=named).releases[0]["private_weight"] == 1.0
