"""Tests that only `make test-all` runs (tests/tiers.py), and planted faults that `make test` must detect."""

import ast
import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from clocks import PATIENCE
from planted_faults import PLANTED
from tiers import EXTENDED, THINNED, covering, leaves_out_extended, listed

ROOT = Path(__file__).resolve().parent.parent
NOT_ORDINARY = ("extended", "statistical", "audit", "bench")


@functools.cache
def functions_of(path: Path) -> dict[str, ast.FunctionDef]:
    """Return the tests of a file by name."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        node.name: node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def lost(entry: str) -> bool:
    """Return whether an entry of a list names nothing that exists."""
    name, _, function = entry.partition("::")
    path = ROOT / name
    return (
        not path.exists()
        if not function
        else not path.is_file() or function not in functions_of(path)
    )


def not_by_default(entry: str) -> str | None:
    """Return the reason why `make test` does not run a test completely; None if it does."""
    if lost(entry):
        return f"{entry}: not there"
    if listed(entry, EXTENDED) or entry in THINNED:
        return f"{entry}: in make test-all"
    name, _, function = entry.partition("::")
    path = ROOT / name
    decorators = ast.unparse(ast.List(functions_of(path)[function].decorator_list, ast.Load()))
    whole = [
        line
        for line in path.read_text(encoding="utf-8").split("\n\n")
        if line.startswith("pytestmark")
    ]
    marks = [
        mark
        for mark in NOT_ORDINARY
        if any(f"mark.{mark}" in text for text in (decorators, *whole))
    ]
    return f"{entry}: marked {marks[0]}" if marks else None


@pytest.mark.parametrize("entries", [EXTENDED, THINNED], ids=["extended", "thinned"])
def test_lists_name_what_is_there(entries):
    assert [entry for entry in entries if lost(entry)] == []
    assert len(set(entries)) == len(entries)
    assert [entry for entry in THINNED if listed(entry, EXTENDED)] == []


def test_every_planted_fault_has_a_default_test():
    faults = [pair for faults in PLANTED.values() for pair in faults.items()]
    folders = {
        path.name: path.parent.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
    }
    places = [f"{folders[test.partition('::')[0]]}/{test}" for _, test in faults]
    assert [found for place in places if (found := not_by_default(place))] == []
    assert len({fault for fault, _ in faults}) == len(faults) >= 60
    assert all(PLANTED.values())


@pytest.mark.parametrize(
    ("planted", "words"),
    [
        ("tests/test_tiers.py::test_gone", "not there"),
        ("tests/test_gone.py::test_a", "not there"),
        (EXTENDED[0] + "::test_a", "not there"),
        (next(entry for entry in EXTENDED if "::" in entry), "make test-all"),
        (next(iter(THINNED)), "make test-all"),
        (
            "tests/statistical/test_noise_laws.py::test_a_planted_fault_is_seen",
            "marked statistical",
        ),
        (
            "tests/mechanisms/test_hypotheses.py::test_many_choices_follow_their_law",
            "marked statistical",
        ),
    ],
)
def test_a_planted_fault_without_one_is_noticed(planted, words):
    assert words in not_by_default(planted)


def test_every_value_of_every_parameter_is_covered_by_few_tests():
    grid = [
        frozenset({("a", a), ("b", b), ("c", c)})
        for a in range(3)
        for b in range(4)
        for c in range(2)
    ]
    chosen = covering(grid)
    assert len(chosen) == 4
    assert set().union(*(grid[place] for place in chosen)) == set().union(*grid)
    assert covering([frozenset({("a", a)}) for a in (0, 1, 1, 2)]) == {0, 1, 3}


def test_lists_hold_files_folders_and_tests():
    entries = ("tests/a", "tests/b.py", "tests/c.py::test_one")
    for inside in (
        "tests/a/x.py::test",
        "tests/b.py::test[3]",
        "tests/c.py::test_one[1-2]",
        "tests/b.py",
    ):
        assert listed(inside, entries)
    for outside in (
        "tests/ab/x.py::test",
        "tests/b.py2",
        "tests/c.py::test_one_more",
        "tests/c.py",
    ):
        assert not listed(outside, entries)


GRID = """
import pytest

@pytest.mark.parametrize("a", [0, 1, 2])
@pytest.mark.parametrize("b", [0, 1])
def test_product(a, b): ...

@pytest.mark.parametrize(("a", "b"), [(0, 1), (0, 2), (1, 2), (1, 1)])
def test_rows(a, b): ...

@pytest.mark.parametrize("case", [1, 2, 3, 4], ids=["rho: mean", "rho: sum", "pure: mean", "pure: sum"])
def test_written_out(case): ...

@pytest.mark.extended
def test_marked(): ...
"""


def test_tiers_of_a_planted_file(tmp_path):
    (tmp_path / "test_grid.py").write_text(GRID)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = extended\n")

    def passed(*options):
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "tiers",
            "--keep-durations",
            "kept/d.txt",
            *options,
        ]
        path = os.pathsep.join([str(ROOT / "tests"), os.environ["PYTHONPATH"]])
        options = {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": PATIENCE}
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, **options)
        assert done.returncode == 0, done.stdout
        return done.stdout.splitlines()[-1]

    # 3 of 6, all 4 rows, 2 of 4
    assert passed("-m", "not extended").startswith("9 passed, 6 deselected")
    lines = (tmp_path / "kept/d.txt").read_text().splitlines()
    assert lines[0].endswith("9 tests")
    assert len(lines) == 10
    assert passed("--end-after", "0").startswith("15 skipped")


def expression_of(step: str) -> str:
    """Return the expression of `-m` in a step of the Makefile."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    common = re.search(r"(?m)^DESELECTED := (.+)$", text)[1]
    return re.search(rf'(?m)^{step}:.*\n\t.* -m "(.*?)"', text)[1].replace("$(DESELECTED)", common)


def test_steps_of_the_makefile_are_tiers():
    default = expression_of("py-test")
    rest = expression_of("py-rest")
    assert leaves_out_extended(default)
    assert not leaves_out_extended(rest)
    assert default.replace("not extended", "extended") == rest
    assert expression_of("guards").replace("not extended", "extended") == expression_of(
        "guards-rest"
    )
    assert not leaves_out_extended("not statistical and not audit and not bench")
