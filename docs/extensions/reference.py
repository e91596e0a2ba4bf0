"""Write the reference: a page for every public name, by subject. The examples of a page run when it is written."""

from __future__ import annotations

import hashlib
import inspect
import re
import textwrap
from pathlib import Path

from reference_examples import documentation, failures, find, tests_of
from reference_groups import DATA, GROUPS, Group
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)


def short(name: str) -> str:
    """Return the name as written after `import fastpubpriv as fpp`."""
    return name.removeprefix("fastpubpriv.")


def page_name(name: str) -> str:
    """Return the file name of a page; `plan` and `Plan` differ even on case-insensitive file systems."""
    path = short(name).replace(".", "/")
    return f"{path}_class" if name.rpartition(".")[2][0].isupper() else path


def first_paragraph(name: str) -> str:
    """Return the first paragraph of a name's documentation, as one line of Markdown."""
    words = " ".join(documentation(name).split("\n\n")[0].split())
    return re.sub(r"(?<!`)`([^`]+)`(?!`)", r"{name}`\1`", words).replace("|", r"\|")


def page(name: str) -> str:
    """Return the page of a name."""
    title = f"# `{short(name)}`\n"
    if name in DATA:
        directive = f".. py:data:: {name}\n\n{textwrap.indent(DATA[name], '   ')}"
    elif inspect.isclass(find(name)):
        directive = class_directive(name)
    else:
        directive = f".. autofunction:: {name}"
    return f"{title}\n```{{eval-rst}}\n{directive}\n```\n"


def class_directive(name: str) -> str:
    """Return the directive of a class, with its methods and those of its base classes in this package."""
    value = find(name)
    if issubclass(value, BaseException):
        return f".. autoexception:: {name}"
    foreign = [
        base.__name__ for base in value.__mro__[1:] if not base.__module__.startswith("fastpubpriv")
    ]
    return f".. autoclass:: {name}\n   :members:\n   :inherited-members: {', '.join(foreign)}"


def group_page(group: Group) -> str:
    """Return the overview of one subject, with a line for each name."""
    rows = [
        f"| [`{short(name)}`]({page_name(name)}.md) | {first_paragraph(name)} |"
        for name in group.names
    ]
    entries = [page_name(name) for name in group.names]
    lines = [f"# {group.title}", "", group.intro, "", "| name | what it is |", "|---|---|", *rows]
    return "\n".join([*lines, "", "```{toctree}", ":hidden:", "", *entries, "```", ""])


def write(app: Sphinx) -> None:
    """Write all pages; unchanged ones are not rewritten, as their examples have run."""
    folder = Path(app.srcdir) / "reference" / "api"
    wanted = {folder / f"{group.slug}.md": group_page(group) for group in GROUPS}
    names = {folder / f"{page_name(name)}.md": name for group in GROUPS for name in group.names}
    for path, name in names.items():
        wanted[path] = page(name) + documentation_mark(name)
    for path in set(folder.rglob("*.md")) - set(wanted):
        path.unlink()
    for path, text in wanted.items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        if path in names:
            for failure in failures(names[path]):
                logger.warning("an example of %s", failure)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def documentation_mark(name: str) -> str:
    """Return a comment with a hash of the docstrings on a page, so that the page is rewritten when they change."""
    shown = [test.docstring for test in tests_of(name)] + [documentation(name)]
    return f"\n% {hash_of(''.join(text for text in shown if text))}\n"


def hash_of(text: str) -> str:
    """Return a short hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx collects the sources."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
