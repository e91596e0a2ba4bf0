"""How well a mixture fits: the cells, what the comparison says of right and wrong answers, and the reasons that follow."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fastpubpriv import ZCDP, learn_separated_mixture
from fastpubpriv.mixtures import fit
from fastpubpriv.mixtures.axis_aligned.em import CellHistogram, fit_of_cells
from fastpubpriv.results import Reason

pytestmark = [
    pytest.mark.usefixtures("one_blas_thread"),
    pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning"),
    pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning"),
]
DIM, N, NOISE = 3, 40_000, 10.0
MEANS = np.array([[0.0, 0.0, 0.0], [5.0, 0.0, 0.0], [0.0, 6.0, 0.0]])
COVARIANCES = np.array([np.diag([1.0, 0.5, 2.0]), np.eye(3), np.diag([0.3, 1.0, 1.0])])
WEIGHTS = np.array([0.5, 0.3, 0.2])
TRUTH = fit.Gaussians.of(WEIGHTS, MEANS, COVARIANCES)


def rows_of(rng, n=N, *, tails=math.inf):
    labels = rng.choice(3, size=n, p=WEIGHTS)
    normals = rng.normal(size=(n, DIM))
    if math.isfinite(tails):
        normals *= np.sqrt(tails / rng.chisquare(tails, size=(n, 1)))
    return MEANS[labels] + np.einsum("nij,nj->ni", TRUTH.roots[labels], normals)


def judged(answer, rows, rng, *, noise=NOISE):
    """The comparison of rows with an answer, under noise of this deviation."""
    axes = fit.leading_axes(answer)
    expected, draws = fit.expected_cells(answer, axes, answer.means)
    (codes,) = fit.cell_codes(rows, at=answer, axes=axes)
    counts = np.bincount(codes[codes >= 0], minlength=len(expected)) + rng.normal(
        0.0, noise, len(expected)
    )
    return fit.compared(counts, len(rows), noise, expected, draws, len(answer.weights))


def test_right_answers_pass_and_missing_rows_are_no_misfit():
    expected, draws = fit.expected_cells(TRUTH, fit.leading_axes(TRUTH), TRUTH.means)
    assert expected.sum() == pytest.approx(1.0)
    table = expected.reshape(3, *fit.CELLS)
    assert np.allclose(table.sum(axis=(1, 2, 3)), WEIGHTS, atol=0.01)
    shells = np.diff([0.0, *fit.SHELLS, 1.0])
    assert np.allclose(table.sum(axis=(0, 2, 3)), shells, atol=4.0 / math.sqrt(draws) + 0.01)
    # Right answers pass.
    rng = np.random.default_rng(0)
    found = [judged(TRUTH, rows_of(rng), rng) for _ in range(20)]
    assert not any(each.poor.any() for each in found)
    assert not any(each.reasons(0, ()) for each in found)
    # Where noise hides everything, the count can say nothing.
    assert judged(TRUTH, rows_of(rng, 1000), rng, noise=100.0).reasons(0, ()) == ("few_rows",)


def test_planted_draws_without_their_variance_are_noticed():
    # Of few draws, the error of the expected shares looks like a poor fit unless it is counted in.
    rng = np.random.default_rng(1)
    axes = fit.leading_axes(TRUTH)
    (codes,) = fit.cell_codes(rows_of(rng, 400), at=TRUTH, axes=axes)
    rough = np.bincount(codes, minlength=72) / 400
    (codes,) = fit.cell_codes(rows_of(rng), at=TRUTH, axes=axes)
    counts = np.bincount(codes, minlength=72).astype(float)
    assert not fit.compared(counts, N, 1.0, rough, 400, 3).poor.any()
    assert fit.compared(counts, N, 1.0, rough, 10**9, 3).poor.any()


def test_two_components_taken_for_one_are_seen_by_the_bands():
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(N, DIM))
    rows[:, 0] += np.where(rng.random(N) < 0.5, -2.0, 2.0)
    rows[::2, 1] += 50.0
    rows[::2, 0] = rng.normal(size=N // 2)
    covariances = np.array([np.diag([5.0, 1.0, 1.0]), np.eye(3)])
    merged = fit.Gaussians.of(
        np.full(2, 0.5), np.array([[0.0, 0.0, 0.0], [0.0, 50.0, 0.0]]), covariances
    )
    found = judged(merged, rows, rng)
    assert found.reasons(1, ()) == ()
    assert found.gap - found.null > 0.05
    assert found.reasons(0, ()) in (("poor_fit",), ("not_gaussian",))
    # Planted fault: without the bands next to nothing is seen.
    axes = fit.leading_axes(merged)
    expected, _ = fit.expected_cells(merged, axes, merged.means)
    (codes,) = fit.cell_codes(rows, at=merged, axes=axes)
    shares = np.bincount(codes, minlength=len(expected)) / N
    joined = np.abs((shares - expected).reshape(-1, fit.CELLS[2]).sum(axis=1)).sum() / 2.0
    assert joined < 0.5 * found.gap
    # Of few rows under noise the cells that chance explains one by one are too many to be chance together.
    found = judged(merged, rows[:2000], np.random.default_rng(6), noise=20.0)
    assert found.poor.tolist() == [True, False]
    assert found.gap - found.null < 2.0 * found.null


def test_tails_weights_and_means_that_are_wrong_are_poor_fits():
    rng = np.random.default_rng(3)
    found = judged(TRUTH, rows_of(rng, tails=3.0), rng)
    assert found.gap - found.null > 0.05
    assert found.reasons(0, ()) == ("not_gaussian",)
    assert found.facts_in()["unexplained"] > 0.01
    # A wrong weight and a wrong mean are poor fits.
    rng = np.random.default_rng(4)
    lighter = fit.Gaussians.of(np.array([0.4, 0.4, 0.2]), MEANS, COVARIANCES)
    found = judged(lighter, rows_of(rng), rng)
    assert 0.08 < found.gap < 0.12
    assert [found.reasons(place, ()) for place in range(3)] == [("poor_fit",), ("poor_fit",), ()]
    # Missing rows are no misfit.
    rng = np.random.default_rng(5)
    rows = rows_of(rng)
    rows[::5, 1] = np.nan
    assert not judged(TRUTH, rows, rng).poor.any()


def test_cautions_stay():
    fitted = fit.ComponentFit(
        gaps=np.ones(1), nulls=np.zeros(1), outer=np.zeros(1), beyond=np.zeros(1), shares=np.ones(1),
        poor=np.ones(1, dtype=bool),
    )  # fmt: skip
    before = [(Reason.FALLBACK,), (Reason.SHIFTED,), (), (Reason.WIDE,), (Reason.TIES,)]
    said = [fitted.reasons(0, each) for each in before]
    assert said == [*before[:2], ("poor_fit",), ("poor_fit",), ("poor_fit", "ties")]
    # Noise that was predicted explains as much of a misfit.
    assert fitted.reasons(0, before[3], 1.0) == before[3]
    assert replace(fitted, outer=np.ones(1)).reasons(0, ()) == ("not_gaussian",)


def test_cells_that_were_counted_anyway_say_the_same():
    rng = np.random.default_rng(8)
    edges = np.concatenate([[-np.inf], np.linspace(-6.0, 12.0, 181), [np.inf]])
    weights = np.array([0.6, 0.4])
    means = np.array([0.0, 6.0])
    stds = np.array([1.0, 1.5])
    values = np.where(rng.random(N) < 0.6, rng.normal(0.0, 1.0, N), rng.normal(6.0, 1.5, N))
    counts = np.histogram(values, edges)[0] + rng.laplace(0.0, 2.0, len(edges) - 1)
    cells = CellHistogram(edges, counts, 2.0 * math.sqrt(2.0), N)
    right = fit_of_cells(cells, 0.0, weights, means, stds)
    wrong = fit_of_cells(cells, 0.0, weights, means, np.array([1.0, 3.0]))
    assert [right.reasons(place, ()) for place in range(2)] == [(), ()]
    assert wrong.reasons(1, ()) == ("poor_fit",)
    assert wrong.gap - wrong.null > 0.05


def test_a_result_tells_how_well_it_fits():
    rng = np.random.default_rng(7)
    public = rows_of(rng, 60)
    options = {
        "x_pub": public,
        "n_components": 3,
        "min_weight": 0.15,
        "budget": ZCDP(0.5),
        "progress": False,
    }
    right, heavy = (
        learn_separated_mixture(rows_of(rng, tails=tails), random_state=1, **options)
        for tails in (math.inf, 3.0)
    )
    assert right.status == "ok"
    assert "poor_fit" in heavy.reasons or "not_gaussian" in heavy.reasons
    assert "total variation from the rows" in heavy.summary()
    assert right.releases[-1]["name"] == "fit"
