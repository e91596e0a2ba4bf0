"""Rules on the source code. Every rule is a function from sources to complaints, and must detect its planted violation."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import io
import json
import math
import re
import sys
import tokenize
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import grimp
import numpy as np
import pytest
from scipy.sparse import csgraph

import fastpubpriv
from fastpubpriv.results import Reason

ROOT = Path(__file__).resolve().parent.parent
MOST_LINES_OF_C = 900
DENSE_FILES = Path(__file__).parent / "dense_files.json"
MOST_TOKENS_OF_FILE = 8_000  # of Python
# Maximum tokens of the package. A commit that raises it gives the reason.
MOST_TOKENS = 481_100
# Tokens per statement of a file that `dense_files.json` does not list, and of a statement that it does not count.
DENSITY = 13.0
LONG_STATEMENT = 40
TEXT_SUFFIXES = {".py", ".pyi", ".c", ".h", ".md", ".toml", ".yaml", ".cfg", ".in", ".csv"}
TEXT_NAMES = {"Makefile", "LICENSE", "run"}


@dataclass(frozen=True)
class Source:
    """One text file: its path relative to the project's root, and its text."""

    path: str
    text: str

    @property
    def nodes(self) -> tuple[ast.AST, ...]:
        return parts(self.text)

    def complaint(self, node: ast.AST, words: str) -> str:
        return f"{self.path}:{getattr(node, 'lineno', 0)}: {words}"


@functools.cache
def parsed(text: str) -> ast.Module:
    """Parse a text; cached, so that rules share the tree."""
    return ast.parse(text)


@functools.cache
def parts(text: str) -> tuple[ast.AST, ...]:
    """Return all nodes of a text's tree; cached, so that rules share the traversal."""
    return tuple(ast.walk(parsed(text)))


def spelled(node: ast.AST) -> str:
    """Return `ast.unparse(node)`, with a fast path for dotted names."""
    if isinstance(node, ast.Name):
        return node.id
    return (
        f"{spelled(node.value)}.{node.attr}"
        if isinstance(node, ast.Attribute)
        else ast.unparse(node)
    )


def sources(*patterns: str) -> list[Source]:
    found = sorted(path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file())
    assert found, f"no file matches {patterns}"
    found = [path for path in found if path.suffix in TEXT_SUFFIXES or path.name in TEXT_NAMES]
    return [
        Source(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
        for path in found
    ]


def package() -> list[Source]:
    return sources("fastpubpriv/**/*.py")


def c_library() -> list[Source]:
    return [
        s for s in sources("csrc/*.c", "csrc/*.h", "csrc/Makefile", "csrc/build_ffi.py", "setup.py")
    ]


def everything() -> list[Source]:
    here = sources(
        "*",
        ".ci/run",
        "csrc/**/*",
        "fastpubpriv/**/*",
        "tests/**/*",
        "benchmarks/**/*",
        "docs/**/*",
        "examples/**/*",
    )
    return [s for s in here if s.path != "fastpubpriv/kernels/_cext.c"]


# ---- Rules on one Python file ---------------------------------------------------------------------------------------
Rule = Callable[[Source], list[str]]


def of_each_node(check: Callable[[ast.AST], Iterable[str]]) -> Rule:
    """Return the rule that applies a check to every node."""

    @functools.wraps(check)
    def rule(source: Source) -> list[str]:
        return [source.complaint(node, words) for node in source.nodes for words in check(node)]

    return rule


def imported(node: ast.AST) -> list[str]:
    """Return the full names that an import statement may import: `from a import b` gives a and a.b."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []


def within(name: str, *modules: str) -> bool:
    return any(name == module or name.startswith(module + ".") for module in modules)


def imported_by(doors: tuple[str, ...], *modules: str, words: str) -> Rule:
    """Return the rule that only files whose path starts with one of `doors` import these modules."""

    def rule(source: Source) -> list[str]:
        if source.path.startswith(doors):
            return []
        names = ((node, name) for node in source.nodes for name in imported(node))
        return [
            source.complaint(node, f"{words}: {name}")
            for node, name in names
            if within(name, *modules)
        ]

    rule.__name__ = words
    return rule


# Private randomness comes from keys.py; NumPy may make public data, and the ledger uses `secrets` for file names.
PUBLIC_CHANCE = ("fastpubpriv/results/public_draws.py", "fastpubpriv/privacy/ledger_file.py")
foreign_randomness = imported_by(
    PUBLIC_CHANCE, "numpy.random", "random", "secrets", words="randomness that is not from keys.py"
)
# Loading a pickle executes code, and writing one may write private rows.
no_pickle = imported_by(
    (), "pickle", "cPickle", "marshal", "shelve", "dill", "joblib", words="pickle"
)
# Numba compiles functions of the caller in the first, our own loops in the others.
NUMBA = (
    "fastpubpriv/kernels/_jit.py",
    "fastpubpriv/kernels/_searches.py",
    "fastpubpriv/kernels/_mixture_loops.py",
)
numba_in_one_place = imported_by(NUMBA, "numba", "llvmlite", words="a use of Numba")
# Only kernels, which check arrays, call the C library.
compiled_code_stays_in_kernels = imported_by(
    ("fastpubpriv/kernels/",),
    "fastpubpriv.kernels._cext",
    "fastpubpriv.kernels._cbuf",
    "cffi",
    words="the C library",
)
# `release` adds noise to private numbers; `batches` samples rows, `reports` randomizes on clients.
noise_only_in_release = imported_by(
    tuple(f"fastpubpriv/release/{door}.py" for door in ("release", "batches", "reports")),
    "fastpubpriv.kernels.noise",
    words="noise outside release/release.py",
)


def no_numpy_generators(source: Source) -> list[str]:
    """NumPy's generators by their full name."""
    used = [
        node for node in source.nodes if isinstance(node, ast.Attribute) and node.attr == "random"
    ]
    bad = [node for node in used if spelled(node) in {"np.random", "numpy.random"}]
    return (
        []
        if source.path in PUBLIC_CHANCE
        else [source.complaint(node, "a generator of NumPy") for node in bad]
    )


@of_each_node
def no_unsafe_options(node: ast.AST) -> Iterator[str]:
    """Pickles execute code; fastmath=True removes NaN checks; prange and parallel=True make sums depend on the threads."""
    if isinstance(node, ast.keyword):
        if node.arg == "allow_pickle" and spelled(node.value) != "False":
            yield "allow_pickle"
        if node.arg in {"fastmath", "parallel"} and spelled(node.value) == "True":
            yield f"{node.arg}=True"
    if isinstance(node, ast.Name | ast.Attribute) and spelled(node).split(".")[-1] == "prange":
        yield "prange"


# The command line is the only user of its process, and drops the warnings of other libraries, which may quote rows.
FILTERS = {"fastpubpriv/cli/app.py": {"simplefilter"}}


def filters_of_warnings_stay_as_they_are(source: Source) -> list[str]:
    """Filters belong to the whole process, with all its threads; `errors.warnings_to` receives warnings of one thread."""
    names = {"catch_warnings", "simplefilter", "filterwarnings", "resetwarnings", "showwarning"}
    names -= FILTERS.get(source.path, set())
    used = [node for node in source.nodes if isinstance(node, ast.Name | ast.Attribute | ast.alias)]
    words = [
        (node, node.name if isinstance(node, ast.alias) else spelled(node).split(".")[-1])
        for node in used
    ]
    return [
        source.complaint(node, f"{word} changes the whole process")
        for node, word in words
        if word in names
    ]


def kernels_stay_behind_checks(source: Source) -> list[str]:
    """Compiled loops do not check their arguments: they are in kernels/, under names or in modules that start with _."""
    bad = []
    for node in source.nodes:
        for decorator in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if spelled(called).split(".")[-1] not in {"kernel", "instruction"}:
                continue
            private = Path(source.path).name.startswith("_") or node.name.startswith("_")
            if not source.path.startswith("fastpubpriv/kernels/") or not private:
                bad.append(
                    source.complaint(
                        node, f"{node.name} is compiled and open to unchecked arguments"
                    )
                )
            if not ast.get_docstring(node):
                bad.append(
                    source.complaint(node, f"{node.name} does not say what its arguments are")
                )
    return bad


PRIVATE_NAMES = {"x_priv", "y_priv", "chunk", "rows", "exact", "private"}
PUBLIC_ATTRIBUTES = {"n", "dim", "columns", "kind", "shape", "ndim", "dtype"}


def reveals(node: ast.AST) -> bool:
    """Return whether formatting this expression may show private rows, judged by names."""
    if isinstance(node, ast.Attribute) and node.attr in PUBLIC_ATTRIBUTES:
        return False
    if isinstance(node, ast.Call) and spelled(node.func) in {"type", "len"}:
        return False
    if isinstance(node, ast.Name):
        return node.id in PRIVATE_NAMES
    return any(reveals(child) for child in ast.iter_child_nodes(node))


@of_each_node
def no_private_names_in_text(node: ast.AST) -> Iterator[str]:
    """Messages may contain sizes and types of private rows, never the rows."""
    shown: list[ast.AST] = []
    if isinstance(node, ast.FormattedValue):
        shown = [node.value]
    elif (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Mod)
        and isinstance(node.left, ast.Constant)
    ):
        shown = [node.right] if isinstance(node.left.value, str) else []
    elif isinstance(node, ast.Call):
        name = spelled(node.func).split(".")[-1]
        if name in {
            "format",
            "str",
            "repr",
            "warn",
            "debug",
            "info",
            "warning",
            "echo",
        } or name.endswith("Error"):
            shown = [*node.args, *(keyword.value for keyword in node.keywords)]
    yield from (f"text shows {spelled(part)}" for part in shown if reveals(part))


def releases_go_through_the_run(source: Source) -> list[str]:
    """`run.release(measurement, ...)` is the only way to make and record a release."""
    if source.path.startswith(("fastpubpriv/mechanisms/", "fastpubpriv/session.py")):
        return []
    bad = []
    for node in source.nodes:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr == "release" and len(node.args) > 1:
            bad.append(source.complaint(node, "a release that no run writes down"))
        if node.func.attr in {"append", "extend"} and spelled(node.func.value).endswith(".log"):
            bad.append(source.complaint(node, "a record that no run has written"))
    return bad


# What would hold a law of noise or a notion of privacy outside `privacy` and `release`.
LAW_NAMES = {"pure", "is_pure", "laplace", "is_laplace", "is_gaussian"}
NOTIONS = {"ZCDP", "ApproxDP", "PureDP", "RowApproxDP"}
NOISES = {"GaussianSpending", "LaplaceSpending"}
# The referee of accounts works the allowance of a budget out by itself.
KNOW_LAWS = ("fastpubpriv/privacy/", "fastpubpriv/release/", "fastpubpriv/auditing/replay.py")


def _words_of_law(node: ast.AST) -> Iterator[str]:
    names = {getattr(node, field, None) for field in ("id", "arg", "attr")}
    for name in sorted(names & LAW_NAMES, key=str):
        yield f"{name} is a law or a notion: ask a Spending"
    if isinstance(node, ast.Call) and spelled(node.func) == "isinstance":
        of = {spelled(part).split(".")[-1] for part in ast.walk(node.args[1])}
        if of & (NOTIONS | NOISES):
            yield "isinstance of a notion or a law: ask the budget or its Spending"
    if isinstance(node, ast.Compare):
        sides = [spelled(side) for side in (node.left, *node.comparators)]
        compares_law = any(side.split(".")[-1] in ("law", "noise_law") for side in sides)
        text = any(
            spelled(side) in ("'gaussian'", "'laplace'") for side in (node.left, *node.comparators)
        )
        if compares_law and text:
            yield "a law is compared with its name"
        if any(re.fullmatch(r"type\(.*budget\)|.*budget\.notion", side) for side in sides):
            yield "the type of a budget is compared"


def laws_stay_with_spending(source: Source) -> list[str]:
    """Only `privacy` and `release` know laws of noise and notions of privacy; the rest asks a `Spending`."""
    if source.path.startswith(KNOW_LAWS):
        return []
    return [source.complaint(node, words) for node in source.nodes for words in _words_of_law(node)]


MOST_STATEMENTS = 50
MOST_POSITIONAL = 8


def statements_of(node: ast.AST) -> int:
    """Return the number of statements in a node; an inner function or class counts as one."""
    own = int(isinstance(node, ast.stmt))
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return own
    return own + sum(map(statements_of, ast.iter_child_nodes(node)))


@of_each_node
def functions_can_be_read_at_once(node: ast.AST) -> Iterator[str]:
    """A function has up to 50 statements, inner functions apart, and up to 8 arguments by position."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
        statements = sum(map(statements_of, body))
        if statements > MOST_STATEMENTS:
            yield f"{node.name} has {statements} statements, at most {MOST_STATEMENTS}"
        positional = len(node.args.posonlyargs) + len(node.args.args)
        if positional > MOST_POSITIONAL:
            yield f"{node.name} takes {positional} arguments, at most {MOST_POSITIONAL}"


REASON_WORDS = {word.value for word in Reason if "_" in word.value} | {
    "resolved",
    "faint",
    "unseen",
    "one_scale",
    "point_mass",
    "low_count",
    "under_resolved",
    "atoms",
}


def one_vocabulary_of_reasons(source: Source) -> list[str]:
    """A reason is a `Reason`, and a status follows from reasons: other modules define neither as a string or field."""
    if source.path == "fastpubpriv/results/reasons.py":
        return []
    bad = []
    for node in source.nodes:
        if isinstance(node, ast.AnnAssign) and spelled(node.target) in {"status", "STATUSES"}:
            bad.append(source.complaint(node, "a status of its own: it follows from reasons"))
        if isinstance(node, ast.keyword) and node.arg == "status":
            bad.append(source.complaint(node.value, "a status as an argument: pass reasons"))
        if isinstance(node, ast.Constant) and node.value in REASON_WORDS:
            bad.append(source.complaint(node, f"{node.value!r} is a word: use a member of Reason"))
    return bad


POINTERS = {"inp", "out", "rows", "strided", "new", "from_buffer"}
BARE = {"ffi.cast", "ffi.addressof", "ffi.gc", "ffi.from_handle"}
PLAIN = re.compile(r"(u?int(8|16|32|64)_t|double|float)( \*|\[\d*\])")


def points(node: ast.AST | None, names: Iterable[str] = ()) -> bool:
    """Return whether this creates a pointer, or is one of these names."""
    if isinstance(node, ast.Name):
        return node.id in names
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    return ast.unparse(node.func.value) in {"_cbuf", "ffi"} and node.func.attr in POINTERS


def assigned(source: Source) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Return pairs of target and value of an assignment, with tuples of equal length split."""
    for node in source.nodes:
        for target in node.targets if isinstance(node, ast.Assign) else []:
            one_by_one = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
            if one_by_one and len(target.elts) == len(node.value.elts):
                yield from zip(target.elts, node.value.elts, strict=True)
            else:
                yield from ((part, node.value) for part in getattr(target, "elts", [target]))


def pointers_own_what_they_lead_to(source: Source) -> list[str]:
    """Addresses and C structures are created in `_cbuf`, which keeps their arrays alive; other modules only pass them on."""
    if source.path.endswith("kernels/_cbuf.py"):
        return []
    bad = []
    names = {
        target.id
        for target, value in assigned(source)
        if isinstance(target, ast.Name) and points(value)
    }
    for node in source.nodes:
        call = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        # A function of the library is valid for the life of the process.
        if call in BARE and "ffi.addressof(lib, " not in ast.unparse(node):
            bad.append(
                source.complaint(node, "an address that keeps nothing alive: take it from _cbuf")
            )
        if call == "ffi.new" and not PLAIN.fullmatch(str(getattr(node.args[0], "value", ""))):
            bad.append(source.complaint(node, "a structure that keeps no array alive: _cbuf.new"))
        if isinstance(node, ast.Attribute) and node.attr in {"__array_interface__", "ctypes"}:
            bad.append(
                source.complaint(
                    node, "an address that keeps nothing alive: _cbuf.inp, out, strided or address"
                )
            )
        if isinstance(node, ast.BinOp) and (points(node.left, names) or points(node.right, names)):
            bad.append(
                source.complaint(
                    node, "a place behind a pointer keeps nothing alive: pass a slice of the array"
                )
            )
    for target, value in assigned(source):
        field = isinstance(target, ast.Attribute) and ast.unparse(target.value) != "self"
        if field and any(points(part, names) for part in ast.walk(value)):
            bad.append(
                source.complaint(
                    target, "a field that keeps nothing alive: pass all fields to _cbuf.new"
                )
            )
    return bad


# The tail of norms has its own model, and that of second moments follows from outer pieces.
OTHER_TAILS = {"TailLaw", "longest_tail"}
EXCESSES = {"over", "excess"}


def is_square_of_excess(node: ast.AST) -> bool:
    """Return whether this squares what values exceed a point by."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return spelled(node.left) in EXCESSES
    if isinstance(node, ast.Call) and spelled(node.func).split(".")[-1] in {"square", "norm"}:
        return any(spelled(value) in EXCESSES for value in node.args)
    return False


def one_line_has_tails_and_clip_points(source: Source) -> list[str]:
    """Only the counted line squares an excess over a point: there is no second tail, excess or choice of clip points."""
    if source.path == "fastpubpriv/distributions/line.py":
        return []
    exempt = {
        part
        for node in source.nodes
        if getattr(node, "name", "") in OTHER_TAILS
        for part in ast.walk(node)
    }
    return [
        source.complaint(node, "an excess outside Line.excess")
        for node in source.nodes
        if is_square_of_excess(node) and node not in exempt
    ]


FILE_RULES: dict[Rule, list[str]] = {
    foreign_randomness: ["from numpy.random import PCG64", "import random", "import secrets"],
    no_numpy_generators: ["import numpy as np\nx = np.random.default_rng(0)"],
    no_pickle: ["import pickle", "from joblib import dump"],
    no_unsafe_options: [
        "np.load(path, allow_pickle=True)", "np.load(path, allow_pickle=flag)",
        "@kernel(fastmath=True)\ndef f(): ...", "f = jit(parallel=True)", "for i in numba.prange(3): ...",
    ],
    filters_of_warnings_stay_as_they_are: [
        "with warnings.catch_warnings(action='ignore'):\n    call()", "from warnings import catch_warnings",
        "warnings.filterwarnings('ignore')", "warnings.simplefilter('always')",
    ],
    numba_in_one_place: [
        "from numba import njit", "import numba", "def f():\n    import numba.core", "from llvmlite import ir",
    ],
    kernels_stay_behind_checks: [
        '@kernel\ndef count(points):\n    """Counts."""',
        '@kernel(fastmath=False)\ndef _count(points):\n    """In the wrong place."""',
        "@_jit.kernel\ndef _undocumented(points): ...",
    ],
    pointers_own_what_they_lead_to: [
        "x = ffi.cast('double *', _cbuf.inp(rows))", "x = ffi.cast('intptr_t', ffi.addressof(table))",
        "x = chunk.__array_interface__['data'][0]", "call(rows.ctypes.data)",
        "table = ffi.new('fpp_mixtures *', (m, dim, _cbuf.inp(rows)))",
        "held = ffi.new('double *[]', [_cbuf.inp(x) for x in rows])", "target = _cbuf.out(codes) + first",
        "at = _cbuf.out(block)\ncall(at + 3)", "given.weights = _cbuf.inp(weights)",
        "edges = _cbuf.inp(edges_sq)\neach.edges_sq, each.n = edges, 3",
        "self._table.keys, self._table.counts = (_cbuf.out(x) for x in arrays)",
    ],
    one_vocabulary_of_reasons: [
        "class A:\n    status: tuple[str, ...]", "replace(result, status=('ok',))", "word = 'heavy_tail'", "x = ('point_mass',)",
    ],
    compiled_code_stays_in_kernels: [
        "from fastpubpriv.kernels import _cext", "from fastpubpriv.kernels._cbuf import out", "import cffi",
    ],
    noise_only_in_release: [
        "from fastpubpriv.kernels import noise", "def f():\n    import fastpubpriv.kernels.noise",
    ],
    no_private_names_in_text: [
        'raise InputError(f"row is {x_priv[3]}")', 'raise InputError("row is", chunk)',
        'text = "%s" % rows.first', 'log.info("{}".format(exact.sum()))', 'f"{chunk.max():.3g}"',
    ],
    releases_go_through_the_run: [
        "LeafCounts(routes=routes).release(run.account, run.rows, run.executor, name='x', cost=cost)",
        "task.run.log.append({'name': 'choice', **event.record()})",
    ],
    laws_stay_with_spending: [
        "def plan(n, *, pure): ...", "divide(1, n, pure=x)", "noise = 2.0 if account.is_pure else 1.0", "release(laplace=True)",
        "if type(budget) is PureDP: ...", "isinstance(run.account.budget, privacy.ApproxDP)", "x = spending.law == 'laplace'",
        "isinstance(spending, GaussianSpending)",
    ],
    one_line_has_tails_and_clip_points: [
        "risk = (variances * over**2).sum()", "std = np.linalg.norm(over)", "error += bias * np.square(excess)",
    ],
    functions_can_be_read_at_once: [
        "def long():\n" + "    x = 1\n" * 51,
        'async def described():\n    """In short."""\n' + "    x = 1\n" * 51,
        "class A:\n    def outer(self):\n        def inner():\n" + "            x = 1\n" * 51,
        "def many(a, b, c, d, e, f, g, h, i): ...",
        "def half(a, b, c, d, /, e, f, g, h, i): ...",
    ],
}  # fmt: skip


# ---- Rules on imports ------------------------------------------------------------------------------------------------
def circles(package: str) -> list[list[str]]:
    """Return cycles of imports, including those for type checkers and inside functions."""
    graph = grimp.build_graph(package, exclude_type_checking_imports=False, cache_dir=None)
    names = sorted(graph.modules)
    place = {name: index for index, name in enumerate(names)}
    table = np.zeros((len(names), len(names)), dtype=bool)
    for name in names:
        for used in graph.find_modules_directly_imported_by(name):
            # The compiled module has no Python file, so its importers appear to import the package itself.
            if not (name.startswith("fastpubpriv.kernels.") and used == "fastpubpriv"):
                table[place[name], place[used]] = True
    labels = csgraph.connected_components(table, connection="strong")[1]
    groups = [
        [names[i] for i in np.flatnonzero(labels == label)] for label in range(labels.max() + 1)
    ]
    return [group for group in groups if len(group) > 1]


def test_no_imports_in_a_circle(tmp_path, monkeypatch):
    assert circles("fastpubpriv") == []
    # Import rule catches.
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "planted_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "low.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from planted_package.high import A\n"
    )
    (folder / "middle.py").write_text("import planted_package.low\n")
    (folder / "high.py").write_text("def f():\n    from planted_package import middle\n")
    (folder / "apart.py").write_text("from planted_package import high, low\n")
    assert circles("planted_package") == [
        [f"planted_package.{name}" for name in ("high", "low", "middle")]
    ]


# ---- Rules on the tests ---------------------------------------------------------------------------------------------
CLOCKS = {"time", "monotonic", "perf_counter", "process_time", "thread_time"}
WAITING = {
    "run",
    "check_output",
    "communicate",
    "get",
    "put",
    "join",
    "wait",
    "acquire",
    "Barrier",
    "result",
    "alarm",
}


def marked(node: ast.AST, mark: str) -> bool:
    return any(
        f"mark.{mark}" in spelled(decorator) for decorator in getattr(node, "decorator_list", ())
    )


def clocks_have_room(source: Source) -> list[str]:
    """Ordinary tests use no clock but `clocks`, whose limits are ten times the time needed, and no short timeouts."""
    measured = {
        id(part) for node in source.nodes if marked(node, "bench") for part in ast.walk(node)
    }
    bad = []
    for node in source.nodes:
        if any(name.startswith("time.") and name[5:] in CLOCKS for name in imported(node)):
            bad.append(
                source.complaint(node, "a clock: use clocks.ten_times, ctrl_c or wait_until")
            )
        if not isinstance(node, ast.Call) or id(node) in measured:
            continue
        owner, _, name = spelled(node.func).rpartition(".")
        if owner.split(".")[-1] == "time" and name.removesuffix("_ns") in CLOCKS:
            bad.append(
                source.complaint(node, "a clock: use clocks.ten_times, ctrl_c or wait_until")
            )
        limits = [keyword.value for keyword in node.keywords if keyword.arg == "timeout"]
        limits += node.args if name in {"join", "alarm"} else []
        short = any(
            isinstance(limit, ast.Constant) and isinstance(limit.value, int | float)
            for limit in limits
        )
        if name in WAITING and short:
            bad.append(
                source.complaint(node, "gives up after a time of its own: use clocks.PATIENCE")
            )
        if name == "settings" and "deadline" not in {keyword.arg for keyword in node.keywords}:
            bad.append(
                source.complaint(
                    node, "Hypothesis' limit of 0.2 s for an example: pass deadline=None"
                )
            )
    for node in source.nodes:
        names = [
            spelled(decorator).split("(")[0] for decorator in getattr(node, "decorator_list", ())
        ]
        if "given" in names and "settings" not in names:
            bad.append(
                source.complaint(
                    node, "Hypothesis' limit of 0.2 s for an example: @settings(deadline=None)"
                )
            )
    return bad


def ordinary_tests() -> list[Source]:
    return [s for s in sources("tests/**/*.py") if s.path != "tests/clocks.py"]


SEEDED_KINDS = {
    "default_rng",
    "SeedSequence",
    "RandomState",
    "Random",
    "PCG64",
    "Philox",
    "MT19937",
    "SFC64",
}


def chance_without_a_seed(source: Source) -> list[str]:
    """Keys are fixed by tests/fixed_keys; other random draws of a test have an explicit seed."""
    bad = []
    for node in source.nodes:
        if (
            isinstance(node, ast.ImportFrom)
            and node.module == "random"
            and {n.name for n in node.names} - {"Random"}
        ):
            bad.append(source.complaint(node, "a generator that others share: use Random(seed)"))
        if not isinstance(node, ast.Call):
            continue
        owner, _, name = spelled(node.func).rpartition(".")
        first = (
            node.args[0]
            if node.args
            else next((word.value for word in node.keywords if word.arg == "seed"), None)
        )
        nothing = first is None or (isinstance(first, ast.Constant) and first.value is None)
        if name in SEEDED_KINDS and nothing:
            bad.append(source.complaint(node, f"{name} without a seed"))
        if owner in {"random", "np.random", "numpy.random"} and name not in SEEDED_KINDS | {
            "Generator"
        }:
            bad.append(source.complaint(node, "a generator that others share: use one with a seed"))
        if name in {"SystemRandom", "urandom", "getrandom", "randbits", "token_bytes", "token_hex"}:
            bad.append(source.complaint(node, "randomness of the operating system"))
    return bad


unrepeatable_names = imported_by((), "secrets", "uuid", words="randomness of the operating system")


@of_each_node
def blind_patches(node: ast.AST) -> Iterator[str]:
    """A patch of a missing attribute would test nothing."""
    if isinstance(node, ast.Call) and spelled(node.func).endswith((".setattr", ".delattr")):
        yield from (
            "setattr(..., raising=False)" for word in node.keywords if word.arg == "raising"
        )


# ---- Rules on any text file -----------------------------------------------------------------------------------------
def not_too_long(source: Source) -> list[str]:
    if not source.path.endswith(".py"):
        lines = source.text.count("\n")
        too_long = f"{source.path}: {lines} lines, at most {MOST_LINES_OF_C}"
        return [too_long] if lines > MOST_LINES_OF_C else []
    tokens = sum(statement_sizes(source.text))
    too_long = f"{source.path}: {tokens:,} tokens, at most {MOST_TOKENS_OF_FILE:,}"
    return [too_long] if tokens > MOST_TOKENS_OF_FILE else []


LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def statement_sizes(text: str) -> list[int]:
    """Return the number of tokens of each logical line, without comments, docstrings, layout and trailing commas."""
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            documented.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    sizes = []
    size = 0
    after_comma = False
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NEWLINE:
            if size:
                sizes.append(size)
            size = 0
        elif token.type not in LAYOUT and not (
            token.type == tokenize.STRING and token.start[0] in documented
        ):
            is_trailing_comma = after_comma and token.string in ")]}"
            size += 0 if is_trailing_comma else 1
            after_comma = token.string == ","
    return sizes


def test_tokens_are_counted_without_docstrings_layout_and_trailing_commas():
    text = '"""A module."""\n\nx = f(\n    1,\n    2,\n)  # why\n\n\ndef g():\n    """Text."""\n    return x\n'
    assert statement_sizes(text) == [8, 5, 2]


def test_the_package_grows_only_with_a_reason():
    sizes = {source.path: statement_sizes(source.text) for source in package()}
    tokens = sum(map(sum, sizes.values()))
    assert tokens <= MOST_TOKENS, f"{tokens:,} tokens, at most {MOST_TOKENS:,}"


def densities(sources: Iterable[Source]) -> dict[str, list[float]]:
    """Return, for each file above `DENSITY` or with long statements, tokens per statement and the number of long ones."""
    found = {}
    for source in sources:
        sizes = statement_sizes(source.text)
        density = math.ceil(10.0 * sum(sizes) / max(len(sizes), 1)) / 10.0
        long_statements = sum(size > LONG_STATEMENT for size in sizes)
        if density > DENSITY or long_statements:
            found[source.path] = [max(density, DENSITY), long_statements]
    return found


def compared(found: dict[str, list[float]], listed: dict[str, list[float]]) -> list[str]:
    """Return the files that are denser than the list says, and those for which the list can be lowered."""
    bare = [DENSITY, 0]
    complaints = []
    for path in sorted(found.keys() | listed.keys()):
        here = found.get(path, bare)
        limit = listed.get(path, bare)
        words = f"{path}: {here[0]} tokens a statement and {here[1]} long ones, listed {limit[0]} and {limit[1]}"
        if here[0] > limit[0] or here[1] > limit[1]:
            complaints.append(f"{words}: open its statements (one fact each)")
        elif here[0] < limit[0] - 0.3 or here[1] < limit[1]:
            complaints.append(f"{words}: lower it by `python tests/test_rules.py`")
    return complaints


def test_statements_become_shorter():
    """The list of dense files only gets shorter; `python tests/test_rules.py` lowers it."""
    assert compared(densities(package()), json.loads(DENSE_FILES.read_text())) == []
    long_one = [Source("a.py", "x = [" + "1, " * 30 + "]\n")]
    assert compared(densities(long_one), {}) != []
    assert compared({}, {"a.py": [14.0, 1]}) != []
    assert compared(densities(long_one), densities(long_one)) == []


def lower_the_list() -> None:
    """Write what `dense_files.json` can be lowered to; what it would have to be raised for is left to a reader."""
    listed = json.loads(DENSE_FILES.read_text()) if DENSE_FILES.exists() else None
    found = densities(package())
    if listed is not None:
        bare = [DENSITY, 0]
        found = {
            path: [min(pair) for pair in zip(each, listed.get(path, bare), strict=True)]
            for path, each in found.items()
            if path in listed
        }
    lines = [f'  "{path}": {json.dumps(each)}' for path, each in sorted(found.items())]
    DENSE_FILES.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def no_unsafe_compiler_flags(source: Source) -> list[str]:
    """Comments may name the flags; commands, pragmas and attributes may not."""
    comments = r"/\*.*?\*/|//[^\n]*" if source.path.endswith((".c", ".h")) else r"(?m)^\s*#[^\n]*"
    code = re.sub(comments, "", source.text, flags=re.DOTALL)
    return [
        f"{source.path}: {hit}"
        for hit in re.findall(r"fast-math|-Ofast|unsafe-math|march=native|fopenmp|pragma omp", code)
    ]


MACHINE_PATHS = re.compile(
    "(?<![\\w.])/(?:" + "|".join(["home", "root", "Users", "work", "tmp"]) + ")/[\\w.]+"
)
# Each word is split, so that this file does not match itself.
UNFINISHED_WORDS = [
    "TO" + "DO", "TB" + "D", "TB" + "A", "FIX" + "ME", "XX" + "X", "HA" + "CK", "WI" + "P",
    "for " + "now", "place" + "holder", "coming " + "soon", "work in " + "progress", "to be " + "written",
    "not implemented " + "yet", "not yet " + "implemented", "raise NotImplemented" + "Error",
]  # fmt: skip
UNFINISHED = re.compile(
    r"\b(" + "|".join(UNFINISHED_WORDS).replace(" ", r"\s+") + r")\b", re.IGNORECASE
)


def no_machine_paths(source: Source) -> list[str]:
    return [f"{source.path}: {hit}" for hit in MACHINE_PATHS.findall(source.text)]


def nothing_unfinished(source: Source) -> list[str]:
    return [f"{source.path}: {hit}" for hit in UNFINISHED.findall(source.text)]


def all_our_tests() -> list[Source]:
    return [*ordinary_tests(), *sources("benchmarks/**/*.py")]


def planted(*texts: str) -> list[Source]:
    return [Source("tests/planted.py", text) for text in texts]


TEXT_RULES: list[tuple[Callable[[Source], list[str]], Callable[[], list[Source]], list[Source]]] = [
    (
        clocks_have_room,
        ordinary_tests,
        planted(
            "import time\ndef test_a():\n    started = time.monotonic()\n    assert time.monotonic() - started < 0.5",
            "from time import perf_counter", "def test_a():\n    subprocess.run(['x'], timeout=60)",
            "def test_a():\n    child.join(30)", "def test_a():\n    signal.alarm(20)",
            "def test_a():\n    queue.get(timeout=30)", "@settings(max_examples=9)\n@given(x)\ndef test_a(x): ...",
            "@given(x)\ndef test_a(x): ...",
        ),
    ),
    (
        chance_without_a_seed,
        all_our_tests,
        planted(
            "def test_a():\n    rng = np.random.default_rng()", "rng = np.random.default_rng(None)",
            "rng = np.random.default_rng(seed=None)", "x = np.random.normal(size=3)", "np.random.seed(3)",
            "rng = random.Random()", "random.shuffle(rows)", "from random import randrange", "key = os.urandom(32)",
        ),
    ),
    (unrepeatable_names, all_our_tests, planted("import secrets", "from uuid import uuid4")),
    (blind_patches, all_our_tests, planted("monkeypatch.setattr(module, 'gone', None, raising=False)")),
    (
        not_too_long,
        lambda: [s for s in package() + c_library() if s.path != "csrc/sampler_tables.h"],
        [Source("a.py", "x = 1\n" * 2_667), Source("a.c", "x;\n" * 901)],
    ),
    (
        no_unsafe_compiler_flags,
        c_library,
        [
            Source("csrc/Makefile", "CFLAGS = -O3 -ffast-math"),
            Source("csrc/build_ffi.py", 'ARGS = ["-Ofast"]'),
            Source("csrc/a.c", '__attribute__((optimize("fast-math"))) int f(void);'),
        ],
    ),
    (no_machine_paths, everything, [Source("a.md", "see /" + "home/ada/data.npy"), Source("b.py", '"/' + 'tmp/x"')]),
    (
        nothing_unfinished,
        everything,
        [Source("a.py", f'"""{word}."""') for word in UNFINISHED_WORDS]
        + [Source("a.c", "/* to" + "do */"), Source("a.md", "Slow for\n" + "now.")],
    ),
]  # fmt: skip


RULES = [
    (rule, package, [Source("fastpubpriv/planted.py", bad) for bad in texts])
    for rule, texts in FILE_RULES.items()
]
RULES += TEXT_RULES


@pytest.mark.parametrize(
    ("rule", "where"), [row[:2] for row in RULES], ids=lambda part: getattr(part, "__name__", "")
)
def test_project_follows(rule, where):
    assert [words for source in where() for words in rule(source)] == []


@pytest.mark.parametrize(("rule", "planted"), [(row[0], bad) for row in RULES for bad in row[2]])
def test_rule_catches(rule, planted):
    assert rule(planted)


LONG_DOCSTRING = '"""' + "Words.\n" * 99 + '"""'
LET_THROUGH = [
    (
        no_private_names_in_text,
        'f"{rows.n} rows, {chunk.shape}, {type(x_priv).__name__}, {len(x_priv)}"',
    ),
    (
        functions_can_be_read_at_once,
        f"def f(a, b, c, d, e, f, g, h, *, i, j):\n    {LONG_DOCSTRING}\n" + "    x = 1\n" * 50,
    ),
    (
        clocks_have_room,
        "import time\ntime.sleep(0.1)\nsubprocess.run([], timeout=PATIENCE)\n','.join(['a'])\nLedger(timeout=0.05)\n"
        "@pytest.mark.bench\ndef test_lap():\n    time.perf_counter()\n"
        "@settings(deadline=None)\n@given(x)\ndef test_a(x): ...\n",
    ),
    (
        chance_without_a_seed,
        "np.random.default_rng(0)\nnp.random.default_rng([seed, 1])\nrandom.Random(seed)\nfrom random import Random\n"
        "np.random.Generator(np.random.PCG64(3))\nnp.random.default_rng(seed=4)\nrng.normal()\n",
    ),
    (no_unsafe_compiler_flags, "# never -ffast-math\nall:\n"),
]


@pytest.mark.parametrize(("rule", "fine"), LET_THROUGH)
def test_rule_lets_through(rule, fine):
    assert rule(Source("fastpubpriv/fine.py", fine)) == []
    assert (
        no_unsafe_compiler_flags(Source("csrc/a.c", "/* never -ffast-math */ int f(void);")) == []
    )


# ---- Rules on consistency between files ------------------------------------------------------------------------------
SECTIONS = ("Parameters", "Returns", "Raises", "Privacy", "See Also", "Notes", "Examples")


def undocumented(function: Callable[..., object]) -> list[str]:
    """Return the sections missing from a numpydoc docstring; `test_docs.py` checks the parameters."""
    text = inspect.getdoc(function) or ""
    return [
        section
        for section in SECTIONS
        if not re.search(rf"(?m)^{section}\n-{{{len(section)}}}$", text)
    ]


def functions(module: types.ModuleType) -> dict[str, Callable[..., object]]:
    """Return the public functions that a module defines."""
    found = {
        name: f
        for name, f in vars(module).items()
        if inspect.isfunction(f) and not name.startswith("_")
    }
    return {name: f for name, f in found.items() if f.__module__ == module.__name__}


@pytest.mark.parametrize(
    "function",
    [
        getattr(fastpubpriv, name)
        for name in fastpubpriv.__all__
        if inspect.isfunction(getattr(fastpubpriv, name))
    ],
    ids=lambda function: function.__name__,
)
def test_public_function_is_documented(function):
    assert undocumented(function) == []


def test_documentation_rule_catches():
    def planted(x_priv, *, budget):
        """Mean.

        Parameters
        ----------
        x_priv : array
        """

    assert undocumented(planted) == [
        "Returns",
        "Raises",
        "Privacy",
        "See Also",
        "Notes",
        "Examples",
    ]


def unexplained(modules: list[Source], notes: dict[str, str]) -> list[str]:
    """Return functions and measurements that release without a note of their name, and notes without such a function."""
    callers = set()
    for source in modules:
        nodes = list(source.nodes)
        methods = {
            method: kind.name
            for kind in nodes
            if isinstance(kind, ast.ClassDef)
            for method in kind.body
            if isinstance(method, ast.FunctionDef) and method.name in {"release", "priced_query"}
        }
        for function in (node for node in nodes if isinstance(node, ast.FunctionDef)):
            calls = {
                spelled(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)
            }
            # `run.release(...)` and `measurement.release(...)` release a measurement, which has its note.
            if (
                function.name == "priced_query"
                or calls & {"release", "release.release", "release_query"}
                or any(
                    name.split(".")[-1]
                    in {"release_choice", "release_stable", "release_reports", "release_codes"}
                    for name in calls
                )
            ):
                callers.add(methods.get(function, function.name))
    titles = {
        match[1] for text in notes.values() if (match := re.match(r"# Privacy note: `(\w+)`", text))
    }
    return sorted(callers - titles - {"NoisyMeasurement", "release_query"}) + sorted(
        titles - callers - {"release"}
    )


def test_every_release_has_its_privacy_note():
    notes = {s.path: s.text for s in sources("fastpubpriv/mechanisms/notes/*.md")}
    assert unexplained(package(), notes) == []
    for source in package():
        for name in re.findall(r"`?notes/(\w+\.md)`?", source.text):
            assert f"fastpubpriv/mechanisms/notes/{name}" in notes, source.path


def test_note_rule_catches():
    planted = [Source("m.py", "def release_median(rows):\n    return release(rows)")]
    assert unexplained(planted, {}) == ["release_median"]
    planted = [
        Source("m.py", "class Median:\n    def release(self, rows):\n        return release(rows)")
    ]
    assert unexplained(planted, {}) == ["Median"]
    planted = [
        Source(
            "m.py",
            "class Median:\n    def priced_query(self, account, cost, n):\n        return query",
        )
    ]
    assert unexplained(planted, {}) == ["Median"]
    planted = [Source("m.py", "def release_cells(rows):\n    return release_stable(rows)")]
    assert unexplained(planted, {}) == ["release_cells"]
    assert unexplained([], {"a.md": "# Privacy note: `release_mode`\n"}) == ["release_mode"]


NO_TWIN = {
    "grouped_rows": "tree_assign, then rows_group",
    "parents_of": "bookkeeping of a tree's nodes",
    "path_to": "bookkeeping of a tree's nodes",
    "write_keys": "bins_keys into an array of the caller",
    "collect": "tested with tables, by the twins `bins_count` and `bins_count_tuples`",
    "merged": "tested with tables, by the twins `bins_count` and `bins_count_tuples`",
    "table_bytes": "a bound on memory; measured instead",
    "key_bytes": "a bound on memory; measured instead",
    "merge_bytes": "a bound on memory; measured instead",
    "density_room": "empty memory",
    "cells_apart": "how far counters lie apart",
    "workspace": "memory, and a law as C reads it",
    "prepare": "compiles, and finds nothing",
    "kernel_names": "a list of names",
    "loss_fields": "a loss as C reads it",
    "kernel_function": "the address of a function of the C library",
    "instruction_set": "what the processor has",
    "interface_version": "a number of the C library",
    **dict.fromkeys(
        ("row_gradients", "row_values", "loss_gradients", "public_gradients"),
        "calls of the caller's function",
    ),
    **dict.fromkeys(
        ("decay", "whitened", "likeliest", "soft_parts"), "NumPy, and the twin of `_mixture_loops`"
    ),
    "warmup": "imports and compiles, and finds nothing",
    "isolated_row": "that of `most_isolated`, which checks its rows first",
    "is_compiled": "what a function of the caller's is",
}


def without_twin(fast: set[str], slow: set[str]) -> set[str]:
    return fast - slow - NO_TWIN.keys()


def functions_of(folder: str, home: str) -> set[str]:
    """Return the public functions of the public modules of a folder, imported as `home`."""
    topics = [Path(s.path).stem for s in sources(f"{folder}/*.py")]
    return {
        name
        for topic in topics
        if not topic.startswith("_")
        for name in functions(importlib.import_module(f"{home}.{topic}"))
    }


def test_every_kernel_has_a_twin():
    fast = functions_of("fastpubpriv/kernels", "fastpubpriv.kernels")
    slow = functions_of("tests/twins", "twins")
    assert len(fast) >= 8
    assert without_twin(fast, slow) == set()
    assert without_twin(fast | {"planted_kernel"}, slow) == {"planted_kernel"}


def leaning_twins(source: Source) -> list[str]:
    """A twin imports only NumPy, SciPy and the values that describe a pass, so that it shares no fault with its kernel."""
    allowed = (
        "twins",
        "numpy",
        "scipy",
        "fastpubpriv._types",
        "fastpubpriv.rowwise",
        *sys.stdlib_module_names,
    )
    return [
        source.complaint(node, f"a twin imports {name}")
        for node in source.nodes
        for name in imported(node)
        if name != "fastpubpriv" and not within(name, *allowed)
    ]


def test_twins_stand_by_themselves():
    assert [found for s in sources("tests/twins/*.py") for found in leaning_twins(s)] == []
    for planted in (
        "from fastpubpriv.kernels import rows",
        "from fastpubpriv import validation",
        "import numba",
    ):
        assert leaning_twins(Source("tests/twins/planted.py", planted))


def unlisted(files: set[str], build: str) -> set[str]:
    return {
        name for name in files if not re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", build)
    }


def test_every_c_file_is_built():
    files = {Path(s.path).name for s in sources("csrc/*.c")}
    assert "chacha.c" in files
    library = {name for name in files if not name.startswith("test_")}
    assert unlisted(library, (ROOT / "csrc/build_ffi.py").read_text(encoding="utf-8")) == set()
    makefile = (ROOT / "csrc/Makefile").read_text(encoding="utf-8")
    assert unlisted(library, makefile) == set()
    assert "$(wildcard test_*.c)" in makefile
    assert unlisted({"new.c"}, "renew.c new.cc") == {"new.c"}


def same_names(paths: Iterable[Path]) -> dict[str, int]:
    return {
        name: count for name, count in Counter(path.name for path in paths).items() if count > 1
    }


@pytest.mark.parametrize("where", ["tests/**/test_*.py", "fastpubpriv/**/[!_]*.py"])
def test_no_two_files_have_one_name(where):
    """Names of files are unique, as pytest imports tests by name alone."""
    assert same_names(ROOT.glob(where)) == {}
    assert same_names([Path("a/test_x.py"), Path("b/test_x.py")]) == {"test_x.py": 2}


# A ball of the public cover, and a ball that constrains weights: users import each from its package.
BOTH_PUBLIC = {"Ball"}
# Named constants of modules. Those of a subsystem with a table are in it, except limits of the machine and of texts.
MOST_NUMBERS = 855
TABLES = {
    "fastpubpriv/distributions/": "fastpubpriv/distributions/tuning.py",
    "fastpubpriv/gaussians/": "fastpubpriv/gaussians/gaussian_tuning.py",
    "fastpubpriv/mixtures/separated/": "fastpubpriv/mixtures/mixture_tuning.py",
    "fastpubpriv/mixtures/axis_aligned/": "fastpubpriv/mixtures/mixture_tuning.py",
    "fastpubpriv/regression/": "fastpubpriv/regression/regression_tuning.py",
}
# Modules of these folders whose numbers belong to their own model.
OWN_NUMBERS = {
    "fastpubpriv/distributions/norms.py",
    "fastpubpriv/distributions/rank_model.py",
    "fastpubpriv/gaussians/coinpress_covariance.py",
    "fastpubpriv/gaussians/covariances_of_groups.py",
    "fastpubpriv/gaussians/hypothesis_selection.py",
    "fastpubpriv/gaussians/lifted.py",
    "fastpubpriv/gaussians/pca.py",
    "fastpubpriv/gaussians/recursive.py",
    "fastpubpriv/gaussians/shape_loss.py",
}
NO_TUNING = {
    "LARGEST_EXPONENT", "MOST_NAMED", "HELD", "BOTH", "SHELLS", "DOWN", "UP", "SLACK", "MAX_CANDIDATES",
    "MOST_CANDIDATES", "MOST_COMPONENTS", "MOST_EDGES", "MOST_CELLS", "MOST_GATHERED", "MOST_WORK", "SEED",
    "PUBLIC_SEED", "FINE", "LEAST_SHARE", "LEAST_RADIUS", "STD_FLOOR", "DECODER_SHARE", "STEP_FACTOR", "PRIVATE_SHELL",
    "SHELL_SHARE", "_BATCH", "_EXPONENTS", "_BLOCK", "_SAME_SCORE", "_FARTHEST", "_CELL_BATCH", "_NARROW",
    "_ROW_BATCH", "SEARCH_SECONDS", "ROW_SECONDS", "PAIR_SECONDS", "_DENSITY_SECONDS", "POINTS_OF_CELL", "KEPT_BYTES",
    "_FLOAT32_WHOLE", "_LONGEST_LABEL", "MOST_STEPS", "_MOST_STEPS", "_LARGEST", "MOST_CLASS_WEIGHT", "MOST_SCALE",
    "MOST_RATIO", "_MOST_CLASSES", "_MOST_NAMED", "MOST_LEVELS", "_LINEAR_MODEST",
}  # fmt: skip


def is_number(node: ast.AST | None) -> bool:
    """Return whether this is a number, a fraction, or an expression or tuple of such."""
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float)
    if isinstance(node, ast.Call):
        return spelled(node.func) == "Fraction" and all(map(is_number, node.args))
    parts = {ast.UnaryOp: ("operand",), ast.BinOp: ("left", "right")}.get(type(node), ())
    each = node.elts if isinstance(node, ast.Tuple) else [getattr(node, part) for part in parts]
    return bool(each) and all(map(is_number, each))


def numbers_of(source: Source) -> list[str]:
    """Return the capitalized names of a module's numbers."""
    pairs = []
    for node in parsed(source.text).body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            several = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
            pairs += (
                zip(target.elts, node.value.elts, strict=True)
                if several
                else [(target, node.value)]
            )
    return [spelled(name) for name, value in pairs if spelled(name).isupper() and is_number(value)]


def test_tuned_numbers_stand_in_tables_and_become_fewer():
    found = {source.path: numbers_of(source) for source in package()}
    assert sum(map(len, found.values())) <= MOST_NUMBERS
    for folder, table in TABLES.items():
        outside = {
            path: names
            for path, names in found.items()
            if path.startswith(folder) and path != table and path not in OWN_NUMBERS
        }
        assert [name for names in outside.values() for name in names if name not in NO_TUNING] == []
    assert numbers_of(
        Source("a.py", "A, B = 1, Fraction(-1, 2)\nC = 2 * x\n_D: float = 2.0**-3")
    ) == ["A", "B", "_D"]


def same_classes(modules: list[Source]) -> set[str]:
    names = Counter(
        node.name for s in modules for node in parsed(s.text).body if isinstance(node, ast.ClassDef)
    )
    return {name for name, count in names.items() if count > 1}


def test_no_two_classes_have_one_name():
    assert same_classes(package()) == BOTH_PUBLIC
    assert same_classes([Source("a.py", "class A: ..."), Source("b.py", "class A: ...")]) == {"A"}


# Obsolete words; `docs/dev` lists the old names.
OLD_WORDS = re.compile(
    r"\b([Cc]ounts? for nothing|[Rr]eadings|[Ss]ets of instructions|[Oo]ne's own"
    r"|Payer|TreeScope|NodePayer|CostTally|put_back|lies_far)\b"
)


def test_old_words_are_gone():
    files = [s for s in package() + sources("docs/[!e]*/*.md", "*.md") if s.path != "CHANGELOG.md"]
    assert {
        s.path: words
        for s in files
        if (words := [found[0] for found in OLD_WORDS.finditer(s.text)])
    } == {}
    assert [
        found[0] for found in OLD_WORDS.finditer("It counts for nothing, in sets of instructions")
    ] != []


# Uninformative names.
OLD_NAMES = {
    "found", "kept", "told", "said", "seen", "looked", "rung", "climb", "Run", "Outlook", "Look", "Noisy", "crew", "lent",
}  # fmt: skip


def old_names(source: Source) -> list[str]:
    """Return uninformative names of variables, arguments, functions, classes and attributes."""
    of = {
        ast.Name: "id",
        ast.arg: "arg",
        ast.Attribute: "attr",
        ast.FunctionDef: "name",
        ast.ClassDef: "name",
    }
    names = ((node, getattr(node, of.get(type(node), ""), None)) for node in source.nodes)
    return [
        source.complaint(node, f"{name} says nothing of what it is")
        for node, name in names
        if name in OLD_NAMES
    ]


def test_old_names_are_gone():
    assert [words for source in package() for words in old_names(source)] == []
    assert (
        len(
            old_names(
                Source("a.py", "class Run:\n    def told(self, seen):\n        found = self.kept")
            )
        )
        == 5
    )


# British spellings; names of C functions and of colors of other libraries are exempt.
BRITISH = re.compile(
    r"(?<!rows_)([Cc]entre|[Cc]entring|[Nn]eighbour|[Cc]olour|[Bb]ehaviour|[Ll]abelled|[Mm]odelled|[Ff]avour"
    r"|([Nn]ormal|[Mm]inim|[Mm]axim|[Rr]andom|[Qq]uant)is(e|ing))"
)


def misspelt(text: str) -> list[str]:
    """Return the words with British spelling."""
    return [found[0] for found in BRITISH.finditer(text)]


def test_spelling_is_american():
    files = [
        *sources("fastpubpriv/**/*.py"),
        *sources("fastpubpriv/**/*.md"),
        *sources("docs/**/*.md"),
        *sources("*.md"),
    ]
    assert {source.path: words for source in files if (words := misspelt(source.text))} == {}
    assert misspelt("the neighbouring centre, rows_quantise, center") == ["neighbour", "centre"]


if __name__ == "__main__":
    lower_the_list()
