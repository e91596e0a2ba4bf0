"""Rows in every form that people have them: every public function gives the same answer for all of them."""

import inspect
import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from public_calls import CALLS, NOTIONS, PUBLIC_ONLY, quiet

import fastpubpriv as fpp
from fastpubpriv import ZCDP
from fastpubpriv.sources import Rows, private_rows

RNG = np.random.default_rng(29)
LINE = np.concatenate([RNG.normal(size=150), RNG.normal(size=150) + 40.0])[RNG.permutation(300)]
PUBLIC = np.concatenate([RNG.normal(size=12), RNG.normal(size=12) + 40.0])
PLANE = RNG.normal(size=(300, 2))
PUBLIC_PLANE = RNG.normal(size=(24, 2))
LINES = {
    "array": lambda x: x,
    "list": lambda x: x.tolist(),
    "tuple": lambda x: tuple(x.tolist()),
    "strided": lambda x: np.repeat(x, 2)[::2],
    "list of lists": lambda x: x.reshape(-1, 1).tolist(),
    "pandas Series": pd.Series,
    "pandas Series with a name": lambda x: pd.Series(
        x, name="delay", index=np.arange(len(x))[::-1]
    ),
    "pandas frame": lambda x: pd.DataFrame({"delay": x}),
    "polars Series": pl.Series,
    "polars Series with a name": lambda x: pl.Series("delay", x),
}
PLANES = {
    "list of lists": lambda x: x.tolist(),
    "list of arrays": list,
    "pandas frame": lambda x: pd.DataFrame(x, columns=["a", "b"]),
    "polars frame": lambda x: pl.DataFrame(x, schema=["a", "b"]),
}
OPTIONS = {"budget": ZCDP(0.5), "random_state": 3, "threads": 1, "progress": False}
# Calls of the table, on these rows.
WITH_PUBLIC = (
    "estimate_mean",
    "describe",
    "estimate_mean, public covariance",
    "quantiles",
    "weighted_mean",
    "estimate_gaussian, auto",
    "learn_separated_mixture, one shot",
)
PRIVATE_ONLY = (
    "coinpress_mean",
    "coinpress_covariance",
    "private_pca",
    "no_public_baseline",
    "stable_histogram, grid",
    "decode_variances",
    "decode_means",
    "decode_axis_aligned",
)
LINE_ONLY = (
    "decode_gaussians, exact",
    "select_hypothesis, roots",
    "value_counts",
    "learn_axis_aligned_mixture, cells",
)
LABELED = ("linear_regression, newton", "logistic_regression, newton", "train, newton")
LABELS = 2.0 * LINE + RNG.normal(size=300)
PUBLIC_LABELS = 2.0 * PUBLIC + RNG.normal(size=24)


def content(result):
    """A result without the names of its columns."""
    if not hasattr(result, "to_dict"):
        return repr(result)
    return json.dumps(unnamed(result.to_dict()))


def unnamed(value):
    """Without names of columns, in results within results too."""
    if not isinstance(value, dict):
        return value
    named = ("by", "columns", "histograms", "design", "terms")
    return {key: unnamed(each) for key, each in value.items() if key not in named}


def outcome(call, x_priv, **options):
    """What a call gives, but for names of columns, which an array has not."""
    return content(call(x_priv, budget=NOTIONS[call.notions[0]], random_state=3, **options))


def beside(name, x_priv, x_pub):
    """What a call of the table gives on private rows, beside public ones where it takes some."""
    if name not in WITH_PUBLIC:
        return outcome(CALLS[name], x_priv)
    return outcome(CALLS[name], x_priv, x_pub=x_pub)


@pytest.mark.parametrize("name", [*WITH_PUBLIC, *PRIVATE_ONLY, *LINE_ONLY])
def test_lines(name):
    expected = beside(name, LINE.reshape(-1, 1), PUBLIC.reshape(-1, 1))
    for form, made in LINES.items():
        assert beside(name, made(LINE), made(PUBLIC)) == expected, form
    assert beside(name, LINE, pd.Series(PUBLIC)) == expected
    assert beside(name, pl.DataFrame({"delay": LINE}), PUBLIC.tolist()) == expected


@pytest.mark.parametrize("name", LABELED)
def test_labeled_lines(name):
    call = CALLS[name]
    labels = [LABELS, PUBLIC_LABELS]
    if name.startswith("logistic"):
        labels = [(each > 20.0) + 0.0 for each in labels]

    def found(x, y, p, q):
        return outcome(call, x, y_priv=y, x_pub=p, y_pub=q, label=None)

    expected = found(LINE.reshape(-1, 1), labels[0], PUBLIC.reshape(-1, 1), labels[1])
    for form, made in LINES.items():
        assert found(*map(made, (LINE, labels[0], PUBLIC, labels[1]))) == expected, form


def test_every_public_function_that_takes_rows_is_in_a_table():
    taking = {
        name
        for name in fpp.__all__
        if inspect.isfunction(getattr(fpp, name))
        and {"x_priv", "x_pub"} & inspect.signature(getattr(fpp, name)).parameters.keys()
    }
    # They read columns by their names; test_persons.py has the forms of it.
    named = {"count_persons"}
    listed = {name.split(",")[0] for name in (*WITH_PUBLIC, *PRIVATE_ONLY, *LINE_ONLY, *LABELED)}
    assert taking <= {*listed, *PUBLIC_ONLY, *named}


OF_COLUMNS = [
    name
    for name in (*WITH_PUBLIC, *PRIVATE_ONLY, *LINE_ONLY, *LABELED)
    if "columns" in inspect.signature(CALLS[name].function).parameters
]


def test_every_public_function_that_chooses_columns_is_called_with_a_name():
    choosing = {
        name
        for name in fpp.__all__
        if inspect.isfunction(getattr(fpp, name))
        and "columns" in inspect.signature(getattr(fpp, name)).parameters
    }
    called = {name.split(",")[0] for name in (*OF_COLUMNS, *PUBLIC_ONLY)}
    assert choosing <= called


@pytest.mark.parametrize("name", OF_COLUMNS)
def test_a_name_stands_for_a_list_of_one(name):
    labels = np.where(LINE > 20.0, 1.0, 0.0) if name.startswith("logistic") else LABELS
    public_labels = np.where(PUBLIC > 20.0, 1.0, 0.0)
    private = pd.DataFrame({"delay": LINE, "label": labels, "word": "text"})
    public = pd.DataFrame({"delay": PUBLIC, "label": public_labels, "word": "text"})
    options = {"label": "label"} if name in LABELED else {}
    if name in (*WITH_PUBLIC, *LABELED):
        options["x_pub"] = public
    expected = outcome(CALLS[name], private, columns=["delay"], **options)
    assert outcome(CALLS[name], private, columns="delay", **options) == expected


@pytest.mark.parametrize("name", ["estimate_mean", "quantiles"])
def test_a_name_stands_for_a_list_of_one_in_groups(name):
    private = pd.DataFrame({"delay": LINE, "word": np.where(LINE > 20.0, "late", "early")})
    public = pd.DataFrame({"delay": PUBLIC, "word": np.where(PUBLIC > 20.0, "late", "early")})
    options = {"x_pub": public, "by": "word"}
    expected = outcome(CALLS[name], private, columns=["delay"], **options)
    assert outcome(CALLS[name], private, columns="delay", **options) == expected


def test_a_number_stands_for_a_list_of_one():
    arrays = {"x_pub": PUBLIC_PLANE}
    expected = outcome(CALLS["estimate_mean"], PLANE, columns=[1], **arrays)
    assert outcome(CALLS["estimate_mean"], PLANE, columns=1, **arrays) == expected


@pytest.mark.parametrize("name", PUBLIC_ONLY)
def test_public_lines_alone(name):
    expected = content(PUBLIC_ONLY[name](PUBLIC.reshape(-1, 1)))
    for form, made in LINES.items():
        assert content(PUBLIC_ONLY[name](made(PUBLIC))) == expected, form


@pytest.mark.parametrize("name", [*WITH_PUBLIC, *PRIVATE_ONLY])
def test_several_columns(name):
    expected = beside(name, PLANE, PUBLIC_PLANE)
    for form, made in PLANES.items():
        assert beside(name, made(PLANE), made(PUBLIC_PLANE)) == expected, form


EVALUATIONS = {
    "densities of a Gaussian": lambda: (
        quiet(fpp.estimate_gaussian, LINE, x_pub=PUBLIC, **OPTIONS).log_prob
    ),
    "directions": lambda: (
        quiet(fpp.private_pca, LINE, center=0.0, radius=60.0, n_components=1, **OPTIONS).transform
    ),
    "components of a mixture": lambda: fpp.public_only(PUBLIC, n_components=2).predict,
    "shares of components": lambda: fpp.public_only(PUBLIC, n_components=2).predict_proba,
}


@pytest.mark.parametrize("made_method", EVALUATIONS.values(), ids=EVALUATIONS)
def test_results_evaluate_lines(made_method):
    evaluate = made_method()
    expected = evaluate(PUBLIC.reshape(-1, 1))
    assert len(expected) == len(PUBLIC)
    for form, made in LINES.items():
        np.testing.assert_array_equal(evaluate(made(PUBLIC)), expected, err_msg=form)


# ---- Rows out of core, in every form that people keep them in: the bits of the same rows in memory, for every estimator family.
# A mean, which matches columns by name, and labeled rows; all others under `audit`.
FAMILIES = ["estimate_mean", "linear_regression, newton"]


def stored(x, names):
    """The rows as an Arrow table, between two columns that nobody asked for."""
    note = pa.array([f"a remark, {k}" for k in range(len(x))])
    columns = {
        "note": note,
        **{name: x[:, k] for k, name in enumerate(names)},
        "other": np.arange(len(x)),
    }
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


def arrow_file(folder, x, names):
    table = stored(x, names)
    with pyarrow.ipc.new_file(folder / "rows.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=64)
    return private_rows(folder / "rows.arrow", columns=names)


def arrow_stream(folder, x, names):
    table = stored(x, names)
    return private_rows(
        lambda: pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=41)),
        columns=names,
    )


def csv_file(folder, x, names):
    pyarrow.csv.write_csv(stored(x, names), folder / "rows.csv")
    return str(folder / "rows.csv")


NAMED = {
    "Parquet file": parquet_file,
    "Parquet files": parquet_list,
    "folders of key=value": parquet_folders,
    "Arrow dataset": lambda folder, x, names: pyarrow.dataset.dataset(
        parquet_list(folder, x, names)
    ),
    "Arrow file": arrow_file,
    "Arrow stream": arrow_stream,
    "CSV file": csv_file,
    "polars plan": lambda folder, x, names: pl.scan_parquet(parquet_file(folder, x, names)),
}


def npy_file(folder, x):
    np.save(folder / "rows.npy", x)
    return str(folder / "rows.npy")


UNNAMED = {
    "npy file": npy_file,
    "function of chunks": lambda _, x: Rows.from_chunks(
        lambda: np.array_split(x, 7), n=len(x), dim=x.shape[1]
    ),
}


def named_arguments(call, names):
    """How columns are chosen by name, and labels, where a call takes labels."""
    public = call.options.get("x_pub")
    found = {} if public is None else {"x_pub": pd.DataFrame(public, columns=names)}
    for last in {"label", "by"} & call.options.keys():
        return {**found, "columns": names[:-1], last: names[-1]}
    return (
        {**found, "columns": names}
        if "columns" in inspect.signature(call.function).parameters
        else found
    )


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in FAMILIES else pytest.mark.audit)
        for name, call in CALLS.items()
        if not (call.heavy or call.named)
    ],
)
def test_families(name, tmp_path):
    call = CALLS[name]
    x = call.rows
    names = [f"x{k}" for k in range(call.rows.shape[1])]
    if "label" in call.options:
        names[-1] = "label"
    expected = outcome(call, x)
    for form, store in NAMED.items():
        place = tmp_path / form.replace("=", " ")
        place.mkdir()
        arguments = named_arguments(call, names)
        rows = store(place, x, names)
        if isinstance(rows, Rows):
            arguments.pop("columns", None)
        elif "columns" not in arguments:
            rows = private_rows(rows, columns=names)
        assert outcome(call, rows, **arguments) == expected, form
    for form, store in UNNAMED.items():
        place = tmp_path / form
        place.mkdir()
        assert outcome(call, store(place, x)) == expected, form


def test_labels_in_a_file_of_their_own(tmp_path):
    call = CALLS["linear_regression, newton"]
    both = call.rows
    features = parquet_file(tmp_path, both[:, :-1], ["x0"])
    (tmp_path / "labels").mkdir()
    labels = private_rows(
        parquet_file(tmp_path / "labels", both[:, -1:], ["label"]), columns=["label"]
    )
    public = call.options["x_pub"]
    beside_it = {"x_pub": pd.DataFrame({"x0": public[:, 0]}), "y_pub": public[:, 1]}
    found = outcome(call, features, y_priv=labels, columns=["x0"], label=None, **beside_it)
    assert found == outcome(call, both)


def test_a_planted_reader_that_loses_the_order_is_seen(tmp_path):
    """Pairs of rows depend on the order: files read in another order than they are named give other bits."""
    call = CALLS["estimate_gaussian, pairs"]
    paths = parquet_list(tmp_path, call.rows, ["x0", "x1"])
    found = [
        outcome(call, private_rows(files, columns=["x0", "x1"])) for files in (paths, paths[::-1])
    ]
    assert found[0] == outcome(call, call.rows) != found[1]
