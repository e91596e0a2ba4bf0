"""Linear and logistic regression: accuracy against what is known, defaults on raw columns, and what is refused before the debit."""

import numpy as np
import pandas as pd
import pytest
from helpers.errors import raises
from spies import SpyLedger, SpyRows, refused, seeded

import fastpubpriv as fpp
from fastpubpriv import ZCDP, ApproxDP, PureDP, linear_regression, logistic_regression, train
from fastpubpriv.errors import AccuracyWarning, InputError
from fastpubpriv.regression.inputs import open_inputs
from fastpubpriv.results.models import DescentResult, TrainingResult
from fastpubpriv.training import SemiDP, huber_loss

BETA = np.array([1.0, 0.2, 0.03, 5.0, -2.0])
STRONG = ApproxDP(4, 1e-5)


def table(n, seed, *, noise=1.0):
    """Correlated columns of five sizes and shifts, with labels."""
    rng = np.random.default_rng(seed)
    mixing = np.eye(5) + 0.4 * np.tri(5)
    x = rng.normal(size=(n, 5)) @ mixing.T * [1.0, 10.0, 100.0, 0.1, 1.0] + [
        0.0,
        5.0,
        -300.0,
        2.0,
        1.0,
    ]
    return x, x @ BETA + 7.0 + noise * rng.normal(size=n)


def split(x, y, m):
    return {"x_priv": x[m:], "y_priv": y[m:], "x_pub": x[:m].copy(), "y_pub": y[:m].copy()}


def classes(n, seed):
    x, _ = table(n, seed)
    rng = np.random.default_rng(seed + 1)
    scores = (
        (x - [0.0, 5.0, -300.0, 2.0, 1.0])
        / [1.0, 10.0, 100.0, 0.1, 1.0]
        @ [1.0, -1.0, 0.5, 0.0, 0.3]
    )
    return x, (rng.random(n) < 1.0 / (1.0 + np.exp(-scores))).astype(float)


@pytest.mark.parametrize("budget", [STRONG, ZCDP(0.5), PureDP(4)], ids=str)
def test_coefficients_in_the_units_of_the_columns(budget):
    x, y = table(20_300, 1)
    result = seeded(linear_regression, **split(x, y, 300), budget=budget, method="newton")
    assert result.method == "newton"
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
    scores = (
        (new - [0.0, 5.0, -300.0, 2.0, 1.0])
        / [1.0, 10.0, 100.0, 0.1, 1.0]
        @ [1.0, -1.0, 0.5, 0.0, 0.3]
    )
    assert loss < np.mean(np.logaddexp(0.0, scores) - labels * scores) + 0.01
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
    private = frame.iloc[200:]
    public = frame.iloc[:200].copy()
    wanted = seeded(linear_regression, **split(x, y, 200), budget=STRONG)
    for given in (
        {"x_priv": private, "label": "y", "x_pub": public[["y", *names[::-1]]]},
        {
            "x_priv": private[names],
            "y_priv": private["y"],
            "x_pub": public[names[::-1]],
            "y_pub": public["y"],
        },
        {"x_priv": private.assign(t="text"), "label": "y", "columns": names, "x_pub": public},
    ):
        found = seeded(linear_regression, **given, budget=STRONG)
        np.testing.assert_array_equal(found.coefficients, wanted.coefficients)
        assert found.columns == tuple(names)
        np.testing.assert_array_equal(
            found.predict(private[["e", "d", "c", "b", "a"]]), wanted.predict(x[200:])
        )


def test_categories_and_other_levels():
    rng = np.random.default_rng(6)
    month = rng.integers(1, 5, 6000).astype(float)
    x = np.column_stack([rng.normal(size=6000), month])
    y = x[:, 0] + np.array([0.0, 3.0, -1.0, 5.0])[month.astype(int) - 1] + rng.normal(size=6000)
    x[500:520, 1] = [99.0, np.nan] * 10  # levels that only private rows have
    result = seeded(
        linear_regression, **split(x, y, 300), budget=STRONG, categories={"x1": "public"}
    )
    assert result.terms == ("x0", "x1=1", "x1=2", "x1=3", "x1=4")
    effects = result.predict([[0.0, level] for level in (1, 2, 3, 4)])
    assert effects == pytest.approx([0.0, 3.0, -1.0, 5.0], abs=0.25)
    # About the public mean, and another level is the mean itself.
    assert result.predict([[0.0, 77.0]])[0] == pytest.approx(result.intercept)
    listed = seeded(
        linear_regression, **split(x, y, 300), budget=STRONG, categories={"x1": [1, 2, 3, 4]}
    )
    np.testing.assert_array_equal(listed.coefficients, result.coefficients)
    assert (
        TrainingResult.from_json(result.to_json()).predict(x[:9]).tolist()
        == result.predict(x[:9]).tolist()
    )


def test_a_list_of_categories_has_those_of_the_public_rows():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=3000), "c": np.resize(["x", "y", "z"], 3000)})
    frame["y"] = frame["a"] + 2.0 * (frame["c"] == "z")
    public = frame.iloc[:300]
    private = frame.iloc[300:].copy()
    for names in (["c"], ("c",)):
        listed, mapped = (
            seeded(
                linear_regression,
                private,
                x_pub=public,
                label="y",
                budget=STRONG,
                categories=categories,
            )
            for categories in (names, {"c": "public"})
        )
        assert listed.terms == mapped.terms
        assert np.array_equal(listed.coefficients, mapped.coefficients)
        assert listed.coefficients[listed.terms.index("c=z")] - listed.coefficients[
            listed.terms.index("c=x")
        ] == pytest.approx(2.0, abs=0.05)


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
    found = seeded(
        linear_regression, **split(x, y, 200), budget=STRONG, method="newton", max_memory=1000
    )
    np.testing.assert_array_equal(found.coefficients, wanted.coefficients)
    monkeypatch.setattr("fastpubpriv.regression.coordinates.KEPT_BYTES", 1000)
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
        seeded(
            linear_regression,
            rows,
            label=-1,
            x_pub=public,
            budget=STRONG,
            method="newton",
            max_memory=most,
        )
        reads[n] = len(passes)
    assert reads[1000] == 1
    assert reads[1001] > 1


def test_a_drift_of_the_public_rows_is_seen_and_discounted():
    rng = np.random.default_rng(10)
    x = rng.normal(size=(20_500, 20))
    beta = rng.normal(size=20) / np.sqrt(20)
    moved = beta + 3.0 * np.eye(20)[0]
    y = np.where(np.arange(20_500) < 500, x @ moved, x @ beta) + rng.normal(size=20_500)
    result = seeded(
        linear_regression, **split(x, y, 500), budget=ApproxDP(1, 1e-5), method="newton"
    )
    assert result.public_drift > 5.0
    assert np.sum((result.coefficients - beta) ** 2) < 0.1
    assert "disagree" in result.summary()
    agreed = seeded(
        linear_regression,
        **split(x, x @ beta + rng.normal(size=20_500), 500),
        budget=ApproxDP(1, 1e-5),
    )
    assert agreed.public_drift == 1.0


def test_few_public_rows_of_many_constant_or_repeated_columns():
    x, y = table(3300, 11)
    x = np.column_stack([x, np.full(len(x), 4.0), x[:, 0]])
    result = seeded(linear_regression, **split(x, y, 300), budget=STRONG)
    assert result.terms == ("x0", "x1", "x2", "x3", "x4", "x5", "x6")
    assert result.coefficients[0] + result.coefficients[6] == pytest.approx(1.0, abs=0.2)
    assert np.isnan(result.coefficients).tolist() == [False] * 5 + [True, False]
    assert np.isfinite(result.predict(x[:1])).all()
    # Few public rows of many columns.
    rng = np.random.default_rng(12)
    x = rng.normal(size=(20_060, 40))
    beta = rng.normal(size=40) / np.sqrt(40)
    y = x @ beta + rng.normal(size=20_060)
    result = seeded(linear_regression, **split(x, y, 30), budget=STRONG)
    assert (
        np.sum((result.coefficients - beta) ** 2)
        < 0.05
        < np.sum((result.public_coefficients - beta) ** 2)
    )


X, Y = table(600, 13)
GOOD = split(X, Y, 100)


@pytest.mark.parametrize(("changes", "words"), [
    ({"x_pub": np.zeros((100, 5))}, "no column varies"),
    ({"x_pub": GOOD["x_pub"][:1], "y_pub": GOOD["y_pub"][:1]}, "at least 2 public rows"),
    ({"x_pub": GOOD["x_pub"][:, :4]}, "4 columns"), ({"categories": {"z": "public"}}, "'z'"),
    ({"categories": {"x0": "private"}}, "'public'"), ({"categories": {"x0": []}}, "x0"),
    ({"y_scale": -1.0}, "y_scale"),
], ids=lambda part: part if isinstance(part, str) else "")  # fmt: skip
def test_what_is_refused_before_the_debit(changes, words):
    refused(linear_regression, words, **{**GOOD, "budget": ZCDP(1), **changes})


def test_classes_in_another_order_and_one_that_no_public_row_has():
    x, y = classes(600, 1)
    good = {**split(x, y, 100), "budget": ZCDP(1)}
    good["budget"] = ZCDP(100)
    result = seeded(logistic_regression, **{**good, "classes": [1, 0]}, method="newton")
    other = seeded(logistic_regression, **good, method="newton")
    np.testing.assert_allclose(result.predict_proba(x)[:, ::-1], other.predict_proba(x), atol=0.2)
    # A class that no public row has: the public fit knows nothing of it.
    alone = seeded(
        logistic_regression, **{**good, "y_pub": np.zeros(100), "classes": [0, 1]}, method="newton"
    )
    assert np.isfinite(alone.coefficients).all()


def test_train_is_what_the_others_call_and_warns_of_harm():
    x, y = table(1040, 4)
    of_result = pytest.warns(
        AccuracyWarning, match=r"linear_regression: unresolved .*: intercept, x0"
    )
    with of_result, pytest.warns(AccuracyWarning, match="method='throw_away'"):
        linear_regression(**split(x, y, 1000), budget=ZCDP(0.001), method="newton")
    # Train is what the others call.
    for loss, function, data in (
        ("squared", linear_regression, (X, Y)),
        ("logistic", logistic_regression, classes(600, 2)),
    ):
        given = {**split(*data, 100), "budget": STRONG, "method": "newton"}
        found = seeded(train, **given, loss=loss)
        wanted = seeded(function, **given)
        np.testing.assert_array_equal(found.coefficients, wanted.coefficients)


def test_the_result():
    result = seeded(linear_regression, **GOOD, budget=STRONG, method="newton")
    assert TrainingResult.from_json(result.to_json()).to_dict() == result.to_dict()
    assert result.to_frame().shape[0] == 6
    lower, upper = result.confidence_interval(0.5)
    assert np.all(lower < result.coefficients)
    assert np.all(result.coefficients < upper)
    assert 0.0 < result.privacy_share < 1.0
    assert result.releases[0]["name"] == "gradient, step 1"
    raises(InputError, "classes", result.predict_proba, X)
    of_classes = seeded(logistic_regression, **split(*classes(600, 2), 100), budget=STRONG)
    raises(InputError, "numbers", of_classes.prediction_interval, X)
    text = result.to_json().replace('"source": [', '"source": [1, ')
    raises(InputError, None, TrainingResult.from_json, text)


def test_rows_without_a_label_make_no_term():
    """Cells that are missing only where the label is missing too say nothing: no coefficient is made up for them."""
    x, y = table(3000, 5)
    gone = np.arange(len(y)) % 10 == 3
    x[gone, 0], y[gone] = np.nan, np.nan
    for method in ("newton", "semi_dp"):
        result = seeded(train, **split(x, y, 300), loss="squared", budget=STRONG, method=method)
        assert list(result.terms) == [f"x{j}" for j in range(x.shape[1])]


# ---- Columns and labels of text in training: the same bits as codes from every source, private surprises, and what is refused.
CARRIERS = ("AA", "B6", "DL")
PUBLIC = 300


def flights(n=6300):
    """Delay by carrier and distance; whether it is late, in words."""
    rng = np.random.default_rng(0)
    code = rng.integers(0, 3, n)
    distance = rng.normal(size=n)
    delay = np.array([0.0, 3.0, -2.0])[code] + distance + rng.normal(size=n)
    frame = pd.DataFrame(
        {"carrier": np.array(CARRIERS, dtype=object)[code], "distance": distance, "delay": delay}
    )
    frame["late"] = np.where(delay > 0.0, "late", "on time").astype(object)
    return frame, code


FRAME, CODE = flights()
WANTED = {"budget": STRONG, "method": "newton"}


def sides(frame, columns):
    private = frame[columns].iloc[PUBLIC:]
    public = frame[columns].iloc[:PUBLIC].copy()
    # Levels that the list does not have, a missing one, and cells of other types.
    strange = ["ZZ", None, 7.0, "aa", ["a list"], object()]
    private = private.reset_index(drop=True)
    private["carrier"] = pd.Series(
        [*strange, *private["carrier"].iloc[len(strange) :]], dtype=object
    )
    return private, public


def coded(frame):
    found = frame.copy()
    places = {name: float(index) for index, name in enumerate(CARRIERS)}
    found["carrier"] = [
        places.get(cell, np.nan) if isinstance(cell, str) else np.nan for cell in frame["carrier"]
    ]
    return found.astype(float)


def test_text_gives_the_bits_of_its_codes():
    private, public = sides(FRAME, ["carrier", "distance", "delay"])
    given = {"label": "delay", **WANTED}
    result = seeded(
        linear_regression, private, x_pub=public, categories={"carrier": list(CARRIERS)}, **given
    )
    plain = seeded(
        linear_regression,
        coded(private),
        x_pub=coded(public),
        categories={"carrier": [0, 1, 2]},
        **given,
    )
    np.testing.assert_array_equal(result.coefficients, plain.coefficients)
    assert result.terms == ("carrier=AA", "carrier=B6", "carrier=DL", "distance")
    assert result.coefficients[:3] == pytest.approx(np.array([0.0, 3.0, -2.0]) - 1.0 / 3.0, abs=0.2)
    same = seeded(
        linear_regression, private, x_pub=public, categories={"carrier": "public"}, **given
    )
    np.testing.assert_array_equal(same.coefficients, result.coefficients)
    np.testing.assert_array_equal(
        result.predict(private.drop(columns="delay")),
        plain.predict(coded(private)[["carrier", "distance"]]),
    )
    listed = private[["carrier", "distance"]].to_numpy()
    np.testing.assert_array_equal(
        result.predict(listed), result.predict(private[["carrier", "distance"]])
    )
    again = TrainingResult.from_json(result.to_json())
    np.testing.assert_array_equal(
        again.predict(private[["distance", "carrier"]]), result.predict(listed)
    )


def forms(frame, folder):
    """The same rows in every form that a table may have."""
    polars = pytest.importorskip("polars")
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    texts = frame.copy()
    texts["carrier"] = [cell if isinstance(cell, str) else None for cell in frame["carrier"]]
    table = pa.Table.from_pandas(texts, preserve_index=False)
    pq.write_table(table, folder / "rows.parquet")
    texts.to_csv(folder / "rows.csv", index=False)
    pl = polars.from_arrow(table)
    yield "objects", frame
    yield "category", texts.astype({"carrier": "category"})
    yield "string", texts.astype({"carrier": "string"})
    yield "arrow string", texts.astype({"carrier": pd.ArrowDtype(pa.string())})
    yield "polars", pl
    yield "polars category", pl.with_columns(polars.col("carrier").cast(polars.Categorical))
    yield "polars lazy", pl.lazy()
    yield "arrow", table
    yield "arrow dictionary", table.set_column(0, "carrier", table["carrier"].dictionary_encode())
    yield "dask", pytest.importorskip("dask.dataframe").from_pandas(texts, npartitions=3)
    yield "parquet", str(folder / "rows.parquet")
    yield "csv", str(folder / "rows.csv")


def test_every_source_of_text_gives_the_same_bits(tmp_path):
    private, public = sides(FRAME.iloc[:1500], ["carrier", "distance", "late"])
    stated = {"categories": {"carrier": "public"}}
    given = {"y_pub": None, "label": "late", "columns": None, **stated}
    rows, table, found = open_inputs(
        "train", private, None, {**given, "x_pub": public}, classes=True
    )
    assert found.texts == {"carrier": CARRIERS}
    assert found.class_names == ("late", "on time")
    held = np.concatenate(list(rows.chunks()))
    assert np.isnan(held[:6, 0]).all()
    (tmp_path / "public").mkdir()
    for (name, one), (_, other) in zip(
        forms(private, tmp_path), forms(public, tmp_path / "public"), strict=True
    ):
        rows, again, found = open_inputs(
            "train", one, None, {**given, "x_pub": other}, classes=True
        )
        np.testing.assert_array_equal(
            np.concatenate(list(rows.chunks(chunk_rows=7))), held, err_msg=name
        )
        np.testing.assert_array_equal(again, table, err_msg=name)
        assert found.class_names == ("late", "on time")
    wanted = seeded(logistic_regression, private, x_pub=public, label="late", **stated, **WANTED)
    labels = wanted.predict(private[["carrier", "distance"]]).tolist()
    for name, rows in forms(private[["carrier", "distance"]], tmp_path):
        assert wanted.predict(rows).tolist() == labels, name


def test_classes_that_are_texts():
    x = FRAME[["distance"]].assign(b6=(CODE == 1).astype(float)).to_numpy()
    labels = FRAME["late"].to_numpy()
    labels = np.where(
        np.arange(len(labels)) == PUBLIC + 3, "a class of a private row", labels
    ).astype(object)
    number = np.where(labels == "late", 0.0, np.where(labels == "on time", 1.0, np.nan))
    given = {"x_priv": x[PUBLIC:], "x_pub": x[:PUBLIC].copy(), **WANTED}
    wanted = seeded(
        logistic_regression, y_priv=number[PUBLIC:], y_pub=number[:PUBLIC].copy(), **given
    )
    for form in (list, np.array, pd.Series, lambda each: pd.Series(each, name=0).to_frame()):
        y = {"y_priv": form(labels[PUBLIC:]), "y_pub": form(labels[:PUBLIC].copy())}
        result = seeded(logistic_regression, **y, **given)
        np.testing.assert_array_equal(result.coefficients, wanted.coefficients)
    assert result.classes.tolist() == [0.0, 1.0]
    assert result.design["classes"] == ("late", "on time")
    found = result.predict([[1.0, 1.0], [-3.0, 0.0], [np.nan, 0.0]])
    assert found.tolist() == ["late", "on time", None]
    assert TrainingResult.from_json(result.to_json()).predict([[1.0, 1.0]]).tolist() == ["late"]
    # In the order of the list, the second class is the one whose odds are modeled.
    turned = seeded(
        logistic_regression,
        **y,
        **given,
        classes=["on time", "late"],
        class_weight={"on time": 1, "late": 1},
    )
    assert np.sign(turned.coefficients[0]) == -np.sign(result.coefficients[0])
    assert turned.predict([[1.0, 1.0]]).tolist() == ["late"]


def test_several_classes_that_are_texts():
    frame = FRAME.assign(carrier=FRAME["carrier"])
    private = frame.iloc[PUBLIC:2000][["delay", "carrier"]]
    public = frame.iloc[:PUBLIC][["delay", "carrier"]].copy()
    result = seeded(
        train,
        private,
        x_pub=public,
        label="carrier",
        loss="softmax",
        budget=STRONG,
        method=SemiDP(steps=8),
    )
    assert result.design["classes"] == CARRIERS
    found = result.predict(pd.DataFrame({"delay": [8.0, -8.0, np.nan]}))
    assert found.tolist() == ["B6", "DL", None]
    assert "class B6" in result.summary()
    assert DescentResult.from_json(result.to_json()).predict([[8.0]]).tolist() == ["B6"]


@pytest.mark.parametrize(("changes", "words"), [
    ({"categories": {"carrier": ["AA", 1]}}, "of numbers or of texts"),
    ({"categories": {"carrier": ["AA", " "]}}, "none of them empty"),
    ({"categories": {"carrier": "all"}}, "or 'public'"),
    ({"categories": {"carrier": "public", "distance": ["AA"]}}, "is not text"),
    ({"categories": None}, "name a column of text in categories="), ({"columns": True}, "columns must be a name"),
    ({"categories": {"carrier": [f"c{k}" for k in range(1001)]}}, "at most 1000"),
    ({"label": "late", "columns": ["carrier", "distance"], "classes": ["late", 1]}, "not of both"),
    ({"label": "late", "columns": ["carrier", "distance"], "classes": ["late"]}, "classes"),
    ({"label": "late", "columns": ["carrier", "distance"], "class_weight": {0: 1, 1: 2}}, "'late', 'on time'"),
])  # fmt: skip
def test_what_is_refused_before_the_debit_of_texts(changes, words):
    given = {
        "label": "delay",
        "columns": ["carrier", "distance"],
        "categories": {"carrier": "public"},
        **changes,
    }
    given["loss"] = "logistic" if given["label"] == "late" else "squared"
    refused(
        train, words, FRAME.iloc[PUBLIC:], x_pub=FRAME.iloc[:PUBLIC].copy(), budget=STRONG, **given
    )


def test_private_text_is_not_quoted():
    private = pd.DataFrame({"carrier": ["Alice-SSN-123"] * 50, "y": np.arange(50.0)})
    public = pd.DataFrame({"carrier": [1.0, 2.0] * 25, "y": np.arange(50.0)})
    given = {"x_pub": public, "label": "y", "budget": STRONG, "categories": {"carrier": "public"}}
    assert "Alice" not in str(raises(InputError, None, linear_regression, private, **given))


@pytest.mark.parametrize("method", ["auto", "throw_away"])
def test_coefficients_of_two_categories_without_noise_in_the_labels(method):
    # Coefficients of categories sum to zero, so that the map to them has no inverse.
    rng = np.random.default_rng(0)
    public, private = (
        pd.DataFrame({"x": rng.normal(size=n), "t": ["a", "b"] * (n // 2)}) for n in (40, 2000)
    )
    for table in (private, public):
        table["y"] = 2.0 * table["x"] + (table["t"] == "a")
    given = {
        "x_pub": public,
        "label": "y",
        "categories": {"t": "public"},
        "loss": "squared",
        "method": method,
    }
    result = seeded(train, private, **given, budget=ZCDP(1.0))
    np.testing.assert_allclose(result.coefficients, [2.0, 0.5, -0.5], atol=1e-4)


def test_an_exact_fit_of_long_tailed_columns_has_finite_coefficients_and_no_negative_variance():
    rng = np.random.default_rng(154)
    public = pd.DataFrame(
        {"x": rng.standard_cauchy(40) ** 3, "rare": np.arange(40) == 0, "t": list("abcdefgh") * 5}
    )
    public["y"] = 2.0 * public["x"]
    given = {
        "x_pub": public,
        "label": "y",
        "categories": {"t": "public"},
        "loss": "squared",
        "method": "throw_away",
    }
    result = seeded(train, public.sample(30, random_state=1), **given, budget=ZCDP(1.0))
    assert result.public_coefficients[0] == pytest.approx(2.0)
    assert np.diag(result.public_covariance).min() >= 0.0


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize("threshold", [0.05, 1e6])
def test_thresholds_of_the_huber_loss_that_clip_nearly_all_residuals_or_none(threshold):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2040, 2))
    y = 3.0 * x[:, 0] + rng.normal(size=2040)
    given = {
        "y_priv": y[40:],
        "x_pub": x[:40],
        "y_pub": y[:40].copy(),
        "loss": huber_loss(threshold),
    }
    result = seeded(train, x[40:], **given, budget=ZCDP(1e4), method="newton")
    low, high = result.confidence_interval()
    assert low[0] <= 3.0 <= high[0]


@pytest.mark.parametrize("threshold", [1e-300, 1e-3, 1e300])
def test_thresholds_that_clip_all_residuals_or_overflow_are_refused(threshold):
    raises(InputError, "between 0.05 and 1e[+]06", huber_loss, threshold)


def test_a_column_too_small_for_the_variance_of_its_coefficient_is_refused_before_the_debit():
    rng = np.random.default_rng(0)
    public = pd.DataFrame({"x": rng.normal(size=40), "tiny": 1e-140 * rng.normal(size=40)})
    public["y"] = 1e20 * public["x"]
    refused(
        linear_regression,
        "'tiny' differ by about .*change a unit",
        public + 0.0,
        x_pub=public,
        label="y",
        budget=STRONG,
    )


def test_effective_numbers_of_rows_of_a_tiny_column():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 1))
    given = {"y_priv": x[200:, 0], "y_pub": x[:200, 0].copy(), "budget": STRONG}
    small = seeded(linear_regression, 1e-130 * x[200:], x_pub=1e-130 * x[:200], **given)
    plain = seeded(linear_regression, x[200:], x_pub=x[:200].copy(), **given)
    np.testing.assert_allclose(small.rows_behind, plain.rows_behind, rtol=1e-6)
