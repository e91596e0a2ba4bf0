"""A sketch as one more start beside public rows: what it finds, what it costs on every path, and that neighbors see the same."""

from fractions import Fraction

import numpy as np
import pytest
from helpers.neighbors import pair_at
from mixture_cases import APPROX
from spies import SpyLedger, seeded

from benchmarks.papers.mixture_cases import Truth, distance_by_draws, released
from fastpubpriv import ZCDP, ApproxDP, PureDP, ReplayError, learn_axis_aligned_mixture
from fastpubpriv.auditing import record_replay
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.mixtures import fit
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.axis_aligned import dp_em, em, sketch, sketch_start
from fastpubpriv.mixtures.axis_aligned.dp_em import SketchShares, plan_of
from fastpubpriv.mixtures.axis_aligned.em import Mixtures
from fastpubpriv.mixtures.axis_aligned.sketch import Projection, Waves
from fastpubpriv.mixtures.separated import soft_em
from fastpubpriv.privacy.spending import spending_of

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")

AMPLE = ApproxDP(20, 1e-6)  # noise that hides nothing from a sketch of a thousand rows


COMMON = {"threads": 1, "progress": False}


def learn(rows, public, k=2, *, budget=APPROX, **options):
    return seeded(
        learn_axis_aligned_mixture,
        rows,
        n_components=k,
        budget=budget,
        x_pub=public,
        **COMMON,
        **options,
    )


def unseeded(public, budget):
    """A call for an audit."""
    return lambda x: learn_axis_aligned_mixture(
        x, n_components=2, budget=budget, x_pub=public, **COMMON
    )


def apart(dim, step):
    """Two components, `step` apart in every column."""
    means = np.arange(2)[:, None] * np.full(dim, step)
    return Truth(np.array([0.5, 0.5]), means, np.ones((2, dim)))


def random_truth(k, dim, separation, seed):
    """Components in units and places of their own."""
    rng = np.random.default_rng([k, dim, seed])
    weights = rng.dirichlet(np.ones(k)) * 0.5 + 0.5 / k
    unit = 10.0 ** rng.uniform(-3, 3, dim)
    means = rng.normal(size=(k, dim)) * separation / np.sqrt(2 * dim) + 100.0 * rng.normal(size=dim)
    stds = np.exp(rng.uniform(-0.4, 0.4, (k, dim)))
    return Truth(weights, means * unit, stds * unit)


def rows_of(truth, n, m=100, seed=1):
    rng = np.random.default_rng(seed)
    return truth.draw(rng, n), truth.draw(rng, m)


# ---- What it finds --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_two_components_in_two_columns_are_found(seed):
    """Without the sketch the total variation is about .03."""
    truth = apart(2, 1.6)
    result = learn(*rows_of(truth, 40_000, seed=seed), random_state=seed)
    distance = distance_by_draws(truth, released(result), np.random.default_rng(2))
    assert distance < 0.015, distance
    assert result.diagnostics["start"] == "sketch"


@pytest.mark.parametrize("seed", [1, 2])
def test_three_random_components_are_found(seed):
    truth = random_truth(3, 5, 5.0, seed)
    result = learn(*rows_of(truth, 40_000, seed=seed), 3, random_state=seed)
    distance = distance_by_draws(truth, released(result), np.random.default_rng(2))
    assert distance < 0.03, distance


def test_correlations_along_directions_leave_a_race():
    """Four components in five columns: a sketch that fits by a wrong mixture, as the only start, gave .10, and "ok" each time."""
    truth = random_truth(4, 5, 4.0, 9500)
    for seed in (10, 11):
        result = learn(*rows_of(truth, 20_000, seed=seed), 4, random_state=seed)
        assert "public" in result.diagnostics["starts"]
        assert distance_by_draws(truth, released(result), np.random.default_rng(2)) < 0.09


def test_a_light_component_far_away_is_kept():
    """One public row: in the frame of all rows the first round clipped its rows, and the component was lost."""
    means = np.array([[0.0], [20.0]]) * np.ones(8)
    truth = Truth(np.array([0.98, 0.02]), means, np.ones((2, 8)))
    result = learn(*rows_of(truth, 20_000), budget=ZCDP(2.0))
    assert result.diagnostics["start"] == "sketch"
    assert distance_by_draws(truth, released(result), np.random.default_rng(2)) < 0.02


def test_frames_are_moments_of_public_rows_by_their_shares():
    rng = np.random.default_rng(0)
    far = np.arange(400) % 2 == 1
    rows = rng.normal(size=(400, 2)) + 8.0 * far[:, None]
    share = np.stack([~far, far, np.zeros(400)]) * 1.0
    centers = np.full((3, 2), 5.0)
    means, stds = sketch_start.frames_of(rows, rows.std(axis=0), share, centers)
    assert np.abs(means[:2] - [[0.0], [8.0]]).max() < 0.3
    assert np.abs(stds - 1.0).max() < 0.2
    # A component of no public row is where the sketch says.
    assert means[2].tolist() == [5.0, 5.0]


def test_a_mean_along_directions_has_its_place_in_the_columns():
    loadings = np.array([[2.0], [-1.0], [0.5], [3.0]])
    own = np.array([1.0, 2.0, 0.5, 1.5])
    matrix = (loadings / own[:, None]).T / np.sqrt(float(loadings[:, 0] ** 2 @ (1.0 / own)))
    projection = Projection.of(0, np.zeros(4), matrix, np.eye(1))
    covariance = loadings @ loadings.T + np.diag(own)
    back = sketch_start.back_projection(covariance, projection)
    along = matrix @ (7.0 * loadings[:, 0])
    assert np.allclose(back @ along, 7.0 * loadings[:, 0])


def test_a_mixture_along_directions_has_the_moments_of_its_rows():
    """In units whose squares are no doubles."""
    unit = np.array([1e-200, 1.0, 1e200])
    at = Mixtures(np.array([1.0]), np.array([[1.0, 2.0, 3.0]]) * unit, 2.0 * unit[None])
    matrix = np.array([[0.6, 0.0, 0.8], [0.0, 1.0, 0.0]])
    projection = Projection.of(0, np.zeros(3), matrix / unit, np.eye(2))
    along = projection.projected(at)
    assert np.allclose(along.means, [[[3.0, 2.0]]])
    assert np.allclose(along.stds, 2.0)


def test_widths_of_a_fit_have_the_errors_of_repeated_draws():
    rng = np.random.default_rng(0)
    at = Mixtures(np.array([[0.4, 0.6]]), np.array([[[0.0], [3.0]]]), np.array([[[1.0], [0.7]]]))
    count = sketch.frequency_count(1)
    frequencies = np.linspace(0.1, 2.5, count)[:, None]
    values = sketch.jacobian(at, frequencies)[0][0]
    fits = []
    for _ in range(60):
        data = Waves(frequencies, values + rng.normal(0.0, 0.02, len(values)), 0.02)
        fits.append(sketch.refined(data, at, 20)[0].stds[0])
    expected = sketch.width_errors(Waves(frequencies, values, 0.02), at)
    found = np.log(fits).std(axis=0)
    assert np.all((found / expected > 0.7) & (found / expected < 1.4)), found / expected


def test_widths_of_equal_components_are_open():
    at = Mixtures(np.array([[0.5, 0.5]]), np.zeros((1, 2, 1)), np.ones((1, 2, 1)))
    frequencies = np.linspace(0.1, 2.5, 60)[:, None]
    values = sketch.jacobian(at, frequencies)[0][0]
    errors = sketch.width_errors(Waves(frequencies, values, 0.01), at)
    assert np.all(errors > tuning.SURE_WIDTHS)


# ---- What it costs --------------------------------------------------------------------------------------------------


@pytest.fixture
def shares_spent(monkeypatch):
    """Shares of the allowance that the calls of a test have spent, exact."""
    shares = []
    original = em.measured

    def kept(task, learned, run, **options):
        result = original(task, learned, run, **options)
        shares.append(run.account.charged / run.account.allowance)
        return result

    monkeypatch.setattr(em, "measured", kept)
    return shares


# Kind of problem, tuning constants, arguments, and the releases of the start.
PATHS = {
    "sure": ({}, {}, ["directions", "sketch"], False),
    "race": ({"SURE_MISFIT": 0.0}, {}, ["directions", "sketch"], True),
    "race, rho": ({"SURE_MISFIT": 0.0}, {"budget": ZCDP(0.1)}, ["directions", "sketch"], True),
    "no directions": ({"EDGE": 100.0, "UNLIKE_GAUSSIAN": 1.0}, {}, ["directions"], True),
    "noise would hide it": ({"WAVE_NOISES": (0.003, 1e-9)}, {}, [], True),
    "known variance": ({}, {"variance": 1.0}, [], False),
    "noisy, sure": ({"NOISY": 1e-9}, {}, ["directions", "sketch"], False),
    "noisy, not sure": ({"NOISY": 1e-9, "SURE_MISFIT": 0.0}, {}, ["directions", "sketch"], True),
    "Laplace noise": ({}, {"budget": PureDP(1)}, [], True),
    "persons": ({}, {"person": np.arange(8_000) // 2, "rows_per_person": 2}, ["directions", "sketch"], None),
}  # fmt: skip


@pytest.mark.parametrize("name", PATHS)
def test_every_path_spends_the_whole_allowance_and_no_more(name, monkeypatch, shares_spent):
    constants, options, of_start, chooses = PATHS[name]
    for constant, value in constants.items():
        monkeypatch.setattr(tuning, constant, value)
    rows, public = rows_of(apart(4, 2.0), 8_000)
    options = {"budget": ApproxDP(2, 1e-6), **options}
    result = learn(rows, public, random_state=0, **options)
    names = [each["name"] for each in result.releases]
    assert [each for each in names if each in ("directions", "sketch")] == of_start
    if chooses is not None:
        assert ("start" in names) is chooses
    assert ("guard" in names) is (name == "noisy, not sure")
    [share] = shares_spent
    assert isinstance(share, Fraction)
    assert Fraction(999, 1000) < share <= 1
    assert result.spent == options["budget"]
    draws = dp_em.most_draws(8_000, 4, 2, known_std="variance" in options)
    assert result.numerics["noise_draws"] <= draws


@pytest.mark.parametrize("budget", [APPROX, AMPLE, ApproxDP(0.05, 1e-8), ZCDP(2.0), PureDP(1)])
@pytest.mark.parametrize("known_std", [False, True])
def test_the_longest_path_spends_one_and_a_sure_sketch_has_no_more_rounds(budget, known_std):
    spending = spending_of(budget, 10**6)
    for dim in (2, 3, 8, 60):
        for k in (1, 2, 6, 40):
            for n in (10, 1_000, 50_000, 10**7):
                plan = plan_of(dim, k, n, 100, spending, known_std=known_std)
                shares = SketchShares.of(dim, k, n, spending, known_std=known_std)
                released_before = sum(plan.searches.values(), sum(shares or (), Fraction(0)))
                choices = plan.choice * (2 if plan.noisy else 1)
                counted = fit.count_share(spending)
                rounds = plan.rounds * plan.early
                assert released_before + choices + counted + rounds + plan.last == 1
                assert plan.last > Fraction(1, 8)
                if shares is not None:
                    assert plan.starts == 3
                    assert plan.of_one_start().starts == 1
                    assert plan.of_one_start().rounds <= plan.rounds
                    assert plan.of_one_start().rounds >= tuning.EARLY_ROUNDS


@pytest.mark.parametrize("constants", [{}, {"SURE_MISFIT": 0.0}, {"NOISY": 1e-9}])
def test_a_last_share_that_is_not_reduced_by_what_was_spent_is_refused(constants, monkeypatch):
    """The planted fault: the last round counts the share of the sketch as left, and the account refuses it."""
    for constant, value in constants.items():
        monkeypatch.setattr(tuning, constant, value)
    original = soft_em.unspent_share
    budget = ApproxDP(2, 1e-6)

    def greedy(run, *reserved):
        shares = SketchShares.of(4, 2, 8_000, run.account.spending, known_std=False)
        return original(run, *reserved) + shares.sketch

    monkeypatch.setattr(soft_em, "unspent_share", greedy)
    with pytest.raises(BudgetError, match="exceed the budget"):
        learn(*rows_of(apart(4, 2.0), 8_000), budget=budget, random_state=0)


def test_grids_of_the_sketch_are_checked_before_the_debit(monkeypatch):
    log = []

    def refuse(shares, dim, n, spending):
        raise InputError("no grid")

    monkeypatch.setattr(SketchShares, "check", refuse)
    rows, public = rows_of(apart(2, 2.0), 8_000)
    with pytest.raises(InputError, match="no grid"):
        learn(rows, public, ledger=SpyLedger(APPROX, log))
    assert log == []


@pytest.mark.parametrize("dim", [2, 3, 4, 40])
@pytest.mark.parametrize("k", [2, 7, 64])
def test_the_checked_lengths_of_a_sketch_are_all_that_there_are(dim, k):
    """Directions are all of few columns, or at most one less than the components, however many."""
    lengths = {sketch.frequency_count(each) for each in range(1, tuning.MOST_DIRECTIONS + 1)}
    most = dim if dim <= tuning.FEW_COLUMNS else min(k - 1, dim)
    assert {sketch.frequency_count(each) for each in range(1, most + 1)} <= lengths


# ---- What neighbors see ---------------------------------------------------------------------------------------------

FAR = [np.nan, np.inf, -1e308, 5e-324, 1e6, 0.0]


@pytest.mark.parametrize("constants", [{}, {"SURE_MISFIT": 0.0}])
@pytest.mark.parametrize("dim", [2, 5])
@pytest.mark.parametrize("budget", [AMPLE, ZCDP(10.0)])
def test_neighbors_see_the_same_releases(constants, dim, budget, monkeypatch):
    for constant, value in constants.items():
        monkeypatch.setattr(tuning, constant, value)
    rows, public = rows_of(apart(dim, 2.5), 1_200, 40)
    seen = []

    call = unseeded(public, budget)

    def run(x):
        result = call(x)
        seen.append([each["name"] for each in result.releases])
        return result

    for place, value in ((0, FAR[dim % 3]), (1_199, FAR[3 + dim % 3])):
        report = record_replay(run, *pair_at(rows, place, value), budget=budget)
        assert report.pair_cost <= report.declared_cost <= report.allowance
    assert all("sketch" in names for names in seen)
    assert all(names == seen[0] for names in seen[:2])


def test_neighbors_see_a_frame_that_was_not_released(monkeypatch):
    """The planted fault: the frame of the first round has the exact mean of the private rows."""
    original = sketch_start.public_start

    def leaky(run, public, fits, costs):
        found = original(run, public, fits, costs)
        exact = run.rows.block(0, run.rows.n).mean(axis=0)
        found.frame.means[:] = exact
        return found

    monkeypatch.setattr(sketch_start, "public_start", leaky)
    rows, public = rows_of(apart(2, 2.5), 1_200, 40)
    with pytest.raises(ReplayError):
        record_replay(unseeded(public, AMPLE), *pair_at(rows, 3, 50.0), budget=AMPLE)


# ---- Corners --------------------------------------------------------------------------------------------------------


def public_rows(kind):
    public = np.random.default_rng(5).normal(size=(30, 3))
    if kind == "a constant column":
        public[:, 1] = 7.0
    if kind == "equal rows":
        public[:] = 7.0
    if kind == "two rows":
        public = public[:2]
    if kind == "whole numbers":
        public = np.round(public)
    return public


PRIVATE = {
    "missing": np.full((900, 3), np.nan),
    "huge": np.full((900, 3), 1e308),
    "equal": np.zeros((900, 3)),
    "sentinels": np.where(np.arange(2_700).reshape(900, 3) % 7, 1.0, -999.0),
    "two scales": np.where(np.arange(2_700).reshape(900, 3) % 2, 1e-300, -1e300),
}


@pytest.mark.parametrize(
    "kind", ["normal", "a constant column", "equal rows", "two rows", "whole numbers"]
)
@pytest.mark.parametrize("private", PRIVATE)
def test_degenerate_rows_give_a_finite_answer(kind, private):
    result = learn(PRIVATE[private], public_rows(kind), 3, budget=AMPLE, random_state=0)
    assert np.isfinite(result.means).all()
    assert (result.variances > 0.0).all()
    assert np.isfinite(result.variances).all()


@pytest.mark.parametrize("k", [1, 2])
def test_one_component_needs_no_sketch(k):
    result = learn(*rows_of(apart(3, 0.0), 4_000), k, budget=AMPLE, random_state=0)
    names = [each["name"] for each in result.releases]
    assert ("sketch" in names) is (k == 2)
    assert np.abs(result.weights @ result.means).max() < 0.1
