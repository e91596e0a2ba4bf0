"""The search behind the univariate learner: partitions, fits to noisy counts, candidates. Post-processing, so plain tests."""

import itertools
import math

import numpy as np
import pytest
from mixture_cases import axis_matched, learn, one
from scipy import integrate, stats

from benchmarks.papers.mixture_cases import CASES, Truth, distance_on_line
from fastpubpriv import ZCDP, PureDP
from fastpubpriv.errors import InputError
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.axis_aligned import candidates as subsets
from fastpubpriv.mixtures.axis_aligned import em as public_em
from fastpubpriv.mixtures.axis_aligned.candidates import (
    DyadicScale,
    atoms,
    beam,
    best_fit,
    candidates,
    kept_scales,
    nested_counts,
    partition,
    searched,
)
from fastpubpriv.mixtures.axis_aligned.dp_em import public_candidates, standardized
from fastpubpriv.mixtures.axis_aligned.em import (
    CellHistogram,
    Mixtures,
    cell_masses,
    joined,
    masses,
    misfit,
    refine,
)
from fastpubpriv.mixtures.list_decoding import results

TRUTH = one([0.3, 0.3, 0.4], [-5.0, 0.0, 4.0], [1.0, 0.3, 2.0])
EDGES = np.concatenate([[-np.inf], np.linspace(-16.0, 16.0, 257), [np.inf]])


def expected(truth, n, noise_std=2.8):
    return CellHistogram(EDGES, n * masses(truth, EDGES)[0], noise_std, n)


def noisy(truth, n, seed, noise_std=2.8):
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(n, masses(truth, EDGES)[0]) + rng.laplace(
        0.0, noise_std / np.sqrt(2.0), len(EDGES) - 1
    )
    return CellHistogram(EDGES, counts, noise_std, n)


def total_variation(one_fit, truth=TRUTH):
    points = np.linspace(-20.0, 20.0, 8001)
    densities = [
        sum(
            w * stats.norm.pdf(points, m, s)
            for w, m, s in zip(f.weights[0], f.means[0], f.stds[0], strict=True)
            if w
        )
        for f in (one_fit, truth)
    ]
    return 0.5 * integrate.trapezoid(np.abs(densities[0] - densities[1]), points)


def test_masses_are_those_of_scipy_in_both_tails():
    edges = np.array([-np.inf, -40.0, -3.0, 0.0, 2.0, 9.0, 38.0, np.inf])
    found = masses(TRUTH, edges)[0]
    exact = np.zeros(len(edges) - 1)
    for w, m, s in zip(TRUTH.weights[0], TRUTH.means[0], TRUTH.stds[0], strict=True):
        far = edges[:-1] > m
        exact += w * np.where(
            far,
            stats.norm.sf(edges[:-1], m, s) - stats.norm.sf(edges[1:], m, s),
            np.diff(stats.norm.cdf(edges, m, s)),
        )
    assert np.allclose(found, exact, rtol=1e-9, atol=0.0)
    assert 0.0 < found[-1] < 1e-60  # no digits are lost far out


def test_refine_never_fits_worse_and_reaches_the_truth_from_afar():
    cells = expected(TRUTH, 10**6)
    starts = joined(
        [
            one([0.4, 0.3, 0.3], [-7.0, 1.0, 6.0], [3.0, 1.0, 4.0]),
            one([0.2, 0.2, 0.6], [-3.0, 0.0, 3.0], [1.0] * 3),
        ]
    )
    before = misfit(cells, masses(starts, cells.edges))
    fit = refine(cells, starts, steps=60)
    assert (fit.score <= before).all()
    assert total_variation(fit.mixtures[[int(np.argmin(fit.score))]]) < 1e-3


def test_coarse_counts_fill_in_what_fine_ones_suppress():
    fine = DyadicScale(1.0, np.array([2]), np.array([300.0]))
    pieces = nested_counts([DyadicScale(4.0, np.array([0, 1]), np.array([400.0, 80.0])), fine])
    assert pieces == [
        (0.0, 2.0, pytest.approx(200 / 3)), (2.0, 3.0, 300.0), (3.0, 4.0, pytest.approx(100 / 3)), (4.0, 8.0, 80.0),
    ]  # fmt: skip
    # A coarse count below what lies in it adds nothing, and takes nothing away.
    low = DyadicScale(4.0, np.array([0]), np.array([250.0]))
    assert sum(piece[2] for piece in nested_counts([low, fine])) == 300.0


@pytest.mark.parametrize("offset", [0.0, 2.0**40, -(2.0**48)])
def test_partition_covers_the_line_and_is_fine_where_rows_are(offset):
    place = offset / 4.0
    scale = DyadicScale(4.0, np.array([place, place + 5], dtype=np.int64), np.array([600.0, 100.0]))
    edges = partition([scale], counted=1000, total=4000)
    assert edges[0] == -np.inf
    assert edges[-1] == np.inf
    assert (np.diff(edges) > 0.0).all()
    inside = edges[(edges >= offset) & (edges <= offset + 4.0)]
    sparse = edges[(edges >= offset + 20.0) & (edges <= offset + 24.0)]
    assert len(inside) > len(sparse) > 3
    assert len(edges) < tuning.LINE_CELLS + 200
    assert {offset, offset + 4.0, offset + 20.0, offset + 24.0} <= set(edges.tolist())


def dyadic_counts(std, pairs):
    keys = np.arange(-30, 6)
    ends = np.ldexp(1.0, keys)
    return keys[:, None].astype(np.int64), pairs * 2.0 * (
        stats.norm.sf(ends / std) - stats.norm.sf(2.0 * ends / std)
    )


@pytest.mark.parametrize("pairs", [1e3, 1e5, 1e8])
def test_bins_that_halve_are_no_scales(pairs):
    # However many pairs there are, the ever finer bins of one Gaussian are no scales of their own; its own scale is kept.
    keys, counts = dyadic_counts(1.0, pairs)
    scales = kept_scales(keys, counts, 2.8, tuning.LINE_SCALES)
    assert 1.0 in scales or 2.0 in scales
    assert min(scales) >= 2.0**-7
    # A second component a thousand times narrower is one.
    narrow = counts + 0.1 * dyadic_counts(1e-3, pairs)[1]
    assert min(kept_scales(keys, narrow, 2.8, tuning.LINE_SCALES)) < 4e-3


@pytest.mark.parametrize("shift", [0.0, 1e9])
@pytest.mark.parametrize("unit", [1.0, 2.0**-400, 2.0**300])
def test_candidates_lie_around_the_truth_in_any_unit(unit, shift):
    plain = noisy(TRUTH, 8000, 3)
    cells = CellHistogram((plain.edges + shift) * unit, plain.counts, plain.noise_std, plain.total)
    heads = searched(cells, 3)
    found, facts = candidates(heads, size=120)
    assert found.size <= 120
    assert facts["starts"] >= 3
    back = Mixtures(found.weights, found.means / unit - shift, found.stds / unit)
    assert min(total_variation(back[[index]]) for index in range(0, found.size, 3)) < 0.04
    one_fit = best_fit(heads, cells.total)
    assert (
        total_variation(
            Mixtures(one_fit.weights, one_fit.means / unit - shift, one_fit.stds / unit)
        )
        < 0.07
    )


def test_the_beam_holds_the_best_subsets():
    """Pairs of few atoms by the definition: no two kept subsets are neighbors, and none left out explains more than the best."""
    cells = noisy(TRUTH, 4000, 1)
    found = atoms(cells)
    found = found[np.sort(np.random.default_rng(1).permutation(found.size)[:40])]
    shapes, weighted = subsets.linear(cells, found)
    gram = weighted @ shapes.T
    product = weighted @ cells.counts
    pairs = np.array(list(itertools.combinations(range(found.size), 2)))
    shares, gain = subsets._explained(gram, product, pairs)
    best = pairs[np.argmax(gain)]
    level = beam(cells, found, 2)[1]
    assert level.means[0].tolist() == found.means[best, 0].tolist()
    assert level.stds[0].tolist() == found.stds[best, 0].tolist()
    right = shares[np.argmax(gain)]
    assert np.allclose(level.weights[0], right / right.sum())
    assert level.size <= tuning.BEAM


def test_hostile_mixtures_do_no_harm():
    """Widths of zero, means far away and numbers that are none: no warning, no exception, and good mixtures beside them stay."""
    edges = np.array([-np.inf, -1.0, 0.0, 1e-300, 2.0, 1e300, np.inf])
    means = np.array([[0.0, 1e300, -np.inf, np.nan, 1.0, 0.0, 0.0]])
    stds = np.array([[0.0, 1e-300, 1.0, 1.0, np.inf, np.nan, 1.0]])
    inside, z = cell_masses(Mixtures(np.ones((1, 7)), means, stds), edges)
    alone, z_alone = cell_masses(Mixtures(np.ones((1, 1)), means[:, 6:], stds[:, 6:]), edges)
    for part, good in zip((inside, z), (alone, z_alone), strict=True):
        assert np.isnan(part[0, 5]).all()
        assert np.array_equal(part[:, 6:], good)


# ---- Nets: exact sizes, every point once, and what they cover -------------------------------------------------------
def units(point, resolution):
    return tuple(np.rint(np.asarray(point) * resolution).astype(int).tolist())


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("resolution", [1, 3, 4])
@pytest.mark.parametrize("candidates", [0, 1, 2, 3])
def test_mixture_net_has_each_mixture_once(k, resolution, candidates):
    found = [
        tuple(sorted(zip(components.tolist(), units(weights, resolution), strict=True)))
        for components, weights in results.mixture_net(candidates, k, resolution)
    ]
    simplex = [
        t for t in itertools.product(range(resolution + 1), repeat=k) if sum(t) == resolution
    ]
    ordered = {
        tuple(sorted(zip(components, point, strict=True)))
        for components in itertools.product(range(candidates), repeat=k)
        for point in simplex
    }
    assert len(found) == len(set(found)) == results.mixture_net_size(candidates, k, resolution)
    assert set(found) == ordered
    assert len(found) <= candidates**k * len(simplex)


@pytest.mark.parametrize("accuracy", [0.05, 0.3, 0.66])
def test_gaussian_net_comes_close(accuracy):
    rng = np.random.default_rng(1)
    for _ in range(200):
        scale = math.ldexp(1.0, int(rng.integers(-20, 20)))
        sigma = scale * rng.uniform(0.5, 1.0)
        center = rng.normal() * 100 * scale
        mu = center + rng.uniform(-1, 1) * sigma
        net = results.gaussian_net(center, scale, accuracy)
        assert net.shape == (results.gaussian_net_size(accuracy), 2)
        gaps = np.abs(net - [mu, sigma]) / sigma
        assert (gaps <= accuracy * (1 + 1e-12)).all(axis=1).any()
    assert (
        not (np.abs(results.gaussian_net(0.0, 1.0, accuracy) - [1.7, 0.7]) <= accuracy * 0.2)
        .all(axis=1)
        .any()
    )


# ---- EM on public rows, and the list that is made of it -------------------------------------------------------------
def test_likelihood_is_that_of_scipy():
    rng = np.random.default_rng(0)
    batch = Mixtures(
        rng.dirichlet(np.ones(3), 4),
        rng.normal(size=(4, 3, 2)),
        np.exp(0.3 * rng.normal(size=(4, 3, 2))),
    )
    rows = rng.normal(size=(50, 2))
    for index in range(4):
        density = sum(
            w * stats.norm.pdf(rows, m, s).prod(axis=1)
            for w, m, s in zip(
                batch.weights[index], batch.means[index], batch.stds[index], strict=True
            )
        )
        assert public_em.log_likelihood(batch, rows)[index] == pytest.approx(np.log(density).mean())


def test_em_climbs_and_recovers():
    rng = np.random.default_rng(1)
    truth = Truth(
        np.array([0.3, 0.7]),
        np.array([[-2.0, 0.0], [2.0, 1.0]]),
        np.array([[0.5, 1.0], [1.0, 0.3]]),
    )
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


FAR = Truth(
    np.array([0.3, 0.3, 0.4]), np.array([[-1e9], [0.0], [1e9]]), np.array([[1.0], [30.0], [0.2]])
)
WIDE = Truth(
    np.array([0.4, 0.6]),
    np.array([[-500.0, 0.0], [500.0, 3.0]]),
    np.array([[1.0, 1.0], [2.0, 1.0]]),
)


@pytest.mark.parametrize(("truth", "method", "budget", "n", "bounds"), [
    (FAR, "dp_em", ZCDP(0.05), 20_000, [0.2, 0.2, 0.03]),
    (FAR, "public_list", PureDP(1), 2000, [1.0, 0.7, 0.15]),
    (WIDE, "dp_em", ZCDP(0.05), 20_000, [0.2, 0.2, 0.03]),
])  # fmt: skip
def test_deviations_that_are_tiny_beside_the_distances(truth, method, budget, n, bounds):
    """A prior or a floor in units of the whole spread would leave deviations a hundred to a billion times too large."""
    rng = np.random.default_rng(7)
    result = learn(
        truth.draw(rng, n),
        len(truth.weights),
        budget=budget,
        x_pub=truth.draw(rng, 60),
        method=method,
    )
    assert (axis_matched(result, truth) < bounds).all()


def test_a_bootstrap_counts_rows_as_often_as_it_says():
    rows = np.array([[0.0], [1.0], [5.0]])
    counts = np.array([[2.0, 1.0, 0.0]])
    centers = rows[None, :1]
    repeated = public_em.fit(np.array([[0.0], [0.0], [1.0]]), centers, steps=3, prior=0.0)
    weighted = public_em.fit(rows, centers, counts=counts, steps=3, prior=0.0)
    assert np.allclose(repeated.means, weighted.means, atol=1e-8)
    assert np.allclose(repeated.stds, weighted.stds, atol=1e-8)


@pytest.mark.parametrize("n_pub", [50, 200])
@pytest.mark.parametrize("name", ["two", "concentric", "three"])
def test_the_list_holds_something_near(name, n_pub):
    truth = CASES[name]
    found = public_candidates(truth.draw(np.random.default_rng(2), n_pub), len(truth.weights), 400)
    assert found.size == 400
    near = [
        distance_on_line(truth, Truth(found.weights[i], found.means[i], found.stds[i]))
        for i in range(0, 400, 4)
    ]
    assert min(near) < (0.12 if n_pub == 50 else 0.07)
    # It is no cloud of copies, either: the farther half is clearly elsewhere.
    assert np.median(near) > 1.3 * min(near)


def test_the_list_moves_with_the_units():
    public = CASES["two"].draw(np.random.default_rng(3), 40)
    one = public_candidates(public, 2, 100)
    other = public_candidates(1e6 * public + 1e8, 2, 100)
    assert np.allclose(other.means, 1e6 * one.means + 1e8, rtol=1e-6)
    assert np.allclose(other.stds, 1e6 * one.stds, rtol=1e-6)


@pytest.mark.parametrize("public", [
    np.zeros((2, 1)), np.full((30, 1), 7.0), np.array([[0.0], [1e12]]), np.arange(3.0)[:, None],
    np.full((5, 2), 1e-300),
])  # fmt: skip
def test_degenerate_public_rows_still_give_a_list(public):
    found = public_candidates(public, 3, 60)
    assert np.isfinite(found.means).all()
    assert (found.stds > 0.0).all()
    assert np.allclose(found.weights.sum(axis=1), 1.0)


def test_public_rows_beyond_squares_are_refused():
    with pytest.raises(InputError, match="x_pub"):
        standardized(np.array([[1e300], [-1e300]]), known_std=False)
