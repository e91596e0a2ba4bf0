"""The third page of the demonstration: groups of flights."""

import json

import numpy as np
import pytest

from fastpubpriv import ZCDP, InputError
from fastpubpriv.cli.demo import mixture as demo_mixture
from fastpubpriv.experiments import flights


def test_the_table_is_cut_by_the_number_of_the_row():
    table = flights.load_flights()
    assert len(table.private) == 336_776 - 3_368
    assert np.isfinite(table.public).all()
    assert len(table.public) == 3_274
    assert np.allclose(table.public.std(axis=0, ddof=1), 1.0)
    groups = table.groups()
    assert (groups == -1).sum() == 336_776 - 327_346 - (3_368 - 3_274)
    assert 50_000 < (groups == 1).sum() < 60_000
    assert 500 < (groups == 2).sum() < 1_000


def test_page_says_what_was_found(tmp_path, capsys):
    paths = demo_mixture.page(ZCDP(0.5), None, tmp_path)
    assert [path.name for path in paths] == ["demo-mixture.json", "demo-mixture.png"]
    data = json.loads(paths[0].read_text())
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
    assert paths[1].read_bytes().startswith(b"\x89PNG")


def test_story_of_a_tree_that_finds_nothing():
    one = demo_mixture.Case("x", 1, 1.0, 0.16, "yes")
    text = demo_mixture.story([one] * 6)
    assert "leaves the flights in one group" in text
    assert "finds nothing to cut" in text


def test_without_the_table_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="demo"):
        flights.load_flights()
