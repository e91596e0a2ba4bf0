"""Accuracy of the learners of axis-aligned mixtures in the median, against the acceptance table (make audit).

Seeds are fixed, so a run either passes or shows a change. Each bound has a mutant that must fail it.
"""

from fractions import Fraction

import numpy as np
import pytest

from benchmarks.papers import public_mixtures, univariate_mixtures
from benchmarks.papers.experiment import seeded_quietly
from benchmarks.papers.mixture_cases import CASES, FIRST_VERSION, blobs, distance_by_draws, released
from fastpubpriv.mechanisms.candidates import Chosen
from fastpubpriv.mixtures.axis_aligned import dp_em, univariate
from fastpubpriv.privacy import SelectionEvent

pytestmark = pytest.mark.statistical


def median(function, *arguments, runs):
    with seeded_quietly():
        return float(np.median([function(*arguments, run)[0] for run in range(runs)]))


# Medians of 20 seeds stand within a fifth of these; a first version with thresholded histograms alone had FIRST_VERSION.
UNIVARIATE = {
    "N(1000, 3^2)": {5000: 0.020, 20_000: 0.009, 100_000: 0.0034},
    "two": {5000: 0.036, 20_000: 0.015, 100_000: 0.006},
    "concentric": {5000: 0.034, 20_000: 0.016, 100_000: 0.008},
    "three": {5000: 0.045, 20_000: 0.021, 100_000: 0.008},
}


@pytest.mark.parametrize("n", [5000, 20_000, 100_000])
@pytest.mark.parametrize("name", CASES)
def test_univariate_medians(name, n):
    found = median(univariate_mixtures.one_run, name, n, 1.0, runs=20 if n < 100_000 else 9)
    assert found <= 1.2 * FIRST_VERSION[name][n]
    assert found <= UNIVARIATE[name][n]


@pytest.mark.parametrize("components", [1, 2, 3])
def test_means_anywhere(components):
    name = next(name for name, k in univariate_mixtures.FAR_NAMES.items() if k == components)
    assert median(univariate_mixtures.one_run, name, 100_000, 1.0, runs=9) <= 0.012


@pytest.mark.parametrize(
    "place", public_mixtures.PLACES, ids=lambda place: f"{place.method} {place.case} {place.dim} {place.n_pub}"
)
def test_public_medians(place):
    with seeded_quietly():
        answers = np.array([public_mixtures.one_run(place, run) for run in range(10)])
    found, alone, _ = np.median(answers, axis=0)
    assert found <= 1.3 * place.aim
    assert found < alone


@pytest.mark.parametrize(("dim", "n", "bound"), [(5, 50_000, 0.06), (20, 100_000, 0.07)])
def test_anchors_medians(dim, n, bound):
    from axis_cases import learn

    errors = []
    for run in range(7):
        rng = np.random.default_rng([11, run])
        truth = blobs(rng, 3, dim)
        result = learn(truth.draw(rng, n), 3, random_state=run)
        errors.append(distance_by_draws(truth, released(result), rng))
    assert np.median(errors) <= bound


# ---- mutants --------------------------------------------------------------------------------------------------------


def test_catches_cells_without_detail(monkeypatch):
    # The released cells of the coarsest scale as they are.
    def coarse(scales, *, seen, total):
        widest = max(scales, key=lambda scale: scale.width)
        return np.concatenate([[-np.inf], np.union1d(widest.index, widest.index + 1) * widest.width, [np.inf]])

    monkeypatch.setattr(univariate, "partition", coarse)
    assert median(univariate_mixtures.one_run, "three", 20_000, 1.0, runs=5) > 2 * UNIVARIATE["three"][20_000]


def test_catches_a_missing_choice(monkeypatch):
    # The first candidate, whatever the rows say: one Gaussian where there are three.
    from fastpubpriv.mixtures.axis_aligned import types

    def first(self, account, rows, executor, *, name, cost):
        event = SelectionEvent(epsilon=cost, sensitivity=1, candidates=self.size)
        return Chosen(index=0, event=event)

    monkeypatch.setattr(types.HypothesisChoice, "release", first)
    assert median(univariate_mixtures.one_run, "three", 20_000, 1.0, runs=3) > 10 * UNIVARIATE["three"][20_000]


def test_catches_equal_iterations(monkeypatch):
    place = public_mixtures.PLACES[-2]

    monkeypatch.setattr(dp_em, "iteration_shares", lambda steps: [Fraction(1, steps)] * steps)
    with seeded_quietly():
        equal = np.median([public_mixtures.one_run(place, run)[0] for run in range(10)])
    monkeypatch.undo()
    with seeded_quietly():
        growing = np.median([public_mixtures.one_run(place, run)[0] for run in range(10)])
    assert growing < 0.9 * equal
