"""Estimators for scikit-learn: its own checks, pipelines, clones, and budgets that no clone refunds."""

import math
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from helpers.errors import raises
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from fastpubpriv import ZCDP, Ledger, PrivateTable
from fastpubpriv import sklearn as ours
from fastpubpriv.errors import BudgetError, InputError, PrivacyWarning
from fastpubpriv.sklearn import purchases, regressions
from fastpubpriv.sources import private_rows

BUDGET = ZCDP(0.5)
NAMES = ("age", "height", "income")
pytestmark = pytest.mark.filterwarnings(
    "ignore::fastpubpriv.errors.AccuracyWarning",
    "ignore::fastpubpriv.errors.SeededNoiseWarning",
    "ignore:scores of private rows:fastpubpriv.errors.PrivacyWarning",
)


@pytest.fixture(autouse=True)
def fresh_count(monkeypatch):
    monkeypatch.setattr(purchases, "budgets_without_ledger", [])


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def table(n=4000, seed=0):
    """Ages, heights and incomes, and a label of 2 age - height."""
    rng = np.random.default_rng(seed)
    cells = rng.normal(size=(n, 3)) * [10.0, 5.0, 900.0] + [40.0, 170.0, 3000.0]
    rows = pd.DataFrame(cells, columns=NAMES)
    label = rows["age"] * 2.0 - rows["height"] + rng.normal(size=n)
    return rows, label


def ledger_of(folder, total):
    """The path of a new ledger file."""
    path = str(folder / "budget.ledger")
    Ledger(ZCDP(total), path=path).close()
    return path


def entries_of(path):
    with Ledger.from_file(path) as ledger:
        return ledger.entries


def made(kind):
    if kind is ours.PublicPrivateGaussianMixture:
        return kind(BUDGET, n_components=1, min_weight=0.9, random_state=1)
    return kind(BUDGET, random_state=1)


def fitted(kind, rows, label, m=100):
    model = made(kind)
    if kind is ours.SemiPrivateLogisticRegression:
        label = np.where(label > label.mean(), "yes", "no")
    if "Regression" in kind.__name__:
        return model.fit(rows[m:], label[m:], X_pub=rows[:m], y_pub=label[:m])
    return model.fit(rows[m:], X_pub=rows[:m])


KINDS = [getattr(ours, name) for name in ours.__all__]


@pytest.mark.parametrize("kind", KINDS)
def test_fit_keeps_the_result(kind):
    model = fitted(kind, *table())
    assert model.result_.provenance
    assert model.feature_names_in_.tolist() == list(NAMES)
    assert model.n_features_in_ == 3
    stored = pickle.dumps(model)
    assert repr(pickle.loads(stored).result_) == repr(model.result_)


@pytest.mark.parametrize("kind", KINDS)
def test_a_clone_has_the_parameters_and_no_result(kind):
    model = fitted(kind, *table())
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "result_")


@pytest.mark.parametrize("kind", KINDS)
def test_fit_without_public_rows_says_what_it_needs(kind):
    rows, label = table(300)
    # A mixture needs none with a delta, which its budget here lacks.
    error = BudgetError if kind is ours.PublicPrivateGaussianMixture else InputError
    raises(error, r"(needs|or) public rows", made(kind).fit, rows, label)


def test_a_logistic_fit_without_public_labels_needs_the_classes():
    rows, label = table(300)
    model = made(ours.SemiPrivateLogisticRegression)
    raises(InputError, "pass classes=", model.fit, rows, label > label.mean(), X_pub=rows)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("setting", "words"),
    [({"budget": None}, "budget must be"), ({"ledger": Ledger(ZCDP(1))}, "path of a ledger file")],
    ids=["budget", "ledger"],
)
def test_settings_that_are_refused(kind, setting, words):
    rows, label = table(300)
    public = {"X_pub": rows}
    if "Regression" in kind.__name__:
        public["y_pub"] = label > label.mean()
    model = made(kind).set_params(**setting)
    raises(InputError, words, model.fit, rows, label, **public)


def test_linear_coefficients_are_those_of_scikit_learn():
    rows, label = table(20_000)
    model = fitted(ours.SemiPrivateLinearRegression, rows, label)
    expected = LinearRegression().fit(rows, label).coef_
    np.testing.assert_allclose(model.coef_, expected, atol=0.02)
    assert model.score(rows, label) > 0.98


def test_a_logistic_model_predicts_the_classes():
    rows, label = table(20_000)
    model = fitted(ours.SemiPrivateLogisticRegression, rows, label)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.score(rows, np.where(label > label.mean(), "yes", "no")) > 0.9
    chances = model.predict_proba(rows[:5])
    assert chances.shape == (5, 2)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)


def test_the_mean_of_a_gaussian_is_that_of_the_rows():
    rows, label = table(20_000)
    model = fitted(ours.PublicPrivateGaussian, rows, label)
    np.testing.assert_allclose(model.mean_, rows.mean(), rtol=0.01)


def test_scaled_columns_have_deviation_one():
    rows, label = table(20_000)
    model = fitted(ours.PublicPrivateScaler, rows, label).set_output(transform="pandas")
    scaled = model.transform(rows)
    assert list(scaled.columns) == list(NAMES)
    np.testing.assert_allclose(scaled.std(), 1.0, atol=0.1)


def test_all_directions_together_lose_nothing():
    rows, label = table(20_000)
    model = fitted(ours.SemiPrivatePCA, rows, label)
    names = [f"semiprivatepca{place}" for place in range(3)]
    assert model.get_feature_names_out().tolist() == names
    returned = model.inverse_transform(model.transform(rows))
    np.testing.assert_allclose(returned, rows, rtol=1e-6)


def test_a_private_label_outside_of_the_classes_never_raises():
    rows, _ = table(2000)
    label = np.where(rows["age"] > 40.0, "yes", "no").astype(object)
    label[500] = "a private word"
    model = ours.SemiPrivateLogisticRegression(BUDGET, classes=("no", "yes"), random_state=1)
    model.fit(rows[100:], label[100:], X_pub=rows[:100], y_pub=label[:100])
    assert "a private word" not in repr(model.result_) + str(model.__dict__)


def test_one_class_is_refused():
    rows, _ = table(2000)
    label = np.where(rows["age"] > 40.0, "yes", "no")
    model = ours.SemiPrivateLogisticRegression(BUDGET, classes=("no",))
    public = {"X_pub": rows[:100], "y_pub": label[:100]}
    raises(InputError, "two classes", model.fit, rows, label, **public)


def test_a_pipeline_transforms_the_public_rows_too(routing):
    rows, label = table(10_000)
    scaler = ours.PublicPrivateScaler(ZCDP(0.25), random_state=1)
    linear = ours.SemiPrivateLinearRegression(ZCDP(0.25), random_state=2)
    pipeline = make_pipeline(scaler, linear, transform_input=["X_pub"])
    public = {"X_pub": rows[:200], "y_pub": label[:200]}
    with pytest.warns(PrivacyWarning, match="fit number 2"):
        pipeline.fit(rows[200:], label[200:], **public)
    assert pipeline.score(rows, label) > 0.98


def test_every_fit_is_charged_and_that_of_a_clone(tmp_path):
    rows, label = table(3000)
    path = ledger_of(tmp_path, 2)
    model = ours.SemiPrivateLinearRegression(BUDGET, ledger=path, random_state=1)
    public = {"X_pub": rows[:100], "y_pub": label[:100]}
    model.fit(rows[100:], label[100:], **public)
    clone(model).fit(rows[100:], label[100:], **public)
    assert len(entries_of(path)) == 2


def test_searches_are_charged_for_each_fold_and_refused_before_a_row_is_read(tmp_path, routing):
    rows, label = table(3000)
    path = ledger_of(tmp_path, 1)
    model = ours.SemiPrivateLinearRegression(BUDGET, ledger=path, random_state=1)
    public = {"X_pub": rows[:100], "y_pub": label[:100]}
    folds = {"cv": 5, "params": public, "error_score": "raise"}
    # Five folds would cost 2.5, and the ledger has 1.
    raises(BudgetError, None, cross_val_score, model, rows, label, **folds)
    assert len(entries_of(path)) == 2
    search = GridSearchCV(model, {"method": ["newton", "auto"]}, cv=2, error_score="raise")
    raises(BudgetError, None, search.fit, rows, label, **public)
    assert len(entries_of(path)) == 2


def test_without_a_ledger_repeated_fits_are_not_silent():
    rows, label = table(1000)
    with warnings.catch_warnings(action="error", category=PrivacyWarning):
        fitted(ours.PublicPrivateGaussian, rows, label)
    with pytest.warns(PrivacyWarning, match=r"fit number 2 .* add up"):
        fitted(ours.PublicPrivateGaussian, rows, label)


def privacy_warnings_of_a_search(model):
    """Five fits: two folds of two settings, and the best setting on all rows."""
    rows, label = table(1000)
    public = {"X_pub": rows[:100], "y_pub": label[:100]}
    search = GridSearchCV(model, {"tails": ["any", "light"]}, cv=2)
    with pytest.warns(PrivacyWarning) as caught:
        search.fit(rows[100:], label[100:], **public)
    return [warning for warning in caught if warning.category is PrivacyWarning]


def test_a_search_without_a_ledger_warns_of_its_fits_and_of_its_score(routing):
    model = ours.SemiPrivateLinearRegression(ZCDP(0.25))
    fits, score = privacy_warnings_of_a_search(model)
    assert re.search(r"fit number 5 .* rho = 1.25 together", str(fits.message))
    assert "fit number" not in str(score.message)
    assert "best_score_" in str(score.message)
    assert fits.filename == __file__
    assert score.filename == __file__


def test_a_search_with_a_ledger_pays_for_every_fit_and_warns_of_its_score(routing, tmp_path):
    path = ledger_of(tmp_path, 20)
    model = ours.SemiPrivateLinearRegression(ZCDP(0.25), ledger=path)
    (score,) = privacy_warnings_of_a_search(model)
    assert "best_score_" in str(score.message)
    assert score.filename == __file__
    with Ledger.from_file(path) as ledger:
        assert len(ledger.entries) == 5
        assert ledger.remaining == Ledger(ZCDP(18.75)).remaining


def with_public_rows(kind):
    """The estimator with public rows made to fit the form of the data: scikit-learn's checks know nothing of X_pub."""

    class Checked(kind):
        def fit(self, X, y=None):
            shape = np.asarray(X).shape
            size = shape[1] if len(shape) == 2 else 1
            rng = np.random.default_rng(0)
            columns = getattr(X, "columns", None)
            public = rng.normal(size=(60, size)) * 3.0
            x_pub = public if columns is None else pd.DataFrame(public, columns=columns)
            if "Regression" not in kind.__name__:
                return super().fit(X, y, X_pub=x_pub)
            if y is None:
                raise ValueError("requires y to be passed, but the target y is None")
            y = np.asarray(y)
            y_pub = public.sum(axis=1)
            if "Logistic" in kind.__name__:
                y_pub = np.resize(np.unique(y)[:2], 60)
            return super().fit(X, y, X_pub=x_pub, y_pub=y_pub)

    # Pickles look for a class by its name in its module.
    Checked.__name__ = Checked.__qualname__ = f"Checked{kind.__name__}"
    return Checked


CHECKED = {kind: with_public_rows(kind) for kind in KINDS}
globals().update({checked.__name__: checked for checked in CHECKED.values()})


PRIVATE = "what a private cell or label holds never raises: it counts as missing"
FORM = "the error is one of this library, which names our arguments and never quotes a value"
NO_PUBLIC = "here the public rows are made up, and know nothing of the labels"
CLASSES = "the two classes are public; another private label counts as missing"
# By check: why it fails, and the start of what it fails with.
OTHER_WORDS = (
    r"AssertionError\('The error message should contain one of the following patterns:.*Got "
)
EXCUSED = {
    "check_complex_data": (FORM, OTHER_WORDS + "x_priv: rows must be real numbers"),
    "check_dtype_object": (PRIVATE, r"AssertionError\(.Did not raise: \[<class 'TypeError'>\]"),
    "check_estimators_empty_data_messages": (FORM, OTHER_WORDS + "x_priv: .*no columns"),
    "check_supervised_y_2d": (FORM, r"AssertionError\('expected 1 DataConversionWarning, got: '"),
    "check_fit2d_1sample": (FORM, OTHER_WORDS + "two classes are needed"),
    "check_classifier_not_supporting_multiclass": (CLASSES, "AssertionError.*The estimator tag `tags.classifier_tags.multi_class`"),
    "check_classifiers_regression_target": (CLASSES, "AssertionError.*When a classifier is passed a continuous target"),
    "check_supervised_y_no_nan": (PRIVATE, "AssertionError.*should have raised error on fitting array y with inf value"),
    "check_transformer_data_not_an_array": (FORM, r"InputError\('x_priv: a _NotAnArray is not read as rows"),
    "check_regressor_data_not_an_array": (FORM, r"InputError\('x_priv: a _NotAnArray is not read as rows"),
    "check_classifier_data_not_an_array": (FORM, r"InputError\('x_priv: a _NotAnArray is not read as rows"),
    "check_estimators_pickle": (
        "a row to score must be finite: it has no density otherwise", r"InputError\('rows must be finite",
    ),
    "check_fit1d": (
        "one column may be given as a one-dimensional array, as everywhere in the library",
        r"AssertionError\(.Did not raise: \[<class 'ValueError'>\]",
    ),
    "check_regressors_train": (NO_PUBLIC, r"AssertionError\(\)"),
    "check_class_weight_classifiers": (
        "weights of classes are at most a factor of 1000 apart, the check's ten million",
        r"InputError\('class_weight must not differ by more than a factor of 1000",
    ),
}  # fmt: skip
EXPECTED = {name: reason for name, (reason, _) in EXCUSED.items()}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_scikit_learns_own_checks(kind):
    estimator = CHECKED[kind](ZCDP(50), random_state=1)
    if kind is ours.PublicPrivateGaussianMixture:
        estimator.set_params(n_components=1, min_weight=0.9)
    found = check_estimator(estimator, expected_failed_checks=EXPECTED, on_fail=None, on_skip=None)

    def errors(status):
        items = [item for item in found if item["status"] == status]
        return {item["check_name"]: repr(item["exception"]) for item in items}

    assert errors("failed") == {}
    assert len(errors("passed")) > 25
    excused = errors("xfail")
    assert "check_complex_data" in excused
    for name, text in excused.items():
        _, words = EXCUSED[name]
        assert re.match(f"(?s:{words})", text), name


def test_what_is_stated_of_columns_reaches_the_fit():
    rows, label = table(3000)
    rows["month"] = np.arange(3000) % 3
    public = {"X_pub": rows[:200], "y_pub": label[:200], "weights_pub": np.arange(200) % 2}
    model = ours.SemiPrivateLinearRegression(
        BUDGET,
        random_state=1,
        categories={"month": "public"},
        x_bounds={"age": (-90.0, 170.0)},
        y_bounds=(-900.0, 900.0),
        y_scale=1.0,
    )
    model.fit(rows[200:], label[200:], **public)
    assert model.result_.n_pub == 100
    assert model.result_.provenance["scales"] == "argument and public rows"
    assert np.isnan(model.coef_).tolist() == [False, False, False, True]
    assert model.score(rows, label) > 0.9


def tall_or_short():
    rows, label = table(3000)
    return rows, np.where(label > label.mean() + 15, "tall", "short")


@pytest.mark.filterwarnings("ignore::fastpubpriv.errors.PrivacyWarning")
def test_a_class_of_larger_weight_is_predicted_more_often():
    rows, classes = tall_or_short()
    public = {"X_pub": rows[:200], "y_pub": classes[:200]}
    model = ours.SemiPrivateLogisticRegression(BUDGET, random_state=1)
    equal = model.fit(rows[200:], classes[200:], **public).predict_proba(rows)
    model.set_params(class_weight={"short": 1.0, "tall": 9.0})
    weighted = model.fit(rows[200:], classes[200:], **public).predict_proba(rows)
    assert weighted[:, 1].mean() > equal[:, 1].mean()


def test_weights_of_one_class_are_refused():
    rows, classes = tall_or_short()
    public = {"X_pub": rows[:200], "y_pub": classes[:200]}
    model = ours.SemiPrivateLogisticRegression(BUDGET, class_weight={"short": 1.0})
    raises(InputError, "short and tall", model.fit, rows[200:], classes[200:], **public)


@pytest.mark.filterwarnings("ignore::fastpubpriv.errors.PrivacyWarning")
@pytest.mark.parametrize("frames", [pd.DataFrame, pl.DataFrame, pl.LazyFrame])
@pytest.mark.parametrize("kind", ["Linear", "Logistic"])
def test_columns_of_text_are_fitted_and_predicted(kind, frames, tmp_path):
    """A carrier adds 0, 2 or -2 to the label, or to the log-odds of a class; the fit of a table is one debit."""
    rng = np.random.default_rng(0)
    carrier = rng.choice(["9E", "AA", "B6"], 4000)
    linear = rng.normal(size=4000) + 2.0 * (carrier == "AA") - 2.0 * (carrier == "B6")
    label = linear
    if kind == "Logistic":
        label = np.where(linear + rng.logistic(size=4000) > 0, "b", "a")
    x = rng.normal(size=4000)
    private = frames({"x": x[300:], "carrier": carrier[300:]})
    public = frames({"x": x[:300], "carrier": carrier[:300]})
    path = ledger_of(tmp_path, 1)
    stated = {"categories": ["carrier"], "reference": {"carrier": "9E"}, "ledger": path}
    model = getattr(ours, f"SemiPrivate{kind}Regression")(BUDGET, random_state=1, **stated)
    model.fit(private, label[300:], X_pub=public, y_pub=label[:300])
    assert len(entries_of(path)) == 1
    assert model.feature_names_in_.tolist() == ["x", "carrier"]
    assert model.result_.terms == ("x", "carrier=9E", "carrier=AA", "carrier=B6")
    scale = 1.0 if kind == "Linear" else 0.8  # log-odds about a normal error shrink
    found = model.result_.coefficients[1:]
    assert found == pytest.approx([0.0, 2.0 * scale, -2.0 * scale], abs=0.4), found
    rows = frames({"carrier": ["AA", "B6"], "x": [0.0, 0.0]})
    expected = pytest.approx([2.0, -2.0], abs=0.3) if kind == "Linear" else ["b", "a"]
    assert model.predict(rows).tolist() == expected


BAD = {
    "balanced": ("Logistic", {"class_weight": "balanced"}, {}, "would count the private labels"),
    "resampling": ("Logistic", {"class_weight": "smote"}, {}, "resampling is not offered"),
    "scales from private rows": ("Linear", {"x_bounds": "auto"}, {}, "would tell of them"),
    "a range of private labels": ("Linear", {"y_bounds": "auto"}, {}, "would tell of them"),
    "private weights without a cap": ("Linear", {}, {"weights_priv": np.ones(900)}, "needs weight_cap="),
    "a cap without weights": ("Logistic", {"weight_cap": 2.0}, {}, "belongs to weights_priv="),
    "weights of another length": (
        "Linear", {"weight_cap": 2.0}, {"weights_priv": np.ones(5), "weights_pub": np.ones(100)}, "each of the 900",
    ),
    "a class that is missing": ("Logistic", {"classes": [math.nan, 1.0]}, {}, "two classes are needed"),
    "three classes": ("Logistic", {"classes": [0, 1, 2]}, {}, "two classes are needed"),
    "a method of noisy gradients": ("Linear", {"method": "semi_dp"}, {}, "method must be one of"),
    "a level that public rows lack": (
        "Linear", {"categories": ["age"], "reference": {"age": 0.5}}, {}, "'age' that no public row has",
    ),
    "a reference without categories": ("Logistic", {"reference": {"age": 1.0}}, {}, "no categories"),
    "labels that are text": ("Linear", {}, {"y": np.full(900, "Alice")}, "real numbers"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_before_the_debit(name, tmp_path):
    kind, settings, changes, words = BAD[name]
    rows, label = table(1000)
    label = label if kind == "Linear" else (label > label.mean()).astype(float)
    path = ledger_of(tmp_path, 2)
    model = getattr(ours, f"SemiPrivate{kind}Regression")(BUDGET, ledger=path, **settings)
    given = {"y": label[100:], "X_pub": rows[:100], "y_pub": label[:100], **changes}
    with pytest.raises(InputError, match=words) as caught:
        model.fit(rows[100:], **given)
    assert "Alice" not in str(caught.value)
    assert not entries_of(path)


@pytest.mark.filterwarnings(
    "ignore::fastpubpriv.SeededNoiseWarning", "ignore::fastpubpriv.PrivacyWarning"
)
@pytest.mark.parametrize("frames", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("kind", ["Linear", "Logistic"])
def test_a_column_of_weights_is_named_in_place_of_its_numbers(kind, frames):
    """The same fit as by arrays, and the column is no feature."""
    rows, label = labeled(kind)
    weights = np.arange(3000) % 2.0
    cells = {"age": rows["age"], "w": weights, "height": rows["height"]}
    named = pd.DataFrame(cells).reset_index(drop=True)
    private = frames(named[200:].to_dict("list"))
    public = {"X_pub": frames(named[:200].to_dict("list")), "y_pub": label[:200]}
    model = weighted_model(kind)
    model.fit(private, label[200:], weights_pub="w", weights_priv="w", **public)
    assert model.feature_names_in_.tolist() == ["age", "height"]
    by_name = model.coef_
    of_arrays = {"weights_pub": weights[:200], "weights_priv": weights[200:]}
    features = rows[["age", "height"]]
    model.fit(features[200:], label[200:], X_pub=features[:200], y_pub=label[:200], **of_arrays)
    np.testing.assert_array_equal(model.coef_, by_name)
    missing = {"weights_pub": "w", "weights_priv": "v"}
    raises(InputError, "weights_priv.*'v'", model.fit, private, label[200:], **missing, **public)


def labeled(kind):
    """Rows, and labels for a linear or a logistic model."""
    rows, label = table(3000)
    if kind == "Logistic":
        label = (label > label.mean()).astype(float)
    return rows, label.to_numpy()


def weighted_model(kind):
    regression = getattr(ours, f"SemiPrivate{kind}Regression")
    return regression(BUDGET, random_state=1, weight_cap=1.0, method="newton")


@pytest.mark.filterwarnings("ignore::fastpubpriv.errors.PrivacyWarning")
@pytest.mark.parametrize("kind", ["Linear", "Logistic"])
def test_weights_of_private_rows_reach_the_fit(kind):
    """A weight of zero leaves a row out: labels of the rows that do not count may be anything."""
    rows, label = labeled(kind)
    weights = np.arange(3000) % 2.0
    public = {"X_pub": rows[:200], "y_pub": label[:200], "weights_pub": weights[:200]}
    other = np.where(weights == 0.0, 1.0 - label, label)
    model = weighted_model(kind)
    expected = model.fit(rows[200:], label[200:], weights_priv=weights[200:], **public).coef_
    found = model.fit(rows[200:], other[200:], weights_priv=weights[200:], **public).coef_
    np.testing.assert_array_equal(found, expected)


COLUMN = np.random.default_rng(4).normal(40.0, 10.0, size=4000)
FORMS = {
    "one-dimensional array": lambda x, folder: x,
    "list of numbers": lambda x, folder: x.tolist(),
    "list of lists": lambda x, folder: x[:, None].tolist(),
    "Series": lambda x, folder: pd.Series(x, name="age"),
    "Series without a name": lambda x, folder: pd.Series(x),
    "polars Series": lambda x, folder: pl.Series("age", x),
    "frame": lambda x, folder: pd.DataFrame({"age": x}),
    "LazyFrame": lambda x, folder: pl.LazyFrame({"age": x}),
    "Rows": lambda x, folder: private_rows(x),
    "path": lambda x, folder: written(x, folder),
}


NAMED_FORMS = "Series", "polars Series", "frame", "LazyFrame", "path"


def written(x, folder):
    pd.DataFrame({"age": x}).to_parquet(folder / "column.parquet")
    return str(folder / "column.parquet")


def answer(model, x):
    """What a fitted model says of rows."""
    for name in ("transform", "predict", "score_samples"):
        if hasattr(model, name):
            return np.asarray(getattr(model, name)(x)).ravel()
    raise AssertionError("nothing to ask for")


@pytest.mark.filterwarnings("ignore::fastpubpriv.errors.PrivacyWarning")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_every_form_are_fitted_and_asked_about(kind, form, tmp_path):
    """The same numbers as those of the array of one column."""
    label = np.where(COLUMN > 40.0, "yes", "no")
    if "Linear" in kind.__name__:
        label = COLUMN * 2.0 + 3.0
    public = {"X_pub": COLUMN[:100, None]}
    if "Regression" in kind.__name__:
        public["y_pub"] = label[:100]
    plain = made(kind).fit(COLUMN[100:, None], label[100:], **public)
    if form in NAMED_FORMS:
        public["X_pub"] = pd.DataFrame({"age": COLUMN[:100]})
    x = FORMS[form](COLUMN[100:], tmp_path)
    model = made(kind).fit(x, label[100:], **public)
    assert model.n_features_in_ == 1
    assert list(getattr(model, "feature_names_in_", ["age"])) == ["age"]
    assert hasattr(model, "feature_names_in_") == (form in NAMED_FORMS)
    np.testing.assert_array_equal(answer(model, x), answer(plain, COLUMN[100:, None]))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_one_column_of_every_form_is_fitted_and_predicted_for_one_debit(kind, form, tmp_path):
    label = np.where(COLUMN > 40.0, 1.0, 0.0)
    ledger = ledger_of(tmp_path, 10.0)
    labels = (label[100:],) if "Regression" in kind.__name__ else ()
    public = {"X_pub": pd.Series(COLUMN[:100]) if "Series" in form else COLUMN[:100, None]}
    if labels:
        public["y_pub"] = label[:100]
    x = FORMS[form](COLUMN[100:], tmp_path)
    model = made(kind).set_params(ledger=ledger).fit(x, *labels, **public)
    assert model.n_features_in_ == 1
    assert np.isfinite(answer(model, x)).all()
    assert len(entries_of(ledger)) == 1


@pytest.mark.filterwarnings("ignore::fastpubpriv.errors.PrivacyWarning")
def test_names_are_in_the_order_of_the_private_rows(tmp_path):
    rows, label = table()
    rows[100:].to_parquet(tmp_path / "rows.parquet")
    public = rows.loc[:99, ["income", "age", "height"]]
    model = made(ours.SemiPrivateLinearRegression).fit(
        str(tmp_path / "rows.parquet"), label[100:], X_pub=public, y_pub=label[:100]
    )
    assert model.feature_names_in_.tolist() == list(NAMES)
    np.testing.assert_allclose(model.coef_[:2], [2.0, -1.0], atol=0.1)  # of age and height


def test_the_number_of_columns_is_taken_from_the_public_rows_before_the_debit(monkeypatch):
    model = made(ours.SemiPrivateLinearRegression)
    found = []

    def noted(*_, **options):
        found.append(model.n_features_in_)

    monkeypatch.setattr(regressions, "linear_regression", noted)
    with pytest.raises(AttributeError):  # no result
        model.fit(pd.Series(COLUMN), COLUMN, X_pub=COLUMN[:100], y_pub=COLUMN[:100])
    assert found == [1]


def test_rows_with_other_columns_than_those_of_the_fit_are_refused():
    public = pd.DataFrame({"age": [40.0, 41.0]})
    model = made(ours.PublicPrivateScaler).fit(pd.Series(COLUMN, name="age"), X_pub=public)
    two_columns = private_rows(np.ones((5, 2)))
    words = "2 columns, and the rows of the fit had 1"
    raises(InputError, words, model.transform, two_columns)
    raises(InputError, "no column 'age'", model.transform, pl.LazyFrame({"height": [1.0]}))


def in_estimator(kind, rows, label):
    """The estimator with public rows of its own."""
    model = made(kind).set_params(X_pub=rows)
    if "Regression" in kind.__name__:
        model.set_params(y_pub=label)
    return model


@pytest.mark.filterwarnings("ignore::fastpubpriv.errors.PrivacyWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_public_rows_of_the_estimator_are_those_of_fit(kind):
    rows, label = table()
    if kind is ours.SemiPrivateLogisticRegression:
        label = np.where(label > label.mean(), "yes", "no")
    given = fitted(kind, *table())
    model = in_estimator(kind, rows[:100], label[:100]).fit(rows[100:], label[100:])
    np.testing.assert_array_equal(answer(model, rows), answer(given, rows))
    copy = clone(model)
    assert repr(copy.get_params()) == repr(model.get_params())
    assert copy.X_pub.equals(rows[:100])
    again = pickle.loads(pickle.dumps(copy)).fit(rows[100:], label[100:])
    np.testing.assert_array_equal(answer(again, rows), answer(given, rows))
    assert isinstance(repr(model), str)


@pytest.mark.parametrize("kind", KINDS)
def test_public_rows_in_both_places_are_refused_before_the_debit(kind, tmp_path):
    rows, label = table(500)
    label = (label > label.mean()).astype(float)
    path = ledger_of(tmp_path, 2)
    model = in_estimator(kind, rows[:100], label[:100]).set_params(ledger=path)
    raises(InputError, "the estimator has public rows", model.fit, rows, label, X_pub=rows[:50])
    assert not entries_of(path)
    if "Regression" in kind.__name__:
        raises(InputError, "X_pub= and y_pub=", model.fit, rows, label, y_pub=label[:50])
        assert not entries_of(path)


@pytest.mark.filterwarnings("ignore::fastpubpriv.errors.PrivacyWarning")
def test_searches_and_pipelines_need_no_routing_with_public_rows_of_the_estimator():
    rows, label = table(10_000)
    model = in_estimator(ours.SemiPrivateLinearRegression, rows[:200], label[:200])
    search = GridSearchCV(model, {"tails": ["any", "light"]}, cv=2, error_score="raise")
    search.fit(rows[200:], label[200:])
    assert search.best_estimator_.score(rows, label) > 0.98
    pipeline = make_pipeline(model).fit(rows[200:], label[200:])
    assert pipeline.score(rows, label) > 0.98
    scaler = in_estimator(ours.PublicPrivateScaler, rows[:200], None)
    scaled = make_pipeline(scaler, LinearRegression()).fit(rows[200:], label[200:])
    assert scaled.score(rows, label) > 0.98


def test_warnings_as_errors_spend_and_count_nothing(tmp_path):
    """The warning of a second fit comes before its debit, and the fit that it prevents is not counted."""
    rows, label = table(1000)
    fitted(ours.PublicPrivateGaussian, rows, label)
    for _ in range(2):
        with warnings.catch_warnings(action="error", category=PrivacyWarning):
            raises(PrivacyWarning, "fit number 2", fitted, ours.PublicPrivateGaussian, rows, label)
    assert purchases.budgets_without_ledger == [BUDGET]


@pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
@pytest.mark.parametrize("form", ["csv", "parquet", "lazy"])
def test_a_column_of_weights_in_a_file_is_no_feature(form, tmp_path):
    def given(rows, name):
        """The rows in this form."""
        if form == "lazy":
            return pl.DataFrame(rows).lazy()
        path = tmp_path / f"{name}.{form}"
        if form == "csv":
            rows.to_csv(path, index=False)
        else:
            rows.to_parquet(path)
        return str(path)

    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=2200), "w": rng.uniform(size=2200)})
    y = 2.0 * table["x"].to_numpy()
    private = given(table[200:], "private")
    public = {"X_pub": given(table[:200], "public"), "y_pub": y[:200]}
    model = ours.SemiPrivateLinearRegression(ZCDP(1.0), weight_cap=1.0, random_state=0)
    model.fit(private, y[200:], weights_priv="w", weights_pub="w", **public)
    assert model.coef_ == pytest.approx([2.0], abs=1e-3)


# ---- A PrivateTable in place of rows ---------------------------------------------------------------------------------


def bound_table(n=6000, **bound):
    """A table with a label in a column, and with persons of three rows each."""
    rows, label = table(n)
    rows = rows.assign(id=np.arange(n) // 3, cost=label)
    return PrivateTable(rows[200:], x_pub=rows[:200].drop(columns="id"), **bound)


def test_a_table_says_public_rows_ledger_and_persons():
    private = bound_table(total=ZCDP(2), person="id", keep="mean")
    model = ours.SemiPrivateLinearRegression(BUDGET).fit(private, "cost")
    assert np.abs(model.coef_ - [2.0, -1.0, 0.0]).max() < 0.1
    assert model.feature_names_in_.tolist() == list(NAMES)
    assert model.n_features_in_ == 3
    assert model.result_.relation.startswith("replace all rows of one person")
    assert private.spent == BUDGET.cost
    other = ours.PublicPrivateGaussian(BUDGET).fit(private)
    assert other.n_features_in_ == 4
    assert private.spent == (BUDGET + BUDGET).cost


def test_classes_of_a_table_are_those_of_its_public_rows():
    rows, label = table(6000)
    late = np.where(label > label.median(), "late", "in time")
    named = rows.assign(late=late)
    private = PrivateTable(named[300:], x_pub=named[:300], total=ZCDP(2))
    model = ours.SemiPrivateLogisticRegression(BUDGET).fit(private, "late")
    assert model.classes_.tolist() == ["in time", "late"]
    assert (model.predict(rows[300:]) == late[300:]).mean() > 0.95
    in_order = ours.SemiPrivateLogisticRegression(BUDGET, classes=("late", "in time"))
    in_order.fit(private, "late")
    assert in_order.classes_.tolist() == ["late", "in time"]
    assert (in_order.predict(rows[300:]) == late[300:]).mean() > 0.95


def test_a_fit_of_a_table_is_counted_by_its_ledger_alone(recwarn):
    private = bound_table(total=ZCDP(2), person="id", keep="mean")
    for _ in range(3):
        ours.PublicPrivateScaler(BUDGET).fit(private)
    assert purchases.budgets_without_ledger == []
    assert not [each for each in recwarn if "fit number" in str(each.message)]


def test_what_a_table_says_is_refused_beside_it(tmp_path):
    private = bound_table(total=ZCDP(2))
    rows, label = table(50)
    path = ledger_of(tmp_path, 1)
    linear = ours.SemiPrivateLinearRegression
    for model, given in (
        (ours.PublicPrivateScaler(BUDGET), {"X_pub": rows}),
        (ours.PublicPrivateScaler(BUDGET, X_pub=rows), {}),
        (ours.PublicPrivateScaler(BUDGET, ledger=path), {}),
        (linear(BUDGET), {"y": "cost", "y_pub": label}),
        (linear(BUDGET, y_pub=label), {"y": "cost"}),
    ):
        raises(InputError, "a PrivateTable has public rows", model.fit, private, **given)
    raises(InputError, "name of the column of labels", linear(BUDGET).fit, private, label)
    six = ours.SemiPrivatePCA(BUDGET, n_components=6)
    raises(InputError, "6 is more than the 5 columns", six.fit, private)
    assert private.spent.is_zero


def test_a_table_cannot_be_split():
    private = bound_table(total=ZCDP(2))
    words = "a PrivateTable has no rows to split: score with public rows"
    raises(TypeError, words, cross_val_score, ours.PublicPrivateGaussian(BUDGET), private)
    # scikit-learn asks for labels in an array first
    model = ours.SemiPrivateLinearRegression(BUDGET)
    raises((TypeError, ValueError), "'y' parameter", cross_val_score, model, private, "cost")
    assert private.spent.is_zero
