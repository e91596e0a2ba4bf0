"""The directive `shell`: commands that run while the book is built, shown with their output.

Commands of one page share an initially empty folder. A command with an exit code other than `:exit:` fails the build.
With `:hide:` nothing is shown; `:lines: N` shows the first N lines of the output.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

logger = logging.getLogger(__name__)
ROOT = Path(__file__).resolve().parents[2]


def split(lines: list[str]) -> list[str]:
    """Return one text for each command: a line with its continuation lines."""
    commands: list[str] = []
    going_on = False
    for line in lines:
        if going_on:
            commands[-1] += "\n" + line
        elif line.strip():
            commands.append(line)
        going_on = line.endswith("\\")
    return commands


def run(command: str, folder: Path) -> tuple[int, str]:
    """Run one command with the `fastpubpriv` and `python` of the build."""
    environment = {
        name: value for name, value in os.environ.items() if name != "FASTPUBPRIV_TRACEBACK"
    }
    path = os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", "")])
    python_path = os.pathsep.join(filter(None, [str(ROOT), environment.get("PYTHONPATH")]))
    environment |= {"PATH": path, "PYTHONPATH": python_path, "COLUMNS": "100", "NO_COLOR": "1"}
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=300, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


class Shell(SphinxDirective):
    """Directive `shell`; see the module."""

    has_content = True
    option_spec: ClassVar = {
        "exit": directives.nonnegative_int,
        "hide": directives.flag,
        "lines": directives.positive_int,
    }

    def run(self) -> list[nodes.Node]:
        """Run the commands and show them."""
        if "hide" in self.options:
            commands = ["\n".join(self.content)]
        else:
            commands = split(list(self.content))
        shown = []
        for command in commands:
            code, printed = run(command, self.folder())
            if code != self.options.get("exit", 0):
                logger.warning(
                    "%r ended with code %d:\n%s",
                    command,
                    code,
                    printed,
                    location=self.get_location(),
                )
            lines = printed.rstrip().splitlines()
            lines = [line.rstrip() for line in lines[: self.options.get("lines", len(lines))]]
            shown.append("\n".join(["$ " + command, *lines]))
        if "hide" in self.options:
            return []
        text = "\n".join(shown)
        return [nodes.literal_block(text, text, language="console")]

    def folder(self) -> Path:
        """Return the folder of this page."""
        folders = self.env.app.shell_folders  # type: ignore[attr-defined]
        name = self.env.docname
        if name not in folders:
            folders[name] = tempfile.mkdtemp(prefix="book-")
        return Path(folders[name])


def prepare(app: Sphinx) -> None:
    """Initialize the map from pages to folders."""
    app.shell_folders = {}  # type: ignore[attr-defined]


def clean(app: Sphinx, error: Exception | None) -> None:
    """Remove the folders."""
    for folder in app.shell_folders.values():  # type: ignore[attr-defined]
        shutil.rmtree(folder, ignore_errors=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("shell", Shell)
    app.connect("builder-inited", prepare)
    app.connect("build-finished", clean)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
