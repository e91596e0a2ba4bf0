"""Measurements that judge the mean of columns: held-out columns, old code beside new code, and what each tuned number is worth."""

import hashlib
import importlib
import json
import sys
from fractions import Fraction

import numpy as np
import pytest

import fastpubpriv as fpp
from benchmarks.accuracy import (
    compare,
    constants,
    held_out,
    held_out_columns,
    held_out_covariances,
    held_out_tables,
    means,
)
from benchmarks.accuracy.tables import Column
from benchmarks.readme import ROOT

STORED = ROOT / "benchmarks" / "baselines" / "accuracy"


@pytest.fixture
def lognormal():
    return Column("made/up/lognormal", np.random.default_rng(0).lognormal(size=2_000))


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return a folder that is a package with one table, of which one column was chosen."""
    folder = tmp_path / "a_data_package"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "trees.csv").write_text("id,height,name\n1,2.5,oak\n2,,fir\n3,1.5,elm\n")
    frozen = tmp_path / "frozen.json"
    name = "a_data_package/trees/height"
    sha256 = held_out_columns.digest(np.array([1.5, 2.5]))
    frozen.write_text(json.dumps({"held out": {name: sha256}}))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(held_out_columns, "FROZEN", frozen)
    held_out_columns.files.cache_clear()
    held_out_columns.numbers.cache_clear()
    return folder


def line(column, error, **more):
    """Return a line of a light-tailed column whose interval holds the mean."""
    plain = {"n": 500, "n_pub": 5, "budget": "rho 0.1", "draw": 0, "kurtosis": 3.0, "std": 1.0}
    plain |= {"mean": error, "width": 2.0, "plain_width": 1.0, "covered": True}
    plain |= {"plain_covered": True, "ok": True, "reasons": ""}
    return plain | {"column": column, "error": error} | more


def test_held_out_columns_are_the_first_by_the_hash_of_their_names():
    parts = json.loads(held_out_columns.FROZEN.read_text(encoding="utf-8"))
    names = [*parts["held out"], *parts["further"]]
    assert (len(parts["held out"]), len(set(names))) == (150, 190)
    assert names == sorted(names, key=lambda name: hashlib.sha256(name.encode()).digest())
    assert {name.split("/")[0] for name in names} <= {*held_out_columns.PACKAGES}


def test_finite_values_of_a_chosen_column_are_read_from_its_package(package):
    (column,) = held_out_columns.columns("held out")
    assert column.values.tolist() == [1.5, 2.5]


def test_a_column_of_another_version_of_its_package_is_left_out(package):
    (package / "data" / "trees.csv").write_text("id,height\n1,2.5\n3,1.6\n")
    with pytest.warns(UserWarning, match="a_data_package/trees/height"):
        assert held_out_columns.columns("held out") == []


def test_a_measurement_is_stored_and_is_equal_to_itself(lognormal, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(held_out_columns, "columns", lambda part: [lognormal])
    monkeypatch.setattr(held_out, "SIZES", (500,))
    stored = tmp_path / "lines.json"
    held_out.main(["--json", str(stored)])
    held_out.main(["--read", str(stored), "--compare", str(stored)])
    assert len(json.loads(stored.read_text())) == 6  # two numbers of public rows, three budgets
    assert "| 1.000 +- 0.000 |" in capsys.readouterr().out


def test_intervals_of_a_measurement_with_bounds_hold_the_mean(lognormal):
    lines = held_out.measure(lognormal, means.cells((500,), (5,), (("rho", 0.1),)), 10, 1.0)
    assert held_out.coverage(lines) >= 0.8  # 95 % intervals, 10 draws: below with probability .012
    (row,) = [row for row in held_out.bounds_rows(lines) if row["public rows"] == "all"]
    assert row["calls"] == 10


def test_errors_widths_and_silent_answers_beside_those_of_old_code():
    old = [line("a", 0.1), line("b", 0.1)]
    new = [line("a", 0.2, width=1.0), line("b", 0.2, covered=False)]
    row = held_out.comparison(new, old)
    assert row["error / before"] == "2.000 +- 0.000"
    assert row["silent"] == "0.000 -> 0.500"
    assert row["width / before: light, mid, heavy"].startswith("0.500")


@pytest.mark.parametrize(
    ("value", "factor", "expected"),
    [
        (2.0, constants.FACTOR, 3.0),
        (1, 1 / constants.FACTOR, 0),
        (48, constants.FACTOR, 72),
        (Fraction(1, 4), constants.FACTOR, Fraction(3, 8)),
        (Fraction(3, 4), constants.FACTOR, Fraction(7, 8)),  # halfway to 1
        ((2, 4.0), constants.FACTOR, (3, 6.0)),
    ],
)
def test_numbers_are_scaled_by_their_kinds(value, factor, expected):
    assert constants.scaled(value, factor) == expected


def test_a_changed_number_is_seen_by_all_that_is_made_from_it_and_by_nothing_afterwards():
    module = importlib.import_module(constants.TUNING)
    function = fpp.estimate_mean
    name, value = next(iter(constants.numbers().items()))
    with constants.changed(**{name: 7}):
        assert getattr(sys.modules[constants.TUNING], name) == 7
        assert fpp.estimate_mean is not function
    assert sys.modules[constants.TUNING] is module
    assert getattr(module, name) == value
    assert fpp.estimate_mean is function


def test_a_number_has_a_line_that_says_what_it_changes(lognormal, monkeypatch, capsys):
    monkeypatch.setattr(held_out_columns, "columns", lambda part: [lognormal, lognormal])
    monkeypatch.setattr(constants, "SIZES", (500,))
    name = next(iter(constants.numbers()))
    constants.main(["--draws", "1", "--joint", "2", "--only", name])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith(f"| `{name}` |")
    assert len(lines) == 4  # two of the head, and that of the unchanged numbers
    base = [line("a", 0.1), line("b", 0.1)]
    assert constants.told(base, base) == "changes nothing"
    assert constants.told([line("a", 0.2), line("b", 0.2)], base).startswith("2.000 +- 0.000, 1.0")


def test_stored_results_of_every_estimator_are_compared(tmp_path):
    rows = compare.compared(STORED, STORED)
    about = {row["answers"] for row in rows}
    assert {"means", "Gaussians, mean", "coefficients", "groups", "quantiles"} <= about
    assert {row["error"] for row in rows if row["worst"] != "-"} == {1.0}
    stored = json.loads((STORED / "mean.json").read_text(encoding="utf-8"))
    stored["mean"][0]["contestants"]["estimate_mean"]["rmse"] *= 3.0
    (tmp_path / "mean.json").write_text(json.dumps(stored))
    (row,) = compare.compared(STORED, tmp_path / "mean.json")
    assert row["worst"].startswith("3.000: flights.dep_delay")


# ---- Held-out tables -------------------------------------------------------------------------------------------------
def test_held_out_tables_are_sorted_by_the_hash_of_their_names_and_named_nowhere_else():
    names = list(json.loads(held_out_tables.FROZEN.read_text(encoding="utf-8")))
    assert len(names) == held_out_tables.HELD_OUT == 40
    assert names == sorted(names, key=lambda name: hashlib.sha256(name.encode()).digest())
    items = {name.split("/", 1)[1].lower() for name in names}
    assert not items & held_out_tables.named_elsewhere()


def test_a_covariance_of_a_held_out_table_is_measured_and_is_equal_to_itself(
    monkeypatch, tmp_path, capsys
):
    rows = np.random.default_rng(0).normal(size=(2_000, 2)) @ [[1.0, 0.5], [0.0, 1.0]]
    monkeypatch.setattr(held_out_tables, "held_out", lambda: {"made/up": rows})
    monkeypatch.setattr(held_out_covariances, "SIZES", (500,))
    stored = tmp_path / "lines.json"
    held_out_covariances.main(["--json", str(stored)])
    held_out_covariances.main(["--old", str(stored)])
    lines = json.loads(stored.read_text())
    assert len(lines) == 9  # three numbers of public rows, three budgets
    summary = held_out_covariances.row("all", lines, {})
    counted = [line["intervals"]["mean"] for line in lines]
    assert sum(own["held"] for own in counted) > 0.8 * sum(own["known"] for own in counted) > 0
    assert summary["answers"] == 9
    again = {tuple(line[part] for part in held_out_covariances.KEY): line for line in lines}
    assert held_out_covariances.row("all", lines, again)["error / old"] == 1.0


def test_an_answer_far_worse_than_the_public_rows_is_counted_unless_it_says_so():
    line = {"error": 1.4, "public error": 1.0, "status": "caution"}
    assert held_out_covariances.much_worse(line)
    assert not held_out_covariances.much_worse(line | {"status": "unreliable"})
    assert not held_out_covariances.much_worse(line | {"error": 1.2})
