"""What the means refuse before any private row is read and before any debit: spreads, public rows and steps that do not do."""

import itertools
import warnings
from functools import partial
from itertools import product
from unittest import mock

import numpy as np
import pandas
import pytest
from helpers.errors import raises
from spies import SpyLedger, SpyRows, seeded

import fastpubpriv as fpp
from benchmarks.accuracy import tables
from benchmarks.accuracy.gaussians import Problem, errors, public_alone
from fastpubpriv import ZCDP, PureDP, coinpress_mean, estimate_mean, weighted_mean
from fastpubpriv.errors import InputError
from fastpubpriv.estimators import column_means
from fastpubpriv.gaussians import gaussian_tuning as tuning
from fastpubpriv.gaussians import pca
from fastpubpriv.gaussians.public_prior import moderated, plain_worth, public_prior
from fastpubpriv.results.reasons import status_of

DIM = 3
PUBLIC = np.random.default_rng(1).standard_normal((30, DIM))


call_estimate = partial(estimate_mean, x_pub=PUBLIC)
call_public_covariance = partial(estimate_mean, x_pub=PUBLIC, covariance="public")
call_coinpress = partial(coinpress_mean, center=0.0, radius=10.0)
call_weighted = partial(weighted_mean, x_pub=PUBLIC, norm_bound=5.0, row_weight="private")


def good(n=20_000):
    return np.random.default_rng(0).standard_normal((n, DIM))


def refusal(call, rows=None, **options):
    """Return the words of the error that a call raises before it reads rows or debits."""
    log = []
    given = {"budget": ZCDP(0.5), "ledger": SpyLedger(ZCDP(1000), log), **options}
    with warnings.catch_warnings(action="ignore"):
        error = raises(
            InputError, None, call, SpyRows(good(500), log) if rows is None else rows, **given
        )
    assert log == []
    return str(error)


@pytest.mark.parametrize("public", [
    PUBLIC[:DIM], np.vstack([PUBLIC[:DIM], PUBLIC[0]]), np.ones((50, DIM)),
], ids=["45 m < d + 1", "46 rank-deficient", "47 duplicates"])  # fmt: skip
def test_public_rows_without_a_covariance(public):
    assert "public rows" in refusal(call_public_covariance, x_pub=public)
    # a mean needs no covariance
    assert np.all(np.isfinite(call_estimate(good(), budget=ZCDP(0.5), x_pub=public).mean))


BAD_KNOWN = {
    "negative": -1.0, "zero": 0.0, "NaN": np.nan, "vector with zero": [1.0, 0.0, 1.0], "length": [1.0, 2.0],
    "indefinite": np.diag([1.0, -1.0, 1.0]), "asymmetric": np.triu(np.ones((DIM, DIM))), "shape": np.eye(DIM + 1),
    "text": "identity", "ragged": [[1.0], [1.0, 2.0]], "3-d": np.ones((DIM, DIM, DIM)), "bool": True, "dict": {},
}  # fmt: skip


@pytest.mark.parametrize("call", [call_estimate, call_coinpress])
@pytest.mark.parametrize("argument", ["covariance", "variance"])
@pytest.mark.parametrize("spread", BAD_KNOWN.values(), ids=BAD_KNOWN)
def test_known_spread(call, argument, spread):
    assert argument in refusal(call, **{argument: spread})


@pytest.mark.parametrize("call", [call_estimate, call_coinpress])
def test_a_number_is_a_variance_and_a_matrix_a_covariance(call):
    for spread in (4.0, np.array(4.0), np.full(DIM, 4.0), [4.0] * DIM, (4.0,) * DIM):
        assert "variance=" in refusal(call, covariance=spread)
    for spread in (np.eye(DIM), np.eye(DIM).tolist()):
        assert "covariance=" in refusal(call, variance=spread)
    assert "not both" in refusal(call, variance=1.0, covariance=np.eye(DIM))


@pytest.mark.parametrize("call", [call_estimate, call_public_covariance, call_weighted])
def test_public_rows_are_the_private_rows(call):
    rows = good()
    for public in (rows, rows[:10], rows[::-1], rows[5]):
        message = refusal(call, rows, x_pub=public)
        assert "split the rows" in message or "private or public" in message
    # equal content cannot be seen
    assert np.all(np.isfinite(call(rows, budget=ZCDP(0.5), x_pub=rows.copy()).mean))


@pytest.mark.parametrize(
    "budget", [PureDP(2.0**-20), PureDP(2.0**-30), ZCDP(2.0**-50), ZCDP(2.0**-60)]
)
def test_steps_that_the_budget_does_not_reach(budget):
    message = refusal(call_coinpress, steps=1000, budget=budget)
    assert "steps" in message or "no integer grid" in message


# ---- Small raw tables of columns in any unit: no gross error without a reason ---------------------------------------

pytest.importorskip("sklearn")
TABLES = ("iris", "diabetes", "wine")
BUDGETS = (fpp.ZCDP(0.05), fpp.ZCDP(0.5), fpp.PureDP(1))
CELLS = list(itertools.product(TABLES, (100, 300), (2, 5, 20)))
GROSS, NEAR = 2.0, 1.0


def of_mean(call):
    """Errors of the columns of a mean, whether they have a reason, and the errors of the public means."""

    def judged(population, private, public, options):
        result = call(private, public, options)
        mean = population.mean(axis=0)
        std = population.std(axis=0)
        return (
            np.abs(result.mean - mean) / std,
            told(result),
            np.abs(public.mean(axis=0) - mean) / std,
        )

    return judged


def told(result):
    """Whether each column has a reason."""
    return [own != () for own in result.part_reasons] or [False] * result.dim


def of_directions(population, private, public, options):
    result = seeded(
        fpp.private_pca, private, x_pub=public, n_components=population.shape[1], **options
    )
    offsets = population - result.center
    true = offsets.T @ offsets / len(offsets)
    found = (result.components.T * result.eigenvalues) @ result.components
    near = np.linalg.norm(np.cov(public.T) - true) / np.linalg.norm(true)
    # Few rows have a reason whatever the noise: that a direction is lost must be said by a worse one.
    lost = result.part_status[0] == "unreliable"
    return [np.linalg.norm(found - true) / np.linalg.norm(true)], [lost], [near]


def of_gaussian(population, private, public, options):
    mean = population.mean(axis=0)
    covariance = np.cov(population.T, ddof=0)
    problem = Problem("", None, mean, covariance, len(private), len(public))
    result = seeded(fpp.estimate_gaussian, private, x_pub=public, **options)
    theirs = errors(problem, *public_alone(public))
    return (
        [errors(problem, result.mean, result.covariance)[0]],
        [result.status != "ok"],
        [theirs[0]],
    )


def of_covariance(population, private, public, options):
    mean = population.mean(axis=0)
    std = population.std(axis=0)
    covariance = np.corrcoef(population.T)
    problem = Problem("", None, np.zeros(len(mean)), covariance, len(private), len(public))
    result = seeded(
        fpp.coinpress_covariance, (private - mean) / std, scale=float(len(mean)), **options
    )
    return [errors(problem, problem.mean, result.covariance)[0]], [result.status != "ok"], [np.inf]


ESTIMATORS = {
    "estimate_mean": of_mean(lambda x, p, o: seeded(fpp.estimate_mean, x, x_pub=p, **o)),
    "weighted_mean": of_mean(lambda x, p, o: seeded(fpp.weighted_mean, x, x_pub=p, norm_bound="auto", **o)),
    "coinpress_mean": of_mean(lambda x, p, o: seeded(fpp.coinpress_mean, x, center=p[0], radius="auto", **o)),
    "private_pca": of_directions, "estimate_gaussian": of_gaussian, "coinpress_covariance": of_covariance,
}  # fmt: skip
# Without a covariance all columns share the noise of whole rows; a reason says so, and no public row is there to do better.
ALONE = ("coinpress_mean", "coinpress_covariance")


def gross_errors(name, cells=CELLS):
    """How many errors are gross without a reason, and how many where the public rows are near."""
    silent = worse = 0
    for place, (table, n, m) in enumerate(cells):
        population = tables.joint(table)
        rng = np.random.default_rng(place)
        private, public = (population[rng.integers(0, len(population), size)] for size in (n, m))
        options = {"budget": BUDGETS[place % 3], "random_state": place}
        with warnings.catch_warnings(action="ignore"):
            found, flagged, theirs = ESTIMATORS[name](population, private, public, options)
        far = ~(np.asarray(found) <= GROSS)
        silent += int((far & ~np.asarray(flagged)).sum())
        worse += int((far & (np.asarray(theirs) < NEAR)).sum())
    return silent, worse


@pytest.mark.parametrize("name", ESTIMATORS)
def test_no_gross_error_is_silent_nor_worse_than_the_public_rows(name):
    silent, worse = gross_errors(name)
    assert silent == 0
    assert worse == 0 or name in ALONE


def test_a_result_without_its_reasons_is_caught():
    with mock.patch(
        "fastpubpriv.estimators.coinpress.with_report",
        side_effect=lambda name, result, *found, **known: result,
    ):
        assert gross_errors("coinpress_mean")[0] > 0


def test_a_mean_that_noise_has_made_is_caught():
    honest = column_means.estimates_of

    def noisy(counted, totals, instead, instead_std, n_pub, **known):
        return honest(counted, totals, instead, np.full(len(totals), np.inf), n_pub, **known)

    few = list(itertools.product(TABLES, (40, 60), (5, 20, 20)))
    assert gross_errors("estimate_mean", few) == (0, 0)
    with mock.patch.object(column_means, "estimates_of", side_effect=noisy):
        assert gross_errors("estimate_mean", few)[1] > 0


def test_directions_of_noise_are_caught():
    def noise(private, std, n, public, middle):
        return pca.Moment(private, 0.0)

    with mock.patch.object(pca, "_with_public", side_effect=noise):
        silent, worse = gross_errors("private_pca")
    assert silent > 0
    assert worse > 0


# ---- A handful of public rows of columns in different units: nothing is pooled that is not alike, and a guess is called one.
# The rows are those of a mixture like eruptions of the Old Faithful geyser: minutes and minutes, one column twelve times as wide.
def geyser(rng, n):
    long = rng.random(n) < 0.64
    eruptions = np.where(long, rng.normal(4.29, 0.41, n), rng.normal(2.04, 0.27, n))
    waiting = (
        np.where(long, rng.normal(80.0, 5.9, n), rng.normal(54.5, 5.9, n))
        + 5.0 * (eruptions - 3.5) * long
    )
    return np.column_stack([eruptions, waiting])


def plain(rng, n):
    return rng.normal(size=(n, 4)) * [0.01, 1.0, 30.0, 2000.0]


def estimates(draw, n_pub, n=300):
    """Error of the covariance, the result and the words of its warnings, for 15 sets of public rows."""
    population = draw(np.random.default_rng(0), 100_000)
    covariance = np.cov(population.T)
    problem = Problem("", draw, population.mean(axis=0), covariance, n, n_pub)
    found = []
    for seed in range(15):
        rng = np.random.default_rng([seed, n_pub])
        private = draw(rng, n)
        public = draw(rng, n_pub)
        with warnings.catch_warnings(record=True, action="always") as told:
            result = seeded(
                fpp.estimate_gaussian,
                private,
                x_pub=public,
                budget=fpp.ZCDP(0.05),
                random_state=seed,
            )
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
    one = public_prior(rows)
    other = public_prior(rows * units)
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
            assert ("a guess: " in words) == ("predicted relative error" in words)
    ratios = [
        error / result.predicted_covariance_error for error, result, _ in estimates(plain, n_pub)
    ]
    assert 1.0 / 3.0 < np.median(ratios) < 3.0


def test_a_column_that_is_constant_in_the_public_rows_is_unreliable_alone():
    """Its scale is that of other columns, forty times too large here; with few rows of all columns, none is reliable."""
    rng = np.random.default_rng(3)
    rare = (rng.random(600) < 0.02).astype(float)
    x = np.column_stack([rng.normal(40.0, 12.0, (600, 2)), rare])
    x_pub = x[rare == 0.0][:40]
    with warnings.catch_warnings(action="ignore"):
        result, few = (
            fpp.estimate_gaussian(
                x[40:],
                x_pub=x_pub[:n_pub],
                structure="mean",
                budget=fpp.ZCDP(0.02),
                random_state=0,
            )
            for n_pub in (40, 3)
        )
    assert result.covariance[2, 2] ** 0.5 > 10.0 * rare.std()
    assert [status_of(own) for own in result.part_reasons] == ["caution", "caution", "unreliable"]
    assert [status_of(own) for own in few.part_reasons] == ["unreliable"] * 3


def test_enough_public_rows_are_no_guess():
    assert [plain_worth(3, n_pub).guess for n_pub in (2, 4, 5, 50)] == [True, True, False, False]
    assert [plain_worth(8, n_pub).guess for n_pub in (5, 8, 9)] == [True, True, False]
    assert not plain_worth(1, 2).guess
    few = estimates(plain, 2)[0][1]
    many = estimates(plain, 40)[0][1]
    assert few.diagnostics["guess"]
    assert "a guess" not in many.summary()


def test_a_public_gap_is_left_out_of_its_column_alone():
    rows = np.random.default_rng(4).lognormal(3.0, 1.0, size=(3000, 1))
    public = np.insert(rows[:5], [0, 2, 5], np.nan, axis=0)
    calls = fpp.estimate_mean, fpp.quantiles, fpp.describe
    for call, budget in [
        *product(calls, [fpp.ZCDP(0.5), fpp.PureDP(1)]),
        (fpp.estimate_mean, fpp.ZCDP(1e-4)),
    ]:
        with_gaps, without = (
            seeded(call, rows[5:], x_pub=x, budget=budget).to_dict() for x in (public, rows[:5])
        )
        assert str(with_gaps).replace("'n_pub': 8", "'n_pub': 5") == str(without)
    beside = np.column_stack([public, np.arange(8.0)])
    result = seeded(
        fpp.estimate_mean, np.repeat(rows[5:], 2, axis=1), x_pub=beside, budget=fpp.ZCDP(0.5)
    )
    assert np.all(np.abs(result.mean / rows.mean() - 1.0) < 0.1)
    many = np.insert(rows[9:90], 7, np.nan, axis=0)
    only_public = fpp.estimate_mean(rows[:9], x_pub=many, budget=fpp.ZCDP(1e-3), public_only="auto")
    assert only_public.mean == rows[9:90].mean(axis=0)


@pytest.mark.parametrize(("public", "words"), [
    ([[1.0, np.nan], [2.0, np.nan]], "a number in every column, and all cells of column 1 are missing"),
    ([np.nan, 1.0], "all cells of column 0"), ([[1.0, np.inf], [np.nan, 2.0]], "row 0, column 1 is inf"),
    (pandas.DataFrame({"a": [np.nan, np.nan], "b": [1.0, None]}), "all cells of column 'a'"),
])  # fmt: skip
@pytest.mark.parametrize("call", [fpp.estimate_mean, fpp.quantiles, fpp.describe])
def test_a_public_column_needs_a_number(call, public, words):
    ledger = fpp.Ledger(fpp.ZCDP(1))
    rows = pandas.DataFrame(np.zeros((50, 2)), columns=list("ab"))
    rows = rows if hasattr(public, "columns") else rows.to_numpy()
    raises(fpp.InputError, words, call, rows, x_pub=public, budget=fpp.ZCDP(1), ledger=ledger)
    given = {"x_pub": [1.0, np.nan], "budget": fpp.ZCDP(1), "variance": 1.0}
    raises(fpp.InputError, "must be finite", fpp.estimate_mean, np.zeros((9, 1)), **given)
    assert not ledger.entries
