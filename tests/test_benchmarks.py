"""What the benchmarks say of themselves: first calls of all that there is to call, and a table that holds both instruction sets."""

import dataclasses
import importlib
import inspect
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from fastpubpriv.cli import main
from fastpubpriv.errors import SeededNoiseWarning

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
    measure_by_themselves = {"audit"}
    assert set(main.commands) - measure_by_themselves <= ours
    assert {*first_calls.SHOWN, *first_calls.COMPILED} <= set(first_calls.FUNCTIONS)


def test_a_row_of_the_table_holds_both_instruction_sets(monkeypatch):
    from benchmarks import goals, table
    from benchmarks.cases import loops

    x = np.zeros(50_000)
    monkeypatch.setitem(goals.GOALS, "a loop", goals.Goal(seconds=100.0, peers={"a peer": 1e9}))
    case = loops.Case("a loop", x.sum, {"a peer": x.sum, "one thread": x.sum}, lambda: 1e9, "a limit")
    times = table.timed(dataclasses.replace(case, peer_scale={"a peer": 1e12}), rounds=1)
    assert times.limit == 1e9
    assert times.peers["a peer"] > 1e9 * times.peers["one thread"]
    slower = dataclasses.replace(times, ours=4.0, limit=2.0, peers={"a peer": 4e8, "one thread": 6.0})
    wide = dataclasses.replace(slower, ours=2.0, peers={"a peer": 4e9, "one thread": 6.0})
    first, second = table.lines([wide, slower])
    # Each number is beside the limit and the peers that were measured with the same instructions.
    assert first == (
        "a loop", "2000.00 / 4000.00 ms", "1.00 / 2.00", "a limit", "a peer", "2000000000.0 / 100000000.0",
        "<= 100 s: met; >= 1e+09: met / NOT MET",
    )  # fmt: skip
    assert second == ("", "", "", "", "one thread", "3.0 / 1.5", "")
    assert goals.verdict(1.5, [1.4, 1.7], at_most=True) == "<= 1.5: met / NOT MET"
    assert all(len(line) == len(table.HEADER) for line in (first, second))
    text = table.written(f"before\n{table.BEGIN}\nold\n{table.END}\nafter", "head", [first, second])
    assert text.startswith(f"before\n{table.BEGIN}\nhead\n\n| hot loop or call |")
    assert text.endswith(f"|\n{table.END}\nafter")
    assert "old" not in text


@pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
def test_every_goal_is_of_a_row():
    """By the names of the cases, which are made of tiny rows here."""
    from benchmarks import goals, table

    made = {case.name for section in (table.hot_loops, table.whole_calls) for case in section(1e-9)}
    kinds = {re.sub(r"[\d.e+,]+", "N", name) for name in made}
    assert {re.sub(r"[\d.e+,]+", "N", name) for name in goals.GOALS} <= kinds


def test_the_note_names_processor_kernels_and_instructions():
    from benchmarks import table

    said = table.note([2, 1], ["openblas (SkylakeX)", "openblas (Haswell)"])
    assert "openblas (SkylakeX) / openblas (Haswell)" in said
    assert "CPUs" in said
    assert "AVX-512 / AVX2" in said
    assert "polars and OpenDP cannot be" in said


def test_peers_of_narrower_instructions_are_held_to_them_in_a_process_of_their_own():
    from benchmarks import held, table
    from fastpubpriv.kernels._cext import lib

    level, before = min(lib.FPP_ISA_AVX2, lib.fpp_isa_detect()), dict(os.environ)
    ((blas,),) = held.in_turn([level], table.all_timed, [], 1, 0.01)
    assert dict(os.environ) == before
    told = held.environment(level)
    assert bool(told) == (level < lib.fpp_isa_detect())
    if told:
        assert "openblas" not in blas or "(Haswell)" in blas
        assert not {"X86_V2", "X86_V3", "AVX2"} & set(told["NPY_DISABLE_CPU_FEATURES"].split())
        # NumPy says so where it knows a name not, and then disables nothing.
        command = [sys.executable, "-W", "error", "-c", "import numpy"]
        assert subprocess.run(command, env={**before, **told}, check=False).returncode == 0


def test_cells_of_training_are_kept_one_at_a_time_and_shown_beside_the_printed_ones(monkeypatch, tmp_path, capsys):
    from benchmarks import training_cells
    from benchmarks.papers import gradient_cells as cells

    for head, rows in (
        training_cells.gradient_rows(training_cells.read()),
        training_cells.newton_rows(training_cells.read()),
    ):
        assert rows
        assert {len(row) for row in rows} == {len(head)}
    ran = []

    def run_cell(known, cell, account):
        ran.append((cell, account))
        if len(ran) == 3:
            raise KeyboardInterrupt
        return [cells.setting(method, 1.5, 0.1, 0.5, 3.0, 2.0) for method in training_cells.METHODS]

    monkeypatch.setattr(training_cells, "KEPT", tmp_path / "kept.json")
    monkeypatch.setattr(cells, "PAPER", cells.Size(10, 200, 5, 5, 5))
    monkeypatch.setattr(cells, "run_cell", run_cell)
    with pytest.raises(KeyboardInterrupt):
        training_cells.run_gradient(training_cells.read(), np.inf)
    assert [cell.ratio for cell, _ in ran] == [0.01, 0.03, 0.04]
    assert "1.5000" in capsys.readouterr().out
    kept = training_cells.read()
    assert len(kept["gradient"]) == 2 * len(training_cells.METHODS)
    assert training_cells.missing(kept).startswith("2 of 40 cells at the printed noise; 0 of 40")
    training_cells.run_gradient(kept, np.inf)
    assert len(ran) == 3 + 78
    assert len(set(ran)) == 80
    every = training_cells.read()
    assert training_cells.missing(every).startswith("40 of 40")
    found = training_cells.orders_of(every)
    count = len(training_cells.METHODS) * sum(len(table.cells) for table in training_cells.TABLES)
    assert found[0].endswith(f"of {count} numbers are within their band")
    assert all("at most 1.000 times" in line and line.endswith("by at most 0.0%") for line in found[1:])
    with pytest.warns(SeededNoiseWarning):
        said = training_cells.same_rows(0.5, 4.0)
    assert said.startswith("n_pub/n 0.5, epsilon 4: newton 1")
