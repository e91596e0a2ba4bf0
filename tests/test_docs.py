"""Every Python block of the documents and every docstring example runs, and says what it claims."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import numpy as np
import pytest

import fastpubpriv

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md") if (ROOT / name).exists()]
# Examples of seeded runs warn on purpose; everything else that warns is a mistake in the document.
SEEDED = "ignore::fastpubpriv.SeededNoiseWarning"
# The estimators for scikit-learn count the fits of a process, and here one example follows the other.
FITTED = "ignore:this was fit number:fastpubpriv.errors.PrivacyWarning"


def blocks(text: str) -> list[str]:
    return re.findall(r"(?ms)^```python\n(.*?)^```$", text)


def modules() -> list[str]:
    """Those whose examples run here; `tests/torch_bridge` runs those that need PyTorch."""
    found = pkgutil.walk_packages(fastpubpriv.__path__, "fastpubpriv.")
    elsewhere = ("_cext", ".torch.training")
    return ["fastpubpriv", *(module.name for module in found if not module.name.endswith(elsewhere))]


def run_examples(text: str, name: str, names: dict[str, object]) -> tuple[int, int]:
    """Run the >>> lines of a text; returns failures and attempts."""
    test = doctest.DocTestParser().get_doctest(text, names, name, name, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
    runner.run(test, clear_globs=False)
    return runner.failures, runner.tries


@pytest.mark.filterwarnings(SEEDED)
@pytest.mark.parametrize("document", DOCUMENTS)
def test_document_runs(document, tmp_path, monkeypatch):
    """The blocks of one document run in order, in one namespace, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for index, block in enumerate(blocks((ROOT / document).read_text(encoding="utf-8"))):
        exec(compile(block, f"{document}, block {index + 1}", "exec"), names)  # our own text


def test_readme_has_python():
    assert len(blocks((ROOT / "README.md").read_text(encoding="utf-8"))) >= 3


@pytest.mark.filterwarnings(SEEDED, FITTED)
@pytest.mark.parametrize("name", modules())
def test_docstring_examples(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    bad = []
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, name, extraglobs={"np": np}):
        if test.examples:
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
            bad += [test.name] if runner.run(test).failed else []
    assert bad == []


def test_a_wrong_example_is_noticed():
    assert run_examples(">>> 1 + 1\n3\n", "planted", {}) == (1, 1)
    assert run_examples(">>> 1 + 1\n2\n", "planted", {}) == (0, 1)
    assert blocks("text\n```python\nx = 1\n```\n```sh\nls\n```\n") == ["x = 1\n"]


def broken_links(document: Path) -> list[str]:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8"))
    return [target for target in targets if not (document.parent / target).exists()]


@pytest.mark.parametrize("document", [*DOCUMENTS, "CHANGELOG.md"])
def test_links_lead_somewhere(document):
    assert broken_links(ROOT / document) == []


def test_a_broken_link_is_noticed(tmp_path):
    (tmp_path / "a.md").write_text("[b](b.md) [web](https://example.org) [here](a.md#x)", encoding="utf-8")
    assert broken_links(tmp_path / "a.md") == ["b.md"]
