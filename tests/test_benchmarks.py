"""What the benchmarks say of themselves: first calls of all that there is to call, and a table that holds both instruction sets."""

import importlib
import inspect
from types import SimpleNamespace

import numpy as np

from fastpubpriv.cli import main

WITHIN = ("auditing", "local", "training", "sources")


def functions():
    """Public functions, by the names that users call them."""
    for name in ("", *WITHIN):
        module = importlib.import_module(f"fastpubpriv.{name}".rstrip("."))
        for each in module.__all__:
            if inspect.isfunction(getattr(module, each)):
                yield f"{name}.{each}".lstrip(".")


def test_first_calls_are_those_of_every_public_function_and_command():
    from benchmarks.cases import first_calls

    named = {name.split(", ")[0] for name in first_calls.FUNCTIONS}
    assert set(functions()) <= named
    ours = {name.split(" ")[0] for name in first_calls.COMMANDS}
    measure_by_themselves = {"bench", "demo", "audit"}
    assert set(main.commands) - measure_by_themselves <= ours
    assert {*first_calls.SHOWN, *first_calls.COMPILED} <= set(first_calls.FUNCTIONS)


def test_a_row_of_the_table_holds_both_sets_of_instructions(monkeypatch):
    from benchmarks import goals, table
    from benchmarks.cases import loops

    x, asked = np.zeros(50_000), []
    monkeypatch.setattr(table, "lib", SimpleNamespace(fpp_isa_limit=asked.append))
    monkeypatch.setitem(goals.SECONDS, "a loop", 100.0)
    monkeypatch.setitem(goals.PEERS, "a loop", {"a peer": 1e9})
    case = loops.Case("a loop", x.sum, {"a peer": x.sum, "one thread": x.sum}, lambda: 1e9, "a limit")
    first, second = table.lines(case, [2, 0], rounds=1)
    assert asked == [2, 0, 2] * 2  # ours, and the peer that is ours; then all instructions again
    assert first[0] == "a loop"
    assert first[1].count(" / ") == first[2].count(" / ") == first[5].count(" / ") == second[5].count(" / ") == 1
    assert first[6] == "<= 100 s: met; >= 1e+09: NOT MET"
    assert second[:4] == ("", "", "", "")
    assert goals.said([1.7, 1.4], [1.5, 1.5], at_most=True) == "<= 1.7 / 1.4: met / NOT MET"
    assert all(len(line) == len(table.HEADER) for line in (first, second))
    text = table.written(f"before\n{table.BEGIN}\nold\n{table.END}\nafter", "head", [first, second])
    assert text.startswith(f"before\n{table.BEGIN}\nhead\n\n| hot loop or call |")
    assert text.endswith(f"|\n{table.END}\nafter")
    assert "old" not in text


def test_the_note_names_processor_kernels_and_instructions():
    from benchmarks import table

    said = table.note([2, 1])
    assert "BLAS" in said or "openblas" in said or "mkl" in said.lower()
    assert "CPUs" in said
    assert "AVX-512 / AVX2" in said
