"""Codes of densities by fused instructions: where they could give another code, the row is taken again, and all sets agree.

Each plant has codes that differ if a processor fuses and does not look.
"""

import numpy as np
import pytest
from row_cases import LEVELS, instruction_set

from fastpubpriv.kernels import hypotheses as kernels
from fastpubpriv.kernels.hypotheses import PANEL
from fastpubpriv.maps import MixtureTable

HALF_LOG_TWO = 0.34657359027997264


def table_of(components, dim, panels=1):
    """Hypotheses that are nowhere, to be filled in."""
    return MixtureTable(
        np.zeros((panels, components, dim, PANEL)),
        np.zeros((panels, components, dim, PANEL)),
        np.full((panels, components, PANEL), -1e300),
        False,
    )


def every_set(rows, table):
    """The codes (panels, n, PANEL) of the rows, on which all sets of instructions agree."""
    seen = []
    for level in LEVELS:
        with instruction_set(level):
            codes = np.zeros((table.panels, len(rows), PANEL), dtype=np.int16)
            kernels.density_codes(np.ascontiguousarray(rows), table, codes, 0, kernels.density_room(table))
            seen.append(codes)
    for codes in seen[1:]:
        np.testing.assert_array_equal(codes, seen[0])
    return seen[0]


@pytest.mark.parametrize("components", [1, 2])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_distance_halfway_between_codes(components, sign):
    """The squares add up to 1 + 2^-26 unless they are fused: then to a last bit more, and the code is one less."""
    table = table_of(components, 2)
    table.constants[0, 0, 0] = 0.0  # the top, whose factors are zero
    table.constants[0, 0, 5] = 0.5 * (1.0 + 2.0**-26) - 0.5 / 2048
    table.factors[0, 0, :, 5] = 1.0
    row = sign * np.array([[1.1 * 2.0**-27, 1.0 + 2.0**-27]])
    unfused = row[0, 0] ** 2 + row[0, 1] ** 2
    assert unfused == 1.0 + 2.0**-26
    assert every_set(row, table)[0, 0, [0, 5]].tolist() == [32767, 32767]  # half to even
    among = np.random.default_rng(0).standard_normal((50, 2))
    among[[0, 16, 49]] = row
    assert (every_set(among, table)[0, [0, 16, 49], 5] == 32767).all()


@pytest.mark.parametrize("gap", [0.0, 1.0 * HALF_LOG_TWO, 11.0 * HALF_LOG_TWO])
def test_where_polynomials_change(gap):
    """`log` changes at a sum of two equal components, `exp` half way between powers of two: hypotheses on both sides of it."""
    table = table_of(2, 1)
    table.constants[0, 0, :63] = 0.0
    table.constants[0, 1, :63] = -(gap + np.arange(-31, 32) * (np.spacing(gap) if gap else 2.0**-53))
    table.constants[0, 0, 63] = 2.0
    table.factors[0, 0, 0, 63] = 1.0
    codes = every_set(np.sqrt(np.linspace(0.0, 2.0 / 2048, 3000))[:, None], table)
    assert np.unique(codes[0, :, 0]).size >= 2
    assert (np.ptp(codes[0, :, :63].astype(int), axis=1) <= 1).all()


def test_many_hypotheses_near_each_other():
    """Lists as they are chosen from: a million codes, from rows near and far."""
    rng = np.random.default_rng(3)
    size, dim = 900, 3
    weights = rng.dirichlet([20.0, 20.0], size)
    weights[7::50] = [1.0, 0.0]
    means = rng.normal(size=(2, dim)) + 0.1 * rng.normal(size=(size, 2, dim))
    means[11, 1] = means[11, 0]
    spreads = np.exp(0.2 * rng.normal(size=(size, 2, dim)))
    rows = rng.normal(size=(500, dim)) * 10.0 ** rng.integers(-1, 3, size=(500, 1))
    rows[::100] = [np.nan, 1e308, 5e-324]
    every_set(rows, kernels.mixture_table(weights, means, spreads))
    spreads[11, 1], weights[11] = spreads[11, 0], 0.5  # two equal components: every row is taken again
    every_set(rows, kernels.mixture_table(weights, means, spreads))
    far = 1e150
    with np.errstate(over="ignore"):
        rows = far * rows
    every_set(rows, kernels.mixture_table(weights, far * means, far**2 * spreads))
