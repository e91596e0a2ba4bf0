"""Pairs of hypotheses: the kernels give the twins' integers at every instruction set, size and cut."""

import subprocess
import sys

import numpy as np
import pytest
from helpers.errors import raises
from hypothesis import given, settings
from hypothesis import strategies as st
from row_cases import LEVELS, instruction_set, same_at_every_level
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from twins import hypotheses as reference
from twins import normals as normals_twin

from fastpubpriv.errors import KernelError
from fastpubpriv.kernels import densities as kernels
from fastpubpriv.kernels import mixture_rows
from fastpubpriv.kernels.densities import PANEL
from fastpubpriv.rowwise.row_maps import MixtureTable

SIZES = [1, 2, 63, 64, 65, 130]
HOSTILE = [np.nan, np.inf, -np.inf, 1e308, -1.7e308, 5e-324, -0.0, 1e200]


def mixtures(rng, size, components, dim, *, full=False, scale=1.0):
    weights = rng.dirichlet(np.ones(components), size)
    if components > 1:
        weights[::3, 0] = 0.0
        weights /= weights.sum(axis=1, keepdims=True)
    means = scale * rng.normal(size=(size, components, dim))
    if not full:
        return weights, means, scale**2 * np.exp(rng.normal(size=(size, components, dim)))
    root = rng.normal(size=(size, components, dim, dim)) + 2.0 * np.eye(dim)
    return weights, means, scale**2 * np.einsum("...ij,...kj->...ik", root, root)


def codes_of(rows, table, first=0, capacity=None):
    """Codes (panels, capacity, PANEL), zero before and after those of the rows."""
    codes = np.zeros((table.panels, capacity or len(rows), PANEL), dtype=np.int16)
    kernels.density_codes(
        np.ascontiguousarray(rows), table, codes, first, kernels.density_room(table)
    )
    return codes


def every_set(*given, **places):
    """The codes of rows, on which all sets of instructions agree."""
    found = codes_of(*given, **places)
    same_at_every_level(found, codes_of, *given, **places)
    return found


def hostile_rows(rng, n, dim, scale=1.0):
    rows = 2.0 * scale * rng.normal(size=(n, dim))
    for row in range(0, n, 5):
        rows[row, rng.integers(dim)] = HOSTILE[rng.integers(len(HOSTILE))]
    return rows


@pytest.mark.parametrize("full", [False, True])
def test_table_equals_twin(full):
    parts = mixtures(np.random.default_rng(0), 70, 3, 4, full=full)
    table = kernels.mixture_table(*parts)
    for ours, theirs in zip(
        (table.means, table.factors, table.constants), reference.mixture_table(*parts), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    assert table.lower == full
    assert table.constants.shape == (2, 3, PANEL)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("components", "dim", "full"),
    [(1, 1, False), (2, 3, False), (3, 2, False), (2, 3, True), (5, 17, False)],
)
def test_codes_equal_twin(size, components, dim, full):
    rng = np.random.default_rng(size)
    table = kernels.mixture_table(*mixtures(rng, size, components, dim, full=full))
    rows = hostile_rows(rng, 37, dim)
    want = np.zeros((table.panels, 40, PANEL), dtype=np.int16)
    reference.density_codes(rows, table, want, 2)
    codes = every_set(rows, table, first=2, capacity=40)
    # exp and log of the kernel are good to a tenth of a code.
    assert (
        np.abs(codes.astype(int)[..., : min(size, PANEL)] - want[..., : min(size, PANEL)]).max()
        <= 1
    )
    assert (codes[:, :2] == 0).all()
    assert (codes[:, 39:] == 0).all()
    flat = reference.flattened(codes)[:size, 2:39]
    finite = np.isfinite(rows).all(axis=1)
    assert (flat[:, ~finite] == 0).all()
    assert (flat[:, finite].max(axis=0) == 32767).all()


def test_codes_far_from_zero_and_of_rows_alone():
    rng = np.random.default_rng(3)
    table = kernels.mixture_table(*mixtures(rng, 100, 3, 4))
    rows = hostile_rows(rng, 500, 4)
    whole = codes_of(rows, table)

    def in_parts(size):
        return np.concatenate(
            [codes_of(rows[at : at + size], table) for at in range(0, 500, size)], axis=1
        )

    for size in (1, 3, 7, 64):
        same_at_every_level(whole, in_parts, size)
    # Means of 1e9 with deviations of 1: differences are taken before anything is squared.
    means = np.array([[[1e9]], [[1e9 + 1.0]], [[-1e9]]])
    table = kernels.mixture_table(np.ones((3, 1)), means, np.ones((3, 1, 1)))
    codes = codes_of(np.array([[1e9 + 0.25]]), table)
    # log f_0 - log f_1 = (0.75^2 - 0.25^2) / 2 = 1/4
    assert codes[0, 0, :3].tolist() == [32767, 32767 - 512, -32768]


def some_codes(rng, panels, capacity):
    codes = rng.integers(-32768, 32768, size=(panels, capacity, PANEL)).astype(np.int16)
    codes[:, ::3] = rng.integers(-2, 3, size=codes[:, ::3].shape)  # ties
    return codes


@pytest.mark.parametrize("rows", [0, 1, 255, 256, 257, 600])
def test_pair_counts_equal_twin(rows):
    rng = np.random.default_rng(rows)
    codes = some_codes(rng, 3, 601)
    for panel in range(3):
        start = rng.integers(0, 9, size=(PANEL, (3 - panel) * PANEL)).astype(np.int32)
        want = start.copy()
        reference.pair_counts(codes, rows, panel, want)
        for level in LEVELS:
            counts = start.copy()
            with instruction_set(level):
                kernels.pair_counts(codes, rows, panel, counts)
            np.testing.assert_array_equal(counts, want)


@given(st.integers(1, 140), st.integers(1, 40), st.integers(0, 30), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_cell_scores_equal_twin(size, cells, shift, seed):
    rng = np.random.default_rng(seed)
    reach = 2**30 // cells
    table = rng.integers(-reach, reach + 1, size=(size, cells)).astype(np.int32)
    table[::2] = table[0]  # equal hypotheses
    panels = kernels.panelled(table, 2**31 - 1)
    want = np.zeros(len(panels) * PANEL, dtype=np.int32)
    for panel in range(len(panels)):
        reference.cell_scores(panels, shift, panel, want)
    for level in LEVELS:
        worst = np.zeros_like(want)
        with instruction_set(level):
            for panel in range(len(panels)):
                kernels.cell_scores(panels, shift, panel, worst)
        np.testing.assert_array_equal(worst[:size], want[:size])


def line_parts(rng, size, components, scale=1.0):
    weights, means, variances = mixtures(rng, size, components, 1, scale=scale)
    means = means[:, :, 0].copy()
    std = np.sqrt(variances[:, :, 0])
    with np.errstate(divide="ignore"):
        constants = np.where(weights > 0.0, np.log(weights) - np.log(std), -1e300)
    grids = np.sort(
        (means[..., None] + std[..., None] * np.arange(-8.0, 9.0)).reshape(size, -1), axis=1
    )
    return (constants, means, 1.0 / std), grids


@pytest.mark.parametrize(
    ("components", "scale", "most"), [(1, 1.0, 8), (2, 1e9, 12), (3, 1e-9, 16), (3, 1.0, 2)]
)
def test_roots_equal_twin(components, scale, most):
    size = 12
    parts, grids = line_parts(np.random.default_rng(components), size, components, scale)
    some = 0
    for own in range(size):
        shape = (size - own - 1, most)
        roots = np.empty(shape)
        want = np.empty(shape)
        counts = np.zeros(shape[0], dtype=np.int64)
        wanted = np.zeros(shape[0], dtype=np.int64)
        kernels.pair_roots(parts, grids, own, roots, counts)
        reference.pair_roots(parts, grids, own, want, wanted)
        assert np.array_equal(counts, wanted)
        np.testing.assert_allclose(roots, want, rtol=1e-11, atol=1e-11 * scale)
        some += int(np.isfinite(roots).sum())
    assert some > size * (size - 1) / 2


def test_wrong_arguments_are_refused():
    codes = np.zeros((2, 10, PANEL), dtype=np.int16)
    counts = np.zeros((PANEL, PANEL), dtype=np.int32)
    for rows, panel in ((11, 1), (-1, 1), (10, 2), (10, -1)):
        raises(KernelError, None, kernels.pair_counts, codes, rows, panel, counts)
    worst = np.zeros(PANEL, dtype=np.int32)
    raises(
        KernelError,
        None,
        kernels.cell_scores,
        np.zeros((1, 4, PANEL), dtype=np.int32),
        31,
        0,
        worst,
    )
    table = kernels.mixture_table(np.ones((1, 1)), np.zeros((1, 1, 2)), np.ones((1, 1, 2)))
    room = kernels.density_room(table)
    codes = codes[:1].copy()
    raises(KernelError, None, kernels.density_codes, np.zeros((3, 1)), table, codes, 0, room)
    raises(KernelError, None, kernels.density_codes, np.zeros((3, 2)), table, codes, 8, room)
    raises(
        KernelError,
        "shorter list",
        kernels.density_codes,
        np.zeros((3, 2)),
        table,
        codes,
        0,
        room[:-8],
    )
    raises(KernelError, None, kernels.RowStatistic, np.zeros((1, 2)), np.ones((1, 3)))
    raises(
        KernelError,
        None,
        kernels.RowStatistic(np.zeros((1, 2)), np.ones((1, 2))).distances,
        np.zeros((4, 3)),
    )


# ---- Codes of densities by fused instructions: where they could give another code, the row is taken again, and all sets agree.
# Each plant has codes that differ if a processor fuses and does not look.
HALF_LOG_TWO = 0.34657359027997264


def table_of(components, dim, panels=1):
    """Hypotheses that are nowhere, to be filled in."""
    return MixtureTable(
        np.zeros((panels, components, dim, PANEL)),
        np.zeros((panels, components, dim, PANEL)),
        np.full((panels, components, PANEL), -1e300),
        False,
    )


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
    table.constants[0, 1, :63] = -(
        gap + np.arange(-31, 32) * (np.spacing(gap) if gap else 2.0**-53)
    )
    table.constants[0, 0, 63] = 2.0
    table.factors[0, 0, 0, 63] = 1.0
    codes = every_set(np.sqrt(np.linspace(0.0, 2.0 / 2048, 3000))[:, None], table)
    assert np.unique(codes[0, :, 0]).size >= 2
    assert (np.ptp(codes[0, :, :63].astype(int), axis=1) <= 1).all()


def test_many_hypotheses_near_each_other():
    """Lists as they are chosen from: a million codes, from rows near and far."""
    rng = np.random.default_rng(3)
    size = 900
    dim = 3
    weights = rng.dirichlet([20.0, 20.0], size)
    weights[7::50] = [1.0, 0.0]
    means = rng.normal(size=(2, dim)) + 0.1 * rng.normal(size=(size, 2, dim))
    means[11, 1] = means[11, 0]
    spreads = np.exp(0.2 * rng.normal(size=(size, 2, dim)))
    rows = rng.normal(size=(500, dim)) * 10.0 ** rng.integers(-1, 3, size=(500, 1))
    rows[::100] = [np.nan, 1e308, 5e-324]
    every_set(rows, kernels.mixture_table(weights, means, spreads))
    # two equal components: every row is taken again
    spreads[11, 1] = spreads[11, 0]
    weights[11] = 0.5
    every_set(rows, kernels.mixture_table(weights, means, spreads))
    far = 1e150
    with np.errstate(over="ignore"):
        rows = far * rows
    every_set(rows, kernels.mixture_table(weights, far * means, far**2 * spreads))


# ---- Rows under a mixture: the bits of the plain program, on every instruction set, whatever the numbers.
def same_bits(found, expected):
    return all(
        np.array_equal(one.view(np.int64), other.view(np.int64))
        for one, other in zip(found, expected, strict=True)
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
def test_statistics_of_rows_equal_those_of_the_twin(isa, dtype, dim):
    rng = np.random.default_rng(dim)
    for n in (0, 1, 7, 8, 43):
        rows = rng.normal(size=(n, dim + 3)).astype(dtype)[:, 1 : dim + 1]
        rows[rng.random((n, dim)) < 0.02] = np.nan
        rows[rng.random((n, dim)) < 0.02] = np.finfo(dtype).max
        means = rng.normal(size=(3, dim))
        stds = 10.0 ** rng.uniform(-2, 2, (3, dim))
        share = rng.dirichlet(np.ones(3), n).T.copy()
        for radii in ((1.0, 2.0, 3.0), (0.5, 1.0, 0.0)):
            found = statistic(kernels, rows, means, stds, share, radii)
            expected = statistic(normals_twin, rows, means, stds, share, radii)
            whole = expected[1] != 0
            assert same_bits(found[1:], expected[1:])
            assert same_bits([found[0][:, whole]], [expected[0][:, whole]])
            # A row's numbers are its own.
            if n > 1:
                alone = statistic(kernels, rows[1:2], means, stds, share[:, 1:2].copy(), radii)
                assert same_bits([alone[2]], [found[2][1:2]])


# ---- Rows under a mixture of normals: compiled loops and NumPy find the same bits, each row by itself ---------------

SHAPES = [(1, 1), (1, 4), (3, 1), (3, 5), (8, 16), (2, 41)]


@pytest.fixture(scope="module")
def loops():
    from fastpubpriv.kernels import _mixture_loops

    return _mixture_loops


def case(k, dim, n=700, apart=3.0):
    rng = np.random.default_rng(k * 100 + dim)
    weights = rng.dirichlet(np.full(k, 5.0))
    means = apart * rng.normal(size=(k, dim))
    roots = np.tril(0.3 * rng.normal(size=(k, dim, dim))) + np.eye(dim) * rng.uniform(
        0.5, 2.0, size=(k, 1, 1)
    )
    inverses = np.tril(np.linalg.inv(roots))
    constants = np.log(weights) - np.log(np.abs(np.einsum("kii->ki", roots))).sum(axis=1)
    labels = rng.integers(k, size=n)
    rows = means[labels] + np.einsum("nij,nj->ni", roots[labels], rng.normal(size=(n, dim)))
    return weights, roots, mixture_rows.NormalTable(means, inverses, constants), rows


def hostile(rows):
    rows = rows.copy()
    rows[1] = np.nan
    rows[2, -1] = np.inf
    rows[3, 0] = -np.inf
    rows[4, -1] = np.nan
    rows[5] = 1e200
    rows[6] = -1e308
    rows[7] = 1e9
    rows[8] = 5e-324
    rows[9:60] *= 100.0
    return rows


def parts_of(rows, table, inv_step=500.0, labels=None):
    """Vectors of each component, and the places of their rows, which are in order."""
    dim = table.means.shape[1]
    inner = 1.5 * dim
    lift = np.sqrt(max(1.0, 0.5 * dim))
    given = mixture_rows.soft_parts(
        rows, inv_step, table=table, labels=labels, inner=inner, lift=lift
    )
    found = [[each.copy() for each in parts + places] for parts, places in given]
    assert all(np.all(np.diff(at) > 0) for each in found for at in each[len(table.means) :])
    return [np.concatenate(each) for each in zip(*found, strict=True)]


def both(monkeypatch, loops, function):
    found = []
    for each in (None, loops):
        monkeypatch.setattr(mixture_rows, "_loops", each)
        with np.errstate(all="ignore"):
            found.append(function())
    return found


@pytest.mark.parametrize(("k", "dim"), SHAPES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_loops_and_numpy_find_the_same_bits(monkeypatch, loops, k, dim, dtype):
    _, _, table, rows = case(k, dim)
    with np.errstate(over="ignore"):
        rows = hostile(rows).astype(dtype)
    rows.flags.writeable = False
    labels = (np.arange(len(rows)) % (k + 1)).astype(np.int32)
    for some in (None, labels):
        one, other = both(monkeypatch, loops, lambda some=some: parts_of(rows, table, labels=some))
        assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(one, other, strict=True))
        assert sum(len(each) for each in one[:k]) > len(rows) / 3
    (top, one), (same, other) = both(
        monkeypatch, loops, lambda: mixture_rows.likeliest(rows, table, table.means)
    )
    assert np.array_equal(top, same)
    assert np.array_equal(one, other, equal_nan=True)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_row_is_the_same_alone_and_in_company(monkeypatch, loops, compiled):
    monkeypatch.setattr(mixture_rows, "_loops", loops if compiled else None)
    _, _, table, rows = case(3, 5)
    rows = hostile(rows)
    together = parts_of(rows, table)
    alone = [parts_of(rows[i : i + 1], table) for i in range(len(rows))]
    for found, each in zip(together[:3], zip(*alone, strict=True), strict=False):
        assert np.array_equal(found, np.concatenate(each), equal_nan=True)


def test_parts_are_roots_of_responsibilities_times_clipped_white_rows():
    weights, roots, table, rows = case(3, 5)
    share = np.array(
        [
            np.log(weight) + multivariate_normal(mean, root @ root.T).logpdf(rows)
            for weight, mean, root in zip(weights, table.means, roots, strict=True)
        ]
    )
    share = np.exp(share - logsumexp(share, axis=0))
    assert np.allclose(mixture_rows.whitened(rows, table)[2], share, atol=1e-12)
    found = parts_of(rows, table, inv_step=1e9)
    for part, at, own, mean, root in zip(
        found[:3], found[3:], share, table.means, roots, strict=True
    ):
        white = np.linalg.solve(root, (rows - mean).T)
        white *= np.minimum(1.0, np.sqrt(7.5) / np.linalg.norm(white, axis=0))
        wanted = np.sqrt(own) * np.vstack([white, np.full(len(rows), np.sqrt(2.5))])
        assert np.allclose(part / 1e9, wanted.T[at], atol=1e-6)


def test_exponentials_are_close_and_end_in_zero():
    values = -np.concatenate([np.linspace(0.0, 79.9, 10_001), [1e-300, 80.0, 1e300]])
    found = mixture_rows.decay(values)
    assert np.allclose(found[:-2], np.exp(values[:-2]), rtol=8 * 2.0**-52, atol=0.0)
    assert found[-2:].tolist() == [0.0, 0.0]


def test_few_rows_import_no_numba():
    code = (
        "import sys\n"
        "from fastpubpriv.kernels import mixture_rows\n"
        "mixture_rows.prepare(10_000, 4 * 25)\n"
        "assert 'numba' not in sys.modules and mixture_rows._loops is None\n"
        "mixture_rows.prepare(10**6, 8 * 256)\n"
        "assert mixture_rows._loops is not None\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
