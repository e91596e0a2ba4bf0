"""Columns of any units: public rows choose the coordinates in which the components of a separated mixture are looked for.

Rows like those of the Palmer penguins (millimetres and grams) are drawn from the means, deviations and correlations of the three
species, rounded; the wines of scikit-learn are taken as they are.
"""

import numpy as np
import pytest
from mixture_cases import Mixture, matched, order_of
from spies import seeded

from examples import new_york
from fastpubpriv import ZCDP, ClusterTree, MixtureResult, learn_separated_mixture, public_only
from fastpubpriv.mixtures.separated import scaling, searches
from fastpubpriv.mixtures.separated.scaling import DATA_UNITS, column_scaling
from fastpubpriv.results.mixture_plots import _outline

CORRELATION = np.array([[1.0, 0.6, 0.6, 0.6], [0.6, 1.0, 0.5, 0.6], [0.6, 0.5, 1.0, 0.6], [0.6, 0.6, 0.6, 1.0]])
DEVIATIONS = np.array([[2.7, 1.2, 6.5, 457.0], [3.3, 1.1, 7.1, 382.0], [3.1, 1.0, 6.5, 502.0]])
PENGUINS = Mixture(
    np.array([[38.8, 18.3, 190.0, 3701.0], [48.8, 18.4, 195.8, 3733.0], [47.5, 15.0, 217.2, 5076.0]]),
    DEVIATIONS[:, :, None] * np.linalg.cholesky(CORRELATION),
    np.array([0.44, 0.2, 0.36]),
)
METHODS = ("auto", "one_shot", "public_pca")


def in_data_units(monkeypatch):
    """The fault that the choice mends: distances in the units that the rows come in."""
    monkeypatch.setattr(searches, "column_scaling", lambda *_, **__: DATA_UNITS)


def penguins(n_pub=60, seed=0):
    rng = np.random.default_rng(seed)
    rows, labels = PENGUINS.draw(rng, 4000)
    return rows, labels, PENGUINS.draw(rng, n_pub)[0]


def found(rows, public, *, k=3, min_weight=0.15, method="auto", **options):
    return seeded(
        learn_separated_mixture, rows, x_pub=public, n_components=k, min_weight=min_weight, method=method,
        budget=ZCDP(0.5), threads=1, progress=False, **options,
    )  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_penguins_in_grams_and_millimetres(method, monkeypatch):
    rows, labels, public = penguins()
    assert matched(found(rows, public, method=method).tree.assign(rows), labels) > 0.9
    in_data_units(monkeypatch)
    assert matched(found(rows, public, method=method).tree.assign(rows), labels) < 0.75


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize("method", ["one_shot", "public_pca"])
def test_wines_as_they_are(method, monkeypatch):
    bunch = pytest.importorskip("sklearn.datasets").load_wine()
    rng = np.random.default_rng(1)
    picked = rng.integers(len(bunch.data), size=3000)
    rows, labels = bunch.data[picked], bunch.target[picked]
    public = bunch.data[rng.integers(len(bunch.data), size=60)]
    assert matched(found(rows, public, method=method).tree.assign(rows), labels) > 0.85
    in_data_units(monkeypatch)
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
    one, other = (found(rows * by, public * by, min_weight=0.2, method=method) for by in (np.ones(3), units))
    assert "data units" not in (one.diagnostics["scaling"], other.diagnostics["scaling"])
    assert matched(one.tree.assign(rows), labels) > 0.999
    assert np.array_equal(one.tree.assign(rows), other.tree.assign(rows * units))
    # The same components; what is learnt of them may use that their columns look alike, which these do in one of the units.
    assert np.abs(other.means / units - one.means).max() < 0.1
    assert np.allclose(other.covariances / np.outer(units, units), one.covariances, atol=0.1)
    assert np.allclose(other.log_prob(rows[:50] * units), one.log_prob(rows[:50]) - np.log(units).sum(), atol=0.5)
    assert (
        np.abs(one.means[order_of(one, Mixture(centers, np.array([np.eye(3)] * 3), np.ones(3)))] - centers).max() < 0.3
    )
    assert np.array_equal(MixtureResult.from_json(other.to_json()).means, other.means)
    again = ClusterTree.from_json(other.tree.to_json())
    assert np.array_equal(again.assign(rows * units), other.tree.assign(rows * units))


def test_released_balls_are_drawn_in_the_units_of_the_columns():
    rng = np.random.default_rng(4)
    labels = rng.integers(2, size=6000)
    rows = (np.array([[0.0, 0.0], [20.0, 20.0]])[labels] + rng.normal(size=(6000, 2))) * [1000.0, 0.01]
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
        np.array([[0.0, 0.0], [60.0, 0.0]])[each] + rng.normal(size=(len(each), 2)) for each in (labels, labels[:60])
    )
    units = np.array([1.0, 1000.0])

    def groups_found():
        result = found(rows * units, public * units, k=2, min_weight=0.3, method="tree")
        return matched(result.tree.assign(rows * units), labels)

    assert groups_found() > 0.999
    monkeypatch.setattr(scaling, "WIDER", np.inf)
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
    rows, public = flights.private[::20, :2].copy(), flights.public[:, :2].copy()
    west = new_york.groups(flights)[::20]
    known = west >= 0

    def apart():
        result = found(rows, public, k=2, min_weight=0.1, method="tree")
        return matched(result.tree.assign(rows)[known], np.minimum(west[known], 1))

    assert column_scaling(public, 2, gap_share=0.05).name == "public standard deviations"
    assert apart() > 0.95
    monkeypatch.setattr(scaling, "MARGIN_PER_ROW", 0.0)
    assert column_scaling(public, 2, gap_share=0.05).name == "public within-group covariance"
    assert apart() < 0.9


def test_units_that_tell_components_apart_are_kept(monkeypatch):
    assert column_scaling(sparse(60), 3) is DATA_UNITS
    monkeypatch.setattr(scaling, "MARGIN", np.inf)
    assert column_scaling(sparse(60), 3) is not DATA_UNITS


def test_data_units_are_not_preferred_by_chance(monkeypatch):
    """Few public rows of penguins: a body mass that differs by chance is no reason to look at grams alone."""

    def chosen():
        return sum(column_scaling(penguins(n, seed)[2], 3) is DATA_UNITS for n in (6, 9, 12) for seed in range(30))

    assert chosen() <= 2
    monkeypatch.setattr(scaling, "MARGIN", 0.0)
    monkeypatch.setattr(scaling, "MARGIN_PER_ROW", 0.0)
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
