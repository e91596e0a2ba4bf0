"""learn_axis_aligned_mixture from the door: what it finds, chooses, pays and refuses."""

import numpy as np
import pytest
from axis_cases import APPROX, BLOBS, COMMON, FAR_APART, learn, matched
from spies import SpyLedger, SpyRows

from benchmarks.papers.mixture_cases import CASES, Truth, distance_on_line, released
from fastpubpriv import (
    ZCDP,
    AccuracyWarning,
    ApproxDP,
    BudgetError,
    InfeasibleError,
    InputError,
    Ledger,
    PureDP,
    learn_axis_aligned_mixture,
)
from fastpubpriv.mixtures.axis_aligned import decoded_lists
from fastpubpriv.mixtures.axis_aligned.learn import ITERATE_FROM, ITERATE_FROM_PURE, chosen_method

# ---- what it finds: seeded, so that a bad draw cannot come --------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_univariate_finds_the_cases(name):
    truth = CASES[name]
    rows = truth.draw(np.random.default_rng(1), 20_000)
    result = learn(rows[:, 0], len(truth.weights))
    assert result.method == "univariate"
    assert set(result.status) == {"ok"}
    assert distance_on_line(truth, released(result)) < 0.04
    assert result.spent == APPROX
    # The bound of the test is no formality: the wrong number of components is far outside.
    if len(truth.weights) > 1:
        assert distance_on_line(truth, released(learn(rows, 1))) > 0.08


@pytest.mark.parametrize("n", [20_000, 50_000])
def test_means_may_lie_anywhere(n):
    result = learn(FAR_APART.draw(np.random.default_rng(2), n), 2)
    assert (matched(result, FAR_APART) < ([0.2, 0.2, 0.03] if n == 20_000 else [0.1, 0.1, 0.015])).all()


def test_anchors_find_components_in_three_columns():
    result = learn(BLOBS.draw(np.random.default_rng(3), 60_000), 3)
    assert result.method == "anchors"
    assert result.n_components == 3
    assert (matched(result, BLOBS) < [0.2, 0.2, 0.03]).all()
    assert np.array_equal(result.covariances, result.variances[:, :, None] * np.eye(3))


@pytest.mark.parametrize("variance", [2.25, [2.25]])
def test_known_variance_on_the_line(variance):
    rng = np.random.default_rng(4)
    rows = np.where(rng.random(6000) < 0.4, 1e7, 1e7 + 6.0) + 1.5 * rng.standard_normal(6000)
    result = learn(rows, 2, variance=variance)
    assert np.allclose(result.variances, 2.25, rtol=1e-12)
    assert np.abs(np.sort(result.means[:, 0]) - [1e7, 1e7 + 6.0]).max() < 0.4
    assert [release["name"] for release in result.releases] == ["places", "cells", "choice"]


def test_known_covariance_need_not_be_axis_aligned():
    rng = np.random.default_rng(5)
    covariance = np.array([[4.0, 3.0], [3.0, 9.0]])
    factor = np.linalg.cholesky(covariance)
    centers = np.array([[100.0, -50.0], [130.0, -50.0]])
    rows = centers[rng.integers(2, size=30_000)] + rng.standard_normal((30_000, 2)) @ factor.T
    result = learn(rows, 2, covariance=covariance)
    assert np.allclose(result.covariances, covariance)
    order = np.argsort(result.means[:, 0])
    assert np.abs(np.linalg.solve(factor, (result.means[order] - centers).T)).max() < 0.3


@pytest.mark.parametrize(("budget", "method"), [(PureDP(1), "public_list"), (ZCDP(0.05), "dp_em"), (APPROX, "dp_em")])
def test_public_rows(budget, method):
    truth = CASES["three"]
    rng = np.random.default_rng(6)
    public, rows = truth.draw(rng, 100), truth.draw(rng, 8000)
    result = learn(rows, 3, budget=budget, x_pub=public)
    assert result.method == method
    assert result.n_pub == 100
    assert distance_on_line(truth, released(result)) < 0.12
    assert result.provenance["range"] == "public rows"


BY_COLUMNS = {
    1: Truth.line([0.3, 0.7], [-3.0, 3.0], [1.0, 1.0]),
    2: Truth(np.full(3, 1 / 3), np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]]), np.ones((3, 2))),
}


def error_by_default(dim, draws):
    """Error of the worst component where a pure budget and public rows leave the method to the learner; median of some draws."""
    truth, errors = BY_COLUMNS[dim], []
    for seed in range(draws):
        rng = np.random.default_rng([12, seed])
        private, public = truth.draw(rng, ITERATE_FROM_PURE), truth.draw(rng, 30)
        result = learn(private, len(truth.weights), budget=PureDP(1), x_pub=public, random_state=seed)
        errors.append(matched(result, truth).max())
    return np.median(errors)


@pytest.mark.parametrize("dim", BY_COLUMNS)
def test_a_pure_budget_iterates_on_public_rows(dim, monkeypatch):
    """Iterations end many times closer than the best of a list of public fits, in several columns and in one of many rows."""
    assert error_by_default(dim, draws=5) < 0.1
    monkeypatch.setattr("fastpubpriv.mixtures.axis_aligned.learn.chosen_method", lambda *_, **__: "public_list")
    assert error_by_default(dim, draws=1) > 0.15


def test_public_list_spends_epsilon_alone():
    rng = np.random.default_rng(7)
    public, rows = rng.normal(size=(30, 1)), rng.normal(size=(500, 1))
    ledger = Ledger(APPROX)
    assert learn(rows, 1, x_pub=public, method="public_list", ledger=ledger).spent == PureDP(1)
    assert ledger.spent.amounts == (1, 0)


@pytest.mark.parametrize("accuracy", [0.9, 0.6])
def test_theory_mode_runs_where_it_can(accuracy):
    rows = 3.0 * np.random.default_rng(8).normal(size=30_000) + 1e6
    result = learn(rows, 1, budget=ApproxDP(4, 1e-7), method="list_decoding", accuracy=accuracy, variance=9.0)
    assert result.status == ("ok",)  # the whole list was compared
    assert abs(result.means[0, 0] - 1e6) < 3.0 * accuracy / 9.0
    assert result.diagnostics["coarse"] == result.diagnostics["coarse_kept"]
    assert [release["name"] for release in result.releases] == ["means", "choice"]


def test_theory_mode_says_when_its_list_was_cut(monkeypatch):
    """The answer is as good, and nothing was empty; six coarse Gaussians with 41 candidates each are one too many here."""
    rows = 3.0 * np.random.default_rng(8).normal(size=30_000) + 1e6
    monkeypatch.setattr(decoded_lists, "MAX_CANDIDATES", 60)
    call = {"method": "list_decoding", "accuracy": 0.9, "variance": 9.0}
    result = learn(rows, 1, budget=ApproxDP(4, 1e-7), **call)
    assert sum(result.diagnostics["coarse"]) > sum(result.diagnostics["coarse_kept"]) == 1
    assert result.status == ("shortlist",)
    assert abs(result.means[0, 0] - 1e6) < 0.3


@pytest.mark.parametrize(
    ("coarse", "kept", "word"),
    [([[1, 2], [3]], [[1, 2], [3]], "ok"), ([[1, 2], [3]], [[1], [3]], "shortlist"), ([[1], []], [[1], []], "empty")],
)
def test_words_of_the_lists(coarse, kept, word):
    assert decoded_lists._status(coarse, kept) == word


@pytest.mark.statistical
def test_theory_mode_with_scales():
    rows = np.random.default_rng(9).normal(-1e6, 3.0, 1_200_000)
    result = learn(rows, 1, budget=ApproxDP(8, 1e-7), method="list_decoding", accuracy=0.9)
    # More coarse Gaussians are found than can be compared with their nets: the heaviest stay, and the status says so.
    assert result.status == ("shortlist",)
    assert result.diagnostics["candidates"] <= 20_000
    assert distance_on_line(Truth.line([1.0], [-1e6], [3.0]), released(result)) < 0.1


@pytest.mark.parametrize("order", ["as drawn", "groups", "ascending"])
def test_the_order_of_the_rows_does_not_matter(order):
    rows = CASES["two"].draw(np.random.default_rng(10), 20_000)[:, 0]
    if order == "groups":
        rows = np.concatenate([rows[rows < 1.0], rows[rows >= 1.0]])
    elif order == "ascending":
        rows = np.sort(rows)
    assert distance_on_line(CASES["two"], released(learn(rows, 2))) < 0.04


# ---- empty stages ---------------------------------------------------------------------------------------------------


def test_too_few_rows_for_any_scale_are_empty_or_a_fallback():
    for n in (16, 40):
        result = learn(np.random.default_rng(8).normal(size=n), 2)
        assert set(result.status) <= {"empty", "fallback"}
        assert np.isfinite(result.means).all()
        assert (result.variances > 0.0).all()


def test_nothing_at_all_is_the_public_standard_normal():
    result = learn(np.full(16, np.nan), 1, budget=ApproxDP(2.0**-6, 1e-6))
    assert set(result.status) <= {"empty", "fallback"}
    if "fallback" in result.status:
        assert result.means.tolist() == [[0.0]]
        assert result.variances.tolist() == [[1.0]]


def test_an_order_of_magnitude_without_scales():
    # Equal values have no differences, so no scale is found; cells of public powers of two still say where they are.
    result = learn(np.full(20_000, 12_345.0), 1)
    assert result.status == ("atoms",)
    assert 6000.0 < result.means[0, 0] < 25_000.0


# ---- choices by public facts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "method"),
    [
        ((1, 1000, False, APPROX), "univariate"),
        ((2, 1000, False, APPROX), "anchors"),
        ((1, ITERATE_FROM - 1, True, APPROX), "public_list"),
        ((1, ITERATE_FROM, True, APPROX), "dp_em"),
        ((1, ITERATE_FROM_PURE - 1, True, PureDP(1)), "public_list"),
        ((1, ITERATE_FROM_PURE, True, PureDP(1)), "dp_em"),
        ((3, 100, True, PureDP(1)), "dp_em"),
        ((3, 100, True, ZCDP(1)), "dp_em"),
    ],
)
def test_auto_decides_by_public_facts(facts, method):
    dim, n, public, budget = facts
    assert chosen_method("auto", dim=dim, n_priv=n, has_public=public, budget=budget) == method


# ---- refusals, before anything is read or paid ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"budget": PureDP(1)}, BudgetError, "delta"),
        ({"budget": ZCDP(1)}, BudgetError, "delta"),
        ({"n_components": 0}, InputError, "at least 1"),
        ({"n_components": 65}, InputError, "at most 64"),
        ({"n_components": 1.0}, InputError, "whole number"),
        ({"method": "dp_em"}, InputError, "x_pub"),
        ({"method": "public_list"}, InputError, "x_pub"),
        ({"method": "list_decoding"}, InputError, "accuracy"),
        ({"method": "list_decoding", "accuracy": 0.1}, InfeasibleError, "candidates"),
        ({"method": "list_decoding", "accuracy": 0.9, "n_components": 1}, InfeasibleError, "rows"),
        ({"accuracy": 1.5}, InputError, "accuracy"),
        ({"min_weight": 0.6}, InputError, "min_weight"),
        ({"min_weight": 0.0}, InputError, "min_weight"),
        ({"candidates": 1}, InputError, "candidates"),
        ({"candidates": 6000}, InputError, "candidates"),
        ({"variance": -1.0}, InputError, "variance must be above 0"),
        ({"variance": [1.0, 2.0]}, InputError, "variance"),
        ({"variance": np.eye(1)}, InputError, "variance"),
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
    with pytest.raises(kind, match=words):
        learn_axis_aligned_mixture(rows, **arguments)
    assert log == []


def test_too_few_rows_for_blocks():
    with pytest.raises(InputError, match="at least"):
        learn_axis_aligned_mixture(np.zeros(15), n_components=1, budget=APPROX)
    with pytest.raises(InputError, match="at least"):
        learn_axis_aligned_mixture(np.zeros((20, 2)), n_components=1, budget=APPROX)


def test_a_column_at_a_time_for_univariate():
    with pytest.raises(InputError, match="one column"):
        learn_axis_aligned_mixture(np.zeros((100, 2)), n_components=1, budget=APPROX, method="univariate")


def test_accuracy_warns_from_public_numbers():
    with pytest.warns(AccuracyWarning, match="do not guarantee"):
        learn(np.random.default_rng(0).normal(size=500), 1, accuracy=0.1)


# ---- private content is silent --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "dim", "options"),
    [
        ("univariate", 1, {}),
        ("univariate", 1, {"variance": 1.0}),
        ("anchors", 2, {}),
        ("list_decoding", 1, {"accuracy": 0.9, "variance": 4.0}),
    ],
)
def test_bins_that_may_not_fit_into_memory_are_refused_before_the_debit(method, dim, options):
    rows = np.zeros((20_000, dim))
    ledger = Ledger(ApproxDP(4, 1e-6))
    with pytest.raises(InputError, match=r"counting the bins of .* may take"):
        learn_axis_aligned_mixture(
            rows, n_components=1, budget=ApproxDP(4, 1e-7), method=method, max_memory=1e5, ledger=ledger, **options
        )
    assert ledger.spent.amounts == (0, 0)
