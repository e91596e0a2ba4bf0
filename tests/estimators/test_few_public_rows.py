"""What small calls do to be short: sums of public rows without NumPy's wrappers, and steps that are kept from call to call."""

import warnings
from itertools import product

import numpy as np
import pandas
import pytest
from helpers.errors import raises
from spies import seeded

import fastpubpriv as fpp
from benchmarks.accuracy.gaussians import Problem, errors
from fastpubpriv.estimators.ladder import ladder_tuning as tuning
from fastpubpriv.estimators.ladder.public_prior import moderated, plain_worth, public_prior


# ---- A handful of public rows of columns in different units: nothing is pooled that is not alike, and a guess is called one.
# The rows are those of a mixture like eruptions of the Old Faithful geyser: minutes and minutes, one column twelve times as wide.
def geyser(rng, n):
    long = rng.random(n) < 0.64
    eruptions = np.where(long, rng.normal(4.29, 0.41, n), rng.normal(2.04, 0.27, n))
    waiting = np.where(long, rng.normal(80.0, 5.9, n), rng.normal(54.5, 5.9, n)) + 5.0 * (eruptions - 3.5) * long
    return np.column_stack([eruptions, waiting])


def plain(rng, n):
    return rng.normal(size=(n, 4)) * [0.01, 1.0, 30.0, 2000.0]


def estimates(draw, n_pub, n=300):
    """Error of the covariance, the result and the words of its warnings, for 15 sets of public rows."""
    population = draw(np.random.default_rng(0), 100_000)
    covariance = np.cov(population.T)
    problem, found = Problem("", draw, population.mean(axis=0), covariance, n, n_pub), []
    for seed in range(15):
        rng = np.random.default_rng([seed, n_pub])
        private, public = draw(rng, n), draw(rng, n_pub)
        with warnings.catch_warnings(record=True, action="always") as told:
            result = seeded(fpp.estimate_gaussian, private, x_pub=public, budget=fpp.ZCDP(0.05), random_state=seed)
        words = " ".join(str(each.message) for each in told)
        found.append((errors(problem, result.mean, result.covariance)[0], result, words))
    return found


def median_error(draw, n_pub):
    return np.median([error for error, _, _ in estimates(draw, n_pub)])


def test_two_public_rows_keep_the_scales_of_their_columns(monkeypatch):
    assert median_error(geyser, 2) < 20.0
    monkeypatch.setattr(tuning, "LEAST_POOLED", 0)
    assert median_error(geyser, 2) > 60.0


@pytest.mark.parametrize("n_pub", [2, 3, 4])
def test_fewer_than_five_public_rows_are_not_pooled(n_pub, monkeypatch):
    """Whatever the units: variances are those of the columns, and their degrees of freedom those of the rows."""
    rows = np.random.default_rng(n_pub).normal(size=(n_pub, 3)) * [1.0, 5.0, 30.0]
    logs = np.log(rows.var(axis=0, ddof=1))
    own, _, degrees = moderated(logs, n_pub - 1)
    assert np.array_equal(own, logs)
    assert degrees == n_pub - 1
    units = np.array([1e6, 1.0, 1e-6])
    one, other = public_prior(rows), public_prior(rows * units)
    assert np.allclose(other.covariance / np.outer(units, units), one.covariance)
    assert moderated(np.zeros(3), tuning.LEAST_POOLED)[2] > 1e4  # those of five may be
    monkeypatch.setattr(tuning, "LEAST_POOLED", 0)
    assert moderated(np.zeros(3), n_pub - 1)[2] > 1e4


@pytest.mark.parametrize("n_pub", [2, 3, 4])
def test_predictions_from_so_few_rows_are_right_or_called_a_guess(n_pub):
    """Within a factor of three where columns are independent; elsewhere, and there, the result and its warning say "guess"."""
    for draw in (geyser, plain):
        for _, result, words in estimates(draw, n_pub):
            if result.structure == "full":
                continue
            assert result.diagnostics["guess"]
            assert "its predicted error is a guess" in result.summary()
            assert ("a guess" in words) == ("predicted relative error" in words)
    ratios = [error / result.predicted_covariance_error for error, result, _ in estimates(plain, n_pub)]
    assert 1.0 / 3.0 < np.median(ratios) < 3.0


def test_enough_public_rows_are_no_guess():
    assert [plain_worth(3, n_pub).guess for n_pub in (2, 4, 5, 50)] == [True, True, False, False]
    assert [plain_worth(8, n_pub).guess for n_pub in (5, 8, 9)] == [True, True, False]
    assert not plain_worth(1, 2).guess
    few, many = estimates(plain, 2)[0][1], estimates(plain, 40)[0][1]
    assert few.diagnostics["guess"]
    assert "a guess" not in many.summary()


def test_a_public_gap_is_left_out_of_its_column_alone():
    rows = np.random.default_rng(4).lognormal(3.0, 1.0, size=(3000, 1))
    public = np.insert(rows[:5], [0, 2, 5], np.nan, axis=0)
    calls = fpp.estimate_mean, fpp.quantiles, fpp.describe
    for call, budget in [*product(calls, [fpp.ZCDP(0.5), fpp.PureDP(1)]), (fpp.estimate_mean, fpp.ZCDP(1e-4))]:
        with_gaps, without = (seeded(call, rows[5:], x_pub=x, budget=budget).to_dict() for x in (public, rows[:5]))
        assert str(with_gaps).replace("'n_pub': 8", "'n_pub': 5") == str(without)
    beside = np.column_stack([public, np.arange(8.0)])
    result = seeded(fpp.estimate_mean, np.repeat(rows[5:], 2, axis=1), x_pub=beside, budget=fpp.ZCDP(0.5))
    assert np.all(np.abs(result.mean / rows.mean() - 1.0) < 0.1)
    only_public = fpp.estimate_mean(
        rows[:9], x_pub=np.insert(rows[9:90], 7, np.nan, axis=0), budget=fpp.ZCDP(1e-3), public_only="auto"
    )
    assert only_public.mean == rows[9:90].mean(axis=0)


@pytest.mark.parametrize(
    ("public", "words"),
    [
        ([[1.0, np.nan], [2.0, np.nan]], "a number in every column, and all cells of column 1 are missing"),
        ([np.nan, 1.0], "all cells of column 0"),
        ([[1.0, np.inf], [np.nan, 2.0]], "row 0, column 1 is inf"),
        (pandas.DataFrame({"a": [np.nan, np.nan], "b": [1.0, None]}), "all cells of column 'a'"),
    ],
)
@pytest.mark.parametrize("call", [fpp.estimate_mean, fpp.quantiles, fpp.describe])
def test_a_public_column_needs_a_number(call, public, words):
    ledger = fpp.Ledger(fpp.ZCDP(1))
    rows = pandas.DataFrame(np.zeros((50, 2)), columns=list("ab"))
    rows = rows if hasattr(public, "columns") else rows.to_numpy()
    raises(fpp.InputError, words, call, rows, x_pub=public, budget=fpp.ZCDP(1), ledger=ledger)
    given = {"x_pub": [1.0, np.nan], "budget": fpp.ZCDP(1), "variance": 1.0}
    raises(fpp.InputError, "must be finite", fpp.estimate_mean, np.zeros((9, 1)), **given)
    assert not ledger.entries
