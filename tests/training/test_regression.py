"""Linear and logistic regression: accuracy against what is known, defaults on raw columns, and what is refused before the debit."""

import numpy as np
import pandas as pd
import pytest
from spies import SpyLedger, SpyRows, refused, seeded

import fastpubpriv as fpp
from fastpubpriv import (
    ZCDP,
    AccuracyWarning,
    ApproxDP,
    InputError,
    PureDP,
    linear_regression,
    logistic_regression,
    train,
)
from fastpubpriv.results.training import TrainingResult
from fastpubpriv.training.methods import METHODS

BETA = np.array([1.0, 0.2, 0.03, 5.0, -2.0])
STRONG = ApproxDP(4, 1e-5)


def table(n, seed, *, noise=1.0):
    """Correlated columns of five sizes and shifts, with labels."""
    rng = np.random.default_rng(seed)
    mixing = np.eye(5) + 0.4 * np.tri(5)
    x = rng.normal(size=(n, 5)) @ mixing.T * [1.0, 10.0, 100.0, 0.1, 1.0] + [0.0, 5.0, -300.0, 2.0, 1.0]
    return x, x @ BETA + 7.0 + noise * rng.normal(size=n)


def split(x, y, m):
    return {"x_priv": x[m:], "y_priv": y[m:], "x_pub": x[:m].copy(), "y_pub": y[:m].copy()}


def classes(n, seed):
    x, _ = table(n, seed)
    rng = np.random.default_rng(seed + 1)
    scores = (x - [0.0, 5.0, -300.0, 2.0, 1.0]) / [1.0, 10.0, 100.0, 0.1, 1.0] @ [1.0, -1.0, 0.5, 0.0, 0.3]
    return x, (rng.random(n) < 1.0 / (1.0 + np.exp(-scores))).astype(float)


@pytest.mark.parametrize("budget", [STRONG, ZCDP(0.5), PureDP(4)], ids=str)
@pytest.mark.parametrize("method", ["newton"])
def test_coefficients_in_the_units_of_the_columns(method, budget):
    x, y = table(20_300, 1)
    result = seeded(linear_regression, **split(x, y, 300), budget=budget, method=method)
    assert result.method == method
    assert result.spent == budget
    assert np.all(np.abs(result.coefficients - BETA) < 4.5 * result.standard_error)
    assert abs(result.intercept - 7.0) < 4.5 * result.intercept_error
    # Close to what no noise at all would leave.
    design = np.column_stack([np.ones(len(x)), x])
    ideal = np.sqrt(np.diag(np.linalg.inv(design.T @ design)))
    assert np.all(result.standard_error < 2.5 * ideal[1:])
    assert np.all(result.standard_error > 0.8 * ideal[1:])
    assert result.predicted_excess < 0.2 * result.public_excess
    new, labels = table(2000, 2)
    assert np.mean((result.predict(new) - labels) ** 2) < 1.15
    lower, upper = result.prediction_interval(new)
    assert 0.92 < np.mean((lower < labels) & (labels < upper)) < 0.98


@pytest.mark.parametrize("budget", [STRONG, ZCDP(0.5), PureDP(4)], ids=str)
def test_logistic_regression_on_raw_columns(budget):
    x, y = classes(20_300, 3)
    result = seeded(logistic_regression, **split(x, y, 300), budget=budget, method="newton")
    new, labels = classes(4000, 9)
    chance = result.predict_proba(new)
    assert chance.sum(axis=1) == pytest.approx(1.0)
    loss = -np.mean(np.log(np.where(labels == 1.0, chance[:, 1], chance[:, 0])))
    scores = (new - [0.0, 5.0, -300.0, 2.0, 1.0]) / [1.0, 10.0, 100.0, 0.1, 1.0] @ [1.0, -1.0, 0.5, 0.0, 0.3]
    best = np.mean(np.logaddexp(0.0, scores) - labels * scores)
    assert loss < best + 0.01
    assert np.mean(result.predict(new) == labels) > 0.6
    assert set(result.predict(new)) == {0.0, 1.0}


def test_auto_spends_nothing_where_public_rows_do_as_well():
    x, y = table(1040, 4)
    log = []
    ledger = SpyLedger(ZCDP(10), log)
    rows = SpyRows(np.column_stack([x, y])[1000:], log)
    public = np.column_stack([x, y])[:1000]
    result = linear_regression(rows, label=-1, x_pub=public, budget=ZCDP(0.01), ledger=ledger)
    assert result.method == "throw_away"
    assert log == []
    assert result.spent.is_zero
    assert result.releases == ()
    assert result.privacy_share == 0.0
    np.testing.assert_array_equal(result.coefficients, result.public_coefficients)
    assert "nothing" in result.summary()


def test_names_orders_and_a_label_column_change_nothing():
    x, y = table(3200, 5)
    names = ["a", "b", "c", "d", "e"]
    frame = pd.DataFrame(x, columns=names).assign(y=y)
    private, public = frame.iloc[200:], frame.iloc[:200].copy()
    wanted = seeded(linear_regression, **split(x, y, 200), budget=STRONG)
    for given in (
        {"x_priv": private, "label": "y", "x_pub": public[["y", *names[::-1]]]},
        {"x_priv": private[names], "y_priv": private["y"], "x_pub": public[names[::-1]], "y_pub": public["y"]},
        {"x_priv": private.assign(t="text"), "label": "y", "columns": names, "x_pub": public},
    ):
        found = seeded(linear_regression, **given, budget=STRONG)
        np.testing.assert_array_equal(found.coefficients, wanted.coefficients)
        assert found.columns == tuple(names)
        np.testing.assert_array_equal(found.predict(private[["e", "d", "c", "b", "a"]]), wanted.predict(x[200:]))


def test_categories_and_other_levels():
    rng = np.random.default_rng(6)
    month = rng.integers(1, 5, 6000).astype(float)
    x = np.column_stack([rng.normal(size=6000), month])
    y = x[:, 0] + np.array([0.0, 3.0, -1.0, 5.0])[month.astype(int) - 1] + rng.normal(size=6000)
    x[500:520, 1] = [99.0, np.nan] * 10  # levels that only private rows have
    result = seeded(linear_regression, **split(x, y, 300), budget=STRONG, categories={"x1": "public"})
    assert result.terms == ("x0", "x1=1", "x1=2", "x1=3", "x1=4")
    effects = result.predict([[0.0, level] for level in (1, 2, 3, 4)])
    assert effects == pytest.approx([0.0, 3.0, -1.0, 5.0], abs=0.25)
    # About the public mean, and another level is the mean itself.
    assert result.predict([[0.0, 77.0]])[0] == pytest.approx(result.intercept)
    listed = seeded(linear_regression, **split(x, y, 300), budget=STRONG, categories={"x1": [1, 2, 3, 4]})
    np.testing.assert_array_equal(listed.coefficients, result.coefficients)
    assert TrainingResult.from_json(result.to_json()).predict(x[:9]).tolist() == result.predict(x[:9]).tolist()


def test_missing_cells():
    x, y = table(6300, 7)
    x[::7, 1] = np.nan  # a seventh of public and private cells
    x[1001::50, 3] = np.nan  # private cells only
    y[2000:2100] = np.nan
    result = seeded(linear_regression, **split(x, y, 300), budget=STRONG)
    assert "x1 missing" in result.terms
    assert "x3 missing" not in result.terms
    assert np.abs(result.coefficients[0] - 1.0) < 0.2
    new = np.array([[0.0, 5.0, -300.0, 2.0, 1.0]] * 3)
    new[1, 1], new[2, 3] = np.nan, np.nan
    assert np.isfinite(result.predict(new)).tolist() == [True, True, False]


def test_rows_that_do_not_fit_in_memory_are_turned_in_each_pass(monkeypatch):
    x, y = table(3000, 9)
    wanted = seeded(linear_regression, **split(x, y, 200), budget=STRONG, method="newton")
    found = seeded(linear_regression, **split(x, y, 200), budget=STRONG, method="newton", max_memory=1000)
    np.testing.assert_array_equal(found.coefficients, wanted.coefficients)
    monkeypatch.setattr("fastpubpriv.training.kept.KEPT_BYTES", 1000)
    found = seeded(linear_regression, **split(x, y, 200), budget=STRONG, method="newton")
    np.testing.assert_array_equal(found.coefficients, wanted.coefficients)


def test_rows_are_kept_within_max_memory():
    """Memory for 1,000 rows of 5 features, a one and a label: those of 1,000 rows are read once, those of 1,001 in each pass."""
    x, y = table(1500, 9)
    most = 4 * 7 * 1000
    reads = {}
    for n in (1000, 1001):
        passes = []

        def chunks(n=n, passes=passes):
            passes.append(n)
            yield np.column_stack([x[:n], y[:n]])

        rows = fpp.Rows.from_chunks(chunks, n=n, dim=6)
        public = np.column_stack([x, y])[1100:].copy()
        seeded(linear_regression, rows, label=-1, x_pub=public, budget=STRONG, method="newton", max_memory=most)
        reads[n] = len(passes)
    assert reads[1000] == 1
    assert reads[1001] > 1


def test_a_drift_of_the_public_rows_is_seen_and_discounted():
    rng = np.random.default_rng(10)
    x = rng.normal(size=(20_500, 20))
    beta = rng.normal(size=20) / np.sqrt(20)
    moved = beta + 3.0 * np.eye(20)[0]
    y = np.where(np.arange(20_500) < 500, x @ moved, x @ beta) + rng.normal(size=20_500)
    for method in ("newton",):
        result = seeded(linear_regression, **split(x, y, 500), budget=ApproxDP(1, 1e-5), method=method)
        assert result.public_drift > 5.0
        # One release clips residuals about the public fit once and for all; steps follow the shift.
        assert np.sum((result.coefficients - beta) ** 2) < (0.1 if method == "newton" else 9.0)
        assert "disagree" in result.summary()
    agreed = seeded(linear_regression, **split(x, x @ beta + rng.normal(size=20_500), 500), budget=ApproxDP(1, 1e-5))
    assert agreed.public_drift == 1.0


def test_constant_and_repeated_columns():
    x, y = table(3300, 11)
    x = np.column_stack([x, np.full(len(x), 4.0), x[:, 0]])
    result = seeded(linear_regression, **split(x, y, 300), budget=STRONG)
    assert result.terms == ("x0", "x1", "x2", "x3", "x4", "x6")
    assert result.coefficients[0] + result.coefficients[5] == pytest.approx(1.0, abs=0.2)
    assert result.predict(x[:1]).shape == (1,)


def test_few_public_rows_of_many_columns():
    rng = np.random.default_rng(12)
    x = rng.normal(size=(20_060, 40))
    beta = rng.normal(size=40) / np.sqrt(40)
    y = x @ beta + rng.normal(size=20_060)
    result = seeded(linear_regression, **split(x, y, 30), budget=STRONG)
    assert np.sum((result.coefficients - beta) ** 2) < 0.05 < np.sum((result.public_coefficients - beta) ** 2)


X, Y = table(600, 13)
GOOD = split(X, Y, 100)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"y_pub": np.full(100, np.nan)}, "at least 2 public rows"),
        ({"x_pub": np.zeros((100, 5))}, "no column varies"),
        ({"x_pub": GOOD["x_pub"][:1], "y_pub": GOOD["y_pub"][:1]}, "at least 2 public rows"),
        ({"x_pub": GOOD["x_pub"][:, :4]}, "4 columns"),
        ({"categories": {"z": "public"}}, "'z'"),
        ({"categories": {"x0": "private"}}, "'public'"),
        ({"categories": "x0"}, "must map"),
        ({"categories": {"x0": []}}, "x0"),
        ({"y_scale": -1.0}, "y_scale"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_what_is_refused_before_the_debit(changes, words):
    refused(linear_regression, words, **{**GOOD, "budget": ZCDP(1), **changes})


def test_what_a_logistic_model_refuses():
    x, y = classes(600, 1)
    good = {**split(x, y, 100), "budget": ZCDP(1)}
    for changes, words in (
        ({"y_pub": np.arange(100.0)}, "100 classes"),
        ({"y_pub": np.zeros(100)}, "1 classes"),
        ({"classes": [1, 1]}, "different"),
        ({"classes": [1, 2, 3]}, "classes"),
    ):
        with pytest.raises(InputError, match=words):
            logistic_regression(**{**good, **changes})
    good["budget"] = ZCDP(100)
    result = seeded(logistic_regression, **{**good, "classes": [1, 0]}, method="newton")
    other = seeded(logistic_regression, **good, method="newton")
    np.testing.assert_allclose(result.predict_proba(x)[:, ::-1], other.predict_proba(x), atol=0.2)
    # A class that no public row has: the public fit knows nothing of it.
    alone = seeded(logistic_regression, **{**good, "y_pub": np.zeros(100), "classes": [0, 1]}, method="newton")
    assert np.isfinite(alone.coefficients).all()
    with pytest.raises(InputError, match="classes="):
        train(**GOOD, loss="squared", classes=[0, 1], budget=ZCDP(1))


def test_a_method_that_is_predicted_to_do_harm_warns():
    x, y = table(1040, 4)
    with pytest.warns(AccuracyWarning, match="method='throw_away'"):
        linear_regression(**split(x, y, 1000), budget=ZCDP(0.001), method="newton")


def test_train_is_what_the_others_call():
    for loss, function, data in (
        ("squared", linear_regression, (X, Y)),
        ("logistic", logistic_regression, classes(600, 2)),
    ):
        given = {**split(*data, 100), "budget": STRONG, "method": "newton"}
        found, wanted = seeded(train, **given, loss=loss), seeded(function, **given)
        np.testing.assert_array_equal(found.coefficients, wanted.coefficients)
    with pytest.raises(InputError, match="loss"):
        train(**GOOD, loss="hinge", budget=ZCDP(1))
    assert METHODS.choices[:3] == ("auto", "newton", "throw_away")


def test_the_result():
    result = seeded(linear_regression, **GOOD, budget=STRONG, method="newton")
    assert TrainingResult.from_json(result.to_json()).to_dict() == result.to_dict()
    assert result.to_frame().shape[0] == 6
    lower, upper = result.confidence_interval(0.5)
    assert np.all(lower < result.coefficients)
    assert np.all(result.coefficients < upper)
    assert 0.0 < result.privacy_share < 1.0
    assert result.releases[0]["name"] == "gradient, step 1"
    with pytest.raises(InputError, match="classes"):
        result.predict_proba(X)
    with pytest.raises(InputError, match="numbers"):
        seeded(logistic_regression, **split(*classes(600, 2), 100), budget=STRONG).prediction_interval(X)
    text = result.to_json().replace('"source": [', '"source": [1, ')
    with pytest.raises(InputError):
        TrainingResult.from_json(text)


def test_rows_without_a_label_make_no_term():
    """Cells that are missing only where the label is missing too say nothing: no coefficient is made up for them."""
    x, y = table(3000, 5)
    gone = np.arange(len(y)) % 10 == 3
    x[gone, 0], y[gone] = np.nan, np.nan
    for method in ("newton", "semi_dp"):
        result = seeded(train, **split(x, y, 300), loss="squared", budget=STRONG, method=method)
        assert list(result.terms) == [f"x{j}" for j in range(x.shape[1])]
