"""What a caller states about labelled rows: weights of public rows, ranges, weights of classes; and what is refused in words."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from spies import refused, seeded

from fastpubpriv import ZCDP, ApproxDP, InputError, linear_regression, logistic_regression, train
from fastpubpriv.kernels.residuals import residual_sum
from fastpubpriv.losses import LOSSES, weighted_logistic
from fastpubpriv.residual_maps import ResidualMap
from fastpubpriv.training.stated import Importance

STRONG = ApproxDP(4, 1e-5)
RNG = np.random.default_rng(3)
X = RNG.normal(size=(4300, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, 2.0]
Y = X @ [1.0, 0.2, 5.0] + 7.0 + RNG.normal(size=4300)
RARE = (RNG.random(4300) < 1.0 / (1.0 + np.exp(2.5 - (X - [0.0, 5.0, 2.0]) / [1.0, 10.0, 0.1] @ [1, -1, 0.5]))) * 1.0


def split(y, m=300):
    return {"x_priv": X[m:], "y_priv": y[m:], "x_pub": X[:m].copy(), "y_pub": y[:m].copy(), "budget": STRONG}


CALLS = [
    (linear_regression, Y, "newton"),
    (linear_regression, Y, "throw_away"),
    (logistic_regression, RARE, "newton"),
]


@pytest.mark.parametrize(("function", "y", "method"), CALLS)
def test_equal_weights_change_no_bit_and_zero_leaves_out(function, y, method):
    given = {**split(y), "method": method}
    plain = seeded(function, **given)
    equal = seeded(function, **given, weights_pub=np.full(300, 3.0))
    np.testing.assert_array_equal(equal.coefficients, plain.coefficients)
    np.testing.assert_array_equal(equal.covariance, plain.covariance)
    some = np.arange(300) % 3 > 0
    left = seeded(function, **{**given, "x_pub": X[:300][some], "y_pub": y[:300][some]})
    zero = seeded(function, **given, weights_pub=some * 2.0)
    np.testing.assert_array_equal(zero.coefficients, left.coefficients)
    np.testing.assert_array_equal(zero.covariance, left.covariance)


@pytest.mark.parametrize(("function", "y"), [(linear_regression, Y), (logistic_regression, RARE)])
def test_public_rows_of_another_law_are_weighted_back(function, y):
    # Two thirds of the public rows have shuffled labels: with a small weight they hardly count, and neither does their number.
    given = {**split(y, 900), "method": "throw_away"}
    bad = np.arange(900) % 3 > 0
    given["y_pub"] = given["y_pub"].copy()
    given["y_pub"][bad] = RNG.permutation(given["y_pub"][bad])
    alone = seeded(function, **{**given, "x_pub": X[:900][~bad], "y_pub": given["y_pub"][~bad]})
    weighted = seeded(function, **given, weights_pub=np.where(bad, 1e-4, 1.0))
    plain = seeded(function, **given)
    apart = np.abs(weighted.coefficients - alone.coefficients) / alone.standard_error
    assert np.all(apart < 0.3)
    assert np.max(np.abs(plain.coefficients - alone.coefficients) / alone.standard_error) > 2.0
    np.testing.assert_allclose(weighted.standard_error, alone.standard_error, rtol=0.1)


def test_few_heavy_rows_count_as_few():
    weights = np.array([1.0, 1.0, 2.0, 0.0, 4.0])
    found = Importance.of(weights)
    assert found.weights.sum() == pytest.approx(64.0 / 22.0)
    assert found.sample.tolist() == [1, 3 - 1, 4]
    same = Importance.of(np.ones(7))
    assert same.sample.tolist() == list(range(7))
    assert same.weights.tolist() == [1.0] * 7


@pytest.mark.parametrize("method", ["newton", "semi_dp"])
def test_stated_ranges_take_the_place_of_public_scales(method):
    given = {**split(Y), "loss": "squared", "method": method}
    low, high = X.min(axis=0) - 1.0, X.max(axis=0) + 1.0
    stated = seeded(train, **given, x_bounds=(low, high), y_bounds=(-60.0, 90.0))
    plain = seeded(train, **given)
    assert np.any(np.abs(stated.coefficients - plain.coefficients) > 0.0)
    assert np.ravel(stated.coefficients)[:2] == pytest.approx([1.0, 0.2], abs=0.15)
    named = seeded(train, **given, x_bounds={f"x{j}": (low[j], high[j]) for j in range(3)}, y_bounds=(-60.0, 90.0))
    np.testing.assert_array_equal(named.coefficients, stated.coefficients)
    origins = [each.provenance["scales"] for each in (plain, stated, named)]
    assert origins == ["public rows", "argument", "argument and public rows"]


@pytest.mark.parametrize("size", [1.0, 4.0])
def test_public_labels_that_are_all_equal(size):
    """They said that all slopes are zero, with certainty."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20_000, 3))
    given = {
        "x_pub": rng.normal(size=(100, 3)), "y_pub": np.ones(100), "budget": ApproxDP(1, 1e-6), "y_scale": size,
    }  # fmt: skip
    labels = x @ [1.0, -0.5, 0.2] + 1.0 + rng.normal(size=20_000)
    result = seeded(linear_regression, x, labels, **given)
    assert result.method == "newton"
    assert np.all(np.abs(result.coefficients - [1.0, -0.5, 0.2]) < 4.0 * result.standard_error)
    assert np.all(result.standard_error < 0.05)


@pytest.mark.parametrize("method", ["newton", "throw_away"])
def test_weights_of_classes_are_those_of_a_weighted_likelihood(method):
    given = {**split(RARE, 1500), "method": method}
    rows = slice(0, 1500) if method == "throw_away" else slice(None)
    unit = np.array([1.0, 10.0, 0.1])
    for weights in (None, {0.0: 1.0, 1.0: 8.0}):
        wanted = LogisticRegression(C=1e6, solver="newton-cholesky", class_weight=weights).fit(
            (X / unit)[rows], RARE[rows]
        )
        found = seeded(logistic_regression, **given, class_weight=weights)
        assert np.all(np.abs(found.coefficients * unit - wanted.coef_[0]) < 0.25)
        base = found.intercept + found.coefficients @ [0.0, 5.0, 2.0]
        assert base == pytest.approx(wanted.intercept_[0] + wanted.coef_[0] @ [0.0, 0.5, 20.0], abs=0.25)
    ones = seeded(logistic_regression, **given, class_weight={0: 2.0, 1: 2.0})
    plain = seeded(logistic_regression, **given)
    np.testing.assert_array_equal(ones.coefficients, plain.coefficients)
    public = seeded(logistic_regression, **given, class_weight="public")
    assert public.intercept > plain.intercept


@pytest.mark.statistical
def test_intervals_under_weights_of_classes():
    """Of 150 draws the errors have the size that is told, to 12 % (two standard errors), beside the ridge's pull."""
    weights, errors = {0.0: 1.0, 1.0: 10.0}, []

    def draw(rng, n):
        x = rng.normal(size=(n, 2))
        return x, (rng.random(n) < 1.0 / (1.0 + np.exp(2.6 - x @ [1.0, -0.5]))) * 1.0

    x, y = draw(np.random.default_rng(99), 1_000_000)
    wanted = LogisticRegression(C=1e6, class_weight=weights, solver="newton-cholesky").fit(x, y)
    for seed in range(150):
        x, y = draw(np.random.default_rng(seed), 7000)
        given = {"x_pub": x[:1000].copy(), "y_pub": y[:1000].copy(), "budget": STRONG, "method": "newton"}
        found = seeded(logistic_regression, x[1000:], y[1000:], **given, class_weight=weights, random_state=seed)
        errors.append((found.coefficients - wanted.coef_[0]) / found.standard_error)
    assert np.all(np.std(errors, axis=0) < 1.12)
    assert np.all(np.std(errors, axis=0) > 0.85)


def test_a_weighted_residual_is_the_weight_times_the_residual():
    loss, plain = weighted_logistic(0.25, 1.0), LOSSES["logistic"]
    scores, labels = np.linspace(-800.0, 800.0, 33), np.arange(33) % 2.0
    weight = np.where(labels == 1.0, 1.0, 0.25)
    np.testing.assert_allclose(
        loss.residuals_of(scores, labels), weight * plain.residuals_of(scores, labels), rtol=1e-12
    )
    found = [loss.residual(score, label) for score, label in zip(scores, labels, strict=True)]
    np.testing.assert_allclose(found, loss.residuals_of(scores, labels), atol=1e-15)
    assert np.all(np.abs(found) <= 1.0)
    assert np.isnan(loss.residual(0.0, 2.0))


def test_a_row_adds_the_same_under_class_weights_alone_and_in_company():
    rows = np.column_stack([RNG.normal(size=(40, 3)) * 3.0, np.arange(40) % 3.0])
    rows[5], rows[7, 0], rows[9, 3] = np.nan, np.inf, 1e300
    weighted = ResidualMap(
        slope=np.array([1.0, -2.0, 0.3]), spread=np.array([1.0, 0.5, 0.2]), residual=weighted_logistic(0.25, 1.0).residual,
        scale=1.0, clip=1.0, radius=2.0, inv_step=1e4, quant_bound=30_000,
    )  # fmt: skip
    whole, single = np.zeros(3, dtype=np.int64), np.zeros((40, 3), dtype=np.int64)
    residual_sum(rows, weighted, whole)
    for row, found in zip(rows, single, strict=True):
        residual_sum(row[None], weighted, found)
    np.testing.assert_array_equal(single.sum(axis=0), whole)
    assert np.all(np.sum(single**2, axis=1) <= 30_000**2)
    assert not single[[2, 5, 7, 9]].any()  # no class, or a missing cell
    assert single[[0, 1, 3, 4]].any(axis=1).all()


@pytest.mark.parametrize("method", ["newton"])
@pytest.mark.parametrize("label", [np.inf, -np.inf])
def test_an_infinite_label_is_a_missing_one(method, label):
    """Not a very long one, whose clipped residual would count."""
    found = []
    for given in (label, np.nan, np.sign(label) * 1e200):
        y = Y.copy()
        y[400:700] = given
        found.append(seeded(linear_regression, **split(y), method=method).coefficients)
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])


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
def test_what_is_refused_before_the_debit(changes, words):
    refused(train, words, **{**split(Y), "budget": ZCDP(1), "loss": "squared", "method": "newton", **changes})


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ({0: 1.0}, "each of the classes"),
        ({0: 1.0, 1: -1.0}, "above 0"),
        ({0: 1.0, 1: np.inf}, "class_weight"),
        ({0: 1.0, 2: 1.0}, "each of the classes"),
        ({0: 1.0, 1: 1e-300}, "factor of 1000"),
    ],
)
def test_balancing_by_private_labels_is_refused(weights, words):
    with pytest.raises(InputError, match=words):
        logistic_regression(**split(RARE), class_weight=weights)
