"""The commands `gaussian`, `mixture`, `axis-mixture` and `histogram`: what they print, write and refuse."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_cases import runner, said

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
APPROX = ("--epsilon", "1", "--delta", "1e-7")
FILES = {
    "gaussian": ("--private", "rows.npy", "--public", "few.npy"),
    "mixture": ("--private", "groups.npy", "--public", "few_groups.npy"),
    "axis-mixture": ("--private", "line.npy"),
    "histogram": ("--private", "flights.parquet"),
    "quantiles": ("--private", "flights.parquet", "--public", "few.parquet"),
    "describe": ("--private", "flights.parquet", "--public", "few.parquet"),
    "mean": ("--private", "flights.parquet", "--public", "few.parquet"),
    "counts": ("--private", "flights.parquet"),
    "persons": ("--private", "flights.parquet"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("commands")
    rng = np.random.default_rng(0)
    for name, rows in {
        "rows": rng.normal(size=(20_000, 3)) @ MIX.T + 5.0,
        "few": rng.normal(size=(12, 3)) @ MIX.T + 5.0,
        "one": np.zeros((1, 3)),
        "groups": CENTERS[np.arange(20_000) % 3] + rng.normal(size=(20_000, 2)),
        "few_groups": CENTERS[np.arange(15) % 3] + rng.normal(size=(15, 2)),
        "line": 1e6 + CASES["two"].draw(rng, 10_000),
        "few_line": 1e6 + CASES["two"].draw(rng, 60),
    }.items():
        np.save(made / f"{name}.npy", rows)
    delays = {
        "delay": rng.exponential(20.0, 5000).round(),
        "name": "Alice-SSN-123",
        "carrier": rng.choice(["UA", "B6", "EV"], 5000, p=[0.5, 0.3, 0.2]),
        "distance": rng.normal(1e6, 3.0, 5000),
    }
    pd.DataFrame(delays).to_parquet(made / "flights.parquet")
    pd.DataFrame({"delay": [7.0, 12.0], "distance": [1e6, 1e6 + 1.0]}).to_parquet(
        made / "few.parquet"
    )
    return made


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)


def call(command, *arguments, code=0):
    return runner(command)(*FILES[command], *arguments, code=code)


def answer(command, *arguments):
    return json.loads(call(command, *arguments, "--json", "-").stdout)


def result_in(data, kind):
    """The result in what a command has written."""
    derived = ("warnings", "confidence_interval", "published", "comparisons")
    return kind.from_json(json.dumps({k: v for k, v in data.items() if k not in derived}))


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
    assert "Correlations" in call("gaussian", "--rho", "0.5", *options).stdout
    assert np.array(read()["correlation"]).shape == (3, 3)


def test_mixture(outputs, tmp_path):
    options, read = outputs
    said = call("mixture", "--components", 3, "--rho", "1", *options).stdout
    assert all(words in said for words in ("Found", "3 of 3 components", "status"))
    assert read()["kind"] == "MixtureResult"
    # Mixture of many columns points to the json.
    rng = np.random.default_rng(1)
    centers = 50.0 * np.eye(2, 12)
    for name, n in (("p", 20_000), ("q", 12)):
        np.save(tmp_path / f"{name}.npy", centers[np.arange(n) % 2] + rng.normal(size=(n, 12)))
    files = (
        "--private",
        tmp_path / "p.npy",
        "--public",
        tmp_path / "q.npy",
        "--plot",
        tmp_path / "wide.png",
    )
    assert "more columns" in runner("mixture")(*files, "--components", 2, "--rho", "1").stdout
    assert (tmp_path / "wide.png").exists()


def test_axis_mixture_without_range_and_public_rows(outputs):
    options, read = outputs
    said = call(
        "axis-mixture", "--components", 2, "--epsilon", 1, "--delta", "1e-6", *options
    ).stdout
    assert "2 of 2 components, by cells" in " ".join(said.split())
    assert np.abs(np.sort(np.array(read()["means"])[:, 0]) - [1e6 - 2.0, 1e6 + 3.0]).max() < 0.6


def test_axis_mixture_of_public_rows_and_pure_budget():
    data = answer("axis-mixture", "--public", "few_line.npy", "--components", 2, "--epsilon", 1)
    assert (data["method"], data["spent"]["notion"]) == ("cells", "PureDP")


def test_histogram(outputs):
    options, read = outputs
    said = call(
        "histogram", "--columns", "delay", "--width", "10", "--offset", "0.5", *APPROX, *options
    ).stdout
    heads = next(line for line in said.splitlines() if "above" in line)
    assert "column" in heads
    assert "up_to" in heads
    assert "│ delay" in said
    assert "noisy count below" in " ".join(said.split())
    released = result_in(read(), HistogramResult)
    assert released.columns == ("delay",)
    assert np.allclose((released[0].lower[:, 0] - 0.5) % 10, 0)
    base = ("--columns", "delay,distance", *APPROX)
    assert (
        len(answer("histogram", *base, "--width", "5", "--levels", "3", "--quiet")["histograms"])
        == 6
    )
    assert answer("histogram", *base, "--dyadic", "--quiet")["histograms"][1]["lower"] == [
        [2.0**19]
    ]
    assert answer("histogram", *base, "--width", "50", "--joint", "--quiet")["histograms"][0][
        "columns"
    ] == [0, 1]
    assert "more histograms" in call("histogram", *base, "--width", "5", "--levels", "9").stdout


def test_quantiles(outputs):
    options, read = outputs
    said = call("quantiles", "--columns", "delay", "--rho", "1", "--q", "0.5,0.9", *options).stdout
    assert "noise_rows" in said
    assert "atom" in said
    ends = result_in(read(), QuantileResult).confidence_interval(0.95)
    assert [read()["confidence_interval"][end] for end in ("lower", "upper")] == [
        each.tolist() for each in ends
    ]


def test_describe_writes_a_page(outputs):
    options, read = outputs
    call("describe", "--columns", "delay,distance", "--rho", "1", "--html", "page.html", *options)
    assert result_in(read(), Description).labels == ("delay", "distance")
    page = Path("page.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 8  # three quartiles and a mean of each column
    assert "http" not in page
    call("describe", "--columns", "delay", "--rho", "1", "--html", "no/page.html", code=2)
    call("describe", "--columns", "delay", "--rho", "1", "--keys", "delay", code=2)


def test_means_of_groups(outputs):
    options, read = outputs
    public = pd.DataFrame({"delay": [7.0, 12.0], "carrier": ["UA", "B6"]})
    public.to_parquet("few_groups.parquet")
    given = (
        "--public",
        "few_groups.parquet",
        "--by",
        "carrier",
        "--columns",
        "delay",
        "--rho",
        "1",
    )
    assert "(other)" in call("mean", *given, *options).stdout
    result = result_in(read(), GroupMeans)
    assert result.groups == ("B6", "UA", "(other)")
    lower, upper = (ends.tolist() for ends in result.confidence_interval(0.95))
    assert read()["confidence_interval"] == {"level": 0.95, "lower": lower, "upper": upper}
    listed = call("mean", *given, "--groups", "UA,EV").stdout
    assert "EV" in listed
    call("quantiles", *given, "--q", "0.5", *options)
    assert result_in(read(), GroupQuantiles).groups == ("B6", "UA", "(other)")
    public.assign(distance=1e6).to_parquet("few_groups.parquet")
    both = (
        *given[:2],
        "--by",
        "carrier,delay",
        "--columns",
        "distance",
        "--rho",
        "1",
        "--groups",
        "carrier=UA,EV",
    )
    call("mean", *both, "--groups", "delay=1,2", *options)
    assert result_in(read(), GroupMeans).groups[:2] == (("UA", 1.0), ("UA", 2.0))
    for wrong in (("--groups", "1,2"), ("--groups", "month=1,2")):
        assert "once for each" in said(call("mean", *both, *wrong, code=2))
    counted = ("--columns", "carrier", "--keys", "UA,B6", "--by", "delay", "--groups", "1,2")
    call("counts", *counted, "--rho", "1", *options)
    assert result_in(read(), CountResult).by == ("delay", "carrier")


def test_how_many_rows_of_each_person_is_chosen(outputs):
    options, read = outputs
    auto = ("--columns", "distance", "--rho", "1", "--rows-per-person", "auto")
    call("mean", *auto, "--person", "delay", *options)
    record = read()["releases"][0]
    k = read()["rows_per_person"]
    assert record["name"] == "rows per person"
    assert record["rows_per_person"] == k > 1
    assert "belong to --person" in said(call("mean", *auto, code=2))


def test_persons_by_key(outputs):
    options, read = outputs
    given = ("--person", "distance", "--by", "carrier", "--groups", "UA,B6", "--rho", "1")
    assert "all keys of each of" in call("persons", *given, *options).stdout
    result = result_in(read(), PersonCounts)
    assert result.keys == (("UA",), ("B6",), ("(other)",), ("(missing)",))
    named = ("--groups", "carrier=UA", "--groups", "delay=1,2", "--keys-per-person", "2")
    both = ("--person", "distance", "--by", "carrier,delay", *named, "--rho", "1", "--quiet")
    assert answer("persons", *both)["keys_per_person"] == 2
    whose = ("--person", "distance", "--by", "distance", "--groups", "1", "--rho", "1")
    assert "says whose row it is" in said(call("persons", *whose, code=2))


def test_counts_of_one_column_and_of_two(outputs):
    options, read = outputs
    said = call("counts", "--columns", "carrier", "--keys", "UA,B6", "--rho", "1", *options).stdout
    assert "(other)" in said
    result = result_in(read(), CountResult)
    assert result.keys == (("UA",), ("B6",), ("(other)",), ("(missing)",))
    found = answer("counts", "--columns", "carrier", "--top", "2", *APPROX, "--quiet")
    assert found["keys"] == [["B6"], ["EV"], ["UA"]]
    numbers = answer("counts", "--columns", "delay", "--keys", "0,1e0", "--rho", "1", "--quiet")
    assert numbers["keys"][:2] == [[0.0], [1.0]]
    given = (
        "--columns",
        "carrier,delay",
        "--keys",
        "carrier=UA,B6",
        "--keys",
        "delay=0,1,2",
        "--rho",
        "1",
    )
    found = answer("counts", *given, "--quiet")
    assert (found["by"], len(found["keys"])) == (["carrier", "delay"], 20)
    assert "share" in call("counts", *given, "--top", "3").stdout
    rounded = answer("counts", *given, "--round-to", "20", "--quiet")["published"]
    assert not any(count % 20 for count in rounded)


def test_bins_and_dates_are_counted(folder):
    edges = answer("counts", "--columns", "delay", "--bins", "5,20", "--rho", "100", "--quiet")
    assert edges["keys"] == [["below 5"], ["[5, 20)"], ["20 or more"], ["(missing)"]]
    delays = pd.read_parquet(folder / "flights.parquet")["delay"]
    assert edges["counts"] == pytest.approx(
        [*np.bincount(np.digitize(delays, [5, 20])), 0], abs=2.0
    )
    public = ("--public", "few.parquet", "--columns", "delay", "--rho", "1")
    number = answer("counts", *public, "--bins", "3", "--quiet")
    assert number["keys"][:2] == [["below 5"], ["[5, 7.5)"]]
    both = ("--columns", "carrier,delay", "--keys", "carrier=UA,B6", "--bins", "delay=-5,0")
    assert len(answer("counts", *both, "--rho", "1", "--quiet")["keys"]) == 16
    pd.DataFrame({"day": pd.to_datetime(["2024-01-31 10:00"] * 9)}).to_parquet("days.parquet")
    days = ("--columns", "day", "--keys", "2024-01-31,2024-02-01", "--rho", "100", "--quiet")
    dated = json.loads(call("counts", "--private", "days.parquet", *days, "--json", "-").stdout)
    assert dated["keys"][0] == ["2024-01-31"]
    assert dated["counts"][0] == pytest.approx(9, abs=1.0)
    months = ("--columns", "day", "--keys", "2024-01,2024-02", "--rho", "100", "--quiet")
    dated = json.loads(call("counts", "--private", "days.parquet", *months, "--json", "-").stdout)
    assert dated["keys"][:2] == [["2024-01"], ["2024-02"]]
    assert dated["counts"][0] == pytest.approx(9, abs=1.0)
    several = ("--columns", "carrier,delay", "--bins", "5,20", "--rho", "1")
    said = call("counts", *several, code=2).stderr
    assert "--bins for several columns of --columns: once for each column" in said


def test_comparisons_of_groups_and_keys(outputs):
    options, read = outputs
    keys = ("--columns", "carrier", "--keys", "UA,B6", "--rho", "1")
    said = call("counts", *keys, "--ratio", "UA,B6", "--difference", "B6,UA", *options).stdout
    assert "count: UA divided by B6" in said
    assert "count: B6 minus UA" in said
    difference, ratio = read()["comparisons"]
    result = result_in(read(), CountResult)
    assert difference["estimate"] == result.difference("B6", "UA").estimate.tolist()
    assert ratio["upper"] == result.ratio("UA", "B6").upper.tolist()
    given = ("--columns", "distance", "--rho", "1")
    call("mean", *given, "--by", "delay", "--groups", "1,2", "--difference", "1,2", *options)
    assert read()["comparisons"][0]["of"] == "mean"
    both = ("--columns", "carrier,delay", "--keys", "carrier=UA,B6", "--keys", "delay=0,1")
    found = answer("counts", *both, "--rho", "1", "--ratio", "UA,0,B6,0", "--quiet")
    assert found["comparisons"][0]["first"] == "UA, 0"


def test_comparisons_that_cannot_be_are_refused_in_words():
    odd = ("--columns", "carrier", "--keys", "UA,B6", "--rho", "1", "--ratio", "UA")
    assert "takes two names" in said(call("counts", *odd, code=2))
    alone = ("--columns", "distance", "--rho", "1", "--difference", "UA,B6")
    assert "belong to --by" in said(call("quantiles", *alone, code=2))


KEYED = ("--keys", "UA,B6", "--ratio", "UA,B7")
UNKNOWN = {
    "a key": ("counts", "--columns", "carrier", *KEYED),
    "a key of a group": ("counts", "--columns", "carrier", "--by", "delay", "--groups", "1,2", *KEYED[:2], "--ratio", "1,UA,1,B7"),
    "a key of two columns": (
        "counts", "--columns", "carrier,delay", "--keys", "carrier=UA,B6", "--keys", "delay=0,1", "--difference", "UA,0,B6,7",
    ),
    "a group": ("mean", "--columns", "distance", "--by", "delay", "--groups", "1,2", "--ratio", "1,3"),
    "a group of quantiles": ("quantiles", "--columns", "distance", "--by", "delay", "--groups", "1,2", "--ratio", "1,3"),
    "a column": ("mean", "--columns", "distance", "--ratio", "distance,time"),
    "a key of persons": (
        "persons", "--person", "distance", "--by", "carrier", "--groups", "UA,B6", "--difference", "UA,B7",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN)
def test_comparisons_of_names_that_are_not_listed_debit_nothing(name, tmp_path):
    ledger = ("--ledger", tmp_path / "spent.ledger", "--ledger-total", "rho=2")
    answer = call(*UNKNOWN[name], "--rho", "1", *ledger, code=2)
    assert re.search("no (key|group|column) is called '[^']*(B7|7|3|time)'", said(answer))
    assert not (tmp_path / "spent.ledger").exists()


def test_numbers_of_persons_are_compared(outputs):
    options, read = outputs
    asked = ("--person", "distance", "--by", "carrier", "--groups", "UA,B6", "--rho", "1")
    said_of = call("persons", *asked, "--difference", "UA,B6", "--ratio", "UA,(other)", *options)
    assert "persons: UA minus B6" in said_of.stdout
    difference, ratio = read()["comparisons"]
    assert difference["correlation"] == ratio["correlation"] == 0.0


THREE, BOTH, WIDE = (
    "--components 3",
    "--components 2 --epsilon 1 --delta 1e-6",
    "--columns delay --epsilon 1 --delta 1e-7",
)
REFUSED = [
    ("gaussian", "--rho 0.5 --bounds 3", "two numbers with a comma"),
    ("gaussian", "", "no privacy budget"),
    ("mixture", "--components 16 --rho 1", "number of public rows"),
    ("mixture", "--rho 1", "--components"),
    ("axis-mixture", f"{BOTH} --method dp_em", "method='auto'"),
    ("counts", "--columns carrier --rho 1", "a delta is needed"),
    ("counts", "--columns carrier,delay --rho 1 --keys UA", "must map columns"),
    ("counts", "--columns carrier,delay --rho 1 --keys carrier=UA", "values of column 'delay'"),
    ("counts", "--columns carrier,delay --rho 1 --keys UA --keys B6", "once for each column"),
    ("counts", "--columns delay --rho 1 --bins 10", "needs public rows"),
    ("counts", "--columns delay --rho 1 --bins 2.5", "whole number of bins"),
    ("counts", "--columns delay --rho 1 --bins 5,a", "must look like 25,35,45"),
    ("counts", "--columns delay --rho 1 --bins 5,1", "edges that ascend"),
    ("quantiles", "--columns delay --rho 1 --q 0.5,", "numbers with commas"),
    ("histogram", WIDE, "either --width W or --dyadic"),
    ("histogram", f"{WIDE} --dyadic --width 1", "either --width W or --dyadic"),
    ("histogram", f"{WIDE} --dyadic --levels 2", "belong to --width"),
    ("histogram", f"{WIDE} --width x", "not a number"),
    ("histogram", f"{WIDE} --width 1 --max-memory 1e5", "pass max_memory="),
]


@pytest.mark.parametrize(("command", "words", "message"), REFUSED)
def test_refusals_are_one_line(command, words, message):
    assert message in said(call(command, *words.split(), code=2))


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    """Options that name CSV files of visits, and the number of persons of the private one."""
    rng = np.random.default_rng(4)
    folder = tmp_path_factory.mktemp("visits")
    person = np.sort(rng.integers(0, 700, 2_500))
    table = pd.DataFrame(
        {"who": person, "cost": rng.gamma(2.0, 20.0, 2_500), "ward": rng.choice(["n", "s"], 2_500)}
    )
    table = table.assign(who="p" + table["who"].astype(str))
    table.to_csv(folder / "visits.csv", index=False)
    table.assign(who="q" + table["who"]).iloc[:40].to_csv(folder / "public.csv", index=False)
    files = "--private", folder / "visits.csv", "--public", folder / "public.csv"
    return files, table["who"].nunique()


@pytest.mark.parametrize(
    "command",
    [
        ("mean", "--columns", "cost", "--keep", "sum"),
        ("mean", "--columns", "cost", "--by", "ward", "--rows-per-person", "1"),
        ("describe", "--columns", "cost,ward", "--rows-per-person", "1"),
        ("quantiles", "--columns", "cost", "--keep", "mean"),
        ("train", "--label", "cost", "--categories", "ward", "--rows-per-person", "1"),
    ],
)
def test_a_table_of_visits_is_protected_person_by_person(visits, tmp_path, command):
    files, persons = visits
    protected = (*files, "--person", "who", "--rho", "0.3")
    ledger = ("--ledger", tmp_path / "spent.ledger", "--ledger-total", "rho=1")
    out = tmp_path / "out.json"
    shown = runner(command[0])(*command[1:], *protected, *ledger, "--json", out).stdout
    assert "all rows of one person" in shown
    held = json.loads(out.read_text())
    assert held["n_priv"] == persons
    by_rows = (*files, "--columns", "cost", "--rho", "0.3", *ledger[:2])
    assert "calls with --person NAME: pass that" in said(runner("mean")(*by_rows, code=2))


def test_a_ledger_of_one_kind_of_person_refuses_another(visits, tmp_path):
    files = (*visits[0], "--columns", "cost", "--rho", "0.1", "--keep", "mean")
    ledger = ("--ledger", tmp_path / "spent.ledger", "--ledger-total", "rho=1")
    runner("mean")(*files, "--person", "who", *ledger)
    assert "'ward' is another kind of person" in said(
        runner("mean")(*files, "--person", "ward", *ledger, code=2)
    )
    runner("quantiles")(*files, "--person", "who", *ledger)
    held = Ledger.from_file(tmp_path / "spent.ledger")
    assert held.person == "who"
    assert [float(entry.cost.amounts[0]) for entry in held.entries] == [0.1, 0.1]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--person", "whom", "--keep", "mean"), "no column 'whom'"),
        (("--person", "who"), "say what stands for a person: --keep mean"),
        (("--keep", "sum"), "--keep and --rows-per-person belong to --person"),
        (("--person", "who", "--join-quoted-lines"), "do not go together"),
        (("--person", "who", "--keep", "median"), "'row', 'mean', 'sum'"),
    ],
)
def test_bad_options_of_persons_are_refused_in_words(visits, more, words):
    files = (*visits[0], "--columns", "cost", "--rho", "1")
    assert words in said(runner("mean")(*files, *more, code=2))
