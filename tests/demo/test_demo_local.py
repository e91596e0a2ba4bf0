"""The fifth page of the demonstration: users who trust nobody."""

import json

from fastpubpriv.cli.demo import local as demo_local


def test_page_shows_the_four_ways(tmp_path, capsys):
    """Errors are bounded by four times the prediction and what long rows lose; a false alarm is rarer than one in a million."""
    paths = demo_local.page(None, tmp_path)
    assert [path.name for path in paths] == ["demo-local.json", "demo-local.png"]
    data = json.loads(paths[0].read_text())
    assert (data["clients"], data["n_pub"], data["private"]) == (100_000, 200, True)
    beside = list(data["demonstration_only"].values())
    public, local, both, central = (way["predicted"] for way in beside)
    assert central < both < local < public
    for way in beside[1:]:
        assert way["error"] < 4.0 * way["predicted"] + 0.02
    out = " ".join(capsys.readouterr().out.split())
    assert "No trusted server: 100,000 clients" in out
    assert "that is the price of trusting nobody" in out
    assert paths[1].read_bytes().startswith(b"\x89PNG")
