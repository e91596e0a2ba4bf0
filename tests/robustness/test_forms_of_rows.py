"""Rows in every form that people have them: every public function gives the same answer for all of them."""

import inspect
import json
import os
import subprocess
import sys
import tracemalloc
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from clocks import PATIENCE
from public_calls import CALLS, NOTIONS, quiet

import fastpubpriv as fpp
from fastpubpriv import ZCDP, Ledger, session
from fastpubpriv.errors import InputError
from fastpubpriv.estimators import column_means
from fastpubpriv.privacy import Cost
from fastpubpriv.sources import Rows, private_rows

RNG = np.random.default_rng(29)
LINE = np.concatenate([RNG.normal(size=150), RNG.normal(size=150) + 40.0])[RNG.permutation(300)]
PUBLIC = np.concatenate([RNG.normal(size=12), RNG.normal(size=12) + 40.0])
PLANE = RNG.normal(size=(300, 2))
PUBLIC_PLANE = RNG.normal(size=(24, 2))
LINES = {
    "array": lambda x: x, "list": lambda x: x.tolist(), "tuple": lambda x: tuple(x.tolist()),
    "strided": lambda x: np.repeat(x, 2)[::2], "list of lists": lambda x: x.reshape(-1, 1).tolist(),
    "pandas Series": pd.Series,
    "pandas Series with a name": lambda x: pd.Series(x, name="delay", index=np.arange(len(x))[::-1]),
    "pandas frame": lambda x: pd.DataFrame({"delay": x}), "polars Series": pl.Series,
    "polars Series with a name": lambda x: pl.Series("delay", x),
}  # fmt: skip
PLANES = {
    "list of lists": lambda x: x.tolist(), "list of arrays": list,
    "pandas frame": lambda x: pd.DataFrame(x, columns=["a", "b"]),
    "polars frame": lambda x: pl.DataFrame(x, schema=["a", "b"]),
}  # fmt: skip
GAUSSIAN = {"budget": ZCDP(0.5)}
SEEDED = {"random_state": 3, "threads": 1, "progress": False}
# Calls of the table, on these rows.
WITH_PUBLIC = (
    "estimate_mean", "describe", "estimate_mean, public covariance", "quantiles", "weighted_mean",
    "estimate_gaussian, auto", "learn_separated_mixture, one shot",
)  # fmt: skip
PRIVATE_ONLY = (
    "coinpress_mean", "coinpress_covariance", "private_pca", "no_public_baseline", "stable_histogram, grid",
    "decode_variances", "decode_means", "decode_axis_aligned",
)  # fmt: skip
LINE_ONLY = (
    "decode_gaussians, exact", "select_hypothesis, roots", "value_counts", "learn_axis_aligned_mixture, cells",
)  # fmt: skip
LABELED = ("linear_regression, newton", "logistic_regression, newton", "train, newton")
PUBLIC_ONLY = {
    "precondition": lambda p: fpp.precondition(p),
    "public_only": lambda p: fpp.public_only(p, n_components=2),
    "supercluster": lambda p: fpp.supercluster(p, n_components=2),
    "terrific_ball": lambda p: fpp.terrific_ball(p, min_count=2, radius_max=1e3),
}
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
    return outcome(CALLS[name], x_priv, **({"x_pub": x_pub} if name in WITH_PUBLIC else {}))


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


def test_results_evaluate_lines():
    gaussian = quiet(fpp.estimate_gaussian, LINE, x_pub=PUBLIC, **GAUSSIAN, **SEEDED)
    directions = quiet(
        fpp.private_pca, LINE, center=0.0, radius=60.0, n_components=1, **GAUSSIAN, **SEEDED
    )
    mixture = fpp.public_only(PUBLIC, n_components=2)
    for made in LINES.values():
        rows = made(PUBLIC)
        np.testing.assert_array_equal(
            gaussian.log_prob(rows), gaussian.log_prob(PUBLIC.reshape(-1, 1))
        )
        np.testing.assert_array_equal(
            directions.transform(rows), directions.transform(PUBLIC.reshape(-1, 1))
        )
        np.testing.assert_array_equal(mixture.predict(rows), mixture.predict(PUBLIC.reshape(-1, 1)))
        assert mixture.predict_proba(rows).shape == (24, 2)


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
    "Parquet file": parquet_file, "Parquet files": parquet_list, "folders of key=value": parquet_folders,
    "Arrow dataset": lambda folder, x, names: pyarrow.dataset.dataset(parquet_list(folder, x, names)),
    "Arrow file": arrow_file, "Arrow stream": arrow_stream, "CSV file": csv_file,
    "polars plan": lambda folder, x, names: pl.scan_parquet(parquet_file(folder, x, names)),
}  # fmt: skip


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


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=() if name in FAMILIES else pytest.mark.audit)
    for name, call in CALLS.items() if not (call.heavy or call.named)
])  # fmt: skip
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


# ---- Public rows as people have them, for every function that takes some: a finite answer, or advice before anything is spent.
RNG_OF_WILD = np.random.default_rng(31)
DIM = 4
CENTER = np.array([10.0, -3.0, 500.0, 0.1])
SPREAD = np.array([2.0, 1.0, 80.0, 0.01])
PRIVATE = RNG_OF_WILD.normal(CENTER, SPREAD, (1000, DIM))
PUBLIC_OF_WILD = RNG_OF_WILD.normal(CENTER, SPREAD, (30, DIM))
NAMES = ("height", "angle", "weight", "share")


def with_column(rows, j, values):
    changed = rows.copy()
    changed[:, j] = values
    return changed


def one_hot(count):
    return np.column_stack(
        [RNG_OF_WILD.normal(size=count), np.eye(3)[RNG_OF_WILD.integers(0, 3, count)]]
    )


RARE = with_column(PRIVATE, 3, RNG_OF_WILD.random(1000) < 0.01)
SITUATIONS = {
    "ordinary": (PRIVATE, PUBLIC_OF_WILD),
    "a constant column": (PRIVATE, with_column(PUBLIC_OF_WILD, 1, 7.0)),
    "a constant column on both sides": (
        with_column(PRIVATE, 1, 7.0),
        with_column(PUBLIC_OF_WILD, 1, 7.0),
    ),
    "all columns constant": (PRIVATE, np.repeat(PUBLIC_OF_WILD[:1], 30, axis=0)),
    "all zero": (PRIVATE * 0.0, PUBLIC_OF_WILD * 0.0),
    "collinear": (
        with_column(PRIVATE, 3, 2.0 * PRIVATE[:, 0] - PRIVATE[:, 1]),
        with_column(PUBLIC_OF_WILD, 3, 2.0 * PUBLIC_OF_WILD[:, 0] - PUBLIC_OF_WILD[:, 1]),
    ),
    "a column twice": (PRIVATE[:, [0, 0, 2, 3]], PUBLIC_OF_WILD[:, [0, 0, 2, 3]]),
    "a rare event that no public row saw": (RARE, with_column(PUBLIC_OF_WILD, 3, 0.0)),
    "a rare event that one public row saw": (
        RARE,
        with_column(PUBLIC_OF_WILD, 3, np.arange(30) == 4),
    ),
    "one-hot columns": (one_hot(1000), one_hot(30)),
    "one row": (PRIVATE, PUBLIC_OF_WILD[:1]),
    "two rows": (PRIVATE, PUBLIC_OF_WILD[:2]),
    "two equal rows": (PRIVATE, np.repeat(PUBLIC_OF_WILD[:1], 2, axis=0)),
    "as many rows as columns": (PRIVATE, PUBLIC_OF_WILD[:DIM]),
    "shifted": (PRIVATE, PUBLIC_OF_WILD + 20.0 * SPREAD),
    "in another unit": (PRIVATE, PUBLIC_OF_WILD * 100.0),
    "far too narrow": (PRIVATE, CENTER + 0.01 * (PUBLIC_OF_WILD - CENTER)),
    "one column in another unit": (PRIVATE, PUBLIC_OF_WILD * [1.0, 1.0, 1e6, 1.0]),
    "an outlier": (PRIVATE, np.vstack([[1e6, -3.0, 500.0, 0.1], PUBLIC_OF_WILD[1:]])),
    "columns of very different scale": (
        PRIVATE * [1e12, 1.0, 1e-12, 1.0],
        PUBLIC_OF_WILD * [1e12, 1.0, 1e-12, 1.0],
    ),
}
# Calls of the table, and what they are given otherwise.
WILD_CALLS = {
    "estimate_mean": {}, "estimate_mean, public covariance": {},
    "weighted_mean": {"norm_bound": 200.0, "center": "public"}, "estimate_gaussian, auto": {},
    "estimate_gaussian, pairs": {}, "learn_separated_mixture, one shot": {"method": "auto"},
    "learn_separated_mixture, public": {}, "learn_axis_aligned_mixture, dp_em": {},
}  # fmt: skip
# What an error must hold to be of use.
ADVICE = ("pass", "drop", "fill", "give", "choose", "fewer", "needed here")


def attempt(call, *args, **options):
    """The result and no words, or no result and the words of the error."""
    try:
        return call(*args, **options), ""
    except InputError as error:
        return None, str(error)


def check_finite(result):
    for field in ("mean", "covariance", "means", "covariances", "weights"):
        assert np.isfinite(getattr(result, field, 0.0)).all(), field


def is_advice(words, situation):
    return situation != "ordinary" and any(word in words for word in ADVICE)


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("name", WILD_CALLS)
def test_a_finite_answer_or_advice(name, situation):
    private, public = SITUATIONS[situation]
    ledger = Ledger(ZCDP(10))
    given = {**GAUSSIAN, **SEEDED, **WILD_CALLS[name], "ledger": ledger}
    result, words = attempt(CALLS[name], private, x_pub=public, **given)
    if result is None:
        assert is_advice(words, situation), words
        assert ledger.spent == Cost.zero(ZCDP)
        return
    check_finite(result)
    matrices = getattr(result, "covariances", getattr(result, "covariance", np.eye(1)))
    for matrix in matrices.reshape(-1, *matrices.shape[-2:]):
        spread = np.sqrt(np.diag(matrix))
        assert np.linalg.eigvalsh(matrix / np.outer(spread, spread))[0] > -1e-9
    assert ledger.spent.amounts in (ZCDP(0.5).amounts, Cost.zero(ZCDP).amounts)
    assert result.summary()
    assert len(result._repr_html_()) > 100


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("name", PUBLIC_ONLY)
def test_functions_of_public_rows_alone(name, situation):
    found, words = attempt(PUBLIC_ONLY[name], SITUATIONS[situation][1])
    assert not words or is_advice(words, situation), words
    for field in ("factor", "means", "center"):
        assert np.isfinite(getattr(found, field, 0.0)).all(), field


@pytest.mark.parametrize("name", WILD_CALLS)
def test_fewer_public_rows_than_columns(name):
    rng = np.random.default_rng(5)
    private, public = (rng.normal(size=(n, 12)) * np.arange(1.0, 13.0) for n in (2000, 5))
    result, words = attempt(
        CALLS[name], private, x_pub=public, **GAUSSIAN, **SEEDED, **WILD_CALLS[name]
    )
    if result is None:
        assert "at least" in words
        return
    check_finite(result)


def estimated(function, situation):
    private, public = (pd.DataFrame(rows, columns=NAMES) for rows in SITUATIONS[situation])
    return quiet(function, private, x_pub=public, **GAUSSIAN, **SEEDED), private.to_numpy()


@pytest.mark.parametrize(("situation", "name"), [
    ("a constant column", "angle"),
    ("a constant column on both sides", "angle"),
    ("a rare event that no public row saw", "share"),
])  # fmt: skip
def test_a_gaussian_names_the_columns_that_borrow_a_scale(situation, name):
    result, _ = estimated(fpp.estimate_gaussian, situation)
    assert list(result.diagnostics["fallback_columns"]) == [name]
    assert name in result.summary().split("No public scale in")[1].splitlines()[0]


def test_a_mean_says_which_columns_it_cannot_see():
    result, _ = estimated(fpp.estimate_mean, "a constant column on both sides")
    assert result.part_reasons[1] == ("constant",)
    assert result.mean[1] == 7.0
    assert result.to_frame()["status"].to_dict() == dict(
        zip(NAMES, result.part_status, strict=True)
    )
    result, _ = estimated(fpp.estimate_mean, "a rare event that no public row saw")
    assert result.part_status[3] != "ok"


# Where the public rows say nothing true about place or scale, the counts find both.
@pytest.mark.parametrize("situation", [
    "ordinary", "a constant column", "all columns constant", "collinear", "a column twice", "one-hot columns",
    "one row", "two equal rows", "shifted", "far too narrow", "columns of very different scale",
])  # fmt: skip
def test_a_mean_needs_little_of_the_public_rows(situation):
    result, private = estimated(fpp.estimate_mean, situation)
    assert np.all(np.abs(result.mean - private.mean(axis=0)) <= 0.2 * private.std(axis=0))


# ---- Rows of very many columns: what public numbers ask for is asked before debits

WIDE = """
import resource
import sys
import warnings

import numpy as np

import fastpubpriv as fpp
from test_forms_of_rows import calls, ledger_for

warnings.simplefilter("ignore")
calls(3)  # what is imported at the first call
for call in calls(3).values():
    try:
        call(ledger=fpp.Ledger(fpp.ZCDP(9)))
    except fpp.FastPubPrivError:
        pass
wide = calls(100_000)
wide["counted columns"] = calls(600_000)["counted columns"]  # five kilobytes each
with open("/proc/self/statm") as file:
    held = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + (2 << 30),) * 2)
for name, call in wide.items():
    ledger = ledger_for(name)
    try:
        call(ledger=ledger)
        said = "released"
    except fpp.FastPubPrivError as error:
        said = type(error).__name__
    print(name, "|", said, "|", any(ledger.spent.amounts))
"""


def calls(dim, n=10):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, dim))
    pub = rng.normal(size=(10, dim))
    y = np.arange(n) % 2.0
    given = {"budget": fpp.ZCDP(1)}
    ball = {"center": 0.0, "radius": 1e3}
    some = {"n_components": 2, "min_weight": 0.3, "x_pub": pub}
    labeled = {"x_pub": pub, "y_pub": np.arange(10) % 2.0}
    return {
        "counted columns": partial(fpp.estimate_mean, x, x_pub=pub, **given),
        "quantiles": partial(fpp.quantiles, x, x_pub=pub, **given),
        "means of groups": partial(
            fpp.estimate_mean, x, x_pub=pub, by=-1, groups=[0.0, 1.0], **given
        ),
        "description": partial(fpp.describe, x, x_pub=pub, **given),
        "Gaussian": partial(fpp.estimate_gaussian, x, x_pub=pub, **given),
        "covariance": partial(fpp.coinpress_covariance, x, scale=2.0, center=0.0, **given),
        "components": partial(fpp.private_pca, x, n_components=1, **ball, **given),
        "mixture": partial(fpp.learn_separated_mixture, x, **some, **given),
        "axis-aligned": partial(fpp.learn_axis_aligned_mixture, x, **some, **given),
        "regression": partial(fpp.linear_regression, x, y, **labeled, **given),
        "classes": partial(fpp.logistic_regression, x, y, **labeled, **given),
        "gradients": partial(fpp.train, x, y, loss="logistic", method="dp_sgd", **labeled, **given),
        "perturbed": partial(
            fpp.train, x, y, loss="logistic", method="output_perturbation", **labeled, **given
        ),
        "no public rows": partial(fpp.no_public_baseline, x, n_components=2, radius=1e3, **given),
        "public rows": lambda ledger: fpp.public_only(pub, n_components=2),
        "histogram": partial(
            fpp.stable_histogram, x, bins=fpp.BinGrid(width=1.0), budget=fpp.ApproxDP(1, 1e-6)
        ),
        "ball": partial(fpp.coinpress_mean, x, **ball, **given),
        "narrowed": partial(fpp.estimate_mean, x, x_pub=pub, clipping="gaussian", **given),
        "weighted": partial(fpp.weighted_mean, x, norm_bound=1e3, **given),
    }


def ledger_for(name):
    return fpp.Ledger(fpp.ApproxDP(9, 1e-3) if name == "histogram" else fpp.ZCDP(9))


SMALL = ("ball", "narrowed", "weighted")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process")
def test_where_memory_is_short_nothing_is_debited():
    child = subprocess.run([sys.executable, "-c", WIDE], env={
        **os.environ, "PYTHONPATH": ":".join(sys.path), "OPENBLAS_NUM_THREADS": "1",
    }, capture_output=True, text=True, timeout=PATIENCE)  # fmt: skip
    assert child.returncode == 0, child.stderr
    found = {
        name: (said, spent)
        for name, said, spent in (line.split(" | ") for line in child.stdout.splitlines())
    }
    refused = dict.fromkeys(found, ("OutOfMemoryError", "False"))
    # A histogram says what it needs against max_memory=, and groups have a limit of their own.
    expected = {**refused, **dict.fromkeys(SMALL, ("released", "True"))}
    expected |= dict.fromkeys(("histogram", "means of groups"), ("InputError", "False"))
    assert found == expected, child.stderr
    assert found.keys() == calls(3).keys()


def asked_and_taken(name, dim, monkeypatch):
    """Bytes that a call asked for before the debit, and those that it took at most."""
    asked = []
    with monkeypatch.context() as patch:
        patch.setattr(session, "require_memory", lambda name, dim, needed: asked.append(needed))
        call = calls(dim)[name]
        ledger = ledger_for(name)
        tracemalloc.start()
        try:
            call(ledger=ledger)
            taken = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    return max(asked, default=0), taken


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in calls(3) if name not in SMALL])
def test_what_is_asked_for_is_enough(name, monkeypatch):
    asked_and_taken(name, 3, monkeypatch)  # modules and tables that stay
    asked, taken = asked_and_taken(name, 160, monkeypatch)
    assert 0 < taken <= asked


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SMALL)
def test_what_asks_for_nothing_takes_four_kilobytes_a_column(name, monkeypatch):
    asked_and_taken(name, 3, monkeypatch)
    asked, taken = asked_and_taken(name, 10_000, monkeypatch)
    assert not asked
    assert taken <= 4_000 * 10_000


@pytest.mark.filterwarnings("ignore")
def test_planted_fault_half_of_the_cells_is_seen(monkeypatch):
    asked_and_taken("counted columns", 3, monkeypatch)
    monkeypatch.setattr(column_means, "HELD", 2)
    asked, taken = asked_and_taken("counted columns", 160, monkeypatch)
    assert taken > asked
