"""The commands of estimators: what they print, write and refuse. What they estimate is tested where the estimators are."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_cases import said, typed

from benchmarks.papers.mixture_cases import CASES
from fastpubpriv import (
    CountResult,
    Description,
    GroupMeans,
    GroupQuantiles,
    HistogramResult,
    Ledger,
    PersonCounts,
    QuantileResult,
)

MIX = np.array([[2.0, 0.0, 0.0], [1.0, 0.5, 0.0], [0.0, 3.0, 7.0]])
CENTERS = np.array([[0.0, 0.0], [30.0, 0.0], [0.0, 40.0]])
FLIGHTS = "--private flights.parquet --public few.parquet"
FILES = {
    "gaussian": "--private rows.npy --public few.npy",
    "mixture": "--private groups.npy --public few_groups.npy",
    "axis-mixture": "--private line.npy",
    "histogram": "--private flights.parquet",
    "quantiles": FLIGHTS,
    "describe": FLIGHTS,
    "mean": FLIGHTS,
    "counts": "--private flights.parquet",
    "persons": "--private flights.parquet",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("commands")
    rng = np.random.default_rng(0)
    arrays = {
        "rows": rng.normal(size=(20_000, 3)) @ MIX.T + 5.0,
        "few": rng.normal(size=(12, 3)) @ MIX.T + 5.0,
        "one": np.zeros((1, 3)),
        "groups": CENTERS[np.arange(20_000) % 3] + rng.normal(size=(20_000, 2)),
        "few_groups": CENTERS[np.arange(15) % 3] + rng.normal(size=(15, 2)),
        "line": 1e6 + CASES["two"].draw(rng, 10_000),
        "few_line": 1e6 + CASES["two"].draw(rng, 60),
    }
    for name, rows in arrays.items():
        np.save(made / f"{name}.npy", rows)
    delays = {
        "delay": rng.exponential(20.0, 5000).round(),
        "name": "Alice-SSN-123",
        "carrier": rng.choice(["UA", "B6", "EV"], 5000, p=[0.5, 0.3, 0.2]),
        "distance": rng.normal(1e6, 3.0, 5000),
    }
    few = {"delay": [7.0, 12.0], "distance": [1e6, 1e6 + 1.0]}
    pd.DataFrame(delays).to_parquet(made / "flights.parquet")
    pd.DataFrame(few).to_parquet(made / "few.parquet")
    return made


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)


def call(command, line, *more, code=0):
    """What a command with its files and this line ends in."""
    return typed(f"{command} {FILES[command]} {line}", *more, code=code)


def refusal(command, line, *more):
    """The words of a command that is refused."""
    return said(call(command, line, *more, code=2))


def answer(command, line):
    return json.loads(call(command, f"{line} --quiet --json -").stdout)


def result_in(data, kind):
    """The result in what a command has written."""
    derived = ("warnings", "confidence_interval", "published", "comparisons")
    own = {name: value for name, value in data.items() if name not in derived}
    return kind.from_json(json.dumps(own))


@pytest.fixture
def outputs(tmp_path):
    """The options that write a result and its picture, and a function that reads the one and looks at the other."""

    def read():
        assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
        data = json.loads((tmp_path / "out.json").read_text())
        assert data["private"] is True
        return data

    return ("--json", tmp_path / "out.json", "--plot", tmp_path / "out.png"), read


def test_gaussian(outputs):
    options, read = outputs
    text = call("gaussian", "--rho 0.5", *options).stdout
    assert "Correlations" in text
    assert np.array(read()["correlation"]).shape == (3, 3)


def test_mixture(outputs):
    options, read = outputs
    text = call("mixture", "--components 3 --rho 1", *options).stdout
    assert "Found" in text
    assert "3 of 3 components" in text
    assert "status" in text
    assert read()["kind"] == "MixtureResult"


def test_a_mixture_of_many_columns_points_to_its_json(tmp_path):
    rng = np.random.default_rng(1)
    centers = 50.0 * np.eye(2, 12)
    for name, n in (("p", 20_000), ("q", 12)):
        rows = centers[np.arange(n) % 2] + rng.normal(size=(n, 12))
        np.save(tmp_path / f"{name}.npy", rows)
    files = ("--private", tmp_path / "p.npy", "--public", tmp_path / "q.npy")
    picture = tmp_path / "wide.png"
    text = typed("mixture --components 2 --rho 1", *files, "--plot", picture).stdout
    assert "more columns" in text
    assert picture.exists()


def test_axis_mixture_without_range_and_public_rows(outputs):
    options, read = outputs
    line = "--components 2 --epsilon 1 --delta 1e-6"
    text = call("axis-mixture", line, *options).stdout
    assert "2 of 2 components, by cells" in " ".join(text.split())
    assert np.shape(read()["means"]) == (2, 1)


def test_axis_mixture_of_public_rows_and_pure_budget():
    data = answer("axis-mixture", "--public few_line.npy --components 2 --epsilon 1")
    assert data["method"] == "cells"
    assert data["spent"]["notion"] == "PureDP"


APPROX = "--epsilon 1 --delta 1e-7"
TWO_COLUMNS = f"--columns delay,distance {APPROX}"


def test_histogram_is_shown_as_a_table(outputs):
    options, _ = outputs
    line = f"--columns delay --width 10 --offset 0.5 {APPROX}"
    text = call("histogram", line, *options).stdout
    heads = next(line for line in text.splitlines() if "above" in line)
    assert "column" in heads
    assert "up_to" in heads
    assert "│ delay" in text
    assert "noisy count below" in " ".join(text.split())


def test_histogram_has_bins_of_the_width_and_offset(outputs):
    options, read = outputs
    call("histogram", f"--columns delay --width 10 --offset 0.5 {APPROX}", *options)
    released = result_in(read(), HistogramResult)
    assert released.columns == ("delay",)
    assert np.allclose((released[0].lower[:, 0] - 0.5) % 10, 0)


def test_histogram_of_levels_has_each_for_each_column():
    found = answer("histogram", f"{TWO_COLUMNS} --width 5 --levels 3")
    assert len(found["histograms"]) == 2 * 3


def test_histogram_of_dyadic_bins():
    found = answer("histogram", f"{TWO_COLUMNS} --dyadic")
    # Distances are about 1e6, between 2**19 and 2**20.
    assert found["histograms"][1]["lower"] == [[2.0**19]]


def test_histogram_of_columns_together():
    found = answer("histogram", f"{TWO_COLUMNS} --width 50 --joint")
    assert found["histograms"][0]["columns"] == [0, 1]


def test_histograms_that_do_not_fit_on_a_screen():
    assert "more histograms" in call("histogram", f"{TWO_COLUMNS} --width 5 --levels 9").stdout


def test_quantiles(outputs):
    options, read = outputs
    text = call("quantiles", "--columns delay --rho 1 --q 0.5,0.9", *options).stdout
    assert "noise_rows" in text
    assert "atom" in text
    data = read()
    ends = result_in(data, QuantileResult).confidence_interval(0.95)
    assert data["confidence_interval"]["lower"] == ends[0].tolist()
    assert data["confidence_interval"]["upper"] == ends[1].tolist()


def test_describe_writes_a_page(outputs):
    options, read = outputs
    call("describe", "--columns delay,distance --rho 1 --html page.html", *options)
    assert result_in(read(), Description).labels == ("delay", "distance")
    page = Path("page.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 8  # three quartiles and a mean of each column
    assert "http" not in page


@pytest.mark.parametrize("wrong", ["--html no/page.html", "--keys delay"])
def test_describe_refuses(wrong):
    call("describe", f"--columns delay --rho 1 {wrong}", code=2)


@pytest.fixture
def public_groups(folder):
    """The public rows of groups, which stand in a file."""
    public = pd.DataFrame({"delay": [7.0, 12.0], "carrier": ["UA", "B6"], "distance": 1e6})
    public.to_parquet(folder / "public_groups.parquet")
    return "--public public_groups.parquet --rho 1"


def test_means_of_groups(outputs, public_groups):
    options, read = outputs
    text = call("mean", f"{public_groups} --by carrier --columns delay", *options).stdout
    assert "(other)" in text
    data = read()
    result = result_in(data, GroupMeans)
    lower, upper = (ends.tolist() for ends in result.confidence_interval(0.95))
    assert result.groups == ("B6", "UA", "(other)")
    assert data["confidence_interval"] == {"level": 0.95, "lower": lower, "upper": upper}


def test_means_of_listed_groups(public_groups):
    line = f"{public_groups} --by carrier --columns delay --groups UA,EV"
    assert "EV" in call("mean", line).stdout


def test_quantiles_of_groups(outputs, public_groups):
    options, read = outputs
    call("quantiles", f"{public_groups} --by carrier --columns delay --q 0.5", *options)
    assert result_in(read(), GroupQuantiles).groups == ("B6", "UA", "(other)")


BY_TWO = "--by carrier,delay --columns distance --groups carrier=UA,EV"


def test_means_of_groups_of_two_columns(outputs, public_groups):
    options, read = outputs
    call("mean", f"{public_groups} {BY_TWO} --groups delay=1,2", *options)
    assert result_in(read(), GroupMeans).groups[:2] == (("UA", 1.0), ("UA", 2.0))


@pytest.mark.parametrize("wrong", ["1,2", "month=1,2"])
def test_groups_of_two_columns_are_named(wrong, public_groups):
    words = refusal("mean", f"{public_groups} {BY_TWO} --groups {wrong}")
    assert "once for each" in words


def test_counts_of_groups(outputs):
    options, read = outputs
    line = "--columns carrier --keys UA,B6 --by delay --groups 1,2 --rho 1"
    call("counts", line, *options)
    assert result_in(read(), CountResult).by == ("delay", "carrier")


AUTO = "--columns distance --rho 1 --rows-per-person auto"


def test_how_many_rows_of_each_person_is_chosen(outputs):
    options, read = outputs
    call("mean", f"{AUTO} --person delay", *options)
    data = read()
    record = data["releases"][0]
    assert record["name"] == "rows per person"
    assert record["rows_per_person"] == data["rows_per_person"] > 1


def test_rows_of_persons_need_persons():
    assert "belong to --person" in refusal("mean", AUTO)


def test_persons_by_key(outputs):
    options, read = outputs
    line = "--person distance --by carrier --groups UA,B6 --rho 1"
    assert "all keys of each of" in call("persons", line, *options).stdout
    result = result_in(read(), PersonCounts)
    assert result.keys == (("UA",), ("B6",), ("(other)",), ("(missing)",))


def test_keys_of_each_person():
    groups = "--groups carrier=UA --groups delay=1,2"
    line = f"--person distance --by carrier,delay {groups} --keys-per-person 2 --rho 1"
    assert answer("persons", line)["keys_per_person"] == 2


def test_persons_are_no_key():
    words = refusal("persons", "--person distance --by distance --groups 1 --rho 1")
    assert "says whose row it is" in words


def test_counts_of_one_column(outputs):
    options, read = outputs
    text = call("counts", "--columns carrier --keys UA,B6 --rho 1", *options).stdout
    assert "(other)" in text
    result = result_in(read(), CountResult)
    assert result.keys == (("UA",), ("B6",), ("(other)",), ("(missing)",))


def test_counts_of_keys_that_are_found():
    found = answer("counts", f"--columns carrier --top 2 {APPROX}")
    assert found["keys"] == [["B6"], ["EV"], ["UA"]]


def test_counts_of_numbers():
    found = answer("counts", "--columns delay --keys 0,1e0 --rho 1")
    assert found["keys"][:2] == [[0.0], [1.0]]


TWO_KEYS = "--columns carrier,delay --keys carrier=UA,B6 --keys delay=0,1,2 --rho 1"


def test_counts_of_two_columns():
    found = answer("counts", TWO_KEYS)
    assert found["by"] == ["carrier", "delay"]
    # Two carriers and three delays, each with the others and the missing ones.
    assert len(found["keys"]) == 4 * 5
    assert "share" in call("counts", f"{TWO_KEYS} --top 3").stdout


def test_counts_are_rounded():
    published = answer("counts", f"{TWO_KEYS} --round-to 20")["published"]
    assert not any(count % 20 for count in published)


def test_counts_between_edges():
    found = answer("counts", "--columns delay --bins 5,20 --rho 100")
    assert found["keys"] == [["below 5"], ["[5, 20)"], ["20 or more"], ["(missing)"]]


def test_counts_of_a_number_of_bins():
    found = answer("counts", "--public few.parquet --columns delay --rho 1 --bins 3")
    assert found["keys"][:2] == [["below 5"], ["[5, 7.5)"]]


def test_counts_of_keys_and_bins():
    line = "--columns carrier,delay --keys carrier=UA,B6 --bins delay=-5,0 --rho 1"
    # Two carriers with others and missing ones; three bins and missing ones.
    assert len(answer("counts", line)["keys"]) == 4 * 4


DATED = [
    ("2024-01-31,2024-02-01", ["2024-01-31"]),
    ("2024-01,2024-02", ["2024-01"]),
]


@pytest.mark.parametrize(("keys", "first"), DATED)
def test_counts_of_dates(keys, first):
    days = pd.DataFrame({"day": pd.to_datetime(["2024-01-31 10:00"] * 9)})
    days.to_parquet("days.parquet")
    line = f"counts --private days.parquet --columns day --keys {keys} --rho 100 --json - --quiet"
    found = json.loads(typed(line).stdout)
    assert found["keys"][0] == first
    # Nine rows; the standard deviation of the noise is 0.1.
    assert found["counts"][0] == pytest.approx(9, abs=1.0)


def test_months_are_listed_in_order():
    line = "counts --private days.parquet --columns day --keys 2024-01,2024-02 --rho 100 --json -"
    days = pd.DataFrame({"day": pd.to_datetime(["2024-01-31 10:00"] * 9)})
    days.to_parquet("days.parquet")
    assert json.loads(typed(line).stdout)["keys"][:2] == [["2024-01"], ["2024-02"]]


def test_comparisons_of_keys(outputs):
    options, read = outputs
    line = "--columns carrier --keys UA,B6 --rho 1 --ratio UA,B6 --difference B6,UA"
    text = call("counts", line, *options).stdout
    assert "count: UA divided by B6" in text
    assert "count: B6 minus UA" in text
    data = read()
    difference, ratio = data["comparisons"]
    result = result_in(data, CountResult)
    assert difference["estimate"] == result.difference("B6", "UA").estimate.tolist()
    assert ratio["upper"] == result.ratio("UA", "B6").upper.tolist()


def test_comparisons_of_groups(outputs):
    options, read = outputs
    line = "--columns distance --rho 1 --by delay --groups 1,2 --difference 1,2"
    call("mean", line, *options)
    assert read()["comparisons"][0]["of"] == "mean"


def test_comparisons_of_keys_of_two_columns():
    keys = "--columns carrier,delay --keys carrier=UA,B6 --keys delay=0,1"
    found = answer("counts", f"{keys} --rho 1 --ratio UA,0,B6,0")
    assert found["comparisons"][0]["first"] == "UA, 0"


def test_comparisons_of_persons(outputs):
    options, read = outputs
    persons = "--person distance --by carrier --groups UA,B6 --rho 1"
    line = f"{persons} --difference UA,B6 --ratio UA,(other)"
    assert "persons: UA minus B6" in call("persons", line, *options).stdout
    difference, ratio = read()["comparisons"]
    assert difference["correlation"] == 0.0
    assert ratio["correlation"] == 0.0


# Comparisons of a name that is not listed.
OF_CARRIERS = "--columns carrier --keys UA,B6"
OF_BOTH = "--columns carrier,delay --keys carrier=UA,B6 --keys delay=0,1"
OF_DISTANCES = "--columns distance --by delay --groups 1,2"
OF_PERSONS = "--person distance --by carrier --groups UA,B6"
UNKNOWN = {
    "a key": ("counts", f"{OF_CARRIERS} --ratio UA,B7"),
    "a key of a group": ("counts", f"{OF_CARRIERS} --by delay --groups 1,2 --ratio 1,UA,1,B7"),
    "a key of two columns": ("counts", f"{OF_BOTH} --difference UA,0,B6,7"),
    "a group": ("mean", f"{OF_DISTANCES} --ratio 1,3"),
    "a group of quantiles": ("quantiles", f"{OF_DISTANCES} --ratio 1,3"),
    "a column": ("mean", "--columns distance --ratio distance,time"),
    "a key of persons": ("persons", f"{OF_PERSONS} --difference UA,B7"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_comparisons_of_names_that_are_not_listed_debit_nothing(name, tmp_path):
    command, line = UNKNOWN[name]
    ledger = tmp_path / "spent.ledger"
    words = refusal(command, f"{line} --rho 1 --ledger-total rho=2", "--ledger", ledger)
    assert re.search("no (key|group|column) is called '[^']*(B7|7|3|time)'", words)
    assert not ledger.exists()


LISTS = "--components 2 --epsilon 1 --delta 1e-6"
WIDE = "--columns delay --epsilon 1 --delta 1e-7"
REFUSED = [
    ("gaussian", "--rho 0.5 --bounds 3", "two numbers with a comma"),
    ("gaussian", "", "no privacy budget"),
    ("mixture", "--components 16 --rho 1", "number of public rows"),
    ("mixture", "--rho 1", "--components"),
    ("axis-mixture", f"{LISTS} --method dp_em", "method='auto'"),
    ("counts", "--columns carrier --rho 1", "a delta is needed"),
    ("counts", "--columns carrier --keys UA,B6 --rho 1 --ratio UA", "takes two names"),
    ("counts", "--columns carrier,delay --rho 1 --keys UA", "must map columns"),
    ("counts", "--columns carrier,delay --rho 1 --keys carrier=UA", "values of column 'delay'"),
    ("counts", "--columns carrier,delay --rho 1 --keys UA --keys B6", "once for each column"),
    (
        "counts",
        "--columns carrier,delay --rho 1 --bins 5,20",
        "--bins for several columns of --columns: once for each column",
    ),
    ("counts", "--columns delay --rho 1 --bins 10", "needs public rows"),
    ("counts", "--columns delay --rho 1 --bins 2.5", "whole number of bins"),
    ("counts", "--columns delay --rho 1 --bins 5,a", "must look like 25,35,45"),
    ("counts", "--columns delay --rho 1 --bins 5,1", "edges that ascend"),
    ("quantiles", "--columns delay --rho 1 --q 0.5,", "numbers with commas"),
    ("quantiles", "--columns distance --rho 1 --difference UA,B6", "belong to --by"),
    ("histogram", WIDE, "either --width W or --dyadic"),
    ("histogram", f"{WIDE} --dyadic --width 1", "either --width W or --dyadic"),
    ("histogram", f"{WIDE} --dyadic --levels 2", "belong to --width"),
    ("histogram", f"{WIDE} --width x", "not a number"),
    ("histogram", f"{WIDE} --width 1 --max-memory 1e5", "pass max_memory="),
]


@pytest.mark.parametrize(("command", "line", "words"), REFUSED)
def test_refusals_are_one_line(command, line, words):
    assert words in refusal(command, line)


# ---- Tables of persons.
@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    """Options that name CSV files of visits, and the number of persons of the private one."""
    rng = np.random.default_rng(4)
    folder = tmp_path_factory.mktemp("visits")
    person = np.sort(rng.integers(0, 700, 2_500))
    cost = rng.gamma(2.0, 20.0, 2_500)
    ward = rng.choice(["n", "s"], 2_500)
    table = pd.DataFrame({"who": person, "cost": cost, "ward": ward})
    table = table.assign(who="p" + table["who"].astype(str))
    public = table.assign(who="q" + table["who"]).iloc[:40]
    table.to_csv(folder / "visits.csv", index=False)
    public.to_csv(folder / "public.csv", index=False)
    files = ("--private", folder / "visits.csv", "--public", folder / "public.csv")
    return files, table["who"].nunique()


OF_VISITS = [
    "mean --columns cost --keep sum",
    "mean --columns cost --by ward --rows-per-person 1",
    "describe --columns cost,ward --rows-per-person 1",
    "quantiles --columns cost --keep mean",
    "train --label cost --categories ward --rows-per-person 1",
]


@pytest.mark.parametrize("line", OF_VISITS)
def test_a_table_of_visits_is_protected_person_by_person(visits, tmp_path, line):
    files, persons = visits
    ledger = ("--ledger", tmp_path / "spent.ledger")
    out = tmp_path / "out.json"
    protected = f"{line} --person who --rho 0.3 --ledger-total rho=1"
    shown = typed(protected, *files, *ledger, "--json", out).stdout
    assert "all rows of one person" in shown
    assert json.loads(out.read_text())["n_priv"] == persons
    by_rows = typed("mean --columns cost --rho 0.3", *files, *ledger, code=2)
    assert "calls with --person NAME: pass that" in said(by_rows)


def test_a_ledger_of_one_kind_of_person_refuses_another(visits, tmp_path):
    path = tmp_path / "spent.ledger"
    given = (*visits[0], "--ledger", path)
    line = "--columns cost --rho 0.1 --keep mean --ledger-total rho=1"
    typed(f"mean {line} --person who", *given)
    other = typed(f"mean {line} --person ward", *given, code=2)
    typed(f"quantiles {line} --person who", *given)
    assert "'ward' is another kind of person" in said(other)
    ledger = Ledger.from_file(path)
    assert ledger.person == "who"
    assert [float(entry.cost.amounts[0]) for entry in ledger.entries] == [0.1, 0.1]


BAD_PERSONS = [
    ("--person whom --keep mean", "no column 'whom'"),
    ("--person who", "say what stands for a person: --keep mean"),
    ("--keep sum", "--keep and --rows-per-person belong to --person"),
    ("--person who --join-quoted-lines", "do not go together"),
    ("--person who --keep median", "'row', 'mean', 'sum'"),
]


@pytest.mark.parametrize(("line", "words"), BAD_PERSONS)
def test_bad_options_of_persons_are_refused_in_words(visits, line, words):
    refused = typed(f"mean --columns cost --rho 1 {line}", *visits[0], code=2)
    assert words in said(refused)
