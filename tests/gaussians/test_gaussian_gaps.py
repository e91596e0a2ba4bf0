"""`estimate_gaussian` describes complete rows: how many they are, what that does to its intervals, and who has none."""

import dataclasses
import re
import warnings
from importlib import import_module

import numpy as np
import pytest
from click.testing import CliRunner
from spies import seeded

from fastpubpriv import ZCDP, GaussianResult, PureDP, estimate_gaussian
from fastpubpriv.cli import main
from fastpubpriv.estimators.complete_rows import CompleteRows

MIX = np.array(
    [[3.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [0.5, 0.2, 0.4, 0.0], [0.0, 0.5, 0.1, 1.0]]
)
MEAN = np.array([10.0, -5.0, 2.0, 0.0])
COVARIANCE = MIX @ MIX.T
DEVIATIONS = np.sqrt(np.diag(COVARIANCE))
CORRELATIONS = COVARIANCE / np.outer(DEVIATIONS, DEVIATIONS)


def rows_with_gaps(rng, n, incomplete):
    """Return Gaussian rows (n, 4) of which a share has at least one missing cell."""
    rows = rng.normal(size=(n, 4)) @ MIX.T + MEAN
    rows[rng.random(rows.shape) < 1.0 - (1.0 - incomplete) ** 0.25] = np.nan
    return rows


def estimated(seed, n, incomplete, **options):
    rng = np.random.default_rng(seed)
    public = rng.normal(size=(20, 4)) @ MIX.T + MEAN
    private = rows_with_gaps(rng, n, incomplete)
    return seeded(estimate_gaussian, private, x_pub=public, random_state=seed, **options), private


PAIRS = np.triu_indices(4, 1)
TRUTH = {"mean": MEAN, "standard_deviation": DEVIATIONS, "correlation": CORRELATIONS[PAIRS]}


def shares_held(draws, n, incomplete, budget):
    """Return, for each kind of number, the share of the intervals of so many draws that hold the truth."""
    held = {kind: [] for kind in TRUTH}
    for seed in range(draws):
        result, _ = estimated(seed, n, incomplete, budget=budget)
        assert result.structure == "full"
        for kind, truth in TRUTH.items():
            lower, upper = result.confidence_interval(of=kind)
            if kind == "correlation":
                lower = lower[PAIRS]
                upper = upper[PAIRS]
            held[kind].append((lower <= truth) & (truth <= upper))
    return {kind: np.mean(inside) for kind, inside in held.items()}


@pytest.mark.parametrize("incomplete", [0.3, 0.66])
@pytest.mark.parametrize(("rho", "n"), [(0.5, 4_000), (0.05, 4_000), (0.05, 20_000)])
def test_intervals_hold_where_many_rows_have_gaps(incomplete, rho, n):
    """Sampling errors are those of the complete rows: with all rows in place of these, .77 of the means were held."""
    assert min(shares_held(40, n, incomplete, ZCDP(rho)).values()) >= 0.93


@pytest.mark.extended
@pytest.mark.parametrize("incomplete", [0.0, 0.3, 0.66, 0.9])
def test_intervals_hold_in_many_draws_whatever_the_share_of_complete_rows(incomplete):
    assert min(shares_held(200, 4_000, incomplete, ZCDP(0.5)).values()) >= 0.93


def test_planted_fault_sampling_errors_of_all_rows_in_place_of_the_complete_ones(monkeypatch):
    """n for n times the share: the moments are divided by the share, and their errors are not."""

    def over(complete, known):
        share = complete.divisor
        return dataclasses.replace(known, value=known.value / share, std=known.std)

    monkeypatch.setattr(CompleteRows, "over", over)
    assert shares_held(40, 4_000, 0.66, ZCDP(0.5))["mean"] < 0.85


@pytest.mark.parametrize("incomplete", [0.0, 0.01, 0.3, 0.66])
def test_the_number_of_complete_rows_is_printed_with_its_interval(incomplete):
    for seed in range(5):
        result, private = estimated(seed, 10_000, incomplete, budget=ZCDP(0.5))
        complete = int(np.isfinite(private).all(axis=1).sum())
        lower, upper = result.complete_rows_interval()
        assert lower <= complete <= upper
        assert upper - lower < 2_000
        sentence = (
            f"the complete rows, {result.complete_rows:,.0f} [{lower:,.0f}, {upper:,.0f}] of 10,000"
        )
        assert f"Answers about    {sentence}" in result.summary()
        assert ("gaps" in result.reasons) == (incomplete > 0.02)
        assert GaussianResult.from_json(result.to_json()).complete_rows_interval() == (lower, upper)


def test_rows_of_which_few_are_complete_are_unreliable():
    """The least share that sums are divided by is a tenth."""
    result, _ = estimated(0, 20_000, 0.96, budget=ZCDP(0.5), structure="full")
    assert result.status == "unreliable"


@pytest.mark.parametrize("budget", [ZCDP(0.002), PureDP(0.1)])
def test_a_private_mean_is_that_of_the_complete_rows(budget):
    """A released sum divided by all rows is .6 of the way from the public mean, 0, to the private one, 1."""
    means = []
    held = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        public = rng.normal(size=(6, 8))
        private = rng.normal(1.0, 1.0, size=(20_000, 8))
        private[rng.random(private.shape) < 1.0 - 0.6**0.125] = np.nan
        with warnings.catch_warnings(action="ignore"):
            result = seeded(
                estimate_gaussian,
                private,
                x_pub=public,
                budget=budget,
                structure="mean",
                random_state=seed,
            )
        assert "gaps" in result.reasons
        lower, upper = result.complete_rows_interval()
        held.append(lower <= np.isfinite(private).all(axis=1).sum() <= upper)
        means.append(result.mean.mean())
    assert abs(np.mean(means) - 1.0) < 0.05
    assert np.mean(held) >= 0.9


@pytest.mark.parametrize("options", [{"structure": "mean"}, {"method": "lifted_coinpress"}])
def test_sums_come_with_the_number_of_complete_rows(options):
    rng = np.random.default_rng(3)
    private = rows_with_gaps(rng, 20_000, 0.3)
    public = rows_with_gaps(rng, 40, 0.3)
    with warnings.catch_warnings(action="ignore"):
        result = seeded(estimate_gaussian, private, x_pub=public, budget=ZCDP(0.5), **options)
    lower, upper = result.complete_rows_interval(0.999)
    assert lower <= np.isfinite(private).all(axis=1).sum() <= upper
    assert "gaps" in result.reasons


@pytest.mark.parametrize("options", [{"structure": "diagonal"}, {"structure": "public"}])
def test_where_no_number_is_released_public_rows_with_gaps_say_so(options):
    rng = np.random.default_rng(3)
    private = rows_with_gaps(rng, 2_000, 0.3)
    public = rows_with_gaps(rng, 40, 0.3)
    with warnings.catch_warnings(action="ignore"):
        result = seeded(estimate_gaussian, private, x_pub=public, budget=ZCDP(0.001), **options)
    assert result.complete_rows is None
    assert np.isnan(result.complete_rows_interval()).all()
    assert "gaps" in result.reasons


@pytest.mark.parametrize("structure", ["full", "diagonal", "mean", "public"])
def test_a_result_is_ok_where_each_of_its_columns_is(structure):
    with warnings.catch_warnings(action="ignore"):
        result, _ = estimated(0, n=20_000, incomplete=0.0, budget=ZCDP(0.5), structure=structure)
    assert (set(result.part_status) == {"ok"}) == (result.status == "ok")


def test_hypothesis_selection_has_no_interval_and_says_so():
    rows = np.random.default_rng(0).normal(size=(20_000, 1))
    with warnings.catch_warnings(action="ignore"):
        result = seeded(
            estimate_gaussian,
            rows[40:],
            x_pub=rows[:40],
            budget=ZCDP(0.5),
            method="hypothesis_selection",
        )
    assert np.isnan(result.confidence_interval()).all()
    assert "no_interval" in result.reasons


def test_public_rows_with_gaps_are_left_out_of_the_plot(monkeypatch):
    drawn = []
    plots = import_module("fastpubpriv.results.plots")
    monkeypatch.setattr(plots, "plot_ellipses", lambda *_, points, **__: drawn.append(points))
    result, _ = estimated(0, 4_000, 0.3, budget=ZCDP(0.5))
    public = rows_with_gaps(np.random.default_rng(1), 40, 0.3)
    result.plot(x_pub=public)
    np.testing.assert_array_equal(drawn[0], public[np.isfinite(public).all(axis=1)])


def test_the_estimator_and_the_command_say_how_many_rows_are_complete(tmp_path, monkeypatch):
    sklearn = pytest.importorskip("fastpubpriv.sklearn")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(4)
    private = rows_with_gaps(rng, 4_000, 0.3)
    public = rows_with_gaps(rng, 40, 0.0)
    np.save("p.npy", private)
    np.save("q.npy", public)
    model = sklearn.SemiPrivatePCA(ZCDP(0.5), n_components=1).fit(private, X_pub=public)
    assert model.result_.about.startswith("the complete rows, ")
    assert "gaps" in model.result_.reasons

    asked = ["gaussian", "--private", "p.npy", "--public", "q.npy", "--rho", "0.5"]
    found = CliRunner().invoke(main, asked)
    assert found.exit_code == 0
    assert re.search(
        r"the complete rows, 2,\d\d\d \[2,\d\d\d, [23],\d\d\d\] of 4,000", found.output
    )
