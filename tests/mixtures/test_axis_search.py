"""The search behind the learner of one column: partitions, and fits to noisy counts. Post-processing, so plain tests."""

import itertools
import math

import numpy as np
import pytest
from mixture_cases import one
from scipy import integrate, stats

from benchmarks.papers.mixture_cases import Truth
from fastpubpriv.errors import InputError
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures import public_em
from fastpubpriv.mixtures.axis_aligned import candidates as subsets
from fastpubpriv.mixtures.axis_aligned import cell_fits
from fastpubpriv.mixtures.axis_aligned.candidates import atoms, beam, best_fit, searched
from fastpubpriv.mixtures.axis_aligned.cell_fits import (
    CellHistogram,
    cell_masses,
    masses,
    misfit,
    refine,
)
from fastpubpriv.mixtures.axis_aligned.places import (
    DyadicScale,
    kept_scales,
    nested_counts,
    partition,
)
from fastpubpriv.mixtures.gaussian_mixture import GaussianMixture, joined
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
def test_fits_are_near_the_truth_in_any_unit(unit, shift):
    plain = noisy(TRUTH, 8000, 3)
    cells = CellHistogram((plain.edges + shift) * unit, plain.counts, plain.noise_std, plain.total)
    heads = searched(cells, 3)
    assert sum(head.mixtures.size for head in heads) >= 3
    found, spread = best_fit(heads, cells.total)
    back = GaussianMixture(found.weights, found.means / unit - shift, found.stds / unit)
    assert total_variation(back) < 0.04
    assert spread.shape == (9, 9)


def test_public_counts_pull_the_fit_as_their_number_says():
    """Noise hides the private rows: the fit is that of the public rows alone, whose weights differ."""
    other = one([0.6, 0.1, 0.3], [-5.0, 0.0, 4.0], [1.0, 0.3, 2.0])
    rng = np.random.default_rng(2)
    public = rng.multinomial(5000, masses(other, EDGES)[0]).astype(float)
    cells = CellHistogram(EDGES, noisy(TRUTH, 2000, 3, noise_std=1e4).counts, 1e4, 2000, public)
    found, _ = best_fit(searched(cells, 3), 7000)
    assert total_variation(found, other) < 0.03
    # Ten times as many private rows with hardly any noise decide.
    cells = CellHistogram(EDGES, noisy(TRUTH, 50_000, 3, noise_std=0.1).counts, 0.1, 50_000, public)
    found, _ = best_fit(searched(cells, 3), 55_000)
    assert total_variation(found) < 0.04 < 0.2 < total_variation(found, other)


def test_slopes_of_the_misfit_are_those_of_finite_differences():
    """The gradient of Gauss-Newton steps is minus half the slope of the misfit where counts are those of the mixture or public."""
    rng = np.random.default_rng(4)
    public = rng.multinomial(300, masses(TRUTH, EDGES)[0]).astype(float)
    # A tiny total leaves the public counts alone, whose likelihood is exact.
    cells = CellHistogram(EDGES, np.zeros(len(EDGES) - 1), 1e6, 1, public)
    at = one([0.25, 0.35, 0.4], [-4.8, 0.1, 3.7], [1.2, 0.35, 1.7])
    inside = cell_masses(at, EDGES)
    _, gradient = cell_fits._normal_equations(at, inside, cells, fixed_std=False)
    for place in range(9):
        step = np.zeros((1, 9))
        step[0, place] = 1e-5
        ends = [cell_fits.moved(cell_fits.flat(at), sign * step, least=0.0) for sign in (1, -1)]
        mixtures = [cell_fits.unpacked(end) for end in ends]
        up, down = (float(misfit(cells, masses(each, EDGES))[0]) for each in mixtures)
        assert -(up - down) / 4e-5 == pytest.approx(gradient[0, place], rel=1e-4, abs=1e-4)


def test_the_beam_holds_the_best_subsets():
    """Pairs of few atoms by the definition: no two kept subsets are neighbors, and none left out explains more than the best."""
    cells = noisy(TRUTH, 4000, 1)
    found = atoms(cells)
    found = found[np.sort(np.random.default_rng(1).permutation(found.size)[:40])]
    gram, product = subsets.linear(cells, found)
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
    inside, z = cell_masses(GaussianMixture(np.ones((1, 7)), means, stds), edges)
    alone, z_alone = cell_masses(GaussianMixture(np.ones((1, 1)), means[:, 6:], stds[:, 6:]), edges)
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


# ---- EM on public rows  -------------------------------------------------------------
def test_likelihood_is_that_of_scipy():
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(3))
    means = rng.normal(size=(3, 2))
    roots = np.tril(rng.normal(size=(3, 2, 2))) + 2.0 * np.eye(2)
    full = GaussianMixture(weights, means, roots @ roots.swapaxes(1, 2))
    rows = rng.normal(size=(50, 2))
    for at in (full, full.axis_aligned):
        density = sum(
            weight * stats.multivariate_normal.pdf(rows, mean, covariance)
            for weight, mean, covariance in zip(weights, means, at.covariances, strict=True)
        )
        share, likelihood = public_em.responsibilities(rows, at)
        constant = 50 * math.log(2.0 * math.pi)
        assert likelihood - constant == pytest.approx(np.log(density).sum())
        assert share.sum(axis=1) == pytest.approx(np.ones(50))


@pytest.mark.parametrize("kind", [public_em.ComponentShape.DIAGONAL, public_em.ComponentShape.FULL])
def test_em_climbs_and_recovers(kind):
    rng = np.random.default_rng(1)
    truth = Truth(
        np.array([0.3, 0.7]),
        np.array([[-2.0, 0.0], [2.0, 1.0]]),
        np.array([[0.5, 1.0], [1.0, 0.3]]),
    )
    rows = truth.draw(rng, 3000)
    at = GaussianMixture(truth.weights, truth.means + 0.4, 1.5 * truth.stds)
    at = at.full if kind is public_em.ComponentShape.FULL else at
    share, last = public_em.responsibilities(rows, at)
    for _ in range(30):
        at = public_em.weighted_gaussians(rows, share, rows.var(axis=0), kind)
        share, now = public_em.responsibilities(rows, at)
        assert now > last - 0.1  # variances are shrunk by two rows, weights by half a row
        last = now
    assert np.abs(at.means - truth.means).max() < 0.12
    assert np.abs(np.log(at.stds / truth.stds)).max() < 0.1
    assert np.abs(at.weights - truth.weights).max() < 0.04


def test_public_rows_beyond_squares_are_refused():
    with pytest.raises(InputError, match="x_pub"):
        public_em.axis_aligned_start(np.array([[1e300], [-1e300]]), 2, known_std=False)
