"""Reasons of a regression: on a table for each, the one that is named is the right one, and the only one."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from spies import seeded

from fastpubpriv import ZCDP, ApproxDP, PureDP, linear_regression, logistic_regression, train
from fastpubpriv.distributions.norms import TailLaw
from fastpubpriv.regression.concerns import Concerns
from fastpubpriv.regression.exact import shows_clipped_rows
from fastpubpriv.results.models import TrainingResult
from fastpubpriv.results.reasons import Reason

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.errors.AccuracyWarning")
BUDGET = ZCDP(0.5)


def normal_rows(n=8000, seed=0):
    """Three independent normal columns, and labels of unit noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    return x, x @ [1.0, -0.7, 0.4] + rng.normal(size=n)


def fitted(x, y, m, function=linear_regression, **given):
    """The fit with the first m rows public."""
    return fitted_with(x[:m], y[:m], x[m:], y[m:], function, **given)


def fitted_with(x_pub, y_pub, x, y, function=linear_regression, **given):
    given = {"budget": BUDGET, "method": "newton", **given}
    return seeded(function, x, y, x_pub=x_pub.copy(), y_pub=y_pub.copy(), **given)


def named(result):
    """All reasons of the result and of its parts."""
    return {*result.reasons, *(reason for part in result.part_reasons for reason in part)}


def test_rows_without_a_fault_have_no_reason():
    x, y = normal_rows()
    assert fitted(x, y, 100).status == "ok"


def test_a_column_that_does_not_vary_is_constant():
    x, y = normal_rows()
    x = np.insert(x, 1, 4.0, axis=1)
    result = fitted(x, y, 100)
    assert [part == ("constant",) for part in result.part_reasons] == [
        False,
        False,
        True,
        False,
        False,
    ]
    assert named(result) == {"constant"}


def test_a_constant_column_has_no_coefficient_and_an_infinite_interval():
    x, y = normal_rows()
    result = fitted(np.insert(x, 1, 4.0, axis=1), y, 100)
    lower, upper = result.confidence_interval()
    assert np.isnan(result.coefficients[1])
    assert (lower[1], upper[1]) == (-np.inf, np.inf)
    assert np.isnan(result.standard_error[1])


def test_a_constant_column_changes_nothing_else():
    x, y = normal_rows()
    with_column = np.insert(x, 1, 4.0, axis=1)
    result = fitted(with_column, y, 100)
    plain = fitted(x, y, 100)
    np.testing.assert_array_equal(np.delete(result.coefficients, 1), plain.coefficients)
    with_column[:5, 1] = [np.nan, 9.0, 4.0, 1e9, -1.0]
    np.testing.assert_array_equal(result.predict(with_column[:5]), plain.predict(x[:5]))
    np.testing.assert_array_equal(
        result.prediction_interval(with_column[:5]), plain.prediction_interval(x[:5])
    )


def test_a_result_with_a_constant_column_is_read_back():
    x, y = normal_rows()
    result = fitted(np.insert(x, 1, 4.0, axis=1), y, 100)
    again = TrainingResult.from_json(result.to_json())
    np.testing.assert_array_equal(again.coefficients, result.coefficients)
    np.testing.assert_array_equal(again.confidence_interval(), result.confidence_interval())
    assert "x1" in again.summary()


@pytest.mark.parametrize("m", [30, 100, 400])
@pytest.mark.parametrize("rho", [0.05, 0.5, 50.0])
def test_two_equal_columns_are_collinear(m, rho):
    x, y = normal_rows()
    result = fitted(np.column_stack([x, x[:, 0]]), y, m, budget=ZCDP(rho))
    assert result.part_reasons[1] == result.part_reasons[4] == ("collinear",)
    assert {*result.part_reasons[2], *result.part_reasons[3]} <= {"heavy_tail"}


def test_columns_that_agree_in_public_rows_alone_are_not_collinear():
    """Private rows show what each of them does: .01 is far beyond the noise of their curvature."""
    x, y = normal_rows(20_000)
    x[:100, 2] = x[:100, 0]
    y[:100] = x[:100] @ [1.0, -0.7, 0.4] + np.random.default_rng(1).normal(size=100)
    assert "collinear" not in named(fitted(x, y, 100, budget=ZCDP(5.0)))


def test_all_levels_of_a_column_are_not_collinear():
    x, y = normal_rows()
    x[:, 2] = np.arange(len(x)) % 3
    result = fitted(x, y, 100, categories={"x2": "public"})
    assert result.status == "ok"


def test_private_rows_of_one_class():
    x, _ = normal_rows()
    y = np.random.default_rng(1).random(len(x)) < 0.2
    y[100:] = False
    for rho in (0.05, 0.5, 5.0):
        result = fitted(x, y.astype(float), 100, logistic_regression, budget=ZCDP(rho))
        assert named(result) == {"one_class"}
        assert (result._ends(0.95)[0][0], result.status) == (-np.inf, "unreliable")


@pytest.mark.parametrize("positives", [0, 20])
def test_no_interval_about_next_to_no_rows_of_a_class_is_narrow(positives):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(4100, 3))
    y = rng.permutation(np.arange(4100) < 4100 * positives // 4000)
    y[:100] = rng.random(100) < 0.2
    result = fitted(x, y.astype(float), 100, logistic_regression)
    lower, upper = result.confidence_interval()
    assert named(result) <= {"one_class", "separated"}
    assert named(result)
    assert np.all(upper - lower > 0.1)


@pytest.mark.parametrize("gap", [0.0, 0.3])
def test_classes_that_a_column_tells_apart_are_separated(gap):
    """With and without a gap between them; the interval of that column has one end, which lies above zero."""
    x, _ = normal_rows(12_000)
    x = x[np.abs(x[:, 0]) > gap]
    y = (x[:, 0] > 0.0).astype(float)
    result = fitted(x, y, 100, logistic_regression)
    lower, upper = result.confidence_interval()
    assert named(result) == {"separated"}
    assert lower[0] > 1.0
    assert upper[0] == np.inf


@pytest.mark.parametrize("slope", [1.0, 3.0, 6.0])
def test_classes_that_a_column_tells_apart_but_for_some_rows_are_not_separated(slope):
    """A slope of 6 standard deviations is wrong in one of 18 rows."""
    found = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(8000, 3))
        y = (rng.random(8000) < 1.0 / (1.0 + np.exp(-slope * x[:, 0]))).astype(float)
        found.append(named(fitted(x, y, 200, logistic_regression)))
    assert not {"separated", "one_class"}.intersection(*[set().union(*found)])


def test_classes_of_the_softmax_loss_that_columns_tell_apart_are_separated():
    x, _ = normal_rows(12_000)
    y = (x[:, 0] > -0.5).astype(float) + (x[:, 0] > 0.5)
    result = fitted(x, y, 200, train, loss="softmax", budget=ZCDP(5.0))
    assert named(result) == {"separated"}


def test_a_class_of_the_softmax_loss_that_no_private_row_has():
    x, _ = normal_rows(12_000)
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, len(x)).astype(float)
    y[200:] = rng.integers(0, 2, len(x) - 200)
    result = fitted(x, y, 200, train, loss="softmax")
    assert named(result) == {"one_class"}


@pytest.mark.parametrize("rho", [0.05, 0.5, 50.0])
def test_a_label_among_the_columns_is_an_exact_fit(rho):
    x, _ = normal_rows()
    assert named(fitted(x, x[:, 0], 100, budget=ZCDP(rho))) == {"exact_fit"}


def test_a_small_residual_is_no_exact_fit():
    """A residual of a ten thousandth of the labels' deviation is 100 times that of rounding."""
    x, y = normal_rows()
    y = x[:, 0] + 1e-4 * y
    assert "exact_fit" not in named(fitted(x, y, 100))


POWERS = np.arange(21.0)[:, None] ** np.arange(1, 6)  # of Wampler's problems of NIST


@pytest.mark.parametrize("ratio", [1.0, 0.1])  # of successive coefficients: Wampler1 and Wampler2
def test_intervals_of_an_exact_fit_contain_the_coefficients(ratio):
    """Without the part of rounding all six lie 9 to 34 half widths outside."""
    truth = ratio ** np.arange(6.0)
    y = truth[0] + POWERS @ truth[1:]
    result = fitted_with(
        np.tile(POWERS, (2, 1)),
        np.tile(y, 2),
        np.tile(POWERS, (1000, 1)),
        np.tile(y, 1000),
        budget=ZCDP(1e6),
    )
    lower, upper = result._ends(0.95)
    assert np.all((lower <= truth) & (truth <= upper))
    assert named(result) == {"exact_fit"}


@pytest.mark.parametrize("rho", [0.05, 100.0])
def test_the_part_of_rounding_is_small_beside_noise_of_labels(rho, monkeypatch):
    x, y = normal_rows(20_000)
    lower, upper = fitted(x, y, 100, budget=ZCDP(rho)).confidence_interval()
    monkeypatch.setattr("fastpubpriv.regression.exact.rounding_residual", lambda *_: 0.0)
    without = fitted(x, y, 100, budget=ZCDP(rho)).confidence_interval()
    # 2 to 4 parts in 10,000
    np.testing.assert_allclose(upper - lower, without[1] - without[0], rtol=1e-3)


def test_few_public_rows():
    """Four coefficients: seven public rows are fewer than two for each, ten are fewer than five for each of two classes."""
    x, y = normal_rows()
    assert named(fitted(x, y, 7, train, loss="huber")) == {"few_public_rows"}
    assert named(fitted(x, y, 7)) == {"few_public_rows"}
    y = (y > 0.0).astype(float)
    assert named(fitted(x, y, 19, logistic_regression)) == {"few_public_rows"}


@pytest.mark.parametrize("seed", range(4))
def test_a_few_rows_far_out_are_a_heavy_tail(seed):
    """Student's law with two degrees of freedom: residuals have a mean, and no variance."""
    x, y = normal_rows()
    y = y + np.random.default_rng([5, seed]).standard_t(2, size=len(y))
    assert named(fitted(x, y, 100)) == {"heavy_tail"}


@pytest.mark.statistical
@pytest.mark.parametrize(("share", "least", "most"), [(0.03, 6, 8), (0.0, 0, 1)])
def test_rows_beyond_all_public_ones_are_a_heavy_tail_of_classes(share, least, most):
    """150 of 5,000 rows have -999 for an unknown cell, none of 60 public ones: at epsilon 1 no count stands out but at the clip."""
    found = 0
    for seed in range(8):
        x, y = normal_rows(5060, seed)
        rng = np.random.default_rng([7, seed])
        far = np.flatnonzero(rng.random(5000) < share) + 60
        y = (y > 0.0).astype(float)
        x[far, 2] = -999.0
        y[far] = rng.random(len(far)) < 0.5
        result = fitted(x, y, 60, logistic_regression, budget=PureDP(1))
        found += Reason.HEAVY_TAIL in named(result)
    assert least <= found <= most, f"{found} of 8 draws"


@pytest.mark.parametrize(
    ("rows", "seen"),
    [
        pytest.param([0, 0, 0, 25, 0], True, id="at the clip"),
        pytest.param([0, 0, 25, 0, 0], True, id="with an error of three quarters"),
        pytest.param([0, 0, 12, 15, 0], False, id="within the noise of two shells"),
        pytest.param([0, 99, 0, 0, 0], False, id="nearer"),
        pytest.param([0, 0, 0, 0, 99], False, id="farther than any clipped row"),
    ],
)
def test_clipped_rows_are_looked_for_where_they_lie(rows, seen):
    """At 4 * 10; counts of shells have a noise of 10, and one of two exceeds 1.95 of it once in 20 times."""
    law = TailLaw(
        middles=np.zeros(0),
        counts=np.zeros(0),
        std=10.0,
        end=12.0,
        inner=0.0,
        outer=0.0,
        later=np.zeros(6),
        further=np.array(rows, dtype=float),
        further_edges=np.array([12.0, 16.0, 24.0, 32.0, 48.0, 64.0]),
    )
    rotation = SimpleNamespace(row_map=SimpleNamespace(limit=10.0), step=1.0)
    problem = SimpleNamespace(loss=SimpleNamespace(classes=True), rotation=rotation)
    curvature = SimpleNamespace(matrix=np.eye(2))
    assert shows_clipped_rows(problem, curvature, SimpleNamespace(law=law)) is seen


def test_labels_without_a_mean_are_a_fallback():
    """The least squares of Cauchy labels is (18, -1, .7) where the slopes are (1, -.7, .4): no fit is better than a constant."""
    x, y = normal_rows()
    y = y + np.random.default_rng(5).standard_cauchy(len(y))
    assert named(fitted(x, y, 100)) == {"fallback"}


def shifted_rows(kind, seed, m):
    """Public rows (m) that are of another year, in another unit, or with another sign of a column; private ones; and means."""
    x, y = normal_rows(8000 + m, seed)
    means = x @ [1.0, -0.7, 0.4]
    public = x[:m].copy()
    labels = y[:m].copy()
    if kind == "year":
        public[:, 0] += 0.5
        labels += 2.0
    elif kind == "unit":
        public[:, 0] *= 10.0
    elif kind == "sign":
        public[:, 0] *= -1.0
    return public, labels, x[m:], y[m:], means[m:]


@pytest.mark.parametrize("kind", ["year", "unit", "sign"])
def test_public_rows_of_another_population_are_shifted(kind):
    """In 9 of 10 draws: of 30 of each kind, one of the kind "year" is named for a heavy tail of its residuals alone."""
    found = []
    for seed in range(10):
        public, labels, x, y, _ = shifted_rows(kind, seed, 60)
        found.append(named(fitted_with(public, labels, x, y)))
    assert found.count({"shifted"}) >= 9


# The curvature along a direction with .01 of the public variance is taken as the edge of its noise, which is larger: in 54 of 54
# draws the excess is some 1,400 times that of ten public rows.
NARROW = pytest.mark.xfail(
    strict=True, reason="a direction with .01 of the public variance is below the noise of H"
)


@pytest.mark.parametrize("kind", ["year", pytest.param("unit", marks=NARROW), "sign"])
def test_public_rows_of_another_population_cost_a_tenth_at_most(kind):
    """Against ten public rows of the right population, which add next to nothing to 8,000 private ones; medians of 9."""
    wrong = []
    right = []
    for seed in range(9):
        public, labels, x, y, means = shifted_rows(kind, seed, 60)
        shifted = fitted_with(public, labels, x, y)
        wrong.append(np.mean((shifted.predict(x) - means) ** 2))
        own_public, own_labels, *_ = shifted_rows("none", seed, 60)
        alone = fitted_with(own_public[:10], own_labels[:10], x, y)
        right.append(np.mean((alone.predict(x) - means) ** 2))
    assert np.median(wrong) <= 1.1 * np.median(right)


# Noise of the curvature reaches to .67 of a unit, beyond which 40 public rows leave one to three directions: `few_rows` in a third
# of draws. Noise of the counts is 50 rows in each octave, of 5,000 rows: `heavy_tail` in another third.
FAINT = pytest.mark.xfail(
    strict=True, reason="noise of curvature and counts hides directions and the end of the tail"
)
SETTINGS = [
    (20, 20_000, 100, 1.0),
    (30, 15_000, 150, 1.0),
    (40, 20_000, 300, 1.0),
    pytest.param(8, 5_000, 40, 0.5, marks=FAINT),
    (60, 8_000, 200, 0.5),
]


@pytest.mark.parametrize(("dim", "n", "m", "epsilon"), SETTINGS)
def test_textbook_rows_are_ok(dim, n, m, epsilon):
    """Independent normal columns and labels of unit noise: in four of five draws nothing is the matter."""
    ok = 0
    for seed in range(5):
        rng = np.random.default_rng([66, seed])
        x = rng.normal(size=(n + m, dim))
        y = x @ rng.normal(size=dim) / np.sqrt(dim) + rng.normal(size=n + m)
        budget = ApproxDP(epsilon=epsilon, delta=1e-6)
        ok += fitted(x, y, m, budget=budget, random_state=seed).status == "ok"
    assert ok >= 4


@pytest.mark.parametrize(("dim", "m"), [(3, 12), (20, 45), (40, 90)])
def test_public_rows_of_the_same_population_are_not_shifted(dim, m):
    """Two for each coefficient and more: their moments alone double the error of their fit."""
    for seed in range(6):
        rng = np.random.default_rng([67, seed])
        x = rng.normal(size=(20_000 + m, dim))
        y = x @ rng.normal(size=dim) / np.sqrt(dim) + rng.normal(size=len(x))
        assert "shifted" not in named(fitted(x, y, m, random_state=seed))


FITS = {
    "squared": linear_regression,
    "logistic": logistic_regression,
    "huber": lambda *rows, **given: train(*rows, loss="huber", **given),
}


def long_tailed(loss):
    rng = np.random.default_rng(0)
    x = rng.lognormal(size=(5000, 3))
    means = x @ [1.0, -0.5, 0.3]
    y = means + rng.normal(size=5000)
    return x, (y > means.mean()).astype(float) if loss == "logistic" else y


@pytest.mark.parametrize("m", [30, 1500])
@pytest.mark.parametrize("loss", FITS)
def test_the_order_of_public_rows_changes_no_bit(loss, m):
    x, y = long_tailed(loss)
    order = np.random.default_rng(1).permutation(m)
    given = (x[m:], y[m:], FITS[loss])
    one = fitted_with(x[:m], y[:m], *given)
    other = fitted_with(x[:m][order], y[:m][order], *given)
    np.testing.assert_array_equal(one._ends(0.95), other._ends(0.95))
    np.testing.assert_array_equal(one.coefficients, other.coefficients)


@pytest.mark.parametrize("loss", FITS)
def test_columns_in_other_units_give_the_same_bits_in_these(loss):
    """Powers of two, which change no bit of a number but its exponent."""
    x, y = long_tailed(loss)
    units = 2.0 ** np.array([3.0, -10.0, 20.0])
    plain = fitted(x, y, 100, FITS[loss])
    scaled = fitted(x * units, y, 100, FITS[loss])
    np.testing.assert_array_equal(plain.coefficients, scaled.coefficients * units)
    np.testing.assert_array_equal(
        plain.confidence_interval(), np.multiply(scaled.confidence_interval(), units)
    )
    assert plain.intercept == scaled.intercept


def test_the_first_reason_of_a_part_is_named():
    """In the order of the fields, and for each part alone."""
    found = Concerns(
        collinear=np.array([False, True, True]),
        shifted=True,
        heavy_tail=np.array([True, True, True]),
        few_public_rows=np.array([False, False, True]),
    ).first(3)
    assert found == (("shifted",), ("collinear",), ("collinear",))


def test_each_reason_has_a_level():
    levels = {
        "constant": "unreliable",
        "collinear": "unreliable",
        "one_class": "unreliable",
        "separated": "unreliable",
        "exact_fit": "caution",
        "few_public_rows": "unreliable",
        "fallback": "unreliable",
        "shifted": "caution",
        "few_rows": "caution",
        "heavy_tail": "caution",
    }
    assert {word: Reason[word.upper()].level for word in levels} == levels


def test_a_frame_with_a_constant_column_has_its_name_in_the_terms():
    x, y = normal_rows(3000)
    frame = pd.DataFrame(x, columns=["a", "b", "c"]).assign(year=2024.0, y=y)
    result = seeded(
        linear_regression, frame[100:], x_pub=frame[:100].copy(), label="y", budget=BUDGET
    )
    assert result.terms == ("a", "b", "c", "year")
    assert result.to_frame().loc["year", "reasons"] == "constant"


def test_a_step_of_classes_from_a_start_far_off_says_what_the_change_of_curvature_leaves():
    """Columns of public rows lie two deviations off, and the last step comes from predictions that are wrong with certainty."""
    ratios = []
    for draw in (9, 15, 28, 41, 56, 60):
        rng = np.random.default_rng(draw)
        x = rng.normal(size=(2060, 2))
        x[:, 1] = 0.9 * x[:, 0] + 0.5 * x[:, 1]
        y = (rng.random(2060) < 1.0 / (1.0 + np.exp(x[:, 1] - x[:, 0]))).astype(float)
        x_pub = x[2000:] + 2.0 * x.std(axis=0)
        given = {"budget": PureDP(1), "random_state": draw}
        result = fitted_with(x_pub, y[2000:], x[:2000], y[:2000], logistic_regression, **given)
        scores = x[:2000] @ result.coefficients + result.intercept
        best = x[:2000] @ [1.0, -1.0]
        losses = [np.mean(np.logaddexp(0.0, at) - y[:2000] * at) for at in (scores, best)]
        assert losses[0] > 1.05 * np.log(2.0)  # that of a constant
        assert result.status != "ok"
        ratios.append((losses[0] - losses[1]) / result.predicted_excess)
    assert 0.3 < np.median(ratios) < 3.0
