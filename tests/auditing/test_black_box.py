"""Black-box audits: lower bounds on the privacy loss of mechanisms, from their answers alone.

Each run gives one score on a data set or on its neighbor; a threshold chosen on one half of the runs gives a
Clopper-Pearson lower bound on mu (Gaussian DP) or epsilon from the other half. The bounds hold at once with
probability 1 - 2e-9, so a correct mechanism fails a test with that probability; the controls must exceed the claim.
"""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.accounts import opened
from helpers.errors import raises
from releases import release_vector_sum
from scipy import stats

from fastpubpriv import ZCDP, ApproxDP, BinGrid, InputError, PureDP, stable_histogram, weighted_mean
from fastpubpriv.auditing import (
    audit,
    audit_by_tracing,
    audit_randomizer,
    audit_weighted_mean,
    clopper_pearson,
    epsilon_lower_bound,
    tracing_attack,
)
from fastpubpriv.auditing import black_box as module
from fastpubpriv.cli import main
from fastpubpriv.kernels import noise
from fastpubpriv.local import Duchi, PrivUnit, PrivUnitG, SubsetSelection
from fastpubpriv.mechanisms.sums import AffineMap
from fastpubpriv.privacy import GaussianEvent, LaplaceEvent, StableHistogramEvent
from fastpubpriv.privacy.calibration import stable_event
from fastpubpriv.release import release as release_module
from fastpubpriv.release.release import release, release_stable
from fastpubpriv.sources import private_rows
from fastpubpriv.sources.fold import Executor

# Fixed seeds: the bounds below were met with room to spare, and a test that passed keeps passing.
pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
ALPHA = 1e-9


def lower(successes, trials, alpha=ALPHA):
    return (
        0.0 if successes == 0 else float(stats.beta.ppf(alpha, successes, trials - successes + 1))
    )


def upper(successes, trials, alpha=ALPHA):
    return (
        1.0
        if successes == trials
        else float(stats.beta.isf(alpha, successes + 1, trials - successes))
    )


def best_bound(one, other, bound):
    """bound(one, other, t) on the second halves, at the threshold that is best on the first ones."""
    (one_a, one_b), (other_a, other_b) = ((scores[::2], scores[1::2]) for scores in (one, other))
    choices = np.quantile(np.concatenate([one_a, other_a]), np.linspace(0.02, 0.98, 97))
    return float(bound(one_b, other_b, max(choices, key=lambda t: bound(one_a, other_a, t))))


def mu_bound(one, other):
    """Lower bound on mu from scores on two neighbors (larger on `other`): mu >= -z(false positives) - z(misses)."""

    def bound(first, second, t):
        false_positive = upper(int(np.sum(first > t)), len(first))
        miss = upper(int(np.sum(second <= t)), len(second))
        return -stats.norm.ppf(false_positive) - stats.norm.ppf(miss)

    return best_bound(one, other, bound)


def epsilon_bound(one, other, delta=0.0):
    """Lower bound on epsilon: log of P(score > t) on `other`, less delta, over that on `one`."""

    def bound(first, second, t):
        hit = lower(int(np.sum(second > t)), len(second)) - delta
        return math.log(max(hit, 1e-300) / upper(int(np.sum(first > t)), len(first)))

    return best_bound(one, other, bound)


def answers(query, event, budget, runs, *, seed=0, draw=None):
    """(runs, length) answers of one release of `runs` independent copies of `query`, in grid steps."""
    copies = np.tile(np.asarray(query, dtype=np.int64), runs)
    event = GaussianEvent(event.squared_sensitivity, event.log2_scale, len(copies))
    if draw is not None:
        noisy = copies + draw(len(copies))
    else:
        account = opened(budget, draws=len(copies), random_state=seed)
        noisy = release(
            account, name="batch", query=lambda: copies, shape=copies.shape, event=event, unit=1.0
        )
    return noisy.reshape(runs, -1)


# A sum of three columns whose neighbors are the antipodal extreme rows: q - q' = (2 Q, 0, 0) turned in space.
SCALE = 20
DIRECTION = np.array([2.0, -1.0, 2.0]) / 3.0


def gaussian_audit(mu, runs, *, draw=None):
    gap = np.floor(mu * 2**SCALE * DIRECTION).astype(np.int64)  # |gap| <= mu 2^m
    event = GaussianEvent(int(np.floor(mu**2 * 4**SCALE)), SCALE, 3)
    assert int(np.sum(gap.astype(object) ** 2)) <= event.squared_sensitivity
    base = np.array([10**12, -5, 77], dtype=np.int64)
    one = answers(base, event, ZCDP(event.rho), runs, seed=1, draw=draw)
    other = answers(base + gap, event, ZCDP(event.rho), runs, seed=2, draw=draw)
    # The likelihood ratio of two Gaussians grows along the gap.
    return mu_bound((one - base) @ DIRECTION, (other - base) @ DIRECTION)


def weaker(factor):
    def draw(count):
        return np.floor(np.random.default_rng(1).standard_normal(count) * factor * 2**SCALE).astype(
            np.int64
        )

    return draw


def test_gaussian_sum_in_short():
    assert 0.75 < gaussian_audit(1.0, 20_000) <= 1.0
    # Controls: noise of 0.8, and a forgotten sqrt(2)/2.
    assert gaussian_audit(1.0, 20_000, draw=weaker(0.8)) > 1.0
    assert gaussian_audit(1.0, 20_000, draw=weaker(math.sqrt(0.5))) > 1.0


@pytest.mark.audit
@pytest.mark.parametrize(("mu", "power"), [(0.5, 0.9), (1.0, 0.93), (2.0, 0.95)])
def test_gaussian_sum(mu, power):
    assert power * mu <= gaussian_audit(mu, 1_000_000) <= mu


def mean_audit(runs, *, price=1):
    """`release_vector_sum` itself on extreme neighbors, at `price` times the cost that mu = 1 allows."""
    rho = ZCDP(0.5).rho  # mu = 1
    scores = []
    for sign in (-1.0, 1.0):
        rows = private_rows(np.array([[sign * 5.0, 0.0], [0.2, 0.1]]))
        account = opened(ZCDP(rho * runs * price), draws=2 * runs, random_state=7 + int(sign))
        given = {
            "radius": 1.0,
            "cost": rho * price,
            "executor": Executor(threads=1, progress=False),
        }
        release = partial(release_vector_sum, account, rows, AffineMap(dim=2), name="s", **given)
        scores.append([release().value[0] for _ in range(runs)])
    return mu_bound(np.array(scores[0]), np.array(scores[1]))


@pytest.mark.parametrize(
    ("runs", "power"), [(8000, 0.7), pytest.param(100_000, 0.9, marks=pytest.mark.audit)]
)
def test_vector_sum_of_rows(runs, power):
    assert power < mean_audit(runs) <= 1.0
    assert mean_audit(8000, price=2) > 1.0  # control: twice the declared cost


def discrete_laplace(count, seed):
    # As `release` draws it; the cost of so many releases is beyond any account.
    return noise.discrete_laplace(np.random.default_rng(seed).bytes(32), count, 10)


def laplace_audit(epsilon, runs, draw=discrete_laplace):
    gap = int(epsilon * 2**10)
    assert LaplaceEvent(gap, 10, 1).epsilon <= epsilon
    return epsilon_bound(draw(runs, 1), gap + draw(runs, 2))


AT_LENGTH = [
    pytest.param(epsilon, 1_000_000, 0.9, marks=pytest.mark.audit) for epsilon in (0.5, 1.0, 2.0)
]


@pytest.mark.parametrize(("epsilon", "runs", "power"), [(1.0, 100_000, 0.8), *AT_LENGTH])
def test_discrete_laplace(epsilon, runs, power):
    assert power * epsilon <= laplace_audit(epsilon, runs) <= epsilon


@pytest.mark.audit
def test_control_laplace_with_too_little_noise():
    def draw(count, seed):
        return np.rint(np.random.default_rng(seed).laplace(scale=0.8 * 2**10, size=count)).astype(
            np.int64
        )

    assert laplace_audit(1.0, 1_000_000, draw) > 1.0


def test_float_noise_gives_itself_away_and_answers_on_the_grid_do_not():
    """x + float Laplace noise of scale 1 on x = 0 and x = 1: which answers can occur gives x away.

    0 + z keeps all bits of z; 1 + z is a multiple of 2^-53 or coarser. The event "has a finer bit" is decided exactly.
    """
    rng = np.random.default_rng(4)
    runs = 200_000
    zero = rng.laplace(size=runs)
    one = 1.0 + rng.laplace(size=runs)

    def finer(values):
        scaled = np.abs(values) * 2.0**53
        return (np.abs(values) < 0.4) & (scaled != np.floor(scaled))

    hits = [int(finer(values).sum()) for values in (zero, one)]
    assert math.log(lower(hits[0], runs) / upper(hits[1], runs)) > 5.0  # claimed: 1
    # The same event on our answers: no answer of either neighbor has a bit below half a step.
    event = GaussianEvent(4 * 2**16, 10, 1)
    for value in (0, 2**9):
        steps = answers([value], event, ZCDP(float(event.rho) * 1.01), 10_000)
        assert np.array_equal(steps - 0.5, np.floor(steps))


# ---- Black-box audit of stable histograms: how often the bin of a single row shows, and how well neighbors can be told apart.
# Bounds are Clopper-Pearson at 1e-9; the controls must exceed the claim.
def shown(event, rounds, n=4_000_000):
    """Single rows that show among rounds * n bins."""
    ones = np.arange(n)[:, None], np.ones(n, dtype=np.int64)
    total = 0
    for _ in range(rounds):
        account = opened(ApproxDP(40, 0.999), draws=n)
        ((keys, _),) = release_stable(
            account, name="bins", query=lambda: [ones], event=event, slots=(n,)
        )
        total += len(keys)
    return total, rounds * n


def with_draws(event, **changes):
    fields = {
        name: getattr(event, name)
        for name in ("law", "histograms", "step", "threshold", "log2_scale", "draws")
    }
    return StableHistogramEvent(**{**fields, "epsilon": Fraction(30), **changes})


@pytest.mark.audit
@pytest.mark.fresh_keys(false_alarms=1e-8)
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_a_single_row_shows_at_the_declared_rate(law):
    """SAFETY 3.5: 1e8 draws at delta = 1e-5, so about a thousand events: within 10 % at three standard deviations."""
    n = 4_000_000
    event = stable_event(1, 1e-5, histograms=1, n=n, draws=n, law=law)
    found, trials = shown(with_draws(event), 25, n)
    assert lower(found, trials) <= event.singleton_rate <= upper(found, trials)
    assert lower(found, trials) <= 1e-5
    if law == "laplace":
        assert found / trials == pytest.approx(1e-5, rel=0.3)
    # Planted: a threshold one count too low.
    found, trials = shown(with_draws(event, threshold=event.threshold - event.step), 25, n)
    assert lower(found, trials) > event.singleton_rate


def released_count(values, runs, budget):
    """Return the noisy counts of the bin (0, 1] over many runs, zero where it is hidden."""
    counts = np.zeros(runs)
    for index in range(runs):
        item = stable_histogram(
            values, bins=BinGrid(width=1.0), budget=budget, threads=1, progress=False
        )[0]
        where = np.flatnonzero(item.keys[:, 0] == 0)
        counts[index] = item.counts[where[0]] if len(where) else 0.0
    return counts


@pytest.mark.audit
def test_neighbors_are_no_easier_to_tell_apart_than_declared(monkeypatch):
    budget = ApproxDP(1, 1e-3)
    runs = 6000
    values = np.full(40, 0.5)
    neighbor = values.copy()
    neighbor[0] = 1e6
    pair = released_count(neighbor, runs, budget), released_count(values, runs, budget)
    assert 0.15 < epsilon_bound(*pair, 1e-3) <= 1.0
    # Planted: an eighth of the noise.
    original = release_module.noise.discrete_laplace
    monkeypatch.setattr(
        release_module.noise, "discrete_laplace", lambda *args, **kw: original(*args, **kw) // 8
    )
    pair = released_count(neighbor, runs, budget), released_count(values, runs, budget)
    assert epsilon_bound(*pair, 1e-3) > 1.0


# ---- Black-box audits and the tracing attack: sound mechanisms pass, broken ones are caught, and the bounds are exact


@pytest.mark.parametrize(
    ("successes", "trials"), [(0, 10), (1, 10), (7, 10), (10, 10), (300, 1000)]
)
def test_bounds_are_those_of_the_binomial_law(successes, trials):
    lower, upper = clopper_pearson(successes, trials, confidence=0.975)
    if successes:
        assert stats.binom.sf(successes - 1, trials, lower) == pytest.approx(0.025)
    if successes < trials:
        assert stats.binom.cdf(successes, trials, upper) == pytest.approx(0.025)
    assert lower <= successes / trials <= upper


def test_the_bound_on_epsilon():
    assert epsilon_lower_bound(0, 100, 100, 100) == 0.0
    assert epsilon_lower_bound(50, 100, 0, 100, delta=0.9) == 0.0
    assert 1.9 < epsilon_lower_bound(880_000, 10**6, 119_000, 10**6) < 2.0
    assert epsilon_lower_bound(500, 1000, 100, 1000, confidence=0.999) < epsilon_lower_bound(
        500, 1000, 100, 1000
    )


@pytest.mark.parametrize(
    "randomizer",
    [
        PrivUnit(6, 1.0),
        PrivUnitG(6, 2.0),
        Duchi(3, 1.0, 5.0),
        PrivUnit(4, 1.0, form="selection"),
        SubsetSelection(3, 1.0, words=8),
    ],
)
def test_sound_randomizers_pass_and_the_bound_is_close(randomizer):
    """Confidence 1 - 1e-9 each: a sound one fails once in 10^9 runs."""
    report = audit_randomizer(randomizer, runs=60_000, confidence=1 - 1e-9)
    assert report.passed
    assert report.epsilon_lower > 0.8 * randomizer.epsilon
    assert not audit_randomizer(
        randomizer, claim=PureDP(0.75 * randomizer.epsilon), runs=60_000
    ).passed


def test_a_tenth_of_the_noise_is_flagged(monkeypatch):
    """Ten times the epsilon is a tenth of the noise."""
    assert audit_weighted_mean(PureDP(1.0), runs=400, confidence=1 - 1e-9).passed
    assert not audit_weighted_mean(PureDP(10.0), claim=PureDP(1.0), runs=400).passed
    assert audit_weighted_mean(ApproxDP(1.0, 1e-3), runs=400, confidence=1 - 1e-9).passed
    assert not audit_weighted_mean(ApproxDP(10.0, 1e-3), claim=ApproxDP(1.0, 1e-3), runs=400).passed
    honest = module.weighted_mean

    def without_noise(data, *, budget, **more):
        return honest(data, budget=PureDP(50.0), **more)

    monkeypatch.setattr(module, "weighted_mean", without_noise)
    assert not audit_weighted_mean(PureDP(1.0), runs=100).passed


def test_the_threshold_may_be_chosen_by_other_runs():
    coins = np.random.default_rng(0)
    found = audit(
        lambda at, runs: at + coins.normal(size=runs), 1.0, 0.0, claim=PureDP(0.1), runs=4000
    )
    assert not found.passed
    assert "other runs" in found.event


def members(noise, seed, printed, runs=60):
    """Rates of the attack of the specification: 50 rows, 4000 columns."""
    rng = np.random.default_rng(seed)
    inside = outside = 0
    for _ in range(runs):
        theta = rng.uniform(-0.5, 0.5, 4000)
        rows = np.where(rng.random((51, 4000)) < 0.5 * (1.0 + theta), 1.0, -1.0)
        released = rows[:50].mean(axis=0) + noise * rng.standard_normal(4000)
        error = math.sqrt(4000 * (1 / 50 + noise**2))
        found = tracing_attack(
            rows[49:],
            released=released,
            theta=theta,
            error=error,
            failure_prob=0.01,
            printed=printed,
        )
        inside = inside + int(found.member[0])
        outside = outside + int(found.member[1])
    return inside / runs, outside / runs


def test_the_sharper_threshold_finds_more():
    assert members(0.1, 0, printed=True)[0] < 0.6
    found, false = members(0.1, 0, printed=False)
    assert found > 0.95
    assert false <= 0.1


def test_tracing_audits_a_mean():
    def noisy(epsilon):
        coins = np.random.default_rng(1)
        return lambda rows: (
            rows.mean(axis=0)
            + coins.laplace(scale=2.0 * rows.shape[1] / (len(rows) * epsilon), size=rows.shape[1])
        )

    settings = {"claim": PureDP(1.0), "n_priv": 20, "dim": 600, "runs": 150}
    assert audit_by_tracing(
        noisy(1.0), error=800.0, rng=np.random.default_rng(2), **settings
    ).passed
    assert not audit_by_tracing(
        lambda rows: rows.mean(axis=0), error=6.0, rng=np.random.default_rng(2), **settings
    ).passed


def test_tracing_flags_a_tenth_of_the_noise_of_a_central_mean():
    """Confidence 1 - 1e-9 for what must pass; the event is fixed before the runs."""
    traced = partial(audit_weighted_mean, attack="tracing")
    honest = ApproxDP(1.0, 1e-5)
    weak = ApproxDP(15.0, 1e-5)
    rows = np.zeros((10, 3))
    levels = [
        weighted_mean(rows, budget=budget, norm_bound=1.0, project=False).noise_std[0]
        for budget in (honest, weak)
    ]
    assert levels[1] == pytest.approx(0.1 * levels[0], rel=0.1)
    assert traced(honest, runs=800, confidence=1 - 1e-9).passed
    assert not traced(weak, claim=honest, runs=800).passed
    # Pure noise falls as one over epsilon.
    assert traced(PureDP(1.0), n_priv=1, dim=5, runs=2000, confidence=1 - 1e-9).passed
    assert not traced(PureDP(10.0), claim=PureDP(1.0), n_priv=1, dim=5, runs=2000).passed


@pytest.mark.parametrize("kind", [PrivUnit, PrivUnitG])
def test_tracing_flags_a_tenth_of_the_noise_of_reports(kind):
    """The randomizer whose reports have a tenth of the standard deviation, held to the price of the honest one."""
    honest = kind(5, 1.0)
    weak = kind(5, 25.0)
    assert weak.mean_squared_error() < 0.01 * honest.mean_squared_error()
    assert audit_randomizer(honest, attack="tracing", runs=800, confidence=1 - 1e-9).passed
    assert not audit_randomizer(weak, attack="tracing", claim=PureDP(1.0), runs=800).passed


@pytest.mark.parametrize(
    "call",
    [
        lambda: clopper_pearson(3, 2),
        lambda: clopper_pearson(0, 0),
        lambda: epsilon_lower_bound(1, 2, 1, 2, delta=1.0),
        lambda: audit(
            lambda at, runs: np.zeros(3), 0, 1, claim=PureDP(1.0), runs=20, threshold=0.0
        ),
        lambda: audit(lambda at, runs: np.zeros(runs), 0, 1, claim=ZCDP(1.0), runs=20),
        lambda: audit_randomizer(PrivUnit(3, 1.0), runs=2),
        lambda: audit_randomizer(PrivUnit(3, 1.0), attack="tracing", n_reports=0),
        lambda: audit_randomizer(PrivUnit(3, 1.0), attack="none"),
        lambda: audit_weighted_mean(PureDP(1.0), dim=0),
        lambda: audit_weighted_mean(PureDP(1.0), n_priv=2.5),
        lambda: audit_weighted_mean(ZCDP(1.0), attack="tracing", runs=10),
        lambda: tracing_attack(np.ones(3), released=np.ones(2), theta=np.zeros(3), error=1.0),
        lambda: tracing_attack(np.ones(3), released=np.ones(3), theta=np.zeros((3, 1)), error=1.0),
        lambda: tracing_attack(np.ones(4), released=np.ones(3), theta=np.zeros(3), error=1.0),
        lambda: tracing_attack(np.ones(3), released=np.ones(3), theta=np.zeros(3), error=0.0),
    ],
)
def test_bad_arguments_are_refused(call):
    raises(InputError, None, call)


def test_an_audit_of_a_budget_in_rho_says_its_noise():
    report = audit_weighted_mean(ZCDP(0.01), claim=ApproxDP(1, 1e-3), runs=10)
    assert report.name == "weighted_mean, Gaussian noise"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("privunit --epsilon 1 --runs 2000 --json -", 0, '"passed": true'),
        ("duchi --epsilon 3 --claim 1 --runs 5000", 1, "REFUTED"),
        ("privunit --epsilon 1 --runs 2000", 0, "not refuted"),
        ("privunit-g --epsilon -1", 2, "epsilon"),
        ("weighted-mean --attack tracing --epsilon 1 --delta 1e-5 --runs 60", 0, "not refuted"),
        (
            "weighted-mean --attack tracing --epsilon 40 --delta 1e-5 --claim 1 --runs 200",
            1,
            "REFUTED",
        ),
        ("privunit --attack tracing --epsilon 8 --claim 1 --runs 500 --dim 5", 1, "REFUTED"),
        ("duchi --attack tracing --epsilon 1 --runs 100 --rows 3", 0, "mean of 3, by tracing"),
        ("weighted-mean --epsilon 1 --delta 1e-3 --runs 60", 0, "Gaussian noise"),
        ("weighted-mean --epsilon 1 --runs 60", 0, "Laplace noise"),
        ("subset-selection --epsilon 1 --words 8 --dim 3 --runs 5000", 0, "not refuted"),
        ("subset-selection --epsilon 3 --words 8 --dim 3 --runs 5000 --claim 1", 1, "REFUTED"),
        ("subset-selection --attack tracing --epsilon 1 --words 8 --runs 100", 0, "not refuted"),
        ("privunit --epsilon 1 --words 8", 2, "--words belongs to subset-selection"),
        ("privunit --epsilon 1 --delta 1e-5", 2, "reports are pure"),
        ("privunit --epsilon 1 --rows 3", 2, "--attack tracing"),
        ("weighted-mean --epsilon 1 --dim 3", 2, "one column"),
        ("weighted-mean --attack tracing --epsilon 1 --dim 0", 2, "--dim"),
        ("privunit --attack tracing --epsilon 1 --confidence 2", 2, "confidence"),
    ],
)
def test_attacks_of_the_command(words, code, said):
    result = CliRunner().invoke(main, ["audit", *words.split()])
    assert result.exit_code == code, result.output
    assert said in " ".join(result.output.split())
