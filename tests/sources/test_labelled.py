"""Features and labels side by side: the forms that are taken, the order of columns, and what is refused."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fastpubpriv import InputError, Rows
from fastpubpriv.sources.labelled import labelled_rows, public_labelled

X = np.arange(24.0).reshape(8, 3)
Y = np.arange(8.0) * 100.0
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=Y)
BOTH = np.column_stack([X, Y])


def everything(rows, chunk_rows=None):
    return np.concatenate(list(rows.chunks(chunk_rows=chunk_rows)))


def streamed(array, pieces):
    return Rows.from_chunks(lambda: np.array_split(array, pieces), n=len(array), dim=array.shape[1])


@pytest.mark.parametrize(
    "labels",
    [Y, Y.tolist(), Y[:, None], pd.Series(Y), pl.Series(Y), pd.DataFrame({"y": Y}), Y.astype(np.int32), Y.astype(np.float32)],
    ids=["array", "list", "column", "pandas", "polars", "frame", "int32", "float32"],
)  # fmt: skip
def test_forms_of_labels(labels):
    rows = labelled_rows(X, labels, label=None, columns=None)
    assert (rows.n, rows.dim) == (8, 4)
    np.testing.assert_array_equal(everything(rows), BOTH)
    np.testing.assert_array_equal(everything(rows, 3), BOTH)


def test_a_column_of_the_table_is_moved_to_the_end():
    for table in (FRAME[["y", "c", "a", "b"]], pl.DataFrame(FRAME[["y", "c", "a", "b"]].to_dict("list"))):
        rows = labelled_rows(table, None, label="y", columns=None)
        assert rows.columns == ("c", "a", "b", "y")
        np.testing.assert_array_equal(everything(rows), FRAME[["c", "a", "b", "y"]])
        chosen = labelled_rows(table.assign(text="x") if table is FRAME else table, None, label="y", columns=["b"])
        np.testing.assert_array_equal(everything(chosen), FRAME[["b", "y"]])


def test_files(tmp_path):
    FRAME[["y", "c", "a", "b"]].to_csv(tmp_path / "t.csv", index=False)
    FRAME[["y", "c", "a", "b"]].to_parquet(tmp_path / "t.parquet")
    np.save(tmp_path / "t.npy", BOTH)
    for name in ("t.csv", "t.parquet"):
        rows = labelled_rows(tmp_path / name, None, label="y", columns=None)
        np.testing.assert_array_equal(everything(rows), FRAME[["c", "a", "b", "y"]])
    np.testing.assert_array_equal(everything(labelled_rows(tmp_path / "t.npy", None, label=-1, columns=None)), BOTH)


@pytest.mark.parametrize(("one", "other"), [(2, 3), (8, 1), (1, 5)])
def test_streams_cut_at_other_places(one, other):
    rows = labelled_rows(streamed(X, one), streamed(Y[:, None], other), label=None, columns=None)
    for size in (1, 2, 3, 8, None):
        np.testing.assert_array_equal(everything(rows, size), BOTH)
    np.testing.assert_array_equal(np.concatenate(list(rows.chunks(3, 7, 2))), BOTH[3:7])
    mixed = labelled_rows(streamed(X, one), Y, label=None, columns=None)
    np.testing.assert_array_equal(everything(mixed), BOTH)


def test_public_rows_follow_the_order_of_the_private_ones():
    rows = labelled_rows(FRAME[["y", "c", "a", "b"]], None, label="y", columns=None)
    public = FRAME[["a", "y", "b", "c"]].copy() + 0.5
    found = public_labelled(public, None, label="y", columns=None, private=rows, x_priv=FRAME)
    np.testing.assert_array_equal(found, FRAME[["c", "a", "b", "y"]] + 0.5)
    features = labelled_rows(FRAME[["c", "a", "b"]], Y, label=None, columns=None)
    found = public_labelled(
        FRAME[["a", "b", "c"]].copy(), Y + 0.5, label=None, columns=None, private=features, x_priv=FRAME
    )
    np.testing.assert_array_equal(found[:, :3], FRAME[["c", "a", "b"]])
    np.testing.assert_array_equal(found[:, 3], Y + 0.5)


def test_missing_public_cells_are_kept_and_infinite_ones_refused():
    rows = labelled_rows(X, Y, label=None, columns=None)
    table = X + 0.5
    table[2, 1] = np.nan
    found = public_labelled(table, Y, label=None, columns=None, private=rows, x_priv=X)
    assert np.isnan(found[2, 1])
    assert np.isfinite(np.delete(found.ravel(), 2 * 4 + 1)).all()
    table[3, 0] = np.inf
    with pytest.raises(InputError, match="inf"):
        public_labelled(table, Y, label=None, columns=None, private=rows, x_priv=X)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "labels once"),
        ({"y": Y, "label": "y"}, "labels once"),
        ({"y": Y[:5]}, "8 rows and y_priv has 5"),
        ({"y": BOTH[:, :2]}, "one number for each row"),
        ({"y": "secret"}, "y_priv"),
        ({"label": "z"}, "'z'"),
        ({"label": 0}, "-1"),
        ({"label": True}, "-1"),
        ({"label": -1}, "-1"),
    ],
    ids=str,
)
def test_what_is_refused(given, words):
    with pytest.raises(InputError, match=words):
        labelled_rows(FRAME, given.get("y"), label=given.get("label"), columns=None)


def test_names_are_needed_for_a_label_by_name():
    with pytest.raises(InputError, match="no names"):
        labelled_rows(X, None, label="y", columns=None)
    with pytest.raises(InputError, match="beside the label"):
        labelled_rows(FRAME[["y"]], None, label="y", columns=None)
    with pytest.raises(InputError, match="beside the label"):
        labelled_rows(X[:, :1], None, label=-1, columns=None)


def test_private_and_public_must_be_two_data_sets():
    rows = labelled_rows(X, Y, label=None, columns=None)
    for public in (X, X[2:5]):
        with pytest.raises(InputError, match=r"same object|share memory"):
            public_labelled(public, Y[: len(public)].copy(), label=None, columns=None, private=rows, x_priv=X)
    with pytest.raises(InputError, match="one label for each row"):
        public_labelled(X + 1, Y[:3], label=None, columns=None, private=rows, x_priv=X)
    with pytest.raises(InputError, match="public labels once"):
        public_labelled(X + 1, None, label=None, columns=None, private=rows, x_priv=X)
