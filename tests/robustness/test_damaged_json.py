"""Results, trees and budgets read from damaged JSON: an answer or an error of this library, never a raw one."""

import contextlib
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from every_result import MADE, made
from helpers.errors import raises

import fastpubpriv as fpp
from fastpubpriv import ClusterTree, FastPubPrivError, InputError
from fastpubpriv.privacy import Budget, Cost

X = np.random.default_rng(6).normal(size=(1500, 2))
SECRET = "Alice-SSN-123"
# Trees have no JSON of their own.
READ = [name for name in MADE if name != "ClusterTree"]
each_reader = pytest.mark.parametrize("name", READ)
INTERVALS = ("mean", "standard_deviation", "covariance")
# What is asked of a result that was read, beside its texts.
USES = {
    "GaussianResult": [
        lambda result: result.log_prob(X[:3]),
        lambda result: result.sample(2),
        lambda result: result.confidence_ellipse(),
        lambda result: result.correlation,
        lambda result: [result.confidence_interval(of=kind) for kind in INTERVALS],
    ],
    "PCAResult": [lambda result: result.confidence_interval()],
    "MixtureResult": [
        lambda result: result.predict(X[:3]),
        lambda result: result.log_prob(X[:3]),
        lambda result: result.sample(2),
        lambda result: result.variances,
    ],
    "HistogramResult": [
        lambda result: result.count_error(),
        lambda result: len(result[0].keys),
        lambda result: result[0].log_prob(X[:3, :1]),
    ],
}
TEXTS = [
    repr,
    lambda result: result.summary(),
    lambda result: result._repr_html_(),
    lambda result: result.to_frame(),
]
JUNK = [
    None,
    True,
    0,
    -1,
    7,
    1.5,
    1e300,
    10**400,
    "",
    SECRET,
    [],
    [[]],
    [1.0],
    ["a"],
    [None],
    [[1.0, 2.0], [3.0]],
    {},
    {"a": 1},
    [{}],
    [[True, False], [False, True]],
]


def places(value, path=()):
    """The paths to all values of a dictionary, at any depth."""
    yield path
    items = {}
    if isinstance(value, dict):
        items = value
    elif isinstance(value, list):
        items = dict(enumerate(value))
    for key, item in items.items():
        yield from places(item, (*path, key))


def replaced(value, path, new):
    """A copy with something new at a place."""
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = replaced(copy[path[0]], path[1:], new)
    return copy


def without(value, path):
    """A copy without what is at a place."""
    copy = value.copy()
    first, *rest = path
    if rest:
        copy[first] = without(copy[first], rest)
    else:
        del copy[first]
    return copy


def read_and_used(kind, text, uses):
    """Whether the text is read; then its uses are answers or errors of this library."""
    try:
        found = kind.from_json(text)
    except FastPubPrivError:
        return False
    for use in uses:
        with contextlib.suppress(FastPubPrivError):
            use(found)
    again = kind.from_json(found.to_json())
    assert again.to_json() == found.to_json()
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
    kind = type(made(name))
    uses = [*USES.get(name, ()), *TEXTS]
    rng = np.random.default_rng(1)
    assert read_and_used(kind, json.dumps(data), uses)
    read = 0
    with warnings.catch_warnings(action="ignore"):
        for place in places(data):
            junk = range(len(JUNK)) if len(place) < 2 else rng.choice(len(JUNK), 2, replace=False)
            wrong = [replaced(data, place, JUNK[index]) for index in junk]
            if place:
                wrong.append(without(data, place))
            read += sum(read_and_used(kind, json.dumps(item), uses) for item in wrong)
    assert read > 0  # another price, say


@each_reader
@pytest.mark.parametrize("extra", ["more", "kind ", SECRET * 99])
def test_json_with_one_field_more(name, extra):
    data = small(name) | {extra: 1}
    raises(FastPubPrivError, None, type(made(name)).from_json, json.dumps(data))


NOT_JSON = [
    5,
    None,
    1.5,
    [],
    {},
    Path("x.json"),
    object(),
    bytearray(b"{}"),
    b"\xff\xfe",
    "",
    "null",
    "[]",
    "5",
    "[" * 100_000,
    '{"a":' * 50_000,
    "1" * 10_000,
    "NaN",
    '{"kind": NaN}',
    '{"kind": ["a"]}',
    '{"kind": {}}',
]


@each_reader
def test_what_is_no_json(name):
    for wrong in NOT_JSON:
        raises(InputError, None, type(made(name)).from_json, wrong)


@each_reader
def test_json_texts_that_are_damaged(name):
    result = made(name)
    text = result.to_json()
    kind = type(result)
    uses = [*USES.get(name, ()), *TEXTS]
    rng = np.random.default_rng(2)
    for _ in range(60):
        cut = int(rng.integers(len(text)))
        raises(InputError, None, kind.from_json, text[:cut])
        damaged = bytearray(text.encode())
        for place in rng.integers(len(damaged), size=3):
            damaged[place] = int(rng.integers(256))
        read_and_used(kind, bytes(damaged), uses)


@each_reader
def test_json_of_another_result(name):
    kind = type(made(name))
    for other in READ:
        if other != name:
            raises(InputError, "is not a", kind.from_json, made(other).to_json())


BALL = {"origin": [0.0, 0.0], "projection": None, "center": [1.0, 1.0], "radius": 2.0}
TREE = ClusterTree.root(2).split_ball(0, **BALL)
BUDGETS = [fpp.ZCDP(0.5), fpp.ApproxDP(1, 1e-6), fpp.PureDP(1)]
DICTIONARIES = [
    (ClusterTree.from_dict, TREE.to_dict()),
    *[(Budget.from_dict, budget.to_dict()) for budget in BUDGETS],
    *[(Cost.from_dict, budget.cost.to_dict()) for budget in BUDGETS],
]


@pytest.mark.parametrize(("read", "good"), DICTIONARIES)
def test_dictionaries_of_trees_and_budgets(read, good):
    data = json.loads(json.dumps(good))
    read(data)
    for place in places(data):
        wrong = [replaced(data, place, junk) for junk in JUNK]
        if place:
            wrong.append(without(data, place))
        for item in wrong:
            with contextlib.suppress(FastPubPrivError):
                read(item)
