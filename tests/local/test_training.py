"""Semi-local training: what it learns, its bound, and that rows are used as promised."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from helpers.errors import raises
from helpers.refusals import Refusals
from own_losses import Absolute
from scipy import stats

from fastpubpriv import InputError, PureDP, local
from fastpubpriv.local.public_facts import clipping_std, moments, public_norm_bound, row_norms
from fastpubpriv.release.reports import report_keys
from fastpubpriv.results.estimates import MeanResult
from fastpubpriv.sources import private_rows

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
TRUTH = np.array([0.4, -0.3, 0.2])


def regression(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, (n, 3))
    return x, x @ TRUTH + 0.1 * rng.uniform(-1.0, 1.0, n)


def excess(weights):
    """Of the squared loss: uniform columns have variance 1/3."""
    return float(np.sum((weights - TRUTH) ** 2)) / 6.0


def learned(n_priv=5000, n_pub=100, **more):
    x, y = regression(n_priv, 0)
    x_pub, y_pub = regression(max(n_pub, 1), 1)
    given = {"epsilon": 4.0, "clip_norm": 2.0, "radius": 1.0, "random_state": 3, **more}
    if n_pub:
        given.update(x_pub=x_pub, y_pub=y_pub)
    return local.train(x, y, **given)


def test_it_learns_within_its_bound():
    found = learned()
    assert excess(found.coefficients) < found.excess_bound
    assert excess(found.coefficients) < 0.2 * excess(np.zeros(3))
    assert found.spent == PureDP(4.0)
    assert not found.private
    assert (
        type(found).from_json(found.to_json()).coefficients.tolist() == found.coefficients.tolist()
    )
    assert "coefficient" in found.summary()


def test_the_bound_is_that_of_the_paper_or_better():
    randomizer = local.PrivUnit(3, 4.0, norm_bound=2.0)
    second = randomizer.second_moment
    better = 1.0 / math.sqrt(5000 / second + 100 / 4.0)
    paper = math.sqrt(5000 * second + 400.0) / 5100
    assert better < min(paper, 1.0 / math.sqrt(100 / 4.0))
    assert learned(300, 50, batch_rows=1).excess_bound == pytest.approx(
        1.0 / math.sqrt(300 / second + 50 / 4.0)
    )
    assert learned().excess_bound < 1.13 * better


def test_a_strongly_convex_loss_gets_falling_steps():
    """Uniform columns in [-1, 1]: the mean loss is 1/3-strongly convex."""
    randomizer = local.PrivUnit(3, 4.0, norm_bound=2.0)
    one = learned(300, 50, batch_rows=1, strong_convexity=3.0, radius=50.0)
    assert one.excess_bound <= 2.0 / (3.0 * (300 / randomizer.second_moment + 50 / 4.0))
    assert one.releases[0]["steps"] == "strongly convex"
    # A promise too weak to help leaves the steps as they were.
    weak = learned(300, 50, strong_convexity=1e-6)
    assert weak.coefficients.tolist() == learned(300, 50).coefficients.tolist()
    assert weak.releases[0]["steps"] == "convex"


def test_steps_by_hand():
    """Two batches of one row, totals 1 and 2, mu = 1: A = 1, 3; weights 1, 6; lengths 1 / 1, 3 / 7; bound (1 + 9 * 2 / 7) / 14."""
    found = local.local_training.best_steps(
        [1.0, 2.0], [False, False], clip=1.0, radius=1e9, convexity=1.0
    )
    assert list(found.weights) == [1.0, 6.0]
    assert list(found.lengths) == pytest.approx([1.0, 3.0 / 7.0])
    assert found.excess_bound == pytest.approx((1.0 + 18.0 / 7.0) / 14.0)
    # Batches of several rows: (total clip)^2 more.
    found = local.local_training.best_steps(
        [1.0, 2.0], [False, True], clip=1.0, radius=1.0, convexity=None
    )
    assert found.excess_bound == pytest.approx(math.sqrt(1.0 + 2.0 + 4.0) / 3.0)


def test_falling_steps_keep_their_bound_on_a_quadratic():
    """mu |w|^2 / 2 in one column with coins for noise: the mean of 4000 runs stays below the bound; with tiny steps it does not."""
    rng = np.random.default_rng(0)
    totals = [0.25] * 30 + [4.0] * 10
    plan = local.local_training.best_steps(
        totals, [False] * 40, clip=1.0, radius=1e9, convexity=1.0
    )

    def mean_excess(factor):
        weights = np.full(4000, 0.5)
        average = np.zeros(4000)
        done = 0.0
        for total, length, weight in zip(totals, plan.lengths, plan.weights, strict=True):
            done += weight
            average += weight / done * (weights - average)
            noise = rng.choice([-1.0, 1.0], 4000) * np.sqrt(
                1.0 / total - np.minimum(weights**2, 1.0 / total)
            )
            weights = weights - factor * length * total * (weights + noise)
        return float(np.mean(average**2)) / 2.0

    assert mean_excess(1.0) < plan.excess_bound
    assert mean_excess(0.02) > plan.excess_bound


def test_a_user_reports_once():
    x, y = regression(300, 0)
    names = [bytes([i % 100]) * 16 for i in range(300)]
    common = {"epsilon": 4.0, "clip_norm": 2.0, "radius": 1.0, "random_state": 3}
    found = local.train(x, y, users=names, **common)
    assert found.n_priv == 100
    assert found.spent == PureDP(4.0)
    assert found.releases[0]["rows_without_report"] == 200
    assert (
        found.coefficients.tolist() == local.train(x[:100], y[:100], **common).coefficients.tolist()
    )
    mixed = np.random.default_rng(1).permutation(300)
    chosen = [names[i] for i in mixed]
    first = sorted({name: place for place, name in reversed(list(enumerate(chosen)))}.values())
    again = local.train(x[mixed], y[mixed], users=chosen, **common).coefficients
    assert (
        again.tolist()
        == local.train(x[mixed][first], y[mixed][first], **common).coefficients.tolist()
    )
    twice = local.train(x, y, users=names, reports_per_user=2, **common)
    assert twice.n_priv == 200
    assert twice.spent == PureDP(8.0)
    priced = local.train(x, y, reports_per_user=3, **common)
    assert priced.n_priv == 300
    assert priced.spent == PureDP(12.0)
    for bad in (
        {"users": names[:-1]},
        {"users": ["anna"] * 300},
        {"reports_per_user": 0},
        {"reports_per_user": 1.5},
    ):
        raises(InputError, "user", local.train, x, y, **bad, **common)


@pytest.mark.parametrize("loss", list(one for one in local.LOSSES.values() if not one.scores))
def test_gradients_are_derivatives_and_depend_on_their_row_alone(loss):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6, 4))
    y = np.array([0.0, 1, 1, 0, 1, 0])
    w = rng.normal(size=4)
    found = loss.gradient(w, x, y)
    for j in range(4):
        step = np.zeros(4)
        step[j] = 1e-6
        assert np.allclose(
            found[:, j], (loss.value(w + step, x, y) - loss.value(w - step, x, y)) / 2e-6, atol=1e-8
        )
    for i in range(6):
        assert np.array_equal(loss.gradient(w, x[i : i + 1], y[i : i + 1])[0], found[i])


def test_every_user_reports_once(monkeypatch):
    seen = []
    honest = local.PrivUnit._reported

    def counted(self, rows, keys, **more):
        seen.append(len(rows))
        assert rows.dim == 3
        return honest(self, rows, keys, **more)

    monkeypatch.setattr(local.PrivUnit, "_reported", counted)
    learned(1000, 77, batch_rows=10)
    assert sum(seen) == 1000
    for size in (1, 7, 10_000):
        plan = list(local.local_training._plan(1000, 77, size))
        assert [plan[0][0][0], plan[-1][0][1], plan[-1][1][1]] == [0, 1000, 77]
        assert all(
            one[0][1] == two[0][0] and one[1][1] == two[1][0]
            for one, two in itertools.pairwise(plan)
        )


def test_a_row_enters_by_its_clipped_gradient_alone(monkeypatch):
    """Record and replay: with reports forced, two data sets that differ in one row give the same weights."""
    x, y = regression(400, 0)
    other = x.copy()
    other[123] = [1e300, math.nan, -1.0]
    records = []
    honest = local.PrivUnit._reported

    def forced(self, rows, keys, **more):
        records.append(np.concatenate(list(rows.chunks())))
        fixed = np.random.default_rng(len(rows)).normal(size=(len(rows), 3))
        return honest(self, private_rows(fixed), report_keys(0), **more)

    monkeypatch.setattr(local.PrivUnit, "_reported", forced)
    first = local.train(x, y, epsilon=1.0, clip_norm=1.0, radius=1.0, random_state=0).coefficients
    mine = list(records)
    records[:] = []
    second = local.train(
        other, y, epsilon=1.0, clip_norm=1.0, radius=1.0, random_state=0
    ).coefficients
    assert np.array_equal(first, second)
    changed = [np.flatnonzero(~(a == b).all(axis=1)) for a, b in zip(mine, records, strict=True)]
    assert [len(rows) for rows in changed if len(rows)] == [1]


def test_hostile_rows_do_not_raise():
    x, y = regression(200, 0)
    x[3] = 1e308
    x[4] = 0.0
    x[5, 1] = np.nan
    y[6] = np.inf
    assert np.isfinite(local.train(x, y, epsilon=1.0, clip_norm=1.0, radius=1.0).coefficients).all()
    found = local.train(
        x, np.full(200, 7.0), epsilon=1.0, clip_norm=1.0, radius=1.0, loss="logistic"
    ).coefficients
    assert np.isfinite(found).all()


@pytest.mark.parametrize(
    "more",
    [
        {"epsilon": -1.0},
        {"clip_norm": 0.0},
        {"radius": math.inf},
        {"batch_rows": 0},
        {"loss": "hinge"},
        {"loss": 3},
        {"start": [1.0]},
        {"form": "both"},
        {"strong_convexity": 0.0},
        {"strong_convexity": math.nan},
        {"x_pub": None},
        {"y_pub": None},
        {"y_pub": [1.0, 2.0]},
        {"y_priv": np.ones(49)},
        {"y_priv": np.ones((50, 2))},
    ],
)
def test_bad_arguments_are_refused(more):
    given = {
        "epsilon": 1.0,
        "clip_norm": 1.0,
        "radius": 1.0,
        "x_pub": np.ones((4, 3)),
        "y_pub": np.ones(4),
    }
    given |= dict(zip(("x_priv", "y_priv"), regression(50, 0), strict=True))
    raises(InputError, "y_priv" if "y_priv" in more else None, local.train, **given | more)


# ---- What public rows choose for local training: where it starts, how far it goes, and what gradients are clipped to.
PUBLIC = {"start": "public", "clip_norm": "public", "radius": "public"}


class NoValue:
    """Gradients alone do not say where the minimum is."""

    gradient = Absolute.gradient


def noisy(n, seed, dim=6):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, dim))
    best = np.linspace(-1.0, 1.0, dim)
    return x, x @ best + rng.normal(size=n), best


def test_a_public_start_is_far_better_than_public_rows_or_a_start_at_zero():
    """The mean of 4 seeded draws, 40 public rows in 6 columns; by public rows alone the excess is about 6 / (2 * 40)."""
    errors = []
    for seed in range(4):
        x, y, best = noisy(10_040, seed)
        shown = {"x_pub": x[:40].copy(), "y_pub": y[:40].copy()}
        call = {"epsilon": 4.0, "batch_rows": 50, "random_state": seed, **shown}
        begun = local.train(x[40:], y[40:], **PUBLIC, **call)
        assert np.allclose(begun.start, np.linalg.lstsq(x[:40], y[:40], rcond=None)[0])
        # As wide as the truth asks for, and a clip that few gradients reach.
        zero = local.train(
            x[40:], y[40:], clip_norm=8.0, radius=2.0 * float(np.linalg.norm(best)), **call
        )
        errors.append(
            [
                0.5 * np.sum((each - best) ** 2)
                for each in (begun.start, zero.coefficients, begun.coefficients)
            ]
        )
    public, zero, both = np.mean(errors, axis=0)
    assert both < 0.15 * public
    assert both < 0.2 * zero


def test_what_public_rows_choose_is_what_is_said():
    x, y, _ = noisy(1060, 1)
    shown = x[:60].copy()
    labels = y[:60].copy()
    call = {"x_pub": shown, "y_pub": labels, "epsilon": 4.0, "batch_rows": 50, "random_state": 0}
    found = local.train(x[60:], y[60:], **PUBLIC, **call)
    assert found.n_priv == 1000
    assert found.n_pub == 60
    assert found.provenance == dict.fromkeys(("start", "clip_norm", "radius"), "public rows")
    begun = local.public_facts.PublicStart.of(local.LOSSES["squared"], shown, labels)
    assert found.radius == 3.0 * begun.error
    assert found.releases[0]["clip_norm"] == np.quantile(begun.lengths, 0.75)
    # The public rows are used once: the same numbers without them give the same weights.
    same = {
        "start": found.start,
        "radius": found.radius,
        "clip_norm": found.releases[0]["clip_norm"],
    }
    plain = local.train(x[60:], y[60:], epsilon=4.0, batch_rows=50, random_state=0, **same)
    assert np.array_equal(plain.coefficients, found.coefficients)
    assert plain.excess_bound == found.excess_bound
    # A public clip by itself: lengths at the start, and the rows are used in the pass.
    clipped = local.train(x[60:], y[60:], clip_norm="public", radius=2.0, **call)
    lengths = np.linalg.norm(labels[:, None] * shown, axis=1)
    assert clipped.releases[0]["clip_norm"] == pytest.approx(np.quantile(lengths, 0.75))
    told = {"clip_norm": clipped.releases[0]["clip_norm"], "radius": 2.0}
    alone = local.train(x[60:], y[60:], **told, epsilon=4.0, batch_rows=50, random_state=0)
    assert not np.array_equal(clipped.coefficients, alone.coefficients)


def test_the_error_of_a_public_fit_is_that_of_its_jackknife():
    """200 seeded fits: the root mean square of distances is within a tenth of the mean of what is said."""
    said = []
    found = []
    for seed in range(200):
        x, y, best = noisy(80, seed, dim=4)
        begun = local.public_facts.PublicStart.of(local.LOSSES["squared"], x, y)
        said.append(begun.error)
        found.append(np.linalg.norm(begun.weights - best))
    assert np.sqrt(np.mean(np.square(found))) == pytest.approx(
        np.sqrt(np.mean(np.square(said))), rel=0.15
    )
    assert np.mean(np.array(found) < 2.0 * np.array(said)) > 0.95


@pytest.mark.parametrize("loss", ["logistic", "huber", Absolute()])
def test_a_public_start_for_any_loss(loss):
    x, y, best = noisy(3060, 2, dim=3)
    y = (y > 0.0).astype(float) if loss == "logistic" else y
    call = {
        "x_pub": x[:60].copy(),
        "y_pub": y[:60].copy(),
        "epsilon": 4.0,
        "batch_rows": 50,
        "random_state": 0,
    }
    found = local.train(x[60:], y[60:], loss=loss, **PUBLIC, **call)
    cosine = found.coefficients @ best / np.linalg.norm(found.coefficients) / np.linalg.norm(best)
    assert cosine > 0.9
    assert np.linalg.norm(found.coefficients - found.start) <= found.radius


def test_classes_that_a_plane_divides_have_a_public_start():
    x = np.linspace(-1.0, 1.0, 40)[:, None]
    begun = local.public_facts.PublicStart.of(
        local.LOSSES["logistic"], x, (x[:, 0] > 0.0).astype(float)
    )
    assert 1.0 < begun.weights[0] < 100.0
    assert begun.error < 30.0


REFUSED = Refusals()
REFUSED.add_values("needs public rows", {**PUBLIC, "x_pub": None, "y_pub": None})
REFUSED.add_values("start='public' too", {**PUBLIC, "start": None})
REFUSED.add_values("start", {**PUBLIC, "start": "zero"})
REFUSED.add_values("clip_norm", {**PUBLIC, "clip_norm": "auto"})
REFUSED.add_values(
    "more public rows than columns", {**PUBLIC, "x_pub": np.ones((6, 6)), "y_pub": np.ones(6)}
)
REFUSED.add_values("gradients that are not zero", {**PUBLIC, "y_pub": np.zeros(40)})
REFUSED.add_values("function of values", {**PUBLIC, "loss": NoValue()})


@pytest.mark.parametrize(("more", "why"), REFUSED)
def test_public_choices_that_cannot_be_made(more, why):
    x, y, _ = noisy(100, 3)
    given = {"x_pub": x[:40].copy(), "y_pub": y[:40].copy(), "epsilon": 4.0}
    raises(InputError, why, local.train, x[40:], y[40:], **given | more)


# ---- What public rows tell in the local model: the norm bound, the error of a mean in a ball, and what shortening takes.
@pytest.mark.parametrize(
    "make", [local.PrivUnit, local.PrivUnitG, local.Duchi, local.SubsetSelection]
)
def test_the_bound_is_the_longest_public_row(make):
    public = np.random.default_rng(0).normal(size=(50, 3))
    found = make(3, 2.0, norm_bound="public", x_pub=public)
    longest = np.linalg.norm(public, axis=1).max()
    assert longest <= found.radius <= 1.001 * longest
    assert found == make(3, 2.0, norm_bound=found.norm_bound)
    assert dataclasses.replace(found, epsilon=3.0).norm_bound == found.norm_bound


@pytest.mark.parametrize(
    ("longest", "bound"),
    [
        (3.0, 3.0),
        (2.68694, 2.687),
        (9.99991, 10.0),
        (1.00001e-7, 1.001e-7),
        (123456.7, 123500.0),
        (4e149, 4e149),
    ],
)
def test_the_bound_has_four_digits(longest, bound):
    """Whatever the last bits of a norm are: the two ends of a pipe may compute them otherwise."""
    for last in (1.0 - 1e-15, 1.0, 1.0 + 1e-15):
        assert public_norm_bound(np.array([[longest * last, 0.0], [0.0, 0.1 * longest]])) == bound


UNTOLD_BOUNDS = Refusals()
UNTOLD_BOUNDS.add_values("'public'", {"norm_bound": "largest"})
UNTOLD_BOUNDS.add_values("x_pub", {"norm_bound": "public"})
UNTOLD_BOUNDS.add_values(
    "pass both, or a number",
    {"norm_bound": 2.0, "x_pub": np.ones((4, 3))},
    {"x_pub": np.ones((4, 3))},
)
UNTOLD_BOUNDS.add_values("not zero", {"norm_bound": "public", "x_pub": np.zeros((4, 3))})
UNTOLD_BOUNDS.add_values("columns", {"norm_bound": "public", "x_pub": np.ones((4, 2))})
UNTOLD_BOUNDS.add_values("unit", {"norm_bound": "public", "x_pub": np.full((4, 3), 1e200)})


@pytest.mark.parametrize(("arguments", "why"), UNTOLD_BOUNDS)
def test_a_bound_that_cannot_be_told(arguments, why):
    raises(InputError, why, local.PrivUnit, 3, 2.0, **arguments)


def test_the_error_in_a_ball_is_the_predicted_one():
    """300 runs with fixed seeds: within 4 standard errors; radius^2 - V^2, the mean's square on a sphere, is far off here."""
    dim = 6
    n = 400
    n_pub = 30
    runs = 300
    randomizer = local.PrivUnit(dim, 6.0, norm_bound=2.0)
    center = np.full(dim, 0.2)
    variance = dim * 0.1**2
    known = {"n_reports": n, "n_pub": n_pub, "variance": variance}
    predicted = local.mean_error(randomizer, **known, mean_square=variance + float(center @ center))
    rng = np.random.default_rng(3)
    errors = []
    told = []
    for run in range(runs):
        reports = randomizer.privatize(rng.normal(center, 0.1, (n, dim)), random_state=run)
        alone = local.estimate_mean(reports)
        result = local.estimate_mean(reports, x_pub=rng.normal(center, 0.1, (n_pub, dim)))
        errors.append([np.sum((each.mean - center) ** 2) for each in (alone, result)])
        told.append(result.releases[0]["predicted_error"])
    found = np.mean(errors, axis=0)
    doubt = np.std(errors, axis=0) / math.sqrt(runs)
    assert abs(found[0] - predicted.private_error) < 4.0 * doubt[0]
    assert abs(found[1] - predicted.mean_squared_error) < 4.0 * doubt[1]
    assert np.mean(told) == pytest.approx(predicted.mean_squared_error, rel=0.05)
    # Without the mean square the prediction is an upper bound, and a near one where the mean is short.
    bound = local.mean_error(randomizer, **known)
    assert (
        predicted.private_error < bound.private_error == pytest.approx(randomizer.second_moment / n)
    )
    # The planted fault: what the sphere would have.
    fault = (randomizer.second_moment - (randomizer.radius**2 - variance)) / n
    assert fault < found[0] - 8.0 * doubt[0]


def test_the_empirical_error_in_a_ball():
    """200 runs with fixed seeds, as above; the rows are those of one draw."""
    dim = 4
    n = 300
    n_pub = 60
    runs = 200
    randomizer = local.PrivUnit(dim, 6.0, norm_bound=1.0)
    rows = np.random.default_rng(4).normal(0.3, 0.1, (n + n_pub, dim))
    private = rows[:n]
    public = rows[n:]
    square = float(np.mean(np.sum(private * private, axis=1)))
    sizes = {"n_reports": n, "n_pub": n_pub, "target": "empirical"}
    predicted = local.mean_error(randomizer, **sizes, mean_square=square)
    errors = [
        np.sum(
            (
                local.estimate_mean(
                    randomizer.privatize(private, random_state=run),
                    x_pub=public,
                    target="empirical",
                ).mean
                - rows.mean(axis=0)
            )
            ** 2
        )
        for run in range(runs)
    ]
    doubt = np.std(errors) / math.sqrt(runs)
    assert abs(np.mean(errors) - predicted.mean_squared_error) < 4.0 * doubt
    assert local.mean_error(randomizer, **sizes).mean_squared_error > predicted.mean_squared_error


def test_on_the_sphere_the_mean_square_is_one():
    known = {"n_reports": 9, "variance": 0.3}
    assert local.mean_error(local.PrivUnit(4, 3.0), **known) == local.mean_error(
        local.PrivUnit(4, 3.0), **known, mean_square=1.0
    )
    assert moments(np.eye(4), 2.0, sphere=True) == (1.0, 4.0)


@pytest.mark.parametrize(("randomizer", "arguments", "why"), [
    (local.PrivUnit(3, 2.0, norm_bound=2.0), {"mean_square": 4.1}, "radius"),
    (local.PrivUnit(3, 2.0, norm_bound=2.0), {"mean_square": 1.0, "variance": 1.1}, "mean_square"),
    (local.PrivUnit(3, 2.0), {"mean_square": 0.5}, "leave it out"),
])  # fmt: skip
def test_moments_that_cannot_be(randomizer, arguments, why):
    raises(InputError, why, local.mean_error, randomizer, n_reports=10, **arguments)


def covered(draw, loss, told_by, monkeypatch, draws=1000, n_pub=200):
    """Share of draws in which 1.96 times the allowance is no less than what the longest public row takes, without any noise."""
    monkeypatch.setattr(local.public_facts, "TOLD_BY", told_by)
    rng = np.random.default_rng(5)
    rows = [draw(rng, n_pub)[:, None] for _ in range(draws)]
    return np.mean(
        [
            loss(float(each.max())) <= 1.96 * clipping_std(each, float(each.max()))[0]
            for each in rows
        ]
    )


def test_the_allowance_covers_an_exponential_tail(monkeypatch):
    """What the longest of 200 public rows leaves beyond it: 96 % of draws; by two rows it is 85 %."""
    exponential = (lambda rng, n: rng.exponential(size=n), lambda bound: math.exp(-bound))
    normal = (
        lambda rng, n: np.abs(rng.normal(size=n)),
        lambda bound: 2.0 * (stats.norm.pdf(bound) - bound * stats.norm.sf(bound)),
    )
    assert covered(*exponential, 4, monkeypatch) > 0.94
    assert covered(*normal, 4, monkeypatch) > 0.94
    assert covered(*exponential, 2, monkeypatch) < 0.9  # the planted fault


def test_a_bound_far_beyond_the_rows_takes_nothing():
    public = np.random.default_rng(6).normal(size=(100, 3))
    longest = float(row_norms(public).max())
    at = clipping_std(public, 1.0 * longest)
    near = clipping_std(public, 1.5 * longest)
    far = clipping_std(public, 30.0 * longest)
    assert np.all(at > near)
    assert np.all(near > far)
    assert np.all(far < 1e-9)
    assert np.all(clipping_std(public, 0.5 * longest) > at)
    assert np.array_equal(clipping_std(np.ones((10, 2)), 2.0), np.zeros(2))
    assert clipping_std(public[:4], 1.0) is None


def test_the_interval_holds_what_is_shortened():
    """Rows with a tail, one in ten beyond the bound: the truth lies outside of noise and sampling, and inside with clipping."""
    rng = np.random.default_rng(7)
    rows = rng.exponential(size=(200_000, 1))
    public = rng.exponential(size=(400, 1))
    randomizer = local.PrivUnit(1, 8.0, norm_bound=math.log(10.0))
    result = local.estimate_mean(randomizer.privatize(rows, random_state=1), x_pub=public)
    assert result.releases[0]["public_rows_shortened"] == pytest.approx(0.1, abs=0.05)
    lower, upper = result.confidence_interval(0.95)
    without = dataclasses.replace(result, clipping_std=None)
    assert without.confidence_interval(0.95)[1][0] < 1.0 < upper[0]
    assert lower[0] < result.mean[0]
    assert np.array_equal(MeanResult.from_json(result.to_json()).clipping_std, result.clipping_std)
    assert "noise, sampling and clipping" in result.summary()
    # Directions lose nothing.
    public = np.random.default_rng(8).normal(size=(20, 3))
    result = local.estimate_mean(
        local.PrivUnit(3, 2.0).privatize(public, random_state=0), x_pub=public + 0.0
    )
    assert result.clipping_std is None
    assert "public_rows_shortened" not in result.releases[0]


@pytest.mark.parametrize("numbers", ["[1.0]", "[1.0, null]", "3.0", '"no"'])
def test_a_clipping_std_that_cannot_be_read(numbers):
    public = np.random.default_rng(9).normal(size=(20, 2))
    reports = local.PrivUnit(2, 2.0, norm_bound=9.0).privatize(public, random_state=0)
    text = local.estimate_mean(reports, x_pub=public + 0.0).to_json()
    start = text.index('"clipping_std":') + len('"clipping_std":')
    end = text.index("]", start) + 1
    assert MeanResult.from_json(text[:start] + " null" + text[end:]).clipping_std is None
    raises(InputError, "clipping_std", MeanResult.from_json, text[:start] + numbers + text[end:])
