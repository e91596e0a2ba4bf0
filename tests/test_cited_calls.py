"""Names and calls of the package in the pages for users: each exists, and takes the keywords that the page gives it."""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import fastpubpriv as fpp
from fastpubpriv.sources import Rows

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md")] + sorted(
    (ROOT / "docs/guide").glob("*.md")
)
ROOTS = {"fpp": fpp, "fastpubpriv": fpp, "Rows": Rows}
# Calls of other packages, on the reader's own tables, and fixtures of the tests.
OTHERS = {"private", "dates", "x", "dask", "dropna", "fillna", "Fraction", "Decimal", "fresh_keys"}
CITED = re.compile(r"\b(?:fpp|fastpubpriv|Rows)\.[A-Za-z_][\w.]*")
CALL = re.compile(r"([A-Za-z_][\w.]*)\((.*)\)")


def named(text):
    """Return what a dotted name stands for; raise AttributeError or ImportError if there is none."""
    root, *parts = text.rstrip(".").split(".")
    found = ROOTS[root]
    path = root
    for part in parts:
        path = f"{path}.{part}"
        if not hasattr(found, part) and inspect.ismodule(found):
            importlib.import_module(path.replace("fpp.", "fastpubpriv."))
        found = getattr(found, part)
    return found


def everything():
    """Return all functions, classes and methods of the package by their last name, several for a name."""
    known = {}
    for info in pkgutil.walk_packages(fpp.__path__, "fastpubpriv."):
        if not info.name.startswith(("fastpubpriv.torch", "fastpubpriv.__main__")):
            for name, value in vars(importlib.import_module(info.name)).items():
                known.setdefault(name, []).append(value)
                if inspect.isclass(value) and value.__module__.startswith("fastpubpriv"):
                    for member in dir(value):
                        known.setdefault(member, []).append(getattr(value, member))
    return known


def takes(function, keywords):
    """Return whether a function or class has all of these parameters."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    return set(keywords) <= set(parameters) or any(
        each.kind is each.VAR_KEYWORD for each in parameters.values()
    )


def cited(path):
    """Return the texts between single backticks of a page, outside of its programs."""
    prose = re.sub(
        r"^( *)```.*?^\1```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    return re.findall(r"`([^`\n]+)`", prose)


def wrong_citations(texts, known):
    """Return the names and calls that do not resolve, or do not take their keywords."""
    wrong = []
    for text in texts:
        for name in CITED.findall(text):
            try:
                named(name)
            except (AttributeError, ImportError):
                wrong.append(name)
        call = CALL.fullmatch(text)
        if call is not None and call[1].split(".")[0] not in OTHERS:
            keywords = re.findall(r"\b([a-z_]+) ?=(?!=)", re.sub(r"\"[^\"]*\"", "", call[2]))
            if not any(
                takes(function, keywords) for function in known.get(call[1].split(".")[-1], ())
            ):
                wrong.append(text)
    return wrong


@pytest.fixture(scope="module")
def known():
    return everything()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_names_and_calls_of_a_page_exist(path, known):
    assert wrong_citations(cited(path), known) == []


@pytest.mark.parametrize(
    "text",
    [
        "Rows.from_npy",
        "fpp.estimate_median",
        "Rows.from_csv(..., memory_map=False)",
        "private_row(path)",
    ],
)
def test_a_citation_that_does_not_exist_is_found(text, known):
    assert wrong_citations([text], known) != []


def test_a_citation_that_exists_is_accepted(known):
    assert (
        wrong_citations(
            ["private_rows(path, memory_map=False)", "fpp.sources.Rows", "result.plot()"], known
        )
        == []
    )
