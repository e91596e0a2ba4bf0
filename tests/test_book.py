"""The part of the book that is checked in seconds; `make docs` checks all of it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"
sys.path.insert(0, str(DOCS / "extensions"))

from reference_examples import has_example  # noqa: E402
from reference_groups import GROUPS, public_names  # noqa: E402


def cells(text: str) -> list[str]:
    """The Python of the cells of a page, without their options."""
    found = re.findall(r"(?ms)^```\{code-cell\}[^\n]*\n(.*?)^```$", text)
    return ["\n".join(line for line in cell.splitlines() if not line.startswith(":")) for cell in found]


def toctree_entries(text: str) -> list[str]:
    found = re.findall(r"(?ms)^```\{toctree\}\n(.*?)^```$", text)
    lines = [line.strip() for block in found for line in block.splitlines()]
    # An entry may have a title of its own before its page: `Title <page>`.
    return [re.sub(r"^.*<(.*)>$", r"\1", line) for line in lines if line and not line.startswith(":")]


def unlisted(docs: Path) -> set[str]:
    """Pages that no table of contents leads to."""
    found = [
        path for path in docs.rglob("*.md") if not {"api", "cli"} & set(path.parts)
    ]  # these are written by the build
    pages = {path.relative_to(docs).as_posix().removesuffix(".md"): path for path in found}
    listed = {"index"}
    for path in pages.values():
        for entry in toctree_entries(path.read_text(encoding="utf-8")):
            listed.add((path.parent / entry).resolve().relative_to(docs.resolve()).as_posix())
    return set(pages) - listed


@pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
def test_start_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    start = cells((DOCS / "start.md").read_text(encoding="utf-8"))
    assert start
    for index, cell in enumerate(start):
        exec(compile(cell, f"start.md, cell {index + 1}", "exec"), names)  # our own text


def test_every_page_is_listed():
    assert unlisted(DOCS) == set()


def test_an_unlisted_page_is_noticed(tmp_path):
    (tmp_path / "index.md").write_text("```{toctree}\n:maxdepth: 1\n\nA title <a>\n```\n", encoding="utf-8")
    (tmp_path / "a.md").write_text("# a\n", encoding="utf-8")
    (tmp_path / "b.md").write_text("# b\n", encoding="utf-8")
    assert unlisted(tmp_path) == {"b"}
    assert cells("```{code-cell}\n:tags: [x]\n\n1 + 1\n```\n") == ["\n1 + 1"]


def test_every_public_name_has_a_page():
    names = [name for group in GROUPS for name in group.names]
    assert sorted(names) == sorted(public_names())


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.slug)
def test_every_page_has_an_example(group):
    """The examples themselves run in `tests/test_docs.py`."""
    assert [name for name in group.names if not has_example(name)] == []
