"""The last check of a build: no page fetches anything, and every link within the book leads to a place that exists."""

from __future__ import annotations

from pathlib import Path

from page_checks import broken
from sphinx.application import Sphinx
from sphinx.errors import SphinxError


class BrokenPagesError(SphinxError):
    """A page of the book is not whole."""

    category = "Pages"


def check(app: Sphinx, error: Exception | None) -> None:
    """Fail the build with all that is wrong."""
    if error is None and app.builder.name == "html":
        found = broken(Path(app.outdir).resolve())
        if found:
            raise BrokenPagesError("\n".join(found))


def setup(app: Sphinx) -> dict[str, bool]:
    """After everything else."""
    app.connect("build-finished", check, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
