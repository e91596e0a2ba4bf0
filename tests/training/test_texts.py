"""Columns and labels of text in training: the same bits as codes from every source, private surprises, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from spies import SpyLedger, seeded

import fastpubpriv as fpp
from fastpubpriv import ApproxDP, InputError, linear_regression, logistic_regression, train
from fastpubpriv.results.descent import DescentResult
from fastpubpriv.results.training import TrainingResult
from fastpubpriv.sources import Rows
from fastpubpriv.sources.readers.texts import TextColumns
from fastpubpriv.training import SemiDP
from fastpubpriv.training.opened import opened
from fastpubpriv.training.stated import Stated

STRONG = ApproxDP(4, 1e-5)
CARRIERS = ("AA", "B6", "DL")
PUBLIC = 300


def flights(n=6300):
    """Delay by carrier and distance; whether it is late, in words."""
    rng = np.random.default_rng(0)
    code = rng.integers(0, 3, n)
    distance = rng.normal(size=n)
    delay = np.array([0.0, 3.0, -2.0])[code] + distance + rng.normal(size=n)
    frame = pd.DataFrame({"carrier": np.array(CARRIERS, dtype=object)[code], "distance": distance, "delay": delay})
    frame["late"] = np.where(delay > 0.0, "late", "on time").astype(object)
    return frame, code


FRAME, CODE = flights()
WANTED = {"budget": STRONG, "method": "newton"}


def sides(frame, columns):
    private, public = frame[columns].iloc[PUBLIC:], frame[columns].iloc[:PUBLIC].copy()
    # Levels that the list does not have, a missing one, and cells of other types.
    strange = ["ZZ", None, 7.0, "aa", ["a list"], object()]
    private = private.reset_index(drop=True)
    private["carrier"] = pd.Series([*strange, *private["carrier"].iloc[len(strange) :]], dtype=object)
    return private, public


def coded(frame):
    found = frame.copy()
    places = {name: float(index) for index, name in enumerate(CARRIERS)}
    found["carrier"] = [places.get(cell, np.nan) if isinstance(cell, str) else np.nan for cell in frame["carrier"]]
    return found.astype(float)


def test_text_gives_the_bits_of_its_codes():
    private, public = sides(FRAME, ["carrier", "distance", "delay"])
    given = {"label": "delay", **WANTED}
    result = seeded(linear_regression, private, x_pub=public, categories={"carrier": list(CARRIERS)}, **given)
    plain = seeded(linear_regression, coded(private), x_pub=coded(public), categories={"carrier": [0, 1, 2]}, **given)
    np.testing.assert_array_equal(result.coefficients, plain.coefficients)
    assert result.terms == ("carrier=AA", "carrier=B6", "carrier=DL", "distance")
    assert result.coefficients[:3] == pytest.approx(np.array([0.0, 3.0, -2.0]) - 1.0 / 3.0, abs=0.2)
    same = seeded(linear_regression, private, x_pub=public, categories={"carrier": "public"}, **given)
    np.testing.assert_array_equal(same.coefficients, result.coefficients)
    np.testing.assert_array_equal(
        result.predict(private.drop(columns="delay")), plain.predict(coded(private)[["carrier", "distance"]])
    )
    listed = private[["carrier", "distance"]].to_numpy()
    np.testing.assert_array_equal(result.predict(listed), result.predict(private[["carrier", "distance"]]))
    again = TrainingResult.from_json(result.to_json())
    np.testing.assert_array_equal(again.predict(private[["distance", "carrier"]]), result.predict(listed))


def forms(frame, folder):
    """The same rows in every form that a table may have."""
    polars, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
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
    stated, given = Stated(categories={"carrier": "public"}), {"label": "late", "columns": None, "classes": True}
    rows, table, found = opened("train", private, None, public, None, stated=stated, **given)
    assert found.texts == {"carrier": CARRIERS}
    assert found.class_names == ("late", "on time")
    held = np.concatenate(list(rows.chunks()))
    assert np.isnan(held[:6, 0]).all()
    (tmp_path / "public").mkdir()
    for (name, one), (_, other) in zip(forms(private, tmp_path), forms(public, tmp_path / "public"), strict=True):
        rows, again, found = opened("train", one, None, other, None, stated=stated, **given)
        np.testing.assert_array_equal(np.concatenate(list(rows.chunks(chunk_rows=7))), held, err_msg=name)
        np.testing.assert_array_equal(again, table, err_msg=name)
        assert found.class_names == ("late", "on time")
    wanted = seeded(logistic_regression, private, x_pub=public, label="late", categories=stated.categories, **WANTED)
    labels = wanted.predict(private[["carrier", "distance"]]).tolist()
    for name, rows in forms(private[["carrier", "distance"]], tmp_path):
        assert wanted.predict(rows).tolist() == labels, name


def test_a_replaced_cell_changes_its_row_alone(tmp_path):
    base = ["AA"] * 9
    for cell in ["ZZ", "", '"', 'A"A', "AA,", " AA ", "AA\t", "\xff", "A" * 5000, "1", "nan", "é"]:
        lines = [f"{one},1" for one in base]
        lines[4] = f"{cell},1"
        path = tmp_path / "rows.csv"
        path.write_bytes(("carrier,x\n" + "\n".join(lines) + "\n").encode("latin-1" if cell == "\xff" else "utf-8"))
        rows = Rows.from_csv(path, TextColumns(["carrier", "x"], {"carrier": CARRIERS}))
        found = np.concatenate(list(rows.chunks()))
        assert rows.n == 9
        np.testing.assert_array_equal(np.delete(found[:, 0], 4), np.zeros(8))
        assert found[4, 0] == 0.0 if cell.strip() == "AA" else np.isnan(found[4, 0])


def test_classes_that_are_texts():
    x = FRAME[["distance"]].assign(b6=(CODE == 1).astype(float)).to_numpy()
    labels = FRAME["late"].to_numpy()
    labels = np.where(np.arange(len(labels)) == PUBLIC + 3, "a class of a private row", labels).astype(object)
    number = np.where(labels == "late", 0.0, np.where(labels == "on time", 1.0, np.nan))
    given = {"x_priv": x[PUBLIC:], "x_pub": x[:PUBLIC].copy(), **WANTED}
    wanted = seeded(logistic_regression, y_priv=number[PUBLIC:], y_pub=number[:PUBLIC].copy(), **given)
    for form in (list, np.array, pd.Series, lambda each: pd.Series(each, name=0).to_frame()):
        y = {"y_priv": form(labels[PUBLIC:]), "y_pub": form(labels[:PUBLIC].copy())}
        result = seeded(logistic_regression, **y, **given)
        np.testing.assert_array_equal(result.coefficients, wanted.coefficients)
    assert result.classes.tolist() == [0.0, 1.0]
    assert result.design["classes"] == ("late", "on time")
    found = result.predict([[1.0, 1.0], [-3.0, 0.0], [np.nan, 0.0]])
    assert found.tolist() == ["late", "on time", None]
    assert TrainingResult.from_json(result.to_json()).predict([[1.0, 1.0]]).tolist() == ["late"]
    # In the order of the list, the second class is the one whose odds are modelled.
    turned = seeded(
        logistic_regression, **y, **given, classes=["on time", "late"], class_weight={"on time": 1, "late": 1}
    )
    assert np.sign(turned.coefficients[0]) == -np.sign(result.coefficients[0])
    assert turned.predict([[1.0, 1.0]]).tolist() == ["late"]


def test_several_classes_that_are_texts():
    frame = FRAME.assign(carrier=FRAME["carrier"])
    private, public = frame.iloc[PUBLIC:2000][["delay", "carrier"]], frame.iloc[:PUBLIC][["delay", "carrier"]].copy()
    result = seeded(
        train, private, x_pub=public, label="carrier", loss="softmax", budget=STRONG, method=SemiDP(steps=8)
    )
    assert result.design["classes"] == CARRIERS
    found = result.predict(pd.DataFrame({"delay": [8.0, -8.0, np.nan]}))
    assert found.tolist() == ["B6", "DL", None]
    assert "class B6" in result.summary()
    assert DescentResult.from_json(result.to_json()).predict([[8.0]]).tolist() == ["B6"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"categories": {"carrier": ["AA", 1]}}, "of numbers or of texts"),
        ({"categories": {"carrier": ["AA", " "]}}, "none of them empty"),
        ({"categories": {"carrier": "all"}}, "or 'public'"),
        ({"categories": {"carrier": "public", "distance": ["AA"]}}, "is not text"),
        ({"categories": None}, "name a column of text in categories="),
        ({"categories": {"carrier": [f"c{k}" for k in range(1001)]}}, "at most 1000"),
        ({"label": "late", "columns": ["carrier", "distance"], "classes": ["late", 1]}, "not of both"),
        ({"label": "late", "columns": ["carrier", "distance"], "classes": ["late"]}, "classes"),
        ({"label": "late", "columns": ["carrier", "distance"], "class_weight": {0: 1, 1: 2}}, "'late', 'on time'"),
    ],
)
def test_what_is_refused_before_the_debit(changes, words):
    frame = FRAME[["carrier", "distance", "delay", "late"]]
    log = []
    given = {"label": "delay", "columns": ["carrier", "distance"], "categories": {"carrier": "public"}, **changes}
    if given["label"] == "late":
        given["loss"] = "logistic"
    else:
        given["loss"] = "squared"
    with pytest.raises(InputError, match=words):
        train(
            frame.iloc[PUBLIC:],
            x_pub=frame.iloc[:PUBLIC].copy(),
            budget=STRONG,
            ledger=SpyLedger(fpp.ZCDP(5), log),
            **given,
        )
    assert log == []


def test_private_text_is_not_quoted():
    private = pd.DataFrame({"carrier": ["Alice-SSN-123"] * 50, "y": np.arange(50.0)})
    public = pd.DataFrame({"carrier": [1.0, 2.0] * 25, "y": np.arange(50.0)})
    with pytest.raises(InputError) as caught:
        linear_regression(private, x_pub=public, label="y", budget=STRONG, categories={"carrier": "public"})
    assert "Alice" not in str(caught.value)
