"""EM on public rows, and the list that is made of it."""

import numpy as np
import pytest
from axis_cases import learn, matched
from scipy import stats

from benchmarks.papers.mixture_cases import CASES, Truth, distance_on_line
from fastpubpriv import ZCDP, InputError, PureDP
from fastpubpriv.mixtures.axis_aligned import public_em
from fastpubpriv.mixtures.axis_aligned.public_em import Batch
from fastpubpriv.mixtures.axis_aligned.public_list import from_pairs, public_candidates, scattered, standardised


def test_likelihood_is_that_of_scipy():
    rng = np.random.default_rng(0)
    batch = Batch(rng.dirichlet(np.ones(3), 4), rng.normal(size=(4, 3, 2)), np.exp(0.3 * rng.normal(size=(4, 3, 2))))
    rows = rng.normal(size=(50, 2))
    for index in range(4):
        density = sum(
            w * stats.norm.pdf(rows, m, s).prod(axis=1)
            for w, m, s in zip(batch.weights[index], batch.means[index], batch.stds[index], strict=True)
        )
        assert public_em.log_likelihood(batch, rows)[index] == pytest.approx(np.log(density).mean())


def test_em_climbs_and_recovers():
    rng = np.random.default_rng(1)
    truth = Truth(np.array([0.3, 0.7]), np.array([[-2.0, 0.0], [2.0, 1.0]]), np.array([[0.5, 1.0], [1.0, 0.3]]))
    rows = truth.draw(rng, 3000)
    batch = public_em.fit(rows, public_em.starts(rows, 2, 8, seed=1), steps=1, prior=0.0)
    last = public_em.log_likelihood(batch, rows)
    for _ in range(30):
        batch = public_em.step(batch, rows, None, prior=0.0, spread=1.0, fixed_std=False)
        now = public_em.log_likelihood(batch, rows)
        assert (now > last - 1e-4).all()  # weights are smoothed by half a row
        last = now
    best = int(np.argmax(last))
    order = np.argsort(batch.means[best, :, 0])
    assert np.abs(batch.means[best][order] - truth.means).max() < 0.12
    assert np.abs(batch.weights[best][order] - truth.weights).max() < 0.04


def test_differences_and_products_give_the_same_step(monkeypatch):
    rng = np.random.default_rng(2)
    batch = Batch(rng.dirichlet(np.ones(3), 4), rng.normal(size=(4, 3, 2)), np.exp(0.3 * rng.normal(size=(4, 3, 2))))
    rows = rng.normal(size=(50, 2))
    fast = public_em.step(batch, rows, None, prior=0.3, spread=1.0, fixed_std=False)
    monkeypatch.setattr(public_em, "_NARROW", np.inf)
    slow = public_em.step(batch, rows, None, prior=0.3, spread=1.0, fixed_std=False)
    for name in ("weights", "means", "stds"):
        np.testing.assert_allclose(getattr(slow, name), getattr(fast, name), rtol=1e-10)


FAR = Truth(np.array([0.3, 0.3, 0.4]), np.array([[-1e9], [0.0], [1e9]]), np.array([[1.0], [30.0], [0.2]]))
WIDE = Truth(np.array([0.4, 0.6]), np.array([[-500.0, 0.0], [500.0, 3.0]]), np.array([[1.0, 1.0], [2.0, 1.0]]))


@pytest.mark.parametrize(
    ("truth", "method", "budget", "n", "bounds"),
    [
        (FAR, "dp_em", ZCDP(0.05), 20_000, [0.2, 0.2, 0.03]),
        (FAR, "public_list", PureDP(1), 2000, [1.0, 0.7, 0.15]),
        (WIDE, "dp_em", ZCDP(0.05), 20_000, [0.2, 0.2, 0.03]),
    ],
)
def test_deviations_that_are_tiny_beside_the_distances(truth, method, budget, n, bounds):
    """A prior or a floor in units of the whole spread would leave deviations a hundred to a billion times too large."""
    rng = np.random.default_rng(7)
    result = learn(truth.draw(rng, n), len(truth.weights), budget=budget, x_pub=truth.draw(rng, 60), method=method)
    assert (matched(result, truth) < bounds).all()


def test_starts_are_rows_and_spread_out():
    rows = np.concatenate([np.zeros((99, 1)), [[100.0]]])
    centres = public_em.starts(rows, 2, 200, seed=3)[:, :, 0]
    assert set(np.unique(centres)) == {0.0, 100.0}
    # The far row is all of the squared distance: it is a centre every time.
    assert (centres.max(axis=1) == 100.0).all()


def test_a_bootstrap_counts_rows_as_often_as_it_says():
    rows = np.array([[0.0], [1.0], [5.0]])
    counts = np.array([[2.0, 1.0, 0.0]])
    centres = rows[None, :1]
    repeated = public_em.fit(np.array([[0.0], [0.0], [1.0]]), centres, steps=3, prior=0.0)
    weighted = public_em.fit(rows, centres, counts=counts, steps=3, prior=0.0)
    assert np.allclose(repeated.means, weighted.means, atol=1e-8)
    assert np.allclose(repeated.stds, weighted.stds, atol=1e-8)


@pytest.mark.parametrize("n_pub", [50, 200])
@pytest.mark.parametrize("name", ["two", "concentric", "three"])
def test_the_list_holds_something_near(name, n_pub):
    truth = CASES[name]
    found = public_candidates(truth.draw(np.random.default_rng(2), n_pub), len(truth.weights), 400)
    assert found.size == 400
    near = [distance_on_line(truth, Truth(found.weights[i], found.means[i], found.stds[i])) for i in range(0, 400, 4)]
    assert min(near) < (0.12 if n_pub == 50 else 0.07)
    # It is no cloud of copies, either: the farther half is clearly elsewhere.
    assert np.median(near) > 1.3 * min(near)


def test_the_same_rows_give_the_same_list():
    public = CASES["two"].draw(np.random.default_rng(3), 40)
    one, other = (public_candidates(public, 2, 200) for _ in range(2))
    assert np.array_equal(one.means, other.means)
    assert np.array_equal(one.stds, other.stds)


def test_the_list_moves_with_the_units():
    public = CASES["two"].draw(np.random.default_rng(3), 40)
    one, other = public_candidates(public, 2, 100), public_candidates(1e6 * public + 1e8, 2, 100)
    assert np.allclose(other.means, 1e6 * one.means + 1e8, rtol=1e-6)
    assert np.allclose(other.stds, 1e6 * one.stds, rtol=1e-6)


@pytest.mark.parametrize(
    "public",
    [
        np.zeros((2, 1)),
        np.full((30, 1), 7.0),
        np.array([[0.0], [1e12]]),
        np.arange(3.0)[:, None],
        np.full((5, 2), 1e-300),
    ],
)
def test_degenerate_public_rows_still_give_a_list(public):
    found = public_candidates(public, 3, 60)
    assert np.isfinite(found.means).all()
    assert (found.stds > 0.0).all()
    assert np.allclose(found.weights.sum(axis=1), 1.0)


def test_public_rows_beyond_squares_are_refused():
    with pytest.raises(InputError, match="x_pub"):
        standardised(np.array([[1e300], [-1e300]]), known_std=False)


def test_pairs_describe_a_component_that_em_has_too_few_rows_for():
    rng = np.random.default_rng(4)
    rows = np.concatenate([rng.normal(0.0, 1.0, 12), rng.normal(30.0, 0.5, 2)])[:, None]
    rows = (rows - rows.mean()) / rows.std()
    found = from_pairs(rows, 2, 20, known_std=False)
    assert (np.abs(found.means[:, :, 0] - rows[-2:].mean()).min(axis=1) < 0.3).any()


def test_scatter_is_of_the_size_of_standard_errors():
    heads = Batch(np.array([[0.5, 0.5]]), np.array([[[0.0], [10.0]]]), np.array([[[1.0], [2.0]]]))
    found = scattered(heads, np.zeros(1), 100, 4000, known_std=False)
    error = np.array([1.0, 2.0]) / np.sqrt(50.0)
    measured = found.means[:, :, 0].std(axis=0)
    assert (measured > 0.8 * error).all()
    assert (measured < 1.2 * error).all()
    fixed = scattered(heads, np.zeros(1), 100, 50, known_std=True)
    assert np.array_equal(np.unique(fixed.stds[:, 0]), [1.0])


def test_selected_is_near_the_best_of_the_list():
    truth = CASES["three"]
    rng = np.random.default_rng(5)
    public, rows = truth.draw(rng, 60), truth.draw(rng, 4000)
    found = public_candidates(public, 3, 500)
    best = min(
        distance_on_line(truth, Truth(found.weights[i], found.means[i], found.stds[i])) for i in range(found.size)
    )
    result = learn(rows, 3, budget=PureDP(1), x_pub=public, candidates=500)
    chosen = distance_on_line(truth, Truth(result.weights, result.means, np.sqrt(result.variances)))
    assert best - 1e-3 <= chosen <= 3.0 * best + 0.05
