"""The C library without Python: the files of `make install`, its exported symbols, and the examples in C, Rust and Numba."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fastpubpriv.kernels._cext import ffi, lib

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
MEANS = re.compile(r"mean of column (\d): (\S+)")
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]

pytestmark = [
    pytest.mark.serial,
    pytest.mark.skipif(
        not shutil.which("make") or not COMPILERS, reason="needs make and a C compiler"
    ),
]


def run(*command: object, cwd: Path | None = None, **variables: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={
            **os.environ,
            **variables,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def check_means(printed: str) -> None:
    found = {int(column): float(mean) for column, mean in MEANS.findall(printed)}
    assert found == {column: pytest.approx(0.495 + column, abs=5e-4) for column in range(3)}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Return a copy of the sources, so that nothing is built in the tree."""
    folder = tmp_path_factory.mktemp("library") / "csrc"
    shutil.copytree(
        ROOT / "csrc", folder, ignore=shutil.ignore_patterns("_build", "fuzz", "tables")
    )
    return folder


def install(sources: Path, *variables: str, target: str = "install") -> None:
    run("make", "-s", "-j2", "-C", sources, target, f"CC={COMPILERS[0]}", "CFLAGS=-O1", *variables)


@pytest.fixture(scope="module")
def prefix(sources):
    """Return the prefix of the installed library."""
    install(sources, f"PREFIX={sources.parent / 'usr'}")
    return sources.parent / "usr"


def test_only_what_the_header_declares_is_exported(prefix):
    header = (ROOT / "csrc/fpp.h").read_text(encoding="utf-8")
    declared = set(re.findall(r"\b(fpp_[a-z0-9_]+)\(", header))
    version = re.search(r"FPP_ABI_VERSION (\d+)", header).group(1)
    shared = run(
        "nm", "-D", "--defined-only", "--with-symbol-versions", prefix / "lib/libfastpubpriv.so"
    )
    names = [line.split()[-1] for line in shared.splitlines()]
    functions = {name for name in names if not name.startswith("FASTPUBPRIV_")}
    assert functions == {
        f"{name}@@FASTPUBPRIV_{version}" for name in declared if not name.startswith("fpp_test_")
    }
    assert len(functions) > 50
    static = run("nm", "-g", "--defined-only", prefix / "lib/libfastpubpriv.a")
    kept = [line.split()[-1] for line in static.splitlines() if len(line.split()) == 3]
    assert len(kept) > 50
    assert [name for name in kept if not name.startswith("fpp_")] == []
    needed = run("nm", "-D", "--undefined-only", prefix / "lib/libfastpubpriv.so")
    assert not re.search(r"\b(malloc|calloc|realloc|free|printf|abort|exit)\b", needed)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_c_example_by_pkg_config(prefix, tmp_path, compiler):
    if not shutil.which("pkg-config"):
        pytest.skip("needs pkg-config")
    flags = run(
        "pkg-config",
        "--cflags",
        "--libs",
        "fastpubpriv",
        PKG_CONFIG_PATH=str(prefix / "lib/pkgconfig"),
    ).split()
    strict = ["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror"]
    run(
        compiler, *strict, EXAMPLES / "private_sum.c", *flags, "-lm", "-o", tmp_path / "private_sum"
    )
    printed = run(tmp_path / "private_sum", LD_LIBRARY_PATH=str(prefix / "lib"))
    check_means(printed)
    assert re.search(r"a report: \((-?\d+), (-?\d+), (-?\d+)\)", printed)


def test_cmake_finds_the_library(prefix, tmp_path):
    if not shutil.which("cmake"):
        pytest.skip("needs cmake")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.15)\nproject(example C)\nfind_package(fastpubpriv 0.1 REQUIRED)\n"
        f"foreach(kind fastpubpriv static)\n  add_executable(sum_${{kind}} {EXAMPLES / 'private_sum.c'})\n"
        "  target_link_libraries(sum_${kind} fastpubpriv::${kind} m)\nendforeach()\n",
        encoding="utf-8",
    )
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path / "build")
    check_means(run(tmp_path / "build/sum_fastpubpriv"))
    check_means(run(tmp_path / "build/sum_static"))


def test_the_rust_example(prefix, tmp_path):
    if not shutil.which("rustc"):
        pytest.skip("needs rustc")
    run("rustc", EXAMPLES / "private_sum.rs", "-L", prefix / "lib", "-o", tmp_path / "private_sum")
    check_means(run(tmp_path / "private_sum", LD_LIBRARY_PATH=str(prefix / "lib")))


def test_the_rust_example_reads_no_byte_beyond_its_structs(prefix, tmp_path):
    # Its row map is on the heap, where valgrind sees a read beyond the last field.
    if not shutil.which("rustc") or not shutil.which("valgrind"):
        pytest.skip("needs rustc and valgrind")
    run("rustc", EXAMPLES / "private_sum.rs", "-L", prefix / "lib", "-o", tmp_path / "private_sum")
    checked = ["valgrind", "-q", "--error-exitcode=9", tmp_path / "private_sum"]
    check_means(run(*checked, LD_LIBRARY_PATH=str(prefix / "lib")))


RUST_TYPES = {"i64": "int64_t", "i32": "int32_t", "f64": "double"}


def structs_of_header() -> dict[str, list[tuple[str, str]]]:
    """Return the fields of each structure in fpp.h as pairs of name and type, "*" for a pointer."""
    header = re.sub(
        r"/\*.*?\*/", "", (ROOT / "csrc/fpp.h").read_text(encoding="utf-8"), flags=re.DOTALL
    )
    structs = {}
    for body, name in re.findall(r"typedef struct \{(.*?)\} (fpp_\w+);", header, re.DOTALL):
        fields = []
        for statement in filter(None, map(str.strip, body.split(";"))):
            kind, first, *more = re.findall(r"\*?[a-z]\w*", statement.removeprefix("const "))
            fields += [
                (each.lstrip("*"), "*" if each[0] == "*" else kind) for each in (first, *more)
            ]
        structs[name] = fields
    return structs


def test_every_struct_has_its_size():
    header = (ROOT / "csrc/fpp.h").read_text(encoding="utf-8")
    assert {f"{name}_size" for name in structs_of_header()} == set(
        re.findall(r"int64_t (fpp_\w+_size)\(void\);", header)
    )
    for name in structs_of_header():
        assert getattr(lib, f"{name}_size")() == ffi.sizeof(name), name


def test_the_structs_of_the_rust_example_are_those_of_the_header():
    text = (EXAMPLES / "private_sum.rs").read_text(encoding="utf-8")
    found = re.findall(r"struct (\w+) \{(.*?)\}", text, re.DOTALL)
    assert [name for name, _ in found] == ["RowMap"]
    fields = re.findall(r"(\w+): ([^,]+),", found[0][1])
    written = [(name, "*" if kind[0] == "*" else RUST_TYPES[kind]) for name, kind in fields]
    assert written == structs_of_header()["fpp_row_map"]


def test_no_other_example_declares_a_struct_again():
    for path in EXAMPLES.rglob("*.*"):
        if path.suffix in (".c", ".py"):
            declared = r"typedef struct|struct \w+ \{|ctypes\.Structure|from_dtype|cffi"
            assert not re.search(declared, path.read_text(encoding="utf-8")), path


def test_uninstall_leaves_nothing(sources, prefix, tmp_path):
    places = (f"DESTDIR={tmp_path}", "PREFIX=/opt/x")
    install(sources, *places)
    assert "prefix=/opt/x" in (tmp_path / "opt/x/lib/pkgconfig/fastpubpriv.pc").read_text(
        encoding="utf-8"
    )
    install(sources, *places, target="uninstall")
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []


def test_the_numba_example():
    printed = run(sys.executable, EXAMPLES / "numba_kernel.py", PYTHONPATH=str(ROOT))
    first = [
        float(number) for number in re.search(r"noisy counts: \[(.*?)\]", printed)[1].split(",")
    ]
    assert len(first) == 5
    assert all(abs(number - 33.5) < 20 for number in first)
