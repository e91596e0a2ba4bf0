"""Choices of the ladder that were measured on real tables and Gaussians: each with the fault that it mends put back in."""

from fractions import Fraction

import numpy as np
import pytest

from fastpubpriv.estimators.ladder import evidence, rungs
from fastpubpriv.estimators.ladder.public_base import public_base
from fastpubpriv.estimators.ladder.rungs import outlook
from fastpubpriv.estimators.ladder.schedule import Noise


def share_spherical():
    """Of 60 sets of 20 public rows in 40 spherical columns, those that are as good as one common variance."""
    rng = np.random.default_rng(1)
    found = 0
    for _ in range(60):
        rows = 3.0 * rng.normal(size=(20, 40))
        common = np.eye(40) * np.var(rows, axis=0, ddof=1).mean()
        ours, plain = (np.linalg.norm(each / 9.0 - np.eye(40)) for each in (public_base(rows).covariance, common))
        found += ours <= 1.05 * plain + 0.01
    return found / 60


def test_spherical_public_rows_get_one_variance(monkeypatch):
    assert share_spherical() >= 0.95
    monkeypatch.setattr(evidence, "NO_WORSE_ALIKE", evidence.NO_WORSE)
    assert share_spherical() < 0.9


def test_columns_that_differ_are_not_taken_for_alike():
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(12, 6)) * [1.0, 1.0, 1.0, 4.0, 4.0, 4.0]
    spread = np.sqrt(np.diag(public_base(rows).covariance))
    assert spread[3:].min() > 1.5 * spread[:3].max()


@pytest.mark.parametrize("n_pub", [6, 8, 11])
def test_axis_variances_of_few_public_rows_err_as_much_as_is_said(n_pub):
    """Variances as private rows would show them, put in place of those of the public rows: the error against the prediction.

    Axes of very unequal columns do not know in which directions the public rows err: each shows the average of the errors.
    """
    dim, rng, found, before = 5, np.random.default_rng(3), [], []
    for _ in range(1000):
        spread, axes = np.linalg.eigh(np.cov(rng.normal(size=(n_pub, dim)).T))
        turned = axes * np.sqrt(np.mean(1.0 / spread) * spread)
        found.append(np.linalg.norm(turned @ turned.T - np.eye(dim)))
        before.append(np.sqrt(np.sum(np.square(spread - 1.0))))
    strength = public_base(rng.normal(size=(n_pub, dim))).strength
    assert np.median(found) > 1.2 * np.median(before)
    assert np.sqrt(rungs._inflation(strength)) < 2.0 * np.median(found)


def test_hardly_more_public_rows_than_columns_get_no_axis_variances(monkeypatch):
    rng = np.random.default_rng(4)
    scales = np.geomspace(1.0, 100.0, 5)
    rotation = np.linalg.qr(rng.normal(size=(5, 5)))[0]

    def taken():
        sets = [rng.normal(size=(6, 5)) * scales @ rotation for _ in range(40)]
        return [outlook(public_base(rows).strength, 1000, Noise(True, Fraction(1))).best for rows in sets]

    assert "diagonal" not in taken()
    monkeypatch.setattr(rungs, "_inflation", lambda strength: 0.0)
    monkeypatch.setattr(rungs, "DIAGONAL_MEAN", 1.0)
    assert taken().count("diagonal") > 2
