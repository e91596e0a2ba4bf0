"""Normals in cells and rows under a mixture: the bits of the plain programs, on every instruction set, whatever the numbers are."""

import numpy as np
import pytest
from scipy.special import ndtr
from twins import normals as reference

from fastpubpriv import KernelError
from fastpubpriv.kernels import normals as kernels
from fastpubpriv.kernels._cext import lib


@pytest.fixture(params=[0, 1, 2])
def level(request):
    """Each instruction set of this machine in turn."""
    before = lib.fpp_isa_limit(lib.fpp_isa_detect())
    if request.param > before:
        pytest.skip("not on this machine")
    lib.fpp_isa_limit(request.param)
    yield request.param
    lib.fpp_isa_limit(before)


def some_edges(rng, count):
    """Cells of all widths: fine ones in the middle, and ones that double outwards."""
    inner = np.sort(np.concatenate([rng.normal(0, 3, count), 2.0 ** np.arange(40), -(2.0 ** np.arange(40))]))
    return np.concatenate([[-np.inf], np.unique(inner), [np.inf]])


def mixtures(rng, size, components):
    means, stds = rng.normal(0, 5, (size, components)), 10.0 ** rng.uniform(-3, 3, (size, components))
    return rng.dirichlet(np.ones(components), size), means, stds


def same_bits(found, expected):
    return all(
        np.array_equal(one.view(np.int64), other.view(np.int64)) for one, other in zip(found, expected, strict=True)
    )


@pytest.mark.parametrize("components", [1, 3, 5])
def test_parts_of_cells_equal_those_of_the_twin(level, components):
    rng = np.random.default_rng(components)
    for count in (1, 2, 6, 60, 131):
        edges = some_edges(rng, count)
        weights, means, stds = mixtures(rng, 7, components)
        means[0, 0] = edges[1]  # an edge at the mean itself
        parts = kernels.cell_parts(means, stds, edges)
        twin = reference.cell_parts(means, stds, edges)
        assert same_bits(parts, twin)
        masses = kernels.cell_masses(means, stds, edges)
        assert same_bits(masses, reference.cell_masses(means, stds, edges))
        assert same_bits(masses[:1], twin[:1])
        assert np.allclose(parts[0].sum(axis=2), 1.0, rtol=0, atol=1e-12)
        counts, rows = rng.normal(50, 30, len(edges) - 1), rng.permutation(7)[:4]
        for fixed in (False, True):
            given = counts, weights, masses, 1e4, 25.0, rows, fixed
            assert same_bits(kernels.cell_slopes(*given), reference.cell_slopes(*given))


def test_tails_have_all_their_digits(level):
    """Against SciPy's normal distribution over its whole range, and against nothing beyond it."""
    z = np.concatenate(
        [np.linspace(-45.0, 45.0, 20001), [-np.inf, -1e300, 1e300, np.inf], np.sqrt(2.0) * np.array([1.0, 8.0])]
    )
    z = np.unique(z)
    found = kernels.cell_masses(np.zeros((1, 1)), np.ones((1, 1)), z)[0][0, 0]
    left, right = z[:-1], z[1:]
    assert np.array_equal(found, np.where(left > 0.0, ndtr(-left) - ndtr(-right), ndtr(right) - ndtr(left)))


def test_hostile_mixtures_do_no_harm(level):
    """Widths of nothing, means far away, and numbers that are none: as the twin, bit for bit or both not a number."""
    edges = np.array([-np.inf, -1.0, 0.0, 1e-300, 2.0, 1e300, np.inf])
    means = np.array([[0.0, 1e300, -np.inf, np.nan, 1.0, 0.0]])
    stds = np.array([[0.0, 1e-300, 1.0, 1.0, np.inf, np.nan]])
    for one, other in zip(
        kernels.cell_parts(means, stds, edges), reference.cell_parts(means, stds, edges), strict=True
    ):
        assert np.array_equal(one, other, equal_nan=True)


def statistic(module, rows, means, stds, share, radii):
    row = module.RowStatistic(means, stds)
    found = row.distances(rows)
    components, dim = means.shape
    out = np.empty((len(rows), components * (1 + (2 if radii[2] else 1) * dim)))
    row.moments(found, share, radii, out)
    return found[0], found[1].astype(np.float64), out


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("dim", [1, 2, 3, 8, 9, 21])
def test_statistics_of_rows_equal_those_of_the_twin(level, dtype, dim):
    rng = np.random.default_rng(dim)
    for n in (0, 1, 7, 8, 43):
        rows = rng.normal(size=(n, dim + 3)).astype(dtype)[:, 1 : dim + 1]
        rows[rng.random((n, dim)) < 0.02] = np.nan
        rows[rng.random((n, dim)) < 0.02] = np.finfo(dtype).max
        means, stds = rng.normal(size=(3, dim)), 10.0 ** rng.uniform(-2, 2, (3, dim))
        share = rng.dirichlet(np.ones(3), n).T.copy()
        for radii in ((1.0, 2.0, 3.0), (0.5, 1.0, 0.0)):
            found = statistic(kernels, rows, means, stds, share, radii)
            expected = statistic(reference, rows, means, stds, share, radii)
            whole = expected[1] != 0
            assert same_bits(found[1:], expected[1:])
            assert same_bits([found[0][:, whole]], [expected[0][:, whole]])
            # A row's numbers are its own.
            if n > 1:
                alone = statistic(kernels, rows[1:2], means, stds, share[:, 1:2].copy(), radii)
                assert same_bits([alone[2]], [found[2][1:2]])


def test_wrong_arrays_are_refused():
    edges = np.array([-np.inf, 0.0, np.inf])
    masses = kernels.cell_masses(np.zeros((2, 1)), np.ones((2, 1)), edges)
    good = [np.ones(2), np.ones((2, 1)), masses, 1.0, 1.0, np.array([0, 1]), False]
    kernels.cell_slopes(*good)
    for place, wrong in (
        (0, np.ones(3)),
        (1, np.ones((2, 2))),
        (5, np.array([2])),
        (5, np.array([-1])),
        (5, np.array([0.0])),
    ):
        with pytest.raises(KernelError):
            kernels.cell_slopes(*[wrong if at == place else each for at, each in enumerate(good)])
    with pytest.raises(KernelError):
        kernels.RowStatistic(np.zeros((1, 2)), np.ones((1, 3)))
    with pytest.raises(KernelError):
        kernels.RowStatistic(np.zeros((1, 2)), np.ones((1, 2))).distances(np.zeros((4, 3)))
