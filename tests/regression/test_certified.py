"""Linear regressions that NIST certifies to 15 digits: a thousand copies of a table are private, the table itself is public."""

from fractions import Fraction

import numpy as np
import pytest
from regression_certified import TABLES
from spies import seeded

from fastpubpriv import ZCDP, linear_regression

COPIES = 1_000
NOISELESS = ZCDP(1e6)  # the largest that there is
COLLINEAR = ("Filip",)


def fitted(name):
    table = TABLES[name]
    private = np.tile(table.x, (COPIES, 1))
    return seeded(
        linear_regression,
        private,
        np.tile(table.y, COPIES),
        x_pub=table.x.copy(),
        y_pub=table.y.copy(),
        budget=NOISELESS,
        method="newton",
    )


def reasons(result):
    return {str(reason) for own in (result.reasons, *result.part_reasons) for reason in own}


# Tables without collinear columns, for which there are intervals.
DETERMINED = [name for name in TABLES if name not in COLLINEAR]


def exact_least_squares(columns, labels):
    """Return coefficients, the intercept first, by Gauss-Jordan elimination of fractions."""
    rows = [[Fraction(1), *row] for row in zip(*columns, strict=True)]
    dim = len(rows[0])
    system = [
        [sum(row[i] * row[j] for row in rows) for j in range(dim)]
        + [sum(row[i] * label for row, label in zip(rows, labels, strict=True))]
        for i in range(dim)
    ]
    for i in range(dim):
        system[i] = [value / system[i][i] for value in system[i]]
        for k in range(dim):
            if k != i:
                factor = system[k][i]
                system[k] = [a - factor * b for a, b in zip(system[k], system[i], strict=True)]
    return [float(row[-1]) for row in system]


@pytest.mark.parametrize("name", TABLES)
def test_rows_have_the_certified_coefficients(name):
    table = TABLES[name]
    columns = [[Fraction(str(value)) for value in column] for column in table.x.T]
    if name != "Longley":  # powers of decimals are no decimals of 17 digits
        columns = [[value**power for value in columns[0]] for power in range(1, 1 + len(columns))]
    labels = [Fraction(str(value)) for value in table.y]
    found = exact_least_squares(columns, labels)
    assert found == pytest.approx(table.coefficients, rel=1e-13, abs=1e-12)


@pytest.mark.parametrize("name", DETERMINED)
def test_intervals_for_the_population_hold_certified_coefficients(name):
    lower, upper = fitted(name)._ends(0.95)
    certified = np.array(TABLES[name].coefficients)
    outside = (certified < lower) | (upper < certified)
    assert not outside.any(), f"coefficients {np.flatnonzero(outside)} of {name}"


@pytest.mark.parametrize("name", DETERMINED)
def test_intervals_for_the_rows_hold_certified_coefficients(name):
    lower, upper = fitted(name)._ends(0.95, rows=True)
    certified = np.array(TABLES[name].coefficients)
    outside = (certified < lower) | (upper < certified)
    assert not outside.any(), f"coefficients {np.flatnonzero(outside)} of {name}"


@pytest.mark.parametrize("name", ["Norris", "Pontius", "Longley", "NoInt1", "Wampler3", "Wampler5"])
def test_tables_with_residuals_and_without_collinear_columns_have_no_reason(name):
    assert reasons(fitted(name)) == set()


def test_collinear_columns_are_the_only_reason():
    """Four eigenvalues of the correlation of Filip's ten powers are below 1e-10, the least is 6e-19 (mpmath, 60 digits)."""
    assert reasons(fitted("Filip")) == {"collinear"}
