"""Tables of evidence, generated from the tests, the stored audits, the guards of speed, and other tables."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LONG = ("statistical", "audit")
INSTRUCTION_SETS = {"baseline": "portable C", "avx2": "AVX2", "avx-512": "AVX-512"}


def table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """Return a table in Markdown."""
    lines = [header, ("---",) * len(header), *rows]
    return ["| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines]


def marks_of(node: ast.AST) -> set[str]:
    """Return the names in `pytest.mark.<name>` anywhere in a syntax tree."""
    return {
        part.attr
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute)
        and isinstance(part.value, ast.Attribute)
        and part.value.attr == "mark"
    }


def long_tests(path: Path) -> list[tuple[str, str, str]]:
    """Return (name, marker, docstring) of the tests of a file that `make audit` runs."""
    text = path.read_text(encoding="utf-8")
    if not any(f"mark.{mark}" in text for mark in LONG):
        return []
    tree = ast.parse(text)
    everywhere: set[str] = set()
    helpers: dict[str, set[str]] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(
            getattr(target, "id", "") == "pytestmark" for target in node.targets
        ):
            everywhere |= marks_of(node.value)
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("test"):
            helpers[node.name] = marks_of(node)
        elif isinstance(node, ast.Assign):
            helpers |= {
                target.id: marks_of(node.value)
                for target in node.targets
                if isinstance(target, ast.Name)
            }
    found = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            marks = set(everywhere)
            for decorator in node.decorator_list:
                marks |= marks_of(decorator)
                marks |= {
                    mark
                    for part in ast.walk(decorator)
                    if isinstance(part, ast.Name)
                    for mark in helpers.get(part.id, ())
                }
            found += [
                (node.name, mark, ast.get_docstring(node) or "") for mark in LONG if mark in marks
            ]
    return found


def test_table() -> list[str]:
    """Return every file with long tests: its subject, its long tests, and the command that runs them."""
    rows = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        found = long_tests(path)
        if found:
            about = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            about = " ".join(about.split("\n\n")[0].split())
            name = path.relative_to(ROOT).as_posix()
            tests = ", ".join(name.removeprefix("test_").replace("_", " ") for name, _, _ in found)
            marker = " or ".join(sorted({mark for _, mark, _ in found}))
            said = f"{about} Long tests: {tests}." if about else f"{tests.capitalize()}."
            rows.append((said.replace("`", ""), f'`pytest -m "{marker}" {name}`'))
    return table(("what is tested", "command"), rows)


def audit_table() -> list[str]:
    """Return the table of the audits that `python -m benchmarks.audits --write` stored."""
    found = json.loads((ROOT / "docs" / "evidence" / "audits.json").read_text(encoding="utf-8"))
    rows = [
        (
            f"`{line['name'].split(',')[0]}`{''.join(',' + part for part in line['name'].split(',')[1:])}",
            f"`{line['claim']}`",
            f"{line['runs']:,}",
            f"{line['epsilon_lower']:.2f}",
            f"{line['twin_epsilon_lower']:.2f}, from {line['twin_epsilon']} times the epsilon",
        )
        for line in found
    ]
    return table(
        ("call", "claim", "runs on each side", "largest epsilon refuted", "the twin, refuted"), rows
    )


def guard_table() -> list[str]:
    """Return for each guarded case the lowest ratio stored for processors of each instruction set."""
    rows: dict[str, tuple[str, dict[str, float]]] = {}
    for path in sorted((ROOT / "benchmarks" / "baselines").glob("*.json")):
        (instructions,) = [name for name in INSTRUCTION_SETS if path.stem.endswith(f"-{name}")]
        for name, case in json.loads(path.read_text(encoding="utf-8"))["cases"].items():
            _, lowest = rows.setdefault(name, (case["peer"], {}))
            lowest[instructions] = min(case["ratio"], lowest.get(instructions, case["ratio"]))
    lines = [
        (
            name,
            peer,
            *(f"{lowest[each]:.3g}" if each in lowest else "-" for each in INSTRUCTION_SETS),
        )
        for name, (peer, lowest) in rows.items()
    ]
    return table(("case", "compared with", *INSTRUCTION_SETS.values()), lines)


def closer_table() -> list[str]:
    """Return from the accuracy table the contestants with smaller median error than `estimate_mean`, by number of rows."""
    text = (ROOT / "docs" / "evidence" / "accuracy.md").read_text(encoding="utf-8")
    text = text.split("<!-- accuracy -->", 1)[1].split("<!-- /accuracy -->", 1)[0]
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    header, contestants = lines[0], lines[2:]
    ours = next(line for line in contestants if line[0] == "estimate_mean")
    rows = []
    for column in range(1, len(header) - 1):
        mine = float(ours[column].split("/")[0])
        closer = [
            f"{line[0]} ({line[column].split('/')[0].strip()})"
            for line in contestants
            if float(line[column].split("/")[0]) < mine
        ]
        rows.append((header[column], f"{mine:g}", "; ".join(closer) or "nobody"))
    return table(("rows", "`estimate_mean`", "closer"), rows)


def compared_table(task: str) -> list[str]:
    """Return the errors that `python -m benchmarks.compared --write` stored for one task."""
    found = json.loads((ROOT / "docs" / "evidence" / "compared.json").read_text(encoding="utf-8"))
    rows = [
        (
            line["name"],
            f"{line['library']} {line['version']}",
            *(f"{line[name]:,.3g}" for name in ("median", "least", "most")),
            str(line["runs"]),
        )
        for line in found
        if line["task"] == task
    ]
    return table(("call", "version", "median error", "least", "most", "runs"), rows)


def training_table(part: str) -> list[str]:
    """Return the cells that `python -m benchmarks.training_cells` stored, of four methods or of Newton steps."""
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))
    cells = import_module("benchmarks.training_cells")
    kept = cells.read()
    if part == "newton":
        return table(*cells.newton_rows(kept))
    said = "; ".join((*cells.orders_of(kept), cells.missing(kept)))
    return [*table(*cells.gradient_rows(kept)), "", f"{said}."]


TASKS = ("bounded column", "unbounded column", "quartiles", "means by group")
TASKS += ("regression", "regression, 10 columns", "regression, few rows")
TABLES: dict[str, Callable[[], list[str]]] = {
    "tests": test_table,
    "audits": audit_table,
    "guards": guard_table,
    "closer": closer_table,
    "training, gradients": partial(training_table, "gradients"),
    "training, newton": partial(training_table, "newton"),
    **{f"compared, {task}": partial(compared_table, task) for task in TASKS},
}
