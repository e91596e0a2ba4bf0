"""The last check of a build: no page loads external resources, and no link within the book is broken."""

from __future__ import annotations

from pathlib import Path

from page_checks import broken
from sphinx.application import Sphinx
from sphinx.errors import SphinxError


class BrokenPagesError(SphinxError):
    """A page of the book fails a check."""

    category = "Pages"


def check(app: Sphinx, error: Exception | None) -> None:
    """Fail the build with a list of all errors."""
    if error is None and app.builder.name == "html":
        found = broken(Path(app.outdir).resolve())
        if found:
            raise BrokenPagesError("\n".join(found))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the check as the last step."""
    app.connect("build-finished", check, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
