"""Draws against all hypotheses: single precision gives the counts of the codes, and what it cannot tell is taken again.

Each plant gives other counts if single precision is believed where it is in doubt.
"""

import numpy as np
import pytest
from row_cases import LEVELS, instruction_set

from fastpubpriv.kernels import hypotheses as kernels
from fastpubpriv.kernels.hypotheses import PANEL
from fastpubpriv.maps import MixtureTable
from fastpubpriv.reference import hypotheses as reference

STEP = 1.0 / 2048


def nowhere(components, dim, panels=1):
    """Hypotheses without a component, to be filled in."""
    return MixtureTable(
        np.zeros((panels, components, dim, PANEL)),
        np.ones((panels, components, dim, PANEL)),
        np.full((panels, components, PANEL), -1e300),
        False,
    )


def codes_of(rows, table):
    codes = np.empty((table.panels, len(rows), PANEL), dtype=np.int16)
    kernels.density_codes(rows, table, codes, 0, kernels.density_room(table))
    return codes


def agreed(rows, table, owns):
    """Counts (owns, hypotheses) of the rows, on which all sets of instructions agree with the codes."""
    rows = np.ascontiguousarray(rows, dtype=np.float64)
    codes, room = codes_of(rows, table), kernels.draw_room(table)
    found = np.empty((len(owns), table.panels * PANEL), dtype=np.int32)
    for place, own in enumerate(owns):
        reference.draw_counts(codes, own, found[place])
        for level in LEVELS:
            counts = np.full_like(found[place], -1)
            with instruction_set(level):
                kernels.draw_counts(rows, table, own, counts, room)
            np.testing.assert_array_equal(counts, found[place])
    return found


def mixtures(seed, size, components, dim, spread):
    """A table of mixtures around one, `spread` apart, some without a component, some narrow, some equal."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet([9.0] * components, size)
    if components > 1:
        weights[3::17, 0] = 0.0
    weights /= weights.sum(axis=1, keepdims=True)
    means = rng.normal(size=(components, dim)) + spread * rng.normal(size=(size, components, dim))
    variances = np.exp(spread * rng.normal(size=(size, components, dim)))
    variances[5::13, -1] *= 1e-4
    variances[6::29, 0, -1] *= 1e-14
    means[8::11], variances[8::11], weights[8::11] = means[0], variances[0], weights[0]
    return kernels.mixture_table(weights, means, variances)


@pytest.mark.parametrize(
    ("size", "components", "dim", "spread"),
    [
        (1, 1, 1, 1.0),
        (63, 2, 3, 0.1),
        (64, 1, 2, 0.3),
        (65, 2, 1, 1e-3),
        (130, 3, 2, 0.2),
        (90, 2, 17, 0.02),
        (70, 17, 1, 0.1),
    ],
)
def test_counts_are_those_of_the_codes(size, components, dim, spread):
    table = mixtures(size, size, components, dim, spread)
    rng = np.random.default_rng(1)
    rows = 2.0 * rng.normal(size=(83, dim))
    rows[40] = table.means[0, 0, :, 0]
    rows[7, 0], rows[50], rows[51], rows[52] = np.nan, 1e200, 1e6, 5e-324
    owns = sorted({0, min(5, size - 1), size // 2, size - 1, table.panels * PANEL - 1})
    for n in (0, 1, 15, 16, 17, 83):
        agreed(rows[:n], table, owns)


@pytest.mark.parametrize("scale", [1e-150, 1e-9, 1e9, 1e150])
def test_units_and_places_of_columns_do_not_matter(scale):
    """Columns in other units, and rows a million deviations from zero."""
    rng = np.random.default_rng(2)
    means = 1e6 + rng.normal(size=(70, 2, 2))
    spreads = np.exp(0.2 * rng.normal(size=(70, 2, 2)))
    rows = 1e6 + rng.normal(size=(60, 2))
    table = kernels.mixture_table(np.full((70, 2), 0.5), means * [1.0, scale], spreads * [1.0, scale**2])
    found = agreed(rows * [1.0, scale], table, [0, 69])
    assert np.unique(found[:, :70]).size > 10


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("edge", [0.5, -0.5])
@pytest.mark.parametrize("own", [0, 20, 63])
def test_on_an_edge_of_the_code(sign, edge, own):
    """Constants within some last bits of an edge, nothing else in the list; ties go to the even code, on both sides of zero."""
    table = nowhere(1, 1)
    table.means[:] = 3.0 * sign
    table.factors[:] = 1e-3
    base = 7.0 * sign
    table.constants[0, 0, own] = base
    others = [j for j in range(PANEL) if j != own]
    table.constants[0, 0, others] = base + edge * STEP + np.arange(-31, 32) * np.spacing(8.0)
    alone = agreed([[3.0 * sign]], table, [own])
    assert np.unique(alone[0][others]).size in (1, 2)
    rows = 3.0 * sign + np.arange(-20, 21)[:, None] * 1e-7
    many = agreed(rows, table, [own, others[0], others[-1]])
    for j in others[::9]:
        single = nowhere(1, 1)
        for part, whole in ((single.means, table.means), (single.factors, table.factors)):
            part[..., [own, j]] = whole[..., [own, j]]
        single.constants[..., [own, j]] = table.constants[..., [own, j]]
        counts = agreed(rows, single, [own])
        assert 0 <= counts[0, j] <= len(rows)
    assert many.max() <= len(rows)


@pytest.mark.parametrize("components", [2, 3])
@pytest.mark.parametrize("own", [1, 62])
def test_near_ties_of_mixtures(components, own):
    """Hypotheses some last bits of single precision apart, over the whole code, where gaps of components take any value."""
    rng = np.random.default_rng(own)
    table = nowhere(components, 2)
    table.means[:] = rng.normal(size=(1, components, 2, 1))
    table.factors[:] = np.exp(rng.normal(size=(1, components, 2, 1)))
    table.constants[:] = rng.normal(size=(1, components, 1)) + np.linspace(1.0, -1.0, PANEL) * 3e-4
    table.factors[..., 5] *= 0.7  # the top of many rows, so that edges fall anywhere
    table.constants[..., 5] += 1.0
    found = agreed(3.0 * rng.normal(size=(400, 2)), table, [own])
    assert np.unique(found).size > 10


@pytest.mark.parametrize("components", [2, 3])
def test_a_narrow_component_that_matters_and_one_that_does_not(components):
    """One component ten thousand times narrower than the others: rows inside it, at its shoulders and far away."""
    table = mixtures(4, 64, components, 1, 0.05)
    table.means[0, 1, 0, :] = 0.3
    table.factors[0, 1, 0, :] = 1e4 * (1.0 + 1e-3 * np.arange(PANEL))
    table.constants[0, 1, :] = 7.0
    narrow = 0.3 + np.linspace(-9.0, 9.0, 200) * 1e-4
    agreed(np.concatenate([narrow, np.linspace(-4.0, 4.0, 40)])[:, None], table, [0, 31, 63])
    table.factors[0, 0, 0, 31] = 3e4  # one whose components are all narrow
    agreed(np.concatenate([narrow, np.linspace(-4.0, 4.0, 40)])[:, None], table, [31])


def test_counts_of_a_draw_do_not_depend_on_the_others():
    table = mixtures(9, 130, 2, 3, 0.1)
    rows = np.random.default_rng(5).normal(size=(50, 3))
    rows[11] = 1e5  # its group is coded
    whole = agreed(rows, table, [77])
    parts = sum(agreed(rows[i : i + 1], table, [77]) for i in range(50))
    np.testing.assert_array_equal(parts, whole)
