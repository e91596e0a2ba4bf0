"""What every result can do, whichever class it has: JSON, repr, summary, data frame, HTML, pickle; and nobody can change it."""

import builtins
import dataclasses
import html
import importlib
import json
import pickle
import pkgutil
import re
from types import MappingProxyType

import numpy as np
import pytest
from every_result import MADE, ROWS, SECOND, STRONG, made
from helpers.errors import raises
from spies import seeded

import fastpubpriv as fpp
from fastpubpriv import ZCDP, ApproxDP, InputError, MeanResult, PureDP, estimate_mean, weighted_mean
from fastpubpriv.results import Reason
from fastpubpriv.results.base import Result, Value
from fastpubpriv.results.json_fields import plain
from fastpubpriv.results.reasons import STATUSES
from fastpubpriv.results.result_tables import percent

ABSTRACT = {
    "Comparable",
    "CountsByKey",
    "Drawn",
    "LinearModel",
    "Mixture",
    "OfCompleteRows",
    "OfGroups",
    "Result",
    "Value",
    "_Lists",
}


def below(kind):
    # A dataclass with slots is made twice; the class that was made first stays in the list of subclasses.
    return {kind, *(item for sub in kind.__subclasses__() for item in below(sub))}


def test_every_class_of_results_is_here():
    for module in pkgutil.walk_packages(fpp.__path__, "fastpubpriv."):
        if not module.name.endswith("_cext"):
            importlib.import_module(module.name)
    assert {
        kind.__name__ for kind in below(Value) if kind.__module__.startswith("fastpubpriv")
    } == {*MADE, *ABSTRACT}
    for name in MADE:
        assert type(made(name)).__name__ == name


@pytest.mark.parametrize(
    ("level", "words"), [(0.95, "95 %"), (0.9999, "99.99 %"), (0.99999, "0.99999")]
)
def test_a_level_is_never_rounded_to_certainty(level, words):
    assert percent(level) == words
    interval = dict(made("GaussianResult")._contents(level)[1])["Interval"]
    assert interval.startswith(f"{words}: ")


EVERY = pytest.mark.parametrize("name", MADE)
VALUES = {
    "AuditReport",
    "Ball",
    "ClusterTree",
    "ColumnReport",
    "Comparison",
    "EdgeRanks",
    "GaussianReport",
    "Histogram",
    "OrderBounds",
    "Plan",
    "Preconditioner",
}
RESULTS = pytest.mark.parametrize("name", [name for name in MADE if name not in VALUES])


@EVERY
def test_json_comes_back_whole(name, tmp_path):
    result = made(name)
    path = tmp_path / "r.json"
    text = result.to_json(path)
    assert path.read_text(encoding="utf-8") == text + "\n"
    assert json.loads(text) == result.to_dict()
    for given in (text, path, str(path), path.read_bytes()):
        again = type(result).from_json(given)
        assert again.to_json() == text
        assert repr(again) == repr(result)
        assert again.summary() == result.summary()
        assert getattr(again, "spent", None) == getattr(result, "spent", None)
    raises(
        InputError, "nor a file that can be read", type(result).from_json, tmp_path / "other.json"
    )
    raises(InputError, None, type(result).from_json, '{"kind": "Other"}')
    raises(InputError, None, type(result).from_json, json.dumps(result.to_dict() | {"more": 1}))


@RESULTS
def test_a_status_follows_from_reasons_which_json_checks(name):
    result = made(name)
    # The group of all other rows, which nobody named, has no rows: its reasons stay out.
    groups = len(getattr(result, "groups", ()))
    judged = (
        result.part_reasons[: -(len(result.part_reasons) // groups)]
        if groups
        else result.part_reasons
    )
    assert result.reasons == tuple(sorted({*result.reasons}.union(*judged), key=list(Reason).index))
    assert result.status == max(
        (each.level for each in result.reasons), key=STATUSES.index, default="ok"
    )
    assert len(result.part_status) == len(result.part_reasons)
    worse = dataclasses.replace(result, reasons=(Reason.POOR_FIT,))
    assert worse.status == "unreliable"
    assert "poor_fit" in worse.reasons
    assert type(result).from_json(worse.to_json()).reasons == worse.reasons
    data = worse.to_dict()
    raises(
        InputError, "does not follow", type(result).from_json, json.dumps(data | {"status": "ok"})
    )
    for words in (["new"], "poor_fit", [3]):
        raises(
            InputError,
            "known words|a list",
            type(result).from_json,
            json.dumps(data | {"reasons": words}),
        )
    if result.part_reasons:
        raises(
            InputError,
            None,
            type(result).from_json,
            json.dumps(data | {"part_reasons": [["wide"]] * 99}),
        )


@EVERY
def test_a_line_of_its_table_by_its_label(name):
    result = made(name)
    if type(result).__getitem__ is not Value.__getitem__:
        return  # histograms by their number, counts by their key
    frame = result.to_frame()
    first = result[frame.index[0]]
    label = "agee"
    assert list(first) == list(frame.columns)
    assert list(first.values()) == [plain(value) for value in frame.iloc[0].tolist()]
    raises(InputError, "is called 'agee'", result.__getitem__, label)
    raises(TypeError, None, iter, result)


@RESULTS
def test_repr_says_what_was_spent_and_that_a_seed_is_not_private(name):
    result = made(name)
    assert repr(result).startswith(f"{name}(")
    assert f"spent={result.spent!r}, private=False)" in repr(result)
    assert "private" not in repr(dataclasses.replace(result, private=True))
    assert len(repr(result)) < 200


@RESULTS
def test_a_summary_says_what_a_reader_must_know(name):
    result = made(name)
    text = result.summary()
    for part in (
        name,
        f"{result.n_priv:,} private",
        result.relation,
        "age",
        SECOND,
        "NO: the noise came from a seed",
    ):
        assert part in text, part
    assert ("rho" if isinstance(result.spent, ZCDP) else "epsilon") in text
    for label, source in result.provenance.items():
        assert f"{label} from {source}" in text
    assert result.status in text
    for reason in result.reasons:
        assert reason.value in text
        assert text.count(reason.sentence) == 1
    trusted = dataclasses.replace(result, private=True)
    assert "NO:" not in trusted.summary()
    assert "NO:" not in trusted._repr_html_()


@RESULTS
def test_the_first_fact_says_what_the_answers_are_about(name):
    result = made(name)
    facts = result._contents(0.95)[1]
    assert facts[0] == ("Answers about", result.about)
    assert [label for label, _ in facts].count("Answers about") == 1
    number = f"{result.n_priv:,}"
    assert number in result.about
    assert type(result).from_json(result.to_json()).about == result.about


@EVERY
def test_a_summary_has_the_numbers_of_the_frame(name):
    result = made(name)
    frame = result.to_frame()
    text = result.summary()
    assert len(frame) > 0
    # The parts of half-widths stand below the table, in fewer digits, and counts in a table of two columns without their ends.
    printed = frame.loc[:, ~frame.columns.str.startswith(("width_", "share"))]
    if name == "CountResult":
        printed = printed[["count"]]
    for value in [] if name == "Comparison" else printed.iloc[0].tolist():
        assert (f"{value:.6g}" if isinstance(value, float) else str(value)) in text
    if isinstance(result, Result):
        assert SECOND in [
            *map(str, frame.index),
            *frame.index.names,
            *(str(item) for item in frame.columns),
            *map(str, frame.to_numpy().ravel()),
        ] or (f"mean {SECOND}" in frame.columns)


@EVERY
def test_a_page_holds_no_tag_of_a_column_name(name):
    result = made(name)
    page = result._repr_html_()
    assert "<script" not in page
    assert set(re.findall(r"</?([a-z]+)", page)) <= {
        "div",
        "strong",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "p",
        "dl",
        "dt",
        "dd",
        "svg",
        "line",
        "circle",
        "text",
    }
    drawn = (
        "lower" in result.to_frame().columns and name != "CountResult"
    )  # which has two columns here
    assert ("<td><svg" in page) == drawn
    assert not re.search(r"='-?(nan|inf)", page)
    if isinstance(result, Result):
        assert html.escape(SECOND) in page
        assert "NO: the noise came from a seed" in page


def test_without_pandas_a_frame_is_refused_in_words(monkeypatch):
    real = builtins.__import__

    def absent(module, *args, **options):
        if module == "pandas":
            raise ImportError(module)
        return real(module, *args, **options)

    result = made("MeanResult")
    monkeypatch.setattr(builtins, "__import__", absent)
    raises(InputError, "pip install pandas", result.to_frame)


def held(value):
    """All that a field holds, at any depth."""
    yield value
    if isinstance(value, tuple):
        for item in value:
            yield from held(item)
    elif isinstance(value, MappingProxyType):
        for item in value.values():
            yield from held(item)


@EVERY
def test_nothing_in_a_result_or_its_copies_can_be_changed(name):
    first = made(name)
    for result in (
        first,
        pickle.loads(pickle.dumps(first)),
        type(first).from_json(first.to_json()),
    ):
        assert type(result) is type(first)
        assert result.to_dict() == first.to_dict()
        for field in dataclasses.fields(result):
            raises(dataclasses.FrozenInstanceError, None, setattr, result, field.name, None)
            for value in held(getattr(result, field.name)):
                assert not isinstance(value, list | dict | set)
                assert not isinstance(value, np.ndarray) or not value.flags.writeable


def test_what_was_given_can_change_and_the_result_does_not():
    given = {"radius": "argument"}
    inside = {"list": [1.0, [2.0]], "array": np.arange(3)}
    result = dataclasses.replace(made("MeanResult"), provenance=given, numerics=inside)
    before = result.to_json()
    given["radius"] = "x"
    inside["list"][1][0] = 5.0
    inside["array"][0] = 9
    inside["new"] = 1
    assert result.to_json() == before
    assert result.numerics["array"].dtype == np.int64


@pytest.mark.parametrize("name", ["GaussianResult", "MixtureResult", "SelectionResult"])
def test_densities_and_samples(name):
    result = dataclasses.replace(made(name), columns=None)
    rows = result.sample(2000, random_state=1)
    assert rows.shape == (2000, 2)
    assert np.array_equal(rows, result.sample(2000, random_state=1))
    assert result.sample(1).shape == (1, 2)
    # A density has integral one: its mean under a wider Gaussian, as weights of importance.
    wide = dataclasses.replace(
        made("GaussianResult"),
        columns=None,
        mean=rows.mean(axis=0),
        covariance=4.0 * np.cov(rows.T),
    )
    points = wide.sample(200_000, random_state=2)
    weights = np.exp(result.log_prob(points) - wide.log_prob(points))
    assert weights.mean() == pytest.approx(1.0, abs=6.0 * weights.std() / np.sqrt(len(weights)))


def test_a_selection_is_a_mixture_too():
    result = made("SelectionResult")
    for use in (result.log_prob, result.predict, result.predict_proba):
        assert np.array_equal(use(ROWS[:9]), getattr(result.mixture, use.__name__)(ROWS[:9]))
    assert np.array_equal(
        result.sample(5, random_state=1), result.mixture.sample(5, random_state=1)
    )


def test_the_density_of_a_histogram():
    item = made("HistogramResult")[0]
    middles = (item.lower + item.upper) / 2.0
    assert np.exp(item.log_prob(middles)) == pytest.approx(item.counts / item.counts.sum() / 1.0)
    # the upper end belongs to the bin
    assert item.log_prob(item.upper) == pytest.approx(item.log_prob(middles))
    assert np.all(np.isneginf(item.log_prob([[-1e9], [1e9]])))
    joint = seeded(
        fpp.stable_histogram,
        ROWS,
        budget=STRONG,
        bins=fpp.ProductBins(
            grids=[fpp.BinGrid(width=1.0), fpp.BinGrid(width=20.0)], columns=[0, 1]
        ),
    )[0]
    middles = (joint.lower + joint.upper) / 2.0
    assert np.exp(joint.log_prob(middles)) == pytest.approx(
        joint.counts / joint.counts.sum() / 20.0
    )
    corners = {tuple(key) for key in joint.keys.tolist()}
    hidden = middles[0] + [
        0.0,
        20.0
        * next(k for k in range(1, 99) if (joint.keys[0, 0], joint.keys[0, 1] + k) not in corners),
    ]
    assert np.isneginf(joint.log_prob(hidden[None]))[0]
    empty = dataclasses.replace(
        item,
        keys=item.keys[:0],
        counts=item.counts[:0],
        lower=item.lower[:0],
        upper=item.upper[:0],
        frequency=item.frequency[:0],
    )
    assert np.all(np.isneginf(empty.log_prob([[5.0]])))


# ---- Results: frozen, read-only, free of private content, and the same after JSON, pickle and copy ------------------
PRIVATE = np.random.default_rng(1).standard_normal((2500, 4)) * 7
PUBLIC = np.random.default_rng(2).standard_normal((6, 4)) * 7
BUDGETS = [ZCDP(0.5), ApproxDP(1, 1e-6), PureDP(1)]


def result_of(budget=BUDGETS[0], **options):
    return estimate_mean(PRIVATE, x_pub=PUBLIC, variance=49.0, budget=budget, **options)


def holds(blob, array):
    """How many values of `array` have their bytes in `blob`."""
    return sum(
        value.tobytes() in blob or value.byteswap().tobytes() in blob for value in array.ravel()
    )


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_pickle_holds_no_private_bytes(budget):
    for result in (
        result_of(budget),
        weighted_mean(PRIVATE, x_pub=PUBLIC, norm_bound=30.0, budget=budget),
    ):
        blob = pickle.dumps(result)
        assert holds(blob, PRIVATE) == 0
        assert holds(blob, result.mean) == 4  # control: the search finds what is there
        text = result.to_json() + repr(result)
        assert not any(repr(float(value)) in text for value in PRIVATE.ravel())
        assert repr(float(result.mean[0])) in text
    assert holds(pickle.dumps(PRIVATE[:3]), PRIVATE) == 12


def test_results_of_means_without_infinities_add_both_parts():
    result = MeanResult(
        n_priv=1,
        n_pub=0,
        dim=1,
        spent=ZCDP(1),
        private=True,
        mean=np.array([np.inf]),
        noise_std=np.array([np.nan]),
        sampling_std=np.zeros(1),
        noise_law="gaussian",
        numerics={"b": float("inf"), "a": np.float64(2)},
    )
    assert json.loads(result.to_json())["numerics"] == {"a": 2.0, "b": None}
    # Standard error adds all three parts.
    result = result_of()
    assert result.standard_error == pytest.approx(
        np.sqrt(result.noise_std**2 + result.sampling_std**2 + result.clipping_std**2)
    )
    assert result.sampling_std == pytest.approx(np.full(4, 7 / 50))


def test_a_prediction_leaves_out_columns_that_the_model_has_not():
    pandas = pytest.importorskip("pandas")
    pyarrow = pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {"size": rng.normal(size=900), "name": "text", "price": rng.normal(size=900)}
    )
    model = seeded(
        fpp.linear_regression,
        frame[100:],
        x_pub=frame[:100],
        columns=["size"],
        label="price",
        budget=ZCDP(1),
    )
    wanted = model.predict(frame[["size"]][:9])
    assert np.array_equal(model.predict(frame[:9]), wanted)
    assert np.array_equal(model.predict(pyarrow.Table.from_pandas(frame[:9])), wanted)
    raises(InputError, "has no column 'size'", model.predict, frame[["price", "name"]])
