"""The C library about itself: every exported function is held to the rule for pointers, and both compilers can read the source."""

import gc
import re
import sys
import weakref
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.errors import raises

from fastpubpriv.cli import tools
from fastpubpriv.cli.app import main
from fastpubpriv.kernels import _cbuf, _cext, _compiled

CSRC = Path(__file__).resolve().parents[2] / "csrc"


def takes_pointers(header: str) -> set[str]:
    """Names of the functions declared in a header that have a pointer among their arguments."""
    without_comments = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    return {
        name
        for name, rest in re.findall(r"^\w+ (fpp_\w+)\(([^;]*)\);", without_comments, re.MULTILINE)
        if "*" in rest
    }


def unchecked(functions: set[str], tests: str) -> set[str]:
    """Functions that no line of a test file calls with NULL; `##type` stands for f64 and f32."""
    called = set(re.findall(r"(fpp_\w+?)\([^;]*?NULL", tests))
    called |= {
        name
        for line in tests.splitlines()
        if "CHECK_RANGE(" in line
        for name in re.findall(r"fpp_\w+", line)
    }
    families = set(re.findall(r"(fpp_\w+?_)##type\([^;]*?NULL", tests))
    return {
        name for name in functions if name not in called and name[: -len("f64")] not in families
    }


def test_every_function_is_held_to_the_rule_for_pointers():
    functions = takes_pointers((CSRC / "fpp.h").read_text(encoding="utf-8"))
    tests = "".join(
        path.read_text(encoding="utf-8")
        for path in [
            *sorted(CSRC.glob("test_arguments*.c")),
            CSRC / "test_columns.c",
            CSRC / "test_gradients.c",
        ]
    )
    assert len(functions) >= 30
    assert unchecked(functions, tests) == set()
    assert unchecked({"fpp_planted_f64", "fpp_words_u64"}, tests) == {"fpp_planted_f64"}


def foreign_shuffles(source: str) -> int:
    """Uses of the builtin that clang does not have."""
    return source.count("__builtin_shuffle(")


def test_only_the_header_of_the_two_compilers_shuffles():
    found = {
        path.name
        for path in CSRC.glob("*.[ch]")
        if foreign_shuffles(path.read_text(encoding="utf-8"))
    }
    assert found == {"internal.h"}
    assert foreign_shuffles("a = __builtin_shuffle(a, b, (VI){0, 2});") == 1


def test_a_stale_extension_is_told_at_its_import_and_on_the_command_line(monkeypatch):
    assert _compiled.declared() == _cext.lib.FPP_DECLARATION
    _compiled.check_compiled()
    monkeypatch.setattr(
        _cext, "lib", SimpleNamespace(FPP_DECLARATION=_cext.lib.FPP_DECLARATION + 1)
    )
    raises(ImportError, "older than its Python part: run `python setup", _compiled.check_compiled)
    monkeypatch.setattr(tools.info, "callback", lambda json_path: _compiled.check_compiled())
    result = CliRunner().invoke(main, ["info"])
    assert "older than its Python part" in result.output
    assert "bug" not in result.output


def test_an_extension_without_its_sources_is_not_compared(monkeypatch, tmp_path):
    monkeypatch.setattr(
        _compiled, "__file__", str(tmp_path / "fastpubpriv" / "kernels" / "_compiled.py")
    )
    assert _compiled.declared() is None
    monkeypatch.setattr(_cext, "lib", SimpleNamespace(FPP_DECLARATION=1))
    _compiled.check_compiled()


def test_a_missing_extension_says_how_to_make_one(monkeypatch):
    monkeypatch.setitem(sys.modules, "fastpubpriv.kernels._cext", None)
    raises(ImportError, "missing or cannot be loaded", _compiled.check_compiled)


@pytest.mark.parametrize(
    "pointer",
    [
        _cbuf.inp,
        _cbuf.out,
        lambda x: _cbuf.rows(x, 3)[0],
        lambda x: _cbuf.rows(x[::2], 3)[0],
        lambda x: _cbuf.rows(x[:, :2], 2)[0],
        lambda x: _cbuf.strided(x[:, 1])[0],
        lambda x: _cbuf.strided(x[::-1, 2])[0],
        lambda x: _cbuf.new("double *[]", [_cbuf.inp(x)]),
        lambda x: _cbuf.new("fpp_normals *", (1, 3, _cbuf.inp(x), _cbuf.inp(x))),
    ],
)
def test_a_pointer_keeps_its_array_alive(pointer):
    rows = np.ones((4, 3))
    alive = weakref.ref(rows)
    made = pointer(rows)
    del rows
    gc.collect()
    assert alive() is not None  # a thread may be at work on it after an interrupt
    # In a call of Python a signal handler may run, whose exception would be lost.
    calls = []
    sys.setprofile(lambda frame, event, argument: calls.append(event))
    del made
    sys.setprofile(None)
    assert "call" not in calls
    gc.collect()
    assert alive() is None
