"""Rows out of core, in every form that people keep them in: the bits of the same rows in memory, for every estimator family."""

import inspect

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from public_calls import CALLS, NOTIONS
from test_forms_of_rows import content

from fastpubpriv.sources import Rows

# A mean, which matches columns by name, and labelled rows; all others under `audit`.
FAMILIES = ["estimate_mean", "linear_regression, newton"]


def stored(x, names):
    """The rows as an Arrow table, between two columns that nobody asked for."""
    note = pa.array([f"a remark, {k}" for k in range(len(x))])
    columns = {"note": note, **{name: x[:, k] for k, name in enumerate(names)}, "other": np.arange(len(x))}
    return pa.table(columns)


def parquet_file(folder, x, names):
    pq.write_table(stored(x, names), folder / "rows.parquet", row_group_size=70)
    return str(folder / "rows.parquet")


def parquet_list(folder, x, names):
    paths = [folder / f"{part}.parquet" for part in range(3)]
    for path, rows in zip(paths, np.array_split(x, [101, 200]), strict=True):
        pq.write_table(stored(rows, names), path)
    return [str(path) for path in paths]


def parquet_folders(folder, x, names):
    for part, rows in enumerate(np.array_split(x, [101, 200])):
        (folder / f"year={part}").mkdir()
        pq.write_table(stored(rows, names), folder / f"year={part}" / "rows.parquet")
    return str(folder)


def arrow_dataset(folder, x, names):
    parquet_list(folder, x, names)
    return pyarrow.dataset.dataset([str(folder / f"{part}.parquet") for part in range(3)])


def arrow_file(folder, x, names):
    table = stored(x, names)
    with pyarrow.ipc.new_file(folder / "rows.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=64)
    return Rows.from_arrow(folder / "rows.arrow", columns=names)


def arrow_stream(folder, x, names):
    table = stored(x, names)
    return Rows.from_arrow(
        lambda: pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=41)), columns=names
    )


def csv_file(folder, x, names):
    pyarrow.csv.write_csv(stored(x, names), folder / "rows.csv")
    return str(folder / "rows.csv")


def lazy_frame(folder, x, names):
    return pl.scan_parquet(parquet_file(folder, x, names))


NAMED = {
    "Parquet file": parquet_file,
    "Parquet files": parquet_list,
    "folders of key=value": parquet_folders,
    "Arrow dataset": arrow_dataset,
    "Arrow file": arrow_file,
    "Arrow stream": arrow_stream,
    "CSV file": csv_file,
    "polars plan": lazy_frame,
}


def npy_file(folder, x):
    np.save(folder / "rows.npy", x)
    return str(folder / "rows.npy")


def chunk_function(folder, x):
    return Rows.from_chunks(lambda: np.array_split(x, 7), n=len(x), dim=x.shape[1])


UNNAMED = {"npy file": npy_file, "function of chunks": chunk_function}


def outcome(call, x_priv, **options):
    """What a call gives, but for names of columns, which an array has not."""
    return content(call(x_priv, budget=NOTIONS[call.notions[0]], random_state=3, **options))


def named_arguments(call, names):
    """How columns are chosen by name, and labels, where a call takes labels."""
    public = call.options.get("x_pub")
    found = {} if public is None else {"x_pub": pd.DataFrame(public, columns=names)}
    if "label" in call.options:
        return {**found, "columns": names[:-1], "label": names[-1]}
    return {**found, "columns": names} if "columns" in inspect.signature(call.function).parameters else found


def opened(source, names, arguments):
    """The source as it is where the call chooses the columns, else opened with them."""
    if isinstance(source, Rows) or "columns" in arguments:
        return source
    if isinstance(source, pl.LazyFrame):
        return Rows.from_frame(source, columns=names)
    if isinstance(source, pyarrow.dataset.Dataset):
        return Rows.from_arrow(source, columns=names)
    if isinstance(source, str) and source.endswith(".csv"):
        return Rows.from_csv(source, columns=names)
    return Rows.from_parquet(source, columns=names)


def check(name, folder):
    call = CALLS[name]
    x, names = call.rows, [f"x{k}" for k in range(call.rows.shape[1])]
    if "label" in call.options:
        names[-1] = "label"
    expected = outcome(call, x)
    for form, store in NAMED.items():
        place = folder / form.replace("=", " ")
        place.mkdir()
        arguments = named_arguments(call, names)
        rows = opened(store(place, x, names), names, arguments)
        if isinstance(rows, Rows):
            arguments.pop("columns", None)
        assert outcome(call, rows, **arguments) == expected, form
    for form, store in UNNAMED.items():
        place = folder / form
        place.mkdir()
        assert outcome(call, store(place, x)) == expected, form


@pytest.mark.parametrize("name", FAMILIES)
def test_families(name, tmp_path):
    check(name, tmp_path)


@pytest.mark.audit
@pytest.mark.parametrize("name", [name for name in CALLS if name not in FAMILIES and not CALLS[name].heavy])
def test_every_family(name, tmp_path):
    check(name, tmp_path)


def test_labels_in_a_file_of_their_own(tmp_path):
    call = CALLS["linear_regression, newton"]
    both = call.rows
    features = parquet_file(tmp_path, both[:, :-1], ["x0"])
    (tmp_path / "labels").mkdir()
    labels = Rows.from_parquet(parquet_file(tmp_path / "labels", both[:, -1:], ["label"]), columns=["label"])
    public = call.options["x_pub"]
    found = outcome(
        call, features, y_priv=labels, columns=["x0"], label=None, x_pub=pd.DataFrame({"x0": public[:, 0]}),
        y_pub=public[:, 1],
    )  # fmt: skip
    assert found == outcome(call, both)


def test_a_planted_reader_that_loses_the_order_is_seen(tmp_path):
    """Pairs of rows depend on the order: files read in another order than they are named give other bits."""
    call = CALLS["estimate_gaussian, pairs"]
    paths = parquet_list(tmp_path, call.rows, ["x0", "x1"])
    found = [outcome(call, Rows.from_parquet(files, columns=["x0", "x1"])) for files in (paths, paths[::-1])]
    assert found[0] == outcome(call, call.rows) != found[1]


def test_the_bar_counts_rows_of_a_file(tmp_path, capfd):
    call = CALLS["estimate_mean"]
    path = parquet_file(tmp_path, call.rows, ["x0", "x1"])
    public = named_arguments(call, ["x0", "x1"])
    call(path, budget=NOTIONS["zcdp"], random_state=3, progress=True, **public)
    assert f"/{len(call.rows)} " in (shown := capfd.readouterr().err)
    assert "rows/s" in shown
