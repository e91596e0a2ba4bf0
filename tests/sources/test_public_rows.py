"""Public rows: the same readers, then loud checks (SAFETY 3.9, group C); private and public data kept apart."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from helpers.errors import raises
from helpers.refusals import Refusals
from helpers_sources import content, streamed

from fastpubpriv.errors import InputError
from fastpubpriv.sources import Rows, private_rows
from fastpubpriv.sources.labeled import labeled_rows, public_labeled
from fastpubpriv.sources.open import public_rows, refuse_shared_memory

X = np.random.default_rng(2).normal(size=(30, 3))


ABC = pd.DataFrame(X, columns=list("abc"))


def csv_file(folder):
    ABC.to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def parquet_file(folder):
    ABC.to_parquet(folder / "t.parquet")
    return str(folder / "t.parquet")


SOURCES = {
    "array": lambda folder: X,
    "fortran": lambda folder: np.asfortranarray(X),
    "list": lambda folder: X.tolist(),
    "pandas": lambda folder: ABC,
    "polars": lambda folder: pl.DataFrame(X),
    "csv": csv_file,
    "parquet": parquet_file,
    "chunks": lambda folder: Rows.from_chunks(lambda: [X[:7], X[7:]], n=30, dim=3),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_public_rows_are_a_float64_copy(kind, tmp_path):
    found = public_rows(SOURCES[kind](tmp_path), dim=3)
    np.testing.assert_array_equal(found, X)
    assert found.dtype == np.float64
    assert found.flags.c_contiguous
    assert found.flags.owndata
    assert not np.shares_memory(found, X)


def test_chosen_columns_of_public_rows():
    found = public_rows(ABC, columns=["c", "a"], dim=2)
    np.testing.assert_array_equal(found, X[:, [2, 0]])


@pytest.mark.parametrize(
    "row",
    [X[0], X[0].tolist(), tuple(X[0]), X[0].astype("f4"), [1, 2, 3], np.array([1, 0, 1], bool)],
)
def test_one_dimension_is_one_row(row):
    found = public_rows(row, dim=3)
    assert found.shape == (1, 3)
    np.testing.assert_array_equal(found[0], np.asarray(row, float))


def test_one_dimension_of_another_length_is_refused():
    raises(InputError, r"length 30: pass x\.reshape\(-1, 1\)", public_rows, X[:, 0], dim=3)
    raises(InputError, "30", public_rows, pd.Series(X[:, 0]), dim=3)
    raises(InputError, "30", public_rows, pl.Series(X[:, 0]), dim=3)


OF_ABC = {"dim": 3, "names": ("a", "b", "c")}


def test_a_row_of_a_frame_is_matched_by_name():
    row = ABC[["c", "a", "b"]].iloc[4]
    np.testing.assert_array_equal(public_rows(row, **OF_ABC), X[4:5])
    np.testing.assert_array_equal(public_rows(row, columns=["b", "a"], dim=2), X[4:5, [1, 0]])
    raises(InputError, "'z'", public_rows, row.rename({"a": "z"}), **OF_ABC)


@pytest.mark.parametrize("series", [pd.Series(X[4]), pl.Series(X[4])], ids=["pandas", "polars"])
def test_a_row_without_names_is_in_the_order_of_the_columns(series):
    np.testing.assert_array_equal(public_rows(series, **OF_ABC), X[4:5])


@pytest.mark.parametrize(
    "cell",
    [ABC[["b"]].iloc[4], ABC["b"].iloc[4:5], pl.Series("b", [X[4, 1]])],
    ids=["row", "column", "polars"],
)
def test_one_cell_is_a_row_of_one_column(cell):
    np.testing.assert_array_equal(public_rows(cell, dim=1, names=("b",)), X[4:5, 1:2])


def test_a_series_keeps_its_name():
    assert private_rows(pd.Series(X[:, 0], name="delay")).columns == ("delay",)
    assert private_rows(pl.Series("delay", X[:, 0])).columns == ("delay",)


def test_a_series_without_a_name_is_column_0():
    assert private_rows(pd.Series(X[:, 0])).columns == ("0",)
    assert private_rows(pl.Series(X[:, 0])).columns == ("0",)


def test_a_public_series_of_another_name_is_refused():
    other = pd.Series(X[:, 0], name="other")
    raises(InputError, "matched by name", public_rows, other, dim=1, names=("delay",))


def test_a_part_of_a_series_shares_its_memory():
    series = pd.Series(X[:, 0], name="delay")
    raises(InputError, "share memory", refuse_shared_memory, series, series[3:9])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_values_are_named(bad):
    x = X.copy()
    x[7, 1] = bad
    raises(InputError, rf"row 7, column 1 is {bad}\. ", public_rows, x)
    x[9, 0] = bad
    frame = pd.DataFrame(x, columns=list("abc"))
    raises(InputError, rf"row 7, column 'b' is {bad} \(and 1 more\)", public_rows, frame)


def test_scales_that_break_squares_are_refused():
    raises(InputError, "stay below 1e[+]150.*row", public_rows, X * 1e300)
    raises(InputError, "below 1e-150.*Change the unit", public_rows, X * 1e-300)


@pytest.mark.parametrize(
    "x", [X * 1e140, X * 1e-140, np.zeros((2, 3))], ids=["1e140", "1e-140", "0"]
)
def test_scales_whose_squares_are_numbers_are_taken(x):
    np.testing.assert_array_equal(public_rows(x), x)


def test_too_few_public_rows_are_refused():
    words = "at least 4 public rows are needed here, got 3"
    raises(InputError, words, public_rows, X[:3], min_rows=4)
    raises(InputError, r"no rows|no columns", public_rows, X[:0])


def test_public_rows_of_another_width_are_refused():
    words = "public rows have 3 columns and private rows have 5"
    raises(InputError, words, public_rows, X, dim=5)
    raises(InputError, r"no rows|no columns", public_rows, X[:, :0])


def test_a_column_whose_squares_underflow_is_refused_beside_others():
    tiny_b = ABC * [1, 1e-160, 1]
    words = "column 'b' are below 1e-150.*Change the unit"
    raises(InputError, words, public_rows, tiny_b)


def test_the_same_data_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", X)
    frame = pd.DataFrame(X, columns=list("abc"))
    plain = pl.DataFrame(X)
    table = pa.table({"a": X[:, 0].copy()})
    rows = private_rows(X)
    (tmp_path / "link.npy").symlink_to(tmp_path / "x.npy")
    for ours, theirs, words in (
        (X, X, "same object"),
        (rows, rows, "same object"),
        (str(tmp_path / "x.npy"), tmp_path / "link.npy", "same file"),
        (X, X[:5], "share memory"),
        (X[::2], X[2:], "share memory"),
        (X, X.T[:, :2], "share memory"),
        (rows, X[3:4], "share memory"),
        (X, rows, "share memory"),
        (frame, frame.iloc[:, :1], "share memory"),
        (frame, frame["a"].to_frame(), "share memory"),
        (plain, plain.clone(), "share memory"),
        (table, table.slice(3, 4), "share memory"),
        (table, table["a"].chunk(0).to_numpy(), "share memory"),
    ):
        raises(InputError, words, refuse_shared_memory, ours, theirs)


def test_data_kept_apart_are_accepted(tmp_path):
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", X)
    frame = pd.DataFrame(X, columns=list("abc"))
    table = pa.table({"a": X[:, 0].copy(), "t": ["x"] * 30})
    for ours, theirs in (
        (X, X.copy()),
        (X[:20], X[20:]),
        (X[::2], X[1::2]),
        (X[:, :2], X[:, 2:]),
        (frame, frame.copy()),
        (tmp_path / "x.npy", tmp_path / "y.npy"),
        (tmp_path / "x.npy", X),
        (X, None),
        (X, X.tolist()),
        (X, "no such file"),
    ):
        refuse_shared_memory(ours, theirs)
    refuse_shared_memory(table.slice(0, 20), table.slice(20), columns=["a"])
    overlapping = (table.slice(0, 21), table.slice(20))
    raises(InputError, "share memory", refuse_shared_memory, *overlapping, columns=["a"])


def test_overlap_too_hard_to_decide_counts_as_shared(monkeypatch):
    def too_hard(*args, **kwargs):
        raise np.exceptions.TooHardError

    monkeypatch.setattr(np, "shares_memory", too_hard)
    raises(InputError, "share memory", refuse_shared_memory, X[:, :2], X[:, 2:])
    refuse_shared_memory(X, X.copy())


def test_a_message_about_a_file_names_the_file_and_says_what_separates_columns(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("age;income\n34;52000\n", encoding="utf-8")
    of_public = r"people\.csv' has no column 'age'; it has 'age;income'"
    raises(InputError, of_public, public_rows, path, columns=["age"])
    of_private = r"people\.csv' \(names between commas\) has no column 'age'$"
    raises(InputError, of_private, private_rows, path, columns=["age"])


# ---- Features and labels side by side: the forms that are taken, the order of columns, and what is refused ----------
X_OF_LABELED = np.arange(24.0).reshape(8, 3)
Y = np.arange(8.0) * 100.0
FRAME = pd.DataFrame(X_OF_LABELED, columns=["a", "b", "c"]).assign(y=Y)
BOTH = np.column_stack([X_OF_LABELED, Y])


LABEL_FIRST = FRAME[["y", "c", "a", "b"]]


@pytest.mark.parametrize("table", [LABEL_FIRST, pl.DataFrame(LABEL_FIRST.to_dict("list"))])
def test_a_column_of_the_table_is_moved_to_the_end(table):
    rows = labeled_rows(table, None, label="y", columns=None)
    assert rows.columns == ("c", "a", "b", "y")
    np.testing.assert_array_equal(content(rows), FRAME[["c", "a", "b", "y"]])


@pytest.mark.parametrize("table", [FRAME.assign(text="x"), pl.DataFrame(FRAME.to_dict("list"))])
def test_chosen_columns_stand_before_the_label(table):
    rows = labeled_rows(table, None, label="y", columns=["b"])
    np.testing.assert_array_equal(content(rows), FRAME[["b", "y"]])


@pytest.mark.parametrize(("one", "other"), [(2, 3), (8, 1), (1, 5)])
def test_streams_cut_at_other_places(one, other):
    rows = labeled_rows(
        streamed(X_OF_LABELED, one), streamed(Y[:, None], other), label=None, columns=None
    )
    for size in (1, 2, 3, 8, None):
        np.testing.assert_array_equal(content(rows, chunk_rows=size), BOTH)
    np.testing.assert_array_equal(content(rows, 3, 7, 2), BOTH[3:7])
    mixed = labeled_rows(streamed(X_OF_LABELED, one), Y, label=None, columns=None)
    np.testing.assert_array_equal(content(mixed), BOTH)


def test_public_rows_follow_the_order_of_the_private_ones():
    rows = labeled_rows(FRAME[["y", "c", "a", "b"]], None, label="y", columns=None)
    public = FRAME[["a", "y", "b", "c"]].copy() + 0.5
    found = public_labeled(public, None, label="y", columns=None, private=rows, x_priv=FRAME)
    np.testing.assert_array_equal(found, FRAME[["c", "a", "b", "y"]] + 0.5)


def test_public_features_follow_the_order_of_the_private_ones():
    rows = labeled_rows(FRAME[["c", "a", "b"]], Y, label=None, columns=None)
    public = FRAME[["a", "b", "c"]].copy()
    beside = {"label": None, "columns": None, "private": rows, "x_priv": FRAME}
    found = public_labeled(public, Y + 0.5, **beside)
    np.testing.assert_array_equal(found[:, :3], FRAME[["c", "a", "b"]])
    np.testing.assert_array_equal(found[:, 3], Y + 0.5)


def test_missing_public_cells_are_kept_and_infinite_ones_refused():
    rows = labeled_rows(X_OF_LABELED, Y, label=None, columns=None)
    beside = {"label": None, "columns": None, "private": rows, "x_priv": X_OF_LABELED}
    table = X_OF_LABELED + 0.5
    table[2, 1] = np.nan
    found = public_labeled(table, Y, **beside)
    assert np.isnan(found[2, 1])
    assert np.isfinite(np.delete(found.ravel(), 2 * 4 + 1)).all()
    table[3, 0] = np.inf
    raises(InputError, "inf", public_labeled, table, Y, **beside)


REFUSED = Refusals()
REFUSED.add("labels once")
REFUSED.add("labels once", y=Y, label="y")
REFUSED.add("8 rows and y_priv has 5", y=Y[:5])
REFUSED.add("one number for each row", y=BOTH[:, :2])
REFUSED.add("y_priv", y="secret")
REFUSED.add("'z'", label="z")
REFUSED.add("-1", label=0)
REFUSED.add("-1", label=True)
REFUSED.add("-1", label=-1)
REFUSED.add("no names", x=X_OF_LABELED, label="y")
REFUSED.add("beside the label", x=FRAME[["y"]], label="y")
REFUSED.add("beside the label", x=X_OF_LABELED[:, :1], label=-1)


@pytest.mark.parametrize(
    ("given", "words"), REFUSED, ids=lambda part: part if isinstance(part, str) else ""
)
def test_what_is_refused(given, words):
    default = {"x": FRAME, "y": None, "label": None, "columns": None}
    raises(InputError, words, labeled_rows, **default | given)
