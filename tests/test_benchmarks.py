"""Consistency of the benchmarks: first calls of every public function and command, and a table with both instruction sets."""

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

WITHIN = ("auditing", "local", "training", "sources")


def functions():
    """Return public functions by their public names."""
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
    case = loops.Case(
        "a loop", x.sum, {"a peer": x.sum, "one thread": x.sum}, lambda: 1e9, "a limit"
    )
    times = table.timed(dataclasses.replace(case, peer_scale={"a peer": 1e12}), rounds=1)
    assert times.limit == 1e9
    assert times.peers["a peer"] > 1e9 * times.peers["one thread"]
    slower = dataclasses.replace(
        times, ours=4.0, limit=2.0, peers={"a peer": 4e8, "one thread": 6.0}
    )
    wide = dataclasses.replace(slower, ours=2.0, peers={"a peer": 4e9, "one thread": 6.0})
    first, second = table.lines([wide, slower])
    # Each number is compared with the limit and the peers of the same instruction set.
    assert first == (
        "a loop",
        "2000.00 / 4000.00 ms",
        "1.00 / 2.00",
        "a limit",
        "a peer",
        "2000000000.0 / 100000000.0",
        "<= 100 s: met; >= 1e+09: met / NOT MET",
    )
    assert second == ("", "", "", "", "one thread", "3.0 / 1.5", "")
    assert goals.verdict(1.5, [1.4, 1.7], at_most=True) == "<= 1.5: met / NOT MET"
    assert all(len(line) == len(table.HEADER) for line in (first, second))
    text = table.written(
        "before\n<!-- bench -->\nold\n<!-- /bench -->\nafter", "head", [first, second]
    )
    assert text.startswith("before\n<!-- bench -->\nhead\n\n| hot loop or call |")
    assert text.endswith("|\n<!-- /bench -->\nafter")
    assert "old" not in text


@pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
def test_every_goal_is_of_a_row(monkeypatch):
    """Every goal names an existing row; the cases are built with few rows."""
    from benchmarks import goals, table
    from benchmarks.cases import bins

    # polars in this process may have several threads
    monkeypatch.setattr(bins, "polars_call", lambda *given: None)
    made = {
        case.name
        for section in (table.hot_loops, table.whole_calls, table.odd_calls)
        for case in section(1e-9)
    }
    kinds = {re.sub(r"[\d.e+,]+", "N", name) for name in made}
    assert {re.sub(r"[\d.e+,]+", "N", name) for name in goals.GOALS} <= kinds


def test_labels_of_leaves_agree_with_those_of_numpy():
    from benchmarks.cases import leaves

    case = leaves.routing_case(100_000, 16, 8)
    np.testing.assert_array_equal(case.ours(), case.peers["NumPy products"]())


def test_peers_of_training_compute_the_same_gradients():
    from benchmarks.cases import training
    from fastpubpriv.kernels.gradients import gradient_sum

    rows = training.labeled(5000, 30, np.float64)
    sums = np.zeros(30, dtype=np.int64)
    chosen = training.gradient_map(30)
    gradient_sum(rows, chosen, sums)
    naive = training.numpy_gradients(rows, chosen.weights)
    np.testing.assert_allclose(sums / chosen.inv_step, naive, atol=1e-2)
    np.testing.assert_allclose(
        training.numba_gradients()(rows, chosen.weights, training.CLIP), naive, atol=1e-8
    )


def test_peers_of_a_newton_pass_compute_the_same():
    from benchmarks.cases import training
    from fastpubpriv.kernels.gradients import gradient_sum

    rows = training.labeled(5000, 30, np.float64)
    sums = np.zeros(30, dtype=np.int64)
    chosen = training.residual_map(30)
    gradient_sum(rows, chosen, sums)
    naive = training.numpy_newton(rows, chosen)
    np.testing.assert_allclose(sums / chosen.inv_step * chosen.clip, naive, atol=1e-1)
    again = training.numba_newton()(
        rows, chosen.weights, chosen.spread, chosen.clip, chosen.clip_norm
    )
    np.testing.assert_allclose(again, naive, atol=1e-8)


@pytest.mark.parametrize("shape", ["random", "mixture", "nested", "sphere", "pairs"])
def test_searches_for_the_most_isolated_row_agree(shape):
    from benchmarks.cases import public_calls
    from benchmarks.cases.geometry import early_exit_loop
    from fastpubpriv import supercluster

    x = public_calls.shaped(shape, 300, 20)
    found = supercluster(x, n_components=8).index
    assert [
        search(x) for search in (public_calls.by_products, public_calls.by_tree, early_exit_loop())
    ] == [found] * 3


def test_peers_of_narrower_instructions_are_held_to_them_in_a_process_of_their_own():
    from benchmarks import held, table
    from fastpubpriv.kernels._cext import lib

    level = min(lib.FPP_ISA_AVX2, lib.fpp_isa_detect())
    before = dict(os.environ)
    ((blas,),) = held.in_turn([level], table.all_timed, [], 1, 0.01)
    assert dict(os.environ) == before
    told = held.environment(level)
    assert bool(told) == (level < lib.fpp_isa_detect())
    if told:
        assert "openblas" not in blas or "(Haswell)" in blas
        assert not {"X86_V2", "X86_V3", "AVX2"} & set(told["NPY_DISABLE_CPU_FEATURES"].split())
        # NumPy warns of an unknown name, and then disables nothing.
        command = [sys.executable, "-W", "error", "-c", "import numpy"]
        assert subprocess.run(command, env={**before, **told}, check=False).returncode == 0
