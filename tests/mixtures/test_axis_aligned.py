"""learn_axis_aligned_mixture from the door: what it finds, chooses, pays and refuses."""

import math
from fractions import Fraction

import numpy as np
import pytest
from helpers.errors import raises
from mixture_cases import APPROX, BLOBS, COMMON, FAR_APART, axis_matched, learn, one, opened
from scipy import stats
from spies import SpyLedger, SpyRows

from benchmarks.papers.mixture_cases import (
    CASES,
    Truth,
    blobs,
    distance_by_draws,
    distance_on_line,
    released,
)
from fastpubpriv import ZCDP, ApproxDP, Ledger, PureDP, learn_axis_aligned_mixture
from fastpubpriv.errors import AccuracyWarning, BudgetError, InfeasibleError, InputError
from fastpubpriv.mixtures import em_rounds
from fastpubpriv.mixtures.axis_aligned import column_modes, list_method
from fastpubpriv.mixtures.axis_aligned.axis_aligned_mixture import chosen_method
from fastpubpriv.mixtures.em_rounds import StartState
from fastpubpriv.mixtures.gaussian_mixture import GaussianMixture
from fastpubpriv.mixtures.public_em import axis_aligned_start
from fastpubpriv.results.gaussians import positive_definite
from fastpubpriv.results.mixture import MixtureResult


# ---- what it finds: seeded, so that a bad draw cannot come --------------------------------------------------------
@pytest.mark.parametrize("name", CASES)
def test_one_column_without_public_rows_finds_the_cases(name):
    truth = CASES[name]
    rows = truth.draw(np.random.default_rng(1), 20_000)
    result = learn(rows[:, 0], len(truth.weights))
    assert result.method == "cells"
    assert result.status == "ok"
    assert distance_on_line(truth, released(result)) < 0.04
    assert result.spent == APPROX
    # The bound of the test is no formality: the wrong number of components is far outside.
    if len(truth.weights) > 1:
        assert distance_on_line(truth, released(learn(rows, 1))) > 0.08


@pytest.mark.parametrize("n", [20_000, 50_000])
def test_means_may_lie_anywhere(n):
    result = learn(FAR_APART.draw(np.random.default_rng(2), n), 2)
    assert (
        axis_matched(result, FAR_APART) < ([0.2, 0.2, 0.03] if n == 20_000 else [0.1, 0.1, 0.015])
    ).all()


def test_components_in_three_columns_are_found():
    result = learn(BLOBS.draw(np.random.default_rng(3), 60_000), 3)
    assert result.method == "sketch"
    assert result.n_components == 3
    assert (axis_matched(result, BLOBS) < [0.2, 0.2, 0.03]).all()
    assert np.array_equal(result.covariances, result.variances[:, :, None] * np.eye(3))


def test_a_known_variance_stays():
    rng = np.random.default_rng(4)
    rows = np.where(rng.random(6000) < 0.4, 1e7, 1e7 + 6.0) + 1.5 * rng.standard_normal(6000)
    result = learn(rows, 2, variance=[2.25])
    assert np.allclose(result.variances, 2.25, rtol=1e-12)
    assert np.abs(np.sort(result.means[:, 0]) - [1e7, 1e7 + 6.0]).max() < 0.4
    assert [release["name"] for release in result.releases] == ["places", "cells"]


def test_a_known_covariance_need_not_be_axis_aligned():
    rng = np.random.default_rng(5)
    covariance = np.array([[4.0, 3.0], [3.0, 9.0]])
    factor = np.linalg.cholesky(covariance)
    centers = np.array([[100.0, -50.0], [130.0, -50.0]])
    rows = centers[rng.integers(2, size=30_000)] + rng.standard_normal((30_000, 2)) @ factor.T
    result = learn(rows, 2, covariance=covariance)
    assert np.allclose(result.covariances, covariance)
    order = np.argsort(result.means[:, 0])
    assert np.abs(np.linalg.solve(factor, (result.means[order] - centers).T)).max() < 0.3


def test_a_pure_budget_iterates_on_public_rows_of_two_columns():
    """Means and deviations of the worst of three components, in deviations: the median of five draws."""
    means = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
    truth = Truth(np.full(3, 1 / 3), means, np.ones((3, 2)))
    errors = []
    for seed in range(5):
        rng = np.random.default_rng([12, seed])
        private = truth.draw(rng, 10_000)
        public = truth.draw(rng, 30)
        result = learn(private, 3, budget=PureDP(1), x_pub=public, random_state=seed)
        errors.append(axis_matched(result, truth).max())
    assert np.median(errors) < 0.1, errors


def test_one_column_near_public_rows_spends_epsilon_alone():
    rng = np.random.default_rng(7)
    public = rng.normal(size=(30, 1))
    ledger = Ledger(APPROX)
    assert learn(rng.normal(size=(500, 1)), 1, x_pub=public, ledger=ledger).spent == PureDP(1)
    assert ledger.spent.amounts == (1, 0)


@pytest.mark.parametrize("accuracy", [0.9, 0.6])
def test_theory_mode_runs_where_it_can(accuracy):
    rows = 3.0 * np.random.default_rng(8).normal(size=30_000) + 1e6
    result = learn(
        rows, 1, budget=ApproxDP(4, 1e-7), method="list_decoding", accuracy=accuracy, variance=9.0
    )
    assert result.status == "ok"  # the whole list was compared
    assert abs(result.means[0, 0] - 1e6) < 3.0 * accuracy / 9.0
    assert result.diagnostics["coarse"] == result.diagnostics["coarse_kept"]
    assert [release["name"] for release in result.releases] == ["means", "choice", "fit"]


def test_theory_mode_says_when_its_list_was_cut(monkeypatch):
    """The answer is as good, and nothing was empty; six coarse Gaussians with 41 candidates each are one too many here."""
    rows = 3.0 * np.random.default_rng(8).normal(size=30_000) + 1e6
    monkeypatch.setattr(list_method, "MAX_CANDIDATES", 60)
    result = learn(
        rows, 1, budget=ApproxDP(4, 1e-7), method="list_decoding", accuracy=0.9, variance=9.0
    )
    assert sum(result.diagnostics["coarse"]) > sum(result.diagnostics["coarse_kept"]) == 1
    assert result.part_reasons == (("shortlist",),)
    assert abs(result.means[0, 0] - 1e6) < 0.3


@pytest.mark.parametrize("order", ["as drawn", "groups", "ascending"])
def test_the_order_of_the_rows_does_not_matter(order):
    rows = CASES["two"].draw(np.random.default_rng(10), 20_000)[:, 0]
    if order == "groups":
        rows = np.concatenate([rows[rows < 1.0], rows[rows >= 1.0]])
    elif order == "ascending":
        rows = np.sort(rows)
    assert distance_on_line(CASES["two"], released(learn(rows, 2))) < 0.04


@pytest.mark.parametrize("n", [16, 40])
def test_few_rows_give_a_fallback(n):
    result = learn(np.random.default_rng(8).normal(size=n), 2)
    assert result.reasons == ("fallback",)
    assert np.isfinite(result.means).all()
    assert (result.variances > 0.0).all()


def test_nothing_at_all_is_the_public_standard_normal():
    result = learn(np.full(16, np.nan), 1, budget=ApproxDP(2.0**-6, 1e-6))
    assert result.reasons == ("fallback",)
    if result.diagnostics["starts"] == 0:
        assert result.means.tolist() == [[0.0]]
        assert result.variances.tolist() == [[1.0]]


@pytest.mark.parametrize(
    ("dim", "n", "has_public", "budget", "method"),
    [
        (1, 1000, False, APPROX, "cells"),
        (2, 1000, False, APPROX, "sketch"),
        (1, 10, True, APPROX, "cells"),
        (1, 10**6, True, ZCDP(1), "cells"),
        (1, 100, True, PureDP(1), "cells"),
        (3, 100, True, PureDP(1), "dp_em"),
        (3, 100, True, ZCDP(1), "dp_em"),
    ],
)
def test_auto_decides_by_public_facts(dim, n, has_public, budget, method):
    chosen = chosen_method("auto", dim=dim, n_priv=n, has_public=has_public, budget=budget)
    assert chosen.name == method


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"budget": PureDP(1)}, BudgetError, "delta"),
        ({"budget": ZCDP(1)}, BudgetError, "delta"),
        ({"n_components": 0}, InputError, "at least 1"),
        ({"n_components": 65}, InputError, "at most 64"),
        ({"method": "dp_em"}, InputError, "several columns, got one: pass method='auto'"),
        ({"method": "sketch"}, InputError, "several columns, got one: pass method='auto'"),
        *(
            ({"method": gone}, InputError, "'auto'")
            for gone in ("public_list", "univariate", "anchors")
        ),
        ({"method": "list_decoding"}, InputError, "accuracy"),
        ({"method": "list_decoding", "accuracy": 0.1}, InfeasibleError, "candidates"),
        ({"method": "list_decoding", "accuracy": 0.9, "n_components": 1}, InfeasibleError, "rows"),
        ({"accuracy": 1.5}, InputError, "accuracy"),
        ({"min_weight": 0.6}, InputError, "min_weight"),
        ({"variance": -1.0}, InputError, "variance must be above 0"),
        ({"variance": [1.0, 2.0]}, InputError, "variance"),
        ({"covariance": np.eye(2)}, InputError, "covariance"),
        ({"covariance": np.eye(1), "variance": 1.0}, InputError, "not both"),
        ({"x_pub": np.zeros((1, 1))}, InputError, "rows"),
    ],
)
def test_refusals_read_nothing(options, kind, words):
    log = []
    rows = SpyRows(np.zeros((100, 1)), log)
    ledger = SpyLedger(APPROX, log)
    arguments = {"n_components": 2, "budget": APPROX, "ledger": ledger, **COMMON, **options}
    raises(kind, words, learn_axis_aligned_mixture, rows, **arguments)
    assert log == []


@pytest.mark.parametrize(
    ("shape", "method", "words"),
    [
        ((15,), "auto", "at least"),
        ((20, 2), "auto", "at least"),
        ((100, 2), "cells", "one column"),
    ],
    ids=str,
)
def test_rows_of_a_shape_that_a_method_cannot_take_are_refused(shape, method, words):
    given = {"n_components": 1, "budget": APPROX, "method": method}
    raises(InputError, words, learn_axis_aligned_mixture, np.zeros(shape), **given)


def test_a_fallback_is_warned_about():
    with pytest.warns(AccuracyWarning, match=r"fallback .*: component 0"):
        learn(np.random.default_rng(0).normal(size=500), 1)


@pytest.mark.parametrize(
    ("method", "dim", "options"),
    [
        ("cells", 1, {}),
        ("cells", 1, {"variance": 1.0}),
        ("sketch", 2, {}),
        ("list_decoding", 1, {"accuracy": 0.9, "variance": 4.0}),
    ],
)
def test_bins_that_may_not_fit_into_memory_are_refused_before_the_debit(method, dim, options):
    rows = np.zeros((20_000, dim))
    ledger = Ledger(ApproxDP(4, 1e-6))
    given = {"budget": ApproxDP(4, 1e-7), "method": method, "max_memory": 1e5, **options}
    words = r"counting the bins of .* may take"
    raises(InputError, words, learn, rows, 1, ledger=ledger, **given)
    assert ledger.spent.amounts == (0, 0)


# ---- Anchors: cuts in valleys, codes of rows, splits, and the whole learner in several columns ----------------------
def column(weights, means, stds, least=0.05):
    found = one(weights, means, stds)
    return column_modes.ColumnModes(found, *column_modes.valleys(found, least))


def test_a_cut_lies_in_the_valley_and_confuses_as_many_as_it_says():
    cuts, confused = column_modes.valleys(one([0.4, 0.6], [0.0, 10.0], [1.0, 2.0]), 0.05)
    assert len(cuts) == 1
    wrong = 0.4 * stats.norm.sf(cuts[0], 0.0, 1.0) + 0.6 * stats.norm.cdf(cuts[0], 10.0, 2.0)
    assert confused == pytest.approx(wrong / 0.4)
    assert 2.0 < cuts[0] < 6.0


@pytest.mark.parametrize(
    "modes",
    [
        ([0.5, 0.5], [0.0, 1.5], [1.0, 1.0]),  # no valley
        ([0.5, 0.5], [0.0, 0.0], [1.0, 10.0]),  # concentric
        ([0.999, 0.001], [0.0, 50.0], [1.0, 1.0]),  # too light to be a component
        ([1.0, 0.0], [0.0, 50.0], [1.0, 1.0]),  # padding
    ],
)
def test_no_cut_without_a_valley(modes):
    assert len(column_modes.valleys(one(*modes), 0.05)[0]) == 0


def test_codes_of_anchors():
    columns = [
        column([0.5, 0.5], [0.0, 100.0], [1.0, 1.0]),
        column([1.0], [0.0], [1.0]),
        column([0.3, 0.3, 0.4], [0.0, 50.0, 100.0], [1.0] * 3),
    ]
    chosen = column_modes.anchor_columns(columns)
    assert chosen == [2, 0]
    rows = np.array(
        [
            [0.0, 9e9, 0.0],
            [100.0, 0.0, 0.0],
            [0.0, 0.0, 51.0],
            [100.0, 0.0, 99.0],
            [np.nan, 0.0, 0.0],
        ]
    )
    assert column_modes.codes(rows, chosen=chosen, columns=columns)[0].tolist() == [0, 1, 2, 5, -1]
    assert column_modes.labels_of(5, chosen, columns) == {2: 2, 0: 1}
    modes_of_column_2 = [column_modes.labels_of(code, chosen, columns)[2] for code in range(6)]
    assert modes_of_column_2 == [0, 0, 1, 1, 2, 2]


def test_columns_that_are_no_anchors_get_the_modes_that_match():
    # Five columns a million standard deviations wide, of which four are anchors: the fifth must not be left blurred.
    rng = np.random.default_rng(1)
    truth = Truth(np.array([0.5, 0.5]), np.array([[-1e6] * 5, [1e6] * 5]), np.ones((2, 5)))
    result = learn(truth.draw(rng, 40_000), 2)
    assert len(result.diagnostics["anchors"]) == 4
    assert "matching_modes" in [release["name"] for release in result.releases]
    assert (axis_matched(result, truth) < [0.2, 0.3, 0.02]).all()


def test_units_of_columns_do_not_matter():
    rng = np.random.default_rng(2)
    rows = blobs(np.random.default_rng(4), 3, 4).draw(rng, 40_000)
    unit = 2.0 ** np.array([-40, 0, 30, 100])
    one = learn(rows, 3)
    other = learn(rows * unit, 3)
    # Powers of two: the same cells, the same noise, the same answer.
    assert np.allclose(other.means / unit, one.means, rtol=1e-6, atol=1e-6)
    assert np.allclose(other.weights, one.weights, rtol=1e-9)


def test_concentric_components_in_several_columns_are_told_apart():
    rng = np.random.default_rng(3)
    truth = Truth(np.array([0.5, 0.5]), np.zeros((2, 2)), np.array([[1.0, 1.0], [6.0, 6.0]]))
    result = learn(truth.draw(rng, 20_000), 2)
    assert result.diagnostics["anchors"] == ()
    assert distance_by_draws(truth, released(result), rng) < 0.05


def test_deviations_a_billionth_of_the_distances():
    """The least deviation is that of the arithmetic, not a share of the whole spread."""
    truth = Truth(
        np.array([0.3, 0.3, 0.4]),
        np.array([[-1e9, 0.0, 0.0], [0.0, 1e5, 1.0], [1e9, -50.0, 2.0]]),
        np.array([[3.0, 1.0, 1.0], [0.5, 40.0, 1.0], [1.0, 1.0, 1.0]]),
    )
    result = learn(truth.draw(np.random.default_rng(3), 40_000), 3, method="sketch")
    assert (axis_matched(result, truth) < [0.25, 0.25, 0.05]).all()


@pytest.mark.filterwarnings(
    "ignore:learn_axis_aligned_mixture. fallback:fastpubpriv.AccuracyWarning"
)
def test_rows_too_few_to_show_any_place_are_said_before_they_are_paid_for():
    """500 rows in 11 columns: no place can show, cells hold noise, and what is made of it stays near where nothing is known."""
    rng = np.random.default_rng(0)
    rows = 10.0 * rng.integers(0, 2, size=(500, 1)) + rng.normal(size=(500, 11))
    with pytest.warns(
        AccuracyWarning, match=r"500 rows in 11 columns are too few for method='sketch' here"
    ):
        result = learn(rows, 2, random_state=0)
    assert result.reasons == ("fallback",)
    assert np.abs(result.means).max() < 15.0


# ---- The row statistic of DP-EM, its M step, and what public rows start it with -------------------------------------
def parameters(rng, components=3, dim=4):
    return GaussianMixture(
        rng.dirichlet(np.full(components, 5.0)),
        3.0 * rng.normal(size=(components, dim)),
        np.exp(0.3 * rng.normal(size=(components, dim))),
    )


def plain_statistic(row, at, radii):
    """The same for one row, written to be read."""
    logs = [
        math.log(w)
        - sum(
            math.log(s) + 0.5 * ((x - m) / s) ** 2 for x, m, s in zip(row, means, stds, strict=True)
        )
        for w, means, stds in zip(at.weights, at.means, at.stds, strict=True)
    ]
    share = np.exp(np.array(logs) - max(logs))
    share /= share.sum()
    first = []
    second = []
    for r, means, stds in zip(share, at.means, at.stds, strict=True):
        z = (row - means) / stds
        v = (z * z - 1.0) / math.sqrt(2.0)
        first.append(r * z * min(1.0, radii.first / np.linalg.norm(z)))
        second.append(r * v * min(1.0, radii.second / np.linalg.norm(v)))
    return np.concatenate([radii.share * share, *first, *second])


def test_statistic_is_that_of_its_definition():
    rng = np.random.default_rng(0)
    at = parameters(rng)
    radii = em_rounds.Radii.of(4, known_std=False)
    rows = 4.0 * rng.normal(size=(200, 4))
    expected = np.array([plain_statistic(row, at, radii) for row in rows])
    assert np.allclose(em_rounds.row_statistic(rows, at, radii), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("known_std", [False, True])
def test_no_row_is_longer_than_the_radius(known_std):
    rng = np.random.default_rng(1)
    at = parameters(rng)
    radii = em_rounds.Radii.of(4, known_std=known_std)
    rows = rng.normal(size=(3000, 4)) * 10.0 ** rng.uniform(-300, 300, size=(3000, 1))
    rows[:5] = [[0.0] * 4, [1e308] * 4, [-1e308] * 4, [5e-324] * 4, [1e308, -1e308, 0.0, 0.0]]
    found = em_rounds.row_statistic(rows, at, radii)
    assert found.shape == (3000, em_rounds.statistic_dim(3, 4, known_std=known_std))
    assert np.linalg.norm(found, axis=1).max() <= radii.total * (1.0 + 1e-12)
    assert np.isfinite(found).all()


def test_a_row_that_is_not_finite_counts_for_nothing():
    at = parameters(np.random.default_rng(3))
    radii = em_rounds.Radii.of(4, known_std=False)
    rows = np.array(
        [
            [np.nan, 0, 0, 0],
            [np.inf, 0, 0, 0],
            [1.0, 2.0, 3.0, 4.0],
            [0, 0, 0, -np.inf],
            [1e308] * 4,
        ]
    )
    with np.errstate(all="raise"):
        found = em_rounds.row_statistic(rows, at, radii)
    assert np.isfinite(found).all()
    assert found.any(axis=1).tolist() == [False, False, True, False, True]


@pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
def test_a_round_comes_nearer_and_noise_alone_changes_next_to_nothing():
    rng = np.random.default_rng(4)
    at = parameters(rng)
    labels = rng.choice(3, 100_000, p=at.weights)
    rows = at.means[labels] + at.stds[labels] * rng.normal(size=(len(labels), 4))

    def error(rho, start, *, known_std=False):
        run = opened(rows, ZCDP(rho), random_state=1)
        state = StartState(name="start", at=start, rounds=2, known_std=known_std)
        nobody = np.zeros((0, 4))
        found = em_rounds.advance(run, nobody, state, share=Fraction(1), name="round").at
        return max(
            np.abs((found.means - at.means) / at.stds).max(),
            np.abs(np.log(found.stds / at.stds)).max(),
        )

    off = GaussianMixture(at.weights, at.means + 0.2 * at.stds, 1.2 * at.stds)
    assert error(100.0, at) < 0.05
    assert error(100.0, off) < 0.1 < 0.18 < error(1e-7, off) < 0.4
    # Planted fault: deviations that are taken for known.
    assert error(100.0, off, known_std=True) > 0.18


@pytest.mark.parametrize("last", [np.arange(10.0), np.zeros(10)])
def test_public_starts_stand_up_to_constant_columns(last):
    public = np.column_stack([np.zeros(10), np.full(10, 1e9), last])
    at = axis_aligned_start(public, 2, known_std=False)
    assert np.isfinite(at.means).all()
    assert (at.stds > 0.0).all()


@pytest.mark.parametrize("known_std", [False, True])
def test_a_public_start_has_all_components_of_fewer_rows(known_std):
    public = np.array([[0.0, 1.0], [4.0, 1.0], [4.0, 1.0]])
    at = axis_aligned_start(public, 5, known_std=known_std)
    assert at.weights.sum() == pytest.approx(1.0)
    assert at.means.shape == (5, 2)
    assert np.isfinite(at.means).all()
    assert (at.stds > 0.0).all()


def test_known_deviations_stay_known():
    rng = np.random.default_rng(11)
    public = rng.normal(size=(90, 2)) + np.repeat([[-4.0, 0.0], [4.0, 1.0]], 45, axis=0)
    at = axis_aligned_start(public, 2, known_std=True)
    assert at.stds.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    order = np.argsort(at.means[:, 0])
    # four standard errors of means of 45 rows
    assert np.abs(at.means[order] - [[-4.0, 0.0], [4.0, 1.0]]).max() < 4.0 / math.sqrt(45)


@pytest.mark.parametrize("budget", [ZCDP(0.0176), APPROX, PureDP(1)])
def test_private_rows_improve_on_the_public_ones(budget):
    rng = np.random.default_rng(6)
    truth = blobs(rng, 3, 5)
    public = truth.draw(rng, 300)
    rows = truth.draw(rng, 20_000)
    result = learn(rows, 3, budget=budget, x_pub=public, method="dp_em")
    at = axis_aligned_start(public, 3, known_std=False)
    alone = distance_by_draws(truth, type(truth)(at.weights, at.means, at.stds), rng)
    ours = distance_by_draws(truth, released(result), rng)
    assert ours < (0.5 if not isinstance(budget, PureDP) else 0.9) * alone
    with pytest.warns(AccuracyWarning, match="noise of .* is predicted on a component's mean"):
        rows_worse = learn(rows, 3, budget=ZCDP(1e-6), x_pub=public, method="dp_em")
    assert distance_by_draws(truth, released(rows_worse), rng) < 1.3 * alone


def test_public_rows_from_elsewhere_cost_accuracy_only():
    """Public rows of another law: the public fits are poor, and the rounds leave them."""
    rng = np.random.default_rng(8)
    truth = blobs(rng, 2, 2)
    rows = truth.draw(rng, 20_000)
    given = {"x_pub": truth.draw(rng, 50) + 1.0, "method": "dp_em"}
    for budget in (ZCDP(0.05), PureDP(1)):
        result = learn(rows, 2, **given, budget=budget)
        assert isinstance(budget, PureDP) or (axis_matched(result, truth) < [0.6, 0.5, 0.2]).all()
        spent = [release.get("rho", release.get("epsilon")) for release in result.releases]
        assert 0.8 * float(budget.amounts[0]) < sum(spent) <= float(budget.amounts[0])
        assert result.releases[-1]["name"] == "fit"


@pytest.mark.filterwarnings(
    "ignore::fastpubpriv.SeededNoiseWarning", "ignore::fastpubpriv.AccuracyWarning"
)
def test_a_column_whose_least_variance_underflows_loses_no_result():
    public = np.array([[-3.0, -1.2e-149, -0.26], [-2.0, -1.5e-149, -0.49]])
    budget = ApproxDP(0.01, 1e-6)
    result = learn_axis_aligned_mixture(
        np.ones((1, 3)), n_components=2, x_pub=public, budget=budget, random_state=0
    )
    read = MixtureResult.from_json(result.to_json())
    assert np.abs(read.means[:, 1] + 1.35e-149).max() < 1e-149


def test_covariances_whose_products_overflow_are_positive_definite():
    assert positive_definite(np.diag([1e280, 1e-20, 1e280])[None])
