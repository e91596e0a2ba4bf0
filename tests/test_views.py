"""The program that checks the book in a browser detects planted errors. Without a browser these tests are skipped."""

import importlib.util
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SPEC = importlib.util.spec_from_file_location("views", ROOT / ".ci" / "views.py")
views = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(views)

PAGE = """<!doctype html><body data-theme="light"><style>
body {{ margin: 0; background: white; color: black }} body[data-theme=dark] {{ background: #111; color: #eee }}
</style><main><article>{}</article></main></body>"""
LONG = "a line of code that is longer than a phone is wide, and that nothing scrolls or breaks"
PLANTED = {
    "good": f"<h1>Good</h1><p>Words</p><div style='overflow-x: auto'><pre>{LONG * 3}</pre></div>",
    "wide": "<table><tr><td style='min-width: 700px'>wide</td></tr></table>",
    "cut": f"<pre style='overflow-x: hidden'>{LONG}</pre>",
    "image": "<img src='missing.png' alt='none'>",
    "faint": "<p style='color: #222'>dark words that stay dark in the dark</p>",
}


@pytest.mark.serial  # a browser takes seconds
@pytest.mark.skipif(not any(map(shutil.which, views.BROWSERS)), reason="no browser is installed")
def test_what_is_planted_is_seen(tmp_path):
    for name, body in PLANTED.items():
        (tmp_path / f"{name}.html").write_text(PAGE.format(body), encoding="utf-8")
    seen = views.look(tmp_path, views.pages(tmp_path), 60.0)
    assert seen["pages"] == len(PLANTED)
    found = {
        (page.removesuffix(".html"), view, what.split()[0]) for page, view, what in seen["found"]
    }
    assert found == {
        ("wide", "390", "is"),
        ("cut", "390", "cuts"),
        ("image", "390", "does"),
        ("image", "1280", "does"),
        ("faint", "dark", "has"),
    }


def test_pages_that_nobody_reads_are_left_out(tmp_path):
    for name in ("index.html", "search.html", "genindex.html", "_static/x.html", "guide/a.html"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert views.pages(tmp_path) == ["guide/a.html", "index.html"]


@pytest.mark.serial
@pytest.mark.skipif(not any(map(shutil.which, views.BROWSERS)), reason="no browser is installed")
@pytest.mark.parametrize(("item", "findings"), [('<li class="kind-text">', 0), ("<li>", 1)])
def test_a_search_without_hits_is_seen(tmp_path, item, findings):
    page = f"<ul id='found'></ul><script>document.getElementById('found').innerHTML = '{item}';</script>"
    (tmp_path / "search.html").write_text(page, encoding="utf-8")
    assert len(views.search(tmp_path)) == findings
