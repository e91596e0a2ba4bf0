"""Docstrings have the shared texts of parameters word for word, and `tests/shared_texts.py` can put them there."""

import ast
import re
from unittest import mock

import pytest
import shared_texts
from shared_texts import TEXTS, filled, indented, renewed, sources

SECTIONS = {"of_an_audit"}
# Parameters of shared names and forms that a function describes in words of its own.
OWN = {
    ("Aggregator", "randomizer"),
    ("AuditReport", "confidence"),
    ("Executor", "progress"),
    ("Executor", "threads"),
    ("Plan", "budget"),
    ("PrivateTable", "InputError, BudgetError, LedgerError"),
    ("PrivateTable", "progress"),
    ("PrivateTable", "threads"),
    ("PublicPrivateGaussian", "bounds"),
    ("PublicPrivateGaussianMixture", "bounds"),
    ("SemiPrivateLogisticRegression", "class_weight"),
    ("add", "threads"),
    ("audit_weighted_mean", "claim"),
    ("clopper_pearson", "confidence"),
    ("count_persons", "groups"),
    ("describe", "x_pub"),
    ("epsilon_lower_bound", "confidence"),
    ("estimate_mean", "columns"),
    ("from_bytes", "randomizer"),
    ("from_csv", "columns"),
    ("learn_separated_mixture", "mode"),
    ("make_semi_private", "budget"),
    ("make_semi_private", "ledger"),
    ("make_semi_private", "random_state"),
    ("mean_error", "randomizer"),
    ("no_public_baseline", "budget"),
    ("order_bounds", "budget"),
    ("order_bounds", "pub_priv_gap"),
    ("precondition", "pub_priv_gap"),
    ("privatize", "columns"),
    ("privatize", "random_state"),
    ("privatize", "threads"),
    ("record_replay", "budget"),
    ("select_hypothesis", "InputError, BudgetError, LedgerError"),
    ("train", "columns"),
    ("train", "random_state"),
    ("value_counts", "columns"),
    ("weighted_mean", "budget"),
}


def docstrings(source: str) -> dict[str, str]:
    """Return the docstrings of a source by the names of functions and classes, without their margins."""
    kinds = ast.FunctionDef | ast.ClassDef
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)]
    return {node.name: ast.get_docstring(node) or "" for node in nodes}


def differing(name: str, text: str) -> list[str]:
    """Return the first lines of the parameters that a docstring describes in other words than the shared ones of this form."""
    heads: dict[str, list[str]] = {}
    for shared in (text for key, text in TEXTS.items() if key not in SECTIONS):
        heads.setdefault(shared.split("\n")[0], []).append(shared)
    lines = set(text.split("\n"))
    return [
        head
        for head, known in heads.items()
        if head in lines
        and not any(f"\n{shared}\n" in f"{text}\n" for shared in known)
        and (name, head.split(" : ")[0]) not in OWN
    ]


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.stem)
def test_docstrings_have_the_shared_texts(path):
    source = path.read_text(encoding="utf-8")
    assert filled(source) == source, "python -m tests.shared_texts"
    found = {name: differing(name, text) for name, text in docstrings(source).items()}
    assert {name: heads for name, heads in found.items() if heads} == {}, (
        "python -m tests.shared_texts"
    )


def test_every_shared_text_is_used_and_every_exception_needed():
    every = [docstrings(path.read_text(encoding="utf-8")) for path in sources()]
    whole = "\n\n".join(text for found in every for text in found.values())
    assert [key for key, text in TEXTS.items() if f"\n{text}\n" not in f"{whole}\n"] == []
    with mock.patch.dict(OWN, clear=True):
        needed = {
            (name, head.split(" : ")[0])
            for found in every
            for name, text in found.items()
            for head in differing(name, text)
        }
    assert needed == set(OWN)


def test_another_word_is_noticed():
    text = f"Mean.\n\nParameters\n----------\n{TEXTS['ledger']}\n"
    assert differing("mean", text) == []
    assert differing("mean", text.replace("Debited", "Charged")) == ["ledger : Ledger, optional"]


def test_lines_with_names_are_filled_and_what_is_below_them_stays():
    source = '    """Mean.\n\n    {ledger, mode}\n        Of this function.\n\n    A {literal} stays.\n    """\n'
    text = filled(source)
    assert indented(TEXTS["ledger"], "    ") + "\n" + indented(TEXTS["mode"], "    ") in text
    assert "Same privacy.\n        Of this function.\n" in text
    assert "A {literal} stays." in text
    assert filled("    {nonsense}\n") == "    {nonsense}\n"  # a test of all docstrings notices it


def test_a_changed_text_replaces_the_old_one():
    source = f"\n{indented(TEXTS['ledger'], '    ')}\n        Own.\n"
    before = {**TEXTS, "ledger": TEXTS["ledger"]}
    with mock.patch.dict(TEXTS, {"ledger": "ledger : Ledger\n    New."}):
        assert renewed(source, before) == "\n    ledger : Ledger\n        New.\n        Own.\n"


def test_shared_texts_are_parameters_with_a_description():
    for text in (text for name, text in TEXTS.items() if name not in SECTIONS):
        first, *rest = text.split("\n")
        assert re.fullmatch(r"[\w, ]+( : .+)?", first)
        assert rest
        assert all(
            (line.startswith("    ") and line.endswith((".", ","))) or len(line) > 90
            for line in rest
        )


def test_the_program_writes_files(tmp_path, monkeypatch, capsys):
    path = tmp_path / "a.py"
    path.write_text('def f():\n    """F.\n\n    {ledger}\n    """\n', encoding="utf-8")
    monkeypatch.setattr(shared_texts, "ROOT", tmp_path)
    monkeypatch.setattr(shared_texts, "sources", lambda: [path])
    monkeypatch.setattr(shared_texts, "of_last_commit", dict)
    shared_texts.main()
    assert capsys.readouterr().out == "a.py\n"
    assert TEXTS["ledger"].split("\n")[1].strip() in path.read_text(encoding="utf-8")
