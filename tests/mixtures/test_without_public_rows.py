"""Mixtures of full covariances from private rows alone: the mixture along directions, its extension, accounting, what is found."""

import numpy as np
import pandas as pd
import pytest
from mixture_cases import APPROX, Mixture, separated, total_variation
from spies import SpyLedger, seeded

from fastpubpriv import ZCDP, ApproxDP, PureDP, learn_separated_mixture, plan
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.axis_aligned import private_start
from fastpubpriv.mixtures.axis_aligned.sketch import Projection, WaveModel, Waves
from fastpubpriv.mixtures.gaussian_mixture import GaussianMixture
from fastpubpriv.mixtures.separated import without_public
from fastpubpriv.privacy import Neighbors
from fastpubpriv.privacy.spending import spending_of
from fastpubpriv.sklearn import PublicPrivateGaussianMixture

QUIET = {"threads": 1, "progress": False}


def learn(rows, k, random_state=0):
    given = {"n_components": k, "budget": APPROX, "random_state": random_state}
    return seeded(learn_separated_mixture, rows, **given, **QUIET)


# ---- The mixture along directions -----------------------------------------------------------------------------------

ROOTS = np.array([[[1.0, 0.0], [0.6, 0.8]], [[0.6, 0.0], [-0.5, 1.1]], [[0.9, 0.0], [0.0, 0.5]]])
PLANE = GaussianMixture(
    np.array([[0.3, 0.5, 0.2]]),
    np.array([[[-1.5, 0.0], [1.0, 1.2], [0.5, -2.0]]]),
    (ROOTS @ ROOTS.swapaxes(1, 2))[None],
)
MODEL = WaveModel(k=3, dim=2, full=True)
# log weights, means, log diagonals of the factors, and the entries below
PARAMETERS = np.concatenate(
    [
        np.log(PLANE.weights[0]),
        PLANE.means.ravel(),
        np.log(ROOTS[:, [0, 1], [0, 1]]).ravel(),
        ROOTS[:, 1, 0],
    ]
)[None]


def along(spread, dim=2):
    return Projection.of(0, np.zeros(dim), np.eye(dim), spread * np.eye(dim))


def test_the_closed_form_is_the_mean_of_cosines_and_sines():
    projection = along(3.0)
    rng = np.random.default_rng(4)
    draws = 100_000
    labels = rng.choice(3, draws, p=PLANE.weights[0])
    totals = np.zeros(projection.size)
    squares = np.zeros(projection.size)
    for part in np.array_split(labels, 20):
        normals = rng.normal(size=(len(part), 2))
        rows = PLANE.means[0][part] + np.einsum("nab,nb->na", ROOTS[part], normals)
        values = projection.statistic(rows)
        totals += values.sum(axis=0)
        squares += np.square(values).sum(axis=0)
    mean = totals / draws
    error = np.sqrt((squares / draws - mean**2) / draws)
    expected = MODEL.waves(PARAMETERS, projection.frequencies)[0][0]
    # 240 numbers of 4 standard errors each: a false alarm in 1.5 %, and the draws are seeded.
    assert np.abs((mean - expected) / error).max() < 4.0
    # The planted fault: the covariance L'L in place of L L'.
    turned = np.linalg.cholesky(ROOTS.swapaxes(1, 2) @ ROOTS)
    wrong = PARAMETERS.copy()
    wrong[0, 9:15] = np.log(turned[:, [0, 1], [0, 1]]).ravel()
    wrong[0, 15:] = turned[:, 1, 0]
    off = mean - MODEL.waves(wrong, projection.frequencies)[0][0]
    assert np.abs(off / error).max() > 25.0


def test_the_jacobian_is_that_of_finite_differences():
    frequencies = along(3.0).frequencies
    at = PARAMETERS
    _, slopes = MODEL.waves(at, frequencies)
    step = 1e-6
    for place in range(at.shape[1]):
        values = []
        for sign in (1.0, -1.0):
            moved = at.copy()
            moved[0, place] += sign * step
            values.append(MODEL.waves(moved, frequencies)[0][0])
        difference = (values[0] - values[1]) / (2.0 * step)
        assert np.abs(difference - slopes[0, :, place]).max() < 1e-6, place


def test_parameters_are_those_of_the_mixture():
    found = MODEL.mixtures(PARAMETERS)
    for name in ("weights", "means", "covariances"):
        assert np.allclose(getattr(found, name), getattr(PLANE, name), atol=1e-12), name


def test_the_fit_of_exact_values_is_the_mixture():
    projection = along(3.0)
    values = MODEL.waves(PARAMETERS, projection.frequencies)[0][0]
    data = Waves(projection.frequencies, values, 1e-5)
    found = MODEL.fit(data, projection.spread).mixture
    gaps = np.linalg.norm(found.means[0][:, None] - PLANE.means[0], axis=2)
    order = gaps.argmin(axis=0)
    for name in ("weights", "means", "covariances"):
        off = np.abs(getattr(found, name)[0][order] - getattr(PLANE, name)[0]).max()
        assert off < 1e-3, (name, off)


# ---- Directions, and the extension to all columns -------------------------------------------------------------------


def test_directions_are_those_in_which_means_differ():
    rng = np.random.default_rng(5)
    truth = separated(rng, 8, 3, 8.0)
    center = truth.weights @ truth.means
    gaps = truth.means - center
    total = np.einsum("k,kab->ab", truth.weights, truth.covariances) + gaps.T @ (
        truth.weights[:, None] * gaps
    )
    scale = np.sqrt(np.diag(total))
    usable = np.ones(8, dtype=bool)
    correlations = total / np.outer(scale, scale)
    rows = without_public.leading_directions(correlations, usable, 2)
    assert rows.shape == (2, 8)
    assert np.allclose(rows @ correlations @ rows.T, tuning.EXTENT**2 * np.eye(2), atol=1e-9)
    along_rows = np.linalg.qr(rows.T)[0]
    differences = gaps / scale
    kept = np.linalg.norm(differences @ along_rows) / np.linalg.norm(differences)
    assert kept > 0.95


def test_a_column_that_is_not_usable_has_no_part():
    usable = np.array([True, True, False, True, True])
    rows = without_public.leading_directions(np.eye(5) * 0.5 + 0.5, usable, 2)
    assert rows.shape == (2, 5)
    assert not rows[:, 2].any()
    few = without_public.leading_directions(np.eye(3), usable[:3], 1)
    assert few.shape == (2, 3)  # of up to three columns, all that are usable


def extension_of(matrix, covariance, along_rows):
    dim = len(covariance)
    return private_start.extended(matrix, covariance, along_rows).mapped(np.arange(dim), 1.0)


def test_the_extension_keeps_the_moments_of_the_group():
    rng = np.random.default_rng(6)
    root = rng.normal(size=(6, 6))
    covariance = root @ root.T
    matrix = rng.normal(size=(2, 6))
    # A mixture along the directions with the group's mean and covariance there.
    weights = np.array([0.25, 0.75])
    offsets = np.array([[3.0, -1.0], [-1.0, 1.0 / 3.0]])
    spread = matrix @ covariance @ matrix.T
    scale = 0.1 * np.sqrt(np.linalg.eigvalsh(spread)[0])
    means = scale * offsets
    within = np.linalg.cholesky(spread - means.T @ (weights[:, None] * means))
    spreads = np.stack([within @ within.T] * 2)
    along_rows = GaussianMixture(weights[None], means[None], spreads[None])
    at = extension_of(matrix, covariance, along_rows)
    center = at.weights @ at.means
    gaps = at.means - center
    total = np.einsum("k,kab->ab", at.weights, at.covariances) + gaps.T @ (weights[:, None] * gaps)
    assert np.allclose(center, np.arange(6.0))
    assert np.allclose(total, covariance)
    assert np.allclose((at.means - np.arange(6.0)) @ matrix.T, means)
    assert all(np.linalg.eigvalsh(each)[0] > 0.0 for each in at.covariances)


def test_along_all_columns_the_extension_is_the_mixture_itself():
    matrix = np.array([[2.0, 0.0], [1.0, 4.0]])
    at = extension_of(matrix, np.array([[5.0, 1.0], [1.0, 2.0]]), PLANE)
    assert np.allclose((at.means - [0.0, 1.0]) @ matrix.T, PLANE.means[0])
    assert np.allclose(matrix @ at.covariances @ matrix.T, PLANE.covariances[0])


# ---- Accounting and refusals ----------------------------------------------------------------------------------------

PATHS = {
    "groups": (1000.0, ["cells", "combinations", "directions"]),
    "directions": (3.0, ["cells", "directions", "sketch"]),
}


def rows_of(gap, n=6_000, dim=4):
    rows = np.random.default_rng(9).normal(size=(n, dim))
    rows[::2] += gap
    return rows


@pytest.mark.parametrize("kind", PATHS)
@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_every_path_spends_the_whole_allowance_and_no_more(kind):
    gap, stages = PATHS[kind]
    rows = rows_of(gap)
    result = learn(rows, 2, random_state=0)
    costs = {each["name"]: each.get("rho", 0) for each in result.releases}
    start = [name for name in costs if not name.startswith(("round", "last", "fit"))]
    assert start == ["scales", "places", *stages]
    assert sum(name.startswith("round") for name in costs) >= tuning.EARLY_ROUNDS
    draws = without_public.most_draws(*rows.shape, 2)
    allowance = float(spending_of(APPROX, draws).allowance)
    assert 0.999 * allowance < sum(costs.values()) <= allowance
    assert result.numerics["noise_draws"] <= draws
    assert result.spent == APPROX


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_a_last_round_that_forgets_a_stage_is_refused(monkeypatch):
    """The planted fault: the last round counts the share of the sketch as left, and the account refuses it."""
    original = without_public.em_rounds.advance

    def greedy(*given, share, name):
        if name == without_public.soft_em.LAST:
            share += tuning.START_SHARES.sketch
        return original(*given, share=share, name=name)

    monkeypatch.setattr(without_public.em_rounds, "advance", greedy)
    with pytest.raises(BudgetError, match="exceed the budget"):
        learn(rows_of(3.0), 2, random_state=0)


@pytest.mark.parametrize(("changes", "error", "message"), [
    ({"budget": ZCDP(1)}, BudgetError, "ApproxDP"), ({"budget": PureDP(1)}, BudgetError, "ApproxDP"),
    ({"mode": "theory"}, InputError, "mode='theory' needs public rows"),
    ({"method": "tree"}, InputError, "pass x_pub=, or method='auto'"),
    ({"n_components": 65}, InputError, "at most 64 without public rows"),
    ({"x_priv": rows_of(3.0)[:31]}, InputError, "at least 32 private rows"),
    ({"min_weight": 0.6}, InputError, "min_weight"),
    ({"budget": ApproxDP(2.0**-30, 1e-12)}, (InputError, BudgetError), "budget"), ({"budget": 1.0}, BudgetError, "budget"),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_what_cannot_be_answered_is_refused_before_the_debit(changes, error, message):
    log = []
    ledger = SpyLedger(APPROX, log)
    given = {"x_priv": rows_of(3.0), "n_components": 2, "budget": APPROX, "ledger": ledger}
    with pytest.raises(error, match=message):
        learn_separated_mixture(**(given | changes), **QUIET)
    assert log == []


def test_several_rows_of_a_person_are_refused_before_the_debit():
    log = []
    ledger = SpyLedger(APPROX, log, relation=Neighbors.REPLACE_PERSON)
    person = pd.Series(np.arange(6_000) // 2, name="who")
    given = {"person": person, "rows_per_person": 2, "budget": APPROX, "ledger": ledger}
    with pytest.raises(InputError, match="takes one row of each person"):
        learn_separated_mixture(rows_of(3.0), n_components=2, **given, **QUIET)
    assert log == []


# ---- What it finds --------------------------------------------------------------------------------------------------


def crossing():
    """Two components of the same mean, whose covariances cross: no direction tells them apart by variance alone."""
    cross = np.array([[2.0, 0.0], [1.9, 0.6]])
    factors = np.stack([cross, cross * [[1.0, 1.0], [-1.0, 1.0]]])
    return Mixture(np.zeros((2, 2)), factors, np.array([0.5, 0.5]))


# Problems, and bounds: 1.5 times the total variation with 100 public rows (worst of three runs), and .005.
FOUND = {
    "3 columns": (separated(np.random.default_rng(1), 3, 3, 6.0), 0.027),
    "8 columns": (separated(np.random.default_rng(2), 8, 2, 6.0), 0.035),
    "12 columns": (separated(np.random.default_rng(3), 12, 3, 8.0), 0.085),
    "of different weights": (
        separated(np.random.default_rng(4), 5, 3, 6.0, weights=[0.6, 0.25, 0.15]),
        0.04,
    ),
    "crossing": (crossing(), 0.02),
    "far apart": (separated(np.random.default_rng(5), 10, 4, 100.0), 0.1),
}


SLOW = ("12 columns", "of different weights")
NAMES = [pytest.param(name, marks=pytest.mark.extended if name in SLOW else ()) for name in FOUND]


@pytest.mark.parametrize("name", NAMES)
def test_components_that_lie_apart_are_found(name):
    truth, bound = FOUND[name]
    k = len(truth.weights)
    unit = 10.0 ** np.random.default_rng(7).uniform(-3, 3, truth.means.shape[1])
    rows = truth.draw(np.random.default_rng(1), 40_000)[0] * unit + 100.0 * unit
    result = learn(rows, k, random_state=1)
    assert result.n_components == k
    in_units = Mixture((truth.means + 100.0) * unit, truth.factors * unit[:, None], truth.weights)
    distance = total_variation(in_units, result)
    assert distance < bound, distance
    assert result.status == "ok", result.part_reasons


def test_directions_of_least_variance_find_nothing_and_say_so(monkeypatch):
    """The planted fault: components are looked for where rows vary least."""

    def wrong(correlations, usable, most):
        inverse = np.linalg.inv(correlations)
        return original(inverse, usable, most)

    original = without_public.leading_directions
    monkeypatch.setattr(without_public, "leading_directions", wrong)
    truth = separated(np.random.default_rng(2), 8, 2, 6.0)
    rows = truth.draw(np.random.default_rng(1), 40_000)[0]
    result = learn(rows, 2, random_state=1)
    assert total_variation(truth, result) > 0.1
    assert result.status != "ok"


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_fewer_components_than_asked_for_are_no_claim():
    """Components too near for this number of rows: one is returned, and it has a reason."""
    truth = separated(np.random.default_rng(3), 15, 2, 1.5)
    result = learn(truth.draw(np.random.default_rng(4), 3_000)[0], 2, random_state=0)
    assert total_variation(truth, result) > 0.1
    assert result.status != "ok"


def test_one_component_is_its_moments():
    rng = np.random.default_rng(8)
    truth = separated(rng, 4, 1, 1.0)
    result = learn(truth.draw(rng, 20_000)[0], 1, random_state=0)
    assert total_variation(truth, result) < 0.02
    assert result.status == "ok"


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize("values", [
    np.full((400, 3), np.nan), np.full((400, 3), 1e308), np.zeros((400, 3)),
    np.where(np.arange(1200).reshape(400, 3) % 2, 1e-300, -1e300), np.zeros((400, 1)),
    np.repeat(np.arange(400.0), 3).reshape(400, 3),
])  # fmt: skip
def test_degenerate_rows_give_a_finite_answer_with_a_reason(values):
    with np.errstate(all="raise"):
        result = learn(values, 3, random_state=0)
    assert np.isfinite(result.means).all()
    assert np.isfinite(result.covariances).all()
    assert (result.variances > 0.0).all()
    assert all(result.part_reasons)


@pytest.mark.parametrize("hole", [np.nan, np.inf, -1e308])
def test_rows_that_are_not_finite_or_far_away_leave_the_others_alone(hole):
    truth = separated(np.random.default_rng(10), 4, 2, 6.0)
    rows = truth.draw(np.random.default_rng(14), 20_000)[0]
    rows[::100, 1] = hole
    with np.errstate(all="raise"):
        result = learn(rows, 2, random_state=0)
    assert total_variation(truth, result) < 0.05


def test_answers_of_rounded_values_are_marked():
    """Where all columns are rounded there is no count of the fit, so that nothing is claimed."""
    truth = separated(np.random.default_rng(10), 3, 2, 8.0)
    rows = np.round(truth.draw(np.random.default_rng(15), 20_000)[0])
    result = learn(rows, 2, random_state=0)
    assert all("ties" in reasons for reasons in result.part_reasons)


# ---- The plan, and scikit-learn -------------------------------------------------------------------------------------


def test_the_forecast_is_that_of_the_last_round():
    planned = plan(
        "separated_mixture", dim=4, n_components=1, min_weight=1.0, n_priv=20_000, budget=APPROX
    )
    errors = []
    for seed in range(3):
        rows = np.random.default_rng([12, seed]).normal(size=(20_000, 4))
        # nearly collinear columns, so that correlations are not pulled to zero
        rows[:, 1] = rows[:, 0] + 0.5 * rows[:, 1]
        result = learn(rows, 1, random_state=seed)
        root = np.array([[1, 0, 0, 0], [1, 0.5, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]])
        white = np.linalg.solve(root, np.linalg.solve(root, result.covariances[0]).T)
        errors.append(np.linalg.norm(white - np.eye(4)))
    assert 0.2 * planned.error < np.median(errors) < 1.5 * planned.error
    assert planned.details["rows_of_rounds"] < 20_000


def test_a_plan_without_public_rows_needs_a_delta():
    with pytest.raises(BudgetError, match="ApproxDP"):
        plan("separated_mixture", dim=4, n_components=2, n_priv=20_000, budget=ZCDP(1))


# Fits of other tests of this process count as well.
@pytest.mark.filterwarnings("ignore::fastpubpriv.PrivacyWarning")
def test_the_scikit_learn_class_needs_no_public_rows():
    rows = rows_of(30.0, dim=2)
    model = PublicPrivateGaussianMixture(APPROX, n_components=2, min_weight=0.3).fit(rows)
    assert sorted(model.means_[:, 0].round().tolist()) == [0.0, 30.0]
    assert model.n_features_in_ == 2
    labels = model.predict(rows[:10])
    assert labels[0] != labels[1]
