"""Routing: a row takes the same way down a tree from C on every instruction set, from NumPy, and however the rows are cut."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

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
    if rule is None:
        rule = rng.choice(list(Rule))
    if out_dim is None:
        out_dim = int(rng.integers(0, 12))
    projection = None
    width = dim
    typical_norm_sq = 3.0 * dim
    if out_dim:
        projection = rng.standard_normal((out_dim, dim))
        width = out_dim
        typical_norm_sq = (2.0 * dim + 1.0) * out_dim
    n_centers = 1 if rule is Rule.BALL else int(rng.integers(1, 7))
    return Split(
        rule=rule,
        origin=scale * rng.standard_normal(dim),
        projection=projection,
        centers=scale * rng.standard_normal((n_centers, width)),
        first_child=first_child,
        radius_sq=scale**2 * typical_norm_sq * rng.uniform(0.7, 1.3),
    )


def leaves(splits):
    return [node for node, split in enumerate(splits) if split is None]


def grown(rng, row_tree, **options):
    """The same tree with one leaf more split, and its leaves as targets."""
    splits = list(row_tree.splits)
    node = rng.choice(leaves(splits))
    splits[node] = make_split(rng, row_tree.dim, len(splits), **options)
    splits += [None] * len(splits[node].children)
    return RowTree(row_tree.dim, splits, leaves(splits))


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
    scale = draw(st.sampled_from((1.0, 1e-300, 1e150)))
    row_tree = make_tree(rng, dim, draw(st.integers(0, 5)), scale=scale)
    n = draw(st.integers(0, 90))
    hostile = draw(st.lists(row_cases.hostile_float64(), max_size=6))
    x = row_cases.make_rows(rng, n, dim, hostile)
    if draw(st.booleans()):
        with np.errstate(all="ignore"):
            x = x.astype(np.float32)
    layout = draw(st.sampled_from(row_cases.LAYOUTS))
    return row_cases.lay_out(x, layout), row_tree


@given(cases())
@settings(max_examples=300, deadline=None)
def test_labels_equal_twin(case):
    chunk, row_tree = case
    is_unusable = ~np.isfinite(chunk).all(axis=1)
    np.testing.assert_array_equal(agree(chunk, row_tree) == -1, is_unusable)


@given(cases(), st.integers(1, 9), st.integers(0, 2**32))
@settings(max_examples=300, deadline=None)
def test_groups_equal_twin(case, n_groups, seed):
    chunk, _ = case
    labels = np.random.default_rng(seed).integers(-2, n_groups + 2, len(chunk)).astype(np.int32)

    def groups(module):
        out = np.zeros(chunk.shape, dtype=chunk.dtype)
        begins = np.full(n_groups + 1, 77, dtype=np.int64)
        module.rows_group(chunk, labels, n_groups, out, begins)
        return out.tobytes(), begins.tolist()

    assert groups(kernels) == groups(reference)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("dim", [1, 2, 5, 8, 16, 31, 130, 300])
def test_every_size(dim, dtype):
    rng = np.random.default_rng(dim)
    # more than two blocks, and a part of a group of rows
    x = rng.standard_normal((2100, dim)).astype(dtype)
    row = rng.integers(0, len(x), 20)
    column = rng.integers(0, dim, 20)
    x[row, column] = rng.choice([np.nan, np.inf, -np.inf], 20)
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
    on_ball = replace(ball, radius_sq=float(np.sort(distance)[1500]))
    return x, distance, RowTree(dim, [on_ball, None, None], [1, 2])


def test_a_row_on_a_ball_is_inside():
    x, distance, row_tree = boundary_case(np.random.default_rng(1), 16)
    radius_sq = row_tree.splits[0].radius_sq
    assert (distance == radius_sq).any()
    np.testing.assert_array_equal(agree(x, row_tree), np.where(distance <= radius_sq, 0, 1))


def nearest(centers):
    """A split of rows of two columns by the nearest center."""
    return Split(
        rule=Rule.NEAREST, origin=[0.0, 0.0], projection=None, centers=centers, first_child=1
    )


def test_the_first_of_equal_centers_wins():
    split = nearest([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [1.0, 0.0]])
    row_tree = RowTree(2, [split, *[None] * 5], range(1, 6))
    tied = [[0.0, 0.0], [3.0, 3.0], [-3.0, 3.0], [-3.0, -3.0]]
    assert agree(np.array(tied), row_tree).tolist() == [0, 0, 1, 1]
    on_an_axis = [[2.0, 0.0], [0.0, -5.0], [-0.0, 1e-300]]
    assert agree(np.array(on_an_axis), row_tree).tolist() == [0, 3, 0]


def test_overflowing_rows_take_a_fixed_way():
    """Infinite distances are equal, so the first center; x - y is then 0, infinite, infinite."""
    difference = Split(
        rule=Rule.BALL,
        origin=[0.0, 0.0],
        projection=[[1.0, -1.0]],
        centers=[[0.0]],
        radius_sq=1.0,
        first_child=3,
    )
    splits = [nearest([[0.0, 0.0], [9.0, 9.0]]), difference, None, None, None]
    row_tree = RowTree(2, splits, [2, 3, 4])
    huge = np.finfo(np.float64).max
    overflowing = [[huge, huge], [-huge, huge], [1e308, 0.0]]
    assert agree(np.array(overflowing), row_tree).tolist() == [1, 2, 2]
    unusable = [[np.nan, 0.0], [0.0, np.inf]]
    assert agree(np.array(unusable), row_tree).tolist() == [-1, -1]
    assert agree(np.array([[5e-324, -0.0]]), row_tree).tolist() == [1]


def random_tree_of_six_splits(rng, dim):
    return make_tree(rng, dim, 6)


def tree_of_one_ball(rng, dim):
    return boundary_case(rng, dim)[2]


@pytest.mark.parametrize("make", [random_tree_of_six_splits, tree_of_one_ball])
@pytest.mark.parametrize("dim", [2, 16, 37, 200])
def test_position_chunk_and_thread_change_nothing(dim, make):
    rng = np.random.default_rng(7)
    row_tree = make(rng, dim)
    x = row_cases.make_rows(rng, 3000, dim, [np.nan, -np.inf, 1e200])
    whole = agree(x, row_tree)
    assert len(set(whole)) > 2
    for size in (1, 3, 7, 64, 1000):
        begins = range(0, 3000 if size > 3 else 300, size)
        pieces = [x[begin : begin + size] for begin in begins]
        with ThreadPoolExecutor(4) as pool:
            parts = list(pool.map(partial(labels_of, row_tree=row_tree), pieces))
        np.testing.assert_array_equal(np.concatenate(parts), whole[: begins[-1] + size])
    order = rng.permutation(len(x))
    np.testing.assert_array_equal(labels_of(x[order], row_tree), whole[order])


def test_targets_may_be_inner_nodes():
    rng = np.random.default_rng(3)
    row_tree = make_tree(rng, 5, 8)
    x = rng.standard_normal((500, 5))
    leaf = np.array(row_tree.targets)[labels_of(x, row_tree)]
    parents = parents_of(row_tree.splits)
    for node in range(len(row_tree.splits)):
        inside = np.array([node in path_to(parents, one) for one in leaf])
        of_node = RowTree(5, row_tree.splits, [node])
        np.testing.assert_array_equal(agree(x, of_node) == 0, inside)
        grouped, begins = grouped_rows(x, of_node)
        np.testing.assert_array_equal(grouped[: begins[1]], x[inside])


def test_grouped_rows_are_a_partition():
    rng = np.random.default_rng(5)
    row_tree = make_tree(rng, 4, 5)
    x = row_cases.make_rows(rng, 1000, 4, [np.nan, np.inf])
    labels = labels_of(x, row_tree)
    grouped, begins = grouped_rows(x, row_tree)
    assert begins[-1] == (labels >= 0).sum() < len(x)
    for label, (begin, end) in enumerate(itertools.pairwise(begins)):
        np.testing.assert_array_equal(grouped[begin:end], x[labels == label])
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


ONE_BALL = [Split(**ball()), None, None]
OF_ONE_BALL = RowTree(3, ONE_BALL, [1, 2])


@pytest.mark.parametrize("targets", [[], [0, 1], [1, 1], [3], [True]], ids=str)
def test_targets_that_are_none_are_refused(targets):
    assert RowTree(3, ONE_BALL, [2]).n_labels == 1
    raises((InputError, KernelError), None, RowTree, 3, ONE_BALL, targets)


def test_splits_that_are_no_tree_are_refused():
    without_a_child = ONE_BALL[:2]
    its_own_child = [Split(**ball(first_child=0)), None, None]
    hangs_on_nothing = [*ONE_BALL, None]
    raises((InputError, KernelError), None, RowTree, 3, without_a_child, [1])
    raises((InputError, KernelError), None, RowTree, 3, its_own_child, [1])
    raises((InputError, KernelError), None, RowTree, 3, hangs_on_nothing, [3])
    raises(InputError, "does not split rows of 4", RowTree, 4, ONE_BALL, [1, 2])


@pytest.mark.parametrize(
    "chunk",
    [np.ones((4, 2)), np.ones((4, 3), dtype=np.int64), np.asfortranarray(np.ones((4, 3)))],
    ids=["two columns", "integers", "column-major"],
)
def test_rows_that_cannot_be_used_are_refused(chunk):
    raises(KernelError, None, labels_of, chunk, OF_ONE_BALL)


def test_outputs_that_cannot_be_written_are_refused():
    rows = np.ones((4, 3))
    three_labels = np.zeros(3, np.int32)
    raises(KernelError, None, kernels.tree_assign, rows, OF_ONE_BALL, three_labels)
    groups = (np.zeros(4, np.int32), 2, np.ones((4, 3)), np.zeros(2, np.int64))
    raises(KernelError, None, kernels.rows_group, rows, *groups)


@pytest.mark.parametrize(
    ("words", "dim", "n_maps", "size"),
    [("as many maps", 3, 3, 3), ("sums", 3, 2, 2), ("shape", 4, 2, 4)],
)
def test_totals_that_do_not_fit_the_tree_are_refused(words, dim, n_maps, size):
    row_map = row_cases.make_map(np.random.default_rng(1), dim, MatrixKind.DIAGONAL)
    totals = [np.zeros(size, np.int64)] * n_maps
    given = (np.ones((4, 3)), OF_ONE_BALL, totals, [row_map] * n_maps)
    raises((InputError, KernelError), words, kernels.leaf_totals, *given)


def lineage_of(splits, *targets):
    return RowTree(3, splits, targets).lineage


def test_lineage_names_the_path_to_a_node():
    splits = make_tree(np.random.default_rng(2), 3, 4).splits
    parents = parents_of(splits)
    last_names = set()
    for node in range(len(splits)):
        lineage = lineage_of(splits, node)
        path = path_to(parents, node)
        assert len(lineage) == len(path)
        of_parent = lineage_of(splits, path[-2]) if node else ()
        assert lineage[:-1] == of_parent
        last_names.add(lineage[-1])
    assert len(last_names) == len(splits)


def test_lineage_changes_with_a_split_above_the_node():
    splits = make_tree(np.random.default_rng(2), 3, 4).splits
    larger_ball = replace(splits[0], radius_sq=splits[0].radius_sq + 1.0)
    before = lineage_of(splits, 1)
    after = lineage_of([larger_ball, *splits[1:]], 1)
    assert after[0] == before[0]
    assert after[1] != before[1]


def test_lineage_of_several_targets_has_their_order():
    row_tree = make_tree(np.random.default_rng(2), 3, 4)
    first, second = row_tree.targets[:2]
    both = lineage_of(row_tree.splits, first, second)
    swapped = lineage_of(row_tree.splits, second, first)
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
    pieces = [small[:1], small[1:33], small[33:]]
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
                    assert answers(pieces, fresh, row_maps, kernels) == expected


def test_without_splits_all_finite_rows_count():
    x = np.array([[1.0, 2.0], [np.nan, 0.0], [3.0, np.inf], [0.5, 0.5]])
    row_tree = RowTree(2, [None], [0])
    row_maps = [row_cases.make_map(np.random.default_rng(0), 2, MatrixKind.FULL)]
    found = answers([x], row_tree, row_maps, kernels)
    expected = answers([x], row_tree, row_maps, reference)
    assert found == expected
    assert grouped_rows(x, row_tree)[1] == [0, 2]
