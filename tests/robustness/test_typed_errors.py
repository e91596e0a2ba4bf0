"""Whatever is passed by mistake, the answer is an error of this library that says what to pass: never a raw one."""

import builtins
import contextlib
import inspect
import io
import json
import math
import os
import re
import warnings
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from every_result import MADE, made
from helpers.errors import raises, shown
from public_calls import CALLS, NOTIONS

import fastpubpriv as fpp
from fastpubpriv import ApproxDP, ClusterTree, FastPubPrivError, InputError, Rows
from fastpubpriv.privacy import Budget, Cost
from fastpubpriv.sources import private_rows
from fastpubpriv.sources.open import public_rows

RNG = np.random.default_rng(6)
X = RNG.normal(size=(1500, 2))
PUBLIC = RNG.normal(size=(60, 2))
SECRET = "Alice-SSN-123"


WRONG = [
    5, None, 1.5, math.nan, True, b"x.npy", [], (), {}, object(), lambda: 0, "a\0b", "\ud800.npy",
    *("a\0b" + suffix for suffix in (".npy", ".parquet", ".csv", ".feather", ".arrow", ".csv.gz")),
    *("x" * 5000 + suffix for suffix in (".npy", ".parquet", ".csv", ".feather")),
    ["a\0.parquet"], [b"a.parquet"], [Path("a.parquet"), 5], np.array("x.npy"), Path("no.npy"), type("P", (), {}),
]  # fmt: skip
READERS = [private_rows, public_rows, Rows.from_csv]


@pytest.mark.parametrize("wrong", WRONG, ids=shown)
@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_rows_of_anything(read, wrong):
    raises(InputError, None, read, wrong)


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_a_directory_is_no_file(read, tmp_path):
    for suffix in (".npy", ".parquet", ".arrow", ".csv"):
        (tmp_path / f"d{suffix}").mkdir(exist_ok=True)
        raises(InputError, "is a directory", read, tmp_path / f"d{suffix}")


@pytest.mark.parametrize(
    "columns",
    [
        5,
        math.nan,
        True,
        "b",
        b"a",
        {"a"},
        {"a": 1},
        [["a"]],
        [{}],
        [math.nan],
        [None],
        lambda: 0,
        ["a", "a"],
    ],
)
def test_columns_of_rows(columns):
    frame = pd.DataFrame({"a": [1.0, 2.0]})
    for source in (frame, private_rows(frame), X, [frame.to_dict()]):
        raises(InputError, None, private_rows, source, columns=columns)


@pytest.mark.parametrize("number", [-1, 2.0, math.nan, "5", [1], True])
def test_ranges_of_rows(number):
    rows = private_rows(X)
    for call in (
        lambda: list(rows.chunks(number, 9)),
        lambda: list(rows.chunks(0, number)),
        lambda: list(rows.chunks(0, 9, number)),
        lambda: rows.slice(0, number),
        lambda: Rows.from_chunks(lambda: [], n=number, dim=2),
        lambda: Rows.from_chunks(lambda: [], n=2, dim=number),
    ):
        raises(InputError, None, call)


def test_files_without_permission(tmp_path, monkeypatch):
    """As far as Python opens them, since a test may run as the one user whom nothing is forbidden."""
    table = pa.table({"a": [1.0, 2.0]})
    real = builtins.open
    pa.feather.write_feather(table, str(tmp_path / "t.feather"))
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    np.save(tmp_path / "t.npy", X)

    def forbidden(name, *args, **options):
        if str(name).startswith(str(tmp_path)):
            raise PermissionError(13, "Permission denied", SECRET)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "open", forbidden)
    monkeypatch.setattr(io, "open", forbidden)
    for path in tmp_path.iterdir():
        if os.geteuid() != 0:
            path.chmod(0)
        elif path.suffix == ".parquet":
            continue  # opened by Arrow itself
        for read in (private_rows, public_rows):
            assert SECRET not in str(raises(InputError, "cannot be read", read, path))


@pytest.mark.parametrize("suffix", ["arrow", "feather", "parquet"])
def test_column_names_that_are_not_utf8(suffix, tmp_path):
    name = "Alice_SSN"
    table = pa.table({name: [1.0, 2.0], "b": [3.0, 4.0]})
    path = tmp_path / f"t.{suffix}"
    if suffix == "parquet":
        pa.parquet.write_table(table, path, store_schema=False)
    else:
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
    content = path.read_bytes()
    assert name.encode() in content
    path.write_bytes(content.replace(name.encode(), b"Alice\xff\xfeSN"))
    for read in (private_rows, public_rows):
        caught = raises(InputError, "cannot be read", read, path)
        assert "Alice" not in str(caught)
        assert caught.__context__ is None


FUNCTIONS = {call.function: call for name, call in reversed(CALLS.items()) if "groups" not in name}


@pytest.mark.parametrize("call", FUNCTIONS.values(), ids=lambda call: call.function.__name__)
def test_types_of_words_are_what_is_accepted(call):
    defaults = {
        name: each.default for name, each in inspect.signature(call.function).parameters.items()
    }
    for name, hint in get_type_hints(call.function).items():
        kinds = [kind for kind in (hint, *get_args(hint)) if get_origin(kind) is Literal]
        for kind in kinds:
            error = raises(
                InputError, "typo", call, budget=NOTIONS[call.notions[0]], **{name: "typo"}
            )
            assert set(re.findall(r"'(\w+)'", str(error))) == {*get_args(kind), "typo"}
        assert kinds or not isinstance(defaults.get(name), str)


NOT_ROWS = [
    None, 5, "x", SECRET, [[SECRET, 1.0]], [["1", "2"]], {"a": 1}, [[1.0], [1.0, 2.0]], X.astype(complex), X[:, :1], X[None],
    np.array([[SECRET, "b"]]), pd.DataFrame({"a": [SECRET], "b": [1.0]}), object(), private_rows(X), [[None, {}]], lambda: 0,
]  # fmt: skip


@pytest.mark.parametrize("rows", NOT_ROWS, ids=shown)
def test_results_at_what_are_no_rows(rows):
    found = made("MixtureResult")
    tree = made("ClusterTree")
    for method in (
        made("GaussianResult").log_prob,
        found.predict,
        found.predict_proba,
        found.log_prob,
        made("PCAResult").transform,
        tree.assign,
        lambda x: tree.members(x, 0),
    ):
        assert SECRET not in str(raises(InputError, None, method, rows))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, None])
def test_rows_that_are_not_finite(bad):
    found = made("MixtureResult")
    rows = [[1.0, 2.0], [bad, 3.0]]
    for method in (
        made("GaussianResult").log_prob,
        found.predict,
        found.predict_proba,
        found.log_prob,
    ):
        raises(InputError, "must be finite", method, rows)
    assert made("ClusterTree").assign(rows)[1] == -1
    assert not np.isfinite(made("PCAResult").transform(rows)[1]).any()


# trees: see below
each_reader = pytest.mark.parametrize("name", [name for name in MADE if name != "ClusterTree"])
USES = {
    "GaussianResult": [
        lambda r: r.log_prob(X[:3]), lambda r: r.sample(2), lambda r: r.confidence_ellipse(),
        lambda r: r.correlation,
        lambda r: [r.confidence_interval(of=kind) for kind in ("mean", "standard_deviation", "covariance")],
    ],
    "PCAResult": [lambda r: r.confidence_interval()],
    "MixtureResult": [
        lambda r: r.predict(X[:3]), lambda r: r.log_prob(X[:3]), lambda r: r.sample(2), lambda r: r.variances,
    ],
    "HistogramResult": [lambda r: r.count_error(), lambda r: len(r[0].keys), lambda r: r[0].log_prob(X[:3, :1])],
}  # fmt: skip
SHOWN = [repr, lambda r: r.summary(), lambda r: r._repr_html_(), lambda r: r.to_frame()]
JUNK = [
    None, True, 0, -1, 7, 1.5, 1e300, 10**400, "", SECRET, [], [[]], [1.0], ["a"], [None], [[1.0, 2.0], [3.0]], {}, {"a": 1},
    [{}], [[True, False], [False, True]],
]  # fmt: skip


def places(value, path=()):
    yield path
    for key, item in (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    ):
        yield from places(item, (*path, key))


def changed(value, path, *new):
    """A copy with something new at a place; or without what is there."""
    if not path:
        return new[0]
    copy = dict(value) if isinstance(value, dict) else list(value)
    if new or path[1:]:
        copy[path[0]] = changed(copy[path[0]], path[1:], *new)
    else:
        del copy[path[0]]
    return copy


def read_and_used(kind, text, uses):
    """True if the text is read; then its uses are answers or errors of this library."""
    try:
        found = kind.from_json(text)
    except FastPubPrivError:
        return False
    for use in uses:
        with contextlib.suppress(FastPubPrivError):
            use(found)
    assert kind.from_json(found.to_json()).to_json() == found.to_json()
    return True


def small(name):
    """The dictionary of a result without most of what was noted about its releases: the fuzz repeats itself there."""
    data = json.loads(made(name).to_json())
    if "releases" in data:
        data["releases"] = data["releases"][:1]
    for field in data.keys() & {"diagnostics", "numerics"}:
        data[field] = {"a": 1.0}
    return data


@each_reader
def test_json_with_one_field_changed(name):
    data = small(name)
    rng = np.random.default_rng(1)
    kind = type(made(name))
    uses = [*USES.get(name, ()), *SHOWN]
    assert read_and_used(kind, json.dumps(data), uses)
    read = 0
    with warnings.catch_warnings(action="ignore"):
        for place in places(data):
            some = range(len(JUNK)) if len(place) < 2 else rng.choice(len(JUNK), 2, replace=False)
            for index in some:
                read += read_and_used(kind, json.dumps(changed(data, place, JUNK[index])), uses)
            if place:
                read += read_and_used(kind, json.dumps(changed(data, place)), uses)
        for extra in ("more", "kind ", SECRET * 99):
            assert not read_and_used(kind, json.dumps(data | {extra: 1}), uses)
    assert read > 0  # another price, say


NOT_JSON = [
    5, None, 1.5, [], {}, Path("x.json"), object(), bytearray(b"{}"), b"\xff\xfe", "", "null", "[]", "5", "[" * 100_000,
    '{"a":' * 50_000, "1" * 10_000, "NaN", '{"kind": NaN}', '{"kind": ["a"]}', '{"kind": {}}',
]  # fmt: skip


@each_reader
def test_json_texts_that_are_damaged(name):
    result = made(name)
    text = result.to_json()
    rng = np.random.default_rng(2)
    kind = type(result)
    uses = [*USES.get(name, ()), *SHOWN]
    for wrong in NOT_JSON:
        raises(InputError, None, kind.from_json, wrong)
    for _ in range(60):
        cut = int(rng.integers(len(text)))
        raises(InputError, None, kind.from_json, text[:cut])
        damaged = bytearray(text.encode())
        for place in rng.integers(len(damaged), size=3):
            damaged[place] = int(rng.integers(256))
        read_and_used(kind, bytes(damaged), uses)
    for other in MADE.keys() - {name, "ClusterTree"}:
        raises(InputError, "is not a", kind.from_json, made(other).to_json())


def test_dictionaries_of_trees_and_budgets():
    tree = ClusterTree.root(2).split_ball(
        0, origin=[0.0, 0.0], projection=None, center=[1.0, 1.0], radius=2.0
    )
    readers = [(ClusterTree.from_dict, tree.to_dict())]
    for budget in (fpp.ZCDP(0.5), ApproxDP(1, 1e-6), fpp.PureDP(1)):
        readers += [(Budget.from_dict, budget.to_dict()), (Cost.from_dict, budget.cost.to_dict())]
    for read, good in readers:
        data = json.loads(json.dumps(good))
        read(data)
        for place in places(data):
            for junk in JUNK:
                wrong = [changed(data, place, junk)] + ([changed(data, place)] if place else [])
                for item in wrong:
                    with contextlib.suppress(FastPubPrivError):
                        read(item)
