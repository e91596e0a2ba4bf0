"""Pairs of hypotheses: the kernels give the twins' integers at every instruction set, size and cut."""

import numpy as np
import pytest
from helpers.errors import raises
from hypothesis import given, settings
from hypothesis import strategies as st
from row_cases import LEVELS, instruction_set
from twins import hypotheses as reference

from fastpubpriv.errors import KernelError
from fastpubpriv.kernels import hypotheses as kernels
from fastpubpriv.kernels.hypotheses import PANEL

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
    ("components", "dim", "full"), [(1, 1, False), (2, 3, False), (3, 2, False), (2, 3, True), (5, 17, False)]
)
def test_codes_equal_twin(size, components, dim, full):
    rng = np.random.default_rng(size)
    table = kernels.mixture_table(*mixtures(rng, size, components, dim, full=full))
    rows = hostile_rows(rng, 37, dim)
    want = np.zeros((table.panels, 40, PANEL), dtype=np.int16)
    reference.density_codes(rows, table, want, 2)
    seen = []
    for level in LEVELS:
        with instruction_set(level):
            codes = np.zeros_like(want)
            kernels.density_codes(rows, table, codes, 2, kernels.density_room(table))
            seen.append(codes)
            # exp and log of the kernel are good to a tenth of a code.
            assert np.abs(codes.astype(int)[..., : min(size, PANEL)] - want[..., : min(size, PANEL)]).max() <= 1
            assert (codes[:, :2] == 0).all()
            assert (codes[:, 39:] == 0).all()
    for codes in seen[1:]:
        np.testing.assert_array_equal(codes, seen[0])
    flat, finite = reference.flattened(seen[0])[:size, 2:39], np.isfinite(rows).all(axis=1)
    assert (flat[:, ~finite] == 0).all()
    assert (flat[:, finite].max(axis=0) == 32767).all()


def test_codes_of_a_row_do_not_depend_on_the_others():
    rng = np.random.default_rng(3)
    table = kernels.mixture_table(*mixtures(rng, 100, 3, 4))
    rows = hostile_rows(rng, 500, 4)
    whole = np.empty((table.panels, 500, PANEL), dtype=np.int16)
    kernels.density_codes(rows, table, whole, 0, kernels.density_room(table))
    for level in LEVELS:
        for size in (1, 3, 7, 64):
            parts = np.empty_like(whole)
            with instruction_set(level):
                for first in range(0, 500, size):
                    kernels.density_codes(
                        np.ascontiguousarray(rows[first : first + size]), table, parts, first,
                        kernels.density_room(table),
                    )  # fmt: skip
            np.testing.assert_array_equal(parts, whole)


def test_codes_far_from_zero():
    """Means of 1e9 with deviations of 1: differences are taken before anything is squared."""
    means = np.array([[[1e9]], [[1e9 + 1.0]], [[-1e9]]])
    table = kernels.mixture_table(np.ones((3, 1)), means, np.ones((3, 1, 1)))
    codes = np.empty((1, 1, PANEL), dtype=np.int16)
    kernels.density_codes(np.array([[1e9 + 0.25]]), table, codes, 0, kernels.density_room(table))
    # log f_0 - log f_1 = (0.75^2 - 0.25^2) / 2 = 1/4
    assert codes[0, 0, :3].tolist() == [32767, 32767 - 512, -32768]


def test_a_code_solved_by_hand():
    weights = np.array([[0.25, 0.75], [1.0, 0.0]])
    means = np.array([[[0.0], [4.0]], [[1.0], [0.0]]])
    table = kernels.mixture_table(weights, means, np.ones((2, 2, 1)))
    codes = np.empty((1, 1, PANEL), dtype=np.int16)
    kernels.density_codes(np.array([[1.0]]), table, codes, 0, kernels.density_room(table))
    below = -np.log(0.25 * np.exp(-0.5) + 0.75 * np.exp(-4.5))
    assert codes[0, 0, 1] == 32767
    assert codes[0, 0, 0] == round(32767 - 2048 * below)


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
    rng, reach = np.random.default_rng(seed), 2**30 // cells
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


def test_cell_scores_solved_by_hand():
    # Four rows in two cells, masses (3, 1) and (1, 3), and 4 and 0 rows: the set of the first is cell 0.
    table = np.array([[3 - 4, 1 - 0], [1 - 4, 3 - 0]], dtype=np.int32) * 16
    worst = np.zeros(PANEL, dtype=np.int32)
    kernels.cell_scores(kernels.panelled(table, 2**31 - 1), 4, 0, worst)
    assert worst[:3].tolist() == [1, 3, 0]


def line_parts(rng, size, components, scale=1.0):
    weights, means, variances = mixtures(rng, size, components, 1, scale=scale)
    means, std = means[:, :, 0].copy(), np.sqrt(variances[:, :, 0])
    with np.errstate(divide="ignore"):
        constants = np.where(weights > 0.0, np.log(weights) - np.log(std), -1e300)
    grids = np.sort((means[..., None] + std[..., None] * np.arange(-8.0, 9.0)).reshape(size, -1), axis=1)
    return (constants, means, 1.0 / std), grids


@pytest.mark.parametrize(("components", "scale"), [(1, 1.0), (2, 1e9), (3, 1e-9)])
def test_roots_equal_twin(components, scale):
    size, most = 12, 4 * components + 4
    parts, grids = line_parts(np.random.default_rng(components), size, components, scale)
    some = 0
    for own in range(size):
        shape = (size - own - 1, most)
        roots, want = np.empty(shape), np.empty(shape)
        counts, wanted = np.zeros(shape[0], dtype=np.int64), np.zeros(shape[0], dtype=np.int64)
        kernels.pair_roots(parts, grids, own, roots, counts)
        reference.pair_roots(parts, grids, own, want, wanted)
        assert np.array_equal(counts, wanted)
        np.testing.assert_allclose(roots, want, rtol=1e-11, atol=1e-11 * scale)
        some += int(np.isfinite(roots).sum())
    assert some > size * (size - 1) / 2


def test_roots_solved_by_hand():
    # N(0, 1) and N(0, e^2): x^2 (1 - e^-2) / 2 = 1, and N(0, 1) leads between the roots; N(3, 1): the middle.
    std, means = np.array([[1.0], [np.e], [1.0]]), np.array([[0.0], [0.0], [3.0]])
    grids = np.sort(means + std * np.arange(-8.0, 9.0), axis=1)
    roots, counts = np.empty((2, 6)), np.empty(2, dtype=np.int64)
    kernels.pair_roots((-np.log(std), means, 1.0 / std), grids, 0, roots, counts)
    edge = np.sqrt(2.0 / (1.0 - np.exp(-2.0)))
    np.testing.assert_allclose(roots[:, :2], [[-edge, edge], [1.5, np.inf]], rtol=1e-12)
    assert counts.tolist() == [-3, 1]
    # No more than there is room for: the rest of the line is one piece.
    kernels.pair_roots((-np.log(std), means, 1.0 / std), grids, 0, roots[:, :1].copy(), counts)
    assert counts.tolist() == [-2, 1]


def test_wrong_arguments_are_refused():
    codes = np.zeros((2, 10, PANEL), dtype=np.int16)
    counts = np.zeros((PANEL, PANEL), dtype=np.int32)
    for rows, panel in ((11, 1), (-1, 1), (10, 2), (10, -1)):
        raises(KernelError, None, kernels.pair_counts, codes, rows, panel, counts)
    with pytest.raises(KernelError):
        kernels.cell_scores(np.zeros((1, 4, PANEL), dtype=np.int32), 31, 0, np.zeros(PANEL, dtype=np.int32))
    table = kernels.mixture_table(np.ones((1, 1)), np.zeros((1, 1, 2)), np.ones((1, 1, 2)))
    with pytest.raises(KernelError):
        kernels.density_codes(np.zeros((3, 1)), table, codes[:1], 0, kernels.density_room(table))
    with pytest.raises(KernelError):
        kernels.density_codes(np.zeros((3, 2)), table, codes[:1].copy(), 8, kernels.density_room(table))
    with pytest.raises(KernelError, match="shorter list"):
        kernels.density_codes(np.zeros((3, 2)), table, codes[:1].copy(), 0, kernels.density_room(table)[:-8])
    counts, room = np.zeros(PANEL, dtype=np.int32), kernels.draw_room(table)
    for own in (-1, PANEL):
        raises(KernelError, None, kernels.draw_counts, np.zeros((3, 2)), table, own, counts, room)
    raises(KernelError, None, kernels.draw_counts, np.zeros((3, 1)), table, 0, counts, room)
    raises(KernelError, None, kernels.draw_counts, np.zeros((3, 2)), table, 0, counts[:-1].copy(), room)
    raises(KernelError, "shorter list", kernels.draw_counts, np.zeros((3, 2)), table, 0, counts, room[:-8])
