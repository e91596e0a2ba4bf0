"""The search behind the univariate learner: partitions, fits to noisy counts, candidates. Post-processing, so plain tests."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr, ndtri
from scipy.stats import qmc

from fastpubpriv.kernels import normals as kernels
from fastpubpriv.mixtures.axis_aligned import binned_em
from fastpubpriv.mixtures.axis_aligned import candidates as subsets
from fastpubpriv.mixtures.axis_aligned.binned_em import (
    Cells,
    Mixtures,
    cell_masses,
    cell_parts,
    em,
    joined,
    masses,
    misfit,
    moved,
    refine,
)
from fastpubpriv.mixtures.axis_aligned.candidates import (
    MOST_CELLS,
    Scale,
    atoms,
    beam,
    best_fit,
    candidates,
    distinct,
    low_discrepancy,
    nested_counts,
    partition,
)
from fastpubpriv.mixtures.axis_aligned.univariate import MOST_SCALES, kept_scales


def one(weights, means, stds):
    return Mixtures(np.array([weights]), np.array([means]), np.array([stds]))


TRUTH = one([0.3, 0.3, 0.4], [-5.0, 0.0, 4.0], [1.0, 0.3, 2.0])
EDGES = np.concatenate([[-np.inf], np.linspace(-16.0, 16.0, 257), [np.inf]])


def expected(truth, n, noise_std=2.8):
    return Cells(EDGES, n * masses(truth, EDGES)[0], noise_std, n)


def noisy(truth, n, seed, noise_std=2.8):
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(n, masses(truth, EDGES)[0]) + rng.laplace(0.0, noise_std / np.sqrt(2.0), len(EDGES) - 1)
    return Cells(EDGES, counts, noise_std, n)


def total_variation(one_fit, truth=TRUTH):
    points = np.linspace(-20.0, 20.0, 8001)
    densities = [
        sum(w * stats.norm.pdf(points, m, s) for w, m, s in zip(f.weights[0], f.means[0], f.stds[0], strict=True) if w)
        for f in (one_fit, truth)
    ]
    return 0.5 * np.trapezoid(np.abs(densities[0] - densities[1]), points)


# ---- masses ---------------------------------------------------------------------------------------------------------


def test_masses_are_those_of_scipy_in_both_tails():
    edges = np.array([-np.inf, -40.0, -3.0, 0.0, 2.0, 9.0, 38.0, np.inf])
    found = masses(TRUTH, edges)[0]
    exact = np.zeros(len(edges) - 1)
    for w, m, s in zip(TRUTH.weights[0], TRUTH.means[0], TRUTH.stds[0], strict=True):
        far = edges[:-1] > m
        exact += w * np.where(
            far, stats.norm.sf(edges[:-1], m, s) - stats.norm.sf(edges[1:], m, s), np.diff(stats.norm.cdf(edges, m, s))
        )
    assert np.allclose(found, exact, rtol=1e-9, atol=0.0)
    assert 0.0 < found[-1] < 1e-60  # no digits are lost far out


def test_derivatives_are_those_of_the_masses():
    step = 1e-6
    inside, density, tilted = cell_parts(TRUTH, EDGES)
    for index in range(3):
        up, down = (Mixtures(TRUTH.weights, TRUTH.means.copy(), TRUTH.stds.copy()) for _ in range(2))
        up.means[0, index] += step * up.stds[0, index]
        down.means[0, index] -= step * down.stds[0, index]
        numeric = (cell_parts(up, EDGES)[0] - cell_parts(down, EDGES)[0])[0, index] / (2.0 * step)
        assert np.allclose(numeric, -density[0, index], atol=1e-8)
        up, down = (Mixtures(TRUTH.weights, TRUTH.means.copy(), TRUTH.stds.copy()) for _ in range(2))
        up.stds[0, index] *= np.exp(step)
        down.stds[0, index] *= np.exp(-step)
        numeric = (cell_parts(up, EDGES)[0] - cell_parts(down, EDGES)[0])[0, index] / (2.0 * step)
        assert np.allclose(numeric, -tilted[0, index], atol=1e-8)
    assert np.allclose(inside.sum(axis=2), 1.0)


# ---- fits -----------------------------------------------------------------------------------------------------------


def test_em_and_refine_have_the_truth_as_fixed_point():
    cells = expected(TRUTH, 10**7, noise_std=1e-3)
    for after in (em(cells, TRUTH, steps=5), refine(cells, TRUTH, steps=20).mixtures):
        assert np.allclose(after.means, TRUTH.means, atol=2e-3)
        assert np.allclose(after.stds, TRUTH.stds, rtol=2e-3)
        assert np.allclose(after.weights, TRUTH.weights, atol=1e-3)


def test_refine_never_fits_worse_and_reaches_the_truth_from_afar():
    cells = expected(TRUTH, 10**6)
    starts = joined(
        [one([0.4, 0.3, 0.3], [-7.0, 1.0, 6.0], [3.0, 1.0, 4.0]), one([0.2, 0.2, 0.6], [-3.0, 0.0, 3.0], [1.0] * 3)]
    )
    before = misfit(cells, starts)
    fit = refine(cells, starts, steps=60)
    assert (fit.score <= before).all()
    assert total_variation(fit.mixtures[[int(np.argmin(fit.score))]]) < 1e-3


def test_standard_errors_are_those_of_repeated_fits():
    truth = one([0.6, 0.4], [-3.0, 3.0], [1.0, 1.5])
    fits = [refine(noisy(truth, 4000, seed), truth, steps=25) for seed in range(200)]
    means = np.array([fit.mixtures.means[0] for fit in fits])
    factor = fits[0].spread[0]
    claimed = np.sqrt(np.diag(factor @ factor.T))[2:4] * truth.stds[0]
    # 200 repeats estimate a standard deviation to 5 %: four of these.
    assert np.allclose(means.std(axis=0), claimed, rtol=0.22)


def test_fits_of_one_batch_do_not_see_each_other():
    cells = noisy(TRUTH, 5000, 0)
    starts = joined([TRUTH, one([0.5, 0.5], [-4.0, 4.0], [1.0, 1.0])])
    together = refine(cells, starts, steps=15)
    alone = refine(cells, starts[[1]], steps=15)
    assert np.allclose(together.mixtures.means[1], alone.mixtures.means[0], rtol=1e-9)


# ---- cells ----------------------------------------------------------------------------------------------------------


def test_coarse_counts_fill_in_what_fine_ones_suppress():
    fine = Scale(1.0, np.array([2]), np.array([300.0]))
    pieces = nested_counts([Scale(4.0, np.array([0, 1]), np.array([400.0, 80.0])), fine])
    assert pieces == [
        (0.0, 2.0, pytest.approx(200 / 3)),
        (2.0, 3.0, 300.0),
        (3.0, 4.0, pytest.approx(100 / 3)),
        (4.0, 8.0, 80.0),
    ]
    # A coarse count below what lies in it adds nothing, and takes nothing away.
    low = Scale(4.0, np.array([0]), np.array([250.0]))
    assert sum(piece[2] for piece in nested_counts([low, fine])) == 300.0


@pytest.mark.parametrize("offset", [0.0, 2.0**40, -(2.0**48)])
def test_partition_covers_the_line_and_is_fine_where_rows_are(offset):
    place = offset / 4.0
    edges = partition(
        [Scale(4.0, np.array([place, place + 5], dtype=np.int64), np.array([600.0, 100.0]))], seen=1000, total=4000
    )
    assert edges[0] == -np.inf
    assert edges[-1] == np.inf
    assert (np.diff(edges) > 0.0).all()
    inside = edges[(edges >= offset) & (edges <= offset + 4.0)]
    sparse = edges[(edges >= offset + 20.0) & (edges <= offset + 24.0)]
    assert len(inside) > len(sparse) > 3
    assert len(edges) < MOST_CELLS + 200
    assert {offset, offset + 4.0, offset + 20.0, offset + 24.0} <= set(edges.tolist())


def test_partition_without_knowledge_is_by_powers_of_two():
    edges = partition([], seen=10, total=10)
    assert (np.diff(edges) > 0.0).all()
    assert {0.0, 1.0, -1.0, 1024.0} <= set(edges.tolist())


def dyadic_counts(std, pairs):
    keys = np.arange(-30, 6)
    ends = np.ldexp(1.0, keys)
    return keys[:, None].astype(np.int64), pairs * 2.0 * (stats.norm.sf(ends / std) - stats.norm.sf(2.0 * ends / std))


@pytest.mark.parametrize("pairs", [1e3, 1e5, 1e8])
def test_bins_that_halve_are_no_scales(pairs):
    # However many pairs there are, the ever finer bins of one Gaussian are no scales of their own; its own scale is kept.
    keys, counts = dyadic_counts(1.0, pairs)
    scales = kept_scales(keys, counts, 2.8, MOST_SCALES)
    assert 1.0 in scales or 2.0 in scales
    assert min(scales) >= 2.0**-7
    # A second component a thousand times narrower is one.
    narrow = counts + 0.1 * dyadic_counts(1e-3, pairs)[1]
    assert min(kept_scales(keys, narrow, 2.8, MOST_SCALES)) < 4e-3


# ---- candidates -----------------------------------------------------------------------------------------------------


def test_the_beam_finds_the_right_subset():
    cells = expected(TRUTH, 10**5)
    levels = beam(cells, atoms(cells), 3)
    assert [level.weights.shape[1] for level in levels] == [1, 2, 3]
    assert np.allclose([level.weights.sum(axis=1).min() for level in levels], 1.0)
    started = refine(cells, levels[2], steps=40)
    assert total_variation(started.mixtures[[int(np.argmin(started.score))]]) < 2e-3


@pytest.mark.parametrize("shift", [0.0, 1e9])
@pytest.mark.parametrize("unit", [1.0, 2.0**-400, 2.0**300])
def test_candidates_lie_around_the_truth_in_any_unit(unit, shift):
    plain = noisy(TRUTH, 8000, 3)
    cells = Cells((plain.edges + shift) * unit, plain.counts, plain.noise_std, plain.total)
    found, facts = candidates(cells, 3, size=120)
    assert found.size <= 120
    assert facts["starts"] >= 3
    back = Mixtures(found.weights, found.means / unit - shift, found.stds / unit)
    assert min(total_variation(back[[index]]) for index in range(0, found.size, 3)) < 0.04
    one_fit = best_fit(cells, 3)
    assert total_variation(Mixtures(one_fit.weights, one_fit.means / unit - shift, one_fit.stds / unit)) < 0.07


def test_known_standard_deviation_stays():
    truth = one([0.5, 0.5], [-2.0, 3.0], [1.0, 1.0])
    found, _ = candidates(noisy(truth, 6000, 1), 2, size=60, std=1.0)
    assert set(np.unique(found.stds[found.weights > 0.0]).round(12)) == {1.0}
    assert min(total_variation(found[[index]], truth) for index in range(found.size)) < 0.03


def test_noise_alone_gives_no_component_with_confidence():
    cells = Cells(EDGES, np.random.default_rng(0).laplace(0.0, 2.0, len(EDGES) - 1), 2.83, 100)
    found, _ = candidates(cells, 2, size=30)
    assert np.isfinite(found.means).all()
    assert (found.stds > 0.0).all()


def test_distinct_keeps_one_of_equals_in_any_order_of_components():
    batch = joined(
        [
            TRUTH,
            one([0.4, 0.3, 0.3], [4.0, -5.0, 0.0], [2.0, 1.0, 0.3]),
            one([0.3, 0.3, 0.4], [-5.0, 0.1, 4.0], [1.0, 0.3, 2.0]),
        ]
    )
    assert distinct(batch, np.arange(3), limit=5).tolist() == [0, 2]


def test_low_discrepancy_normals_are_normal_and_the_same_every_time():
    normals = low_discrepancy(400, 8)
    assert np.array_equal(normals, low_discrepancy(400, 8))
    uniform = qmc.Halton(d=8, scramble=False).random(420)[20:]
    assert np.array_equal(normals, ndtri(np.clip(uniform, 1e-9, 1.0 - 1e-9)))
    assert np.abs(normals.mean(axis=0)).max() < 0.1
    assert np.abs(normals.std(axis=0) - 1.0).max() < 0.1


def the_long_way(cells, found, components):
    """`beam` with a system of its own for every subset that one atom more can make."""
    shapes, weighted = subsets.linear(cells, found)
    gram, product = weighted @ shapes.T, weighted @ cells.counts
    chosen, levels = [()], []
    for _ in range(components):
        grown = np.array(
            sorted({tuple(sorted({*each, atom})) for each in chosen for atom in range(found.size) if atom not in each})
        )
        shares, gain = subsets._explained(gram, product, grown)
        keep = subsets._apart(found, grown, np.argsort(-gain)[: subsets._LAST_LOOK])
        keep = keep[np.isfinite(gain[keep])]
        chosen = [tuple(each) for each in grown[keep].tolist()]
        levels.append((grown[keep], shares[keep]))
    return levels


@pytest.mark.parametrize("seed", range(4))
def test_the_beam_is_that_of_all_subsets(seed, monkeypatch):
    """Which subsets are looked at is decided by Schur complements; what is kept has the bits of the long way."""
    monkeypatch.setattr(subsets, "_BEAM", 12)
    monkeypatch.setattr(subsets, "_FIRST_LOOK", 96 if seed else 16)
    monkeypatch.setattr(subsets, "_LAST_LOOK", 200)
    cells = noisy(TRUTH, 4000, seed)
    found = atoms(cells)
    found = found[np.sort(np.random.default_rng(seed).permutation(found.size)[:110])]
    if seed == 3:
        found = joined([found, found[:20]])  # atoms twice: systems that have no inverse but for the ridge
    looked_at = []
    plain = subsets._explained
    monkeypatch.setattr(subsets, "_explained", lambda *given: (looked_at.append(len(given[2])), plain(*given))[1])
    levels = beam(cells, found, 3)
    assert sum(looked_at) < 2500  # of 12 * 110 for each size but the first, more where atoms are twice
    monkeypatch.setattr(subsets, "_explained", plain)
    for level, (rows, shares) in zip(levels, the_long_way(cells, found, 3), strict=True):
        assert np.array_equal(level.means, found.means[rows, 0])
        assert np.array_equal(level.stds, found.stds[rows, 0])
        weights = np.maximum(shares, 1e-3)
        assert np.array_equal(level.weights, weights / weights.sum(axis=1, keepdims=True))


def refined_the_long_way(cells, mixtures, steps):
    """`refine` with everything worked out at every step."""
    least, part = 0.25 * cells.resolution, mixtures
    score, damping = misfit(cells, part), np.full(part.size, 1e-2)
    for _ in range(steps):
        every = np.arange(part.size)
        curvature, gradient = binned_em._normal_equations(
            part, kernels.cell_masses(part.means, part.stds, cells.edges), cells, every, False
        )
        diagonal = np.einsum("spp->sp", curvature)
        curvature = curvature + (damping[:, None] * diagonal + 1e-6)[:, :, None] * np.eye(diagonal.shape[1])
        step = np.linalg.solve(curvature, gradient[:, :, None])[:, :, 0]
        tried = moved(part, step, least=least, fixed_std=False)
        tried_score = misfit(cells, tried)
        better = tried_score < score
        gain = score - tried_score
        part = Mixtures(
            *(
                np.where(better[:, None], getattr(tried, name), getattr(part, name))
                for name in ("weights", "means", "stds")
            )
        )
        score = np.where(better, tried_score, score)
        damping = np.where(better, damping * 0.3, np.minimum(damping * 10.0, 1e6))
        if not np.any(better & (gain > 1e-4)) and np.all(damping > 1.0):
            break
    return part, score


@pytest.mark.parametrize("components", [1, 2, 3])
def test_mixtures_that_nothing_moves_are_left_alone_without_a_trace(components):
    cells = noisy(TRUTH, 8000, components)
    starts = beam(cells, atoms(cells), 3)[components - 1][:30]
    fit = refine(cells, starts, steps=40)
    part, score = refined_the_long_way(cells, starts, 40)
    assert np.array_equal(fit.score, score)
    for name in ("weights", "means", "stds"):
        assert np.array_equal(getattr(fit.mixtures, name), getattr(part, name))


def test_masses_of_cells_are_those_of_both_tails():
    edges = np.concatenate([[-np.inf], np.linspace(-60.0, 60.0, 241), [np.inf]])
    mixtures = Mixtures(
        np.ones((2, 3)), np.array([[0.0, -3.3, 50.0], [0.25, 1e-300, -60.0]]), np.array([[1.0, 0.2, 9.0]] * 2)
    )
    z = (edges - mixtures.means[:, :, None]) / mixtures.stds[:, :, None]
    upper = z[..., :-1] > 0.0
    expected = np.where(upper, ndtr(-z[..., :-1]) - ndtr(-z[..., 1:]), ndtr(z[..., 1:]) - ndtr(z[..., :-1]))
    assert np.array_equal(cell_masses(mixtures, edges), expected)
    assert np.array_equal(cell_parts(mixtures, edges)[0], expected)
