"""Builds the C extension, its files side by side; everything else about the package is in pyproject.toml."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor

from setuptools import setup
from setuptools.command.build_ext import build_ext


class BuildSideBySide(build_ext):
    """One compiler for each processor: setuptools compiles the files of an extension one after the other."""

    def build_extensions(self):
        """Let the compiler take each source as a job of its own; one sentence says if there is no compiler."""
        # the compiler of Windows is found by setuptools
        command = getattr(self.compiler, "compiler_so", [""])[0]
        if command and shutil.which(command) is None:
            raise SystemExit(
                f"fastpubpriv needs a C compiler and {command!r} was not found: install the packages gcc and python3-dev "
                "(Debian, Ubuntu), gcc and python3-devel (Fedora), or on macOS the command line tools (xcode-select --install)."
            )
        compile_all = self.compiler.compile

        def compile_each(sources, **options):
            with ThreadPoolExecutor(os.cpu_count()) as jobs:
                done = list(jobs.map(lambda source: compile_all([source], **options), sources))
            return [name for names in done for name in names]

        self.compiler.compile = compile_each
        super().build_extensions()


# The extension keeps to Python's stable interface, so one wheel serves every version from 3.11 on.
setup(
    cffi_modules=["csrc/build_ffi.py:ffi"],
    cmdclass={"build_ext": BuildSideBySide},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
