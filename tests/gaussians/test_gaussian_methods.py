"""The learners in the roles of the black boxes that the paper names: accuracy in their regime, refusals, and replay."""

from fractions import Fraction
from functools import partial
from unittest import mock

import numpy as np
import pytest
import spies
from gaussian_cases import covariance_error, mean_error
from helpers.errors import raises
from helpers.neighbors import pair_at
from scipy import stats

from fastpubpriv import ZCDP, ApproxDP, PureDP, estimate_gaussian
from fastpubpriv.auditing.replay import record_replay
from fastpubpriv.errors import AccuracyWarning, BudgetError, ExperimentalWarning, ReplayError
from fastpubpriv.estimators.preconditioner import public_frame
from fastpubpriv.gaussians import covariances_of_groups, hypothesis_selection, recursive
from fastpubpriv.gaussians.gaussian_methods import METHODS
from fastpubpriv.gaussians.lifted import GaussianProblem
from fastpubpriv.mechanisms import group_covariances, scores

pytestmark = pytest.mark.filterwarnings(
    "ignore::fastpubpriv.ExperimentalWarning", "ignore::fastpubpriv.AccuracyWarning"
)


def gaussian(n_priv, n_pub, dim, *, condition=10.0, mean=3.0, seed=0):
    """Private rows, public rows, and the square root of their covariance."""
    rng = np.random.default_rng(seed)
    root = np.linalg.qr(rng.normal(size=(dim, dim)))[0] * np.sqrt(np.geomspace(1.0, condition, dim))
    rows = rng.normal(size=(n_priv + n_pub, dim)) @ root.T + mean
    return rows[:n_priv], rows[n_priv:], root


def errors(result, root, mean=3.0):
    return covariance_error(result.covariance, root), mean_error(result.mean, mean, root)


seeded = partial(spies.seeded, estimate_gaussian)


def test_registry_is_complete():
    assert METHODS.choices[0] == "auto"
    assert list(METHODS) == [
        "ladder",
        "lifted_coinpress",
        "pairs",
        "recursive_preconditioner",
        "group_covariances",
        "hypothesis_selection",
    ]
    assert [name for name, method in METHODS.items() if method.reserved is not None] == [
        "group_covariances"
    ]
    for module in (covariances_of_groups, hypothesis_selection, recursive):
        assert " ".join(module.__doc__.split()).count("(paper A: the role of ") == 1


@pytest.mark.parametrize(
    ("dim", "n_priv", "n_pub", "budget", "limit"),
    [
        (2, 100_000, 3, ZCDP(0.5), 0.1),
        (2, 100_000, 3, ApproxDP(2, 1e-6), 0.1),
        (5, 200_000, 100, ZCDP(0.5), 0.06),
        (2, 100_000, 60, PureDP(1), 0.1),
    ],
)
def test_recursive_preconditioner_recovers(dim, n_priv, n_pub, budget, limit):
    x_priv, x_pub, root = gaussian(n_priv, n_pub, dim, condition=100.0)
    for seed in range(3):
        result = seeded(
            x_priv, x_pub=x_pub, budget=budget, method="recursive_preconditioner", random_state=seed
        )
        covariance, mean = errors(result, root)
        assert covariance < min(limit, 3.0 * result.predicted_covariance_error)
        assert mean < 3.0 * result.predicted_mean_error
    assert result.method == "recursive_preconditioner"
    assert sum("second moment" in release["name"] for release in result.releases) == result.rounds
    assert all(release["clip_radius"] > 0 for release in result.releases)


def test_recursion_contracts_and_keeps():
    # The two claims of a round, on random covariances of least eigenvalue 1 or more, with the largest error it allows.
    rng = np.random.default_rng(1)
    kappa = 100.0
    worst = 0.0
    kept = 1.0
    for _ in range(2000):
        rotation = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        sigma = (rotation * np.exp(rng.uniform(0.0, np.log(kappa), size=3))) @ rotation.T
        error = rng.normal(size=(3, 3))
        error = error + error.T
        error *= kappa * recursive.TRUSTED_ERROR / np.linalg.norm(error, 2)
        values, vectors = np.linalg.eigh(sigma + error)
        halved = (vectors * np.where(values >= kappa / 2, 0.5, 1.0)) @ vectors.T
        after = np.linalg.eigvalsh(halved @ sigma @ halved)
        worst = max(worst, after[-1] / kappa)
        kept = min(kept, after[0])
    assert worst <= recursive.SHRINK
    assert kept >= recursive.KEPT
    assert worst > 0.5  # a factor of one half would be a wrong claim


@pytest.mark.parametrize("budget", [PureDP(1), ZCDP(0.1)])
@pytest.mark.parametrize(
    ("dim", "n_priv", "n_pub"), [(1, 5_000, 50), (1, 40_000, 50), (2, 40_000, 100)]
)
def test_hypothesis_selection_recovers(dim, n_priv, n_pub, budget):
    x_priv, x_pub, root = gaussian(n_priv, n_pub, dim, condition=4.0)
    for seed in range(3):
        result = seeded(
            x_priv, x_pub=x_pub, budget=budget, method="hypothesis_selection", random_state=seed
        )
        covariance, mean = errors(result, root)
        assert covariance < 3.0 * result.predicted_covariance_error
        assert mean < 4.0 * result.predicted_mean_error
        assert np.linalg.eigvalsh(result.covariance)[0] > 0
    assert len(result.releases) == (1 if dim == 1 else 3)
    assert all(
        1 < release["candidates"] <= hypothesis_selection.MAX_HYPOTHESES
        for release in result.releases
    )


@pytest.mark.parametrize("dim", [1, 2])
def test_hypothesis_selection_works_with_one_public_row_more_than_columns(dim):
    found = []
    said = []
    public = []
    for seed in range(6):
        x_priv, x_pub, root = gaussian(50_000, dim + 1, dim, condition=4.0, seed=seed)
        result = seeded(
            x_priv, x_pub=x_pub, budget=ZCDP(0.5), method="hypothesis_selection", random_state=seed
        )
        found.append(errors(result, root)[0])
        said.append(result.predicted_covariance_error)
        public.append(covariance_error(np.cov(x_pub.T, ddof=1).reshape(dim, dim), root))
        usual = (dim * (dim + 1) / dim) ** 0.5  # of d + 1 public rows
        assert ("wide" in result.reasons) == (said[-1] > usual)
    assert 0.3 < np.median(said) / np.median(found) < 4.0
    assert np.median(found) < 0.5 * np.median(public)


def test_hypothesis_selection_says_where_the_public_rows_do_as_well():
    run = partial(seeded, budget=ZCDP(0.5), method="hypothesis_selection")
    found = []
    public = []
    for seed in range(7):
        x_priv, x_pub, root = gaussian(3_000, 100, 1, seed=seed)
        result = run(x_priv, x_pub=x_pub, random_state=seed)
        assert "wide" in result.reasons
        found.append(errors(result, root)[0])
        public.append(covariance_error(np.cov(x_pub.T).reshape(1, 1), root))
        assert "wide" not in run(x_priv, x_pub=x_pub[:10], random_state=seed).reasons
    assert np.median(found) > np.median(public)


def test_the_answer_of_hypothesis_selection_is_near_the_best_of_its_cover():
    x_priv, x_pub, root = gaussian(100_000, 2, 1, condition=1.0)
    prepare = hypothesis_selection.CellSets.prepare
    with mock.patch.object(hypothesis_selection.CellSets, "prepare", wraps=prepare) as asked:
        result = seeded(x_priv, x_pub=x_pub, budget=ZCDP(0.5), method="hypothesis_selection")
    accuracy = result.releases[0]["accuracy"]
    frame = public_frame(
        x_pub, failure_prob=0.025, pub_priv_gap=0.0, cond_max=1.0, require_precondition=True
    )
    cover = asked.call_args.args[0]
    scale = float(frame.scale.factor[0, 0])
    means = frame.center[0] + scale * cover.means.ravel()
    stds = scale * np.sqrt(cover.spreads.ravel())
    grid = np.linspace(-5.0, 11.0, 20_001)  # 8 standard deviations about the true mean of 3
    truth = stats.norm.pdf(grid, 3.0, abs(float(root[0, 0])))

    def distance(mean, std):
        return 0.5 * np.sum(np.abs(stats.norm.pdf(grid, mean, std) - truth)) * (grid[1] - grid[0])

    best = min(distance(*each) for each in zip(means, stds, strict=True))
    own = distance(result.mean[0], result.covariance[0, 0] ** 0.5)
    assert best <= accuracy
    assert own <= 4.0 * accuracy


@pytest.mark.parametrize(
    ("condition", "radius", "accuracy", "deviations"),
    [
        (1.0, 0.5, 0.1, np.inf),
        (40.0, 1.0, 0.15, np.inf),
        (9.0, 2.0, 0.05, np.inf),
        (1e4, 2.0, 0.2, 2.0),
        (40.0, 1.0, 0.1, 1.5),
    ],
)
def test_cover_covers(condition, radius, accuracy, deviations):
    problem = GaussianProblem(
        dim=1,
        n=10**6,
        mean_radius=radius,
        condition=condition,
        mode="practical",
        failure_prob=0.05,
        deviations=deviations,
    )
    cover = hypothesis_selection.cover_of(problem, accuracy)
    assert cover.size == sum(hypothesis_selection.cover_sizes(problem, accuracy)[-1])
    grid = np.linspace(-radius - 8, radius + 8, 20_001)

    def density(mean, std):
        return np.exp(-0.5 * ((grid - mean) / std) ** 2) / std

    members = density(cover.means.reshape(-1, 1), np.sqrt(cover.spreads.reshape(-1, 1)))
    rng = np.random.default_rng(0)
    for _ in range(40):
        std = rng.choice([1.0, condition**-0.5, np.exp(rng.uniform(-0.5 * np.log(condition), 0.0))])
        most = min(radius, deviations * std)
        mean = rng.choice([most, -most, rng.uniform(-most, most)])
        truth = density(mean, std)
        distance = (
            0.5 * np.abs(members - truth).sum(axis=1) * (grid[1] - grid[0]) / np.sqrt(2 * np.pi)
        )
        assert distance.min() <= accuracy * 1.001


def test_group_covariances_recover_and_shrug_off_a_wrong_scale():
    x_priv, x_pub, root = gaussian(120_000, 2, 1, condition=1.0)
    budget = ApproxDP(4, 1e-6)
    for scale in (1.0, 1e6):
        result = seeded(
            scale * (x_priv - 3.0), x_pub=x_pub - 3.0, budget=budget, method="group_covariances"
        )
        covariance, mean = errors(result, scale * root, 0.0)
        assert covariance < 0.03
        assert mean < 0.03
        assert result.releases[0]["passed"] == 1.0
        assert [release["noise"] for release in result.releases[:2]] == [
            "discrete laplace",
            "gaussian",
        ]
    # The paper's learner cannot: its clip radius comes from the public rows. The default counts the rows first, and says so.
    lifted = seeded(
        1e6 * (x_priv - 3.0), x_pub=x_pub - 3.0, budget=budget, method="lifted_coinpress"
    )
    assert errors(lifted, 1e6 * root, 0.0)[0] > 0.3
    default = seeded(1e6 * (x_priv - 3.0), x_pub=x_pub - 3.0, budget=budget)
    assert errors(default, 1e6 * root, 0.0)[0] < 0.1
    assert default.status != "ok"


def test_group_covariances_in_two_columns_and_where_rows_disagree():
    x_priv, x_pub, root = gaussian(330_000, 3, 2, condition=100.0)
    result = seeded(x_priv, x_pub=x_pub, budget=ApproxDP(4, 1e-6), method="group_covariances")
    covariance, mean = errors(result, root)
    assert covariance < 0.03
    assert mean < 0.03
    assert result.rounds + 4 == len(result.releases)
    # Group covariances fall back when rows disagree.
    rng = np.random.default_rng(3)
    x_priv = rng.normal(size=(120_000, 1))
    groups = covariances_of_groups.groups_for(
        GaussianProblem(
            dim=1, n=120_000, mean_radius=1.0, condition=1.0, mode="practical", failure_prob=0.1
        )
    )
    x_priv[(np.arange(120_000) % groups) % 2 == 0] *= 20.0
    result = seeded(
        x_priv,
        x_pub=10.0 * rng.normal(size=(5, 1)),
        budget=ApproxDP(4, 1e-6),
        method="group_covariances",
    )
    assert result.releases[0]["passed"] == 0.0
    assert abs(result.covariance[0, 0] / x_priv.var() - 1.0) < 0.1


@pytest.mark.parametrize(("method", "dim", "n_priv", "n_pub", "budget", "options", "text"), [
    ("recursive_preconditioner", 5, 20_000, 6, ZCDP(0.5), {}, r"error of a round .* about \d+ rows are needed"),
    ("recursive_preconditioner", 2, 20_000, 60, ZCDP(0.5), {"rounds": 3}, "rounds=None"),
    ("recursive_preconditioner", 2, 20_000, 2, ZCDP(0.5), {"cond_max": 1e30}, "would need .* rounds"),
    ("recursive_preconditioner", 1, 1, 60, ZCDP(0.5), {}, "at least 2"),
    ("hypothesis_selection", 3, 20_000, 60, PureDP(1), {}, "1 or 2 columns.*method=.auto"),
    ("hypothesis_selection", 1, 20_000, 2, PureDP(1), {"failure_prob": 1e-40}, "cover of .* at most 5000.*lifted_coinpress"),
    ("hypothesis_selection", 1, 200, 60, PureDP(1), {}, "too few.*are needed"),
    ("hypothesis_selection", 1, 20_000, 60, PureDP(1), {"rounds": 2}, "no rounds"),
    ("group_covariances", 1, 20_000, 2, ApproxDP(1, 1e-6), {}, r"groups of 100 rows.* \d+ rows, and has 20000"),
    ("group_covariances", 7, 20_000, 8, ApproxDP(1, 1e-6), {}, "up to 6 columns"),
])  # fmt: skip
def test_refusals_come_before_the_debit(method, dim, n_priv, n_pub, budget, options, text):
    x_priv, x_pub, _ = gaussian(n_priv, n_pub, dim)
    spies.refused(
        estimate_gaussian, text, x_priv, x_pub=x_pub, budget=budget, method=method, **options
    )


@pytest.mark.parametrize(
    ("method", "budget"),
    [
        ("group_covariances", ZCDP(1)),
        ("group_covariances", PureDP(1)),
        ("hypothesis_selection", ApproxDP(1, 1e-6)),
    ],
)
def test_wrong_notions_are_refused(method, budget):
    x_priv, x_pub, _ = gaussian(20_000, 60, 1)
    raises(
        BudgetError,
        "pass .*DP",
        estimate_gaussian,
        x_priv,
        x_pub=x_pub,
        budget=budget,
        method=method,
    )


def test_experimental_methods_and_useless_predictions_are_warned_about():
    x_priv, x_pub, _ = gaussian(120_000, 2, 1)
    with pytest.warns(ExperimentalWarning, match="experimental"):
        estimate_gaussian(x_priv, x_pub=x_pub, budget=ApproxDP(4, 1e-6), method="group_covariances")
    x_priv, x_pub, _ = gaussian(150_000, 6, 5)
    with pytest.warns(AccuracyWarning, match="predicted relative covariance error"):
        estimate_gaussian(x_priv, x_pub=x_pub, budget=ZCDP(0.1), method="recursive_preconditioner")


ROWS = [np.nan, np.inf, 1e308, -1e308, 5e-324, 0.0, 1e6, 3.0]

CASES = [
    ("recursive_preconditioner", 2, 40_000, 60, ZCDP(0.5)),
    ("recursive_preconditioner", 2, 40_000, 60, ApproxDP(2, 1e-6)),
    ("recursive_preconditioner", 2, 60_000, 3, ZCDP(2)),
    ("recursive_preconditioner", 2, 40_000, 60, PureDP(2)),
    ("hypothesis_selection", 1, 5_000, 50, PureDP(1)),
    ("hypothesis_selection", 2, 10_000, 100, ZCDP(0.2)),
    ("group_covariances", 1, 90_000, 2, ApproxDP(4, 1e-6)),
]


@pytest.mark.parametrize(("method", "dim", "n_priv", "n_pub", "budget"), CASES)
def test_replay_over_neighbors(method, dim, n_priv, n_pub, budget):
    x_priv, x_pub, _ = gaussian(n_priv, n_pub, dim, condition=4.0)
    run = partial(seeded, x_pub=x_pub, budget=budget, method=method, threads=1)
    worst = 0.0
    for place, value in enumerate(ROWS):
        pair = pair_at(x_priv, [0, 1, 77, -1][place % 4], value * np.array([1.0, -1.0])[:dim])
        report = record_replay(run, *pair, budget=budget)
        assert report.pair_cost <= report.declared_cost
        assert report.declared_cost <= report.allowance * (1 + 1e-9)
        worst = max(worst, report.tightness)
    assert worst > 0.0
    assert (report.epsilon > 0) == (method == "group_covariances")


def test_recursive_preconditioner_cost_is_approached():
    x_priv, x_pub, _ = gaussian(40_000, 60, 2, condition=1.0)
    one = x_priv.copy()
    other = x_priv.copy()
    # Differences far away in directions that are orthogonal in public coordinates, and opposite sides for the mean.
    root = np.linalg.cholesky(np.cov(x_pub.T))
    one[0] = one[1] + 1e6 * root[:, 0]
    other[0] = other[1] + 1e6 * root[:, 1]
    run = partial(seeded, x_pub=x_pub, budget=ZCDP(0.5), method="recursive_preconditioner")
    report = record_replay(run, one, other, budget=ZCDP(0.5))
    # Second moments reach theirs; two orthogonal rows reach half of the mean's tenth.
    assert 0.9 < report.tightness <= 1.0


def test_replay_catches_scores_counted_twice(monkeypatch):
    x_priv, x_pub, _ = gaussian(5_000, 50, 1)
    honest = scores.CellSets.scores
    monkeypatch.setattr(scores.CellSets, "scores", lambda *args: 2 * honest(*args))
    budget = PureDP(1)

    run = partial(seeded, x_pub=x_pub, budget=budget, method="hypothesis_selection")

    def search():
        for value in np.linspace(-20.0, 20.0, 41):
            record_replay(run, *pair_at(x_priv, 0, value), budget=budget)

    raises(ReplayError, "score moved by 2", search)


def test_replay_catches_a_center_without_robust_weights(monkeypatch):
    x_priv, x_pub, _ = gaussian(90_000, 2, 1)
    monkeypatch.setattr(
        group_covariances,
        "center",
        lambda covariance, close: [[sum(map(Fraction, covariance[:, 0, 0].tolist())) / len(close)]],
    )
    budget = ApproxDP(4, 1e-6)
    run = partial(seeded, x_pub=x_pub, budget=budget, method="group_covariances")
    raises(
        ReplayError,
        "logarithm of the center",
        record_replay,
        run,
        *pair_at(x_priv, 5, 1e6),
        budget=budget,
    )
