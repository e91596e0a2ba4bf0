"""The cluster tree as a value: it grows without changing, says where rows belong, and survives JSON."""

import json

import numpy as np
import pytest
from helpers.errors import raises
from mixture_cases import Mixture, matched, order_of
from scipy import stats
from spies import seeded

from examples import new_york
from fastpubpriv import (
    ZCDP,
    MixtureResult,
    learn_axis_aligned_mixture,
    learn_separated_mixture,
    public_only,
)
from fastpubpriv.errors import AccuracyWarning, InputError
from fastpubpriv.estimators.output_bounds import bounded
from fastpubpriv.kernels.tree import grouped_rows
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.separated import searches
from fastpubpriv.mixtures.separated.public_shapes import DATA_UNITS, column_scaling
from fastpubpriv.mixtures.separated.search_state import ClusterTree
from fastpubpriv.results import Reason
from fastpubpriv.results.mixture_plots import _outline


def grown():
    """A ball, then the nearest of three centers outside, then a projected ball inside."""
    tree = ClusterTree.root(2)
    tree = tree.split_ball(0, origin=[1.0, 0.0], projection=None, center=[0.0, 0.0], radius=2.0)
    tree = tree.split_nearest(
        2, origin=[0.0, 0.0], projection=None, centers=[[10.0, 0.0], [0.0, 10.0], [-10.0, 0.0]]
    )
    return tree.split_ball(1, origin=[0.0, 0.0], projection=[[1.0, 1.0]], center=[1.0], radius=0.5)


ROWS = np.array(
    [
        [0.5, 0.5],
        [1.0, 2.0],
        [1.0, 2.1],
        [9.0, 1.0],
        [0.0, 9.0],
        [-9.0, 0.0],
        [np.nan, 0.0],
        [0.0, np.inf],
    ]
)


def test_a_tree_has_the_shape_of_its_splits_and_rows_reach_their_leaf():
    tree = grown()
    assert tree.leaves == (3, 4, 5, 6, 7)
    assert [tree.children(node) for node in range(8)] == [
        (1, 2),
        (6, 7),
        (3, 4, 5),
        (),
        (),
        (),
        (),
        (),
    ]
    assert [tree.path(node)[:-1] for node in range(8)] == [
        (),
        (0,),
        (0,),
        *[(0, 2)] * 3,
        *[(0, 1)] * 2,
    ]
    assert repr(tree) == "ClusterTree(dim=2, nodes=8, leaves=5)"
    # Rows reach the leaf that a hand would send them to.
    tree = grown()
    assert tree.assign(ROWS).tolist() == [6, 7, 4, 3, 4, 5, -1, -1]
    assert tree.assign(ROWS).dtype == np.int64
    assert tree.members(ROWS, 0).tolist() == [True] * 6 + [False] * 2
    assert tree.members(ROWS, 1).tolist() == [True] * 2 + [False] * 6
    assert tree.members(ROWS, 5).tolist() == [False] * 5 + [True] + [False] * 2
    grouped, ends = grouped_rows(ROWS, tree.only(2))
    np.testing.assert_array_equal(grouped[: ends[1]], ROWS[2:6])
    # A root takes every finite row.
    tree = ClusterTree.root(2)
    assert tree.leaves == (0,)
    assert tree.assign(ROWS).tolist() == [0] * 6 + [-1, -1]


def test_growth_keeps_the_old_tree_and_its_ids():
    old = ClusterTree.root(2).split_ball(
        0, origin=[0.0, 0.0], projection=None, center=[0.0, 0.0], radius=1.0
    )
    new = old.split_nearest(1, origin=[0.0, 0.0], projection=None, centers=[[0.0, 0.0], [1.0, 0.0]])
    assert old.leaves == (1, 2)
    assert new.leaves == (2, 3, 4)
    rows = np.random.default_rng(0).standard_normal((500, 2))
    np.testing.assert_array_equal(old.members(rows, 1), new.members(rows, 1))
    assert old.only(1).lineage == new.only(1).lineage
    assert new.only(3).lineage[:2] == new.only(1).lineage
    with pytest.raises(AttributeError):
        new.dim = 3
    with pytest.raises(ValueError, match="read-only"):
        new.splits[0].origin[0] = 1.0
    # Routes to some nodes.
    tree = grown()
    assert tree._labels(ROWS, tree.routes((4, 1))).tolist() == [1, 1, 0, -1, 0, -1, -1, -1]
    raises(InputError, "below another", tree.routes, (1, 7))


def test_json_round_trip_bit_for_bit():
    rng = np.random.default_rng(4)
    tree = ClusterTree.root(7)
    for node in (0, 1, 2, 4):
        projection = rng.standard_normal((3, 7))
        tree = tree.split_ball(
            node, origin=rng.standard_normal(7), projection=projection, center=rng.standard_normal(3),
            radius=rng.uniform(2, 4),
        )  # fmt: skip
    tree = tree.split_nearest(
        3, origin=np.zeros(7), projection=None, centers=rng.standard_normal((4, 7))
    )
    again = ClusterTree.from_dict(json.loads(json.dumps(tree.to_dict())))
    assert again.routes().lineage == tree.routes().lineage
    rows = 2.0 * rng.standard_normal((2000, 7))
    np.testing.assert_array_equal(again.assign(rows), tree.assign(rows))
    assert len(set(tree.assign(rows))) > 4


@pytest.mark.parametrize("split", [
    # not a leaf
    lambda tree: tree.split_ball(0, origin=[0, 0], projection=None, center=[0, 0], radius=1.0),
    lambda tree: tree.split_ball(8, origin=[0, 0], projection=None, center=[0, 0], radius=1.0),
    lambda tree: tree.split_ball(3, origin=[0, 0, 0], projection=None, center=[0, 0], radius=1.0),
    lambda tree: tree.split_ball(3, origin=[0, np.nan], projection=None, center=[0, 0], radius=1.0),
    lambda tree: tree.split_ball(3, origin=[0, 0], projection=None, center=[0, 0, 0], radius=1.0),
    lambda tree: tree.split_ball(3, origin=[0, 0], projection=[[1, 0, 0]], center=[0], radius=1.0),
    lambda tree: tree.split_ball(3, origin=[0, 0], projection=None, center=[0, 0], radius=-1.0),
    lambda tree: tree.split_ball(3, origin=[0, 0], projection=None, center=[0, 0], radius=np.inf),
    lambda tree: tree.split_nearest(3, origin=[0, 0], projection=None, centers=[0, 0]),
    lambda tree: tree.split_nearest(3, origin=[0, 0], projection=None, centers=np.zeros((0, 2))),
    lambda tree: tree.children(-1),
    lambda tree: tree.path(True),
    lambda tree: ClusterTree.root(0),
    lambda tree: ClusterTree.from_dict({"dim": 2}),
    lambda tree: ClusterTree.from_dict({"dim": 2, "nodes": [{"rule": "cone"}]}),
])  # fmt: skip
def test_refuses_bad_public_arguments(split):
    raises(InputError, None, split, grown())


# ---- The covariance of a few public rows: whatever the units of the columns, and named where a column says nothing.
UNITS = np.array([1e6, 1e-6, 3.0])


def rows_of(seed, n):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)) @ rng.normal(size=(3, 3)) + 5.0


@pytest.mark.parametrize("n", [2, 3, 5, 40])
def test_units_do_not_matter(n):
    rows = rows_of(1, n)
    one, other = (public_only(x, n_components=1).covariances[0] for x in (rows, rows * UNITS))
    assert np.allclose(other / np.outer(UNITS, UNITS), one, rtol=1e-9)
    assert np.linalg.eigvalsh(one)[0] > 0.0
    # Control: a multiple of the identity is lost in the largest column.
    sample = np.cov((rows * UNITS).T)
    before = 3 / (3 + n) * np.trace(sample) / 3 * np.eye(3) + n / (3 + n) * sample
    assert before[1, 1] > 1e6 * other[1, 1]


def test_columns_that_say_nothing_are_named():
    rows = rows_of(2, 9)
    rows[:, 1] = 7.0
    result = public_only(rows, n_components=1)
    assert list(result.diagnostics["fallback_columns"]) == ["1"]
    assert np.linalg.eigvalsh(result.covariances[0])[0] > 0.0
    typical = np.sqrt(rows[:, 0].var() * rows[:, 2].var())
    assert result.covariances[0][1, 1] == pytest.approx(typical)


# ---- Columns of any units: public rows choose the coordinates in which the components of a separated mixture are looked for.
# Rows like those of the Palmer penguins (millimetres and grams) are drawn from the means, deviations and correlations of the three
# species, rounded; the wines of scikit-learn are taken as they are.
CORRELATION = np.array(
    [[1.0, 0.6, 0.6, 0.6], [0.6, 1.0, 0.5, 0.6], [0.6, 0.5, 1.0, 0.6], [0.6, 0.6, 0.6, 1.0]]
)
DEVIATIONS = np.array([[2.7, 1.2, 6.5, 457.0], [3.3, 1.1, 7.1, 382.0], [3.1, 1.0, 6.5, 502.0]])
PENGUINS = Mixture(
    np.array(
        [[38.8, 18.3, 190.0, 3701.0], [48.8, 18.4, 195.8, 3733.0], [47.5, 15.0, 217.2, 5076.0]]
    ),
    DEVIATIONS[:, :, None] * np.linalg.cholesky(CORRELATION),
    np.array([0.44, 0.2, 0.36]),
)


def penguins(n_pub=60, seed=0):
    rng = np.random.default_rng(seed)
    rows, labels = PENGUINS.draw(rng, 4000)
    return rows, labels, PENGUINS.draw(rng, n_pub)[0]


def found(rows, public, *, k=3, min_weight=0.15, method="auto", **options):
    return seeded(
        learn_separated_mixture, rows, x_pub=public, n_components=k, min_weight=min_weight, method=method,
        budget=ZCDP(0.5), threads=1, progress=False, **options,
    )  # fmt: skip


def wines():
    """Those of scikit-learn as they are, drawn again."""
    bunch = pytest.importorskip("sklearn.datasets").load_wine()
    rng = np.random.default_rng(1)
    picked = rng.integers(len(bunch.data), size=3000)
    return (
        bunch.data[picked],
        bunch.target[picked],
        bunch.data[rng.integers(len(bunch.data), size=60)],
    )


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize("method", ["one_shot", "public_pca"])
@pytest.mark.parametrize(("made", "least"), [(penguins, 0.9), (wines, 0.85)])
def test_columns_of_unlike_units(made, least, method, monkeypatch):
    rows, labels, public = made()
    assert matched(found(rows, public, method=method).tree.assign(rows), labels) > least
    # The fault that the choice mends: distances in the units that the rows come in.
    monkeypatch.setattr(searches, "column_scaling", lambda *_, **__: DATA_UNITS)
    assert matched(found(rows, public, method=method).tree.assign(rows), labels) < 0.75


@pytest.mark.parametrize("method", ["tree", "one_shot", "public_pca"])
def test_units_do_not_matter_and_results_are_in_them(method):
    """Powers of two, so that rounding is the same: every number comes out in the units of its column."""
    rng = np.random.default_rng(3)
    centers = np.array([[0.0, 0.0, 0.0], [20.0, 0.0, 5.0], [0.0, 20.0, 5.0]])
    labels = rng.integers(3, size=6000)
    rows = centers[labels] + rng.normal(size=(6000, 3))
    public = centers[np.arange(45) % 3] + rng.normal(size=(45, 3))
    units = 2.0 ** np.array([30, -30, 2])
    one, other = (
        found(rows * by, public * by, min_weight=0.2, method=method) for by in (np.ones(3), units)
    )
    assert "data units" not in (one.diagnostics["scaling"], other.diagnostics["scaling"])
    assert matched(one.tree.assign(rows), labels) > 0.999
    assert np.array_equal(one.tree.assign(rows), other.tree.assign(rows * units))
    # The same components; what is learnt of them may use that their columns look alike, which these do in one of the units.
    assert np.abs(other.means / units - one.means).max() < 0.1
    assert np.allclose(other.covariances / np.outer(units, units), one.covariances, atol=0.1)
    assert np.allclose(
        other.log_prob(rows[:50] * units), one.log_prob(rows[:50]) - np.log(units).sum(), atol=0.5
    )
    order = order_of(one, Mixture(centers, np.array([np.eye(3)] * 3), np.ones(3)))
    assert np.abs(one.means[order] - centers).max() < 0.3
    assert np.array_equal(MixtureResult.from_json(other.to_json()).means, other.means)
    again = ClusterTree.from_json(other.tree.to_json())
    assert np.array_equal(again.assign(rows * units), other.tree.assign(rows * units))


def test_released_balls_are_drawn_in_the_units_of_the_columns():
    rng = np.random.default_rng(4)
    labels = rng.integers(2, size=6000)
    rows = (np.array([[0.0, 0.0], [20.0, 20.0]])[labels] + rng.normal(size=(6000, 2))) * [
        1000.0,
        0.01,
    ]
    ball = found(rows, rows[:40].copy(), k=2, min_weight=0.3, method="tree").diagnostics["balls"][0]
    angle = np.linspace(0.0, 6.0, 50)
    edge = _outline(ball, np.zeros(2), np.eye(2), np.column_stack([np.cos(angle), np.sin(angle)]))
    projected = (edge - ball["origin"]) @ np.asarray(ball["projection"]).T - ball["center"]
    assert np.allclose(np.linalg.norm(projected, axis=1), ball["radius"])
    assert np.ptp(edge[:, 0]) > 1e4 * np.ptp(edge[:, 1])


def test_noise_columns_do_not_fill_a_gap(monkeypatch):
    """Groups that one of two columns tells apart: the fit is the same in any coordinates, and balls need the widest gap."""
    rng = np.random.default_rng(7)
    labels = np.arange(6000) % 2
    rows, public = (
        np.array([[0.0, 0.0], [60.0, 0.0]])[each] + rng.normal(size=(len(each), 2))
        for each in (labels, labels[:60])
    )
    units = np.array([1.0, 1000.0])

    def groups_found():
        result = found(rows * units, public * units, k=2, min_weight=0.3, method="tree")
        return matched(result.tree.assign(rows * units), labels)

    assert groups_found() > 0.999
    monkeypatch.setattr(tuning, "WIDER", np.inf)
    assert groups_found() < 0.6


def sparse(n_pub):
    """Components that two of fifty columns of one scale tell apart: divided by deviations, the others would hide them."""
    rng = np.random.default_rng(5)
    labels = np.arange(n_pub) % 3
    rows = rng.normal(size=(n_pub, 50))
    rows[:, :2] += np.array([[0.0, 15.0], [15.0, -15.0], [30.0, 15.0]])[labels]
    return rows


def test_collinear_columns_are_whitened_for_good_reasons_only(monkeypatch):
    """Air time and distance of flights: two groups that are wide apart, until what time adds to distance is blown up."""
    flights = new_york.load_flights()
    rows = flights.private[::20, :2].copy()
    public = flights.public[:, :2].copy()
    west = new_york.groups(flights)[::20]
    known = west >= 0

    def apart():
        result = found(rows, public, k=2, min_weight=0.1, method="tree")
        return matched(result.tree.assign(rows)[known], np.minimum(west[known], 1))

    assert column_scaling(public, 2, gap_share=0.05).name == "public standard deviations"
    assert apart() > 0.95
    monkeypatch.setattr(tuning, "MARGIN_PER_ROW", 0.0)
    assert column_scaling(public, 2, gap_share=0.05).name == "public within-group covariance"
    assert apart() < 0.9


def test_units_that_tell_components_apart_are_kept(monkeypatch):
    assert column_scaling(sparse(60), 3) is DATA_UNITS
    monkeypatch.setattr(tuning, "MARGIN", np.inf)
    assert column_scaling(sparse(60), 3) is not DATA_UNITS


def test_data_units_are_not_preferred_by_chance(monkeypatch):
    """Few public rows of penguins: a body mass that differs by chance is no reason to look at grams alone."""

    def chosen():
        return sum(
            column_scaling(penguins(n, seed)[2], 3) is DATA_UNITS
            for n in (6, 9, 12)
            for seed in range(30)
        )

    assert chosen() <= 2
    monkeypatch.setattr(tuning, "MARGIN", 0.0)
    monkeypatch.setattr(tuning, "MARGIN_PER_ROW", 0.0)
    assert chosen() >= 10


def test_the_covariance_within_groups_is_taken_where_rows_show_it():
    _, _, public = penguins(150)
    assert column_scaling(public, 3).name == "public within-group covariance"
    assert column_scaling(public[:5], 5).name == "public standard deviations"


@pytest.mark.parametrize("method", ["tree", "public_pca"])
def test_theory_is_as_in_the_paper(method):
    rows, _, public = penguins(20)
    assert found(rows, public, method=method, mode="theory").diagnostics["scaling"] == "data units"


def test_public_rows_alone_are_scaled_too():
    rows, labels, public = penguins()
    assert matched(public_only(public, n_components=3).tree.assign(rows), labels) > 0.85


# ---- MixtureResult: densities, posteriors, synthetic rows and the JSON round trip -----------------------------------
WEIGHTS = np.array([0.25, 0.75])
MEANS = np.array([[0.0, 1e6], [5.0, -1e6]])
COVARIANCES = np.array([[[1.0, 500.0], [500.0, 1e6]], [[4.0, 0.0], [0.0, 1e4]]])


def mixture():
    return MixtureResult(
        n_priv=100, n_pub=3, dim=2, spent=ZCDP(0.5), private=True, weights=WEIGHTS, means=MEANS,
        covariances=COVARIANCES, part_reasons=((), (Reason.FALLBACK,)), structure=("full", "public"), method="test",
    )  # fmt: skip


def test_densities_and_synthetic_rows_are_those_of_the_components():
    result = mixture()
    rows = np.array([[0.5, 1e6], [4.0, -1e6], [2.0, 0.0]])
    parts = [
        stats.multivariate_normal(m, c).pdf(rows[:2]) * w
        for m, c, w in zip(MEANS, COVARIANCES, WEIGHTS, strict=True)
    ]
    expected = np.sum(parts, axis=0)
    assert np.allclose(np.exp(result.log_prob(rows[:2])), expected, rtol=1e-9)
    assert np.allclose(result.predict_proba(rows[:2]), (np.array(parts) / expected).T)
    assert result.predict(rows[:2]).tolist() == [0, 1]
    # Far from every component the posterior is still a distribution.
    assert np.allclose(result.predict_proba(rows).sum(axis=1), 1.0)
    raises(InputError, "shape", mixture().predict, np.zeros((3, 5)))
    raises(InputError, "MixtureResult", MixtureResult.from_json, '{"kind": "MeanResult"}')
    # Synthetic rows follow the mixture.
    rows = mixture().sample(40_000, random_state=3)
    labels = mixture().predict(rows)
    assert abs(np.mean(labels) - 0.75) < 0.012  # 5.5 standard deviations
    for index in range(2):
        mine = rows[labels == index]
        assert np.allclose(
            mine.mean(axis=0),
            MEANS[index],
            atol=6 * np.sqrt(np.diag(COVARIANCES[index]) / len(mine)),
        )
        assert np.allclose(
            np.cov(mine.T), COVARIANCES[index], rtol=0.1, atol=0.06 * np.sqrt(1e6 * 4)
        )


def test_bounds_keep_means_inside_and_components_no_wider_than_they_can_be():
    low = np.array([1.0, -np.inf])
    high = np.array([7.0, np.inf])
    result = bounded(mixture(), (low, high))
    assert np.array_equal(result.means, [[1.0, 1e6], [5.0, -1e6]])
    # Between 1 and 7 with mean 5 a variance is at most 8; at an end, a thousandth of the distance is left as a width.
    assert result.variances[0, 0] == pytest.approx((6.0 * 1e-3) ** 2)
    assert np.array_equal(result.covariances[1], COVARIANCES[1])
    assert np.array_equal(result.variances[:, 1], [1e6, 1e4])
    correlations = [
        each[0, 1] / np.sqrt(each[0, 0] * each[1, 1])
        for each in (result.covariances[0], COVARIANCES[0])
    ]
    assert correlations[0] == pytest.approx(correlations[1])
    # one deviation is no more than a mean may be off
    assert result.part_reasons == ((), ("fallback",))
    assert result.diagnostics["bounds"] == ((1.0, None), (7.0, None))
    assert MixtureResult.from_json(result.to_json()).diagnostics == result.diagnostics
    away = bounded(mixture(), (np.array([2.0, -2e6]), np.array([3.0, 2e6])))
    assert away.part_reasons == (("clipped",), ("fallback",))
    assert away.diagnostics["outside_bounds"] == (True, False)


def test_a_known_covariance_stays_and_no_bounds_change_nothing():
    limits = np.array([2.0, -2e6]), np.array([3.0, 2e6])
    assert np.array_equal(
        bounded(mixture(), limits, known_covariance=True).covariances, COVARIANCES
    )
    whole = mixture()
    assert bounded(whole, None) is whole


def groups(**options):
    rng = np.random.default_rng(0)
    rows = np.abs(
        np.array([[0.0, 0.0], [9.0, 0.0]])[np.arange(600) % 2] + 0.3 * rng.normal(size=(600, 2))
    )
    given = {"budget": ZCDP(0.05), "random_state": 0, "threads": 1, "progress": False, **options}
    return rows, given


@pytest.mark.filterwarnings(
    "ignore::fastpubpriv.AccuracyWarning", "ignore::fastpubpriv.SeededNoiseWarning"
)
@pytest.mark.parametrize(
    "learn",
    [learn_separated_mixture, learn_axis_aligned_mixture],
    ids=["separated", "axis_aligned"],
)
def test_learners_take_bounds(learn):
    rows, given = groups()
    more = {"min_weight": 0.4} if learn is learn_separated_mixture else {}
    free = learn(rows[40:], x_pub=rows[:40], n_components=2, **more, **given)
    held = learn(
        rows[40:], x_pub=rows[:40], n_components=2, bounds=(0.0, [9.0, 0.2]), **more, **given
    )
    assert np.array_equal(held.means, np.clip(free.means, 0.0, [9.0, 0.2]))
    assert held.spent == free.spent
    assert np.all(held.variances <= free.variances)
    with pytest.warns(AccuracyWarning, match=r"public values lie beyond bounds= in x1,"):
        learn(
            rows[40:], x_pub=rows[:40], n_components=2, bounds=(0.0, [12.0, 0.2]), **more, **given
        )
    with pytest.raises(InputError, match="bounds must have each lowest"):
        learn(rows[40:], x_pub=rows[:40], n_components=2, bounds=(1.0, 0.0), **more, **given)
