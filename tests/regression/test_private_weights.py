"""Weights of private rows under a public cap: what is estimated, what a hostile weight can do, and what is refused."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.errors import raises
from helpers.neighbors import pair_at
from regression.test_regression import STRONG
from regression.test_regression import split as plain_split
from sklearn.linear_model import LogisticRegression
from spies import refused, seeded
from twins import gradients as reference

from fastpubpriv import ZCDP, ApproxDP, ReplayError, linear_regression, logistic_regression, train
from fastpubpriv.auditing import record_replay
from fastpubpriv.kernels import gradients as kernels
from fastpubpriv.rowwise.losses import squared_residual, weighted_logistic
from fastpubpriv.rowwise.row_maps import ResidualMap
from fastpubpriv.training import methods

M, CAP = 400, 2.0
RNG = np.random.default_rng(5)
X = RNG.normal(size=(12_400, 2)) * [1.0, 10.0]
# The slope is another one for a hidden half of the rows, which is heavy, so that weights matter.
HALF = RNG.integers(0, 2, len(X))
WEIGHT = np.where(HALF == 1, 2.0, 0.2) * RNG.uniform(0.5, 1.0, len(X))
Y = X @ [1.0, 0.1] + 0.6 * HALF * X[:, 0] + 2.0 * RNG.normal(size=len(X))
LOG_ODDS = X @ [1.0, 0.05] + 0.6 * HALF * X[:, 0]
ILL = (RNG.random(len(X)) < 1.0 / (1.0 + np.exp(-LOG_ODDS))).astype(float)


def split(y, weight=WEIGHT):
    weights = {"weights_priv": weight[M:], "weights_pub": WEIGHT[:M].copy(), "weight_cap": CAP}
    return {**plain_split(X, y, M), **weights, "budget": STRONG}


DESIGN = np.column_stack([np.ones(len(X)), X])
WEIGHTED_NORMAL = (DESIGN.T * WEIGHT) @ DESIGN
# Weighted least squares of all rows: the intercept, then the slopes.
WEIGHTED_FIT = np.linalg.solve(WEIGHTED_NORMAL, (DESIGN.T * WEIGHT) @ Y)


def test_the_target_of_numbers_is_weighted_least_squares():
    result = seeded(linear_regression, **split(Y), method="newton")
    plain_slope = np.linalg.lstsq(DESIGN, Y, rcond=None)[0][1]
    wanted = WEIGHTED_FIT[1:]
    assert abs(wanted[0] - plain_slope) > 0.2
    assert np.all(np.abs(result.coefficients - wanted) < 4.5 * result.standard_error)
    assert abs(result.coefficients[0] - wanted[0]) < 0.1
    assert abs(result.coefficients[0] - plain_slope) > 0.1


def test_stated_errors_are_about_what_so_many_rows_leave_open_without_noise():
    """The sandwich of weighted least squares."""
    result = seeded(linear_regression, **split(Y), method="newton")
    scores = (WEIGHT * (Y - DESIGN @ WEIGHTED_FIT))[:, None] * DESIGN
    inverse = np.linalg.inv(WEIGHTED_NORMAL)
    ideal = np.sqrt(np.diag(inverse @ (scores.T @ scores) @ inverse))[1:]
    assert np.all(result.standard_error > 0.85 * ideal)
    assert np.all(result.standard_error < 2.0 * ideal)


def test_the_target_of_classes_is_the_weighted_likelihood():
    result = seeded(logistic_regression, **split(ILL), method="newton")
    fit = LogisticRegression(C=1e6, solver="newton-cholesky").fit(X, ILL, sample_weight=WEIGHT)
    assert np.all(np.abs(result.coefficients - fit.coef_[0]) < 4.5 * result.standard_error)


def test_weights_at_the_cap_change_no_bit_but_for_their_sum(monkeypatch):
    monkeypatch.setattr(methods, "weighing_cost", lambda problem, account: Fraction(0))
    given = {**split(Y), "method": "newton"}
    plain = {name: value for name, value in given.items() if "weight" not in name}
    ones = {"weights_priv": np.full(len(X) - M, CAP), "weights_pub": np.full(M, CAP)}
    found = seeded(linear_regression, **{**given, **ones})
    wanted = seeded(linear_regression, **plain)
    np.testing.assert_array_equal(found.coefficients, wanted.coefficients)
    np.testing.assert_array_equal(found.covariance, wanted.covariance)


def private_weights_in_another_unit(factor, seed):
    """Return the call of a regression whose private rows weigh `factor` times as much as public ones, and the true slopes."""
    truth = np.array([1.0, -2.0, 0.5, 0.0])
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(10_200, 4))
    weights = rng.uniform(0.2, 1.0, 10_200)
    y = x @ truth + 1.0 + rng.normal(size=10_200)
    given = {
        **plain_split(x, y, 200),
        "weight_cap": 1.0,
        "weights_pub": weights[:200] / max(factor, 1.0),
        "weights_priv": weights[200:] * min(factor, 1.0),
        "budget": ZCDP(0.05),
        "method": "newton",
        "tails": "light",
        "random_state": seed,
    }
    return given, truth


# Steps that are too long for the public mean's sum agree on average; those that are too short never arrive.
@pytest.mark.parametrize(("factor", "public_mean_suffices"), [(0.25, False), (4.0, True)])
def test_private_rows_may_weigh_otherwise_than_public_ones(
    factor, public_mean_suffices, monkeypatch
):
    """The sum of private weights is released, so that answer and interval are right; with public weights they may not be."""
    calls = [private_weights_in_another_unit(factor, seed) for seed in range(4)]
    released = [seeded(linear_regression, **given) for given, _ in calls]
    monkeypatch.setattr(methods, "weighing_cost", lambda problem, account: Fraction(0))
    assumed = [seeded(linear_regression, **given) for given, _ in calls]
    assert {fit.provenance["sum of weights"] for fit in released} == {"released"}
    assert {fit.provenance["sum of weights"] for fit in assumed} == {"public rows"}
    errors = []
    errors_without_sum = []
    for (_, truth), fit, other in zip(calls, released, assumed, strict=True):
        errors.append((fit.coefficients - truth) / fit.standard_error)
        narrower = np.minimum(fit.standard_error, other.standard_error)
        errors_without_sum.append((other.coefficients - truth) / narrower)
    # Of sixteen standard normals the root mean square is above 2 once in 10^7.
    size = np.sqrt(np.mean(np.square(errors)))
    assert size < 2.0, f"error over its standard error is {size} with the released sum"
    size = np.sqrt(np.mean(np.square(errors_without_sum)))
    assert (size < 2.0) == public_mean_suffices, f"it is {size} with the sum of public weights"


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_errors_of_the_steps_alone_are_those_of_the_released_sum(loss):
    """Public weights in another unit, which the released sum undoes, change no stated error."""
    given = {
        **split(Y),
        "weights_priv": 0.5 * WEIGHT[M:],
        "loss": loss,
        "method": "newton",
        "tails": "light",
    }
    given["budget"] = ZCDP(50)
    given["weights_pub"] = 0.5 * WEIGHT[:M]
    same_unit = seeded(train, **given)
    given["weights_pub"] = 0.1 * WEIGHT[:M]
    another_unit = seeded(train, **given)
    np.testing.assert_allclose(another_unit.standard_error, same_unit.standard_error, rtol=0.05)


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_a_sum_of_weights_that_noise_would_hide_is_not_released():
    few_rows = {"x_priv": X[-60:], "y_priv": Y[-60:], "weights_priv": WEIGHT[-60:]}
    given = {**split(Y), **few_rows, "budget": ZCDP(0.01)}
    result = seeded(linear_regression, **given, method="newton")
    assert result.provenance["sum of weights"] == "public rows"
    assert methods.SUM_OF_WEIGHTS not in [each["name"] for each in result.releases]


def test_the_weight_of_a_row_is_that_row_s_alone():
    rows = np.column_stack(
        [RNG.normal(size=(60, 2)), RNG.normal(size=60), RNG.uniform(0.0, 3.0, 60)]
    )
    rows[:9, -1] = [np.nan, np.inf, -np.inf, -1.0, 0.0, 5e-324, 1.0, 3.0, 1e308]
    rows[20:23, -2] = [np.nan, np.inf, 1e308]
    of_row = methods.WeightOfRow(
        rotation=SimpleNamespace(
            weight_cap=CAP, labels=lambda y: np.where(np.isfinite(y), y, np.nan)
        )
    )
    alone = np.concatenate([of_row(row[None]) for row in rows])
    np.testing.assert_array_equal(of_row(rows), alone)
    assert alone[:9, 0].tolist() == [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 1.0, 1.0]
    assert alone[20:23, 0].tolist() == [0.0, 0.0, min(rows[22, -1] / CAP, 1.0)]


def test_the_sum_of_weights_is_that_of_rows_with_a_label():
    labels = Y[M:].copy()
    labels[:6000] = np.nan
    exact = {**split(Y), "budget": ZCDP(1000)}
    for y, part in ((Y[M:], slice(None)), (labels, slice(6000, None))):
        found = []
        real = methods.weigh

        def kept(*given, real=real, found=found):
            found.append(real(*given))
            return found[-1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(methods, "weigh", kept)
            seeded(linear_regression, **{**exact, "y_priv": y}, method="newton")
        wanted = WEIGHT[M:][part].sum() / CAP / (len(X) - M)
        assert found[0][0].weight_share == pytest.approx(wanted, rel=0.001)


def sums_alone(rows, residual, *, weighted):
    """What each row adds by itself, of which the kernel and its twin find the sum; within the bound."""
    one = ResidualMap(
        weights=np.array([1.0, -2.0, 0.3]),
        spread=np.array([1.0, 0.5, 0.2]),
        residual=residual,
        scale=1.0,
        clip=1.0,
        clip_norm=2.0,
        inv_step=1e4,
        quant_bound=30_000,
        weighted=weighted,
    )
    whole = np.zeros(3, np.int64)
    twin = np.zeros(3, np.int64)
    single = np.zeros((len(rows), 3), np.int64)
    kernels.gradient_sum(rows, one, whole)
    reference.gradient_sum(rows, one, twin)
    for row, found in zip(rows, single, strict=True):
        kernels.gradient_sum(row[None], one, found)
    np.testing.assert_array_equal(whole, twin)
    np.testing.assert_array_equal(single.sum(axis=0), whole)
    assert np.all(np.sum(single**2, axis=1) <= 30_000**2)
    return single.any(axis=1)


def test_a_weighted_row_adds_the_same_alone_and_in_company():
    rng = np.random.default_rng(12)
    x = rng.normal(size=(60, 3)) * 2.0
    rows = np.column_stack([x, rng.normal(size=60), rng.uniform(0.0, 1.0, 60)])
    rows[:9, -1] = [np.nan, np.inf, -np.inf, -1.0, 0.0, 5e-324, 1.0, 3.0, 1e308]
    adds = sums_alone(rows, squared_residual, weighted=True)
    assert not adds[[0, 2, 3, 4]].any()
    assert adds[[1, 7, 8]].all()  # no more than 1, whatever they say


def test_a_row_of_a_class_adds_the_same_alone_and_in_company():
    rng = np.random.default_rng(12)
    rows = np.column_stack([rng.normal(size=(40, 3)) * 3.0, np.arange(40) % 3.0])
    rows[:5, :3] /= 3.0  # of which no chance is that of its class, up to the grid
    rows[5] = np.nan
    rows[7, 0] = np.inf
    rows[9, 3] = 1e300
    adds = sums_alone(rows, weighted_logistic(0.25, 1.0).residual, weighted=False)
    assert not adds[[2, 5, 7, 9]].any()  # no class, or a missing cell
    assert adds[[0, 1, 3, 4]].all()


def replayed(weights=(CAP, 1e300)):
    """Record and replay on neighbors that differ in a far row, on either side, with these weights."""
    row = [9.0, 90.0, 1e6, weights[0]]
    other = [-9.0, -90.0, 1e6, weights[1]]
    pair = pair_at(np.column_stack([X, Y, WEIGHT])[M : M + 40], 3, row, other)
    budget = ZCDP(0.5)
    public = {"x_pub": X[:M], "y_pub": Y[:M], "weights_pub": WEIGHT[:M], "weight_cap": CAP}

    def fit(rows):
        given = {"weights_priv": rows[:, 3], "budget": budget, "method": "newton", "threads": 1}
        return linear_regression(rows[:, :2], rows[:, 2], **public, **given)

    return record_replay(fit, *pair, budget=budget)


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_the_sum_of_weights_under_record_and_replay(monkeypatch):
    monkeypatch.setattr(methods, "weighing_cost", lambda problem, account: account.allowance / 5)
    report = replayed(weights=(CAP, 0.0))
    assert 0.0 < report.pair_cost <= report.declared_cost
    # A row that weighs in another's place: a fault that no check of one row sees.
    plain = methods.WeightOfRow.__call__

    def fourth_of_all(self, chunk):
        return np.repeat(plain(self, chunk)[3:4], len(chunk), 0)

    monkeypatch.setattr(methods.WeightOfRow, "__call__", fourth_of_all)
    raises(ReplayError, r"moved by|sensitivity", replayed, weights=(CAP, 0.0))


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_a_weight_that_is_counted_twice_is_caught(monkeypatch):
    """What the sum would be if a weight were applied after the checks, uncapped."""
    report = replayed()
    plain = kernels.gradient_sum
    assert 0.0 < report.pair_cost <= report.declared_cost

    def after(chunk, residual_map, sums, places):
        for row in chunk:
            one = np.zeros_like(sums)
            plain(row[None], residual_map, one)
            sums += one * 3

    monkeypatch.setattr(kernels, "gradient_sum", after)
    raises(ReplayError, r"moved by|sensitivity", replayed)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"weights_pub": None}, "needs weights_pub="),
        ({"weights_priv": None}, "belongs to weights_priv="),
        ({"weights_priv": "w"}, "has no names: pass a table"),
        ({"weights_priv": np.ones(5)}, "one number for each of the 12000"),
        ({"weight_cap": 0.0}, "weight_cap"),
        ({"weight_cap": np.nan}, "weight_cap"),
        ({"weight_cap": "2"}, "weight_cap"),
        ({"method": "semi_dp"}, "weights_priv"),
        ({"loss": "huber", "method": "dp_sgd"}, "weights_priv"),
    ],
)
def test_what_is_refused_before_the_debit(changes, words):
    refused(
        train,
        words,
        **{**split(Y), "loss": "squared", "method": "newton", **changes, "budget": ZCDP(1)},
    )


# ---- What a caller states about labeled rows: weights of public rows, ranges, weights of classes; and what is refused in words.
RNG_OF_STATED = np.random.default_rng(3)
X_OF_STATED = RNG_OF_STATED.normal(size=(4300, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, 2.0]
Y_OF_STATED = X_OF_STATED @ [1.0, 0.2, 5.0] + 7.0 + RNG_OF_STATED.normal(size=4300)
STANDARDIZED = (X_OF_STATED - [0.0, 5.0, 2.0]) / [1.0, 10.0, 0.1]
CHANCE_OF_RARE = 1.0 / (1.0 + np.exp(2.5 - STANDARDIZED @ [1, -1, 0.5]))
RARE = (RNG_OF_STATED.random(4300) < CHANCE_OF_RARE).astype(float)


def split_of_stated(y, m=300):
    return {**plain_split(X_OF_STATED, y, m), "budget": STRONG}


@pytest.mark.parametrize(
    ("function", "y", "method"),
    [
        (linear_regression, Y_OF_STATED, "newton"),
        (linear_regression, Y_OF_STATED, "throw_away"),
        (logistic_regression, RARE, "newton"),
    ],
)
def test_equal_weights_change_no_bit_and_zero_leaves_out(function, y, method):
    given = {**split_of_stated(y), "method": method}
    plain = seeded(function, **given)
    equal = seeded(function, **given, weights_pub=np.full(300, 3.0))
    np.testing.assert_array_equal(equal.coefficients, plain.coefficients)
    np.testing.assert_array_equal(equal.covariance, plain.covariance)
    some = np.arange(300) % 3 > 0
    left = seeded(function, **{**given, "x_pub": X_OF_STATED[:300][some], "y_pub": y[:300][some]})
    zero = seeded(function, **given, weights_pub=some * 2.0)
    np.testing.assert_array_equal(zero.coefficients, left.coefficients)
    np.testing.assert_array_equal(zero.covariance, left.covariance)


# One step of the strength of a prior of classes, which is chosen among factors of 3.2, is .44 deviations here.
@pytest.mark.parametrize(
    ("function", "y", "near"),
    [(linear_regression, Y_OF_STATED, 0.3), (logistic_regression, RARE, 0.6)],
)
def test_public_rows_of_another_law_are_weighted_back(function, y, near):
    # Two thirds of the public rows have shuffled labels: with a small weight they hardly count, and neither does their number.
    given = {**split_of_stated(y, 900), "method": "throw_away"}
    bad = np.arange(900) % 3 > 0
    given["y_pub"] = given["y_pub"].copy()
    given["y_pub"][bad] = RNG_OF_STATED.permutation(given["y_pub"][bad])
    alone = seeded(
        function, **{**given, "x_pub": X_OF_STATED[:900][~bad], "y_pub": given["y_pub"][~bad]}
    )
    weighted = seeded(function, **given, weights_pub=np.where(bad, 1e-4, 1.0))
    plain = seeded(function, **given)
    apart = np.abs(weighted.coefficients - alone.coefficients) / alone.standard_error
    assert np.all(apart < near)
    assert np.max(np.abs(plain.coefficients - alone.coefficients) / alone.standard_error) > 2.0
    np.testing.assert_allclose(weighted.standard_error, alone.standard_error, rtol=0.1)


@pytest.mark.parametrize("method", ["newton", "semi_dp"])
def test_stated_ranges_take_the_place_of_public_scales(method):
    given = {**split_of_stated(Y_OF_STATED), "loss": "squared", "method": method}
    low = X_OF_STATED.min(axis=0) - 1.0
    high = X_OF_STATED.max(axis=0) + 1.0
    stated = seeded(train, **given, x_bounds=(low, high), y_bounds=(-60.0, 90.0))
    plain = seeded(train, **given)
    assert np.any(np.abs(stated.coefficients - plain.coefficients) > 0.0)
    assert np.ravel(stated.coefficients)[:2] == pytest.approx([1.0, 0.2], abs=0.15)
    named = seeded(
        train,
        **given,
        x_bounds={f"x{j}": (low[j], high[j]) for j in range(3)},
        y_bounds=(-60.0, 90.0),
    )
    np.testing.assert_array_equal(named.coefficients, stated.coefficients)
    origins = [each.provenance["scales"] for each in (plain, stated, named)]
    assert origins == ["public rows", "argument", "argument and public rows"]


@pytest.mark.parametrize("size", [1.0, 4.0])
def test_public_labels_that_are_all_equal(size):
    """They said that all slopes are zero, with certainty."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20_000, 3))
    public = {"x_pub": rng.normal(size=(100, 3)), "y_pub": np.ones(100), "y_scale": size}
    labels = x @ [1.0, -0.5, 0.2] + 1.0 + rng.normal(size=20_000)
    result = seeded(linear_regression, x, labels, **public, budget=ApproxDP(1, 1e-6))
    assert result.method == "newton"
    assert np.all(np.abs(result.coefficients - [1.0, -0.5, 0.2]) < 4.0 * result.standard_error)
    assert np.all(result.standard_error < 0.05)


@pytest.mark.parametrize("method", ["newton", "throw_away"])
def test_weights_of_classes_are_those_of_a_weighted_likelihood(method):
    given = {**split_of_stated(RARE, 1500), "method": method}
    rows = slice(0, 1500) if method == "throw_away" else slice(None)
    unit = np.array([1.0, 10.0, 0.1])
    for weights in (None, {0.0: 1.0, 1.0: 8.0}):
        wanted = LogisticRegression(C=1e6, solver="newton-cholesky", class_weight=weights).fit(
            (X_OF_STATED / unit)[rows], RARE[rows]
        )
        found = seeded(logistic_regression, **given, class_weight=weights)
        assert np.all(np.abs(found.coefficients * unit - wanted.coef_[0]) < 0.25)
        base = found.intercept + found.coefficients @ [0.0, 5.0, 2.0]
        assert base == pytest.approx(
            wanted.intercept_[0] + wanted.coef_[0] @ [0.0, 0.5, 20.0], abs=0.25
        )
    ones = seeded(logistic_regression, **given, class_weight={0: 2.0, 1: 2.0})
    plain = seeded(logistic_regression, **given)
    np.testing.assert_array_equal(ones.coefficients, plain.coefficients)
    assert seeded(logistic_regression, **given, class_weight="public").intercept > plain.intercept


@pytest.mark.statistical
def test_intervals_under_weights_of_classes():
    """Of 150 draws the errors have the size that is told, to 12 % (two standard errors), beside what it allows for the tail."""
    weights = {0.0: 1.0, 1.0: 10.0}
    errors = []

    def draw(rng, n):
        x = rng.normal(size=(n, 2))
        return x, (rng.random(n) < 1.0 / (1.0 + np.exp(2.6 - x @ [1.0, -0.5]))) * 1.0

    x, y = draw(np.random.default_rng(99), 1_000_000)
    wanted = LogisticRegression(C=1e6, class_weight=weights, solver="newton-cholesky").fit(x, y)
    for seed in range(150):
        given = {
            **plain_split(*draw(np.random.default_rng(seed), 7000), 1000),
            "budget": STRONG,
            "method": "newton",
        }
        found = seeded(logistic_regression, **given, class_weight=weights, random_state=seed)
        errors.append((found.coefficients - wanted.coef_[0]) / found.standard_error)
    assert np.all(np.std(errors, axis=0) < 1.12)
    assert np.all(np.std(errors, axis=0) > 0.75)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"weights_pub": np.ones(299)}, "300"),
        ({"weights_pub": np.full(300, -1.0)}, "negative"),
        ({"weights_pub": np.zeros(300)}, "all zero"),
        ({"weights_pub": np.full(300, np.nan)}, "finite"),
        ({"weights_pub": "private"}, "text"),
        ({"weights_pub": np.where(np.arange(300) == 7, 1.0, 1e-12)}, "worth 1 equal ones"),
        ({"x_bounds": ([0.0] * 2, [1.0] * 2)}, "x_bounds"),
        ({"x_bounds": {"z": (0.0, 1.0)}}, "'z'"),
        ({"x_bounds": {"x0": (1.0, 0.0)}}, "below"),
        ({"x_bounds": {"x0": (0.0, np.inf)}}, "finite"),
        ({"x_bounds": {"x0": None}}, "pair"),
        ({"x_bounds": {"x0": (-1e308, 1e308)}}, "too far apart"),
        ({"x_bounds": {"x0": (0.0, 9.0)}, "categories": {"x0": "public"}}, "categories"),
        ({"y_bounds": (0.0, 1.0)}, "beyond y_bounds"),
        ({"categories": {"x0": ["a", "b"]}}, "text is read from frames"),
        ({"y_bounds": 3.0}, "y_bounds"),
        ({"y_bounds": (-1e308, 1e308)}, "too far apart"),
        ({"class_weight": {0: 1, 1: 2}}, "class_weight"),
    ],
)
def test_what_is_refused_before_the_debit_of_stated(changes, words):
    given = {**split_of_stated(Y_OF_STATED), "budget": ZCDP(1), "loss": "squared"}
    refused(train, words, **{**given, "method": "newton", **changes})
