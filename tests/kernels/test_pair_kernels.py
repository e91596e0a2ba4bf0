"""Pairs of hypotheses: the kernels give the twins' integers at every instruction set, size and cut."""

import subprocess
import sys

import numpy as np
import pytest
from helpers.errors import raises
from hypothesis import given, settings
from hypothesis import strategies as st
from row_cases import same_at_every_level
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
    room = kernels.density_room(table)
    kernels.density_codes(np.ascontiguousarray(rows), table, codes, first, room)
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
    means, factors, constants = reference.mixture_table(*parts)
    np.testing.assert_allclose(table.means, means, rtol=1e-9)
    np.testing.assert_allclose(table.factors, factors, rtol=1e-9)
    np.testing.assert_allclose(table.constants, constants, rtol=1e-9)
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
    expected = np.zeros((table.panels, 40, PANEL), dtype=np.int16)
    reference.density_codes(rows, table, expected, 2)
    codes = every_set(rows, table, first=2, capacity=40)
    # exp and log of the kernel are good to a tenth of a code.
    used = min(size, PANEL)
    gap = codes[..., :used].astype(int) - expected[..., :used]
    assert np.abs(gap).max() <= 1
    assert (codes[:, :2] == 0).all()
    assert (codes[:, 39:] == 0).all()
    flat = reference.flattened(codes)[:size, 2:39]
    finite = np.isfinite(rows).all(axis=1)
    assert (flat[:, ~finite] == 0).all()
    assert (flat[:, finite].max(axis=0) == 32767).all()


@pytest.mark.parametrize("size", [1, 3, 7, 64])
def test_codes_of_rows_alone(size):
    rng = np.random.default_rng(3)
    table = kernels.mixture_table(*mixtures(rng, 100, 3, 4))
    rows = hostile_rows(rng, 500, 4)

    def in_parts():
        parts = [codes_of(rows[begin : begin + size], table) for begin in range(0, 500, size)]
        return np.concatenate(parts, axis=1)

    same_at_every_level(codes_of(rows, table), in_parts)


def test_codes_far_from_zero():
    """Means of 1e9 with deviations of 1: differences are taken before anything is squared."""
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
@pytest.mark.parametrize("panel", [0, 1, 2])
def test_pair_counts_equal_twin(rows, panel):
    rng = np.random.default_rng(rows)
    codes = some_codes(rng, 3, 601)
    start = rng.integers(0, 9, size=(PANEL, (3 - panel) * PANEL)).astype(np.int32)

    def added(module):
        counts = start.copy()
        module.pair_counts(codes, rows, panel, counts)
        return counts

    same_at_every_level(added(reference), added, kernels)


@given(st.integers(1, 140), st.integers(1, 40), st.integers(0, 30), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_cell_scores_equal_twin(size, cells, shift, seed):
    rng = np.random.default_rng(seed)
    reach = 2**30 // cells
    table = rng.integers(-reach, reach + 1, size=(size, cells)).astype(np.int32)
    table[::2] = table[0]  # equal hypotheses
    panels = kernels.panelled(table, 2**31 - 1)

    def scores(module):
        worst = np.zeros(len(panels) * PANEL, dtype=np.int32)
        for panel in range(len(panels)):
            module.cell_scores(panels, shift, panel, worst)
        return worst[:size]

    same_at_every_level(scores(reference), scores, kernels)


def line_parts(rng, size, components, scale=1.0):
    weights, means, variances = mixtures(rng, size, components, 1, scale=scale)
    means = means[:, :, 0].copy()
    std = np.sqrt(variances[:, :, 0])
    with np.errstate(divide="ignore"):
        constants = np.where(weights > 0.0, np.log(weights) - np.log(std), -1e300)
    steps = np.arange(-8.0, 9.0)
    grids = means[..., None] + std[..., None] * steps
    return (constants, means, 1.0 / std), np.sort(grids.reshape(size, -1), axis=1)


@pytest.mark.parametrize(
    ("components", "scale", "most"), [(1, 1.0, 8), (2, 1e9, 12), (3, 1e-9, 16), (3, 1.0, 2)]
)
def test_roots_equal_twin(components, scale, most):
    size = 12
    parts, grids = line_parts(np.random.default_rng(components), size, components, scale)

    def roots_and_counts(module, own):
        others = size - own - 1
        roots = np.empty((others, most))
        counts = np.zeros(others, dtype=np.int64)
        module.pair_roots(parts, grids, own, roots, counts)
        return roots, counts

    found = 0
    for own in range(size):
        roots, counts = roots_and_counts(kernels, own)
        expected_roots, expected_counts = roots_and_counts(reference, own)
        assert np.array_equal(counts, expected_counts)
        np.testing.assert_allclose(roots, expected_roots, rtol=1e-11, atol=1e-11 * scale)
        found += int(np.isfinite(roots).sum())
    assert found > size * (size - 1) / 2, "more than one root for each pair"


@pytest.mark.parametrize(("rows", "panel"), [(11, 1), (-1, 1), (10, 2), (10, -1)])
def test_pair_counts_of_rows_and_panels_that_are_none_are_refused(rows, panel):
    codes = np.zeros((2, 10, PANEL), dtype=np.int16)
    counts = np.zeros((PANEL, PANEL), dtype=np.int32)
    raises(KernelError, None, kernels.pair_counts, codes, rows, panel, counts)


def test_a_shift_beyond_all_bits_is_refused():
    panels = np.zeros((1, 4, PANEL), dtype=np.int32)
    worst = np.zeros(PANEL, dtype=np.int32)
    raises(KernelError, None, kernels.cell_scores, panels, 31, 0, worst)


def test_codes_that_do_not_fit_the_table_are_refused():
    table = kernels.mixture_table(np.ones((1, 1)), np.zeros((1, 1, 2)), np.ones((1, 1, 2)))
    room = kernels.density_room(table)
    codes = np.zeros((1, 10, PANEL), dtype=np.int16)
    rows = np.zeros((3, 2))
    raises(KernelError, None, kernels.density_codes, rows[:, :1], table, codes, 0, room)
    raises(KernelError, None, kernels.density_codes, rows, table, codes, 8, room)
    short = room[:-8]
    raises(KernelError, "shorter list", kernels.density_codes, rows, table, codes, 0, short)


def test_statistics_of_other_columns_are_refused():
    raises(KernelError, None, kernels.RowStatistic, np.zeros((1, 2)), np.ones((1, 3)))
    of_two = kernels.RowStatistic(np.zeros((1, 2)), np.ones((1, 2)))
    raises(KernelError, None, of_two.distances, np.zeros((4, 3)))


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
    last_bit = np.spacing(gap) if gap else 2.0**-53
    table.constants[0, 0, :63] = 0.0
    table.constants[0, 1, :63] = -(gap + np.arange(-31, 32) * last_bit)
    table.constants[0, 0, 63] = 2.0
    table.factors[0, 0, 0, 63] = 1.0
    rows = np.sqrt(np.linspace(0.0, 2.0 / 2048, 3000))[:, None]
    codes = every_set(rows, table)
    assert np.unique(codes[0, :, 0]).size >= 2
    assert (np.ptp(codes[0, :, :63].astype(int), axis=1) <= 1).all()


def near_each_other():
    """900 hypotheses as they are chosen from, of which the eleventh has two equal means, and rows near and far."""
    rng = np.random.default_rng(3)
    weights = rng.dirichlet([20.0, 20.0], 900)
    weights[7::50] = [1.0, 0.0]
    means = rng.normal(size=(2, 3)) + 0.1 * rng.normal(size=(900, 2, 3))
    means[11, 1] = means[11, 0]
    spreads = np.exp(0.2 * rng.normal(size=(900, 2, 3)))
    decades = 10.0 ** rng.integers(-1, 3, size=(500, 1))
    rows = rng.normal(size=(500, 3)) * decades
    rows[::100] = [np.nan, 1e308, 5e-324]
    return weights, means, spreads, rows


def test_many_hypotheses_near_each_other():
    weights, means, spreads, rows = near_each_other()
    every_set(rows, kernels.mixture_table(weights, means, spreads))


@pytest.mark.parametrize("unit", [1.0, 1e150])
def test_for_two_equal_components_every_row_is_taken_again(unit):
    weights, means, spreads, rows = near_each_other()
    spreads[11, 1] = spreads[11, 0]
    weights[11] = 0.5
    with np.errstate(over="ignore"):
        rows = unit * rows
    every_set(rows, kernels.mixture_table(weights, unit * means, unit**2 * spreads))


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
    moments = 2 if radii[2] else 1
    out = np.empty((len(rows), components * (1 + moments * dim)))
    row.moments(found, share, radii, out)
    distances, is_whole, *_ = found
    return distances, is_whole.astype(np.float64), out


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("dim", [1, 2, 3, 8, 9, 21])
@pytest.mark.parametrize("n", [0, 1, 7, 8, 43])
@pytest.mark.parametrize("radii", [(1.0, 2.0, 3.0), (0.5, 1.0, 0.0)])
def test_statistics_of_rows_equal_those_of_the_twin(isa, dtype, dim, n, radii):
    rng = np.random.default_rng(dim)
    rows = rng.normal(size=(n, dim + 3)).astype(dtype)[:, 1 : dim + 1]
    rows[rng.random((n, dim)) < 0.02] = np.nan
    rows[rng.random((n, dim)) < 0.02] = np.finfo(dtype).max
    means = rng.normal(size=(3, dim))
    stds = 10.0 ** rng.uniform(-2, 2, (3, dim))
    share = rng.dirichlet(np.ones(3), n).T.copy()
    distances, is_whole, moments = statistic(kernels, rows, means, stds, share, radii)
    expected = statistic(normals_twin, rows, means, stds, share, radii)
    whole = expected[1] != 0
    assert same_bits([is_whole, moments], expected[1:])
    assert same_bits([distances[:, whole]], [expected[0][:, whole]])
    # A row's numbers are its own.
    if n > 1:
        of_row = share[:, 1:2].copy()
        _, _, alone = statistic(kernels, rows[1:2], means, stds, of_row, radii)
        assert same_bits([alone], [moments[1:2]])


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
    below = np.tril(0.3 * rng.normal(size=(k, dim, dim)))
    roots = below + np.eye(dim) * rng.uniform(0.5, 2.0, size=(k, 1, 1))
    inverses = np.tril(np.linalg.inv(roots))
    diagonals = np.abs(np.einsum("kii->ki", roots))
    constants = np.log(weights) - np.log(diagonals).sum(axis=1)
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
    radii = {"inner": 1.5 * dim, "lift": np.sqrt(max(1.0, 0.5 * dim))}
    blocks = []
    for parts, places in mixture_rows.soft_parts(
        rows, inv_step, table=table, labels=labels, **radii
    ):
        assert all(np.all(np.diff(of_component) > 0) for of_component in places)
        blocks.append([array.copy() for array in parts + places])
    return [np.concatenate(arrays) for arrays in zip(*blocks, strict=True)]


def both(monkeypatch, loops, function, *given, **options):
    """What a function gives by NumPy, and by the compiled loops."""
    with np.errstate(all="ignore"):
        monkeypatch.setattr(mixture_rows, "_loops", None)
        by_numpy = function(*given, **options)
        monkeypatch.setattr(mixture_rows, "_loops", loops)
        by_loops = function(*given, **options)
    return by_numpy, by_loops


def hostile_case(k, dim, dtype):
    _, _, table, rows = case(k, dim)
    with np.errstate(over="ignore"):
        rows = hostile(rows).astype(dtype)
    rows.flags.writeable = False
    return table, rows


@pytest.mark.parametrize(("k", "dim"), SHAPES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("labeled", [False, True])
def test_loops_and_numpy_find_the_same_bits_of_parts(monkeypatch, loops, k, dim, dtype, labeled):
    table, rows = hostile_case(k, dim, dtype)
    labels = None
    if labeled:
        labels = (np.arange(len(rows)) % (k + 1)).astype(np.int32)
    by_numpy, by_loops = both(monkeypatch, loops, parts_of, rows, table, labels=labels)
    for one, other in zip(by_numpy, by_loops, strict=True):
        assert np.array_equal(one, other, equal_nan=True)
    assert sum(len(part) for part in by_numpy[:k]) > len(rows) / 3


@pytest.mark.parametrize(("k", "dim"), SHAPES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_loops_and_numpy_find_the_same_likeliest_component(monkeypatch, loops, k, dim, dtype):
    table, rows = hostile_case(k, dim, dtype)
    by_numpy, by_loops = both(monkeypatch, loops, mixture_rows.likeliest, rows, table, table.means)
    assert np.array_equal(by_numpy[0], by_loops[0])
    assert np.array_equal(by_numpy[1], by_loops[1], equal_nan=True)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_row_is_the_same_alone_and_in_company(monkeypatch, loops, compiled):
    monkeypatch.setattr(mixture_rows, "_loops", loops if compiled else None)
    _, _, table, rows = case(3, 5)
    rows = hostile(rows)
    together = parts_of(rows, table)
    alone = [parts_of(row[None], table) for row in rows]
    for component in range(3):
        one_by_one = np.concatenate([parts[component] for parts in alone])
        assert np.array_equal(together[component], one_by_one, equal_nan=True)


def responsibilities_of(weights, roots, means, rows):
    """By the densities of scipy."""
    logs = []
    for weight, mean, root in zip(weights, means, roots, strict=True):
        law = multivariate_normal(mean, root @ root.T)
        logs.append(np.log(weight) + law.logpdf(rows))
    return np.exp(logs - logsumexp(logs, axis=0))


def test_responsibilities_are_those_of_the_densities():
    weights, roots, table, rows = case(3, 5)
    expected = responsibilities_of(weights, roots, table.means, rows)
    _, _, found = mixture_rows.whitened(rows, table)
    assert np.allclose(found, expected, atol=1e-12)


def test_parts_are_roots_of_responsibilities_times_clipped_white_rows():
    weights, roots, table, rows = case(3, 5)
    responsibilities = responsibilities_of(weights, roots, table.means, rows)
    found = parts_of(rows, table, inv_step=1e9)
    for component in range(3):
        white = np.linalg.solve(roots[component], (rows - table.means[component]).T)
        white *= np.minimum(1.0, np.sqrt(7.5) / np.linalg.norm(white, axis=0))
        lifted = np.vstack([white, np.full(len(rows), np.sqrt(2.5))])
        expected = np.sqrt(responsibilities[component]) * lifted
        places = found[3 + component]
        assert np.allclose(found[component] / 1e9, expected.T[places], atol=1e-6)


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
