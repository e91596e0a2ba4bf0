"""Numbered statements that the code and the pages cite of the three papers: each must be one that the paper has."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
KINDS = "Theorem|Lemma|Proposition|Remark|Corollary|Definition|Claim|Fact|Condition|Algorithm|Figure|Table"


def numbers(text):
    """1-4 stands for 1 2 3 4, C.1-3 for C.1 C.2 C.3."""
    found = set()
    for part in text.split():
        head, _, last = part.partition("-")
        stem, dot, first = head.rpartition(".")
        found |= {f"{stem}{dot}{k}" for k in range(int(first), int(last or first) + 1)}
    return found


# As the versions number them that `docs/papers` names.
STATEMENTS = {
    "A": {
        "Theorem": "1.1-6 2.3-4 3.1 B.2 B.5 B.12 C.14 C.17 C.20-29",
        "Lemma": "2.2 2.5 A.1-7 A.12-14 A.18-19 A.21-24 B.1 B.6-11 C.7-13 C.19",
        "Claim": "2.1 C.15-16",
        "Corollary": "C.18",
        "Definition": "A.8-11 A.15-17 A.20",
        "Fact": "B.3-4",
        "Condition": "C.1-6 1-2",
        "Algorithm": "1-10",
        "Figure": "1",
    },
    "B": {
        "Theorem": "4 10 12 14 18 21-23 25 32-33 38 41-42 44 48",
        "Lemma": "7 16 26-28 31 35-36 39 45-46",
        "Proposition": "8 17 19-20 29-30 37 43 47 49",
        "Remark": "5 11 15 34 40",
        "Definition": "1-3 6 9 13 24",
        "Algorithm": "1-4",
        "Figure": "1-20",
        "Table": "1-12",
    },
    "C": {
        "Theorem": "1.1-2 1.4 3.2 4.6 4.14 5.1 E.1",
        "Lemma": "2.10-11 3.1 4.1-2 4.7 4.10 5.2 A.4",
        "Proposition": "1.3 2.2 A.1-3 B.4 B.6 C.1 D.1-3",
        "Definition": "2.1 2.3-6 2.8-9 2.12-13 B.1-3 B.5",
        "Remark": "2.7",
        "Corollary": "4.5 4.13 E.2",
        "Claim": "3.3-4 4.3-4 4.8-9 4.11-12",
        "Algorithm": "1-5",
    },
}
KNOWN = {
    paper: {f"{kind} {number}" for kind, listed in kinds.items() for number in numbers(listed)}
    for paper, kinds in STATEMENTS.items()
}
NUMBER = r"(?:[A-G]\.)?\d+(?:\.\d+)?"
LISTED = re.compile(rf"\b({KINDS})s? ({NUMBER}(?:(?:, | and | to ){NUMBER})*)|\b({KINDS})s? ([a-z]\S*)")
# From the name of a paper to the end of the sentence, of the clause, or of the parenthesis that it stands in.
CITED = re.compile(r"[Pp]aper ([ABC])\b\)?:?((?:[^.;:()]|\.(?=\d))*)")
# Titles that the pages and the docstrings use in place of a letter.
TITLES = {"LLHR (paper B)": "paper B", "of Aden-Ali, Ashtiani, Liaw (2021)": "of paper C"}


def statements(text):
    """Citations in a text about one paper, in the form "Lemma 3.1"; "Theorem on ..." for one without a number."""
    found = []
    for kind, listed, bare, word in LISTED.findall(text):
        if bare:
            found += [f"{bare} {word}"] if word in ("on", "about") else []
            continue
        found += [f"{kind} {number}" for number in re.findall(NUMBER, listed)]
    return found


def unknown(text):
    """What a text cites of a paper that does not have it."""
    flat = re.sub(r"\s+", " ", text)
    for title, name in TITLES.items():
        flat = flat.replace(title, name)
    found = [
        (paper, cited) for paper, rest in CITED.findall(flat) for cited in statements(rest) if cited not in KNOWN[paper]
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
    for path in [*ROOT.glob("fastpubpriv/**/*.py"), *ROOT.glob("fastpubpriv/**/*.md"), *ROOT.glob("docs/**/*.md")]:
        found = unknown(path.read_text(encoding="utf-8"))
        if found:
            wrong[path.relative_to(ROOT).as_posix()] = found
    assert not wrong


@pytest.mark.parametrize("paper", "ABC")
def test_the_table_of_each_page_cites_its_paper(paper):
    text = (ROOT / f"docs/papers/{paper.lower()}.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("|") and line.count("|") == 5]
    cited = [each for row in rows for each in statements(row)]
    assert len(cited) > 5
    assert set(cited) <= KNOWN[paper]
