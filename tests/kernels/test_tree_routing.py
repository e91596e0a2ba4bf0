"""Routing: a row takes the same way down a tree from C on every instruction set, from NumPy, and however the rows are cut."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import row_cases
from helpers.errors import raises
from hypothesis import given, settings
from hypothesis import strategies as st
from twins import tree as reference

from fastpubpriv.errors import InputError, KernelError
from fastpubpriv.kernels import tree as kernels
from fastpubpriv.kernels.tree import grouped_rows
from fastpubpriv.rowwise.row_maps import MatrixKind, RowTree, Rule, Split, parents_of, path_to


def make_split(rng, dim, first_child, *, rule=None, out_dim=None, scale=1.0):
    """A split with random public parts; out_dim 0 is the identity."""
    rule = rng.choice(list(Rule)) if rule is None else rule
    out_dim = int(rng.integers(0, 12)) if out_dim is None else out_dim
    width = out_dim or dim
    return Split(
        rule=rule,
        origin=scale * rng.standard_normal(dim),
        projection=rng.standard_normal((out_dim, dim)) if out_dim else None,
        centers=scale
        * rng.standard_normal((1 if rule is Rule.BALL else int(rng.integers(1, 7)), width)),
        first_child=first_child,
        radius_sq=scale**2 * width * (2.0 * dim + 1.0 if out_dim else 3.0) * rng.uniform(0.7, 1.3),
    )


def grown(rng, row_tree, **options):
    """The same tree with one leaf more split, and its leaves as targets."""
    splits = list(row_tree.splits)
    node = rng.choice([index for index, split in enumerate(splits) if split is None])
    splits[node] = make_split(rng, row_tree.dim, len(splits), **options)
    splits += [None] * len(splits[node].children)
    return RowTree(
        row_tree.dim, splits, [index for index, split in enumerate(splits) if split is None]
    )


def make_tree(rng, dim, n_splits, **options):
    """A random tree whose leaves are the targets."""
    row_tree = RowTree(dim, [None], [0])
    for _ in range(n_splits):
        row_tree = grown(rng, row_tree, **options)
    return row_tree


def labels_of(chunk, row_tree, module=kernels):
    labels = np.full(len(chunk), 77, dtype=np.int32)
    module.tree_assign(chunk, row_tree, labels)
    return labels


def agree(chunk, row_tree):
    expected = labels_of(chunk, row_tree, reference)
    row_cases.same_at_every_level(expected, labels_of, chunk, row_tree)
    return expected


@st.composite
def cases(draw):
    """Whole calls: rows of all sizes and bit patterns in every layout, random trees."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    dim = draw(st.sampled_from((1, 2, 3, 7, 8, 9, 16, 17, 64, 129, 257)))
    row_tree = make_tree(
        rng, dim, draw(st.integers(0, 5)), scale=draw(st.sampled_from((1.0, 1e-300, 1e150)))
    )
    x = row_cases.make_rows(
        rng, draw(st.integers(0, 90)), dim, draw(st.lists(row_cases.hostile_float64(), max_size=6))
    )
    if draw(st.booleans()):
        with np.errstate(all="ignore"):
            x = x.astype(np.float32)
    return row_cases.lay_out(x, draw(st.sampled_from(row_cases.LAYOUTS))), row_tree


@given(cases(), st.integers(1, 9), st.integers(0, 2**32))
@settings(max_examples=300, deadline=None)
def test_labels_and_groups_equal_twin(case, n_groups, seed):
    chunk, row_tree = case
    np.testing.assert_array_equal(agree(chunk, row_tree) == -1, ~np.isfinite(chunk).all(axis=1))
    labels = np.random.default_rng(seed).integers(-2, n_groups + 2, len(chunk)).astype(np.int32)
    results = []
    for module in (kernels, reference):
        out = np.zeros(chunk.shape, dtype=chunk.dtype)
        begins = np.full(n_groups + 1, 77, dtype=np.int64)
        module.rows_group(chunk, labels, n_groups, out, begins)
        results.append((out.tobytes(), begins.tolist()))
    assert results[0] == results[1]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("dim", [1, 2, 5, 8, 16, 31, 130, 300])
def test_every_size(dim, dtype):
    rng = np.random.default_rng(dim)
    # more than two blocks, and a part of a group of rows
    x = rng.standard_normal((2100, dim)).astype(dtype)
    x[rng.integers(0, len(x), 20), rng.integers(0, dim, 20)] = rng.choice(
        [np.nan, np.inf, -np.inf], 20
    )
    for n_splits in (0, 1, 4, 20):
        labels = agree(x, make_tree(rng, dim, n_splits))
        assert n_splits == 0 or len(set(labels)) > 1 + (n_splits > 1)


def boundary_case(rng, dim):
    """A tree and rows that lie on its balls and half-way between its centers, up to the last bit."""
    x = rng.standard_normal((3000, dim))
    ball = make_split(rng, dim, 1, rule=Rule.BALL, out_dim=3)
    t = x - ball.origin
    y = np.zeros((len(x), 3))
    for k in range(dim):
        y = y + t[:, k : k + 1] * ball.projection[:, k]
    distance = np.zeros(len(x))
    for j in range(3):
        distance = distance + (y[:, j] - ball.centers[0, j]) ** 2
    on_ball = Split(
        rule=Rule.BALL,
        origin=ball.origin,
        projection=ball.projection,
        centers=ball.centers,
        first_child=1,
        radius_sq=float(np.sort(distance)[1500]),
    )
    return x, distance, RowTree(dim, [on_ball, None, None], [1, 2])


def test_ties_and_overflowing_rows_take_a_fixed_way():
    x, distance, row_tree = boundary_case(np.random.default_rng(1), 16)
    radius_sq = row_tree.splits[0].radius_sq
    assert (distance == radius_sq).any()
    np.testing.assert_array_equal(agree(x, row_tree), np.where(distance <= radius_sq, 0, 1))
    # The first of equal centers wins.
    centers = [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [1.0, 0.0]]
    split = Split(
        rule=Rule.NEAREST, origin=[0.0, 0.0], projection=None, centers=centers, first_child=1
    )
    row_tree = RowTree(2, [split, *[None] * 5], range(1, 6))
    rows = np.array(
        [[0.0, 0.0], [3.0, 3.0], [-3.0, 3.0], [-3.0, -3.0], [2.0, 0.0], [0.0, -5.0], [-0.0, 1e-300]]
    )
    assert agree(rows, row_tree).tolist() == [0, 0, 1, 1, 0, 3, 0]
    # Overflowing rows take a fixed way.
    nearest = Split(
        rule=Rule.NEAREST,
        origin=[0.0, 0.0],
        projection=None,
        centers=[[0.0, 0.0], [9.0, 9.0]],
        first_child=1,
    )
    ball = Split(
        rule=Rule.BALL,
        origin=[0.0, 0.0],
        projection=[[1.0, -1.0]],
        centers=[[0.0]],
        radius_sq=1.0,
        first_child=3,
    )
    row_tree = RowTree(2, [nearest, ball, None, None, None], [2, 3, 4])
    huge = np.finfo(np.float64).max
    rows = np.array(
        [[huge, huge], [-huge, huge], [1e308, 0.0], [np.nan, 0.0], [0.0, np.inf], [5e-324, -0.0]]
    )
    # Infinite distances are equal, so the first center; x - y is then 0, infinite, infinite.
    assert agree(rows, row_tree).tolist() == [1, 2, 2, -1, -1, 1]


@pytest.mark.parametrize("dim", [2, 16, 37, 200])
def test_position_chunk_and_thread_change_nothing(dim):
    rng = np.random.default_rng(7)
    for row_tree in (make_tree(rng, dim, 6), boundary_case(rng, dim)[2]):
        x = row_cases.make_rows(rng, 3000, dim, [np.nan, -np.inf, 1e200])
        whole = agree(x, row_tree)
        assert len(set(whole)) > 2
        for size in (1, 3, 7, 64, 1000):
            begins = range(0, 3000 if size > 3 else 300, size)
            pieces = [x[i : i + size] for i in begins]
            with ThreadPoolExecutor(4) as pool:
                parts = list(pool.map(labels_of, pieces, [row_tree] * len(pieces)))
            np.testing.assert_array_equal(np.concatenate(parts), whole[: begins[-1] + size])
        order = rng.permutation(len(x))
        np.testing.assert_array_equal(labels_of(x[order], row_tree), whole[order])


def test_targets_may_be_inner_nodes_and_grouped_rows_are_a_partition():
    rng = np.random.default_rng(3)
    row_tree = make_tree(rng, 5, 8)
    x = rng.standard_normal((500, 5))
    leaf = np.array(row_tree.targets)[labels_of(x, row_tree)]
    parents = parents_of(row_tree.splits)
    for node in range(len(row_tree.splits)):
        inside = np.array([node in path_to(parents, one) for one in leaf])
        np.testing.assert_array_equal(agree(x, RowTree(5, row_tree.splits, [node])) == 0, inside)
        only, begins = grouped_rows(x, RowTree(5, row_tree.splits, [node]))
        np.testing.assert_array_equal(only[: begins[1]], x[inside])
    # Grouped rows are a partition.
    rng = np.random.default_rng(5)
    row_tree = make_tree(rng, 4, 5)
    x = row_cases.make_rows(rng, 1000, 4, [np.nan, np.inf])
    labels = labels_of(x, row_tree)
    grouped, begins = grouped_rows(x, row_tree)
    assert begins[-1] == (labels >= 0).sum() < len(x)
    for label in range(row_tree.n_labels):
        np.testing.assert_array_equal(
            grouped[begins[label] : begins[label + 1]], x[labels == label]
        )
    assert grouped_rows(x[:0], row_tree)[1] == [0] * (row_tree.n_labels + 1)


def ball(**changes):
    return {
        "rule": Rule.BALL,
        "origin": np.zeros(3),
        "projection": None,
        "centers": np.zeros((1, 3)),
        "first_child": 1,
        "radius_sq": 1.0,
        **changes,
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"origin": np.zeros((1, 3))},
        {"origin": [0.0, np.nan, 0.0]},
        {"projection": np.eye(2)},
        {"projection": np.full((2, 3), np.inf)},
        {"projection": np.ones((2, 3))},
        {"centers": np.zeros((2, 3))},
        {"centers": np.zeros((1, 2))},
        {"centers": np.zeros((0, 3))},
        {"radius_sq": -1.0},
        {"radius_sq": float("nan")},
    ],
    ids=str,
)
def test_split_refuses_bad_public_arguments(changes):
    raises(InputError, None, Split, **ball(**changes))


def test_trees_and_arrays_that_are_none_are_refused():
    one = Split(**ball())
    assert RowTree(3, [one, None, None], [2]).n_labels == 1
    for splits, targets in (
        ([one, None], [1]),  # a child is missing
        ([Split(**ball(first_child=0)), None, None], [1]),
        ([one, None, None], []),
        ([one, None, None], [0, 1]),
        ([one, None, None], [1, 1]),
        ([one, None, None], [3]),
        ([one, None, None], [True]),
        ([one, None, None, None], [3]),  # hangs on nothing
    ):
        raises((InputError, KernelError), None, RowTree, 3, splits, targets)
    raises(InputError, "does not split rows of 4", RowTree, 4, [one, None, None], [1, 2])
    # Kernel refuses arrays it cannot use.
    row_tree = RowTree(3, [Split(**ball()), None, None], [1, 2])
    for chunk in (
        np.ones((4, 2)),
        np.ones((4, 3), dtype=np.int64),
        np.asfortranarray(np.ones((4, 3))),
    ):
        raises(KernelError, None, labels_of, chunk, row_tree)
    raises(KernelError, None, kernels.tree_assign, np.ones((4, 3)), row_tree, np.zeros(3, np.int32))
    groups = np.zeros(4, np.int32), 2, np.ones((4, 3)), np.zeros(2, np.int64)
    raises(KernelError, None, kernels.rows_group, np.ones((4, 3)), *groups)
    wrong = row_cases.make_map(np.random.default_rng(1), 4, MatrixKind.DIAGONAL)
    right = row_cases.make_map(np.random.default_rng(1), 3, MatrixKind.DIAGONAL)
    for words, row_map, n, size in (
        ("as many maps", right, 3, 3),
        ("sums", right, 2, 2),
        ("shape", wrong, 2, 4),
    ):
        totals = [np.zeros(size, np.int64)] * n
        raises(
            (InputError, KernelError),
            words,
            kernels.leaf_totals,
            np.ones((4, 3)),
            row_tree,
            totals,
            [row_map] * n,
        )


def test_lineage_names_what_decides():
    row_tree = make_tree(np.random.default_rng(2), 3, 4)
    splits = row_tree.splits
    parents = parents_of(row_tree.splits)
    names = {}
    for node in range(len(splits)):
        lineage = RowTree(3, splits, [node]).lineage
        path = path_to(parents, node)
        assert len(lineage) == len(path)
        assert lineage[:-1] == (names[path[-2]] if node else ())
        names[node] = lineage
    assert len({name[-1] for name in names.values()}) == len(splits)
    moved = Split(
        rule=splits[0].rule,
        origin=splits[0].origin,
        projection=splits[0].projection,
        centers=splits[0].centers,
        first_child=1,
        radius_sq=splits[0].radius_sq + 1.0,
    )
    assert RowTree(3, [moved, *splits[1:]], [1]).lineage[0] == names[0][0]
    assert RowTree(3, [moved, *splits[1:]], [1]).lineage[1] != names[1][1]
    both, swapped = (
        RowTree(3, splits, targets).lineage
        for targets in (row_tree.targets[:2], row_tree.targets[1::-1])
    )
    assert len(both) == len(swapped) == 1
    assert both != swapped


# ---- Sums of the rows that reach each target: the same integers as one target after another.
KINDS = (MatrixKind.DIAGONAL, MatrixKind.FULL, MatrixKind.IDENTITY)


def zeros(row_maps, shape):
    return [np.zeros(shape(row_map), dtype=np.int64) for row_map in row_maps]


def answers(chunks, row_tree, row_maps, module):
    """Sums and Gram matrices of all targets."""
    sums = zeros(row_maps, lambda row_map: (row_map.out_dim,))
    grams = zeros(row_maps, lambda row_map: (row_map.out_dim, row_map.out_dim))
    for chunk in chunks:
        module.leaf_totals(chunk, row_tree, sums, row_maps)
        module.leaf_totals(chunk, row_tree, grams, row_maps, squares=True)
    return [[each.tolist() for each in found] for found in (sums, grams)]


def some_maps(rng, dim, n_labels):
    """A map for each label."""
    return [row_cases.make_map(rng, dim, KINDS[label % 3], scale=10.0) for label in range(n_labels)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("dim", [1, 2, 7, 8, 16, 19])
def test_every_way_gives_the_integers_of_the_twin(dim, dtype):
    """On every instruction set, in chunks of any size."""
    rng = np.random.default_rng(dim)
    with np.errstate(over="ignore"):
        base = row_cases.make_rows(rng, 17_000, dim, [np.nan, -np.inf, 1e300]).astype(dtype)
    base[rng.random(base.shape) < 1e-3] = np.nan
    small = base[:700]
    for level in row_cases.LEVELS:
        tree = RowTree(dim, [None], [0])
        with row_cases.instruction_set(level):
            for _ in range(3):
                tree = grown(rng, grown(rng, tree))
                for targets in (tree.targets, [int(rng.choice(tree.targets))]):
                    fresh = RowTree(dim, tree.splits, targets)
                    row_maps = some_maps(rng, dim, fresh.n_labels)
                    expected = answers([small], fresh, row_maps, reference)
                    assert answers([small], fresh, row_maps, kernels) == expected
                    assert (
                        answers([small[:1], small[1:33], small[33:]], fresh, row_maps, kernels)
                        == expected
                    )


def test_without_splits_all_finite_rows_count():
    x = np.array([[1.0, 2.0], [np.nan, 0.0], [3.0, np.inf], [0.5, 0.5]])
    row_tree = RowTree(2, [None], [0])
    row_maps = [row_cases.make_map(np.random.default_rng(0), 2, MatrixKind.FULL)]
    found = answers([x], row_tree, row_maps, kernels)
    expected = answers([x], row_tree, row_maps, reference)
    assert found == expected
    assert grouped_rows(x, row_tree)[1] == [0, 2]
