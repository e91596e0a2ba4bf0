"""Columns of any units: public rows choose the coordinates of the search and of covariances of few rows."""

import numpy as np
import pytest
from mixture_cases import Mixture, matched, order_of
from spies import seeded

from examples import new_york
from fastpubpriv import (
    ZCDP,
    MixtureResult,
    learn_separated_mixture,
    public_only,
)
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.separated import searches
from fastpubpriv.mixtures.separated.public_shapes import DATA_UNITS, column_scaling
from fastpubpriv.mixtures.separated.search_state import ClusterTree
from fastpubpriv.results.mixture_plots import _outline

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
        learn_separated_mixture,
        rows,
        x_pub=public,
        n_components=k,
        min_weight=min_weight,
        method=method,
        budget=ZCDP(0.5),
        threads=1,
        progress=False,
        **options,
    )


def wines():
    """Those of scikit-learn as they are, drawn again."""
    bunch = pytest.importorskip("sklearn.datasets").load_wine()
    rng = np.random.default_rng(1)
    picked = rng.integers(len(bunch.data), size=3000)
    public = rng.integers(len(bunch.data), size=60)
    return bunch.data[picked], bunch.target[picked], bunch.data[public]


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
    one = found(rows, public, min_weight=0.2, method=method)
    other = found(rows * units, public * units, min_weight=0.2, method=method)
    assert one.diagnostics["scaling"] != "data units"
    assert other.diagnostics["scaling"] != "data units"
    assert matched(one.tree.assign(rows), labels) > 0.999
    assert np.array_equal(one.tree.assign(rows), other.tree.assign(rows * units))
    # The same components; what is learnt of them may use that their columns look alike, which these do in one of the units.
    assert np.abs(other.means / units - one.means).max() < 0.1
    assert np.allclose(other.covariances / np.outer(units, units), one.covariances, atol=0.1)
    expected_density = one.log_prob(rows[:50]) - np.log(units).sum()
    assert np.allclose(other.log_prob(rows[:50] * units), expected_density, atol=0.5)
    order = order_of(one, Mixture(centers, np.array([np.eye(3)] * 3), np.ones(3)))
    assert np.abs(one.means[order] - centers).max() < 0.3
    assert np.array_equal(MixtureResult.from_json(other.to_json()).means, other.means)
    again = ClusterTree.from_json(other.tree.to_json())
    assert np.array_equal(again.assign(rows * units), other.tree.assign(rows * units))


def test_released_balls_are_drawn_in_the_units_of_the_columns():
    rng = np.random.default_rng(4)
    labels = rng.integers(2, size=6000)
    centers = np.array([[0.0, 0.0], [20.0, 20.0]])
    rows = (centers[labels] + rng.normal(size=(6000, 2))) * [1000.0, 0.01]
    result = found(rows, rows[:40].copy(), k=2, min_weight=0.3, method="tree")
    ball = result.diagnostics["balls"][0]
    angle = np.linspace(0.0, 6.0, 50)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    edge = _outline(ball, np.zeros(2), np.eye(2), circle)
    projected = (edge - ball["origin"]) @ np.asarray(ball["projection"]).T - ball["center"]
    assert np.allclose(np.linalg.norm(projected, axis=1), ball["radius"])
    assert np.ptp(edge[:, 0]) > 1e4 * np.ptp(edge[:, 1])


def test_noise_columns_do_not_fill_a_gap(monkeypatch):
    """Groups that one of two columns tells apart: the fit is the same in any coordinates, and balls need the widest gap."""
    rng = np.random.default_rng(7)
    labels = np.arange(6000) % 2
    centers = np.array([[0.0, 0.0], [60.0, 0.0]])
    rows = centers[labels] + rng.normal(size=(6000, 2))
    public = centers[labels[:60]] + rng.normal(size=(60, 2))
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


# ---- The covariance of a few public rows: whatever the units of the columns, and named where a column says nothing.
UNITS = np.array([1e6, 1e-6, 3.0])


def rows_of(seed, n):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)) @ rng.normal(size=(3, 3)) + 5.0


@pytest.mark.parametrize("n", [2, 3, 5, 40])
def test_units_do_not_matter_to_a_covariance(n):
    rows = rows_of(1, n)
    one = public_only(rows, n_components=1).covariances[0]
    other = public_only(rows * UNITS, n_components=1).covariances[0]
    assert np.allclose(other / np.outer(UNITS, UNITS), one, rtol=1e-9)
    assert np.linalg.eigvalsh(one)[0] > 0.0
    # Control: a multiple of the identity is lost in the largest column.
    sample = np.cov((rows * UNITS).T)
    before = 3 / (3 + n) * np.trace(sample) / 3 * np.eye(3) + n / (3 + n) * sample
    assert before[1, 1] > 1e6 * other[1, 1]


def test_a_constant_column_gets_a_typical_variance_and_is_named():
    rows = rows_of(2, 9)
    rows[:, 1] = 7.0
    result = public_only(rows, n_components=1)
    assert list(result.diagnostics["fallback_columns"]) == ["1"]
    assert np.linalg.eigvalsh(result.covariances[0])[0] > 0.0
    typical = np.sqrt(rows[:, 0].var() * rows[:, 2].var())
    assert result.covariances[0][1, 1] == pytest.approx(typical)
