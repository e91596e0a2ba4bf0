"""Small raw tables of columns in any unit: no gross error without a reason, and none where the public rows alone are near."""

import itertools
import warnings
from unittest import mock

import numpy as np
import pytest
from spies import seeded

import fastpubpriv as fpp
from benchmarks.accuracy import tables
from benchmarks.accuracy.gaussians import Problem, errors, public_alone
from fastpubpriv.estimators import column_means
from fastpubpriv.gaussians import pca

pytest.importorskip("sklearn")
TABLES = ("iris", "diabetes", "wine")
BUDGETS = (fpp.ZCDP(0.05), fpp.ZCDP(0.5), fpp.PureDP(1))
# A table, numbers of private rows and of public ones.
CELLS = list(itertools.product(TABLES, (100, 300), (2, 5, 20)))
FEWER_ROWS = list(itertools.product(TABLES, (40, 60), (5, 20, 20)))
# Errors relative to the spread of the population.
GROSS = 2.0
NEAR = 1.0


def of_mean(call):
    """Errors of the columns of a mean, whether they have a reason, and the errors of the public means."""

    def judged(population, private, public, options):
        result = call(private, public, options)
        mean = population.mean(axis=0)
        std = population.std(axis=0)
        found = np.abs(result.mean - mean) / std
        theirs = np.abs(public.mean(axis=0) - mean) / std
        return found, flagged_columns(result), theirs

    return judged


def flagged_columns(result):
    """Whether each column has a reason."""
    if not result.part_reasons:
        return [False] * result.dim
    return [reasons != () for reasons in result.part_reasons]


def mean_of_columns(private, public, options):
    return seeded(fpp.estimate_mean, private, x_pub=public, **options)


def mean_with_weights(private, public, options):
    return seeded(fpp.weighted_mean, private, x_pub=public, norm_bound="auto", **options)


def mean_of_rows(private, public, options):
    return seeded(fpp.coinpress_mean, private, center=public[0], radius="auto", **options)


def of_directions(population, private, public, options):
    dim = population.shape[1]
    result = seeded(fpp.private_pca, private, x_pub=public, n_components=dim, **options)
    offsets = population - result.center
    true = offsets.T @ offsets / len(offsets)
    size = np.linalg.norm(true)
    found = (result.components.T * result.eigenvalues) @ result.components
    error = np.linalg.norm(found - true) / size
    near = np.linalg.norm(np.cov(public.T) - true) / size
    # Few rows have a reason whatever the noise: that a direction is lost must be said by a worse one.
    lost = result.part_status[0] == "unreliable"
    return [error], [lost], [near]


def of_gaussian(population, private, public, options):
    mean = population.mean(axis=0)
    covariance = np.cov(population.T, ddof=0)
    problem = Problem("", None, mean, covariance, len(private), len(public))
    result = seeded(fpp.estimate_gaussian, private, x_pub=public, **options)
    found = errors(problem, result.mean, result.covariance)
    theirs = errors(problem, *public_alone(public))
    return [found[0]], [result.status != "ok"], [theirs[0]]


def of_covariance(population, private, public, options):
    dim = population.shape[1]
    standard = (private - population.mean(axis=0)) / population.std(axis=0)
    correlation = np.corrcoef(population.T)
    problem = Problem("", None, np.zeros(dim), correlation, len(private), len(public))
    result = seeded(fpp.coinpress_covariance, standard, scale=float(dim), **options)
    found = errors(problem, problem.mean, result.covariance)
    return [found[0]], [result.status != "ok"], [np.inf]


ESTIMATORS = {
    "estimate_mean": of_mean(mean_of_columns),
    "weighted_mean": of_mean(mean_with_weights),
    "coinpress_mean": of_mean(mean_of_rows),
    "private_pca": of_directions,
    "estimate_gaussian": of_gaussian,
    "coinpress_covariance": of_covariance,
}
# Without a covariance all columns share the noise of whole rows; a reason says so, and no public row is there to do better.
ALONE = ("coinpress_mean", "coinpress_covariance")


def gross_errors(name, cells=CELLS):
    """How many errors are gross without a reason, and how many where the public rows are near."""
    silent = 0
    worse = 0
    for place, (table, n, m) in enumerate(cells):
        population = tables.joint(table)
        rng = np.random.default_rng(place)
        private = population[rng.integers(0, len(population), n)]
        public = population[rng.integers(0, len(population), m)]
        options = {"budget": BUDGETS[place % 3], "random_state": place}
        with warnings.catch_warnings(action="ignore"):
            found, flagged, theirs = ESTIMATORS[name](population, private, public, options)
        # An error that is not a number is gross.
        gross = ~(np.asarray(found) <= GROSS)
        silent += np.count_nonzero(gross & ~np.asarray(flagged))
        worse += np.count_nonzero(gross & (np.asarray(theirs) < NEAR))
    return silent, worse


@pytest.mark.parametrize("name", ESTIMATORS)
def test_no_gross_error_is_silent_nor_worse_than_the_public_rows(name):
    silent, worse = gross_errors(name)
    assert silent == 0
    assert worse == 0 or name in ALONE


def test_a_result_without_its_reasons_is_caught():
    def without_report(name, result, *found, **known):
        return result

    where = "fastpubpriv.estimators.coinpress.with_report"
    with mock.patch(where, side_effect=without_report):
        silent, _ = gross_errors("coinpress_mean")
    assert silent > 0


def test_a_mean_that_noise_has_made_is_caught():
    honest = column_means.estimates_of

    def noisy(counted, totals, instead, instead_std, n_pub, **known):
        return honest(counted, totals, instead, np.full(len(totals), np.inf), n_pub, **known)

    assert gross_errors("estimate_mean", FEWER_ROWS) == (0, 0)
    with mock.patch.object(column_means, "estimates_of", side_effect=noisy):
        _, worse = gross_errors("estimate_mean", FEWER_ROWS)
    assert worse > 0


def test_directions_of_noise_are_caught():
    def noise(private, std, n, public, middle):
        return pca.Moment(private, 0.0)

    with mock.patch.object(pca, "_with_public", side_effect=noise):
        silent, worse = gross_errors("private_pca")
    assert silent > 0
    assert worse > 0
