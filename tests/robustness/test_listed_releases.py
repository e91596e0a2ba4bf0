"""The page of the book on what each function releases, compared with the releases of recorded calls."""

import re
from dataclasses import replace
from functools import partial
from math import isqrt
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from public_calls import CALLS, NOTIONS, quiet, spending_functions

import fastpubpriv as fpp
from fastpubpriv.mechanisms.person_keys import changed_cells
from fastpubpriv.release.transcript import recording
from fastpubpriv.session import Session
from fastpubpriv.training import SemiDP

PAGE = Path(__file__).resolve().parents[2] / "docs" / "evidence" / "releases.md"
TEXT = PAGE.read_text(encoding="utf-8")


def table(section: str) -> list[list[str]]:
    """Return the cells of the table in a section of the page, without its header."""
    _, *lines = [line for line in section.split("\n") if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def formulas(cell: str) -> list[str]:
    """Return the formulas in a cell of the table of mechanisms."""
    return re.findall(r"`([^`]+)`", cell)


def pattern_of(name: str) -> str:
    """Return a pattern of a name of the page, in which i, k and t stand for numbers."""
    return re.sub(r"\b[ikt]\b", r"\\d+", re.escape(name))


MECHANISMS = {}
for name, gaussian, laplace, *_ in table(TEXT.split("\n## ")[1]):
    MECHANISMS[name.strip("`")] = {"gaussian": formulas(gaussian), "laplace": formulas(laplace)}
OF_FUNCTIONS, OF_PERSONS = TEXT.split("\n## With `person=`")
PERSONS = table(OF_PERSONS)
LISTED = {}
for section in OF_FUNCTIONS.split("\n### ")[1:]:
    LISTED[section.split("`")[1]] = [*table(section), *PERSONS]

RNG = np.random.default_rng(5)
NUMBERS = RNG.normal(size=(3_000, 3))
HEAVY = RNG.standard_cauchy(size=(20_000, 3))
CLASSES = np.column_stack([NUMBERS[:, :2], RNG.integers(0, 3, 3_000)])
TWO_CLASSES = np.column_stack([NUMBERS[:, :2], RNG.integers(0, 2, 3_000)])
WIDE = RNG.normal(size=(5_000, 30))
WIDE_CLASSES = np.column_stack([WIDE, WIDE[:, 0] > 0.0])
WEIGHED = pd.DataFrame({"u": NUMBERS[:, 0], "y": NUMBERS[:, 1], "w": RNG.random(3_000)})
BOUGHT = WEIGHED.assign(y=(WEIGHED["y"] > 0.0) * 1.0)
VISITS = pd.DataFrame(
    {
        "person": RNG.integers(0, 300, 3_000),
        "days": NUMBERS[:, 0],
        "ward": RNG.choice(list("abcdefghij"), 3_000),
    }
)
NEAR = RNG.normal(size=(40_000, 2)) + 8.0 * RNG.integers(0, 2, (40_000, 1))
FAR = NUMBERS[:, :2] + [1e6, 0.0]
BY_WARD = {"person": "person", "by": "ward", "groups": list("abcdefghij")}
DAYS = VISITS[["person", "days"]]
DAYS_OF_WARDS = VISITS[["days", "ward"]]
MEAN_OF_DAYS = {"x_pub": VISITS[["days"]][:9], "person": "person"}
BY_WEIGHT = {"label": "y", "weights_pub": "w", "weights_priv": "w", "weight_cap": 1.0}
# Arguments that lead to releases which no call of `public_calls` makes.
MORE = {
    "weighted_mean, auto": (
        fpp.weighted_mean,
        NUMBERS,
        {"x_pub": NUMBERS[:9], "norm_bound": "auto"},
    ),
    "coinpress_mean, auto": (fpp.coinpress_mean, NUMBERS, {"center": 0.0, "radius": "auto"}),
    "estimate_mean, far": (fpp.estimate_mean, FAR, {"x_pub": FAR[:3] - [300.0, 0.0]}),
    "estimate_mean, persons": (fpp.estimate_mean, DAYS, {**MEAN_OF_DAYS, "rows_per_person": 3}),
    "estimate_mean, auto rows": (
        fpp.estimate_mean,
        DAYS,
        {**MEAN_OF_DAYS, "rows_per_person": "auto"},
    ),
    "quantiles, groups": (
        fpp.quantiles,
        DAYS_OF_WARDS,
        {"x_pub": DAYS_OF_WARDS[:60], "by": "ward"},
    ),
    "describe, texts": (fpp.describe, DAYS_OF_WARDS, {"x_pub": DAYS_OF_WARDS[:9]}),
    "value_counts, texts": (fpp.value_counts, VISITS[["ward"]], {}),
    "count_persons, auto": (fpp.count_persons, VISITS, BY_WARD),
    "count_persons, few": (fpp.count_persons, VISITS, {**BY_WARD, "keys_per_person": 2}),
    "private_pca, tail": (fpp.private_pca, HEAVY, {"x_pub": HEAVY[:9], "n_components": 1}),
    "estimate_gaussian, tail": (fpp.estimate_gaussian, HEAVY, {"x_pub": HEAVY[:9]}),
    "estimate_gaussian, constant": (
        fpp.estimate_gaussian,
        RNG.normal(size=(50_000, 3)),
        {"x_pub": [[0, 1, 2.0], [0, 2, 4], [0, 1, 3], [0, 0.3, 1]]},
    ),
    "train, softmax": (
        fpp.train,
        CLASSES,
        {"x_pub": CLASSES[:60], "label": -1, "loss": "softmax", "method": "newton"},
    ),
    "train, wide": (
        fpp.train,
        WIDE,
        {"x_pub": WIDE[:3], "label": -1, "loss": "squared", "method": "newton"},
    ),
    "train, sampled": (
        fpp.train,
        NUMBERS,
        {
            "x_pub": NUMBERS[:60],
            "label": -1,
            "loss": "squared",
            "method": SemiDP(sampling="poisson", batch_rows=300),
        },
    ),
    "linear_regression, unlabeled": (
        fpp.linear_regression,
        WEIGHED[["u", "y"]],
        {"x_pub": WEIGHED[["u"]][:60], "label": "y"},
    ),
    "linear_regression, weights": (
        fpp.linear_regression,
        WEIGHED,
        {"x_pub": WEIGHED[:60], **BY_WEIGHT},
    ),
    "logistic_regression, unlabeled": (
        fpp.logistic_regression,
        TWO_CLASSES,
        {"x_pub": TWO_CLASSES[:60, :2], "label": -1, "classes": [0, 1]},
    ),
    "logistic_regression, weights": (
        fpp.logistic_regression,
        BOUGHT,
        {"x_pub": BOUGHT[:60], **BY_WEIGHT},
    ),
    "logistic_regression, wide": (
        fpp.logistic_regression,
        WIDE_CLASSES,
        {"x_pub": WIDE_CLASSES[:4], "label": -1, "classes": [0, 1], "method": "newton"},
    ),
    "linear_regression, wide": (
        fpp.linear_regression,
        WIDE,
        {"x_pub": WIDE[:3], "label": -1, "method": "newton"},
    ),
    "logistic_regression, little noise": (
        fpp.logistic_regression,
        TWO_CLASSES,
        {"x_pub": TWO_CLASSES[:600], "label": -1, "budget": fpp.ZCDP(1_000)},
    ),
    "train, little noise": (
        fpp.train,
        TWO_CLASSES,
        {
            "x_pub": TWO_CLASSES[:600],
            "label": -1,
            "loss": "logistic",
            "method": "newton",
            "budget": fpp.PureDP(40),
        },
    ),
    "train, Huber": (
        fpp.train,
        WEIGHED,
        {"x_pub": WEIGHED[:60], "loss": "huber", "method": "newton", **BY_WEIGHT},
    ),
    "train, unlabeled": (
        fpp.train,
        WEIGHED[["u", "y"]],
        {"x_pub": WEIGHED[["u"]][:60], "label": "y", "loss": "huber", "method": "newton"},
    ),
    "learn_separated_mixture, no public rows": (
        fpp.learn_separated_mixture,
        NEAR,
        {"n_components": 2},
    ),
    "learn_separated_mixture, bounds": (
        fpp.learn_separated_mixture,
        NEAR,
        {"n_components": 2, "bounds": (-50, 50)},
    ),
    "learn_axis_aligned_mixture, no public rows": (
        fpp.learn_axis_aligned_mixture,
        NEAR,
        {"n_components": 2},
    ),
}
NEEDS_A_DELTA = {
    "value_counts, texts",
    "train, sampled",
    "learn_separated_mixture, no public rows",
    "learn_axis_aligned_mixture, no public rows",
}


def apart(value):
    """Return public rows in memory of their own."""
    return value.copy() if hasattr(value, "copy") else value


def recorded(call):
    """Return the measurements of a call and the records of their releases, side by side."""
    measurements = []
    honest = Session.release

    def release(self, measurement, **options):
        measurements.append(measurement)
        return honest(self, measurement, **options)

    with recording() as transcript, mock.patch.object(Session, "release", release):
        call()
    return list(zip(measurements, transcript.calls, strict=True))


def calls(function):
    """Return the calls of a function, by their names and notions."""
    found = {}
    for name, call in CALLS.items():
        if call.function.__name__ == function and not call.heavy:
            for notion in call.notions:
                found[f"{name} [{notion}]"] = partial(call, budget=NOTIONS[notion])
    for name, (called, rows, options) in MORE.items():
        if called.__name__ != function:
            continue
        public = {key: apart(value) for key, value in options.items()}
        for notion in notions_of(name, options):
            given = {"budget": NOTIONS[notion], "threads": 1, "progress": False, **public}
            found[f"{name} [{notion}]"] = partial(quiet, called, rows, **given)
    return found


def notions_of(name, options):
    """Return the notions that a call of `MORE` is made with; one whose budget is given has no other."""
    if name in NEEDS_A_DELTA:
        return ["approx"]
    if "budget" in options:
        return ["zcdp"]
    return ["zcdp", "pure"]


def is_of(row, name, mechanism):
    """Return whether a row of the page is about releases of this name and mechanism."""
    return row[1] == f"`{mechanism}`" and re.fullmatch(pattern_of(row[0]), name) is not None


def listed(function, name, mechanism):
    """Return whether the page lists a release of the function, by its name and mechanism."""
    return any(is_of(row, name, mechanism) for row in LISTED[function])


def side_of(shape):
    """Return D of an array of matrices (..., D, D), or of their upper triangles (..., D (D + 1) / 2)."""
    if len(shape) > 1 and shape[-1] == shape[-2]:
        return shape[-1]
    return (isqrt(8 * shape[-1] + 1) - 1) // 2


def counts_of(measurement, shape):
    """Return the numbers c, D and W of a measurement whose query has this shape."""
    kind = type(measurement).__name__
    if kind == "WithCompleteRows":
        return {"D": measurement.total.affine.out_dim}
    if kind == "StatisticSum":
        parts = 1 if measurement.part_of is None else int(measurement.part_of.max()) + 1
        return {"D": measurement.dim, "W": measurement.dim // parts}
    if kind == "CellCounts":
        groups = measurement.groups
        if groups is not None and groups.own:
            return {"c": len(measurement.edges) // groups.number}
        return {"c": len(measurement.edges)}
    if kind == "PersonKeys":
        return {"c": changed_cells(measurement.keys_per_person, measurement.cells)}
    if kind in {"SignedCells", "NoisyScores"}:
        return {"c": shape[0]}
    if kind == "GroupMoments":
        return {"c": shape[1]}
    if kind == "CodeCounts":
        return {"c": len(measurement.cells)}
    if kind == "RadialPieces":
        return {"D": measurement.affine.out_dim}
    if kind == "LeafSums":
        return {"D": shape[-1]}
    if kind in {"SecondMoment", "MomentPieces", "SoftGrams", "LeafSecondMoments"}:
        return {"D": side_of(shape)}
    return {"D": int(np.prod(shape))}


def solved(formula, moved, counts):
    """Return whether a whole number of grid steps makes the formula equal to `moved`."""
    spelled = re.sub(r"(?<=[\w)]) (?=[\w(])", " * ", formula.replace("^", "**"))
    code = compile(spelled, formula, "eval")

    def value(steps):
        return eval(code, {**counts, "Q": steps, "S": steps, "isqrt": isqrt})

    low = 0
    high = 2**63
    while low + 1 < high:
        steps = (low + high) // 2
        if value(steps) <= moved:
            low = steps
        else:
            high = steps
    return value(low) == moved


def has_other_steps(measurement):
    """Return whether squares and counts in the same pass add what has other steps."""
    mechanism = type(measurement).__name__
    if mechanism == "RadialPieces":
        return measurement.squares or measurement.counts
    return mechanism == "CountedMoment"


def unlisted(function, releases):
    """Return the releases that the page does not list, or lists with another sensitivity."""
    wrong = []
    for measurement, record in releases:
        mechanism = type(measurement).__name__
        if not listed(function, record.name, mechanism):
            wrong.append(f"{record.name}: {mechanism}")
        law = getattr(record.event, "law", None)
        possible = MECHANISMS.get(mechanism, {}).get(law, [])
        if not possible or has_other_steps(measurement):
            continue
        counts = counts_of(measurement, record.public_shape)
        if not any(solved(formula, record.event.worst, counts) for formula in possible):
            wrong.append(f"{record.name}: {mechanism} moves by {record.event.worst}, {counts}")
    return wrong


# Releases that take very many rows, or numbers that hardly occur.
UNSEEN = {
    ("estimate_gaussian", "group agreement"),
    ("estimate_gaussian", "logarithm of the center, round i of t"),
    ("describe", "new centers"),
    ("learn_axis_aligned_mixture", "matching_modes"),
    ("learn_axis_aligned_mixture", "means"),
    ("learn_axis_aligned_mixture", "choice"),
    ("learn_axis_aligned_mixture", "guard"),
    ("learn_axis_aligned_mixture", "start"),
    ("logistic_regression", "mean of the rows"),
    ("logistic_regression", "norms of scores and two pieces of scores"),
    ("train", "norms of scores and two pieces of scores and their squares"),
    ("learn_separated_mixture", "combinations"),
    ("learn_separated_mixture", "matching_modes"),
}


def is_expected(function, row):
    """Return whether the calls must make the release that a row of the page is about."""
    return (function, row[0]) not in UNSEEN and row not in PERSONS and "again" not in row[0]


@pytest.mark.parametrize("function", LISTED)
def test_every_release_is_listed_with_its_sensitivity(function):
    """And every release that is listed is made."""
    made = set()
    for case, call in calls(function).items():
        releases = recorded(call)
        assert unlisted(function, releases) == [], case
        made |= {(record.name, type(measurement).__name__) for measurement, record in releases}
    for row in LISTED[function]:
        if is_expected(function, row):
            assert any(is_of(row, name, mechanism) for name, mechanism in made), row[:2]


def test_every_function_that_reads_private_rows_is_listed():
    functions = {name.rpartition(".")[2] for name in spending_functions()}
    assert functions - {"persons"} == set(LISTED)


def releases_of_a_mean():
    return recorded(calls("weighted_mean")["weighted_mean [zcdp]"])


def test_a_release_that_is_not_listed_is_noticed():
    """Planted fault: a release of another name."""
    ((measurement, record),) = releases_of_a_mean()
    renamed = replace(record, name="sum of squares")
    assert unlisted("weighted_mean", [(measurement, record)]) == []
    found = unlisted("weighted_mean", [(measurement, renamed)])
    assert found == ["sum of squares: WithCompleteRows"]


def test_a_wrong_sensitivity_is_noticed():
    """Planted fault: rows that move a sum by one radius in place of two."""
    ((measurement, record),) = releases_of_a_mean()
    honest = record.event.squared_sensitivity
    halved = replace(record.event, squared_sensitivity=honest // 4 + 1)
    assert unlisted("weighted_mean", [(measurement, replace(record, event=halved))]) != []


def test_a_wrong_formula_of_the_page_is_noticed():
    ((measurement, record),) = releases_of_a_mean()
    wrong = {"gaussian": ["3 Q^2"], "laplace": []}
    with mock.patch.dict(MECHANISMS, {"WithCompleteRows": wrong}):
        assert unlisted("weighted_mean", [(measurement, record)]) != []
