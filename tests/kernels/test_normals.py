"""Rows under a mixture: the bits of the plain program, on every instruction set, whatever the numbers are."""

import numpy as np
import pytest
from twins import normals as reference

from fastpubpriv import KernelError
from fastpubpriv.kernels import densities as kernels
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


def same_bits(found, expected):
    return all(
        np.array_equal(one.view(np.int64), other.view(np.int64)) for one, other in zip(found, expected, strict=True)
    )


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
        wide = rng.normal(size=(n, dim + 3)).astype(dtype)
        rows = wide[:, 1 : dim + 1]
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
    with pytest.raises(KernelError):
        kernels.RowStatistic(np.zeros((1, 2)), np.ones((1, 3)))
    with pytest.raises(KernelError):
        kernels.RowStatistic(np.zeros((1, 2)), np.ones((1, 2))).distances(np.zeros((4, 3)))
