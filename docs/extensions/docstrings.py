"""Read docstrings as plain text with names in single backticks: escape characters that are markup in reStructuredText."""

from __future__ import annotations

import re
from typing import Any

from reference_groups import PARAMETER_GROUPS, group_parameters
from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, NumpyDocstring

# Shown as text: as one of its own sections napoleon would turn the names into references.
SEE_ALSO = "See Also"

# Types are text such as "(dim,) float64", not links, so parameters and attributes are shown as lists of text.
FORM = Config(
    napoleon_use_param=False,
    napoleon_use_rtype=False,
    napoleon_custom_sections=[
        *((title, "params_style") for title in ("Attributes", *PARAMETER_GROUPS)),
        "Privacy",
        "Guarantees",
        SEE_ALSO,
    ],
)
MARKUP = re.compile(r"[*|\\]|(?<=\w)_(?=[\s,.;:)]|$)")
STARRED_PARAMETER = re.compile(r"\s*\*{1,2}\w+ :")


def escape(line: str) -> str:
    """Return the line with markup escaped outside backticks; the name of a parameter is left to napoleon."""
    if STARRED_PARAMETER.match(line):
        return line
    parts = re.split(r"(``.*?``|`[^`]*`)", line)
    return "".join(part if part.startswith("`") else MARKUP.sub(r"\\\g<0>", part) for part in parts)


def related(lines: list[str]) -> list[str]:
    """Return the lines with the section See Also as a list of names, which link to their pages, and when to take each."""
    text = "\n".join(lines)
    section = re.search(r"(?ms)^See Also\n-+\n(.*?)(?=^\w[\w ]*\n---|\Z)", text)
    if section is None:
        return lines
    entries = re.sub(r"(?m)^([\w.]+) : (.+)$", r"- `\1`: \2", section[1].rstrip())
    shown = f"{SEE_ALSO}\n{'-' * len(SEE_ALSO)}\n{entries}\n\n"
    return (text[: section.start()] + shown + text[section.end() :]).split("\n")


def convert(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Convert a numpydoc docstring to reStructuredText, in place."""
    if what in ("function", "class"):
        lines[:] = related(group_parameters(lines))
    example = False
    for index, line in enumerate(lines):
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        # napoleon escapes names of parameters and attributes itself
        heading = re.match(r"\s*\w+_? : ", line)
        if not example:
            lines[index] = line if heading and "|" not in line and "*" not in line else escape(line)
    # A property is passed as a method, or napoleon would read words before a colon as its type.
    kind = "method" if what in ("property", "attribute") else what
    lines[:] = NumpyDocstring(lines, FORM, app, kind, name, value, options).lines()


def skip(app: Sphinx, what: str, name: str, value: Any, skipped: bool, options: Any) -> bool | None:
    """Skip methods that our classes inherit from another library, which documents them itself."""
    function = getattr(value, "fget", value)
    home = getattr(function, "__module__", None) or "fastpubpriv"
    return None if home.startswith("fastpubpriv") else True


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the conversion of docstrings."""
    app.connect("autodoc-process-docstring", convert)
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
