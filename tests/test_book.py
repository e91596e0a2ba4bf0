"""Fast checks of the book; `make docs` checks all of it."""

import doctest
import inspect
import json
import re
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"
sys.path.insert(0, str(DOCS / "extensions"))

from evidence_tables import ROOT, TABLES, long_tests  # noqa: E402
from formulas import convert, to_latex  # noqa: E402
from page_checks import broken  # noqa: E402
from reference_examples import documentation, find, has_example  # noqa: E402
from reference_groups import (  # noqa: E402
    DATA,
    GROUPS,
    PARAMETER_GROUPS,
    group_of,
    group_parameters,
    parameter_entries,
    public_names,
)


def cells(text: str) -> list[str]:
    """Return the Python code of the cells of a page, without their options."""
    found = re.findall(r"(?ms)^```\{code-cell\}[^\n]*\n(.*?)^```$", text)
    return [
        "\n".join(line for line in cell.splitlines() if not line.startswith(":")) for cell in found
    ]


def toctree_entries(text: str) -> list[str]:
    found = re.findall(r"(?ms)^```\{toctree\}\n(.*?)^```$", text)
    lines = [line.strip() for block in found for line in block.splitlines()]
    # An entry may have a title: `Title <page>`.
    return [
        re.sub(r"^.*<(.*)>$", r"\1", line) for line in lines if line and not line.startswith(":")
    ]


def unlisted(docs: Path) -> set[str]:
    """Return pages that no table of contents lists."""
    # these are written by the build
    found = [path for path in docs.rglob("*.md") if not {"api", "cli"} & set(path.parts)]
    pages = {path.relative_to(docs).as_posix().removesuffix(".md"): path for path in found}
    listed = {"index"}
    for path in pages.values():
        for entry in toctree_entries(path.read_text(encoding="utf-8")):
            listed.add((path.parent / entry).resolve().relative_to(docs.resolve()).as_posix())
    return set(pages) - listed


@pytest.mark.parametrize("name", DATA)
def test_examples_of_names_that_are_data(name):
    example = doctest.DocTestParser().get_doctest(DATA[name], {}, name, name, 0)
    assert example.examples
    assert doctest.DocTestRunner(verbose=False).run(example).failed == 0


@pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
# The status depends on the noise; the pages tell their readers to check it.
@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize(
    "page", ["start.md", "which_function.md", "guide/recipes.md", "guide/gallery.md"]
)
def test_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    found = cells((DOCS / page).read_text(encoding="utf-8"))
    assert found
    for index, cell in enumerate(found):
        exec(compile(cell, f"{page}, cell {index + 1}", "exec"), names)  # our own text


def test_no_cell_hides_its_picture():
    """No cell ends in a semicolon, which would suppress its output in a notebook."""
    pages = {path.name: cells(path.read_text(encoding="utf-8")) for path in DOCS.rglob("*.md")}
    assert [
        name
        for name, found in pages.items()
        if any(re.search(r"plot\(.*\);", cell) for cell in found)
    ] == []


def recipes() -> dict[str, str]:
    """Return sections of the page of recipes by their titles."""
    page = (DOCS / "guide" / "recipes.md").read_text(encoding="utf-8")
    return dict(part.split("\n", 1) for part in re.split(r"(?m)^## ", page)[1:])


def test_every_recipe_is_short_and_says_what_to_watch_for():
    found = recipes()
    assert 12 <= len(found) <= 20
    assert {title: len(cells(text)) for title, text in found.items()} == dict.fromkeys(found, 1)
    assert [title for title, text in found.items() if "*Watch for*" not in text] == []
    lengths = {title: len(cells(text)[0].strip().splitlines()) for title, text in found.items()}
    assert {title: length for title, length in lengths.items() if not 2 <= length <= 12} == {}


def test_every_page_is_listed(tmp_path):
    assert unlisted(DOCS) == set()
    (tmp_path / "index.md").write_text(
        "```{toctree}\n:maxdepth: 1\n\nA title <a>\n```\n", encoding="utf-8"
    )
    for name in "ab":
        (tmp_path / f"{name}.md").write_text(f"# {name}\n", encoding="utf-8")
    assert unlisted(tmp_path) == {"b"}
    assert cells("```{code-cell}\n:tags: [x]\n\n1 + 1\n```\n") == ["\n1 + 1"]


def long_lines(text: str) -> list[str]:
    """Return lines of shown cells that are too wide for the page on a desktop."""
    shown = re.sub(r"(?ms)^```\{code-cell\}\n:tags: \[(?:remove|hide)-cell\].*?^```$", "", text)
    return [line for cell in cells(shown) for line in cell.splitlines() if len(line) >= 84]


def test_lines_of_code_fit_on_a_page():
    found = {path.name: long_lines(path.read_text(encoding="utf-8")) for path in DOCS.rglob("*.md")}
    assert {name: lines for name, lines in found.items() if lines} == {}
    line = "x = " + "1 + " * 25 + "1"
    assert long_lines(f"```{{code-cell}}\n{line}\n```\n") == [line]
    assert long_lines(f"```{{code-cell}}\n:tags: [hide-cell]\n\n{line}\n```\n") == []


def test_every_public_name_has_a_page_and_an_example():
    assert sorted([name for group in GROUPS for name in group.names]) == sorted(public_names())
    # One page would overwrite the other.
    assert {group.slug for group in GROUPS} & {
        name.removeprefix("fastpubpriv.") for name in public_names()
    } == set()
    # The examples themselves run in `tests/test_docs.py`.
    assert [name for group in GROUPS for name in group.names if not has_example(name)] == []


def released_by() -> dict[str, str]:
    """Return the docstrings of what takes a ledger: functions that spend a budget, and the estimators for scikit-learn."""
    found = {
        name: documentation(name)
        for group in GROUPS
        for name in group.names
        if inspect.isfunction(find(name)) or name.startswith("fastpubpriv.sklearn.")
    }
    return {name: text for name, text in found.items() if "\nledger : " in text}


def test_parameters_of_a_release_are_shown_in_three_groups():
    lines = documentation("fastpubpriv.weighted_mean").splitlines()
    parts = re.split(r"(?m)^([A-Z][\w ]+)\n---+$", "\n".join(group_parameters(lines)))
    assert parts[1:8:2] == [*PARAMETER_GROUPS, "Returns"]
    data, asked, running = (re.findall(r"(?m)^(\w+) : ", part) for part in parts[2:8:2])
    assert data[:2] == ["x_priv", "budget"]
    assert asked == ["row_weight", "project"]
    assert running == ["ledger", "random_state", "threads", "progress"]
    in_groups = sorted("".join(parts[2:8:2]).split())
    assert in_groups == sorted(re.split(r"(?m)^\w+\n---+$", "\n".join(lines))[1].split())
    alone = documentation("fastpubpriv.supercluster").splitlines()
    assert group_parameters(alone) == alone


def out_of_order(text: str) -> list[str]:
    """Return the entries of a docstring that stand behind one of a later group."""
    _, entries = parameter_entries(text)
    places = [group_of(entry) for entry in entries]
    return [
        entry.split("\n")[0]
        for index, entry in enumerate(entries)
        if places[index] < max(places[: index + 1])
    ]


@pytest.mark.parametrize("name", released_by())
def test_docstrings_have_the_order_of_the_groups(name):
    """So that `help()` shows them too, with an empty line between two groups."""
    text = released_by()[name]
    assert out_of_order(text) == []
    section, entries = parameter_entries(text)
    groups = len({group_of(entry) for entry in entries})
    assert text[section].rstrip().count("\n\n") == groups - 1


def test_a_parameter_out_of_order_is_noticed():
    planted = "Parameters\n----------\nledger : Ledger\n    A.\nx_priv : array\n    B.\n"
    assert out_of_order(planted) == ["x_priv : array"]


def related(text: str) -> list[tuple[str, str]]:
    """Return the names and the words of the section See Also of a docstring."""
    section = re.search(r"(?ms)^See Also\n-{8}\n(.*?)(?=^\w[\w ]*\n---|\Z)", text)
    if section is None:
        return []
    return [tuple(line.split(" : ", 1)) for line in section[1].strip().split("\n")]


FUNCTIONS = [
    name
    for group in GROUPS
    for name in group.names
    if inspect.isfunction(find(name)) or group.slug == "sklearn"
]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_else_to_take_is_named(name):
    """Two to four names, each with a page of its own, and a line on when to take it."""
    shown = related(documentation(name))
    assert 2 <= len(shown) <= 4
    pages = public_names()
    home = name.rpartition(".")[0]
    for other, words in shown:
        full = other if other in pages else f"{home}.{other}"
        assert full in pages or f"fastpubpriv.training.{other}" in pages, other
        assert full != name
        assert words.endswith(".")


# What one row can move a release by, in steps of its grid: the notes of the mechanisms have these formulas, and their proofs.
SENSITIVITY = re.compile(
    r"\b[QS]\^[24]|isqrt|squared (?:l2 )?sensitivity|l1 sensitivity|sensitivity \d|\b[2-9c] S\b"
)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_privacy_is_told_in_words_and_proved_in_a_note(name):
    text = documentation(name)
    assert SENSITIVITY.findall(text) == []
    if name in released_by() and not name.startswith("fastpubpriv.sklearn."):
        (privacy,) = re.findall(r"(?ms)^Privacy\n-+\n(.*?)(?=^\w[\w ]*\n---|\Z)", text)
        assert privacy.startswith("Protected: every ")
        assert "eleased" in privacy
        assert re.search(r"Proofs?: `notes/\w+\.md`", " ".join(privacy.split()))


@pytest.mark.parametrize(
    "formula",
    ["2 dim S^2", "isqrt(4 dim Q^2)", "squared sensitivity 2 Q^4", "c S, squared", "pure 2 S"],
)
def test_a_formula_of_a_sensitivity_is_noticed(formula):
    assert SENSITIVITY.search(formula)


def test_every_audit_and_library_has_figures():
    from benchmarks.audits import AUDITS

    kept = json.loads((DOCS / "evidence" / "audits.json").read_text(encoding="utf-8"))
    assert [line["name"] for line in kept] == [name for name, *_ in AUDITS]
    for line, (_, claim, runs, _, factor) in zip(kept, AUDITS, strict=True):
        assert line["claim"] == str(claim)
        assert line["runs"] == runs
        assert line["twin_epsilon"] == factor
        assert line["epsilon_lower"] <= claim.epsilon < line["twin_epsilon_lower"]
    from benchmarks.compared import CONTESTANTS, SIZES

    kept = json.loads((DOCS / "evidence" / "compared.json").read_text(encoding="utf-8"))
    assert [(line["task"], line["name"], line["library"]) for line in kept] == [
        (each.task, each.name, each.library) for each in CONTESTANTS
    ]
    assert all(line["least"] <= line["median"] <= line["most"] for line in kept)
    shown = re.findall(
        r"(?m)^```\{evidence\} (compared, .+)$",
        (DOCS / "compared_with.md").read_text(encoding="utf-8"),
    )
    assert (
        {*SIZES}
        < {name.removeprefix("compared, ") for name in shown}
        == {each.task for each in CONTESTANTS}
    )
    assert all(len(TABLES[name]()) >= 5 for name in shown)


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_a_task_runs_once_in_each_library_that_is_here(capsys):
    from benchmarks import compared

    found = compared.once("unbounded column")
    assert found["fastpubpriv, one public row"] < 1.0
    skipped = capsys.readouterr().out
    for library in ("OpenDP", "diffprivlib"):
        assert (f"skipped: {library}" in skipped) != (f"{library}, 0 to 50" in found)


def test_long_tests_are_found_and_in_the_table(tmp_path):
    marked = [
        path
        for path in ROOT.glob("tests/**/test_*.py")
        if re.search(r"mark\.(statistical|audit)\b", path.read_text())
    ]
    listed = "\n".join(TABLES["tests"]())
    assert all(len(TABLES[name]()) >= 5 for name in ("closer", "guards"))
    assert len(marked) > 20
    assert [
        path
        for path in marked
        if path.name != "test_book.py" and path.relative_to(ROOT).as_posix() not in listed
    ] == []
    path = tmp_path / "test_a.py"
    mark = "pytest.mark.audit"
    path.write_text(
        f"import pytest\nrows = {mark}\n\n@{mark}\ndef test_b():\n    'Why.'\n\n@rows\ndef test_c(): ...\ndef test_d(): ...\n",
        encoding="utf-8",
    )
    assert long_tests(path) == [("test_b", "audit", "Why."), ("test_c", "audit", "")]


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("2 Q^2 / 4^m", r"2 Q ^{2}/4 ^{m}"),
        ("sqrt(D) <= epsilon", r"\sqrt{D }\,\le \varepsilon"),
        ("q_ij", r"q _{ij}"),
        ("1e-7", r"1\cdot 10^{-7}"),
        ("max_depth", None),
        ("vector_sum.md", None),
        ("record_replay", None),
        ("noise", None),
    ],
)
def test_formulas_of_the_notes(text, latex):
    assert to_latex(text) == latex
    assert convert("`Q` of `x.py`\n```\n`Q`\n```\n") == "$Q$ of `x.py`\n```\n`Q`\n```\n"


def test_pages_that_fetch_or_lead_nowhere_are_noticed(tmp_path):
    (tmp_path / "a.html").write_text(
        '<h1 id="x">A</h1><a href="b.html#y">good</a><a href="#x">good</a><a href="https://example.org">good</a>'
        '<a href="c.html">bad</a><a href="b.html#z">bad</a><script src="https://example.org/a.js"></script>'
        '<link rel="stylesheet" href="//example.org/a.css" />',
        encoding="utf-8",
    )
    (tmp_path / "b.html").write_text('<p id="y">B</p>', encoding="utf-8")
    (tmp_path / "c.css").write_text(
        "@import 'https://example.org/d.css'; a { background: url(e.png) }", encoding="utf-8"
    )
    found = broken(tmp_path)
    assert [line.split(" ", 1)[1].split(",")[0] for line in found] == [
        "fetches https://example.org/a.js",
        "fetches //example.org/a.css",
        "links to c.html",
        "links to b.html#z: the page has no such place",
        "fetches https://example.org/d.css",
    ]
