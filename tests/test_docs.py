"""Every Python block of the documents and every docstring example runs, and its output is as shown."""

import doctest
import importlib
import inspect
import math
import pkgutil
import re
import runpy
import shlex
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import click
import numpy as np
import pytest
from click.testing import CliRunner

import fastpubpriv
from benchmarks import readme
from fastpubpriv import ZCDP, estimate_mean
from fastpubpriv.cli.app import main
from fastpubpriv.defaults import FAILURE_PROB
from fastpubpriv.distributions import tuning
from fastpubpriv.estimators.mean_methods import METHODS
from fastpubpriv.planning import TASKS
from fastpubpriv.sources import open as formats

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = ["README.md", "docs/dev/adding.md"]
# Seeded examples warn on purpose; any other warning is an error in the document.
SEEDED = "ignore::fastpubpriv.SeededNoiseWarning"
# The estimators for scikit-learn count the fits of a process, and the examples run in one process.
FITTED = "ignore:this is fit number:fastpubpriv.errors.PrivacyWarning"


def blocks(text: str) -> list[str]:
    return re.findall(r"(?ms)^```python\n(.*?)^```$", text)


def modules() -> list[str]:
    """Return modules whose examples run here; `tests/torch_bridge` runs those that need PyTorch."""
    found = pkgutil.walk_packages(fastpubpriv.__path__, "fastpubpriv.")
    elsewhere = ("_cext", ".torch.module_training")
    return [
        "fastpubpriv",
        *(module.name for module in found if not module.name.endswith(elsewhere)),
    ]


def run_examples(text: str, name: str, names: dict[str, object]) -> tuple[int, int]:
    """Run the >>> lines of a text; return failures and attempts."""
    test = doctest.DocTestParser().get_doctest(text, names, name, name, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
    runner.run(test, clear_globs=False)
    return runner.failures, runner.tries


README = (ROOT / "README.md").read_text(encoding="utf-8")
SECTIONS = re.split("(?m)^## ", (ROOT / "docs/dev/adding.md").read_text(encoding="utf-8"))
TOYS = {
    section.split("\n")[0].split()[-1]: blocks(section) for section in SECTIONS if blocks(section)
}


@pytest.mark.filterwarnings(SEEDED)
@pytest.mark.parametrize(("name", "parts"), [("README", blocks(README)), *TOYS.items()])
def test_code_of_documents_runs(name, parts, tmp_path, monkeypatch):
    """The README and each walk-through run in an empty folder; a walk-through adds one file and edits no other."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"{name}.py").write_text("\n".join(parts), encoding="utf-8")
    # registrations of a file are undone after it
    with mock.patch.dict(METHODS), mock.patch.dict(formats.KINDS):
        runpy.run_path(f"{name}.py")


def test_a_method_a_mechanism_and_a_source_are_added():
    assert {"mechanism", "method", "source"} <= TOYS.keys()


def test_the_readme_counts_the_lines_that_carry_the_guarantee():
    """Keys, noise, charges and costs, as the paragraph lists them; a tenth more or less is another number."""
    said = int(re.search(r"charges and costs are ([\d,]+) lines", README)[1].replace(",", ""))
    privacy = [f"fastpubpriv/privacy/{name}.py" for name in ("events", "calibration", "spending")]
    files = ["fastpubpriv/keys.py", *privacy, "csrc/chacha.c", "csrc/sampler.c"]
    paths = [ROOT / name for name in files] + sorted((ROOT / "fastpubpriv/release").glob("*.py"))
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)
    assert abs(lines - said) < 0.1 * said, f"README says {said:,} lines, and there are {lines:,}"


def without_numbers(text: str) -> str:
    return " ".join(re.sub(r"-?\d[\d,.]*(e-?\d+)?", "#", text).split())


def test_the_output_in_the_readme_is_what_its_code_prints(tmp_path, monkeypatch, capsys):
    """Except for numbers, which depend on fresh noise."""
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks(README)[0], "README.md, block 1", "exec"), {})  # our own text
    (shown,) = re.findall(r"(?ms)^```text\n(.*?)^```$", README)
    printed = capsys.readouterr().out
    assert without_numbers(shown) == without_numbers(printed)
    assert without_numbers("a  1,000.5\nb -2e-6") == "a # b #"


def cautions_of_the_readme(monkeypatch, runs: int, hidden: float = tuning.HIDDEN) -> int:
    """Return in how many runs, with a seed each, the mean of the README has a reason."""
    monkeypatch.setattr(tuning, "HIDDEN", hidden)
    names: dict[str, Any] = {}
    exec(compile(blocks(README)[0], "README.md, block 1", "exec"), names)  # our own text
    given = {"x_pub": names["public"], "budget": ZCDP(rho=0.1)}
    results = (estimate_mean(names["private"], random_state=seed, **given) for seed in range(runs))
    return sum(result.status != "ok" for result in results)


@pytest.mark.filterwarnings(SEEDED)
@pytest.mark.parametrize("runs", [100, pytest.param(3_000, marks=pytest.mark.statistical)])
def test_the_example_of_the_readme_is_ok_in_98_of_100_runs(monkeypatch, runs):
    most = 0.02 * runs + 4.0 * math.sqrt(0.02 * 0.98 * runs)  # four standard deviations of chance
    assert cautions_of_the_readme(monkeypatch, runs) <= most
    # Planted fault: a hidden tail counts from 2.7 half-widths on, in place of 6.
    assert cautions_of_the_readme(monkeypatch, runs, hidden=2.7) > most


def test_commands_in_the_readme_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(7)
    for name, n in (("visits.csv", 20_000), ("volunteers.csv", 12)):
        rows = np.column_stack([rng.integers(18, 90, n), rng.lognormal(10.3, 0.6, n)])
        np.savetxt(name, rows, fmt="%.1f", delimiter=",", header="age,income", comments="")
    scripts = "\n".join(re.findall(r"(?ms)^```sh\n(.*?)^```$", README))
    commands = re.findall(r"(?m)^fastpubpriv (.+)$", scripts)
    assert len(commands) >= 3
    for command in commands:
        done = CliRunner().invoke(main, shlex.split(command))
        assert done.exit_code == 0, done.output
    assert {"mean.json", "mean.png", "model.json", "visits.ledger"} <= {
        path.name for path in tmp_path.iterdir()
    }


def test_the_small_tables_are_rows_of_the_long_ones():
    texts = [
        path.read_text(encoding="utf-8") for path in (readme.README, readme.SPEED, readme.ACCURACY)
    ]
    assert readme.filled(*texts) == texts[0]
    assert all(
        f"| {name} | " in texts[0] and f"| {peer} | " in texts[0]
        for name, peer in readme.SPEED_ROWS
    )
    assert " CPUs; " in texts[1]
    assert readme.filled(texts[0], texts[1].replace(" CPUs; ", " others; "), texts[2]) != texts[0]


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


@pytest.mark.parametrize(
    "document",
    [*DOCUMENTS, "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs/dev/findings.md"],
)
def test_links_lead_somewhere(document, tmp_path):
    assert broken_links(ROOT / document) == []
    (tmp_path / "a.md").write_text(
        "[b](b.md) [web](https://example.org) [here](a.md#x)", encoding="utf-8"
    )
    assert broken_links(tmp_path / "a.md") == ["b.md"]


@pytest.mark.parametrize(
    ("document", "most"), [("README.md", 220), ("CONTRIBUTING.md", 150), ("SECURITY.md", 150)]
)
def test_what_people_read_first_stays_short(document, most):
    """Longer content belongs to the book."""
    assert (ROOT / document).read_text(encoding="utf-8").count("\n") <= most


# ---- Docstrings describe each parameter once; one default of `failure_prob`.
PARTS = ["auditing", "local", "mixtures", "planning", "privacy", "sources", "training"]
HOMES = [
    "fastpubpriv",
    *(
        f"fastpubpriv.{part}"
        for part in (
            "auditing",
            "mixtures.list_decoding",
            "planning",
            "privacy",
            "privacy.conversions",
        )
    ),
]


def public_functions() -> dict[str, Callable[..., object]]:
    found = [
        getattr(module, name) for module in map(import_module, HOMES) for name in module.__all__
    ]
    return {function.__name__: function for function in found if inspect.isfunction(function)}


PUBLIC = public_functions()
# Functions whose first lines describe all of their arguments.
SHORT = {
    name
    for name, function in PUBLIC.items()
    if "Parameters\n" not in (inspect.getdoc(function) or "")
}


def described(text: str) -> tuple[list[str], list[str]]:
    """Return names in the Parameters section, in order, and those without a description."""
    section = text.split("Parameters\n----------\n")[1]
    section = re.split(r"\n\n(?=[A-Z]\w+\n-{3,}(\n|$))", section)[0]
    blocks = re.split(r"\n(?=\S)", section)
    names = [
        (re.split(r" : |$", block.split("\n")[0])[0].split(", "), "\n    " in block)
        for block in blocks
    ]
    return [name for each, _ in names for name in each], [
        name for each, told in names if not told for name in each
    ]


@pytest.mark.parametrize("name", sorted(PUBLIC.keys() - SHORT))
def test_each_parameter_is_described_once(name):
    found, silent = described(inspect.getdoc(PUBLIC[name]))
    assert sorted(found) == sorted(inspect.signature(PUBLIC[name]).parameters)
    assert silent == []


def test_the_entry_points_say_more_than_a_line():
    assert [
        name for name in PUBLIC if re.search(r"(?m)^ *\{.*\}$", inspect.getdoc(PUBLIC[name]))
    ] == []
    assert not SHORT & {name for name in import_module("fastpubpriv").__all__ if name in PUBLIC}
    assert (
        sum(
            "None: fresh operating-system keys" in inspect.getdoc(function)
            for function in PUBLIC.values()
        )
        >= 15
    )


def test_the_check_of_descriptions_catches():
    assert described(
        "Parameters\n----------\na, b : int\n    Two.\nc\nc : int\n    One.\n\nReturns\n-------\nint"
    ) == (
        ["a", "b", "c", "c"],
        ["c"],
    )


def test_failure_prob_has_one_default():
    """In every function, in `plan` and on the command line."""
    signatures = [
        inspect.signature(function).parameters
        for function in (*PUBLIC.values(), *(TASKS[task] for task in TASKS))
    ]
    defaults = [given["failure_prob"].default for given in signatures if "failure_prob" in given]
    assert len(defaults) >= 20
    assert set(defaults) == {FAILURE_PROB}
    context = click.Context(main)
    commands = [main.get_command(context, name) for name in main.list_commands(context)]
    options = [
        option for command in commands for option in command.params if option.name == "failure_prob"
    ]
    assert len(options) >= 5
    assert {option.default for option in options if isinstance(option.default, float)} == {
        FAILURE_PROB
    }


@pytest.mark.parametrize("part", ["", *PARTS, "mixtures.list_decoding"])
def test_dir_shows_what_is_public(part):
    module = import_module(f"fastpubpriv.{part}".rstrip("."))
    own = {*PARTS, "__version__"} if not part else set()
    assert set(dir(module)) == {*module.__all__, *own}
    for name in dir(module):
        assert getattr(module, name) is not None


# ---- Numbered statements that the code and the pages cite from the three papers: each must exist in its paper.
KINDS = "Theorem|Lemma|Proposition|Remark|Corollary|Definition|Claim|Fact|Condition|Algorithm|Figure|Table"


def numbers(text):
    """Expand ranges: 1-4 to 1 2 3 4, C.1-3 to C.1 C.2 C.3."""
    found = set()
    for part in text.split():
        head, _, last = part.partition("-")
        stem, dot, first = head.rpartition(".")
        found |= {f"{stem}{dot}{k}" for k in range(int(first), int(last or first) + 1)}
    return found


# Numbering of the versions that `docs/papers` names.
STATEMENTS = {
    "A": {
        "Theorem": "1.1-6 2.3-4 3.1 B.2 B.5 B.12 C.14 C.17 C.20-29",
        "Lemma": "2.2 2.5 A.1-7 A.12-14 A.18-19 A.21-24 B.1 B.6-11 C.7-13 C.19", "Claim": "2.1 C.15-16",
        "Corollary": "C.18", "Definition": "A.8-11 A.15-17 A.20", "Fact": "B.3-4", "Condition": "C.1-6 1-2",
        "Algorithm": "1-10", "Figure": "1",
    },
    "B": {
        "Theorem": "4 10 12 14 18 21-23 25 32-33 38 41-42 44 48", "Lemma": "7 16 26-28 31 35-36 39 45-46",
        "Proposition": "8 17 19-20 29-30 37 43 47 49", "Remark": "5 11 15 34 40", "Definition": "1-3 6 9 13 24",
        "Algorithm": "1-4", "Figure": "1-20", "Table": "1-12",
    },
    "C": {
        "Theorem": "1.1-2 1.4 3.2 4.6 4.14 5.1 E.1", "Lemma": "2.10-11 3.1 4.1-2 4.7 4.10 5.2 A.4",
        "Proposition": "1.3 2.2 A.1-3 B.4 B.6 C.1 D.1-3", "Definition": "2.1 2.3-6 2.8-9 2.12-13 B.1-3 B.5",
        "Remark": "2.7", "Corollary": "4.5 4.13 E.2", "Claim": "3.3-4 4.3-4 4.8-9 4.11-12", "Algorithm": "1-5",
    },
}  # fmt: skip
KNOWN = {
    paper: {f"{kind} {number}" for kind, listed in kinds.items() for number in numbers(listed)}
    for paper, kinds in STATEMENTS.items()
}
NUMBER = r"(?:[A-G]\.)?\d+(?:\.\d+)?"
LISTED = re.compile(
    rf"\b({KINDS})s? ({NUMBER}(?:(?:, | and | to ){NUMBER})*)|\b({KINDS})s? ([a-z]\S*)"
)
# From the name of a paper to the end of its sentence, clause or parenthesis.
CITED = re.compile(r"[Pp]aper ([ABC])\b\)?:?((?:[^.;:()]|\.(?=\d))*)")
# Titles that pages and docstrings use in place of a letter.
TITLES = {"LLHR (paper B)": "paper B", "of Aden-Ali, Ashtiani, Liaw (2021)": "of paper C"}


def statements(text):
    """Return citations in a text about one paper, in the form "Lemma 3.1"; "Theorem on ..." for one without a number."""
    found = []
    for kind, listed, bare, word in LISTED.findall(text):
        if bare:
            found += [f"{bare} {word}"] if word in ("on", "about") else []
            continue
        found += [f"{kind} {number}" for number in re.findall(NUMBER, listed)]
    return found


def unknown(text):
    """Return citations of statements that the paper does not have."""
    flat = re.sub(r"\s+", " ", text)
    for title, name in TITLES.items():
        flat = flat.replace(title, name)
    found = [
        (paper, cited)
        for paper, rest in CITED.findall(flat)
        for cited in statements(rest)
        if cited not in KNOWN[paper]
    ]
    # "Algorithm 2 of paper C", "Lemma 4.1 of Aden-Ali, Ashtiani, Liaw (2021)".
    behind = re.findall(rf"((?:{KINDS})s? {NUMBER}) of paper ([ABC])\b", flat)
    return found + [(paper, cited) for cited, paper in behind if cited not in KNOWN[paper]]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("Paper C, Theorem 2.15 (Bun and others 2019).", [("C", "Theorem 2.15")]),
        ("(paper B, Theorem on finite classes)", [("B", "Theorem on")]),
        ("LLHR (paper B), Lemma 15; the radius", [("B", "Lemma 15")]),
        ("Algorithm 6 of paper C", [("C", "Algorithm 6")]),
        ("Paper A, Lemmas 2.5 and\n    B.12. Paper B, Theorem 14", [("A", "Lemma B.12")]),
        ("paper C, Lemma 3.1 (Theorem 27 of others), and paper A, Algorithms 9 and 10", []),
    ],
)
def test_a_wrong_citation_is_found(text, wrong):
    assert unknown(text) == wrong


def test_what_is_cited_is_in_the_papers():
    wrong = {}
    for path in [
        *ROOT.glob("fastpubpriv/**/*.py"),
        *ROOT.glob("fastpubpriv/**/*.md"),
        *ROOT.glob("docs/**/*.md"),
    ]:
        found = unknown(path.read_text(encoding="utf-8"))
        if found:
            wrong[path.relative_to(ROOT).as_posix()] = found
    assert not wrong


@pytest.mark.parametrize("paper", "ABC")
def test_the_table_of_each_page_cites_its_paper(paper):
    text = (ROOT / f"docs/papers/{paper.lower()}.md").read_text(encoding="utf-8")
    rows = [
        line.split("|")[1]
        for line in text.splitlines()
        if line.startswith("|") and line.count("|") == 5
    ]
    cited = [each for row in rows for each in statements(row)]
    assert len(cited) > 5
    assert set(cited) <= KNOWN[paper]
