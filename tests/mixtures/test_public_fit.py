"""The covariance of a few public rows: whatever the units of the columns, and named where a column says nothing."""

import numpy as np
import pytest

from fastpubpriv import public_only
from fastpubpriv.mixtures.separated.tree import column_variances, shrunken

UNITS = np.array([1e6, 1e-6, 3.0])


def rows_of(seed, n):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)) @ rng.normal(size=(3, 3)) + 5.0


@pytest.mark.parametrize("n", [2, 3, 5, 40])
def test_units_do_not_matter(n):
    rows = rows_of(1, n)
    one, other = (shrunken(x, column_variances(x)[0]) for x in (rows, rows * UNITS))
    assert np.allclose(other / np.outer(UNITS, UNITS), one, rtol=1e-9)
    assert np.allclose(np.diag(one), rows.var(axis=0, ddof=1))
    assert np.linalg.eigvalsh(one)[0] > 0.0
    # Control: the multiple of the identity that stood here before is lost in the largest column.
    sample = np.cov((rows * UNITS).T)
    before = 3 / (3 + n) * np.trace(sample) / 3 * np.eye(3) + n / (3 + n) * sample
    assert before[1, 1] > 1e6 * other[1, 1]


def test_columns_that_say_nothing_are_named():
    rows = rows_of(2, 9)
    rows[:, 1] = 7.0
    result = public_only(rows, n_components=1)
    assert list(result.diagnostics["fallback_columns"]) == ["1"]
    assert np.linalg.eigvalsh(result.covariances[0])[0] > 0.0
    typical = np.sqrt(rows[:, 0].var() * rows[:, 2].var())
    assert result.covariances[0][1, 1] == pytest.approx(typical)


def test_rows_of_a_group_that_coincide_borrow_from_all_rows():
    rows = np.array([[0.0, 0.0], [0.0, 1.0], [100.0, 0.0], [100.0, 1.0]])
    variances, equal = column_variances(rows)
    assert not equal.any()
    found = shrunken(rows[:2], variances)
    assert found[0, 0] == pytest.approx(rows[:, 0].var())
    assert found[1, 1] == pytest.approx(0.5)
