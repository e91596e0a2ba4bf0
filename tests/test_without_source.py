"""The package without its source text: compiled files alone, as in frozen programs, and a zip archive of the Python part."""

import ast
import compileall
import importlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import fastpubpriv
from fastpubpriv.cli import options

PACKAGE = Path(fastpubpriv.__file__).resolve().parent
KEYS = Path(__file__).resolve().parent / "fixed_keys"


@pytest.fixture(scope="module")
def compiled_tree(tmp_path_factory):
    """A folder with the package as files .pyc beside the compiled extension."""
    folder = tmp_path_factory.mktemp("compiled")
    shutil.copytree(PACKAGE, folder / "fastpubpriv", ignore=shutil.ignore_patterns("__pycache__"))
    assert compileall.compile_dir(folder, legacy=True, quiet=1, stripdir=str(folder))
    for source in folder.rglob("*.py"):
        source.unlink()
    return folder


def python(path, *arguments):
    """Run Python with the package from `path`; return the finished process."""
    environment = {**os.environ, "PYTHONPATH": f"{KEYS}{os.pathsep}{path}"}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, cwd="/", capture_output=True, text=True
    )


def test_compiled_files_alone_estimate_a_mean(compiled_tree):
    code = (
        "import fastpubpriv as fpp\n"
        "rows = [[1.0, 2.0], [3.0, 4.0]] * 5000\n"
        "result = fpp.estimate_mean(rows, x_pub=[[0.0, 1.0], [4.0, 5.0]], budget=fpp.ZCDP(rho=1), progress=False)\n"
        "print(fpp.__file__, result.mean.round().tolist())"
    )
    done = python(compiled_tree, "-c", code)
    assert done.stdout == f"{compiled_tree}/fastpubpriv/__init__.pyc [2.0, 3.0]\n", done.stderr


def test_compiled_files_warn_at_the_line_of_the_caller(compiled_tree, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import fastpubpriv as fpp\n\nfpp.ZCDP\nfpp.coinpress_mean([[1.0]], center=0.0, radius=5.0, "
        "budget=fpp.ZCDP(rho=1), random_state=0)\n"
    )
    assert f"{script}:4: SeededNoiseWarning" in python(compiled_tree, script).stderr


@pytest.mark.parametrize("command", ["mean", "train"])
def test_compiled_files_have_the_same_command_line(compiled_tree, command):
    asked = ["-m", "fastpubpriv", command, "--help"]
    with_source = python(PACKAGE.parent, *asked)
    assert "--private" in with_source.stdout
    assert python(compiled_tree, *asked).stdout == with_source.stdout


@pytest.mark.parametrize(
    "function", ["estimate_mean", "quantiles", "value_counts", "learn_separated_mixture", "train"]
)
def test_options_are_those_of_the_imported_function(function):
    assert options.parameters_of(function) == options.imported_parameters(function)


def test_a_zip_archive_imports_and_names_what_is_missing(tmp_path):
    with zipfile.ZipFile(tmp_path / "fastpubpriv.zip", "w") as archive:
        for source in PACKAGE.rglob("*.py"):
            archive.write(source, source.relative_to(PACKAGE.parent))
    code = (
        "import fastpubpriv as fpp\n"
        "print(fpp.ZCDP(rho=1))\n"
        "try:\n    fpp.estimate_mean\n"
        "except fpp.FastPubPrivError as error:\n    print(error)"
    )
    done = python(tmp_path / "fastpubpriv.zip", "-c", code)
    imported, refused = done.stdout.splitlines()
    assert imported == "ZCDP(rho=1.0)"
    assert "No module named 'fastpubpriv.kernels._cext'" in refused
    assert "zip archive" in refused


def test_the_table_of_names_is_that_of_type_checkers():
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    (typed,) = (
        node
        for node in tree.body
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    )
    declared = {node.names[0].asname: node.module for node in typed.body}
    assert declared == fastpubpriv._HOMES
    for name, module in declared.items():
        assert getattr(fastpubpriv, name) is getattr(importlib.import_module(module), name)
