"""Files in TOML that bind a table: `--data`, `PrivateTable.from_toml`, and `fastpubpriv ledger`."""

import json

import pytest
from command_cases import invoke, said
from helpers.errors import raises
from helpers.visits import PATIENTS, files, visits

from fastpubpriv import ZCDP, InputError, Ledger, PrivateTable
from fastpubpriv.cli.app import COMMANDS
from fastpubpriv.tables.data_file import KEYS, WITH, read_data_file

MEAN = ("mean", "--columns", "cost", "--rho", "1/12")
pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")


def answer(folder, *words):
    """The result of a command as a dictionary."""
    invoke(*words, "--json", folder / "out.json", "--quiet")
    return json.loads((folder / "out.json").read_text())


def test_a_file_stands_for_options_and_is_relative_to_itself(tmp_path, monkeypatch):
    folder = tmp_path / "study"
    folder.mkdir()
    path = files(folder)
    monkeypatch.chdir(tmp_path)
    result = answer(tmp_path, *MEAN, "--data", path.relative_to(tmp_path))
    assert result["n_priv"] == PATIENTS
    assert result["rows_per_person"] == 3
    ledger = Ledger.from_file(folder / "visits.ledger")
    assert ledger.person == "patient"
    assert ledger.spent == (ZCDP(1) / 12).cost
    assert PrivateTable.from_toml(path).spent == ledger.spent


def test_twelve_twelfths_fit_exactly(tmp_path):
    path = files(tmp_path)
    for _ in range(12):
        answer(tmp_path, *MEAN, "--data", path)
    assert Ledger.from_file(tmp_path / "visits.ledger").remaining.is_zero
    assert "larger than what remains" in said(invoke(*MEAN, "--data", path, code=2))


def test_an_option_beside_the_file_wins(tmp_path):
    path = files(tmp_path)
    other = tmp_path / "other.parquet"
    visits(rows=950).to_parquet(other)
    totals = answer(tmp_path, *MEAN, "--data", path, "--keep", "sum", "--private", other)
    assert totals["about"] == f"the sum of the rows of each of {PATIENTS} persons"
    one = answer(tmp_path, *MEAN, "--data", path, "--rows-per-person", "1")
    assert one["rows_per_person"] == 1
    kept = answer(tmp_path, *MEAN, "--data", path, "--keep", "row")
    assert kept["rows_per_person"] == 3
    of_means = files(tmp_path, keep="mean", rows_per_person={}, ledger="b.ledger")
    text = of_means.read_text().replace("[rows_per_person]\n", "")
    of_means.write_text(text)
    assert answer(tmp_path, *MEAN, "--data", path, "--rows-per-person", "1")["rows_per_person"] == 1


@pytest.mark.parametrize(("text", "words"), [
    ('privat = "a.npy"', "unknown key 'privat' \\(did you mean 'private'"),
    ('private = "a.npy"\nrows-per-person = 3', "unknown key 'rows-per-person' \\(did you mean 'rows_per_person'"),
    ('private = "a.npy"\ncolumns = "a"', "unknown key 'columns'.*known are private, public, ledger"),
    ('private = 3', "private must be a text, got int"), ('public = "a"', "no key 'private'"),
    ('private = "a"\nrows_per_person = 2.5', "rows_per_person must be a whole number or a text, got float"),
    ('private = "a"\nthreads = true', "threads must be a whole number, got bool"),
    ('private = "a"\nwith = "a"', "with must be a table of texts"),
    ('private = "a"\n[with]\nb = 3', r"the column 'b' of \[with\] must be a text"),
    ('private = ', "is no file in TOML"), ('private = "a"\nprivate = "b"', "is no file in TOML"),
])  # fmt: skip
def test_a_file_that_says_something_else_is_refused(text, words, tmp_path):
    path = tmp_path / "bound.toml"
    path.write_text(text)
    error = raises(InputError, words, PrivateTable.from_toml, path)
    assert " ".join(str(error).split()) in said(invoke(*MEAN, "--data", path, code=2))


def test_a_file_that_is_not_there_is_refused(tmp_path):
    raises(InputError, "cannot be read: No such file", PrivateTable.from_toml, tmp_path / "a.toml")
    assert "cannot be read" in said(invoke(*MEAN, "--data", tmp_path / "a.toml", code=2))
    (tmp_path / "b.toml").write_bytes(b"private = '\xff'")
    raises(InputError, "is no file in TOML", PrivateTable.from_toml, tmp_path / "b.toml")


def test_a_total_says_its_parts(tmp_path):
    for total in ("2", "rho=1,delta=1e-6", "rho=", "rho=1/0", "epsilon=1,epsilon=1"):
        path = files(tmp_path, ledger_total=total)
        raises(InputError, "ledger_total must look like rho=2", PrivateTable.from_toml, path)
    path = files(tmp_path, ledger_total="epsilon=1/3,delta=1e-6")
    assert PrivateTable.from_toml(path).total.amounts[0] * 3 == 1


def test_keys_are_long_names_of_options():
    names = {each.opts[0] for each in COMMANDS["mean"].params}
    assert {f"--{key.replace('_', '-')}" for key in KEYS} <= names
    assert WITH in KEYS


def test_the_file_is_read_as_written(tmp_path):
    path = files(tmp_path, **{WITH: {"bmi": "weight / height ** 2"}})
    assert read_data_file(path)[WITH] == {"bmi": "weight / height ** 2"}


def test_a_ledger_is_printed_with_what_is_left(tmp_path):
    path = files(tmp_path)
    answer(tmp_path, *MEAN, "--data", path)
    page = invoke("ledger", tmp_path / "visits.ledger").stdout
    for words in (
        "estimate_mean",
        "rho = 0.0833",
        "rho 0.9167 of 1 left",
        "patient",
        "all rows of one person",
    ):
        assert words in page
    invoke("ledger", tmp_path / "visits.ledger", "--json", tmp_path / "out.json")
    stored = json.loads((tmp_path / "out.json").read_text())
    assert [each["name"] for each in stored["entries"]] == ["estimate_mean"]
    assert stored["remaining"]["rho"] == "11/12"
    Ledger(ZCDP(1), path=tmp_path / "empty.ledger").close()
    assert "rho 1 of 1 left" in invoke("ledger", tmp_path / "empty.ledger").stdout

    invoke("ledger", path, code=2)


# ---- Conditions and new columns --------------------------------------------------------------------------------------


def test_conditions_and_columns_are_options_and_keys(tmp_path):
    path = files(tmp_path, where="age >= 50", **{WITH: {"double": "cost * 2"}})
    words = ("mean", "--columns", "double,age", "--rho", "1/4", "--data", path)
    result = answer(tmp_path, *words)
    rows = visits()
    truth = 2.0 * rows[rows.age >= 50].cost.mean()
    interval = result["confidence_interval"]
    assert interval["lower"][0] <= truth <= interval["upper"][0]
    assert "age >= 50" in result["about"]
    other = answer(tmp_path, *words, "--where", "age < 50", "--with", "double=cost")
    assert "age < 50" in other["about"]
    refused = said(invoke(*words, "--where", "cumsum(age) > 3", code=2))
    assert "cumsum" in refused
    assert Ledger.from_file(tmp_path / "visits.ledger").spent == ZCDP(0.5).cost


@pytest.mark.parametrize("bound", [{}, {"person": "patient", "rows_per_person": 1}])
def test_a_command_has_the_bits_of_the_method(tmp_path, bound):
    files(tmp_path)
    private = tmp_path / "visits.parquet"
    public = tmp_path / "volunteers.csv"
    options = [f"--{name.replace('_', '-')}={value}" for name, value in bound.items()]
    rows = ("--private", private, "--public", public, "--where", "age >= 50")
    printed = answer(tmp_path, *MEAN, *rows, "--seed", "1", *options)

    table = PrivateTable(private, x_pub=public, total=ZCDP(1), **bound).where("age >= 50")
    result = table.estimate_mean(columns=["cost"], budget=ZCDP(1) / 12, random_state=1)

    assert printed["mean"] == result.mean.tolist()
    assert printed["n_pub"] == result.n_pub


def test_new_columns_alone_are_read_from_a_public_csv_file(tmp_path):
    more = {"double": "cost * 2", "band": "bin(age, 30, 50, 70)"}
    path = files(tmp_path, **{WITH: more})
    words = ("mean", "--columns", "double", "--by", "band", "--rho", "1/4", "--data", path)
    result = answer(tmp_path, *words)
    rows = visits()
    interval = result["confidence_interval"]
    for group, low, high in ((0, 30, 50), (1, 50, 70)):
        truth = 2.0 * rows[(rows.age >= low) & (rows.age < high)].cost.mean()
        ends = interval["lower"][group], interval["upper"][group]
        assert ends[0] <= truth <= ends[1], f"{result['groups'][group]}: {truth} in {ends}"
    assert result["provenance"]["groups"] == "argument"
