"""Weights of private rows under a public cap: what is estimated, what a hostile weight can do, and what is refused."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from spies import SpyLedger, SpyRows, seeded

from fastpubpriv import ZCDP, ApproxDP, InputError, ReplayError, linear_regression, logistic_regression, train
from fastpubpriv.auditing import record_replay
from fastpubpriv.kernels import residuals as kernels
from fastpubpriv.losses import squared_residual
from fastpubpriv.reference import residuals as reference
from fastpubpriv.residual_maps import ResidualMap
from fastpubpriv.training import rotated

M, CAP = 400, 2.0
RNG = np.random.default_rng(5)
X = RNG.normal(size=(12_400, 2)) * [1.0, 10.0]
# The slope is another one for a hidden half of the rows, which is heavy, so that weights matter.
HALF = RNG.integers(0, 2, len(X))
WEIGHT = np.where(HALF == 1, 2.0, 0.2) * RNG.uniform(0.5, 1.0, len(X))
Y = X @ [1.0, 0.1] + 0.6 * HALF * X[:, 0] + 2.0 * RNG.normal(size=len(X))
ILL = (RNG.random(len(X)) < 1.0 / (1.0 + np.exp(-X @ [1.0, 0.05] - 0.6 * HALF * X[:, 0]))) * 1.0
STRONG = ApproxDP(4, 1e-5)


def split(y, weight=WEIGHT):
    return {
        "x_priv": X[M:], "y_priv": y[M:], "x_pub": X[:M].copy(), "y_pub": y[:M].copy(), "weights_priv": weight[M:],
        "weights_pub": WEIGHT[:M].copy(), "weight_cap": CAP, "budget": STRONG,
    }  # fmt: skip


@pytest.mark.parametrize("method", ["newton", "sufficient_statistics"])
def test_the_target_is_weighted_least_squares(method):
    result = seeded(linear_regression, **split(Y), method=method)
    design = np.column_stack([np.ones(len(X)), X])
    wanted = np.linalg.solve((design.T * WEIGHT) @ design, (design.T * WEIGHT) @ Y)[1:]
    plain = np.linalg.lstsq(design, Y, rcond=None)[0][1:]
    assert abs(wanted[0] - plain[0]) > 0.2
    assert np.all(np.abs(result.coefficients - wanted) < 4.5 * result.standard_error)
    assert abs(result.coefficients[0] - wanted[0]) < 0.1 < abs(result.coefficients[0] - plain[0])
    # About what so many rows leave open without any noise.
    half = WEIGHT[:, None] * (Y - design @ np.append(0.0, wanted))[:, None] * design
    inverse = np.linalg.inv((design.T * WEIGHT) @ design)
    ideal = np.sqrt(np.diag(inverse @ (half.T @ half) @ inverse))[1:]
    assert np.all((result.standard_error > 0.85 * ideal) & (result.standard_error < 2.0 * ideal))


def test_the_target_of_classes_is_the_weighted_likelihood():
    result = seeded(logistic_regression, **split(ILL), method="newton")
    wanted = LogisticRegression(C=1e6, solver="newton-cholesky").fit(X, ILL, sample_weight=WEIGHT).coef_[0]
    assert np.all(np.abs(result.coefficients - wanted) < 4.5 * result.standard_error)


@pytest.mark.parametrize("method", ["newton", "sufficient_statistics"])
def test_weights_at_the_cap_change_no_bit(method):
    given = {**split(Y), "method": method}
    plain = {name: value for name, value in given.items() if "weight" not in name}
    ones = {"weights_priv": np.full(len(X) - M, CAP), "weights_pub": np.full(M, CAP)}
    found, wanted = seeded(linear_regression, **{**given, **ones}), seeded(linear_regression, **plain)
    np.testing.assert_array_equal(found.coefficients, wanted.coefficients)
    np.testing.assert_array_equal(found.covariance, wanted.covariance)


def test_hostile_weights_are_the_cap_or_nothing():
    assert rotated.capped(np.array([np.nan, np.inf, -np.inf, -1.0, 0.0, 5e-324, 1.0, 3.0, 1e308]), CAP).tolist() == [
        0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 1.0, 1.0
    ]  # fmt: skip


def test_kernel_and_twin_with_weights_alone_and_in_company():
    rows = np.column_stack([RNG.normal(size=(60, 3)) * 2.0, RNG.normal(size=60), RNG.uniform(0.0, 1.0, 60)])
    rows[:9, -1] = [np.nan, np.inf, -np.inf, -1.0, 0.0, 5e-324, 1.0, 3.0, 1e308]
    one = ResidualMap(
        slope=np.array([1.0, -2.0, 0.3]), spread=np.array([1.0, 0.5, 0.2]), residual=squared_residual, scale=1.0,
        clip=1.0, radius=2.0, inv_step=1e4, quant_bound=30_000, weighted=True,
    )  # fmt: skip
    whole, twin, single = np.zeros(3, np.int64), np.zeros(3, np.int64), np.zeros((60, 3), np.int64)
    kernels.residual_sum(rows, one, whole)
    reference.residual_sum(rows, one, twin)
    for row, found in zip(rows, single, strict=True):
        kernels.residual_sum(row[None], one, found)
    np.testing.assert_array_equal(whole, twin)
    np.testing.assert_array_equal(single.sum(axis=0), whole)
    assert np.all(np.sum(single**2, axis=1) <= 30_000**2)
    assert not single[[0, 2, 3, 4]].any()
    np.testing.assert_array_equal(single[[1, 7, 8]].any(axis=1), True)  # no more than 1, whatever they say


def replayed(method, function=linear_regression):
    x, other = np.column_stack([X, Y, WEIGHT])[M : M + 40], np.column_stack([X, Y, WEIGHT])[M : M + 40]
    x[3], other[3] = [9.0, 90.0, 1e6, 1e300], [-9.0, -90.0, 1e6, np.nan]
    x[3, 3], other[3, 3] = CAP, 1e300
    given = {"x_pub": X[:M], "y_pub": Y[:M], "weights_pub": WEIGHT[:M], "weight_cap": CAP, "method": method}
    return record_replay(
        lambda rows: function(rows[:, :2], rows[:, 2], weights_priv=rows[:, 3], budget=ZCDP(0.5), threads=1, **given),
        x, other, budget=ZCDP(0.5),
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize("method", ["newton", "sufficient_statistics"])
def test_neighbours_under_record_and_replay(method):
    report = replayed(method)
    assert 0.0 < report.pair_cost <= report.declared_cost


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_a_weight_that_is_counted_twice_is_caught(monkeypatch):
    """What the sum would be if a weight were applied after the checks, uncapped."""
    plain = kernels.residual_sum

    def after(chunk, residual_map, sums):
        for row in chunk:
            one = np.zeros_like(sums)
            plain(row[None], residual_map, one)
            sums += one * 3

    monkeypatch.setattr(kernels, "residual_sum", after)
    with pytest.raises(ReplayError, match=r"moved by|sensitivity"):
        replayed("newton")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"weight_cap": None}, "needs weight_cap="),
        ({"weights_pub": None}, "needs weights_pub="),
        ({"weights_priv": None}, "belongs to weights_priv="),
        ({"weights_priv": "w"}, "x_priv\\['name'\\]"),
        ({"weights_priv": np.ones(5)}, "one number for each of the 12000"),
        ({"weight_cap": 0.0}, "weight_cap"),
        ({"weight_cap": np.nan}, "weight_cap"),
        ({"weight_cap": "2"}, "weight_cap"),
        ({"method": "semi_dp"}, "weights_priv"),
        ({"loss": "huber", "method": "dp_sgd"}, "weights_priv"),
    ],
)
def test_what_is_refused_before_the_debit(changes, words):
    log = []
    given = {**split(Y), "loss": "squared", "method": "newton", **changes}
    given["x_priv"] = SpyRows(given["x_priv"], log)
    with pytest.raises(InputError, match=words):
        train(ledger=SpyLedger(ZCDP(5), log), **{**given, "budget": ZCDP(1)})
    assert log == []
