"""Sums of the rows that reach each target: the same integers as one target after another, whatever passes before have found out."""

import numpy as np
import pytest
from row_cases import LAYOUTS, LEVELS, instruction_set, lay_out, make_map, make_rows
from test_tree_routing import grown
from twins import leaves as reference

from fastpubpriv.errors import InputError, KernelError
from fastpubpriv.kernels import tree as kernels
from fastpubpriv.kernels.tree import KeptNodes
from fastpubpriv.row_maps import MatrixKind, RowTree

EDGES_SQ = np.array([0.5, 2.0, 20.0, 1e4])
KINDS = (MatrixKind.DIAGONAL, MatrixKind.FULL, MatrixKind.IDENTITY)


def zeros(maps, shape):
    return [None if row_map is None else np.zeros(shape(row_map), dtype=np.int64) for row_map in maps]


def answers(chunks, row_tree, maps, module):
    """Counts, sums, Gram matrices and shell counts of all targets."""
    counts = np.zeros(row_tree.n_labels, dtype=np.int64)
    sums = zeros(maps, lambda row_map: (row_map.out_dim,))
    grams = zeros(maps, lambda row_map: (row_map.out_dim, row_map.out_dim))
    shells = zeros(maps, lambda _: (len(EDGES_SQ) + 1,))
    for chunk in chunks:
        module.leaf_counts(chunk, row_tree, counts)
        module.leaf_sums(chunk, row_tree, maps, sums)
        module.leaf_grams(chunk, row_tree, maps, grams)
        module.leaf_shell_counts(chunk, row_tree, maps, EDGES_SQ, shells)
    return [counts.tolist()] + [
        [each.tolist() for each in found if each is not None] for found in (sums, grams, shells)
    ]


def some_maps(rng, dim, n_labels):
    """A map for each label; now and then none."""
    made = [make_map(rng, dim, KINDS[label % 3], scale=10.0) for label in range(n_labels)]
    return [None if n_labels > 1 and rng.random() < 0.2 else row_map for row_map in made]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("dim", [1, 2, 7, 8, 16, 19])
def test_every_way_gives_the_integers_of_the_twin(dim, dtype):
    """Rows nothing is known of, and rows that earlier passes sent down, on every set of instructions, in chunks of any size."""
    rng = np.random.default_rng(dim)
    with np.errstate(over="ignore"):
        base = make_rows(rng, 17_000, dim, [np.nan, -np.inf, 1e300]).astype(dtype)
    base[rng.random(base.shape) < 1e-3] = np.nan
    small = base[:700]
    for level in LEVELS:
        kept, tree = KeptNodes.of(base, None), RowTree(dim, [None], [0])
        with instruction_set(level):
            for _ in range(3):
                tree = grown(rng, grown(rng, tree))
                for targets in (tree.targets, [int(rng.choice(tree.targets))]):
                    fresh, watched = (RowTree(dim, tree.splits, targets) for _ in range(2))
                    kept.watch(watched)
                    maps = some_maps(rng, dim, fresh.n_labels)
                    expected = answers([small], fresh, maps, reference)
                    assert answers([small], fresh, maps, kernels) == expected
                    assert answers([small[:1], small[1:33], small[33:]], watched, maps, kernels) == expected


@pytest.mark.parametrize("layout", LAYOUTS)
def test_blocks_and_layouts(layout):
    """More rows than a block holds, wide and narrow, wherever the columns lie."""
    rng = np.random.default_rng(8)
    for n, dim in ((20_000, 3), (16_400, 40)):
        x = rng.standard_normal((n, dim))
        x[::501] = np.inf
        base = lay_out(x, layout)
        kept = KeptNodes.of(base, None)
        tree = grown(rng, grown(rng, grown(rng, RowTree(dim, [None], [0]))))
        kept.watch(tree)
        maps = some_maps(rng, dim, tree.n_labels)
        fresh = RowTree(dim, tree.splits, tree.targets)
        found = answers([base], tree, maps, kernels)
        assert found == answers([base], fresh, maps, kernels)
        assert sum(found[0]) == n - len(x[::501])
        assert answers([base], tree, maps, kernels) == found  # all have arrived


def test_without_splits_all_finite_rows_count():
    x = np.array([[1.0, 2.0], [np.nan, 0.0], [3.0, np.inf], [0.5, 0.5]])
    row_tree, maps = RowTree(2, [None], [0]), [make_map(np.random.default_rng(0), 2, MatrixKind.FULL)]
    found = answers([x], row_tree, maps, kernels)
    assert found == answers([x], row_tree, maps, reference)
    assert found[0] == [2]


def test_refusals():
    rng = np.random.default_rng(1)
    base = rng.standard_normal((20_000, 3))
    tree = grown(rng, RowTree(3, [None], [0]))
    wrong, right = make_map(rng, 4, MatrixKind.DIAGONAL), make_map(rng, 3, MatrixKind.DIAGONAL)
    n = tree.n_labels
    with pytest.raises(InputError, match="as many maps"):
        kernels.leaf_sums(base, tree, [right] * (n + 1), [np.zeros(3, np.int64)] * (n + 1))
    with pytest.raises(KernelError, match="total"):
        kernels.leaf_sums(base, tree, [right] * n, [np.zeros(2, np.int64)] * n)
    with pytest.raises(KernelError, match="shape"):
        kernels.leaf_sums(base, tree, [wrong] * n, [np.zeros(4, np.int64)] * n)
    with pytest.raises(KernelError):
        kernels.leaf_counts(base, tree, np.zeros(n, np.int32))
