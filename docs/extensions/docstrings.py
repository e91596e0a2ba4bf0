"""Docstrings are plain words with names in single backticks; signs that reStructuredText takes for markup stay signs."""

from __future__ import annotations

import re
from typing import Any

from reference_groups import PARAMETER_GROUPS, group_parameters
from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, NumpyDocstring

# Types are words such as "(dim,) float64", not links, so parameters and attributes are shown as lists of words.
FORM = Config(
    napoleon_use_param=False,
    napoleon_use_rtype=False,
    napoleon_custom_sections=[
        *((title, "params_style") for title in ("Attributes", *PARAMETER_GROUPS)),
        "Privacy",
        "Guarantees",
    ],
)
MARKUP = re.compile(r"[*|\\]|(?<=\w)_(?=[\s,.;:)]|$)")
STARRED_PARAMETER = re.compile(r"\s*\*{1,2}\w+ :")


def escape(line: str) -> str:
    """The line with signs escaped outside backticks; the name of a parameter is left to napoleon."""
    if STARRED_PARAMETER.match(line):
        return line
    parts = re.split(r"(``.*?``|`[^`]*`)", line)
    return "".join(part if part.startswith("`") else MARKUP.sub(r"\\\g<0>", part) for part in parts)


def convert(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Turn a docstring in numpydoc's form into reStructuredText, in place."""
    if what == "function":
        lines[:] = group_parameters(lines)
    example = False
    for index, line in enumerate(lines):
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        heading = re.match(r"\s*\w+_? : ", line)  # napoleon escapes names of parameters and attributes itself
        if not example:
            lines[index] = line if heading and "|" not in line and "*" not in line else escape(line)
    # Told that a property is a method, napoleon does not take words before a colon for its type.
    kind = "method" if what in ("property", "attribute") else what
    lines[:] = NumpyDocstring(lines, FORM, app, kind, name, value, options).lines()


def skip(app: Sphinx, what: str, name: str, value: Any, skipped: bool, options: Any) -> bool | None:
    """Leave out methods that another library puts into our classes; it documents them itself."""
    function = getattr(value, "fget", value)
    home = getattr(function, "__module__", None) or "fastpubpriv"
    return None if home.startswith("fastpubpriv") else True


def setup(app: Sphinx) -> dict[str, bool]:
    """Read every docstring."""
    app.connect("autodoc-process-docstring", convert)
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
