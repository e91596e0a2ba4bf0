"""Small raw tables, 100 to 300 rows of columns in any unit: no gross error without a reason, none where the public rows are near.

Errors are relative: of a mean in deviations of its column, of a second moment or covariance in the Frobenius norm.
"""

import itertools
import warnings
from unittest import mock

import numpy as np
import pytest
from spies import seeded

import fastpubpriv as fpp
from benchmarks.accuracy import tables
from benchmarks.accuracy.gaussians import Problem, errors, public_alone
from fastpubpriv.estimators import components
from fastpubpriv.estimators.columns import column_means

pytest.importorskip("sklearn")
TABLES = ("iris", "diabetes", "wine")
BUDGETS = (fpp.ZCDP(0.05), fpp.ZCDP(0.5), fpp.PureDP(1))
CELLS = list(itertools.product(TABLES, (100, 300), (2, 5, 20)))
GROSS, NEAR = 2.0, 1.0


def of_mean(call):
    """Errors of the columns of a mean, whether they have a reason, and the errors of the public means."""

    def judged(population, private, public, options):
        result = call(private, public, options)
        mean, std = population.mean(axis=0), population.std(axis=0)
        return np.abs(result.mean - mean) / std, told(result), np.abs(public.mean(axis=0) - mean) / std

    return judged


def told(result):
    """Whether each column has a reason."""
    return [own != () for own in result.part_reasons] or [False] * result.dim


def of_directions(population, private, public, options):
    result = seeded(fpp.private_pca, private, x_pub=public, n_components=population.shape[1], **options)
    offsets = population - result.center
    true = offsets.T @ offsets / len(offsets)
    found = (result.components.T * result.eigenvalues) @ result.components
    near = np.linalg.norm(np.cov(public.T) - true) / np.linalg.norm(true)
    return [np.linalg.norm(found - true) / np.linalg.norm(true)], told(result)[:1], [near]


def of_gaussian(population, private, public, options):
    mean, covariance = population.mean(axis=0), np.cov(population.T, ddof=0)
    problem = Problem("", None, mean, covariance, len(private), len(public))
    result = seeded(fpp.estimate_gaussian, private, x_pub=public, **options)
    theirs = errors(problem, *public_alone(public))
    return [errors(problem, result.mean, result.covariance)[0]], [result.status != "ok"], [theirs[0]]


def of_covariance(population, private, public, options):
    mean, std = population.mean(axis=0), population.std(axis=0)
    covariance = np.corrcoef(population.T)
    problem = Problem("", None, np.zeros(len(mean)), covariance, len(private), len(public))
    result = seeded(fpp.coinpress_covariance, (private - mean) / std, scale=float(len(mean)), **options)
    return [errors(problem, problem.mean, result.covariance)[0]], [result.status != "ok"], [np.inf]


ESTIMATORS = {
    "estimate_mean": of_mean(lambda x, p, o: seeded(fpp.estimate_mean, x, x_pub=p, **o)),
    "weighted_mean": of_mean(lambda x, p, o: seeded(fpp.weighted_mean, x, x_pub=p, norm_bound="auto", **o)),
    "coinpress_mean": of_mean(lambda x, p, o: seeded(fpp.coinpress_mean, x, center=p[0], radius="auto", **o)),
    "private_pca": of_directions,
    "estimate_gaussian": of_gaussian,
    "coinpress_covariance": of_covariance,
}
# Without a covariance all columns share the noise of whole rows; a reason says so, and no public row is there to do better.
ALONE = ("coinpress_mean", "coinpress_covariance")


def gross_errors(name, cells=CELLS):
    """How many errors are gross without a reason, and how many where the public rows are near."""
    silent = worse = 0
    for place, (table, n, m) in enumerate(cells):
        population, rng = tables.joint(table), np.random.default_rng(place)
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
        "fastpubpriv.estimators.mean.with_report", side_effect=lambda name, result, *found, **known: result
    ):
        assert gross_errors("coinpress_mean")[0] > 0


def test_a_mean_that_noise_has_made_is_caught():
    def noisy(seen, total, instead, instead_std, n_pub, honest=column_means.estimate_column, **known):
        return honest(seen, total, instead, np.inf, n_pub, **known)

    few = list(itertools.product(TABLES, (40, 60), (5, 20, 20)))
    assert gross_errors("estimate_mean", few) == (0, 0)
    with mock.patch("fastpubpriv.estimators.columns.column_means.estimate_column", side_effect=noisy):
        assert gross_errors("estimate_mean", few)[1] > 0


def test_directions_of_noise_are_caught():
    def noise(private, std, n, public, middle):
        return components.Moment(private, 0.0)

    with mock.patch.object(components, "_with_public", side_effect=noise):
        silent, worse = gross_errors("private_pca")
    assert silent > 0
    assert worse > 0
