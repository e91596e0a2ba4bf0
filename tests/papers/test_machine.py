"""`python -m benchmarks.machine`."""

import functools
import json

import pytest

from benchmarks import machine


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(machine, "measure", functools.partial(machine.measure, shapes=((500, 3),), rounds=1))


@pytest.mark.usefixtures("small")
def test_ratios_beside_an_older_file(tmp_path, capsys):
    old = tmp_path / "old.json"
    machine.main(["--threads", "1", "--json", str(old)])
    assert "ratio" in capsys.readouterr().out
    written = json.loads(old.read_text(encoding="utf-8"))
    assert written["machine"]["instructions"] in ("baseline", "AVX2", "AVX-512")
    (lap,) = written["laps"]
    assert (lap["n_priv"], lap["dim"]) == (500, 3)
    assert lap["ratio"] == pytest.approx(lap["numpy_seconds"] / lap["seconds"])
    machine.main(["--compare", str(old)])
    shown = capsys.readouterr().out
    for words in ("old ratio", f"{lap['ratio']:.1f}x", f"{1e3 * lap['seconds']:.2f} ms", "now: ", "old: "):
        assert words in shown
    lap["n_priv"] = 501
    written["machine"]["processor"] = "\x1b[31mZ80[bold]"
    old.write_text(json.dumps(written), encoding="utf-8")
    machine.main(["--compare", str(old)])
    shown = capsys.readouterr().out
    assert "Z80[bold]" in shown
    assert "\x1b" not in shown
